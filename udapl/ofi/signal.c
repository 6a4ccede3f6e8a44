/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libfabric's descriptor of a completion queue is readable when bytes have arrived, and when there
 * are completions. That of its tcp is an epoll set of the sockets and of a signal, which libfabric
 * sets with a completion, by a system call, and clears with another one when a read of the queue
 * finds it set. So each message costs up to four system calls, to wake who sleeps.
 *
 * While a consumer polls, and nobody sleeps, the signal is muted: the set does not report it. Then
 * libfabric sets it with the first completion, and never finds it set; only fi_trywait clears it.
 * No manual tells of it; but in a new queue it is the only descriptor in the set. Since 1.18 there
 * is a second one, and no read of a queue clears the signal, so there nothing is muted.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "ofi.h"

/* Of a line that the kernel writes for each descriptor in an epoll set, see proc_pid_fdinfo(5). */
#define MEMBER "tfd:"

/* Reads what the kernel tells of a descriptor. Returns whether it was all that fits. */
static bool fdinfo_read(int fd, char *text, size_t size)
{
	char name[48];
	ssize_t length;
	int info;

	snprintf(name, sizeof(name), "/proc/thread-self/fdinfo/%d", fd);
	info = open(name, O_RDONLY | O_CLOEXEC);
	if (info < 0)
		return false;
	length = read(info, text, size - 1);
	close(info);
	if (length < 0)
		return false;
	text[length] = '\0';
	return (size_t)length < size - 1;
}

void fi_signal_find(struct fi_signal *found, int set)
{
	struct fi_signal signal;
	char text[512], *member;

	found->fd = -1;
	if (!fdinfo_read(set, text, sizeof(text)))
		return;
	member = strstr(text, MEMBER);
	if (!member || strstr(member + strlen(MEMBER), MEMBER))
		return;
	if (sscanf(member, MEMBER "%d events: %" SCNx32 " data: %" SCNx64, &signal.fd,
		   &signal.events, &signal.data) == 3)
		*found = signal;
}

/* Has the set report the signal, or not. Returns whether that worked. */
static bool signal_report(const struct tp_cq *cq, bool report)
{
	struct epoll_event event = { .events = report ? cq->fi_signal.events : 0,
				     .data.u64 = cq->fi_signal.data };

	return !epoll_ctl(cq->fi_fd, EPOLL_CTL_MOD, cq->fi_signal.fd, &event);
}

bool cq_may_be_muted(const struct tp_cq *cq)
{
	return cq->fi_signal.fd >= 0 && !atomic_load(&cq->muted) &&
	       atomic_load(&cq->sleeper) == SLEEPER_NONE;
}

void cq_mute_locked(struct tp_cq *cq)
{
	assert_locked(&cq->lock);
	if (cq_may_be_muted(cq))
		atomic_store(&cq->muted, signal_report(cq, false));
}

bool cq_unmute_locked(struct tp_cq *cq)
{
	assert_locked(&cq->lock);
	if (atomic_load(&cq->muted))
		atomic_store(&cq->muted, !signal_report(cq, true));
	return !atomic_load(&cq->muted);
}
