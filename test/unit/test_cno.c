/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Consumer notification objects: the latch, its waiters, proxy agents, and which events of an EVD
 * trigger them.
 */
#include <semaphore.h>
#include <signal.h>

#include "alloc.h"
#include "harness.h"
#include "race.h"

#define EMPTY	 ((DAT_RETURN)DAT_QUEUE_EMPTY) /* without a class, as dat_evd_dequeue returns it */
#define NO_AGENT DAT_OS_WAIT_PROXY_AGENT_NULL

static struct side side;
static struct pair pair;
static DAT_CNO_HANDLE cno;
static sem_t waiter_returned; /* posted by each waiter after its dat_cno_wait */

static void cno_setup_side(void)
{
	ck_assert_int_eq(sem_init(&waiter_returned, 0, 0), 0);
	side_open(&side, "fake0");
	ck_dat(cno_create(side.ia, NO_AGENT, &cno));
}

static DAT_EVD_HANDLE software_evd_on(DAT_CNO_HANDLE on)
{
	DAT_EVD_HANDLE evd;

	ck_dat(evd_create(side.ia, 16, on, DAT_EVD_SOFTWARE_FLAG, &evd));
	return evd;
}

/* The CNO must be triggered: returns the EVD, without a sleep. */
static DAT_EVD_HANDLE take_notification(void)
{
	DAT_EVD_HANDLE evd = POISON;

	ck_dat(cno_wait(cno, 0, &evd));
	return evd;
}

static void expect_no_notification(void)
{
	DAT_EVD_HANDLE evd = POISON;

	fake_wait_idle(0);
	ck_dat_is(cno_wait(cno, 0, &evd), EMPTY);
	ck_assert_ptr_eq(evd, DAT_HANDLE_NULL);
}

/* A thread that blocks in dat_cno_wait. */
struct cno_waiter {
	DAT_TIMEOUT timeout;
	DAT_RETURN ret;
	DAT_EVD_HANDLE evd;
	pthread_t thread;
};

static void *cno_waiter_main(void *arg)
{
	struct cno_waiter *waiter = arg;

	waiter->ret = cno_wait(cno, waiter->timeout, &waiter->evd);
	sem_post(&waiter_returned);
	return NULL;
}

/* Returns when @waiters_asleep waiters sleep, this one included. */
static void cno_waiter_start(struct cno_waiter *waiter, unsigned waiters_asleep)
{
	waiter->timeout = DAT_TIMEOUT_INFINITE;
	waiter->evd = POISON;
	waiter->thread = consumer_thread_start(cno_waiter_main, waiter);
	fake_wait_idle(waiters_asleep);
}

static DAT_EVD_HANDLE cno_waiter_join(struct cno_waiter *waiter)
{
	consumer_thread_join(waiter->thread);
	ck_dat(waiter->ret);
	return waiter->evd;
}

/* ---- create, query, free ---- */

#if DAT_EDITION == 2
/* The CNO has that agent, of which a query tells; without a function it has none. */
static void expect_agent(const DAT_CNO_PARAM *param, DAT_AGENT_FUNC function, DAT_PVOID data)
{
	if (!function) {
		ck_assert_int_eq(param->proxy_type, DAT_PROXY_TYPE_NONE);
		ck_assert_ptr_null(param->proxy.none);
		return;
	}
	ck_assert_int_eq(param->proxy_type, DAT_PROXY_TYPE_AGENT);
	ck_assert(param->proxy.agent.proxy_agent_func == function);
	ck_assert_ptr_eq(param->proxy.agent.instance_data, data);
}
#else
static void expect_agent(const DAT_CNO_PARAM *param, DAT_AGENT_FUNC function, DAT_PVOID data)
{
	ck_assert(param->agent.proxy_agent_func == function);
	if (function)
		ck_assert_ptr_eq(param->agent.instance_data, data);
}
#endif

START_TEST(cno_create_and_query_check_their_arguments)
{
	DAT_OS_WAIT_PROXY_AGENT agent = { .instance_data = &side, .proxy_agent_func = NULL };
	DAT_CNO_HANDLE other = POISON;
	DAT_CNO_PARAM param;

	ck_dat_is(cno_create(side.pz, agent, &other), BAD_HANDLE(IA));
	ck_dat_is(cno_create(side.ia, agent, NULL), BAD_ARG(3));
	ck_assert_ptr_eq(other, POISON);
	ck_dat(cno_create(side.ia, agent, &other)); /* data without a function is no agent */
	ck_dat(cno_query(other, DAT_CNO_FIELD_ALL, &param));
	ck_assert_ptr_eq(param.ia_handle, side.ia);
	expect_agent(&param, NULL, NULL);
	ck_dat(cno_query(other, 0, &param));
	ck_dat_is(cno_query(other, 0, NULL), BAD_ARG(3));
	ck_dat(cno_query(other, 0x1000, &param));
	ck_dat(cno_free(other));
	ck_dat_is(cno_free(other), BAD_HANDLE(CNO));
}
END_TEST

/* The slab of the objects has to grow several times. */
START_TEST(cno_create_without_memory_changes_nothing)
{
	DAT_CNO_HANDLE others[40];
	DAT_RETURN ret;

	for (int i = 0; i < COUNT(others); i++) {
		unsigned cnos = obj_count(side.ia, DAT_HANDLE_TYPE_CNO), n = 1;

		others[i] = POISON;
		for (; alloc_fail_nth(n), ret = cno_create(side.ia, NO_AGENT, &others[i]),
					  alloc_failed();
		     n++) {
			ck_dat_is(ret, NO_RESOURCE(MEMORY));
			ck_assert_ptr_eq(others[i], POISON);
			ck_assert_uint_eq(obj_count(side.ia, DAT_HANDLE_TYPE_CNO), cnos);
		}
		ck_dat(ret);
	}
	for (int i = 0; i < COUNT(others); i++)
		ck_dat(cno_free(others[i]));
}
END_TEST

START_TEST(cno_free_is_refused_while_in_use)
{
	DAT_EVD_HANDLE evd = software_evd_on(cno);
	struct cno_waiter waiter;

	ck_dat_is(cno_free(cno), BAD_STATE(CNO_IN_USE));
	ck_dat(evd_modify_cno(evd, DAT_HANDLE_NULL));
	cno_waiter_start(&waiter, 1);
	ck_dat_is(cno_free(cno), BAD_STATE(CNO_IN_USE));
	ck_dat(evd_modify_cno(evd, cno)); /* to wake up the waiter */
	post_se(evd, 1);
	ck_assert_ptr_eq(cno_waiter_join(&waiter), evd);
	ck_dat(evd_modify_cno(evd, DAT_HANDLE_NULL));
	ck_dat(cno_free(cno));
	expect_se(evd, 1);
}
END_TEST

/* ---- the latch ---- */

START_TEST(triggers_until_the_next_wait_are_one_notification)
{
	DAT_EVD_HANDLE first = software_evd_on(cno), second = software_evd_on(cno);

	expect_no_notification();
	post_se(first, 1);
	post_se(second, 2);
	post_se(first, 3);
	ck_assert_ptr_eq(take_notification(), first);
	expect_no_notification();
	post_se(second, 4);
	ck_assert_ptr_eq(take_notification(), second);
	expect_no_notification();
	ck_dat_is(cno_wait(cno, 0, NULL), BAD_ARG(3));
}
END_TEST

static const DAT_TIMEOUT timeouts[] = { 0, 1, SECONDS(1), SECONDS(4000), DAT_TIMEOUT_INFINITE - 1 };

START_TEST(cno_wait_times_out_exactly)
{
	uint64_t began = tp_now();
	DAT_EVD_HANDLE evd = POISON;

	ck_dat_is(cno_wait(cno, timeouts[_i], &evd), EMPTY);
	ck_assert_ptr_eq(evd, DAT_HANDLE_NULL);
	ck_assert_uint_eq(tp_now() - began, (uint64_t)timeouts[_i] * 1000);
}
END_TEST

START_TEST(a_trigger_wakes_a_waiter)
{
	DAT_EVD_HANDLE evd = software_evd_on(cno);
	struct cno_waiter waiter;

	cno_waiter_start(&waiter, 1);
	post_se(evd, 1);
	ck_assert_ptr_eq(cno_waiter_join(&waiter), evd);
	expect_no_notification();
}
END_TEST

/* Each time the one that has waited longest. */
START_TEST(one_trigger_wakes_one_waiter)
{
	DAT_EVD_HANDLE evd = software_evd_on(cno);
	struct cno_waiter waiters[3];

	for (int n = 0; n < COUNT(waiters); n++)
		cno_waiter_start(&waiters[n], (unsigned)n + 1);
	for (unsigned asleep = COUNT(waiters); asleep > 0; asleep--) {
		post_se(evd, 1);
		while (sem_wait(&waiter_returned) < 0)
			;
		fake_wait_idle(asleep - 1);
		ck_assert_int_ne(sem_trywait(&waiter_returned), 0);
		ck_assert_ptr_eq(waiters[COUNT(waiters) - asleep].evd, evd);
		expect_no_notification();
	}
	for (int n = 0; n < COUNT(waiters); n++)
		ck_assert_ptr_eq(cno_waiter_join(&waiters[n]), evd);
}
END_TEST

static bool has_sleeper(void)
{
	struct cno *of = cno;
	bool has;

	spin_lock(&of->lock);
	has = of->wait_list;
	spin_unlock(&of->lock);
	return has;
}

static void post_an_event(void *evd)
{
	post_se(evd, 1);
}

/* The trigger comes when it has seen none, and does not sleep any more. */
START_TEST(a_wait_that_times_out_takes_no_trigger_from_another)
{
	struct cno_waiter first = { .timeout = SECONDS(1) }, second;
	DAT_EVD_HANDLE evd = software_evd_on(cno);

	first.thread = consumer_thread_start(cno_waiter_main, &first);
	fake_wait_idle(1);
	cno_waiter_start(&second, 2);
	race_call(RACE_AWAKE, cno, post_an_event, evd);
	fake_clock_advance(UINT64_C(1000000000));
	consumer_thread_join(first.thread);
	ck_assert(race_happened(RACE_AWAKE));
	ck_dat_is(first.ret, EMPTY);
	ck_assert(!has_sleeper());
	ck_assert_ptr_eq(cno_waiter_join(&second), evd);
	expect_no_notification();
}
END_TEST

static volatile sig_atomic_t signals;

static void cno_count_signal(int number)
{
	(void)number;
	signals++;
}

START_TEST(a_signal_interrupts_a_cno_wait)
{
	const struct sigaction action = { .sa_handler = cno_count_signal, .sa_flags = SA_RESTART };
	struct cno_waiter waiter;

	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	cno_waiter_start(&waiter, 1);
	ck_assert_int_eq(pthread_kill(waiter.thread, SIGUSR1), 0);
	consumer_thread_join(waiter.thread);
	ck_dat_is(waiter.ret, DAT_ERROR(DAT_INTERRUPTED_CALL, 0));
	ck_assert_int_eq(signals, 1);
	ck_dat(cno_free(cno)); /* the CNO has no waiter any more */
}
END_TEST

START_TEST(only_a_wait_that_sleeps_needs_a_descriptor)
{
	DAT_EVD_HANDLE evd = software_evd_on(cno), hint = POISON;

	limit_descriptors(0);
	ck_dat_is(cno_wait(cno, DAT_TIMEOUT_INFINITE, &hint), NO_RESOURCE(MEMORY));
	ck_assert_ptr_eq(hint, POISON);
	post_se(evd, 1);
	/* a CNO that is triggered returns without a sleep */
	ck_dat(cno_wait(cno, DAT_TIMEOUT_INFINITE, &hint));
	ck_assert_ptr_eq(hint, evd);
	limit_descriptors(20);
}
END_TEST

/* ---- cancellation ---- */

static const int cancel_types[] = { PTHREAD_CANCEL_DEFERRED, PTHREAD_CANCEL_ASYNCHRONOUS };

struct cancelled_waiter {
	struct cno_waiter waiter;
	int type, state; /* of cancellation */
	int type_after, state_after;
};

static void *cancelled_waiter_main(void *arg)
{
	struct cancelled_waiter *thread = arg;

	pthread_setcancelstate(thread->state, NULL);
	pthread_setcanceltype(thread->type, NULL);
	thread->waiter.ret = cno_wait(cno, DAT_TIMEOUT_INFINITE, &thread->waiter.evd);
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &thread->type_after);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &thread->state_after);
	return NULL;
}

static void cancelled_waiter_start(struct cancelled_waiter *thread, unsigned waiters_asleep)
{
	thread->waiter.evd = POISON;
	thread->waiter.thread = consumer_thread_start(cancelled_waiter_main, thread);
	fake_wait_idle(waiters_asleep);
}

START_TEST(a_cancelled_cno_wait_leaves_the_cno_as_if_it_had_returned)
{
	struct cancelled_waiter thread = { .type = cancel_types[_i] };
	DAT_EVD_HANDLE evd = software_evd_on(cno);

	for (int n = 0; n < 3; n++) {
		cancelled_waiter_start(&thread, 1);
		ck_assert_int_eq(pthread_cancel(thread.waiter.thread), 0);
		ck_assert_ptr_eq(consumer_thread_join(thread.waiter.thread), PTHREAD_CANCELED);
		ck_assert_ptr_null(((struct cno *)cno)->wait_list);
		expect_no_notification();
	}
	post_se(evd, 1);
	ck_assert_ptr_eq(take_notification(), evd);
	ck_dat(evd_free(evd));
	ck_dat(cno_free(cno)); /* it has no waiter */
}
END_TEST

START_TEST(a_cno_wait_keeps_the_cancellation_state_of_its_thread)
{
	struct cancelled_waiter thread = { .type = cancel_types[_i & 1],
					   .state = _i & 2 ? PTHREAD_CANCEL_DISABLE
							   : PTHREAD_CANCEL_ENABLE };
	DAT_EVD_HANDLE evd = software_evd_on(cno);

	cancelled_waiter_start(&thread, 1);
	if (thread.state == PTHREAD_CANCEL_DISABLE) {
		ck_assert_int_eq(pthread_cancel(thread.waiter.thread), 0);
		fake_wait_idle(1); /* it still sleeps */
	}
	post_se(evd, 1);
	ck_assert_ptr_null(consumer_thread_join(thread.waiter.thread));
	ck_dat(thread.waiter.ret);
	ck_assert_ptr_eq(thread.waiter.evd, evd);
	ck_assert_int_eq(thread.state_after, thread.state);
	ck_assert_int_eq(thread.type_after, thread.type);
}
END_TEST

/*
 * One waiter is woken up and cancelled at once. If it does not take the notification, another one
 * does, or, if there is none, the CNO keeps it.
 */
START_TEST(a_cancelled_waiter_passes_its_trigger_on)
{
	struct cancelled_waiter thread = { .type = PTHREAD_CANCEL_DEFERRED };
	DAT_EVD_HANDLE evd = software_evd_on(cno);
	struct cno_waiter other;
	const bool alone = _i;

	for (int n = 0; n < 100; n++) {
		cancelled_waiter_start(&thread, 1); /* the first in the list */
		if (!alone)
			cno_waiter_start(&other, 2);
		if (n & 1)
			ck_assert_int_eq(pthread_cancel(thread.waiter.thread), 0);
		post_se(evd, 1);
		if (!(n & 1))
			ck_assert_int_eq(pthread_cancel(thread.waiter.thread), 0);
		if (consumer_thread_join(thread.waiter.thread) != PTHREAD_CANCELED) {
			ck_dat(thread.waiter.ret);
			ck_assert_ptr_eq(thread.waiter.evd, evd);
			if (!alone)
				post_se(evd, 2); /* for the other */
		} else if (alone) {
			ck_assert_ptr_eq(take_notification(), evd);
		}
		if (!alone)
			ck_assert_ptr_eq(cno_waiter_join(&other), evd);
		expect_no_notification();
		while (evd_dequeue(evd, &(DAT_EVENT){ 0 }) == DAT_SUCCESS)
			;
	}
	ck_dat(evd_free(evd));
	ck_dat(cno_free(cno));
}
END_TEST

START_TEST(a_waiter_may_be_cancelled_while_its_cno_is_destroyed)
{
	struct cancelled_waiter thread = { .type = cancel_types[_i & 1] };

	cancelled_waiter_start(&thread, 1);
	ck_assert_int_eq(pthread_cancel(thread.waiter.thread), 0);
	ck_dat(ia_close(side.ia, DAT_CLOSE_ABRUPT_FLAG));
	if (consumer_thread_join(thread.waiter.thread) != PTHREAD_CANCELED) {
		ck_dat(thread.waiter.ret);
		ck_assert_ptr_null(thread.waiter.evd);
	}
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

/* ---- freeing, detaching, closing ---- */

START_TEST(freeing_the_last_evd_wakes_all_waiters)
{
	DAT_EVD_HANDLE first = software_evd_on(cno), last = software_evd_on(cno);
	struct cno_waiter waiters[2];

	for (int n = 0; n < COUNT(waiters); n++)
		cno_waiter_start(&waiters[n], (unsigned)n + 1);
	ck_dat(evd_free(first));
	fake_wait_idle(COUNT(waiters));
	ck_dat(evd_free(last));
	for (int n = 0; n < COUNT(waiters); n++)
		ck_assert_ptr_eq(cno_waiter_join(&waiters[n]), DAT_HANDLE_NULL);
	expect_no_notification(); /* the latch is not set for a later waiter */
	ck_dat(cno_free(cno));
}
END_TEST

START_TEST(detaching_the_last_evd_wakes_no_waiter)
{
	DAT_EVD_HANDLE evd = software_evd_on(cno);
	struct cno_waiter waiter;

	cno_waiter_start(&waiter, 1);
	ck_dat(evd_modify_cno(evd, DAT_HANDLE_NULL));
	fake_wait_idle(1);
	ck_dat(evd_modify_cno(evd, cno));
	fake_wait_idle(1);
	post_se(evd, 1);
	ck_assert_ptr_eq(cno_waiter_join(&waiter), evd);
}
END_TEST

START_TEST(an_abrupt_close_wakes_all_cno_waiters)
{
	struct cno_waiter waiters[2];

	software_evd_on(cno);
	for (int n = 0; n < COUNT(waiters); n++)
		cno_waiter_start(&waiters[n], (unsigned)n + 1);
	ck_dat(ia_close(side.ia, DAT_CLOSE_ABRUPT_FLAG));
	for (int n = 0; n < COUNT(waiters); n++)
		ck_assert_ptr_eq(cno_waiter_join(&waiters[n]), DAT_HANDLE_NULL);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

START_TEST(a_freed_evd_is_not_reported)
{
	DAT_EVD_HANDLE removed = software_evd_on(cno), kept = software_evd_on(cno);

	post_se(removed, 1);
	ck_dat(evd_free(removed));
	expect_no_notification();
	post_se(kept, 2);
	ck_assert_ptr_eq(take_notification(), kept);
}
END_TEST

/* The EVD that triggered while the latch was set must be reported when the other one is removed. */
START_TEST(removing_an_evd_keeps_the_trigger_of_another)
{
	DAT_EVD_HANDLE removed = software_evd_on(cno), kept = software_evd_on(cno);

	post_se(removed, 1);
	post_se(kept, 2);
	if (_i)
		ck_dat(evd_free(removed));
	else
		ck_dat(evd_modify_cno(removed, DAT_HANDLE_NULL));
	ck_assert_ptr_eq(take_notification(), kept);
}
END_TEST

/* ---- which events trigger ---- */

START_TEST(a_disabled_evd_does_not_trigger)
{
	DAT_EVD_HANDLE evd = software_evd_on(cno);

	ck_dat(evd_disable(evd));
	post_se(evd, 1);
	expect_no_notification();
	ck_dat(evd_enable(evd)); /* with a queued event */
	ck_assert_ptr_eq(take_notification(), evd);
	expect_no_notification();
	ck_dat(evd_enable(evd)); /* it is enabled: no new trigger */
	expect_no_notification();
	expect_se(evd, 1);
	ck_dat(evd_disable(evd));
	ck_dat(evd_enable(evd)); /* with an empty queue */
	expect_no_notification();
}
END_TEST

START_TEST(attaching_an_evd_with_queued_events_triggers)
{
	DAT_EVD_HANDLE evd = software_evd_on(DAT_HANDLE_NULL);
	DAT_CNO_HANDLE before;

	ck_dat(evd_modify_cno(evd, cno));
	expect_no_notification();
	post_se(evd, 1);
	ck_assert_ptr_eq(take_notification(), evd);
	before = cno;
	ck_dat(cno_create(side.ia, NO_AGENT, &cno));
	ck_dat(evd_modify_cno(evd, cno));
	ck_assert_ptr_eq(take_notification(), evd);
	post_se(evd, 2);
	ck_assert_ptr_eq(take_notification(), evd);
	ck_dat(cno_free(before)); /* no EVD is attached to it any more */
	ck_dat(evd_disable(evd));
	ck_dat(evd_modify_cno(evd, DAT_HANDLE_NULL));
	ck_dat(evd_modify_cno(evd, cno)); /* disabled: no trigger */
	expect_no_notification();
}
END_TEST

START_TEST(modifying_an_evd_to_its_own_cno_changes_nothing)
{
	DAT_EVD_HANDLE evd = software_evd_on(cno), other = software_evd_on(cno);

	post_se(evd, 1);
	post_se(other, 2);
	ck_dat(evd_modify_cno(evd, cno));
	ck_assert_ptr_eq(take_notification(), evd);
	ck_dat(evd_modify_cno(evd, cno)); /* its event was told */
	expect_no_notification();
	ck_dat(evd_modify_cno(evd, DAT_HANDLE_NULL));
	ck_dat(evd_modify_cno(evd, DAT_HANDLE_NULL));
	ck_dat(evd_free(other));
	ck_dat(cno_free(cno));
}
END_TEST

static DAT_CNO_HANDLE other_cno;

/* Returns an EVD that @of has in its latch. */
static DAT_EVD_HANDLE latch_cno(DAT_CNO_HANDLE of)
{
	DAT_EVD_HANDLE evd;

	ck_dat(evd_create(((struct obj *)of)->ia, 16, of, DAT_EVD_SOFTWARE_FLAG, &evd));
	post_se(evd, 1);
	return evd;
}

static DAT_EVD_HANDLE latch_other_cno(DAT_IA_HANDLE ia)
{
	ck_dat(cno_create(ia, NO_AGENT, &other_cno));
	return latch_cno(other_cno);
}

/* The new CNO is latched by another EVD. */
START_TEST(an_event_during_a_change_of_cno_is_for_the_new_one)
{
	DAT_EVD_HANDLE latched = latch_other_cno(side.ia), evd = software_evd_on(cno);

	race_call(RACE_CNO, evd, post_an_event, evd);
	ck_dat(evd_modify_cno(evd, other_cno));
	ck_assert(race_happened(RACE_CNO));
	expect_no_notification();
	cno = other_cno;
	ck_dat(evd_free(latched));
	ck_assert_ptr_eq(take_notification(), evd);
	ck_dat(evd_free(evd));
	expect_no_notification();
	ck_dat(cno_free(cno));
}
END_TEST

START_TEST(events_for_an_evd_waiter_do_not_trigger)
{
	struct waiter waiter = { .evd = software_evd_on(cno),
				 .timeout = DAT_TIMEOUT_INFINITE,
				 .threshold = 2 };

	waiter_start(&waiter);
	post_se(waiter.evd, 1);
	post_se(waiter.evd, 2);
	ck_dat(waiter_join(&waiter));
	/* nor for the event that is still queued: the waiter's nmore counted it */
	expect_no_notification();
	post_se(waiter.evd, 3);
	ck_assert_ptr_eq(take_notification(), waiter.evd);
}
END_TEST

START_TEST(an_unwaitable_evd_triggers)
{
	DAT_EVD_HANDLE evd = software_evd_on(cno);

	ck_dat(evd_set_unwaitable(evd));
	post_se(evd, 1);
	ck_assert_ptr_eq(take_notification(), evd);
}
END_TEST

/* ---- agents ---- */

static struct {
	unsigned calls;
	void *data;
	DAT_EVD_HANDLE evd;
	unsigned rearm;
} seen;

static void record_agent_call(DAT_PVOID data, DAT_EVD_HANDLE evd);

static DAT_OS_WAIT_PROXY_AGENT agent_for(void *data)
{
	return (DAT_OS_WAIT_PROXY_AGENT){ .instance_data = data,
					  .proxy_agent_func = record_agent_call };
}

static void record_agent_call(DAT_PVOID data, DAT_EVD_HANDLE evd)
{
	seen.calls++;
	seen.data = data;
	seen.evd = evd;
	if (seen.rearm > 0) {
		seen.rearm--;
		ck_dat(cno_modify_agent(cno, agent_for(data)));
	}
}

static void expect_agent_calls(unsigned calls, DAT_EVD_HANDLE evd)
{
	fake_wait_idle(0);
	ck_assert_uint_eq(seen.calls, calls);
	ck_assert_ptr_eq(seen.evd, evd);
}

START_TEST(an_agent_is_called_once)
{
	DAT_EVD_HANDLE evd = software_evd_on(cno);
	DAT_CNO_PARAM param;

	ck_dat(cno_modify_agent(cno, agent_for(&pair)));
	ck_dat(cno_query(cno, DAT_CNO_FIELD_ALL, &param));
	expect_agent(&param, record_agent_call, &pair);
	post_se(evd, 1);
	expect_agent_calls(1, evd);
	ck_assert_ptr_eq(seen.data, &pair);
	ck_dat(cno_query(cno, DAT_CNO_FIELD_ALL, &param));
	expect_agent(&param, NULL, NULL);
	post_se(evd, 2);
	expect_agent_calls(1, evd);
	ck_assert_ptr_eq(take_notification(), evd); /* the agent does not replace the latch */
}
END_TEST

START_TEST(an_agent_given_at_create_is_called)
{
	DAT_EVD_HANDLE evd;

	ck_dat(cno_create(side.ia, agent_for(&side), &cno));
	evd = software_evd_on(cno);
	expect_agent_calls(0, DAT_HANDLE_NULL);
	post_se(evd, 1);
	expect_agent_calls(1, evd);
}
END_TEST

START_TEST(an_agent_is_called_even_if_the_latch_is_set)
{
	DAT_EVD_HANDLE first = software_evd_on(cno), second = software_evd_on(cno);

	post_se(first, 1);
	ck_dat(cno_modify_agent(cno, agent_for(NULL)));
	expect_agent_calls(0, DAT_HANDLE_NULL); /* not for an earlier trigger */
	post_se(second, 1);
	expect_agent_calls(1, second);
	ck_assert_ptr_eq(take_notification(), first);
}
END_TEST

START_TEST(an_agent_may_set_itself_again)
{
	DAT_EVD_HANDLE evd = software_evd_on(cno);

	seen.rearm = 2;
	ck_dat(cno_modify_agent(cno, agent_for(NULL)));
	for (unsigned n = 1; n <= 5; n++) {
		post_se(evd, n);
		expect_agent_calls(n < 3 ? n : 3, evd);
	}
}
END_TEST

START_TEST(a_removed_agent_is_not_called)
{
	DAT_EVD_HANDLE evd = software_evd_on(cno);

	ck_dat(cno_modify_agent(cno, agent_for(NULL)));
	ck_dat(cno_modify_agent(cno, NO_AGENT));
	post_se(evd, 1);
	expect_agent_calls(0, DAT_HANDLE_NULL);
}
END_TEST

/*
 * The service thread can't call the agent while this thread holds the lock, so the EVD is destroyed
 * before the call.
 */
START_TEST(an_agent_stays_set_if_its_evd_is_destroyed_before_the_call)
{
	CANCEL_FORBIDDEN;
	DAT_EVD_HANDLE first = software_evd_on(cno), second = software_evd_on(cno);
	struct ia *ia = side.ia;

	ck_dat(cno_modify_agent(cno, agent_for(NULL)));
	mutex_lock(&ia->lock);
	post_se(first, 1);
	ck_assert(obj_retire(first));
	evd_destroy_locked(first);
	mutex_unlock(&ia->lock);
	expect_agent_calls(0, DAT_HANDLE_NULL);
	post_se(second, 1);
	expect_agent_calls(1, second);
}
END_TEST

/* This runs on the service thread, which cannot call the CNO's agent meanwhile. */
static void trigger_and_replace_agent(DAT_PVOID triggered, DAT_EVD_HANDLE evd)
{
	(void)evd;
	post_se(triggered, 1);
	ck_dat(cno_modify_agent(cno, agent_for(triggered)));
}

START_TEST(an_agent_is_not_called_for_a_trigger_of_the_one_before)
{
	DAT_OS_WAIT_PROXY_AGENT agent = { .proxy_agent_func = trigger_and_replace_agent };
	DAT_EVD_HANDLE evd = software_evd_on(cno);
	DAT_CNO_HANDLE other;

	ck_dat(cno_modify_agent(cno, agent_for(NULL)));
	agent.instance_data = evd;
	ck_dat(cno_create(side.ia, agent, &other));
	post_se(software_evd_on(other), 1);
	expect_agent_calls(0, DAT_HANDLE_NULL);
	post_se(evd, 2);
	expect_agent_calls(1, evd);
}
END_TEST

/* Two EVDs have triggered the agent before it runs, which the one that is destroyed was to name. */
START_TEST(an_agent_is_called_for_the_other_evd_if_one_is_destroyed_before_the_call)
{
	CANCEL_FORBIDDEN;
	DAT_EVD_HANDLE first = software_evd_on(cno), second = software_evd_on(cno);
	struct evd *destroyed = _i ? first : second;
	struct ia *ia = side.ia;

	ck_dat(cno_modify_agent(cno, agent_for(NULL)));
	mutex_lock(&ia->lock);
	post_se(first, 1);
	post_se(second, 1);
	ck_assert(obj_retire(&destroyed->obj));
	evd_destroy_locked(destroyed);
	mutex_unlock(&ia->lock);
	expect_agent_calls(1, _i ? second : first);
}
END_TEST

/*
 * The agent runs when the caller lets it: until then the service thread is busy with that of
 * another CNO, which came first.
 */
static void wait_for_sem(DAT_PVOID sem, DAT_EVD_HANDLE evd)
{
	(void)evd;
	ck_assert_int_eq(sem_wait(sem), 0);
}

static void hold_agents(sem_t *until)
{
	DAT_OS_WAIT_PROXY_AGENT agent = { .instance_data = until,
					  .proxy_agent_func = wait_for_sem };
	DAT_CNO_HANDLE other;

	ck_assert_int_eq(sem_init(until, 0, 0), 0);
	ck_dat(cno_create(side.ia, agent, &other));
	post_se(software_evd_on(other), 1);
}

/* Of the trigger that is left there is no latch any more (1), or no event (2). */
START_TEST(a_later_evd_that_is_freed_takes_no_call_of_an_agent_along)
{
	DAT_EVD_HANDLE first = software_evd_on(cno), second = software_evd_on(cno);
	sem_t release;

	ck_dat(cno_modify_agent(cno, agent_for(NULL)));
	hold_agents(&release);
	post_se(first, 1);
	if (_i & 1)
		ck_assert_ptr_eq(take_notification(), first);
	if (_i & 2)
		expect_se(first, 1);
	post_se(second, 1);
	ck_dat(evd_free(second));
	sem_post(&release);
	expect_agent_calls(1, first);
}
END_TEST

START_TEST(an_agent_is_told_the_latest_trigger_of_evds_that_are_left)
{
	static const struct {
		unsigned freed; /* bits of the EVDs */
		unsigned told;
	} cases[] = { { 0, 0 }, { 1 << 0, 2 }, { 1 << 1, 0 }, { 1 << 2, 0 }, { 5, 1 }, { 6, 0 } };
	static const unsigned triggers[] = { 0, 1, 2, 0 };
	DAT_EVD_HANDLE evds[3];
	sem_t release;

	for (unsigned i = 0; i < COUNT(evds); i++)
		evds[i] = software_evd_on(cno);
	ck_dat(cno_modify_agent(cno, agent_for(NULL)));
	hold_agents(&release);
	for (unsigned i = 0; i < COUNT(triggers); i++)
		post_se(evds[triggers[i]], i);
	for (unsigned i = COUNT(evds); i-- > 0;)
		if (cases[_i].freed & 1u << i)
			ck_dat(evd_free(evds[i]));
	sem_post(&release);
	expect_agent_calls(1, evds[cases[_i].told]);
}
END_TEST

/* It is set again after it was called (0), or before it was, by the consumer (1). */
START_TEST(an_agent_that_is_set_again_is_called_for_no_earlier_trigger)
{
	DAT_EVD_HANDLE first = software_evd_on(cno), second = software_evd_on(cno);
	sem_t release;

	ck_dat(cno_modify_agent(cno, agent_for(NULL)));
	if (_i == 1)
		hold_agents(&release);
	post_se(first, 1);
	if (_i == 0) {
		expect_agent_calls(1, first);
		hold_agents(&release);
	}
	ck_dat(cno_modify_agent(cno, agent_for(NULL)));
	post_se(second, 1);
	ck_dat(evd_free(second));
	sem_post(&release);
	fake_wait_idle(0);
	ck_assert_uint_eq(seen.calls, _i == 0);
	post_se(first, 2);
	fake_wait_idle(0);
	ck_assert_uint_eq(seen.calls, 1 + (_i == 0));
}
END_TEST

START_TEST(freeing_the_last_evd_calls_the_agent)
{
	DAT_EVD_HANDLE evd = software_evd_on(cno);

	seen.evd = POISON;
	ck_dat(cno_modify_agent(cno, agent_for(NULL)));
	ck_dat(evd_free(evd));
	expect_agent_calls(1, DAT_HANDLE_NULL);
}
END_TEST

/* The one that came has triggered the CNO: if it stays (1), it is named in that one call. */
START_TEST(an_agent_is_told_that_the_last_evd_is_gone_though_another_came)
{
	DAT_EVD_HANDLE evd = software_evd_on(cno);
	sem_t release;

	seen.evd = POISON;
	ck_dat(cno_modify_agent(cno, agent_for(NULL)));
	hold_agents(&release);
	ck_dat(evd_free(evd));
	evd = software_evd_on(cno);
	post_se(evd, 1);
	if (_i == 0)
		ck_dat(evd_modify_cno(evd, DAT_HANDLE_NULL));
	sem_post(&release);
	expect_agent_calls(1, _i ? evd : DAT_HANDLE_NULL);
}
END_TEST

/* ---- completions ---- */

static void attach_client_evds(void)
{
	ck_dat(evd_modify_cno(pair.client.recv_evd, cno));
	ck_dat(evd_modify_cno(pair.client.request_evd, cno));
	for (unsigned n = 0; n < 8; n++) {
		post_recv(&pair.client, n, n * 64, 64, DAT_COMPLETION_DEFAULT_FLAG);
		post_recv(&pair.server, n, n * 64, 64, DAT_COMPLETION_DEFAULT_FLAG);
	}
}

static void cno_setup_pair(void)
{
	ck_assert_int_eq(sem_init(&waiter_returned, 0, 0), 0);
	pair_connect(&pair);
	ck_dat(cno_create(pair.client.ia, NO_AGENT, &cno));
}

static void send_from_server(void)
{
	post_send(&pair.server, 0, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
	fake_wait_idle(0);
}

START_TEST(completions_trigger_the_cno)
{
	struct cno_waiter waiter;

	attach_client_evds();
	send_from_server();
	ck_assert_ptr_eq(take_notification(), pair.client.recv_evd);
	cno_waiter_start(&waiter, 1);
	post_send(&pair.client, 9, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
	ck_assert_ptr_eq(cno_waiter_join(&waiter), pair.client.request_evd);
	expect_dto(pair.client.recv_evd, 0, DAT_DTO_SUCCESS);
	expect_dto(pair.client.request_evd, 9, DAT_DTO_SUCCESS);
}
END_TEST

START_TEST(a_set_latch_arms_for_errors_only)
{
	struct tp_cq *cq = cq_of_evd(pair.client.recv_evd);

	attach_client_evds();
	ck_assert_int_eq(fake_armed(cq), FAKE_ARMED_ANY);
	send_from_server();
	ck_assert_int_ne(fake_armed(cq), FAKE_ARMED_ANY);
	send_from_server();
	send_from_server();
	ck_assert_ptr_eq(take_notification(), pair.client.recv_evd);
	ck_assert_int_eq(fake_armed(cq), FAKE_ARMED_ANY); /* the wait armed it again */
	expect_no_notification();
	for (unsigned n = 0; n < 3; n++)
		expect_dto(pair.client.recv_evd, n, DAT_DTO_SUCCESS);
	send_from_server();
	ck_assert_ptr_eq(take_notification(), pair.client.recv_evd);
	ck_dat(cno_modify_agent(cno, agent_for(NULL)));
	send_from_server();
	expect_agent_calls(1, pair.client.recv_evd);
}
END_TEST

/* No time passes, so the service thread does not look at the queue. */
START_TEST(an_agent_is_called_at_once_though_the_latch_is_set)
{
	DAT_EVD_HANDLE latched = latch_cno(cno);

	attach_client_evds();
	send_from_server(); /* the queue is armed for failures only after this one */
	ck_dat(cno_modify_agent(cno, agent_for(NULL)));
	ck_assert_int_eq(fake_armed(cq_of_evd(pair.client.recv_evd)), FAKE_ARMED_ANY);
	send_from_server();
	expect_agent_calls(1, pair.client.recv_evd);
	ck_assert_ptr_eq(take_notification(), latched);
}
END_TEST

START_TEST(a_disabled_evd_arms_for_errors_only)
{
	attach_client_evds();
	ck_dat(evd_disable(pair.client.recv_evd));
	send_from_server(); /* the queue is still armed for this one */
	send_from_server();
	ck_assert_int_ne(fake_armed(cq_of_evd(pair.client.recv_evd)), FAKE_ARMED_ANY);
	expect_no_notification();
	ck_dat(evd_enable(pair.client.recv_evd));
	ck_assert_ptr_eq(take_notification(), pair.client.recv_evd);
	ck_assert_int_eq(fake_armed(cq_of_evd(pair.client.recv_evd)), FAKE_ARMED_ANY);
}
END_TEST

/* One that sleeps is not woken for that. */
START_TEST(a_thread_that_is_awake_takes_the_trigger)
{
	DAT_EVD_HANDLE software;
	struct cno_waiter awake, asleep = { .timeout = DAT_TIMEOUT_INFINITE };

	attach_client_evds();
	ck_dat(evd_create(pair.client.ia, 16, cno, DAT_EVD_SOFTWARE_FLAG, &software));
	cno_waiter_start(&awake, 1);
	race_hold(RACE_ARM, pair.client.recv_evd); /* for the next completion */
	post_send(&pair.server, 0, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
	race_wait_held();
	ck_assert_ptr_eq(take_notification(), pair.client.recv_evd);
	asleep.thread = consumer_thread_start(cno_waiter_main, &asleep);
	while (!has_sleeper())
		sched_yield();
	post_se(software, 1);
	ck_assert(has_sleeper());
	race_release(NULL);
	ck_assert_ptr_eq(cno_waiter_join(&awake), software);
	fake_wait_idle(1);
	post_send(&pair.server, 1, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
	ck_assert_ptr_eq(cno_waiter_join(&asleep), pair.client.recv_evd);
}
END_TEST

static void wait_for_a_moment(void *evd)
{
	DAT_EVENT event;
	DAT_COUNT nmore;

	ck_dat_is(evd_wait(evd, 1000, 1, &event, &nmore), DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0));
}

/* A wait that ends leaves the queue to the CNO that the EVD has then. */
START_TEST(a_wait_that_ends_during_a_change_of_cno_leaves_its_queue_to_the_new_one)
{
	DAT_EVD_HANDLE latched = latch_other_cno(pair.client.ia);

	attach_client_evds();
	race_call(RACE_CNO, pair.client.recv_evd, wait_for_a_moment, pair.client.recv_evd);
	ck_dat(evd_modify_cno(pair.client.recv_evd, other_cno));
	ck_assert(race_happened(RACE_CNO));
	send_from_server();
	expect_no_notification();
	cno = other_cno;
	ck_assert_ptr_eq(take_notification(), latched);
	expect_dto(pair.client.recv_evd, 0, DAT_DTO_SUCCESS);
	send_from_server();
	ck_assert_ptr_eq(take_notification(), pair.client.recv_evd);
}
END_TEST

/*
 * The queue of an EVD that found the latch set by another is armed again when the latch is cleared
 * with that other EVD.
 */
START_TEST(removing_the_latched_evd_arms_the_others_again)
{
	attach_client_evds();
	post_send(&pair.client, 9, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
	fake_wait_idle(0);
	send_from_server(); /* finds the latch set by the request EVD */
	ck_dat(evd_modify_cno(pair.client.request_evd, DAT_HANDLE_NULL));
	ck_assert_ptr_eq(take_notification(), pair.client.recv_evd);
	send_from_server();
	ck_assert_ptr_eq(take_notification(), pair.client.recv_evd);
}
END_TEST

START_TEST(flushes_trigger_the_cno)
{
	attach_client_evds();
	ck_dat(ep_disconnect(pair.server.ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_event(pair.client.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_assert_ptr_eq(take_notification(), pair.client.recv_evd);
	for (unsigned n = 0; n < 8; n++)
		expect_dto(pair.client.recv_evd, n, DAT_DTO_ERR_FLUSHED);
}
END_TEST

/* ---- threads ---- */

#define EVENTS 500

static DAT_EVD_HANDLE evds[2];
static atomic_uint drained;

/* A consumer of a CNO must dequeue from all EVDs, until they are empty, after each notification. */
static void *cno_drain_evds(void *arg)
{
	(void)arg;
	while (atomic_load(&drained) < COUNT(evds) * EVENTS) {
		DAT_EVD_HANDLE hint;
		DAT_EVENT got;

		ck_dat(cno_wait(cno, DAT_TIMEOUT_INFINITE, &hint));
		for (int n = 0; n < COUNT(evds); n++)
			while (evd_dequeue(evds[n], &got) == DAT_SUCCESS)
				atomic_fetch_add(&drained, 1);
		if (atomic_load(&drained) == COUNT(evds) * EVENTS)
			(void)try_post_se(evds[0], 0); /* wakes up the other threads, to end */
	}
	return NULL;
}

static void *cno_post_events(void *arg)
{
	for (unsigned n = 0; n < EVENTS;)
		if (try_post_se(arg, n) == DAT_SUCCESS)
			n++;
		else
			sched_yield();
	return NULL;
}

START_TEST(no_notification_is_lost)
{
	pthread_t posters[COUNT(evds)], drainers[2];

	for (int n = 0; n < COUNT(evds); n++)
		evds[n] = software_evd_on(cno);
	for (int n = 0; n < COUNT(drainers); n++)
		drainers[n] = consumer_thread_start(cno_drain_evds, NULL);
	for (int n = 0; n < COUNT(evds); n++)
		posters[n] = consumer_thread_start(cno_post_events, evds[n]);
	for (int n = 0; n < COUNT(evds); n++)
		consumer_thread_join(posters[n]);
	for (int n = 0; n < COUNT(drainers); n++)
		consumer_thread_join(drainers[n]);
	ck_assert_uint_ge(atomic_load(&drained), COUNT(evds) * EVENTS);
}
END_TEST

/* A thread that is cancelled can't say how many events are left. */
START_TEST(a_cancelled_evd_wait_leaves_its_events_to_the_cno)
{
	struct waiter waiter = { .evd = software_evd_on(cno),
				 .timeout = DAT_TIMEOUT_INFINITE,
				 .threshold = 2 };

	waiter_start(&waiter);
	post_se(waiter.evd, 1);
	fake_wait_idle(1);
	ck_assert_int_eq(pthread_cancel(waiter.thread), 0);
	ck_assert_ptr_eq(consumer_thread_join(waiter.thread), PTHREAD_CANCELED);
	ck_assert_ptr_eq(take_notification(), waiter.evd);
}
END_TEST

static void add_cno_software_cases(void)
{
	TCase *cases = tcase_create("software");

	tcase_add_checked_fixture(cases, cno_setup_side, NULL);
	tcase_add_test(cases, cno_create_and_query_check_their_arguments);
	tcase_add_test(cases, cno_create_without_memory_changes_nothing);
	tcase_add_test(cases, cno_free_is_refused_while_in_use);
	tcase_add_test(cases, triggers_until_the_next_wait_are_one_notification);
	tcase_add_loop_test(cases, cno_wait_times_out_exactly, 0, COUNT(timeouts));
	tcase_add_test(cases, a_trigger_wakes_a_waiter);
	tcase_add_test(cases, one_trigger_wakes_one_waiter);
	tcase_add_test(cases, a_wait_that_times_out_takes_no_trigger_from_another);
	tcase_add_test(cases, a_signal_interrupts_a_cno_wait);
	tcase_add_test(cases, only_a_wait_that_sleeps_needs_a_descriptor);
	tcase_add_loop_test(cases, a_cno_wait_keeps_the_cancellation_state_of_its_thread, 0, 4);
	tcase_add_test(cases, freeing_the_last_evd_wakes_all_waiters);
	tcase_add_test(cases, detaching_the_last_evd_wakes_no_waiter);
	tcase_add_test(cases, an_abrupt_close_wakes_all_cno_waiters);
	tcase_add_test(cases, a_freed_evd_is_not_reported);
	tcase_add_loop_test(cases, removing_an_evd_keeps_the_trigger_of_another, 0, 2);
	tcase_add_test(cases, a_disabled_evd_does_not_trigger);
	tcase_add_test(cases, attaching_an_evd_with_queued_events_triggers);
	tcase_add_test(cases, modifying_an_evd_to_its_own_cno_changes_nothing);
	tcase_add_test(cases, an_event_during_a_change_of_cno_is_for_the_new_one);
	tcase_add_test(cases, events_for_an_evd_waiter_do_not_trigger);
	tcase_add_test(cases, an_unwaitable_evd_triggers);
	tcase_add_test(cases, an_agent_is_called_once);
	tcase_add_test(cases, an_agent_given_at_create_is_called);
	tcase_add_test(cases, an_agent_is_called_even_if_the_latch_is_set);
	tcase_add_test(cases, an_agent_may_set_itself_again);
	tcase_add_test(cases, a_removed_agent_is_not_called);
	tcase_add_test(cases, an_agent_is_not_called_for_a_trigger_of_the_one_before);
	tcase_add_test(cases, an_agent_stays_set_if_its_evd_is_destroyed_before_the_call);
	tcase_add_loop_test(
		cases, an_agent_is_called_for_the_other_evd_if_one_is_destroyed_before_the_call, 0,
		2);
	tcase_add_loop_test(cases, a_later_evd_that_is_freed_takes_no_call_of_an_agent_along, 0, 4);
	tcase_add_loop_test(cases, an_agent_is_told_the_latest_trigger_of_evds_that_are_left, 0, 6);
	tcase_add_loop_test(cases, an_agent_that_is_set_again_is_called_for_no_earlier_trigger, 0,
			    2);
	tcase_add_test(cases, freeing_the_last_evd_calls_the_agent);
	tcase_add_loop_test(cases, an_agent_is_told_that_the_last_evd_is_gone_though_another_came,
			    0, 2);
	tcase_add_test(cases, no_notification_is_lost);
}

static void add_cno_completion_cases(void)
{
	TCase *cases = tcase_create("completions");

	tcase_add_checked_fixture(cases, cno_setup_pair, NULL);
	tcase_add_test(cases, completions_trigger_the_cno);
	tcase_add_test(cases, a_set_latch_arms_for_errors_only);
	tcase_add_test(cases, a_thread_that_is_awake_takes_the_trigger);
	tcase_add_test(cases, an_agent_is_called_at_once_though_the_latch_is_set);
	tcase_add_test(cases, a_disabled_evd_arms_for_errors_only);
	tcase_add_test(cases,
		       a_wait_that_ends_during_a_change_of_cno_leaves_its_queue_to_the_new_one);
	tcase_add_test(cases, removing_the_latched_evd_arms_the_others_again);
	tcase_add_test(cases, flushes_trigger_the_cno);
}

static void add_cno_cancellation_cases(void)
{
	TCase *cases = tcase_create("cancelled threads");

	tcase_add_checked_fixture(cases, cno_setup_side, NULL);
	tcase_add_loop_test(cases, a_cancelled_cno_wait_leaves_the_cno_as_if_it_had_returned, 0,
			    COUNT(cancel_types));
	tcase_add_loop_test(cases, a_cancelled_waiter_passes_its_trigger_on, 0, 2);
	tcase_add_test(cases, a_cancelled_evd_wait_leaves_its_events_to_the_cno);
	tcase_add_loop_test(cases, a_waiter_may_be_cancelled_while_its_cno_is_destroyed, 0, 10);
}

int main(int argc, char **argv)
{
	add_cno_software_cases();
	add_cno_completion_cases();
	if (CAN_CANCEL_THREADS)
		add_cno_cancellation_cases();
	return run_unit_cases(argc, argv);
}
