/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues, each with a completion channel of its own. tp_cq_poll is on the data path.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "verbs.h"

static const DAT_DTO_COMPLETION_STATUS dto_statuses[] = {
	[IBV_WC_SUCCESS] = DAT_DTO_SUCCESS,
	[IBV_WC_LOC_LEN_ERR] = DAT_DTO_ERR_LOCAL_LENGTH,
	[IBV_WC_LOC_QP_OP_ERR] = DAT_DTO_ERR_LOCAL_EP,
	[IBV_WC_LOC_EEC_OP_ERR] = DAT_DTO_ERR_TRANSPORT,
	[IBV_WC_LOC_PROT_ERR] = DAT_DTO_ERR_LOCAL_PROTECTION,
	[IBV_WC_WR_FLUSH_ERR] = DAT_DTO_ERR_FLUSHED,
	[IBV_WC_MW_BIND_ERR] = DAT_RMR_OPERATION_FAILED,
	[IBV_WC_BAD_RESP_ERR] = DAT_DTO_ERR_BAD_RESPONSE,
	[IBV_WC_LOC_ACCESS_ERR] = DAT_DTO_ERR_LOCAL_PROTECTION,
	[IBV_WC_REM_INV_REQ_ERR] = DAT_DTO_ERR_REMOTE_RESPONDER,
	[IBV_WC_REM_ACCESS_ERR] = DAT_DTO_ERR_REMOTE_ACCESS,
	[IBV_WC_REM_OP_ERR] = DAT_DTO_ERR_REMOTE_RESPONDER,
	[IBV_WC_RETRY_EXC_ERR] = DAT_DTO_ERR_TRANSPORT,
	[IBV_WC_RNR_RETRY_EXC_ERR] = DAT_DTO_ERR_RECEIVER_NOT_READY,
	[IBV_WC_LOC_RDD_VIOL_ERR] = DAT_DTO_ERR_LOCAL_PROTECTION,
	[IBV_WC_REM_INV_RD_REQ_ERR] = DAT_DTO_ERR_REMOTE_RESPONDER,
	[IBV_WC_REM_ABORT_ERR] = DAT_DTO_ERR_REMOTE_RESPONDER,
	[IBV_WC_INV_EECN_ERR] = DAT_DTO_ERR_TRANSPORT,
	[IBV_WC_INV_EEC_STATE_ERR] = DAT_DTO_ERR_TRANSPORT,
	[IBV_WC_FATAL_ERR] = DAT_DTO_ERR_TRANSPORT,
	[IBV_WC_RESP_TIMEOUT_ERR] = DAT_DTO_ERR_RECEIVER_NOT_READY,
	[IBV_WC_GENERAL_ERR] = DAT_DTO_ERR_TRANSPORT,
};

/*
 * Names what an administrator can do for a network that is too slow; once, as all peers may be
 * lost.
 */
static COLD void wc_name_settings(enum ibv_wc_status status)
{
	static atomic_flag named = ATOMIC_FLAG_INIT;

	if (status == IBV_WC_RETRY_EXC_ERR && !atomic_flag_test_and_set(&named))
		log_warn("a peer did not acknowledge a transfer, however often it was sent: the "
			 "peer is gone, or the network needs a larger DAPL_ACK_TIMER");
}

static COLD DAT_DTO_COMPLETION_STATUS wc_failure(enum ibv_wc_status status, uint32_t vendor_err)
{
	if (status != IBV_WC_WR_FLUSH_ERR)
		log_to(LOG_DTO, "work completion: %s, vendor error 0x%x", ibv_wc_status_str(status),
		       vendor_err);
	wc_name_settings(status);
	return status < ARRAY_SIZE(dto_statuses) ? dto_statuses[status] : DAT_DTO_ERR_TRANSPORT;
}

_Static_assert(sizeof(struct tp_wc) == sizeof(struct ibv_wc) &&
		       offsetof(struct tp_wc, tag) == offsetof(struct ibv_wc, wr_id) &&
		       offsetof(struct tp_wc, status) == offsetof(struct ibv_wc, status) &&
		       offsetof(struct tp_wc, length) == offsetof(struct ibv_wc, byte_len) &&
		       (int)IBV_WC_SUCCESS == (int)DAT_DTO_SUCCESS &&
		       (sizeof(void *) == 8 || __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__),
	       "completions are polled in place");

/* Says whether a work completion is, or may be, more than a plain success. */
#if DAT_EDITION == 2
_Static_assert(offsetof(struct tp_wc, transport) == offsetof(struct ibv_wc, imm_data) &&
		       offsetof(struct tp_wc, transport) ==
			       offsetof(struct ibv_wc, invalidated_rkey) &&
		       sizeof(((struct ibv_wc *)0)->imm_data) == sizeof(uint32_t),
	       "immediate data and keys are in place");

static inline bool wc_is_special(const struct ibv_wc *wc)
{
	return wc->status |
	       (wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV | IBV_WC_IP_CSUM_OK));
}

/* Of a request with immediate data the device may say that, too. */
static COLD DAT_DTO_COMPLETION_STATUS wc_special(const struct tp_cq *cq, const struct ibv_wc *wc)
{
	if (wc->status)
		return wc_failure(wc->status, wc->vendor_err);
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		return (DAT_DTO_COMPLETION_STATUS)TP_WC_WRITE_IMMED;
	if (wc->opcode == IBV_WC_RECV && wc->wc_flags & IBV_WC_WITH_IMM)
		return (DAT_DTO_COMPLETION_STATUS)TP_WC_SEND_IMMED;
	if (wc->opcode == IBV_WC_RECV && wc->wc_flags & cq->dev->invalidated_flags)
		return (DAT_DTO_COMPLETION_STATUS)TP_WC_INVALIDATED;
	return DAT_DTO_SUCCESS;
}
#else
static inline bool wc_is_special(const struct ibv_wc *wc)
{
	return wc->status;
}

static inline DAT_DTO_COMPLETION_STATUS wc_special(const struct tp_cq *cq, const struct ibv_wc *wc)
{
	(void)cq;
	return wc_failure(wc->status, wc->vendor_err);
}
#endif

static inline void wc_convert(const struct tp_cq *cq, union wc *wc)
{
	if (unlikely(wc_is_special(&wc->ibv)))
		wc->tp.status = wc_special(cq, &wc->ibv);
}

HOT unsigned tp_cq_poll(struct tp_cq *cq, struct tp_wc *wc, unsigned max)
{
	union wc *batch = (union wc *)wc;
	struct ibv_cq *polled = atomic_load_explicit(&cq->polled, memory_order_relaxed);
	int got = ibv_poll_cq(polled, (int)max, &batch->ibv);

	if (got <= 0)
		return 0;
	wc_convert(cq, &batch[0]);
	for (int i = 1; i < got && max > 1; i++)
		wc_convert(cq, &batch[i]);
	return (unsigned)got;
}

/* A poll for one completion takes no other one off the queue, so there is never one left. */
HOT bool tp_cq_next(struct tp_cq *cq, struct tp_wc *wc)
{
	(void)cq, (void)wc;
	return false;
}

int tp_cq_create(struct tp_dev *dev, unsigned depth, struct evd *evd, struct tp_cq **cq_out)
{
	struct tp_cq *cq = calloc(1, sizeof(*cq));
	int err;

	if (!cq)
		return -ENOMEM;
	cq->holders = 1;
	cq->dev = dev;
	cq->evd = evd;
	errno = 0;
	cq->channel = ibv_create_comp_channel(dev->ibv);
	if (!cq->channel) {
		err = refusal();
		goto free_cq;
	}
	if (fcntl(cq->channel->fd, F_SETFL, O_NONBLOCK) ||
	    fcntl(cq->channel->fd, F_SETFD, FD_CLOEXEC)) {
		err = -errno;
		goto destroy_channel;
	}
	errno = 0;
	cq->ibv = ibv_create_cq(dev->ibv, (int)depth, cq, cq->channel, 0);
	if (!cq->ibv) {
		err = refusal();
		goto destroy_channel;
	}
	stray_init(cq);
	dev->holders++;
	*cq_out = cq;
	return 0;
destroy_channel:
	ibv_destroy_comp_channel(cq->channel);
free_cq:
	free(cq);
	return err;
}

void cq_put(struct tp_cq *cq)
{
	int err;

	if (--cq->holders)
		return;
	err = ibv_destroy_cq(cq->ibv);
	if (err)
		log_error("%s: ibv_destroy_cq: %s", cq->dev->attr.device, strerror(err));
	ibv_destroy_comp_channel(cq->channel);
	stray_fini(cq);
	dev_put(cq->dev);
	free(cq);
}

void tp_cq_destroy(struct tp_cq *cq)
{
	up_assert_locked(cq->dev->ia);
	cq->evd = NULL;
	cq_put(cq);
}

unsigned tp_cq_depth(const struct tp_cq *cq)
{
	return (unsigned)cq->ibv->cqe;
}

/*
 * Objects of libibverbs may be used by several threads at once (ibv_alloc_td(3)). The providers
 * that replace the buffer of the queue take the lock of ibv_poll_cq before the system call and keep
 * it until completions are taken from the new one. Some return a negative errno.
 */
int tp_cq_resize(struct tp_cq *cq, unsigned depth)
{
	int err = ibv_resize_cq(cq->ibv, (int)depth);

	return err > 0 ? -err : err;
}

int tp_cq_arm(struct tp_cq *cq, enum tp_arm what)
{
	enum solicited_quirk quirk = cq->dev->solicited;
	bool misses = quirk == SOLICITED_MISSES_ALL ||
		      (quirk == SOLICITED_MISSES_SEND_ERRORS && cq->sends);

	if (what == TP_ARM_NOTHING)
		return 0;
	return -ibv_req_notify_cq(cq->ibv, what != TP_ARM_ANY && !misses);
}

int tp_cq_fd(const struct tp_cq *cq)
{
	return cq->channel->fd;
}

int tp_cq_sleep(struct tp_cq *cq)
{
	(void)tp_cq_arm(cq, TP_ARM_ANY);
	return -1;
}

/*
 * Takes one event. All events are of the channel's only CQ, and the channel stays readable while
 * there are more.
 */
bool tp_cq_events(struct tp_cq *cq)
{
	struct ibv_cq *ibv;
	void *context;

	if (ibv_get_cq_event(cq->channel, &ibv, &context))
		return false;
	ibv_ack_cq_events(ibv, 1);
	return true;
}
