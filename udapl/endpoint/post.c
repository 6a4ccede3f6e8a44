/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data transfer.
 *
 * All posts of requests share one body (request_post), all posts of receives another
 * (receive_post). Each call has instances of it that constants specialise (INSTANCES): for one and
 * for two segments without flags, inline in the call, for three and for four (X_plain); for one
 * with flags (X_flagged), for up to four (X_few), and for more (X_many); and for a thread-safe IA
 * (X_shared).
 * The slow path (request_slow, receive_slow) refuses the call, or does what the body has no place
 * for: flags without effect, empty segments, a full ring, an endpoint that is ending.
 *
 * A thread is not cancelled in a post, but for a system call of a device's library in a fast post
 * of a request (request_fast_or_unwind).
 *
 * Every post claims a slot of its ring, calls the transport, and looks at the gate again: if the
 * connection ended meanwhile its end may have missed the claim, so work for the service thread
 * flushes late posts. Where threads share an endpoint another one may even have reset it by then:
 * so a post looks once more, or judges the state, with the lock of posts held, and a reset waits
 * for posts that are under way.
 */
#include <errno.h>
#include <string.h>

#include "base/race.h"
#include "base/refuse.h"
#include "ep.h"

/* ---- segments ---- */

/*
 * Gives the transport the segments of a fast post. Returns false if the slow path has to look at
 * them: one is empty, the sum is more than @limit, which is at most TP_MAX_LENGTH, or no fast post
 * can be made of them.
 */
static ALWAYS_INLINE bool segments_take(struct tp_qp *qp, enum tp_post post,
					const DAT_LMR_TRIPLET *iov, unsigned nseg,
					const DAT_VLEN *limit, struct tp_taken *taken)
{
	taken->last = (DAT_VLEN)-1;
	if (unlikely(!tp_take_segment(qp, post, 0, nseg, &iov[0], taken)))
		return false;
	if (nseg > 1 && unlikely(!tp_take_segment(qp, post, 1, nseg, &iov[1], taken)))
		return false;
	if (nseg > 2 && unlikely(!tp_take_segment(qp, post, 2, nseg, &iov[2], taken)))
		return false;
	if (nseg > 3 && unlikely(!tp_take_segment(qp, post, 3, nseg, &iov[3], taken)))
		return false;
	for (unsigned i = 4; i < nseg; i++)
		if (unlikely(!tp_take_segment(qp, post, i, nseg, &iov[i], taken)))
			return false;
	return likely(taken->last < *limit);
}

/*
 * Converts the segments of a receive for a shared receive queue, and returns false as segments_take
 * does.
 */
static ALWAYS_INLINE bool segments_convert(struct tp_sge *sges, const DAT_LMR_TRIPLET *iov,
					   unsigned nseg, const DAT_VLEN *limit)
{
	struct tp_taken taken = { .sges = sges, .last = (DAT_VLEN)-1 };

	for (unsigned i = 0; i < nseg; i++)
		if (unlikely(!tp_convert(&taken, i, &iov[i])))
			return false;
	return likely(taken.last < *limit);
}

/*
 * Converts any segments, but leaves out empty ones and what is beyond @limit. Returns how many are
 * left.
 */
static unsigned segments_convert_slow(struct tp_sge *sge, const DAT_LMR_TRIPLET *iov, unsigned nseg,
				      DAT_VLEN limit)
{
	unsigned n = 0;

	for (unsigned i = 0; i < nseg; i++) {
		DAT_VLEN length = min_u64(iov[i].segment_length, limit);

		limit -= length;
		if (length)
			tp_sge_set(&sge[n++], &iov[i], length);
	}
	return n;
}

/* Adds up the lengths. Returns false if the sum is no number of 64 bits: no memory is that long. */
static bool segments_sum(const DAT_LMR_TRIPLET *iov, unsigned nseg, DAT_VLEN *size)
{
	*size = 0;
	for (unsigned i = 0; i < nseg; i++)
		if (__builtin_add_overflow(*size, iov[i].segment_length, size))
			return false;
	return true;
}

/* ---- the slow path: refusals and flushes ---- */

/*
 * It takes ia->lock, so that the request comes after all that was flushed at the end of the
 * connection. If another thread has reset the endpoint meanwhile, that was flushed, too.
 */
DAT_RETURN ep_complete_flushed(const struct req *req)
{
	struct ep *ep = req->ring->ep;
	struct ia *ia = ep->obj.ia;
	bool ok = true;

	race_reach(RACE_FLUSH, ep);
	mutex_lock(&ia->lock);
	if (ep_state(ep) == DAT_EP_STATE_DISCONNECTED && !ep->renews_qp)
		ok = ep_flush_late_locked(ep);
	ok = ok && evd_post_flushed(req->ring == &ep->recvs ? ep->recv_evd : ep->request_evd, req);
	mutex_unlock(&ia->lock);
	return ok ? DAT_SUCCESS : NO_RESOURCE(MEMORY);
}

static DAT_RETURN dto_complete_flushed(struct ring *ring, enum req_kind kind, DAT_DTO_COOKIE cookie)
{
	const struct req req = { .cookie = cookie, .ring = ring, .kind = (uint16_t)kind };

	return ep_complete_flushed(&req);
}

DAT_COMPLETION_FLAGS ep_ignored_flags(DAT_COMPLETION_FLAGS flags, unsigned plain,
				      DAT_COMPLETION_FLAGS configured)
{
	const unsigned effective = plain | (configured & DAT_COMPLETION_UNSIGNALLED_FLAG);

	return (DAT_COMPLETION_FLAGS)(flags & ~effective);
}

void ep_tell_ignored(DAT_COMPLETION_FLAGS flags, DAT_COMPLETION_FLAGS ignored)
{
	if (ignored)
		log_to(LOG_DTO, "post: of the flags %#x, %#x are ignored", (unsigned)flags,
		       (unsigned)ignored);
}

/*
 * Says whether the connection is ending while the consumer has not asked for that and has no event
 * yet. For the consumer it is still connected, and what it posts is flushed like what it posted
 * before.
 */
static bool is_ending_unasked(const struct ep *ep, unsigned state)
{
	return state == DAT_EP_STATE_DISCONNECT_PENDING && !atomic_load(&ep->end.asked);
}

/* The state is read once, because it may change meanwhile. */
DAT_EP_STATE ep_request_state(const struct ep *ep)
{
	DAT_EP_STATE state = (DAT_EP_STATE)ep_state(ep);
	bool early = state == DAT_EP_STATE_COMPLETION_PENDING && atomic_load(&ep->accepted);

	return early || is_ending_unasked(ep, state) ? DAT_EP_STATE_CONNECTED : state;
}

/* The names of the calls, by enum req_kind. */
static const char *const post_calls[] = {
	[REQ_SEND] = "dat_ep_post_send",
	[REQ_WRITE] = "dat_ep_post_rdma_write",
	[REQ_READ] = "dat_ep_post_rdma_read",
	[REQ_RECV] = "dat_ep_post_recv",
	[REQ_WRITE_IMMED] = "dat_ib_post_rdma_write_immed",
	[REQ_FETCH_ADD] = "dat_ib_post_fetch_and_add",
	[REQ_CMP_SWAP] = "dat_ib_post_cmp_and_swap",
	[REQ_SEND_UD] = "dat_ib_post_send_ud",
};

static COLD DAT_RETURN post_refused(DAT_RETURN ret, enum req_kind kind, const struct ep *ep,
				    DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
				    const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags)
{
	if (kind == REQ_SEND || kind == REQ_RECV || kind == REQ_SEND_UD)
		return refused(ret, LOG_DTO, post_calls[kind],
			       "ep %p, num_segments %d, iov %p, cookie, flags %#x",
			       (const void *)ep, nseg, (const void *)iov, (unsigned)flags);
	return refused(ret, LOG_DTO, post_calls[kind],
		       "ep %p, num_segments %d, iov %p, cookie, remote %p, flags %#x",
		       (const void *)ep, nseg, (const void *)iov, (const void *)remote,
		       (unsigned)flags);
}

/* Ends a call of which the post was judged so, and not made. No lock is held. */
static COLD DAT_RETURN not_posted(DAT_RETURN judged, enum req_kind kind, struct ep *ep,
				  DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
				  const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags)
{
	if (judged == TO_BE_FLUSHED)
		judged = dto_complete_flushed(kind == REQ_RECV ? &ep->recvs : &ep->sends, kind,
					      cookie);
	return judged == DAT_SUCCESS ? judged
				     : post_refused(judged, kind, ep, nseg, iov, remote, flags);
}

DAT_RETURN ep_request_judge(const struct ep *ep)
{
	DAT_EP_STATE state = ep_request_state(ep); /* read once: it may change meanwhile */

	switch (state) {
	case DAT_EP_STATE_CONNECTED:
		return PROCEED;
	case DAT_EP_STATE_DISCONNECTED:
		return TO_BE_FLUSHED;
	default:
		return status_of_ep_state(state);
	}
}

/*
 * Returns the most segments of such a post. A negative number of segments, as unsigned, is above
 * it.
 */
static ALWAYS_INLINE unsigned max_segments(const struct ep *ep, enum req_kind kind)
{
	switch (kind) {
	case REQ_SEND:
		return (unsigned)ep->attr.max_request_iov;
	case REQ_WRITE:
		return (unsigned)ep->attr.max_rdma_write_iov;
	case REQ_READ:
		return (unsigned)ep->attr.max_rdma_read_iov;
	default:
		return (unsigned)ep->attr.max_recv_iov;
	}
}

/* Returns the most segments that the fast path takes: the transport may split a read of more. */
static ALWAYS_INLINE unsigned fast_segments(const struct ep *ep, enum req_kind kind)
{
	return kind == REQ_READ ? ep->fast_read_segments : max_segments(ep, kind);
}

static bool is_disconnecting(const struct ep *ep)
{
	unsigned state = ep_state(ep);

	return state == DAT_EP_STATE_DISCONNECT_PENDING || state == DAT_EP_STATE_DISCONNECTED;
}

/*
 * Says whether a post that the device refuses with @status counts as taken. So it does when the
 * device has ended the connection before we know, and when we know and the consumer does not. A
 * receive may be posted until the end, and is flushed then, whether or not the device takes it in
 * that state. For want of memory a post is refused: the device may take the next one, and its
 * completion stands for all before it.
 */
static bool is_taken(const struct ep *ep, const struct ring *ring, DAT_RETURN status)
{
	if (DAT_GET_TYPE(status) == DAT_INSUFFICIENT_RESOURCES)
		return false;
	return ring == &ep->recvs ? is_disconnecting(ep) : is_ending_unasked(ep, ep_state(ep));
}

/*
 * Writes the line of a post that the device has refused and whose slot is free again. That may take
 * long, so the lock of the posts is released meanwhile, if it is held: threads that wait for it
 * spin.
 */
static DAT_RETURN post_log_relock(struct ep *ep, const struct ring *ring, enum req_kind kind,
				  DAT_RETURN status, int err)
{
	struct spinlock *lock = ring == &ep->sends ? &ep->send_lock : &ep->recv_lock;
	const bool held = ep->thread_safe || (ring == &ep->recvs && ep->posts_early);

	if (held)
		spin_unlock(lock);
	(void)refused(status, LOG_DTO, post_calls[kind], "ep %p, the device says: %s", (void *)ep,
		      strerror(-err));
	if (held)
		spin_lock(lock);
	return status;
}

/*
 * Ends a post that the transport has refused. If the end of the connection has flushed the slot
 * meanwhile, the consumer has got, or will get, its completion, so the post counts as taken.
 */
static DAT_RETURN post_failed_relock(struct ep *ep, struct ring *ring, struct evd *evd, int err)
{
	DAT_RETURN status = status_of(err, DAT_RESOURCE_MEMORY);
	bool refuse = err != -ENOTCONN && !is_taken(ep, ring, status);
	const enum req_kind kind = (enum req_kind)ring_latest(ring)->kind;

	spin_lock(&evd->lock);
	ep_marker_race(ep, ring);
	refuse = refuse && ep_state(ep) != DAT_EP_STATE_DISCONNECTED && ring_used(ring);
	if (refuse)
		ring_unpush(ring);
	else
		ring->kept_back |= err != -ENOTCONN; /* which a device says of all */
	spin_unlock(&evd->lock);
	if (refuse && kind == REQ_BIND) /* it may be tried in another way */
		return status;
	if (refuse)
		return post_log_relock(ep, ring, kind, status, err);
	atomic_store(&ep->seen.flushed, true);
	/* completes the request as flushed if it is still in the ring */
	service_queue_work(ep->obj.ia, &ep->work);
	return DAT_SUCCESS;
}

static COLD DAT_RETURN request_failed(struct ep *ep, int err)
{
	return post_failed_relock(ep, &ep->sends, ep->request_evd, err);
}

static COLD DAT_RETURN receive_failed(struct ep *ep, int err)
{
	return post_failed_relock(ep, &ep->recvs, ep->recv_evd, err);
}

/*
 * Ends a receive that was posted, when its gate was closed during the post or before: the end of
 * the connection may have missed it.
 */
static COLD DAT_RETURN receive_gate_closed(struct ep *ep)
{
	if (is_disconnecting(ep))
		service_queue_work(ep->obj.ia, &ep->work);
	return DAT_SUCCESS;
}

static COLD DAT_RETURN request_gate_closed(struct ep *ep)
{
	CANCEL_FORBIDDEN;
	if (!is_disconnecting(ep))
		return DAT_SUCCESS;
	spin_lock(&ep->request_evd->lock);
	ep_marker_race(ep, &ep->sends);
	spin_unlock(&ep->request_evd->lock);
	return receive_gate_closed(ep);
}

/* ---- requests ---- */

/*
 * Says what is wrong with the segments of a request that may have @max of them, or PROCEED. *size
 * is the sum of their lengths.
 */
static ALWAYS_INLINE DAT_RETURN segments_judge(const struct ep *ep, DAT_COUNT nseg, unsigned max,
					       const DAT_LMR_TRIPLET *iov, DAT_VLEN *size)
{
	if ((unsigned)nseg > max)
		return BAD_ARG(2);
	if ((nseg && !iov) || !segments_sum(iov, (unsigned)nseg, size) || *size > ep->max_transfer)
		return BAD_ARG(3);
	return PROCEED;
}

/*
 * Says what is wrong with a request, or TO_BE_FLUSHED; or PROCEED: then it has a slot. *size is the
 * sum of the lengths of its segments.
 */
static DAT_RETURN request_judge(struct ep *ep, enum req_kind kind, DAT_COUNT nseg,
				const DAT_LMR_TRIPLET *iov, const DAT_RMR_TRIPLET *remote,
				DAT_VLEN *size)
{
	DAT_RETURN ret = segments_judge(ep, nseg, max_segments(ep, kind), iov, size);

	if (ret == PROCEED && kind != REQ_SEND && !remote)
		return BAD_ARG(5);
	return ret == PROCEED ? ep_request_admit(ep, kind) : ret;
}

/*
 * Posts a request that tp_take_segment has not taken. @split: a read takes several work requests.
 */
static int request_to_transport(struct ep *ep, enum req_kind kind, struct req *req, unsigned nsge,
				bool split, const DAT_RMR_TRIPLET *remote, unsigned post_flags)
{
	const struct tp_sge *sge = ep->sends.sges;
	const uint32_t size = (uint32_t)req->size;

	switch (kind) {
	case REQ_SEND:
		return tp_post_send(ep->qp, req, sge, nsge, size, post_flags);
	case REQ_WRITE:
		return tp_post_write(ep->qp, req, sge, nsge, size, remote, post_flags);
	default:
		if (split)
			return tp_post_split_read(ep->qp, req, sge, nsge, remote, post_flags);
		return tp_post_read(ep->qp, req, sge, nsge, remote, post_flags);
	}
}

static ALWAYS_INLINE int request_fast(struct tp_qp *qp, enum req_kind kind, struct req *req,
				      const struct tp_taken *taken, unsigned nseg,
				      const DAT_RMR_TRIPLET *remote, unsigned post_flags)
{
	switch (kind) {
	case REQ_SEND:
		return tp_fast_send(qp, req, taken, nseg, post_flags);
	case REQ_WRITE:
		return tp_fast_write(qp, req, taken, nseg, remote, post_flags);
	default:
		return tp_fast_read(qp, req, taken, nseg, remote, post_flags);
	}
}

static ALWAYS_INLINE enum tp_post post_of(enum req_kind kind)
{
	switch (kind) {
	case REQ_SEND:
		return TP_SEND;
	case REQ_WRITE:
		return TP_WRITE;
	case REQ_WRITE_IMMED:
		return TP_WRITE_IMMED;
	case REQ_FETCH_ADD:
	case REQ_CMP_SWAP:
		return TP_ATOMIC;
	default:
		return TP_READ;
	}
}

static COLD DAT_RETURN request_refused_late(struct ep *ep, int result, unsigned nseg)
{
	CANCEL_FORBIDDEN;
	struct req *req = ring_latest(&ep->sends);
	int err = tp_post_refused(ep->qp, post_of(req->kind), req, nseg, result);

	return err ? request_failed(ep, err) : request_gate_closed(ep);
}

COLD void ep_request_cancelled(struct ep *ep, unsigned open)
{
	tp_post_cancelled(ep->qp);
	if (gate_value(&ep->send_gate) != open)
		(void)request_gate_closed(ep);
	if (open == EP_SHARED || open == EP_DATAGRAM_SHARED)
		spin_unlock(&ep->send_lock);
}

/*
 * Makes a fast post, in which the thread may be cancelled in a system call of the device's library.
 * Then its stack is unwound, as that of an exception is, and the post ends as if it had returned.
 */
static ALWAYS_INLINE int request_fast_or_unwind(struct ep *ep, unsigned open, struct tp_qp *qp,
						enum req_kind kind, struct req *req,
						const struct tp_taken *taken, unsigned nseg,
						const DAT_RMR_TRIPLET *remote, unsigned post_flags)
{
	__attribute__((cleanup(posting_end))) struct posting posting = { .ep = ep, .open = open };
	int result = request_fast(qp, kind, req, taken, nseg, remote, post_flags);

	posting.returned = true;
	return result;
}

/* Ends a request that was given to the transport: this is the last look at the gate. */
static ALWAYS_INLINE DAT_RETURN request_posted(struct ep *ep, int result, unsigned nseg,
					       unsigned open)
{
	GOTO_IF_FAILED(result, refused);
	if (unlikely(gate_value(&ep->send_gate) != open))
		return request_gate_closed(ep);
	if (open == EP_OPEN)
		KEEP_APART(nseg);
	return (DAT_RETURN)result; /* DAT_SUCCESS */
refused:
	LEAVE_IN_PLACE(result);
	return request_refused_late(ep, result, nseg);
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
 * Returns the flags of a request. Of a run of suppressed requests one in half a ring is signalled
 * all the same: its completion, which makes no event, retires the slots. So a full ring always has
 * a request that will complete.
 */
static ALWAYS_INLINE unsigned request_post_flags(struct ep *ep, enum req_kind kind,
						 DAT_COMPLETION_FLAGS flags)
{
	unsigned post_flags = TP_POST_SIGNAL;

	if (tp_post_flags & TP_POST_SIGNAL && flags & DAT_COMPLETION_SUPPRESS_FLAG &&
	    !(kind == REQ_READ && ep->sends.loses_reads) && !ring_signal_due(&ep->sends))
		post_flags = 0;
	post_flags |= flags & DAT_COMPLETION_BARRIER_FENCE_FLAG ? TP_POST_FENCE : 0;
	post_flags |= flags & DAT_COMPLETION_SOLICITED_WAIT_FLAG ? TP_POST_SOLICIT : 0;
	return post_flags;
}

/* Looks for room in a ring that seems full: completions that were not polled yet occupy slots. */
static COLD bool ring_poll_room(struct ring *ring, struct evd *evd)
{
	evd_drain(evd);
	return ring_has_room(ring);
}

static bool ring_make_room(struct ring *ring, struct evd *evd)
{
	return likely(ring_has_room(ring)) || ring_poll_room(ring, evd);
}

bool ep_has_room(struct ep *ep)
{
	return ring_make_room(&ep->sends, ep->request_evd);
}

DAT_RETURN ep_take_room(struct ep *ep)
{
	return ep_has_room(ep) && ring_take_room(&ep->sends) ? PROCEED : NO_RESOURCE(MEMORY);
}

DAT_RETURN ep_request_admit(struct ep *ep, enum req_kind kind)
{
	const bool reads = kind == REQ_READ || kind == REQ_FETCH_ADD || kind == REQ_CMP_SWAP;
	DAT_RETURN ret = ep_request_judge(ep);

	if (ret == PROCEED && reads && ep->attr.max_rdma_read_out == 0)
		return BAD_STATE(EP_NOTREADY); /* on the wire it would break the connection */
	return ret == PROCEED ? ep_take_room(ep) : ret;
}

void ep_post_begin(struct ep *ep)
{
	race_reach(RACE_POST, ep);
	if (ep->thread_safe)
		spin_lock(&ep->send_lock);
}

void ep_post_end(struct ep *ep)
{
	if (ep->thread_safe)
		spin_unlock(&ep->send_lock);
}

void ep_await_posts(struct ep *ep)
{
	if (!ep->thread_safe)
		return;
	spin_lock(&ep->send_lock);
	spin_unlock(&ep->send_lock);
	spin_lock(&ep->recv_lock);
	spin_unlock(&ep->recv_lock);
}

struct req *ep_claim_bind(struct ep *ep, struct binding *binding, DAT_RMR_COOKIE cookie,
			  DAT_COMPLETION_FLAGS flags)
{
	struct req *req = ring_next(&ep->sends);

	req->cookie = cookie;
	req->binding = binding;
	req_set_kind(req, REQ_BIND, flags | REQ_SLOW_PATH);
	ring_push(&ep->sends, req);
	return req;
}

/* Posts a request for which request_judge has said PROCEED. */
static DAT_RETURN request_post_slow(struct ep *ep, enum req_kind kind, DAT_COUNT nseg,
				    const DAT_LMR_TRIPLET *iov, DAT_VLEN size,
				    DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
				    DAT_COMPLETION_FLAGS flags)
{
	const unsigned nsge = segments_convert_slow(ep->sends.sges, iov, (unsigned)nseg, size);
	const bool split = nsge > fast_segments(ep, kind);
	unsigned post_flags;
	struct req *req;

	if (kind == REQ_READ && ep->obj.ia->attr->caps & TP_CAP_ORDERED_READS)
		flags &= ~(unsigned)DAT_COMPLETION_BARRIER_FENCE_FLAG;
	post_flags = request_post_flags(ep, kind, flags);
	req = ep_claim_request(ep, kind, size, cookie, flags);
	if (ep->sends.kept_back)
		return request_failed(ep, -ENOTCONN);
	return request_posted(ep,
			      request_to_transport(ep, kind, req, nsge, split, remote, post_flags),
			      nsge, EP_OPEN);
}

/* To flush and to log is not for spinlocks. */
static NOINLINE DAT_RETURN request_slow(struct ep *ep, enum req_kind kind, DAT_COUNT nseg,
					const DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
					const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags)
{
	CANCEL_FORBIDDEN;
	DAT_COMPLETION_FLAGS ignored = 0;
	DAT_RETURN judged, ret;
	DAT_VLEN size;

	if (!obj_is(ep, DAT_HANDLE_TYPE_EP) || ep_has_datagrams(ep))
		return post_refused(BAD_HANDLE(EP), kind, ep, nseg, iov, remote, flags);
	ep_post_begin(ep);
	judged = ret = request_judge(ep, kind, nseg, iov, remote, &size);
	if (judged == PROCEED) {
		ignored = ep_ignored_flags(flags, kind == REQ_SEND ? SEND_FLAGS : RDMA_FLAGS,
					   ep->attr.request_completion_flags);
		ret = request_post_slow(ep, kind, nseg, iov, size, cookie, remote,
					(DAT_COMPLETION_FLAGS)(flags ^ ignored));
	}
	ep_post_end(ep);
	if (judged != PROCEED)
		return not_posted(judged, kind, ep, nseg, iov, cookie, remote, flags);
	ep_tell_ignored(flags, ignored);
	return ret;
}

/* The body of every post of a request: send, read and write. The gate was at @open. */
static ALWAYS_INLINE DAT_RETURN request_post(struct ep *ep, enum req_kind kind, unsigned open,
					     unsigned nseg, const DAT_LMR_TRIPLET *iov,
					     DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
					     DAT_COMPLETION_FLAGS flags)
{
	struct tp_taken taken;
	struct tp_qp *qp;
	unsigned post_flags = TP_POST_SIGNAL;
	struct req *req;
	DAT_RETURN ret;

	if (unlikely(!iov))
		goto slow;
	if (kind != REQ_SEND && unlikely(!remote))
		goto slow;
	race_reach(RACE_POST, ep);
	if (open == EP_SHARED)
		spin_lock(&ep->send_lock);
	if (open == EP_SHARED && unlikely(gate_value(&ep->send_gate) != open))
		goto unlock;
	if (unlikely(nseg > FEW_SEGMENTS && nseg > fast_segments(ep, kind)))
		goto unlock;
	if (unlikely(flags & ep->slow_flags[kind]))
		goto unlock;
	taken.sges = ep->sends.sges;
	qp = ep->qp;
	if (unlikely(!segments_take(qp, post_of(kind), iov, nseg,
				    &ep->limits[kind][nseg > FEW_SEGMENTS ? 1 : nseg], &taken)))
		goto unlock;
	if (unlikely(!ring_take_room(&ep->sends)))
		goto unlock;
	if (!(tp_post_flags & TP_POST_SIGNAL) || unlikely(flags))
		post_flags = request_post_flags(ep, kind, flags);
	req = ep_claim_request(ep, kind, tp_taken_size(&taken, nseg), cookie, flags);
	ret = request_posted(
		ep,
		request_fast_or_unwind(ep, open, qp, kind, req, &taken, nseg, remote, post_flags),
		nseg, open);
	if (open == EP_SHARED)
		spin_unlock(&ep->send_lock);
	return ret;
unlock:
	if (open == EP_SHARED)
		spin_unlock(&ep->send_lock);
slow:
	return request_slow(ep, kind, (DAT_COUNT)nseg, iov, cookie, remote, flags);
}

/* ---- receives ---- */

static COLD DAT_RETURN receive_refused_late(struct ep *ep, int result, unsigned nseg)
{
	CANCEL_FORBIDDEN;
	int err = tp_post_refused(ep->qp, TP_RECV, ring_latest(&ep->recvs), nseg, result);

	return err ? receive_failed(ep, err) : receive_gate_closed(ep);
}

static COLD DAT_RETURN receive_late(struct ep *ep)
{
	CANCEL_FORBIDDEN;
	if (tp_recv_posted(ep->recv_cq))
		tp_recv_late(ep->qp, ring_latest(&ep->recvs));
	return receive_gate_closed(ep);
}

/* Claims the next slot for a receive. There is room in the ring, and it was taken. */
static ALWAYS_INLINE struct req *receive_claim(struct ep *ep, DAT_DTO_COOKIE cookie,
					       DAT_COMPLETION_FLAGS flags)
{
	struct req *req = ring_next(&ep->recvs);

	req->cookie = cookie;
	req_set_kind(req, REQ_RECV, flags);
	ring_publish(&ep->recvs, req);
	return req;
}

/* Ends a receive that was given to the transport: this is the last look at the gate. */
static ALWAYS_INLINE DAT_RETURN receive_posted(struct ep *ep, int result, unsigned nseg,
					       unsigned open)
{
	GOTO_IF_FAILED(result, refused);
	debug_assert(ep->recv_cq == ep->recv_evd->cq);
	if (unlikely(tp_recv_posted(ep->recv_cq)) || unlikely(gate_value(&ep->recv_gate) != open))
		return receive_late(ep);
	if (open == EP_OPEN)
		KEEP_APART(nseg);
	return (DAT_RETURN)result; /* DAT_SUCCESS */
refused:
	LEAVE_IN_PLACE(result);
	return receive_refused_late(ep, result, nseg);
}

static bool receive_is_early(const struct ep *ep)
{
	return !ep_has_been_connected(ep) && !ep_has_datagrams(ep);
}

/*
 * Says what is wrong with a receive, or TO_BE_FLUSHED; or PROCEED: then it has a slot, and if it is
 * @early, there is memory to remember it.
 */
static DAT_RETURN receive_judge(struct ep *ep, bool early, DAT_COUNT nseg,
				const DAT_LMR_TRIPLET *iov)
{
	DAT_VLEN size;

	if (ep->srq)
		return BAD_ARG(1);
	if ((unsigned)nseg > max_segments(ep, REQ_RECV))
		return BAD_ARG(2);
	if ((nseg && !iov) || !segments_sum(iov, (unsigned)nseg, &size))
		return BAD_ARG(3);
	if (ep_state(ep) == DAT_EP_STATE_DISCONNECTED) /* and a reset may have taken the QP */
		return TO_BE_FLUSHED;
	if (!ep->qp)
		return BAD_STATE(EP_NOTREADY);
	if ((early && !ep_room_to_remember(ep)) || !ring_make_room(&ep->recvs, ep->recv_evd) ||
	    !ring_take_room(&ep->recvs))
		return NO_RESOURCE(MEMORY);
	return PROCEED;
}

/* Posts a receive for which receive_judge has said PROCEED. */
static DAT_RETURN receive_post_slow(struct ep *ep, bool early, DAT_COUNT nseg,
				    const DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
				    DAT_COMPLETION_FLAGS flags)
{
	/* no message is longer, and the device counts in 32 bits */
	const unsigned nsge = segments_convert_slow(ep->recvs.sges, iov, (unsigned)nseg,
						    TP_MAX_LENGTH);
	struct req *req = receive_claim(ep, cookie, flags);
	DAT_RETURN ret;

	if (ep->recvs.kept_back)
		return receive_failed(ep, -ENOTCONN);
	ret = receive_posted(ep, tp_post_recv(ep->qp, req, ep->recvs.sges, nsge), nsge, EP_OPEN);
	if (ret == DAT_SUCCESS && early)
		ep_remember_recv(ep, nsge, cookie, flags);
	return ret;
}

/*
 * Early receives are forgotten by the thread that notices the connection, and moved by one that
 * modifies the endpoint, so they take the lock on any IA. To flush and to log is not for spinlocks.
 */
static NOINLINE DAT_RETURN receive_slow(struct ep *ep, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
					DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
	CANCEL_FORBIDDEN;
	DAT_COMPLETION_FLAGS ignored = 0;
	DAT_RETURN judged, ret;
	bool early, locked;

	if (!obj_is(ep, DAT_HANDLE_TYPE_EP))
		return post_refused(BAD_HANDLE(EP), REQ_RECV, ep, nseg, iov, NULL, flags);
	early = receive_is_early(ep);
	locked = ep->thread_safe || early;
	race_reach(RACE_POST, ep);
	if (locked)
		spin_lock(&ep->recv_lock);
	ep->posts_early = early;
	early = receive_is_early(ep); /* another thread may have reset it meanwhile */
	judged = ret = receive_judge(ep, early, nseg, iov);
	if (judged == PROCEED) {
		ignored = ep_ignored_flags(flags, 0, ep->attr.recv_completion_flags);
		ret = receive_post_slow(ep, early, nseg, iov, cookie,
					(DAT_COMPLETION_FLAGS)(flags ^ ignored));
	}
	ep->posts_early = false;
	if (locked)
		spin_unlock(&ep->recv_lock);
	if (judged != PROCEED)
		return not_posted(judged, REQ_RECV, ep, nseg, iov, cookie, NULL, flags);
	ep_tell_ignored(flags, ignored);
	return ret;
}

/*
 * The body of every post of a receive, whose gate was at @open. A buffer that is longer than the
 * limit takes the slow path.
 */
static ALWAYS_INLINE DAT_RETURN receive_post(struct ep *ep, unsigned open, unsigned nseg,
					     const DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
					     DAT_COMPLETION_FLAGS flags)
{
	struct tp_taken taken;
	struct tp_qp *qp;
	struct req *req;
	DAT_RETURN ret;

	if (unlikely(!iov))
		goto slow;
	race_reach(RACE_POST, ep);
	if (open == EP_SHARED)
		spin_lock(&ep->recv_lock);
	if (open == EP_SHARED && unlikely(gate_value(&ep->recv_gate) != open))
		goto unlock;
	if (unlikely(nseg > FEW_SEGMENTS && nseg > max_segments(ep, REQ_RECV)))
		goto unlock;
	if (unlikely(flags & ep->slow_flags[REQ_RECV]))
		goto unlock;
	taken.sges = ep->recvs.sges;
	qp = ep->qp;
	if (unlikely(!segments_take(qp, TP_RECV, iov, nseg,
				    &ep->limits[REQ_RECV][nseg > FEW_SEGMENTS ? 1 : nseg], &taken)))
		goto unlock;
	if (unlikely(!ring_take_room(&ep->recvs)))
		goto unlock;
	req = receive_claim(ep, cookie, flags);
	ret = receive_posted(ep, tp_fast_recv(qp, req, &taken, nseg), nseg, open);
	if (open == EP_SHARED)
		spin_unlock(&ep->recv_lock);
	return ret;
unlock:
	if (open == EP_SHARED)
		spin_unlock(&ep->recv_lock);
slow:
	return receive_slow(ep, (DAT_COUNT)nseg, iov, cookie, flags);
}

/* ---- for requests of extensions ---- */

#if DAT_EDITION == 2
COLD DAT_RETURN ep_not_posted(DAT_RETURN judged, enum req_kind kind, struct ep *ep, DAT_COUNT nseg,
			      const DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
			      const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags)
{
	return not_posted(judged, kind, ep, nseg, iov, cookie, remote, flags);
}

DAT_RETURN ep_segments_judge(const struct ep *ep, DAT_COUNT nseg, DAT_COUNT max,
			     const DAT_LMR_TRIPLET *iov, DAT_VLEN *size)
{
	return segments_judge(ep, nseg, (unsigned)max, iov, size);
}

unsigned ep_segments_convert(struct ep *ep, const DAT_LMR_TRIPLET *iov, unsigned nseg,
			     DAT_VLEN size)
{
	return segments_convert_slow(ep->sends.sges, iov, nseg, size);
}

unsigned ep_request_flags(struct ep *ep, DAT_COMPLETION_FLAGS flags)
{
	return request_post_flags(ep, REQ_EXTENDED, flags);
}

DAT_RETURN ep_request_posted(struct ep *ep, int result, unsigned nseg, unsigned open)
{
	return request_posted(ep, result, nseg, open);
}
#endif

/* ---- the calls ---- */

/* The parameters of each function that follows. @remote is that of RDMA, and NULL otherwise. */
#define POST_PARAMETERS                                                                            \
	struct ep *ep, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,          \
		const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags
/* In such a function these are its arguments, but for the three that are given. */
#define WITH(ep, nseg, flags) ep, nseg, iov, cookie, remote, flags

static ALWAYS_INLINE DAT_RETURN post(enum req_kind kind, unsigned open, POST_PARAMETERS)
{
	if (kind == REQ_RECV)
		return receive_post(ep, open, (unsigned)nseg, iov, cookie, flags);
	return request_post(ep, kind, open, (unsigned)nseg, iov, cookie, remote, flags);
}

static ALWAYS_INLINE DAT_RETURN post_slow(enum req_kind kind, POST_PARAMETERS)
{
	if (kind == REQ_RECV)
		return receive_slow(ep, nseg, iov, cookie, flags);
	return request_slow(ep, kind, nseg, iov, cookie, remote, flags);
}

static ALWAYS_INLINE unsigned post_gate(const struct ep *ep, enum req_kind kind)
{
	return gate_value(kind == REQ_RECV ? &ep->recv_gate : &ep->send_gate);
}

#define INSTANCE(name) NOINLINE HOT static DAT_RETURN name(POST_PARAMETERS)

/*
 * The functions of one call: each posts what is its own, and leaves the rest to one above it. The
 * last one is the call.
 */
#define INSTANCES(call, kind)                                                                      \
	INSTANCE(call##_many)                                                                      \
	{                                                                                          \
		if (unlikely(nseg <= FEW_SEGMENTS))                                                \
			return post_slow(kind, WITH(ep, nseg, flags));                             \
		return post(kind, EP_OPEN, WITH(ep, nseg, flags));                                 \
	}                                                                                          \
	INSTANCE(call##_few)                                                                       \
	{                                                                                          \
		if (unlikely(nseg < 2 || nseg > FEW_SEGMENTS))                                     \
			return call##_many(WITH(ep, nseg, flags));                                 \
		return post(kind, EP_OPEN, WITH(ep, nseg, flags));                                 \
	}                                                                                          \
	INSTANCE(call##_flagged)                                                                   \
	{                                                                                          \
		if (unlikely(nseg != 1))                                                           \
			return call##_few(WITH(ep, nseg, flags));                                  \
		return post(kind, EP_OPEN, WITH(ep, 1, flags));                                    \
	}                                                                                          \
	INSTANCE(call##_plain)                                                                     \
	{                                                                                          \
		(void)flags; /* none */                                                            \
		if (likely(nseg == 4))                                                             \
			return post(kind, EP_OPEN, WITH(ep, 4, 0));                                \
		if (likely(nseg == 3))                                                             \
			return post(kind, EP_OPEN, WITH(ep, 3, 0));                                \
		return call##_many(WITH(ep, nseg, 0));                                             \
	}                                                                                          \
	INSTANCE(call##_shared_many)                                                               \
	{                                                                                          \
		if (unlikely(nseg <= 0))                                                           \
			return post_slow(kind, WITH(ep, nseg, flags));                             \
		return post(kind, EP_SHARED, WITH(ep, nseg, flags));                               \
	}                                                                                          \
	INSTANCE(call##_shared_four)                                                               \
	{                                                                                          \
		if (unlikely(nseg != 4))                                                           \
			return call##_shared_many(WITH(ep, nseg, flags));                          \
		return post(kind, EP_SHARED, WITH(ep, 4, flags));                                  \
	}                                                                                          \
	INSTANCE(call##_shared)                                                                    \
	{                                                                                          \
		if (unlikely(post_gate(ep, kind) != EP_SHARED))                                    \
			return post_slow(kind, WITH(ep, nseg, flags));                             \
		if (likely(nseg == 1))                                                             \
			return post(kind, EP_SHARED, WITH(LATE_COPY(ep), 1, flags));               \
		if (likely(nseg == 2))                                                             \
			return post(kind, EP_SHARED, WITH(LATE_COPY(ep), 2, flags));               \
		return call##_shared_four(WITH(ep, nseg, flags));                                  \
	}                                                                                          \
	static ALWAYS_INLINE DAT_RETURN call##_post(POST_PARAMETERS)                               \
	{                                                                                          \
		if (unlikely(post_gate(ep, kind) != EP_OPEN))                                      \
			return call##_shared(WITH(ep, nseg, flags));                               \
		if (unlikely(flags))                                                               \
			return call##_flagged(WITH(ep, nseg, flags));                              \
		if (likely(nseg == 1))                                                             \
			return post(kind, EP_OPEN, WITH(LATE_COPY(ep), 1, 0));                     \
		if (likely(nseg == 2))                                                             \
			return post(kind, EP_OPEN, WITH(LATE_COPY(ep), 2, 0));                     \
		return call##_plain(WITH(ep, nseg, 0));                                            \
	}

INSTANCES(send, REQ_SEND)
INSTANCES(write, REQ_WRITE)
INSTANCES(read, REQ_READ)
INSTANCES(recv, REQ_RECV)

HOT DAT_RETURN ep_post_send(DAT_EP_HANDLE handle, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov,
			    DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
	return ep_count_post(handle, REQ_SEND, nseg, iov,
			     send_post(handle, nseg, iov, cookie, NULL, flags));
}

HOT DAT_RETURN ep_post_rdma_write(DAT_EP_HANDLE handle, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov,
				  DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
				  DAT_COMPLETION_FLAGS flags)
{
	return ep_count_post(handle, REQ_WRITE, nseg, iov,
			     write_post(handle, nseg, iov, cookie, remote, flags));
}

HOT DAT_RETURN ep_post_rdma_read(DAT_EP_HANDLE handle, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov,
				 DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
				 DAT_COMPLETION_FLAGS flags)
{
	return ep_count_post(handle, REQ_READ, nseg, iov,
			     read_post(handle, nseg, iov, cookie, remote, flags));
}

HOT DAT_RETURN ep_post_recv(DAT_EP_HANDLE handle, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov,
			    DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
	return ep_count_post(handle, REQ_RECV, nseg, iov,
			     recv_post(handle, nseg, iov, cookie, NULL, flags));
}

/* ---- receives of shared receive queues ---- */

/* Takes a free slot. Returns NULL if as many receives are outstanding as there may be. */
static ALWAYS_INLINE struct req *slot_take(struct srq *srq)
{
	struct req *slot = srq->spares;

	if (unlikely(!slot))
		slot = atomic_exchange_explicit(&srq->pool.returned, NULL, memory_order_acquire);
	if (likely(slot))
		srq->spares = slot->next_free;
	return slot;
}

/*
 * Writes the line of a receive that is refused, as post_log_relock does. @locked: the lock of the
 * posts is held, and is released meanwhile.
 */
static DAT_RETURN srq_log_relock(struct srq *srq, bool locked, DAT_RETURN status, const char *why)
{
	if (locked)
		spin_unlock(&srq->post_lock);
	(void)refused(status, LOG_DTO, "dat_srq_post_recv", "srq %p%s%s", (void *)srq,
		      *why ? ", the device says: " : "", why);
	if (locked)
		spin_lock(&srq->post_lock);
	return status;
}

/* Gives back the slot of a receive that the device has refused. */
static COLD DAT_RETURN slot_post_failed_relock(struct srq *srq, bool locked, struct req *slot,
					       int result)
{
	CANCEL_FORBIDDEN;
	const int err = tp_post_error(result);

	pool_return(&srq->pool, slot);
	return srq_log_relock(srq, locked, status_of(err, DAT_RESOURCE_MEMORY), strerror(-err));
}

static COLD DAT_RETURN srq_full_relock(struct srq *srq, bool locked)
{
	return srq_log_relock(srq, locked, NO_RESOURCE(MEMORY), "");
}

static COLD DAT_RETURN srq_post_refused(DAT_RETURN ret, const struct srq *srq, DAT_COUNT nseg,
					const DAT_LMR_TRIPLET *iov)
{
	return refused(ret, LOG_DTO, "dat_srq_post_recv", "srq %p, num_segments %d, iov %p",
		       (const void *)srq, nseg, (const void *)iov);
}

/*
 * Posts a receive, whose segments are in the queue's array. @locked: the lock of the posts is held.
 */
static ALWAYS_INLINE DAT_RETURN slot_post(struct srq *srq, bool locked, unsigned nsge,
					  DAT_DTO_COOKIE cookie)
{
	unsigned posts = atomic_load_explicit(&srq->pool.ring.tail, memory_order_relaxed);
	struct req *slot = slot_take(srq);
	int result;

	if (unlikely(!slot))
		return srq_full_relock(srq, locked);
	slot->cookie = cookie;
	atomic_store_explicit(&srq->pool.ring.tail, posts + 1, memory_order_release);
	result = tp_srq_post(srq->tp, slot, srq->pool.ring.sges, nsge);
	if (unlikely(result))
		return slot_post_failed_relock(srq, locked, slot, result);
	return (DAT_RETURN)result; /* DAT_SUCCESS */
}

/* Refuses the post, or makes one whose segments the fast path does not convert. */
static NOINLINE DAT_RETURN srq_post_slow(struct srq *srq, DAT_COUNT nseg,
					 const DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie)
{
	CANCEL_FORBIDDEN;
	DAT_RETURN ret;
	DAT_VLEN size;
	unsigned nsge;

	if (!obj_is(srq, DAT_HANDLE_TYPE_SRQ))
		return srq_post_refused(BAD_HANDLE(SRQ), srq, nseg, iov);
	if ((unsigned)nseg > srq->max_segments)
		return srq_post_refused(BAD_ARG(2), srq, nseg, iov);
	if ((nseg && !iov) || !segments_sum(iov, (unsigned)nseg, &size))
		return srq_post_refused(BAD_ARG(3), srq, nseg, iov);
	if (atomic_load(&srq->state) != DAT_SRQ_STATE_OPERATIONAL)
		return srq_post_refused(BAD_STATE(SRQ_ERROR), srq, nseg, iov);
	spin_lock(&srq->post_lock);
	nsge = segments_convert_slow(srq->pool.ring.sges, iov, (unsigned)nseg, TP_MAX_LENGTH);
	ret = slot_post(srq, true, nsge, cookie);
	spin_unlock(&srq->post_lock);
	return ret;
}

/* The body of every post to a shared receive queue, whose gate was at @open. */
static ALWAYS_INLINE DAT_RETURN srq_post(struct srq *srq, unsigned open, unsigned nseg,
					 const DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie)
{
	DAT_RETURN ret;

	if (unlikely(nseg > srq->max_segments || !iov))
		goto slow;
	if (open == SRQ_SHARED)
		spin_lock(&srq->post_lock);
	if (unlikely(!segments_convert(srq->pool.ring.sges, iov, nseg, &srq->max_transfer)))
		goto unlock;
	ret = slot_post(srq, open == SRQ_SHARED, nseg, cookie);
	if (open == SRQ_SHARED)
		spin_unlock(&srq->post_lock);
	return ret;
unlock:
	if (open == SRQ_SHARED)
		spin_unlock(&srq->post_lock);
slow:
	return srq_post_slow(srq, (DAT_COUNT)nseg, iov, cookie);
}

NOINLINE HOT static DAT_RETURN srq_post_shared(struct srq *srq, DAT_COUNT nseg,
					       const DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie)
{
	if (unlikely(gate_value(&srq->gate) != SRQ_SHARED || nseg <= 0))
		return srq_post_slow(srq, nseg, iov, cookie);
	return srq_post(srq, SRQ_SHARED, (unsigned)nseg, iov, cookie);
}

NOINLINE HOT static DAT_RETURN srq_post_many(struct srq *srq, DAT_COUNT nseg,
					     const DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie)
{
	if (unlikely(nseg <= 0))
		return srq_post_slow(srq, nseg, iov, cookie);
	return srq_post(srq, SRQ_OPEN, (unsigned)nseg, iov, cookie);
}

HOT DAT_RETURN srq_post_recv(DAT_SRQ_HANDLE handle, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov,
			     DAT_DTO_COOKIE cookie)
{
	struct srq *srq = handle;

	if (unlikely(gate_value(&srq->gate) != SRQ_OPEN))
		return srq_post_shared(srq, nseg, iov, cookie);
	if (likely(nseg == 1))
		return srq_post(srq, SRQ_OPEN, 1, iov, cookie);
	return srq_post_many(srq, nseg, iov, cookie);
}
