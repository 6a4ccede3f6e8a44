/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls of DAT 2.0 that DAT 1.2 lacks, and that are part of no room: those that no transport can
 * serve, those about the provider, and the operations of extensions.
 */
#include <stdlib.h>

#include <dat2/dat_ib_extensions.h>

#include "base/refuse.h"
#include "entry.h"

#define NOT_SUPPORTED DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE)

/* ---- what no transport can do ---- */

DAT_RETURN ep_post_rdma_read_to_rmr(DAT_EP_HANDLE ep, const DAT_RMR_TRIPLET *local,
				    DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
				    DAT_COMPLETION_FLAGS flags)
{
	(void)cookie;
	(void)flags;
	if (!obj_readable(ep) || !obj_is(ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	if (!local)
		return BAD_ARG(2);
	return remote ? NOT_SUPPORTED : BAD_ARG(4);
}

/* ---- about the provider ---- */

/* No two names share their devices in the way that one could take over from the other. */
DAT_RETURN ia_ha_related(DAT_IA_HANDLE ia, const DAT_NAME_PTR name, DAT_BOOLEAN *related)
{
	CANCEL_FORBIDDEN;
	struct provider *provider;
	DAT_RETURN ret;
	char *params;

	if (!obj_valid(NULL, ia, DAT_HANDLE_TYPE_IA))
		return BAD_HANDLE(IA);
	if (!name)
		return BAD_ARG(2);
	if (!related)
		return BAD_ARG(3);
	ret = provider_find(name, false, &provider, &params);
	if (DAT_GET_TYPE(ret) == DAT_PROVIDER_NOT_FOUND)
		ret = provider_find(name, true, &provider, &params);
	if (ret != DAT_SUCCESS)
		return ret;
	free(params);
	*related = DAT_FALSE;
	return DAT_SUCCESS;
}

/* ---- extensions ---- */

/* A query open: the numbers of wrong arguments are those of dat_extension_op. */
static DAT_RETURN query_open(const char *name, va_list args)
{
	DAT_HANDLE *out = va_arg(args, DAT_HANDLE *);
	const DAT_IA_ATTR_MASK ia_mask = va_arg(args, DAT_IA_ATTR_MASK);
	DAT_IA_ATTR *ia_attr = va_arg(args, DAT_IA_ATTR *);
	const DAT_PROVIDER_ATTR_MASK provider_mask = va_arg(args, DAT_PROVIDER_ATTR_MASK);
	DAT_PROVIDER_ATTR *provider_attr = va_arg(args, DAT_PROVIDER_ATTR *);
	struct ia *ia;
	DAT_RETURN ret;

	(void)ia_mask; /* all members of what is given are filled in */
	(void)provider_mask;
	if (!name)
		return BAD_ARG(3);
	if (!out)
		return BAD_ARG(4);
	if (!ia_attr && !provider_attr)
		return BAD_ARG(6);
	ret = ia_open_query(name, &ia);
	if (ret != DAT_SUCCESS)
		return ret;
	if (ia_attr)
		attr_ia(ia, ia_attr);
	if (provider_attr)
		attr_provider(ia, provider_attr);
	*out = ia;
	return DAT_SUCCESS;
}

static DAT_RETURN query_close(DAT_HANDLE handle)
{
	const struct ia *ia = handle;

	if (!obj_valid(NULL, handle, DAT_HANDLE_TYPE_IA) || !ia->query_only)
		return BAD_HANDLE(IA);
	return ia_close(handle, DAT_CLOSE_ABRUPT_FLAG);
}

static DAT_RETURN query_counters(DAT_HANDLE handle, va_list args)
{
	const int number = va_arg(args, int);
	DAT_UINT64 *values = va_arg(args, DAT_UINT64 *);

	return counters_query(handle, number, values, va_arg(args, int) != 0);
}

static DAT_RETURN print_counters(DAT_HANDLE handle, va_list args)
{
	const int number = va_arg(args, int);

	return counters_log(handle, number, va_arg(args, int) != 0);
}

static DAT_RETURN no_operation(DAT_HANDLE handle, DAT_EXTENDED_OP op)
{
	const bool has_object = !(op & (DAT_OPEN_EXTENSION_BASE | DAT_CLOSE_EXTENSION_BASE));

	if (has_object && !obj_any(handle))
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
	return DAT_ERROR(DAT_NOT_IMPLEMENTED, DAT_NO_SUBTYPE);
}

static DAT_RETURN execute(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list args)
{
	switch ((int)op) {
	case DAT_IB_OPEN_QUERY_OP:
		return query_open(handle, args);
	case DAT_IB_CLOSE_QUERY_OP:
		return query_close(handle);
	case DAT_IB_UD_CM_FREE_OP:
		return ep_free_context(handle, va_arg(args, DAT_CONTEXT));
	case DAT_IB_UD_AH_FREE_OP:
		return ep_free_ah(handle, va_arg(args, DAT_IB_ADDR_HANDLE *));
	case DAT_IB_QUERY_COUNTERS_OP:
		return query_counters(handle, args);
	case DAT_IB_PRINT_COUNTERS_OP:
		return print_counters(handle, args);
	case DAT_IB_START_COUNTERS_OP:
	case DAT_IB_STOP_COUNTERS_OP:
		return counters_sample(handle, va_arg(args, int));
	default:
		return no_operation(handle, op);
	}
}

/* The operations that are no posts, and those on what is no object. */
static COLD DAT_RETURN other_operation(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list args)
{
	CANCEL_FORBIDDEN;
	DAT_RETURN ret = execute(handle, op, args);

	if (ret == DAT_SUCCESS)
		return ret;
	return refused(ret, LOG_UTIL, "dat_extension_op", "handle %p, op %#x", handle,
		       (unsigned)op);
}

static ALWAYS_INLINE DAT_RETURN write_immed(DAT_HANDLE ep, va_list args)
{
	const DAT_COUNT nseg = va_arg(args, DAT_COUNT);
	const DAT_LMR_TRIPLET *iov = va_arg(args, DAT_LMR_TRIPLET *);
	const DAT_DTO_COOKIE cookie = va_arg(args, DAT_DTO_COOKIE);
	const DAT_RMR_TRIPLET *remote = va_arg(args, DAT_RMR_TRIPLET *);
	const DAT_UINT32 immed = va_arg(args, DAT_UINT32);
	const DAT_COMPLETION_FLAGS flags = va_arg(args, DAT_COMPLETION_FLAGS);

	return ep_post_write_immed(ep, nseg, iov, cookie, remote, immed, flags);
}

static ALWAYS_INLINE DAT_RETURN fetch_add(DAT_HANDLE ep, va_list args)
{
	const DAT_UINT64 add = va_arg(args, DAT_UINT64);
	const DAT_LMR_TRIPLET *iov = va_arg(args, DAT_LMR_TRIPLET *);
	const DAT_DTO_COOKIE cookie = va_arg(args, DAT_DTO_COOKIE);
	const DAT_RMR_TRIPLET *remote = va_arg(args, DAT_RMR_TRIPLET *);
	const DAT_COMPLETION_FLAGS flags = va_arg(args, DAT_COMPLETION_FLAGS);

	return ep_post_fetch_add(ep, add, iov, cookie, remote, flags);
}

static ALWAYS_INLINE DAT_RETURN cmp_swap(DAT_HANDLE ep, va_list args)
{
	const DAT_UINT64 compare = va_arg(args, DAT_UINT64);
	const DAT_UINT64 swap = va_arg(args, DAT_UINT64);
	const DAT_LMR_TRIPLET *iov = va_arg(args, DAT_LMR_TRIPLET *);
	const DAT_DTO_COOKIE cookie = va_arg(args, DAT_DTO_COOKIE);
	const DAT_RMR_TRIPLET *remote = va_arg(args, DAT_RMR_TRIPLET *);
	const DAT_COMPLETION_FLAGS flags = va_arg(args, DAT_COMPLETION_FLAGS);

	return ep_post_cmp_swap(ep, compare, swap, iov, cookie, remote, flags);
}

static ALWAYS_INLINE DAT_RETURN send_ud(DAT_HANDLE ep, va_list args)
{
	const DAT_COUNT nseg = va_arg(args, DAT_COUNT);
	const DAT_LMR_TRIPLET *iov = va_arg(args, DAT_LMR_TRIPLET *);
	const DAT_IB_ADDR_HANDLE *ah = va_arg(args, DAT_IB_ADDR_HANDLE *);
	const DAT_DTO_COOKIE cookie = va_arg(args, DAT_DTO_COOKIE);
	const DAT_COMPLETION_FLAGS flags = va_arg(args, DAT_COMPLETION_FLAGS);

	return ep_post_datagram(ep, nseg, iov, ah, cookie, flags);
}

/* The posts are on the data path. */
HOT DAT_RETURN extended_op(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list args)
{
	if (unlikely(!obj_readable(handle)))
		return other_operation(handle, op, args);
	switch ((int)op) {
	case DAT_IB_RDMA_WRITE_IMMED_OP:
		return write_immed(handle, args);
	case DAT_IB_FETCH_AND_ADD_OP:
		return fetch_add(handle, args);
	case DAT_IB_CMP_AND_SWAP_OP:
		return cmp_swap(handle, args);
	case DAT_IB_UD_SEND_OP:
		return send_ud(handle, args);
	default:
		return other_operation(handle, op, args);
	}
}
