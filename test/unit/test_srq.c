/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues: arguments, which endpoint gets a receive, counts, the low watermark,
 * resize, what becomes of a receive when an endpoint ends, and posts from several threads.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "alloc.h"
#include "harness.h"
#include "race.h"
#include "region.h"

#define EPS	 2 /* endpoints of the server on the queue, each connected to one of the client's */
#define RECEIVES 8 /* of the queue */
#define PIECE	 64 /* bytes of a buffer */

#define FULL NO_RESOURCE(MEMORY)

static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;
static DAT_SRQ_HANDLE srq;
static DAT_EP_HANDLE from[EPS], to[EPS]; /* of the client, of the server */
static DAT_EVD_HANDLE recv_evd[EPS];	 /* of the server's */
static DAT_EP_ATTR ep_attr;

static DAT_RETURN try_srq(const struct side *side, DAT_COUNT receives, DAT_COUNT segments,
			  DAT_SRQ_HANDLE *out)
{
	DAT_SRQ_ATTR attr = { .max_recv_dtos = receives, .max_recv_iov = segments };

	return srq_create(side->ia, side->pz, &attr, out);
}

static DAT_RETURN try_srq_ep(DAT_PZ_HANDLE pz, DAT_EVD_HANDLE evd, DAT_EP_HANDLE *out)
{
	return ep_create_with_srq(server->ia, pz, evd, server->request_evd, server->connect_evd,
				  srq, &ep_attr, out);
}

static struct tp_qp *qp_of(DAT_EP_HANDLE ep)
{
	return ((struct ep *)ep)->qp;
}

static struct tp_srq *tp_of(DAT_SRQ_HANDLE handle)
{
	return ((struct srq *)handle)->tp;
}

/* The sides, the queue, and endpoints that are not connected. */
static void open_with_srq(void)
{
	side_open(client, "fake0");
	side_open(server, "fake1");
	ep_attr = ep_attr_default(server);
	ck_dat(try_srq(server, RECEIVES, 4, &srq));
	for (int i = 0; i < EPS; i++) {
		recv_evd[i] = side_create_evd(server, SIDE_QLEN, DAT_EVD_DTO_FLAG);
		ck_dat(try_srq_ep(server->pz, recv_evd[i], &to[i]));
		from[i] = side_create_ep(client, NULL);
	}
}

static void setup(void)
{
	open_with_srq();
	for (int i = 0; i < EPS; i++)
		connect_eps(client, from[i], server, to[i]);
}

static void setup_thread_safe(void)
{
	server->thread_safe = true;
	setup();
}

static void teardown(void)
{
	pair_close_abrupt(&pair);
}

static DAT_RETURN try_post(DAT_SRQ_HANDLE queue, uint64_t n)
{
	DAT_LMR_TRIPLET iov = segment(server, (size_t)n % 256 * PIECE, PIECE);

	return srq_post_recv(queue, 1, &iov, cookie_of(n));
}

#define post_to_srq(n) ck_dat(try_post(srq, n))

/* With the cookie @n, and that byte everywhere. */
static void send_from(DAT_EP_HANDLE ep, unsigned n, size_t length)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, length);

	memset(client->memory, (int)n, length);
	ck_dat(ep_post_send(ep, 1, &iov, cookie_of(n), DAT_COMPLETION_DEFAULT_FLAG));
}

static DAT_SRQ_PARAM srq_param(void)
{
	DAT_SRQ_PARAM param;

	ck_dat(srq_query(srq, DAT_SRQ_FIELD_ALL, &param));
	return param;
}

#define expect_outstanding(n) ck_assert_int_eq(srq_param().outstanding_dto_count, n)

static void check_receive(const DAT_EVENT *event, DAT_EP_HANDLE ep, uint64_t cookie,
			  DAT_DTO_COMPLETION_STATUS status)
{
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event->event_data.dto_completion_event_data;

	ck_assert_int_eq(event->event_number, DAT_DTO_COMPLETION_EVENT);
	ck_assert_ptr_eq(dto->ep_handle, ep);
	ck_assert_uint_eq(dto->user_cookie.as_64, cookie);
	ck_assert_int_eq(dto->status, status);
	ck_assert_uint_eq(dto->transfered_length, status == DAT_DTO_SUCCESS ? PIECE : 0);
}

static void dequeue_receive(int i, uint64_t cookie, DAT_DTO_COMPLETION_STATUS status)
{
	DAT_EVENT event;

	ck_dat(evd_dequeue(recv_evd[i], &event));
	ck_assert_ptr_eq(event.evd_handle, recv_evd[i]);
	check_receive(&event, to[i], cookie, status);
}

static void disconnect(int i)
{
	ck_dat(ep_disconnect(to[i], DAT_CLOSE_ABRUPT_FLAG));
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

/* The queue takes as many receives as it should, and each completes once, for endpoint @i. */
static void expect_whole(int i, DAT_COUNT receives)
{
	bool seen[256] = { false };
	DAT_EVENT event;

	for (DAT_COUNT n = 0; n < receives; n++)
		post_to_srq((unsigned)n);
	ck_dat_is(try_post(srq, 99), FULL);
	expect_outstanding(receives);
	for (DAT_COUNT n = 0; n < receives; n++) {
		uint64_t cookie;

		send_from(from[i], 7, PIECE);
		ck_dat(evd_dequeue(recv_evd[i], &event));
		cookie = event.event_data.dto_completion_event_data.user_cookie.as_64;
		check_receive(&event, to[i], cookie, DAT_DTO_SUCCESS);
		ck_assert_uint_lt(cookie, (unsigned)receives);
		ck_assert(!seen[cookie]);
		seen[cookie] = true;
	}
	expect_outstanding(0);
}

/* ---- arguments ---- */

static const struct srq_attr_case {
	DAT_SRQ_ATTR attr;
	DAT_RETURN ret;
} srq_attrs[] = {
	{ { 1, 1, 0 }, DAT_SUCCESS }, { { 8192, 16, 0 }, DAT_SUCCESS },
	{ { 4, 0, 0 }, DAT_SUCCESS }, { { 0, 1, 0 }, BAD_ARG(3) },
	{ { -1, 1, 0 }, BAD_ARG(3) }, { { 8193, 1, 0 }, BAD_ARG(3) },
	{ { 4, -1, 0 }, BAD_ARG(3) }, { { 4, 17, 0 }, BAD_ARG(3) },
	{ { 4, 1, 1 }, BAD_ARG(3) },  { { 4, 1, -1 }, BAD_ARG(3) },
};

START_TEST(a_queue_is_made_within_the_limits)
{
	const struct srq_attr_case *row = &srq_attrs[_i];
	DAT_SRQ_ATTR attr = row->attr;
	DAT_SRQ_HANDLE made = POISON;
	DAT_SRQ_PARAM param;

	ck_dat_is(srq_create(server->ia, server->pz, &attr, &made), row->ret);
	if (row->ret != DAT_SUCCESS) {
		ck_assert_ptr_eq(made, POISON);
		return;
	}
	ck_dat(srq_query(made, DAT_SRQ_FIELD_ALL, &param));
	ck_assert_ptr_eq(param.ia_handle, server->ia);
	ck_assert_ptr_eq(param.pz_handle, server->pz);
	ck_assert_int_eq(param.srq_state, DAT_SRQ_STATE_OPERATIONAL);
	ck_assert_int_eq(param.max_recv_dtos, attr.max_recv_dtos);
	ck_assert_int_eq(param.max_recv_iov, attr.max_recv_iov);
	ck_assert_int_eq(param.low_watermark, DAT_SRQ_LW_DEFAULT);
	ck_assert_int_eq(param.available_dto_count, DAT_VALUE_UNKNOWN);
	ck_assert_int_eq(param.outstanding_dto_count, 0);
	ck_dat(srq_free(made));
}
END_TEST

START_TEST(handles_and_pointers_are_checked)
{
	DAT_SRQ_ATTR attr = { .max_recv_dtos = 1, .max_recv_iov = 1 };
	DAT_SRQ_HANDLE made = POISON;
	DAT_LMR_TRIPLET iov = segment(server, 0, PIECE);
	DAT_SRQ_PARAM param;

	ck_dat_is(srq_create(NULL, server->pz, &attr, &made), BAD_HANDLE(IA));
	ck_dat_is(srq_create(server->ia, NULL, &attr, &made), BAD_HANDLE(PZ));
	ck_dat_is(srq_create(server->ia, client->pz, &attr, &made), BAD_HANDLE(PZ));
	ck_dat_is(srq_create(server->ia, server->pz, NULL, &made), BAD_ARG(3));
	ck_dat_is(srq_create(server->ia, server->pz, &attr, NULL), BAD_ARG(4));
	ck_assert_ptr_eq(made, POISON);
	ck_dat_is(srq_query(srq, DAT_SRQ_FIELD_ALL, NULL), BAD_ARG(3));
	ck_dat(srq_query(srq, DAT_SRQ_FIELD_ALL + 1, &param));
	ck_dat_is(srq_post_recv(srq, -1, &iov, cookie_of(1)), BAD_ARG(2));
	ck_dat_is(srq_post_recv(srq, 5, &iov, cookie_of(1)), BAD_ARG(2));
	ck_dat_is(srq_post_recv(srq, 1, NULL, cookie_of(1)), BAD_ARG(3));
	ck_dat_is(srq_post_recv(srq, 2, NULL, cookie_of(1)), BAD_ARG(3));
	ck_dat_is(srq_set_lw(srq, -1), BAD_ARG(2));
	ck_dat_is(srq_set_lw(srq, RECEIVES + 1), BAD_ARG(2));
	ck_dat_is(srq_resize(srq, 0), BAD_ARG(2));
	ck_dat_is(srq_resize(srq, -1), BAD_ARG(2));
	ck_dat_is(srq_resize(srq, 8193), BAD_ARG(2));
	expect_whole(0, RECEIVES);
}
END_TEST

static void expect_refused(DAT_SRQ_HANDLE handle)
{
	DAT_LMR_TRIPLET iov = segment(server, 0, PIECE);
	DAT_EP_HANDLE ep = POISON;
	DAT_SRQ_PARAM param;

	ck_dat_is(srq_free(handle), BAD_HANDLE(SRQ));
	ck_dat_is(srq_query(handle, DAT_SRQ_FIELD_ALL, &param), BAD_HANDLE(SRQ));
	ck_dat_is(srq_resize(handle, 4), BAD_HANDLE(SRQ));
	ck_dat_is(srq_set_lw(handle, 0), BAD_HANDLE(SRQ));
	ck_dat_is(srq_post_recv(handle, 1, &iov, cookie_of(1)), BAD_HANDLE(SRQ));
	ck_dat_is(srq_post_recv(handle, 3, &iov, cookie_of(1)), BAD_HANDLE(SRQ));
	ck_dat_is(ep_create_with_srq(server->ia, server->pz, recv_evd[0], server->request_evd,
				     server->connect_evd, handle, &ep_attr, &ep),
		  BAD_HANDLE(SRQ));
	ck_assert_ptr_eq(ep, POISON);
}

START_TEST(other_handles_are_refused)
{
	DAT_SRQ_HANDLE other;

	expect_refused(server->pz);
	expect_refused(server->ep);
	expect_refused(server->recv_evd);
	ck_dat(try_srq(server, 4, 1, &other));
	ck_dat(srq_free(other));
	expect_refused(other);
	/* of another IA */
	ck_dat(try_srq(client, 4, 1, &other));
	ck_dat_is(ep_create_with_srq(server->ia, server->pz, recv_evd[0], server->request_evd,
				     server->connect_evd, other, &ep_attr, &other),
		  BAD_HANDLE(SRQ));
}
END_TEST

START_TEST(an_endpoint_on_a_queue_is_checked_as_any)
{
	DAT_EP_ATTR bad = ep_attr;
	DAT_EP_HANDLE ep = POISON;

#define CREATE(ia, pz, recv, request, connect, attr, out)                                          \
	ep_create_with_srq(ia, pz, recv, request, connect, srq, attr, out)
	ck_dat_is(CREATE(NULL, NULL, NULL, NULL, NULL, &ep_attr, &ep), BAD_HANDLE(IA));
	ck_dat_is(CREATE(server->ia, client->pz, NULL, NULL, NULL, &ep_attr, &ep), BAD_HANDLE(PZ));
	ck_dat_is(CREATE(server->ia, NULL, server->cr_evd, NULL, NULL, &ep_attr, &ep),
		  BAD_HANDLE(EVD_RECV));
	ck_dat_is(CREATE(server->ia, NULL, NULL, server->cr_evd, NULL, &ep_attr, &ep),
		  BAD_HANDLE(EVD_REQUEST));
	ck_dat_is(CREATE(server->ia, NULL, NULL, NULL, server->cr_evd, &ep_attr, &ep),
		  BAD_HANDLE(EVD_CONN));
	ck_dat_is(CREATE(server->ia, NULL, NULL, NULL, NULL, NULL, &ep), BAD_ARG(7));
	ck_dat_is(CREATE(server->ia, NULL, NULL, NULL, NULL, &ep_attr, NULL), BAD_ARG(8));
	bad.max_request_dtos = -1;
	ck_dat_is(CREATE(server->ia, NULL, NULL, NULL, NULL, &bad, &ep), BAD_ARG(7));
	ck_assert_ptr_eq(ep, POISON);
	ck_assert_uint_eq(handle_uses(srq), EPS);
#undef CREATE
}
END_TEST

/* MPI libraries leave them as they were. */
START_TEST(attributes_that_the_queue_decides_are_not_looked_at)
{
	DAT_EP_PARAM param;
	DAT_EP_HANDLE ep;

	ep_attr.max_recv_iov = _i ? INT32_MAX : -1;
	ep_attr.srq_soft_hw = _i ? INT32_MAX : 0x5a5a5a5a;
	ep_attr.max_recv_dtos = 3;
	ck_dat(try_srq_ep(server->pz, recv_evd[0], &ep));
	ck_dat(ep_query(ep, DAT_EP_FIELD_ALL, &param));
	ck_assert_ptr_eq(param.srq_handle, srq);
	ck_assert_int_eq(param.ep_attr.max_recv_iov, 4);
	ck_assert_int_eq(param.ep_attr.max_recv_dtos, 3);
	ck_assert_int_eq(param.ep_attr.srq_soft_hw, 0);
	ck_assert_ptr_eq(fake_seen().qp.srq, tp_of(srq));
}
END_TEST

START_TEST(receives_are_posted_to_the_queue_only)
{
	DAT_LMR_TRIPLET iov = segment(server, 0, PIECE);
	DAT_COUNT buffers, span;
	DAT_BOOLEAN idle;

	ck_dat_is(ep_post_recv(to[0], 1, &iov, cookie_of(1), DAT_COMPLETION_DEFAULT_FLAG),
		  BAD_ARG(1));
	ck_dat_is(ep_post_recv(to[0], 0, NULL, cookie_of(1), DAT_COMPLETION_DEFAULT_FLAG),
		  BAD_ARG(1));
	post_to_srq(1);
	ck_dat(ep_get_status(to[0], NULL, &idle, NULL));
	ck_assert_int_eq(idle, DAT_TRUE);
	ck_dat(ep_recv_query(to[0], &buffers, &span));
	ck_assert_int_eq(buffers, DAT_VALUE_UNKNOWN);
	ck_assert_int_eq(span, DAT_VALUE_UNKNOWN);
	disconnect(0);
	ck_dat_is(ep_post_recv(to[0], 1, &iov, cookie_of(1), DAT_COMPLETION_DEFAULT_FLAG),
		  BAD_ARG(1));
}
END_TEST

START_TEST(a_queue_has_a_kind_and_a_context)
{
	DAT_HANDLE_TYPE kind;
	DAT_CONTEXT context = { .as_64 = 1 };

	ck_dat(handle_type(srq, &kind));
	ck_assert_int_eq(kind, DAT_HANDLE_TYPE_SRQ);
	ck_dat(context_get(srq, &context));
	ck_assert_uint_eq(context.as_64, 0);
	context.as_64 = 77;
	ck_dat(context_set(srq, context));
	context.as_64 = 1;
	ck_dat(context_get(srq, &context));
	ck_assert_uint_eq(context.as_64, 77);
}
END_TEST

/* ---- a device without them ---- */

START_TEST(a_device_without_queues_says_so)
{
	DAT_SRQ_HANDLE made = POISON;
	DAT_EP_HANDLE ep = POISON;
	DAT_PROVIDER_ATTR provider;
	DAT_IA_ATTR ia;

	fake_attr()->max_srq = 0;
	side_open(client, "fake0");
	side_open(server, "fake1");
	ck_dat(ia_query(server->ia, NULL, DAT_IA_FIELD_ALL, &ia, DAT_PROVIDER_FIELD_ALL,
			&provider));
	ck_assert_int_eq(ia.max_srqs, 0);
	ck_assert_int_eq(ia.max_ep_per_srq, 0);
	ck_assert_int_eq(ia.max_recv_per_srq, 0);
	ck_assert_int_eq(provider.srq_supported, DAT_FALSE);
	ck_assert_int_eq(provider.srq_watermarks_supported, 0);
	ck_assert_int_eq(provider.srq_info_supported, 0);
	ck_assert_int_eq(provider.srq_ep_pz_difference_supported, DAT_FALSE);
	ep_attr = ep_attr_default(server);
	ck_dat_is(try_srq(server, 4, 1, &made), DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, 0));
	ck_dat_is(ep_create_with_srq(server->ia, server->pz, NULL, NULL, NULL, NULL, &ep_attr, &ep),
		  DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, 0));
	ck_assert_ptr_eq(made, POISON);
	ck_assert_ptr_eq(ep, POISON);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(a_device_with_queues_says_so)
{
	DAT_PROVIDER_ATTR provider;
	DAT_IA_ATTR ia;

	fake_attr()->caps |= TP_CAP_SRQ_ANY_PD;
	open_with_srq();
	ck_dat(ia_query(server->ia, NULL, DAT_IA_FIELD_ALL, &ia, DAT_PROVIDER_FIELD_ALL,
			&provider));
	ck_assert_int_eq(ia.max_srqs, (int)fake_attr()->max_srq);
	ck_assert_int_eq(ia.max_ep_per_srq, ia.max_eps);
	ck_assert_int_eq(ia.max_recv_per_srq, (int)fake_attr()->max_srq_wr);
	ck_assert_int_eq(provider.srq_supported, DAT_TRUE);
	ck_assert_int_eq(provider.srq_watermarks_supported, 0x001);
	ck_assert_int_eq(provider.srq_info_supported, 0x10);
	ck_assert_int_eq(provider.srq_ep_pz_difference_supported, DAT_TRUE);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- transfers ---- */

START_TEST(each_receive_completes_on_the_evd_of_its_endpoint)
{
	for (unsigned n = 0; n < 4; n++)
		post_to_srq(n);
	for (unsigned n = 0; n < 4; n++)
		send_from(from[n % EPS], n + 1, PIECE);
	for (unsigned n = 4; n-- > 0;)
		ck_assert_int_eq(server->memory[n * PIECE + PIECE - 1], (char)(n + 1));
	dequeue_receive(1, 1, DAT_DTO_SUCCESS);
	dequeue_receive(1, 3, DAT_DTO_SUCCESS);
	dequeue_receive(0, 0, DAT_DTO_SUCCESS);
	dequeue_receive(0, 2, DAT_DTO_SUCCESS);
	expect_no_event(recv_evd[0]);
	expect_no_event(recv_evd[1]);
	expect_whole(0, RECEIVES);
	expect_whole(1, RECEIVES);
}
END_TEST

START_TEST(endpoints_may_share_the_evd)
{
	struct waiter waiter = { .timeout = SECONDS(60), .threshold = 3 };
	DAT_EVENT event;

	for (int i = 0; i < EPS; i++)
		ck_dat(ep_free(to[i]));
	for (int i = 0; i < EPS; i++)
		expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	for (int i = 0; i < EPS; i++) {
		ck_dat(ep_reset(from[i]));
		ck_dat(try_srq_ep(server->pz, recv_evd[0], &to[i]));
		connect_eps(client, from[i], server, to[i]);
	}
	for (unsigned n = 0; n < 5; n++)
		post_to_srq(n);
	send_from(from[1], 1, PIECE);
	send_from(from[0], 2, PIECE);
	expect_outstanding(5);
	waiter.evd = recv_evd[0];
	waiter_start(&waiter);
	send_from(from[1], 3, PIECE);
	ck_dat(waiter_join(&waiter));
	check_receive(&waiter.event, to[1], 0, DAT_DTO_SUCCESS);
	ck_assert_int_eq(waiter.nmore, 2);
	expect_outstanding(4); /* two are in the EVD's queue, and not the consumer's yet */
	event = expect_event(recv_evd[0], DAT_DTO_COMPLETION_EVENT);
	check_receive(&event, to[0], 1, DAT_DTO_SUCCESS);
	event = expect_event(recv_evd[0], DAT_DTO_COMPLETION_EVENT);
	check_receive(&event, to[1], 2, DAT_DTO_SUCCESS);
	expect_outstanding(2);
}
END_TEST

/* A poll takes two completions at once. */
START_TEST(a_wait_names_the_endpoint_of_each)
{
	DAT_EVENT event;
	DAT_COUNT nmore;

	for (unsigned n = 0; n < 3; n++)
		post_to_srq(n);
	for (unsigned n = 0; n < 3; n++)
		send_from(from[0], n, PIECE);
	for (unsigned n = 0; n < 3; n++) {
		ck_dat(evd_wait(recv_evd[0], 0, 1, &event, &nmore));
		check_receive(&event, to[0], n, DAT_DTO_SUCCESS);
		ck_assert_int_eq(nmore, (int)(2 - n));
		expect_outstanding((int)(2 - n));
	}
	expect_whole(0, RECEIVES);
}
END_TEST

START_TEST(a_receive_may_have_any_number_of_segments)
{
	DAT_LMR_TRIPLET iov[4];
	DAT_EVENT event;

	for (unsigned nseg = 0; nseg <= 4; nseg++) {
		for (unsigned i = 0; i < nseg; i++)
			iov[i] = segment(server, i * 1000, _i && i % 2 ? 0 : 10);
		ck_dat(srq_post_recv(srq, (DAT_COUNT)nseg, nseg ? iov : NULL, cookie_of(nseg)));
	}
	for (unsigned nseg = 0; nseg <= 4; nseg++) {
		size_t length = (_i ? (nseg + 1) / 2 : nseg) * 10;

		send_from(from[0], nseg + 1, length);
		ck_dat(evd_dequeue(recv_evd[0], &event));
		ck_assert_uint_eq(event.event_data.dto_completion_event_data.transfered_length,
				  length);
		if (nseg)
			ck_assert_int_eq(server->memory[9], (char)(nseg + 1));
	}
}
END_TEST

START_TEST(a_buffer_may_be_longer_than_any_message)
{
	DAT_LMR_TRIPLET iov = segment(server, 0, PIECE);

	iov.segment_length = OF_EDITION(UINT64_C(1) << 40, UINT32_MAX);
	ck_dat(srq_post_recv(srq, 1, &iov, cookie_of(1)));
	iov.segment_length = OF_EDITION(UINT64_MAX, UINT32_MAX);
	ck_dat_is(srq_post_recv(srq, 2, (DAT_LMR_TRIPLET[]){ iov, iov }, cookie_of(1)),
		  OF_EDITION(BAD_ARG(3), DAT_SUCCESS)); /* more than 64 bits tell */
}
END_TEST

/* The count of the standard's example: it falls when the consumer takes the completion. */
START_TEST(a_receive_is_outstanding_until_it_is_taken)
{
	for (unsigned n = 0; n < RECEIVES; n++)
		post_to_srq(n);
	send_from(from[0], 1, PIECE);
	send_from(from[1], 2, PIECE);
	expect_outstanding(RECEIVES);
	ck_dat_is(try_post(srq, 9), FULL);
	dequeue_receive(0, 0, DAT_DTO_SUCCESS);
	expect_outstanding(RECEIVES - 1);
	post_to_srq(9);
	ck_dat_is(try_post(srq, 10), FULL);
	dequeue_receive(1, 1, DAT_DTO_SUCCESS);
	post_to_srq(10);
	expect_outstanding(RECEIVES);
}
END_TEST

/* The service thread moves completions to the queue of the EVD. */
START_TEST(a_receive_that_a_cno_was_told_of_is_outstanding)
{
	DAT_CNO_HANDLE cno;
	DAT_EVD_HANDLE evd;

	ck_dat(cno_create(server->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(evd_modify_cno(recv_evd[0], cno));
	for (unsigned n = 0; n < RECEIVES; n++)
		post_to_srq(n);
	send_from(from[0], 1, PIECE);
	ck_dat(cno_wait(cno, SECONDS(1), &evd));
	ck_assert_ptr_eq(evd, recv_evd[0]);
	expect_outstanding(RECEIVES);
	ck_dat_is(try_post(srq, 9), FULL);
	dequeue_receive(0, 0, DAT_DTO_SUCCESS);
	expect_outstanding(RECEIVES - 1);
	post_to_srq(9);
	ck_dat_is(try_post(srq, 10), FULL);
}
END_TEST

START_TEST(a_sender_waits_for_a_receive)
{
	send_from(from[1], 1, PIECE);
	expect_no_event(recv_evd[1]);
	expect_no_event(client->request_evd);
	post_to_srq(5);
	dequeue_receive(1, 5, DAT_DTO_SUCCESS);
	expect_dto(client->request_evd, 1, DAT_DTO_SUCCESS);
}
END_TEST

START_TEST(a_post_that_the_device_refuses_takes_no_slot)
{
	fake_fail("srq_post", ENOMEM, 1);
	ck_dat_is(try_post(srq, 1), NO_RESOURCE(MEMORY));
	expect_outstanding(0);
	expect_whole(0, RECEIVES);
}
END_TEST

START_TEST(an_endpoint_without_an_evd_gives_slots_back)
{
	DAT_EP_HANDLE ep, peer = side_create_ep(client, NULL);

	ck_dat(try_srq_ep(server->pz, DAT_HANDLE_NULL, &ep));
	connect_eps(client, peer, server, ep);
	for (unsigned n = 0; n < RECEIVES; n++)
		post_to_srq(n);
	for (unsigned n = 0; n < 3; n++)
		send_from(peer, n, PIECE);
	fake_wait_idle(0);
	ck_dat(ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG)); /* takes all completions */
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_outstanding(RECEIVES - 3);
}
END_TEST

/* ---- the ends of endpoints ---- */

START_TEST(receives_stay_when_an_endpoint_ends)
{
	for (unsigned n = 0; n < RECEIVES; n++)
		post_to_srq(n);
	disconnect(0);
	expect_no_event(recv_evd[0]);
	expect_outstanding(RECEIVES);
	send_from(from[1], 1, PIECE);
	dequeue_receive(1, 0, DAT_DTO_SUCCESS);
	ck_dat(ep_free(to[0]));
	expect_no_event(recv_evd[0]);
	send_from(from[1], 2, PIECE);
	dequeue_receive(1, 1, DAT_DTO_SUCCESS);
	expect_outstanding(RECEIVES - 2);
}
END_TEST

START_TEST(a_receive_that_an_endpoint_has_taken_is_flushed_before_the_end)
{
	post_to_srq(3);
	post_to_srq(4);
	fake_take_receive(qp_of(to[0]));
	disconnect(0);
	dequeue_receive(0, 3, DAT_DTO_ERR_FLUSHED);
	expect_no_event(recv_evd[0]);
	expect_outstanding(1);
	send_from(from[1], 1, PIECE);
	dequeue_receive(1, 4, DAT_DTO_SUCCESS);
	expect_whole(1, RECEIVES);
}
END_TEST

/*
 * Whether or not the device keeps its completions. Those that the service thread has seen may
 * remain as events; what the free itself flushes is no event.
 */
START_TEST(slots_of_an_endpoint_that_is_freed_come_back)
{
	DAT_EVENT event;

	fake_quirks(_i ? FAKE_DROPS_CQES : 0);
	for (unsigned n = 0; n < RECEIVES; n++)
		post_to_srq(n);
	for (unsigned n = 0; n < 3; n++)
		send_from(from[0], n, PIECE);
	send_from(from[1], 7, PIECE);
	fake_take_receive(qp_of(to[0]));
	ck_dat(ep_free(to[0]));
	fake_wait_idle(0);
	for (unsigned n = 0; evd_dequeue(recv_evd[0], &event) == DAT_SUCCESS; n++)
		check_receive(&event, to[0], n, DAT_DTO_SUCCESS);
	expect_outstanding(RECEIVES - 4);
	dequeue_receive(1, 3, DAT_DTO_SUCCESS);
	for (unsigned n = 0; n < RECEIVES - 5; n++) {
		send_from(from[1], n, PIECE);
		dequeue_receive(1, 5 + n, DAT_DTO_SUCCESS);
	}
	expect_whole(1, RECEIVES);
}
END_TEST

/* The endpoints share an EVD: the completions of the one that stays are not lost. */
START_TEST(completions_of_the_other_endpoint_stay)
{
	DAT_EVENT event;

	for (int i = 0; i < EPS; i++)
		ck_dat(ep_free(to[i]));
	for (int i = 0; i < EPS; i++)
		expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	for (int i = 0; i < EPS; i++) {
		ck_dat(ep_reset(from[i]));
		ck_dat(try_srq_ep(server->pz, recv_evd[0], &to[i]));
		connect_eps(client, from[i], server, to[i]);
	}
	for (unsigned n = 0; n < RECEIVES; n++)
		post_to_srq(n);
	for (unsigned n = 0; n < RECEIVES; n++)
		send_from(from[n % EPS], n, PIECE);
	ck_dat(ep_free(to[0]));
	expect_outstanding(RECEIVES / 2);
	for (unsigned n = 1; n < RECEIVES; n += EPS) {
		ck_dat(evd_dequeue(recv_evd[0], &event));
		check_receive(&event, to[1], n, DAT_DTO_SUCCESS);
	}
	expect_no_event(recv_evd[0]);
	expect_outstanding(0);
}
END_TEST

/* Events that the provider has queued outlive the endpoint, its queue, and the next endpoint. */
START_TEST(queued_receives_outlive_the_queue)
{
	struct waiter waiter = { .evd = recv_evd[0], .timeout = SECONDS(60), .threshold = 5 };
	DAT_EVENT event;

	for (unsigned n = 0; n < RECEIVES; n++)
		post_to_srq(n);
	waiter_start(&waiter);
	for (unsigned n = 0; n < 5; n++)
		send_from(from[0], n, PIECE);
	ck_dat(waiter_join(&waiter));
	expect_outstanding(RECEIVES - 1);
	for (int i = 0; i < EPS; i++)
		ck_dat(ep_free(to[i]));
	expect_outstanding(RECEIVES - 5);
	ck_dat(srq_free(srq));
	for (unsigned n = 1; n < 5; n++) {
		event = expect_event(recv_evd[0], DAT_DTO_COMPLETION_EVENT);
		check_receive(&event, to[0], n, DAT_DTO_SUCCESS);
	}
	ck_dat(evd_free(recv_evd[0]));
}
END_TEST

START_TEST(reset_keeps_the_queue)
{
	post_to_srq(1);
	disconnect(0);
	ck_dat(ep_reset(to[0]));
	ck_dat(ep_reset(from[0]));
	ck_assert_uint_eq(handle_uses(srq), EPS);
	connect_eps(client, from[0], server, to[0]);
	send_from(from[0], 1, PIECE);
	dequeue_receive(0, 1, DAT_DTO_SUCCESS);
	expect_whole(0, RECEIVES);
}
END_TEST

START_TEST(a_message_that_is_too_long_ends_only_its_connection)
{
	post_to_srq(1);
	post_to_srq(2);
	send_from(from[0], 1, PIECE + 1);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
	dequeue_receive(0, 1, DAT_DTO_ERR_LOCAL_LENGTH);
	expect_outstanding(1);
	send_from(from[1], 2, PIECE);
	dequeue_receive(1, 2, DAT_DTO_SUCCESS);
	expect_whole(1, RECEIVES);
}
END_TEST

/* ---- a device that says when an endpoint has completed what it took ---- */

START_TEST(a_device_that_says_nothing_is_not_waited_for)
{
	uint64_t before;

	post_to_srq(1);
	before = tp_now();
	disconnect(0);
	ck_assert_uint_eq(tp_now(), before);
}
END_TEST

/* For as long as it may take to flush at most. */
START_TEST(a_device_that_says_so_is_waited_for)
{
	uint64_t before;

	fake_quirks(FAKE_LAST_RECEIVE);
	for (unsigned n = 0; n < 3; n++)
		post_to_srq(n);
	disconnect(0); /* from here on it is known that it does */
	fake_wait_idle(0);
	fake_quirks(FAKE_LAST_RECEIVE | FAKE_LATE_FLUSH);
	fake_take_receive(qp_of(to[1]));
	before = tp_now();
	ck_dat(ep_disconnect(to[1], DAT_CLOSE_ABRUPT_FLAG));
	expect_no_event(server->connect_evd);
	if (_i == 0)
		ck_assert(fake_step());
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_assert_uint_eq(tp_now() - before, _i == 0 ? 0 : UINT64_C(100000000));
	ck_assert_int_eq(fake_step(), _i != 0);
	dequeue_receive(1, 0, DAT_DTO_ERR_FLUSHED);
	expect_outstanding(2);
}
END_TEST

/* Stays in its fourth call of the transport, tp_qp_destroy, after tp_qp_error and a poll. */
static void *modify_staying(void *ep)
{
	DAT_EP_PARAM param = { .ep_attr.max_request_dtos = 20 };

	fake_stay(4);
	ck_dat(ep_modify(ep, DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, &param));
	fake_stay(0);
	return NULL;
}

/* It is in error, and destroyed next. The endpoint has another one. */
START_TEST(the_last_receive_of_a_replaced_queue_pair_is_none_of_the_endpoint)
{
	pthread_t thread;
	DAT_EP_HANDLE ep;

	ck_dat(try_srq_ep(server->pz, recv_evd[0], &ep));
	fake_quirks(FAKE_LAST_RECEIVE);
	thread = consumer_thread_start(modify_staying, ep);
	ck_assert(fake_wait_stay());
	fake_clock_advance(10000000); /* from then on the service thread listens again */
	fake_wait_idle(0);
	fake_go_on();
	consumer_thread_join(thread);
	ck_assert(!((struct ep *)ep)->last_receive);
	ck_dat(ep_free(ep));
}
END_TEST

START_TEST(an_endpoint_that_is_done_is_not_waited_for)
{
	uint64_t before;

	fake_quirks(FAKE_LAST_RECEIVE);
	disconnect(0);
	fake_wait_idle(0);
	before = tp_now();
	disconnect(1);
	ck_assert_uint_eq(tp_now(), before);
}
END_TEST

/* ---- use counts ---- */

START_TEST(a_queue_in_use_is_not_freed)
{
	DAT_PZ_HANDLE pz;
	DAT_SRQ_HANDLE other;
	DAT_SRQ_ATTR attr = { .max_recv_dtos = 4, .max_recv_iov = 1 };

	ck_dat_is(srq_free(srq), BAD_STATE(SRQ_IN_USE));
	expect_whole(0, RECEIVES);
	ck_dat(ep_free(to[0]));
	ck_dat_is(srq_free(srq), BAD_STATE(SRQ_IN_USE));
	expect_whole(1, RECEIVES);
	post_to_srq(1);
	ck_dat(ep_free(to[1]));
	ck_dat(srq_free(srq));
	ck_assert_uint_eq(fake_alive(FAKE_SRQ), 0);
	ck_dat(pz_create(server->ia, &pz));
	ck_dat(srq_create(server->ia, pz, &attr, &other));
	ck_dat_is(pz_free(pz), BAD_STATE(PZ_IN_USE));
	ck_dat(srq_free(other));
	ck_dat(pz_free(pz));
}
END_TEST

START_TEST(a_graceful_close_counts_queues)
{
	for (int i = 0; i < EPS; i++)
		ck_dat(ep_free(to[i]));
	for (int i = 0; i < EPS; i++)
		ck_dat(evd_free(recv_evd[i]));
	ck_dat(ep_free(server->ep));
	ck_dat(lmr_free(server->lmr));
	ck_dat(evd_free(server->recv_evd));
	ck_dat(evd_free(server->request_evd));
	ck_dat(evd_free(server->connect_evd));
	ck_dat(evd_free(server->cr_evd));
	ck_dat_is(pz_free(server->pz), BAD_STATE(PZ_IN_USE));
	ck_dat_is(ia_close(server->ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	ck_dat(srq_free(srq));
	ck_dat(pz_free(server->pz));
	ck_dat(ia_close(server->ia, DAT_CLOSE_GRACEFUL_FLAG));
	free(server->memory);
	side_open(server, "fake1");
}
END_TEST

/* ---- zones ---- */

START_TEST(zones_may_differ_where_the_device_allows_it)
{
	DAT_PZ_HANDLE pz;
	DAT_EP_HANDLE ep = POISON, peer;

	if (_i)
		fake_attr()->caps |= TP_CAP_SRQ_ANY_PD;
	setup();
	ck_dat(pz_create(server->ia, &pz));
	if (!_i) {
		ck_dat_is(try_srq_ep(pz, recv_evd[0], &ep), BAD_ARG(2));
		ck_assert_ptr_eq(ep, POISON);
		ck_dat(pz_free(pz));
	} else {
		/* the region is in the zone of the queue */
		ck_dat(try_srq_ep(pz, server->recv_evd, &ep));
		peer = side_create_ep(client, NULL);
		connect_eps(client, peer, server, ep);
		post_to_srq(1);
		send_from(peer, 1, PIECE);
		expect_dto(server->recv_evd, 1, DAT_DTO_SUCCESS);
	}
	teardown();
}
END_TEST

/* Without a zone there is no queue pair yet. */
START_TEST(an_endpoint_without_a_zone_holds_the_queue)
{
	DAT_EP_HANDLE ep;

	ck_dat(try_srq_ep(DAT_HANDLE_NULL, recv_evd[0], &ep));
	ck_assert_uint_eq(handle_uses(srq), EPS + 1);
	ck_dat(ep_free(ep));
	ck_assert_uint_eq(handle_uses(srq), EPS);
}
END_TEST

/* ---- room on the EVDs ---- */

START_TEST(an_evd_has_room_for_the_whole_queue_once)
{
	DAT_EVD_HANDLE evd = side_create_evd(server, 1, DAT_EVD_DTO_FLAG);
	DAT_EP_HANDLE eps[64];
	DAT_SRQ_HANDLE big;
	unsigned depth;

	ck_dat(try_srq(server, 4000, 1, &big));
	ck_dat(ep_create_with_srq(server->ia, server->pz, evd, server->request_evd,
				  server->connect_evd, big, &ep_attr, &eps[0]));
	depth = tp_cq_depth(cq_of_evd(evd));
	ck_assert_uint_ge(depth, 4000);
	ck_assert_uint_lt(((struct evd *)evd)->dto_depth, 4100);
	for (int i = 1; i < COUNT(eps); i++)
		ck_dat(ep_create_with_srq(server->ia, server->pz, evd, server->request_evd,
					  server->connect_evd, big, &ep_attr, &eps[i]));
	ck_assert_uint_lt(((struct evd *)evd)->dto_depth, 4000 + COUNT(eps) * 4);
	for (int i = 0; i < COUNT(eps); i++)
		ck_dat(ep_free(eps[i]));
	ck_assert_uint_eq(((struct evd *)evd)->dto_depth, 0);
	ck_dat(evd_free(evd));
	ck_dat(srq_free(big));
}
END_TEST

/* The queue takes all that its endpoints may complete on one EVD. */
START_TEST(every_receive_may_complete_for_one_endpoint)
{
	DAT_EVENT event;

	ck_dat(ep_free(to[0]));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(ep_reset(from[0]));
	ck_dat(evd_free(recv_evd[0]));
	recv_evd[0] = side_create_evd(server, 1, DAT_EVD_DTO_FLAG);
	ep_attr.max_recv_dtos = 1;
	ck_dat(try_srq_ep(server->pz, recv_evd[0], &to[0]));
	connect_eps(client, from[0], server, to[0]);
	for (unsigned n = 0; n < RECEIVES; n++)
		post_to_srq(n);
	for (unsigned n = 0; n < RECEIVES; n++)
		send_from(from[0], n, PIECE);
	for (unsigned n = 0; n < RECEIVES; n++) {
		ck_dat(evd_dequeue(recv_evd[0], &event));
		check_receive(&event, to[0], n, DAT_DTO_SUCCESS);
	}
	expect_no_event(server->async_evd);
}
END_TEST

START_TEST(a_queue_that_no_evd_can_hold_is_refused)
{
	DAT_SRQ_HANDLE big;
	DAT_EP_HANDLE ep = POISON;
	DAT_EVD_HANDLE evd;

	fake_attr()->caps &= ~(unsigned)TP_CAP_CQ_RESIZE;
	setup();
	evd = side_create_evd(server, 1, DAT_EVD_DTO_FLAG);
	ck_dat(try_srq(server, 8000, 1, &big));
	ck_dat_is(ep_create_with_srq(server->ia, server->pz, evd, server->request_evd,
				     server->connect_evd, big, &ep_attr, &ep),
		  NO_RESOURCE(TEVD));
	ck_assert_ptr_eq(ep, POISON);
	ck_assert_uint_eq(handle_uses(big), 0);
	ck_assert_uint_eq(((struct evd *)evd)->dto_depth, 0);
	ck_dat(evd_free(evd));
	ck_dat(srq_free(big));
	teardown();
}
END_TEST

/* ---- resize ---- */

START_TEST(a_queue_grows_with_receives_posted)
{
	for (unsigned n = 0; n < RECEIVES; n++)
		post_to_srq(n);
	ck_dat(srq_resize(srq, 500));
	ck_assert_int_eq(srq_param().max_recv_dtos, 500);
	expect_outstanding(RECEIVES);
	for (unsigned n = RECEIVES; n < 500; n++)
		post_to_srq(n);
	ck_dat_is(try_post(srq, 1), FULL);
	ck_assert_uint_ge(tp_cq_depth(cq_of_evd(recv_evd[0])), 500);
	ck_assert_uint_ge(tp_cq_depth(cq_of_evd(recv_evd[1])), 500);
	for (unsigned n = 0; n < 500; n++)
		send_from(from[0], n, PIECE);
	for (unsigned n = 0; n < 500; n++)
		dequeue_receive(0, n, DAT_DTO_SUCCESS);
}
END_TEST

START_TEST(queues_that_were_resized_take_their_memory_along)
{
	const unsigned many = 1000;
	size_t used = 0;
	DAT_SRQ_HANDLE other;

	for (unsigned i = 0; i < 2 * many; i++) {
		ck_dat(try_srq(server, RECEIVES, 4, &other));
		ck_dat(srq_resize(other, 500));
		ck_dat(srq_free(other));
		if (i == many) /* all is as large as it will be */
			used = memory_in_use();
	}
	ck_assert_uint_lt(memory_in_use(), used + many * LEAST_BLOCK);
}
END_TEST

START_TEST(a_queue_does_not_become_too_short)
{
	const DAT_RETURN refused = DAT_ERROR(DAT_INVALID_STATE, 0);

	for (unsigned n = 0; n < 5; n++)
		post_to_srq(n);
	ck_dat_is(srq_resize(srq, 4), refused);
	ck_dat(srq_resize(srq, 5));
	ck_assert_int_ge(srq_param().max_recv_dtos, 5);
	ck_dat(srq_set_lw(srq, 3));
	for (unsigned n = 0; n < 5; n++) {
		send_from(from[0], n, PIECE);
		dequeue_receive(0, n, DAT_DTO_SUCCESS);
	}
	ck_dat_is(srq_resize(srq, 2), refused);
	ck_dat(srq_resize(srq, 3));
	ck_dat(srq_set_lw(srq, 0));
	ck_dat(srq_resize(srq, 1));
	ck_dat(srq_resize(srq, srq_param().max_recv_dtos));
}
END_TEST

START_TEST(a_device_that_cannot_resize_keeps_its_length)
{
	const unsigned before[EPS] = { ((struct evd *)recv_evd[0])->dto_depth,
				       ((struct evd *)recv_evd[1])->dto_depth };

	fake_quirks(FAKE_NO_SRQ_RESIZE);
	post_to_srq(1);
	ck_dat(srq_resize(srq, 2));
	ck_dat_is(srq_resize(srq, RECEIVES + 1), NO_RESOURCE(SRQ));
	ck_assert_int_eq(srq_param().max_recv_dtos, RECEIVES);
	for (int i = 0; i < EPS; i++)
		ck_assert_uint_eq(((struct evd *)recv_evd[i])->dto_depth, before[i]);
	send_from(from[0], 1, PIECE);
	dequeue_receive(0, 1, DAT_DTO_SUCCESS);
	expect_whole(0, RECEIVES);
}
END_TEST

START_TEST(a_resize_that_fails_changes_nothing)
{
	const unsigned before[EPS] = { ((struct evd *)recv_evd[0])->dto_depth,
				       ((struct evd *)recv_evd[1])->dto_depth };
	bool failed = true;
	DAT_RETURN ret;

	post_to_srq(1);
	for (unsigned n = 1; failed; n++) {
		if (_i) {
			alloc_fail_nth(n);
			ret = srq_resize(srq, 500);
			failed = alloc_failed();
		} else {
			fake_fail_call(n);
			ret = srq_resize(srq, 500);
			failed = fake_failed() && ret != DAT_SUCCESS;
			if (fake_failed() && !failed)
				break; /* a queue that grew by less */
		}
		if (!failed)
			break;
		ck_assert_int_eq((int)DAT_GET_TYPE(ret), DAT_INSUFFICIENT_RESOURCES);
		ck_assert_int_eq(srq_param().max_recv_dtos, RECEIVES);
		for (int i = 0; i < EPS; i++)
			ck_assert_uint_eq(((struct evd *)recv_evd[i])->dto_depth, before[i]);
	}
	fake_fail_call(0);
	ck_dat(ret);
	ck_assert_int_eq(srq_param().max_recv_dtos, 500);
	for (int i = 0; i < EPS; i++)
		ck_assert_uint_eq(((struct evd *)recv_evd[i])->dto_depth,
				  before[i] + 500 - RECEIVES);
	send_from(from[0], 1, PIECE);
	dequeue_receive(0, 1, DAT_DTO_SUCCESS);
}
END_TEST

/* ---- the low watermark ---- */

static void expect_watermark(void)
{
	DAT_EVENT event = expect_event(server->async_evd, DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR);

	ck_assert_ptr_eq(event.event_data.asynch_error_event_data.dat_handle, srq);
	ck_assert_int_eq(event.event_data.asynch_error_event_data.reason,
			 DAT_SRQ_LOW_WATERMARK_EVENT);
	expect_no_event(server->async_evd);
}

static void receive_one(unsigned cookie)
{
	send_from(from[0], cookie, PIECE);
	dequeue_receive(0, cookie, DAT_DTO_SUCCESS);
}

START_TEST(the_low_watermark_is_reported_once_for_each_arming)
{
	for (unsigned n = 0; n < 5; n++)
		post_to_srq(n);
	ck_dat(srq_set_lw(srq, 3));
	ck_assert_int_eq(srq_param().low_watermark, 3);
	receive_one(0);
	receive_one(1);
	expect_no_event(server->async_evd); /* 3 are left */
	receive_one(2);
	expect_watermark();
	receive_one(3);
	post_to_srq(5);
	post_to_srq(6);
	post_to_srq(7);
	receive_one(4);
	receive_one(5);
	expect_no_event(server->async_evd);
	post_to_srq(8);
	ck_dat(srq_set_lw(srq, 3));
	receive_one(6);
	expect_watermark();
	ck_assert_int_eq(srq_param().low_watermark, 3);
}
END_TEST

START_TEST(a_watermark_that_is_reached_already_is_reported_at_once)
{
	ck_dat(srq_set_lw(srq, 1));
	expect_watermark();
	for (unsigned n = 0; n < 4; n++)
		post_to_srq(n);
	ck_dat(srq_set_lw(srq, 5));
	expect_watermark();
	receive_one(0);
	expect_no_event(server->async_evd);
}
END_TEST

/* The device, too, saw that there were too few, before the core disarmed it. */
START_TEST(a_late_event_of_the_device_reports_nothing)
{
	CANCEL_FORBIDDEN;
	struct ia *ia = server->ia;

	ck_dat(srq_set_lw(srq, 1));
	expect_watermark();
	mutex_lock(&ia->lock);
	up_srq_limit(srq);
	mutex_unlock(&ia->lock);
	expect_no_event(server->async_evd);
}
END_TEST

/* Completions that nobody has taken are not on the queue any more. */
START_TEST(completed_receives_are_below_the_watermark)
{
	for (unsigned n = 0; n < 4; n++)
		post_to_srq(n);
	send_from(from[0], 0, PIECE);
	send_from(from[1], 1, PIECE);
	ck_dat(srq_set_lw(srq, 2));
	expect_no_event(server->async_evd);
	ck_dat(srq_set_lw(srq, 3));
	expect_watermark();
	expect_outstanding(4);
	dequeue_receive(0, 0, DAT_DTO_SUCCESS);
	dequeue_receive(1, 1, DAT_DTO_SUCCESS);
	expect_outstanding(2);
}
END_TEST

static void take_first(void *unused)
{
	(void)unused;
	dequeue_receive(0, 0, DAT_DTO_SUCCESS);
}

/*
 * Three of so many posted receives have completed. A consumer takes the event of one while the
 * completed receives are counted, and then the posted ones.
 */
static void set_lw_beside_a_dequeue(unsigned posted)
{
	for (unsigned n = 0; n < posted; n++)
		post_to_srq(n);
	for (unsigned n = 0; n < 3; n++)
		send_from(from[0], n, PIECE);
	race_call(RACE_COUNT, srq, take_first, NULL);
	ck_dat(srq_set_lw(srq, 2));
	ck_assert(race_happened(RACE_COUNT));
}

START_TEST(an_event_that_is_taken_meanwhile_does_not_hide_a_low_watermark)
{
	set_lw_beside_a_dequeue(3);
	expect_watermark();
}
END_TEST

START_TEST(an_event_that_is_taken_meanwhile_does_not_make_a_watermark_low)
{
	set_lw_beside_a_dequeue(5);
	expect_no_event(server->async_evd);
}
END_TEST

START_TEST(zero_disarms_the_watermark)
{
	CANCEL_FORBIDDEN;
	for (unsigned n = 0; n < 3; n++)
		post_to_srq(n);
	ck_dat(srq_set_lw(srq, 2));
	ck_dat(srq_set_lw(srq, DAT_SRQ_LW_DEFAULT));
	for (unsigned n = 0; n < 3; n++)
		receive_one(n);
	expect_no_event(server->async_evd);
	/* the device's event is on its way already */
	post_to_srq(3);
	post_to_srq(4);
	ck_dat(srq_set_lw(srq, 2));
	mutex_lock(&((struct ia *)server->ia)->lock);
	receive_one(3);
	ck_assert(((struct srq *)srq)->watched);
	((struct srq *)srq)->watched = false; /* as dat_srq_set_lw, which needs the lock */
	mutex_unlock(&((struct ia *)server->ia)->lock);
	expect_no_event(server->async_evd);
}
END_TEST

START_TEST(a_device_without_a_watermark_refuses_one)
{
	fake_quirks(FAKE_NO_SRQ_LIMIT);
	ck_dat_is(srq_set_lw(srq, 1), DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, 0));
	ck_assert_int_eq(srq_param().low_watermark, 0);
	fake_quirks(0);
	fake_fail("srq_arm", EIO, 1);
	ck_dat_is(srq_set_lw(srq, 1), DAT_ERROR(DAT_INTERNAL_ERROR, 0));
	ck_assert_int_eq(srq_param().low_watermark, 0);
	expect_no_event(server->async_evd);
	expect_whole(0, RECEIVES);
}
END_TEST

/* ---- failures ---- */

START_TEST(a_queue_in_error_is_reported_and_refuses_posts)
{
	DAT_EP_HANDLE ep = POISON;
	DAT_EVENT event;

	post_to_srq(1);
	fake_break_srq(tp_of(srq));
	event = expect_event(server->async_evd, DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR);
	ck_assert_ptr_eq(event.event_data.asynch_error_event_data.dat_handle, srq);
	ck_assert_int_eq(event.event_data.asynch_error_event_data.reason,
			 DAT_SRQ_TRANSFER_TO_ERROR);
	ck_assert_int_eq(srq_param().srq_state, DAT_SRQ_STATE_ERROR);
	ck_dat_is(try_post(srq, 2), BAD_STATE(SRQ_ERROR));
	ck_dat_is(try_srq_ep(server->pz, recv_evd[0], &ep), BAD_STATE(SRQ_ERROR));
	ck_assert_ptr_eq(ep, POISON);
	for (int i = 0; i < EPS; i++)
		ck_dat(ep_free(to[i]));
	ck_dat(srq_free(srq));
}
END_TEST

START_TEST(a_queue_is_not_made_without_resources)
{
	const unsigned alive = fake_alive(FAKE_ANY), uses = handle_uses(server->pz);
	DAT_SRQ_HANDLE made = POISON;
	unsigned n = 1;
	DAT_RETURN ret;

	for (; fake_fail_call(n), ret = try_srq(server, 4, 2, &made), fake_failed(); n++) {
		ck_dat_is(ret, NO_RESOURCE(SRQ));
		ck_assert_ptr_eq(made, POISON);
		ck_assert_uint_eq(fake_alive(FAKE_ANY), alive);
		ck_assert_uint_eq(handle_uses(server->pz), uses);
	}
	fake_fail_call(0);
	ck_assert_uint_gt(n, 1);
	ck_dat(ret);
	ck_dat(srq_free(made));
	for (int i = 0; i < 20; i++) /* more than a slab has */
		for (n = 1; alloc_fail_nth(n), ret = try_srq(server, 4, 2, &made), alloc_failed();
		     n++) {
			ck_dat_is(ret, NO_RESOURCE(MEMORY));
			ck_assert_uint_eq(fake_alive(FAKE_SRQ), (unsigned)i + 1);
			ck_assert_uint_eq(handle_uses(server->pz), uses + (unsigned)i);
		}
}
END_TEST

/* The EVD is new, so that it has to become longer. */
START_TEST(an_endpoint_on_a_queue_is_not_made_without_resources)
{
	DAT_EVD_HANDLE evd = side_create_evd(server, 1, DAT_EVD_DTO_FLAG);
	const unsigned alive = fake_alive(FAKE_ANY);
	DAT_EP_HANDLE ep = POISON;
	bool failed = true;
	DAT_RETURN ret;

	for (unsigned n = 1; failed; n++) {
		if (_i)
			alloc_fail_nth(n);
		else
			fake_fail_call(n);
		ret = try_srq_ep(server->pz, evd, &ep);
		failed = _i ? alloc_failed() : fake_failed();
		if (ret == DAT_SUCCESS)
			break; /* perhaps the CQ grew by less, or nothing failed */
		ck_assert_int_eq((int)DAT_GET_TYPE(ret), DAT_INSUFFICIENT_RESOURCES);
		ck_assert_ptr_eq(ep, POISON);
		ck_assert_uint_eq(fake_alive(FAKE_ANY), alive);
		ck_assert_uint_eq(handle_uses(srq), EPS);
		ck_assert_uint_eq(handle_uses(evd), 0);
		ck_assert_uint_eq(((struct evd *)evd)->dto_depth, 0);
	}
	fake_fail_call(0);
	ck_dat(ret);
	ck_dat(ep_free(ep));
	ck_dat(evd_free(evd));
}
END_TEST

START_TEST(receives_need_no_memory)
{
	DAT_RETURN posted, taken;
	DAT_EVENT event;

	for (unsigned i = 0; i < 3 * RECEIVES; i++) {
		alloc_fail_nth(1);
		posted = try_post(srq, i);
		ck_assert(!alloc_failed());
		ck_dat(posted);
		send_from(from[0], i, PIECE);
		alloc_fail_nth(1);
		taken = evd_dequeue(recv_evd[0], &event);
		ck_assert(!alloc_failed());
		ck_dat(taken);
	}
}
END_TEST

/* Nothing is lost while the service thread finds no memory for events. */
START_TEST(the_end_of_an_endpoint_without_memory_gives_slots_back)
{
	for (unsigned n = 0; n < RECEIVES; n++)
		post_to_srq(n);
	for (unsigned n = 0; n < RECEIVES; n++)
		send_from(from[n % EPS], n, PIECE);
	alloc_fail_nth(1);
	ck_dat(ep_free(to[0]));
	(void)alloc_failed();
	expect_outstanding(RECEIVES / 2);
	for (unsigned n = 1; n < RECEIVES; n += EPS)
		dequeue_receive(1, n, DAT_DTO_SUCCESS);
	expect_whole(1, RECEIVES);
}
END_TEST

START_TEST(a_removed_device_leaves_a_queue_that_can_be_freed)
{
	fake_quirks(FAKE_REMOVABLE);
	setup();
	post_to_srq(1);
	fake_remove(((struct ia *)server->ia)->dev, FAKE_DEV_FD | FAKE_CQ_FDS);
	for (int i = 0; i < EPS; i++)
		expect_event(server->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
	(void)try_post(srq, 2);
	expect_event(server->async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC);
	for (int i = 0; i < EPS; i++)
		ck_dat(ep_free(to[i]));
	ck_dat(srq_free(srq));
	teardown();
}
END_TEST

START_TEST(a_child_has_no_queues)
{
	int status;
	pid_t child;

	post_to_srq(1);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		DAT_LMR_TRIPLET iov = segment(server, 0, PIECE);

		if (srq_post_recv(srq, 1, &iov, cookie_of(1)) != BAD_HANDLE(SRQ))
			_exit(1);
		_exit(srq_free(srq) != BAD_HANDLE(SRQ));
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	send_from(from[0], 1, PIECE);
	dequeue_receive(0, 1, DAT_DTO_SUCCESS);
}
END_TEST

/* ---- several threads ---- */

#define POSTERS 3
#define ROUNDS	400

static _Atomic unsigned posted_by_all;
static _Atomic bool stop;

/* Posts as long as there is room; two segments, empty ones among them, take the slow path. */
static void *post_for_ever(void *arg)
{
	const unsigned shape = (unsigned)(uintptr_t)arg;

	while (!stop) {
		DAT_LMR_TRIPLET iov[] = { segment(server, shape * PIECE, PIECE),
					  segment(server, 0, 0), segment(server, 0, 0) };

		if (srq_post_recv(srq, (DAT_COUNT)shape + 1, iov, cookie_of(shape)) == DAT_SUCCESS)
			posted_by_all++;
		else
			sched_yield();
	}
	return NULL;
}

/* Takes ROUNDS receives of its endpoint. */
static void *take_receives(void *arg)
{
	const int i = (int)(uintptr_t)arg;
	DAT_EVENT event;

	for (int n = 0; n < ROUNDS;) {
		if (evd_dequeue(recv_evd[i], &event) != DAT_SUCCESS) {
			sched_yield();
			continue;
		}
		if (event.event_data.dto_completion_event_data.ep_handle != to[i] ||
		    event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS)
			return "a completion of another endpoint";
		n++;
	}
	return NULL;
}

static void *send_rounds(void *arg)
{
	const int i = (int)(uintptr_t)arg;
	DAT_LMR_TRIPLET iov = segment(client, (size_t)i * PIECE, PIECE);
	DAT_EVENT event;

	for (int n = 0; n < ROUNDS; n++) {
		while (ep_post_send(from[i], 1, &iov, cookie_of(1), DAT_COMPLETION_SUPPRESS_FLAG) !=
		       DAT_SUCCESS) {
			(void)evd_dequeue(client->request_evd, &event);
			sched_yield();
		}
	}
	return NULL;
}

START_TEST(threads_post_to_one_queue)
{
	pthread_t posters[POSTERS], senders[EPS], takers[EPS];
	unsigned left;

	for (unsigned t = 0; t < POSTERS; t++)
		posters[t] = consumer_thread_start(post_for_ever, (void *)(uintptr_t)t);
	for (unsigned t = 0; t < EPS; t++) {
		takers[t] = consumer_thread_start(take_receives, (void *)(uintptr_t)t);
		senders[t] = consumer_thread_start(send_rounds, (void *)(uintptr_t)t);
	}
	for (unsigned t = 0; t < EPS; t++) {
		ck_assert_ptr_null(consumer_thread_join(senders[t]));
		ck_assert_ptr_null(consumer_thread_join(takers[t]));
	}
	stop = true;
	for (unsigned t = 0; t < POSTERS; t++)
		consumer_thread_join(posters[t]);
	left = posted_by_all - EPS * ROUNDS;
	ck_assert_uint_le(left, RECEIVES);
	expect_outstanding((int)left);
}
END_TEST

/* ---- main ---- */

static void add_ends(TCase *cases)
{
	tcase_add_test(cases, receives_stay_when_an_endpoint_ends);
	tcase_add_test(cases, a_receive_that_an_endpoint_has_taken_is_flushed_before_the_end);
	tcase_add_loop_test(cases, slots_of_an_endpoint_that_is_freed_come_back, 0, 2);
	tcase_add_test(cases, completions_of_the_other_endpoint_stay);
	tcase_add_test(cases, queued_receives_outlive_the_queue);
	tcase_add_test(cases, reset_keeps_the_queue);
	tcase_add_test(cases, a_message_that_is_too_long_ends_only_its_connection);
	tcase_add_test(cases, a_device_that_says_nothing_is_not_waited_for);
	tcase_add_loop_test(cases, a_device_that_says_so_is_waited_for, 0, 2);
	tcase_add_test(cases, the_last_receive_of_a_replaced_queue_pair_is_none_of_the_endpoint);
	tcase_add_test(cases, an_endpoint_that_is_done_is_not_waited_for);
	tcase_add_test(cases, a_queue_in_use_is_not_freed);
	tcase_add_test(cases, a_graceful_close_counts_queues);
	tcase_add_test(cases, an_endpoint_without_a_zone_holds_the_queue);
}

static void add_transfers(TCase *cases)
{
	tcase_add_test(cases, each_receive_completes_on_the_evd_of_its_endpoint);
	tcase_add_test(cases, endpoints_may_share_the_evd);
	tcase_add_test(cases, a_wait_names_the_endpoint_of_each);
	tcase_add_loop_test(cases, a_receive_may_have_any_number_of_segments, 0, 2);
	tcase_add_test(cases, a_buffer_may_be_longer_than_any_message);
	tcase_add_test(cases, a_receive_is_outstanding_until_it_is_taken);
	tcase_add_test(cases, a_receive_that_a_cno_was_told_of_is_outstanding);
	tcase_add_test(cases, a_sender_waits_for_a_receive);
	tcase_add_test(cases, a_post_that_the_device_refuses_takes_no_slot);
	tcase_add_test(cases, an_endpoint_without_an_evd_gives_slots_back);
}

static void add_queue(TCase *cases)
{
	tcase_add_test(cases, an_evd_has_room_for_the_whole_queue_once);
	tcase_add_test(cases, every_receive_may_complete_for_one_endpoint);
	tcase_add_test(cases, a_queue_grows_with_receives_posted);
	tcase_add_test(cases, a_queue_does_not_become_too_short);
	tcase_add_test(cases, a_device_that_cannot_resize_keeps_its_length);
	tcase_add_loop_test(cases, a_resize_that_fails_changes_nothing, 0, 2);
	tcase_add_test(cases, queues_that_were_resized_take_their_memory_along);
	tcase_add_test(cases, the_low_watermark_is_reported_once_for_each_arming);
	tcase_add_test(cases, a_watermark_that_is_reached_already_is_reported_at_once);
	tcase_add_test(cases, a_late_event_of_the_device_reports_nothing);
	tcase_add_test(cases, completed_receives_are_below_the_watermark);
	tcase_add_test(cases, an_event_that_is_taken_meanwhile_does_not_hide_a_low_watermark);
	tcase_add_test(cases, an_event_that_is_taken_meanwhile_does_not_make_a_watermark_low);
	tcase_add_test(cases, zero_disarms_the_watermark);
	tcase_add_test(cases, a_device_without_a_watermark_refuses_one);
}

static void add_arguments(TCase *cases)
{
	tcase_add_loop_test(cases, a_queue_is_made_within_the_limits, 0, COUNT(srq_attrs));
	tcase_add_test(cases, handles_and_pointers_are_checked);
	tcase_add_test(cases, other_handles_are_refused);
	tcase_add_test(cases, an_endpoint_on_a_queue_is_checked_as_any);
	tcase_add_loop_test(cases, attributes_that_the_queue_decides_are_not_looked_at, 0, 2);
	tcase_add_test(cases, receives_are_posted_to_the_queue_only);
	tcase_add_test(cases, a_queue_has_a_kind_and_a_context);
}

static void add_failures(TCase *cases)
{
	tcase_add_test(cases, a_queue_in_error_is_reported_and_refuses_posts);
	tcase_add_test(cases, a_queue_is_not_made_without_resources);
	tcase_add_loop_test(cases, an_endpoint_on_a_queue_is_not_made_without_resources, 0, 2);
	tcase_add_test(cases, receives_need_no_memory);
	tcase_add_test(cases, the_end_of_an_endpoint_without_memory_gives_slots_back);
	tcase_add_test(cases, a_child_has_no_queues);
}

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("srq"), *devices = tcase_create("devices");
	TCase *threads = tcase_create("threads");

	tcase_add_checked_fixture(cases, setup, teardown);
	add_arguments(cases);
	add_transfers(cases);
	add_ends(cases);
	add_queue(cases);
	add_failures(cases);
	tcase_add_test(devices, a_device_without_queues_says_so);
	tcase_add_test(devices, a_device_with_queues_says_so);
	tcase_add_loop_test(devices, zones_may_differ_where_the_device_allows_it, 0, 2);
	tcase_add_test(devices, a_queue_that_no_evd_can_hold_is_refused);
	tcase_add_test(devices, a_removed_device_leaves_a_queue_that_can_be_freed);
	tcase_add_checked_fixture(threads, setup_thread_safe, teardown);
	tcase_add_test(threads, threads_post_to_one_queue);
	return run_unit_cases(argc, argv);
}
