/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting work requests. Everything here is on the data path. The queue pair keeps a work request
 * for each direction, of which only the fields that vary are filled in; the segments are those that
 * the core has built.
 */
#include "verbs.h"

_Static_assert((int)TP_POST_SIGNAL == IBV_SEND_SIGNALED && (int)TP_POST_FENCE == IBV_SEND_FENCE &&
		       (int)TP_POST_SOLICIT == IBV_SEND_SOLICITED,
	       "TP_POST_* flags are passed to the device unchanged");
_Static_assert(sizeof(struct tp_sge) == sizeof(struct ibv_sge) &&
		       offsetof(struct tp_sge, address) == offsetof(struct ibv_sge, addr) &&
		       offsetof(struct tp_sge, length) == offsetof(struct ibv_sge, length) &&
		       offsetof(struct tp_sge, lmr_context) == offsetof(struct ibv_sge, lkey),
	       "segments are passed to the device unchanged");

const unsigned tp_post_flags = TP_POST_FENCE | TP_POST_SIGNAL | TP_POST_SOLICIT;

/* libibverbs reads the segments of a post, and writes none. */
static inline struct ibv_sge *ibv_sge_of(const struct tp_sge *sge)
{
	return (struct ibv_sge *)(uintptr_t)sge;
}

/* Soft iWARP refuses a receive without segments, but takes one of an empty segment. */
static const struct tp_sge empty_sge;

static inline bool is_empty_on_iwarp(const struct tp_qp *qp, unsigned nsge)
{
	return unlikely(!nsge) && qp->dev->iwarp;
}

/*
 * A small message is copied at the post, and the device need not look up its region. An empty one
 * is not: 0 - 1 is the largest number. pd_end_inline may be in another thread; the poster need only
 * see what was registered before its post.
 */
static inline bool is_inline(const struct tp_qp *qp, uint32_t size)
{
	return size - 1 < hot_read(qp->max_inline);
}

/* With the consumer's fence it is not: what it sends may be what a read before has yet to bring. */
static ALWAYS_INLINE bool is_inline_unfenced(const struct tp_qp *qp, uint32_t size, unsigned flags)
{
	return unlikely(is_inline(qp, size)) && !(flags & TP_POST_FENCE);
}

/* The result is an errno, but -1 from soft iWARP after a disconnect. */
int tp_post_error(int result)
{
	return post_result(result);
}

int tp_post_refused(struct tp_qp *qp, enum tp_post post, void *tag, unsigned nseg, int result)
{
	(void)qp, (void)post, (void)tag, (void)nseg;
	return tp_post_error(result);
}

/* Fields that the opcode does not use keep older values: libibverbs providers do not read them. */
static ALWAYS_INLINE int post_request(struct tp_qp *qp, void *tag, enum ibv_wr_opcode opcode,
				      const struct tp_sge *sge, unsigned nsge, unsigned flags,
				      const DAT_RMR_TRIPLET *remote)
{
	struct ibv_send_wr *wr = &qp->send_wr;

	wr->wr_id = (uintptr_t)tag;
	wr->sg_list = ibv_sge_of(sge);
	wr->num_sge = (int)nsge;
	wr->opcode = opcode;
	wr->send_flags = flags;
	if (remote) {
		wr->wr.rdma.remote_addr = tp_remote_address(remote);
		wr->wr.rdma.rkey = remote->rmr_context;
	}
	return ibv_post_send(qp->ibv, wr, &qp->bad_send);
}

static ALWAYS_INLINE int post_message(struct tp_qp *qp, void *tag, enum ibv_wr_opcode opcode,
				      const struct tp_sge *sge, unsigned nsge, uint32_t size,
				      unsigned flags, const DAT_RMR_TRIPLET *remote)
{
	if (is_inline_unfenced(qp, size, flags))
		return post_request(qp, tag, opcode, sge, nsge, flags | qp->fence | IBV_SEND_INLINE,
				    remote);
	return post_request(qp, tag, opcode, sge, nsge, flags | qp->fence, remote);
}

HOT int tp_post_send(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		     uint32_t size, unsigned flags)
{
	return post_message(qp, tag, IBV_WR_SEND, sge, nsge, size, flags, NULL);
}

HOT int tp_post_write(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		      uint32_t size, const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	return post_message(qp, tag, IBV_WR_RDMA_WRITE, sge, nsge, size, flags, remote);
}

/*
 * An iWARP device takes one segment in a read, so a read of several is posted as several, in order.
 * Only the last one is signalled. All have the same tag: if one fails, its completion and those of
 * the reads behind it, which are flushed, come as one to the consumer.
 */
COLD int tp_post_split_read(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
			    const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	const unsigned per_read = qp->dev->attr.max_read_wr_sge;
	struct ibv_send_wr wrs[TP_MAX_SGE], *bad;
	uint64_t from = tp_remote_address(remote);
	unsigned reads = 0;

	for (unsigned at = 0; at < nsge; at += per_read, reads++) {
		struct ibv_send_wr *wr = &wrs[reads];

		*wr = (struct ibv_send_wr){
			.wr_id = (uintptr_t)tag,
			.next = wr + 1,
			.sg_list = ibv_sge_of(&sge[at]),
			.num_sge = (int)min_u64(per_read, nsge - at),
			.opcode = IBV_WR_RDMA_READ,
			.wr.rdma = { .remote_addr = from, .rkey = remote->rmr_context },
		};
		for (int i = 0; i < wr->num_sge; i++)
			from += wr->sg_list[i].length;
	}
	wrs[reads - 1].next = NULL;
	wrs[reads - 1].send_flags = flags;
	return ibv_post_send(qp->ibv, wrs, &bad);
}

/*
 * A soft iWARP device that owes its peer two answers gives the second one, of no bytes, as many as
 * the first, which breaks the connection. So a read of no bytes is posted as a write of none, whose
 * fence has it complete in its turn. Neither accesses memory, so any rkey and address are valid.
 */
HOT int tp_post_read(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		     const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	if (is_empty_on_iwarp(qp, nsge))
		return post_request(qp, tag, IBV_WR_RDMA_WRITE, sge, 0, flags | qp->fence, remote);
	return post_request(qp, tag, IBV_WR_RDMA_READ, sge, nsge, flags, remote);
}

#if DAT_EDITION == 2
/*
 * The bytes of @immed go as they are, which is what uDAPL providers have always done; programs of
 * libibverbs choose the order themselves.
 */
HOT int tp_post_write_immed(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
			    uint32_t size, const DAT_RMR_TRIPLET *remote, uint32_t immed,
			    unsigned flags)
{
	static const DAT_RMR_TRIPLET nowhere;
	const enum ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE_WITH_IMM;

	qp->send_wr.imm_data = immed;
	if (unlikely(!nsge))
		return post_request(qp, tag, opcode, sge, 0, flags, &nowhere);
	if (is_inline_unfenced(qp, size, flags))
		return post_request(qp, tag, opcode, sge, nsge, flags | IBV_SEND_INLINE, remote);
	return post_request(qp, tag, opcode, sge, nsge, flags, remote);
}

int tp_post_send_invalidate(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
			    uint32_t size, DAT_RMR_CONTEXT context, unsigned flags)
{
	qp->send_wr.invalidate_rkey = context;
	return post_message(qp, tag, IBV_WR_SEND_WITH_INV, sge, nsge, size, flags, NULL);
}

HOT int tp_post_datagram(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
			 uint32_t size, const struct tp_ah *ah, unsigned flags)
{
	struct ibv_send_wr *wr = &qp->send_wr;

	wr->wr.ud.ah = ah->ibv;
	wr->wr.ud.remote_qpn = ah->qp_num;
	wr->wr.ud.remote_qkey = ah->qkey;
	if (is_inline(qp, size)) /* datagrams have no reads */
		flags |= IBV_SEND_INLINE;
	return post_request(qp, tag, IBV_WR_SEND, sge, nsge, flags, NULL);
}

HOT int tp_post_atomic(struct tp_qp *qp, void *tag, const struct tp_sge *sge,
		       const DAT_RMR_TRIPLET *remote, const struct tp_atomic *atomic,
		       unsigned flags)
{
	struct ibv_send_wr *wr = &qp->send_wr;

	wr->wr.atomic.remote_addr = tp_remote_address(remote);
	wr->wr.atomic.rkey = remote->rmr_context;
	wr->wr.atomic.compare_add = atomic->operand;
	wr->wr.atomic.swap = atomic->swap;
	return post_request(qp, tag,
			    atomic->swaps ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD,
			    sge, 1, flags, NULL);
}
#endif

HOT int tp_post_recv(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge)
{
	struct ibv_recv_wr *wr = &qp->recv_wr;

	if (is_empty_on_iwarp(qp, nsge)) {
		sge = &empty_sge;
		nsge = 1;
	}
	wr->wr_id = (uintptr_t)tag;
	wr->sg_list = ibv_sge_of(sge);
	wr->num_sge = (int)nsge;
	return ibv_post_recv(qp->ibv, wr, &qp->bad_recv);
}

HOT int tp_srq_post(struct tp_srq *srq, void *tag, const struct tp_sge *sge, unsigned nsge)
{
	struct ibv_recv_wr *wr = &srq->wr;

	if (unlikely(!nsge) && srq->dev->iwarp) {
		sge = &empty_sge;
		nsge = 1;
	}
	wr->wr_id = (uintptr_t)tag;
	wr->sg_list = ibv_sge_of(sge);
	wr->num_sge = (int)nsge;
	return ibv_post_srq_recv(srq->ibv, wr, &srq->bad);
}

/*
 * The thread was cancelled in the write(2) by which libibverbs tells soft-RoCE that there is a work
 * request. One that the library refuses, because no device sends so many bytes inline, makes it
 * tell once more, and is not queued. The stack is unwound, so this write is no cancellation point.
 */
COLD void tp_post_cancelled(struct tp_qp *qp)
{
	struct ibv_sge sge = { .length = UINT32_MAX };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE,
		.sg_list = &sge,
		.num_sge = 1,
	};

	(void)ibv_post_send(qp->ibv, &wr, &bad);
}

/*
 * It may run beside a post, so the work request is on the stack. A write of no bytes accesses no
 * memory, so any rkey and address are valid.
 */
int tp_post_marker(struct tp_qp *qp, void *tag)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = (uintptr_t)tag,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED | qp->fence,
	};

	return post_result(ibv_post_send(qp->ibv, &wr, &bad));
}

/* ---- fast posts: fast_post.c has those that follow ---- */

HOT bool tp_take_segment(struct tp_qp *qp, enum tp_post post, unsigned i, unsigned nseg,
			 const DAT_LMR_TRIPLET *segment, struct tp_taken *taken)
{
	(void)qp, (void)post, (void)nseg;
	return tp_take_any(taken, i, segment);
}
