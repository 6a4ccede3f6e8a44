/* SPDX-License-Identifier: BSD-2-Clause */
/* Posts, completions, completion channels. */
#include "impl.h"

#define RECORDED 64

static struct fv_sent sent[RECORDED];
static struct fv_received received[RECORDED];
static unsigned n_sent, n_received;

/* ---- posts ---- */

void fv_wr_add(struct fv_wr_list *list, uint64_t wr_id, bool signalled)
{
	struct fv_wr *wr = calloc(1, sizeof(*wr));

	fv_require(wr, "no memory for a request");
	wr->wr_id = wr_id;
	wr->signalled = signalled;
	*list->end = wr;
	list->end = &wr->next;
}

/* Takes the first one. Returns false if there is none. */
static bool wr_take(struct fv_wr_list *list, struct fv_wr *taken)
{
	struct fv_wr *wr = list->first;

	if (!wr)
		return false;
	*taken = *wr;
	list->first = wr->next;
	if (!list->first)
		list->end = &list->first;
	free(wr);
	return true;
}

static void sge_record(struct ibv_sge to[FV_MAX_SGE], const struct ibv_sge *from, int n)
{
	fv_require(n <= FV_MAX_SGE, "more segments than any device takes");
	if (n > 0)
		memcpy(to, from, (size_t)n * sizeof(*from));
}

#define NO_INLINE (UINT64_C(1) << 20) /* no device sends so many bytes inline */

static bool is_too_long(const struct ibv_send_wr *wr)
{
	uint64_t size = 0;

	for (int i = 0; i < wr->num_sge; i++)
		size += wr->sg_list[i].length;
	return wr->send_flags & IBV_SEND_INLINE && size >= NO_INLINE;
}

static int send_one(struct fv_qp *qp, const struct ibv_send_wr *wr)
{
	struct fv_sent *record;
	int err = fv_enter(CALL_ibv_post_send);

	if (err)
		return err;
	if (is_too_long(wr)) {
		fv_unlock();
		return EINVAL;
	}
	record = &sent[n_sent++ % RECORDED];
	record->qp = &qp->ibv;
	record->wr = *wr;
	record->wr.sg_list = record->sge;
	sge_record(record->sge, wr->sg_list, wr->num_sge);
	fv_wr_add(&qp->sends, wr->wr_id, qp->sq_sig_all || wr->send_flags & IBV_SEND_SIGNALED);
	if (qp->ibv.state == IBV_QPS_ERR &&
	    !(fv_device_of(qp->ibv.context)->quirks & FV_LATE_FLUSH))
		fv_qp_flush(qp);
	fv_unlock();
	return 0;
}

void fv_tell_device(const struct ibv_qp *qp)
{
	if (fv_device_of(qp->context)->quirks & FV_POSTS_BY_CALL)
		pthread_testcancel();
}

int fv_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int err = 0;

	for (; wr; wr = wr->next) {
		err = send_one((struct fv_qp *)ibv, wr);
		if (err) {
			*bad = wr;
			break;
		}
	}
	fv_tell_device(ibv);
	return err;
}

static int receive_one(struct fv_qp *qp, const struct ibv_recv_wr *wr)
{
	struct fv_received *record;
	int err = fv_enter(CALL_ibv_post_recv);

	if (err)
		return err;
	record = &received[n_received++ % RECORDED];
	record->qp = &qp->ibv;
	record->srq = NULL;
	record->wr = *wr;
	record->wr.sg_list = record->sge;
	sge_record(record->sge, wr->sg_list, wr->num_sge);
	fv_wr_add(&qp->recvs, wr->wr_id, true);
	if (qp->ibv.state == IBV_QPS_ERR &&
	    !(fv_device_of(qp->ibv.context)->quirks & FV_LATE_FLUSH))
		fv_qp_flush(qp);
	fv_unlock();
	return 0;
}

int fv_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int err = 0;

	for (; wr; wr = wr->next) {
		err = receive_one((struct fv_qp *)ibv, wr);
		if (err) {
			*bad = wr;
			break;
		}
	}
	return err;
}

int fv_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fv_received *record;
	int err = fv_enter(CALL_ibv_post_srq_recv);

	if (err) {
		*bad = wr;
		return err;
	}
	record = &received[n_received++ % RECORDED];
	record->qp = NULL;
	record->srq = ibv;
	record->wr = *wr;
	record->wr.sg_list = record->sge;
	sge_record(record->sge, wr->sg_list, wr->num_sge);
	fv_wr_add(&((struct fv_srq *)ibv)->recvs, wr->wr_id, true);
	fv_unlock();
	return 0;
}

void fv_srq_forget(struct fv_srq *srq)
{
	struct fv_wr wr;

	while (wr_take(&srq->recvs, &wr))
		;
}

struct fv_sent fv_sent(unsigned ago)
{
	struct fv_sent copy;

	fv_lock();
	fv_require(ago < RECORDED && ago < n_sent, "fv_sent: no such request");
	copy = sent[(n_sent - 1 - ago) % RECORDED];
	fv_unlock();
	copy.wr.sg_list = NULL;
	return copy;
}

struct fv_received fv_received(unsigned ago)
{
	struct fv_received copy;

	fv_lock();
	fv_require(ago < RECORDED && ago < n_received, "fv_received: no such receive");
	copy = received[(n_received - 1 - ago) % RECORDED];
	fv_unlock();
	copy.wr.sg_list = NULL;
	return copy;
}

/* ---- completions ---- */

static bool arm_fires(const struct fv_cq *cq, const struct ibv_wc *wc, bool solicited)
{
	unsigned quirks = fv_device_of(cq->ibv.context)->quirks;
	bool failed = wc->status != IBV_WC_SUCCESS;

	if (cq->armed == FV_ARMED_ANY)
		return true;
	if (cq->armed == FV_DISARMED || quirks & FV_MISSES_ALL)
		return false;
	return solicited || (failed && !(quirks & FV_MISSES_ERRORS));
}

static void complete_locked(struct fv_cq *cq, const struct ibv_wc *wc, bool solicited)
{
	fv_require(cq->count < (unsigned)cq->ibv.cqe, "a completion queue overruns");
	if (cq->count == cq->room) {
		cq->room = cq->room ? cq->room * 2 : 16;
		cq->entries = realloc(cq->entries, cq->room * sizeof(*cq->entries));
		fv_require(cq->entries, "no memory for completions");
	}
	cq->entries[cq->count++] = *wc;
	if (!arm_fires(cq, wc, solicited))
		return;
	cq->armed = FV_DISARMED;
	if (cq->ibv.channel) {
		cq->unread++;
		fv_fd_add(cq->ibv.channel->fd);
	}
}

void fv_complete(struct ibv_cq *cq, const struct ibv_wc *wc, bool solicited)
{
	fv_lock();
	complete_locked((struct fv_cq *)cq, wc, solicited);
	fv_unlock();
}

static bool wr_complete(struct fv_qp *qp, bool is_send, enum ibv_wc_status status, uint32_t length)
{
	struct ibv_cq *cq = is_send ? qp->ibv.send_cq : qp->ibv.recv_cq;
	struct ibv_wc wc = { .status = status, .qp_num = qp->ibv.qp_num, .byte_len = length };
	struct fv_wr wr;

	if (!wr_take(is_send ? &qp->sends : &qp->recvs, &wr))
		return false;
	wc.wr_id = wr.wr_id;
	wc.opcode = is_send ? IBV_WC_SEND : IBV_WC_RECV;
	if (wr.signalled || status != IBV_WC_SUCCESS)
		complete_locked((struct fv_cq *)cq, &wc, false);
	return true;
}

void fv_complete_send(struct ibv_qp *qp, enum ibv_wc_status status)
{
	fv_lock();
	fv_require(wr_complete((struct fv_qp *)qp, true, status, 0), "no request is outstanding");
	fv_unlock();
}

void fv_complete_recv(struct ibv_qp *qp, enum ibv_wc_status status, uint32_t length)
{
	fv_lock();
	fv_require(wr_complete((struct fv_qp *)qp, false, status, length),
		   "no receive is outstanding");
	fv_unlock();
}

void fv_complete_srq_recv(struct ibv_qp *qp, enum ibv_wc_status status, uint32_t length)
{
	struct ibv_wc wc = {
		.status = status, .qp_num = qp->qp_num, .byte_len = length, .opcode = IBV_WC_RECV
	};
	struct fv_wr wr = { 0 };

	fv_lock();
	fv_require(qp->srq && wr_take(&((struct fv_srq *)qp->srq)->recvs, &wr),
		   "no receive is outstanding");
	wc.wr_id = wr.wr_id;
	complete_locked((struct fv_cq *)qp->recv_cq, &wc, false);
	fv_unlock();
}

void fv_qp_flush(struct fv_qp *qp)
{
	while (wr_complete(qp, true, IBV_WC_WR_FLUSH_ERR, 0))
		;
	while (wr_complete(qp, false, IBV_WC_WR_FLUSH_ERR, 0))
		;
}

void fv_flush(struct ibv_qp *qp)
{
	fv_lock();
	fv_qp_flush((struct fv_qp *)qp);
	fv_unlock();
}

static void cq_clean(struct ibv_cq *ibv, uint32_t qp_num)
{
	struct fv_cq *cq = (struct fv_cq *)ibv;
	unsigned kept = 0;

	for (unsigned i = 0; i < cq->count; i++)
		if (cq->entries[i].qp_num != qp_num)
			cq->entries[kept++] = cq->entries[i];
	cq->count = kept;
}

void fv_qp_forget(struct fv_qp *qp)
{
	struct fv_wr wr;

	while (wr_take(&qp->sends, &wr) || wr_take(&qp->recvs, &wr))
		;
	if (!(fv_device_of(qp->ibv.context)->quirks & FV_CLEANS_QUEUES))
		return;
	cq_clean(qp->ibv.send_cq, qp->ibv.qp_num);
	cq_clean(qp->ibv.recv_cq, qp->ibv.qp_num);
}

unsigned fv_outstanding(void)
{
	unsigned count = 0;

	fv_lock();
	for (const struct fv_qp *qp = fv.qps; qp; qp = qp->next) {
		for (const struct fv_wr *wr = qp->sends.first; wr; wr = wr->next)
			count++;
		for (const struct fv_wr *wr = qp->recvs.first; wr; wr = wr->next)
			count++;
	}
	fv_unlock();
	return count;
}

/* Scripted to fail it returns -1, as ibv_poll_cq does. */
int fv_poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	struct fv_cq *cq = (struct fv_cq *)ibv;
	unsigned got;

	if (fv_enter(CALL_ibv_poll_cq))
		return -1;
	got = cq->count < (unsigned)n ? cq->count : (unsigned)n;
	if (got) {
		memcpy(wc, cq->entries, got * sizeof(*wc));
		memmove(cq->entries, cq->entries + got, (cq->count - got) * sizeof(*wc));
	}
	cq->count -= got;
	fv_unlock();
	return (int)got;
}

/* ---- arming and events ---- */

int fv_req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
	struct fv_cq *cq = (struct fv_cq *)ibv;
	enum fv_armed armed = solicited_only ? FV_ARMED_SOLICITED : FV_ARMED_ANY;
	int err = fv_enter(CALL_ibv_req_notify_cq);

	if (err)
		return err;
	if (armed > cq->armed || fv_device_of(ibv->context)->quirks & FV_LAST_ARM_WINS)
		cq->armed = armed;
	fv_unlock();
	return 0;
}

enum fv_armed fv_armed(struct ibv_cq *cq)
{
	enum fv_armed armed;

	fv_lock();
	armed = ((struct fv_cq *)cq)->armed;
	fv_unlock();
	return armed;
}

static struct fv_cq *cq_unread(const struct ibv_comp_channel *channel)
{
	struct fv_cq *cq = fv.cqs;

	while (cq->ibv.channel != channel || !cq->unread)
		cq = cq->next;
	return cq;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **ibv, void **context)
{
	struct fv_cq *cq;

	if (fv_enter_errno(CALL_ibv_get_cq_event))
		return -1;
	if (!fv_fd_take(channel->fd)) {
		fv_unlock();
		return -1;
	}
	cq = cq_unread(channel);
	cq->unread--;
	cq->unacked++;
	fv_alive_add(FV_CQ_EVENT, 1);
	*ibv = &cq->ibv;
	*context = cq->ibv.cq_context;
	fv_unlock();
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *ibv, unsigned n)
{
	struct fv_cq *cq = (struct fv_cq *)ibv;

	(void)fv_enter(CALL_ibv_ack_cq_events);
	fv_require(n <= cq->unacked, "more events are acknowledged than were got");
	cq->unacked -= n;
	fv_alive_add(FV_CQ_EVENT, -(int)n);
	fv_unlock();
}
