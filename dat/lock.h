/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The mutexes of libdat. Debug builds (UDAPL_DEBUG) record the owner of each, and abort with a
 * message when one is taken out of order, or released or asserted by a thread that does not hold
 * it. In release builds they are plain mutexes.
 */
#ifndef DAT_LOCK_H
#define DAT_LOCK_H

#include <pthread.h>

/* The order: a thread takes a mutex only while every mutex that it holds has a lower rank. */
enum libdat_rank {
	LIBDAT_RANK_REGISTRY = 1,
	LIBDAT_RANK_IA_SLOTS = 2,
};

struct libdat_mutex {
	pthread_mutex_t os;
#ifdef UDAPL_DEBUG
	const char *name;
	enum libdat_rank rank;
	_Atomic(const void *) owner; /* identifies a thread; NULL while nobody holds the mutex */
	struct libdat_mutex *outer;  /* by the owner: the mutex that it took before this one */
#endif
};

/* clang-format off */
#ifdef UDAPL_DEBUG
#define LIBDAT_MUTEX(name_, rank_) { PTHREAD_MUTEX_INITIALIZER, (name_), (rank_), NULL, NULL }
#else
#define LIBDAT_MUTEX(name_, rank_) { PTHREAD_MUTEX_INITIALIZER }
#endif
/* clang-format on */

#ifdef UDAPL_DEBUG
void libdat_mutex_lock(struct libdat_mutex *mutex);
void libdat_mutex_unlock(struct libdat_mutex *mutex);
/* Waits for a signal of cond; the mutex is released meanwhile. */
void libdat_mutex_wait(pthread_cond_t *cond, struct libdat_mutex *mutex);
void libdat_mutex_assert_held(const struct libdat_mutex *mutex, const char *function);
#define ASSERT_HELD(mutex) libdat_mutex_assert_held((mutex), __func__)
#else
static inline void libdat_mutex_lock(struct libdat_mutex *mutex)
{
	pthread_mutex_lock(&mutex->os);
}

static inline void libdat_mutex_unlock(struct libdat_mutex *mutex)
{
	pthread_mutex_unlock(&mutex->os);
}

static inline void libdat_mutex_wait(pthread_cond_t *cond, struct libdat_mutex *mutex)
{
	pthread_cond_wait(cond, &mutex->os);
}

#define ASSERT_HELD(mutex) ((void)(mutex))
#endif

#endif
