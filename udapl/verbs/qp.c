/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs and their states. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs.h"

/* What iWARP devices take inline, and a size to try when more is refused. */
#define MODEST_INLINE 64

/* With as many inline bytes as the device will have it. */
static struct ibv_qp *qp_make(struct tp_dev *dev, const struct tp_qp_attr *attr, struct tp_qp *qp)
{
	unsigned max_inline = dev->env.max_inline;

	for (;;) {
		struct ibv_qp_init_attr init = {
			.qp_context = qp,
			.send_cq = attr->send_cq->ibv,
			.recv_cq = attr->recv_cq->ibv,
			.cap = {
				.max_send_wr = attr->max_send,
				.max_recv_wr = attr->max_recv,
				.max_send_sge = attr->max_send_sge,
				.max_recv_sge = attr->max_recv_sge,
				.max_inline_data = max_inline,
			},
			.qp_type = IBV_QPT_RC,
		};
		struct ibv_qp *ibv = ibv_create_qp(attr->pd->ibv, &init);

		if (ibv) {
			qp->max_inline = init.cap.max_inline_data < max_inline
						 ? init.cap.max_inline_data
						 : max_inline;
			return ibv;
		}
		if (!max_inline)
			return NULL;
		max_inline = max_inline > MODEST_INLINE ? MODEST_INLINE : 0;
	}
}

/* From here on it takes receives. On iWARP the connection manager does the rest. */
static int qp_init(struct tp_qp *qp)
{
	int mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS |
		   (qp->dev->iwarp ? 0 : IBV_QP_PKEY_INDEX | IBV_QP_PORT);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = qp->dev->port,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_WRITE,
	};
	int err = ibv_modify_qp(qp->ibv, &attr, mask);

	if (err)
		return -err;
	qp->state = IBV_QPS_INIT;
	return 0;
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
	qp->dev = dev;
	qp->ep = ep;
	qp->pd = attr->pd;
	qp->send_cq = attr->send_cq;
	qp->recv_cq = attr->recv_cq;
	qp->order = dev->iwarp ? IBV_SEND_FENCE : 0;
	qp->send_wr.sg_list = &qp->send_sge;
	qp->send_wr.num_sge = 1;
	qp->recv_wr.sg_list = &qp->recv_sge;
	qp->recv_wr.num_sge = 1;
	qp->ibv = qp_make(dev, attr, qp);
	if (!qp->ibv) {
		err = -errno;
		goto free_qp;
	}
	err = qp_init(qp);
	if (err)
		goto destroy_ibv;
	qp->pd->holders++;
	qp->send_cq->holders++;
	qp->recv_cq->holders++;
	/*
	 * The first sender may change what arming for errors has to mean: make up for what was
	 * armed before.
	 */
	if (!qp->send_cq->senders++ && dev->forgets != FORGETS_NOTHING)
		tp_cq_arm(qp->send_cq, TP_ARM_ERRORS);
	*qp_out = qp;
	return 0;
destroy_ibv:
	ibv_destroy_qp(qp->ibv);
free_qp:
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
	err = ibv_destroy_qp(qp->ibv);
	if (err)
		log_error("destroying a queue pair: %s", strerror(err));
	cq_put(qp->recv_cq);
	cq_put(qp->send_cq);
	pd_put(qp->pd);
	free(qp);
}

/* One that stays behind with an attempt is in its error state. */
void tp_qp_destroy(struct tp_qp *qp)
{
	qp->send_cq->senders--;
	qp_put(qp);
}

static int qp_move(struct tp_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int err = ibv_modify_qp(qp->ibv, attr, mask);

	if (err) {
		log_error("moving a queue pair to state %d: %s", attr->qp_state, strerror(err));
		return -err;
	}
	qp->state = attr->qp_state;
	return 0;
}

int qp_bring_up(struct tp_qp *qp, struct rdma_cm_id *id, unsigned max_read_in,
		unsigned max_read_out)
{
	const struct tp_env *env = &qp->dev->env;
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS };
	int err, init_mask, rtr_mask, rts_mask;

	if (rdma_init_qp_attr(id, &init, &init_mask) || rdma_init_qp_attr(id, &rtr, &rtr_mask) ||
	    rdma_init_qp_attr(id, &rts, &rts_mask))
		return -ENOTCONN;
	rtr.max_dest_rd_atomic = (uint8_t)max_read_in;
	/* the connection manager would leave it at 0, 655 ms */
	rtr.min_rnr_timer = (uint8_t)env->rnr_timer;
	/* known only now; an unconnected QP has the first */
	rtr.pkey_index = init.pkey_index;
	err = qp_move(qp, &rtr, rtr_mask | IBV_QP_PKEY_INDEX);
	if (err)
		return err;
	rts.max_rd_atomic = (uint8_t)max_read_out;
	rts.retry_cnt = (uint8_t)env->ack_retry;
	rts.rnr_retry = TP_RNR_FOR_EVER;
	if (env->ack_timer != TP_ACK_TIMER_CM)
		rts.timeout = (uint8_t)env->ack_timer;
	return qp_move(qp, &rts, rts_mask);
}
