/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one thread of an IA: work that is handed to it, timers, completion channels, and how it
 * starts and ends.
 */
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include "harness.h"

static struct side side;
static struct ia *ia;

static void open_side(void)
{
	side_open(&side, "fake0");
	ia = side.ia;
}

static void lock(void)
{
	mutex_lock(&ia->lock);
}

static void unlock(void)
{
	mutex_unlock(&ia->lock);
}

/* ---- work ---- */

struct job {
	struct work work;
	unsigned runs;
	bool on_service;
	unsigned order;
	struct job *kicks; /* when it runs */
	sem_t *begun, *go; /* it says so, then waits */
};

static unsigned order;

static void job_run(struct work *work)
{
	struct job *job = container_of(work, struct job, work);

	job->runs++;
	job->on_service = service_is_me(ia);
	job->order = ++order;
	if (job->kicks && job->kicks->runs < 5)
		service_kick(ia, &job->kicks->work);
	if (job->begun)
		sem_post(job->begun);
	if (job->go)
		while (sem_wait(job->go) < 0)
			;
}

static struct job job_make(bool unlocked)
{
	return (struct job){ .work = { .run = job_run, .unlocked = unlocked } };
}

START_TEST(work_runs_once_on_the_service_thread)
{
	struct job job = job_make(_i);

	ck_assert(!service_is_me(ia));
	service_kick(ia, &job.work);
	fake_settle(0);
	ck_assert_uint_eq(job.runs, 1);
	ck_assert(job.on_service);
	service_kick(ia, &job.work);
	fake_settle(0);
	ck_assert_uint_eq(job.runs, 2);
}
END_TEST

START_TEST(queued_work_is_not_queued_again)
{
	struct job first = job_make(false), second = job_make(false);

	lock(); /* holds the service thread up */
	for (int n = 0; n < 3; n++) {
		service_kick(ia, &first.work);
		service_kick(ia, &second.work);
	}
	unlock();
	fake_settle(0);
	ck_assert_uint_eq(first.runs, 1);
	ck_assert_uint_eq(second.runs, 1);
	ck_assert_uint_lt(first.order, second.order);
}
END_TEST

START_TEST(work_may_kick_work)
{
	struct job first = job_make(false), second = job_make(true);

	first.kicks = &second;
	second.kicks = &first;
	service_kick(ia, &first.work);
	fake_settle(0);
	ck_assert_uint_eq(first.runs + second.runs, 10);
	first.kicks = &first; /* itself */
	first.runs = 0;
	service_kick(ia, &first.work);
	fake_settle(0);
	ck_assert_uint_eq(first.runs, 5);
}
END_TEST

START_TEST(forgotten_work_does_not_run)
{
	struct job first = job_make(false), middle = job_make(false), last = job_make(false);

	lock();
	service_kick(ia, &first.work);
	service_kick(ia, &middle.work);
	service_kick(ia, &last.work);
	service_forget(ia, &middle.work);
	service_forget(ia, &middle.work);
	service_forget(ia, &last.work);
	service_kick(ia, &last.work); /* the queue has its end again */
	unlock();
	fake_settle(0);
	ck_assert_uint_eq(first.runs, 1);
	ck_assert_uint_eq(middle.runs, 0);
	ck_assert_uint_eq(last.runs, 1);
}
END_TEST

static atomic_bool forgotten;

static void *forgetter(void *arg)
{
	struct job *job = arg;

	service_forget(ia, &job->work);
	ck_assert(atomic_load(&forgotten));
	return NULL;
}

/* It calls into the consumer, without a lock; who forgets it waits for its end. */
START_TEST(unlocked_work_is_waited_for)
{
	struct job job = job_make(true);
	pthread_t thread;
	sem_t begun, go;

	ck_assert_int_eq(sem_init(&begun, 0, 0), 0);
	ck_assert_int_eq(sem_init(&go, 0, 0), 0);
	job.begun = &begun;
	job.go = &go;
	service_kick(ia, &job.work);
	while (sem_wait(&begun) < 0)
		;
	lock(); /* it does not hold it */
	unlock();
	thread = consumer_thread_start(forgetter, &job);
	sched_yield();
	atomic_store(&forgotten, true);
	sem_post(&go);
	consumer_thread_end(thread);
	ck_assert_uint_eq(job.runs, 1);
}
END_TEST

static void forget_itself(struct work *work)
{
	service_forget(ia, work);
	container_of(work, struct job, work)->runs++;
}

START_TEST(work_may_forget_itself)
{
	struct job job = job_make(true);

	job.work.run = forget_itself;
	service_kick(ia, &job.work);
	fake_settle(0);
	ck_assert_uint_eq(job.runs, 1);
}
END_TEST

#define KICKS 2000

static atomic_uint counted;

static void count_run(struct work *work)
{
	(void)work;
	atomic_fetch_add(&counted, 1);
}

static void *kicker(void *arg)
{
	for (int n = 0; n < KICKS; n++)
		service_kick(ia, arg);
	return NULL;
}

START_TEST(no_kick_is_lost)
{
	struct work works[2] = { { .run = count_run }, { .run = count_run, .unlocked = true } };
	pthread_t threads[4];
	unsigned before;

	for (int n = 0; n < COUNT(threads); n++)
		threads[n] = consumer_thread_start(kicker, &works[n % 2]);
	for (int n = 0; n < COUNT(threads); n++)
		consumer_thread_end(threads[n]);
	fake_settle(0);
	before = atomic_load(&counted);
	ck_assert_uint_ge(before, 2);
	service_kick(ia, &works[0]);
	service_kick(ia, &works[1]);
	fake_settle(0);
	ck_assert_uint_eq(atomic_load(&counted), before + 2);
}
END_TEST

/* ---- timers ---- */

struct alarm {
	struct timer timer;
	uint64_t rang; /* when; 0: not yet */
	unsigned rings, order;
	uint64_t again; /* sets itself anew, after that long */
	struct alarm *cancels;
};

static void ring_alarm(struct timer *timer)
{
	struct alarm *alarm = container_of(timer, struct alarm, timer);

	alarm->rang = tp_now();
	alarm->rings++;
	alarm->order = ++order;
	if (alarm->again && alarm->rings < 3)
		timer_set(ia, timer, tp_now() + alarm->again, ring_alarm);
	if (alarm->cancels)
		timer_cancel(ia, &alarm->cancels->timer);
}

static void alarm_set(struct alarm *alarm, uint64_t after)
{
	lock();
	timer_set(ia, &alarm->timer, tp_now() + after, ring_alarm);
	unlock();
}

static void alarm_cancel(struct alarm *alarm)
{
	lock();
	timer_cancel(ia, &alarm->timer);
	unlock();
}

static void pass(uint64_t ns)
{
	fake_clock_advance(ns);
	fake_settle(0);
}

START_TEST(a_timer_runs_when_it_is_due)
{
	struct alarm alarm = { 0 };
	uint64_t began = tp_now();

	alarm_set(&alarm, 1000);
	pass(999);
	ck_assert_uint_eq(alarm.rings, 0);
	pass(1);
	ck_assert_uint_eq(alarm.rings, 1);
	ck_assert_uint_eq(alarm.rang, began + 1000);
	ck_assert_uint_eq(alarm.timer.deadline, 0);
	pass(100000);
	ck_assert_uint_eq(alarm.rings, 1);
	alarm_set(&alarm, 0); /* due at once */
	fake_settle(0);
	ck_assert_uint_eq(alarm.rings, 2);
}
END_TEST

static const unsigned delays[][4] = {
	{ 1, 2, 3, 4 }, { 4, 3, 2, 1 }, { 2, 4, 1, 3 },
	{ 3, 1, 4, 2 }, { 2, 2, 1, 1 }, { 1, 1, 1, 1 },
};

START_TEST(the_earliest_comes_first)
{
	struct alarm alarms[4] = { 0 };

	for (int n = 0; n < 4; n++)
		alarm_set(&alarms[n], delays[_i][n] * 1000);
	fake_settle(0);
	pass(10000);
	for (int x = 0; x < 4; x++)
		for (int y = 0; y < 4; y++)
			if (delays[_i][x] < delays[_i][y] ||
			    (delays[_i][x] == delays[_i][y] && x < y))
				ck_assert_uint_lt(alarms[x].order, alarms[y].order);
}
END_TEST

START_TEST(an_earlier_timer_wakes_the_thread)
{
	struct alarm late = { 0 }, early = { 0 };
	uint64_t began = tp_now();

	alarm_set(&late, 1000000);
	fake_settle(0); /* it sleeps until then */
	alarm_set(&early, 10);
	fake_settle(0);
	pass(10);
	ck_assert_uint_eq(early.rang, began + 10);
	ck_assert_uint_eq(late.rings, 0);
	alarm_cancel(&late);
	pass(1000000);
	ck_assert_uint_eq(late.rings, 0);
}
END_TEST

START_TEST(timers_are_cancelled_and_set_anew)
{
	struct alarm alarms[3] = { 0 };

	for (int n = 0; n < 3; n++)
		alarm_set(&alarms[n], 1000 * ((unsigned)n + 1));
	alarm_cancel(&alarms[_i]);
	alarm_cancel(&alarms[_i]);
	alarm_set(&alarms[(_i + 1) % 3], 10000); /* moved */
	pass(5000);
	ck_assert_uint_eq(alarms[_i].rings, 0);
	ck_assert_uint_eq(alarms[(_i + 1) % 3].rings, 0);
	ck_assert_uint_eq(alarms[(_i + 2) % 3].rings, 1);
	pass(5000);
	ck_assert_uint_eq(alarms[(_i + 1) % 3].rings, 1);
}
END_TEST

START_TEST(a_timer_may_set_itself)
{
	struct alarm alarm = { .again = 500 };
	uint64_t began = tp_now();

	alarm_set(&alarm, 500);
	for (int n = 1; n <= 5; n++)
		pass(500);
	ck_assert_uint_eq(alarm.rings, 3);
	ck_assert_uint_eq(alarm.rang, began + 1500);
}
END_TEST

START_TEST(a_timer_may_cancel_another)
{
	struct alarm victim = { 0 }, killer = { .cancels = &victim };

	alarm_set(&killer, 1000);
	alarm_set(&victim, 1000);
	pass(2000);
	ck_assert_uint_eq(killer.rings, 1);
	ck_assert_uint_eq(victim.rings, 0);
}
END_TEST

/* ---- channels ---- */

/* More of them than are looked at in one go, all at once. */
START_TEST(many_channels_are_ready_together)
{
	struct pair pairs[20] = { 0 };
	DAT_CNO_HANDLE cnos[20];

	side_close(&side);
	for (int n = 0; n < COUNT(pairs); n++) {
		pairs[n].client.thread_safe = pairs[n].server.thread_safe = n % 2;
		pair_connect(&pairs[n]);
		ck_dat(cno_create(pairs[n].client.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cnos[n]));
		ck_dat(evd_modify_cno(pairs[n].client.recv_evd, cnos[n]));
		post_recv(&pairs[n].client, n, 0, 64, 0);
	}
	for (int n = 0; n < COUNT(pairs); n++)
		post_send(&pairs[n].server, n, 0, 8, 0);
	for (int n = 0; n < COUNT(pairs); n++) {
		DAT_EVD_HANDLE evd;

		ck_dat(cno_wait(cnos[n], SECONDS(1), &evd));
		ck_assert_ptr_eq(evd, pairs[n].client.recv_evd);
		expect_dto(evd, n, DAT_DTO_SUCCESS);
	}
}
END_TEST

START_TEST(one_adapter_with_many_channels)
{
	struct pair pair = { 0 };
	DAT_EVD_HANDLE evds[40], evd;
	DAT_EP_HANDLE eps[40], peers[40];
	DAT_CNO_HANDLE cno;

	side_open(&pair.client, "fake1");
	side_open(&pair.server, "fake2");
	ck_dat(cno_create(pair.client.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	for (int n = 0; n < COUNT(evds); n++) {
		DAT_LMR_TRIPLET iov = segment(&pair.client, 0, 64);

		ck_dat(evd_create(pair.client.ia, 16, cno, DAT_EVD_DTO_FLAG, &evds[n]));
		ck_dat(ep_create(pair.client.ia, pair.client.pz, evds[n], evds[n],
				 pair.client.connect_evd, NULL, &eps[n]));
		peers[n] = side_create_ep(&pair.server, NULL);
		connect_eps(&pair.client, eps[n], &pair.server, peers[n]);
		ck_dat(ep_post_recv(eps[n], 1, &iov, cookie_of((uint64_t)n), 0));
	}
	lock();
	for (int n = 0; n < COUNT(evds); n++) {
		DAT_LMR_TRIPLET iov = segment(&pair.server, 0, 8);

		ck_dat(ep_post_send(peers[n], 1, &iov, cookie_of((uint64_t)n), 0));
	}
	unlock();
	fake_settle(0);
	ck_dat(cno_wait(cno, 0, &evd));
	for (int n = 0; n < COUNT(evds); n++)
		expect_dto(evds[n], (uint64_t)n, DAT_DTO_SUCCESS);
	ck_dat(ia_close(pair.client.ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat(ia_close(pair.server.ia, DAT_CLOSE_ABRUPT_FLAG));
}
END_TEST

/* The waiter owns the channel: the service thread stays asleep while completions come. */
START_TEST(two_never_sleep_on_one_channel)
{
	struct pair pair = { 0 };
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 3 };
	unsigned wakes;

	side_close(&side);
	pair_connect(&pair);
	for (unsigned n = 0; n < 4; n++)
		post_recv(&pair.client, n, 0, 64, 0);
	waiter.evd = pair.client.recv_evd;
	waiter_start(&waiter);
	wakes = fake_calls("cq_events");
	for (unsigned n = 0; n < 3; n++) {
		post_send(&pair.server, n, 0, 8, 0);
		if (n < 2)
			fake_settle(1);
	}
	ck_dat(waiter_join(&waiter));
	fake_settle(0);
	ck_assert_uint_eq(fake_calls("cq_events"), wakes + 3);
	pair_close(&pair);
}
END_TEST

/* ---- the thread ---- */

static volatile sig_atomic_t handled_by;

static void on_signal(int number)
{
	(void)number;
	handled_by = (sig_atomic_t)gettid();
}

/* A signal for the process goes to a thread of the consumer, though that one blocks it for now. */
START_TEST(signals_are_not_for_the_service_thread)
{
	const struct sigaction action = { .sa_handler = on_signal };
	sigset_t one, pending;

	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &one, NULL), 0);
	ck_assert_int_eq(kill(getpid(), SIGUSR1), 0);
	fake_settle(0);
	ck_assert_int_eq(handled_by, 0);
	ck_assert_int_eq(sigpending(&pending), 0);
	ck_assert(sigismember(&pending, SIGUSR1));
	ck_assert_int_eq(pthread_sigmask(SIG_UNBLOCK, &one, NULL), 0);
	ck_assert_int_eq(handled_by, gettid());
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("service");

	tcase_set_timeout(cases, 60);
	tcase_add_checked_fixture(cases, open_side, NULL);
	tcase_add_loop_test(cases, work_runs_once_on_the_service_thread, 0, 2);
	tcase_add_test(cases, queued_work_is_not_queued_again);
	tcase_add_test(cases, work_may_kick_work);
	tcase_add_test(cases, forgotten_work_does_not_run);
	tcase_add_test(cases, unlocked_work_is_waited_for);
	tcase_add_test(cases, work_may_forget_itself);
	tcase_add_test(cases, no_kick_is_lost);
	tcase_add_test(cases, a_timer_runs_when_it_is_due);
	tcase_add_loop_test(cases, the_earliest_comes_first, 0, COUNT(delays));
	tcase_add_test(cases, an_earlier_timer_wakes_the_thread);
	tcase_add_loop_test(cases, timers_are_cancelled_and_set_anew, 0, 3);
	tcase_add_test(cases, a_timer_may_set_itself);
	tcase_add_test(cases, a_timer_may_cancel_another);
	tcase_add_test(cases, many_channels_are_ready_together);
	tcase_add_test(cases, one_adapter_with_many_channels);
	tcase_add_test(cases, two_never_sleep_on_one_channel);
	tcase_add_test(cases, signals_are_not_for_the_service_thread);
	return run_unit_cases(argc, argv);
}
