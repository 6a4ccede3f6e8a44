/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting. Plain posts into the region that the post before has used are given to libfabric at
 * once. They change nothing here, so they take no lock. All else takes the slow path.
 */
#include "ofi.h"

_Static_assert(offsetof(struct transfer, context) == 0, "libfabric returns that address");

/* ---- segments ---- */

/* A segment of a post becomes one of libfabric in place. */
_Static_assert(sizeof(struct tp_sge) == sizeof(struct iovec) &&
		       offsetof(struct tp_sge, address) == offsetof(struct iovec, iov_base) &&
		       sizeof(uint64_t) == sizeof(void *) &&
		       offsetof(struct tp_sge, length) == offsetof(struct iovec, iov_len),
	       "the address stays where it is");

typedef size_t __attribute__((may_alias)) iov_length;

static ALWAYS_INLINE struct iovec *iov_of_segments(const struct tp_sge *sge, unsigned nsge)
{
	struct iovec *iov = (struct iovec *)(uintptr_t)sge;

	for (unsigned i = 0; i < nsge; i++)
		*(iov_length *)&iov[i].iov_len = sge[i].length;
	return iov;
}

/* The other way round: all were in the region of the view. */
static COLD void segments_of_iov(struct tp_sge *segments, unsigned nsge,
				 const struct region_view *view)
{
	const uint32_t context = view_read(view->context);

	for (unsigned i = 0; i < nsge; i++) {
		segments[i].length = (uint32_t) * (const iov_length *)&segments[i].length;
		segments[i].lmr_context = context;
	}
}

/*
 * As signed numbers: then an address that is before the region, or is none, is less, and the sum
 * does not wrap.
 */
static ALWAYS_INLINE bool view_has(const struct region_view *view, const struct tp_sge *sge)
{
	const uint64_t address = sge->address;

	return likely(view_read(view->context) == sge->lmr_context) &&
	       likely((int64_t)address >= (int64_t)view_read(view->first)) &&
	       likely(address + sge->length <= view_read(view->end));
}

/* False of no segment: nothing is known without one. */
static ALWAYS_INLINE bool view_has_all(const struct region_view *view, const struct tp_sge *sge,
				       unsigned nsge)
{
	if (unlikely(!nsge))
		return false;
	for (unsigned i = 0; i < nsge; i++)
		if (!view_has(view, &sge[i]))
			return false;
	return true;
}

/* ---- to libfabric ---- */

static ssize_t rma_issue(const struct tp_qp *qp, struct transfer *transfer,
			 const struct tp_sge *sge, const struct iovec *iov, void **desc)
{
	struct fi_rma_iov remote = { .addr = transfer->remote_address,
				     .key = transfer->remote_key };
	const struct fi_msg_rma message = {
		.msg_iov = iov,
		.desc = desc,
		.iov_count = transfer->nsge,
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.context = transfer,
	};

	for (unsigned i = 0; i < transfer->nsge; i++)
		remote.len += sge[i].length;
	if (transfer->kind == TRANSFER_READ)
		return fi_readmsg(qp->fi, &message, FI_COMPLETION);
	return fi_writemsg(qp->fi, &message, qp->write_flags);
}

/* -EPERM: a local buffer is not what the transfer takes. */
int transfer_issue(struct transfer *transfer, const struct tp_sge *sge)
{
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
	else
		ret = rma_issue(qp, transfer, sge, iov, desc);
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

/* What a transfer that is not plain has in its slot. */
static void transfer_describe(struct transfer *transfer, enum transfer_kind kind, unsigned nsge,
			      bool fenced)
{
	transfer->kind = (uint8_t)kind;
	transfer->nsge = (uint8_t)nsge;
	transfer->fenced = fenced;
}

/* The slot of a post. */
static struct transfer *slow_transfer(struct transfer_queue *queue, const void *tag)
{
	struct transfer *transfer = transfer_of(queue, tag);

	if (!queue->started)
		queue_start(queue, transfer);
	return transfer;
}

/* enum transfer_kind and more, in one register: slow_post takes no more than there are. */
enum {
	HOW_KIND = 0xf,
	HOW_FENCED = 0x10,
};

static ALWAYS_INLINE unsigned how_of(enum transfer_kind kind, unsigned flags)
{
	return kind | (flags & TP_POST_FENCE ? (unsigned)HOW_FENCED : 0);
}

/*
 * A post that waits, or that is into another region than that of the view: the view shows it from
 * here on, if all is well with it. At most one thread posts to a queue, so one that is open is
 * closed by nobody else but the end of the connection.
 */
static NOINLINE int slow_post(struct tp_qp *qp, unsigned how, const void *tag,
			      const struct tp_sge *sge, unsigned nsge,
			      const DAT_RMR_TRIPLET *remote)
{
	const enum transfer_kind kind = how & HOW_KIND;
	struct transfer_queue *queue = kind == TRANSFER_RECV ? &qp->recvs : &qp->sends;
	struct transfer *transfer = slow_transfer(queue, tag);
	const bool read = kind == TRANSFER_READ;
	int err;

	transfer_describe(transfer, kind, nsge,
			  how & HOW_FENCED && !(read && qp->dev->ordered_reads));
	if (remote) {
		transfer->remote_address = remote->target_address;
		transfer->remote_key = remote->rmr_context;
	}
	if (!atomic_load(&queue->open) || (transfer->fenced && qp_is_reading(qp))) {
		queue_wait(queue, transfer, sge);
		return 0;
	}
	if (nsge)
		view_set(queue, read ? &qp->reads : &queue->view, read || kind == TRANSFER_RECV,
			 sge);
	qp->reads_posted += read;
	err = transfer_issue(transfer, sge);
	if (unlikely(err)) {
		qp->reads_posted -= read;
		queue_transfer_failed(queue, transfer, sge, err);
	}
	if (kind == TRANSFER_RECV && atomic_load(&queue->cq->starved))
		up_wake(qp->dev->ia);
	else if (kind == TRANSFER_RECV && atomic_load(&queue->cq->slept_on))
		queue_poke_late(queue, transfer);
	return 0;
}

/* It completes in its turn, so it needs no fence. */
static NOINLINE int nothing_post(struct transfer_queue *queue, const void *tag)
{
	struct transfer *transfer = slow_transfer(queue, tag);

	transfer_describe(transfer, TRANSFER_NOTHING, 0, false);
	return queue_post_nothing(queue, transfer) ? POST_OVER : 0;
}

int tp_post_error(int result)
{
	return result > 0 ? -ENOTCONN : ofi_errno(result);
}

/* The transfer is described, in the words that slow_post uses, from what the post has left. */
static void message_describe(struct transfer_queue *queue, struct transfer *transfer,
			     enum transfer_kind kind)
{
	const bool converted = !queue->segments[0].lmr_context; /* as 64 bits have the length */
	unsigned nsge = converted ? transfer->nsge : 1;

	if (converted)
		segments_of_iov(queue->segments, nsge, &queue->view);
	transfer_describe(transfer, kind, nsge, false);
}

static void rma_describe(struct tp_qp *qp, struct transfer *transfer, enum transfer_kind kind)
{
	const bool read = kind == TRANSFER_READ;
	const struct rma_request *request = read ? &qp->read : &qp->write;
	unsigned nsge = (unsigned)request->message.iov_count;

	segments_of_iov(qp->sends.segments, nsge, read ? &qp->reads : &qp->sends.view);
	transfer_describe(transfer, kind, nsge, false);
	transfer->remote_address = request->remote.addr;
	transfer->remote_key = request->remote.key;
	qp->reads_posted -= read;
}

COLD int tp_post_refused(struct tp_qp *qp, enum tp_post post, void *tag, int result)
{
	static const enum transfer_kind kinds[] = {
		[TP_SEND] = TRANSFER_SEND,
		[TP_WRITE] = TRANSFER_WRITE,
		[TP_READ] = TRANSFER_READ,
		[TP_RECV] = TRANSFER_RECV,
	};
	struct transfer_queue *queue = post == TP_RECV ? &qp->recvs : &qp->sends;
	struct transfer *transfer = transfer_of(queue, tag);

	if (result == POST_OVER)
		return -ENOTCONN;
	if (post == TP_SEND || post == TP_RECV)
		message_describe(queue, transfer, kinds[post]);
	else
		rma_describe(qp, transfer, kinds[post]);
	queue_transfer_failed(queue, transfer, queue->segments, ofi_errno(result));
	return 0;
}

/* ---- posts ---- */

/* That the reads have completed may be noticed late: the slow path looks again. */
static ALWAYS_INLINE bool must_wait(const struct tp_qp *qp, unsigned flags)
{
	return unlikely(flags & TP_POST_FENCE) && unlikely(qp_is_reading(qp));
}

static ALWAYS_INLINE uint32_t segments_size(const struct tp_sge *sge, unsigned nsge)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < nsge; i++)
		sum += sge[i].length;
	return sum;
}

/*
 * Each post has an instance for one segment, which is inline in the call, and an ordinary function
 * for more: that takes registers which the first one can do without.
 */
static NOINLINE HOT int send_several(struct tp_qp *qp, const void *tag, const struct tp_sge *sge,
				     unsigned nsge, unsigned flags)
{
	struct transfer_queue *queue = &qp->sends;
	struct transfer *transfer = transfer_of(queue, tag);

	if (must_wait(qp, flags) || !view_has_all(&queue->view, sge, nsge))
		return slow_post(qp, how_of(TRANSFER_SEND, flags), tag, sge, nsge, NULL);
	transfer->nsge = (uint8_t)nsge;
	return (int)fi_sendv(qp->fi, iov_of_segments(sge, nsge), queue->view.desc, nsge, 0,
			     transfer);
}

HOT int tp_post_send(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		     uint32_t size, unsigned flags)
{
	const struct region_view *view = &qp->sends.view;
	void *desc;

	(void)size;
	if (nsge != 1)
		return send_several(qp, tag, sge, nsge, flags);
	if (must_wait(qp, flags) || !view_has(view, sge))
		return slow_post(qp, how_of(TRANSFER_SEND, flags), tag, sge, 1, NULL);
	desc = view->desc[0];
	return (int)fi_send(qp->fi, (void *)(uintptr_t)sge->address, sge->length, desc, 0,
			    transfer_of(&qp->sends, tag));
}

/* The local length is that of the remote range, too. */
static ALWAYS_INLINE const struct fi_msg_rma *rma_fill(struct rma_request *request,
						       struct transfer *transfer,
						       const struct tp_sge *sge, unsigned nsge,
						       uint32_t size, const DAT_RMR_TRIPLET *remote)
{
	request->remote.addr = remote->target_address;
	request->remote.len = size;
	request->remote.key = remote->rmr_context;
	request->message.msg_iov = iov_of_segments(sge, nsge);
	request->message.iov_count = nsge;
	request->message.context = transfer;
	return &request->message;
}

static ALWAYS_INLINE int write_post(struct tp_qp *qp, const void *tag, const struct tp_sge *sge,
				    unsigned nsge, uint32_t size, const DAT_RMR_TRIPLET *remote,
				    unsigned flags)
{
	const struct fi_msg_rma *message;

	if (must_wait(qp, flags) || !view_has_all(&qp->sends.view, sge, nsge))
		return slow_post(qp, how_of(TRANSFER_WRITE, flags), tag, sge, nsge, remote);
	message = rma_fill(&qp->write, transfer_of(&qp->sends, tag), sge, nsge, size, remote);
	return (int)fi_writemsg(qp->fi, message, qp->write_flags);
}

/* Of no bytes: it accesses no memory, so any key is valid, but libfabric would check it. */
static NOINLINE HOT int write_several(struct tp_qp *qp, const void *tag, const struct tp_sge *sge,
				      unsigned nsge, const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	if (unlikely(!nsge))
		return nothing_post(&qp->sends, tag);
	return write_post(qp, tag, sge, nsge, segments_size(sge, nsge), remote, flags);
}

HOT int tp_post_write(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		      uint32_t size, const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	(void)size;
	if (nsge != 1)
		return write_several(qp, tag, sge, nsge, remote, flags);
	return write_post(qp, tag, sge, 1, sge->length, remote, flags);
}

static ALWAYS_INLINE int read_post(struct tp_qp *qp, const void *tag, const struct tp_sge *sge,
				   unsigned nsge, uint32_t size, const DAT_RMR_TRIPLET *remote,
				   unsigned flags)
{
	const struct fi_msg_rma *message;

	/* where reads are executed in order, a fence before one has nothing to add */
	if ((must_wait(qp, flags) && !qp->dev->ordered_reads) ||
	    !view_has_all(&qp->reads, sge, nsge))
		return slow_post(qp, how_of(TRANSFER_READ, flags), tag, sge, nsge, remote);
	message = rma_fill(&qp->read, transfer_of(&qp->sends, tag), sge, nsge, size, remote);
	qp->reads_posted++;
	return (int)fi_readmsg(qp->fi, message, FI_COMPLETION);
}

static NOINLINE HOT int read_several(struct tp_qp *qp, const void *tag, const struct tp_sge *sge,
				     unsigned nsge, const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	if (unlikely(!nsge))
		return nothing_post(&qp->sends, tag);
	return read_post(qp, tag, sge, nsge, segments_size(sge, nsge), remote, flags);
}

HOT int tp_post_read(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		     const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	if (nsge != 1)
		return read_several(qp, tag, sge, nsge, remote, flags);
	return read_post(qp, tag, sge, 1, sge->length, remote, flags);
}

/* max_read_wr_sge is the limit of all reads. */
int tp_post_split_read(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		       const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	return tp_post_read(qp, tag, sge, nsge, remote, flags);
}

/*
 * Of a message without bytes libfabric's tcp reads the header, and then nothing says that it waits
 * for a receive. So who sleeps on the queue is not woken by its descriptor.
 */
static ALWAYS_INLINE int recv_posted(struct transfer_queue *queue, struct transfer *transfer,
				     ssize_t ret)
{
	if (unlikely(atomic_load_explicit(&queue->cq->slept_on, memory_order_relaxed)))
		queue_poke_late(queue, transfer);
	return (int)ret;
}

static NOINLINE HOT int recv_several(struct tp_qp *qp, const void *tag, const struct tp_sge *sge,
				     unsigned nsge)
{
	struct transfer_queue *queue = &qp->recvs;
	struct transfer *transfer = transfer_of(queue, tag);

	if (!view_has_all(&queue->view, sge, nsge))
		return slow_post(qp, TRANSFER_RECV, tag, sge, nsge, NULL);
	transfer->nsge = (uint8_t)nsge;
	return recv_posted(
		queue, transfer,
		fi_recvv(qp->fi, iov_of_segments(sge, nsge), queue->view.desc, nsge, 0, transfer));
}

HOT int tp_post_recv(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge)
{
	const struct region_view *view = &qp->recvs.view;
	struct transfer *transfer;
	void *desc;

	if (nsge != 1)
		return recv_several(qp, tag, sge, nsge);
	if (!view_has(view, sge))
		return slow_post(qp, TRANSFER_RECV, tag, sge, 1, NULL);
	desc = view->desc[0];
	transfer = transfer_of(&qp->recvs, tag);
	return recv_posted(
		&qp->recvs, transfer,
		fi_recv(qp->fi, (void *)(uintptr_t)sge->address, sge->length, desc, 0, transfer));
}

/* Everything is signalled. */
int tp_post_marker(struct tp_qp *qp, void *tag)
{
	(void)qp, (void)tag;
	return -EOPNOTSUPP;
}
