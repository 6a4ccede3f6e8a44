/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sheet: the bytes of an event. Those behind it are never written; in DAT 2.0 neither are those
 * for data of extensions, if the event is none of an extension, and a completion says which
 * operation it is of.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <string.h>

#include "sheet.h"

#define CANARY 0xa5

/* A program's event, and what it may have there besides. */
static struct {
	unsigned char before[64];
	DAT_EVENT event;
	unsigned char after[128];
} guarded;

/* Returns the first byte of the event that may not be written. */
static size_t event_end(void)
{
#if DAT_EDITION == 2
	return offsetof(DAT_EVENT, event_extension_data);
#else
	return sizeof(DAT_EVENT);
#endif
}

/* Takes the next event, by a wait or a dequeue. */
static const DAT_EVENT *take(DAT_EVD_HANDLE evd, bool wait)
{
	DAT_COUNT nmore;
	DAT_RETURN ret;

	memset(&guarded, CANARY, sizeof(guarded));
	do
		ret = wait ? dat_evd_wait(evd, TIME_LIMIT, 1, &guarded.event, &nmore)
			   : dat_evd_dequeue(evd, &guarded.event);
	while (ret == DAT_QUEUE_EMPTY && !sched_yield());
	ck_dat(ret);
	bytes_check(guarded.before, sizeof(guarded.before), CANARY);
	bytes_check((unsigned char *)&guarded.event + event_end(),
		    sizeof(guarded) - offsetof(__typeof__(guarded), event) - event_end(), CANARY);
	return &guarded.event;
}

/* ---- EVDs with an event ---- */

static DAT_EVD_HANDLE with_software_event(void)
{
	DAT_EVD_HANDLE evd = new_evd(8, DAT_EVD_SOFTWARE_FLAG);

	post_software_events(evd, 1);
	return evd;
}

/* A message from the client to the server, whose both ends are the pair's. */
static struct pair *with_message(void)
{
	struct pair *pair = new_connection(NULL);

	post_recv(pair->server.ep, 1, segment(&pair->server, 0, 8));
	post_send(pair->client.ep, 2, segment(&pair->client, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	return pair;
}

static DAT_EVD_HANDLE with_flushed_receive(void)
{
	struct pair *pair = new_connection(NULL);

	post_recvs(&pair->client, 1, 1);
	pair_disconnect(pair, DAT_CLOSE_ABRUPT_FLAG);
	return pair->client.recv_evd;
}

static DAT_EVD_HANDLE with_bind(void)
{
	struct pair *pair = new_connection(NULL);
	const DAT_LMR_TRIPLET range = segment(here, 0, 64);
	DAT_RMR_CONTEXT context;

	ck_dat(RMR_BIND(new_rmr(), here->lmr, &range, REMOTE, pair->client.ep, no_cookie,
			DAT_COMPLETION_DEFAULT_FLAG, &context));
	return pair->client.request_evd;
}

static DAT_EVD_HANDLE with_request(void)
{
	DAT_CONN_QUAL qual;
	struct pair *pair = new_pair(NULL);

	new_psp(&qual);
	ck_dat(try_connect(pair->client.ep, there, qual, TIME_LIMIT));
	return there->cr_evd;
}

static DAT_EVD_HANDLE with_established(void)
{
	DAT_CR_HANDLE cr;
	struct pair *pair = new_request(&cr);

	ck_dat(dat_cr_accept(cr, pair->server.ep, 0, NULL));
	expect_connection(&pair->server, DAT_CONNECTION_EVENT_ESTABLISHED);
	return pair->client.connect_evd;
}

static DAT_EVD_HANDLE with_rejected(void)
{
	DAT_CR_HANDLE cr;
	struct pair *pair = new_request(&cr);

	ck_dat(CR_REJECT(cr));
	return pair->client.connect_evd;
}

static DAT_EVD_HANDLE with_disconnected(void)
{
	struct pair *pair = new_connection(NULL);

	ck_dat(dat_ep_disconnect(pair->client.ep, DAT_CLOSE_ABRUPT_FLAG));
	return pair->client.connect_evd;
}

/* ---- the bytes behind an event ---- */

static uint32_t taken(DAT_EVD_HANDLE evd, bool wait)
{
	const DAT_EVENT *event = take(evd, wait);

	if (event->event_number == DAT_CONNECTION_REQUEST_EVENT)
		keep(event->event_data.cr_arrival_event_data.cr_handle);
	return event->event_number;
}

#define BYTES_ROWS(what, want, evd)                                                                \
	BYTES_ROW(dequeue, dat_evd_dequeue, what, want, evd, false)                                \
	BYTES_ROW(wait, dat_evd_wait, what, want, evd, true)                                       \
	struct row
#define BYTES_ROW(name, call, what, want, evd, wait)                                               \
	static DAT_RETURN ROW_NAME(name##_bytes)(DAT_HANDLE h)                                     \
	{                                                                                          \
		(void)h;                                                                           \
		return taken(evd, wait);                                                           \
	}                                                                                          \
	ROW_OF(name, ROW_NAME(name##_bytes), call, what ": no byte behind it is written", want,    \
	       NULL, .kind = ROW_EVENT)

BYTES_ROWS("a software event", DAT_SOFTWARE_EVENT, with_software_event());
BYTES_ROWS("a completion of a send", DAT_DTO_COMPLETION_EVENT, with_message()->client.request_evd);
BYTES_ROWS("a completion of a receive", DAT_DTO_COMPLETION_EVENT, with_message()->server.recv_evd);
BYTES_ROWS("a flushed receive", DAT_DTO_COMPLETION_EVENT, with_flushed_receive());
BYTES_ROWS("a completion of a bind", DAT_RMR_BIND_COMPLETION_EVENT, with_bind());
BYTES_ROWS("a connection request", DAT_CONNECTION_REQUEST_EVENT, with_request());
BYTES_ROWS("an established connection", DAT_CONNECTION_EVENT_ESTABLISHED, with_established());
BYTES_ROWS("a reject", DAT_CONNECTION_EVENT_PEER_REJECTED, with_rejected());
BYTES_ROWS("a disconnect", DAT_CONNECTION_EVENT_DISCONNECTED, with_disconnected());

/* A call that brings no event writes none. */
static DAT_RETURN none_taken(DAT_RETURN ret)
{
	bytes_check(&guarded, sizeof(guarded), CANARY);
	return ret;
}

static DAT_EVENT *no_event(void)
{
	memset(&guarded, CANARY, sizeof(guarded));
	return &guarded.event;
}

ROW(dat_evd_dequeue, "it is empty, and no byte is written", DAT_QUEUE_EMPTY,
    none_taken(dat_evd_dequeue(new_evd(8, DAT_EVD_SOFTWARE_FLAG), no_event())));

ROW_DO(dat_evd_wait, "the timeout expires, and no byte of an event is written",
       PLAIN(TIMEOUT_EXPIRED))
{
	DAT_COUNT nmore;

	return none_taken(
		dat_evd_wait(new_evd(8, DAT_EVD_SOFTWARE_FLAG), 1000, 1, no_event(), &nmore));
}

#if DAT_EDITION == 2

/* ---- the operation of a completion ---- */

/* Takes the next completion, which must be of that request and operation. Returns its status. */
static DAT_DTO_COMPLETION_STATUS operation_done(DAT_EVD_HANDLE evd, DAT_EP_HANDLE ep,
						uint64_t cookie, DAT_DTOS operation)
{
	const DAT_EVENT *event = take(evd, true);
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event->event_data.dto_completion_event_data;

	ck_assert_int_eq(event->event_number, DAT_DTO_COMPLETION_EVENT);
	ck_assert_ptr_eq(dto->ep_handle, ep);
	ck_assert_uint_eq(dto->user_cookie.as_64, cookie);
	ck_assert_int_eq(dto->operation, operation);
	ck_assert_uint_eq(dto->rmr_context, 0);
	return dto->status;
}

/* The same of a request that fails; how depends on the device. */
static DAT_EVENT_NUMBER operation_failed(const struct side *side, uint64_t cookie,
					 DAT_DTOS operation)
{
	const DAT_DTO_COMPLETION_STATUS status = operation_done(side->request_evd, side->ep, cookie,
								operation);

	ck_assert_int_ne(status, DAT_DTO_SUCCESS);
	ck_assert_int_ne(status, DAT_DTO_ERR_FLUSHED);
	return DAT_DTO_COMPLETION_EVENT;
}

STATUS_ROW(dat_ep_post_send, "its completion has the operation SEND", DAT_DTO_SUCCESS)
{
	struct pair *pair = with_message();

	return operation_done(pair->client.request_evd, pair->client.ep, 2, DAT_DTO_SEND);
}

STATUS_ROW(dat_ep_post_recv, "its completion has the operation RECEIVE", DAT_DTO_SUCCESS)
{
	struct pair *pair = with_message();

	return operation_done(pair->server.recv_evd, pair->server.ep, 1, DAT_DTO_RECEIVE);
}

STATUS_ROW(dat_ep_post_rdma_write, "its completion has the operation RDMA_WRITE", DAT_DTO_SUCCESS)
{
	struct pair *pair = new_connection(NULL);

	post_write(pair->client.ep, 3, segment(here, 0, 8), target(there, 0, 8),
		   DAT_COMPLETION_DEFAULT_FLAG);
	return operation_done(pair->client.request_evd, pair->client.ep, 3, DAT_DTO_RDMA_WRITE);
}

STATUS_ROW(dat_ep_post_rdma_read, "its completion has the operation RDMA_READ", DAT_DTO_SUCCESS)
{
	struct pair *pair = new_connection(NULL);

	post_read(pair->client.ep, 4, segment(here, 0, 8), target(there, 0, 8),
		  DAT_COMPLETION_DEFAULT_FLAG);
	return operation_done(pair->client.request_evd, pair->client.ep, 4, DAT_DTO_RDMA_READ);
}

/*
 * A segment of memory that is not registered, and never was under that context; it is so long that
 * it is not copied into the request.
 */
static DAT_LMR_TRIPLET bad_segment(const struct side *side)
{
	DAT_LMR_TRIPLET iov = segment(side, 0, 4096);

	iov.lmr_context ^= 0x00ffff00;
	return iov;
}

static DAT_RMR_TRIPLET bad_target(const struct side *side)
{
	DAT_RMR_TRIPLET remote = target(side, 0, 8);

	remote.rmr_context ^= 0x00ffff00;
	return remote;
}

EVENT_ROW(dat_ep_post_send, "it fails: the operation is SEND", DAT_DTO_COMPLETION_EVENT)
{
	struct pair *pair = new_connection(NULL);

	post_recv(pair->server.ep, 1, segment(there, 0, 4096));
	post_send(pair->client.ep, 5, bad_segment(here), DAT_COMPLETION_DEFAULT_FLAG);
	expect_ends(pair);
	return operation_failed(&pair->client, 5, DAT_DTO_SEND);
}

EVENT_ROW(dat_ep_post_rdma_write, "it fails: the operation is RDMA_WRITE", DAT_DTO_COMPLETION_EVENT,
	  .needs = NEEDS_REMOTE_STATUS)
{
	struct pair *pair = new_connection(NULL);

	post_write(pair->client.ep, 5, segment(here, 0, 8), bad_target(there),
		   DAT_COMPLETION_DEFAULT_FLAG);
	expect_ends(pair);
	return operation_failed(&pair->client, 5, DAT_DTO_RDMA_WRITE);
}

EVENT_ROW(dat_ep_post_rdma_read, "it fails: the operation is RDMA_READ", DAT_DTO_COMPLETION_EVENT,
	  .needs = NEEDS_REMOTE_STATUS)
{
	struct pair *pair = new_connection(NULL);

	post_read(pair->client.ep, 5, segment(here, 0, 8), bad_target(there),
		  DAT_COMPLETION_DEFAULT_FLAG);
	expect_ends(pair);
	return operation_failed(&pair->client, 5, DAT_DTO_RDMA_READ);
}

EVENT_ROW(dat_ep_post_recv, "it fails: the operation is RECEIVE", DAT_DTO_COMPLETION_EVENT)
{
	struct pair *pair = new_connection(NULL);
	DAT_DTO_COMPLETION_STATUS status;

	post_recv(pair->server.ep, 5, segment(there, 0, 4));
	post_send(pair->client.ep, 6, segment(here, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	expect_end(&pair->server);
	status = operation_done(pair->server.recv_evd, pair->server.ep, 5, DAT_DTO_RECEIVE);
	ck_assert_int_ne(status, DAT_DTO_SUCCESS);
	return DAT_DTO_COMPLETION_EVENT;
}

STATUS_ROW(dat_ep_disconnect, "receives that are flushed are plain events of the operation RECEIVE",
	   DAT_DTO_ERR_FLUSHED)
{
	struct pair *pair = new_connection(NULL);

	post_recvs(&pair->client, 1, 2);
	pair_disconnect(pair, DAT_CLOSE_ABRUPT_FLAG);
	ck_assert_int_eq(operation_done(pair->client.recv_evd, pair->client.ep, 1, DAT_DTO_RECEIVE),
			 DAT_DTO_ERR_FLUSHED);
	return operation_done(pair->client.recv_evd, pair->client.ep, 2, DAT_DTO_RECEIVE);
}

/* They wait behind a message that finds no receive. */
STATUS_ROW(dat_ep_disconnect, "requests that are flushed have their operations",
	   DAT_DTO_ERR_FLUSHED, .needs = NEEDS_RNR | NEEDS_SEND_PLACEMENT)
{
	struct pair *pair = new_connection(NULL);
	DAT_EVD_HANDLE evd = pair->client.request_evd;
	DAT_EP_HANDLE ep = pair->client.ep;

	post_send(ep, 1, segment(here, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	post_write(ep, 2, segment(here, 0, 8), target(there, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	post_read(ep, 3, segment(here, 0, 8), target(there, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	pair_disconnect(pair, DAT_CLOSE_ABRUPT_FLAG);
	ck_assert_int_eq(operation_done(evd, ep, 1, DAT_DTO_SEND), DAT_DTO_ERR_FLUSHED);
	ck_assert_int_eq(operation_done(evd, ep, 2, DAT_DTO_RDMA_WRITE), DAT_DTO_ERR_FLUSHED);
	return operation_done(evd, ep, 3, DAT_DTO_RDMA_READ);
}

STATUS_ROW(dat_ep_disconnect, "requests that are posted afterwards have their operations",
	   DAT_DTO_ERR_FLUSHED)
{
	struct pair *pair = new_disconnected();
	DAT_EVD_HANDLE evd = pair->client.request_evd;
	DAT_EP_HANDLE ep = pair->client.ep;

	post_send(ep, 1, segment(here, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	post_write(ep, 2, segment(here, 0, 8), target(there, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	post_read(ep, 3, segment(here, 0, 8), target(there, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	post_recv(ep, 4, segment(here, 0, 8));
	ck_assert_int_eq(operation_done(evd, ep, 1, DAT_DTO_SEND), DAT_DTO_ERR_FLUSHED);
	ck_assert_int_eq(operation_done(evd, ep, 2, DAT_DTO_RDMA_WRITE), DAT_DTO_ERR_FLUSHED);
	ck_assert_int_eq(operation_done(evd, ep, 3, DAT_DTO_RDMA_READ), DAT_DTO_ERR_FLUSHED);
	return operation_done(pair->client.recv_evd, ep, 4, DAT_DTO_RECEIVE);
}

/* ---- the flag of extensions ---- */

static DAT_RETURN create_evd(unsigned flags)
{
	DAT_EVD_HANDLE evd = unwritten;
	DAT_RETURN ret = dat_evd_create(here->ia, 8, DAT_HANDLE_NULL, (DAT_EVD_FLAGS)flags, &evd);

	if (ret == DAT_SUCCESS)
		keep(evd);
	return ret;
}

#define EXTENSION_FLAG 0x200 /* DAT_IB_EVD_EXTENSION_FLAG */

ROW(dat_evd_create, "the flag of extensions alone, which nothing feeds", DAT_SUCCESS,
    create_evd(EXTENSION_FLAG));
ROW(dat_evd_create, "the flag of extensions beside completions", DAT_SUCCESS,
    create_evd(EXTENSION_FLAG | DAT_EVD_DTO_FLAG));

#endif
