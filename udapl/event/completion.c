/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completions that take the slow path: failures, binds, suppressed requests, markers, extensions.
 */
#include "completion.h"

#if DAT_EDITION == 2
#include <dat2/dat_ib_extensions.h>
#endif

void completion_describe_bind(struct evd *evd, const struct binding *binding, DAT_DTO_COOKIE cookie,
			      DAT_DTO_COMPLETION_STATUS status, DAT_EVENT *event)
{
	DAT_RMR_BIND_COMPLETION_EVENT_DATA *bind = &event->event_data.rmr_completion_event_data;
	bool failed = status != DAT_DTO_SUCCESS && status != DAT_DTO_ERR_FLUSHED;

	event->event_number = DAT_RMR_BIND_COMPLETION_EVENT;
	event->evd_handle = evd;
	bind->rmr_handle = binding->rmr;
	bind->user_cookie = cookie;
	bind->status = failed ? DAT_RMR_OPERATION_FAILED : status;
}

/*
 * The slot is read before it is retired, because from then on it may be in use again. The binding
 * exists as long as its bind is in the ring, because only the thread that retires the slot
 * completes it. So it is described between the two.
 */
bool completion_retire_bind_locked(struct evd *evd, const struct req *req,
				   DAT_DTO_COMPLETION_STATUS status, DAT_EVENT *event)
{
	struct binding *binding = req->binding;
	const DAT_DTO_COOKIE cookie = req->cookie;

	assert_locked(&evd->lock);
	if (!ring_retire(req->ring, req))
		return false;
	completion_describe_bind(evd, binding, cookie, status, event);
	if (rmr_bind_completed(binding, status))
		evd->slow_path |= EVD_RELEASE_DUE;
	return true;
}

/* @until may have been retired before. */
bool completion_is_behind_lost_read(const struct ring *ring, unsigned until)
{
	if (!ring->loses_reads)
		return false;
	for (unsigned at = atomic_load(&ring->head); (int)(until - at) > 0; at += RING_STEP)
		if (ring_slot(ring, at)->kind == REQ_READ)
			return true;
	return false;
}

/*
 * Returns whether @req, which was flushed, is behind a read that the device has lost; false if it
 * is not outstanding any more.
 */
static bool is_behind_lost_read(const struct ring *ring, const struct req *req)
{
	unsigned head = atomic_load(&ring->head), ahead = ring_ahead(ring, req, head);

	return ahead < atomic_load(&ring->tail) - head &&
	       completion_is_behind_lost_read(ring, head + ahead);
}

#if DAT_EDITION == 2
/* Makes the event of a transfer that of an extension. Returns what it has for that. */
static DAT_IB_EXTENSION_EVENT_DATA *event_extend(DAT_EVENT *event, int type)
{
	DAT_IB_EXTENSION_EVENT_DATA *extension =
		(DAT_IB_EXTENSION_EVENT_DATA *)&event->event_extension_data;

	event->event_number = (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT;
	extension->type = (DAT_IB_EXT_TYPE)type;
	extension->status = (DAT_IB_STATUS)event->event_data.dto_completion_event_data.status;
	return extension;
}

void completion_extend_request(const struct req *req, DAT_EVENT *event)
{
	static const uint8_t types[] = {
		[REQ_WRITE_IMMED] = DAT_IB_RDMA_WRITE_IMMED,
		[REQ_FETCH_ADD] = DAT_IB_FETCH_AND_ADD,
		[REQ_CMP_SWAP] = DAT_IB_CMP_AND_SWAP,
		[REQ_SEND_UD] = DAT_IB_UD_SEND,
	};

	(void)event_extend(event, types[req->kind]);
}

static void event_extend_receive(const struct tp_wc *wc, DAT_EVENT *event)
{
	const bool written = (int)wc->status == TP_WC_WRITE_IMMED;
	DAT_DTO_COMPLETION_EVENT_DATA *dto = &event->event_data.dto_completion_event_data;
	DAT_IB_EXTENSION_EVENT_DATA *extension;

	dto->operation = (DAT_DTOS)(written ? DAT_IB_DTO_RECV_IMMED : DAT_IB_DTO_RECV_MSG_IMMED);
	extension = event_extend(event,
				 written ? DAT_IB_RDMA_WRITE_IMMED_DATA : DAT_IB_RECV_IMMED_DATA);
	extension->val.immed.data = tp_wc_immed(wc);
}

/* Corrects the event of a receive that has brought more than bytes, and does what follows of it. */
static void complete_special_receive_locked(struct evd *evd, const struct tp_wc *wc,
					    DAT_EVENT *event)
{
	DAT_DTO_COMPLETION_EVENT_DATA *dto = &event->event_data.dto_completion_event_data;

	assert_locked(&evd->lock);
	dto->status = DAT_DTO_SUCCESS;
	if ((int)wc->status != TP_WC_INVALIDATED) {
		event_extend_receive(wc, event);
		return;
	}
	dto->operation = DAT_DTO_RECEIVE_WITH_INVALIDATE;
	dto->rmr_context = tp_wc_immed(wc);
	if (rmr_invalidated(evd->obj.ia, dto->rmr_context))
		evd->slow_path |= EVD_RELEASE_DUE;
}

/* Makes the event of a receive that of a datagram, whose length has the network's header in it. */
static void extend_datagram(const struct tp_wc *wc, DAT_EVENT *event)
{
	const bool has_immed = completion_status(wc) != wc->status;
	DAT_DTO_COMPLETION_EVENT_DATA *dto = &event->event_data.dto_completion_event_data;

	dto->operation = (DAT_DTOS)(has_immed ? DAT_IB_DTO_RECV_UD_IMMED : DAT_IB_DTO_RECV_UD);
	(void)event_extend(event, DAT_IB_UD_RECV);
}

static bool is_datagram(const struct evd *evd, const struct tp_wc *wc)
{
	return tp_wc_is_datagram(evd->cq, wc);
}
#else
static void complete_special_receive_locked(struct evd *evd, const struct tp_wc *wc,
					    DAT_EVENT *event)
{
	(void)evd, (void)wc, (void)event;
}

static void extend_datagram(const struct tp_wc *wc, DAT_EVENT *event)
{
	(void)wc, (void)event;
}

static bool is_datagram(const struct evd *evd, const struct tp_wc *wc)
{
	(void)evd, (void)wc;
	return false;
}
#endif

/* Corrects the event of a transfer that is no plain success. */
static void completion_correct_locked(struct evd *evd, const struct tp_wc *wc, DAT_EVENT *event)
{
	if (completion_status(wc) != wc->status)
		complete_special_receive_locked(evd, wc, event);
	else
		event->event_data.dto_completion_event_data.transfered_length = 0;
}

/* What the free of an endpoint flushes is for nobody. */
bool completion_take_srq_locked(struct evd *evd, const struct tp_wc *wc, DAT_EVENT *event)
{
	const struct req *req = wc->tag;
	struct ep *ep = tp_wc_ep(evd->cq, wc);

	assert_locked(&evd->lock);
	if (!ep || (completion_status(wc) && !obj_is(ep, DAT_HANDLE_TYPE_EP)))
		return false;
	completion_describe_dto(evd, req, ep, wc->status, completion_status(wc) ? 0 : wc->length,
				event);
	if (completion_status(wc) != wc->status)
		complete_special_receive_locked(evd, wc, event);
	if (!completion_status(wc) && is_datagram(evd, wc))
		extend_datagram(wc, event);
	completion_count(ep, true, wc);
	if (completion_status(wc) || evd->reporting_eps)
		ep_completion_seen(ep, req, completion_status(wc));
	return true;
}

COLD bool completion_take_slow_locked(struct evd *evd, const struct tp_wc *wc, DAT_EVENT *event)
{
	const struct req *req = wc->tag, copy = *req; /* once retired it may be in use again */
	struct ep *ep = copy.ring->ep;
	bool suppressed = copy.flags & DAT_COMPLETION_SUPPRESS_FLAG && !completion_status(wc),
	     retired;

	assert_locked(&evd->lock);
	if (copy.kind == REQ_SRQ_RECV) {
		bool described = completion_take_srq_locked(evd, wc, event);

		pool_return(pool_of(req), wc->tag);
		return described;
	}
	if (copy.kind == REQ_MARKER) {
		ep_completion_seen(ep, &copy, wc->status);
		return false;
	}
	if (wc->status == DAT_DTO_ERR_FLUSHED && is_behind_lost_read(copy.ring, req)) {
		ep_completion_seen(ep, &copy, wc->status);
		return false;
	}
	if (copy.kind == REQ_BIND) {
		retired = completion_retire_bind_locked(evd, req, wc->status, event);
	} else {
		completion_describe(evd, &copy, ep, wc, event);
		if (wc->status)
			completion_correct_locked(evd, wc, event);
		if (completion_is_extended(&copy))
			completion_extend_request(&copy, event);
		else if (ring_has_datagrams(copy.ring) && !completion_status(wc))
			extend_datagram(wc, event);
		retired = ring_retire(copy.ring, req);
	}
	if (!retired)
		return false;
	completion_count(ep, copy.kind == REQ_RECV, wc);
	if (completion_status(wc) ||
	    (!ring_has_datagrams(copy.ring) &&
	     atomic_load_explicit(&copy.ring->reports_all, memory_order_relaxed)))
		ep_completion_seen(ep, &copy, completion_status(wc));
	return !suppressed;
}
