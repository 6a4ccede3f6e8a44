/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads: each with an endpoint of its own, several on one endpoint, and shared EVDs that all of
 * them empty.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "peer.h"

#define THREADS	 8
#define MESSAGES 60
#define SIZE	 ((size_t)2000)

/* Shared by the threads of a test. */
static struct pair pair;
static _Atomic unsigned sent[THREADS], received[THREADS]; /* completions that somebody has seen */
static pthread_barrier_t start_together;

/* Whoever finds a completion books it for the endpoint that its cookie names. */
static bool book_one(DAT_EVD_HANDLE evd, _Atomic unsigned *counters)
{
	const DAT_DTO_COMPLETION_EVENT_DATA *dto;
	DAT_EVENT event;
	DAT_RETURN ret;

	ret = dat_evd_dequeue(evd, &event);
	if (ret == DAT_QUEUE_EMPTY)
		return false;
	must(ret);
	dto = &event.event_data.dto_completion_event_data;
	ck_assert_int_eq(event.event_number, DAT_DTO_COMPLETION_EVENT);
	ck_assert_int_eq(dto->status, DAT_DTO_SUCCESS);
	ck_assert_uint_lt(dto->user_cookie.as_64, THREADS);
	counters[dto->user_cookie.as_64]++;
	return true;
}

static void book_until(DAT_EVD_HANDLE evd, _Atomic unsigned *counters, unsigned mine,
		       unsigned count)
{
	while (counters[mine] < count)
		if (!book_one(evd, counters))
			sched_yield();
}

struct worker {
	pthread_t thread;
	unsigned number;
	DAT_EP_HANDLE near, far;
};

static void *own_endpoint_body(void *arg)
{
	struct worker *w = arg;
	struct memory from = memory_make(&pair.near, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	struct memory to = memory_make(&pair.far, 3 * SIZE, DAT_MEM_PRIV_ALL_FLAG);

	pthread_barrier_wait(&start_together);
	for (unsigned i = 0; i < MESSAGES; i++) {
		unsigned seed = w->number * MESSAGES + i;

		pattern_fill(from.at, SIZE, seed);
		memset(to.at, 0, 3 * SIZE);
		recv_post(w->far, w->number, seg(&to, 0, SIZE));
		write_post(w->near, w->number, seg(&from, 0, SIZE), target(&to, SIZE, SIZE), 0);
		send_post(w->near, w->number, seg(&from, 0, SIZE), 0);
		read_post(w->near, w->number, seg(&from, 0, SIZE), target(&to, SIZE, SIZE), 0);
		book_until(pair.far.recvs, received, w->number, i + 1);
		book_until(pair.near.requests, sent, w->number, 3 * (i + 1));
		pattern_check(to.at, SIZE, seed);
		pattern_check(to.at + SIZE, SIZE, seed);
		pattern_check(from.at, SIZE, seed);
		bytes_check(to.at + 2 * SIZE, SIZE, 0);
	}
	must(dat_lmr_free(from.lmr));
	must(dat_lmr_free(to.lmr));
	return NULL;
}

static void own_endpoints(bool threadsafe)
{
	struct worker workers[THREADS];

	side_open_as(&pair.near, ia_name(1, BY_INTERFACE), threadsafe);
	side_open_as(&pair.far, ia_name(0, BY_INTERFACE), threadsafe);
	memset(sent, 0, sizeof(sent));
	memset(received, 0, sizeof(received));
	pthread_barrier_init(&start_together, NULL, THREADS);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i].number = i;
		workers[i].near = ep_make(&pair.near, NULL);
		workers[i].far = ep_make(&pair.far, NULL);
		eps_connect(&pair.near, workers[i].near, &pair.far, workers[i].far);
	}
	for (unsigned i = 0; i < THREADS; i++)
		ck_assert_int_eq(
			pthread_create(&workers[i].thread, NULL, own_endpoint_body, &workers[i]),
			0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	no_event(pair.near.requests);
	no_event(pair.far.recvs);
	pair_close(&pair);
}

START_TEST(own_endpoints_and_shared_evds)
{
	own_endpoints(false);
	own_endpoints(true);
}
END_TEST

/* ---- one endpoint ---- */

#define POSTERS	 3
#define EACH	 200
#define RECEIVES (POSTERS * EACH) /* posted beforehand: on iWARP a message must find one */
#define MESSAGE	 64		  /* bytes: poster, number, then a pattern of both */

static void message_make(unsigned char *at, unsigned poster, unsigned number)
{
	at[0] = (unsigned char)poster;
	memcpy(at + 1, &number, sizeof(number));
	pattern_fill(at + 8, MESSAGE - 8, poster * EACH + number);
}

static void *poster_body(void *arg)
{
	struct worker *w = arg;
	struct memory from = memory_make(&pair.near, EACH * MESSAGE, DAT_MEM_PRIV_ALL_FLAG);

	pthread_barrier_wait(&start_together);
	for (unsigned i = 0; i < EACH; i++) {
		DAT_LMR_TRIPLET message = seg(&from, i * MESSAGE, MESSAGE);
		DAT_RETURN ret;

		message_make(from.at + i * MESSAGE, w->number, i);
		while ((ret = dat_ep_post_send(pair.near.ep, 1, &message, cookie(w->number), 0)) !=
		       DAT_SUCCESS) {
			returns(FAILS(INSUFFICIENT_RESOURCES, RESOURCE_MEMORY), ret);
			if (!book_one(pair.near.requests, sent))
				sched_yield();
		}
	}
	book_until(pair.near.requests, sent, w->number, EACH);
	must(dat_lmr_free(from.lmr));
	return NULL;
}

/* Each poster's messages come whole and in its order; those of different posters in any. */
static void messages_take(const struct memory *to)
{
	unsigned next[POSTERS] = { 0 };

	for (unsigned i = 0; i < RECEIVES; i++) {
		const unsigned char *at = to->at + i * MESSAGE;
		unsigned number, poster;

		dto_wait(pair.far.recvs, pair.far.ep, i, DAT_DTO_SUCCESS, MESSAGE);
		poster = at[0];
		ck_assert_uint_lt(poster, POSTERS);
		memcpy(&number, at + 1, sizeof(number));
		ck_assert_uint_eq(number, next[poster]++);
		pattern_check(at + 8, MESSAGE - 8, poster * EACH + number);
	}
}

START_TEST(one_endpoint_on_a_threadsafe_ia)
{
	const DAT_EP_ATTR attr = ep_attr(RECEIVES, 16);
	struct worker workers[POSTERS];
	struct memory to;

	side_open_as(&pair.near, ia_name(1, BY_INTERFACE), true);
	side_open_as(&pair.far, ia_name(0, BY_INTERFACE), true);
	must(dat_evd_create(pair.far.ia, RECEIVES, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG,
			    &pair.far.recvs));
	pair.near.ep = ep_make(&pair.near, &attr);
	pair.far.ep = ep_make(&pair.far, &attr);
	to = memory_make(&pair.far, RECEIVES * MESSAGE, DAT_MEM_PRIV_ALL_FLAG);
	for (unsigned i = 0; i < RECEIVES; i++)
		recv_post(pair.far.ep, i, seg(&to, i * MESSAGE, MESSAGE));
	pair_connect(&pair);
	pthread_barrier_init(&start_together, NULL, POSTERS);
	for (unsigned i = 0; i < POSTERS; i++) {
		workers[i].number = i;
		ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, poster_body, &workers[i]),
				 0);
	}
	messages_take(&to);
	for (unsigned i = 0; i < POSTERS; i++)
		pthread_join(workers[i].thread, NULL);
	no_event(pair.near.requests);
	pair_close(&pair);
}
END_TEST

/* ---- an end in the middle of it ---- */

/* Posts until the connection is over, and a little longer; and takes what was posted. */
static void *busy_body(void *arg)
{
	struct memory *from = arg;
	unsigned posted = 0, done = 0, late = 0;
	DAT_EVENT event;

	while (late < 3) {
		DAT_LMR_TRIPLET one = seg(from, 0, 8);
		DAT_RETURN ret = dat_ep_post_send(pair.near.ep, 1, &one, cookie(posted), 0);

		if (ret == DAT_SUCCESS)
			posted++;
		else if (ret != FAILS(INSUFFICIENT_RESOURCES, RESOURCE_MEMORY))
			returns(BAD_STATE(EP_DISCPENDING), ret);
		while (dat_evd_dequeue(pair.near.requests, &event) == DAT_SUCCESS)
			ck_assert_uint_eq(
				event.event_data.dto_completion_event_data.user_cookie.as_64,
				done++);
		late += ep_state(pair.near.ep) == DAT_EP_STATE_DISCONNECTED;
	}
	/* each once, in order, to the last */
	while (done < posted) {
		event = event_wait(pair.near.requests, DAT_DTO_COMPLETION_EVENT);
		ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64,
				  done++);
	}
	no_event(pair.near.requests);
	return NULL;
}

START_TEST(disconnect_under_a_busy_poster)
{
	struct memory from, to;
	pthread_t thread;

	pair_open_unconnected(&pair, NULL);
	from = memory_make(&pair.near, 8, DAT_MEM_PRIV_ALL_FLAG);
	to = memory_make(&pair.far, 8, DAT_MEM_PRIV_ALL_FLAG);
	for (unsigned round = 0; round < 20; round++) {
		pair_connect(&pair);
		for (unsigned i = 0; i < 8; i++)
			recv_post(pair.far.ep, i, seg(&to, 0, 8));
		ck_assert_int_eq(pthread_create(&thread, NULL, busy_body, &from), 0);
		dto_wait(pair.far.recvs, pair.far.ep, 0, DAT_DTO_SUCCESS, 8);
		must(dat_ep_disconnect(round % 2 ? pair.near.ep : pair.far.ep,
				       DAT_CLOSE_ABRUPT_FLAG));
		ended_wait(pair.near.connects, pair.near.ep);
		ended_wait(pair.far.connects, pair.far.ep);
		pthread_join(thread, NULL);
		for (unsigned i = 1; i < 8; i++)
			event_wait(pair.far.recvs, DAT_DTO_COMPLETION_EVENT);
		no_event(pair.far.recvs);
		must(dat_ep_reset(pair.near.ep));
		must(dat_ep_reset(pair.far.ep));
	}
	pair_close(&pair);
}
END_TEST

/* ---- everybody for himself ---- */

static void *life_body(void *arg)
{
	struct pair mine;

	(void)arg;
	pthread_barrier_wait(&start_together);
	for (unsigned i = 0; i < 4; i++) {
		pair_open(&mine, NULL);
		say_hello(&mine);
		pair_close(&mine);
	}
	return NULL;
}

START_TEST(whole_lives_side_by_side)
{
	pthread_t threads[4];

	pthread_barrier_init(&start_together, NULL, COUNT(threads));
	for (size_t i = 0; i < COUNT(threads); i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, life_body, NULL), 0);
	for (size_t i = 0; i < COUNT(threads); i++)
		pthread_join(threads[i], NULL);
}
END_TEST

int main(int argc, char **argv)
{
	const struct test tests[] = {
		{ own_endpoints_and_shared_evds, NEEDS_NOTHING },
		{ one_endpoint_on_a_threadsafe_ia, NEEDS_NOTHING },
		{ disconnect_under_a_busy_poster, NEEDS_NOTHING },
		{ whole_lives_side_by_side, NEEDS_NOTHING },
	};

	return run(argc, argv, tests, COUNT(tests));
}
