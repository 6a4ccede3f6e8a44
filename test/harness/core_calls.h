/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of the core that have other parameters in DAT 2.0, with those that both editions have:
 * for tests of what the editions have in common.
 */
#ifndef TEST_CORE_CALLS_H
#define TEST_CORE_CALLS_H

#include "../../udapl/entry/entry.h"
#include "editions.h"

/* dat_lmr_create of a region whose addresses are those of the memory. */
static inline DAT_RETURN lmr_create_va(DAT_IA_HANDLE ia, DAT_MEM_TYPE type,
				       DAT_REGION_DESCRIPTION region, DAT_VLEN length,
				       DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS priv,
				       DAT_LMR_HANDLE *lmr, DAT_LMR_CONTEXT *lmr_context,
				       DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *size,
				       DAT_VADDR *address)
{
#if DAT_EDITION == 2
	return lmr_create(ia, type, region, length, pz, priv, DAT_VA_TYPE_VA, lmr, lmr_context,
			  rmr_context, size, address);
#else
	return lmr_create(ia, type, region, length, pz, priv, lmr, lmr_context, rmr_context, size,
			  address);
#endif
}

#if DAT_EDITION == 2
/* Returns the LMR of the triplet's context, or DAT_HANDLE_NULL. */
static inline DAT_LMR_HANDLE lmr_of_triplet(DAT_RMR_HANDLE rmr, const DAT_LMR_TRIPLET *triplet)
{
	struct lmr *lmr;

	if (!triplet || !obj_valid(NULL, rmr, DAT_HANDLE_TYPE_RMR))
		return DAT_HANDLE_NULL;
	lmr = lmr_hold(((struct rmr *)rmr)->obj.ia, triplet->lmr_context);
	if (lmr)
		obj_put(&lmr->obj);
	return lmr;
}
#endif

/* dat_rmr_bind to a range of the LMR that the context of the triplet names. */
static inline DAT_RETURN rmr_bind_va(DAT_RMR_HANDLE rmr, const DAT_LMR_TRIPLET *triplet,
				     DAT_MEM_PRIV_FLAGS priv, DAT_EP_HANDLE ep,
				     DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags,
				     DAT_RMR_CONTEXT *context)
{
#if DAT_EDITION == 2
	return rmr_bind(rmr, lmr_of_triplet(rmr, triplet), triplet, priv, DAT_VA_TYPE_VA, ep,
			cookie, flags, context);
#else
	return rmr_bind(rmr, triplet, priv, ep, cookie, flags, context);
#endif
}

/* dat_cr_reject without private data. */
static inline DAT_RETURN cr_reject_bare(DAT_CR_HANDLE cr)
{
#if DAT_EDITION == 2
	return cr_reject(cr, 0, NULL);
#else
	return cr_reject(cr);
#endif
}

#endif
