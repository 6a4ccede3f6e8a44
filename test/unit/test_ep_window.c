/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Windows of DAT 2.0 whose scope is an endpoint: whom a bind serves, what ends that, and what is
 * left by a bind that fails.
 */
#include "../fake/fake_impl.h"
#include "alloc.h"
#include "region.h"

#define READING	    DAT_MEM_PRIV_REMOTE_READ_FLAG
#define WRITING	    DAT_MEM_PRIV_REMOTE_WRITE_FLAG
#define REMOTE_BOTH ((DAT_MEM_PRIV_FLAGS)(READING | WRITING))
#define DEFAULT	    DAT_COMPLETION_DEFAULT_FLAG
#define NOT_HAD	    DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE)

/* The server has the window. The second endpoints of the two are connected with each other. */
static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;
static DAT_EP_HANDLE other_client, other_server;
static DAT_RMR_HANDLE rmr;

static void connect_with_window(void)
{
	pair_connect(&pair);
	other_client = side_create_ep(client, NULL);
	other_server = side_create_ep(server, NULL);
	connect_eps(client, other_client, server, other_server);
	ck_dat(rmr_create_for_ep(server->pz, &rmr));
}

static void end(void)
{
	pair_close_abrupt(&pair);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}

static DAT_RETURN try_bind(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET range, DAT_MEM_PRIV_FLAGS priv,
			   DAT_RMR_CONTEXT *context)
{
	return rmr_bind(rmr, server->lmr, &range, priv, DAT_VA_TYPE_VA, ep, cookie_of(9), DEFAULT,
			context);
}

static void expect_bind(DAT_RMR_BIND_COMPLETION_STATUS status)
{
	DAT_EVENT event = expect_event(server->request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
	const DAT_RMR_BIND_COMPLETION_EVENT_DATA *bind =
		&event.event_data.rmr_completion_event_data;

	ck_assert_ptr_eq(bind->rmr_handle, rmr);
	ck_assert_uint_eq(bind->user_cookie.as_64, 9);
	ck_assert_int_eq(bind->status, status);
}

static DAT_RMR_CONTEXT bind_through(DAT_EP_HANDLE ep)
{
	DAT_RMR_CONTEXT context;

	ck_dat(try_bind(ep, segment(server, 500, 100), REMOTE_BOTH, &context));
	expect_bind(DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_ne(context, 0);
	return context;
}

static void unbind_through(DAT_EP_HANDLE ep)
{
	const DAT_LMR_TRIPLET nothing = { 0 };
	DAT_RMR_CONTEXT context = 1;

	ck_dat(rmr_bind(rmr, DAT_HANDLE_NULL, &nothing, REMOTE_BOTH, DAT_VA_TYPE_VA, ep,
			cookie_of(9), DEFAULT, &context));
	expect_bind(DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(context, 0);
}

/* Would the device let the peer of @ep write to that byte of the server's memory? */
static bool serves(DAT_EP_HANDLE ep, DAT_RMR_CONTEXT context, size_t offset)
{
	const struct ep *of = ep;
	bool allowed;

	fake_lock();
	allowed = mem_allows_peer(of->qp, context, (uintptr_t)server->memory + offset, 1, WRITING);
	fake_unlock();
	return allowed;
}

static void expect_unbound(void)
{
	DAT_RMR_PARAM param;

	ck_dat_is(rmr_query(rmr, DAT_RMR_FIELD_LMR_TRIPLET, &param), BAD_ARG(2));
	ck_dat(rmr_query(rmr, DAT_RMR_FIELD_RMR_CONTEXT, &param));
	ck_assert_uint_eq(param.rmr_context, 0);
	ck_assert_uint_eq(handle_uses(server->lmr), 0);
}

static void expect_bound_as(DAT_RMR_CONTEXT context)
{
	DAT_RMR_PARAM param;

	memset(&param, 0xff, sizeof(param));
	ck_dat(rmr_query(rmr, DAT_RMR_FIELD_ALL, &param));
	ck_assert_uint_eq(param.rmr_context, context);
	ck_assert_uint_eq(param.lmr_triplet.virtual_address, (uintptr_t)server->memory + 500);
	ck_assert_uint_eq(param.lmr_triplet.segment_length, 100);
	ck_assert_uint_eq(param.mem_priv, REMOTE_BOTH);
	ck_assert_uint_eq(param.rmr_scope, DAT_RMR_SCOPE_EP);
	ck_assert_uint_eq(param.va_type, DAT_VA_TYPE_VA);
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 1);
}

/* ---- whom a bind serves ---- */

START_TEST(a_bind_serves_the_peer_of_its_endpoint_only)
{
	DAT_RMR_CONTEXT context;
	DAT_LMR_TRIPLET local;
	DAT_RMR_TRIPLET remote;

	connect_with_window();
	context = bind_through(server->ep);
	expect_bound_as(context);
	local = segment(client, 0, 50);
	remote = target(server, 510, 50);
	remote.rmr_context = context;
	memset(client->memory, 0x77, 50);
	ck_dat(ep_post_rdma_write(client->ep, 1, &local, cookie_of(1), &remote, DEFAULT));
	expect_dto(client->request_evd, 1, DAT_DTO_SUCCESS);
	ck_assert_mem_eq(server->memory + 510, client->memory, 50);
	ck_dat(ep_post_rdma_write(other_client, 1, &local, cookie_of(2), &remote, DEFAULT));
	expect_dto(client->request_evd, 2, DAT_DTO_ERR_REMOTE_ACCESS);
	end();
}
END_TEST

START_TEST(a_bind_ends_the_one_before)
{
	DAT_RMR_CONTEXT first, second;

	connect_with_window();
	first = bind_through(server->ep);
	second = bind_through(server->ep);
	ck_assert_uint_ne(second, first);
	ck_assert(!serves(server->ep, first, 510));
	ck_assert(serves(server->ep, second, 510));
	expect_bound_as(second);
	end();
}
END_TEST

START_TEST(a_bind_through_another_endpoint_moves_the_window)
{
	DAT_RMR_CONTEXT first, second;

	connect_with_window();
	first = bind_through(server->ep);
	second = bind_through(other_server);
	ck_assert(!serves(server->ep, first, 510));
	ck_assert(!serves(server->ep, second, 510));
	ck_assert(serves(other_server, second, 510));
	expect_bound_as(second);
	end();
}
END_TEST

START_TEST(an_unbind_ends_it)
{
	DAT_RMR_CONTEXT context;

	connect_with_window();
	context = bind_through(server->ep);
	ck_dat_is(lmr_free(server->lmr), BAD_STATE(LMR_IN_USE));
	unbind_through(server->ep);
	ck_assert(!serves(server->ep, context, 510));
	expect_unbound();
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	unbind_through(server->ep); /* once more */
	ck_dat(lmr_free(server->lmr));
	end();
}
END_TEST

START_TEST(a_zero_based_one_begins_at_0)
{
	DAT_LMR_TRIPLET part;
	DAT_RMR_CONTEXT context;
	DAT_RMR_PARAM param;
	DAT_RMR_TRIPLET remote;

	connect_with_window();
	part = segment(server, 500, 100);
	ck_dat(rmr_bind(rmr, server->lmr, &part, REMOTE_BOTH, DAT_VA_TYPE_ZB, server->ep,
			cookie_of(9), DEFAULT, &context));
	expect_bind(DAT_RMR_BIND_SUCCESS);
	ck_dat(rmr_query(rmr, DAT_RMR_FIELD_ALL, &param));
	ck_assert_uint_eq(param.va_type, DAT_VA_TYPE_ZB);
	part = segment(client, 0, 50);
	remote = (DAT_RMR_TRIPLET){ 50, 50, context };
	memset(client->memory, 0x77, 50);
	ck_dat(ep_post_rdma_write(client->ep, 1, &part, cookie_of(1), &remote, DEFAULT));
	expect_dto(client->request_evd, 1, DAT_DTO_SUCCESS);
	ck_assert_mem_eq(server->memory + 550, client->memory, 50);
	end();
}
END_TEST

START_TEST(a_device_that_has_no_other_windows_may_have_these)
{
	fake_attr()->max_mw = 0;
	connect_with_window();
	for (int i = 0; i < 5; i++)
		expect_bound_as(bind_through(server->ep));
	unbind_through(server->ep);
	expect_unbound();
	ck_dat(rmr_free(rmr));
	end();
}
END_TEST

/* ---- the end of an endpoint, and of the window ---- */

START_TEST(the_free_of_a_bound_window_ends_it)
{
	DAT_RMR_CONTEXT context;

	connect_with_window();
	context = bind_through(server->ep);
	ck_dat(rmr_free(rmr));
	ck_assert(!serves(server->ep, context, 510));
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	ck_assert_uint_eq(handle_uses(server->lmr), 0);
	end();
}
END_TEST

START_TEST(a_window_outlives_its_endpoint)
{
	DAT_RMR_CONTEXT context;

	connect_with_window();
	context = bind_through(server->ep);
	ck_dat(ep_free(server->ep));
	ck_assert(!serves(other_server, context, 510));
	ck_dat_is(lmr_free(server->lmr), BAD_STATE(LMR_IN_USE));
	context = bind_through(other_server);
	ck_assert(serves(other_server, context, 510));
	expect_bound_as(context);
	server->ep = other_server;
	end();
}
END_TEST

START_TEST(a_bound_window_is_freed_after_its_endpoint)
{
	connect_with_window();
	(void)bind_through(server->ep);
	ck_dat(ep_free(server->ep));
	ck_dat(rmr_free(rmr));
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	ck_dat(lmr_free(server->lmr));
	end();
}
END_TEST

START_TEST(a_window_is_freed_while_its_bind_is_in_flight)
{
	DAT_RMR_CONTEXT context;

	connect_with_window();
	fake_hold(true);
	ck_dat(try_bind(server->ep, segment(server, 500, 100), REMOTE_BOTH, &context));
	ck_dat(rmr_free(rmr));
	fake_hold(false);
	expect_bind(DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	ck_assert(!serves(server->ep, context, 510));
	end();
}
END_TEST

/* ---- what is refused, and what fails ---- */

START_TEST(a_device_may_have_none)
{
	DAT_PROVIDER_ATTR attr;

	fake_attr()->caps &= ~(unsigned)TP_CAP_QP_WINDOWS;
	pair_connect(&pair);
	rmr = POISON;
	ck_dat_is(rmr_create_for_ep(server->pz, &rmr), NOT_HAD);
	ck_assert_ptr_eq(rmr, POISON);
	ck_dat(ia_query(server->ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, &attr));
	ck_assert_int_eq(attr.rmr_scope_supported, DAT_RMR_SCOPE_PZ);
	pair_close(&pair);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

START_TEST(create_refuses_bad_arguments)
{
	DAT_PROVIDER_ATTR attr;

	pair_connect(&pair);
	rmr = POISON;
	ck_dat_is(rmr_create_for_ep(server->ep, &rmr), BAD_HANDLE(PZ));
	ck_dat_is(rmr_create_for_ep(DAT_HANDLE_NULL, &rmr), BAD_HANDLE(PZ));
	ck_dat_is(rmr_create_for_ep(server->pz, NULL), BAD_ARG(2));
	ck_assert_ptr_eq(rmr, POISON);
	ck_dat(ia_query(server->ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, &attr));
	ck_assert_int_eq(attr.rmr_scope_supported, DAT_RMR_SCOPE_ANY);
	pair_close(&pair);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

START_TEST(a_create_without_memory_leaves_nothing)
{
	DAT_RETURN ret;
	unsigned n, holds;

	pair_connect(&pair);
	rmr = POISON;
	holds = handle_uses(server->pz);
	for (n = 1; alloc_fail_nth(n), ret = rmr_create_for_ep(server->pz, &rmr), alloc_failed();
	     n++) {
		ck_dat_is(ret, NO_RESOURCE(MEMORY));
		ck_assert_ptr_eq(rmr, POISON);
		ck_assert_uint_eq(handle_uses(server->pz), holds);
	}
	ck_assert_uint_gt(n, 1);
	ck_dat(ret);
	ck_dat(rmr_free(rmr));
	pair_close(&pair);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

/* The window stays as it was bound before, and nothing else is left. */
static void expect_bind_refused(DAT_RETURN want)
{
	const DAT_RMR_CONTEXT before = bind_through(server->ep);
	DAT_RMR_CONTEXT context = 0x5a5a5a5a;

	fake_fail(want == NO_RESOURCE(MEMORY_REGION) ? "mw_create" : "post_bind",
		  want == NOT_HAD ? EINVAL : ENOMEM, 1);
	ck_dat_is(try_bind(server->ep, segment(server, 0, 8), REMOTE_BOTH, &context), want);
	ck_assert_uint_eq(context, 0x5a5a5a5a);
	expect_no_event(server->request_evd);
	expect_bound_as(before);
	ck_assert(serves(server->ep, before, 510));
	ck_assert_uint_eq(fake_alive(FAKE_MR), 2);
}

START_TEST(a_bind_that_is_refused_changes_nothing)
{
	static const DAT_RETURN refusals[] = {
		DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE),
		DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY),
		DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION),
	};

	connect_with_window();
	for (int i = 0; i < COUNT(refusals); i++)
		expect_bind_refused(refusals[i]);
	ck_dat(rmr_free(rmr));
	end();
}
END_TEST

START_TEST(a_region_without_windows_has_none_of_these)
{
	DAT_REGION_DESCRIPTION region;
	DAT_LMR_TRIPLET range;
	DAT_RMR_CONTEXT context;
	DAT_LMR_HANDLE lmr;

	fake_quirks(FAKE_UNBINDABLE);
	connect_with_window();
	region.for_va = server->memory;
	ck_dat(lmr_create(server->ia, DAT_MEM_TYPE_VIRTUAL, region, SIDE_MEMORY, server->pz,
			  DAT_MEM_PRIV_LOCAL_READ_FLAG, DAT_VA_TYPE_VA, &lmr, &range.lmr_context,
			  NULL, NULL, NULL));
	range.virtual_address = (uintptr_t)server->memory;
	range.segment_length = 8;
	ck_dat_is(rmr_bind(rmr, lmr, &range, READING, DAT_VA_TYPE_VA, server->ep, cookie_of(9),
			   DEFAULT, &context),
		  NOT_HAD);
	ck_assert_uint_eq(handle_uses(lmr), 0);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	end();
}
END_TEST

START_TEST(a_bind_that_fails_leaves_the_window_unbound)
{
	DAT_RMR_CONTEXT before, context;

	connect_with_window();
	before = bind_through(server->ep);
	fake_fail_transfer(DAT_RMR_OPERATION_FAILED);
	ck_dat(try_bind(server->ep, segment(server, 0, 8), REMOTE_BOTH, &context));
	expect_bind(DAT_RMR_OPERATION_FAILED);
	expect_unbound();
	ck_assert(!serves(server->ep, before, 510));
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	context = bind_through(other_server);
	expect_bound_as(context);
	end();
}
END_TEST

START_TEST(a_bind_that_is_flushed_was_never_posted)
{
	DAT_RMR_CONTEXT before, context;

	connect_with_window();
	before = bind_through(other_server);
	fake_hold(true);
	ck_dat(try_bind(server->ep, segment(server, 0, 8), REMOTE_BOTH, &context));
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_bind(DAT_DTO_ERR_FLUSHED);
	fake_hold(false);
	expect_bound_as(before);
	ck_assert(serves(other_server, before, 510));
	end();
}
END_TEST

START_TEST(a_bind_without_memory_changes_nothing)
{
	DAT_RMR_CONTEXT context = 0;
	DAT_RETURN ret;

	connect_with_window();
	for (int i = 0; i < 3; i++) { /* all spare bindings are in use */
		fake_hold(true);
		ck_dat(try_bind(server->ep, segment(server, 500, 100), REMOTE_BOTH, &context));
	}
	alloc_fail_nth(1);
	ret = try_bind(server->ep, segment(server, 0, 8), REMOTE_BOTH, &context);
	ck_assert(alloc_failed());
	ck_dat_is(ret, NO_RESOURCE(MEMORY));
	fake_hold(false);
	for (int i = 0; i < 3; i++)
		expect_bind(DAT_RMR_BIND_SUCCESS);
	expect_bound_as(context);
	end();
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("windows of endpoints");

	tcase_add_test(cases, a_bind_serves_the_peer_of_its_endpoint_only);
	tcase_add_test(cases, a_bind_ends_the_one_before);
	tcase_add_test(cases, a_bind_through_another_endpoint_moves_the_window);
	tcase_add_test(cases, an_unbind_ends_it);
	tcase_add_test(cases, a_zero_based_one_begins_at_0);
	tcase_add_test(cases, a_device_that_has_no_other_windows_may_have_these);
	tcase_add_test(cases, the_free_of_a_bound_window_ends_it);
	tcase_add_test(cases, a_window_outlives_its_endpoint);
	tcase_add_test(cases, a_bound_window_is_freed_after_its_endpoint);
	tcase_add_test(cases, a_window_is_freed_while_its_bind_is_in_flight);
	tcase_add_test(cases, a_device_may_have_none);
	tcase_add_test(cases, create_refuses_bad_arguments);
	tcase_add_test(cases, a_create_without_memory_leaves_nothing);
	tcase_add_test(cases, a_bind_that_is_refused_changes_nothing);
	tcase_add_test(cases, a_region_without_windows_has_none_of_these);
	tcase_add_test(cases, a_bind_that_fails_leaves_the_window_unbound);
	tcase_add_test(cases, a_bind_that_is_flushed_was_never_posted);
	tcase_add_test(cases, a_bind_without_memory_changes_nothing);
	return run_unit_cases(argc, argv);
}
