/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Consumer notification objects: the latch, its waiters, proxy agents, and what an EVD's gate lets
 * through.
 */
#include <semaphore.h>
#include <signal.h>

#include "alloc.h"
#include "harness.h"

#define EMPTY	 ((DAT_RETURN)DAT_QUEUE_EMPTY) /* bare, as of dat_evd_dequeue */
#define NO_AGENT DAT_OS_WAIT_PROXY_AGENT_NULL

static struct side side;
static struct pair pair;
static DAT_CNO_HANDLE cno;
static sem_t waiter_left; /* counts those that dat_cno_wait has let go */

static void open_side(void)
{
	ck_assert_int_eq(sem_init(&waiter_left, 0, 0), 0);
	side_open(&side, "fake0");
	ck_dat(cno_create(side.ia, NO_AGENT, &cno));
}

static DAT_EVD_HANDLE evd_on(DAT_CNO_HANDLE on)
{
	DAT_EVD_HANDLE evd;

	ck_dat(evd_create(side.ia, 16, on, DAT_EVD_SOFTWARE_FLAG, &evd));
	return evd;
}

static struct tp_cq *cq_of(DAT_EVD_HANDLE evd)
{
	return ((struct evd *)evd)->cq;
}

/* What dat_cno_wait says at once. */
static DAT_EVD_HANDLE latched(void)
{
	DAT_EVD_HANDLE evd = POISON;

	ck_dat(cno_wait(cno, 0, &evd));
	return evd;
}

static void expect_clear(void)
{
	DAT_EVD_HANDLE evd = POISON;

	fake_settle(0);
	ck_dat_is(cno_wait(cno, 0, &evd), EMPTY);
	ck_assert_ptr_eq(evd, DAT_HANDLE_NULL);
}

/* dat_cno_wait in a thread of its own. */
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
	sem_post(&waiter_left);
	return NULL;
}

/* @sleepers will sleep then, this one included. */
static void cno_waiter_start(struct cno_waiter *waiter, unsigned sleepers)
{
	waiter->timeout = DAT_TIMEOUT_INFINITE;
	waiter->evd = POISON;
	waiter->thread = consumer_thread_start(cno_waiter_main, waiter);
	fake_settle(sleepers);
}

static DAT_EVD_HANDLE cno_waiter_end(struct cno_waiter *waiter)
{
	consumer_thread_end(waiter->thread);
	ck_dat(waiter->ret);
	return waiter->evd;
}

/* ---- create, query, free ---- */

START_TEST(create_and_query)
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
	ck_assert(param.agent.proxy_agent_func == NULL);
	ck_dat(cno_query(other, 0, &param));
	ck_dat_is(cno_query(other, 0, NULL), BAD_ARG(3));
	ck_dat_is(cno_query(other, 0x1000, &param), BAD_ARG(2));
	ck_dat(cno_free(other));
	ck_dat_is(cno_free(other), BAD_HANDLE(CNO));
}
END_TEST

/* So many that the memory of objects has to grow. */
START_TEST(create_runs_out_of_memory)
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

START_TEST(free_is_refused_while_in_use)
{
	DAT_EVD_HANDLE evd = evd_on(cno);
	struct cno_waiter waiter;

	ck_dat_is(cno_free(cno), BAD_STATE(CNO_IN_USE));
	ck_dat(evd_modify_cno(evd, DAT_HANDLE_NULL));
	cno_waiter_start(&waiter, 1);
	ck_dat_is(cno_free(cno), BAD_STATE(CNO_IN_USE));
	ck_dat(evd_modify_cno(evd, cno)); /* the way to unblock it */
	post_se(evd, 1);
	ck_assert_ptr_eq(cno_waiter_end(&waiter), evd);
	ck_dat(evd_modify_cno(evd, DAT_HANDLE_NULL));
	ck_dat(cno_free(cno));
	expect_se(evd, 1);
}
END_TEST

/* ---- the latch ---- */

START_TEST(many_arrivals_are_one_notification)
{
	DAT_EVD_HANDLE first = evd_on(cno), second = evd_on(cno);

	expect_clear();
	post_se(first, 1);
	post_se(second, 2);
	post_se(first, 3);
	ck_assert_ptr_eq(latched(), first);
	expect_clear();
	post_se(second, 4);
	ck_assert_ptr_eq(latched(), second);
	expect_clear();
	ck_dat_is(cno_wait(cno, 0, NULL), BAD_ARG(3));
}
END_TEST

static const DAT_TIMEOUT timeouts[] = { 0, 1, SECONDS(1), SECONDS(4000), DAT_TIMEOUT_INFINITE - 1 };

START_TEST(a_wait_times_out_exactly)
{
	uint64_t began = tp_now();
	DAT_EVD_HANDLE evd = POISON;

	ck_dat_is(cno_wait(cno, timeouts[_i], &evd), EMPTY);
	ck_assert_ptr_eq(evd, DAT_HANDLE_NULL);
	ck_assert_uint_eq(tp_now() - began, (uint64_t)timeouts[_i] * 1000);
}
END_TEST

START_TEST(a_trigger_wakes)
{
	DAT_EVD_HANDLE evd = evd_on(cno);
	struct cno_waiter waiter;

	cno_waiter_start(&waiter, 1);
	post_se(evd, 1);
	ck_assert_ptr_eq(cno_waiter_end(&waiter), evd);
	expect_clear();
}
END_TEST

START_TEST(one_trigger_wakes_one_waiter)
{
	DAT_EVD_HANDLE evd = evd_on(cno);
	struct cno_waiter waiters[3];

	for (int n = 0; n < COUNT(waiters); n++)
		cno_waiter_start(&waiters[n], (unsigned)n + 1);
	for (unsigned left = COUNT(waiters); left > 0; left--) {
		post_se(evd, 1);
		while (sem_wait(&waiter_left) < 0)
			;
		fake_settle(left - 1);
		ck_assert_int_ne(sem_trywait(&waiter_left), 0);
		expect_clear();
	}
	for (int n = 0; n < COUNT(waiters); n++)
		ck_assert_ptr_eq(cno_waiter_end(&waiters[n]), evd);
}
END_TEST

static volatile sig_atomic_t signals;

static void on_signal(int number)
{
	(void)number;
	signals++;
}

START_TEST(a_signal_interrupts_a_wait)
{
	const struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct cno_waiter waiter;

	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	cno_waiter_start(&waiter, 1);
	ck_assert_int_eq(pthread_kill(waiter.thread, SIGUSR1), 0);
	consumer_thread_end(waiter.thread);
	ck_dat_is(waiter.ret, DAT_ERROR(DAT_INTERRUPTED_CALL, 0));
	ck_assert_int_eq(signals, 1);
	ck_dat(cno_free(cno)); /* it has left */
}
END_TEST

START_TEST(a_wait_runs_out_of_descriptors)
{
	DAT_EVD_HANDLE evd = evd_on(cno), hint = POISON;

	limit_descriptors(0);
	ck_dat_is(cno_wait(cno, DAT_TIMEOUT_INFINITE, &hint), NO_RESOURCE(MEMORY));
	ck_assert_ptr_eq(hint, POISON);
	post_se(evd, 1);
	ck_dat(cno_wait(cno, DAT_TIMEOUT_INFINITE, &hint)); /* need not sleep */
	ck_assert_ptr_eq(hint, evd);
	limit_descriptors(20);
}
END_TEST

/* ---- the end ---- */

START_TEST(freeing_the_last_evd_releases_all)
{
	DAT_EVD_HANDLE first = evd_on(cno), last = evd_on(cno);
	struct cno_waiter waiters[2];

	for (int n = 0; n < COUNT(waiters); n++)
		cno_waiter_start(&waiters[n], (unsigned)n + 1);
	ck_dat(evd_free(first));
	fake_settle(COUNT(waiters));
	ck_dat(evd_free(last));
	for (int n = 0; n < COUNT(waiters); n++)
		ck_assert_ptr_eq(cno_waiter_end(&waiters[n]), DAT_HANDLE_NULL);
	expect_clear(); /* those who come later wait */
	ck_dat(cno_free(cno));
}
END_TEST

START_TEST(detaching_the_last_evd_releases_nobody)
{
	DAT_EVD_HANDLE evd = evd_on(cno);
	struct cno_waiter waiter;

	cno_waiter_start(&waiter, 1);
	ck_dat(evd_modify_cno(evd, DAT_HANDLE_NULL));
	fake_settle(1);
	ck_dat(evd_modify_cno(evd, cno));
	fake_settle(1);
	post_se(evd, 1);
	ck_assert_ptr_eq(cno_waiter_end(&waiter), evd);
}
END_TEST

START_TEST(an_abrupt_close_releases_all)
{
	struct cno_waiter waiters[2];

	evd_on(cno);
	for (int n = 0; n < COUNT(waiters); n++)
		cno_waiter_start(&waiters[n], (unsigned)n + 1);
	ck_dat(ia_close(side.ia, DAT_CLOSE_ABRUPT_FLAG));
	for (int n = 0; n < COUNT(waiters); n++)
		ck_assert_ptr_eq(cno_waiter_end(&waiters[n]), DAT_HANDLE_NULL);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

START_TEST(a_freed_evd_is_no_hint)
{
	DAT_EVD_HANDLE gone = evd_on(cno), stays = evd_on(cno);

	post_se(gone, 1);
	ck_dat(evd_free(gone));
	expect_clear();
	post_se(stays, 2);
	ck_assert_ptr_eq(latched(), stays);
}
END_TEST

/* What came while the latch was set by another must not go with that. */
START_TEST(a_freed_evd_takes_no_other_trigger_along)
{
	DAT_EVD_HANDLE gone = evd_on(cno), stays = evd_on(cno);

	post_se(gone, 1);
	post_se(stays, 2);
	if (_i)
		ck_dat(evd_free(gone));
	else
		ck_dat(evd_modify_cno(gone, DAT_HANDLE_NULL));
	ck_assert_ptr_eq(latched(), stays);
}
END_TEST

/* ---- the gate of an EVD ---- */

START_TEST(a_disabled_evd_triggers_nothing)
{
	DAT_EVD_HANDLE evd = evd_on(cno);

	ck_dat(evd_disable(evd));
	post_se(evd, 1);
	expect_clear();
	ck_dat(evd_enable(evd)); /* with a backlog */
	ck_assert_ptr_eq(latched(), evd);
	expect_clear();
	ck_dat(evd_enable(evd)); /* again: nothing new */
	expect_clear();
	expect_se(evd, 1);
	ck_dat(evd_disable(evd));
	ck_dat(evd_enable(evd)); /* without a backlog */
	expect_clear();
}
END_TEST

START_TEST(attaching_an_evd_with_a_backlog_triggers)
{
	DAT_EVD_HANDLE evd = evd_on(DAT_HANDLE_NULL);
	DAT_CNO_HANDLE before;

	ck_dat(evd_modify_cno(evd, cno));
	expect_clear();
	post_se(evd, 1);
	ck_assert_ptr_eq(latched(), evd);
	before = cno;
	ck_dat(cno_create(side.ia, NO_AGENT, &cno));
	ck_dat(evd_modify_cno(evd, cno));
	ck_assert_ptr_eq(latched(), evd);
	post_se(evd, 2);
	ck_assert_ptr_eq(latched(), evd);
	ck_dat(cno_free(before)); /* nobody's any more */
	ck_dat(evd_disable(evd));
	ck_dat(evd_modify_cno(evd, DAT_HANDLE_NULL));
	ck_dat(evd_modify_cno(evd, cno)); /* disabled: silent */
	expect_clear();
}
END_TEST

START_TEST(a_waiter_on_the_evd_gets_it_all)
{
	struct waiter waiter = { .evd = evd_on(cno),
				 .timeout = DAT_TIMEOUT_INFINITE,
				 .threshold = 2 };

	waiter_start(&waiter);
	post_se(waiter.evd, 1);
	post_se(waiter.evd, 2);
	ck_dat(waiter_join(&waiter));
	expect_clear(); /* not for what it left, either: it was told of that */
	post_se(waiter.evd, 3);
	ck_assert_ptr_eq(latched(), waiter.evd);
}
END_TEST

START_TEST(an_unwaitable_evd_triggers)
{
	DAT_EVD_HANDLE evd = evd_on(cno);

	ck_dat(evd_set_unwaitable(evd));
	post_se(evd, 1);
	ck_assert_ptr_eq(latched(), evd);
}
END_TEST

/* ---- agents ---- */

static struct {
	unsigned calls;
	void *data;
	DAT_EVD_HANDLE evd;
	unsigned rearm;
} seen;

static void agent(DAT_PVOID data, DAT_EVD_HANDLE evd);

static DAT_OS_WAIT_PROXY_AGENT agent_with(void *data)
{
	return (DAT_OS_WAIT_PROXY_AGENT){ .instance_data = data, .proxy_agent_func = agent };
}

static void agent(DAT_PVOID data, DAT_EVD_HANDLE evd)
{
	seen.calls++;
	seen.data = data;
	seen.evd = evd;
	if (seen.rearm > 0) {
		seen.rearm--;
		ck_dat(cno_modify_agent(cno, agent_with(data)));
	}
}

static void expect_calls(unsigned calls, DAT_EVD_HANDLE evd)
{
	fake_settle(0);
	ck_assert_uint_eq(seen.calls, calls);
	ck_assert_ptr_eq(seen.evd, evd);
}

START_TEST(an_agent_fires_once)
{
	DAT_EVD_HANDLE evd = evd_on(cno);
	DAT_CNO_PARAM param;

	ck_dat(cno_modify_agent(cno, agent_with(&pair)));
	ck_dat(cno_query(cno, DAT_CNO_FIELD_ALL, &param));
	ck_assert(param.agent.proxy_agent_func == agent);
	ck_assert_ptr_eq(param.agent.instance_data, &pair);
	post_se(evd, 1);
	expect_calls(1, evd);
	ck_assert_ptr_eq(seen.data, &pair);
	ck_dat(cno_query(cno, DAT_CNO_FIELD_ALL, &param));
	ck_assert(param.agent.proxy_agent_func == NULL);
	ck_assert_ptr_null(param.agent.instance_data);
	post_se(evd, 2);
	expect_calls(1, evd);
	ck_assert_ptr_eq(latched(), evd); /* in addition to the latch */
}
END_TEST

START_TEST(an_agent_from_the_start)
{
	DAT_EVD_HANDLE evd;

	ck_dat(cno_create(side.ia, agent_with(&side), &cno));
	evd = evd_on(cno);
	expect_calls(0, DAT_HANDLE_NULL);
	post_se(evd, 1);
	expect_calls(1, evd);
}
END_TEST

START_TEST(an_agent_hears_triggers_that_the_latch_does_not)
{
	DAT_EVD_HANDLE first = evd_on(cno), second = evd_on(cno);

	post_se(first, 1);
	ck_dat(cno_modify_agent(cno, agent_with(NULL)));
	expect_calls(0, DAT_HANDLE_NULL); /* not for what was before it */
	post_se(second, 1);
	expect_calls(1, second);
	ck_assert_ptr_eq(latched(), first);
}
END_TEST

START_TEST(an_agent_may_arm_itself)
{
	DAT_EVD_HANDLE evd = evd_on(cno);

	seen.rearm = 2;
	ck_dat(cno_modify_agent(cno, agent_with(NULL)));
	for (unsigned n = 1; n <= 5; n++) {
		post_se(evd, n);
		expect_calls(n < 3 ? n : 3, evd);
	}
}
END_TEST

START_TEST(a_removed_agent_is_not_called)
{
	DAT_EVD_HANDLE evd = evd_on(cno);

	ck_dat(cno_modify_agent(cno, agent_with(NULL)));
	ck_dat(cno_modify_agent(cno, NO_AGENT));
	post_se(evd, 1);
	expect_calls(0, DAT_HANDLE_NULL);
}
END_TEST

/*
 * The service thread can't begin while we have the lock: the EVD goes before the agent was called
 * for it.
 */
START_TEST(an_agent_stays_armed_when_what_it_was_to_hear_of_goes)
{
	DAT_EVD_HANDLE first = evd_on(cno), second = evd_on(cno);
	struct ia *ia = side.ia;

	ck_dat(cno_modify_agent(cno, agent_with(NULL)));
	mutex_lock(&ia->lock);
	post_se(first, 1);
	ck_assert(obj_retire(first));
	evd_unmake(first);
	mutex_unlock(&ia->lock);
	expect_calls(0, DAT_HANDLE_NULL);
	post_se(second, 1);
	expect_calls(1, second);
}
END_TEST

START_TEST(an_agent_is_released_too)
{
	DAT_EVD_HANDLE evd = evd_on(cno);

	seen.evd = POISON;
	ck_dat(cno_modify_agent(cno, agent_with(NULL)));
	ck_dat(evd_free(evd));
	expect_calls(1, DAT_HANDLE_NULL);
}
END_TEST

/* ---- completions ---- */

static void connect_on_cno(void)
{
	ck_dat(evd_modify_cno(pair.client.recv_evd, cno));
	ck_dat(evd_modify_cno(pair.client.request_evd, cno));
	for (unsigned n = 0; n < 8; n++) {
		post_recv(&pair.client, n, n * 64, 64, DAT_COMPLETION_DEFAULT_FLAG);
		post_recv(&pair.server, n, n * 64, 64, DAT_COMPLETION_DEFAULT_FLAG);
	}
}

static void open_pair(void)
{
	ck_assert_int_eq(sem_init(&waiter_left, 0, 0), 0);
	pair_connect(&pair);
	ck_dat(cno_create(pair.client.ia, NO_AGENT, &cno));
}

static void from_b(void)
{
	post_send(&pair.server, 0, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
	fake_settle(0);
}

START_TEST(completions_trigger)
{
	struct cno_waiter waiter;

	connect_on_cno();
	from_b();
	ck_assert_ptr_eq(latched(), pair.client.recv_evd);
	cno_waiter_start(&waiter, 1);
	post_send(&pair.client, 9, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
	ck_assert_ptr_eq(cno_waiter_end(&waiter), pair.client.request_evd);
	expect_dto(pair.client.recv_evd, 0, DAT_DTO_SUCCESS);
	expect_dto(pair.client.request_evd, 9, DAT_DTO_SUCCESS);
}
END_TEST

START_TEST(a_set_latch_costs_no_interrupts)
{
	struct tp_cq *cq = cq_of(pair.client.recv_evd);

	connect_on_cno();
	ck_assert_int_eq(fake_armed(cq), FAKE_ARMED_ANY);
	from_b();
	ck_assert_int_eq(fake_armed(cq), FAKE_ARMED_ERRORS);
	from_b();
	from_b();
	ck_assert_ptr_eq(latched(), pair.client.recv_evd);
	ck_assert_int_eq(fake_armed(cq), FAKE_ARMED_ANY); /* before the wait returned */
	expect_clear();
	for (unsigned n = 0; n < 3; n++)
		expect_dto(pair.client.recv_evd, n, DAT_DTO_SUCCESS);
	from_b();
	ck_assert_ptr_eq(latched(), pair.client.recv_evd);
	ck_dat(cno_modify_agent(cno, agent_with(NULL)));
	from_b();
	expect_calls(1, pair.client.recv_evd);
}
END_TEST

START_TEST(a_disabled_evd_costs_no_interrupts)
{
	connect_on_cno();
	ck_dat(evd_disable(pair.client.recv_evd));
	from_b(); /* may take the one it was armed for */
	from_b();
	ck_assert_int_eq(fake_armed(cq_of(pair.client.recv_evd)), FAKE_ARMED_ERRORS);
	expect_clear();
	ck_dat(evd_enable(pair.client.recv_evd));
	ck_assert_ptr_eq(latched(), pair.client.recv_evd);
	ck_assert_int_eq(fake_armed(cq_of(pair.client.recv_evd)), FAKE_ARMED_ANY);
}
END_TEST

/*
 * The queue below of an EVD that did not set the latch is armed again when that goes with another.
 */
START_TEST(completions_trigger_after_another_evd_went)
{
	connect_on_cno();
	post_send(&pair.client, 9, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
	fake_settle(0);
	from_b(); /* latched by the other already */
	ck_dat(evd_modify_cno(pair.client.request_evd, DAT_HANDLE_NULL));
	ck_assert_ptr_eq(latched(), pair.client.recv_evd);
	from_b();
	ck_assert_ptr_eq(latched(), pair.client.recv_evd);
}
END_TEST

START_TEST(flushes_trigger)
{
	connect_on_cno();
	ck_dat(ep_disconnect(pair.server.ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_event(pair.client.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_assert_ptr_eq(latched(), pair.client.recv_evd);
	for (unsigned n = 0; n < 8; n++)
		expect_dto(pair.client.recv_evd, n, DAT_DTO_ERR_FLUSHED);
}
END_TEST

/* ---- threads ---- */

#define EVENTS 500

static DAT_EVD_HANDLE evds[2];
static atomic_uint drained;

/* As a consumer must: after each notification all EVDs until they are empty. */
static void *drain_all(void *arg)
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
			(void)try_post_se(evds[0], 0); /* for the others, who would wait for ever */
	}
	return NULL;
}

static void *poster(void *arg)
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
		evds[n] = evd_on(cno);
	for (int n = 0; n < COUNT(drainers); n++)
		drainers[n] = consumer_thread_start(drain_all, NULL);
	for (int n = 0; n < COUNT(evds); n++)
		posters[n] = consumer_thread_start(poster, evds[n]);
	for (int n = 0; n < COUNT(evds); n++)
		consumer_thread_end(posters[n]);
	for (int n = 0; n < COUNT(drainers); n++)
		consumer_thread_end(drainers[n]);
	ck_assert_uint_ge(atomic_load(&drained), COUNT(evds) * EVENTS);
}
END_TEST

static void add_cases_alone(void)
{
	TCase *cases = tcase_create("software");

	tcase_set_timeout(cases, 60);
	tcase_add_checked_fixture(cases, open_side, NULL);
	tcase_add_test(cases, create_and_query);
	tcase_add_test(cases, create_runs_out_of_memory);
	tcase_add_test(cases, free_is_refused_while_in_use);
	tcase_add_test(cases, many_arrivals_are_one_notification);
	tcase_add_loop_test(cases, a_wait_times_out_exactly, 0, COUNT(timeouts));
	tcase_add_test(cases, a_trigger_wakes);
	tcase_add_test(cases, one_trigger_wakes_one_waiter);
	tcase_add_test(cases, a_signal_interrupts_a_wait);
	tcase_add_test(cases, a_wait_runs_out_of_descriptors);
	tcase_add_test(cases, freeing_the_last_evd_releases_all);
	tcase_add_test(cases, detaching_the_last_evd_releases_nobody);
	tcase_add_test(cases, an_abrupt_close_releases_all);
	tcase_add_test(cases, a_freed_evd_is_no_hint);
	tcase_add_loop_test(cases, a_freed_evd_takes_no_other_trigger_along, 0, 2);
	tcase_add_test(cases, a_disabled_evd_triggers_nothing);
	tcase_add_test(cases, attaching_an_evd_with_a_backlog_triggers);
	tcase_add_test(cases, a_waiter_on_the_evd_gets_it_all);
	tcase_add_test(cases, an_unwaitable_evd_triggers);
	tcase_add_test(cases, an_agent_fires_once);
	tcase_add_test(cases, an_agent_from_the_start);
	tcase_add_test(cases, an_agent_hears_triggers_that_the_latch_does_not);
	tcase_add_test(cases, an_agent_may_arm_itself);
	tcase_add_test(cases, a_removed_agent_is_not_called);
	tcase_add_test(cases, an_agent_stays_armed_when_what_it_was_to_hear_of_goes);
	tcase_add_test(cases, an_agent_is_released_too);
	tcase_add_test(cases, no_notification_is_lost);
}

static void add_cases_of_completions(void)
{
	TCase *cases = tcase_create("completions");

	tcase_set_timeout(cases, 60);
	tcase_add_checked_fixture(cases, open_pair, NULL);
	tcase_add_test(cases, completions_trigger);
	tcase_add_test(cases, a_set_latch_costs_no_interrupts);
	tcase_add_test(cases, a_disabled_evd_costs_no_interrupts);
	tcase_add_test(cases, completions_trigger_after_another_evd_went);
	tcase_add_test(cases, flushes_trigger);
}

int main(int argc, char **argv)
{
	add_cases_alone();
	add_cases_of_completions();
	return run_unit_cases(argc, argv);
}
