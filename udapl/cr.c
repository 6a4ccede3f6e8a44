/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection requests: made when one arrives at a service point, freed when the consumer accepts or
 * rejects it.
 */
#include <string.h>

#include "udapl.h"

static void cr_init(struct cr *cr, struct sp *sp, struct tp_conn *conn,
		    const struct tp_request *request)
{
	unsigned size = request->private_data_size;
	struct sockaddr_storage local;

	cr->conn = conn;
	cr->sp = sp;
	tp_conn_addr(conn, &local, &cr->remote);
	cr->max_read_in = request->max_read_in;
	cr->max_read_out = request->max_read_out;
	if (size > sizeof(cr->private_data))
		size = sizeof(cr->private_data);
	if (size)
		memcpy(cr->private_data, request->private_data, size);
	cr->private_data_size = (DAT_COUNT)size;
}

/* The request is published before its event, so a thread that dequeues that may answer at once. */
void up_request(struct sp *sp, struct tp_conn *conn, const struct tp_request *request)
{
	struct ia *ia = sp->obj.ia;
	struct cr *cr = obj_alloc(ia, ia->obj.provider, DAT_HANDLE_TYPE_CR);
	DAT_EVENT event = {
		.event_number = DAT_CONNECTION_REQUEST_EVENT,
		.event_data.cr_arrival_event_data = {
			.sp_handle.psp_handle = sp,
			.local_ia_address_ptr = (DAT_IA_ADDRESS_PTR)(uintptr_t)&ia->attr->addr,
			.conn_qual = sp->conn_qual,
		},
	};

	if (!cr)
		goto refuse;
	cr_init(cr, sp, conn, request);
	event.event_data.cr_arrival_event_data.cr_handle = obj_publish(&cr->obj);
	if (evd_post_bounded(sp->evd, &event) == 0)
		return;
	obj_retire_forced(&cr->obj); /* its handle was given to no one */
	obj_free(&cr->obj);
refuse:
	log_cm("PSP %p, qualifier %llu: connection request rejected: no memory or event queue full",
	       (void *)sp, (unsigned long long)sp->conn_qual);
	tp_reject(conn, false);
}

void cr_destroy_locked(struct cr *cr, bool by_consumer)
{
	assert_locked(&cr->obj.ia->lock);
	tp_reject(cr->conn, by_consumer);
	obj_free(&cr->obj);
}

DAT_RETURN cr_query(DAT_CR_HANDLE handle, DAT_CR_PARAM_MASK mask, DAT_CR_PARAM *param)
{
	struct cr *cr = handle;

	if (!obj_valid(NULL, cr, DAT_HANDLE_TYPE_CR))
		return BAD_HANDLE(CR);
	if (!param)
		return BAD_ARG(3);
	if (mask & ~(unsigned)DAT_CR_FIELD_ALL)
		return BAD_ARG(2);
	*param = (DAT_CR_PARAM){
		.remote_ia_address_ptr = (DAT_IA_ADDRESS_PTR)&cr->remote,
		.remote_port_qual = port_of_addr(&cr->remote),
		.private_data_size = cr->private_data_size,
		.private_data = cr->private_data,
		.local_ep_handle = DAT_HANDLE_NULL,
	};
	return DAT_SUCCESS;
}

DAT_RETURN cr_accept(DAT_CR_HANDLE handle, DAT_EP_HANDLE ep, DAT_COUNT private_data_size,
		     const DAT_PVOID private_data)
{
	struct cr *cr = handle;
	struct ia *ia;
	DAT_RETURN ret;

	if (!obj_valid(NULL, cr, DAT_HANDLE_TYPE_CR))
		return BAD_HANDLE(CR);
	ia = cr->obj.ia;
	if (!obj_valid(ia, ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	if (private_data_size > 0 && !private_data)
		return BAD_ARG(4);
	if (private_data_size < 0 || (unsigned)private_data_size > ia->attr->max_reply_pdata)
		return BAD_ARG(3);
	mutex_lock(&ia->lock);
	ret = ep_accept_locked(ep, cr, private_data, (unsigned)private_data_size);
	if (ret == DAT_SUCCESS) {
		obj_retire_forced(&cr->obj); /* no object holds one */
		obj_free(&cr->obj);
	}
	mutex_unlock(&ia->lock);
	return ret;
}

DAT_RETURN cr_reject(DAT_CR_HANDLE handle)
{
	struct cr *cr = handle;
	struct ia *ia;

	if (!obj_valid(NULL, cr, DAT_HANDLE_TYPE_CR))
		return BAD_HANDLE(CR);
	ia = cr->obj.ia;
	mutex_lock(&ia->lock);
	obj_retire_forced(&cr->obj);
	cr_destroy_locked(cr, true);
	mutex_unlock(&ia->lock);
	return DAT_SUCCESS;
}
