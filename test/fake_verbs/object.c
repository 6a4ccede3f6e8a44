/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains, regions, windows, completion queues and queue pairs: creation and end. */
#include "impl.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* ---- protection domains ---- */

struct fv_pd {
	struct ibv_pd ibv;
	unsigned users; /* regions, windows, QPs, AHs */
};

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct fv_pd *pd;

	if (fv_enter_errno(CALL_ibv_alloc_pd))
		return NULL;
	pd = calloc(1, sizeof(*pd));
	fv_require(pd, "no memory for a protection domain");
	pd->ibv.context = context;
	fv_alive_add(FV_PD, 1);
	fv_unlock();
	return &pd->ibv;
}

int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	int err = fv_enter(CALL_ibv_dealloc_pd);

	if (err)
		return err;
	if (((struct fv_pd *)ibv)->users) {
		fv_unlock();
		return EBUSY;
	}
	free(ibv);
	fv_alive_add(FV_PD, -1);
	fv_unlock();
	return 0;
}

static void pd_users_add(struct ibv_pd *pd, int n)
{
	((struct fv_pd *)pd)->users += (unsigned)n;
}

/* ---- regions ---- */

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct ibv_mr *mr;

	if (fv_enter_errno(CALL_ibv_reg_mr))
		return NULL;
	fv.seen.access = (unsigned)access;
	fv.seen.length = length;
	if (fv_device_of(pd->context)->quirks & FV_READ_ONLY_PLAIN && access & IBV_ACCESS_MW_BIND &&
	    !(access & IBV_ACCESS_LOCAL_WRITE)) {
		fv_unlock();
		errno = EPERM;
		return NULL;
	}
	mr = calloc(1, sizeof(*mr));
	fv_require(mr, "no memory for a region");
	*mr = (struct ibv_mr){
		.context = pd->context,
		.pd = pd,
		.addr = addr,
		.length = length,
		.lkey = fv_number(),
		.rkey = fv_number(),
	};
	pd_users_add(pd, 1);
	fv_alive_add(FV_MR, 1);
	fv_unlock();
	return mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned access)
{
	(void)iova;
	return ibv_reg_mr(pd, addr, length, (int)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access)
{
	(void)iova;
	return ibv_reg_mr(pd, addr, length, access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	int err = fv_enter(CALL_ibv_dereg_mr);

	if (err)
		return err;
	pd_users_add(mr->pd, -1);
	free(mr);
	fv_alive_add(FV_MR, -1);
	fv_unlock();
	return 0;
}

/* ---- windows ---- */

struct ibv_mw *fv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	unsigned quirks = fv_device_of(pd->context)->quirks;
	struct ibv_mw *mw;

	if (fv_enter_errno(CALL_ibv_alloc_mw))
		return NULL;
	fv.seen.mw_type = type;
	errno = quirks & FV_NO_WINDOWS				 ? EOPNOTSUPP
		: quirks & FV_NO_TYPE_1 && type == IBV_MW_TYPE_1 ? EINVAL
								 : 0;
	if (errno) {
		fv_unlock();
		return NULL;
	}
	mw = calloc(1, sizeof(*mw));
	fv_require(mw, "no memory for a window");
	*mw = (struct ibv_mw){
		.context = pd->context, .pd = pd, .type = type, .rkey = fv_number()
	};
	pd_users_add(pd, 1);
	fv_alive_add(FV_MW, 1);
	fv_unlock();
	return mw;
}

int fv_dealloc_mw(struct ibv_mw *mw)
{
	int err = fv_enter(CALL_ibv_dealloc_mw);

	if (err)
		return err;
	pd_users_add(mw->pd, -1);
	free(mw);
	fv_alive_add(FV_MW, -1);
	fv_unlock();
	return 0;
}

int fv_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	int err = fv_enter(CALL_ibv_bind_mw);

	if (err)
		return err;
	fv.seen.bind = *bind;
	if (fv_device_of(qp->context)->quirks & FV_BIND_REFUSED) {
		fv_unlock();
		return EOPNOTSUPP;
	}
	mw->rkey = ibv_inc_rkey(mw->rkey);
	fv_wr_add(&((struct fv_qp *)qp)->sends, bind->wr_id, bind->send_flags & IBV_SEND_SIGNALED);
	fv_unlock();
	fv_tell_device(qp);
	return 0;
}

/* ---- completion queues ---- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *channel;

	if (fv_enter_errno(CALL_ibv_create_comp_channel))
		return NULL;
	channel = calloc(1, sizeof(*channel));
	fv_require(channel, "no memory for a completion channel");
	channel->context = context;
	channel->fd = fv_fd_open();
	fv_alive_add(FV_COMP_CHANNEL, 1);
	fv_unlock();
	return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	int err = fv_enter(CALL_ibv_destroy_comp_channel);

	if (err)
		return err;
	if (channel->refcnt) {
		fv_unlock();
		return EBUSY;
	}
	close(channel->fd);
	free(channel);
	fv_alive_add(FV_COMP_CHANNEL, -1);
	fv_unlock();
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct fv_cq *cq;

	(void)vector;
	if (fv_enter_errno(CALL_ibv_create_cq))
		return NULL;
	fv.seen.cqe = cqe;
	if (cqe < 1 || (unsigned)cqe > fv_device_of(context)->max_cqe) {
		fv_unlock();
		errno = EINVAL;
		return NULL;
	}
	cq = calloc(1, sizeof(*cq));
	fv_require(cq, "no memory for a completion queue");
	cq->ibv = (struct ibv_cq){
		.context = context, .channel = channel, .cq_context = cq_context, .cqe = cqe
	};
	if (channel)
		channel->refcnt++;
	cq->next = fv.cqs;
	fv.cqs = cq;
	fv_alive_add(FV_CQ, 1);
	fv_unlock();
	return &cq->ibv;
}

int ibv_resize_cq(struct ibv_cq *ibv, int cqe)
{
	const struct fv_device *device = fv_device_of(ibv->context);
	int err = fv_enter(CALL_ibv_resize_cq);

	if (err)
		return err;
	fv.seen.cqe = cqe;
	if (device->quirks & FV_NO_RESIZE)
		err = ENOSYS;
	else if (cqe < 1 || (unsigned)cqe > device->max_cqe ||
		 (unsigned)cqe < ((struct fv_cq *)ibv)->count)
		err = EINVAL;
	else
		ibv->cqe = cqe;
	fv_unlock();
	return err;
}

int ibv_destroy_cq(struct ibv_cq *ibv)
{
	struct fv_cq *cq = (struct fv_cq *)ibv, **link = &fv.cqs;
	int err = fv_enter(CALL_ibv_destroy_cq);

	if (err)
		return err;
	if (cq->users) {
		fv_unlock();
		return EBUSY;
	}
	fv_async_drop_relock(ibv);
	while (cq->unacked)
		fv_sleep_relock("a CQ is destroyed before its event is acknowledged");
	for (; cq->unread; cq->unread--)
		(void)fv_fd_take(ibv->channel->fd);
	if (ibv->channel)
		ibv->channel->refcnt--;
	while (*link != cq)
		link = &(*link)->next;
	*link = cq->next;
	free(cq->entries);
	free(cq);
	fv_alive_add(FV_CQ, -1);
	fv_unlock();
	return 0;
}

/* ---- shared receive queues ---- */

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	struct fv_srq *srq;

	if (fv_enter_errno(CALL_ibv_create_srq))
		return NULL;
	fv.seen.srq = *init;
	if (fv_device_of(pd->context)->quirks & FV_NO_SRQ) {
		fv_unlock();
		errno = EOPNOTSUPP;
		return NULL;
	}
	srq = calloc(1, sizeof(*srq));
	fv_require(srq, "no memory for a shared receive queue");
	srq->ibv = (struct ibv_srq){ .context = pd->context,
				     .srq_context = init->srq_context,
				     .pd = pd };
	srq->recvs.end = &srq->recvs.first;
	pd_users_add(pd, 1);
	fv_alive_add(FV_SRQ, 1);
	fv_unlock();
	return &srq->ibv;
}

int ibv_modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr, int mask)
{
	int err = fv_enter(CALL_ibv_modify_srq);

	if (err)
		return err;
	if (fv_device_of(ibv->context)->quirks & FV_NO_SRQ_MODIFY) {
		errno = EOPNOTSUPP;
		err = -1;
	} else {
		fv.seen.srq_attr = *attr;
		fv.seen.srq_mask = mask;
	}
	fv_unlock();
	return err;
}

int ibv_destroy_srq(struct ibv_srq *ibv)
{
	struct fv_srq *srq = (struct fv_srq *)ibv;
	int err = fv_enter(CALL_ibv_destroy_srq);

	if (err)
		return err;
	if (srq->users) {
		fv_unlock();
		return EBUSY;
	}
	fv_async_drop_relock(ibv);
	fv_srq_forget(srq);
	pd_users_add(ibv->pd, -1);
	free(srq);
	fv_alive_add(FV_SRQ, -1);
	fv_unlock();
	return 0;
}

/* ---- queue pairs ---- */

static bool qp_fits(const struct fv_device *device, const struct ibv_qp_cap *cap)
{
	return cap->max_inline_data <= device->max_inline && cap->max_send_wr <= device->max_wr &&
	       cap->max_recv_wr <= device->max_wr && cap->max_send_sge <= device->max_sge &&
	       cap->max_recv_sge <= device->max_sge;
}

void fv_next_qp_num(uint32_t number)
{
	fv_lock();
	fv.next_qp_num = number;
	fv_unlock();
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct fv_qp *qp;

	if (fv_enter_errno(CALL_ibv_create_qp))
		return NULL;
	fv.seen.qp = *init;
	if (init->qp_type == IBV_QPT_UD && fv_device_of(pd->context)->quirks & FV_NO_DATAGRAMS) {
		fv_unlock();
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!qp_fits(fv_device_of(pd->context), &init->cap) ||
	    (init->srq && init->srq->pd != pd &&
	     fv_device_of(pd->context)->quirks & FV_SRQ_SAME_PD)) {
		fv_unlock();
		errno = EINVAL;
		return NULL;
	}
	qp = calloc(1, sizeof(*qp));
	fv_require(qp, "no memory for a queue pair");
	qp->ibv = (struct ibv_qp){
		.context = pd->context,
		.qp_context = init->qp_context,
		.pd = pd,
		.send_cq = init->send_cq,
		.recv_cq = init->recv_cq,
		.srq = init->srq,
		.qp_num = fv.next_qp_num ? fv.next_qp_num : fv_number(),
		.state = IBV_QPS_RESET,
		.qp_type = init->qp_type,
	};
	fv.next_qp_num = 0;
	qp->sq_sig_all = init->sq_sig_all;
	qp->max_inline = init->cap.max_inline_data;
	qp->sends.end = &qp->sends.first;
	qp->recvs.end = &qp->recvs.first;
	qp->next = fv.qps;
	fv.qps = qp;
	pd_users_add(pd, 1);
	((struct fv_cq *)init->send_cq)->users++;
	((struct fv_cq *)init->recv_cq)->users++;
	if (init->srq)
		((struct fv_srq *)init->srq)->users++;
	fv_alive_add(FV_QP, 1);
	fv_unlock();
	return &qp->ibv;
}

int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	int err = fv_enter(CALL_ibv_modify_qp);

	if (err)
		return err;
	fv_require(mask & IBV_QP_STATE, "ibv_modify_qp without IBV_QP_STATE");
	fv.seen.modified[attr->qp_state].attr = *attr;
	fv.seen.modified[attr->qp_state].mask = mask;
	ibv->state = attr->qp_state;
	if (attr->qp_state == IBV_QPS_ERR && !(fv_device_of(ibv->context)->quirks & FV_LATE_FLUSH))
		fv_qp_flush((struct fv_qp *)ibv);
	fv_unlock();
	return 0;
}

void fv_qp_set_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	fv_lock();
	qp->state = state;
	fv_unlock();
}

int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	int err = fv_enter(CALL_ibv_query_qp);

	(void)mask, (void)init;
	if (err)
		return err;
	attr->qp_state = ibv->state;
	fv_unlock();
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct fv_qp *qp = (struct fv_qp *)ibv, **link = &fv.qps;
	int err = fv_enter(CALL_ibv_destroy_qp);

	if (err)
		return err;
	fv_qp_wait_answer_relock(ibv->qp_num);
	fv_async_drop_relock(ibv);
	while (*link != qp)
		link = &(*link)->next;
	*link = qp->next;
	fv_qp_forget(qp);
	pd_users_add(ibv->pd, -1);
	((struct fv_cq *)ibv->send_cq)->users--;
	((struct fv_cq *)ibv->recv_cq)->users--;
	if (ibv->srq)
		((struct fv_srq *)ibv->srq)->users--;
	free(qp);
	fv_alive_add(FV_QP, -1);
	fv_unlock();
	return 0;
}

/* ---- address handles ---- */

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ibv_ah *ah;

	if (fv_enter_errno(CALL_ibv_create_ah))
		return NULL;
	ah = calloc(1, sizeof(*ah));
	fv_require(ah, "no memory for an address handle");
	*ah = (struct ibv_ah){ .context = pd->context, .pd = pd };
	fv.seen.ah = *attr;
	pd_users_add(pd, 1);
	fv_alive_add(FV_AH, 1);
	fv_unlock();
	return ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	int err = fv_enter(CALL_ibv_destroy_ah);

	if (err)
		return err;
	pd_users_add(ah->pd, -1);
	free(ah);
	fv_alive_add(FV_AH, -1);
	fv_unlock();
	return 0;
}
