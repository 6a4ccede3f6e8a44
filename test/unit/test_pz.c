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

static char memory[64];

static DAT_LMR_HANDLE lmr_in(DAT_PZ_HANDLE pz)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = memory };
	DAT_LMR_HANDLE lmr;

	ck_dat(lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof(memory), pz,
			  DAT_MEM_PRIV_ALL_FLAG, &lmr, NULL, NULL, NULL, NULL));
	return lmr;
}

START_TEST(stays_while_used)
{
	DAT_PZ_HANDLE pz;
	DAT_LMR_HANDLE lmr[2];
	DAT_PZ_PARAM param;

	ck_dat(pz_create(ia, &pz));
	for (int i = 0; i < 2; i++)
		lmr[i] = lmr_in(pz);
	for (int i = 0; i < 2; i++) {
		ck_dat_is(pz_free(pz), BAD_STATE(PZ_IN_USE));
		ck_dat(pz_query(pz, DAT_PZ_FIELD_ALL, &param));
		ck_dat(lmr_free(lmr[i]));
	}
	ck_dat(pz_free(pz));
}
END_TEST

static DAT_RMR_HANDLE rmr_in(DAT_PZ_HANDLE pz)
{
	DAT_RMR_HANDLE rmr;

	ck_dat(rmr_create(pz, &rmr));
	return rmr;
}

static DAT_EP_HANDLE ep_in(DAT_PZ_HANDLE pz)
{
	DAT_EP_HANDLE ep;

	ck_dat(ep_create(ia, pz, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL, NULL, &ep));
	return ep;
}

/* Who may live in a zone, and how he leaves. */
static const struct {
	DAT_HANDLE (*make)(DAT_PZ_HANDLE pz);
	DAT_RETURN (*free)(DAT_HANDLE handle);
} tenants[] = {
	{ lmr_in, lmr_free },
	{ rmr_in, rmr_free },
	{ ep_in, ep_free },
};

/*
 * One of each, who leave in another order each time; the refused free hurts neither the zone nor
 * who is left.
 */
START_TEST(every_kind_of_tenant_counts)
{
	DAT_HANDLE inside[COUNT(tenants)];
	DAT_PZ_HANDLE pz, other;

	ck_dat(pz_create(ia, &pz));
	ck_dat(pz_create(ia, &other));
	for (int i = 0; i < COUNT(tenants); i++)
		inside[i] = tenants[i].make(pz);
	for (int i = 0; i < COUNT(tenants); i++) {
		int next = (_i + i) % COUNT(tenants);

		ck_dat_is(pz_free(pz), BAD_STATE(PZ_IN_USE));
		ck_dat(lmr_free(lmr_in(pz)));
		ck_dat(tenants[next].free(inside[next]));
	}
	ck_dat(pz_free(other)); /* theirs was the other one */
	ck_dat(pz_free(pz));
	ck_assert_uint_eq(fake_alive(FAKE_PD), 0);
}
END_TEST

/* Nobody can move in when it is gone, or into one of another adapter. */
START_TEST(takes_no_tenants_when_freed)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = memory };
	DAT_HANDLE handle = POISON;
	DAT_PZ_HANDLE pz;

	ck_dat(pz_create(ia, &pz));
	ck_dat(pz_free(pz));
	ck_dat_is(lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, 8, pz, DAT_MEM_PRIV_ALL_FLAG,
			     &handle, NULL, NULL, NULL, NULL),
		  BAD_HANDLE(PZ));
	ck_dat_is(rmr_create(pz, &handle), BAD_HANDLE(PZ));
	ck_dat_is(
		ep_create(ia, pz, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL, NULL, &handle),
		BAD_HANDLE(PZ));
	ck_assert_ptr_eq(handle, POISON);
}
END_TEST

static void *come_and_go(void *arg)
{
	(void)arg;
	for (unsigned n = 0; n < 300; n++) {
		DAT_HANDLE tenant;
		DAT_PZ_HANDLE pz;

		ck_dat(pz_create(ia, &pz));
		tenant = tenants[n % COUNT(tenants)].make(pz);
		ck_dat_is(pz_free(pz), BAD_STATE(PZ_IN_USE));
		ck_dat(tenants[n % COUNT(tenants)].free(tenant));
		ck_dat(pz_free(pz));
	}
	return NULL;
}

START_TEST(two_threads)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		threads[i] = consumer_thread_start(come_and_go, NULL);
	for (int i = 0; i < 2; i++)
		consumer_thread_end(threads[i]);
	ck_assert_uint_eq(obj_count(ia, DAT_HANDLE_TYPE_PZ), 0);
	ck_assert_uint_eq(fake_alive(FAKE_PD), 0);
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

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("zones");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_test(cases, lives_and_dies);
	tcase_add_test(cases, refuses_arguments);
	tcase_add_test(cases, stays_while_used);
	tcase_add_loop_test(cases, every_kind_of_tenant_counts, 0, COUNT(tenants));
	tcase_add_test(cases, takes_no_tenants_when_freed);
	tcase_add_test(cases, two_threads);
	tcase_add_test(cases, every_failure_unwinds);
	return run_unit_cases(argc, argv);
}
