/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the two halves of an endpoint, the object (ep.c) and its connection (conn.c), share.
 * ia->lock is held throughout, but for ep_set_gates before the endpoint is visible.
 */
#ifndef UDAPL_EP_H
#define UDAPL_EP_H

#include "endpoint.h"

/*
 * If the newest request is unsignalled, no completion tells whether it succeeded: posts a marker
 * behind it.
 */
void ep_post_marker_locked(struct ep *ep);
/*
 * The completion of a marker: the requests that it covers have completed, even if the marker itself
 * was flushed; unless the device has lost some. request_evd->lock held, and not ia->lock.
 */
void ep_marker_completed_locked(struct ep *ep, DAT_DTO_COMPLETION_STATUS status);

/*
 * Begins a call that is @trigger on the endpoint @handle, which may be any value. DAT_SUCCESS: the
 * call is legal in the endpoint's state, and the caller releases ia->lock, which is held from here
 * on. Otherwise nothing is locked, and the status is what the call returns.
 */
DAT_RETURN ep_lock_for(DAT_EP_HANDLE handle, enum trigger trigger);

/* The gates follow the state and the QP: to be called when either has changed. */
void ep_set_gates(struct ep *ep);

/* May the device still complete something? */
bool ep_has_outstanding(const struct ep *ep);
/* Completes as flushed what the device has not completed. False: no memory. */
bool ep_flush_locked(struct ep *ep);

/* Afterwards neither the service thread nor the transport touches it, and no event is posted. */
void ep_quiesce_locked(struct ep *ep);

/* Flags that have an effect on any endpoint. */
#define SEND_FLAGS                                                                                 \
	(DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_SOLICITED_WAIT_FLAG |                       \
	 DAT_COMPLETION_BARRIER_FENCE_FLAG)
#define RDMA_FLAGS (DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_BARRIER_FENCE_FLAG)

/* What an endpoint is made of. */
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
/* May @evd, which may be any value or null, have that role for an endpoint of @ia? */
bool ep_role_possible(struct ia *ia, const struct evd *evd, enum evd_role role);
struct evd **ep_evd_of_role(struct ep *ep, unsigned role);

/* As attr_ep_check, of an endpoint that has its receives from @srq, unless that is NULL. */
DAT_RETURN ep_attr_check(const struct ia *ia, const struct srq *srq, const DAT_EP_ATTR *asked,
			 DAT_RETURN bad, DAT_EP_ATTR *attr);
/* May an endpoint with that zone have its receives from @srq? */
bool ep_zone_possible(const struct srq *srq, const struct pz *pz);
/* An invisible endpoint. */
DAT_RETURN ep_new_locked(struct ia *ia, const struct ep_parts *parts, struct ep **ep);

/* early_recv.c: the memory for the early receives of as many as @ep may have outstanding. */
DAT_RETURN early_recvs_init(struct ep *ep);
void early_recvs_clear(struct ep *ep);
/* Would an endpoint with those attributes take all of them? */
bool early_recvs_fit(const struct ep *ep, const DAT_EP_ATTR *attr);
/* Posts those of @ep to @next, too. */
DAT_RETURN early_recvs_repeat(const struct ep *ep, struct ep *next);

/* What the data path queues for the service thread. */
void ep_work_locked(struct work *work);

#endif
