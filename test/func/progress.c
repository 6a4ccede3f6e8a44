/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Progress and order: peers are served while a program computes, requests complete in the order of
 * their posts and wait where a fence says so, and waiting costs no processor time.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../consumer/consumer.h"

#define KIB  ((size_t)1024)
#define BIG  (256 * KIB)  /* more than a device moves in one packet */
#define HUGE (4096 * KIB) /* more than TCP takes at once */

/* As much, but in a guest, where no program holds back what is sent, and each byte takes long. */
static size_t huge(void)
{
	return in_guest() ? 2 * BIG : HUGE;
}

/* ---- a program that makes no calls ---- */

/* It has polled until now, so that the provider may leave the work to it. */
static void poll_and_stop(const struct side *side)
{
	for (int i = 0; i < 1000; i++) {
		expect_no_event(side->recv_evd);
		expect_no_event(side->request_evd);
	}
}

START_TEST(peers_are_served_while_a_program_computes)
{
	const size_t size = huge();
	struct pair pair;

	pair_open_sized(&pair, NULL, 2 * size);
	for (unsigned round = 0; round < 4; round++) {
		const struct side *busy = &pair.server, *client = &pair.client;

		post_recv(busy->ep, round, segment(busy, size, size));
		pattern_fill(busy->memory, size, round);
		poll_and_stop(busy);
		post_read(client->ep, 1, segment(client, 0, size), target(busy, 0, size),
			  DAT_COMPLETION_DEFAULT_FLAG);
		expect_request_done(client, 1, size);
		pattern_check(client->memory, size, round);
		pattern_fill(client->memory, size, round + 10);
		post_write(client->ep, 2, segment(client, 0, size), target(busy, 0, size),
			   DAT_COMPLETION_DEFAULT_FLAG);
		post_send(client->ep, 3, segment(client, 0, size), DAT_COMPLETION_DEFAULT_FLAG);
		expect_request_done(client, 2, size);
		expect_request_done(client, 3, size);
		/* from here on the busy program makes calls again */
		expect_recv_done(busy, round, size);
		pattern_check(busy->memory, size, round + 10);
		pattern_check(busy->memory + size, size, round + 10);
	}
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(requests_are_executed_while_their_program_computes)
{
	const size_t size = huge();
	struct pair pair;

	pair_open_sized(&pair, NULL, size);
	for (unsigned round = 0; round < 4; round++) {
		post_recv(pair.server.ep, round, segment(&pair.server, 0, size));
		pattern_fill(pair.client.memory, size, round);
		poll_and_stop(&pair.client);
		post_send(pair.client.ep, 1, segment(&pair.client, 0, size),
			  DAT_COMPLETION_DEFAULT_FLAG);
		expect_recv_done(&pair.server, round, size);
		pattern_check(pair.server.memory, size, round);
		expect_request_done(&pair.client, 1, size);
	}
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- programs that poll their memory ---- */

#define MEMORY_ROUNDS 50

/* How it takes the completions of its writes. */
static const struct {
	size_t size;
	bool suppressed;
	unsigned behind; /* that many, it awaits their completions; 0: never */
} memory_polls[] = {
	{ 1, false, 0 },       { 1, false, 8 },	     { 1, true, 0 },	     { BIG / 4, false, 0 },
	{ BIG / 4, false, 8 }, { BIG / 4, true, 0 }, { HUGE / 4, false, 0 }, { HUGE / 4, false, 8 },
};

static size_t polled_size(size_t row)
{
	return memory_polls[row].size > BIG ? huge() / 4 : memory_polls[row].size;
}

static unsigned take_requests(const struct side *side)
{
	DAT_EVENT event;
	unsigned n = 0;

	while (dat_evd_dequeue(side->request_evd, &event) == DAT_SUCCESS) {
		ck_assert_uint_eq(event.event_data.dto_completion_event_data.status,
				  DAT_DTO_SUCCESS);
		n++;
	}
	return n;
}

/* The last byte is that of the round. Returns how many writes are outstanding. */
static unsigned write_and_await(const struct side *from, const struct side *to, size_t row,
				unsigned round, unsigned outstanding)
{
	const size_t size = polled_size(row);
	const volatile unsigned char *last = to->memory + HUGE + size - 1;

	pattern_fill(from->memory, size, round);
	from->memory[size - 1] = (unsigned char)(round + 1);
	post_write(from->ep, round, segment(from, 0, size), target(to, HUGE, size),
		   memory_polls[row].suppressed ? DAT_COMPLETION_SUPPRESS_FLAG
						: DAT_COMPLETION_DEFAULT_FLAG);
	if (!memory_polls[row].suppressed)
		outstanding += 1 - take_requests(from);
	while (memory_polls[row].behind && outstanding >= memory_polls[row].behind)
		outstanding -= take_requests(from);
	while (*last != (unsigned char)(round + 1))
		;
	pattern_check(to->memory + HUGE, size - 1, round);
	return outstanding;
}

START_TEST(every_write_is_seen_in_memory_beside_rare_polls)
{
	const DAT_EP_ATTR attr = ep_attr_for(4, 2 * MEMORY_ROUNDS);

	for (size_t row = 0; row < COUNT(memory_polls); row++) {
		/* what takes long is not done as often, but until completions are awaited */
		const bool few = in_guest() || memory_polls[row].size > BIG;
		const unsigned rounds = MEMORY_ROUNDS / (few ? 5 : 1);
		unsigned outstanding[2] = { 0, 0 };
		struct pair pair;

		pair_open_sized(&pair, &attr, 2 * HUGE);
		for (unsigned round = 0; round < rounds; round++) {
			outstanding[0] = write_and_await(&pair.client, &pair.server, row, round,
							 outstanding[0]);
			outstanding[1] = write_and_await(&pair.server, &pair.client, row, round,
							 outstanding[1]);
		}
		pair_close_abrupt(&pair);
	}
}
END_TEST

/* ---- polls ---- */

static _Thread_local unsigned writes;

/* The dynamic linker prefers it to that of the C library. */
__attribute__((visibility("default"))) ssize_t write(int fd, const void *bytes, size_t size)
{
	writes++;
	return syscall(SYS_write, fd, bytes, size);
}

static void poll_until_event(DAT_EVD_HANDLE evd)
{
	DAT_EVENT event;

	while (dat_evd_dequeue(evd, &event) != DAT_SUCCESS)
		;
}

/* Returns how often this thread wrote in the polls that found both ends of a message. */
static unsigned writes_of_polls(struct pair *pair, uint64_t cookie)
{
	unsigned before;

	post_recv(pair->server.ep, cookie, segment(&pair->server, 0, 8));
	post_send(pair->client.ep, cookie, segment(&pair->client, 0, 8),
		  DAT_COMPLETION_DEFAULT_FLAG);
	before = writes;
	poll_until_event(pair->server.recv_evd);
	poll_until_event(pair->client.request_evd);
	return writes - before;
}

/* Nobody is to be woken up. The provider finds that out, sooner or later. */
START_TEST(who_polls_for_long_tells_nobody_of_completions)
{
	struct pair pair;

	pair_open(&pair, NULL);
	for (unsigned silent = 0, i = 0; silent < 30; i++)
		silent = writes_of_polls(&pair, i) ? 0 : silent + 1;
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- order ---- */

/*
 * The client has no receive for a message of the server. Over TCP that holds up all that comes
 * behind it, answers to the client's requests among them, until let_through.
 */
static void hold_up(const struct pair *pair)
{
	post_send(pair->server.ep, 1, segment(&pair->server, 0, 8), DAT_COMPLETION_SUPPRESS_FLAG);
}

static void let_through(const struct pair *pair)
{
	post_recv(pair->client.ep, 1, segment(&pair->client, pair->client.size - 8, 8));
	expect_recv_done(&pair->client, 1, 8);
}

struct request {
	const struct pair *pair;
	const struct pair *other; /* on which messages go meanwhile, or NULL */
	DAT_RMR_HANDLE rmr;
	uint64_t cookie;
	DAT_COMPLETION_FLAGS flags;
};

static void read_bytes(const struct request *this, size_t size)
{
	post_read(this->pair->client.ep, this->cookie, segment(&this->pair->client, 0, size),
		  target(&this->pair->server, 0, size), this->flags);
}

static void write_bytes(const struct request *this, size_t size)
{
	post_write(this->pair->client.ep, this->cookie, segment(&this->pair->client, BIG, size),
		   target(&this->pair->server, BIG, size), this->flags);
}

static void send_bytes(const struct request *this, size_t size)
{
	const struct side *client = &this->pair->client, *server = &this->pair->server;

	post_recv(server->ep, this->cookie, segment(server, 2 * BIG, BIG));
	post_send(client->ep, this->cookie, segment(client, 2 * BIG, size), this->flags);
}

/* Of a range, or, if @size is 0, of none: an unbind. */
static void bind_bytes(const struct request *this, size_t size)
{
	const DAT_LMR_TRIPLET range = segment(&this->pair->client, 0, size);
	DAT_RMR_CONTEXT context;

	ck_dat(RMR_BIND(this->rmr, this->pair->client.lmr, &range, REMOTE, this->pair->client.ep,
			(DAT_RMR_COOKIE){ .as_64 = this->cookie }, this->flags, &context));
}

static const struct kind {
	void (*post)(const struct request *this, size_t size);
	size_t size;
} kinds[] = {
	{ read_bytes, BIG }, { read_bytes, 1 },	  { read_bytes, 0 },   { write_bytes, BIG },
	{ write_bytes, 1 },  { write_bytes, 0 },  { send_bytes, BIG }, { send_bytes, 1 },
	{ send_bytes, 0 },   { bind_bytes, BIG }, { bind_bytes, 0 },
};

static void expect_done(const struct request *this, uint64_t cookie, const struct kind *kind)
{
	if (kind->post == bind_bytes)
		expect_bind(this->pair->client.request_evd, this->rmr, cookie,
			    DAT_RMR_BIND_SUCCESS);
	else
		expect_request_done(&this->pair->client, cookie, kind->size);
}

static void post_kind(struct request *this, const struct kind *kind, DAT_COMPLETION_FLAGS flags)
{
	this->cookie++;
	this->flags = flags;
	kind->post(this, kind->size);
}

/* If they are held up, nothing has completed. Elsewhere something may have. */
static void expect_held_up(const struct request *this)
{
	for (int i = 0; i < 3; i++)
		exchange_messages(this->other);
	if (device()->holds_up)
		expect_no_event(this->pair->client.request_evd);
	let_through(this->pair);
}

/* The first may be suppressed: then it is done when the second is. */
static void expect_two_in_order(struct request *this, const struct kind *first,
				const struct kind *second, bool suppressed)
{
	const struct pair *pair = this->pair;
	const unsigned seed = (unsigned)this->cookie & 0xff;

	pattern_fill(pair->server.memory, BIG, seed);
	if (this->other)
		hold_up(pair);
	post_kind(this, first,
		  suppressed ? DAT_COMPLETION_SUPPRESS_FLAG : DAT_COMPLETION_DEFAULT_FLAG);
	post_kind(this, second, DAT_COMPLETION_DEFAULT_FLAG);
	if (this->other)
		expect_held_up(this);
	if (!suppressed)
		expect_done(this, this->cookie - 1, first);
	expect_done(this, this->cookie, second);
	expect_no_event(pair->client.request_evd);
	if (first->post == read_bytes)
		pattern_check(pair->client.memory, first->size, seed);
	if (first->post == send_bytes)
		expect_recv_done(&pair->server, this->cookie - 1, first->size);
	if (second->post == send_bytes)
		expect_recv_done(&pair->server, this->cookie, second->size);
}

START_TEST(requests_of_any_kinds_complete_in_post_order)
{
	const DAT_EP_ATTR attr = ep_attr_for(8, 8);
	struct request request = { .cookie = 1000 };
	struct pair pair;

	pair_open_sized(&pair, &attr, 3 * BIG);
	request.pair = &pair;
	ck_dat(dat_rmr_create(pair.client.pz, &request.rmr));
	for (size_t i = 0; i < COUNT(kinds); i++)
		for (size_t k = 0; k < COUNT(kinds); k++)
			for (int suppressed = 0; suppressed < 2; suppressed++)
				expect_two_in_order(&request, &kinds[i], &kinds[k], suppressed);
	pair_close_abrupt(&pair);
}
END_TEST

/* The peer still answers the first one when it gets the second. */
START_TEST(read_of_no_bytes_behind_another_keeps_the_connection)
{
	const DAT_EP_ATTR attr = ep_attr_for(8, 8);
	struct request request = { .cookie = 0 };
	struct pair pair;

	pair_open_sized(&pair, &attr, 3 * BIG);
	request.pair = &pair;
	for (unsigned round = 0; round < (in_guest() ? 5 : 20); round++) {
		pattern_fill(pair.server.memory, BIG, round);
		for (unsigned i = 0; i < 8; i++) {
			request.cookie = i;
			read_bytes(&request, i % 2 ? 0 : BIG);
		}
		for (unsigned i = 0; i < 8; i++)
			expect_request_done(&pair.client, i, i % 2 ? 0 : BIG);
		pattern_check(pair.client.memory, BIG, round);
	}
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

/* Of no bytes, and binds: they need nobody's answer, and yet do not overtake a read. */
START_TEST(request_without_bytes_waits_for_the_read_before_it)
{
	const DAT_EP_ATTR attr = ep_attr_for(8, 8);
	struct request request = { .cookie = 1000 };
	struct pair pair, other;

	pair_open_sized(&pair, &attr, 3 * BIG);
	pair_open(&other, NULL);
	request.pair = &pair;
	request.other = &other;
	ck_dat(dat_rmr_create(pair.client.pz, &request.rmr));
	for (size_t k = 0; k < COUNT(kinds); k++)
		for (int suppressed = 0; suppressed < 2; suppressed++)
			expect_two_in_order(&request, &kinds[1], &kinds[k], suppressed);
	pair_close_abrupt(&pair);
	pair_close_abrupt(&other);
}
END_TEST

/* ---- fences ---- */

/*
 * The server has a message only when the reads before it are complete, and what is posted behind
 * the fence does not overtake it.
 */
START_TEST(fenced_send_waits_for_reads)
{
	const size_t size = huge(), half = size / 2;
	struct pair pair;

	pair_open_sized(&pair, NULL, size + 64);
	for (unsigned round = 0; round < 6; round++) {
		const DAT_COMPLETION_FLAGS flags = round % 2 ? DAT_COMPLETION_SUPPRESS_FLAG
							     : DAT_COMPLETION_DEFAULT_FLAG;

		pattern_fill(pair.server.memory, size, round);
		for (unsigned i = 0; i < 2; i++) {
			post_recv(pair.server.ep, i, segment(&pair.server, size + 32 * i, 32));
			post_read(pair.client.ep, i, segment(&pair.client, i * half, half),
				  target(&pair.server, i * half, half), flags);
		}
		/* the last bytes that are read: so few that a device may copy them at the post */
		post_send(pair.client.ep, 2, segment(&pair.client, size - 8, 8),
			  DAT_COMPLETION_BARRIER_FENCE_FLAG);
		post_send(pair.client.ep, 3, segment(&pair.client, size, 9),
			  DAT_COMPLETION_DEFAULT_FLAG);
		expect_recv_done(&pair.server, 0, 8);
		ck_assert_mem_eq(pair.server.memory + size, pair.server.memory + size - 8, 8);
		pattern_check(pair.client.memory, size, round);
		expect_recv_done(&pair.server, 1, 9);
		for (unsigned i = 0; i < 2 && !(round % 2); i++)
			expect_request_done(&pair.client, i, half);
		expect_request_done(&pair.client, 2, 8);
		expect_request_done(&pair.client, 3, 9);
	}
	pair_close_abrupt(&pair);
}
END_TEST

/* The fenced send waits for a read, too, whose answer is held up. */
START_TEST(fenced_send_waits_for_a_read_that_is_held_up)
{
	struct pair pair, other;
	DAT_EVENT event;
	bool came = false;

	pair_open(&pair, NULL);
	pair_open(&other, NULL);
	for (unsigned round = 0; round < 4; round++, came = false) {
		pattern_fill(pair.server.memory, 1000, round);
		post_recv(pair.server.ep, 2, segment(&pair.server, 2000, 8));
		hold_up(&pair);
		post_read(pair.client.ep, 3, segment(&pair.client, 0, 1000),
			  target(&pair.server, 0, 1000), DAT_COMPLETION_DEFAULT_FLAG);
		post_send(pair.client.ep, 4, segment(&pair.client, 2000, 8),
			  DAT_COMPLETION_BARRIER_FENCE_FLAG);
		for (int i = 0; i < 10 && !came; i++) {
			exchange_messages(&other);
			came = dat_evd_dequeue(pair.server.recv_evd, &event) == DAT_SUCCESS;
		}
		if (came)
			pattern_check(pair.client.memory, 1000, round);
		let_through(&pair);
		if (!came)
			expect_recv_done(&pair.server, 2, 8);
		pattern_check(pair.client.memory, 1000, round);
		expect_request_done(&pair.client, 3, 1000);
		expect_request_done(&pair.client, 4, 8);
	}
	pair_close_abrupt(&pair);
	pair_close_abrupt(&other);
}
END_TEST

/* One request behind another, each with a fence. */
START_TEST(fenced_requests_complete_in_order)
{
	const DAT_EP_ATTR attr = ep_attr_for(4, 32);
	struct pair pair;

	pair_open_sized(&pair, &attr, 2 * BIG);
	pattern_fill(pair.server.memory, BIG, 1);
	for (unsigned i = 0; i < 30; i += 3) {
		post_read(pair.client.ep, i, segment(&pair.client, 0, BIG),
			  target(&pair.server, 0, BIG), DAT_COMPLETION_BARRIER_FENCE_FLAG);
		/* what was read is written */
		post_write(pair.client.ep, i + 1, segment(&pair.client, 0, BIG),
			   target(&pair.server, BIG, BIG), DAT_COMPLETION_BARRIER_FENCE_FLAG);
		post_read(pair.client.ep, i + 2, segment(&pair.client, BIG, BIG),
			  target(&pair.server, BIG, BIG), DAT_COMPLETION_BARRIER_FENCE_FLAG);
	}
	for (unsigned i = 0; i < 30; i++)
		expect_request_done(&pair.client, i, BIG);
	pattern_check(pair.server.memory + BIG, BIG, 1);
	pattern_check(pair.client.memory + BIG, BIG, 1);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- messages that wait for a receive ---- */

static uint64_t processor_time(void)
{
	struct timespec now;

	ck_assert_int_eq(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/*
 * While nothing but time passes, this process uses less than a fifth of a processor: in one of some
 * waits, because in a guest it is charged with what its host does meanwhile, too.
 */
static void expect_sleep(const struct side *side)
{
	const DAT_TIMEOUT usec = 50000;
	uint64_t before, used;
	unsigned waits = 0;
	DAT_EVENT event;
	DAT_COUNT nmore;

	do {
		before = processor_time();
		ck_dat_is(DAT_GET_TYPE(dat_evd_wait(side->recv_evd, usec, 1, &event, &nmore)),
			  DAT_TIMEOUT_EXPIRED);
		used = processor_time() - before;
		ck_assert_uint_lt(++waits, 20);
	} while (used >= usec / 5);
}

START_TEST(late_receive_frees_a_stalled_stream_without_spinning)
{
	static const size_t sizes[] = { 8, BIG, 0, 1 };
	struct pair pair;

	pair_open_sized(&pair, NULL, COUNT(sizes) * BIG);
	for (unsigned round = 0; round < 2; round++) {
		pattern_fill(pair.client.memory, BIG, round);
		for (unsigned i = 0; i < COUNT(sizes); i++)
			post_send(pair.client.ep, i, segment(&pair.client, 0, sizes[i]),
				  DAT_COMPLETION_DEFAULT_FLAG);
		post_read(pair.client.ep, 9, segment(&pair.client, BIG, 8),
			  target(&pair.server, BIG, 8), DAT_COMPLETION_DEFAULT_FLAG);
		expect_sleep(&pair.server);
		/* the server makes no other call */
		for (unsigned i = 0; i < COUNT(sizes); i++)
			post_recv(pair.server.ep, i, segment(&pair.server, i * BIG, BIG));
		for (unsigned i = 0; i < COUNT(sizes); i++)
			expect_request_done(&pair.client, i, sizes[i]);
		expect_request_done(&pair.client, 9, 8);
		for (unsigned i = 0; i < COUNT(sizes); i++) {
			expect_recv_done(&pair.server, i, sizes[i]);
			pattern_check(pair.server.memory + i * BIG, sizes[i], round);
		}
	}
	pair_close_abrupt(&pair);
}
END_TEST

/* Over TCP the answers to the reads are behind the messages. */
START_TEST(late_receives_free_the_reads_of_both_sides)
{
	const struct side *sides[2];
	struct pair pair;

	pair_open(&pair, NULL);
	sides[0] = &pair.client;
	sides[1] = &pair.server;
	for (unsigned round = 0; round < 10; round++) {
		for (unsigned i = 0; i < 2; i++) {
			post_send(sides[i]->ep, 1, segment(sides[i], 0, 100), 0);
			post_read(sides[i]->ep, 2, segment(sides[i], 1000, 100),
				  target(sides[!i], 2000, 100), 0);
		}
		for (unsigned i = 0; i < 2; i++)
			post_recv(sides[i]->ep, 3, segment(sides[i], 3000, 100));
		for (unsigned i = 0; i < 2; i++) {
			expect_recv_done(sides[i], 3, 100);
			expect_request_done(sides[i], 1, 100);
			expect_request_done(sides[i], 2, 100);
		}
	}
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- idle ---- */

#define THREADS 16

struct thread_list {
	int tids[THREADS];
	unsigned n;
};

static bool list_has(const struct thread_list *list, int tid)
{
	for (unsigned i = 0; i < list->n; i++)
		if (list->tids[i] == tid)
			return true;
	return false;
}

/* The threads of this process that are not in @known, which may be NULL. */
static struct thread_list list_threads(const struct thread_list *known)
{
	struct thread_list list = { .n = 0 };
	DIR *folder = opendir("/proc/self/task");
	const struct dirent *entry;

	ck_assert_ptr_nonnull(folder);
	while ((entry = readdir(folder))) {
		int tid = atoi(entry->d_name);

		if (!tid || (known && list_has(known, tid)))
			continue;
		ck_assert_uint_lt(list.n, THREADS);
		list.tids[list.n++] = tid;
	}
	closedir(folder);
	return list;
}

/* How often these threads went to sleep or were put to sleep. */
static unsigned long count_switches(const struct thread_list *list)
{
	unsigned long sum = 0, n;
	char path[64], line[128];

	for (unsigned i = 0; i < list->n; i++) {
		FILE *status;

		snprintf(path, sizeof(path), "/proc/self/task/%d/status", list->tids[i]);
		status = fopen(path, "r");
		ck_assert_ptr_nonnull(status);
		while (fgets(line, sizeof(line), status))
			if (sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1 ||
			    sscanf(line, "nonvoluntary_ctxt_switches: %lu", &n) == 1)
				sum += n;
		fclose(status);
	}
	return sum;
}

static void use_another_pair(struct pair *pair)
{
	for (int i = 0; i < 5; i++) {
		pair_connect(pair);
		exchange_messages(pair);
		pair_disconnect(pair, DAT_CLOSE_ABRUPT_FLAG);
		pair_reset(pair);
	}
}

/*
 * Whatever others do: these threads do not run any more. They may have looked for completions for
 * a while after the last use. As many rounds as in the end take longer than the time between looks;
 * in a guest a round takes longer.
 */
static void expect_idle(const struct thread_list *threads, struct pair *other)
{
	const unsigned enough = in_guest() ? 5 : 20;
	unsigned quiet = 0;

	for (unsigned round = 0; quiet < enough; round++) {
		const unsigned long before = count_switches(threads);

		use_another_pair(other);
		quiet = count_switches(threads) == before ? quiet + 1 : 0;
		ck_assert_uint_lt(round, 10000);
	}
}

static void *end_at_once(void *arg)
{
	return arg;
}

START_TEST(idle_ia_uses_no_processor_time)
{
	struct thread_list before, threads, again;
	struct pair connected, ended, unconnected, other;

	/* from the first thread on, a sanitizer may have one of its own */
	(void)consumer_thread_join(consumer_thread_start(end_at_once, NULL));
	before = list_threads(NULL);
	pair_open_unconnected(&unconnected, NULL);
	pair_open(&connected, NULL);
	pair_open(&ended, NULL);
	/*
	 * One of each IA. Those that made the connections may be listed for a while, and the list
	 * may lack one that comes behind them when they end.
	 */
	do {
		threads = list_threads(&before);
		again = list_threads(&before);
	} while (threads.n != 6 || again.n != 6 ||
		 memcmp(threads.tids, again.tids, 6 * sizeof(threads.tids[0])) != 0);
	pair_open_unconnected(&other, NULL);
	exchange_messages(&connected);
	exchange_messages(&ended);
	poll_and_stop(&connected.client);
	post_recvs(&connected.client, 1, 4);
	post_recvs(&connected.server, 1, 4);
	post_recvs(&ended.server, 1, 4);
	ck_dat(dat_ep_disconnect(ended.client.ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_idle(&threads, &other);
	post_send(connected.client.ep, 9, segment(&connected.client, 0, 8), 0);
	expect_recv_done(&connected.server, 1, 8);
	expect_disconnected(&ended);
	expect_flushed_recvs(&ended.server, 1, 4);
	pair_close_abrupt(&other);
	pair_close_abrupt(&ended);
	pair_close_abrupt(&connected);
	pair_close_abrupt(&unconnected);
}
END_TEST

int main(int argc, char **argv)
{
	const struct device_case cases[] = {
		{ peers_are_served_while_a_program_computes, NEEDS_NOTHING },
		{ requests_are_executed_while_their_program_computes, NEEDS_NOTHING },
		{ every_write_is_seen_in_memory_beside_rare_polls, NEEDS_NOTHING },
		{ who_polls_for_long_tells_nobody_of_completions, NEEDS_NOTHING },
		{ requests_of_any_kinds_complete_in_post_order, NEEDS_NOTHING },
		{ read_of_no_bytes_behind_another_keeps_the_connection, NEEDS_NOTHING },
		{ request_without_bytes_waits_for_the_read_before_it, NEEDS_RNR },
		{ fenced_send_waits_for_reads, NEEDS_NOTHING },
		{ fenced_send_waits_for_a_read_that_is_held_up, NEEDS_RNR },
		{ fenced_requests_complete_in_order, NEEDS_NOTHING },
		{ late_receive_frees_a_stalled_stream_without_spinning, NEEDS_RNR },
		{ late_receives_free_the_reads_of_both_sides, NEEDS_RNR },
		{ idle_ia_uses_no_processor_time, NEEDS_NOTHING },
	};

	return run_on_device(argc, argv, cases, COUNT(cases));
}
