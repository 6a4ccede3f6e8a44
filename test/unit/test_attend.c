/* SPDX-License-Identifier: BSD-2-Clause */
/* Who listens to the connection manager: the service thread, a thread that waits, or nobody. */
#include "harness.h"

/* ns, as in core/attend.c */
#define WAIT_TIME UINT64_C(2000000)
#define AWAY_TIME UINT64_C(2000000)

static struct side side;
static struct ia *ia;

static void setup(void)
{
	side_open(&side, "fake0");
	ia = side.ia;
	fake_clock_advance(AWAY_TIME); /* it has not begun to run just now */
}

static void teardown(void)
{
	ck_dat(ia_close(side.ia, DAT_CLOSE_ABRUPT_FLAG));
}

/* Does the service thread wake up for what the device reports? */
static bool service_listens(void)
{
	fake_wait_idle(0);
	return epoll_reports(ia->service.epoll, ia->service.dev_fds[0]);
}

/* ---- waits ---- */

static DAT_EVD_HANDLE conn_evd_create(void)
{
	DAT_EVD_HANDLE evd;

	ck_dat(evd_create(ia, 16, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &evd));
	return evd;
}

/* Connects to where nobody listens. The answer is on the wire until fake_step_cm delivers it. */
static void connect_in_vain(DAT_EVD_HANDLE evd)
{
	struct sockaddr_in to = side.address;
	DAT_EP_HANDLE ep;

	ck_dat(ep_create(ia, side.pz, side.recv_evd, side.request_evd, evd, NULL, &ep));
	ck_dat(ep_connect(ep, (DAT_IA_ADDRESS_PTR)&to, 4242, DAT_TIMEOUT_INFINITE, 0, NULL,
			  DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
}

static unsigned waiters; /* those that sleep */

static void waiter_begin(struct waiter *waiter, DAT_EVD_HANDLE evd)
{
	*waiter = (struct waiter){ .evd = evd, .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };
	waiter_start(waiter);
	fake_wait_idle(++waiters);
}

static void waiter_is_refused(struct waiter *waiter)
{
	ck_dat(waiter_join(waiter));
	waiters--;
	ck_assert_uint_eq(waiter->event.event_number, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
}

static void deliver_all(void)
{
	while (fake_step_cm())
		;
}

/* A wait that sleeps, and ends by an event of the connection manager. */
static void wait_once(DAT_EVD_HANDLE evd)
{
	struct waiter waiter;

	fake_hold_cm(true);
	connect_in_vain(evd);
	waiter_begin(&waiter, evd);
	fake_hold_cm(false);
	waiter_is_refused(&waiter);
}

/* Two such waits, one soon after the other. */
static void wait_twice(DAT_EVD_HANDLE evd)
{
	wait_once(evd);
	wait_once(evd);
}

START_TEST(a_thread_that_waits_handles_its_event_itself)
{
	struct waiter waiter;

	ck_assert(service_listens());
	fake_hold_cm(true);
	connect_in_vain(side.connect_evd);
	ck_assert(service_listens());
	waiter_begin(&waiter, side.connect_evd);
	ck_assert(!service_listens());
	fake_hold_cm(false);
	waiter_is_refused(&waiter);
	ck_assert(service_listens());
}
END_TEST

/* It does not wake itself up for that, so the next one that sleeps does so at once. */
START_TEST(a_wait_leaves_no_wake_up_to_the_next_one)
{
	struct waiter waiter;
	unsigned polls;

	wait_once(side.connect_evd);
	fake_wait_idle(0);
	polls = fake_polls();
	fake_hold_cm(true);
	waiter_begin(&waiter, side.connect_evd);
	ck_assert_uint_eq(fake_polls(), polls + 1);
	connect_in_vain(side.connect_evd);
	fake_hold_cm(false);
	waiter_is_refused(&waiter);
}
END_TEST

/* Nobody listens, so nobody has handled it. */
START_TEST(what_is_there_is_handled_before_a_wait_sleeps)
{
	DAT_COUNT nmore;
	DAT_EVENT event;
	unsigned polls;

	wait_twice(side.connect_evd);
	fake_hold_cm(true);
	connect_in_vain(side.connect_evd);
	fake_hold_cm(false);
	polls = fake_polls();
	ck_dat(evd_wait(side.connect_evd, DAT_TIMEOUT_INFINITE, 1, &event, &nmore));
	ck_assert_uint_eq(event.event_number, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	ck_assert_uint_eq(fake_polls(), polls);
}
END_TEST

START_TEST(a_wait_that_times_out_listens_no_more)
{
	struct waiter waiter = { .evd = side.connect_evd, .timeout = 1000, .threshold = 1 };

	waiter_start(&waiter);
	ck_assert(!service_listens());
	fake_clock_advance(1000000);
	ck_assert_int_eq(DAT_GET_TYPE(waiter_join(&waiter)), DAT_TIMEOUT_EXPIRED);
	ck_assert(service_listens());
}
END_TEST

/* The one that listens handles what the others wait for, too; when it has left, nobody is deaf. */
START_TEST(one_of_several_waiters_listens)
{
	DAT_EVD_HANDLE evds[3];
	struct waiter three[3];

	fake_hold_cm(true);
	for (unsigned n = 0; n < 3; n++) {
		evds[n] = conn_evd_create();
		waiter_begin(&three[n], evds[n]);
	}
	for (unsigned n = 2; n > 0; n--) {
		connect_in_vain(evds[n]);
		deliver_all();
		waiter_is_refused(&three[n]);
		ck_assert(!service_listens());
	}
	waiter_begin(&three[1], evds[1]);
	connect_in_vain(evds[0]);
	deliver_all();
	waiter_is_refused(&three[0]);
	ck_assert(service_listens());
	connect_in_vain(evds[1]);
	deliver_all();
	waiter_is_refused(&three[1]);
	ck_assert(service_listens());
	fake_hold_cm(false);
}
END_TEST

static void do_nothing(struct work *work)
{
	(void)work;
}

/* From here on the service thread leaves it to the waiter what both know of. */
static void service_thread_look(void)
{
	struct work work = { .run = do_nothing };

	service_queue_work(ia, &work);
	fake_wait_idle(1);
}

static void waiter_turn_away(struct waiter *waiter)
{
	ck_dat(evd_set_unwaitable(waiter->evd));
	(void)waiter_join(waiter);
}

/* One thread of the two wakes up for that. */
START_TEST(who_listens_wakes_up_when_the_device_is_due)
{
	const uint64_t began = tp_now();
	struct waiter waiter;
	unsigned calls, polls;

	fake_alarm(ia->dev, began + 1000);
	waiter_begin(&waiter, side.connect_evd);
	service_thread_look();
	calls = fake_calls("dev_progress");
	polls = fake_polls();
	fake_clock_advance(999);
	fake_wait_idle(1);
	ck_assert_uint_eq(fake_calls("dev_progress"), calls);
	fake_clock_advance(1);
	fake_wait_idle(1);
	ck_assert_uint_eq(fake_calls("dev_progress"), calls + 1);
	ck_assert_uint_eq(fake_polls(), polls + 1);
	/* what the waiter does not know, because another thread has set it */
	fake_alarm(ia->dev, began + 2000);
	fake_wait_idle(1);
	calls = fake_calls("dev_progress");
	fake_clock_advance(1000);
	fake_wait_idle(1);
	ck_assert_uint_eq(fake_calls("dev_progress"), calls + 1);
	waiter_turn_away(&waiter);
}
END_TEST

/* Who has known that leaves it to the service thread. */
START_TEST(the_device_is_due_when_a_waiter_has_left)
{
	struct waiter waiter;
	unsigned calls;

	fake_alarm(ia->dev, tp_now() + 5000);
	waiter_begin(&waiter, side.connect_evd);
	service_thread_look();
	waiter_turn_away(&waiter);
	fake_wait_idle(0);
	calls = fake_calls("dev_progress");
	fake_clock_advance(5000);
	fake_wait_idle(0);
	ck_assert_uint_eq(fake_calls("dev_progress"), calls + 1);
}
END_TEST

/* ---- a consumer that goes from wait to wait ---- */

START_TEST(nobody_listens_between_waits_for_a_while)
{
	wait_twice(side.connect_evd);
	ck_assert(!service_listens());
	connect_in_vain(side.connect_evd); /* a call does not change that */
	ck_assert(!service_listens());
	fake_clock_advance(AWAY_TIME - 1);
	ck_assert(!service_listens());
	fake_clock_advance(1);
	ck_assert(service_listens());
}
END_TEST

/* To wake up the service thread for that would take longer than the wait. */
START_TEST(the_device_may_be_late_while_nobody_listens)
{
	unsigned polls, calls;

	wait_twice(side.connect_evd);
	fake_wait_idle(0);
	polls = fake_polls();
	fake_alarm_next(ia->dev, tp_now() + AWAY_TIME / 4);
	connect_in_vain(side.connect_evd);
	fake_wait_idle(0);
	ck_assert_uint_eq(fake_polls(), polls);
	calls = fake_calls("dev_progress");
	fake_clock_advance(AWAY_TIME);
	fake_wait_idle(0);
	ck_assert_uint_eq(fake_calls("dev_progress"), calls + 1);
}
END_TEST

START_TEST(a_poll_that_ends_this_has_the_device_in_time)
{
	unsigned calls;
	DAT_EVENT event;

	wait_twice(side.connect_evd);
	fake_alarm_next(ia->dev, tp_now() + AWAY_TIME / 4);
	fake_hold_cm(true);
	connect_in_vain(side.connect_evd);
	ck_assert_int_eq(evd_dequeue(side.connect_evd, &event), DAT_QUEUE_EMPTY);
	fake_wait_idle(0);
	calls = fake_calls("dev_progress");
	fake_clock_advance(AWAY_TIME / 4);
	fake_wait_idle(0);
	ck_assert_uint_eq(fake_calls("dev_progress"), calls + 1);
	fake_hold_cm(false);
}
END_TEST

START_TEST(each_wait_makes_it_last)
{
	wait_twice(side.connect_evd);
	for (unsigned n = 0; n < 3; n++) {
		fake_clock_advance(AWAY_TIME - 1);
		ck_assert(!service_listens());
		wait_once(side.connect_evd);
		ck_assert(!service_listens());
	}
	fake_clock_advance(AWAY_TIME);
	ck_assert(service_listens());
	wait_once(side.connect_evd); /* this one is too late to follow another */
	ck_assert(service_listens());
}
END_TEST

/* Over tcp the descriptor has data, too, which a thread that sleeps is not to serve for long. */
START_TEST(a_long_wait_is_left_to_the_service_thread)
{
	struct waiter waiter;

	wait_twice(side.connect_evd);
	fake_hold_cm(true);
	connect_in_vain(side.connect_evd);
	waiter_begin(&waiter, side.connect_evd);
	fake_clock_advance(WAIT_TIME - 1);
	fake_wait_idle(1);
	ck_assert(!service_listens());
	fake_clock_advance(1);
	fake_wait_idle(1);
	ck_assert(service_listens());
	fake_limit_polls(3); /* neither thread wakes up any more */
	fake_clock_advance(100 * WAIT_TIME);
	fake_wait_idle(1);
	fake_limit_polls(1000);
	fake_hold_cm(false);
	waiter_is_refused(&waiter);
	ck_assert(service_listens());
	wait_once(side.connect_evd); /* which is no series */
	ck_assert(service_listens());
}
END_TEST

START_TEST(a_thread_listens_as_long_as_it_waits_where_no_data_come)
{
	struct waiter waiter;

	teardown();
	fake_attr()->caps &= ~(unsigned)TP_CAP_DATA_BESIDE;
	setup();
	wait_twice(side.connect_evd);
	fake_hold_cm(true);
	connect_in_vain(side.connect_evd);
	waiter_begin(&waiter, side.connect_evd);
	fake_clock_advance(100 * WAIT_TIME);
	fake_wait_idle(1);
	ck_assert(!service_listens());
	fake_hold_cm(false);
	waiter_is_refused(&waiter);
	ck_assert(service_listens()); /* that was no short one */
}
END_TEST

/* @waiter, which waits for completions, sleeps, and the service thread listens. It is expelled. */
static void service_listens_beside(struct waiter *waiter)
{
	fake_wait_idle(1);
	ck_assert(epoll_reports(ia->service.epoll, ia->service.dev_fds[0]));
	teardown();
	ck_assert_int_eq(DAT_GET_TYPE(waiter_join(waiter)), DAT_ABORT);
	setup();
}

START_TEST(beside_a_wait_for_completions_the_service_thread_listens)
{
	struct waiter waiter;

	waiter_begin(&waiter, side.recv_evd);
	wait_twice(side.connect_evd);
	service_listens_beside(&waiter);
}
END_TEST

START_TEST(a_wait_for_completions_has_the_service_thread_listen)
{
	struct waiter waiter;

	wait_twice(side.connect_evd);
	ck_assert(!service_listens());
	waiter_begin(&waiter, side.recv_evd);
	service_listens_beside(&waiter);
}
END_TEST

/* A poll that finds nothing is told as soon as possible of what comes. */
START_TEST(a_poll_has_the_service_thread_listen)
{
	DAT_EVENT event;
	DAT_COUNT more;

	wait_twice(side.connect_evd);
	ck_assert(!service_listens());
	if (_i)
		ck_assert_int_eq(evd_dequeue(side.connect_evd, &event), DAT_QUEUE_EMPTY);
	else
		ck_assert_int_eq(DAT_GET_TYPE(evd_wait(side.connect_evd, 0, 1, &event, &more)),
				 DAT_TIMEOUT_EXPIRED);
	ck_assert(service_listens());
}
END_TEST

/* What others wait for, who do not listen, comes at once. */
START_TEST(with_others_the_service_thread_listens)
{
	DAT_EVD_HANDLE other = DAT_HANDLE_NULL;
	DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
	struct waiter two[2];

	if (_i == 0)
		ck_dat(cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	else if (_i == 1)
		ck_dat(evd_create(ia, 16, DAT_HANDLE_NULL,
				  DAT_EVD_CONNECTION_FLAG | DAT_EVD_DTO_FLAG, &other));
	else
		other = conn_evd_create();
	if (_i == 2) { /* it begins while another thread listens */
		fake_hold_cm(true);
		waiter_begin(&two[0], side.connect_evd);
		waiter_begin(&two[1], other);
		connect_in_vain(side.connect_evd);
		fake_hold_cm(false);
		waiter_is_refused(&two[0]);
	}
	wait_twice(side.connect_evd);
	ck_assert(service_listens());
	if (_i == 0)
		ck_dat(cno_free(cno));
	else if (_i == 1)
		ck_dat(evd_free(other));
	else {
		connect_in_vain(other);
		waiter_is_refused(&two[1]);
	}
	wait_twice(side.connect_evd);
	ck_assert(!service_listens());
}
END_TEST

/* The thread that waits for it listens to the IA of its EVD. */
START_TEST(an_event_that_goes_to_another_ia_is_noticed_at_once)
{
	struct side other = { 0 };
	DAT_EP_HANDLE ep;

	side_open(&other, "fake1");
	ck_dat(ep_create(ia, side.pz, side.recv_evd, side.request_evd, other.connect_evd, NULL,
			 &ep));
	wait_twice(side.connect_evd);
	ck_assert(service_listens());
	ck_dat(ep_free(ep));
	wait_twice(side.connect_evd);
	ck_assert(!service_listens());
	side_close(&other);
}
END_TEST

/* ---- ends ---- */

static void *wait_cancelled(void *arg)
{
	DAT_EVENT event;
	DAT_COUNT more;

	(void)evd_wait(arg, DAT_TIMEOUT_INFINITE, 1, &event, &more);
	return NULL;
}

START_TEST(a_cancelled_thread_listens_no_more)
{
	pthread_t thread = consumer_thread_start(wait_cancelled, side.connect_evd);
	void *result;

	fake_wait_idle(1);
	ck_assert(!service_listens());
	ck_assert_int_eq(pthread_cancel(thread), 0);
	ck_assert_int_eq(pthread_join(thread, &result), 0);
	ck_assert_ptr_eq(result, PTHREAD_CANCELED);
	ck_assert(service_listens());
	wait_once(side.connect_evd);
}
END_TEST

START_TEST(a_thread_that_is_expelled_listens_no_more)
{
	struct waiter waiter;

	waiter_begin(&waiter, side.connect_evd);
	ck_dat(ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_int_eq(DAT_GET_TYPE(waiter_join(&waiter)), DAT_ABORT);
	setup();
}
END_TEST

/* The service thread reports that, and the thread goes on to sleep. */
START_TEST(a_device_that_is_removed_wakes_nobody_for_ever)
{
	struct waiter waiter;

	ck_dat(ia_close(side.ia, DAT_CLOSE_ABRUPT_FLAG));
	fake_quirks(FAKE_REMOVABLE);
	setup();
	waiter_begin(&waiter, side.connect_evd);
	fake_limit_polls(20);
	fake_remove(ia->dev, FAKE_DEV_FD);
	fake_wait_idle(1);
	ck_assert(ia->failed);
	ck_dat(ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_int_eq(DAT_GET_TYPE(waiter_join(&waiter)), DAT_ABORT);
	setup();
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("attend");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_test(cases, a_thread_that_waits_handles_its_event_itself);
	tcase_add_test(cases, a_wait_leaves_no_wake_up_to_the_next_one);
	tcase_add_test(cases, what_is_there_is_handled_before_a_wait_sleeps);
	tcase_add_test(cases, a_wait_that_times_out_listens_no_more);
	tcase_add_test(cases, one_of_several_waiters_listens);
	tcase_add_test(cases, who_listens_wakes_up_when_the_device_is_due);
	tcase_add_test(cases, the_device_is_due_when_a_waiter_has_left);
	tcase_add_test(cases, nobody_listens_between_waits_for_a_while);
	tcase_add_test(cases, the_device_may_be_late_while_nobody_listens);
	tcase_add_test(cases, a_poll_that_ends_this_has_the_device_in_time);
	tcase_add_test(cases, each_wait_makes_it_last);
	tcase_add_test(cases, a_long_wait_is_left_to_the_service_thread);
	tcase_add_test(cases, a_thread_listens_as_long_as_it_waits_where_no_data_come);
	tcase_add_test(cases, beside_a_wait_for_completions_the_service_thread_listens);
	tcase_add_test(cases, a_wait_for_completions_has_the_service_thread_listen);
	tcase_add_test(cases, an_event_that_goes_to_another_ia_is_noticed_at_once);
	tcase_add_loop_test(cases, a_poll_has_the_service_thread_listen, 0, 2);
	tcase_add_loop_test(cases, with_others_the_service_thread_listens, 0, 3);
	if (CAN_CANCEL_THREADS)
		tcase_add_test(cases, a_cancelled_thread_listens_no_more);
	tcase_add_test(cases, a_thread_that_is_expelled_listens_no_more);
	tcase_add_test(cases, a_device_that_is_removed_wakes_nobody_for_ever);
	return run_unit_cases(argc, argv);
}
