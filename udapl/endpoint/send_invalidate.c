/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dat_ep_post_send_with_invalidate of DAT 2.0: a send that ends a window of the peer. It is a
 * request of the kind REQ_SEND, but only the slow path posts it.
 */
#include "base/refuse.h"
#include "ep.h"

/* Says what is wrong with the call, or PROCEED. *size is the sum of the lengths of its segments. */
static DAT_RETURN invalidate_judge(struct ep *ep, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
				   DAT_DTO_COOKIE cookie, DAT_BOOLEAN invalidate, DAT_VLEN *size)
{
	DAT_RETURN ret;

	if (!obj_readable(ep) || !obj_is(ep, DAT_HANDLE_TYPE_EP) || ep_has_datagrams(ep))
		return BAD_HANDLE(EP);
	if (invalidate != DAT_TRUE)
		return BAD_ARG(6);
	if (!(ep->obj.ia->attr->caps & TP_CAP_INVALIDATE))
		return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	ret = ep_segments_judge(ep, nseg, ep->attr.max_request_iov, iov, size);
	return ret == PROCEED ? ep_request_judge(ep, REQ_SEND, cookie) : ret;
}

/* Returns PROCEED if the ring is full. */
static DAT_RETURN invalidate_post(struct ep *ep, unsigned nseg, const DAT_LMR_TRIPLET *iov,
				  DAT_VLEN size, DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags,
				  DAT_RMR_CONTEXT context)
{
	DAT_RETURN ret = PROCEED;
	unsigned nsge, post_flags;
	struct req *req;
	int result;

	if (ep_post_begin(ep) && ring_take_room(&ep->sends)) {
		nsge = ep_segments_convert(ep, iov, nseg, size);
		post_flags = ep_request_flags(ep, flags);
		req = ep_claim_request(ep, REQ_SEND, size, cookie, flags);
		result = tp_post_send_invalidate(ep->qp, req, ep->sends.sges, nsge, (uint32_t)size,
						 context, post_flags);
		ret = ep_request_posted(ep, result, nsge, EP_OPEN);
	}
	ep_post_end(ep);
	return ret;
}

static COLD DAT_RETURN invalidate_send(DAT_EP_HANDLE handle, DAT_COUNT nseg,
				       const DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
				       DAT_COMPLETION_FLAGS flags, DAT_BOOLEAN invalidate,
				       DAT_RMR_CONTEXT context)
{
	CANCEL_FORBIDDEN;
	struct ep *ep = handle;
	DAT_COMPLETION_FLAGS effective;
	DAT_RETURN ret;
	DAT_VLEN size;

	ret = invalidate_judge(ep, nseg, iov, cookie, invalidate, &size);
	if (ret == PROCEED) {
		effective = ep_effective_flags(flags, SEND_FLAGS,
					       ep->attr.request_completion_flags);
		ret = invalidate_post(ep, (unsigned)nseg, iov, size, cookie, effective, context);
		if (ret == PROCEED)
			ret = NO_RESOURCE(MEMORY);
	}
	if (ret == DAT_SUCCESS)
		return ep_count_post(ep, REQ_SEND, nseg, iov, ret);
	return refused(ret, LOG_DTO, "dat_ep_post_send_with_invalidate",
		       "ep %p, num_segments %d, iov %p, cookie, flags %#x, context %#x", handle,
		       nseg, (const void *)iov, (unsigned)flags, (unsigned)context);
}

DAT_RETURN ep_post_send_with_invalidate(DAT_EP_HANDLE ep, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov,
					DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags,
					DAT_BOOLEAN invalidate, DAT_RMR_CONTEXT context)
{
	if (invalidate == DAT_FALSE)
		return ep_post_send(ep, nseg, iov, cookie, flags);
	return invalidate_send(ep, nseg, iov, cookie, flags, invalidate, context);
}
