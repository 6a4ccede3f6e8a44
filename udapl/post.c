/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data transfer: the hot path, and nothing else.
 *
 * Each post checks everything in one branch, claims a slot of its ring, posts, and looks at the connection's state again:
 * if that ended meanwhile nobody may have seen the claim, so the service thread is told to look. What is out of the
 * ordinary is found out by a cold function, which either refuses, or completes the transfer as flushed, or lets it go on.
 */
#include "udapl.h"

#define CARRY_ON ((DAT_RETURN)DAT_CLASS_WARNING) /* nothing is wrong after all; no call returns it */

/* Flags that need no look at the endpoint. */
#define SEND_FLAGS                                                                                                     \
	(DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_SOLICITED_WAIT_FLAG | DAT_COMPLETION_BARRIER_FENCE_FLAG)
#define RDMA_FLAGS (DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_BARRIER_FENCE_FLAG)

static inline DAT_VLEN iov_size(const DAT_LMR_TRIPLET *iov, unsigned nseg)
{
	DAT_VLEN size = 0;

	for (unsigned i = 0; i < nseg; i++)
		size += iov[i].segment_length;
	return size;
}

static inline unsigned post_flags(DAT_COMPLETION_FLAGS flags)
{
	/* Both are bits; the compiler makes two shifts of this. */
	return (flags & DAT_COMPLETION_BARRIER_FENCE_FLAG ? TP_POST_FENCE : 0) |
	       (flags & DAT_COMPLETION_SOLICITED_WAIT_FLAG ? TP_POST_SOLICIT : 0);
}

/* ---- out of the ordinary ---------------------------------------------------------------------------------------------- */

/*
 * A transfer on a disconnected endpoint completes at once, as flushed. Under ia->lock it comes after what the end of the
 * connection flushed.
 */
static DAT_RETURN flush_now(struct ep *ep, struct evd *evd, DAT_DTO_COOKIE cookie)
{
	struct ia *ia = ep->obj.ia;
	bool ok;

	pthread_mutex_lock(&ia->lock);
	ok = evd_post_flushed(evd, ep, cookie);
	pthread_mutex_unlock(&ia->lock);
	return ok ? DAT_SUCCESS : NO_RESOURCE(MEMORY);
}

/* UNSIGNALLED is for endpoints that were made so. */
static bool flags_wrong(DAT_COMPLETION_FLAGS flags, unsigned plain, DAT_COMPLETION_FLAGS configured)
{
	unsigned legal = plain | (configured & DAT_COMPLETION_UNSIGNALLED_FLAG);

	return flags & ~legal;
}

static DAT_RETURN request_state(struct ep *ep, DAT_DTO_COOKIE cookie)
{
	switch (ep_state(ep)) {
	case DAT_EP_STATE_CONNECTED:
		return CARRY_ON;
	case DAT_EP_STATE_DISCONNECTED:
		return flush_now(ep, ep->request_evd, cookie);
	default:
		return status_of_ep_state((DAT_EP_STATE)ep_state(ep));
	}
}

static __attribute__((cold, noinline)) DAT_RETURN send_odd(struct ep *ep, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
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

static __attribute__((cold, noinline)) DAT_RETURN recv_odd(struct ep *ep, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
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
		return flush_now(ep, ep->recv_evd, cookie);
	return CARRY_ON;
}

static __attribute__((cold, noinline)) DAT_RETURN rdma_odd(struct ep *ep, enum req_kind kind, DAT_COUNT nseg,
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
 * The transport refused what was claimed. If the end of the connection has flushed the slot already, the consumer has got
 * or will get its completion, and the post counts.
 */
static __attribute__((cold, noinline)) DAT_RETURN take_back(struct ep *ep, struct ring *ring, struct evd *evd, int err)
{
	bool ours;

	spin_lock(&evd->lock);
	ours = ep_state(ep) != DAT_EP_STATE_DISCONNECTED && ring_used(ring);
	if (ours)
		ring_unpush(ring);
	spin_unlock(&evd->lock);
	return ours ? status_of(err, DAT_RESOURCE_MEMORY) : DAT_SUCCESS;
}

/* The connection ended while we posted. */
static __attribute__((cold, noinline)) void post_late(struct ep *ep)
{
	service_kick(ep->obj.ia, &ep->work);
}

/* ---- requests -------------------------------------------------------------------------------------------------------- */

static inline int hand_down(struct ep *ep, struct req *req, const DAT_LMR_TRIPLET *iov, unsigned nseg, DAT_VLEN size,
			    const DAT_RMR_TRIPLET *remote, enum req_kind kind, unsigned flags)
{
	switch (kind) {
	case REQ_SEND:
		return tp_post_send(ep->qp, req, iov, nseg, size, flags);
	case REQ_WRITE:
		return tp_post_write(ep->qp, req, iov, nseg, size, remote, flags);
	default:
		return tp_post_read(ep->qp, req, iov, nseg, remote, flags);
	}
}

/*
 * A suppressed request is signalled all the same once in a while, and when it fills the ring: its completion, swallowed,
 * gives the slots back.
 */
static inline bool must_signal(struct ep *ep, struct ring *ring, bool suppressed)
{
	if (likely(!suppressed)) {
		ring->quiet = 0;
		return true;
	}
	if (ep->signal_all || ++ring->quiet >= ring->half || ring_used(ring) + 1 >= ring->limit) {
		ring->quiet = 0;
		return true;
	}
	return false;
}

/* One body for send, read and write; each caller's constants make its own of it. */
static inline __attribute__((always_inline)) DAT_RETURN post(struct ep *ep, enum req_kind kind,
							     const DAT_LMR_TRIPLET *iov, unsigned nseg, DAT_VLEN size,
							     DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
							     DAT_COMPLETION_FLAGS flags)
{
	struct ring *ring = &ep->sends;
	bool suppressed = flags & DAT_COMPLETION_SUPPRESS_FLAG;
	unsigned how = post_flags(flags);
	struct req *req;
	int err;

	if (unlikely(ep->shared))
		spin_lock(&ep->send_lock);
	req = ring_next(ring, ring->limit);
	if (unlikely(!req)) {
		/* Completions that nobody has polled hold slots. */
		evd_drain(ep->request_evd);
		req = ring_next(ring, ring->limit);
		if (!req) {
			err = 0;
			goto full;
		}
	}
	if (must_signal(ep, ring, suppressed))
		how |= TP_POST_SIGNAL;
	req->cookie = cookie;
	req->size = size;
	req->kind = kind;
	req->suppressed = suppressed;
	req->unsignalled = flags & DAT_COMPLETION_UNSIGNALLED_FLAG;
	ring_push(ring);
	err = hand_down(ep, req, iov, nseg, size, remote, kind, how);
	if (unlikely(err))
		goto refused;
	if (unlikely(ep->shared))
		spin_unlock(&ep->send_lock);
	if (unlikely(ep_state(ep) != DAT_EP_STATE_CONNECTED))
		post_late(ep);
	return DAT_SUCCESS;
full:
	if (ep->shared)
		spin_unlock(&ep->send_lock);
	return NO_RESOURCE(MEMORY);
refused: {
	DAT_RETURN ret = take_back(ep, ring, ep->request_evd, err);

	if (ep->shared)
		spin_unlock(&ep->send_lock);
	return ret;
}
}

DAT_RETURN ep_post_send(DAT_EP_HANDLE handle, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
			DAT_COMPLETION_FLAGS flags)
{
	struct ep *ep = handle;
	DAT_VLEN size = 0;

	if (unlikely(!obj_is(ep, DAT_HANDLE_TYPE_EP)))
		return BAD_HANDLE(EP);
	if (likely(iov && (unsigned)nseg <= (unsigned)ep->attr.max_request_iov))
		size = iov_size(iov, (unsigned)nseg);
	if (unlikely((unsigned)nseg > (unsigned)ep->attr.max_request_iov || (nseg && !iov) || flags & ~SEND_FLAGS ||
		     size > ep->attr.max_message_size || ep_state(ep) != DAT_EP_STATE_CONNECTED)) {
		DAT_RETURN ret = send_odd(ep, nseg, iov, cookie, flags);

		if (ret != CARRY_ON)
			return ret;
	}
	return post(ep, REQ_SEND, iov, (unsigned)nseg, size, cookie, NULL, flags);
}

DAT_RETURN ep_post_rdma_write(DAT_EP_HANDLE handle, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
			      const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags)
{
	struct ep *ep = handle;
	DAT_VLEN size = 0;

	if (unlikely(!obj_is(ep, DAT_HANDLE_TYPE_EP)))
		return BAD_HANDLE(EP);
	if (likely(iov && (unsigned)nseg <= (unsigned)ep->attr.max_rdma_write_iov))
		size = iov_size(iov, (unsigned)nseg);
	if (unlikely(!remote || (unsigned)nseg > (unsigned)ep->attr.max_rdma_write_iov || (nseg && !iov) ||
		     flags & ~RDMA_FLAGS || size > remote->segment_length || size > ep->attr.max_rdma_size ||
		     ep_state(ep) != DAT_EP_STATE_CONNECTED)) {
		DAT_RETURN ret = rdma_odd(ep, REQ_WRITE, nseg, iov, cookie, remote, flags);

		if (ret != CARRY_ON)
			return ret;
	}
	return post(ep, REQ_WRITE, iov, (unsigned)nseg, size, cookie, remote, flags);
}

DAT_RETURN ep_post_rdma_read(DAT_EP_HANDLE handle, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
			     const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags)
{
	struct ep *ep = handle;
	DAT_VLEN size = 0;

	if (unlikely(!obj_is(ep, DAT_HANDLE_TYPE_EP)))
		return BAD_HANDLE(EP);
	if (likely(iov && (unsigned)nseg <= (unsigned)ep->attr.max_rdma_read_iov))
		size = iov_size(iov, (unsigned)nseg);
	if (unlikely(!remote || (unsigned)nseg > (unsigned)ep->attr.max_rdma_read_iov || (nseg && !iov) ||
		     flags & ~RDMA_FLAGS || size < remote->segment_length ||
		     remote->segment_length > ep->attr.max_rdma_size || ep->attr.max_rdma_read_out == 0 ||
		     ep_state(ep) != DAT_EP_STATE_CONNECTED)) {
		DAT_RETURN ret = rdma_odd(ep, REQ_READ, nseg, iov, cookie, remote, flags);

		if (ret != CARRY_ON)
			return ret;
	}
	return post(ep, REQ_READ, iov, (unsigned)nseg, remote->segment_length, cookie, remote, flags);
}

/* ---- receives -------------------------------------------------------------------------------------------------------- */

static inline bool may_be_ending(const struct ep *ep)
{
	unsigned state = ep_state(ep);

	return state == DAT_EP_STATE_DISCONNECTED || state == DAT_EP_STATE_DISCONNECT_PENDING;
}

DAT_RETURN ep_post_recv(DAT_EP_HANDLE handle, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
			DAT_COMPLETION_FLAGS flags)
{
	struct ep *ep = handle;
	struct req *req;
	int err = 0;

	if (unlikely(!obj_is(ep, DAT_HANDLE_TYPE_EP)))
		return BAD_HANDLE(EP);
	if (unlikely((unsigned)nseg > (unsigned)ep->attr.max_recv_iov || (nseg && !iov) || flags || !ep->qp ||
		     ep_state(ep) == DAT_EP_STATE_DISCONNECTED)) {
		DAT_RETURN ret = recv_odd(ep, nseg, iov, cookie, flags);

		if (ret != CARRY_ON)
			return ret;
	}
	if (unlikely(ep->shared))
		spin_lock(&ep->recv_lock);
	req = ring_next(&ep->recvs, ep->recvs.limit);
	if (unlikely(!req)) {
		evd_drain(ep->recv_evd);
		req = ring_next(&ep->recvs, ep->recvs.limit);
		if (!req)
			goto full;
	}
	req->cookie = cookie;
	req->kind = REQ_RECV;
	req->unsignalled = flags & DAT_COMPLETION_UNSIGNALLED_FLAG;
	ring_push(&ep->recvs);
	err = tp_post_recv(ep->qp, req, iov, (unsigned)nseg);
	if (unlikely(err))
		goto refused;
	if (unlikely(ep->shared))
		spin_unlock(&ep->recv_lock);
	if (unlikely(may_be_ending(ep)))
		post_late(ep);
	return DAT_SUCCESS;
full:
	if (ep->shared)
		spin_unlock(&ep->recv_lock);
	return NO_RESOURCE(MEMORY);
refused: {
	DAT_RETURN ret = take_back(ep, &ep->recvs, ep->recv_evd, err);

	if (ep->shared)
		spin_unlock(&ep->recv_lock);
	return ret;
}
}
