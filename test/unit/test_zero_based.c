/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions and windows of DAT 2.0 that begin at 0: how they are addressed, here and by a peer, and
 * what a device that has none answers.
 */
#include "region.h"

#define READING	    DAT_MEM_PRIV_REMOTE_READ_FLAG
#define WRITING	    DAT_MEM_PRIV_REMOTE_WRITE_FLAG
#define REMOTE_BOTH ((DAT_MEM_PRIV_FLAGS)(READING | WRITING))
#define ALL	    DAT_MEM_PRIV_ALL_FLAG
#define DEFAULT	    DAT_COMPLETION_DEFAULT_FLAG
#define NOT_HAD	    DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE)

#define FROM 300 /* where the region begins in the server's memory; not at a page */
#define SIZE 5000

/* The server has the region, over a part of its memory, and the client accesses it. */
static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;
static DAT_LMR_HANDLE lmr;
static DAT_LMR_CONTEXT lmr_context;
static DAT_RMR_CONTEXT rmr_context;

static char *in_region(size_t offset)
{
	return server->memory + FROM + offset;
}

static DAT_RETURN try_region(DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region, DAT_VLEN size,
			     DAT_MEM_PRIV_FLAGS priv, DAT_VA_TYPE va_type)
{
	return lmr_create(server->ia, type, region, size, server->pz, priv, va_type, &lmr,
			  &lmr_context, &rmr_context, NULL, NULL);
}

static DAT_RETURN try_zero_based(DAT_MEM_PRIV_FLAGS priv)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = in_region(0) };

	return try_region(DAT_MEM_TYPE_VIRTUAL, region, SIZE, priv, DAT_VA_TYPE_ZB);
}

/* Connects, with every byte of the server's memory 0, and without a region. */
static void connect_bare(void)
{
	pair_connect(&pair);
	memset(server->memory, 0, SIDE_MEMORY);
	for (size_t i = 0; i < SIDE_MEMORY; i++)
		client->memory[i] = (char)(i % 251 + 1);
}

static void connect_with_region(void)
{
	connect_bare();
	ck_dat(try_zero_based(ALL));
}

static void end(void)
{
	pair_close_abrupt(&pair);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}

static DAT_LMR_TRIPLET by_offset(DAT_VADDR offset, DAT_SEG_LENGTH length)
{
	return (DAT_LMR_TRIPLET){ offset, length, lmr_context };
}

/* The client's access to the server's memory completes with @want; a failure ends the connection */
static void access_is(enum access access, DAT_RMR_CONTEXT context, DAT_VADDR at, size_t length,
		      DAT_DTO_COMPLETION_STATUS want)
{
	const DAT_RMR_TRIPLET remote = { at, (DAT_SEG_LENGTH)length, context };
	DAT_LMR_TRIPLET local = segment(client, 0, length);

	if (access == READS)
		ck_dat(ep_post_rdma_read(client->ep, 1, &local, cookie_of(7), &remote, DEFAULT));
	else
		ck_dat(ep_post_rdma_write(client->ep, 1, &local, cookie_of(7), &remote, DEFAULT));
	expect_dto(client->request_evd, 7, want);
}

/* A write through @context, at @at, lands at @lands and nowhere else. */
static void write_lands(DAT_RMR_CONTEXT context, DAT_VADDR at, const char *lands)
{
	static const char nothing[SIDE_MEMORY];
	const size_t before = (size_t)(lands - server->memory), length = 24;

	memset(server->memory, 0, SIDE_MEMORY);
	access_is(WRITES, context, at, length, DAT_DTO_SUCCESS);
	ck_assert_mem_eq(lands, client->memory, length);
	ck_assert_mem_eq(server->memory, nothing, before);
	ck_assert_mem_eq(lands + length, nothing, SIDE_MEMORY - before - length);
}

/* ---- regions ---- */

START_TEST(a_peer_addresses_the_region_by_offset)
{
	connect_with_region();
	write_lands(rmr_context, 32, in_region(32));
	write_lands(rmr_context, 0, in_region(0));
	write_lands(rmr_context, SIZE - 24, in_region(SIZE - 24));
	memcpy(in_region(700), "read from there", 16);
	access_is(READS, rmr_context, 700, 16, DAT_DTO_SUCCESS);
	ck_assert_str_eq(client->memory, "read from there");
	end();
}
END_TEST

START_TEST(beyond_the_end_a_peer_is_refused)
{
	connect_with_region();
	access_is(WRITES, rmr_context, SIZE - 23, 24, DAT_DTO_ERR_REMOTE_ACCESS);
	end();
}
END_TEST

START_TEST(the_address_in_memory_is_refused)
{
	connect_with_region();
	access_is(WRITES, rmr_context, (uintptr_t)in_region(32), 24, DAT_DTO_ERR_REMOTE_ACCESS);
	end();
}
END_TEST

START_TEST(segments_address_the_region_by_offset)
{
	DAT_LMR_TRIPLET to, from;
	DAT_RMR_TRIPLET remote;

	connect_with_region();
	to = by_offset(40, 24);
	ck_dat(ep_post_recv(server->ep, 1, &to, cookie_of(1), DEFAULT));
	post_send(client, 2, 0, 24, DEFAULT);
	expect_dto(server->recv_evd, 1, DAT_DTO_SUCCESS);
	expect_dto(client->request_evd, 2, DAT_DTO_SUCCESS);
	ck_assert_mem_eq(in_region(40), client->memory, 24);
	to = by_offset(SIZE - 24, 24);
	remote = target(client, 1000, 24);
	ck_dat(ep_post_rdma_read(server->ep, 1, &to, cookie_of(3), &remote, DEFAULT));
	expect_dto(server->request_evd, 3, DAT_DTO_SUCCESS);
	ck_assert_mem_eq(in_region(SIZE - 24), client->memory + 1000, 24);
	from = by_offset(40, 24);
	remote = target(client, 2000, 24);
	ck_dat(ep_post_rdma_write(server->ep, 1, &from, cookie_of(4), &remote, DEFAULT));
	expect_dto(server->request_evd, 4, DAT_DTO_SUCCESS);
	ck_assert_mem_eq(client->memory + 2000, in_region(40), 24);
	end();
}
END_TEST

START_TEST(a_segment_beyond_the_end_is_refused)
{
	DAT_LMR_TRIPLET from;

	connect_with_region();
	from = by_offset(SIZE - 23, 24);
	ck_dat(ep_post_send(server->ep, 1, &from, cookie_of(1), DEFAULT));
	expect_dto(server->request_evd, 1, DAT_DTO_ERR_LOCAL_PROTECTION);
	end();
}
END_TEST

START_TEST(the_region_is_reported_from_0)
{
	DAT_VADDR address = 1;
	DAT_LMR_PARAM param;
	DAT_VLEN size = 1;

	connect_bare();
	ck_dat(lmr_create(server->ia, DAT_MEM_TYPE_VIRTUAL,
			  (DAT_REGION_DESCRIPTION){ .for_va = in_region(0) }, SIZE, server->pz, ALL,
			  DAT_VA_TYPE_ZB, &lmr, NULL, NULL, &size, &address));
	ck_assert_uint_eq(address, 0);
	ck_assert_uint_eq(size, SIZE);
	memset(&param, 0xff, sizeof(param));
	ck_dat(lmr_query(lmr, DAT_LMR_FIELD_ALL, &param));
	ck_assert_uint_eq(param.va_type, DAT_VA_TYPE_ZB);
	ck_assert_uint_eq(param.registered_address, 0);
	ck_assert_uint_eq(param.registered_size, SIZE);
	ck_assert_ptr_eq(param.region_desc.for_va, in_region(0));
	ck_dat(lmr_query(server->lmr, DAT_LMR_FIELD_ALL, &param));
	ck_assert_uint_eq(param.va_type, DAT_VA_TYPE_VA);
	end();
}
END_TEST

START_TEST(a_sync_takes_offsets)
{
	DAT_LMR_TRIPLET range;

	connect_with_region();
	range = by_offset(0, SIZE);
	ck_dat(lmr_sync_rdma_read(server->ia, &range, 1));
	ck_dat(lmr_sync_rdma_write(server->ia, &range, 1));
	range = by_offset(1, SIZE);
	ck_dat_is(lmr_sync_rdma_read(server->ia, &range, 1), BAD_ARG(2));
	range = by_offset((uintptr_t)in_region(0), 1);
	ck_dat_is(lmr_sync_rdma_write(server->ia, &range, 1), BAD_ARG(2));
	end();
}
END_TEST

/* A region over a region is of the same memory, and has its own way to address it. */
START_TEST(a_region_over_a_region_has_its_own_type)
{
	DAT_REGION_DESCRIPTION source;
	DAT_LMR_HANDLE first;
	DAT_VA_TYPE types[] = { DAT_VA_TYPE_VA, DAT_VA_TYPE_ZB, DAT_VA_TYPE_VA };

	connect_with_region();
	for (int i = 0; i < COUNT(types); i++) {
		first = lmr;
		source.for_lmr_handle = first;
		ck_dat(try_region(DAT_MEM_TYPE_LMR, source, SIZE, ALL, types[i]));
		ck_dat(lmr_free(first));
		write_lands(rmr_context, types[i] == DAT_VA_TYPE_ZB ? 32 : (uintptr_t)in_region(32),
			    in_region(32));
	}
	end();
}
END_TEST

START_TEST(any_type_of_memory_can_be_zero_based)
{
	static char cookie[DAT_LMR_COOKIE_SIZE] = "a cookie";
	DAT_REGION_DESCRIPTION region;
	char *shared;

	connect_bare();
	shared = map_shared_page();
	region = describe_shared(shared + 8, &cookie);
	ck_dat(try_region(DAT_MEM_TYPE_SHARED_VIRTUAL, region, 256, ALL, DAT_VA_TYPE_ZB));
	access_is(WRITES, rmr_context, 100, 24, DAT_DTO_SUCCESS);
	ck_assert_mem_eq(shared + 108, client->memory, 24);
	region.for_va = in_region(0);
	ck_dat(try_region(DAT_MEM_TYPE_SO_VIRTUAL, region, SIZE, ALL, DAT_VA_TYPE_ZB));
	write_lands(rmr_context, 32, in_region(32));
	end();
}
END_TEST

/* ---- what is refused ---- */

static void expect_no_region(DAT_RETURN is, DAT_RETURN want)
{
	ck_dat_is(is, want);
	ck_assert_ptr_eq(lmr, POISON);
	ck_assert_uint_eq(fake_alive(FAKE_MR), 2);     /* those of the sides */
	ck_assert_uint_eq(handle_uses(server->pz), 2); /* the region and the endpoint */
}

START_TEST(a_device_may_have_none)
{
	DAT_IA_ATTR attr;

	fake_attr()->caps &= ~(unsigned)TP_CAP_ZERO_BASED;
	connect_bare();
	lmr = POISON;
	ck_dat(ia_query(server->ia, NULL, DAT_IA_FIELD_ALL, &attr, 0, NULL));
	ck_assert_int_eq(attr.zb_supported, DAT_FALSE);
	expect_no_region(try_zero_based(ALL), NOT_HAD);
	end();
}
END_TEST

START_TEST(the_attribute_says_that_the_device_has_them)
{
	DAT_IA_ATTR attr;

	connect_bare();
	ck_dat(ia_query(server->ia, NULL, DAT_IA_FIELD_ALL, &attr, 0, NULL));
	ck_assert_int_eq(attr.zb_supported, DAT_TRUE);
	end();
}
END_TEST

START_TEST(another_type_is_refused)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = pair.server.memory };

	connect_bare();
	lmr = POISON;
	for (int type = 2; type < 4; type++)
		expect_no_region(
			try_region(DAT_MEM_TYPE_VIRTUAL, region, SIZE, ALL, (DAT_VA_TYPE)type),
			BAD_ARG(7));
	end();
}
END_TEST

START_TEST(a_device_may_want_whole_pages)
{
	fake_quirks(FAKE_PAGES);
	connect_bare();
	lmr = POISON;
	expect_no_region(try_zero_based(ALL), BAD_ARG(3));
	end();
}
END_TEST

START_TEST(a_registration_that_fails_leaves_nothing)
{
	connect_bare();
	lmr = POISON;
	fake_fail("mr_reg", ENOMEM, 1);
	expect_no_region(try_zero_based(ALL), NO_RESOURCE(MEMORY_REGION));
	ck_dat(try_zero_based(ALL));
	end();
}
END_TEST

/* ---- windows ---- */

/* What the device does of a bind of a zero-based window. */
enum method {
	BY_WINDOW,  /* it has such windows */
	BY_REGION,  /* it has no windows: a region takes their place */
	BY_REFUSAL, /* it has windows, but refuses those: then, too */
	METHODS,
};

static DAT_RMR_HANDLE rmr;

static void connect_with_window(enum method method)
{
	if (method == BY_REGION)
		fake_attr()->max_mw = 0;
	if (method == BY_REFUSAL)
		fake_quirks(FAKE_NO_ZERO_BASED);
	connect_with_region();
	ck_dat(rmr_create(server->pz, &rmr));
}

static DAT_RETURN try_bind(DAT_LMR_HANDLE of, DAT_LMR_TRIPLET range, DAT_VA_TYPE va_type,
			   DAT_RMR_CONTEXT *context)
{
	return rmr_bind(rmr, of, &range, REMOTE_BOTH, va_type, server->ep, cookie_of(9), DEFAULT,
			context);
}

static DAT_RMR_CONTEXT bound(DAT_LMR_HANDLE of, DAT_LMR_TRIPLET range, DAT_VA_TYPE va_type)
{
	DAT_RMR_CONTEXT context;
	DAT_EVENT event;

	ck_dat(try_bind(of, range, va_type, &context));
	event = expect_event(server->request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
	ck_assert_int_eq(event.event_data.rmr_completion_event_data.status, DAT_RMR_BIND_SUCCESS);
	return context;
}

static DAT_RMR_PARAM rmr_param(void)
{
	DAT_RMR_PARAM param;

	memset(&param, 0xff, sizeof(param));
	ck_dat(rmr_query(rmr, DAT_RMR_FIELD_ALL, &param));
	return param;
}

START_TEST(a_window_on_a_zero_based_region_is_addressed_as_that)
{
	DAT_RMR_CONTEXT context;

	connect_with_window((enum method)_i);
	context = bound(lmr, by_offset(200, 100), DAT_VA_TYPE_VA);
	write_lands(context, 210, in_region(210));
	ck_assert_uint_eq(rmr_param().va_type, DAT_VA_TYPE_VA);
	ck_assert_uint_eq(rmr_param().lmr_triplet.virtual_address, 200);
	access_is(WRITES, context, 0, 24, DAT_DTO_ERR_REMOTE_ACCESS);
	end();
}
END_TEST

START_TEST(a_zero_based_window_begins_at_0)
{
	DAT_RMR_CONTEXT context;

	connect_with_window((enum method)_i);
	context = bound(server->lmr, segment(server, 777, 100), DAT_VA_TYPE_ZB);
	write_lands(context, 10, server->memory + 787);
	ck_assert_uint_eq(rmr_param().va_type, DAT_VA_TYPE_ZB);
	ck_assert_uint_eq(rmr_param().rmr_scope, DAT_RMR_SCOPE_PZ);
	ck_assert_uint_eq(rmr_param().rmr_context, context);
	context = bound(lmr, by_offset(200, 100), DAT_VA_TYPE_ZB);
	write_lands(context, 10, in_region(210));
	access_is(WRITES, context, 77, 24, DAT_DTO_ERR_REMOTE_ACCESS);
	end();
}
END_TEST

/* A binding is used again, so nothing of the one before may be left. */
START_TEST(the_next_bind_has_its_own_type)
{
	DAT_RMR_CONTEXT context;

	connect_with_window((enum method)_i);
	for (int i = 0; i < 5; i++) {
		context = bound(server->lmr, segment(server, 777, 100), DAT_VA_TYPE_ZB);
		write_lands(context, 10, server->memory + 787);
		context = bound(server->lmr, segment(server, 777, 100), DAT_VA_TYPE_VA);
		write_lands(context, (uintptr_t)server->memory + 787, server->memory + 787);
		ck_assert_uint_eq(rmr_param().va_type, DAT_VA_TYPE_VA);
	}
	ck_dat(rmr_free(rmr));
	ck_dat(lmr_free(lmr));
	end();
}
END_TEST

START_TEST(a_zero_based_window_can_be_unbound)
{
	const DAT_LMR_TRIPLET nothing = { 0 };
	DAT_RMR_CONTEXT context;

	connect_with_window((enum method)_i);
	context = bound(lmr, by_offset(200, 100), DAT_VA_TYPE_ZB);
	ck_dat_is(lmr_free(lmr), BAD_STATE(LMR_IN_USE));
	ck_assert_uint_eq(bound(DAT_HANDLE_NULL, nothing, DAT_VA_TYPE_ZB), 0);
	ck_dat(lmr_free(lmr));
	access_is(WRITES, context, 0, 24, DAT_DTO_ERR_REMOTE_ACCESS);
	end();
}
END_TEST

/* The window stays as it was bound before. */
static void expect_bind_refused(DAT_RETURN want)
{
	DAT_RMR_CONTEXT context = 0x5a5a5a5a, before = rmr_param().rmr_context;
	const unsigned regions = fake_alive(FAKE_MR);

	ck_dat_is(try_bind(lmr, by_offset(200, 100), DAT_VA_TYPE_ZB, &context), want);
	ck_assert_uint_eq(context, 0x5a5a5a5a);
	ck_assert_uint_eq(rmr_param().rmr_context, before);
	ck_assert_uint_eq(fake_alive(FAKE_MR), regions);
	expect_no_event(server->request_evd);
	write_lands(before, (uintptr_t)server->memory + 787, server->memory + 787);
}

START_TEST(a_device_may_have_no_zero_based_windows)
{
	fake_attr()->caps &= ~(unsigned)TP_CAP_ZERO_BASED;
	fake_quirks(FAKE_NO_ZERO_BASED);
	connect_bare();
	ck_dat(rmr_create(server->pz, &rmr));
	lmr = server->lmr;
	lmr_context = server->lmr_context;
	(void)bound(lmr, segment(server, 777, 100), DAT_VA_TYPE_VA);
	ck_dat_is(try_bind(lmr, segment(server, 777, 100), DAT_VA_TYPE_ZB, &rmr_context), NOT_HAD);
	expect_no_event(server->request_evd);
	ck_assert_uint_eq(rmr_param().va_type, DAT_VA_TYPE_VA);
	end();
}
END_TEST

START_TEST(a_region_for_a_window_may_have_to_be_of_whole_pages)
{
	connect_with_window(BY_REGION);
	(void)bound(server->lmr, segment(server, 777, 100), DAT_VA_TYPE_VA);
	fake_quirks(FAKE_PAGES);
	expect_bind_refused(NOT_HAD);
	end();
}
END_TEST

START_TEST(a_bind_that_fails_changes_nothing)
{
	connect_with_window((enum method)_i);
	(void)bound(server->lmr, segment(server, 777, 100), DAT_VA_TYPE_VA);
	fake_fail(_i == BY_WINDOW ? "post_bind" : "mr_reg", ENOMEM, 1);
	expect_bind_refused(_i == BY_WINDOW ? NO_RESOURCE(MEMORY) : NO_RESOURCE(MEMORY_REGION));
	end();
}
END_TEST

START_TEST(a_bind_of_another_type_is_refused)
{
	DAT_RMR_CONTEXT context;

	connect_with_window(BY_WINDOW);
	ck_dat_is(try_bind(lmr, by_offset(0, 8), (DAT_VA_TYPE)2, &context), BAD_ARG(5));
	ck_dat_is(rmr_bind(DAT_HANDLE_NULL, lmr, NULL, REMOTE_BOTH, DAT_VA_TYPE_ZB, server->ep,
			   cookie_of(9), DEFAULT, &context),
		  BAD_HANDLE(RMR));
	ck_dat_is(try_bind(DAT_HANDLE_NULL, by_offset(0, 8), DAT_VA_TYPE_ZB, &context),
		  BAD_HANDLE(LMR));
	ck_dat_is(try_bind(lmr, by_offset(SIZE, 1), DAT_VA_TYPE_ZB, &context), BAD_ARG(3));
	end();
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tcase = tcase_create("zero based");

	tcase_add_test(tcase, a_peer_addresses_the_region_by_offset);
	tcase_add_test(tcase, beyond_the_end_a_peer_is_refused);
	tcase_add_test(tcase, the_address_in_memory_is_refused);
	tcase_add_test(tcase, segments_address_the_region_by_offset);
	tcase_add_test(tcase, a_segment_beyond_the_end_is_refused);
	tcase_add_test(tcase, the_region_is_reported_from_0);
	tcase_add_test(tcase, a_sync_takes_offsets);
	tcase_add_test(tcase, a_region_over_a_region_has_its_own_type);
	tcase_add_test(tcase, any_type_of_memory_can_be_zero_based);
	tcase_add_test(tcase, a_device_may_have_none);
	tcase_add_test(tcase, the_attribute_says_that_the_device_has_them);
	tcase_add_test(tcase, another_type_is_refused);
	tcase_add_test(tcase, a_device_may_want_whole_pages);
	tcase_add_test(tcase, a_registration_that_fails_leaves_nothing);
	tcase_add_loop_test(tcase, a_window_on_a_zero_based_region_is_addressed_as_that, 0,
			    METHODS);
	tcase_add_loop_test(tcase, a_zero_based_window_begins_at_0, 0, METHODS);
	tcase_add_loop_test(tcase, the_next_bind_has_its_own_type, 0, METHODS);
	tcase_add_loop_test(tcase, a_zero_based_window_can_be_unbound, 0, METHODS);
	tcase_add_test(tcase, a_device_may_have_no_zero_based_windows);
	tcase_add_test(tcase, a_region_for_a_window_may_have_to_be_of_whole_pages);
	tcase_add_loop_test(tcase, a_bind_that_fails_changes_nothing, 0, METHODS);
	tcase_add_test(tcase, a_bind_of_another_type_is_refused);
	return run_unit_cases(argc, argv);
}
