/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints: dat_ep_modify.
 *
 * What is to change is made in a second, invisible endpoint, with the queue pair that it takes.
 * When nothing can fail any more the two swap what they have, and the second one is destroyed, with
 * the old parts, as any endpoint is. So an endpoint is never half modified.
 *
 * While the device makes the queue pair, without ia->lock, other calls go on. One that modifies or
 * frees the endpoint waits; one that connects it comes first, so all is checked again before the
 * swap.
 */
#include <stdlib.h>
#include <string.h>

#include "ep.h"

/* ---- the members, and when each may be changed ---- */

#define WHEN(state) (1u << DAT_EP_STATE_##state)
#define BEFORE_CONNECT                                                                             \
	(WHEN(UNCONNECTED) | WHEN(RESERVED) | WHEN(PASSIVE_CONNECTION_PENDING) |                   \
	 WHEN(TENTATIVE_CONNECTION_PENDING))

static const struct ep_field {
	DAT_EP_PARAM_MASK bit;
	size_t offset, size; /* in DAT_EP_PARAM */
	unsigned states;     /* in which it may be changed */
	bool queues;	     /* a change takes another queue pair */
} ep_fields[] = {
#define FIELD(name, member, states, queues)                                                        \
	{                                                                                          \
		DAT_EP_FIELD_##name, offsetof(DAT_EP_PARAM, member),                               \
			sizeof(((DAT_EP_PARAM *)NULL)->member), states, queues                     \
	}
#define ATTR(name, member, queues) FIELD(EP_ATTR_##name, ep_attr.member, BEFORE_CONNECT, queues)
#define SPECIFIC(name, member)	   FIELD(EP_ATTR_##name, ep_attr.member, WHEN(UNCONNECTED), false)
	FIELD(PZ_HANDLE, pz_handle, WHEN(UNCONNECTED) | WHEN(TENTATIVE_CONNECTION_PENDING), true),
	FIELD(RECV_EVD_HANDLE, recv_evd_handle, BEFORE_CONNECT, true),
	FIELD(REQUEST_EVD_HANDLE, request_evd_handle, BEFORE_CONNECT, true),
	FIELD(CONNECT_EVD_HANDLE, connect_evd_handle, BEFORE_CONNECT, false),
	ATTR(SERVICE_TYPE, service_type, false),
	ATTR(MAX_MESSAGE_SIZE, max_message_size, false),
	ATTR(MAX_RDMA_SIZE, max_rdma_size, false),
	ATTR(QOS, qos, false),
	ATTR(RECV_COMPLETION_FLAGS, recv_completion_flags, false),
	ATTR(REQUEST_COMPLETION_FLAGS, request_completion_flags, false),
	ATTR(MAX_RECV_DTOS, max_recv_dtos, true),
	ATTR(MAX_REQUEST_DTOS, max_request_dtos, true),
	ATTR(MAX_RECV_IOV, max_recv_iov, true),
	ATTR(MAX_REQUEST_IOV, max_request_iov, true),
	ATTR(MAX_RDMA_READ_IN, max_rdma_read_in, false),
	ATTR(MAX_RDMA_READ_OUT, max_rdma_read_out, false),
	ATTR(SRQ_SOFT_HW, srq_soft_hw, false),
	ATTR(MAX_RDMA_READ_IOV, max_rdma_read_iov, true),
	ATTR(MAX_RDMA_WRITE_IOV, max_rdma_write_iov, true),
	SPECIFIC(NUM_TRANSPORT_ATTR, ep_transport_specific_count),
	SPECIFIC(TRANSPORT_SPECIFIC_ATTR, ep_transport_specific),
	SPECIFIC(NUM_PROVIDER_ATTR, ep_provider_specific_count),
	SPECIFIC(PROVIDER_SPECIFIC_ATTR, ep_provider_specific),
#undef SPECIFIC
#undef ATTR
#undef FIELD
};

static void *member(DAT_EP_PARAM *param, const struct ep_field *field)
{
	return (char *)param + field->offset;
}

/* Returns the members that can be changed in some state. All others can be changed in none. */
static DAT_EP_PARAM_MASK changeable(void)
{
	DAT_EP_PARAM_MASK mask = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(ep_fields); i++)
		mask |= ep_fields[i].bit;
	return mask;
}

static DAT_RETURN state_refused(const struct ep *ep, DAT_EP_PARAM_MASK mask)
{
	unsigned state = ep_state(ep);

	for (unsigned i = 0; i < ARRAY_SIZE(ep_fields); i++)
		if (mask & ep_fields[i].bit && !(ep_fields[i].states & 1u << state))
			return status_of_ep_state((DAT_EP_STATE)state);
	return DAT_SUCCESS;
}

/*
 * Returns the present values of the members that can be changed. The RDMA reads are those that were
 * asked for.
 */
static DAT_EP_PARAM members_locked(const struct ep *ep)
{
	DAT_EP_PARAM now = {
		.pz_handle = ep->pz,
		.recv_evd_handle = evd_shown(ep->recv_evd),
		.request_evd_handle = evd_shown(ep->request_evd),
		.connect_evd_handle = ep->connect_evd,
		.ep_attr = ep->attr,
	};

	assert_locked(&ep->obj.ia->lock);
	now.ep_attr.max_rdma_read_in = ep->read_in;
	now.ep_attr.max_rdma_read_out = ep->read_out;
	return now;
}

/* Checks the parts that @want describes, and fills them in. */
static DAT_RETURN parts_check_locked(struct ep *ep, const DAT_EP_PARAM *want,
				     struct ep_parts *parts)
{
	struct ia *ia = ep->obj.ia;

	assert_locked(&ia->lock);
	*parts = (struct ep_parts){
		.pz = want->pz_handle,
		.evds = { want->recv_evd_handle, want->request_evd_handle,
			  want->connect_evd_handle },
		.srq = ep->srq,
		.read_in_given = ep->read_in_given,
		.read_out_given = ep->read_out_given,
		.heir = ep,
	};
	if (parts->pz && !obj_valid(ia, parts->pz, DAT_HANDLE_TYPE_PZ))
		return BAD_ARG(3);
	for (unsigned role = 0; role < EVD_ROLES; role++)
		if (!ep_role_possible(ia, parts->evds[role], (enum evd_role)role))
			return BAD_ARG(3);
	if (!ep_zone_possible(ep->srq, parts->pz))
		return BAD_ARG(3);
	return ep_attr_check(ia, ep->srq, &want->ep_attr, BAD_ARG(3), &parts->attr);
}

/* ---- the call ---- */

/* Refuses what the early receives do not fit. They keep the flags with which they were posted. */
static DAT_RETURN recvs_refused_locked(struct ep *ep, const DAT_EP_ATTR *attr)
{
	assert_locked(&ep->recv_lock);
	if (!early_recvs_fit_locked(ep, attr))
		return BAD_ARG(3);
	if (ep->early.count && attr->recv_completion_flags != ep->attr.recv_completion_flags)
		return status_of_ep_state((DAT_EP_STATE)ep_state(ep));
	return DAT_SUCCESS;
}

static DAT_RETURN recvs_refused(struct ep *ep, const DAT_EP_ATTR *attr)
{
	DAT_RETURN ret;

	spin_lock(&ep->recv_lock);
	ret = recvs_refused_locked(ep, attr);
	spin_unlock(&ep->recv_lock);
	return ret;
}

/*
 * Chooses the parts to be made. It sets no_queues if the rings and the queue pair that the endpoint
 * has will do.
 */
static DAT_RETURN parts_choose_locked(struct ep *ep, DAT_EP_PARAM_MASK mask,
				      const DAT_EP_PARAM *param, struct ep_parts *parts)
{
	DAT_EP_PARAM now = members_locked(ep), want = now;
	DAT_RETURN ret;

	assert_locked(&ep->obj.ia->lock);
	for (unsigned i = 0; i < ARRAY_SIZE(ep_fields); i++)
		if (mask & ep_fields[i].bit)
			memcpy(member(&want, &ep_fields[i]),
			       (const char *)param + ep_fields[i].offset, ep_fields[i].size);
	ret = parts_check_locked(ep, &want, parts);
	if (ret == DAT_SUCCESS && attr_is_datagram(&parts->attr))
		ret = BAD_ARG(3); /* an endpoint is one of datagrams from the beginning or never */
	if (ret == DAT_SUCCESS)
		ret = state_refused(ep, mask);
	if (ret == DAT_SUCCESS)
		ret = recvs_refused(ep, &parts->attr);
	if (ret != DAT_SUCCESS)
		return ret;
	parts->read_in_given |= (mask & DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN) != 0;
	parts->read_out_given |= (mask & DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT) != 0;
	want.ep_attr = parts->attr; /* what the consumer left open is filled in */
	parts->no_queues = true;
	for (unsigned i = 0; i < ARRAY_SIZE(ep_fields); i++)
		if (ep_fields[i].queues && memcmp(member(&want, &ep_fields[i]),
						  member(&now, &ep_fields[i]), ep_fields[i].size))
			parts->no_queues = false;
	return DAT_SUCCESS;
}

#define SWAP(a, b)                                                                                 \
	do {                                                                                       \
		__typeof__(a) a_ = (a);                                                            \
		(a) = (b);                                                                         \
		(b) = a_;                                                                          \
	} while (0)

/*
 * Takes the receives of @left from its ring, because they are posted elsewhere now. Some devices
 * flush them when its queue pair is destroyed: those completions are dropped, as ones that come
 * late.
 */
static void recvs_forget(struct ep *left)
{
	struct ring *ring = &left->recvs;

	if (!left->qp)
		return;
	left->late_completions |= ring_used(ring);
	spin_lock(&left->recv_evd->lock);
	atomic_store(&ring->head, atomic_load(&ring->tail));
	spin_unlock(&left->recv_evd->lock);
}

static void queues_swap_locked(struct ep *ep, struct ep *next)
{
	assert_locked(&ep->obj.ia->lock);
	SWAP(ep->qp, next->qp);
	SWAP(ep->last_receive, next->last_receive);
	SWAP(ep->late_completions, next->late_completions);
	SWAP(ep->recv_cq, next->recv_cq);
	SWAP(ep->early, next->early);
	ring_swap(&ep->sends, &next->sends);
	ring_swap(&ep->recvs, &next->recvs);
	recvs_forget(next);
}

/* What both have room for in one EVD is enough for whichever needs more. */
static void rooms_swap_locked(struct ep *ep, struct ep *next)
{
	assert_locked(&ep->obj.ia->lock);
	for (unsigned role = 0; role < EVD_ROLES; role++) {
		const struct evd *evd = *ep_evd_of_role(ep, role);

		SWAP(ep->rooms[role], next->rooms[role]);
		if (evd && evd == *ep_evd_of_role(next, role)) {
			const unsigned both = ep->rooms[role] + next->rooms[role];

			ep->rooms[role] = ep_role_depth(next, (enum evd_role)role);
			next->rooms[role] = both - ep->rooms[role];
		}
	}
}

static void parts_swap_locked(struct ep *ep, struct ep *next, bool with_queues)
{
	assert_locked(&ep->obj.ia->lock);
	rooms_swap_locked(ep, next);
	SWAP(ep->pz, next->pz);
	SWAP(ep->bind_pz, next->bind_pz);
	SWAP(ep->recv_evd, next->recv_evd);
	SWAP(ep->request_evd, next->request_evd);
	SWAP(ep->connect_evd, next->connect_evd);
	SWAP(ep->attr, next->attr);
	ep->read_in_given = next->read_in_given;
	ep->read_out_given = next->read_out_given;
	ep->read_in = next->read_in;
	ep->read_out = next->read_out;
	if (with_queues)
		queues_swap_locked(ep, next);
	ep_init_posts(ep);
	ep_set_gates(ep);
}

/* What is to change. */
struct change {
	DAT_EP_PARAM_MASK mask;
	DAT_EP_PARAM to;
};

/*
 * Puts the parts of @next in the place of those of @ep, with the early receives, of which none is
 * posted meanwhile.
 */
static DAT_RETURN parts_move_locked(struct ep *ep, struct ep *next, const struct ep_parts *parts)
{
	DAT_RETURN ret;

	assert_locked(&ep->obj.ia->lock);
	spin_lock(&ep->recv_lock);
	ret = recvs_refused_locked(ep, &parts->attr);
	if (ret == DAT_SUCCESS && !parts->no_queues)
		ret = early_recvs_repeat_locked(ep, next);
	if (ret == DAT_SUCCESS)
		parts_swap_locked(ep, next, !parts->no_queues);
	spin_unlock(&ep->recv_lock);
	return ret;
}

/*
 * Changes the endpoint, unless it is freed or connected while the device works. *left is what the
 * caller destroys in any case, if it is not NULL.
 */
static DAT_RETURN ep_change_relock(struct ep *ep, const struct change *change, struct ep **left)
{
	struct ia *ia = ep->obj.ia;
	struct ep_parts parts, now;
	DAT_RETURN ret = parts_choose_locked(ep, change->mask, &change->to, &parts);

	assert_locked(&ia->lock);
	if (ret == DAT_SUCCESS)
		ret = ep_make_relock(ia, &parts, left);
	if (!obj_valid(ia, ep, DAT_HANDLE_TYPE_EP) || ret == BAD_HANDLE(IA))
		return BAD_HANDLE(EP);
	if (DAT_GET_TYPE(ret) == DAT_INVALID_HANDLE)
		return BAD_ARG(3); /* an EVD or the zone was freed meanwhile */
	if (ret == DAT_SUCCESS)
		ret = parts_choose_locked(ep, change->mask, &change->to, &now);
	if (ret == DAT_SUCCESS)
		ret = parts_move_locked(ep, *left, &parts);
	return ret;
}

/* One thread at a time does that. Who frees the endpoint meanwhile waits for all of them. */
static DAT_RETURN ep_modify_relock(struct ep *ep, const struct change *change)
{
	struct ia *ia = ep->obj.ia;
	DAT_RETURN ret = BAD_HANDLE(EP);
	struct ep *left = NULL;

	assert_locked(&ia->lock);
	if (!ia_keep_locked(ia))
		return ret; /* a close has begun, and destroys it */
	ep->modifiers++;
	while (ep->modified)
		cond_wait_relock(&ia->waiter_left, &ia->lock);
	if (obj_valid(ia, ep, DAT_HANDLE_TYPE_EP)) {
		ep->modified = true;
		ret = ep_change_relock(ep, change, &left);
		if (left)
			ep_destroy_hidden_relock(left);
		ep->modified = false;
	}
	ep->modifiers--;
	pthread_cond_broadcast(&ia->waiter_left);
	ia_unkeep_locked(ia);
	return ret;
}

DAT_RETURN ep_modify(DAT_EP_HANDLE handle, DAT_EP_PARAM_MASK mask, const DAT_EP_PARAM *param)
{
	CANCEL_FORBIDDEN;
	struct ep *ep = handle;
	struct change change = { .mask = mask };
	DAT_RETURN ret;
	struct ia *ia;

	if (!obj_valid(NULL, ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	if (!param)
		return BAD_ARG(3);
	if (ep_has_datagrams(ep)) /* peers know the number of its queue pair */
		return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	if (mask & DAT_EP_FIELD_ALL & ~changeable())
		return BAD_ARG(2);
	if (!(mask & changeable()))
		return DAT_SUCCESS;
	change.to = *param;
	if (!obj_lock_ia(NULL, ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	ia = ep->obj.ia;
	ret = ep_modify_relock(ep, &change);
	mutex_unlock(&ia->lock);
	return ret;
}
