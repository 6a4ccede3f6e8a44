/* SPDX-License-Identifier: BSD-2-Clause */
/* What is counted of connections and of transfers. */
#include "ep.h"

/* ---- in any build ---- */

void ep_count_event(struct ep *ep, DAT_EVENT_NUMBER number)
{
	struct ia *ia = ep->obj.ia;

	switch (number) {
	case DAT_CONNECTION_EVENT_ESTABLISHED:
		/* the endpoint of a connect has a target */
		ia_counts(ia, ep->target.qual ? IA_CM_ACTIVE_EST : IA_CM_PASSIVE_EST);
		return;
	case DAT_CONNECTION_EVENT_DISCONNECTED:
		return;
	case DAT_CONNECTION_EVENT_PEER_REJECTED:
		ia_counts(ia, IA_CM_USER_REJ_RX);
		return;
	case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
		ia_counts(ia, IA_CM_ERR_REFUSED);
		break;
	case DAT_CONNECTION_EVENT_BROKEN:
		ia_counts(ia, IA_CM_ERR_RESET);
		break;
	case DAT_CONNECTION_EVENT_TIMED_OUT:
		ia_counts(ia, IA_CM_ERR_TIMEOUT);
		break;
	default:
		break;
	}
	ia_counts(ia, IA_CM_ERR);
}

void ep_count_failure(struct ep *ep, DAT_DTO_COMPLETION_STATUS status)
{
	struct ia *ia = ep->obj.ia;

	switch (status) {
	case DAT_DTO_ERR_REMOTE_ACCESS:
		ia_counts(ia, IA_DIAG_ERR_SQ_RAE);
		break;
	case DAT_DTO_ERR_REMOTE_RESPONDER:
		ia_counts(ia, IA_DIAG_ERR_SQ_RIRE);
		break;
	case DAT_DTO_ERR_RECEIVER_NOT_READY:
		ia_counts(ia, IA_DIAG_ERR_SQ_RREE);
		break;
	case DAT_DTO_ERR_TRANSPORT:
		ia_counts(ia, IA_DIAG_ERR_SQ_TREE);
		break;
	default:
		break;
	}
}

/* ---- in builds that count on the data path ---- */

/*
 * Of each kind of transfer the counter of its number. That of the bytes follows it, but of atomic
 * operations, which have none.
 */
static const uint8_t post_counters[] = {
	[REQ_SEND] = EP_POST_SEND,
	[REQ_WRITE] = EP_POST_WRITE,
	[REQ_READ] = EP_POST_READ,
	[REQ_RECV] = EP_POST_RECV,
	[REQ_WRITE_IMMED] = EP_POST_WRITE_IMM,
	[REQ_FETCH_ADD] = EP_POST_FETCH_ADD,
	[REQ_CMP_SWAP] = EP_POST_CMP_SWAP,
	[REQ_SEND_UD] = EP_POST_SEND_UD,
};

static void count_transfer(struct ep *ep, unsigned counter, uint64_t size)
{
	counter_add(&ep->counters[counter], 1);
	counter_add(&ep->counters[counter + 1], size);
}

void ep_post_counted(struct ep *ep, enum req_kind kind, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov)
{
	uint64_t size = 0;

	if (kind == REQ_FETCH_ADD || kind == REQ_CMP_SWAP) {
		counter_add(&ep->counters[post_counters[kind]], 1);
		return;
	}
	for (DAT_COUNT i = 0; i < nseg; i++)
		size += iov[i].segment_length;
	count_transfer(ep, post_counters[kind], size);
}

void ep_count_receive(struct ep *ep, const struct tp_wc *wc)
{
	switch ((int)wc->status) {
	case TP_WC_WRITE_IMMED:
		count_transfer(ep, EP_RECV_RDMA_IMM, wc->length);
		break;
	case TP_WC_SEND_IMMED:
		count_transfer(ep, EP_RECV_IMM, wc->length);
		break;
	default:
		count_transfer(ep, ep_has_datagrams(ep) ? EP_RECV_UD : EP_RECV, wc->length);
	}
}
