/* SPDX-License-Identifier: BSD-2-Clause */
/* A spinlock, inlined: for sections of a few dozen instructions on the data path. */
#ifndef UDAPL_SPIN_H
#define UDAPL_SPIN_H

#include <sched.h>
#include <stdatomic.h>

#include "compiler.h"

/* bit 0; a word, because testing and setting its bit is one instruction */
typedef atomic_uint spinlock;

/* Somebody else has it. */
static COLD __attribute__((unused)) void spin_wait(spinlock *lock)
{
	do {
		unsigned spins = 0;

		while (atomic_load_explicit(lock, memory_order_relaxed))
			if (++spins % 64 == 0)
				sched_yield(); /* its holder may want this CPU */
	} while (atomic_fetch_or_explicit(lock, 1, memory_order_acquire) & 1);
}

static inline void spin_lock(spinlock *lock)
{
	if (unlikely(atomic_fetch_or_explicit(lock, 1, memory_order_acquire) & 1))
		spin_wait(lock);
}

static inline void spin_unlock(spinlock *lock)
{
	atomic_store_explicit(lock, 0, memory_order_release);
}

#endif
