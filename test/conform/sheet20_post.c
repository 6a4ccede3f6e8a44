/* SPDX-License-Identifier: BSD-2-Clause */
/* The sheet: writes with immediate data and atomic operations. Of DAT 2.0. */
#include <string.h>

#include "sheet.h"

#include <dat2/dat_ib_extensions.h>

#define DEFAULT	      DAT_COMPLETION_DEFAULT_FLAG
#define SUPPRESS      DAT_COMPLETION_SUPPRESS_FLAG
#define FENCE	      DAT_COMPLETION_BARRIER_FENCE_FLAG
#define UNKNOWN_FLAGS ((DAT_COMPLETION_FLAGS)0x20)
#define COOKIE	      0x1234
#define NUMBER	      0xfedc1234u
#define ATOMIC	      ((DAT_MEM_PRIV_FLAGS)(DAT_MEM_PRIV_ALL_FLAG | DAT_IB_MEM_PRIV_REMOTE_ATOMIC))

/* What a row says where the device lacks the operation. */
#define SIW_LACKS                                                                                  \
	{                                                                                          \
		"siw", NOT_SUPPORTED, "iWARP has neither immediate data nor atomic operations"     \
	}
#define TCP_LACKS                                                                                  \
	{                                                                                          \
		"tcp", NOT_SUPPORTED, "libfabric's tcp has no atomic operations"                   \
	}
#define OFI_LACKS                                                                                  \
	{                                                                                          \
		"ofi-rxe", NOT_SUPPORTED, "libfabric's verbs sends the address of an operand"      \
	}

enum operation { WRITE_IMMED, ADD, SWAP };

/* ---- posts ---- */

static DAT_RETURN post(enum operation op, DAT_EP_HANDLE ep, DAT_LMR_TRIPLET *iov,
		       DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags)
{
	switch (op) {
	case WRITE_IMMED:
		return dat_ib_post_rdma_write_immed(ep, 1, iov, cookie_of(COOKIE), remote, NUMBER,
						    flags);
	case ADD:
		return dat_ib_post_fetch_and_add(ep, 1, iov, cookie_of(COOKIE), remote, flags);
	case SWAP:
		return dat_ib_post_cmp_and_swap(ep, 0, 1, iov, cookie_of(COOKIE), remote, flags);
	}
	ck_abort();
}

/* Eight bytes of the side's memory, where no message is. */
static DAT_LMR_TRIPLET *cell(const struct side *side)
{
	static DAT_LMR_TRIPLET iov;

	iov = segment(side, 512, 8);
	return &iov;
}

static DAT_RMR_TRIPLET *remote_cell(const struct side *side)
{
	static DAT_RMR_TRIPLET remote;

	remote = target(side, 512, 8);
	return &remote;
}

/* The same in a region that permits atomic operations, where the device has them. */
static DAT_RMR_TRIPLET *atomic_cell(void)
{
	static DAT_RMR_TRIPLET remote;
	struct region region;

	if (!device_has(NEEDS_ATOMICS))
		return remote_cell(there);
	region = region_over(there, there->memory, there->size, ATOMIC);
	keep(region.lmr);
	remote = region_target(&region, 512, 8);
	return &remote;
}

static DAT_RETURN post_to(enum operation op, DAT_EP_HANDLE ep)
{
	return post(op, ep, cell(here), remote_cell(there), DEFAULT);
}

/* Through the endpoint of the stage; @n and @iov are wrong, or not. */
static DAT_RETURN post_immed(DAT_COUNT n, DAT_LMR_TRIPLET *iov, DAT_RMR_TRIPLET *remote)
{
	return dat_ib_post_rdma_write_immed(here->ep, n, iov, cookie_of(COOKIE), remote, NUMBER,
					    DEFAULT);
}

/* An atomic operation whose segment has another length, or whose address is beside the cell's. */
static DAT_RETURN post_odd(enum operation op, DAT_SEG_LENGTH length, DAT_VADDR beside)
{
	DAT_LMR_TRIPLET iov = segment(here, 512, length);
	DAT_RMR_TRIPLET remote = *remote_cell(there);

	remote.virtual_address += beside;
	return post(op, here->ep, &iov, &remote, DEFAULT);
}

/* Each address that 8 does not divide is refused. Returns what the others return. */
static DAT_RETURN post_misaligned(enum operation op)
{
	DAT_RETURN ret = post_odd(op, 8, 1);

	for (DAT_VADDR beside = 2; beside < 8; beside++)
		ck_dat_is(post_odd(op, 8, beside), ret);
	return ret;
}

/* ---- completions ---- */

/* Returns the status of the next completion on the EVD, which must be one of an extension. */
static DAT_DTO_COMPLETION_STATUS extended_status(DAT_EVD_HANDLE evd, uint64_t cookie, int operation)
{
	const DAT_DTO_COMPLETION_EVENT_DATA dto = expect_event(evd,
							       (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT)
							  .event_data.dto_completion_event_data;

	ck_assert_uint_eq(dto.user_cookie.as_64, cookie);
	ck_assert_int_eq((int)dto.operation, operation);
	return dto.status;
}

static const int operations[] = {
	[WRITE_IMMED] = DAT_IB_DTO_RDMA_WRITE_IMMED,
	[ADD] = DAT_IB_DTO_FETCH_ADD,
	[SWAP] = DAT_IB_DTO_CMP_SWAP,
};

static DAT_DTO_COMPLETION_STATUS status_of(const struct pair *pair, enum operation op)
{
	return extended_status(pair->client.request_evd, COOKIE, operations[op]);
}

/* The receive that a write of the stage consumes. */
static void expect_number(void)
{
	ck_assert_int_eq(extended_status(there->recv_evd, 1, DAT_IB_DTO_RECV_IMMED),
			 DAT_DTO_SUCCESS);
}

/* Posts one, and waits for its end if it could be posted. */
static DAT_RETURN done(enum operation op, DAT_COMPLETION_FLAGS flags)
{
	DAT_RETURN ret;

	if (op == WRITE_IMMED && device_has(NEEDS_IMMED))
		post_recv(there->ep, 1, segment(there, 0, 8));
	ret = post(op, here->ep, cell(here), op == WRITE_IMMED ? remote_cell(there) : atomic_cell(),
		   flags);
	if (ret != DAT_SUCCESS)
		return ret;
	if (op == WRITE_IMMED)
		expect_number();
	if (!(flags & SUPPRESS))
		ck_assert_int_eq(status_of(&stage, op), DAT_DTO_SUCCESS);
	return ret;
}

/* The next event is that of another request. */
static DAT_RETURN done_without_event(enum operation op)
{
	const DAT_RETURN ret = done(op, SUPPRESS);

	ck_dat(dat_ep_post_rdma_write(here->ep, 1, cell(here), cookie_of(7), remote_cell(there),
				      DEFAULT));
	expect_request_done(here, 7, 8);
	return ret;
}

static DAT_RETURN number_alone(DAT_COUNT n, DAT_LMR_TRIPLET *iov)
{
	DAT_RETURN ret;

	post_recv(there->ep, 1, segment(there, 0, 8));
	ret = post_immed(n, iov, NULL);
	ck_dat(ret);
	expect_number();
	ck_assert_int_eq(status_of(&stage, WRITE_IMMED), DAT_DTO_SUCCESS);
	return ret;
}

static DAT_LMR_TRIPLET *empty_segment(void)
{
	static DAT_LMR_TRIPLET iov = { .lmr_context = 0xbad };

	return &iov;
}

/* ---- wrong segments ---- */

static DAT_RETURN write_of_too_many(void)
{
	static DAT_LMR_TRIPLET iov[256];
	DAT_EP_PARAM param;

	ck_dat(dat_ep_query(here->ep, DAT_EP_FIELD_ALL, &param));
	ck_assert_int_lt(param.ep_attr.max_rdma_write_iov, COUNT(iov));
	return post_immed(param.ep_attr.max_rdma_write_iov + 1, iov, remote_cell(there));
}

static DAT_RETURN write_of(unsigned n, DAT_VLEN length)
{
	DAT_LMR_TRIPLET iov[2] = { *cell(here), *cell(here) };

	iov[0].segment_length = iov[1].segment_length = (DAT_SEG_LENGTH)length;
	return post_immed((DAT_COUNT)n, iov, remote_cell(there));
}

/* As many requests as the endpoint may have wait for a receive of the peer. */
static DAT_RETURN beyond_depth(enum operation op)
{
	const DAT_EP_ATTR attr = ep_attr_for(4, 2);
	struct pair *pair = new_connection(&attr);
	DAT_EP_PARAM param;
	DAT_RETURN ret;

	ck_dat(dat_ep_query(pair->client.ep, DAT_EP_FIELD_ALL, &param));
	post_outstanding(&pair->client, &pair->server, (unsigned)param.ep_attr.max_request_dtos);
	ret = post_to(op, pair->client.ep);
	post_recvs(&pair->server, 0, 1); /* nothing is lost */
	for (DAT_COUNT i = 0; i < param.ep_attr.max_request_dtos; i++)
		expect_request_done(&pair->client, (uint64_t)i, 8);
	return ret;
}

static DAT_RETURN without_reads(enum operation op)
{
	DAT_EP_ATTR attr = ep_attr_for(4, 4);

	attr.max_rdma_read_in = attr.max_rdma_read_out = 0;
	return post_to(op, new_connection(&attr)->client.ep);
}

/* ---- states ---- */

/* Of an endpoint of the server's. */
static DAT_RETURN in_state(enum operation op, DAT_EP_STATE state)
{
	return post(op, new_ep_in(state), cell(there), remote_cell(here), DEFAULT);
}

static DAT_DTO_COMPLETION_STATUS disconnected_status(enum operation op)
{
	struct pair *pair = new_disconnected();

	ck_dat(post_to(op, pair->client.ep));
	return status_of(pair, op);
}

/* ---- rows that each operation has ---- */

/* A row of a macro that makes several, whose value is @expression; @name tells them apart. */
#define OP_ROW(name, when, want, expression, ...)                                                  \
	static DAT_RETURN ROW_NAME(name##_op)(DAT_HANDLE h)                                        \
	{                                                                                          \
		(void)h;                                                                           \
		return expression;                                                                 \
	}                                                                                          \
	ROW_OF(name, ROW_NAME(name##_op), dat_extension_op, when, want, NULL, __VA_ARGS__)

#define IN_STATE(name, state, op, what, want, needs_)                                              \
	OP_ROW(name, what ", " #state, want, in_state(op, DAT_EP_STATE_##state), .needs = needs_)

#define OPERATION_ROWS(op, what, needs_)                                                           \
	static DAT_RETURN ROW_NAME(call)(DAT_HANDLE h)                                             \
	{                                                                                          \
		return post_to(op, h);                                                             \
	}                                                                                          \
	OP_ROW(null, what ": the endpoint is null", BAD_HANDLE1, post_to(op, NULL))                \
	OP_ROW(small, what ": the endpoint is a small number that no IA has", BAD_HANDLE1,         \
	       post_to(op, (DAT_HANDLE)4088))                                                      \
	OP_ROW(freed, what ": the endpoint was freed", BAD_HANDLE(EP),                             \
	       post_to(op, freed_handle(HANDLE_EP)))                                               \
	OP_ROW(other, what ": the endpoint is of another kind", BAD_HANDLE(EP),                    \
	       each_other_handle(ROW_NAME(call), HANDLE_EP, BAD_HANDLE(EP)))                       \
	OP_ROW(supp, what ", with SUPPRESS: no event", DAT_SUCCESS, done_without_event(op),        \
	       .needs = needs_)                                                                    \
	OP_ROW(fence, what ", with BARRIER_FENCE", DAT_SUCCESS, done(op, FENCE), .needs = needs_)  \
	OP_ROW(flags, what ", with unknown flags, which have no effect", DAT_SUCCESS,              \
	       done(op, UNKNOWN_FLAGS), .needs = needs_)                                           \
	OP_ROW(depth, what ": max_request_dtos requests are outstanding", NO_RESOURCE(MEMORY),     \
	       beyond_depth(op), .needs = needs_ | NEEDS_RNR)                                      \
	IN_STATE(unc, UNCONNECTED, op, what, BAD_STATE(EP_UNCONNECTED), needs_)                    \
	IN_STATE(res, RESERVED, op, what, BAD_STATE(EP_RESERVED), needs_)                          \
	IN_STATE(pas, PASSIVE_CONNECTION_PENDING, op, what, BAD_STATE(EP_PASSCONNPENDING), needs_) \
	IN_STATE(ten, TENTATIVE_CONNECTION_PENDING, op, what, BAD_STATE(EP_TENTCONNPENDING),       \
		 needs_)                                                                           \
	IN_STATE(act, ACTIVE_CONNECTION_PENDING, op, what, BAD_STATE(EP_ACTCONNPENDING), needs_)   \
	IN_STATE(pen, DISCONNECT_PENDING, op, what, BAD_STATE(EP_DISCPENDING), needs_ | NEEDS_RNR) \
	IN_STATE(dis, DISCONNECTED, op, what, DAT_SUCCESS, needs_)                                 \
	STATUS_ROW(dat_extension_op, what ": the endpoint is disconnected", DAT_DTO_ERR_FLUSHED,   \
		   .needs = needs_)                                                                \
	{                                                                                          \
		return disconnected_status(op);                                                    \
	}                                                                                          \
	struct row

OPERATION_ROWS(WRITE_IMMED, "write with immediate data", NEEDS_IMMED);
OPERATION_ROWS(ADD, "fetch and add", NEEDS_ATOMICS);
OPERATION_ROWS(SWAP, "compare and swap", NEEDS_ATOMICS);

/* ---- writes with immediate data ---- */

ROW(dat_extension_op, "write with immediate data: one segment", DAT_SUCCESS,
    done(WRITE_IMMED, DEFAULT), .on = { SIW_LACKS });
ROW(dat_extension_op, "write with immediate data: no segments, and no remote range", DAT_SUCCESS,
    number_alone(0, NULL), .needs = NEEDS_IMMED);
ROW(dat_extension_op, "write with immediate data: a segment of length 0, with a bad context",
    BAD_ARG(5), post_immed(1, empty_segment(), NULL), .needs = NEEDS_IMMED);
ROW(dat_extension_op, "write with immediate data: the number of segments is negative", BAD_ARG(2),
    post_immed(-1, cell(here), remote_cell(there)), .needs = NEEDS_IMMED);
ROW(dat_extension_op, "write with immediate data: more segments than the endpoint has", BAD_ARG(2),
    write_of_too_many(), .needs = NEEDS_IMMED);
ROW(dat_extension_op, "write with immediate data: the segments are null, and there are some",
    BAD_ARG(3), post_immed(1, NULL, remote_cell(there)), .needs = NEEDS_IMMED);
ROW(dat_extension_op, "write with immediate data: more bytes than the device moves at once",
    BAD_ARG(3), write_of(1, here->attr.max_rdma_size + UINT64_C(1)),
    .needs = NEEDS_IMMED | NEEDS_SIZE_LIMIT);
ROW(dat_extension_op, "write with immediate data: the lengths of the segments exceed 32 bits",
    BAD_ARG(3), write_of(2, ~UINT64_C(0)), .needs = NEEDS_IMMED);
ROW(dat_extension_op, "write with immediate data: the remote range is null", BAD_ARG(5),
    post_immed(1, cell(here), NULL), .needs = NEEDS_IMMED);

/* ---- atomic operations ---- */

#define ATOMIC_ROWS(op, what)                                                                      \
	OP_ROW(one, what ": eight bytes", DAT_SUCCESS, done(op, DEFAULT),                          \
	       .on = { SIW_LACKS, TCP_LACKS, OFI_LACKS })                                          \
	OP_ROW(no_iov, what ": the segment is null", BAD_ARG(4),                                   \
	       post(op, here->ep, NULL, remote_cell(there), DEFAULT), .needs = NEEDS_ATOMICS)      \
	OP_ROW(none, what ": the segment has no bytes", BAD_ARG(4), post_odd(op, 0, 0),            \
	       .needs = NEEDS_ATOMICS)                                                             \
	OP_ROW(few, what ": the segment has four bytes", BAD_ARG(4), post_odd(op, 4, 0),           \
	       .needs = NEEDS_ATOMICS)                                                             \
	OP_ROW(many, what ": the segment has sixteen bytes", BAD_ARG(4), post_odd(op, 16, 0),      \
	       .needs = NEEDS_ATOMICS)                                                             \
	OP_ROW(nowhere, what ": the remote range is null", BAD_ARG(4),                             \
	       post(op, here->ep, cell(here), NULL, DEFAULT), .needs = NEEDS_ATOMICS)              \
	OP_ROW(odd, what ": 8 does not divide the remote address", BAD_ARG(4),                     \
	       post_misaligned(op), .needs = NEEDS_ATOMICS)                                        \
	OP_ROW(reads, what ": the endpoint has no RDMA reads", BAD_STATE(EP_NOTREADY),             \
	       without_reads(op), .needs = NEEDS_ATOMICS)                                          \
	struct row

ATOMIC_ROWS(ADD, "fetch and add");
ATOMIC_ROWS(SWAP, "compare and swap");

/* ---- what the peer refuses ---- */

/* The status of a client's request that breaks the connection, and changes nothing. */
static DAT_DTO_COMPLETION_STATUS refused(enum operation op, DAT_RMR_TRIPLET remote)
{
	struct pair *pair = new_connection(NULL);
	DAT_DTO_COMPLETION_STATUS status;

	memset(there->memory + 512, UNTOUCHED, 16);
	if (op == WRITE_IMMED)
		post_recv(pair->server.ep, 1, segment(there, 0, 8));
	ck_dat(post(op, pair->client.ep, cell(here), &remote, DEFAULT));
	expect_end(&pair->client);
	status = status_of(pair, op);
	bytes_check(there->memory + 512, 16, UNTOUCHED);
	return status;
}

static DAT_DTO_COMPLETION_STATUS refused_context(enum operation op)
{
	DAT_RMR_TRIPLET remote = *remote_cell(there);
	struct region region = region_over(there, there->memory, 1024, DAT_MEM_PRIV_ALL_FLAG);

	ck_dat(dat_lmr_free(region.lmr));
	remote.rmr_context = region.rmr_context;
	return refused(op, remote);
}

static DAT_DTO_COMPLETION_STATUS refused_in(enum operation op, unsigned priv, size_t size)
{
	struct region region = region_over(there, there->memory, size, (DAT_MEM_PRIV_FLAGS)priv);

	keep(region.lmr);
	return refused(op, region_target(&region, 512, 8));
}

#define REFUSED_ROW(when, needs_, expression)                                                      \
	STATUS_ROW(dat_extension_op, when, DAT_DTO_ERR_REMOTE_ACCESS,                              \
		   .needs = needs_ | NEEDS_REMOTE_STATUS)                                          \
	{                                                                                          \
		return expression;                                                                 \
	}                                                                                          \
	struct row

#define READ_ONLY (LOCAL | DAT_MEM_PRIV_REMOTE_READ_FLAG)

REFUSED_ROW("write with immediate data: no region has the remote context", NEEDS_IMMED,
	    refused_context(WRITE_IMMED));
REFUSED_ROW("write with immediate data: the remote region lacks remote write", NEEDS_IMMED,
	    refused_in(WRITE_IMMED, READ_ONLY, 1024));
REFUSED_ROW("write with immediate data: it ends after the remote region", NEEDS_IMMED,
	    refused_in(WRITE_IMMED, DAT_MEM_PRIV_ALL_FLAG, 516));
REFUSED_ROW("fetch and add: no region has the remote context", NEEDS_ATOMICS, refused_context(ADD));
REFUSED_ROW("fetch and add: the region lacks the privilege for it", NEEDS_ATOMICS,
	    refused_in(ADD, DAT_MEM_PRIV_ALL_FLAG, 1024));
REFUSED_ROW("fetch and add: it ends after the remote region", NEEDS_ATOMICS,
	    refused_in(ADD, ATOMIC, 516));
REFUSED_ROW("compare and swap: no region has the remote context", NEEDS_ATOMICS,
	    refused_context(SWAP));
REFUSED_ROW("compare and swap: the region lacks the privilege for it", NEEDS_ATOMICS,
	    refused_in(SWAP, DAT_MEM_PRIV_ALL_FLAG, 1024));
REFUSED_ROW("compare and swap: it ends after the remote region", NEEDS_ATOMICS,
	    refused_in(SWAP, ATOMIC, 516));

/* ---- the privilege ---- */

static DAT_RETURN create_with_privilege(void)
{
	const DAT_REGION_DESCRIPTION what = { .for_va = here->memory };
	struct region region;
	DAT_RETURN ret = region_try(here, DAT_MEM_TYPE_VIRTUAL, what, 64, ATOMIC, &region);

	if (ret == DAT_SUCCESS)
		keep(region.lmr);
	return ret;
}

ROW(dat_lmr_create, "with the privilege for atomic operations", DAT_SUCCESS,
    create_with_privilege(), .on = { { "siw", BAD_ARG(6), "iWARP has no extensions" } });
