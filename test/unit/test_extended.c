/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The extensions of DAT 2.0: writes with immediate data, atomic operations, and the events of both.
 * Of DAT 2.0 only.
 */
#include <dat2/dat_ib_extensions.h>

#include "harness.h"
#include "race.h"

#define FULL		NO_RESOURCE(MEMORY)
#define NOT_SUPPORTED	DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE)
#define NOT_IMPLEMENTED DAT_ERROR(DAT_NOT_IMPLEMENTED, DAT_NO_SUBTYPE)
#define BAD_HANDLE_1	DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1)

#define SUPPRESS    DAT_COMPLETION_SUPPRESS_FLAG
#define UNSIGNALLED DAT_COMPLETION_UNSIGNALLED_FLAG
#define SOLICITED   DAT_COMPLETION_SOLICITED_WAIT_FLAG
#define FENCE	    DAT_COMPLETION_BARRIER_FENCE_FLAG

/* a completion of no transfer, so that an event shows what was written to it */
#define NOBODY 0x6e6f6265

static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;

/* The macros of the public header call the provider's function. */
static DAT_RETURN operate(DAT_HANDLE handle, DAT_EXTENDED_OP op, ...)
{
	va_list args;
	DAT_RETURN ret;

	va_start(args, op);
	ret = extended_op(handle, op, args);
	va_end(args);
	return ret;
}
#define dat_extension_op(handle, op, ...) operate(handle, (DAT_EXTENDED_OP)(op), __VA_ARGS__)

/* ---- the sides ---- */

static void setup(void)
{
	pair_connect(&pair);
}

static void setup_thread_safe(void)
{
	client->thread_safe = true;
	server->thread_safe = true;
	pair_connect(&pair);
}

static void setup_without(unsigned caps)
{
	fake_attr()->caps &= ~caps;
	pair_connect(&pair);
}

static void setup_without_immed(void)
{
	setup_without(TP_CAP_IMMED);
}

static void setup_without_atomic(void)
{
	setup_without(TP_CAP_ATOMIC);
}

static void setup_without_any(void)
{
	setup_without(TP_CAP_IMMED | TP_CAP_ATOMIC);
}

static DAT_SRQ_HANDLE srq;

/* The server has its receives from a shared receive queue. */
static void setup_srq(void)
{
	DAT_SRQ_ATTR attr = { .max_recv_dtos = 8, .max_recv_iov = 1 };
	DAT_EP_ATTR ep_attr;

	side_open(server, "fake1");
	ep_attr = ep_attr_default(server);
	ck_dat(srq_create(server->ia, server->pz, &attr, &srq));
	ck_dat(ep_free(server->ep));
	ck_dat(ep_create_with_srq(server->ia, server->pz, server->recv_evd, server->request_evd,
				  server->connect_evd, srq, &ep_attr, &server->ep));
	pair_connect(&pair);
}

static void setup_reads(DAT_COUNT reads)
{
	static DAT_EP_ATTR attr;

	side_open(server, "fake1");
	attr = ep_attr_default(server);
	attr.max_rdma_read_out = reads;
	client->ep_attr = &attr;
	pair_connect(&pair);
}

/* The memory of the server with the privilege for atomic operations. */
struct cell {
	uint64_t value __attribute__((aligned(64)));
	DAT_LMR_HANDLE lmr;
	DAT_RMR_TRIPLET remote;
};

static DAT_RETURN try_cell(const struct side *side, struct cell *cell, unsigned priv)
{
	DAT_REGION_DESCRIPTION region = { .for_va = &cell->value };
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
	DAT_VLEN size;
	DAT_VADDR address;
	DAT_RETURN ret = lmr_create_va(side->ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof(cell->value),
				       side->pz, (DAT_MEM_PRIV_FLAGS)priv, &cell->lmr, &lmr_context,
				       &rmr_context, &size, &address);

	cell->remote = (DAT_RMR_TRIPLET){ .virtual_address = (uintptr_t)&cell->value,
					  .segment_length = sizeof(cell->value),
					  .rmr_context = rmr_context };
	return ret;
}

#define ATOMIC_PRIV (DAT_MEM_PRIV_ALL_FLAG | DAT_IB_MEM_PRIV_REMOTE_ATOMIC)

static void make_cell(const struct side *side, struct cell *cell, uint64_t value)
{
	ck_dat(try_cell(side, cell, ATOMIC_PRIV));
	cell->value = value;
}

static void close_cell(struct cell *cell)
{
	ck_dat(lmr_free(cell->lmr));
}

/* ---- posts ---- */

static DAT_RETURN try_immed_with(uint64_t n, size_t length, DAT_UINT32 immed, unsigned flags)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, length);
	DAT_RMR_TRIPLET remote = target(server, 1024, length);

	return dat_ib_post_rdma_write_immed(client->ep, 1, &iov, cookie_of(n), &remote, immed,
					    flags);
}

static DAT_RETURN try_immed(uint64_t n, unsigned flags)
{
	return try_immed_with(n, 32, (DAT_UINT32)n, flags);
}

static DAT_RETURN try_add(const struct cell *cell, uint64_t n, uint64_t add, unsigned flags)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 8);

	return dat_ib_post_fetch_and_add(client->ep, add, &iov, cookie_of(n), &cell->remote, flags);
}

static DAT_RETURN try_swap(const struct cell *cell, uint64_t n, uint64_t compare, uint64_t swap,
			   unsigned flags)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 8);

	return dat_ib_post_cmp_and_swap(client->ep, compare, swap, &iov, cookie_of(n),
					&cell->remote, flags);
}

static uint64_t fetched(void)
{
	uint64_t value;

	memcpy(&value, client->memory, sizeof(value));
	return value;
}

/* ---- events ---- */

static const DAT_IB_EXTENSION_EVENT_DATA *extension_of(const DAT_EVENT *event)
{
	return (const DAT_IB_EXTENSION_EVENT_DATA *)&event->event_extension_data;
}

static DAT_EVENT expect_extended(const struct side *side, DAT_EVD_HANDLE evd, uint64_t cookie,
				 int operation, int type, DAT_VLEN length)
{
	DAT_EVENT event = expect_event(evd, (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT);
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;

	ck_assert_ptr_eq(event.evd_handle, evd);
	ck_assert_ptr_eq(dto->ep_handle, side->ep);
	ck_assert_uint_eq(dto->user_cookie.as_64, cookie);
	ck_assert_int_eq(dto->status, DAT_DTO_SUCCESS);
	ck_assert_uint_eq(dto->transfered_length, length);
	ck_assert_int_eq((int)dto->operation, operation);
	ck_assert_uint_eq(dto->rmr_context, 0);
	ck_assert_int_eq((int)extension_of(&event)->type, type);
	ck_assert_int_eq((int)extension_of(&event)->status, DAT_OP_SUCCESS);
	return event;
}

static void expect_written(uint64_t cookie, DAT_VLEN length)
{
	expect_extended(client, client->request_evd, cookie, DAT_IB_DTO_RDMA_WRITE_IMMED,
			DAT_IB_RDMA_WRITE_IMMED, length);
}

static void expect_immed(uint64_t cookie, DAT_VLEN length, DAT_UINT32 immed)
{
	DAT_EVENT event = expect_extended(server, server->recv_evd, cookie, DAT_IB_DTO_RECV_IMMED,
					  DAT_IB_RDMA_WRITE_IMMED_DATA, length);

	ck_assert_uint_eq(extension_of(&event)->val.immed.data, immed);
}

static void expect_failed(DAT_EVD_HANDLE evd, uint64_t cookie, int operation, int type,
			  DAT_DTO_COMPLETION_STATUS status)
{
	DAT_EVENT event = expect_event(evd, (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT);
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;

	ck_assert_uint_eq(dto->user_cookie.as_64, cookie);
	ck_assert_int_eq(dto->status, status);
	ck_assert_uint_eq(dto->transfered_length, 0);
	ck_assert_int_eq((int)dto->operation, operation);
	ck_assert_int_eq((int)extension_of(&event)->type, type);
	ck_assert_int_eq((int)extension_of(&event)->status, (int)status);
}

/* ---- writes with immediate data ---- */

static const DAT_UINT32 values[] = { 0, 0x7777, 0x01020304, 0xffffffff };

START_TEST(a_write_brings_its_number_as_it_is)
{
	memcpy(client->memory, "written by the client, 32 bytes.", 32);
	memcpy(server->memory, "not", 4);
	post_recv(server, 9, 0, 64, 0);
	ck_dat(try_immed_with(5, 32, values[_i], 0));
	expect_written(5, 32);
	expect_immed(9, 32, values[_i]);
	ck_assert_mem_eq(server->memory + 1024, client->memory, 32);
	ck_assert_str_eq(server->memory, "not"); /* the memory of the receive is not touched */
	pair_close(&pair);
}
END_TEST

START_TEST(without_segments_the_number_goes_alone)
{
	post_recv(server, 9, 0, 64, 0);
	ck_dat(dat_ib_post_rdma_write_immed(client->ep, 0, NULL, cookie_of(5), NULL, 0xffffffff,
					    0));
	expect_written(5, 0);
	expect_immed(9, 0, 0xffffffff);
	pair_close(&pair);
}
END_TEST

START_TEST(segments_of_no_bytes_are_none)
{
	DAT_LMR_TRIPLET iov[2] = { segment(client, 0, 0), segment(client, 8, 0) };
	DAT_RMR_TRIPLET remote = target(server, 0, 0);

	post_recv(server, 9, 0, 64, 0);
	ck_dat(dat_ib_post_rdma_write_immed(client->ep, 2, iov, cookie_of(5), &remote, 3, 0));
	expect_written(5, 0);
	expect_immed(9, 0, 3);
	pair_close(&pair);
}
END_TEST

START_TEST(a_write_gathers_segments)
{
	DAT_LMR_TRIPLET iov[4];
	DAT_RMR_TRIPLET remote = target(server, 0, 0);

	memcpy(client->memory, "abcdefgh", 8);
	for (unsigned i = 0; i < 4; i++)
		iov[i] = segment(client, 2 * (3 - i), 2);
	post_recv(server, 9, 64, 64, 0);
	ck_dat(dat_ib_post_rdma_write_immed(client->ep, 4, iov, cookie_of(5), &remote, 3, 0));
	expect_written(5, 8);
	expect_immed(9, 8, 3);
	ck_assert_mem_eq(server->memory, "ghefcdab", 8);
	pair_close(&pair);
}
END_TEST

START_TEST(a_shared_receive_queue_tells_the_number_and_the_endpoint)
{
	DAT_LMR_TRIPLET iov = segment(server, 0, 64);

	ck_dat(srq_post_recv(srq, 1, &iov, cookie_of(9)));
	ck_dat(try_immed(5, 0));
	expect_written(5, 32);
	expect_immed(9, 32, 5);
	pair_close_abrupt(&pair);
}
END_TEST

/* As the service thread does with what nobody asks for. */
static void queue_events(DAT_EVD_HANDLE evd)
{
	CANCEL_FORBIDDEN;

	ck_assert(evd_drain(evd));
}

START_TEST(queued_events_keep_their_extension)
{
	post_recv(server, 9, 0, 64, 0);
	post_recv(server, 10, 0, 64, 0);
	ck_dat(try_immed(5, 0));
	post_send(client, 6, 0, 8, 0);
	queue_events(server->recv_evd);
	queue_events(client->request_evd);
	expect_written(5, 32);
	expect_dto(client->request_evd, 6, DAT_DTO_SUCCESS);
	expect_immed(9, 32, 5);
	expect_dto(server->recv_evd, 10, DAT_DTO_SUCCESS);
	pair_close(&pair);
}
END_TEST

START_TEST(queued_events_of_a_shared_receive_queue_keep_theirs)
{
	DAT_LMR_TRIPLET iov = segment(server, 0, 64);

	ck_dat(srq_post_recv(srq, 1, &iov, cookie_of(9)));
	ck_dat(try_immed(5, 0));
	queue_events(server->recv_evd);
	expect_immed(9, 32, 5);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(events_of_the_base_set_leave_the_extension_alone)
{
	DAT_EVENT event;

	memset(&event, 0x5a, sizeof(event));
	post_recv(server, 9, 0, 64, 0);
	post_send(client, 5, 0, 8, 0);
	ck_dat(evd_dequeue(server->recv_evd, &event));
	ck_assert_int_eq((int)event.event_number, DAT_DTO_COMPLETION_EVENT);
	for (size_t i = 0; i < sizeof(event.event_extension_data); i++)
		ck_assert_int_eq(((const char *)event.event_extension_data)[i], 0x5a);
	pair_close(&pair);
}
END_TEST

START_TEST(a_message_with_immediate_data_is_told_as_one)
{
	DAT_EVENT event;

	fake_quirks(FAKE_SENDS_IMMED);
	post_recv(server, 9, 0, 64, 0);
	post_send(client, 5, 0, 8, 0);
	event = expect_extended(server, server->recv_evd, 9, DAT_IB_DTO_RECV_MSG_IMMED,
				DAT_IB_RECV_IMMED_DATA, 8);
	ck_assert_uint_eq(extension_of(&event)->val.immed.data, FAKE_IMMED);
	expect_dto(client->request_evd, 5, DAT_DTO_SUCCESS);
	pair_close(&pair);
}
END_TEST

/* ---- atomic operations ---- */

START_TEST(an_addition_fetches_what_was_there)
{
	struct cell cell;

	make_cell(server, &cell, 0x100000000);
	ck_dat(try_add(&cell, 5, 0x20, 0));
	expect_extended(client, client->request_evd, 5, DAT_IB_DTO_FETCH_ADD, DAT_IB_FETCH_AND_ADD,
			8);
	ck_assert_uint_eq(fetched(), 0x100000000);
	ck_assert_uint_eq(cell.value, 0x100000020);
	close_cell(&cell);
	pair_close(&pair);
}
END_TEST

/* What is compared with, and what the memory has afterwards. */
static const struct {
	uint64_t compare, after;
} swaps[] = { { 0x54321, 0x98765 }, { 0x54322, 0x54321 } };

START_TEST(a_swap_needs_what_it_compares_with)
{
	struct cell cell;

	make_cell(server, &cell, 0x54321);
	ck_dat(try_swap(&cell, 5, swaps[_i].compare, 0x98765, 0));
	expect_extended(client, client->request_evd, 5, DAT_IB_DTO_CMP_SWAP, DAT_IB_CMP_AND_SWAP,
			8);
	ck_assert_uint_eq(fetched(), 0x54321);
	ck_assert_uint_eq(cell.value, swaps[_i].after);
	close_cell(&cell);
	pair_close(&pair);
}
END_TEST

START_TEST(memory_without_the_privilege_is_not_changed)
{
	struct cell cell;

	ck_dat(try_cell(server, &cell, DAT_MEM_PRIV_ALL_FLAG));
	cell.value = 7;
	ck_dat(try_add(&cell, 5, 1, 0));
	expect_failed(client->request_evd, 5, DAT_IB_DTO_FETCH_ADD, DAT_IB_FETCH_AND_ADD,
		      DAT_DTO_ERR_REMOTE_ACCESS);
	ck_assert_uint_eq(cell.value, 7);
	pair_close_abrupt(&pair);
}
END_TEST

/* The privileges that are given, and those that a query tells. */
static const struct {
	unsigned given, told;
} privileges[] = {
	{ ATOMIC_PRIV, 0x73 },
	{ DAT_IB_MEM_PRIV_REMOTE_ATOMIC, 0x40 },
	{ DAT_MEM_PRIV_ALL_FLAG, 0x33 },
};

START_TEST(the_privilege_is_told_and_has_a_context)
{
	struct cell cell;
	DAT_LMR_PARAM param;

	ck_dat(try_cell(server, &cell, privileges[_i].given));
	ck_assert_uint_ne(cell.remote.rmr_context, 0);
	ck_assert_uint_eq(fake_seen().priv, privileges[_i].told);
	ck_dat(lmr_query(cell.lmr, DAT_LMR_FIELD_ALL, &param));
	ck_assert_uint_eq(param.mem_priv, privileges[_i].told);
	close_cell(&cell);
	pair_close(&pair);
}
END_TEST

static DAT_MEM_PRIV_FLAGS privileges_of(const struct cell *cell)
{
	DAT_LMR_PARAM param;

	ck_dat(lmr_query(cell->lmr, DAT_LMR_FIELD_MEM_PRIV, &param));
	return param.mem_priv;
}

START_TEST(the_privilege_needs_a_device_with_extensions)
{
	struct cell cell = { .lmr = POISON };

	ck_dat_is(try_cell(server, &cell, ATOMIC_PRIV), BAD_ARG(6));
	ck_assert_ptr_eq(cell.lmr, POISON);
	ck_dat(try_cell(server, &cell, DAT_MEM_PRIV_ALL_FLAG));
	close_cell(&cell);
	pair_close(&pair);
}
END_TEST

/* OFED's dtestx asks for it before it looks at the attributes. */
START_TEST(without_atomic_operations_the_privilege_has_no_effect)
{
	struct cell cell;

	ck_dat(try_cell(server, &cell, ATOMIC_PRIV));
	ck_assert_uint_eq(privileges_of(&cell), DAT_MEM_PRIV_ALL_FLAG);
	close_cell(&cell);
	ck_dat(try_cell(server, &cell, DAT_IB_MEM_PRIV_REMOTE_ATOMIC));
	ck_assert_uint_eq(privileges_of(&cell), 0);
	ck_assert_uint_eq(cell.remote.rmr_context, 0);
	close_cell(&cell);
	pair_close(&pair);
}
END_TEST

/* ---- as other requests ---- */

START_TEST(requests_of_all_kinds_complete_in_order)
{
	struct cell cell;
	DAT_LMR_TRIPLET iov = segment(client, 64, 8);
	DAT_RMR_TRIPLET remote = target(server, 0, 8);

	make_cell(server, &cell, 1);
	post_recv(server, 20, 0, 64, 0);
	post_recv(server, 21, 0, 64, 0);
	fake_hold(true);
	ck_dat(try_immed(1, 0));
	ck_dat(try_add(&cell, 2, 1, 0));
	ck_dat(ep_post_rdma_write(client->ep, 1, &iov, cookie_of(3), &remote, 0));
	ck_dat(try_swap(&cell, 4, 2, 9, 0));
	post_send(client, 5, 0, 8, 0);
	fake_hold(false);
	expect_written(1, 32);
	expect_extended(client, client->request_evd, 2, DAT_IB_DTO_FETCH_ADD, DAT_IB_FETCH_AND_ADD,
			8);
	expect_dto(client->request_evd, 3, DAT_DTO_SUCCESS);
	expect_extended(client, client->request_evd, 4, DAT_IB_DTO_CMP_SWAP, DAT_IB_CMP_AND_SWAP,
			8);
	expect_dto(client->request_evd, 5, DAT_DTO_SUCCESS);
	expect_immed(20, 32, 1);
	expect_dto(server->recv_evd, 21, DAT_DTO_SUCCESS);
	ck_assert_uint_eq(cell.value, 9);
	close_cell(&cell);
	pair_close(&pair);
}
END_TEST

static const struct {
	unsigned flags, post_flags, atomic_post_flags;
} flag_rows[] = {
	{ 0, TP_POST_SIGNAL, TP_POST_SIGNAL },
	{ SUPPRESS, 0, 0 },
	{ FENCE, TP_POST_SIGNAL | TP_POST_FENCE, TP_POST_SIGNAL | TP_POST_FENCE },
	{ SOLICITED, TP_POST_SIGNAL | TP_POST_SOLICIT, TP_POST_SIGNAL },
	{ SUPPRESS | FENCE, TP_POST_FENCE, TP_POST_FENCE },
	{ 0x80, TP_POST_SIGNAL, TP_POST_SIGNAL },
};

START_TEST(flags_are_those_of_other_requests)
{
	struct cell cell;

	make_cell(server, &cell, 1);
	post_recv(server, 20, 0, 64, 0);
	ck_dat(try_immed(1, flag_rows[_i].flags));
	ck_assert_uint_eq(fake_seen().post_flags, flag_rows[_i].post_flags);
	ck_dat(try_add(&cell, 2, 1, flag_rows[_i].flags));
	ck_assert_uint_eq(fake_seen().post_flags, flag_rows[_i].atomic_post_flags);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(suppressed_ones_make_no_event)
{
	struct cell cell;

	make_cell(server, &cell, 1);
	for (unsigned i = 0; i < 40; i++) {
		post_recv(server, i, 0, 64, 0);
		ck_dat(try_immed(i, SUPPRESS));
		ck_dat(try_add(&cell, i, 1, SUPPRESS));
		expect_immed(i, 32, i);
	}
	ck_dat(try_swap(&cell, 99, 41, 2, 0));
	expect_extended(client, client->request_evd, 99, DAT_IB_DTO_CMP_SWAP, DAT_IB_CMP_AND_SWAP,
			8);
	expect_no_event(client->request_evd);
	ck_assert_uint_eq(cell.value, 2);
	close_cell(&cell);
	pair_close(&pair);
}
END_TEST

START_TEST(suppressed_ones_that_fail_are_reported)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 8);
	DAT_RMR_TRIPLET remote = target(server, 0, 8);

	post_recv(server, 9, 0, 64, 0);
	remote.rmr_context ^= 1;
	ck_dat(dat_ib_post_rdma_write_immed(client->ep, 1, &iov, cookie_of(5), &remote, 3,
					    SUPPRESS));
	expect_failed(client->request_evd, 5, DAT_IB_DTO_RDMA_WRITE_IMMED, DAT_IB_RDMA_WRITE_IMMED,
		      DAT_DTO_ERR_REMOTE_ACCESS);
	pair_close_abrupt(&pair);
}
END_TEST

/* A graceful disconnect waits for suppressed ones, by a marker. */
START_TEST(a_graceful_disconnect_waits_for_them)
{
	post_recv(server, 9, 0, 64, 0);
	fake_hold(true);
	ck_dat(try_immed(5, SUPPRESS));
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_GRACEFUL_FLAG));
	ck_assert_int_eq((int)ep_get_state(client->ep), DAT_EP_STATE_DISCONNECT_PENDING);
	fake_hold(false);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_immed(9, 32, 5);
	expect_no_event(client->request_evd);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(a_full_ring_refuses_them)
{
	struct cell cell;
	unsigned posted = 0;

	make_cell(server, &cell, 1);
	fake_hold(true);
	while (try_add(&cell, posted, 1, 0) == DAT_SUCCESS)
		posted++;
	ck_assert_uint_eq(posted, 16);
	ck_dat_is(try_add(&cell, 99, 1, 0), FULL);
	ck_dat_is(try_add(&cell, 99, 1, FENCE), FULL);
	ck_dat_is(try_swap(&cell, 99, 1, 1, 0), FULL);
	ck_dat_is(try_immed(99, 0), FULL);
	fake_hold(false);
	ck_dat(try_add(&cell, posted, 1, 0));
	for (unsigned i = 0; i <= posted; i++)
		expect_extended(client, client->request_evd, i, DAT_IB_DTO_FETCH_ADD,
				DAT_IB_FETCH_AND_ADD, 8);
	ck_assert_uint_eq(cell.value, 18);
	close_cell(&cell);
	pair_close(&pair);
}
END_TEST

/* Each by the fast path and by the slow one. */
static DAT_RETURN post_kind(unsigned kind, const struct cell *cell, uint64_t cookie)
{
	const unsigned flags = kind & 1 ? FENCE : 0;

	switch (kind / 2) {
	case 0:
		return try_immed(cookie, flags);
	case 1:
		return try_add(cell, cookie, 1, flags);
	default:
		return try_swap(cell, cookie, 1, 2, flags);
	}
}

#define KINDS 6
static const struct {
	int operation, type;
	const char *call;
} kinds[] = {
	{ DAT_IB_DTO_RDMA_WRITE_IMMED, DAT_IB_RDMA_WRITE_IMMED, "post_write_immed" },
	{ DAT_IB_DTO_FETCH_ADD, DAT_IB_FETCH_AND_ADD, "post_atomic" },
	{ DAT_IB_DTO_CMP_SWAP, DAT_IB_CMP_AND_SWAP, "post_atomic" },
};

START_TEST(outstanding_ones_are_flushed)
{
	struct cell cell;
	const int operation = kinds[_i / 2].operation, type = kinds[_i / 2].type;

	make_cell(server, &cell, 1);
	fake_hold(true);
	ck_dat(post_kind((unsigned)_i, &cell, 5));
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_failed(client->request_evd, 5, operation, type, DAT_DTO_ERR_FLUSHED);
	pair_close_abrupt(&pair);
}
END_TEST

/* The device completes nothing any more, so the core does. */
START_TEST(those_that_the_device_keeps_are_flushed)
{
	struct cell cell;
	const int operation = kinds[_i / 2].operation, type = kinds[_i / 2].type;

	make_cell(server, &cell, 1);
	fake_quirks(FAKE_SWALLOWS_SEND | FAKE_LATE_FLUSH);
	fake_hold(true);
	ck_dat(post_kind((unsigned)_i, &cell, 5));
	side_disconnect(client);
	expect_failed(client->request_evd, 5, operation, type, DAT_DTO_ERR_FLUSHED);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(those_that_are_posted_after_the_end_are_flushed)
{
	struct cell cell;
	const int operation = kinds[_i / 2].operation, type = kinds[_i / 2].type;

	make_cell(server, &cell, 1);
	side_disconnect(client);
	ck_dat(post_kind((unsigned)_i, &cell, 5));
	expect_failed(client->request_evd, 5, operation, type, DAT_DTO_ERR_FLUSHED);
	pair_close_abrupt(&pair);
}
END_TEST

static void end_and_reset(void *unused)
{
	(void)unused;
	side_disconnect(client);
	ck_dat(ep_reset(client->ep));
}

/* Another thread resets the endpoint when this one has found it connected. */
START_TEST(those_that_meet_a_reset_are_refused)
{
	struct cell cell;

	make_cell(server, &cell, 1);
	race_call(RACE_POST, client->ep, end_and_reset, NULL);
	ck_dat_is(post_kind((unsigned)_i, &cell, 5), BAD_STATE(EP_UNCONNECTED));
	ck_assert(race_happened(RACE_POST));
	expect_no_event(client->request_evd);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(what_the_device_refuses_is_not_posted)
{
	struct cell cell;

	make_cell(server, &cell, 1);
	post_recv(server, 9, 0, 64, 0);
	fake_fail(kinds[_i / 2].call, ENOMEM, 1);
	ck_dat_is(post_kind((unsigned)_i, &cell, 5), FULL);
	expect_no_event(client->request_evd);
	ck_dat(post_kind((unsigned)_i, &cell, 6));
	expect_extended(client, client->request_evd, 6, kinds[_i / 2].operation, kinds[_i / 2].type,
			_i / 2 ? 8 : 32);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(they_need_a_connection)
{
	struct cell cell;

	side_open(server, "fake1");
	side_open(client, "fake0");
	make_cell(server, &cell, 1);
	ck_dat_is(post_kind((unsigned)_i, &cell, 5), BAD_STATE(EP_UNCONNECTED));
	expect_no_event(client->request_evd);
	close_cell(&cell);
	side_close(client);
	side_close(server);
}
END_TEST

START_TEST(without_the_operation_they_are_not_supported)
{
	struct cell cell = { .remote = target(server, 0, 8) };

	ck_dat_is(post_kind((unsigned)_i, &cell, 5), NOT_SUPPORTED);
	expect_no_event(client->request_evd);
	pair_close(&pair);
}
END_TEST

/* ---- operands ---- */

/* Of a write: the number of segments, whether there is an iov, and a remote range. */
static const struct {
	const char *why;
	DAT_COUNT nseg;
	bool no_iov, no_remote;
	DAT_SEG_LENGTH length;
	DAT_RETURN want;
} wrong_writes[] = {
	{ "negative segment count", -1, false, false, 8, BAD_ARG(2) },
	{ "too many segments", 5, false, false, 8, BAD_ARG(2) },
	{ "no segments", 1, true, false, 8, BAD_ARG(3) },
	{ "no segments", 2, true, false, 8, BAD_ARG(3) },
	{ "no remote range", 1, false, true, 8, BAD_ARG(5) },
	{ "no remote range for none of the bytes", 1, false, true, 0, BAD_ARG(5) },
};

START_TEST(a_wrong_write_is_refused)
{
	DAT_LMR_TRIPLET iov[5] = { segment(client, 0, wrong_writes[_i].length) };
	DAT_RMR_TRIPLET remote = target(server, 0, 8);

	ck_dat_is(dat_ib_post_rdma_write_immed(client->ep, wrong_writes[_i].nseg,
					       wrong_writes[_i].no_iov ? NULL : iov, cookie_of(5),
					       wrong_writes[_i].no_remote ? NULL : &remote, 3, 0),
		  wrong_writes[_i].want);
	expect_no_event(client->request_evd);
	pair_close(&pair);
}
END_TEST

static const struct {
	const char *why;
	bool no_iov, no_remote;
	DAT_SEG_LENGTH length;
	DAT_VADDR offset;
} wrong_atomics[] = {
	{ "no segment", true, false, 8, 0 },	  { "empty", false, false, 0, 0 },
	{ "too short", false, false, 7, 0 },	  { "too long", false, false, 9, 0 },
	{ "no remote range", false, true, 8, 0 }, { "misaligned", false, false, 8, 4 },
	{ "misaligned", false, false, 8, 1 },
};

START_TEST(a_wrong_atomic_operation_is_refused)
{
	struct cell cell;
	DAT_LMR_TRIPLET iov = segment(client, 0, wrong_atomics[_i].length);
	DAT_LMR_TRIPLET *iov_or_null = wrong_atomics[_i].no_iov ? NULL : &iov;
	DAT_RMR_TRIPLET *remote = wrong_atomics[_i].no_remote ? NULL : &cell.remote;

	make_cell(server, &cell, 1);
	cell.remote.virtual_address += wrong_atomics[_i].offset;
	for (unsigned flags = 0; flags <= FENCE; flags += FENCE) {
		ck_dat_is(dat_ib_post_fetch_and_add(client->ep, 1, iov_or_null, cookie_of(5),
						    remote, flags),
			  BAD_ARG(4));
		ck_dat_is(dat_ib_post_cmp_and_swap(client->ep, 1, 2, iov_or_null, cookie_of(5),
						   remote, flags),
			  BAD_ARG(4));
	}
	expect_no_event(client->request_evd);
	ck_assert_uint_eq(cell.value, 1);
	close_cell(&cell);
	pair_close(&pair);
}
END_TEST

START_TEST(an_endpoint_without_reads_has_no_atomic_operations)
{
	struct cell cell;

	setup_reads(0);
	make_cell(server, &cell, 1);
	for (unsigned kind = 2; kind < KINDS; kind++)
		ck_dat_is(post_kind(kind, &cell, 5), BAD_STATE(EP_NOTREADY));
	close_cell(&cell);
	pair_close(&pair);
}
END_TEST

START_TEST(what_is_no_endpoint_is_refused)
{
	struct cell cell = { .remote = target(server, 0, 8) };
	const DAT_EP_HANDLE ep = client->ep;
	const DAT_HANDLE others[] = { client->ia, client->request_evd, client->pz, client->lmr };

	for (unsigned i = 0; i < KINDS; i++) {
		for (int j = 0; j < COUNT(others); j++) {
			client->ep = others[j];
			ck_dat_is(post_kind(i, &cell, 5), BAD_HANDLE(EP));
		}
		client->ep = DAT_HANDLE_NULL;
		ck_dat_is(post_kind(i, &cell, 5), BAD_HANDLE_1);
		client->ep = (DAT_HANDLE)3;
		ck_dat_is(post_kind(i, &cell, 5), BAD_HANDLE_1);
	}
	client->ep = ep;
	pair_close(&pair);
}
END_TEST

static const int unknown[] = { DAT_IB_COLLECTIVE_CREATE_MEMBER_OP, DAT_IB_COLLECTIVE_BARRIER_OP, 99,
			       -1 & 0xfff };

START_TEST(unknown_operations_are_not_implemented)
{
	ck_dat_is(operate(client->ep, (DAT_EXTENDED_OP)unknown[_i]), NOT_IMPLEMENTED);
	ck_dat_is(operate(client->ia, (DAT_EXTENDED_OP)unknown[_i]), NOT_IMPLEMENTED);
	ck_dat_is(operate(DAT_HANDLE_NULL, (DAT_EXTENDED_OP)unknown[_i]), BAD_HANDLE_1);
	pair_close(&pair);
}
END_TEST

/* ---- attributes ---- */

static const char *named(const struct side *side, const char *name)
{
	DAT_PROVIDER_ATTR attr;

	ck_dat(ia_query(side->ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, &attr));
	for (int i = 0; i < attr.num_provider_specific_attr; i++)
		if (strcmp(attr.provider_specific_attr[i].name, name) == 0)
			return attr.provider_specific_attr[i].value;
	return "missing";
}

static const struct {
	unsigned without;
	const char *immed, *atomic, *any;
} attributes[] = {
	{ 0, "TRUE", "TRUE", "TRUE" },
	{ TP_CAP_ATOMIC, "TRUE", "FALSE", "TRUE" },
	{ TP_CAP_IMMED, "FALSE", "TRUE", "TRUE" },
	{ TP_CAP_ATOMIC | TP_CAP_IMMED, "FALSE", "FALSE", "FALSE" },
};

START_TEST(attributes_tell_what_there_is)
{
	const bool any = strcmp(attributes[_i].any, "TRUE") == 0;
	DAT_IA_ATTR attr;

	fake_attr()->caps &= ~attributes[_i].without;
	fake_attr()->max_datagram = 0;
	side_open(client, "fake0");
	ck_assert_str_eq(named(client, DAT_IB_ATTR_UD), "FALSE");
	ck_assert_str_eq(named(client, DAT_IB_ATTR_IMMED_DATA), attributes[_i].immed);
	ck_assert_str_eq(named(client, DAT_IB_ATTR_FETCH_AND_ADD), attributes[_i].atomic);
	ck_assert_str_eq(named(client, DAT_IB_ATTR_CMP_AND_SWAP), attributes[_i].atomic);
	ck_assert_str_eq(named(client, "DAT_EXTENSION_INTERFACE"), attributes[_i].any);
	ck_dat(ia_query(client->ia, NULL, DAT_IA_FIELD_ALL, &attr, 0, NULL));
	ck_assert_int_eq((int)attr.extension_supported,
			 any ? DAT_EXTENSION_IB : DAT_EXTENSION_NONE);
	ck_assert_int_eq(attr.extension_version, any ? 209 : 0);
	side_close(client);
}
END_TEST

/* ---- threads ---- */

#define ADDITIONS 200

static struct cell shared_cell;

static void *add_many(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < ADDITIONS; i++)
		while (try_add(&shared_cell, NOBODY, 1, i % 3 ? SUPPRESS : 0) == FULL)
			queue_events(client->request_evd);
	return NULL;
}

START_TEST(threads_may_post_them_to_one_endpoint)
{
	pthread_t threads[3];
	DAT_EVENT event;

	make_cell(server, &shared_cell, 0);
	for (int i = 0; i < COUNT(threads); i++)
		threads[i] = consumer_thread_start(add_many, NULL);
	for (int i = 0; i < COUNT(threads); i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	while (evd_dequeue(client->request_evd, &event) == DAT_SUCCESS)
		ck_assert_int_eq((int)event.event_number, DAT_IB_DTO_EVENT);
	ck_assert_uint_eq(shared_cell.value, 3 * ADDITIONS);
	close_cell(&shared_cell);
	pair_close(&pair);
}
END_TEST

/* By either path, with a lock each. */
START_TEST(a_thread_safe_ia_posts_them_too)
{
	struct cell cell;

	make_cell(server, &cell, 1);
	post_recv(server, 9, 0, 64, 0);
	fake_fail(kinds[_i / 2].call, ENOMEM, 1);
	ck_dat_is(post_kind((unsigned)_i, &cell, 5), FULL);
	ck_dat(post_kind((unsigned)_i, &cell, 6));
	expect_extended(client, client->request_evd, 6, kinds[_i / 2].operation, kinds[_i / 2].type,
			_i / 2 ? 8 : 32);
	close_cell(&cell);
	pair_close_abrupt(&pair);
}
END_TEST

static void *post_in_thread(void *arg)
{
	struct cell *cell = arg;

	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	pthread_cancel(pthread_self());
	(void)post_kind((unsigned)cell->value, cell, 5);
	pthread_testcancel();
	return NULL;
}

/* The thread is cancelled in the system call of a device's library, or when the call is over. */
START_TEST(a_thread_that_is_cancelled_in_a_post_leaves_it_posted)
{
	static struct cell cell;
	pthread_t thread;
	void *result;

	if (!CAN_UNWIND_THREADS)
		return;
	make_cell(server, &cell, (uint64_t)_i);
	post_recv(server, 9, 0, 64, 0);
	post_recv(server, 10, 0, 64, 0);
	fake_quirks(FAKE_POSTS_BY_CALL);
	thread = consumer_thread_start(post_in_thread, &cell);
	ck_assert_int_eq(pthread_join(thread, &result), 0);
	ck_assert_ptr_eq(result, PTHREAD_CANCELED);
	expect_extended(client, client->request_evd, 5, kinds[_i / 2].operation, kinds[_i / 2].type,
			_i / 2 ? 8 : 32);
	fake_quirks(0);
	ck_dat(post_kind((unsigned)_i, &cell, 6));
	expect_extended(client, client->request_evd, 6, kinds[_i / 2].operation, kinds[_i / 2].type,
			_i / 2 ? 8 : 32);
	pair_close_abrupt(&pair);
}
END_TEST

static void add_connected_cases(void)
{
	TCase *cases = tcase_create("connected");

	tcase_add_checked_fixture(cases, setup, NULL);
	tcase_add_loop_test(cases, a_write_brings_its_number_as_it_is, 0, COUNT(values));
	tcase_add_test(cases, without_segments_the_number_goes_alone);
	tcase_add_test(cases, segments_of_no_bytes_are_none);
	tcase_add_test(cases, a_write_gathers_segments);
	tcase_add_test(cases, queued_events_keep_their_extension);
	tcase_add_test(cases, events_of_the_base_set_leave_the_extension_alone);
	tcase_add_test(cases, a_message_with_immediate_data_is_told_as_one);
	tcase_add_test(cases, an_addition_fetches_what_was_there);
	tcase_add_loop_test(cases, a_swap_needs_what_it_compares_with, 0, COUNT(swaps));
	tcase_add_test(cases, memory_without_the_privilege_is_not_changed);
	tcase_add_loop_test(cases, the_privilege_is_told_and_has_a_context, 0, COUNT(privileges));
	tcase_add_test(cases, requests_of_all_kinds_complete_in_order);
	tcase_add_loop_test(cases, flags_are_those_of_other_requests, 0, COUNT(flag_rows));
	tcase_add_test(cases, suppressed_ones_make_no_event);
	tcase_add_test(cases, suppressed_ones_that_fail_are_reported);
	tcase_add_test(cases, a_graceful_disconnect_waits_for_them);
	tcase_add_test(cases, a_full_ring_refuses_them);
	tcase_add_loop_test(cases, outstanding_ones_are_flushed, 0, KINDS);
	tcase_add_loop_test(cases, those_that_the_device_keeps_are_flushed, 0, KINDS);
	tcase_add_loop_test(cases, those_that_are_posted_after_the_end_are_flushed, 0, KINDS);
	tcase_add_loop_test(cases, what_the_device_refuses_is_not_posted, 0, KINDS);
	tcase_add_loop_test(cases, a_wrong_write_is_refused, 0, COUNT(wrong_writes));
	tcase_add_loop_test(cases, a_wrong_atomic_operation_is_refused, 0, COUNT(wrong_atomics));
	tcase_add_test(cases, what_is_no_endpoint_is_refused);
	tcase_add_loop_test(cases, unknown_operations_are_not_implemented, 0, COUNT(unknown));
	tcase_add_loop_test(cases, a_thread_that_is_cancelled_in_a_post_leaves_it_posted, 0, KINDS);
}

static void add_other_cases(void)
{
	TCase *cases = tcase_create("unconnected");

	tcase_add_loop_test(cases, they_need_a_connection, 0, KINDS);
	tcase_add_test(cases, an_endpoint_without_reads_has_no_atomic_operations);
	tcase_add_loop_test(cases, attributes_tell_what_there_is, 0, COUNT(attributes));

	cases = tcase_create("shared receive queue");
	tcase_add_checked_fixture(cases, setup_srq, NULL);
	tcase_add_test(cases, a_shared_receive_queue_tells_the_number_and_the_endpoint);
	tcase_add_test(cases, queued_events_of_a_shared_receive_queue_keep_theirs);

	cases = tcase_create("no immediate data");
	tcase_add_checked_fixture(cases, setup_without_immed, NULL);
	tcase_add_loop_test(cases, without_the_operation_they_are_not_supported, 0, 2);

	cases = tcase_create("no atomic operations");
	tcase_add_checked_fixture(cases, setup_without_atomic, NULL);
	tcase_add_loop_test(cases, without_the_operation_they_are_not_supported, 2, KINDS);
	tcase_add_test(cases, without_atomic_operations_the_privilege_has_no_effect);

	cases = tcase_create("no extensions");
	tcase_add_checked_fixture(cases, setup_without_any, NULL);
	tcase_add_test(cases, the_privilege_needs_a_device_with_extensions);

	cases = tcase_create("thread-safe");
	tcase_add_checked_fixture(cases, setup_thread_safe, NULL);
	tcase_add_loop_test(cases, a_thread_safe_ia_posts_them_too, 0, KINDS);
	tcase_add_loop_test(cases, those_that_meet_a_reset_are_refused, 0, KINDS);
	tcase_add_test(cases, threads_may_post_them_to_one_endpoint);
}

int main(int argc, char **argv)
{
	add_connected_cases();
	add_other_cases();
	return run_unit_cases(argc, argv);
}
