/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a soak has, whether both ends of its connection are in one process or in two: random
 * numbers, what an end does alone, and intervals with a line each for what is held and how long
 * small messages took.
 */
#ifndef SOAK_H
#define SOAK_H

#include "../consumer/consumer.h"

unsigned random_below(unsigned limit);

/* ---- what an end does alone ---- */

void registrations(const struct side *side);
void wait_in_vain(const struct side *side);
void wait_for_a_cno(const struct side *side);

/* ---- intervals: a minute each, or without SOAK_MINUTES a second ---- */

extern uint64_t operations, faults; /* since the beginning */

void intervals_begin(void);
uint64_t soak_now(void);	  /* ns */
void sample_take(uint64_t start); /* a small message that was posted then has just arrived */

unsigned interval_count(void);	/* the first one is the warm-up */
uint64_t interval_length(void); /* ns */
bool interval_has_samples(void);
/* Prints the line. An end has nothing connected meanwhile. */
void interval_end(void);
/* After the last one: nothing has grown since the first one, and no percentile drifts. */
void intervals_verdict(void);
/* Ends a case that may have taken longer than Check can tell, which it takes for a failure. */
void long_case_end(void);

#endif
