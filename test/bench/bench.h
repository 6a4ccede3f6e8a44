/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What raw.c and dat.c have in common. Each has one function per thing measured, which makes CALLS
 * calls in all, so that callgrind's inclusive count of measure_X, divided by CALLS, is the cost of
 * one call with the loop around it.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdio.h>
#include <stdlib.h>

#define CALLS	64   /* transfers posted in one go */
#define SIZE	1024 /* bytes of each; more than anybody sends inline */
#define MEASURE static __attribute__((noinline, noclone)) void

/* Nothing is measured on the way to a failure. */
#define MUST(ok)                                                                                   \
	do {                                                                                       \
		if (!(ok)) {                                                                       \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #ok);           \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#endif
