/* SPDX-License-Identifier: BSD-2-Clause */
/* The sheet: protection zones, regions and windows. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "sheet.h"

static DAT_LMR_HANDLE lmr_out;
static DAT_LMR_CONTEXT lkey;
static DAT_RMR_CONTEXT rkey;

/* ---- dat_pz_create ---- */

HANDLE_ROWS(dat_pz_create, "the IA", IA, BAD_HANDLE(IA), dat_pz_create(h, &unwritten));
ROW(dat_pz_create, "the output is null", BAD_ARG(2), dat_pz_create(here->ia, NULL));

ROW_DO(dat_pz_create, "the IA is open", DAT_SUCCESS)
{
	DAT_PZ_HANDLE pz;
	DAT_RETURN ret = dat_pz_create(here->ia, &pz);

	keep(pz);
	return ret;
}

/* ---- dat_pz_free ---- */

HANDLE_ROWS(dat_pz_free, "the zone", PZ, BAD_HANDLE(PZ), dat_pz_free(h));
ROW(dat_pz_free, "nothing uses it", DAT_SUCCESS, dat_pz_free(new_pz()));
ROW(dat_pz_free, "endpoint and region use it", BAD_STATE(PZ_IN_USE), dat_pz_free(here->pz));

ROW_DO(dat_pz_free, "a region uses it", BAD_STATE(PZ_IN_USE))
{
	DAT_PZ_HANDLE pz = new_pz();

	new_lmr_in(pz, LOCAL, &lkey);
	return dat_pz_free(pz);
}

ROW_DO(dat_pz_free, "an endpoint uses it", BAD_STATE(PZ_IN_USE))
{
	DAT_PZ_HANDLE pz = new_pz();
	DAT_EP_HANDLE ep;

	ck_dat(dat_ep_create(here->ia, pz, here->recv_evd, here->request_evd, here->connect_evd,
			     NULL, &ep));
	keep(ep);
	return dat_pz_free(pz);
}

ROW_DO(dat_pz_free, "a window uses it", BAD_STATE(PZ_IN_USE))
{
	DAT_PZ_HANDLE pz = new_pz();
	DAT_RMR_HANDLE rmr;

	ck_dat(dat_rmr_create(pz, &rmr));
	keep(rmr);
	return dat_pz_free(pz);
}

ROW_DO(dat_pz_free, "what used it was freed", DAT_SUCCESS)
{
	DAT_PZ_HANDLE pz = new_pz();

	ck_dat(dat_lmr_free(new_lmr_in(pz, LOCAL, &lkey)));
	return dat_pz_free(pz);
}

/* ---- dat_pz_query ---- */

static DAT_PZ_PARAM pz_param;

HANDLE_ROWS(dat_pz_query, "the zone", PZ, BAD_HANDLE(PZ),
	    dat_pz_query(h, DAT_PZ_FIELD_ALL, &pz_param));
ROW(dat_pz_query, "the mask has an unknown bit, which is ignored", DAT_SUCCESS,
    dat_pz_query(here->pz, (DAT_PZ_PARAM_MASK)2, &pz_param));
ROW(dat_pz_query, "the output is null", BAD_ARG(3), dat_pz_query(here->pz, DAT_PZ_FIELD_ALL, NULL));
ROW(dat_pz_query, "the mask is 0", DAT_SUCCESS,
    dat_pz_query(here->pz, (DAT_PZ_PARAM_MASK)0, &pz_param));

ROW_DO(dat_pz_query, "its IA", DAT_SUCCESS)
{
	DAT_RETURN ret = dat_pz_query(here->pz, DAT_PZ_FIELD_ALL, &pz_param);

	ck_assert_ptr_eq(pz_param.ia_handle, here->ia);
	return ret;
}

/* ---- dat_lmr_create ---- */

/* A region of @length bytes, which changes no output if it fails. */
static DAT_RETURN create(DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION what, DAT_VLEN length,
			 DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS priv)
{
	DAT_RETURN ret;

	lmr_out = unwritten;
	lkey = 1;
	rkey = 2;
	ret = LMR_CREATE(here->ia, type, what, length, pz, priv, &lmr_out, &lkey, &rkey, NULL,
			 NULL);
	if (ret == DAT_SUCCESS)
		keep(lmr_out);
	else
		ck_assert(lmr_out == unwritten && lkey == 1 && rkey == 2);
	return ret;
}

static DAT_RETURN create_at(void *at, DAT_VLEN length, DAT_MEM_PRIV_FLAGS priv)
{
	const DAT_REGION_DESCRIPTION what = { .for_va = at };

	return create(DAT_MEM_TYPE_VIRTUAL, what, length, here->pz, priv);
}

static DAT_RETURN create_of_type(int type)
{
	const DAT_REGION_DESCRIPTION what = { .for_va = here->memory };

	return create((DAT_MEM_TYPE)type, what, 64, here->pz, LOCAL);
}

static DAT_RETURN create_in(DAT_PZ_HANDLE pz)
{
	const DAT_REGION_DESCRIPTION what = { .for_va = here->memory };

	return create(DAT_MEM_TYPE_VIRTUAL, what, 64, pz, LOCAL);
}

static DAT_RETURN create_over(DAT_LMR_HANDLE source, DAT_PZ_HANDLE pz)
{
	const DAT_REGION_DESCRIPTION what = { .for_lmr_handle = source };

	return create(DAT_MEM_TYPE_LMR, what, 0, pz, LOCAL);
}

/* Memory of 8192 bytes that stays mapped until the process ends. */
static void *mapped(int protection, int flags)
{
	void *at = mmap(NULL, 8192, protection, flags | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(at, MAP_FAILED);
	return at;
}

static char cookie[DAT_LMR_COOKIE_SIZE] = "the cookie of conform";

static DAT_RETURN create_shared(void *at, char (*id)[DAT_LMR_COOKIE_SIZE])
{
	const DAT_REGION_DESCRIPTION what = {
		.for_shared_memory = { .virtual_address = at, .shared_memory_id = id },
	};

	return create(DAT_MEM_TYPE_SHARED_VIRTUAL, what, 4096, here->pz, LOCAL);
}

HANDLE_ROWS(dat_lmr_create, "the IA", IA, BAD_HANDLE(IA),
	    LMR_CREATE(h, DAT_MEM_TYPE_VIRTUAL, (DAT_REGION_DESCRIPTION){ .for_va = here->memory },
		       64, here->pz, LOCAL, &unwritten, NULL, NULL, NULL, NULL));
HANDLE_ROWS(dat_lmr_create, "the zone", PZ, BAD_HANDLE(PZ), create_in(h));
ROW(dat_lmr_create, "the zone is another instance's", BAD_HANDLE(PZ),
    create_in(foreign_handle(HANDLE_PZ)));
HANDLE_ROWS(dat_lmr_create, "of a region: that region", LMR, BAD_HANDLE(LMR),
	    create_over(h, here->pz));
ROW(dat_lmr_create, "of a region: it is another instance's", BAD_HANDLE(LMR),
    create_over(foreign_handle(HANDLE_LMR), here->pz));
ROW(dat_lmr_create, "the type is unknown", BAD_ARG(2), create_of_type(9));
ROW(dat_lmr_create, "the type is -1", BAD_ARG(2), create_of_type(-1));
ROW(dat_lmr_create, "the address is null", BAD_ARG(3), create_at(NULL, 64, LOCAL));
ROW(dat_lmr_create, "shared: the cookie's address is null", BAD_ARG(3),
    create_shared(here->memory, NULL));
ROW(dat_lmr_create, "shared: the address is null", BAD_ARG(3), create_shared(NULL, &cookie));

ROW_DO(dat_lmr_create, "the range is not mapped", BAD_ARG(3), .needs = NEEDS_PINNING)
{
	void *at = mapped(PROT_READ | PROT_WRITE, MAP_PRIVATE);

	ck_assert_int_eq(munmap(at, 8192), 0);
	return create_at(at, 8192, LOCAL);
}

ROW_DO(dat_lmr_create, "the second page of the range is not mapped", BAD_ARG(3),
       .needs = NEEDS_PINNING)
{
	char *at = mapped(PROT_READ | PROT_WRITE, MAP_PRIVATE);

	ck_assert_int_eq(munmap(at + 4096, 4096), 0);
	return create_at(at, 8192, LOCAL);
}

ROW(dat_lmr_create, "the length is 0", BAD_ARG(4), create_at(here->memory, 0, LOCAL));
ROW(dat_lmr_create, "the range exceeds the address space", BAD_ARG(4),
    create_at(here->memory, ~UINT64_C(0), LOCAL));
ROW(dat_lmr_create, "unknown privileges, which grant nothing", DAT_SUCCESS,
    create_at(here->memory, 64, (DAT_MEM_PRIV_FLAGS)OF_EDITION(0x40, 0x80)));
ROW(dat_lmr_create, "the output is null", BAD_ARG_OF(7, 8),
    LMR_CREATE(here->ia, DAT_MEM_TYPE_VIRTUAL, (DAT_REGION_DESCRIPTION){ .for_va = here->memory },
	       64, here->pz, LOCAL, NULL, NULL, NULL, NULL, NULL));
ROW(dat_lmr_create, "shared: the memory is private", BAD_STATE_PLAIN,
    create_shared(mapped(PROT_READ | PROT_WRITE, MAP_PRIVATE), &cookie));

ROW_DO(dat_lmr_create, "shared: the cookie stands for other memory", BAD_STATE_PLAIN)
{
	ck_dat(create_shared(mapped(PROT_READ | PROT_WRITE, MAP_SHARED), &cookie));
	return create_shared(mapped(PROT_READ | PROT_WRITE, MAP_SHARED), &cookie);
}

ROW_DO(dat_lmr_create, "shared: the cookie differs in its last byte only", DAT_SUCCESS)
{
	char other[DAT_LMR_COOKIE_SIZE];

	memcpy(other, cookie, sizeof(other));
	other[sizeof(other) - 1] = 'x';
	ck_dat(create_shared(mapped(PROT_READ | PROT_WRITE, MAP_SHARED), &cookie));
	return create_shared(mapped(PROT_READ | PROT_WRITE, MAP_SHARED), &other);
}

ROW_DO(dat_lmr_create, "shared: the same memory and cookie twice", DAT_SUCCESS)
{
	void *at = mapped(PROT_READ | PROT_WRITE, MAP_SHARED);

	ck_dat(create_shared(at, &cookie));
	return create_shared(at, &cookie);
}

ROW_DO(dat_lmr_create, "shared: the cookie is free again", DAT_SUCCESS)
{
	ck_dat(create_shared(mapped(PROT_READ | PROT_WRITE, MAP_SHARED), &cookie));
	ck_dat(dat_lmr_free(lmr_out));
	return create_shared(mapped(PROT_READ | PROT_WRITE, MAP_SHARED), &cookie);
}

ROW(dat_lmr_create, "the memory is read-only, and local write is asked for", NO_PRIVILEGE(WRITE),
    create_at(mapped(PROT_READ, MAP_PRIVATE), 4096, LOCAL), .needs = NEEDS_PINNING);
ROW(dat_lmr_create, "the memory is read-only, and remote write is asked for", NO_PRIVILEGE(WRITE),
    create_at(mapped(PROT_READ, MAP_PRIVATE), 4096, DAT_MEM_PRIV_REMOTE_WRITE_FLAG),
    .needs = NEEDS_PINNING);
ROW(dat_lmr_create, "the memory is read-only, and local read is asked for", DAT_SUCCESS,
    create_at(mapped(PROT_READ, MAP_PRIVATE), 4096, DAT_MEM_PRIV_LOCAL_READ_FLAG));
ROW(dat_lmr_create, "one byte at an odd address", DAT_SUCCESS,
    create_at(here->memory + 1, 1, LOCAL));
ROW(dat_lmr_create, "of strictly ordered memory", DAT_SUCCESS,
    create_of_type(DAT_MEM_TYPE_SO_VIRTUAL));
ROW(dat_lmr_create, "shared: a shared mapping", DAT_SUCCESS,
    create_shared(mapped(PROT_READ | PROT_WRITE, MAP_SHARED), &cookie));
ROW(dat_lmr_create, "of a region, whose length is ignored", DAT_SUCCESS,
    create_over(here->lmr, here->pz));
ROW(dat_lmr_create, "of a region in another zone", DAT_SUCCESS, create_over(here->lmr, new_pz()));
ROW(dat_lmr_create, "without privileges", DAT_SUCCESS,
    create_at(here->memory, 64, DAT_MEM_PRIV_NONE_FLAG));

ROW_DO(dat_lmr_create, "all outputs but the first are null", DAT_SUCCESS)
{
	const DAT_REGION_DESCRIPTION what = { .for_va = here->memory };
	DAT_RETURN ret = LMR_CREATE(here->ia, DAT_MEM_TYPE_VIRTUAL, what, 64, here->pz, LOCAL,
				    &lmr_out, NULL, NULL, NULL, NULL);

	keep(lmr_out);
	return ret;
}

ROW_DO(dat_lmr_create, "the same range twice", DAT_SUCCESS)
{
	DAT_LMR_CONTEXT first;
	DAT_RETURN ret;

	ck_dat(create_at(here->memory, 64, LOCAL));
	first = lkey;
	ret = create_at(here->memory, 64, LOCAL);
	ck_assert_uint_ne(lkey, first);
	return ret;
}

ROW_DO(dat_lmr_create, "without remote privileges, it has no context for peers", DAT_SUCCESS)
{
	DAT_RETURN ret = create_at(here->memory, 64, LOCAL);

	ck_assert_uint_eq(rkey, 0);
	return ret;
}

ROW_DO(dat_lmr_create, "remote read alone makes a context for peers", DAT_SUCCESS)
{
	DAT_RETURN ret = create_at(here->memory, 64, DAT_MEM_PRIV_REMOTE_READ_FLAG);

	ck_assert_uint_ne(rkey, 0);
	return ret;
}

ROW_DO(dat_lmr_create, "remote write without local write", DAT_SUCCESS)
{
	DAT_LMR_PARAM param;
	DAT_RETURN ret = create_at(here->memory, 64, DAT_MEM_PRIV_REMOTE_WRITE_FLAG);

	ck_assert_uint_ne(rkey, 0);
	ck_dat(dat_lmr_query(lmr_out, DAT_LMR_FIELD_ALL, &param));
	ck_assert_int_eq(param.mem_priv, DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
	return ret;
}

/* ---- dat_lmr_free ---- */

HANDLE_ROWS(dat_lmr_free, "the region", LMR, BAD_HANDLE(LMR), dat_lmr_free(h));
ROW(dat_lmr_free, "nothing uses it", DAT_SUCCESS, dat_lmr_free(new_lmr(LOCAL, &lkey)));

static DAT_RMR_HANDLE bound_to(DAT_LMR_HANDLE lmr);

ROW_DO(dat_lmr_free, "a window is bound to it", BAD_STATE(LMR_IN_USE))
{
	DAT_LMR_HANDLE lmr = new_lmr(LOCAL, &lkey);

	bound_to(lmr);
	return dat_lmr_free(lmr);
}

ROW_DO(dat_lmr_free, "the window that was bound to it was freed", DAT_SUCCESS)
{
	DAT_LMR_HANDLE lmr = new_lmr(LOCAL, &lkey);

	ck_dat(dat_rmr_free(bound_to(lmr)));
	return dat_lmr_free(lmr);
}

ROW_DO(dat_lmr_free, "another region was made of it, which stays usable", DAT_SUCCESS)
{
	DAT_LMR_HANDLE lmr = new_lmr(LOCAL, &lkey);
	DAT_RETURN ret;

	ck_dat(create_over(lmr, here->pz));
	ret = dat_lmr_free(lmr);
	post_recv(there->ep, 1, segment(there, 0, 8));
	post_send(here->ep, 2,
		  (DAT_LMR_TRIPLET){ .lmr_context = lkey,
				     .virtual_address = (uintptr_t)here->memory,
				     .segment_length = 8 },
		  DAT_COMPLETION_DEFAULT_FLAG);
	expect_recv_done(there, 1, 8);
	expect_request_done(here, 2, 8);
	return ret;
}

STATUS_ROW(dat_lmr_free, "a peer writes to it afterwards", DAT_DTO_ERR_REMOTE_ACCESS,
	   .needs = NEEDS_REMOTE_STATUS)
{
	struct pair *pair = new_connection(NULL);
	DAT_RMR_TRIPLET remote = target(&pair->server, 0, 8);
	struct region region = region_over(there, there->memory, 64, DAT_MEM_PRIV_ALL_FLAG);

	remote.rmr_context = region.rmr_context;
	ck_dat(dat_lmr_free(region.lmr));
	post_write(pair->client.ep, 1, segment(&pair->client, 0, 8), remote,
		   DAT_COMPLETION_DEFAULT_FLAG);
	expect_ends(pair);
	return completion_of(pair->client.request_evd, 1);
}

/* ---- dat_lmr_query ---- */

static DAT_LMR_PARAM lmr_param;

HANDLE_ROWS(dat_lmr_query, "the region", LMR, BAD_HANDLE(LMR),
	    dat_lmr_query(h, DAT_LMR_FIELD_ALL, &lmr_param));
ROW(dat_lmr_query, "the mask has an unknown bit, which is ignored", DAT_SUCCESS,
    dat_lmr_query(here->lmr, (DAT_LMR_PARAM_MASK)(DAT_LMR_FIELD_ALL + 1), &lmr_param));
ROW(dat_lmr_query, "the output is null", BAD_ARG(3),
    dat_lmr_query(here->lmr, DAT_LMR_FIELD_ALL, NULL));
ROW(dat_lmr_query, "the mask is 0", DAT_SUCCESS,
    dat_lmr_query(here->lmr, (DAT_LMR_PARAM_MASK)0, &lmr_param));

ROW_DO(dat_lmr_query, "all fields", DAT_SUCCESS)
{
	DAT_RETURN ret = dat_lmr_query(here->lmr, DAT_LMR_FIELD_ALL, &lmr_param);

	ck_assert_ptr_eq(lmr_param.ia_handle, here->ia);
	ck_assert_int_eq(lmr_param.mem_type, DAT_MEM_TYPE_VIRTUAL);
	ck_assert_ptr_eq(lmr_param.region_desc.for_va, here->memory);
	ck_assert_uint_eq(lmr_param.length, here->size);
	ck_assert_ptr_eq(lmr_param.pz_handle, here->pz);
	ck_assert_int_eq(lmr_param.mem_priv, DAT_MEM_PRIV_ALL_FLAG);
	ck_assert_uint_eq(lmr_param.lmr_context, here->lmr_context);
	ck_assert_uint_eq(lmr_param.rmr_context, here->rmr_context);
	ck_assert_uint_le(lmr_param.registered_address, (uintptr_t)here->memory);
	ck_assert_uint_ge(lmr_param.registered_size, here->size);
	return ret;
}

ROW_DO(dat_lmr_query, "of a region of a region", DAT_SUCCESS)
{
	DAT_RETURN ret;

	ck_dat(create_over(here->lmr, here->pz));
	ret = dat_lmr_query(lmr_out, DAT_LMR_FIELD_ALL, &lmr_param);
	ck_assert_int_eq(lmr_param.mem_type, DAT_MEM_TYPE_LMR);
	ck_assert_ptr_eq(lmr_param.region_desc.for_lmr_handle, here->lmr);
	ck_assert_uint_eq(lmr_param.length, here->size);
	return ret;
}

ROW_DO(dat_lmr_query, "of shared memory", DAT_SUCCESS)
{
	const void *id;
	DAT_RETURN ret;

	ck_dat(create_shared(mapped(PROT_READ | PROT_WRITE, MAP_SHARED), &cookie));
	ret = dat_lmr_query(lmr_out, DAT_LMR_FIELD_ALL, &lmr_param);
	id = lmr_param.region_desc.for_shared_memory.shared_memory_id;
	ck_assert_ptr_ne(id, &cookie);
	ck_assert_mem_eq(id, cookie, sizeof(cookie));
	return ret;
}

/* ---- dat_lmr_sync_rdma_read, dat_lmr_sync_rdma_write ---- */

static const DAT_LMR_TRIPLET *triplet(DAT_LMR_CONTEXT context, size_t offset, DAT_VLEN length)
{
	static DAT_LMR_TRIPLET segment;

	segment.lmr_context = context;
	segment.virtual_address = (uintptr_t)here->memory + offset;
	segment.segment_length = length;
	return &segment;
}

/* A context that no region has. */
static DAT_LMR_CONTEXT dead_lkey(void)
{
	DAT_LMR_CONTEXT context;

	ck_dat(dat_lmr_free(new_lmr(LOCAL, &context)));
	return context;
}

#define SYNC_ROWS(call)                                                                            \
	HANDLE_ROWS(call, "the IA", IA, BAD_HANDLE(IA),                                            \
		    call(h, triplet(here->lmr_context, 0, 8), 1));                                 \
	ROW_SYNC(a, call, "the segments are null", BAD_ARG(2), call(here->ia, NULL, 1))            \
	ROW_SYNC(b, call, "no region has the context", BAD_ARG(2),                                 \
		 call(here->ia, triplet(dead_lkey(), 0, 8), 1))                                    \
	ROW_SYNC(c, call, "the range begins before the region", BAD_ARG(2),                        \
		 call(here->ia, triplet(here->lmr_context, (size_t)-1, 8), 1))                     \
	ROW_SYNC(d, call, "the range ends after the region", BAD_ARG(2),                           \
		 call(here->ia, triplet(here->lmr_context, here->size - 7, 8), 1))                 \
	ROW_SYNC(e, call, "the number of segments is 0", DAT_SUCCESS, call(here->ia, NULL, 0))     \
	ROW_SYNC(f, call, "a segment of a region", DAT_SUCCESS,                                    \
		 call(here->ia, triplet(here->lmr_context, 0, here->size), 1))                     \
	struct row
#define ROW_SYNC(name, call, when, want, expression)                                               \
	static DAT_RETURN ROW_NAME(name##_sync)(DAT_HANDLE h)                                      \
	{                                                                                          \
		(void)h;                                                                           \
		return expression;                                                                 \
	}                                                                                          \
	ROW_OF(name, ROW_NAME(name##_sync), call, when, want, NULL)

SYNC_ROWS(dat_lmr_sync_rdma_read);
SYNC_ROWS(dat_lmr_sync_rdma_write);

/* ---- dat_rmr_create ---- */

HANDLE_ROWS(dat_rmr_create, "the zone", PZ, BAD_HANDLE(PZ), dat_rmr_create(h, &unwritten));
ROW(dat_rmr_create, "the output is null", BAD_ARG(2), dat_rmr_create(here->pz, NULL));
ROW(dat_rmr_create, "the zone is live", DAT_SUCCESS, new_rmr() ? DAT_SUCCESS : 1);

/* ---- dat_rmr_bind ---- */

static DAT_RMR_CONTEXT bound_context;

static DAT_RETURN try_bind(DAT_RMR_HANDLE rmr, DAT_LMR_HANDLE lmr, const DAT_LMR_TRIPLET *range,
			   DAT_MEM_PRIV_FLAGS priv, DAT_EP_HANDLE ep, DAT_COMPLETION_FLAGS flags)
{
	DAT_RETURN ret;

	bound_context = 0x77;
	ret = RMR_BIND(rmr, lmr, range, priv, ep, cookie_of(7), flags, &bound_context);
	if (ret != DAT_SUCCESS)
		ck_assert_uint_eq(bound_context, 0x77);
	return ret;
}

/* Through the stage's endpoint; the completion is waited for. */
static DAT_RETURN bind_range_of(DAT_RMR_HANDLE rmr, DAT_LMR_HANDLE lmr,
				const DAT_LMR_TRIPLET *range, DAT_MEM_PRIV_FLAGS priv)
{
	DAT_RETURN ret = try_bind(rmr, lmr, range, priv, here->ep, DAT_COMPLETION_DEFAULT_FLAG);

	if (ret == DAT_SUCCESS)
		expect_bind(here->request_evd, rmr, 7, DAT_RMR_BIND_SUCCESS);
	return ret;
}

static DAT_RMR_HANDLE bound_to(DAT_LMR_HANDLE lmr)
{
	DAT_RMR_HANDLE rmr = new_rmr();
	DAT_LMR_PARAM param;

	ck_dat(dat_lmr_query(lmr, DAT_LMR_FIELD_ALL, &param));
	ck_dat(bind_range_of(rmr, lmr, triplet(param.lmr_context, 0, 64), REMOTE));
	return rmr;
}

static const DAT_LMR_TRIPLET *whole(void)
{
	return triplet(here->lmr_context, 0, here->size);
}

static DAT_RETURN bind_with(DAT_COMPLETION_FLAGS flags)
{
	return try_bind(new_rmr(), here->lmr, whole(), REMOTE, here->ep, flags);
}

static DAT_RETURN bind_of(DAT_MEM_PRIV_FLAGS region_priv, DAT_MEM_PRIV_FLAGS priv)
{
	DAT_LMR_HANDLE lmr = new_lmr(region_priv, &lkey);

	return bind_range_of(new_rmr(), lmr, triplet(lkey, 0, 64), priv);
}

HANDLE_ROWS(dat_rmr_bind, "the window", RMR, BAD_HANDLE(RMR),
	    try_bind(h, here->lmr, whole(), REMOTE, here->ep, DAT_COMPLETION_DEFAULT_FLAG));
HANDLE_ROWS(dat_rmr_bind, "the endpoint", EP, BAD_HANDLE(EP),
	    try_bind(new_rmr(), here->lmr, whole(), REMOTE, h, DAT_COMPLETION_DEFAULT_FLAG));
ROW(dat_rmr_bind, "the endpoint is another instance's", BAD_HANDLE(EP),
    try_bind(new_rmr(), here->lmr, whole(), REMOTE, foreign_handle(HANDLE_EP),
	     DAT_COMPLETION_DEFAULT_FLAG));
ROW(dat_rmr_bind, "the triplet is null", BAD_ARG_OF(2, 3),
    bind_range_of(new_rmr(), here->lmr, NULL, REMOTE));
#if DAT_EDITION == 2
HANDLE_ROWS(dat_rmr_bind, "the region", LMR, BAD_HANDLE(LMR),
	    bind_range_of(new_rmr(), h, whole(), REMOTE));
ROW(dat_rmr_bind, "the region is another instance's", BAD_HANDLE(LMR),
    bind_range_of(new_rmr(), foreign_handle(HANDLE_LMR), whole(), REMOTE));
ROW(dat_rmr_bind, "no region has the context, which is ignored", DAT_SUCCESS,
    bind_range_of(new_rmr(), here->lmr, triplet(dead_lkey(), 0, 64), REMOTE));
ROW(dat_rmr_bind, "the length is 0, and the region is null", DAT_SUCCESS,
    bind_range_of(new_rmr(), DAT_HANDLE_NULL, triplet(0, 0, 0), REMOTE));
#else
ROW(dat_rmr_bind, "no region has the context", BAD_ARG(2),
    bind_range_of(new_rmr(), here->lmr, triplet(dead_lkey(), 0, 64), REMOTE));
#endif
ROW(dat_rmr_bind, "the range begins before the region", BAD_ARG_OF(2, 3),
    bind_range_of(new_rmr(), here->lmr, triplet(here->lmr_context, (size_t)-1, 64), REMOTE));
ROW(dat_rmr_bind, "the range ends after the region", BAD_ARG_OF(2, 3),
    bind_range_of(new_rmr(), here->lmr, triplet(here->lmr_context, 1, here->size), REMOTE));
ROW(dat_rmr_bind, "the range exceeds the address space", BAD_ARG_OF(2, 3),
    bind_range_of(new_rmr(), here->lmr, triplet(here->lmr_context, 1, ~UINT64_C(0)), REMOTE));
ROW(dat_rmr_bind, "unknown privileges, which grant nothing", DAT_SUCCESS,
    bind_of(LOCAL, (DAT_MEM_PRIV_FLAGS)0x44));

ROW_DO(dat_rmr_bind, "unknown flags, which have no effect", DAT_SUCCESS)
{
	DAT_RMR_HANDLE rmr = new_rmr();
	DAT_RETURN ret = try_bind(rmr, here->lmr, whole(), REMOTE, here->ep,
				  (DAT_COMPLETION_FLAGS)0x20);

	expect_bind(here->request_evd, rmr, 7, DAT_RMR_BIND_SUCCESS);
	return ret;
}

ROW(dat_rmr_bind, "the flags have UNSIGNALLED, and the endpoint's do not", BAD_ARG_OF(6, 8),
    bind_with(DAT_COMPLETION_UNSIGNALLED_FLAG));
ROW(dat_rmr_bind, "the output is null", BAD_ARG_OF(7, 9),
    RMR_BIND(new_rmr(), here->lmr, whole(), REMOTE, here->ep, no_cookie,
	     DAT_COMPLETION_DEFAULT_FLAG, NULL));
ROW(dat_rmr_bind, "the endpoint is unconnected", BAD_STATE(EP_UNCONNECTED),
    try_bind(new_rmr(), here->lmr, whole(), REMOTE, new_ep(NULL), DAT_COMPLETION_DEFAULT_FLAG));
ROW(dat_rmr_bind, "the endpoint connects", BAD_STATE(EP_ACTCONNPENDING),
    try_bind(new_rmr(), here->lmr, whole(), REMOTE, new_request(NULL)->client.ep,
	     DAT_COMPLETION_DEFAULT_FLAG));

ROW_DO(dat_rmr_bind, "the endpoint has no request EVD", BAD_HANDLE(EVD_REQUEST))
{
	DAT_EP_ATTR attr = ep_attr_for(4, 4);
	DAT_EP_HANDLE ep;

	ck_dat(dat_ep_create(here->ia, here->pz, here->recv_evd, DAT_HANDLE_NULL, here->connect_evd,
			     &attr, &ep));
	return try_bind(new_rmr(), here->lmr, whole(), REMOTE, keep(ep),
			DAT_COMPLETION_DEFAULT_FLAG);
}

ROW_DO(dat_rmr_bind, "the region is in another zone", PLAIN(PROTECTION_VIOLATION))
{
	DAT_LMR_HANDLE lmr = new_lmr_in(new_pz(), LOCAL, &lkey);

	return bind_range_of(new_rmr(), lmr, triplet(lkey, 0, 64), REMOTE);
}

ROW_DO(dat_rmr_bind, "the window is in another zone", PLAIN(PROTECTION_VIOLATION))
{
	DAT_RMR_HANDLE rmr;

	ck_dat(dat_rmr_create(new_pz(), &rmr));
	return bind_range_of(keep(rmr), here->lmr, whole(), REMOTE);
}

ROW(dat_rmr_bind, "remote read, and the region lacks local read", NO_PRIVILEGE(RDMA_READ),
    bind_of(DAT_MEM_PRIV_LOCAL_WRITE_FLAG, DAT_MEM_PRIV_REMOTE_READ_FLAG));
ROW(dat_rmr_bind, "remote write, and the region lacks local write", NO_PRIVILEGE(RDMA_WRITE),
    bind_of(DAT_MEM_PRIV_LOCAL_READ_FLAG, DAT_MEM_PRIV_REMOTE_WRITE_FLAG));
ROW(dat_rmr_bind, "remote read, and the region has local read", DAT_SUCCESS,
    bind_of(DAT_MEM_PRIV_LOCAL_READ_FLAG, DAT_MEM_PRIV_REMOTE_READ_FLAG));
ROW(dat_rmr_bind, "remote read and write", DAT_SUCCESS, bind_of(LOCAL, REMOTE));
ROW(dat_rmr_bind, "no privileges", DAT_SUCCESS, bind_of(LOCAL, DAT_MEM_PRIV_NONE_FLAG));

ROW_DO(dat_rmr_bind, "it is bound already, and gets another context", DAT_SUCCESS)
{
	DAT_RMR_HANDLE rmr = bound_to(here->lmr);
	DAT_RMR_CONTEXT first = bound_context;
	DAT_RETURN ret = bind_range_of(rmr, here->lmr, whole(), REMOTE);

	ck_assert_uint_ne(bound_context, first);
	return ret;
}

ROW_DO(dat_rmr_bind, "the length is 0, which unbinds it", DAT_SUCCESS)
{
	DAT_LMR_HANDLE lmr = new_lmr(LOCAL, &lkey);
	DAT_RMR_HANDLE rmr = bound_to(lmr);
	DAT_RETURN ret = bind_range_of(rmr, DAT_HANDLE_NULL, triplet(0, 0, 0), REMOTE);

	ck_assert_uint_eq(bound_context, 0);
	ck_dat(dat_lmr_free(lmr));
	return ret;
}

ROW_DO(dat_rmr_bind, "the flags have SUPPRESS, and no event follows", DAT_SUCCESS)
{
	DAT_RETURN ret = bind_with(DAT_COMPLETION_SUPPRESS_FLAG);

	ck_dat(bind_range_of(new_rmr(), here->lmr, whole(),
			     REMOTE)); /* that of this one is the first */
	expect_no_event(here->request_evd);
	return ret;
}

ROW_DO(dat_rmr_bind, "the flags have BARRIER_FENCE", DAT_SUCCESS)
{
	DAT_RETURN ret = bind_with(DAT_COMPLETION_BARRIER_FENCE_FLAG);

	expect_event(here->request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
	return ret;
}

/* Programs that OFED's provider took pass them. */
ROW_DO(dat_rmr_bind, "the flags have SOLICITED_WAIT and EVD_THRESHOLD, which have no effect",
       DAT_SUCCESS)
{
	DAT_RETURN ret = bind_with(DAT_COMPLETION_SOLICITED_WAIT_FLAG |
				   DAT_COMPLETION_EVD_THRESHOLD_FLAG);

	expect_event(here->request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
	return ret;
}

ROW_DO(dat_rmr_bind, "the flags and the endpoint's have UNSIGNALLED", DAT_SUCCESS)
{
	DAT_EP_ATTR attr = ep_attr_for(4, 4);
	struct pair *pair;
	DAT_RETURN ret;

	attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
	pair = new_connection(&attr);
	ret = try_bind(new_rmr(), here->lmr, whole(), REMOTE, pair->client.ep,
		       DAT_COMPLETION_UNSIGNALLED_FLAG);
	return ret;
}

ROW_DO(dat_rmr_bind, "max_request_dtos requests are outstanding", NO_RESOURCE(MEMORY),
       .needs = NEEDS_RNR)
{
	DAT_EP_ATTR attr = ep_attr_for(4, 2);
	struct pair *pair = new_connection(&attr);

	post_outstanding(&pair->client, &pair->server, 2);
	return try_bind(new_rmr(), here->lmr, whole(), REMOTE, pair->client.ep,
			DAT_COMPLETION_DEFAULT_FLAG);
}

EVENT_ROW(dat_rmr_bind, "the endpoint is connected", DAT_RMR_BIND_COMPLETION_EVENT)
{
	ck_dat(bind_with(DAT_COMPLETION_DEFAULT_FLAG));
	return event_of(here->request_evd);
}

STATUS_ROW(dat_rmr_bind, "the endpoint is disconnected", DAT_RMR_BIND_FAILURE)
{
	struct pair *pair = new_disconnected();
	DAT_EVENT event;

	ck_dat(try_bind(new_rmr(), here->lmr, whole(), REMOTE, pair->client.ep,
			DAT_COMPLETION_DEFAULT_FLAG));
	event = expect_event(pair->client.request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
	return event.event_data.rmr_completion_event_data.status;
}

/* ---- dat_rmr_query ---- */

static DAT_RMR_PARAM rmr_param;

#define ALL_BUT_TRIPLET ((DAT_RMR_PARAM_MASK)(DAT_RMR_FIELD_ALL & ~DAT_RMR_FIELD_LMR_TRIPLET))

HANDLE_ROWS(dat_rmr_query, "the window", RMR, BAD_HANDLE(RMR),
	    dat_rmr_query(h, DAT_RMR_FIELD_ALL, &rmr_param));
ROW(dat_rmr_query, "the mask has an unknown bit, which is ignored", DAT_SUCCESS,
    dat_rmr_query(new_rmr(), (DAT_RMR_PARAM_MASK)(DAT_RMR_FIELD_ALL + 1), &rmr_param));
ROW(dat_rmr_query, "the triplet of an unbound window", BAD_ARG(2),
    dat_rmr_query(new_rmr(), DAT_RMR_FIELD_ALL, &rmr_param));
ROW(dat_rmr_query, "the output is null", BAD_ARG(3),
    dat_rmr_query(new_rmr(), ALL_BUT_TRIPLET, NULL));
ROW(dat_rmr_query, "the mask is 0", DAT_SUCCESS,
    dat_rmr_query(new_rmr(), (DAT_RMR_PARAM_MASK)0, &rmr_param));

ROW_DO(dat_rmr_query, "the other fields of an unbound window", DAT_SUCCESS)
{
	DAT_RETURN ret = dat_rmr_query(new_rmr(), ALL_BUT_TRIPLET, &rmr_param);

	ck_assert_ptr_eq(rmr_param.ia_handle, here->ia);
	ck_assert_ptr_eq(rmr_param.pz_handle, here->pz);
	ck_assert_uint_eq(rmr_param.rmr_context, 0);
	return ret;
}

ROW_DO(dat_rmr_query, "all fields of a bound window", DAT_SUCCESS)
{
	DAT_RMR_HANDLE rmr = bound_to(here->lmr);
	DAT_RETURN ret = dat_rmr_query(rmr, DAT_RMR_FIELD_ALL, &rmr_param);

	ck_assert_uint_eq(rmr_param.lmr_triplet.lmr_context, here->lmr_context);
	ck_assert_uint_eq(rmr_param.lmr_triplet.segment_length, 64);
	ck_assert_int_eq(rmr_param.mem_priv, REMOTE);
	ck_assert_uint_eq(rmr_param.rmr_context, bound_context);
	return ret;
}

/* ---- dat_rmr_free ---- */

HANDLE_ROWS(dat_rmr_free, "the window", RMR, BAD_HANDLE(RMR), dat_rmr_free(h));
ROW(dat_rmr_free, "it is unbound", DAT_SUCCESS, dat_rmr_free(new_rmr()));
ROW(dat_rmr_free, "it is bound", DAT_SUCCESS, dat_rmr_free(bound_to(here->lmr)));

STATUS_ROW(dat_rmr_free, "a peer writes through it afterwards", DAT_DTO_ERR_REMOTE_ACCESS,
	   .needs = NEEDS_REMOTE_STATUS)
{
	struct pair *pair = new_connection(NULL);
	DAT_RMR_TRIPLET remote = target(&pair->client, 0, 8);
	DAT_RMR_HANDLE rmr = new_rmr();

	ck_dat(try_bind(rmr, here->lmr, whole(), REMOTE, pair->client.ep,
			DAT_COMPLETION_DEFAULT_FLAG));
	expect_bind(pair->client.request_evd, rmr, 7, DAT_RMR_BIND_SUCCESS);
	remote.rmr_context = bound_context;
	ck_dat(dat_rmr_free(rmr));
	post_write(pair->server.ep, 1, segment(&pair->server, 0, 8), remote,
		   DAT_COMPLETION_DEFAULT_FLAG);
	expect_ends(pair);
	return completion_of(pair->server.request_evd, 1);
}
