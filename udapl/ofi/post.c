/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting. Everything here is on the data path. */
#include "ofi.h"

_Static_assert(offsetof(struct transfer, context) == 0, "libfabric returns that address");

/* ---- to libfabric ---- */

static ALWAYS_INLINE int issued(ssize_t ret)
{
	return likely(!ret) ? 0 : ofi_errno(ret);
}

/* -EPERM: a local buffer is not what the transfer takes. */
int transfer_issue(struct tp_qp *qp, struct transfer *transfer, const struct tp_sge *sge)
{
	const bool in = transfer->kind == TRANSFER_RECV || transfer->kind == TRANSFER_READ;
	struct fi_rma_iov remote;
	struct iovec iov[TP_MAX_SGE];
	void *desc[TP_MAX_SGE];

	if (unlikely(!mem_map(qp->dev, qp->pd, in, sge, transfer->nsge, iov, desc)))
		return -EPERM;
	if (transfer->kind == TRANSFER_SEND)
		return issued(fi_sendv(qp->fi, iov, desc, transfer->nsge, 0, transfer));
	if (transfer->kind == TRANSFER_RECV)
		return issued(fi_recvv(qp->fi, iov, desc, transfer->nsge, 0, transfer));
	remote = (struct fi_rma_iov){ .addr = transfer->remote_address,
				      .key = transfer->remote_key };
	for (unsigned i = 0; i < transfer->nsge; i++)
		remote.len += sge[i].length;
	const struct fi_msg_rma message = {
		.msg_iov = iov,
		.desc = desc,
		.iov_count = transfer->nsge,
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.context = transfer,
	};

	if (transfer->kind == TRANSFER_READ)
		return issued(fi_readmsg(qp->fi, &message, FI_COMPLETION));
	return issued(fi_writemsg(qp->fi, &message, qp->dev->write_flags));
}

DAT_DTO_COMPLETION_STATUS transfer_status(int err)
{
	switch (err) {
	case 0:
		return DAT_DTO_SUCCESS;
	case -EPERM:
		return DAT_DTO_ERR_LOCAL_PROTECTION;
	case -ENOTCONN:
	case -EPIPE:
	case -ECONNRESET:
	case -ESHUTDOWN:
		return DAT_DTO_ERR_FLUSHED;
	default:
		return DAT_DTO_ERR_LOCAL_EP;
	}
}

/* ---- queueing ---- */

static NOINLINE void transfer_keep(struct transfer *transfer, const struct tp_sge *sge)
{
	for (unsigned i = 0; i < transfer->nsge; i++)
		transfer->sge[i] = sge[i];
}

/*
 * At most one thread posts to a queue, so what it gives to libfabric without the lock stays in
 * order: as long as something waits, it adds to what waits.
 */
static ALWAYS_INLINE int queue_post(struct tp_qp *qp, struct transfer_queue *queue,
				    enum transfer_kind kind, void *tag, const struct tp_sge *sge,
				    unsigned nsge, unsigned flags, const DAT_RMR_TRIPLET *remote)
{
	struct transfer *transfer;
	bool at_once;
	int err;

	spin_lock(&qp->lock);
	if (unlikely(qp->phase == QP_ERROR)) {
		spin_unlock(&qp->lock);
		return -ENOTCONN;
	}
	transfer = &queue->slots[queue->tail & queue->mask];
	transfer->done.tag = tag;
	transfer->kind = kind;
	transfer->nsge = nsge;
	transfer->complete = false;
	transfer->fenced = flags & TP_POST_FENCE;
	transfer->position = queue->tail++;
	if (remote) {
		transfer->remote_address = remote->target_address;
		transfer->remote_key = remote->rmr_context;
	}
	at_once = queue->issued == transfer->position &&
		  (qp->phase == QP_CONNECTED ||
		   (kind == TRANSFER_RECV && qp->phase == QP_CONNECTING)) &&
		  !(transfer->fenced && qp->reads);
	transfer->counted = at_once && kind == TRANSFER_READ;
	qp->reads += transfer->counted;
	if (likely(at_once))
		queue->issued++;
	else
		transfer_keep(transfer, sge);
	spin_unlock(&qp->lock);
	if (unlikely(!at_once))
		return 0;
	err = transfer_issue(qp, transfer, sge);
	if (likely(!err))
		return 0;
	if (err == -EAGAIN)
		transfer_keep(transfer, sge);
	queue_transfer_failed(qp, queue, transfer, err);
	return 0;
}

int tp_post_error(int result)
{
	return result;
}

HOT int tp_post_send(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		     uint32_t size, unsigned flags)
{
	(void)size;
	return queue_post(qp, &qp->sends, TRANSFER_SEND, tag, sge, nsge, flags, NULL);
}

/* Of no bytes: it accesses no memory, so any key is valid, but libfabric would check it. */
HOT int tp_post_write(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		      uint32_t size, const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	if (unlikely(!size))
		return tp_post_marker(qp, tag);
	return queue_post(qp, &qp->sends, TRANSFER_WRITE, tag, sge, nsge, flags, remote);
}

HOT int tp_post_read(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		     const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	if (unlikely(!nsge))
		return tp_post_marker(qp, tag);
	return queue_post(qp, &qp->sends, TRANSFER_READ, tag, sge, nsge, flags, remote);
}

/* max_read_wr_sge is the limit of all reads. */
int tp_post_split_read(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		       const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	return tp_post_read(qp, tag, sge, nsge, remote, flags);
}

HOT int tp_post_recv(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge)
{
	int err = queue_post(qp, &qp->recvs, TRANSFER_RECV, tag, sge, nsge, 0, NULL);

	if (unlikely(atomic_load_explicit(&qp->recvs.cq->starved, memory_order_relaxed)))
		up_wake(qp->dev->ia);
	return err;
}

/* Complete when all before it is. */
int tp_post_marker(struct tp_qp *qp, void *tag)
{
	if (qp->phase == QP_ERROR)
		return -ENOTCONN;
	queue_post_nothing(qp, tag);
	return 0;
}
