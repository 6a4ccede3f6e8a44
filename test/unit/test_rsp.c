/* SPDX-License-Identifier: BSD-2-Clause */
/* Reserved service points: one request, for one endpoint. */
#include <netinet/in.h>

#include "alloc.h"
#include "harness.h"
#include "race.h"

#define QUAL   41000
#define IN_USE DAT_ERROR(DAT_CONN_QUAL_IN_USE, 0)

static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;

static void setup(void)
{
	side_open(client, "fake0");
	side_open(server, "fake1");
}

static void teardown(void)
{
	pair_close_abrupt(&pair);
}

static DAT_RSP_HANDLE rsp_listen(DAT_EP_HANDLE ep)
{
	DAT_RSP_HANDLE rsp = POISON;

	ck_dat(rsp_create(server->ia, QUAL, ep, server->cr_evd, &rsp));
	return rsp;
}

/* @ep of the client connects to the service point. */
static void rsp_connect(DAT_EP_HANDLE ep)
{
	ck_dat(ep_connect(ep, (DAT_IA_ADDRESS_PTR)&server->address, QUAL, DAT_TIMEOUT_INFINITE, 0,
			  NULL, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
}

static DAT_CR_HANDLE rsp_request(void)
{
	rsp_connect(client->ep);
	return expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
		.event_data.cr_arrival_event_data.cr_handle;
}

static DAT_COUNT receives_of(const struct side *side)
{
	DAT_COUNT nbufs;

	ck_dat(ep_recv_query(side->ep, &nbufs, NULL));
	return nbufs;
}

static void expect_established(void)
{
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

/* ---- the request ---- */

START_TEST(a_request_takes_the_reserved_endpoint)
{
	DAT_RSP_HANDLE rsp = rsp_listen(server->ep);
	DAT_CR_ARRIVAL_EVENT_DATA arrival;
	DAT_EP_PARAM ep;
	DAT_CR_PARAM cr;

	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_RESERVED);
	post_recv(server, 1, 0, 64, 0);
	rsp_connect(client->ep);
	arrival = expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
			  .event_data.cr_arrival_event_data;
	ck_assert_ptr_eq(arrival.sp_handle.rsp_handle, rsp);
	ck_assert_uint_eq(arrival.conn_qual, QUAL);
	ck_dat(cr_query(arrival.cr_handle, DAT_CR_FIELD_ALL, &cr));
	ck_assert_ptr_eq(cr.local_ep_handle, server->ep);
	ck_dat(ep_query(server->ep, DAT_EP_FIELD_ALL, &ep));
	ck_assert_int_eq(ep.ep_state, DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
	ck_assert_uint_eq(((struct sockaddr_in *)ep.remote_ia_address_ptr)->sin_addr.s_addr,
			  client->address.sin_addr.s_addr);
	ck_assert_uint_eq(ep.remote_port_qual, cr.remote_port_qual);
	ck_assert_uint_eq(ep.local_port_qual, QUAL);
	ck_dat(cr_accept(arrival.cr_handle, DAT_HANDLE_NULL, 0, NULL));
	expect_established();
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_CONNECTED);
	post_send(client, 2, 0, 64, 0);
	expect_dto(server->recv_evd, 1, DAT_DTO_SUCCESS);
	ck_dat(rsp_free(rsp));
	ck_dat_is(rsp_free(rsp), BAD_HANDLE(RSP));
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_CONNECTED);
}
END_TEST

START_TEST(an_rsp_takes_one_request)
{
	DAT_EP_HANDLE second = side_create_ep(client, NULL);
	DAT_EVENT event;

	rsp_listen(server->ep);
	fake_hold_cm(_i);
	rsp_connect(client->ep);
	if (!_i)
		fake_wait_idle(0);
	rsp_connect(second); /* when the first one has arrived, or right behind it */
	fake_hold_cm(false);
	event = expect_event(client->connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, second);
	ck_assert_uint_eq(fake_alive(FAKE_LISTENER), 0);
	event = expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT);
	expect_no_event(server->cr_evd);
	ck_dat(cr_accept(event.event_data.cr_arrival_event_data.cr_handle, DAT_HANDLE_NULL, 0,
			 NULL));
	expect_established();
}
END_TEST

/* The handle stays valid, but nothing is in use any more. */
START_TEST(an_rsp_has_done_its_work_when_its_request_has_arrived)
{
	DAT_EVD_HANDLE evd = side_create_evd(server, 8, DAT_EVD_CR_FLAG);
	DAT_RSP_PARAM param;
	DAT_RSP_HANDLE rsp, next;
	DAT_EVENT event;

	ck_dat(rsp_create(server->ia, QUAL, server->ep, evd, &rsp));
	ck_dat_is(evd_free(evd), BAD_STATE(EVD_IN_USE));
	ck_dat_is(ia_close(server->ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	rsp_connect(client->ep);
	event = expect_event(evd, DAT_CONNECTION_REQUEST_EVENT);
	ck_dat(evd_free(evd));
	ck_dat(rsp_query(rsp, DAT_RSP_FIELD_ALL, &param));
	ck_assert_uint_eq(param.conn_qual, QUAL);
	ck_assert_ptr_eq(param.ep_handle, server->ep);
	ck_dat(cr_reject_bare(event.event_data.cr_arrival_event_data.cr_handle));
	ck_dat(rsp_create(server->ia, QUAL, server->ep, server->cr_evd, &next));
	ck_dat(rsp_free(next));
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_UNCONNECTED);
	side_close(server); /* gracefully, with the handle that was not freed */
	ck_dat_is(rsp_free(rsp), BAD_HANDLE(RSP));
	side_open(server, "fake1");
}
END_TEST

START_TEST(a_reject_returns_the_endpoint_with_its_receives)
{
	DAT_CR_HANDLE cr;

	rsp_listen(server->ep);
	post_recv(server, 1, 0, 64, 0);
	cr = rsp_request();
	post_recv(server, 2, 64, 64, 0);
	ck_dat(cr_reject_bare(cr));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_UNCONNECTED);
	ck_assert_int_eq(receives_of(server), 2);
	ck_dat(ep_reset(client->ep));
	rsp_listen(server->ep);
	ck_dat(cr_accept(rsp_request(), DAT_HANDLE_NULL, 0, NULL));
	expect_established();
	post_send(client, 3, 0, 64, 0);
	expect_dto(server->recv_evd, 1, DAT_DTO_SUCCESS);
}
END_TEST

/* The request and its endpoint wait for an answer that succeeds. */
START_TEST(a_failed_accept_leaves_the_endpoint_passive)
{
	DAT_EP_HANDLE other = side_create_ep(server, NULL);
	DAT_CR_HANDLE cr;

	rsp_listen(server->ep);
	cr = rsp_request();
	ck_dat_is(cr_accept(cr, other, 0, NULL), BAD_HANDLE(EP));
	ck_dat_is(cr_accept(cr, server->ep, 0, NULL), BAD_HANDLE(EP));
	ck_dat_is(cr_accept(cr, DAT_HANDLE_NULL, -1, NULL), BAD_ARG(3));
	ck_dat_is(cr_accept(cr, DAT_HANDLE_NULL, 1, NULL), BAD_ARG(4));
	alloc_fail_nth(1);
	ck_dat_is(cr_accept(cr, DAT_HANDLE_NULL, 0, NULL), NO_RESOURCE(MEMORY));
	alloc_fail_nth(0);
	fake_fail("accept", ENOMEM, 1);
	ck_dat_is(cr_accept(cr, DAT_HANDLE_NULL, 0, NULL), NO_RESOURCE(TEP));
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
	ck_assert_uint_eq(((struct evd *)server->connect_evd)->reserved, 0);
	expect_no_event(client->connect_evd);
	ck_dat(cr_accept(cr, DAT_HANDLE_NULL, 0, NULL));
	expect_established();
}
END_TEST

START_TEST(a_request_that_brings_no_endpoint_needs_one_that_is_unconnected)
{
	DAT_EP_HANDLE reserved = side_create_ep(server, NULL);
	DAT_EP_HANDLE passive = side_create_ep(server, NULL);
	DAT_RSP_HANDLE rsp;
	DAT_PSP_HANDLE psp;
	DAT_CR_HANDLE cr;

	ck_dat(rsp_create(server->ia, QUAL + 1, reserved, server->cr_evd, &rsp));
	rsp_listen(passive);
	rsp_request();
	ck_dat(psp_create(server->ia, QUAL, server->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	client->ep = side_create_ep(client, NULL);
	cr = rsp_request();
	ck_dat_is(cr_accept(cr, reserved, 0, NULL), BAD_STATE(EP_RESERVED));
	ck_dat_is(cr_accept(cr, passive, 0, NULL), BAD_STATE(EP_PASSCONNPENDING));
	ck_dat_is(cr_accept(cr, DAT_HANDLE_NULL, 0, NULL), BAD_HANDLE(EP));
	ck_dat(cr_accept(cr, server->ep, 0, NULL));
	expect_established();
}
END_TEST

START_TEST(an_endpoint_whose_peer_gave_up_is_accepted_or_rejected)
{
	DAT_CR_HANDLE cr;

	rsp_listen(server->ep);
	cr = rsp_request();
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	fake_wait_idle(0);
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
	if (_i) {
		ck_dat(cr_accept(cr, DAT_HANDLE_NULL, 0, NULL));
		expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
		ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_DISCONNECTED);
	} else {
		ck_dat(cr_reject_bare(cr));
		ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_UNCONNECTED);
	}
}
END_TEST

/* The service point goes on listening for one that can be. */
START_TEST(a_request_that_can_not_be_reported_leaves_the_endpoint_reserved)
{
	DAT_EVD_HANDLE evd = side_create_evd(server, 1, DAT_EVD_CR_FLAG | DAT_EVD_SOFTWARE_FLAG);
	DAT_EP_HANDLE ep = _i ? DAT_HANDLE_NULL : server->ep;
	unsigned eps = obj_count(server->ia, DAT_HANDLE_TYPE_EP);
	DAT_RSP_HANDLE rsp;

	ck_dat(rsp_create(server->ia, QUAL, ep, evd, &rsp));
	post_se(evd, 1);
	rsp_connect(client->ep);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	ck_assert_uint_eq(fake_alive(FAKE_LISTENER), 1);
	ck_assert_uint_eq(obj_count(server->ia, DAT_HANDLE_TYPE_CR), 0);
	ck_assert_uint_eq(obj_count(server->ia, DAT_HANDLE_TYPE_EP), eps);
	if (ep)
		ck_assert_int_eq(ep_get_state(ep), DAT_EP_STATE_RESERVED);
	ck_dat_is(evd_free(evd), BAD_STATE(EVD_IN_USE));
	expect_se(evd, 1);
	ck_dat(ep_reset(client->ep));
	rsp_connect(client->ep);
	expect_event(evd, DAT_CONNECTION_REQUEST_EVENT);
	ck_assert_uint_eq(fake_alive(FAKE_LISTENER), 0);
}
END_TEST

/* With a null endpoint the provider makes one when the request arrives. */
START_TEST(an_rsp_without_endpoint_brings_one_of_the_provider)
{
	unsigned eps = obj_count(server->ia, DAT_HANDLE_TYPE_EP);
	DAT_RSP_HANDLE rsp = rsp_listen(DAT_HANDLE_NULL);
	DAT_RSP_PARAM param;
	DAT_CR_PARAM cr_param;
	DAT_CR_HANDLE cr;

	ck_dat(rsp_query(rsp, DAT_RSP_FIELD_ALL, &param));
	ck_assert_ptr_null(param.ep_handle);
	cr = rsp_request();
	ck_dat(cr_query(cr, DAT_CR_FIELD_ALL, &cr_param));
	ck_assert_int_eq(ep_get_state(cr_param.local_ep_handle),
			 DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
	ck_dat(rsp_query(rsp, DAT_RSP_FIELD_ALL, &param));
	ck_assert_ptr_eq(param.ep_handle, cr_param.local_ep_handle);
	ck_dat(cr_reject_bare(cr));
	ck_assert_uint_eq(obj_count(server->ia, DAT_HANDLE_TYPE_EP), eps);
	ck_dat(rsp_free(rsp));
}
END_TEST

/* ---- create, query and free ---- */

START_TEST(rsp_create_checks_its_arguments)
{
	DAT_EP_HANDLE freed = side_create_ep(server, NULL);
	DAT_RSP_HANDLE rsp = POISON;

	ck_dat(ep_free(freed));
	ck_dat_is(rsp_create(POISON, QUAL, server->ep, server->cr_evd, &rsp), BAD_HANDLE(IA));
	ck_dat_is(rsp_create(server->ia, QUAL, POISON, server->cr_evd, &rsp), BAD_HANDLE(EP));
	ck_dat_is(rsp_create(server->ia, QUAL, freed, server->cr_evd, &rsp), BAD_HANDLE(EP));
	ck_dat_is(rsp_create(server->ia, QUAL, client->ep, server->cr_evd, &rsp), BAD_HANDLE(EP));
	ck_dat_is(rsp_create(server->ia, QUAL, server->ep, POISON, &rsp), BAD_HANDLE(EVD_CR));
	ck_dat_is(rsp_create(server->ia, QUAL, server->ep, server->recv_evd, &rsp),
		  BAD_HANDLE(EVD_CR));
	ck_dat_is(rsp_create(server->ia, QUAL, server->ep, client->cr_evd, &rsp),
		  BAD_HANDLE(EVD_CR));
	ck_dat_is(rsp_create(server->ia, 0, server->ep, server->cr_evd, &rsp), BAD_ARG(2));
	ck_dat_is(rsp_create(server->ia, QUAL, server->ep, server->cr_evd, NULL), BAD_ARG(5));
	ck_assert_ptr_eq(rsp, POISON);
	ck_assert_uint_eq(fake_alive(FAKE_LISTENER), 0);
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_UNCONNECTED);
}
END_TEST

START_TEST(an_rsp_query_shows_what_it_was_created_with)
{
	DAT_RSP_HANDLE rsp = rsp_listen(server->ep);
	DAT_RSP_PARAM param;

	ck_dat(rsp_query(rsp, DAT_RSP_FIELD_ALL, &param));
	ck_assert_ptr_eq(param.ia_handle, server->ia);
	ck_assert_uint_eq(param.conn_qual, QUAL);
	ck_assert_ptr_eq(param.evd_handle, server->cr_evd);
	ck_assert_ptr_eq(param.ep_handle, server->ep);
	ck_dat_is(rsp_query(rsp, DAT_RSP_FIELD_ALL, NULL), BAD_ARG(3));
	ck_dat(rsp_query(rsp, (DAT_RSP_PARAM_MASK)0x10, &param));
	ck_dat_is(rsp_query(server->ep, DAT_RSP_FIELD_ALL, &param), BAD_HANDLE(RSP));
	ck_dat(rsp_free(rsp));
	ck_dat_is(rsp_query(rsp, DAT_RSP_FIELD_ALL, &param), BAD_HANDLE(RSP));
}
END_TEST

START_TEST(an_rsp_that_is_freed_unused_returns_the_endpoint)
{
	DAT_RSP_HANDLE rsp = rsp_listen(server->ep);

	post_recv(server, 1, 0, 64, 0);
	ck_dat(rsp_free(rsp));
	ck_assert_uint_eq(fake_alive(FAKE_LISTENER), 0);
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_UNCONNECTED);
	ck_assert_int_eq(receives_of(server), 1);
	rsp_connect(client->ep);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	ck_dat(ep_reset(client->ep));
	pair_connect(&pair); /* the endpoint still connects */
	post_send(client, 2, 0, 64, 0);
	expect_dto(server->recv_evd, 1, DAT_DTO_SUCCESS);
}
END_TEST

/* The request lives on, with its endpoint. */
START_TEST(an_rsp_may_be_freed_while_its_request_waits)
{
	DAT_RSP_HANDLE rsp = rsp_listen(server->ep);
	DAT_CR_HANDLE cr = rsp_request();

	ck_dat(rsp_free(rsp));
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
	if (_i) {
		ck_dat(cr_accept(cr, DAT_HANDLE_NULL, 0, NULL));
		expect_established();
	} else {
		ck_dat(cr_reject_bare(cr));
		ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_UNCONNECTED);
	}
}
END_TEST

START_TEST(a_qualifier_has_one_service_point_of_any_kind)
{
	DAT_EP_HANDLE ep = side_create_ep(server, NULL);
	DAT_RSP_HANDLE rsp, other = POISON;
	DAT_PSP_HANDLE psp = POISON;
	struct side second_ia = { 0 };

	rsp = rsp_listen(server->ep);
	ck_dat_is(rsp_create(server->ia, QUAL, ep, server->cr_evd, &other), IN_USE);
	/* maps to the same port */
	ck_dat_is(rsp_create(server->ia, QUAL - 33534 + 4 * 32001, ep, server->cr_evd, &other),
		  IN_USE);
	ck_dat_is(psp_create(server->ia, QUAL, server->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp),
		  IN_USE);
	ck_assert_ptr_eq(psp, POISON);
	side_open(&second_ia, "fake1"); /* as in another process */
	ck_dat_is(rsp_create(second_ia.ia, QUAL, second_ia.ep, second_ia.cr_evd, &other), IN_USE);
	ck_assert_ptr_eq(other, POISON);
	ck_assert_int_eq(ep_get_state(ep), DAT_EP_STATE_UNCONNECTED);
	ck_assert_int_eq(ep_get_state(second_ia.ep), DAT_EP_STATE_UNCONNECTED);
	ck_dat(rsp_free(rsp));
	ck_dat(psp_create(server->ia, QUAL, server->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	ck_dat_is(rsp_create(server->ia, QUAL, ep, server->cr_evd, &other), IN_USE);
	ck_dat(psp_free(psp));
	ck_dat(rsp_create(second_ia.ia, QUAL, second_ia.ep, second_ia.cr_evd, &other));
	ck_dat(rsp_free(other));
	side_close(&second_ia);
}
END_TEST

static const struct {
	int err;
	DAT_RETURN want;
} rsp_failures[] = {
	{ EADDRINUSE, IN_USE },
	{ EACCES, BAD_ARG(2) },
	{ ENOMEM, NO_RESOURCE(DEVICE) },
};

START_TEST(a_failed_rsp_create_changes_nothing)
{
	unsigned uses = ((struct obj *)server->cr_evd)->uses;
	DAT_RSP_HANDLE rsp = POISON;

	fake_fail("listen", rsp_failures[_i].err, 1);
	ck_dat_is(rsp_create(server->ia, QUAL, server->ep, server->cr_evd, &rsp),
		  rsp_failures[_i].want);
	ck_assert_ptr_eq(rsp, POISON);
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_UNCONNECTED);
	ck_assert_uint_eq(((struct obj *)server->cr_evd)->uses, uses);
	ck_dat(rsp_free(rsp_listen(server->ep)));
}
END_TEST

START_TEST(rsp_create_without_memory_changes_nothing)
{
	DAT_RETURN ret;

	for (int i = 0; i < 40; i++) {
		DAT_EP_HANDLE ep = side_create_ep(server, NULL);
		DAT_RSP_HANDLE rsp = POISON;

		for (unsigned n = 1; alloc_fail_nth(n),
			      ret = rsp_create(server->ia, QUAL + (DAT_CONN_QUAL)i, ep,
					       server->cr_evd, &rsp),
			      alloc_failed();
		     n++) {
			ck_dat_is(ret, NO_RESOURCE(MEMORY));
			ck_assert_ptr_eq(rsp, POISON);
			ck_assert_int_eq(ep_get_state(ep), DAT_EP_STATE_UNCONNECTED);
			ck_assert_uint_eq(fake_alive(FAKE_LISTENER), (unsigned)i);
		}
		ck_dat(ret);
	}
	ck_dat(ia_close(server->ia, DAT_CLOSE_ABRUPT_FLAG));
	free(server->memory);
	*server = (struct side){ 0 };
	side_open(server, "fake1");
}
END_TEST

/* ---- races and close ---- */

static void *free_the_rsp(void *rsp)
{
	ck_dat(rsp_free(rsp));
	return NULL;
}

static void check_state_and_free(void *arg)
{
	pthread_t *thread = arg;

	ck_assert_uint_eq(obj_count(server->ia, DAT_HANDLE_TYPE_CR), 1);
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
	*thread = consumer_thread_start(free_the_rsp,
					obj_next(server->ia, DAT_HANDLE_TYPE_RSP, NULL));
}

/* The request is before the thread that frees the service point, so it is delivered as a whole. */
START_TEST(a_free_during_an_arrival_finds_the_request)
{
	DAT_RSP_HANDLE rsp = rsp_listen(server->ep);
	pthread_t thread;
	DAT_CR_HANDLE cr;

	race_call(RACE_REQUEST, rsp, check_state_and_free, &thread);
	cr = rsp_request();
	consumer_thread_join(thread);
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
	ck_assert_uint_eq(obj_count(server->ia, DAT_HANDLE_TYPE_RSP), 0);
	ck_dat(cr_accept(cr, DAT_HANDLE_NULL, 0, NULL));
	expect_established();
}
END_TEST

/* The request is on the wire when the service point is freed. */
START_TEST(a_request_after_a_free_is_refused)
{
	DAT_RSP_HANDLE rsp = rsp_listen(server->ep);

	fake_hold_cm(true);
	rsp_connect(client->ep);
	ck_dat(rsp_free(rsp));
	fake_hold_cm(false);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	expect_no_event(server->cr_evd);
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_UNCONNECTED);
}
END_TEST

/* Whichever is first, the endpoint is what the consumer learns from the events. */
START_TEST(a_free_and_an_arrival_leave_one_of_two_outcomes)
{
	DAT_EVENT event;

	for (int round = 0; round < 20; round++) {
		DAT_RSP_HANDLE rsp = rsp_listen(server->ep);
		pthread_t thread = consumer_thread_start(free_the_rsp, rsp);

		rsp_connect(client->ep);
		consumer_thread_join(thread);
		fake_wait_idle(0);
		if (evd_dequeue(server->cr_evd, &event) == DAT_SUCCESS) {
			ck_assert_int_eq(ep_get_state(server->ep),
					 DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
			ck_dat(cr_reject_bare(event.event_data.cr_arrival_event_data.cr_handle));
			expect_event(client->connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
		} else {
			expect_event(client->connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
		}
		ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_UNCONNECTED);
		ck_dat(ep_reset(client->ep));
	}
}
END_TEST

/* What an abrupt close finds. */
static const struct {
	bool request, provider;
	DAT_EVENT_NUMBER peer;
} closes[] = {
	{ false, false, 0 },
	{ true, false, DAT_CONNECTION_EVENT_NON_PEER_REJECTED },
	{ false, true, 0 },
	{ true, true, DAT_CONNECTION_EVENT_NON_PEER_REJECTED },
};

START_TEST(an_abrupt_close_takes_down_service_point_and_request)
{
	DAT_RSP_HANDLE rsp = rsp_listen(closes[_i].provider ? DAT_HANDLE_NULL : server->ep);
	DAT_CR_HANDLE cr = closes[_i].request ? rsp_request() : DAT_HANDLE_NULL;

	ck_dat_is(ia_close(server->ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	ck_dat(ia_close(server->ia, DAT_CLOSE_ABRUPT_FLAG));
	free(server->memory);
	ck_assert_uint_eq(fake_alive(FAKE_LISTENER), 0);
	ck_dat_is(rsp_free(rsp), BAD_HANDLE(RSP));
	if (cr) {
		ck_dat_is(cr_reject_bare(cr), BAD_HANDLE(CR));
		expect_event(client->connect_evd, closes[_i].peer);
	}
	ck_assert_uint_eq(fake_alive(FAKE_CONN), 0);
	*server = (struct side){ 0 };
	side_open(server, "fake1");
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("reserved service points");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_test(cases, a_request_takes_the_reserved_endpoint);
	tcase_add_loop_test(cases, an_rsp_takes_one_request, 0, 2);
	tcase_add_test(cases, an_rsp_has_done_its_work_when_its_request_has_arrived);
	tcase_add_test(cases, a_reject_returns_the_endpoint_with_its_receives);
	tcase_add_test(cases, a_failed_accept_leaves_the_endpoint_passive);
	tcase_add_test(cases, a_request_that_brings_no_endpoint_needs_one_that_is_unconnected);
	tcase_add_loop_test(cases, an_endpoint_whose_peer_gave_up_is_accepted_or_rejected, 0, 2);
	tcase_add_loop_test(cases, a_request_that_can_not_be_reported_leaves_the_endpoint_reserved,
			    0, 2);
	tcase_add_test(cases, an_rsp_without_endpoint_brings_one_of_the_provider);
	tcase_add_test(cases, rsp_create_checks_its_arguments);
	tcase_add_test(cases, an_rsp_query_shows_what_it_was_created_with);
	tcase_add_test(cases, an_rsp_that_is_freed_unused_returns_the_endpoint);
	tcase_add_loop_test(cases, an_rsp_may_be_freed_while_its_request_waits, 0, 2);
	tcase_add_test(cases, a_qualifier_has_one_service_point_of_any_kind);
	tcase_add_loop_test(cases, a_failed_rsp_create_changes_nothing, 0, COUNT(rsp_failures));
	tcase_add_test(cases, rsp_create_without_memory_changes_nothing);
	tcase_add_test(cases, a_free_during_an_arrival_finds_the_request);
	tcase_add_test(cases, a_request_after_a_free_is_refused);
	tcase_add_test(cases, a_free_and_an_arrival_leave_one_of_two_outcomes);
	tcase_add_loop_test(cases, an_abrupt_close_takes_down_service_point_and_request, 0,
			    COUNT(closes));
	return run_unit_cases(argc, argv);
}
