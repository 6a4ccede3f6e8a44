/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What raw.c, raw_ofi.c and dat.c share. Each row X of the table is a function measure_X in them,
 * which does the same over verbs, over libfabric and over DAT: rows.h has the posts. It makes CALLS
 * calls and is called TURNS times, or it makes one and is called as often as that is in all.
 * callgrind's count of it and of what it calls, divided by CALLS * TURNS, is the cost of one call
 * with the loop around it.
 */
#ifndef BENCH_H
#define BENCH_H

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CALLS 64 /* transfers posted in one go */
/*
 * The queues hold CALLS * TURNS: so each row goes once around the rings, and has its share of what
 * that costs.
 */
#define TURNS 2
#define SIZE  1024 /* bytes of each; more than a provider sends inline */
#define SMALL 32   /* bytes that it sends inline */
/* The instructions of such a function are its own: it is not inlined, cloned or merged. */
#ifdef __clang__
#define APART __attribute__((noinline))
#else
#define APART __attribute__((noinline, noclone, no_icf))
#endif
#define MEASURE static APART void

/* A failure ends the program without a result. */
#define MUST(ok)                                                                                   \
	do {                                                                                       \
		if (!(ok)) {                                                                       \
			fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #ok);           \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/*
 * Appends to the results, of which the report is made. results.sh names the file, and says what
 * its lines are. Without that there are none.
 */
static inline __attribute__((format(printf, 1, 2))) void results_print(const char *format, ...)
{
	const char *name = getenv("BENCH_RESULTS");
	FILE *file = name ? fopen(name, "a") : NULL;
	va_list args;

	if (!name)
		return;
	MUST(file);
	va_start(args, format);
	MUST(vfprintf(file, format, args) >= 0);
	va_end(args);
	MUST(!fclose(file));
}

static inline uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The microseconds of a processor that all threads of the process have taken. */
static inline double processor_us(void)
{
	struct timespec taken;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &taken);
	return (double)taken.tv_sec * 1e6 + (double)taken.tv_nsec / 1e3;
}

static inline int compare_doubles(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Sorts the values. */
static inline double median(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), compare_doubles);
	return values[count / 2];
}

/* The memory of the process, in kB, but for that of files. */
static inline long memory_kb(void)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[128];
	long kb = 0;

	MUST(status);
	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "RssAnon: %ld", &kb) == 1)
			break;
	fclose(status);
	return kb;
}

static inline void *bench_idle(void *arg)
{
	pause();
	return arg;
}

/*
 * With a second thread the C library's system calls cost a little more. Every program that uses a
 * provider has one, so those that use none start one, too.
 */
static inline void second_thread_start(void)
{
	pthread_t thread;

	MUST(!pthread_create(&thread, NULL, bench_idle, NULL));
}

#endif
