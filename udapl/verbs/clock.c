/* SPDX-License-Identifier: BSD-2-Clause */
/* The time, and poll(2) with a deadline. */
#include <errno.h>
#include <time.h>

#include "verbs.h"

#define NSEC_PER_SEC 1000000000ull

uint64_t tp_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
}

int tp_poll(struct pollfd *fds, unsigned nfds, uint64_t deadline)
{
	struct timespec left = { 0 };
	uint64_t now;
	int n;

	for (;;) {
		now = deadline == TP_NEVER ? 0 : tp_now();
		if (deadline > now) {
			left.tv_sec = (time_t)((deadline - now) / NSEC_PER_SEC);
			left.tv_nsec = (long)((deadline - now) % NSEC_PER_SEC);
		} else {
			left = (struct timespec){ 0 };
		}
		n = ppoll(fds, nfds, deadline == TP_NEVER ? NULL : &left, NULL);
		if (n < 0)
			return -errno;
		if (n > 0 || tp_now() >= deadline)
			return n;
	}
}
