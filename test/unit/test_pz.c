/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection zones. */
#include "harness.h"

static struct ia *ia;
static DAT_EVD_HANDLE async;

static void setup(void)
{
	ia = ia_open_on("fake0", false, &async);
}

static void teardown(void)
{
	ck_dat(ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}

START_TEST(a_zone_is_queried_until_it_is_freed)
{
	DAT_PZ_HANDLE pz = POISON;
	DAT_PZ_PARAM param;

	ck_dat(pz_create(ia, &pz));
	ck_assert_uint_eq(fake_alive(FAKE_PD), 1);
	ck_dat(pz_query(pz, DAT_PZ_FIELD_ALL, &param));
	ck_assert_ptr_eq(param.ia_handle, ia);
	ck_dat(pz_free(pz));
	ck_assert_uint_eq(fake_alive(FAKE_PD), 0);
	ck_dat_is(pz_free(pz), BAD_HANDLE(PZ));
	ck_dat_is(pz_query(pz, DAT_PZ_FIELD_ALL, &param), BAD_HANDLE(PZ));
}
END_TEST

START_TEST(calls_refuse_bad_arguments)
{
	DAT_PZ_HANDLE pz = POISON;
	DAT_PZ_PARAM param;

	ck_dat_is(pz_create(POISON, &pz), BAD_HANDLE(IA));
	ck_dat_is(pz_create(async, &pz), BAD_HANDLE(IA));
	ck_assert_ptr_eq(pz, POISON);
	ck_dat_is(pz_create(ia, NULL), BAD_ARG(2));
	ck_dat(pz_create(ia, &pz));
	ck_dat_is(pz_query(pz, DAT_PZ_FIELD_ALL, NULL), BAD_ARG(3));
	ck_dat(pz_query(pz, (DAT_PZ_PARAM_MASK)2, &param));
	ck_dat_is(pz_query(ia, DAT_PZ_FIELD_ALL, &param), BAD_HANDLE(PZ));
	ck_dat_is(pz_free(ia), BAD_HANDLE(PZ));
}
END_TEST

static char pz_memory[64];

static DAT_LMR_HANDLE pz_lmr(DAT_PZ_HANDLE pz)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = pz_memory };
	DAT_LMR_HANDLE lmr;

	ck_dat(lmr_create_va(ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof(pz_memory), pz,
			     DAT_MEM_PRIV_ALL_FLAG, &lmr, NULL, NULL, NULL, NULL));
	return lmr;
}

START_TEST(a_zone_in_use_is_not_freed)
{
	DAT_PZ_HANDLE pz;
	DAT_LMR_HANDLE lmr[2];
	DAT_PZ_PARAM param;

	ck_dat(pz_create(ia, &pz));
	for (int i = 0; i < 2; i++)
		lmr[i] = pz_lmr(pz);
	for (int i = 0; i < 2; i++) {
		ck_dat_is(pz_free(pz), BAD_STATE(PZ_IN_USE));
		ck_dat(pz_query(pz, DAT_PZ_FIELD_ALL, &param));
		ck_dat(lmr_free(lmr[i]));
	}
	ck_dat(pz_free(pz));
}
END_TEST

static DAT_RMR_HANDLE pz_rmr(DAT_PZ_HANDLE pz)
{
	DAT_RMR_HANDLE rmr;

	ck_dat(rmr_create(pz, &rmr));
	return rmr;
}

static DAT_EP_HANDLE pz_ep(DAT_PZ_HANDLE pz)
{
	DAT_EP_HANDLE ep;

	ck_dat(ep_create(ia, pz, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL, NULL, &ep));
	return ep;
}

/* The kinds of object that hold a zone. */
static const struct {
	DAT_HANDLE (*create)(DAT_PZ_HANDLE pz);
	DAT_RETURN (*free)(DAT_HANDLE handle);
} kinds[] = {
	{ pz_lmr, lmr_free },
	{ pz_rmr, rmr_free },
	{ pz_ep, ep_free },
};

/*
 * One object of each kind, freed in another order in each case. A refused free changes neither the
 * zone nor the objects in it.
 */
START_TEST(every_kind_of_object_holds_its_zone)
{
	DAT_HANDLE objects[COUNT(kinds)];
	DAT_PZ_HANDLE pz, other;

	ck_dat(pz_create(ia, &pz));
	ck_dat(pz_create(ia, &other));
	for (int i = 0; i < COUNT(kinds); i++)
		objects[i] = kinds[i].create(pz);
	for (int i = 0; i < COUNT(kinds); i++) {
		int next = (_i + i) % COUNT(kinds);

		ck_dat_is(pz_free(pz), BAD_STATE(PZ_IN_USE));
		ck_dat(lmr_free(pz_lmr(pz)));
		ck_dat(kinds[next].free(objects[next]));
	}
	ck_dat(pz_free(other));
	ck_dat(pz_free(pz));
	ck_assert_uint_eq(fake_alive(FAKE_PD), 0);
}
END_TEST

START_TEST(nothing_is_created_in_a_freed_zone)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = pz_memory };
	DAT_HANDLE handle = POISON;
	DAT_PZ_HANDLE pz;

	ck_dat(pz_create(ia, &pz));
	ck_dat(pz_free(pz));
	ck_dat_is(lmr_create_va(ia, DAT_MEM_TYPE_VIRTUAL, region, 8, pz, DAT_MEM_PRIV_ALL_FLAG,
				&handle, NULL, NULL, NULL, NULL),
		  BAD_HANDLE(PZ));
	ck_dat_is(rmr_create(pz, &handle), BAD_HANDLE(PZ));
	ck_dat_is(
		ep_create(ia, pz, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL, NULL, &handle),
		BAD_HANDLE(PZ));
	ck_assert_ptr_eq(handle, POISON);
}
END_TEST

static void *create_and_free_pzs(void *arg)
{
	(void)arg;
	for (unsigned n = 0; n < 300; n++) {
		DAT_HANDLE object;
		DAT_PZ_HANDLE pz;

		ck_dat(pz_create(ia, &pz));
		object = kinds[n % COUNT(kinds)].create(pz);
		ck_dat_is(pz_free(pz), BAD_STATE(PZ_IN_USE));
		ck_dat(kinds[n % COUNT(kinds)].free(object));
		ck_dat(pz_free(pz));
	}
	return NULL;
}

START_TEST(threads_create_and_free)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		threads[i] = consumer_thread_start(create_and_free_pzs, NULL);
	for (int i = 0; i < 2; i++)
		consumer_thread_join(threads[i]);
	ck_assert_uint_eq(obj_count(ia, DAT_HANDLE_TYPE_PZ), 0);
	ck_assert_uint_eq(fake_alive(FAKE_PD), 0);
}
END_TEST

START_TEST(a_failed_create_leaves_nothing_behind)
{
	DAT_PZ_HANDLE pz = POISON;
	unsigned n = 1;

	for (; fake_fail_call(n), pz_create(ia, &pz) != DAT_SUCCESS; n++) {
		ck_assert_ptr_eq(pz, POISON);
		ck_assert_uint_eq(fake_alive(FAKE_PD), 0);
		ck_assert_uint_eq(obj_count(ia, DAT_HANDLE_TYPE_PZ), 0);
	}
	fake_fail_call(0);
	ck_assert_uint_eq(n, 2);
	ck_dat(pz_free(pz));
	fake_fail("pd_create", ENOMEM, 1);
	ck_dat_is(pz_create(ia, &pz), NO_RESOURCE(PROTECTION_DOMAIN));
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("zones");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_test(cases, a_zone_is_queried_until_it_is_freed);
	tcase_add_test(cases, calls_refuse_bad_arguments);
	tcase_add_test(cases, a_zone_in_use_is_not_freed);
	tcase_add_loop_test(cases, every_kind_of_object_holds_its_zone, 0, COUNT(kinds));
	tcase_add_test(cases, nothing_is_created_in_a_freed_zone);
	tcase_add_test(cases, threads_create_and_free);
	tcase_add_test(cases, a_failed_create_leaves_nothing_behind);
	return run_unit_cases(argc, argv);
}
