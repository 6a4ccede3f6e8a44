/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of the extensions of DAT 2.0: writes with immediate data, atomic operations, datagrams.
 * They have the gates, locks, slots and refusals of those in post.c. Here, too, a fast path takes
 * what is common, that is one segment without flags, and a slow path has the rest and the refusals.
 */
#include <errno.h>

#include "ep.h"

/* What such a request has beside segments and a remote range. */
struct extra {
	uint32_t immed;
	struct tp_atomic atomic;
};

/* What both atomic operations answer to a wrong operand, wherever that is among the arguments. */
#define BAD_OPERAND BAD_ARG(4)

#define ATOMIC_SIZE sizeof(uint64_t)

static int post_extended(struct ep *ep, struct req *req, const struct tp_sge *sges, unsigned nsge,
			 const DAT_RMR_TRIPLET *remote, const struct extra *extra,
			 unsigned post_flags)
{
	if (req->kind == REQ_WRITE_IMMED)
		return tp_post_write_immed(ep->qp, req, sges, nsge, (uint32_t)req->size, remote,
					   extra->immed, post_flags);
	return tp_post_atomic(ep->qp, req, sges, remote, &extra->atomic, post_flags);
}

/*
 * Claims the next slot as ep_claim_request does. A completion that is an event takes the slow path,
 * which has what is peculiar to it; of suppressed requests all do so.
 */
static ALWAYS_INLINE struct req *extended_claim(struct ep *ep, enum req_kind kind, DAT_VLEN size,
						DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
	return ep_claim_request(ep, kind, size, cookie,
				flags & DAT_COMPLETION_SUPPRESS_FLAG ? flags
								     : flags | REQ_SLOW_PATH);
}

/* ---- the slow path ---- */

/* Says what is wrong with the operands, or PROCEED. *size is the sum of their lengths. */
static DAT_RETURN write_judge(const struct ep *ep, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
			      const DAT_RMR_TRIPLET *remote, DAT_VLEN *size)
{
	DAT_RETURN ret;

	if (!(ep->obj.ia->attr->caps & TP_CAP_IMMED))
		return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	ret = ep_segments_judge(ep, nseg, ep->attr.max_rdma_write_iov, iov, size);
	return ret == PROCEED && nseg && !remote ? BAD_ARG(5) : ret;
}

static DAT_RETURN atomic_judge(const struct ep *ep, const DAT_LMR_TRIPLET *iov,
			       const DAT_RMR_TRIPLET *remote, DAT_VLEN *size)
{
	if (!(ep->obj.ia->attr->caps & TP_CAP_ATOMIC))
		return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	if (!iov || iov->segment_length != ATOMIC_SIZE)
		return BAD_OPERAND;
	if (!remote || tp_remote_address(remote) % ATOMIC_SIZE)
		return BAD_OPERAND;
	*size = ATOMIC_SIZE;
	return PROCEED;
}

/* As request_judge of post.c. */
static DAT_RETURN extended_judge(struct ep *ep, enum req_kind kind, DAT_COUNT nseg,
				 const DAT_LMR_TRIPLET *iov, const DAT_RMR_TRIPLET *remote,
				 DAT_VLEN *size)
{
	DAT_RETURN ret = kind == REQ_WRITE_IMMED ? write_judge(ep, nseg, iov, remote, size)
						 : atomic_judge(ep, iov, remote, size);

	return ret == PROCEED ? ep_request_admit(ep, kind) : ret;
}

/* Posts a request for which extended_judge has said PROCEED. */
static DAT_RETURN extended_post_slow(struct ep *ep, enum req_kind kind, DAT_COUNT nseg,
				     const DAT_LMR_TRIPLET *iov, DAT_VLEN size,
				     DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
				     const struct extra *extra, DAT_COMPLETION_FLAGS flags)
{
	const unsigned nsge = ep_segments_convert(ep, iov, (unsigned)nseg, size);
	const unsigned post_flags = ep_request_flags(ep, flags);
	struct req *req = extended_claim(ep, kind, size, cookie, flags);

	if (ep->sends.kept_back)
		return ep_posted(ep, -ENOTCONN);
	return ep_request_posted(ep,
				 post_extended(ep, req, ep->sends.sges, nsge, nsge ? remote : NULL,
					       extra, post_flags),
				 nsge, EP_OPEN);
}

static NOINLINE DAT_RETURN extended_slow(struct ep *ep, enum req_kind kind, DAT_COUNT nseg,
					 const DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
					 const DAT_RMR_TRIPLET *remote, const struct extra *extra,
					 DAT_COMPLETION_FLAGS flags)
{
	CANCEL_FORBIDDEN;
	const unsigned plain = kind == REQ_WRITE_IMMED ? SEND_FLAGS : RDMA_FLAGS;
	DAT_COMPLETION_FLAGS ignored = 0;
	DAT_RETURN judged, ret;
	DAT_VLEN size;

	if (!obj_is(ep, DAT_HANDLE_TYPE_EP) || ep_has_datagrams(ep))
		return ep_not_posted(BAD_HANDLE(EP), kind, ep, nseg, iov, cookie, remote, flags);
	ep_post_begin(ep);
	judged = ret = extended_judge(ep, kind, nseg, iov, remote, &size);
	if (judged == PROCEED) {
		ignored = ep_ignored_flags(flags, plain, ep->attr.request_completion_flags);
		ret = extended_post_slow(ep, kind, nseg, iov, size, cookie, remote, extra,
					 (DAT_COMPLETION_FLAGS)(flags ^ ignored));
	}
	ep_post_end(ep);
	if (judged != PROCEED)
		return ep_not_posted(judged, kind, ep, nseg, iov, cookie, remote, flags);
	ep_tell_ignored(flags, ignored);
	return ret;
}

/* ---- the fast path ---- */

/* The thread may be cancelled in this, as in request_fast_or_unwind of post.c. */
static ALWAYS_INLINE int extended_fast(struct ep *ep, unsigned open, struct tp_qp *qp,
				       struct req *req, enum req_kind kind,
				       const struct tp_taken *taken, const DAT_RMR_TRIPLET *remote,
				       const struct extra *extra)
{
	__attribute__((cleanup(posting_end))) struct posting posting = { .ep = ep, .open = open };
	int result;

	if (kind == REQ_WRITE_IMMED)
		result = tp_fast_write_immed(qp, req, taken, 1, remote, extra->immed,
					     TP_POST_SIGNAL);
	else
		result = tp_post_atomic(qp, req, taken->sges, remote, &extra->atomic,
					TP_POST_SIGNAL);
	posting.returned = true;
	return result;
}

/* Says whether the fast path takes the operation, as far as its operands tell. */
static ALWAYS_INLINE bool is_fast(enum req_kind kind, const DAT_LMR_TRIPLET *iov,
				  const DAT_RMR_TRIPLET *remote)
{
	if (unlikely(!iov) || unlikely(!remote))
		return false;
	if (kind == REQ_WRITE_IMMED)
		return true;
	return likely(iov->segment_length == ATOMIC_SIZE) &&
	       likely(tp_remote_address(remote) % ATOMIC_SIZE == 0);
}

/* Posts one segment without flags. The gate was at @open. */
static ALWAYS_INLINE DAT_RETURN extended_post(struct ep *ep, enum req_kind kind, unsigned open,
					      const DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
					      const DAT_RMR_TRIPLET *remote,
					      const struct extra *extra)
{
	struct tp_taken taken = { .last = (DAT_VLEN)-1 };
	const DAT_VLEN *limit = kind == REQ_WRITE_IMMED ? &ep->immed_limit : &ep->atomic_size;
	struct tp_qp *qp;
	struct req *req;
	DAT_RETURN ret;

	if (unlikely(!is_fast(kind, iov, remote)))
		goto slow;
	race_reach(RACE_POST, ep);
	if (open == EP_SHARED)
		spin_lock(&ep->send_lock);
	if (open == EP_SHARED && unlikely(gate_value(&ep->send_gate) != open))
		goto unlock;
	taken.sges = ep->sends.sges;
	qp = ep->qp;
	if (unlikely(!tp_take_segment(qp, TP_WRITE, 0, 1, iov, &taken)))
		goto unlock;
	if (unlikely(taken.last >= *limit))
		goto unlock;
	if (unlikely(!ring_take_room(&ep->sends)))
		goto unlock;
	req = extended_claim(ep, kind, tp_taken_size(&taken, 1), cookie, 0);
	ret = ep_request_posted(ep, extended_fast(ep, open, qp, req, kind, &taken, remote, extra),
				1, open);
	if (open == EP_SHARED)
		spin_unlock(&ep->send_lock);
	return ret;
unlock:
	if (open == EP_SHARED)
		spin_unlock(&ep->send_lock);
slow:
	return extended_slow(ep, kind, 1, iov, cookie, remote, extra, 0);
}

/* The same on an IA that is thread-safe, and all that is not common. */
static NOINLINE DAT_RETURN extended_rest(struct ep *ep, enum req_kind kind, DAT_COUNT nseg,
					 const DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
					 const DAT_RMR_TRIPLET *remote, const struct extra *extra,
					 DAT_COMPLETION_FLAGS flags)
{
	if (nseg == 1 && !flags && gate_value(&ep->send_gate) == EP_SHARED)
		return extended_post(ep, kind, EP_SHARED, iov, cookie, remote, extra);
	return extended_slow(ep, kind, nseg, iov, cookie, remote, extra, flags);
}

static ALWAYS_INLINE DAT_RETURN write_immed_post(struct ep *ep, DAT_COUNT nseg,
						 const DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
						 const DAT_RMR_TRIPLET *remote,
						 const struct extra *extra,
						 DAT_COMPLETION_FLAGS flags)
{
	if (unlikely(gate_value(&ep->send_gate) != EP_OPEN || nseg != 1 || flags))
		return extended_rest(ep, REQ_WRITE_IMMED, nseg, iov, cookie, remote, extra, flags);
	return extended_post(ep, REQ_WRITE_IMMED, EP_OPEN, iov, cookie, remote, extra);
}

HOT DAT_RETURN ep_post_write_immed(DAT_EP_HANDLE handle, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
				   DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
				   DAT_UINT32 immed, DAT_COMPLETION_FLAGS flags)
{
	const struct extra extra = { .immed = immed };

	return ep_count_post(handle, REQ_WRITE_IMMED, nseg, iov,
			     write_immed_post(handle, nseg, iov, cookie, remote, &extra, flags));
}

static ALWAYS_INLINE DAT_RETURN atomic_post(struct ep *ep, enum req_kind kind,
					    const DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
					    const DAT_RMR_TRIPLET *remote,
					    const struct extra *extra, DAT_COMPLETION_FLAGS flags)
{
	if (unlikely(gate_value(&ep->send_gate) != EP_OPEN || flags))
		return extended_rest(ep, kind, 1, iov, cookie, remote, extra, flags);
	return extended_post(ep, kind, EP_OPEN, iov, cookie, remote, extra);
}

HOT DAT_RETURN ep_post_fetch_add(DAT_EP_HANDLE ep, DAT_UINT64 add, const DAT_LMR_TRIPLET *iov,
				 DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
				 DAT_COMPLETION_FLAGS flags)
{
	const struct extra extra = { .atomic = { .operand = add } };

	return ep_count_post(ep, REQ_FETCH_ADD, 1, iov,
			     atomic_post(ep, REQ_FETCH_ADD, iov, cookie, remote, &extra, flags));
}

HOT DAT_RETURN ep_post_cmp_swap(DAT_EP_HANDLE ep, DAT_UINT64 compare, DAT_UINT64 swap,
				const DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
				const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags)
{
	const struct extra extra = { .atomic = {
					     .swaps = true, .operand = compare, .swap = swap } };

	return ep_count_post(ep, REQ_CMP_SWAP, 1, iov,
			     atomic_post(ep, REQ_CMP_SWAP, iov, cookie, remote, &extra, flags));
}

/* ---- datagrams ---- */

/*
 * Returns the address handle of the transport to which @ah leads; NULL if that is none, or belongs
 * to an endpoint of another zone. It is the consumer's duty that no thread frees it meanwhile.
 */
static ALWAYS_INLINE const struct tp_ah *datagram_way(const struct ep *ep,
						      const DAT_IB_ADDR_HANDLE *ah)
{
	const struct peer *peer = ah ? (const struct peer *)ah->ah : NULL;

	if (unlikely(!obj_readable(peer)) || unlikely(!obj_is(peer, PEER_KIND)))
		return NULL;
	return likely(peer->ep->pz == ep->pz) ? peer->ah : NULL;
}

static DAT_RETURN datagram_judge(struct ep *ep, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
				 const struct tp_ah *way, DAT_VLEN *size)
{
	DAT_RETURN ret = ep_segments_judge(ep, nseg, ep->attr.max_request_iov, iov, size);

	if (ret != PROCEED)
		return ret;
	if (!way)
		return BAD_ARG(4);
	return ep->qp ? ep_take_room(ep) : BAD_STATE(EP_NOTREADY);
}

/*
 * Posts a datagram for which datagram_judge has said PROCEED. Each is signalled: of a suppressed
 * one the completion is no event.
 */
static DAT_RETURN datagram_post_slow(struct ep *ep, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
				     DAT_VLEN size, const struct tp_ah *way, DAT_DTO_COOKIE cookie,
				     DAT_COMPLETION_FLAGS flags)
{
	const bool solicit = flags & DAT_COMPLETION_SOLICITED_WAIT_FLAG;
	const unsigned nsge = ep_segments_convert(ep, iov, (unsigned)nseg, size);
	struct req *req = extended_claim(ep, REQ_SEND_UD, size, cookie, flags);

	return ep_request_posted(ep,
				 tp_post_datagram(ep->qp, req, ep->sends.sges, nsge, (uint32_t)size,
						  way,
						  TP_POST_SIGNAL | (solicit ? TP_POST_SOLICIT : 0)),
				 nsge, EP_DATAGRAM_OPEN);
}

static NOINLINE DAT_RETURN datagram_slow(struct ep *ep, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
					 const DAT_IB_ADDR_HANDLE *ah, DAT_DTO_COOKIE cookie,
					 DAT_COMPLETION_FLAGS flags)
{
	CANCEL_FORBIDDEN;
	DAT_COMPLETION_FLAGS ignored;
	const struct tp_ah *way;
	DAT_RETURN judged, ret;
	DAT_VLEN size;

	ret = ep_datagrams_judge(ep);
	if (ret != DAT_SUCCESS)
		return ep_not_posted(ret, REQ_SEND_UD, ep, nseg, iov, cookie, NULL, flags);
	way = datagram_way(ep, ah);
	ignored = ep_ignored_flags(flags, SEND_FLAGS, ep->attr.request_completion_flags);
	ep_post_begin(ep);
	judged = ret = datagram_judge(ep, nseg, iov, way, &size);
	if (judged == PROCEED)
		ret = datagram_post_slow(ep, nseg, iov, size, way, cookie,
					 (DAT_COMPLETION_FLAGS)(flags ^ ignored));
	ep_post_end(ep);
	if (judged != PROCEED)
		return ep_not_posted(judged, REQ_SEND_UD, ep, nseg, iov, cookie, NULL, flags);
	ep_tell_ignored(flags, ignored);
	return ret;
}

/* The thread may be cancelled in this, as in request_fast_or_unwind of post.c. */
static ALWAYS_INLINE int datagram_fast(struct ep *ep, unsigned open, struct tp_qp *qp,
				       struct req *req, const struct tp_taken *taken,
				       const struct tp_ah *way)
{
	__attribute__((cleanup(posting_end))) struct posting posting = { .ep = ep, .open = open };
	int result = tp_post_datagram(qp, req, taken->sges, 1, (uint32_t)tp_taken_size(taken, 1),
				      way, TP_POST_SIGNAL);

	posting.returned = true;
	return result;
}

/* Posts one segment without flags. The gate was at @open. */
static ALWAYS_INLINE DAT_RETURN datagram_post(struct ep *ep, unsigned open,
					      const DAT_LMR_TRIPLET *iov,
					      const DAT_IB_ADDR_HANDLE *ah, DAT_DTO_COOKIE cookie)
{
	struct tp_taken taken = { .sges = ep->sends.sges, .last = (DAT_VLEN)-1 };
	const struct tp_ah *way = datagram_way(ep, ah);
	struct tp_qp *qp;
	struct req *req;
	DAT_RETURN ret;

	if (unlikely(!iov) || unlikely(!way))
		goto slow;
	if (open == EP_DATAGRAM_SHARED)
		spin_lock(&ep->send_lock);
	qp = ep->qp;
	if (unlikely(!tp_take_segment(qp, TP_SEND, 0, 1, iov, &taken)))
		goto unlock;
	if (unlikely(taken.last >= ep->limits[REQ_SEND][1]))
		goto unlock;
	if (unlikely(!ring_take_room(&ep->sends)))
		goto unlock;
	req = extended_claim(ep, REQ_SEND_UD, tp_taken_size(&taken, 1), cookie, 0);
	ret = ep_request_posted(ep, datagram_fast(ep, open, qp, req, &taken, way), 1, open);
	if (open == EP_DATAGRAM_SHARED)
		spin_unlock(&ep->send_lock);
	return ret;
unlock:
	if (open == EP_DATAGRAM_SHARED)
		spin_unlock(&ep->send_lock);
slow:
	return datagram_slow(ep, 1, iov, ah, cookie, 0);
}

/* The same on an IA that is thread-safe, and all that is not common. */
static NOINLINE DAT_RETURN datagram_rest(struct ep *ep, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
					 const DAT_IB_ADDR_HANDLE *ah, DAT_DTO_COOKIE cookie,
					 DAT_COMPLETION_FLAGS flags)
{
	if (nseg == 1 && !flags && gate_value(&ep->send_gate) == EP_DATAGRAM_SHARED)
		return datagram_post(ep, EP_DATAGRAM_SHARED, iov, ah, cookie);
	return datagram_slow(ep, nseg, iov, ah, cookie, flags);
}

static ALWAYS_INLINE DAT_RETURN send_ud_post(struct ep *ep, DAT_COUNT nseg,
					     const DAT_LMR_TRIPLET *iov,
					     const DAT_IB_ADDR_HANDLE *ah, DAT_DTO_COOKIE cookie,
					     DAT_COMPLETION_FLAGS flags)
{
	if (unlikely(gate_value(&ep->send_gate) != EP_DATAGRAM_OPEN || nseg != 1 || flags))
		return datagram_rest(ep, nseg, iov, ah, cookie, flags);
	return datagram_post(ep, EP_DATAGRAM_OPEN, iov, ah, cookie);
}

HOT DAT_RETURN ep_post_datagram(DAT_EP_HANDLE handle, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
				const DAT_IB_ADDR_HANDLE *ah, DAT_DTO_COOKIE cookie,
				DAT_COMPLETION_FLAGS flags)
{
	return ep_count_post(handle, REQ_SEND_UD, nseg, iov,
			     send_ud_post(handle, nseg, iov, ah, cookie, flags));
}
