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
 *
 * The event queue has such a signal, too, beside the sockets of listeners and attempts. An event is
 * made of what these bring, by the thread that reads the event queue, and needs no signal. Or it is
 * the end of a connection. Where we have asked for that nobody waits for the event: it stays in the
 * queue until that is read, or the endpoint closed. All others are made by a thread that reads a
 * completion queue. libfabric, since 1.13, shuts the socket down before that, and the device
 * watches the sockets of connections. So the signal of the event queue is muted as long as it
 * watches all of them. A thread that is preempted between the shutdown and the event makes it
 * unnoticed: then cm_end_unnoticed ends the connection.
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
static bool signal_report(int set, const struct fi_signal *signal, bool report)
{
	struct epoll_event event = { .events = report ? signal->events : 0,
				     .data.u64 = signal->data };

	return !epoll_ctl(set, EPOLL_CTL_MOD, signal->fd, &event);
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
		atomic_store(&cq->muted, signal_report(cq->fi_fd, &cq->fi_signal, false));
}

bool cq_unmute_locked(struct tp_cq *cq)
{
	assert_locked(&cq->lock);
	if (atomic_load(&cq->muted))
		atomic_store(&cq->muted, !signal_report(cq->fi_fd, &cq->fi_signal, true));
	return !atomic_load(&cq->muted);
}

bool eq_signal_update_locked(struct tp_dev *dev)
{
	const bool mute = dev->eq_signal.fd >= 0 && !dev->unwatched;

	up_assert_locked(dev->ia);
	assert_locked(&dev->events_lock);
	if (mute != dev->eq_signal_muted && signal_report(dev->eq_fd, &dev->eq_signal, !mute)) {
		dev->eq_signal_muted = mute;
		return mute;
	}
	return false;
}
