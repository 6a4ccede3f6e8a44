/* SPDX-License-Identifier: BSD-2-Clause */
/* Public service points, and the mapping of connection qualifiers to ports. */
#include <netinet/in.h>

#include "../../udapl/base/sockaddr.h"
#include "alloc.h"
#include "harness.h"

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

#define IN_USE DAT_ERROR(DAT_CONN_QUAL_IN_USE, 0)

static DAT_RETURN psp_try_listen(const struct side *side, DAT_CONN_QUAL qual, DAT_PSP_HANDLE *psp)
{
	return psp_create(side->ia, qual, side->cr_evd, DAT_PSP_CONSUMER_FLAG, psp);
}

/* A new endpoint of the client connects to @qual of the server. */
static DAT_EP_HANDLE psp_request(DAT_CONN_QUAL qual)
{
	DAT_EP_HANDLE ep = side_create_ep(client, NULL);

	ck_dat(ep_connect(ep, (DAT_IA_ADDRESS_PTR)&server->address, qual, DAT_TIMEOUT_INFINITE, 0,
			  NULL, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	return ep;
}

static const struct {
	DAT_CONN_QUAL qual;
	unsigned port;
} ports[] = {
	{ 0, 0 },
	{ 1, 1 },
	{ 65535, 65535 },
	{ 65536, 35068 },
	{ 3 * 32001, 33534 },
	{ 3 * 32001 - 1, 65534 },
	{ UINT64_MAX, 33534 + UINT64_MAX % 32001 },
};

START_TEST(qualifiers_map_to_ports)
{
	ck_assert_uint_eq(port_of_qual(ports[_i].qual), ports[_i].port);
}
END_TEST

START_TEST(the_port_of_an_address_depends_on_its_family)
{
	struct sockaddr_storage addr = { .ss_family = AF_INET6 };

	((struct sockaddr_in6 *)&addr)->sin6_port = htons(45248);
	ck_assert_uint_eq(sockaddr_port(&addr), 45248);
	addr = (struct sockaddr_storage){ .ss_family = AF_INET };
	((struct sockaddr_in *)&addr)->sin_port = htons(1);
	ck_assert_uint_eq(sockaddr_port(&addr), 1);
	addr.ss_family = AF_UNIX;
	ck_assert_uint_eq(sockaddr_port(&addr), 0);
}
END_TEST

START_TEST(a_freed_psp_is_refused)
{
	DAT_PSP_HANDLE psp = POISON;
	DAT_PSP_PARAM param;

	ck_dat(psp_try_listen(server, 100000, &psp));
	ck_assert_uint_eq(fake_alive(FAKE_LISTENER), 1);
	ck_dat(psp_query(psp, DAT_PSP_FIELD_ALL, &param));
	ck_assert_ptr_eq(param.ia_handle, server->ia);
	ck_assert_uint_eq(param.conn_qual, 100000);
	ck_assert_ptr_eq(param.evd_handle, server->cr_evd);
	ck_assert_int_eq(param.psp_flags, DAT_PSP_CONSUMER_FLAG);
	ck_dat_is(psp_query(psp, DAT_PSP_FIELD_ALL, NULL), BAD_ARG(3));
	ck_dat(psp_query(psp, (DAT_PSP_PARAM_MASK)0x10, &param));
	ck_dat_is(evd_free(server->cr_evd), BAD_STATE(EVD_IN_USE));
	ck_dat_is(ia_close(server->ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	ck_dat(psp_free(psp));
	ck_assert_uint_eq(fake_alive(FAKE_LISTENER), 0);
	ck_dat_is(psp_free(psp), BAD_HANDLE(PSP));
	ck_dat_is(psp_query(psp, DAT_PSP_FIELD_ALL, &param), BAD_HANDLE(PSP));
	ck_dat(evd_free(server->cr_evd));
	server->cr_evd = side_create_evd(server, 8, DAT_EVD_CR_FLAG);
}
END_TEST

START_TEST(psp_create_checks_its_arguments)
{
	DAT_PSP_HANDLE psp = POISON;
	DAT_CONN_QUAL qual = 77;

	ck_dat_is(psp_create(POISON, 1, server->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp),
		  BAD_HANDLE(IA));
	ck_dat_is(psp_create(server->ia, 1, POISON, DAT_PSP_CONSUMER_FLAG, &psp),
		  BAD_HANDLE(EVD_CR));
	ck_dat_is(psp_create(server->ia, 1, server->recv_evd, DAT_PSP_CONSUMER_FLAG, &psp),
		  BAD_HANDLE(EVD_CR));
	ck_dat_is(psp_create(server->ia, 1, client->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp),
		  BAD_HANDLE(EVD_CR));
	ck_dat_is(psp_create(server->ia, 0, server->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp),
		  BAD_ARG(2));
	ck_dat_is(psp_create(server->ia, 1, server->cr_evd, (DAT_PSP_FLAGS)2, &psp), BAD_ARG(4));
	ck_dat_is(psp_create(server->ia, 1, server->cr_evd, (DAT_PSP_FLAGS)3, &psp), BAD_ARG(4));
	ck_dat_is(psp_create(server->ia, 1, server->cr_evd, DAT_PSP_CONSUMER_FLAG, NULL),
		  BAD_ARG(5));
	ck_dat_is(psp_create_any(POISON, &qual, server->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp),
		  BAD_HANDLE(IA));
	ck_dat_is(psp_create_any(server->ia, &qual, server->recv_evd, DAT_PSP_CONSUMER_FLAG, &psp),
		  BAD_HANDLE(EVD_CR));
	ck_dat_is(psp_create_any(server->ia, NULL, server->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp),
		  BAD_ARG(2));
	ck_dat_is(psp_create_any(server->ia, &qual, server->cr_evd, (DAT_PSP_FLAGS)2, &psp),
		  BAD_ARG(4));
	ck_dat_is(psp_create_any(server->ia, &qual, server->cr_evd, DAT_PSP_CONSUMER_FLAG, NULL),
		  BAD_ARG(5));
	ck_assert_ptr_eq(psp, POISON);
	ck_assert_uint_eq(qual, 77);
	ck_assert_uint_eq(fake_alive(FAKE_LISTENER), 0);
}
END_TEST

START_TEST(an_address_and_port_has_one_listener)
{
	DAT_PSP_HANDLE psp[2] = { POISON, POISON };
	struct side second_ia = { 0 };

	ck_dat(psp_try_listen(server, 40000, &psp[0]));
	ck_dat_is(psp_try_listen(server, 40000, &psp[1]), IN_USE);
	ck_dat_is(psp_try_listen(server, 40000 - 33534 + 4 * 32001, &psp[1]),
		  IN_USE); /* maps to the same port */
	ck_assert_ptr_eq(psp[1], POISON);
	side_open(&second_ia, "fake1");
	/* another IA, as in another process */
	ck_dat_is(psp_try_listen(&second_ia, 40000, &psp[1]), IN_USE);
	ck_dat(psp_try_listen(client, 40000, &psp[1])); /* another address */
	ck_dat(psp_free(psp[0]));
	ck_dat(psp_try_listen(&second_ia, 40000, &psp[0]));
	ck_dat(psp_free(psp[0]));
	side_close(&second_ia);
}
END_TEST

static const struct {
	int err;
	DAT_RETURN want, want_any;
} listen_failures[] = {
	{ EADDRINUSE, IN_USE, DAT_ERROR(DAT_CONN_QUAL_UNAVAILABLE, 0) },
	{ EACCES, BAD_ARG(2), BAD_ARG(2) },
	{ ENOMEM, NO_RESOURCE(DEVICE), NO_RESOURCE(DEVICE) },
};

START_TEST(a_failed_listen_changes_nothing)
{
	DAT_PSP_HANDLE psp = POISON;
	DAT_CONN_QUAL qual = 77;

	fake_fail("listen", listen_failures[_i].err, 1);
	ck_dat_is(psp_try_listen(server, 40000, &psp), listen_failures[_i].want);
	fake_fail("listen", listen_failures[_i].err, 1);
	ck_dat_is(psp_create_any(server->ia, &qual, server->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp),
		  listen_failures[_i].want_any);
	ck_assert_ptr_eq(psp, POISON);
	ck_assert_uint_eq(qual, 77);
	ck_assert_uint_eq(obj_count(server->ia, DAT_HANDLE_TYPE_PSP), 0);
	side_close(server); /* the EVD is not in use */
	side_open(server, "fake1");
}
END_TEST

/* Listens on the qualifier, or for 0 on any. */
static DAT_RETURN psp_try_create(DAT_CONN_QUAL *qual, DAT_PSP_HANDLE *psp)
{
	return *qual ? psp_try_listen(server, *qual, psp)
		     : psp_create_any(server->ia, qual, server->cr_evd, DAT_PSP_CONSUMER_FLAG, psp);
}

/* The slab of the objects has to grow several times. */
START_TEST(psp_create_without_memory_changes_nothing)
{
	for (DAT_CONN_QUAL i = 0; i < 40; i++) {
		const DAT_CONN_QUAL wanted = i % 2 ? 1000 + i : 0;
		unsigned psps = obj_count(server->ia, DAT_HANDLE_TYPE_PSP), n = 1;
		DAT_PSP_HANDLE psp = POISON;
		DAT_CONN_QUAL qual = wanted;
		DAT_RETURN ret;

		for (; alloc_fail_nth(n), ret = psp_try_create(&qual, &psp), alloc_failed(); n++) {
			ck_dat_is(ret, NO_RESOURCE(MEMORY));
			ck_assert_ptr_eq(psp, POISON);
			ck_assert_uint_eq(qual, wanted);
			ck_assert_uint_eq(obj_count(server->ia, DAT_HANDLE_TYPE_PSP), psps);
			ck_assert_uint_eq(fake_alive(FAKE_LISTENER), psps);
			ck_assert_uint_eq(((struct evd *)server->cr_evd)->obj.uses, psps);
		}
		ck_dat(ret);
	}
}
END_TEST

START_TEST(create_any_returns_unused_port_numbers)
{
	DAT_PSP_HANDLE psp[16];
	DAT_CONN_QUAL qual[16];

	for (int i = 0; i < COUNT(psp); i++) {
		ck_dat(psp_create_any(server->ia, &qual[i], server->cr_evd, DAT_PSP_CONSUMER_FLAG,
				      &psp[i]));
		ck_assert_uint_gt(qual[i], 1023);
		ck_assert_uint_le(qual[i], 65535);
		for (int j = 0; j < i; j++)
			ck_assert_uint_ne(qual[i], qual[j]);
	}
	for (int i = 0; i < COUNT(psp); i++) {
		DAT_EVENT event;

		psp_request(qual[i]);
		event = expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT);
		ck_assert_ptr_eq(event.event_data.cr_arrival_event_data.sp_handle.psp_handle,
				 psp[i]);
		ck_assert_uint_eq(event.event_data.cr_arrival_event_data.conn_qual, qual[i]);
	}
}
END_TEST

/* A qualifier beyond the port numbers connects, and the request reports it unchanged. */
START_TEST(large_qualifiers_connect)
{
	static const DAT_CONN_QUAL quals[] = { 65536, 4194304, UINT64_MAX };
	DAT_PSP_HANDLE psp;
	DAT_EVENT event;

	ck_dat(psp_try_listen(server, quals[_i], &psp));
	psp_request(quals[_i]);
	event = expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT);
	ck_assert_uint_eq(event.event_data.cr_arrival_event_data.conn_qual, quals[_i]);
}
END_TEST

START_TEST(free_keeps_reported_requests)
{
	DAT_EP_HANDLE eps[2];
	DAT_PSP_HANDLE psp;
	DAT_EVENT event;

	ck_dat(psp_try_listen(server, 40000, &psp));
	eps[0] = psp_request(40000);
	fake_wait_idle(0);
	fake_hold_cm(true);
	eps[1] = psp_request(40000); /* on the wire when the listener is freed */
	ck_dat(psp_free(psp));
	fake_hold_cm(false);
	event = expect_event(client->connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, eps[1]);
	event = expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT);
	ck_dat(cr_accept(event.event_data.cr_arrival_event_data.cr_handle, server->ep, 0, NULL));
	event = expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, eps[0]);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_no_event(server->cr_evd);
	ck_dat(psp_try_listen(server, 40000, &psp)); /* the qualifier is available again */
}
END_TEST

/* The length of the EVD is the backlog. A request beyond it is no overflow. */
START_TEST(requests_beyond_the_queue_are_rejected)
{
	DAT_EVD_HANDLE evd = side_create_evd(server, 4, DAT_EVD_CR_FLAG);
	DAT_EP_HANDLE eps[7];
	DAT_PSP_HANDLE psp;
	DAT_EVENT event;

	ck_dat(psp_create(server->ia, 40000, evd, DAT_PSP_CONSUMER_FLAG, &psp));
	for (int i = 0; i < COUNT(eps); i++) {
		eps[i] = psp_request(40000);
		fake_wait_idle(0);
	}
	for (int i = 4; i < COUNT(eps); i++) {
		event = expect_event(client->connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
		ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, eps[i]);
	}
	ck_assert_uint_eq(obj_count(server->ia, DAT_HANDLE_TYPE_CR), 4);
	expect_no_event(server->async_evd);
	for (int i = 0; i < 4; i++) {
		event = expect_event(evd, DAT_CONNECTION_REQUEST_EVENT);
		ck_dat(cr_reject_bare(event.event_data.cr_arrival_event_data.cr_handle));
		event = expect_event(client->connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
		ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, eps[i]);
	}
	psp_request(40000);
	expect_event(evd, DAT_CONNECTION_REQUEST_EVENT);
}
END_TEST

START_TEST(rejected_requests_take_no_memory)
{
	const unsigned many = 1000;
	DAT_EVD_HANDLE evd = side_create_evd(server, 1, DAT_EVD_CR_FLAG);
	DAT_EP_HANDLE ep = side_create_ep(client, NULL);
	size_t used = 0;
	DAT_PSP_HANDLE psp;

	ck_dat(psp_create(server->ia, 40000, evd, DAT_PSP_CONSUMER_FLAG, &psp));
	psp_request(40000);
	for (unsigned i = 0; i < 2 * many; i++) {
		ck_dat(ep_connect(ep, (DAT_IA_ADDRESS_PTR)&server->address, 40000,
				  DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT,
				  DAT_CONNECT_DEFAULT_FLAG));
		expect_event(client->connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
		ck_dat(ep_reset(ep));
		fake_wait_idle(0);
		if (i == many) /* all is as large as it will be */
			used = memory_in_use();
	}
	ck_assert_uint_lt(memory_in_use(), used + many * LEAST_BLOCK);
}
END_TEST

/*
 * A request that can't be reported to the consumer is rejected by the provider. Later requests
 * arrive.
 */
START_TEST(a_request_without_memory_is_rejected)
{
	unsigned rejected = 0, reported = 0;
	DAT_EP_HANDLE eps[40];
	DAT_PSP_HANDLE psp;
	DAT_EVENT event;

	ck_dat(psp_try_listen(server, 40000, &psp));
	for (int i = 0; i < COUNT(eps); i++)
		eps[i] = side_create_ep(client, NULL);
	fake_wait_idle(0);
	alloc_starve_others(true);
	for (int i = 0; i < COUNT(eps); i++) {
		ck_dat(ep_connect(eps[i], (DAT_IA_ADDRESS_PTR)&server->address, 40000,
				  DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT,
				  DAT_CONNECT_DEFAULT_FLAG));
		fake_wait_idle(0);
		if (evd_dequeue(server->cr_evd, &event) == DAT_SUCCESS) {
			reported++;
			ck_assert_int_eq(ep_get_state(eps[i]),
					 DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
		} else {
			rejected++;
			event = expect_event(client->connect_evd,
					     DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
			ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, eps[i]);
		}
	}
	alloc_starve_others(false);
	ck_assert_uint_eq(rejected > 0, alloc_refused() > 0);
	ck_assert_uint_eq(obj_count(server->ia, DAT_HANDLE_TYPE_CR), reported);
	ck_assert_uint_eq(fake_alive(FAKE_CONN), 2 * reported);
	expect_no_event(client->connect_evd);
	expect_no_event(server->async_evd);
	for (int i = 0; i < COUNT(eps); i++)
		if (ep_get_state(eps[i]) == DAT_EP_STATE_DISCONNECTED) {
			ck_dat(ep_reset(eps[i]));
			connect_eps(client, eps[i], server, server->ep);
			break;
		}
}
END_TEST

START_TEST(a_thousand_requests_may_arrive_at_once)
{
	DAT_EVD_HANDLE evd = side_create_evd(server, 1000, DAT_EVD_CR_FLAG);
	DAT_EP_HANDLE ep;
	DAT_PSP_HANDLE psp;

	ck_dat(psp_create(server->ia, 40000, evd, DAT_PSP_CONSUMER_FLAG, &psp));
	fake_hold_cm(true);
	for (int i = 0; i < 1000; i++)
		psp_request(40000);
	fake_hold_cm(false);
	for (int i = 0; i < 1000; i++) {
		DAT_EVENT event = expect_event(evd, DAT_CONNECTION_REQUEST_EVENT);

		ep = side_create_ep(server, NULL);
		ck_dat(cr_accept(event.event_data.cr_arrival_event_data.cr_handle, ep, 0, NULL));
	}
	for (int i = 0; i < 1000; i++) {
		expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
		expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	}
	expect_no_event(client->connect_evd);
}
END_TEST

/* ---- endpoints that the provider makes ---- */

static DAT_PSP_HANDLE psp_listen_provider(DAT_EVD_HANDLE evd)
{
	DAT_PSP_HANDLE psp = POISON;

	ck_dat(psp_create(server->ia, 40000, evd, DAT_PSP_PROVIDER_FLAG, &psp));
	return psp;
}

/* The next request, and the endpoint that it brings. */
static DAT_CR_HANDLE take_request(DAT_EP_HANDLE *ep)
{
	DAT_CR_HANDLE cr = expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
				   .event_data.cr_arrival_event_data.cr_handle;
	DAT_CR_PARAM param;

	ck_dat(cr_query(cr, DAT_CR_FIELD_ALL, &param));
	*ep = param.local_ep_handle;
	return cr;
}

START_TEST(a_service_point_makes_endpoints_if_asked)
{
	DAT_PROVIDER_ATTR attr;
	DAT_PSP_PARAM param;
	DAT_PSP_HANDLE psp;
	DAT_CONN_QUAL qual;

	ck_dat(ia_query(server->ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, &attr));
	ck_assert_int_eq(attr.ep_creator, DAT_PSP_CREATES_EP_IFASKED);
	ck_dat(psp_create_any(server->ia, &qual, server->cr_evd, DAT_PSP_PROVIDER_FLAG, &psp));
	ck_dat(psp_query(psp, DAT_PSP_FIELD_ALL, &param));
	ck_assert_int_eq(param.psp_flags, DAT_PSP_PROVIDER_FLAG);
	ck_dat(psp_free(psp));
}
END_TEST

/* It has the defaults, but no more RDMA reads than the peer takes and sends. */
START_TEST(each_request_brings_an_endpoint_of_its_own)
{
	DAT_EP_ATTR attr = ep_attr_default(client), made;
	DAT_EP_PARAM param;
	DAT_EP_HANDLE ep[2], from;
	DAT_CR_HANDLE cr[2];

	psp_listen_provider(server->cr_evd);
	attr.max_rdma_read_in = 3;
	attr.max_rdma_read_out = 5;
	from = side_create_ep(client, &attr);
	ck_dat(ep_connect(from, (DAT_IA_ADDRESS_PTR)&server->address, 40000, DAT_TIMEOUT_INFINITE,
			  0, NULL, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	psp_request(40000);
	for (int i = 0; i < 2; i++)
		cr[i] = take_request(&ep[i]);
	ck_assert_ptr_ne(ep[0], ep[1]);
	made = ep_attr_default(server);
	made.max_rdma_read_in = 5;
	made.max_rdma_read_out = 3;
	ck_dat(ep_query(ep[0], DAT_EP_FIELD_ALL, &param));
	expect_same_attr(&param.ep_attr, &made);
	ck_assert_int_eq(param.ep_state, DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
	ck_assert_ptr_eq(param.ia_handle, server->ia);
	ck_assert_ptr_null(param.pz_handle);
	ck_assert_ptr_null(param.recv_evd_handle);
	ck_assert_ptr_null(param.request_evd_handle);
	ck_assert_ptr_null(param.connect_evd_handle);
	ck_assert_uint_eq(((struct sockaddr_in *)param.remote_ia_address_ptr)->sin_addr.s_addr,
			  client->address.sin_addr.s_addr);
	ck_assert_uint_ne(param.remote_port_qual, 0);
	ck_assert_uint_eq(fake_alive(FAKE_QP), 4); /* of the two sides, and of the client's two */
	for (int i = 0; i < 2; i++) {
		ck_dat(cr_reject_bare(cr[i]));
		expect_event(client->connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
		ck_dat_is(ep_free(ep[i]), BAD_HANDLE(EP)); /* it went with its request */
	}
	ck_assert_uint_eq(obj_count(server->ia, DAT_HANDLE_TYPE_EP), 1);
}
END_TEST

START_TEST(an_endpoint_of_the_provider_is_incomplete_at_first)
{
	DAT_EP_HANDLE ep;
	DAT_CR_HANDLE cr;

	psp_listen_provider(server->cr_evd);
	psp_request(40000);
	cr = take_request(&ep);
	ck_dat_is(cr_accept(cr, server->ep, 0, NULL), BAD_HANDLE(EP));
	ck_dat_is(cr_accept(cr, ep, 0, NULL), BAD_HANDLE(EP));
	ck_dat_is(cr_accept(cr, DAT_HANDLE_NULL, 0, NULL), BAD_STATE(EP_NOTREADY));
	ck_assert_int_eq(ep_get_state(ep), DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
	ck_dat(cr_reject_bare(cr));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
}
END_TEST

START_TEST(the_endpoint_of_a_request_that_vanished_waits_for_the_answer)
{
	DAT_EP_HANDLE from, ep;
	DAT_CR_HANDLE cr;

	psp_listen_provider(server->cr_evd);
	from = psp_request(40000);
	cr = take_request(&ep);
	ck_dat(ep_disconnect(from, DAT_CLOSE_ABRUPT_FLAG));
	fake_wait_idle(0);
	ck_assert_int_eq(ep_get_state(ep), DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
	ck_dat(cr_reject_bare(cr));
	ck_dat_is(ep_query(ep, 0, &(DAT_EP_PARAM){ 0 }), BAD_HANDLE(EP));
}
END_TEST

START_TEST(a_request_whose_endpoint_can_not_be_told_of_is_rejected)
{
	DAT_EVD_HANDLE evd = side_create_evd(server, 1, DAT_EVD_CR_FLAG | DAT_EVD_SOFTWARE_FLAG);

	psp_listen_provider(evd);
	post_se(evd, 1);
	psp_request(40000);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	ck_assert_uint_eq(obj_count(server->ia, DAT_HANDLE_TYPE_EP), 1);
	ck_assert_uint_eq(obj_count(server->ia, DAT_HANDLE_TYPE_CR), 0);
	expect_se(evd, 1);
	psp_request(40000);
	expect_event(evd, DAT_CONNECTION_REQUEST_EVENT);
	ck_assert_uint_eq(obj_count(server->ia, DAT_HANDLE_TYPE_EP), 2);
}
END_TEST

/* Each allocation that the service thread makes for a request fails in turn. */
START_TEST(a_request_without_memory_for_its_endpoint_is_rejected)
{
	unsigned rejected = 0, made = 0;
	DAT_EP_HANDLE from[30];
	DAT_EVENT event;

	psp_listen_provider(server->cr_evd);
	for (int i = 0; i < COUNT(from); i++)
		from[i] = side_create_ep(client, NULL);
	fake_wait_idle(0);
	alloc_starve_others(true);
	for (int i = 0; i < COUNT(from); i++) {
		ck_dat(ep_connect(from[i], (DAT_IA_ADDRESS_PTR)&server->address, 40000,
				  DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT,
				  DAT_CONNECT_DEFAULT_FLAG));
		fake_wait_idle(0);
		if (evd_dequeue(client->connect_evd, &event) == DAT_SUCCESS) {
			ck_assert_int_eq(event.event_number,
					 DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
			rejected++;
		} else {
			made++;
		}
		ck_assert_uint_eq(obj_count(server->ia, DAT_HANDLE_TYPE_CR), made);
		ck_assert_uint_eq(obj_count(server->ia, DAT_HANDLE_TYPE_EP), made + 1);
		ck_assert_uint_eq(fake_alive(FAKE_CONN), 2 * made);
	}
	alloc_starve_others(false);
	ck_assert_uint_gt(rejected, 0);
	psp_request(40000);
	expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT);
}
END_TEST

START_TEST(a_close_takes_down_the_endpoints_of_waiting_requests)
{
	DAT_EP_HANDLE ep;
	DAT_CR_HANDLE cr;

	ck_dat(psp_free(psp_listen_provider(server->cr_evd)));
	psp_listen_provider(server->cr_evd);
	psp_request(40000);
	cr = take_request(&ep);
	ck_dat_is(ep_free(ep), BAD_STATE(EP_TENTCONNPENDING));
	ck_dat_is(ia_close(server->ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	ck_dat(ia_close(server->ia, DAT_CLOSE_ABRUPT_FLAG));
	free(server->memory);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	ck_dat_is(cr_reject_bare(cr), BAD_HANDLE(CR));
	ck_dat_is(ep_free(ep), BAD_HANDLE(EP));
	*server = (struct side){ 0 };
	side_open(server, "fake1");
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("service points");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_loop_test(cases, qualifiers_map_to_ports, 0, COUNT(ports));
	tcase_add_test(cases, a_freed_psp_is_refused);
	tcase_add_test(cases, psp_create_checks_its_arguments);
	tcase_add_test(cases, an_address_and_port_has_one_listener);
	tcase_add_loop_test(cases, a_failed_listen_changes_nothing, 0, COUNT(listen_failures));
	tcase_add_test(cases, psp_create_without_memory_changes_nothing);
	tcase_add_test(cases, create_any_returns_unused_port_numbers);
	tcase_add_loop_test(cases, large_qualifiers_connect, 0, 3);
	tcase_add_test(cases, the_port_of_an_address_depends_on_its_family);
	tcase_add_test(cases, free_keeps_reported_requests);
	tcase_add_test(cases, requests_beyond_the_queue_are_rejected);
	tcase_add_test(cases, rejected_requests_take_no_memory);
	tcase_add_test(cases, a_request_without_memory_is_rejected);
	tcase_add_test(cases, a_thousand_requests_may_arrive_at_once);
	tcase_add_test(cases, a_service_point_makes_endpoints_if_asked);
	tcase_add_test(cases, each_request_brings_an_endpoint_of_its_own);
	tcase_add_test(cases, an_endpoint_of_the_provider_is_incomplete_at_first);
	tcase_add_test(cases, the_endpoint_of_a_request_that_vanished_waits_for_the_answer);
	tcase_add_test(cases, a_request_whose_endpoint_can_not_be_told_of_is_rejected);
	tcase_add_test(cases, a_request_without_memory_for_its_endpoint_is_rejected);
	tcase_add_test(cases, a_close_takes_down_the_endpoints_of_waiting_requests);
	return run_unit_cases(argc, argv);
}
