/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stray completions: those of an orphaned queue pair (iwarp.c) after its owner has destroyed it.
 * The tags of its work requests are dangling then, or belong to the requests of its successor. The
 * core has emptied the completion queues, but the device may flush more, until ibv_destroy_qp.
 *
 * A completion queue that may get any is polled through a filter, which drops them. The data path
 * does not know that: it polls cq->polled, which is either cq->ibv or an ibv_cq of ours, whose
 * context has stray_poll among its operations.
 *
 * A queue pair is filtered from tp_qp_destroy until the queue was found empty after ibv_destroy_qp.
 * Until then no other queue pair of the same completion queue may have its number.
 */
#include <stdlib.h>

#include "verbs.h"

struct stray {
	struct stray *next;
	uint32_t qp_num;
	bool destroyed; /* stray_lock; no more completions are added */
	bool over;	/* stray_lock; destroyed, and the queue has been empty since */
};

static int stray_poll(struct ibv_cq *filter, int max, struct ibv_wc *wc);

static struct ibv_context filter_context = { .ops.poll_cq = stray_poll };

void stray_init(struct tp_cq *cq)
{
	cq->filter.context = &filter_context;
	cq->filter.cq_context = cq;
	atomic_init(&cq->polled, cq->ibv);
	spin_init(&cq->stray_lock, RANK_CQ_STRAYS);
}

void stray_fini(struct tp_cq *cq)
{
	struct stray *stray;

	while ((stray = cq->strays)) {
		cq->strays = stray->next;
		free(stray);
	}
}

/* ---- polling ---- */

static bool is_stray_locked(const struct tp_cq *cq, uint32_t qp_num)
{
	for (const struct stray *stray = cq->strays; stray; stray = stray->next)
		if (stray->qp_num == qp_num && !stray->over)
			return true;
	return false;
}

/* The strays that are over are not freed here: the caller of tp_cq_poll holds a spinlock. */
static void queue_was_empty_locked(struct tp_cq *cq)
{
	bool live = false;

	for (struct stray *stray = cq->strays; stray; stray = stray->next) {
		stray->over = stray->destroyed;
		live |= !stray->over;
	}
	if (!live)
		atomic_store_explicit(&cq->polled, cq->ibv, memory_order_relaxed);
}

/*
 * Polls the queue and drops strays. As with ibv_poll_cq, fewer than @max means that the queue is
 * empty.
 */
static int stray_poll(struct ibv_cq *filter, int max, struct ibv_wc *wc)
{
	struct tp_cq *cq = filter->cq_context;
	int got, kept = 0;

	spin_lock(&cq->stray_lock);
	do {
		struct ibv_wc *batch = wc + kept;
		int asked = max - kept;

		got = ibv_poll_cq(cq->ibv, asked, batch);
		for (int i = 0; i < got; i++)
			if (!is_stray_locked(cq, batch[i].qp_num))
				wc[kept++] = batch[i];
		if (got < asked) {
			queue_was_empty_locked(cq);
			break;
		}
	} while (kept < max);
	spin_unlock(&cq->stray_lock);
	return kept;
}

/* ---- the queue pairs ---- */

int stray_qp_prepare(struct tp_qp *qp)
{
	const unsigned cqs = qp->send_cq == qp->recv_cq ? 1 : 2;

	if (!qp->dev->iwarp)
		return 0;
	for (unsigned i = 0; i < cqs; i++) {
		qp->strays[i] = calloc(1, sizeof(*qp->strays[i]));
		if (!qp->strays[i])
			return -ENOMEM;
	}
	return 0;
}

static void stray_add(struct tp_cq *cq, struct stray *stray, uint32_t qp_num)
{
	spin_lock(&cq->stray_lock);
	stray->qp_num = qp_num;
	stray->next = cq->strays;
	cq->strays = stray;
	atomic_store_explicit(&cq->polled, &cq->filter, memory_order_relaxed);
	spin_unlock(&cq->stray_lock);
}

void stray_qp_begin(struct tp_qp *qp)
{
	stray_add(qp->recv_cq, qp->strays[0], qp->ibv->qp_num);
	if (qp->strays[1])
		stray_add(qp->send_cq, qp->strays[1], qp->ibv->qp_num);
	qp->filtered = true;
}

void stray_qp_end(struct tp_qp *qp)
{
	struct tp_cq *const cqs[] = { qp->recv_cq, qp->send_cq };

	for (unsigned i = 0; i < ARRAY_SIZE(qp->strays); i++) {
		if (!qp->filtered) {
			free(qp->strays[i]);
		} else if (qp->strays[i]) {
			spin_lock(&cqs[i]->stray_lock);
			qp->strays[i]->destroyed = true;
			spin_unlock(&cqs[i]->stray_lock);
		}
	}
}

/* It also frees the strays that are over. */
bool stray_has(struct tp_cq *cq, uint32_t qp_num)
{
	struct stray *over = NULL, **link, *stray;
	bool has;

	spin_lock(&cq->stray_lock);
	for (link = &cq->strays; (stray = *link);) {
		if (!stray->over) {
			link = &stray->next;
			continue;
		}
		*link = stray->next;
		stray->next = over;
		over = stray;
	}
	has = is_stray_locked(cq, qp_num);
	spin_unlock(&cq->stray_lock);
	while ((stray = over)) {
		over = stray->next;
		free(stray);
	}
	return has;
}
