/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls that DAT 2.0 added, and those whose parameters it changed. */
#include "api.h"

#include <stdarg.h>
#include <string.h>

/*
 * Either handle of an IA leads to the other one: providers ask for the handle that the consumer
 * has, to show it in their queries.
 */
DAT_RETURN dats_get_ia_handle(unsigned long handle, DAT_IA_HANDLE *ia)
{
	const DAT_IA_HANDLE given = (DAT_IA_HANDLE)handle;
	DAT_HANDLE found = is_object(given) ? ia_to_consumer(given) : ia_to_provider(given);

	if (!found || found == given)
		return BAD_HANDLE(_IA);
	*ia = found;
	return DAT_SUCCESS;
}

/* ---- calls with other parameters ---- */

NO_JUMP
DAT_RETURN dat_lmr_create(DAT_IA_HANDLE handle, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region,
			  DAT_VLEN length, DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS privileges,
			  DAT_VA_TYPE va_type, DAT_LMR_HANDLE *lmr, DAT_LMR_CONTEXT *lmr_context,
			  DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_size,
			  DAT_VADDR *registered_address)
{
	DAT_IA_HANDLE ia = ia_to_provider(handle);

	if (!ia)
		return api_refused(BAD_HANDLE(_IA), "dat_lmr_create", handle);
	return DAT_LMR_CREATE(ia, type, region, length, pz, privileges, va_type, lmr, lmr_context,
			      rmr_context, registered_size, registered_address);
}

DAT_RETURN dat_rmr_bind(DAT_RMR_HANDLE rmr, DAT_LMR_HANDLE lmr, const DAT_LMR_TRIPLET *triplet,
			DAT_MEM_PRIV_FLAGS privileges, DAT_VA_TYPE va_type, DAT_EP_HANDLE ep,
			DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags, DAT_RMR_CONTEXT *context)
{
	if (unlikely(!is_object(rmr)))
		return api_refused(BAD_HANDLE(_RMR), "dat_rmr_bind", rmr);
	return DAT_RMR_BIND(rmr, lmr, triplet, privileges, va_type, ep, cookie, flags, context);
}

DAT_RETURN dat_cr_reject(DAT_CR_HANDLE cr, DAT_COUNT private_size, const DAT_PVOID private_data)
{
	if (!is_own_object(cr))
		return api_refused(BAD_HANDLE(_CR), "dat_cr_reject", cr);
	return DAT_CR_REJECT(cr, private_size, private_data);
}

/* ---- new calls ---- */

DAT_RETURN dat_csp_create(DAT_IA_HANDLE handle, DAT_COMM *comm, DAT_IA_ADDRESS_PTR address,
			  DAT_EVD_HANDLE evd, DAT_CSP_HANDLE *csp)
{
	DAT_IA_HANDLE ia = ia_to_provider(handle);

	if (!ia)
		return api_refused(BAD_HANDLE(_IA), "dat_csp_create", handle);
	return DAT_CSP_CREATE(ia, comm, address, evd, csp);
}

DAT_RETURN dat_csp_query(DAT_CSP_HANDLE csp, DAT_CSP_PARAM_MASK mask, DAT_CSP_PARAM *param)
{
	if (!is_own_object(csp))
		return api_refused(BAD_HANDLE(_CSP), "dat_csp_query", csp);
	return api_show_ia(DAT_CSP_QUERY(csp, mask, param), mask & DAT_CSP_FIELD_IA_HANDLE, param);
}

DAT_RETURN dat_csp_free(DAT_CSP_HANDLE csp)
{
	if (!is_own_object(csp))
		return api_refused(BAD_HANDLE(_CSP), "dat_csp_free", csp);
	return DAT_CSP_FREE(csp);
}

DAT_RETURN dat_ep_common_connect(DAT_EP_HANDLE ep, DAT_IA_ADDRESS_PTR address, DAT_TIMEOUT timeout,
				 DAT_COUNT private_size, const DAT_PVOID private_data)
{
	if (!is_own_object(ep))
		return api_refused(BAD_HANDLE(_EP), "dat_ep_common_connect", ep);
	return DAT_EP_COMMON_CONNECT(ep, address, timeout, private_size, private_data);
}

DAT_RETURN dat_rmr_create_for_ep(DAT_PZ_HANDLE pz, DAT_RMR_HANDLE *rmr)
{
	if (!is_own_object(pz))
		return api_refused(BAD_HANDLE(_PZ), "dat_rmr_create_for_ep", pz);
	return DAT_RMR_CREATE_FOR_EP(pz, rmr);
}

DAT_RETURN dat_ep_post_send_with_invalidate(DAT_EP_HANDLE ep, DAT_COUNT segments,
					    DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
					    DAT_COMPLETION_FLAGS flags, DAT_BOOLEAN invalidate,
					    DAT_RMR_CONTEXT context)
{
	if (!is_own_object(ep))
		return api_refused(BAD_HANDLE(_EP), "dat_ep_post_send_with_invalidate", ep);
	return DAT_EP_POST_SEND_WITH_INVALIDATE(ep, segments, iov, cookie, flags, invalidate,
						context);
}

DAT_RETURN dat_ep_post_rdma_read_to_rmr(DAT_EP_HANDLE ep, const DAT_RMR_TRIPLET *local,
					DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
					DAT_COMPLETION_FLAGS flags)
{
	if (!is_own_object(ep))
		return api_refused(BAD_HANDLE(_EP), "dat_ep_post_rdma_read_to_rmr", ep);
	return DAT_EP_POST_RDMA_READ_TO_RMR(ep, local, cookie, remote, flags);
}

DAT_RETURN dat_cno_fd_create(DAT_IA_HANDLE handle, DAT_FD *fd, DAT_CNO_HANDLE *cno)
{
	DAT_IA_HANDLE ia = ia_to_provider(handle);

	if (!ia)
		return api_refused(BAD_HANDLE(_IA), "dat_cno_fd_create", handle);
	return DAT_CNO_FD_CREATE(ia, fd, cno);
}

DAT_RETURN dat_cno_trigger(DAT_CNO_HANDLE cno, DAT_EVD_HANDLE *evd)
{
	if (!is_own_object(cno))
		return api_refused(BAD_HANDLE(_CNO), "dat_cno_trigger", cno);
	return DAT_CNO_TRIGGER(cno, evd);
}

static DAT_RETURN names_are_known(const char *name, const char *other)
{
	bool known;
	DAT_RETURN ret;

	if (!name)
		return DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
	if (!other)
		return DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
	ret = registry_lock();
	if (ret != DAT_SUCCESS)
		return ret;
	known = registry_has_name_locked(name) && registry_has_name_locked(other);
	libdat_mutex_unlock(&registry.lock);
	return known ? DAT_SUCCESS : DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
}

DAT_RETURN dat_registry_providers_related(const DAT_NAME_PTR name, const DAT_NAME_PTR other,
					  DAT_HA_RELATIONSHIP *relationship)
{
	NO_CANCELLATION;
	DAT_RETURN ret = names_are_known(name, other);

	if (ret == DAT_SUCCESS && !relationship)
		ret = DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
	if (ret == DAT_SUCCESS)
		*relationship = DAT_HA_FALSE;
	libdat_log_result(DBG_CONSUMER, ret, "dat_registry_providers_related(\"%s\", \"%s\")",
			  name ? name : "", other ? other : "");
	return ret;
}

/* ---- extensions ---- */

/* An IA that is opened for a query. */
struct query_open {
	struct open_request request;
	DAT_EXTENDED_OP op;
	DAT_HANDLE *stored; /* the first of args: where the provider stores its handle */
	va_list args;	    /* after the name */
};

/* Asks the provider, which gets the name in the place of the handle, as from dapl's registry. */
static DAT_RETURN query_open_ask(const struct registration *registration,
				 struct open_request *request, DAT_IA_HANDLE *ia)
{
	struct query_open *query = (struct query_open *)request;
	DAT_RETURN ret;

	if (!registration->extended_op)
		return DAT_ERROR(DAT_NOT_IMPLEMENTED, DAT_NO_SUBTYPE);
	ret = registration->extended_op(request->want.ia_name, query->op, query->args);
	if (ret == DAT_SUCCESS)
		*ia = *query->stored;
	return ret;
}

static DAT_RETURN query_open_named(const char *name, struct query_open *query)
{
	DAT_EVD_HANDLE no_evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;
	DAT_RETURN ret;

	if (!name || strnlen(name, DAT_NAME_MAX_LENGTH) == DAT_NAME_MAX_LENGTH)
		return DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
	if (!query->stored)
		return DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG4);
	*query->stored = DAT_HANDLE_NULL;
	ret = registry_open(name, &query->request, &no_evd, &ia);
	if (ret != DAT_SUCCESS)
		*query->stored = DAT_HANDLE_NULL;
	return ret;
}

/* Opens the name that is the first of @args. The handle of the call is not looked at. */
static DAT_RETURN extension_open_query(DAT_EXTENDED_OP op, va_list args)
{
	struct query_open query = {
		.request = { .want = { .dapl_version_major = DAT_VERSION_MAJOR,
				       .dapl_version_minor = DAT_VERSION_MINOR,
				       .is_thread_safe = DAT_THREADSAFE },
			     .purpose = IA_FOR_QUERY,
			     .ask = query_open_ask },
		.op = op,
	};
	const char *name = va_arg(args, DAT_NAME_PTR);
	va_list peeked;
	DAT_RETURN ret;

	va_copy(query.args, args);
	va_copy(peeked, args);
	query.stored = va_arg(peeked, DAT_HANDLE *);
	va_end(peeked);
	ret = query_open_named(name, &query);
	va_end(query.args);
	libdat_log_result(DBG_CONSUMER, ret, "dat_extension_op: query of \"%s\"",
			  query.request.want.ia_name);
	return ret;
}

struct query_close {
	DAT_EXTENDED_OP op;
	va_list args;
};

static DAT_RETURN query_close_ask(DAT_IA_HANDLE ia, void *arg)
{
	struct query_close *query = arg;

	return DAT_HANDLE_EXTENDEDOP(ia, query->op, query->args);
}

static DAT_RETURN extension_close_query(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list args)
{
	struct query_close query = { .op = op };
	DAT_RETURN ret;

	va_copy(query.args, args);
	ret = registry_close_ia(handle, IA_FOR_QUERY, "dat_extension_op", query_close_ask, &query);
	va_end(query.args);
	return ret;
}

static DAT_RETURN __attribute__((cold, noinline))
extension_of_query(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list args)
{
	NO_CANCELLATION;

	return op & DAT_OPEN_EXTENSION_BASE ? extension_open_query(op, args)
					    : extension_close_query(handle, op, args);
}

static DAT_RETURN __attribute__((cold, noinline)) extension_missing(const void *handle)
{
	const DAT_RETURN ret = DAT_ERROR(DAT_NOT_IMPLEMENTED, DAT_NO_SUBTYPE);

	libdat_log_result(DBG_CONSUMER, ret,
			  "dat_extension_op: the provider of %p has no extensions", handle);
	return ret;
}

/* This has no NO_CANCELLATION, because posts are among the operations. */
static DAT_RETURN extension_of_object(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list args)
{
	DAT_HANDLE object = api_object(handle);

	if (unlikely(!object))
		return api_refused(BAD_HANDLE(1), "dat_extension_op", handle);
	if (unlikely(!DAT_HANDLE_TO_PROVIDER(object)->handle_extendedop_func))
		return extension_missing(handle);
	return DAT_HANDLE_EXTENDEDOP(object, op, args);
}

DAT_RETURN dat_extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP op, ...)
{
	va_list args;
	DAT_RETURN ret;

	va_start(args, op);
	if (unlikely(op & (DAT_OPEN_EXTENSION_BASE | DAT_CLOSE_EXTENSION_BASE)))
		ret = extension_of_query(handle, op, args);
	else
		ret = extension_of_object(handle, op, args);
	va_end(args);
	return ret;
}
