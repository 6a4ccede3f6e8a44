/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hours of everything at once: connections, transfers, windows, registrations, waits and faults in
 * random order. Each minute a line tells what the process and the kernel hold, and how long small
 * messages took. Nothing may grow after the first minute, and no percentile may drift.
 *
 * test/soak MINUTES runs it. Without SOAK_MINUTES it takes three intervals of a second, in which
 * memory has no time to warm up.
 */
#include "soak.h"

static struct window window;
static DAT_CONN_QUAL nobody;

/* ---- operations; each leaves a connection without anything outstanding ---- */

static void ping(void)
{
	const struct side *client = &window.pair.client, *server = &window.pair.server;

	for (unsigned i = 0; i < 20; i++) {
		const uint64_t start = soak_now();

		post_recv(server->ep, i, segment(server, 0, 64));
		post_send(client->ep, i, segment(client, 0, 64), DAT_COMPLETION_DEFAULT_FLAG);
		expect_recv_done(server, i, 64);
		expect_request_done(client, i, 64);
		sample_take(start);
	}
}

static void messages(void)
{
	exchange_messages(&window.pair);
}

static void accesses(void)
{
	const size_t size = 1 + random_below(SIDE_MEMORY / 2);

	expect_write(&window.pair, target(&window.pair.server, 0, size));
	expect_read(&window.pair, target(&window.pair.server, 0, size));
}

static void windows(void)
{
	const DAT_RMR_CONTEXT context = bind_window(&window, REMOTE);

	expect_write(&window.pair, window_target(&window, context, WINDOW_FROM, WINDOW_SIZE));
	unbind_window(&window);
}

static void registrations_of_client(void)
{
	registrations(&window.pair.client);
}

/* One wait for several events, then what is left, without a wait. */
static void wait_for_many(void)
{
	const struct side *client = &window.pair.client, *server = &window.pair.server;
	DAT_EVENT event;
	DAT_COUNT nmore;

	post_recvs(server, 0, 4);
	for (unsigned i = 0; i < 4; i++)
		post_send(client->ep, i, segment(client, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	ck_dat(dat_evd_wait(server->recv_evd, TIME_LIMIT, 4, &event, &nmore));
	for (unsigned i = 1; i < 4; i++)
		ck_dat(dat_evd_dequeue(server->recv_evd, &event));
	ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, 3);
	for (unsigned i = 0; i < 4; i++)
		expect_request_done(client, i, 8);
}

static void waits_in_vain(void)
{
	wait_in_vain(&window.pair.client);
	wait_in_vain(&window.pair.server);
}

static void wait_for_a_cno_of_client(void)
{
	wait_for_a_cno(&window.pair.client);
}

static void reconnect(void)
{
	struct pair *pair = &window.pair;

	if (random_below(2))
		post_recvs(&pair->server, 100, 4);
	pair_disconnect(pair, random_below(2) ? DAT_CLOSE_ABRUPT_FLAG : DAT_CLOSE_GRACEFUL_FLAG);
	while (dat_evd_dequeue(pair->server.recv_evd, &(DAT_EVENT){ 0 }) == DAT_SUCCESS)
		;
	pair_reconnect(pair);
}

static void refused_access(void)
{
	DAT_RMR_TRIPLET bad = target(&window.pair.server, 0, 1000);

	bad.rmr_context ^= 0x00ffff00;
	faults++;
	if (random_below(2) && device_has(NEEDS_READ_RIGHTS))
		expect_read_refused(&window.pair, bad);
	else
		expect_write_refused(&window.pair, bad);
}

static void refused_attempts(void)
{
	const struct side *client = &window.pair.client, *server = &window.pair.server;
	DAT_EP_HANDLE ep = side_create_ep(client, NULL);
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp = listen_any(server, &qual);

	faults += 2;
	ck_dat(try_connect(ep, server, nobody, TIME_LIMIT));
	expect_connection_of(client, ep, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	ck_dat(dat_ep_reset(ep));
	ck_dat(try_connect(ep, server, qual, TIME_LIMIT));
	ck_dat(CR_REJECT(expect_cr(server)));
	expect_connection_of(client, ep, DAT_CONNECTION_EVENT_PEER_REJECTED);
	ck_dat(dat_ep_free(ep));
	ck_dat(dat_psp_free(psp));
}

static void reopen(void)
{
	ck_dat(dat_rmr_free(window.rmr));
	window_close(&window);
	window_open(&window);
}

static const struct {
	void (*run)(void);
	unsigned weight;
} mix[] = {
	{ ping, 200 },
	{ messages, 100 },
	{ accesses, 100 },
	{ windows, 100 },
	{ registrations_of_client, 100 },
	{ wait_for_many, 100 },
	{ waits_in_vain, 30 },
	{ wait_for_a_cno_of_client, 50 },
	{ reconnect, 50 },
	{ refused_access, 10 },
	{ refused_attempts, 10 },
	{ reopen, 3 },
};

/* After that an IA keeps all that it keeps for later, however long it has been open. */
static void operate_once_each(void)
{
	for (size_t i = 0; i < COUNT(mix); i++)
		if (mix[i].run != reopen)
			mix[i].run();
}

static void operate(void)
{
	unsigned total = 0, chosen;
	size_t i = 0;

	for (size_t k = 0; k < COUNT(mix); k++)
		total += mix[k].weight;
	for (chosen = random_below(total); chosen >= mix[i].weight; i++)
		chosen -= mix[i].weight;
	mix[i].run();
	operations++;
}

static void measure(void)
{
	operate_once_each();
	pair_disconnect(&window.pair, DAT_CLOSE_ABRUPT_FLAG);
	pair_reset(&window.pair);
	interval_end();
	pair_connect(&window.pair);
}

START_TEST(nothing_grows_and_no_latency_drifts)
{
	intervals_begin();
	window_open(&window);
	nobody = free_qual(&window.pair.server);
	for (unsigned i = 0; i < interval_count(); i++) {
		const uint64_t end = soak_now() + interval_length();

		while (soak_now() < end || !interval_has_samples())
			operate();
		measure();
	}
	intervals_verdict();
	ck_dat(dat_rmr_free(window.rmr));
	window_close(&window);
	long_case_end();
}
END_TEST

int main(int argc, char **argv)
{
	const struct device_case cases[] = {
		{ nothing_grows_and_no_latency_drifts, NEEDS_NOTHING },
	};

	return run_on_device(argc, argv, cases, COUNT(cases));
}
