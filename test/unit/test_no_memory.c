/* SPDX-License-Identifier: BSD-2-Clause */
/* Zones, regions, windows, transfers and dat_ia_openv when host memory runs out. */
#include "alloc.h"
#include "region.h"

#define MANY 40 /* more objects than one slab has */

static struct pair pair;
static struct side *const side = &pair.client;

static void setup(void)
{
	static DAT_EP_ATTR attr;

	side_open(&pair.server, "fake1");
	attr = ep_attr_default(&pair.server);
	attr.max_request_dtos = MANY;
	side->ep_attr = &attr;
	pair_connect(&pair);
}

static void teardown(void)
{
	ck_dat(ia_close(pair.client.ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat(ia_close(pair.server.ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
	free(pair.client.memory);
	free(pair.server.memory);
}

START_TEST(a_zone_without_memory_is_not_created)
{
	DAT_PZ_HANDLE pz[MANY];
	DAT_RETURN ret;

	for (int i = 0; i < MANY; i++) {
		unsigned domains = fake_alive(FAKE_PD),
			 zones = obj_count(side->ia, DAT_HANDLE_TYPE_PZ);

		pz[i] = POISON;
		for (unsigned n = 1;
		     alloc_fail_nth(n), ret = pz_create(side->ia, &pz[i]), alloc_failed(); n++) {
			ck_dat_is(ret, NO_RESOURCE(MEMORY));
			ck_assert_ptr_eq(pz[i], POISON);
			ck_assert_uint_eq(fake_alive(FAKE_PD), domains);
			ck_assert_uint_eq(obj_count(side->ia, DAT_HANDLE_TYPE_PZ), zones);
		}
		ck_dat(ret);
	}
	for (int i = 0; i < MANY; i++)
		ck_dat(pz_free(pz[i]));
}
END_TEST

/* ---- regions ---- */

static const DAT_MEM_TYPE types[] = {
	DAT_MEM_TYPE_VIRTUAL,
	DAT_MEM_TYPE_LMR,
	DAT_MEM_TYPE_SHARED_VIRTUAL,
	DAT_MEM_TYPE_SO_VIRTUAL,
};

/*
 * The description of the region number @i. A failed create does not keep its cookie, so the next
 * one may use it for the other of two pages.
 */
static DAT_REGION_DESCRIPTION numbered_region(DAT_MEM_TYPE type, int i, unsigned attempt)
{
	static char cookies[MANY][DAT_LMR_COOKIE_SIZE];
	static char *pages[2];
	char **page = &pages[attempt % 2];

	if (type == DAT_MEM_TYPE_LMR)
		return (DAT_REGION_DESCRIPTION){ .for_lmr_handle = side->lmr };
	if (type != DAT_MEM_TYPE_SHARED_VIRTUAL)
		return (DAT_REGION_DESCRIPTION){ .for_va = side->memory };
	cookies[i][0] = (char)i;
	if (!*page)
		*page = map_shared_page();
	return describe_shared(*page, &cookies[i]);
}

/* All outputs of lmr_create. */
struct lmr_outputs {
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
	DAT_VLEN size;
	DAT_VADDR address;
};

static DAT_RETURN try_lmr_outputs(DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region,
				  struct lmr_outputs *out)
{
	return lmr_create_va(side->ia, type, region, PAGE, side->pz, DAT_MEM_PRIV_ALL_FLAG,
			     &out->lmr, &out->lmr_context, &out->rmr_context, &out->size,
			     &out->address);
}

START_TEST(a_region_without_memory_is_not_created)
{
	const struct lmr_outputs none = { POISON, 1, 2, 3, 4 };
	const DAT_MEM_TYPE type = types[_i];
	struct lmr_outputs made[MANY];

	for (int i = 0; i < MANY; i++) {
		unsigned lmrs = obj_count(side->ia, DAT_HANDLE_TYPE_LMR),
			 uses = handle_uses(side->pz);

		for (unsigned n = 1;; n++) {
			const DAT_REGION_DESCRIPTION region = numbered_region(type, i, n);
			DAT_RETURN ret;

			made[i] = none;
			alloc_fail_nth(n);
			ret = try_lmr_outputs(type, region, &made[i]);
			if (!alloc_failed()) {
				ck_dat(ret);
				break;
			}
			ck_dat_is(ret, NO_RESOURCE(MEMORY));
			ck_assert_mem_eq(&made[i], &none, sizeof(none));
			ck_assert_uint_eq(fake_alive(FAKE_MR), lmrs + 1); /* and the server's */
			ck_assert_uint_eq(obj_count(side->ia, DAT_HANDLE_TYPE_LMR), lmrs);
			ck_assert_uint_eq(handle_uses(side->pz), uses);
			ck_assert_uint_eq(handle_uses(side->lmr), 0);
		}
	}
	for (int i = 0; i < MANY; i++)
		ck_dat(lmr_free(made[i].lmr));
}
END_TEST

/* ---- windows ---- */

START_TEST(a_window_without_memory_is_not_created)
{
	DAT_RMR_HANDLE rmr[MANY];
	DAT_RETURN ret;

	for (int i = 0; i < MANY; i++) {
		unsigned mws = fake_alive(FAKE_MW), uses = handle_uses(side->pz);

		rmr[i] = POISON;
		for (unsigned n = 1;
		     alloc_fail_nth(n), ret = rmr_create(side->pz, &rmr[i]), alloc_failed(); n++) {
			ck_dat_is(ret, NO_RESOURCE(MEMORY));
			ck_assert_ptr_eq(rmr[i], POISON);
			ck_assert_uint_eq(fake_alive(FAKE_MW), mws);
			ck_assert_uint_eq(obj_count(side->ia, DAT_HANDLE_TYPE_RMR), (unsigned)i);
			ck_assert_uint_eq(handle_uses(side->pz), uses);
		}
		ck_dat(ret);
	}
	for (int i = 0; i < MANY; i++)
		ck_dat(rmr_free(rmr[i]));
}
END_TEST

/* It uses the binding of one that is over. */
START_TEST(a_bind_that_registers_a_region_takes_no_memory)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = side->memory };
	DAT_LMR_TRIPLET whole = segment(side, 0, PAGE);
	DAT_LMR_HANDLE lmr;
	DAT_RMR_CONTEXT context;
	DAT_RMR_HANDLE rmr;
	DAT_EVENT event;
	DAT_RETURN ret;
	bool failed;

	fake_quirks(FAKE_UNBINDABLE);
	ck_dat(lmr_create_va(side->ia, DAT_MEM_TYPE_VIRTUAL, region, PAGE, side->pz,
			     DAT_MEM_PRIV_READ_FLAG, &lmr, &whole.lmr_context, NULL, NULL, NULL));
	ck_dat(rmr_create(side->pz, &rmr));
	for (unsigned i = 0; i < MANY; i++) {
		alloc_fail_nth(1);
		ret = rmr_bind_va(rmr, &whole, DAT_MEM_PRIV_REMOTE_READ_FLAG, side->ep,
				  cookie_of(i), DAT_COMPLETION_DEFAULT_FLAG, &context);
		failed = alloc_failed();
		ck_dat(ret);
		ck_assert(!failed);
		ck_dat(evd_dequeue(side->request_evd, &event));
	}
	ck_dat(rmr_free(rmr));
	ck_dat(lmr_free(lmr));
}
END_TEST

/*
 * The device binds a window, or the bind registers a region of its own. No earlier bind is
 * complete, so its memory cannot be reused.
 */
START_TEST(a_bind_without_memory_is_not_posted)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = side->memory };
	DAT_LMR_TRIPLET whole = segment(side, 0, PAGE);
	DAT_LMR_HANDLE lmr;
	DAT_RMR_CONTEXT context = 0;
	DAT_RMR_HANDLE rmr;
	DAT_RMR_PARAM param;
	DAT_RETURN ret;

	if (_i)
		fake_quirks(FAKE_UNBINDABLE);
	ck_dat(lmr_create_va(side->ia, DAT_MEM_TYPE_VIRTUAL, region, PAGE, side->pz,
			     DAT_MEM_PRIV_READ_FLAG, &lmr, &whole.lmr_context, NULL, NULL, NULL));
	ck_dat(rmr_create(side->pz, &rmr));
	fake_hold(true);
	for (unsigned i = 0; i < MANY; i++) {
		const DAT_RMR_CONTEXT before = context;
		const unsigned mrs = fake_alive(FAKE_MR);

		for (unsigned n = 1; alloc_fail_nth(n),
			      ret = rmr_bind_va(rmr, &whole, DAT_MEM_PRIV_REMOTE_READ_FLAG,
						side->ep, cookie_of(i), DAT_COMPLETION_DEFAULT_FLAG,
						&context),
			      alloc_failed();
		     n++) {
			ck_dat_is(ret, NO_RESOURCE(MEMORY));
			ck_assert_uint_eq(context, before);
			ck_assert_uint_eq(handle_uses(lmr), i);
			ck_assert_uint_eq(fake_alive(FAKE_MR), mrs);
			ck_assert_uint_eq(fake_outstanding(), i);
			ck_dat(rmr_query(rmr, DAT_RMR_FIELD_RMR_CONTEXT, &param));
			ck_assert_uint_eq(param.rmr_context, before);
		}
		ck_dat(ret);
	}
	fake_hold(false);
	for (unsigned i = 0; i < MANY; i++) {
		const DAT_EVENT event = expect_event(side->request_evd,
						     DAT_RMR_BIND_COMPLETION_EVENT);

		ck_assert_uint_eq(event.event_data.rmr_completion_event_data.user_cookie.as_64, i);
		ck_assert_int_eq(event.event_data.rmr_completion_event_data.status,
				 DAT_RMR_BIND_SUCCESS);
	}
	ck_assert_uint_eq(handle_uses(lmr), 1);
	ck_dat(rmr_free(rmr));
	ck_assert_uint_eq(handle_uses(lmr), 0);
}
END_TEST

/* ---- transfers ---- */

/* The endpoint has allocated their memory when it was created. */
START_TEST(transfers_need_no_memory)
{
	DAT_RETURN ret[4];
	DAT_EVENT event;

	for (unsigned i = 0; i < MANY; i++) {
		alloc_fail_nth(1);
		ret[0] = try_recv(&pair.server, i, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
		ret[1] = try_send(side, i, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
		ret[2] = evd_dequeue(side->request_evd, &event);
		ret[3] = evd_dequeue(pair.server.recv_evd, &event);
		ck_assert(!alloc_failed());
		for (int call = 0; call < COUNT(ret); call++)
			ck_dat(ret[call]);
	}
}
END_TEST

/* ---- opening ---- */

/* In the registry, in the core, and in the transport. */
START_TEST(an_open_without_memory_leaves_nothing_behind)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia = POISON;
	unsigned n = 1;
	DAT_RETURN ret;

	ck_assert_int_eq(setenv("DAT_OVERRIDE", "/dev/null", 1), 0);
	/* the first open registers the device with the registry */
	ck_dat(ia_close(ia_open_on("fake0", false, &async), DAT_CLOSE_ABRUPT_FLAG));
	async = DAT_HANDLE_NULL;
	for (;
	     alloc_fail_nth(n), ret = dat_ia_open((char *)"fake0", 8, &async, &ia), alloc_failed();
	     n++) {
		ck_dat_is(ret, NO_RESOURCE(MEMORY));
		ck_assert_ptr_null(ia);
		ck_assert_ptr_null(async);
		ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
	}
	ck_dat(ret);
	ck_assert_uint_ge(n, 3); /* IA parameters and the queue of asynchronous events at least */
	ck_dat(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *memory = tcase_create("memory"), *opening = tcase_create("opening");

	tcase_add_checked_fixture(memory, setup, teardown);
	tcase_add_test(memory, a_zone_without_memory_is_not_created);
	tcase_add_loop_test(memory, a_region_without_memory_is_not_created, 0, COUNT(types));
	tcase_add_test(memory, a_window_without_memory_is_not_created);
	tcase_add_loop_test(memory, a_bind_without_memory_is_not_posted, 0, 2);
	tcase_add_test(memory, a_bind_that_registers_a_region_takes_no_memory);
	tcase_add_test(memory, transfers_need_no_memory);
	tcase_add_test(opening, an_open_without_memory_leaves_nothing_behind);
	return run_unit_cases(argc, argv);
}
