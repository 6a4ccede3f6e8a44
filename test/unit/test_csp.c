/* SPDX-License-Identifier: BSD-2-Clause */
/* Common service points of DAT 2.0, and the connect that names one by address and port. */
#include <netinet/in.h>

#include "alloc.h"
#include "harness.h"

#define PORT	   40000
#define MALFORMED  DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED)
#define PORT_TAKEN DAT_ERROR(DAT_PORT_IN_USE, 0)
#define NO_COMM	   DAT_ERROR(DAT_COMM_NOT_SUPPORTED, 0)

static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;
static DAT_COMM tcp = { .domain = AF_INET, .type = SOCK_STREAM, .protocol = IPPROTO_TCP };

static void setup(void)
{
	side_open(client, "fake0");
	side_open(server, "fake1");
}

static void teardown(void)
{
	pair_close_abrupt(&pair);
}

/* An address of IPv4 or IPv6 with a port; its network address is the server's, or none. */
static DAT_IA_ADDRESS_PTR address_of(int family, uint16_t port)
{
	static struct sockaddr_storage addr;
	struct sockaddr_in *in = (struct sockaddr_in *)&addr;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&addr;

	memset(&addr, 0, sizeof(addr));
	if (family == AF_INET6) {
		in6->sin6_port = htons(port);
	} else {
		*in = server->address;
		in->sin_port = htons(port);
	}
	addr.ss_family = (sa_family_t)family;
	return (DAT_IA_ADDRESS_PTR)&addr;
}

static DAT_RETURN try_csp(const struct side *side, uint16_t port, DAT_CSP_HANDLE *csp)
{
	return csp_create(side->ia, &tcp, address_of(AF_INET, port), side->cr_evd, csp);
}

static DAT_CSP_HANDLE csp_listen(void)
{
	DAT_CSP_HANDLE csp;

	ck_dat(try_csp(server, PORT, &csp));
	return csp;
}

/* A new endpoint of the client, which connects to that port of the server. */
static DAT_EP_HANDLE common_request(uint16_t port)
{
	DAT_EP_HANDLE ep = side_create_ep(client, NULL);

	ck_dat(ep_common_connect(ep, address_of(AF_INET, port), DAT_TIMEOUT_INFINITE, 3, "abc"));
	return ep;
}

static DAT_CR_ARRIVAL_EVENT_DATA next_arrival(void)
{
	return expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
		.event_data.cr_arrival_event_data;
}

/* ---- the arguments ---- */

static DAT_COMM dgram = { .domain = AF_INET, .type = SOCK_DGRAM, .protocol = IPPROTO_TCP };
static DAT_COMM udp = { .domain = AF_INET, .type = SOCK_STREAM, .protocol = IPPROTO_UDP };
static DAT_COMM local = { .domain = AF_UNIX, .type = SOCK_STREAM, .protocol = 0 };
static DAT_COMM any = { .domain = AF_INET, .type = SOCK_STREAM, .protocol = 0 };
static DAT_COMM six = { .domain = AF_INET6, .type = SOCK_STREAM, .protocol = IPPROTO_TCP };

enum csp_flaw { NO_FLAW, NO_IA, NO_EVD, DTO_EVD, FOREIGN_EVD, NO_ADDRESS, NO_OUTPUT };

static const struct {
	const char *why;
	enum csp_flaw flaw;
	DAT_COMM *comm;
	int family;
	uint16_t port;
	DAT_RETURN want;
} csps[] = {
	{ "no IA", NO_IA, &tcp, AF_INET, PORT, BAD_HANDLE(IA) },
	{ "no EVD", NO_EVD, &tcp, AF_INET, PORT, BAD_HANDLE(EVD_CR) },
	{ "an EVD without requests", DTO_EVD, &tcp, AF_INET, PORT, BAD_HANDLE(EVD_CR) },
	{ "an EVD of another IA", FOREIGN_EVD, &tcp, AF_INET, PORT, BAD_HANDLE(EVD_CR) },
	{ "no communicator", NO_FLAW, NULL, AF_INET, PORT, BAD_ARG(2) },
	{ "no address", NO_ADDRESS, &tcp, AF_INET, PORT, BAD_ARG(3) },
	{ "no output", NO_OUTPUT, &tcp, AF_INET, PORT, BAD_ARG(5) },
	{ "datagrams", NO_FLAW, &dgram, AF_INET, PORT, NO_COMM },
	{ "UDP", NO_FLAW, &udp, AF_INET, PORT, NO_COMM },
	{ "local sockets", NO_FLAW, &local, AF_INET, PORT, NO_COMM },
	{ "an address of another family", NO_FLAW, &tcp, AF_INET6, PORT, MALFORMED },
	{ "a communicator of another family", NO_FLAW, &six, AF_INET, PORT, MALFORMED },
	{ "an address without a family", NO_FLAW, &tcp, AF_UNSPEC, PORT, MALFORMED },
	{ "no port", NO_FLAW, &tcp, AF_INET, 0, MALFORMED },
	{ "no port, IPv6", NO_FLAW, &six, AF_INET6, 0, MALFORMED },
	{ "TCP", NO_FLAW, &tcp, AF_INET, PORT, DAT_SUCCESS },
	{ "any protocol", NO_FLAW, &any, AF_INET, 65535, DAT_SUCCESS },
	{ "IPv6", NO_FLAW, &six, AF_INET6, 1, DAT_SUCCESS },
};

START_TEST(csp_create_checks_its_arguments)
{
	const enum csp_flaw flaw = csps[_i].flaw;
	const DAT_EVD_HANDLE evds[] = {
		[NO_EVD] = POISON, [DTO_EVD] = server->recv_evd, [FOREIGN_EVD] = client->cr_evd
	};
	const bool is_of_evd = flaw == NO_EVD || flaw == DTO_EVD || flaw == FOREIGN_EVD;
	DAT_IA_ADDRESS_PTR address = address_of(csps[_i].family, csps[_i].port);
	DAT_CSP_HANDLE csp = POISON;

	ck_dat_is(csp_create(flaw == NO_IA ? server->pz : server->ia, csps[_i].comm,
			     flaw == NO_ADDRESS ? NULL : address,
			     is_of_evd ? evds[flaw] : server->cr_evd,
			     flaw == NO_OUTPUT ? NULL : &csp),
		  csps[_i].want);
	if (csps[_i].want != DAT_SUCCESS)
		ck_assert_ptr_eq(csp, POISON);
	ck_assert_uint_eq(fake_alive(FAKE_LISTENER), csps[_i].want == DAT_SUCCESS);
}
END_TEST

static const struct {
	int err;
	DAT_RETURN want;
} listen_failures[] = {
	{ EADDRINUSE, PORT_TAKEN },
	{ EACCES, BAD_ARG(3) }, /* a port that needs privileges */
	{ ENOMEM, NO_RESOURCE(DEVICE) },
};

START_TEST(a_failed_listen_changes_nothing)
{
	DAT_CSP_HANDLE csp = POISON;

	fake_fail("listen", listen_failures[_i].err, 1);
	ck_dat_is(try_csp(server, PORT, &csp), listen_failures[_i].want);
	ck_assert_ptr_eq(csp, POISON);
	ck_assert_uint_eq(obj_count(server->ia, DAT_HANDLE_TYPE_CSP), 0);
	ck_dat(evd_free(server->cr_evd)); /* nobody holds it */
	server->cr_evd = side_create_evd(server, 8, DAT_EVD_CR_FLAG);
	ck_dat(csp_free(csp_listen()));
}
END_TEST

START_TEST(csp_create_without_memory_changes_nothing)
{
	DAT_CSP_HANDLE csp = POISON;
	DAT_RETURN ret;
	unsigned n;

	for (n = 1; alloc_fail_nth(n), ret = try_csp(server, PORT, &csp), alloc_failed(); n++) {
		ck_dat_is(ret, NO_RESOURCE(MEMORY));
		ck_assert_ptr_eq(csp, POISON);
		ck_assert_uint_eq(fake_alive(FAKE_LISTENER), 0);
	}
	ck_dat(ret);
	ck_assert_uint_gt(n, 1);
	ck_dat(csp_free(csp));
}
END_TEST

/* ---- the service point ---- */

START_TEST(a_query_shows_copies_of_what_it_was_made_with)
{
	const DAT_CSP_HANDLE csp = csp_listen();
	struct sockaddr_in want = server->address;
	DAT_HANDLE_TYPE type;
	DAT_CSP_PARAM param;

	want.sin_port = htons(PORT);
	memset(address_of(AF_INET, 7), 0xee, sizeof(struct sockaddr_in)); /* where it was */
	memset(&param, 0xee, sizeof(param));
	ck_dat(csp_query(csp, DAT_CSP_FIELD_ALL, &param));
	ck_assert_ptr_eq(param.ia_handle, server->ia);
	ck_assert_ptr_ne(param.comm, &tcp);
	ck_assert_int_eq(param.comm->domain, AF_INET);
	ck_assert_int_eq(param.comm->type, SOCK_STREAM);
	ck_assert_int_eq(param.comm->protocol, IPPROTO_TCP);
	ck_assert_mem_eq(param.address_ptr, &want, sizeof(want));
	ck_assert_ptr_eq(param.evd_handle, server->cr_evd);
	ck_dat(handle_type(csp, &type));
	ck_assert_int_eq(type, DAT_HANDLE_TYPE_CSP);
	ck_dat_is(csp_query(csp, DAT_CSP_FIELD_ALL, NULL), BAD_ARG(3));
	ck_dat(csp_free(csp));
}
END_TEST

START_TEST(a_service_point_is_of_its_own_kind)
{
	const DAT_CSP_HANDLE csp = csp_listen();
	DAT_PSP_PARAM psp_param;
	DAT_CSP_PARAM param;
	DAT_PSP_HANDLE psp;

	ck_dat_is(psp_free(csp), BAD_HANDLE(PSP));
	ck_dat_is(rsp_free(csp), BAD_HANDLE(RSP));
	ck_dat_is(psp_query(csp, DAT_PSP_FIELD_ALL, &psp_param), BAD_HANDLE(PSP));
	ck_dat(psp_create(server->ia, PORT + 1, server->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	ck_dat_is(csp_free(psp), BAD_HANDLE(CSP));
	ck_dat_is(csp_query(psp, DAT_CSP_FIELD_ALL, &param), BAD_HANDLE(CSP));
	ck_dat(csp_free(csp));
	ck_dat_is(csp_free(csp), BAD_HANDLE(CSP));
	ck_dat_is(csp_query(csp, DAT_CSP_FIELD_ALL, &param), BAD_HANDLE(CSP));
}
END_TEST

START_TEST(it_holds_its_evd_and_its_ia)
{
	const DAT_CSP_HANDLE csp = csp_listen();

	ck_dat_is(evd_free(server->cr_evd), BAD_STATE(EVD_IN_USE));
	ck_dat_is(ia_close(server->ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	ck_dat(csp_free(csp));
	ck_assert_uint_eq(fake_alive(FAKE_LISTENER), 0);
	ck_dat(evd_free(server->cr_evd));
	server->cr_evd = side_create_evd(server, 8, DAT_EVD_CR_FLAG);
}
END_TEST

START_TEST(an_abrupt_close_ends_the_listening)
{
	struct side other = { 0 };

	side_open(&other, "fake1");
	ck_dat(csp_create(other.ia, &tcp, address_of(AF_INET, PORT), other.cr_evd,
			  &(DAT_CSP_HANDLE){ NULL }));
	ck_dat(ia_close(other.ia, DAT_CLOSE_ABRUPT_FLAG));
	free(other.memory);
	ck_assert_uint_eq(fake_alive(FAKE_LISTENER), 0);
	(void)csp_listen(); /* the port is free */
}
END_TEST

/* Each of them listens on a port; two on one port could not be told apart. */
START_TEST(a_port_has_one_service_point_of_any_kind)
{
	DAT_CSP_HANDLE csp = csp_listen(), second = POISON;
	DAT_PSP_HANDLE psp = POISON;
	DAT_RSP_HANDLE rsp = POISON;

	ck_dat_is(try_csp(server, PORT, &second), PORT_TAKEN);
	ck_dat_is(psp_create(server->ia, PORT, server->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp),
		  DAT_ERROR(DAT_CONN_QUAL_IN_USE, 0));
	ck_dat_is(rsp_create(server->ia, PORT, server->ep, server->cr_evd, &rsp),
		  DAT_ERROR(DAT_CONN_QUAL_IN_USE, 0));
	ck_dat(csp_free(csp));
	ck_dat(psp_create(server->ia, PORT, server->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	ck_dat_is(try_csp(server, PORT, &second), PORT_TAKEN);
	ck_dat(psp_free(psp));
	ck_dat(rsp_create(server->ia, PORT, server->ep, server->cr_evd, &rsp));
	ck_dat_is(try_csp(server, PORT, &second), PORT_TAKEN);
	ck_dat(rsp_free(rsp));
	ck_assert_ptr_eq(second, POISON);
	(void)csp_listen();
}
END_TEST

/* ---- requests ---- */

START_TEST(a_request_tells_the_service_point_and_connects)
{
	const DAT_CSP_HANDLE csp = csp_listen();
	const DAT_EP_HANDLE ep = common_request(PORT);
	const DAT_CR_ARRIVAL_EVENT_DATA arrival = next_arrival();
	DAT_CR_PARAM param;

	ck_assert_ptr_eq(arrival.sp_handle.csp_handle, csp);
	ck_assert_uint_eq(arrival.conn_qual, PORT);
	ck_dat(cr_query(arrival.cr_handle, DAT_CR_FIELD_ALL, &param));
	ck_assert_int_eq(param.private_data_size, 3);
	ck_assert_mem_eq(param.private_data, "abc", 3);
	ck_assert_ptr_null(param.local_ep_handle);
	ck_dat(cr_accept(arrival.cr_handle, server->ep, 0, NULL));
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_assert_ptr_eq(expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED)
				 .event_data.connect_event_data.ep_handle,
			 ep);
}
END_TEST

/* On the wire both are the same: the qualifier is the port. */
START_TEST(public_service_points_and_common_ones_take_each_others_connects)
{
	const DAT_CSP_HANDLE csp = csp_listen();
	DAT_EP_HANDLE ep = side_create_ep(client, NULL);
	DAT_PSP_HANDLE psp;

	ck_dat(ep_connect(ep, (DAT_IA_ADDRESS_PTR)&server->address, PORT, DAT_TIMEOUT_INFINITE, 0,
			  NULL, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	ck_assert_ptr_eq(next_arrival().sp_handle.csp_handle, csp);
	ck_dat(psp_create(server->ia, PORT + 1, server->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	(void)common_request(PORT + 1);
	ck_assert_ptr_eq(next_arrival().sp_handle.psp_handle, psp);
}
END_TEST

START_TEST(a_request_can_be_handed_to_and_from_it)
{
	const DAT_CSP_HANDLE csp = csp_listen();
	DAT_CR_ARRIVAL_EVENT_DATA arrival;
	DAT_PSP_HANDLE psp;

	ck_dat(psp_create(server->ia, PORT + 1, server->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	(void)common_request(PORT + 1);
	ck_dat(cr_handoff(next_arrival().cr_handle, PORT));
	arrival = next_arrival();
	ck_assert_ptr_eq(arrival.sp_handle.csp_handle, csp);
	ck_dat(cr_handoff(arrival.cr_handle, PORT + 1));
	ck_assert_ptr_eq(next_arrival().sp_handle.psp_handle, psp);
}
END_TEST

START_TEST(a_freed_service_point_is_asked_in_vain)
{
	ck_dat(csp_free(csp_listen()));
	(void)common_request(PORT);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
}
END_TEST

/* ---- the arguments of the connect ---- */

static char data[64];

static const struct {
	const char *why;
	int family; /* -1: no address */
	uint16_t port;
	DAT_TIMEOUT timeout;
	DAT_COUNT size;
	void *data;
	DAT_RETURN want;
} connects[] = {
	{ "no address", -1, PORT, 1000, 0, NULL, BAD_ARG(2) },
	{ "no port", AF_INET, 0, 1000, 0, NULL, MALFORMED },
	{ "no family", AF_UNSPEC, PORT, 1000, 0, NULL, MALFORMED },
	{ "a local address", AF_UNIX, PORT, 1000, 0, NULL, MALFORMED },
	{ "no time", AF_INET, PORT, 0, 0, NULL, BAD_ARG(3) },
	{ "negative size", AF_INET, PORT, 1000, -1, data, BAD_ARG(4) },
	{ "too much data", AF_INET, PORT, 1000, 57, data, BAD_ARG(4) },
	{ "no data", AF_INET, PORT, 1000, 1, NULL, BAD_ARG(5) },
	{ "nobody's address", AF_INET6, PORT, 1000, 0, NULL,
	  DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED) },
	{ "as much data as possible", AF_INET, PORT, 1000, 56, data, DAT_SUCCESS },
};

START_TEST(common_connect_checks_its_arguments)
{
	DAT_IA_ADDRESS_PTR address = address_of(connects[_i].family, connects[_i].port);
	const DAT_EP_STATE after = connects[_i].want == DAT_SUCCESS
					   ? DAT_EP_STATE_ACTIVE_CONNECTION_PENDING
					   : DAT_EP_STATE_UNCONNECTED;

	fake_hold_cm(true);
	ck_dat_is(ep_common_connect(client->ep, connects[_i].family < 0 ? NULL : address,
				    connects[_i].timeout, connects[_i].size, connects[_i].data),
		  connects[_i].want);
	ck_assert_int_eq(ep_get_state(client->ep), after);
}
END_TEST

START_TEST(common_connect_takes_an_endpoint_that_may_connect)
{
	DAT_EVD_HANDLE no_evd = DAT_HANDLE_NULL;
	DAT_EP_HANDLE ep;

	ck_dat_is(ep_common_connect(client->pz, address_of(AF_INET, PORT), 1000, 0, NULL),
		  BAD_HANDLE(EP));
	ck_dat(ep_create(client->ia, client->pz, client->recv_evd, client->request_evd, no_evd,
			 NULL, &ep));
	ck_dat_is(ep_common_connect(ep, address_of(AF_INET, PORT), 1000, 0, NULL),
		  BAD_HANDLE(EVD_CONN));
	(void)csp_listen();
	ep = common_request(PORT);
	ck_dat_is(ep_common_connect(ep, address_of(AF_INET, PORT), 1000, 0, NULL),
		  BAD_STATE(EP_ACTCONNPENDING));
}
END_TEST

/* The endpoint knows the port as its target. */
START_TEST(a_duplicate_connects_to_the_same_port)
{
	const DAT_CSP_HANDLE csp = csp_listen();
	const DAT_EP_HANDLE ep = common_request(PORT);

	ck_dat(cr_accept(next_arrival().cr_handle, server->ep, 0, NULL));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_dat(ep_dup_connect(client->ep, ep, DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT));
	ck_assert_ptr_eq(next_arrival().sp_handle.csp_handle, csp);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("common service points");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_loop_test(cases, csp_create_checks_its_arguments, 0, COUNT(csps));
	tcase_add_loop_test(cases, a_failed_listen_changes_nothing, 0, COUNT(listen_failures));
	tcase_add_test(cases, csp_create_without_memory_changes_nothing);
	tcase_add_test(cases, a_query_shows_copies_of_what_it_was_made_with);
	tcase_add_test(cases, a_service_point_is_of_its_own_kind);
	tcase_add_test(cases, it_holds_its_evd_and_its_ia);
	tcase_add_test(cases, an_abrupt_close_ends_the_listening);
	tcase_add_test(cases, a_port_has_one_service_point_of_any_kind);
	tcase_add_test(cases, a_request_tells_the_service_point_and_connects);
	tcase_add_test(cases, public_service_points_and_common_ones_take_each_others_connects);
	tcase_add_test(cases, a_request_can_be_handed_to_and_from_it);
	tcase_add_test(cases, a_freed_service_point_is_asked_in_vain);
	tcase_add_loop_test(cases, common_connect_checks_its_arguments, 0, COUNT(connects));
	tcase_add_test(cases, common_connect_takes_an_endpoint_that_may_connect);
	tcase_add_test(cases, a_duplicate_connects_to_the_same_port);
	return run_unit_cases(argc, argv);
}
