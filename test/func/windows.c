/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Windows on a device, beyond what conform tests: many binds at once, binds that fail, and windows
 * that outlive an endpoint. For a device without windows the provider uses regions.
 */
#include <string.h>

#include "../consumer/consumer.h"

#define READING DAT_MEM_PRIV_REMOTE_READ_FLAG
#define WRITING DAT_MEM_PRIV_REMOTE_WRITE_FLAG

/* The window at its usual place, by @context. */
static DAT_RMR_TRIPLET whole(const struct window *window, DAT_RMR_CONTEXT context)
{
	return window_target(window, context, WINDOW_FROM, WINDOW_SIZE);
}

/* ---- many binds ---- */

START_TEST(binds_complete_in_order_with_other_requests)
{
	enum { ROUNDS = 5 };
	const DAT_EP_ATTR attr = ep_attr_for(ROUNDS, 3 * ROUNDS);
	struct window w;
	const struct side *client = &w.pair.client, *server = &w.pair.server;

	pair_open(&w.pair, &attr);
	w.region = region_over(server, server->memory, server->size, DAT_MEM_PRIV_ALL_FLAG);
	ck_dat(dat_rmr_create(server->pz, &w.rmr));
	post_recvs(client, 0, ROUNDS);
	for (unsigned i = 0; i < ROUNDS; i++) {
		post_read(server->ep, 10 + i, segment(server, 0, 4096), target(client, 4096, 4096),
			  DAT_COMPLETION_DEFAULT_FLAG);
		post_bind(&w, 20 + i, region_segment(&w.region, i, WINDOW_SIZE), REMOTE,
			  i % 2 ? DAT_COMPLETION_BARRIER_FENCE_FLAG : DAT_COMPLETION_DEFAULT_FLAG);
		post_send(server->ep, 30 + i, segment(server, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	}
	for (unsigned i = 0; i < ROUNDS; i++) {
		expect_request_done(server, 10 + i, 4096);
		expect_bind(server->request_evd, w.rmr, 20 + i, DAT_RMR_BIND_SUCCESS);
		expect_request_done(server, 30 + i, 8);
	}
	expect_no_event(server->request_evd);
	pair_close_abrupt(&w.pair);
}
END_TEST

/* Each takes a slot of the endpoint, and there is no completion to free it. */
START_TEST(suppressed_binds_free_their_slots)
{
	DAT_RMR_CONTEXT context = 0, before;
	struct window w;

	window_open(&w);
	for (unsigned i = 0; i < 500; i++) {
		before = context;
		context = post_bind(&w, i,
				    region_segment(&w.region, WINDOW_FROM + i % 100, WINDOW_SIZE),
				    REMOTE, DAT_COMPLETION_SUPPRESS_FLAG);
		ck_assert_uint_ne(context, before);
	}
	exchange_messages(&w.pair);
	expect_write(&w.pair, window_target(&w, context, WINDOW_FROM + 99, WINDOW_SIZE));
	expect_no_event(w.pair.server.request_evd);
	pair_close_abrupt(&w.pair);
}
END_TEST

/* ---- accesses ---- */

START_TEST(one_remote_privilege_suffices)
{
	struct window w;

	window_open(&w);
	expect_read(&w.pair, whole(&w, bind_window(&w, READING)));
	expect_write(&w.pair, whole(&w, bind_window(&w, WRITING)));
	pair_close_abrupt(&w.pair);
}
END_TEST

/*
 * A device that checks only the range of the region lets the client write outside the window. The
 * query shows that the window's own range is right, so it is the device that lacks the check. The
 * end of the region holds.
 */
START_TEST(range_beyond_the_region_is_refused)
{
	DAT_RMR_CONTEXT context;
	DAT_RMR_PARAM param;
	struct window w;

	window_open(&w);
	context = bind_window(&w, REMOTE);
	ck_dat(dat_rmr_query(w.rmr, DAT_RMR_FIELD_ALL, &param));
	ck_assert_uint_eq(param.lmr_triplet.segment_length, WINDOW_SIZE);
	if (!device_has(NEEDS_WINDOW_RANGE)) {
		expect_write(&w.pair, window_target(&w, context, WINDOW_FROM + 1, WINDOW_SIZE));
		expect_write(&w.pair, window_target(&w, context, WINDOW_FROM - 1, WINDOW_SIZE));
		expect_write_refused(
			&w.pair,
			window_target(&w, context, SIDE_MEMORY - WINDOW_SIZE + 1, WINDOW_SIZE));
	}
	pair_close_abrupt(&w.pair);
}
END_TEST

static void make_eps(struct pair *pair)
{
	pair->client.ep = side_create_ep(&pair->client, NULL);
	pair->server.ep = side_create_ep(&pair->server, NULL);
}

/* A window belongs to its zone, not to the endpoint that it was bound on. */
START_TEST(window_serves_every_endpoint_of_its_zone)
{
	DAT_RMR_CONTEXT context;
	struct window w;

	window_open(&w);
	context = bind_window(&w, REMOTE);
	ck_dat(dat_ep_free(w.pair.server.ep));
	expect_end(&w.pair.client);
	ck_dat(dat_ep_free(w.pair.client.ep));
	make_eps(&w.pair);
	pair_connect(&w.pair);
	expect_write(&w.pair, whole(&w, context));
	expect_read(&w.pair, whole(&w, bind_window(&w, READING)));
	pair_close_abrupt(&w.pair);
}
END_TEST

/* ---- regions and endpoints ---- */

START_TEST(bound_region_is_not_freed)
{
	struct region other;
	struct window w;

	window_open(&w);
	other = region_map(&w.pair.server, SIDE_MEMORY, DAT_MEM_PRIV_ALL_FLAG);
	bind_window(&w, REMOTE);
	ck_dat_is(dat_lmr_free(w.region.lmr), BAD_STATE(LMR_IN_USE));
	bind_range(&w, other.lmr, region_segment(&other, 0, WINDOW_SIZE), REMOTE);
	ck_dat(dat_lmr_free(w.region.lmr));
	ck_dat_is(dat_lmr_free(other.lmr), BAD_STATE(LMR_IN_USE));
	unbind_window(&w);
	ck_dat(dat_lmr_free(other.lmr));
	pair_close_abrupt(&w.pair);
}
END_TEST

START_TEST(flushed_bind_keeps_the_old_context)
{
	const struct side *server;
	DAT_RMR_CONTEXT context;
	DAT_RMR_PARAM param;
	struct window w;

	window_open(&w);
	server = &w.pair.server;
	context = bind_window(&w, REMOTE);
	ck_dat(dat_ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_connection(server, DAT_CONNECTION_EVENT_DISCONNECTED);
	post_bind(&w, 1, region_segment(&w.region, 0, WINDOW_SIZE), REMOTE,
		  DAT_COMPLETION_SUPPRESS_FLAG);
	expect_bind(server->request_evd, w.rmr, 1, DAT_RMR_BIND_FAILURE);
	ck_dat(dat_rmr_query(w.rmr, DAT_RMR_FIELD_ALL, &param));
	ck_assert_uint_eq(param.rmr_context, context);
	expect_end(&w.pair.client);
	pair_reconnect(&w.pair);
	expect_write(&w.pair, whole(&w, context));
	expect_write(&w.pair, whole(&w, bind_window(&w, REMOTE)));
	pair_close_abrupt(&w.pair);
}
END_TEST

/*
 * A bind behind a message that waits for a receive may have been executed when it is flushed, so
 * that the device's window has another key than the provider knows.
 */
static void flushed_behind_a_message(struct window *w)
{
	const struct side *server = &w->pair.server;

	post_send(server->ep, 1, segment(server, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	post_bind(w, 2, region_segment(&w->region, 0, WINDOW_SIZE), REMOTE,
		  DAT_COMPLETION_DEFAULT_FLAG);
	ck_dat(dat_ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_dto(server->request_evd, server->ep, 1, DAT_DTO_ERR_FLUSHED, 0);
	expect_bind(server->request_evd, w->rmr, 2, DAT_RMR_BIND_FAILURE);
	expect_disconnected(&w->pair);
	pair_reconnect(&w->pair);
}

START_TEST(window_can_be_bound_after_a_flush_behind_a_message)
{
	DAT_RMR_CONTEXT context;
	struct window w;

	window_open(&w);
	flushed_behind_a_message(&w);
	context = bind_window(&w, REMOTE);
	expect_write(&w.pair, whole(&w, context));
	flushed_behind_a_message(&w);
	expect_write(&w.pair, whole(&w, bind_window(&w, REMOTE)));
	expect_write_refused(&w.pair, whole(&w, context));
	unbind_window(&w);
	ck_dat(dat_lmr_free(w.region.lmr));
	pair_close_abrupt(&w.pair);
}
END_TEST

/* Whether or not the last bind was executed, device and provider agree on what is bound. */
START_TEST(endpoint_is_freed_with_outstanding_binds)
{
	for (unsigned i = 0; i < 10; i++) {
		struct side *server;
		struct window w;

		window_open(&w);
		server = &w.pair.server;
		for (unsigned n = 0; n < 8; n++)
			post_bind(&w, n, region_segment(&w.region, n, WINDOW_SIZE), REMOTE,
				  DAT_COMPLETION_DEFAULT_FLAG);
		ck_dat(dat_ep_free(server->ep));
		expect_end(&w.pair.client);
		ck_dat(dat_ep_reset(w.pair.client.ep));
		ck_dat(dat_evd_free(server->request_evd));
		server->request_evd = side_create_evd(server, SIDE_QLEN,
						      DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG);
		server->ep = side_create_ep(server, NULL);
		pair_connect(&w.pair);
		expect_write(&w.pair, whole(&w, bind_window(&w, REMOTE)));
		unbind_window(&w);
		ck_dat(dat_lmr_free(w.region.lmr));
		pair_close_abrupt(&w.pair);
	}
}
END_TEST

/*
 * Where a bind registers the range, a peer that knows the context gets in although the bind waits
 * behind a message for which there is no receive. dat_rmr_bind(3) says so.
 */
START_TEST(a_bind_that_waits_grants_access_where_it_registers_the_range)
{
	struct window w;
	const struct side *client = &w.pair.client, *server = &w.pair.server;
	const volatile unsigned char *last;
	DAT_RMR_CONTEXT context;

	window_open(&w);
	last = server->memory + WINDOW_FROM + WINDOW_SIZE - 1;
	memset(client->memory, 'x', WINDOW_SIZE);
	post_outstanding(server, client, 2);
	context = post_bind(&w, 2, region_segment(&w.region, WINDOW_FROM, WINDOW_SIZE), WRITING,
			    DAT_COMPLETION_DEFAULT_FLAG);
	post_write(client->ep, 3, segment(client, 0, WINDOW_SIZE), whole(&w, context),
		   DAT_COMPLETION_DEFAULT_FLAG);
	while (*last != 'x')
		expect_no_event(server->request_evd);
	post_recvs(client, 0, 1);
	expect_request_done(server, 0, 8);
	expect_request_done(server, 1, 8);
	expect_bind(server->request_evd, w.rmr, 2, DAT_RMR_BIND_SUCCESS);
	expect_request_done(client, 3, WINDOW_SIZE);
	pair_close_abrupt(&w.pair);
}
END_TEST

/* A device repeats a message for which there was no receive, but not the bind behind it. */
START_TEST(a_bind_behind_a_message_without_a_receive_completes_after_it)
{
	enum { ROUNDS = 8 };
	struct window w;
	const struct side *client = &w.pair.client, *server = &w.pair.server;

	window_open(&w);
	for (unsigned round = 0; round < ROUNDS; round++) {
		post_outstanding(server, client, 1);
		post_bind(&w, 2, region_segment(&w.region, round, WINDOW_SIZE), REMOTE,
			  DAT_COMPLETION_DEFAULT_FLAG);
		post_recvs(client, 0, 1);
		expect_request_done(server, 0, 8);
		expect_bind(server->request_evd, w.rmr, 2, DAT_RMR_BIND_SUCCESS);
		expect_recv_done(client, 0, 8);
	}
	pair_close_abrupt(&w.pair);
}
END_TEST

int main(int argc, char **argv)
{
	const struct device_case cases[] = {
		{ binds_complete_in_order_with_other_requests, NEEDS_NOTHING },
		{ suppressed_binds_free_their_slots, NEEDS_NOTHING },
		{ one_remote_privilege_suffices, NEEDS_NOTHING },
		{ range_beyond_the_region_is_refused, NEEDS_NOTHING },
		{ window_serves_every_endpoint_of_its_zone, NEEDS_NOTHING },
		{ bound_region_is_not_freed, NEEDS_NOTHING },
		{ flushed_bind_keeps_the_old_context, NEEDS_NOTHING },
		{ window_can_be_bound_after_a_flush_behind_a_message,
		  NEEDS_RNR | NEEDS_SEND_PLACEMENT },
		{ endpoint_is_freed_with_outstanding_binds, NEEDS_NOTHING },
		{ a_bind_that_waits_grants_access_where_it_registers_the_range,
		  NEEDS_RNR | NEEDS_NO_WINDOWS },
		{ a_bind_behind_a_message_without_a_receive_completes_after_it,
		  NEEDS_RNR | NEEDS_NO_WINDOWS },
	};

	return run_on_device(argc, argv, cases, COUNT(cases));
}
