/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data transfer: every byte arrives and no other byte changes, in the order and with the
 * notification that the flags ask for.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "../consumer/consumer.h"

#define MIB   ((size_t)1 << 20)
#define PAGE  ((size_t)4096)
#define GUARD ((size_t)64) /* bytes on either side that must not change */
#define AREA  (MIB + 2 * PAGE)
#define OTHER 0x11 /* bytes around the source, which must not be transferred */

static const struct {
	size_t size, from, to; /* bytes, and the offsets at both ends */
} transfers[] = {
	{ 0, 0, 0 },	    { 1, 0, 0 },	 { 1, 1, 3 },	 { 7, 3, 1 },
	{ 255, 5, 0 },	    { PAGE - 1, 0, 1 },	 { PAGE, 0, 0 }, { PAGE, 17, 4 },
	{ PAGE + 1, 1, 0 }, { 65536 + 1, 3, 7 }, { MIB, 1, 2 },
};

/* @size bytes have been placed at @to behind a guard, and no byte around them has changed. */
static void expect_placed(const struct side *side, size_t to, size_t size, unsigned seed)
{
	bytes_check(side->memory, GUARD + to, UNTOUCHED);
	pattern_check(side->memory + GUARD + to, size, seed);
	bytes_check(side->memory + GUARD + to + size, side->size - GUARD - to - size, UNTOUCHED);
}

/* The client's send arrives as the server's receive. */
static void expect_message(const struct pair *pair, uint64_t recv, uint64_t send, size_t length)
{
	expect_recv_done(&pair->server, recv, length);
	expect_request_done(&pair->client, send, length);
}

/* Fills the memory of both for the transfer in row @i of the table. */
static void fill_for_transfer(const struct side *from, const struct side *to, unsigned i)
{
	memset(to->memory, UNTOUCHED, AREA);
	memset(from->memory, OTHER, AREA);
	pattern_fill(from->memory + transfers[i].from, transfers[i].size, i);
}

START_TEST(send_transfers_every_byte)
{
	struct pair pair;

	pair_open_sized(&pair, NULL, AREA);
	for (unsigned i = 0; i < COUNT(transfers); i++) {
		size_t size = transfers[i].size, to = transfers[i].to;

		fill_for_transfer(&pair.client, &pair.server, i);
		/* the receive is longer: what is beyond the message does not change */
		post_recv(pair.server.ep, i, segment(&pair.server, GUARD + to, size + GUARD));
		post_send(pair.client.ep, i, segment(&pair.client, transfers[i].from, size),
			  DAT_COMPLETION_DEFAULT_FLAG);
		expect_message(&pair, i, i, size);
		expect_placed(&pair.server, to, size, i);
	}
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(write_transfers_every_byte)
{
	struct pair pair;

	pair_open_sized(&pair, NULL, AREA);
	for (unsigned i = 0; i < COUNT(transfers); i++) {
		size_t size = transfers[i].size, to = transfers[i].to;

		fill_for_transfer(&pair.client, &pair.server, i);
		post_recv(pair.server.ep, i, segment(&pair.server, 0, 0));
		/* the target is longer than the write */
		post_write(pair.client.ep, i, segment(&pair.client, transfers[i].from, size),
			   target(&pair.server, GUARD + to, size + GUARD),
			   DAT_COMPLETION_DEFAULT_FLAG);
		post_send(pair.client.ep, i + 100, segment(&pair.client, 0, 0),
			  DAT_COMPLETION_DEFAULT_FLAG);
		expect_recv_done(&pair.server, i, 0);
		expect_placed(&pair.server, to, size, i);
		expect_request_done(&pair.client, i, size);
		expect_request_done(&pair.client, i + 100, 0);
	}
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(read_transfers_every_byte)
{
	struct pair pair;

	pair_open_sized(&pair, NULL, AREA);
	for (unsigned i = 0; i < COUNT(transfers); i++) {
		size_t size = transfers[i].size, to = transfers[i].to;

		fill_for_transfer(&pair.server, &pair.client, i);
		post_read(pair.client.ep, i, segment(&pair.client, GUARD + to, size),
			  target(&pair.server, transfers[i].from, size),
			  DAT_COMPLETION_DEFAULT_FLAG);
		expect_request_done(&pair.client, i, size);
		expect_placed(&pair.client, to, size, i);
	}
	pair_close_abrupt(&pair);
}
END_TEST

/* A segment of length 0, whose other fields are invalid and must be ignored. */
static const DAT_LMR_TRIPLET empty_segment = { .lmr_context = 0xdeadbeef,
					       .virtual_address = 0x123 };

START_TEST(send_and_receive_use_all_segments)
{
	const DAT_EP_ATTR attr = ep_attr_for(4, 4);
	DAT_LMR_TRIPLET out[4], in[4];
	struct pair pair;

	pair_open_sized(&pair, &attr, AREA);
	pattern_fill(pair.client.memory, PAGE + 4, 1);
	out[0] = segment(&pair.client, 0, 3);
	out[1] = empty_segment;
	out[2] = segment(&pair.client, 3, PAGE);
	out[3] = segment(&pair.client, 3 + PAGE, 1);
	/* One byte, then the rest of the message, which ends in the middle of in[2]. */
	in[0] = empty_segment;
	in[1] = segment(&pair.server, GUARD, 1);
	in[2] = segment(&pair.server, GUARD + 1, 2 * PAGE);
	in[3] = segment(&pair.server, GUARD + 1 + 2 * PAGE, PAGE);
	ck_dat(dat_ep_post_recv(pair.server.ep, 4, in, cookie_of(1), DAT_COMPLETION_DEFAULT_FLAG));
	ck_dat(dat_ep_post_send(pair.client.ep, 4, out, cookie_of(2), DAT_COMPLETION_DEFAULT_FLAG));
	/* after the post the lists belong to the consumer again */
	memset(out, 0xff, sizeof(out));
	memset(in, 0xff, sizeof(in));
	expect_message(&pair, 1, 2, PAGE + 4);
	expect_placed(&pair.server, 0, PAGE + 4, 1);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(write_gathers_and_read_scatters)
{
	DAT_EP_ATTR attr = ep_attr_for(4, 4);
	const size_t size = PAGE + 101;
	DAT_LMR_TRIPLET list[3];
	DAT_RMR_TRIPLET remote;
	struct pair pair;

	attr.max_rdma_read_iov = 3;
	pair_open_sized(&pair, &attr, AREA);
	pattern_fill(pair.client.memory, size, 1);
	list[0] = segment(&pair.client, 0, 100);
	list[1] = empty_segment;
	list[2] = segment(&pair.client, 100, PAGE + 1);
	remote = target(&pair.server, GUARD, size);
	ck_dat(dat_ep_post_rdma_write(pair.client.ep, 3, list, cookie_of(1), &remote,
				      DAT_COMPLETION_DEFAULT_FLAG));
	expect_request_done(&pair.client, 1, size);

	memset(pair.client.memory, UNTOUCHED, AREA);
	list[0] = segment(&pair.client, GUARD, 33);
	list[2] = segment(&pair.client, GUARD + 33, size - 33);
	ck_dat(dat_ep_post_rdma_read(pair.client.ep, 3, list, cookie_of(2), &remote,
				     DAT_COMPLETION_DEFAULT_FLAG));
	expect_request_done(&pair.client, 2, size);
	expect_placed(&pair.client, 0, size, 1);
	expect_placed(&pair.server, 0, size, 1);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(empty_message_carries_any_cookie)
{
	static const uint64_t cookies[] = { 0, UINT64_MAX, 1, UINT64_C(1) << 63,
					    UINT64_C(0x0123456789abcdef) };
	struct pair pair;

	pair_open(&pair, NULL);
	for (size_t i = 0; i < COUNT(cookies); i++) {
		ck_dat(dat_ep_post_recv(pair.server.ep, 0, NULL, cookie_of(cookies[i]),
					DAT_COMPLETION_DEFAULT_FLAG));
		ck_dat(dat_ep_post_send(pair.client.ep, 0, NULL, cookie_of(cookies[i]),
					DAT_COMPLETION_DEFAULT_FLAG));
		expect_message(&pair, cookies[i], cookies[i], 0);
	}
	pair_close_abrupt(&pair);
}
END_TEST

/* Programs that poll memory for the end of a write rely on it. */
START_TEST(last_byte_of_a_write_is_visible_last)
{
	static const size_t sizes[] = { 2, 100, PAGE, PAGE + 1, 65536, 65536 + 1 };
	struct pair pair;

	pair_open_sized(&pair, NULL, AREA);
	for (unsigned round = 1; round <= 30; round++) {
		size_t size = sizes[round % COUNT(sizes)];
		unsigned char *last = pair.server.memory + size - 1;

		memset(pair.client.memory, (int)round, size);
		memset(pair.server.memory, 0, size);
		post_write(pair.client.ep, round, segment(&pair.client, 0, size),
			   target(&pair.server, 0, size), DAT_COMPLETION_DEFAULT_FLAG);
		while (__atomic_load_n(last, __ATOMIC_ACQUIRE) != round)
			sched_yield();
		bytes_check(pair.server.memory, size, (unsigned char)round);
		expect_request_done(&pair.client, round, size);
	}
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(completed_write_is_placed)
{
	struct pair pair;

	pair_open_sized(&pair, NULL, AREA);
	for (unsigned round = 0; round < 10; round++) {
		pattern_fill(pair.client.memory, 65536, round);
		post_write(pair.client.ep, round, segment(&pair.client, 0, 65536),
			   target(&pair.server, 0, 65536), DAT_COMPLETION_DEFAULT_FLAG);
		expect_request_done(&pair.client, round, 65536);
		pattern_check(pair.server.memory, 65536, round);
	}
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(read_behind_a_write_returns_its_bytes)
{
	struct pair pair;

	pair_open_sized(&pair, NULL, AREA);
	for (unsigned round = 0; round < 10; round++) {
		pattern_fill(pair.client.memory, 50000, round);
		memset(pair.client.memory + 65536, 0, 50000);
		post_write(pair.client.ep, 1, segment(&pair.client, 0, 50000),
			   target(&pair.server, 9, 50000), DAT_COMPLETION_DEFAULT_FLAG);
		post_read(pair.client.ep, 2, segment(&pair.client, 65536, 50000),
			  target(&pair.server, 9, 50000), DAT_COMPLETION_DEFAULT_FLAG);
		expect_request_done(&pair.client, 1, 50000);
		expect_request_done(&pair.client, 2, 50000);
		pattern_check(pair.client.memory + 65536, 50000, round);
	}
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(received_message_makes_earlier_writes_visible)
{
	struct pair pair;

	pair_open_sized(&pair, NULL, AREA);
	for (unsigned round = 0; round < 30; round++) {
		size_t size = 1 + round * 2111;

		pattern_fill(pair.client.memory, size, round);
		post_recv(pair.server.ep, round, segment(&pair.server, AREA - 8, 8));
		post_write(pair.client.ep, 1, segment(&pair.client, 0, size),
			   target(&pair.server, 0, size), DAT_COMPLETION_SUPPRESS_FLAG);
		post_send(pair.client.ep, round, segment(&pair.client, 0, 1),
			  DAT_COMPLETION_DEFAULT_FLAG);
		expect_recv_done(&pair.server, round, 1);
		pattern_check(pair.server.memory, size, round);
		expect_request_done(&pair.client, round, 1);
	}
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(messages_arrive_in_order)
{
	const DAT_EP_ATTR attr = ep_attr_for(64, 64);
	struct pair pair;

	pair_open_sized(&pair, &attr, AREA);
	for (unsigned i = 0; i < 64; i++)
		post_recv(pair.server.ep, i, segment(&pair.server, i * 1000, 1000));
	for (unsigned i = 0; i < 64; i++) {
		pattern_fill(pair.client.memory + i * 1000, i + 1, i);
		post_send(pair.client.ep, 100 + i, segment(&pair.client, i * 1000, i + 1),
			  DAT_COMPLETION_DEFAULT_FLAG);
	}
	for (unsigned i = 0; i < 64; i++) {
		expect_message(&pair, i, 100 + i, i + 1);
		pattern_check(pair.server.memory + i * 1000, i + 1, i);
	}
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(reads_beyond_the_read_depth_wait)
{
	DAT_EP_ATTR attr = ep_attr_for(4, 32);
	struct pair pair;

	attr.max_rdma_read_in = 2;
	attr.max_rdma_read_out = 2;
	pair_open_sized(&pair, &attr, AREA);
	pattern_fill(pair.server.memory, 32 * PAGE, 3);
	for (unsigned i = 0; i < 32; i++)
		post_read(pair.client.ep, i, segment(&pair.client, i * PAGE, PAGE),
			  target(&pair.server, i * PAGE, PAGE), DAT_COMPLETION_DEFAULT_FLAG);
	for (unsigned i = 0; i < 32; i++)
		expect_request_done(&pair.client, i, PAGE);
	pattern_check(pair.client.memory, 32 * PAGE, 3);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(send_waits_for_a_receive)
{
	struct pair pair;

	pair_open_sized(&pair, NULL, AREA);
	pattern_fill(pair.client.memory, 100, 1);
	post_send(pair.client.ep, 1, segment(&pair.client, 0, 100), DAT_COMPLETION_DEFAULT_FLAG);
	/* the other direction is not blocked, and meanwhile the message is refused */
	post_recv(pair.client.ep, 2, segment(&pair.client, 200, 100));
	post_send(pair.server.ep, 3, segment(&pair.server, 0, 100), DAT_COMPLETION_DEFAULT_FLAG);
	expect_recv_done(&pair.client, 2, 100);
	post_recv(pair.server.ep, 4, segment(&pair.server, 200, 100));
	expect_message(&pair, 4, 1, 100);
	pattern_check(pair.server.memory + 200, 100, 1);
	pair_close_abrupt(&pair);
}
END_TEST

/* Over TCP if the user wants that. */
START_TEST(completed_send_was_taken)
{
	struct pair pair;

	setenv("DAPL_OFI_DELIVERED_SENDS", "1", 1);
	pair_open(&pair, NULL);
	for (uint64_t i = 0; i < 10; i++) {
		post_send(pair.client.ep, i, segment(&pair.client, 0, 100),
			  DAT_COMPLETION_DEFAULT_FLAG);
		post_recv(pair.client.ep, i, segment(&pair.client, 200, 100));
		post_send(pair.server.ep, i, segment(&pair.server, 0, 100),
			  DAT_COMPLETION_SUPPRESS_FLAG);
		expect_recv_done(&pair.client, i, 100);
		expect_no_event(pair.client.request_evd);
		post_recv(pair.server.ep, i, segment(&pair.server, 200, 100));
		expect_message(&pair, i, i, 100);
	}
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- flags ---- */

/* There are no completions to be taken, and yet each slot becomes free. */
START_TEST(suppressed_requests_free_their_slots)
{
	const DAT_EP_ATTR attr = ep_attr_for(4, 8);
	struct pair pair;

	pair_open_sized(&pair, &attr, AREA);
	post_recv(pair.server.ep, 1, segment(&pair.server, AREA - 1, 1));
	pattern_fill(pair.client.memory, 200 * 100, 5);
	for (unsigned i = 0; i < 200; i++) {
		DAT_LMR_TRIPLET from = segment(&pair.client, i * 100, 100);
		DAT_RMR_TRIPLET to = target(&pair.server, i * 100, 100);
		DAT_RETURN ret;

		while ((ret = dat_ep_post_rdma_write(pair.client.ep, 1, &from, cookie_of(i), &to,
						     DAT_COMPLETION_SUPPRESS_FLAG)) !=
		       DAT_SUCCESS) {
			ck_dat_is(ret, NO_RESOURCE(MEMORY));
			sched_yield();
		}
	}
	while (dat_ep_post_send(pair.client.ep, 0, NULL, cookie_of(999),
				DAT_COMPLETION_DEFAULT_FLAG) != DAT_SUCCESS)
		sched_yield();
	expect_recv_done(&pair.server, 1, 0);
	pattern_check(pair.server.memory, 200 * 100, 5);
	expect_request_done(&pair.client, 999, 0);
	expect_no_event(pair.client.request_evd);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(signalled_requests_cover_suppressed_ones)
{
	const DAT_EP_ATTR attr = ep_attr_for(4, 32);
	DAT_BOOLEAN idle;
	struct pair pair;

	pair_open_sized(&pair, &attr, AREA);
	for (unsigned i = 0; i < 32; i++)
		post_write(pair.client.ep, i, segment(&pair.client, i, 1),
			   target(&pair.server, i, 1),
			   i % 3 == 1 ? DAT_COMPLETION_DEFAULT_FLAG : DAT_COMPLETION_SUPPRESS_FLAG);
	for (unsigned i = 1; i < 32; i += 3)
		expect_request_done(&pair.client, i, 1);
	expect_no_event(pair.client.request_evd);
	/* request 31 is signalled: its completion covers all before it */
	ck_dat(dat_ep_get_status(pair.client.ep, NULL, NULL, &idle));
	ck_assert_int_eq(idle, DAT_TRUE);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(fenced_write_waits_for_reads)
{
	const size_t size = 100000;
	struct pair pair;

	pair_open_sized(&pair, NULL, AREA);
	for (unsigned round = 0; round < 10; round++) {
		pattern_fill(pair.server.memory, size, round);
		memset(pair.server.memory + MIB / 2, 0, size);
		post_recv(pair.server.ep, 1, segment(&pair.server, AREA - 1, 1));
		/*
		 * The bytes that the read returns are written back. Without the fence the write
		 * could send the bytes of the round before.
		 */
		post_read(pair.client.ep, 2, segment(&pair.client, 0, size),
			  target(&pair.server, 0, size), DAT_COMPLETION_SUPPRESS_FLAG);
		post_write(pair.client.ep, 3, segment(&pair.client, 0, size),
			   target(&pair.server, MIB / 2, size), DAT_COMPLETION_BARRIER_FENCE_FLAG);
		post_send(pair.client.ep, 4, segment(&pair.client, 0, 1),
			  DAT_COMPLETION_DEFAULT_FLAG);
		expect_request_done(&pair.client, 3, size);
		expect_request_done(&pair.client, 4, 1);
		expect_recv_done(&pair.server, 1, 1);
		pattern_check(pair.server.memory + MIB / 2, size, round);
	}
	pair_close_abrupt(&pair);
}
END_TEST

/*
 * Messages from the server to the client, for which no thread waits. They take long enough for a
 * waiter that woke up by mistake to be noticed.
 */
static void exchange_unwaited(struct pair *pair)
{
	for (unsigned i = 0; i < 20; i++) {
		post_recv(pair->client.ep, i, segment(&pair->client, MIB, 10));
		post_send(pair->server.ep, i, segment(&pair->server, MIB, 10),
			  DAT_COMPLETION_DEFAULT_FLAG);
		expect_recv_done(&pair->client, i, 10);
		expect_request_done(&pair->server, i, 10);
	}
}

START_TEST(unsignalled_completion_wakes_no_waiter)
{
	DAT_EP_ATTR attr = ep_attr_for(4, 4);
	struct waiter waiter = { 0 };
	struct pair pair;

	attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
	pair_open_sized(&pair, &attr, AREA);
	post_recv(pair.server.ep, 1, segment(&pair.server, 0, 10));
	post_recv(pair.server.ep, 2, segment(&pair.server, 0, 10));
	waiter.evd = pair.client.request_evd;
	waiter_start(&waiter);
	post_send(pair.client.ep, 3, segment(&pair.client, 0, 10), DAT_COMPLETION_UNSIGNALLED_FLAG);
	expect_recv_done(&pair.server, 1, 10);
	exchange_unwaited(&pair);
	post_send(pair.client.ep, 4, segment(&pair.client, 0, 10), DAT_COMPLETION_DEFAULT_FLAG);
	expect_recv_done(&pair.server, 2, 10);
	ck_dat(waiter_join(&waiter));
	/* the first completion did not wake it up, and is delivered all the same */
	ck_assert_uint_eq(waiter.event.event_data.dto_completion_event_data.user_cookie.as_64, 3);
	ck_assert_int_eq(waiter.nmore, 1);
	expect_request_done(&pair.client, 4, 10);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(only_solicited_message_wakes_the_waiter)
{
	DAT_EP_ATTR attr = ep_attr_for(4, 4);
	struct waiter waiter = { 0 };
	struct pair pair;

	attr.recv_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG;
	pair_open_sized(&pair, &attr, AREA);
	post_recv(pair.server.ep, 1, segment(&pair.server, 0, 10));
	post_recv(pair.server.ep, 2, segment(&pair.server, 0, 10));
	waiter.evd = pair.server.recv_evd;
	waiter_start(&waiter);
	post_send(pair.client.ep, 3, segment(&pair.client, 0, 10), DAT_COMPLETION_DEFAULT_FLAG);
	expect_request_done(&pair.client, 3, 10);
	exchange_unwaited(&pair);
	post_send(pair.client.ep, 4, segment(&pair.client, 0, 10),
		  DAT_COMPLETION_SOLICITED_WAIT_FLAG);
	ck_dat(waiter_join(&waiter));
	ck_assert_uint_eq(waiter.event.event_data.dto_completion_event_data.user_cookie.as_64, 1);
	ck_assert_int_eq(waiter.nmore, 1);
	expect_message(&pair, 2, 4, 10);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(flags_without_effect_are_ignored)
{
	const DAT_COMPLETION_FLAGS unsignalled = DAT_COMPLETION_UNSIGNALLED_FLAG |
						 DAT_COMPLETION_EVD_THRESHOLD_FLAG;
	const DAT_COMPLETION_FLAGS solicited = unsignalled | DAT_COMPLETION_SOLICITED_WAIT_FLAG;
	const DAT_EP_ATTR attr = ep_attr_for(4, 4);
	DAT_LMR_TRIPLET from, to;
	DAT_RMR_TRIPLET remote;
	struct pair pair;

	pair_open_sized(&pair, &attr, AREA);
	from = segment(&pair.client, 0, 8);
	to = segment(&pair.server, 0, 8);
	remote = target(&pair.server, 0, 8);
	ck_assert_int_eq(pair.client.provider.completion_flags_supported, 0x1f);
	ck_dat(dat_ep_post_recv(pair.server.ep, 1, &to, cookie_of(1),
				solicited | DAT_COMPLETION_SUPPRESS_FLAG |
					DAT_COMPLETION_BARRIER_FENCE_FLAG));
	ck_dat(dat_ep_post_send(pair.client.ep, 1, &from, cookie_of(2), unsignalled));
	ck_dat(dat_ep_post_rdma_write(pair.client.ep, 1, &from, cookie_of(3), &remote, solicited));
	ck_dat(dat_ep_post_rdma_read(pair.client.ep, 1, &from, cookie_of(4), &remote, solicited));
	expect_recv_done(&pair.server, 1, 8);
	for (uint64_t n = 2; n <= 4; n++)
		expect_request_done(&pair.client, n, 8);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- limits ---- */

START_TEST(too_many_segments_or_bytes_are_refused)
{
	DAT_EP_ATTR attr = ep_attr_for(4, 4);
	DAT_LMR_TRIPLET list[64];
	DAT_RMR_TRIPLET to;
	DAT_EP_PARAM param;
	struct pair pair;

	attr.max_rdma_read_iov = 2;
	pair_open_sized(&pair, &attr, AREA);
	ck_dat(dat_ep_query(pair.client.ep, DAT_EP_FIELD_EP_ATTR_ALL, &param));
	ck_assert_int_lt(param.ep_attr.max_request_iov, (int)COUNT(list));
	for (size_t i = 0; i < COUNT(list); i++)
		list[i] = segment(&pair.client, i, 1);
	to = target(&pair.server, 0, 64);
	ck_dat_is(dat_ep_post_send(pair.client.ep, param.ep_attr.max_request_iov + 1, list,
				   cookie_of(1), 0),
		  BAD_ARG(2));
	ck_dat_is(dat_ep_post_recv(pair.client.ep, param.ep_attr.max_recv_iov + 1, list,
				   cookie_of(1), 0),
		  BAD_ARG(2));
	ck_dat_is(dat_ep_post_rdma_write(pair.client.ep, param.ep_attr.max_rdma_write_iov + 1, list,
					 cookie_of(1), &to, 0),
		  BAD_ARG(2));
	ck_dat_is(dat_ep_post_rdma_read(pair.client.ep, param.ep_attr.max_rdma_read_iov + 1, list,
					cookie_of(1), &to, 0),
		  BAD_ARG(2));
	ck_dat_is(dat_ep_post_send(pair.client.ep, -1, list, cookie_of(1), 0), BAD_ARG(2));
	ck_dat_is(dat_ep_post_send(pair.client.ep, 1, NULL, cookie_of(1), 0), BAD_ARG(3));
	ck_dat_is(dat_ep_post_rdma_write(pair.client.ep, 1, NULL, cookie_of(1), &to, 0),
		  BAD_ARG(3));
	ck_dat_is(dat_ep_post_rdma_write(pair.client.ep, 1, list, cookie_of(1), NULL, 0),
		  BAD_ARG(5));
	ck_dat_is(dat_ep_post_rdma_read(pair.client.ep, 1, list, cookie_of(1), NULL, 0),
		  BAD_ARG(5));
	/* the limit is the IA's; sums that would wrap are above it */
	const __typeof__(list[0].segment_length) most = ~(__typeof__(list[0].segment_length))0;
	for (int i = 0; i < 2; i++) {
		list[0].segment_length = i ? most : pair.client.attr.max_message_size;
		list[1].segment_length = i ? 2 : 1;
		ck_dat_is(dat_ep_post_send(pair.client.ep, 2, list, cookie_of(1), 0), BAD_ARG(3));
		list[0].segment_length = i ? most : pair.client.attr.max_rdma_size;
		ck_dat_is(dat_ep_post_rdma_write(pair.client.ep, 2, list, cookie_of(1), &to, 0),
			  BAD_ARG(3));
		ck_dat_is(dat_ep_post_rdma_read(pair.client.ep, 2, list, cookie_of(1), &to, 0),
			  BAD_ARG(3));
	}
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(receive_beyond_the_queue_is_refused)
{
	const DAT_EP_ATTR attr = ep_attr_for(4, 4);
	DAT_LMR_TRIPLET one;
	struct pair pair;

	pair_open_sized(&pair, &attr, AREA);
	for (unsigned i = 0; i < 4; i++)
		post_recv(pair.server.ep, i, segment(&pair.server, i, 1));
	one = segment(&pair.server, 4, 1);
	ck_dat_is(dat_ep_post_recv(pair.server.ep, 1, &one, cookie_of(4),
				   DAT_COMPLETION_DEFAULT_FLAG),
		  NO_RESOURCE(MEMORY));
	post_send(pair.client.ep, 9, segment(&pair.client, 0, 1), DAT_COMPLETION_DEFAULT_FLAG);
	expect_recv_done(&pair.server, 0, 1);
	post_recv(pair.server.ep, 4, one);
	pair_close_abrupt(&pair);
}
END_TEST

/* No receive is posted for them, so all stay outstanding. */
START_TEST(request_beyond_the_queue_is_refused)
{
	const DAT_EP_ATTR attr = ep_attr_for(16, 4);
	DAT_EP_PARAM param;
	DAT_COUNT depth;
	struct pair pair;

	pair_open_sized(&pair, &attr, AREA);
	ck_dat(dat_ep_query(pair.client.ep, DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, &param));
	depth = param.ep_attr.max_request_dtos;
	ck_assert_int_le(depth, 16);
	post_outstanding(&pair.client, &pair.server, (unsigned)depth);
	ck_dat_is(dat_ep_post_send(pair.client.ep, 0, NULL, cookie_of(99),
				   DAT_COMPLETION_DEFAULT_FLAG),
		  NO_RESOURCE(MEMORY));
	post_recvs(&pair.server, 0, 1);
	expect_recv_done(&pair.server, 0, 8);
	for (DAT_COUNT i = 0; i < depth; i++)
		expect_request_done(&pair.client, (uint64_t)i, 8);
	expect_no_event(pair.client.request_evd);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

int main(int argc, char **argv)
{
	const struct device_case cases[] = {
		{ send_transfers_every_byte, NEEDS_NOTHING },
		{ write_transfers_every_byte, NEEDS_NOTHING },
		{ read_transfers_every_byte, NEEDS_NOTHING },
		{ send_and_receive_use_all_segments, NEEDS_NOTHING },
		{ write_gathers_and_read_scatters, NEEDS_NOTHING },
		{ empty_message_carries_any_cookie, NEEDS_NOTHING },
		{ last_byte_of_a_write_is_visible_last, NEEDS_NOTHING },
		{ completed_write_is_placed, NEEDS_PLACEMENT },
		{ read_behind_a_write_returns_its_bytes, NEEDS_NOTHING },
		{ received_message_makes_earlier_writes_visible, NEEDS_NOTHING },
		{ messages_arrive_in_order, NEEDS_NOTHING },
		{ reads_beyond_the_read_depth_wait, NEEDS_NOTHING },
		{ send_waits_for_a_receive, NEEDS_RNR },
		{ completed_send_was_taken, NEEDS_RNR },
		{ suppressed_requests_free_their_slots, NEEDS_NOTHING },
		{ signalled_requests_cover_suppressed_ones, NEEDS_NOTHING },
		{ fenced_write_waits_for_reads, NEEDS_NOTHING },
		{ unsignalled_completion_wakes_no_waiter, NEEDS_NOTHING },
		{ only_solicited_message_wakes_the_waiter, NEEDS_SOLICITED },
		{ flags_without_effect_are_ignored, NEEDS_NOTHING },
		{ too_many_segments_or_bytes_are_refused, NEEDS_NOTHING },
		{ receive_beyond_the_queue_is_refused, NEEDS_NOTHING },
		{ request_beyond_the_queue_is_refused, NEEDS_RNR },
	};

	return run_on_device(argc, argv, cases, COUNT(cases));
}
