/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting. Fast posts are those into the region that the post before has used. They are given to
 * libfabric at once, and change nothing here, so they take no lock. All else takes the slow path.
 *
 * libfabric sends as part of the post, with locks of its own, and a system call is a cancellation
 * point: so no thread can be cancelled in a call of libfabric.
 */
#include "ofi.h"

#define SERVED_SOON UINT64_C(50000) /* ns; several times as long as it takes to serve a peer */

/* Everything is signalled, and every completion may wake the peer. */
const unsigned tp_post_flags = TP_POST_FENCE;

/* ---- segments ---- */

/*
 * Is the only segment of a post in the region? The addresses are compared as signed numbers: then
 * one that is before the region, or is none, is less. The sum of the lengths is looked at
 * afterwards, so it does not matter that a large one wraps here.
 */
static ALWAYS_INLINE bool view_has(const struct region_view *view, const DAT_LMR_TRIPLET *segment)
{
	const uint64_t address = segment->virtual_address;

	return likely(hot_read(view->context) == segment->lmr_context) &&
	       likely((int64_t)address >= (int64_t)hot_read(view->first)) &&
	       likely(address + segment->segment_length <= hot_read(view->end));
}

/*
 * Is one of several segments, which has the context of the region, in that, and not empty, and so
 * short that the sum can't wrap? Then both offsets are within the region, and the one behind the
 * segment is larger.
 */
static ALWAYS_INLINE bool view_has_part(const struct region_view *view, uint64_t address,
					uint64_t length)
{
	const uint64_t start = address - hot_read(view->first), end = start + length;

	return likely(start < end) && likely(end <= hot_read(view->size));
}

/* Is it the only segment of a message, which libfabric takes without a vector? */
static ALWAYS_INLINE bool is_single(enum tp_post post, unsigned nseg)
{
	return nseg == 1 && (post == TP_SEND || post == TP_RECV);
}

HOT bool tp_take_segment(struct tp_qp *qp, enum tp_post post, unsigned i, unsigned nseg,
			 const DAT_LMR_TRIPLET *segment, struct tp_taken *taken)
{
	struct transfer_queue *queue = post == TP_RECV ? &qp->recvs : &qp->sends;
	struct region_view *view = post == TP_READ ? &qp->reads : &queue->view;
	const uint64_t address = segment->virtual_address, length = segment->segment_length;

	if (nseg > 1 && !i) /* of several none is empty, so the sum needs no subtraction */
		taken->last = 0;
	taken->last += length;
	if (is_single(post, nseg)) {
		taken->single = segment;
		queue->single = segment;
		return view_has(view, segment);
	}
	queue->iov[i].iov_base = (void *)(uintptr_t)address;
	queue->iov[i].iov_len = length;
	if (nseg == 1)
		return view_has(view, segment);
	if (!i)
		taken->context = hot_read(view->context);
	if (unlikely(segment->lmr_context != taken->context) ||
	    !view_has_part(view, address, length))
		return false;
	/* the rest is read again for the next segment: registers for it would have to be saved */
	__asm__ volatile("" ::: "memory");
	return true;
}

HOT DAT_VLEN tp_taken_size(const struct tp_taken *taken, unsigned nseg)
{
	return nseg == 1 ? taken->last + 1 : taken->last;
}

/* Stores the segments that were taken for the latest post, as that had them. */
static void segments_taken(struct tp_qp *qp, enum tp_post post, unsigned nseg,
			   struct tp_sge *segments)
{
	const struct transfer_queue *queue = post == TP_RECV ? &qp->recvs : &qp->sends;
	const struct region_view *view = post == TP_READ ? &qp->reads : &queue->view;
	const uint32_t context = hot_read(view->context);

	if (is_single(post, nseg)) {
		tp_sge_set(segments, queue->single, queue->single->segment_length);
		return;
	}
	for (unsigned i = 0; i < nseg; i++)
		segments[i] = (struct tp_sge){ .address = (uintptr_t)queue->iov[i].iov_base,
					       .length = (uint32_t)queue->iov[i].iov_len,
					       .lmr_context = context };
}

/*
 * ---- the range of a write at the peer ----
 *
 * A program that polls its memory takes a write for complete when it sees the last byte, or the
 * last word. Who copies the bytes may store the end of a part before its beginning, as the C
 * library does, but not a part before the one that it follows. So the last word is a part of its
 * own, which is stored at once. Where the device places the bytes there is one part.
 */

/* Makes the last bytes of the first part a part of their own. Returns the number of parts. */
static ALWAYS_INLINE size_t range_cut(struct fi_rma_iov *range, size_t last)
{
	range[0].len -= last;
	range[1] = (struct fi_rma_iov){
		.addr = range[0].addr + range[0].len,
		.len = last,
		.key = range[0].key,
	};
	return 2;
}

/* Splits a range of few bytes, or one that stays in one part, as range_split does. */
static NOINLINE size_t range_split_seldom(const struct tp_qp *qp, struct fi_rma_iov *range)
{
	const size_t size = range[0].len;

	if (!qp->dev->writes_in_parts || !(size & (size - 1)))
		return 1;
	return range_cut(range, 1);
}

/* Splits the range of a write, which is the first part until then. Returns the number of parts. */
static ALWAYS_INLINE size_t range_split(const struct tp_qp *qp, struct fi_rma_iov *range)
{
	if (range[0].len <= qp->most_of_one_part)
		return range_split_seldom(qp, range);
	return range_cut(range, WRITE_LAST_PART);
}

/* ---- to libfabric ---- */

/* Gives libfabric a read; or a write, of which @flags are those of the call. */
static ssize_t rma_issue(const struct tp_qp *qp, const struct transfer *transfer,
			 const struct tp_sge *sge, const struct iovec *iov, void **desc,
			 void *context, uint64_t flags)
{
	struct fi_rma_iov remote[2] = {
		{ .addr = transfer->remote_address, .key = transfer->remote_key },
	};
	struct fi_msg_rma message = {
		.msg_iov = iov,
		.desc = desc,
		.iov_count = transfer->nsge,
		.rma_iov = remote,
		.rma_iov_count = 1,
		.context = context,
		.data = DAT_EDITION == 2 ? transfer->done.immed : 0,
	};

	for (unsigned i = 0; i < transfer->nsge; i++)
		remote[0].len += sge[i].length;
	if (transfer->kind == TRANSFER_READ)
		return fi_readmsg(qp->fi, &message, FI_COMPLETION);
	message.rma_iov_count = range_split(qp, remote);
	return fi_writemsg(qp->fi, &message, flags);
}

/* ---- immediate data, of DAT 2.0 ---- */

static struct transfer_queue queue_of_nobody;
const struct transfer untold_write = { .queue = &queue_of_nobody };

/*
 * Gives libfabric the message that follows a write, without bytes. It has the immediate data, and
 * the length of the write, which a receive of the message would not tell.
 */
static ssize_t immed_send(const struct tp_qp *qp, struct transfer *transfer,
			  const struct tp_sge *sge, uint64_t flags)
{
	struct fi_msg message = { .context = transfer };
	uint32_t length = 0;

	for (unsigned i = 0; i < transfer->nsge; i++)
		length += sge[i].length;
	message.data = (uint64_t)length << 32 | transfer->done.immed;
	return fi_sendmsg(qp->fi, &message, flags);
}

/*
 * Gives libfabric a write with immediate data. For those of a write libfabric's tcp completes no
 * receive of the peer. It does for those of a message, which does not overtake the write, is behind
 * it on the wire, and completes when a receive has taken it. If only the message is refused, it
 * alone is tried again.
 */
static ssize_t immed_issue(const struct tp_qp *qp, struct transfer *transfer,
			   const struct tp_sge *sge, const struct iovec *iov, void **desc)
{
	const uint64_t flags = qp->write_flags | FI_REMOTE_CQ_DATA;
	ssize_t ret = 0;

	if (!qp->dev->immed_follows && !transfer->nsge) /* verbs looks into the vector */
		return fi_writedata(qp->fi, NULL, 0, NULL, transfer->done.immed, 0, 0, 0, transfer);
	if (!qp->dev->immed_follows)
		return rma_issue(qp, transfer, sge, iov, desc, transfer, flags);
	if (transfer->kind == TRANSFER_WRITE_IMMED && transfer->nsge)
		ret = rma_issue(qp, transfer, sge, iov, desc, (void *)(uintptr_t)&untold_write, 0);
	if (ret)
		return ret;
	transfer->kind = TRANSFER_IMMED;
	return immed_send(qp, transfer, sge, flags);
}

/* ---- any transfer ---- */

int transfer_issue(struct transfer *transfer, const struct tp_sge *sge)
{
	CANCEL_FORBIDDEN;
	struct tp_qp *qp = transfer->queue->qp;
	const bool in = transfer->kind == TRANSFER_RECV || transfer->kind == TRANSFER_READ;
	struct iovec iov[TP_MAX_SGE];
	void *desc[TP_MAX_SGE];
	ssize_t ret;

	if (!mem_map(qp->dev, qp->pd, in, sge, transfer->nsge, iov, desc))
		return -EPERM;
	if (transfer->kind == TRANSFER_SEND && !transfer->nsge) /* whose vector verbs looks into */
		ret = fi_send(qp->fi, NULL, 0, NULL, 0, transfer);
	else if (transfer->kind == TRANSFER_SEND)
		ret = fi_sendv(qp->fi, iov, desc, transfer->nsge, 0, transfer);
	else if (transfer->kind == TRANSFER_RECV)
		ret = fi_recvv(qp->fi, iov, desc, transfer->nsge, 0, transfer);
	else if (DAT_EDITION == 2 && transfer->kind >= TRANSFER_WRITE_IMMED)
		ret = immed_issue(qp, transfer, sge, iov, desc);
	else
		ret = rma_issue(qp, transfer, sge, iov, desc, transfer, qp->write_flags);
	return ret ? ofi_errno(ret) : 0;
}

DAT_DTO_COMPLETION_STATUS transfer_status(int err)
{
	switch (err) {
	case 0:
		return DAT_DTO_SUCCESS;
	case -EPERM:
		return DAT_DTO_ERR_LOCAL_PROTECTION;
	case -ENOTCONN:
	case -EPIPE:
	case -ECONNRESET:
	case -ESHUTDOWN:
		return DAT_DTO_ERR_FLUSHED;
	default:
		return DAT_DTO_ERR_LOCAL_EP;
	}
}

/* ---- the slow path ---- */

/*
 * What the posts return: a negative number of libfabric, which was not looked at yet, or this: no
 * such post is possible any more.
 */
#define POST_OVER 1

static const enum transfer_kind kinds[] = {
	[TP_SEND] = TRANSFER_SEND,
	[TP_WRITE] = TRANSFER_WRITE,
	[TP_READ] = TRANSFER_READ,
	[TP_RECV] = TRANSFER_RECV,
};

/* Writes what the slot of a transfer has that takes the slow path. */
static void transfer_describe(struct transfer *transfer, enum transfer_kind kind, unsigned nsge,
			      bool fenced)
{
	transfer->kind = (uint8_t)kind;
	transfer->nsge = (uint8_t)nsge;
	transfer->fenced = fenced;
}

/* Returns the slot of a post that takes the slow path. */
static struct transfer *slow_transfer(struct transfer_queue *queue, const void *tag)
{
	struct transfer *transfer = transfer_of(queue, tag);

	if (!queue->started)
		queue_start(queue, transfer);
	return transfer;
}

/*
 * Makes a post that has to wait, or that is into another region than that of the view, which shows
 * this one from here on, if all is well with it. At most one thread posts to a queue, so one that
 * is open is closed by nobody else but the end of the connection.
 */
static int slow_post(struct tp_qp *qp, enum transfer_kind kind, const void *tag,
		     const struct tp_sge *sge, unsigned nsge, const DAT_RMR_TRIPLET *remote,
		     unsigned flags)
{
	struct transfer_queue *queue = kind == TRANSFER_RECV ? &qp->recvs : &qp->sends;
	struct transfer *transfer = slow_transfer(queue, tag);
	const bool read = kind == TRANSFER_READ;
	int err;

	transfer_describe(transfer, kind, nsge,
			  flags & TP_POST_FENCE && !(read && qp->dev->ordered_reads));
	if (remote) {
		transfer->remote_address = tp_remote_address(remote);
		transfer->remote_key = remote->rmr_context;
	}
	if (!atomic_load(&queue->open) || (transfer->fenced && qp_is_reading(qp))) {
		queue_post_later(queue, transfer, sge);
		return 0;
	}
	if (nsge)
		view_set(queue, read ? &qp->reads : &queue->view, read || kind == TRANSFER_RECV,
			 sge);
	if (read)
		qp_count_read(qp, 1);
	err = transfer_issue(transfer, sge);
	if (unlikely(err)) {
		if (read)
			qp_count_read(qp, -1u);
		queue_transfer_failed(queue, transfer, sge, err);
	}
	if (kind == TRANSFER_RECV && atomic_load(&queue->cq->starved))
		up_wake(qp->dev->ia);
	return 0;
}

int tp_post_send(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		 uint32_t size, unsigned flags)
{
	(void)size;
	return slow_post(qp, TRANSFER_SEND, tag, sge, nsge, NULL, flags);
}

/*
 * Makes a post of no bytes. It accesses no memory, so any key is valid, but libfabric would check
 * it. It completes in its turn, so it needs no fence.
 */
static int nothing_post(struct transfer_queue *queue, const void *tag)
{
	struct transfer *transfer = slow_transfer(queue, tag);

	transfer_describe(transfer, TRANSFER_NOTHING, 0, false);
	return queue_post_nothing(queue, transfer) ? POST_OVER : 0;
}

int tp_post_write(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		  uint32_t size, const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	(void)size;
	if (!nsge)
		return nothing_post(&qp->sends, tag);
	return slow_post(qp, TRANSFER_WRITE, tag, sge, nsge, remote, flags);
}

int tp_post_read(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		 const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	if (!nsge)
		return nothing_post(&qp->sends, tag);
	return slow_post(qp, TRANSFER_READ, tag, sge, nsge, remote, flags);
}

/* max_read_wr_sge is the limit of all reads. */
int tp_post_split_read(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		       const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	return tp_post_read(qp, tag, sge, nsge, remote, flags);
}

#if DAT_EDITION == 2
/* The core does not call it: there is no TP_CAP_ATOMIC. */
int tp_post_atomic(struct tp_qp *qp, void *tag, const struct tp_sge *sge,
		   const DAT_RMR_TRIPLET *remote, const struct tp_atomic *atomic, unsigned flags)
{
	(void)qp, (void)tag, (void)sge, (void)remote, (void)atomic, (void)flags;
	return -FI_EOPNOTSUPP;
}

int tp_post_write_immed(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
			uint32_t size, const DAT_RMR_TRIPLET *remote, uint32_t immed,
			unsigned flags)
{
	(void)size;
	transfer_of(&qp->sends, tag)->done.immed = immed;
	return slow_post(qp, TRANSFER_WRITE_IMMED, tag, sge, nsge, remote, flags);
}

/* Two calls of libfabric are so dear that this is not worth a fast path. */
int tp_fast_write_immed(struct tp_qp *qp, void *tag, const struct tp_taken *taken, unsigned nseg,
			const DAT_RMR_TRIPLET *remote, uint32_t immed, unsigned flags)
{
	struct tp_sge segments[TP_MAX_SGE];

	(void)taken;
	segments_taken(qp, TP_WRITE, nseg, segments);
	return tp_post_write_immed(qp, tag, segments, nseg, 0, remote, immed, flags);
}
#endif

int tp_post_recv(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge)
{
	return slow_post(qp, TRANSFER_RECV, tag, sge, nsge, NULL, 0);
}

int tp_post_error(int result)
{
	return result > 0 ? -ENOTCONN : ofi_errno(result);
}

/* A fast post that has to wait for reads becomes a slow one. */
static NOINLINE int fast_post_later(struct tp_qp *qp, enum tp_post post, const void *tag,
				    unsigned nseg, const DAT_RMR_TRIPLET *remote)
{
	struct tp_sge segments[TP_MAX_SGE];

	segments_taken(qp, post, nseg, segments);
	return slow_post(qp, kinds[post], tag, segments, nseg, remote, TP_POST_FENCE);
}

/* Describes an RMA transfer as slow_post does, by what its fast post has left. */
static void rma_describe(struct tp_qp *qp, struct transfer *transfer, enum tp_post post)
{
	transfer->remote_address = qp->remote[0].addr;
	transfer->remote_key = qp->remote[0].key;
	if (post == TP_READ)
		qp_count_read(qp, -1u);
}

/* No thread is cancelled in a post. */
COLD void tp_post_cancelled(struct tp_qp *qp)
{
	(void)qp;
}

COLD int tp_post_refused(struct tp_qp *qp, enum tp_post post, void *tag, unsigned nseg, int result)
{
	struct transfer_queue *queue = post == TP_RECV ? &qp->recvs : &qp->sends;
	struct transfer *transfer = transfer_of(queue, tag);
	struct tp_sge segments[TP_MAX_SGE];

	if (result == POST_OVER)
		return -ENOTCONN;
	if (post == TP_WRITE || post == TP_READ)
		rma_describe(qp, transfer, post);
	segments_taken(qp, post, nseg, segments);
	transfer_describe(transfer, kinds[post], nseg, false);
	queue_transfer_failed(queue, transfer, segments, ofi_errno(result));
	return 0;
}

/* ---- fast posts ---- */

/*
 * For a consumer that polls its memory, in the place of libfabric's call. What it has seen there
 * the service thread has placed, which answers the peer next, with a lock of libfabric's on which
 * this thread would sleep.
 */
static ssize_t write_when_served(struct fid_ep *fi, const struct fi_msg_rma *message,
				 uint64_t flags)
{
	struct tp_qp *qp = fi->fid.context;
	const unsigned serves = atomic_load(&qp->dev->serves);

	if (serves % 2 && serves != qp->waited_for) {
		const uint64_t until = tp_now() + SERVED_SOON;

		while (atomic_load(&qp->dev->serves) == serves && tp_now() < until)
			;
		qp->waited_for = serves; /* it may have lost its processor: once is enough */
	}
	return qp->writemsg(fi, message, flags);
}

void qp_write_when_served_locked(struct tp_qp *qp, bool when_served)
{
	assert_locked(&qp->sends.cq->lock);
	hot_write(qp->rma.writemsg, when_served ? write_when_served : qp->writemsg);
}

/*
 * Does a fence hold up the post? That the reads before it have completed may be noticed late: the
 * slow path looks again.
 */
static ALWAYS_INLINE bool must_wait(const struct tp_qp *qp, unsigned flags)
{
	return unlikely(flags & TP_POST_FENCE) && unlikely(qp_is_reading(qp));
}

HOT int tp_fast_send(struct tp_qp *qp, void *tag, const struct tp_taken *taken, unsigned nseg,
		     unsigned flags)
{
	struct transfer_queue *queue = &qp->sends;
	struct transfer *transfer = transfer_of(queue, tag);

	if (must_wait(qp, flags))
		return fast_post_later(qp, TP_SEND, tag, nseg, NULL);
	if (nseg == 1)
		return (int)UNCANCELLED(qp->messages.send(
			qp->fi, (void *)(uintptr_t)taken->single->virtual_address,
			taken->single->segment_length, queue->view.desc, 0, transfer));
	COMPUTE_HERE(transfer);
	return (int)UNCANCELLED(
		qp->messages.sendv(qp->fi, queue->iov, queue->view.descs, nseg, 0, transfer));
}

/*
 * Fills in the arguments of libfabric's call for RMA. The local length is that of the remote range,
 * too.
 */
static ALWAYS_INLINE struct fi_msg_rma *rma_fill(struct tp_qp *qp, struct fi_msg_rma *messages,
						 struct transfer *transfer,
						 const struct tp_taken *taken, unsigned nseg,
						 const DAT_RMR_TRIPLET *remote)
{
	const bool few = __builtin_constant_p(nseg) && nseg <= FEW_SEGMENTS;
	struct fi_msg_rma *message = &messages[few ? nseg : 0];

	qp->remote[0].addr = tp_remote_address(remote);
	qp->remote[0].len = tp_taken_size(taken, nseg);
	qp->remote[0].key = remote->rmr_context;
	if (!few)
		message->iov_count = nseg;
	message->context = transfer;
	return message;
}

HOT int tp_fast_write(struct tp_qp *qp, void *tag, const struct tp_taken *taken, unsigned nseg,
		      const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	struct transfer *transfer = transfer_of(&qp->sends, tag);
	struct fi_msg_rma *message;

	if (must_wait(qp, flags))
		return fast_post_later(qp, TP_WRITE, tag, nseg, remote);
	message = rma_fill(qp, qp->write_of, transfer, taken, nseg, remote);
	message->rma_iov_count = range_split(qp, qp->remote);
	return (int)UNCANCELLED(hot_read(qp->rma.writemsg)(qp->fi, message, qp->write_flags));
}

HOT int tp_fast_read(struct tp_qp *qp, void *tag, const struct tp_taken *taken, unsigned nseg,
		     const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	struct transfer *transfer = transfer_of(&qp->sends, tag);
	const struct fi_msg_rma *message;

	/* where reads are executed in order, a fence before one has nothing to add */
	if (must_wait(qp, flags) && !qp->dev->ordered_reads)
		return fast_post_later(qp, TP_READ, tag, nseg, remote);
	qp_count_read(qp, 1);
	message = rma_fill(qp, qp->read_of, transfer, taken, nseg, remote);
	return (int)UNCANCELLED(qp->rma.readmsg(qp->fi, message, FI_COMPLETION));
}

HOT int tp_fast_recv(struct tp_qp *qp, void *tag, const struct tp_taken *taken, unsigned nseg)
{
	struct transfer_queue *queue = &qp->recvs;
	struct transfer *transfer = transfer_of(queue, tag);

	if (nseg == 1)
		return (int)UNCANCELLED(qp->messages.recv(
			qp->fi, (void *)(uintptr_t)taken->single->virtual_address,
			taken->single->segment_length, queue->view.desc, 0, transfer));
	COMPUTE_HERE(transfer);
	return (int)UNCANCELLED(
		qp->messages.recvv(qp->fi, queue->iov, queue->view.descs, nseg, 0, transfer));
}

/*
 * Of a message without bytes libfabric's tcp reads the header, and then nothing says that it waits
 * for a receive. So who sleeps on the queue is not woken by its descriptor.
 */
HOT unsigned tp_recv_posted(const struct tp_cq *cq)
{
	return hot_load(uint8_t, &cq->sleeper);
}

COLD void tp_recv_late(struct tp_qp *qp, void *tag)
{
	queue_poke_late(&qp->recvs, transfer_of(&qp->recvs, tag));
}

/* Everything is signalled, so nobody needs a marker. */
int tp_post_marker(struct tp_qp *qp, void *tag)
{
	(void)qp, (void)tag;
	return -EOPNOTSUPP;
}
