/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mutexes and spinlocks that know their rank. A debug build (UDAPL_DEBUG) keeps a list of the locks
 * that each thread holds, and aborts with a message when a lock is taken out of order or twice, or
 * is released or asserted without being held. In a release build that costs nothing.
 */
#ifndef UDAPL_LOCK_H
#define UDAPL_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base.h"

/*
 * Outermost first: a thread may take a lock only if all locks that it holds have a lower rank. The
 * table at the top of core/core.h says what each lock guards.
 */
enum lock_rank {
	RANK_UNSET, /* the lock was never initialised */
	/* mutexes */
	RANK_RELEASE_RUN,
	RANK_SRQ_DEPTH,
	RANK_IA,
	RANK_CM_EVENTS,
	RANK_ASYNC_LOAN,
	RANK_CM_RESULT,
	RANK_COOKIES,
	RANK_PROVIDERS,
	RANK_CNO_WATCH,
	RANK_CHANNEL,
	RANK_CQ_DEPTH,
	RANK_CQS,
	RANK_MR_EVENTS,
	/* spinlocks */
	RANK_POST,
	RANK_EVD,
	RANK_CQ_STRAYS,
	RANK_EP_WINDOWS,
	RANK_RMR,
	RANK_QP_WINDOWS,
	RANK_CQ,
	RANK_SRQ,
	RANK_LMR_TABLE,
	RANK_RELEASE_QUEUE,
	RANK_CNO,
	RANK_POOL,
	RANK_SERVICE,
	RANK_WAKEFDS,
	RANK_PD_QPS,
	RANK_MRS,
	RANK_DUE,
	RANK_SRX,
};

struct lock_id {
#ifdef UDAPL_DEBUG
	enum lock_rank rank;
	const char *name; /* of the variable, for messages */
#endif
};

/* clang-format off */
#ifdef UDAPL_DEBUG
#define LOCK_ID(rank, name) { (rank), (name) }
#else
#define LOCK_ID(rank, name) { }
#endif
/* clang-format on */

#ifdef UDAPL_DEBUG
/*
 * What debug builds check of the calling thread; each aborts with a message if it does not hold.
 * This one is called before the thread waits for a lock: all locks that it holds have lower ranks.
 */
void lock_check_take(const struct lock_id *id);
/* The thread holds the lock that it is about to release. */
void lock_check_release(const struct lock_id *id);
/* The thread holds the lock, in @function. */
void lock_check_held(const struct lock_id *id, const char *function);
/* The thread holds no lock, in @function. */
void lock_check_none_held(const char *function);
/* The thread, which is about to take a mutex, can't be cancelled. */
void lock_check_uncancelled(const struct lock_id *id);
#else
#define lock_check_take(id)	       ((void)(id))
#define lock_check_release(id)	       ((void)(id))
#define lock_check_held(id, function)  ((void)(id))
#define lock_check_none_held(function) ((void)0)
#define lock_check_uncancelled(id)     ((void)(id))
#endif

/* Debug builds abort if the calling thread does not hold @lock; or if it holds any lock. */
#define assert_locked(lock)   lock_check_held(&(lock)->id, __func__)
#define assert_no_lock_held() lock_check_none_held(__func__)

/*
 * For the data path: a sequentially consistent load. On x86 every load is, but a compiler compares
 * a word in memory without a register only if it is not told that it is atomic.
 */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define hot_load(type, field)                                                                      \
	({                                                                                         \
		__asm__ volatile("" ::: "memory");                                                 \
		*(const type *)(field);                                                            \
	})
#else
#define hot_load(type, field) atomic_load_explicit(field, memory_order_seq_cst)
#endif

/*
 * For the data path: relaxed access to a field that another thread may write at the same time, if
 * the old value does as well as the new one. An atomic load would take an instruction of its own.
 */
#if defined(__SANITIZE_THREAD__)
#define hot_read(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#else
#define hot_read(field) (field)
#endif
#define hot_write(field, value) __atomic_store_n(&(field), value, __ATOMIC_RELAXED)

/*
 * ---- mutexes: for whatever may take its time; so no thread that may be cancelled takes one, see
 * CANCEL_FORBIDDEN ----
 */

struct mutex {
	pthread_mutex_t os;
	struct lock_id id;
};

/* clang-format off */
#define MUTEX_INITIALIZER(rank, name) { .os = PTHREAD_MUTEX_INITIALIZER, .id = LOCK_ID(rank, name) }
/* clang-format on */
#define mutex_init(mutex, rank) mutex_init_as(mutex, (struct lock_id)LOCK_ID(rank, #mutex))

static inline void mutex_init_as(struct mutex *mutex, struct lock_id id)
{
	pthread_mutex_init(&mutex->os, NULL);
	mutex->id = id;
}

static inline void mutex_destroy(struct mutex *mutex)
{
	pthread_mutex_destroy(&mutex->os);
}

static inline void mutex_lock(struct mutex *mutex)
{
	lock_check_uncancelled(&mutex->id);
	lock_check_take(&mutex->id);
	pthread_mutex_lock(&mutex->os);
}

/* Takes the mutex, or returns false if another thread holds it. */
static inline bool mutex_trylock(struct mutex *mutex)
{
	lock_check_uncancelled(&mutex->id);
	if (pthread_mutex_trylock(&mutex->os))
		return false;
	lock_check_take(&mutex->id);
	return true;
}

static inline void mutex_unlock(struct mutex *mutex)
{
	lock_check_release(&mutex->id);
	pthread_mutex_unlock(&mutex->os);
}

/* In the child after a fork: releases the mutex, whose owner may not exist there. */
static inline void mutex_after_fork(struct mutex *mutex)
{
	pthread_mutex_init(&mutex->os, NULL);
}

/*
 * pthread_cond_wait: the mutex, which is held, is released while the thread waits. It is a
 * cancellation point, but not for a thread that could take a mutex.
 */
static inline void cond_wait_relock(pthread_cond_t *cond, struct mutex *mutex)
{
	lock_check_release(&mutex->id);
	pthread_cond_wait(cond, &mutex->os);
	lock_check_take(&mutex->id);
}

/* ---- spinlocks: for sections of a few dozen instructions on the data path ---- */

struct spinlock {
	atomic_uint word; /* bit 0: taken; a word, because one instruction tests and sets its bit */
	struct lock_id id;
};

/* clang-format off */
#define SPINLOCK_INITIALIZER(rank, name) { .id = LOCK_ID(rank, name) }
/* clang-format on */
#define spin_init(lock, rank) spin_init_as(lock, (struct lock_id)LOCK_ID(rank, #lock))

static inline void spin_init_as(struct spinlock *lock, struct lock_id id)
{
	atomic_init(&lock->word, 0);
	lock->id = id;
}

/*
 * lock.c: the rest of spin_lock, when another thread holds the lock. Yields, and sleeps in the end.
 */
COLD void spin_wait(struct spinlock *lock);

/* In the child after a fork: releases the lock, whose owner may not exist there. */
static inline void spin_after_fork(struct spinlock *lock)
{
	atomic_store_explicit(&lock->word, 0, memory_order_relaxed);
}

static inline void spin_lock(struct spinlock *lock)
{
	lock_check_take(&lock->id);
	if (unlikely(atomic_fetch_or_explicit(&lock->word, 1, memory_order_acquire) & 1))
		spin_wait(lock);
}

/* Takes the lock, or returns false if another thread holds it. */
static inline bool spin_trylock(struct spinlock *lock)
{
	if (unlikely(atomic_fetch_or_explicit(&lock->word, 1, memory_order_acquire) & 1))
		return false;
	lock_check_take(&lock->id);
	return true;
}

static inline void spin_unlock(struct spinlock *lock)
{
	lock_check_release(&lock->id);
	atomic_store_explicit(&lock->word, 0, memory_order_release);
}

#endif
