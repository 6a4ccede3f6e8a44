/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of the provider's own, and the eventfds that wake threads up. */
#ifndef UDAPL_THREAD_H
#define UDAPL_THREAD_H

#include <pthread.h>

#include "lock.h"

/*
 * Starts a thread with all signals blocked: the consumer's signal handlers run on the consumer's
 * threads. Returns 0 or a negative errno.
 */
int thread_start(pthread_t *thread, void *(*run)(void *), void *arg);
/*
 * As thread_start, detached if @thread is NULL, and with a small stack: for a thread that runs no
 * code of the consumer, of which there may be many.
 */
int thread_start_small(pthread_t *thread, void *(*run)(void *), void *arg);

/*
 * Asks the kernel to wake the calling thread on time, not up to 50 us later, and to run it then,
 * though others keep all processors busy; in return it runs for a short time, until they go on.
 * Linux before 6.12 has no such turns. Threads that this one starts are as others.
 */
void thread_take_short_turns(void);

/*
 * The first line of a block: until its end, by whatever way it is left, the calling thread can't be
 * cancelled. A request to cancel it stays pending. Every call of the consumer that may meet a
 * cancellation point begins so; those of the data path do it where they meet one, and waits as
 * follows.
 */
#define CANCEL_FORBIDDEN                                                                           \
	__attribute__((cleanup(cancel_state_restore), unused))                                     \
	const int cancel_state_before = cancel_state_forbid()

/* The two ends of CANCEL_FORBIDDEN. */
static inline int cancel_state_forbid(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void cancel_state_restore(const int *before)
{
	pthread_setcancelstate(*before, NULL);
}

/*
 * For a wait, in such a block: from here to cancel_forbid the thread can be cancelled, if @state,
 * which is cancel_state_before, says that the consumer allows it. Its type is deferred, so that it
 * is cancelled at a cancellation point, and at no other instruction. No lock is held.
 */
void cancel_allow(int state);
void cancel_forbid(void);

/*
 * Does the kernel share a processor fairly between the calling thread and others? Not with the
 * policies of real-time: such a thread keeps it when it yields.
 */
bool thread_shares_fairly(void);

/* Returns a non-blocking eventfd, or a negative errno. It is not readable. */
int wakefd_open(void);
/* Makes it readable until wakefd_clear. Any thread, under any lock. */
void wakefd_signal(int fd);
/* Makes it unreadable, whether it is readable or not. Any thread, under any lock. */
void wakefd_clear(int fd);

/*
 * The wakefds of threads that sleep. A few are kept for those that sleep next, so that a wait makes
 * no system calls for its own.
 */
#define WAKEFDS_KEPT 8

struct wakefds {
	struct spinlock lock;
	unsigned count;		/* lock */
	int kept[WAKEFDS_KEPT]; /* lock */
};

/* For an IA that is opened. */
void wakefds_init(struct wakefds *wakefds);
/* For an IA that is closed: closes those that are kept. */
void wakefds_destroy(struct wakefds *wakefds);
/* Returns a wakefd, kept or new, or a negative errno. Any thread; takes wakefds.lock. */
int wakefd_take(struct wakefds *wakefds);
/*
 * Gives one back that is not readable, and that no thread signals any more. Any thread; takes
 * wakefds.lock.
 */
void wakefd_give(struct wakefds *wakefds, int fd);

#endif
