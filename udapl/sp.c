/* SPDX-License-Identifier: BSD-2-Clause */
/* Public service points: listeners of an IA; and the mapping of qualifiers to ports. */
#include <errno.h>
#include <netinet/in.h>

#include "udapl.h"

/* OFED's numbers: qualifiers above 65535 are mapped to the upper ports */
#define ALIAS_MODULUS 32001
#define ALIAS_BASE    33534

uint16_t port_of_qual(DAT_CONN_QUAL qual)
{
	return (uint16_t)(qual <= UINT16_MAX ? qual : qual % ALIAS_MODULUS + ALIAS_BASE);
}

uint16_t port_of_addr(const struct sockaddr_storage *addr)
{
	switch (addr->ss_family) {
	case AF_INET:
		return ntohs(((const struct sockaddr_in *)addr)->sin_port);
	case AF_INET6:
		return ntohs(((const struct sockaddr_in6 *)addr)->sin6_port);
	default:
		return 0;
	}
}

/* Two qualifiers with one port can't be told apart on the wire. */
static bool port_is_taken_locked(struct ia *ia, uint16_t port)
{
	struct obj *obj = NULL;

	assert_locked(&ia->lock);
	while ((obj = obj_next(ia, DAT_HANDLE_TYPE_PSP, obj)))
		if (port_of_qual(container_of(obj, struct sp, obj)->conn_qual) == port)
			return true;
	return false;
}

/* Checks the arguments that psp_create and psp_create_any have in common, in the same places. */
static DAT_RETURN sp_refused(struct ia *ia, const DAT_CONN_QUAL *qual, const struct evd *evd,
			     DAT_PSP_FLAGS flags, const DAT_PSP_HANDLE *out)
{
	if (!obj_valid(NULL, ia, DAT_HANDLE_TYPE_IA))
		return BAD_HANDLE(IA);
	if (!obj_valid(ia, (DAT_HANDLE)(uintptr_t)evd, DAT_HANDLE_TYPE_EVD) ||
	    !(evd->flags & DAT_EVD_CR_FLAG))
		return BAD_HANDLE(EVD_CR);
	if (!qual)
		return BAD_ARG(2);
	if (!out)
		return BAD_ARG(5);
	if (flags != DAT_PSP_CONSUMER_FLAG && flags != DAT_PSP_PROVIDER_FLAG)
		return BAD_ARG(4);
	return DAT_SUCCESS;
}

/*
 * Listens on a port; with port 0 on one that is free, whose number becomes the qualifier.
 */
static DAT_RETURN sp_new_locked(struct ia *ia, DAT_CONN_QUAL qual, struct evd *evd,
				DAT_PSP_FLAGS flags, struct sp **out)
{
	struct sp *sp = obj_alloc(ia, ia->obj.provider, DAT_HANDLE_TYPE_PSP);
	uint16_t port = port_of_qual(qual);
	DAT_RETURN ret;
	int err;

	assert_locked(&ia->lock);
	if (!sp)
		return NO_RESOURCE(MEMORY);
	if (!obj_hold(ia, evd, DAT_HANDLE_TYPE_EVD)) {
		ret = BAD_HANDLE(EVD_CR);
		goto discard_sp;
	}
	err = tp_listen(ia->dev, &port, sp, &sp->listener);
	if (err) {
		ret = err == -EACCES ? BAD_ARG(2) : status_of(err, DAT_RESOURCE_DEVICE);
		goto put_evd;
	}
	sp->conn_qual = qual ? qual : port;
	sp->flags = flags;
	sp->evd = evd;
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
	struct ia *ia = ia_handle;
	struct sp *sp;
	DAT_RETURN ret;

	ret = sp_refused(ia, &qual, evd, flags, out);
	if (ret != DAT_SUCCESS)
		return ret;
	if (!qual)
		return BAD_ARG(2);
	if (flags == DAT_PSP_PROVIDER_FLAG)
		return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	mutex_lock(&ia->lock);
	ret = port_is_taken_locked(ia, port_of_qual(qual))
		      ? DAT_ERROR(DAT_CONN_QUAL_IN_USE, DAT_NO_SUBTYPE)
		      : sp_new_locked(ia, qual, evd, flags, &sp);
	if (ret == DAT_SUCCESS)
		*out = obj_publish(&sp->obj);
	mutex_unlock(&ia->lock);
	return ret;
}

DAT_RETURN psp_create_any(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL *qual, DAT_EVD_HANDLE evd,
			  DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *out)
{
	struct ia *ia = ia_handle;
	struct sp *sp;
	DAT_RETURN ret;

	ret = sp_refused(ia, qual, evd, flags, out);
	if (ret != DAT_SUCCESS)
		return ret;
	if (flags == DAT_PSP_PROVIDER_FLAG)
		return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	mutex_lock(&ia->lock);
	ret = sp_new_locked(ia, 0, evd, flags, &sp);
	if (ret == DAT_SUCCESS) {
		*qual = sp->conn_qual;
		*out = obj_publish(&sp->obj);
	} else if (DAT_GET_TYPE(ret) == DAT_CONN_QUAL_IN_USE) {
		ret = DAT_ERROR(DAT_CONN_QUAL_UNAVAILABLE,
				DAT_NO_SUBTYPE); /* all ports are in use */
	}
	mutex_unlock(&ia->lock);
	return ret;
}

void sp_destroy_locked(struct sp *sp)
{
	assert_locked(&sp->obj.ia->lock);
	tp_unlisten(sp->listener);
	obj_put(&sp->evd->obj);
	obj_free(&sp->obj);
}

DAT_RETURN psp_free(DAT_PSP_HANDLE handle)
{
	struct sp *sp = handle;
	struct ia *ia;

	if (!obj_valid(NULL, sp, DAT_HANDLE_TYPE_PSP))
		return BAD_HANDLE(PSP);
	ia = sp->obj.ia;
	mutex_lock(&ia->lock);
	obj_retire_forced(&sp->obj); /* no object holds one */
	sp_destroy_locked(sp);
	mutex_unlock(&ia->lock);
	return DAT_SUCCESS;
}

DAT_RETURN psp_query(DAT_PSP_HANDLE handle, DAT_PSP_PARAM_MASK mask, DAT_PSP_PARAM *param)
{
	struct sp *sp = handle;

	if (!obj_valid(NULL, sp, DAT_HANDLE_TYPE_PSP))
		return BAD_HANDLE(PSP);
	if (!param)
		return BAD_ARG(3);
	if (mask & ~(unsigned)DAT_PSP_FIELD_ALL)
		return BAD_ARG(2);
	*param = (DAT_PSP_PARAM){
		.ia_handle = sp->obj.ia,
		.conn_qual = sp->conn_qual,
		.evd_handle = sp->evd,
		.psp_flags = sp->flags,
	};
	return DAT_SUCCESS;
}
