/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion channels: who looks at a completion queue, and which descriptors that takes. */

#include <semaphore.h>

#include "harness.h"
#include "race.h"

#define MS	  UINT64_C(1000000)
#define TIMED_OUT DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0)

static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;
static DAT_EVENT event;
static DAT_COUNT nmore;

static void setup(void)
{
	pair_connect(&pair);
	fake_wait_idle(0);
}

static void teardown(void)
{
	pair_close_abrupt(&pair);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}

/* Lets time pass, during which the service threads do what is due. */
static void sleep_for(uint64_t ns)
{
	DAT_EVD_HANDLE evd = side_create_evd(client, 1, DAT_EVD_SOFTWARE_FLAG);

	ck_dat_is(evd_wait(evd, (DAT_TIMEOUT)(ns / 1000), 1, &event, &nmore), TIMED_OUT);
	ck_dat(evd_free(evd));
}

static void dequeue_dto(DAT_EVD_HANDLE evd)
{
	ck_dat(evd_dequeue(evd, &event));
	ck_assert_int_eq(event.event_number, DAT_DTO_COMPLETION_EVENT);
}

/* A message from the server, which both sides poll for. */
static void exchange(void)
{
	post_recv(client, 0, 0, 64, 0);
	post_send(server, 0, 0, 8, 0);
	dequeue_dto(client->recv_evd);
	dequeue_dto(server->request_evd);
}

/* ---- interrupts ---- */

/*
 * On a device that is armed for failures only, and on one that is armed for everything; from round
 * 2 on the service thread has looked before, until the queue was at rest.
 */
START_TEST(polling_causes_no_interrupts)
{
	unsigned events;

	fake_quirks(_i & 1 ? FAKE_ARM_ANY : 0);
	if (_i & 2) {
		exchange();
		sleep_for(2000 * MS);
	}
	exchange();
	fake_wait_idle(0);
	events = fake_calls("cq_events");
	for (int round = 0; round < 500; round++) {
		exchange();
		fake_clock_advance(MS);
		fake_wait_idle(0);
	}
	ck_assert_uint_eq(fake_calls("cq_events"), events);
}
END_TEST

/* An idle process uses no processor time. */
START_TEST(a_queue_that_is_not_used_is_not_looked_at)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };
	unsigned polls;

	fake_quirks(FAKE_ARM_ANY);
	exchange();
	waiter.evd = client->recv_evd;
	post_recv(client, 0, 0, 64, 0);
	waiter_start(&waiter);
	post_send(server, 0, 0, 8, 0);
	ck_dat(waiter_join(&waiter));
	sleep_for(2000 * MS);
	polls = fake_calls("cq_poll");
	sleep_for(3600000 * MS);
	ck_assert_uint_eq(fake_calls("cq_poll"), polls);
}
END_TEST

START_TEST(a_queue_is_not_looked_at_while_a_thread_waits)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };
	unsigned polls;

	waiter.evd = client->recv_evd;
	post_recv(client, 0, 0, 64, 0);
	post_recv(client, 1, 0, 64, 0);
	waiter_start(&waiter);
	post_send(server, 0, 0, 8, 0); /* from now on the service thread looks */
	ck_dat(waiter_join(&waiter));
	waiter_start(&waiter);
	sleep_for(2000 * MS);
	polls = fake_calls("cq_poll");
	sleep_for(3600000 * MS);
	ck_assert_uint_eq(fake_calls("cq_poll"), polls);
	post_send(server, 1, 0, 8, 0);
	ck_dat(waiter_join(&waiter));
}
END_TEST

/* ---- failures ---- */

static void leave_armed(void)
{
}

static void leave_looked_at(void)
{
	post_recv(server, 0, 0, 64, 0);
	post_send(client, 0, 0, 8, 0);
	fake_wait_idle(0); /* the event of the first completion */
	dequeue_dto(client->request_evd);
	dequeue_dto(server->recv_evd);
}

static void leave_lent(void)
{
	ck_dat_is(evd_wait(client->request_evd, 1000, 1, &event, &nmore), TIMED_OUT);
	fake_wait_idle(0);
}

static void leave_armed_again(void)
{
	leave_lent();
	sleep_for(2000 * MS);
}

static void leave_after_a_long_wait(void)
{
	leave_lent();
	ck_dat_is(evd_wait(client->request_evd, SECONDS(10), 1, &event, &nmore), TIMED_OUT);
	fake_wait_idle(0);
}

/* It was looked at when it moved to a CNO; and it is again, after it has left that. */
static void leave_moved(void)
{
	DAT_CNO_HANDLE cno;

	ck_dat(cno_create(client->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	leave_looked_at();
	ck_dat(evd_modify_cno(client->request_evd, cno));
	ck_dat(evd_modify_cno(client->request_evd, DAT_HANDLE_NULL));
	leave_looked_at();
}

static void (*const channel_states[])(void) = {
	leave_armed,	   leave_looked_at,	    leave_lent,
	leave_armed_again, leave_after_a_long_wait, leave_moved,
};

/* No thread polls for it. Odd rounds: the device does not tell failures from other completions. */
START_TEST(a_failure_is_noticed_within_20_ms)
{
	uint64_t began;

	fake_quirks(_i & 1 ? FAKE_ARM_ANY : 0);
	channel_states[_i / 2]();
	fake_hold(true);
	post_send(client, 1, 0, 8, 0);
	fake_fail_transfer(DAT_DTO_ERR_TRANSPORT);
	began = tp_now();
	ck_assert(fake_step());
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
	ck_assert_uint_le(tp_now() - began, 20 * MS);
	expect_dto(client->request_evd, 1, DAT_DTO_ERR_TRANSPORT);
}
END_TEST

static void fail_transfer(void *unused)
{
	(void)unused;
	fake_fail_transfer(DAT_DTO_ERR_TRANSPORT);
	ck_assert(fake_step());
}

/* It makes no event there, so the service thread looks once more. */
START_TEST(a_failure_is_noticed_that_comes_as_its_queue_is_armed_again)
{
	fake_quirks(FAKE_ARM_ANY);
	leave_looked_at();
	fake_hold(true);
	post_send(client, 1, 0, 8, 0);
	race_call(RACE_ARM, client->request_evd, fail_transfer, NULL);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
	ck_assert(race_happened(RACE_ARM));
	expect_dto(client->request_evd, 1, DAT_DTO_ERR_TRANSPORT);
}
END_TEST

/* ---- waits ---- */

/* Each wait arms the queue once and takes one event; the service thread takes none. */
START_TEST(a_wait_arms_once_and_takes_one_event)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };
	unsigned arms = 0, events = 0;

	waiter.evd = client->recv_evd;
	for (unsigned n = 0; n < 20; n++) {
		post_recv(client, n, 0, 64, 0);
		waiter_start(&waiter);
		post_send(server, n, 0, 8, 0);
		ck_dat(waiter_join(&waiter));
		ck_assert_int_eq(waiter.nmore, 0);
		fake_wait_idle(0);
		dequeue_dto(server->request_evd);
		if (n == 0) { /* the request queue, too, was armed until its first completion */
			arms = fake_calls("cq_arm");
			events = fake_calls("cq_events");
		}
	}
	ck_assert_uint_eq(fake_calls("cq_arm"), arms + 19);
	ck_assert_uint_eq(fake_calls("cq_events"), events + 19);
}
END_TEST

/* There is one look during each. As the looks go on, no wait has them begin anew. */
START_TEST(short_waits_cause_no_looks_of_their_own)
{
	unsigned before, alone;

	ck_dat_is(evd_wait(client->recv_evd, 15000, 1, &event, &nmore), TIMED_OUT);
	fake_wait_idle(0);
	before = fake_calls("cq_poll");
	ck_dat_is(evd_wait(client->recv_evd, 1, 1, &event, &nmore), TIMED_OUT);
	fake_wait_idle(0);
	alone = fake_calls("cq_poll") - before;
	before += alone;
	for (unsigned n = 0; n < 20; n++)
		ck_dat_is(evd_wait(client->recv_evd, 10000, 1, &event, &nmore), TIMED_OUT);
	fake_wait_idle(0);
	ck_assert_uint_eq(fake_calls("cq_poll") - before, 20 * (alone + 1));
}
END_TEST

/* While the channel is lent to waiters, a CNO is triggered as always. */
START_TEST(a_cno_that_is_attached_after_a_wait_is_triggered)
{
	DAT_CNO_HANDLE cno;
	DAT_EVD_HANDLE evd;

	ck_dat_is(evd_wait(client->recv_evd, 1000, 1, &event, &nmore), TIMED_OUT);
	ck_dat(cno_create(client->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(evd_modify_cno(client->recv_evd, cno));
	post_recv(client, 0, 0, 64, 0);
	post_send(server, 0, 0, 8, 0);
	ck_dat(cno_wait(cno, SECONDS(1), &evd));
	ck_assert_ptr_eq(evd, client->recv_evd);
}
END_TEST

/* ---- CNOs ---- */

/* A thread in dat_cno_wait. */
struct sleeper {
	DAT_CNO_HANDLE cno;
	DAT_EVD_HANDLE evd;
	pthread_t thread;
	sem_t *returned; /* or NULL; posted when the call has returned */
};

static void *sleeper_run(void *arg)
{
	struct sleeper *sleeper = arg;

	ck_dat(cno_wait(sleeper->cno, DAT_TIMEOUT_INFINITE, &sleeper->evd));
	if (sleeper->returned)
		sem_post(sleeper->returned);
	return NULL;
}

static void sleeper_start(struct sleeper *sleeper)
{
	sleeper->evd = POISON;
	sleeper->thread = consumer_thread_start(sleeper_run, sleeper);
	fake_wait_idle(1);
}

static DAT_CNO_HANDLE cno_of_client(void)
{
	DAT_CNO_HANDLE cno;

	ck_dat(cno_create(client->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(evd_modify_cno(client->recv_evd, cno));
	return cno;
}

/* The thread that waits takes the event; the service threads sleep on. */
START_TEST(a_cno_wait_arms_once_and_takes_one_event)
{
	struct sleeper sleeper = { .cno = cno_of_client() };
	unsigned arms = 0, events = 0, polls = 0;

	for (unsigned n = 0; n < 20; n++) {
		post_recv(client, n, 0, 64, 0);
		sleeper_start(&sleeper);
		post_send(server, n, 0, 8, 0);
		consumer_thread_join(sleeper.thread);
		ck_assert_ptr_eq(sleeper.evd, client->recv_evd);
		fake_wait_idle(0);
		dequeue_dto(client->recv_evd);
		dequeue_dto(server->request_evd);
		if (n == 0) {
			arms = fake_calls("cq_arm");
			events = fake_calls("cq_events");
			polls = fake_polls();
		}
	}
	ck_assert_uint_eq(fake_calls("cq_arm"), arms + 19);
	ck_assert_uint_eq(fake_calls("cq_events"), events + 19);
	ck_assert_uint_eq(fake_polls(), polls + 19); /* the sleeps of the threads that wait */
}
END_TEST

/* A send of the client fails, and within 20 ms the connection is told to be broken. */
static void fail_and_expect_broken(DAT_UINT64 cookie)
{
	uint64_t began;

	fake_hold(true);
	post_send(client, cookie, 0, 8, 0);
	fake_fail_transfer(DAT_DTO_ERR_TRANSPORT);
	began = tp_now();
	ck_assert(fake_step());
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
	ck_assert_uint_le(tp_now() - began, 20 * MS);
}

/* Odd rounds: the EVDs are disabled, or their CNO is latched, when the failure comes. */
START_TEST(a_failure_below_a_cno_is_noticed_within_20_ms)
{
	DAT_CNO_HANDLE cno = cno_of_client();
	DAT_EVD_HANDLE evd;

	fake_quirks(FAKE_ARM_ANY);
	ck_dat(evd_modify_cno(client->request_evd, cno));
	post_recv(server, 0, 0, 64, 0);
	if (_i & 1)
		ck_dat(evd_disable(client->request_evd));
	if (_i & 2)
		ck_dat_is(cno_wait(cno, 1000, &evd), DAT_QUEUE_EMPTY); /* lent from now on */
	post_send(client, 0, 0, 8, 0); /* the queue is not armed after this */
	fake_wait_idle(0);
	dequeue_dto(client->request_evd);
	fail_and_expect_broken(1);
}
END_TEST

/* Nobody waits any more: the channels are the service thread's. */
START_TEST(a_failure_is_noticed_after_two_threads_have_waited_for_one_cno)
{
	DAT_CNO_HANDLE cno = cno_of_client();
	sem_t returned;
	struct sleeper sleepers[] = {
		{ .cno = cno, .returned = &returned },
		{ .cno = cno, .returned = &returned },
	};

	ck_assert_int_eq(sem_init(&returned, 0, 0), 0);
	ck_dat(evd_modify_cno(client->request_evd, cno));
	for (unsigned i = 0; i < COUNT(sleepers); i++) {
		post_recv(client, i, 0, 64, 0);
		sleepers[i].thread = consumer_thread_start(sleeper_run, &sleepers[i]);
	}
	fake_wait_idle(COUNT(sleepers));
	for (unsigned left = COUNT(sleepers); left-- > 0;) {
		post_send(server, left, 0, 8, 0);
		while (sem_wait(&returned) < 0)
			; /* a dequeue before that would take the event from the sleeper */
		dequeue_dto(client->recv_evd);
	}
	for (unsigned i = 0; i < COUNT(sleepers); i++)
		consumer_thread_join(sleepers[i].thread);
	sem_destroy(&returned);
	sleep_for(2000 * MS); /* the service thread looks no more */
	fail_and_expect_broken(2);
}
END_TEST

static DAT_EVD_HANDLE latched_evd;

/* The request EVD misses a trigger, so its queue is not armed. */
static DAT_CNO_HANDLE leave_missed(void)
{
	DAT_CNO_HANDLE cno = cno_of_client();

	ck_dat(evd_create(client->ia, 8, cno, DAT_EVD_SOFTWARE_FLAG, &latched_evd));
	post_se(latched_evd, 1);
	ck_dat(evd_modify_cno(client->request_evd, cno));
	leave_looked_at();
	return cno;
}

static DAT_CNO_HANDLE leave_missed_and_disabled(void)
{
	DAT_CNO_HANDLE cno = leave_missed();

	ck_dat(evd_disable(client->request_evd));
	return cno;
}

static void take_latch(DAT_CNO_HANDLE cno)
{
	DAT_EVD_HANDLE evd;

	ck_dat(cno_wait(cno, 0, &evd));
	ck_assert_ptr_eq(evd, latched_evd);
}

static void free_latched_evd(DAT_CNO_HANDLE unused)
{
	(void)unused;
	ck_dat(evd_free(latched_evd));
}

static DAT_CNO_HANDLE leave_looked_at_and_disabled(void)
{
	leave_looked_at();
	ck_dat(evd_disable(client->request_evd));
	return cno_of_client();
}

static void attach_request_evd(DAT_CNO_HANDLE cno)
{
	ck_dat(evd_modify_cno(client->request_evd, cno));
}

static void detach_request_evd(DAT_CNO_HANDLE unused)
{
	(void)unused;
	ck_dat(evd_modify_cno(client->request_evd, DAT_HANDLE_NULL));
}

static const struct {
	const char *why;
	DAT_CNO_HANDLE (*before)(void);
	void (*act)(DAT_CNO_HANDLE cno);
} rearmings[] = {
	{ "a CNO is attached", leave_looked_at_and_disabled, attach_request_evd },
	{ "the CNO is left", leave_missed_and_disabled, detach_request_evd },
	{ "its latch is taken", leave_missed_and_disabled, take_latch },
	{ "the EVD in its latch is freed", leave_missed_and_disabled, free_latched_evd },
	{ "its latch is taken, and nobody polls", leave_missed, take_latch },
};

/*
 * The queue is not armed when the failure comes, and the call arms it before the service thread has
 * looked. Of an EVD that is disabled the call has no trigger to look for.
 */
START_TEST(a_failure_is_noticed_when_its_queue_is_armed_after_it)
{
	DAT_CNO_HANDLE cno;
	uint64_t began;

	fake_quirks(FAKE_ARM_ANY);
	cno = rearmings[_i].before();
	fake_hold(true);
	post_send(client, 1, 0, 8, 0);
	fake_fail_transfer(DAT_DTO_ERR_TRANSPORT);
	began = tp_now();
	ck_assert(fake_step());
	rearmings[_i].act(cno);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
	ck_assert_uint_le(tp_now() - began, 20 * MS);
}
END_TEST

/* Each time it finds the latch set, and so has missed a trigger once more. */
START_TEST(a_look_polls_a_queue_that_has_missed_a_trigger_once)
{
	unsigned polls[3];

	fake_quirks(FAKE_ARM_ANY);
	leave_missed();
	sleep_for(10 * MS);
	for (int i = 0; i < COUNT(polls); i++) {
		fake_wait_idle(0);
		polls[i] = fake_calls("cq_poll");
		sleep_for(30 * MS); /* three looks */
	}
	ck_assert_uint_eq(polls[2] - polls[1], polls[1] - polls[0]);
	ck_assert_uint_gt(polls[1], polls[0]);
}
END_TEST

/*
 * The service thread looks at the queue from now on, because the CNO has a latch. One more receive
 * is posted there.
 */
static void begin_looks(DAT_CNO_HANDLE cno)
{
	ck_dat(evd_create(client->ia, 8, cno, DAT_EVD_SOFTWARE_FLAG, &latched_evd));
	post_se(latched_evd, 1);
	post_recv(client, 0, 0, 64, 0);
	post_recv(client, 1, 0, 64, 0);
	post_send(server, 0, 0, 8, 0);
	fake_wait_idle(0);
	dequeue_dto(client->recv_evd);
}

static void take_latch_and_dequeue(void *cno)
{
	take_latch(cno);
	ck_dat_is(evd_dequeue(client->recv_evd, &event), DAT_QUEUE_EMPTY);
}

/* The queue is on no list of the CNO at that moment, so the look has to arm it. */
START_TEST(a_completion_is_told_when_the_latch_was_taken_during_a_look)
{
	struct cno *cno = cno_of_client();
	DAT_EVD_HANDLE evd = POISON;

	begin_looks(cno);
	race_call(RACE_MISSED, client->recv_evd, take_latch_and_dequeue, cno);
	sleep_for(10 * MS);
	fake_wait_idle(0);
	ck_assert(race_happened(RACE_MISSED));
	post_send(server, 1, 0, 8, 0);
	ck_dat(cno_wait(cno, SECONDS(1), &evd));
	ck_assert_ptr_eq(evd, client->recv_evd);
}
END_TEST

/* A look at a queue of a latched CNO. If it is the last one, the latch is taken meanwhile. */
static void take_latch_at_last_look(void *arg)
{
	struct cno *cno = arg;

	if (cno->watch.looked_at) { /* cno->watch.lock is held otherwise */
		race_call(RACE_MISSED, client->recv_evd, take_latch_at_last_look, cno);
		return;
	}
	take_latch(cno);
	ck_dat_is(evd_dequeue(client->recv_evd, &event), DAT_QUEUE_EMPTY);
	post_send(server, 1, 0, 8, 0);
}

/* The consumer has looked, the completion arrives, and then the queue is armed. */
START_TEST(a_completion_is_told_when_its_queue_is_armed_after_it)
{
	struct cno *cno = cno_of_client();
	DAT_EVD_HANDLE evd = POISON;

	fake_quirks(FAKE_ARM_ANY);
	begin_looks(cno);
	race_call(RACE_MISSED, client->recv_evd, take_latch_at_last_look, cno);
	sleep_for(2000 * MS);
	ck_assert(race_happened(RACE_MISSED));
	ck_dat(cno_wait(cno, SECONDS(1), &evd));
	ck_assert_ptr_eq(evd, client->recv_evd);
}
END_TEST

/* A completion that came while no thread waited, and the channels were lent, is latched. */
START_TEST(completions_between_two_waits_trigger_the_cno)
{
	struct sleeper sleeper = { .cno = cno_of_client() };
	DAT_EVD_HANDLE evd = POISON;

	post_recv(client, 0, 0, 64, 0);
	post_recv(client, 1, 0, 64, 0);
	sleeper_start(&sleeper);
	post_send(server, 0, 0, 8, 0);
	consumer_thread_join(sleeper.thread);
	dequeue_dto(client->recv_evd);
	post_send(server, 1, 0, 8, 0);
	ck_dat(cno_wait(sleeper.cno, SECONDS(1), &evd));
	ck_assert_ptr_eq(evd, client->recv_evd);
	dequeue_dto(client->recv_evd);
	ck_dat_is(cno_wait(sleeper.cno, SECONDS(5), &evd), DAT_QUEUE_EMPTY);
}
END_TEST

static DAT_EVD_HANDLE agent_evd;

static void record_agent_evd(DAT_PVOID instance, DAT_EVD_HANDLE evd)
{
	(void)instance;
	agent_evd = evd;
}

/* Even if a wait has lent the channels, and its thread did not come back. */
START_TEST(an_agent_is_called_at_once_after_waits)
{
	const DAT_OS_WAIT_PROXY_AGENT agent = { .proxy_agent_func = record_agent_evd };
	DAT_CNO_HANDLE cno = cno_of_client();
	DAT_EVD_HANDLE evd;

	post_recv(client, 0, 0, 64, 0);
	if (_i)
		ck_dat(cno_modify_agent(cno, agent));
	ck_dat_is(cno_wait(cno, 1000, &evd), DAT_QUEUE_EMPTY);
	if (!_i)
		ck_dat(cno_modify_agent(cno, agent));
	fake_wait_idle(0);
	post_send(server, 0, 0, 8, 0);
	fake_wait_idle(0);
	ck_assert_ptr_eq(agent_evd, client->recv_evd);
}
END_TEST

static void attach_agent(void *cno)
{
	const DAT_OS_WAIT_PROXY_AGENT agent = { .proxy_agent_func = record_agent_evd };

	ck_dat(cno_modify_agent(cno, agent));
}

START_TEST(an_agent_is_called_at_once_if_it_was_attached_when_a_wait_ended)
{
	DAT_CNO_HANDLE cno = cno_of_client();
	DAT_EVD_HANDLE evd;

	post_recv(client, 0, 0, 64, 0);
	race_call(RACE_RETURN, cno, attach_agent, cno);
	ck_dat_is(cno_wait(cno, 1000, &evd), DAT_QUEUE_EMPTY);
	ck_assert(race_happened(RACE_RETURN));
	fake_wait_idle(0);
	post_send(server, 0, 0, 8, 0);
	fake_wait_idle(0);
	ck_assert_ptr_eq(agent_evd, client->recv_evd);
}
END_TEST

static void disconnect_abruptly(void *ep)
{
	ck_dat(ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG));
}

/*
 * A send of the client is outstanding, and the connection has begun to end. The device flushes
 * late. No time passes, so the channel alone can say that it has: it has to be the service thread's
 * from the beginning of the end on.
 */
static void expect_end_at_once(void)
{
	const uint64_t began = tp_now();

	fake_wait_idle(0);
	expect_no_event(client->connect_evd);
	ck_assert(fake_step());
	fake_wait_idle(0);
	ck_dat(evd_dequeue(client->connect_evd, &event));
	ck_assert_int_eq(event.event_number, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_assert_uint_eq(tp_now(), began);
	expect_dto(client->request_evd, 1, DAT_DTO_ERR_FLUSHED);
}

static void leave_a_send_outstanding(void)
{
	fake_quirks(FAKE_LATE_FLUSH);
	fake_hold(true);
	post_send(client, 1, 0, 8, 0);
}

/* The channel is the waiter's until then. */
START_TEST(the_end_of_a_connection_is_noticed_at_once_if_it_began_when_a_wait_ended)
{
	leave_a_send_outstanding();
	race_call(RACE_RETURN, client->request_evd, disconnect_abruptly, client->ep);
	ck_dat_is(evd_wait(client->request_evd, 1000, 1, &event, &nmore), TIMED_OUT);
	ck_assert(race_happened(RACE_RETURN));
	expect_end_at_once();
}
END_TEST

/* The channel is in the set of the CNO, which is lent until then. */
START_TEST(the_end_of_a_connection_is_noticed_at_once_after_a_wait_for_its_cno)
{
	DAT_CNO_HANDLE cno = cno_of_client();
	DAT_EVD_HANDLE evd;

	ck_dat(evd_modify_cno(client->request_evd, cno));
	leave_a_send_outstanding();
	ck_dat_is(cno_wait(cno, 1000, &evd), DAT_QUEUE_EMPTY);
	disconnect_abruptly(client->ep);
	expect_end_at_once();
}
END_TEST

/* An EVD changes its CNO while threads wait on the old one, on the new one and on itself. */
START_TEST(a_channel_moves_with_its_evd)
{
	struct sleeper old = { .cno = cno_of_client() }, new = { 0 };
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };

	ck_dat(cno_create(client->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &new.cno));
	for (unsigned n = 0; n < 3; n++)
		post_recv(client, n, 0, 64, 0);
	old.thread = consumer_thread_start(sleeper_run, &old);
	new.thread = consumer_thread_start(sleeper_run, &new);
	fake_wait_idle(2);
	waiter.evd = client->recv_evd;
	waiter_start(&waiter);
	ck_dat(evd_modify_cno(client->recv_evd, new.cno));
	post_send(server, 0, 0, 8, 0);
	ck_dat(waiter_join(&waiter));
	post_send(server, 1, 0, 8, 0);
	consumer_thread_join(new.thread);
	ck_assert_ptr_eq(new.evd, client->recv_evd);
	dequeue_dto(client->recv_evd);
	ck_dat(evd_modify_cno(client->recv_evd, old.cno));
	post_send(server, 2, 0, 8, 0);
	consumer_thread_join(old.thread);
	ck_assert_ptr_eq(old.evd, client->recv_evd);
}
END_TEST

/* ---- descriptors ---- */

START_TEST(only_a_completion_queue_takes_a_descriptor)
{
	const unsigned before = count_entries("/proc/self/fd");
	DAT_EVD_HANDLE software = side_create_evd(client, 8, DAT_EVD_SOFTWARE_FLAG), dto;

	ck_assert_uint_eq(count_entries("/proc/self/fd"), before);
	dto = side_create_evd(client, 8, DAT_EVD_DTO_FLAG);
	ck_assert_uint_eq(count_entries("/proc/self/fd"), before + 1);
	ck_dat(evd_free(dto));
	ck_dat(evd_free(software));
	ck_assert_uint_eq(count_entries("/proc/self/fd"), before);
}
END_TEST

static void run_nothing_locked(struct timer *timer)
{
	(void)timer;
}

START_TEST(a_freed_evd_has_no_timer)
{
	CANCEL_FORBIDDEN;
	struct evd *evd = side_create_evd(client, 8, DAT_EVD_DTO_FLAG);
	struct ia *ia = client->ia;

	mutex_lock(&ia->lock);
	timer_set_locked(ia, &evd->watch.timer, tp_now() + SECONDS(1000), run_nothing_locked);
	mutex_unlock(&ia->lock);
	ck_dat(evd_free(evd));
	ck_assert_uint_eq(evd->watch.timer.deadline, 0); /* its memory stays readable */
}
END_TEST

START_TEST(a_wait_without_descriptors_changes_nothing)
{
	DAT_EVD_HANDLE async;
	DAT_IA_HANDLE ia = ia_open_on("fake2", false, &async); /* no thread has slept here */

	limit_descriptors(0);
	ck_dat_is(evd_wait(async, SECONDS(1), 1, &event, &nmore), NO_RESOURCE(TEVD));
	ck_dat_is(evd_wait(async, 0, 1, &event, &nmore), TIMED_OUT);
	limit_descriptors(20);
	ck_dat_is(evd_wait(async, SECONDS(1), 1, &event, &nmore), TIMED_OUT);
	limit_descriptors(0);
	/* the IA has kept the one of the wait before */
	ck_dat_is(evd_wait(async, SECONDS(1), 1, &event, &nmore), TIMED_OUT);
	limit_descriptors(20);
	ck_dat(ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
}
END_TEST

/* The next one is told of completions. */
START_TEST(a_wait_without_descriptors_is_not_waited_for)
{
	CANCEL_FORBIDDEN;
	struct side side = { 0 };
	struct evd *evd;

	side_open(&side, "fake2");
	evd = side.recv_evd;
	limit_descriptors(0);
	ck_dat_is(evd_wait(evd, SECONDS(1), 1, &event, &nmore), NO_RESOURCE(TEVD));
	limit_descriptors(20);
	ck_assert(!watch_is_waited_for(&evd->watch));
	side_close(&side);
}
END_TEST

/* What woke one waiter does not wake the next one that sleeps on the same descriptor. */
START_TEST(a_descriptor_is_used_again_only_when_it_is_not_readable)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };
	unsigned arms;

	waiter.evd = side_create_evd(client, 8, DAT_EVD_SOFTWARE_FLAG);
	for (uintptr_t n = 0; n < 20; n++) {
		waiter_start(&waiter);
		post_se(waiter.evd, n);
		post_se(waiter.evd, n);
		ck_dat(waiter_join(&waiter));
		while (evd_dequeue(waiter.evd, &event) == DAT_SUCCESS)
			;
	}
	arms = fake_calls("cq_arm");
	waiter.evd = client->recv_evd;
	waiter_start(&waiter);
	ck_assert_uint_eq(fake_calls("cq_arm"), arms + 1); /* it went to sleep at once */
	ck_dat(evd_set_unwaitable(waiter.evd));
	ck_dat_is(waiter_join(&waiter), BAD_STATE(EVD_UNWAITABLE));
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("channel");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_loop_test(cases, polling_causes_no_interrupts, 0, 4);
	tcase_add_test(cases, a_queue_that_is_not_used_is_not_looked_at);
	tcase_add_test(cases, a_queue_is_not_looked_at_while_a_thread_waits);
	tcase_add_test(cases, a_failure_is_noticed_that_comes_as_its_queue_is_armed_again);
	tcase_add_loop_test(cases, a_failure_is_noticed_within_20_ms, 0, 2 * COUNT(channel_states));
	tcase_add_test(cases, a_wait_arms_once_and_takes_one_event);
	tcase_add_test(cases, short_waits_cause_no_looks_of_their_own);
	tcase_add_test(cases, a_cno_that_is_attached_after_a_wait_is_triggered);
	tcase_add_test(cases, a_cno_wait_arms_once_and_takes_one_event);
	tcase_add_loop_test(cases, a_failure_below_a_cno_is_noticed_within_20_ms, 0, 4);
	tcase_add_test(cases, a_failure_is_noticed_after_two_threads_have_waited_for_one_cno);
	tcase_add_loop_test(cases, a_failure_is_noticed_when_its_queue_is_armed_after_it, 0,
			    COUNT(rearmings));
	tcase_add_test(cases, a_look_polls_a_queue_that_has_missed_a_trigger_once);
	tcase_add_test(cases, a_completion_is_told_when_the_latch_was_taken_during_a_look);
	tcase_add_test(cases, a_completion_is_told_when_its_queue_is_armed_after_it);
	tcase_add_test(cases, completions_between_two_waits_trigger_the_cno);
	tcase_add_loop_test(cases, an_agent_is_called_at_once_after_waits, 0, 2);
	tcase_add_test(cases, an_agent_is_called_at_once_if_it_was_attached_when_a_wait_ended);
	tcase_add_test(cases,
		       the_end_of_a_connection_is_noticed_at_once_if_it_began_when_a_wait_ended);
	tcase_add_test(cases, the_end_of_a_connection_is_noticed_at_once_after_a_wait_for_its_cno);
	tcase_add_test(cases, a_channel_moves_with_its_evd);
	tcase_add_test(cases, only_a_completion_queue_takes_a_descriptor);
	tcase_add_test(cases, a_wait_without_descriptors_changes_nothing);
	tcase_add_test(cases, a_wait_without_descriptors_is_not_waited_for);
	tcase_add_test(cases, a_freed_evd_has_no_timer);
	tcase_add_test(cases, a_descriptor_is_used_again_only_when_it_is_not_readable);
	return run_unit_cases(argc, argv);
}
