/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data transfer: what each post checks, what moves, how completions count, and how failures of the
 * device show.
 */
#include "harness.h"

#define FULL	     NO_RESOURCE(MEMORY)
#define LENGTH_ERROR DAT_ERROR(DAT_LENGTH_ERROR, 0)

#define SUPPRESS      DAT_COMPLETION_SUPPRESS_FLAG
#define UNSIGNALLED   DAT_COMPLETION_UNSIGNALLED_FLAG
#define SOLICITED     DAT_COMPLETION_SOLICITED_WAIT_FLAG
#define FENCE	      DAT_COMPLETION_BARRIER_FENCE_FLAG
#define EVD_THRESHOLD DAT_COMPLETION_EVD_THRESHOLD_FLAG

static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;

static void connect_pair(void)
{
	pair_connect(&pair);
}

/* Requests and receives at a, as many as said. */
static void connect_small(DAT_COUNT recvs, DAT_COUNT requests)
{
	static DAT_EP_ATTR attr;

	side_open(server, "fake1");
	attr = ep_attr_default(server);
	attr.max_recv_dtos = recvs;
	attr.max_request_dtos = requests;
	client->ep_attr = &attr;
	side_open(client, "fake0");
	pair_connect(&pair);
}

static struct ep *ep_of(const struct side *side)
{
	return side->ep;
}

static void fill(const struct side *side, char seed)
{
	for (int n = 0; n < SIDE_MEMORY; n++)
		side->memory[n] = (char)(seed + n * 7);
}

static DAT_DTO_COMPLETION_EVENT_DATA completion(DAT_EVD_HANDLE evd)
{
	return expect_event(evd, DAT_DTO_COMPLETION_EVENT).event_data.dto_completion_event_data;
}

static void expect_length(DAT_EVD_HANDLE evd, uint64_t cookie, DAT_VLEN length)
{
	DAT_DTO_COMPLETION_EVENT_DATA dto = completion(evd);

	ck_assert_uint_eq(dto.user_cookie.as_64, cookie);
	ck_assert_int_eq(dto.status, DAT_DTO_SUCCESS);
	ck_assert_uint_eq(dto.transfered_length, length);
}

/* ---- arguments ---- */

enum kind {
	SEND,
	RECV,
	READ,
	WRITE,
};

static DAT_RETURN post(enum kind kind, DAT_EP_HANDLE ep, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov,
		       const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	switch (kind) {
	case SEND:
		return ep_post_send(ep, nseg, iov, cookie_of(1), flags);
	case RECV:
		return ep_post_recv(ep, nseg, iov, cookie_of(1), flags);
	case READ:
		return ep_post_rdma_read(ep, nseg, iov, cookie_of(1), remote, flags);
	default:
		return ep_post_rdma_write(ep, nseg, iov, cookie_of(1), remote, flags);
	}
}

static const struct {
	const char *why;
	enum kind kind;
	DAT_COUNT nseg;
	bool no_iov;
	DAT_VLEN local, remote; /* bytes of the first segment, and over there; ~0: none given */
	unsigned flags;
	DAT_RETURN want;
} refusals[] = {
	{ "negative", SEND, -1, false, 8, 8, 0, BAD_ARG(2) },
	{ "negative", RECV, -1, false, 8, 8, 0, BAD_ARG(2) },
	{ "negative", READ, -1, false, 8, 8, 0, BAD_ARG(2) },
	{ "negative", WRITE, -1, false, 8, 8, 0, BAD_ARG(2) },
	{ "too many", SEND, 5, false, 8, 8, 0, BAD_ARG(2) },
	{ "too many", RECV, 5, false, 8, 8, 0, BAD_ARG(2) },
	{ "too many", READ, 5, false, 8, 8, 0, BAD_ARG(2) },
	{ "too many", WRITE, 5, false, 8, 8, 0, BAD_ARG(2) },
	{ "none given", SEND, 1, true, 8, 8, 0, BAD_ARG(3) },
	{ "none given", RECV, 1, true, 8, 8, 0, BAD_ARG(3) },
	{ "none given", READ, 1, true, 8, 8, 0, BAD_ARG(3) },
	{ "none given", WRITE, 1, true, 8, 8, 0, BAD_ARG(3) },
	{ "too long", SEND, 1, false, 1ULL << 40, 8, 0, BAD_ARG(3) },
	{ "no target", READ, 1, false, 8, ~0ULL, 0, BAD_ARG(5) },
	{ "no target", WRITE, 1, false, 8, ~0ULL, 0, BAD_ARG(5) },
	{ "too long", READ, 1, false, 1ULL << 41, 1ULL << 40, 0, BAD_ARG(5) },
	{ "too long", WRITE, 1, false, 1ULL << 40, 1ULL << 41, 0, BAD_ARG(5) },
	{ "more than there is room", READ, 1, false, 8, 9, 0, LENGTH_ERROR },
	{ "more than the target takes", WRITE, 1, false, 9, 8, 0, LENGTH_ERROR },
	{ "unknown flag", SEND, 1, false, 8, 8, 0x20, BAD_ARG(5) },
	{ "unknown flag", RECV, 1, false, 8, 8, 0x20, BAD_ARG(5) },
	{ "unknown flag", READ, 1, false, 8, 8, 0x20, BAD_ARG(6) },
	{ "unknown flag", WRITE, 1, false, 8, 8, 0x20, BAD_ARG(6) },
	{ "an attribute's flag", SEND, 1, false, 8, 8, EVD_THRESHOLD, BAD_ARG(5) },
	{ "an attribute's flag", RECV, 1, false, 8, 8, EVD_THRESHOLD, BAD_ARG(5) },
	{ "an attribute's flag", WRITE, 1, false, 8, 8, EVD_THRESHOLD, BAD_ARG(6) },
	{ "not made so", SEND, 1, false, 8, 8, UNSIGNALLED, BAD_ARG(5) },
	{ "not made so", RECV, 1, false, 8, 8, UNSIGNALLED, BAD_ARG(5) },
	{ "not made so", READ, 1, false, 8, 8, UNSIGNALLED, BAD_ARG(6) },
	{ "not made so", WRITE, 1, false, 8, 8, UNSIGNALLED, BAD_ARG(6) },
	{ "of requests", RECV, 1, false, 8, 8, SUPPRESS, BAD_ARG(5) },
	{ "of requests", RECV, 1, false, 8, 8, FENCE, BAD_ARG(5) },
	{ "of sends", RECV, 1, false, 8, 8, SOLICITED, BAD_ARG(5) },
	{ "of sends", READ, 1, false, 8, 8, SOLICITED, BAD_ARG(6) },
	{ "of sends", WRITE, 1, false, 8, 8, SOLICITED, BAD_ARG(6) },
};

START_TEST(refused_posts_leave_no_trace)
{
	DAT_LMR_TRIPLET iov[5] = { segment(client, 0, 0) };
	DAT_RMR_TRIPLET remote = target(server, 0, 0);
	const DAT_RMR_TRIPLET *given = refusals[_i].remote == ~0ULL ? NULL : &remote;

	iov[0].segment_length = refusals[_i].local;
	remote.segment_length = refusals[_i].remote;
	ck_dat_is(post(refusals[_i].kind, client->ep, refusals[_i].nseg,
		       refusals[_i].no_iov ? NULL : iov, given, refusals[_i].flags),
		  refusals[_i].want);
	ck_assert_uint_eq(fake_outstanding(), 0);
	ck_assert_uint_eq(ring_used(&ep_of(client)->sends) + ring_used(&ep_of(client)->recvs), 0);
	expect_no_event(client->request_evd);
	expect_no_event(client->recv_evd);
	pair_close(&pair);
}
END_TEST

static const struct {
	enum kind kind;
	unsigned flags, seen;
} passed[] = {
	{ SEND, 0, TP_POST_SIGNAL },
	{ SEND, SOLICITED, TP_POST_SIGNAL | TP_POST_SOLICIT },
	{ SEND, FENCE, TP_POST_SIGNAL | TP_POST_FENCE },
	{ SEND, FENCE | SOLICITED, TP_POST_SIGNAL | TP_POST_FENCE | TP_POST_SOLICIT },
	{ SEND, SUPPRESS, 0 },
	{ SEND, SUPPRESS | FENCE | SOLICITED, TP_POST_FENCE | TP_POST_SOLICIT },
	{ WRITE, 0, TP_POST_SIGNAL },
	{ WRITE, FENCE, TP_POST_SIGNAL | TP_POST_FENCE },
	{ WRITE, SUPPRESS | FENCE, TP_POST_FENCE },
	{ READ, 0, TP_POST_SIGNAL },
	{ READ, SUPPRESS, 0 },
	{ READ, FENCE, TP_POST_SIGNAL | TP_POST_FENCE },
};

START_TEST(flags_reach_the_device)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 8);
	DAT_RMR_TRIPLET remote = target(server, 0, 8);

	ck_dat(post(passed[_i].kind, client->ep, 1, &iov, &remote, passed[_i].flags));
	ck_assert_uint_eq(fake_seen().post_flags, passed[_i].seen);
}
END_TEST

/* ---- what moves ---- */

static const struct {
	unsigned nsend, nrecv;
	size_t sends[4], recvs[4]; /* lengths of the segments */
} shapes[] = {
	{ 0, 0, { 0 }, { 0 } },
	{ 0, 1, { 0 }, { 64 } },
	{ 1, 1, { 0 }, { 64 } },
	{ 1, 1, { 64 }, { 64 } },
	{ 1, 1, { 1 }, { 64 } },
	{ 4, 1, { 3, 5, 7, 11 }, { 26 } },
	{ 1, 4, { 26 }, { 3, 5, 7, 11 } },
	{ 3, 4, { 10, 0, 10 }, { 0, 7, 0, 20 } },
	{ 4, 4, { 0, 9000, 1, 0 }, { 4096, 4096, 4096, 1 } },
};

/* Segments lie apart, with a gap after each. */
static size_t lay_out(const struct side *side, const size_t *lengths, unsigned n,
		      DAT_LMR_TRIPLET *iov)
{
	size_t total = 0;

	for (unsigned i = 0; i < n; i++) {
		iov[i] = segment(side, i * 10000, lengths[i]);
		if (lengths[i] == 0)
			/* not looked at */
			iov[i] = (DAT_LMR_TRIPLET){ .lmr_context = 0xbad, .virtual_address = 1 };
		total += lengths[i];
	}
	return total;
}

/* Copies what @iov holds. */
static void gather(char *out, const DAT_LMR_TRIPLET *iov, unsigned n, size_t length)
{
	for (unsigned i = 0; i < n && length > 0; i++) {
		size_t part = iov[i].segment_length < length ? iov[i].segment_length : length;

		memcpy(out, (void *)(uintptr_t)iov[i].virtual_address, part);
		out += part;
		length -= part;
	}
}

static void expect_same(const DAT_LMR_TRIPLET *x, unsigned nx, const DAT_LMR_TRIPLET *y,
			unsigned ny, size_t length)
{
	static char left[SIDE_MEMORY], right[SIDE_MEMORY];

	gather(left, x, nx, length);
	gather(right, y, ny, length);
	ck_assert_mem_eq(left, right, length);
}

START_TEST(sends_of_any_shape)
{
	DAT_LMR_TRIPLET sends[4], recvs[4];
	size_t length = lay_out(client, shapes[_i].sends, shapes[_i].nsend, sends);

	lay_out(server, shapes[_i].recvs, shapes[_i].nrecv, recvs);
	fill(client, 1);
	ck_dat(ep_post_recv(server->ep, (DAT_COUNT)shapes[_i].nrecv,
			    shapes[_i].nrecv ? recvs : NULL, cookie_of(7), 0));
	ck_dat(ep_post_send(client->ep, (DAT_COUNT)shapes[_i].nsend,
			    shapes[_i].nsend ? sends : NULL, cookie_of(~9ULL), 0));
	expect_length(client->request_evd, ~9ULL, length);
	expect_length(server->recv_evd, 7, length);
	expect_same(sends, shapes[_i].nsend, recvs, shapes[_i].nrecv, length);
	pair_close(&pair);
}
END_TEST

START_TEST(writes_of_any_shape)
{
	DAT_LMR_TRIPLET iov[4], there = segment(server, 20000, 30000);
	DAT_RMR_TRIPLET remote = target(server, 20000, 30000);
	size_t length = lay_out(client, shapes[_i].sends, shapes[_i].nsend, iov);

	fill(client, 1);
	ck_dat(ep_post_rdma_write(client->ep, (DAT_COUNT)shapes[_i].nsend, iov, cookie_of(5),
				  &remote, 0));
	expect_length(client->request_evd, 5, length);
	expect_same(iov, shapes[_i].nsend, &there, 1, length);
	ck_assert_int_eq(server->memory[20000 + length], 0);
	expect_no_event(server->recv_evd);
	pair_close(&pair);
}
END_TEST

START_TEST(reads_fill_no_more_than_they_ask_for)
{
	DAT_LMR_TRIPLET iov[4], there = segment(server, 20000, 30000);
	DAT_RMR_TRIPLET remote = target(server, 20000, 0);
	size_t room = lay_out(client, shapes[_i].recvs, shapes[_i].nrecv, iov);

	remote.segment_length = room / 2;
	fill(server, 3);
	ck_dat(ep_post_rdma_read(client->ep, (DAT_COUNT)shapes[_i].nrecv, iov, cookie_of(5),
				 &remote, 0));
	expect_length(client->request_evd, 5, room / 2);
	expect_same(iov, shapes[_i].nrecv, &there, 1, room / 2);
	if (shapes[_i].nrecv == 1 && room > 0)
		for (size_t n = room / 2; n < room; n++)
			ck_assert_int_eq(client->memory[n], 0);
	pair_close(&pair);
}
END_TEST

START_TEST(requests_complete_in_order)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 8);
	DAT_RMR_TRIPLET remote = target(server, 0, 8);

	for (unsigned n = 0; n < 4; n++)
		post_recv(server, n, n * 64, 64, 0);
	for (uint64_t n = 0; n < 12; n += 3) {
		ck_dat(ep_post_rdma_read(client->ep, 1, &iov, cookie_of(n), &remote, 0));
		post_send(client, n + 1, 0, 8, FENCE);
		ck_dat(ep_post_rdma_write(client->ep, 1, &iov, cookie_of(n + 2), &remote, 0));
	}
	for (uint64_t n = 0; n < 12; n++)
		expect_dto(client->request_evd, n, DAT_DTO_SUCCESS);
	for (uint64_t n = 0; n < 4; n++)
		expect_dto(server->recv_evd, n, DAT_DTO_SUCCESS);
	pair_close(&pair);
}
END_TEST

/* ---- counting ---- */

static void expect_status(bool recv_idle, bool request_idle)
{
	DAT_BOOLEAN recvs, requests;

	ck_dat(ep_get_status(client->ep, NULL, &recvs, &requests));
	ck_assert_int_eq(!recvs, !recv_idle);
	ck_assert_int_eq(!requests, !request_idle);
}

START_TEST(limits_hold_exactly)
{
	connect_small(3, 5);
	expect_status(true, true);
	for (unsigned n = 0; n < 3; n++)
		post_recv(client, n, 0, 8, 0);
	ck_dat_is(try_recv(client, 3, 0, 8, 0), FULL);
	for (unsigned n = 0; n < 5; n++)
		post_send(client, n, 0, 8, 0);
	ck_dat_is(try_send(client, 5, 0, 8, 0), FULL);
	expect_status(false, false);
	ck_assert_uint_eq(fake_outstanding(), 8); /* nothing was posted in vain */
	post_recv(server, 0, 0, 64, 0);
	expect_dto(client->request_evd, 0, DAT_DTO_SUCCESS);
	post_send(client, 5, 0, 8, 0);
	ck_dat_is(try_send(client, 6, 0, 8, 0), FULL);
	pair_close(&pair);
}
END_TEST

/* Completions that nobody polled hold no slots: a post that finds none looks there itself. */
START_TEST(a_full_ring_polls_by_itself)
{
	connect_small(2, 4);
	for (unsigned n = 0; n < 12; n++)
		post_recv(server, n, 0, 64, 0);
	for (unsigned n = 0; n < 12; n++)
		post_send(client, n, 0, 8, 0);
	for (unsigned n = 0; n < 12; n++)
		expect_dto(client->request_evd, n, DAT_DTO_SUCCESS);
	for (unsigned n = 0; n < 12; n++) {
		post_recv(client, n, 0, 64, 0);
		post_send(server, n, 0, 8, 0);
	}
	for (unsigned n = 0; n < 12; n++)
		expect_dto(client->recv_evd, n, DAT_DTO_SUCCESS);
	pair_close(&pair);
}
END_TEST

START_TEST(receives_are_counted)
{
	DAT_COUNT buffers = -1, span = -1;

	connect_small(4, 4);
	ck_dat(ep_recv_query(client->ep, &buffers, &span));
	ck_assert_int_eq(buffers, 0);
	ck_assert_int_eq(span, 0);
	for (unsigned n = 0; n < 3; n++)
		post_recv(client, n, 0, 64, 0);
	post_send(server, 0, 0, 8, 0);
	expect_dto(client->recv_evd, 0, DAT_DTO_SUCCESS);
	ck_dat(ep_recv_query(client->ep, &buffers, &span));
	ck_assert_int_eq(buffers, 2);
	ck_assert_int_eq(span, 2);
	ck_dat(ep_recv_query(client->ep, NULL, NULL));
	expect_status(false, true);
	pair_close(&pair);
}
END_TEST

/* ---- suppressed requests ---- */

static const unsigned sizes[] = { 1, 2, 3, 4, 16, 100 };

/* Who suppresses all is never told anything, and never stalls. */
START_TEST(suppressing_all_never_stalls)
{
	unsigned total = 5 * sizes[_i] + 3;

	connect_small(1, (DAT_COUNT)sizes[_i]);
	for (unsigned n = 0; n < total; n++) {
		post_recv(server, n, 0, 64, 0);
		post_send(client, n, 0, 8, SUPPRESS);
		expect_dto(server->recv_evd, n, DAT_DTO_SUCCESS);
	}
	expect_no_event(client->request_evd);
	pair_close(&pair);
}
END_TEST

/* The full ring ends with one that is signalled, so its slots come back as soon as it is done. */
START_TEST(a_ring_full_of_suppressed_requests_comes_free)
{
	connect_small(1, (DAT_COUNT)sizes[_i]);
	fake_hold(true);
	for (unsigned n = 0; n < 16 && n < sizes[_i]; n++)
		post_recv(server, n, 0, 64, 0);
	for (unsigned n = 0; n < sizes[_i]; n++)
		post_send(client, n, 0, 0, SUPPRESS);
	ck_dat_is(try_send(client, 0, 0, 0, SUPPRESS), FULL);
	fake_hold(false);
	for (unsigned n = 0; n < sizes[_i]; n++)
		if (n < 16)
			expect_dto(server->recv_evd, n, DAT_DTO_SUCCESS);
		else
			post_recv(server, n, 0, 64, 0);
	post_recv(server, 0, 0, 64, 0);
	post_send(client, 0, 0, 0, SUPPRESS);
	expect_no_event(client->request_evd);
	pair_close(&pair);
}
END_TEST

START_TEST(a_success_proves_the_suppressed_ones_before_it)
{
	connect_small(1, 8);
	for (unsigned n = 0; n < 4; n++)
		post_recv(server, n, 0, 64, 0);
	for (unsigned n = 0; n < 3; n++)
		post_send(client, n, 0, 8, SUPPRESS);
	expect_no_event(client->request_evd);
	expect_status(true, false); /* nothing has proved them yet */
	post_send(client, 3, 0, 8, 0);
	expect_dto(client->request_evd, 3, DAT_DTO_SUCCESS);
	expect_status(true, true);
	expect_no_event(client->request_evd);
	pair_close(&pair);
}
END_TEST

START_TEST(a_device_that_signals_all_is_told_to)
{
	fake_attr()->caps |= TP_CAP_SIGNAL_ALL;
	connect_small(1, 8);
	post_recv(server, 0, 0, 64, 0);
	post_send(client, 0, 0, 8, SUPPRESS);
	ck_assert_uint_eq(fake_seen().post_flags, TP_POST_SIGNAL);
	expect_no_event(client->request_evd); /* though the device has said so */
	expect_status(true, true);
	pair_close(&pair);
}
END_TEST

START_TEST(internal_signals_wake_nobody)
{
	struct waiter waiter = { .timeout = SECONDS(1), .threshold = 1 };

	connect_small(1, 4);
	fake_clock_auto(false);
	waiter.evd = client->request_evd;
	waiter_start(&waiter);
	for (unsigned n = 0; n < 12; n++) {
		post_recv(server, n, 0, 64, 0);
		post_send(client, n, 0, 8, SUPPRESS);
		fake_settle(1);
		ck_dat(evd_wait(server->recv_evd, 0, 1, &waiter.event, &waiter.nmore));
	}
	fake_clock_advance(1000000000);
	ck_dat_is(waiter_join(&waiter), DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0));
	fake_clock_auto(true);
	pair_close(&pair);
}
END_TEST

/* Whoever asks gets the next event, not the signal before it; nor for the last one. */
START_TEST(internal_signals_are_skipped)
{
	DAT_EVENT event;
	DAT_COUNT nmore;

	connect_small(1, 8);
	for (uint64_t n = 0; n < 16; n++)
		post_recv(server, n, 0, 64, 0);
	for (unsigned n = 0; n < 5; n++) /* the fourth is signalled */
		post_send(client, n, 0, 8, n < 4 ? SUPPRESS : 0);
	if (_i)
		ck_dat(evd_wait(client->request_evd, 0, 1, &event, &nmore));
	else
		ck_dat(evd_dequeue(client->request_evd, &event));
	ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, 4);
	for (unsigned n = 0; n < 4; n++)
		post_send(client, n, 0, 8, SUPPRESS);
	if (_i)
		ck_dat_is(evd_wait(client->request_evd, 0, 1, &event, &nmore),
			  DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0));
	else
		ck_dat_is(evd_dequeue(client->request_evd, &event), (DAT_RETURN)DAT_QUEUE_EMPTY);
	expect_status(true, true);
	pair_close(&pair);
}
END_TEST

START_TEST(a_suppressed_failure_is_told)
{
	connect_small(1, 8);
	fake_hold(true);
	for (unsigned n = 0; n < 3; n++)
		post_send(client, n, 0, 8, SUPPRESS);
	fake_fail_transfer(DAT_DTO_ERR_TRANSPORT);
	ck_assert(fake_step());
	expect_dto(client->request_evd, 0, DAT_DTO_ERR_TRANSPORT);
	expect_dto(client->request_evd, 1, DAT_DTO_ERR_FLUSHED);
	expect_dto(client->request_evd, 2, DAT_DTO_ERR_FLUSHED);
	expect_no_event(client->request_evd);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
}
END_TEST

/* ---- faults in a transfer ---- */

static DAT_LMR_CONTEXT make_lmr(const struct side *side, DAT_PZ_HANDLE pz, unsigned priv,
				DAT_RMR_CONTEXT *rmr_context)
{
	DAT_REGION_DESCRIPTION region = { .for_va = side->memory };
	DAT_LMR_CONTEXT lmr_context;
	DAT_LMR_HANDLE lmr;

	ck_dat(lmr_create(side->ia, DAT_MEM_TYPE_VIRTUAL, region, SIDE_MEMORY, pz, priv, &lmr,
			  &lmr_context, rmr_context, NULL, NULL));
	return lmr_context;
}

static const struct {
	const char *why;
	enum kind kind;
	bool at_b;     /* the fault lies in b's memory: its receive, or the target */
	unsigned priv; /* of the memory at fault; 0: as it is */
	bool other_pz; /* it belongs to another zone */
	size_t offset, length;
	uint32_t garble; /* of its context */
	DAT_DTO_COMPLETION_STATUS at_requester, at_receiver;
} faults[] = {
	{ "unknown context", SEND, false, 0, false, 0, 64, 0x100000, DAT_DTO_ERR_LOCAL_PROTECTION,
	  DAT_DTO_SUCCESS },
	{ "past the end", SEND, false, 0, false, SIDE_MEMORY - 63, 64, 0,
	  DAT_DTO_ERR_LOCAL_PROTECTION, DAT_DTO_SUCCESS },
	{ "another zone", SEND, false, DAT_MEM_PRIV_ALL_FLAG, true, 0, 64, 0,
	  DAT_DTO_ERR_LOCAL_PROTECTION, DAT_DTO_SUCCESS },
	{ "unknown context", RECV, true, 0, false, 0, 64, 0x100000, DAT_DTO_ERR_REMOTE_RESPONDER,
	  DAT_DTO_ERR_LOCAL_PROTECTION },
	{ "past the end", RECV, true, 0, false, SIDE_MEMORY - 63, 64, 0,
	  DAT_DTO_ERR_REMOTE_RESPONDER, DAT_DTO_ERR_LOCAL_PROTECTION },
	{ "read only", RECV, true, DAT_MEM_PRIV_READ_FLAG, false, 0, 64, 0,
	  DAT_DTO_ERR_REMOTE_RESPONDER, DAT_DTO_ERR_LOCAL_PROTECTION },
	{ "too short", RECV, true, 0, false, 0, 63, 0, DAT_DTO_ERR_REMOTE_RESPONDER,
	  DAT_DTO_ERR_LOCAL_LENGTH },
	{ "unknown context", WRITE, true, 0, false, 0, 64, 0x100000, DAT_DTO_ERR_REMOTE_ACCESS,
	  DAT_DTO_SUCCESS },
	{ "past the end", WRITE, true, 0, false, SIDE_MEMORY - 63, 64, 0, DAT_DTO_ERR_REMOTE_ACCESS,
	  DAT_DTO_SUCCESS },
	{ "remote read only", WRITE, true, DAT_MEM_PRIV_REMOTE_READ_FLAG, false, 0, 64, 0,
	  DAT_DTO_ERR_REMOTE_ACCESS, DAT_DTO_SUCCESS },
	{ "another zone", WRITE, true, DAT_MEM_PRIV_ALL_FLAG, true, 0, 64, 0,
	  DAT_DTO_ERR_REMOTE_ACCESS, DAT_DTO_SUCCESS },
	{ "read only", READ, false, DAT_MEM_PRIV_READ_FLAG, false, 0, 64, 0,
	  DAT_DTO_ERR_LOCAL_PROTECTION, DAT_DTO_SUCCESS },
	{ "remote write only", READ, true, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, false, 0, 64, 0,
	  DAT_DTO_ERR_REMOTE_ACCESS, DAT_DTO_SUCCESS },
	{ "past the end", READ, true, 0, false, SIDE_MEMORY - 63, 64, 0, DAT_DTO_ERR_REMOTE_ACCESS,
	  DAT_DTO_SUCCESS },
};

START_TEST(faults_break_the_connection)
{
	const struct side *at = faults[_i].at_b ? server : client;
	DAT_LMR_TRIPLET good = segment(client, 0, 64),
			bad = segment(at, faults[_i].offset, faults[_i].length);
	DAT_RMR_TRIPLET remote = target(server, 0, 64);
	DAT_RMR_CONTEXT rmr_context = at->rmr_context;
	DAT_PZ_HANDLE pz = at->pz;

	if (faults[_i].other_pz)
		ck_dat(pz_create(at->ia, &pz));
	if (faults[_i].priv)
		bad.lmr_context = make_lmr(at, pz, faults[_i].priv, &rmr_context);
	bad.lmr_context ^= faults[_i].garble;
	if (faults[_i].at_b) {
		remote.rmr_context = rmr_context ^ faults[_i].garble;
		remote.target_address += faults[_i].offset;
	}
	if (faults[_i].kind == RECV)
		ck_dat(ep_post_recv(server->ep, 1, &bad, cookie_of(2), 0));
	ck_dat(post(faults[_i].kind == RECV ? SEND : faults[_i].kind, client->ep, 1,
		    faults[_i].at_b ? &good : &bad, &remote, 0));
	expect_dto(client->request_evd, 1, faults[_i].at_requester);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
	if (faults[_i].kind == RECV)
		expect_dto(server->recv_evd, 2, faults[_i].at_receiver);
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_DISCONNECTED);
	ck_assert_int_eq(server->memory[0], 0);
}
END_TEST

/* ---- the device refuses a post ---- */

static const struct {
	enum kind kind;
	const char *call;
	int err;
	DAT_RETURN want;
} device_refusals[] = {
	{ SEND, "post_send", ENOMEM, FULL },
	{ SEND, "post_send", EIO, DAT_ERROR(DAT_INTERNAL_ERROR, 0) },
	{ RECV, "post_recv", ENOMEM, FULL },
	{ READ, "post_read", ENOMEM, FULL },
	{ WRITE, "post_write", ENOMEM, FULL },
};

START_TEST(a_refused_post_did_not_happen)
{
	DAT_LMR_TRIPLET iov;
	DAT_RMR_TRIPLET remote;

	connect_small(2, 2);
	iov = segment(client, 0, 8);
	remote = target(server, 0, 8);
	post_recv(server, 9, 0, 64, 0);
	for (int n = 0; n < 5; n++) { /* no slot is lost */
		fake_fail(device_refusals[_i].call, device_refusals[_i].err, 1);
		ck_dat_is(post(device_refusals[_i].kind, client->ep, 1, &iov, &remote, 0),
			  device_refusals[_i].want);
		expect_status(true, true);
	}
	ck_dat(post(device_refusals[_i].kind, client->ep, 1, &iov, &remote, 0));
	expect_no_event(device_refusals[_i].kind == RECV ? client->request_evd : client->recv_evd);
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_CONNECTED);
	pair_close(&pair);
}
END_TEST

/* ---- after the end ---- */

static const unsigned quirks[] = {
	0,
	FAKE_FORGETS_RECV,
	FAKE_FORGETS_RECV | FAKE_REFLUSH,
	FAKE_REFUSES_RECV | FAKE_REFUSES_SEND,
	FAKE_FORGETS_RECV | FAKE_SWALLOWS_SEND,
	FAKE_LATE_FLUSH,
	FAKE_ARM_ANY | FAKE_DROPS_CQES,
};

/* Whatever the device does with it. */
START_TEST(posts_to_the_disconnected_are_flushed_at_once)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 8);
	DAT_RMR_TRIPLET remote = target(server, 0, 8);

	fake_quirks(quirks[_i]);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	for (unsigned n = 0; n < 100; n++) { /* there is no limit to it */
		post_send(client, n, 0, 8, n % 2 ? SUPPRESS : 0);
		post_recv(client, n, 0, 8, 0);
	}
	ck_dat(ep_post_rdma_read(client->ep, 1, &iov, cookie_of(100), &remote, SUPPRESS));
	ck_dat(ep_post_rdma_write(client->ep, 1, &iov, cookie_of(101), &remote, 0));
	for (unsigned n = 0; n < 102; n++)
		expect_dto(client->request_evd, n, DAT_DTO_ERR_FLUSHED);
	for (unsigned n = 0; n < 100; n++)
		expect_dto(client->recv_evd, n, DAT_DTO_ERR_FLUSHED);
	expect_no_event(client->request_evd);
	expect_no_event(client->recv_evd);
	expect_status(true, true);
}
END_TEST

/* What was posted before, and is completed by the device only after we did so ourselves. */
START_TEST(late_completions_are_dropped)
{
	fake_quirks(FAKE_LATE_FLUSH);
	fake_hold(true);
	for (unsigned n = 0; n < 4; n++) {
		post_send(client, n, 0, 8, n % 2 ? SUPPRESS : 0);
		post_recv(client, n, 0, 8, 0);
	}
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	for (unsigned n = 0; n < 4; n++) {
		expect_dto(client->request_evd, n, DAT_DTO_ERR_FLUSHED);
		expect_dto(client->recv_evd, n, DAT_DTO_ERR_FLUSHED);
	}
	while (fake_step())
		expect_no_event(client->request_evd);
	expect_no_event(client->request_evd);
	expect_no_event(client->recv_evd);
}
END_TEST

/* ---- threads ---- */

#define POSTS 300

static void *post_many(void *arg)
{
	uint64_t base = (uintptr_t)arg * POSTS;

	for (uint64_t n = 0; n < POSTS;) {
		DAT_RETURN ret = try_send(client, base + n, 0, 8, 0);

		if (ret == DAT_SUCCESS)
			n++;
		else
			sched_yield(); /* full */
	}
	return NULL;
}

/* On an IA opened thread-safe: each completes once, and each thread's own in order. */
START_TEST(threads_post_to_one_endpoint)
{
	uint64_t next[2] = { 0, POSTS };
	unsigned received = 0, sent = 0;
	pthread_t threads[2];

	client->thread_safe = true;
	pair_connect(&pair);
	for (unsigned n = 0; n < 16; n++)
		post_recv(server, n, 0, 64, 0);
	for (uintptr_t n = 0; n < 2; n++)
		threads[n] = consumer_thread_start(post_many, (void *)n);
	while (received < 2 * POSTS || sent < 2 * POSTS) {
		DAT_EVENT event;

		if (evd_dequeue(server->recv_evd, &event) == DAT_SUCCESS) {
			ck_assert_int_eq(event.event_data.dto_completion_event_data.status,
					 DAT_DTO_SUCCESS);
			if (received++ < 2 * POSTS - 16)
				post_recv(server, received, 0, 64, 0);
		}
		if (evd_dequeue(client->request_evd, &event) == DAT_SUCCESS) {
			uint64_t cookie =
				event.event_data.dto_completion_event_data.user_cookie.as_64;

			ck_assert_uint_eq(cookie, next[cookie / POSTS]++);
			sent++;
		}
		sched_yield();
	}
	for (int n = 0; n < 2; n++)
		consumer_thread_end(threads[n]);
	expect_no_event(client->request_evd);
	pair_close(&pair);
}
END_TEST

/*
 * One posts while another disconnects: each post is refused or completes once, whoever came first.
 */
static atomic_uint accepted;

static void *post_until_refused(void *arg)
{
	(void)arg;
	for (;;) {
		DAT_RETURN ret = try_send(client, 1, 0, 8, SUPPRESS);

		if (ret == DAT_SUCCESS)
			atomic_fetch_add(&accepted, 1);
		else if (ret != FULL)
			return NULL;
		else
			sched_yield();
		if (atomic_load(&accepted) > 5000)
			return NULL;
	}
}

START_TEST(posts_race_with_the_end)
{
	pthread_t thread;
	DAT_EVENT event;
	unsigned flushed = 0;

	for (unsigned n = 0; n < 16; n++)
		post_recv(server, n, 0, 64, 0);
	thread = consumer_thread_start(post_until_refused, NULL);
	while (atomic_load(&accepted) < (unsigned)_i)
		sched_yield();
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	consumer_thread_end(thread);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	fake_settle(0);
	while (evd_dequeue(client->request_evd, &event) == DAT_SUCCESS) {
		ck_assert_int_eq(event.event_data.dto_completion_event_data.status,
				 DAT_DTO_ERR_FLUSHED);
		flushed++;
	}
	ck_assert_uint_le(flushed, atomic_load(&accepted));
	expect_status(true, true);
}
END_TEST

static void add_cases_connected(void)
{
	TCase *cases = tcase_create("connected");

	tcase_set_timeout(cases, 60);
	tcase_add_checked_fixture(cases, connect_pair, NULL);
	tcase_add_loop_test(cases, refused_posts_leave_no_trace, 0, COUNT(refusals));
	tcase_add_loop_test(cases, flags_reach_the_device, 0, COUNT(passed));
	tcase_add_loop_test(cases, sends_of_any_shape, 0, COUNT(shapes));
	tcase_add_loop_test(cases, writes_of_any_shape, 0, COUNT(shapes));
	tcase_add_loop_test(cases, reads_fill_no_more_than_they_ask_for, 0, COUNT(shapes));
	tcase_add_test(cases, requests_complete_in_order);
	tcase_add_loop_test(cases, faults_break_the_connection, 0, COUNT(faults));
	tcase_add_loop_test(cases, posts_to_the_disconnected_are_flushed_at_once, 0, COUNT(quirks));
	tcase_add_test(cases, late_completions_are_dropped);
	tcase_add_loop_test(cases, posts_race_with_the_end, 0, 17);
}

static void add_cases_of_limits(void)
{
	TCase *cases = tcase_create("limits");

	tcase_set_timeout(cases, 60);
	tcase_add_test(cases, limits_hold_exactly);
	tcase_add_test(cases, a_full_ring_polls_by_itself);
	tcase_add_test(cases, receives_are_counted);
	tcase_add_loop_test(cases, suppressing_all_never_stalls, 0, COUNT(sizes));
	tcase_add_loop_test(cases, a_ring_full_of_suppressed_requests_comes_free, 0, COUNT(sizes));
	tcase_add_test(cases, a_success_proves_the_suppressed_ones_before_it);
	tcase_add_test(cases, a_device_that_signals_all_is_told_to);
	tcase_add_test(cases, internal_signals_wake_nobody);
	tcase_add_loop_test(cases, internal_signals_are_skipped, 0, 2);
	tcase_add_test(cases, a_suppressed_failure_is_told);
	tcase_add_loop_test(cases, a_refused_post_did_not_happen, 0, COUNT(device_refusals));
	tcase_add_test(cases, threads_post_to_one_endpoint);
}

int main(int argc, char **argv)
{
	add_cases_connected();
	add_cases_of_limits();
	return run_unit_cases(argc, argv);
}
