/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What DAT 2.0 has of its own in completions, binds, queries and attributes, the calls that no
 * transport can serve, and opens for a query.
 */
#include <dat2/dat_ib_extensions.h>
#include <stdarg.h>

#include "alloc.h"
#include "harness.h"

#define NOT_SUPPORTED	DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, 0)
#define NOT_IMPLEMENTED DAT_ERROR(DAT_NOT_IMPLEMENTED, 0)
#define NO_NAME		DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED)
#define READ_ONLY	DAT_MEM_PRIV_REMOTE_READ_FLAG

static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;

static void setup(void)
{
	pair_connect(&pair);
}

static void teardown(void)
{
	pair_close_abrupt(&pair);
}

/* ---- completions ---- */

enum posted { SEND, WRITE, READ, RECV, POSTS };

static const DAT_DTOS operations[] = {
	[SEND] = DAT_DTO_SEND,
	[WRITE] = DAT_DTO_RDMA_WRITE,
	[READ] = DAT_DTO_RDMA_READ,
	[RECV] = DAT_DTO_RECEIVE,
};

static DAT_RETURN post(enum posted what, uint64_t n)
{
	const DAT_RMR_TRIPLET remote = target(server, 0, 64);
	DAT_LMR_TRIPLET iov = segment(client, 0, 64);

	switch (what) {
	case SEND:
		return ep_post_send(client->ep, 1, &iov, cookie_of(n), 0);
	case WRITE:
		return ep_post_rdma_write(client->ep, 1, &iov, cookie_of(n), &remote, 0);
	case READ:
		return ep_post_rdma_read(client->ep, 1, &iov, cookie_of(n), &remote, 0);
	default:
		return ep_post_recv(client->ep, 1, &iov, cookie_of(n), 0);
	}
}

static void expect_operation(DAT_EVD_HANDLE evd, DAT_DTOS operation,
			     DAT_DTO_COMPLETION_STATUS status)
{
	const DAT_EVENT event = expect_event(evd, DAT_DTO_COMPLETION_EVENT);
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;

	ck_assert_int_eq(dto->operation, operation);
	ck_assert_int_eq(dto->status, status);
	ck_assert_uint_eq(dto->rmr_context, 0);
}

static DAT_EVD_HANDLE evd_of(enum posted what)
{
	return what == RECV ? client->recv_evd : client->request_evd;
}

START_TEST(a_completion_tells_its_operation)
{
	post_recv(server, 1, 0, 64, 0);
	ck_dat(post(_i, 2));
	if (_i == RECV)
		post_send(server, 3, 0, 64, 0);
	expect_operation(evd_of(_i), operations[_i], DAT_DTO_SUCCESS);
	if (_i == SEND)
		expect_operation(server->recv_evd, DAT_DTO_RECEIVE, DAT_DTO_SUCCESS);
}
END_TEST

START_TEST(a_failed_completion_tells_its_operation)
{
	post_recv(server, 1, 0, 64, 0);
	fake_fail_transfer(DAT_DTO_ERR_REMOTE_ACCESS);
	ck_dat(post(_i, 2));
	expect_operation(client->request_evd, operations[_i], DAT_DTO_ERR_REMOTE_ACCESS);
}
END_TEST

START_TEST(a_flushed_completion_tells_its_operation)
{
	fake_hold(true);
	ck_dat(post(_i, 1));
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_operation(evd_of(_i), operations[_i], DAT_DTO_ERR_FLUSHED);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(post(_i, 2)); /* to an endpoint that is disconnected */
	expect_operation(evd_of(_i), operations[_i], DAT_DTO_ERR_FLUSHED);
}
END_TEST

/* The extension of an event is for the events of extensions. */
START_TEST(an_event_leaves_its_extension)
{
	const DAT_EVD_HANDLE evd = side_create_evd(client, 8, DAT_EVD_SOFTWARE_FLAG);
	DAT_EVENT event, before;
	DAT_COUNT nmore;

	memset(&event, 0x5a, sizeof(event));
	before = event;
	for (unsigned n = 0; n < 2; n++) {
		post_recv(client, n, 0, 64, 0);
		post_send(server, n, 0, 64, 0);
		fake_wait_idle(0);
		if (n)
			ck_dat(evd_wait(client->recv_evd, SECONDS(1), 1, &event, &nmore));
		else
			ck_dat(evd_dequeue(client->recv_evd, &event));
		ck_assert_int_eq(event.event_number, DAT_DTO_COMPLETION_EVENT);
		ck_assert_mem_eq(event.event_extension_data, before.event_extension_data,
				 sizeof(before.event_extension_data));
	}
	post_se(evd, 1); /* it was in the queue */
	ck_dat(evd_dequeue(evd, &event));
	ck_assert_int_eq(event.event_number, DAT_SOFTWARE_EVENT);
	ck_assert_mem_eq(event.event_extension_data, before.event_extension_data,
			 sizeof(before.event_extension_data));
}
END_TEST

/* ---- endpoints with a shared receive queue ---- */

static DAT_SRQ_HANDLE srq;
static DAT_EP_HANDLE srq_ep;

/* An endpoint of the server, connected to the client's, whose other one is not used. */
static void connect_srq_ep(bool with_srq)
{
	DAT_SRQ_ATTR attr = { .max_recv_dtos = 8, .max_recv_iov = 1 };
	DAT_EP_ATTR ep_attr;

	side_open(client, "fake0");
	side_open(server, "fake1");
	ep_attr = ep_attr_default(server);
	ck_dat(srq_create(server->ia, server->pz, &attr, &srq));
	if (with_srq)
		ck_dat(ep_create_with_srq(server->ia, server->pz, server->recv_evd,
					  server->request_evd, server->connect_evd, srq, &ep_attr,
					  &srq_ep));
	else
		srq_ep = server->ep;
	connect_eps(client, client->ep, server, srq_ep);
}

static void setup_srq(void)
{
	connect_srq_ep(true);
}

static void expect_broken_once(void)
{
	const DAT_EVENT event = expect_event(server->async_evd, DAT_ASYNC_ERROR_EP_BROKEN);

	ck_assert_ptr_eq(event.event_data.asynch_error_event_data.dat_handle, srq_ep);
	expect_no_event(server->async_evd);
}

static void end_by_self(void)
{
	ck_dat(ep_disconnect(srq_ep, DAT_CLOSE_ABRUPT_FLAG));
}

static void end_gracefully(void)
{
	ck_dat(ep_disconnect(srq_ep, DAT_CLOSE_GRACEFUL_FLAG));
}

static void end_by_peer(void)
{
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
}

static void end_by_device(void)
{
	fake_break_qp(((struct ep *)srq_ep)->qp);
}

static void end_by_failure(void)
{
	const DAT_RMR_TRIPLET remote = target(client, 0, 8);
	DAT_LMR_TRIPLET iov = segment(server, 0, 8);

	fake_fail_transfer(DAT_DTO_ERR_REMOTE_ACCESS);
	ck_dat(ep_post_rdma_write(srq_ep, 1, &iov, cookie_of(1), &remote, 0));
	expect_operation(server->request_evd, DAT_DTO_RDMA_WRITE, DAT_DTO_ERR_REMOTE_ACCESS);
}

static const struct {
	void (*end)(void);
	DAT_EVENT_NUMBER event;
} ends[] = {
	{ end_by_self, DAT_CONNECTION_EVENT_DISCONNECTED },
	{ end_gracefully, DAT_CONNECTION_EVENT_DISCONNECTED },
	{ end_by_peer, DAT_CONNECTION_EVENT_DISCONNECTED },
	{ end_by_device, DAT_CONNECTION_EVENT_BROKEN },
	{ end_by_failure, DAT_CONNECTION_EVENT_BROKEN },
};

START_TEST(the_end_of_a_connection_is_told_once)
{
	ends[_i].end();
	expect_event(server->connect_evd, ends[_i].event);
	expect_broken_once();
}
END_TEST

START_TEST(each_connection_of_an_endpoint_is_told)
{
	for (unsigned n = 0; n < 2; n++) {
		ends[_i].end();
		expect_event(server->connect_evd, ends[_i].event);
		expect_broken_once();
		expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
		ck_dat(ep_reset(srq_ep));
		ck_dat(ep_reset(client->ep));
		connect_eps(client, client->ep, server, srq_ep);
	}
	expect_no_event(server->async_evd);
}
END_TEST

static void device_tells_of_a_break(void)
{
	CANCEL_FORBIDDEN;
	struct ia *ia = server->ia;

	mutex_lock(&ia->lock);
	up_qp_broken(srq_ep, ((struct ep *)srq_ep)->qp);
	mutex_unlock(&ia->lock);
}

/* What the device has told of an endpoint without a connection counts for none that follows. */
START_TEST(a_queue_pair_that_breaks_before_is_told_by_itself)
{
	end_by_self();
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_broken_once();
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(ep_reset(srq_ep));
	ck_dat(ep_reset(client->ep));
	device_tells_of_a_break();
	expect_broken_once();
	connect_eps(client, client->ep, server, srq_ep);
	end_by_self();
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_broken_once();
}
END_TEST

START_TEST(a_freed_endpoint_is_not_told_of)
{
	ck_dat(ep_free(srq_ep));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_no_event(server->async_evd);
}
END_TEST

START_TEST(an_attempt_in_vain_is_not_told)
{
	end_by_self();
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_broken_once();
	ck_dat(ep_reset(srq_ep));
	ck_dat(ep_connect(srq_ep, (DAT_IA_ADDRESS_PTR)&client->address, 4711, DAT_TIMEOUT_INFINITE,
			  0, NULL, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	expect_no_event(server->async_evd);
}
END_TEST

START_TEST(an_endpoint_with_receives_of_its_own_is_not_told_of)
{
	connect_srq_ep(false);
	ends[_i].end();
	expect_event(server->connect_evd, ends[_i].event);
	if (ends[_i].end == end_by_device)
		expect_broken_once();
	else
		expect_no_event(server->async_evd);
	teardown();
}
END_TEST

START_TEST(a_receive_of_a_shared_queue_tells_its_operation)
{
	DAT_LMR_TRIPLET iov = segment(server, 0, 64);

	ck_dat(srq_post_recv(srq, 1, &iov, cookie_of(1)));
	post_send(client, 1, 0, 64, 0);
	expect_operation(server->recv_evd, DAT_DTO_RECEIVE, DAT_DTO_SUCCESS);
}
END_TEST

/* ---- binds ---- */

static DAT_RMR_HANDLE rmr;

static DAT_LMR_HANDLE other_lmr(const struct side *side)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = side->memory };
	DAT_LMR_HANDLE lmr;

	ck_dat(lmr_create_va(side->ia, DAT_MEM_TYPE_VIRTUAL, region, SIDE_MEMORY / 2, side->pz,
			     DAT_MEM_PRIV_ALL_FLAG, &lmr, NULL, NULL, NULL, NULL));
	return lmr;
}

static DAT_RETURN try_bind(DAT_LMR_HANDLE lmr, const DAT_LMR_TRIPLET *range, DAT_VA_TYPE va_type,
			   DAT_RMR_CONTEXT *context)
{
	return rmr_bind(rmr, lmr, range, READ_ONLY, va_type, server->ep, cookie_of(1), 0, context);
}

static DAT_LMR_TRIPLET range_without_context(size_t offset, size_t length)
{
	DAT_LMR_TRIPLET range = segment(server, offset, length);

	range.lmr_context = 0xdeadbeef; /* nobody's */
	return range;
}

/* The window is bound to @size bytes of @lmr: the client can read them, and no more. */
static void expect_bound_to(struct lmr *lmr, DAT_RMR_CONTEXT context, size_t size)
{
	const DAT_RMR_TRIPLET remote = { .rmr_context = context,
					 .virtual_address = (uintptr_t)server->memory };
	DAT_LMR_TRIPLET local = segment(client, 0, size);
	DAT_RMR_PARAM param;

	expect_event(server->request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
	memset(&param, 0xee, sizeof(param));
	ck_dat(rmr_query(rmr, DAT_RMR_FIELD_ALL, &param));
	ck_assert_uint_eq(param.lmr_triplet.lmr_context, lmr->info.lmr_context);
	ck_assert_uint_eq(param.lmr_triplet.segment_length, size);
	ck_assert_uint_eq(param.rmr_context, context);
	ck_assert_int_eq(param.rmr_scope, DAT_RMR_SCOPE_PZ);
	ck_assert_int_eq(param.va_type, DAT_VA_TYPE_VA);
	ck_dat(ep_post_rdma_read(client->ep, 1, &local, cookie_of(2), &remote, 0));
	expect_dto(client->request_evd, 2, DAT_DTO_SUCCESS);
}

/* By a window of the device, or without one. The third bind is to another LMR, the second not. */
START_TEST(a_bind_names_its_lmr_by_the_handle)
{
	DAT_LMR_TRIPLET range;
	DAT_RMR_CONTEXT context;
	DAT_LMR_HANDLE other;

	if (_i)
		fake_attr()->max_mw = 0;
	setup();
	other = other_lmr(server);
	ck_dat(rmr_create(server->pz, &rmr));
	for (unsigned n = 0; n < 4; n++) {
		const DAT_LMR_HANDLE lmr = n < 2 ? server->lmr : other;

		range = range_without_context(0, 64 + n);
		ck_dat(try_bind(lmr, &range, DAT_VA_TYPE_VA, &context));
		expect_bound_to(lmr, context, 64 + n);
	}
	range = range_without_context(0, 0); /* to nothing, of no LMR */
	ck_dat(try_bind(_i ? POISON : DAT_HANDLE_NULL, &range, DAT_VA_TYPE_VA, &context));
	expect_event(server->request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
	ck_dat_is(rmr_query(rmr, DAT_RMR_FIELD_ALL, &(DAT_RMR_PARAM){ 0 }), BAD_ARG(2));
	teardown();
}
END_TEST

/* Those that the LMR of the latest binding would allow, too. */
START_TEST(a_bind_refuses_what_is_no_lmr_of_the_ia)
{
	const DAT_LMR_HANDLE freed = other_lmr(server), shorter = other_lmr(server);
	const DAT_LMR_HANDLE bad[] = { DAT_HANDLE_NULL, POISON, server->pz, client->lmr, freed };
	DAT_LMR_TRIPLET range = segment(server, 0, 64);
	DAT_RMR_CONTEXT context = 5;

	ck_dat(lmr_free(freed));
	ck_dat(rmr_create(server->pz, &rmr));
	for (unsigned bound = 0; bound < 2; bound++) {
		for (int i = 0; i < COUNT(bad); i++)
			ck_dat_is(try_bind(bad[i], &range, DAT_VA_TYPE_VA, &context),
				  BAD_HANDLE(LMR));
		ck_dat_is(try_bind(server->lmr, &range, (DAT_VA_TYPE)2, &context), BAD_ARG(5));
		ck_dat_is(try_bind(server->lmr, NULL, DAT_VA_TYPE_VA, &context), BAD_ARG(3));
		ck_dat_is(try_bind(server->lmr, &range, DAT_VA_TYPE_VA, NULL), BAD_ARG(9));
		range.virtual_address += SIDE_MEMORY / 2;
		ck_dat_is(try_bind(shorter, &range, DAT_VA_TYPE_VA, &context), BAD_ARG(3));
		range.virtual_address -= SIDE_MEMORY / 2;
		ck_assert_uint_eq(context, 5);
		if (!bound) {
			ck_dat(try_bind(server->lmr, &range, DAT_VA_TYPE_VA, &context));
			expect_bound_to(server->lmr, context, 64);
			context = 5;
		}
	}
	ck_dat_is(rmr_bind(server->lmr, server->lmr, &range, READ_ONLY, (DAT_VA_TYPE)2, server->ep,
			   cookie_of(1), 0, &context),
		  BAD_HANDLE(RMR));
}
END_TEST

/* ---- attributes ---- */

static const DAT_NAMED_ATTR *named_attrs_of(struct ia *ia, DAT_PROVIDER_ATTR *attr)
{
	memset(attr, 0xee, sizeof(*attr));
	ck_dat(ia_query(ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, attr));
	return attr->provider_specific_attr;
}

static const DAT_NAMED_ATTR fake_named[] = {
	{ "DAT_IB_PROVIDER_NAME", "FAKE" },
	{ "DAT_IB_DEVICE_NAME", "fake0" },
	{ "DAT_IB_CONNECTIVITY_MODE", "DIRECT" },
	{ "DAT_IB_RDMA_READ", "TRUE" },
	{ "DAT_IB_NODE_GUID", "0102:0304:0506:0708" },
	{ "DAT_IB_GID", "0000:0000:0000:0000:0000:ffff:7f00:0001" },
	{ "DAT_IB_TRANSPORT_MTU", "4096" },
	{ "DAT_IB_PORT_STATUS", "ACTIVE" },
	{ "DAT_IB_PORT_NUMBER", "1" },
	{ "DAT_EXTENSION_INTERFACE", NULL }, /* the transport's affair */
	{ "DAT_IB_FETCH_AND_ADD", NULL },
	{ "DAT_IB_CMP_AND_SWAP", NULL },
	{ "DAT_IB_IMMED_DATA", NULL },
	{ "DAT_IB_UD", NULL },
	{ "DAT_COUNTERS", "TRUE" }, /* so is the core of these tests compiled */
	{ "DAT_LMR_ON_DEMAND", "FALSE" },
};

START_TEST(the_named_attributes_have_their_order)
{
	const DAT_NAMED_ATTR *named;
	DAT_PROVIDER_ATTR attr;

	named = named_attrs_of(client->ia, &attr);
	ck_assert_int_eq(attr.num_provider_specific_attr, COUNT(fake_named));
	for (int i = 0; i < COUNT(fake_named); i++) {
		ck_assert_str_eq(named[i].name, fake_named[i].name);
		if (fake_named[i].value)
			ck_assert_str_eq(named[i].value, fake_named[i].value);
		else
			ck_assert(!strcmp(named[i].value, "TRUE") ||
				  !strcmp(named[i].value, "FALSE"));
	}
	ck_assert_str_eq(attr.provider_name, "fake0");
	ck_assert_uint_eq(attr.provider_version_major, 2);
	ck_assert_uint_eq(attr.dapl_version_major, 2);
	ck_assert_int_eq(attr.rdma_read_lmr_rmr_context_exposure, DAT_FALSE);
	ck_assert_int_eq(attr.rmr_scope_supported, DAT_RMR_SCOPE_ANY);
	ck_assert_int_eq(attr.is_signal_safe, DAT_FALSE);
	ck_assert_int_eq(attr.ha_supported, DAT_FALSE);
	ck_assert_int_eq(attr.ha_loadbalancing, DAT_HA_LB_NONE);
}
END_TEST

START_TEST(each_ia_has_its_own_named_attributes)
{
	const DAT_NAMED_ATTR *of_client, *of_server;
	DAT_PROVIDER_ATTR attr;

	of_client = named_attrs_of(client->ia, &attr);
	of_server = named_attrs_of(server->ia, &attr);
	ck_assert_str_eq(of_client[1].value, "fake0");
	ck_assert_str_eq(of_server[1].value, "fake1");
	ck_assert_ptr_eq(named_attrs_of(client->ia, &attr), of_client);
}
END_TEST

START_TEST(a_query_tells_the_state_of_the_port_as_it_is)
{
	const DAT_NAMED_ATTR *named;
	DAT_PROVIDER_ATTR attr;

	fake_port_down(((struct ia *)client->ia)->dev);
	named = named_attrs_of(client->ia, &attr);
	ck_assert_str_eq(named[7].value, "DOWN");
	named = named_attrs_of(server->ia, &attr);
	ck_assert_str_eq(named[7].value, "ACTIVE");
}
END_TEST

START_TEST(a_device_without_reads_says_so)
{
	const DAT_NAMED_ATTR *named;
	DAT_PROVIDER_ATTR attr;
	DAT_EVD_HANDLE async;
	DAT_IA_ATTR ia_attr;
	struct ia *ia;

	fake_attr()->max_read_out = 0;
	fake_attr()->max_mr_size = UINT64_C(1) << 20;
	fake_attr()->caps |= TP_CAP_READ_NEEDS_WRITE;
	ia = ia_open_on("fake2", false, &async);
	named = named_attrs_of(ia, &attr);
	ck_assert_str_eq(named[3].value, "FALSE");
	ck_assert_int_eq(attr.rdma_read_lmr_rmr_context_exposure, DAT_TRUE);
	ck_dat(ia_query(ia, NULL, DAT_IA_FIELD_ALL, &ia_attr, 0, NULL));
	ck_assert_uint_eq(ia_attr.max_lmr_block_size, UINT64_C(1) << 20);
	ck_assert_str_eq(ia_attr.adapter_name, "fake2");
	ck_dat(ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
}
END_TEST

/* ---- the handle of the IA ---- */

/* What a query tells. */
#define SHOWN(query, handle, mask, type)                                                           \
	({                                                                                         \
		type param_;                                                                       \
		ck_dat(query(handle, mask, &param_));                                              \
		param_.ia_handle;                                                                  \
	})

/*
 * Programs compare it with the one that they have from dat_ia_open. These are the provider's calls:
 * other registries do not translate what they tell.
 */
START_TEST(queries_show_the_consumers_handle_of_the_ia)
{
	const DAT_OS_WAIT_PROXY_AGENT no_agent = DAT_OS_WAIT_PROXY_AGENT_NULL;
	const DAT_REGION_DESCRIPTION region = { .for_va = server->memory };
	DAT_SRQ_ATTR attr = { .max_recv_dtos = 8, .max_recv_iov = 1 };
	DAT_COMM comm = { .domain = AF_INET, .type = SOCK_STREAM };
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(7000) };
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL, evd, cr_evd;
	DAT_RMR_PARAM rmr_param;
	DAT_IA_HANDLE ia;
	DAT_HANDLE pz, h;

	ck_assert_int_eq(setenv("DAT_OVERRIDE", "/dev/null", 1), 0);
	ck_dat(dat_ia_openv((DAT_NAME_PTR) "fake0", 8, &async, &ia, 2, 0, DAT_FALSE));
	ck_assert_uint_lt((uintptr_t)ia, 4096);
	ck_dat(dat_pz_create(ia, &pz));
	ck_assert_ptr_eq(SHOWN(pz_query, pz, DAT_PZ_FIELD_ALL, DAT_PZ_PARAM), ia);
	ck_dat(dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_DEFAULT_FLAG, &evd));
	ck_assert_ptr_eq(SHOWN(evd_query, evd, DAT_EVD_FIELD_ALL, DAT_EVD_PARAM), ia);
	ck_assert_ptr_eq(SHOWN(evd_query, async, DAT_EVD_FIELD_ALL, DAT_EVD_PARAM), ia);
	ck_dat(dat_cno_create(ia, no_agent, &h));
	ck_assert_ptr_eq(SHOWN(cno_query, h, DAT_CNO_FIELD_ALL, DAT_CNO_PARAM), ia);
	ck_dat(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, 64, pz, DAT_MEM_PRIV_ALL_FLAG,
			      DAT_VA_TYPE_VA, &h, NULL, NULL, NULL, NULL));
	ck_assert_ptr_eq(SHOWN(lmr_query, h, DAT_LMR_FIELD_ALL, DAT_LMR_PARAM), ia);
	ck_dat(dat_rmr_create(pz, &h));
	ck_dat(rmr_query(h, DAT_RMR_FIELD_IA_HANDLE, &rmr_param));
	ck_assert_ptr_eq(rmr_param.ia_handle, ia);
	ck_dat(dat_srq_create(ia, pz, &attr, &h));
	ck_assert_ptr_eq(SHOWN(srq_query, h, DAT_SRQ_FIELD_ALL, DAT_SRQ_PARAM), ia);
	ck_dat(dat_ep_create(ia, pz, evd, evd, evd, NULL, &h));
	ck_assert_ptr_eq(SHOWN(ep_query, h, DAT_EP_FIELD_ALL, DAT_EP_PARAM), ia);
	ck_dat(dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &cr_evd));
	ck_dat(dat_psp_create(ia, 7001, cr_evd, DAT_PSP_CONSUMER_FLAG, &h));
	ck_assert_ptr_eq(SHOWN(psp_query, h, DAT_PSP_FIELD_ALL, DAT_PSP_PARAM), ia);
	ck_dat(dat_rsp_create(ia, 7002, DAT_HANDLE_NULL, cr_evd, &h));
	ck_assert_ptr_eq(SHOWN(rsp_query, h, DAT_RSP_FIELD_ALL, DAT_RSP_PARAM), ia);
	ck_dat(dat_csp_create(ia, &comm, (DAT_IA_ADDRESS_PTR)&address, cr_evd, &h));
	ck_assert_ptr_eq(SHOWN(csp_query, h, DAT_CSP_FIELD_ALL, DAT_CSP_PARAM), ia);
	ck_dat(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
}
END_TEST

/* ---- what no transport can do ---- */

START_TEST(reads_into_a_window_are_refused)
{
	const DAT_RMR_TRIPLET range = target(client, 0, 8);

	ck_dat_is(ep_post_rdma_read_to_rmr(client->pz, &range, cookie_of(1), &range, 0),
		  BAD_HANDLE(EP));
	ck_dat_is(ep_post_rdma_read_to_rmr(NULL, &range, cookie_of(1), &range, 0), BAD_HANDLE(EP));
	ck_dat_is(ep_post_rdma_read_to_rmr(client->ep, NULL, cookie_of(1), &range, 0), BAD_ARG(2));
	ck_dat_is(ep_post_rdma_read_to_rmr(client->ep, &range, cookie_of(1), NULL, 0), BAD_ARG(4));
	ck_dat_is(ep_post_rdma_read_to_rmr(client->ep, &range, cookie_of(1), &range, 0),
		  NOT_SUPPORTED);
	ck_assert_uint_eq(fake_outstanding(), 0);
}
END_TEST

START_TEST(a_send_that_invalidates_nothing_is_a_send)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 8);

	ck_dat_is(ep_post_send_with_invalidate(client->pz, 1, &iov, cookie_of(1), 0, DAT_FALSE, 5),
		  BAD_HANDLE(EP));
	post_recv(server, 2, 0, 64, 0);
	ck_dat(ep_post_send_with_invalidate(client->ep, 1, &iov, cookie_of(1), 0, DAT_FALSE, 5));
	expect_operation(client->request_evd, DAT_DTO_SEND, DAT_DTO_SUCCESS);
	expect_operation(server->recv_evd, DAT_DTO_RECEIVE, DAT_DTO_SUCCESS);
}
END_TEST

/* ---- about the provider ---- */

/* The names of both kinds, with the thread safety and without. */
START_TEST(no_name_takes_over_from_another)
{
	DAT_BOOLEAN related = 77;
	DAT_EVD_HANDLE async;
	struct ia *safe;

	ck_dat_is(ia_ha_related(client->pz, (DAT_NAME_PTR) "fake1", &related), BAD_HANDLE(IA));
	ck_dat_is(ia_ha_related(client->ia, NULL, &related), BAD_ARG(2));
	ck_dat_is(ia_ha_related(client->ia, (DAT_NAME_PTR) "fake1", NULL), BAD_ARG(3));
	ck_dat_is(ia_ha_related(client->ia, (DAT_NAME_PTR) "nobody", &related), NO_NAME);
	ck_assert_int_eq(related, 77);
	ck_dat(ia_ha_related(client->ia, (DAT_NAME_PTR) "fake1", &related));
	ck_assert_int_eq(related, DAT_FALSE);
	safe = ia_open_on("fake3", true, &async);
	related = 77;
	ck_dat(ia_ha_related(client->ia, (DAT_NAME_PTR) "fake3", &related));
	ck_assert_int_eq(related, DAT_FALSE);
	ck_dat(ia_close(safe, DAT_CLOSE_ABRUPT_FLAG));
}
END_TEST

START_TEST(ha_related_without_memory_tells_nothing)
{
	DAT_BOOLEAN related = 77;
	DAT_RETURN ret;
	unsigned n;

	for (n = 1; alloc_fail_nth(n),
	    ret = ia_ha_related(client->ia, (DAT_NAME_PTR) "fake1", &related), alloc_failed();
	     n++) {
		ck_dat_is(ret, NO_RESOURCE(MEMORY));
		ck_assert_int_eq(related, 77);
	}
	ck_dat(ret);
	ck_assert_uint_gt(n, 1);
}
END_TEST

/* ---- opens for a query ---- */

static DAT_RETURN operate(DAT_HANDLE handle, int op, ...)
{
	DAT_RETURN ret;
	va_list args;

	va_start(args, op);
	ret = extended_op(handle, (DAT_EXTENDED_OP)op, args);
	va_end(args);
	return ret;
}

static DAT_RETURN try_query_open(const char *name, DAT_HANDLE *out, DAT_IA_ATTR *ia_attr,
				 DAT_PROVIDER_ATTR *provider_attr)
{
	return operate((DAT_HANDLE)(uintptr_t)name, DAT_IB_OPEN_QUERY_OP, out, DAT_IA_FIELD_ALL,
		       ia_attr, DAT_PROVIDER_FIELD_ALL, provider_attr);
}

static DAT_RETURN query_close(DAT_HANDLE handle)
{
	return operate(handle, DAT_IB_CLOSE_QUERY_OP);
}

START_TEST(a_query_open_fills_in_what_it_is_given)
{
	DAT_PROVIDER_ATTR provider_attr;
	DAT_HANDLE handle = POISON;
	DAT_IA_ATTR ia_attr;

	memset(&ia_attr, 0xee, sizeof(ia_attr));
	memset(&provider_attr, 0xee, sizeof(provider_attr));
	ck_dat(try_query_open("fake0", &handle, _i != 1 ? &ia_attr : NULL,
			      _i != 0 ? &provider_attr : NULL));
	ck_assert(obj_valid(NULL, handle, DAT_HANDLE_TYPE_IA));
	if (_i != 1) {
		ck_assert_str_eq(ia_attr.adapter_name, "fake0");
		ck_assert_int_gt(ia_attr.max_eps, 0);
	}
	if (_i != 0) {
		ck_assert_str_eq(provider_attr.provider_name, "fake0");
		ck_assert_str_eq(provider_attr.provider_specific_attr[1].value, "fake0");
	}
	ck_dat(query_close(handle));
	ck_dat_is(query_close(handle), BAD_HANDLE(IA));
}
END_TEST

START_TEST(a_query_open_checks_its_arguments)
{
	const unsigned alive = fake_alive(FAKE_ANY);
	DAT_HANDLE handle = POISON;
	DAT_IA_ATTR ia_attr;

	ck_dat_is(try_query_open(NULL, &handle, &ia_attr, NULL), BAD_ARG(3));
	ck_dat_is(try_query_open("fake0", NULL, &ia_attr, NULL), BAD_ARG(4));
	ck_dat_is(try_query_open("fake0", &handle, NULL, NULL), BAD_ARG(6));
	ck_dat_is(try_query_open("nobody", &handle, &ia_attr, NULL), NO_NAME);
	ck_assert_ptr_eq(handle, POISON);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), alive);
}
END_TEST

/* A close of a query is none of an IA that is open for more. */
START_TEST(a_query_close_takes_what_a_query_open_gave)
{
	ck_dat_is(query_close(client->ia), BAD_HANDLE(IA));
	ck_dat_is(query_close(client->ep), BAD_HANDLE(IA));
	ck_dat_is(query_close(NULL), BAD_HANDLE(IA));
	ck_dat_is(query_close(POISON), BAD_HANDLE(IA));
}
END_TEST

static const int unknown_operations[] = { 0x1001, 0x1fff, 0x2001, 0x2fff, 0x3000, 99 };

START_TEST(an_unknown_operation_is_not_implemented)
{
	ck_dat_is(operate(client->ia, unknown_operations[_i]), NOT_IMPLEMENTED);
}
END_TEST

struct things {
	unsigned made, descriptors, threads;
};

static struct things things_now(void)
{
	return (struct things){ fake_alive(FAKE_ANY), count_entries("/proc/self/fd"),
				count_entries("/proc/self/task") };
}

static void expect_only(const struct things *before)
{
	ck_assert(threads_end(before->threads));
	ck_assert_uint_eq(count_entries("/proc/self/fd"), before->descriptors);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), before->made);
}

START_TEST(a_query_open_without_memory_leaves_nothing)
{
	DAT_PROVIDER_ATTR provider_attr;
	DAT_HANDLE handle = POISON;
	struct things before;
	unsigned n;
	DAT_RETURN ret;

	fake_wait_idle(0);
	before = things_now();
	for (n = 1; alloc_fail_nth(n), ret = try_query_open("fake0", &handle, NULL, &provider_attr),
	    alloc_failed();
	     n++) {
		ck_dat_is(ret, NO_RESOURCE(MEMORY));
		ck_assert_ptr_eq(handle, POISON);
		expect_only(&before);
	}
	ck_dat(ret);
	ck_assert_uint_gt(n, 2);
	ck_dat(query_close(handle));
	expect_only(&before);
}
END_TEST

START_TEST(a_query_open_that_the_transport_refuses_leaves_nothing)
{
	DAT_PROVIDER_ATTR provider_attr;
	DAT_HANDLE handle = POISON;
	struct things before;
	unsigned n = 1;

	fake_wait_idle(0);
	before = things_now();
	for (; fake_fail_call(n),
	       try_query_open("fake0", &handle, NULL, &provider_attr) != DAT_SUCCESS;
	     n++) {
		ck_assert_ptr_eq(handle, POISON);
		expect_only(&before);
	}
	fake_fail_call(0);
	ck_assert_uint_gt(n, 1);
	ck_dat(query_close(handle));
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("connected"), *srqs = tcase_create("shared receive queues"),
	      *others = tcase_create("others");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_loop_test(cases, a_completion_tells_its_operation, 0, POSTS);
	tcase_add_loop_test(cases, a_failed_completion_tells_its_operation, 0, RECV);
	tcase_add_loop_test(cases, a_flushed_completion_tells_its_operation, 0, POSTS);
	tcase_add_test(cases, an_event_leaves_its_extension);
	tcase_add_test(cases, a_bind_refuses_what_is_no_lmr_of_the_ia);
	tcase_add_test(cases, the_named_attributes_have_their_order);
	tcase_add_test(cases, each_ia_has_its_own_named_attributes);
	tcase_add_test(cases, a_query_tells_the_state_of_the_port_as_it_is);
	tcase_add_test(cases, a_device_without_reads_says_so);
	tcase_add_test(cases, queries_show_the_consumers_handle_of_the_ia);
	tcase_add_test(cases, reads_into_a_window_are_refused);
	tcase_add_test(cases, a_send_that_invalidates_nothing_is_a_send);
	tcase_add_test(cases, no_name_takes_over_from_another);
	tcase_add_test(cases, ha_related_without_memory_tells_nothing);
	tcase_add_loop_test(cases, a_query_open_fills_in_what_it_is_given, 0, 3);
	tcase_add_test(cases, a_query_open_checks_its_arguments);
	tcase_add_test(cases, a_query_close_takes_what_a_query_open_gave);
	tcase_add_loop_test(cases, an_unknown_operation_is_not_implemented, 0,
			    COUNT(unknown_operations));
	tcase_add_test(cases, a_query_open_without_memory_leaves_nothing);
	tcase_add_test(cases, a_query_open_that_the_transport_refuses_leaves_nothing);
	tcase_add_checked_fixture(srqs, setup_srq, teardown);
	tcase_add_loop_test(srqs, the_end_of_a_connection_is_told_once, 0, COUNT(ends));
	tcase_add_loop_test(srqs, each_connection_of_an_endpoint_is_told, 0, 4);
	tcase_add_test(srqs, a_queue_pair_that_breaks_before_is_told_by_itself);
	tcase_add_test(srqs, a_freed_endpoint_is_not_told_of);
	tcase_add_test(srqs, an_attempt_in_vain_is_not_told);
	tcase_add_test(srqs, a_receive_of_a_shared_queue_tells_its_operation);
	tcase_add_loop_test(others, an_endpoint_with_receives_of_its_own_is_not_told_of, 0,
			    COUNT(ends));
	tcase_add_loop_test(others, a_bind_names_its_lmr_by_the_handle, 0, 2);
	return run_unit_cases(argc, argv);
}
