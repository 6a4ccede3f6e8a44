/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Service points that bring an endpoint, reserved or made by the provider; the handoff; endpoints
 * that are modified, and connections that are copied.
 */
#include <string.h>
#include <unistd.h>

#include "../consumer/consumer.h"

static DAT_RSP_HANDLE rsp_listen(const struct side *side, DAT_CONN_QUAL qual, DAT_EP_HANDLE ep)
{
	DAT_RSP_HANDLE rsp;

	ck_dat(dat_rsp_create(side->ia, qual, ep, side->cr_evd, &rsp));
	return rsp;
}

static void connect_to(const struct pair *pair, DAT_EP_HANDLE ep, DAT_CONN_QUAL qual)
{
	ck_dat(try_connect(ep, &pair->server, qual, TIME_LIMIT));
}

START_TEST(reserved_endpoint_takes_one_connection)
{
	struct pair pair;
	DAT_CONN_QUAL qual;
	DAT_EP_HANDLE second;
	DAT_RSP_HANDLE rsp;
	DAT_CR_PARAM param;
	DAT_CR_HANDLE cr;

	pair_open_unconnected(&pair, NULL);
	qual = free_qual(&pair.server);
	second = side_create_ep(&pair.client, NULL);
	rsp = rsp_listen(&pair.server, qual, pair.server.ep);
	ck_assert_int_eq(ep_get_state(pair.server.ep), DAT_EP_STATE_RESERVED);
	ck_dat_is(dat_ep_free(pair.server.ep), BAD_STATE(EP_RESERVED));
	connect_to(&pair, pair.client.ep, qual);
	cr = expect_cr(&pair.server);
	ck_dat(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
	ck_assert_ptr_eq(param.local_ep_handle, pair.server.ep);
	ck_assert_int_eq(ep_get_state(pair.server.ep), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
	connect_to(&pair, second, qual); /* nobody listens any more */
	expect_connection_of(&pair.client, second, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	ck_dat_is(dat_cr_accept(cr, pair.server.ep, 0, NULL), BAD_HANDLE(EP));
	ck_dat(dat_cr_accept(cr, DAT_HANDLE_NULL, 0, NULL));
	expect_established(&pair);
	exchange_messages(&pair);
	ck_dat(dat_rsp_free(rsp));
	ck_dat_is(dat_rsp_free(rsp), BAD_HANDLE(RSP));
	exchange_messages(&pair);
	ck_dat(dat_ep_free(second));
	pair_close(&pair);
}
END_TEST

START_TEST(unused_reservation_is_given_back)
{
	struct pair pair;
	DAT_CONN_QUAL qual;
	DAT_RSP_HANDLE rsp;

	pair_open_unconnected(&pair, NULL);
	qual = free_qual(&pair.server);
	rsp = rsp_listen(&pair.server, qual, pair.server.ep);
	ck_dat(dat_rsp_free(rsp));
	ck_assert_int_eq(ep_get_state(pair.server.ep), DAT_EP_STATE_UNCONNECTED);
	connect_to(&pair, pair.client.ep, qual);
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	ck_dat(dat_ep_reset(pair.client.ep));
	pair_connect(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(rejected_reservation_connects_later)
{
	struct pair pair;
	DAT_CONN_QUAL qual;

	pair_open_unconnected(&pair, NULL);
	qual = free_qual(&pair.server);
	rsp_listen(&pair.server, qual, pair.server.ep);
	post_recv(pair.server.ep, 1, segment(&pair.server, 0, 8));
	connect_to(&pair, pair.client.ep, qual);
	ck_dat(CR_REJECT(expect_cr(&pair.server)));
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_PEER_REJECTED);
	ck_assert_int_eq(ep_get_state(pair.server.ep), DAT_EP_STATE_UNCONNECTED);
	ck_dat(dat_ep_reset(pair.client.ep));
	rsp_listen(&pair.server, qual, pair.server.ep); /* the qualifier is free */
	connect_to(&pair, pair.client.ep, qual);
	ck_dat(dat_cr_accept(expect_cr(&pair.server), DAT_HANDLE_NULL, 0, NULL));
	expect_established(&pair);
	post_send(pair.client.ep, 2, segment(&pair.client, 0, 8), 0);
	expect_recv_done(&pair.server, 1, 8); /* which was posted before the rejection */
	pair_close_abrupt(&pair);
}
END_TEST

static void listen_on_client(int fd)
{
	DAT_CONN_QUAL qual;
	struct side side;

	side_open(&side, CLIENT);
	qual = free_qual(&side);
	rsp_listen(&side, qual, side.ep);
	channel_send(fd, &qual, sizeof(qual));
	channel_recv(fd, &qual, sizeof(qual));
	side_close_abrupt(&side);
}

START_TEST(reserved_qualifier_is_taken_by_one_process)
{
	DAT_CONN_QUAL qual;
	DAT_RSP_HANDLE rsp;
	struct side side;
	pid_t other;
	int fd;

	other = process_start(listen_on_client, &fd);
	channel_recv(fd, &qual, sizeof(qual));
	side_open(&side, CLIENT);
	ck_dat_is(dat_rsp_create(side.ia, qual, side.ep, side.cr_evd, &rsp),
		  DAT_ERROR(DAT_CONN_QUAL_IN_USE, 0));
	ck_assert_int_eq(ep_get_state(side.ep), DAT_EP_STATE_UNCONNECTED);
	channel_send(fd, &qual, sizeof(qual));
	process_end(other);
	ck_dat(dat_rsp_free(rsp_listen(&side, qual, side.ep)));
	side_close(&side);
}
END_TEST

START_TEST(handed_off_request_connects)
{
	struct pair pair;
	DAT_CONN_QUAL other_qual;
	DAT_CONN_QUAL qual;
	DAT_CR_PARAM param;
	DAT_PSP_HANDLE psp;
	DAT_CR_HANDLE cr;

	pair_open_unconnected(&pair, NULL);
	other_qual = free_qual(&pair.server);
	psp = listen_any(&pair.server, &qual);
	rsp_listen(&pair.server, other_qual, pair.server.ep);
	connect_to(&pair, pair.client.ep, qual);
	cr = expect_cr(&pair.server);
	ck_dat_is(dat_cr_handoff(cr, qual), BAD_ARG(2));
	ck_dat(dat_cr_handoff(cr, other_qual));
	ck_dat_is(dat_cr_accept(cr, pair.server.ep, 0, NULL), BAD_HANDLE(CR));
	ck_dat(dat_psp_free(psp));
	cr = expect_cr(&pair.server);
	ck_dat(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
	ck_assert_ptr_eq(param.local_ep_handle, pair.server.ep);
	ck_dat(dat_cr_accept(cr, DAT_HANDLE_NULL, 0, NULL));
	expect_established(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

/* The peer of each request learns of its end. */
START_TEST(close_ends_requests_and_reservations)
{
	DAT_CONN_QUAL quals[4];
	struct pair pair;
	DAT_PSP_HANDLE psp;

	pair_open_unconnected(&pair, NULL);
	for (size_t i = 0; i < COUNT(quals); i++)
		quals[i] = free_qual(&pair.server);
	rsp_listen(&pair.server, quals[0], pair.server.ep);
	rsp_listen(&pair.server, quals[1], DAT_HANDLE_NULL);
	rsp_listen(&pair.server, quals[2], side_create_ep(&pair.server, NULL));
	ck_dat(dat_psp_create(pair.server.ia, quals[3], pair.server.cr_evd, DAT_PSP_PROVIDER_FLAG,
			      &psp));
	for (size_t i = 0; i < COUNT(quals); i++) {
		if (i == 2)
			continue;
		connect_to(&pair, side_create_ep(&pair.client, NULL), quals[i]);
		expect_cr(&pair.server);
	}
	side_close_abrupt(&pair.server);
	for (int n = 0; n < 3; n++)
		expect_event(pair.client.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	side_close_abrupt(&pair.client);
}
END_TEST

/* ---- endpoints of the provider ---- */

#define WHOLE                                                                                      \
	(DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_REQUEST_EVD_HANDLE | \
	 DAT_EP_FIELD_CONNECT_EVD_HANDLE)

static DAT_EP_PARAM parts_of(const struct side *side)
{
	return (DAT_EP_PARAM){
		.pz_handle = side->pz,
		.recv_evd_handle = side->recv_evd,
		.request_evd_handle = side->request_evd,
		.connect_evd_handle = side->connect_evd,
	};
}

/* Completes the endpoint of the next request, which becomes the side's. */
static DAT_CR_HANDLE complete_next(struct side *side)
{
	DAT_EP_PARAM parts = parts_of(side);
	DAT_CR_HANDLE cr = expect_cr(side);
	DAT_CR_PARAM request;

	ck_dat(dat_cr_query(cr, DAT_CR_FIELD_ALL, &request));
	side->ep = request.local_ep_handle;
	ck_assert_int_eq(ep_get_state(side->ep), DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
	ck_dat_is(dat_cr_accept(cr, DAT_HANDLE_NULL, 0, NULL), BAD_STATE(EP_NOTREADY));
	ck_dat(dat_ep_modify(side->ep, WHOLE, &parts));
	return cr;
}

START_TEST(provider_makes_endpoints_for_requests)
{
	DAT_PSP_HANDLE psp;
	struct pair pair;
	DAT_CONN_QUAL qual;
	DAT_CR_HANDLE cr;

	pair_open_unconnected(&pair, NULL);
	qual = free_qual(&pair.server);
	ck_dat(dat_ep_free(pair.server.ep));
	ck_assert_int_eq(pair.server.provider.ep_creator, DAT_PSP_CREATES_EP_IFASKED);
	ck_dat(dat_psp_create(pair.server.ia, qual, pair.server.cr_evd, DAT_PSP_PROVIDER_FLAG,
			      &psp));
	for (int n = 0; n < 3; n++) {
		connect_to(&pair, pair.client.ep, qual);
		cr = complete_next(&pair.server);
		if (n == 1) {
			ck_dat(CR_REJECT(cr));
			expect_connection(&pair.client, DAT_CONNECTION_EVENT_PEER_REJECTED);
			ck_dat_is(dat_ep_free(pair.server.ep), BAD_HANDLE(EP));
		} else {
			ck_dat(dat_cr_accept(cr, DAT_HANDLE_NULL, 0, NULL));
			expect_established(&pair);
			exchange_messages(&pair);
			expect_write(&pair, target(&pair.server, 0, 64));
			expect_read(&pair, target(&pair.server, 0, 64));
			pair_disconnect(&pair, DAT_CLOSE_ABRUPT_FLAG);
			ck_dat(dat_ep_free(pair.server.ep));
		}
		ck_dat(dat_ep_reset(pair.client.ep));
	}
	pair.server.ep = DAT_HANDLE_NULL;
	ck_dat(dat_psp_free(psp));
	pair_close(&pair);
}
END_TEST

/* They need nothing of the device before they are accepted. */
START_TEST(many_endpoints_of_the_provider_connect)
{
	const unsigned many = device()->max_eps - 1; /* the side has one */
	DAT_EP_HANDLE ep;
	DAT_PSP_HANDLE psp;
	struct pair pair;
	DAT_CONN_QUAL qual;

	pair_open_unconnected(&pair, NULL);
	qual = free_qual(&pair.server);
	ck_dat(dat_psp_create(pair.server.ia, qual, pair.server.cr_evd, DAT_PSP_PROVIDER_FLAG,
			      &psp));
	for (unsigned n = 0; n < many; n++) {
		ep = side_create_ep(&pair.client, NULL);
		connect_to(&pair, ep, qual);
	}
	for (unsigned n = 0; n < many; n++)
		ck_dat(dat_cr_accept(complete_next(&pair.server), DAT_HANDLE_NULL, 0, NULL));
	for (unsigned n = 0; n < many; n++) {
		expect_event(pair.client.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
		expect_event(pair.server.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	}
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- dat_ep_modify ---- */

static DAT_EP_PARAM queried(DAT_EP_HANDLE ep)
{
	DAT_EP_PARAM param;

	ck_dat(dat_ep_query(ep, DAT_EP_FIELD_ALL, &param));
	return param;
}

START_TEST(modified_endpoint_keeps_its_receives)
{
	struct pair pair;
	DAT_EP_PARAM param;

	pair_open_unconnected(&pair, NULL);
	for (uint64_t n = 0; n < 8; n++)
		post_recv(pair.server.ep, n, segment(&pair.server, 64 * n, 64));
	param = queried(pair.server.ep);
	param.ep_attr.max_recv_dtos = 100;
	param.ep_attr.max_request_dtos = 50;
	param.ep_attr.max_message_size = 4096;
	ck_dat(dat_ep_modify(pair.server.ep, DAT_EP_FIELD_EP_ATTR_ALL, &param));
	for (uint64_t n = 8; n < 100; n++)
		post_recv(pair.server.ep, n, segment(&pair.server, 64 * n, 64));
	ck_dat_is(dat_ep_modify(pair.server.ep, DAT_EP_FIELD_ALL, &param), BAD_ARG(2));
	pair_connect(&pair);
	ck_dat_is(dat_ep_modify(pair.server.ep, DAT_EP_FIELD_EP_ATTR_ALL, &param),
		  BAD_STATE(EP_CONNECTED));
	for (uint64_t n = 0; n < 100; n++) {
		pattern_fill(pair.client.memory, 64, (unsigned)n);
		post_send(pair.client.ep, n, segment(&pair.client, 0, 64), 0);
		expect_request_done(&pair.client, n, 64);
		expect_recv_done(&pair.server, n, 64);
		pattern_check(pair.server.memory + 64 * n, 64, (unsigned)n);
	}
	pair_close(&pair);
}
END_TEST

/* In the state in which it waits for the consumer's answer, with another zone and EVDs. */
START_TEST(passive_endpoint_is_modified)
{
	struct pair pair;
	DAT_CONN_QUAL qual;
	DAT_EP_PARAM param;
	DAT_CR_HANDLE cr;

	pair_open_unconnected(&pair, NULL);
	qual = free_qual(&pair.server);
	rsp_listen(&pair.server, qual, pair.server.ep);
	connect_to(&pair, pair.client.ep, qual);
	cr = expect_cr(&pair.server);
	param = queried(pair.server.ep);
	ck_dat_is(dat_ep_modify(pair.server.ep, DAT_EP_FIELD_PZ_HANDLE, &param),
		  BAD_STATE(EP_PASSCONNPENDING));
	param.recv_evd_handle = param.request_evd_handle = side_create_evd(&pair.server, 32,
									   DAT_EVD_DTO_FLAG);
	ck_dat(dat_ep_modify(pair.server.ep,
			     DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_REQUEST_EVD_HANDLE,
			     &param));
	ck_dat(dat_evd_free(pair.server.recv_evd));
	ck_dat(dat_evd_free(pair.server.request_evd));
	pair.server.recv_evd = pair.server.request_evd = param.recv_evd_handle;
	ck_dat(dat_cr_accept(cr, DAT_HANDLE_NULL, 0, NULL));
	expect_established(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

/* The peer, which left its numbers to the provider, sees those of the connection if it is told. */
START_TEST(modified_reads_are_agreed_on)
{
	for (int i = 0; i < 2; i++) {
		struct pair pair;
		const struct side *here = i ? &pair.server : &pair.client;
		const struct side *there = i ? &pair.client : &pair.server;
		DAT_EP_PARAM param;

		pair_open_unconnected(&pair, NULL);
		param = queried(here->ep);
		param.ep_attr.max_rdma_read_in = 2;
		param.ep_attr.max_rdma_read_out = 3;
		ck_dat(dat_ep_modify(here->ep,
				     DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN |
					     DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT,
				     &param));
		pair_connect(&pair);
		param = queried(there->ep);
		if (here == &pair.client || !device()->reply_lacks_reads) {
			ck_assert_int_eq(param.ep_attr.max_rdma_read_in, 3);
			ck_assert_int_eq(param.ep_attr.max_rdma_read_out, 2);
		}
		expect_read(&pair, target(&pair.server, 0, 64));
		pair_close(&pair);
	}
}
END_TEST

/* ---- dat_ep_dup_connect ---- */

START_TEST(connection_is_copied)
{
	const DAT_CONN_QUAL qual = 126003; /* no port has this number; its own is 63534 */
	struct pair pair, copy;
	DAT_PSP_HANDLE psp;

	pair_open_unconnected(&pair, NULL);
	ck_dat(dat_psp_create(pair.server.ia, qual, pair.server.cr_evd, DAT_PSP_CONSUMER_FLAG,
			      &psp));
	connect_and_accept(&pair, qual);
	expect_established(&pair);
	memcpy(&copy, &pair, sizeof(copy));
	copy.client.ep = side_create_ep(&pair.client, NULL);
	copy.server.ep = side_create_ep(&pair.server, NULL);
	ck_dat_is(dat_ep_dup_connect(copy.server.ep, pair.server.ep, TIME_LIMIT, 0, NULL,
				     DAT_QOS_BEST_EFFORT),
		  BAD_STATE(EP_CONNECTED)); /* it accepted */
	ck_dat(dat_ep_dup_connect(copy.client.ep, pair.client.ep, TIME_LIMIT, 0, NULL,
				  DAT_QOS_BEST_EFFORT));
	ck_dat(dat_cr_accept(expect_cr(&pair.server), copy.server.ep, 0, NULL));
	expect_established(&copy);
	exchange_messages(&copy);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

int main(int argc, char **argv)
{
	const struct device_case cases[] = {
		{ reserved_endpoint_takes_one_connection, NEEDS_NOTHING },
		{ unused_reservation_is_given_back, NEEDS_NOTHING },
		{ rejected_reservation_connects_later, NEEDS_NOTHING },
		{ reserved_qualifier_is_taken_by_one_process, NEEDS_NOTHING },
		{ handed_off_request_connects, NEEDS_NOTHING },
		{ close_ends_requests_and_reservations, NEEDS_NOTHING },
		{ provider_makes_endpoints_for_requests, NEEDS_NOTHING },
		{ many_endpoints_of_the_provider_connect, NEEDS_NOTHING },
		{ modified_endpoint_keeps_its_receives, NEEDS_NOTHING },
		{ passive_endpoint_is_modified, NEEDS_NOTHING },
		{ modified_reads_are_agreed_on, NEEDS_NOTHING },
		{ connection_is_copied, NEEDS_NOTHING },
	};

	return run_on_device(argc, argv, cases, COUNT(cases));
}
