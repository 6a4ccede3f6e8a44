/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data transfer: the fast paths, and what they fall back to.
 *
 * Each call has a fast path, for one segment without flags on an open endpoint, and a slow path,
 * which refuses the call, completes it as flushed, or posts it. Every post claims a slot of
 * its ring, calls the transport, and looks at the gate again: if the connection ended meanwhile its
 * end may have missed the claim, so work for the service thread flushes late posts.
 */
#include <errno.h>

#include "udapl.h"

/* nothing is wrong, post it; no call returns this */
#define PROCEED ((DAT_RETURN)DAT_CLASS_WARNING)

/* Flags that have an effect on any endpoint. */
#define SEND_FLAGS                                                                                 \
	(DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_SOLICITED_WAIT_FLAG |                       \
	 DAT_COMPLETION_BARRIER_FENCE_FLAG)
#define RDMA_FLAGS (DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_BARRIER_FENCE_FLAG)

/* The bytes of all segments; a sum that would wrap is the largest number. */
static inline DAT_VLEN iov_size(const DAT_LMR_TRIPLET *iov, unsigned nseg)
{
	DAT_VLEN size = 0;

	for (unsigned i = 0; i < nseg; i++)
		if (__builtin_add_overflow(size, iov[i].segment_length, &size))
			return UINT64_MAX;
	return size;
}

/* ---- the slow path: refusals and flushes ---- */

/* Under ia->lock, so that it comes after all that was flushed at the end of the connection. */
DAT_RETURN ep_complete_flushed(const struct req *req, struct evd *evd)
{
	struct ep *ep = req->ring->ep;
	struct ia *ia = ep->obj.ia;
	bool ok;

	mutex_lock(&ia->lock);
	ok = ep_flush_late_locked(ep) && evd_post_flushed(evd, req);
	mutex_unlock(&ia->lock);
	return ok ? DAT_SUCCESS : NO_RESOURCE(MEMORY);
}

static DAT_RETURN dto_complete_flushed(struct ring *ring, struct evd *evd, DAT_DTO_COOKIE cookie)
{
	const struct req req = { .cookie = cookie, .ring = ring, .kind = REQ_SEND };

	return ep_complete_flushed(&req, evd);
}

DAT_COMPLETION_FLAGS ep_effective_flags(DAT_COMPLETION_FLAGS flags, unsigned plain,
					DAT_COMPLETION_FLAGS configured)
{
	const unsigned effective = plain | (configured & DAT_COMPLETION_UNSIGNALLED_FLAG);

	if (flags & ~effective)
		log_to(LOG_DTO, "post: of the flags %#x, %#x are ignored", (unsigned)flags,
		       (unsigned)(flags & ~effective));
	return (DAT_COMPLETION_FLAGS)(flags & effective);
}

/*
 * The connection is ending, but the consumer has not asked for it and has no event yet: for the
 * consumer it is still connected, and what it posts is flushed like what it posted before.
 */
static bool is_ending_unasked(const struct ep *ep, unsigned state)
{
	return state == DAT_EP_STATE_DISCONNECT_PENDING && !atomic_load(&ep->end.requested);
}

/* The state is read once: it may change meanwhile. */
DAT_EP_STATE ep_request_state(const struct ep *ep)
{
	DAT_EP_STATE state = (DAT_EP_STATE)ep_state(ep);
	bool early = state == DAT_EP_STATE_COMPLETION_PENDING && atomic_load(&ep->accepted);

	return early || is_ending_unasked(ep, state) ? DAT_EP_STATE_CONNECTED : state;
}

static DAT_RETURN request_state_refused(struct ep *ep, DAT_DTO_COOKIE cookie)
{
	DAT_EP_STATE state = ep_request_state(ep); /* read once: it may change meanwhile */

	switch (state) {
	case DAT_EP_STATE_CONNECTED:
		return PROCEED;
	case DAT_EP_STATE_DISCONNECTED:
		return dto_complete_flushed(&ep->sends, ep->request_evd, cookie);
	default:
		return status_of_ep_state(state);
	}
}

static DAT_RETURN send_refused(struct ep *ep, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
			       DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
	if (nseg < 0 || nseg > ep->attr.max_request_iov)
		return BAD_ARG(2);
	if (nseg && (!iov || iov_size(iov, (unsigned)nseg) > ep->max_transfer))
		return BAD_ARG(3);
	if (flags & ~(unsigned)ALL_COMPLETION_FLAGS)
		return BAD_ARG(5);
	return request_state_refused(ep, cookie);
}

static DAT_RETURN receive_refused(struct ep *ep, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
				  DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
	if (nseg < 0 || nseg > ep->attr.max_recv_iov)
		return BAD_ARG(2);
	if (nseg && !iov)
		return BAD_ARG(3);
	if (flags & ~(unsigned)ALL_COMPLETION_FLAGS)
		return BAD_ARG(5);
	if (!ep->qp)
		return BAD_STATE(EP_NOTREADY);
	if (ep_state(ep) == DAT_EP_STATE_DISCONNECTED)
		return dto_complete_flushed(&ep->recvs, ep->recv_evd, cookie);
	return PROCEED;
}

static DAT_RETURN rdma_refused(struct ep *ep, enum req_kind kind, DAT_COUNT nseg,
			       const DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
			       const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags)
{
	bool read = kind == REQ_READ;

	if (nseg < 0 || nseg > (read ? ep->attr.max_rdma_read_iov : ep->attr.max_rdma_write_iov))
		return BAD_ARG(2);
	if (nseg && (!iov || iov_size(iov, (unsigned)nseg) > ep->max_transfer))
		return BAD_ARG(3);
	if (!remote)
		return BAD_ARG(5);
	if (flags & ~(unsigned)ALL_COMPLETION_FLAGS)
		return BAD_ARG(6);
	if (read && ep_request_state(ep) == DAT_EP_STATE_CONNECTED &&
	    ep->attr.max_rdma_read_out == 0)
		return BAD_STATE(EP_NOTREADY); /* on the wire it would break the connection */
	return request_state_refused(ep, cookie);
}

/*
 * The transport refused a post. If the end of the connection has flushed the slot meanwhile, the
 * consumer has got, or will get, its completion, so the post counts as taken. So it does when the
 * device has ended the connection before we know, and when we know and the consumer does not.
 */
static DAT_RETURN post_failed(struct ep *ep, struct ring *ring, struct evd *evd, int err)
{
	bool refuse = err != -ENOTCONN && !is_ending_unasked(ep, ep_state(ep));

	spin_lock(&evd->lock);
	ep_marker_race(ep, ring);
	refuse = refuse && ep_state(ep) != DAT_EP_STATE_DISCONNECTED && ring_used(ring);
	if (refuse)
		ring_unpush(ring);
	spin_unlock(&evd->lock);
	if (refuse)
		return status_of(err, DAT_RESOURCE_MEMORY);
	atomic_store(&ep->end.flushed, true);
	/* completes the request as flushed if it is still in the ring */
	service_queue_work(ep->obj.ia, &ep->work);
	return DAT_SUCCESS;
}

static COLD DAT_RETURN request_failed(struct ep *ep, int err)
{
	return post_failed(ep, &ep->sends, ep->request_evd, err);
}

static COLD DAT_RETURN receive_failed(struct ep *ep, int err)
{
	return post_failed(ep, &ep->recvs, ep->recv_evd, err);
}

static bool is_disconnecting(const struct ep *ep)
{
	unsigned state = ep_state(ep);

	return state == DAT_EP_STATE_DISCONNECT_PENDING || state == DAT_EP_STATE_DISCONNECTED;
}

/* The gate was closed during the post, or is never open because the endpoint is thread-safe. */
static COLD DAT_RETURN receive_gate_closed(struct ep *ep)
{
	if (is_disconnecting(ep))
		service_queue_work(ep->obj.ia, &ep->work);
	return DAT_SUCCESS;
}

static COLD DAT_RETURN request_gate_closed(struct ep *ep)
{
	if (!is_disconnecting(ep))
		return DAT_SUCCESS;
	spin_lock(&ep->request_evd->lock);
	ep_marker_race(ep, &ep->sends);
	spin_unlock(&ep->request_evd->lock);
	return receive_gate_closed(ep);
}

/* ---- requests ---- */

static inline int request_to_transport(struct ep *ep, struct req *req, const DAT_LMR_TRIPLET *iov,
				       unsigned nseg, DAT_VLEN size, const DAT_RMR_TRIPLET *remote,
				       enum req_kind kind, unsigned post_flags)
{
	switch (kind) {
	case REQ_SEND:
		return tp_post_send(ep->qp, req, iov, nseg, size, post_flags);
	case REQ_WRITE:
		return tp_post_write(ep->qp, req, iov, nseg, size, remote, post_flags);
	default:
		return tp_post_read(ep->qp, req, iov, nseg, size, remote, post_flags);
	}
}

/* One segment and no flags, tested at once. */
static inline bool is_plain(DAT_COUNT nseg, DAT_COMPLETION_FLAGS flags)
{
	return (((unsigned)nseg ^ 1) | flags) == 0;
}

ALWAYS_INLINE DAT_RETURN ep_posted(struct ep *ep, int err)
{
	if (unlikely(err))
		return request_failed(ep, err);
	if (unlikely(!gate_open(&ep->send_gate)))
		return request_gate_closed(ep);
	return DAT_SUCCESS;
}

/*
 * One body for send, read and write, specialised by the constants of each caller. There is room in
 * the ring.
 */
static ALWAYS_INLINE DAT_RETURN request_post(struct ep *ep, enum req_kind kind,
					     const DAT_LMR_TRIPLET *iov, unsigned nseg,
					     DAT_VLEN size, DAT_DTO_COOKIE cookie,
					     const DAT_RMR_TRIPLET *remote,
					     DAT_COMPLETION_FLAGS flags, unsigned post_flags)
{
	struct req *req = ring_next(&ep->sends);
	int err;

	req->cookie = cookie;
	req->size = size;
	req->kind = kind;
	req->flags = (uint16_t)flags;
	ring_push(&ep->sends, req);
	err = request_to_transport(ep, req, iov, nseg, size, remote, kind, post_flags);
	return ep_posted(ep, err);
}

/*
 * Of a run of suppressed requests one in half a ring is signalled all the same: its completion,
 * which makes no event, retires the slots. So a full ring always has a request that will complete.
 */
static unsigned request_post_flags(struct ep *ep, enum req_kind kind, DAT_COMPLETION_FLAGS flags)
{
	bool signal = ep->signal_all || (kind == REQ_READ && ep->loses_reads);
	struct ring *ring = &ep->sends;
	unsigned post_flags = 0;

	if (flags & DAT_COMPLETION_BARRIER_FENCE_FLAG)
		post_flags |= TP_POST_FENCE;
	if (flags & DAT_COMPLETION_SOLICITED_WAIT_FLAG)
		post_flags |= TP_POST_SOLICIT;
	if (!(flags & DAT_COMPLETION_SUPPRESS_FLAG) || signal)
		return post_flags | TP_POST_SIGNAL;
	if (++ring->unsignalled_run < ring->signal_interval)
		return post_flags;
	ring->unsignalled_run = 0;
	return post_flags | TP_POST_SIGNAL;
}

/* Completions that were not polled yet occupy slots. */
static bool ring_make_room(struct ring *ring, struct evd *evd)
{
	if (ring_has_room(ring))
		return true;
	evd_drain(evd);
	return ring_has_room(ring);
}

bool ep_post_begin(struct ep *ep)
{
	if (ep->thread_safe)
		spin_lock(&ep->send_lock);
	return ring_make_room(&ep->sends, ep->request_evd);
}

void ep_post_end(struct ep *ep)
{
	if (ep->thread_safe)
		spin_unlock(&ep->send_lock);
}

static DAT_RETURN request_post_serialized(struct ep *ep, enum req_kind kind,
					  const DAT_LMR_TRIPLET *iov, unsigned nseg, DAT_VLEN size,
					  DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
					  DAT_COMPLETION_FLAGS flags)
{
	DAT_RETURN ret = NO_RESOURCE(MEMORY);

	if (ep_post_begin(ep))
		ret = request_post(ep, kind, iov, nseg, size, cookie, remote, flags,
				   request_post_flags(ep, kind, flags));
	ep_post_end(ep);
	return ret;
}

struct req *ep_claim_bind(struct ep *ep, struct binding *binding, DAT_RMR_COOKIE cookie,
			  DAT_COMPLETION_FLAGS flags)
{
	struct req *req = ring_next(&ep->sends);

	req->cookie = cookie;
	req->binding = binding;
	req->kind = REQ_BIND;
	req->flags = (uint16_t)(flags | REQ_SLOW_PATH);
	ring_push(&ep->sends, req);
	return req;
}

static NOINLINE DAT_RETURN send_slow(struct ep *ep, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
				     DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
	DAT_RETURN ret;

	if (!obj_is(ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	ret = send_refused(ep, nseg, iov, cookie, flags);
	if (ret != PROCEED)
		return ret;
	flags = ep_effective_flags(flags, SEND_FLAGS, ep->attr.request_completion_flags);
	return request_post_serialized(ep, REQ_SEND, iov, (unsigned)nseg,
				       iov_size(iov, (unsigned)nseg), cookie, NULL, flags);
}

HOT DAT_RETURN ep_post_send(DAT_EP_HANDLE handle, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov,
			    DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
	struct ep *ep = handle;

	if (unlikely(!gate_open(&ep->send_gate)))
		goto slow;
	if (unlikely(!is_plain(nseg, flags)))
		goto slow;
	if (unlikely(!ep->sends.room || !iov || iov->segment_length > ep->max_transfer))
		goto slow;
	return request_post(ep, REQ_SEND, iov, 1, iov->segment_length, cookie, NULL, 0,
			    TP_POST_SIGNAL);
slow:
	return send_slow(ep, nseg, iov, cookie, flags);
}

static NOINLINE DAT_RETURN rdma_slow(struct ep *ep, enum req_kind kind, DAT_COUNT nseg,
				     const DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
				     const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags)
{
	DAT_RETURN ret;

	if (!obj_is(ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	ret = rdma_refused(ep, kind, nseg, iov, cookie, remote, flags);
	if (ret != PROCEED)
		return ret;
	flags = ep_effective_flags(flags, RDMA_FLAGS, ep->attr.request_completion_flags);
	if (kind == REQ_READ && ep->obj.ia->attr->caps & TP_CAP_ORDERED_READS)
		flags &= ~(unsigned)DAT_COMPLETION_BARRIER_FENCE_FLAG;
	return request_post_serialized(ep, kind, iov, (unsigned)nseg, iov_size(iov, (unsigned)nseg),
				       cookie, remote, flags);
}

HOT DAT_RETURN ep_post_rdma_write(DAT_EP_HANDLE handle, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov,
				  DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
				  DAT_COMPLETION_FLAGS flags)
{
	struct ep *ep = handle;

	if (unlikely(!gate_open(&ep->send_gate)))
		goto slow;
	if (unlikely(!is_plain(nseg, flags)))
		goto slow;
	if (unlikely(!remote || !iov))
		goto slow;
	if (unlikely(!ep->sends.room || iov->segment_length > ep->max_transfer))
		goto slow;
	return request_post(ep, REQ_WRITE, iov, 1, iov->segment_length, cookie, remote, 0,
			    TP_POST_SIGNAL);
slow:
	return rdma_slow(ep, REQ_WRITE, nseg, iov, cookie, remote, flags);
}

HOT DAT_RETURN ep_post_rdma_read(DAT_EP_HANDLE handle, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov,
				 DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
				 DAT_COMPLETION_FLAGS flags)
{
	struct ep *ep = handle;

	if (unlikely(!gate_open(&ep->send_gate)))
		goto slow;
	if (unlikely(!is_plain(nseg, flags)))
		goto slow;
	if (unlikely(!remote || !iov))
		goto slow;
	/* 0 - 1 is huge */
	if (unlikely(!ep->sends.room || iov->segment_length - 1 >= ep->read_limit))
		goto slow;
	return request_post(ep, REQ_READ, iov, 1, iov->segment_length, cookie, remote, 0,
			    TP_POST_SIGNAL);
slow:
	return rdma_slow(ep, REQ_READ, nseg, iov, cookie, remote, flags);
}

/* ---- receives ---- */

/* There is room in the ring. */
static ALWAYS_INLINE DAT_RETURN receive_post(struct ep *ep, const DAT_LMR_TRIPLET *iov,
					     unsigned nseg, DAT_DTO_COOKIE cookie,
					     DAT_COMPLETION_FLAGS flags)
{
	struct req *req = ring_next(&ep->recvs);
	int err;

	req->cookie = cookie;
	req->kind = REQ_RECV;
	req->flags = (uint16_t)flags;
	ring_push(&ep->recvs, req);
	err = tp_post_recv(ep->qp, req, iov, nseg);
	if (unlikely(err))
		return receive_failed(ep, err);
	if (unlikely(!gate_open(&ep->recv_gate)))
		return receive_gate_closed(ep);
	return DAT_SUCCESS;
}

static NOINLINE DAT_RETURN receive_slow(struct ep *ep, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
					DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
	DAT_RETURN ret;

	if (!obj_is(ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	ret = receive_refused(ep, nseg, iov, cookie, flags);
	if (ret != PROCEED)
		return ret;
	flags = ep_effective_flags(flags, 0, ep->attr.recv_completion_flags);
	ret = NO_RESOURCE(MEMORY);
	if (ep->thread_safe)
		spin_lock(&ep->recv_lock);
	if (ring_make_room(&ep->recvs, ep->recv_evd))
		ret = receive_post(ep, iov, (unsigned)nseg, cookie, flags);
	if (ep->thread_safe)
		spin_unlock(&ep->recv_lock);
	return ret;
}

HOT DAT_RETURN ep_post_recv(DAT_EP_HANDLE handle, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov,
			    DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
	struct ep *ep = handle;

	if (unlikely(!gate_open(&ep->recv_gate)))
		goto slow;
	if (unlikely(!is_plain(nseg, flags)))
		goto slow;
	if (unlikely(!ep->recvs.room || !iov))
		goto slow;
	return receive_post(ep, iov, 1, cookie, 0);
slow:
	return receive_slow(ep, nseg, iov, cookie, flags);
}
