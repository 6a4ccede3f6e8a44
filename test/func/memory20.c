/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of DAT 2.0 on a device: regions and windows that begin at 0, and windows of an endpoint.
 */
#include <sched.h>
#include <string.h>

#include "../consumer/consumer.h"

#define READING	 DAT_MEM_PRIV_REMOTE_READ_FLAG
#define WRITING	 DAT_MEM_PRIV_REMOTE_WRITE_FLAG
#define ALL	 DAT_MEM_PRIV_ALL_FLAG
#define DEFAULT	 DAT_COMPLETION_DEFAULT_FLAG
#define NOT_HAD	 DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE)
#define PAGE	 4096
#define FROM	 (2 * (size_t)PAGE) /* where a region begins in the server's memory */
#define SIZE	 (3 * (size_t)PAGE - 100)
#define LENGTH	 24 /* of a transfer */
#define BIND	 5  /* the cookie of a bind */
#define NO_RANGE ((DAT_LMR_TRIPLET){ 0 })

static struct pair pair;
static const struct side *const client = &pair.client, *const server = &pair.server;

static DAT_RETURN try_region(DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION what, DAT_VLEN size,
			     DAT_VA_TYPE va_type, struct region *region)
{
	return dat_lmr_create(server->ia, type, what, size, server->pz, ALL, va_type, &region->lmr,
			      &region->lmr_context, &region->rmr_context, NULL, NULL);
}

/* A region that begins at 0, over a part of the server's memory. */
static struct region region_at(size_t offset, size_t size)
{
	struct region region = { .at = server->memory + offset, .size = size };
	const DAT_REGION_DESCRIPTION what = { .for_va = region.at };

	ck_dat(try_region(DAT_MEM_TYPE_VIRTUAL, what, size, DAT_VA_TYPE_ZB, &region));
	return region;
}

static DAT_LMR_TRIPLET by_offset(const struct region *region, size_t offset, size_t length)
{
	return (DAT_LMR_TRIPLET){ offset, (DAT_SEG_LENGTH)length, region->lmr_context };
}

/* The client writes through @context to @at, and the bytes are at @lands, and nowhere else. */
static void expect_lands(DAT_RMR_CONTEXT context, DAT_VADDR at, const unsigned char *lands)
{
	const size_t before = (size_t)(lands - server->memory);

	memset(server->memory, UNTOUCHED, server->size);
	pattern_fill(client->memory, LENGTH, 3);
	post_write(client->ep, 1, segment(client, 0, LENGTH),
		   (DAT_RMR_TRIPLET){ at, LENGTH, context }, DEFAULT);
	expect_request_done(client, 1, LENGTH);
	exchange_messages(&pair); /* on iWARP a write that is complete may be under way */
	pattern_check(lands, LENGTH, 3);
	bytes_check(server->memory + 1024, before - 1024, UNTOUCHED); /* the messages are before */
	bytes_check(lands + LENGTH, server->size - before - LENGTH, UNTOUCHED);
}

static void expect_reads(DAT_RMR_CONTEXT context, DAT_VADDR at, unsigned char *from)
{
	pattern_fill(from, LENGTH, 4);
	post_read(client->ep, 1, segment(client, 0, LENGTH),
		  (DAT_RMR_TRIPLET){ at, LENGTH, context }, DEFAULT);
	expect_request_done(client, 1, LENGTH);
	pattern_check(client->memory, LENGTH, 4);
}

static void expect_refused(DAT_RMR_CONTEXT context, DAT_VADDR at)
{
	expect_write_refused(&pair, (DAT_RMR_TRIPLET){ at, LENGTH, context });
}

/* ---- regions that begin at 0 ---- */

START_TEST(a_peer_addresses_the_region_by_offset)
{
	struct region region;

	pair_open(&pair, NULL);
	ck_assert_int_eq(server->attr.zb_supported, DAT_TRUE);
	region = region_at(FROM, SIZE);
	expect_lands(region.rmr_context, 32, region.at + 32);
	expect_lands(region.rmr_context, PAGE - 4, region.at + PAGE - 4);
	expect_lands(region.rmr_context, SIZE - LENGTH, region.at + SIZE - LENGTH);
	expect_lands(region.rmr_context, 0, region.at);
	expect_reads(region.rmr_context, 77, region.at + 77);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(what_is_not_in_the_region_is_refused)
{
	struct region region;

	pair_open(&pair, NULL);
	region = region_at(FROM, SIZE);
	expect_refused(region.rmr_context, SIZE - LENGTH + 1);
	expect_refused(region.rmr_context, (uintptr_t)region.at);
	expect_refused(region.rmr_context, (DAT_VADDR)-LENGTH);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(segments_address_the_region_by_offset)
{
	struct region region;

	pair_open(&pair, NULL);
	region = region_at(FROM, SIZE);
	post_recv(server->ep, 1, by_offset(&region, PAGE - 4, LENGTH));
	pattern_fill(client->memory, LENGTH, 1);
	post_send(client->ep, 2, segment(client, 0, LENGTH), DEFAULT);
	expect_recv_done(server, 1, LENGTH);
	expect_request_done(client, 2, LENGTH);
	pattern_check(region.at + PAGE - 4, LENGTH, 1);

	post_recv(client->ep, 3, segment(client, 512, LENGTH));
	post_send(server->ep, 4, by_offset(&region, PAGE - 4, LENGTH), DEFAULT);
	expect_request_done(server, 4, LENGTH);
	expect_recv_done(client, 3, LENGTH);
	pattern_check(client->memory + 512, LENGTH, 1);

	post_write(server->ep, 5, by_offset(&region, PAGE - 4, LENGTH),
		   target(client, 1024, LENGTH), DEFAULT);
	expect_request_done(server, 5, LENGTH);
	pattern_check(client->memory + 1024, LENGTH, 1);

	post_read(server->ep, 6, by_offset(&region, 8, LENGTH), target(client, 1024, LENGTH),
		  DEFAULT);
	expect_request_done(server, 6, LENGTH);
	pattern_check(region.at + 8, LENGTH, 1);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(segments_of_several_regions_make_one_message)
{
	struct region one, two;
	DAT_LMR_TRIPLET iov[3];

	pair_open(&pair, NULL);
	one = region_at(FROM, SIZE);
	two = region_at(FROM + 4 * PAGE, PAGE);
	pattern_fill(one.at + 40, LENGTH, 1);
	pattern_fill(server->memory + 100, LENGTH, 2);
	pattern_fill(two.at + 60, LENGTH, 3);
	iov[0] = by_offset(&one, 40, LENGTH);
	iov[1] = segment(server, 100, LENGTH);
	iov[2] = by_offset(&two, 60, LENGTH);
	post_recv(client->ep, 1, segment(client, 0, 3 * LENGTH));
	ck_dat(dat_ep_post_send(server->ep, 3, iov, cookie_of(2), DEFAULT));
	expect_request_done(server, 2, 3 * LENGTH);
	expect_recv_done(client, 1, 3 * LENGTH);
	for (unsigned i = 0; i < 3; i++)
		pattern_check(client->memory + i * LENGTH, LENGTH, i + 1);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(a_segment_beyond_the_end_breaks_the_connection)
{
	struct region region;
	DAT_EVENT event;

	pair_open(&pair, NULL);
	region = region_at(FROM, SIZE);
	post_recv(client->ep, 1, segment(client, 0, LENGTH));
	post_send(server->ep, 2, by_offset(&region, SIZE - LENGTH + 1, LENGTH), DEFAULT);
	event = expect_event(server->request_evd, DAT_DTO_COMPLETION_EVENT);
	ck_assert_int_eq(event.event_data.dto_completion_event_data.status, device()->bad_range);
	expect_end(server);
	pair_close_abrupt(&pair);
}
END_TEST

/* The bytes are those of the source, however that is addressed. */
START_TEST(a_region_over_a_region_has_its_own_type)
{
	static const DAT_VA_TYPE types[] = { DAT_VA_TYPE_VA, DAT_VA_TYPE_ZB, DAT_VA_TYPE_VA };
	struct region region, before;
	DAT_LMR_PARAM param;

	pair_open(&pair, NULL);
	region = region_at(FROM, SIZE);
	for (unsigned i = 0; i < COUNT(types); i++) {
		before = region;
		ck_dat(try_region(DAT_MEM_TYPE_LMR,
				  (DAT_REGION_DESCRIPTION){ .for_lmr_handle = before.lmr }, 1,
				  types[i], &region));
		ck_dat(dat_lmr_free(before.lmr));
		ck_dat(dat_lmr_query(region.lmr, DAT_LMR_FIELD_ALL, &param));
		ck_assert_int_eq(param.va_type, types[i]);
		ck_assert_uint_eq(param.registered_address,
				  types[i] == DAT_VA_TYPE_ZB ? 0 : (uintptr_t)region.at);
		ck_assert_uint_eq(param.registered_size, SIZE);
		expect_lands(region.rmr_context, param.registered_address + 32, region.at + 32);
	}
	pair_close_abrupt(&pair);
}
END_TEST

/* A device translates whole pages; libfabric's tcp adds any offset. */
START_TEST(a_region_may_begin_anywhere_if_the_transport_can)
{
	struct region region = { 0 };
	DAT_REGION_DESCRIPTION what;

	pair_open(&pair, NULL);
	what.for_va = server->memory + FROM + 300;
	if (device_has(NEEDS_ANY_OFFSET)) {
		region = region_at(FROM + 300, SIZE);
		expect_lands(region.rmr_context, 32, region.at + 32);
	} else {
		ck_dat_is(try_region(DAT_MEM_TYPE_VIRTUAL, what, SIZE, DAT_VA_TYPE_ZB, &region),
			  BAD_ARG(3));
		ck_assert_ptr_null(region.lmr);
	}
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(a_device_without_them_says_so)
{
	struct region region = { 0 };
	DAT_REGION_DESCRIPTION what;

	pair_open(&pair, NULL);
	what.for_va = server->memory + FROM;
	if (!device_has(NEEDS_ZERO_BASED)) {
		ck_assert_int_eq(server->attr.zb_supported, DAT_FALSE);
		ck_dat_is(try_region(DAT_MEM_TYPE_VIRTUAL, what, SIZE, DAT_VA_TYPE_ZB, &region),
			  NOT_HAD);
	}
	if (!device_has(NEEDS_EP_WINDOWS)) {
		ck_assert_int_eq(server->provider.rmr_scope_supported, DAT_RMR_SCOPE_PZ);
		ck_dat_is(dat_rmr_create_for_ep(server->pz, &region.lmr), NOT_HAD);
	}
	ck_assert_ptr_null(region.lmr);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- windows ---- */

static DAT_RMR_HANDLE rmr;

static DAT_RMR_CONTEXT bind_to(DAT_EP_HANDLE ep, DAT_LMR_HANDLE lmr, DAT_LMR_TRIPLET range,
			       DAT_VA_TYPE va_type)
{
	DAT_RMR_CONTEXT context;

	ck_dat(dat_rmr_bind(rmr, lmr, &range, REMOTE, va_type, ep, cookie_of(BIND), DEFAULT,
			    &context));
	expect_bind(server->request_evd, rmr, BIND, DAT_RMR_BIND_SUCCESS);
	return context;
}

START_TEST(a_window_on_a_zero_based_region_is_addressed_as_that)
{
	DAT_RMR_CONTEXT context;
	struct region region;

	pair_open(&pair, NULL);
	region = region_at(FROM, SIZE);
	ck_dat(dat_rmr_create(server->pz, &rmr));
	context = bind_to(server->ep, region.lmr, by_offset(&region, 500, 300), DAT_VA_TYPE_VA);
	expect_lands(context, 520, region.at + 520);
	expect_refused(context, (uintptr_t)region.at + 520);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(a_zero_based_window_begins_at_0)
{
	DAT_RMR_CONTEXT context;
	struct region region;
	DAT_RMR_PARAM param;

	pair_open(&pair, NULL);
	region = region_at(FROM, SIZE);
	ck_dat(dat_rmr_create(server->pz, &rmr));
	context = bind_to(server->ep, server->lmr, segment(server, FROM, 300), DAT_VA_TYPE_ZB);
	expect_lands(context, 32, server->memory + FROM + 32);
	context = bind_to(server->ep, region.lmr, by_offset(&region, PAGE, 300), DAT_VA_TYPE_ZB);
	expect_lands(context, 32, region.at + PAGE + 32);
	ck_dat(dat_rmr_query(rmr, DAT_RMR_FIELD_ALL, &param));
	ck_assert_int_eq(param.va_type, DAT_VA_TYPE_ZB);
	ck_assert_int_eq(param.rmr_scope, DAT_RMR_SCOPE_PZ);
	ck_assert_uint_eq(param.lmr_triplet.virtual_address, PAGE);
	ck_assert_uint_eq(param.rmr_context, context);
	(void)bind_to(server->ep, NULL, NO_RANGE, DAT_VA_TYPE_ZB);
	expect_refused(context, 32);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- windows of an endpoint ---- */

static DAT_EP_HANDLE other_client, other_server; /* connected with each other */

static void open_with_ep_window(void)
{
	pair_open(&pair, NULL);
	ck_assert_int_eq(server->provider.rmr_scope_supported, DAT_RMR_SCOPE_ANY);
	other_client = side_create_ep(client, NULL);
	other_server = side_create_ep(server, NULL);
	connect_eps(client, other_client, server, other_server);
	ck_dat(dat_rmr_create_for_ep(server->pz, &rmr));
}

static DAT_RMR_CONTEXT bind_through(DAT_EP_HANDLE ep)
{
	return bind_to(ep, server->lmr, segment(server, FROM, 300), DAT_VA_TYPE_VA);
}

static DAT_RMR_TRIPLET at_window(DAT_RMR_CONTEXT context)
{
	DAT_RMR_TRIPLET remote = target(server, FROM + 10, LENGTH);

	remote.rmr_context = context;
	return remote;
}

/* The client's write through its other endpoint is refused, and that connection ends. */
static void expect_other_refused(DAT_RMR_CONTEXT context)
{
	memset(server->memory, UNTOUCHED, server->size);
	post_write(other_client, 7, segment(client, 0, LENGTH), at_window(context), DEFAULT);
	expect_dto(client->request_evd, other_client, 7, DAT_DTO_ERR_REMOTE_ACCESS, 0);
	(void)expect_connection_of(client, other_client, DAT_CONNECTION_EVENT_BROKEN);
	bytes_check(server->memory, server->size, UNTOUCHED);
}

START_TEST(a_window_of_an_endpoint_serves_its_peer_only)
{
	DAT_RMR_CONTEXT context;
	DAT_RMR_PARAM param;

	open_with_ep_window();
	context = bind_through(server->ep);
	expect_write(&pair, at_window(context));
	expect_read(&pair, at_window(context));
	ck_dat(dat_rmr_query(rmr, DAT_RMR_FIELD_ALL, &param));
	ck_assert_int_eq(param.rmr_scope, DAT_RMR_SCOPE_EP);
	ck_assert_int_eq(param.va_type, DAT_VA_TYPE_VA);
	ck_assert_uint_eq(param.rmr_context, context);
	expect_other_refused(context);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(each_bind_ends_the_one_before)
{
	DAT_RMR_CONTEXT before, context;

	open_with_ep_window();
	before = bind_through(server->ep);
	context = bind_through(server->ep);
	ck_assert_uint_ne(context, before);
	expect_write(&pair, at_window(context));
	expect_write_refused(&pair, at_window(before));
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(an_unbind_ends_access)
{
	DAT_RMR_CONTEXT context;

	open_with_ep_window();
	context = bind_through(server->ep);
	ck_dat_is(dat_lmr_free(server->lmr), BAD_STATE(LMR_IN_USE));
	(void)bind_to(server->ep, NULL, NO_RANGE, DAT_VA_TYPE_VA);
	expect_write_refused(&pair, at_window(context));
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(a_bind_through_another_endpoint_moves_the_window)
{
	DAT_RMR_CONTEXT context;

	open_with_ep_window();
	context = bind_through(other_server);
	context = bind_through(server->ep);
	expect_write(&pair, at_window(context));
	expect_other_refused(context);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(many_binds_of_a_window_of_an_endpoint_complete)
{
	DAT_RMR_CONTEXT context = 0, before;
	DAT_LMR_TRIPLET part;
	DAT_RETURN ret;

	open_with_ep_window();
	part = segment(server, FROM, 300);
	for (unsigned i = 0; i < 300; i++) {
		before = context;
		while ((ret = dat_rmr_bind(rmr, server->lmr, &part, REMOTE, DAT_VA_TYPE_VA,
					   server->ep, cookie_of(i), DAT_COMPLETION_SUPPRESS_FLAG,
					   &context)) == NO_RESOURCE(MEMORY))
			sched_yield();
		ck_dat(ret);
		ck_assert_uint_ne(context, before);
	}
	exchange_messages(&pair);
	expect_write(&pair, at_window(context));
	expect_no_event(server->request_evd);
	pair_close_abrupt(&pair);
}
END_TEST

/* Soft-RoCE takes 51 seconds to destroy a queue pair with a bound window of type 2. */
START_TEST(an_endpoint_with_a_bound_window_is_freed)
{
	DAT_RMR_CONTEXT context;

	open_with_ep_window();
	(void)bind_through(other_server);
	ck_dat(dat_ep_free(other_server));
	(void)expect_connection_of(client, other_client, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(dat_ep_free(other_client));
	context = bind_through(server->ep);
	expect_write(&pair, at_window(context));
	pair_disconnect(&pair, DAT_CLOSE_ABRUPT_FLAG);
	pair_reset(&pair); /* makes another queue pair */
	pair_connect(&pair);
	expect_write_refused(&pair, at_window(context));
	context = bind_through(server->ep);
	expect_write(&pair, at_window(context));
	ck_dat(dat_rmr_free(rmr));
	expect_write_refused(&pair, at_window(context));
	pair_disconnect(&pair, DAT_CLOSE_ABRUPT_FLAG);
	pair_close(&pair);
}
END_TEST

START_TEST(a_zero_based_window_of_an_endpoint_begins_at_0)
{
	DAT_RMR_CONTEXT context;
	struct region region;

	open_with_ep_window();
	context = bind_to(server->ep, server->lmr, segment(server, FROM + 50, 300), DAT_VA_TYPE_ZB);
	expect_lands(context, 32, server->memory + FROM + 82);
	region = region_at(FROM, SIZE);
	context = bind_to(server->ep, region.lmr, by_offset(&region, 500, 300), DAT_VA_TYPE_ZB);
	expect_lands(context, 32, region.at + 532);
	context = bind_to(server->ep, region.lmr, by_offset(&region, 500, 300), DAT_VA_TYPE_VA);
	expect_lands(context, 532, region.at + 532);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- windows that the peer invalidates ---- */

/* The client sends with @context, and the server has posted a receive. */
static void post_invalidate(DAT_RMR_CONTEXT context)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, LENGTH);

	post_recv(server->ep, 8, segment(server, 0, LENGTH));
	ck_dat(dat_ep_post_send_with_invalidate(client->ep, 1, &iov, cookie_of(9), DEFAULT,
						DAT_TRUE, context));
}

static void expect_invalidated(DAT_RMR_CONTEXT context)
{
	DAT_EVENT event = expect_event(server->recv_evd, DAT_DTO_COMPLETION_EVENT);
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;

	ck_assert_ptr_eq(dto->ep_handle, server->ep);
	ck_assert_uint_eq(dto->user_cookie.as_64, 8);
	ck_assert_int_eq(dto->status, DAT_DTO_SUCCESS);
	ck_assert_uint_eq(dto->transfered_length, LENGTH);
	ck_assert_int_eq(dto->operation, DAT_DTO_RECEIVE_WITH_INVALIDATE);
	ck_assert_uint_eq(dto->rmr_context, context);
	expect_request_done(client, 9, LENGTH);
}

START_TEST(a_message_of_the_peer_invalidates_the_window)
{
	DAT_RMR_CONTEXT context;
	DAT_RMR_PARAM param;

	open_with_ep_window();
	context = bind_through(server->ep);
	expect_write(&pair, at_window(context));
	pattern_fill(client->memory, LENGTH, 1);
	post_invalidate(context);
	expect_invalidated(context);
	pattern_check(server->memory, LENGTH, 1);
	ck_dat(dat_rmr_query(rmr, DAT_RMR_FIELD_RMR_CONTEXT, &param));
	ck_assert_uint_eq(param.rmr_context, 0);
	expect_write_refused(&pair, at_window(context));
	ck_dat(dat_lmr_free(server->lmr)); /* the window does not use it any more */
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(a_window_is_bound_again_after_each_invalidation)
{
	DAT_RMR_CONTEXT context;

	open_with_ep_window();
	for (int i = 0; i < 20; i++) {
		context = bind_through(server->ep);
		expect_write(&pair, at_window(context));
		post_invalidate(context);
		expect_invalidated(context);
	}
	context = bind_through(server->ep);
	expect_write(&pair, at_window(context));
	ck_dat(dat_rmr_free(rmr));
	expect_write_refused(&pair, at_window(context));
	pair_close_abrupt(&pair);
}
END_TEST

/*
 * Returns a context of what no peer may invalidate. None is that of a window of another endpoint,
 * because soft-RoCE lets any peer invalidate such a window.
 */
static DAT_RMR_CONTEXT wrong_context(int i)
{
	DAT_RMR_CONTEXT context;

	switch (i) {
	case 0:
		return server->rmr_context;
	case 1: /* superseded */
		context = bind_through(server->ep);
		(void)bind_through(server->ep);
		return context;
	case 2: /* of a window that serves all endpoints */
		ck_dat(dat_rmr_create(server->pz, &rmr));
		return bind_through(server->ep);
	default:
		return 0;
	}
}

/* The send may have been acknowledged before, or fail as well. */
static void expect_receive_failed(void)
{
	DAT_EVENT event = expect_event(server->recv_evd, DAT_DTO_COMPLETION_EVENT);

	ck_assert_int_ne(event.event_data.dto_completion_event_data.status, DAT_DTO_SUCCESS);
	(void)expect_event(client->request_evd, DAT_DTO_COMPLETION_EVENT);
}

START_TEST(a_context_of_something_else_breaks_the_connection)
{
	open_with_ep_window();
	for (int i = 0; i < 4; i++) {
		post_invalidate(wrong_context(i));
		expect_receive_failed();
		expect_ends(&pair);
		pair_reset(&pair);
		pair_connect(&pair);
		expect_write(&pair, target(server, FROM + 10, LENGTH)); /* the region serves on */
	}
	pair_close_abrupt(&pair);
}
END_TEST

int main(int argc, char **argv)
{
	const struct device_case cases[] = {
		{ a_peer_addresses_the_region_by_offset, NEEDS_ZERO_BASED },
		{ what_is_not_in_the_region_is_refused, NEEDS_ZERO_BASED },
		{ segments_address_the_region_by_offset, NEEDS_ZERO_BASED },
		{ segments_of_several_regions_make_one_message, NEEDS_ZERO_BASED },
		{ a_segment_beyond_the_end_breaks_the_connection, NEEDS_ZERO_BASED },
		{ a_region_over_a_region_has_its_own_type, NEEDS_ZERO_BASED },
		{ a_region_may_begin_anywhere_if_the_transport_can, NEEDS_ZERO_BASED },
		{ a_device_without_them_says_so, NEEDS_NOTHING },
		{ a_window_on_a_zero_based_region_is_addressed_as_that, NEEDS_ZERO_BASED },
		{ a_zero_based_window_begins_at_0, NEEDS_ZERO_BASED },
		{ a_window_of_an_endpoint_serves_its_peer_only, NEEDS_EP_WINDOWS },
		{ each_bind_ends_the_one_before, NEEDS_EP_WINDOWS },
		{ an_unbind_ends_access, NEEDS_EP_WINDOWS },
		{ a_bind_through_another_endpoint_moves_the_window, NEEDS_EP_WINDOWS },
		{ many_binds_of_a_window_of_an_endpoint_complete, NEEDS_EP_WINDOWS },
		{ an_endpoint_with_a_bound_window_is_freed, NEEDS_EP_WINDOWS },
		{ a_zero_based_window_of_an_endpoint_begins_at_0, NEEDS_EP_WINDOWS },
		{ a_message_of_the_peer_invalidates_the_window, NEEDS_EP_WINDOWS },
		{ a_window_is_bound_again_after_each_invalidation, NEEDS_EP_WINDOWS },
		{ a_context_of_something_else_breaks_the_connection, NEEDS_EP_WINDOWS },
	};

	return run_on_device(argc, argv, cases, COUNT(cases));
}
