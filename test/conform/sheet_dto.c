/* SPDX-License-Identifier: BSD-2-Clause */
/* The sheet: transfers and their completions. */
#include <string.h>

#include "sheet.h"

#define PLAIN_FLAGS   DAT_COMPLETION_DEFAULT_FLAG
#define SUPPRESS      DAT_COMPLETION_SUPPRESS_FLAG
#define SOLICITED     DAT_COMPLETION_SOLICITED_WAIT_FLAG
#define UNSIGNALLED   DAT_COMPLETION_UNSIGNALLED_FLAG
#define FENCE	      DAT_COMPLETION_BARRIER_FENCE_FLAG
#define THRESHOLD     DAT_COMPLETION_EVD_THRESHOLD_FLAG
#define UNKNOWN_FLAGS ((DAT_COMPLETION_FLAGS)0x20)
#define COOKIE	      0x1234

enum transfer { SEND, RECV, WRITE, READ };

/* ---- one way to post each kind ---- */

static DAT_RETURN post(enum transfer kind, DAT_EP_HANDLE ep, DAT_COUNT n, DAT_LMR_TRIPLET *iov,
		       const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags)
{
	switch (kind) {
	case SEND:
		return dat_ep_post_send(ep, n, iov, cookie_of(COOKIE), flags);
	case RECV:
		return dat_ep_post_recv(ep, n, iov, cookie_of(COOKIE), flags);
	case WRITE:
		return dat_ep_post_rdma_write(ep, n, iov, cookie_of(COOKIE), remote, flags);
	case READ:
		return dat_ep_post_rdma_read(ep, n, iov, cookie_of(COOKIE), remote, flags);
	}
	ck_abort();
}

/* @n segments of 8 bytes of the client's memory. */
static DAT_LMR_TRIPLET *segments(unsigned n)
{
	static DAT_LMR_TRIPLET iov[256];

	ck_assert_uint_le(n, COUNT(iov));
	for (unsigned i = 0; i < n; i++)
		iov[i] = segment(here, 8 * i, 8);
	return iov;
}

static DAT_LMR_TRIPLET *long_segment(DAT_VLEN length)
{
	static DAT_LMR_TRIPLET iov[2];

	iov[0] = iov[1] = segment(here, 0, 8);
	iov[0].segment_length = length;
	return iov;
}

static const DAT_RMR_TRIPLET *remote_range(void)
{
	static DAT_RMR_TRIPLET remote;

	remote = target(there, 4096, 2048);
	return &remote;
}

/* Of one segment, or none if there is to be none, through the endpoint of the stage. */
static DAT_RETURN post_n(enum transfer kind, DAT_COUNT n, DAT_LMR_TRIPLET *iov)
{
	return post(kind, here->ep, n, iov, remote_range(), PLAIN_FLAGS);
}

/* A request that succeeds, through the endpoint of @pair; the peer takes a message. */
static void request_succeeds(struct pair *pair, enum transfer kind, DAT_COUNT n,
			     DAT_COMPLETION_FLAGS flags)
{
	if (kind == SEND)
		post_recv(pair->server.ep, COOKIE, segment(&pair->server, 0, 8192));
	ck_dat(post(kind, pair->client.ep, n, n ? segments((unsigned)n) : NULL, remote_range(),
		    flags));
	if (kind == SEND)
		expect_recv_done(&pair->server, COOKIE, 8 * (size_t)n);
}

static DAT_RETURN request_done(enum transfer kind, DAT_COUNT n, DAT_COMPLETION_FLAGS flags)
{
	request_succeeds(&stage, kind, n, flags);
	expect_request_done(here, COOKIE, 8 * (size_t)n);
	return DAT_SUCCESS;
}

/* No event follows a success: the next is that of another request. */
static DAT_RETURN request_suppressed(enum transfer kind)
{
	request_succeeds(&stage, kind, 1, SUPPRESS);
	post_write(here->ep, 7, *segments(1), *remote_range(), PLAIN_FLAGS);
	expect_request_done(here, 7, 8);
	expect_no_event(here->request_evd);
	return DAT_SUCCESS;
}

static DAT_COUNT max_segments_of(enum transfer kind)
{
	DAT_EP_PARAM param;

	ck_dat(dat_ep_query(here->ep, DAT_EP_FIELD_ALL, &param));
	switch (kind) {
	case SEND:
		return param.ep_attr.max_request_iov;
	case RECV:
		return param.ep_attr.max_recv_iov;
	case WRITE:
		return param.ep_attr.max_rdma_write_iov;
	case READ:
		return param.ep_attr.max_rdma_read_iov;
	}
	ck_abort();
}

static DAT_RETURN post_too_many(enum transfer kind)
{
	DAT_COUNT n = max_segments_of(kind) + 1;

	return post_n(kind, n, segments((unsigned)n));
}

static DAT_EP_ATTR unsignalled_attr(void)
{
	DAT_EP_ATTR attr = ep_attr_for(4, 4);

	attr.recv_completion_flags = attr.request_completion_flags = UNSIGNALLED;
	return attr;
}

static DAT_RETURN request_unsignalled(enum transfer kind)
{
	const DAT_EP_ATTR attr = unsignalled_attr();
	struct pair *pair = new_connection(&attr);
	DAT_LMR_TRIPLET to = segment(there, 0, 8);
	DAT_EVENT event;

	ck_dat(dat_ep_post_recv(pair->server.ep, 1, &to, no_cookie, UNSIGNALLED));
	ck_dat(post(kind, pair->client.ep, 1, segments(1), remote_range(), UNSIGNALLED));
	/* It notifies nobody, so it is not waited for. */
	while (dat_evd_dequeue(pair->client.request_evd, &event) == DAT_QUEUE_EMPTY)
		;
	ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, COOKIE);
	ck_assert_int_eq(event.event_data.dto_completion_event_data.status, DAT_DTO_SUCCESS);
	return DAT_SUCCESS;
}

/* As many requests as the endpoint may have wait for a receive of the peer. */
static DAT_RETURN request_beyond_depth(enum transfer kind)
{
	const DAT_EP_ATTR attr = ep_attr_for(4, 2);
	struct pair *pair = new_connection(&attr);
	DAT_EP_PARAM param;
	DAT_RETURN ret;

	ck_dat(dat_ep_query(pair->client.ep, DAT_EP_FIELD_ALL, &param));
	post_outstanding(&pair->client, &pair->server, (unsigned)param.ep_attr.max_request_dtos);
	ret = post(kind, pair->client.ep, 1, segments(1), remote_range(), PLAIN_FLAGS);
	post_recvs(&pair->server, 0, 1); /* nothing is lost */
	for (DAT_COUNT i = 0; i < param.ep_attr.max_request_dtos; i++)
		expect_request_done(&pair->client, (uint64_t)i, 8);
	return ret;
}

/* ---- what the posts of requests have in common ---- */

#define POST_ROW(name, call, when, want, expression, ...)                                          \
	static DAT_RETURN ROW_NAME(name##_post)(DAT_HANDLE h)                                      \
	{                                                                                          \
		(void)h;                                                                           \
		return expression;                                                                 \
	}                                                                                          \
	ROW_OF(name, ROW_NAME(name##_post), call, when, want, NULL, __VA_ARGS__)

#define REQUEST_ROWS(call, kind)                                                                   \
	HANDLE_ROWS(call, "the endpoint", EP, BAD_HANDLE(EP),                                      \
		    post(kind, h, 1, segments(1), remote_range(), PLAIN_FLAGS));                   \
	POST_ROW(a, call, "the number of segments is negative", BAD_ARG(2),                        \
		 post_n(kind, -1, segments(1)))                                                    \
	POST_ROW(b, call, "more segments than the endpoint has", BAD_ARG(2), post_too_many(kind))  \
	POST_ROW(c, call, "the segments are null, and their number is not 0", BAD_ARG(3),          \
		 post_n(kind, 1, NULL))                                                            \
	POST_ROW(d, call, "more bytes than the device moves at once", BAD_ARG(3),                  \
		 post_n(kind, 1, long_segment(here->attr.max_message_size + UINT64_C(1))),         \
		 .needs = NEEDS_SIZE_LIMIT)                                                        \
	POST_ROW(f, call, "with unknown flags, which have no effect", DAT_SUCCESS,                 \
		 request_done(kind, 1, UNKNOWN_FLAGS))                                             \
	POST_ROW(g, call, "one segment", DAT_SUCCESS, request_done(kind, 1, PLAIN_FLAGS))          \
	POST_ROW(h, call, "no segments", DAT_SUCCESS, request_done(kind, 0, PLAIN_FLAGS))          \
	POST_ROW(i, call, "as many segments as the endpoint has", DAT_SUCCESS,                     \
		 request_done(kind, max_segments_of(kind), PLAIN_FLAGS))                           \
	POST_ROW(j, call, "with SUPPRESS, no event", DAT_SUCCESS, request_suppressed(kind))        \
	POST_ROW(k, call, "with BARRIER_FENCE", DAT_SUCCESS, request_done(kind, 1, FENCE))         \
	POST_ROW(l, call, "with EVD_THRESHOLD, which has no effect", DAT_SUCCESS,                  \
		 request_done(kind, 1, THRESHOLD))                                                 \
	POST_ROW(m, call, "with UNSIGNALLED, as the endpoint", DAT_SUCCESS,                        \
		 request_unsignalled(kind))                                                        \
	POST_ROW(n, call, "max_request_dtos requests are outstanding", NO_RESOURCE(MEMORY),        \
		 request_beyond_depth(kind), .needs = NEEDS_RNR)                                   \
	struct row

REQUEST_ROWS(dat_ep_post_send, SEND);
REQUEST_ROWS(dat_ep_post_rdma_write, WRITE);
REQUEST_ROWS(dat_ep_post_rdma_read, READ);

ROW(dat_ep_post_send, "the lengths of the segments exceed " OF_EDITION("64", "32") " bits",
    BAD_ARG(3), post_n(SEND, 2, long_segment(~UINT64_C(0))));
ROW(dat_ep_post_rdma_write, "the lengths of the segments exceed " OF_EDITION("64", "32") " bits",
    BAD_ARG(3), post_n(WRITE, 2, long_segment(~UINT64_C(0))));
ROW(dat_ep_post_rdma_read, "the lengths of the segments exceed " OF_EDITION("64", "32") " bits",
    BAD_ARG(3), post_n(READ, 2, long_segment(~UINT64_C(0))),
    .on = { { "siw", BAD_ARG(2), "a read of iWARP has one segment" } });
ROW(dat_ep_post_send, "with UNSIGNALLED, and the endpoint is not: it has no effect", DAT_SUCCESS,
    request_done(SEND, 1, UNSIGNALLED));
ROW(dat_ep_post_send, "with SOLICITED_WAIT", DAT_SUCCESS, request_done(SEND, 1, SOLICITED));
ROW(dat_ep_post_rdma_write, "with SOLICITED_WAIT, which has no effect", DAT_SUCCESS,
    request_done(WRITE, 1, SOLICITED));
ROW(dat_ep_post_rdma_read, "with SOLICITED_WAIT, which has no effect", DAT_SUCCESS,
    request_done(READ, 1, SOLICITED));
ROW(dat_ep_post_rdma_write, "the remote range is null", BAD_ARG(5),
    post(WRITE, here->ep, 1, segments(1), NULL, PLAIN_FLAGS));
ROW(dat_ep_post_rdma_read, "the remote range is null", BAD_ARG(5),
    post(READ, here->ep, 1, segments(1), NULL, PLAIN_FLAGS));

ROW_DO(dat_ep_post_send, "a segment of length 0 between others, with a bad context", DAT_SUCCESS)
{
	DAT_LMR_TRIPLET iov[] = { segment(here, 0, 8),
				  { .lmr_context = 0xbad },
				  segment(here, 8, 8) };

	post_recv(there->ep, 1, segment(there, 0, 64));
	ck_dat(post_n(SEND, 3, iov));
	expect_recv_done(there, 1, 16);
	expect_request_done(here, COOKIE, 16);
	return DAT_SUCCESS;
}

/* OFED's dtest advertises 64 bytes, whatever it moves. */
ROW_DO(dat_ep_post_rdma_write, "the length of the remote range is 0, and is not looked at",
       DAT_SUCCESS)
{
	DAT_RMR_TRIPLET remote = target(there, 0, 0);

	ck_dat(post(WRITE, here->ep, 1, segments(1), &remote, PLAIN_FLAGS));
	expect_request_done(here, COOKIE, 8);
	return DAT_SUCCESS;
}

ROW_DO(dat_ep_post_rdma_read, "the length of the remote range is 0, and is not looked at",
       DAT_SUCCESS)
{
	DAT_RMR_TRIPLET remote = target(there, 0, 0);

	ck_dat(post(READ, here->ep, 1, segments(1), &remote, PLAIN_FLAGS));
	expect_request_done(here, COOKIE, 8);
	return DAT_SUCCESS;
}

ROW_DO(dat_ep_post_rdma_read, "the endpoint has no RDMA reads", BAD_STATE(EP_NOTREADY))
{
	DAT_EP_ATTR attr = ep_attr_for(4, 4);

	attr.max_rdma_read_in = attr.max_rdma_read_out = 0;
	return post(READ, new_connection(&attr)->client.ep, 1, segments(1), remote_range(),
		    PLAIN_FLAGS);
}

ROW_DO(dat_ep_post_rdma_read, "more reads than max_rdma_read_out, which wait", DAT_SUCCESS)
{
	DAT_EP_ATTR attr = ep_attr_for(4, 12);
	struct pair *pair;

	attr.max_rdma_read_in = attr.max_rdma_read_out = 1;
	pair = new_connection(&attr);
	for (unsigned i = 0; i < 12; i++)
		post_read(pair->client.ep, i, *segments(1), *remote_range(), PLAIN_FLAGS);
	for (unsigned i = 0; i < 12; i++)
		expect_request_done(&pair->client, i, 8);
	return DAT_SUCCESS;
}

/* ---- dat_ep_post_recv ---- */

/* A receive that a message completes. */
static DAT_RETURN recv_done(DAT_COUNT n, DAT_COMPLETION_FLAGS flags)
{
	DAT_RETURN ret = post(RECV, here->ep, n, n ? segments((unsigned)n) : NULL, NULL, flags);

	ck_dat(ret);
	post_send(there->ep, 2, segment(there, 0, 8 * (size_t)n), PLAIN_FLAGS);
	expect_recv_done(here, COOKIE, 8 * (size_t)n);
	expect_request_done(there, 2, 8 * (size_t)n);
	return ret;
}

HANDLE_ROWS(dat_ep_post_recv, "the endpoint", EP, BAD_HANDLE(EP),
	    post(RECV, h, 1, segments(1), NULL, PLAIN_FLAGS));
ROW(dat_ep_post_recv, "the number of segments is negative", BAD_ARG(2),
    post_n(RECV, -1, segments(1)));
ROW(dat_ep_post_recv, "more segments than the endpoint has", BAD_ARG(2), post_too_many(RECV));
ROW(dat_ep_post_recv, "the segments are null, and their number is not 0", BAD_ARG(3),
    post_n(RECV, 1, NULL));
ROW(dat_ep_post_recv, "with unknown flags, which have no effect", DAT_SUCCESS,
    recv_done(1, UNKNOWN_FLAGS));
ROW(dat_ep_post_recv, "one segment", DAT_SUCCESS, recv_done(1, PLAIN_FLAGS));
ROW(dat_ep_post_recv, "no segments", DAT_SUCCESS, recv_done(0, PLAIN_FLAGS));
ROW(dat_ep_post_recv, "as many segments as the endpoint has", DAT_SUCCESS,
    recv_done(max_segments_of(RECV), PLAIN_FLAGS));
ROW(dat_ep_post_recv, "with SUPPRESS, which has no effect", DAT_SUCCESS, recv_done(1, SUPPRESS));
ROW(dat_ep_post_recv, "with SOLICITED_WAIT, which has no effect", DAT_SUCCESS,
    recv_done(1, SOLICITED));
ROW(dat_ep_post_recv, "with BARRIER_FENCE, which has no effect", DAT_SUCCESS, recv_done(1, FENCE));
ROW(dat_ep_post_recv, "with UNSIGNALLED, and the endpoint is not: it has no effect", DAT_SUCCESS,
    recv_done(1, UNSIGNALLED));

ROW_DO(dat_ep_post_recv, "max_recv_dtos receives are posted", NO_RESOURCE(MEMORY))
{
	const DAT_EP_ATTR attr = ep_attr_for(2, 2);
	DAT_EP_HANDLE ep = new_ep(&attr);

	for (unsigned i = 0; i < 2; i++)
		post_recv(ep, i, *segments(1));
	return post(RECV, ep, 1, segments(1), NULL, PLAIN_FLAGS);
}

ROW_DO(dat_ep_post_recv, "a receive was completed, so that there is room", DAT_SUCCESS)
{
	const DAT_EP_ATTR attr = ep_attr_for(1, 2);
	struct pair *pair = new_connection(&attr);

	post_recv(pair->client.ep, 1, *segments(1));
	post_send(pair->server.ep, 2, segment(there, 0, 8), PLAIN_FLAGS);
	expect_recv_done(&pair->client, 1, 8);
	return post(RECV, pair->client.ep, 1, segments(1), NULL, PLAIN_FLAGS);
}

ROW_DO(dat_ep_post_recv, "the endpoint has no zone", BAD_STATE(EP_NOTREADY))
{
	DAT_EP_HANDLE ep;

	ck_dat(dat_ep_create(here->ia, NULL, here->recv_evd, here->request_evd, here->connect_evd,
			     NULL, &ep));
	return post(RECV, keep(ep), 1, segments(1), NULL, PLAIN_FLAGS);
}

ROW_DO(dat_ep_post_recv, "a message that is shorter than the receive", DAT_SUCCESS)
{
	DAT_RETURN ret = post(RECV, here->ep, 2, segments(2), NULL, PLAIN_FLAGS);

	post_send(there->ep, 2, segment(there, 0, 11), PLAIN_FLAGS);
	expect_recv_done(here, COOKIE, 11);
	expect_request_done(there, 2, 11);
	return ret;
}

/* ---- what completions say ---- */

/* The status of a client's request that breaks the connection; both ends see that. */
static DAT_DTO_COMPLETION_STATUS broken_by(enum transfer kind, DAT_LMR_TRIPLET iov,
					   DAT_RMR_TRIPLET remote)
{
	struct pair *pair = new_connection(NULL);

	post_recv(pair->server.ep, 1, segment(there, 0, 64));
	ck_dat(post(kind, pair->client.ep, 1, &iov, &remote, PLAIN_FLAGS));
	expect_end(&pair->client);
	return completion_of(pair->client.request_evd, COOKIE);
}

static DAT_LMR_TRIPLET with_lkey(DAT_LMR_CONTEXT lkey)
{
	DAT_LMR_TRIPLET iov = segment(here, 0, 256); /* more than what travels inline */

	iov.lmr_context = lkey;
	return iov;
}

static DAT_LMR_TRIPLET with_freed_lkey(void)
{
	DAT_LMR_CONTEXT lkey;

	ck_dat(dat_lmr_free(new_lmr(LOCAL, &lkey)));
	return with_lkey(lkey);
}

static DAT_LMR_TRIPLET with_read_only_lkey(void)
{
	DAT_LMR_CONTEXT lkey;

	new_lmr(DAT_MEM_PRIV_LOCAL_READ_FLAG, &lkey);
	return with_lkey(lkey);
}

static DAT_LMR_TRIPLET with_lkey_of_other_zone(void)
{
	DAT_LMR_CONTEXT lkey;

	new_lmr_in(new_pz(), LOCAL, &lkey);
	return with_lkey(lkey);
}

static DAT_LMR_TRIPLET beyond_region(void)
{
	return segment(here, here->size - 8, 256);
}

#define RXE_SEGMENT "rxe tells most local faults as errors of the queue pair"
#define SIW_SEGMENT "siw tells local faults as errors of the queue pair"
#define BAD_SEGMENT_ON                                                                             \
	.on = { { "rxe", DAT_DTO_ERR_LOCAL_EP, RXE_SEGMENT },                                      \
		{ "siw", DAT_DTO_ERR_LOCAL_EP, SIW_SEGMENT } }

STATUS_ROW(dat_ep_post_send, "the region was freed", DAT_DTO_ERR_LOCAL_PROTECTION, BAD_SEGMENT_ON)
{
	return broken_by(SEND, with_freed_lkey(), *remote_range());
}

STATUS_ROW(dat_ep_post_send, "the region is in another zone", DAT_DTO_ERR_LOCAL_PROTECTION,
	   BAD_SEGMENT_ON)
{
	return broken_by(SEND, with_lkey_of_other_zone(), *remote_range());
}

STATUS_ROW(dat_ep_post_send, "the segment ends after the region", DAT_DTO_ERR_LOCAL_PROTECTION,
	   .on = { { "siw", DAT_DTO_ERR_LOCAL_EP, SIW_SEGMENT } })
{
	return broken_by(SEND, beyond_region(), *remote_range());
}

STATUS_ROW(dat_ep_post_rdma_write, "the region was freed", DAT_DTO_ERR_LOCAL_PROTECTION,
	   BAD_SEGMENT_ON)
{
	return broken_by(WRITE, with_freed_lkey(), *remote_range());
}

STATUS_ROW(dat_ep_post_rdma_write, "the region is in another zone", DAT_DTO_ERR_LOCAL_PROTECTION,
	   BAD_SEGMENT_ON)
{
	return broken_by(WRITE, with_lkey_of_other_zone(), *remote_range());
}

STATUS_ROW(dat_ep_post_rdma_read, "the region was freed", DAT_DTO_ERR_LOCAL_PROTECTION)
{
	return broken_by(READ, with_freed_lkey(), *remote_range());
}

STATUS_ROW(dat_ep_post_rdma_read, "the region lacks local write", DAT_DTO_ERR_LOCAL_PROTECTION)
{
	return broken_by(READ, with_read_only_lkey(), *remote_range());
}

/* The same for the peer's memory. */
static DAT_DTO_COMPLETION_STATUS refused(enum transfer kind, DAT_MEM_PRIV_FLAGS priv, size_t offset,
					 size_t length)
{
	struct region region = region_over(there, there->memory, 4096, priv);

	keep(region.lmr);
	return broken_by(kind, segment(here, 0, length), region_target(&region, offset, length));
}

static DAT_DTO_COMPLETION_STATUS refused_context(enum transfer kind)
{
	DAT_RMR_TRIPLET remote = *remote_range();
	struct region region = region_over(there, there->memory, 64, DAT_MEM_PRIV_ALL_FLAG);

	ck_dat(dat_lmr_free(region.lmr));
	remote.rmr_context = region.rmr_context;
	return broken_by(kind, segment(here, 0, 64), remote);
}

#define WRITE_ONLY (LOCAL | DAT_MEM_PRIV_REMOTE_WRITE_FLAG)
#define READ_ONLY  (LOCAL | DAT_MEM_PRIV_REMOTE_READ_FLAG)

STATUS_ROW(dat_ep_post_rdma_write, "no region has the remote context", DAT_DTO_ERR_REMOTE_ACCESS,
	   .needs = NEEDS_REMOTE_STATUS)
{
	return refused_context(WRITE);
}

STATUS_ROW(dat_ep_post_rdma_read, "no region has the remote context", DAT_DTO_ERR_REMOTE_ACCESS,
	   .needs = NEEDS_REMOTE_STATUS)
{
	return refused_context(READ);
}

STATUS_ROW(dat_ep_post_rdma_write, "the remote region lacks remote write",
	   DAT_DTO_ERR_REMOTE_ACCESS, .needs = NEEDS_REMOTE_STATUS)
{
	return refused(WRITE, READ_ONLY, 0, 64);
}

STATUS_ROW(dat_ep_post_rdma_read, "the remote region lacks remote read", DAT_DTO_ERR_REMOTE_ACCESS,
	   .needs = NEEDS_REMOTE_STATUS | NEEDS_READ_RIGHTS)
{
	return refused(READ, WRITE_ONLY, 0, 64);
}

STATUS_ROW(dat_ep_post_rdma_write, "it ends after the remote region", DAT_DTO_ERR_REMOTE_ACCESS,
	   .needs = NEEDS_REMOTE_STATUS)
{
	return refused(WRITE, WRITE_ONLY, 4095, 2);
}

STATUS_ROW(dat_ep_post_rdma_read, "it ends after the remote region", DAT_DTO_ERR_REMOTE_ACCESS,
	   .needs = NEEDS_REMOTE_STATUS)
{
	return refused(READ, READ_ONLY, 4095, 2);
}

/* The status of the server's receive for a message of @length bytes. */
static DAT_DTO_COMPLETION_STATUS receive_of(struct pair *pair, DAT_LMR_TRIPLET to, size_t length)
{
	post_recv(pair->server.ep, 1, to);
	post_send(pair->client.ep, 2, segment(here, 0, length), PLAIN_FLAGS);
	expect_end(&pair->server);
	return completion_of(pair->server.recv_evd, 1);
}

STATUS_ROW(dat_ep_post_recv, "the message is longer than the receive", DAT_DTO_ERR_LOCAL_LENGTH,
	   .on = { { "rxe", DAT_DTO_ERR_LOCAL_EP, RXE_SEGMENT },
		   { "ofi-rxe", DAT_DTO_ERR_LOCAL_EP, RXE_SEGMENT } })
{
	return receive_of(new_connection(NULL), segment(there, 0, 8), 64);
}

STATUS_ROW(dat_ep_post_recv, "the region lacks local write", DAT_DTO_ERR_LOCAL_PROTECTION,
	   .on = { { "rxe", DAT_DTO_ERR_LOCAL_EP, RXE_SEGMENT },
		   { "siw", DAT_DTO_ERR_TRANSPORT, "siw tells faults of receives as fatal" } })
{
	struct region region = region_over(there, there->memory, 4096,
					   DAT_MEM_PRIV_LOCAL_READ_FLAG);

	keep(region.lmr);
	return receive_of(new_connection(NULL), region_segment(&region, 0, 64), 64);
}

STATUS_ROW(dat_ep_post_send, "the message is longer than the peer's receive",
	   DAT_DTO_ERR_REMOTE_RESPONDER, .needs = NEEDS_REMOTE_STATUS)
{
	struct pair *pair = new_connection(NULL);

	receive_of(pair, segment(there, 0, 8), 64);
	return completion_of(pair->client.request_evd, 2);
}

EVENT_ROW(dat_ep_post_send, "the message is longer than the peer's receive: the connection",
	  DAT_CONNECTION_EVENT_BROKEN, .needs = NEEDS_REMOTE_STATUS)
{
	struct pair *pair = new_connection(NULL);

	receive_of(pair, segment(there, 0, 8), 64);
	return event_of(pair->client.connect_evd);
}

STATUS_ROW(dat_ep_post_send, "a request before it failed", DAT_DTO_ERR_FLUSHED,
	   .needs = NEEDS_REMOTE_STATUS)
{
	struct pair *pair = new_connection(NULL);
	DAT_RMR_TRIPLET remote = *remote_range();

	remote.rmr_context = 0xbad;
	post_write(pair->client.ep, 1, segment(here, 0, 8), remote, PLAIN_FLAGS);
	post_send(pair->client.ep, 2, segment(here, 0, 8), SUPPRESS); /* a flush is reported */
	expect_end(&pair->client);
	ck_assert_int_eq(completion_of(pair->client.request_evd, 1), DAT_DTO_ERR_REMOTE_ACCESS);
	return completion_of(pair->client.request_evd, 2);
}

#define FLUSHED_ROW(call, kind, evd)                                                               \
	STATUS_ROW(call, "the endpoint is disconnected", DAT_DTO_ERR_FLUSHED)                      \
	{                                                                                          \
		struct pair *pair = new_disconnected();                                            \
                                                                                                   \
		ck_dat(post(kind, pair->client.ep, 1, segments(1), remote_range(), PLAIN_FLAGS));  \
		return completion_of(pair->client.evd, COOKIE);                                    \
	}                                                                                          \
	struct row

FLUSHED_ROW(dat_ep_post_send, SEND, request_evd);
FLUSHED_ROW(dat_ep_post_recv, RECV, recv_evd);
FLUSHED_ROW(dat_ep_post_rdma_write, WRITE, request_evd);
FLUSHED_ROW(dat_ep_post_rdma_read, READ, request_evd);

STATUS_ROW(dat_ep_post_send, "the peer posts its receive later", DAT_DTO_SUCCESS,
	   .needs = NEEDS_RNR)
{
	struct pair *pair = new_connection(NULL);

	post_send(pair->client.ep, 1, segment(here, 0, 8), PLAIN_FLAGS);
	post_recv(pair->server.ep, 2, segment(there, 0, 8));
	expect_recv_done(&pair->server, 2, 8);
	return completion_of(pair->client.request_evd, 1);
}

/* ---- order and bytes ---- */

ROW_DO(dat_ep_post_send, "plain and suppressed ones mixed: the plain ones complete in order",
       DAT_SUCCESS)
{
	const DAT_EP_ATTR attr = ep_attr_for(16, 16);
	struct pair *pair = new_connection(&attr);

	post_recvs(&pair->server, 0, 12);
	for (unsigned i = 0; i < 12; i++)
		post_send(pair->client.ep, i, segment(here, 0, 8), i % 3 ? SUPPRESS : PLAIN_FLAGS);
	for (unsigned i = 0; i < 12; i += 3)
		expect_request_done(&pair->client, i, 8);
	for (unsigned i = 0; i < 12; i++)
		expect_recv_done(&pair->server, i, 8);
	expect_no_event(pair->client.request_evd);
	return DAT_SUCCESS;
}

ROW_DO(dat_ep_post_send, "all suppressed, more than max_request_dtos, never lock up", DAT_SUCCESS)
{
	const DAT_EP_ATTR attr = ep_attr_for(8, 4);
	struct pair *pair = new_connection(&attr);
	DAT_LMR_TRIPLET from = segment(here, 0, 8);
	DAT_RETURN ret = DAT_SUCCESS;

	for (unsigned i = 0; i < 64; i++) {
		post_recv(pair->server.ep, i, segment(there, 0, 8));
		do
			ret = dat_ep_post_send(pair->client.ep, 1, &from, cookie_of(i), SUPPRESS);
		while (ret == NO_RESOURCE(MEMORY));
		ck_dat(ret);
		expect_recv_done(&pair->server, i, 8);
	}
	return ret;
}

ROW_DO(dat_ep_post_rdma_write, "a read of the same place follows: the new bytes", DAT_SUCCESS)
{
	const DAT_RMR_TRIPLET remote = target(there, 0, 64);

	pattern_fill(here->memory, 64, 11);
	memset(here->memory + 64, 0, 64);
	post_write(here->ep, 1, segment(here, 0, 64), remote, PLAIN_FLAGS);
	post_read(here->ep, 2, segment(here, 64, 64), remote, PLAIN_FLAGS);
	expect_request_done(here, 1, 64);
	expect_request_done(here, 2, 64);
	pattern_check(here->memory + 64, 64, 11);
	return DAT_SUCCESS;
}

ROW_DO(dat_ep_post_rdma_write, "a send follows: when it is received, the bytes are there",
       DAT_SUCCESS)
{
	pattern_fill(here->memory, 4096, 12);
	post_recv(there->ep, 3, segment(there, 8192, 8));
	post_write(here->ep, 1, segment(here, 0, 4096), target(there, 0, 4096), SUPPRESS);
	post_send(here->ep, 2, segment(here, 0, 8), PLAIN_FLAGS);
	expect_recv_done(there, 3, 8);
	pattern_check(there->memory, 4096, 12);
	expect_request_done(here, 2, 8);
	return DAT_SUCCESS;
}

ROW_DO(dat_ep_post_rdma_read, "a send with BARRIER_FENCE follows, which waits for it", DAT_SUCCESS)
{
	memset(there->memory, 0x42, 8);
	memset(here->memory, 0, 8);
	post_recv(there->ep, 3, segment(there, 64, 8));
	post_read(here->ep, 1, segment(here, 0, 8), target(there, 0, 8), PLAIN_FLAGS);
	post_send(here->ep, 2, segment(here, 0, 8), FENCE);
	expect_recv_done(there, 3, 8);
	bytes_check(there->memory + 64, 8, 0x42);
	expect_request_done(here, 1, 8);
	expect_request_done(here, 2, 8);
	return DAT_SUCCESS;
}

ROW_DO(dat_evd_wait, "a solicited message, on an EVD for solicited receives", DAT_SUCCESS,
       .needs = NEEDS_SOLICITED)
{
	DAT_EP_ATTR attr = ep_attr_for(4, 4);
	struct pair *pair;
	DAT_EVENT event;
	DAT_COUNT nmore;
	DAT_RETURN ret;

	attr.recv_completion_flags = SOLICITED;
	pair = new_connection(&attr);
	post_recvs(&pair->server, 0, 2);
	post_send(pair->client.ep, 1, segment(here, 0, 8), PLAIN_FLAGS);
	post_send(pair->client.ep, 2, segment(here, 0, 8), SOLICITED);
	ret = dat_evd_wait(pair->server.recv_evd, TIME_LIMIT, 1, &event, &nmore);
	expect_request_done(&pair->client, 1, 8);
	expect_request_done(&pair->client, 2, 8);
	return ret;
}

ROW_DO(dat_evd_dequeue, "a cookie of all ones", DAT_SUCCESS)
{
	post_recv(there->ep, 1, segment(there, 0, 8));
	post_send(here->ep, UINT64_MAX, segment(here, 0, 8), PLAIN_FLAGS);
	expect_recv_done(there, 1, 8);
	expect_request_done(here, UINT64_MAX, 8);
	return DAT_SUCCESS;
}
