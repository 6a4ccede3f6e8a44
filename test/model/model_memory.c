/* SPDX-License-Identifier: BSD-2-Clause */
/* The model of protection zones, regions, windows and shared receive queues. */
#include <string.h>

#include "model.h"

/* ---- zones ---- */

static void pz_create_op(struct world *w, const struct call *c)
{
	struct object *pz = object_slot(w, DAT_HANDLE_TYPE_PZ), *ia;
	bool no_out = rarely(c->arg[1], 16);
	DAT_IA_HANDLE ia_handle;
	DAT_PZ_HANDLE handle;
	DAT_RETURN want = DAT_SUCCESS;

	if (!pz)
		return;
	ia = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_IA, &ia_handle);
	CHECK(want, !ia, BAD_HANDLE(IA));
	CHECK(want, no_out, BAD_ARG(2));
	if (returned(w, dat_pz_create(ia_handle, no_out ? NULL : &handle), want))
		object_born(pz, handle, ia);
}

static void pz_query_op(struct world *w, const struct call *c)
{
	bool no_out = rarely(c->arg[1], 16);
	DAT_PZ_HANDLE handle;
	struct object *pz = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_PZ, &handle);
	DAT_RETURN want = DAT_SUCCESS;
	DAT_PZ_PARAM param;

	CHECK(want, !pz, BAD_HANDLE(PZ));
	CHECK(want, no_out, BAD_ARG(3));
	if (returned(w, dat_pz_query(handle, DAT_PZ_FIELD_ALL, no_out ? NULL : &param), want))
		holds(w, param.ia_handle == pz->ia->handle, "the IA is %p", param.ia_handle);
}

static void pz_free_op(struct world *w, const struct call *c)
{
	DAT_PZ_HANDLE handle;
	struct object *pz = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_PZ, &handle);
	DAT_RETURN want = DAT_SUCCESS;

	CHECK(want, !pz, BAD_HANDLE(PZ));
	CHECK(want, pz->uses, BAD_STATE(PZ_IN_USE));
	if (returned(w, dat_pz_free(handle), want))
		object_dies(pz);
}

/* ---- regions ---- */

/*
 * All regions are of the world's whole arena; they differ in zone, type and privileges. Unknown
 * privileges are ignored.
 */
static void lmr_create_op(struct world *w, const struct call *c)
{
	static const unsigned privs[] = { 0x33, 0x33, 0x11, 0x01, 0x03, 0x31, 0x233 };
	static const unsigned types[] = { DAT_MEM_TYPE_VIRTUAL, DAT_MEM_TYPE_VIRTUAL,
					  DAT_MEM_TYPE_LMR, 0x77 };
	DAT_MEM_PRIV_FLAGS priv = (DAT_MEM_PRIV_FLAGS)privs[c->arg[1] % COUNT(privs)];
	DAT_MEM_TYPE type = (DAT_MEM_TYPE)types[c->arg[2] % 64 == 63 ? 3 : c->arg[2] % 3];
	struct object *lmr = object_slot(w, DAT_HANDLE_TYPE_LMR), *ia, *pz, *source = NULL;
	bool no_out = rarely(c->arg[3], 32), no_va = rarely(c->arg[4], 32);
	DAT_VLEN length = rarely(c->arg[5], 32) ? 0 : arena_size(), size;
	DAT_REGION_DESCRIPTION region = { .for_va = no_va ? NULL : arena_memory(w) };
	DAT_LMR_CONTEXT context;
	DAT_RMR_CONTEXT rmr_context;
	DAT_LMR_HANDLE handle;
	DAT_IA_HANDLE ia_handle;
	DAT_PZ_HANDLE pz_handle;
	DAT_RETURN want = DAT_SUCCESS;
	DAT_VADDR address;

	if (!lmr)
		return;
	ia = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_IA, &ia_handle);
	pz = object_of(w, c->arg[6], DAT_HANDLE_TYPE_PZ, ia, &pz_handle);
	if (type == DAT_MEM_TYPE_LMR)
		source = object_of(w, c->arg[7], DAT_HANDLE_TYPE_LMR, ia, &region.for_lmr_handle);
	if (type == (DAT_MEM_TYPE)0x77)
		no_va = no_out = false; /* so that only one thing is wrong */
	CHECK(want, !ia, BAD_HANDLE(IA));
	CHECK(want, !of_ia(pz, ia), BAD_HANDLE(PZ));
	CHECK(want, type != DAT_MEM_TYPE_LMR && no_va, BAD_ARG(3));
	CHECK(want, no_out, BAD_ARG_OF(7, 8));
	CHECK(want, type == (DAT_MEM_TYPE)0x77, BAD_ARG(2));
	if (type == DAT_MEM_TYPE_LMR) {
		CHECK(want, !of_ia(source, ia), BAD_HANDLE(LMR));
	} else {
		CHECK(want, !length, BAD_ARG(4));
	}
	if (want != DAT_SUCCESS && type == DAT_MEM_TYPE_LMR && !of_ia(source, ia))
		return; /* which of two mistakes is told first is open */
	if (!returned(w,
		      LMR_CREATE(ia_handle, type, region, length, pz_handle, priv,
				 no_out ? NULL : &handle, &context, &rmr_context, &size, &address),
		      want))
		return;
	holds(w, !(priv & 0x22) == !rmr_context, "the RMR context is 0x%x", rmr_context);
	holds(w, size >= arena_size(), "the registered size is %llu", (unsigned long long)size);
	object_born(lmr, handle, ia);
	lmr->lmr.pz = pz;
	lmr->lmr.type = type;
	lmr->lmr.priv = (DAT_MEM_PRIV_FLAGS)(priv & DAT_MEM_PRIV_ALL_FLAG);
	lmr->lmr.context = context;
	lmr->lmr.rmr_context = rmr_context;
	pz->uses++;
}

static void lmr_query_op(struct world *w, const struct call *c)
{
	bool no_out = rarely(c->arg[1], 16);
	DAT_LMR_HANDLE handle;
	struct object *lmr = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_LMR, &handle);
	DAT_RETURN want = DAT_SUCCESS;
	DAT_LMR_PARAM param;

	CHECK(want, !lmr, BAD_HANDLE(LMR));
	CHECK(want, no_out, BAD_ARG(3));
	if (!returned(w, dat_lmr_query(handle, DAT_LMR_FIELD_ALL, no_out ? NULL : &param), want))
		return;
	holds(w, param.ia_handle == lmr->ia->handle, "the IA is %p", param.ia_handle);
	holds(w, param.pz_handle == lmr->lmr.pz->handle, "the zone is %p", param.pz_handle);
	holds(w, param.mem_type == lmr->lmr.type, "the type is %d", param.mem_type);
	holds(w, param.mem_priv == lmr->lmr.priv, "the privileges are 0x%x", param.mem_priv);
	holds(w, param.lmr_context == lmr->lmr.context, "the context is 0x%x", param.lmr_context);
	holds(w, param.rmr_context == lmr->lmr.rmr_context, "the context is 0x%x",
	      param.rmr_context);
	holds(w, param.length == arena_size(), "the length is %llu",
	      (unsigned long long)param.length);
}

/* A region stays while a transfer may use it, whose end would otherwise be open. */
static void lmr_free_op(struct world *w, const struct call *c)
{
	DAT_LMR_HANDLE handle;
	struct object *lmr = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_LMR, &handle);
	DAT_RETURN want = DAT_SUCCESS;

	if (lmr && lmr->lmr.transfers)
		return;
	CHECK(want, !lmr, BAD_HANDLE(LMR));
	CHECK(want, lmr->uses, BAD_STATE(LMR_IN_USE));
	if (!returned(w, dat_lmr_free(handle), want))
		return;
	lmr->lmr.pz->uses--;
	object_dies(lmr);
}

static void lmr_sync(struct world *w, const struct call *c,
		     DAT_RETURN (*sync)(DAT_IA_HANDLE, const DAT_LMR_TRIPLET *, DAT_VLEN))
{
	bool none = rarely(c->arg[2], 8), beyond = rarely(c->arg[3], 8);
	struct object *ia, *lmr;
	DAT_VLEN n = c->arg[4] % 2;
	DAT_IA_HANDLE ia_handle;
	DAT_LMR_HANDLE lmr_handle;
	DAT_LMR_TRIPLET range = { .virtual_address = (DAT_VADDR)(uintptr_t)arena_memory(w) };
	DAT_RETURN want = DAT_SUCCESS;

	ia = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_IA, &ia_handle);
	lmr = object_of(w, c->arg[1], DAT_HANDLE_TYPE_LMR, ia, &lmr_handle);
	if (!lmr || (ia && lmr->ia != ia))
		return;
	range.lmr_context = lmr->lmr.context;
	range.segment_length = (DAT_UINT32)arena_size() + beyond;
	CHECK(want, !ia, BAD_HANDLE(IA));
	CHECK(want, n && (none || beyond), BAD_ARG(2));
	returned(w, sync(ia_handle, none ? NULL : &range, n), want);
}

static void lmr_sync_read_op(struct world *w, const struct call *c)
{
	lmr_sync(w, c, dat_lmr_sync_rdma_read);
}

static void lmr_sync_write_op(struct world *w, const struct call *c)
{
	lmr_sync(w, c, dat_lmr_sync_rdma_write);
}

/* ---- windows: model_post.c binds them ---- */

static void rmr_create_op(struct world *w, const struct call *c)
{
	struct object *rmr = object_slot(w, DAT_HANDLE_TYPE_RMR), *pz;
	bool no_out = rarely(c->arg[1], 16);
	DAT_PZ_HANDLE pz_handle;
	DAT_RMR_HANDLE handle;
	DAT_RETURN want = DAT_SUCCESS;

	if (!rmr)
		return;
	pz = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_PZ, &pz_handle);
	CHECK(want, !pz, BAD_HANDLE(PZ));
	CHECK(want, no_out, BAD_ARG(2));
	if (!returned(w, dat_rmr_create(pz_handle, no_out ? NULL : &handle), want))
		return;
	object_born(rmr, handle, pz->ia);
	rmr->rmr.pz = pz;
	pz->uses++;
}

static void rmr_query_op(struct world *w, const struct call *c)
{
	bool no_out = rarely(c->arg[1], 16), all = c->arg[2] % 2;
	const unsigned some = DAT_RMR_FIELD_IA_HANDLE | DAT_RMR_FIELD_PZ_HANDLE;
	DAT_RMR_PARAM_MASK mask = (DAT_RMR_PARAM_MASK)(all ? (unsigned)DAT_RMR_FIELD_ALL : some);
	DAT_RMR_HANDLE handle;
	struct object *rmr = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_RMR, &handle);
	DAT_RETURN want = DAT_SUCCESS;
	DAT_RMR_PARAM param;

	if (rmr && rmr->rmr.binds)
		return; /* what a bind has changed so far is open */
	CHECK(want, !rmr, BAD_HANDLE(RMR));
	CHECK(want, no_out, BAD_ARG(3));
	CHECK(want, all && !rmr->rmr.lmr, BAD_ARG(2));
	if (!returned(w, dat_rmr_query(handle, mask, no_out ? NULL : &param), want))
		return;
	holds(w, param.ia_handle == rmr->ia->handle, "the IA is %p", param.ia_handle);
	holds(w, param.pz_handle == rmr->rmr.pz->handle, "the zone is %p", param.pz_handle);
	if (all)
		holds(w, param.lmr_triplet.lmr_context == rmr->rmr.lmr->lmr.context,
		      "it is bound to the region 0x%x", param.lmr_triplet.lmr_context);
}

static void rmr_free_op(struct world *w, const struct call *c)
{
	DAT_RMR_HANDLE handle;
	struct object *rmr = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_RMR, &handle);

	if (rmr && rmr->rmr.binds)
		return;
	if (!returned(w, dat_rmr_free(handle), rmr ? DAT_SUCCESS : BAD_HANDLE(RMR)))
		return;
	if (rmr->rmr.lmr)
		rmr->rmr.lmr->uses--;
	rmr->rmr.pz->uses--;
	object_dies(rmr);
}

const struct op memory_ops[] = {
	{ "dat_pz_create", 6, pz_create_op },
	{ "dat_pz_query", 3, pz_query_op },
	{ "dat_pz_free", 3, pz_free_op },
	{ "dat_lmr_create", 10, lmr_create_op },
	{ "dat_lmr_query", 4, lmr_query_op },
	{ "dat_lmr_free", 3, lmr_free_op },
	{ "dat_lmr_sync_rdma_read", 2, lmr_sync_read_op },
	{ "dat_lmr_sync_rdma_write", 2, lmr_sync_write_op },
	{ "dat_rmr_create", 4, rmr_create_op },
	{ "dat_rmr_query", 3, rmr_query_op },
	{ "dat_rmr_free", 3, rmr_free_op },
	{ 0 },
};
