/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The protocols, for clock_raw.c and clock_dat.c, which include this file after they have defined,
 * each with its own calls:
 *
 *	struct queues		where completions arrive
 *	struct end		an endpoint: the client's or the server's
 *	ends_open		opens what all connections share
 *	queues_open		for so many endpoints
 *	end_recv, end_send	of so many bytes
 *	end_post_write, end_bind
 *	end_write_to		writes the first bytes of memory to the second half of a peer's
 *	end_poll_recv, end_poll_request		take a completion, if there is one
 *	end_progress		what a program has to do while it waits for bytes in its memory
 *	end_flushed_recv	waits for a receive that was flushed
 *	end_wait_recv		waits for a receive, asleep if there is none
 *	pair_create		the endpoints, connected
 *	pair_disconnect		returns when both are told
 *	pair_free
 *	memory_register		registers BLOCK bytes and releases them
 */
#ifndef CLOCK_PROTOCOLS_H
#define CLOCK_PROTOCOLS_H

#include <pthread.h>
#include <sched.h>

static inline void end_post_recv(struct end *end)
{
	end_recv(end, MESSAGE);
}

static inline void end_post_send(struct end *end)
{
	end_send(end, MESSAGE);
}

static struct pair pairs[THREADS];    /* polled */
static struct pair asleep_pair;	      /* each end always has a receive posted */
static struct queues flush_queues[2]; /* of connections that end */

static void pair_open(struct pair *pair)
{
	struct queues *queues = calloc(2, sizeof(*queues));

	MUST(queues);
	queues_open(queues, 1);
	pair_create(pair, queues);
}

static void protocols_open(void)
{
	ends_open();
	for (int i = 0; i < THREADS; i++)
		pair_open(&pairs[i]);
	pair_open(&asleep_pair);
	end_post_recv(&asleep_pair.client);
	end_post_recv(&asleep_pair.server);
	queues_open(flush_queues, 1);
}

/* ---- polled ---- */

static inline void request_await(struct end *end)
{
	while (!end_poll_request(end))
		;
}

/* Of a request that the peer has to answer. */
static inline void answer_await(struct end *end, struct end *peer)
{
	while (!end_poll_request(end))
		if (peers_poll)
			(void)end_poll_recv(peer);
}

static inline void message_polled(struct end *from, struct end *to)
{
	end_post_recv(to);
	end_post_send(from);
	while (!end_poll_recv(to))
		;
	request_await(from);
}

static void ping_pong(struct pair *pair, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		message_polled(&pair->client, &pair->server);
		message_polled(&pair->server, &pair->client);
	}
}

static uint64_t run_ping_pong(unsigned n)
{
	uint64_t began = clock_ns();

	ping_pong(&pairs[0], n);
	return clock_ns() - began;
}

static inline uint64_t writes_ahead(unsigned n, uint32_t size, unsigned ahead)
{
	struct end *client = &pairs[0].client, *server = &pairs[0].server;
	uint64_t began = clock_ns();
	unsigned posted = 0;

	for (unsigned done = 0; done < n; done++) {
		for (; posted < n && posted < done + ahead; posted++)
			end_post_write(client, size, server_key);
		answer_await(client, server);
	}
	return clock_ns() - began;
}

static uint64_t run_writes(unsigned n)
{
	return writes_ahead(n, BLOCK, AHEAD);
}

static uint64_t run_large_writes(unsigned n)
{
	return writes_ahead(n, LARGE, LARGE_AHEAD);
}

static uint64_t run_sized_writes(unsigned n)
{
	return writes_ahead(n, sized_bytes, sized_bytes < LARGE ? AHEAD : LARGE_AHEAD);
}

/* Of a long message the sender has to send on while it arrives. */
static void sized_message(struct end *from, struct end *to)
{
	bool sent = false, received = false;

	end_recv(to, sized_bytes);
	end_send(from, sized_bytes);
	while (!sent || !received) {
		received = received || end_poll_recv(to);
		sent = sent || end_poll_request(from);
	}
}

static uint64_t run_sized_messages(unsigned n)
{
	struct pair *pair = &pairs[0];
	uint64_t began = clock_ns();

	for (unsigned i = 0; i < n; i++) {
		sized_message(&pair->client, &pair->server);
		sized_message(&pair->server, &pair->client);
	}
	return clock_ns() - began;
}

static uint64_t run_large_sends(unsigned n)
{
	struct end *client = &pairs[0].client, *server = &pairs[0].server;
	uint64_t began = clock_ns();
	unsigned posted = 0, received = 0, sent = 0;

	while (received < n || sent < n) {
		for (; posted < n && posted < received + LARGE_AHEAD; posted++) {
			end_recv(server, LARGE);
			end_send(client, LARGE);
		}
		received += end_poll_recv(server);
		if (sent < posted)
			sent += end_poll_request(client);
	}
	return clock_ns() - began;
}

static uint64_t run_register(unsigned n)
{
	uint64_t began = clock_ns();

	for (unsigned i = 0; i < n; i++)
		memory_register();
	return clock_ns() - began;
}

static uint64_t run_bind(unsigned n)
{
	struct pair *pair = &pairs[0];
	uint64_t began = clock_ns();

	for (unsigned i = 0; i < n; i++) {
		uint32_t key = end_bind(&pair->server);

		end_post_write(&pair->client, MESSAGE, key);
		answer_await(&pair->client, &pair->server);
	}
	return clock_ns() - began;
}

/* ---- two threads ---- */

static inline void recv_await(struct end *end)
{
	while (!end_poll_recv(end))
		;
}

/* The receive of the answer is posted first. */
static inline void message_send(struct end *end)
{
	end_post_recv(end);
	end_post_send(end);
	request_await(end);
}

static void *echo_polled(void *arg)
{
	struct end *end = &pairs[1].server;

	for (unsigned n = *(unsigned *)arg; n > 1; n--) {
		recv_await(end);
		message_send(end);
	}
	recv_await(end);
	end_post_send(end);
	request_await(end);
	return NULL;
}

static uint64_t run_ping_pong_two(unsigned n)
{
	struct end *end = &pairs[1].client;
	uint64_t began;
	pthread_t thread;

	end_post_recv(&pairs[1].server);
	MUST(!pthread_create(&thread, NULL, echo_polled, &n));
	began = clock_ns();
	for (unsigned i = 0; i < n; i++) {
		message_send(end);
		recv_await(end);
	}
	began = clock_ns() - began;
	MUST(!pthread_join(thread, NULL));
	return began;
}

/* ---- processors ---- */

/* Whether two threads that sleep share a processor decides how long they need. */
struct processors {
	cpu_set_t all;	  /* that the process may use */
	cpu_set_t client; /* the first one of them ... */
	cpu_set_t server; /* ... and the same or, if there is one, the last one */
};

static struct processors processors_choose(bool apart)
{
	struct processors chosen;
	int first = CPU_SETSIZE, last = 0;

	MUST(!sched_getaffinity(0, sizeof(chosen.all), &chosen.all));
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &chosen.all)) {
			first = i < first ? i : first;
			last = i;
		}
	CPU_ZERO(&chosen.client);
	CPU_SET(first, &chosen.client);
	CPU_ZERO(&chosen.server);
	CPU_SET(apart ? last : first, &chosen.server);
	return chosen;
}

static void thread_pin(const cpu_set_t *to)
{
	MUST(!sched_setaffinity(0, sizeof(*to), to));
}

/* ---- writes of which the peer sees the last byte ---- */

/* How a program takes the completions of its writes, and whether it polls for other reasons. */
struct manner {
	uint32_t size;	 /* of a write */
	unsigned after;	 /* when so many are outstanding, it polls once ... */
	unsigned behind; /* ... and on until no more than these are */
	bool dequeues;	 /* as long as it waits for the peer */
};

struct writer {
	struct end *end, *peer;
	const struct manner *manner;
	unsigned outstanding;
};

static volatile char *writer_last_byte(const struct writer *writer)
{
	return writer->end->node->memory + MEMORY / 2 + writer->manner->size - 1;
}

static void writer_poll(struct writer *writer)
{
	writer->outstanding -= end_poll_request(writer->end);
}

/* The byte that ends it is that of the round, which is never 0. */
static void writer_write(struct writer *writer, unsigned round)
{
	const struct manner *manner = writer->manner;

	writer->end->node->memory[manner->size - 1] = (char)(round % UINT8_MAX + 1);
	end_write_to(writer->end, writer->peer, manner->size);
	if (++writer->outstanding < manner->after)
		return;
	do
		writer_poll(writer);
	while (writer->outstanding > manner->behind);
}

/* @peer: of the same thread, or NULL. */
static void writer_await(struct writer *writer, struct writer *peer, unsigned round)
{
	while (*writer_last_byte(writer) != (char)(round % UINT8_MAX + 1)) {
		end_progress(writer->end);
		if (peer)
			end_progress(peer->end);
		if (writer->manner->dequeues) {
			(void)end_poll_recv(writer->end);
			writer_poll(writer);
		}
		if (writer->manner->dequeues && peer)
			writer_poll(peer);
	}
}

static void writers_begin(struct writer writers[2], const struct manner *manner)
{
	struct pair *pair = &pairs[2];

	writers[0] = (struct writer){ &pair->client, &pair->server, manner, 0 };
	writers[1] = (struct writer){ &pair->server, &pair->client, manner, 0 };
	for (int i = 0; i < 2; i++)
		*writer_last_byte(&writers[i]) = 0;
}

static void writers_end(struct writer writers[2])
{
	while (writers[0].outstanding || writers[1].outstanding)
		for (int i = 0; i < 2; i++)
			writer_poll(&writers[i]);
}

/* By one thread, which leaves a processor to the others. */
static uint64_t write_both_ways(unsigned n, const struct manner *manner)
{
	struct writer writers[2];
	uint64_t began = clock_ns();

	writers_begin(writers, manner);
	for (unsigned round = 0; round < n; round++)
		for (int i = 0; i < 2; i++) {
			writer_write(&writers[i], round);
			writer_await(&writers[!i], &writers[i], round);
		}
	began = clock_ns() - began;
	writers_end(writers);
	return began;
}

struct writer_thread {
	struct writer *writer;
	unsigned n;
	struct processors processors;
};

static void *writer_main(void *arg)
{
	const struct writer_thread *this = arg;

	thread_pin(&this->processors.server);
	for (unsigned round = 0; round < this->n; round++) {
		writer_await(this->writer, NULL, round);
		writer_write(this->writer, round);
	}
	return NULL;
}

/* By two threads, each on a processor of its own. */
static uint64_t write_to_and_fro(unsigned n, const struct manner *manner)
{
	struct writer_thread server = { .n = n, .processors = processors_choose(true) };
	struct writer writers[2];
	pthread_t thread;
	uint64_t began;

	writers_begin(writers, manner);
	server.writer = &writers[1];
	thread_pin(&server.processors.client);
	MUST(!pthread_create(&thread, NULL, writer_main, &server));
	began = clock_ns();
	for (unsigned round = 0; round < n; round++) {
		writer_write(&writers[0], round);
		writer_await(&writers[0], NULL, round);
	}
	began = clock_ns() - began;
	MUST(!pthread_join(thread, NULL));
	thread_pin(&server.processors.all);
	writers_end(writers);
	return began;
}

static const struct manner dequeues = { MESSAGE, 1, DEPTH - 1, true };
static const struct manner one_dequeue = { MESSAGE, 1, DEPTH - 1, false };
static const struct manner rare_dequeues = { MESSAGE, RARELY, 0, false };
static const struct manner large_writes = { LARGE_WRITE, 1, DEPTH - 1, false };

static uint64_t run_written_dequeued(unsigned n)
{
	return write_to_and_fro(n, &dequeues);
}

static uint64_t run_written(unsigned n)
{
	return write_to_and_fro(n, &one_dequeue);
}

static uint64_t run_written_rarely(unsigned n)
{
	return write_to_and_fro(n, &rare_dequeues);
}

static uint64_t run_written_large(unsigned n)
{
	return write_to_and_fro(n, &large_writes);
}

static uint64_t run_sized_written(unsigned n)
{
	const struct manner sized = { sized_bytes, 1, DEPTH - 1, false };

	return write_to_and_fro(n, &sized);
}

static uint64_t run_sized_written_one(unsigned n)
{
	const struct manner sized = { sized_bytes, 1, DEPTH - 1, false };

	return write_both_ways(n, &sized);
}

static uint64_t run_written_one_dequeued(unsigned n)
{
	return write_both_ways(n, &dequeues);
}

static uint64_t run_written_one(unsigned n)
{
	return write_both_ways(n, &one_dequeue);
}

/* ---- asleep ---- */

struct echo {
	unsigned n;
	struct processors processors;
};

static void *echo_asleep(void *arg)
{
	struct end *end = &asleep_pair.server;
	struct echo *echo = arg;

	thread_pin(&echo->processors.server);
	for (unsigned n = echo->n; n; n--) {
		end_wait_recv(end);
		end_post_recv(end);
		end_post_send(end);
		request_await(end);
	}
	return NULL;
}

static uint64_t ping_pong_asleep(unsigned n, bool apart)
{
	struct echo echo = { .n = n, .processors = processors_choose(apart) };
	struct end *end = &asleep_pair.client;
	uint64_t began = clock_ns();
	pthread_t thread;

	thread_pin(&echo.processors.client);
	MUST(!pthread_create(&thread, NULL, echo_asleep, &echo));
	for (unsigned i = 0; i < n; i++) {
		end_post_send(end);
		end_wait_recv(end);
		end_post_recv(end);
		request_await(end);
	}
	MUST(!pthread_join(thread, NULL));
	thread_pin(&echo.processors.all);
	return clock_ns() - began;
}

static uint64_t run_ping_pong_asleep(unsigned n)
{
	return ping_pong_asleep(n, false);
}

static uint64_t run_ping_pong_apart(unsigned n)
{
	return ping_pong_asleep(n, true);
}

/* ---- connections ---- */

static uint64_t run_connect(unsigned n)
{
	uint64_t began = clock_ns();

	for (unsigned i = 0; i < n; i++) {
		struct pair pair;

		pair_create(&pair, flush_queues);
		pair_disconnect(&pair, false);
		pair_free(&pair);
	}
	return clock_ns() - began;
}

static uint64_t disconnect_abruptly(unsigned n, unsigned receives)
{
	uint64_t ns = 0;

	for (unsigned i = 0; i < n; i++) {
		struct pair pair;
		uint64_t began;

		pair_create(&pair, flush_queues);
		for (unsigned r = 0; r < receives; r++) {
			end_post_recv(&pair.client);
			end_post_recv(&pair.server);
		}
		began = clock_ns();
		pair_disconnect(&pair, true);
		for (unsigned r = 0; r < receives; r++) {
			end_flushed_recv(&pair.client);
			end_flushed_recv(&pair.server);
		}
		ns += clock_ns() - began;
		pair_free(&pair);
	}
	return ns;
}

static uint64_t run_until_told(unsigned n)
{
	return disconnect_abruptly(n, 0);
}

static uint64_t run_until_told_flushed(unsigned n)
{
	return disconnect_abruptly(n, RECEIVES);
}

/* ---- threads ---- */

struct runner {
	struct pair *pair;
	unsigned n;
	pthread_t thread;
};

static void *runner_main(void *arg)
{
	struct runner *runner = arg;

	ping_pong(runner->pair, runner->n);
	return NULL;
}

static uint64_t run_threads(unsigned threads, unsigned n)
{
	struct runner runners[THREADS];
	uint64_t began = clock_ns();

	for (unsigned i = 0; i < threads; i++) {
		runners[i] = (struct runner){ .pair = &pairs[i], .n = n / threads };
		MUST(!pthread_create(&runners[i].thread, NULL, runner_main, &runners[i]));
	}
	for (unsigned i = 0; i < threads; i++)
		MUST(!pthread_join(runners[i].thread, NULL));
	return clock_ns() - began;
}

static uint64_t run_one_thread(unsigned n)
{
	return run_threads(1, n);
}

static uint64_t run_four_threads(unsigned n)
{
	return run_threads(THREADS, n);
}

/* ---- system calls ---- */

static void count_polled_round(void)
{
	mark_calls(POLLED_ROUND);
	ping_pong(&pairs[0], 1);
	mark_calls(NOT_COUNTED);
}

/* The receive has completed when this returns, because the send is acknowledged. */
static void message_for_waiter(struct end *from)
{
	end_post_send(from);
	request_await(from);
}

static void count_wait_ready(void)
{
	message_for_waiter(&asleep_pair.client);
	mark_calls(WAIT_READY);
	end_wait_recv(&asleep_pair.server);
	mark_calls(NOT_COUNTED);
	end_post_recv(&asleep_pair.server);
}

static void *wait_asleep(void *arg)
{
	mark_calls(WAIT_SLEEP);
	end_wait_recv(&asleep_pair.server);
	mark_calls(NOT_COUNTED);
	end_post_recv(&asleep_pair.server);
	return arg;
}

static void count_wait_sleep(void)
{
	pthread_t thread;

	MUST(!pthread_create(&thread, NULL, wait_asleep, NULL));
	mark_await_sleep(WAIT_SLEEP);
	message_for_waiter(&asleep_pair.client);
	MUST(!pthread_join(thread, NULL));
}

/* ---- many endpoints ---- */

static uint64_t step_time(uint64_t *began)
{
	uint64_t now = step_ns(), ns = now - *began;

	*began = now;
	return ns;
}

static long run_scale(unsigned n, uint64_t ns[STEPS])
{
	struct pair *many = calloc(n, sizeof(*many));
	long memory = memory_kb();
	struct queues queues[2];
	uint64_t began;

	MUST(many && n <= MAX_ENDPOINTS);
	began = step_ns();
	queues_open(queues, n);
	ns[OPEN_STEP] = step_time(&began);
	for (unsigned i = 0; i < n; i++)
		pair_create(&many[i], queues);
	ns[CONNECT_STEP] = step_time(&began);
	for (unsigned i = 0; i < n; i++)
		message_polled(&many[i].client, &many[i].server);
	ns[MESSAGE_STEP] = step_time(&began);
	memory = memory_kb() - memory;
	began = step_ns();
	for (unsigned i = 0; i < n; i++)
		pair_disconnect(&many[i], true);
	ns[DISCONNECT_STEP] = step_time(&began);
	for (unsigned i = 0; i < n; i++)
		pair_free(&many[i]);
	ns[FREE_STEP] = step_time(&began);
	queues_close(queues);
	free(many);
	return memory;
}

#define PROTOCOLS_OF_SIDE                                                                          \
	.open = protocols_open, .scale = run_scale,                                                \
	.run = {                                                                                   \
		[PING_PONG] = run_ping_pong,                                                       \
		[WRITES] = run_writes,                                                             \
		[PING_PONG_ASLEEP] = run_ping_pong_asleep,                                         \
		[PING_PONG_APART] = run_ping_pong_apart,                                           \
		[CONNECT] = run_connect,                                                           \
		[UNTIL_TOLD] = run_until_told,                                                     \
		[UNTIL_TOLD_FLUSHED] = run_until_told_flushed,                                     \
		[REGISTER] = run_register,                                                         \
		[BIND] = run_bind,                                                                 \
		[PING_PONG_TWO] = run_ping_pong_two,                                               \
		[WRITTEN_DEQUEUED] = run_written_dequeued,                                         \
		[WRITTEN] = run_written,                                                           \
		[WRITTEN_RARELY] = run_written_rarely,                                             \
		[WRITTEN_LARGE] = run_written_large,                                               \
		[WRITTEN_ONE_DEQUEUED] = run_written_one_dequeued,                                 \
		[WRITTEN_ONE] = run_written_one,                                                   \
		[LARGE_SENDS] = run_large_sends,                                                   \
		[LARGE_WRITES] = run_large_writes,                                                 \
		[SIZED_MESSAGES] = run_sized_messages,                                             \
		[SIZED_WRITES] = run_sized_writes,                                                 \
		[SIZED_WRITTEN] = run_sized_written,                                               \
		[SIZED_WRITTEN_ONE] = run_sized_written_one,                                       \
		[ONE_THREAD] = run_one_thread,                                                     \
		[FOUR_THREADS] = run_four_threads,                                                 \
	}

#endif
