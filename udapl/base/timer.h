/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timers by deadline, those of the same deadline as they were added. To add or remove one of n
 * takes at most about 2 log2(n) steps and no memory: there may be one for each endpoint.
 */
#ifndef UDAPL_TIMER_H
#define UDAPL_TIMER_H

#include <stdint.h>

struct timer {
	uint64_t deadline; /* tp_now() clock; 0 = not set */
	uint64_t number;   /* of timers that were added before */
	struct timer *parent, *left, *right;
	/* how many timers the way to the right from here passes, this one included */
	unsigned rank;
	void (*run)(struct timer *); /* with ia->lock held */
};

struct timer_heap {
	struct timer *first; /* the next to run; NULL: there is none */
	uint64_t added;	     /* how many timers, ever */
};

/*
 * Adds a timer whose deadline is set, and that is in no heap. ia->lock is held, as by all callers.
 */
void timer_heap_add(struct timer_heap *heap, struct timer *timer);
/* Removes a timer that is in this heap. */
void timer_heap_remove(struct timer_heap *heap, struct timer *timer);

#endif
