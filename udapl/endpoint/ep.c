/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints as objects: create, free, reset, query. conn.c has their connections. */
#include <stdlib.h>

#include "datagram.h"
#include "base/race.h"
#include "base/sockaddr.h"

/* ---- create ---- */

const struct ep_role ep_roles[EVD_ROLES] = {
	[EVD_ROLE_RECV] = { DAT_EVD_DTO_FLAG, DAT_INVALID_HANDLE_EVD_RECV },
	[EVD_ROLE_REQUEST] = { DAT_EVD_DTO_FLAG, DAT_INVALID_HANDLE_EVD_REQUEST },
	[EVD_ROLE_CONNECT] = { DAT_EVD_CONNECTION_FLAG, DAT_INVALID_HANDLE_EVD_CONN },
};

/*
 * Connection events may go to an EVD of any IA of this library, so in that role the IA does not
 * matter.
 */
bool ep_role_possible(struct ia *ia, const struct evd *evd, enum evd_role role)
{
	struct ia *owner = role == EVD_ROLE_CONNECT ? NULL : ia;

	return !evd || (obj_valid(owner, (DAT_HANDLE)(uintptr_t)evd, DAT_HANDLE_TYPE_EVD) &&
			evd->flags & ep_roles[role].stream);
}

struct evd **ep_evd_of_role(struct ep *ep, unsigned role)
{
	switch (role) {
	case EVD_ROLE_RECV:
		return &ep->recv_evd;
	case EVD_ROLE_REQUEST:
		return &ep->request_evd;
	default:
		return &ep->connect_evd;
	}
}

/*
 * Returns the attributes that decide how much room the EVDs need. With an SRQ the queue decides how
 * many receives may complete, not the endpoint.
 */
static DAT_EP_ATTR role_attr(const DAT_EP_ATTR *of_ep, const struct srq *srq)
{
	DAT_EP_ATTR attr = *of_ep;

	if (srq)
		attr.max_recv_dtos = 0;
	return attr;
}

unsigned ep_role_depth(const struct ep *ep, enum evd_role role)
{
	const DAT_EP_ATTR attr = role_attr(&ep->attr, ep->srq);

	return evd_role_depth(ep->obj.ia, role, &attr);
}

/*
 * Returns how many completions an endpoint of @parts that has @evd in a role needs more than its
 * heir has room for there, if it has one.
 */
static unsigned role_needs_locked(struct ia *ia, const struct ep_parts *parts, enum evd_role role,
				  const struct evd *evd)
{
	const DAT_EP_ATTR attr = role_attr(&parts->attr, parts->srq);
	const unsigned depth = evd_role_depth(ia, role, &attr);
	struct ep *heir = parts->heir;
	unsigned there = 0;

	assert_locked(&ia->lock);
	if (heir && *ep_evd_of_role(heir, role) == evd)
		there = heir->rooms[role];
	return depth > there ? depth - there : 0;
}

static void detach_role_locked(struct ep *ep, struct evd *evd, enum evd_role role)
{
	const DAT_EP_ATTR attr = role_attr(&ep->attr, ep->srq);

	assert_locked(&ep->obj.ia->lock);
	if (ep->srq && role == EVD_ROLE_RECV)
		evd_detach_pool_locked(evd, &ep->srq->pool);
	evd_detach_locked(ep->obj.ia, evd, role, &attr, ep->rooms[role]);
}

/* Attaches @evd in a role. It may have been freed since the parts were checked. */
static DAT_RETURN attach_role_locked(struct ep *ep, struct evd *evd, enum evd_role role,
				     const struct ep_parts *parts)
{
	const DAT_EP_ATTR attr = role_attr(&ep->attr, ep->srq);
	const unsigned depth = role_needs_locked(ep->obj.ia, parts, role, evd);
	DAT_RETURN ret;

	assert_locked(&ep->obj.ia->lock);
	if (parts->evds[role] && !ep_role_possible(ep->obj.ia, evd, role))
		return DAT_ERROR(DAT_INVALID_HANDLE, ep_roles[role].name);
	ret = evd_attach_locked(ep->obj.ia, evd, role, &attr, depth);
	if (ret == DAT_SUCCESS && ep->srq && role == EVD_ROLE_RECV) {
		ret = evd_attach_pool_locked(evd, &ep->srq->pool);
		if (ret != DAT_SUCCESS)
			evd_detach_locked(ep->obj.ia, evd, role, &attr, depth);
	}
	if (ret == DAT_SUCCESS)
		ep->rooms[role] = depth;
	return ret;
}

/* Detaches the EVDs of the first @roles roles. */
static void detach_evds_locked(struct ep *ep, unsigned roles)
{
	assert_locked(&ep->obj.ia->lock);
	while (roles-- > 0) {
		struct evd *evd = *ep_evd_of_role(ep, roles);

		if (evd)
			detach_role_locked(ep, evd, (enum evd_role)roles);
	}
}

static DAT_RETURN attach_evds_locked(struct ep *ep, const struct ep_parts *parts)
{
	assert_locked(&ep->obj.ia->lock);
	for (unsigned role = 0; role < EVD_ROLES; role++) {
		struct evd *evd = parts->evds[role];
		DAT_RETURN ret = DAT_SUCCESS;

		/* completions need an EVD, and without a zone there are none */
		if (!evd && role != EVD_ROLE_CONNECT && ep->pz)
			ret = evd_sink_locked(ep->obj.ia, &evd);
		if (evd)
			ret = attach_role_locked(ep, evd, (enum evd_role)role, parts);
		if (ret != DAT_SUCCESS) {
			detach_evds_locked(ep, role);
			return ret;
		}
		*ep_evd_of_role(ep, role) = evd;
	}
	return DAT_SUCCESS;
}

/* Has the device make room for the completions of what is attached next, without ia->lock. */
static DAT_RETURN grow_evds_ahead_relock(struct ia *ia, const struct ep_parts *parts)
{
	const struct srq *srq = parts->srq;
	struct evd_needs needs = { .pool = srq ? &srq->pool : NULL };
	DAT_RETURN ret;

	assert_locked(&ia->lock);
	if (parts->no_queues)
		return DAT_SUCCESS;
	for (unsigned role = 0; role < EVD_ROLE_CONNECT; role++) {
		needs.evds[role] = parts->evds[role];
		if (!needs.evds[role] && parts->pz)
			needs.evds[role] = ia->sink;
		needs.depths[role] = role_needs_locked(ia, parts, (enum evd_role)role,
						       needs.evds[role]);
	}
	mutex_unlock(&ia->lock);
	ret = evd_grow_ahead(ia, &needs);
	mutex_lock(&ia->lock);
	return ret;
}

static unsigned max_request_segments(const DAT_EP_ATTR *attr)
{
	return (unsigned)max_u64(
		(unsigned)attr->max_request_iov,
		max_u64((unsigned)attr->max_rdma_read_iov, (unsigned)attr->max_rdma_write_iov));
}

/*
 * Makes the QP, unless there is no protection zone. The transport knows it as the queue pair of
 * @owner.
 */
static DAT_RETURN create_qp(struct ep *ep, struct ep *owner)
{
	const DAT_EP_ATTR *attr = &ep->attr;
	struct tp_qp_attr asked;
	int err;

	if (!ep->pz)
		return DAT_SUCCESS;
	asked = (struct tp_qp_attr){
		.pd = ep->pz->pd,
		.send_cq = ep->request_evd->cq,
		.recv_cq = ep->recv_evd->cq,
		.srq = ep->srq ? ep->srq->tp : NULL,
		.max_send = attr_ep_work_requests(ep->obj.ia, attr),
		/* some devices refuse 0 */
		.max_recv = max_u64((unsigned)attr->max_recv_dtos, 1),
		.max_send_sge = max_request_segments(attr),
		.max_recv_sge = max_u64((unsigned)attr->max_recv_iov, 1),
		.send_tags = { ep->sends.slots, ring_slots(&ep->sends) },
		.recv_tags = { ep->recvs.slots, ring_slots(&ep->recvs) },
		.datagrams = ep->datagrams,
	};
	err = tp_qp_create(ep->obj.ia->dev, &asked, owner, &ep->qp);
	if (err)
		return status_of_made(err, DAT_RESOURCE_TEP);
	ep->recv_cq = asked.recv_cq;
	ep->last_receive = false;
	ep->late_completions = false;
	ep_set_gates(ep);
	return DAT_SUCCESS;
}

/*
 * Destroys the QP, if there is one: ends its transfers and drops their completions. No lock is
 * held, because the transport waits for upcalls.
 */
static void destroy_qp(struct ep *ep)
{
	struct tp_qp *qp = ep->qp;
	const bool outstanding = ep_has_outstanding(ep) || ep->late_completions ||
				 ep->marker.posted;

	assert_no_lock_held();
	if (!qp)
		return;
	if (ep->srq) { /* some devices drop completions with the QP, and slots would be lost */
		(void)tp_qp_error(qp);
		evd_purge_ep(ep->recv_evd, ep);
	}
	tp_qp_destroy(qp, outstanding);
	race_reach(RACE_GONE, ep);
	ep->qp = NULL;
	ep_set_gates(ep);
	if (outstanding) {
		evd_purge_ep(ep->recv_evd, ep);
		evd_purge_ep(ep->request_evd, ep);
	}
	if (ep->srq)
		tp_qp_forget(qp);
	ep->marker.posted = false;
	ep->marker.uncertain = false;
	atomic_store(&ep->sends.reports_all, 0);
	atomic_store(&ep->recvs.reports_all, ep->recvs.datagrams);
	ep->sends.kept_back = false;
	ep->recvs.kept_back = false;
}

static void fini_rings(struct ep *ep)
{
	ring_fini(&ep->recvs);
	ring_fini(&ep->sends);
	free(ep->early.records);
}

static DAT_RETURN init_rings(struct ep *ep)
{
	int err = ring_init(&ep->sends, ep, (unsigned)ep->attr.max_request_dtos,
			    max_request_segments(&ep->attr));

	if (err)
		return status_of(err, DAT_RESOURCE_MEMORY);
	ep->sends.loses_reads = ep->obj.ia->attr->caps & TP_CAP_LOSES_READS;
	if (ep->signal_all)
		ep->sends.signal_interval = ep->sends.until_signal = 1;
	err = ring_init(&ep->recvs, ep, ep->srq ? 0 : (unsigned)ep->attr.max_recv_dtos,
			(unsigned)ep->attr.max_recv_iov);
	ep->recvs.datagrams = ep->datagrams;
	atomic_store(&ep->recvs.reports_all, ep->datagrams);
	if (!err)
		return DAT_SUCCESS;
	fini_rings(ep);
	return status_of(err, DAT_RESOURCE_MEMORY);
}

static DAT_RETURN make_queues(struct ep *ep, const struct ep_parts *parts)
{
	DAT_RETURN ret;

	if (parts->no_queues)
		return DAT_SUCCESS;
	ret = init_rings(ep);
	if (ret != DAT_SUCCESS)
		return ret;
	ret = create_qp(ep, parts->heir ? parts->heir : ep);
	if (ret != DAT_SUCCESS)
		fini_rings(ep);
	return ret;
}

static void ep_init(struct ep *ep, const struct ep_parts *parts)
{
	struct ia *ia = ep->obj.ia;

	spin_init(&ep->send_lock, RANK_POST);
	spin_init(&ep->recv_lock, RANK_POST);
	ep->thread_safe = ia->thread_safe;
	ep->datagrams = attr_is_datagram(&parts->attr);
	ep->signal_all = ia->attr->caps & TP_CAP_SIGNAL_ALL;
	ep->attr = parts->attr;
	ep->max_transfer = ep->datagrams ? ia->attr->max_datagram
					 : min_u64(ia->attr->max_message, TP_MAX_LENGTH);
	ep_init_posts(ep);
	ep->read_in_given = parts->read_in_given;
	ep->read_out_given = parts->read_out_given;
	ep->read_in = parts->attr.max_rdma_read_in;
	ep->read_out = parts->attr.max_rdma_read_out;
	ep->local = ia->attr->addr;
	ep->work.run = ep_work_locked;
	ep->sends.ep = ep->recvs.ep = ep;
	ep->marker.req.ring = &ep->sends;
	ep->marker.req.kind = REQ_MARKER;
}

/* Makes an invisible endpoint that holds @parts, and has no queues yet. */
static DAT_RETURN ep_begin_locked(struct ia *ia, const struct ep_parts *parts, struct ep **out)
{
	struct ep *ep = obj_alloc(ia, ia->obj.table, DAT_HANDLE_TYPE_EP);
	DAT_RETURN ret;

	assert_locked(&ia->lock);
	if (!ep)
		return NO_RESOURCE(MEMORY);
	ep_init(ep, parts);
	if (parts->pz && !obj_hold(ia, parts->pz, DAT_HANDLE_TYPE_PZ)) {
		ret = BAD_HANDLE(PZ);
		goto discard_ep;
	}
	ep->pz = parts->pz;
	if (parts->srq && !obj_hold(ia, parts->srq, DAT_HANDLE_TYPE_SRQ)) {
		ret = BAD_HANDLE(SRQ);
		goto put_pz;
	}
	ep->srq = parts->srq;
	ret = attach_evds_locked(ep, parts);
	if (ret != DAT_SUCCESS)
		goto put_srq;
	if (evd_takes_binds(ep->request_evd))
		ep->bind_pz = ep->pz;
	*out = ep;
	return DAT_SUCCESS;
put_srq:
	if (ep->srq)
		obj_put(&ep->srq->obj);
put_pz:
	if (ep->pz)
		obj_put(&ep->pz->obj);
discard_ep:
	obj_free(&ep->obj);
	return ret;
}

static void ep_put_parts_locked(struct ep *ep)
{
	assert_locked(&ep->obj.ia->lock);
	detach_evds_locked(ep, EVD_ROLES);
	if (ep->srq)
		obj_put(&ep->srq->obj);
	if (ep->pz)
		obj_put(&ep->pz->obj);
}

/* The opposite of ep_begin_locked. */
static void ep_undo_locked(struct ep *ep)
{
	assert_locked(&ep->obj.ia->lock);
	ep_put_parts_locked(ep);
	obj_free(&ep->obj);
}

/*
 * Makes the queues of an endpoint that nobody sees yet. ia->lock is not held while the device makes
 * the queue pair, which may take its time, unless that has a shared receive queue: its transport
 * keeps tables of such queue pairs. On failure, or if the IA has been closed meanwhile, the
 * endpoint is gone.
 */
static DAT_RETURN ep_finish_relock(struct ep *ep, const struct ep_parts *parts)
{
	const bool unlocked = !ep->srq && !parts->no_queues;
	struct ia *ia = ep->obj.ia;
	DAT_RETURN ret;

	assert_locked(&ia->lock);
	if (unlocked)
		mutex_unlock(&ia->lock);
	ret = make_queues(ep, parts);
	if (unlocked)
		mutex_lock(&ia->lock);
	if (ret != DAT_SUCCESS) {
		ep_undo_locked(ep);
		return ret;
	}
	if (obj_valid(NULL, ia, DAT_HANDLE_TYPE_IA))
		return DAT_SUCCESS;
	mutex_unlock(&ia->lock);
	destroy_qp(ep);
	mutex_lock(&ia->lock);
	ep_discard_locked(ep);
	return BAD_HANDLE(IA);
}

DAT_RETURN ep_make_relock(struct ia *ia, const struct ep_parts *parts, struct ep **out)
{
	DAT_RETURN ret = grow_evds_ahead_relock(ia, parts);
	struct ep *ep;

	assert_locked(&ia->lock);
	if (ret == DAT_SUCCESS)
		ret = ep_begin_locked(ia, parts, &ep);
	if (ret == DAT_SUCCESS)
		ret = ep_finish_relock(ep, parts);
	if (ret == DAT_SUCCESS)
		*out = ep;
	return ret;
}

static DAT_RETURN create_refused(struct ia *ia, const struct ep_parts *parts)
{
	if (!obj_valid(NULL, ia, DAT_HANDLE_TYPE_IA))
		return BAD_HANDLE(IA);
	if (parts->pz && !obj_valid(ia, parts->pz, DAT_HANDLE_TYPE_PZ))
		return BAD_HANDLE(PZ);
	for (unsigned role = 0; role < EVD_ROLES; role++)
		if (!ep_role_possible(ia, parts->evds[role], (enum evd_role)role))
			return DAT_ERROR(DAT_INVALID_HANDLE, ep_roles[role].name);
	return DAT_SUCCESS;
}

/*
 * Takes from the attributes the RDMA reads that the peer will not use, so that they are not
 * offered.
 */
static void fit_to_request(DAT_EP_ATTR *attr, const struct ep_request *request)
{
	attr->max_rdma_read_in = (DAT_COUNT)min_u64((unsigned)attr->max_rdma_read_in,
						    request->max_read_out);
	attr->max_rdma_read_out = (DAT_COUNT)min_u64((unsigned)attr->max_rdma_read_out,
						     request->max_read_in);
}

DAT_RETURN ep_new_tentative_locked(struct ia *ia, const struct ep_request *request, struct ep **out)
{
	struct ep_parts parts = { .no_queues = true };
	DAT_RETURN ret;

	assert_locked(&ia->lock);
	attr_ep_default(ia, &parts.attr);
	fit_to_request(&parts.attr, request);
	ret = ep_begin_locked(ia, &parts, out);
	if (ret == DAT_SUCCESS)
		ep_request_locked(*out, request->conn);
	return ret;
}

/* Makes an endpoint that the consumer has asked for, and writes its handle. */
static DAT_RETURN ep_make_visible(struct ia *ia, const struct ep_parts *parts, DAT_EP_HANDLE *out)
{
	DAT_RETURN ret;
	struct ep *ep;

	mutex_lock(&ia->lock);
	if (!ia_keep_locked(ia)) {
		mutex_unlock(&ia->lock);
		return BAD_HANDLE(IA);
	}
	ret = ep_make_relock(ia, parts, &ep);
	if (ret == DAT_SUCCESS) {
		ia_counts(ia, IA_EP_CREATE);
		*out = obj_publish(&ep->obj);
	}
	ia_unkeep_locked(ia);
	mutex_unlock(&ia->lock);
	return ret;
}

DAT_RETURN ep_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,
		     DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd,
		     const DAT_EP_ATTR *asked, DAT_EP_HANDLE *out)
{
	CANCEL_FORBIDDEN;
	struct ep_parts parts = {
		.pz = pz,
		.evds = { recv_evd, request_evd, connect_evd },
		.read_in_given = asked != NULL,
		.read_out_given = asked != NULL,
	};
	struct ia *ia = ia_handle;
	DAT_RETURN ret;

	ret = create_refused(ia, &parts);
	if (ret != DAT_SUCCESS)
		return ret;
	if (!out)
		return BAD_ARG(7);
	ret = attr_ep_check(ia, asked, BAD_ARG(6), &parts.attr);
	if (ret != DAT_SUCCESS)
		return ret;
	return ep_make_visible(ia, &parts, out);
}

/* ---- with a shared receive queue ---- */

/* What the shared receive queue decides is not looked at in @asked. */
DAT_RETURN ep_attr_check(const struct ia *ia, const struct srq *srq, const DAT_EP_ATTR *asked,
			 DAT_RETURN bad, DAT_EP_ATTR *attr)
{
	DAT_EP_ATTR own = *asked;
	DAT_RETURN ret;

	if (srq)
		own.max_recv_iov = 1;
	ret = attr_ep_check(ia, &own, bad, attr);
	if (srq)
		attr->max_recv_iov = (DAT_COUNT)srq->max_segments;
	return ret;
}

bool ep_zone_possible(const struct srq *srq, const struct pz *pz)
{
	return !srq || !pz || pz == srq->pz || srq->obj.ia->attr->caps & TP_CAP_SRQ_ANY_PD;
}

/* Makes the endpoint. The caller holds the shared receive queue. */
static DAT_RETURN create_with_srq(struct ep_parts *parts, const DAT_EP_ATTR *asked,
				  DAT_EP_HANDLE *out)
{
	const struct srq *srq = parts->srq;
	struct ia *ia = srq->obj.ia;
	DAT_RETURN ret;

	if (!asked)
		return BAD_ARG(7);
	if (!out)
		return BAD_ARG(8);
	if (!ep_zone_possible(srq, parts->pz))
		return BAD_ARG(2);
	if (atomic_load(&srq->state) != DAT_SRQ_STATE_OPERATIONAL)
		return BAD_STATE(SRQ_ERROR);
	ret = ep_attr_check(ia, srq, asked, BAD_ARG(7), &parts->attr);
	if (ret != DAT_SUCCESS)
		return ret;
	return ep_make_visible(ia, parts, out);
}

DAT_RETURN ep_create_with_srq(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,
			      DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd,
			      DAT_SRQ_HANDLE srq, const DAT_EP_ATTR *asked, DAT_EP_HANDLE *out)
{
	CANCEL_FORBIDDEN;
	struct ep_parts parts = {
		.pz = pz,
		.evds = { recv_evd, request_evd, connect_evd },
		.srq = srq,
		.read_in_given = true,
		.read_out_given = true,
	};
	struct ia *ia = ia_handle;
	DAT_RETURN ret;

	ret = create_refused(ia, &parts);
	if (ret != DAT_SUCCESS)
		return ret;
	if (!attr_max_srq_dtos(ia))
		return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	if (!obj_hold(ia, srq, DAT_HANDLE_TYPE_SRQ))
		return BAD_HANDLE(SRQ);
	ret = create_with_srq(&parts, asked, out);
	obj_put(srq);
	return ret;
}

/* ---- free and reset ---- */

/* Returns the oldest bind in the ring, or NULL. No thread posts any more. */
static struct req *pending_bind(struct ep *ep)
{
	struct ring *sends = &ep->sends;

	for (unsigned at = atomic_load(&sends->head); at != atomic_load(&sends->tail);
	     at += RING_STEP)
		if (ring_slot(sends, at)->kind == REQ_BIND)
			return ring_slot(sends, at);
	return NULL;
}

/*
 * Takes the completions of binds that were executed. Windows outlive the endpoint, so those must be
 * told from binds that were not, and some devices drop completions with the QP.
 */
static void complete_executed_binds(struct ep *ep)
{
	if (!pending_bind(ep))
		return;
	(void)tp_qp_error(ep->qp);
	evd_purge_ep(ep->request_evd, ep);
}

/* Completes as flushed the binds that are still in the ring: they were never executed. */
static void cancel_pending_binds(struct ep *ep)
{
	struct req *req;

	while ((req = pending_bind(ep)) && ring_retire(&ep->sends, req))
		(void)rmr_bind_completed(req->binding, DAT_DTO_ERR_FLUSHED);
	release_run(ep->obj.ia);
}

void ep_discard_locked(struct ep *ep)
{
	assert_locked(&ep->obj.ia->lock);
	datagram_discard_locked(ep);
	ep_put_parts_locked(ep);
	fini_rings(ep);
	free(ep->private_data);
	counters_sum(&ep_counters, ep->obj.ia->ep_sums, ep->counters);
	obj_free(&ep->obj);
}

void ep_destroy_hidden_relock(struct ep *ep)
{
	struct ia *ia = ep->obj.ia;

	assert_locked(&ia->lock);
	ia_keep_to_free_locked(ia);
	ep_quiesce_locked(ep);
	mutex_unlock(&ia->lock);
	race_reach(RACE_FREE, ep);
	complete_executed_binds(ep);
	destroy_qp(ep);
	cancel_pending_binds(ep);
	mutex_lock(&ia->lock);
	service_cancel_work_locked(ia, &ep->work); /* the last completions may have queued it */
	ep_discard_locked(ep);
	ia_unkeep_locked(ia);
}

/* The endpoint is retired: threads in dat_ep_modify find that, and leave. */
static void await_modifiers_relock(struct ep *ep)
{
	struct ia *ia = ep->obj.ia;

	assert_locked(&ia->lock);
	ia_keep_to_free_locked(ia);
	while (ep->modifiers)
		cond_wait_relock(&ia->waiter_left, &ia->lock);
	ia_unkeep_locked(ia);
}

void ep_destroy_relock(struct ep *ep)
{
	assert_locked(&ep->obj.ia->lock);
	ia_counts(ep->obj.ia, IA_EP_FREE);
	await_modifiers_relock(ep);
	ep_destroy_hidden_relock(ep);
}

DAT_RETURN ep_free(DAT_EP_HANDLE handle)
{
	CANCEL_FORBIDDEN;
	DAT_RETURN ret = ep_lock_for(handle, ON_FREE);
	struct ep *ep = handle;
	struct ia *ia;

	if (ret != DAT_SUCCESS)
		return ret;
	ia = ep->obj.ia;
	if (obj_retire(&ep->obj))
		ep_destroy_relock(ep);
	else
		ret = status_of_ep_state((DAT_EP_STATE)ep_state(ep));
	mutex_unlock(&ia->lock);
	return ret;
}

/*
 * Replaces the QP. ia->lock is not held while the device works, but to make one that has a shared
 * receive queue, as in ep_finish_relock. Meanwhile the endpoint does nothing else.
 */
static DAT_RETURN renew_qp_relock(struct ep *ep)
{
	struct ia *ia = ep->obj.ia;
	DAT_RETURN ret;

	assert_locked(&ia->lock);
	if (!ia_keep_locked(ia))
		return BAD_HANDLE(EP); /* a close has begun, and destroys it */
	ep->renews_qp = true;
	mutex_unlock(&ia->lock);
	destroy_qp(ep);
	if (ep->srq)
		mutex_lock(&ia->lock);
	ret = create_qp(ep, ep);
	if (!ep->srq)
		mutex_lock(&ia->lock);
	ep->renews_qp = false;
	ia_unkeep_locked(ia);
	return ret;
}

static DAT_RETURN reset_disconnected_relock(struct ep *ep)
{
	struct ia *ia = ep->obj.ia;
	DAT_RETURN ret;

	assert_locked(&ia->lock);
	ep_await_posts(ep); /* those that come later take the slow path */
	if (ep->end.phase != PHASE_NONE || !ep_flush_locked(ep))
		return NO_RESOURCE(MEMORY); /* for events that are not posted yet */
	if (ep->srq && !evd_drain(ep->recv_evd))
		return NO_RESOURCE(MEMORY); /* for receives that came after the end */
	timer_cancel_locked(ia, &ep->timer);
	ret = renew_qp_relock(ep);
	if (ret != DAT_SUCCESS)
		return ret;
	early_recvs_free(ep);
	free(ep->private_data);
	ep->private_data = NULL;
	ep->private_data_size = 0;
	ep->attr.max_rdma_read_in = ep->read_in;
	ep->attr.max_rdma_read_out = ep->read_out;
	ep_trigger_locked(ep, ON_RESET);
	return DAT_SUCCESS;
}

DAT_RETURN ep_reset(DAT_EP_HANDLE handle)
{
	CANCEL_FORBIDDEN;
	DAT_RETURN ret = ep_lock_for(handle, ON_RESET);
	struct ep *ep = handle;

	if (ret != DAT_SUCCESS)
		return ret;
	if (ep_state(ep) == DAT_EP_STATE_DISCONNECTED)
		ret = reset_disconnected_relock(ep);
	mutex_unlock(&ep->obj.ia->lock);
	return ret;
}

/* ---- query ---- */

/* Says whether there is a peer, so that its port has a meaning. */
static bool has_peer(const struct ep *ep)
{
	switch (ep_state(ep)) {
	case DAT_EP_STATE_UNCONNECTED:
	case DAT_EP_STATE_RESERVED:
	case DAT_EP_STATE_DISCONNECTED:
		return false;
	default:
		return true;
	}
}

/* Fills in what only one edition tells: how the endpoint communicates. */
static void ep_describe_comm(const struct ep *ep, DAT_EP_PARAM *param)
{
#if DAT_EDITION == 2
	param->comm = (DAT_COMM){
		.domain = ep->local.ss_family,
		.type = ep_has_datagrams(ep) ? SOCK_DGRAM : SOCK_STREAM,
	};
#else
	(void)ep;
	(void)param;
#endif
}

DAT_RETURN ep_query(DAT_EP_HANDLE handle, DAT_EP_PARAM_MASK mask, DAT_EP_PARAM *param)
{
	CANCEL_FORBIDDEN;
	struct ep *ep = handle;
	struct ia *ia;

	(void)mask; /* all members are filled in */
	if (!obj_valid(NULL, ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	if (!param)
		return BAD_ARG(3);
	if (!obj_lock_ia(NULL, ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	ia = ep->obj.ia;
	*param = (DAT_EP_PARAM){
		.ia_handle = attr_ia_handle(ia),
		.ep_state = (DAT_EP_STATE)ep_state(ep),
		.local_ia_address_ptr = (DAT_IA_ADDRESS_PTR)&ep->local,
		.local_port_qual = has_peer(ep) ? sockaddr_port(&ep->local) : 0,
		.remote_ia_address_ptr = (DAT_IA_ADDRESS_PTR)&ep->remote,
		.remote_port_qual = has_peer(ep) ? sockaddr_port(&ep->remote) : 0,
		.pz_handle = ep->pz,
		.recv_evd_handle = evd_shown(ep->recv_evd),
		.request_evd_handle = evd_shown(ep->request_evd),
		.connect_evd_handle = ep->connect_evd,
		.srq_handle = ep->srq,
	};
	param->ep_attr = ep->attr;
	ep_describe_comm(ep, param);
	mutex_unlock(&ia->lock);
	return DAT_SUCCESS;
}

DAT_RETURN ep_get_status(DAT_EP_HANDLE handle, DAT_EP_STATE *state, DAT_BOOLEAN *recv_idle,
			 DAT_BOOLEAN *request_idle)
{
	CANCEL_FORBIDDEN;
	struct ep *ep = handle;

	if (!obj_valid(NULL, ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	if (state)
		*state = (DAT_EP_STATE)ep_state(ep);
	if (recv_idle)
		*recv_idle = ring_used(&ep->recvs) == 0;
	if (request_idle)
		*request_idle = ring_used(&ep->sends) == 0;
	return DAT_SUCCESS;
}

/* Returns how many receives are posted. Those that others post meanwhile count, or do not. */
static DAT_COUNT posted_receives(const struct ep *ep)
{
	const unsigned used = ring_used(&ep->recvs);

	return used <= ep->recvs.limit ? (DAT_COUNT)used : 0; /* all were posted meanwhile */
}

/*
 * Without a shared receive queue each message takes the next buffer, so there are no gaps and both
 * counts are the same. With one the device knows what the endpoint has taken, and does not tell.
 */
DAT_RETURN ep_recv_query(DAT_EP_HANDLE handle, DAT_COUNT *nbufs, DAT_COUNT *span)
{
	CANCEL_FORBIDDEN;
	struct ep *ep = handle;
	DAT_COUNT posted;

	if (!obj_valid(NULL, ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	posted = ep->srq ? DAT_VALUE_UNKNOWN : posted_receives(ep);
	if (nbufs)
		*nbufs = posted;
	if (span)
		*span = posted;
	return DAT_SUCCESS;
}

static bool watermark_wrong(const struct ep *ep, DAT_COUNT watermark)
{
	return watermark != DAT_WATERMARK_INFINITE &&
	       (watermark < 0 || watermark > ep->attr.max_recv_dtos);
}

/*
 * A watermark needs to know when a message takes a buffer, and transports report only its arrival:
 * so all but the infinite ones are refused.
 */
DAT_RETURN ep_set_watermark(DAT_EP_HANDLE handle, DAT_COUNT soft, DAT_COUNT hard)
{
	CANCEL_FORBIDDEN;
	struct ep *ep = handle;

	if (!obj_valid(NULL, ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	if (watermark_wrong(ep, soft))
		return BAD_ARG(2);
	if (watermark_wrong(ep, hard))
		return BAD_ARG(3);
	if (soft != DAT_WATERMARK_INFINITE || hard != DAT_WATERMARK_INFINITE)
		return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	return DAT_SUCCESS;
}
