/* SPDX-License-Identifier: BSD-2-Clause */
/* What debug builds check about the mutexes of libdat; release builds have nothing here. */
#include "lock.h"

typedef int libdat_lock_is_never_empty; /* ISO C wants a declaration in every file */

#ifdef UDAPL_DEBUG
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * The mutex that this thread took last, of those that it holds. The address of this variable
 * identifies the thread.
 */
static __thread struct libdat_mutex *innermost;

static _Noreturn void libdat_mutex_fail(const struct libdat_mutex *mutex, const char *function,
					const char *what)
{
	fprintf(stderr, "libdat: %s: %s %s\n", function, mutex->name, what);
	abort();
}

static void libdat_mutex_own(struct libdat_mutex *mutex)
{
	mutex->outer = innermost;
	innermost = mutex;
	atomic_store(&mutex->owner, &innermost);
}

static void libdat_mutex_disown(struct libdat_mutex *mutex)
{
	innermost = mutex->outer;
	atomic_store(&mutex->owner, NULL);
}

void libdat_mutex_lock(struct libdat_mutex *mutex)
{
	if (innermost && innermost->rank >= mutex->rank)
		libdat_mutex_fail(mutex, __func__, "is taken out of order");
	pthread_mutex_lock(&mutex->os);
	libdat_mutex_own(mutex);
}

void libdat_mutex_unlock(struct libdat_mutex *mutex)
{
	libdat_mutex_assert_held(mutex, __func__);
	if (innermost != mutex)
		libdat_mutex_fail(mutex, __func__, "is released before an inner mutex");
	libdat_mutex_disown(mutex);
	pthread_mutex_unlock(&mutex->os);
}

void libdat_mutex_wait(pthread_cond_t *cond, struct libdat_mutex *mutex)
{
	libdat_mutex_assert_held(mutex, __func__);
	if (innermost != mutex || mutex->outer)
		libdat_mutex_fail(mutex, __func__, "is not the only mutex held");
	libdat_mutex_disown(mutex);
	pthread_cond_wait(cond, &mutex->os);
	libdat_mutex_own(mutex);
}

void libdat_mutex_assert_held(const struct libdat_mutex *mutex, const char *function)
{
	if (atomic_load(&mutex->owner) != &innermost)
		libdat_mutex_fail(mutex, function, "is not held");
}
#endif
