/* SPDX-License-Identifier: BSD-2-Clause */
/* Local memory regions: memory registered with the device, and the contexts that name it here and at a peer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "udapl.h"

#define REMOTE_PRIVS (DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG)

/* The bytes to be registered. */
struct span {
	char *address;
	size_t length;
};

static DAT_RETURN span_virtual(const struct ia *ia, DAT_REGION_DESCRIPTION region, DAT_VLEN length, struct span *span)
{
	if (length == 0 || length > ia->attr->max_mr_size || length - 1 > UINTPTR_MAX - (uintptr_t)region.for_va)
		return BAD_ARG(4);
	span->address = region.for_va;
	span->length = length;
	return DAT_SUCCESS;
}

static const struct mem_kind {
	DAT_RETURN (*span_get)(const struct ia *ia, DAT_REGION_DESCRIPTION region, DAT_VLEN length, struct span *span);
	bool may_relax; /* bytes may land in any order, where the consumer has said that it can live with that */
} mem_kinds[] = {
	[DAT_MEM_TYPE_VIRTUAL] = { span_virtual, true },
	[DAT_MEM_TYPE_LMR] = { NULL, false },		 /* to come */
	[DAT_MEM_TYPE_SHARED_VIRTUAL] = { NULL, false }, /* to come */
	[DAT_MEM_TYPE_SO_VIRTUAL] = { span_virtual, false },
};

static const struct mem_kind *mem_kind(DAT_MEM_TYPE type)
{
	return (size_t)type < sizeof(mem_kinds) / sizeof(mem_kinds[0]) ? &mem_kinds[type] : NULL;
}

/* What the system says of a range of addresses. */
enum mapping {
	MAPPING_UNKNOWN,
	MAPPING_HOLES,	  /* not all of it can be read */
	MAPPING_READONLY, /* not all of it can be written */
	MAPPING_WRITABLE,
};

/* The areas are listed in ascending order. */
static enum mapping mapping_of(const struct span *span)
{
	const uintptr_t last = (uintptr_t)span->address + span->length - 1;
	uintptr_t next = (uintptr_t)span->address; /* all below is readable */
	enum mapping mapping = MAPPING_WRITABLE;
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, end;
	char *line = NULL, may_read, may_write;
	size_t size = 0;
	bool covered = false;

	if (!maps)
		return MAPPING_UNKNOWN;
	while (!covered && getline(&line, &size, maps) > 0) {
		if (sscanf(line, "%lx-%lx %c%c", &start, &end, &may_read, &may_write) != 4 || end <= next)
			continue;
		if (start > next || may_read != 'r')
			break;
		if (may_write != 'w')
			mapping = MAPPING_READONLY;
		next = end;
		covered = end > last;
	}
	free(line);
	fclose(maps);
	return covered ? mapping : MAPPING_HOLES;
}

/* The device has one errno for many reasons; the memory itself tells more. Source: our choice. */
static DAT_RETURN reg_refused(const struct span *span, DAT_MEM_PRIV_FLAGS priv, int err)
{
	const enum mapping mapping = mapping_of(span);

	if (mapping == MAPPING_HOLES)
		return BAD_ARG(3);
	if (mapping == MAPPING_READONLY && priv & DAT_MEM_PRIV_WRITE_FLAG)
		return DAT_ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE);
	switch (-err) {
	case EFAULT: /* mapped, but nothing that a device can reach */
	case EINVAL:
		return BAD_ARG(3);
	case EPERM: /* no memory may be locked at all */
		return NO_RESOURCE(MEMORY_REGION);
	default:
		return status_of(err, DAT_RESOURCE_MEMORY_REGION);
	}
}

/* What can be wrong with the arguments beside the handles; else the bytes in question. */
static DAT_RETURN lmr_args(const struct ia *ia, const struct mem_kind *kind, DAT_REGION_DESCRIPTION region,
			   DAT_VLEN length, DAT_MEM_PRIV_FLAGS priv, const DAT_LMR_HANDLE *lmr_out, struct span *span)
{
	DAT_RETURN ret;

	if (kind && kind->span_get && !region.for_va)
		return BAD_ARG(3);
	if (!lmr_out)
		return BAD_ARG(7);
	if (!kind)
		return BAD_ARG(2);
	if (!kind->span_get)
		return DAT_NOT_IMPLEMENTED;
	ret = kind->span_get(ia, region, length, span);
	if (ret != DAT_SUCCESS)
		return ret;
	if (priv & ~(unsigned)DAT_MEM_PRIV_ALL_FLAG)
		return BAD_ARG(6);
	return DAT_SUCCESS;
}

/* All of these may be null. */
static void lmr_report(const struct lmr *lmr, DAT_LMR_CONTEXT *lmr_context, DAT_RMR_CONTEXT *rmr_context,
		       DAT_VLEN *registered_size, DAT_VADDR *registered_address)
{
	if (lmr_context)
		*lmr_context = lmr->info.lmr_context;
	if (rmr_context)
		*rmr_context = lmr->info.rmr_context;
	if (registered_size)
		*registered_size = lmr->info.size;
	if (registered_address)
		*registered_address = lmr->info.address;
}

static DAT_RETURN lmr_register(struct lmr *lmr, const struct span *span, bool relaxed)
{
	int err = tp_mr_reg(lmr->pz->pd, span->address, span->length, lmr->priv, relaxed, &lmr->mr, &lmr->info);

	if (err)
		return reg_refused(span, lmr->priv, err);
	if (!(lmr->priv & REMOTE_PRIVS))
		lmr->info.rmr_context = 0; /* devices make one all the same */
	return DAT_SUCCESS;
}

/* ---- the live ones by context ----------------------------------------------------------------------------------- */

/* Devices put an index into the upper bits of a context: the product spreads those. Source: our choice. */
static struct lmr **chain_of(struct ia *ia, DAT_LMR_CONTEXT context)
{
	return &ia->lmrs[(context * UINT32_C(0x9e3779b1)) >> (32 - __builtin_ctz(LMR_CHAINS))];
}

struct lmr *lmr_find(struct ia *ia, DAT_LMR_CONTEXT context, DAT_VADDR address, DAT_VLEN length)
{
	struct lmr *lmr = *chain_of(ia, context);

	while (lmr && lmr->info.lmr_context != context)
		lmr = lmr->next;
	if (!lmr || address < lmr->address || length > lmr->length || address - lmr->address > lmr->length - length)
		return NULL;
	return lmr;
}

static DAT_HANDLE lmr_publish(struct lmr *lmr)
{
	struct ia *ia = lmr->obj.ia;
	struct lmr **chain = chain_of(ia, lmr->info.lmr_context);
	DAT_HANDLE handle;

	pthread_mutex_lock(&ia->lock);
	lmr->next = *chain;
	*chain = lmr;
	handle = obj_publish(&lmr->obj);
	pthread_mutex_unlock(&ia->lock);
	return handle;
}

static void unchain(struct lmr *lmr)
{
	struct lmr **at = chain_of(lmr->obj.ia, lmr->info.lmr_context);

	while (*at != lmr)
		at = &(*at)->next;
	*at = lmr->next;
}

static bool lmr_retire(struct lmr *lmr)
{
	struct ia *ia = lmr->obj.ia;
	bool idle;

	pthread_mutex_lock(&ia->lock);
	idle = obj_retire(&lmr->obj);
	if (idle)
		unchain(lmr);
	pthread_mutex_unlock(&ia->lock);
	return idle;
}

/* ---- the calls -------------------------------------------------------------------------------------------------- */

DAT_RETURN lmr_create(DAT_IA_HANDLE ia_handle, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region, DAT_VLEN length,
		      DAT_PZ_HANDLE pz_handle, DAT_MEM_PRIV_FLAGS priv, DAT_LMR_HANDLE *lmr_out,
		      DAT_LMR_CONTEXT *lmr_context, DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_size,
		      DAT_VADDR *registered_address)
{
	const struct mem_kind *kind = mem_kind(type);
	struct ia *ia = ia_handle;
	struct pz *pz = pz_handle;
	struct span span;
	struct lmr *lmr;
	DAT_RETURN ret;

	if (!obj_valid(NULL, ia_handle, DAT_HANDLE_TYPE_IA))
		return BAD_HANDLE(IA);
	if (!obj_hold(ia, pz_handle, DAT_HANDLE_TYPE_PZ))
		return BAD_HANDLE(PZ);
	ret = lmr_args(ia, kind, region, length, priv, lmr_out, &span);
	if (ret != DAT_SUCCESS)
		goto put_pz;
	lmr = obj_alloc(ia, ia->obj.provider, DAT_HANDLE_TYPE_LMR);
	if (!lmr) {
		ret = NO_RESOURCE(MEMORY);
		goto put_pz;
	}
	lmr->pz = pz;
	lmr->type = type;
	lmr->region = region;
	lmr->address = (uintptr_t)span.address;
	lmr->length = span.length;
	lmr->priv = priv;
	ret = lmr_register(lmr, &span, kind->may_relax && ia->ro_aware);
	if (ret != DAT_SUCCESS)
		goto discard_lmr;
	lmr_report(lmr, lmr_context, rmr_context, registered_size, registered_address);
	*lmr_out = lmr_publish(lmr);
	return DAT_SUCCESS;
discard_lmr:
	obj_discard(&lmr->obj);
put_pz:
	obj_put(&pz->obj);
	return ret;
}

static void lmr_release(struct lmr *lmr)
{
	obj_put(&lmr->pz->obj);
	obj_discard(&lmr->obj);
}

DAT_RETURN lmr_free(DAT_LMR_HANDLE handle)
{
	struct lmr *lmr = handle;
	DAT_RETURN ret;

	if (!obj_valid(NULL, handle, DAT_HANDLE_TYPE_LMR))
		return BAD_HANDLE(LMR);
	if (!lmr_retire(lmr))
		return BAD_STATE(LMR_IN_USE);
	ret = status_of(tp_mr_dereg(lmr->mr), DAT_RESOURCE_MEMORY_REGION);
	if (ret != DAT_SUCCESS) {
		lmr_publish(lmr); /* still registered, so still the consumer's */
		return ret;
	}
	lmr_release(lmr);
	return DAT_SUCCESS;
}

/* Retired already. */
void lmr_unmake(struct lmr *lmr)
{
	struct ia *ia = lmr->obj.ia;

	pthread_mutex_lock(&ia->lock);
	unchain(lmr);
	pthread_mutex_unlock(&ia->lock);
	(void)tp_mr_dereg(lmr->mr); /* what the device keeps goes when it is closed */
	lmr_release(lmr);
}

DAT_RETURN lmr_query(DAT_LMR_HANDLE handle, DAT_LMR_PARAM_MASK mask, DAT_LMR_PARAM *param)
{
	struct lmr *lmr = handle;

	if (!obj_valid(NULL, handle, DAT_HANDLE_TYPE_LMR))
		return BAD_HANDLE(LMR);
	if (!param)
		return BAD_ARG(3);
	if (mask & ~(unsigned)DAT_LMR_FIELD_ALL)
		return BAD_ARG(2);
	param->ia_handle = lmr->obj.ia;
	param->mem_type = lmr->type;
	param->region_desc = lmr->region;
	param->length = lmr->length;
	param->pz_handle = lmr->pz;
	param->mem_priv = lmr->priv;
	lmr_report(lmr, &param->lmr_context, &param->rmr_context, &param->registered_size, &param->registered_address);
	return DAT_SUCCESS;
}
