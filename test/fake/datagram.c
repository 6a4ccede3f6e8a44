/* SPDX-License-Identifier: BSD-2-Clause */
/* Fake datagrams of DAT 2.0: address handles, and sends, which arrive or are lost at once. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fake_impl.h"

#define NETWORK_HEADER 40 /* bytes at the front of each receive */

struct tp_ah {
	struct tp_dev *dev;
	uint32_t number;
};

struct tp_ah *ah_new(struct tp_dev *dev, uint32_t number)
{
	struct tp_ah *ah = malloc(sizeof(*ah));

	fake_require_host(ah != NULL, "memory");
	*ah = (struct tp_ah){ dev, number };
	alive_add(dev, FAKE_AH, 1);
	return ah;
}

uint32_t tp_ah_number(const struct tp_ah *ah)
{
	return ah->number;
}

void tp_ah_destroy(struct tp_ah *ah)
{
	fake_begin(CALL_AH_DESTROY);
	alive_add(ah->dev, FAKE_AH, -1);
	fake_unlock();
	free(ah);
}

bool tp_wc_is_datagram(const struct tp_cq *cq, const struct tp_wc *wc)
{
	bool is_datagram = false;

	fake_lock();
	for (const struct tp_qp *qp = fake.qps; qp; qp = qp->next)
		is_datagram |= qp->datagrams && qp->ep == tp_wc_ep(cq, wc);
	fake_unlock();
	return is_datagram;
}

static struct tp_qp *qp_with(uint32_t number)
{
	struct tp_qp *qp = fake.qps;

	while (qp && qp->number != number)
		qp = qp->next;
	return qp;
}

/* Puts the message into the oldest receive of @qp, behind the header. Without one it is lost. */
static void arrive(struct tp_qp *qp, const struct wr *wr)
{
	DAT_DTO_COMPLETION_STATUS done = DAT_DTO_SUCCESS;
	struct wr *recv;
	char *to;

	if (!qp || qp->state != QP_UP || (!qp->recvs.first && !(qp->srq && qp->srq->recvs.first)))
		return;
	recv = qp->recvs.first ? wr_take(&qp->recvs) : srq_take(qp->srq);
	fake_require(recv->nseg == 1, "a receive of a datagram has one segment in these tests");
	if (NETWORK_HEADER + wr->size > recv->size) {
		free(recv); /* too long for it: it is lost, and the receive with it */
		return;
	}
	to = (char *)(uintptr_t)recv->sges[0].address;
	memset(to, 0xee, NETWORK_HEADER);
	to += NETWORK_HEADER;
	for (unsigned i = 0; i < wr->nseg; to += wr->sges[i++].length)
		memcpy(to, (void *)(uintptr_t)wr->sges[i].address, wr->sges[i].length);
	if (fake.quirks & FAKE_SENDS_IMMED) {
		recv->immed = FAKE_IMMED;
		done = (DAT_DTO_COMPLETION_STATUS)TP_WC_SEND_IMMED;
	}
	qp_complete(qp, recv, done, (uint32_t)(NETWORK_HEADER + wr->size),
		    wr->flags & TP_POST_SOLICIT);
}

static DAT_DTO_COMPLETION_STATUS run(struct tp_qp *qp, const struct wr *wr, uint32_t number)
{
	DAT_DTO_COMPLETION_STATUS status = fake.fail_transfer;

	fake.fail_transfer = DAT_DTO_SUCCESS;
	if (qp->stopped || qp->state != QP_UP)
		return DAT_DTO_ERR_FLUSHED;
	if (status == DAT_DTO_SUCCESS)
		arrive(qp_with(number), wr);
	else
		qp->stopped = true;
	return status;
}

int tp_post_datagram(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		     uint32_t size, const struct tp_ah *ah, unsigned flags)
{
	struct wr *wr;
	bool by_call;
	int err = fake_enter(CALL_POST_DATAGRAM);

	if (err)
		return err;
	fake_require(qp->datagrams && nsge <= FAKE_MAX_SGE && size <= qp->dev->attr.max_datagram,
		     "a datagram fits");
	fake_require(flags & TP_POST_SIGNAL && !(flags & TP_POST_FENCE),
		     "datagrams are signalled, and have no fence");
	wr = malloc(sizeof(*wr));
	if (!wr) {
		fake_unlock();
		return -ENOMEM;
	}
	*wr = (struct wr){
		.kind = WR_SEND, .tag = tag, .flags = flags, .size = size, .nseg = nsge
	};
	memcpy(wr->sges, sge, nsge * sizeof(*sge));
	wr->number = qp->sends.posted++;
	fake.seen.post_flags = flags;
	qp_complete(qp, wr, run(qp, wr, ah->number), 0, false);
	by_call = fake.quirks & FAKE_POSTS_BY_CALL;
	fake_unlock();
	if (by_call)
		pthread_testcancel();
	return 0;
}

int tp_datagram_resume(struct tp_qp *qp)
{
	int err = fake_enter(CALL_DATAGRAM_RESUME);

	if (err)
		return err;
	qp->stopped = false;
	err = qp->state == QP_UP ? 0 : -EINVAL;
	fake_unlock();
	return err;
}
