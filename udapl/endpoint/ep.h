/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of an endpoint share: the object (ep.c, ep_modify.c), its connection (conn.c),
 * posts, markers and early receives. ia->lock is held throughout unless a comment says otherwise.
 */
#ifndef UDAPL_EP_H
#define UDAPL_EP_H

#include "endpoint.h"

/*
 * Posts a marker behind the newest request, if that is unsignalled, so that no completion would
 * tell whether it has succeeded.
 */
void ep_post_marker_locked(struct ep *ep);
/*
 * Handles the completion of a marker: the requests that it covers have completed, even if the
 * marker itself was flushed; unless the device has lost some. It is called where completions are
 * taken, with request_evd->lock held and not ia->lock.
 */
void ep_marker_completed_locked(struct ep *ep, DAT_DTO_COMPLETION_STATUS status);

/*
 * Begins a call that is @trigger on the endpoint @handle, which may be any value. DAT_SUCCESS: the
 * call is legal in the endpoint's state, and the caller releases ia->lock, which is held from here
 * on. Otherwise nothing is locked, and the status is what the call returns.
 */
DAT_RETURN ep_lock_for(DAT_EP_HANDLE handle, enum trigger trigger);

/*
 * Sets the gates as the state and the QP ask. It is called when either has changed, with ia->lock
 * held or before the endpoint is visible.
 */
void ep_set_gates(struct ep *ep);

/*
 * Says whether the device may still complete something. No lock is needed; the end of a connection,
 * and the free, call this.
 */
bool ep_has_outstanding(const struct ep *ep);
/*
 * Completes as flushed what the device has not completed. Returns false if there was no memory for
 * all.
 */
bool ep_flush_locked(struct ep *ep);

/*
 * Ends all that goes on for the endpoint, which is being freed: afterwards neither the service
 * thread nor the transport touches it, and no event is posted.
 */
void ep_quiesce_locked(struct ep *ep);

/* Flags that have an effect on any endpoint. */
#define SEND_FLAGS                                                                                 \
	(DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_SOLICITED_WAIT_FLAG |                       \
	 DAT_COMPLETION_BARRIER_FENCE_FLAG)
#define RDMA_FLAGS (DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_BARRIER_FENCE_FLAG)

/* Claims the next slot for a request. There is room in the ring, and it was taken. */
static ALWAYS_INLINE struct req *ep_claim_request(struct ep *ep, enum req_kind kind, DAT_VLEN size,
						  DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
	struct req *req = ring_next(&ep->sends);

	req->cookie = cookie;
	req->size = size;
	req_set_kind(req, kind, flags);
	ring_publish(&ep->sends, req);
	return req;
}

/* ---- ep_counters.c; any thread, with or without locks, but for the first ---- */

/* Counts what a connection event means, which is posted next. ia->lock is held. */
void ep_count_event(struct ep *ep, DAT_EVENT_NUMBER number);
/* Counts a completion that has failed with such a status. */
void ep_count_failure(struct ep *ep, DAT_DTO_COMPLETION_STATUS status);
/* Counts a post that has succeeded. */
void ep_post_counted(struct ep *ep, enum req_kind kind, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov);

/*
 * Counts a post that returns @ret, in builds that count those. Returns @ret. In other builds it is
 * no function: gcc would move the saving of registers of a fast post to its beginning.
 */
#ifdef UDAPL_COUNTERS
static ALWAYS_INLINE DAT_RETURN ep_count_post(struct ep *ep, enum req_kind kind, DAT_COUNT nseg,
					      const DAT_LMR_TRIPLET *iov, DAT_RETURN ret)
{
	if (ret == DAT_SUCCESS)
		ep_post_counted(ep, kind, nseg, iov);
	return ret;
}
#else
#define ep_count_post(ep, kind, nseg, iov, ret) (ret)
#endif

/* Ends a fast post in which the thread is cancelled, and releases send_lock if others may post. */
void ep_request_cancelled(struct ep *ep, unsigned open);

/* A fast post that is being made. It is over when the transport has returned. */
struct posting {
	struct ep *ep;
	unsigned open;
	bool returned;
};

static ALWAYS_INLINE void posting_end(const struct posting *posting)
{
	if (!posting->returned)
		ep_request_cancelled(posting->ep, posting->open);
}

/*
 * These three are in post.c. The poster calls the first two. Takes the room of one request in its
 * ring: returns PROCEED, or what the call does.
 */
DAT_RETURN ep_take_room(struct ep *ep);
/*
 * As ep_request_judge, but of one request: a connection may allow none that reads. PROCEED: it has
 * taken room in the ring.
 */
DAT_RETURN ep_request_admit(struct ep *ep, enum req_kind kind);
/*
 * Returns when no post is under way that has found the endpoint connected, which it is not any
 * more. The locks of posts are not held.
 */
void ep_await_posts(struct ep *ep);

#if DAT_EDITION == 2
/*
 * These are in post.c, for requests of extensions, whose posts go the way of the others. Between
 * ep_post_begin and ep_post_end the poster judges the request, claims a slot, and ends with
 * ep_request_posted.
 *
 * Ends a call of which the post was judged so, and not made: completes it as flushed, or writes the
 * line of a post that is refused. Returns what the call does. No lock is held.
 */
DAT_RETURN ep_not_posted(DAT_RETURN judged, enum req_kind kind, struct ep *ep, DAT_COUNT nseg,
			 const DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
			 const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags);
/*
 * Says what is wrong with the segments of a request that may have @max of them, or PROCEED. *size
 * is the sum of their lengths. They are the arguments 2 and 3 of its call.
 */
DAT_RETURN ep_segments_judge(const struct ep *ep, DAT_COUNT nseg, DAT_COUNT max,
			     const DAT_LMR_TRIPLET *iov, DAT_VLEN *size);
/*
 * Converts segments of @size bytes together into the array of sends, without empty ones. Returns
 * how many these are. The poster calls this.
 */
unsigned ep_segments_convert(struct ep *ep, const DAT_LMR_TRIPLET *iov, unsigned nseg,
			     DAT_VLEN size);
/* Returns the TP_POST_* of a request that is posted with @flags. The poster calls this. */
unsigned ep_request_flags(struct ep *ep, DAT_COMPLETION_FLAGS flags);
/*
 * Ends the post of the newest request, which the transport has answered with @result. The gate was
 * at @open. Returns what the call does.
 */
DAT_RETURN ep_request_posted(struct ep *ep, int result, unsigned nseg, unsigned open);
/* Returns DAT_SUCCESS of an endpoint of datagrams, else what a call for those answers. */
DAT_RETURN ep_datagrams_judge(DAT_EP_HANDLE handle);
#endif

/* As ep_destroy_relock, of an endpoint that was never visible: one of dat_ep_modify. */
void ep_destroy_hidden_relock(struct ep *ep);

/* What an endpoint is made of, or is to be made of. */
struct ep_parts {
	DAT_PZ_HANDLE pz;
	DAT_EVD_HANDLE evds[EVD_ROLES];
	DAT_SRQ_HANDLE srq;
	DAT_EP_ATTR attr;
	bool read_in_given, read_out_given;
	bool no_queues; /* neither queue pair nor rings */
	/* the endpoint that will take over what is made; NULL: it is a new one */
	struct ep *heir;
};

/* The stream that an EVD must take for a role, and the subtype that names the role. */
struct ep_role {
	DAT_EVD_FLAGS stream;
	DAT_RETURN_SUBTYPE name;
};
extern const struct ep_role ep_roles[EVD_ROLES];
/*
 * Says whether @evd, which may be any value or null, may have that role for an endpoint of @ia. No
 * lock is needed.
 */
bool ep_role_possible(struct ia *ia, const struct evd *evd, enum evd_role role);
/* Returns for how many completions the EVD of a role must have room on account of @ep. */
unsigned ep_role_depth(const struct ep *ep, enum evd_role role);
/* Returns where the endpoint has the EVD of a role. */
struct evd **ep_evd_of_role(struct ep *ep, unsigned role);

/*
 * Checks and completes attributes as attr_ep_check does, for an endpoint that has its receives from
 * @srq, unless that is NULL. No lock is needed.
 */
DAT_RETURN ep_attr_check(const struct ia *ia, const struct srq *srq, const DAT_EP_ATTR *asked,
			 DAT_RETURN bad, DAT_EP_ATTR *attr);
/* Says whether an endpoint with that zone may have its receives from @srq. No lock is needed. */
bool ep_zone_possible(const struct srq *srq, const struct pz *pz);
/*
 * Makes an invisible endpoint of @parts, which holds them. ia->lock is not held while the device
 * works, but for queue pairs with a shared receive queue; the IA is kept open by ia_keep. Returns
 * DAT_SUCCESS, or why it can't be made.
 */
DAT_RETURN ep_make_relock(struct ia *ia, const struct ep_parts *parts, struct ep **ep);

/*
 * These are in early_recv.c. The first one forgets the early receives: they can't be moved any
 * more, because the endpoint is connected, or its connection has ended and the queue pair is a new
 * one.
 */
void early_recvs_free(struct ep *ep);
/*
 * Says whether an endpoint with those attributes would take all of them that are outstanding.
 * recv_lock held.
 */
bool early_recvs_fit_locked(struct ep *ep, const DAT_EP_ATTR *attr);
/*
 * Posts those of @ep to @next, too, which nobody sees. Returns DAT_SUCCESS, or what the device
 * says. recv_lock of @ep held.
 */
DAT_RETURN early_recvs_repeat_locked(const struct ep *ep, struct ep *next);

/*
 * The work that the data path queues: the service thread looks what is due (step_locked of conn.c).
 */
void ep_work_locked(struct work *work);

#endif
