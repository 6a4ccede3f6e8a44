/* SPDX-License-Identifier: BSD-2-Clause */
/* The sheet: shared receive queues. */
#include <limits.h>
#include <string.h>

#define ROW_NEEDS NEEDS_SRQ
#include "sheet.h"

static DAT_SRQ_HANDLE srq_out;
static DAT_SRQ_PARAM param;

static DAT_SRQ_PARAM queried(DAT_SRQ_HANDLE srq)
{
	ck_dat(dat_srq_query(srq, DAT_SRQ_FIELD_ALL, &param));
	return param;
}

/* ---- dat_srq_create ---- */

static DAT_RETURN create_in(DAT_PZ_HANDLE pz, DAT_COUNT dtos, DAT_COUNT iov, DAT_COUNT watermark)
{
	DAT_SRQ_ATTR attr = { .max_recv_dtos = dtos,
			      .max_recv_iov = iov,
			      .low_watermark = watermark };
	DAT_RETURN ret;

	srq_out = unwritten;
	ret = dat_srq_create(here->ia, pz, &attr, &srq_out);
	if (ret == DAT_SUCCESS)
		keep(srq_out);
	else
		ck_assert_ptr_eq(srq_out, unwritten);
	return ret;
}

static DAT_RETURN create(DAT_COUNT dtos, DAT_COUNT iov, DAT_COUNT watermark)
{
	return create_in(here->pz, dtos, iov, watermark);
}

static DAT_SRQ_ATTR *some_attr(void)
{
	static DAT_SRQ_ATTR attr = { .max_recv_dtos = 4, .max_recv_iov = 1 };

	return &attr;
}

HANDLE_ROWS(dat_srq_create, "the IA", IA, BAD_HANDLE(IA),
	    dat_srq_create(h, here->pz, some_attr(), &unwritten));
HANDLE_ROWS(dat_srq_create, "the zone", PZ, BAD_HANDLE(PZ), create_in(h, 4, 1, 0));
ROW(dat_srq_create, "the zone is another instance's", BAD_HANDLE(PZ),
    create_in(there->pz, 4, 1, 0));
ROW(dat_srq_create, "the attributes are null", BAD_ARG(3),
    dat_srq_create(here->ia, here->pz, NULL, &unwritten));
ROW(dat_srq_create, "no receives", BAD_ARG(3), create(0, 1, 0));
ROW(dat_srq_create, "a negative number of receives", BAD_ARG(3), create(-1, 1, 0));
ROW(dat_srq_create, "more receives than max_recv_per_srq", BAD_ARG(3),
    create(here->attr.max_recv_per_srq + 1, 1, 0));
ROW(dat_srq_create, "a negative number of segments", BAD_ARG(3), create(4, -1, 0));
ROW(dat_srq_create, "more segments than the device has", BAD_ARG(3),
    create(4, here->attr.max_iov_segments_per_dto + 1, 0));
ROW(dat_srq_create, "a low watermark", BAD_ARG(3), create(4, 1, 1));
ROW(dat_srq_create, "the output is null", BAD_ARG(4),
    dat_srq_create(here->ia, here->pz, some_attr(), NULL));
ROW(dat_srq_create, "one receive of one segment", DAT_SUCCESS, create(1, 1, 0));
ROW(dat_srq_create, "receives of no segment", DAT_SUCCESS, create(4, 0, 0));

/* ---- dat_srq_query ---- */

HANDLE_ROWS(dat_srq_query, "the queue", SRQ, BAD_HANDLE(SRQ),
	    dat_srq_query(h, DAT_SRQ_FIELD_ALL, &param));
ROW(dat_srq_query, "the mask has an unknown bit, which is ignored", DAT_SUCCESS,
    dat_srq_query(new_srq(4), (DAT_SRQ_PARAM_MASK)0x100, &param));
ROW(dat_srq_query, "the output is null", BAD_ARG(3),
    dat_srq_query(new_srq(4), DAT_SRQ_FIELD_ALL, NULL));
ROW(dat_srq_query, "the mask is 0", DAT_SUCCESS,
    dat_srq_query(new_srq(4), (DAT_SRQ_PARAM_MASK)0, &param));

ROW_DO(dat_srq_query, "all fields of a new queue", DAT_SUCCESS)
{
	DAT_RETURN ret = dat_srq_query(new_srq(4), DAT_SRQ_FIELD_ALL, &param);

	ck_assert_ptr_eq(param.ia_handle, here->ia);
	ck_assert_int_eq(param.srq_state, DAT_SRQ_STATE_OPERATIONAL);
	ck_assert_ptr_eq(param.pz_handle, here->pz);
	ck_assert_int_ge(param.max_recv_dtos, 4);
	ck_assert_int_ge(param.max_recv_iov, 2);
	ck_assert_int_eq(param.low_watermark, 0);
	ck_assert_int_eq(param.outstanding_dto_count, 0);
	return ret;
}

/* ---- dat_srq_post_recv ---- */

/* @n segments of 8 bytes. */
static DAT_RETURN post(DAT_SRQ_HANDLE srq, DAT_COUNT n, uint64_t cookie)
{
	DAT_LMR_TRIPLET iov[8];

	for (size_t i = 0; i < COUNT(iov); i++)
		iov[i] = segment(here, 8 * i, 8);
	return dat_srq_post_recv(srq, n, iov, cookie_of(cookie));
}

static DAT_SRQ_HANDLE srq_with(unsigned receives)
{
	DAT_SRQ_HANDLE srq = new_srq(4);

	for (unsigned i = 0; i < receives; i++)
		ck_dat(post(srq, 1, i));
	return srq;
}

static DAT_COUNT srq_iov(DAT_SRQ_HANDLE srq)
{
	return queried(srq).max_recv_iov;
}

/* Until it is refused; then nothing more is outstanding than before. */
static DAT_RETURN fill(DAT_SRQ_HANDLE srq)
{
	DAT_COUNT n = 0;
	DAT_RETURN ret;

	while ((ret = post(srq, 1, (uint64_t)n)) == DAT_SUCCESS)
		n++;
	ck_assert_int_eq(n, queried(srq).max_recv_dtos);
	ck_assert_int_eq(param.outstanding_dto_count, n);
	return ret;
}

HANDLE_ROWS(dat_srq_post_recv, "the queue", SRQ, BAD_HANDLE(SRQ), post(h, 1, 1));
ROW(dat_srq_post_recv, "the number of segments is negative", BAD_ARG(2), post(new_srq(4), -1, 1));
ROW(dat_srq_post_recv, "the segments are null, and their number is not 0", BAD_ARG(3),
    dat_srq_post_recv(new_srq(4), 1, NULL, no_cookie));
ROW(dat_srq_post_recv, "max_recv_dtos receives are outstanding", NO_RESOURCE(MEMORY),
    fill(new_srq(4)));
ROW(dat_srq_post_recv, "one segment", DAT_SUCCESS, post(new_srq(4), 1, 1));
ROW(dat_srq_post_recv, "two segments", DAT_SUCCESS, post(new_srq(4), 2, 1));
ROW(dat_srq_post_recv, "no segments", DAT_SUCCESS,
    dat_srq_post_recv(new_srq(4), 0, NULL, no_cookie));

ROW_DO(dat_srq_post_recv, "more segments than max_recv_iov", BAD_ARG(2))
{
	DAT_SRQ_HANDLE srq = new_srq(4);
	DAT_LMR_TRIPLET iov[64];

	memset(iov, 0, sizeof(iov));
	ck_assert_int_lt(srq_iov(srq), (int)COUNT(iov));
	return dat_srq_post_recv(srq, srq_iov(srq) + 1, iov, no_cookie);
}

/* ---- dat_ep_create_with_srq ---- */

static DAT_RETURN create_ep_of(DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv, DAT_EVD_HANDLE request,
			       DAT_EVD_HANDLE connect, DAT_SRQ_HANDLE srq, const DAT_EP_ATTR *attr,
			       DAT_EP_HANDLE *ep)
{
	DAT_RETURN ret;

	*ep = unwritten;
	ret = dat_ep_create_with_srq(here->ia, pz, recv, request, connect, srq, attr, ep);
	if (ret == DAT_SUCCESS)
		keep(*ep);
	else
		ck_assert_ptr_eq(*ep, unwritten);
	return ret;
}

static DAT_EP_HANDLE ep_out;

static DAT_RETURN create_ep(DAT_SRQ_HANDLE srq, const DAT_EP_ATTR *attr)
{
	return create_ep_of(here->pz, here->recv_evd, here->request_evd, here->connect_evd, srq,
			    attr, &ep_out);
}

static const DAT_EP_ATTR *ep_attr(void)
{
	static DAT_EP_ATTR attr;

	attr = ep_attr_for(4, 4);
	return &attr;
}

static DAT_RETURN create_ep_on(DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv, DAT_EVD_HANDLE request,
			       DAT_EVD_HANDLE connect)
{
	return create_ep_of(pz, recv, request, connect, new_srq(4), ep_attr(), &ep_out);
}

HANDLE_ROWS(dat_ep_create_with_srq, "the IA", IA, BAD_HANDLE(IA),
	    dat_ep_create_with_srq(h, here->pz, NULL, NULL, NULL, here->pz, ep_attr(), &unwritten));
HANDLE_ROWS(dat_ep_create_with_srq, "the queue", SRQ, BAD_HANDLE(SRQ), create_ep(h, ep_attr()));
HANDLE_OR_NULL_ROWS(dat_ep_create_with_srq, "the zone", PZ, BAD_HANDLE(PZ),
		    create_ep_on(h, here->recv_evd, here->request_evd, here->connect_evd));
HANDLE_OR_NULL_ROWS(dat_ep_create_with_srq, "the receive EVD", EVD, BAD_HANDLE(EVD_RECV),
		    create_ep_on(here->pz, h, here->request_evd, here->connect_evd));
HANDLE_OR_NULL_ROWS(dat_ep_create_with_srq, "the request EVD", EVD, BAD_HANDLE(EVD_REQUEST),
		    create_ep_on(here->pz, here->recv_evd, h, here->connect_evd));
HANDLE_OR_NULL_ROWS(dat_ep_create_with_srq, "the connect EVD", EVD, BAD_HANDLE(EVD_CONN),
		    create_ep_on(here->pz, here->recv_evd, here->request_evd, h));
ROW(dat_ep_create_with_srq, "the receive EVD takes no completions", BAD_HANDLE(EVD_RECV),
    create_ep_on(here->pz, here->cr_evd, here->request_evd, here->connect_evd));
ROW(dat_ep_create_with_srq, "the request EVD takes no completions", BAD_HANDLE(EVD_REQUEST),
    create_ep_on(here->pz, here->recv_evd, here->cr_evd, here->connect_evd));
ROW(dat_ep_create_with_srq, "the connect EVD takes no connections", BAD_HANDLE(EVD_CONN),
    create_ep_on(here->pz, here->recv_evd, here->request_evd, here->cr_evd));
ROW(dat_ep_create_with_srq, "the attributes are null", BAD_ARG(7), create_ep(new_srq(4), NULL));
ROW(dat_ep_create_with_srq, "the output is null", BAD_ARG(8),
    dat_ep_create_with_srq(here->ia, here->pz, here->recv_evd, here->request_evd, here->connect_evd,
			   new_srq(4), ep_attr(), NULL));
ROW(dat_ep_create_with_srq, "the queue is new", DAT_SUCCESS, create_ep(new_srq(4), ep_attr()));
ROW(dat_ep_create_with_srq, "receives are on the queue", DAT_SUCCESS,
    create_ep(srq_with(2), ep_attr()));

#define ATTR_ROW(when, want, member, value)                                                        \
	ROW_DO(dat_ep_create_with_srq, when, want)                                                 \
	{                                                                                          \
		DAT_EP_ATTR attr = *ep_attr();                                                     \
                                                                                                   \
		attr.member = value;                                                               \
		return create_ep(new_srq(4), &attr);                                               \
	}                                                                                          \
	struct row

ATTR_ROW("a negative number of requests", BAD_ARG(7), max_request_dtos, -1);
ATTR_ROW("unknown flags, which are ignored", DAT_SUCCESS, recv_completion_flags,
	 (DAT_COMPLETION_FLAGS)0x20);
ATTR_ROW("an unknown service", BAD_ARG(7), service_type, (DAT_SERVICE_TYPE)2);
ATTR_ROW("an unknown quality of service, which is ignored", DAT_SUCCESS, qos, (DAT_QOS)0x10);
ATTR_ROW("a number of segments of receives, which is ignored", DAT_SUCCESS, max_recv_iov, -1);
ATTR_ROW("more receives than the queue has, which limits nothing", DAT_SUCCESS, max_recv_dtos, 64);

/* What the device does is what the attribute srq_ep_pz_difference_supported says. */
ROW_DO(dat_ep_create_with_srq, "the queue is in another zone, on a device that cannot have that",
       BAD_ARG(2), .on = { { "siw", DAT_SUCCESS, "siw can" } })
{
	DAT_RETURN ret = create_ep_on(new_pz(), here->recv_evd, here->request_evd,
				      here->connect_evd);

	ck_assert_int_eq(ret == DAT_SUCCESS, here->provider.srq_ep_pz_difference_supported);
	return ret;
}

ROW_DO(dat_ep_query, "of an endpoint with a shared receive queue", DAT_SUCCESS)
{
	DAT_SRQ_HANDLE srq = new_srq(4);
	DAT_EP_PARAM ep_param;
	DAT_RETURN ret;

	ck_dat(create_ep(srq, ep_attr()));
	ret = dat_ep_query(ep_out, DAT_EP_FIELD_ALL, &ep_param);
	ck_assert_ptr_eq(ep_param.srq_handle, srq);
	return ret;
}

ROW_DO(dat_ep_post_recv, "the endpoint has a shared receive queue", BAD_ARG(1))
{
	DAT_LMR_TRIPLET iov = segment(here, 0, 8);

	ck_dat(create_ep(new_srq(4), ep_attr()));
	return dat_ep_post_recv(ep_out, 1, &iov, no_cookie, DAT_COMPLETION_DEFAULT_FLAG);
}

ROW_DO(dat_pz_free, "a shared receive queue uses it", BAD_STATE(PZ_IN_USE))
{
	DAT_PZ_HANDLE pz = new_pz();

	ck_dat(create_in(pz, 4, 1, 0));
	return dat_pz_free(pz);
}

/* ---- dat_srq_free ---- */

HANDLE_ROWS(dat_srq_free, "the queue", SRQ, BAD_HANDLE(SRQ), dat_srq_free(h));
ROW(dat_srq_free, "it is empty", DAT_SUCCESS, dat_srq_free(new_srq(4)));
ROW(dat_srq_free, "receives are on it, which end without an event", DAT_SUCCESS,
    dat_srq_free(srq_with(3)));

ROW_DO(dat_srq_free, "an endpoint uses it", BAD_STATE(SRQ_IN_USE))
{
	DAT_SRQ_HANDLE srq = srq_with(1);

	ck_dat(create_ep(srq, ep_attr()));
	return dat_srq_free(srq);
}

ROW_DO(dat_srq_free, "the endpoint that used it was freed", DAT_SUCCESS)
{
	DAT_SRQ_HANDLE srq = new_srq(4);

	ck_dat(create_ep(srq, ep_attr()));
	ck_dat(dat_ep_free(ep_out));
	return dat_srq_free(srq);
}

/* ---- dat_srq_resize ---- */

HANDLE_ROWS(dat_srq_resize, "the queue", SRQ, BAD_HANDLE(SRQ), dat_srq_resize(h, 8));
ROW(dat_srq_resize, "the new length is 0", BAD_ARG(2), dat_srq_resize(new_srq(4), 0));
ROW(dat_srq_resize, "the new length is negative", BAD_ARG(2), dat_srq_resize(new_srq(4), -1));
ROW(dat_srq_resize, "the new length is above max_recv_per_srq", BAD_ARG(2),
    dat_srq_resize(new_srq(4), here->attr.max_recv_per_srq + 1));
ROW(dat_srq_resize, "the new length is below what is outstanding", BAD_STATE_PLAIN,
    dat_srq_resize(srq_with(3), 2));
ROW(dat_srq_resize, "the new length is what is outstanding", DAT_SUCCESS,
    dat_srq_resize(srq_with(3), 3));
ROW(dat_srq_resize, "the new length is the old one", DAT_SUCCESS, dat_srq_resize(new_srq(4), 4));

ROW_DO(dat_srq_resize, "receives are on it, and stay", DAT_SUCCESS,
       .on = { { "siw", NO_RESOURCE(SRQ), "siw cannot resize a shared receive queue" },
	       { "ofi-rxe", NO_RESOURCE(SRQ), "libfabric cannot resize one of a device" } })
{
	DAT_SRQ_HANDLE srq = srq_with(3);
	DAT_RETURN ret = dat_srq_resize(srq, 16);

	ck_assert_int_ge(queried(srq).max_recv_dtos, ret == DAT_SUCCESS ? 16 : 4);
	ck_assert_int_eq(param.outstanding_dto_count, 3);
	return ret;
}

ROW_DO(dat_srq_resize, "the new length is below the low watermark", BAD_STATE_PLAIN)
{
	DAT_SRQ_HANDLE srq = srq_with(4);

	ck_dat(dat_srq_set_lw(srq, 3));
	return dat_srq_resize(srq, 2);
}

/* ---- dat_srq_set_lw ---- */

HANDLE_ROWS(dat_srq_set_lw, "the queue", SRQ, BAD_HANDLE(SRQ), dat_srq_set_lw(h, 0));
ROW(dat_srq_set_lw, "the watermark is negative", BAD_ARG(2), dat_srq_set_lw(new_srq(4), -1));
ROW(dat_srq_set_lw, "the watermark is above max_recv_dtos", BAD_ARG(2),
    dat_srq_set_lw(new_srq(4), INT_MAX));
ROW(dat_srq_set_lw, "0 disarms it", DAT_SUCCESS, dat_srq_set_lw(new_srq(4), 0));

ROW_DO(dat_srq_set_lw, "as many receives are on the queue", DAT_SUCCESS)
{
	DAT_SRQ_HANDLE srq = srq_with(2);
	DAT_RETURN ret = dat_srq_set_lw(srq, 2);

	ck_assert_int_eq(queried(srq).low_watermark, 2);
	expect_no_event(here->async_evd);
	return ret;
}

/* The event of the low watermark of @srq. */
static DAT_EVENT_NUMBER watermark_of(DAT_SRQ_HANDLE srq)
{
	DAT_EVENT event = expect_event(here->async_evd, DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR);
	const DAT_ASYNCH_ERROR_EVENT_DATA *error = &event.event_data.asynch_error_event_data;

	ck_assert_ptr_eq(error->dat_handle, srq);
	ck_assert_int_eq(error->reason, DAT_SRQ_LOW_WATERMARK_EVENT);
	return event.event_number;
}

EVENT_ROW(dat_srq_set_lw, "fewer receives are on the queue",
	  DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR)
{
	DAT_SRQ_HANDLE srq = srq_with(1);

	ck_dat(dat_srq_set_lw(srq, 3));
	return watermark_of(srq);
}

/* ---- messages ---- */

/* A pair whose client's endpoint has @srq. */
static struct pair *pair_of(DAT_SRQ_HANDLE srq)
{
	struct pair *pair = new_pair(NULL);

	ck_dat(create_ep_of(here->pz, pair->client.recv_evd, pair->client.request_evd,
			    pair->client.connect_evd, srq, ep_attr(), &pair->client.ep));
	pair_connect(pair);
	return pair;
}

static void send_to_client(const struct pair *pair, uint64_t cookie)
{
	post_send(pair->server.ep, cookie, segment(there, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
}

EVENT_ROW(dat_srq_set_lw, "a message takes a receive, and fewer are left",
	  DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR)
{
	DAT_SRQ_HANDLE srq = srq_with(3);
	struct pair *pair = pair_of(srq);

	ck_dat(dat_srq_set_lw(srq, 3));
	expect_no_event(here->async_evd);
	send_to_client(pair, 7);
	return watermark_of(srq);
}

STATUS_ROW(dat_srq_post_recv, "a message takes it", DAT_DTO_SUCCESS)
{
	struct pair *pair = pair_of(srq_with(1));

	send_to_client(pair, 7);
	return completion_of(pair->client.recv_evd, 0);
}

ROW_DO(dat_srq_post_recv, "two endpoints: each completion names its own, on its own EVD",
       DAT_SUCCESS)
{
	DAT_SRQ_HANDLE srq = srq_with(2);
	struct pair *one = pair_of(srq), *two = pair_of(srq);

	send_to_client(two, 7);
	expect_recv_done(&two->client, 0, 8);
	send_to_client(one, 7);
	expect_recv_done(&one->client, 1, 8);
	return DAT_SUCCESS;
}

ROW_DO(dat_srq_query, "a message arrived, and its completion was taken", DAT_SUCCESS)
{
	DAT_SRQ_HANDLE srq = srq_with(3);
	struct pair *pair = pair_of(srq);

	ck_assert_int_eq(queried(srq).outstanding_dto_count, 3);
	send_to_client(pair, 7);
	expect_recv_done(&pair->client, 0, 8);
	ck_assert_int_eq(queried(srq).outstanding_dto_count, 2);
	return DAT_SUCCESS;
}

ROW_DO(dat_srq_post_recv, "a receive was completed, so that there is room", DAT_SUCCESS)
{
	DAT_SRQ_HANDLE srq = new_srq(1);
	struct pair *pair = pair_of(srq);
	DAT_RETURN ret = fill(srq);

	ck_dat_is(ret, NO_RESOURCE(MEMORY));
	send_to_client(pair, 7);
	expect_recv_done(&pair->client, 0, 8);
	return post(srq, 1, 9);
}

ROW_DO(dat_srq_post_recv, "the connection ends: what is on the queue stays for the next",
       DAT_SUCCESS)
{
	DAT_SRQ_HANDLE srq = srq_with(2);
	struct pair *pair = pair_of(srq);

	pair_disconnect(pair, DAT_CLOSE_ABRUPT_FLAG);
	expect_no_event(pair->client.recv_evd);
	pair_reconnect(pair);
	send_to_client(pair, 7);
	expect_recv_done(&pair->client, 0, 8);
	return DAT_SUCCESS;
}

ROW_DO(dat_srq_post_recv, "after a message waited for it", DAT_SUCCESS, .needs = NEEDS_RNR)
{
	DAT_SRQ_HANDLE srq = new_srq(4);
	struct pair *pair = pair_of(srq);
	DAT_RETURN ret;

	send_to_client(pair, 7);
	ret = post(srq, 1, 5);
	expect_recv_done(&pair->client, 5, 8);
	return ret;
}

STATUS_ROW(dat_srq_post_recv, "the message is longer", DAT_DTO_ERR_LOCAL_LENGTH,
	   .on = { { "rxe", DAT_DTO_ERR_LOCAL_EP,
		     "rxe tells most local faults as errors of the queue pair" },
		   { "ofi-rxe", DAT_DTO_ERR_LOCAL_EP,
		     "rxe tells most local faults as errors of the queue pair" } })
{
	struct pair *pair = pair_of(srq_with(1));

	post_send(pair->server.ep, 7, segment(there, 0, 64), DAT_COMPLETION_DEFAULT_FLAG);
	expect_end(&pair->client);
	return completion_of(pair->client.recv_evd, 0);
}

#if DAT_EDITION == 2

STATUS_ROW(dat_srq_post_recv, "the completion has the endpoint and the operation RECEIVE",
	   DAT_DTO_SUCCESS)
{
	struct pair *pair = pair_of(srq_with(1));
	const DAT_DTO_COMPLETION_EVENT_DATA *dto;
	DAT_EVENT event;

	send_to_client(pair, 7);
	event = expect_event(pair->client.recv_evd, DAT_DTO_COMPLETION_EVENT);
	dto = &event.event_data.dto_completion_event_data;
	ck_assert_ptr_eq(dto->ep_handle, pair->client.ep);
	ck_assert_int_eq(dto->operation, DAT_DTO_RECEIVE);
	ck_assert_uint_eq(dto->rmr_context, 0);
	return dto->status;
}

/* ---- the end of an endpoint with a queue ---- */

/* The end was told; the other event comes with it, once, and not after the endpoint either. */
static DAT_EVENT_NUMBER broken_once(const struct pair *pair)
{
	DAT_EVENT event = expect_event(here->async_evd, DAT_ASYNC_ERROR_EP_BROKEN);

	ck_assert_ptr_eq(event.event_data.asynch_error_event_data.dat_handle, pair->client.ep);
	ck_assert_int_eq(event.event_data.asynch_error_event_data.reason, DAT_EP_TRANSFER_TO_ERROR);
	expect_no_event(pair->client.connect_evd);
	ck_dat(dat_ep_free(pair->client.ep));
	expect_no_event(here->async_evd);
	expect_no_event(there->async_evd);
	return event.event_number;
}

EVENT_ROW(dat_ep_disconnect, "abruptly, with a shared receive queue: it is broken, once",
	  DAT_ASYNC_ERROR_EP_BROKEN)
{
	struct pair *pair = pair_of(srq_with(2));

	pair_disconnect(pair, DAT_CLOSE_ABRUPT_FLAG);
	return broken_once(pair);
}

EVENT_ROW(dat_ep_disconnect, "gracefully, with a shared receive queue: it is broken, once",
	  DAT_ASYNC_ERROR_EP_BROKEN)
{
	struct pair *pair = pair_of(srq_with(2));

	send_to_client(pair, 7);
	expect_recv_done(&pair->client, 0, 8);
	pair_disconnect(pair, DAT_CLOSE_GRACEFUL_FLAG);
	return broken_once(pair);
}

EVENT_ROW(dat_ep_disconnect, "by the peer of a shared receive queue: it is broken, once",
	  DAT_ASYNC_ERROR_EP_BROKEN)
{
	struct pair *pair = pair_of(srq_with(2));

	ck_dat(dat_ep_disconnect(pair->server.ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_disconnected(pair);
	return broken_once(pair);
}

EVENT_ROW(dat_ep_connect, "a shared receive queue, and the attempt fails: nothing is broken",
	  DAT_CONNECTION_EVENT_NON_PEER_REJECTED)
{
	DAT_EVENT_NUMBER number;
	struct pair *pair = new_pair(NULL);

	ck_dat(create_ep_of(here->pz, pair->client.recv_evd, pair->client.request_evd,
			    pair->client.connect_evd, srq_with(1), ep_attr(), &pair->client.ep));
	ck_dat(try_connect(pair->client.ep, there, free_qual(there), TIME_LIMIT));
	number = event_of(pair->client.connect_evd);
	expect_no_event(here->async_evd);
	return number;
}

ROW_DO(dat_srq_query, "the state is called OPERATIONAL, which is 1", DAT_SUCCESS)
{
	ck_assert_int_eq(queried(new_srq(4)).srq_state, 1);
	return DAT_SUCCESS;
}

#endif

/* ---- other calls ---- */

ROW_DO(dat_get_handle_type, "of a shared receive queue", DAT_SUCCESS)
{
	DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_IA;
	DAT_RETURN ret = dat_get_handle_type(new_srq(4), &type);

	ck_assert_int_eq(type, DAT_HANDLE_TYPE_SRQ);
	return ret;
}

ROW_DO(dat_set_consumer_context, "of a shared receive queue", DAT_SUCCESS)
{
	const DAT_CONTEXT context = { .as_64 = UINT64_MAX };
	DAT_SRQ_HANDLE srq = new_srq(4);
	DAT_RETURN ret = dat_set_consumer_context(srq, context);
	DAT_CONTEXT got;

	ck_dat(dat_get_consumer_context(srq, &got));
	ck_assert_uint_eq(got.as_64, UINT64_MAX);
	return ret;
}

ROW_DO(dat_ep_recv_query, "of an endpoint with a shared receive queue", DAT_SUCCESS)
{
	DAT_COUNT buffers = 0, span = 0;
	DAT_RETURN ret;

	ck_dat(create_ep(srq_with(2), ep_attr()));
	ret = dat_ep_recv_query(ep_out, &buffers, &span);
	ck_assert(buffers == DAT_VALUE_UNKNOWN || buffers == 0);
	ck_assert(span == DAT_VALUE_UNKNOWN || span == 0);
	return ret;
}

ROW_DO(dat_ia_close, "gracefully, with a shared receive queue", BAD_STATE(IA_IN_USE))
{
	struct side side;
	DAT_SRQ_HANDLE srq;

	side_open_ia(&side, here->name, here->provider.is_thread_safe);
	keep(side.ia);
	ck_dat(dat_pz_create(side.ia, &side.pz));
	ck_dat(dat_srq_create(side.ia, side.pz, some_attr(), &srq));
	return dat_ia_close(side.ia, DAT_CLOSE_GRACEFUL_FLAG);
}
