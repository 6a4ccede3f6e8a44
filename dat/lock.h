/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The mutexes of libdat. Debug builds (UDAPL_DEBUG) record the owner of each, and abort with a
 * message when one is taken out of order, or released or asserted by a thread that does not hold
 * it. In release builds they are plain mutexes.
 */
#ifndef DAT_LOCK_H
#define DAT_LOCK_H

#include <pthread.h>
#include <stdbool.h>

/*
 * This is the first line of a block: until its end, by whatever way it is left, the calling thread
 * can't be cancelled. A request to cancel it stays pending. Every call that takes a mutex and may
 * meet a cancellation point begins so.
 */
#define NO_CANCELLATION                                                                            \
	__attribute__((cleanup(libdat_cancel_restore), unused))                                    \
	const int cancel_state_before = libdat_cancel_disable()

static inline int libdat_cancel_disable(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void libdat_cancel_restore(const int *before)
{
	pthread_setcancelstate(*before, NULL);
}

/* A thread takes a mutex only while every mutex that it holds has a lower rank. */
enum libdat_rank {
	LIBDAT_RANK_REGISTRY = 1,
	LIBDAT_RANK_IA_SLOTS = 2,
};

struct libdat_mutex {
	pthread_mutex_t os;
#ifdef UDAPL_DEBUG
	const char *name;
	enum libdat_rank rank;
	_Atomic(const void *) owner; /* identifies a thread; NULL while no thread holds it */
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
/* These abort if the calling thread may not take the mutex now, or does not hold it. */
void libdat_debug_may_lock(const struct libdat_mutex *mutex, const char *function);
void libdat_debug_is_held(const struct libdat_mutex *mutex, const char *function);
void libdat_debug_own(struct libdat_mutex *mutex);
void libdat_debug_disown(struct libdat_mutex *mutex);
void libdat_debug_reset(struct libdat_mutex *mutex);
#define LIBDAT_DEBUG(call) call
#else
#define LIBDAT_DEBUG(call) ((void)0)
#endif

#define ASSERT_HELD(mutex) LIBDAT_DEBUG(libdat_debug_is_held((mutex), __func__))

static inline void libdat_mutex_lock(struct libdat_mutex *mutex)
{
	LIBDAT_DEBUG(libdat_debug_may_lock(mutex, __func__));
	pthread_mutex_lock(&mutex->os);
	LIBDAT_DEBUG(libdat_debug_own(mutex));
}

static inline void libdat_mutex_unlock(struct libdat_mutex *mutex)
{
	LIBDAT_DEBUG(libdat_debug_disown(mutex));
	pthread_mutex_unlock(&mutex->os);
}

/*
 * Releases the mutex, which a thread of the parent may have held, in the child after a fork.
 * Returns whether none did.
 */
bool libdat_mutex_reset(struct libdat_mutex *mutex);

/*
 * Waits for a signal of @cond; the mutex is released meanwhile. The thread can't be cancelled here:
 * it would end with the mutex taken.
 */
static inline void libdat_mutex_wait(pthread_cond_t *cond, struct libdat_mutex *mutex)
{
	NO_CANCELLATION;

	LIBDAT_DEBUG(libdat_debug_disown(mutex));
	pthread_cond_wait(cond, &mutex->os);
	LIBDAT_DEBUG(libdat_debug_own(mutex));
}

#endif
