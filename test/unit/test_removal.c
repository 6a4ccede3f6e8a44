/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device that is removed: its descriptors are in error for ever. Nobody spins on them, the loss
 * is reported once, all connections end, and everything can be closed.
 */
#include "harness.h"

#define MINUTE UINT64_C(60000000000) /* ns */

/* Calls of tp_poll by all threads, after a removal and in a whole case; one that spins has more. */
#define ENOUGH_POLLS 100
#define MOST_POLLS   50000

static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;

static void open_removable(void)
{
	fake_quirks(FAKE_REMOVABLE);
	client->qlen = server->qlen = 256;
	fake_limit_polls(MOST_POLLS);
	side_open(client, "fake0");
	fake_quirks(0);
	side_open(server, "fake1");
}

static struct tp_dev *removable(void)
{
	return ((struct ia *)client->ia)->dev;
}

/* What can be in error when a device is gone. */
static const unsigned removals[] = { FAKE_DEV_FD, FAKE_CQ_FDS, FAKE_DEV_FD | FAKE_CQ_FDS,
				     FAKE_SECOND_FD, FAKE_DEV_FD | FAKE_SECOND_FD };

/* All threads sleep, and nothing but an event or a time-out would wake them. */
static void expect_sleep(unsigned waiters, unsigned polls_before)
{
	unsigned polls;

	fake_wait_idle(waiters);
	ck_assert_uint_le(fake_polls() - polls_before, ENOUGH_POLLS);
	fake_clock_advance(MINUTE); /* a last look at queues in which there were completions */
	fake_wait_idle(waiters);
	polls = fake_polls();
	fake_clock_advance(MINUTE);
	fake_wait_idle(waiters);
	ck_assert_uint_eq(fake_polls(), polls);
}

static void expect_removal_reported(const struct side *side)
{
	DAT_EVENT event = expect_event(side->async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC);

	ck_assert_ptr_eq(event.event_data.asynch_error_event_data.dat_handle, side->ia);
	ck_assert_int_eq(event.event_data.asynch_error_event_data.reason,
			 DAT_IA_CATASTROPHIC_ERROR);
	expect_no_event(side->async_evd);
}

static void expect_broken(DAT_EP_HANDLE ep)
{
	DAT_EVENT event = expect_event(client->connect_evd, DAT_CONNECTION_EVENT_BROKEN);

	if (ep)
		ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, ep);
}

/* ---- nobody spins ---- */

START_TEST(a_removed_device_is_reported_once_and_not_watched)
{
	unsigned before;

	pair_connect(&pair);
	before = fake_polls();
	fake_remove(removable(), removals[_i]);
	expect_broken(client->ep);
	expect_removal_reported(client);
	expect_sleep(0, before);
	expect_no_event(client->connect_evd);
	expect_no_event(client->async_evd);
	pair_close_abrupt(&pair);
}
END_TEST

/* Without endpoints, too. */
START_TEST(an_idle_ia_reports_the_removal)
{
	unsigned before = fake_polls();

	fake_remove(removable(), removals[_i]);
	expect_removal_reported(client);
	expect_sleep(0, before);
	side_close(client);
	side_close(server);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

/* It sleeps on, until an event comes or the EVD goes away. */
START_TEST(a_waiter_sleeps_on_without_its_channel)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };
	unsigned before;

	pair_connect(&pair);
	waiter.evd = client->recv_evd;
	waiter_start(&waiter);
	before = fake_polls();
	fake_remove(removable(), removals[_i]);
	expect_broken(client->ep);
	expect_removal_reported(client);
	expect_sleep(1, before);
	pair_close_abrupt(&pair);
	ck_dat_is(waiter_join(&waiter), DAT_ERROR(DAT_ABORT, 0));
}
END_TEST

START_TEST(a_waiter_gets_the_flushed_receives)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 2 };

	pair_connect(&pair);
	post_recv(client, 1, 0, 64, 0);
	post_recv(client, 2, 0, 64, 0);
	waiter.evd = client->recv_evd;
	waiter_start(&waiter);
	fake_remove(removable(), removals[_i]);
	expect_broken(client->ep);
	ck_dat(waiter_join(&waiter));
	ck_assert_int_eq(waiter.nmore, 1);
	ck_assert_int_eq(waiter.event.event_data.dto_completion_event_data.status,
			 DAT_DTO_ERR_FLUSHED);
	expect_dto(client->recv_evd, 2, DAT_DTO_ERR_FLUSHED);
	pair_close_abrupt(&pair);
}
END_TEST

/* Also one that begins after the removal. */
START_TEST(a_later_wait_times_out)
{
	unsigned before;
	DAT_EVENT event;
	DAT_COUNT nmore;

	pair_connect(&pair);
	fake_remove(removable(), removals[_i]);
	expect_broken(client->ep);
	before = fake_polls();
	ck_dat_is(evd_wait(client->recv_evd, SECONDS(5), 1, &event, &nmore),
		  DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0));
	ck_dat_is(evd_wait(client->recv_evd, SECONDS(5), 2, &event, &nmore),
		  DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0));
	ck_assert_uint_le(fake_polls() - before, ENOUGH_POLLS);
	pair_close_abrupt(&pair);
}
END_TEST

/* Its channel is the only one in error. */
START_TEST(a_waiter_does_not_hide_the_removal)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };
	unsigned before;

	side_close(client);
	fake_quirks(FAKE_REMOVABLE);
	client->ia = ia_open_on("fake0", false, &client->async_evd);
	client->recv_evd = side_create_evd(client, 8, DAT_EVD_DTO_FLAG);
	fake_quirks(0);
	waiter.evd = client->recv_evd;
	waiter_start(&waiter);
	before = fake_polls();
	fake_remove(removable(), FAKE_CQ_FDS);
	expect_removal_reported(client);
	expect_sleep(1, before);
	ck_dat(ia_close(client->ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat_is(waiter_join(&waiter), DAT_ERROR(DAT_ABORT, 0));
	side_close(server);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

static void *removal_cno_wait(void *cno)
{
	DAT_EVD_HANDLE evd = POISON;

	ck_dat(cno_wait(cno, DAT_TIMEOUT_INFINITE, &evd));
	return evd;
}

/* @_i: whether a receive is posted, whose flush triggers the CNO. */
START_TEST(a_thread_in_cno_wait_sleeps_on_or_is_told)
{
	unsigned before;
	DAT_CNO_HANDLE cno;
	pthread_t thread;

	pair_connect(&pair);
	ck_dat(cno_create(client->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(evd_modify_cno(client->recv_evd, cno));
	if (_i)
		post_recv(client, 1, 0, 64, 0);
	thread = consumer_thread_start(removal_cno_wait, cno);
	fake_wait_idle(1);
	before = fake_polls();
	fake_remove(removable(), FAKE_DEV_FD | FAKE_CQ_FDS);
	expect_broken(client->ep);
	if (_i) {
		ck_assert_ptr_eq(consumer_thread_join(thread), client->recv_evd);
		expect_dto(client->recv_evd, 1, DAT_DTO_ERR_FLUSHED);
	}
	expect_removal_reported(client);
	expect_sleep(_i ? 0 : 1, before);
	ck_dat(ia_close(client->ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat(ia_close(server->ia, DAT_CLOSE_ABRUPT_FLAG));
	if (!_i)
		ck_assert_ptr_null(consumer_thread_join(thread));
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

/* ---- connections ---- */

#define EPS 100

/* The asynchronous EVD holds 8 events: one is enough for the device and all its endpoints. */
START_TEST(a_hundred_connections_break)
{
	DAT_EP_HANDLE eps[EPS], peers[EPS];
	DAT_LMR_TRIPLET iov = segment(client, 0, 8);

	for (int n = 0; n < EPS; n++) {
		eps[n] = side_create_ep(client, NULL);
		peers[n] = side_create_ep(server, NULL);
		connect_eps(client, eps[n], server, peers[n]);
		ck_dat(ep_post_recv(eps[n], 1, &iov, cookie_of((uint64_t)n), 0));
	}
	fake_remove(removable(), removals[_i]);
	for (int n = 0; n < EPS; n++)
		expect_broken(NULL);
	for (int n = 0; n < EPS; n++) {
		DAT_EVENT event = expect_event(client->recv_evd, DAT_DTO_COMPLETION_EVENT);

		ck_assert_int_eq(event.event_data.dto_completion_event_data.status,
				 DAT_DTO_ERR_FLUSHED);
		ck_assert_int_eq(ep_get_state(eps[n]), DAT_EP_STATE_DISCONNECTED);
	}
	expect_no_event(client->connect_evd);
	expect_no_event(client->recv_evd);
	expect_removal_reported(client);
	pair_close_abrupt(&pair);
}
END_TEST

/* What the device took completes as flushed, once each, and what comes later is refused. */
START_TEST(requests_are_flushed_in_order)
{
	pair_connect(&pair);
	fake_hold(true);
	for (uint64_t n = 0; n < 6; n++) {
		if (n == 3)
			fake_remove(removable(), removals[_i]);
		(void)try_send(client, n, 0, 8, n % 2 ? DAT_COMPLETION_SUPPRESS_FLAG : 0);
	}
	expect_broken(client->ep);
	for (uint64_t n = 0; n < 3; n++)
		expect_dto(client->request_evd, n, DAT_DTO_ERR_FLUSHED);
	ck_dat(try_send(client, 9, 0, 8, 0));
	fake_hold(false);
	for (;;) {
		DAT_EVENT event = expect_event(client->request_evd, DAT_DTO_COMPLETION_EVENT);

		ck_assert_int_eq(event.event_data.dto_completion_event_data.status,
				 DAT_DTO_ERR_FLUSHED);
		if (event.event_data.dto_completion_event_data.user_cookie.as_64 == 9)
			break;
	}
	expect_no_event(client->request_evd);
	pair_close_abrupt(&pair);
}
END_TEST

/* Attempts, graceful disconnects that wait for a request, and requests end, too. */
START_TEST(a_connection_ends_in_any_state)
{
	DAT_EP_HANDLE attempt = side_create_ep(client, NULL);
	DAT_EVENT event;

	pair_connect(&pair);
	fake_hold(true);
	post_send(client, 1, 0, 8, 0);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_GRACEFUL_FLAG));
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_DISCONNECT_PENDING);
	fake_hold_cm(true);
	ck_dat(ep_connect(attempt, (DAT_IA_ADDRESS_PTR)&server->address, 77, DAT_TIMEOUT_INFINITE,
			  0, NULL, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	fake_remove(removable(), removals[_i]);
	for (int n = 0; n < 2; n++) {
		DAT_COUNT nmore;

		ck_dat(evd_wait(client->connect_evd, SECONDS(60), 1, &event, &nmore));
		ck_assert_int_eq(event.event_number,
				 event.event_data.connect_event_data.ep_handle == attempt
					 ? DAT_CONNECTION_EVENT_NON_PEER_REJECTED
					 : DAT_CONNECTION_EVENT_BROKEN);
	}
	expect_dto(client->request_evd, 1, DAT_DTO_ERR_FLUSHED);
	expect_removal_reported(client);
	fake_hold_cm(false);
	fake_hold(false);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- afterwards ---- */

START_TEST(everything_can_be_freed)
{
	pair_connect(&pair);
	post_recv(client, 1, 0, 64, 0);
	fake_remove(removable(), removals[_i]);
	expect_broken(client->ep);
	expect_dto(client->recv_evd, 1, DAT_DTO_ERR_FLUSHED);
	side_close(client); /* gracefully, object by object */
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	side_close(server);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

/* The device comes back: a new IA works, beside the old one, and when it is removed again. */
START_TEST(a_device_can_be_removed_again)
{
	struct side old;

	pair_connect(&pair);
	for (int n = 0; n < 3; n++) {
		fake_remove(removable(), removals[_i]);
		expect_broken(client->ep);
		expect_removal_reported(client);
		old = *client;
		*client = (struct side){ 0 };
		expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
		ck_dat(ep_reset(server->ep));
		fake_quirks(FAKE_REMOVABLE);
		side_open(client, "fake0");
		fake_quirks(0);
		pair_connect(&pair);
		expect_no_event(old.async_evd);
		side_close(&old);
	}
	pair_close(&pair);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("removal");

	tcase_add_checked_fixture(cases, open_removable, NULL);
	tcase_add_loop_test(cases, a_removed_device_is_reported_once_and_not_watched, 0,
			    COUNT(removals));
	tcase_add_loop_test(cases, an_idle_ia_reports_the_removal, 0, COUNT(removals));
	tcase_add_loop_test(cases, a_waiter_sleeps_on_without_its_channel, 0, COUNT(removals));
	tcase_add_loop_test(cases, a_waiter_gets_the_flushed_receives, 0, COUNT(removals));
	tcase_add_loop_test(cases, a_later_wait_times_out, 0, COUNT(removals));
	tcase_add_test(cases, a_waiter_does_not_hide_the_removal);
	tcase_add_loop_test(cases, a_thread_in_cno_wait_sleeps_on_or_is_told, 0, 2);
	tcase_add_loop_test(cases, a_hundred_connections_break, 0, COUNT(removals));
	tcase_add_loop_test(cases, requests_are_flushed_in_order, 0, COUNT(removals));
	tcase_add_loop_test(cases, a_connection_ends_in_any_state, 0, COUNT(removals));
	tcase_add_loop_test(cases, everything_can_be_freed, 0, COUNT(removals));
	tcase_add_loop_test(cases, a_device_can_be_removed_again, 0, COUNT(removals));
	return run_unit_cases(argc, argv);
}
