/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Serving the peers. libfabric's tcp sends, places and answers nothing unless a completion queue is
 * read. A consumer that polls reads it often enough, and one that sleeps is woken up to read it. If
 * the service thread came in between at each message, both would be slower. So for each queue the
 * service thread is in one of three states:
 *	watching	dev->epoll reports libfabric's descriptor: the consumer is busy elsewhere,
 *			and the service thread takes what arrives, at once.
 *	visiting	The consumer has polled since it was looked at last. It is looked at again
 *			after VISIT_INTERVAL, or a multiple if it has polled for long; when it has
 *			not polled meanwhile, it is watched, ...
 *	leaving it	... unless somebody sleeps on it, who says so when that ends
 *			(progress_resume); then it is visited.
 * A consumer that polls its memory, for the last byte of what a peer writes, polls a queue now and
 * then, too, for the completions of its own requests. What tells it from others: something waits,
 * it has a grace to take that, and it does not poll. So its queue is watched, and served at once,
 * although there are polls, until it uses its graces again.
 *
 * Bytes for a queue pair are taken from its socket by whoever reads one of its two queues. So two
 * queues that all their queue pairs have in common are a pair, for which it is enough that the
 * consumer is at one of them.
 *
 * If something has arrived that can't be taken in, because no receive is posted for it, libfabric's
 * descriptor stays readable: such a queue is not watched but visited, now and then, and when a
 * receive is posted.
 */
#include <poll.h>
#include <sys/epoll.h>

#include "base/race.h"
#include "ofi.h"

#define VISIT_INTERVAL	 UINT64_C(1000000)  /* ns */
#define STARVE_INTERVAL	 UINT64_C(10000000) /* ns */
#define GRACE_TIME	 UINT64_C(20000)    /* ns; many times as long as a poll */
#define FEWER_GRACES	 2		    /* when so many were missed */
#define MOST_MISSED	 4
#define SERVED_MEANWHILE 32 /* times that such a queue is served, between two graces */
#define STEADY_VISITS	 2  /* in a row that found consumers */
#define LOOK_VISITS	 10 /* likewise: time to take in completions */
#define SLOWER_VISITS	 4  /* likewise: the next ones are further apart ... */
#define SLOWEST		 4  /* ... up to so many intervals */
#define VAIN_ROUNDS	 32
#define FRUITLESS_ROUNDS 100
#define BATCH		 16 /* ready descriptors that one epoll_wait may return */

void progress_due(struct tp_cq *cq)
{
	struct tp_dev *dev = cq->dev;

	spin_lock(&dev->due_lock);
	cq->due_again = cq->due;
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

void progress_resume(struct tp_cq *cq)
{
	progress_due(cq);
	up_wake(cq->dev->ia);
}

void progress_poke(struct tp_cq *cq)
{
	atomic_store(&cq->starved, true);
	progress_resume(cq);
}

/* ---- pairs ---- */

static void cq_resume_if_left(struct tp_cq *cq)
{
	if (atomic_load(&cq->left))
		progress_resume(cq);
}

/* @other: of a queue pair that completes here; NULL: it is none of a pair. */
static void cq_join(struct tp_cq *cq, struct tp_cq *other)
{
	spin_lock(&cq->dev->due_lock);
	if (!cq->qps++)
		cq->other = other;
	else if (cq->other != other)
		cq->other = NULL;
	spin_unlock(&cq->dev->due_lock);
	cq_resume_if_left(cq);
}

static void cq_part(struct tp_cq *cq)
{
	spin_lock(&cq->dev->due_lock);
	if (!--cq->qps)
		cq->other = NULL;
	spin_unlock(&cq->dev->due_lock);
	cq_resume_if_left(cq);
}

/* A device completes by itself, and receives of a shared queue complete elsewhere. */
void progress_join(const struct tp_qp *qp)
{
	const bool pair = qp->dev->soft_queues && !qp->srq;

	cq_join(qp->sends.cq, pair ? qp->recvs.cq : NULL);
	cq_join(qp->recvs.cq, pair ? qp->sends.cq : NULL);
}

void progress_part(const struct tp_qp *qp)
{
	cq_part(qp->sends.cq);
	cq_part(qp->recvs.cq);
}

/* It is visited next, and exists as long as dev->cqs_lock is held. */
static struct tp_cq *pair_of(const struct tp_cq *cq)
{
	struct tp_dev *dev = cq->dev;
	struct tp_cq *other;

	spin_lock(&dev->due_lock);
	other = cq->other && cq->other->other == cq ? cq->other : NULL;
	if (other)
		other->due_again = false; /* who finds more to do from here on says so */
	spin_unlock(&dev->due_lock);
	return other == cq ? NULL : other;
}

/* ---- one queue ---- */

/* dev->epoll reports libfabric's descriptor, once. */
static bool cq_watch(struct tp_cq *cq)
{
	int op = cq->in_dev_set ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	cq->watched = !epoll_once(cq->dev->epoll, op, cq->fi_fd, cq, true);
	cq->in_dev_set |= cq->watched;
	cq->attended = 0;
	return cq->watched;
}

/* After a while in vain: has libfabric read nothing between two rounds? */
static bool cq_is_held_up(struct tp_cq *cq)
{
	bool held_up = cq->vain >= VAIN_ROUNDS && cm_is_held_up(cq);

	if (cq->vain <= VAIN_ROUNDS)
		return false;
	if (!held_up)
		cq->vain = 0;
	return held_up;
}

/* The next visit is due after so many ns; 0: none is, the queue is watched. */
static uint64_t cq_serve(struct tp_cq *cq)
{
	bool quiet, stalled, starved_members;

	if (!spin_trylock(&cq->lock))
		return GRACE_TIME; /* the consumer is at it */
	cq->vain = members_leave_locked(cq) ? 0 : cq->vain + 1;
	if (cq_has_completions_locked(cq))
		cq_signal_locked(cq);
	quiet = cq_quiet_locked(cq) && !cq_is_held_up(cq);
	stalled = cq->backlog & CQ_STALLED;
	quiet = quiet && !stalled;
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
	if (!cq_watch(cq))
		return VISIT_INTERVAL;
	return starved_members ? STARVE_INTERVAL : 0;
}

/* ---- consumers ---- */

enum { POLLED = 1 << 0, ASLEEP = 1 << 1 };

static unsigned consumers_at(struct tp_cq *cq)
{
	unsigned at = atomic_load(&cq->slept_on) ? ASLEEP : 0;

	atomic_store(&cq->left, false);
	return at | (atomic_exchange(&cq->polled, false) ? POLLED : 0);
}

/* Does a request wait until others have completed here? */
static bool requests_wait_locked(struct tp_cq *cq)
{
	assert_locked(&cq->lock);
	if (!atomic_load(&cq->waited))
		return false;
	for (struct transfer_queue *queue = cq->queues; queue; queue = queue->next)
		if (queue_waits_locked(queue))
			return true;
	atomic_store(&cq->waited, false);
	return false;
}

/*
 * Is it enough that consumers are at the queue, or at its pair? Then completions stay here, and are
 * taken in now and then, because failures have to be noticed; and not more often, because who reads
 * a queue moves data, and the consumer waits for that. *@at: all who are at the two.
 */
static bool cq_is_minded(struct tp_cq *cq, unsigned here, unsigned *at)
{
	bool minded;

	if (here & POLLED) {
		atomic_store(&cq->starved, false); /* they read the queue after a post */
		if (cq->members_epoll >= 0)
			members_visit(cq);
		return true;
	}
	if (*at & POLLED && (cq->attended + 1) % LOOK_VISITS && !atomic_load(&cq->waited))
		return true;
	if (!spin_trylock(&cq->lock)) {
		*at |= POLLED;
		return true;
	}
	while (!here && cq_harvest_locked(cq))
		;
	if (cq_has_completions_locked(cq))
		cq_signal_locked(cq);
	minded = !(cq->backlog & (CQ_STALLED | CQ_MEMBERS)) && !atomic_load(&cq->starved) &&
		 (here || !requests_wait_locked(cq));
	spin_unlock(&cq->lock);
	return minded;
}

/*
 * Where consumers keep all processors busy, each visit takes one from them for a moment. It costs
 * time, too, to be in a set, for each byte that arrives.
 */
static void cq_attended(struct tp_cq *cq)
{
	cq->delay = VISIT_INTERVAL * min_u64(1 + cq->attended / SLOWER_VISITS, SLOWEST);
	if (++cq->attended < STEADY_VISITS || cq->watched || !cq->in_dev_set)
		return;
	(void)epoll_ctl(cq->dev->epoll, EPOLL_CTL_DEL, cq->fi_fd, NULL);
	cq->in_dev_set = false;
}

/*
 * False: who slept is awake. The store comes first: progress_resume is called if it was seen.
 * *@wait: a request waits, and nobody is @here.
 */
static bool cq_leave(struct tp_cq *cq, unsigned here, bool *wait)
{
	atomic_store(&cq->left, true);
	cq->delay = 0;
	*wait |= !here && atomic_load(&cq->waited);
	return atomic_load(&cq->slept_on);
}

/* ---- a queue, or a pair ---- */

/* Do bytes or completions wait at one of the two? */
static bool pair_has_waiting(const struct tp_cq *cq, const struct tp_cq *pair)
{
	struct pollfd fds[] = {
		{ .fd = cq->fi_fd, .events = POLLIN },
		{ .fd = cq->members_epoll, .events = POLLIN },
		{ .fd = pair ? pair->fi_fd : -1, .events = POLLIN },
	};

	return poll(fds, ARRAY_SIZE(fds), 0) > 0;
}

/* Since the visit began; or a poll goes on, which takes long when there is much to take. */
static bool cq_is_polled_again(struct tp_cq *cq)
{
	if (atomic_load(&cq->polled) || !spin_trylock(&cq->lock))
		return true;
	spin_unlock(&cq->lock);
	return false;
}

static bool pair_is_polled_again(struct tp_cq *cq, struct tp_cq *pair)
{
	return cq_is_polled_again(cq) || (pair && cq_is_polled_again(pair));
}

enum judgement {
	TAKES,	  /* what arrives */
	NEGLECTS, /* it, so that the service thread has to take it */
	IN_GRACE, /* which shows when that is over */
};

static enum judgement grace_used(struct tp_cq *lead)
{
	lead->grace_ends = 0;
	if (lead->graces_missed)
		lead->graces_missed--;
	return lead->graces_missed ? NEGLECTS : TAKES;
}

static enum judgement grace_missed(struct tp_cq *lead)
{
	lead->grace_ends = 0;
	lead->served = 0;
	if (lead->graces_missed < MOST_MISSED)
		lead->graces_missed++;
	return NEGLECTS;
}

/*
 * What of a consumer that is @at the two queues? What waits is late after a grace, so one that has
 * missed some has few. It may use one by chance, if it waits for its completions before it polls
 * its memory: so it has to use as many as it has missed, one after the other.
 */
static enum judgement consumer_judge(struct tp_cq *cq, struct tp_cq *pair, unsigned at)
{
	struct tp_cq *lead = pair && pair < cq ? pair : cq;

	if (at & ASLEEP || (at && !cq->dev->soft_queues)) {
		lead->grace_ends = 0;
		return TAKES; /* who sleeps is woken up by what arrives */
	}
	if (lead->grace_ends && at)
		return grace_used(lead);
	if (lead->grace_ends && (tp_now() < lead->grace_ends || pair_is_polled_again(cq, pair)))
		return IN_GRACE;
	if (!at)
		return lead->grace_ends ? grace_missed(lead) : NEGLECTS;
	if (lead->graces_missed >= FEWER_GRACES && lead->served++ < SERVED_MEANWHILE)
		return NEGLECTS;
	if (!pair_has_waiting(cq, pair) || pair_is_polled_again(cq, pair))
		return grace_used(lead);
	lead->grace_ends = tp_now() + GRACE_TIME;
	return IN_GRACE;
}

/* False: no consumer is there. @pair: NULL, there is none. */
static bool leave_to_consumers(struct tp_cq *cq, struct tp_cq *pair)
{
	const unsigned here = consumers_at(cq), there = pair ? consumers_at(pair) : 0;
	unsigned at = here | there;
	enum judgement judgement = consumer_judge(cq, pair, at);
	bool asleep, wait = false;

	if (judgement == IN_GRACE) {
		cq->delay = GRACE_TIME;
		if (pair)
			pair->delay = GRACE_TIME;
		return true;
	}
	if (judgement == NEGLECTS || !cq_is_minded(cq, here, &at) ||
	    (pair && !cq_is_minded(pair, there, &at)))
		return false;
	cq_attended(cq);
	if (pair)
		cq_attended(pair);
	if (at & POLLED)
		return true;
	asleep = cq_leave(cq, here, &wait);
	if (pair && cq_leave(pair, there, &wait))
		asleep = true;
	if (!asleep || wait)
		cq->delay = VISIT_INTERVAL;
	return true;
}

/* The next visit is due after so many ns; TP_NEVER: none is. */
static uint64_t visit(struct tp_cq *cq)
{
	struct tp_cq *pair = pair_of(cq);
	uint64_t soonest;

	if (!leave_to_consumers(cq, pair)) {
		cq->delay = cq_serve(cq);
		if (pair)
			pair->delay = cq_serve(pair);
	}
	cq->pass = cq->dev->pass;
	soonest = cq->delay ? cq->delay : TP_NEVER;
	if (!pair)
		return soonest;
	pair->pass = cq->pass;
	if (pair->delay)
		progress_due(pair);
	return pair->delay ? min_u64(soonest, pair->delay) : soonest;
}

/* ---- the event queue ---- */

static void eq_mute(struct tp_dev *dev, bool mute)
{
	struct epoll_event event = { .events = mute ? 0 : EPOLLIN };

	(void)epoll_ctl(dev->epoll, EPOLL_CTL_MOD, dev->eq_fd, &event);
	dev->eq_muted = mute ? tp_now() + STARVE_INTERVAL : 0;
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
	if (dev->eq_fruitless == FRUITLESS_ROUNDS) /* the usual reason */
		(void)log_descriptor_shortage("connection requests", descriptor_next(dev));
	eq_mute(dev, true);
wait:
	dev->next_visit = min_u64(dev->next_visit, dev->eq_muted);
}

/* ---- all of them ---- */

enum {
	TOOK_CONNECTIONS = 1 << 0, /* the event queue is readable */
	TOOK_CLOSED = 1 << 1,	   /* a peer has closed a connection */
};

/* What dev->epoll reports, beside queues that were watched. */
static unsigned events_take_locked(struct tp_dev *dev)
{
	struct epoll_event events[BATCH];
	unsigned took = 0;
	int n = epoll_wait(dev->epoll, events, BATCH, 0);

	assert_locked(&dev->cqs_lock);
	for (int i = 0; i < n; i++) {
		struct tp_cq *cq = events[i].data.ptr;

		if (cm_closed(dev, cq)) {
			took |= TOOK_CLOSED;
		} else if (cq) {
			cq->watched = false;
			progress_due(cq);
		} else {
			took |= TOOK_CONNECTIONS;
		}
	}
	return took;
}

/* So a visit costs what is due, however many queues there are. */
static void visit_due_locked(struct tp_dev *dev)
{
	struct tp_cq *cq = due_take_all(dev), *next;
	uint64_t soonest = TP_NEVER;
	bool again;

	assert_locked(&dev->cqs_lock);
	for (dev->pass++; cq; cq = next) {
		race_reach(RACE_VISIT, cq);
		spin_lock(&dev->due_lock);
		next = cq->next_due;
		cq->due = false; /* before the visit: who finds more to do meanwhile says so */
		again = cq->pass == dev->pass && cq->due_again;
		spin_unlock(&dev->due_lock);
		if (cq->pass != dev->pass) /* else it was visited with its pair */
			soonest = min_u64(soonest, visit(cq));
		if (cq->delay || again)
			progress_due(cq);
	}
	dev->next_visit = soonest == TP_NEVER ? TP_NEVER : tp_now() + soonest;
}

bool progress_run(struct tp_dev *dev, bool ready)
{
	bool handled = false;
	unsigned took = 0;

	mutex_lock(&dev->cqs_lock);
	if (ready)
		took = events_take_locked(dev);
	visit_due_locked(dev);
	mutex_unlock(&dev->cqs_lock);
	/* a visit to the queue of a closed connection has most likely made the event of its end */
	if (took || eq_has_pending(dev))
		handled = eq_progress(dev);
	eq_mind(dev, took & TOOK_CONNECTIONS && !handled);
	dev->next_visit = min_u64(dev->next_visit, cm_end_unnoticed(dev));
	srq_report_limits(dev);
	return handled;
}

/* Under the lock: the service thread may visit the queue as soon as it is in the set. */
int progress_add(struct tp_cq *cq)
{
	struct tp_dev *dev = cq->dev;
	int err;

	mutex_lock(&dev->cqs_lock);
	err = epoll_once(dev->epoll, EPOLL_CTL_ADD, cq->fi_fd, cq, true);
	cq->watched = cq->in_dev_set = !err;
	mutex_unlock(&dev->cqs_lock);
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
