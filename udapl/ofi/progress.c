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
 * consumer is at one of them. libfabric's tcp since 1.18 takes the bytes of a whole domain whenever
 * one of its queues is read, and makes the descriptors of all of them readable when there are any:
 * there that holds for all queues of a device (shares_progress).
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
#define STEADY_VISITS 2	 /* it leaves the set, where each byte is dearer, and is muted */
#define SLOWER_VISITS 4	 /* the next visits are one VISIT_INTERVAL further apart, ... */
#define SLOWEST	      4	 /* ... up to so many */
#define LOOK_VISITS   10 /* one looks for completions at the other queue of a pair */

/* Graces. */
#define FEWER_GRACES	 2  /* a consumer that has missed so many has fewer from then on */
#define MOST_MISSED	 4  /* more are not counted, so that it is soon forgiven */
#define SERVED_MEANWHILE 32 /* times that its queue is served, from one of the few to the next */

#define VAIN_ROUNDS	 32  /* in a row: is a message without bytes held up? */
#define FRUITLESS_ROUNDS 100 /* in a row, of the event queue: has it a reason to be muted? */
#define SHARED_MUTE	 (2 * VISIT_INTERVAL)
#define STREAM_TIME	 (10 * VISIT_INTERVAL) /* without data there was no stream */
#define BATCH		 16 /* ready descriptors that one epoll_wait may return */

/* ---- the queues that are visited next ---- */

static void due_add_locked(struct tp_cq *cq)
{
	struct tp_dev *dev = cq->dev;

	assert_locked(&dev->due_lock);
	cq->due_again = cq->due;
	if (!cq->due) {
		cq->due = true;
		cq->next_due = dev->due;
		dev->due = cq;
	}
}

void progress_due(struct tp_cq *cq)
{
	spin_lock(&cq->dev->due_lock);
	due_add_locked(cq);
	spin_unlock(&cq->dev->due_lock);
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

/* ---- queues that are visited together ---- */

/* One queue pair more completes here. @other: its other queue; NULL: the two can be no pair. */
static void cq_join(struct tp_cq *cq, struct tp_cq *other)
{
	spin_lock(&cq->dev->due_lock);
	if (!cq->qps++) {
		cq->other = other;
	} else if (cq->other != other) {
		if (cq->other) /* it may be left, and is not visited with this one any more */
			due_add_locked(cq->other);
		cq->other = NULL;
	}
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

/* The other queue of a pair, or NULL. */
static struct tp_cq *pair_of_locked(const struct tp_cq *cq)
{
	struct tp_cq *other = cq->other && cq->other->other == cq ? cq->other : NULL;

	assert_locked(&cq->dev->due_lock);
	if (!other || other == cq)
		return NULL;
	other->together = NULL;
	return other;
}

/* All other queues of the device, but those that serve other domains, too. */
static struct tp_cq *sharers_of_locked(const struct tp_cq *cq)
{
	struct tp_cq *sharers = NULL;

	assert_locked(&cq->dev->cqs_lock);
	for (struct tp_cq *other = cq->dev->cqs; other; other = other->next) {
		if (other == cq || other->domains)
			continue;
		other->together = sharers;
		sharers = other;
	}
	return sharers;
}

/*
 * Chains those behind @cq that are about to be visited with it. They exist as long as
 * dev->cqs_lock is held.
 */
static void gather_locked(struct tp_cq *cq)
{
	struct tp_dev *dev = cq->dev;

	assert_locked(&dev->cqs_lock);
	spin_lock(&dev->due_lock);
	cq->together = dev->shares_progress && !cq->domains ? sharers_of_locked(cq)
							    : pair_of_locked(cq);
	for (struct tp_cq *other = cq->together; other; other = other->together)
		other->due_again = false; /* who finds more to do from here on says so */
	spin_unlock(&dev->due_lock);
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
	int err = cq->reports ? 0 : dev_set_report_locked(cq, cq->fi_fd, &cq->in_dev_set);

	cq->reports = !err;
	return err ? err : domains_report_locked(cq);
}

static void set_drop_locked(struct tp_cq *cq)
{
	dev_set_drop_locked(cq, cq->fi_fd, &cq->in_dev_set);
	cq->reports = false;
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
 * endpoints for each of that. If another queue that is visited with this one @is_settled just now,
 * these have nothing more, and the queue is not read unless completions are there.
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
 * nap then. @is_settled: so is one that is visited with this one. Returns whether this one is, and
 * its signal is not muted.
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
	settled = cq_take_all_locked(cq, nap, is_settled) && cq_unmute_locked(cq);
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

static void serve_locked(struct tp_cq *cqs, enum nap nap)
{
	bool settled = false;

	for (struct tp_cq *cq = cqs; cq; cq = cq->together)
		settled = cq_serve_locked(cq, nap, settled);
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
 * Peers have closed connections of queues that were settled. One read finds that, for all. To
 * find out whether something else had arrived, too, libfabric's tcp has to look at all endpoints
 * some times more: that is done once in a VISIT_INTERVAL, for all ends together. Returns false if
 * it has to be done at once, or if more than the ends was there.
 */
static bool serve_ends_locked(struct tp_cq *cqs)
{
	struct tp_cq *cq = cqs;
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
	for (; plain && cq; cq = cq->together)
		plain = cq_settle_later_locked(cq);
	return plain;
}

/* ---- consumers ---- */

enum { POLLED = 1 << 0, ASLEEP = 1 << 1 };

static bool cq_has_sleeper(const struct tp_cq *cq, enum cq_sleeper kind)
{
	return atomic_load(&cq->sleeper) == kind;
}

/*
 * Does somebody sleep on the queue who reads what arrives? A queue below a CNO stays armed for a
 * while after the last wait, as if somebody did: no other queue is left on account of that.
 */
static bool cq_has_reader(const struct tp_cq *cq)
{
	return cq_has_sleeper(cq, SLEEPER_READS) &&
	       (atomic_load(&cq->direct) || !cq->dev->shares_progress);
}

/* Who is at the queue? It takes the mark of polls, so this is about those since the last visit. */
static unsigned consumers_take(struct tp_cq *cq)
{
	unsigned at = cq_has_reader(cq) ? ASLEEP : 0;

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
	       (atomic_load(&cq->waited) && !cq_has_reader(cq));
}

/* What a queue takes, at which, or at one that is visited with it, consumers are. */
enum need {
	NEEDS_NOTHING, /* as long as one of them sleeps */
	NEEDS_VISITS,  /* because one polls, or is in the queue right now */
	NEEDS_SERVICE,
};

/*
 * Looks at the queue. Completions stay there for the consumers who are there. At the others that
 * are visited with it they are taken in, because failures have to be noticed, but only now and then
 * if somebody polls (@at has the consumers of all), because who reads a queue moves data, and the
 * consumer waits for that. Who sleeps beside a consumer that polls learns of a completion at the
 * next visit.
 */
static enum need cq_look(struct tp_cq *cq, unsigned at)
{
	const unsigned here = cq->at;
	enum need need = NEEDS_NOTHING;

	if (here & POLLED) {
		atomic_store(&cq->starved, false); /* they read the queue after a post */
		if (cq->members_epoll >= 0)
			members_visit(cq);
		return NEEDS_VISITS;
	}
	if (at & POLLED && (cq->attended + 1) % LOOK_VISITS && !cq_is_waited_for(cq) &&
	    !atomic_load(&cq->starved))
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

/* Do bytes or completions wait at one of the queues? */
static bool have_waiting_locked(const struct tp_cq *cqs)
{
	struct pollfd fds[BATCH];
	nfds_t n = 0;

	for (const struct tp_cq *cq = cqs; cq; cq = cq->together) {
		if (domains_have_waiting_locked(cq))
			return true;
		fds[n++] = (struct pollfd){ .fd = cq->fi_fd, .events = POLLIN };
		fds[n++] = (struct pollfd){ .fd = cq->members_epoll, .events = POLLIN };
		if (n < ARRAY_SIZE(fds) && cq->together)
			continue;
		if (poll(fds, n, 0) > 0)
			return true;
		n = 0;
	}
	return false;
}

/* Was it polled since the visit began, or does a poll go on, which takes long if there is much? */
static bool cq_is_polled_again(struct tp_cq *cq)
{
	if (atomic_load(&cq->polled) || !spin_trylock(&cq->lock))
		return true;
	spin_unlock(&cq->lock);
	return false;
}

static bool are_polled_again_locked(struct tp_cq *cqs)
{
	for (struct tp_cq *cq = cqs; cq; cq = cq->together)
		if (cq_is_polled_again(cq))
			return true;
	return false;
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
 * Judges a consumer that is @at one of the queues, and keeps the account of its graces, in
 * @lead. It has used a grace when it polls before the end, and missed it when it does not. What
 * waits is late after a grace, so a consumer that has missed some gets few. It may use one by
 * chance, if it waits for its completions before it polls its memory: so until it has used as many
 * as it has missed, it counts as one that neglects the queue.
 */
static enum judgement consumer_judge_locked(struct tp_cq *cqs, struct tp_cq *lead, unsigned at)
{
	if (at & ASLEEP || (at && !cqs->dev->soft_queues)) {
		lead->grace_ends = 0;
		return TAKES; /* who sleeps is woken up by what arrives */
	}
	if (lead->grace_ends && at)
		return grace_used(lead);
	if (lead->grace_ends && (tp_now() < lead->grace_ends || are_polled_again_locked(cqs)))
		return IN_GRACE;
	if (!at)
		return lead->grace_ends ? grace_missed(lead) : NEGLECTS;
	if (lead->graces_missed >= FEWER_GRACES && lead->served++ < SERVED_MEANWHILE)
		return NEGLECTS;
	if (!have_waiting_locked(cqs) || are_polled_again_locked(cqs))
		return grace_used(lead);
	lead->grace_ends = tp_now() + cq_time(cqs, GRACE_TIME);
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
 * Serves the queues, for a consumer that polls its memory, and takes a nap then, if something has
 * arrived lately. What was waiting before and is waiting still has not arrived since: nobody can
 * take it in, and the descriptor is readable for as long as that lasts.
 */
static void serve_and_nap_locked(struct tp_cq *cqs, struct tp_cq *lead)
{
	const bool arrived = have_waiting_locked(cqs) && !lead->leftover;

	assert_locked(&cqs->dev->cqs_lock);
	lead->naps = arrived ? 0 : lead->naps + 1;
	atomic_fetch_add(&cqs->dev->serves, 1);
	serve_locked(cqs, nap_choose_locked(lead));
	atomic_fetch_add(&cqs->dev->serves, 1);
	lead->leftover = have_waiting_locked(cqs);
}

/* ---- a visit ---- */

/*
 * Consumers are at the queue. Where they keep all processors busy, each visit takes one from them
 * for a moment, so the visits become rarer, unless others wait for them.
 */
static void cq_attend_locked(struct tp_cq *cq, enum progress_state state)
{
	uint64_t delay = VISIT_INTERVAL;

	if (!cq_is_waited_for(cq) || cq->at & POLLED)
		delay *= min_u64(1 + cq->attended / SLOWER_VISITS, SLOWEST);
	if (cq->at & POLLED && cq->attended >= STEADY_VISITS && cq_may_be_muted(cq) &&
	    spin_trylock(&cq->lock)) {
		cq_mute_locked(cq);
		spin_unlock(&cq->lock);
	}
	cq->attended++;
	(void)cq_enter_locked(cq, state, state == PROGRESS_LEFT ? 0 : delay);
}

/* Does who sleeps at one of the queues do all that is to be done at them? */
static bool sleepers_suffice_locked(const struct tp_cq *cqs)
{
	bool asleep = false;

	for (const struct tp_cq *cq = cqs; cq; cq = cq->together) {
		if (cq_is_waited_for(cq))
			return false;
		asleep |= cq_has_reader(cq);
	}
	return asleep;
}

/*
 * Leaves the queues to the consumers who are @at some of them. Returns false if one needs service
 * all the same, and then no state has changed.
 */
static bool leave_to_consumers_locked(struct tp_cq *cqs, unsigned at)
{
	enum progress_state state = PROGRESS_LEFT;

	for (struct tp_cq *cq = cqs; cq; cq = cq->together) {
		enum need need = cq_look(cq, at);

		if (need == NEEDS_SERVICE)
			return false;
		if (need == NEEDS_VISITS)
			state = PROGRESS_VISITED;
	}
	for (struct tp_cq *cq = cqs; cq; cq = cq->together)
		cq_attend_locked(cq, state);
	/* who wakes up, or posts what waits, sees the new state and calls, or is seen here */
	if (state == PROGRESS_LEFT && !sleepers_suffice_locked(cqs))
		(void)cq_enter_locked(cqs, PROGRESS_VISITED, VISIT_INTERVAL);
	return true;
}

/* Have peers closed connections of the queues since this was asked last? */
static bool ends_take_locked(struct tp_cq *cqs)
{
	bool ends = false;

	assert_locked(&cqs->dev->cqs_lock);
	for (struct tp_cq *cq = cqs; cq; cq = cq->together) {
		ends |= cq->has_ends;
		cq->has_ends = false;
	}
	return ends;
}

/* Nobody takes what arrives, or not all of it. */
static void neglected_locked(struct tp_cq *cqs, struct tp_cq *lead)
{
	const bool ends = ends_take_locked(cqs);

	if (!ends && consumer_polls_memory(lead))
		serve_and_nap_locked(cqs, lead);
	else if (!ends || !serve_ends_locked(cqs))
		serve_locked(cqs, NO_NAP);
}

/* Visits a queue, and others with it; the one at the lowest address has the account of all. */
static void visit_locked(struct tp_cq *cqs)
{
	struct tp_cq *lead = cqs;
	enum judgement judgement;
	unsigned at = 0;

	gather_locked(cqs);
	for (struct tp_cq *cq = cqs; cq; cq = cq->together) {
		lead = cq < lead ? cq : lead;
		cq->at = consumers_take(cq);
		at |= cq->at;
	}
	judgement = consumer_judge_locked(cqs, lead, at);
	if (at & POLLED)
		lead->polled_at = tp_now();
	for (struct tp_cq *cq = cqs; cq; cq = cq->together) {
		cq_writes_update_locked(cq, consumer_polls_memory(lead));
		if (judgement == IN_GRACE)
			(void)cq_enter_locked(cq, PROGRESS_VISITED, cq_time(cq, GRACE_TIME));
		cq->pass = cq->dev->pass;
	}
	if (judgement == NEGLECTS || (judgement == TAKES && !leave_to_consumers_locked(cqs, at)))
		neglected_locked(cqs, lead);
}

/*
 * Visits all that are due, and those that are visited with them. So what a round costs depends on
 * how many queues there are only where all share their progress.
 */
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
		else if (again) /* it was visited with another one, and is due since then */
			progress_due(cq);
	}
	dev->next_visit = dev->next_delay == TP_NEVER ? TP_NEVER : tp_now() + dev->next_delay;
}

/* ---- the event queue ---- */

static void eq_mute(struct tp_dev *dev, bool mute)
{
	struct epoll_event event = { .events = mute ? 0 : EPOLLIN };
	const uint64_t time = dev->shares_progress ? SHARED_MUTE : STARVE_INTERVAL;

	(void)epoll_ctl(dev->epoll, EPOLL_CTL_MOD, dev->eq_fd, &event);
	dev->eq_muted = mute ? tp_now() + time : 0;
}

/*
 * The descriptor was readable so many rounds in a row, and no event was read. Is that for nothing?
 * It may be a backlog of connections that have sent no request yet. Each round accepts one of them;
 * so if the same descriptor is the next one as when this was asked last, nothing was accepted.
 */
static bool eq_is_readable_for_nothing(struct tp_dev *dev)
{
	const int next = descriptor_next(dev);
	const bool same = next == dev->eq_next && dev->eq_fruitless > FRUITLESS_ROUNDS;

	dev->eq_next = next;
	if (next >= 0)
		dev->eq_shortage_told = false;
	else if (!dev->eq_shortage_told)
		dev->eq_shortage_told = log_descriptor_shortage("connection requests", next);
	return next < 0 || dev->shares_progress || same;
}

/*
 * libfabric's descriptor stays readable if it can't accept a connection, for want of a descriptor;
 * and where queues share their progress, data make it readable, too. So when it was @readable many
 * rounds in a row, and no event was read, it may be muted for some time; and again at each round
 * without an event that follows. In a stream of data there are other rounds in between.
 */
static void eq_mind(struct tp_dev *dev, bool readable, bool handled)
{
	if (dev->eq_muted) {
		if (tp_now() < dev->eq_muted)
			goto wait;
		eq_mute(dev, false);
		dev->eq_fruitless = 2 * FRUITLESS_ROUNDS - 1; /* the next such round decides */
		return;
	}
	if (handled || !readable) {
		if (handled || !dev->shares_progress)
			dev->eq_fruitless = 0;
		return;
	}
	if (dev->shares_progress && tp_now() > dev->eq_readable + STREAM_TIME)
		dev->eq_fruitless = 0;
	dev->eq_readable = tp_now();
	if (++dev->eq_fruitless % FRUITLESS_ROUNDS || !eq_is_readable_for_nothing(dev))
		return;
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
			cq->reports = false;
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
	eq_mind(dev, took & TOOK_CONNECTIONS, handled);
	dev->next_visit = min_u64(dev->next_visit, cm_end_unnoticed(dev));
	srq_report_limits(dev);
	return handled && !dev->arming_looks;
}

/* ---- queues that come and go ---- */

/* The lock is taken because the queue may be visited as soon as it is in the set. */
int progress_add(struct tp_cq *cq)
{
	struct tp_dev *dev = cq->dev;
	int err;

	mutex_lock(&dev->cqs_lock);
	err = cq_enter_locked(cq, PROGRESS_WATCHED, 0);
	if (!err) {
		cq->next = dev->cqs;
		dev->cqs = cq;
	}
	mutex_unlock(&dev->cqs_lock);
	return err;
}

void progress_resume_others_locked(const struct tp_cq *cq)
{
	struct tp_dev *dev = cq->dev;

	assert_locked(&dev->cqs_lock);
	if (!dev->shares_progress)
		return;
	for (struct tp_cq *other = dev->cqs; other; other = other->next)
		if (other != cq)
			progress_resume(other);
}

void progress_remove(struct tp_cq *cq)
{
	struct tp_dev *dev = cq->dev;
	struct tp_cq **link = &dev->cqs;

	mutex_lock(&dev->cqs_lock);
	while (*link != cq)
		link = &(*link)->next;
	*link = cq->next;
	progress_resume_others_locked(cq);
	set_drop_locked(cq);
	if (cq->members_epoll >= 0)
		(void)epoll_ctl(dev->epoll, EPOLL_CTL_DEL, cq->members_epoll, NULL);
	link = &dev->due;
	spin_lock(&dev->due_lock);
	while (*link && *link != cq)
		link = &(*link)->next_due;
	if (*link)
		*link = cq->next_due;
	spin_unlock(&dev->due_lock);
	mutex_unlock(&dev->cqs_lock);
}
