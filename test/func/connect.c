/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections: requests, private data, addresses, and every way in which an attempt fails. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../consumer/consumer.h"

#define TOO_MUCH 4096 /* bytes of private data, more than any transport carries */

static DAT_COUNT private_data_limit(const struct side *side)
{
	const DAT_COUNT limit = side->provider.max_private_data_size;

	ck_assert_int_ge(limit, 32);
	ck_assert_int_lt(limit, TOO_MUCH);
	return limit;
}

/* @size bytes were sent; a transport that does not carry the size pads them with zeroes. */
static void private_data_check(const void *data, DAT_COUNT got, DAT_COUNT size, DAT_COUNT padded,
			       unsigned seed)
{
	ck_assert_int_eq(got, padded ? padded : size);
	if (got)
		pattern_check(data, (size_t)size, seed);
	if (got > size)
		bytes_check((const char *)data + size, (size_t)(got - size), 0);
}

static void private_data_exchange(struct pair *pair, DAT_CONN_QUAL qual, DAT_COUNT size)
{
	DAT_CONNECTION_EVENT_DATA *data;
	char out[TOO_MUCH];
	DAT_CR_PARAM request;
	DAT_CR_HANDLE cr;
	DAT_EVENT event;

	pattern_fill(out, sizeof(out), 1);
	ck_dat(dat_ep_connect(pair->client.ep, (DAT_IA_ADDRESS_PTR)&pair->server.address, qual,
			      TIME_LIMIT, size, size ? out : NULL, DAT_QOS_BEST_EFFORT,
			      DAT_CONNECT_DEFAULT_FLAG));
	memset(out, 0, sizeof(out));
	cr = expect_cr(&pair->server);
	ck_dat(dat_cr_query(cr, DAT_CR_FIELD_ALL, &request));
	private_data_check(request.private_data, request.private_data_size, size,
			   device()->request_padded, 1);
	ck_assert_ptr_null(request.local_ep_handle);

	pattern_fill(out, sizeof(out), 2);
	/* a refused accept leaves the request pending */
	ck_dat_is(dat_cr_accept(cr, pair->server.ep, TOO_MUCH, out), BAD_ARG(3));
	ck_dat(dat_cr_accept(cr, pair->server.ep, size, size ? out : NULL));
	memset(out, 0, sizeof(out));
	event = expect_connection(&pair->client, DAT_CONNECTION_EVENT_ESTABLISHED);
	data = &event.event_data.connect_event_data;
	private_data_check(data->private_data, data->private_data_size, size,
			   device()->reply_padded, 2);
	event = expect_connection(&pair->server, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_assert_ptr_null(event.event_data.connect_event_data.private_data);
	ck_assert_int_eq(event.event_data.connect_event_data.private_data_size, 0);
}

START_TEST(private_data_of_any_size_arrives)
{
	char out[TOO_MUCH] = { 0 };
	struct pair pair;
	DAT_CONN_QUAL qual;
	DAT_COUNT limit;

	pair_open_unconnected(&pair, NULL);
	limit = private_data_limit(&pair.client);
	listen_any(&pair.server, &qual);
	ck_dat_is(dat_ep_connect(pair.client.ep, (DAT_IA_ADDRESS_PTR)&pair.server.address, qual,
				 TIME_LIMIT, limit + 1, out, DAT_QOS_BEST_EFFORT,
				 DAT_CONNECT_DEFAULT_FLAG),
		  BAD_ARG(5));
	private_data_exchange(&pair, qual, 0);
	pair_disconnect(&pair, DAT_CLOSE_ABRUPT_FLAG);
	pair_reset(&pair);
	private_data_exchange(&pair, qual, 1);
	pair_disconnect(&pair, DAT_CLOSE_ABRUPT_FLAG);
	pair_reset(&pair);
	private_data_exchange(&pair, qual, limit);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(reject_flushes_receives)
{
	struct pair pair;
	DAT_CONN_QUAL qual;
	DAT_CR_HANDLE cr;

	pair_open_unconnected(&pair, NULL);
	post_recv(pair.client.ep, 1, segment(&pair.client, 0, 100));
	post_recv(pair.client.ep, 2, segment(&pair.client, 0, 100));
	listen_any(&pair.server, &qual);
	ck_dat(try_connect(pair.client.ep, &pair.server, qual, TIME_LIMIT));
	cr = expect_cr(&pair.server);
	ck_dat(CR_REJECT(cr));
	ck_dat_is(CR_REJECT(cr), BAD_HANDLE(CR));
	ck_dat_is(dat_cr_accept(cr, pair.server.ep, 0, NULL), BAD_HANDLE(CR));
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_PEER_REJECTED);
	ck_assert_int_eq(ep_get_state(pair.client.ep), DAT_EP_STATE_DISCONNECTED);
	expect_dto(pair.client.recv_evd, pair.client.ep, 1, DAT_DTO_ERR_FLUSHED, 0);
	expect_dto(pair.client.recv_evd, pair.client.ep, 2, DAT_DTO_ERR_FLUSHED, 0);
	/* both endpoints can connect again */
	ck_dat(dat_ep_reset(pair.client.ep));
	ck_assert_int_eq(ep_get_state(pair.server.ep), DAT_EP_STATE_UNCONNECTED);
	pair_connect(&pair);
	exchange_messages(&pair);
	expect_no_event(pair.client.recv_evd);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(refused_endpoint_connects_again)
{
	struct pair pair;

	pair_open_unconnected(&pair, NULL);
	ck_dat(try_connect(pair.client.ep, &pair.server, free_qual(&pair.server), TIME_LIMIT));
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	ck_assert_int_eq(ep_get_state(pair.client.ep), DAT_EP_STATE_DISCONNECTED);
	ck_dat(dat_ep_reset(pair.client.ep));
	pair_connect(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(connect_times_out_without_an_accept)
{
	struct pair pair;
	DAT_CONN_QUAL qual;
	DAT_CR_HANDLE cr;

	pair_open_unconnected(&pair, NULL);
	post_recv(pair.server.ep, 1, segment(&pair.server, 0, 100));
	listen_any(&pair.server, &qual);
	ck_dat_is(try_connect(pair.client.ep, &pair.server, qual, 0), BAD_ARG(4));
	cr = request_given_up(&pair, qual);
	ck_assert_int_eq(ep_get_state(pair.client.ep), DAT_EP_STATE_DISCONNECTED);
	/* the server learns only after the call that it is too late */
	accept_given_up(&pair.server, cr);
	expect_dto(pair.server.recv_evd, pair.server.ep, 1, DAT_DTO_ERR_FLUSHED, 0);
	pair_reset(&pair);
	expect_no_event(pair.client.connect_evd);
	pair_connect(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

/* By the status of the call, or by an event. */
static void expect_unreachable(struct side *side, const char *address)
{
	struct side nowhere = *side;
	DAT_RETURN ret;

	inet_pton(AF_INET, address, &nowhere.address.sin_addr);
	ret = try_connect(side->ep, &nowhere, 5555, DAT_TIMEOUT_INFINITE);
	if (ret == DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE)) {
		ck_assert_int_eq(ep_get_state(side->ep), DAT_EP_STATE_UNCONNECTED);
		return;
	}
	ck_dat(ret);
	expect_connection(side, DAT_CONNECTION_EVENT_UNREACHABLE);
	ck_dat(dat_ep_reset(side->ep));
}

static void side_open_impatient(struct side *side)
{
	setenv("DAPL_CM_ARP_TIMEOUT_MS", "200", 1);
	setenv("DAPL_CM_ARP_RETRY_COUNT", "2", 1);
	side_open_bare(side, CLIENT);
	side->ep = side_create_ep(side, NULL);
}

START_TEST(address_without_a_route_is_unreachable)
{
	struct side side;

	side_open_impatient(&side);
	expect_unreachable(&side, "192.0.2.1");
	side_close_abrupt(&side);
}
END_TEST

/* In the network of the device. */
START_TEST(unused_address_is_unreachable)
{
	struct side side;

	side_open_impatient(&side);
	expect_unreachable(&side, "10.77.0.77");
	side_close_abrupt(&side);
}
END_TEST

START_TEST(requests_are_accepted_in_any_order)
{
	DAT_EP_HANDLE client_eps[2], server_eps[2];
	DAT_CR_PARAM request;
	DAT_CR_HANDLE cr[2];
	DAT_CONN_QUAL qual;
	struct pair pair;
	char tag;

	pair_open_unconnected(&pair, NULL);
	listen_any(&pair.server, &qual);
	for (int i = 0; i < 2; i++) {
		client_eps[i] = side_create_ep(&pair.client, NULL);
		server_eps[i] = side_create_ep(&pair.server, NULL);
		tag = (char)('a' + i);
		ck_dat(dat_ep_connect(client_eps[i], (DAT_IA_ADDRESS_PTR)&pair.server.address, qual,
				      TIME_LIMIT, 1, &tag, DAT_QOS_BEST_EFFORT,
				      DAT_CONNECT_DEFAULT_FLAG));
	}
	for (int i = 0; i < 2; i++) {
		DAT_CR_HANDLE came = expect_cr(&pair.server);

		ck_dat(dat_cr_query(came, DAT_CR_FIELD_ALL, &request));
		cr[((char *)request.private_data)[0] - 'a'] = came;
	}
	for (int i = 1; i >= 0; i--) {
		ck_dat(dat_cr_accept(cr[i], server_eps[i], 0, NULL));
		expect_connection_of(&pair.client, client_eps[i], DAT_CONNECTION_EVENT_ESTABLISHED);
		expect_connection_of(&pair.server, server_eps[i], DAT_CONNECTION_EVENT_ESTABLISHED);
		pair.client.ep = client_eps[i];
		pair.server.ep = server_eps[i];
		exchange_messages(&pair);
	}
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(request_is_accepted_once)
{
	DAT_EP_HANDLE second;
	DAT_CONN_QUAL qual;
	DAT_CR_HANDLE cr;
	struct pair pair;

	pair_open_unconnected(&pair, NULL);
	second = side_create_ep(&pair.client, NULL);
	listen_any(&pair.server, &qual);
	ck_dat(try_connect(pair.client.ep, &pair.server, qual, TIME_LIMIT));
	cr = expect_cr(&pair.server);
	ck_dat(dat_cr_accept(cr, pair.server.ep, 0, NULL));
	ck_dat_is(dat_cr_accept(cr, pair.server.ep, 0, NULL), BAD_HANDLE(CR));
	expect_established(&pair);
	/* an endpoint has one connection; the request stays pending */
	ck_dat(try_connect(second, &pair.server, qual, TIME_LIMIT));
	cr = expect_cr(&pair.server);
	ck_dat_is(dat_cr_accept(cr, pair.server.ep, 0, NULL), BAD_STATE(EP_CONNECTED));
	ck_dat_is(dat_cr_accept(cr, DAT_HANDLE_NULL, 0, NULL), BAD_HANDLE(EP));
	ck_dat(CR_REJECT(cr));
	expect_connection_of(&pair.client, second, DAT_CONNECTION_EVENT_PEER_REJECTED);
	ck_dat_is(try_connect(pair.client.ep, &pair.server, qual, TIME_LIMIT),
		  BAD_STATE(EP_CONNECTED));
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

#define LARGE_QUAL ((DAT_CONN_QUAL)0xafff9b6)
#define ITS_PORT   (LARGE_QUAL % 32001 + 33534) /* 63534: the system gives it to no connection */

START_TEST(qualifier_may_exceed_16_bits)
{
	DAT_PSP_HANDLE psp, other;
	DAT_PSP_PARAM param;
	struct pair pair;
	DAT_EVENT event;

	pair_open_unconnected(&pair, NULL);
	ck_dat(dat_psp_create(pair.server.ia, LARGE_QUAL, pair.server.cr_evd, DAT_PSP_CONSUMER_FLAG,
			      &psp));
	ck_dat(dat_psp_query(psp, DAT_PSP_FIELD_ALL, &param));
	ck_assert_uint_eq(param.conn_qual, LARGE_QUAL);
	/* both have the same port */
	ck_dat_is(dat_psp_create(pair.server.ia, ITS_PORT, pair.server.cr_evd,
				 DAT_PSP_CONSUMER_FLAG, &other),
		  DAT_ERROR(DAT_CONN_QUAL_IN_USE, DAT_NO_SUBTYPE));
	ck_dat(try_connect(pair.client.ep, &pair.server, LARGE_QUAL, TIME_LIMIT));
	event = expect_event(pair.server.cr_evd, DAT_CONNECTION_REQUEST_EVENT);
	ck_assert_uint_eq(event.event_data.cr_arrival_event_data.conn_qual, LARGE_QUAL);
	ck_assert_ptr_eq(event.event_data.cr_arrival_event_data.sp_handle.psp_handle, psp);
	ck_dat(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, pair.server.ep, 0,
			     NULL));
	expect_established(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

static void listen_in_process(int fd)
{
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;
	struct side side;
	char word;

	side_open_bare(&side, SERVER);
	qual = free_qual(&side);
	ck_dat(dat_psp_create(side.ia, qual, side.cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	channel_send(fd, &qual, sizeof(qual));
	channel_recv(fd, &word, 1);
	ck_dat(dat_psp_free(psp));
	channel_send(fd, "f", 1);
	channel_recv(fd, &word, 1);
	side_close_abrupt(&side);
}

START_TEST(qualifier_is_taken_by_one_process)
{
	const DAT_RETURN busy = DAT_ERROR(DAT_CONN_QUAL_IN_USE, DAT_NO_SUBTYPE);
	DAT_PSP_HANDLE psp, other;
	struct side side, same;
	DAT_CONN_QUAL qual;
	char word;
	pid_t pid;
	int fd;

	pid = process_start(listen_in_process, &fd);
	channel_recv(fd, &qual, sizeof(qual));
	side_open_bare(&side, SERVER);
	side_open_bare(&same, SERVER);
	ck_dat_is(dat_psp_create(side.ia, qual, side.cr_evd, DAT_PSP_CONSUMER_FLAG, &psp), busy);
	channel_send(fd, "f", 1);
	channel_recv(fd, &word, 1);
	/* it is free at once */
	ck_dat(dat_psp_create(side.ia, qual, side.cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	ck_dat_is(dat_psp_create(side.ia, qual, side.cr_evd, DAT_PSP_CONSUMER_FLAG, &other), busy);
	ck_dat_is(dat_psp_create(same.ia, qual, same.cr_evd, DAT_PSP_CONSUMER_FLAG, &other), busy);
	ck_dat(dat_psp_free(psp));
	ck_dat(dat_psp_create(same.ia, qual, same.cr_evd, DAT_PSP_CONSUMER_FLAG, &other));
	channel_send(fd, "e", 1);
	process_end(pid);
	side_close_abrupt(&side);
	side_close_abrupt(&same);
}
END_TEST

/* Connected, and then killed with everything open. Qualifier 0 stands for any. */
static void serve_until_killed(int fd)
{
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;
	struct side side;

	side_open(&side, SERVER);
	channel_recv(fd, &qual, sizeof(qual));
	if (!qual)
		qual = free_qual(&side);
	ck_dat(dat_psp_create(side.ia, qual, side.cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	channel_send(fd, &qual, sizeof(qual));
	ck_dat(dat_cr_accept(expect_cr(&side), side.ep, 0, NULL));
	expect_connection(&side, DAT_CONNECTION_EVENT_ESTABLISHED);
	channel_send(fd, "c", 1);
	pause();
}

static void connect_until_killed(int fd)
{
	struct side side, listener;
	DAT_CONN_QUAL qual;

	side_open_bare(&listener, SERVER); /* for its address */
	side_open(&side, CLIENT);
	channel_recv(fd, &qual, sizeof(qual));
	ck_dat(try_connect(side.ep, &listener, qual, TIME_LIMIT));
	expect_connection(&side, DAT_CONNECTION_EVENT_ESTABLISHED);
	channel_send(fd, "c", 1);
	pause();
}

START_TEST(qualifier_of_killed_processes_is_free_at_once)
{
	DAT_CONN_QUAL qual = 0; /* then that of the first round */

	for (int round = 0; round < 3; round++) {
		int to_server, to_client;
		const pid_t server = process_start(serve_until_killed, &to_server);
		const pid_t client = process_start(connect_until_killed, &to_client);
		char word;

		channel_send(to_server, &qual, sizeof(qual));
		channel_recv(to_server, &qual, sizeof(qual));
		channel_send(to_client, &qual, sizeof(qual));
		channel_recv(to_server, &word, 1);
		channel_recv(to_client, &word, 1);
		kill(server, SIGKILL);
		kill(client, SIGKILL);
		ck_assert_int_eq(waitpid(server, NULL, 0), server);
		ck_assert_int_eq(waitpid(client, NULL, 0), client);
		close(to_server);
		close(to_client);
	}
}
END_TEST

START_TEST(chosen_qualifier_fits_16_bits)
{
	DAT_CONN_QUAL qual[3];
	DAT_PSP_PARAM param;
	DAT_PSP_HANDLE psp;
	struct side side;

	side_open_bare(&side, SERVER);
	for (size_t i = 0; i < COUNT(qual); i++) {
		psp = listen_any(&side, &qual[i]);
		ck_assert_uint_ge(qual[i], 1024);
		ck_assert_uint_le(qual[i], UINT16_MAX);
		ck_dat(dat_psp_query(psp, DAT_PSP_FIELD_ALL, &param));
		ck_assert_uint_eq(param.conn_qual, qual[i]);
		for (size_t j = 0; j < i; j++)
			ck_assert_uint_ne(qual[i], qual[j]);
	}
	side_close_abrupt(&side);
}
END_TEST

/* What a test chooses itself, so that its own connections do not take it. */
START_TEST(free_qualifiers_are_none_of_the_systems)
{
	FILE *range = fopen("/proc/sys/net/ipv4/ip_local_port_range", "r");
	DAT_CONN_QUAL before = 0, qual;
	unsigned first, last;
	struct side side;

	ck_assert_ptr_nonnull(range);
	ck_assert_int_eq(fscanf(range, "%u %u", &first, &last), 2);
	fclose(range);
	side_open_bare(&side, SERVER);
	for (int i = 0; i < 3; i++) {
		qual = free_qual(&side);
		ck_assert(qual < first || qual > last);
		ck_assert_uint_ne(qual, before);
		before = qual;
	}
	side_close_abrupt(&side);
}
END_TEST

START_TEST(service_point_needs_a_request_evd)
{
	DAT_PSP_HANDLE psp = (DAT_PSP_HANDLE)1;
	DAT_CONN_QUAL qual;
	struct side side;

	side_open_bare(&side, SERVER);
	ck_dat_is(dat_psp_create(side.ia, 5555, side.connect_evd, DAT_PSP_CONSUMER_FLAG, &psp),
		  BAD_HANDLE(EVD_CR));
	ck_dat_is(dat_psp_create(side.ia, 0, side.cr_evd, DAT_PSP_CONSUMER_FLAG, &psp), BAD_ARG(2));
	ck_dat_is(dat_psp_create(side.ia, 5555, side.cr_evd, (DAT_PSP_FLAGS)2, &psp), BAD_ARG(4));
	ck_dat_is(dat_psp_create_any(side.ia, NULL, side.cr_evd, DAT_PSP_CONSUMER_FLAG, &psp),
		  BAD_ARG(2));
	ck_assert_ptr_eq(psp, (DAT_PSP_HANDLE)1);
	psp = listen_any(&side, &qual);
	ck_dat_is(dat_evd_free(side.cr_evd), BAD_STATE(EVD_IN_USE));
	ck_dat(dat_psp_free(psp));
	ck_dat_is(dat_psp_free(psp), BAD_HANDLE(PSP));
	ck_dat(dat_evd_free(side.cr_evd));
	side_close_abrupt(&side);
}
END_TEST

START_TEST(request_outlives_its_service_point)
{
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;
	DAT_CR_HANDLE cr;
	struct pair pair;

	pair_open_unconnected(&pair, NULL);
	psp = listen_any(&pair.server, &qual);
	ck_dat(try_connect(pair.client.ep, &pair.server, qual, TIME_LIMIT));
	cr = expect_cr(&pair.server);
	ck_dat(dat_psp_free(psp));
	ck_dat(dat_cr_accept(cr, pair.server.ep, 0, NULL));
	expect_established(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

/* An IA connects to itself, whatever kind of name it is opened by. */
START_TEST(every_name_connects_to_itself)
{
	for (int by = BY_INTERFACE; by < NAMINGS; by++) {
		struct pair pair;

		if (!ia_name(SERVER, (enum naming)by))
			continue;
		side_open_bare_as(&pair.client, ia_name(SERVER, (enum naming)by), false);
		memcpy(&pair.server, &pair.client, sizeof(pair.server));
		ck_dat(dat_evd_create(pair.server.ia, SIDE_QLEN, DAT_HANDLE_NULL,
				      DAT_EVD_CONNECTION_FLAG, &pair.server.connect_evd));
		pair.client.ep = side_create_ep(&pair.client, NULL);
		pair.server.ep = side_create_ep(&pair.server, NULL);
		pair_connect(&pair);
		exchange_messages(&pair);
		side_close_abrupt(&pair.client);
	}
	/* every device has these names */
	ck_assert_ptr_nonnull(ia_name(SERVER, BY_INTERFACE));
	ck_assert_ptr_nonnull(ia_name(SERVER, BY_ADDRESS));
	if (device_has(NEEDS_RDMA_DEVICE))
		ck_assert_ptr_nonnull(ia_name(SERVER, BY_DEVICE));
}
END_TEST

/* The client sends at once; the server takes the completion before its ESTABLISHED event. */
START_TEST(message_is_received_before_established)
{
	DAT_CONN_QUAL qual;
	struct pair pair;

	pair_open_unconnected(&pair, NULL);
	pattern_fill(pair.client.memory, 100, 1);
	post_recv(pair.server.ep, 1, segment(&pair.server, 0, 100));
	listen_any(&pair.server, &qual);
	connect_and_accept(&pair, qual);
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_ESTABLISHED);
	post_send(pair.client.ep, 2, segment(&pair.client, 0, 100), DAT_COMPLETION_DEFAULT_FLAG);
	expect_recv_done(&pair.server, 1, 100);
	pattern_check(pair.server.memory, 100, 1);
	expect_connection(&pair.server, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_request_done(&pair.client, 2, 100);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

static void expect_host(const void *address, const struct sockaddr_in *host)
{
	const struct sockaddr_in *in = address;

	ck_assert_int_eq(in->sin_family, AF_INET);
	ck_assert_uint_eq(in->sin_addr.s_addr, host->sin_addr.s_addr);
}

START_TEST(connection_has_both_addresses)
{
	DAT_EP_PARAM client, server;
	struct pair pair;

	pair_open(&pair, NULL);
	ck_dat(dat_ep_query(pair.client.ep, DAT_EP_FIELD_ALL, &client));
	ck_dat(dat_ep_query(pair.server.ep, DAT_EP_FIELD_ALL, &server));
	expect_host(client.local_ia_address_ptr, &pair.client.address);
	expect_host(client.remote_ia_address_ptr, &pair.server.address);
	expect_host(server.local_ia_address_ptr, &pair.server.address);
	expect_host(server.remote_ia_address_ptr, &pair.client.address);
	ck_assert_uint_ne(client.remote_port_qual, 0);
	ck_assert_uint_eq(client.remote_port_qual, server.local_port_qual);
	ck_assert_uint_eq(client.local_port_qual, server.remote_port_qual);
	ck_assert_int_eq(client.ep_state, DAT_EP_STATE_CONNECTED);
	ck_assert_ptr_eq(client.ia_handle, pair.client.ia);
	pair_close_abrupt(&pair);
}
END_TEST

#define MAX_EPS 64

START_TEST(many_endpoints_connect_at_once)
{
	DAT_EP_HANDLE client_eps[MAX_EPS];
	const int n = (int)device()->max_eps;
	struct pair pair;
	DAT_CONN_QUAL qual;

	ck_assert_int_le(n, MAX_EPS);
	pair_open_unconnected(&pair, NULL);
	listen_any(&pair.server, &qual);
	for (int i = 0; i < n; i++) {
		client_eps[i] = side_create_ep(&pair.client, NULL);
		ck_dat(try_connect(client_eps[i], &pair.server, qual, TIME_LIMIT));
	}
	for (int i = 0; i < n; i++)
		ck_dat(dat_cr_accept(expect_cr(&pair.server), side_create_ep(&pair.server, NULL), 0,
				     NULL));
	for (int i = 0; i < n; i++) {
		expect_event(pair.server.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
		expect_event(pair.client.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	}
	for (int i = 0; i < n; i++)
		ck_assert_int_eq(ep_get_state(client_eps[i]), DAT_EP_STATE_CONNECTED);
	pair_close_abrupt(&pair);
}
END_TEST

/* A request that finds no room in the queue is refused, which is not a reject by the consumer. */
START_TEST(requests_of_a_large_job_are_answered)
{
	const int n = (int)(device()->max_requests ? device()->max_requests : device()->max_eps);
	DAT_CONN_QUAL qual;
	struct pair pair;

	descriptors_allow_all();
	side_open_bare(&pair.server, SERVER);
	side_open_bare(&pair.client, CLIENT);
	pair.server.cr_evd = side_create_evd(&pair.server, n, DAT_EVD_CR_FLAG);
	pair.client.connect_evd = side_create_evd(&pair.client, n, DAT_EVD_CONNECTION_FLAG);
	pair.server.connect_evd = side_create_evd(&pair.server, n, DAT_EVD_CONNECTION_FLAG);
	pair.client.memory = pair.server.memory = NULL;
	listen_any(&pair.server, &qual);
	for (int i = 0; i < n; i++)
		ck_dat(try_connect(side_create_ep(&pair.client, NULL), &pair.server, qual,
				   TIME_LIMIT));
	for (int i = 0; i < n; i++) {
		DAT_CR_HANDLE cr = expect_cr(&pair.server);

		if (i % 10)
			ck_dat(CR_REJECT(cr));
		else
			ck_dat(dat_cr_accept(cr, side_create_ep(&pair.server, NULL), 0, NULL));
	}
	for (int i = 0, accepted = 0; i < n; i++) {
		DAT_EVENT event;
		DAT_COUNT nmore;

		ck_dat(dat_evd_wait(pair.client.connect_evd, TIME_LIMIT, 1, &event, &nmore));
		accepted += event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED;
		if (event.event_number != DAT_CONNECTION_EVENT_ESTABLISHED)
			ck_assert_int_eq(event.event_number, DAT_CONNECTION_EVENT_PEER_REJECTED);
		if (i == n - 1)
			ck_assert_int_eq(accepted, (n + 9) / 10);
	}
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(request_beyond_the_queue_is_not_accepted)
{
	DAT_EVD_PARAM queue;
	DAT_CONN_QUAL qual;
	struct pair pair;

	pair_open_unconnected(&pair, NULL);
	ck_dat(dat_evd_free(pair.server.cr_evd));
	ck_dat(dat_evd_create(pair.server.ia, 2, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG,
			      &pair.server.cr_evd));
	/* the queue may be longer than asked */
	ck_dat(dat_evd_query(pair.server.cr_evd, DAT_EVD_FIELD_ALL, &queue));
	listen_any(&pair.server, &qual);
	for (int i = 0; i < queue.evd_qlen + 1; i++)
		ck_dat(try_connect(side_create_ep(&pair.client, NULL), &pair.server, qual,
				   TIME_LIMIT));
	expect_event(pair.client.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	for (int i = 0; i < queue.evd_qlen; i++) {
		ck_dat(dat_cr_accept(expect_cr(&pair.server), side_create_ep(&pair.server, NULL), 0,
				     NULL));
		expect_event(pair.server.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
		expect_event(pair.client.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	}
	expect_no_event(pair.server.cr_evd);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(invalid_connect_is_refused)
{
	struct sockaddr_in group = { .sin_family = AF_INET };
	struct pair pair;
	DAT_EP_HANDLE ep;

	pair_open_unconnected(&pair, NULL);
	inet_pton(AF_INET, "224.0.0.1", &group.sin_addr);
	ep = pair.client.ep;
#define CONNECT(ep, address, qual, qos, flags)                                                     \
	dat_ep_connect(ep, (DAT_IA_ADDRESS_PTR)(address), qual, TIME_LIMIT, 0, NULL, qos,          \
		       (DAT_CONNECT_FLAGS)(flags))
	ck_dat_is(CONNECT(ep, NULL, 5555, DAT_QOS_BEST_EFFORT, 0), BAD_ARG(2));
	ck_dat_is(CONNECT(ep, &pair.server.address, 0, DAT_QOS_BEST_EFFORT, 0), BAD_ARG(3));
	ck_dat_is(CONNECT(ep, &pair.server.address, 5555, DAT_QOS_BEST_EFFORT, OF_EDITION(2, 4)),
		  BAD_ARG(8));
	ck_dat_is(CONNECT(ep, &pair.server.address, 5555, DAT_QOS_PREMIUM, 0),
		  DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE));
	ck_dat_is(CONNECT(ep, &pair.server.address, 5555, DAT_QOS_BEST_EFFORT,
			  OF_EDITION(1, 2)), /* several paths, which in DAT 2.0 may be a wish */
		  DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE));
	ck_dat_is(CONNECT(ep, &group, 5555, DAT_QOS_BEST_EFFORT, 0),
		  DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED));
	group.sin_family = 77;
	ck_dat_is(CONNECT(ep, &group, 5555, DAT_QOS_BEST_EFFORT, 0),
		  DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED));
	ck_dat(dat_ep_create(pair.client.ia, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
			     pair.client.connect_evd, NULL, &ep));
	ck_dat_is(CONNECT(ep, &pair.server.address, 5555, DAT_QOS_BEST_EFFORT, 0),
		  BAD_STATE(EP_NOTREADY));
	ck_dat(dat_ep_create(pair.client.ia, pair.client.pz, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
			     DAT_HANDLE_NULL, NULL, &ep));
	ck_dat_is(CONNECT(ep, &pair.server.address, 5555, DAT_QOS_BEST_EFFORT, 0),
		  BAD_HANDLE(EVD_CONN));
#undef CONNECT
	ck_assert_int_eq(ep_get_state(pair.client.ep), DAT_EP_STATE_UNCONNECTED);
	pair_connect(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

int main(int argc, char **argv)
{
	const struct device_case cases[] = {
		{ private_data_of_any_size_arrives, NEEDS_NOTHING },
		{ reject_flushes_receives, NEEDS_NOTHING },
		{ refused_endpoint_connects_again, NEEDS_NOTHING },
		{ connect_times_out_without_an_accept, NEEDS_NOTHING },
		{ address_without_a_route_is_unreachable, NEEDS_NOTHING },
		{ unused_address_is_unreachable, NEEDS_FREE_ADDRESSES },
		{ requests_are_accepted_in_any_order, NEEDS_NOTHING },
		{ request_is_accepted_once, NEEDS_NOTHING },
		{ qualifier_may_exceed_16_bits, NEEDS_NOTHING },
		{ qualifier_is_taken_by_one_process, NEEDS_NOTHING },
		{ qualifier_of_killed_processes_is_free_at_once, NEEDS_NOTHING },
		{ chosen_qualifier_fits_16_bits, NEEDS_NOTHING },
		{ free_qualifiers_are_none_of_the_systems, NEEDS_NOTHING },
		{ service_point_needs_a_request_evd, NEEDS_NOTHING },
		{ request_outlives_its_service_point, NEEDS_NOTHING },
		{ every_name_connects_to_itself, NEEDS_NOTHING },
		{ message_is_received_before_established, NEEDS_NOTHING },
		{ connection_has_both_addresses, NEEDS_NOTHING },
		{ many_endpoints_connect_at_once, NEEDS_NOTHING },
		{ requests_of_a_large_job_are_answered, NEEDS_NOTHING },
		{ request_beyond_the_queue_is_not_accepted, NEEDS_NOTHING },
		{ invalid_connect_is_refused, NEEDS_NOTHING },
	};

	return run_on_device(argc, argv, cases, COUNT(cases));
}
