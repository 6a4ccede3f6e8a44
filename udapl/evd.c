/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event dispatchers: the queue of events, the completion queue below it, and those who wait for either.
 *
 * Completions stay in the completion queue until somebody asks. Dequeue looks at the event queue first (what stands there
 * is older), then translates the next completion in place. The service thread moves completions over when a CNO, a
 * failure or the end of a connection makes it look; so does a wait that counts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "udapl.h"

#define CQ_RESERVE 64 /* entries of the device's largest queue that are ours: markers */
#define BATCH	   8  /* completions taken from the transport at once */

#define EVD_FLAGS_ALL                                                                                                  \
	(DAT_EVD_SOFTWARE_FLAG | DAT_EVD_CR_FLAG | DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG | DAT_EVD_RMR_BIND_FLAG | \
	 DAT_EVD_ASYNC_FLAG)
#define EVD_FLAGS_COMPLETION (DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG)
#define EVD_FLAGS_BOUNDED    (DAT_EVD_SOFTWARE_FLAG | DAT_EVD_CR_FLAG | DAT_EVD_ASYNC_FLAG)

DAT_COUNT evd_max_qlen(const struct ia *ia)
{
	return (DAT_COUNT)(ia->attr->max_cqe > CQ_RESERVE ? ia->attr->max_cqe - CQ_RESERVE : 1);
}

/* ---- the event queue -------------------------------------------------------------------------------------------------- */

/* Slots that are spoken for: the streams that qlen limits, connection events to come, the flush of every transfer. */
static unsigned reserved(const struct evd *evd)
{
	unsigned bounded_max = evd->flags & EVD_FLAGS_BOUNDED ? (unsigned)evd->qlen : 0;

	return evd->promised + evd->dto_depth + (bounded_max > evd->bounded ? bounded_max - evd->bounded : 0);
}

static unsigned room(const struct evd *evd)
{
	return evd->queue.size - evd->queue.count;
}

/* Makes room for @extra events beyond what is reserved. evd->lock held, but let go on the way: look again. */
static bool grow(struct evd *evd, unsigned extra)
{
	struct event_q *queue = &evd->queue;

	while (room(evd) < reserved(evd) + extra) {
		unsigned size = queue->size ? queue->size : 1, want = queue->count + reserved(evd) + extra;
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
	       (number >= DAT_ASYNC_ERROR_EVD_OVERFLOW && number <= DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR);
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
		.event_data.asynch_error_event_data = { .dat_handle = evd, .reason = DAT_EVD_OVERFLOW_ERROR },
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

/* ---- completions ------------------------------------------------------------------------------------------------------ */

/*
 * What a completion means: true if it is an event. Everything is read from the slot before it is retired, because from
 * then on its poster may use it again.
 */
static inline bool take(struct evd *evd, const struct tp_wc *wc, DAT_EVENT *event, bool *notify)
{
	const struct req *req = wc->tag;
	struct ring *ring = req->ring;
	struct ep *ep = ring->ep;
	DAT_DTO_COMPLETION_EVENT_DATA *dto = &event->event_data.dto_completion_event_data;
	bool odd = wc->status | atomic_load_explicit(&ep->watched, memory_order_relaxed);
	bool silent = req->suppressed && wc->status == DAT_DTO_SUCCESS;

	if (unlikely(odd) && req->kind == REQ_MARKER) {
		ep_notice(ep, req, wc->status);
		return false;
	}
	event->event_number = DAT_DTO_COMPLETION_EVENT;
	event->evd_handle = evd;
	dto->ep_handle = ep;
	dto->user_cookie = req->cookie;
	dto->status = wc->status;
	dto->transfered_length = req->kind == REQ_RECV ? wc->length : req->size;
	*notify = !req->unsignalled || wc->status;
	if (unlikely(!ring_retire(ring, req)))
		return false;
	if (unlikely(odd)) {
		if (wc->status)
			dto->transfered_length = 0;
		ep_notice(ep, req, wc->status);
	}
	return !silent;
}

/* Moves all completions into the queue. *notified: one of them ends a wait. False: no memory, some stayed behind. */
static bool drain_locked(struct evd *evd, bool *notified)
{
	struct tp_wc wc[BATCH];
	DAT_EVENT event;

	if (!evd->cq)
		return true;
	for (;;) {
		unsigned n = BATCH;

		if (!grow(evd, BATCH))
			return false;
		n = tp_cq_poll(evd->cq, wc, n);
		for (unsigned i = 0; i < n; i++) {
			bool notify;

			if (take(evd, &wc[i], &event, &notify) && !evd->is_sink) {
				push(evd, &event, notify);
				*notified |= notify;
			}
		}
		if (n < BATCH)
			return true;
	}
}

/* ---- telling those who wait ----------------------------------------------------------------------------------------- */

static void wake_waiter(struct evd *evd)
{
	uint64_t one = 1;

	(void)!write(evd->wake, &one, sizeof(one));
}

/* A notification event has arrived, and its receiver is another thread. */
static void notify_locked(struct evd *evd)
{
	if (evd->waiting) {
		if (evd->queue.count >= (unsigned)evd->threshold) {
			evd->fired = true;
			wake_waiter(evd);
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

static void arm(struct evd *evd, bool waiting)
{
	enum tp_arm mode;

	if (!evd->cq)
		return;
	spin_lock(&evd->lock);
	mode = arm_mode_locked(evd, waiting);
	spin_unlock(&evd->lock);
	(void)tp_cq_arm(evd->cq, mode);
}

void evd_rearm(struct evd *evd)
{
	bool waiting;

	spin_lock(&evd->lock);
	waiting = evd->waiting;
	spin_unlock(&evd->lock);
	arm(evd, waiting);
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

/* ---- events from the core ------------------------------------------------------------------------------------------- */

int evd_promise(struct evd *evd, unsigned n)
{
	bool ok;

	spin_lock(&evd->lock);
	ok = grow(evd, n);
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
	if (evd->dying) {
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

static bool push_flushed(struct evd *evd, struct ep *ep, DAT_DTO_COOKIE cookie)
{
	DAT_EVENT event = {
		.event_number = DAT_DTO_COMPLETION_EVENT,
		.event_data.dto_completion_event_data = {
			.ep_handle = ep, .user_cookie = cookie, .status = DAT_DTO_ERR_FLUSHED },
	};

	if (evd->is_sink)
		return true;
	if (!grow(evd, 1) && room(evd) <= evd->promised)
		return false; /* not even what was kept for flushes */
	push(evd, &event, true);
	return true;
}

bool evd_flush(struct evd *evd, struct ring *ring)
{
	bool all = true, any = false;

	spin_lock(&evd->lock);
	while (all && ring_used(ring)) {
		const struct req *req = &ring->slots[atomic_load(&ring->head) & ring->mask];

		all = push_flushed(evd, ring->ep, req->cookie);
		any |= all && ring_retire(ring, req);
	}
	if (any)
		notify_locked(evd);
	spin_unlock(&evd->lock);
	return all;
}

bool evd_post_flushed(struct evd *evd, struct ep *ep, DAT_DTO_COOKIE cookie)
{
	bool ok;

	spin_lock(&evd->lock);
	ok = push_flushed(evd, ep, cookie);
	if (ok)
		notify_locked(evd);
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
		bool notify;

		if (((const struct req *)wc.tag)->ring->ep == ep || !take(evd, &wc, &event, &notify) || evd->is_sink)
			continue;
		if (!grow(evd, 1) && !room(evd)) {
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

/* ---- roles of endpoints ----------------------------------------------------------------------------------------------- */

static unsigned config_of(DAT_COMPLETION_FLAGS flags)
{
	if (flags & DAT_COMPLETION_UNSIGNALLED_FLAG)
		return DAT_EVD_STATE_CONFIG_NOTIFY;
	if (flags & DAT_COMPLETION_SOLICITED_WAIT_FLAG)
		return DAT_EVD_STATE_CONFIG_SOLICITED;
	return DAT_EVD_STATE_CONFIG_THRESHOLD;
}

static unsigned role_config(enum evd_role role, const DAT_EP_ATTR *attr)
{
	switch (role) {
	case EVD_ROLE_RECV:
		return config_of(attr->recv_completion_flags);
	case EVD_ROLE_REQUEST:
		return config_of(attr->request_completion_flags);
	default:
		return DAT_EVD_STATE_CONFIG_THRESHOLD;
	}
}

static unsigned role_depth(enum evd_role role, const DAT_EP_ATTR *attr)
{
	switch (role) {
	case EVD_ROLE_RECV:
		return (unsigned)attr->max_recv_dtos + RING_SLACK;
	case EVD_ROLE_REQUEST:
		return (unsigned)attr->max_request_dtos + RING_SLACK;
	default:
		return 0;
	}
}

/* The first attachment decides how an EVD notifies; later ones must agree. Requests know no solicited mode. */
static bool config_clashes(const struct evd *evd, enum evd_role role, unsigned config)
{
	if (evd->is_sink)
		return false;
	if (config == DAT_EVD_STATE_CONFIG_SOLICITED && role != EVD_ROLE_RECV)
		return true;
	return evd->config && evd->config != config;
}

/* Completions of one endpoint and direction are at most its depth, so a queue as deep as the sum can't overrun. */
static DAT_RETURN cq_make_room(struct evd *evd, unsigned depth)
{
	unsigned want = evd->dto_depth + depth, now = tp_cq_depth(evd->cq);

	if (want <= now)
		return DAT_SUCCESS;
	if (!(evd->obj.ia->attr->caps & TP_CAP_CQ_RESIZE))
		return NO_RESOURCE(TEVD);
	/* In steps that double: each resize costs a system call and a copy. */
	if (want < 2 * now && 2 * now <= evd->obj.ia->attr->max_cqe)
		want = 2 * now;
	return status_of(tp_cq_resize(evd->cq, want), DAT_RESOURCE_TEVD);
}

DAT_RETURN evd_attach(struct evd *evd, enum evd_role role, const DAT_EP_ATTR *attr, DAT_RETURN clash)
{
	unsigned config = role_config(role, attr), depth = role_depth(role, attr);
	DAT_RETURN ret;
	bool ok;

	if (config_clashes(evd, role, config))
		return clash;
	if (!evd->is_sink && !obj_hold(evd->obj.ia, evd, DAT_HANDLE_TYPE_EVD))
		return DAT_ERROR(DAT_INTERNAL_ERROR, 0);
	if (depth) {
		ret = cq_make_room(evd, depth);
		if (ret != DAT_SUCCESS)
			goto put;
	}
	spin_lock(&evd->lock);
	ok = grow(evd, depth);
	if (ok) {
		evd->dto_depth += depth;
		evd->config = config;
		evd->roles[role]++;
	}
	spin_unlock(&evd->lock);
	if (ok)
		return DAT_SUCCESS;
	ret = NO_RESOURCE(MEMORY);
put:
	if (!evd->is_sink)
		obj_put(&evd->obj);
	return ret;
}

void evd_detach(struct evd *evd, enum evd_role role, const DAT_EP_ATTR *attr)
{
	spin_lock(&evd->lock);
	evd->dto_depth -= role_depth(role, attr);
	evd->roles[role]--;
	if (!evd->roles[EVD_ROLE_RECV] && !evd->roles[EVD_ROLE_REQUEST] && !evd->roles[EVD_ROLE_CONNECT])
		evd->config = 0;
	spin_unlock(&evd->lock);
	if (!evd->is_sink)
		obj_put(&evd->obj);
}

/* ---- create and free ------------------------------------------------------------------------------------------------- */

static DAT_RETURN cq_make(struct evd *evd)
{
	struct ia *ia = evd->obj.ia;
	DAT_RETURN ret;

	ret = status_of(tp_cq_create(ia->dev, (unsigned)evd->qlen, evd, &evd->cq), DAT_RESOURCE_TEVD);
	if (ret != DAT_SUCCESS)
		return ret;
	ret = status_of(service_watch(ia, evd), DAT_RESOURCE_TEVD);
	if (ret != DAT_SUCCESS) {
		tp_cq_destroy(evd->cq);
		evd->cq = NULL;
		return ret;
	}
	evd_rearm(evd);
	return DAT_SUCCESS;
}

static DAT_RETURN make(struct ia *ia, DAT_COUNT qlen, struct cno *cno, DAT_EVD_FLAGS flags, bool is_sink,
		       struct evd **out)
{
	struct evd *evd = obj_alloc(ia, &ia->provider->table, DAT_HANDLE_TYPE_EVD);
	DAT_RETURN ret;

	if (!evd)
		return NO_RESOURCE(MEMORY);
	evd->flags = flags;
	evd->is_sink = is_sink;
	evd->qlen = qlen;
	evd->enabled = true;
	evd->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (evd->wake < 0) {
		ret = status_of(-errno, DAT_RESOURCE_TEVD);
		goto discard;
	}
	spin_lock(&evd->lock);
	ret = grow(evd, 1) ? DAT_SUCCESS : NO_RESOURCE(MEMORY);
	spin_unlock(&evd->lock);
	if (ret != DAT_SUCCESS)
		goto close_wake;
	if (flags & EVD_FLAGS_COMPLETION) {
		ret = cq_make(evd);
		if (ret != DAT_SUCCESS)
			goto free_queue;
	}
	if (cno) {
		evd->cno = cno;
		cno_attach(cno);
		evd_rearm(evd);
	}
	*out = evd;
	return DAT_SUCCESS;
free_queue:
	free(evd->queue.slots);
close_wake:
	close(evd->wake);
discard:
	obj_discard(&evd->obj);
	return ret;
}

DAT_RETURN evd_make(struct ia *ia, DAT_COUNT qlen, struct cno *cno, DAT_EVD_FLAGS flags, struct evd **out)
{
	return make(ia, qlen, cno, flags, false, out);
}

DAT_RETURN evd_sink(struct ia *ia, struct evd **out)
{
	DAT_RETURN ret = DAT_SUCCESS;

	if (!ia->sink)
		ret = make(ia, 1, NULL, EVD_FLAGS_COMPLETION, true, &ia->sink);
	if (ret == DAT_SUCCESS)
		*out = ia->sink;
	return ret;
}

void evd_unmake(struct evd *evd)
{
	if (evd->cno)
		cno_detach(evd->cno, evd, true);
	evd->cno = NULL;
	if (evd->cq) {
		service_unwatch(evd->obj.ia, evd);
		tp_cq_destroy(evd->cq);
		evd->cq = NULL; /* the service thread may still have its name */
	}
	close(evd->wake);
	free(evd->queue.slots);
	obj_discard(&evd->obj);
}

DAT_RETURN evd_create(DAT_IA_HANDLE ia_handle, DAT_COUNT qlen, DAT_CNO_HANDLE cno, DAT_EVD_FLAGS flags,
		      DAT_EVD_HANDLE *out)
{
	struct ia *ia = ia_handle;
	struct evd *evd;
	DAT_RETURN ret;

	if (!obj_valid(NULL, ia, DAT_HANDLE_TYPE_IA))
		return BAD_HANDLE(IA);
	if (cno && !obj_valid(ia, cno, DAT_HANDLE_TYPE_CNO))
		return BAD_HANDLE(CNO);
	if (!out)
		return BAD_ARG(5);
	if (qlen <= 0)
		return BAD_ARG(2);
	if (!flags || flags & ~(unsigned)EVD_FLAGS_ALL)
		return BAD_ARG(4);
	if (qlen > evd_max_qlen(ia))
		return NO_RESOURCE(TEVD);
	pthread_mutex_lock(&ia->lock);
	ret = evd_make(ia, qlen, cno, flags, &evd);
	if (ret == DAT_SUCCESS)
		*out = obj_publish(&evd->obj);
	pthread_mutex_unlock(&ia->lock);
	return ret;
}

DAT_RETURN evd_free(DAT_EVD_HANDLE handle)
{
	struct evd *evd = handle;
	DAT_RETURN ret = DAT_SUCCESS;
	struct ia *ia;
	bool waiting;

	if (!obj_valid(NULL, evd, DAT_HANDLE_TYPE_EVD))
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
	ia = evd->obj.ia;
	pthread_mutex_lock(&ia->lock);
	spin_lock(&evd->lock);
	waiting = evd->waiting;
	spin_unlock(&evd->lock);
	if (waiting)
		ret = BAD_STATE(EVD_WAITER);
	else if (evd == ia->async_evd || !obj_retire(&evd->obj))
		ret = BAD_STATE(EVD_IN_USE);
	else
		evd_unmake(evd);
	pthread_mutex_unlock(&ia->lock);
	return ret;
}

void evd_kill(struct evd *evd)
{
	struct ia *ia = evd->obj.ia;

	spin_lock(&evd->lock);
	evd->dying = true;
	if (evd->waiting)
		wake_waiter(evd);
	while (evd->waiting) {
		spin_unlock(&evd->lock);
		pthread_cond_wait(&ia->left, &ia->lock);
		spin_lock(&evd->lock);
	}
	spin_unlock(&evd->lock);
}

/* ---- query and modify ------------------------------------------------------------------------------------------------- */

DAT_RETURN evd_query(DAT_EVD_HANDLE handle, DAT_EVD_PARAM_MASK mask, DAT_EVD_PARAM *param)
{
	struct evd *evd = handle;

	if (!obj_valid(NULL, evd, DAT_HANDLE_TYPE_EVD))
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
	if (!param)
		return BAD_ARG(3);
	if (mask & ~(unsigned)DAT_EVD_FIELD_ALL)
		return BAD_ARG(2);
	spin_lock(&evd->lock);
	*param = (DAT_EVD_PARAM){
		.ia_handle = evd->obj.ia,
		.evd_qlen = evd->qlen,
		.evd_state = (evd->enabled ? DAT_EVD_STATE_ENABLED : DAT_EVD_STATE_DISABLED) |
			     (evd->unwaitable ? DAT_EVD_STATE_UNWAITABLE : DAT_EVD_STATE_WAITABLE) |
			     (evd->config ? evd->config : (unsigned)DAT_EVD_STATE_CONFIG_THRESHOLD),
		.cno_handle = evd->cno,
		.evd_flags = evd->flags,
	};
	spin_unlock(&evd->lock);
	return DAT_SUCCESS;
}

/* Events that came while nobody was told of them: the CNO hears once. */
static void trigger_for_backlog(struct evd *evd)
{
	bool notified = false;

	evd_rearm(evd);
	spin_lock(&evd->lock);
	if (evd->cno && evd->enabled)
		drain_locked(evd, &notified);
	if (!evd->waiting && evd->notifying)
		notify_locked(evd);
	spin_unlock(&evd->lock);
}

DAT_RETURN evd_modify_cno(DAT_EVD_HANDLE handle, DAT_CNO_HANDLE cno)
{
	struct evd *evd = handle;
	struct ia *ia;
	struct cno *before;

	if (!obj_valid(NULL, evd, DAT_HANDLE_TYPE_EVD))
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
	ia = evd->obj.ia;
	if (cno && !obj_valid(ia, cno, DAT_HANDLE_TYPE_CNO))
		return BAD_HANDLE(CNO);
	pthread_mutex_lock(&ia->lock);
	if (cno)
		cno_attach(cno);
	spin_lock(&evd->lock);
	before = evd->cno;
	evd->cno = cno;
	spin_unlock(&evd->lock);
	if (before)
		cno_detach(before, evd, false);
	if (cno != before)
		trigger_for_backlog(evd);
	pthread_mutex_unlock(&ia->lock);
	return DAT_SUCCESS;
}

DAT_RETURN evd_enable(DAT_EVD_HANDLE handle)
{
	struct evd *evd = handle;
	bool before;

	if (!obj_valid(NULL, evd, DAT_HANDLE_TYPE_EVD))
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
	spin_lock(&evd->lock);
	before = evd->enabled;
	evd->enabled = true;
	spin_unlock(&evd->lock);
	if (!before)
		trigger_for_backlog(evd);
	return DAT_SUCCESS;
}

DAT_RETURN evd_disable(DAT_EVD_HANDLE handle)
{
	struct evd *evd = handle;

	if (!obj_valid(NULL, evd, DAT_HANDLE_TYPE_EVD))
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
	spin_lock(&evd->lock);
	evd->enabled = false;
	spin_unlock(&evd->lock);
	return DAT_SUCCESS;
}

DAT_RETURN evd_set_unwaitable(DAT_EVD_HANDLE handle)
{
	struct evd *evd = handle;

	if (!obj_valid(NULL, evd, DAT_HANDLE_TYPE_EVD))
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
	spin_lock(&evd->lock);
	evd->unwaitable = true;
	if (evd->waiting)
		wake_waiter(evd);
	spin_unlock(&evd->lock);
	return DAT_SUCCESS;
}

DAT_RETURN evd_clear_unwaitable(DAT_EVD_HANDLE handle)
{
	struct evd *evd = handle;

	if (!obj_valid(NULL, evd, DAT_HANDLE_TYPE_EVD))
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
	spin_lock(&evd->lock);
	evd->unwaitable = false;
	spin_unlock(&evd->lock);
	return DAT_SUCCESS;
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

/* ---- taking events: the hot path ------------------------------------------------------------------------------------- */

static __attribute__((noinline)) DAT_RETURN dequeue_queued_locked(struct evd *evd, DAT_EVENT *event)
{
	if (evd->waiting)
		return BAD_STATE(EVD_WAITER);
	pop(evd, event);
	return DAT_SUCCESS;
}

DAT_RETURN evd_dequeue(DAT_EVD_HANDLE handle, DAT_EVENT *event)
{
	struct evd *evd = handle;
	DAT_RETURN ret = DAT_QUEUE_EMPTY; /* an answer, not an error: no class bit */
	struct tp_wc wc;
	bool notify;

	if (unlikely(!obj_is(evd, DAT_HANDLE_TYPE_EVD)))
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
	if (unlikely(!event))
		return BAD_ARG(2);
	spin_lock(&evd->lock);
	if (unlikely(evd->queue.count | evd->waiting))
		ret = dequeue_queued_locked(evd, event);
	else if (evd->cq)
		while (tp_cq_poll(evd->cq, &wc, 1))
			if (likely(take(evd, &wc, event, &notify))) {
				ret = DAT_SUCCESS;
				break;
			}
	spin_unlock(&evd->lock);
	return ret;
}

/* The consumer's event plus what is left, when there is enough. evd->lock held. */
static DAT_RETURN wait_result_locked(struct evd *evd, DAT_RETURN ret, DAT_EVENT *event, DAT_COUNT *nmore)
{
	if (ret == DAT_SUCCESS)
		pop(evd, event);
	*nmore = (DAT_COUNT)evd->queue.count;
	return ret;
}

/* Why the sleep is over: DAT_SUCCESS for events; or DAT_TIMEOUT_EXPIRED: it is not. */
static DAT_RETURN wait_look(struct evd *evd)
{
	DAT_RETURN ret = DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0);
	bool notified = false;

	spin_lock(&evd->lock);
	drain_locked(evd, &notified);
	evd->fired |= notified && evd->queue.count >= (unsigned)evd->threshold;
	if (evd->dying)
		ret = DAT_ERROR(DAT_ABORT, 0);
	else if (evd->unwaitable)
		ret = BAD_STATE(EVD_UNWAITABLE);
	else if (evd->fired)
		ret = DAT_SUCCESS;
	spin_unlock(&evd->lock);
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
		uint64_t count;
		int ready;

		arm(evd, true);
		ret = wait_look(evd);
		if (ret != DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0))
			return ret;
		ready = tp_poll(fds, evd->cq ? 2 : 1, deadline);
		if (ready == 0)
			return wait_look(evd);
		if (ready < 0)
			return ready == -EINTR ? DAT_ERROR(DAT_INTERRUPTED_CALL, 0) : status_of(ready, DAT_NO_SUBTYPE);
		if (fds[0].revents)
			(void)!read(evd->wake, &count, sizeof(count));
		if (evd->cq && fds[1].revents)
			tp_cq_events(evd->cq);
	}
}

/*
 * Gives the EVD back. An abrupt close waits for us under ia->lock and takes everything down as soon as we are gone, so
 * then our leaving is the last thing that we touch.
 */
static DAT_RETURN wait_leave(struct evd *evd, DAT_RETURN ret, DAT_EVENT *event, DAT_COUNT *nmore)
{
	struct ia *ia = evd->obj.ia;
	uint64_t count;

	if (evd->cq) {
		service_take_back(ia, evd);
		arm(evd, false);
	}
	(void)!read(evd->wake, &count, sizeof(count));
	spin_lock(&evd->lock);
	if (likely(!evd->dying)) {
		ret = wait_result_locked(evd, ret, event, nmore);
		evd->waiting = false;
		spin_unlock(&evd->lock);
		return ret;
	}
	spin_unlock(&evd->lock);
	pthread_mutex_lock(&ia->lock);
	spin_lock(&evd->lock);
	*nmore = (DAT_COUNT)evd->queue.count;
	evd->waiting = false;
	spin_unlock(&evd->lock);
	pthread_cond_broadcast(&ia->left);
	pthread_mutex_unlock(&ia->lock);
	return DAT_ERROR(DAT_ABORT, 0);
}

/* May this wait begin? evd->lock held. */
static DAT_RETURN wait_refused_locked(const struct evd *evd, DAT_COUNT threshold)
{
	if (threshold <= 0 || threshold > evd->qlen)
		return BAD_ARG(3);
	if (evd->waiting)
		return BAD_STATE(EVD_WAITER);
	if (evd->dying)
		return DAT_ERROR(DAT_ABORT, 0);
	if (evd->unwaitable)
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

DAT_RETURN evd_wait(DAT_EVD_HANDLE handle, DAT_TIMEOUT timeout, DAT_COUNT threshold, DAT_EVENT *event, DAT_COUNT *nmore)
{
	struct evd *evd = handle;
	bool notified = false;
	DAT_RETURN ret;

	if (unlikely(!obj_is(evd, DAT_HANDLE_TYPE_EVD)))
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
	if (unlikely(!event))
		return BAD_ARG(4);
	if (unlikely(!nmore))
		return BAD_ARG(5);
	spin_lock(&evd->lock);
	ret = wait_refused_locked(evd, threshold);
	if (unlikely(ret != DAT_SUCCESS)) {
		spin_unlock(&evd->lock);
		return ret;
	}
	drain_locked(evd, &notified);
	if (evd->queue.count >= (unsigned)threshold || timeout == 0) {
		ret = evd->queue.count >= (unsigned)threshold ? DAT_SUCCESS : DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0);
		ret = wait_result_locked(evd, ret, event, nmore);
		spin_unlock(&evd->lock);
		return ret;
	}
	evd->waiting = true;
	evd->fired = false;
	evd->threshold = threshold;
	spin_unlock(&evd->lock);
	if (evd->cq)
		service_lend(evd->obj.ia, evd);
	ret = wait_sleep(evd, deadline_of(timeout));
	return wait_leave(evd, ret, event, nmore);
}
