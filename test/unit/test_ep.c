/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints: create, query, free, and which call is legal in which state. The ends of connections
 * are in test_conn.c.
 */
#include <arpa/inet.h>

#include "alloc.h"
#include "harness.h"

static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;

static void setup(void)
{
	side_open(client, "fake0");
	side_open(server, "fake1");
}

/* An abrupt close frees endpoints in any state. */
static void teardown(void)
{
	pair_close_abrupt(&pair);
}

static DAT_RETURN ep_try_connect(DAT_EP_HANDLE ep, const struct side *to, DAT_CONN_QUAL qual)
{
	struct sockaddr_in addr = to->address;

	return ep_connect(ep, (DAT_IA_ADDRESS_PTR)&addr, qual, DAT_TIMEOUT_INFINITE, 0, NULL,
			  DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
}

/* A new endpoint of @from connects. Returns the request, which @to has not answered. */
static DAT_CR_HANDLE ep_request(struct side *from, struct side *to)
{
	DAT_EP_HANDLE ep = side_create_ep(from, NULL);
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;

	ck_dat(psp_create_any(to->ia, &qual, to->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	ck_dat(ep_try_connect(ep, to, qual));
	return expect_event(to->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
		.event_data.cr_arrival_event_data.cr_handle;
}

/* ---- create ---- */

START_TEST(a_freed_endpoint_is_refused)
{
	DAT_EP_HANDLE ep = POISON;
	DAT_EP_PARAM param;

	ck_dat(ep_create(client->ia, client->pz, client->recv_evd, client->request_evd,
			 client->connect_evd, NULL, &ep));
	ck_assert_int_eq(ep_get_state(ep), DAT_EP_STATE_UNCONNECTED);
	ck_dat(ep_free(ep));
	ck_dat_is(ep_free(ep), BAD_HANDLE(EP));
	ck_dat_is(ep_query(ep, DAT_EP_FIELD_ALL, &param), BAD_HANDLE(EP));
	ck_dat_is(ep_get_status(ep, NULL, NULL, NULL), BAD_HANDLE(EP));
	ck_dat_is(ep_reset(ep), BAD_HANDLE(EP));
	ck_dat_is(ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG), BAD_HANDLE(EP));
	ck_dat_is(ep_try_connect(ep, server, 1), BAD_HANDLE(EP));
	ck_dat_is(ep_recv_query(ep, NULL, NULL), BAD_HANDLE(EP));
	ck_dat_is(ep_set_watermark(ep, DAT_WATERMARK_INFINITE, DAT_WATERMARK_INFINITE),
		  BAD_HANDLE(EP));
}
END_TEST

/* The argument of ep_create that a case replaces by a bad handle. */
enum replaced {
	REPLACE_NOTHING,
	REPLACE_IA,
	REPLACE_PZ,
	REPLACE_RECV_EVD,
	REPLACE_REQUEST_EVD,
	REPLACE_CONNECT_EVD,
	REPLACE_OUTPUT,
};

static const struct {
	enum replaced what;
	DAT_RETURN want;
} replacements[] = {
	{ REPLACE_NOTHING, DAT_SUCCESS },
	{ REPLACE_IA, BAD_HANDLE(IA) },
	{ REPLACE_PZ, BAD_HANDLE(PZ) },
	{ REPLACE_RECV_EVD, BAD_HANDLE(EVD_RECV) },
	{ REPLACE_REQUEST_EVD, BAD_HANDLE(EVD_REQUEST) },
	{ REPLACE_CONNECT_EVD, BAD_HANDLE(EVD_CONN) },
	{ REPLACE_OUTPUT, BAD_ARG(7) },
};

static DAT_RETURN ep_create_with_replaced(enum replaced what, DAT_HANDLE with, DAT_EP_HANDLE *ep)
{
	DAT_EVD_HANDLE recv_evd = what == REPLACE_RECV_EVD ? with : client->recv_evd;
	DAT_EVD_HANDLE request_evd = what == REPLACE_REQUEST_EVD ? with : client->request_evd;
	DAT_EVD_HANDLE connect_evd = what == REPLACE_CONNECT_EVD ? with : client->connect_evd;

	return ep_create(what == REPLACE_IA ? with : client->ia,
			 what == REPLACE_PZ ? with : client->pz, recv_evd, request_evd, connect_evd,
			 NULL, what == REPLACE_OUTPUT ? NULL : ep);
}

START_TEST(ep_create_refuses_bad_handles)
{
	DAT_HANDLE bad[] = { POISON,	 client->lmr,	   client->cr_evd,
			     server->pz, server->recv_evd, server->connect_evd };
	/* connection events may go to an EVD of another IA */
	int count = COUNT(bad) - (replacements[_i].what == REPLACE_CONNECT_EVD);

	for (int i = 0; i < count; i++) {
		DAT_EP_HANDLE ep = POISON;

		ck_dat_is(ep_create_with_replaced(replacements[_i].what, bad[i], &ep),
			  replacements[_i].want);
		if (replacements[_i].want != DAT_SUCCESS)
			ck_assert_ptr_eq(ep, POISON);
	}
}
END_TEST

#define MODEL DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, 0)

static const struct {
	size_t field;
	DAT_COUNT value;
	DAT_RETURN want;
} attrs[] = {
#define FIELD(name) offsetof(DAT_EP_ATTR, name)
	{ FIELD(service_type), 2, BAD_ARG(6) },
	{ FIELD(qos), DAT_QOS_PREMIUM, DAT_SUCCESS },
	{ FIELD(qos), 0x10, DAT_SUCCESS },
	{ FIELD(recv_completion_flags), DAT_COMPLETION_SUPPRESS_FLAG, DAT_SUCCESS },
	{ FIELD(recv_completion_flags), 0x1f, DAT_SUCCESS },
	{ FIELD(recv_completion_flags), 0x20, DAT_SUCCESS },
	{ FIELD(request_completion_flags), DAT_COMPLETION_SOLICITED_WAIT_FLAG, DAT_SUCCESS },
	{ FIELD(request_completion_flags), 0x1f, DAT_SUCCESS },
	{ FIELD(request_completion_flags), 0x20, DAT_SUCCESS },
	{ FIELD(max_recv_dtos), -1, BAD_ARG(6) },
	{ FIELD(max_recv_dtos), 1 << 20, BAD_ARG(6) },
	{ FIELD(max_request_dtos), 0, DAT_SUCCESS },
	{ FIELD(max_recv_iov), 0, BAD_ARG(6) },
	{ FIELD(max_request_iov), 17, BAD_ARG(6) },
	{ FIELD(max_request_iov), 16, DAT_SUCCESS },
	{ FIELD(max_rdma_read_out), 17, BAD_ARG(6) },
	{ FIELD(max_rdma_read_out), 0, DAT_SUCCESS },
	{ FIELD(srq_soft_hw), 0x5a5a5a5a, DAT_SUCCESS },
};

START_TEST(ep_create_checks_the_attributes)
{
	DAT_EP_ATTR attr = ep_attr_default(client);
	DAT_EP_HANDLE ep = POISON;

	memcpy((char *)&attr + attrs[_i].field, &attrs[_i].value, sizeof(attrs[_i].value));
	ck_dat_is(ep_create(client->ia, client->pz, client->recv_evd, client->request_evd,
			    client->connect_evd, &attr, &ep),
		  attrs[_i].want);
	if (attrs[_i].want != DAT_SUCCESS)
		ck_assert_ptr_eq(ep, POISON);
}
END_TEST

START_TEST(endpoints_of_one_evd_may_have_different_completion_flags)
{
	DAT_EP_ATTR attr = ep_attr_default(client);
	DAT_EVD_HANDLE evd = side_create_evd(client, 64,
					     DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG);
	DAT_EP_HANDLE ep[4];

	attr.recv_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
	ck_dat(ep_create(client->ia, client->pz, evd, client->request_evd, client->connect_evd,
			 &attr, &ep[0]));
	ck_dat(ep_create(client->ia, client->pz, client->recv_evd, evd, client->connect_evd, &attr,
			 &ep[1]));
	ck_dat(ep_create(client->ia, client->pz, DAT_HANDLE_NULL, DAT_HANDLE_NULL, evd, NULL,
			 &ep[2]));
	attr.recv_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG;
	attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
	ck_dat(ep_create(client->ia, client->pz, evd, evd, evd, &attr, &ep[3]));
	for (int i = 0; i < COUNT(ep); i++)
		ck_dat(ep_free(ep[i]));
	ck_dat(evd_free(evd));
}
END_TEST

/* The device takes one segment per work request, so a read of four takes four. */
START_TEST(a_queue_pair_has_room_for_split_reads)
{
	DAT_EVD_HANDLE evd;
	DAT_EP_ATTR attr;

	side_close(client);
	fake_attr()->max_read_wr_sge = 1;
	side_open(client, "fake0");
	attr = ep_attr_default(client);
	attr.max_request_dtos = 10;
	attr.max_rdma_read_iov = 4;
	ck_dat(ep_free(client->ep));
	evd = side_create_evd(client, 1, DAT_EVD_DTO_FLAG);
	ck_dat(ep_create(client->ia, client->pz, client->recv_evd, evd, client->connect_evd, &attr,
			 &client->ep));
	ck_assert_uint_eq(fake_seen().qp.max_send, 40 + RING_SLACK);
	ck_assert_uint_ge(fake_seen().qp.max_send_sge, 4);
	ck_assert_uint_ge(tp_cq_depth(cq_of_evd(evd)), 40 + RING_SLACK);
	ck_dat(ep_free(client->ep));
	/* the endpoint took the room along: the next one finds as much */
	ck_assert_uint_eq(((struct evd *)evd)->dto_depth, 0);
	attr.max_rdma_read_iov = 1;
	ck_dat(ep_create(client->ia, client->pz, client->recv_evd, evd, client->connect_evd, &attr,
			 &client->ep));
	ck_assert_uint_eq(fake_seen().qp.max_send, 10 + RING_SLACK);
}
END_TEST

/* The requests of an endpoint share one queue. */
START_TEST(the_queue_has_segments_for_the_longest_kind_of_request)
{
	DAT_EP_ATTR attr = ep_attr_default(client);
	DAT_COUNT *const kinds[] = {
		&attr.max_request_iov,
		&attr.max_rdma_read_iov,
		&attr.max_rdma_write_iov,
	};
	DAT_EP_HANDLE ep;

	for (int i = 0; i < COUNT(kinds); i++)
		*kinds[i] = i == _i ? 3 : 1;
	ck_dat(ep_create(client->ia, client->pz, client->recv_evd, client->request_evd,
			 client->connect_evd, &attr, &ep));
	ck_assert_uint_eq(fake_seen().qp.max_send_sge, 3);
}
END_TEST

START_TEST(queried_attributes_create_another_endpoint)
{
	DAT_EP_PARAM param;
	DAT_EP_HANDLE ep;

	ck_dat(ep_query(client->ep, DAT_EP_FIELD_ALL, &param));
	ck_assert_int_eq(param.ep_attr.max_recv_dtos, 16);
	ck_assert_int_eq(param.ep_attr.max_request_dtos, 16);
	ck_assert_int_eq(param.ep_attr.max_request_iov, 4);
	ck_assert_int_eq(param.ep_attr.max_rdma_read_out, 8);
	param.ep_attr.max_recv_dtos = 100;
	ck_dat(ep_create(client->ia, client->pz, client->recv_evd, client->request_evd,
			 client->connect_evd, &param.ep_attr, &ep));
	ck_dat(ep_query(ep, DAT_EP_FIELD_ALL, &param));
	ck_assert_int_eq(param.ep_attr.max_recv_dtos, 100);
	ck_assert_uint_eq(fake_seen().qp.max_recv, 100);
	ck_assert_uint_eq(fake_seen().qp.max_send, 16 + RING_SLACK);
	ck_assert_uint_eq(fake_seen().qp.max_send_sge, 4);
}
END_TEST

START_TEST(an_incomplete_endpoint_can_not_connect)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 64);
	DAT_EP_PARAM param;
	DAT_EP_HANDLE ep;

	ck_dat(ep_create(client->ia, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
			 DAT_HANDLE_NULL, NULL, &ep));
	ck_dat(ep_query(ep, DAT_EP_FIELD_ALL, &param));
	ck_assert_ptr_null(param.pz_handle);
	ck_assert_ptr_null(param.recv_evd_handle);
	ck_assert_ptr_null(param.request_evd_handle);
	ck_assert_ptr_null(param.connect_evd_handle);
	ck_dat_is(ep_post_recv(ep, 1, &iov, cookie_of(1), 0), BAD_STATE(EP_NOTREADY));
	ck_dat_is(ep_try_connect(ep, server, 1), BAD_HANDLE(EVD_CONN));
	ck_dat_is(cr_accept(ep_request(server, client), ep, 0, NULL), BAD_STATE(EP_NOTREADY));
	ck_dat(ep_reset(ep));
	ck_dat(ep_free(ep));

	ck_dat(ep_create(client->ia, DAT_HANDLE_NULL, client->recv_evd, client->request_evd,
			 client->connect_evd, NULL, &ep));
	ck_dat_is(ep_try_connect(ep, server, 1), BAD_STATE(EP_NOTREADY));
	ck_dat_is(cr_accept(ep_request(server, client), ep, 0, NULL), BAD_STATE(EP_NOTREADY));
	ck_assert_int_eq(ep_get_state(ep), DAT_EP_STATE_UNCONNECTED);
	ck_dat(ep_free(ep));
}
END_TEST

START_TEST(an_endpoint_uses_its_pz_and_evds)
{
	ck_dat_is(pz_free(client->pz), BAD_STATE(PZ_IN_USE));
	ck_dat_is(evd_free(client->recv_evd), BAD_STATE(EVD_IN_USE));
	ck_dat_is(evd_free(client->request_evd), BAD_STATE(EVD_IN_USE));
	ck_dat_is(evd_free(client->connect_evd), BAD_STATE(EVD_IN_USE));
	ck_dat_is(ia_close(client->ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	side_close(client);
	side_open(client, "fake0");
}
END_TEST

START_TEST(a_failed_ep_create_changes_nothing)
{
	unsigned qps = fake_alive(FAKE_QP), eps = obj_count(client->ia, DAT_HANDLE_TYPE_EP), n = 1;
	DAT_EP_ATTR attr = ep_attr_default(client);
	DAT_EP_HANDLE ep = POISON;

	attr.max_recv_dtos = 200; /* so that the queues must grow */
	attr.max_request_dtos = 200;
	for (;; n++) {
		fake_fail_call(n);
		if (ep_create(client->ia, client->pz, client->recv_evd, client->request_evd,
			      client->connect_evd, &attr, &ep) == DAT_SUCCESS)
			break;
		ck_assert(fake_failed());
		ck_assert_ptr_eq(ep, POISON);
		ck_assert_uint_eq(fake_alive(FAKE_QP), qps);
		ck_assert_uint_eq(obj_count(client->ia, DAT_HANDLE_TYPE_EP), eps);
	}
	fake_fail_call(0);
	/* later attempts make fewer calls, because a queue that has grown does not shrink */
	ck_assert_uint_ge(n, 3);
	ck_dat(ep_free(ep));
	fake_fail("qp_create", ENOMEM, 1);
	ck_dat_is(ep_create(client->ia, client->pz, client->recv_evd, client->request_evd,
			    client->connect_evd, NULL, &ep),
		  NO_RESOURCE(TEP));
	side_close(client); /* the PZ and the EVDs are not in use */
	side_open(client, "fake0");
}
END_TEST

static unsigned uses_of_handle(DAT_HANDLE handle)
{
	return ((struct obj *)handle)->uses;
}

/* With EVDs that must grow, and without, so that the provider must create one. */
START_TEST(ep_create_without_memory_changes_nothing)
{
	const DAT_EVD_HANDLE recv = _i ? DAT_HANDLE_NULL : client->recv_evd,
			     request = _i ? DAT_HANDLE_NULL : client->request_evd;
	DAT_EP_ATTR attr = ep_attr_default(client);

	attr.max_recv_dtos = attr.max_request_dtos = 200;
	for (int i = 0; i < 40; i++) {
		unsigned qps = fake_alive(FAKE_QP), eps = obj_count(client->ia, DAT_HANDLE_TYPE_EP),
			 n = 1;
		unsigned pz_uses = uses_of_handle(client->pz),
			 recv_uses = uses_of_handle(client->recv_evd);
		unsigned conn_uses = uses_of_handle(client->connect_evd);
		DAT_EP_HANDLE ep = POISON;
		DAT_RETURN ret;

		for (; alloc_fail_nth(n),
		       ret = ep_create(client->ia, client->pz, recv, request, client->connect_evd,
				       &attr, &ep),
		       alloc_failed();
		     n++) {
			ck_dat_is(ret, NO_RESOURCE(MEMORY));
			ck_assert_ptr_eq(ep, POISON);
			ck_assert_uint_eq(fake_alive(FAKE_QP), qps);
			ck_assert_uint_eq(obj_count(client->ia, DAT_HANDLE_TYPE_EP), eps);
			ck_assert_uint_eq(uses_of_handle(client->pz), pz_uses);
			ck_assert_uint_eq(uses_of_handle(client->recv_evd), recv_uses);
			ck_assert_uint_eq(uses_of_handle(client->connect_evd), conn_uses);
		}
		ck_dat(ret);
		ck_assert_uint_ge(n, 3); /* at least one for each ring */
	}
}
END_TEST

/* ---- query, status ---- */

START_TEST(a_query_names_both_sides)
{
	DAT_EP_PARAM client_param, server_param;

	ck_dat(ep_query(client->ep, DAT_EP_FIELD_ALL, &client_param));
	ck_assert_ptr_eq(client_param.ia_handle, client->ia);
	ck_assert_ptr_eq(client_param.pz_handle, client->pz);
	ck_assert_ptr_eq(client_param.recv_evd_handle, client->recv_evd);
	ck_assert_ptr_eq(client_param.request_evd_handle, client->request_evd);
	ck_assert_ptr_eq(client_param.connect_evd_handle, client->connect_evd);
	ck_assert_ptr_null(client_param.srq_handle);
	ck_assert_int_eq(client_param.ep_state, DAT_EP_STATE_UNCONNECTED);
	ck_assert_ptr_nonnull(client_param.local_ia_address_ptr);
	ck_assert_ptr_nonnull(client_param.remote_ia_address_ptr);
	ck_assert_uint_eq(client_param.remote_port_qual, 0);
	ck_assert_uint_eq(client_param.local_port_qual, 0);
	pair_connect(&pair);
	ck_dat(ep_query(client->ep, DAT_EP_FIELD_ALL, &client_param));
	ck_dat(ep_query(server->ep, DAT_EP_FIELD_ALL, &server_param));
	ck_assert_int_eq(client_param.ep_state, DAT_EP_STATE_CONNECTED);
	ck_assert_uint_ne(client_param.remote_port_qual, 0);
	ck_assert_uint_eq(client_param.remote_port_qual, server_param.local_port_qual);
	ck_assert_uint_eq(client_param.local_port_qual, server_param.remote_port_qual);
	ck_assert_mem_eq(client_param.remote_ia_address_ptr, server_param.local_ia_address_ptr,
			 sizeof(struct sockaddr_in));
	ck_assert_mem_eq(client_param.local_ia_address_ptr, server_param.remote_ia_address_ptr,
			 sizeof(struct sockaddr_in));
	ck_dat_is(ep_query(client->ep, DAT_EP_FIELD_ALL, NULL), BAD_ARG(3));
	ck_dat(ep_query(client->ep, DAT_EP_FIELD_ALL | 0x800, &client_param));
	ck_dat(ep_query(client->ep, UINT64_C(1) << 40, &client_param));
}
END_TEST

START_TEST(the_status_counts_requests_until_they_are_dequeued)
{
	DAT_BOOLEAN recv_idle, request_idle;
	DAT_COUNT nbufs = -1, span = -1;

	ck_dat(ep_get_status(client->ep, NULL, &recv_idle, &request_idle));
	ck_assert(recv_idle && request_idle);
	post_recv(client, 1, 0, 64, 0);
	post_recv(client, 2, 64, 64, 0);
	ck_dat(ep_get_status(client->ep, NULL, &recv_idle, NULL));
	ck_assert(!recv_idle);
	ck_dat(ep_recv_query(client->ep, &nbufs, &span));
	ck_assert_int_eq(nbufs, 2);
	ck_assert_int_eq(span, 2);
	pair_connect(&pair);
	post_send(server, 3, 0, 64, 0);
	expect_dto(client->recv_evd, 1, DAT_DTO_SUCCESS);
	ck_dat(ep_recv_query(client->ep, &nbufs, NULL));
	ck_assert_int_eq(nbufs, 1);
	ck_dat(ep_get_status(server->ep, NULL, NULL, &request_idle));
	ck_assert(!request_idle); /* complete, but not dequeued */
	expect_dto(server->request_evd, 3, DAT_DTO_SUCCESS);
	ck_dat(ep_get_status(server->ep, NULL, NULL, &request_idle));
	ck_assert(request_idle);
}
END_TEST

static const struct {
	DAT_COUNT soft, hard;
	DAT_RETURN want;
} watermarks[] = {
	{ DAT_WATERMARK_INFINITE, DAT_WATERMARK_INFINITE, DAT_SUCCESS },
	{ -2, DAT_WATERMARK_INFINITE, BAD_ARG(2) },
	{ 17, DAT_WATERMARK_INFINITE, BAD_ARG(2) },
	{ DAT_WATERMARK_INFINITE, -2, BAD_ARG(3) },
	{ DAT_WATERMARK_INFINITE, 17, BAD_ARG(3) },
	{ 16, DAT_WATERMARK_INFINITE, MODEL },
	{ DAT_WATERMARK_INFINITE, 0, MODEL },
};

START_TEST(only_infinite_watermarks_are_supported)
{
	ck_dat_is(ep_set_watermark(client->ep, watermarks[_i].soft, watermarks[_i].hard),
		  watermarks[_i].want);
}
END_TEST

/* ---- the arguments of connect ---- */

static const struct connect_case {
	const char *addr; /* NULL: no address */
	int family;
	DAT_CONN_QUAL qual;
	DAT_TIMEOUT timeout;
	DAT_COUNT size;
	bool no_data;
	int qos, flags;
	DAT_RETURN want;
} connects[] = {
#define ADDRESS(why) DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_##why)
	{ NULL, 0, 7, 1000, 0, false, 0, 0, BAD_ARG(2) },
	{ "10.66.0.2", AF_INET, 0, 1000, 0, false, 0, 0, BAD_ARG(3) },
	{ "10.66.0.2", AF_INET, 7, 0, 0, false, 0, 0, BAD_ARG(4) },
	{ "10.66.0.2", AF_INET, 7, 1000, -1, false, 0, 0, BAD_ARG(5) },
	{ "10.66.0.2", AF_INET, 7, 1000, 57, false, 0, 0, BAD_ARG(5) },
	{ "10.66.0.2", AF_INET, 7, 1000, 1, true, 0, 0, BAD_ARG(6) },
	{ "10.66.0.2", AF_INET, 7, 1000, 0, false, DAT_QOS_LOW_LATENCY, 0, MODEL },
	{ "10.66.0.2", AF_INET, 7, 1000, 0, false, 0, 4, BAD_ARG(8) },
#if DAT_EDITION == 2
	{ "10.66.0.2", AF_INET, 7, 1000, 0, false, 0, DAT_CONNECT_MULTIPATH_FLAG, DAT_SUCCESS },
	{ "10.66.0.2", AF_INET, 7, 1000, 0, false, 0, DAT_CONNECT_MULTIPATH_REQUIRED_FLAG, MODEL },
#else
	{ "10.66.0.2", AF_INET, 7, 1000, 0, false, 0, 2, BAD_ARG(8) },
	{ "10.66.0.2", AF_INET, 7, 1000, 0, false, 0, DAT_CONNECT_MULTIPATH_FLAG, MODEL },
#endif
	{ "10.66.0.2", AF_UNIX, 7, 1000, 0, false, 0, 0, ADDRESS(MALFORMED) },
	{ "0.0.0.0", AF_INET, 7, 1000, 0, false, 0, 0, ADDRESS(UNSUPPORTED) },
	{ "255.255.255.255", AF_INET, 7, 1000, 0, false, 0, 0, ADDRESS(UNSUPPORTED) },
	{ "224.0.0.1", AF_INET, 7, 1000, 0, false, 0, 0, ADDRESS(UNSUPPORTED) },
	{ "239.1.2.3", AF_INET, 7, 1000, 0, false, 0, 0, ADDRESS(UNSUPPORTED) },
	{ "::", AF_INET6, 7, 1000, 0, false, 0, 0, ADDRESS(UNSUPPORTED) },
	{ "ff02::1", AF_INET6, 7, 1000, 0, false, 0, 0, ADDRESS(UNSUPPORTED) },
	/* the fake has no IPv6 address */
	{ "fe80::1", AF_INET6, 7, 1000, 0, false, 0, 0, ADDRESS(UNSUPPORTED) },
	{ "10.66.255.1", AF_INET, 7, 1000, 0, false, 0, 0, ADDRESS(UNREACHABLE) },
	{ "192.0.2.1", AF_INET, 7, 1000, 0, false, 0, 0, ADDRESS(UNREACHABLE) },
	/* without a family an address is taken for IPv4 */
	{ "224.0.0.1", AF_UNSPEC, 7, 1000, 0, false, 0, 0, ADDRESS(UNSUPPORTED) },
	{ "10.66.0.2", AF_UNSPEC, 7, 1000, 0, false, 0, 0, DAT_SUCCESS },
	{ "10.66.0.2", AF_INET, 7, 1000, 56, false, 0, 0, DAT_SUCCESS },
	{ "10.66.0.2", AF_INET, 7, 1000, 0, true, 0, 0, DAT_SUCCESS },
};

static struct sockaddr *connect_address(const struct connect_case *c, struct sockaddr_storage *to)
{
	struct sockaddr_in *in = (struct sockaddr_in *)to;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;

	if (!c->addr)
		return NULL;
	*to = (struct sockaddr_storage){ .ss_family = (sa_family_t)c->family };
	if (c->family == AF_INET6)
		inet_pton(AF_INET6, c->addr, &in6->sin6_addr);
	else
		inet_pton(AF_INET, c->addr, &in->sin_addr);
	in->sin_port = htons(4711); /* is ignored */
	return (struct sockaddr *)to;
}

START_TEST(connect_checks_its_arguments)
{
	const struct connect_case *c = &connects[_i];
	struct sockaddr_storage to;
	char data[64] = { 1 };
	DAT_COUNT nbufs;

	post_recv(client, 1, 0, 64, 0);
	ck_dat_is(ep_connect(client->ep, connect_address(c, &to), c->qual, c->timeout, c->size,
			     c->no_data ? NULL : data, (DAT_QOS)c->qos,
			     (DAT_CONNECT_FLAGS)c->flags),
		  c->want);
	if (c->want == DAT_SUCCESS)
		return;
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_UNCONNECTED);
	ck_dat(ep_recv_query(client->ep, &nbufs, NULL));
	ck_assert_int_eq(nbufs, 1);
	expect_no_event(client->connect_evd);
	pair_connect(&pair); /* the endpoint still connects */
}
END_TEST

START_TEST(a_failed_connect_changes_nothing)
{
	fake_fail("connect", ENOMEM, 1);
	ck_dat_is(ep_try_connect(client->ep, server, 7), NO_RESOURCE(TEP));
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_UNCONNECTED);
	pair_connect(&pair);
	pair_close(&pair);
	setup();
}
END_TEST

START_TEST(connect_without_memory_changes_nothing)
{
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;
	unsigned n = 1;
	DAT_RETURN ret;

	ck_dat(psp_create_any(server->ia, &qual, server->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	for (; alloc_fail_nth(n), ret = ep_try_connect(client->ep, server, qual), alloc_failed();
	     n++) {
		ck_dat_is(ret, NO_RESOURCE(MEMORY));
		ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_UNCONNECTED);
		ck_assert_uint_eq(fake_alive(FAKE_CONN), 0);
		ck_assert_uint_eq(((struct evd *)client->connect_evd)->reserved, 0);
		expect_no_event(client->connect_evd);
		expect_no_event(server->cr_evd);
	}
	ck_dat(ret);
	ck_assert_uint_ge(n, 3); /* slots for the events, and the private data of the reply */
	expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT);
}
END_TEST

/* ---- every call in every state ---- */

enum ep_call {
	CONNECT,
	ACCEPT,
	RESERVE, /* dat_rsp_create */
	ABRUPT,
	GRACEFUL,
	RESET,
	FREE,
	SEND,
	RECV,
};

#define STATE(name)  DAT_EP_STATE_##name
#define REFUSED(why) BAD_STATE(EP_##why)
#define FREED	     ((DAT_EP_STATE)-1)

static const struct transition {
	DAT_EP_STATE from;
	enum ep_call call;
	DAT_RETURN ret;
	DAT_EP_STATE to; /* unless refused */
	DAT_EVENT_NUMBER event;
} transitions[] = {
	{ STATE(UNCONNECTED), CONNECT, DAT_SUCCESS, STATE(ACTIVE_CONNECTION_PENDING), 0 },
	{ STATE(UNCONNECTED), ACCEPT, DAT_SUCCESS, STATE(COMPLETION_PENDING), 0 },
	{ STATE(UNCONNECTED), RESERVE, DAT_SUCCESS, STATE(RESERVED), 0 },
	{ STATE(UNCONNECTED), ABRUPT, REFUSED(UNCONNECTED), 0, 0 },
	{ STATE(UNCONNECTED), GRACEFUL, REFUSED(UNCONNECTED), 0, 0 },
	{ STATE(UNCONNECTED), RESET, DAT_SUCCESS, STATE(UNCONNECTED), 0 },
	{ STATE(UNCONNECTED), FREE, DAT_SUCCESS, FREED, 0 },
	{ STATE(UNCONNECTED), SEND, REFUSED(UNCONNECTED), 0, 0 },
	{ STATE(UNCONNECTED), RECV, DAT_SUCCESS, STATE(UNCONNECTED), 0 },
	{ STATE(RESERVED), CONNECT, REFUSED(RESERVED), 0, 0 },
	{ STATE(RESERVED), ACCEPT, REFUSED(RESERVED), 0, 0 },
	{ STATE(RESERVED), RESERVE, REFUSED(RESERVED), 0, 0 },
	{ STATE(RESERVED), ABRUPT, REFUSED(RESERVED), 0, 0 },
	{ STATE(RESERVED), GRACEFUL, REFUSED(RESERVED), 0, 0 },
	{ STATE(RESERVED), RESET, REFUSED(RESERVED), 0, 0 },
	{ STATE(RESERVED), FREE, REFUSED(RESERVED), 0, 0 },
	{ STATE(RESERVED), SEND, REFUSED(RESERVED), 0, 0 },
	{ STATE(RESERVED), RECV, DAT_SUCCESS, STATE(RESERVED), 0 },
	{ STATE(PASSIVE_CONNECTION_PENDING), CONNECT, REFUSED(PASSCONNPENDING), 0, 0 },
	{ STATE(PASSIVE_CONNECTION_PENDING), ACCEPT, REFUSED(PASSCONNPENDING), 0, 0 },
	{ STATE(PASSIVE_CONNECTION_PENDING), RESERVE, REFUSED(PASSCONNPENDING), 0, 0 },
	{ STATE(PASSIVE_CONNECTION_PENDING), ABRUPT, REFUSED(PASSCONNPENDING), 0, 0 },
	{ STATE(PASSIVE_CONNECTION_PENDING), GRACEFUL, REFUSED(PASSCONNPENDING), 0, 0 },
	{ STATE(PASSIVE_CONNECTION_PENDING), RESET, REFUSED(PASSCONNPENDING), 0, 0 },
	{ STATE(PASSIVE_CONNECTION_PENDING), FREE, REFUSED(PASSCONNPENDING), 0, 0 },
	{ STATE(PASSIVE_CONNECTION_PENDING), SEND, REFUSED(PASSCONNPENDING), 0, 0 },
	{ STATE(PASSIVE_CONNECTION_PENDING), RECV, DAT_SUCCESS, STATE(PASSIVE_CONNECTION_PENDING),
	  0 },
	/* it has no EVDs and no zone */
	{ STATE(TENTATIVE_CONNECTION_PENDING), CONNECT, BAD_HANDLE(EVD_CONN), 0, 0 },
	{ STATE(TENTATIVE_CONNECTION_PENDING), ACCEPT, REFUSED(TENTCONNPENDING), 0, 0 },
	{ STATE(TENTATIVE_CONNECTION_PENDING), RESERVE, REFUSED(TENTCONNPENDING), 0, 0 },
	{ STATE(TENTATIVE_CONNECTION_PENDING), ABRUPT, REFUSED(TENTCONNPENDING), 0, 0 },
	{ STATE(TENTATIVE_CONNECTION_PENDING), GRACEFUL, REFUSED(TENTCONNPENDING), 0, 0 },
	{ STATE(TENTATIVE_CONNECTION_PENDING), RESET, REFUSED(TENTCONNPENDING), 0, 0 },
	{ STATE(TENTATIVE_CONNECTION_PENDING), FREE, REFUSED(TENTCONNPENDING), 0, 0 },
	{ STATE(TENTATIVE_CONNECTION_PENDING), SEND, REFUSED(TENTCONNPENDING), 0, 0 },
	{ STATE(TENTATIVE_CONNECTION_PENDING), RECV, BAD_STATE(EP_NOTREADY), 0, 0 },
	{ STATE(ACTIVE_CONNECTION_PENDING), CONNECT, REFUSED(ACTCONNPENDING), 0, 0 },
	{ STATE(ACTIVE_CONNECTION_PENDING), ACCEPT, REFUSED(ACTCONNPENDING), 0, 0 },
	{ STATE(ACTIVE_CONNECTION_PENDING), RESERVE, REFUSED(ACTCONNPENDING), 0, 0 },
	{ STATE(ACTIVE_CONNECTION_PENDING), ABRUPT, DAT_SUCCESS, STATE(DISCONNECTED),
	  DAT_CONNECTION_EVENT_DISCONNECTED },
	{ STATE(ACTIVE_CONNECTION_PENDING), GRACEFUL, DAT_SUCCESS, STATE(DISCONNECTED),
	  DAT_CONNECTION_EVENT_DISCONNECTED },
	{ STATE(ACTIVE_CONNECTION_PENDING), RESET, REFUSED(ACTCONNPENDING), 0, 0 },
	{ STATE(ACTIVE_CONNECTION_PENDING), FREE, DAT_SUCCESS, FREED, 0 },
	{ STATE(ACTIVE_CONNECTION_PENDING), SEND, REFUSED(ACTCONNPENDING), 0, 0 },
	{ STATE(ACTIVE_CONNECTION_PENDING), RECV, DAT_SUCCESS, STATE(ACTIVE_CONNECTION_PENDING),
	  0 },
	{ STATE(COMPLETION_PENDING), CONNECT, REFUSED(COMPLPENDING), 0, 0 },
	{ STATE(COMPLETION_PENDING), ACCEPT, REFUSED(COMPLPENDING), 0, 0 },
	{ STATE(COMPLETION_PENDING), RESERVE, REFUSED(COMPLPENDING), 0, 0 },
	{ STATE(COMPLETION_PENDING), ABRUPT, DAT_SUCCESS, STATE(DISCONNECTED),
	  DAT_CONNECTION_EVENT_DISCONNECTED },
	{ STATE(COMPLETION_PENDING), GRACEFUL, DAT_SUCCESS, STATE(DISCONNECTED),
	  DAT_CONNECTION_EVENT_DISCONNECTED },
	{ STATE(COMPLETION_PENDING), RESET, REFUSED(COMPLPENDING), 0, 0 },
	{ STATE(COMPLETION_PENDING), FREE, DAT_SUCCESS, FREED, 0 },
	{ STATE(COMPLETION_PENDING), SEND, DAT_SUCCESS, STATE(COMPLETION_PENDING), 0 },
	{ STATE(COMPLETION_PENDING), RECV, DAT_SUCCESS, STATE(COMPLETION_PENDING), 0 },
	{ STATE(CONNECTED), CONNECT, REFUSED(CONNECTED), 0, 0 },
	{ STATE(CONNECTED), ACCEPT, REFUSED(CONNECTED), 0, 0 },
	{ STATE(CONNECTED), RESERVE, REFUSED(CONNECTED), 0, 0 },
	{ STATE(CONNECTED), ABRUPT, DAT_SUCCESS, STATE(DISCONNECTED),
	  DAT_CONNECTION_EVENT_DISCONNECTED },
	{ STATE(CONNECTED), GRACEFUL, DAT_SUCCESS, STATE(DISCONNECTED),
	  DAT_CONNECTION_EVENT_DISCONNECTED },
	{ STATE(CONNECTED), RESET, REFUSED(CONNECTED), 0, 0 },
	{ STATE(CONNECTED), FREE, DAT_SUCCESS, FREED, 0 },
	{ STATE(CONNECTED), SEND, DAT_SUCCESS, STATE(CONNECTED), 0 },
	{ STATE(CONNECTED), RECV, DAT_SUCCESS, STATE(CONNECTED), 0 },
	{ STATE(DISCONNECT_PENDING), CONNECT, REFUSED(DISCPENDING), 0, 0 },
	{ STATE(DISCONNECT_PENDING), ACCEPT, REFUSED(DISCPENDING), 0, 0 },
	{ STATE(DISCONNECT_PENDING), RESERVE, REFUSED(DISCPENDING), 0, 0 },
	{ STATE(DISCONNECT_PENDING), ABRUPT, DAT_SUCCESS, STATE(DISCONNECTED),
	  DAT_CONNECTION_EVENT_DISCONNECTED },
	{ STATE(DISCONNECT_PENDING), GRACEFUL, DAT_SUCCESS, STATE(DISCONNECT_PENDING), 0 },
	{ STATE(DISCONNECT_PENDING), RESET, REFUSED(DISCPENDING), 0, 0 },
	{ STATE(DISCONNECT_PENDING), FREE, DAT_SUCCESS, FREED, 0 },
	{ STATE(DISCONNECT_PENDING), SEND, REFUSED(DISCPENDING), 0, 0 },
	{ STATE(DISCONNECT_PENDING), RECV, DAT_SUCCESS, STATE(DISCONNECT_PENDING), 0 },
	{ STATE(DISCONNECTED), CONNECT, REFUSED(DISCONNECTED), 0, 0 },
	{ STATE(DISCONNECTED), ACCEPT, REFUSED(DISCONNECTED), 0, 0 },
	{ STATE(DISCONNECTED), RESERVE, REFUSED(DISCONNECTED), 0, 0 },
	{ STATE(DISCONNECTED), ABRUPT, DAT_SUCCESS, STATE(DISCONNECTED), 0 },
	{ STATE(DISCONNECTED), GRACEFUL, DAT_SUCCESS, STATE(DISCONNECTED), 0 },
	{ STATE(DISCONNECTED), RESET, DAT_SUCCESS, STATE(UNCONNECTED), 0 },
	{ STATE(DISCONNECTED), FREE, DAT_SUCCESS, FREED, 0 },
	{ STATE(DISCONNECTED), SEND, DAT_SUCCESS, STATE(DISCONNECTED), 0 },
	{ STATE(DISCONNECTED), RECV, DAT_SUCCESS, STATE(DISCONNECTED), 0 },
};

/* A request arrives at a service point of the client. Its endpoint becomes the client's. */
static void ep_enter_requested(DAT_CONN_QUAL qual)
{
	DAT_CR_PARAM param;
	DAT_EVENT event;

	ck_dat(ep_try_connect(side_create_ep(server, NULL), client, qual));
	event = expect_event(client->cr_evd, DAT_CONNECTION_REQUEST_EVENT);
	ck_dat(cr_query(event.event_data.cr_arrival_event_data.cr_handle, DAT_CR_FIELD_ALL,
			&param));
	client->ep = param.local_ep_handle;
}

/* Brings the client's endpoint into a state. Messages are held where the state would change. */
static void ep_enter_state(DAT_EP_STATE state)
{
	DAT_RSP_HANDLE rsp;
	DAT_PSP_HANDLE psp;
	DAT_CR_HANDLE cr;

	switch (state) {
	case STATE(RESERVED):
	case STATE(PASSIVE_CONNECTION_PENDING):
		ck_dat(rsp_create(client->ia, 8, client->ep, client->cr_evd, &rsp));
		if (state != STATE(RESERVED))
			ep_enter_requested(8);
		break;
	case STATE(TENTATIVE_CONNECTION_PENDING):
		ck_dat(psp_create(client->ia, 8, client->cr_evd, DAT_PSP_PROVIDER_FLAG, &psp));
		ep_enter_requested(8);
		break;
	case STATE(ACTIVE_CONNECTION_PENDING):
		fake_hold_cm(true);
		ck_dat(ep_try_connect(client->ep, server, 7));
		break;
	case STATE(COMPLETION_PENDING):
		cr = ep_request(server, client);
		fake_hold_cm(true);
		ck_dat(cr_accept(cr, client->ep, 0, NULL));
		break;
	case STATE(CONNECTED):
		pair_connect(&pair);
		break;
	case STATE(DISCONNECT_PENDING):
		pair_connect(&pair);
		fake_hold(true);
		post_send(client, 99, 0, 64, 0);
		ck_dat(ep_disconnect(client->ep, DAT_CLOSE_GRACEFUL_FLAG));
		break;
	case STATE(DISCONNECTED):
		pair_connect(&pair);
		ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
		expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
		break;
	default:
		break;
	}
	ck_assert_int_eq(ep_get_state(client->ep), state);
}

static DAT_RETURN ep_make_call(enum ep_call call, DAT_CR_HANDLE cr)
{
	DAT_RSP_HANDLE rsp;

	switch (call) {
	case RESERVE:
		return rsp_create(client->ia, 9, client->ep, client->cr_evd, &rsp);
	case CONNECT:
		fake_hold_cm(true);
		return ep_try_connect(client->ep, server, 7);
	case ACCEPT:
		fake_hold_cm(true);
		return cr_accept(cr, client->ep, 0, NULL);
	case ABRUPT:
		return ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG);
	case GRACEFUL:
		return ep_disconnect(client->ep, DAT_CLOSE_GRACEFUL_FLAG);
	case RESET:
		return ep_reset(client->ep);
	case FREE:
		return ep_free(client->ep);
	case SEND:
		return try_send(client, 1, 0, 64, 0);
	default:
		return try_recv(client, 1, 0, 64, 0);
	}
}

START_TEST(the_state_decides_which_calls_are_legal)
{
	const struct transition *transition = &transitions[_i];
	DAT_CR_HANDLE cr = ep_request(server, client);
	DAT_EP_STATE to = transition->ret == DAT_SUCCESS ? transition->to : transition->from;

	ep_enter_state(transition->from);
	ck_dat_is(ep_make_call(transition->call, cr), transition->ret);
	if (transition->event)
		expect_event(client->connect_evd, transition->event);
	expect_no_event(client->connect_evd);
	if (to == FREED)
		ck_dat_is(ep_get_status(client->ep, NULL, NULL, NULL), BAD_HANDLE(EP));
	else
		ck_assert_int_eq(ep_get_state(client->ep), to);
	if (transition->from == STATE(DISCONNECTED) &&
	    (transition->call == SEND || transition->call == RECV))
		expect_dto(transition->call == SEND ? client->request_evd : client->recv_evd, 1,
			   DAT_DTO_ERR_FLUSHED);
	if (transition->call == ACCEPT && transition->ret != DAT_SUCCESS)
		ck_dat(cr_reject_bare(cr)); /* the request is still valid */
}
END_TEST

/* ---- every member in every state ---- */

#define ATTRS(name) DAT_EP_FIELD_EP_ATTR_##name
#define ZONE	    DAT_EP_FIELD_PZ_HANDLE
#define PARTS                                                                                      \
	(DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_REQUEST_EVD_HANDLE |                          \
	 DAT_EP_FIELD_CONNECT_EVD_HANDLE | ATTRS(SERVICE_TYPE) | ATTRS(MAX_MESSAGE_SIZE) |         \
	 ATTRS(MAX_RDMA_SIZE) | ATTRS(QOS) | ATTRS(RECV_COMPLETION_FLAGS) |                        \
	 ATTRS(REQUEST_COMPLETION_FLAGS) | ATTRS(MAX_RECV_DTOS) | ATTRS(MAX_REQUEST_DTOS) |        \
	 ATTRS(MAX_RECV_IOV) | ATTRS(MAX_REQUEST_IOV) | ATTRS(MAX_RDMA_READ_IN) |                  \
	 ATTRS(MAX_RDMA_READ_OUT) | ATTRS(SRQ_SOFT_HW) | ATTRS(MAX_RDMA_READ_IOV) |                \
	 ATTRS(MAX_RDMA_WRITE_IOV))
#define SPECIFIC                                                                                   \
	(ATTRS(NUM_TRANSPORT_ATTR) | ATTRS(TRANSPORT_SPECIFIC_ATTR) | ATTRS(NUM_PROVIDER_ATTR) |   \
	 ATTRS(PROVIDER_SPECIFIC_ATTR))

static const struct {
	DAT_EP_STATE state;
	DAT_EP_PARAM_MASK legal;
	DAT_RETURN refusal; /* of the others */
} members[] = {
	{ STATE(UNCONNECTED), ZONE | PARTS | SPECIFIC, REFUSED(UNCONNECTED) },
	{ STATE(RESERVED), PARTS, REFUSED(RESERVED) },
	{ STATE(PASSIVE_CONNECTION_PENDING), PARTS, REFUSED(PASSCONNPENDING) },
	{ STATE(TENTATIVE_CONNECTION_PENDING), ZONE | PARTS, REFUSED(TENTCONNPENDING) },
	{ STATE(ACTIVE_CONNECTION_PENDING), 0, REFUSED(ACTCONNPENDING) },
	{ STATE(COMPLETION_PENDING), 0, REFUSED(COMPLPENDING) },
	{ STATE(CONNECTED), 0, REFUSED(CONNECTED) },
	{ STATE(DISCONNECT_PENDING), 0, REFUSED(DISCPENDING) },
	{ STATE(DISCONNECTED), 0, REFUSED(DISCONNECTED) },
};

/* Of two members, one that can be changed and one that can't, none is. */
START_TEST(the_state_decides_which_members_can_be_changed)
{
	DAT_EP_PARAM_MASK legal = members[_i].legal, rest = ZONE | PARTS | SPECIFIC;
	DAT_EP_PARAM param, changed;

	ep_enter_state(members[_i].state);
	ck_dat(ep_query(client->ep, DAT_EP_FIELD_ALL, &param));
	for (unsigned bit = 0; bit < 64; bit++) {
		DAT_EP_PARAM_MASK mask = UINT64_C(1) << bit;

		ck_dat_is(ep_modify(client->ep, mask, &param),
			  mask & legal		    ? DAT_SUCCESS
			  : mask & rest		    ? members[_i].refusal
			  : mask & DAT_EP_FIELD_ALL ? BAD_ARG(2)
						    : DAT_SUCCESS); /* it names no member */
	}
	ck_dat(ep_modify(client->ep, 0, &param));
	changed = param;
	changed.ep_attr.max_message_size = 5;
	if (legal != rest)
		ck_dat_is(ep_modify(client->ep, ATTRS(MAX_MESSAGE_SIZE) | SPECIFIC, &changed),
			  members[_i].refusal);
	ck_dat(ep_query(client->ep, DAT_EP_FIELD_ALL, &changed));
	ck_assert_uint_eq(changed.ep_attr.max_message_size, param.ep_attr.max_message_size);
	ck_assert_int_eq(ep_get_state(client->ep), members[_i].state);
}
END_TEST

/* ---- dat_ep_dup_connect ---- */

static DAT_RETURN ep_try_dup(DAT_EP_HANDLE ep, DAT_EP_HANDLE other)
{
	return ep_dup_connect(ep, other, DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT);
}

/* A connection to a service point of the server, which stays; of a qualifier that is no port. */
static DAT_PSP_HANDLE ep_connect_to_psp(void)
{
	DAT_PSP_HANDLE psp;

	ck_dat(psp_create(server->ia, 100000, server->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	ck_dat(ep_try_connect(client->ep, server, 100000));
	ck_dat(cr_accept(expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
				 .event_data.cr_arrival_event_data.cr_handle,
			 server->ep, 0, NULL));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	return psp;
}

START_TEST(dup_connect_goes_where_the_other_endpoint_went)
{
	DAT_EP_HANDLE ep = side_create_ep(client, NULL), peer = side_create_ep(server, NULL);
	DAT_CR_ARRIVAL_EVENT_DATA arrival;
	DAT_CONNECTION_EVENT_DATA data;
	DAT_CR_PARAM request;

	ep_connect_to_psp();
	ck_dat(ep_dup_connect(ep, client->ep, DAT_TIMEOUT_INFINITE, 3, (DAT_PVOID) "abc",
			      DAT_QOS_BEST_EFFORT));
	ck_assert_int_eq(ep_get_state(ep), DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
	arrival = expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
			  .event_data.cr_arrival_event_data;
	ck_assert_uint_eq(arrival.conn_qual, 100000);
	ck_dat(cr_query(arrival.cr_handle, DAT_CR_FIELD_ALL, &request));
	ck_assert_int_eq(request.private_data_size, 3);
	ck_assert_mem_eq(request.private_data, "abc", 3);
	ck_dat(cr_accept(arrival.cr_handle, peer, 2, (DAT_PVOID) "de"));
	data = expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED)
		       .event_data.connect_event_data;
	ck_assert_ptr_eq(data.ep_handle, ep);
	ck_assert_int_eq(data.private_data_size, 2);
	/* the copy is an original for the next one */
	ck_dat(ep_try_dup(side_create_ep(client, NULL), ep));
	expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT);
}
END_TEST

START_TEST(dup_connect_has_the_events_of_a_connect)
{
	DAT_EP_HANDLE ep = side_create_ep(client, NULL);
	DAT_PSP_HANDLE psp = ep_connect_to_psp();
	DAT_EVENT event;

	ck_dat(ep_try_dup(ep, client->ep));
	event = expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT);
	ck_dat(cr_reject_bare(event.event_data.cr_arrival_event_data.cr_handle));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
	ck_dat(ep_reset(ep));
	ck_dat(ep_dup_connect(ep, client->ep, SECONDS(1), 0, NULL, DAT_QOS_BEST_EFFORT));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_TIMED_OUT);
	ck_dat(ep_reset(ep));
	ck_dat(psp_free(psp));
	ck_dat(ep_try_dup(ep, client->ep));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	ck_dat(ep_reset(ep));
	fake_fail("connect", ENOMEM, 1);
	ck_dat_is(ep_try_dup(ep, client->ep), NO_RESOURCE(TEP));
	ck_assert_int_eq(ep_get_state(ep), DAT_EP_STATE_UNCONNECTED);
}
END_TEST

START_TEST(dup_connect_checks_its_arguments)
{
	DAT_EP_HANDLE ep = side_create_ep(client, NULL), incomplete;
	DAT_EP_HANDLE freed = side_create_ep(client, NULL), of_server;
	char data[64];

	ck_dat(ep_free(freed));
	ep_connect_to_psp();
	of_server = server->ep;
	ck_dat_is(ep_try_dup(POISON, client->ep), BAD_HANDLE(EP));
	ck_dat_is(ep_try_dup(freed, client->ep), BAD_HANDLE(EP));
	ck_dat_is(ep_try_dup(ep, POISON), BAD_HANDLE(EP));
	ck_dat_is(ep_try_dup(ep, freed), BAD_HANDLE(EP));
	ck_dat_is(ep_try_dup(ep, NULL), BAD_HANDLE(EP));
	ck_dat_is(ep_try_dup(ep, of_server), BAD_HANDLE(EP)); /* of another IA */
	ck_dat_is(ep_dup_connect(ep, client->ep, 0, 0, NULL, 0), BAD_ARG(3));
	ck_dat_is(ep_dup_connect(ep, client->ep, 1000, -1, data, 0), BAD_ARG(4));
	ck_dat_is(ep_dup_connect(ep, client->ep, 1000, 57, data, 0), BAD_ARG(4));
	ck_dat_is(ep_dup_connect(ep, client->ep, 1000, 1, NULL, 0), BAD_ARG(5));
	ck_dat_is(ep_dup_connect(ep, client->ep, 1000, 0, NULL, DAT_QOS_LOW_LATENCY), MODEL);
	ck_dat(ep_create(client->ia, client->pz, client->recv_evd, client->request_evd,
			 DAT_HANDLE_NULL, NULL, &incomplete));
	ck_dat_is(ep_try_dup(incomplete, client->ep), BAD_HANDLE(EVD_CONN));
	ck_dat(ep_create(client->ia, DAT_HANDLE_NULL, client->recv_evd, client->request_evd,
			 client->connect_evd, NULL, &incomplete));
	ck_dat_is(ep_try_dup(incomplete, client->ep), BAD_STATE(EP_NOTREADY));
	ck_assert_int_eq(ep_get_state(ep), DAT_EP_STATE_UNCONNECTED);
	expect_no_event(client->connect_evd);
	ck_dat(ep_try_dup(ep, client->ep));
}
END_TEST

/* Its peer listens nowhere, even if the endpoint was on the active side before. */
START_TEST(an_accepted_connection_has_no_target)
{
	DAT_EP_HANDLE ep = side_create_ep(client, NULL);

	ep_connect_to_psp();
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(ep_reset(client->ep));
	ck_dat(cr_accept(ep_request(server, client), client->ep, 0, NULL));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_dat_is(ep_try_dup(ep, client->ep), BAD_STATE(EP_CONNECTED));
	ck_assert_int_eq(ep_get_state(ep), DAT_EP_STATE_UNCONNECTED);
}
END_TEST

/* As the endpoint that connects, and as the one that shows the way. */
START_TEST(dup_connect_needs_a_connected_endpoint)
{
	DAT_EP_HANDLE ep = side_create_ep(client, NULL), other;

	ep_enter_state(members[_i].state);
	other = client->ep;
	if (members[_i].state == STATE(CONNECTED))
		ck_dat(ep_try_dup(ep, other));
	else
		ck_dat_is(ep_try_dup(ep, other), members[_i].refusal);
	if (members[_i].state != STATE(UNCONNECTED) &&
	    members[_i].state != STATE(TENTATIVE_CONNECTION_PENDING)) /* it has no EVDs */
		ck_dat_is(ep_try_dup(other, other), members[_i].refusal);
}
END_TEST

START_TEST(unknown_flags_of_a_disconnect_are_ignored)
{
	const DAT_CLOSE_FLAGS graceful = (DAT_CLOSE_FLAGS)(2 | DAT_CLOSE_GRACEFUL_FLAG);

	pair_connect(&pair);
	ck_dat(ep_disconnect(client->ep, _i ? graceful : (DAT_CLOSE_FLAGS)2));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

/* ---- free and reset ---- */

START_TEST(free_discards_posted_receives)
{
	for (unsigned n = 1; n <= 4; n++)
		post_recv(client, n, 64 * n, 64, 0);
	ck_assert_uint_eq(fake_outstanding(), 4);
	ck_dat(ep_free(client->ep));
	ck_assert_uint_eq(fake_outstanding(), 0);
	ck_assert_uint_eq(fake_alive(FAKE_QP), 1);
	ck_dat(lmr_free(client->lmr));
}
END_TEST

START_TEST(free_gives_an_event_to_the_peer_only)
{
	for (unsigned n = 1; n <= 4; n++)
		post_recv(client, n, 64 * n, 64, 0);
	pair_connect(&pair);
	post_send(server, 1, 0, 64, 0);
	expect_dto(client->recv_evd, 1, DAT_DTO_SUCCESS);
	ck_dat(ep_free(client->ep));
	expect_no_event(client->connect_evd);
	expect_no_event(client->recv_evd);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

/*
 * Completions of two endpoints are in one queue when one endpoint is freed: at the sending or at
 * the receiving side.
 */
START_TEST(free_keeps_completions_of_other_endpoints)
{
	DAT_EP_HANDLE other_client = side_create_ep(client, NULL),
		      other_server = side_create_ep(server, NULL);
	DAT_LMR_TRIPLET from = segment(client, 0, 64), to = segment(server, 0, 64);

	pair_connect(&pair);
	connect_eps(client, other_client, server, other_server);
	ck_dat(ep_post_recv(other_server, 1, &to, cookie_of(5), 0));
	post_recv(server, 6, 64, 64, 0);
	post_send(client, 7, 0, 64, 0);
	ck_dat(ep_post_send(other_client, 1, &from, cookie_of(8), 0));
	if (_i) {
		ck_dat(ep_free(client->ep));
		expect_dto(client->request_evd, 8, DAT_DTO_SUCCESS);
		expect_no_event(client->request_evd);
	} else {
		ck_dat(ep_free(server->ep));
		expect_dto(server->recv_evd, 5, DAT_DTO_SUCCESS);
		expect_no_event(server->recv_evd);
	}
}
END_TEST

static void ep_disconnect_pair(void)
{
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

/* Returns when both service threads have nothing to do. */
static void ep_disconnect_server(void)
{
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	fake_wait_idle(0);
}

START_TEST(an_endpoint_connects_again_after_reset)
{
	for (int round = 0; round < 3; round++) {
		post_recv(server, 1, 0, 64, 0);
		post_recv(server, 2, 64, 64, 0);
		pair_connect(&pair);
		post_send(client, 3, 0, 64, 0);
		expect_dto(server->recv_evd, 1, DAT_DTO_SUCCESS);
		expect_dto(client->request_evd, 3, DAT_DTO_SUCCESS);
		ep_disconnect_pair();
		expect_dto(server->recv_evd, 2, DAT_DTO_ERR_FLUSHED);
		ck_dat(ep_reset(client->ep));
		ck_dat(ep_reset(server->ep));
		ck_dat(ep_reset(server->ep));
		ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_UNCONNECTED);
	}
	ck_assert_uint_eq(fake_alive(FAKE_QP), 2);
}
END_TEST

START_TEST(reset_of_an_unconnected_endpoint_keeps_receives)
{
	DAT_COUNT nbufs;

	post_recv(client, 1, 0, 64, 0);
	ck_dat(ep_reset(client->ep));
	ck_dat(ep_recv_query(client->ep, &nbufs, NULL));
	ck_assert_int_eq(nbufs, 1);
}
END_TEST

START_TEST(a_failed_reset_can_be_repeated)
{
	pair_connect(&pair);
	ep_disconnect_pair();
	fake_fail("qp_create", ENOMEM, 1);
	ck_dat_is(ep_reset(client->ep), NO_RESOURCE(TEP));
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_DISCONNECTED);
	post_recv(client, 1, 0, 64, 0); /* there is no queue pair */
	expect_dto(client->recv_evd, 1, DAT_DTO_ERR_FLUSHED);
	post_send(client, 2, 0, 64, 0);
	expect_dto(client->request_evd, 2, DAT_DTO_ERR_FLUSHED);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat(ep_reset(client->ep));
	ck_dat(ep_reset(server->ep));
	pair_connect(&pair);
}
END_TEST

/*
 * Events in the queue of the EVD are kept. Late completions of the old queue pair do not complete
 * requests of the new one.
 */
START_TEST(reset_keeps_events_and_drops_late_completions)
{
	DAT_EP_ATTR attr = ep_attr_default(client);

	attr.max_recv_dtos = 2; /* so that slots are used again */
	ck_dat(ep_free(client->ep));
	client->ep = side_create_ep(client, &attr);
	fake_quirks(FAKE_LATE_FLUSH);
	post_recv(client, 1, 0, 64, 0);
	post_recv(client, 2, 64, 64, 0);
	pair_connect(&pair);
	ep_disconnect_pair();
	ck_assert(fake_step()); /* the device completes 1, which was flushed already */
	ck_dat(ep_reset(client->ep));
	fake_quirks(0);
	post_recv(client, 3, 0, 64, 0);
	expect_dto(client->recv_evd, 1, DAT_DTO_ERR_FLUSHED);
	expect_dto(client->recv_evd, 2, DAT_DTO_ERR_FLUSHED);
	expect_no_event(client->recv_evd);
	ck_dat(ep_reset(server->ep));
	pair_connect(&pair);
	post_send(server, 4, 0, 64, 0);
	expect_dto(client->recv_evd, 3, DAT_DTO_SUCCESS);
}
END_TEST

/* ---- connection events at an EVD of another IA ---- */

/* Only an IA and an EVD, for the connection events of the client's endpoint. */
struct owner {
	DAT_IA_HANDLE ia;
	DAT_EVD_HANDLE async_evd, evd;
};

static struct owner owner_open(void)
{
	struct owner owner;

	owner.ia = ia_open_on("fake2", false, &owner.async_evd);
	ck_dat(evd_create(owner.ia, 4, DAT_HANDLE_NULL,
			  DAT_EVD_CONNECTION_FLAG | DAT_EVD_SOFTWARE_FLAG, &owner.evd));
	return owner;
}

/* The client gets a new endpoint, which reports its connection to the owner. */
static void report_to_owner(const struct owner *owner)
{
	ck_dat(ep_free(client->ep));
	ck_dat(ep_create(client->ia, client->pz, client->recv_evd, client->request_evd, owner->evd,
			 NULL, &client->ep));
}

/* The client connects; its event is not taken. */
static void connect_unseen(void)
{
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;
	DAT_EVENT event;

	ck_dat(psp_create_any(server->ia, &qual, server->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	ck_dat(ep_try_connect(client->ep, server, qual));
	event = expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT);
	ck_dat(cr_accept(event.event_data.cr_arrival_event_data.cr_handle, server->ep, 0, NULL));
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_dat(psp_free(psp));
	fake_wait_idle(0);
}

START_TEST(connection_events_may_go_to_the_evd_of_another_ia)
{
	struct owner owner = owner_open();
	DAT_EP_PARAM param;
	DAT_EVENT event;

	report_to_owner(&owner);
	ck_dat(ep_query(client->ep, DAT_EP_FIELD_ALL, &param));
	ck_assert_ptr_eq(param.connect_evd_handle, owner.evd);
	connect_unseen();
	event = expect_event(owner.evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, client->ep);
	expect_no_event(client->connect_evd);
	ck_dat_is(evd_free(owner.evd), BAD_STATE(EVD_IN_USE));
	ck_dat_is(ia_close(owner.ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	event = expect_event(owner.evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, client->ep);
	ck_dat(ep_free(client->ep));
	ck_dat(evd_free(owner.evd));
	ck_dat(ia_close(owner.ia, DAT_CLOSE_GRACEFUL_FLAG));
}
END_TEST

/* Whether one of the next @count EVDs, of any IA, gets the slot of a destroyed one. */
static bool slot_is_reused(DAT_EVD_HANDLE old, int count)
{
	DAT_EVD_HANDLE evds[200];
	bool found = false;

	for (int i = 0; i < count; i++) {
		evds[i] = side_create_evd(server, 1, DAT_EVD_SOFTWARE_FLAG);
		found |= evds[i] == old;
	}
	for (int i = 0; i < count; i++)
		ck_dat(evd_free(evds[i]));
	return found;
}

/* Its EVD had a CNO, and events in its queue, too. */
START_TEST(an_endpoint_outlives_the_owner_of_its_connection_evd)
{
	struct owner owner = owner_open();
	DAT_EP_HANDLE second;
	DAT_CNO_HANDLE cno;

	ck_dat(cno_create(owner.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(evd_modify_cno(owner.evd, cno));
	report_to_owner(&owner);
	ck_dat(ep_create(client->ia, client->pz, client->recv_evd, client->request_evd, owner.evd,
			 NULL, &second));
	connect_unseen();
	post_se(owner.evd, 1);
	ck_dat(ia_close(owner.ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_CONNECTED);
	post_recv(server, 1, 0, 64, 0);
	post_send(client, 2, 0, 64, 0);
	expect_dto(server->recv_evd, 1, DAT_DTO_SUCCESS);
	expect_dto(client->request_evd, 2, DAT_DTO_SUCCESS);
	for (int round = 0; round < 3; round++) { /* more events than were reserved */
		ep_disconnect_server();
		ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_DISCONNECTED);
		ck_dat(ep_reset(client->ep));
		ck_dat(ep_reset(server->ep));
		connect_unseen();
		ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_CONNECTED);
	}
	ck_dat_is(evd_free(owner.evd), DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
	ck_dat(ep_free(client->ep));
	ck_assert(!slot_is_reused(owner.evd, 40)); /* more than there are free slots */
	ck_dat(ep_free(second));
	ck_assert(slot_is_reused(owner.evd, 200));
}
END_TEST

START_TEST(a_destroyed_evd_that_no_endpoint_uses_is_free_at_once)
{
	struct owner owner = owner_open();

	report_to_owner(&owner);
	ck_dat(ep_free(client->ep));
	ck_dat(ia_close(owner.ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert(slot_is_reused(owner.evd, 200));
}
END_TEST

static void *connect_repeatedly(void *arg)
{
	(void)arg;
	for (int round = 0; round < 20; round++) {
		connect_unseen();
		ep_disconnect_server();
		ck_dat(ep_reset(client->ep));
		ck_dat(ep_reset(server->ep));
	}
	return NULL;
}

static void *attach_repeatedly(void *arg)
{
	const struct owner *owner = arg;

	for (int round = 0; round < 200; round++) {
		DAT_EP_HANDLE ep;
		DAT_RETURN ret = ep_create(client->ia, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
					   DAT_HANDLE_NULL, owner->evd, NULL, &ep);

		if (ret == DAT_SUCCESS)
			ck_dat(ep_free(ep));
	}
	return NULL;
}

/* Events are posted, and endpoints are created and freed, while the owner is closed. */
START_TEST(the_owner_of_a_connection_evd_is_closed_at_any_time)
{
	struct owner owner = owner_open();
	pthread_t connecting, attaching;
	DAT_CNO_HANDLE cno;

	ck_dat(cno_create(owner.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(evd_modify_cno(owner.evd, cno));
	report_to_owner(&owner);
	connecting = consumer_thread_start(connect_repeatedly, NULL);
	attaching = consumer_thread_start(attach_repeatedly, &owner);
	for (int n = 0; n < _i * 20; n++)
		sched_yield();
	ck_dat(ia_close(owner.ia, DAT_CLOSE_ABRUPT_FLAG));
	consumer_thread_join(connecting);
	consumer_thread_join(attaching);
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_UNCONNECTED);
	ck_dat(ep_free(client->ep));
	ck_assert(slot_is_reused(owner.evd, 200));
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("endpoints");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_test(cases, a_freed_endpoint_is_refused);
	tcase_add_loop_test(cases, ep_create_refuses_bad_handles, 0, COUNT(replacements));
	tcase_add_loop_test(cases, ep_create_checks_the_attributes, 0, COUNT(attrs));
	tcase_add_test(cases, endpoints_of_one_evd_may_have_different_completion_flags);
	tcase_add_test(cases, a_queue_pair_has_room_for_split_reads);
	tcase_add_loop_test(cases, the_queue_has_segments_for_the_longest_kind_of_request, 0, 3);
	tcase_add_test(cases, queried_attributes_create_another_endpoint);
	tcase_add_test(cases, an_incomplete_endpoint_can_not_connect);
	tcase_add_test(cases, an_endpoint_uses_its_pz_and_evds);
	tcase_add_test(cases, a_failed_ep_create_changes_nothing);
	tcase_add_loop_test(cases, ep_create_without_memory_changes_nothing, 0, 2);
	tcase_add_test(cases, a_query_names_both_sides);
	tcase_add_test(cases, the_status_counts_requests_until_they_are_dequeued);
	tcase_add_loop_test(cases, only_infinite_watermarks_are_supported, 0, COUNT(watermarks));
	tcase_add_loop_test(cases, connect_checks_its_arguments, 0, COUNT(connects));
	tcase_add_test(cases, a_failed_connect_changes_nothing);
	tcase_add_test(cases, connect_without_memory_changes_nothing);
	tcase_add_loop_test(cases, the_state_decides_which_calls_are_legal, 0, COUNT(transitions));
	tcase_add_loop_test(cases, the_state_decides_which_members_can_be_changed, 0,
			    COUNT(members));
	tcase_add_test(cases, dup_connect_goes_where_the_other_endpoint_went);
	tcase_add_test(cases, dup_connect_has_the_events_of_a_connect);
	tcase_add_test(cases, dup_connect_checks_its_arguments);
	tcase_add_test(cases, an_accepted_connection_has_no_target);
	tcase_add_loop_test(cases, dup_connect_needs_a_connected_endpoint, 0, COUNT(members));
	tcase_add_loop_test(cases, unknown_flags_of_a_disconnect_are_ignored, 0, 2);
	tcase_add_test(cases, free_discards_posted_receives);
	tcase_add_test(cases, free_gives_an_event_to_the_peer_only);
	tcase_add_loop_test(cases, free_keeps_completions_of_other_endpoints, 0, 2);
	tcase_add_test(cases, an_endpoint_connects_again_after_reset);
	tcase_add_test(cases, reset_of_an_unconnected_endpoint_keeps_receives);
	tcase_add_test(cases, a_failed_reset_can_be_repeated);
	tcase_add_test(cases, reset_keeps_events_and_drops_late_completions);
	tcase_add_test(cases, connection_events_may_go_to_the_evd_of_another_ia);
	tcase_add_test(cases, an_endpoint_outlives_the_owner_of_its_connection_evd);
	tcase_add_test(cases, a_destroyed_evd_that_no_endpoint_uses_is_free_at_once);
	tcase_add_loop_test(cases, the_owner_of_a_connection_evd_is_closed_at_any_time, 0, 10);
	return run_unit_cases(argc, argv);
}
