/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls whose parameters DAT 2.0 changed, as DAT 1.2 has them. */
#include "api.h"

/* Asks the registry of DAT 2.0, if this process has it. */
static DAT_RETURN handle_ask_other(unsigned long handle, DAT_IA_HANDLE *ia)
{
	NO_CANCELLATION;
	DAT_RETURN (*ask)(unsigned long handle, DAT_IA_HANDLE *ia);

	provider_call_begin();
	ask = (DAT_RETURN(*)(unsigned long, DAT_IA_HANDLE *))other_registry_find(
		"dats_get_ia_handle", OTHER_NODE);
	provider_call_end();
	return ask ? ask(handle, ia) : BAD_HANDLE(_IA);
}

/*
 * Either handle of an IA leads to the provider's. A provider of DAT 2.0 that is linked with no
 * registry may call this function, and expects the answer of its own registry.
 */
DAT_RETURN dats_get_ia_handle(unsigned long handle, DAT_IA_HANDLE *ia)
{
	DAT_IA_HANDLE found = ia_to_provider((DAT_IA_HANDLE)handle);

	if (!found && handle >= IA_HANDLES)
		return handle_ask_other(handle, ia);
	if (!found)
		return BAD_HANDLE(_IA);
	*ia = found;
	return DAT_SUCCESS;
}

NO_JUMP
DAT_RETURN dat_lmr_create(DAT_IA_HANDLE handle, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region,
			  DAT_VLEN length, DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS privileges,
			  DAT_LMR_HANDLE *lmr, DAT_LMR_CONTEXT *lmr_context,
			  DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_size,
			  DAT_VADDR *registered_address)
{
	DAT_IA_HANDLE ia = ia_to_provider(handle);

	if (!ia)
		return api_refused(BAD_HANDLE(_IA), "dat_lmr_create", handle);
	return DAT_LMR_CREATE(ia, type, region, length, pz, privileges, lmr, lmr_context,
			      rmr_context, registered_size, registered_address);
}

DAT_RETURN dat_rmr_bind(DAT_RMR_HANDLE rmr, const DAT_LMR_TRIPLET *lmr_triplet,
			DAT_MEM_PRIV_FLAGS privileges, DAT_EP_HANDLE ep, DAT_RMR_COOKIE cookie,
			DAT_COMPLETION_FLAGS flags, DAT_RMR_CONTEXT *context)
{
	if (unlikely(!is_object(rmr)))
		return api_refused(BAD_HANDLE(_RMR), "dat_rmr_bind", rmr);
	return DAT_RMR_BIND(rmr, lmr_triplet, privileges, ep, cookie, flags, context);
}

DAT_RETURN dat_cr_reject(DAT_CR_HANDLE cr)
{
	if (!is_object(cr))
		return api_refused(BAD_HANDLE(_CR), "dat_cr_reject", cr);
	return DAT_CR_REJECT(cr);
}
