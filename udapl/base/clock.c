/* SPDX-License-Identifier: BSD-2-Clause */
/* For the transports of real devices: the time, and poll(2) and epoll_wait(2) with a deadline. */
#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#include "transport.h"

#define NSEC_PER_SEC 1000000000ull

uint64_t tp_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
}

/* Returns the time that is left until the deadline, in @left; NULL if there is none. */
static const struct timespec *time_left(uint64_t deadline, struct timespec *left)
{
	uint64_t now;

	if (deadline == TP_NEVER)
		return NULL;
	now = tp_now();
	*left = (struct timespec){ 0 };
	if (deadline > now) {
		left->tv_sec = (time_t)((deadline - now) / NSEC_PER_SEC);
		left->tv_nsec = (long)((deadline - now) % NSEC_PER_SEC);
	}
	return left;
}

int tp_poll(struct pollfd *fds, unsigned nfds, uint64_t deadline)
{
	struct timespec left;

	for (;;) {
		int n = ppoll(fds, nfds, time_left(deadline, &left), NULL);

		if (n < 0)
			return -errno;
		if (n > 0 || tp_now() >= deadline)
			return n;
	}
}

/* tp_epoll on kernels before 5.11, and under valgrind: they have no epoll_pwait2(2). */
static int poll_then_epoll(int epoll, struct epoll_event *events, int max, uint64_t deadline)
{
	struct pollfd pollfd = { .fd = epoll, .events = POLLIN };
	int n = tp_poll(&pollfd, 1, deadline);

	if (n <= 0)
		return n;
	n = epoll_wait(epoll, events, max, 0);
	return n < 0 ? -errno : n;
}

#ifdef HAVE_EPOLL_PWAIT2
int tp_epoll(int epoll, struct epoll_event *events, int max, uint64_t deadline)
{
	static atomic_bool absent; /* the kernel is asked once */
	struct timespec left;

	while (!atomic_load_explicit(&absent, memory_order_relaxed)) {
		int n = epoll_pwait2(epoll, events, max, time_left(deadline, &left), NULL);

		if (n < 0 && errno == ENOSYS) {
			atomic_store_explicit(&absent, true, memory_order_relaxed);
			break;
		}
		if (n < 0)
			return -errno;
		if (n > 0 || tp_now() >= deadline)
			return n;
	}
	return poll_then_epoll(epoll, events, max, deadline);
}
#else
int tp_epoll(int epoll, struct epoll_event *events, int max, uint64_t deadline)
{
	return poll_then_epoll(epoll, events, max, deadline);
}
#endif
