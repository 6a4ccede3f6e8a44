/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dat_ep_post_send_with_invalidate of DAT 2.0: a send that ends a window of the peer. It is a
 * request of the kind REQ_SEND, but only the slow path posts it.
 */
#include <errno.h>

#include "base/refuse.h"
#include "ep.h"

/* Says what is wrong with the call, but for its request, or PROCEED. */
static DAT_RETURN call_judge(const struct ep *ep, DAT_BOOLEAN invalidate)
{
	if (!obj_readable(ep) || !obj_is(ep, DAT_HANDLE_TYPE_EP) || ep_has_datagrams(ep))
		return BAD_HANDLE(EP);
	if (invalidate != DAT_TRUE)
		return BAD_ARG(6);
	if (!(ep->obj.ia->attr->caps & TP_CAP_INVALIDATE))
		return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	return PROCEED;
}

/* As request_judge of post.c. */
static DAT_RETURN invalidate_judge(struct ep *ep, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
				   DAT_VLEN *size)
{
	DAT_RETURN ret = ep_segments_judge(ep, nseg, ep->attr.max_request_iov, iov, size);

	return ret == PROCEED ? ep_request_admit(ep, REQ_SEND) : ret;
}

/* Posts a request for which invalidate_judge has said PROCEED. */
static DAT_RETURN invalidate_post(struct ep *ep, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
				  DAT_VLEN size, DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags,
				  DAT_RMR_CONTEXT context)
{
	const unsigned nsge = ep_segments_convert(ep, iov, (unsigned)nseg, size);
	const unsigned post_flags = ep_request_flags(ep, flags);
	struct req *req = ep_claim_request(ep, REQ_SEND, size, cookie, flags);

	if (ep->sends.kept_back)
		return ep_posted(ep, -ENOTCONN);
	return ep_request_posted(ep,
				 tp_post_send_invalidate(ep->qp, req, ep->sends.sges, nsge,
							 (uint32_t)size, context, post_flags),
				 nsge, EP_OPEN);
}

/* Judges the request, and posts it or completes it as flushed. */
static DAT_RETURN invalidate_make(struct ep *ep, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
				  DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags,
				  DAT_RMR_CONTEXT context)
{
	const struct req flushed = { .cookie = cookie, .ring = &ep->sends, .kind = REQ_SEND };
	DAT_COMPLETION_FLAGS ignored = 0;
	DAT_RETURN judged, ret;
	DAT_VLEN size;

	ep_post_begin(ep);
	judged = ret = invalidate_judge(ep, nseg, iov, &size);
	if (judged == PROCEED) {
		ignored = ep_ignored_flags(flags, SEND_FLAGS, ep->attr.request_completion_flags);
		ret = invalidate_post(ep, nseg, iov, size, cookie,
				      (DAT_COMPLETION_FLAGS)(flags ^ ignored), context);
	}
	ep_post_end(ep);
	ep_tell_ignored(flags, ignored);
	return judged == TO_BE_FLUSHED ? ep_complete_flushed(&flushed) : ret;
}

static COLD DAT_RETURN invalidate_send(DAT_EP_HANDLE handle, DAT_COUNT nseg,
				       const DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
				       DAT_COMPLETION_FLAGS flags, DAT_BOOLEAN invalidate,
				       DAT_RMR_CONTEXT context)
{
	CANCEL_FORBIDDEN;
	DAT_RETURN ret = call_judge(handle, invalidate);

	if (ret == PROCEED)
		ret = invalidate_make(handle, nseg, iov, cookie, flags, context);
	if (ret == DAT_SUCCESS)
		return ep_count_post(handle, REQ_SEND, nseg, iov, ret);
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
