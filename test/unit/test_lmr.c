/* SPDX-License-Identifier: BSD-2-Clause */
/* Local memory regions: arguments, rights, what a device refuses and why. */
#include <malloc.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

#define LOCAL_READ   DAT_MEM_PRIV_LOCAL_READ_FLAG
#define LOCAL_WRITE  DAT_MEM_PRIV_LOCAL_WRITE_FLAG
#define REMOTE_READ  DAT_MEM_PRIV_REMOTE_READ_FLAG
#define REMOTE_WRITE DAT_MEM_PRIV_REMOTE_WRITE_FLAG
#define LOCAL	     ((DAT_MEM_PRIV_FLAGS)(LOCAL_READ | LOCAL_WRITE))

static struct ia *ia;
static struct pz *pz;
static DAT_EVD_HANDLE async;
static char memory[256];

static struct pz *make_pz(void)
{
	DAT_PZ_HANDLE handle;

	ck_dat(pz_create(ia, &handle));
	return handle;
}

static void setup(void)
{
	ia = ia_open_on("fake0", false, &async);
	pz = make_pz();
}

static void teardown(void)
{
	ck_dat(ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}

static DAT_RETURN make(DAT_MEM_TYPE type, void *address, DAT_VLEN length, unsigned priv,
		       DAT_LMR_HANDLE *lmr)
{
	const DAT_REGION_DESCRIPTION region = { .for_shared_memory = { address, NULL } };

	return lmr_create(ia, type, region, length, pz, (DAT_MEM_PRIV_FLAGS)priv, lmr, NULL, NULL,
			  NULL, NULL);
}

/*
 * One of any type, over PAGE bytes at most that fit it: static ones, those of a source region that
 * has no right at all, or a page that is shared.
 */
#define PAGE 4096

static char page[PAGE];
static char *shared;
static size_t from; /* where in its page a region begins */
static char cookie[DAT_LMR_COOKIE_SIZE] = "a name";
static DAT_LMR_HANDLE source;

static char *shared_page(void)
{
	if (!shared)
		shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			      0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
	return shared;
}

static DAT_REGION_DESCRIPTION region_for(DAT_MEM_TYPE type, DAT_VLEN length)
{
	DAT_REGION_DESCRIPTION region = { .for_va = page + from };

	if (type == DAT_MEM_TYPE_LMR) {
		if (!source)
			ck_dat(make(DAT_MEM_TYPE_VIRTUAL, page + from, length,
				    DAT_MEM_PRIV_NONE_FLAG, &source));
		region.for_lmr_handle = source;
	} else if (type == DAT_MEM_TYPE_SHARED_VIRTUAL) {
		region.for_shared_memory.virtual_address = shared_page() + from;
		region.for_shared_memory.shared_memory_id = &cookie;
	}
	return region;
}

static DAT_RETURN make_any(DAT_MEM_TYPE type, DAT_VLEN length, struct pz *zone, unsigned priv,
			   DAT_LMR_HANDLE *lmr)
{
	return lmr_create(ia, type, region_for(type, length), length, zone,
			  (DAT_MEM_PRIV_FLAGS)priv, lmr, NULL, NULL, NULL, NULL);
}

static DAT_LMR_PARAM queried(DAT_LMR_HANDLE lmr)
{
	DAT_LMR_PARAM param;

	memset(&param, 0xff, sizeof(param));
	ck_dat(lmr_query(lmr, DAT_LMR_FIELD_ALL, &param));
	return param;
}

static struct lmr *find(DAT_LMR_CONTEXT context, const char *address, DAT_VLEN length)
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

START_TEST(is_what_was_asked_for)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = memory + 1 };
	DAT_LMR_HANDLE lmr = POISON;
	DAT_LMR_CONTEXT lmr_context = 0;
	DAT_RMR_CONTEXT rmr_context = 0;
	DAT_VADDR address = 0;
	DAT_VLEN size = 0;
	DAT_LMR_PARAM param;

	ck_dat(lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, 1, pz, DAT_MEM_PRIV_ALL_FLAG, &lmr,
			  &lmr_context, &rmr_context, &size, &address));
	param = queried(lmr);
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

/* Each bit of the case is an output that is asked for. */
START_TEST(any_output_but_the_handle_may_be_null)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = memory };
	DAT_LMR_CONTEXT lmr_context = 0;
	DAT_RMR_CONTEXT rmr_context = 0;
	DAT_VADDR address = 0;
	DAT_VLEN size = 0;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_PARAM param;

	ck_dat(lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, 8, pz, DAT_MEM_PRIV_ALL_FLAG, &lmr,
			  _i & 1 ? &lmr_context : NULL, _i & 2 ? &rmr_context : NULL,
			  _i & 4 ? &size : NULL, _i & 8 ? &address : NULL));
	param = queried(lmr);
	ck_assert_uint_eq(lmr_context, _i & 1 ? param.lmr_context : 0);
	ck_assert_uint_eq(rmr_context, _i & 2 ? param.rmr_context : 0);
	ck_assert_uint_eq(size, _i & 4 ? 8 : 0);
	ck_assert_uint_eq(address, _i & 8 ? (uintptr_t)memory : 0);
}
END_TEST

/* Refused here, or by the device. */
START_TEST(a_failure_leaves_every_output_alone)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = memory };
	DAT_LMR_CONTEXT lmr_context = 1;
	DAT_RMR_CONTEXT rmr_context = 2;
	DAT_LMR_HANDLE lmr = POISON;
	DAT_VADDR address = 3;
	DAT_VLEN size = 4;

	if (_i)
		fake_fail("mr_reg", ENOMEM, 1);
	ck_dat_is(lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, _i ? 8 : 0, pz,
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

/* A device that serves whole pages says so; what was asked stays what it was. */
START_TEST(reports_what_the_device_serves)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	DAT_LMR_HANDLE lmr;
	DAT_LMR_PARAM param;

	fake_quirks(FAKE_MR_ROUNDS);
	ck_dat(make(DAT_MEM_TYPE_VIRTUAL, memory + 3, 17, LOCAL, &lmr));
	param = queried(lmr);
	ck_assert_ptr_eq(param.region_desc.for_va, memory + 3);
	ck_assert_uint_eq(param.length, 17);
	ck_assert_uint_eq(param.registered_address % page, 0);
	ck_assert_uint_eq(param.registered_size % page, 0);
	ck_assert_uint_le(param.registered_address, (uintptr_t)memory + 3);
	ck_assert_uint_ge(param.registered_address + param.registered_size, (uintptr_t)memory + 20);
}
END_TEST

START_TEST(same_range_twice)
{
	DAT_LMR_HANDLE a, b;

	ck_dat(make(DAT_MEM_TYPE_VIRTUAL, memory, sizeof(memory), DAT_MEM_PRIV_ALL_FLAG, &a));
	ck_dat(make(DAT_MEM_TYPE_VIRTUAL, memory, sizeof(memory), DAT_MEM_PRIV_ALL_FLAG, &b));
	ck_assert_uint_ne(queried(a).lmr_context, queried(b).lmr_context);
	ck_assert_uint_ne(queried(a).rmr_context, queried(b).rmr_context);
	ck_dat(lmr_free(a));
	ck_assert_uint_eq(queried(b).length, sizeof(memory));
}
END_TEST

static const struct {
	unsigned priv;
	bool remote;
} rights[] = {
	{ DAT_MEM_PRIV_NONE_FLAG, false },
	{ LOCAL_READ, false },
	{ LOCAL_WRITE, false },
	{ LOCAL_READ | LOCAL_WRITE, false },
	{ REMOTE_READ, true },
	{ REMOTE_WRITE, true }, /* without local write */
	{ LOCAL_READ | REMOTE_READ, true },
	{ DAT_MEM_PRIV_ALL_FLAG, true },
};

START_TEST(no_right_that_was_not_asked_for)
{
	DAT_LMR_HANDLE lmr;
	DAT_LMR_PARAM param;

	ck_dat(make(DAT_MEM_TYPE_VIRTUAL, memory, 8, rights[_i].priv, &lmr));
	param = queried(lmr);
	ck_assert_uint_eq(param.mem_priv, rights[_i].priv);
	ck_assert_uint_eq(fake_seen().priv, rights[_i].priv);
	ck_assert_int_eq(param.rmr_context != 0, rights[_i].remote);
	ck_assert_uint_ne(param.lmr_context, 0);
}
END_TEST

static const struct {
	DAT_MEM_TYPE type;
	bool aware, relaxed;
} orders[] = {
	{ DAT_MEM_TYPE_VIRTUAL, false, false },
	{ DAT_MEM_TYPE_VIRTUAL, true, true },
	{ DAT_MEM_TYPE_SO_VIRTUAL, false, false },
	{ DAT_MEM_TYPE_SO_VIRTUAL, true, false },
	{ DAT_MEM_TYPE_LMR, false, false },
	{ DAT_MEM_TYPE_LMR, true, false },
	{ DAT_MEM_TYPE_SHARED_VIRTUAL, false, false },
	{ DAT_MEM_TYPE_SHARED_VIRTUAL, true, false },
};

START_TEST(strict_unless_relaxed_was_asked_for)
{
	DAT_LMR_HANDLE lmr;

	ia->ro_aware = orders[_i].aware;
	ck_dat(make_any(orders[_i].type, 8, pz, LOCAL, &lmr));
	ck_assert_int_eq(fake_seen().relaxed, orders[_i].relaxed);
	ck_assert_int_eq(queried(lmr).mem_type, orders[_i].type);
}
END_TEST

/* The registry knows the prefix of the name, and tells the provider of it. */
static const struct {
	const char *name;
	bool relaxed;
} names[] = {
	{ "fake0", false },
	{ "RO_AWARE_fake0", true },
};

START_TEST(the_name_says_what_the_consumer_can_live_with)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = memory };
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE handle;
	DAT_PZ_HANDLE zone;
	DAT_LMR_HANDLE lmr;

	ck_assert_int_eq(setenv("DAT_OVERRIDE", "/dev/null", 1), 0);
	ck_dat(dat_ia_openv((DAT_NAME_PTR)names[_i].name, 8, &evd, &handle, 1, 2, DAT_FALSE));
	ck_dat(dat_pz_create(handle, &zone));
	ck_dat(dat_lmr_create(handle, DAT_MEM_TYPE_VIRTUAL, region, 8, zone, LOCAL, &lmr, NULL,
			      NULL, NULL, NULL));
	ck_assert_int_eq(fake_seen().relaxed, names[_i].relaxed);
	ck_dat(dat_lmr_create(handle, DAT_MEM_TYPE_SO_VIRTUAL, region, 8, zone, LOCAL, &lmr, NULL,
			      NULL, NULL, NULL));
	ck_assert_int_eq(fake_seen().relaxed, false);
	ck_dat(dat_ia_close(handle, DAT_CLOSE_ABRUPT_FLAG));
}
END_TEST

static const DAT_VLEN lengths[] = { 1, 61, PAGE };

#define TYPES ((int)DAT_MEM_TYPE_SO_VIRTUAL + 1)
#define PRIVS 16
#define ZONES 2

/* Every type with every set of rights, in the zone of its source and in another. */
START_TEST(every_combination)
{
	const DAT_MEM_TYPE type = (DAT_MEM_TYPE)(_i % TYPES);
	const DAT_VLEN length = lengths[_i / TYPES / PRIVS % COUNT(lengths)];
	struct pz *zone = _i / TYPES / PRIVS / COUNT(lengths) ? make_pz() : pz;
	unsigned bits = (unsigned)(_i / TYPES % PRIVS), priv = (bits & 3) | (bits & 12) << 2;
	DAT_REGION_DESCRIPTION region = region_for(type, length);
	DAT_LMR_HANDLE lmr;
	DAT_LMR_PARAM param;
	unsigned uses;

	uses = zone->obj.uses;
	ck_dat(make_any(type, length, zone, priv, &lmr));
	param = queried(lmr);
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

START_TEST(source_and_derived_live_apart)
{
	DAT_LMR_HANDLE first, second, lmr[3];
	DAT_LMR_PARAM param;

	ck_dat(make(DAT_MEM_TYPE_VIRTUAL, memory + 5, 100, LOCAL_READ, &first));
	ck_dat(make(DAT_MEM_TYPE_LMR, first, 0, DAT_MEM_PRIV_ALL_FLAG, &lmr[0]));
	ck_dat(make(DAT_MEM_TYPE_LMR, first, UINT64_MAX, LOCAL, &lmr[1]));
	ck_dat(make(DAT_MEM_TYPE_LMR, lmr[0], 7, LOCAL_READ, &lmr[2]));
	second = lmr[_i % 3];
	ck_assert_uint_ne(queried(second).lmr_context, queried(first).lmr_context);
	ck_dat(lmr_free(_i < 3 ? first : second));
	ck_dat_is(lmr_free(_i < 3 ? first : second), BAD_HANDLE(LMR));
	param = queried(_i < 3 ? second : first);
	ck_assert_uint_eq(param.length, 100);
	ck_assert_uint_eq(param.registered_address, (uintptr_t)memory + 5);
	ck_assert_uint_eq(param.registered_size, 100);
	ck_assert_ptr_eq(find(param.lmr_context, memory + 5, 100), _i < 3 ? second : first);
	ck_assert_ptr_null(find(param.lmr_context, memory + 5, 101));
}
END_TEST

/* A device that rounds serves the same of both. */
START_TEST(derived_reports_what_the_source_does)
{
	DAT_LMR_PARAM was, param;
	DAT_LMR_HANDLE lmr;

	fake_quirks(FAKE_MR_ROUNDS);
	ck_dat(make(DAT_MEM_TYPE_VIRTUAL, memory + 5, 100, LOCAL, &source));
	ck_dat(make(DAT_MEM_TYPE_LMR, source, 1, LOCAL, &lmr));
	was = queried(source);
	param = queried(lmr);
	ck_assert_ptr_eq(param.region_desc.for_lmr_handle, source);
	ck_assert_uint_eq(param.length, was.length);
	ck_assert_uint_eq(param.registered_address, was.registered_address);
	ck_assert_uint_eq(param.registered_size, was.registered_size);
}
END_TEST

START_TEST(refuses_sources)
{
	struct ia *other = ia_open_on("fake1", false, &async);
	DAT_REGION_DESCRIPTION region = { .for_va = memory };
	DAT_LMR_HANDLE lmr = POISON, dead, stranger;
	DAT_PZ_HANDLE zone;

	ck_dat(pz_create(other, &zone));
	ck_dat(lmr_create(other, DAT_MEM_TYPE_VIRTUAL, region, 8, zone, LOCAL, &stranger, NULL,
			  NULL, NULL, NULL));
	ck_dat(make(DAT_MEM_TYPE_VIRTUAL, memory, 8, LOCAL, &dead));
	ck_dat(lmr_free(dead));
	ck_dat_is(make(DAT_MEM_TYPE_LMR, NULL, 8, LOCAL, &lmr), BAD_HANDLE(LMR));
	ck_dat_is(make(DAT_MEM_TYPE_LMR, dead, 8, LOCAL, &lmr), BAD_HANDLE(LMR));
	ck_dat_is(make(DAT_MEM_TYPE_LMR, pz, 8, LOCAL, &lmr), BAD_HANDLE(LMR));
	ck_dat_is(make(DAT_MEM_TYPE_LMR, memory, 8, LOCAL, &lmr), BAD_HANDLE(LMR));
	ck_dat_is(make(DAT_MEM_TYPE_LMR, stranger, 8, LOCAL, &lmr), BAD_HANDLE(LMR));
	ck_assert_ptr_eq(lmr, POISON);
	ck_assert_uint_eq(pz->obj.uses, 0);
	ck_dat(ia_close(other, DAT_CLOSE_ABRUPT_FLAG));
}
END_TEST

static void *free_it(void *arg)
{
	return (void *)(uintptr_t)lmr_free(arg);
}

static void *derive(void *arg)
{
	DAT_LMR_HANDLE lmr = POISON;
	DAT_RETURN ret = make(DAT_MEM_TYPE_LMR, arg, 0, LOCAL, &lmr);

	ck_assert_ptr_eq(lmr, POISON);
	return (void *)(uintptr_t)ret;
}

/*
 * When the other thread holds its zone it has found the source good, and asks for its range next.
 */
START_TEST(source_freed_meanwhile)
{
	struct pz *zone = pz;
	pthread_t thread;
	struct lmr *lmr;

	ck_dat(make(DAT_MEM_TYPE_VIRTUAL, memory, 8, LOCAL, &source));
	lmr = source;
	pz = make_pz();
	spin_lock(&ia->lmr_lock);
	thread = consumer_thread_start(derive, source);
	while (atomic_load(&pz->obj.uses) == 0)
		sched_yield();
	ck_assert(obj_retire(&lmr->obj));
	spin_unlock(&ia->lmr_lock);
	ck_dat_is((DAT_RETURN)(uintptr_t)consumer_thread_end(thread), BAD_STATE(LMR_FREE));
	ck_assert_uint_eq(atomic_load(&pz->obj.uses), 0);
	ck_assert_uint_eq(atomic_load(&zone->obj.uses), 1);
	obj_publish(&lmr->obj);
}
END_TEST

/* Whoever comes first: a region, or a refusal that leaves nothing. */
START_TEST(source_freed_by_another_thread)
{
	for (unsigned n = 0; n < 200; n++) {
		DAT_LMR_HANDLE lmr = POISON;
		pthread_t thread;
		DAT_RETURN ret;

		ck_dat(make(DAT_MEM_TYPE_VIRTUAL, memory, 8, LOCAL, &source));
		thread = consumer_thread_start(free_it, source);
		ret = make(DAT_MEM_TYPE_LMR, source, 0, LOCAL, &lmr);
		ck_dat((DAT_RETURN)(uintptr_t)consumer_thread_end(thread));
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
	{ "no such type", (DAT_MEM_TYPE)4, memory, 8, LOCAL, BAD_ARG(2) },
	{ "a type far off", (DAT_MEM_TYPE)9, memory, 8, LOCAL, BAD_ARG(2) },
	{ "a negative type", (DAT_MEM_TYPE)-1, memory, 8, LOCAL, BAD_ARG(2) },
	{ "null", DAT_MEM_TYPE_VIRTUAL, NULL, 8, LOCAL, BAD_ARG(3) },
	{ "null, strictly ordered", DAT_MEM_TYPE_SO_VIRTUAL, NULL, 8, LOCAL, BAD_ARG(3) },
	{ "null and nothing", DAT_MEM_TYPE_VIRTUAL, NULL, 0, 0x40, BAD_ARG(3) },
	{ "no bytes", DAT_MEM_TYPE_VIRTUAL, memory, 0, LOCAL, BAD_ARG(4) },
	{ "more than the device takes", DAT_MEM_TYPE_VIRTUAL, memory, (UINT64_C(1) << 40) + 1,
	  LOCAL, BAD_ARG(4) },
	{ "around the end", DAT_MEM_TYPE_VIRTUAL, (void *)(UINTPTR_MAX - 7), 9, LOCAL, BAD_ARG(4) },
	{ "all there is", DAT_MEM_TYPE_VIRTUAL, memory, UINT64_MAX, LOCAL, BAD_ARG(4) },
	{ "shared nothing", DAT_MEM_TYPE_SHARED_VIRTUAL, NULL, 8, LOCAL, BAD_ARG(3) },
	{ "shared without a name", DAT_MEM_TYPE_SHARED_VIRTUAL, memory, 8, LOCAL, BAD_ARG(3) },
	{ "an unknown right", DAT_MEM_TYPE_VIRTUAL, memory, 8, 0x04, BAD_ARG(6) },
	{ "Solaris's right", DAT_MEM_TYPE_VIRTUAL, memory, 8, DAT_MEM_PRIV_RO_DISABLE_FLAG,
	  BAD_ARG(6) },
};

START_TEST(refuses_arguments)
{
	DAT_LMR_HANDLE lmr = POISON;

	ck_assert_msg(make(refusals[_i].type, refusals[_i].address, refusals[_i].length,
			   refusals[_i].priv, &lmr) == refusals[_i].want,
		      "%s", refusals[_i].why);
	ck_assert_ptr_eq(lmr, POISON);
	ck_assert_uint_eq(pz->obj.uses, 0);
	ck_assert_uint_eq(fake_calls("mr_reg"), 0);
}
END_TEST

START_TEST(refuses_handles)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = memory };
	struct ia *other = ia_open_on("fake1", false, &async);
	DAT_LMR_HANDLE lmr = POISON;
	DAT_LMR_PARAM param;

	ck_dat_is(lmr_create(POISON, DAT_MEM_TYPE_VIRTUAL, region, 8, pz, LOCAL, &lmr, NULL, NULL,
			     NULL, NULL),
		  BAD_HANDLE(IA));
	ck_dat_is(lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, 8, ia, LOCAL, &lmr, NULL, NULL, NULL,
			     NULL),
		  BAD_HANDLE(PZ));
	ck_dat_is(lmr_create(other, DAT_MEM_TYPE_VIRTUAL, region, 8, pz, LOCAL, &lmr, NULL, NULL,
			     NULL, NULL),
		  BAD_HANDLE(PZ));
	ck_dat_is(make(DAT_MEM_TYPE_VIRTUAL, memory, 8, LOCAL, NULL), BAD_ARG(7));
	ck_assert_ptr_eq(lmr, POISON);
	ck_dat(make(DAT_MEM_TYPE_VIRTUAL, memory, 8, LOCAL, &lmr));
	ck_dat_is(lmr_query(lmr, DAT_LMR_FIELD_ALL, NULL), BAD_ARG(3));
	ck_dat_is(lmr_query(lmr, (DAT_LMR_PARAM_MASK)0x400, &param), BAD_ARG(2));
	ck_dat_is(lmr_query(pz, DAT_LMR_FIELD_ALL, &param), BAD_HANDLE(LMR));
	ck_dat_is(lmr_free(pz), BAD_HANDLE(LMR));
	ck_dat(ia_close(other, DAT_CLOSE_ABRUPT_FLAG));
}
END_TEST

/* The same of shared memory with a name, which is no more looked at than the memory is. */
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
	{ 8, 4096, 0x04, BAD_ARG(6) },
	{ 8, 0, LOCAL, BAD_ARG(3) },
};

START_TEST(refuses_arguments_of_shared_memory)
{
	DAT_REGION_DESCRIPTION region = region_for(DAT_MEM_TYPE_SHARED_VIRTUAL, 8);
	DAT_LMR_HANDLE lmr = POISON;

	region.for_shared_memory.virtual_address = (DAT_PVOID)shared_refusals[_i].address;
	ck_dat_is(lmr_create(ia, DAT_MEM_TYPE_SHARED_VIRTUAL, region, shared_refusals[_i].length,
			     pz, (DAT_MEM_PRIV_FLAGS)shared_refusals[_i].priv, &lmr, NULL, NULL,
			     NULL, NULL),
		  shared_refusals[_i].want);
	ck_assert_ptr_eq(lmr, POISON);
	ck_assert_uint_eq(pz->obj.uses, 0);
}
END_TEST

/* Three pages: one to read and write, one to read, and a hole. */
static char *three_pages(size_t page)
{
	char *pages = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			   0);

	ck_assert_ptr_ne(pages, MAP_FAILED);
	ck_assert_int_eq(mprotect(pages + page, page, PROT_READ), 0);
	ck_assert_int_eq(munmap(pages + 2 * page, page), 0);
	return pages;
}

/* In quarters of a page. What the memory says goes before what the device says. */
static const struct {
	unsigned first, count, priv;
	int err;
	DAT_RETURN want;
} devices[] = {
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

START_TEST(tells_why_the_device_refused)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages = three_pages(page);
	DAT_LMR_HANDLE lmr = POISON;

	fake_fail("mr_reg", devices[_i].err, 1);
	ck_dat_is(make(DAT_MEM_TYPE_VIRTUAL, pages + devices[_i].first * page / 4,
		       devices[_i].count * page / 4, devices[_i].priv, &lmr),
		  devices[_i].want);
	ck_assert_ptr_eq(lmr, POISON);
	ck_assert_uint_eq(pz->obj.uses, 0);
	ck_assert_uint_eq(fake_alive(FAKE_MR), 0);
}
END_TEST

/* Whatever kind of region it is: of memory that can only be read, it can't be one to write to. */
START_TEST(every_type_tells_of_constant_memory)
{
	const DAT_MEM_TYPE type = (DAT_MEM_TYPE)_i;
	DAT_REGION_DESCRIPTION region = { .for_va = shared_page() };
	DAT_LMR_HANDLE lmr = POISON;

	if (type == DAT_MEM_TYPE_LMR)
		ck_dat(make(DAT_MEM_TYPE_VIRTUAL, shared, PAGE, LOCAL_READ,
			    &region.for_lmr_handle));
	else if (type == DAT_MEM_TYPE_SHARED_VIRTUAL)
		region.for_shared_memory.shared_memory_id = &cookie;
	ck_assert_int_eq(mprotect(shared, PAGE, PROT_READ), 0);
	fake_fail("mr_reg", EFAULT, 1);
	ck_dat_is(lmr_create(ia, type, region, PAGE, pz, LOCAL, &lmr, NULL, NULL, NULL, NULL),
		  DAT_ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE));
	ck_assert_ptr_eq(lmr, POISON);
	ck_dat(lmr_create(ia, type, region, PAGE, pz, LOCAL_READ, &lmr, NULL, NULL, NULL, NULL));
}
END_TEST

/* Two neighbouring areas that the system lists apart are still one range. */
START_TEST(areas_join)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages = three_pages(page);
	DAT_LMR_HANDLE lmr;

	fake_fail("mr_reg", ENOMEM, 1);
	ck_dat_is(make(DAT_MEM_TYPE_VIRTUAL, pages, 2 * page, LOCAL_READ, &lmr),
		  NO_RESOURCE(MEMORY_REGION));
	ck_dat(make(DAT_MEM_TYPE_VIRTUAL, pages, 2 * page, LOCAL_READ, &lmr));
}
END_TEST

START_TEST(every_failure_unwinds)
{
	const DAT_MEM_TYPE type = (DAT_MEM_TYPE)_i;
	DAT_LMR_HANDLE lmr = POISON;
	unsigned n = 1, before;

	(void)region_for(type, 8); /* its source is there first */
	before = obj_count(ia, DAT_HANDLE_TYPE_LMR);
	for (; fake_fail_call(n), make_any(type, 8, pz, LOCAL, &lmr) != DAT_SUCCESS; n++) {
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

START_TEST(a_failed_free_changes_nothing)
{
	DAT_LMR_HANDLE lmr;

	ck_dat(make(DAT_MEM_TYPE_VIRTUAL, memory, 8, LOCAL, &lmr));
	fake_fail("mr_dereg", EIO, 1);
	ck_dat_is(lmr_free(lmr), DAT_ERROR(DAT_INTERNAL_ERROR, 0));
	ck_assert_ptr_eq(find(queried(lmr).lmr_context, memory, 8), lmr);
	ck_assert_uint_eq(queried(lmr).length, 8);
	ck_assert_uint_eq(pz->obj.uses, 1);
	ck_dat(lmr_free(lmr));
}
END_TEST

START_TEST(stays_while_used)
{
	DAT_LMR_HANDLE lmr;

	ck_dat(make(DAT_MEM_TYPE_VIRTUAL, memory, 8, LOCAL, &lmr));
	ck_assert(obj_hold(ia, lmr, DAT_HANDLE_TYPE_LMR));
	ck_dat_is(lmr_free(lmr), BAD_STATE(LMR_IN_USE));
	ck_assert_uint_eq(queried(lmr).length, 8);
	obj_put(&((struct lmr *)lmr)->obj);
	ck_dat(lmr_free(lmr));
}
END_TEST

/*
 * From byte 16 on, 32 of them; the device serves the whole page, which is nobody's business here.
 */
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
	{ 17, UINT64_MAX - 15, false }, /* around the end, to within it */
};

START_TEST(is_found_by_context_and_range)
{
	DAT_LMR_HANDLE lmr, other;
	DAT_LMR_CONTEXT context;

	fake_quirks(FAKE_MR_ROUNDS);
	ck_dat(make(DAT_MEM_TYPE_VIRTUAL, memory + 16, 32, LOCAL, &lmr));
	ck_dat(make(DAT_MEM_TYPE_VIRTUAL, memory, sizeof(memory), LOCAL, &other));
	context = queried(lmr).lmr_context;
	ck_assert_ptr_eq(find(context, memory + ranges[_i].offset, ranges[_i].length),
			 ranges[_i].found ? lmr : NULL);
	ck_dat(lmr_free(lmr));
	ck_assert_ptr_null(find(context, memory + ranges[_i].offset, ranges[_i].length));
	ck_assert_ptr_eq(find(queried(other).lmr_context, memory, sizeof(memory)), other);
}
END_TEST

/* ---- the sync calls ---- */

/*
 * Of a region of 32 bytes from byte 16 on. @which: that one, one freed, one of another adapter, no
 * context at all.
 */
enum which { LIVE, FREED, STRANGER, NOTHING };

static const struct {
	const char *why;
	enum which which;
	int offset;
	DAT_VLEN length;
	DAT_RETURN want;
} syncs[] = {
	{ "all of it", LIVE, 16, 32, DAT_SUCCESS },
	{ "its last byte", LIVE, 47, 1, DAT_SUCCESS },
	{ "nothing at its end", LIVE, 48, 0, DAT_SUCCESS },
	{ "nothing anywhere", NOTHING, 0, 0, DAT_SUCCESS },
	{ "one byte before", LIVE, 15, 2, BAD_ARG(2) },
	{ "one byte beyond", LIVE, 47, 2, BAD_ARG(2) },
	{ "one more", LIVE, 16, 33, BAD_ARG(2) },
	{ "around the end", LIVE, 17, UINT64_MAX, BAD_ARG(2) },
	{ "around the end and back", LIVE, 32, UINT64_MAX - 7, BAD_ARG(2) },
	{ "freed", FREED, 16, 32, BAD_ARG(2) },
	{ "another adapter's", STRANGER, 16, 32, BAD_ARG(2) },
	{ "no context", NOTHING, 16, 32, BAD_ARG(2) },
};

static DAT_LMR_CONTEXT context_of(enum which which, struct ia *other)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = memory + 16 };
	struct ia *mine = ia;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT context;
	DAT_PZ_HANDLE zone;

	ck_dat(pz_create(which == STRANGER ? other : mine, &zone));
	ck_dat(lmr_create(which == STRANGER ? other : mine, DAT_MEM_TYPE_VIRTUAL, region, 32, zone,
			  LOCAL, &lmr, &context, NULL, NULL, NULL));
	if (which == FREED)
		ck_dat(lmr_free(lmr));
	return which == NOTHING ? ~context : context;
}

typedef DAT_RETURN (*sync_call)(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *segments, DAT_VLEN nseg);
static const sync_call sync_calls[] = { lmr_sync_rdma_read, lmr_sync_rdma_write };

START_TEST(syncs_what_is_registered)
{
	struct ia *other = ia_open_on("fake1", false, &async);
	DAT_LMR_TRIPLET segments[] = {
		{ context_of(LIVE, other), 0, (uintptr_t)memory + 16, 32 },
		{ context_of(syncs[_i].which, other), 0,
		  (uintptr_t)memory + (uintptr_t)syncs[_i].offset, syncs[_i].length },
		{ context_of(LIVE, other), 0, (uintptr_t)memory + 20, 1 },
	};

	for (int call = 0; call < COUNT(sync_calls); call++) {
		ck_assert_msg(sync_calls[call](ia, segments, 3) == syncs[_i].want, "%s",
			      syncs[_i].why);
		ck_assert_msg(sync_calls[call](ia, segments + 1, 1) == syncs[_i].want, "%s, alone",
			      syncs[_i].why);
		ck_dat(sync_calls[call](ia, segments, 1)); /* no look beyond the count */
	}
	ck_dat(ia_close(other, DAT_CLOSE_ABRUPT_FLAG));
}
END_TEST

START_TEST(syncs_by_a_count_of_64_bits)
{
	DAT_LMR_TRIPLET segments[2] = { { context_of(LIVE, ia), 0, (uintptr_t)memory + 16, 32 },
					{ 0 } };

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

/* ---- many ---- */

static void *come_and_go(void *arg)
{
	(void)arg;
	for (unsigned n = 0; n < 500; n++) {
		const DAT_MEM_TYPE type = (DAT_MEM_TYPE)(n % TYPES);
		DAT_LMR_TRIPLET segment;
		DAT_LMR_HANDLE lmr;
		DAT_LMR_PARAM param;

		ck_dat(make_any(type, 64, pz, LOCAL, &lmr));
		param = queried(lmr);
		segment.lmr_context = param.lmr_context;
		segment.virtual_address = param.registered_address;
		segment.segment_length = 64;
		ck_dat(lmr_sync_rdma_read(ia, &segment, 1));
		ck_dat(lmr_free(lmr));
	}
	return NULL;
}

START_TEST(two_threads)
{
	pthread_t threads[2];

	(void)region_for(DAT_MEM_TYPE_LMR, 64);
	(void)shared_page();
	for (int i = 0; i < 2; i++)
		threads[i] = consumer_thread_start(come_and_go, NULL);
	for (int i = 0; i < 2; i++)
		consumer_thread_end(threads[i]);
	ck_assert_uint_eq(obj_count(ia, DAT_HANDLE_TYPE_LMR), 1);
	ck_assert_uint_eq(fake_alive(FAKE_MR), 1);
}
END_TEST

/*
 * The least that can be lost at each turn would add up to more than a byte each. Shared memory
 * takes a look at the system's list of areas, so it has fewer turns.
 */
START_TEST(nothing_is_left_behind)
{
	const DAT_MEM_TYPE type = (DAT_MEM_TYPE)_i;
	const unsigned turns = type == DAT_MEM_TYPE_SHARED_VIRTUAL ? 10000 : 100000;
	unsigned alive;
	size_t before = 0;
	DAT_LMR_HANDLE lmr;
	DAT_RETURN ret = DAT_SUCCESS; /* one check at the end: each costs more than a turn */

	(void)region_for(type, 8);
	alive = fake_alive(FAKE_MR);
	for (unsigned n = 0; n < turns && ret == DAT_SUCCESS; n++) {
		if (n == 100) /* from here on tables and caches have their size */
			before = mallinfo2().uordblks;
		ret = make_any(type, 8, pz, LOCAL, &lmr);
		if (ret == DAT_SUCCESS)
			ret = lmr_free(lmr);
	}
	ck_dat(ret);
	ck_assert_uint_lt(mallinfo2().uordblks, before + turns);
	ck_assert_uint_eq(fake_alive(FAKE_MR), alive);
}
END_TEST

/* A cache of registrations has thousands, overlapping, and frees them in no order. */
START_TEST(thousands)
{
	enum { N = 3000 };
	static DAT_LMR_HANDLE lmr[N];

	for (unsigned i = 0; i < N; i++)
		ck_dat(make(DAT_MEM_TYPE_VIRTUAL, memory + i % 100, 100, DAT_MEM_PRIV_ALL_FLAG,
			    &lmr[i]));
	for (unsigned i = 0; i < N; i++)
		ck_assert_ptr_eq(find(queried(lmr[i]).lmr_context, memory + i % 100, 100), lmr[i]);
	for (unsigned i = 0; i < N; i++)
		ck_dat(lmr_free(lmr[i * 7 % N]));
	ck_assert_uint_eq(fake_alive(FAKE_MR), 0);
	ck_assert_uint_eq(obj_count(ia, DAT_HANDLE_TYPE_LMR), 0);
}
END_TEST

/* ---- peers ---- */

/* b has a region within its page, a tries to reach it. */
#define REGION 61

static struct pair pair;

static void peers_setup(void)
{
	pair_connect(&pair);
	ia = pair.server.ia;
	pz = pair.server.pz;
	from = 101;
}

static void peers_teardown(void)
{
	ck_dat(ia_close(pair.client.ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat(ia_close(pair.server.ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}

enum access { READS, WRITES, ACCESSES };

static void check_bytes(const char *at, size_t count, char byte)
{
	for (size_t i = 0; i < count; i++)
		ck_assert_msg(at[i] == byte, "byte %zu is %c, not %c", i, at[i], byte);
}

/*
 * @length bytes from @offset within the region on. All of them move, and none besides, or nothing
 * does.
 */
static void access_is(enum access access, DAT_MEM_TYPE type, DAT_RMR_CONTEXT context, int offset,
		      size_t length, bool reached)
{
	char *bytes = type == DAT_MEM_TYPE_SHARED_VIRTUAL ? shared : page;
	char *at = bytes + from + offset, *ours = pair.client.memory;
	DAT_LMR_TRIPLET local = segment(&pair.client, 0, length);
	DAT_RMR_TRIPLET remote = {
		.rmr_context = context,
		.target_address = (uintptr_t)at,
		.segment_length = length,
	};
	size_t read = reached && access == READS ? length : 0,
	       written = reached && access == WRITES ? length : 0;

	memset(ours, 'a', PAGE);
	memset(bytes, 'b', PAGE);
	if (access == READS)
		ck_dat(ep_post_rdma_read(pair.client.ep, 1, &local, cookie_of(7), &remote, 0));
	else
		ck_dat(ep_post_rdma_write(pair.client.ep, 1, &local, cookie_of(7), &remote, 0));
	expect_dto(pair.client.request_evd, 7,
		   reached ? DAT_DTO_SUCCESS : DAT_DTO_ERR_REMOTE_ACCESS);
	check_bytes(ours, read, 'b');
	check_bytes(ours + read, PAGE - read, 'a');
	check_bytes(bytes, (size_t)(at - bytes), 'b');
	check_bytes(at, written, 'a');
	check_bytes(at + written, PAGE - written - (size_t)(at - bytes), 'b');
}

static const struct {
	int offset;
	size_t length;
	bool reached;
} reaches[] = {
	{ 0, REGION, true },	   { 0, 1, true },
	{ REGION - 1, 1, true },   { -1, 1, false },
	{ -1, 2, false },	   { -1, REGION, false },
	{ REGION, 1, false },	   { REGION - 1, 2, false },
	{ 1, REGION, false },	   { 0, REGION + 1, false },
	{ -1, REGION + 2, false },
};

START_TEST(peers_reach_its_bytes)
{
	const DAT_MEM_TYPE type = (DAT_MEM_TYPE)(_i % TYPES);
	const int reach = _i / TYPES % COUNT(reaches);
	DAT_LMR_HANDLE lmr;

	ck_dat(make_any(type, REGION, pz, DAT_MEM_PRIV_ALL_FLAG, &lmr));
	access_is((enum access)(_i / TYPES / COUNT(reaches)), type, queried(lmr).rmr_context,
		  reaches[reach].offset, reaches[reach].length, reaches[reach].reached);
}
END_TEST

START_TEST(peers_have_its_rights)
{
	const DAT_MEM_TYPE type = (DAT_MEM_TYPE)(_i % TYPES);
	const enum access access = (enum access)(_i / TYPES / PRIVS);
	unsigned bits = (unsigned)(_i / TYPES % PRIVS), priv = (bits & 3) | (bits & 12) << 2;
	DAT_LMR_HANDLE lmr;

	ck_dat(make_any(type, REGION, pz, priv, &lmr));
	access_is(access, type, queried(lmr).rmr_context, 0, REGION,
		  priv & (access == READS ? REMOTE_READ : REMOTE_WRITE));
}
END_TEST

enum key { GARBLED, LOCAL_ONE, OF_FREED, OF_OTHER_ZONE, KEYS };

/* One of the same bytes lives all the while. */
START_TEST(other_keys_open_nothing)
{
	const DAT_MEM_TYPE type = (DAT_MEM_TYPE)(_i % TYPES);
	const enum key key = (enum key)(_i / TYPES % KEYS);
	struct pz *zone = key == OF_OTHER_ZONE ? make_pz() : pz;
	DAT_LMR_HANDLE lmr, alive;
	DAT_RMR_CONTEXT context;

	ck_dat(make_any(type, REGION, pz, DAT_MEM_PRIV_ALL_FLAG, &alive));
	ck_dat(make_any(type, REGION, zone, DAT_MEM_PRIV_ALL_FLAG, &lmr));
	context = key == LOCAL_ONE ? queried(lmr).lmr_context : queried(lmr).rmr_context;
	if (key == GARBLED)
		context ^= 0x100000;
	if (key == OF_FREED)
		ck_dat(lmr_free(lmr));
	access_is((enum access)(_i / TYPES / KEYS), type, context, 0, REGION, false);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("regions"), *peers = tcase_create("peers");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_test(cases, is_what_was_asked_for);
	tcase_add_loop_test(cases, any_output_but_the_handle_may_be_null, 0, 16);
	tcase_add_loop_test(cases, a_failure_leaves_every_output_alone, 0, 2);
	tcase_add_test(cases, reports_what_the_device_serves);
	tcase_add_test(cases, same_range_twice);
	tcase_add_loop_test(cases, no_right_that_was_not_asked_for, 0, COUNT(rights));
	tcase_add_loop_test(cases, strict_unless_relaxed_was_asked_for, 0, COUNT(orders));
	tcase_add_loop_test(cases, refuses_arguments, 0, COUNT(refusals));
	tcase_add_loop_test(cases, refuses_arguments_of_shared_memory, 0, COUNT(shared_refusals));
	tcase_add_test(cases, refuses_handles);
	tcase_add_loop_test(cases, tells_why_the_device_refused, 0, COUNT(devices));
	tcase_add_loop_test(cases, every_type_tells_of_constant_memory, 0, TYPES);
	tcase_add_test(cases, areas_join);
	tcase_add_loop_test(cases, every_failure_unwinds, 0, TYPES);
	tcase_add_test(cases, a_failed_free_changes_nothing);
	tcase_add_test(cases, stays_while_used);
	tcase_add_loop_test(cases, is_found_by_context_and_range, 0, COUNT(ranges));
	tcase_add_loop_test(cases, the_name_says_what_the_consumer_can_live_with, 0, COUNT(names));
	tcase_add_loop_test(cases, every_combination, 0, TYPES * PRIVS * COUNT(lengths) * ZONES);
	tcase_add_loop_test(cases, source_and_derived_live_apart, 0, 6);
	tcase_add_test(cases, derived_reports_what_the_source_does);
	tcase_add_test(cases, refuses_sources);
	tcase_add_test(cases, source_freed_meanwhile);
	tcase_add_test(cases, source_freed_by_another_thread);
	tcase_add_loop_test(cases, syncs_what_is_registered, 0, COUNT(syncs));
	tcase_add_test(cases, syncs_by_a_count_of_64_bits);
	tcase_add_test(cases, two_threads);
	tcase_add_loop_test(cases, nothing_is_left_behind, 0, TYPES);
	tcase_add_test(cases, thousands);
	tcase_add_checked_fixture(peers, peers_setup, peers_teardown);
	tcase_add_loop_test(peers, peers_reach_its_bytes, 0, TYPES * COUNT(reaches) * ACCESSES);
	tcase_add_loop_test(peers, peers_have_its_rights, 0, TYPES * PRIVS * ACCESSES);
	tcase_add_loop_test(peers, other_keys_open_nothing, 0, TYPES * KEYS * ACCESSES);
	return run_unit_cases(argc, argv);
}
