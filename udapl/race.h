/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The points at which threads race. In debug builds a test can have a function called in the thread
 * that reaches one of them, for example to hold that thread while another one acts. In release
 * builds they do not exist.
 */
#ifndef UDAPL_RACE_H
#define UDAPL_RACE_H

#include <stdatomic.h>

enum race_point {
	RACE_ROOM,  /* evd->lock was let go of to allocate slots of the event queue */
	RACE_ARM,   /* how to arm is chosen, the queue is not armed yet; channel.lock is held */
	RACE_EXPEL, /* an EVD that is freed has told its waiter to leave; ia->lock is held */
	RACE_POINTS,
};

#ifdef UDAPL_DEBUG
typedef void race_hook_fn(enum race_point point);
extern race_hook_fn *_Atomic race_hook; /* lock.c */

static inline void race_reach(enum race_point point)
{
	race_hook_fn *hook = atomic_load_explicit(&race_hook, memory_order_acquire);

	if (hook)
		hook(point);
}
#else
#define race_reach(point) ((void)0)
#endif

#endif
