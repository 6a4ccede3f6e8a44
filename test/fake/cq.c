/* SPDX-License-Identifier: BSD-2-Clause */
/* Fake completion queues: bounded, armed for one event, with an eventfd as completion channel. */
#include <errno.h>
#include <stdlib.h>

#include "fake_impl.h"

int tp_cq_create(struct tp_dev *dev, unsigned depth, struct evd *evd, struct tp_cq **out)
{
	struct tp_cq *cq;
	int err = fake_enter(CALL_CQ_CREATE);

	if (err)
		return err;
	err = -EINVAL;
	if (depth == 0 || depth > dev->attr.max_cqe)
		goto unlock;
	err = -ENOMEM;
	if (dev->alive[FAKE_CQ] >= dev->attr.max_cq)
		goto unlock;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		goto unlock;
	cq->entries = calloc(depth, sizeof(*cq->entries));
	if (!cq->entries)
		goto free_cq;
	err = channel_open(&cq->channel);
	if (err)
		goto free_entries;
	cq->next = fake.cqs;
	fake.cqs = cq;
	cq->dev = dev;
	cq->evd = evd;
	cq->depth = depth;
	alive_add(dev, FAKE_CQ, 1);
	fake_unlock();
	*out = cq;
	return 0;
free_entries:
	free(cq->entries);
free_cq:
	free(cq);
unlock:
	fake_unlock();
	return err;
}

void tp_cq_destroy(struct tp_cq *cq)
{
	struct tp_cq **link = &fake.cqs;

	fake_begin(CALL_CQ_DESTROY);
	while (*link != cq)
		link = &(*link)->next;
	*link = cq->next;
	fake_require(cq->users == 0, "a completion queue outlives its queue pairs");
	events_drop(cq->dev, cq);
	alive_add(cq->dev, FAKE_CQ, -1);
	fake_unlock();
	channel_close(&cq->channel);
	free(cq->entries);
	free(cq);
}

unsigned tp_cq_depth(const struct tp_cq *cq)
{
	unsigned depth;

	fake_lock();
	depth = cq->depth;
	fake_unlock();
	return depth;
}

int tp_cq_resize(struct tp_cq *cq, unsigned depth)
{
	struct cqe *entries;
	int err = fake_enter(CALL_CQ_RESIZE);

	if (err)
		return err;
	err = -EOPNOTSUPP;
	if (!(cq->dev->attr.caps & TP_CAP_CQ_RESIZE))
		goto unlock;
	err = -EINVAL;
	if (depth == 0 || depth < cq->count || depth > cq->dev->attr.max_cqe)
		goto unlock;
	err = -ENOMEM;
	entries = calloc(depth, sizeof(*entries));
	if (!entries)
		goto unlock;
	for (unsigned i = 0; i < cq->count; i++)
		entries[i] = cq->entries[(cq->head + i) % cq->depth];
	free(cq->entries);
	cq->entries = entries;
	cq->depth = depth;
	cq->head = 0;
	err = 0;
unlock:
	fake_unlock();
	return err;
}

/*
 * As on a real queue pair, polling a completion frees the slot of its request and of the
 * unsignalled requests before it.
 */
static void slots_free(const struct cqe *cqe)
{
	struct wr_queue *queue;

	if (!cqe->qp || cqe->shared)
		return;
	queue = cqe->is_send ? &cqe->qp->sends : &cqe->qp->recvs;
	queue->retired = cqe->number + 1;
}

unsigned tp_cq_poll(struct tp_cq *cq, struct tp_wc *wc, unsigned max)
{
	unsigned n;

	fake_require(max <= TP_POLL_MAX, "tp_cq_poll asks for at most TP_POLL_MAX completions");
	if (max == TP_POLL_MAX)
		fake_require_uncancelled();
	fake_begin(CALL_CQ_POLL);
	for (n = 0; n < max && cq->count > 0; n++) {
		const struct cqe *cqe = &cq->entries[cq->head];

		wc[n] = cqe->wc;
		wc[n].transport[1] = (uintptr_t)cqe->shared;
		slots_free(cqe);
		cq->head = (cq->head + 1) % cq->depth;
		cq->count--;
	}
	fake_unlock();
	return n;
}

bool tp_cq_next(struct tp_cq *cq, struct tp_wc *wc)
{
	(void)cq, (void)wc;
	return false;
}

int tp_cq_arm(struct tp_cq *cq, enum tp_arm what)
{
	enum fake_armed asked = what == TP_ARM_ANY ? FAKE_ARMED_ANY : FAKE_ARMED_ERRORS;
	int err = what == TP_ARM_NOTHING ? 0 : fake_enter(CALL_CQ_ARM);

	if (err || what == TP_ARM_NOTHING)
		return err;
	if (asked > cq->armed || fake.quirks & FAKE_LAST_ARM_WINS)
		cq->armed = asked;
	fake_unlock();
	return 0;
}

int tp_cq_fd(const struct tp_cq *cq)
{
	return cq->channel.fd;
}

int tp_cq_sleep(struct tp_cq *cq)
{
	(void)tp_cq_arm(cq, TP_ARM_ANY);
	return -1;
}

bool tp_cq_events(struct tp_cq *cq)
{
	bool stays;

	fake_begin(CALL_CQ_EVENTS);
	stays = fake.quirks & FAKE_STAYS_READABLE;
	fake_unlock();
	if (!stays)
		return channel_read(&cq->channel);
	fake_clock_advance(1000000);
	return true;
}

static bool cq_fires(const struct tp_cq *cq, const struct tp_wc *wc, bool solicited)
{
	if (cq->armed == FAKE_ARMED_ERRORS)
		return solicited || wc->status != DAT_DTO_SUCCESS || (fake.quirks & FAKE_ARM_ANY);
	return cq->armed == FAKE_ARMED_ANY;
}

void cq_push(struct tp_cq *cq, const struct cqe *cqe, bool solicited)
{
	if (cq->count == cq->depth) {
		event_post(cq->dev, EV_CQ_OVERRUN, cq, 0);
		return;
	}
	cq->entries[(cq->head + cq->count) % cq->depth] = *cqe;
	cq->count++;
	if (cq_fires(cq, &cqe->wc, solicited)) {
		cq->armed = FAKE_DISARMED;
		channel_signal(&cq->channel);
	}
}

void cq_detach_qp(struct tp_cq *cq, const struct tp_qp *qp)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < cq->count; i++) {
		struct cqe *cqe = &cq->entries[(cq->head + i) % cq->depth];

		if (cqe->qp == qp && (fake.quirks & FAKE_DROPS_CQES))
			continue;
		if (cqe->qp == qp)
			cqe->qp = NULL;
		cq->entries[(cq->head + kept++) % cq->depth] = *cqe;
	}
	cq->count = kept;
}

enum fake_armed fake_armed(struct tp_cq *cq)
{
	enum fake_armed armed;

	fake_lock();
	armed = cq->armed;
	fake_unlock();
	return armed;
}

void fake_overrun(struct tp_cq *cq)
{
	fake_lock();
	event_post(cq->dev, EV_CQ_OVERRUN, cq, 0);
	fake_unlock();
}
