/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections over a wire that loses, repeats, reorders, damages and delays packets, that is cut,
 * and whose connections are reset. No byte is wrong, each transfer completes once and in order,
 * each side is told the end of a connection, and both can connect again.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../consumer/consumer.h"
#include "wire.h"

#define POSTED 4 /* receives when a connection ends, with cookies from 100 on */
#define SIZE   ((size_t)20000)
#define BOTH   3 /* directions, in struct wire.cut */

/* ---- the wire ---- */

/* Sets the condition of the wire; returns at once, or when so many packets were dropped. */
static void wire_set(struct wire wire)
{
	const struct sockaddr_un address = WIRE_ADDRESS;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	char answer[2];

	ck_assert_int_eq(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(send(fd, &wire, sizeof(wire), MSG_NOSIGNAL), sizeof(wire));
	ck_assert_int_eq(recv(fd, answer, sizeof(answer), 0), sizeof(answer));
	close(fd);
}

static void wire_heal(void)
{
	wire_set((struct wire){ 0 });
}

static void wire_cut(void)
{
	wire_set((struct wire){ .cut = BOTH });
}

/* A setting of this network namespace. */
static void tcp_set(const char *name, unsigned value)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/tcp_%s", name);
	file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	fprintf(file, "%u\n", value);
	ck_assert_int_eq(fclose(file), 0);
}

/* A peer is given up after a second of silence and three probes that it does not answer. */
static void tcp_probe_soon(void)
{
	tcp_set("keepalive_time", 1);
	tcp_set("keepalive_intvl", 1);
	tcp_set("keepalive_probes", 3);
}

/* Returns when the peers' kernels have all that was sent. */
static void wait_until_sent(void)
{
	unsigned queued;
	char line[256];

	do {
		FILE *table = fopen("/proc/net/tcp", "r");
		unsigned one;

		ck_assert_ptr_nonnull(table);
		queued = 0;
		while (fgets(line, sizeof(line), table))
			if (sscanf(line, "%*u: %*s %*s %*x %x:", &one) == 1)
				queued += one;
		fclose(table);
	} while (queued);
}

/* ---- a connection ---- */

static void expect_quiet(const struct side *side)
{
	expect_no_event(side->connect_evd);
	expect_no_event(side->recv_evd);
	expect_no_event(side->request_evd);
}

/* Nothing more is told, and both sides can be used again. */
static void reuse_and_close(struct pair *pair)
{
	wire_heal();
	pair_reset(pair);
	expect_quiet(&pair->client);
	expect_quiet(&pair->server);
	pair_connect(pair);
	exchange_messages(pair);
	expect_quiet(&pair->client);
	expect_quiet(&pair->server);
	pair_close(pair);
}

static void post_recvs_of_both(const struct pair *pair)
{
	post_recvs(&pair->client, 100, POSTED);
	post_recvs(&pair->server, 100, POSTED);
}

static void expect_recvs_of_both_flushed(const struct pair *pair)
{
	expect_flushed_recvs(&pair->client, 100, POSTED);
	expect_flushed_recvs(&pair->server, 100, POSTED);
}

/* ---- transfers over a bad wire ---- */

static const struct {
	const char *what;
	struct wire wire;
} bad_wires[] = {
	{ "good", { 0 } },
	{ "loses", { .loss = 30 } },
	{ "repeats", { .duplicate = 100 } },
	{ "damages", { .corrupt = 30 } },
	{ "reorders", { .reorder = 200 } },
	{ "delays", { .delay_us = 50000 } },
	{ "all of it",
	  { .loss = 10, .duplicate = 20, .corrupt = 10, .reorder = 50, .delay_us = 2000 } },
};

enum { ROUND = 8 }; /* transfers of a kind */

/*
 * The client sends, writes and reads; the server sends at the same time. Parts of memory: what the
 * client sends, then what is written, what is read, and what the server sends.
 */
static void transfer_each_way(const struct pair *pair, unsigned seed)
{
	const struct side *client = &pair->client, *server = &pair->server;
	const size_t part = ROUND * SIZE;

	pattern_fill(client->memory, 2 * part, seed);
	memset(client->memory + 2 * part, UNTOUCHED, 2 * part);
	memset(server->memory, UNTOUCHED, 2 * part);
	pattern_fill(server->memory + 2 * part, 2 * part, seed + 1);
	for (unsigned i = 0; i < ROUND; i++) {
		post_recv(server->ep, i, segment(server, i * SIZE, SIZE));
		post_recv(client->ep, i, segment(client, 3 * part + i * SIZE, SIZE));
	}
	for (unsigned i = 0; i < ROUND; i++) {
		post_send(client->ep, 3 * i, segment(client, i * SIZE, SIZE),
			  DAT_COMPLETION_DEFAULT_FLAG);
		post_write(client->ep, 3 * i + 1, segment(client, part + i * SIZE, SIZE),
			   target(server, part + i * SIZE, SIZE), DAT_COMPLETION_DEFAULT_FLAG);
		post_read(client->ep, 3 * i + 2, segment(client, 2 * part + i * SIZE, SIZE),
			  target(server, 2 * part + i * SIZE, SIZE), DAT_COMPLETION_DEFAULT_FLAG);
		post_send(server->ep, i, segment(server, 3 * part + i * SIZE, SIZE),
			  DAT_COMPLETION_DEFAULT_FLAG);
	}
	for (unsigned i = 0; i < 3 * ROUND; i++)
		expect_request_done(client, i, SIZE);
	for (unsigned i = 0; i < ROUND; i++) {
		expect_recv_done(server, i, SIZE);
		expect_recv_done(client, i, SIZE);
		expect_request_done(server, i, SIZE);
	}
	pattern_check(server->memory, 2 * part, seed);
	pattern_check(client->memory + 2 * part, 2 * part, seed + 1);
}

START_TEST(no_wire_changes_what_is_transferred)
{
	const DAT_EP_ATTR attr = ep_attr_for(ROUND, 3 * ROUND);
	struct pair pair;

	printf("# the wire: %s\n", bad_wires[_i].what);
	wire_set(bad_wires[_i].wire);
	pair_open_sized(&pair, &attr, 4 * ROUND * SIZE);
	for (unsigned i = 0; i < 2; i++) {
		transfer_each_way(&pair, 2 * i);
		pair_disconnect(&pair, i % 2 ? DAT_CLOSE_ABRUPT_FLAG : DAT_CLOSE_GRACEFUL_FLAG);
		pair_reset(&pair);
		expect_quiet(&pair.client);
		expect_quiet(&pair.server);
		pair_connect(&pair);
	}
	pair_close_abrupt(&pair);
	wire_heal();
}
END_TEST

/* The next receive is posted when the one before it has been taken. */
START_TEST(a_slow_reader_gets_every_message)
{
	enum { MESSAGES = 60 };
	const DAT_EP_ATTR attr = ep_attr_for(1, MESSAGES);
	struct pair pair;

	pair_open_sized(&pair, &attr, MESSAGES * SIZE);
	pattern_fill(pair.client.memory, MESSAGES * SIZE, 5);
	wire_set((struct wire){ .delay_us = 1000, .loss = 5 });
	for (unsigned i = 0; i < MESSAGES; i++)
		post_send(pair.client.ep, i, segment(&pair.client, i * SIZE, SIZE),
			  DAT_COMPLETION_DEFAULT_FLAG);
	for (unsigned i = 0; i < MESSAGES; i++) {
		post_recv(pair.server.ep, i, segment(&pair.server, i * SIZE, SIZE));
		expect_recv_done(&pair.server, i, SIZE);
	}
	for (unsigned i = 0; i < MESSAGES; i++)
		expect_request_done(&pair.client, i, SIZE);
	pattern_check(pair.server.memory, MESSAGES * SIZE, 5);
	pair_disconnect(&pair, DAT_CLOSE_GRACEFUL_FLAG);
	reuse_and_close(&pair);
}
END_TEST

/* ---- many processes ---- */

enum { PROCESSES = 64, MESSAGES_EACH = 3 };

/* What a process of a ring is told: where the next one listens, and the seeds of the messages. */
struct place {
	DAT_CONN_QUAL next;
	unsigned own, previous;
};

/* Connects to the next one, and the one before connects to it. */
static void one_of_a_ring(int fd)
{
	struct place place;
	struct pair pair;
	DAT_CONN_QUAL qual;
	char word = 0;

	pair_open_unconnected(&pair, NULL);
	(void)listen_any(&pair.server, &qual);
	channel_send(fd, &qual, sizeof(qual));
	channel_recv(fd, &place, sizeof(place));
	pattern_fill(pair.client.memory, MESSAGES_EACH * SIZE, place.own);
	for (unsigned i = 0; i < MESSAGES_EACH; i++)
		post_recv(pair.server.ep, i, segment(&pair.server, i * SIZE, SIZE));
	ck_dat(try_connect(pair.client.ep, &pair.server, place.next, DAT_TIMEOUT_INFINITE));
	ck_dat(dat_cr_accept(expect_cr(&pair.server), pair.server.ep, 0, NULL));
	expect_established(&pair);
	for (unsigned i = 0; i < MESSAGES_EACH; i++)
		post_send(pair.client.ep, i, segment(&pair.client, i * SIZE, SIZE),
			  DAT_COMPLETION_DEFAULT_FLAG);
	for (unsigned i = 0; i < MESSAGES_EACH; i++) {
		expect_recv_done(&pair.server, i, SIZE);
		expect_request_done(&pair.client, i, SIZE);
	}
	pattern_check(pair.server.memory, MESSAGES_EACH * SIZE, place.previous);
	expect_quiet(&pair.client);
	expect_quiet(&pair.server);
	channel_send(fd, &word, sizeof(word));
	channel_recv(fd, &word, sizeof(word)); /* the others need this one no more */
	pair_close_abrupt(&pair);
}

/* All connect at once, and none in vain. */
START_TEST(many_processes_share_a_bad_wire)
{
	DAT_CONN_QUAL quals[PROCESSES];
	pid_t pids[PROCESSES];
	int fds[PROCESSES];
	char word;

	wire_set(bad_wires[COUNT(bad_wires) - 1].wire);
	for (unsigned i = 0; i < PROCESSES; i++)
		pids[i] = process_start(one_of_a_ring, &fds[i]);
	for (unsigned i = 0; i < PROCESSES; i++)
		channel_recv(fds[i], &quals[i], sizeof(quals[i]));
	for (unsigned i = 0; i < PROCESSES; i++) {
		const struct place place = { quals[(i + 1) % PROCESSES], i,
					     (i + PROCESSES - 1) % PROCESSES };

		channel_send(fds[i], &place, sizeof(place));
	}
	for (unsigned i = 0; i < PROCESSES; i++)
		channel_recv(fds[i], &word, sizeof(word));
	for (unsigned i = 0; i < PROCESSES; i++)
		channel_send(fds[i], &word, sizeof(word));
	for (unsigned i = 0; i < PROCESSES; i++)
		process_end(pids[i]);
	wire_heal();
}
END_TEST

/* ---- a wire that is cut ---- */

START_TEST(a_wire_that_heals_in_time_ends_nothing)
{
	struct pair pair;

	pair_open(&pair, NULL);
	pattern_fill(pair.client.memory, SIZE, 9);
	wire_cut();
	post_write(pair.client.ep, 1, segment(&pair.client, 0, SIZE), target(&pair.server, 0, SIZE),
		   DAT_COMPLETION_DEFAULT_FLAG);
	wire_set((struct wire){ .cut = BOTH, .until_dropped = 1 });
	wire_heal();
	expect_request_done(&pair.client, 1, SIZE);
	pattern_check(pair.server.memory, SIZE, 9);
	exchange_messages(&pair);
	pair_disconnect(&pair, DAT_CLOSE_GRACEFUL_FLAG);
	reuse_and_close(&pair);
}
END_TEST

START_TEST(requests_that_are_not_acknowledged_end_with_the_connection)
{
	struct pair pair;

	tcp_set("retries2", 1);
	pair_open(&pair, NULL);
	post_recvs_of_both(&pair);
	wire_cut();
	for (unsigned i = 0; i < 3; i++) {
		post_write(pair.client.ep, i, segment(&pair.client, 0, SIZE),
			   target(&pair.server, 0, SIZE), DAT_COMPLETION_DEFAULT_FLAG);
		post_write(pair.server.ep, i, segment(&pair.server, 0, SIZE),
			   target(&pair.client, SIZE, SIZE), DAT_COMPLETION_DEFAULT_FLAG);
	}
	expect_ends(&pair);
	for (unsigned i = 0; i < 3; i++) {
		expect_dto(pair.client.request_evd, pair.client.ep, i, DAT_DTO_ERR_FLUSHED, 0);
		expect_dto(pair.server.request_evd, pair.server.ep, i, DAT_DTO_ERR_FLUSHED, 0);
	}
	expect_recvs_of_both_flushed(&pair);
	tcp_set("retries2", 15);
	reuse_and_close(&pair);
}
END_TEST

/*
 * The peer's kernel has the request, so nothing is sent again; but the answer waits for a receive,
 * and the peer's host vanishes. Nor does a side hear that has nothing to send.
 */
START_TEST(a_peer_that_owes_an_answer_and_vanishes_is_noticed)
{
	struct pair pair;

	tcp_probe_soon();
	pair_open(&pair, NULL);
	post_send(pair.client.ep, 1, segment(&pair.client, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	post_read(pair.client.ep, 2, segment(&pair.client, 0, SIZE), target(&pair.server, 0, SIZE),
		  DAT_COMPLETION_DEFAULT_FLAG);
	post_write(pair.client.ep, 3, segment(&pair.client, 0, 8), target(&pair.server, 0, 8),
		   DAT_COMPLETION_DEFAULT_FLAG);
	expect_request_done(&pair.client, 1, 8);
	wait_until_sent();
	wire_cut();
	expect_dto(pair.client.request_evd, pair.client.ep, 2, DAT_DTO_ERR_FLUSHED, 0);
	expect_dto(pair.client.request_evd, pair.client.ep, 3, DAT_DTO_ERR_FLUSHED, 0);
	expect_ends(&pair);
	reuse_and_close(&pair);
}
END_TEST

/* DISCONNECTED comes at once to who asks for it, and to the peer when the wire has healed. */
static void expect_disconnect_over_cut(DAT_CLOSE_FLAGS flags)
{
	struct pair pair;

	pair_open(&pair, NULL);
	post_recvs_of_both(&pair);
	wire_cut();
	ck_dat(dat_ep_disconnect(pair.client.ep, flags));
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_flushed_recvs(&pair.client, 100, POSTED);
	expect_quiet(&pair.server);
	wire_heal();
	expect_end(&pair.server);
	expect_flushed_recvs(&pair.server, 100, POSTED);
	reuse_and_close(&pair);
}

START_TEST(a_disconnect_does_not_wait_for_a_cut_wire)
{
	expect_disconnect_over_cut(DAT_CLOSE_GRACEFUL_FLAG);
	expect_disconnect_over_cut(DAT_CLOSE_ABRUPT_FLAG);
}
END_TEST

/* Nobody at the peer knows the connection any more when the wire has healed. */
START_TEST(who_sends_on_a_half_open_connection_is_told)
{
	struct pair pair;

	pair_open(&pair, NULL);
	post_send(pair.server.ep, 1, segment(&pair.server, 0, SIZE), DAT_COMPLETION_DEFAULT_FLAG);
	expect_request_done(&pair.server, 1, SIZE);
	wait_until_sent();
	wire_cut();
	/* the client's kernel has bytes that were not read: it sends a reset, once */
	side_close_abrupt(&pair.client);
	wire_heal();
	post_write(pair.server.ep, 2, segment(&pair.server, 0, SIZE), target(&pair.server, 0, SIZE),
		   DAT_COMPLETION_DEFAULT_FLAG);
	expect_end(&pair.server);
	expect_dto(pair.server.request_evd, pair.server.ep, 2, DAT_DTO_ERR_FLUSHED, 0);
	ck_dat(dat_ep_reset(pair.server.ep));
	side_open(&pair.client, CLIENT);
	reuse_and_close(&pair);
}
END_TEST

START_TEST(an_ia_is_closed_over_a_cut_wire)
{
	struct pair pair;

	pair_open(&pair, NULL);
	wire_cut();
	post_recvs_of_both(&pair);
	post_write(pair.client.ep, 1, segment(&pair.client, 0, SIZE), target(&pair.server, 0, SIZE),
		   DAT_COMPLETION_DEFAULT_FLAG);
	side_close(&pair.client); /* the endpoint is connected */
	side_close_abrupt(&pair.server);
	wire_heal();
	pair_open(&pair, NULL);
	exchange_messages(&pair);
	pair_close(&pair);
}
END_TEST

/* ---- connections over a cut wire ---- */

START_TEST(an_attempt_over_a_cut_wire_ends)
{
	static const struct {
		DAT_TIMEOUT timeout; /* us */
		DAT_EVENT_NUMBER event;
	} attempts[] = {
		{ 200000, DAT_CONNECTION_EVENT_TIMED_OUT },
		{ DAT_TIMEOUT_INFINITE, DAT_CONNECTION_EVENT_UNREACHABLE },
	};
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;
	struct pair pair;

	tcp_set("syn_retries", 1);
	pair_open_unconnected(&pair, NULL);
	psp = listen_any(&pair.server, &qual);
	for (size_t i = 0; i < COUNT(attempts); i++) {
		wire_cut();
		post_recvs(&pair.client, 100, POSTED);
		ck_dat(try_connect(pair.client.ep, &pair.server, qual, attempts[i].timeout));
		expect_connection(&pair.client, attempts[i].event);
		expect_flushed_recvs(&pair.client, 100, POSTED);
		ck_dat(dat_ep_reset(pair.client.ep));
		wire_heal();
		connect_and_accept(&pair, qual);
		expect_established(&pair);
		exchange_messages(&pair);
		pair_disconnect(&pair, DAT_CLOSE_ABRUPT_FLAG);
		pair_reset(&pair);
	}
	ck_dat(dat_psp_free(psp));
	reuse_and_close(&pair);
}
END_TEST

/* The peer's kernel has the request, and nobody answers it. The attempt has no time-out. */
START_TEST(an_attempt_whose_peer_vanishes_ends)
{
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;
	DAT_CR_HANDLE cr;
	struct pair pair;

	tcp_probe_soon();
	pair_open_unconnected(&pair, NULL);
	psp = listen_any(&pair.server, &qual);
	post_recvs(&pair.client, 100, POSTED);
	ck_dat(try_connect(pair.client.ep, &pair.server, qual, DAT_TIMEOUT_INFINITE));
	cr = expect_cr(&pair.server);
	wait_until_sent();
	wire_cut();
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_UNREACHABLE);
	expect_flushed_recvs(&pair.client, 100, POSTED);
	wire_heal();
	ck_dat(CR_REJECT(cr));
	ck_dat(dat_psp_free(psp));
	reuse_and_close(&pair);
}
END_TEST

/* The client gives up, which the server learns when the wire has healed. */
START_TEST(an_accept_that_is_lost_ends_at_both_sides)
{
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;
	DAT_CR_HANDLE cr;
	struct pair pair;

	pair_open_unconnected(&pair, NULL);
	psp = listen_any(&pair.server, &qual);
	post_recvs_of_both(&pair);
	ck_dat(try_connect(pair.client.ep, &pair.server, qual, 500000));
	cr = expect_cr(&pair.server);
	wire_cut();
	ck_dat(dat_cr_accept(cr, pair.server.ep, 0, NULL));
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_TIMED_OUT);
	expect_connection(&pair.server, DAT_CONNECTION_EVENT_ESTABLISHED);
	wire_heal();
	expect_end(&pair.server);
	expect_recvs_of_both_flushed(&pair);
	ck_dat(dat_psp_free(psp));
	reuse_and_close(&pair);
}
END_TEST

/* ---- resets ---- */

START_TEST(a_reset_ends_a_connection_at_both_sides)
{
	struct pair pair;

	tcp_probe_soon();
	pair_open(&pair, NULL);
	post_recvs_of_both(&pair);
	wire_set((struct wire){ .reset = 1 });
	for (unsigned i = 0; i < 3; i++)
		post_write(pair.client.ep, i, segment(&pair.client, 0, SIZE),
			   target(&pair.server, 0, SIZE), DAT_COMPLETION_DEFAULT_FLAG);
	expect_ends(&pair);
	for (unsigned i = 0; i < 3; i++)
		expect_dto(pair.client.request_evd, pair.client.ep, i, DAT_DTO_ERR_FLUSHED, 0);
	expect_recvs_of_both_flushed(&pair);
	reuse_and_close(&pair);
}
END_TEST

int main(int argc, char **argv)
{
	const struct device_case cases[] = {
		{ a_slow_reader_gets_every_message, NEEDS_NOTHING },
		{ many_processes_share_a_bad_wire, NEEDS_NOTHING },
		{ a_wire_that_heals_in_time_ends_nothing, NEEDS_NOTHING },
		{ requests_that_are_not_acknowledged_end_with_the_connection, NEEDS_NOTHING },
		{ a_peer_that_owes_an_answer_and_vanishes_is_noticed, NEEDS_NOTHING },
		{ a_disconnect_does_not_wait_for_a_cut_wire, NEEDS_NOTHING },
		{ who_sends_on_a_half_open_connection_is_told, NEEDS_NOTHING },
		{ an_ia_is_closed_over_a_cut_wire, NEEDS_NOTHING },
		{ an_attempt_over_a_cut_wire_ends, NEEDS_NOTHING },
		{ an_attempt_whose_peer_vanishes_ends, NEEDS_NOTHING },
		{ an_accept_that_is_lost_ends_at_both_sides, NEEDS_NOTHING },
		{ a_reset_ends_a_connection_at_both_sides, NEEDS_NOTHING },
	};
	TCase *tcase;

	if (!device_choose())
		skip_all_cases("no wire here: test/func/on-wire runs this where there is one");
	device_preload();
	tcase = tcase_create("wire");
	tcase_add_checked_fixture(tcase, wire_heal, NULL);
	tcase_add_loop_test(tcase, no_wire_changes_what_is_transferred, 0, COUNT(bad_wires));
	add_device_cases(tcase, cases, COUNT(cases));
	return run_cases(argc, argv);
}
