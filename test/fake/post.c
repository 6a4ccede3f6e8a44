/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fake transfers: work requests are queued, matched with the receives and memory of the peer, and
 * executed by memmove.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/editions.h"
#include "fake_impl.h"

static bool local_ok(const struct tp_qp *qp, const struct wr *wr)
{
	const struct tp_pd *pd = wr->kind == WR_RECV && qp->srq ? qp->srq->pd : qp->pd;
	unsigned priv = 0;

	if (wr->kind == WR_READ && (qp->dev->attr.caps & TP_CAP_READ_NEEDS_WRITE))
		priv = DAT_MEM_PRIV_REMOTE_WRITE_FLAG;
	else if (wr->kind == WR_READ || wr->kind == WR_ATOMIC || wr->kind == WR_RECV)
		/* remote write includes local write, as with verbs */
		priv = DAT_MEM_PRIV_WRITE_FLAG;
	for (unsigned i = 0; i < wr->nseg; i++) {
		const struct tp_sge *sge = &wr->sges[i];

		if (!mem_allows(pd, sge->lmr_context, sge->address, sge->length, priv))
			return false;
	}
	return true;
}

static bool remote_ok(const struct tp_qp *peer, const struct wr *wr)
{
	unsigned priv = wr->kind == WR_READ	? DAT_MEM_PRIV_REMOTE_READ_FLAG
			: wr->kind == WR_ATOMIC ? TP_PRIV_ATOMIC
						: DAT_MEM_PRIV_REMOTE_WRITE_FLAG;

	return wr->size == 0 || mem_allows_peer(peer, wr->remote.rmr_context,
						wr->remote.REMOTE_ADDRESS, wr->size, priv);
}

static void *sge_at(const struct tp_sge *sge, uint32_t offset)
{
	return (void *)(uintptr_t)(sge->address + mem_bias(sge->lmr_context) + offset);
}

/* Copies @length bytes between two lists of segments. */
static void sges_copy(const struct tp_sge *to, const struct tp_sge *from, DAT_VLEN length)
{
	uint32_t to_done = 0, from_done = 0;

	while (length > 0) {
		uint32_t n = (uint32_t)length;

		if (n > to->length - to_done)
			n = to->length - to_done;
		if (n > from->length - from_done)
			n = from->length - from_done;
		memmove(sge_at(to, to_done), sge_at(from, from_done), n);
		to_done += n;
		from_done += n;
		length -= n;
		if (to_done == to->length) {
			to++;
			to_done = 0;
		}
		if (from_done == from->length) {
			from++;
			from_done = 0;
		}
	}
}

static bool has_receive(const struct tp_qp *qp)
{
	return qp->recvs.first || (qp->srq && qp->srq->recvs.first);
}

/* Completes the receive of the peer; returns the status of the send. */
static DAT_DTO_COMPLETION_STATUS message_run(struct tp_qp *peer, const struct wr *wr)
{
	struct wr *recv = peer->recvs.first ? wr_take(&peer->recvs) : srq_take(peer->srq);
	DAT_DTO_COMPLETION_STATUS status = DAT_DTO_SUCCESS, done = DAT_DTO_SUCCESS;

	if (wr->size > recv->size)
		status = DAT_DTO_ERR_LOCAL_LENGTH;
	else if (!local_ok(peer, recv))
		status = DAT_DTO_ERR_LOCAL_PROTECTION;
	else
		sges_copy(recv->sges, wr->sges, wr->size);
	if (fake.quirks & FAKE_SENDS_IMMED) {
		recv->immed = FAKE_IMMED;
		done = (DAT_DTO_COMPLETION_STATUS)TP_WC_SEND_IMMED;
	} else if (wr->invalidates) {
		recv->immed = wr->key;
		done = (DAT_DTO_COMPLETION_STATUS)TP_WC_INVALIDATED;
	}
	qp_complete(peer, recv, status == DAT_DTO_SUCCESS ? done : status, (uint32_t)wr->size,
		    wr->flags & TP_POST_SOLICIT);
	return status == DAT_DTO_SUCCESS ? DAT_DTO_SUCCESS : DAT_DTO_ERR_REMOTE_RESPONDER;
}

static DAT_DTO_COMPLETION_STATUS send_run(struct tp_qp *peer, const struct wr *wr)
{
	if (wr->invalidates && !mw_invalidate(peer, wr->key))
		return DAT_DTO_ERR_REMOTE_ACCESS;
	return message_run(peer, wr);
}

/* Completes a receive of the peer, whose memory is not touched, when the write was executed. */
static void immed_run(struct tp_qp *peer, const struct wr *wr)
{
	struct wr *recv = peer->recvs.first ? wr_take(&peer->recvs) : srq_take(peer->srq);

	recv->immed = wr->immed;
	qp_complete(peer, recv, (DAT_DTO_COMPLETION_STATUS)TP_WC_WRITE_IMMED, (uint32_t)wr->size,
		    wr->flags & TP_POST_SOLICIT);
}

static void atomic_run(const struct wr *wr, const struct tp_sge *remote)
{
	uint64_t before;

	memcpy(&before, sge_at(remote, 0), sizeof(before));
	if (!wr->atomic.swaps || before == wr->atomic.operand) {
		const uint64_t after = wr->atomic.swaps ? wr->atomic.swap
							: before + wr->atomic.operand;

		memcpy(sge_at(remote, 0), &after, sizeof(after));
	}
	memcpy(sge_at(&wr->sges[0], 0), &before, sizeof(before));
}

static DAT_DTO_COMPLETION_STATUS rdma_run(struct tp_qp *peer, const struct wr *wr)
{
	const struct tp_sge remote = {
		.address = wr->remote.REMOTE_ADDRESS,
		.length = (uint32_t)wr->size,
		.lmr_context = wr->remote.rmr_context,
	};

	if (!remote_ok(peer, wr))
		return DAT_DTO_ERR_REMOTE_ACCESS;
	if (wr->kind == WR_ATOMIC)
		atomic_run(wr, &remote);
	else if (wr->kind == WR_READ)
		sges_copy(wr->sges, &remote, wr->size);
	else
		sges_copy(&remote, wr->sges, wr->size);
	if (wr->kind == WR_WRITE_IMMED)
		immed_run(peer, wr);
	return DAT_DTO_SUCCESS;
}

static DAT_DTO_COMPLETION_STATUS transfer(struct tp_qp *qp, const struct wr *wr)
{
	DAT_DTO_COMPLETION_STATUS status = fake.fail_transfer;

	fake.fail_transfer = DAT_DTO_SUCCESS;
	if (status != DAT_DTO_SUCCESS)
		return status;
	if (!local_ok(qp, wr))
		return DAT_DTO_ERR_LOCAL_PROTECTION;
	if (wr->size > qp->dev->attr.max_message)
		return DAT_DTO_ERR_LOCAL_LENGTH;
	if (wr->kind == WR_BIND)
		return mw_bind(qp, &wr->bind, wr->zero_based, wr->from, wr->key)
			       ? DAT_DTO_SUCCESS
			       : DAT_RMR_OPERATION_FAILED;
	status = wr->kind == WR_SEND ? send_run(qp->peer, wr) : rdma_run(qp->peer, wr);
	if (status != DAT_DTO_SUCCESS)
		qp_break(qp->peer, fake.quirks & FAKE_REPORTS_BROKEN);
	return status;
}

/* Whether the first request of @qp can be executed now, successfully or not. */
static bool runnable(const struct tp_qp *qp)
{
	const struct wr *wr = qp->sends.first;

	if (!wr || qp->state != QP_UP)
		return false;
	if (fake.fail_transfer != DAT_DTO_SUCCESS || !local_ok(qp, wr))
		return true;
	if (wr->kind == WR_BIND)
		return true;
	if (!qp->peer || qp->peer->state != QP_UP)
		return false;
	return (wr->kind != WR_SEND && wr->kind != WR_WRITE_IMMED) || has_receive(qp->peer);
}

static void run_first(struct tp_qp *qp)
{
	struct wr *wr = wr_take(&qp->sends);
	DAT_DTO_COMPLETION_STATUS status = transfer(qp, wr);
	bool loses = wr->kind == WR_READ && (fake.quirks & FAKE_LOSES_READS);

	qp_complete(qp, wr, status, 0, false);
	if (status == DAT_DTO_SUCCESS)
		return;
	while (loses && qp->sends.first && qp->sends.first->kind == WR_READ)
		free(wr_take(&qp->sends));
	qp_break(qp, false);
}

void transfers_run(struct tp_qp *qp)
{
	while (!fake.hold) {
		if (runnable(qp))
			run_first(qp);
		else if (qp->peer && runnable(qp->peer))
			run_first(qp->peer);
		else
			return;
	}
}

static int post_check(const struct tp_qp *qp, const struct wr_queue *queue, const struct wr *wr)
{
	bool recv = wr->kind == WR_RECV;

	fake_require(!recv || !qp->srq, "receives are posted to the shared receive queue");
	if (wr->nseg > queue->max_sge || (qp->state == QP_READY && !recv))
		return -EINVAL;
	if (qp->state == QP_ERROR && recv && (fake.quirks & FAKE_REFUSES_RECV))
		return -EINVAL;
	if (qp->state == QP_ERROR && !recv && (fake.quirks & FAKE_REFUSES_SEND))
		return -ENOTCONN;
	return queue->posted - queue->retired < queue->limit ? 0 : -ENOMEM;
}

/* A request was posted in the error state: flushes it, unless a quirk says otherwise. */
static void flush_posted(struct tp_qp *qp, struct wr_queue *queue)
{
	unsigned lost = queue == &qp->recvs ? FAKE_FORGETS_RECV : FAKE_SWALLOWS_SEND;

	if (!(fake.quirks & (lost | FAKE_LATE_FLUSH)))
		qp_flush(qp, queue);
}

/* Queues a copy of @template with the segments @sges. */
static int wr_post(enum fake_call call, struct tp_qp *qp, const struct wr *template,
		   const struct tp_sge *sges)
{
	struct wr_queue *queue = template->kind == WR_RECV ? &qp->recvs : &qp->sends;
	struct wr *wr;
	bool by_call;
	int err = fake_enter(call);

	if (err)
		return err;
	err = post_check(qp, queue, template);
	if (err)
		goto unlock;
	wr = malloc(sizeof(*wr));
	if (!wr) {
		err = -ENOMEM;
		goto unlock;
	}
	*wr = *template;
	if (wr->nseg > 0)
		memcpy(wr->sges, sges, wr->nseg * sizeof(*sges));
	if (wr->kind != WR_RECV)
		fake.seen.post_flags = wr->flags;
	wr->seq = fake.next_seq++;
	wr->number = queue->posted++;
	*queue->end = wr;
	queue->end = &wr->next;
	if (qp->state == QP_ERROR)
		flush_posted(qp, queue);
	else
		transfers_run(qp);
unlock:
	by_call = fake.quirks & FAKE_POSTS_BY_CALL && template->kind != WR_RECV &&
		  template->kind != WR_BIND && call != CALL_POST_MARKER;
	fake_unlock();
	/* The library of a software device tells it so that there is a request in the queue. */
	if (!err && by_call)
		pthread_testcancel();
	return err;
}

const unsigned tp_post_flags = TP_POST_FENCE | TP_POST_SIGNAL | TP_POST_SOLICIT;

static DAT_VLEN sges_size(const struct tp_sge *sges, unsigned nsge)
{
	DAT_VLEN size = 0;

	for (unsigned i = 0; i < nsge; i++) {
		fake_require(sges[i].length > 0, "no segment is empty");
		size += sges[i].length;
	}
	fake_require(size <= TP_MAX_LENGTH, "the sum of the segments fits 32 bits");
	return size;
}

int tp_post_error(int result)
{
	return result;
}

void tp_post_cancelled(struct tp_qp *qp)
{
	(void)qp;
}

int tp_post_refused(struct tp_qp *qp, enum tp_post post, void *tag, unsigned nseg, int result)
{
	(void)qp, (void)post, (void)tag, (void)nseg;
	return tp_post_error(result);
}

int tp_post_send(struct tp_qp *qp, void *tag, const struct tp_sge *sges, unsigned nsge,
		 uint32_t size, unsigned flags)
{
	const struct wr wr = {
		.kind = WR_SEND, .tag = tag, .flags = flags, .size = size, .nseg = nsge
	};

	fake_require(size == sges_size(sges, nsge), "a send's length is that of its segments");
	return wr_post(CALL_POST_SEND, qp, &wr, sges);
}

struct wr *wr_receive(void *tag, const struct tp_sge *sges, unsigned nsge)
{
	struct wr *wr = malloc(sizeof(*wr));

	if (!wr)
		return NULL;
	*wr = (struct wr){ .kind = WR_RECV,
			   .tag = tag,
			   .flags = TP_POST_SIGNAL,
			   .size = sges_size(sges, nsge),
			   .nseg = nsge };
	if (nsge > 0)
		memcpy(wr->sges, sges, nsge * sizeof(*sges));
	return wr;
}

int tp_post_recv(struct tp_qp *qp, void *tag, const struct tp_sge *sges, unsigned nsge)
{
	const struct wr wr = { .kind = WR_RECV,
			       .tag = tag,
			       .flags = TP_POST_SIGNAL,
			       .size = sges_size(sges, nsge),
			       .nseg = nsge };

	return wr_post(CALL_POST_RECV, qp, &wr, sges);
}

int tp_post_write(struct tp_qp *qp, void *tag, const struct tp_sge *sges, unsigned nsge,
		  uint32_t size, const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	const struct wr wr = { .kind = WR_WRITE,
			       .tag = tag,
			       .flags = flags,
			       .size = size,
			       .remote = *remote,
			       .nseg = nsge };

	fake_require(size == sges_size(sges, nsge), "a write's length is that of its segments");
	return wr_post(CALL_POST_WRITE, qp, &wr, sges);
}

static int read_post(struct tp_qp *qp, void *tag, const struct tp_sge *sges, unsigned nsge,
		     const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	const struct wr wr = { .kind = WR_READ,
			       .tag = tag,
			       .flags = flags,
			       .size = sges_size(sges, nsge),
			       .remote = *remote,
			       .nseg = nsge };

	return wr_post(CALL_POST_READ, qp, &wr, sges);
}

int tp_post_read(struct tp_qp *qp, void *tag, const struct tp_sge *sges, unsigned nsge,
		 const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	fake_require(nsge <= qp->dev->attr.max_read_wr_sge, "one work request is enough");
	return read_post(qp, tag, sges, nsge, remote, flags);
}

int tp_post_split_read(struct tp_qp *qp, void *tag, const struct tp_sge *sges, unsigned nsge,
		       const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	fake_require(nsge > qp->dev->attr.max_read_wr_sge, "one work request is not enough");
	return read_post(qp, tag, sges, nsge, remote, flags);
}

#if DAT_EDITION == 2
int tp_post_write_immed(struct tp_qp *qp, void *tag, const struct tp_sge *sges, unsigned nsge,
			uint32_t size, const DAT_RMR_TRIPLET *remote, uint32_t immed,
			unsigned flags)
{
	struct wr wr = { .kind = WR_WRITE_IMMED,
			 .tag = tag,
			 .flags = flags,
			 .size = size,
			 .immed = immed,
			 .nseg = nsge };

	fake_require(qp->dev->attr.caps & TP_CAP_IMMED, "the device has immediate data");
	fake_require(size == sges_size(sges, nsge), "a write's length is that of its segments");
	fake_require(remote || !size, "a write of bytes has a place for them");
	if (remote)
		wr.remote = *remote;
	return wr_post(CALL_POST_WRITE_IMMED, qp, &wr, sges);
}

int tp_post_send_invalidate(struct tp_qp *qp, void *tag, const struct tp_sge *sges, unsigned nsge,
			    uint32_t size, DAT_RMR_CONTEXT context, unsigned flags)
{
	const struct wr wr = { .kind = WR_SEND,
			       .tag = tag,
			       .flags = flags,
			       .size = size,
			       .invalidates = true,
			       .key = context,
			       .nseg = nsge };

	fake_require(qp->dev->attr.caps & TP_CAP_INVALIDATE, "the device can invalidate");
	fake_require(size == sges_size(sges, nsge), "a send's length is that of its segments");
	return wr_post(CALL_POST_SEND, qp, &wr, sges);
}

int tp_post_atomic(struct tp_qp *qp, void *tag, const struct tp_sge *sge,
		   const DAT_RMR_TRIPLET *remote, const struct tp_atomic *atomic, unsigned flags)
{
	const struct wr wr = { .kind = WR_ATOMIC,
			       .tag = tag,
			       .flags = flags,
			       .size = sizeof(uint64_t),
			       .remote = *remote,
			       .atomic = *atomic,
			       .nseg = 1 };

	fake_require(qp->dev->attr.caps & TP_CAP_ATOMIC, "the device has atomic operations");
	fake_require(sges_size(sge, 1) == sizeof(uint64_t), "an atomic operation is on 8 bytes");
	fake_require(tp_remote_address(remote) % sizeof(uint64_t) == 0, "they are aligned");
	return wr_post(CALL_POST_ATOMIC, qp, &wr, sge);
}
#endif

/* Any: fast_post.c has the posts that follow. */
bool tp_take_segment(struct tp_qp *qp, enum tp_post post, unsigned i, unsigned nseg,
		     const DAT_LMR_TRIPLET *segment, struct tp_taken *taken)
{
	fake_require(i < nseg && nseg <= FAKE_MAX_SGE, "a segment is one of its post");
	(void)qp, (void)post;
	return tp_take_any(taken, i, segment);
}

static int bind_post(struct tp_qp *qp, void *tag, const struct tp_bind *bind, bool zero_based,
		     unsigned flags, DAT_RMR_CONTEXT *context)
{
	struct wr wr = {
		.kind = WR_BIND, .tag = tag, .flags = flags, .bind = *bind, .zero_based = zero_based
	};
	int err;

	fake_require(bind->mw && bind->mr, "a bind or unbind names a window and a region");
	fake_lock();
	wr.key = mw_next_key(bind->mw);
	wr.from = mw_post(bind->mw, wr.key);
	err = (fake.quirks & FAKE_SHORT_WINDOWS && bind->size > FAKE_WINDOW) ||
			      (fake.quirks & FAKE_NO_ZERO_BASED && zero_based)
		      ? -EINVAL
		      : 0;
	fake_unlock();
	if (!err)
		err = wr_post(CALL_POST_BIND, qp, &wr, NULL);
	if (err) {
		fake_lock();
		(void)mw_post(bind->mw, wr.from);
		fake_unlock();
	}
	*context = err ? wr.from : wr.key;
	return err;
}

int tp_post_bind(struct tp_qp *qp, void *tag, const struct tp_bind *bind, unsigned flags,
		 DAT_RMR_CONTEXT *context)
{
	return bind_post(qp, tag, bind, false, flags, context);
}

#if DAT_EDITION == 2
int tp_post_bind_typed(struct tp_qp *qp, void *tag, const struct tp_bind *bind, bool zero_based,
		       unsigned flags, DAT_RMR_CONTEXT *context)
{
	return bind_post(qp, tag, bind, zero_based, flags, context);
}
#endif

int tp_post_marker(struct tp_qp *qp, void *tag)
{
	const struct wr wr = { .kind = WR_WRITE, .tag = tag, .flags = TP_POST_SIGNAL };

	return wr_post(CALL_POST_MARKER, qp, &wr, NULL);
}

void fake_hold(bool hold)
{
	fake_lock();
	fake.hold = hold;
	for (struct tp_qp *qp = fake.qps; qp; qp = qp->next)
		transfers_run(qp);
	fake_unlock();
}

/* Replaces @oldest when the first request of @queue was posted before. */
static void pick_older(struct wr_queue *queue, struct tp_qp *qp, struct wr_queue **oldest,
		       struct tp_qp **of)
{
	if (queue->first && (!*oldest || queue->first->seq < (*oldest)->first->seq)) {
		*oldest = queue;
		*of = qp;
	}
}

bool fake_step(void)
{
	struct wr_queue *oldest = NULL;
	struct tp_qp *of = NULL;

	fake_lock();
	for (struct tp_qp *qp = fake.qps; qp; qp = qp->next) {
		bool flush = qp->state == QP_ERROR && (fake.quirks & FAKE_LATE_FLUSH);

		if (flush || runnable(qp))
			pick_older(&qp->sends, qp, &oldest, &of);
		if (flush)
			pick_older(&qp->recvs, qp, &oldest, &of);
	}
	if (oldest && of->state == QP_ERROR) {
		qp_complete(of, wr_take(oldest), DAT_DTO_ERR_FLUSHED, 0, false);
		qp_report_last_receive(of);
	} else if (oldest) {
		run_first(of);
	}
	fake_unlock();
	return oldest != NULL;
}

void fake_fail_transfer(DAT_DTO_COMPLETION_STATUS status)
{
	fake_lock();
	fake.fail_transfer = status;
	fake_unlock();
}

void fake_give_up(void)
{
	fake_lock();
	for (struct tp_qp *qp = fake.qps; qp; qp = qp->next) {
		bool alone = !qp->peer || qp->peer->state == QP_ERROR;

		if (qp->state == QP_UP && qp->sends.first && alone) {
			qp_complete(qp, wr_take(&qp->sends), DAT_DTO_ERR_TRANSPORT, 0, false);
			qp_break(qp, false);
		}
	}
	fake_unlock();
}

unsigned fake_outstanding(void)
{
	unsigned n = 0;

	fake_lock();
	for (struct tp_qp *qp = fake.qps; qp; qp = qp->next) {
		for (struct wr *wr = qp->sends.first; wr; wr = wr->next)
			n++;
		for (struct wr *wr = qp->recvs.first; wr; wr = wr->next)
			n++;
	}
	for (struct tp_srq *srq = fake.srqs; srq; srq = srq->next)
		for (struct wr *wr = srq->recvs.first; wr; wr = wr->next)
			n++;
	fake_unlock();
	return n;
}
