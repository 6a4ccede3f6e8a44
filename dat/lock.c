/* SPDX-License-Identifier: BSD-2-Clause */
/* The mutexes of libdat after a fork, and what debug builds check about them. */
#include "lock.h"

bool libdat_mutex_reset(struct libdat_mutex *mutex)
{
	const bool was_free = pthread_mutex_trylock(&mutex->os) == 0;

	if (was_free)
		pthread_mutex_unlock(&mutex->os);
	else
		pthread_mutex_init(&mutex->os, NULL);
	LIBDAT_DEBUG(libdat_debug_reset(mutex));
	return was_free;
}

#ifdef UDAPL_DEBUG
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * The mutex that this thread took last, of those that it holds. The address of this variable
 * identifies the thread.
 */
static __thread struct libdat_mutex *innermost;

static _Noreturn void libdat_debug_fail(const struct libdat_mutex *mutex, const char *function,
					const char *what)
{
	fprintf(stderr, "libdat: %s: %s %s\n", function, mutex->name, what);
	abort();
}

void libdat_debug_may_lock(const struct libdat_mutex *mutex, const char *function)
{
	if (innermost && innermost->rank >= mutex->rank)
		libdat_debug_fail(mutex, function, "is taken out of order");
}

void libdat_debug_is_held(const struct libdat_mutex *mutex, const char *function)
{
	if (atomic_load(&mutex->owner) != &innermost)
		libdat_debug_fail(mutex, function, "is not held");
}

void libdat_debug_own(struct libdat_mutex *mutex)
{
	mutex->outer = innermost;
	innermost = mutex;
	atomic_store(&mutex->owner, &innermost);
}

void libdat_debug_disown(struct libdat_mutex *mutex)
{
	libdat_debug_is_held(mutex, __func__);
	if (innermost != mutex)
		libdat_debug_fail(mutex, __func__, "is released before an inner mutex");
	innermost = mutex->outer;
	atomic_store(&mutex->owner, NULL);
}

void libdat_debug_reset(struct libdat_mutex *mutex)
{
	if (innermost == mutex)
		innermost = mutex->outer;
	atomic_store(&mutex->owner, NULL);
}
#endif
