/* SPDX-License-Identifier: BSD-2-Clause */
/* Service points that bring an endpoint, reserved or made by the provider; and the handoff. */
#include <unistd.h>

#include "../consumer/consumer.h"

#define QUAL 5600

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
	DAT_EP_HANDLE second;
	DAT_RSP_HANDLE rsp;
	DAT_CR_PARAM param;
	DAT_CR_HANDLE cr;

	pair_open_unconnected(&pair, NULL);
	second = side_create_ep(&pair.client, NULL);
	rsp = rsp_listen(&pair.server, QUAL, pair.server.ep);
	ck_assert_int_eq(ep_get_state(pair.server.ep), DAT_EP_STATE_RESERVED);
	ck_dat_is(dat_ep_free(pair.server.ep), BAD_STATE(EP_RESERVED));
	connect_to(&pair, pair.client.ep, QUAL);
	cr = expect_cr(&pair.server);
	ck_dat(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
	ck_assert_ptr_eq(param.local_ep_handle, pair.server.ep);
	ck_assert_int_eq(ep_get_state(pair.server.ep), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
	connect_to(&pair, second, QUAL); /* nobody listens any more */
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
	DAT_RSP_HANDLE rsp;

	pair_open_unconnected(&pair, NULL);
	rsp = rsp_listen(&pair.server, QUAL, pair.server.ep);
	ck_dat(dat_rsp_free(rsp));
	ck_assert_int_eq(ep_get_state(pair.server.ep), DAT_EP_STATE_UNCONNECTED);
	connect_to(&pair, pair.client.ep, QUAL);
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

	pair_open_unconnected(&pair, NULL);
	rsp_listen(&pair.server, QUAL, pair.server.ep);
	post_recv(pair.server.ep, 1, segment(&pair.server, 0, 8));
	connect_to(&pair, pair.client.ep, QUAL);
	ck_dat(dat_cr_reject(expect_cr(&pair.server)));
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_PEER_REJECTED);
	ck_assert_int_eq(ep_get_state(pair.server.ep), DAT_EP_STATE_UNCONNECTED);
	ck_dat(dat_ep_reset(pair.client.ep));
	rsp_listen(&pair.server, QUAL, pair.server.ep); /* the qualifier is free */
	connect_to(&pair, pair.client.ep, QUAL);
	ck_dat(dat_cr_accept(expect_cr(&pair.server), DAT_HANDLE_NULL, 0, NULL));
	expect_established(&pair);
	post_send(pair.client.ep, 2, segment(&pair.client, 0, 8), 0);
	expect_recv_done(&pair.server, 1, 8); /* which was posted before the rejection */
	pair_close_abrupt(&pair);
}
END_TEST

static void listen_on_client(int fd)
{
	DAT_CONN_QUAL qual = QUAL;
	struct side side;

	side_open(&side, CLIENT);
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
	DAT_CONN_QUAL qual;
	DAT_CR_PARAM param;
	DAT_PSP_HANDLE psp;
	DAT_CR_HANDLE cr;

	pair_open_unconnected(&pair, NULL);
	psp = listen_any(&pair.server, &qual);
	rsp_listen(&pair.server, QUAL, pair.server.ep);
	connect_to(&pair, pair.client.ep, qual);
	cr = expect_cr(&pair.server);
	ck_dat_is(dat_cr_handoff(cr, qual), BAD_ARG(2));
	ck_dat(dat_cr_handoff(cr, QUAL));
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
	struct pair pair;
	DAT_PSP_HANDLE psp;

	pair_open_unconnected(&pair, NULL);
	rsp_listen(&pair.server, QUAL, pair.server.ep);
	rsp_listen(&pair.server, QUAL + 1, DAT_HANDLE_NULL);
	rsp_listen(&pair.server, QUAL + 2, side_create_ep(&pair.server, NULL));
	ck_dat(dat_psp_create(pair.server.ia, QUAL + 3, pair.server.cr_evd, DAT_PSP_PROVIDER_FLAG,
			      &psp));
	for (DAT_CONN_QUAL qual = QUAL; qual < QUAL + 4; qual += 1 + (qual == QUAL + 1)) {
		connect_to(&pair, side_create_ep(&pair.client, NULL), qual);
		expect_cr(&pair.server);
	}
	side_close_abrupt(&pair.server);
	for (int n = 0; n < 3; n++)
		expect_event(pair.client.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	side_close_abrupt(&pair.client);
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
	};

	return run_on_device(argc, argv, cases, COUNT(cases));
}
