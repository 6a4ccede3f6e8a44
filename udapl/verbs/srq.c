/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues, and which endpoint took a receive: a work completion has the number of the
 * queue pair, and a table leads from there to the endpoint.
 *
 * The table has two levels, like that of a device's page tables, because numbers are 32 bits wide
 * and used in runs. It only grows while the device is open, so it is read without a lock. A number
 * stays in the table until the core has taken the last completion of its queue pair; meanwhile no
 * other queue pair may have it, although the device may give it out again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs.h"

#define LEAF_BITS 12
#define LEAF_SIZE (1u << LEAF_BITS)
#define ROOT_SIZE (1u << (32 - LEAF_BITS))

struct qp_leaf {
	_Atomic(struct ep *) eps[LEAF_SIZE];
};

/* ---- endpoints by the numbers of their queue pairs ---- */

static inline struct qp_leaf *leaf_of(struct qp_leaf *const *root, uint32_t number)
{
	return root[number >> LEAF_BITS];
}

static inline _Atomic(struct ep *) *entry_of(const struct tp_dev *dev, uint32_t number)
{
	return &leaf_of(dev->qp_table, number)->eps[number & (LEAF_SIZE - 1)];
}

/* An entry is the address of an endpoint; that of one of datagrams has the lowest bit, too. */
static inline struct ep *entry_make(struct ep *ep, bool datagrams)
{
	return (struct ep *)((uintptr_t)ep | datagrams);
}

static inline struct ep *entry_ep(struct ep *entry)
{
#if DAT_EDITION == 2
	return (struct ep *)((uintptr_t)entry & ~(uintptr_t)1);
#else
	return entry;
#endif
}

/* Makes room for the number. Of the root, only the pages that are used take memory. */
static int qp_table_prepare(struct tp_dev *dev, uint32_t number)
{
	struct qp_leaf **leaf;

	up_assert_locked(dev->ia);
	if (!dev->qp_table)
		dev->qp_table = calloc(ROOT_SIZE, sizeof(struct qp_leaf *));
	if (!dev->qp_table)
		return -ENOMEM;
	leaf = &dev->qp_table[number >> LEAF_BITS];
	if (!*leaf)
		*leaf = calloc(1, sizeof(**leaf));
	return *leaf ? 0 : -ENOMEM;
}

int srq_qp_begin(struct tp_qp *qp)
{
	int err = qp_table_prepare(qp->dev, qp->number);

	if (err)
		return err;
	atomic_store_explicit(entry_of(qp->dev, qp->number), entry_make(qp->ep, qp->datagrams),
			      memory_order_release);
	qp->srq->holders++;
	return 0;
}

bool srq_has_number(const struct tp_dev *dev, uint32_t number)
{
	return dev->qp_table && leaf_of(dev->qp_table, number) && *entry_of(dev, number);
}

void srq_table_destroy(struct tp_dev *dev)
{
	/* Few of the parts are there, and a call for each of the others is what takes the time. */
	for (size_t i = 0; dev->qp_table && i < ROOT_SIZE; i++)
		if (dev->qp_table[i])
			free(dev->qp_table[i]);
	free(dev->qp_table);
}

static struct ep *entry_of_wc(const struct tp_cq *cq, const struct tp_wc *wc)
{
	return atomic_load_explicit(entry_of(cq->dev, ((const union wc *)wc)->ibv.qp_num),
				    memory_order_acquire);
}

struct ep *tp_wc_ep(const struct tp_cq *cq, const struct tp_wc *wc)
{
	return entry_ep(entry_of_wc(cq, wc));
}

#if DAT_EDITION == 2
bool tp_wc_is_datagram(const struct tp_cq *cq, const struct tp_wc *wc)
{
	struct ep *entry = entry_of_wc(cq, wc);

	return entry != entry_ep(entry);
}
#endif

void tp_qp_forget(struct tp_qp *qp)
{
	atomic_store_explicit(entry_of(qp->dev, qp->number), NULL, memory_order_relaxed);
	qp_memory_put(qp);
}

/* ---- the queues ---- */

static int srq_refused(const struct tp_dev *dev, const struct tp_srq_attr *attr)
{
	int err = refusal();

	log_error("%s: ibv_create_srq for %u receives of %u segments: %s; the device supports %u "
		  "shared receive queues with up to %u receives of up to %u segments",
		  dev->attr.device, attr->max_recv, attr->max_sge, strerror(-err),
		  dev->attr.max_srq, dev->attr.max_srq_wr, dev->attr.max_srq_sge);
	return err;
}

int tp_srq_create(struct tp_dev *dev, const struct tp_srq_attr *attr, struct srq *srq,
		  struct tp_srq **out)
{
	struct tp_srq *tp = calloc(1, sizeof(*tp));
	struct ibv_srq_init_attr init = {
		.srq_context = tp,
		.attr = { .max_wr = attr->max_recv, .max_sge = attr->max_sge },
	};
	int err;

	if (!tp)
		return -ENOMEM;
	tp->holders = 1;
	tp->dev = dev;
	tp->pd = attr->pd;
	tp->srq = srq;
	errno = 0;
	tp->ibv = ibv_create_srq(attr->pd->ibv, &init);
	if (!tp->ibv) {
		err = srq_refused(dev, attr);
		free(tp);
		return err;
	}
	tp->pd->holders++;
	*out = tp;
	return 0;
}

void srq_put(struct tp_srq *tp)
{
	int err;

	if (--tp->holders)
		return;
	err = ibv_destroy_srq(tp->ibv);
	if (err)
		log_error("%s: ibv_destroy_srq: %s", tp->dev->attr.device, strerror(err));
	pd_put(tp->pd);
	free(tp);
}

/* The last holder destroys it, which may be an orphaned attempt. */
void tp_srq_destroy(struct tp_srq *tp)
{
	up_assert_locked(tp->dev->ia);
	tp->srq = NULL;
	srq_put(tp);
}

/*
 * Modifies the queue. Soft iWARP and others return a code of their own, or -1, where they can't do
 * that.
 */
static int srq_modify(struct tp_srq *tp, struct ibv_srq_attr *attr, int mask)
{
	int err = ibv_modify_srq(tp->ibv, attr, mask);

	if (!err)
		return 0;
	err = err > 0 ? err : errno;
	log_util("%s: ibv_modify_srq: %s", tp->dev->attr.device, strerror(err));
	return err == ENOMEM ? -ENOMEM : -EOPNOTSUPP;
}

int tp_srq_resize(struct tp_srq *tp, unsigned max_recv)
{
	struct ibv_srq_attr attr = { .max_wr = max_recv };

	return srq_modify(tp, &attr, IBV_SRQ_MAX_WR);
}

int tp_srq_arm(struct tp_srq *tp, unsigned limit)
{
	struct ibv_srq_attr attr = { .srq_limit = limit };

	return srq_modify(tp, &attr, IBV_SRQ_LIMIT);
}

/* ---- what the device has ---- */

/* Says whether a queue pair of @pd can be made on @srq, by making one. */
static bool can_create_qp(struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.cap = { .max_send_wr = 1, .max_send_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	if (qp)
		ibv_destroy_qp(qp);
	return qp != NULL;
}

static struct ibv_srq *probe_srq(struct ibv_pd *pd)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 1, .max_sge = 1 } };

	return ibv_create_srq(pd, &init);
}

/*
 * Devices that have no shared receive queues may still report a number; and no attribute says
 * whether the protection domains have to be the same. So one is made.
 */
void srq_probe(struct tp_dev *dev)
{
	struct ibv_pd *pd = ibv_alloc_pd(dev->ibv), *other = ibv_alloc_pd(dev->ibv);
	struct ibv_cq *cq = ibv_create_cq(dev->ibv, 4, NULL, NULL, 0);
	struct ibv_srq *srq = pd && cq && other ? probe_srq(pd) : NULL;

	if (!srq || !can_create_qp(pd, cq, srq))
		dev->attr.max_srq = 0;
	else if (can_create_qp(other, cq, srq))
		dev->attr.caps |= TP_CAP_SRQ_ANY_PD;
	if (srq)
		ibv_destroy_srq(srq);
	if (cq)
		ibv_destroy_cq(cq);
	if (other)
		ibv_dealloc_pd(other);
	if (pd)
		ibv_dealloc_pd(pd);
}
