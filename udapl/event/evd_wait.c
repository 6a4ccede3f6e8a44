/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dat_evd_dequeue and dat_evd_wait. Both look at the event queue first, whose events are older, and
 * then translate the next completion into the consumer's event, without the queue between them.
 *
 * The fast path of a dequeue takes one of three ways, each of which does one thing:
 *	dequeue_from_queue_unlock	an event is queued
 *	dequeue_read_ahead_unlock	an earlier poll has brought the next completion along
 *	dequeue_by_poll_unlock		the completion queue has to be polled
 * A completion that is more than a plain transfer is kept in evd->kept and taken by
 * dequeue_kept_unlock, which polls on if that is no event. dequeue_in_full_unlock has every case of
 * the call in turn.
 *
 * A wait whose event is there returns it as a dequeue does. Else the thread becomes the waiter of
 * the EVD and sleeps (wait_asleep): it arms the completion queue, looks once more, and sleeps on
 * the completion channel and on an eventfd by which other threads wake it.
 */
#include <errno.h>

#include "completion.h"
#include "evd.h"
#include "base/refuse.h"
#include "base/race.h"

/*
 * The end of a call that has taken an event: returns to the device what completed binds have
 * replaced, because peers must have lost that when the consumer sees the bind's completion. A
 * second consumer thread, which takes the event after that bind, may see it while this call is
 * still at work.
 */
static void run_release_unlock(struct evd *evd)
{
	struct ia *ia = evd->obj.ia;

	assert_locked(&evd->lock);
	if (likely(!(evd->slow_path & EVD_RELEASE_DUE))) {
		spin_unlock(&evd->lock);
		return;
	}
	evd->slow_path &= ~(unsigned)EVD_RELEASE_DUE;
	spin_unlock(&evd->lock);
	release_run(ia);
}

/* ---- dequeue ---- */

/* Polls until a completion is an event; DAT_QUEUE_EMPTY if there is none. */
static DAT_RETURN poll_for_event_locked(struct evd *evd, DAT_EVENT *event)
{
	struct tp_wc wc;

	assert_locked(&evd->lock);
	while (evd_poll_locked(evd, &wc, 1))
		if (completion_take_locked(evd, &wc, event))
			return DAT_SUCCESS;
	return DAT_QUEUE_EMPTY; /* an answer, not an error: no class bit */
}

/* Takes the completion in evd->kept, of whatever kind. If it is no event, the next one that is. */
static COLD DAT_RETURN dequeue_kept_unlock(struct evd *evd, DAT_EVENT *event)
{
	DAT_RETURN ret = completion_take_locked(evd, &evd->kept, event)
				 ? DAT_SUCCESS
				 : poll_for_event_locked(evd, event);

	assert_locked(&evd->lock);
	run_release_unlock(evd);
	return ret;
}

/*
 * dequeue_kept_unlock of @wc. It is copied by its parts: as a whole it is copied by its address,
 * for which the fast path needs a register more.
 */
static ALWAYS_INLINE DAT_RETURN dequeue_keeping_unlock(struct evd *evd, const struct tp_wc *wc,
						       DAT_EVENT *event)
{
	assert_locked(&evd->lock);
	evd->kept.tag = wc->tag;
	evd->kept.status = wc->status;
	evd->kept.length = wc->length;
	for (size_t i = 0; i < ARRAY_SIZE(wc->transport_0); i++)
		evd->kept.transport_0[i] = wc->transport_0[i];
	for (size_t i = 0; i < ARRAY_SIZE(wc->transport); i++)
		evd->kept.transport[i] = wc->transport[i];
	return dequeue_kept_unlock(evd, event);
}

/*
 * Polls for a completion, which is the event; no event is queued. It is translated here if it is a
 * transfer or a receive of a shared queue that has succeeded, or a bind.
 */
NOINLINE HOT static DAT_RETURN dequeue_by_poll_unlock(struct evd *evd, DAT_EVENT *event)
{
	const struct req *req;
	struct ring *ring;
	unsigned slowness;
	struct tp_wc wc;
	struct ep *ep;
	bool receive;

	assert_locked(&evd->lock);
	if (!evd_poll_locked(evd, &wc, 1)) {
		spin_unlock(&evd->lock);
		return DAT_QUEUE_EMPTY;
	}
	req = completion_req(&wc, &ring);
	ep = ring->ep;
	slowness = completion_slowness(req, ring, &wc);
	if (likely(!slowness)) {
		receive = req->kind == REQ_RECV;
		completion_describe(evd, req, ep, &wc, event);
		if (unlikely(!ring_retire(ring, req)))
			return dequeue_keeping_unlock(evd, &wc, event);
		completion_count(ep, receive, &wc);
	} else if (unlikely(slowness != REQ_SLOW_PATH)) {
		return dequeue_keeping_unlock(evd, &wc, event);
	} else if (req->kind == REQ_SRQ_RECV) {
		ep = tp_wc_ep(evd->cq, &wc);
		if (unlikely(!ep || evd->reporting_eps))
			return dequeue_keeping_unlock(evd, &wc, event);
		completion_describe_dto(evd, req, ep, DAT_DTO_SUCCESS, wc.length, event);
		completion_count(ep, true, &wc);
		pool_return(container_of(ring, struct recv_pool, ring),
			    (struct req *)(uintptr_t)req);
	} else {
		if (unlikely(!completion_retire_special_locked(evd, req, &wc, event)))
			return dequeue_keeping_unlock(evd, &wc, event);
		if (unlikely(evd->slow_path)) {
			run_release_unlock(evd);
			return DAT_SUCCESS;
		}
	}
	spin_unlock(&evd->lock);
	return DAT_SUCCESS;
}

/*
 * dequeue_kept_unlock of a completion that a poll has read ahead, which is a success, by its parts:
 * so the fast path needs no stack.
 */
static COLD DAT_RETURN dequeue_keeping_success_unlock(struct evd *evd, void *tag, uint32_t length,
						      DAT_EVENT *event)
{
	assert_locked(&evd->lock);
	evd->kept = (struct tp_wc){ .tag = tag, .status = DAT_DTO_SUCCESS, .length = length };
	return dequeue_kept_unlock(evd, event);
}

/* Takes the completion that an earlier poll has read ahead. */
static ALWAYS_INLINE DAT_RETURN dequeue_read_ahead_unlock(struct evd *evd, const struct tp_wc *wc,
							  DAT_EVENT *event)
{
	assert_locked(&evd->lock);
	LEAVE_IN_PLACE(evd);
	if (unlikely(!completion_take_plain_locked(evd, wc, event)))
		return dequeue_keeping_success_unlock(evd, wc->tag, wc->length, event);
	spin_unlock(&evd->lock);
	return DAT_SUCCESS;
}

/* With one of these a dequeue has more to do than to take the oldest event. */
#define EVD_DEQUEUE_IN_FULL (EVD_WAITER | EVD_RELEASE_DUE | EVD_RECEIVES | EVD_OVERFLOWED)

static COLD DAT_RETURN dequeue_refused(DAT_RETURN ret, const struct evd *evd,
				       const DAT_EVENT *event)
{
	return refused(ret, LOG_EVD, "dat_evd_dequeue", "evd %p, event %p", (const void *)evd,
		       (const void *)event);
}

/* Refuses a call whose handle is none, or that has no place for the event. */
static COLD DAT_RETURN dequeue_refuse_args(const struct evd *evd, const DAT_EVENT *event)
{
	if (!obj_is(evd, DAT_HANDLE_TYPE_EVD))
		return dequeue_refused(BAD_EVD, evd, event);
	return dequeue_refused(BAD_ARG(2), evd, event);
}

/*
 * Events of connections come to a consumer that polls for them as soon as to one that waits; and do
 * not wait for one that waits for completions.
 */
static void recall_if_away(struct ia *ia)
{
	if (atomic_load(&ia->attendance.away))
		attend_recall(ia);
}

/* dat_evd_dequeue in full, case by case. */
static COLD DAT_RETURN dequeue_in_full_unlock(struct evd *evd, DAT_EVENT *event)
{
	struct ia *ia = evd->obj.ia;
	DAT_RETURN ret = DAT_SUCCESS;

	assert_locked(&evd->lock);
	if (evd->slow_path & EVD_WAITER)
		ret = BAD_STATE(EVD_WAITER);
	else if (evd->queue.count)
		evd_pop_locked(evd, event);
	else if (!evd->cq)
		ret = DAT_QUEUE_EMPTY;
	else
		ret = poll_for_event_locked(evd, event);
	run_release_unlock(evd);
	if (ret == BAD_STATE(EVD_WAITER))
		return dequeue_refused(ret, evd, event);
	if (ret == DAT_QUEUE_EMPTY)
		recall_if_away(ia);
	return ret;
}

/* Takes the oldest queued event, unless there is more to do, or none after all. */
NOINLINE HOT static DAT_RETURN dequeue_from_queue_unlock(struct evd *evd, DAT_EVENT *event)
{
	assert_locked(&evd->lock);
	if (unlikely(evd->slow_path & EVD_DEQUEUE_IN_FULL || !evd->queue.count))
		return dequeue_in_full_unlock(evd, event);
	(void)evd_take_locked(evd, event);
	spin_unlock(&evd->lock);
	return DAT_SUCCESS;
}

/* Another thread has the lock at this moment: waits for it. */
static NOINLINE DAT_RETURN dequeue_locking(struct evd *evd, DAT_EVENT *event)
{
	spin_lock(&evd->lock);
	return evd->queue.count | evd->slow_path ? dequeue_from_queue_unlock(evd, event)
						 : dequeue_by_poll_unlock(evd, event);
}

/* Each way goes on in a function of its own, so that none saves registers for another. */
static ALWAYS_INLINE DAT_RETURN dequeue(struct evd *evd, DAT_EVENT *event)
{
	struct tp_wc wc;

	if (unlikely(!obj_is(evd, DAT_HANDLE_TYPE_EVD)))
		return dequeue_refuse_args(evd, event);
	if (unlikely(!event))
		return dequeue_refuse_args(evd, event);
	if (unlikely(!spin_trylock(&evd->lock)))
		return dequeue_locking(evd, event);
	if (unlikely(evd->queue.count | evd->slow_path))
		return dequeue_from_queue_unlock(evd, event);
	if (tp_cq_next(evd->cq, &wc))
		return dequeue_read_ahead_unlock(evd, &wc, event);
	return dequeue_by_poll_unlock(evd, event);
}

/* Counts a dequeue that was not refused. Returns @ret. */
static ALWAYS_INLINE DAT_RETURN dequeue_count(struct evd *evd, DAT_RETURN ret)
{
	if (COUNTS_FAST_PATH && (ret == DAT_SUCCESS || ret == DAT_QUEUE_EMPTY)) {
		evd_counts(evd, EVD_DEQUEUE);
		evd_counts(evd, ret == DAT_SUCCESS ? EVD_DEQUEUE_FOUND : EVD_DEQUEUE_NOT_FOUND);
	}
	return ret;
}

HOT DAT_RETURN evd_dequeue(DAT_EVD_HANDLE evd, DAT_EVENT *event)
{
	return dequeue_count(evd, dequeue(evd, event));
}

/* ---- wait ---- */

/* The wait has no result yet; also the status of one that timed out. */
#define STILL_WAITING DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0)
/* The thread is cancelled, so nobody is told of the events that came while it was the waiter. */
#define CANCELLED DAT_ERROR(DAT_INTERRUPTED_CALL, 1)

/* Writes what the call returns: on success the oldest event, and in any case how many are left. */
static DAT_RETURN wait_result_locked(struct evd *evd, DAT_RETURN ret, DAT_EVENT *event,
				     DAT_COUNT *nmore)
{
	assert_locked(&evd->lock);
	if (ret == DAT_SUCCESS)
		evd_pop_locked(evd, event);
	*nmore = (DAT_COUNT)evd->queue.count;
	return ret;
}

/*
 * Returns whether what arrived has ended the wait; @notified says whether the completions that have
 * just been taken had one that does.
 */
static bool wait_satisfied_locked(struct evd *evd, bool notified)
{
	assert_locked(&evd->lock);
	evd->wait_satisfied |= notified && evd->queue.count >= (unsigned)evd->threshold;
	return evd->wait_satisfied;
}

/*
 * Looks whether there is a reason to return, and returns it, or STILL_WAITING. *drained: no
 * completion was left behind for want of memory.
 */
static DAT_RETURN wait_look(struct evd *evd, bool *drained)
{
	DAT_RETURN ret = STILL_WAITING;
	bool notified = false;

	spin_lock(&evd->lock);
	*drained = evd_take_completions_relock(evd, &notified);
	if (evd->slow_path & EVD_CLOSING)
		ret = DAT_ERROR(DAT_ABORT, 0);
	else if (evd->slow_path & EVD_TURNED_AWAY)
		ret = BAD_STATE(EVD_UNWAITABLE);
	else if (wait_satisfied_locked(evd, notified))
		ret = DAT_SUCCESS;
	run_release_unlock(evd);
	return ret;
}

static void waiter_forget_locked(struct evd *evd)
{
	assert_locked(&evd->lock);
	evd->slow_path &= ~(unsigned)(EVD_WAITER | EVD_TURNED_AWAY);
}

/* wait_leave_unlock of a waiter that is expelled: its last access, because the EVD is destroyed. */
static DAT_RETURN wait_leave_expelled(struct evd *evd, DAT_COUNT *nmore)
{
	struct ia *ia = evd->obj.ia;

	mutex_lock(&ia->lock);
	spin_lock(&evd->lock);
	*nmore = (DAT_COUNT)evd->queue.count;
	waiter_forget_locked(evd);
	spin_unlock(&evd->lock);
	pthread_cond_broadcast(&ia->waiter_left);
	mutex_unlock(&ia->lock);
	return DAT_ERROR(DAT_ABORT, 0);
}

/*
 * The thread becomes the waiter of the EVD, until wait_leave_unlock. From here on evd->lock may be
 * let go of: no other wait begins, and who frees the EVD waits for this thread.
 */
static void wait_begin_locked(struct evd *evd, DAT_COUNT threshold)
{
	assert_locked(&evd->lock);
	evd->slow_path |= EVD_WAITER;
	evd->wait_satisfied = false;
	evd->threshold = threshold;
}

/* The last step of a wait: the EVD has no waiter any more. Returns what the call does. */
static DAT_RETURN wait_leave_unlock(struct evd *evd, DAT_RETURN ret, DAT_EVENT *event,
				    DAT_COUNT *nmore)
{
	assert_locked(&evd->lock);
	if (unlikely(evd->slow_path & EVD_CLOSING)) {
		spin_unlock(&evd->lock);
		return wait_leave_expelled(evd, nmore);
	}
	ret = wait_result_locked(evd, ret, event, nmore);
	waiter_forget_locked(evd);
	if (ret == CANCELLED && evd->notifying)
		evd_notify_locked(evd);
	run_release_unlock(evd);
	return ret;
}

/* Has the EVD events of connections, and no completions? Then its waiter may handle what comes. */
static bool waits_for_connections(const struct evd *evd)
{
	return evd->flags & EVD_FLAGS_CONNECTIONS && !evd->cq;
}

/*
 * The thread does not sleep any more: gives back what it slept on. Returns whether the completion
 * queue was armed for others, who sleep on its channel now.
 */
static bool sleep_give_back(struct evd *evd)
{
	bool armed, woken;
	int fd;

	if (evd->wakefd < 0)
		return false; /* there was none, and nothing else was borrowed */
	armed = evd->cq && evd_channel_return(evd);
	spin_lock(&evd->lock);
	fd = evd->wakefd;
	woken = evd->woken;
	evd->wakefd = -1;
	evd->woken = false;
	spin_unlock(&evd->lock);
	if (woken)
		wakefd_clear(fd);
	wakefd_give(&evd->obj.ia->wakefds, fd);
	if (waits_for_connections(evd))
		attend_wait_end(evd->obj.ia, evd->listens);
	else if (evd->cq)
		attend_others_less(&evd->obj.ia->attendance);
	return armed;
}

/*
 * The end of a wait whose thread has slept, with the result @ret so far. What arrives before the
 * queue is armed for others makes no event there, so it is an event of this wait, or counted in
 * *nmore.
 */
static DAT_RETURN wait_end(struct evd *evd, DAT_RETURN ret, DAT_EVENT *event, DAT_COUNT *nmore)
{
	bool notified = false, armed = sleep_give_back(evd);

	spin_lock(&evd->lock);
	if (armed || ret != DAT_SUCCESS)
		evd_take_completions_relock(evd, &notified);
	if (ret == STILL_WAITING && wait_satisfied_locked(evd, notified))
		ret = DAT_SUCCESS;
	return wait_leave_unlock(evd, ret, event, nmore);
}

/*
 * The thread was cancelled while it slept: the wait ends as if the call had returned, and events
 * that are left trigger the CNO.
 */
static void wait_cancelled(void *arg)
{
	CANCEL_FORBIDDEN;
	DAT_EVENT event;
	DAT_COUNT nmore;

	(void)wait_end(arg, CANCELLED, &event, &nmore);
}

/* What a thread in dat_evd_wait sleeps on. */
enum {
	WAIT_WAKEFD,  /* for everything that is not a completion */
	WAIT_CHANNEL, /* the completion channel; -1: there is none, or it is in error */
	/* what evd_channel_lend, or, without completions, attend_wait_begin returned */
	WAIT_DEVICE,
	WAIT_FDS,
};

/*
 * tp_poll, as the only place of a wait where the thread can be cancelled, if @consumers_state, its
 * state before the call, allows it. It holds no lock here, because wait_cancelled takes some.
 */
static int wait_poll(struct evd *evd, struct pollfd *fds, uint64_t until, int consumers_state)
{
	int ready;

	pthread_cleanup_push(wait_cancelled, evd);
	cancel_allow(consumers_state);
	ready = tp_poll(fds, fds[WAIT_DEVICE].fd >= 0 ? WAIT_FDS : WAIT_FDS - 1, until);
	cancel_forbid();
	pthread_cleanup_pop(0);
	return ready;
}

/*
 * The connection manager may have an event, or the device is due: handles that. If it makes an
 * event of this EVD, it need not wake this thread up, which looks next.
 */
static void device_attend(struct evd *evd, unsigned ready, bool in_error)
{
	bool woken;

	spin_lock(&evd->lock);
	woken = evd->woken;
	evd->woken = true;
	spin_unlock(&evd->lock);
	evd->listens = attend_wait_ready(evd->obj.ia, ready, in_error, &evd->due);
	spin_lock(&evd->lock);
	evd->woken = woken;
	spin_unlock(&evd->lock);
}

/* Takes what woke the thread up, so that the next sleep waits for the next one. */
static void wakeup_consume(struct evd *evd, struct pollfd *fds)
{
	if (fds[WAIT_WAKEFD].revents) {
		/* first: a thread that finds woken set does not signal */
		wakefd_clear(fds[WAIT_WAKEFD].fd);
		race_reach(RACE_WOKEN, evd);
		spin_lock(&evd->lock);
		evd->woken = false;
		spin_unlock(&evd->lock);
	}
	evd_counts(evd, EVD_WAIT_NOTIFY);
	if (evd->cq && fds[WAIT_CHANNEL].revents && tp_cq_events(evd->cq))
		evd_counts(evd, EVD_DTO_CALLBACK);
	/* then the device is gone, and poll would not sleep again */
	if (fds[WAIT_CHANNEL].revents & (POLLERR | POLLHUP)) {
		fds[WAIT_CHANNEL].fd = -1;
		watch_surrender(&evd->watch);
	}
	if (evd->listens && (fds[WAIT_DEVICE].revents || evd->due <= tp_now()))
		device_attend(evd, 1, fds[WAIT_DEVICE].revents & (POLLERR | POLLHUP));
}

/* The thread has been woken up for nothing, and sleeps again. */
static void sleep_again(struct evd *evd, struct pollfd *fds)
{
	if (evd->cq)
		fds[WAIT_DEVICE].fd = evd_arm_to_sleep(evd);
	else if (!evd->listens)
		fds[WAIT_DEVICE].fd = -1;
}

/*
 * Sleeps until there is a reason to return, and returns it. The time-out is one also while there is
 * always something to wake up for.
 */
static DAT_RETURN sleep_until_reason(struct evd *evd, int dev_fd, uint64_t deadline,
				     int consumers_state)
{
	struct pollfd fds[WAIT_FDS] = {
		[WAIT_WAKEFD] = { .fd = evd->wakefd, .events = POLLIN },
		[WAIT_CHANNEL] = { .fd = evd->cq ? tp_cq_fd(evd->cq) : -1, .events = POLLIN },
		[WAIT_DEVICE] = { .fd = dev_fd, .events = POLLIN },
	};
	DAT_RETURN ret;
	bool drained;

	for (;; sleep_again(evd, fds)) {
		uint64_t until;
		int ready;

		race_reach(RACE_SLEEP, evd);
		ret = wait_look(evd, &drained);
		if (ret != STILL_WAITING)
			return ret;
		until = drained ? deadline : min_u64(deadline, tp_now() + NO_MEMORY_RETRY);
		if (evd->listens)
			until = min_u64(until, evd->due);
		ready = wait_poll(evd, fds, until, consumers_state);
		if (ready == 0 && until == deadline)
			return wait_look(evd, &drained);
		if (ready < 0)
			return ready == -EINTR ? DAT_ERROR(DAT_INTERRUPTED_CALL, 0)
					       : status_of(ready, DAT_NO_SUBTYPE);
		wakeup_consume(evd, fds);
		ret = wait_look(evd, &drained);
		if (ret != STILL_WAITING || tp_now() >= deadline)
			return ret;
	}
}

/*
 * For an EVD for connections: listens to the connection manager, unless somebody else does. Returns
 * the descriptor to sleep on, or -1.
 */
static int connections_listen(struct evd *evd)
{
	int fd = attend_wait_begin(evd->obj.ia, &evd->due);

	evd->listens = fd >= 0;
	if (evd->listens) /* mostly something is there, of what the call before has caused */
		device_attend(evd, 1 | TP_ONLY_READY, false);
	return evd->listens ? fd : -1;
}

/* Borrows what the waiter sleeps on, and has it sleep. wait_end gives that back. */
static DAT_RETURN wait_asleep(struct evd *evd, uint64_t deadline, int consumers_state)
{
	int fd = wakefd_take(&evd->obj.ia->wakefds), dev_fd = -1;

	if (fd < 0) {
		(void)log_descriptor_shortage("dat_evd_wait", fd);
		return status_of(fd, DAT_RESOURCE_TEVD);
	}
	spin_lock(&evd->lock);
	evd->wakefd = fd;
	spin_unlock(&evd->lock);
	evd->listens = false;
	if (evd->cq) {
		attend_others_more(&evd->obj.ia->attendance);
		recall_if_away(evd->obj.ia);
		dev_fd = evd_channel_lend(evd);
	} else if (waits_for_connections(evd)) {
		dev_fd = connections_listen(evd);
	}
	evd_counts(evd, EVD_WAIT_BLOCKED);
	return sleep_until_reason(evd, dev_fd, deadline, consumers_state);
}

/* Returns why no wait can begin, or DAT_SUCCESS. */
static DAT_RETURN wait_judge_locked(const struct evd *evd, DAT_COUNT threshold)
{
	assert_locked(&evd->lock);
	if (threshold <= 0 || threshold > evd->qlen)
		return BAD_ARG(3);
	if (evd->slow_path & EVD_WAITER)
		return BAD_STATE(EVD_WAITER);
	if (evd->slow_path & EVD_CLOSING)
		return DAT_ERROR(DAT_ABORT, 0);
	if (evd->slow_path & EVD_UNWAITABLE)
		return BAD_STATE(EVD_UNWAITABLE);
	if (threshold > 1 && evd->config == DAT_EVD_STATE_CONFIG_NOTIFY)
		return BAD_STATE(EVD_CONFIG_NOTIFY);
	if (threshold > 1 && evd->config == DAT_EVD_STATE_CONFIG_SOLICITED)
		return BAD_STATE(EVD_CONFIG_SOLICITED);
	return DAT_SUCCESS;
}

/* Leaves a line of the log for a wait that failed; a time-out is no failure. Returns @ret. */
static COLD DAT_RETURN wait_refused(DAT_RETURN ret, const struct evd *evd, DAT_TIMEOUT timeout,
				    DAT_COUNT threshold, const DAT_EVENT *event,
				    const DAT_COUNT *nmore)
{
	if (ret == STILL_WAITING)
		return ret;
	return refused(ret, LOG_EVD, "dat_evd_wait",
		       "evd %p, timeout %u, threshold %d, event %p, nmore %p", (const void *)evd,
		       (unsigned)timeout, threshold, (const void *)event, (const void *)nmore);
}

/* Refuses a call whose handle is none, or that has no place for a result. */
static COLD DAT_RETURN wait_refuse_args(const struct evd *evd, DAT_TIMEOUT timeout,
					DAT_COUNT threshold, const DAT_EVENT *event,
					const DAT_COUNT *nmore)
{
	DAT_RETURN ret = event ? BAD_ARG(5) : BAD_ARG(4);

	if (!obj_is(evd, DAT_HANDLE_TYPE_EVD))
		ret = BAD_EVD;
	return wait_refused(ret, evd, timeout, threshold, event, nmore);
}

/* The waiter has found that there is not enough yet: it sleeps, unless its time-out is 0. */
static DAT_RETURN wait_in_vain_unlock(struct evd *evd, DAT_TIMEOUT timeout, DAT_EVENT *event,
				      DAT_COUNT *nmore, int consumers_state)
{
	const DAT_COUNT threshold = evd->threshold;
	struct ia *ia = evd->obj.ia;
	DAT_RETURN ret = STILL_WAITING;

	assert_locked(&evd->lock);
	if (timeout == 0) {
		ret = wait_leave_unlock(evd, ret, event, nmore);
		recall_if_away(ia);
		return ret;
	}
	spin_unlock(&evd->lock);
	ret = wait_asleep(evd, deadline_of(timeout), consumers_state);
	ret = wait_end(evd, ret, event, nmore);
	if (ret != DAT_SUCCESS)
		(void)wait_refused(ret, evd, timeout, threshold, event, nmore);
	return ret;
}

/* dat_evd_wait in full: with a threshold, and with a sleep if need be. */
static NOINLINE DAT_RETURN wait_in_full_unlock(struct evd *evd, DAT_TIMEOUT timeout,
					       DAT_COUNT threshold, DAT_EVENT *event,
					       DAT_COUNT *nmore)
{
	CANCEL_FORBIDDEN;
	DAT_RETURN ret = wait_judge_locked(evd, threshold);
	bool notified = false;

	assert_locked(&evd->lock);
	if (ret != DAT_SUCCESS) {
		spin_unlock(&evd->lock);
		return wait_refused(ret, evd, timeout, threshold, event, nmore);
	}
	wait_begin_locked(evd, threshold);
	evd_take_completions_relock(evd, &notified);
	if (evd->queue.count >= (unsigned)threshold)
		return wait_leave_unlock(evd, DAT_SUCCESS, event, nmore);
	return wait_in_vain_unlock(evd, timeout, event, nmore, cancel_state_before);
}

/*
 * The fast path has found neither an event nor a completion. Not inline: the others would save
 * registers for it.
 */
static NOINLINE DAT_RETURN wait_for_first_unlock(struct evd *evd, DAT_TIMEOUT timeout,
						 DAT_EVENT *event, DAT_COUNT *nmore)
{
	CANCEL_FORBIDDEN;

	wait_begin_locked(evd, 1);
	return wait_in_vain_unlock(evd, timeout, event, nmore, cancel_state_before);
}

/*
 * The first completion is the consumer's event already: moves the others to the queue, and counts.
 */
static NOINLINE DAT_RETURN wait_count_others_unlock(struct evd *evd, DAT_EVENT *event,
						    DAT_COUNT *nmore)
{
	CANCEL_FORBIDDEN;
	bool notified = false;

	assert_locked(&evd->lock);
	wait_begin_locked(evd, 1);
	evd_take_completions_relock(evd, &notified);
	(void)wait_leave_unlock(evd, STILL_WAITING, event, nmore); /* no second event is taken */
	return DAT_SUCCESS;
}

/*
 * The fast path has polled more than one completion, or one that is not a plain transfer. The event
 * queue was empty, so it has a slot for the second one, which is NULL if there is none.
 */
static NOINLINE DAT_RETURN wait_take_polled_unlock(struct evd *evd, const struct tp_wc *first,
						   const struct tp_wc *second, DAT_TIMEOUT timeout,
						   DAT_EVENT *event, DAT_COUNT *nmore)
{
	bool taken = completion_take_locked(evd, first, event), notified = false;

	assert_locked(&evd->lock);
	if (second)
		evd_queue_completion_locked(evd, second, &notified);
	if (!taken)
		return wait_in_full_unlock(evd, timeout, 1, event, nmore);
	if (second || evd->slow_path)
		return wait_count_others_unlock(evd, event, nmore);
	*nmore = 0;
	spin_unlock(&evd->lock);
	return DAT_SUCCESS;
}

/* wait_in_full_unlock, of a thread that does not have the lock. */
static NOINLINE DAT_RETURN wait_in_full(struct evd *evd, DAT_TIMEOUT timeout, DAT_COUNT threshold,
					DAT_EVENT *event, DAT_COUNT *nmore)
{
	spin_lock(&evd->lock);
	return wait_in_full_unlock(evd, timeout, threshold, event, nmore);
}

/*
 * A call of a thread that could be cancelled at any instruction: as long as the call lasts it can
 * be at cancellation points only.
 */
static COLD DAT_RETURN wait_defer_cancel(struct evd *evd, DAT_TIMEOUT timeout, DAT_COUNT threshold,
					 DAT_EVENT *event, DAT_COUNT *nmore)
{
	DAT_RETURN ret = evd_wait(evd, timeout, threshold, event, nmore);

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	return ret;
}

/*
 * The fast path: with nothing queued the first completion is the event, and polling for two tells
 * whether there are more.
 */
HOT DAT_RETURN evd_wait(DAT_EVD_HANDLE handle, DAT_TIMEOUT timeout, DAT_COUNT threshold,
			DAT_EVENT *event, DAT_COUNT *nmore)
{
	struct evd *evd = handle;
	struct tp_wc wc[2];
	int cancel_type;
	unsigned n;

	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &cancel_type);
	if (unlikely(cancel_type != PTHREAD_CANCEL_DEFERRED))
		return wait_defer_cancel(evd, timeout, threshold, event, nmore);
	if (unlikely(!obj_is(evd, DAT_HANDLE_TYPE_EVD)))
		return wait_refuse_args(evd, timeout, threshold, event, nmore);
	if (unlikely(!event))
		return wait_refuse_args(evd, timeout, threshold, event, nmore);
	if (unlikely(!nmore))
		return wait_refuse_args(evd, timeout, threshold, event, nmore);
	counter_add_fast(&evd->counters[EVD_WAIT], 1);
	if (unlikely(threshold != 1 || !spin_trylock(&evd->lock)))
		return wait_in_full(evd, timeout, threshold, event, nmore);
	if (unlikely(evd->queue.count | evd->slow_path))
		return wait_in_full_unlock(evd, timeout, 1, event, nmore);
	n = evd_poll_locked(evd, wc, 2);
	if (unlikely(n != 1))
		return n ? wait_take_polled_unlock(evd, wc, &wc[1], timeout, event, nmore)
			 : wait_for_first_unlock(evd, timeout, event, nmore);
	if (unlikely(!completion_take_plain_locked(evd, wc, event)))
		return wait_take_polled_unlock(evd, wc, NULL, timeout, event, nmore);
	*nmore = 0;
	spin_unlock(&evd->lock);
	return DAT_SUCCESS;
}
