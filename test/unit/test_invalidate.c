/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends of DAT 2.0 that invalidate a window of their receiver: what becomes of the window, in
 * whatever order its owner learns of that, and what is refused.
 */
#include "../fake/fake_impl.h"
#include "harness.h"
#include "region.h"

#define REMOTE_BOTH                                                                                \
	((DAT_MEM_PRIV_FLAGS)(DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG))
#define DEFAULT DAT_COMPLETION_DEFAULT_FLAG
#define NOT_HAD DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE)

enum { BIND = 9, RECV = 3, SEND = 4 }; /* cookies */

/* The server has the windows, the client invalidates them. */
static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;
static DAT_RMR_HANDLE rmr;

static void setup(void)
{
	pair_connect(&pair);
	ck_dat(rmr_create_for_ep(server->pz, &rmr));
}

static void teardown(void)
{
	pair_close_abrupt(&pair);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}

static DAT_RMR_CONTEXT post_bind(DAT_RMR_HANDLE window)
{
	DAT_LMR_TRIPLET range = segment(server, 500, 100);
	DAT_RMR_CONTEXT context;

	ck_dat(rmr_bind(window, server->lmr, &range, REMOTE_BOTH, DAT_VA_TYPE_VA, server->ep,
			cookie_of(BIND), DEFAULT, &context));
	return context;
}

static void expect_bind(void)
{
	DAT_EVENT event = expect_event(server->request_evd, DAT_RMR_BIND_COMPLETION_EVENT);

	ck_assert_int_eq(event.event_data.rmr_completion_event_data.status, DAT_RMR_BIND_SUCCESS);
}

static DAT_RMR_CONTEXT bind_window(DAT_RMR_HANDLE window)
{
	DAT_RMR_CONTEXT context = post_bind(window);

	expect_bind();
	return context;
}

static DAT_RETURN try_invalidate(DAT_RMR_CONTEXT context, DAT_COMPLETION_FLAGS flags)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 8);

	return ep_post_send_with_invalidate(client->ep, 1, &iov, cookie_of(SEND), flags, DAT_TRUE,
					    context);
}

static void post_invalidate(DAT_RMR_CONTEXT context)
{
	post_recv(server, RECV, 64, 64, DEFAULT);
	ck_dat(try_invalidate(context, DEFAULT));
}

static void expect_completion(DAT_EVD_HANDLE evd, DAT_EP_HANDLE ep, uint64_t cookie,
			      DAT_DTOS operation, DAT_RMR_CONTEXT context)
{
	DAT_EVENT event = expect_event(evd, DAT_DTO_COMPLETION_EVENT);
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;

	ck_assert_ptr_eq(dto->ep_handle, ep);
	ck_assert_uint_eq(dto->user_cookie.as_64, cookie);
	ck_assert_int_eq(dto->status, DAT_DTO_SUCCESS);
	ck_assert_uint_eq(dto->transfered_length, 8);
	ck_assert_int_eq(dto->operation, operation);
	ck_assert_uint_eq(dto->rmr_context, context);
}

/* Both sides take the completions of post_invalidate. */
static void expect_invalidated(DAT_RMR_CONTEXT context)
{
	expect_completion(client->request_evd, client->ep, SEND, DAT_DTO_SEND, 0);
	expect_completion(server->recv_evd, server->ep, RECV, DAT_DTO_RECEIVE_WITH_INVALIDATE,
			  context);
}

/* Would the device let the client write to the range of the window? */
static bool serves(DAT_RMR_CONTEXT context)
{
	const struct ep *ep = server->ep;
	bool allowed;

	fake_lock();
	allowed = mem_allows_peer(ep->qp, context, (uintptr_t)server->memory + 510, 1,
				  DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
	fake_unlock();
	return allowed;
}

static DAT_RMR_CONTEXT context_of(DAT_RMR_HANDLE window)
{
	DAT_RMR_PARAM param;

	ck_dat(rmr_query(window, DAT_RMR_FIELD_RMR_CONTEXT, &param));
	return param.rmr_context;
}

/* Nothing is bound, and nothing is kept for it. */
static void expect_unbound(void)
{
	ck_assert_uint_eq(context_of(rmr), 0);
	ck_assert_uint_eq(handle_uses(server->lmr), 0);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
}

static void expect_bound_as(DAT_RMR_CONTEXT context)
{
	ck_assert_uint_eq(context_of(rmr), context);
	ck_assert(serves(context));
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 1);
}

/* ---- what becomes of the window ---- */

START_TEST(the_receiver_learns_of_it_and_the_window_is_unbound)
{
	DAT_RMR_CONTEXT context = bind_window(rmr);

	ck_dat_is(lmr_free(server->lmr), BAD_STATE(LMR_IN_USE));
	post_invalidate(context);
	ck_assert(!serves(context));
	expect_invalidated(context);
	expect_unbound();
	ck_dat(lmr_free(server->lmr));
}
END_TEST

START_TEST(the_window_may_be_bound_again)
{
	DAT_RMR_CONTEXT context = 0, before;

	for (int i = 0; i < 5; i++) {
		before = context;
		context = bind_window(rmr);
		ck_assert_uint_ne(context, before);
		expect_bound_as(context);
		post_invalidate(context);
		expect_invalidated(context);
		expect_unbound();
	}
	expect_bound_as(bind_window(rmr));
	ck_dat(rmr_free(rmr));
	ck_assert_uint_eq(handle_uses(server->lmr), 0);
}
END_TEST

START_TEST(the_window_may_be_freed)
{
	DAT_RMR_CONTEXT context = bind_window(rmr);

	if (_i) { /* before the receive is seen */
		post_invalidate(context);
		ck_dat(rmr_free(rmr));
		expect_invalidated(context);
	} else {
		post_invalidate(context);
		expect_invalidated(context);
		ck_dat(rmr_free(rmr));
	}
	ck_assert_uint_eq(handle_uses(server->lmr), 0);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
}
END_TEST

/* The completions of the bind and of the receive are on two EVDs. */
START_TEST(the_receive_may_be_seen_before_the_bind)
{
	DAT_RMR_CONTEXT context = post_bind(rmr);

	post_invalidate(context);
	expect_invalidated(context);
	expect_bind();
	expect_unbound();
	expect_bound_as(bind_window(rmr));
}
END_TEST

START_TEST(a_bind_that_follows_stands)
{
	DAT_RMR_CONTEXT context = bind_window(rmr), next;

	post_invalidate(context);
	next = post_bind(rmr);
	if (_i) { /* the bind is seen first */
		expect_bind();
		expect_invalidated(context);
	} else {
		expect_invalidated(context);
		expect_bind();
	}
	expect_bound_as(next);
}
END_TEST

/* As the completion of a receive does it, whoever takes that. */
static bool invalidated(DAT_RMR_CONTEXT context)
{
	return rmr_invalidated(((struct ep *)server->ep)->obj.ia, context);
}

START_TEST(a_bind_that_follows_stands_while_the_one_before_is_not_released)
{
	CANCEL_FORBIDDEN; /* as in a call */
	DAT_RMR_CONTEXT context = bind_window(rmr), next = post_bind(rmr);

	(void)evd_drain(server->request_evd);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 2);
	ck_assert(!invalidated(context));
	expect_bind();
	expect_bound_as(next);
}
END_TEST

START_TEST(an_invalidation_that_is_seen_before_the_bind_waits_for_it)
{
	DAT_RMR_CONTEXT context;

	fake_hold(true);
	context = post_bind(rmr);
	ck_assert(!invalidated(context));
	ck_assert_uint_eq(context_of(rmr), context);
	fake_hold(false);
	expect_bind();
	expect_unbound();
}
END_TEST

START_TEST(an_invalidated_bind_of_a_freed_window_leaves_nothing)
{
	DAT_RMR_CONTEXT context = post_bind(rmr);

	post_invalidate(context);
	if (_i)
		expect_invalidated(context);
	ck_dat(rmr_free(rmr));
	if (!_i)
		expect_invalidated(context);
	expect_bind();
	ck_assert_uint_eq(handle_uses(server->lmr), 0);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
}
END_TEST

/* Its last bind has ended, and the thread that takes the event of that releases all of it. */
START_TEST(what_is_released_with_its_window_is_not_released_once_more)
{
	CANCEL_FORBIDDEN; /* as in a call */
	DAT_RMR_CONTEXT context = post_bind(rmr);

	ck_dat(rmr_free(rmr));
	(void)evd_drain(server->request_evd);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 1);
	ck_assert(!invalidated(context));
	expect_bind();
	ck_assert_uint_eq(handle_uses(server->lmr), 0);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
}
END_TEST

#define WINDOWS (2 * EP_WINDOW_CHAINS + 1)

START_TEST(each_context_ends_its_own_window)
{
	static DAT_RMR_HANDLE windows[WINDOWS];
	static DAT_RMR_CONTEXT contexts[WINDOWS];

	for (int i = 0; i < WINDOWS; i++) {
		ck_dat(rmr_create_for_ep(server->pz, &windows[i]));
		contexts[i] = bind_window(windows[i]);
	}
	for (int n = 0, i = 0; n < WINDOWS; n++, i = (i + 100) % WINDOWS) {
		post_invalidate(contexts[i]);
		expect_invalidated(contexts[i]);
		ck_assert_uint_eq(context_of(windows[i]), 0);
		ck_assert_uint_eq(handle_uses(server->lmr), (unsigned)(WINDOWS - n - 1));
	}
}
END_TEST

START_TEST(a_receive_of_a_shared_queue_tells_it)
{
	DAT_SRQ_ATTR srq_attr = { .max_recv_dtos = 8, .max_recv_iov = 1 };
	DAT_EP_ATTR ep_attr = ep_attr_default(server);
	DAT_EP_HANDLE plain = server->ep, other = side_create_ep(client, NULL);
	DAT_LMR_TRIPLET iov = segment(server, 64, 64);
	DAT_RMR_CONTEXT context;
	DAT_SRQ_HANDLE srq;

	ck_dat(srq_create(server->ia, server->pz, &srq_attr, &srq));
	ck_dat(ep_create_with_srq(server->ia, server->pz, server->recv_evd, server->request_evd,
				  server->connect_evd, srq, &ep_attr, &server->ep));
	connect_eps(client, other, server, server->ep);
	ck_dat(ep_free(plain));
	client->ep = other;
	context = bind_window(rmr);
	ck_dat(srq_post_recv(srq, 1, &iov, cookie_of(RECV)));
	ck_dat(try_invalidate(context, DEFAULT));
	expect_invalidated(context);
	expect_unbound();
}
END_TEST

/* ---- the request ---- */

START_TEST(it_is_a_send_in_every_other_respect)
{
	DAT_RMR_CONTEXT context = bind_window(rmr);

	post_recv(server, RECV, 64, 64, DEFAULT);
	memset(client->memory, 0x77, 8);
	ck_dat(try_invalidate(context, (DAT_COMPLETION_FLAGS)(DAT_COMPLETION_SUPPRESS_FLAG |
							      DAT_COMPLETION_SOLICITED_WAIT_FLAG |
							      DAT_COMPLETION_BARRIER_FENCE_FLAG)));
	ck_assert_uint_eq(fake_seen().post_flags, TP_POST_FENCE | TP_POST_SOLICIT);
	expect_completion(server->recv_evd, server->ep, RECV, DAT_DTO_RECEIVE_WITH_INVALIDATE,
			  context);
	ck_assert_mem_eq(server->memory + 64, client->memory, 8);
	expect_no_event(client->request_evd);
}
END_TEST

START_TEST(it_takes_a_slot_of_the_requests)
{
	const DAT_COUNT most = ep_attr_default(client).max_request_dtos;

	fake_hold(true);
	for (int i = 0; i < most; i++)
		ck_dat(try_invalidate(5, DEFAULT));
	ck_dat_is(try_invalidate(5, DEFAULT), NO_RESOURCE(MEMORY));
	ck_assert_uint_eq(fake_outstanding(), (unsigned)most);
}
END_TEST

START_TEST(a_context_of_no_window_of_the_peer_breaks_the_connection)
{
	DAT_RMR_CONTEXT bound = bind_window(rmr);
	const DAT_RMR_CONTEXT wrong[] = { 0, bound + 1, server->rmr_context, server->lmr_context };

	post_invalidate(wrong[_i]);
	expect_dto(client->request_evd, SEND, DAT_DTO_ERR_REMOTE_ACCESS);
	(void)expect_event(client->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
	ck_assert_uint_eq(context_of(rmr), bound);
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
}
END_TEST

static DAT_RETURN call(DAT_EP_HANDLE ep, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov, int invalidate)
{
	return ep_post_send_with_invalidate(ep, nseg, iov, cookie_of(SEND), DEFAULT,
					    (DAT_BOOLEAN)invalidate, 5);
}

START_TEST(what_is_wrong_is_refused)
{
	DAT_LMR_TRIPLET iov[2] = { segment(client, 0, 8), segment(client, 8, 8) };
	const DAT_COUNT most = ep_attr_default(client).max_request_iov;
	DAT_EP_HANDLE idle = side_create_ep(client, NULL);

	ck_dat_is(call(DAT_HANDLE_NULL, 1, iov, DAT_TRUE), BAD_HANDLE(EP));
	ck_dat_is(call(client->ia, 1, iov, DAT_TRUE), BAD_HANDLE(EP));
	ck_dat_is(call(client->pz, 1, iov, 2), BAD_HANDLE(EP));
	ck_dat_is(call(client->ep, 1, iov, 2), BAD_ARG(6));
	ck_dat_is(call(client->ep, 1, iov, -1), BAD_ARG(6));
	ck_dat_is(call(client->ep, most + 1, iov, DAT_TRUE), BAD_ARG(2));
	ck_dat_is(call(client->ep, -1, iov, DAT_TRUE), BAD_ARG(2));
	ck_dat_is(call(client->ep, 1, NULL, DAT_TRUE), BAD_ARG(3));
	ck_dat_is(call(idle, 1, iov, DAT_TRUE), BAD_STATE(EP_UNCONNECTED));
	iov[1].segment_length = UINT32_MAX;
	ck_dat_is(call(client->ep, 2, iov, DAT_TRUE), BAD_ARG(3));
	ck_assert_uint_eq(fake_outstanding(), 0);
}
END_TEST

START_TEST(a_post_that_the_device_refuses_leaves_nothing)
{
	DAT_RMR_CONTEXT context = bind_window(rmr);

	fake_fail("post_send", ENOMEM, 1);
	ck_dat_is(try_invalidate(context, DEFAULT), NO_RESOURCE(MEMORY));
	ck_assert_uint_eq(fake_outstanding(), 0);
	expect_bound_as(context);
	post_invalidate(context);
	expect_invalidated(context);
}
END_TEST

/* The peer has disconnected, and the device refuses a send before it. */
START_TEST(behind_a_post_that_was_refused_and_counts_as_taken_it_is_flushed)
{
	DAT_RMR_CONTEXT context = bind_window(rmr);

	pair_begin_to_end(&pair);
	fake_fail("post_send", EIO, 1);
	post_send(client, 2, 0, 8, 0);
	ck_dat(try_invalidate(context, DEFAULT));
	pair_finish_the_end(&pair);
	expect_dto(client->request_evd, 1, DAT_DTO_ERR_FLUSHED);
	expect_dto(client->request_evd, 2, DAT_DTO_ERR_FLUSHED);
	expect_dto(client->request_evd, SEND, DAT_DTO_ERR_FLUSHED);
	expect_no_event(client->request_evd);
}
END_TEST

START_TEST(on_a_disconnected_endpoint_it_is_flushed)
{
	side_disconnect(client);
	ck_dat(try_invalidate(5, DEFAULT));
	expect_dto(client->request_evd, SEND, DAT_DTO_ERR_FLUSHED);
}
END_TEST

static void setup_without(void)
{
	fake_attr()->caps &= ~(unsigned)TP_CAP_INVALIDATE;
	pair_connect(&pair);
}

START_TEST(a_device_may_not_have_it)
{
	ck_dat_is(try_invalidate(5, DEFAULT), NOT_HAD);
	ck_assert_uint_eq(fake_outstanding(), 0);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("sends that invalidate");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_test(cases, the_receiver_learns_of_it_and_the_window_is_unbound);
	tcase_add_test(cases, the_window_may_be_bound_again);
	tcase_add_loop_test(cases, the_window_may_be_freed, 0, 2);
	tcase_add_test(cases, the_receive_may_be_seen_before_the_bind);
	tcase_add_loop_test(cases, a_bind_that_follows_stands, 0, 2);
	tcase_add_test(cases, a_bind_that_follows_stands_while_the_one_before_is_not_released);
	tcase_add_test(cases, an_invalidation_that_is_seen_before_the_bind_waits_for_it);
	tcase_add_loop_test(cases, an_invalidated_bind_of_a_freed_window_leaves_nothing, 0, 2);
	tcase_add_test(cases, what_is_released_with_its_window_is_not_released_once_more);
	tcase_add_test(cases, each_context_ends_its_own_window);
	tcase_add_test(cases, a_receive_of_a_shared_queue_tells_it);
	tcase_add_test(cases, it_is_a_send_in_every_other_respect);
	tcase_add_test(cases, it_takes_a_slot_of_the_requests);
	tcase_add_loop_test(cases, a_context_of_no_window_of_the_peer_breaks_the_connection, 0, 4);
	tcase_add_test(cases, what_is_wrong_is_refused);
	tcase_add_test(cases, a_post_that_the_device_refuses_leaves_nothing);
	tcase_add_test(cases, behind_a_post_that_was_refused_and_counts_as_taken_it_is_flushed);
	tcase_add_test(cases, on_a_disconnected_endpoint_it_is_flushed);

	cases = tcase_create("no such sends");
	tcase_add_checked_fixture(cases, setup_without, teardown);
	tcase_add_test(cases, a_device_may_not_have_it);
	return run_unit_cases(argc, argv);
}
