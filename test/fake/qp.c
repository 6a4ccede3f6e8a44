/* SPDX-License-Identifier: BSD-2-Clause */
/* Fake queue pairs: their states, completions and flushes, as the quirks say. */
#include <errno.h>
#include <stdlib.h>

#include "fake_impl.h"

void queue_init(struct wr_queue *queue, unsigned limit, unsigned max_sge)
{
	queue->end = &queue->first;
	queue->limit = limit;
	queue->max_sge = max_sge;
}

static bool attr_fits(const struct tp_attr *have, const struct tp_qp_attr *want)
{
	if (want->srq && want->srq->pd != want->pd && !(have->caps & TP_CAP_SRQ_ANY_PD))
		return false;
	return want->max_send <= have->max_qp_wr && want->max_recv <= have->max_qp_wr &&
	       want->max_send_sge <= have->max_sge && want->max_recv_sge <= have->max_sge;
}

int tp_qp_create(struct tp_dev *dev, const struct tp_qp_attr *attr, struct ep *ep,
		 struct tp_qp **out)
{
	struct tp_qp *qp = NULL;
	int err = fake_enter(CALL_QP_CREATE);

	if (err)
		return err;
	fake_require(attr->pd && attr->send_cq && attr->recv_cq,
		     "a queue pair has a protection domain and two completion queues");
	err = attr_fits(&dev->attr, attr) ? -ENOMEM : -EINVAL;
	if (err == -ENOMEM && dev->alive[FAKE_QP] < dev->attr.max_qp)
		qp = calloc(1, sizeof(*qp));
	if (qp) {
		qp->dev = dev;
		qp->ep = ep;
		qp->pd = attr->pd;
		qp->send_cq = attr->send_cq;
		qp->recv_cq = attr->recv_cq;
		queue_init(&qp->sends, attr->max_send, attr->max_send_sge);
		queue_init(&qp->recvs, attr->max_recv, attr->max_recv_sge);
		qp->pd->users++;
		qp->send_cq->users++;
		qp->recv_cq->users++;
		qp->datagrams = attr->datagrams;
		if (qp->datagrams) {
			qp->state = QP_UP;
			qp->number = ++fake.next_number;
		}
		qp->srq = attr->srq;
		if (qp->srq)
			qp->srq->users++;
		qp->next = fake.qps;
		fake.qps = qp;
		alive_add(dev, FAKE_QP, 1);
		fake.seen.qp = *attr;
		*out = qp;
	}
	fake_unlock();
	return qp ? 0 : err;
}

struct wr *wr_take(struct wr_queue *queue)
{
	struct wr *wr = queue->first;

	queue->first = wr->next;
	if (!wr->next)
		queue->end = &queue->first;
	return wr;
}

void qp_complete(struct tp_qp *qp, struct wr *wr, DAT_DTO_COMPLETION_STATUS status, uint32_t length,
		 bool solicited)
{
	bool is_send = wr->kind != WR_RECV, received = !status || (unsigned)status >= TP_WC_SPECIAL;
	struct cqe cqe = {
		/* where the length is undefined it is garbage, so that no code relies on it */
		.wc = { .tag = wr->tag,
			.status = status,
			.length = !is_send && received ? length : 0xdead,
			.transport[0] = wr->immed },
		.qp = qp,
		.shared = is_send || !qp->srq ? NULL : qp,
		.is_send = is_send,
		.number = wr->number,
	};

	if (status != DAT_DTO_SUCCESS || (wr->flags & TP_POST_SIGNAL))
		cq_push(is_send ? qp->send_cq : qp->recv_cq, &cqe, solicited);
	free(wr);
}

void qp_flush(struct tp_qp *qp, struct wr_queue *queue)
{
	for (const struct wr *wr; (wr = queue->first);) {
		if (wr->kind == WR_BIND && fake.quirks & FAKE_FLUSHES_BOUND)
			(void)mw_bind(qp, &wr->bind, wr->zero_based, wr->from, wr->key);
		qp_complete(qp, wr_take(queue), DAT_DTO_ERR_FLUSHED, 0, false);
	}
}

void qp_report_last_receive(struct tp_qp *qp)
{
	if (qp->srq && !qp->recvs.first && fake.quirks & FAKE_LAST_RECEIVE)
		event_post(qp->dev, EV_LAST_RECEIVE, qp, 0);
}

void qp_break(struct tp_qp *qp, bool notify)
{
	if (qp->state == QP_ERROR || qp->state == QP_GONE)
		return;
	qp->state = QP_ERROR;
	if (!(fake.quirks & FAKE_LATE_FLUSH)) {
		qp_flush(qp, &qp->sends);
		qp_flush(qp, &qp->recvs);
	}
	if (notify)
		event_post(qp->dev, EV_QP_BROKEN, qp, 0);
	qp_report_last_receive(qp);
}

int tp_qp_error(struct tp_qp *qp)
{
	int err = fake_enter(CALL_QP_ERROR);

	if (err)
		return err;
	if (qp->state == QP_GONE)
		err = -EIO;
	else if (qp->state == QP_ERROR && (fake.quirks & FAKE_REFLUSH))
		qp_flush(qp, &qp->recvs);
	qp_break(qp, false);
	fake_unlock();
	return err;
}

void queue_drop(struct wr_queue *queue)
{
	while (queue->first)
		free(wr_take(queue));
}

void tp_qp_destroy(struct tp_qp *qp, bool outstanding)
{
	struct tp_qp **link = &fake.qps;

	fake_begin(CALL_QP_DESTROY);
	fake_require(outstanding || (!qp->sends.first && !qp->recvs.first),
		     "tp_qp_destroy is told of what is outstanding");
	events_drop(qp->dev, qp);
	while (qp->dev->upcall == qp)
		pthread_cond_wait(&fake.upcall_over, &fake.lock);
	while (*link != qp)
		link = &(*link)->next;
	*link = qp->next;
	if (qp->peer)
		qp->peer->peer = NULL;
	conn_detach_qp(qp);
	if (fake.quirks & FAKE_FLUSHES_DESTROYED) {
		qp_flush(qp, &qp->sends);
		qp_flush(qp, &qp->recvs);
	}
	queue_drop(&qp->sends);
	queue_drop(&qp->recvs);
	cq_detach_qp(qp->send_cq, qp);
	cq_detach_qp(qp->recv_cq, qp);
	windows_detach_qp(qp);
	qp->pd->users--;
	qp->send_cq->users--;
	qp->recv_cq->users--;
	qp->destroyed = qp->srq;
	if (qp->srq)
		qp->srq->users--;
	else
		alive_add(qp->dev, FAKE_QP, -1);
	fake_unlock();
	if (!qp->destroyed)
		free(qp);
}

void fake_break_qp(struct tp_qp *qp)
{
	fake_lock();
	qp_break(qp, true);
	fake_unlock();
}
