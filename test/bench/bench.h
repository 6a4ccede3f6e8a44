/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What raw.c and dat.c share. The function measure_X of each makes CALLS calls, so that callgrind's
 * inclusive count of it, divided by CALLS, is the cost of one call with the loop around it.
 * Functions of the same name do the same on purpose, once over verbs and once over DAT.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdio.h>
#include <stdlib.h>

#define CALLS	64   /* transfers posted in one go */
#define SIZE	1024 /* bytes of each; more than a provider sends inline */
#define MEASURE static __attribute__((noinline, noclone)) void

/* A failure ends the program without a result. */
#define MUST(ok)                                                                                   \
	do {                                                                                       \
		if (!(ok)) {                                                                       \
			fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #ok);           \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#endif
