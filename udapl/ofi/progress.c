/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Serving the peers. libfabric's tcp sends, places and answers nothing unless a completion queue is
 * read. A consumer that polls reads it often enough, and one that sleeps in dat_evd_wait is woken
 * up by libfabric's descriptor, to read it. While neither happens the service thread has to; where
 * it came in between at each message, both would be slower. So it visits a completion queue, and
 * each visit ends in one of three states:
 *
 *	           nobody is at the queue, and what had arrived was taken in
 *	        +------------------------------------------------------------> WATCHED
 *	        |                                                                 |
 *	        |  +------------- bytes or completions arrive --------------------+
 *	        |  v
 *	      a visit ---- a consumer polls, or something can't be taken in -> VISITED
 *	        |  ^ ^                                                            |
 *	        |  | +------------ some time is over -----------------------------+
 *	        |  |
 *	        |  +------------- who slept is awake (progress_resume) -----------+
 *	        |                                                                 |
 *	        +---------------- a consumer sleeps on the queue ------------> LEFT
 *
 * In terms of verbs, WATCHED is a queue that is armed, and the service thread sleeps on its
 * channel; VISITED is one that is not armed, and that a timer looks at; LEFT is one that is armed
 * for another thread, which sleeps on its channel. progress_due has a queue visited in any state.
 *
 * How soon a queue that is VISITED is visited again depends on the reason:
 *	VISIT_INTERVAL	A consumer polls; the longer it has done so, the more such intervals. If it
 *			has not polled by then, nobody is at the queue. Or libfabric takes no post
 *			for now, or the kernel can't add the descriptor to the set.
 *	STARVE_INTERVAL	Something has arrived that can't be taken in, because no receive is posted
 *			for it. libfabric's descriptor stays readable, so to watch it is no use.
 *	GRACE_TIME	Something has arrived, and the consumer is expected to poll.
 *
 * A consumer that polls its memory, for the last byte of what a peer writes, polls a queue now and
 * then, too, for the completions of its own requests. What tells it from others: something waits,
 * it has a grace to take that, and it does not poll. Such a consumer counts as none: its queue is
 * watched, and served at once, until it uses its graces again.
 *
 * Where such consumers keep all processors busy, "at once" is too often: the kernel shares a
 * processor fairly, and who asks for more than its share gets it at the next tick, 4 ms later. Who
 * sleeps for longer than it runs gets it whenever it wakes up. So as long as something arrives for
 * such a consumer the service thread takes naps: the queue is VISITED after each NAP_TIME.
 *
 * Where a processor is free a nap would only delay what arrives, and to be woken up, too. There the
 * service thread polls its descriptors for as long as a nap lasts (core/service.c): the queue is
 * WATCHED, and visited when something has arrived, or when that time is over. It does so for
 * BUSY_TIME after each arrival, and not if the consumer has not polled for longer than LATELY: then
 * it may sleep.
 *
 * Bytes for a queue pair are taken from its socket by whoever reads one of its two queues. So two
 * queues that all their queue pairs have in common are a pair, for which it is enough that the
 * consumer is at one of them.
 */
#include <poll.h>
#include <sys/epoll.h>

#include "base/race.h"
#include "ofi.h"

#define VISIT_INTERVAL	UINT64_C(1000000)  /* ns */
#define STARVE_INTERVAL UINT64_C(10000000) /* ns */
#define GRACE_TIME	UINT64_C(20000)	   /* ns; many times as long as a poll */
#define ENDPOINT_TIME	UINT64_C(500)	   /* ns more, in graces and naps, for each endpoint */

/* Naps. */
#define NAP_TIME  UINT64_C(30000) /* ns; twice as long as it takes to serve a queue */
#define MOST_NAPS 20		  /* one after the other, during which nothing arrives */
#define BUSY_TIME UINT64_C(600000)
#define LATELY	  UINT64_C(20000000)

enum nap {
	NO_NAP,
	NAP,
	NAP_OR_POLL, /* if a processor is free */
};

/* Visits in a row that have found consumers. */
#define STEADY_VISITS 2	 /* the descriptor leaves the set: in there, each byte is dearer */
#define SLOWER_VISITS 4	 /* the next visits are one VISIT_INTERVAL further apart, ... */
#define SLOWEST	      4	 /* ... up to so many */
#define LOOK_VISITS   10 /* one looks for completions at the other queue of a pair */

/* Graces. */
#define FEWER_GRACES	 2  /* a consumer that has missed so many has fewer from then on */
#define MOST_MISSED	 4  /* more are not counted, so that it is soon forgiven */
#define SERVED_MEANWHILE 32 /* times that its queue is served, from one of the few to the next */

#define VAIN_ROUNDS	 32  /* in a row: is a message without bytes held up? */
#define FRUITLESS_ROUNDS 100 /* in a row, of the event queue, before it is muted */
#define BATCH		 16  /* ready descriptors that one epoll_wait may return */

/* ---- the queues that are visited next ---- */

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

void progress_due_for_end_locked(struct tp_cq *cq)
{
	assert_locked(&cq->dev->cqs_lock);
	cq->has_ends = true;
	progress_due(cq);
}

void progress_wake(struct tp_cq *cq)
{
	progress_due(cq);
	up_wake(cq->dev->ia);
}

void progress_poke(struct tp_cq *cq)
{
	atomic_store(&cq->starved, true);
	progress_wake(cq);
}

/* ---- pairs ---- */

/* One queue pair more completes here. @other: its other queue; NULL: the two can be no pair. */
static void cq_join(struct tp_cq *cq, struct tp_cq *other)
{
	spin_lock(&cq->dev->due_lock);
	if (!cq->qps++)
		cq->other = other;
	else if (cq->other != other)
		cq->other = NULL;
	spin_unlock(&cq->dev->due_lock);
	progress_resume(cq);
}

static void cq_part(struct tp_cq *cq)
{
	spin_lock(&cq->dev->due_lock);
	if (!--cq->qps)
		cq->other = NULL;
	spin_unlock(&cq->dev->due_lock);
	progress_resume(cq);
}

/* A device completes by itself, and receives of a shared queue complete elsewhere: no pairs. */
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

/*
 * The other queue of a pair, or NULL; it is about to be visited with @cq. It exists as long as
 * dev->cqs_lock is held.
 */
static struct tp_cq *pair_take_locked(const struct tp_cq *cq)
{
	struct tp_dev *dev = cq->dev;
	struct tp_cq *other;

	assert_locked(&dev->cqs_lock);
	spin_lock(&dev->due_lock);
	other = cq->other && cq->other->other == cq ? cq->other : NULL;
	if (other)
		other->due_again = false; /* who finds more to do from here on says so */
	spin_unlock(&dev->due_lock);
	return other == cq ? NULL : other;
}

/* A time that is so long with few endpoints: libfabric's tcp looks at all when a queue is read. */
static uint64_t cq_time(const struct tp_cq *cq, uint64_t time)
{
	struct tp_dev *dev = cq->dev;
	unsigned qps;

	spin_lock(&dev->due_lock);
	qps = cq->qps;
	spin_unlock(&dev->due_lock);
	return time + qps * ENDPOINT_TIME;
}

/* ---- the state of a queue ---- */

int dev_set_report_locked(struct tp_cq *cq, int fd, bool *in_set)
{
	int op = *in_set ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
	int err = epoll_once(cq->dev->epoll, op, fd, cq, true);

	assert_locked(&cq->dev->cqs_lock);
	*in_set |= !err;
	return err;
}

void dev_set_drop_locked(struct tp_cq *cq, int fd, bool *in_set)
{
	assert_locked(&cq->dev->cqs_lock);
	if (*in_set)
		(void)epoll_ctl(cq->dev->epoll, EPOLL_CTL_DEL, fd, NULL);
	*in_set = false;
}

/* The set of the device reports the descriptors once. */
static int set_report_locked(struct tp_cq *cq)
{
	int err = dev_set_report_locked(cq, cq->fi_fd, &cq->in_dev_set);

	return err ? err : domains_report_locked(cq);
}

static void set_drop_locked(struct tp_cq *cq)
{
	dev_set_drop_locked(cq, cq->fi_fd, &cq->in_dev_set);
	domains_drop_locked(cq);
}

/*
 * The only function that changes the state of a queue, with all that belongs to it: whether the set
 * of the device reports its descriptor, and when it is visited next, which is @delay ns from now,
 * or, if that is 0, not before the event that ends the state. Returns 0; or the negative errno with
 * which the kernel refuses to watch it, and then nothing has changed.
 *
 * A descriptor that is in the set, though silent, makes each byte that arrives dearer; to take it
 * out at once would be dearer still where a consumer polls in short turns. If the state ends before
 * the set has reported the descriptor, it does that later: then there is one visit more.
 */
static ALWAYS_INLINE int cq_enter_locked(struct tp_cq *cq, enum progress_state state,
					 uint64_t delay)
{
	struct tp_dev *dev = cq->dev;
	int err = 0;

	assert_locked(&dev->cqs_lock);
	if (state == PROGRESS_WATCHED)
		err = set_report_locked(cq);
	else if (cq->attended >= STEADY_VISITS)
		set_drop_locked(cq);
	if (err)
		return err;
	atomic_store(&cq->progress, state);
	cq->delay = delay;
	if (delay) {
		progress_due(cq);
		dev->next_delay = min_u64(dev->next_delay, delay);
	}
	return 0;
}

/* ---- serving ---- */

/*
 * After many visits in vain, looks whether a message without bytes is held up, of which libfabric
 * says nothing: it is if libfabric has read nothing from a connection since the visit before,
 * though something is there.
 */
static bool cq_find_held_up(struct tp_cq *cq)
{
	bool held_up = cq->vain >= VAIN_ROUNDS && cm_find_held_up(cq);

	if (cq->vain <= VAIN_ROUNDS)
		return false; /* no visit before has looked */
	if (!held_up)
		cq->vain = 0;
	return held_up;
}

/*
 * Takes in what is there, and settles the queue, which it returns. libfabric's tcp looks at all
 * endpoints for each of that. If the other queue of a pair @is_settled just now, these have nothing
 * more, and the queue is not read unless completions are there.
 */
static bool cq_take_all_locked(struct tp_cq *cq, enum nap nap, bool is_settled)
{
	assert_locked(&cq->lock);
	if (is_settled && cq_has_nothing_locked(cq)) {
		cq->vain += !nap;
		return true;
	}
	cq->vain = members_leave_locked(cq) ? 0 : cq->vain + !nap;
	if (cq_has_completions_locked(cq))
		cq_signal_locked(cq);
	return cq_settle_locked(cq);
}

static void nap_begin_locked(struct tp_cq *cq, enum nap nap)
{
	const uint64_t time = cq_time(cq, NAP_TIME);
	const bool polls = nap == NAP_OR_POLL && up_may_busy_poll(cq->dev->ia);

	assert_locked(&cq->dev->cqs_lock);
	if (polls && !cq_enter_locked(cq, PROGRESS_WATCHED, time))
		cq->dev->busy_polls = true;
	else
		(void)cq_enter_locked(cq, PROGRESS_VISITED, time);
}

/*
 * Takes in what is there, for consumers that are busy elsewhere. @nap: the service thread takes a
 * nap then. @is_settled: so is the other queue of the pair. Returns whether this one is.
 */
static bool cq_serve_locked(struct tp_cq *cq, enum nap nap, bool is_settled)
{
	bool settled, quiet, stalled, starved_members;

	assert_locked(&cq->dev->cqs_lock);
	if (!spin_trylock(&cq->lock)) { /* the consumer reads it right now */
		(void)cq_enter_locked(cq, PROGRESS_VISITED, cq_time(cq, GRACE_TIME));
		return false;
	}
	cq->attended = 0;
	cq->settles = 0;
	settled = cq_take_all_locked(cq, nap, is_settled);
	quiet = settled && !cq_find_held_up(cq);
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
	if (nap && quiet)
		nap_begin_locked(cq, nap);
	else if (!quiet)
		(void)cq_enter_locked(cq, PROGRESS_VISITED,
				      stalled ? VISIT_INTERVAL : STARVE_INTERVAL);
	else if (cq_enter_locked(cq, PROGRESS_WATCHED, starved_members ? STARVE_INTERVAL : 0))
		(void)cq_enter_locked(cq, PROGRESS_VISITED, VISIT_INTERVAL);
	return settled;
}

static void pair_serve_locked(struct tp_cq *cq, struct tp_cq *pair, enum nap nap)
{
	bool settled = cq_serve_locked(cq, nap, false);

	if (pair)
		(void)cq_serve_locked(pair, nap, settled);
}

/* Has the set report the queue again, and has it served in full, and settled, later. */
static bool cq_settle_later_locked(struct tp_cq *cq)
{
	assert_locked(&cq->dev->cqs_lock);
	if (!cq->settles)
		cq->settles = tp_now() + cq_time(cq, VISIT_INTERVAL);
	return !cq_enter_locked(cq, PROGRESS_WATCHED, VISIT_INTERVAL);
}

/*
 * Peers have closed connections of a queue that was settled. One read finds that, for the pair. To
 * find out whether something else had arrived, too, libfabric's tcp has to look at all endpoints
 * some times more: that is done once in a VISIT_INTERVAL, for all ends together. Returns false if
 * it has to be done at once, or if more than the ends was there.
 */
static bool serve_ends_locked(struct tp_cq *cq, struct tp_cq *pair)
{
	bool plain;

	assert_locked(&cq->dev->cqs_lock);
	if (atomic_load(&cq->progress) != PROGRESS_WATCHED ||
	    (cq->settles && cq->settles <= tp_now()) || !spin_trylock(&cq->lock))
		return false;
	(void)cq_harvest_locked(cq);
	plain = cq_has_nothing_locked(cq);
	if (cq_has_completions_locked(cq))
		cq_signal_locked(cq);
	cq->vain = 0;
	spin_unlock(&cq->lock);
	return plain && cq_settle_later_locked(cq) && (!pair || cq_settle_later_locked(pair));
}

/* ---- consumers ---- */

enum { POLLED = 1 << 0, ASLEEP = 1 << 1 };

static bool cq_has_sleeper(const struct tp_cq *cq, enum cq_sleeper kind)
{
	return atomic_load(&cq->sleeper) == kind;
}

/* Who is at the queue? It takes the mark of polls, so this is about those since the last visit. */
static unsigned consumers_take(struct tp_cq *cq)
{
	unsigned at = cq_has_sleeper(cq, SLEEPER_READS) ? ASLEEP : 0;

	return at | (atomic_exchange(&cq->polled, false) ? POLLED : 0);
}

/* Clears the mark of requests that wait for completions here, if none does any more. */
static void waited_update_locked(struct tp_cq *cq)
{
	assert_locked(&cq->lock);
	if (!atomic_load(&cq->waited))
		return;
	for (struct transfer_queue *queue = cq->queues; queue; queue = queue->next)
		if (queue_waits_locked(queue))
			return;
	atomic_store(&cq->waited, false);
}

/* Does a request, or a thread that sleeps, wait for completions that no thread reads? */
static bool cq_is_waited_for(const struct tp_cq *cq)
{
	return cq_has_sleeper(cq, SLEEPER_AWAITS) ||
	       (atomic_load(&cq->waited) && !cq_has_sleeper(cq, SLEEPER_READS));
}

/* What a queue takes, at which, or at whose pair, consumers are. */
enum need {
	NEEDS_NOTHING, /* as long as one of them sleeps */
	NEEDS_VISITS,  /* because one polls, or is in the queue right now */
	NEEDS_SERVICE,
};

/*
 * Looks at the queue. Completions stay there for the consumers who are @here. At the other queue of
 * a pair they are taken in, because failures have to be noticed, but only now and then if somebody
 * polls (@at has those of both), because who reads a queue moves data, and the consumer waits for
 * that. Who sleeps beside a consumer that polls learns of a completion at the next visit.
 */
static enum need cq_look(struct tp_cq *cq, unsigned here, unsigned at)
{
	enum need need = NEEDS_NOTHING;

	if (here & POLLED) {
		atomic_store(&cq->starved, false); /* they read the queue after a post */
		if (cq->members_epoll >= 0)
			members_visit(cq);
		return NEEDS_VISITS;
	}
	if (at & POLLED && (cq->attended + 1) % LOOK_VISITS && !cq_is_waited_for(cq))
		return NEEDS_VISITS;
	if (!spin_trylock(&cq->lock))
		return NEEDS_VISITS;
	while (!here && cq_harvest_locked(cq))
		;
	if (cq_has_completions_locked(cq))
		cq_signal_locked(cq);
	if (!here)
		waited_update_locked(cq);
	if (cq->backlog & (CQ_STALLED | CQ_MEMBERS) || atomic_load(&cq->starved) ||
	    (!here && atomic_load(&cq->waited)) ||
	    (!(at & POLLED) && cq_has_sleeper(cq, SLEEPER_AWAITS)))
		need = NEEDS_SERVICE;
	spin_unlock(&cq->lock);
	return need;
}

/* ---- graces ---- */

/* Do bytes or completions wait at one of the two? */
static bool pair_has_waiting_locked(const struct tp_cq *cq, const struct tp_cq *pair)
{
	struct pollfd fds[] = {
		{ .fd = cq->fi_fd, .events = POLLIN },
		{ .fd = cq->members_epoll, .events = POLLIN },
		{ .fd = pair ? pair->fi_fd : -1, .events = POLLIN },
	};

	return poll(fds, ARRAY_SIZE(fds), 0) > 0 || domains_have_waiting_locked(cq) ||
	       (pair && domains_have_waiting_locked(pair));
}

/* Was it polled since the visit began, or does a poll go on, which takes long if there is much? */
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

/* What consumers do about that which arrives. */
enum judgement {
	TAKES,	  /* they take it */
	NEGLECTS, /* they do not, so the service thread has to */
	IN_GRACE, /* they have a grace, and it shows when that ends */
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
 * Judges a consumer that is @at the queue or its pair, and keeps the account of its graces, in
 * @lead. It has used a grace when it polls before the end, and missed it when it does not. What
 * waits is late after a grace, so a consumer that has missed some gets few. It may use one by
 * chance, if it waits for its completions before it polls its memory: so until it has used as many
 * as it has missed, it counts as one that neglects the queue.
 */
static enum judgement consumer_judge_locked(struct tp_cq *cq, struct tp_cq *pair,
					    struct tp_cq *lead, unsigned at)
{
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
	if (!pair_has_waiting_locked(cq, pair) || pair_is_polled_again(cq, pair))
		return grace_used(lead);
	lead->grace_ends = tp_now() + cq_time(cq, GRACE_TIME);
	return IN_GRACE;
}

/* ---- naps ---- */

/* Does the consumer poll its memory? Then what arrives is served between naps. */
static bool consumer_polls_memory(const struct tp_cq *lead)
{
	return lead->graces_missed >= FEWER_GRACES;
}

/* Has the writes of a consumer that polls its memory wait while it is served, and no others. */
static void cq_writes_update_locked(struct tp_cq *cq, bool when_served)
{
	assert_locked(&cq->dev->cqs_lock);
	if (cq->writes_when_served == when_served)
		return;
	spin_lock(&cq->lock);
	cq->writes_when_served = when_served;
	for (struct transfer_queue *queue = cq->queues; queue; queue = queue->next)
		if (queue == &queue->qp->sends)
			qp_write_when_served_locked(queue->qp, when_served);
	spin_unlock(&cq->lock);
}

static enum nap nap_choose_locked(const struct tp_cq *lead)
{
	const uint64_t time = (lead->naps + 1) * cq_time(lead, NAP_TIME);

	assert_locked(&lead->dev->cqs_lock);
	if (lead->naps > MOST_NAPS)
		return NO_NAP;
	return time <= BUSY_TIME && tp_now() - lead->polled_at < LATELY ? NAP_OR_POLL : NAP;
}

/*
 * Serves a queue and its pair, for a consumer that polls its memory, and takes a nap then, if
 * something has arrived lately. What was waiting before and is waiting still has not arrived since:
 * nobody can take it in, and the descriptor is readable for as long as that lasts.
 */
static void serve_and_nap_locked(struct tp_cq *cq, struct tp_cq *pair, struct tp_cq *lead)
{
	const bool arrived = pair_has_waiting_locked(cq, pair) && !lead->leftover;

	assert_locked(&cq->dev->cqs_lock);
	lead->naps = arrived ? 0 : lead->naps + 1;
	atomic_fetch_add(&cq->dev->serves, 1);
	pair_serve_locked(cq, pair, nap_choose_locked(lead));
	atomic_fetch_add(&cq->dev->serves, 1);
	lead->leftover = pair_has_waiting_locked(cq, pair);
}

/* ---- a visit ---- */

/*
 * Consumers are at the queue. Where they keep all processors busy, each visit takes one from them
 * for a moment, so the visits become rarer.
 */
static void cq_attend_locked(struct tp_cq *cq, enum progress_state state)
{
	uint64_t delay = VISIT_INTERVAL * min_u64(1 + cq->attended / SLOWER_VISITS, SLOWEST);

	cq->attended++;
	(void)cq_enter_locked(cq, state, state == PROGRESS_LEFT ? 0 : delay);
}

/*
 * Leaves the queue and its pair to the consumers, who are @here or @there. Returns false if one of
 * the two needs service all the same, and then no state has changed.
 */
static bool leave_to_consumers_locked(struct tp_cq *cq, unsigned here, struct tp_cq *pair,
				      unsigned there)
{
	enum need need = cq_look(cq, here, here | there), other = NEEDS_NOTHING;
	enum progress_state state;
	bool asleep, waits;

	if (pair && need != NEEDS_SERVICE)
		other = cq_look(pair, there, here | there);
	if (need == NEEDS_SERVICE || other == NEEDS_SERVICE)
		return false;
	state = need == NEEDS_NOTHING && other == NEEDS_NOTHING ? PROGRESS_LEFT : PROGRESS_VISITED;
	cq_attend_locked(cq, state);
	if (pair)
		cq_attend_locked(pair, state);
	if (state == PROGRESS_VISITED)
		return true;
	/* who wakes up, or posts what waits, sees the new state and calls, or is seen here */
	asleep = cq_has_sleeper(cq, SLEEPER_READS) || (pair && cq_has_sleeper(pair, SLEEPER_READS));
	waits = cq_is_waited_for(cq) || (pair && cq_is_waited_for(pair));
	if (!asleep || waits)
		(void)cq_enter_locked(cq, PROGRESS_VISITED, VISIT_INTERVAL);
	return true;
}

/* Have peers closed connections of the queue, or of its pair, since this was asked last? */
static bool ends_take_locked(struct tp_cq *cq, struct tp_cq *pair)
{
	bool ends = cq->has_ends || (pair && pair->has_ends);

	assert_locked(&cq->dev->cqs_lock);
	cq->has_ends = false;
	if (pair)
		pair->has_ends = false;
	return ends;
}

/* Visits a queue, and its pair with it; the one at the lower address has the account of both. */
static void visit_locked(struct tp_cq *cq)
{
	struct tp_cq *pair = pair_take_locked(cq);
	const unsigned here = consumers_take(cq), there = pair ? consumers_take(pair) : 0;
	struct tp_cq *lead = pair && pair < cq ? pair : cq;
	enum judgement judgement = consumer_judge_locked(cq, pair, lead, here | there);

	if ((here | there) & POLLED)
		lead->polled_at = tp_now();
	cq_writes_update_locked(cq, consumer_polls_memory(lead));
	if (pair)
		cq_writes_update_locked(pair, consumer_polls_memory(lead));
	if (judgement == IN_GRACE) {
		(void)cq_enter_locked(cq, PROGRESS_VISITED, cq_time(cq, GRACE_TIME));
		if (pair)
			(void)cq_enter_locked(pair, PROGRESS_VISITED, cq_time(cq, GRACE_TIME));
	} else if (judgement == NEGLECTS || !leave_to_consumers_locked(cq, here, pair, there)) {
		bool ends = ends_take_locked(cq, pair);

		if (!ends && consumer_polls_memory(lead))
			serve_and_nap_locked(cq, pair, lead);
		else if (!ends || !serve_ends_locked(cq, pair))
			pair_serve_locked(cq, pair, NO_NAP);
	}
	cq->pass = cq->dev->pass;
	if (pair)
		pair->pass = cq->pass;
}

/* Visits all that are due. So what a round costs does not depend on how many queues there are. */
static void visit_due_locked(struct tp_dev *dev)
{
	struct tp_cq *cq = due_take_all(dev), *next;
	bool again;

	assert_locked(&dev->cqs_lock);
	dev->next_delay = TP_NEVER;
	dev->busy_polls = false;
	for (dev->pass++; cq; cq = next) {
		race_reach(RACE_VISIT, cq);
		spin_lock(&dev->due_lock);
		next = cq->next_due;
		cq->due = false; /* before the visit: who finds more to do meanwhile says so */
		again = cq->due_again;
		spin_unlock(&dev->due_lock);
		if (cq->pass != dev->pass)
			visit_locked(cq);
		else if (again) /* it was visited with its pair, and is due since then */
			progress_due(cq);
	}
	dev->next_visit = dev->next_delay == TP_NEVER ? TP_NEVER : tp_now() + dev->next_delay;
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
 * So when it was readable many rounds in a row, and no event was read (@fruitless), it is muted for
 * some time; and again at each round without an event that follows.
 */
static void eq_mind(struct tp_dev *dev, bool fruitless)
{
	if (dev->eq_muted) {
		if (tp_now() < dev->eq_muted)
			goto wait;
		eq_mute(dev, false);
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

/* ---- a round ---- */

enum {
	TOOK_CONNECTIONS = 1 << 0, /* the event queue is readable */
	TOOK_CLOSED = 1 << 1,	   /* a peer has closed a connection */
	TOOK_DATA = 1 << 2,	   /* a queue is readable */
};

/* Takes what the set of the device reports: queues become due, the rest is returned. */
static unsigned events_take_locked(struct tp_dev *dev)
{
	struct epoll_event events[BATCH];
	unsigned took = 0;
	int n = epoll_wait(dev->epoll, events, BATCH, 0);

	assert_locked(&dev->cqs_lock);
	for (int i = 0; i < n; i++) {
		struct tp_cq *cq = events[i].data.ptr;

		if (cm_closed(cq)) {
			took |= TOOK_CLOSED;
		} else if (cq) {
			progress_due(cq);
			took |= TOOK_DATA;
		} else {
			took |= TOOK_CONNECTIONS;
		}
	}
	return took;
}

bool progress_run(struct tp_dev *dev, bool ready, bool only)
{
	bool handled = false;
	unsigned took = 0;

	mutex_lock(&dev->cqs_lock);
	if (ready)
		took = events_take_locked(dev);
	if (only && !took) {
		mutex_unlock(&dev->cqs_lock);
		return false;
	}
	visit_due_locked(dev);
	mutex_unlock(&dev->cqs_lock);
	/* a visit to the queue of a closed connection has most likely made the event of its end */
	if (took & (TOOK_CONNECTIONS | TOOK_CLOSED) || eq_has_pending(dev))
		handled = eq_progress(dev);
	eq_mind(dev, took & TOOK_CONNECTIONS && !handled);
	dev->next_visit = min_u64(dev->next_visit, cm_end_unnoticed(dev));
	srq_report_limits(dev);
	return handled && !dev->arming_looks;
}

/* ---- queues that come and go ---- */

/* The lock is taken because the queue may be visited as soon as it is in the set. */
int progress_add(struct tp_cq *cq)
{
	int err;

	mutex_lock(&cq->dev->cqs_lock);
	err = cq_enter_locked(cq, PROGRESS_WATCHED, 0);
	mutex_unlock(&cq->dev->cqs_lock);
	return err;
}

void progress_remove(struct tp_cq *cq)
{
	struct tp_dev *dev = cq->dev;
	struct tp_cq **link = &dev->due;

	mutex_lock(&dev->cqs_lock);
	set_drop_locked(cq);
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
