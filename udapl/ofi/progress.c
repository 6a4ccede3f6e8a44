/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Serving the peers. libfabric's tcp sends, places and answers nothing unless a completion queue is
 * read. A consumer that polls reads it often enough, and if the service thread came in between at
 * each message, both would be slower. So for each queue the service thread is in one of two states:
 *	watching	dev->epoll reports libfabric's descriptor: the consumer is busy elsewhere,
 *			and the service thread takes what arrives, at once.
 *	visiting	The consumer has polled since it was looked at last. It is looked at again
 *			after VISIT_INTERVAL; when it has not polled meanwhile, it is watched.
 * If something has arrived that can't be taken in, because no receive is posted for it, libfabric's
 * descriptor stays readable: such a queue is not watched but visited, now and then, and when a
 * receive is posted.
 */
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "ofi.h"

#define VISIT_INTERVAL	 UINT64_C(1000000)  /* ns */
#define STARVE_INTERVAL	 UINT64_C(10000000) /* ns */
#define FRUITLESS_ROUNDS 100
#define BATCH		 16 /* ready descriptors that one epoll_wait may return */

void progress_due(struct tp_cq *cq)
{
	struct tp_dev *dev = cq->dev;

	spin_lock(&dev->due_lock);
	if (!cq->due) {
		cq->due = true;
		cq->next_due = dev->due;
		dev->due = cq;
	}
	spin_unlock(&dev->due_lock);
}

static struct tp_cq *due_take_all(struct tp_dev *dev)
{
	struct tp_cq *due;

	spin_lock(&dev->due_lock);
	due = dev->due;
	dev->due = NULL;
	spin_unlock(&dev->due_lock);
	return due;
}

void progress_poke(struct tp_cq *cq)
{
	atomic_store(&cq->starved, true);
	progress_due(cq);
	up_wake(cq->dev->ia);
}

/* ---- one queue ---- */

/* The next visit is due after so many ns; 0: none is, the queue is watched. */
static uint64_t cq_serve(struct tp_cq *cq)
{
	bool quiet, stalled, starved_members;

	if (atomic_exchange(&cq->polled, false)) {
		if (cq->members_epoll >= 0)
			members_visit(cq);
		return VISIT_INTERVAL;
	}
	if (!spin_trylock(&cq->lock))
		return VISIT_INTERVAL; /* the consumer is at it */
	members_leave_locked(cq);
	if (cq_has_completions_locked(cq))
		cq_signal_locked(cq);
	quiet = cq_quiet_locked(cq);
	stalled = cq->backlog & CQ_STALLED;
	quiet = quiet && !stalled;
	if (quiet && cq->armed == CQ_ARMED_DIRECT && atomic_load(&cq->starved))
		(void)epoll_once(cq->epoll, EPOLL_CTL_MOD, cq->fi_fd, NULL, true);
	starved_members = cq->starved_members;
	if (quiet && !starved_members)
		atomic_store(&cq->starved, false);
	else
		cq_starve_locked(cq);
	spin_unlock(&cq->lock);
	if (cq->members_epoll >= 0)
		(void)epoll_once(cq->dev->epoll, EPOLL_CTL_MOD, cq->members_epoll, cq, true);
	if (!quiet)
		return stalled ? VISIT_INTERVAL : STARVE_INTERVAL;
	cq->watched = !epoll_once(cq->dev->epoll, EPOLL_CTL_MOD, cq->fi_fd, cq, true);
	if (!cq->watched)
		return VISIT_INTERVAL;
	return starved_members ? STARVE_INTERVAL : 0;
}

/* ---- the event queue ---- */

static void eq_mute(struct tp_dev *dev, bool mute)
{
	struct epoll_event event = { .events = mute ? 0 : EPOLLIN };

	(void)epoll_ctl(dev->epoll, EPOLL_CTL_MOD, dev->eq_fd, &event);
	dev->eq_muted = mute ? tp_now() + STARVE_INTERVAL : 0;
}

/* The usual reason why libfabric gets nowhere. */
static void eq_tell_shortage(const struct tp_dev *dev)
{
	int fd = fcntl(dev->ready_fd, F_DUPFD_CLOEXEC, 0);

	if (fd >= 0)
		close(fd);
	else
		(void)log_descriptor_shortage("connection requests", -errno);
}

/*
 * libfabric's descriptor stays readable if it can't accept a connection for want of a descriptor.
 * Then it is looked at now and then.
 */
static void eq_mind(struct tp_dev *dev, bool fruitless)
{
	if (dev->eq_muted) {
		if (tp_now() < dev->eq_muted)
			goto wait;
		eq_mute(dev, false); /* and again after one more round without a fruit */
		dev->eq_fruitless = FRUITLESS_ROUNDS;
		return;
	}
	if (!fruitless) {
		dev->eq_fruitless = 0;
		return;
	}
	if (++dev->eq_fruitless < FRUITLESS_ROUNDS)
		return;
	if (dev->eq_fruitless == FRUITLESS_ROUNDS)
		eq_tell_shortage(dev);
	eq_mute(dev, true);
wait:
	dev->next_visit = min_u64(dev->next_visit, dev->eq_muted);
}

/* ---- all of them ---- */

/* What dev->epoll reports: the event queue, and queues that were watched. True: the event queue. */
static bool events_take_locked(struct tp_dev *dev)
{
	struct epoll_event events[BATCH];
	bool connections = false;
	int n = epoll_wait(dev->epoll, events, BATCH, 0);

	assert_locked(&dev->cqs_lock);
	for (int i = 0; i < n; i++) {
		struct tp_cq *cq = events[i].data.ptr;

		if (cm_closed(dev, cq))
			continue;
		if (cq) {
			cq->watched = false;
			progress_due(cq);
		} else {
			connections = true;
		}
	}
	return connections;
}

/* So a visit costs what is due, however many queues there are. */
static void visit_due_locked(struct tp_dev *dev)
{
	struct tp_cq *cq = due_take_all(dev), *next;
	uint64_t soonest = TP_NEVER;

	assert_locked(&dev->cqs_lock);
	for (; cq; cq = next) {
		uint64_t delay;

		spin_lock(&dev->due_lock);
		next = cq->next_due;
		cq->due = false; /* before the visit: who finds more to do meanwhile says so */
		spin_unlock(&dev->due_lock);
		delay = cq_serve(cq);
		if (!delay)
			continue;
		soonest = min_u64(soonest, tp_now() + delay);
		progress_due(cq);
	}
	dev->next_visit = soonest;
}

bool progress_run(struct tp_dev *dev, bool ready)
{
	bool handled = false, connections = false;

	mutex_lock(&dev->cqs_lock);
	if (ready)
		connections = events_take_locked(dev);
	visit_due_locked(dev);
	mutex_unlock(&dev->cqs_lock);
	if (connections || eq_has_pending(dev))
		handled = eq_progress(dev);
	eq_mind(dev, connections && !handled);
	dev->next_visit = min_u64(dev->next_visit, cm_end_unnoticed(dev));
	srq_report_limits(dev);
	return handled;
}

int progress_add(struct tp_cq *cq)
{
	int err = epoll_once(cq->dev->epoll, EPOLL_CTL_ADD, cq->fi_fd, cq, true);

	cq->watched = !err;
	return err;
}

/* No event of dev->epoll names it from here on. */
void progress_remove(struct tp_cq *cq)
{
	struct tp_dev *dev = cq->dev;
	struct tp_cq **link = &dev->due;

	mutex_lock(&dev->cqs_lock);
	(void)epoll_ctl(dev->epoll, EPOLL_CTL_DEL, cq->fi_fd, NULL);
	if (cq->members_epoll >= 0)
		(void)epoll_ctl(dev->epoll, EPOLL_CTL_DEL, cq->members_epoll, NULL);
	spin_lock(&dev->due_lock);
	while (*link && *link != cq)
		link = &(*link)->next_due;
	if (*link)
		*link = cq->next_due;
	spin_unlock(&dev->due_lock);
	mutex_unlock(&dev->cqs_lock);
}
