/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hours of everything at once: connections, transfers, windows, registrations, waits and faults in
 * random order. Each minute a line tells what the process and the kernel hold, and how long small
 * messages took. Nothing may grow after the first minute, and no percentile may drift.
 *
 * test/soak MINUTES runs it. Without SOAK_MINUTES it takes three intervals of a second, in which
 * memory has no time to warm up.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../consumer/consumer.h"

#define MAX_INTERVALS 10000u
#define MAX_SAMPLES   200000u
#define DRIFT	      2 /* times as long is a drift, if it is so in each of many intervals */

static struct window window;
static DAT_CONN_QUAL nobody;
static uint64_t random_state = 88172645463325252u;
static uint64_t operations, faults;
static unsigned samples[MAX_SAMPLES], taken; /* ns, of the interval */

static unsigned random_below(unsigned limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (unsigned)(random_state >> 32) % limit;
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* ---- operations; each leaves a connection without anything outstanding ---- */

static void ping(void)
{
	const struct side *client = &window.pair.client, *server = &window.pair.server;

	for (unsigned i = 0; i < 20; i++) {
		const uint64_t start = now();

		post_recv(server->ep, i, segment(server, 0, 64));
		post_send(client->ep, i, segment(client, 0, 64), DAT_COMPLETION_DEFAULT_FLAG);
		expect_recv_done(server, i, 64);
		expect_request_done(client, i, 64);
		if (taken < MAX_SAMPLES)
			samples[taken++] = (unsigned)(now() - start);
	}
}

static void messages(void)
{
	exchange_messages(&window.pair);
}

static void accesses(void)
{
	const size_t size = 1 + random_below(SIDE_MEMORY / 2);

	expect_write(&window.pair, target(&window.pair.server, 0, size));
	expect_read(&window.pair, target(&window.pair.server, 0, size));
}

static void windows(void)
{
	const DAT_RMR_CONTEXT context = bind_window(&window, REMOTE);

	expect_write(&window.pair, window_target(&window, context, WINDOW_FROM, WINDOW_SIZE));
	unbind_window(&window);
}

static void registrations(void)
{
	const struct region region = region_map(&window.pair.client, 4096u << random_below(9),
						DAT_MEM_PRIV_ALL_FLAG);

	region_unmap(&region);
}

/* One wait for several events, then what is left, without a wait. */
static void wait_for_many(void)
{
	const struct side *client = &window.pair.client, *server = &window.pair.server;
	DAT_EVENT event;
	DAT_COUNT nmore;

	post_recvs(server, 0, 4);
	for (unsigned i = 0; i < 4; i++)
		post_send(client->ep, i, segment(client, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	ck_dat(dat_evd_wait(server->recv_evd, TIME_LIMIT, 4, &event, &nmore));
	for (unsigned i = 1; i < 4; i++)
		ck_dat(dat_evd_dequeue(server->recv_evd, &event));
	ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, 3);
	for (unsigned i = 0; i < 4; i++)
		expect_request_done(client, i, 8);
}

static void wait_in_vain(void)
{
	const struct side *sides[] = { &window.pair.client, &window.pair.server };
	DAT_EVENT event;
	DAT_COUNT nmore;

	for (size_t i = 0; i < COUNT(sides); i++)
		ck_dat_is(dat_evd_wait(sides[i]->connect_evd, 1000, 1, &event, &nmore),
			  DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0));
}

static void wait_for_a_cno(void)
{
	const struct side *side = &window.pair.client;
	DAT_EVENT event = { .event_number = DAT_SOFTWARE_EVENT };
	DAT_EVD_HANDLE evd, triggered;
	DAT_CNO_HANDLE cno;

	ck_dat(dat_cno_create(side->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(dat_evd_create(side->ia, 4, cno, DAT_EVD_SOFTWARE_FLAG, &evd));
	event.evd_handle = evd;
	ck_dat(dat_evd_post_se(evd, &event));
	ck_dat(dat_cno_wait(cno, TIME_LIMIT, &triggered));
	ck_assert_ptr_eq(triggered, evd);
	ck_dat(dat_evd_dequeue(evd, &event));
	ck_dat(dat_evd_free(evd));
	ck_dat(dat_cno_free(cno));
}

static void reconnect(void)
{
	struct pair *pair = &window.pair;

	if (random_below(2))
		post_recvs(&pair->server, 100, 4);
	pair_disconnect(pair, random_below(2) ? DAT_CLOSE_ABRUPT_FLAG : DAT_CLOSE_GRACEFUL_FLAG);
	while (dat_evd_dequeue(pair->server.recv_evd, &(DAT_EVENT){ 0 }) == DAT_SUCCESS)
		;
	pair_reconnect(pair);
}

static void refused_access(void)
{
	DAT_RMR_TRIPLET bad = target(&window.pair.server, 0, 1000);

	bad.rmr_context ^= 0x00ffff00;
	faults++;
	if (random_below(2) && device_has(NEEDS_READ_RIGHTS))
		expect_read_refused(&window.pair, bad);
	else
		expect_write_refused(&window.pair, bad);
}

static void refused_attempts(void)
{
	const struct side *client = &window.pair.client, *server = &window.pair.server;
	DAT_EP_HANDLE ep = side_create_ep(client, NULL);
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp = listen_any(server, &qual);

	faults += 2;
	ck_dat(try_connect(ep, server, nobody, TIME_LIMIT));
	expect_connection_of(client, ep, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	ck_dat(dat_ep_reset(ep));
	ck_dat(try_connect(ep, server, qual, TIME_LIMIT));
	ck_dat(CR_REJECT(expect_cr(server)));
	expect_connection_of(client, ep, DAT_CONNECTION_EVENT_PEER_REJECTED);
	ck_dat(dat_ep_free(ep));
	ck_dat(dat_psp_free(psp));
}

static void reopen(void)
{
	ck_dat(dat_rmr_free(window.rmr));
	window_close(&window);
	window_open(&window);
}

static const struct {
	void (*run)(void);
	unsigned weight;
} mix[] = {
	{ ping, 200 },		{ messages, 100 },	  { accesses, 100 },
	{ windows, 100 },	{ registrations, 100 },	  { wait_for_many, 100 },
	{ wait_in_vain, 30 },	{ wait_for_a_cno, 50 },	  { reconnect, 50 },
	{ refused_access, 10 }, { refused_attempts, 10 }, { reopen, 3 },
};

static void operate(void)
{
	unsigned total = 0, chosen;
	size_t i = 0;

	for (size_t k = 0; k < COUNT(mix); k++)
		total += mix[k].weight;
	for (chosen = random_below(total); chosen >= mix[i].weight; i++)
		chosen -= mix[i].weight;
	mix[i].run();
	operations++;
}

/* ---- what there is ---- */

enum { DESCRIPTORS, THREADS, HEAP, RESIDENT, KERNEL, HELD };

static size_t resident_size(void)
{
	size_t pages, of_files;
	FILE *statm = fopen("/proc/self/statm", "r");

	ck_assert_ptr_nonnull(statm);
	ck_assert_int_eq(fscanf(statm, "%*u %zu %zu", &pages, &of_files), 2);
	fclose(statm);
	return (pages - of_files) * (size_t)sysconf(_SC_PAGESIZE);
}

/* Adds up the numbers in what a command prints, such as "0: rxe0: pd 2 cq 9 qp 3". */
static size_t sum_of_output(const char *command)
{
	FILE *output = popen(command, "r");
	char word[64];
	size_t sum = 0;

	while (output && fscanf(output, "%63s", word) == 1)
		sum += strtoul(word, NULL, 10);
	if (output)
		pclose(output);
	return sum;
}

static size_t kernel_objects(void)
{
	if (device_has(NEEDS_RDMA_DEVICE))
		return sum_of_output("rdma resource show | sed 's/^[^:]*:[^:]*://'");
	return sum_of_output("sed -n 's/^TCP: inuse \\([0-9]*\\).*/\\1/p' /proc/net/sockstat");
}

struct interval {
	size_t held[HELD]; /* HEAP and RESIDENT in bytes */
	unsigned p50, p99; /* ns */
};

static int sample_order(const void *a, const void *b)
{
	const unsigned *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/*
 * Nothing is connected while it looks. An IA keeps what a thread has slept on, so one has slept on
 * both.
 */
static struct interval interval_end(void)
{
	struct interval interval = { 0 };

	pair_disconnect(&window.pair, DAT_CLOSE_ABRUPT_FLAG);
	pair_reset(&window.pair);
	wait_in_vain();
	(void)malloc_trim(0);
	interval.held[DESCRIPTORS] = count_entries("/proc/self/fd");
	interval.held[THREADS] = count_entries("/proc/self/task");
	interval.held[HEAP] = mallinfo2().uordblks + mallinfo2().hblkhd;
	interval.held[RESIDENT] = resident_size();
	interval.held[KERNEL] = kernel_objects();
	pair_connect(&window.pair);
	qsort(samples, taken, sizeof(samples[0]), sample_order);
	interval.p50 = samples[taken / 2];
	interval.p99 = samples[taken * 99ull / 100];
	taken = 0;
	return interval;
}

/* ---- the verdict ---- */

/* What a minute of warm-up has brought to its size. */
static const struct {
	unsigned what;
	const char *name;
	size_t margin; /* of caches of the libraries below, and of what has just ended */
} bounds[] = {
	{ HEAP, "heap", 64 * 1024 },
	{ RESIDENT, "resident memory", 512 * 1024 },
	{ KERNEL, "kernel objects", 8 },
};

/* Is every value of the last quarter larger than DRIFT times every one of the first? */
static bool drifts(const unsigned *values, size_t n)
{
	unsigned least = UINT32_MAX, most = 0;

	if (n < 8)
		return false;
	for (size_t i = 0; i < n / 4; i++) {
		most = values[i] > most ? values[i] : most;
		least = values[n - 1 - i] < least ? values[n - 1 - i] : least;
	}
	return least > DRIFT * most;
}

static unsigned of_50[MAX_INTERVALS], of_99[MAX_INTERVALS];

START_TEST(nothing_grows_and_no_latency_drifts)
{
	const char *text = getenv("SOAK_MINUTES");
	const unsigned minutes = text ? (unsigned)atoi(text) : 0;
	const unsigned intervals = minutes ? minutes + 1 : 3; /* the first is the warm-up */
	const uint64_t length = (minutes ? 60 : 1) * 1000000000ull;
	struct interval first = { 0 }, last = { 0 };

	ck_assert_uint_lt(intervals, MAX_INTERVALS);
	window_open(&window);
	nobody = free_qual(&window.pair.server);
	for (unsigned i = 0; i < intervals; i++) {
		const uint64_t end = now() + length;

		while (now() < end || !taken)
			operate();
		last = interval_end();
		printf("# %3u: %llu operations, %llu faults, %zu KiB resident, %zu KiB "
		       "heap, %zu descriptors, %zu threads, %zu kernel objects, 50 %% %u ns, "
		       "99 %% %u ns\n",
		       i, (unsigned long long)operations, (unsigned long long)faults,
		       last.held[RESIDENT] / 1024, last.held[HEAP] / 1024, last.held[DESCRIPTORS],
		       last.held[THREADS], last.held[KERNEL], last.p50, last.p99);
		fflush(stdout);
		of_50[i] = last.p50;
		of_99[i] = last.p99;
		if (i == 0)
			first = last;
	}
	ck_assert(threads_end(first.held[THREADS]));
	ck_assert_uint_eq(last.held[DESCRIPTORS], first.held[DESCRIPTORS]);
	for (unsigned i = 0; minutes && i < COUNT(bounds); i++)
		ck_assert_msg(last.held[bounds[i].what] <=
				      first.held[bounds[i].what] + bounds[i].margin,
			      "%s: from %zu to %zu", bounds[i].name, first.held[bounds[i].what],
			      last.held[bounds[i].what]);
	ck_assert_msg(!drifts(of_50 + 1, intervals - 1), "the median of latency drifts");
	ck_assert_msg(!drifts(of_99 + 1, intervals - 1), "the 99th percentile of latency drifts");
	ck_dat(dat_rmr_free(window.rmr));
	window_close(&window);
}
END_TEST

int main(int argc, char **argv)
{
	const struct device_case cases[] = {
		{ nothing_grows_and_no_latency_drifts, NEEDS_NOTHING },
	};

	return run_on_device(argc, argv, cases, COUNT(cases));
}
