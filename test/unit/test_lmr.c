/* SPDX-License-Identifier: BSD-2-Clause */
/* Local memory regions: arguments, privileges, errors of the device, and accesses of a peer. */
#include <malloc.h>
#include <sched.h>
#include <unistd.h>

#include "region.h"

#define LOCAL_READ   DAT_MEM_PRIV_LOCAL_READ_FLAG
#define LOCAL_WRITE  DAT_MEM_PRIV_LOCAL_WRITE_FLAG
#define REMOTE_READ  DAT_MEM_PRIV_REMOTE_READ_FLAG
#define REMOTE_WRITE DAT_MEM_PRIV_REMOTE_WRITE_FLAG
#define LOCAL	     ((DAT_MEM_PRIV_FLAGS)(LOCAL_READ | LOCAL_WRITE))

static struct ia *ia;
static struct pz *pz;
static DAT_EVD_HANDLE async;
static char memory[256];
static DAT_LMR_HANDLE source; /* of regions over a region; lives as long as the IA */

static struct pz *lmr_pz(void)
{
	DAT_PZ_HANDLE handle;

	ck_dat(pz_create(ia, &handle));
	return handle;
}

static void setup(void)
{
	ia = ia_open_on("fake0", false, &async);
	pz = lmr_pz();
}

static void teardown(void)
{
	ck_dat(ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
	source = NULL;
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}

static DAT_RETURN try_lmr(DAT_MEM_TYPE type, void *address, DAT_VLEN length, unsigned priv,
			  DAT_LMR_HANDLE *lmr)
{
	const DAT_REGION_DESCRIPTION region = { .for_shared_memory = { address, NULL } };

	return lmr_create_va(ia, type, region, length, pz, (DAT_MEM_PRIV_FLAGS)priv, lmr, NULL,
			     NULL, NULL, NULL);
}

/*
 * Memory for a region of any type: a static page; a source region over it without privileges, for
 * DAT_MEM_TYPE_LMR; or a shared page.
 */
static char page[PAGE];
static char *shared;
static size_t page_offset; /* of the region, in bytes */
static char cookie[DAT_LMR_COOKIE_SIZE] = "a cookie";

static char *shared_page(void)
{
	if (!shared)
		shared = map_shared_page();
	return shared;
}

/* The description of @length bytes of that memory. Creates the source region if there is none. */
static DAT_REGION_DESCRIPTION describe_region(DAT_MEM_TYPE type, DAT_VLEN length)
{
	DAT_REGION_DESCRIPTION region = { .for_va = page + page_offset };

	if (type == DAT_MEM_TYPE_LMR) {
		if (!source)
			ck_dat(try_lmr(DAT_MEM_TYPE_VIRTUAL, page + page_offset, length,
				       DAT_MEM_PRIV_NONE_FLAG, &source));
		region.for_lmr_handle = source;
	} else if (type == DAT_MEM_TYPE_SHARED_VIRTUAL) {
		region = describe_shared(shared_page() + page_offset, &cookie);
	}
	return region;
}

static DAT_RETURN try_lmr_of_type(DAT_MEM_TYPE type, DAT_VLEN length, struct pz *zone,
				  unsigned priv, DAT_LMR_HANDLE *lmr)
{
	return lmr_create_va(ia, type, describe_region(type, length), length, zone,
			     (DAT_MEM_PRIV_FLAGS)priv, lmr, NULL, NULL, NULL, NULL);
}

static DAT_LMR_PARAM lmr_param(DAT_LMR_HANDLE lmr)
{
	DAT_LMR_PARAM param;

	memset(&param, 0xff, sizeof(param));
	ck_dat(lmr_query(lmr, DAT_LMR_FIELD_ALL, &param));
	return param;
}

/* The region with @context if it covers the range, or NULL. */
static struct lmr *lmr_covering(DAT_LMR_CONTEXT context, const char *address, DAT_VLEN length)
{
	const DAT_LMR_TRIPLET segment = {
		.lmr_context = context,
		.virtual_address = (uintptr_t)address,
		.segment_length = length,
	};

	struct lmr *lmr = lmr_hold(ia, context);

	if (!lmr)
		return NULL;
	obj_put(&lmr->obj);
	return lmr_covers(lmr, &segment) ? lmr : NULL;
}

START_TEST(query_returns_what_was_requested)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = memory + 1 };
	DAT_LMR_HANDLE lmr = POISON;
	DAT_LMR_CONTEXT lmr_context = 0;
	DAT_RMR_CONTEXT rmr_context = 0;
	DAT_VADDR address = 0;
	DAT_VLEN size = 0;
	DAT_LMR_PARAM param;

	ck_dat(lmr_create_va(ia, DAT_MEM_TYPE_VIRTUAL, region, 1, pz, DAT_MEM_PRIV_ALL_FLAG, &lmr,
			     &lmr_context, &rmr_context, &size, &address));
	param = lmr_param(lmr);
	ck_assert_ptr_eq(param.ia_handle, ia);
	ck_assert_int_eq(param.mem_type, DAT_MEM_TYPE_VIRTUAL);
	ck_assert_ptr_eq(param.region_desc.for_va, memory + 1);
	ck_assert_uint_eq(param.length, 1);
	ck_assert_ptr_eq(param.pz_handle, pz);
	ck_assert_int_eq(param.mem_priv, DAT_MEM_PRIV_ALL_FLAG);
	ck_assert_uint_eq(param.lmr_context, lmr_context);
	ck_assert_uint_eq(param.rmr_context, rmr_context);
	ck_assert_uint_ne(rmr_context, 0);
	ck_assert_uint_eq(param.registered_size, size);
	ck_assert_uint_eq(param.registered_address, address);
	ck_assert_uint_eq(address, (uintptr_t)memory + 1);
	ck_assert_uint_eq(size, 1);
	ck_dat(lmr_free(lmr));
	ck_assert_uint_eq(fake_alive(FAKE_MR), 0);
	ck_dat_is(lmr_free(lmr), BAD_HANDLE(LMR));
}
END_TEST

/* Each bit of the case stands for an output that is not null. */
START_TEST(every_output_except_the_handle_may_be_null)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = memory };
	DAT_LMR_CONTEXT lmr_context = 0;
	DAT_RMR_CONTEXT rmr_context = 0;
	DAT_VADDR address = 0;
	DAT_VLEN size = 0;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_PARAM param;

	ck_dat(lmr_create_va(ia, DAT_MEM_TYPE_VIRTUAL, region, 8, pz, DAT_MEM_PRIV_ALL_FLAG, &lmr,
			     _i & 1 ? &lmr_context : NULL, _i & 2 ? &rmr_context : NULL,
			     _i & 4 ? &size : NULL, _i & 8 ? &address : NULL));
	param = lmr_param(lmr);
	ck_assert_uint_eq(lmr_context, _i & 1 ? param.lmr_context : 0);
	ck_assert_uint_eq(rmr_context, _i & 2 ? param.rmr_context : 0);
	ck_assert_uint_eq(size, _i & 4 ? 8 : 0);
	ck_assert_uint_eq(address, _i & 8 ? (uintptr_t)memory : 0);
}
END_TEST

/* The arguments are refused, or the device fails. */
START_TEST(a_failed_create_changes_no_output)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = memory };
	DAT_LMR_CONTEXT lmr_context = 1;
	DAT_RMR_CONTEXT rmr_context = 2;
	DAT_LMR_HANDLE lmr = POISON;
	DAT_VADDR address = 3;
	DAT_VLEN size = 4;

	if (_i)
		fake_fail("mr_reg", ENOMEM, 1);
	ck_dat_is(lmr_create_va(ia, DAT_MEM_TYPE_VIRTUAL, region, _i ? 8 : 0, pz,
				DAT_MEM_PRIV_ALL_FLAG, &lmr, &lmr_context, &rmr_context, &size,
				&address),
		  _i ? NO_RESOURCE(MEMORY_REGION) : BAD_ARG(4));
	ck_assert_ptr_eq(lmr, POISON);
	ck_assert_uint_eq(lmr_context, 1);
	ck_assert_uint_eq(rmr_context, 2);
	ck_assert_uint_eq(address, 3);
	ck_assert_uint_eq(size, 4);
}
END_TEST

/* A device that rounds to whole pages: the query returns the requested range, too. */
START_TEST(registered_range_is_what_the_device_serves)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	DAT_LMR_HANDLE lmr;
	DAT_LMR_PARAM param;

	fake_quirks(FAKE_MR_ROUNDS);
	ck_dat(try_lmr(DAT_MEM_TYPE_VIRTUAL, memory + 3, 17, LOCAL, &lmr));
	param = lmr_param(lmr);
	ck_assert_ptr_eq(param.region_desc.for_va, memory + 3);
	ck_assert_uint_eq(param.length, 17);
	ck_assert_uint_eq(param.registered_address % page, 0);
	ck_assert_uint_eq(param.registered_size % page, 0);
	ck_assert_uint_le(param.registered_address, (uintptr_t)memory + 3);
	ck_assert_uint_ge(param.registered_address + param.registered_size, (uintptr_t)memory + 20);
}
END_TEST

START_TEST(regions_of_one_range_are_independent)
{
	DAT_LMR_HANDLE a, b;

	ck_dat(try_lmr(DAT_MEM_TYPE_VIRTUAL, memory, sizeof(memory), DAT_MEM_PRIV_ALL_FLAG, &a));
	ck_dat(try_lmr(DAT_MEM_TYPE_VIRTUAL, memory, sizeof(memory), DAT_MEM_PRIV_ALL_FLAG, &b));
	ck_assert_uint_ne(lmr_param(a).lmr_context, lmr_param(b).lmr_context);
	ck_assert_uint_ne(lmr_param(a).rmr_context, lmr_param(b).rmr_context);
	ck_dat(lmr_free(a));
	ck_assert_uint_eq(lmr_param(b).length, sizeof(memory));
}
END_TEST

static const struct {
	unsigned priv;
	bool remote;
} privileges[] = {
	{ DAT_MEM_PRIV_NONE_FLAG, false },
	{ LOCAL_READ, false },
	{ LOCAL_WRITE, false },
	{ LOCAL_READ | LOCAL_WRITE, false },
	{ REMOTE_READ, true },
	{ REMOTE_WRITE, true }, /* without local write */
	{ LOCAL_READ | REMOTE_READ, true },
	{ DAT_MEM_PRIV_ALL_FLAG, true },
};

START_TEST(a_region_has_the_requested_privileges_only)
{
	DAT_LMR_HANDLE lmr;
	DAT_LMR_PARAM param;

	ck_dat(try_lmr(DAT_MEM_TYPE_VIRTUAL, memory, 8, privileges[_i].priv, &lmr));
	param = lmr_param(lmr);
	ck_assert_uint_eq(param.mem_priv, privileges[_i].priv);
	ck_assert_uint_eq(fake_seen().priv, privileges[_i].priv);
	ck_assert_int_eq(param.rmr_context != 0, privileges[_i].remote);
	ck_assert_uint_ne(param.lmr_context, 0);
}
END_TEST

static const struct {
	DAT_MEM_TYPE type;
	bool aware, relaxed;
	unsigned priv;
} orders[] = {
	{ DAT_MEM_TYPE_VIRTUAL, false, false, 0 },
	{ DAT_MEM_TYPE_VIRTUAL, true, true, 0 },
	{ DAT_MEM_TYPE_SO_VIRTUAL, false, false, 0 },
	{ DAT_MEM_TYPE_SO_VIRTUAL, true, false, 0 },
	{ DAT_MEM_TYPE_LMR, false, false, 0 },
	{ DAT_MEM_TYPE_LMR, true, false, 0 },
	{ DAT_MEM_TYPE_SHARED_VIRTUAL, false, false, 0 },
	{ DAT_MEM_TYPE_SHARED_VIRTUAL, true, false, 0 },
	{ DAT_MEM_TYPE_VIRTUAL, false, false, DAT_MEM_PRIV_RO_DISABLE_FLAG },
	{ DAT_MEM_TYPE_VIRTUAL, true, false, DAT_MEM_PRIV_RO_DISABLE_FLAG },
};

/* The flag is Solaris's: the region is strictly ordered all the same. It is not reported. */
START_TEST(only_virtual_regions_of_a_ro_aware_ia_are_relaxed)
{
	DAT_LMR_HANDLE lmr;

	ia->ro_aware = orders[_i].aware;
	ck_dat(try_lmr_of_type(orders[_i].type, 8, pz, LOCAL | orders[_i].priv, &lmr));
	ck_assert_int_eq(fake_seen().relaxed, orders[_i].relaxed);
	ck_assert_uint_eq(lmr_param(lmr).mem_priv, LOCAL);
	ck_assert_int_eq(lmr_param(lmr).mem_type, orders[_i].type);
}
END_TEST

/* The registry recognises the prefix of the name and passes it to the provider. */
/* The arguments of dat_lmr_create from there on. */
#if DAT_EDITION == 2
#define WITH_VA(lmr) DAT_VA_TYPE_VA, lmr
#else
#define WITH_VA(lmr) lmr
#endif

static const struct {
	const char *name;
	bool relaxed;
} names[] = {
	{ "fake0", false },
	{ "RO_AWARE_fake0", true },
};

START_TEST(the_ro_aware_prefix_relaxes_virtual_regions)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = memory };
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE handle;
	DAT_PZ_HANDLE zone;
	DAT_LMR_HANDLE lmr;

	ck_assert_int_eq(setenv("DAT_OVERRIDE", "/dev/null", 1), 0);
	ck_dat(dat_ia_openv((DAT_NAME_PTR)names[_i].name, 8, &evd, &handle, DAT_VERSION_MAJOR,
			    DAT_VERSION_MINOR, DAT_FALSE));
	ck_dat(dat_pz_create(handle, &zone));
	ck_dat(dat_lmr_create(handle, DAT_MEM_TYPE_VIRTUAL, region, 8, zone, LOCAL, WITH_VA(&lmr),
			      NULL, NULL, NULL, NULL));
	ck_assert_int_eq(fake_seen().relaxed, names[_i].relaxed);
	ck_dat(dat_lmr_create(handle, DAT_MEM_TYPE_SO_VIRTUAL, region, 8, zone, LOCAL,
			      WITH_VA(&lmr), NULL, NULL, NULL, NULL));
	ck_assert_int_eq(fake_seen().relaxed, false);
	ck_dat(dat_ia_close(handle, DAT_CLOSE_ABRUPT_FLAG));
}
END_TEST

static const DAT_VLEN lengths[] = { 1, 61, PAGE };

#define PRIVS 16
#define ZONES 2

/* The zone is that of the source region, or another. */
START_TEST(any_type_takes_any_privileges_length_and_zone)
{
	const DAT_MEM_TYPE type = (DAT_MEM_TYPE)(_i % REGION_TYPES);
	const DAT_VLEN length = lengths[_i / REGION_TYPES / PRIVS % COUNT(lengths)];
	struct pz *zone = _i / REGION_TYPES / PRIVS / COUNT(lengths) ? lmr_pz() : pz;
	unsigned bits = (unsigned)(_i / REGION_TYPES % PRIVS), priv = (bits & 3) | (bits & 12) << 2;
	DAT_REGION_DESCRIPTION region = describe_region(type, length);
	DAT_LMR_HANDLE lmr;
	DAT_LMR_PARAM param;
	unsigned uses;

	uses = zone->obj.uses;
	ck_dat(try_lmr_of_type(type, length, zone, priv, &lmr));
	param = lmr_param(lmr);
	ck_assert_int_eq(param.mem_type, type);
	ck_assert_ptr_eq(param.region_desc.for_va, region.for_va);
	ck_assert_uint_eq(param.length, length);
	ck_assert_ptr_eq(param.pz_handle, zone);
	ck_assert_uint_eq(param.mem_priv, priv);
	ck_assert_uint_eq(fake_seen().priv, priv);
	ck_assert_uint_ne(param.lmr_context, 0);
	ck_assert_int_eq(param.rmr_context != 0, (priv & (REMOTE_READ | REMOTE_WRITE)) != 0);
	ck_assert_uint_eq(param.registered_address,
			  (uintptr_t)(type == DAT_MEM_TYPE_SHARED_VIRTUAL ? shared : page));
	ck_assert_uint_eq(param.registered_size, length);
	ck_assert_uint_eq(zone->obj.uses, uses + 1);
	ck_dat(lmr_free(lmr));
	ck_assert_uint_eq(zone->obj.uses, uses);
}
END_TEST

/* ---- regions over regions ---- */

START_TEST(a_derived_region_is_independent_of_its_source)
{
	DAT_LMR_HANDLE first, second, lmr[3];
	DAT_LMR_PARAM param;

	ck_dat(try_lmr(DAT_MEM_TYPE_VIRTUAL, memory + 5, 100, LOCAL_READ, &first));
	ck_dat(try_lmr(DAT_MEM_TYPE_LMR, first, 0, DAT_MEM_PRIV_ALL_FLAG, &lmr[0]));
	ck_dat(try_lmr(DAT_MEM_TYPE_LMR, first, UINT64_MAX, LOCAL, &lmr[1]));
	ck_dat(try_lmr(DAT_MEM_TYPE_LMR, lmr[0], 7, LOCAL_READ, &lmr[2]));
	second = lmr[_i % 3];
	ck_assert_uint_ne(lmr_param(second).lmr_context, lmr_param(first).lmr_context);
	ck_dat(lmr_free(_i < 3 ? first : second));
	ck_dat_is(lmr_free(_i < 3 ? first : second), BAD_HANDLE(LMR));
	param = lmr_param(_i < 3 ? second : first);
	ck_assert_uint_eq(param.length, 100);
	ck_assert_uint_eq(param.registered_address, (uintptr_t)memory + 5);
	ck_assert_uint_eq(param.registered_size, 100);
	ck_assert_ptr_eq(lmr_covering(param.lmr_context, memory + 5, 100), _i < 3 ? second : first);
	ck_assert_ptr_null(lmr_covering(param.lmr_context, memory + 5, 101));
}
END_TEST

/* On a device that rounds, the registered range of both is the same. */
START_TEST(a_derived_region_serves_the_range_of_its_source)
{
	DAT_LMR_PARAM was, param;
	DAT_LMR_HANDLE lmr;

	fake_quirks(FAKE_MR_ROUNDS);
	ck_dat(try_lmr(DAT_MEM_TYPE_VIRTUAL, memory + 5, 100, LOCAL, &source));
	ck_dat(try_lmr(DAT_MEM_TYPE_LMR, source, 1, LOCAL, &lmr));
	was = lmr_param(source);
	param = lmr_param(lmr);
	ck_assert_ptr_eq(param.region_desc.for_lmr_handle, source);
	ck_assert_uint_eq(param.length, was.length);
	ck_assert_uint_eq(param.registered_address, was.registered_address);
	ck_assert_uint_eq(param.registered_size, was.registered_size);
}
END_TEST

START_TEST(create_refuses_a_bad_source)
{
	struct ia *other = ia_open_on("fake1", false, &async);
	DAT_REGION_DESCRIPTION region = { .for_va = memory };
	DAT_LMR_HANDLE lmr = POISON, dead, foreign;
	DAT_PZ_HANDLE zone;

	ck_dat(pz_create(other, &zone));
	ck_dat(lmr_create_va(other, DAT_MEM_TYPE_VIRTUAL, region, 8, zone, LOCAL, &foreign, NULL,
			     NULL, NULL, NULL));
	ck_dat(try_lmr(DAT_MEM_TYPE_VIRTUAL, memory, 8, LOCAL, &dead));
	ck_dat(lmr_free(dead));
	ck_dat_is(try_lmr(DAT_MEM_TYPE_LMR, NULL, 8, LOCAL, &lmr), BAD_HANDLE(LMR));
	ck_dat_is(try_lmr(DAT_MEM_TYPE_LMR, dead, 8, LOCAL, &lmr), BAD_HANDLE(LMR));
	ck_dat_is(try_lmr(DAT_MEM_TYPE_LMR, pz, 8, LOCAL, &lmr), BAD_HANDLE(LMR));
	ck_dat_is(try_lmr(DAT_MEM_TYPE_LMR, memory, 8, LOCAL, &lmr), BAD_HANDLE(LMR));
	ck_dat_is(try_lmr(DAT_MEM_TYPE_LMR, foreign, 8, LOCAL, &lmr), BAD_HANDLE(LMR));
	ck_assert_ptr_eq(lmr, POISON);
	ck_assert_uint_eq(pz->obj.uses, 0);
	ck_dat(ia_close(other, DAT_CLOSE_ABRUPT_FLAG));
}
END_TEST

static void *free_source(void *arg)
{
	return (void *)(uintptr_t)lmr_free(arg);
}

static void *derive_from(void *arg)
{
	DAT_LMR_HANDLE lmr = POISON;
	DAT_RETURN ret = try_lmr(DAT_MEM_TYPE_LMR, arg, 0, LOCAL, &lmr);

	ck_assert_ptr_eq(lmr, POISON);
	return (void *)(uintptr_t)ret;
}

/*
 * Once the other thread holds its zone it has found the source valid, and waits for lmr_lock to
 * read its range.
 */
START_TEST(create_fails_when_its_source_is_freed_meanwhile)
{
	struct pz *zone = pz;
	pthread_t thread;
	struct lmr *lmr;

	ck_dat(try_lmr(DAT_MEM_TYPE_VIRTUAL, memory, 8, LOCAL, &source));
	lmr = source;
	pz = lmr_pz();
	spin_lock(&ia->lmr_lock);
	thread = consumer_thread_start(derive_from, source);
	while (atomic_load(&pz->obj.uses) == 0)
		sched_yield();
	ck_assert(obj_retire(&lmr->obj));
	spin_unlock(&ia->lmr_lock);
	ck_dat_is((DAT_RETURN)(uintptr_t)consumer_thread_join(thread), BAD_STATE(LMR_FREE));
	ck_assert_uint_eq(atomic_load(&pz->obj.uses), 0);
	ck_assert_uint_eq(atomic_load(&zone->obj.uses), 1);
	obj_publish(&lmr->obj);
}
END_TEST

/* The threads race: the create yields a region, or fails and creates nothing. */
START_TEST(create_races_with_the_free_of_its_source)
{
	for (unsigned n = 0; n < 200; n++) {
		DAT_LMR_HANDLE lmr = POISON;
		pthread_t thread;
		DAT_RETURN ret;

		ck_dat(try_lmr(DAT_MEM_TYPE_VIRTUAL, memory, 8, LOCAL, &source));
		thread = consumer_thread_start(free_source, source);
		ret = try_lmr(DAT_MEM_TYPE_LMR, source, 0, LOCAL, &lmr);
		ck_dat((DAT_RETURN)(uintptr_t)consumer_thread_join(thread));
		if (ret == DAT_SUCCESS)
			ck_dat(lmr_free(lmr));
		else
			ck_assert(ret == BAD_HANDLE(LMR) || ret == BAD_STATE(LMR_FREE));
		ck_assert_uint_eq(obj_count(ia, DAT_HANDLE_TYPE_LMR), 0);
	}
}
END_TEST

static const struct {
	const char *why;
	DAT_MEM_TYPE type;
	void *address;
	DAT_VLEN length;
	unsigned priv;
	DAT_RETURN want;
} refusals[] = {
	{ "the type 4 does not exist", (DAT_MEM_TYPE)4, memory, 8, LOCAL, BAD_ARG(2) },
	{ "the type 9 does not exist", (DAT_MEM_TYPE)9, memory, 8, LOCAL, BAD_ARG(2) },
	{ "a negative type", (DAT_MEM_TYPE)-1, memory, 8, LOCAL, BAD_ARG(2) },
	{ "null address", DAT_MEM_TYPE_VIRTUAL, NULL, 8, LOCAL, BAD_ARG(3) },
	{ "null address, strictly ordered", DAT_MEM_TYPE_SO_VIRTUAL, NULL, 8, LOCAL, BAD_ARG(3) },
	{ "null address, and length 0 with an unknown privilege", DAT_MEM_TYPE_VIRTUAL, NULL, 0,
	  0x40, BAD_ARG(3) },
	{ "length 0", DAT_MEM_TYPE_VIRTUAL, memory, 0, LOCAL, BAD_ARG(4) },
	{ "longer than the device allows", DAT_MEM_TYPE_VIRTUAL, memory, (UINT64_C(1) << 40) + 1,
	  LOCAL, BAD_ARG(4) },
	{ "wraps around", DAT_MEM_TYPE_VIRTUAL, (void *)(UINTPTR_MAX - 7), 9, LOCAL, BAD_ARG(4) },
	{ "length of 2^64 - 1", DAT_MEM_TYPE_VIRTUAL, memory, UINT64_MAX, LOCAL, BAD_ARG(4) },
	{ "shared memory at null", DAT_MEM_TYPE_SHARED_VIRTUAL, NULL, 8, LOCAL, BAD_ARG(3) },
	{ "shared memory without a cookie", DAT_MEM_TYPE_SHARED_VIRTUAL, memory, 8, LOCAL,
	  BAD_ARG(3) },
};

START_TEST(create_refuses_bad_arguments)
{
	DAT_LMR_HANDLE lmr = POISON;

	ck_assert_msg(try_lmr(refusals[_i].type, refusals[_i].address, refusals[_i].length,
			      refusals[_i].priv, &lmr) == refusals[_i].want,
		      "%s", refusals[_i].why);
	ck_assert_ptr_eq(lmr, POISON);
	ck_assert_uint_eq(pz->obj.uses, 0);
	ck_assert_uint_eq(fake_calls("mr_reg"), 0);
}
END_TEST

START_TEST(calls_refuse_bad_handles)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = memory };
	struct ia *other = ia_open_on("fake1", false, &async);
	DAT_LMR_HANDLE lmr = POISON;
	DAT_LMR_PARAM param;

	ck_dat_is(lmr_create_va(POISON, DAT_MEM_TYPE_VIRTUAL, region, 8, pz, LOCAL, &lmr, NULL,
				NULL, NULL, NULL),
		  BAD_HANDLE(IA));
	ck_dat_is(lmr_create_va(ia, DAT_MEM_TYPE_VIRTUAL, region, 8, ia, LOCAL, &lmr, NULL, NULL,
				NULL, NULL),
		  BAD_HANDLE(PZ));
	ck_dat_is(lmr_create_va(other, DAT_MEM_TYPE_VIRTUAL, region, 8, pz, LOCAL, &lmr, NULL, NULL,
				NULL, NULL),
		  BAD_HANDLE(PZ));
	ck_dat_is(try_lmr(DAT_MEM_TYPE_VIRTUAL, memory, 8, LOCAL, NULL),
		  OF_EDITION(BAD_ARG(7), BAD_ARG(8)));
	ck_assert_ptr_eq(lmr, POISON);
	ck_dat(try_lmr(DAT_MEM_TYPE_VIRTUAL, memory, 8, LOCAL, &lmr));
	ck_dat_is(lmr_query(lmr, DAT_LMR_FIELD_ALL, NULL), BAD_ARG(3));
	ck_dat_is(lmr_query(lmr, (DAT_LMR_PARAM_MASK)0x400, &param), DAT_SUCCESS);
	ck_dat_is(lmr_query(pz, DAT_LMR_FIELD_ALL, &param), BAD_HANDLE(LMR));
	ck_dat_is(lmr_free(pz), BAD_HANDLE(LMR));
	ck_dat(ia_close(other, DAT_CLOSE_ABRUPT_FLAG));
}
END_TEST

/* Shared memory with a cookie: bad arguments are refused before the memory is examined. */
static const struct {
	DAT_VLEN length;
	uintptr_t address;
	unsigned priv;
	DAT_RETURN want;
} shared_refusals[] = {
	{ 0, 4096, LOCAL, BAD_ARG(4) },
	{ (UINT64_C(1) << 40) + 1, 4096, LOCAL, BAD_ARG(4) },
	{ 9, UINTPTR_MAX - 7, LOCAL, BAD_ARG(4) },
	{ UINT64_MAX, 4096, LOCAL, BAD_ARG(4) },
	{ 8, 0, LOCAL, BAD_ARG(3) },
};

START_TEST(create_refuses_bad_arguments_of_shared_memory)
{
	DAT_REGION_DESCRIPTION region = describe_region(DAT_MEM_TYPE_SHARED_VIRTUAL, 8);
	DAT_LMR_HANDLE lmr = POISON;

	region.for_shared_memory.virtual_address = (DAT_PVOID)shared_refusals[_i].address;
	ck_dat_is(lmr_create_va(ia, DAT_MEM_TYPE_SHARED_VIRTUAL, region, shared_refusals[_i].length,
				pz, (DAT_MEM_PRIV_FLAGS)shared_refusals[_i].priv, &lmr, NULL, NULL,
				NULL, NULL),
		  shared_refusals[_i].want);
	ck_assert_ptr_eq(lmr, POISON);
	ck_assert_uint_eq(pz->obj.uses, 0);
}
END_TEST

/* Three pages: the first is readable and writable, the second read-only, the third unmapped. */
static char *three_pages(size_t page)
{
	char *pages = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			   0);

	ck_assert_ptr_ne(pages, MAP_FAILED);
	ck_assert_int_eq(mprotect(pages + page, page, PROT_READ), 0);
	ck_assert_int_eq(munmap(pages + 2 * page, page), 0);
	return pages;
}

/*
 * The offset and length are in quarters of a page. A fault of the memory decides the status, not
 * the error of the device.
 */
static const struct {
	unsigned first, count, priv;
	int err;
	DAT_RETURN want;
} device_errors[] = {
	{ 0, 4, LOCAL, EFAULT, BAD_ARG(3) },
	{ 0, 4, LOCAL, EINVAL, BAD_ARG(3) },
	{ 0, 4, LOCAL, ENOMEM, NO_RESOURCE(MEMORY_REGION) },
	{ 0, 4, LOCAL, EAGAIN, NO_RESOURCE(MEMORY_REGION) },
	{ 0, 4, LOCAL, EPERM, NO_RESOURCE(MEMORY_REGION) },
	{ 0, 4, LOCAL, EIO, DAT_ERROR(DAT_INTERNAL_ERROR, 0) },
	{ 3, 2, LOCAL, EFAULT, DAT_ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE) },
	{ 4, 4, LOCAL_WRITE, EACCES, DAT_ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE) },
	{ 4, 4, REMOTE_WRITE, EFAULT, DAT_ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE) },
	{ 4, 4, LOCAL_READ, ENOMEM, NO_RESOURCE(MEMORY_REGION) },
	{ 4, 4, LOCAL_READ | REMOTE_READ, EFAULT, BAD_ARG(3) },
	{ 6, 4, LOCAL_READ, EFAULT, BAD_ARG(3) },
	{ 0, 12, LOCAL, EFAULT, BAD_ARG(3) },
	{ 8, 1, LOCAL, ENOMEM, BAD_ARG(3) },
	{ 11, 1, LOCAL, EFAULT, BAD_ARG(3) },
};

START_TEST(a_device_error_is_explained_by_the_memory)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages = three_pages(page);
	DAT_LMR_HANDLE lmr = POISON;

	fake_fail("mr_reg", device_errors[_i].err, 1);
	ck_dat_is(try_lmr(DAT_MEM_TYPE_VIRTUAL, pages + device_errors[_i].first * page / 4,
			  device_errors[_i].count * page / 4, device_errors[_i].priv, &lmr),
		  device_errors[_i].want);
	ck_assert_ptr_eq(lmr, POISON);
	ck_assert_uint_eq(pz->obj.uses, 0);
	ck_assert_uint_eq(fake_alive(FAKE_MR), 0);
}
END_TEST

/* A region of any type with local write, over memory that is mapped read-only. */
START_TEST(read_only_memory_is_a_privileges_violation)
{
	const DAT_MEM_TYPE type = (DAT_MEM_TYPE)_i;
	DAT_REGION_DESCRIPTION region = { .for_va = shared_page() };
	DAT_LMR_HANDLE lmr = POISON;

	if (type == DAT_MEM_TYPE_LMR)
		ck_dat(try_lmr(DAT_MEM_TYPE_VIRTUAL, shared, PAGE, LOCAL_READ,
			       &region.for_lmr_handle));
	else if (type == DAT_MEM_TYPE_SHARED_VIRTUAL)
		region.for_shared_memory.shared_memory_id = &cookie;
	ck_assert_int_eq(mprotect(shared, PAGE, PROT_READ), 0);
	fake_fail("mr_reg", EFAULT, 1);
	ck_dat_is(lmr_create_va(ia, type, region, PAGE, pz, LOCAL, &lmr, NULL, NULL, NULL, NULL),
		  DAT_ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE));
	ck_assert_ptr_eq(lmr, POISON);
	ck_dat(lmr_create_va(ia, type, region, PAGE, pz, LOCAL_READ, &lmr, NULL, NULL, NULL, NULL));
}
END_TEST

/* Two neighbouring areas, which the kernel lists separately, are one range. */
START_TEST(a_range_may_span_two_areas)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages = three_pages(page);
	DAT_LMR_HANDLE lmr;

	fake_fail("mr_reg", ENOMEM, 1);
	ck_dat_is(try_lmr(DAT_MEM_TYPE_VIRTUAL, pages, 2 * page, LOCAL_READ, &lmr),
		  NO_RESOURCE(MEMORY_REGION));
	ck_dat(try_lmr(DAT_MEM_TYPE_VIRTUAL, pages, 2 * page, LOCAL_READ, &lmr));
}
END_TEST

START_TEST(a_failed_create_leaves_nothing_behind)
{
	const DAT_MEM_TYPE type = (DAT_MEM_TYPE)_i;
	DAT_LMR_HANDLE lmr = POISON;
	unsigned n = 1, before;

	(void)describe_region(type, 8); /* creates the source region */
	before = obj_count(ia, DAT_HANDLE_TYPE_LMR);
	for (; fake_fail_call(n), try_lmr_of_type(type, 8, pz, LOCAL, &lmr) != DAT_SUCCESS; n++) {
		ck_assert_ptr_eq(lmr, POISON);
		ck_assert_uint_eq(fake_alive(FAKE_MR), before);
		ck_assert_uint_eq(pz->obj.uses, before);
		ck_assert_uint_eq(obj_count(ia, DAT_HANDLE_TYPE_LMR), before);
	}
	fake_fail_call(0);
	ck_assert_uint_eq(n, 2);
	ck_dat(lmr_free(lmr));
	ck_assert_uint_eq(pz->obj.uses, before);
}
END_TEST

static const struct {
	int err;
	DAT_RETURN ret;
} dereg_failures[] = {
	{ EIO, DAT_ERROR(DAT_INTERNAL_ERROR, 0) },
	{ EBUSY, BAD_STATE(LMR_IN_USE) },
	{ EINVAL, BAD_STATE(LMR_IN_USE) }, /* soft-RoCE, while a window is bound to it */
};

START_TEST(dereg_failure_keeps_the_region)
{
	DAT_LMR_HANDLE lmr;

	ck_dat(try_lmr(DAT_MEM_TYPE_VIRTUAL, memory, 8, LOCAL, &lmr));
	fake_fail("mr_dereg", dereg_failures[_i].err, 1);
	ck_dat_is(lmr_free(lmr), dereg_failures[_i].ret);
	ck_assert_ptr_eq(lmr_covering(lmr_param(lmr).lmr_context, memory, 8), lmr);
	ck_assert_uint_eq(lmr_param(lmr).length, 8);
	ck_assert_uint_eq(pz->obj.uses, 1);
	ck_dat(lmr_free(lmr));
}
END_TEST

START_TEST(a_region_in_use_is_not_freed)
{
	DAT_LMR_HANDLE lmr;

	ck_dat(try_lmr(DAT_MEM_TYPE_VIRTUAL, memory, 8, LOCAL, &lmr));
	ck_assert(obj_hold(ia, lmr, DAT_HANDLE_TYPE_LMR));
	ck_dat_is(lmr_free(lmr), BAD_STATE(LMR_IN_USE));
	ck_assert_uint_eq(lmr_param(lmr).length, 8);
	obj_put(&((struct lmr *)lmr)->obj);
	ck_dat(lmr_free(lmr));
}
END_TEST

/* The region is the bytes 16 to 47. That the device serves the whole page does not matter. */
static const struct {
	int offset;
	DAT_VLEN length;
	bool found;
} ranges[] = {
	{ 16, 32, true },
	{ 16, 0, false },
	{ 17, 31, true },
	{ 48, 0, false },
	{ 47, 1, true },
	{ 15, 1, false },
	{ 15, 0, false },
	{ 16, 33, false },
	{ 48, 1, false },
	{ 49, 0, false },
	{ 17, 32, false },
	{ 0, 256, false },
	{ 17, UINT64_MAX, false },
	{ 16, UINT64_MAX, false },
	{ 17, UINT64_MAX - 15, false }, /* wraps around and ends within the region */
};

START_TEST(a_region_is_found_by_context_and_range)
{
	DAT_LMR_HANDLE lmr, other;
	DAT_LMR_CONTEXT context;

	fake_quirks(FAKE_MR_ROUNDS);
	ck_dat(try_lmr(DAT_MEM_TYPE_VIRTUAL, memory + 16, 32, LOCAL, &lmr));
	ck_dat(try_lmr(DAT_MEM_TYPE_VIRTUAL, memory, sizeof(memory), LOCAL, &other));
	context = lmr_param(lmr).lmr_context;
	ck_assert_ptr_eq(lmr_covering(context, memory + ranges[_i].offset, ranges[_i].length),
			 ranges[_i].found ? lmr : NULL);
	ck_dat(lmr_free(lmr));
	ck_assert_ptr_null(lmr_covering(context, memory + ranges[_i].offset, ranges[_i].length));
	ck_assert_ptr_eq(lmr_covering(lmr_param(other).lmr_context, memory, sizeof(memory)), other);
}
END_TEST

/* ---- the sync calls ---- */

/* The region is the bytes 16 to 47. @which: the region whose context the segment has. */
enum which { LIVE, FREED, OTHER_IA, UNKNOWN };

static const struct {
	const char *why;
	enum which which;
	int offset;
	DAT_VLEN length;
	DAT_RETURN want;
} syncs[] = {
	{ "the whole region", LIVE, 16, 32, DAT_SUCCESS },
	{ "its last byte", LIVE, 47, 1, DAT_SUCCESS },
	{ "no bytes at its end", LIVE, 48, 0, DAT_SUCCESS },
	{ "no bytes, unknown context", UNKNOWN, 0, 0, DAT_SUCCESS },
	{ "one byte before", LIVE, 15, 2, BAD_ARG(2) },
	{ "one byte after", LIVE, 47, 2, BAD_ARG(2) },
	{ "one byte too long", LIVE, 16, 33, BAD_ARG(2) },
	{ "wraps around", LIVE, 17, UINT64_MAX, BAD_ARG(2) },
	{ "wraps around into the region", LIVE, 32, UINT64_MAX - 7, BAD_ARG(2) },
	{ "a freed region", FREED, 16, 32, BAD_ARG(2) },
	{ "a region of another IA", OTHER_IA, 16, 32, BAD_ARG(2) },
	{ "unknown context", UNKNOWN, 16, 32, BAD_ARG(2) },
};

static DAT_LMR_CONTEXT sync_context(enum which which, struct ia *other)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = memory + 16 };
	struct ia *mine = ia;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT context;
	DAT_PZ_HANDLE zone;

	ck_dat(pz_create(which == OTHER_IA ? other : mine, &zone));
	ck_dat(lmr_create_va(which == OTHER_IA ? other : mine, DAT_MEM_TYPE_VIRTUAL, region, 32,
			     zone, LOCAL, &lmr, &context, NULL, NULL, NULL));
	if (which == FREED)
		ck_dat(lmr_free(lmr));
	return which == UNKNOWN ? ~context : context;
}

static DAT_LMR_TRIPLET range_of(DAT_LMR_CONTEXT context, int offset, DAT_VLEN length)
{
	return (DAT_LMR_TRIPLET){
		.lmr_context = context,
		.virtual_address = (uintptr_t)memory + (uintptr_t)offset,
		.segment_length = (__typeof__(((DAT_LMR_TRIPLET *)0)->segment_length))length,
	};
}

typedef DAT_RETURN (*sync_call)(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *segments, DAT_VLEN nseg);
static const sync_call sync_calls[] = { lmr_sync_rdma_read, lmr_sync_rdma_write };

START_TEST(sync_accepts_registered_ranges_only)
{
	struct ia *other = ia_open_on("fake1", false, &async);
	DAT_LMR_TRIPLET segments[] = {
		range_of(sync_context(LIVE, other), 16, 32),
		range_of(sync_context(syncs[_i].which, other), syncs[_i].offset, syncs[_i].length),
		range_of(sync_context(LIVE, other), 20, 1),
	};

	for (int call = 0; call < COUNT(sync_calls); call++) {
		ck_assert_msg(sync_calls[call](ia, segments, 3) == syncs[_i].want, "%s",
			      syncs[_i].why);
		ck_assert_msg(sync_calls[call](ia, segments + 1, 1) == syncs[_i].want, "%s, alone",
			      syncs[_i].why);
		/* the segments beyond the count are ignored */
		ck_dat(sync_calls[call](ia, segments, 1));
	}
	ck_dat(ia_close(other, DAT_CLOSE_ABRUPT_FLAG));
}
END_TEST

START_TEST(sync_has_a_count_of_64_bits)
{
	DAT_LMR_TRIPLET segments[2] = { range_of(sync_context(LIVE, ia), 16, 32), { 0 } };

	segments[1] = segments[0];
	segments[1].lmr_context = ~segments[0].lmr_context;
	for (int call = 0; call < COUNT(sync_calls); call++) {
		ck_dat(sync_calls[call](ia, segments, 0));
		ck_dat(sync_calls[call](ia, NULL, 0));
		ck_dat_is(sync_calls[call](ia, NULL, 1), BAD_ARG(2));
		ck_dat_is(sync_calls[call](ia, NULL, UINT64_C(1) << 32), BAD_ARG(2));
		ck_dat_is(sync_calls[call](ia, segments, (UINT64_C(1) << 32) + 1), BAD_ARG(2));
		ck_dat_is(sync_calls[call](ia, segments, UINT64_MAX), BAD_ARG(2));
		ck_dat_is(sync_calls[call](pz, segments, 1), BAD_HANDLE(IA));
		ck_dat_is(sync_calls[call](NULL, segments, 1), BAD_HANDLE(IA));
	}
}
END_TEST

/* ---- many regions ---- */

static void *create_and_free_lmrs(void *arg)
{
	(void)arg;
	for (unsigned n = 0; n < 500; n++) {
		const DAT_MEM_TYPE type = (DAT_MEM_TYPE)(n % REGION_TYPES);
		DAT_LMR_TRIPLET segment;
		DAT_LMR_HANDLE lmr;
		DAT_LMR_PARAM param;

		ck_dat(try_lmr_of_type(type, 64, pz, LOCAL, &lmr));
		param = lmr_param(lmr);
		segment.lmr_context = param.lmr_context;
		segment.virtual_address = param.registered_address;
		segment.segment_length = 64;
		ck_dat(lmr_sync_rdma_read(ia, &segment, 1));
		ck_dat(lmr_free(lmr));
	}
	return NULL;
}

START_TEST(threads_create_and_free)
{
	pthread_t threads[2];

	(void)describe_region(DAT_MEM_TYPE_LMR, 64);
	(void)shared_page();
	for (int i = 0; i < 2; i++)
		threads[i] = consumer_thread_start(create_and_free_lmrs, NULL);
	for (int i = 0; i < 2; i++)
		consumer_thread_join(threads[i]);
	ck_assert_uint_eq(obj_count(ia, DAT_HANDLE_TYPE_LMR), 1);
	ck_assert_uint_eq(fake_alive(FAKE_MR), 1);
}
END_TEST

/* The smallest allocation takes 32 bytes; a leak of one per turn exceeds half of that. */
START_TEST(create_and_free_leak_nothing)
{
	const DAT_MEM_TYPE type = (DAT_MEM_TYPE)_i;
	const unsigned turns = 1000;
	unsigned alive;
	size_t before = 0;
	DAT_LMR_HANDLE lmr;

	(void)describe_region(type, 8);
	alive = fake_alive(FAKE_MR);
	for (unsigned n = 0; n < turns; n++) {
		if (n == 100) /* by now tables and caches have their size */
			before = mallinfo2().uordblks;
		ck_dat(try_lmr_of_type(type, 8, pz, LOCAL, &lmr));
		ck_dat(lmr_free(lmr));
	}
	ck_assert_uint_lt(mallinfo2().uordblks, before + 16 * turns);
	ck_assert_uint_eq(fake_alive(FAKE_MR), alive);
}
END_TEST

/* As in a cache of registrations: overlapping regions, freed in another order. */
START_TEST(thousands_of_overlapping_regions_are_found)
{
	enum { N = 3000 };
	static DAT_LMR_HANDLE lmr[N];

	for (unsigned i = 0; i < N; i++)
		ck_dat(try_lmr(DAT_MEM_TYPE_VIRTUAL, memory + i % 100, 100, DAT_MEM_PRIV_ALL_FLAG,
			       &lmr[i]));
	for (unsigned i = 0; i < N; i++)
		ck_assert_ptr_eq(lmr_covering(lmr_param(lmr[i]).lmr_context, memory + i % 100, 100),
				 lmr[i]);
	for (unsigned i = 0; i < N; i++)
		ck_dat(lmr_free(lmr[i * 7 % N]));
	ck_assert_uint_eq(fake_alive(FAKE_MR), 0);
	ck_assert_uint_eq(obj_count(ia, DAT_HANDLE_TYPE_LMR), 0);
}
END_TEST

/* ---- accesses of a peer ---- */

/* The region of the server, in the middle of its page; the client accesses it. */
#define REGION_SIZE 61 /* bytes */

static struct pair pair;

static void peer_setup(void)
{
	pair_connect(&pair);
	ia = pair.server.ia;
	pz = pair.server.pz;
	page_offset = 101;
}

static void peer_teardown(void)
{
	ck_dat(ia_close(pair.client.ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat(ia_close(pair.server.ia, DAT_CLOSE_ABRUPT_FLAG));
	free(pair.client.memory);
	free(pair.server.memory);
	pair = (struct pair){ 0 };
	source = NULL;
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}

static void bytes_are(const char *at, size_t count, char byte)
{
	for (size_t i = 0; i < count; i++)
		ck_assert_msg(at[i] == byte, "byte %zu is %c, not %c", i, at[i], byte);
}

/*
 * The client accesses @length bytes at @offset in the region. If the access is @allowed, exactly
 * these bytes are transferred, else none.
 */
static void lmr_access_is(enum access access, DAT_MEM_TYPE type, DAT_RMR_CONTEXT context,
			  int offset, size_t length, bool allowed)
{
	char *bytes = type == DAT_MEM_TYPE_SHARED_VIRTUAL ? shared : page;
	char *at = bytes + page_offset + offset, *client_memory = pair.client.memory;
	DAT_LMR_TRIPLET local = segment(&pair.client, 0, length);
	DAT_RMR_TRIPLET remote = {
		.rmr_context = context,
		.REMOTE_ADDRESS = (uintptr_t)at,
		.segment_length = length,
	};
	size_t read = allowed && access == READS ? length : 0,
	       written = allowed && access == WRITES ? length : 0;

	memset(client_memory, 'a', PAGE);
	memset(bytes, 'b', PAGE);
	if (access == READS)
		ck_dat(ep_post_rdma_read(pair.client.ep, 1, &local, cookie_of(7), &remote, 0));
	else
		ck_dat(ep_post_rdma_write(pair.client.ep, 1, &local, cookie_of(7), &remote, 0));
	expect_dto(pair.client.request_evd, 7,
		   allowed ? DAT_DTO_SUCCESS : DAT_DTO_ERR_REMOTE_ACCESS);
	bytes_are(client_memory, read, 'b');
	bytes_are(client_memory + read, PAGE - read, 'a');
	bytes_are(bytes, (size_t)(at - bytes), 'b');
	bytes_are(at, written, 'a');
	bytes_are(at + written, PAGE - written - (size_t)(at - bytes), 'b');
}

static const struct {
	int offset;
	size_t length;
	bool allowed;
} peer_ranges[] = {
	{ 0, REGION_SIZE, true },
	{ 0, 1, true },
	{ REGION_SIZE - 1, 1, true },
	{ -1, 1, false },
	{ -1, 2, false },
	{ -1, REGION_SIZE, false },
	{ REGION_SIZE, 1, false },
	{ REGION_SIZE - 1, 2, false },
	{ 1, REGION_SIZE, false },
	{ 0, REGION_SIZE + 1, false },
	{ -1, REGION_SIZE + 2, false },
};

START_TEST(peers_access_the_bytes_of_the_region_only)
{
	const DAT_MEM_TYPE type = (DAT_MEM_TYPE)(_i % REGION_TYPES);
	const int range = _i / REGION_TYPES % COUNT(peer_ranges);
	DAT_LMR_HANDLE lmr;

	ck_dat(try_lmr_of_type(type, REGION_SIZE, pz, DAT_MEM_PRIV_ALL_FLAG, &lmr));
	lmr_access_is((enum access)(_i / REGION_TYPES / COUNT(peer_ranges)), type,
		      lmr_param(lmr).rmr_context, peer_ranges[range].offset,
		      peer_ranges[range].length, peer_ranges[range].allowed);
}
END_TEST

START_TEST(peers_have_the_privileges_of_the_region)
{
	const DAT_MEM_TYPE type = (DAT_MEM_TYPE)(_i % REGION_TYPES);
	const enum access access = (enum access)(_i / REGION_TYPES / PRIVS);
	unsigned bits = (unsigned)(_i / REGION_TYPES % PRIVS), priv = (bits & 3) | (bits & 12) << 2;
	DAT_LMR_HANDLE lmr;

	ck_dat(try_lmr_of_type(type, REGION_SIZE, pz, priv, &lmr));
	lmr_access_is(access, type, lmr_param(lmr).rmr_context, 0, REGION_SIZE,
		      priv & (access == READS ? REMOTE_READ : REMOTE_WRITE));
}
END_TEST

enum key { GARBLED, LOCAL_ONE, OF_FREED, OF_OTHER_ZONE, KEYS };

/* Another region over the same bytes exists all the time. */
START_TEST(other_keys_give_no_access)
{
	const DAT_MEM_TYPE type = (DAT_MEM_TYPE)(_i % REGION_TYPES);
	const enum key key = (enum key)(_i / REGION_TYPES % KEYS);
	struct pz *zone = key == OF_OTHER_ZONE ? lmr_pz() : pz;
	DAT_LMR_HANDLE lmr, alive;
	DAT_RMR_CONTEXT context;

	ck_dat(try_lmr_of_type(type, REGION_SIZE, pz, DAT_MEM_PRIV_ALL_FLAG, &alive));
	ck_dat(try_lmr_of_type(type, REGION_SIZE, zone, DAT_MEM_PRIV_ALL_FLAG, &lmr));
	context = key == LOCAL_ONE ? lmr_param(lmr).lmr_context : lmr_param(lmr).rmr_context;
	if (key == GARBLED)
		context ^= 0x100000;
	if (key == OF_FREED)
		ck_dat(lmr_free(lmr));
	lmr_access_is((enum access)(_i / REGION_TYPES / KEYS), type, context, 0, REGION_SIZE,
		      false);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("regions"), *kinds = tcase_create("kinds");
	TCase *peers = tcase_create("peers");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_test(cases, query_returns_what_was_requested);
	tcase_add_loop_test(cases, every_output_except_the_handle_may_be_null, 0, 16);
	tcase_add_loop_test(cases, a_failed_create_changes_no_output, 0, 2);
	tcase_add_test(cases, registered_range_is_what_the_device_serves);
	tcase_add_test(cases, regions_of_one_range_are_independent);
	tcase_add_loop_test(cases, a_region_has_the_requested_privileges_only, 0,
			    COUNT(privileges));
	tcase_add_loop_test(cases, only_virtual_regions_of_a_ro_aware_ia_are_relaxed, 0,
			    COUNT(orders));
	tcase_add_loop_test(cases, create_refuses_bad_arguments, 0, COUNT(refusals));
	tcase_add_loop_test(cases, create_refuses_bad_arguments_of_shared_memory, 0,
			    COUNT(shared_refusals));
	tcase_add_test(cases, calls_refuse_bad_handles);
	tcase_add_loop_test(cases, a_device_error_is_explained_by_the_memory, 0,
			    COUNT(device_errors));
	tcase_add_loop_test(cases, read_only_memory_is_a_privileges_violation, 0, REGION_TYPES);
	tcase_add_test(cases, a_range_may_span_two_areas);
	tcase_add_loop_test(cases, a_failed_create_leaves_nothing_behind, 0, REGION_TYPES);
	tcase_add_loop_test(cases, dereg_failure_keeps_the_region, 0, ARRAY_SIZE(dereg_failures));
	tcase_add_test(cases, a_region_in_use_is_not_freed);
	tcase_add_loop_test(cases, a_region_is_found_by_context_and_range, 0, COUNT(ranges));
	tcase_add_loop_test(cases, the_ro_aware_prefix_relaxes_virtual_regions, 0, COUNT(names));
	tcase_add_loop_test(cases, a_derived_region_is_independent_of_its_source, 0, 6);
	tcase_add_test(cases, a_derived_region_serves_the_range_of_its_source);
	tcase_add_test(cases, create_refuses_a_bad_source);
	tcase_add_test(cases, create_fails_when_its_source_is_freed_meanwhile);
	tcase_add_test(cases, create_races_with_the_free_of_its_source);
	tcase_add_loop_test(cases, sync_accepts_registered_ranges_only, 0, COUNT(syncs));
	tcase_add_test(cases, sync_has_a_count_of_64_bits);
	tcase_add_test(cases, threads_create_and_free);
	tcase_add_loop_test(cases, create_and_free_leak_nothing, 0, REGION_TYPES);
	tcase_add_test(cases, thousands_of_overlapping_regions_are_found);
	/* a look for leaks at the end of each process takes most of their time */
	case_share_process(kinds);
	tcase_add_checked_fixture(kinds, setup, teardown);
	tcase_add_loop_test(kinds, any_type_takes_any_privileges_length_and_zone, 0,
			    REGION_TYPES * PRIVS * COUNT(lengths) * ZONES);
	case_share_process(peers);
	tcase_add_checked_fixture(peers, peer_setup, peer_teardown);
	tcase_add_loop_test(peers, peers_access_the_bytes_of_the_region_only, 0,
			    REGION_TYPES * COUNT(peer_ranges) * ACCESSES);
	tcase_add_loop_test(peers, peers_have_the_privileges_of_the_region, 0,
			    REGION_TYPES * PRIVS * ACCESSES);
	tcase_add_loop_test(peers, other_keys_give_no_access, 0, REGION_TYPES * KEYS * ACCESSES);
	return run_unit_cases(argc, argv);
}
