/* SPDX-License-Identifier: BSD-2-Clause */
/* Public service points, and the mapping of connection qualifiers to ports. */
#include <netinet/in.h>

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
	ck_assert_uint_eq(port_of_addr(&addr), 45248);
	addr = (struct sockaddr_storage){ .ss_family = AF_INET };
	((struct sockaddr_in *)&addr)->sin_port = htons(1);
	ck_assert_uint_eq(port_of_addr(&addr), 1);
	addr.ss_family = AF_UNIX;
	ck_assert_uint_eq(port_of_addr(&addr), 0);
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
	ck_dat_is(psp_query(psp, (DAT_PSP_PARAM_MASK)0x10, &param), BAD_ARG(2));
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

/* The provider attribute ep_creator says so. */
START_TEST(endpoints_created_by_the_provider_are_not_supported)
{
	DAT_PSP_HANDLE psp = POISON;
	DAT_CONN_QUAL qual = 77;

	ck_dat_is(psp_create(server->ia, 1, server->cr_evd, DAT_PSP_PROVIDER_FLAG, &psp),
		  DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, 0));
	ck_dat_is(psp_create_any(server->ia, &qual, server->cr_evd, DAT_PSP_PROVIDER_FLAG, &psp),
		  DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, 0));
	ck_assert_ptr_eq(psp, POISON);
	ck_assert_uint_eq(qual, 77);
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
		ck_dat(cr_reject(event.event_data.cr_arrival_event_data.cr_handle));
		event = expect_event(client->connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
		ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, eps[i]);
	}
	psp_request(40000);
	expect_event(evd, DAT_CONNECTION_REQUEST_EVENT);
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

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("service points");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_loop_test(cases, qualifiers_map_to_ports, 0, COUNT(ports));
	tcase_add_test(cases, a_freed_psp_is_refused);
	tcase_add_test(cases, psp_create_checks_its_arguments);
	tcase_add_test(cases, endpoints_created_by_the_provider_are_not_supported);
	tcase_add_test(cases, an_address_and_port_has_one_listener);
	tcase_add_loop_test(cases, a_failed_listen_changes_nothing, 0, COUNT(listen_failures));
	tcase_add_test(cases, psp_create_without_memory_changes_nothing);
	tcase_add_test(cases, create_any_returns_unused_port_numbers);
	tcase_add_loop_test(cases, large_qualifiers_connect, 0, 3);
	tcase_add_test(cases, the_port_of_an_address_depends_on_its_family);
	tcase_add_test(cases, free_keeps_reported_requests);
	tcase_add_test(cases, requests_beyond_the_queue_are_rejected);
	tcase_add_test(cases, a_request_without_memory_is_rejected);
	tcase_add_test(cases, a_thousand_requests_may_arrive_at_once);
	return run_unit_cases(argc, argv);
}
