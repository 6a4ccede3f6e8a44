/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Remote memory regions: the server binds windows to its memory, the client accesses the memory
 * through them. A provider may use regions in place of windows.
 */
#include <string.h>
#include <sys/mman.h>

#include "conform.h"

#define READING DAT_MEM_PRIV_REMOTE_READ_FLAG
#define WRITING DAT_MEM_PRIV_REMOTE_WRITE_FLAG

static struct window window; /* of the case that runs in this process */
static struct pair *const pair = &window.pair;

/* The window at its usual place, by @context. */
static DAT_RMR_TRIPLET usual(DAT_RMR_CONTEXT context)
{
	return window_target(&window, context, WINDOW_FROM, WINDOW_SIZE);
}

/* ---- binding ---- */

START_TEST(unbound_window_has_no_range)
{
	const DAT_RMR_PARAM_MASK rest = (DAT_RMR_PARAM_MASK)(DAT_RMR_FIELD_ALL &
							     ~DAT_RMR_FIELD_LMR_TRIPLET);
	const struct side *server = &pair->server;
	DAT_RMR_CONTEXT context;
	DAT_RMR_PARAM param;

	window_open(&window);
	ck_assert_int_gt(server->attr.max_rmrs, 0);
	ck_dat(dat_rmr_query(window.rmr, rest, &param));
	ck_assert_ptr_eq(param.ia_handle, server->ia);
	ck_assert_ptr_eq(param.pz_handle, server->pz);
	ck_assert_uint_eq(param.rmr_context, 0);
	param.mem_priv = DAT_MEM_PRIV_ALL_FLAG;
	ck_dat_is(dat_rmr_query(window.rmr, DAT_RMR_FIELD_LMR_TRIPLET, &param), BAD_ARG(2));
	ck_assert_int_eq(param.mem_priv, DAT_MEM_PRIV_ALL_FLAG); /* a refused call writes nothing */
	context = bind_window(&window, READING);
	ck_dat(dat_rmr_query(window.rmr, DAT_RMR_FIELD_ALL, &param));
	ck_assert_ptr_eq(param.ia_handle, server->ia);
	ck_assert_uint_eq(param.lmr_triplet.lmr_context, window.region.lmr_context);
	ck_assert_uint_eq(param.lmr_triplet.virtual_address,
			  (uintptr_t)server->memory + WINDOW_FROM);
	ck_assert_uint_eq(param.lmr_triplet.segment_length, WINDOW_SIZE);
	ck_assert_int_eq(param.mem_priv, READING);
	ck_assert_uint_eq(param.rmr_context, context);
	ck_dat_is(dat_pz_free(server->pz), BAD_STATE(PZ_IN_USE));
	unbind_window(&window);
	ck_dat_is(dat_rmr_query(window.rmr, DAT_RMR_FIELD_LMR_TRIPLET, &param), BAD_ARG(2));
	ck_dat(dat_rmr_free(window.rmr));
	ck_dat_is(dat_rmr_free(window.rmr), BAD_HANDLE(RMR));
	window_close(&window);
}
END_TEST

/* The bind is not waited for: the message that carries the context is posted behind it. */
START_TEST(context_is_usable_before_the_bind_completes)
{
	const struct side *client = &pair->client, *server = &pair->server;

	window_open(&window);
	for (unsigned n = 0; n < 20; n++) {
		DAT_RMR_TRIPLET offer = window_target(&window, 0, WINDOW_FROM + n, WINDOW_SIZE);
		const DAT_LMR_TRIPLET range = region_segment(&window.region, WINDOW_FROM + n,
							     WINDOW_SIZE);

		post_recv(client->ep, n, segment(client, 0, sizeof(offer)));
		offer.rmr_context = post_bind(&window, n, range, REMOTE,
					      DAT_COMPLETION_DEFAULT_FLAG);
		memcpy(server->memory, &offer, sizeof(offer));
		post_send(server->ep, 100 + n, segment(server, 0, sizeof(offer)),
			  DAT_COMPLETION_DEFAULT_FLAG);
		expect_recv_done(client, n, sizeof(offer));
		memcpy(&offer, client->memory, sizeof(offer));
		expect_read(pair, offer);
		expect_write(pair, offer);
		expect_bind(server->request_evd, window.rmr, n, DAT_RMR_BIND_SUCCESS);
		expect_request_done(server, 100 + n, sizeof(offer));
	}
	ck_dat(dat_rmr_free(window.rmr));
	window_close(&window);
}
END_TEST

START_TEST(suppressed_bind_has_no_completion)
{
	const struct side *client = &pair->client, *server = &pair->server;
	DAT_RMR_CONTEXT context;

	window_open(&window);
	for (unsigned n = 0; n < 100; n++) {
		DAT_LMR_TRIPLET range = region_segment(&window.region, WINDOW_FROM, WINDOW_SIZE);

		ck_dat(RMR_BIND(window.rmr, window.region.lmr, &range, REMOTE, server->ep,
				cookie_of(n), DAT_COMPLETION_SUPPRESS_FLAG, &context));
		post_recv(client->ep, n, segment(client, 0, 8));
		post_send(server->ep, n, segment(server, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
		expect_request_done(server, n, 8);
		expect_recv_done(client, n, 8);
	}
	expect_write(pair, usual(context));
	expect_no_event(server->request_evd);
	ck_dat(dat_rmr_free(window.rmr));
	window_close(&window);
}
END_TEST

static DAT_RETURN try_bind(DAT_LMR_HANDLE lmr, DAT_LMR_TRIPLET range, unsigned priv,
			   DAT_EP_HANDLE ep)
{
	DAT_RMR_CONTEXT context = 5;
	DAT_RETURN ret = RMR_BIND(window.rmr, lmr, &range, (DAT_MEM_PRIV_FLAGS)priv, ep,
				  cookie_of(1), DAT_COMPLETION_DEFAULT_FLAG, &context);

	ck_assert_uint_eq(context, 5);
	return ret;
}

START_TEST(refused_bind_changes_nothing)
{
	DAT_LMR_TRIPLET range, past, unknown;
	DAT_EP_HANDLE unconnected, ep;
	DAT_LMR_HANDLE lmr;

	window_open(&window);
	lmr = window.region.lmr;
	ep = pair->server.ep;
	unconnected = side_create_ep(&pair->server, NULL);
	range = region_segment(&window.region, WINDOW_FROM, WINDOW_SIZE);
	past = region_segment(&window.region, SIDE_MEMORY - WINDOW_SIZE + 1, WINDOW_SIZE);
	unknown = range;
	unknown.lmr_context ^= 0x00ffff00;
	ck_dat_is(try_bind(lmr, range, REMOTE, unconnected), BAD_STATE(EP_UNCONNECTED));
	ck_dat_is(try_bind(lmr, past, REMOTE, ep), BAD_ARG_OF(2, 3));
	ck_dat_is(try_bind(DAT_HANDLE_NULL, unknown, REMOTE, ep),
		  OF_EDITION(BAD_ARG(2), BAD_HANDLE(LMR)));
	expect_no_event(pair->server.request_evd);
	expect_write(pair, usual(bind_window(&window, REMOTE)));
	ck_dat(dat_ep_free(unconnected));
	ck_dat(dat_rmr_free(window.rmr));
	window_close(&window);
}
END_TEST

/* A privilege that a region of these privileges cannot give to a window. */
static void expect_no_privilege(DAT_MEM_PRIV_FLAGS of_region, DAT_MEM_PRIV_FLAGS of_window,
				DAT_RETURN want)
{
	const struct side *server = &pair->server;
	const struct region region = region_over(server, server->memory, SIDE_MEMORY, of_region);
	const DAT_LMR_TRIPLET range = region_segment(&region, WINDOW_FROM, WINDOW_SIZE);

	ck_dat_is(try_bind(region.lmr, range, of_window, server->ep), want);
	ck_dat(dat_lmr_free(region.lmr));
}

START_TEST(window_needs_the_local_privileges_of_its_region)
{
	const struct side *server = &pair->server;
	struct region other;

	window_open(&window);
	expect_no_privilege(DAT_MEM_PRIV_LOCAL_READ_FLAG, WRITING, NO_PRIVILEGE(RDMA_WRITE));
	expect_no_privilege(DAT_MEM_PRIV_LOCAL_WRITE_FLAG, READING, NO_PRIVILEGE(RDMA_READ));
	expect_no_privilege(WRITING, WRITING, NO_PRIVILEGE(RDMA_WRITE));
	expect_no_privilege(WRITING, READING, NO_PRIVILEGE(RDMA_READ));
	other = region_over(server, server->memory, SIDE_MEMORY, DAT_MEM_PRIV_LOCAL_READ_FLAG);
	bind_range(&window, other.lmr, region_segment(&other, WINDOW_FROM, WINDOW_SIZE), READING);
	ck_dat_is(dat_lmr_free(other.lmr), BAD_STATE(LMR_IN_USE));
	unbind_window(&window);
	ck_dat(dat_lmr_free(other.lmr));
	expect_no_event(server->request_evd);
	exchange_messages(pair);
	ck_dat(dat_rmr_free(window.rmr));
	window_close(&window);
}
END_TEST

START_TEST(window_and_region_share_a_zone)
{
	struct side other;

	window_open(&window);
	side_copy_in_new_zone(&other, &pair->server);
	ck_dat_is(try_bind(other.lmr, segment(&other, WINDOW_FROM, WINDOW_SIZE), READING,
			   pair->server.ep),
		  DAT_ERROR(DAT_PROTECTION_VIOLATION, DAT_NO_SUBTYPE));
	ck_dat(dat_lmr_free(other.lmr));
	ck_dat(dat_pz_free(other.pz));
	ck_dat(dat_rmr_free(window.rmr));
	window_close(&window);
}
END_TEST

/* ---- accesses ---- */

START_TEST(rebind_invalidates_the_old_context)
{
	DAT_RMR_CONTEXT old, new;

	window_open(&window);
	old = bind_window(&window, REMOTE);
	expect_write(pair, usual(old));
	new = bind_window(&window, REMOTE);
	ck_assert_uint_ne(new, old);
	expect_read_refused(pair, usual(old));
	expect_write_refused(pair, usual(old));
	expect_write(pair, usual(new)); /* the connection that the bind was posted on has ended */
	ck_dat(dat_rmr_free(window.rmr));
	window_close(&window);
}
END_TEST

START_TEST(unbind_and_free_invalidate_the_context)
{
	DAT_RMR_CONTEXT context;
	DAT_RMR_PARAM param;

	window_open(&window);
	context = bind_window(&window, REMOTE);
	expect_read(pair, usual(context));
	ck_dat_is(dat_lmr_free(window.region.lmr), BAD_STATE(LMR_IN_USE));
	unbind_window(&window);
	ck_dat_is(dat_rmr_query(window.rmr, DAT_RMR_FIELD_LMR_TRIPLET, &param), BAD_ARG(2));
	expect_read_refused(pair, usual(context));
	expect_write_refused(pair, usual(context));
	context = bind_window(&window, REMOTE);
	expect_read(pair, usual(context));
	ck_dat(dat_rmr_free(window.rmr));
	expect_read_refused(pair, usual(context));
	expect_write_refused(pair, usual(context));
	window_close(&window);
}
END_TEST

START_TEST(window_without_remote_write_refuses_writes)
{
	DAT_RMR_CONTEXT context;

	window_open(&window);
	context = bind_window(&window, READING);
	expect_read(pair, usual(context));
	expect_write_refused(pair, usual(context));
	context = bind_window(&window, DAT_MEM_PRIV_NONE_FLAG);
	expect_write_refused(pair, usual(context));
	ck_dat(dat_rmr_free(window.rmr));
	window_close(&window);
}
END_TEST

START_TEST(window_without_remote_read_refuses_reads)
{
	DAT_RMR_CONTEXT context;

	window_open(&window);
	context = bind_window(&window, WRITING);
	expect_write(pair, usual(context));
	expect_read_refused(pair, usual(context));
	ck_dat(dat_rmr_free(window.rmr));
	window_close(&window);
}
END_TEST

/* ---- contexts that permit no access, each in a new window ---- */

static DAT_RMR_CONTEXT after_rebind(void)
{
	DAT_RMR_CONTEXT old = bind_window(&window, REMOTE);

	ck_assert_uint_ne(bind_window(&window, REMOTE), old);
	return old;
}

static DAT_RMR_CONTEXT after_unbind(void)
{
	DAT_RMR_CONTEXT old = bind_window(&window, REMOTE);

	unbind_window(&window);
	return old;
}

static DAT_RMR_CONTEXT after_free(void)
{
	DAT_RMR_CONTEXT old = bind_window(&window, REMOTE);

	ck_dat(dat_rmr_free(window.rmr));
	return old;
}

static DAT_RMR_CONTEXT without_privileges(void)
{
	return bind_window(&window, DAT_MEM_PRIV_NONE_FLAG);
}

static DAT_RMR_CONTEXT for_reading(void)
{
	return bind_window(&window, READING);
}

static DAT_RMR_CONTEXT for_writing(void)
{
	return bind_window(&window, WRITING);
}

/* Of the same memory, in another zone, whose endpoints are connected, too. */
static DAT_RMR_CONTEXT of_another_zone(void)
{
	struct window other;
	struct side *server = &other.pair.server;
	DAT_RMR_CONTEXT context;

	pair_copy_in_new_zone(&other.pair, pair);
	other.region = region_over(server, server->memory, server->size, LOCAL);
	ck_dat(dat_rmr_create(server->pz, &other.rmr));
	context = bind_window(&other, REMOTE);
	expect_write(&other.pair, usual(context));
	return context;
}

static DAT_RMR_CONTEXT unknown_context(void)
{
	return bind_window(&window, REMOTE) ^ 0x00ffff00;
}

static const struct {
	DAT_RMR_CONTEXT (*make)(void);
	bool writes, reads;	    /* are refused */
	unsigned needs, read_needs; /* of the device, to refuse it; to refuse a read */
} refusals[] = {
	{ after_rebind, true, true, 0, 0 },
	{ after_unbind, true, true, 0, 0 },
	{ after_free, true, true, 0, 0 },
	{ of_another_zone, true, true, 0, 0 },
	{ unknown_context, true, true, 0, 0 },
	{ without_privileges, true, true, 0, NEEDS_READ_RIGHTS },
	{ for_reading, true, false, 0, 0 },
	{ for_writing, false, true, 0, NEEDS_READ_RIGHTS },
};

START_TEST(refused_write_changes_no_byte)
{
	for (size_t i = 0; i < COUNT(refusals); i++) {
		if (!refusals[i].writes || !device_has(refusals[i].needs))
			continue;
		window_open(&window);
		expect_write_refused(pair, usual(refusals[i].make()));
		pair_close_abrupt(pair);
	}
}
END_TEST

START_TEST(refused_read_returns_no_byte)
{
	for (size_t i = 0; i < COUNT(refusals); i++) {
		if (!refusals[i].reads || !device_has(refusals[i].needs | refusals[i].read_needs))
			continue;
		window_open(&window);
		expect_read_refused(pair, usual(refusals[i].make()));
		pair_close_abrupt(pair);
	}
}
END_TEST

/* ---- ranges ---- */

/* Beyond either end of the window: one byte alone, or together with bytes of the window. */
static const struct {
	long offset; /* from the first byte of the window */
	size_t length;
} outsides[] = {
	{ -1, 1 },
	{ -1, 2 },
	{ -1, WINDOW_SIZE },
	{ WINDOW_SIZE, 1 },
	{ WINDOW_SIZE - 1, 2 },
	{ 1, WINDOW_SIZE },
	{ 0, WINDOW_SIZE + 1 },
};

static DAT_RMR_TRIPLET outside(DAT_RMR_CONTEXT context, size_t i)
{
	return window_target(&window, context, WINDOW_FROM + (size_t)outsides[i].offset,
			     outsides[i].length);
}

START_TEST(window_permits_its_range_and_no_byte_beyond)
{
	window_open(&window);
	for (size_t i = 0; i < COUNT(outsides); i++) {
		DAT_RMR_CONTEXT context = bind_window(&window, REMOTE);

		expect_write(pair, usual(context));
		expect_write(pair, window_target(&window, context, WINDOW_FROM, 1));
		expect_write(pair,
			     window_target(&window, context, WINDOW_FROM + WINDOW_SIZE - 1, 1));
		expect_read_refused(pair, outside(context, i));
		expect_write_refused(pair, outside(context, i));
	}
	ck_dat(dat_rmr_free(window.rmr));
	window_close(&window);
}
END_TEST

/* Memory that cannot be written; some devices bind no window to it, then a region serves. */
static void window_open_read_only(void)
{
	unsigned char *at = mmap(NULL, SIDE_MEMORY, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(at, MAP_FAILED);
	pattern_fill(at, SIDE_MEMORY, 9);
	ck_assert_int_eq(mprotect(at, SIDE_MEMORY, PROT_READ), 0);
	window_open(&window);
	ck_dat(dat_lmr_free(window.region.lmr));
	window.region = region_over(&pair->server, at, SIDE_MEMORY, DAT_MEM_PRIV_LOCAL_READ_FLAG);
}

START_TEST(read_only_memory_can_be_read_through_a_window)
{
	const struct side *client = &pair->client;
	DAT_RMR_CONTEXT context = 0, before;

	window_open_read_only();
	for (unsigned i = 0; i < 3; i++) {
		before = context;
		context = post_bind(&window, i, region_segment(&window.region, 0, SIDE_MEMORY),
				    READING, DAT_COMPLETION_DEFAULT_FLAG);
		ck_assert_uint_ne(context, before);
		post_read(client->ep, i, segment(client, 0, SIDE_MEMORY),
			  window_target(&window, context, 0, SIDE_MEMORY),
			  DAT_COMPLETION_DEFAULT_FLAG);
		expect_bind(pair->server.request_evd, window.rmr, i, DAT_RMR_BIND_SUCCESS);
		expect_request_done(client, i, SIDE_MEMORY);
		pattern_check(client->memory, SIDE_MEMORY, 9);
	}
	expect_read_refused(pair, window_target(&window, before, 0, SIDE_MEMORY));
	unbind_window(&window);
	expect_read_refused(pair, window_target(&window, context, 0, SIDE_MEMORY));
	ck_dat(dat_rmr_free(window.rmr));
	window_close(&window);
}
END_TEST

/* A region serves as the window, so its range is checked even by a device that checks no window. */
START_TEST(read_only_window_permits_its_range_and_no_byte_beyond)
{
	DAT_RMR_CONTEXT context;

	window_open_read_only();
	context = bind_window(&window, READING);
	for (size_t i = 0; i < COUNT(outsides); i++) {
		expect_read(pair, usual(context));
		expect_read_refused(pair, outside(context, i));
	}
	ck_dat(dat_rmr_free(window.rmr));
	window_close(&window);
}
END_TEST

void add_window_cases(TCase *tcase)
{
	const struct device_case cases[] = {
		{ unbound_window_has_no_range, NEEDS_NOTHING },
		{ context_is_usable_before_the_bind_completes, NEEDS_NOTHING },
		{ suppressed_bind_has_no_completion, NEEDS_NOTHING },
		{ refused_bind_changes_nothing, NEEDS_NOTHING },
		{ window_needs_the_local_privileges_of_its_region, NEEDS_NOTHING },
		{ window_and_region_share_a_zone, NEEDS_NOTHING },
		{ rebind_invalidates_the_old_context, NEEDS_NOTHING },
		{ unbind_and_free_invalidate_the_context, NEEDS_NOTHING },
		{ window_without_remote_write_refuses_writes, NEEDS_NOTHING },
		{ window_without_remote_read_refuses_reads, NEEDS_READ_RIGHTS },
		{ refused_write_changes_no_byte, NEEDS_NOTHING },
		{ refused_read_returns_no_byte, NEEDS_NOTHING },
		{ window_permits_its_range_and_no_byte_beyond, NEEDS_WINDOW_RANGE },
		{ read_only_memory_can_be_read_through_a_window, NEEDS_NOTHING },
		{ read_only_window_permits_its_range_and_no_byte_beyond, NEEDS_NOTHING },
	};

	add_device_cases(tcase, cases, COUNT(cases));
}
