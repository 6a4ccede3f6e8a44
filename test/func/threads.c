/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads: each with an endpoint of its own, several on one endpoint, and EVDs from which all of
 * them take events.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "../consumer/consumer.h"

#define THREADS	 8
#define MESSAGES 60
#define SIZE	 ((size_t)2000)

/* Shared by the threads of a test. */
static struct pair pair;
static _Atomic unsigned sent[THREADS],
	received[THREADS]; /* completions, by the worker in their cookies */
static pthread_barrier_t barrier;

/* A thread counts each completion that it takes for the worker in the cookie. */
static bool count_one(DAT_EVD_HANDLE evd, _Atomic unsigned *counters)
{
	const DAT_DTO_COMPLETION_EVENT_DATA *dto;
	DAT_EVENT event;
	DAT_RETURN ret;

	ret = dat_evd_dequeue(evd, &event);
	if (ret == DAT_QUEUE_EMPTY)
		return false;
	ck_dat(ret);
	dto = &event.event_data.dto_completion_event_data;
	ck_assert_int_eq(event.event_number, DAT_DTO_COMPLETION_EVENT);
	ck_assert_int_eq(dto->status, DAT_DTO_SUCCESS);
	ck_assert_uint_lt(dto->user_cookie.as_64, THREADS);
	counters[dto->user_cookie.as_64]++;
	return true;
}

static void count_until(DAT_EVD_HANDLE evd, _Atomic unsigned *counters, unsigned mine,
			unsigned count)
{
	while (counters[mine] < count)
		if (!count_one(evd, counters))
			sched_yield();
}

struct worker {
	pthread_t thread;
	unsigned number;
	DAT_EP_HANDLE client_ep, server_ep;
};

static void *own_endpoint_main(void *arg)
{
	struct worker *w = arg;
	struct region from = region_map(&pair.client, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	struct region to = region_map(&pair.server, 3 * SIZE, DAT_MEM_PRIV_ALL_FLAG);

	pthread_barrier_wait(&barrier);
	for (unsigned i = 0; i < MESSAGES; i++) {
		unsigned seed = w->number * MESSAGES + i;

		pattern_fill(from.at, SIZE, seed);
		memset(to.at, 0, 3 * SIZE);
		post_recv(w->server_ep, w->number, region_segment(&to, 0, SIZE));
		post_write(w->client_ep, w->number, region_segment(&from, 0, SIZE),
			   region_target(&to, SIZE, SIZE), 0);
		post_send(w->client_ep, w->number, region_segment(&from, 0, SIZE), 0);
		post_read(w->client_ep, w->number, region_segment(&from, 0, SIZE),
			  region_target(&to, SIZE, SIZE), 0);
		count_until(pair.server.recv_evd, received, w->number, i + 1);
		count_until(pair.client.request_evd, sent, w->number, 3 * (i + 1));
		pattern_check(to.at, SIZE, seed);
		pattern_check(to.at + SIZE, SIZE, seed);
		pattern_check(from.at, SIZE, seed);
		bytes_check(to.at + 2 * SIZE, SIZE, 0);
	}
	ck_dat(dat_lmr_free(from.lmr));
	ck_dat(dat_lmr_free(to.lmr));
	return NULL;
}

static void run_own_endpoints(bool threadsafe)
{
	struct worker workers[THREADS];

	side_open_bare_as(&pair.client, ia_name(CLIENT, BY_INTERFACE), threadsafe);
	side_open_bare_as(&pair.server, ia_name(SERVER, BY_INTERFACE), threadsafe);
	memset(sent, 0, sizeof(sent));
	memset(received, 0, sizeof(received));
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i].number = i;
		workers[i].client_ep = side_create_ep(&pair.client, NULL);
		workers[i].server_ep = side_create_ep(&pair.server, NULL);
		connect_eps(&pair.client, workers[i].client_ep, &pair.server, workers[i].server_ep);
	}
	for (unsigned i = 0; i < THREADS; i++)
		workers[i].thread = consumer_thread_start(own_endpoint_main, &workers[i]);
	for (unsigned i = 0; i < THREADS; i++)
		consumer_thread_join(workers[i].thread);
	expect_no_event(pair.client.request_evd);
	expect_no_event(pair.server.recv_evd);
	pair_close_abrupt(&pair);
}

START_TEST(threads_share_the_evds_of_their_endpoints)
{
	run_own_endpoints(false);
	run_own_endpoints(true);
}
END_TEST

/* ---- one endpoint ---- */

#define POSTERS	 3
#define EACH	 200
#define RECEIVES (POSTERS * EACH) /* posted before: on iWARP a message must find one */
#define MESSAGE	 64		  /* bytes: poster, number, and a pattern of both */

static void fill_message(unsigned char *at, unsigned poster, unsigned number)
{
	at[0] = (unsigned char)poster;
	memcpy(at + 1, &number, sizeof(number));
	pattern_fill(at + 8, MESSAGE - 8, poster * EACH + number);
}

static void *sender_main(void *arg)
{
	struct worker *w = arg;
	struct region from = region_map(&pair.client, EACH * MESSAGE, DAT_MEM_PRIV_ALL_FLAG);

	pthread_barrier_wait(&barrier);
	for (unsigned i = 0; i < EACH; i++) {
		DAT_LMR_TRIPLET message = region_segment(&from, i * MESSAGE, MESSAGE);
		DAT_RETURN ret;

		fill_message(from.at + i * MESSAGE, w->number, i);
		while ((ret = dat_ep_post_send(pair.client.ep, 1, &message, cookie_of(w->number),
					       0)) != DAT_SUCCESS) {
			ck_dat_is(ret, NO_RESOURCE(MEMORY));
			if (!count_one(pair.client.request_evd, sent))
				sched_yield();
		}
	}
	count_until(pair.client.request_evd, sent, w->number, EACH);
	ck_dat(dat_lmr_free(from.lmr));
	return NULL;
}

/* The messages of each poster arrive whole and in its order, those of different posters in any. */
static void expect_messages(const struct region *to)
{
	unsigned next[POSTERS] = { 0 };

	for (unsigned i = 0; i < RECEIVES; i++) {
		const unsigned char *at = to->at + i * MESSAGE;
		unsigned number, poster;

		expect_recv_done(&pair.server, i, MESSAGE);
		poster = at[0];
		ck_assert_uint_lt(poster, POSTERS);
		memcpy(&number, at + 1, sizeof(number));
		ck_assert_uint_eq(number, next[poster]++);
		pattern_check(at + 8, MESSAGE - 8, poster * EACH + number);
	}
}

START_TEST(threads_share_an_endpoint_of_a_thread_safe_ia)
{
	const DAT_EP_ATTR attr = ep_attr_for(RECEIVES, 16);
	struct worker workers[POSTERS];
	struct region to;

	side_open_bare_as(&pair.client, ia_name(CLIENT, BY_INTERFACE), true);
	side_open_bare_as(&pair.server, ia_name(SERVER, BY_INTERFACE), true);
	ck_dat(dat_evd_create(pair.server.ia, RECEIVES, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG,
			      &pair.server.recv_evd));
	pair.client.ep = side_create_ep(&pair.client, &attr);
	pair.server.ep = side_create_ep(&pair.server, &attr);
	to = region_map(&pair.server, RECEIVES * MESSAGE, DAT_MEM_PRIV_ALL_FLAG);
	for (unsigned i = 0; i < RECEIVES; i++)
		post_recv(pair.server.ep, i, region_segment(&to, i * MESSAGE, MESSAGE));
	pair_connect(&pair);
	pthread_barrier_init(&barrier, NULL, POSTERS);
	for (unsigned i = 0; i < POSTERS; i++) {
		workers[i].number = i;
		workers[i].thread = consumer_thread_start(sender_main, &workers[i]);
	}
	expect_messages(&to);
	for (unsigned i = 0; i < POSTERS; i++)
		consumer_thread_join(workers[i].thread);
	expect_no_event(pair.client.request_evd);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- both directions of an endpoint at once ---- */

#define ROUNDS	 200
#define EARLY	 4 /* receives before the connection */
#define BESIDE	 ((size_t)64)
#define LARGEST	 ((size_t)16384) /* of the reads */
#define TWO_WAYS 2

/* One of the two ends. Posts take its regions in turns, so that none is like the one before. */
static struct way {
	struct side *side;
	const struct way *peer;
	struct region regions[2];
} ways[TWO_WAYS];

/* What the end receives, one after the other. */
static void way_post_recv(const struct way *way, unsigned i)
{
	post_recv(way->side->ep, i,
		  region_segment(&way->regions[i % 2], i / 2 % EARLY * BESIDE, BESIDE));
}

static void *receiver_main(void *arg)
{
	const struct way *way = arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		expect_recv_done(way->side, i, BESIDE);
		if (i + EARLY < ROUNDS)
			way_post_recv(way, i + EARLY);
	}
	return NULL;
}

/* A read, and a message that waits for it. */
static void *requester_main(void *arg)
{
	const struct way *way = arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		const struct region *own = &way->regions[i % 2];
		const size_t length = i % 8 ? BESIDE : LARGEST, at = EARLY * BESIDE;

		post_read(way->side->ep, i, region_segment(own, at, length),
			  region_target(&way->peer->regions[i / 2 % 2], at + LARGEST, length), 0);
		post_send(way->side->ep, i, region_segment(own, at, BESIDE),
			  DAT_COMPLETION_BARRIER_FENCE_FLAG);
		expect_request_done(way->side, i, length);
		expect_request_done(way->side, i, BESIDE);
	}
	return NULL;
}

static void way_open(struct way *way, struct side *side, const struct way *peer)
{
	*way = (struct way){ .side = side, .peer = peer };
	for (unsigned i = 0; i < COUNT(way->regions); i++)
		way->regions[i] = region_map(side, EARLY * BESIDE + 2 * LARGEST,
					     DAT_MEM_PRIV_ALL_FLAG);
	for (unsigned i = 0; i < EARLY; i++)
		way_post_recv(way, i);
}

START_TEST(both_directions_of_an_endpoint_are_used_at_once)
{
	pthread_t threads[2 * TWO_WAYS];

	side_open_bare_as(&pair.client, ia_name(CLIENT, BY_INTERFACE), true);
	side_open_bare_as(&pair.server, ia_name(SERVER, BY_INTERFACE), true);
	pair.client.ep = side_create_ep(&pair.client, NULL);
	pair.server.ep = side_create_ep(&pair.server, NULL);
	way_open(&ways[0], &pair.client, &ways[1]);
	way_open(&ways[1], &pair.server, &ways[0]);
	pair_connect(&pair);
	for (unsigned i = 0; i < 2 * TWO_WAYS; i++)
		threads[i] = consumer_thread_start(i % 2 ? receiver_main : requester_main,
						   &ways[i / 2]);
	for (unsigned i = 0; i < 2 * TWO_WAYS; i++)
		consumer_thread_join(threads[i]);
	expect_no_event(pair.client.request_evd);
	expect_no_event(pair.server.request_evd);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- waits for messages and for requests ---- */

#define WAIT_ROUNDS 5
#define MANY_WRITES 64 /* so many of them wake a sleeper over tcp that it leaves them to others */
#define FEW_WRITES  8
#define PAUSE	    5000 /* us; the provider looks now and then who waits where */

static void *message_waiter_main(void *unused)
{
	expect_recv_done(&pair.client, 0, 8);
	return unused;
}

static void *request_waiter_main(void *unused)
{
	expect_request_done(&pair.client, 0, 8);
	return unused;
}

static void peer_writes(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		post_write(pair.server.ep, i, segment(&pair.server, 0, 8),
			   target(&pair.client, 8, 8), DAT_COMPLETION_DEFAULT_FLAG);
		expect_request_done(&pair.server, i, 8);
	}
}

static void pause_for_the_provider(void)
{
	DAT_EVENT event;
	DAT_COUNT nmore;

	ck_dat_is(dat_evd_wait(pair.server.connect_evd, PAUSE, 1, &event, &nmore),
		  DAT_ERROR(DAT_TIMEOUT_EXPIRED, DAT_NO_SUBTYPE));
}

/* Who waits for a request, which nobody posts meanwhile, takes part in what moves the message. */
static void wait_for_messages_and_requests(DAT_COMPLETION_FLAGS recv_completion_flags)
{
	DAT_EP_ATTR attr = ep_attr_for(4, 4);
	pthread_t message, request;

	attr.recv_completion_flags = recv_completion_flags;
	pair_open(&pair, &attr);
	for (unsigned round = 0; round < WAIT_ROUNDS; round++) {
		post_recv(pair.client.ep, 0, segment(&pair.client, 0, 8));
		post_recv(pair.server.ep, 1, segment(&pair.server, 8, 8));
		message = consumer_thread_start(message_waiter_main, NULL);
		peer_writes(MANY_WRITES);
		request = consumer_thread_start(request_waiter_main, NULL);
		for (unsigned i = 0; i < FEW_WRITES; i++) {
			peer_writes(1);
			pause_for_the_provider();
		}
		post_send(pair.server.ep, 2, segment(&pair.server, 0, 8),
			  DAT_COMPLETION_SOLICITED_WAIT_FLAG);
		consumer_thread_join(message);
		expect_request_done(&pair.server, 2, 8);
		post_send(pair.client.ep, 0, segment(&pair.client, 0, 8),
			  DAT_COMPLETION_DEFAULT_FLAG);
		consumer_thread_join(request);
		expect_recv_done(&pair.server, 1, 8);
	}
	pair_close_abrupt(&pair);
}

START_TEST(message_wakes_its_waiter_beside_one_that_waits_for_a_request)
{
	wait_for_messages_and_requests(DAT_COMPLETION_DEFAULT_FLAG);
}
END_TEST

START_TEST(solicited_message_wakes_its_waiter_beside_one_that_waits_for_a_request)
{
	wait_for_messages_and_requests(DAT_COMPLETION_SOLICITED_WAIT_FLAG);
}
END_TEST

/* ---- a disconnect during posts ---- */

/* Posts until shortly after the end of the connection, and takes the completions. */
static void *busy_poster_main(void *arg)
{
	struct region *from = arg;
	unsigned posted = 0, done = 0, late = 0;
	DAT_EVENT event;

	while (late < 3) {
		DAT_LMR_TRIPLET one = region_segment(from, 0, 8);
		DAT_RETURN ret = dat_ep_post_send(pair.client.ep, 1, &one, cookie_of(posted), 0);

		if (ret == DAT_SUCCESS)
			posted++;
		else if (ret != NO_RESOURCE(MEMORY))
			ck_dat_is(ret, BAD_STATE(EP_DISCPENDING));
		while (dat_evd_dequeue(pair.client.request_evd, &event) == DAT_SUCCESS)
			ck_assert_uint_eq(
				event.event_data.dto_completion_event_data.user_cookie.as_64,
				done++);
		late += ep_get_state(pair.client.ep) == DAT_EP_STATE_DISCONNECTED;
	}
	/* each once, in order, to the last */
	while (done < posted) {
		event = expect_event(pair.client.request_evd, DAT_DTO_COMPLETION_EVENT);
		ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64,
				  done++);
	}
	expect_no_event(pair.client.request_evd);
	return NULL;
}

START_TEST(disconnect_completes_concurrent_posts)
{
	struct region from;
	pthread_t thread;

	pair_open_unconnected(&pair, NULL);
	from = region_map(&pair.client, 8, DAT_MEM_PRIV_ALL_FLAG);
	for (unsigned round = 0; round < 20; round++) {
		pair_connect(&pair);
		for (unsigned i = 0; i < 8; i++)
			post_recv(pair.server.ep, i, segment(&pair.server, 0, 8));
		thread = consumer_thread_start(busy_poster_main, &from);
		expect_recv_done(&pair.server, 0, 8);
		ck_dat(dat_ep_disconnect(round % 2 ? pair.client.ep : pair.server.ep,
					 DAT_CLOSE_ABRUPT_FLAG));
		expect_ends(&pair);
		consumer_thread_join(thread);
		for (unsigned i = 1; i < 8; i++)
			expect_event(pair.server.recv_evd, DAT_DTO_COMPLETION_EVENT);
		expect_no_event(pair.server.recv_evd);
		pair_reset(&pair);
	}
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- connections in parallel ---- */

static void *connect_and_close_main(void *arg)
{
	struct pair mine;

	(void)arg;
	pthread_barrier_wait(&barrier);
	for (unsigned i = 0; i < 4; i++) {
		pair_open(&mine, NULL);
		exchange_messages(&mine);
		pair_close_abrupt(&mine);
	}
	return NULL;
}

START_TEST(threads_open_and_close_in_parallel)
{
	pthread_t threads[4];

	pthread_barrier_init(&barrier, NULL, COUNT(threads));
	for (size_t i = 0; i < COUNT(threads); i++)
		threads[i] = consumer_thread_start(connect_and_close_main, NULL);
	for (size_t i = 0; i < COUNT(threads); i++)
		consumer_thread_join(threads[i]);
}
END_TEST

int main(int argc, char **argv)
{
	const struct device_case cases[] = {
		{ threads_share_the_evds_of_their_endpoints, NEEDS_NOTHING },
		{ threads_share_an_endpoint_of_a_thread_safe_ia, NEEDS_NOTHING },
		{ both_directions_of_an_endpoint_are_used_at_once, NEEDS_RNR },
		{ message_wakes_its_waiter_beside_one_that_waits_for_a_request, NEEDS_NOTHING },
		{ solicited_message_wakes_its_waiter_beside_one_that_waits_for_a_request,
		  NEEDS_NOTHING },
		{ disconnect_completes_concurrent_posts, NEEDS_NOTHING },
		{ threads_open_and_close_in_parallel, NEEDS_NOTHING },
	};

	return run_on_device(argc, argv, cases, COUNT(cases));
}
