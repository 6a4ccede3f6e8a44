/* SPDX-License-Identifier: BSD-2-Clause */
/* An adapter and one of each object that others need, all of which belong to that adapter. */
#include "dapltest.h"

#include <stdlib.h>

enum {
	EVD_QLEN = 16,
};

int foundation_create(struct foundation *base, const struct origin *origin, char *name)
{
	DAT_IA_HANDLE ia;

	if (adapter_open(&base->adapter, name) < 0)
		return -1;
	ia = base->adapter.ia;
	if (TRY(origin, dat_pz_create, ia, &base->pz) < 0)
		goto close_adapter;
	if (TRY(origin, dat_evd_create, ia, EVD_QLEN, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG,
		&base->dto_evd) < 0)
		goto free_pz;
	if (TRY(origin, dat_evd_create, ia, EVD_QLEN, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG,
		&base->connect_evd) < 0)
		goto free_dto_evd;
	if (TRY(origin, dat_evd_create, ia, EVD_QLEN, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG,
		&base->cr_evd) < 0)
		goto free_connect_evd;
	base->buffer = calloc(1, FOUNDATION_BUFFER);
	if (!base->buffer) {
		complain(DAPLTEST ": no memory");
		goto free_cr_evd;
	}
	return 0;
free_cr_evd:
	(void)TRY(origin, dat_evd_free, base->cr_evd);
free_connect_evd:
	(void)TRY(origin, dat_evd_free, base->connect_evd);
free_dto_evd:
	(void)TRY(origin, dat_evd_free, base->dto_evd);
free_pz:
	(void)TRY(origin, dat_pz_free, base->pz);
close_adapter:
	(void)adapter_close(&base->adapter);
	return -1;
}

int foundation_free(struct foundation *base, const struct origin *origin)
{
	const DAT_EVD_HANDLE evds[] = { base->cr_evd, base->connect_evd, base->dto_evd };
	int result = 0;

	free(base->buffer);
	for (size_t i = 0; i < sizeof(evds) / sizeof(evds[0]); i++)
		if (TRY(origin, dat_evd_free, evds[i]) < 0)
			result = -1;
	if (TRY(origin, dat_pz_free, base->pz) < 0)
		result = -1;
	if (adapter_close(&base->adapter) < 0)
		result = -1;
	return result;
}

void foundation_forget(struct foundation *base)
{
	free(base->buffer);
}

DAT_RETURN foundation_make_ep(struct foundation *base, DAT_EP_HANDLE *ep)
{
	return dat_ep_create(base->adapter.ia, base->pz, base->dto_evd, base->dto_evd,
			     base->connect_evd, NULL, ep);
}

DAT_RETURN foundation_register(struct foundation *base, void *at, size_t size, DAT_LMR_HANDLE *lmr)
{
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;

	return tool_lmr_create(base->adapter.ia, at, size, base->pz, DAT_MEM_PRIV_ALL_FLAG, lmr,
			       &lmr_context, &rmr_context);
}
