/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection zones: memory and the endpoints that may use it. */
#include "memory.h"

DAT_RETURN pz_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE *pz_out)
{
	CANCEL_FORBIDDEN;
	struct ia *ia = ia_handle;
	struct pz *pz;
	int err;

	if (!obj_valid(NULL, ia_handle, DAT_HANDLE_TYPE_IA))
		return BAD_HANDLE(IA);
	if (!pz_out)
		return BAD_ARG(2);
	pz = obj_alloc(ia, ia->obj.table, DAT_HANDLE_TYPE_PZ);
	if (!pz)
		return NO_RESOURCE(MEMORY);
	err = tp_pd_create(ia->dev, &pz->pd);
	if (err)
		goto free_pz;
	ia_counts(ia, IA_PZ_CREATE);
	*pz_out = obj_publish(&pz->obj);
	return DAT_SUCCESS;

free_pz:
	obj_free(&pz->obj);
	return status_of_made(err, DAT_RESOURCE_PROTECTION_DOMAIN);
}

DAT_RETURN pz_free(DAT_PZ_HANDLE handle)
{
	CANCEL_FORBIDDEN;
	struct pz *pz = handle;

	if (!obj_valid(NULL, handle, DAT_HANDLE_TYPE_PZ))
		return BAD_HANDLE(PZ);
	if (!obj_retire(&pz->obj))
		return BAD_STATE(PZ_IN_USE);
	pz_destroy(pz);
	return DAT_SUCCESS;
}

void pz_destroy(struct pz *pz)
{
	tp_pd_destroy(pz->pd);
	ia_counts(pz->obj.ia, IA_PZ_FREE);
	obj_free(&pz->obj);
}

DAT_RETURN pz_query(DAT_PZ_HANDLE handle, DAT_PZ_PARAM_MASK mask, DAT_PZ_PARAM *param)
{
	CANCEL_FORBIDDEN;
	struct pz *pz = handle;

	(void)mask; /* all members are filled in */
	if (!obj_valid(NULL, handle, DAT_HANDLE_TYPE_PZ))
		return BAD_HANDLE(PZ);
	if (!param)
		return BAD_ARG(3);
	param->ia_handle = attr_ia_handle(pz->obj.ia);
	return DAT_SUCCESS;
}
