/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs: the transfers of each direction in the order of their posts. libfabric completes
 * them in an order of its own; they are reported in this one.
 */
#include <stdlib.h>

#include "ofi.h"

/* ---- queues ---- */

static int queue_init(struct transfer_queue *queue, struct tp_cq *cq, unsigned depth, unsigned sge)
{
	unsigned size = 1;

	while (size < depth)
		size *= 2;
	queue->cq = cq;
	queue->mask = size - 1;
	queue->max_sge = sge;
	queue->slots = calloc(size, sizeof(*queue->slots));
	queue->sges = calloc((size_t)size * max_u64(sge, 1), sizeof(*queue->sges));
	return queue->slots && queue->sges ? 0 : -ENOMEM;
}

static void queue_fini(struct transfer_queue *queue)
{
	free(queue->slots);
	free(queue->sges);
}

static void slots_bind(struct tp_qp *qp, struct transfer_queue *queue)
{
	for (unsigned i = 0; i <= queue->mask; i++) {
		queue->slots[i].qp = qp;
		queue->slots[i].sge = &queue->sges[i * queue->max_sge];
	}
}

/* ---- completing ---- */

/*
 * Reports what is complete and has nothing before it. Behind a failure all is flushed: that
 * libfabric had executed some of it already would contradict the order.
 */
static void queue_report_locked(struct tp_qp *qp, struct transfer_queue *queue)
{
	assert_locked(&qp->lock);
	while (queue->head != queue->issued) {
		struct transfer *first = &queue->slots[queue->head & queue->mask];

		if (!first->complete)
			break;
		if (queue->failed)
			first->done.status = DAT_DTO_ERR_FLUSHED;
		queue->failed |= first->done.status != DAT_DTO_SUCCESS;
		queue->head++;
		cq_push_locked(queue->cq, first);
	}
}

/* @transfer is done with. */
static void transfer_end_locked(struct tp_qp *qp, struct transfer *transfer,
				DAT_DTO_COMPLETION_STATUS status, uint32_t length)
{
	assert_locked(&qp->lock);
	transfer->done.status = status;
	transfer->done.length = length;
	transfer->complete = true;
	if (transfer->counted)
		qp->reads--;
	transfer->counted = false;
}

void qp_complete_locked(struct transfer *transfer, DAT_DTO_COMPLETION_STATUS status,
			uint32_t length)
{
	struct tp_qp *qp = transfer->qp;
	struct transfer_queue *queue = transfer->kind == TRANSFER_RECV ? &qp->recvs : &qp->sends;
	bool waiting;

	assert_locked(&queue->cq->lock);
	spin_lock(&qp->lock);
	transfer_end_locked(qp, transfer, status, length);
	queue_report_locked(qp, queue);
	waiting = queue->issued != queue->tail;
	spin_unlock(&qp->lock);
	if (unlikely(waiting))
		queue_advance_locked(qp, queue);
}

/* ---- issuing ---- */

static bool may_issue_locked(const struct tp_qp *qp, const struct transfer *transfer)
{
	assert_locked(&qp->lock);
	if (transfer->complete || transfer->kind == TRANSFER_NOTHING)
		return true;
	if (transfer->kind == TRANSFER_RECV)
		return qp->phase == QP_CONNECTING || qp->phase == QP_CONNECTED;
	return qp->phase == QP_CONNECTED && !(transfer->fenced && qp->reads);
}

/* Under the lock, because another post may follow as soon as none waits. */
void queue_advance_locked(struct tp_qp *qp, struct transfer_queue *queue)
{
	int err = 0;

	assert_locked(&queue->cq->lock);
	spin_lock(&qp->lock);
	while (queue->issued != queue->tail) {
		struct transfer *transfer = &queue->slots[queue->issued & queue->mask];

		if (!may_issue_locked(qp, transfer))
			break;
		if (!transfer->complete && transfer->kind != TRANSFER_NOTHING)
			err = transfer_issue(qp, transfer, transfer->sge);
		if (err == -EAGAIN)
			break;
		queue->issued++;
		transfer->counted = !err && transfer->kind == TRANSFER_READ;
		qp->reads += transfer->counted;
		if (err || transfer->kind == TRANSFER_NOTHING)
			transfer_end_locked(qp, transfer, transfer_status(err), 0);
		if (err)
			qp->phase = QP_ERROR; /* as a device does: nothing follows a failure */
	}
	if (err == -EAGAIN)
		atomic_fetch_or(&queue->cq->attention, CQ_STALLED);
	queue_report_locked(qp, queue);
	spin_unlock(&qp->lock);
}

static void queue_advance(struct tp_qp *qp, struct transfer_queue *queue)
{
	spin_lock(&queue->cq->lock);
	queue_advance_locked(qp, queue);
	if (queue->cq->ready)
		cq_signal_locked(queue->cq);
	spin_unlock(&queue->cq->lock);
}

void queue_transfer_failed(struct tp_qp *qp, struct transfer_queue *queue,
			   struct transfer *transfer, int err)
{
	spin_lock(&queue->cq->lock);
	spin_lock(&qp->lock);
	if (err == -EAGAIN) {
		/* it waits, with what was posted since, which moves no bytes */
		queue->issued = transfer->position;
		qp->reads -= transfer->counted;
		transfer->counted = false;
		atomic_fetch_or(&queue->cq->attention, CQ_STALLED);
	} else {
		transfer_end_locked(qp, transfer, transfer_status(err), 0);
		qp->phase = QP_ERROR;
		queue_report_locked(qp, queue);
	}
	spin_unlock(&qp->lock);
	if (queue->cq->ready)
		cq_signal_locked(queue->cq);
	spin_unlock(&queue->cq->lock);
	if (err == -EAGAIN)
		progress_poke(queue->cq);
}

void queue_post_nothing(struct tp_qp *qp, void *tag)
{
	struct transfer_queue *queue = &qp->sends;
	struct transfer *transfer;

	spin_lock(&qp->lock);
	transfer = &queue->slots[queue->tail & queue->mask];
	transfer->done.tag = tag;
	transfer->kind = TRANSFER_NOTHING;
	transfer->complete = false;
	transfer->counted = false;
	transfer->position = queue->tail++;
	spin_unlock(&qp->lock);
	queue_advance(qp, queue);
}

/* ---- the phases of a connection ---- */

static void set_phase(struct tp_qp *qp, enum qp_phase phase)
{
	spin_lock(&qp->lock);
	qp->phase = phase;
	spin_unlock(&qp->lock);
}

int qp_attach(struct tp_qp *qp, struct fi_info *info)
{
	struct tp_dev *dev = qp->dev;
	struct fid_ep *fi;
	int ret;

	info->tx_attr->size = min_u64(qp->sends.mask + 1, dev->max_tx);
	info->rx_attr->size = min_u64(qp->recvs.mask + 1, dev->max_rx);
	info->ep_attr->rx_ctx_cnt = qp->srq ? FI_SHARED_CONTEXT : 1;
	ret = fi_endpoint(dev->domain, info, &fi, qp);
	if (ret)
		return ofi_errno(ret);
	ret = fi_ep_bind(fi, &dev->eq->fid, 0);
	if (!ret)
		ret = fi_ep_bind(fi, &qp->sends.cq->fi->fid, FI_TRANSMIT);
	if (!ret)
		ret = fi_ep_bind(fi, qp->srq ? &qp->own->fid : &qp->recvs.cq->fi->fid, FI_RECV);
	if (!ret && qp->srq)
		ret = fi_ep_bind(fi, &qp->srq->fi->fid, 0);
	if (!ret)
		ret = fi_enable(fi);
	if (ret) {
		fi_close(&fi->fid);
		return ofi_errno(ret);
	}
	qp->fi = fi;
	return 0;
}

void qp_detach(struct tp_qp *qp)
{
	fi_close(&qp->fi->fid);
	qp->fi = NULL;
}

void qp_connecting(struct tp_qp *qp)
{
	set_phase(qp, QP_CONNECTING);
	queue_advance(qp, &qp->recvs);
}

void qp_connected(struct tp_qp *qp)
{
	set_phase(qp, QP_CONNECTED);
	queue_advance(qp, &qp->sends);
}

/* libfabric flushes what it has; what waits is flushed here. */
static void queue_flush_waiting(struct tp_qp *qp, struct transfer_queue *queue)
{
	spin_lock(&queue->cq->lock);
	spin_lock(&qp->lock);
	for (; queue->issued != queue->tail; queue->issued++)
		transfer_end_locked(qp, &queue->slots[queue->issued & queue->mask],
				    DAT_DTO_ERR_FLUSHED, 0);
	queue_report_locked(qp, queue);
	spin_unlock(&qp->lock);
	while (cq_harvest_locked(queue->cq))
		;
	if (queue->cq->ready)
		cq_signal_locked(queue->cq);
	spin_unlock(&queue->cq->lock);
}

int tp_qp_error(struct tp_qp *qp)
{
	set_phase(qp, QP_ERROR);
	if (qp->fi && !qp->shut)
		(void)fi_shutdown(qp->fi, 0);
	qp->shut = true;
	queue_flush_waiting(qp, &qp->sends);
	queue_flush_waiting(qp, &qp->recvs);
	if (qp->srq)
		member_flush(qp);
	return 0;
}

/* ---- creating and destroying ---- */

static void queue_pairs_add(struct tp_qp *qp)
{
	spin_lock(&qp->sends.cq->lock);
	qp->next_sender = qp->sends.cq->senders;
	qp->sends.cq->senders = qp;
	spin_unlock(&qp->sends.cq->lock);
	if (qp->srq)
		return;
	spin_lock(&qp->recvs.cq->lock);
	qp->next_receiver = qp->recvs.cq->receivers;
	qp->recvs.cq->receivers = qp;
	spin_unlock(&qp->recvs.cq->lock);
}

int tp_qp_create(struct tp_dev *dev, const struct tp_qp_attr *attr, struct ep *ep,
		 struct tp_qp **out)
{
	struct tp_qp *qp;
	int err;

	if (attr->max_send_sge > dev->attr.max_sge || attr->max_recv_sge > dev->attr.max_sge)
		return -EINVAL;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	qp->dev = dev;
	qp->pd = attr->pd;
	qp->ep = ep;
	spin_init(&qp->lock, RANK_QP);
	if (queue_init(&qp->sends, attr->send_cq, attr->max_send, attr->max_send_sge) ||
	    queue_init(&qp->recvs, attr->recv_cq, attr->srq ? 0 : attr->max_recv,
		       attr->max_recv_sge)) {
		err = -ENOMEM;
		goto fini_queues;
	}
	slots_bind(qp, &qp->sends);
	slots_bind(qp, &qp->recvs);
	qp->srq = attr->srq;
	err = qp->srq ? member_create(qp) : 0;
	if (err)
		goto fini_queues;
	queue_pairs_add(qp);
	*out = qp;
	return 0;
fini_queues:
	queue_fini(&qp->sends);
	queue_fini(&qp->recvs);
	free(qp);
	return err;
}

static void ready_forget_locked(struct tp_cq *cq, const struct tp_qp *qp)
{
	struct transfer **link = &cq->ready;

	assert_locked(&cq->lock);
	while (*link) {
		if ((*link)->qp == qp)
			*link = (*link)->next;
		else
			link = &(*link)->next;
	}
	cq->ready_end = link;
}

/* What the closed endpoint left in libfabric's queue has addresses of slots that are freed next. */
static void queue_leave(struct tp_qp *qp, struct transfer_queue *queue)
{
	struct tp_cq *cq = queue->cq;
	struct tp_qp **sender = &cq->senders, **receiver = &cq->receivers;

	spin_lock(&cq->lock);
	while (cq_harvest_locked(cq))
		;
	ready_forget_locked(cq, qp);
	while (*sender && *sender != qp)
		sender = &(*sender)->next_sender;
	if (*sender)
		*sender = qp->next_sender;
	while (*receiver && *receiver != qp)
		receiver = &(*receiver)->next_receiver;
	if (*receiver)
		*receiver = qp->next_receiver;
	if (cq->ready)
		cq_signal_locked(cq);
	spin_unlock(&cq->lock);
}

void tp_qp_destroy(struct tp_qp *qp)
{
	struct tp_dev *dev = qp->dev;

	set_phase(qp, QP_ERROR);
	if (qp->fi) {
		mutex_lock(&dev->events_lock);
		cm_forget_locked(dev, qp);
		fi_close(&qp->fi->fid);
		mutex_unlock(&dev->events_lock);
	}
	queue_leave(qp, &qp->sends);
	if (qp->srq)
		member_destroy(qp);
	else
		queue_leave(qp, &qp->recvs);
	queue_fini(&qp->sends);
	queue_fini(&qp->recvs);
	free(qp);
}
