/* SPDX-License-Identifier: BSD-2-Clause */
/* Work requests: built on the stack, handed to the device. Everything here is on the data path. */
#include <errno.h>

#include "verbs.h"

/* By TP_POST_SIGNAL | TP_POST_FENCE | TP_POST_SOLICIT. */
static const uint8_t send_flags[8] = {
	[TP_POST_SIGNAL] = IBV_SEND_SIGNALED,
	[TP_POST_FENCE] = IBV_SEND_FENCE,
	[TP_POST_FENCE | TP_POST_SIGNAL] = IBV_SEND_FENCE | IBV_SEND_SIGNALED,
	[TP_POST_SOLICIT] = IBV_SEND_SOLICITED,
	[TP_POST_SOLICIT | TP_POST_SIGNAL] = IBV_SEND_SOLICITED | IBV_SEND_SIGNALED,
	[TP_POST_SOLICIT | TP_POST_FENCE] = IBV_SEND_SOLICITED | IBV_SEND_FENCE,
	[TP_POST_SOLICIT | TP_POST_FENCE | TP_POST_SIGNAL] = IBV_SEND_SOLICITED | IBV_SEND_FENCE | IBV_SEND_SIGNALED,
};

/* ibv_post_* returns the errno; soft iWARP may return -1 after a disconnect. */
static inline int post_result(int err)
{
	if (likely(!err))
		return 0;
	return err > 0 ? -err : -ENOTCONN;
}

/* Writes a segment before it knows whether it counts: n never runs ahead of i. */
static inline int fill_sge(struct ibv_sge *sge, const DAT_LMR_TRIPLET *iov, unsigned nseg)
{
	int n = 0;

	for (unsigned i = 0; i < nseg; i++) {
		sge[n].addr = iov[i].virtual_address;
		sge[n].length = (uint32_t)iov[i].segment_length;
		sge[n].lkey = iov[i].lmr_context;
		n += iov[i].segment_length != 0;
	}
	return n;
}

/* As fill_sge, for the first @size bytes. */
static inline int fill_sge_up_to(struct ibv_sge *sge, const DAT_LMR_TRIPLET *iov, unsigned nseg, DAT_VLEN size)
{
	int n = 0;

	for (unsigned i = 0; i < nseg && size; i++) {
		DAT_VLEN length = iov[i].segment_length < size ? iov[i].segment_length : size;

		sge[n].addr = iov[i].virtual_address;
		sge[n].length = (uint32_t)length;
		sge[n].lkey = iov[i].lmr_context;
		n += length != 0;
		size -= length;
	}
	return n;
}

/* The device copies a small message at once and needs no look at its region. */
static inline unsigned flags_inline(const struct tp_qp *qp, DAT_VLEN size)
{
	return size - 1 < qp->max_inline ? IBV_SEND_INLINE : 0; /* nothing to copy: 0 - 1 is huge */
}

/* Fields that the opcode has no use for stay as they are: providers don't read them. */
static inline __attribute__((always_inline)) int post_request(struct tp_qp *qp, void *tag, enum ibv_wr_opcode opcode,
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

TP_HOT int tp_post_send(struct tp_qp *qp, void *tag, const DAT_LMR_TRIPLET *iov, unsigned nseg, DAT_VLEN size,
			unsigned flags)
{
	struct ibv_sge sge[TP_MAX_SGE];

	return post_request(qp, tag, IBV_WR_SEND, sge, fill_sge(sge, iov, nseg),
			    send_flags[flags] | qp->order | flags_inline(qp, size), NULL);
}

TP_HOT int tp_post_write(struct tp_qp *qp, void *tag, const DAT_LMR_TRIPLET *iov, unsigned nseg, DAT_VLEN size,
			 const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	struct ibv_sge sge[TP_MAX_SGE];

	return post_request(qp, tag, IBV_WR_RDMA_WRITE, sge, fill_sge(sge, iov, nseg),
			    send_flags[flags] | qp->order | flags_inline(qp, size), remote);
}

TP_HOT int tp_post_read(struct tp_qp *qp, void *tag, const DAT_LMR_TRIPLET *iov, unsigned nseg,
			const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	struct ibv_sge sge[TP_MAX_SGE];

	return post_request(qp, tag, IBV_WR_RDMA_READ, sge, fill_sge_up_to(sge, iov, nseg, remote->segment_length),
			    send_flags[flags], remote);
}

TP_HOT int tp_post_recv(struct tp_qp *qp, void *tag, const DAT_LMR_TRIPLET *iov, unsigned nseg)
{
	struct ibv_sge sge[TP_MAX_SGE];
	struct ibv_recv_wr wr, *bad;

	wr.wr_id = (uintptr_t)tag;
	wr.next = NULL;
	wr.sg_list = sge;
	wr.num_sge = fill_sge(sge, iov, nseg);
	return post_result(ibv_post_recv(qp->ibv, &wr, &bad));
}

/* A write of nothing goes to no memory, so any key and address do. */
int tp_post_marker(struct tp_qp *qp, void *tag)
{
	static const DAT_RMR_TRIPLET nowhere;

	return post_request(qp, tag, IBV_WR_RDMA_WRITE, NULL, 0, IBV_SEND_SIGNALED | qp->order, &nowhere);
}
