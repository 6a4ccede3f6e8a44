/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs and their states. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs.h"

/* In bytes: the second size to try, which is also the default on iWARP. */
#define SMALL_INLINE 64

static int qp_refused(const struct tp_dev *dev, const struct tp_qp_attr *attr)
{
	int err = refusal();

	log_error("%s: ibv_create_qp for %u requests of %u segments and %u receives of %u: %s; the "
		  "device supports %u queue pairs, and %u work requests or %u segments if they "
		  "fit together",
		  dev->attr.device, attr->max_send, attr->max_send_sge, attr->max_recv,
		  attr->max_recv_sge, strerror(-err), dev->attr.max_qp, dev->attr.max_qp_wr,
		  dev->attr.max_sge);
	return err;
}

/*
 * Makes the queue pair of libibverbs: with less inline data, and then none, if the device refuses
 * max_inline bytes.
 */
static int qp_ibv_create(struct tp_dev *dev, const struct tp_qp_attr *attr, struct tp_qp *qp)
{
	unsigned max_inline = dev->env.max_inline;

	for (;;) {
		struct ibv_qp_init_attr init = {
			.qp_context = qp,
			.send_cq = attr->send_cq->ibv,
			.recv_cq = attr->recv_cq->ibv,
			.srq = attr->srq ? attr->srq->ibv : NULL,
			.cap = {
				.max_send_wr = attr->max_send,
				.max_recv_wr = attr->srq ? 0 : attr->max_recv,
				.max_send_sge = attr->max_send_sge,
				.max_recv_sge = attr->srq ? 0 : attr->max_recv_sge,
				.max_inline_data = max_inline,
			},
			.qp_type = attr->datagrams ? IBV_QPT_UD : IBV_QPT_RC,
		};

		errno = 0;
		qp->ibv = ibv_create_qp(attr->pd->ibv, &init);
		if (qp->ibv) {
			qp->max_inline = init.cap.max_inline_data < max_inline
						 ? init.cap.max_inline_data
						 : max_inline;
			return 0;
		}
		if (!max_inline)
			return qp_refused(dev, attr);
		max_inline = max_inline > SMALL_INLINE ? SMALL_INLINE : 0;
	}
}

/*
 * Says whether a new queue pair can't have the number that the device gave it. That of an orphan
 * must not be used again until its completions are dropped no more; nor that of a queue pair with
 * an SRQ, until its completions were taken.
 */
static bool number_is_in_use(const struct tp_dev *dev, const struct tp_qp_attr *attr,
			     uint32_t number)
{
	if (attr->srq && srq_has_number(dev, number))
		return true;
	return dev->iwarp && (stray_has(attr->send_cq, number) || stray_has(attr->recv_cq, number));
}

static int qp_ibv_create_unlike_stray(struct tp_dev *dev, const struct tp_qp_attr *attr,
				      struct tp_qp *qp)
{
	int err = qp_ibv_create(dev, attr, qp);
	struct ibv_qp *alike = qp->ibv;

	if (err || !number_is_in_use(dev, attr, alike->qp_num))
		return err;
	err = qp_ibv_create_unlike_stray(dev, attr, qp); /* while that one has the number */
	ibv_destroy_qp(alike);
	return err;
}

static int qp_modify(struct tp_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	static const char *const names[] = {
		[IBV_QPS_INIT] = "INIT",
		[IBV_QPS_RTR] = "RTR",
		[IBV_QPS_RTS] = "RTS",
	};
	int err = ibv_modify_qp(qp->ibv, attr, mask);

	if (err) {
		log_error("%s: ibv_modify_qp of QP %u to %s: %s", qp->dev->attr.device,
			  qp->ibv->qp_num, names[attr->qp_state], strerror(err));
		return -err;
	}
	qp->state = attr->qp_state;
	return 0;
}

/*
 * Moves a QP from RESET to INIT, where receives can be posted. The kernel's connection manager
 * makes the later state changes of an iWARP QP.
 */
static int qp_to_init(struct tp_qp *qp)
{
	int mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS |
		   (qp->dev->iwarp ? 0 : IBV_QP_PKEY_INDEX | IBV_QP_PORT);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = qp->dev->port,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_WRITE,
	};

	if (qp->dev->attr.caps & TP_CAP_ATOMIC)
		attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;

	return qp_modify(qp, &attr, mask);
}

/*
 * Asks librdmacm for the partition and the key that all queue pairs of datagrams have which it
 * brings together.
 */
static int datagram_attr(struct tp_dev *dev, struct ibv_qp_attr *attr)
{
	struct sockaddr_storage addr = dev->attr.addr;
	struct rdma_cm_id *id;
	int err = 0, mask;

	if (LIBRDMACM(rdma_create_id(dev->cm, &id, NULL, RDMA_PS_UDP)))
		return -errno;
	attr->qp_state = IBV_QPS_INIT;
	if (LIBRDMACM(rdma_bind_addr(id, (struct sockaddr *)&addr)) ||
	    rdma_init_qp_attr(id, attr, &mask))
		err = -errno;
	(void)LIBRDMACM(rdma_destroy_id(id));
	return err;
}

/* Moves a QP of datagrams from RESET to RTS: it needs no peer for that. */
static int qp_to_rts_alone(struct tp_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	int err = datagram_attr(qp->dev, &attr);

	if (err) {
		log_error("%s: rdma_init_qp_attr of datagrams: %s", qp->dev->attr.device,
			  strerror(-err));
		return err;
	}
	attr.port_num = qp->dev->port;
	err = qp_modify(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	attr.qp_state = IBV_QPS_RTR;
	if (!err)
		err = qp_modify(qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = 0;
	return err ? err : qp_modify(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

int tp_datagram_resume(struct tp_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int err = ibv_query_qp(qp->ibv, &attr, IBV_QP_STATE, &init);

	if (err || attr.qp_state == IBV_QPS_RTS)
		return -err;
	if (attr.qp_state != IBV_QPS_SQE)
		return -EIO;
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE };
	return -ibv_modify_qp(qp->ibv, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE);
}

int tp_qp_create(struct tp_dev *dev, const struct tp_qp_attr *attr, struct ep *ep,
		 struct tp_qp **qp_out)
{
	struct tp_qp *qp;
	int err;

	if (attr->max_send_sge > TP_MAX_SGE || attr->max_recv_sge > TP_MAX_SGE)
		return -EINVAL;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	qp->holders = 1;
	qp->memory = attr->srq ? 2 : 1;
	qp->dev = dev;
	qp->ep = ep;
	qp->pd = attr->pd;
	qp->send_cq = attr->send_cq;
	qp->recv_cq = attr->recv_cq;
	qp->srq = attr->srq;
	qp->datagrams = attr->datagrams;
	qp->fence = dev->iwarp ? IBV_SEND_FENCE : 0;
	err = stray_qp_prepare(qp);
	if (err)
		goto free_qp;
	err = qp_ibv_create_unlike_stray(dev, attr, qp);
	if (err)
		goto free_qp;
	qp->number = qp->ibv->qp_num;
	err = attr->datagrams ? qp_to_rts_alone(qp) : qp_to_init(qp);
	if (!err && qp->srq)
		err = srq_qp_begin(qp);
	if (err)
		goto destroy_ibv;
	qp->pd->holders++;
	pd_join(qp);
	qp->send_cq->holders++;
	qp->recv_cq->holders++;
	/*
	 * Where solicited-only arming misses send errors, the first sender changes how tp_cq_arm
	 * arms the CQ for errors. It may be armed already, so it is armed again.
	 */
	if (!atomic_exchange(&qp->send_cq->sends, true) && dev->solicited != SOLICITED_WORKS)
		tp_cq_arm(qp->send_cq, TP_ARM_ERRORS);
	*qp_out = qp;
	return 0;
destroy_ibv:
	ibv_destroy_qp(qp->ibv);
free_qp:
	stray_qp_end(qp);
	free(qp);
	return err;
}

int tp_qp_error(struct tp_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	int err = ibv_modify_qp(qp->ibv, &attr, IBV_QP_STATE);

	if (err)
		return -err;
	qp->state = IBV_QPS_ERR;
	return 0;
}

void qp_put(struct tp_qp *qp)
{
	int err;

	if (--qp->holders)
		return;
	pd_part(qp);
	windows_end(qp);
	err = ibv_destroy_qp(qp->ibv);
	if (err)
		log_error("%s: ibv_destroy_qp of QP %u: %s", qp->dev->attr.device, qp->ibv->qp_num,
			  strerror(err));
	stray_qp_end(qp);
	if (qp->srq)
		srq_put(qp->srq);
	cq_put(qp->recv_cq);
	cq_put(qp->send_cq);
	pd_put(qp->pd);
	qp_memory_put(qp);
}

void qp_memory_put(struct tp_qp *qp)
{
	if (!--qp->memory)
		free(qp);
}

/* If an orphaned attempt still holds the QP, iwarp_release has put it into the error state. */
void tp_qp_destroy(struct tp_qp *qp, bool outstanding)
{
	(void)outstanding;
	if (qp->orphaned)
		stray_qp_begin(qp);
	qp_put(qp);
}

int qp_to_rts(struct tp_qp *qp, struct rdma_cm_id *id, unsigned max_read_in, unsigned max_read_out)
{
	const struct tp_env *env = &qp->dev->env;
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS };
	int err, init_mask, rtr_mask, rts_mask;

	if ((qp->dev->has_pkeys && rdma_init_qp_attr(id, &init, &init_mask)) ||
	    rdma_init_qp_attr(id, &rtr, &rtr_mask) || rdma_init_qp_attr(id, &rts, &rts_mask)) {
		log_cm("%s: id %p: rdma_init_qp_attr: %s", qp->dev->attr.device, (void *)id,
		       strerror(errno));
		return -ENOTCONN;
	}
	rtr.max_dest_rd_atomic = (uint8_t)max_read_in;
	/* librdmacm leaves it at 0, which means 655 ms */
	rtr.min_rnr_timer = (uint8_t)env->rnr_timer;
	/* qp_to_init set 0, before the P_Key of the connection was known */
	rtr.pkey_index = init.pkey_index;
	env_apply_to_path(env, &rtr.ah_attr);
	err = qp_modify(qp, &rtr, rtr_mask | IBV_QP_PKEY_INDEX);
	if (err)
		return err;
	rts.max_rd_atomic = (uint8_t)max_read_out;
	rts.retry_cnt = (uint8_t)env->ack_retry;
	rts.rnr_retry = (uint8_t)env->rnr_retry;
	if (env->ack_timer != TP_ENV_UNSET)
		rts.timeout = (uint8_t)env->ack_timer;
	return qp_modify(qp, &rts, rts_mask);
}
