/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Common service points of DAT 2.0: listeners at a port of the network, and the connect that names
 * one by address and port. On the wire they are public service points whose qualifier is the port.
 */
#include <netinet/in.h>

#include "base/sockaddr.h"
#include "listen.h"

#define MALFORMED_ADDRESS DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED)

/* Copies an address of IPv4 or IPv6. Returns false if it is another one, or has no port. */
static bool copy_with_port(struct sockaddr_storage *to, const struct sockaddr *from)
{
	if (from->sa_family != AF_INET && from->sa_family != AF_INET6)
		return false;
	sockaddr_copy(to, from);
	return sockaddr_port(to) != 0;
}

static bool comm_is_supported(const DAT_COMM *comm)
{
	return (comm->domain == AF_INET || comm->domain == AF_INET6) && comm->type == SOCK_STREAM &&
	       (comm->protocol == 0 || comm->protocol == IPPROTO_TCP);
}

DAT_RETURN csp_create(DAT_IA_HANDLE ia_handle, DAT_COMM *comm, DAT_IA_ADDRESS_PTR address,
		      DAT_EVD_HANDLE evd, DAT_CSP_HANDLE *out)
{
	CANCEL_FORBIDDEN;
	struct sockaddr_storage copy;
	struct ia *ia = ia_handle;
	struct sp *sp;
	DAT_RETURN ret;

	if (!obj_valid(NULL, ia, DAT_HANDLE_TYPE_IA))
		return BAD_HANDLE(IA);
	if (!sp_evd_takes_requests(ia, evd))
		return BAD_HANDLE(EVD_CR);
	if (!comm)
		return BAD_ARG(2);
	if (!address)
		return BAD_ARG(3);
	if (!out)
		return BAD_ARG(5);
	if (!comm_is_supported(comm))
		return DAT_ERROR(DAT_COMM_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	if (address->sa_family != comm->domain || !copy_with_port(&copy, address))
		return MALFORMED_ADDRESS;
	mutex_lock(&ia->lock);
	ret = sp_new_locked(ia, DAT_HANDLE_TYPE_CSP, sockaddr_port(&copy), evd,
			    DAT_PSP_CONSUMER_FLAG, &sp);
	if (ret == DAT_SUCCESS) {
		sp->comm = *comm;
		sp->address = copy;
		*out = obj_publish(&sp->obj);
	} else if (DAT_GET_TYPE(ret) == DAT_CONN_QUAL_IN_USE) {
		ret = DAT_ERROR(DAT_PORT_IN_USE, DAT_NO_SUBTYPE);
	} else if (ret == BAD_ARG(2)) {
		ret = BAD_ARG(3); /* the port is not an argument of its own */
	}
	mutex_unlock(&ia->lock);
	return ret;
}

DAT_RETURN csp_query(DAT_CSP_HANDLE handle, DAT_CSP_PARAM_MASK mask, DAT_CSP_PARAM *param)
{
	CANCEL_FORBIDDEN;
	struct sp *sp = handle;

	(void)mask; /* all members are filled in */
	if (!obj_valid(NULL, sp, DAT_HANDLE_TYPE_CSP))
		return BAD_HANDLE(CSP);
	if (!param)
		return BAD_ARG(3);
	*param = (DAT_CSP_PARAM){
		.ia_handle = attr_ia_handle(sp->obj.ia),
		.comm = &sp->comm,
		.address_ptr = (DAT_IA_ADDRESS_PTR)&sp->address,
		.evd_handle = sp->evd,
	};
	return DAT_SUCCESS;
}

DAT_RETURN csp_free(DAT_CSP_HANDLE handle)
{
	CANCEL_FORBIDDEN;
	return sp_free(handle, DAT_HANDLE_TYPE_CSP, BAD_HANDLE(CSP));
}

DAT_RETURN ep_common_connect(DAT_EP_HANDLE ep, DAT_IA_ADDRESS_PTR address, DAT_TIMEOUT timeout,
			     DAT_COUNT private_data_size, const DAT_PVOID private_data)
{
	CANCEL_FORBIDDEN;
	struct sockaddr_storage copy;
	DAT_RETURN ret;

	if (!obj_valid(NULL, ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	if (!address)
		return BAD_ARG(2);
	if (!copy_with_port(&copy, address))
		return MALFORMED_ADDRESS;
	ret = ep_connect(ep, (DAT_IA_ADDRESS_PTR)&copy, sockaddr_port(&copy), timeout,
			 private_data_size, private_data, DAT_QOS_BEST_EFFORT,
			 DAT_CONNECT_DEFAULT_FLAG);
	/* the parameters behind the address are one further in front than those of ep_connect */
	switch (ret) {
	case BAD_ARG(4):
		return BAD_ARG(3);
	case BAD_ARG(5):
		return BAD_ARG(4);
	case BAD_ARG(6):
		return BAD_ARG(5);
	default:
		return ret;
	}
}
