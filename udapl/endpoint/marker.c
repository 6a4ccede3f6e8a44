/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Markers: a request of ours, signalled, behind unsignalled requests of the consumer. Its
 * completion proves that those have completed.
 */
#include "ep.h"

/*
 * Says whether the device reports no success of the request. A bind is signalled, suppressed or
 * not.
 */
static bool is_unsignalled(const struct req *req)
{
	return (req->flags & (DAT_COMPLETION_SUPPRESS_FLAG | REQ_SLOW_PATH)) ==
	       DAT_COMPLETION_SUPPRESS_FLAG;
}

/*
 * The marker has no slot in the ring, because slots belong to the poster, which may be in the
 * middle of a post right now, unless send_lock keeps it out.
 */
void ep_post_marker_locked(struct ep *ep)
{
	struct ep_marker *marker = &ep->marker;
	struct ring *sends = &ep->sends;
	unsigned tail;

	assert_locked(&ep->obj.ia->lock);
	if (ep->signal_all)
		return;
	if (ep->thread_safe)
		spin_lock(&ep->send_lock);
	spin_lock(&ep->request_evd->lock);
	tail = atomic_load(&sends->tail);
	if (!marker->posted && !sends->kept_back && tail != atomic_load(&sends->head) &&
	    is_unsignalled(ring_slot(sends, tail - RING_STEP))) {
		marker->covers = tail;
		marker->posted = tp_post_marker(ep->qp, &marker->req) == 0;
		marker->uncertain = marker->posted && !ep->thread_safe;
	}
	spin_unlock(&ep->request_evd->lock);
	if (ep->thread_safe)
		spin_unlock(&ep->send_lock);
}

void ep_marker_completed_locked(struct ep *ep, DAT_DTO_COMPLETION_STATUS status)
{
	struct ep_marker *marker = &ep->marker;
	struct ring *sends = &ep->sends;

	assert_locked(&ep->request_evd->lock);
	marker->posted = false;
	if (status != DAT_DTO_SUCCESS && completion_is_behind_lost_read(sends, marker->covers)) {
		marker->uncertain = false;
		return;
	}
	if ((int)(marker->covers - atomic_load(&sends->head)) > 0)
		atomic_store(&sends->head, marker->covers);
	else
		marker->uncertain = false; /* they had completions of their own */
}

void ep_marker_race(struct ep *ep, const struct ring *ring)
{
	struct ep_marker *marker = &ep->marker;
	unsigned tail = atomic_load(&ep->sends.tail);

	if (ring != &ep->sends || !marker->uncertain || marker->covers != tail)
		return;
	assert_locked(&ep->request_evd->lock);
	marker->uncertain = false;
	marker->covers -= RING_STEP;
	if (!marker->posted)
		atomic_store(&ep->sends.head, marker->covers); /* outstanding again */
}
