/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dat_ep_modify: what changes, what stays, and what a refused call leaves. Which member can be
 * changed in which state is in test_ep.c.
 */
#include <sched.h>
#include <unistd.h>

#include "alloc.h"
#include "harness.h"
#include "race.h"

#define QUAL 43000

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

static DAT_EP_PARAM ep_param(DAT_EP_HANDLE ep)
{
	DAT_EP_PARAM param;

	ck_dat(ep_query(ep, DAT_EP_FIELD_ALL, &param));
	return param;
}

#define ATTR_BIT(name) DAT_EP_FIELD_EP_ATTR_##name

/* One member of the client's endpoint. */
#define modify(bit, member, value)                                                                 \
	ep_modify(client->ep, DAT_EP_FIELD_##bit, &(DAT_EP_PARAM){ .member = (value) })

/* All that is of use while an endpoint is unconnected. */
struct uses {
	unsigned qps, eps, pz, recv, request, connect;
};

static unsigned uses_of(DAT_HANDLE handle)
{
	return ((struct obj *)handle)->uses;
}

static struct uses uses_now(void)
{
	return (struct uses){
		.qps = fake_alive(FAKE_QP),
		.eps = obj_count(client->ia, DAT_HANDLE_TYPE_EP),
		.pz = uses_of(client->pz),
		.recv = uses_of(client->recv_evd),
		.request = uses_of(client->request_evd),
		.connect = uses_of(client->connect_evd),
	};
}

static void expect_unchanged(const DAT_EP_PARAM *param, const struct uses *uses)
{
	const DAT_EP_PARAM now = ep_param(client->ep);
	const struct uses uses_after = uses_now();

	expect_same_param(&now, param);
	ck_assert_mem_eq(&uses_after, uses, sizeof(*uses));
}

/* Each of @count receives of the client, with cookies from @first on, takes a message. */
static void expect_messages(DAT_EVD_HANDLE evd, unsigned first, unsigned count)
{
	for (unsigned n = first; n < first + count; n++) {
		memset(server->memory, (int)n, 64);
		memset(client->memory + 64 * n, 0, 64);
		post_send(server, n, 0, 64, 0);
		expect_dto(evd, n, DAT_DTO_SUCCESS);
		ck_assert_mem_eq(client->memory + 64 * n, server->memory, 64);
	}
}

static void post_recvs(unsigned first, unsigned count)
{
	for (unsigned n = first; n < first + count; n++)
		post_recv(client, n, 64 * n, 64, 0);
}

static DAT_COUNT recvs_posted(void)
{
	DAT_COUNT nbufs;

	ck_dat(ep_recv_query(client->ep, &nbufs, NULL));
	return nbufs;
}

/* ---- an endpoint that the provider made ---- */

/* The server's service point makes an endpoint for the client's connect. */
static DAT_CR_HANDLE request_provider(DAT_EP_HANDLE *made)
{
	DAT_PSP_HANDLE psp;
	DAT_CR_PARAM param;
	DAT_CR_HANDLE cr;

	ck_dat(psp_create(server->ia, QUAL, server->cr_evd, DAT_PSP_PROVIDER_FLAG, &psp));
	ck_dat(ep_connect(client->ep, (DAT_IA_ADDRESS_PTR)&server->address, QUAL,
			  DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT,
			  DAT_CONNECT_DEFAULT_FLAG));
	cr = expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
		     .event_data.cr_arrival_event_data.cr_handle;
	ck_dat(cr_query(cr, DAT_CR_FIELD_ALL, &param));
	*made = param.local_ep_handle;
	return cr;
}

#define WHOLE                                                                                      \
	(DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_REQUEST_EVD_HANDLE | \
	 DAT_EP_FIELD_CONNECT_EVD_HANDLE)

#define ALL_MEMBERS (DAT_EP_FIELD_EP_ATTR_ALL | WHOLE)

static DAT_EP_PARAM parts_of_server(void)
{
	return (DAT_EP_PARAM){
		.pz_handle = server->pz,
		.recv_evd_handle = server->recv_evd,
		.request_evd_handle = server->request_evd,
		.connect_evd_handle = server->connect_evd,
	};
}

START_TEST(an_endpoint_of_the_provider_is_completed_and_accepted)
{
	DAT_EP_PARAM parts = parts_of_server();
	DAT_CR_HANDLE cr = request_provider(&server->ep);

	ck_dat(ep_modify(server->ep, WHOLE, &parts));
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
	post_recv(server, 1, 0, 64, 0);
	ck_dat_is(ep_connect(server->ep, (DAT_IA_ADDRESS_PTR)&server->address, QUAL,
			     DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT, 0),
		  BAD_STATE(EP_TENTCONNPENDING));
	if (_i) { /* a failure in between changes nothing */
		fake_fail("accept", ENOMEM, 1);
		ck_dat_is(cr_accept(cr, DAT_HANDLE_NULL, 0, NULL), NO_RESOURCE(TEP));
		ck_assert_int_eq(ep_get_state(server->ep),
				 DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
		parts.ep_attr.max_recv_dtos = 30;
		ck_dat(ep_modify(server->ep, ATTR_BIT(MAX_RECV_DTOS), &parts));
	}
	ck_dat(cr_accept(cr, DAT_HANDLE_NULL, 0, NULL));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	post_send(client, 2, 0, 64, 0);
	expect_dto(server->recv_evd, 1, DAT_DTO_SUCCESS);
	post_recv(client, 3, 0, 64, 0);
	post_send(server, 4, 0, 64, 0);
	expect_dto(client->recv_evd, 3, DAT_DTO_SUCCESS);
	expect_dto(server->request_evd, 4, DAT_DTO_SUCCESS);
	ck_dat_is(ep_modify(server->ep, WHOLE, &parts), BAD_STATE(EP_CONNECTED));
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(ep_reset(server->ep)); /* it is an endpoint like any */
	ck_dat(ep_free(server->ep));
}
END_TEST

/* What a device is asked for. */
struct device_calls {
	unsigned qps, cqs, resizes, errors, destroys;
};

static struct device_calls calls_so_far(void)
{
	return (struct device_calls){
		.qps = fake_calls("qp_create"),
		.cqs = fake_calls("cq_create"),
		.resizes = fake_calls("cq_resize"),
		.errors = fake_calls("qp_error"),
		.destroys = fake_calls("qp_destroy"),
	};
}

/* One queue pair, as for an endpoint that the consumer makes. */
START_TEST(an_endpoint_of_the_provider_costs_the_device_what_any_does)
{
	DAT_EP_PARAM parts = parts_of_server();
	struct device_calls before, after;
	DAT_CR_HANDLE cr;

	before = calls_so_far();
	cr = request_provider(&server->ep);
	after = calls_so_far();
	ck_assert_mem_eq(&after, &before, sizeof(after)); /* nothing for the request */
	ck_dat(ep_modify(server->ep, WHOLE, &parts));
	ck_dat(cr_accept(cr, DAT_HANDLE_NULL, 0, NULL));
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	after = calls_so_far();
	before.qps++;
	ck_assert_mem_eq(&after, &before, sizeof(after));
}
END_TEST

/* Reject and handoff take the parts back. */
START_TEST(a_completed_endpoint_is_destroyed_with_its_request)
{
	DAT_EP_PARAM parts = parts_of_server();
	DAT_PZ_HANDLE zone;
	DAT_EP_HANDLE made;
	DAT_PSP_HANDLE psp;
	DAT_CR_HANDLE cr;

	ck_dat(pz_create(server->ia, &zone));
	parts.pz_handle = zone;
	cr = request_provider(&made);
	ck_dat(ep_modify(made, WHOLE, &parts));
	ck_dat_is(pz_free(zone), BAD_STATE(PZ_IN_USE));
	ck_assert_uint_eq(fake_alive(FAKE_QP), 3);
	if (_i) {
		ck_dat(psp_create(server->ia, QUAL + 1, server->cr_evd, DAT_PSP_CONSUMER_FLAG,
				  &psp));
		ck_dat(cr_handoff(cr, QUAL + 1));
	} else {
		ck_dat(cr_reject_bare(cr));
	}
	ck_assert_uint_eq(fake_alive(FAKE_QP), 2);
	ck_dat_is(ep_modify(made, WHOLE, &parts), BAD_HANDLE(EP));
	ck_dat(pz_free(zone));
}
END_TEST

/* ---- members ---- */

START_TEST(all_attributes_change_at_once)
{
	DAT_EP_PARAM want = ep_param(client->ep), now;

	want.ep_attr.max_message_size = 4096;
	want.ep_attr.max_rdma_size = 8192;
	want.ep_attr.recv_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
	want.ep_attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
	want.ep_attr.max_recv_dtos = 31;
	want.ep_attr.max_request_dtos = 33;
	want.ep_attr.max_recv_iov = 3;
	want.ep_attr.max_request_iov = 5;
	want.ep_attr.max_rdma_read_in = 2;
	want.ep_attr.max_rdma_read_out = 3;
	want.ep_attr.max_rdma_read_iov = 6;
	want.ep_attr.max_rdma_write_iov = 7;
	ck_dat(ep_modify(client->ep, DAT_EP_FIELD_EP_ATTR_ALL, &want));
	now = ep_param(client->ep);
	expect_same_param(&now, &want);
	ck_assert_uint_eq(fake_seen().qp.max_recv, 31);
	ck_assert_uint_eq(fake_seen().qp.max_send, 33 + RING_SLACK);
	ck_assert_uint_eq(fake_seen().qp.max_recv_sge, 3);
	ck_assert_uint_eq(fake_seen().qp.max_send_sge, 7);
	ck_assert_uint_eq(fake_alive(FAKE_QP), 2);
	for (unsigned n = 0; n < 31; n++)
		post_recv(client, n, 0, 64, DAT_COMPLETION_UNSIGNALLED_FLAG);
	ck_dat_is(try_recv(client, 31, 0, 64, 0), NO_RESOURCE(MEMORY));
	pair_connect(&pair);
}
END_TEST

/* What the consumer leaves open is as in dat_ep_create. */
START_TEST(a_size_of_0_is_the_limit_of_the_device)
{
	DAT_IA_ATTR ia;

	ck_dat(ia_query(client->ia, NULL, DAT_IA_FIELD_ALL, &ia, 0, NULL));
	ck_dat(modify(EP_ATTR_MAX_MESSAGE_SIZE, ep_attr.max_message_size, 0));
	ck_dat(modify(EP_ATTR_MAX_RDMA_SIZE, ep_attr.max_rdma_size, 0));
	ck_dat(modify(EP_ATTR_MAX_RDMA_READ_IOV, ep_attr.max_rdma_read_iov, 0));
	ck_assert_uint_eq(ep_param(client->ep).ep_attr.max_message_size, ia.max_message_size);
	ck_assert_uint_eq(ep_param(client->ep).ep_attr.max_rdma_size, ia.max_rdma_size);
	ck_assert_int_eq(ep_param(client->ep).ep_attr.max_rdma_read_iov, 4);
}
END_TEST

START_TEST(members_that_are_not_selected_are_not_looked_at)
{
	DAT_EP_PARAM garbage, want = ep_param(client->ep), now;

	memset(&garbage, 0x5a, sizeof(garbage));
	garbage.ep_attr.max_recv_dtos = 20;
	ck_dat(ep_modify(client->ep, ATTR_BIT(MAX_RECV_DTOS), &garbage));
	want.ep_attr.max_recv_dtos = 20;
	now = ep_param(client->ep);
	expect_same_param(&now, &want);
	ck_dat(ep_modify(client->ep, 0, &garbage));
}
END_TEST

START_TEST(only_known_members_can_be_changed)
{
	DAT_EP_PARAM param = ep_param(client->ep);
	struct uses uses = uses_now();
	DAT_EP_HANDLE freed = side_create_ep(client, NULL);

	ck_dat_is(ep_modify(client->ep, DAT_EP_FIELD_PZ_HANDLE, NULL), BAD_ARG(3));
	/* these bits name no member, but for the first one in DAT 2.0: the SRQ */
	ck_dat_is(ep_modify(client->ep, 0x800, &param), OF_EDITION(DAT_SUCCESS, BAD_ARG(2)));
	ck_dat(ep_modify(client->ep, UINT64_C(1) << 31, &param));
	ck_dat(ep_modify(client->ep, UINT64_C(1) << 63, &param));
	ck_dat_is(ep_modify(client->ep, DAT_EP_FIELD_ALL, &param), BAD_ARG(2));
	ck_dat_is(ep_modify(client->ep, DAT_EP_FIELD_SRQ_HANDLE | DAT_EP_FIELD_PZ_HANDLE, &param),
		  BAD_ARG(2));
	ck_dat_is(ep_modify(POISON, DAT_EP_FIELD_PZ_HANDLE, &param), BAD_HANDLE(EP));
	ck_dat(ep_free(freed));
	ck_dat_is(ep_modify(freed, DAT_EP_FIELD_PZ_HANDLE, &param), BAD_HANDLE(EP));
	expect_unchanged(&param, &uses);
}
END_TEST

#define FIELD(name) offsetof(DAT_EP_PARAM, ep_attr.name)

static const struct {
	DAT_EP_PARAM_MASK bit;
	size_t at;
	DAT_COUNT value;
	DAT_RETURN want;
} values[] = {
	{ ATTR_BIT(SERVICE_TYPE), FIELD(service_type), 2, BAD_ARG(3) },
	{ ATTR_BIT(QOS), FIELD(qos), DAT_QOS_PREMIUM, DAT_SUCCESS },
	{ ATTR_BIT(QOS), FIELD(qos), 0x10, DAT_SUCCESS },
	{ ATTR_BIT(RECV_COMPLETION_FLAGS), FIELD(recv_completion_flags), 0x1f, DAT_SUCCESS },
	{ ATTR_BIT(RECV_COMPLETION_FLAGS), FIELD(recv_completion_flags), 0x20, DAT_SUCCESS },
	{ ATTR_BIT(REQUEST_COMPLETION_FLAGS), FIELD(request_completion_flags), 0x20, DAT_SUCCESS },
	{ ATTR_BIT(MAX_RECV_DTOS), FIELD(max_recv_dtos), -1, BAD_ARG(3) },
	{ ATTR_BIT(MAX_RECV_DTOS), FIELD(max_recv_dtos), 1 << 20, BAD_ARG(3) },
	{ ATTR_BIT(MAX_REQUEST_DTOS), FIELD(max_request_dtos), 1 << 20, BAD_ARG(3) },
	{ ATTR_BIT(MAX_REQUEST_DTOS), FIELD(max_request_dtos), 0, DAT_SUCCESS },
	{ ATTR_BIT(MAX_RECV_IOV), FIELD(max_recv_iov), 0, BAD_ARG(3) },
	{ ATTR_BIT(MAX_RECV_IOV), FIELD(max_recv_iov), 17, BAD_ARG(3) },
	{ ATTR_BIT(MAX_REQUEST_IOV), FIELD(max_request_iov), 17, BAD_ARG(3) },
	{ ATTR_BIT(MAX_RDMA_READ_IN), FIELD(max_rdma_read_in), 17, BAD_ARG(3) },
	{ ATTR_BIT(MAX_RDMA_READ_IN), FIELD(max_rdma_read_in), 0, DAT_SUCCESS },
	{ ATTR_BIT(MAX_RDMA_READ_OUT), FIELD(max_rdma_read_out), -1, BAD_ARG(3) },
	{ ATTR_BIT(MAX_RDMA_READ_IOV), FIELD(max_rdma_read_iov), 17, BAD_ARG(3) },
	{ ATTR_BIT(MAX_RDMA_WRITE_IOV), FIELD(max_rdma_write_iov), 17, BAD_ARG(3) },
	{ ATTR_BIT(SRQ_SOFT_HW), FIELD(srq_soft_hw), 0x5a5a, DAT_SUCCESS },
	{ ATTR_BIT(NUM_TRANSPORT_ATTR), FIELD(ep_transport_specific_count), 0, DAT_SUCCESS },
	{ ATTR_BIT(NUM_TRANSPORT_ATTR), FIELD(ep_transport_specific_count), 1, DAT_SUCCESS },
	{ ATTR_BIT(NUM_PROVIDER_ATTR), FIELD(ep_provider_specific_count), 1, DAT_SUCCESS },
};

START_TEST(each_value_is_checked)
{
	DAT_EP_PARAM param = ep_param(client->ep), want = param;
	struct uses uses = uses_now();

	memcpy((char *)&want + values[_i].at, &values[_i].value, sizeof(values[_i].value));
	ck_dat_is(ep_modify(client->ep, values[_i].bit, &want), values[_i].want);
	if (values[_i].want != DAT_SUCCESS)
		expect_unchanged(&param, &uses);
	pair_connect(&pair); /* the endpoint still connects */
}
END_TEST

START_TEST(bad_handles_are_refused)
{
	const DAT_HANDLE bad[] = { POISON, client->lmr, client->cr_evd, server->pz,
				   server->recv_evd };
	DAT_EP_PARAM param = ep_param(client->ep);
	struct uses uses = uses_now();

	for (int i = 0; i < COUNT(bad); i++) {
		ck_dat_is(modify(PZ_HANDLE, pz_handle, bad[i]), BAD_ARG(3));
		ck_dat_is(modify(RECV_EVD_HANDLE, recv_evd_handle, bad[i]), BAD_ARG(3));
		ck_dat_is(modify(REQUEST_EVD_HANDLE, request_evd_handle, bad[i]), BAD_ARG(3));
		ck_dat_is(modify(CONNECT_EVD_HANDLE, connect_evd_handle, bad[i]), BAD_ARG(3));
	}
	expect_unchanged(&param, &uses);
	/* connection events may go to an EVD of another IA, as in dat_ep_create */
	ck_dat(modify(CONNECT_EVD_HANDLE, connect_evd_handle, server->connect_evd));
	connect_eps(&(struct side){ .connect_evd = server->connect_evd }, client->ep, server,
		    server->ep);
}
END_TEST

START_TEST(the_new_evds_and_zone_are_used_and_the_old_ones_are_free)
{
	struct side old = *client;
	DAT_LMR_TRIPLET iov;

	ck_dat(pz_create(client->ia, &client->pz));
	client->recv_evd = side_create_evd(client, 8, DAT_EVD_DTO_FLAG);
	client->request_evd = side_create_evd(client, 8, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG);
	client->connect_evd = side_create_evd(client, 8, DAT_EVD_CONNECTION_FLAG);
	ck_dat(ep_modify(client->ep, WHOLE,
			 &(DAT_EP_PARAM){ .pz_handle = client->pz,
					  .recv_evd_handle = client->recv_evd,
					  .request_evd_handle = client->request_evd,
					  .connect_evd_handle = client->connect_evd }));
	ck_dat(evd_free(old.recv_evd));
	ck_dat(evd_free(old.request_evd));
	ck_dat(evd_free(old.connect_evd));
	ck_dat(lmr_free(old.lmr));
	ck_dat(pz_free(old.pz));
	ck_dat_is(pz_free(client->pz), BAD_STATE(PZ_IN_USE));
	ck_dat_is(evd_free(client->recv_evd), BAD_STATE(EVD_IN_USE));
	ck_dat_is(evd_free(client->request_evd), BAD_STATE(EVD_IN_USE));
	ck_dat_is(evd_free(client->connect_evd), BAD_STATE(EVD_IN_USE));
	ck_dat(lmr_create_va(client->ia, DAT_MEM_TYPE_VIRTUAL,
			     (DAT_REGION_DESCRIPTION){ .for_va = client->memory }, SIDE_MEMORY,
			     client->pz, DAT_MEM_PRIV_ALL_FLAG, &client->lmr, &client->lmr_context,
			     &client->rmr_context, &(DAT_VLEN){ 0 }, &(DAT_VADDR){ 0 }));
	pair_connect(&pair);
	post_recvs(1, 1);
	expect_messages(client->recv_evd, 1, 1);
	iov = segment(client, 0, 64);
	post_recv(server, 2, 0, 64, 0);
	ck_dat(ep_post_send(client->ep, 1, &iov, cookie_of(3), 0));
	expect_dto(client->request_evd, 3, DAT_DTO_SUCCESS);
}
END_TEST

START_TEST(a_null_handle_detaches)
{
	ck_dat(ep_modify(client->ep, WHOLE, &(DAT_EP_PARAM){ 0 }));
	ck_assert_uint_eq(fake_alive(FAKE_QP), 1);
	ck_assert_ptr_null(ep_param(client->ep).pz_handle);
	ck_assert_ptr_null(ep_param(client->ep).recv_evd_handle);
	ck_dat(evd_free(client->recv_evd));
	ck_dat(evd_free(client->request_evd));
	ck_dat(evd_free(client->connect_evd));
	ck_dat_is(try_recv(client, 1, 0, 64, 0), BAD_STATE(EP_NOTREADY));
	/* a zone again, but no EVDs: completions go nowhere, and it can't connect */
	ck_dat(modify(PZ_HANDLE, pz_handle, client->pz));
	ck_assert_uint_eq(fake_alive(FAKE_QP), 2);
	post_recvs(1, 1);
	ck_assert_ptr_null(ep_param(client->ep).recv_evd_handle);
	ck_dat_is(ep_connect(client->ep, (DAT_IA_ADDRESS_PTR)&server->address, 7,
			     DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT, 0),
		  BAD_HANDLE(EVD_CONN));
	client->recv_evd = side_create_evd(client, 8, DAT_EVD_DTO_FLAG);
	client->connect_evd = side_create_evd(client, 8, DAT_EVD_CONNECTION_FLAG);
	ck_dat(modify(RECV_EVD_HANDLE, recv_evd_handle, client->recv_evd));
	ck_dat(modify(CONNECT_EVD_HANDLE, connect_evd_handle, client->connect_evd));
	pair_connect(&pair);
	expect_messages(client->recv_evd, 1, 1);
}
END_TEST

/* They keep the device as it is. */
START_TEST(members_without_effect_on_the_queue_pair_make_no_new_one)
{
	unsigned made = fake_calls("qp_create");
	DAT_EP_PARAM param = ep_param(client->ep);

	post_recvs(0, 16);
	param.connect_evd_handle = side_create_evd(client, 8, DAT_EVD_CONNECTION_FLAG);
	param.ep_attr.max_message_size = 77;
	param.ep_attr.max_rdma_read_in = 1;
	param.ep_attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
	ck_dat(ep_modify(client->ep, (DAT_EP_FIELD_EP_ATTR_ALL | WHOLE) & ~DAT_EP_FIELD_SRQ_HANDLE,
			 &param));
	ck_assert_uint_eq(fake_calls("qp_create"), made);
	ck_dat(evd_free(client->connect_evd));
	client->connect_evd = param.connect_evd_handle;
	pair_connect(&pair);
	expect_messages(client->recv_evd, 0, 16);
}
END_TEST

START_TEST(the_modes_of_evds_follow)
{
	DAT_EVD_PARAM param;

	ck_dat(modify(EP_ATTR_RECV_COMPLETION_FLAGS, ep_attr.recv_completion_flags,
		      DAT_COMPLETION_SOLICITED_WAIT_FLAG));
	ck_dat(modify(EP_ATTR_REQUEST_COMPLETION_FLAGS, ep_attr.request_completion_flags,
		      DAT_COMPLETION_UNSIGNALLED_FLAG));
	ck_dat(evd_query(client->recv_evd, DAT_EVD_FIELD_ALL, &param));
	ck_assert(param.evd_state & DAT_EVD_STATE_CONFIG_SOLICITED);
	ck_dat(evd_query(client->request_evd, DAT_EVD_FIELD_ALL, &param));
	ck_assert(param.evd_state & DAT_EVD_STATE_CONFIG_NOTIFY);
	ck_dat(modify(RECV_EVD_HANDLE, recv_evd_handle, DAT_HANDLE_NULL));
	ck_dat(evd_query(client->recv_evd, DAT_EVD_FIELD_ALL, &param));
	ck_assert_uint_eq(param.evd_state & DAT_EVD_STATE_CONFIG_THRESHOLD,
			  DAT_EVD_STATE_CONFIG_THRESHOLD);
	ck_assert_uint_eq(((struct evd *)client->recv_evd)->dto_depth, 0);
}
END_TEST

/* What has no effect any more is ignored, and what is too much is refused. */
START_TEST(posts_follow_the_new_attributes)
{
	DAT_LMR_TRIPLET iov[3] = { segment(client, 0, 8), segment(client, 8, 8),
				   segment(client, 16, 8) };
	DAT_RMR_TRIPLET from = target(server, 0, 24);
	DAT_EP_ATTR attr = ep_attr_default(client);
	struct ep *ep;

	attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
	client->ep = side_create_ep(client, &attr);
	ep = client->ep;
	ck_dat(modify(EP_ATTR_REQUEST_COMPLETION_FLAGS, ep_attr.request_completion_flags,
		      _i ? DAT_COMPLETION_UNSIGNALLED_FLAG : DAT_COMPLETION_DEFAULT_FLAG));
	ck_dat(modify(EP_ATTR_MAX_RDMA_READ_IOV, ep_attr.max_rdma_read_iov, _i ? 3 : 2));
	pair_connect(&pair);
	post_recv(server, 1, 0, 64, 0);
	post_send(client, 1, 0, 64, DAT_COMPLETION_UNSIGNALLED_FLAG);
	ck_assert_uint_eq(ep->sends.slots[0].flags, _i ? DAT_COMPLETION_UNSIGNALLED_FLAG : 0);
	ck_dat_is(ep_post_rdma_read(client->ep, 3, iov, cookie_of(2), &from, 0),
		  _i ? DAT_SUCCESS : BAD_ARG(2));
}
END_TEST

/* ---- RDMA reads on the wire ---- */

START_TEST(modified_rdma_reads_are_what_a_connect_requests)
{
	DAT_CR_HANDLE cr;
	DAT_EP_HANDLE made;

	ck_dat(modify(EP_ATTR_MAX_RDMA_READ_IN, ep_attr.max_rdma_read_in, 5));
	ck_dat(modify(EP_ATTR_MAX_RDMA_READ_OUT, ep_attr.max_rdma_read_out, 12));
	cr = request_provider(&made);
	ck_assert_uint_eq(fake_seen().cm.max_read_in, 5);
	ck_assert_uint_eq(fake_seen().cm.max_read_out, 12);
	ck_assert_int_eq(ep_param(made).ep_attr.max_rdma_read_in, 8);
	ck_assert_int_eq(ep_param(made).ep_attr.max_rdma_read_out, 5);
	server->ep = made;
	ck_dat(ep_modify(made, WHOLE | ATTR_BIT(MAX_RDMA_READ_IN),
			 &(DAT_EP_PARAM){ .pz_handle = server->pz,
					  .recv_evd_handle = server->recv_evd,
					  .request_evd_handle = server->request_evd,
					  .connect_evd_handle = server->connect_evd,
					  .ep_attr.max_rdma_read_in = 10 }));
	ck_dat(cr_accept(cr, DAT_HANDLE_NULL, 0, NULL));
	ck_assert_uint_eq(fake_seen().cm.max_read_in, 10);
	ck_assert_uint_eq(fake_seen().cm.max_read_out, 5);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	/* a number that the consumer gave is not lowered in the attributes */
	ck_assert_int_eq(ep_param(client->ep).ep_attr.max_rdma_read_out, 12);
	ck_assert_int_eq(ep_param(client->ep).ep_attr.max_rdma_read_in, 5);
}
END_TEST

/* The peer takes 3, and of the two numbers the consumer gave one. */
START_TEST(a_number_of_reads_that_was_not_given_is_lowered)
{
	DAT_EP_ATTR attr = ep_attr_default(server);

	attr.max_rdma_read_in = attr.max_rdma_read_out = 3;
	server->ep = side_create_ep(server, &attr);
	ck_dat(modify(EP_ATTR_MAX_RDMA_READ_OUT, ep_attr.max_rdma_read_out, 7));
	pair_connect(&pair);
	ck_assert_int_eq(ep_param(client->ep).ep_attr.max_rdma_read_out, 7);
	ck_assert_int_eq(ep_param(client->ep).ep_attr.max_rdma_read_in, 3);
}
END_TEST

/* ---- posted receives ---- */

static const struct {
	const char *why;
	DAT_EP_PARAM_MASK bit;
	size_t at;
	DAT_COUNT value;
} takes_queue_pair[] = {
	{ "more receives", ATTR_BIT(MAX_RECV_DTOS), FIELD(max_recv_dtos), 100 },
	{ "fewer receives", ATTR_BIT(MAX_RECV_DTOS), FIELD(max_recv_dtos), 10 },
	{ "more requests", ATTR_BIT(MAX_REQUEST_DTOS), FIELD(max_request_dtos), 100 },
	{ "segments", ATTR_BIT(MAX_REQUEST_IOV), FIELD(max_request_iov), 8 },
	{ "fewer segments", ATTR_BIT(MAX_RECV_IOV), FIELD(max_recv_iov), 2 },
	{ "read segments", ATTR_BIT(MAX_RDMA_READ_IOV), FIELD(max_rdma_read_iov), 8 },
	{ "write segments", ATTR_BIT(MAX_RDMA_WRITE_IOV), FIELD(max_rdma_write_iov), 8 },
};

START_TEST(posted_receives_move_to_the_new_queue_pair)
{
	unsigned made = fake_calls("qp_create");
	DAT_EP_PARAM param = ep_param(client->ep);
	DAT_LMR_TRIPLET iov[3] = { segment(client, 0, 32), segment(client, 0, 0),
				   segment(client, 32, 32) };

	ck_dat(modify(EP_ATTR_MAX_RECV_IOV, ep_attr.max_recv_iov, 3));
	ck_dat(ep_post_recv(client->ep, 3, iov, cookie_of(0), 0));
	post_recvs(1, 9);
	memcpy((char *)&param + takes_queue_pair[_i].at, &takes_queue_pair[_i].value,
	       sizeof(takes_queue_pair[_i].value));
	ck_dat(ep_modify(client->ep, takes_queue_pair[_i].bit, &param));
	ck_assert_uint_eq(fake_calls("qp_create"), made + 2);
	ck_assert_uint_eq(fake_alive(FAKE_QP), 2);
	ck_assert_uint_eq(fake_outstanding(), 10);
	ck_assert_int_eq(recvs_posted(), 10);
	/* once more, and with others behind them */
	param.ep_attr.max_recv_dtos = 12;
	ck_dat(ep_modify(client->ep, ATTR_BIT(MAX_RECV_DTOS), &param));
	post_recvs(10, 2);
	ck_dat_is(try_recv(client, 12, 0, 64, 0), NO_RESOURCE(MEMORY));
	pair_connect(&pair);
	expect_messages(client->recv_evd, 0, 12);
	post_recvs(12, 1);
	expect_messages(client->recv_evd, 12, 1);
}
END_TEST

/* The new EVD gets their completions; without a zone they wait for the next one. */
START_TEST(posted_receives_survive_other_evds_and_zones)
{
	DAT_PZ_HANDLE zone;

	post_recvs(0, 4);
	ck_dat(pz_create(client->ia, &zone));
	ck_dat(modify(PZ_HANDLE, pz_handle, zone));
	ck_dat(modify(PZ_HANDLE, pz_handle, DAT_HANDLE_NULL));
	ck_assert_uint_eq(fake_outstanding(), 0);
	ck_assert_int_eq(recvs_posted(), 4);
	ck_dat(modify(EP_ATTR_MAX_RECV_DTOS, ep_attr.max_recv_dtos, 5));
	ck_dat(pz_free(zone));
	ck_dat(modify(PZ_HANDLE, pz_handle, client->pz));
	ck_assert_uint_eq(fake_outstanding(), 4);
	ck_dat(evd_free(client->cr_evd));
	client->cr_evd = client->recv_evd;
	client->recv_evd = side_create_evd(client, 8, DAT_EVD_DTO_FLAG);
	ck_dat(modify(RECV_EVD_HANDLE, recv_evd_handle, client->recv_evd));
	pair_connect(&pair);
	expect_messages(client->recv_evd, 0, 4);
	expect_no_event(client->cr_evd); /* the old one */
}
END_TEST

START_TEST(posted_receives_must_fit)
{
	DAT_LMR_TRIPLET iov[2] = { segment(client, 0, 32), segment(client, 32, 32) };
	DAT_EP_PARAM param;
	struct uses uses;

	ck_dat(ep_post_recv(client->ep, 2, iov, cookie_of(0), 0));
	post_recvs(1, 1);
	param = ep_param(client->ep);
	uses = uses_now();
	ck_dat_is(modify(EP_ATTR_MAX_RECV_DTOS, ep_attr.max_recv_dtos, 1), BAD_ARG(3));
	ck_dat_is(modify(EP_ATTR_MAX_RECV_IOV, ep_attr.max_recv_iov, 1), BAD_ARG(3));
	ck_dat_is(modify(EP_ATTR_RECV_COMPLETION_FLAGS, ep_attr.recv_completion_flags,
			 DAT_COMPLETION_UNSIGNALLED_FLAG),
		  BAD_STATE(EP_UNCONNECTED));
	expect_unchanged(&param, &uses);
	ck_dat(ep_modify(client->ep, ATTR_BIT(RECV_COMPLETION_FLAGS), &param)); /* no change */
	ck_dat(modify(EP_ATTR_MAX_RECV_DTOS, ep_attr.max_recv_dtos, 2));
	ck_dat(modify(EP_ATTR_MAX_RECV_IOV, ep_attr.max_recv_iov, 2));
	pair_connect(&pair);
	expect_messages(client->recv_evd, 0, 2);
}
END_TEST

/* After a connection the endpoint begins anew. */
START_TEST(a_reset_endpoint_is_modified_like_a_new_one)
{
	post_recvs(0, 3);
	pair_connect(&pair);
	expect_messages(client->recv_evd, 0, 2);
	post_recvs(3, 1);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_dto(client->recv_evd, 2, DAT_DTO_ERR_FLUSHED);
	expect_dto(client->recv_evd, 3, DAT_DTO_ERR_FLUSHED);
	ck_dat(ep_reset(client->ep));
	ck_dat(ep_reset(server->ep));
	post_recvs(5, 1);
	ck_dat(modify(EP_ATTR_MAX_RECV_DTOS, ep_attr.max_recv_dtos, 2));
	ck_assert_uint_eq(fake_outstanding(), 1);
	post_recvs(6, 1);
	pair_connect(&pair);
	expect_messages(client->recv_evd, 5, 2);
}
END_TEST

/* Nobody listens at 4243: the connection is not made, and the receives are flushed. */
START_TEST(receives_of_a_failed_attempt_are_not_moved_after_a_reset)
{
	post_recvs(0, 2);
	ck_dat(ep_connect(client->ep, (DAT_IA_ADDRESS_PTR)&server->address, 4243,
			  DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT, 0));
	expect_dto(client->recv_evd, 0, DAT_DTO_ERR_FLUSHED);
	expect_dto(client->recv_evd, 1, DAT_DTO_ERR_FLUSHED);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	ck_dat(ep_reset(client->ep));
	post_recvs(2, 1);
	ck_dat(modify(EP_ATTR_MAX_RECV_DTOS, ep_attr.max_recv_dtos, 1));
	ck_assert_uint_eq(fake_outstanding(), 1);
	pair_connect(&pair);
	expect_messages(client->recv_evd, 2, 1);
}
END_TEST

/* A connect that fails at once leaves the endpoint as it was, also for this call. */
START_TEST(a_failed_connect_keeps_early_receives)
{
	post_recvs(0, 2);
	fake_fail("connect", ENOMEM, 1);
	ck_dat_is(ep_connect(client->ep, (DAT_IA_ADDRESS_PTR)&server->address, 7,
			     DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT, 0),
		  NO_RESOURCE(TEP));
	post_recvs(2, 1);
	ck_dat(modify(EP_ATTR_MAX_REQUEST_DTOS, ep_attr.max_request_dtos, 20));
	pair_connect(&pair);
	expect_messages(client->recv_evd, 0, 3);
}
END_TEST

/* ---- failures ---- */

/* The first one needs memory to be remembered, which is given back with the connection. */
START_TEST(an_early_receive_without_memory_is_not_posted)
{
	const struct ep *ep = client->ep;

	alloc_fail_nth(1);
	ck_dat_is(try_recv(client, 0, 0, 64, DAT_COMPLETION_DEFAULT_FLAG), NO_RESOURCE(MEMORY));
	ck_assert(alloc_failed());
	ck_assert_uint_eq(fake_outstanding(), 0);
	post_recvs(0, 2);
	ck_assert_ptr_nonnull(ep->early.records);
	pair_connect(&pair);
	ck_assert_ptr_null(ep->early.records);
	expect_messages(client->recv_evd, 0, 2);
}
END_TEST

/* Another zone, and EVDs that must grow. */
static DAT_EP_PARAM changed_param(void)
{
	DAT_EP_PARAM param = ep_param(client->ep);

	ck_dat(pz_create(client->ia, &param.pz_handle));
	param.request_evd_handle = side_create_evd(client, 4, DAT_EVD_DTO_FLAG);
	param.ep_attr.max_recv_dtos = 300;
	param.ep_attr.max_request_dtos = 200;
	return param;
}

/*
 * The @n-th call of the transport, or allocation, fails. Some failures have no consequence, such as
 * that of growing a queue more than it must: then the change is undone.
 */
static bool modify_fails(bool (*failed)(void), const DAT_EP_PARAM *want, const DAT_EP_PARAM *before,
			 unsigned *failures)
{
	DAT_RETURN ret = ep_modify(client->ep, ALL_MEMBERS, want);
	bool happened = failed();

	fake_fail_call(0);
	alloc_fail_nth(0);
	if (ret != DAT_SUCCESS) {
		ck_assert(happened);
		ck_assert_uint_eq(DAT_GET_TYPE(ret), DAT_INSUFFICIENT_RESOURCES);
		++*failures;
	} else if (happened) {
		ck_dat(ep_modify(client->ep, ALL_MEMBERS, before));
	}
	return happened;
}

START_TEST(a_failed_modify_changes_nothing)
{
	DAT_EP_PARAM param = ep_param(client->ep), want = changed_param();
	struct uses uses = uses_now();
	unsigned failures = 0;

	post_recvs(0, 3);
	for (unsigned n = 1; fake_fail_call(n), modify_fails(fake_failed, &want, &param, &failures);
	     n++) {
		expect_unchanged(&param, &uses);
		ck_assert_uint_eq(fake_outstanding(), 3);
		ck_assert_int_eq(recvs_posted(), 3);
	}
	ck_assert_uint_ge(failures, 4); /* a queue pair, three receives */
	pair_connect(&pair);
	post_send(server, 1, 0, 64, 0);
	/* their region lies in the zone that was replaced, so the first one fails */
	expect_dto(client->recv_evd, 0, DAT_DTO_ERR_LOCAL_PROTECTION);
}
END_TEST

START_TEST(modify_without_memory_changes_nothing)
{
	DAT_EP_PARAM param = ep_param(client->ep), want = changed_param();
	struct uses uses = uses_now();
	unsigned failures = 0;

	post_recvs(0, 3);
	for (unsigned n = 1;
	     alloc_fail_nth(n), modify_fails(alloc_failed, &want, &param, &failures); n++) {
		expect_unchanged(&param, &uses);
		ck_assert_int_eq(recvs_posted(), 3);
	}
	ck_assert_uint_ge(failures, 5); /* the rings, and the receives */
}
END_TEST

START_TEST(a_refused_queue_pair_is_told_as_such)
{
	DAT_EP_PARAM param = ep_param(client->ep);
	struct uses uses = uses_now();

	fake_fail("qp_create", ENOMEM, 1);
	ck_dat_is(modify(EP_ATTR_MAX_RECV_DTOS, ep_attr.max_recv_dtos, 3), NO_RESOURCE(TEP));
	fake_fail("cq_resize", ENOMEM, 1);
	ck_dat_is(modify(EP_ATTR_MAX_RECV_DTOS, ep_attr.max_recv_dtos, 3000), NO_RESOURCE(TEVD));
	expect_unchanged(&param, &uses);
	pair_connect(&pair);
}
END_TEST

/* Opens the client anew, on a device that can't resize queues, and makes an EVD of 256 entries. */
static struct evd *client_reopen_with_fixed_evd(void)
{
	side_close(client);
	fake_attr()->caps &= ~(unsigned)TP_CAP_CQ_RESIZE;
	fake_attr()->max_cqe = 256;
	side_open(client, "fake0");
	return side_create_evd(client, 100, DAT_EVD_DTO_FLAG);
}

/* The room in an EVD that can't grow is that of one endpoint, before and after. */
START_TEST(a_full_evd_has_room_for_the_modified_endpoint)
{
	const DAT_COUNT half = 128 - RING_SLACK;
	struct evd *evd;
	DAT_EP_ATTR attr;

	evd = client_reopen_with_fixed_evd();
	ck_assert_uint_eq(tp_cq_depth(evd->cq), 256);
	attr = ep_attr_default(client);
	attr.max_recv_dtos = half; /* two endpoints have all that the queue holds */
	for (int i = 0; i < 2; i++)
		ck_dat(ep_create(client->ia, client->pz, evd, client->request_evd,
				 client->connect_evd, &attr, &client->ep));
	ck_dat(modify(EP_ATTR_MAX_REQUEST_DTOS, ep_attr.max_request_dtos, 17));
	ck_dat_is(modify(EP_ATTR_MAX_RECV_DTOS, ep_attr.max_recv_dtos, half + 1),
		  NO_RESOURCE(TEVD));
	ck_dat(modify(EP_ATTR_MAX_RECV_DTOS, ep_attr.max_recv_dtos, 100));
	ck_dat(modify(EP_ATTR_MAX_RECV_DTOS, ep_attr.max_recv_dtos, half));
	ck_assert_uint_eq(evd->dto_depth, 256);
	ck_assert_uint_eq(evd->roles[EVD_ROLE_RECV], 2);
}
END_TEST

/* ---- races ---- */

static void request_the_reserved(void *arg)
{
	(void)arg;
	ck_dat(ep_connect(server->ep, (DAT_IA_ADDRESS_PTR)&client->address, QUAL,
			  DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT, 0));
	fake_wait_idle(0);
}

static void expect_queue_empty(void *evd)
{
	DAT_EVENT event;

	ck_dat_is(evd_dequeue(evd, &event), DAT_QUEUE_EMPTY);
}

/* They would be events of an endpoint that the consumer does not know. */
START_TEST(flushes_of_the_old_queue_pair_are_no_events)
{
	fake_quirks(FAKE_FLUSHES_DESTROYED);
	post_recvs(0, 3);
	race_call(RACE_GONE, NULL, expect_queue_empty, client->recv_evd);
	ck_dat(modify(EP_ATTR_MAX_REQUEST_DTOS, ep_attr.max_request_dtos, 20));
	ck_assert(race_happened(RACE_GONE));
	expect_no_event(client->recv_evd);
	ck_assert_int_eq(recvs_posted(), 3);
	pair_connect(&pair);
	expect_messages(client->recv_evd, 0, 3);
}
END_TEST

/* It arrives while the old queue pair is destroyed, when no lock is held. */
START_TEST(a_request_may_arrive_during_a_modify)
{
	DAT_RSP_HANDLE rsp;
	DAT_CR_HANDLE cr;

	ck_dat(rsp_create(client->ia, QUAL, client->ep, client->cr_evd, &rsp));
	post_recvs(0, 2);
	race_call(RACE_FREE, NULL, request_the_reserved, NULL);
	ck_dat(modify(EP_ATTR_MAX_RECV_DTOS, ep_attr.max_recv_dtos, 3));
	ck_assert(race_happened(RACE_FREE));
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
	ck_dat(modify(EP_ATTR_MAX_RECV_DTOS, ep_attr.max_recv_dtos, 4));
	cr = expect_event(client->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
		     .event_data.cr_arrival_event_data.cr_handle;
	ck_dat(cr_accept(cr, DAT_HANDLE_NULL, 0, NULL));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_messages(client->recv_evd, 0, 2);
}
END_TEST

/* ---- meanwhile, while the device works ---- */

/* A thread that has the client's endpoint take other numbers of transfers, or frees it. */
struct modifier {
	DAT_COUNT recvs, requests, iov; /* 0: as they are; the last one of receives */
	/* EVDs and numbers of transfers; without all four it frees it */
	const DAT_EP_PARAM *param;
	unsigned stays; /* in this call of the transport, if modifier_start starts it; 0: 1 */
	DAT_RETURN ret;
	pthread_t thread;
	_Atomic pid_t tid;
	atomic_bool over;
};

static DAT_RETURN modify_or_free(const struct modifier *modifier)
{
	if (modifier->recvs)
		return modify(EP_ATTR_MAX_RECV_DTOS, ep_attr.max_recv_dtos, modifier->recvs);
	if (modifier->requests)
		return modify(EP_ATTR_MAX_REQUEST_DTOS, ep_attr.max_request_dtos,
			      modifier->requests);
	if (modifier->iov)
		return modify(EP_ATTR_MAX_RECV_IOV, ep_attr.max_recv_iov, modifier->iov);
	if (modifier->param)
		return ep_modify(client->ep,
				 DAT_EP_FIELD_RECV_EVD_HANDLE | ATTR_BIT(MAX_REQUEST_DTOS),
				 modifier->param);
	return ep_free(client->ep);
}

static void *modify_staying(void *arg)
{
	struct modifier *modifier = arg;

	fake_stay(modifier->stays ? modifier->stays : 1);
	modifier->ret = modify_or_free(modifier);
	fake_stay(0);
	return NULL;
}

static void *modify_waiting(void *arg)
{
	struct modifier *modifier = arg;

	atomic_store(&modifier->tid, gettid());
	modifier->ret = modify_or_free(modifier);
	atomic_store(&modifier->over, true);
	return NULL;
}

/* It waits for the thread that stays in the transport; or, if the code is wrong, it does not. */
static void modifier_start_behind(struct modifier *modifier)
{
	modifier->thread = consumer_thread_start(modify_waiting, modifier);
	while (!atomic_load(&modifier->over) && !race_is_asleep(atomic_load(&modifier->tid)))
		sched_yield();
}

/*
 * It stays in the transport, by default as that makes the EVD longer, if it must be, or else the
 * queue pair.
 */
static void modifier_start(struct modifier *modifier)
{
	modifier->thread = consumer_thread_start(modify_staying, modifier);
	ck_assert(fake_wait_stay());
}

static DAT_RETURN modifier_end(struct modifier *modifier)
{
	fake_go_on();
	consumer_thread_join(modifier->thread);
	return modifier->ret;
}

#define STAYS 2
static const DAT_COUNT staying_recvs[STAYS] = { 5, 3000 };

START_TEST(others_connect_while_an_endpoint_is_modified)
{
	struct modifier modifier = { .recvs = staying_recvs[_i] };
	DAT_EP_HANDLE ep = client->ep, other = side_create_ep(client, NULL);

	post_recvs(0, 2);
	modifier_start(&modifier);
	client->ep = other;
	pair_connect(&pair);
	ck_dat(modifier_end(&modifier));
	ck_assert_int_eq(ep_param(ep).ep_attr.max_recv_dtos, modifier.recvs);
	ck_assert_int_eq((DAT_COUNT)fake_outstanding(), 2);
	ck_dat(ep_free(ep));
}
END_TEST

START_TEST(two_modifies_at_once_have_both_changed_it)
{
	struct modifier modifier = { .recvs = staying_recvs[_i] }, other = { .requests = 20 };

	post_recvs(0, 1);
	modifier_start(&modifier);
	modifier_start_behind(&other);
	post_recvs(1, 1);
	ck_dat(modifier_end(&modifier));
	consumer_thread_join(other.thread);
	ck_dat(other.ret);
	ck_assert_int_eq(ep_param(client->ep).ep_attr.max_recv_dtos, modifier.recvs);
	ck_assert_int_eq(ep_param(client->ep).ep_attr.max_request_dtos, 20);
	ck_assert_uint_eq(fake_alive(FAKE_QP), 2);
	pair_connect(&pair);
	expect_messages(client->recv_evd, 0, 2);
}
END_TEST

START_TEST(an_endpoint_that_was_connected_meanwhile_is_not_modified)
{
	struct modifier modifier = { .recvs = staying_recvs[_i] };
	DAT_EP_PARAM before, after;

	post_recvs(0, 2);
	modifier_start(&modifier);
	pair_connect(&pair);
	before = ep_param(client->ep);
	ck_dat_is(modifier_end(&modifier), BAD_STATE(EP_CONNECTED));
	ck_assert_uint_eq(fake_alive(FAKE_QP), 2);
	after = ep_param(client->ep);
	expect_same_param(&after, &before);
	expect_messages(client->recv_evd, 0, 2);
}
END_TEST

START_TEST(receives_that_were_posted_meanwhile_must_fit)
{
	struct modifier modifier = { .recvs = 2 };

	post_recvs(0, 1);
	modifier_start(&modifier);
	post_recvs(1, 2);
	ck_dat_is(modifier_end(&modifier), BAD_ARG(3));
	pair_connect(&pair);
	expect_messages(client->recv_evd, 0, 3);
}
END_TEST

#define MANY_RECVS 60

static void *post_many_recvs(void *over)
{
	for (unsigned n = 0; n < MANY_RECVS; n++) {
		post_recvs(n, 1);
		sched_yield();
	}
	atomic_store((atomic_bool *)over, true);
	return NULL;
}

START_TEST(receives_that_are_posted_while_others_move_are_not_lost)
{
	atomic_bool over = false;
	pthread_t poster;

	ck_dat(modify(EP_ATTR_MAX_RECV_DTOS, ep_attr.max_recv_dtos, MANY_RECVS));
	poster = consumer_thread_start(post_many_recvs, &over);
	for (DAT_COUNT n = 0; !atomic_load(&over); n++)
		ck_dat(modify(EP_ATTR_MAX_RECV_DTOS, ep_attr.max_recv_dtos, MANY_RECVS + n % 2));
	consumer_thread_join(poster);
	ck_assert_int_eq(recvs_posted(), MANY_RECVS);
	pair_connect(&pair);
	expect_messages(client->recv_evd, 0, MANY_RECVS);
}
END_TEST

/* With fewer segments than it has: the ring that it meets has no room for them. */
static void *post_two_segments(void *ret)
{
	DAT_LMR_TRIPLET iov[2] = { segment(client, 64, 32), segment(client, 96, 32) };

	*(DAT_RETURN *)ret = ep_post_recv(client->ep, 2, iov, cookie_of(1), 0);
	return NULL;
}

START_TEST(a_receive_that_is_posted_while_others_move_must_fit)
{
	/* when the device gets the first of the early receives */
	struct modifier modifier = { .iov = 1, .stays = 2 };
	DAT_RETURN ret = DAT_SUCCESS;
	pthread_t poster;

	ck_dat(modify(EP_ATTR_MAX_RECV_IOV, ep_attr.max_recv_iov, 2));
	post_recvs(0, 1);
	modifier_start(&modifier);
	poster = consumer_thread_start(post_two_segments, &ret);
	for (int n = 0; n < 10000; n++)
		sched_yield();
	ck_dat(modifier_end(&modifier));
	consumer_thread_join(poster);
	ck_dat_is(ret, BAD_ARG(2));
	ck_assert_int_eq(recvs_posted(), 1);
}
END_TEST

/* Alone, and with a second one that waits to modify it. */
START_TEST(who_frees_an_endpoint_waits_for_its_modifies)
{
	struct modifier modifier = { .recvs = staying_recvs[_i / 2] }, freer = { 0 };
	struct modifier other = { .requests = 20 };
	unsigned holds = uses_of(client->pz);

	modifier_start(&modifier);
	if (_i % 2)
		modifier_start_behind(&other);
	modifier_start_behind(&freer);
	ck_assert(!atomic_load(&freer.over));
	ck_dat_is(modify(EP_ATTR_MAX_REQUEST_DTOS, ep_attr.max_request_dtos, 20), BAD_HANDLE(EP));
	ck_dat_is(modifier_end(&modifier), BAD_HANDLE(EP));
	if (_i % 2) {
		consumer_thread_join(other.thread);
		ck_dat_is(other.ret, BAD_HANDLE(EP));
	}
	consumer_thread_join(freer.thread);
	ck_dat(freer.ret);
	ck_assert_uint_eq(fake_alive(FAKE_QP), 1);
	ck_assert_uint_eq(uses_of(client->pz), holds - 1);
	client->ep = side_create_ep(client, NULL);
}
END_TEST

/* The device flushes the receives of the connection long after it has ended. */
START_TEST(a_refused_modify_leaves_what_the_device_has_still_to_complete)
{
	struct modifier modifier = { .recvs = 5 };
	struct ep *ep = client->ep;

	post_recvs(0, 2);
	modifier_start(&modifier);
	pair_connect(&pair);
	fake_quirks(FAKE_LATE_FLUSH);
	fake_hold(true);
	ck_dat(ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG));
	fake_clock_advance(200000000);
	while (ep_get_state(ep) != DAT_EP_STATE_DISCONNECTED)
		sched_yield();
	ck_dat_is(modifier_end(&modifier), BAD_STATE(EP_DISCONNECTED));
	ck_assert(ep->late_completions);
	expect_dto(client->recv_evd, 0, DAT_DTO_ERR_FLUSHED);
	expect_dto(client->recv_evd, 1, DAT_DTO_ERR_FLUSHED);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(ep_free(ep));
	while (fake_step())
		;
	expect_no_event(client->recv_evd);
	client->ep = side_create_ep(client, NULL);
}
END_TEST

/* The device can't make it longer. Meanwhile another endpoint of it is modified, or made. */
START_TEST(a_full_evd_has_room_for_others_while_an_endpoint_is_modified)
{
	struct modifier modifier = { .recvs = 110 };
	DAT_EP_HANDLE eps[3];
	struct evd *evd;
	DAT_EP_ATTR attr;

	evd = client_reopen_with_fixed_evd();
	attr = ep_attr_default(client);
	attr.max_recv_dtos = 60;
	for (int i = 0; i < 2; i++)
		ck_dat(ep_create(client->ia, client->pz, evd, client->request_evd,
				 client->connect_evd, &attr, &eps[i]));
	client->ep = eps[0];
	modifier_start(&modifier);
	client->ep = eps[1];
	if (_i)
		ck_dat(ep_create(client->ia, client->pz, evd, client->request_evd,
				 client->connect_evd, &attr, &eps[2]));
	else
		ck_dat(modify(EP_ATTR_MAX_RECV_DTOS, ep_attr.max_recv_dtos, 120));
	ck_dat(modifier_end(&modifier));
	ck_assert_uint_eq(evd->dto_depth, (_i ? 230 + RING_SLACK : 230) + 2 * RING_SLACK);
}
END_TEST

START_TEST(an_evd_with_both_roles_has_room_for_one_request_more)
{
	DAT_EP_ATTR attr = ep_attr_default(client);
	unsigned before;
	struct evd *evd;

	evd = client_reopen_with_fixed_evd();
	attr.max_recv_dtos = attr.max_request_dtos = 100;
	ck_dat(ep_create(client->ia, client->pz, evd, evd, client->connect_evd, &attr,
			 &client->ep));
	before = evd->dto_depth;
	ck_dat(modify(EP_ATTR_MAX_RECV_DTOS, ep_attr.max_recv_dtos, 101));
	ck_dat(modify(EP_ATTR_MAX_REQUEST_DTOS, ep_attr.max_request_dtos, 101));
	ck_assert_uint_ge(evd->dto_depth, before + 2);
	ck_dat(modify(RECV_EVD_HANDLE, recv_evd_handle, client->recv_evd));
	ck_dat(modify(RECV_EVD_HANDLE, recv_evd_handle, evd));
	ck_dat(modify(EP_ATTR_MAX_RECV_DTOS, ep_attr.max_recv_dtos, 100));
	ck_dat(modify(EP_ATTR_MAX_REQUEST_DTOS, ep_attr.max_request_dtos, 100));
	ck_assert_uint_eq(evd->dto_depth, before);
	ck_dat(ep_free(client->ep));
	ck_assert_uint_eq(evd->dto_depth, 0);
}
END_TEST

/* The one for requests grows. Another thread has freed the new one for receives, which need not. */
START_TEST(an_evd_that_was_freed_meanwhile_is_refused)
{
	DAT_EP_PARAM param = ep_param(client->ep);
	struct modifier modifier = { .param = &param };
	DAT_EVD_HANDLE again = DAT_HANDLE_NULL;

	param.recv_evd_handle = side_create_evd(client, 100, DAT_EVD_DTO_FLAG);
	param.ep_attr.max_request_dtos = 3000;
	modifier_start(&modifier);
	ck_dat(evd_free(param.recv_evd_handle));
	for (int n = 0; _i && n < 64 && again != param.recv_evd_handle; n++)
		again = side_create_evd(client, 8, DAT_EVD_SOFTWARE_FLAG);
	if (_i)
		ck_assert_ptr_eq(again, param.recv_evd_handle);
	ck_dat_is(modifier_end(&modifier), BAD_ARG(3));
	ck_assert_int_eq(ep_param(client->ep).ep_attr.max_request_dtos,
			 ep_attr_default(client).max_request_dtos);
}
END_TEST

static void *close_client(void *unused)
{
	(void)unused;
	ck_dat(ia_close(client->ia, DAT_CLOSE_ABRUPT_FLAG));
	return NULL;
}

START_TEST(an_abrupt_close_waits_for_a_modify)
{
	struct modifier modifier = { .recvs = staying_recvs[_i] };
	pthread_t closer;

	modifier_start(&modifier);
	ck_dat_is(ia_close(client->ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	closer = consumer_thread_start(close_client, NULL);
	while (obj_valid(NULL, client->ia, DAT_HANDLE_TYPE_IA))
		sched_yield();
	ck_dat_is(modifier_end(&modifier), BAD_HANDLE(EP));
	consumer_thread_join(closer);
	side_open(client, "fake0");
}
END_TEST

/* The consumer has their buffers back, so no message may be placed there. */
START_TEST(receives_that_a_failed_queue_pair_has_flushed_are_not_posted_again)
{
	static struct pair pair;
	struct side *client = &pair.client, *server = &pair.server;
	DAT_EP_PARAM param = { .ep_attr.max_recv_dtos = 20 };

	side_open(client, "fake0");
	side_open(server, "fake1");
	post_recv(client, 1, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	post_recv(client, 2, 64, 64, DAT_COMPLETION_DEFAULT_FLAG);
	fake_break_qp(((struct ep *)client->ep)->qp);
	expect_dto(client->recv_evd, 1, DAT_DTO_ERR_FLUSHED);
	expect_dto(client->recv_evd, 2, DAT_DTO_ERR_FLUSHED);
	ck_dat(ep_modify(client->ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, &param));
	post_recv(client, 3, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	connect_eps(client, client->ep, server, server->ep);
	post_send(server, 4, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
	expect_dto(server->request_evd, 4, DAT_DTO_SUCCESS);
	expect_dto(client->recv_evd, 3, DAT_DTO_SUCCESS);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_no_event(client->recv_evd);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("dat_ep_modify"), *alone = tcase_create("a failed queue pair");

	tcase_add_test(alone, receives_that_a_failed_queue_pair_has_flushed_are_not_posted_again);
	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_loop_test(cases, an_endpoint_of_the_provider_is_completed_and_accepted, 0, 2);
	tcase_add_test(cases, an_endpoint_of_the_provider_costs_the_device_what_any_does);
	tcase_add_loop_test(cases, a_completed_endpoint_is_destroyed_with_its_request, 0, 2);
	tcase_add_test(cases, all_attributes_change_at_once);
	tcase_add_test(cases, a_size_of_0_is_the_limit_of_the_device);
	tcase_add_test(cases, members_that_are_not_selected_are_not_looked_at);
	tcase_add_test(cases, only_known_members_can_be_changed);
	tcase_add_loop_test(cases, each_value_is_checked, 0, COUNT(values));
	tcase_add_test(cases, bad_handles_are_refused);
	tcase_add_test(cases, the_new_evds_and_zone_are_used_and_the_old_ones_are_free);
	tcase_add_test(cases, a_null_handle_detaches);
	tcase_add_test(cases, members_without_effect_on_the_queue_pair_make_no_new_one);
	tcase_add_test(cases, the_modes_of_evds_follow);
	tcase_add_loop_test(cases, posts_follow_the_new_attributes, 0, 2);
	tcase_add_test(cases, modified_rdma_reads_are_what_a_connect_requests);
	tcase_add_test(cases, a_number_of_reads_that_was_not_given_is_lowered);
	tcase_add_loop_test(cases, posted_receives_move_to_the_new_queue_pair, 0,
			    COUNT(takes_queue_pair));
	tcase_add_test(cases, posted_receives_survive_other_evds_and_zones);
	tcase_add_test(cases, posted_receives_must_fit);
	tcase_add_test(cases, a_reset_endpoint_is_modified_like_a_new_one);
	tcase_add_test(cases, receives_of_a_failed_attempt_are_not_moved_after_a_reset);
	tcase_add_test(cases, a_failed_connect_keeps_early_receives);
	tcase_add_test(cases, an_early_receive_without_memory_is_not_posted);
	tcase_add_test(cases, a_failed_modify_changes_nothing);
	tcase_add_test(cases, a_refused_queue_pair_is_told_as_such);
	tcase_add_test(cases, modify_without_memory_changes_nothing);
	tcase_add_test(cases, a_full_evd_has_room_for_the_modified_endpoint);
	tcase_add_test(cases, flushes_of_the_old_queue_pair_are_no_events);
	tcase_add_test(cases, a_request_may_arrive_during_a_modify);
	tcase_add_loop_test(cases, others_connect_while_an_endpoint_is_modified, 0, STAYS);
	tcase_add_loop_test(cases, two_modifies_at_once_have_both_changed_it, 0, STAYS);
	tcase_add_loop_test(cases, an_endpoint_that_was_connected_meanwhile_is_not_modified, 0,
			    STAYS);
	tcase_add_test(cases, receives_that_were_posted_meanwhile_must_fit);
	tcase_add_loop_test(cases, receives_that_are_posted_while_others_move_are_not_lost, 0, 5);
	tcase_add_test(cases, a_receive_that_is_posted_while_others_move_must_fit);
	tcase_add_loop_test(cases, who_frees_an_endpoint_waits_for_its_modifies, 0, 2 * STAYS);
	tcase_add_test(cases, a_refused_modify_leaves_what_the_device_has_still_to_complete);
	tcase_add_loop_test(cases, a_full_evd_has_room_for_others_while_an_endpoint_is_modified, 0,
			    2);
	tcase_add_test(cases, an_evd_with_both_roles_has_room_for_one_request_more);
	tcase_add_loop_test(cases, an_evd_that_was_freed_meanwhile_is_refused, 0, 2);
	tcase_add_loop_test(cases, an_abrupt_close_waits_for_a_modify, 0, STAYS);
	return run_unit_cases(argc, argv);
}
