/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection requests: made when one arrives at a service point, freed when the consumer accepts or
 * rejects it.
 */
#include <string.h>

#include "listen.h"
#include "base/race.h"
#include "base/sockaddr.h"

static void cr_init(struct cr *cr, struct sp *sp, struct tp_conn *conn,
		    const struct tp_request *request)
{
	unsigned size = request->private_data_size;
	struct sockaddr_storage local;

	cr->request.conn = conn;
	cr->sp = sp;
	cr->sp_number = sp->number;
	tp_conn_addr(conn, &local, &cr->remote);
	cr->request.datagrams = request->datagrams;
	cr->request.max_read_in = request->max_read_in;
	cr->request.max_read_out = request->max_read_out;
	if (size > sizeof(cr->private_data))
		size = sizeof(cr->private_data);
	if (size)
		memcpy(cr->private_data, request->private_data, size);
	cr->private_data_size = (DAT_COUNT)size;
}

/* Takes the endpoint that some service points bring. It waits for the answer from here on. */
static DAT_RETURN ep_take_locked(struct cr *cr)
{
	const struct sp *sp = cr->sp;
	DAT_RETURN ret = DAT_SUCCESS;

	assert_locked(&cr->obj.ia->lock);
	if (cr->request.datagrams && (sp->flags == DAT_PSP_PROVIDER_FLAG || sp->ep))
		return BAD_HANDLE(EP); /* the one that it brings is for connections */
	if (sp->flags == DAT_PSP_PROVIDER_FLAG) {
		ret = ep_new_tentative_locked(cr->obj.ia, &cr->request, &cr->ep);
		if (ret == DAT_SUCCESS)
			obj_publish(&cr->ep->obj);
	} else if (sp->ep) {
		cr->ep = sp->ep;
		ep_request_locked(cr->ep, cr->request.conn);
	}
	return ret;
}

/* Gives the endpoint back, because the request was given to no one. */
static void ep_return_locked(struct cr *cr)
{
	assert_locked(&cr->obj.ia->lock);
	if (cr->sp->flags == DAT_PSP_PROVIDER_FLAG) {
		obj_retire_forced(&cr->ep->obj);
		ep_discard_locked(cr->ep);
	} else if (cr->ep) {
		ep_trigger_locked(cr->ep, ON_REQUEST_LOST);
	}
}

/* Makes the event of a request that of the extension to which it belongs. */
static void extend_event(const struct cr *cr, DAT_EVENT *event)
{
#if DAT_EDITION == 2
	DAT_IB_EXTENSION_EVENT_DATA *ext = (void *)event->event_extension_data;

	event->event_number = (DAT_EVENT_NUMBER)DAT_IB_UD_CONNECTION_REQUEST_EVENT;
	ext->type = DAT_IB_UD_CONNECT_REQUEST;
	ext->status = DAT_OP_SUCCESS;
#else
	(void)event;
#endif
	debug_assert(cr->request.datagrams);
}

/*
 * Gives a new request to the consumer. All is published before the event, so a thread that dequeues
 * that may answer at once. An RSP has done its work then.
 */
static DAT_RETURN cr_deliver_locked(struct cr *cr)
{
	struct ia *ia = cr->obj.ia;
	struct sp *sp = cr->sp;
	DAT_EVENT event = {
		.event_number = DAT_CONNECTION_REQUEST_EVENT,
		.event_data.cr_arrival_event_data = {
			.sp_handle.psp_handle = sp,
			.local_ia_address_ptr = (DAT_IA_ADDRESS_PTR)(uintptr_t)&ia->attr->addr,
			.conn_qual = sp->conn_qual,
		},
	};
	DAT_RETURN ret;

	assert_locked(&ia->lock);
	if (cr->request.datagrams)
		extend_event(cr, &event);
	ret = ep_take_locked(cr);
	if (ret != DAT_SUCCESS)
		return ret;
	event.event_data.cr_arrival_event_data.cr_handle = obj_publish(&cr->obj);
	race_reach(RACE_REQUEST, sp);
	if (evd_post_bounded(sp->evd, &event)) {
		obj_retire_forced(&cr->obj); /* its handle was given to no one */
		ep_return_locked(cr);
		return NO_RESOURCE(MEMORY);
	}
	ia_counts(ia, IA_SP_CR);
	if (sp->flags == DAT_PSP_PROVIDER_FLAG)
		ia_counts(ia, IA_EP_CREATE);
	if (obj_kind(&sp->obj) == DAT_HANDLE_TYPE_RSP) {
		sp->ep = cr->ep;
		sp_stop_locked(sp);
	}
	return DAT_SUCCESS;
}

void up_request(struct sp *sp, struct tp_conn *conn, const struct tp_request *request)
{
	struct ia *ia = sp->obj.ia;
	struct cr *cr = obj_alloc(ia, ia->obj.table, DAT_HANDLE_TYPE_CR);

	ia_counts(ia, IA_CM_REQ_RX);
	if (cr) {
		cr_init(cr, sp, conn, request);
		if (cr_deliver_locked(cr) == DAT_SUCCESS)
			return;
		obj_free(&cr->obj);
	}
	log_cm("service point %p, qualifier %llu: connection request rejected: no memory or event "
	       "queue full",
	       (void *)sp, (unsigned long long)sp->conn_qual);
	ia_counts(ia, IA_CM_ERR_REJ_TX);
	tp_reject(conn, false, NULL, 0);
}

/*
 * Frees a request that has been answered, but not accepted. Returns its endpoint if that is to be
 * destroyed, without locks; else the consumer has it back.
 */
static struct ep *cr_end_locked(struct cr *cr)
{
	struct ep *ep = cr->ep;

	assert_locked(&cr->obj.ia->lock);
	obj_free(&cr->obj);
	if (ep && ep_state(ep) == DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING) {
		obj_retire_forced(&ep->obj); /* no object holds one */
		return ep;
	}
	if (ep)
		ep_trigger_locked(ep, ON_REJECT);
	return NULL;
}

/* Rejects a request that is retired, and frees it. */
static void cr_reject_unlock(struct cr *cr, bool by_consumer, const void *private_data,
			     unsigned size)
{
	struct ia *ia = cr->obj.ia;
	struct ep *unused;

	assert_locked(&ia->lock);
	ia_counts(ia, by_consumer ? IA_SP_CR_REJECTED : IA_CM_ERR_REJ_TX);
	tp_reject(cr->request.conn, by_consumer, private_data, size);
	unused = cr_end_locked(cr);
	if (unused)
		ep_destroy_relock(unused);
	mutex_unlock(&ia->lock);
}

void cr_destroy(struct cr *cr)
{
	mutex_lock(&cr->obj.ia->lock);
	cr_reject_unlock(cr, false, NULL, 0);
}

DAT_RETURN cr_reject_with(DAT_CR_HANDLE handle, const void *private_data, unsigned size)
{
	struct cr *cr = handle;

	if (!obj_lock_ia(NULL, cr, DAT_HANDLE_TYPE_CR))
		return BAD_HANDLE(CR);
	obj_retire_forced(&cr->obj); /* no object holds one */
	cr_reject_unlock(cr, true, private_data, size);
	return DAT_SUCCESS;
}

DAT_RETURN cr_query(DAT_CR_HANDLE handle, DAT_CR_PARAM_MASK mask, DAT_CR_PARAM *param)
{
	CANCEL_FORBIDDEN;
	struct cr *cr = handle;

	(void)mask; /* all members are filled in */
	if (!obj_valid(NULL, cr, DAT_HANDLE_TYPE_CR))
		return BAD_HANDLE(CR);
	if (!param)
		return BAD_ARG(3);
	*param = (DAT_CR_PARAM){
		.remote_ia_address_ptr = (DAT_IA_ADDRESS_PTR)&cr->remote,
		.remote_port_qual = sockaddr_port(&cr->remote),
		.private_data_size = cr->private_data_size,
		.private_data = cr->private_data,
		.local_ep_handle = cr->ep,
	};
	return DAT_SUCCESS;
}

/* The most bytes of private data in an answer to a request, and in its rejection. */
static unsigned max_reply(const struct cr *cr)
{
	const struct tp_attr *attr = cr->obj.ia->attr;

	return cr->request.datagrams ? attr->max_datagram_reply_pdata : attr->max_reply_pdata;
}

DAT_RETURN cr_accept(DAT_CR_HANDLE handle, DAT_EP_HANDLE ep, DAT_COUNT private_data_size,
		     const DAT_PVOID private_data)
{
	CANCEL_FORBIDDEN;
	struct cr *cr = handle;
	struct ia *ia;
	DAT_RETURN ret;

	if (!obj_valid(NULL, cr, DAT_HANDLE_TYPE_CR))
		return BAD_HANDLE(CR);
	ia = cr->obj.ia;
	if (cr->ep ? ep != DAT_HANDLE_NULL : !obj_valid(ia, ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	if (private_data_size > 0 && !private_data)
		return BAD_ARG(4);
	if (private_data_size < 0 || (unsigned)private_data_size > max_reply(cr))
		return BAD_ARG(3);
	if (!obj_lock_ia(ia, cr, DAT_HANDLE_TYPE_CR))
		return BAD_HANDLE(CR);
	attend_call_begin_locked(ia);
	ret = BAD_HANDLE(EP);
	if (cr->ep || obj_valid(ia, ep, DAT_HANDLE_TYPE_EP))
		ret = ep_accept_locked(cr->ep ? cr->ep : ep, &cr->request, cr->ep != NULL,
				       private_data, (unsigned)private_data_size);
	if (ret == DAT_SUCCESS) {
		ia_counts(ia, IA_SP_CR_ACCEPTED);
		obj_retire_forced(&cr->obj); /* no object holds one */
		obj_free(&cr->obj);
	}
	attend_call_end_locked(ia);
	mutex_unlock(&ia->lock);
	return ret;
}

#if DAT_EDITION == 2
static unsigned max_rejection(const struct cr *cr)
{
	const struct tp_attr *attr = cr->obj.ia->attr;

	return cr->request.datagrams ? attr->max_datagram_reject_pdata : attr->max_reject_pdata;
}

DAT_RETURN cr_reject(DAT_CR_HANDLE handle, DAT_COUNT private_data_size,
		     const DAT_PVOID private_data)
{
	CANCEL_FORBIDDEN;
	struct cr *cr = handle;

	if (!obj_valid(NULL, cr, DAT_HANDLE_TYPE_CR))
		return BAD_HANDLE(CR);
	if (private_data_size < 0 || (unsigned)private_data_size > max_rejection(cr))
		return BAD_ARG(2);
	if (private_data_size > 0 && !private_data)
		return BAD_ARG(3);
	return cr_reject_with(handle, private_data, (unsigned)private_data_size);
}
#else
DAT_RETURN cr_reject(DAT_CR_HANDLE handle)
{
	CANCEL_FORBIDDEN;
	return cr_reject_with(handle, NULL, 0);
}
#endif

/*
 * Makes a copy: the same connection and what the peer sent, as if they had arrived at @sp. Returns
 * NULL without memory.
 */
static struct cr *cr_copy(const struct cr *cr, struct sp *sp)
{
	struct cr *copy = obj_alloc(cr->obj.ia, cr->obj.table, DAT_HANDLE_TYPE_CR);

	if (!copy)
		return NULL;
	copy->request = cr->request;
	copy->sp = sp;
	copy->sp_number = sp->number;
	copy->remote = cr->remote;
	copy->private_data_size = cr->private_data_size;
	memcpy(copy->private_data, cr->private_data, sizeof(copy->private_data));
	return copy;
}

static DAT_RETURN cr_move_locked(const struct cr *cr, DAT_CONN_QUAL qual)
{
	struct sp *sp = sp_on_port_locked(cr->obj.ia, port_of_qual(qual));
	struct cr *copy;
	DAT_RETURN ret;

	assert_locked(&cr->obj.ia->lock);
	if (!sp || sp->conn_qual != qual || sp->number == cr->sp_number)
		return BAD_ARG(2);
	copy = cr_copy(cr, sp);
	if (!copy)
		return NO_RESOURCE(MEMORY);
	ret = cr_deliver_locked(copy);
	if (ret != DAT_SUCCESS)
		obj_free(&copy->obj);
	return ret;
}

DAT_RETURN cr_handoff(DAT_CR_HANDLE handle, DAT_CONN_QUAL qual)
{
	CANCEL_FORBIDDEN;
	struct cr *cr = handle;
	struct ep *unused = NULL;
	struct ia *ia;
	DAT_RETURN ret;

	if (!obj_lock_ia(NULL, cr, DAT_HANDLE_TYPE_CR))
		return BAD_HANDLE(CR);
	ia = cr->obj.ia;
	ret = cr_move_locked(cr, qual);
	if (ret == DAT_SUCCESS) {
		obj_retire_forced(&cr->obj); /* no object holds one */
		unused = cr_end_locked(cr);
	}
	if (unused)
		ep_destroy_relock(unused);
	mutex_unlock(&ia->lock);
	return ret;
}
