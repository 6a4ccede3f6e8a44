/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The events of an EVD: its queue, what is put there, and who is notified.
 *
 * Completions stay in the completion queue until they are asked for. The service thread moves them
 * to the event queue when a CNO, a failure or the end of a connection makes it poll; so does a wait
 * with a threshold. What is in the event queue is older than what is in the completion queue.
 */
#include <errno.h>
#include <stdlib.h>

#include "completion.h"
#include "evd.h"
#include "base/race.h"

#define EVD_FLAGS_BOUNDED (DAT_EVD_SOFTWARE_FLAG | DAT_EVD_CR_FLAG | DAT_EVD_ASYNC_FLAG)

/* ---- the queue ---- */

/* Returns how many slots the streams that qlen limits have together. */
static unsigned bounded_max(const struct evd *evd, DAT_COUNT qlen)
{
	return evd->flags & EVD_FLAGS_BOUNDED ? (unsigned)qlen : 0;
}

/*
 * Returns how many free slots were promised to connection events, and, up to qlen, to bounded
 * streams.
 */
static unsigned slots_promised_locked(const struct evd *evd)
{
	unsigned bounded = bounded_max(evd, evd->qlen);

	assert_locked(&evd->lock);
	return evd->reserved + (bounded > evd->bounded ? bounded - evd->bounded : 0);
}

/* Returns how many free slots were promised to those two, or are kept for flushes. */
static unsigned slots_needed_locked(const struct evd *evd)
{
	assert_locked(&evd->lock);
	return slots_promised_locked(evd) + evd->dto_depth;
}

static unsigned slots_free_locked(const struct evd *evd)
{
	assert_locked(&evd->lock);
	return evd->queue.size - evd->queue.count;
}

/* Moves the queue to @slots, if these are more. Returns the memory to be freed. */
static struct queued_event *queue_grow(struct event_queue *queue, struct queued_event *slots,
				       unsigned size)
{
	struct queued_event *old = queue->slots;

	if (size <= queue->size)
		return slots; /* another thread was faster */
	for (unsigned i = 0; i < queue->count; i++)
		slots[i] = *queue_slot(queue, i);
	queue->slots = slots;
	queue->size = size;
	queue->head = 0;
	return old;
}

bool evd_make_room_relock(struct evd *evd, unsigned extra)
{
	struct event_queue *queue = &evd->queue;

	assert_locked(&evd->lock);
	while (slots_free_locked(evd) < slots_needed_locked(evd) + extra) {
		unsigned size = queue->size ? queue->size : 1;
		unsigned want = queue->count + slots_needed_locked(evd) + extra;
		struct queued_event *slots, *unused;

		while (size < want)
			size *= 2;
		spin_unlock(&evd->lock);
		race_reach(RACE_ROOM, evd);
		slots = malloc(size * sizeof(*slots));
		spin_lock(&evd->lock);
		if (!slots)
			return false;
		unused = queue_grow(queue, slots, size);
		spin_unlock(&evd->lock);
		free(unused);
		spin_lock(&evd->lock);
	}
	return true;
}

static bool is_async_error(DAT_EVENT_NUMBER number)
{
	return number >= DAT_ASYNC_ERROR_EVD_OVERFLOW &&
	       number <= DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR;
}

static void queue_push_locked(struct evd *evd, const DAT_EVENT *event, bool notify, bool bounded)
{
	struct event_queue *queue = &evd->queue;
	struct queued_event *slot;

	debug_assert(slots_free_locked(evd) > 0);
	slot = queue_slot(queue, queue->count++);
	event_copy(&slot->event, event);
	slot->event.evd_handle = evd;
	slot->notify = notify;
	slot->bounded = bounded;
	slot->receive = NULL;
	evd->notifying += notify;
	evd->bounded += bounded;
}

void evd_push_locked(struct evd *evd, const DAT_EVENT *event, bool notify)
{
	queue_push_locked(evd, event, notify, false);
}

/* Reports the loss of asynchronous errors, as soon as there is room for that. */
static COLD void push_overflow_locked(struct evd *evd)
{
	DAT_EVENT event = {
		.event_number = DAT_ASYNC_ERROR_EVD_OVERFLOW,
		.event_data.asynch_error_event_data = { .dat_handle = evd,
							.reason = DAT_EVD_OVERFLOW_ERROR },
	};

	assert_locked(&evd->lock);
	evd->slow_path &= ~(unsigned)EVD_OVERFLOWED;
	queue_push_locked(evd, &event, true, true);
}

/* Gives the slot of a shared receive back: the consumer has its event, or may free the queue. */
static void receive_taken_locked(struct evd *evd, struct queued_event *queued)
{
	struct recv_pool *pool = pool_of(queued->receive);

	assert_locked(&evd->lock);
	atomic_fetch_add(&pool->takes_begun, 1);
	pool_return(pool, queued->receive);
	atomic_fetch_sub(&pool->queued, 1);
	atomic_fetch_add(&pool->takes_ended, 1);
	queued->receive = NULL;
	if (!--evd->receives)
		evd->slow_path &= ~(unsigned)EVD_RECEIVES;
}

void evd_pop_locked(struct evd *evd, DAT_EVENT *event)
{
	struct queued_event *first = queue_slot(&evd->queue, 0);

	assert_locked(&evd->lock);
	if (first->receive)
		receive_taken_locked(evd, first);
	if (unlikely(evd_take_locked(evd, event) && evd->slow_path & EVD_OVERFLOWED))
		push_overflow_locked(evd);
}

/* ---- notification ---- */

void evd_wake_locked(struct evd *evd)
{
	assert_locked(&evd->lock);
	if (evd->wakefd < 0 || evd->woken)
		return; /* the waiter looks before it sleeps */
	evd->woken = true;
	wakefd_signal(evd->wakefd);
}

void evd_notify_locked(struct evd *evd)
{
	assert_locked(&evd->lock);
	if (evd->slow_path & EVD_WAITER) {
		if (evd->queue.count >= (unsigned)evd->threshold) {
			evd->wait_satisfied = true;
			evd_wake_locked(evd);
		}
	} else if (evd->cno && evd->enabled) {
		cno_trigger_locked(evd->cno, evd);
	}
}

/* ---- completions ---- */

/*
 * evd_queue_completion_locked of a shared receive, whose slot stays in use until the consumer takes
 * the event. Returns whether there is an event.
 */
static bool queue_receive_locked(struct evd *evd, const struct tp_wc *wc)
{
	struct event_queue *queue = &evd->queue;
	struct recv_pool *pool = pool_of(wc->tag);
	DAT_EVENT event;

	assert_locked(&evd->lock);
	if (!completion_take_srq_locked(evd, wc, &event) || evd->is_sink) {
		pool_return(pool, wc->tag);
		return false;
	}
	evd_push_locked(evd, &event, true);
	queue_slot(queue, queue->count - 1)->receive = wc->tag;
	evd->receives++;
	evd->slow_path |= EVD_RECEIVES;
	atomic_fetch_add(&pool->queued, 1);
	return true;
}

void evd_queue_completion_locked(struct evd *evd, const struct tp_wc *wc, bool *notified)
{
	bool notify = completion_notifies(evd, wc);
	DAT_EVENT event;

	assert_locked(&evd->lock);
	if (completion_srq_slot(wc)) {
		*notified |= queue_receive_locked(evd, wc);
	} else if (completion_take_locked(evd, wc, &event) && !evd->is_sink) {
		evd_push_locked(evd, &event, notify);
		*notified |= notify;
	}
}

bool evd_take_completions_relock(struct evd *evd, bool *notified)
{
	struct tp_wc wc[TP_POLL_MAX];

	assert_locked(&evd->lock);
	while (evd->cq) {
		unsigned n;

		if (!evd_make_room_relock(evd, TP_POLL_MAX)) {
			*notified = true;
			return false;
		}
		if (!evd->cq)
			break; /* it was destroyed meanwhile */
		n = evd_poll_locked(evd, wc, TP_POLL_MAX);
		for (unsigned i = 0; i < n; i++)
			evd_queue_completion_locked(evd, &wc[i], notified);
		if (n < TP_POLL_MAX)
			break;
	}
	return true;
}

/* evd_drain; *found says whether there was something to take. */
static bool drain(struct evd *evd, bool *found)
{
	bool notified = false, all;
	unsigned before;

	spin_lock(&evd->lock);
	before = evd->queue.count;
	all = evd_take_completions_relock(evd, &notified);
	*found = notified || evd->queue.count > before;
	if (notified)
		evd_notify_locked(evd);
	spin_unlock(&evd->lock);
	return all;
}

bool evd_drain(struct evd *evd)
{
	bool found;

	return drain(evd, &found);
}

bool evd_drain_found(struct evd *evd)
{
	bool found;

	(void)drain(evd, &found);
	return found;
}

/*
 * Returns whether there is room for the event of one request, which may be a slot that is kept for
 * flushes, but is none that was promised to others.
 */
static bool make_request_room_relock(struct evd *evd)
{
	assert_locked(&evd->lock);
	return evd->is_sink || evd_make_room_relock(evd, 1) ||
	       slots_free_locked(evd) > slots_promised_locked(evd);
}

/* Returns the endpoint whose completion it is. */
static const struct ep *completion_ep(const struct evd *evd, const struct tp_wc *wc)
{
	struct ring *ring;

	return completion_req(wc, &ring)->kind == REQ_SRQ_RECV ? tp_wc_ep(evd->cq, wc) : ring->ep;
}

/* Drops a completion of an endpoint whose QP is gone, or in error. */
static void drop_completion_locked(struct evd *evd, const struct tp_wc *wc)
{
	struct req *receive = completion_srq_slot(wc);
	const struct req *req = wc->tag;
	DAT_EVENT event;

	assert_locked(&evd->lock);
	if (receive)
		pool_return(pool_of(receive), receive);
	/* the window outlives the endpoint, and keeps what the bind did */
	if (req->kind == REQ_BIND)
		(void)completion_retire_bind_locked(evd, req, wc->status, &event);
}

/* Takes a completion without memory for its event. */
static void lose_completion_locked(struct evd *evd, const struct tp_wc *wc)
{
	DAT_EVENT event;

	assert_locked(&evd->lock);
	if (completion_take_locked(evd, wc, &event) && !evd->is_sink)
		log_error("EVD %p: out of memory, a completion is lost", (void *)evd);
}

/*
 * Gives back the slots of shared receives whose events are queued: the events of @ep, which is
 * being freed, stay for the consumer, who may free the queue next.
 */
static void free_receives_locked(struct evd *evd, const struct ep *ep)
{
	struct event_queue *queue = &evd->queue;

	assert_locked(&evd->lock);
	for (unsigned i = 0; i < queue->count; i++) {
		struct queued_event *queued = queue_slot(queue, i);
		DAT_EP_HANDLE of = queued->event.event_data.dto_completion_event_data.ep_handle;

		if (queued->receive && of == ep)
			receive_taken_locked(evd, queued);
	}
}

/*
 * There is room before a completion is taken: with one in hand the lock is not let go of, or
 * another thread would take a newer one first.
 */
void evd_purge_ep(struct evd *evd, const struct ep *ep)
{
	struct tp_wc wc;
	bool notified = false;

	spin_lock(&evd->lock);
	for (;;) {
		bool room = make_request_room_relock(evd);

		if (!evd_poll_locked(evd, &wc, 1))
			break;
		if (completion_ep(evd, &wc) == ep)
			drop_completion_locked(evd, &wc);
		else if (room)
			evd_queue_completion_locked(evd, &wc, &notified);
		else
			lose_completion_locked(evd, &wc);
	}
	if (evd->receives)
		free_receives_locked(evd, ep);
	if (notified)
		evd_notify_locked(evd);
	spin_unlock(&evd->lock);
}

/* ---- flushes ---- */

static DAT_EVENT flushed_event(struct evd *evd, const struct req *req)
{
	DAT_EVENT event;

	completion_describe_dto(evd, req, req->ring->ep, DAT_DTO_ERR_FLUSHED, 0, &event);
	if (completion_is_extended(req))
		completion_extend_request(req, &event);
	return event;
}

bool evd_flush(struct evd *evd, struct ring *ring)
{
	bool all = true, any = false;

	spin_lock(&evd->lock);
	while (all && ring_used(ring)) {
		const struct req *req;
		DAT_EVENT event;
		bool retired;

		all = make_request_room_relock(evd);
		if (!all || !ring_used(ring))
			break; /* another thread polled while the lock was released */
		req = ring_slot(ring, atomic_load(&ring->head));
		event = flushed_event(evd, req);
		retired = req->kind == REQ_BIND ? completion_retire_bind_locked(
							  evd, req, DAT_DTO_ERR_FLUSHED, &event)
						: ring_retire(ring, req);
		any |= retired;
		if (retired && !evd->is_sink)
			evd_push_locked(evd, &event, true);
	}
	if (any)
		evd_notify_locked(evd);
	spin_unlock(&evd->lock);
	return all;
}

bool evd_post_flushed(struct evd *evd, const struct req *req)
{
	DAT_EVENT event = flushed_event(evd, req);
	bool ok;

	if (req->kind == REQ_BIND)
		completion_describe_bind(evd, req->binding, req->cookie, DAT_DTO_ERR_FLUSHED,
					 &event);
	spin_lock(&evd->lock);
	ok = make_request_room_relock(evd);
	if (ok && !evd->is_sink)
		evd_push_locked(evd, &event, true);
	if (ok)
		evd_notify_locked(evd);
	spin_unlock(&evd->lock);
	return ok;
}

/* ---- connection events, and streams that qlen limits ---- */

int evd_reserve(struct evd *evd, unsigned n)
{
	bool ok;

	spin_lock(&evd->lock);
	ok = evd->destroyed || evd_make_room_relock(evd, n + (evd->cq ? TP_POLL_MAX : 1));
	if (ok)
		evd->reserved += n;
	spin_unlock(&evd->lock);
	return ok ? 0 : -ENOMEM;
}

void evd_unreserve(struct evd *evd, unsigned n)
{
	spin_lock(&evd->lock);
	debug_assert(evd->reserved >= n);
	evd->reserved -= n;
	spin_unlock(&evd->lock);
}

void evd_post_reserved(struct evd *evd, const DAT_EVENT *event)
{
	spin_lock(&evd->lock);
	debug_assert(evd->reserved > 0);
	evd->reserved--;
	if (likely(!evd->destroyed)) {
		evd_counts(evd, EVD_CONN_CALLBACK);
		evd_push_locked(evd, event, true);
		evd_notify_locked(evd);
	}
	spin_unlock(&evd->lock);
}

int evd_post_bounded(struct evd *evd, const DAT_EVENT *event)
{
	int err = 0;

	spin_lock(&evd->lock);
	if (evd->slow_path & EVD_CLOSING) {
		err = -ENOENT;
	} else if (evd->bounded >= (unsigned)evd->qlen) {
		err = -ENOSPC;
		if (is_async_error(event->event_number))
			evd->slow_path |= EVD_OVERFLOWED;
	} else {
		queue_push_locked(evd, event, true, true);
		evd_notify_locked(evd);
	}
	spin_unlock(&evd->lock);
	return err;
}

DAT_RETURN evd_post_se(DAT_EVD_HANDLE handle, const DAT_EVENT *event)
{
	struct evd *evd = handle;

	if (!obj_valid(NULL, evd, DAT_HANDLE_TYPE_EVD))
		return BAD_EVD;
	if (!(evd->flags & DAT_EVD_SOFTWARE_FLAG))
		return BAD_ARG(1);
	if (!event || event->event_number != DAT_SOFTWARE_EVENT)
		return BAD_ARG(2);
	return evd_post_bounded(evd, event) == 0 ? DAT_SUCCESS : DAT_ERROR(DAT_QUEUE_FULL, 0);
}

/* ---- length ---- */

/* Returns why the length can't become @qlen: what is queued must fit. Completions were taken. */
static DAT_RETURN qlen_judge_locked(const struct evd *evd, DAT_COUNT qlen)
{
	assert_locked(&evd->lock);
	if (qlen == evd->qlen)
		return DAT_SUCCESS;
	if (evd->slow_path & EVD_WAITER)
		return BAD_STATE(EVD_WAITER);
	if (qlen < evd->qlen && evd->queue.count > (unsigned)qlen)
		return DAT_ERROR(DAT_INVALID_STATE, 0);
	return DAT_SUCCESS;
}

/*
 * The queue has the slots before the new length says that they may be used: other threads post
 * while the lock is let go of. They may also begin a wait, so the length is judged twice.
 */
DAT_RETURN evd_set_qlen_locked(struct evd *evd, DAT_COUNT qlen)
{
	bool notified = false;
	DAT_RETURN ret;

	assert_locked(&evd->obj.ia->lock);
	spin_lock(&evd->lock);
	evd_take_completions_relock(evd, &notified);
	ret = qlen_judge_locked(evd, qlen);
	if (ret == DAT_SUCCESS && qlen > evd->qlen) {
		unsigned more = bounded_max(evd, qlen) - bounded_max(evd, evd->qlen);

		ret = evd_make_room_relock(evd, more + 1) ? qlen_judge_locked(evd, qlen)
							  : NO_RESOURCE(MEMORY);
	}
	if (ret == DAT_SUCCESS)
		evd->qlen = qlen;
	if (notified)
		evd_notify_locked(evd);
	spin_unlock(&evd->lock);
	return ret;
}
