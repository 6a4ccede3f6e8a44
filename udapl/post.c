/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data transfer: the hot path, and nothing else.
 *
 * Each call has a short way for the ordinary, one segment on an open endpoint, and one function for
 * all the rest: it refuses, or completes the transfer as flushed, or lets it go on. Either way a
 * post claims a slot of its ring, goes down to the transport, and looks at the endpoint again: if
 * the connection ended meanwhile nobody may have seen the claim, so the service thread is told to
 * look.
 */
#include <errno.h>

#include "udapl.h"

/* nothing is wrong after all; no call returns it */
#define CARRY_ON ((DAT_RETURN)DAT_CLASS_WARNING)

/* Flags that need no look at the endpoint. */
#define SEND_FLAGS                                                                                 \
	(DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_SOLICITED_WAIT_FLAG |                       \
	 DAT_COMPLETION_BARRIER_FENCE_FLAG)
#define RDMA_FLAGS (DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_BARRIER_FENCE_FLAG)

static inline DAT_VLEN iov_size(const DAT_LMR_TRIPLET *iov, unsigned nseg)
{
	DAT_VLEN size = 0;

	for (unsigned i = 0; i < nseg; i++)
		size += iov[i].segment_length;
	return size;
}

/* ---- out of the ordinary ---- */

/*
 * A transfer on a disconnected endpoint completes at once, as flushed. Under ia->lock it comes
 * after what the end of the connection flushed, and after earlier ones that were posted just then.
 */
DAT_RETURN ep_flush_now(const struct req *req, struct evd *evd)
{
	struct ep *ep = req->ring->ep;
	struct ia *ia = ep->obj.ia;
	bool ok;

	mutex_lock(&ia->lock);
	ok = ep_settle(ep) && evd_post_flushed(evd, req);
	mutex_unlock(&ia->lock);
	return ok ? DAT_SUCCESS : NO_RESOURCE(MEMORY);
}

static DAT_RETURN flush_now(struct ring *ring, struct evd *evd, DAT_DTO_COOKIE cookie)
{
	const struct req req = { .cookie = cookie, .ring = ring, .kind = REQ_SEND };

	return ep_flush_now(&req, evd);
}

static bool flags_wrong(DAT_COMPLETION_FLAGS flags, unsigned plain, DAT_COMPLETION_FLAGS configured)
{
	unsigned legal = plain | (configured & DAT_COMPLETION_UNSIGNALLED_FLAG);

	return flags & ~legal;
}

bool ep_flags_legal(const struct ep *ep, DAT_COMPLETION_FLAGS flags, unsigned plain)
{
	return !flags_wrong(flags, plain, ep->attr.request_completion_flags);
}

/*
 * A connection that ends by itself has no state between for the consumer, who did not ask for one:
 * what is posted while the device flushes goes the way of what was posted before.
 */
static bool goes_by_itself(const struct ep *ep)
{
	return ep_state(ep) == DAT_EP_STATE_DISCONNECT_PENDING && !atomic_load(&ep->parting);
}

DAT_EP_STATE ep_request_state(const struct ep *ep)
{
	return goes_by_itself(ep) ? DAT_EP_STATE_CONNECTED : (DAT_EP_STATE)ep_state(ep);
}

static DAT_RETURN request_state(struct ep *ep, DAT_DTO_COOKIE cookie)
{
	DAT_EP_STATE state = ep_request_state(ep); /* looked at once: it may go on meanwhile */

	switch (state) {
	case DAT_EP_STATE_CONNECTED:
		return CARRY_ON;
	case DAT_EP_STATE_DISCONNECTED:
		return flush_now(&ep->sends, ep->request_evd, cookie);
	default:
		return status_of_ep_state(state);
	}
}

static DAT_RETURN send_refused(struct ep *ep, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
			       DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
	if (nseg < 0 || nseg > ep->attr.max_request_iov)
		return BAD_ARG(2);
	if (nseg && (!iov || iov_size(iov, (unsigned)nseg) > ep->attr.max_message_size))
		return BAD_ARG(3);
	if (flags_wrong(flags, SEND_FLAGS, ep->attr.request_completion_flags))
		return BAD_ARG(5);
	return request_state(ep, cookie);
}

static DAT_RETURN receive_refused(struct ep *ep, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
				  DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
	if (nseg < 0 || nseg > ep->attr.max_recv_iov)
		return BAD_ARG(2);
	if (nseg && !iov)
		return BAD_ARG(3);
	if (flags_wrong(flags, 0, ep->attr.recv_completion_flags))
		return BAD_ARG(5);
	if (!ep->qp)
		return BAD_STATE(EP_NOTREADY);
	if (ep_state(ep) == DAT_EP_STATE_DISCONNECTED)
		return flush_now(&ep->recvs, ep->recv_evd, cookie);
	return CARRY_ON;
}

static DAT_RETURN rdma_refused(struct ep *ep, enum req_kind kind, DAT_COUNT nseg,
			       const DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
			       const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags)
{
	bool read = kind == REQ_READ;
	DAT_VLEN local;

	if (nseg < 0 || nseg > (read ? ep->attr.max_rdma_read_iov : ep->attr.max_rdma_write_iov))
		return BAD_ARG(2);
	if (nseg && !iov)
		return BAD_ARG(3);
	if (!remote)
		return BAD_ARG(5);
	if (flags_wrong(flags, RDMA_FLAGS, ep->attr.request_completion_flags))
		return BAD_ARG(6);
	local = iov_size(iov, (unsigned)nseg);
	if ((read ? remote->segment_length : local) > ep->attr.max_rdma_size)
		return BAD_ARG(5);
	if (read ? local < remote->segment_length : local > remote->segment_length)
		return DAT_ERROR(DAT_LENGTH_ERROR, 0);
	if (read && ep_state(ep) == DAT_EP_STATE_CONNECTED && ep->attr.max_rdma_read_out == 0)
		return BAD_STATE(EP_NOTREADY); /* on the wire it would break the connection */
	return request_state(ep, cookie);
}

/*
 * The transport refused what was claimed. If the end of the connection has flushed the slot
 * already, the consumer has got or will get its completion, and the post counts. So it does when
 * the device knows of that end before we do, and when we know and the consumer does not.
 */
static DAT_RETURN take_back(struct ep *ep, struct ring *ring, struct evd *evd, int err)
{
	bool ours = err != -ENOTCONN && !goes_by_itself(ep);

	spin_lock(&evd->lock);
	ep_doubt(ep, ring);
	ours = ours && ep_state(ep) != DAT_EP_STATE_DISCONNECTED && ring_used(ring);
	if (ours)
		ring_unpush(ring);
	spin_unlock(&evd->lock);
	if (ours)
		return status_of(err, DAT_RESOURCE_MEMORY);
	atomic_store(&ep->flushed, true);
	service_kick(ep->obj.ia, &ep->work); /* it may have been flushed already, or not */
	return DAT_SUCCESS;
}

static COLD DAT_RETURN request_failed(struct ep *ep, int err)
{
	return take_back(ep, &ep->sends, ep->request_evd, err);
}

static COLD DAT_RETURN receive_failed(struct ep *ep, int err)
{
	return take_back(ep, &ep->recvs, ep->recv_evd, err);
}

static bool is_ending(const struct ep *ep)
{
	unsigned state = ep_state(ep);

	return state == DAT_EP_STATE_DISCONNECT_PENDING || state == DAT_EP_STATE_DISCONNECTED;
}

/* The gate closed while we posted, or was never open because others post here, too. */
static COLD DAT_RETURN receive_late(struct ep *ep)
{
	if (is_ending(ep))
		service_kick(ep->obj.ia, &ep->work);
	return DAT_SUCCESS;
}

static COLD DAT_RETURN request_late(struct ep *ep)
{
	if (!is_ending(ep))
		return DAT_SUCCESS;
	spin_lock(&ep->request_evd->lock);
	ep_doubt(ep, &ep->sends);
	spin_unlock(&ep->request_evd->lock);
	return receive_late(ep);
}

/* ---- requests ---- */

static inline int hand_down(struct ep *ep, struct req *req, const DAT_LMR_TRIPLET *iov,
			    unsigned nseg, DAT_VLEN size, const DAT_RMR_TRIPLET *remote,
			    enum req_kind kind, unsigned how)
{
	switch (kind) {
	case REQ_SEND:
		return tp_post_send(ep->qp, req, iov, nseg, size, how);
	case REQ_WRITE:
		return tp_post_write(ep->qp, req, iov, nseg, size, remote, how);
	default:
		return tp_post_read(ep->qp, req, iov, nseg, size, remote, how);
	}
}

/* One segment and no flags, in one test. */
static inline bool is_plain(DAT_COUNT nseg, DAT_COMPLETION_FLAGS flags)
{
	return (((unsigned)nseg ^ 1) | flags) == 0;
}

ALWAYS_INLINE DAT_RETURN ep_posted(struct ep *ep, int err)
{
	if (unlikely(err))
		return request_failed(ep, err);
	if (unlikely(!gate_open(&ep->send_gate)))
		return request_late(ep);
	return DAT_SUCCESS;
}

/*
 * One body for send, read and write; each caller's constants make its own of it. There is room in
 * the ring.
 */
static ALWAYS_INLINE DAT_RETURN post(struct ep *ep, enum req_kind kind, const DAT_LMR_TRIPLET *iov,
				     unsigned nseg, DAT_VLEN size, DAT_DTO_COOKIE cookie,
				     const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags,
				     unsigned how)
{
	struct req *req = ring_next(&ep->sends);
	int err;

	req->cookie = cookie;
	req->size = size;
	req->kind = kind;
	req->flags = (uint16_t)flags;
	ring_push(&ep->sends, req);
	err = hand_down(ep, req, iov, nseg, size, remote, kind, how);
	return ep_posted(ep, err);
}

/*
 * A suppressed request is signalled all the same once in half a ring: its completion, swallowed,
 * gives the slots back. So a full ring always has one that will be heard of.
 */
static unsigned how_to_post(struct ep *ep, DAT_COMPLETION_FLAGS flags)
{
	struct ring *ring = &ep->sends;
	unsigned how = 0;

	if (flags & DAT_COMPLETION_BARRIER_FENCE_FLAG)
		how |= TP_POST_FENCE;
	if (flags & DAT_COMPLETION_SOLICITED_WAIT_FLAG)
		how |= TP_POST_SOLICIT;
	if (!(flags & DAT_COMPLETION_SUPPRESS_FLAG) || ep->signal_all)
		return how | TP_POST_SIGNAL;
	if (++ring->quiet < ring->half)
		return how;
	ring->quiet = 0;
	return how | TP_POST_SIGNAL;
}

/* Completions that nobody has polled hold slots. */
static bool find_room(struct ring *ring, struct evd *evd)
{
	if (ring_has_room(ring))
		return true;
	evd_drain(evd);
	return ring_has_room(ring);
}

bool ep_post_begin(struct ep *ep)
{
	if (ep->shared)
		spin_lock(&ep->send_lock);
	return find_room(&ep->sends, ep->request_evd);
}

void ep_post_end(struct ep *ep)
{
	if (ep->shared)
		spin_unlock(&ep->send_lock);
}

static DAT_RETURN post_in_turn(struct ep *ep, enum req_kind kind, const DAT_LMR_TRIPLET *iov,
			       unsigned nseg, DAT_VLEN size, DAT_DTO_COOKIE cookie,
			       const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags)
{
	DAT_RETURN ret = NO_RESOURCE(MEMORY);

	if (ep_post_begin(ep))
		ret = post(ep, kind, iov, nseg, size, cookie, remote, flags,
			   how_to_post(ep, flags));
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
	req->flags = (uint16_t)(flags | REQ_ODD);
	ring_push(&ep->sends, req);
	return req;
}

static __attribute__((noinline)) DAT_RETURN send_any(struct ep *ep, DAT_COUNT nseg,
						     const DAT_LMR_TRIPLET *iov,
						     DAT_DTO_COOKIE cookie,
						     DAT_COMPLETION_FLAGS flags)
{
	DAT_RETURN ret;

	if (!obj_is(ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	ret = send_refused(ep, nseg, iov, cookie, flags);
	if (ret != CARRY_ON)
		return ret;
	return post_in_turn(ep, REQ_SEND, iov, (unsigned)nseg, iov_size(iov, (unsigned)nseg),
			    cookie, NULL, flags);
}

HOT DAT_RETURN ep_post_send(DAT_EP_HANDLE handle, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov,
			    DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
	struct ep *ep = handle;

	if (unlikely(!gate_open(&ep->send_gate)))
		goto any;
	if (unlikely(!is_plain(nseg, flags)))
		goto any;
	if (unlikely(!ep->sends.room || !iov || iov->segment_length > ep->attr.max_message_size))
		goto any;
	return post(ep, REQ_SEND, iov, 1, iov->segment_length, cookie, NULL, 0, TP_POST_SIGNAL);
any:
	return send_any(ep, nseg, iov, cookie, flags);
}

static __attribute__((noinline)) DAT_RETURN rdma_any(struct ep *ep, enum req_kind kind,
						     DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
						     DAT_DTO_COOKIE cookie,
						     const DAT_RMR_TRIPLET *remote,
						     DAT_COMPLETION_FLAGS flags)
{
	DAT_VLEN size;
	DAT_RETURN ret;

	if (!obj_is(ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	ret = rdma_refused(ep, kind, nseg, iov, cookie, remote, flags);
	if (ret != CARRY_ON)
		return ret;
	size = kind == REQ_READ ? remote->segment_length : iov_size(iov, (unsigned)nseg);
	return post_in_turn(ep, kind, iov, (unsigned)nseg, size, cookie, remote, flags);
}

HOT DAT_RETURN ep_post_rdma_write(DAT_EP_HANDLE handle, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov,
				  DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
				  DAT_COMPLETION_FLAGS flags)
{
	struct ep *ep = handle;

	if (unlikely(!gate_open(&ep->send_gate)))
		goto any;
	if (unlikely(!is_plain(nseg, flags)))
		goto any;
	if (unlikely(!remote || !iov || iov->segment_length > remote->segment_length))
		goto any;
	if (unlikely(!ep->sends.room || iov->segment_length > ep->attr.max_rdma_size))
		goto any;
	return post(ep, REQ_WRITE, iov, 1, iov->segment_length, cookie, remote, 0, TP_POST_SIGNAL);
any:
	return rdma_any(ep, REQ_WRITE, nseg, iov, cookie, remote, flags);
}

HOT DAT_RETURN ep_post_rdma_read(DAT_EP_HANDLE handle, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov,
				 DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
				 DAT_COMPLETION_FLAGS flags)
{
	struct ep *ep = handle;

	if (unlikely(!gate_open(&ep->send_gate)))
		goto any;
	if (unlikely(!is_plain(nseg, flags)))
		goto any;
	if (unlikely(!remote || !iov || iov->segment_length < remote->segment_length))
		goto any;
	/* 0 - 1 is huge */
	if (unlikely(!ep->sends.room || remote->segment_length - 1 >= ep->read_limit))
		goto any;
	return post(ep, REQ_READ, iov, 1, remote->segment_length, cookie, remote, 0,
		    TP_POST_SIGNAL);
any:
	return rdma_any(ep, REQ_READ, nseg, iov, cookie, remote, flags);
}

/* ---- receives ---- */

/* There is room in the ring. */
static ALWAYS_INLINE DAT_RETURN receive(struct ep *ep, const DAT_LMR_TRIPLET *iov, unsigned nseg,
					DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
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
		return receive_late(ep);
	return DAT_SUCCESS;
}

static __attribute__((noinline)) DAT_RETURN receive_any(struct ep *ep, DAT_COUNT nseg,
							const DAT_LMR_TRIPLET *iov,
							DAT_DTO_COOKIE cookie,
							DAT_COMPLETION_FLAGS flags)
{
	DAT_RETURN ret;

	if (!obj_is(ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	ret = receive_refused(ep, nseg, iov, cookie, flags);
	if (ret != CARRY_ON)
		return ret;
	ret = NO_RESOURCE(MEMORY);
	if (ep->shared)
		spin_lock(&ep->recv_lock);
	if (find_room(&ep->recvs, ep->recv_evd))
		ret = receive(ep, iov, (unsigned)nseg, cookie, flags);
	if (ep->shared)
		spin_unlock(&ep->recv_lock);
	return ret;
}

HOT DAT_RETURN ep_post_recv(DAT_EP_HANDLE handle, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov,
			    DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
	struct ep *ep = handle;

	if (unlikely(!gate_open(&ep->recv_gate)))
		goto any;
	if (unlikely(!is_plain(nseg, flags)))
		goto any;
	if (unlikely(!ep->recvs.room || !iov))
		goto any;
	return receive(ep, iov, 1, cookie, 0);
any:
	return receive_any(ep, nseg, iov, cookie, flags);
}
