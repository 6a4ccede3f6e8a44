/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The limits with which a post compares itself to take the fast path. They follow from the
 * attributes of the endpoint; those of reads also from what the connection has agreed on.
 */
#include "ep.h"

/*
 * Sets the limits of one kind of posts. It writes nothing that is so already: the data path reads
 * it.
 */
static void ep_limit_posts(struct ep *ep, enum req_kind kind, unsigned segments, DAT_VLEN bytes)
{
	DAT_VLEN *limits = ep->limits[kind];

	for (unsigned n = 1; n <= FEW_SEGMENTS; n++)
		if (limits[n] != (n <= segments ? bytes : 0))
			limits[n] = n <= segments ? bytes : 0;
}

/* Sets those of the extensions, in the edition that has some. */
#if DAT_EDITION == 2
static void ep_limit_atomics(struct ep *ep)
{
	const bool possible = ep->obj.ia->attr->caps & TP_CAP_ATOMIC && ep->attr.max_rdma_read_out;
	const DAT_VLEN size = possible ? sizeof(uint64_t) : 0;

	if (ep->atomic_size != size)
		ep->atomic_size = size;
}

static void ep_limit_immed(struct ep *ep)
{
	const bool possible = ep->obj.ia->attr->caps & TP_CAP_IMMED && ep->attr.max_rdma_write_iov;

	ep->immed_limit = possible ? ep->max_transfer : 0;
}
#else
static void ep_limit_atomics(struct ep *ep)
{
	(void)ep;
}

static void ep_limit_immed(struct ep *ep)
{
	(void)ep;
}
#endif

void ep_limit_reads(struct ep *ep)
{
	ep_limit_atomics(ep);
	ep_limit_posts(ep, REQ_READ, ep->fast_read_segments,
		       ep->attr.max_rdma_read_out ? ep->max_transfer : 0);
}

void ep_init_posts(struct ep *ep)
{
	unsigned requests = ep->attr.request_completion_flags & DAT_COMPLETION_UNSIGNALLED_FLAG;
	unsigned receives = ep->attr.recv_completion_flags & DAT_COMPLETION_UNSIGNALLED_FLAG;

	ep->slow_flags[REQ_SEND] = ~(SEND_FLAGS | requests);
	ep->slow_flags[REQ_WRITE] = ~(RDMA_FLAGS | requests);
	ep->slow_flags[REQ_READ] = ~(RDMA_FLAGS | requests);
	ep->slow_flags[REQ_RECV] = ~receives;
	ep->fast_read_segments = (unsigned)min_u64((unsigned)ep->attr.max_rdma_read_iov,
						   ep->obj.ia->attr->max_read_wr_sge);
	if (ep->obj.ia->attr->caps & TP_CAP_ORDERED_READS)
		ep->slow_flags[REQ_READ] |= DAT_COMPLETION_BARRIER_FENCE_FLAG;
	ep_limit_posts(ep, REQ_SEND, (unsigned)ep->attr.max_request_iov, ep->max_transfer);
	ep_limit_posts(ep, REQ_WRITE, (unsigned)ep->attr.max_rdma_write_iov, ep->max_transfer);
	ep_limit_immed(ep);
	ep_limit_posts(ep, REQ_RECV, (unsigned)ep->attr.max_recv_iov,
		       min_u64(ep->obj.ia->attr->max_message, TP_MAX_LENGTH));
}
