/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for a spinlock; and what debug builds check: the rank and the holder of each lock, and
 * other invariants.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lock.h"
#include "race.h"

#define SPINS_PER_YIELD 64
#define YIELDS		16

/*
 * Sleeps without being cancelled: nanosleep is a cancellation point, and the thread may hold locks.
 */
static void take_a_nap(void)
{
	const struct timespec time = { .tv_nsec = 20000 };
	int cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	(void)nanosleep(&time, NULL);
	pthread_setcancelstate(cancel_state, NULL);
}

/*
 * The holder may be waiting for this processor. It gets it from sched_yield, unless this thread has
 * a real-time priority and the holder a lower one: then only from a sleep.
 */
void spin_wait(struct spinlock *lock)
{
	unsigned spins = 0;

	race_reach(RACE_SPIN, lock);
	do {
		while (atomic_load_explicit(&lock->word, memory_order_relaxed)) {
			if (++spins % SPINS_PER_YIELD != 0)
				continue;
			if (spins <= SPINS_PER_YIELD * YIELDS)
				sched_yield();
			else
				take_a_nap();
		}
	} while (atomic_fetch_or_explicit(&lock->word, 1, memory_order_acquire) & 1);
}

void debug_fail(const char *file, int line, const char *function, const char *what)
{
	fprintf(stderr, "%s:%d: %s: this does not hold: %s\n", file, line, function, what);
	abort();
}

#ifdef UDAPL_DEBUG
race_hook_fn *_Atomic race_hook;

#define HELD_MAX 8 /* the longest chain of locks is 6 */

/*
 * Memory that each thread has from its beginning. Otherwise the first lock of a thread takes some,
 * and a process that has none left ends there.
 */
#define OF_THREAD __attribute__((tls_model("initial-exec"))) _Thread_local

/* The locks that the calling thread holds, in the order of taking; their ranks ascend. */
static OF_THREAD const struct lock_id *held[HELD_MAX];
static OF_THREAD unsigned held_count;

__attribute__((noreturn)) static void rule_broken(const char *rule, const struct lock_id *id,
						  const char *where)
{
	fprintf(stderr, "lock rule broken: %s: %s%s%s; held:", rule, id->name ? id->name : "a lock",
		*where ? " in " : "", where);
	for (unsigned i = 0; i < held_count; i++)
		fprintf(stderr, " %s", held[i]->name);
	fprintf(stderr, "%s\n", held_count ? "" : " none");
	abort();
}

/* Returns where a lock is among those that the thread holds; held_count if it is not. */
static unsigned held_index(const struct lock_id *id)
{
	unsigned i = 0;

	while (i < held_count && held[i] != id)
		i++;
	return i;
}

void lock_check_take(const struct lock_id *id)
{
	if (id->rank == RANK_UNSET)
		rule_broken("taken before it is initialised", id, "");
	if (held_index(id) < held_count)
		rule_broken("taken twice", id, "");
	if (held_count > 0 && held[held_count - 1]->rank >= id->rank)
		rule_broken("taken out of order", id, "");
	debug_assert(held_count < HELD_MAX);
	held[held_count++] = id;
}

void lock_check_release(const struct lock_id *id)
{
	unsigned i = held_index(id);

	if (i == held_count)
		rule_broken("released without being held", id, "");
	race_reach(RACE_UNLOCK, id->name);
	held_count--;
	for (; i < held_count; i++)
		held[i] = held[i + 1];
}

void lock_check_held(const struct lock_id *id, const char *function)
{
	if (held_index(id) == held_count)
		rule_broken("not held", id, function);
}

void lock_check_none_held(const char *function)
{
	if (held_count > 0)
		rule_broken("held where none may be", held[held_count - 1], function);
}

void lock_check_uncancelled(const struct lock_id *id)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	if (state != PTHREAD_CANCEL_DISABLE)
		rule_broken("taken by a thread that may be cancelled", id, "");
}
#endif
