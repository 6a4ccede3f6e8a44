/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From a completion of the transport to an event of the consumer: inline, because dequeue and wait
 * are made of it. evd->lock is held throughout.
 */
#ifndef UDAPL_COMPLETION_H
#define UDAPL_COMPLETION_H

#include "event.h"

/* ---- completion.c ---- */

/*
 * Takes a completion of any kind: retires its slot, tells its endpoint what that has to know, and
 * describes it. Returns whether it is an event.
 */
bool completion_take_slow_locked(struct evd *evd, const struct tp_wc *wc, DAT_EVENT *event);
/* Describes the event of a bind with this cookie that ended with @status. No lock is needed. */
void completion_describe_bind(struct evd *evd, const struct binding *binding, DAT_DTO_COOKIE cookie,
			      DAT_DTO_COMPLETION_STATUS status, DAT_EVENT *event);
/*
 * Retires the slot of a bind, describes it and completes its binding. Returns false, and does
 * nothing, if the slot was retired before.
 */
bool completion_retire_bind_locked(struct evd *evd, const struct req *req,
				   DAT_DTO_COMPLETION_STATUS status, DAT_EVENT *event);
/*
 * Describes any receive of a shared receive queue, whose slot the caller has to give back. Returns
 * false if it is no event, because its endpoint is gone.
 */
bool completion_take_srq_locked(struct evd *evd, const struct tp_wc *wc, DAT_EVENT *event);
/*
 * Makes the event of a request of an extension, which was described, that of the extension. For the
 * edition that has extensions.
 */
#if DAT_EDITION == 2
void completion_extend_request(const struct req *req, DAT_EVENT *event);
#else
static inline void completion_extend_request(const struct req *req, DAT_EVENT *event)
{
	(void)req, (void)event;
}
#endif

/* ---- inline ---- */

/*
 * Returns the request that completed; *ring is its ring. In terms of the C memory model a device
 * that completes what was posted orders nothing: the acquire load pairs with the poster's store of
 * the tail. What is read before it is fixed, and is not read again.
 */
static ALWAYS_INLINE const struct req *completion_req(const struct tp_wc *wc, struct ring **ring)
{
	const struct req *req = wc->tag;

	*ring = req->ring;
	(void)atomic_load_explicit(&(*ring)->tail, memory_order_acquire);
	return req;
}

/* Returns the slot of a receive of a shared receive queue; NULL of any other completion. */
static inline struct req *completion_srq_slot(const struct tp_wc *wc)
{
	struct ring *ring;

	return completion_req(wc, &ring)->kind == REQ_SRQ_RECV ? wc->tag : NULL;
}

/* Returns the status of the transfer: a receive that has brought more than bytes has not failed. */
static ALWAYS_INLINE DAT_DTO_COMPLETION_STATUS completion_status(const struct tp_wc *wc)
{
	if (DAT_EDITION == 2 && (unsigned)wc->status >= TP_WC_SPECIAL)
		return DAT_DTO_SUCCESS;
	return wc->status;
}

/* Has a receive counted, in builds that do. Its slot was retired, so it is counted once. */
static ALWAYS_INLINE void completion_count(struct ep *ep, bool receive, const struct tp_wc *wc)
{
	if (COUNTS_FAST_PATH && receive && !completion_status(wc))
		ep_count_receive(ep, wc);
}

/* Says whether it is a request of an extension, whose event is one of that. */
static ALWAYS_INLINE bool completion_is_extended(const struct req *req)
{
	return DAT_EDITION == 2 && req->kind >= REQ_EXTENDED;
}

/*
 * Returns 0 of a transfer that has succeeded and is an event: it is plain. REQ_SLOW_PATH of a bind,
 * a shared receive, or a request of an extension that has. Anything else if it failed, is
 * suppressed, or its ring reports all.
 */
static ALWAYS_INLINE unsigned completion_slowness(const struct req *req, const struct ring *ring,
						  const struct tp_wc *wc)
{
	return wc->status | (req->flags & (DAT_COMPLETION_SUPPRESS_FLAG | REQ_SLOW_PATH)) |
	       atomic_load_explicit(&ring->reports_all, memory_order_relaxed);
}

#if DAT_EDITION == 2
_Static_assert(REQ_SEND == (int)DAT_DTO_SEND && REQ_WRITE == (int)DAT_DTO_RDMA_WRITE &&
		       REQ_READ == (int)DAT_DTO_RDMA_READ && REQ_RECV == (int)DAT_DTO_RECEIVE,
	       "the kind of a request tells its operation");
#endif

typedef __typeof__(((DAT_DTO_COMPLETION_EVENT_DATA *)0)->transfered_length) dto_length;

/* Says what completed, in the edition whose completions tell that. */
static ALWAYS_INLINE void completion_describe_operation(const struct req *req,
							DAT_DTO_COMPLETION_EVENT_DATA *dto)
{
#if DAT_EDITION == 2
	dto->operation = req->kind == REQ_SRQ_RECV ? DAT_DTO_RECEIVE : (DAT_DTOS)req->kind;
	dto->rmr_context = 0; /* none of ours was invalidated */
#else
	(void)req;
	(void)dto;
#endif
}

/*
 * The event of a transfer of @length bytes. Of a receive of a shared receive queue, @ep is the
 * endpoint that took it.
 */
static ALWAYS_INLINE void completion_describe_dto(struct evd *evd, const struct req *req,
						  struct ep *ep, DAT_DTO_COMPLETION_STATUS status,
						  DAT_VLEN length, DAT_EVENT *event)
{
	DAT_DTO_COMPLETION_EVENT_DATA *dto = &event->event_data.dto_completion_event_data;

	event->event_number = DAT_DTO_COMPLETION_EVENT;
	event->evd_handle = evd;
	dto->ep_handle = ep;
	dto->user_cookie = req->cookie;
	dto->status = status;
	dto->transfered_length = (dto_length)length;
	completion_describe_operation(req, dto);
}

/* The same of a transfer of an endpoint's own queues. */
static ALWAYS_INLINE void completion_describe(struct evd *evd, const struct req *req, struct ep *ep,
					      const struct tp_wc *wc, DAT_EVENT *event)
{
	completion_describe_dto(evd, req, ep, wc->status,
				req->kind == REQ_RECV ? wc->length : req->size, event);
}

/*
 * Describes a bind, or a request of an extension, that has succeeded and is an event, and retires
 * its slot. Returns false as the next function does.
 */
static ALWAYS_INLINE bool completion_retire_special_locked(struct evd *evd, const struct req *req,
							   const struct tp_wc *wc, DAT_EVENT *event)
{
	assert_locked(&evd->lock);
	if (completion_is_extended(req)) {
		completion_describe(evd, req, req->ring->ep, wc, event);
		completion_extend_request(req, event);
		return ring_retire(req->ring, req);
	}
	return req->kind == REQ_BIND &&
	       completion_retire_bind_locked(evd, req, DAT_DTO_SUCCESS, event);
}

/*
 * Describes a plain completion, that is a transfer of an endpoint's own queues that has succeeded,
 * and retires its slot. Returns false if it is not plain, or its slot was retired before; then
 * completion_take_slow_locked does the rest. The slot is read before it is retired, because from
 * then on its poster may use it again.
 */
static ALWAYS_INLINE bool completion_take_plain_locked(struct evd *evd, const struct tp_wc *wc,
						       DAT_EVENT *event)
{
	struct ring *ring;
	const struct req *req = completion_req(wc, &ring);
	struct ep *ep = ring->ep;
	const bool receive = req->kind == REQ_RECV;

	assert_locked(&evd->lock);
	if (unlikely(completion_slowness(req, ring, wc)))
		return false;
	completion_describe(evd, req, ep, wc, event);
	if (unlikely(!ring_retire(ring, req)))
		return false;
	completion_count(ep, receive, wc);
	return true;
}

/* Retires the slot of any completion, and describes it. Returns whether it is an event. */
static ALWAYS_INLINE bool completion_take_locked(struct evd *evd, const struct tp_wc *wc,
						 DAT_EVENT *event)
{
	assert_locked(&evd->lock);
	return completion_take_plain_locked(evd, wc, event) ||
	       completion_take_slow_locked(evd, wc, event);
}

/*
 * Returns whether a completion that was not taken yet ends a wait: those with UNSIGNALLED don't in
 * notify mode.
 */
static inline bool completion_notifies(const struct evd *evd, const struct tp_wc *wc)
{
	struct ring *ring;

	return completion_status(wc) || evd->config != DAT_EVD_STATE_CONFIG_NOTIFY ||
	       !(completion_req(wc, &ring)->flags & DAT_COMPLETION_UNSIGNALLED_FLAG);
}

#endif
