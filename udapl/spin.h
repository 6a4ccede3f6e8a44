/* SPDX-License-Identifier: BSD-2-Clause */
/* A spinlock of one byte, inlined: for sections of a few dozen instructions on the data path. */
#ifndef UDAPL_SPIN_H
#define UDAPL_SPIN_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "compiler.h"

typedef atomic_bool spinlock;

static inline void spin_lock(spinlock *lock)
{
	while (unlikely(atomic_exchange_explicit(lock, true, memory_order_acquire))) {
		unsigned spins = 0;

		while (atomic_load_explicit(lock, memory_order_relaxed))
			if (++spins % 64 == 0)
				sched_yield(); /* its holder may want this CPU */
	}
}

static inline void spin_unlock(spinlock *lock)
{
	atomic_store_explicit(lock, false, memory_order_release);
}

#endif
