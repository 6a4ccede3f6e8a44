/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One EVD in the hands of four threads: one posts, one consumes, one resizes it and makes it
 * unwaitable, one changes its CNO, its notification and its mode. In the end it is freed. One of
 * its two CNOs has another EVD in its latch all the time, so there it is one that misses triggers.
 *
 * Each event arrives once, in order, and no thread is left asleep: the clock stands still, so a
 * wake-up that is lost is not made up for. STORM_SECONDS in the environment has it run for so long,
 * which the thread sanitizer is meant for; otherwise it is STORM_ROUNDS.
 */
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>

#include "harness.h"

#define STORM_ROUNDS 200
#define EVENTS	     150 /* of each kind, in a round */

#define SOLICITED DAT_COMPLETION_SOLICITED_WAIT_FLAG

static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;
static DAT_EVD_HANDLE evd;
static DAT_CNO_HANDLE cno, other_cno;
static sem_t consumed;
static atomic_bool calm; /* all is posted: the threads that disturb come to an end */

static unsigned storm_seconds(void)
{
	const char *text = getenv("STORM_SECONDS");

	return text ? (unsigned)atoi(text) : 0;
}

/* A small generator of its own for each thread. */
static unsigned storm_random(unsigned *state, unsigned below)
{
	*state = *state * 1103515245 + 12345;
	return (*state >> 16) % below;
}

static bool is_gone(DAT_RETURN ret)
{
	return ret == DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
}

/* ---- the one that posts ---- */

/* Sends a message from the server. Returns false if it is to be tried again. */
static bool storm_send(uint64_t n)
{
	static bool received; /* the receive for it is posted */
	DAT_EVENT event;

	if (!received)
		received = try_recv(client, n, 0, 64, DAT_COMPLETION_DEFAULT_FLAG) == DAT_SUCCESS;
	while (evd_dequeue(server->request_evd, &event) == DAT_SUCCESS)
		;
	if (!received || try_send(server, n, 0, 8, SOLICITED) != DAT_SUCCESS)
		return false;
	received = false;
	return true;
}

static void *storm_post(void *unused)
{
	uint64_t sent = 0, posted = 0;

	(void)unused;
	while (sent < EVENTS || posted < EVENTS) {
		if (sent < EVENTS && storm_send(sent))
			sent++;
		else if (posted < EVENTS && try_post_se(evd, posted) == DAT_SUCCESS)
			posted++;
		else
			sched_yield();
	}
	atomic_store(&calm, true);
	return NULL;
}

/* ---- the one that consumes ---- */

/* How many of each kind have arrived. */
struct arrived {
	uint64_t messages, software;
};

static void storm_arrive(struct arrived *arrived, const DAT_EVENT *event)
{
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event->event_data.dto_completion_event_data;

	if (event->event_number == DAT_SOFTWARE_EVENT) {
		ck_assert_uint_eq((uintptr_t)event->event_data.software_event_data.pointer,
				  arrived->software++);
		return;
	}
	ck_assert_int_eq(event->event_number, DAT_DTO_COMPLETION_EVENT);
	ck_assert_int_eq(dto->status, DAT_DTO_SUCCESS);
	ck_assert_uint_eq(dto->user_cookie.as_64, arrived->messages++);
}

static bool has_all(const struct arrived *arrived)
{
	return arrived->messages == EVENTS && arrived->software == EVENTS;
}

static void storm_dequeue_all(struct arrived *arrived)
{
	DAT_EVENT event;

	while (evd_dequeue(evd, &event) == DAT_SUCCESS)
		storm_arrive(arrived, &event);
}

static void storm_wait(struct arrived *arrived, DAT_TIMEOUT timeout, DAT_COUNT threshold)
{
	DAT_EVENT event;
	DAT_COUNT nmore;

	if (evd_wait(evd, timeout, threshold, &event, &nmore) == DAT_SUCCESS)
		storm_arrive(arrived, &event);
	else
		sched_yield(); /* unwaitable right now, or too short for the threshold */
}

static void *storm_consume(void *seed)
{
	struct arrived arrived = { 0, 0 };
	unsigned state = (unsigned)(uintptr_t)seed;
	DAT_EVD_HANDLE hint;
	DAT_EVENT event;
	DAT_COUNT nmore;

	while (!has_all(&arrived)) {
		switch (storm_random(&state, 8)) {
		case 0:
			storm_dequeue_all(&arrived);
			break;
		case 1:
			storm_wait(&arrived, 0, 2);
			break;
		case 2:
			storm_dequeue_all(&arrived); /* what a wait left makes no notification */
			if (!has_all(&arrived))
				ck_dat(cno_wait(cno, DAT_TIMEOUT_INFINITE, &hint));
			break;
		default:
			storm_wait(&arrived, DAT_TIMEOUT_INFINITE, 1);
			break;
		}
	}
	sem_post(&consumed);
	/* Nothing is left: from here on it sleeps until the EVD is freed. */
	for (;;) {
		DAT_RETURN ret = evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &nmore);

		ck_assert_msg(ret != DAT_SUCCESS, "event %#x arrives twice", event.event_number);
		if (ret == DAT_ERROR(DAT_ABORT, 0) || is_gone(ret))
			return NULL;
		sched_yield();
	}
}

/* ---- those that disturb ---- */

static void *storm_resize(void *seed)
{
	unsigned state = (unsigned)(uintptr_t)seed;
	DAT_EVD_PARAM param;
	DAT_RETURN ret;

	do {
		evd_set_unwaitable(evd);
		ret = evd_resize(evd, (DAT_COUNT)(1 + storm_random(&state, 300)));
		evd_clear_unwaitable(evd);
		if (evd_query(evd, DAT_EVD_FIELD_ALL, &param) == DAT_SUCCESS)
			ck_assert_int_gt(param.evd_qlen, 0);
		if (storm_random(&state, 4) == 0)
			sched_yield();
	} while (!is_gone(ret)); /* it goes on while the EVD is freed */
	return NULL;
}

/* Another endpoint changes the mode of the EVD from solicited to threshold, and back. */
static void change_mode(void)
{
	DAT_EP_HANDLE ep;

	ck_dat(ep_create(client->ia, client->pz, evd, client->request_evd, client->connect_evd,
			 NULL, &ep));
	ck_dat(ep_free(ep));
}

static void *storm_notify(void *seed)
{
	unsigned state = (unsigned)(uintptr_t)seed;

	while (!atomic_load(&calm)) {
		const bool enabled = storm_random(&state, 2);

		if (!enabled)
			ck_dat(evd_disable(evd));
		if (storm_random(&state, 2))
			ck_dat(evd_modify_cno(evd, enabled ? other_cno : DAT_HANDLE_NULL));
		if (storm_random(&state, 2))
			change_mode();
		ck_dat(evd_modify_cno(evd, cno));
		ck_dat(evd_enable(evd));
		sched_yield();
	}
	return NULL;
}

/* ---- a round ---- */

static void round_begin(void)
{
	static DAT_EP_ATTR attr;

	attr = ep_attr_default(client);
	attr.recv_completion_flags = SOLICITED;
	evd = side_create_evd(client, 8, DAT_EVD_DTO_FLAG | DAT_EVD_SOFTWARE_FLAG);
	ck_dat(evd_modify_cno(evd, cno));
	ck_dat(ep_create(client->ia, client->pz, evd, client->request_evd, client->connect_evd,
			 &attr, &client->ep));
	server->ep = side_create_ep(server, NULL);
	connect_eps(client, client->ep, server, server->ep);
	atomic_store(&calm, false);
}

static void storm_round(unsigned seed)
{
	pthread_t poster, consumer, resizer, notifier;

	round_begin();
	consumer = consumer_thread_start(storm_consume, (void *)(uintptr_t)seed);
	resizer = consumer_thread_start(storm_resize, (void *)(uintptr_t)(seed + 1));
	notifier = consumer_thread_start(storm_notify, (void *)(uintptr_t)(seed + 2));
	poster = consumer_thread_start(storm_post, NULL);
	consumer_thread_join(poster);
	consumer_thread_join(notifier);
	while (sem_wait(&consumed) < 0)
		; /* what has not been consumed would go with the endpoint */
	ck_dat(ep_free(client->ep));
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(ep_free(server->ep));
	while (evd_free(evd) != DAT_SUCCESS)
		sched_yield();
	consumer_thread_join(consumer);
	consumer_thread_join(resizer);
}

START_TEST(each_event_arrives_and_each_wait_ends)
{
	const unsigned seconds = storm_seconds();
	const time_t end = time(NULL) + (time_t)seconds;
	DAT_EVD_HANDLE latched;
	unsigned round;

	ck_assert_int_eq(sem_init(&consumed, 0, 0), 0);
	fake_quirks(FAKE_LAST_ARM_WINS);
	side_open(client, "fake0");
	side_open(server, "fake1");
	ck_dat(ep_free(client->ep));
	ck_dat(ep_free(server->ep));
	ck_dat(cno_create(client->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(cno_create(client->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &other_cno));
	ck_dat(evd_create(client->ia, 1, other_cno, DAT_EVD_SOFTWARE_FLAG, &latched));
	post_se(latched, 1);
	for (round = 0; seconds ? time(NULL) < end : round < STORM_ROUNDS; round++)
		storm_round(3 * round);
	if (seconds)
		printf("# %u rounds\n", round);
	ck_dat(evd_free(latched));
	ck_dat(cno_free(other_cno));
	ck_dat(cno_free(cno));
	client->ep = side_create_ep(client, NULL);
	server->ep = side_create_ep(server, NULL);
	side_close(client);
	side_close(server);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("storm");

	tcase_set_timeout(cases, 300 + 2 * (double)storm_seconds());
	tcase_add_test(cases, each_event_arrives_and_each_wait_ends);
	return run_unit_cases(argc, argv);
}
