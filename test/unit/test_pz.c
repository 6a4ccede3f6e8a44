// SPDX-License-Identifier: BSD-2-Clause
/* Protection zones. */
#include <errno.h>

#include "core_test.h"

static struct ia *ia;

static void setup(void)
{
	ia = open_fake(0);
}

static void teardown(void)
{
	close_abrupt(ia);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}

START_TEST(lives_and_dies)
{
	DAT_PZ_HANDLE pz = POISON;
	DAT_PZ_PARAM param;

	ck_assert_uint_eq(pz_create(ia, &pz), DAT_SUCCESS);
	ck_assert_uint_eq(fake_alive(FAKE_PD), 1);
	ck_assert_uint_eq(pz_query(pz, DAT_PZ_FIELD_ALL, &param), DAT_SUCCESS);
	ck_assert_ptr_eq(param.ia_handle, ia);
	ck_assert_uint_eq(pz_free(pz), DAT_SUCCESS);
	ck_assert_uint_eq(fake_alive(FAKE_PD), 0);
	ck_assert_uint_eq(pz_free(pz), BAD_HANDLE(PZ));
	ck_assert_uint_eq(pz_query(pz, DAT_PZ_FIELD_ALL, &param), BAD_HANDLE(PZ));
}
END_TEST

START_TEST(refuses_arguments)
{
	DAT_PZ_HANDLE pz = POISON;
	DAT_PZ_PARAM param;

	ck_assert_uint_eq(pz_create(POISON, &pz), BAD_HANDLE(IA));
	ck_assert_uint_eq(pz_create(ia->async_evd, &pz), BAD_HANDLE(IA));
	ck_assert_ptr_eq(pz, POISON);
	ck_assert_uint_eq(pz_create(ia, NULL), BAD_ARG(2));
	ck_assert_uint_eq(pz_create(ia, &pz), DAT_SUCCESS);
	ck_assert_uint_eq(pz_query(pz, DAT_PZ_FIELD_ALL, NULL), BAD_ARG(3));
	ck_assert_uint_eq(pz_query(pz, (DAT_PZ_PARAM_MASK)2, &param), BAD_ARG(2));
	ck_assert_uint_eq(pz_query(ia, DAT_PZ_FIELD_ALL, &param), BAD_HANDLE(PZ));
	ck_assert_uint_eq(pz_free(ia), BAD_HANDLE(PZ));
}
END_TEST

START_TEST(stays_while_used)
{
	static char memory[64];
	DAT_REGION_DESCRIPTION region = { .for_va = memory };
	DAT_PZ_HANDLE pz;
	DAT_LMR_HANDLE lmr[2];
	DAT_PZ_PARAM param;

	ck_assert_uint_eq(pz_create(ia, &pz), DAT_SUCCESS);
	for (int i = 0; i < 2; i++)
		ck_assert_uint_eq(lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof(memory), pz, DAT_MEM_PRIV_ALL_FLAG,
					     &lmr[i], NULL, NULL, NULL, NULL),
				  DAT_SUCCESS);
	for (int i = 0; i < 2; i++) {
		ck_assert_uint_eq(pz_free(pz), BAD_STATE(PZ_IN_USE));
		ck_assert_uint_eq(pz_query(pz, DAT_PZ_FIELD_ALL, &param), DAT_SUCCESS);
		ck_assert_uint_eq(lmr_free(lmr[i]), DAT_SUCCESS);
	}
	ck_assert_uint_eq(pz_free(pz), DAT_SUCCESS);
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
	ck_assert_uint_eq(pz_free(pz), DAT_SUCCESS);
	fake_fail("pd_create", ENOMEM, 1);
	ck_assert_uint_eq(pz_create(ia, &pz), NO_RESOURCE(PROTECTION_DOMAIN));
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
