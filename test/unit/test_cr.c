/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection requests: their arrival, their attributes, and their answers. */
#include "alloc.h"
#include "harness.h"

#define REQUEST_MAX 56 /* bytes of private data, limits of the fake */
#define REPLY_MAX   196
#define QUAL	    40000

static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;

static void setup(void)
{
	DAT_PSP_HANDLE psp;

	side_open(client, "fake0");
	side_open(server, "fake1");
	ck_dat(psp_create(server->ia, QUAL, server->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
}

static void teardown(void)
{
	pair_close_abrupt(&pair);
}

/* @ep connects. Returns the request, which the server has not answered. */
static DAT_CR_HANDLE cr_request(DAT_EP_HANDLE ep, DAT_COUNT size, const void *data)
{
	const DAT_PVOID private_data = (DAT_PVOID)(uintptr_t)data;

	ck_dat(ep_connect(ep, (DAT_IA_ADDRESS_PTR)&server->address, QUAL, DAT_TIMEOUT_INFINITE,
			  size, private_data, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	return expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
		.event_data.cr_arrival_event_data.cr_handle;
}

static void fill_private_data(char *data, int size)
{
	for (int i = 0; i < size; i++)
		data[i] = (char)(i + 1);
}

START_TEST(the_arrival_event_names_its_listener)
{
	DAT_CR_ARRIVAL_EVENT_DATA arrival;
	DAT_PSP_PARAM param;

	ck_dat(ep_connect(client->ep, (DAT_IA_ADDRESS_PTR)&server->address, QUAL,
			  DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT,
			  DAT_CONNECT_DEFAULT_FLAG));
	arrival = expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
			  .event_data.cr_arrival_event_data;
	ck_dat(psp_query(arrival.sp_handle.psp_handle, DAT_PSP_FIELD_ALL, &param));
	ck_assert_uint_eq(param.conn_qual, QUAL);
	ck_assert_uint_eq(arrival.conn_qual, QUAL);
	ck_assert_mem_eq(arrival.local_ia_address_ptr, &server->address, sizeof(server->address));
	ck_assert(obj_valid(server->ia, arrival.cr_handle, DAT_HANDLE_TYPE_CR));
}
END_TEST

START_TEST(a_query_names_the_peer)
{
	DAT_CR_HANDLE cr = cr_request(client->ep, 0, NULL);
	const struct sockaddr_in *remote;
	DAT_CR_PARAM param;
	DAT_EP_PARAM ep;

	ck_dat(cr_query(cr, DAT_CR_FIELD_ALL, &param));
	remote = (const struct sockaddr_in *)param.remote_ia_address_ptr;
	ck_assert_int_eq(remote->sin_family, AF_INET);
	ck_assert_uint_eq(remote->sin_addr.s_addr, client->address.sin_addr.s_addr);
	ck_assert_uint_ne(param.remote_port_qual, 0);
	ck_assert_uint_eq(ntohs(remote->sin_port), param.remote_port_qual);
	ck_assert_int_eq(param.private_data_size, 0);
	ck_assert_ptr_null(param.local_ep_handle);
	ck_dat_is(cr_query(cr, DAT_CR_FIELD_ALL, NULL), BAD_ARG(3));
	ck_dat(cr_query(cr, (DAT_CR_PARAM_MASK)0x20, &param));
	ck_dat_is(cr_query(server->ep, DAT_CR_FIELD_ALL, &param), BAD_HANDLE(CR));
	ck_dat(cr_accept(cr, server->ep, 0, NULL));
	ck_dat(ep_query(server->ep, DAT_EP_FIELD_ALL, &ep)); /* the endpoint keeps the address */
	ck_assert_uint_eq(((struct sockaddr_in *)ep.remote_ia_address_ptr)->sin_addr.s_addr,
			  client->address.sin_addr.s_addr);
	ck_assert_uint_eq(ep.local_port_qual, QUAL);
}
END_TEST

START_TEST(the_private_data_of_a_connect_arrives)
{
	static const DAT_COUNT sizes[] = { 0, 1, 24, REQUEST_MAX };
	char data[REQUEST_MAX];
	DAT_CR_HANDLE cr;
	DAT_CR_PARAM param;

	fill_private_data(data, REQUEST_MAX);
	cr = cr_request(client->ep, sizes[_i], data);
	memset(data, 0, sizeof(data)); /* the call has a copy */
	ck_dat(cr_query(cr, DAT_CR_FIELD_ALL, &param));
	ck_assert_int_eq(param.private_data_size, sizes[_i]);
	fill_private_data(data, REQUEST_MAX);
	if (sizes[_i])
		ck_assert_mem_eq(param.private_data, data, (size_t)sizes[_i]);
}
END_TEST

/* Some transports pad private data to a fixed length, and the receiver sees the padding. */
START_TEST(padded_private_data_includes_the_padding)
{
	static const char zeros[REQUEST_MAX];
	DAT_CR_PARAM param;

	fake_quirks(FAKE_PADS_PDATA);
	ck_dat(cr_query(cr_request(client->ep, 3, "abc"), DAT_CR_FIELD_ALL, &param));
	ck_assert_int_eq(param.private_data_size, REQUEST_MAX);
	ck_assert_mem_eq(param.private_data, "abc", 3);
	ck_assert_mem_eq((char *)param.private_data + 3, zeros, REQUEST_MAX - 3);
}
END_TEST

START_TEST(the_private_data_of_an_accept_arrives)
{
	static const DAT_COUNT sizes[] = { 0, 1, 24, REPLY_MAX };
	DAT_CR_HANDLE cr = cr_request(client->ep, 0, NULL);
	DAT_CONNECTION_EVENT_DATA established;
	char data[REPLY_MAX];

	fill_private_data(data, REPLY_MAX);
	ck_dat(cr_accept(cr, server->ep, sizes[_i], data));
	established = expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED)
			      .event_data.connect_event_data;
	ck_assert_int_eq(established.private_data_size, sizes[_i]);
	if (sizes[_i])
		ck_assert_mem_eq(established.private_data, data, (size_t)sizes[_i]);
	else
		ck_assert_ptr_null(established.private_data);
}
END_TEST

/* ---- accept ---- */

static const struct {
	enum { EP_SERVER, EP_CLIENT, EP_NULL, EP_FREED } ep;
	DAT_COUNT size;
	bool no_data;
	DAT_RETURN want;
} accepts[] = {
	{ EP_SERVER, 0, true, DAT_SUCCESS },	{ EP_SERVER, REPLY_MAX, false, DAT_SUCCESS },
	{ EP_CLIENT, 0, true, BAD_HANDLE(EP) }, /* of another IA */
	{ EP_NULL, 0, true, BAD_HANDLE(EP) },	{ EP_FREED, 0, true, BAD_HANDLE(EP) },
	{ EP_SERVER, -1, false, BAD_ARG(3) },	{ EP_SERVER, REPLY_MAX + 1, false, BAD_ARG(3) },
	{ EP_SERVER, 1, true, BAD_ARG(4) },
};

START_TEST(accept_checks_its_arguments)
{
	DAT_CR_HANDLE cr = cr_request(client->ep, 0, NULL);
	char data[REPLY_MAX + 1] = { 0 };
	DAT_EP_HANDLE freed = side_create_ep(server, NULL);
	const DAT_EP_HANDLE eps[] = { server->ep, side_create_ep(client, NULL), DAT_HANDLE_NULL,
				      freed };

	ck_dat(ep_free(freed));
	ck_dat_is(cr_accept(cr, eps[accepts[_i].ep], accepts[_i].size,
			    accepts[_i].no_data ? NULL : data),
		  accepts[_i].want);
	if (accepts[_i].want != DAT_SUCCESS) {
		ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_UNCONNECTED);
		ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
		ck_dat(cr_accept(cr, server->ep, 0, NULL)); /* the request is still valid */
	}
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}
END_TEST

START_TEST(a_failed_accept_changes_nothing)
{
	DAT_CR_HANDLE cr = cr_request(client->ep, 0, NULL);
	DAT_COUNT nbufs;

	post_recv(server, 1, 0, 64, 0);
	fake_fail("accept", ENOMEM, 1);
	ck_dat_is(cr_accept(cr, server->ep, 0, NULL), NO_RESOURCE(TEP));
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_UNCONNECTED);
	ck_dat(ep_recv_query(server->ep, &nbufs, NULL));
	ck_assert_int_eq(nbufs, 1);
	expect_no_event(client->connect_evd);
	expect_no_event(server->connect_evd);
	ck_dat(cr_accept(cr, server->ep, 0, NULL));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}
END_TEST

/* The accept reserves slots for the events of the connection. */
START_TEST(an_accept_without_memory_changes_nothing)
{
	DAT_CR_HANDLE cr = cr_request(client->ep, 0, NULL);
	unsigned n = 1;
	DAT_COUNT nbufs;
	DAT_RETURN ret;

	post_recv(server, 1, 0, 64, 0);
	for (; alloc_fail_nth(n), ret = cr_accept(cr, server->ep, 0, NULL), alloc_failed(); n++) {
		ck_dat_is(ret, NO_RESOURCE(MEMORY));
		ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_UNCONNECTED);
		ck_assert(obj_valid(server->ia, cr, DAT_HANDLE_TYPE_CR));
		ck_dat(ep_recv_query(server->ep, &nbufs, NULL));
		ck_assert_int_eq(nbufs, 1);
		expect_no_event(client->connect_evd);
		expect_no_event(server->connect_evd);
	}
	ck_dat(ret);
	ck_assert_uint_ge(n, 2);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}
END_TEST

START_TEST(a_request_is_answered_once)
{
	DAT_CR_HANDLE cr = cr_request(client->ep, 0, NULL);
	DAT_CR_PARAM param;

	if (_i)
		ck_dat(cr_accept(cr, server->ep, 0, NULL));
	else
		ck_dat(cr_reject_bare(cr));
	ck_dat_is(cr_accept(cr, server->ep, 0, NULL), BAD_HANDLE(CR));
	ck_dat_is(cr_reject_bare(cr), BAD_HANDLE(CR));
	ck_dat_is(cr_query(cr, DAT_CR_FIELD_ALL, &param), BAD_HANDLE(CR));
	expect_event(client->connect_evd,
		     _i ? DAT_CONNECTION_EVENT_ESTABLISHED : DAT_CONNECTION_EVENT_PEER_REJECTED);
	if (_i)
		expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_assert_int_eq(ep_get_state(server->ep),
			 _i ? DAT_EP_STATE_CONNECTED : DAT_EP_STATE_UNCONNECTED);
}
END_TEST

START_TEST(requests_may_be_answered_in_any_order)
{
	DAT_EP_HANDLE a[3], b[3];
	DAT_CR_HANDLE cr[3];

	for (int i = 0; i < COUNT(cr); i++) {
		a[i] = side_create_ep(client, NULL);
		b[i] = side_create_ep(server, NULL);
		cr[i] = cr_request(a[i], 0, NULL);
	}
	for (int i = COUNT(cr) - 1; i >= 0; i--) {
		DAT_CONNECTION_EVENT_DATA established;

		ck_dat(cr_accept(cr[i], b[i], 0, NULL));
		established = expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED)
				      .event_data.connect_event_data;
		ck_assert_ptr_eq(established.ep_handle, a[i]);
		established = expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED)
				      .event_data.connect_event_data;
		ck_assert_ptr_eq(established.ep_handle, b[i]);
	}
}
END_TEST

/* ---- simultaneous connects ---- */

/* Both sides listen, and connect to each other at once. Returns the request at each. */
static void connect_both(DAT_CR_HANDLE *at_client, DAT_CR_HANDLE *at_server)
{
	DAT_PSP_HANDLE psp;

	ck_dat(psp_create(client->ia, QUAL, client->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	fake_hold_cm(true);
	ck_dat(ep_connect(client->ep, (DAT_IA_ADDRESS_PTR)&server->address, QUAL,
			  DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT,
			  DAT_CONNECT_DEFAULT_FLAG));
	ck_dat(ep_connect(server->ep, (DAT_IA_ADDRESS_PTR)&client->address, QUAL,
			  DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT,
			  DAT_CONNECT_DEFAULT_FLAG));
	fake_hold_cm(false);
	*at_client = expect_event(client->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
			     .event_data.cr_arrival_event_data.cr_handle;
	*at_server = expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
			     .event_data.cr_arrival_event_data.cr_handle;
}

/* The connect of the endpoint goes on, and so does the request, which another one may accept. */
START_TEST(an_accept_with_a_connecting_endpoint_changes_nothing)
{
	DAT_EP_HANDLE other = side_create_ep(server, NULL);
	DAT_CR_HANDLE at_client, at_server;
	DAT_EVENT event;

	post_recv(server, 1, 0, 64, 0);
	connect_both(&at_client, &at_server);
	for (int n = 0; n < 3; n++)
		ck_dat_is(cr_accept(at_server, server->ep, 0, NULL), BAD_STATE(EP_ACTCONNPENDING));
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
	ck_assert_uint_eq(((struct evd *)server->connect_evd)->reserved, 2);
	expect_no_event(server->connect_evd);
	expect_no_event(server->recv_evd);
	ck_dat(cr_accept(at_client, side_create_ep(client, NULL), 0, NULL));
	event = expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, server->ep);
	ck_dat_is(cr_accept(at_server, server->ep, 0, NULL), BAD_STATE(EP_CONNECTED));
	ck_dat(cr_accept(at_server, other, 0, NULL));
	event = expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, other);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}
END_TEST

/* The thread of the server that watches its connection events. */
static void *reset_rejected_endpoint(void *arg)
{
	DAT_EVENT event;

	(void)arg;
	event = expect_event(server->connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
	ck_dat(ep_reset(event.event_data.connect_event_data.ep_handle));
	return NULL;
}

/*
 * The client, whose rank is lower, rejects. The server repeats its accept until its endpoint, which
 * was rejected, has been reset.
 */
START_TEST(simultaneous_connects_become_one_connection)
{
	DAT_CR_HANDLE at_client, at_server;
	pthread_t watcher;
	DAT_RETURN ret;

	connect_both(&at_client, &at_server);
	ck_dat_is(cr_accept(at_server, server->ep, 0, NULL), BAD_STATE(EP_ACTCONNPENDING));
	watcher = consumer_thread_start(reset_rejected_endpoint, NULL);
	ck_dat(cr_reject_bare(at_client));
	while ((ret = cr_accept(at_server, server->ep, 0, NULL)) != DAT_SUCCESS) {
		ck_assert_msg(ret == BAD_STATE(EP_ACTCONNPENDING) ||
				      ret == BAD_STATE(EP_DISCPENDING) ||
				      ret == BAD_STATE(EP_DISCONNECTED),
			      "%s", status_text(ret));
		sched_yield();
	}
	consumer_thread_join(watcher);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_no_event(client->connect_evd);
	expect_no_event(server->connect_evd);
	post_recv(client, 1, 0, 64, 0);
	post_send(server, 2, 0, 64, 0);
	expect_dto(client->recv_evd, 1, DAT_DTO_SUCCESS);
	expect_dto(server->request_evd, 2, DAT_DTO_SUCCESS);
}
END_TEST

/* ---- unanswered requests ---- */

START_TEST(a_request_may_be_answered_after_the_peer_gave_up)
{
	DAT_CR_HANDLE cr = cr_request(client->ep, 0, NULL);
	DAT_CR_PARAM param;

	post_recv(server, 1, 0, 64, 0);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	fake_wait_idle(0);
	ck_dat(cr_query(cr, DAT_CR_FIELD_ALL, &param));
	if (_i) {
		ck_dat(cr_accept(cr, server->ep, 0, NULL));
		expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
		ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_DISCONNECTED);
		expect_dto(server->recv_evd, 1, DAT_DTO_ERR_FLUSHED);
	} else {
		ck_dat(cr_reject_bare(cr));
	}
	expect_no_event(client->connect_evd);
	expect_no_event(server->connect_evd);
}
END_TEST

START_TEST(an_unanswered_request_refuses_a_graceful_close)
{
	DAT_CR_HANDLE cr = cr_request(client->ep, 0, NULL);

	ck_dat_is(ia_close(server->ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	ck_dat(ia_close(server->ia, DAT_CLOSE_ABRUPT_FLAG));
	free(server->memory);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	ck_dat_is(cr_reject_bare(cr), BAD_HANDLE(CR));
	*server = (struct side){ 0 };
	side_open(server, "fake1");
}
END_TEST

/* ---- handoff ---- */

#define OTHER_QUAL 40001

static DAT_PSP_HANDLE psp_other(DAT_EVD_HANDLE evd, DAT_PSP_FLAGS flags)
{
	DAT_PSP_HANDLE psp = POISON;

	ck_dat(psp_create(server->ia, OTHER_QUAL, evd, flags, &psp));
	return psp;
}

START_TEST(a_request_is_handed_to_another_service_point)
{
	DAT_EVD_HANDLE evd = side_create_evd(server, 8, DAT_EVD_CR_FLAG);
	DAT_PSP_HANDLE psp = psp_other(evd, DAT_PSP_CONSUMER_FLAG);
	DAT_CR_HANDLE cr = cr_request(client->ep, 3, "abc");
	DAT_CR_ARRIVAL_EVENT_DATA arrival;
	DAT_CR_PARAM before, after;
	struct sockaddr_in remote;

	ck_dat(cr_query(cr, DAT_CR_FIELD_ALL, &before));
	remote = *(struct sockaddr_in *)before.remote_ia_address_ptr;
	ck_dat(cr_handoff(cr, OTHER_QUAL));
	ck_dat_is(cr_query(cr, DAT_CR_FIELD_ALL, &after), BAD_HANDLE(CR));
	ck_dat_is(cr_handoff(cr, QUAL), BAD_HANDLE(CR));
	arrival = expect_event(evd, DAT_CONNECTION_REQUEST_EVENT).event_data.cr_arrival_event_data;
	ck_assert_ptr_eq(arrival.sp_handle.psp_handle, psp);
	ck_assert_uint_eq(arrival.conn_qual, OTHER_QUAL);
	ck_dat(cr_query(arrival.cr_handle, DAT_CR_FIELD_ALL, &after));
	ck_assert_mem_eq(after.remote_ia_address_ptr, &remote, sizeof(remote));
	ck_assert_int_eq(after.private_data_size, 3);
	ck_assert_mem_eq(after.private_data, "abc", 3);
	ck_dat(cr_handoff(arrival.cr_handle, QUAL)); /* and back */
	arrival = expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
			  .event_data.cr_arrival_event_data;
	ck_dat(psp_free(psp));
	ck_dat(evd_free(evd));
	expect_no_event(client->connect_evd);
	ck_dat(cr_accept(arrival.cr_handle, server->ep, 3, (DAT_PVOID)(uintptr_t) "def"));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	post_recv(server, 1, 0, 64, 0);
	post_send(client, 2, 0, 64, 0);
	expect_dto(server->recv_evd, 1, DAT_DTO_SUCCESS);
}
END_TEST

/* The endpoints of both service points follow the request. */
START_TEST(the_endpoints_of_a_handoff_are_as_if_one_was_rejected_and_one_requested)
{
	DAT_EP_HANDLE passive = side_create_ep(server, NULL), made, next;
	DAT_RSP_HANDLE rsp[2];
	DAT_PSP_HANDLE psp;
	DAT_CR_HANDLE cr;
	DAT_CR_PARAM param;

	ck_dat(rsp_create(server->ia, 42000, passive, server->cr_evd, &rsp[0]));
	ck_dat(rsp_create(server->ia, 42001, server->ep, server->cr_evd, &rsp[1]));
	ck_dat(psp_create(server->ia, 42002, server->cr_evd, DAT_PSP_PROVIDER_FLAG, &psp));
	cr = cr_request(client->ep, 0, NULL);
	ck_dat(cr_handoff(cr, 42000));
	ck_assert_int_eq(ep_get_state(passive), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
	cr = expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
		     .event_data.cr_arrival_event_data.cr_handle;
	ck_dat(cr_handoff(cr, 42002));
	ck_assert_int_eq(ep_get_state(passive), DAT_EP_STATE_UNCONNECTED);
	cr = expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
		     .event_data.cr_arrival_event_data.cr_handle;
	ck_dat(cr_query(cr, DAT_CR_FIELD_ALL, &param));
	made = param.local_ep_handle;
	ck_assert_int_eq(ep_get_state(made), DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
	ck_dat(cr_handoff(cr, 42001));
	ck_dat_is(ep_free(made), BAD_HANDLE(EP));
	cr = expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
		     .event_data.cr_arrival_event_data.cr_handle;
	ck_dat(cr_query(cr, DAT_CR_FIELD_ALL, &param));
	next = param.local_ep_handle;
	ck_assert_ptr_eq(next, server->ep);
	ck_dat_is(cr_handoff(cr, 42000), BAD_ARG(2)); /* it listens no more */
	ck_dat(cr_accept(cr, DAT_HANDLE_NULL, 0, NULL));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}
END_TEST

START_TEST(a_handoff_that_is_refused_leaves_the_request)
{
	DAT_EVD_HANDLE evd = side_create_evd(server, 1, DAT_EVD_CR_FLAG | DAT_EVD_SOFTWARE_FLAG);
	unsigned eps = obj_count(server->ia, DAT_HANDLE_TYPE_EP);
	DAT_CR_HANDLE cr = cr_request(client->ep, 0, NULL);
	DAT_PSP_HANDLE psp;

	ck_dat_is(cr_handoff(POISON, QUAL), BAD_HANDLE(CR));
	ck_dat_is(cr_handoff(cr, OTHER_QUAL), BAD_ARG(2));
	ck_dat_is(cr_handoff(cr, 0), BAD_ARG(2));
	ck_dat_is(cr_handoff(cr, QUAL), BAD_ARG(2)); /* its own */
	/* another IA listens there, even of this process; and another qualifier of that port */
	ck_dat(psp_create(client->ia, OTHER_QUAL, client->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	ck_dat_is(cr_handoff(cr, OTHER_QUAL), BAD_ARG(2));
	ck_dat(psp_free(psp));
	psp_other(evd, _i ? DAT_PSP_PROVIDER_FLAG : DAT_PSP_CONSUMER_FLAG);
	ck_dat_is(cr_handoff(cr, OTHER_QUAL - 33534 + 4 * 32001), BAD_ARG(2));
	post_se(evd, 1);
	ck_dat_is(cr_handoff(cr, OTHER_QUAL), NO_RESOURCE(MEMORY));
	expect_se(evd, 1);
	ck_assert_uint_eq(obj_count(server->ia, DAT_HANDLE_TYPE_CR), 1);
	ck_assert_uint_eq(obj_count(server->ia, DAT_HANDLE_TYPE_EP), eps);
	expect_no_event(client->connect_evd);
	ck_dat(cr_accept(cr, server->ep, 0, NULL));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}
END_TEST

START_TEST(handoffs_that_are_refused_take_no_memory)
{
	const unsigned many = 1000;
	DAT_EVD_HANDLE evd = side_create_evd(server, 1, DAT_EVD_CR_FLAG | DAT_EVD_SOFTWARE_FLAG);
	DAT_CR_HANDLE cr = cr_request(client->ep, 0, NULL);
	size_t used = 0;

	psp_other(evd, DAT_PSP_CONSUMER_FLAG);
	post_se(evd, 1);
	for (unsigned i = 0; i < 2 * many; i++) {
		ck_dat_is(cr_handoff(cr, OTHER_QUAL), NO_RESOURCE(MEMORY));
		if (i == many) /* all is as large as it will be */
			used = memory_in_use();
	}
	ck_assert_uint_lt(memory_in_use(), used + many * LEAST_BLOCK);
}
END_TEST

/* Its own service point is gone, and another one has got that one's handle. */
START_TEST(a_request_is_handed_to_a_service_point_with_the_handle_of_its_own)
{
	DAT_EVD_HANDLE evd = side_create_evd(server, 8, DAT_EVD_CR_FLAG);
	DAT_PSP_HANDLE own = psp_other(evd, DAT_PSP_CONSUMER_FLAG), psp;
	DAT_CR_HANDLE cr = cr_request(client->ep, 0, NULL);

	ck_dat(cr_handoff(cr, OTHER_QUAL));
	cr = expect_event(evd, DAT_CONNECTION_REQUEST_EVENT)
		     .event_data.cr_arrival_event_data.cr_handle;
	ck_dat_is(cr_handoff(cr, OTHER_QUAL), BAD_ARG(2));
	ck_dat(psp_free(own));
	while ((psp = psp_other(evd, DAT_PSP_CONSUMER_FLAG)) != own)
		ck_dat(psp_free(psp));
	ck_dat(cr_handoff(cr, OTHER_QUAL));
	expect_event(evd, DAT_CONNECTION_REQUEST_EVENT);
}
END_TEST

START_TEST(a_handoff_without_memory_leaves_the_request)
{
	unsigned failures = 0, eps = obj_count(server->ia, DAT_HANDLE_TYPE_EP);
	DAT_CR_HANDLE cr[40];
	DAT_RETURN ret;

	psp_other(server->cr_evd, DAT_PSP_PROVIDER_FLAG);
	for (unsigned i = 0; i < COUNT(cr); i++)
		cr[i] = cr_request(side_create_ep(client, NULL), 0, NULL);
	for (unsigned i = 0; i < COUNT(cr); i++) {
		for (unsigned n = 1;
		     alloc_fail_nth(n), ret = cr_handoff(cr[i], OTHER_QUAL), alloc_failed(); n++) {
			ck_dat_is(ret, NO_RESOURCE(MEMORY));
			ck_assert_uint_eq(obj_count(server->ia, DAT_HANDLE_TYPE_CR), COUNT(cr));
			ck_assert_uint_eq(obj_count(server->ia, DAT_HANDLE_TYPE_EP), eps + i);
			expect_no_event(server->cr_evd);
			failures++;
		}
		ck_dat(ret);
		expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT);
	}
	ck_assert_uint_ge(failures, 1); /* more endpoints than there is memory for */
	expect_no_event(client->connect_evd);
}
END_TEST

START_TEST(an_ia_may_connect_to_itself)
{
	DAT_PSP_HANDLE psp;
	DAT_EP_HANDLE ep = side_create_ep(client, NULL);
	DAT_CR_HANDLE cr;

	ck_dat(psp_create(client->ia, QUAL, client->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	ck_dat(ep_connect(client->ep, (DAT_IA_ADDRESS_PTR)&client->address, QUAL,
			  DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT,
			  DAT_CONNECT_DEFAULT_FLAG));
	cr = expect_event(client->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
		     .event_data.cr_arrival_event_data.cr_handle;
	ck_dat_is(cr_accept(cr, client->ep, 0, NULL), BAD_STATE(EP_ACTCONNPENDING));
	ck_dat(cr_accept(cr, ep, 0, NULL));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	post_send(client, 1, 0, 64, 0);
	client->ep = ep;
	post_recv(client, 2, 64, 64, 0);
	expect_dto(client->recv_evd, 2, DAT_DTO_SUCCESS);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("requests");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_test(cases, the_arrival_event_names_its_listener);
	tcase_add_test(cases, a_query_names_the_peer);
	tcase_add_loop_test(cases, the_private_data_of_a_connect_arrives, 0, 4);
	tcase_add_test(cases, padded_private_data_includes_the_padding);
	tcase_add_loop_test(cases, the_private_data_of_an_accept_arrives, 0, 4);
	tcase_add_loop_test(cases, accept_checks_its_arguments, 0, COUNT(accepts));
	tcase_add_test(cases, a_failed_accept_changes_nothing);
	tcase_add_test(cases, an_accept_without_memory_changes_nothing);
	tcase_add_loop_test(cases, a_request_is_answered_once, 0, 2);
	tcase_add_test(cases, requests_may_be_answered_in_any_order);
	tcase_add_test(cases, an_accept_with_a_connecting_endpoint_changes_nothing);
	tcase_add_loop_test(cases, simultaneous_connects_become_one_connection, 0, 10);
	tcase_add_loop_test(cases, a_request_may_be_answered_after_the_peer_gave_up, 0, 2);
	tcase_add_test(cases, an_unanswered_request_refuses_a_graceful_close);
	tcase_add_test(cases, an_ia_may_connect_to_itself);
	tcase_add_test(cases, a_request_is_handed_to_another_service_point);
	tcase_add_test(cases,
		       the_endpoints_of_a_handoff_are_as_if_one_was_rejected_and_one_requested);
	tcase_add_loop_test(cases, a_handoff_that_is_refused_leaves_the_request, 0, 2);
	tcase_add_test(cases, a_request_is_handed_to_a_service_point_with_the_handle_of_its_own);
	tcase_add_test(cases, a_handoff_without_memory_leaves_the_request);
	tcase_add_test(cases, handoffs_that_are_refused_take_no_memory);
	return run_unit_cases(argc, argv);
}
