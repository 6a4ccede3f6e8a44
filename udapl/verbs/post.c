/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting work requests. Everything here is on the data path. For the usual case, one segment that
 * is not empty, the queue pair keeps a work request of which only the fields that vary are filled
 * in (post_one). All others are built on the stack.
 */
#include "verbs.h"

_Static_assert((int)TP_POST_SIGNAL == IBV_SEND_SIGNALED && (int)TP_POST_FENCE == IBV_SEND_FENCE &&
		       (int)TP_POST_SOLICIT == IBV_SEND_SOLICITED,
	       "TP_POST_* flags are passed to the device unchanged");

/* The first @size bytes of @segment. */
static inline struct ibv_sge sge_of(const DAT_LMR_TRIPLET *segment, DAT_VLEN size)
{
	return (struct ibv_sge){
		.addr = segment->virtual_address,
		.length = (uint32_t)size,
		.lkey = segment->lmr_context,
	};
}

/*
 * Skips empty segments. sge[n] is written before the length is tested; n <= i, so it is in bounds.
 * Returns the number of segments.
 */
static inline int fill_sge(struct ibv_sge *sge, const DAT_LMR_TRIPLET *iov, unsigned nseg,
			   DAT_VLEN size)
{
	int n = 0;

	for (unsigned i = 0; i < nseg; i++) {
		DAT_VLEN length = iov[i].segment_length < size ? iov[i].segment_length : size;

		sge[n] = sge_of(&iov[i], length);
		n += length != 0;
		size -= length;
	}
	return n;
}

/*
 * Soft iWARP refuses a receive without segments. It treats every read as one of one segment, and of
 * a read without any it uses the segment of an earlier request in the same slot of its ring. It
 * accepts an empty segment in both cases.
 */
static inline int at_least_one_sge(const struct tp_qp *qp, struct ibv_sge *sge, int nsge)
{
	if (nsge || !qp->dev->iwarp)
		return nsge;
	sge[0] = (struct ibv_sge){ 0 };
	return 1;
}

/* A small message is copied at the post, and the device need not look up its region. */
static inline unsigned inline_flag(const struct tp_qp *qp, DAT_VLEN size)
{
	return size <= qp->max_inline ? IBV_SEND_INLINE : 0;
}

/* Fields that the opcode does not use stay uninitialised: libibverbs providers do not read them. */
static inline int post_request(struct tp_qp *qp, void *tag, enum ibv_wr_opcode opcode,
			       struct ibv_sge *sge, int nsge, unsigned flags,
			       const DAT_RMR_TRIPLET *remote)
{
	struct ibv_send_wr wr, *bad;

	wr.wr_id = (uintptr_t)tag;
	wr.next = NULL;
	wr.sg_list = sge;
	wr.num_sge = nsge;
	wr.opcode = opcode;
	wr.send_flags = flags;
	if (remote) {
		wr.wr.rdma.remote_addr = remote->target_address;
		wr.wr.rdma.rkey = remote->rmr_context;
	}
	return post_result(ibv_post_send(qp->ibv, &wr, &bad));
}

/* The first @size bytes of one segment. */
static inline int post_one(struct tp_qp *qp, void *tag, enum ibv_wr_opcode opcode,
			   const DAT_LMR_TRIPLET *segment, DAT_VLEN size, unsigned flags,
			   const DAT_RMR_TRIPLET *remote)
{
	struct ibv_send_wr *wr = &qp->send_wr, *bad;

	qp->send_sge = sge_of(segment, size);
	wr->wr_id = (uintptr_t)tag;
	wr->opcode = opcode;
	wr->send_flags = flags;
	if (remote) {
		wr->wr.rdma.remote_addr = remote->target_address;
		wr->wr.rdma.rkey = remote->rmr_context;
	}
	return post_result(ibv_post_send(qp->ibv, wr, &bad));
}

/* The first @size bytes of any number of segments. */
NOINLINE HOT static int post_many(struct tp_qp *qp, void *tag, enum ibv_wr_opcode opcode,
				  const DAT_LMR_TRIPLET *iov, unsigned nseg, DAT_VLEN size,
				  unsigned flags, const DAT_RMR_TRIPLET *remote)
{
	struct ibv_sge sge[TP_MAX_SGE];
	int nsge = fill_sge(sge, iov, nseg, size);

	if (!size)
		flags &= ~(unsigned)IBV_SEND_INLINE;
	if (opcode == IBV_WR_RDMA_READ)
		nsge = at_least_one_sge(qp, sge, nsge);
	return post_request(qp, tag, opcode, sge, nsge, flags, remote);
}

/*
 * An iWARP device takes one segment in a read, so a read of several is posted as several, in order.
 * Only the last one is signalled. All have the same tag: if one fails, its completion and those of
 * the reads behind it, which are flushed, come as one to the consumer.
 */
NOINLINE static int post_split_read(struct tp_qp *qp, void *tag, const DAT_LMR_TRIPLET *iov,
				    unsigned nseg, DAT_VLEN size, unsigned flags,
				    const DAT_RMR_TRIPLET *remote)
{
	const int per_read = (int)qp->dev->attr.max_read_wr_sge;
	struct ibv_send_wr wrs[TP_MAX_SGE], *bad;
	struct ibv_sge sge[TP_MAX_SGE];
	int nsge = fill_sge(sge, iov, nseg, size), reads = 0;
	uint64_t from = remote->target_address;

	for (int at = 0; at < nsge; at += per_read, reads++) {
		struct ibv_send_wr *wr = &wrs[reads];

		*wr = (struct ibv_send_wr){
			.wr_id = (uintptr_t)tag,
			.next = wr + 1,
			.sg_list = &sge[at],
			.num_sge = at + per_read < nsge ? per_read : nsge - at,
			.opcode = IBV_WR_RDMA_READ,
			.wr.rdma = { .remote_addr = from, .rkey = remote->rmr_context },
		};
		for (int i = 0; i < wr->num_sge; i++)
			from += wr->sg_list[i].length;
	}
	wrs[reads - 1].next = NULL;
	wrs[reads - 1].send_flags = flags;
	return post_result(ibv_post_send(qp->ibv, wrs, &bad));
}

NOINLINE HOT static int receive_many(struct tp_qp *qp, void *tag, const DAT_LMR_TRIPLET *iov,
				     unsigned nseg)
{
	struct ibv_sge sge[TP_MAX_SGE];
	struct ibv_recv_wr *bad, wr = {
		.wr_id = (uintptr_t)tag,
		.sg_list = sge,
		.num_sge = at_least_one_sge(qp, sge, fill_sge(sge, iov, nseg, UINT64_MAX)),
	};

	return post_result(ibv_post_recv(qp->ibv, &wr, &bad));
}

HOT int tp_post_send(struct tp_qp *qp, void *tag, const DAT_LMR_TRIPLET *iov, unsigned nseg,
		     DAT_VLEN size, unsigned flags)
{
	flags |= qp->fence | inline_flag(qp, size);
	if (unlikely(nseg != 1 || !size))
		return post_many(qp, tag, IBV_WR_SEND, iov, nseg, size, flags, NULL);
	return post_one(qp, tag, IBV_WR_SEND, iov, size, flags, NULL);
}

HOT int tp_post_write(struct tp_qp *qp, void *tag, const DAT_LMR_TRIPLET *iov, unsigned nseg,
		      DAT_VLEN size, const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	flags |= qp->fence | inline_flag(qp, size);
	if (unlikely(nseg != 1 || !size))
		return post_many(qp, tag, IBV_WR_RDMA_WRITE, iov, nseg, size, flags, remote);
	return post_one(qp, tag, IBV_WR_RDMA_WRITE, iov, size, flags, remote);
}

HOT int tp_post_read(struct tp_qp *qp, void *tag, const DAT_LMR_TRIPLET *iov, unsigned nseg,
		     DAT_VLEN size, const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	if (unlikely(nseg != 1 || !size)) {
		if (size && nseg > qp->dev->attr.max_read_wr_sge)
			return post_split_read(qp, tag, iov, nseg, size, flags, remote);
		return post_many(qp, tag, IBV_WR_RDMA_READ, iov, nseg, size, flags, remote);
	}
	return post_one(qp, tag, IBV_WR_RDMA_READ, iov, size, flags, remote);
}

HOT int tp_post_recv(struct tp_qp *qp, void *tag, const DAT_LMR_TRIPLET *iov, unsigned nseg)
{
	struct ibv_recv_wr *bad;

	if (unlikely(nseg != 1 || !iov->segment_length))
		return receive_many(qp, tag, iov, nseg);
	qp->recv_sge = sge_of(iov, iov->segment_length);
	qp->recv_wr.wr_id = (uintptr_t)tag;
	return post_result(ibv_post_recv(qp->ibv, &qp->recv_wr, &bad));
}

/* A write of no bytes accesses no memory, so any rkey and address are valid. */
int tp_post_marker(struct tp_qp *qp, void *tag)
{
	static const DAT_RMR_TRIPLET nowhere;

	return post_request(qp, tag, IBV_WR_RDMA_WRITE, NULL, 0, IBV_SEND_SIGNALED | qp->fence,
			    &nowhere);
}
