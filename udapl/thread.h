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
 * Likewise, detached if @thread is NULL, and with a small stack: for a thread that runs no code of
 * the consumer, of which there may be many.
 */
int thread_start_small(pthread_t *thread, void *(*run)(void *), void *arg);

/*
 * From cancel_forbid to cancel_restore the calling thread can't be cancelled, except between
 * cancel_allow and cancel_forbid_again: there at a cancellation point, if the consumer allows it at
 * all, but never at any other instruction.
 */
struct cancellation {
	int state, type;
};
void cancel_forbid(struct cancellation *consumers);
void cancel_allow(const struct cancellation *consumers);
void cancel_forbid_again(void);
void cancel_restore(const struct cancellation *consumers);

/* A non-blocking eventfd, or a negative errno. Readable from wakefd_signal to wakefd_clear. */
int wakefd_open(void);
void wakefd_signal(int fd); /* any thread, under any lock */
void wakefd_clear(int fd);

/*
 * The wakefds of threads that sleep. A few are kept for those that sleep next, so that a wait makes
 * no system calls for its own. Any thread.
 */
#define WAKEFDS_KEPT 8

struct wakefds {
	struct spinlock lock;
	unsigned count;		/* lock */
	int kept[WAKEFDS_KEPT]; /* lock */
};

void wakefds_init(struct wakefds *wakefds);
void wakefds_destroy(struct wakefds *wakefds);
int wakefd_take(struct wakefds *wakefds); /* or a negative errno */
/* It is not readable, and no thread signals it any more. */
void wakefd_give(struct wakefds *wakefds, int fd);

#endif
