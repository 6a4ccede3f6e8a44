/* SPDX-License-Identifier: BSD-2-Clause */
/* Fake shared receive queues: a queue of receives, of which each message takes the oldest. */
#include <errno.h>
#include <stdlib.h>

#include "fake_impl.h"

int tp_srq_create(struct tp_dev *dev, const struct tp_srq_attr *attr, struct srq *srq,
		  struct tp_srq **out)
{
	const struct tp_attr *have = &dev->attr;
	struct tp_srq *tp = NULL;
	int err = fake_enter(CALL_SRQ_CREATE);

	if (err)
		return err;
	fake_require(have->max_srq > 0, "a device without shared receive queues makes none");
	err = attr->max_recv > have->max_srq_wr || attr->max_sge > have->max_srq_sge ? -EINVAL
										     : -ENOMEM;
	if (err == -ENOMEM && dev->alive[FAKE_SRQ] < have->max_srq)
		tp = calloc(1, sizeof(*tp));
	if (tp) {
		tp->dev = dev;
		tp->srq = srq;
		tp->pd = attr->pd;
		tp->pd->users++;
		queue_init(&tp->recvs, attr->max_recv, attr->max_sge);
		tp->next = fake.srqs;
		fake.srqs = tp;
		alive_add(dev, FAKE_SRQ, 1);
		fake.seen.srq = *attr;
		*out = tp;
	}
	fake_unlock();
	return tp ? 0 : err;
}

void tp_srq_destroy(struct tp_srq *tp)
{
	struct tp_srq **link = &fake.srqs;

	up_assert_locked(tp->dev->ia);
	fake_begin(CALL_SRQ_DESTROY);
	fake_require(tp->users == 0, "a shared receive queue outlives its queue pairs");
	fake_require(!atomic_load(&tp->resizing), "a shared receive queue outlives its resize");
	events_drop(tp->dev, tp);
	while (*link != tp)
		link = &(*link)->next;
	*link = tp->next;
	queue_drop(&tp->recvs);
	tp->pd->users--;
	alive_add(tp->dev, FAKE_SRQ, -1);
	fake_unlock();
	free(tp);
}

static int srq_resize_locked(struct tp_srq *tp, unsigned max_recv)
{
	fake_require(max_recv > tp->recvs.limit, "a shared receive queue only grows");
	if (fake.quirks & FAKE_NO_SRQ_RESIZE)
		return -EOPNOTSUPP;
	if (max_recv > tp->dev->attr.max_srq_wr)
		return -EINVAL;
	tp->recvs.limit = max_recv;
	return 0;
}

int tp_srq_resize(struct tp_srq *tp, unsigned max_recv)
{
	bool beside = atomic_exchange(&tp->resizing, true);
	int err = fake_enter(CALL_SRQ_RESIZE);

	fake_require(!beside, "a shared receive queue is resized once at a time");
	if (!err) {
		err = srq_resize_locked(tp, max_recv);
		fake_unlock();
	}
	atomic_store(&tp->resizing, false);
	return err;
}

int tp_srq_arm(struct tp_srq *tp, unsigned limit)
{
	int err = fake_enter(CALL_SRQ_ARM);

	fake_require(!atomic_load(&tp->resizing),
		     "a shared receive queue is not armed while it is resized");
	if (err)
		return err;
	if (fake.quirks & FAKE_NO_SRQ_LIMIT)
		err = -EOPNOTSUPP;
	else
		tp->limit = limit;
	fake_unlock();
	return err;
}

int tp_srq_post(struct tp_srq *tp, void *tag, const struct tp_sge *sges, unsigned nsge)
{
	struct wr_queue *queue = &tp->recvs;
	struct wr *wr;
	int err = fake_enter(CALL_SRQ_POST);

	if (err)
		return err;
	wr = nsge <= queue->max_sge && queue->posted - queue->retired < queue->limit
		     ? wr_receive(tag, sges, nsge)
		     : NULL;
	if (wr) {
		wr->number = queue->posted++;
		*queue->end = wr;
		queue->end = &wr->next;
		for (struct tp_qp *qp = fake.qps; qp; qp = qp->next)
			if (qp->srq == tp)
				transfers_run(qp);
	}
	fake_unlock();
	return wr ? 0 : -ENOMEM;
}

struct wr *srq_take(struct tp_srq *tp)
{
	struct wr_queue *queue = &tp->recvs;
	struct wr *wr = wr_take(queue);

	if (queue->posted - ++queue->retired < tp->limit) {
		tp->limit = 0;
		event_post(tp->dev, EV_SRQ_LIMIT, tp, 0);
	}
	return wr;
}

struct ep *tp_wc_ep(const struct tp_cq *cq, const struct tp_wc *wc)
{
	const struct tp_qp *qp = (const struct tp_qp *)(uintptr_t)wc->transport[1];

	fake_require(qp && qp->recv_cq == cq,
		     "tp_wc_ep is asked about a receive of a shared receive queue");
	return qp->ep;
}

/* A completion that is left would have to be the endpoint's. */
void tp_qp_forget(struct tp_qp *qp)
{
	const struct tp_cq *cq = qp->recv_cq;

	fake_begin(CALL_QP_FORGET);
	fake_require(qp->srq && qp->destroyed,
		     "tp_qp_forget follows tp_qp_destroy of one that has a shared receive queue");
	for (unsigned i = 0; i < cq->count; i++)
		fake_require(cq->entries[(cq->head + i) % cq->depth].shared != qp,
			     "no completion of a forgotten queue pair is left");
	alive_add(qp->dev, FAKE_QP, -1);
	fake_unlock();
	free(qp);
}

void fake_take_receive(struct tp_qp *qp)
{
	struct wr *wr;

	fake_lock();
	fake_require(qp->srq && qp->srq->recvs.first, "fake_take_receive: there is none");
	wr = srq_take(qp->srq);
	wr->next = NULL;
	*qp->recvs.end = wr;
	qp->recvs.end = &wr->next;
	fake_unlock();
}

void fake_break_srq(struct tp_srq *tp)
{
	fake_lock();
	event_post(tp->dev, EV_SRQ_BROKEN, tp, 0);
	fake_unlock();
}
