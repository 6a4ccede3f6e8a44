/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Service points: listeners of an IA. A public one (PSP) listens until it is freed, a reserved one
 * (RSP) until its request arrives.
 */
#include <errno.h>

#include "listen.h"

/* Two qualifiers with one port can't be told apart on the wire. */
struct sp *sp_on_port_locked(struct ia *ia, uint16_t port)
{
	static const DAT_HANDLE_TYPE kinds[] = {
		DAT_HANDLE_TYPE_PSP,
		DAT_HANDLE_TYPE_RSP,
#if DAT_EDITION == 2
		DAT_HANDLE_TYPE_CSP,
#endif
	};

	assert_locked(&ia->lock);
	for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct obj *obj = NULL;

		while ((obj = obj_next(ia, kinds[i], obj))) {
			struct sp *sp = container_of(obj, struct sp, obj);

			if (sp->listener && port_of_qual(sp->conn_qual) == port)
				return sp;
		}
	}
	return NULL;
}

bool sp_evd_takes_requests(struct ia *ia, const struct evd *evd)
{
	return obj_valid(ia, (DAT_HANDLE)(uintptr_t)evd, DAT_HANDLE_TYPE_EVD) &&
	       evd->flags & DAT_EVD_CR_FLAG;
}

/* ---- public service points ---- */

/* Checks the arguments that psp_create and psp_create_any have in common, in the same places. */
static DAT_RETURN psp_refused(struct ia *ia, const DAT_CONN_QUAL *qual, const struct evd *evd,
			      DAT_PSP_FLAGS flags, const DAT_PSP_HANDLE *out)
{
	if (!obj_valid(NULL, ia, DAT_HANDLE_TYPE_IA))
		return BAD_HANDLE(IA);
	if (!sp_evd_takes_requests(ia, evd))
		return BAD_HANDLE(EVD_CR);
	if (!qual)
		return BAD_ARG(2);
	if (!out)
		return BAD_ARG(5);
	if (flags != DAT_PSP_CONSUMER_FLAG && flags != DAT_PSP_PROVIDER_FLAG)
		return BAD_ARG(4);
	return DAT_SUCCESS;
}

static _Atomic uint64_t numbers; /* of all service points that there were */

DAT_RETURN sp_new_locked(struct ia *ia, DAT_HANDLE_TYPE kind, DAT_CONN_QUAL qual, struct evd *evd,
			 DAT_PSP_FLAGS flags, struct sp **out)
{
	uint16_t port = port_of_qual(qual);
	struct sp *sp;
	DAT_RETURN ret;
	int err;

	assert_locked(&ia->lock);
	if (qual && sp_on_port_locked(ia, port))
		return DAT_ERROR(DAT_CONN_QUAL_IN_USE, DAT_NO_SUBTYPE);
	sp = obj_alloc(ia, ia->obj.table, kind);
	if (!sp)
		return NO_RESOURCE(MEMORY);
	if (!obj_hold(ia, evd, DAT_HANDLE_TYPE_EVD)) {
		ret = BAD_HANDLE(EVD_CR);
		goto discard_sp;
	}
	err = tp_listen(ia->dev, &port, sp, &sp->listener);
	if (err) {
		(void)log_descriptor_shortage("a service point", err);
		ret = err == -EACCES ? BAD_ARG(2) : status_of(err, DAT_RESOURCE_DEVICE);
		goto put_evd;
	}
	sp->number = atomic_fetch_add(&numbers, 1);
	sp->conn_qual = qual ? qual : port;
	sp->flags = flags;
	sp->evd = evd;
	ia_counts(ia, IA_CM_LISTEN);
	*out = sp;
	return DAT_SUCCESS;
put_evd:
	obj_put(&evd->obj);
discard_sp:
	obj_free(&sp->obj);
	return ret;
}

DAT_RETURN psp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL qual, DAT_EVD_HANDLE evd,
		      DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *out)
{
	CANCEL_FORBIDDEN;
	struct ia *ia = ia_handle;
	struct sp *sp;
	DAT_RETURN ret;

	ret = psp_refused(ia, &qual, evd, flags, out);
	if (ret != DAT_SUCCESS)
		return ret;
	if (!qual)
		return BAD_ARG(2);
	mutex_lock(&ia->lock);
	ret = sp_new_locked(ia, DAT_HANDLE_TYPE_PSP, qual, evd, flags, &sp);
	if (ret == DAT_SUCCESS) {
		ia_counts(ia, IA_PSP_CREATE);
		*out = obj_publish(&sp->obj);
	}
	mutex_unlock(&ia->lock);
	return ret;
}

DAT_RETURN psp_create_any(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL *qual, DAT_EVD_HANDLE evd,
			  DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *out)
{
	CANCEL_FORBIDDEN;
	struct ia *ia = ia_handle;
	struct sp *sp;
	DAT_RETURN ret;

	ret = psp_refused(ia, qual, evd, flags, out);
	if (ret != DAT_SUCCESS)
		return ret;
	mutex_lock(&ia->lock);
	ret = sp_new_locked(ia, DAT_HANDLE_TYPE_PSP, 0, evd, flags, &sp);
	if (ret == DAT_SUCCESS) {
		*qual = sp->conn_qual;
		ia_counts(ia, IA_PSP_CREATE_ANY);
		*out = obj_publish(&sp->obj);
	} else if (DAT_GET_TYPE(ret) == DAT_CONN_QUAL_IN_USE) {
		ret = DAT_ERROR(DAT_CONN_QUAL_UNAVAILABLE,
				DAT_NO_SUBTYPE); /* all ports are in use */
	}
	mutex_unlock(&ia->lock);
	return ret;
}

void sp_stop_locked(struct sp *sp)
{
	assert_locked(&sp->obj.ia->lock);
	tp_unlisten(sp->listener);
	sp->listener = NULL;
	obj_put(&sp->evd->obj);
}

/* Of a common service point there is no counter. */
static void count_free(const struct sp *sp)
{
	if (obj_kind(&sp->obj) == DAT_HANDLE_TYPE_PSP)
		ia_counts(sp->obj.ia, IA_PSP_FREE);
	else if (obj_kind(&sp->obj) == DAT_HANDLE_TYPE_RSP)
		ia_counts(sp->obj.ia, IA_RSP_FREE);
}

void sp_destroy_locked(struct sp *sp)
{
	assert_locked(&sp->obj.ia->lock);
	if (sp->listener && sp->ep)
		ep_trigger_locked(sp->ep, ON_UNRESERVE);
	if (sp->listener)
		sp_stop_locked(sp);
	count_free(sp);
	obj_free(&sp->obj);
}

DAT_RETURN sp_free(DAT_HANDLE handle, DAT_HANDLE_TYPE kind, DAT_RETURN bad)
{
	struct sp *sp = handle;
	struct ia *ia;

	if (!obj_lock_ia(NULL, sp, kind))
		return bad;
	ia = sp->obj.ia;
	obj_retire_forced(&sp->obj); /* no object holds one */
	sp_destroy_locked(sp);
	mutex_unlock(&ia->lock);
	return DAT_SUCCESS;
}

DAT_RETURN psp_free(DAT_PSP_HANDLE handle)
{
	CANCEL_FORBIDDEN;
	return sp_free(handle, DAT_HANDLE_TYPE_PSP, BAD_HANDLE(PSP));
}

DAT_RETURN psp_query(DAT_PSP_HANDLE handle, DAT_PSP_PARAM_MASK mask, DAT_PSP_PARAM *param)
{
	CANCEL_FORBIDDEN;
	struct sp *sp = handle;

	(void)mask; /* all members are filled in */
	if (!obj_valid(NULL, sp, DAT_HANDLE_TYPE_PSP))
		return BAD_HANDLE(PSP);
	if (!param)
		return BAD_ARG(3);
	*param = (DAT_PSP_PARAM){
		.ia_handle = attr_ia_handle(sp->obj.ia),
		.conn_qual = sp->conn_qual,
		.evd_handle = sp->evd,
		.psp_flags = sp->flags,
	};
	return DAT_SUCCESS;
}

/* ---- reserved service points ---- */

static DAT_RETURN rsp_refused(struct ia *ia, DAT_CONN_QUAL qual, const struct ep *ep,
			      const struct evd *evd, const DAT_RSP_HANDLE *out)
{
	if (!obj_valid(NULL, ia, DAT_HANDLE_TYPE_IA))
		return BAD_HANDLE(IA);
	if (ep &&
	    (!obj_valid(ia, (DAT_HANDLE)(uintptr_t)ep, DAT_HANDLE_TYPE_EP) || ep_has_datagrams(ep)))
		return BAD_HANDLE(EP);
	if (!sp_evd_takes_requests(ia, evd))
		return BAD_HANDLE(EVD_CR);
	if (!out)
		return BAD_ARG(5);
	return qual ? DAT_SUCCESS : BAD_ARG(2);
}

DAT_RETURN rsp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL qual, DAT_EP_HANDLE ep_handle,
		      DAT_EVD_HANDLE evd, DAT_RSP_HANDLE *out)
{
	CANCEL_FORBIDDEN;
	struct ia *ia = ia_handle;
	struct ep *ep = ep_handle;
	struct sp *sp;
	DAT_RETURN ret;

	ret = rsp_refused(ia, qual, ep, evd, out);
	if (ret != DAT_SUCCESS)
		return ret;
	if (!ep)
		mutex_lock(&ia->lock);
	else if (!obj_lock_ia(ia, ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	if (ep)
		ret = ep_may(ep, ON_RESERVE);
	if (ret == DAT_SUCCESS)
		ret = sp_new_locked(ia, DAT_HANDLE_TYPE_RSP, qual, evd,
				    ep ? DAT_PSP_CONSUMER_FLAG : DAT_PSP_PROVIDER_FLAG, &sp);
	if (ret == DAT_SUCCESS) {
		sp->ep = ep;
		if (ep)
			ep_trigger_locked(ep, ON_RESERVE);
		ia_counts(ia, IA_RSP_CREATE);
		*out = obj_publish(&sp->obj);
	}
	mutex_unlock(&ia->lock);
	return ret;
}

DAT_RETURN rsp_free(DAT_RSP_HANDLE handle)
{
	CANCEL_FORBIDDEN;
	return sp_free(handle, DAT_HANDLE_TYPE_RSP, BAD_HANDLE(RSP));
}

DAT_RETURN rsp_query(DAT_RSP_HANDLE handle, DAT_RSP_PARAM_MASK mask, DAT_RSP_PARAM *param)
{
	CANCEL_FORBIDDEN;
	struct sp *sp = handle;
	struct ia *ia;

	(void)mask; /* all members are filled in */
	if (!obj_valid(NULL, sp, DAT_HANDLE_TYPE_RSP))
		return BAD_HANDLE(RSP);
	if (!param)
		return BAD_ARG(3);
	if (!obj_lock_ia(NULL, sp, DAT_HANDLE_TYPE_RSP))
		return BAD_HANDLE(RSP);
	ia = sp->obj.ia;
	*param = (DAT_RSP_PARAM){
		.ia_handle = attr_ia_handle(ia),
		.conn_qual = sp->conn_qual,
		.evd_handle = sp->evd,
		.ep_handle = sp->ep,
	};
	mutex_unlock(&ia->lock);
	return DAT_SUCCESS;
}
