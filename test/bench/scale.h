/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of scale.c and scale_peers.c: a row for a call, a column for a number of objects. With
 * one number only, callgrind counts from each cell_begin to the cell_end that follows (run-scale).
 */
#ifndef BENCH_SCALE_H
#define BENCH_SCALE_H

#include <time.h>

#include "bench.h"

#define FLAT 2.0 /* more than this, from the first figure to the last, is growth */

enum { COLUMNS = 5 };
static const unsigned columns[COLUMNS] = { 10, 100, 1000, 10000, 100000 };

static unsigned only_number; /* of objects, of which a profiler counts; 0: all are timed */

static double cpu_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* The time of a row with one number of objects: the least of several measurements. */
struct cell {
	double began, us;
};

static APART void cell_begin(struct cell *cell)
{
	cell->began = cpu_us();
}

/* The time since cell_begin was that of @n objects. */
static APART void cell_end(struct cell *cell, unsigned n)
{
	double us = (cpu_us() - cell->began) / n;

	if (only_number)
		printf("objects\t%u\n", n);
	if (!cell->us || us < cell->us)
		cell->us = us;
}

/* How often that number of objects is measured: the small ones more often; 0: not at all. */
static unsigned repetitions(unsigned n)
{
	if (only_number)
		return n == only_number;
	return n <= 10 ? 50 : n <= 100 ? 10 : n <= 1000 ? 5 : 3;
}

static void row_print(const char *name, const struct cell cells[COLUMNS])
{
	double last = 0;

	if (only_number) { /* the names of the figures before, in their order */
		printf("row\t%s\n", name);
		return;
	}
	printf("%-40s", name);
	results_print("row\t%s", name);
	for (int i = 0; i < COLUMNS; i++)
		if (cells[i].us > 0) {
			last = cells[i].us;
			printf(" %8.2f", last);
			results_print("\t%.3f", last);
		} else {
			printf(" %8s", "-");
			results_print("\t-");
		}
	results_print("\n");
	if (cells[0].us > 0)
		printf(" %8.1f%s", last / cells[0].us, last > FLAT * cells[0].us ? "  over" : "");
	printf("\n");
	fflush(stdout);
}

#endif
