/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What this transport does not have: windows, because the core registers the range of each bind
 * instead; shared receive queues, because a completion of libfabric does not say which endpoint
 * took the receive. The attributes say so, and the core calls none of these.
 */
#include "ofi.h"

/* ---- windows ---- */

int tp_mw_create(struct tp_pd *pd, struct tp_mw **mw, DAT_RMR_CONTEXT *context)
{
	(void)pd, (void)mw, (void)context;
	return -EOPNOTSUPP;
}

void tp_mw_destroy(struct tp_mw *mw)
{
	(void)mw;
}

void tp_mw_rewind(struct tp_mw *mw, DAT_RMR_CONTEXT context)
{
	(void)mw, (void)context;
}

int tp_post_bind(struct tp_qp *qp, void *tag, const struct tp_bind *bind, unsigned flags,
		 DAT_RMR_CONTEXT *context)
{
	(void)qp, (void)tag, (void)bind, (void)flags, (void)context;
	return -EOPNOTSUPP;
}

/* ---- shared receive queues ---- */

int tp_srq_create(struct tp_dev *dev, const struct tp_srq_attr *attr, struct srq *srq,
		  struct tp_srq **tp)
{
	(void)dev, (void)attr, (void)srq, (void)tp;
	return -EOPNOTSUPP;
}

void tp_srq_destroy(struct tp_srq *srq)
{
	(void)srq;
}

int tp_srq_resize(struct tp_srq *srq, unsigned max_recv)
{
	(void)srq, (void)max_recv;
	return -EOPNOTSUPP;
}

int tp_srq_arm(struct tp_srq *srq, unsigned limit)
{
	(void)srq, (void)limit;
	return -EOPNOTSUPP;
}

int tp_srq_post(struct tp_srq *srq, void *tag, const struct tp_sge *sge, unsigned nsge)
{
	(void)srq, (void)tag, (void)sge, (void)nsge;
	return -EOPNOTSUPP;
}

struct ep *tp_wc_ep(const struct tp_cq *cq, const struct tp_wc *wc)
{
	(void)cq, (void)wc;
	return NULL;
}

void tp_qp_forget(struct tp_qp *qp)
{
	(void)qp;
}
