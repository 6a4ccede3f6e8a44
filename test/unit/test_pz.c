/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection zones. */
#include "harness.h"

static struct ia *ia;
static DAT_EVD_HANDLE async;

static void setup(void)
{
	ia = ia_make("fake0", false, &async);
}

static void teardown(void)
{
	ck_dat(ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}

START_TEST(lives_and_dies)
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

START_TEST(refuses_arguments)
{
	DAT_PZ_HANDLE pz = POISON;
	DAT_PZ_PARAM param;

	ck_dat_is(pz_create(POISON, &pz), BAD_HANDLE(IA));
	ck_dat_is(pz_create(async, &pz), BAD_HANDLE(IA));
	ck_assert_ptr_eq(pz, POISON);
	ck_dat_is(pz_create(ia, NULL), BAD_ARG(2));
	ck_dat(pz_create(ia, &pz));
	ck_dat_is(pz_query(pz, DAT_PZ_FIELD_ALL, NULL), BAD_ARG(3));
	ck_dat_is(pz_query(pz, (DAT_PZ_PARAM_MASK)2, &param), BAD_ARG(2));
	ck_dat_is(pz_query(ia, DAT_PZ_FIELD_ALL, &param), BAD_HANDLE(PZ));
	ck_dat_is(pz_free(ia), BAD_HANDLE(PZ));
}
END_TEST

START_TEST(stays_while_used)
{
	static char memory[64];
	DAT_REGION_DESCRIPTION region = { .for_va = memory };
	DAT_PZ_HANDLE pz;
	DAT_LMR_HANDLE lmr[2];
	DAT_PZ_PARAM param;

	ck_dat(pz_create(ia, &pz));
	for (int i = 0; i < 2; i++)
		ck_dat(lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof(memory), pz, DAT_MEM_PRIV_ALL_FLAG, &lmr[i],
				  NULL, NULL, NULL, NULL));
	for (int i = 0; i < 2; i++) {
		ck_dat_is(pz_free(pz), BAD_STATE(PZ_IN_USE));
		ck_dat(pz_query(pz, DAT_PZ_FIELD_ALL, &param));
		ck_dat(lmr_free(lmr[i]));
	}
	ck_dat(pz_free(pz));
}
END_TEST

START_TEST(every_failure_unwinds)
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

int main(void)
{
	TCase *cases = tcase_create("zones");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_test(cases, lives_and_dies);
	tcase_add_test(cases, refuses_arguments);
	tcase_add_test(cases, stays_while_used);
	tcase_add_test(cases, every_failure_unwinds);
	return run("pz", cases);
}
