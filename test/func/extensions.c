/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extensions of DAT 2.0 on a device: writes with immediate data, which consume receives of the peer
 * as messages do, and atomic operations.
 */
#include <string.h>

#include "../consumer/consumer.h"

#include <dat2/dat_ib_extensions.h>

#define DEFAULT	 DAT_COMPLETION_DEFAULT_FLAG
#define FENCE	 DAT_COMPLETION_BARRIER_FENCE_FLAG
#define SUPPRESS DAT_COMPLETION_SUPPRESS_FLAG
#define ATOMIC	 ((DAT_MEM_PRIV_FLAGS)(DAT_MEM_PRIV_ALL_FLAG | DAT_IB_MEM_PRIV_REMOTE_ATOMIC))
#define NUMBER	 0xfedc1234u
#define LENGTH	 ((size_t)40) /* of a write */
#define THREADS	 4
#define WRITES	 50 /* of each thread */

static struct pair pair;
static const struct side *const client = &pair.client, *const server = &pair.server;

/* ---- posts and completions ---- */

static DAT_RETURN try_immed(DAT_COUNT n, DAT_LMR_TRIPLET *iov, uint64_t cookie,
			    DAT_RMR_TRIPLET *remote, DAT_UINT32 immed, DAT_COMPLETION_FLAGS flags)
{
	return dat_ib_post_rdma_write_immed(client->ep, n, iov, cookie_of(cookie), remote, immed,
					    flags);
}

/* Writes the first bytes of the client's memory to the middle of the server's. */
static void post_immed(uint64_t cookie, size_t length, DAT_UINT32 immed, DAT_COMPLETION_FLAGS flags)
{
	DAT_LMR_TRIPLET from = segment(client, 0, length);
	DAT_RMR_TRIPLET to = target(server, server->size / 2, length);

	ck_dat(try_immed(1, &from, cookie, &to, immed, flags));
}

/* The next completion is this one, of an extension. Returns what the extension adds. */
static DAT_IB_EXTENSION_EVENT_DATA expect_extended(DAT_EVD_HANDLE evd, DAT_EP_HANDLE ep,
						   uint64_t cookie,
						   DAT_DTO_COMPLETION_STATUS status, int operation,
						   int type)
{
	DAT_EVENT event = expect_event(evd, (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT);
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;
	const DAT_IB_EXTENSION_EVENT_DATA *extension =
		(const DAT_IB_EXTENSION_EVENT_DATA *)&event.event_extension_data;

	ck_assert_ptr_eq(dto->ep_handle, ep);
	ck_assert_uint_eq(dto->user_cookie.as_64, cookie);
	ck_assert_int_eq(dto->status, status);
	ck_assert_int_eq((int)dto->operation, operation);
	ck_assert_int_eq((int)extension->type, type);
	ck_assert_int_eq((int)extension->status, (int)status);
	return *extension;
}

static void expect_written(uint64_t cookie)
{
	(void)expect_extended(client->request_evd, client->ep, cookie, DAT_DTO_SUCCESS,
			      DAT_IB_DTO_RDMA_WRITE_IMMED, DAT_IB_RDMA_WRITE_IMMED);
}

/* The next receive was consumed by such a write. */
static void expect_immed_at(DAT_EP_HANDLE ep, uint64_t cookie, DAT_UINT32 immed)
{
	ck_assert_uint_eq(expect_extended(server->recv_evd, ep, cookie, DAT_DTO_SUCCESS,
					  DAT_IB_DTO_RECV_IMMED, DAT_IB_RDMA_WRITE_IMMED_DATA)
				  .val.immed.data,
			  immed);
}

static void expect_immed(uint64_t cookie, DAT_UINT32 immed)
{
	expect_immed_at(server->ep, cookie, immed);
}

static void open_pair(void)
{
	pair_open(&pair, NULL);
}

static void close_pair(void)
{
	pair_close(&pair);
}

/* ---- what arrives ---- */

static const DAT_UINT32 numbers[] = { 0, 1, NUMBER, 0x80000000, 0xffffffff };

/* The memory of the receive is not that of the write, and is not touched. */
START_TEST(a_write_brings_its_number)
{
	open_pair();
	for (size_t i = 0; i < COUNT(numbers); i++) {
		pattern_fill(client->memory, LENGTH, (unsigned)i);
		memset(server->memory, UNTOUCHED, server->size);
		post_recvs(server, i, 1);
		post_immed(i, LENGTH, numbers[i], DEFAULT);
		expect_immed(i, numbers[i]);
		pattern_check(server->memory + server->size / 2, LENGTH, (unsigned)i);
		bytes_check(server->memory, server->size / 2, UNTOUCHED);
		expect_written(i);
	}
	close_pair();
}
END_TEST

/* All bytes are there when the number is, whatever way they take. */
START_TEST(a_long_write_is_in_place_when_its_number_comes)
{
	const size_t size = (size_t)1 << 21, quarter = size / 4;
	DAT_LMR_TRIPLET from[3];
	DAT_RMR_TRIPLET to;

	pair_open_sized(&pair, NULL, size);
	pattern_fill(client->memory, size, 1);
	from[0] = segment(client, 0, 1);
	from[1] = segment(client, 1, 0);
	from[2] = segment(client, 1, quarter - 1);
	to = target(server, size / 2, quarter);
	post_recvs(server, 1, 1);
	ck_dat(try_immed(3, from, 2, &to, NUMBER, DEFAULT));
	expect_immed(1, NUMBER);
	pattern_check(server->memory + size / 2, quarter, 1);
	expect_written(2);
	close_pair();
}
END_TEST

/* Segments of no bytes are none. */
START_TEST(a_number_may_come_alone)
{
	DAT_LMR_TRIPLET empty;

	open_pair();
	empty = segment(client, 0, 0);
	post_recvs(server, 0, 2);
	ck_dat(try_immed(0, NULL, 7, NULL, NUMBER, DEFAULT));
	ck_dat(try_immed(1, &empty, 8, &(DAT_RMR_TRIPLET){ 0 }, 0, DEFAULT));
	expect_immed(0, NUMBER);
	expect_immed(1, 0);
	expect_written(7);
	expect_written(8);
	close_pair();
}
END_TEST

/* The length of the receive is that of the write, whatever the receive has room for. */
START_TEST(a_receive_tells_how_much_was_written)
{
	DAT_EVENT event;

	open_pair();
	ck_dat(dat_ep_post_recv(server->ep, 0, NULL, cookie_of(1), DEFAULT));
	post_immed(2, LENGTH, NUMBER, DEFAULT);
	event = expect_event(server->recv_evd, (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT);
	ck_assert_uint_eq(event.event_data.dto_completion_event_data.transfered_length, LENGTH);
	event = expect_event(client->request_evd, (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT);
	ck_assert_uint_eq(event.event_data.dto_completion_event_data.transfered_length, LENGTH);
	close_pair();
}
END_TEST

/* ---- order ---- */

START_TEST(numbers_and_messages_arrive_in_the_order_of_their_posts)
{
	open_pair();
	post_recvs(server, 0, 4);
	post_send(client->ep, 10, segment(client, 0, 8), DEFAULT);
	post_immed(11, LENGTH, 1, DEFAULT);
	post_write(client->ep, 12, segment(client, 0, 8), target(server, 1024, 8), DEFAULT);
	post_immed(13, 0, 2, DEFAULT);
	post_send(client->ep, 14, segment(client, 0, 5), DEFAULT);
	expect_recv_done(server, 0, 8);
	expect_immed(1, 1);
	expect_immed(2, 2);
	expect_recv_done(server, 3, 5);
	expect_request_done(client, 10, 8);
	expect_written(11);
	expect_request_done(client, 12, 8);
	expect_written(13);
	expect_request_done(client, 14, 5);
	close_pair();
}
END_TEST

/* The read before has filled what the write takes. */
START_TEST(a_fence_waits_for_the_reads_before_it)
{
	open_pair();
	pattern_fill(server->memory, server->size / 2, 3);
	memset(client->memory, 0, client->size);
	post_recv(server->ep, 0, segment(server, 0, 0));
	post_read(client->ep, 1, segment(client, 0, server->size / 4),
		  target(server, 0, server->size / 4), DEFAULT);
	post_immed(2, server->size / 4, NUMBER, FENCE);
	expect_immed(0, NUMBER);
	pattern_check(server->memory + server->size / 2, server->size / 4, 3);
	expect_request_done(client, 1, server->size / 4);
	expect_written(2);
	close_pair();
}
END_TEST

START_TEST(a_suppressed_write_brings_its_number_and_makes_no_event)
{
	open_pair();
	post_recvs(server, 0, 2);
	post_immed(1, LENGTH, 5, SUPPRESS);
	post_immed(2, LENGTH, 6, DEFAULT);
	expect_immed(0, 5);
	expect_immed(1, 6);
	expect_written(2);
	expect_no_event(client->request_evd);
	close_pair();
}
END_TEST

/* ---- receives ---- */

START_TEST(a_write_waits_for_a_receive)
{
	open_pair();
	post_immed(1, LENGTH, NUMBER, DEFAULT);
	post_recvs(server, 3, 1);
	expect_immed(3, NUMBER);
	expect_written(1);
	exchange_messages(&pair);
	close_pair();
}
END_TEST

START_TEST(who_sleeps_is_woken_by_a_number)
{
	struct waiter waiter = { 0 };

	open_pair();
	waiter.evd = server->recv_evd;
	post_recvs(server, 4, 1);
	waiter_start(&waiter);
	ck_dat(try_immed(0, NULL, 5, NULL, NUMBER, DEFAULT));
	ck_dat(waiter_join(&waiter));
	ck_assert_int_eq((int)waiter.event.event_number, DAT_IB_DTO_EVENT);
	ck_assert_uint_eq(waiter.event.event_data.dto_completion_event_data.user_cookie.as_64, 4);
	expect_written(5);
	close_pair();
}
END_TEST

/* Two endpoints share the receives, in whatever order they take them. */
START_TEST(receives_of_a_shared_queue_are_consumed_too)
{
	DAT_SRQ_ATTR srq_attr = { .max_recv_dtos = 8, .max_recv_iov = 1 };
	DAT_EP_ATTR attr = ep_attr_for(1, 16);
	DAT_LMR_TRIPLET at;
	DAT_EP_HANDLE ends[2];
	DAT_SRQ_HANDLE srq;
	DAT_RMR_TRIPLET to;

	pair_open_unconnected(&pair, NULL);
	ck_dat(dat_srq_create(server->ia, server->pz, &srq_attr, &srq));
	for (unsigned i = 0; i < 2; i++) {
		ck_dat(dat_ep_create_with_srq(server->ia, server->pz, server->recv_evd,
					      server->request_evd, server->connect_evd, srq, &attr,
					      &ends[i]));
		connect_eps(client, i ? side_create_ep(client, NULL) : client->ep, server, ends[i]);
	}
	at = segment(server, 0, 8);
	for (uint64_t n = 0; n < 3; n++)
		ck_dat(dat_srq_post_recv(srq, 1, &at, cookie_of(n)));
	post_immed(1, LENGTH, NUMBER, DEFAULT);
	expect_immed_at(ends[0], 0, NUMBER);
	post_send(client->ep, 2, segment(client, 0, 8), DEFAULT);
	expect_dto(server->recv_evd, ends[0], 1, DAT_DTO_SUCCESS, 8);
	at = segment(client, 0, 1);
	to = target(server, 1024, 1);
	ck_dat(try_immed(1, &at, 3, &to, 0xffffffff, DEFAULT));
	expect_immed_at(ends[0], 2, 0xffffffff);
	expect_written(1);
	expect_request_done(client, 2, 8);
	expect_written(3);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- the end ---- */

START_TEST(what_is_outstanding_is_flushed)
{
	open_pair();
	post_recvs(client, 20, 2);
	for (uint64_t n = 0; n < 3; n++)
		post_immed(n, LENGTH, NUMBER, DEFAULT);
	ck_dat(dat_ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	for (uint64_t n = 0; n < 3; n++)
		(void)expect_extended(client->request_evd, client->ep, n, DAT_DTO_ERR_FLUSHED,
				      DAT_IB_DTO_RDMA_WRITE_IMMED, DAT_IB_RDMA_WRITE_IMMED);
	expect_flushed_recvs(client, 20, 2); /* which are no events of an extension */
	expect_disconnected(&pair);
	close_pair();
}
END_TEST

/*
 * What may not be written brings no number. Its receive has failed, on soft-RoCE with the error of
 * the write, elsewhere flushed.
 */
START_TEST(a_refused_write_brings_no_number)
{
	DAT_LMR_TRIPLET from;
	DAT_RMR_TRIPLET to;
	DAT_EVENT event;

	open_pair();
	memset(server->memory, UNTOUCHED, server->size);
	from = segment(client, 0, 8);
	to = target(server, 0, 8);
	to.rmr_context ^= 0x5a5a;
	post_recvs(server, 0, 1);
	ck_dat(try_immed(1, &from, 1, &to, NUMBER, DEFAULT));
	expect_ends(&pair);
	event = expect_event(client->request_evd, (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT);
	ck_assert_int_eq(event.event_data.dto_completion_event_data.status,
			 device_has(NEEDS_REMOTE_STATUS) ? DAT_DTO_ERR_REMOTE_ACCESS
							 : DAT_DTO_ERR_FLUSHED);
	event = expect_event(server->recv_evd, DAT_DTO_COMPLETION_EVENT);
	ck_assert_int_ne(event.event_data.dto_completion_event_data.status, DAT_DTO_SUCCESS);
	bytes_check(server->memory, server->size, UNTOUCHED);
	close_pair();
}
END_TEST

/* ---- threads ---- */

static void *post_main(void *arg)
{
	const DAT_UINT32 thread = *(const DAT_UINT32 *)arg;

	for (DAT_UINT32 n = 0; n < WRITES; n++)
		post_immed(thread, 8, thread * WRITES + n, DEFAULT);
	return NULL;
}

/* Each thread's numbers arrive in the order of its posts. */
START_TEST(threads_may_write_to_one_endpoint)
{
	DAT_UINT32 of[THREADS], next[THREADS] = { 0 };
	DAT_EP_ATTR attr = ep_attr_for(THREADS * WRITES, THREADS * WRITES);
	pthread_t threads[THREADS];

	side_open_bare_as(&pair.client, ia_name(CLIENT, BY_INTERFACE), true);
	side_equip(&pair.client, &attr, SIDE_MEMORY);
	side_open_bare_as(&pair.server, ia_name(SERVER, BY_INTERFACE), true);
	side_equip(&pair.server, &attr, SIDE_MEMORY);
	pair_connect(&pair);
	post_recvs(server, 0, THREADS * WRITES);
	for (DAT_UINT32 i = 0; i < THREADS; i++) {
		of[i] = i;
		threads[i] = consumer_thread_start(post_main, &of[i]);
	}
	for (unsigned n = 0; n < THREADS * WRITES; n++) {
		const DAT_EVENT event = expect_event(server->recv_evd,
						     (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT);
		const DAT_UINT32 immed =
			((const DAT_IB_EXTENSION_EVENT_DATA *)&event.event_extension_data)
				->val.immed.data;

		ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, n);
		ck_assert_uint_lt(immed / WRITES, THREADS);
		ck_assert_uint_eq(immed % WRITES, next[immed / WRITES]++);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned n = 0; n < THREADS * WRITES; n++)
		(void)expect_event(client->request_evd, (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT);
	close_pair();
}
END_TEST

/* ---- atomic operations ---- */

static DAT_RETURN try_add(DAT_UINT64 add, DAT_RMR_TRIPLET *cell, uint64_t cookie)
{
	DAT_LMR_TRIPLET old = segment(client, 8 * cookie, 8);

	return dat_ib_post_fetch_and_add(client->ep, add, &old, cookie_of(cookie), cell, DEFAULT);
}

static uint64_t old_value(uint64_t cookie)
{
	uint64_t value;

	memcpy(&value, client->memory + 8 * cookie, sizeof(value));
	return value;
}

START_TEST(atomic_operations_fetch_what_was_there)
{
	DAT_LMR_TRIPLET old;
	struct region cell;
	DAT_RMR_TRIPLET at;
	uint64_t value = UINT64_C(0x1122334455667788);

	open_pair();
	cell = region_over(server, server->memory, server->size, ATOMIC);
	memcpy(server->memory + 64, &value, sizeof(value));
	at = region_target(&cell, 64, 8);
	ck_dat(try_add(UINT64_MAX, &at, 1));
	old = segment(client, 16, 8);
	ck_dat(dat_ib_post_cmp_and_swap(client->ep, value - 1, 7, &old, cookie_of(2), &at,
					DEFAULT));
	old = segment(client, 24, 8);
	ck_dat(dat_ib_post_cmp_and_swap(client->ep, value, 9, &old, cookie_of(3), &at, DEFAULT));
	(void)expect_extended(client->request_evd, client->ep, 1, DAT_DTO_SUCCESS,
			      DAT_IB_DTO_FETCH_ADD, DAT_IB_FETCH_AND_ADD);
	for (uint64_t n = 2; n < 4; n++)
		(void)expect_extended(client->request_evd, client->ep, n, DAT_DTO_SUCCESS,
				      DAT_IB_DTO_CMP_SWAP, DAT_IB_CMP_AND_SWAP);
	ck_assert_uint_eq(old_value(1), value);
	ck_assert_uint_eq(old_value(2), value - 1);
	ck_assert_uint_eq(old_value(3), 7);
	memcpy(&value, server->memory + 64, sizeof(value));
	ck_assert_uint_eq(value, 7);
	ck_dat(dat_lmr_free(cell.lmr));
	close_pair();
}
END_TEST

/* The server's own region has all privileges but that one. */
START_TEST(memory_without_the_privilege_is_not_changed)
{
	const uint64_t before = 5;
	DAT_RMR_TRIPLET at;

	open_pair();
	at = target(server, 64, 8);
	memcpy(server->memory + 64, &before, sizeof(before));
	ck_dat(try_add(1, &at, 1));
	expect_ends(&pair);
	(void)expect_extended(client->request_evd, client->ep, 1, DAT_DTO_ERR_REMOTE_ACCESS,
			      DAT_IB_DTO_FETCH_ADD, DAT_IB_FETCH_AND_ADD);
	ck_assert_mem_eq(server->memory + 64, &before, sizeof(before));
	close_pair();
}
END_TEST

/* ---- devices without them ---- */

#define NOT_HAD DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE)

static const char *named_value(const char *name)
{
	const DAT_PROVIDER_ATTR *attr = &client->provider;

	for (int i = 0; i < attr->num_provider_specific_attr; i++)
		if (!strcmp(attr->provider_specific_attr[i].name, name))
			return attr->provider_specific_attr[i].value;
	ck_abort_msg("no attribute %s", name);
}

/* Programs look at the attributes before they use an operation. */
START_TEST(attributes_say_what_works)
{
	const bool immed = device_has(NEEDS_IMMED), atomics = device_has(NEEDS_ATOMICS);
	DAT_RMR_TRIPLET at;

	open_pair();
	at = target(server, 64, 8);
	ck_assert_str_eq(named_value(DAT_IB_ATTR_IMMED_DATA), immed ? "TRUE" : "FALSE");
	ck_assert_str_eq(named_value(DAT_IB_ATTR_FETCH_AND_ADD), atomics ? "TRUE" : "FALSE");
	ck_assert_str_eq(named_value(DAT_IB_ATTR_CMP_AND_SWAP), atomics ? "TRUE" : "FALSE");
	ck_assert_int_eq((int)client->attr.extension_supported,
			 immed || atomics ? DAT_EXTENSION_IB : DAT_EXTENSION_NONE);
	if (!immed)
		ck_dat_is(try_immed(0, NULL, 1, NULL, NUMBER, DEFAULT), NOT_HAD);
	if (!atomics)
		ck_dat_is(try_add(1, &at, 1), NOT_HAD);
	exchange_messages(&pair);
	close_pair();
}
END_TEST

int main(int argc, char **argv)
{
	const struct device_case cases[] = {
		{ a_write_brings_its_number, NEEDS_IMMED },
		{ a_long_write_is_in_place_when_its_number_comes, NEEDS_IMMED },
		{ a_number_may_come_alone, NEEDS_IMMED },
		{ a_receive_tells_how_much_was_written, NEEDS_IMMED },
		{ numbers_and_messages_arrive_in_the_order_of_their_posts, NEEDS_IMMED },
		{ a_fence_waits_for_the_reads_before_it, NEEDS_IMMED },
		{ a_suppressed_write_brings_its_number_and_makes_no_event, NEEDS_IMMED },
		{ a_write_waits_for_a_receive, NEEDS_IMMED | NEEDS_RNR },
		{ who_sleeps_is_woken_by_a_number, NEEDS_IMMED },
		{ receives_of_a_shared_queue_are_consumed_too, NEEDS_IMMED | NEEDS_SRQ },
		{ what_is_outstanding_is_flushed, NEEDS_IMMED | NEEDS_RNR },
		{ a_refused_write_brings_no_number, NEEDS_IMMED },
		{ threads_may_write_to_one_endpoint, NEEDS_IMMED },
		{ atomic_operations_fetch_what_was_there, NEEDS_ATOMICS },
		{ memory_without_the_privilege_is_not_changed, NEEDS_ATOMICS },
		{ attributes_say_what_works, NEEDS_NOTHING },
	};

	return run_on_device(argc, argv, cases, COUNT(cases));
}
