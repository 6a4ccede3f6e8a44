/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections are established and end: each event is delivered once and in order, and every
 * transfer completes exactly once.
 */
#include "../../udapl/endpoint/ep.h"
#include "alloc.h"
#include "harness.h"

#define NS_PER_MS  1000000
#define NS_PER_SEC UINT64_C(1000000000)

static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;

static void setup(void)
{
	client->one_evd = server->one_evd = true; /* shows the order of all events */
	side_open(client, "fake0");
	side_open(server, "fake1");
}

static void teardown(void)
{
	pair_close_abrupt(&pair);
}

static void reopen(bool one_evd, bool thread_safe_server)
{
	side_close(client);
	side_close(server);
	client->one_evd = server->one_evd = one_evd;
	server->thread_safe = thread_safe_server;
	side_open(client, "fake0");
	side_open(server, "fake1");
}

static void reopen_with_separate_evds(void)
{
	reopen(false, false);
}

static DAT_CONN_QUAL conn_listen(struct side *side)
{
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;

	ck_dat(psp_create_any(side->ia, &qual, side->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	return qual;
}

static DAT_RETURN conn_connect(struct side *from, struct in_addr host, DAT_CONN_QUAL qual,
			       DAT_TIMEOUT timeout)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr = host };

	return ep_connect(from->ep, (DAT_IA_ADDRESS_PTR)&addr, qual, timeout, 0, NULL,
			  DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
}

/* The client connects. Returns the request, which the server has not answered. */
static DAT_CR_HANDLE conn_request(DAT_TIMEOUT timeout)
{
	ck_dat(conn_connect(client, server->address.sin_addr, conn_listen(server), timeout));
	return expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
		.event_data.cr_arrival_event_data.cr_handle;
}

static void conn_post_recvs(const struct side *side, unsigned from, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		post_recv(side, from + i, 64 * i, 64, 0);
}

static void conn_post_sends(const struct side *side, unsigned from, unsigned n,
			    DAT_COMPLETION_FLAGS flags)
{
	for (unsigned i = 0; i < n; i++)
		post_send(side, from + i, 64 * i, 64, flags);
}

static void conn_expect_dtos(DAT_EVD_HANDLE evd, unsigned from, unsigned n,
			     DAT_DTO_COMPLETION_STATUS status)
{
	for (unsigned i = 0; i < n; i++)
		expect_dto(evd, from + i, status);
}

/* The connection ends with that event, and no event follows it. */
static void expect_end_event(const struct side *side, DAT_EVENT_NUMBER number)
{
	DAT_EVENT event = expect_event(side->connect_evd, number);

	ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, side->ep);
	ck_assert_int_eq(event.event_data.connect_event_data.private_data_size, 0);
	ck_assert_ptr_null(event.event_data.connect_event_data.private_data);
	ck_assert_int_eq(ep_get_state(side->ep), DAT_EP_STATE_DISCONNECTED);
	expect_no_event(side->connect_evd);
}

/* ---- connects that fail ---- */

START_TEST(connect_without_a_listener_is_rejected)
{
	conn_post_recvs(client, 1, 3);
	ck_dat(conn_connect(client, server->address.sin_addr, 4242, DAT_TIMEOUT_INFINITE));
	conn_expect_dtos(client->recv_evd, 1, 3, DAT_DTO_ERR_FLUSHED);
	expect_end_event(client, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
}
END_TEST

START_TEST(connect_to_an_unused_address_is_unreachable)
{
	conn_post_recvs(client, 1, 3);
	ck_dat(conn_connect(client, (struct in_addr){ htonl(FAKE_NETWORK + 100) }, 4242,
			    DAT_TIMEOUT_INFINITE));
	conn_expect_dtos(client->recv_evd, 1, 3, DAT_DTO_ERR_FLUSHED);
	expect_end_event(client, DAT_CONNECTION_EVENT_UNREACHABLE);
}
END_TEST

START_TEST(a_rejection_by_the_peer_is_reported)
{
	conn_post_recvs(client, 1, 3);
	ck_dat(cr_reject_bare(conn_request(DAT_TIMEOUT_INFINITE)));
	conn_expect_dtos(client->recv_evd, 1, 3, DAT_DTO_ERR_FLUSHED);
	expect_end_event(client, DAT_CONNECTION_EVENT_PEER_REJECTED);
	expect_no_event(server->connect_evd);
}
END_TEST

START_TEST(a_failed_last_step_fails_both_sides)
{
	conn_post_recvs(client, 1, 3);
	fake_fail("establish", EINVAL, 1);
	ck_dat(cr_accept(conn_request(DAT_TIMEOUT_INFINITE), server->ep, 0, NULL));
	conn_expect_dtos(client->recv_evd, 1, 3, DAT_DTO_ERR_FLUSHED);
	expect_end_event(client, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	expect_end_event(server, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
}
END_TEST

START_TEST(a_broken_qp_fails_a_pending_connect)
{
	DAT_CR_HANDLE cr = conn_request(DAT_TIMEOUT_INFINITE);
	struct ep *ep = client->ep;

	fake_break_qp(ep->qp);
	expect_event(client->async_evd, DAT_ASYNC_ERROR_EP_BROKEN);
	/* it has the flag for asynchronous errors, too */
	expect_event(client->recv_evd, DAT_ASYNC_ERROR_EP_BROKEN);
	expect_end_event(client, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	ck_dat(cr_accept(cr, server->ep, 0, NULL));
	expect_end_event(server, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
}
END_TEST

START_TEST(connect_times_out_exactly)
{
	uint64_t start = tp_now();
	DAT_CR_HANDLE cr = conn_request(SECONDS(5));

	expect_end_event(client, DAT_CONNECTION_EVENT_TIMED_OUT);
	ck_assert_uint_eq(tp_now() - start, 5 * NS_PER_SEC);
	/* the server learns later that the client gave up */
	ck_dat(cr_accept(cr, server->ep, 0, NULL));
	expect_end_event(server, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
	expect_no_event(client->connect_evd);
}
END_TEST

START_TEST(an_accept_after_the_timeout_fails)
{
	DAT_CR_HANDLE cr = conn_request(SECONDS(5));

	conn_post_recvs(server, 1, 2);
	fake_hold_cm(true);
	ck_dat(cr_accept(cr, server->ep, 0, NULL));
	expect_end_event(client, DAT_CONNECTION_EVENT_TIMED_OUT);
	fake_hold_cm(false);
	conn_expect_dtos(server->recv_evd, 1, 2, DAT_DTO_ERR_FLUSHED);
	expect_end_event(server, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
	expect_no_event(client->connect_evd);
}
END_TEST

START_TEST(establishment_cancels_the_connect_timer)
{
	uint64_t start = tp_now();
	struct waiter waiter = { .evd = client->connect_evd,
				 .timeout = SECONDS(20),
				 .threshold = 1 };

	ck_dat(cr_accept(conn_request(SECONDS(5)), server->ep, 0, NULL));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	waiter_start(&waiter);
	fake_clock_advance(21 * NS_PER_SEC);
	ck_dat_is(waiter_join(&waiter), DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0));
	ck_assert_uint_ge(tp_now() - start, 20 * NS_PER_SEC);
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_CONNECTED);
}
END_TEST

/* ---- establishment ---- */

START_TEST(established_carries_the_private_data_of_the_accept)
{
	char data[196];
	DAT_EVENT event;
	struct ep *ep = client->ep;

	memset(data, 0x5a, sizeof(data));
	ck_dat(cr_accept(conn_request(DAT_TIMEOUT_INFINITE), server->ep, sizeof(data), data));
	memset(data, 0, sizeof(data));
	event = expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_assert_ptr_null(event.event_data.connect_event_data.private_data);
	ck_assert_int_eq(event.event_data.connect_event_data.private_data_size, 0);
	ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, server->ep);
	event = expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, ep);
	ck_assert_int_eq(event.event_data.connect_event_data.private_data_size, sizeof(data));
	memset(data, 0x5a, sizeof(data));
	ck_assert_mem_eq(event.event_data.connect_event_data.private_data, data, sizeof(data));
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_CONNECTED);
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_CONNECTED);
}
END_TEST

START_TEST(data_may_arrive_before_established)
{
	DAT_CR_HANDLE cr;

	conn_post_recvs(server, 1, 1);
	cr = conn_request(DAT_TIMEOUT_INFINITE);
	fake_hold_cm(true);
	ck_dat(cr_accept(cr, server->ep, 0, NULL));
	ck_assert(fake_step_cm()); /* delivers the reply; the client's RTU stays on the wire */
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	conn_post_sends(client, 7, 1, 0);
	expect_dto(server->recv_evd, 1, DAT_DTO_SUCCESS);
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_COMPLETION_PENDING);
	fake_hold_cm(false);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}
END_TEST

/* A failure before ESTABLISHED is reported after it, as BROKEN. */
START_TEST(a_fault_before_established_is_reported_after_it)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 65);
	DAT_CR_HANDLE cr;

	conn_post_recvs(server, 1, 2);
	cr = conn_request(DAT_TIMEOUT_INFINITE);
	fake_hold_cm(true);
	ck_dat(cr_accept(cr, server->ep, 0, NULL));
	ck_assert(fake_step_cm());
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_dat(ep_post_send(client->ep, 1, &iov, cookie_of(7), 0));
	expect_dto(server->recv_evd, 1, DAT_DTO_ERR_LOCAL_LENGTH);
	ck_assert(fake_step_cm()); /* delivers the client's RTU, which precedes its disconnect */
	expect_dto(server->recv_evd, 2, DAT_DTO_ERR_FLUSHED);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_end_event(server, DAT_CONNECTION_EVENT_BROKEN);
	fake_hold_cm(false);
	expect_dto(client->request_evd, 7, DAT_DTO_ERR_REMOTE_RESPONDER);
	expect_end_event(client, DAT_CONNECTION_EVENT_BROKEN);
}
END_TEST

static const struct {
	/* the server's endpoint is created with the attributes below, else with the defaults */
	bool with_attr;
	DAT_COUNT client_in, client_out, server_in, server_out;
	/* passed to tp_accept */
	unsigned accept_in, accept_out;
	/* attributes of the server's endpoint while it is connected */
	DAT_COUNT agreed_in, agreed_out;
} reads[] = {
	{ false, 8, 8, 8, 8, 8, 8, 8, 8 },   { false, 2, 3, 8, 8, 3, 2, 3, 2 },
	{ false, 16, 16, 8, 8, 8, 8, 8, 8 }, { true, 2, 3, 8, 8, 3, 2, 8, 8 },
	{ true, 0, 0, 8, 8, 0, 0, 0, 0 },    { true, 16, 16, 4, 1, 4, 1, 4, 1 },
};

START_TEST(read_depths_are_negotiated)
{
	DAT_EP_ATTR attr = ep_attr_default(client);
	DAT_EP_PARAM param;

	attr.max_rdma_read_in = reads[_i].client_in;
	attr.max_rdma_read_out = reads[_i].client_out;
	ck_dat(ep_free(client->ep));
	client->ep = side_create_ep(client, &attr);
	attr.max_rdma_read_in = reads[_i].server_in;
	attr.max_rdma_read_out = reads[_i].server_out;
	ck_dat(ep_free(server->ep));
	server->ep = side_create_ep(server, reads[_i].with_attr ? &attr : NULL);
	pair_connect(&pair);
	ck_assert_uint_eq(fake_seen().cm.max_read_in, reads[_i].accept_in);
	ck_assert_uint_eq(fake_seen().cm.max_read_out, reads[_i].accept_out);
	ck_dat(ep_query(server->ep, DAT_EP_FIELD_ALL, &param));
	ck_assert_int_eq(param.ep_attr.max_rdma_read_in, reads[_i].agreed_in);
	ck_assert_int_eq(param.ep_attr.max_rdma_read_out, reads[_i].agreed_out);
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_end_event(server, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(ep_reset(server->ep));
	ck_dat(ep_query(server->ep, DAT_EP_FIELD_ALL, &param));
	ck_assert_int_eq(param.ep_attr.max_rdma_read_in, reads[_i].server_in);
	ck_assert_int_eq(param.ep_attr.max_rdma_read_out, reads[_i].server_out);
}
END_TEST

/* Two slots for each connection are reserved, whatever the length and the contents of the EVD. */
START_TEST(slots_for_connection_events_are_reserved)
{
	DAT_EVD_HANDLE evd = side_create_evd(client, 1, DAT_EVD_CONNECTION_FLAG);
	DAT_EP_HANDLE a[8], b[8];
	struct side side = *client;

	side.connect_evd = evd;
	for (int i = 0; i < COUNT(a); i++) {
		a[i] = side_create_ep(&side, NULL);
		b[i] = side_create_ep(server, NULL);
		fake_hold_cm(false);
		ck_dat(ep_connect(a[i], (DAT_IA_ADDRESS_PTR)&server->address, conn_listen(server),
				  DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT,
				  DAT_CONNECT_DEFAULT_FLAG));
		ck_dat(cr_accept(expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
					 .event_data.cr_arrival_event_data.cr_handle,
				 b[i], 0, NULL));
		expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
		fake_wait_idle(0);
		ck_dat(ep_disconnect(a[i], DAT_CLOSE_ABRUPT_FLAG));
		expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	}
	for (int i = 0; i < COUNT(a); i++) {
		DAT_EVENT event = expect_event(evd, DAT_CONNECTION_EVENT_ESTABLISHED);

		ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, a[i]);
		event = expect_event(evd, DAT_CONNECTION_EVENT_DISCONNECTED);
		ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, a[i]);
	}
	expect_no_event(evd);
}
END_TEST

START_TEST(an_ended_attempt_keeps_no_slots)
{
	struct evd *evd = client->connect_evd;

	ck_dat(ep_connect(client->ep, (DAT_IA_ADDRESS_PTR)&server->address, 7, DAT_TIMEOUT_INFINITE,
			  0, NULL, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	expect_end_event(client, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	fake_wait_idle(0);
	ck_assert_uint_eq(evd->reserved, 0);
}
END_TEST

/* ---- abrupt disconnect ---- */

/* The device does not flush the request, so we do. */
START_TEST(a_flush_wakes_who_waits_for_the_request)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };

	reopen_with_separate_evds();
	fake_quirks(FAKE_LATE_FLUSH);
	conn_post_recvs(client, 1, 1);
	pair_connect(&pair);
	waiter.evd = client->recv_evd;
	waiter_start(&waiter);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(waiter_join(&waiter));
	ck_assert_int_eq(waiter.event.event_data.dto_completion_event_data.status,
			 DAT_DTO_ERR_FLUSHED);
}
END_TEST

static const unsigned quirks[] = {
	0,
	FAKE_FORGETS_RECV,
	FAKE_FORGETS_RECV | FAKE_REFLUSH,
	FAKE_REFUSES_RECV | FAKE_REFUSES_SEND,
	FAKE_SWALLOWS_SEND,
	FAKE_LATE_FLUSH,
	FAKE_DROPS_CQES,
	FAKE_ARM_ANY,
};

/*
 * Receives and requests are flushed, each direction in order, and the end event follows. Requests
 * that are posted after it are flushed, too.
 */
START_TEST(abrupt_disconnect_flushes_each_request_once_in_order)
{
	unsigned recv = 1, request = 11;
	DAT_EVENT event;

	fake_quirks(quirks[_i]);
	conn_post_recvs(client, 1, 4);
	conn_post_recvs(server, 21, 4);
	pair_connect(&pair);
	fake_hold(true);
	conn_post_sends(client, 11, 4, 0);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	for (int i = 0; i < 8; i++) {
		event = expect_event(client->recv_evd, DAT_DTO_COMPLETION_EVENT);
		ck_assert_int_eq(event.event_data.dto_completion_event_data.status,
				 DAT_DTO_ERR_FLUSHED);
		if (event.event_data.dto_completion_event_data.user_cookie.as_64 == recv)
			recv++;
		else
			ck_assert_uint_eq(
				event.event_data.dto_completion_event_data.user_cookie.as_64,
				request++);
	}
	ck_assert_uint_eq(recv, 5);
	ck_assert_uint_eq(request, 15);
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	conn_expect_dtos(server->recv_evd, 21, 4, DAT_DTO_ERR_FLUSHED);
	expect_end_event(server, DAT_CONNECTION_EVENT_DISCONNECTED);
	conn_post_recvs(client, 5, 20); /* more than the ring holds: each is flushed at once */
	conn_expect_dtos(client->recv_evd, 5, 20, DAT_DTO_ERR_FLUSHED);
	conn_post_sends(client, 15, 20, DAT_COMPLETION_SUPPRESS_FLAG);
	conn_expect_dtos(client->recv_evd, 15, 20, DAT_DTO_ERR_FLUSHED);
	while (fake_step())
		; /* completions of the device are late now, and dropped */
	expect_no_event(client->recv_evd);
	expect_no_event(server->recv_evd);
}
END_TEST

/*
 * Flushes that exceed the reserved slots stay in the completion queue of the device until there is
 * memory. Then each is reported once, in order.
 */
START_TEST(the_end_event_waits_for_memory_for_the_flushes)
{
	DAT_EP_ATTR attr;

	reopen_with_separate_evds();
	attr = ep_attr_default(server);
	attr.max_recv_dtos = 100;
	ck_dat(ep_free(server->ep));
	server->ep = side_create_ep(server, &attr);
	conn_post_recvs(server, 1, 100);
	pair_connect(&pair);
	fake_wait_idle(0);
	alloc_starve_others(true);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	for (int i = 0; i < 20; i++) {
		fake_wait_idle(0);
		fake_clock_advance(50 * NS_PER_MS);
	}
	fake_wait_idle(0);
	ck_assert_uint_gt(alloc_refused(), 1);
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_DISCONNECT_PENDING);
	expect_no_event(server->connect_evd);
	if (_i) /* these can be dequeued meanwhile, which makes room */
		conn_expect_dtos(server->recv_evd, 1, 50, DAT_DTO_ERR_FLUSHED);
	alloc_starve_others(false);
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_end_event(server, DAT_CONNECTION_EVENT_DISCONNECTED);
	conn_expect_dtos(server->recv_evd, _i ? 51 : 1, _i ? 50 : 100, DAT_DTO_ERR_FLUSHED);
	expect_no_event(server->recv_evd);
	ck_dat(ep_reset(server->ep));
}
END_TEST

START_TEST(an_end_is_told_as_such_though_the_connection_before_has_failed)
{
	pair_connect(&pair);
	fake_fail_transfer(DAT_DTO_ERR_TRANSPORT);
	conn_post_sends(client, 1, 1, 0);
	expect_dto(client->request_evd, 1, DAT_DTO_ERR_TRANSPORT);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(ep_reset(client->ep));
	ck_dat(ep_reset(server->ep));
	pair_connect(&pair);
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

/* And though that one was ended by the peer, which is told as a fault if a transfer has failed. */
START_TEST(the_end_is_the_consumers_though_the_peer_ended_the_connection_before)
{
	CANCEL_FORBIDDEN;
	struct ep *ep = client->ep;

	pair_connect(&pair);
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(ep_reset(client->ep));
	ck_dat(ep_reset(server->ep));
	pair_connect(&pair);
	mutex_lock(&ep->obj.ia->lock); /* as dat_ep_disconnect does */
	fake_fail_transfer(DAT_DTO_ERR_TRANSPORT);
	conn_post_sends(client, 11, 1, 0);
	ep_trigger_locked(ep, ON_ABRUPT);
	mutex_unlock(&ep->obj.ia->lock);
	expect_dto(client->request_evd, 11, DAT_DTO_ERR_TRANSPORT);
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

/* The end of a connection must not fail: the call succeeds, and the flushes are reported later. */
START_TEST(disconnect_needs_no_memory)
{
	DAT_RETURN ret;
	DAT_EP_ATTR attr;

	attr = ep_attr_default(client);
	attr.max_recv_dtos = 100;
	ck_dat(ep_free(client->ep));
	client->ep = side_create_ep(client, &attr);
	conn_post_recvs(client, 1, 100);
	pair_connect(&pair);
	alloc_fail_nth(1);
	ret = ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG);
	(void)alloc_failed();
	ck_dat(ret);
	conn_expect_dtos(client->recv_evd, 1, 100, DAT_DTO_ERR_FLUSHED);
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_end_event(server, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

/*
 * Their slots are kept from the creation of the endpoint on, for as many as it may have
 * outstanding. In round 1 software events have all slots that they may have, too.
 */
START_TEST(flushes_that_the_device_does_not_report_need_no_memory)
{
	const unsigned depth = 170; /* so many that the queue gets 256 slots */
	DAT_EP_ATTR attr = ep_attr_default(server);

	attr.max_recv_dtos = (DAT_COUNT)depth;
	attr.max_request_dtos = 1;
	side_close(client);
	client->ep_attr = &attr;
	client->one_evd = true;
	side_open(client, "fake0");
	conn_post_recvs(client, 1, depth);
	pair_connect(&pair);
	for (uintptr_t n = 0; _i && n < SIDE_QLEN; n++)
		post_se(client->recv_evd, n);
	fake_quirks(FAKE_LATE_FLUSH);
	fake_wait_idle(0);
	alloc_starve_others(true);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	fake_clock_advance(200 * NS_PER_MS);
	fake_wait_idle(0);
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_DISCONNECTED);
	ck_assert_uint_gt(alloc_refused(), 0);
	ck_assert_uint_ge(((struct evd *)client->recv_evd)->queue.count, depth);
	alloc_starve_others(false);
	for (uintptr_t n = 0; _i && n < SIDE_QLEN; n++)
		expect_se(client->recv_evd, n);
	conn_expect_dtos(client->recv_evd, 1, depth, DAT_DTO_ERR_FLUSHED);
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

/*
 * Each post to a disconnected endpoint needs a slot for its event. Without memory for one the post
 * is refused, and there is no event.
 */
START_TEST(a_late_post_without_memory_is_refused)
{
	unsigned taken = 0, refused = 0;
	DAT_RETURN ret;

	pair_connect(&pair);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	while (refused < 10) {
		alloc_fail_nth(1);
		ret = _i ? try_send(client, taken, 0, 64, 0) : try_recv(client, taken, 0, 64, 0);
		(void)alloc_failed();
		if (ret == DAT_SUCCESS) {
			taken++;
		} else {
			ck_dat_is(ret, NO_RESOURCE(MEMORY));
			refused++;
		}
	}
	ck_assert_uint_gt(taken, 0);
	conn_expect_dtos(client->recv_evd, 0, taken, DAT_DTO_ERR_FLUSHED);
	expect_no_event(client->recv_evd);
	conn_post_sends(client, 1, 1, 0);
	expect_dto(client->recv_evd, 1, DAT_DTO_ERR_FLUSHED);
	alloc_fail_nth(1);
	ret = ep_reset(client->ep);
	(void)alloc_failed();
	ck_dat(ret);
}
END_TEST

/* A tenth of a second after the end began, requests that the device did not flush are completed. */
START_TEST(draining_has_a_time_limit)
{
	uint64_t start = tp_now();

	fake_quirks(FAKE_LATE_FLUSH);
	conn_post_recvs(client, 1, 2);
	pair_connect(&pair);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_DISCONNECT_PENDING);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_GRACEFUL_FLAG));
	ck_assert(fake_step());
	expect_dto(client->recv_evd, 1, DAT_DTO_ERR_FLUSHED);
	ck_assert_uint_eq(tp_now() - start, 0);
	expect_dto(client->recv_evd, 2, DAT_DTO_ERR_FLUSHED);
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_assert_uint_eq(tp_now() - start, 100 * NS_PER_MS);
}
END_TEST

/* The receives that were posted before are still to be flushed. */
START_TEST(an_attempt_that_is_ended_is_no_longer_pending)
{
	fake_quirks(FAKE_LATE_FLUSH);
	conn_post_recvs(client, 1, 2);
	conn_request(DAT_TIMEOUT_INFINITE);
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_DISCONNECT_PENDING);
	conn_expect_dtos(client->recv_evd, 1, 2, DAT_DTO_ERR_FLUSHED);
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_DISCONNECTED);
}
END_TEST

/* Its queue is in use, so nothing else has the service thread look at once. */
START_TEST(the_last_receive_that_is_flushed_ends_the_draining)
{
	const uint64_t start = tp_now();
	DAT_EVENT event;

	reopen_with_separate_evds();
	fake_quirks(FAKE_ARM_ANY);
	conn_post_recvs(client, 1, 2);
	pair_connect(&pair);
	conn_post_sends(server, 11, 1, 0);
	fake_wait_idle(0);
	expect_dto(client->recv_evd, 1, DAT_DTO_SUCCESS);
	fake_quirks(FAKE_ARM_ANY | FAKE_LATE_FLUSH);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	fake_wait_idle(0);
	expect_no_event(client->connect_evd);
	ck_assert(fake_step());
	fake_wait_idle(0);
	ck_dat(evd_dequeue(client->connect_evd, &event));
	ck_assert_uint_eq(event.event_number, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_assert_uint_eq(tp_now(), start);
}
END_TEST

static const unsigned flush_quirks[] = { 0, FAKE_REFUSES_SEND, FAKE_SWALLOWS_SEND,
					 FAKE_REFUSES_RECV, FAKE_FORGETS_RECV };

/*
 * The peer has disconnected, but the consumer has no event yet, so its posts must be accepted. They
 * are flushed with the earlier ones.
 */
START_TEST(posts_before_the_end_event_are_flushed_before_it)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 64);
	DAT_RMR_TRIPLET remote = target(server, 0, 64);

	fake_quirks(FAKE_LATE_FLUSH | flush_quirks[_i]);
	conn_post_recvs(client, 1, 2);
	pair_connect(&pair);
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	fake_wait_idle(0);
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_DISCONNECT_PENDING);
	conn_post_sends(client, 11, 2, 0);
	conn_post_sends(client, 13, 1, DAT_COMPLETION_SUPPRESS_FLAG);
	ck_dat(ep_post_rdma_read(client->ep, 1, &iov, cookie_of(14), &remote, 0));
	ck_dat(ep_post_rdma_write(client->ep, 1, &iov, cookie_of(15), &remote, 0));
	conn_post_recvs(client, 3, 2);
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_DISCONNECT_PENDING);
	conn_expect_dtos(client->recv_evd, 1, 4, DAT_DTO_ERR_FLUSHED);
	conn_expect_dtos(client->request_evd, 11, 5, DAT_DTO_ERR_FLUSHED);
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	while (fake_step())
		;
	expect_no_event(client->recv_evd);
}
END_TEST

START_TEST(requests_after_a_disconnect_call_are_refused)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 64);

	fake_quirks(FAKE_LATE_FLUSH);
	conn_post_recvs(client, 1, 2);
	pair_connect(&pair);
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	fake_wait_idle(0);
	ck_dat(ep_post_send(client->ep, 1, &iov, cookie_of(11), 0));
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat_is(ep_post_send(client->ep, 1, &iov, cookie_of(12), 0), BAD_STATE(EP_DISCPENDING));
	conn_expect_dtos(client->recv_evd, 1, 2, DAT_DTO_ERR_FLUSHED);
	expect_dto(client->request_evd, 11, DAT_DTO_ERR_FLUSHED);
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_no_event(client->request_evd);
}
END_TEST

START_TEST(both_sides_may_disconnect_at_once)
{
	pair_connect(&pair);
	conn_post_recvs(client, 1, 2);
	conn_post_recvs(server, 3, 2);
	fake_hold_cm(true);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	fake_hold_cm(false);
	conn_expect_dtos(client->recv_evd, 1, 2, DAT_DTO_ERR_FLUSHED);
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	conn_expect_dtos(server->recv_evd, 3, 2, DAT_DTO_ERR_FLUSHED);
	expect_end_event(server, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

/* Arming takes two system calls on some devices. */
START_TEST(a_disconnect_with_nothing_outstanding_arms_no_queue)
{
	unsigned arms;

	pair_connect(&pair);
	fake_wait_idle(0);
	arms = fake_calls("cq_arm");
	ck_dat(ep_disconnect(client->ep, _i ? DAT_CLOSE_ABRUPT_FLAG : DAT_CLOSE_GRACEFUL_FLAG));
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_end_event(server, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_assert_uint_eq(fake_calls("cq_arm"), arms);
}
END_TEST

/* Requests that completed before the end, but were not polled for, are successes. */
START_TEST(completed_requests_are_reported_before_the_end_event)
{
	conn_post_recvs(server, 1, 3);
	pair_connect(&pair);
	conn_post_sends(client, 11, 2, 0);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	conn_expect_dtos(client->recv_evd, 11, 2, DAT_DTO_SUCCESS);
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	conn_expect_dtos(server->recv_evd, 1, 2, DAT_DTO_SUCCESS);
	expect_dto(server->recv_evd, 3, DAT_DTO_ERR_FLUSHED);
	expect_end_event(server, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

START_TEST(an_endpoint_without_dto_evds_gets_the_end_event)
{
	DAT_EP_HANDLE ep;

	ck_dat(ep_create(client->ia, client->pz, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
			 client->connect_evd, NULL, &ep));
	ck_dat(ep_free(client->ep));
	client->ep = ep;
	conn_post_recvs(client, 1, 3);
	conn_post_recvs(server, 1, 1);
	pair_connect(&pair);
	conn_post_sends(client, 11, 16, 0);
	expect_dto(server->recv_evd, 1, DAT_DTO_SUCCESS);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	conn_post_sends(client, 11, 1, 0);
	expect_no_event(client->recv_evd);
}
END_TEST

/* ---- suppressed requests ---- */

START_TEST(the_marker_covers_completed_suppressed_requests)
{
	DAT_BOOLEAN idle;

	conn_post_recvs(server, 1, 5);
	pair_connect(&pair);
	conn_post_sends(client, 11, 5, DAT_COMPLETION_SUPPRESS_FLAG);
	ck_dat(ep_get_status(client->ep, NULL, NULL, &idle));
	ck_assert(!idle);
	if (_i)
		ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	else
		ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_assert_uint_eq(fake_calls("post_marker"), 1);
	ck_dat(ep_get_status(client->ep, NULL, NULL, &idle));
	ck_assert(idle);
	conn_expect_dtos(server->recv_evd, 1, 5, DAT_DTO_SUCCESS);
	expect_end_event(server, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

/* _i of six requests complete before the disconnect. */
START_TEST(flushed_suppressed_requests_are_reported)
{
	fake_quirks(FAKE_REFUSES_SEND);
	conn_post_recvs(server, 1, 6);
	pair_connect(&pair);
	fake_hold(true);
	conn_post_sends(client, 11, 6, DAT_COMPLETION_SUPPRESS_FLAG);
	for (int i = 0; i < _i; i++)
		ck_assert(fake_step());
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	conn_expect_dtos(client->recv_evd, 11 + (unsigned)_i, 6 - (unsigned)_i,
			 DAT_DTO_ERR_FLUSHED);
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

START_TEST(suppressed_requests_without_a_marker_are_flushed)
{
	conn_post_recvs(server, 1, 5);
	pair_connect(&pair);
	conn_post_sends(client, 11, 5, DAT_COMPLETION_SUPPRESS_FLAG);
	fake_fail("post_marker", ENOMEM, 1);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	conn_expect_dtos(client->recv_evd, 11, 5, DAT_DTO_ERR_FLUSHED);
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

/* The marker completes after the end event. */
START_TEST(a_late_marker_completion_is_dropped)
{
	fake_quirks(FAKE_LATE_FLUSH);
	conn_post_recvs(server, 1, 5);
	pair_connect(&pair);
	fake_hold(true);
	conn_post_sends(client, 11, 2, DAT_COMPLETION_SUPPRESS_FLAG);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	conn_expect_dtos(client->recv_evd, 11, 2, DAT_DTO_ERR_FLUSHED);
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	while (fake_step())
		;
	expect_no_event(client->recv_evd);
	ck_dat(ep_reset(client->ep));
}
END_TEST

/*
 * The service thread ends a connection while a thread of the consumer is inside a post: its slot is
 * claimed, but the request is not posted when the marker is. The test executes the steps of the
 * post itself, because no timing reaches that moment reliably.
 */
static const struct {
	bool posted_before_marker; /* on the queue pair */
	bool refused;		   /* by the transport */
} races[] = {
	{ false, false },
	{ false, true },
	{ true, false },
};

START_TEST(a_post_that_races_with_the_end_is_flushed_once)
{
	const struct tp_sge sge = { .address = (uintptr_t)client->memory,
				    .length = 64,
				    .lmr_context = client->lmr_context };
	struct ep *ep = client->ep;
	struct req *req;

	conn_post_recvs(server, 1, 5);
	pair_connect(&pair);
	conn_post_sends(client, 11, 2, DAT_COMPLETION_SUPPRESS_FLAG);
	fake_hold(true);
	req = ring_next(&ep->sends);
	req->cookie = cookie_of(13);
	req->kind = REQ_SEND;
	req->flags = DAT_COMPLETION_SUPPRESS_FLAG;
	atomic_fetch_add(&ep->sends.tail, RING_STEP); /* claims the slot */
	if (races[_i].posted_before_marker)
		ck_assert_int_eq(tp_post_send(ep->qp, req, &sge, 1, 64, 0), 0);
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	if (races[_i].posted_before_marker)
		expect_dto(client->request_evd, 13, DAT_DTO_ERR_FLUSHED);
	else
		fake_hold(false);
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_assert_uint_eq(ring_used(&ep->sends), 0);
	if (!races[_i].posted_before_marker && !races[_i].refused)
		ck_assert_int_eq(tp_post_send(ep->qp, req, &sge, 1, 64, 0), 0);
	spin_lock(&ep->request_evd->lock);
	ep_marker_race(ep, &ep->sends);
	ck_assert_uint_eq(ring_used(&ep->sends), !races[_i].posted_before_marker);
	if (races[_i].refused)
		ring_unpush(&ep->sends);
	spin_unlock(&ep->request_evd->lock);
	service_queue_work(ep->obj.ia, &ep->work);
	if (!races[_i].posted_before_marker && !races[_i].refused)
		expect_dto(client->request_evd, 13, DAT_DTO_ERR_FLUSHED);
	expect_no_event(client->request_evd);
}
END_TEST

/* The device takes a request and no marker; the next request is in the middle of its post. */
START_TEST(a_refused_marker_covers_no_request)
{
	struct ep *ep = client->ep;
	struct req *req;

	fake_quirks(FAKE_LATE_FLUSH);
	pair_connect(&pair);
	fake_hold(true);
	conn_post_sends(client, 11, 1, 0);
	req = ring_next(&ep->sends);
	req->cookie = cookie_of(12);
	req->kind = REQ_SEND;
	req->flags = DAT_COMPLETION_SUPPRESS_FLAG;
	atomic_fetch_add(&ep->sends.tail, RING_STEP); /* claims the slot */
	fake_fail("post_marker", EINVAL, 1);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	spin_lock(&ep->request_evd->lock);
	ep_marker_race(ep, &ep->sends);
	spin_unlock(&ep->request_evd->lock);
	conn_expect_dtos(client->request_evd, 11, 2, DAT_DTO_ERR_FLUSHED);
}
END_TEST

/* ---- graceful disconnect ---- */

START_TEST(graceful_disconnect_waits_for_requests)
{
	DAT_COMPLETION_FLAGS flags = _i ? DAT_COMPLETION_SUPPRESS_FLAG
					: DAT_COMPLETION_DEFAULT_FLAG;
	uint64_t start = tp_now();

	reopen_with_separate_evds();
	conn_post_recvs(server, 1, 4);
	pair_connect(&pair);
	conn_post_recvs(client, 21, 2);
	fake_hold(true);
	conn_post_sends(client, 11, 3, flags);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_GRACEFUL_FLAG));
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_DISCONNECT_PENDING);
	ck_dat_is(try_send(client, 14, 0, 64, 0), BAD_STATE(EP_DISCPENDING));
	conn_post_recvs(client, 23, 1);
	expect_no_event(client->connect_evd);
	ck_assert(fake_step());
	fake_wait_idle(0);
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_DISCONNECT_PENDING);
	fake_hold(false);
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED); /* without a poll */
	ck_assert_uint_eq(tp_now() - start, 0);
	expect_end_event(server, DAT_CONNECTION_EVENT_DISCONNECTED);
	if (!flags)
		conn_expect_dtos(client->request_evd, 11, 3, DAT_DTO_SUCCESS);
	expect_no_event(client->request_evd);
	conn_expect_dtos(client->recv_evd, 21, 3, DAT_DTO_ERR_FLUSHED);
	conn_expect_dtos(server->recv_evd, 1, 3, DAT_DTO_SUCCESS);
	expect_dto(server->recv_evd, 4, DAT_DTO_ERR_FLUSHED);
}
END_TEST

START_TEST(graceful_disconnect_has_a_time_limit)
{
	uint64_t start = tp_now();

	pair_connect(&pair);
	/* the server has no receive */
	conn_post_sends(client, 11, 2, _i ? DAT_COMPLETION_SUPPRESS_FLAG : 0);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_GRACEFUL_FLAG));
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_GRACEFUL_FLAG));
	conn_expect_dtos(client->recv_evd, 11, 2, DAT_DTO_ERR_FLUSHED);
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_assert_uint_eq(tp_now() - start, 3 * NS_PER_SEC);
}
END_TEST

START_TEST(abrupt_disconnect_ends_a_graceful_one)
{
	uint64_t start = tp_now();

	pair_connect(&pair);
	conn_post_sends(client, 11, 2, 0);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_GRACEFUL_FLAG));
	expect_no_event(client->recv_evd);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	conn_expect_dtos(client->recv_evd, 11, 2, DAT_DTO_ERR_FLUSHED);
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_assert_uint_eq(tp_now() - start, 0);
}
END_TEST

START_TEST(disconnect_by_the_peer_ends_a_graceful_one)
{
	pair_connect(&pair);
	conn_post_sends(client, 11, 2, 0);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_GRACEFUL_FLAG));
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	conn_expect_dtos(client->recv_evd, 11, 2, DAT_DTO_ERR_FLUSHED);
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_end_event(server, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

START_TEST(a_failed_request_breaks_a_graceful_disconnect)
{
	pair_connect(&pair);
	conn_post_sends(client, 11, 3, 0);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_GRACEFUL_FLAG));
	fake_fail_transfer(DAT_DTO_ERR_REMOTE_ACCESS);
	ck_assert(fake_step());
	expect_dto(client->recv_evd, 11, DAT_DTO_ERR_REMOTE_ACCESS);
	conn_expect_dtos(client->recv_evd, 12, 2, DAT_DTO_ERR_FLUSHED);
	expect_end_event(client, DAT_CONNECTION_EVENT_BROKEN);
	expect_end_event(server, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

/* ---- faults ---- */

static const DAT_DTO_COMPLETION_STATUS faults[] = {
	DAT_DTO_ERR_LOCAL_LENGTH, DAT_DTO_ERR_LOCAL_EP,		  DAT_DTO_ERR_LOCAL_PROTECTION,
	DAT_DTO_ERR_BAD_RESPONSE, DAT_DTO_ERR_REMOTE_ACCESS,	  DAT_DTO_ERR_REMOTE_RESPONDER,
	DAT_DTO_ERR_TRANSPORT,	  DAT_DTO_ERR_RECEIVER_NOT_READY,
};

START_TEST(a_failed_transfer_breaks_the_connection)
{
	conn_post_recvs(client, 1, 2);
	pair_connect(&pair);
	fake_hold(true);
	conn_post_sends(client, 11, 3, DAT_COMPLETION_SUPPRESS_FLAG);
	fake_fail_transfer(faults[_i]);
	fake_hold(false);
	expect_dto(client->recv_evd, 11, faults[_i]);
	for (int i = 0; i < 4; i++) {
		DAT_EVENT event = expect_event(client->recv_evd, DAT_DTO_COMPLETION_EVENT);

		ck_assert_int_eq(event.event_data.dto_completion_event_data.status,
				 DAT_DTO_ERR_FLUSHED);
	}
	expect_end_event(client, DAT_CONNECTION_EVENT_BROKEN);
	expect_end_event(server, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_no_event(client->async_evd);
}
END_TEST

/*
 * Reads 12 and 13 are lost behind the one that fails. What follows them is flushed: 14, and, of the
 * second variant, nothing but a marker.
 */
START_TEST(requests_that_the_device_loses_are_flushed)
{
	const DAT_COMPLETION_FLAGS flags = _i & 1 ? DAT_COMPLETION_SUPPRESS_FLAG : 0;
	DAT_RMR_TRIPLET remote;
	DAT_LMR_TRIPLET iov;

	fake_attr()->caps |= TP_CAP_LOSES_READS;
	reopen(true, false);
	fake_quirks(FAKE_LOSES_READS);
	pair_connect(&pair);
	iov = segment(client, 0, 8);
	remote = target(server, 0, 8);
	fake_hold(true);
	for (unsigned n = 11; n <= 13; n++)
		ck_dat(ep_post_rdma_read(client->ep, 1, &iov, cookie_of(n), &remote, flags));
	conn_post_sends(client, 14, 1, _i & 2 ? DAT_COMPLETION_SUPPRESS_FLAG : 0);
	fake_fail_transfer(DAT_DTO_ERR_LOCAL_PROTECTION);
	fake_hold(false);
	expect_dto(client->recv_evd, 11, DAT_DTO_ERR_LOCAL_PROTECTION);
	conn_expect_dtos(client->recv_evd, 12, 3, DAT_DTO_ERR_FLUSHED);
	expect_end_event(client, DAT_CONNECTION_EVENT_BROKEN);
	expect_no_event(client->recv_evd);
}
END_TEST

START_TEST(a_broken_connection_is_reported_without_polling_for_dtos)
{
	reopen_with_separate_evds();
	pair_connect(&pair);
	fake_fail_transfer(DAT_DTO_ERR_TRANSPORT);
	conn_post_sends(client, 11, 1, 0);
	expect_end_event(client, DAT_CONNECTION_EVENT_BROKEN);
	expect_dto(client->request_evd, 11, DAT_DTO_ERR_TRANSPORT);
}
END_TEST

START_TEST(a_message_too_long_breaks_both_sides)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 65);

	conn_post_recvs(server, 1, 2);
	pair_connect(&pair);
	ck_dat(ep_post_send(client->ep, 1, &iov, cookie_of(11), 0));
	expect_dto(server->recv_evd, 1, DAT_DTO_ERR_LOCAL_LENGTH);
	expect_dto(server->recv_evd, 2, DAT_DTO_ERR_FLUSHED);
	expect_end_event(server, DAT_CONNECTION_EVENT_BROKEN);
	expect_dto(client->request_evd, 11, DAT_DTO_ERR_REMOTE_RESPONDER);
	expect_end_event(client, DAT_CONNECTION_EVENT_BROKEN);
}
END_TEST

/* The peer's disconnect arrives before the failed transfer was polled for. */
START_TEST(a_failed_transfer_takes_precedence_over_a_disconnect)
{
	CANCEL_FORBIDDEN;
	struct ep *ep = client->ep;

	pair_connect(&pair);
	mutex_lock(&ep->obj.ia->lock); /* as the service thread does */
	fake_fail_transfer(DAT_DTO_ERR_TRANSPORT);
	conn_post_sends(client, 11, 1, 0);
	up_disconnected(ep);
	mutex_unlock(&ep->obj.ia->lock);
	expect_dto(client->recv_evd, 11, DAT_DTO_ERR_TRANSPORT);
	expect_end_event(client, DAT_CONNECTION_EVENT_BROKEN);
}
END_TEST

START_TEST(a_qp_error_of_the_device_breaks_the_connection)
{
	DAT_EVENT event;
	struct ep *ep;

	reopen_with_separate_evds();
	ep = client->ep;
	conn_post_recvs(client, 1, 2);
	pair_connect(&pair);
	fake_break_qp(ep->qp);
	conn_expect_dtos(client->recv_evd, 1, 2, DAT_DTO_ERR_FLUSHED);
	expect_end_event(client, DAT_CONNECTION_EVENT_BROKEN);
	event = expect_event(client->async_evd, DAT_ASYNC_ERROR_EP_BROKEN);
	ck_assert_ptr_eq(event.event_data.asynch_error_event_data.dat_handle, ep);
	ck_assert_int_eq(event.event_data.asynch_error_event_data.reason, DAT_EP_TRANSFER_TO_ERROR);
	expect_end_event(server, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

START_TEST(a_fatal_device_error_breaks_every_connection)
{
	DAT_EP_HANDLE idle;

	reopen_with_separate_evds();
	idle = side_create_ep(client, NULL);
	pair_connect(&pair);
	conn_post_recvs(client, 1, 2);
	fake_dev_fatal(((struct ia *)client->ia)->dev);
	expect_end_event(client, DAT_CONNECTION_EVENT_BROKEN);
	conn_expect_dtos(client->recv_evd, 1, 2, DAT_DTO_ERR_FLUSHED);
	expect_event(client->async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC);
	expect_no_event(client->async_evd);
	ck_assert_int_eq(ep_get_state(idle), DAT_EP_STATE_UNCONNECTED);
}
END_TEST

/*
 * Requests are flushed, but none failed. A disconnect of the peer may be the reason, so BROKEN is
 * reported only if none arrives within a second.
 */
START_TEST(an_unexplained_flush_waits_for_a_disconnect)
{
	CANCEL_FORBIDDEN;
	uint64_t start = tp_now();
	struct ep *ep = client->ep;

	conn_post_recvs(client, 1, 2);
	pair_connect(&pair);
	ck_assert_int_eq(tp_qp_error(ep->qp), 0);
	conn_expect_dtos(client->recv_evd, 1, 2, DAT_DTO_ERR_FLUSHED);
	expect_no_event(client->connect_evd);
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_CONNECTED);
	fake_clock_advance(NS_PER_SEC / 2); /* what is flushed then does not extend the time */
	conn_post_recvs(client, 3, 1);
	expect_dto(client->recv_evd, 3, DAT_DTO_ERR_FLUSHED);
	if (_i) {
		ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
		expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
		ck_assert_uint_eq(tp_now() - start, NS_PER_SEC / 2);
	} else {
		expect_end_event(client, DAT_CONNECTION_EVENT_BROKEN);
		ck_assert_uint_eq(tp_now() - start, NS_PER_SEC);
	}
}
END_TEST

START_TEST(exhausted_retries_break_the_connection)
{
	pair_connect(&pair);
	fake_hold_cm(true); /* the client gets no disconnect */
	ck_dat(ia_close(server->ia, DAT_CLOSE_ABRUPT_FLAG));
	free(server->memory);
	conn_post_sends(client, 11, 2, 0);
	fake_give_up();
	expect_dto(client->recv_evd, 11, DAT_DTO_ERR_TRANSPORT);
	expect_dto(client->recv_evd, 12, DAT_DTO_ERR_FLUSHED);
	expect_end_event(client, DAT_CONNECTION_EVENT_BROKEN);
	fake_hold_cm(false);
	side_open(server, "fake1");
}
END_TEST

/* A failure after the disconnect call does not change the event. */
START_TEST(the_first_end_event_is_final)
{
	struct ep *ep = client->ep;

	fake_quirks(FAKE_LATE_FLUSH);
	conn_post_recvs(client, 1, 1);
	pair_connect(&pair);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	fake_break_qp(ep->qp);
	ep_completion_seen(ep, &ep->recvs.slots[0], DAT_DTO_ERR_TRANSPORT);
	expect_dto(client->recv_evd, 1, DAT_DTO_ERR_FLUSHED);
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_no_event(client->async_evd);
}
END_TEST

/* ---- requests before ESTABLISHED ---- */

/* A server whose posts are serialised by the consumer, or by a lock. Separate EVDs or one. */
/* The server has accepted. Its answer, and all that follows it, is on the wire. */
static void accept_held(DAT_CR_HANDLE cr)
{
	fake_hold_cm(true);
	ck_dat(cr_accept(cr, server->ep, 0, NULL));
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_COMPLETION_PENDING);
}

/* Two sends, a write, a read; then a bind, and a suppressed send. Cookies: @from, ... */
static void post_early_requests(DAT_RMR_HANDLE rmr, unsigned from)
{
	DAT_LMR_TRIPLET iov = segment(server, 1000, 8), range = segment(server, 0, 64);
	DAT_RMR_TRIPLET remote = target(client, 2000, 0);
	DAT_RMR_CONTEXT context;

	conn_post_sends(server, from, 1, 0);
	conn_post_sends(server, from + 1, 1, DAT_COMPLETION_SUPPRESS_FLAG);
	ck_dat(ep_post_rdma_write(server->ep, 1, &iov, cookie_of(from + 2), &remote, 0));
	remote.REMOTE_ADDRESS += 8;
	iov.virtual_address += 8;
	ck_dat(ep_post_rdma_read(server->ep, 1, &iov, cookie_of(from + 3), &remote, 0));
	ck_dat(rmr_bind_va(rmr, &range, DAT_MEM_PRIV_REMOTE_READ_FLAG, server->ep,
			   cookie_of(from + 4), 0, &context));
	conn_post_sends(server, from + 5, 1, DAT_COMPLETION_SUPPRESS_FLAG);
}

static void expect_bind_event(DAT_EVD_HANDLE evd, uint64_t cookie, DAT_DTO_COMPLETION_STATUS status)
{
	const DAT_RMR_BIND_COMPLETION_EVENT_DATA bind =
		expect_event(evd, DAT_RMR_BIND_COMPLETION_EVENT)
			.event_data.rmr_completion_event_data;

	ck_assert_uint_eq(bind.user_cookie.as_64, cookie);
	ck_assert_int_eq(bind.status, status);
}

START_TEST(early_requests_are_executed_when_the_connection_stands)
{
	DAT_RMR_HANDLE rmr;

	reopen(false, _i);
	ck_dat(rmr_create(server->pz, &rmr));
	conn_post_recvs(client, 1, 3);
	accept_held(conn_request(DAT_TIMEOUT_INFINITE));
	memcpy(server->memory + 1000, "answered", 8);
	memcpy(client->memory + 2008, "question", 8);
	post_early_requests(rmr, 11);
	expect_no_event(server->request_evd);
	expect_no_event(client->recv_evd);
	ck_assert_mem_eq(client->memory + 2000, "\0\0\0\0\0\0\0", 8);
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_COMPLETION_PENDING);
	ck_assert(fake_step_cm()); /* the client is connected; the server does not know it yet */
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	conn_expect_dtos(client->recv_evd, 1, 3, DAT_DTO_SUCCESS);
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_COMPLETION_PENDING);
	fake_hold_cm(false);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_dto(server->request_evd, 11, DAT_DTO_SUCCESS);
	conn_expect_dtos(server->request_evd, 13, 2, DAT_DTO_SUCCESS);
	expect_bind_event(server->request_evd, 15, DAT_RMR_BIND_SUCCESS);
	expect_no_event(server->request_evd);
	ck_assert_mem_eq(client->memory + 2000, "answeredquestion", 16);
	ck_assert_mem_eq(server->memory + 1000, "answeredquestion", 16);
	conn_post_recvs(client, 4, 1);
	conn_post_sends(server, 17, 1, 0);
	expect_dto(client->recv_evd, 4, DAT_DTO_SUCCESS);
	expect_dto(server->request_evd, 17, DAT_DTO_SUCCESS);
}
END_TEST

/* Why an accepted connection is never established. */
enum early_end {
	PEER_IS_GONE,	  /* before the accept */
	PEER_DISCONNECTS, /* before it has the answer */
	PEER_FAILS,	  /* to establish it */
	QP_BREAKS,	  /* at the server */
	SERVER_ABRUPT,	  /* disconnects */
	SERVER_GRACEFUL,
	EARLY_ENDS,
};

static void end_early(enum early_end end)
{
	struct ep *ep = server->ep;

	switch (end) {
	case PEER_DISCONNECTS:
		ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
		break;
	case PEER_FAILS:
		fake_fail("establish", EINVAL, 1);
		break;
	case QP_BREAKS:
		fake_break_qp(ep->qp);
		expect_event(server->async_evd, DAT_ASYNC_ERROR_EP_BROKEN);
		break;
	case SERVER_ABRUPT:
		ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
		break;
	case SERVER_GRACEFUL:
		ck_dat(ep_disconnect(server->ep, DAT_CLOSE_GRACEFUL_FLAG));
		break;
	default:
		break;
	}
	fake_hold_cm(false);
}

/*
 * The requests are flushed in order, and the server has the end event, after the flushes unless it
 * was posted before the last request.
 */
static void expect_early_flushes(DAT_EVENT_NUMBER end, bool end_is_last)
{
	unsigned cookie = 11;
	bool ended = false;

	while (cookie < 17 || !ended) {
		DAT_EVENT event;
		DAT_COUNT nmore;

		ck_dat(evd_wait(server->recv_evd, SECONDS(60), 1, &event, &nmore));
		switch (event.event_number) {
		case DAT_DTO_COMPLETION_EVENT: {
			const DAT_DTO_COMPLETION_EVENT_DATA *dto =
				&event.event_data.dto_completion_event_data;

			ck_assert(!ended || !end_is_last);
			ck_assert_uint_eq(dto->user_cookie.as_64, cookie++);
			ck_assert_int_eq(dto->status, DAT_DTO_ERR_FLUSHED);
			break;
		}
		case DAT_RMR_BIND_COMPLETION_EVENT: {
			const DAT_RMR_BIND_COMPLETION_EVENT_DATA *bind =
				&event.event_data.rmr_completion_event_data;

			ck_assert(!ended || !end_is_last);
			ck_assert_uint_eq(cookie, 15);
			ck_assert_uint_eq(bind->user_cookie.as_64, cookie++);
			ck_assert_int_eq(bind->status, DAT_DTO_ERR_FLUSHED);
			break;
		}
		case DAT_ASYNC_ERROR_EP_BROKEN: /* the EVD has the stream of these errors, too */
			break;
		default:
			ck_assert_int_eq(event.event_number, end);
			ck_assert(!ended);
			ended = true;
		}
	}
}

static const unsigned early_quirks[] = {
	0, FAKE_LATE_FLUSH, FAKE_SWALLOWS_SEND, FAKE_DROPS_CQES, FAKE_REFUSES_SEND, FAKE_ARM_ANY
};

/* Each of them once and in order, before the end event. */
START_TEST(early_requests_are_flushed_if_the_connection_never_stands)
{
	const enum early_end end = (enum early_end)(_i % EARLY_ENDS);
	const unsigned quirk = early_quirks[_i / EARLY_ENDS % COUNT(early_quirks)];
	const bool by_server = end == SERVER_ABRUPT || end == SERVER_GRACEFUL;
	DAT_RMR_HANDLE rmr;
	DAT_CR_HANDLE cr;

	reopen(true, _i >= EARLY_ENDS * COUNT(early_quirks));
	fake_quirks(quirk);
	ck_dat(rmr_create(server->pz, &rmr));
	cr = conn_request(DAT_TIMEOUT_INFINITE);
	if (end == PEER_IS_GONE) {
		ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
		fake_wait_idle(0);
		ck_dat(cr_accept(cr, server->ep, 0, NULL));
	} else {
		accept_held(cr);
	}
	post_early_requests(rmr, 11);
	end_early(end);
	expect_early_flushes(by_server ? DAT_CONNECTION_EVENT_DISCONNECTED
				       : DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR,
			     end != PEER_IS_GONE);
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_DISCONNECTED);
	while (fake_step())
		; /* late completions of the device are dropped */
	expect_no_event(server->recv_evd);
	ck_dat(rmr_free(rmr));
	ck_dat(ep_reset(server->ep));
	ck_dat_is(try_send(server, 18, 0, 64, 0), BAD_STATE(EP_UNCONNECTED));
	fake_quirks(0);
	ck_dat(ep_free(client->ep));
	client->ep = side_create_ep(client, NULL);
	while (evd_dequeue(client->recv_evd, &(DAT_EVENT){ 0 }) == DAT_SUCCESS)
		;
	fake_wait_idle(0);
	pair_connect(&pair); /* the endpoint works again */
}
END_TEST

/* An empty completion queue that thousands of endpoints share is slow to read over some devices. */
START_TEST(the_end_of_a_connection_with_nothing_outstanding_reads_no_queue)
{
	unsigned polls;

	reopen_with_separate_evds();
	pair_connect(&pair);
	post_recv(server, 1, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	post_send(client, 1, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	expect_dto(client->request_evd, 1, DAT_DTO_SUCCESS);
	expect_dto(server->recv_evd, 1, DAT_DTO_SUCCESS);
	fake_wait_idle(0);
	polls = fake_calls("cq_poll");
	ck_dat(ep_disconnect(client->ep, _i ? DAT_CLOSE_GRACEFUL_FLAG : DAT_CLOSE_ABRUPT_FLAG));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(ep_free(client->ep));
	ck_dat(ep_reset(server->ep));
	ck_assert_uint_eq(fake_calls("cq_poll"), polls);
	client->ep = side_create_ep(client, NULL);
	pair_connect(&pair);
}
END_TEST

START_TEST(early_requests_after_a_disconnect_call_are_refused)
{
	fake_quirks(FAKE_LATE_FLUSH);
	conn_post_recvs(server, 1, 1); /* so that the end takes a while */
	accept_held(conn_request(DAT_TIMEOUT_INFINITE));
	conn_post_sends(server, 11, 1, 0);
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat_is(try_send(server, 12, 0, 64, 0), BAD_STATE(EP_DISCPENDING));
	fake_hold_cm(false);
	expect_dto(server->recv_evd, 1, DAT_DTO_ERR_FLUSHED);
	expect_dto(server->recv_evd, 11, DAT_DTO_ERR_FLUSHED);
	expect_end_event(server, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

/* With a bind among them the queue pair goes to error first, so that flushes may be reported. */
START_TEST(early_requests_are_discarded_with_their_endpoint)
{
	const bool bind = _i;
	DAT_RMR_HANDLE rmr;
	DAT_EVENT event;

	reopen(true, false);
	ck_dat(rmr_create(server->pz, &rmr));
	accept_held(conn_request(DAT_TIMEOUT_INFINITE));
	if (bind)
		post_early_requests(rmr, 11);
	else
		conn_post_sends(server, 11, 2, DAT_COMPLETION_SUPPRESS_FLAG);
	ck_dat_is(ep_reset(server->ep), BAD_STATE(EP_COMPLPENDING));
	ck_dat(ep_free(server->ep));
	ck_assert_uint_eq(fake_outstanding(), 0);
	fake_hold_cm(false);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_end_event(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	while (bind && evd_dequeue(server->recv_evd, &event) == DAT_SUCCESS)
		ck_assert_int_eq(event.event_data.dto_completion_event_data.status,
				 DAT_DTO_ERR_FLUSHED);
	expect_no_event(server->recv_evd);
	ck_dat(rmr_free(rmr));
	ck_dat(lmr_free(server->lmr)); /* nothing is bound to it */
	server->ep = side_create_ep(server, NULL);
}
END_TEST

/* The state is COMPLETION_PENDING within the call, too. */
START_TEST(requests_before_the_accept_has_returned_are_refused)
{
	DAT_CR_HANDLE cr = conn_request(DAT_TIMEOUT_INFINITE);
	struct ep *ep = server->ep;

	ck_dat_is(try_send(server, 1, 0, 64, 0), BAD_STATE(EP_UNCONNECTED));
	fake_fail("accept", ENOMEM, 1);
	ck_dat_is(cr_accept(cr, server->ep, 0, NULL), NO_RESOURCE(TEP));
	ck_dat_is(try_send(server, 1, 0, 64, 0), BAD_STATE(EP_UNCONNECTED));
	accept_held(cr);
	atomic_store(&ep->accepted, false);
	ep_set_gates(ep);
	ck_dat_is(try_send(server, 1, 0, 64, 0), BAD_STATE(EP_COMPLPENDING));
	atomic_store(&ep->accepted, true);
	ep_set_gates(ep);
	conn_post_sends(server, 1, 1, 0);
	ck_assert_uint_eq(fake_outstanding(), 1);
	fake_hold_cm(false);
}
END_TEST

/* An endpoint that was accepted once, and connects now, must not post before it is connected. */
START_TEST(requests_of_the_active_side_wait_for_established)
{
	pair_connect(&pair);
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_end_event(server, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(ep_reset(server->ep));
	fake_hold_cm(true);
	ck_dat(conn_connect(server, client->address.sin_addr, conn_listen(client),
			    DAT_TIMEOUT_INFINITE));
	ck_dat_is(try_send(server, 1, 0, 64, 0), BAD_STATE(EP_ACTCONNPENDING));
	fake_hold_cm(false);
}
END_TEST

START_TEST(a_failed_early_request_breaks_the_connection_after_established)
{
	DAT_LMR_TRIPLET iov;

	reopen(true, false);
	iov = segment(server, 0, 65);
	conn_post_recvs(client, 1, 1);
	accept_held(conn_request(DAT_TIMEOUT_INFINITE));
	ck_dat(ep_post_send(server->ep, 1, &iov, cookie_of(11), 0));
	conn_post_sends(server, 12, 1, DAT_COMPLETION_SUPPRESS_FLAG);
	ck_assert(fake_step_cm()); /* the client gets the answer, and the message */
	expect_dto(server->recv_evd, 11, DAT_DTO_ERR_REMOTE_RESPONDER);
	expect_dto(server->recv_evd, 12, DAT_DTO_ERR_FLUSHED);
	expect_no_event(server->recv_evd);
	fake_hold_cm(false);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_end_event(server, DAT_CONNECTION_EVENT_BROKEN);
}
END_TEST

START_TEST(early_reads_are_refused_if_the_peer_takes_none)
{
	DAT_RMR_TRIPLET remote;
	DAT_LMR_TRIPLET iov;
	DAT_EP_ATTR attr;

	reopen(false, false);
	iov = segment(server, 0, 8);
	remote = target(client, 0, 8);
	attr = ep_attr_default(client);
	attr.max_rdma_read_in = 0;
	ck_dat(ep_free(client->ep));
	client->ep = side_create_ep(client, &attr);
	accept_held(conn_request(DAT_TIMEOUT_INFINITE));
	ck_dat_is(ep_post_rdma_read(server->ep, 1, &iov, cookie_of(1), &remote, 0),
		  BAD_STATE(EP_NOTREADY));
	ck_dat(ep_post_rdma_write(server->ep, 1, &iov, cookie_of(2), &remote, 0));
	fake_hold_cm(false);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_dto(server->request_evd, 2, DAT_DTO_SUCCESS);
	ck_dat_is(ep_post_rdma_read(server->ep, 1, &iov, cookie_of(1), &remote, 0),
		  BAD_STATE(EP_NOTREADY));
}
END_TEST

/* ---- posts that race with the end ---- */

#define MAX_POSTS 100000

struct conn_poster {
	const struct side *side;
	bool recvs;
	unsigned posted; /* their cookies count from 0 */
};

static void *conn_poster_main(void *arg)
{
	struct conn_poster *poster = arg;

	while (poster->posted < MAX_POSTS) {
		DAT_RETURN ret = poster->recvs
					 ? try_recv(poster->side, poster->posted, 0, 64, 0)
					 : try_send(poster->side,
						    poster->posted | UINT64_C(1) << 32, 64, 64, 0);

		if (ret == DAT_SUCCESS)
			poster->posted++;
		else if (DAT_GET_TYPE(ret) == DAT_INVALID_STATE)
			break;
		else
			ck_assert_uint_eq(DAT_GET_TYPE(ret), DAT_INSUFFICIENT_RESOURCES);
		if (ep_get_state(poster->side->ep) == DAT_EP_STATE_DISCONNECTED)
			break;
	}
	return NULL;
}

/* Dequeues all events, and counts the completions, which must be in order. */
static void conn_collect(DAT_EVD_HANDLE evd, unsigned *recvs, unsigned *requests, bool *ended)
{
	DAT_EVENT event;

	while (evd_dequeue(evd, &event) == DAT_SUCCESS) {
		uint64_t cookie = event.event_data.dto_completion_event_data.user_cookie.as_64;

		if (event.event_number == DAT_CONNECTION_EVENT_DISCONNECTED ||
		    event.event_number == DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR) {
			ck_assert(!*ended);
			*ended = true;
			continue;
		}
		if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
			continue;
		ck_assert_int_eq(event.event_number, DAT_DTO_COMPLETION_EVENT);
		if (cookie >> 32)
			ck_assert_uint_eq((unsigned)cookie, (*requests)++);
		else
			ck_assert_uint_eq(cookie, (*recvs)++);
	}
}

/* The server disconnects meanwhile. Odd rounds: two threads post, on a thread-safe IA. */
START_TEST(every_post_completes_exactly_once)
{
	struct conn_poster sender = { .side = client },
			   receiver = { .side = client, .recvs = true };
	unsigned recvs = 0, requests = 0;
	pthread_t threads[2] = { 0 };
	bool ended = false;

	side_close(client);
	client->one_evd = true;
	client->thread_safe = _i & 1;
	side_open(client, "fake0");
	conn_post_recvs(server, 1, 16);
	pair_connect(&pair);
	threads[0] = consumer_thread_start(conn_poster_main, &sender);
	if (client->thread_safe)
		threads[1] = consumer_thread_start(conn_poster_main, &receiver);
	while (requests < 8)
		conn_collect(client->recv_evd, &recvs, &requests, &ended);
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	while (!ended)
		conn_collect(client->recv_evd, &recvs, &requests, &ended);
	consumer_thread_join(threads[0]);
	if (client->thread_safe)
		consumer_thread_join(threads[1]);
	fake_wait_idle(0);
	conn_collect(client->recv_evd, &recvs, &requests, &ended);
	ck_assert_uint_eq(requests, sender.posted);
	ck_assert_uint_eq(recvs, receiver.posted);
}
END_TEST

/*
 * The server posts from the accept on. The client disconnects before it has the answer, or later.
 * Odd rounds: two threads post, on a thread-safe IA.
 */
START_TEST(every_early_post_completes_exactly_once)
{
	struct conn_poster sender = { .side = server },
			   receiver = { .side = server, .recvs = true };
	const bool before = _i & 2;
	unsigned recvs = 0, requests = 0;
	pthread_t threads[2] = { 0 };
	bool ended = false;

	reopen(true, _i & 1);
	conn_post_recvs(client, 1, 16);
	accept_held(conn_request(DAT_TIMEOUT_INFINITE));
	threads[0] = consumer_thread_start(conn_poster_main, &sender);
	if (server->thread_safe)
		threads[1] = consumer_thread_start(conn_poster_main, &receiver);
	for (int n = 0; n < _i; n++)
		sched_yield();
	if (before)
		ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	fake_hold_cm(false);
	while (!before && requests < 8)
		conn_collect(server->recv_evd, &recvs, &requests, &ended);
	if (!before)
		ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	while (!ended)
		conn_collect(server->recv_evd, &recvs, &requests, &ended);
	consumer_thread_join(threads[0]);
	if (server->thread_safe)
		consumer_thread_join(threads[1]);
	fake_wait_idle(0);
	conn_collect(server->recv_evd, &recvs, &requests, &ended);
	ck_assert_uint_eq(requests, sender.posted);
	ck_assert_uint_eq(recvs, receiver.posted);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("connections");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_test(cases, connect_without_a_listener_is_rejected);
	tcase_add_test(cases, connect_to_an_unused_address_is_unreachable);
	tcase_add_test(cases, a_rejection_by_the_peer_is_reported);
	tcase_add_test(cases, a_failed_last_step_fails_both_sides);
	tcase_add_test(cases, a_broken_qp_fails_a_pending_connect);
	tcase_add_test(cases, connect_times_out_exactly);
	tcase_add_test(cases, an_accept_after_the_timeout_fails);
	tcase_add_test(cases, establishment_cancels_the_connect_timer);
	tcase_add_test(cases, established_carries_the_private_data_of_the_accept);
	tcase_add_test(cases, data_may_arrive_before_established);
	tcase_add_test(cases, a_fault_before_established_is_reported_after_it);
	tcase_add_loop_test(cases, read_depths_are_negotiated, 0, COUNT(reads));
	tcase_add_test(cases, slots_for_connection_events_are_reserved);
	tcase_add_test(cases, an_ended_attempt_keeps_no_slots);
	tcase_add_test(cases, a_flush_wakes_who_waits_for_the_request);
	tcase_add_loop_test(cases, abrupt_disconnect_flushes_each_request_once_in_order, 0,
			    COUNT(quirks));
	tcase_add_loop_test(cases, the_end_event_waits_for_memory_for_the_flushes, 0, 2);
	tcase_add_test(cases, an_end_is_told_as_such_though_the_connection_before_has_failed);
	tcase_add_test(cases, the_end_is_the_consumers_though_the_peer_ended_the_connection_before);
	tcase_add_test(cases, disconnect_needs_no_memory);
	tcase_add_loop_test(cases, flushes_that_the_device_does_not_report_need_no_memory, 0, 2);
	tcase_add_loop_test(cases, a_late_post_without_memory_is_refused, 0, 2);
	tcase_add_test(cases, draining_has_a_time_limit);
	tcase_add_test(cases, an_attempt_that_is_ended_is_no_longer_pending);
	tcase_add_test(cases, the_last_receive_that_is_flushed_ends_the_draining);
	tcase_add_loop_test(cases, posts_before_the_end_event_are_flushed_before_it, 0,
			    COUNT(flush_quirks));
	tcase_add_test(cases, requests_after_a_disconnect_call_are_refused);
	tcase_add_test(cases, both_sides_may_disconnect_at_once);
	tcase_add_loop_test(cases, a_disconnect_with_nothing_outstanding_arms_no_queue, 0, 2);
	tcase_add_test(cases, completed_requests_are_reported_before_the_end_event);
	tcase_add_test(cases, an_endpoint_without_dto_evds_gets_the_end_event);
	tcase_add_loop_test(cases, the_marker_covers_completed_suppressed_requests, 0, 2);
	tcase_add_loop_test(cases, flushed_suppressed_requests_are_reported, 0, 7);
	tcase_add_test(cases, suppressed_requests_without_a_marker_are_flushed);
	tcase_add_test(cases, a_late_marker_completion_is_dropped);
	tcase_add_loop_test(cases, a_post_that_races_with_the_end_is_flushed_once, 0, COUNT(races));
	tcase_add_test(cases, a_refused_marker_covers_no_request);
	tcase_add_loop_test(cases, graceful_disconnect_waits_for_requests, 0, 2);
	tcase_add_loop_test(cases, graceful_disconnect_has_a_time_limit, 0, 2);
	tcase_add_test(cases, abrupt_disconnect_ends_a_graceful_one);
	tcase_add_test(cases, disconnect_by_the_peer_ends_a_graceful_one);
	tcase_add_test(cases, a_failed_request_breaks_a_graceful_disconnect);
	tcase_add_loop_test(cases, a_failed_transfer_breaks_the_connection, 0, COUNT(faults));
	tcase_add_loop_test(cases, requests_that_the_device_loses_are_flushed, 0, 4);
	tcase_add_test(cases, a_broken_connection_is_reported_without_polling_for_dtos);
	tcase_add_test(cases, a_message_too_long_breaks_both_sides);
	tcase_add_test(cases, a_failed_transfer_takes_precedence_over_a_disconnect);
	tcase_add_test(cases, a_qp_error_of_the_device_breaks_the_connection);
	tcase_add_test(cases, a_fatal_device_error_breaks_every_connection);
	tcase_add_loop_test(cases, an_unexplained_flush_waits_for_a_disconnect, 0, 2);
	tcase_add_test(cases, exhausted_retries_break_the_connection);
	tcase_add_test(cases, the_first_end_event_is_final);
	tcase_add_loop_test(cases, early_requests_are_executed_when_the_connection_stands, 0, 2);
	tcase_add_loop_test(cases, early_requests_are_flushed_if_the_connection_never_stands, 0,
			    2 * EARLY_ENDS * COUNT(early_quirks));
	tcase_add_loop_test(cases, the_end_of_a_connection_with_nothing_outstanding_reads_no_queue,
			    0, 2);
	tcase_add_test(cases, early_requests_after_a_disconnect_call_are_refused);
	tcase_add_loop_test(cases, early_requests_are_discarded_with_their_endpoint, 0, 2);
	tcase_add_test(cases, requests_before_the_accept_has_returned_are_refused);
	tcase_add_test(cases, requests_of_the_active_side_wait_for_established);
	tcase_add_test(cases, a_failed_early_request_breaks_the_connection_after_established);
	tcase_add_test(cases, early_reads_are_refused_if_the_peer_takes_none);
	tcase_add_loop_test(cases, every_post_completes_exactly_once, 0, 20);
	tcase_add_loop_test(cases, every_early_post_completes_exactly_once, 0, 20);
	return run_unit_cases(argc, argv);
}
