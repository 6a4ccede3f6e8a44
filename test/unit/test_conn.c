/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a connection comes up and how it ends: each event once, in order, and every transfer
 * completed exactly once.
 */
#include "alloc.h"
#include "harness.h"

#define NS_PER_MS  1000000
#define NS_PER_SEC UINT64_C(1000000000)

static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;

static void setup(void)
{
	client->one_evd = server->one_evd = true; /* so that order is seen */
	side_open(client, "fake0");
	side_open(server, "fake1");
}

static void teardown(void)
{
	struct side *sides[] = { client, server };

	for (int i = 0; i < COUNT(sides); i++) {
		ck_dat(ia_close(sides[i]->ia, DAT_CLOSE_ABRUPT_FLAG));
		free(sides[i]->memory);
	}
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}

static void separate_evds(void)
{
	side_close(client);
	side_close(server);
	side_open(client, "fake0");
	side_open(server, "fake1");
}

static DAT_CONN_QUAL listen_at(struct side *side)
{
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;

	ck_dat(psp_create_any(side->ia, &qual, side->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	return qual;
}

static DAT_RETURN connect_to(struct side *from, struct in_addr host, DAT_CONN_QUAL qual,
			     DAT_TIMEOUT timeout)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr = host };

	return ep_connect(from->ep, (DAT_IA_ADDRESS_PTR)&addr, qual, timeout, 0, NULL,
			  DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
}

/* A's request, which waits at B. */
static DAT_CR_HANDLE request(DAT_TIMEOUT timeout)
{
	ck_dat(connect_to(client, server->address.sin_addr, listen_at(server), timeout));
	return expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
		.event_data.cr_arrival_event_data.cr_handle;
}

static void post_recvs(const struct side *side, unsigned from, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		post_recv(side, from + i, 64 * i, 64, 0);
}

static void post_sends(const struct side *side, unsigned from, unsigned n,
		       DAT_COMPLETION_FLAGS flags)
{
	for (unsigned i = 0; i < n; i++)
		post_send(side, from + i, 64 * i, 64, flags);
}

static void expect_dtos(DAT_EVD_HANDLE evd, unsigned from, unsigned n,
			DAT_DTO_COMPLETION_STATUS status)
{
	for (unsigned i = 0; i < n; i++)
		expect_dto(evd, from + i, status);
}

/* The end: an event of that kind, nothing after it. */
static void expect_end(const struct side *side, DAT_EVENT_NUMBER number)
{
	DAT_EVENT event = expect_event(side->connect_evd, number);

	ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, side->ep);
	ck_assert_int_eq(event.event_data.connect_event_data.private_data_size, 0);
	ck_assert_ptr_null(event.event_data.connect_event_data.private_data);
	ck_assert_int_eq(ep_get_state(side->ep), DAT_EP_STATE_DISCONNECTED);
	expect_no_event(side->connect_evd);
}

/* ---- attempts that fail, seen from the active side ---- */

START_TEST(nobody_listens)
{
	post_recvs(client, 1, 3);
	ck_dat(connect_to(client, server->address.sin_addr, 4242, DAT_TIMEOUT_INFINITE));
	expect_dtos(client->recv_evd, 1, 3, DAT_DTO_ERR_FLUSHED);
	expect_end(client, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
}
END_TEST

START_TEST(no_such_host)
{
	post_recvs(client, 1, 3);
	ck_dat(connect_to(client, (struct in_addr){ htonl(FAKE_NETWORK + 100) }, 4242,
			  DAT_TIMEOUT_INFINITE));
	expect_dtos(client->recv_evd, 1, 3, DAT_DTO_ERR_FLUSHED);
	expect_end(client, DAT_CONNECTION_EVENT_UNREACHABLE);
}
END_TEST

START_TEST(peer_rejects)
{
	post_recvs(client, 1, 3);
	ck_dat(cr_reject(request(DAT_TIMEOUT_INFINITE)));
	expect_dtos(client->recv_evd, 1, 3, DAT_DTO_ERR_FLUSHED);
	expect_end(client, DAT_CONNECTION_EVENT_PEER_REJECTED);
	expect_no_event(server->connect_evd);
}
END_TEST

START_TEST(our_last_step_fails)
{
	post_recvs(client, 1, 3);
	fake_fail("establish", EINVAL, 1);
	ck_dat(cr_accept(request(DAT_TIMEOUT_INFINITE), server->ep, 0, NULL));
	expect_dtos(client->recv_evd, 1, 3, DAT_DTO_ERR_FLUSHED);
	expect_end(client, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	expect_end(server, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
}
END_TEST

START_TEST(qp_breaks_while_connecting)
{
	DAT_CR_HANDLE cr = request(DAT_TIMEOUT_INFINITE);
	struct ep *ep = client->ep;

	fake_break_qp(ep->qp);
	expect_event(client->async_evd, DAT_ASYNC_ERROR_EP_BROKEN);
	expect_event(client->recv_evd,
		     DAT_ASYNC_ERROR_EP_BROKEN); /* its flags say that it takes these, too */
	expect_end(client, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	ck_dat(cr_accept(cr, server->ep, 0, NULL));
	expect_end(server, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
}
END_TEST

START_TEST(nobody_answers_in_time)
{
	uint64_t start = tp_now();
	DAT_CR_HANDLE cr = request(SECONDS(5));

	expect_end(client, DAT_CONNECTION_EVENT_TIMED_OUT);
	ck_assert_uint_eq(tp_now() - start, 5 * NS_PER_SEC);
	ck_dat(cr_accept(cr, server->ep, 0, NULL)); /* that the peer is gone shows later */
	expect_end(server, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
	expect_no_event(client->connect_evd);
}
END_TEST

START_TEST(an_answer_comes_too_late)
{
	DAT_CR_HANDLE cr = request(SECONDS(5));

	post_recvs(server, 1, 2);
	fake_hold_cm(true);
	ck_dat(cr_accept(cr, server->ep, 0, NULL));
	expect_end(client, DAT_CONNECTION_EVENT_TIMED_OUT);
	fake_hold_cm(false);
	expect_dtos(server->recv_evd, 1, 2, DAT_DTO_ERR_FLUSHED);
	expect_end(server, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
	expect_no_event(client->connect_evd);
}
END_TEST

START_TEST(no_timer_after_established)
{
	uint64_t start = tp_now();
	struct waiter waiter = { .evd = client->connect_evd,
				 .timeout = SECONDS(20),
				 .threshold = 1 };

	ck_dat(cr_accept(request(SECONDS(5)), server->ep, 0, NULL));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	waiter_start(&waiter);
	fake_clock_advance(21 * NS_PER_SEC);
	ck_dat_is(waiter_join(&waiter), DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0));
	ck_assert_uint_ge(tp_now() - start, 20 * NS_PER_SEC);
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_CONNECTED);
}
END_TEST

/* ---- coming up ---- */

START_TEST(established_carries_private_data)
{
	char data[196];
	DAT_EVENT event;
	struct ep *ep = client->ep;

	memset(data, 0x5a, sizeof(data));
	ck_dat(cr_accept(request(DAT_TIMEOUT_INFINITE), server->ep, sizeof(data), data));
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

START_TEST(data_may_overtake_established)
{
	DAT_CR_HANDLE cr;

	post_recvs(server, 1, 1);
	cr = request(DAT_TIMEOUT_INFINITE);
	fake_hold_cm(true);
	ck_dat(cr_accept(cr, server->ep, 0, NULL));
	ck_assert(fake_step_cm()); /* the reply; that A is ready stays on the wire */
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	post_sends(client, 7, 1, 0);
	expect_dto(server->recv_evd, 1, DAT_DTO_SUCCESS);
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_COMPLETION_PENDING);
	fake_hold_cm(false);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}
END_TEST

/* A failure before ESTABLISHED shows after it, as BROKEN. */
START_TEST(a_fault_may_overtake_established)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 65);
	DAT_CR_HANDLE cr;

	post_recvs(server, 1, 2);
	cr = request(DAT_TIMEOUT_INFINITE);
	fake_hold_cm(true);
	ck_dat(cr_accept(cr, server->ep, 0, NULL));
	ck_assert(fake_step_cm());
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_dat(ep_post_send(client->ep, 1, &iov, cookie_of(7), 0));
	expect_dto(server->recv_evd, 1, DAT_DTO_ERR_LOCAL_LENGTH);
	ck_assert(fake_step_cm()); /* that A was ready comes before that A is gone */
	expect_dto(server->recv_evd, 2, DAT_DTO_ERR_FLUSHED);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_end(server, DAT_CONNECTION_EVENT_BROKEN);
	fake_hold_cm(false);
	expect_dto(client->request_evd, 7, DAT_DTO_ERR_REMOTE_RESPONDER);
	expect_end(client, DAT_CONNECTION_EVENT_BROKEN);
}
END_TEST

static const struct {
	bool given;			    /* by the acceptor */
	DAT_COUNT a_in, a_out, b_in, b_out; /* wanted */
	unsigned wire_in, wire_out;	    /* what B's transport is asked for */
	DAT_COUNT b_left_in, b_left_out;    /* what B has in the end */
} reads[] = {
	{ false, 8, 8, 8, 8, 8, 8, 8, 8 },   { false, 2, 3, 8, 8, 3, 2, 3, 2 },
	{ false, 16, 16, 8, 8, 8, 8, 8, 8 }, { true, 2, 3, 8, 8, 3, 2, 8, 8 },
	{ true, 0, 0, 8, 8, 0, 0, 0, 0 },    { true, 16, 16, 4, 1, 4, 1, 4, 1 },
};

START_TEST(read_depths_are_agreed)
{
	DAT_EP_ATTR attr = ep_attr_default(client);
	DAT_EP_PARAM param;

	attr.max_rdma_read_in = reads[_i].a_in;
	attr.max_rdma_read_out = reads[_i].a_out;
	ck_dat(ep_free(client->ep));
	client->ep = side_create_ep(client, &attr);
	attr.max_rdma_read_in = reads[_i].b_in;
	attr.max_rdma_read_out = reads[_i].b_out;
	ck_dat(ep_free(server->ep));
	server->ep = side_create_ep(server, reads[_i].given ? &attr : NULL);
	pair_connect(&pair);
	ck_assert_uint_eq(fake_seen().cm.max_read_in, reads[_i].wire_in);
	ck_assert_uint_eq(fake_seen().cm.max_read_out, reads[_i].wire_out);
	ck_dat(ep_query(server->ep, DAT_EP_FIELD_ALL, &param));
	ck_assert_int_eq(param.ep_attr.max_rdma_read_in, reads[_i].b_left_in);
	ck_assert_int_eq(param.ep_attr.max_rdma_read_out, reads[_i].b_left_out);
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_end(server, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(ep_reset(server->ep));
	ck_dat(ep_query(server->ep, DAT_EP_FIELD_ALL, &param));
	ck_assert_int_eq(param.ep_attr.max_rdma_read_in, reads[_i].b_in);
	ck_assert_int_eq(param.ep_attr.max_rdma_read_out, reads[_i].b_out);
}
END_TEST

/* Two slots for each connection are kept whatever else is on the EVD and however short it is. */
START_TEST(short_connect_evd_holds_both_events)
{
	DAT_EVD_HANDLE evd = side_create_evd(client, 1, DAT_EVD_CONNECTION_FLAG);
	DAT_EP_HANDLE a[8], b[8];
	struct side side = *client;

	side.connect_evd = evd;
	for (int i = 0; i < COUNT(a); i++) {
		a[i] = side_create_ep(&side, NULL);
		b[i] = side_create_ep(server, NULL);
		fake_hold_cm(false);
		ck_dat(ep_connect(a[i], (DAT_IA_ADDRESS_PTR)&server->address, listen_at(server),
				  DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT,
				  DAT_CONNECT_DEFAULT_FLAG));
		ck_dat(cr_accept(expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
					 .event_data.cr_arrival_event_data.cr_handle,
				 b[i], 0, NULL));
		expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
		fake_settle(0);
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

/* ---- abrupt ---- */

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
 * Receives, then requests, each in order; then the event. Whatever is posted thereafter is flushed,
 * too.
 */
START_TEST(abrupt_flushes_once_and_in_order)
{
	unsigned recv = 1, request = 11;
	DAT_EVENT event;

	fake_quirks(quirks[_i]);
	post_recvs(client, 1, 4);
	post_recvs(server, 21, 4);
	pair_connect(&pair);
	fake_hold(true);
	post_sends(client, 11, 4, 0);
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
	expect_end(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_dtos(server->recv_evd, 21, 4, DAT_DTO_ERR_FLUSHED);
	expect_end(server, DAT_CONNECTION_EVENT_DISCONNECTED);
	post_recvs(client, 5, 20); /* more than there is room for: none stays */
	expect_dtos(client->recv_evd, 5, 20, DAT_DTO_ERR_FLUSHED);
	post_sends(client, 15, 20, DAT_COMPLETION_SUPPRESS_FLAG);
	expect_dtos(client->recv_evd, 15, 20, DAT_DTO_ERR_FLUSHED);
	while (fake_step())
		; /* what comes later counts for nothing */
	expect_no_event(client->recv_evd);
	expect_no_event(server->recv_evd);
}
END_TEST

/*
 * What outlasts the room that was kept for it stays below until there is memory; then each comes
 * once, in order.
 */
START_TEST(an_end_waits_for_memory)
{
	DAT_EP_ATTR attr;

	separate_evds();
	attr = ep_attr_default(server);
	attr.max_recv_dtos = 100;
	ck_dat(ep_free(server->ep));
	server->ep = side_create_ep(server, &attr);
	post_recvs(server, 1, 100);
	pair_connect(&pair);
	fake_settle(0);
	alloc_starve_others(true);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	for (int i = 0; i < 20; i++) {
		fake_settle(0);
		fake_clock_advance(50 * NS_PER_MS);
	}
	fake_settle(0);
	ck_assert_uint_gt(alloc_refused(), 1);
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_DISCONNECT_PENDING);
	expect_no_event(server->connect_evd);
	if (_i) /* what is there can be had, and makes room */
		expect_dtos(server->recv_evd, 1, 50, DAT_DTO_ERR_FLUSHED);
	alloc_starve_others(false);
	expect_end(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_end(server, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_dtos(server->recv_evd, _i ? 51 : 1, _i ? 50 : 100, DAT_DTO_ERR_FLUSHED);
	expect_no_event(server->recv_evd);
	ck_dat(ep_reset(server->ep));
}
END_TEST

/* In the consumer's own call. Nothing of an end may fail: it succeeds, and what is owed follows. */
START_TEST(disconnect_needs_no_memory)
{
	DAT_RETURN ret;
	DAT_EP_ATTR attr;

	attr = ep_attr_default(client);
	attr.max_recv_dtos = 100;
	ck_dat(ep_free(client->ep));
	client->ep = side_create_ep(client, &attr);
	post_recvs(client, 1, 100);
	pair_connect(&pair);
	alloc_fail_nth(1);
	ret = ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG);
	(void)alloc_failed();
	ck_dat(ret);
	expect_dtos(client->recv_evd, 1, 100, DAT_DTO_ERR_FLUSHED);
	expect_end(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_end(server, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

/*
 * Each post at a disconnected endpoint wants an event's room: without it the post is refused, and
 * there is no event.
 */
START_TEST(late_posts_run_out_of_memory)
{
	unsigned taken = 0, refused = 0;
	DAT_RETURN ret;

	pair_connect(&pair);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_end(client, DAT_CONNECTION_EVENT_DISCONNECTED);
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
	expect_dtos(client->recv_evd, 0, taken, DAT_DTO_ERR_FLUSHED);
	expect_no_event(client->recv_evd);
	post_sends(client, 1, 1, 0);
	expect_dto(client->recv_evd, 1, DAT_DTO_ERR_FLUSHED);
	alloc_fail_nth(1);
	ret = ep_reset(client->ep);
	(void)alloc_failed();
	ck_dat(ret);
}
END_TEST

/* No device is waited for longer than a tenth of a second. */
START_TEST(a_slow_device_is_not_waited_for)
{
	uint64_t start = tp_now();

	fake_quirks(FAKE_LATE_FLUSH);
	post_recvs(client, 1, 2);
	pair_connect(&pair);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_DISCONNECT_PENDING);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_GRACEFUL_FLAG));
	ck_assert(fake_step());
	expect_dto(client->recv_evd, 1, DAT_DTO_ERR_FLUSHED);
	ck_assert_uint_eq(tp_now() - start, 0);
	expect_dto(client->recv_evd, 2, DAT_DTO_ERR_FLUSHED);
	expect_end(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_assert_uint_eq(tp_now() - start, 100 * NS_PER_MS);
}
END_TEST

static const unsigned at_the_end[] = { 0, FAKE_REFUSES_SEND, FAKE_SWALLOWS_SEND, FAKE_REFUSES_RECV,
				       FAKE_FORGETS_RECV };

/*
 * Until the device has flushed the consumer knows of no end, so that posts have to be taken, and go
 * with the others.
 */
START_TEST(nobody_asked_for_a_state_between)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 64);
	DAT_RMR_TRIPLET remote = target(server, 0, 64);

	fake_quirks(FAKE_LATE_FLUSH | at_the_end[_i]);
	post_recvs(client, 1, 2);
	pair_connect(&pair);
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	fake_settle(0);
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_DISCONNECT_PENDING);
	post_sends(client, 11, 2, 0);
	post_sends(client, 13, 1, DAT_COMPLETION_SUPPRESS_FLAG);
	ck_dat(ep_post_rdma_read(client->ep, 1, &iov, cookie_of(14), &remote, 0));
	ck_dat(ep_post_rdma_write(client->ep, 1, &iov, cookie_of(15), &remote, 0));
	post_recvs(client, 3, 2);
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_DISCONNECT_PENDING);
	expect_dtos(client->recv_evd, 1, 4, DAT_DTO_ERR_FLUSHED);
	expect_dtos(client->request_evd, 11, 5, DAT_DTO_ERR_FLUSHED);
	expect_end(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	while (fake_step())
		;
	expect_no_event(client->recv_evd);
}
END_TEST

START_TEST(who_asks_for_it_has_it)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 64);

	fake_quirks(FAKE_LATE_FLUSH);
	post_recvs(client, 1, 2);
	pair_connect(&pair);
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	fake_settle(0);
	ck_dat(ep_post_send(client->ep, 1, &iov, cookie_of(11), 0));
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat_is(ep_post_send(client->ep, 1, &iov, cookie_of(12), 0), BAD_STATE(EP_DISCPENDING));
	expect_dtos(client->recv_evd, 1, 2, DAT_DTO_ERR_FLUSHED);
	expect_dto(client->request_evd, 11, DAT_DTO_ERR_FLUSHED);
	expect_end(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_no_event(client->request_evd);
}
END_TEST

START_TEST(both_disconnect_at_once)
{
	pair_connect(&pair);
	post_recvs(client, 1, 2);
	post_recvs(server, 3, 2);
	fake_hold_cm(true);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	fake_hold_cm(false);
	expect_dtos(client->recv_evd, 1, 2, DAT_DTO_ERR_FLUSHED);
	expect_end(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_dtos(server->recv_evd, 3, 2, DAT_DTO_ERR_FLUSHED);
	expect_end(server, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

/* What had completed, and nobody had looked, comes before the event and is a success. */
START_TEST(successes_come_first)
{
	post_recvs(server, 1, 3);
	pair_connect(&pair);
	post_sends(client, 11, 2, 0);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_dtos(client->recv_evd, 11, 2, DAT_DTO_SUCCESS);
	expect_end(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_dtos(server->recv_evd, 1, 2, DAT_DTO_SUCCESS);
	expect_dto(server->recv_evd, 3, DAT_DTO_ERR_FLUSHED);
	expect_end(server, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

START_TEST(who_wants_no_completions_gets_the_event)
{
	DAT_EP_HANDLE ep;

	ck_dat(ep_create(client->ia, client->pz, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
			 client->connect_evd, NULL, &ep));
	ck_dat(ep_free(client->ep));
	client->ep = ep;
	post_recvs(client, 1, 3);
	post_recvs(server, 1, 1);
	pair_connect(&pair);
	post_sends(client, 11, 16, 0);
	expect_dto(server->recv_evd, 1, DAT_DTO_SUCCESS);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_end(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	post_sends(client, 11, 1, 0);
	expect_no_event(client->recv_evd);
}
END_TEST

/* ---- suppressed requests ---- */

START_TEST(suppressed_successes_are_proved)
{
	DAT_BOOLEAN idle;

	post_recvs(server, 1, 5);
	pair_connect(&pair);
	post_sends(client, 11, 5, DAT_COMPLETION_SUPPRESS_FLAG);
	ck_dat(ep_get_status(client->ep, NULL, NULL, &idle));
	ck_assert(!idle);
	if (_i)
		ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	else
		ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_end(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_assert_uint_eq(fake_calls("post_marker"), 1);
	ck_dat(ep_get_status(client->ep, NULL, NULL, &idle));
	ck_assert(idle);
	expect_dtos(server->recv_evd, 1, 5, DAT_DTO_SUCCESS);
	expect_end(server, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

/* Of six, _i are done. */
START_TEST(suppressed_flushes_are_told)
{
	fake_quirks(FAKE_REFUSES_SEND);
	post_recvs(server, 1, 6);
	pair_connect(&pair);
	fake_hold(true);
	post_sends(client, 11, 6, DAT_COMPLETION_SUPPRESS_FLAG);
	for (int i = 0; i < _i; i++)
		ck_assert(fake_step());
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_dtos(client->recv_evd, 11 + (unsigned)_i, 6 - (unsigned)_i, DAT_DTO_ERR_FLUSHED);
	expect_end(client, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

START_TEST(no_proof_no_success)
{
	post_recvs(server, 1, 5);
	pair_connect(&pair);
	post_sends(client, 11, 5, DAT_COMPLETION_SUPPRESS_FLAG);
	fake_fail("post_marker", ENOMEM, 1);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_dtos(client->recv_evd, 11, 5, DAT_DTO_ERR_FLUSHED);
	expect_end(client, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

/* The marker comes back when all is over: it is no event then, either. */
START_TEST(a_late_marker_is_no_event)
{
	fake_quirks(FAKE_LATE_FLUSH);
	post_recvs(server, 1, 5);
	pair_connect(&pair);
	fake_hold(true);
	post_sends(client, 11, 2, DAT_COMPLETION_SUPPRESS_FLAG);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_dtos(client->recv_evd, 11, 2, DAT_DTO_ERR_FLUSHED);
	expect_end(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	while (fake_step())
		;
	expect_no_event(client->recv_evd);
	ck_dat(ep_reset(client->ep));
}
END_TEST

/*
 * The service thread ends a connection while its consumer is in the middle of a post: claimed, but
 * not posted when the marker is. By hand, for no test could hit that moment.
 */
static const struct {
	bool before;  /* it was posted before the marker, after all */
	bool refused; /* the transport does not take it */
} middles[] = {
	{ false, false },
	{ false, true },
	{ true, false },
};

START_TEST(a_post_in_the_middle_is_flushed)
{
	struct ep *ep = client->ep;
	DAT_LMR_TRIPLET iov = segment(client, 0, 64);
	struct req *req;

	post_recvs(server, 1, 5);
	pair_connect(&pair);
	post_sends(client, 11, 2, DAT_COMPLETION_SUPPRESS_FLAG);
	fake_hold(true);
	req = ring_next(&ep->sends);
	req->cookie = cookie_of(13);
	req->kind = REQ_SEND;
	req->flags = DAT_COMPLETION_SUPPRESS_FLAG;
	atomic_fetch_add(&ep->sends.tail, 1); /* claimed */
	if (middles[_i].before)
		ck_assert_int_eq(tp_post_send(ep->qp, req, &iov, 1, 64, 0), 0);
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	if (middles[_i].before)
		expect_dto(client->request_evd, 13, DAT_DTO_ERR_FLUSHED);
	else
		fake_hold(false);
	expect_end(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_assert_uint_eq(ring_used(&ep->sends), 0);
	if (!middles[_i].before && !middles[_i].refused)
		ck_assert_int_eq(tp_post_send(ep->qp, req, &iov, 1, 64, 0), 0);
	spin_lock(&ep->request_evd->lock);
	ep_doubt(ep, &ep->sends);
	ck_assert_uint_eq(ring_used(&ep->sends), !middles[_i].before);
	if (middles[_i].refused)
		ring_unpush(&ep->sends);
	spin_unlock(&ep->request_evd->lock);
	service_kick(ep->obj.ia, &ep->work);
	if (!middles[_i].before && !middles[_i].refused)
		expect_dto(client->request_evd, 13, DAT_DTO_ERR_FLUSHED);
	expect_no_event(client->request_evd);
}
END_TEST

/* ---- graceful ---- */

START_TEST(graceful_lets_requests_finish)
{
	DAT_COMPLETION_FLAGS flags = _i ? DAT_COMPLETION_SUPPRESS_FLAG
					: DAT_COMPLETION_DEFAULT_FLAG;
	uint64_t start = tp_now();

	separate_evds();
	post_recvs(server, 1, 4);
	pair_connect(&pair);
	post_recvs(client, 21, 2);
	fake_hold(true);
	post_sends(client, 11, 3, flags);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_GRACEFUL_FLAG));
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_DISCONNECT_PENDING);
	ck_dat_is(try_send(client, 14, 0, 64, 0), BAD_STATE(EP_DISCPENDING));
	post_recvs(client, 23, 1);
	expect_no_event(client->connect_evd);
	ck_assert(fake_step());
	fake_settle(0);
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_DISCONNECT_PENDING);
	fake_hold(false);
	expect_end(client, DAT_CONNECTION_EVENT_DISCONNECTED); /* though nobody polls */
	ck_assert_uint_eq(tp_now() - start, 0);
	expect_end(server, DAT_CONNECTION_EVENT_DISCONNECTED);
	if (!flags)
		expect_dtos(client->request_evd, 11, 3, DAT_DTO_SUCCESS);
	expect_no_event(client->request_evd);
	expect_dtos(client->recv_evd, 21, 3, DAT_DTO_ERR_FLUSHED);
	expect_dtos(server->recv_evd, 1, 3, DAT_DTO_SUCCESS);
	expect_dto(server->recv_evd, 4, DAT_DTO_ERR_FLUSHED);
}
END_TEST

START_TEST(graceful_has_a_limit)
{
	uint64_t start = tp_now();

	pair_connect(&pair);
	post_sends(client, 11, 2, _i ? DAT_COMPLETION_SUPPRESS_FLAG : 0); /* no receive for it */
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_GRACEFUL_FLAG));
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_GRACEFUL_FLAG));
	expect_dtos(client->recv_evd, 11, 2, DAT_DTO_ERR_FLUSHED);
	expect_end(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_assert_uint_eq(tp_now() - start, 3 * NS_PER_SEC);
}
END_TEST

START_TEST(abrupt_overtakes_graceful)
{
	uint64_t start = tp_now();

	pair_connect(&pair);
	post_sends(client, 11, 2, 0);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_GRACEFUL_FLAG));
	expect_no_event(client->recv_evd);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_dtos(client->recv_evd, 11, 2, DAT_DTO_ERR_FLUSHED);
	expect_end(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_assert_uint_eq(tp_now() - start, 0);
}
END_TEST

START_TEST(peer_leaves_a_graceful_disconnect)
{
	pair_connect(&pair);
	post_sends(client, 11, 2, 0);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_GRACEFUL_FLAG));
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_dtos(client->recv_evd, 11, 2, DAT_DTO_ERR_FLUSHED);
	expect_end(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_end(server, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

START_TEST(a_fault_spoils_a_graceful_disconnect)
{
	pair_connect(&pair);
	post_sends(client, 11, 3, 0);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_GRACEFUL_FLAG));
	fake_fail_transfer(DAT_DTO_ERR_REMOTE_ACCESS);
	ck_assert(fake_step());
	expect_dto(client->recv_evd, 11, DAT_DTO_ERR_REMOTE_ACCESS);
	expect_dtos(client->recv_evd, 12, 2, DAT_DTO_ERR_FLUSHED);
	expect_end(client, DAT_CONNECTION_EVENT_BROKEN);
	expect_end(server, DAT_CONNECTION_EVENT_DISCONNECTED);
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
	post_recvs(client, 1, 2);
	pair_connect(&pair);
	fake_hold(true);
	post_sends(client, 11, 3, DAT_COMPLETION_SUPPRESS_FLAG);
	fake_fail_transfer(faults[_i]);
	fake_hold(false);
	expect_dto(client->recv_evd, 11, faults[_i]);
	for (int i = 0; i < 4; i++) {
		DAT_EVENT event = expect_event(client->recv_evd, DAT_DTO_COMPLETION_EVENT);

		ck_assert_int_eq(event.event_data.dto_completion_event_data.status,
				 DAT_DTO_ERR_FLUSHED);
	}
	expect_end(client, DAT_CONNECTION_EVENT_BROKEN);
	expect_end(server, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_no_event(client->async_evd);
}
END_TEST

START_TEST(who_watches_only_connections_hears_of_a_fault)
{
	separate_evds();
	pair_connect(&pair);
	fake_fail_transfer(DAT_DTO_ERR_TRANSPORT);
	post_sends(client, 11, 1, 0);
	expect_end(client, DAT_CONNECTION_EVENT_BROKEN);
	expect_dto(client->request_evd, 11, DAT_DTO_ERR_TRANSPORT);
}
END_TEST

START_TEST(a_long_message_breaks_both_ends)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 65);

	post_recvs(server, 1, 2);
	pair_connect(&pair);
	ck_dat(ep_post_send(client->ep, 1, &iov, cookie_of(11), 0));
	expect_dto(server->recv_evd, 1, DAT_DTO_ERR_LOCAL_LENGTH);
	expect_dto(server->recv_evd, 2, DAT_DTO_ERR_FLUSHED);
	expect_end(server, DAT_CONNECTION_EVENT_BROKEN);
	expect_dto(client->request_evd, 11, DAT_DTO_ERR_REMOTE_RESPONDER);
	expect_end(client, DAT_CONNECTION_EVENT_BROKEN);
}
END_TEST

/* A failed transfer that nobody has seen yet says more than that the peer left. */
START_TEST(a_failure_explains_why_the_peer_left)
{
	struct ep *ep = client->ep;

	pair_connect(&pair);
	mutex_lock(&ep->obj.ia->lock); /* as if on the service thread */
	fake_fail_transfer(DAT_DTO_ERR_TRANSPORT);
	post_sends(client, 11, 1, 0);
	up_disconnected(ep);
	mutex_unlock(&ep->obj.ia->lock);
	expect_dto(client->recv_evd, 11, DAT_DTO_ERR_TRANSPORT);
	expect_end(client, DAT_CONNECTION_EVENT_BROKEN);
}
END_TEST

START_TEST(the_device_breaks_a_qp)
{
	DAT_EVENT event;
	struct ep *ep;

	separate_evds();
	ep = client->ep;
	post_recvs(client, 1, 2);
	pair_connect(&pair);
	fake_break_qp(ep->qp);
	expect_dtos(client->recv_evd, 1, 2, DAT_DTO_ERR_FLUSHED);
	expect_end(client, DAT_CONNECTION_EVENT_BROKEN);
	event = expect_event(client->async_evd, DAT_ASYNC_ERROR_EP_BROKEN);
	ck_assert_ptr_eq(event.event_data.asynch_error_event_data.dat_handle, ep);
	ck_assert_int_eq(event.event_data.asynch_error_event_data.reason, DAT_EP_TRANSFER_TO_ERROR);
	expect_end(server, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

START_TEST(a_dead_device_breaks_all)
{
	DAT_EP_HANDLE idle;

	separate_evds();
	idle = side_create_ep(client, NULL);
	pair_connect(&pair);
	post_recvs(client, 1, 2);
	fake_dev_fatal(((struct ia *)client->ia)->dev);
	expect_end(client, DAT_CONNECTION_EVENT_BROKEN);
	expect_dtos(client->recv_evd, 1, 2, DAT_DTO_ERR_FLUSHED);
	expect_event(client->async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC);
	expect_no_event(client->async_evd);
	ck_assert_int_eq(ep_get_state(idle), DAT_EP_STATE_UNCONNECTED);
}
END_TEST

/* Flushed, and no failure to be seen: the peer may explain it, for a second. */
START_TEST(a_flush_waits_for_its_reason)
{
	uint64_t start = tp_now();
	struct ep *ep = client->ep;

	post_recvs(client, 1, 2);
	pair_connect(&pair);
	ck_assert_int_eq(tp_qp_error(ep->qp), 0);
	expect_dtos(client->recv_evd, 1, 2, DAT_DTO_ERR_FLUSHED);
	expect_no_event(client->connect_evd);
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_CONNECTED);
	if (_i) {
		ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
		expect_end(client, DAT_CONNECTION_EVENT_DISCONNECTED);
		ck_assert_uint_eq(tp_now() - start, 0);
	} else {
		expect_end(client, DAT_CONNECTION_EVENT_BROKEN);
		ck_assert_uint_eq(tp_now() - start, NS_PER_SEC);
	}
}
END_TEST

START_TEST(a_dead_peer_is_noticed)
{
	pair_connect(&pair);
	fake_hold_cm(true); /* it dies without a word */
	ck_dat(ia_close(server->ia, DAT_CLOSE_ABRUPT_FLAG));
	free(server->memory);
	post_sends(client, 11, 2, 0);
	fake_give_up();
	expect_dto(client->recv_evd, 11, DAT_DTO_ERR_TRANSPORT);
	expect_dto(client->recv_evd, 12, DAT_DTO_ERR_FLUSHED);
	expect_end(client, DAT_CONNECTION_EVENT_BROKEN);
	fake_hold_cm(false);
	side_open(server, "fake1");
}
END_TEST

/* Like the others, but the verdict was there first. */
START_TEST(the_first_verdict_stands)
{
	struct ep *ep = client->ep;

	fake_quirks(FAKE_LATE_FLUSH);
	post_recvs(client, 1, 1);
	pair_connect(&pair);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	fake_break_qp(ep->qp);
	ep_notice(ep, &ep->recvs.slots[0], DAT_DTO_ERR_TRANSPORT);
	expect_dto(client->recv_evd, 1, DAT_DTO_ERR_FLUSHED);
	expect_end(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_no_event(client->async_evd);
}
END_TEST

/* ---- posting and ending at once ---- */

#define LOTS 100000

struct poster {
	const struct side *side;
	bool recvs;
	unsigned posted; /* cookies 0 to this */
};

static void *poster_main(void *arg)
{
	struct poster *poster = arg;

	while (poster->posted < LOTS) {
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

/* Counts completions until that many have come; order and number must be right. */
static void collect(DAT_EVD_HANDLE evd, unsigned *recvs, unsigned *requests, bool *over)
{
	DAT_EVENT event;

	while (evd_dequeue(evd, &event) == DAT_SUCCESS) {
		uint64_t cookie = event.event_data.dto_completion_event_data.user_cookie.as_64;

		if (event.event_number == DAT_CONNECTION_EVENT_DISCONNECTED) {
			ck_assert(!*over);
			*over = true;
			continue;
		}
		ck_assert_int_eq(event.event_number, DAT_DTO_COMPLETION_EVENT);
		if (cookie >> 32)
			ck_assert_uint_eq((unsigned)cookie, (*requests)++);
		else
			ck_assert_uint_eq(cookie, (*recvs)++);
	}
}

/* The peer leaves in the middle of it. Odd rounds: from two threads, on a thread-safe IA. */
START_TEST(every_post_completes_exactly_once)
{
	struct poster sender = { .side = client }, receiver = { .side = client, .recvs = true };
	unsigned recvs = 0, requests = 0;
	pthread_t threads[2] = { 0 };
	bool over = false;

	side_close(client);
	client->one_evd = true;
	client->thread_safe = _i & 1;
	side_open(client, "fake0");
	post_recvs(server, 1, 16);
	pair_connect(&pair);
	threads[0] = consumer_thread_start(poster_main, &sender);
	if (client->thread_safe)
		threads[1] = consumer_thread_start(poster_main, &receiver);
	while (requests < 8)
		collect(client->recv_evd, &recvs, &requests, &over);
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	while (!over)
		collect(client->recv_evd, &recvs, &requests, &over);
	consumer_thread_end(threads[0]);
	if (client->thread_safe)
		consumer_thread_end(threads[1]);
	fake_settle(0);
	collect(client->recv_evd, &recvs, &requests, &over);
	ck_assert_uint_eq(requests, sender.posted);
	ck_assert_uint_eq(recvs, receiver.posted);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("connections");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_test(cases, nobody_listens);
	tcase_add_test(cases, no_such_host);
	tcase_add_test(cases, peer_rejects);
	tcase_add_test(cases, our_last_step_fails);
	tcase_add_test(cases, qp_breaks_while_connecting);
	tcase_add_test(cases, nobody_answers_in_time);
	tcase_add_test(cases, an_answer_comes_too_late);
	tcase_add_test(cases, no_timer_after_established);
	tcase_add_test(cases, established_carries_private_data);
	tcase_add_test(cases, data_may_overtake_established);
	tcase_add_test(cases, a_fault_may_overtake_established);
	tcase_add_loop_test(cases, read_depths_are_agreed, 0, COUNT(reads));
	tcase_add_test(cases, short_connect_evd_holds_both_events);
	tcase_add_loop_test(cases, abrupt_flushes_once_and_in_order, 0, COUNT(quirks));
	tcase_add_loop_test(cases, an_end_waits_for_memory, 0, 2);
	tcase_add_test(cases, disconnect_needs_no_memory);
	tcase_add_loop_test(cases, late_posts_run_out_of_memory, 0, 2);
	tcase_add_test(cases, a_slow_device_is_not_waited_for);
	tcase_add_loop_test(cases, nobody_asked_for_a_state_between, 0, COUNT(at_the_end));
	tcase_add_test(cases, who_asks_for_it_has_it);
	tcase_add_test(cases, both_disconnect_at_once);
	tcase_add_test(cases, successes_come_first);
	tcase_add_test(cases, who_wants_no_completions_gets_the_event);
	tcase_add_loop_test(cases, suppressed_successes_are_proved, 0, 2);
	tcase_add_loop_test(cases, suppressed_flushes_are_told, 0, 7);
	tcase_add_test(cases, no_proof_no_success);
	tcase_add_test(cases, a_late_marker_is_no_event);
	tcase_add_loop_test(cases, a_post_in_the_middle_is_flushed, 0, COUNT(middles));
	tcase_add_loop_test(cases, graceful_lets_requests_finish, 0, 2);
	tcase_add_loop_test(cases, graceful_has_a_limit, 0, 2);
	tcase_add_test(cases, abrupt_overtakes_graceful);
	tcase_add_test(cases, peer_leaves_a_graceful_disconnect);
	tcase_add_test(cases, a_fault_spoils_a_graceful_disconnect);
	tcase_add_loop_test(cases, a_failed_transfer_breaks_the_connection, 0, COUNT(faults));
	tcase_add_test(cases, who_watches_only_connections_hears_of_a_fault);
	tcase_add_test(cases, a_long_message_breaks_both_ends);
	tcase_add_test(cases, a_failure_explains_why_the_peer_left);
	tcase_add_test(cases, the_device_breaks_a_qp);
	tcase_add_test(cases, a_dead_device_breaks_all);
	tcase_add_loop_test(cases, a_flush_waits_for_its_reason, 0, 2);
	tcase_add_test(cases, a_dead_peer_is_noticed);
	tcase_add_test(cases, the_first_verdict_stands);
	tcase_add_loop_test(cases, every_post_completes_exactly_once, 0, 20);
	return run_unit_cases(argc, argv);
}
