/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Local memory regions: memory registered with the device, and the contexts that name it here and
 * at a peer.
 */
#include <errno.h>
#include <inttypes.h>
#include <sys/mman.h>

#include "base/refuse.h"
#include "memory.h"

/* ---- the range ---- */

static inline DAT_RETURN span_virtual(const struct ia *ia, DAT_REGION_DESCRIPTION region,
				      DAT_VLEN length, struct span *span)
{
	if (length == 0 || length > ia->attr->max_mr_size ||
	    length - 1 > UINTPTR_MAX - (uintptr_t)region.for_va)
		return BAD_ARG(4);
	span->address = region.for_va;
	span->length = length;
	return DAT_SUCCESS;
}

/*
 * The source LMR may be freed at any time, so its range is read under the lock that freeing it
 * takes. Afterwards the new region does not depend on it. The range is that in memory, however
 * either of the two is addressed.
 */
static NOINLINE DAT_RETURN span_of_lmr(struct ia *ia, DAT_REGION_DESCRIPTION region,
				       struct span *span)
{
	const struct lmr *source = region.for_lmr_handle;
	DAT_RETURN ret = BAD_STATE(LMR_FREE);

	spin_lock(&ia->lmr_lock);
	if (obj_valid(ia, region.for_lmr_handle, DAT_HANDLE_TYPE_LMR)) {
		span->address = (char *)(uintptr_t)(source->address + lmr_bias(source));
		span->length = source->length;
		ret = DAT_SUCCESS;
	}
	spin_unlock(&ia->lmr_lock);
	return ret;
}

static const struct mem_kind {
	bool has_source; /* its range is that of another LMR */
	/* may be registered with relaxed ordering on an IA opened RO_AWARE */
	bool may_relax;
	bool has_cookie;
} mem_kinds[] = {
	[DAT_MEM_TYPE_VIRTUAL] = { .may_relax = true },
	[DAT_MEM_TYPE_LMR] = { .has_source = true },
	[DAT_MEM_TYPE_SHARED_VIRTUAL] = { .has_cookie = true },
	[DAT_MEM_TYPE_SO_VIRTUAL] = { .may_relax = false },
};

static const struct mem_kind *mem_kind(DAT_MEM_TYPE type)
{
	return (size_t)type < sizeof(mem_kinds) / sizeof(mem_kinds[0]) ? &mem_kinds[type] : NULL;
}

/* ---- registration ---- */

/*
 * The device has one errno for many reasons; how the memory is mapped tells them apart. Source: our
 * choice.
 */
static COLD DAT_RETURN reg_refused(const struct span *span, DAT_MEM_PRIV_FLAGS priv, int err)
{
	const enum mapping mapping = mapping_of(span);

	if (mapping == MAPPING_HOLES)
		return BAD_ARG(3);
	if (mapping == MAPPING_READONLY && priv & DAT_MEM_PRIV_WRITE_FLAG)
		return DAT_ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE);
	switch (-err) {
	case EFAULT: /* mapped, but not memory that a device can access */
	case EINVAL:
		return BAD_ARG(3);
	case EPERM: /* RLIMIT_MEMLOCK is 0 */
		return NO_RESOURCE(MEMORY_REGION);
	default:
		return status_of(err, DAT_RESOURCE_MEMORY_REGION);
	}
}

/* Checks the arguments other than handles, and finds the range. */
static DAT_RETURN lmr_args(struct ia *ia, const struct mem_kind *kind,
			   DAT_REGION_DESCRIPTION region, DAT_VLEN length,
			   const DAT_LMR_HANDLE *lmr_out, struct span *span)
{
	if (kind &&
	    (!region.for_va || (kind->has_cookie && !region.for_shared_memory.shared_memory_id)))
		return BAD_ARG(3);
	if (!lmr_out)
		return BAD_ARG(ARG_OF_EDITION(7, 8));
	if (!kind)
		return BAD_ARG(2);
	return kind->has_source ? span_of_lmr(ia, region, span)
				: span_virtual(ia, region, length, span);
}

/*
 * Says whether the device has what the call asks of it. A program asks for atomic operations before
 * it looks at which extensions there are: so the privilege is refused only where there are none.
 */
static DAT_RETURN lmr_ask_device(const struct ia *ia, DAT_MEM_PRIV_FLAGS priv, bool zero_based)
{
	if (priv & TP_PRIV_ATOMIC && !(ia->attr->caps & (TP_CAP_ATOMIC | TP_CAP_IMMED)))
		return BAD_ARG(6);
	if (zero_based && !(ia->attr->caps & TP_CAP_ZERO_BASED))
		return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	return DAT_SUCCESS;
}

/* Returns the privileges of the region: that for atomic operations if the device has these. */
static DAT_MEM_PRIV_FLAGS lmr_privileges(const struct ia *ia, DAT_MEM_PRIV_FLAGS priv)
{
	unsigned known = DAT_MEM_PRIV_ALL_FLAG;

	if (ia->attr->caps & TP_CAP_ATOMIC)
		known |= TP_PRIV_ATOMIC;
	return (DAT_MEM_PRIV_FLAGS)(priv & known);
}

/* Writes what the call and a query tell of a region. Each output may be null. */
static void lmr_report(const struct lmr *lmr, DAT_LMR_CONTEXT *lmr_context,
		       DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_size,
		       DAT_VADDR *registered_address)
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

/* A query shows our copy of the cookie: the consumer's memory may be freed by then. */
static NOINLINE DAT_RETURN lmr_use_cookie(struct lmr *lmr, const struct span *span)
{
	DAT_SHARED_MEMORY *memory = &lmr->region.for_shared_memory;
	DAT_RETURN ret = cookie_get(memory->shared_memory_id, span, &lmr->cookie);

	if (ret == DAT_SUCCESS)
		memory->shared_memory_id = cookie_bytes(lmr->cookie);
	return ret;
}

_Static_assert(DAT_MEM_PRIV_REMOTE_READ_FLAG == DAT_MEM_PRIV_LOCAL_READ_FLAG << 1 &&
		       DAT_MEM_PRIV_REMOTE_WRITE_FLAG == DAT_MEM_PRIV_LOCAL_WRITE_FLAG << 1,
	       "what we may do ourselves, shifted by one, is what a window may let a peer do");

static unsigned window_never(DAT_MEM_PRIV_FLAGS priv)
{
	return ~(LOCAL_PRIVS | (priv & LOCAL_PRIVS) << 1);
}

#if DAT_EDITION == 2
/* Sets how the bytes of @span are addressed. */
static inline void lmr_set_range(struct lmr *lmr, const struct span *span, bool zero_based)
{
	lmr->bias = zero_based ? (uintptr_t)span->address : 0;
	lmr->address = (uintptr_t)span->address - lmr->bias;
}

static inline int lmr_reg(struct lmr *lmr, const struct span *span, unsigned flags)
{
	if (unlikely(lmr->bias))
		return tp_mr_reg_at(lmr->pz->pd, span->address, span->length, 0, lmr->priv, flags,
				    &lmr->mr, &lmr->info);
	return tp_mr_reg(lmr->pz->pd, span->address, span->length, lmr->priv, flags, &lmr->mr,
			 &lmr->info);
}
#else
static inline void lmr_set_range(struct lmr *lmr, const struct span *span, bool zero_based)
{
	(void)zero_based;
	lmr->address = (uintptr_t)span->address;
}

static inline int lmr_reg(struct lmr *lmr, const struct span *span, unsigned flags)
{
	return tp_mr_reg(lmr->pz->pd, span->address, span->length, lmr->priv, flags, &lmr->mr,
			 &lmr->info);
}
#endif

/* Registers the span with the device; @flags are TP_REG_*. */
static DAT_RETURN lmr_register(struct lmr *lmr, const struct span *span, unsigned flags)
{
	int err = lmr_reg(lmr, span, flags);

	if (err)
		return reg_refused(span, lmr->priv, err);
	if (!(lmr->priv & (REMOTE_PRIVS | TP_PRIV_ATOMIC)))
		lmr->info.rmr_context = 0; /* devices return one in any case */
	if (lmr->info.bindable && lmr->obj.ia->attr->max_mw)
		lmr->window_pz = lmr->pz;
	lmr->window_never = window_never(lmr->priv);
	return DAT_SUCCESS;
}

/* ---- the live LMRs by context ---- */

/* Not from the heap, where calloc writes to all of a table that was in use before. */
struct lmr **lmr_table_new(void)
{
	void *table = mmap(NULL, LMR_CHAINS * sizeof(struct lmr *), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return table != MAP_FAILED ? table : NULL;
}

void lmr_table_destroy(struct lmr **table)
{
	munmap(table, LMR_CHAINS * sizeof(struct lmr *));
}

/*
 * Devices put an index above the lowest 8 bits of a context, and count it up: neighbours share a
 * page of the table. Source: our choice.
 */
static struct lmr **chain_of(struct ia *ia, DAT_LMR_CONTEXT context)
{
	return &ia->lmrs[(context >> 8) % LMR_CHAINS];
}

static inline struct lmr *lmr_hold_unlock(struct ia *ia, DAT_LMR_CONTEXT context)
{
	struct lmr *lmr = *chain_of(ia, context);

	assert_locked(&ia->lmr_lock);
	while (lmr && lmr->info.lmr_context != context)
		lmr = lmr->next;
	if (likely(lmr))
		obj_get(&lmr->obj);
	spin_unlock(&ia->lmr_lock);
	return lmr;
}

struct lmr *lmr_hold(struct ia *ia, DAT_LMR_CONTEXT context)
{
	spin_lock(&ia->lmr_lock);
	return lmr_hold_unlock(ia, context);
}

struct lmr *lmr_try_hold(struct ia *ia, DAT_LMR_CONTEXT context)
{
	return likely(spin_trylock(&ia->lmr_lock)) ? lmr_hold_unlock(ia, context) : NULL;
}

static DAT_HANDLE lmr_publish(struct lmr *lmr)
{
	struct ia *ia = lmr->obj.ia;
	struct lmr **chain = chain_of(ia, lmr->info.lmr_context);

	obj_publish(&lmr->obj);
	spin_lock(&ia->lmr_lock);
	lmr->next = *chain;
	*chain = lmr;
	spin_unlock(&ia->lmr_lock);
	return lmr;
}

static void lmr_unchain_locked(struct ia *ia, struct lmr *lmr)
{
	struct lmr **at = chain_of(ia, lmr->info.lmr_context);

	assert_locked(&ia->lmr_lock);
	while (*at != lmr)
		at = &(*at)->next;
	*at = lmr->next;
}

/*
 * Retires @lmr, unless it is held, and returns whether it did. It leaves its chain under the same
 * lock, so that an LMR that is found by its context can be held without a check.
 */
static bool lmr_retire(struct ia *ia, struct lmr *lmr)
{
	bool idle;

	spin_lock(&ia->lmr_lock);
	idle = obj_retire(&lmr->obj);
	if (idle)
		lmr_unchain_locked(ia, lmr);
	spin_unlock(&ia->lmr_lock);
	return idle;
}

/* ---- the calls ---- */

static COLD DAT_RETURN region_refused(DAT_RETURN ret, const void *ia, unsigned type,
				      DAT_VLEN length, const void *pz, unsigned priv)
{
	return refused(ret, LOG_UTIL, "dat_lmr_create",
		       "ia %p, mem_type %#x, length %" PRIu64 ", pz %p, mem_privileges %#x", ia,
		       type, (uint64_t)length, pz, priv);
}

/* region_refused, of a region that has what the call was given. */
static COLD DAT_RETURN registration_refused(DAT_RETURN ret, const struct lmr *lmr)
{
	return region_refused(ret, lmr->obj.ia, lmr->type, lmr->length, lmr->pz, lmr->priv);
}

static COLD DAT_RETURN region_free_refused(DAT_RETURN ret, const void *lmr)
{
	return refused(ret, LOG_UTIL, "dat_lmr_free", "lmr %p", lmr);
}

/* dat_lmr_create of either edition. */
static ALWAYS_INLINE DAT_RETURN
region_create(DAT_IA_HANDLE ia_handle, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region,
	      DAT_VLEN length, DAT_PZ_HANDLE pz_handle, DAT_MEM_PRIV_FLAGS priv, bool zero_based,
	      DAT_LMR_HANDLE *lmr_out, DAT_LMR_CONTEXT *lmr_context, DAT_RMR_CONTEXT *rmr_context,
	      DAT_VLEN *registered_size, DAT_VADDR *registered_address)
{
	const struct mem_kind *kind = mem_kind(type);
	struct ia *ia = ia_handle;
	struct pz *pz = pz_handle;
	unsigned flags = TP_REG_WINDOWS;
	struct span span;
	struct lmr *lmr;
	DAT_RETURN ret;

	if (!obj_valid(NULL, ia_handle, DAT_HANDLE_TYPE_IA))
		return region_refused(BAD_HANDLE(IA), ia, type, length, pz, priv);
	if (type == DAT_MEM_TYPE_LMR && !obj_valid(ia, region.for_lmr_handle, DAT_HANDLE_TYPE_LMR))
		return region_refused(BAD_HANDLE(LMR), ia, type, length, pz, priv);
	if (!obj_hold(ia, pz_handle, DAT_HANDLE_TYPE_PZ))
		return region_refused(BAD_HANDLE(PZ), ia, type, length, pz, priv);
	ret = lmr_args(ia, kind, region, length, lmr_out, &span);
	if (ret == DAT_SUCCESS)
		ret = lmr_ask_device(ia, priv, zero_based);
	if (ret != DAT_SUCCESS) {
		(void)region_refused(ret, ia, type, length, pz, priv);
		goto put_pz;
	}
	lmr = obj_alloc(ia, ia->obj.table, DAT_HANDLE_TYPE_LMR);
	if (!lmr) {
		ret = region_refused(NO_RESOURCE(MEMORY), ia, type, length, pz, priv);
		goto put_pz;
	}
	lmr->pz = pz;
	lmr->type = type;
	lmr->region = region;
	lmr_set_range(lmr, &span, zero_based);
	lmr->last = lmr->address + span.length - 1;
	lmr->length = span.length;
	lmr->priv = lmr_privileges(ia, priv);
	if (kind->has_cookie)
		ret = lmr_use_cookie(lmr, &span);
	if (ret != DAT_SUCCESS)
		goto free_lmr;
	if (unlikely(ia->ro_aware) && kind->may_relax && !(priv & DAT_MEM_PRIV_RO_DISABLE_FLAG))
		flags |= TP_REG_RELAXED;
	ret = lmr_register(lmr, &span, flags);
	if (ret != DAT_SUCCESS)
		goto put_cookie;
	lmr_report(lmr, lmr_context, rmr_context, registered_size, registered_address);
	counter_add_fast(&ia->counters[IA_LMR_CREATE], 1);
	*lmr_out = lmr_publish(lmr);
	return DAT_SUCCESS;
put_cookie:
	if (lmr->cookie)
		cookie_put(lmr->cookie);
free_lmr:
	(void)registration_refused(ret, lmr);
	obj_free_as(&lmr->obj, DAT_HANDLE_TYPE_LMR);
put_pz:
	obj_put(&pz->obj);
	return ret;
}

#if DAT_EDITION == 2
HOT DAT_RETURN lmr_create(DAT_IA_HANDLE ia, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region,
			  DAT_VLEN length, DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS priv,
			  DAT_VA_TYPE va_type, DAT_LMR_HANDLE *lmr, DAT_LMR_CONTEXT *lmr_context,
			  DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_size,
			  DAT_VADDR *registered_address)
{
	CANCEL_FORBIDDEN;

	if (unlikely(va_type != DAT_VA_TYPE_VA && va_type != DAT_VA_TYPE_ZB))
		return region_refused(BAD_ARG(7), ia, type, length, pz, priv);
	return region_create(ia, type, region, length, pz, priv, va_type == DAT_VA_TYPE_ZB, lmr,
			     lmr_context, rmr_context, registered_size, registered_address);
}
#else
HOT DAT_RETURN lmr_create(DAT_IA_HANDLE ia, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region,
			  DAT_VLEN length, DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS priv,
			  DAT_LMR_HANDLE *lmr, DAT_LMR_CONTEXT *lmr_context,
			  DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_size,
			  DAT_VADDR *registered_address)
{
	CANCEL_FORBIDDEN;

	return region_create(ia, type, region, length, pz, priv, false, lmr, lmr_context,
			     rmr_context, registered_size, registered_address);
}
#endif

static void lmr_release(struct lmr *lmr)
{
	counter_add_fast(&lmr->obj.ia->counters[IA_LMR_FREE], 1);
	if (lmr->cookie)
		cookie_put(lmr->cookie);
	obj_put(&lmr->pz->obj);
	obj_free_as(&lmr->obj, DAT_HANDLE_TYPE_LMR);
}

/*
 * Soft-RoCE says EINVAL while a window is bound to the region, as by a bind that was executed and
 * flushed.
 */
static COLD DAT_RETURN dereg_status(int err)
{
	return err == -EBUSY || err == -EINVAL ? BAD_STATE(LMR_IN_USE)
					       : status_of(err, DAT_RESOURCE_MEMORY_REGION);
}

HOT DAT_RETURN lmr_free(DAT_LMR_HANDLE handle)
{
	CANCEL_FORBIDDEN;
	struct lmr *lmr = handle;
	struct ia *ia;
	int err;

	if (!obj_valid(NULL, handle, DAT_HANDLE_TYPE_LMR))
		return region_free_refused(BAD_HANDLE(LMR), handle);
	ia = lmr->obj.ia;
	release_run(ia);
	if (!lmr_retire(ia, lmr))
		return region_free_refused(BAD_STATE(LMR_IN_USE), lmr);
	err = tp_mr_dereg(lmr->mr);
	if (unlikely(err)) {
		lmr_publish(lmr); /* the device still has it, so it still exists */
		return refused(dereg_status(err), LOG_UTIL, "dat_lmr_free",
			       "lmr %p, the device says: %s", (void *)lmr, strerror(-err));
	}
	lmr_release(lmr);
	return DAT_SUCCESS;
}

void lmr_destroy(struct lmr *lmr)
{
	struct ia *ia = lmr->obj.ia;

	release_run_final(ia); /* afterwards nothing holds it */
	spin_lock(&ia->lmr_lock);
	lmr_unchain_locked(ia, lmr);
	spin_unlock(&ia->lmr_lock);
	(void)tp_mr_dereg(lmr->mr); /* if it fails: closing the device frees it */
	lmr_release(lmr);
}

DAT_RETURN lmr_query(DAT_LMR_HANDLE handle, DAT_LMR_PARAM_MASK mask, DAT_LMR_PARAM *param)
{
	CANCEL_FORBIDDEN;
	struct lmr *lmr = handle;

	(void)mask; /* all members are filled in */
	if (!obj_valid(NULL, handle, DAT_HANDLE_TYPE_LMR))
		return BAD_HANDLE(LMR);
	if (!param)
		return BAD_ARG(3);
	param->ia_handle = attr_ia_handle(lmr->obj.ia);
	param->mem_type = lmr->type;
	param->region_desc = lmr->region;
	param->length = lmr->length;
	param->pz_handle = lmr->pz;
	param->mem_priv = lmr->priv;
#if DAT_EDITION == 2
	param->va_type = lmr->bias ? DAT_VA_TYPE_ZB : DAT_VA_TYPE_VA;
#endif
	lmr_report(lmr, &param->lmr_context, &param->rmr_context, &param->registered_size,
		   &param->registered_address);
	return DAT_SUCCESS;
}

static bool is_registered(struct ia *ia, const DAT_LMR_TRIPLET *segment)
{
	struct lmr *lmr;
	bool covered;

	if (segment->segment_length == 0)
		return true;
	lmr = lmr_hold(ia, segment->lmr_context);
	if (!lmr)
		return false;
	covered = lmr_covers(lmr, segment);
	obj_put(&lmr->obj);
	return covered;
}

/*
 * DMA is cache-coherent on the machines that we support, so nothing has to be written back or
 * invalidated. What remains is order: between the consumer's loads and stores of the range, and the
 * post that notifies the peer or the poll that was notified by it. A full fence orders them, in
 * both directions.
 */
static DAT_RETURN lmr_sync(DAT_IA_HANDLE handle, const DAT_LMR_TRIPLET *segments, DAT_VLEN nseg)
{
	struct ia *ia = handle;
	DAT_VLEN i = 0;

	if (!obj_valid(NULL, handle, DAT_HANDLE_TYPE_IA))
		return BAD_HANDLE(IA);
	if (!segments && nseg > 0)
		return BAD_ARG(2);
	while (i < nseg && is_registered(ia, &segments[i]))
		i++;
	if (i < nseg)
		return BAD_ARG(2);
	__sync_synchronize();
	return DAT_SUCCESS;
}

DAT_RETURN lmr_sync_rdma_read(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *segments, DAT_VLEN nseg)
{
	CANCEL_FORBIDDEN;
	return lmr_sync(ia, segments, nseg);
}

DAT_RETURN lmr_sync_rdma_write(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *segments, DAT_VLEN nseg)
{
	CANCEL_FORBIDDEN;
	return lmr_sync(ia, segments, nseg);
}
