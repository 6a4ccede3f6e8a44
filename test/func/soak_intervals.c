/* SPDX-License-Identifier: BSD-2-Clause */
/* What the soaks share. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "soak.h"

#define MAX_INTERVALS 10000u
#define MAX_SAMPLES   200000u
#define DRIFT	      2 /* times as long is a drift, if it is so in each of many intervals */

uint64_t operations, faults;

static uint64_t random_state = 88172645463325252u;
static unsigned samples[MAX_SAMPLES], taken; /* ns, of the interval */

unsigned random_below(unsigned limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (unsigned)(random_state >> 32) % limit;
}

uint64_t soak_now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* A busy machine takes few samples in a minute, an idle one many: their memory is there at once. */
void intervals_begin(void)
{
	memset(samples, 0xff, sizeof(samples));
}

void sample_take(uint64_t start)
{
	if (taken < MAX_SAMPLES)
		samples[taken++] = (unsigned)(soak_now() - start);
}

bool interval_has_samples(void)
{
	return taken > 0;
}

/* ---- what an end does alone ---- */

void registrations(const struct side *side)
{
	const struct region region = region_map(side, 4096u << random_below(9),
						DAT_MEM_PRIV_ALL_FLAG);

	region_unmap(&region);
}

void wait_in_vain(const struct side *side)
{
	DAT_EVENT event;
	DAT_COUNT nmore;

	ck_dat_is(dat_evd_wait(side->connect_evd, 1000, 1, &event, &nmore),
		  DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0));
}

void wait_for_a_cno(const struct side *side)
{
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

/* ---- what there is ---- */

enum { DESCRIPTORS, THREADS, HEAP, RESIDENT, KERNEL, HELD };

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

static struct interval intervals[MAX_INTERVALS];
static unsigned ended;

static int sample_order(const void *a, const void *b)
{
	const unsigned *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static unsigned minutes(void)
{
	const char *text = getenv("SOAK_MINUTES");

	return text ? (unsigned)atoi(text) : 0;
}

unsigned interval_count(void)
{
	const unsigned n = minutes() ? minutes() + 1 : 3;

	ck_assert_uint_lt(n, MAX_INTERVALS);
	return n;
}

uint64_t interval_length(void)
{
	return (minutes() ? 60 : 1) * 1000000000ull;
}

void interval_end(void)
{
	struct interval *interval = &intervals[ended];
	size_t *held = interval->held;

	(void)malloc_trim(0);
	held[DESCRIPTORS] = count_entries("/proc/self/fd");
	held[THREADS] = count_entries("/proc/self/task");
	held[HEAP] = mallinfo2().uordblks + mallinfo2().hblkhd;
	held[RESIDENT] = resident_size();
	held[KERNEL] = kernel_objects();
	qsort(samples, taken, sizeof(samples[0]), sample_order);
	interval->p50 = samples[taken / 2];
	interval->p99 = samples[taken * 99ull / 100];
	taken = 0;
	printf("# %3u: %llu operations, %llu faults, %zu KiB resident, %zu KiB heap, %zu "
	       "descriptors, %zu threads, %zu kernel objects, 50 %% %u ns, 99 %% %u ns\n",
	       ended++, (unsigned long long)operations, (unsigned long long)faults,
	       held[RESIDENT] / 1024, held[HEAP] / 1024, held[DESCRIPTORS], held[THREADS],
	       held[KERNEL], interval->p50, interval->p99);
	fflush(stdout);
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

static unsigned p50(const struct interval *interval)
{
	return interval->p50;
}

static unsigned p99(const struct interval *interval)
{
	return interval->p99;
}

/* Is the value of each of the last quarter larger than DRIFT times that of any of the first? */
static bool drifts(unsigned (*value)(const struct interval *))
{
	const struct interval *first = intervals + 1, *last = intervals + ended - 1;
	const unsigned n = ended - 1;
	unsigned least = UINT32_MAX, most = 0;

	if (n < 8)
		return false;
	for (unsigned i = 0; i < n / 4; i++, first++, last--) {
		most = value(first) > most ? value(first) : most;
		least = value(last) < least ? value(last) : least;
	}
	return least > DRIFT * most;
}

void intervals_verdict(void)
{
	const struct interval *first = &intervals[0], *last = &intervals[ended - 1];

	ck_assert(threads_end(first->held[THREADS]));
	ck_assert_uint_eq(last->held[DESCRIPTORS], first->held[DESCRIPTORS]);
	for (unsigned i = 0; minutes() && i < COUNT(bounds); i++)
		ck_assert_msg(last->held[bounds[i].what] <=
				      first->held[bounds[i].what] + bounds[i].margin,
			      "%s: from %zu to %zu", bounds[i].name, first->held[bounds[i].what],
			      last->held[bounds[i].what]);
	ck_assert_msg(!drifts(p50), "the median of latency drifts");
	ck_assert_msg(!drifts(p99), "the 99th percentile of latency drifts");
}

/* Check has an int for the microseconds of a case: 35 minutes, then nonsense. */
void long_case_end(void)
{
	exit(EXIT_SUCCESS);
}
