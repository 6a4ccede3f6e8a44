/* SPDX-License-Identifier: BSD-2-Clause */
/* Local memory regions: arguments, rights, what a device refuses and why. */
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

static void setup(void)
{
	DAT_PZ_HANDLE handle;

	ia = ia_make("fake0", false, &async);
	ck_dat(pz_create(ia, &handle));
	pz = handle;
}

static void teardown(void)
{
	ck_dat(ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}

static DAT_RETURN make(DAT_MEM_TYPE type, void *address, DAT_VLEN length, unsigned priv, DAT_LMR_HANDLE *lmr)
{
	return lmr_create(ia, type, (DAT_REGION_DESCRIPTION){ .for_va = address }, length, pz, (DAT_MEM_PRIV_FLAGS)priv,
			  lmr, NULL, NULL, NULL, NULL);
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
	struct lmr *lmr;

	pthread_mutex_lock(&ia->lock);
	lmr = lmr_find(ia, context, (uintptr_t)address, length);
	pthread_mutex_unlock(&ia->lock);
	return lmr;
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

	ck_dat(lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, 1, pz, DAT_MEM_PRIV_ALL_FLAG, &lmr, &lmr_context,
			  &rmr_context, &size, &address));
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
};

START_TEST(strict_unless_relaxed_was_asked_for)
{
	DAT_LMR_HANDLE lmr;

	ia->ro_aware = orders[_i].aware;
	ck_dat(make(orders[_i].type, memory, 8, LOCAL, &lmr));
	ck_assert_int_eq(fake_seen().relaxed, orders[_i].relaxed);
	ck_assert_int_eq(queried(lmr).mem_type, orders[_i].type);
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
	{ "more than the device takes", DAT_MEM_TYPE_VIRTUAL, memory, (UINT64_C(1) << 40) + 1, LOCAL, BAD_ARG(4) },
	{ "around the end", DAT_MEM_TYPE_VIRTUAL, (void *)(UINTPTR_MAX - 7), 9, LOCAL, BAD_ARG(4) },
	{ "all there is", DAT_MEM_TYPE_VIRTUAL, memory, UINT64_MAX, LOCAL, BAD_ARG(4) },
	{ "an unknown right", DAT_MEM_TYPE_VIRTUAL, memory, 8, 0x04, BAD_ARG(6) },
	{ "Solaris's right", DAT_MEM_TYPE_VIRTUAL, memory, 8, DAT_MEM_PRIV_RO_DISABLE_FLAG, BAD_ARG(6) },
};

START_TEST(refuses_arguments)
{
	DAT_LMR_HANDLE lmr = POISON;

	ck_assert_msg(make(refusals[_i].type, refusals[_i].address, refusals[_i].length, refusals[_i].priv, &lmr) ==
			      refusals[_i].want,
		      "%s", refusals[_i].why);
	ck_assert_ptr_eq(lmr, POISON);
	ck_assert_uint_eq(pz->obj.uses, 0);
	ck_assert_uint_eq(fake_calls("mr_reg"), 0);
}
END_TEST

START_TEST(refuses_handles)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = memory };
	struct ia *other = ia_make("fake1", false, &async);
	DAT_LMR_HANDLE lmr = POISON;
	DAT_LMR_PARAM param;

	ck_dat_is(lmr_create(POISON, DAT_MEM_TYPE_VIRTUAL, region, 8, pz, LOCAL, &lmr, NULL, NULL, NULL, NULL),
		  BAD_HANDLE(IA));
	ck_dat_is(lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, 8, ia, LOCAL, &lmr, NULL, NULL, NULL, NULL),
		  BAD_HANDLE(PZ));
	ck_dat_is(lmr_create(other, DAT_MEM_TYPE_VIRTUAL, region, 8, pz, LOCAL, &lmr, NULL, NULL, NULL, NULL),
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

/* Three pages: one to read and write, one to read, and a hole. */
static char *three_pages(size_t page)
{
	char *pages = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

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
	ck_dat_is(make(DAT_MEM_TYPE_VIRTUAL, pages + devices[_i].first * page / 4, devices[_i].count * page / 4,
		       devices[_i].priv, &lmr),
		  devices[_i].want);
	ck_assert_ptr_eq(lmr, POISON);
	ck_assert_uint_eq(pz->obj.uses, 0);
	ck_assert_uint_eq(fake_alive(FAKE_MR), 0);
}
END_TEST

/* Two neighbouring areas that the system lists apart are still one range. */
START_TEST(areas_join)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages = three_pages(page);
	DAT_LMR_HANDLE lmr;

	fake_fail("mr_reg", ENOMEM, 1);
	ck_dat_is(make(DAT_MEM_TYPE_VIRTUAL, pages, 2 * page, LOCAL_READ, &lmr), NO_RESOURCE(MEMORY_REGION));
	ck_dat(make(DAT_MEM_TYPE_VIRTUAL, pages, 2 * page, LOCAL_READ, &lmr));
}
END_TEST

START_TEST(every_failure_unwinds)
{
	DAT_LMR_HANDLE lmr = POISON;
	unsigned n = 1;

	for (; fake_fail_call(n), make(DAT_MEM_TYPE_VIRTUAL, memory, 8, LOCAL, &lmr) != DAT_SUCCESS; n++) {
		ck_assert_ptr_eq(lmr, POISON);
		ck_assert_uint_eq(fake_alive(FAKE_MR), 0);
		ck_assert_uint_eq(pz->obj.uses, 0);
		ck_assert_uint_eq(obj_count(ia, DAT_HANDLE_TYPE_LMR), 0);
	}
	fake_fail_call(0);
	ck_assert_uint_eq(n, 2);
	ck_dat(lmr_free(lmr));
	ck_assert_uint_eq(pz->obj.uses, 0);
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

/* From byte 16 on, 32 of them; the device serves the whole page, which is nobody's business here. */
static const struct {
	int offset;
	DAT_VLEN length;
	bool found;
} ranges[] = {
	{ 16, 32, true }, { 16, 0, true },  { 17, 31, true },  { 48, 0, true },		 { 47, 1, true },
	{ 15, 1, false }, { 15, 0, false }, { 16, 33, false }, { 48, 1, false },	 { 49, 0, false },
	{ 17, 32, false }, { 0, 256, false }, { 17, UINT64_MAX, false }, { 16, UINT64_MAX, false },
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
	ck_assert_ptr_eq(find(context, memory + ranges[_i].offset, ranges[_i].length), ranges[_i].found ? lmr : NULL);
	ck_dat(lmr_free(lmr));
	ck_assert_ptr_null(find(context, memory + ranges[_i].offset, ranges[_i].length));
	ck_assert_ptr_eq(find(queried(other).lmr_context, memory, sizeof(memory)), other);
}
END_TEST

/* A cache of registrations has thousands, overlapping, and frees them in no order. */
START_TEST(thousands)
{
	enum { N = 3000 };
	static DAT_LMR_HANDLE lmr[N];

	for (unsigned i = 0; i < N; i++)
		ck_dat(make(DAT_MEM_TYPE_VIRTUAL, memory + i % 100, 100, DAT_MEM_PRIV_ALL_FLAG, &lmr[i]));
	for (unsigned i = 0; i < N; i++)
		ck_assert_ptr_eq(find(queried(lmr[i]).lmr_context, memory + i % 100, 100), lmr[i]);
	for (unsigned i = 0; i < N; i++)
		ck_dat(lmr_free(lmr[i * 7 % N]));
	ck_assert_uint_eq(fake_alive(FAKE_MR), 0);
	ck_assert_uint_eq(obj_count(ia, DAT_HANDLE_TYPE_LMR), 0);
}
END_TEST

int main(void)
{
	TCase *cases = tcase_create("regions");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_test(cases, is_what_was_asked_for);
	tcase_add_test(cases, reports_what_the_device_serves);
	tcase_add_test(cases, same_range_twice);
	tcase_add_loop_test(cases, no_right_that_was_not_asked_for, 0, COUNT(rights));
	tcase_add_loop_test(cases, strict_unless_relaxed_was_asked_for, 0, COUNT(orders));
	tcase_add_loop_test(cases, refuses_arguments, 0, COUNT(refusals));
	tcase_add_test(cases, refuses_handles);
	tcase_add_loop_test(cases, tells_why_the_device_refused, 0, COUNT(devices));
	tcase_add_test(cases, areas_join);
	tcase_add_test(cases, every_failure_unwinds);
	tcase_add_test(cases, a_failed_free_changes_nothing);
	tcase_add_test(cases, stays_while_used);
	tcase_add_loop_test(cases, is_found_by_context_and_range, 0, COUNT(ranges));
	tcase_add_test(cases, thousands);
	return run("lmr", cases);
}
