/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What goes into an EVD and comes out of it: the event queue, the completion queue below, dequeue
 * and wait.
 *
 * Completions stay in the completion queue until somebody asks. Dequeue looks at the event queue
 * first (what stands there is older), then translates the next completion in place. The service
 * thread moves completions over when a CNO, a failure or the end of a connection makes it look; so
 * does a wait that counts.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "udapl.h"

/* ---- the event queue ---- */

#define EVD_FLAGS_BOUNDED (DAT_EVD_SOFTWARE_FLAG | DAT_EVD_CR_FLAG | DAT_EVD_ASYNC_FLAG)

/*
 * Slots that are spoken for: the streams that qlen limits, connection events to come, the flush of
 * every transfer.
 */
static unsigned reserved(const struct evd *evd)
{
	unsigned bounded_max = evd->flags & EVD_FLAGS_BOUNDED ? (unsigned)evd->qlen : 0;

	return evd->promised + evd->dto_depth +
	       (bounded_max > evd->bounded ? bounded_max - evd->bounded : 0);
}

static unsigned room(const struct evd *evd)
{
	return evd->queue.size - evd->queue.count;
}

bool evd_make_room(struct evd *evd, unsigned extra)
{
	struct event_q *queue = &evd->queue;

	while (room(evd) < reserved(evd) + extra) {
		unsigned size = queue->size ? queue->size : 1,
			 want = queue->count + reserved(evd) + extra;
		struct queued *slots, *old;

		while (size < want)
			size *= 2;
		spin_unlock(&evd->lock);
		slots = malloc(size * sizeof(*slots));
		spin_lock(&evd->lock);
		if (!slots)
			return false;
		old = slots;
		if (size > queue->size) {
			for (unsigned i = 0; i < queue->count; i++)
				slots[i] = queue->slots[(queue->head + i) & (queue->size - 1)];
			old = queue->slots;
			queue->slots = slots;
			queue->size = size;
			queue->head = 0;
		}
		spin_unlock(&evd->lock);
		free(old);
		spin_lock(&evd->lock);
	}
	return true;
}

static bool is_bounded(DAT_EVENT_NUMBER number)
{
	return number == DAT_SOFTWARE_EVENT || number == DAT_CONNECTION_REQUEST_EVENT ||
	       (number >= DAT_ASYNC_ERROR_EVD_OVERFLOW &&
		number <= DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR);
}

static void push(struct evd *evd, const DAT_EVENT *event, bool notify)
{
	struct event_q *queue = &evd->queue;
	struct queued *slot = &queue->slots[(queue->head + queue->count++) & (queue->size - 1)];

	slot->event = *event;
	slot->event.evd_handle = evd;
	slot->notify = notify;
	evd->notifying += notify;
}

/* As soon as there is room, those who lost an asynchronous error hear of that. */
static void report_overflow(struct evd *evd)
{
	DAT_EVENT event = {
		.event_number = DAT_ASYNC_ERROR_EVD_OVERFLOW,
		.event_data.asynch_error_event_data = { .dat_handle = evd,
							.reason = DAT_EVD_OVERFLOW_ERROR },
	};

	evd->overflowed = false;
	evd->bounded++;
	push(evd, &event, true);
}

static void pop(struct evd *evd, DAT_EVENT *event)
{
	struct event_q *queue = &evd->queue;
	struct queued *slot = &queue->slots[queue->head++ & (queue->size - 1)];

	*event = slot->event;
	evd->notifying -= slot->notify;
	queue->count--;
	if (is_bounded(event->event_number)) {
		evd->bounded--;
		if (unlikely(evd->overflowed))
			report_overflow(evd);
	}
}

/* ---- completions ---- */

static ALWAYS_INLINE void describe(struct evd *evd, const struct req *req, struct tp_wc wc,
				   DAT_EVENT *event)
{
	DAT_DTO_COMPLETION_EVENT_DATA *dto = &event->event_data.dto_completion_event_data;

	event->event_number = DAT_DTO_COMPLETION_EVENT;
	event->evd_handle = evd;
	dto->ep_handle = req->ring->ep;
	dto->user_cookie = req->cookie;
	dto->status = wc.status;
	dto->transfered_length = req->kind == REQ_RECV ? wc.length : req->size;
}

static void describe_bind(struct evd *evd, const struct req *req, DAT_DTO_COMPLETION_STATUS status,
			  DAT_EVENT *event)
{
	DAT_RMR_BIND_COMPLETION_EVENT_DATA *bind = &event->event_data.rmr_completion_event_data;
	bool other = status != DAT_DTO_SUCCESS && status != DAT_DTO_ERR_FLUSHED;

	event->event_number = DAT_RMR_BIND_COMPLETION_EVENT;
	event->evd_handle = evd;
	bind->rmr_handle = req->binding->rmr;
	bind->user_cookie = req->cookie;
	bind->status = other ? DAT_RMR_OPERATION_FAILED : status;
}

/*
 * That a device completes what was posted orders nothing in the language's terms. That the poster
 * moved the tail does.
 */
static ALWAYS_INLINE const struct req *req_of(const struct tp_wc *wc)
{
	const struct req *req = wc->tag;

	(void)atomic_load_explicit(&req->ring->tail, memory_order_acquire);
	return req;
}

/* A failure, a bind, something suppressed or ours, or an endpoint that is being watched. */
static ALWAYS_INLINE bool is_odd(const struct req *req, struct tp_wc wc)
{
	return wc.status | (req->flags & (DAT_COMPLETION_SUPPRESS_FLAG | REQ_ODD)) |
	       atomic_load_explicit(&req->ring->ep->watched, memory_order_relaxed);
}

/*
 * While a bind is in the ring nobody else settles it, so its binding is there: not if the
 * completion comes too late, and not any more when it is settled. In between it is described,
 * unless @event is NULL.
 */
static bool retire_bind(struct evd *evd, const struct req *req, DAT_DTO_COMPLETION_STATUS status,
			DAT_EVENT *event)
{
	const struct req over = *req; /* its slot may be taken again */

	if (!ring_retire(req->ring, req))
		return false;
	if (event)
		describe_bind(evd, &over, status, event);
	if (rmr_settle(over.binding, status))
		evd->hurdles |= LEFTOVERS;
	return true;
}

static COLD bool take_odd(struct evd *evd, struct tp_wc wc, DAT_EVENT *event)
{
	const struct req *req = wc.tag, over = *req; /* once retired its slot may be taken again */
	struct ep *ep = over.ring->ep;
	bool silent = over.flags & DAT_COMPLETION_SUPPRESS_FLAG && !wc.status, retired;

	if (over.kind == REQ_MARKER) {
		ep_notice(ep, &over, wc.status);
		return false;
	}
	if (over.kind == REQ_BIND) {
		retired = retire_bind(evd, req, wc.status, event);
	} else {
		describe(evd, &over, wc, event);
		if (wc.status)
			event->event_data.dto_completion_event_data.transfered_length = 0;
		retired = ring_retire(over.ring, req);
	}
	if (!retired)
		return false;
	if (wc.status || atomic_load_explicit(&ep->watched, memory_order_relaxed))
		ep_notice(ep, &over, wc.status);
	return !silent;
}

/*
 * What a completion means: true if it is an event. Everything is read from the slot before it is
 * retired, because from then on its poster may use it again.
 */
static ALWAYS_INLINE bool take(struct evd *evd, struct tp_wc wc, DAT_EVENT *event)
{
	const struct req *req = req_of(&wc);

	if (unlikely(is_odd(req, wc)))
		return take_odd(evd, wc, event);
	describe(evd, req, wc, event);
	return ring_retire(req->ring, req);
}

/* Does this completion, not taken yet, end a wait? */
static inline bool notifies(const struct tp_wc *wc)
{
	return wc->status || !(req_of(wc)->flags & DAT_COMPLETION_UNSIGNALLED_FLAG);
}

/*
 * Moves all completions into the queue. *notified: one of them ends a wait, or may. False: no
 * memory, some stayed behind; nothing below will tell of those again.
 */
static bool drain_locked(struct evd *evd, bool *notified)
{
	struct tp_wc wc[TP_POLL_MAX];
	DAT_EVENT event;

	if (!evd->cq)
		return true;
	for (;;) {
		unsigned n;

		if (!evd_make_room(evd, TP_POLL_MAX)) {
			*notified = true;
			return false;
		}
		n = tp_cq_poll(evd->cq, wc, TP_POLL_MAX);
		for (unsigned i = 0; i < n; i++) {
			bool notify = notifies(&wc[i]);

			if (take(evd, wc[i], &event) && !evd->is_sink) {
				push(evd, &event, notify);
				*notified |= notify;
			}
		}
		if (n < TP_POLL_MAX)
			return true;
	}
}

/* ---- telling those who wait ---- */

void evd_wake(struct evd *evd)
{
	wakefd_signal(evd->wake);
}

/* A notification event has arrived, and its receiver is another thread. */
static void notify_locked(struct evd *evd)
{
	if (evd->hurdles & WAITING) {
		if (evd->queue.count >= (unsigned)evd->threshold) {
			evd->fired = true;
			evd_wake(evd);
		}
	} else if (evd->cno && evd->enabled) {
		cno_trigger(evd->cno, evd);
	}
}

bool evd_drain(struct evd *evd)
{
	bool notified = false, all;

	spin_lock(&evd->lock);
	all = drain_locked(evd, &notified);
	if (notified)
		notify_locked(evd);
	spin_unlock(&evd->lock);
	return all;
}

static enum tp_arm arm_mode_locked(struct evd *evd, bool waiting)
{
	if (evd->is_sink || evd->drains)
		return TP_ARM_ANY;
	if (evd->config == DAT_EVD_STATE_CONFIG_SOLICITED)
		return TP_ARM_ERRORS;
	if (waiting || (evd->cno && evd->enabled && cno_wants(evd->cno)))
		return TP_ARM_ANY;
	return TP_ARM_ERRORS;
}

/* @leaving: the waiter that there is does not count any more. */
static void arm(struct evd *evd, bool leaving)
{
	enum tp_arm mode;

	if (!evd->cq)
		return;
	spin_lock(&evd->lock);
	mode = arm_mode_locked(evd, !leaving && evd->hurdles & WAITING);
	spin_unlock(&evd->lock);
	(void)tp_cq_arm(evd->cq, mode);
}

void evd_rearm(struct evd *evd)
{
	arm(evd, false);
}

void evd_channel_ready(struct evd *evd)
{
	if (!tp_cq_events(evd->cq))
		return;
	evd_drain(evd);
	evd_rearm(evd);
	evd_drain(evd);
}

void evd_watch_drain(struct evd *evd, bool on)
{
	spin_lock(&evd->lock);
	evd->drains += on ? 1 : -1;
	spin_unlock(&evd->lock);
	if (on)
		evd_rearm(evd);
}

void evd_trigger_backlog(struct evd *evd)
{
	bool notified = false;

	evd_rearm(evd);
	spin_lock(&evd->lock);
	if (evd->cno && evd->enabled)
		drain_locked(evd, &notified);
	if (!(evd->hurdles & WAITING) && (evd->notifying || notified))
		notify_locked(evd);
	spin_unlock(&evd->lock);
}

/* ---- events from the core ---- */

int evd_promise(struct evd *evd, unsigned n)
{
	bool ok;

	spin_lock(&evd->lock);
	ok = evd_make_room(evd, n + (evd->cq ? TP_POLL_MAX : 1));
	if (ok)
		evd->promised += n;
	spin_unlock(&evd->lock);
	return ok ? 0 : -ENOMEM;
}

void evd_unpromise(struct evd *evd, unsigned n)
{
	spin_lock(&evd->lock);
	evd->promised -= n;
	spin_unlock(&evd->lock);
}

void evd_post_promised(struct evd *evd, const DAT_EVENT *event)
{
	spin_lock(&evd->lock);
	evd->promised--;
	push(evd, event, true);
	notify_locked(evd);
	spin_unlock(&evd->lock);
}

int evd_post_bounded(struct evd *evd, const DAT_EVENT *event)
{
	int err = 0;

	spin_lock(&evd->lock);
	if (evd->hurdles & DYING) {
		err = -ENOENT;
	} else if (evd->bounded >= (unsigned)evd->qlen) {
		err = -ENOSPC;
		evd->overflowed |= event->event_number >= DAT_ASYNC_ERROR_EVD_OVERFLOW &&
				   event->event_number <= DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR;
	} else {
		evd->bounded++;
		push(evd, event, true);
		notify_locked(evd);
	}
	spin_unlock(&evd->lock);
	return err;
}

/* Room for a flush, be it some that was kept for it. May let go of the lock on the way. */
static bool flush_room(struct evd *evd)
{
	return evd->is_sink || evd_make_room(evd, 1) || room(evd) > evd->promised;
}

static void push_flushed(struct evd *evd, const struct req *req)
{
	DAT_EVENT event = {
		.event_number = DAT_DTO_COMPLETION_EVENT,
		.event_data.dto_completion_event_data = { .ep_handle = req->ring->ep,
							  .user_cookie = req->cookie,
							  .status = DAT_DTO_ERR_FLUSHED },
	};

	if (req->kind == REQ_BIND)
		describe_bind(evd, req, DAT_DTO_ERR_FLUSHED, &event);
	if (!evd->is_sink)
		push(evd, &event, true);
}

bool evd_flush(struct evd *evd, struct ring *ring)
{
	bool all = true, any = false;

	spin_lock(&evd->lock);
	while (all && ring_used(ring)) {
		const struct req *req;

		all = flush_room(evd);
		if (!all || !ring_used(ring))
			break; /* somebody polled meanwhile */
		req = &ring->slots[atomic_load(&ring->head) & ring->mask];
		push_flushed(evd, req);
		any |= req->kind == REQ_BIND ? retire_bind(evd, req, DAT_DTO_ERR_FLUSHED, NULL)
					     : ring_retire(ring, req);
	}
	if (any)
		notify_locked(evd);
	spin_unlock(&evd->lock);
	return all;
}

bool evd_post_flushed(struct evd *evd, const struct req *req)
{
	bool ok;

	spin_lock(&evd->lock);
	ok = flush_room(evd);
	if (ok) {
		push_flushed(evd, req);
		notify_locked(evd);
	}
	spin_unlock(&evd->lock);
	return ok;
}

void evd_forget_ep(struct evd *evd, const struct ep *ep)
{
	struct tp_wc wc;
	DAT_EVENT event;
	bool notified = false;

	spin_lock(&evd->lock);
	while (tp_cq_poll(evd->cq, &wc, 1)) {
		const struct req *req = req_of(&wc);
		bool notify = notifies(&wc);

		if (req->ring->ep == ep) {
			if (req->kind == REQ_BIND)
				/* a window stays as it was left */
				(void)retire_bind(evd, req, wc.status, NULL);
			continue;
		}
		if (!take(evd, wc, &event) || evd->is_sink)
			continue;
		if (!evd_make_room(evd, 1) && !room(evd)) {
			log_error("out of memory: a completion is lost");
			continue;
		}
		push(evd, &event, notify);
		notified |= notify;
	}
	if (notified)
		notify_locked(evd);
	spin_unlock(&evd->lock);
}

/* What is queued must fit, completions that nobody took yet included. */
DAT_RETURN evd_set_qlen(struct evd *evd, DAT_COUNT qlen)
{
	DAT_COUNT before;
	bool notified = false;
	DAT_RETURN ret = DAT_SUCCESS;

	spin_lock(&evd->lock);
	drain_locked(evd, &notified);
	before = evd->qlen;
	if (evd->hurdles & WAITING) {
		ret = BAD_STATE(EVD_WAITER);
	} else if (evd->queue.count > (unsigned)qlen) {
		ret = DAT_ERROR(DAT_INVALID_STATE, 0);
	} else {
		evd->qlen = qlen;
		if (!evd_make_room(evd, 1)) {
			evd->qlen = before;
			ret = NO_RESOURCE(MEMORY);
		}
	}
	if (notified)
		notify_locked(evd);
	spin_unlock(&evd->lock);
	return ret;
}

DAT_RETURN evd_post_se(DAT_EVD_HANDLE handle, const DAT_EVENT *event)
{
	struct evd *evd = handle;

	if (!obj_valid(NULL, evd, DAT_HANDLE_TYPE_EVD))
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
	if (!(evd->flags & DAT_EVD_SOFTWARE_FLAG))
		return BAD_ARG(1);
	if (!event || event->event_number != DAT_SOFTWARE_EVENT)
		return BAD_ARG(2);
	return evd_post_bounded(evd, event) == 0 ? DAT_SUCCESS : DAT_ERROR(DAT_QUEUE_FULL, 0);
}

/* ---- taking events: the hot path ---- */

/* The next completion that is an event. evd->lock held. */
static DAT_RETURN dequeue_next(struct evd *evd, DAT_EVENT *event)
{
	struct tp_wc wc;

	while (tp_cq_poll(evd->cq, &wc, 1))
		if (take(evd, wc, event))
			return DAT_SUCCESS;
	return DAT_QUEUE_EMPTY; /* an answer, not an error: no class bit */
}

/*
 * Peers must have lost what a completed bind replaced when the consumer hears of it. evd->lock
 * held, and let go. Another consumer thread, which takes what comes after that bind, may be early
 * by as long as this takes.
 */
static void unlock_swept(struct evd *evd)
{
	struct ia *ia = evd->obj.ia;
	bool left = evd->hurdles & LEFTOVERS;

	evd->hurdles &= ~(unsigned)LEFTOVERS;
	spin_unlock(&evd->lock);
	if (unlikely(left))
		rmr_sweep(ia);
}

/*
 * Somebody waits, or events are queued, or there is no completion queue. evd->lock held, and let
 * go.
 */
static COLD DAT_RETURN dequeue_queued(struct evd *evd, DAT_EVENT *event)
{
	DAT_RETURN ret = DAT_SUCCESS;

	if (evd->hurdles & WAITING)
		ret = BAD_STATE(EVD_WAITER);
	else if (evd->queue.count)
		pop(evd, event);
	else if (!evd->cq)
		ret = DAT_QUEUE_EMPTY;
	else
		ret = dequeue_next(evd, event);
	unlock_swept(evd);
	return ret;
}

/* This completion is odd, or came too late. evd->lock held, and let go. */
static COLD DAT_RETURN dequeue_odd(struct evd *evd, struct tp_wc wc, DAT_EVENT *event)
{
	DAT_RETURN ret = take(evd, wc, event) ? DAT_SUCCESS : dequeue_next(evd, event);

	unlock_swept(evd);
	return ret;
}

HOT DAT_RETURN evd_dequeue(DAT_EVD_HANDLE handle, DAT_EVENT *event)
{
	struct evd *evd = handle;
	const struct req *req;
	struct tp_wc wc;

	if (unlikely(!obj_is(evd, DAT_HANDLE_TYPE_EVD)))
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
	if (unlikely(!event))
		return BAD_ARG(2);
	spin_lock(&evd->lock);
	if (unlikely(evd->queue.count | evd->hurdles))
		return dequeue_queued(evd, event);
	if (!tp_cq_poll(evd->cq, &wc, 1)) {
		spin_unlock(&evd->lock);
		return DAT_QUEUE_EMPTY;
	}
	req = req_of(&wc);
	if (unlikely(is_odd(req, wc)))
		return dequeue_odd(evd, wc, event);
	describe(evd, req, wc, event);
	if (unlikely(!ring_retire(req->ring, req)))
		return dequeue_odd(evd, wc, event);
	spin_unlock(&evd->lock);
	return DAT_SUCCESS;
}

/* The consumer's event plus what is left, when there is enough. evd->lock held. */
static DAT_RETURN wait_result_locked(struct evd *evd, DAT_RETURN ret, DAT_EVENT *event,
				     DAT_COUNT *nmore)
{
	if (ret == DAT_SUCCESS)
		pop(evd, event);
	*nmore = (DAT_COUNT)evd->queue.count;
	return ret;
}

/*
 * Why the sleep is over: DAT_SUCCESS for events; or DAT_TIMEOUT_EXPIRED: it is not. *all: there is
 * nothing below that we have not seen.
 */
static DAT_RETURN wait_look(struct evd *evd, bool *all)
{
	DAT_RETURN ret = DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0);
	bool notified = false;

	spin_lock(&evd->lock);
	*all = drain_locked(evd, &notified);
	evd->fired |= notified && evd->queue.count >= (unsigned)evd->threshold;
	if (evd->hurdles & DYING)
		ret = DAT_ERROR(DAT_ABORT, 0);
	else if (evd->hurdles & UNWAITABLE)
		ret = BAD_STATE(EVD_UNWAITABLE);
	else if (evd->fired)
		ret = DAT_SUCCESS;
	unlock_swept(evd);
	return ret;
}

/* As owner of the completion channel: until there is a reason to return. */
static DAT_RETURN wait_sleep(struct evd *evd, uint64_t deadline)
{
	struct pollfd fds[] = {
		{ .fd = evd->wake, .events = POLLIN },
		{ .fd = evd->cq ? tp_cq_fd(evd->cq) : -1, .events = POLLIN },
	};

	for (;;) {
		DAT_RETURN ret;
		uint64_t until;
		bool all;
		int ready;

		arm(evd, false);
		ret = wait_look(evd, &all);
		if (ret != DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0))
			return ret;
		until = all ? deadline : min_u64(deadline, tp_now() + MEMORY_RETRY);
		ready = tp_poll(fds, evd->cq ? 2 : 1, until);
		if (ready == 0 && until == deadline)
			return wait_look(evd, &all);
		if (ready < 0)
			return ready == -EINTR ? DAT_ERROR(DAT_INTERRUPTED_CALL, 0)
					       : status_of(ready, DAT_NO_SUBTYPE);
		if (fds[0].revents)
			wakefd_clear(evd->wake);
		if (evd->cq && fds[1].revents)
			tp_cq_events(evd->cq);
	}
}

/*
 * Gives the EVD back. An abrupt close waits for us under ia->lock and takes everything down as soon
 * as we are gone, so then our leaving is the last thing that we touch.
 */
static DAT_RETURN wait_leave(struct evd *evd, DAT_RETURN ret, DAT_EVENT *event, DAT_COUNT *nmore)
{
	struct ia *ia = evd->obj.ia;

	if (evd->cq) {
		service_take_back(ia, evd);
		arm(evd, true);
	}
	wakefd_clear(evd->wake);
	spin_lock(&evd->lock);
	if (likely(!(evd->hurdles & DYING))) {
		ret = wait_result_locked(evd, ret, event, nmore);
		evd->hurdles &= ~(unsigned)WAITING;
		spin_unlock(&evd->lock);
		return ret;
	}
	spin_unlock(&evd->lock);
	mutex_lock(&ia->lock);
	spin_lock(&evd->lock);
	*nmore = (DAT_COUNT)evd->queue.count;
	evd->hurdles &= ~(unsigned)WAITING;
	spin_unlock(&evd->lock);
	pthread_cond_broadcast(&ia->left);
	mutex_unlock(&ia->lock);
	return DAT_ERROR(DAT_ABORT, 0);
}

/* May this wait begin? evd->lock held. */
static DAT_RETURN wait_refused_locked(const struct evd *evd, DAT_COUNT threshold)
{
	if (threshold <= 0 || threshold > evd->qlen)
		return BAD_ARG(3);
	if (evd->hurdles & WAITING)
		return BAD_STATE(EVD_WAITER);
	if (evd->hurdles & DYING)
		return DAT_ERROR(DAT_ABORT, 0);
	if (evd->hurdles & UNWAITABLE)
		return BAD_STATE(EVD_UNWAITABLE);
	if (threshold > 1 && evd->config == DAT_EVD_STATE_CONFIG_NOTIFY)
		return BAD_STATE(EVD_CONFIG_NOTIFY);
	if (threshold > 1 && evd->config == DAT_EVD_STATE_CONFIG_SOLICITED)
		return BAD_STATE(EVD_CONFIG_SOLICITED);
	return DAT_SUCCESS;
}

static uint64_t deadline_of(DAT_TIMEOUT timeout)
{
	return timeout == DAT_TIMEOUT_INFINITE ? TP_NEVER : tp_now() + (uint64_t)timeout * 1000;
}

/* A wait that counts, or that will have to sleep. evd->lock held, and let go. */
static __attribute__((noinline)) DAT_RETURN wait_any(struct evd *evd, DAT_TIMEOUT timeout,
						     DAT_COUNT threshold, DAT_EVENT *event,
						     DAT_COUNT *nmore)
{
	DAT_RETURN ret = wait_refused_locked(evd, threshold);
	bool notified = false;

	if (ret != DAT_SUCCESS) {
		spin_unlock(&evd->lock);
		return ret;
	}
	drain_locked(evd, &notified);
	if (evd->queue.count >= (unsigned)threshold || timeout == 0) {
		ret = evd->queue.count >= (unsigned)threshold ? DAT_SUCCESS
							      : DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0);
		ret = wait_result_locked(evd, ret, event, nmore);
		unlock_swept(evd);
		return ret;
	}
	evd->hurdles |= WAITING;
	evd->fired = false;
	evd->threshold = threshold;
	spin_unlock(&evd->lock);
	if (evd->cq)
		service_lend(evd->obj.ia, evd);
	ret = wait_sleep(evd, deadline_of(timeout));
	return wait_leave(evd, ret, event, nmore);
}

/*
 * The queue was empty, which leaves it a slot to spare: the second of two completions goes there.
 * The first is the consumer's, if it was an event. evd->lock held, and let go.
 */
static __attribute__((noinline)) DAT_RETURN wait_more(struct evd *evd, bool taken,
						      const struct tp_wc *second,
						      DAT_TIMEOUT timeout, DAT_EVENT *event,
						      DAT_COUNT *nmore)
{
	bool notified = false;
	DAT_EVENT next;

	if (second) {
		bool notify = notifies(second);

		if (take(evd, *second, &next))
			push(evd, &next, notify);
	}
	if (!taken)
		return wait_any(evd, timeout, 1, event, nmore);
	drain_locked(evd, &notified);
	*nmore = (DAT_COUNT)evd->queue.count;
	unlock_swept(evd);
	return DAT_SUCCESS;
}

/*
 * With nothing queued, the first completion is the event, and one poll for two tells whether there
 * are more.
 */
HOT DAT_RETURN evd_wait(DAT_EVD_HANDLE handle, DAT_TIMEOUT timeout, DAT_COUNT threshold,
			DAT_EVENT *event, DAT_COUNT *nmore)
{
	struct evd *evd = handle;
	struct tp_wc wc[2];
	unsigned n;
	bool taken;

	if (unlikely(!obj_is(evd, DAT_HANDLE_TYPE_EVD)))
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
	if (unlikely(!event))
		return BAD_ARG(4);
	if (unlikely(!nmore))
		return BAD_ARG(5);
	spin_lock(&evd->lock);
	if (unlikely(threshold != 1 || evd->queue.count | evd->hurdles))
		return wait_any(evd, timeout, threshold, event, nmore);
	n = tp_cq_poll(evd->cq, wc, 2);
	if (unlikely(n == 0))
		return wait_any(evd, timeout, threshold, event, nmore);
	taken = take(evd, wc[0], event);
	if (unlikely(!taken || n == 2 || evd->hurdles))
		return wait_more(evd, taken, n == 2 ? &wc[1] : NULL, timeout, event, nmore);
	*nmore = 0;
	spin_unlock(&evd->lock);
	return DAT_SUCCESS;
}
