/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue whose descriptor is a set with a signal of completions, as that of libfabric's tcp: who
 * polls is not told of them, and whoever sleeps is. The event queue, with a signal of the ends of
 * connections.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>

#include "../../udapl/ofi/ofi.h"
#include "ofi_test.h"

#define MANY 3 /* visits in a row that find a consumer which polls; then it counts as steady */

static struct ofi_rig rig;
static struct tp_cq *cq;

/* The service thread does nothing as long as the lock of the IA is held: a case does its visits. */
static void open_with(unsigned signals)
{
	ff_provider()->protocol = FI_PROTO_SOCK_TCP;
	ff_provider()->signals = signals;
	ofi_rig_open(&rig);
	cq = ((struct evd *)rig.dto_evd)->cq;
	ofi_rig_lock(&rig);
}

static void setup(void)
{
	open_with(1);
}

static void teardown(void)
{
	ofi_rig_unlock(&rig);
	ofi_rig_close(&rig);
}

static void visit(void)
{
	progress_due(cq);
	(void)progress_run(cq->dev, true, false);
}

/* Two completions, and no bytes. */
static void message_completes(void)
{
	const DAT_DTO_COOKIE cookie = { .as_64 = 1 };

	ck_dat(ep_post_recv(rig.passive, 1, &rig.segment, cookie, DAT_COMPLETION_DEFAULT_FLAG));
	ck_dat(ep_post_send(rig.active, 1, &rig.segment, cookie, DAT_COMPLETION_DEFAULT_FLAG));
}

static unsigned poll_all(void)
{
	DAT_EVENT event;
	unsigned n = 0;

	while (evd_dequeue(rig.dto_evd, &event) == DAT_SUCCESS)
		n++;
	return n;
}

/* A consumer polls, for as long as that takes. */
static void poll_steadily(void)
{
	for (unsigned i = 0; i < MANY; i++) {
		(void)poll_all();
		visit();
	}
}

static bool is_told(void)
{
	struct pollfd fd = { .fd = cq->fi_fd, .events = POLLIN };

	return poll(&fd, 1, 0) > 0;
}

static bool is_readable(void)
{
	struct pollfd fd = { .fd = tp_cq_fd(cq), .events = POLLIN };

	return poll(&fd, 1, 0) > 0;
}

static void expect_told(void)
{
	message_completes();
	ck_assert(is_told());
	ck_assert_uint_eq(poll_all(), 2);
}

/* It is awake then. */
static void expect_sleeper_told(void)
{
	message_completes();
	ck_assert(is_told());
	ck_assert_int_eq(tp_cq_arm(cq, TP_ARM_NOTHING), 0);
	ck_assert_uint_eq(poll_all(), 2);
}

START_TEST(who_polls_is_not_told_of_completions)
{
	expect_told();
	poll_steadily();
	message_completes();
	ck_assert(!is_told());
	ck_assert_uint_eq(poll_all(), 2);
}
END_TEST

/* It may sleep next. */
START_TEST(who_polls_now_and_then_is_told)
{
	(void)poll_all();
	visit();
	expect_told();
}
END_TEST

START_TEST(who_sleeps_after_polls_is_told)
{
	poll_steadily();
	ck_assert_int_eq(tp_cq_sleep(cq), cq->fi_fd);
	ck_assert(!is_told());
	expect_sleeper_told();
}
END_TEST

/* Below a CNO, or in the set of the service thread. */
START_TEST(who_sleeps_on_the_set_of_a_queue_is_told)
{
	poll_steadily();
	ck_assert_int_eq(tp_cq_arm(cq, TP_ARM_ANY), 0);
	ck_assert(!is_readable());
	message_completes();
	ck_assert(is_readable());
	ck_assert(tp_cq_events(cq));
	ck_assert_int_eq(tp_cq_arm(cq, TP_ARM_NOTHING), 0);
	ck_assert_uint_eq(poll_all(), 2);
}
END_TEST

START_TEST(what_came_before_a_sleep_is_told)
{
	poll_steadily();
	message_completes();
	ck_assert_int_eq(tp_cq_arm(cq, TP_ARM_ANY), 0);
	ck_assert(is_readable());
	ck_assert(tp_cq_events(cq));
	ck_assert_uint_eq(poll_all(), 2);
}
END_TEST

START_TEST(who_sleeps_is_told_though_its_queue_was_polled)
{
	for (unsigned i = 0; i < 2 * MANY; i++) {
		ck_assert_int_eq(tp_cq_sleep(cq), cq->fi_fd);
		(void)poll_all();
		visit();
	}
	expect_sleeper_told();
}
END_TEST

/* The service thread takes them in for it, and is told. */
START_TEST(for_who_sleeps_until_a_solicited_receive_the_service_thread_is_told)
{
	poll_steadily();
	ck_assert_int_eq(tp_cq_arm(cq, TP_ARM_SOLICITED), 0);
	for (unsigned i = 0; i < 2 * MANY; i++) {
		expect_told();
		visit();
	}
	ck_assert_int_eq(tp_cq_arm(cq, TP_ARM_NOTHING), 0);
}
END_TEST

/* The next visit finds that it polls no more. */
static void stop_polling(void)
{
	visit();
	ck_assert_uint_eq(cq->progress, PROGRESS_WATCHED);
}

START_TEST(the_service_thread_is_told_when_polls_have_ended)
{
	poll_steadily();
	stop_polling();
	ck_assert(!is_told());
	expect_told();
}
END_TEST

START_TEST(what_came_during_polls_is_taken_in_when_they_have_ended)
{
	poll_steadily();
	message_completes();
	stop_polling();
	ck_assert_uint_eq(cq->backlog, CQ_READY);
	ck_assert_uint_eq(poll_all(), 2);
}
END_TEST

/* As a wait of no time is at last. It does not read a queue that is known to be empty. */
START_TEST(a_poll_for_many_finds_what_nobody_was_told_of)
{
	struct tp_wc wc[TP_POLL_MAX];

	poll_steadily();
	message_completes();
	ck_assert_uint_eq(tp_cq_poll(cq, wc, TP_POLL_MAX), 2);
	ck_assert_uint_eq(tp_cq_poll(cq, wc, 2), 0);
	ck_assert_uint_eq(tp_cq_poll(cq, wc, TP_POLL_MAX), 0);
	message_completes();
	ck_assert_uint_eq(tp_cq_poll(cq, wc, TP_POLL_MAX), 2);
}
END_TEST

/* What has completed once leaves the signal set, which says nothing of later. */
START_TEST(ends_beside_polls_read_the_queue_once)
{
	unsigned reads;

	poll_steadily();
	message_completes();
	ck_assert_uint_eq(poll_all(), 2);
	reads = ff_calls_here("fi_cq_read");
	for (unsigned i = 0; i < 10; i++) {
		spin_lock(&cq->lock);
		cq_collect_locked(cq);
		spin_unlock(&cq->lock);
	}
	ck_assert_uint_eq(ff_calls_here("fi_cq_read") - reads, 1);
}
END_TEST

/* ---- descriptors of other kinds ---- */

START_TEST(a_set_of_two_is_left_as_it_is)
{
	open_with(2);
	ck_assert_int_eq(cq->fi_signal.fd, -1);
	poll_steadily();
	expect_told();
	teardown();
}
END_TEST

START_TEST(a_descriptor_that_is_no_set_is_left_as_it_is)
{
	open_with(0);
	ck_assert_int_eq(cq->fi_signal.fd, -1);
	poll_steadily();
	expect_told();
	teardown();
}
END_TEST

/* A queue of a device is no set of sockets, whatever its descriptor is. */
START_TEST(a_set_of_another_provider_is_left_as_it_is)
{
	ff_provider()->protocol = FI_PROTO_RDMA_CM_IB_RC;
	ff_provider()->signals = 1;
	ff_provider()->sockets = true;
	ofi_rig_open(&rig);
	cq = ((struct evd *)rig.dto_evd)->cq;
	ck_assert(!cq->dev->soft_queues);
	ck_assert_int_eq(cq->fi_signal.fd, -1);
	ck_assert_int_eq(cq->dev->eq_signal.fd, -1);
	ofi_rig_close(&rig);
}
END_TEST

/* Then it does not tell of completions, so nobody sleeps there, and the queue is visited. */
START_TEST(a_signal_that_has_left_the_set_is_not_waited_for)
{
	open_with(1);
	poll_steadily();
	ck_assert_int_eq(epoll_ctl(cq->fi_fd, EPOLL_CTL_DEL, cq->fi_signal.fd, NULL), 0);
	ck_assert_int_eq(tp_cq_sleep(cq), -1);
	ck_assert_int_eq(tp_cq_arm(cq, TP_ARM_NOTHING), 0);
	message_completes();
	visit();
	visit();
	ck_assert_uint_eq(cq->progress, PROGRESS_VISITED);
	ck_assert_uint_eq(cq->backlog, CQ_READY);
	ck_assert_uint_eq(poll_all(), 2);
	teardown();
}
END_TEST

/* ---- the event queue ---- */

static struct tp_dev *dev;

static void tcp_open(void)
{
	ff_provider()->name = "tcp";
	ff_provider()->protocol = FI_PROTO_SOCK_TCP;
	ff_provider()->sockets = true;
	ck_dat(ofi_ia_open(&rig, "tcp 127.0.0.1"));
	ck_dat(ofi_objects_create(&rig));
	dev = ((struct evd *)rig.dto_evd)->cq->dev;
}

/* @watched: its sockets; if not, the kernel has no room for them. */
static void tcp_connect(bool watched)
{
	ck_dat(ofi_connect_begin(&rig));
	if (!watched)
		ff_fail_times("epoll_ctl", ENOSPC, UINT_MAX);
	ck_dat(ofi_connect_end(&rig));
	(void)ff_fail_left("epoll_ctl");
}

static bool eq_is_told(void)
{
	struct pollfd fd = { .fd = dev->eq_fd, .events = POLLIN };

	return poll(&fd, 1, 0) > 0;
}

/* The service thread does nothing meanwhile. */
static void expect_end_is_told(bool told)
{
	ofi_rig_lock(&rig);
	ff_disconnect_all();
	ck_assert_int_eq(eq_is_told(), told);
	ofi_rig_unlock(&rig);
}

static void expect_both_disconnected(void)
{
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(ofi_event(rig.conn_evd).event_number,
				 DAT_CONNECTION_EVENT_DISCONNECTED);
}

START_TEST(an_end_whose_socket_is_watched_is_not_signalled)
{
	DAT_EVENT event;

	tcp_open();
	tcp_connect(true);
	ofi_rig_lock(&rig);
	ff_disconnect_all();
	ck_assert(!eq_is_told());
	(void)progress_run(dev, true, false); /* one round finds both */
	for (unsigned i = 0; i < 2; i++)
		ck_dat(evd_dequeue(rig.conn_evd, &event));
	ofi_rig_unlock(&rig);
	ofi_rig_close(&rig);
}
END_TEST

/* A thread has shut the sockets down, and is preempted before it makes the events. */
START_TEST(an_end_that_follows_late_is_noticed)
{
	tcp_open();
	tcp_connect(true);
	ofi_rig_lock(&rig);
	ff_shut_all();
	(void)progress_run(dev, true, false);
	ofi_rig_unlock(&rig);
	expect_end_is_told(false);
	expect_both_disconnected();
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(an_end_whose_socket_is_not_watched_is_signalled)
{
	tcp_open();
	tcp_connect(false);
	expect_end_is_told(true);
	expect_both_disconnected();
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(ends_are_signalled_as_long_as_one_socket_is_not_watched)
{
	DAT_EP_HANDLE unwatched[2];

	tcp_open();
	tcp_connect(false);
	unwatched[0] = rig.active;
	unwatched[1] = rig.passive;
	ck_dat(ofi_eps_create(&rig));
	tcp_connect(true);
	ck_dat(ep_disconnect(rig.active, DAT_CLOSE_ABRUPT_FLAG));
	expect_both_disconnected();
	ck_dat(ep_free(rig.active));
	ck_dat(ep_free(rig.passive));
	expect_end_is_told(true);
	expect_both_disconnected();
	ck_dat(ep_free(unwatched[0]));
	ck_dat(ep_free(unwatched[1]));
	ck_dat(ofi_eps_create(&rig));
	tcp_connect(true);
	expect_end_is_told(false);
	expect_both_disconnected();
	ofi_rig_close(&rig);
}
END_TEST

/* With the last connection that is not watched: an event may have been made just before that. */
START_TEST(the_event_queue_is_read_once_more_when_its_signal_is_muted)
{
	unsigned calls;

	tcp_open();
	tcp_connect(false);
	ofi_rig_lock(&rig);
	ff_disconnect_all();
	calls = ff_calls("fi_eq_read");
	(void)eq_progress(dev);
	ck_assert_uint_eq(ff_calls("fi_eq_read"), calls + 2 + 1);
	(void)eq_progress(dev);
	ck_assert_uint_eq(ff_calls("fi_eq_read"), calls + 3 + 1);
	ofi_rig_unlock(&rig);
	expect_both_disconnected();
	ck_dat(ep_reset(rig.active));
	ck_dat(ep_reset(rig.passive));
	tcp_connect(true);
	expect_end_is_told(false);
	expect_both_disconnected();
	ofi_rig_close(&rig);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("signal"), *others = tcase_create("other descriptors");
	TCase *events = tcase_create("event queue");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_test(cases, who_polls_is_not_told_of_completions);
	tcase_add_test(cases, who_polls_now_and_then_is_told);
	tcase_add_test(cases, who_sleeps_after_polls_is_told);
	tcase_add_test(cases, who_sleeps_on_the_set_of_a_queue_is_told);
	tcase_add_test(cases, what_came_before_a_sleep_is_told);
	tcase_add_test(cases, who_sleeps_is_told_though_its_queue_was_polled);
	tcase_add_test(cases, for_who_sleeps_until_a_solicited_receive_the_service_thread_is_told);
	tcase_add_test(cases, the_service_thread_is_told_when_polls_have_ended);
	tcase_add_test(cases, what_came_during_polls_is_taken_in_when_they_have_ended);
	tcase_add_test(cases, a_poll_for_many_finds_what_nobody_was_told_of);
	tcase_add_test(cases, ends_beside_polls_read_the_queue_once);
	tcase_add_test(others, a_set_of_two_is_left_as_it_is);
	tcase_add_test(others, a_descriptor_that_is_no_set_is_left_as_it_is);
	tcase_add_test(others, a_set_of_another_provider_is_left_as_it_is);
	tcase_add_test(others, a_signal_that_has_left_the_set_is_not_waited_for);
	tcase_add_test(events, an_end_whose_socket_is_watched_is_not_signalled);
	tcase_add_test(events, an_end_that_follows_late_is_noticed);
	tcase_add_test(events, an_end_whose_socket_is_not_watched_is_signalled);
	tcase_add_test(events, ends_are_signalled_as_long_as_one_socket_is_not_watched);
	tcase_add_test(events, the_event_queue_is_read_once_more_when_its_signal_is_muted);
	return run_cases(argc, argv);
}
