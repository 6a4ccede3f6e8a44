/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs: the transfers of each direction in the order of their posts. libfabric completes
 * them in an order of its own; they are reported in this one.
 */
#include <stdlib.h>

#include "ofi.h"

/* ---- queues ---- */

static int queue_init(struct transfer_queue *queue, struct tp_qp *qp, struct tp_cq *cq,
		      const struct tp_tags *tags, unsigned max_sge)
{
	const bool several = max_sge > 1;

	queue->cq = cq;
	queue->qp = qp;
	queue->max_sge = max_sge;
	if (!tags->count)
		return 0;
	queue->slots = calloc(tags->count, sizeof(*queue->slots));
	if (several)
		queue->sges = calloc((size_t)tags->count * max_sge, sizeof(*queue->sges));
	if (!queue->slots || (several && !queue->sges))
		return -ENOMEM;
	queue->base = (uintptr_t)queue->slots -
		      (uintptr_t)tags->first * (TRANSFER_SIZE / TP_TAG_SIZE);
	for (unsigned i = 0; i < tags->count; i++) {
		struct transfer *transfer = &queue->slots[i];

		transfer->queue = queue;
		transfer->following = &queue->slots[(i + 1) % tags->count];
		transfer->done.tag = (char *)(uintptr_t)tags->first + i * TP_TAG_SIZE;
	}
	queue->oldest = queue->issue = queue->slots;
	return 0;
}

/* Returns where several segments of a transfer are kept while it waits. */
static struct tp_sge *transfer_segments(const struct transfer *transfer)
{
	const struct transfer_queue *queue = transfer->queue;

	return &queue->sges[(size_t)(transfer - queue->slots) * queue->max_sge];
}

/* Keeps the segments of a transfer that will wait. */
static void segments_keep(struct transfer *transfer, const struct tp_sge *sge)
{
	if (transfer->nsge == 1) {
		transfer->kept_address = sge->address;
		transfer->done.kept_length = sge->length;
		transfer->done.kept_context = sge->lmr_context;
	} else if (transfer->nsge) {
		memcpy(transfer_segments(transfer), sge, transfer->nsge * sizeof(*sge));
	}
}

/* Returns those of a transfer that waits; *single is where they are, if there are not several. */
static const struct tp_sge *segments_kept(const struct transfer *transfer, struct tp_sge *single)
{
	if (transfer->nsge > 1)
		return transfer_segments(transfer);
	*single = (struct tp_sge){ .address = transfer->kept_address,
				   .length = transfer->done.kept_length,
				   .lmr_context = transfer->done.kept_context };
	return single;
}

static void queue_fini(struct transfer_queue *queue)
{
	free(queue->slots);
	free(queue->sges);
}

/* ---- open, and in order ---- */

/* From here on the slot of each transfer says whether it is complete. */
static void queue_order_end_locked(struct transfer_queue *queue)
{
	assert_locked(&queue->cq->lock);
	if (queue->expected)
		queue->oldest = queue->expected;
	queue->expected = NULL;
}

/* From here on each completion is that of the oldest transfer, if nothing stands against it. */
static void queue_order_resume_locked(struct transfer_queue *queue)
{
	assert_locked(&queue->cq->lock);
	if (!queue->expected && !queue->early && !queue->failed && atomic_load(&queue->open))
		queue->expected = queue->oldest;
}

/* From here on no post goes to libfabric at once. The first that waits will be @issue. */
static void queue_close_locked(struct transfer_queue *queue, struct transfer *issue)
{
	struct tp_qp *qp = queue->qp;

	assert_locked(&queue->cq->lock);
	queue_order_end_locked(queue);
	if (!atomic_load(&queue->open))
		return;
	queue->issue = issue;
	atomic_store(&queue->open, false); /* before the views are cleared: view_set */
	view_clear(qp->dev, &queue->view);
	if (queue == &qp->sends)
		view_clear(qp->dev, &qp->reads);
}

bool queue_is_fast(const struct transfer_queue *queue)
{
	return atomic_load(&queue->open) &&
	       (queue != &queue->qp->recvs || !atomic_load(&queue->cq->starved));
}

void cq_starve_locked(struct tp_cq *cq)
{
	assert_locked(&cq->lock);
	atomic_store(&cq->starved, true); /* before the views are cleared: view_set */
	for (struct transfer_queue *queue = cq->queues; queue; queue = queue->next)
		if (queue == &queue->qp->recvs)
			view_clear(cq->dev, &queue->view);
}

/* A message that came while other receives were outstanding has got one of those. */
void queue_poke_late(struct transfer_queue *queue, const struct transfer *receive)
{
	struct tp_cq *cq = queue->cq;

	spin_lock(&cq->lock);
	if (receive == (queue->expected ? queue->expected : queue->oldest) && cq_harvest_locked(cq))
		cq_signal_locked(cq);
	spin_unlock(&cq->lock);
}

/* ---- completing ---- */

/* Immediate data are no failure. */
static inline bool status_is_failure(DAT_DTO_COMPLETION_STATUS status)
{
	return status != DAT_DTO_SUCCESS &&
	       !(DAT_EDITION == 2 && (unsigned)status >= TP_WC_SPECIAL);
}

/*
 * Reports what is complete and has nothing before it. Behind a failure all is flushed: that
 * libfabric had executed some of it already would contradict the order.
 */
static void queue_report_locked(struct transfer_queue *queue)
{
	struct transfer *transfer;

	assert_locked(&queue->cq->lock);
	while ((transfer = queue->oldest)->complete) {
		transfer->complete = false;
		queue->early--;
		if (queue->failed)
			transfer->done.status = DAT_DTO_ERR_FLUSHED;
		queue->failed |= status_is_failure(transfer->done.status);
		queue->oldest = transfer->following;
		cq_push_locked(queue->cq, transfer);
	}
}

/* Notes the result of a transfer of a queue that is not in order. */
static void transfer_end_locked(struct transfer *transfer, DAT_DTO_COMPLETION_STATUS status,
				uint32_t length)
{
	assert_locked(&transfer->queue->cq->lock);
	transfer->done.status = status;
	transfer->done.length = length;
	transfer->complete = true;
	transfer->queue->early++;
}

void qp_complete_locked(struct transfer *transfer, DAT_DTO_COMPLETION_STATUS status,
			uint32_t length, bool read)
{
	struct transfer_queue *queue = transfer->queue;

	if (DAT_EDITION == 2 && unlikely(transfer == &untold_write))
		return; /* what has come of it the message behind it tells, too */
	queue_order_end_locked(queue);
	transfer_end_locked(transfer, status, length);
	if (read)
		qp_read_done_locked(queue->qp);
	queue_report_locked(queue);
	if (!atomic_load(&queue->open))
		queue_advance_locked(queue);
	else
		queue_order_resume_locked(queue);
}

/* ---- issuing ---- */

/* May the transfer be given to libfabric, in this phase, and as far as a fence is concerned? */
static bool may_issue(const struct tp_qp *qp, const struct transfer *transfer)
{
	if (transfer->kind == TRANSFER_RECV)
		return qp->phase == QP_CONNECTING || qp->phase == QP_CONNECTED;
	return qp->phase == QP_CONNECTED && !(transfer->fenced && qp_is_reading(qp));
}

/* What has failed ends the connection, as devices do: nothing follows a failure. */
static void transfer_fail_locked(struct transfer *transfer, int err)
{
	struct transfer_queue *queue = transfer->queue;

	queue_close_locked(queue, transfer->following);
	transfer_end_locked(transfer, transfer_status(err), 0);
	queue->qp->phase = QP_ERROR;
}

/* Gives a transfer that waits to libfabric. Returns false if that takes none for now. */
static bool transfer_start_locked(struct transfer *transfer)
{
	struct tp_qp *qp = transfer->queue->qp;
	const bool read = transfer->kind == TRANSFER_READ;
	struct tp_sge single;
	int err;

	if (transfer->kind == TRANSFER_NOTHING) {
		transfer_end_locked(transfer, DAT_DTO_SUCCESS, 0);
		return true;
	}
	if (read)
		qp_count_read(qp, 1);
	err = transfer_issue(transfer, segments_kept(transfer, &single));
	if (err && read)
		qp_count_read(qp, -1u);
	if (err && err != -EAGAIN)
		transfer_fail_locked(transfer, err);
	return err != -EAGAIN;
}

/* The lock is held throughout, because another post may follow as soon as none waits. */
void queue_advance_locked(struct transfer_queue *queue)
{
	const struct tp_qp *qp = queue->qp;
	struct transfer *transfer;

	assert_locked(&queue->cq->lock);
	if (atomic_load(&queue->open))
		return;
	while ((transfer = queue->issue)->waiting && may_issue(qp, transfer)) {
		if (!transfer_start_locked(transfer)) {
			queue->cq->backlog |= CQ_STALLED;
			break;
		}
		transfer->waiting = false;
		queue->issue = transfer->following;
	}
	queue_report_locked(queue);
	if (queue->issue->waiting || qp->phase != QP_CONNECTED)
		return;
	atomic_store(&queue->open, true);
	queue_order_resume_locked(queue);
}

bool queue_waits_locked(const struct transfer_queue *queue)
{
	assert_locked(&queue->cq->lock);
	return queue->qp->phase == QP_CONNECTED && queue->issue && queue->issue->waiting;
}

static void queue_unlock_and_signal(struct transfer_queue *queue)
{
	struct tp_cq *cq = queue->cq;

	if (cq_has_completions_locked(cq))
		cq_signal_locked(cq);
	spin_unlock(&cq->lock);
}

static void queue_advance(struct transfer_queue *queue)
{
	spin_lock(&queue->cq->lock);
	queue_advance_locked(queue);
	queue_unlock_and_signal(queue);
}

/* Has the transfer wait. */
static void transfer_keep_locked(struct transfer *transfer, const struct tp_sge *sge)
{
	segments_keep(transfer, sge);
	transfer->waiting = true;
	queue_close_locked(transfer->queue, transfer);
}

static void queue_flush_waiting_locked(struct transfer_queue *queue)
{
	struct transfer *transfer;

	while ((transfer = queue->issue)->waiting) {
		transfer->waiting = false;
		queue->issue = transfer->following;
		transfer_end_locked(transfer, DAT_DTO_ERR_FLUSHED, 0);
	}
	queue_report_locked(queue);
}

int queue_post_nothing(struct transfer_queue *queue, struct transfer *transfer)
{
	spin_lock(&queue->cq->lock);
	if (likely(queue->expected == transfer)) { /* nothing is before it */
		queue->expected = transfer->following;
		transfer->done.status = DAT_DTO_SUCCESS;
		transfer->done.length = 0;
		cq_push_locked(queue->cq, transfer);
		cq_signal_locked(queue->cq);
		spin_unlock(&queue->cq->lock);
		return 0;
	}
	if (queue->qp->phase == QP_ERROR) {
		spin_unlock(&queue->cq->lock);
		return -ENOTCONN;
	}
	if (atomic_load(&queue->open)) {
		qp_complete_locked(transfer, DAT_DTO_SUCCESS, 0, false);
	} else {
		transfer_keep_locked(transfer, NULL);
		queue_advance_locked(queue);
	}
	queue_unlock_and_signal(queue);
	return 0;
}

/* Where a ring is when its queue pair is made is not known before. */
void queue_start(struct transfer_queue *queue, struct transfer *first)
{
	spin_lock(&queue->cq->lock);
	queue->started = true;
	queue->oldest = queue->issue = first;
	if (queue->expected)
		queue->expected = first;
	spin_unlock(&queue->cq->lock);
}

/* As on a device, what is posted behind the end is flushed in its turn. */
void queue_post_later(struct transfer_queue *queue, struct transfer *transfer,
		      const struct tp_sge *sge)
{
	spin_lock(&queue->cq->lock);
	transfer_keep_locked(transfer, sge);
	if (queue->qp->phase == QP_ERROR)
		queue_flush_waiting_locked(queue);
	else
		queue_advance_locked(queue);
	if (queue_waits_locked(queue))
		atomic_store(&queue->cq->waited, true);
	queue_unlock_and_signal(queue);
	progress_resume(queue->cq);
}

void queue_transfer_failed(struct transfer_queue *queue, struct transfer *transfer,
			   const struct tp_sge *sge, int err)
{
	spin_lock(&queue->cq->lock);
	if (err == -EAGAIN) {
		transfer_keep_locked(transfer, sge);
		queue->cq->backlog |= CQ_STALLED;
	} else {
		transfer_fail_locked(transfer, err);
		queue_report_locked(queue);
	}
	queue_unlock_and_signal(queue);
	if (err == -EAGAIN)
		progress_poke(queue->cq);
}

/* ---- the phases of a connection ---- */

static struct fid_cq *recv_cq_of(struct tp_qp *qp)
{
	return qp->srq ? qp->own : cq_in_domain(qp->recvs.cq, qp->pd);
}

int qp_attach(struct tp_qp *qp, struct fi_info *info)
{
	const struct tp_dev *dev = qp->dev;
	struct fid_ep *fi;
	int ret;

	/* a device's completion queue has room for no more than the core counts */
	info->tx_attr->size = min_u64(qp->max_send, dev->info->tx_attr->size);
	info->rx_attr->size = min_u64(max_u64(qp->max_recv, 1), dev->info->rx_attr->size);
	info->tx_attr->iov_limit = qp->sends.max_sge;
	info->rx_attr->iov_limit = qp->recvs.max_sge;
	info->tx_attr->op_flags = dev->send_flags; /* those of a write are in its call */
	info->ep_attr->rx_ctx_cnt = qp->srq ? FI_SHARED_CONTEXT : 1;
	ret = fi_endpoint(qp->pd->domain, info, &fi, qp);
	if (ret)
		return ofi_errno(ret);
	info->handle = NULL;
	ret = fi_ep_bind(fi, &dev->eq->fid, 0);
	if (!ret)
		ret = fi_ep_bind(fi, &cq_in_domain(qp->sends.cq, qp->pd)->fid, FI_TRANSMIT);
	if (!ret)
		ret = fi_ep_bind(fi, &recv_cq_of(qp)->fid, FI_RECV);
	if (!ret && qp->srq)
		ret = fi_ep_bind(fi, &qp->srq->fi->fid, 0);
	if (!ret)
		ret = fi_enable(fi);
	if (ret) {
		fi_close(&fi->fid);
		return ofi_errno(ret);
	}
	qp->fi = fi;
	qp->messages = *fi->msg;
	qp->rma = *fi->rma;
	qp->writemsg = fi->rma->writemsg;
	spin_lock(&qp->sends.cq->lock);
	qp_write_when_served_locked(qp, qp->sends.cq->writes_when_served);
	spin_unlock(&qp->sends.cq->lock);
	return 0;
}

static void qp_close_ep(struct tp_qp *qp)
{
	bool guarded = srx_guard(qp->dev);

	fi_close(&qp->fi->fid);
	srx_unguard(qp->dev, guarded);
}

void qp_detach(struct tp_qp *qp)
{
	qp_close_ep(qp);
	qp->fi = NULL;
}

void qp_shutdown(struct tp_qp *qp)
{
	bool guarded = srx_guard(qp->dev);

	(void)fi_shutdown(qp->fi, 0);
	srx_unguard(qp->dev, guarded);
}

void qp_connecting(struct tp_qp *qp)
{
	qp->phase = QP_CONNECTING;
	queue_advance(&qp->recvs);
}

void qp_connected(struct tp_qp *qp)
{
	qp->was_connected = true;
	qp->phase = QP_CONNECTED;
	queue_advance(&qp->recvs);
	queue_advance(&qp->sends);
}

/* Flushes what waits, and takes in what libfabric has flushed or completed. */
static void queue_flush(struct transfer_queue *queue)
{
	spin_lock(&queue->cq->lock);
	queue_close_locked(queue, queue->slots);
	queue_flush_waiting_locked(queue);
	cq_collect_locked(queue->cq);
	queue_unlock_and_signal(queue);
}

static void qp_flush(struct tp_qp *qp)
{
	queue_flush(&qp->sends);
	queue_flush(&qp->recvs);
	if (qp->srq)
		member_flush(qp);
}

void qp_close_locked(struct tp_qp *qp)
{
	assert_locked(&qp->dev->events_lock);
	qp->phase = QP_ERROR;
	qp_flush(qp); /* from here on nothing is issued */
	if (!qp->fi)
		return;
	cm_forget_locked(qp->dev, qp);
	qp_detach(qp);
	qp_flush(qp);
}

/*
 * A device may have to be told again, to flush what was posted late. An attempt ends in tp_release.
 */
int tp_qp_error(struct tp_qp *qp)
{
	qp->phase = QP_ERROR;
	if (qp->was_connected)
		qp_shutdown(qp);
	qp_flush(qp);
	return 0;
}

/* ---- creating and destroying ---- */

static void queue_join(struct transfer_queue *queue)
{
	struct tp_cq *cq = queue->cq;

	spin_lock(&cq->lock);
	queue->next = cq->queues;
	queue->back = &cq->queues;
	if (queue->next)
		queue->next->back = &queue->next;
	cq->queues = queue;
	spin_unlock(&cq->lock);
}

static void rma_init(struct fi_msg_rma *messages, struct tp_qp *qp, struct region_view *view)
{
	for (unsigned nseg = 0; nseg <= FEW_SEGMENTS; nseg++)
		messages[nseg] = (struct fi_msg_rma){
			.msg_iov = qp->sends.iov,
			.desc = view->descs,
			.rma_iov = qp->remote,
			.iov_count = nseg,
			.rma_iov_count = 1,
		};
}

/*
 * Allocates a queue pair with room for so many segments in each direction, at least 1: the array of
 * a view's descriptors has as many. All of it is zero.
 */
static struct tp_qp *qp_alloc(unsigned send_sge, unsigned recv_sge)
{
	const size_t size = offsetof(struct tp_qp, sends.iov) + send_sge * sizeof(struct iovec);
	struct tp_qp *qp = calloc(1, size + (2 * send_sge + recv_sge) * sizeof(void *));
	void **descs;

	if (!qp)
		return NULL;
	descs = (void **)((char *)qp + size);
	qp->sends.view.descs = descs;
	qp->reads.descs = descs + send_sge;
	qp->recvs.view.descs = descs + 2 * send_sge;
	return qp;
}

int tp_qp_create(struct tp_dev *dev, const struct tp_qp_attr *attr, struct ep *ep,
		 struct tp_qp **out)
{
	const unsigned send_sge = (unsigned)max_u64(attr->max_send_sge, 1);
	const unsigned recv_sge = (unsigned)max_u64(attr->max_recv_sge, 1);
	struct tp_qp *qp;
	int err;

	if (attr->max_send_sge > dev->attr.max_sge || attr->max_recv_sge > dev->attr.max_sge)
		return -EINVAL;
	qp = qp_alloc(send_sge, recv_sge);
	if (!qp)
		return -ENOMEM;
	qp->dev = dev;
	qp->pd = attr->pd;
	qp->ep = ep;
	qp->write_flags = dev->write_flags;
	qp->most_of_one_part = dev->writes_in_parts ? WRITE_LAST_PART : UINT64_MAX;
	qp->srq = attr->srq;
	qp->max_send = attr->max_send;
	qp->max_recv = attr->max_recv;
	rma_init(qp->write_of, qp, &qp->sends.view);
	rma_init(qp->read_of, qp, &qp->reads);
	if (queue_init(&qp->sends, qp, attr->send_cq, &attr->send_tags, send_sge) ||
	    queue_init(&qp->recvs, qp, attr->recv_cq, &attr->recv_tags, recv_sge)) {
		err = -ENOMEM;
		goto fini_queues;
	}
	err = cq_join_domain(qp->sends.cq, qp->pd);
	if (err)
		goto fini_queues;
	err = qp->srq ? member_create(qp) : cq_join_domain(qp->recvs.cq, qp->pd);
	if (err)
		goto leave_domain;
	queue_join(&qp->sends);
	if (!qp->srq)
		queue_join(&qp->recvs);
	progress_join(qp);
	*out = qp;
	return 0;
leave_domain:
	cq_leave_domain(qp->sends.cq, qp->pd);
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
		if ((*link)->queue && (*link)->queue->qp == qp)
			*link = (*link)->next;
		else
			link = &(*link)->next;
	}
	cq->ready_end = link;
	if (!cq->ready)
		cq->backlog &= ~(unsigned)CQ_READY;
}

/*
 * Takes the queue out of its completion queue, and with it, if transfers are @outstanding, what the
 * closed endpoint has left there and in libfabric's: it has addresses of slots that are freed next.
 */
static void queue_leave(struct tp_qp *qp, struct transfer_queue *queue, bool outstanding)
{
	struct tp_cq *cq = queue->cq;

	spin_lock(&cq->lock);
	if (outstanding) {
		while (cq_harvest_locked(cq))
			;
		ready_forget_locked(cq, qp);
	}
	*queue->back = queue->next;
	if (queue->next)
		queue->next->back = queue->back;
	queue_unlock_and_signal(queue);
}

void tp_qp_destroy(struct tp_qp *qp, bool outstanding)
{
	struct tp_dev *dev = qp->dev;

	qp->phase = QP_ERROR;
	if (qp->fi) {
		mutex_lock(&dev->events_lock);
		cm_forget_locked(dev, qp);
		qp_close_ep(qp);
		mutex_unlock(&dev->events_lock);
	}
	queue_leave(qp, &qp->sends, outstanding);
	if (qp->srq)
		member_destroy(qp);
	else
		queue_leave(qp, &qp->recvs, outstanding);
	cq_leave_domain(qp->sends.cq, qp->pd);
	if (!qp->srq)
		cq_leave_domain(qp->recvs.cq, qp->pd);
	progress_part(qp);
	view_clear(dev, &qp->sends.view);
	view_clear(dev, &qp->reads);
	view_clear(dev, &qp->recvs.view);
	queue_fini(&qp->sends);
	queue_fini(&qp->recvs);
	free(qp);
}
