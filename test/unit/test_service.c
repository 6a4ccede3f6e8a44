/* SPDX-License-Identifier: BSD-2-Clause */
/* The service thread of an IA: queued work, timers, completion channels, and signals. */
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include "harness.h"

static struct side side;
static struct ia *ia;

static void setup(void)
{
	side_open(&side, "fake0");
	ia = side.ia;
}

static void ia_hold_lock(void)
{
	CANCEL_FORBIDDEN;
	mutex_lock(&ia->lock);
}

static void ia_drop_lock(void)
{
	mutex_unlock(&ia->lock);
}

/* ---- work ---- */

struct work_probe {
	struct work work;
	unsigned runs;
	bool on_service_thread;
	unsigned order;
	struct work_probe *queues; /* the work that it queues when it runs */
	sem_t *started;		   /* it posts this when it runs, if not NULL */
	sem_t *resume;		   /* it waits for this before it returns, if not NULL */
};

static unsigned order; /* counts the runs of all probes */

static void work_probe_run(struct work *work)
{
	struct work_probe *probe = container_of(work, struct work_probe, work);

	probe->runs++;
	probe->on_service_thread = service_is_current(ia);
	probe->order = ++order;
	if (probe->queues && probe->queues->runs < 5)
		service_queue_work(ia, &probe->queues->work);
	if (probe->started)
		sem_post(probe->started);
	if (probe->resume)
		while (sem_wait(probe->resume) < 0)
			;
}

static struct work_probe work_probe_init(bool unlocked)
{
	return (struct work_probe){ .work = { .run = work_probe_run, .unlocked = unlocked } };
}

START_TEST(work_runs_once_on_the_service_thread)
{
	struct work_probe probe = work_probe_init(_i);

	ck_assert(!service_is_current(ia));
	service_queue_work(ia, &probe.work);
	fake_wait_idle(0);
	ck_assert_uint_eq(probe.runs, 1);
	ck_assert(probe.on_service_thread);
	service_queue_work(ia, &probe.work);
	fake_wait_idle(0);
	ck_assert_uint_eq(probe.runs, 2);
}
END_TEST

START_TEST(work_queued_again_runs_once)
{
	struct work_probe first = work_probe_init(false), second = work_probe_init(false);

	ia_hold_lock(); /* the service thread can't run any work */
	for (int n = 0; n < 3; n++) {
		service_queue_work(ia, &first.work);
		service_queue_work(ia, &second.work);
	}
	service_queue_work(ia, &second.work); /* the last one */
	ck_assert_ptr_null(second.work.next);
	ia_drop_lock();
	fake_wait_idle(0);
	ck_assert_uint_eq(first.runs, 1);
	ck_assert_uint_eq(second.runs, 1);
	ck_assert_uint_lt(first.order, second.order);
}
END_TEST

START_TEST(work_may_queue_work)
{
	struct work_probe first = work_probe_init(false), second = work_probe_init(true);

	first.queues = &second;
	second.queues = &first;
	service_queue_work(ia, &first.work);
	fake_wait_idle(0);
	ck_assert_uint_eq(first.runs + second.runs, 10);
	first.queues = &first;
	first.runs = 0;
	service_queue_work(ia, &first.work);
	fake_wait_idle(0);
	ck_assert_uint_eq(first.runs, 5);
}
END_TEST

START_TEST(cancelled_work_does_not_run)
{
	struct work_probe first = work_probe_init(false), middle = work_probe_init(false),
			  last = work_probe_init(false);

	ia_hold_lock();
	service_queue_work(ia, &first.work);
	service_queue_work(ia, &middle.work);
	service_queue_work(ia, &last.work);
	service_cancel_work_locked(ia, &middle.work);
	service_cancel_work_locked(ia, &middle.work);
	service_cancel_work_locked(ia, &last.work);
	service_queue_work(ia, &last.work); /* the end of the queue is valid after a cancel */
	ia_drop_lock();
	fake_wait_idle(0);
	ck_assert_uint_eq(first.runs, 1);
	ck_assert_uint_eq(middle.runs, 0);
	ck_assert_uint_eq(last.runs, 1);
}
END_TEST

static atomic_bool may_return;

static void *cancel_work(void *arg)
{
	CANCEL_FORBIDDEN;
	struct work_probe *probe = arg;

	service_cancel_unlocked_work(ia, &probe->work);
	ck_assert(atomic_load(&may_return));
	return NULL;
}

/* Such work calls the consumer, without the lock. A thread that cancels it waits for its end. */
START_TEST(cancel_waits_for_unlocked_work)
{
	struct work_probe probe = work_probe_init(true);
	pthread_t thread;
	sem_t started, resume;

	ck_assert_int_eq(sem_init(&started, 0, 0), 0);
	ck_assert_int_eq(sem_init(&resume, 0, 0), 0);
	probe.started = &started;
	probe.resume = &resume;
	service_queue_work(ia, &probe.work);
	while (sem_wait(&started) < 0)
		;
	ia_hold_lock(); /* would wait for ever if the work held it */
	ia_drop_lock();
	thread = consumer_thread_start(cancel_work, &probe);
	sched_yield();
	atomic_store(&may_return, true);
	sem_post(&resume);
	consumer_thread_join(thread);
	ck_assert_uint_eq(probe.runs, 1);
}
END_TEST

static void cancel_itself(struct work *work)
{
	service_cancel_unlocked_work(ia, work);
	container_of(work, struct work_probe, work)->runs++;
}

START_TEST(work_may_cancel_itself)
{
	struct work_probe probe = work_probe_init(true);

	probe.work.run = cancel_itself;
	service_queue_work(ia, &probe.work);
	fake_wait_idle(0);
	ck_assert_uint_eq(probe.runs, 1);
}
END_TEST

#define ROUNDS 2000

static atomic_uint work_runs;

static void count_work(struct work *work)
{
	(void)work;
	atomic_fetch_add(&work_runs, 1);
}

static void *queue_many(void *arg)
{
	for (int n = 0; n < ROUNDS; n++)
		service_queue_work(ia, arg);
	return NULL;
}

START_TEST(no_queued_work_is_lost)
{
	struct work works[2] = { { .run = count_work }, { .run = count_work, .unlocked = true } };
	pthread_t threads[4];
	unsigned before;

	for (int n = 0; n < COUNT(threads); n++)
		threads[n] = consumer_thread_start(queue_many, &works[n % 2]);
	for (int n = 0; n < COUNT(threads); n++)
		consumer_thread_join(threads[n]);
	fake_wait_idle(0);
	before = atomic_load(&work_runs);
	ck_assert_uint_ge(before, 2);
	service_queue_work(ia, &works[0]);
	service_queue_work(ia, &works[1]);
	fake_wait_idle(0);
	ck_assert_uint_eq(atomic_load(&work_runs), before + 2);
}
END_TEST

/* ---- timers ---- */

struct timer_probe {
	struct timer timer;
	uint64_t ran_at; /* tp_now() of the last run; 0: none yet */
	unsigned runs, order;
	uint64_t period;	     /* it sets itself again, until the third run; 0: it does not */
	struct timer_probe *cancels; /* when it runs */
};

static void timer_probe_run(struct timer *timer)
{
	struct timer_probe *probe = container_of(timer, struct timer_probe, timer);

	probe->ran_at = tp_now();
	probe->runs++;
	probe->order = ++order;
	if (probe->period && probe->runs < 3)
		timer_set_locked(ia, timer, tp_now() + probe->period, timer_probe_run);
	if (probe->cancels)
		timer_cancel_locked(ia, &probe->cancels->timer);
}

static void timer_probe_set(struct timer_probe *probe, uint64_t after)
{
	ia_hold_lock();
	timer_set_locked(ia, &probe->timer, tp_now() + after, timer_probe_run);
	ia_drop_lock();
}

static void timer_probe_cancel(struct timer_probe *probe)
{
	ia_hold_lock();
	timer_cancel_locked(ia, &probe->timer);
	ia_drop_lock();
}

static void advance_clock(uint64_t ns)
{
	fake_clock_advance(ns);
	fake_wait_idle(0);
}

START_TEST(a_timer_runs_when_due)
{
	struct timer_probe probe = { 0 };
	uint64_t began = tp_now();

	fake_limit_polls(1000); /* a thread that finds nothing to do sleeps */
	timer_probe_set(&probe, 1000);
	advance_clock(999);
	ck_assert_uint_eq(probe.runs, 0);
	advance_clock(1);
	ck_assert_uint_eq(probe.runs, 1);
	ck_assert_uint_eq(probe.ran_at, began + 1000);
	ck_assert_uint_eq(probe.timer.deadline, 0);
	advance_clock(100000);
	ck_assert_uint_eq(probe.runs, 1);
	timer_probe_set(&probe, 0); /* due at once */
	fake_wait_idle(0);
	ck_assert_uint_eq(probe.runs, 2);
}
END_TEST

static const unsigned delays[][4] = {
	{ 1, 2, 3, 4 }, { 4, 3, 2, 1 }, { 2, 4, 1, 3 },
	{ 3, 1, 4, 2 }, { 2, 2, 1, 1 }, { 1, 1, 1, 1 },
};

START_TEST(timers_run_in_order_of_deadline)
{
	struct timer_probe probes[4] = { 0 };

	for (int n = 0; n < 4; n++)
		timer_probe_set(&probes[n], delays[_i][n] * 1000);
	fake_wait_idle(0);
	advance_clock(10000);
	for (int x = 0; x < 4; x++)
		for (int y = 0; y < 4; y++)
			if (delays[_i][x] < delays[_i][y] ||
			    (delays[_i][x] == delays[_i][y] && x < y))
				ck_assert_uint_lt(probes[x].order, probes[y].order);
}
END_TEST

START_TEST(setting_an_earlier_timer_wakes_the_thread)
{
	struct timer_probe late = { 0 }, early = { 0 };
	uint64_t began = tp_now();

	timer_probe_set(&late, 1000000);
	fake_wait_idle(0); /* the thread sleeps until then */
	timer_probe_set(&early, 10);
	fake_wait_idle(0);
	advance_clock(10);
	ck_assert_uint_eq(early.ran_at, began + 10);
	ck_assert_uint_eq(late.runs, 0);
	timer_probe_cancel(&late);
	advance_clock(1000000);
	ck_assert_uint_eq(late.runs, 0);
}
END_TEST

START_TEST(timers_can_be_cancelled_and_set_again)
{
	struct timer_probe probes[3] = { 0 };

	for (int n = 0; n < 3; n++)
		timer_probe_set(&probes[n], 1000 * ((unsigned)n + 1));
	timer_probe_cancel(&probes[_i]);
	timer_probe_cancel(&probes[_i]);
	timer_probe_set(&probes[(_i + 1) % 3], 10000); /* moved */
	advance_clock(5000);
	ck_assert_uint_eq(probes[_i].runs, 0);
	ck_assert_uint_eq(probes[(_i + 1) % 3].runs, 0);
	ck_assert_uint_eq(probes[(_i + 2) % 3].runs, 1);
	advance_clock(5000);
	ck_assert_uint_eq(probes[(_i + 1) % 3].runs, 1);
}
END_TEST

START_TEST(a_timer_may_set_itself_again)
{
	struct timer_probe probe = { .period = 500 };
	uint64_t began = tp_now();

	timer_probe_set(&probe, 500);
	for (int n = 1; n <= 5; n++)
		advance_clock(500);
	ck_assert_uint_eq(probe.runs, 3);
	ck_assert_uint_eq(probe.ran_at, began + 1500);
}
END_TEST

START_TEST(a_timer_may_cancel_another)
{
	struct timer_probe second = { 0 }, first = { .cancels = &second };

	timer_probe_set(&first, 1000);
	timer_probe_set(&second, 1000);
	advance_clock(2000);
	ck_assert_uint_eq(first.runs, 1);
	ck_assert_uint_eq(second.runs, 0);
}
END_TEST

/* The rings are empty, so there is nothing to wait for. (A wait that follows another sets one.) */
START_TEST(an_idle_disconnect_sets_no_timer)
{
	struct pair pair = { 0 };
	struct ia *ends[2];
	uint64_t added[2];

	side_close(&side);
	pair_connect(&pair);
	ends[0] = pair.client.ia;
	ends[1] = pair.server.ia;
	advance_clock(SECONDS(1) * UINT64_C(1000));
	for (int n = 0; n < 2; n++)
		added[n] = ends[n]->service.timers.added;
	ck_dat(ep_disconnect(pair.client.ep, _i ? DAT_CLOSE_GRACEFUL_FLAG : DAT_CLOSE_ABRUPT_FLAG));
	expect_event(pair.client.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_event(pair.server.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	for (int n = 0; n < 2; n++)
		ck_assert_uint_eq(ends[n]->service.timers.added, added[n]);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- the device ---- */

/* A proxy agent has the service thread of the IA from the first of these two to the other. */
static struct work_probe agent;
static sem_t agent_started, agent_resume;

static void service_thread_occupy(void)
{
	sem_init(&agent_started, 0, 0);
	sem_init(&agent_resume, 0, 0);
	agent = work_probe_init(true);
	agent.started = &agent_started;
	agent.resume = &agent_resume;
	service_queue_work(ia, &agent.work);
	sem_wait(&agent_started);
}

static void service_thread_release(void)
{
	sem_post(&agent_resume);
	fake_wait_idle(0);
	ck_assert_uint_eq(agent.runs, 1);
}

START_TEST(a_call_handles_the_events_that_it_causes)
{
	struct sockaddr_in to = side.address;
	DAT_EVENT event;

	service_thread_occupy();
	ck_dat(ep_connect(side.ep, (DAT_IA_ADDRESS_PTR)&to, 4242, DAT_TIMEOUT_INFINITE, 0, NULL,
			  DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	ck_dat(evd_dequeue(side.connect_evd, &event));
	ck_assert_uint_eq(event.event_number, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	service_thread_release();
}
END_TEST

/* Does the service thread wake up for what the device reports? */
static bool device_is_watched(void)
{
	return epoll_reports(ia->service.epoll, ia->service.dev_fds[0]);
}

START_TEST(each_call_that_attends_to_the_device_silences_it_meanwhile)
{
	CANCEL_FORBIDDEN;

	ia_hold_lock();
	for (unsigned i = 0; i < 2; i++) {
		ck_assert(device_is_watched());
		attend_call_begin_locked(ia);
		ck_assert(!device_is_watched());
		attend_call_end_locked(ia);
	}
	ck_assert(device_is_watched());
	ia_drop_lock();
}
END_TEST

/* Nobody listens any more where the first endpoint was connected to. */
START_TEST(dup_connect_handles_the_events_that_it_causes)
{
	struct pair pair = { 0 };
	DAT_EVENT event;

	side_close(&side);
	pair_connect(&pair);
	ia = pair.client.ia;
	service_thread_occupy();
	ck_dat(ep_dup_connect(side_create_ep(&pair.client, NULL), pair.client.ep,
			      DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT));
	ck_dat(evd_dequeue(pair.client.connect_evd, &event));
	ck_assert_uint_eq(event.event_number, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	service_thread_release();
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(the_deadline_of_the_device_is_kept)
{
	struct timer_probe late = { 0 };
	uint64_t began = tp_now();
	unsigned calls;

	timer_probe_set(&late, 5000);
	fake_alarm(ia->dev, began + 1000);
	fake_wait_idle(0);
	calls = fake_calls("dev_progress");
	advance_clock(999);
	ck_assert_uint_eq(fake_calls("dev_progress"), calls);
	advance_clock(1);
	ck_assert_uint_eq(fake_calls("dev_progress"), calls + 1);
	advance_clock(3999);
	ck_assert_uint_eq(fake_calls("dev_progress"), calls + 1);
	ck_assert_uint_eq(late.runs, 0);
	advance_clock(1);
	ck_assert_uint_eq(late.runs, 1);
}
END_TEST

/* One epoll and one eventfd. The fake has one for the device, and one for the service thread. */
START_TEST(an_open_ia_has_two_descriptors_of_its_own)
{
	DAT_EVD_HANDLE async = DAT_EVD_ASYNC_EXISTS;
	DAT_IA_HANDLE other;
	unsigned before;

	fake_wait_idle(0);
	before = count_entries("/proc/self/fd");
	ck_dat(ia_open("fake0", 0, &async, &other));
	fake_wait_idle(0);
	ck_assert_uint_eq(count_entries("/proc/self/fd"), before + 2 + 2);
	ck_dat(ia_close(other, DAT_CLOSE_GRACEFUL_FLAG));
	ck_assert_uint_eq(count_entries("/proc/self/fd"), before);
}
END_TEST

/* ---- channels ---- */

/* More of them than the service thread takes from the kernel at once. */
START_TEST(all_ready_channels_are_served)
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

START_TEST(one_ia_serves_many_channels)
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
	ia_hold_lock();
	for (int n = 0; n < COUNT(evds); n++) {
		DAT_LMR_TRIPLET iov = segment(&pair.server, 0, 8);

		ck_dat(ep_post_send(peers[n], 1, &iov, cookie_of((uint64_t)n), 0));
	}
	ia_drop_lock();
	fake_wait_idle(0);
	ck_dat(cno_wait(cno, 0, &evd));
	for (int n = 0; n < COUNT(evds); n++)
		expect_dto(evds[n], (uint64_t)n, DAT_DTO_SUCCESS);
	ck_dat(ia_close(pair.client.ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat(ia_close(pair.server.ia, DAT_CLOSE_ABRUPT_FLAG));
}
END_TEST

/* The waiter owns the channel: completions do not wake the service thread. */
START_TEST(only_the_waiter_sleeps_on_its_channel)
{
	struct pair pair = { 0 };
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 3 };
	unsigned reads;

	side_close(&side);
	pair_connect(&pair);
	for (unsigned n = 0; n < 4; n++)
		post_recv(&pair.client, n, 0, 64, 0);
	waiter.evd = pair.client.recv_evd;
	waiter_start(&waiter);
	reads = fake_calls("cq_events");
	for (unsigned n = 0; n < 3; n++) {
		post_send(&pair.server, n, 0, 8, 0);
		if (n < 2)
			fake_wait_idle(1);
	}
	ck_dat(waiter_join(&waiter));
	fake_wait_idle(0);
	ck_assert_uint_eq(fake_calls("cq_events"), reads + 3);
	pair_close(&pair);
}
END_TEST

/* ---- the thread ---- */

static volatile sig_atomic_t handled_by;

static void record_signal_thread(int number)
{
	(void)number;
	handled_by = (sig_atomic_t)gettid();
}

/*
 * A signal for the process stays pending while the thread of the consumer blocks it: the service
 * thread does not take it.
 */
START_TEST(the_service_thread_blocks_signals)
{
	const struct sigaction action = { .sa_handler = record_signal_thread };
	sigset_t one, pending;

	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &one, NULL), 0);
	ck_assert_int_eq(kill(getpid(), SIGUSR1), 0);
	fake_wait_idle(0);
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

	tcase_add_checked_fixture(cases, setup, NULL);
	tcase_add_loop_test(cases, work_runs_once_on_the_service_thread, 0, 2);
	tcase_add_test(cases, work_queued_again_runs_once);
	tcase_add_test(cases, work_may_queue_work);
	tcase_add_test(cases, cancelled_work_does_not_run);
	tcase_add_test(cases, cancel_waits_for_unlocked_work);
	tcase_add_test(cases, work_may_cancel_itself);
	tcase_add_test(cases, no_queued_work_is_lost);
	tcase_add_test(cases, a_timer_runs_when_due);
	tcase_add_loop_test(cases, timers_run_in_order_of_deadline, 0, COUNT(delays));
	tcase_add_test(cases, setting_an_earlier_timer_wakes_the_thread);
	tcase_add_loop_test(cases, timers_can_be_cancelled_and_set_again, 0, 3);
	tcase_add_test(cases, a_timer_may_set_itself_again);
	tcase_add_test(cases, a_timer_may_cancel_another);
	tcase_add_loop_test(cases, an_idle_disconnect_sets_no_timer, 0, 2);
	tcase_add_test(cases, a_call_handles_the_events_that_it_causes);
	tcase_add_test(cases, each_call_that_attends_to_the_device_silences_it_meanwhile);
	tcase_add_test(cases, dup_connect_handles_the_events_that_it_causes);
	tcase_add_test(cases, the_deadline_of_the_device_is_kept);
	tcase_add_test(cases, an_open_ia_has_two_descriptors_of_its_own);
	tcase_add_test(cases, all_ready_channels_are_served);
	tcase_add_test(cases, one_ia_serves_many_channels);
	tcase_add_test(cases, only_the_waiter_sleeps_on_its_channel);
	tcase_add_test(cases, the_service_thread_blocks_signals);
	return run_unit_cases(argc, argv);
}
