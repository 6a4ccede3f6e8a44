/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of the provider's own, and the eventfds that wake threads up. */
#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "thread.h"

/* Bytes: enough for librdmacm, libibverbs and a line of the log. */
#define SMALL_STACK (256 << 10)

#define SHORT_TURN UINT64_C(100000) /* ns; the shortest that the kernel takes */

static int thread_start_with(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			     void *arg)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(thread, attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}

int thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
	return thread_start_with(thread, NULL, run, arg);
}

int thread_start_small(pthread_t *thread, void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t detached;
	size_t usual;
	int err = -pthread_attr_init(&attr);

	if (err)
		return err;
	if (!thread)
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_getstacksize(&attr, &usual);
	pthread_attr_setstacksize(&attr, SMALL_STACK);
	err = thread_start_with(thread ? thread : &detached, &attr, run, arg);
	if (err == -EINVAL && !pthread_attr_setstacksize(&attr, usual)) {
		/* the program's thread-local memory, which is on the stack, does not fit */
		err = thread_start_with(thread ? thread : &detached, &attr, run, arg);
	}
	pthread_attr_destroy(&attr);
	return err;
}

/* sched_setattr(2), which the C library may not have */
struct scheduling {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period; /* ns */
};

void thread_take_short_turns(void)
{
	struct scheduling scheduling;

	prctl(PR_SET_TIMERSLACK, 1);
	if (syscall(SYS_sched_getattr, 0, &scheduling, sizeof(scheduling), 0) ||
	    scheduling.policy != SCHED_OTHER)
		return; /* the runtime of another policy means something else */
	scheduling.runtime = SHORT_TURN;
	scheduling.flags = SCHED_FLAG_RESET_ON_FORK;
	(void)syscall(SYS_sched_setattr, 0, &scheduling, 0);
}

bool thread_shares_fairly(void)
{
	int policy = sched_getscheduler(0) & ~(int)SCHED_RESET_ON_FORK;

	return policy == SCHED_OTHER || policy == SCHED_BATCH;
}

void cancel_allow(int state)
{
	pthread_setcancelstate(state, NULL);
}

void cancel_forbid(void)
{
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
}

int wakefd_open(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

/*
 * Writing fails only when the counter is full; then the descriptor is readable anyway. A thread
 * must not be cancelled here, because it may hold locks.
 */
void wakefd_signal(int fd)
{
	CANCEL_FORBIDDEN;

	(void)eventfd_write(fd, 1);
}

void wakefd_clear(int fd)
{
	CANCEL_FORBIDDEN;
	eventfd_t count;

	(void)eventfd_read(fd, &count);
}

void wakefds_init(struct wakefds *wakefds)
{
	spin_init(&wakefds->lock, RANK_WAKEFDS);
	wakefds->count = 0;
}

void wakefds_destroy(struct wakefds *wakefds)
{
	while (wakefds->count)
		close(wakefds->kept[--wakefds->count]);
}

int wakefd_take(struct wakefds *wakefds)
{
	int fd = -1;

	spin_lock(&wakefds->lock);
	if (wakefds->count)
		fd = wakefds->kept[--wakefds->count];
	spin_unlock(&wakefds->lock);
	return fd >= 0 ? fd : wakefd_open();
}

void wakefd_give(struct wakefds *wakefds, int fd)
{
	bool keep;

	spin_lock(&wakefds->lock);
	keep = wakefds->count < WAKEFDS_KEPT;
	if (keep)
		wakefds->kept[wakefds->count++] = fd;
	spin_unlock(&wakefds->lock);
	if (!keep)
		close(fd);
}
