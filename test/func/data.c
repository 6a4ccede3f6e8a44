/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data transfer: every byte, and no other, gets there; in the order and with the notice that the
 * flags ask for.
 */
#include <sched.h>
#include <string.h>

#include "peer.h"

#define MIB   ((size_t)1 << 20)
#define PAGE  ((size_t)4096)
#define GUARD ((size_t)64) /* bytes on either side that nothing may touch */
#define AREA  (MIB + 2 * PAGE)
#define OTHER 0x11 /* what stands around the source: were it carried along, it would show */

static const struct {
	size_t size, from, to; /* bytes, and the offsets at both ends */
} transfers[] = {
	{ 0, 0, 0 },	    { 1, 0, 0 },	 { 1, 1, 3 },	 { 7, 3, 1 },
	{ 255, 5, 0 },	    { PAGE - 1, 0, 1 },	 { PAGE, 0, 0 }, { PAGE, 17, 4 },
	{ PAGE + 1, 1, 0 }, { 65536 + 1, 3, 7 }, { MIB, 1, 2 },
};

/* size bytes stand at @to behind a guard, and nothing around them has changed. */
static void landed(const struct memory *memory, size_t to, size_t size, unsigned seed)
{
	bytes_check(memory->at, GUARD + to, UNTOUCHED);
	pattern_check(memory->at + GUARD + to, size, seed);
	bytes_check(memory->at + GUARD + to + size, memory->size - GUARD - to - size, UNTOUCHED);
}

/* A connected pair with memory at both ends. */
struct field {
	struct pair pair;
	struct memory near, far;
};

static void field_open(struct field *field, const DAT_EP_ATTR *attr)
{
	pair_open(&field->pair, attr);
	field->near = memory_make(&field->pair.near, AREA, DAT_MEM_PRIV_ALL_FLAG);
	field->far = memory_make(&field->pair.far, AREA, DAT_MEM_PRIV_ALL_FLAG);
}

START_TEST(sends_keep_every_byte)
{
	struct field f;

	field_open(&f, NULL);
	for (unsigned i = 0; i < COUNT(transfers); i++) {
		size_t size = transfers[i].size, to = transfers[i].to;

		memset(f.far.at, UNTOUCHED, AREA);
		memset(f.near.at, OTHER, AREA);
		pattern_fill(f.near.at + transfers[i].from, size, i);
		/* room for more: the surplus stays as it was */
		recv_post(f.pair.far.ep, i, seg(&f.far, GUARD + to, size + GUARD));
		send_post(f.pair.near.ep, i, seg(&f.near, transfers[i].from, size),
			  DAT_COMPLETION_DEFAULT_FLAG);
		dto_wait(f.pair.far.recvs, f.pair.far.ep, i, DAT_DTO_SUCCESS, size);
		dto_wait(f.pair.near.requests, f.pair.near.ep, i, DAT_DTO_SUCCESS, size);
		landed(&f.far, to, size, i);
	}
	pair_close(&f.pair);
}
END_TEST

START_TEST(writes_keep_every_byte)
{
	struct field f;

	field_open(&f, NULL);
	for (unsigned i = 0; i < COUNT(transfers); i++) {
		size_t size = transfers[i].size, to = transfers[i].to;

		memset(f.far.at, UNTOUCHED, AREA);
		memset(f.near.at, OTHER, AREA);
		pattern_fill(f.near.at + transfers[i].from, size, i);
		recv_post(f.pair.far.ep, i, seg(&f.far, 0, 0));
		/* the target is longer than what is written */
		write_post(f.pair.near.ep, i, seg(&f.near, transfers[i].from, size),
			   target(&f.far, GUARD + to, size + GUARD), DAT_COMPLETION_DEFAULT_FLAG);
		send_post(f.pair.near.ep, i + 100, seg(&f.near, 0, 0), DAT_COMPLETION_DEFAULT_FLAG);
		dto_wait(f.pair.far.recvs, f.pair.far.ep, i, DAT_DTO_SUCCESS, 0);
		landed(&f.far, to, size, i);
		dto_wait(f.pair.near.requests, f.pair.near.ep, i, DAT_DTO_SUCCESS, size);
		dto_wait(f.pair.near.requests, f.pair.near.ep, i + 100, DAT_DTO_SUCCESS, 0);
	}
	pair_close(&f.pair);
}
END_TEST

START_TEST(reads_keep_every_byte)
{
	struct field f;

	field_open(&f, NULL);
	for (unsigned i = 0; i < COUNT(transfers); i++) {
		size_t size = transfers[i].size, to = transfers[i].to;

		memset(f.near.at, UNTOUCHED, AREA);
		memset(f.far.at, OTHER, AREA);
		pattern_fill(f.far.at + transfers[i].from, size, i);
		read_post(f.pair.near.ep, i, seg(&f.near, GUARD + to, size + GUARD),
			  target(&f.far, transfers[i].from, size), DAT_COMPLETION_DEFAULT_FLAG);
		dto_wait(f.pair.near.requests, f.pair.near.ep, i, DAT_DTO_SUCCESS, size);
		landed(&f.near, to, size, i);
	}
	pair_close(&f.pair);
}
END_TEST

/* A segment of length 0: the rest of it is garbage that nobody looks at. */
static const DAT_LMR_TRIPLET nothing = { .lmr_context = 0xdeadbeef, .virtual_address = 0x123 };

START_TEST(segments_are_put_together)
{
	const DAT_EP_ATTR attr = ep_attr(4, 4);
	DAT_LMR_TRIPLET out[4], in[4];
	struct field f;

	field_open(&f, &attr);
	pattern_fill(f.near.at, PAGE + 4, 1);
	out[0] = seg(&f.near, 0, 3);
	out[1] = nothing;
	out[2] = seg(&f.near, 3, PAGE);
	out[3] = seg(&f.near, 3 + PAGE, 1);
	/*
	 * 1 byte, then up to the end of the message, in the middle of a segment; the last one stays
	 * empty
	 */
	in[0] = nothing;
	in[1] = seg(&f.far, GUARD, 1);
	in[2] = seg(&f.far, GUARD + 1, 2 * PAGE);
	in[3] = seg(&f.far, GUARD + 1 + 2 * PAGE, PAGE);
	must(dat_ep_post_recv(f.pair.far.ep, 4, in, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
	must(dat_ep_post_send(f.pair.near.ep, 4, out, cookie(2), DAT_COMPLETION_DEFAULT_FLAG));
	/* the lists are ours again */
	memset(out, 0xff, sizeof(out));
	memset(in, 0xff, sizeof(in));
	dto_wait(f.pair.far.recvs, f.pair.far.ep, 1, DAT_DTO_SUCCESS, PAGE + 4);
	dto_wait(f.pair.near.requests, f.pair.near.ep, 2, DAT_DTO_SUCCESS, PAGE + 4);
	landed(&f.far, 0, PAGE + 4, 1);
	pair_close(&f.pair);
}
END_TEST

START_TEST(writes_gather_and_reads_scatter)
{
	const DAT_EP_ATTR attr = ep_attr(4, 4);
	const size_t size = PAGE + 101;
	DAT_LMR_TRIPLET list[3];
	DAT_RMR_TRIPLET remote;
	DAT_EP_PARAM param;
	DAT_COUNT scatter;
	struct field f;

	field_open(&f, &attr);
	must(dat_ep_query(f.pair.near.ep, DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IOV, &param));
	scatter = param.ep_attr.max_rdma_read_iov;
	pattern_fill(f.near.at, size, 1);
	list[0] = seg(&f.near, 0, 100);
	list[1] = nothing;
	list[2] = seg(&f.near, 100, PAGE + 1);
	remote = target(&f.far, GUARD, size);
	must(dat_ep_post_rdma_write(f.pair.near.ep, 3, list, cookie(1), &remote,
				    DAT_COMPLETION_DEFAULT_FLAG));
	dto_wait(f.pair.near.requests, f.pair.near.ep, 1, DAT_DTO_SUCCESS, size);

	memset(f.near.at, UNTOUCHED, AREA);
	/* iWARP reads into one segment */
	list[0] = seg(&f.near, GUARD, scatter < 3 ? AREA - GUARD : 33);
	list[2] = seg(&f.near, GUARD + 33, AREA - GUARD - 33);
	must(dat_ep_post_rdma_read(f.pair.near.ep, scatter < 3 ? 1 : 3, list, cookie(2), &remote,
				   DAT_COMPLETION_DEFAULT_FLAG));
	dto_wait(f.pair.near.requests, f.pair.near.ep, 2, DAT_DTO_SUCCESS, size);
	landed(&f.near, 0, size, 1);
	landed(&f.far, 0, size, 1);
	pair_close(&f.pair);
}
END_TEST

START_TEST(empty_messages_and_any_cookie)
{
	static const uint64_t cookies[] = { 0, UINT64_MAX, 1, UINT64_C(1) << 63,
					    UINT64_C(0x0123456789abcdef) };
	struct pair pair;

	pair_open(&pair, NULL);
	for (size_t i = 0; i < COUNT(cookies); i++) {
		must(dat_ep_post_recv(pair.far.ep, 0, NULL, cookie(cookies[i]),
				      DAT_COMPLETION_DEFAULT_FLAG));
		must(dat_ep_post_send(pair.near.ep, 0, NULL, cookie(cookies[i]),
				      DAT_COMPLETION_DEFAULT_FLAG));
		dto_wait(pair.far.recvs, pair.far.ep, cookies[i], DAT_DTO_SUCCESS, 0);
		dto_wait(pair.near.requests, pair.near.ep, cookies[i], DAT_DTO_SUCCESS, 0);
	}
	pair_close(&pair);
}
END_TEST

/* Old programs wait for the last byte of a write and then use the rest. */
START_TEST(last_byte_of_a_write_shows_last)
{
	static const size_t sizes[] = { 2, 100, PAGE, PAGE + 1, 65536, 65536 + 1 };
	struct field f;

	field_open(&f, NULL);
	for (unsigned round = 1; round <= 30; round++) {
		size_t size = sizes[round % COUNT(sizes)];
		unsigned char *last = f.far.at + size - 1;

		memset(f.near.at, (int)round, size);
		memset(f.far.at, 0, size);
		write_post(f.pair.near.ep, round, seg(&f.near, 0, size), target(&f.far, 0, size),
			   DAT_COMPLETION_DEFAULT_FLAG);
		while (__atomic_load_n(last, __ATOMIC_ACQUIRE) != round)
			sched_yield();
		bytes_check(f.far.at, size, (unsigned char)round);
		dto_wait(f.pair.near.requests, f.pair.near.ep, round, DAT_DTO_SUCCESS, size);
	}
	pair_close(&f.pair);
}
END_TEST

START_TEST(completed_write_is_there)
{
	struct field f;

	field_open(&f, NULL);
	for (unsigned round = 0; round < 10; round++) {
		pattern_fill(f.near.at, 65536, round);
		write_post(f.pair.near.ep, round, seg(&f.near, 0, 65536), target(&f.far, 0, 65536),
			   DAT_COMPLETION_DEFAULT_FLAG);
		dto_wait(f.pair.near.requests, f.pair.near.ep, round, DAT_DTO_SUCCESS, 65536);
		pattern_check(f.far.at, 65536, round);
	}
	pair_close(&f.pair);
}
END_TEST

START_TEST(read_returns_what_was_just_written)
{
	struct field f;

	field_open(&f, NULL);
	for (unsigned round = 0; round < 10; round++) {
		pattern_fill(f.near.at, 50000, round);
		memset(f.near.at + 65536, 0, 50000);
		write_post(f.pair.near.ep, 1, seg(&f.near, 0, 50000), target(&f.far, 9, 50000),
			   DAT_COMPLETION_DEFAULT_FLAG);
		read_post(f.pair.near.ep, 2, seg(&f.near, 65536, 50000), target(&f.far, 9, 50000),
			  DAT_COMPLETION_DEFAULT_FLAG);
		dto_wait(f.pair.near.requests, f.pair.near.ep, 1, DAT_DTO_SUCCESS, 50000);
		dto_wait(f.pair.near.requests, f.pair.near.ep, 2, DAT_DTO_SUCCESS, 50000);
		pattern_check(f.near.at + 65536, 50000, round);
	}
	pair_close(&f.pair);
}
END_TEST

START_TEST(received_message_shows_earlier_writes)
{
	struct field f;

	field_open(&f, NULL);
	for (unsigned round = 0; round < 30; round++) {
		size_t size = 1 + round * 2111;

		pattern_fill(f.near.at, size, round);
		recv_post(f.pair.far.ep, round, seg(&f.far, AREA - 8, 8));
		write_post(f.pair.near.ep, 1, seg(&f.near, 0, size), target(&f.far, 0, size),
			   DAT_COMPLETION_SUPPRESS_FLAG);
		send_post(f.pair.near.ep, round, seg(&f.near, 0, 1), DAT_COMPLETION_DEFAULT_FLAG);
		dto_wait(f.pair.far.recvs, f.pair.far.ep, round, DAT_DTO_SUCCESS, 1);
		pattern_check(f.far.at, size, round);
		dto_wait(f.pair.near.requests, f.pair.near.ep, round, DAT_DTO_SUCCESS, 1);
	}
	pair_close(&f.pair);
}
END_TEST

START_TEST(messages_arrive_in_order)
{
	const DAT_EP_ATTR attr = ep_attr(64, 64);
	struct field f;

	field_open(&f, &attr);
	for (unsigned i = 0; i < 64; i++)
		recv_post(f.pair.far.ep, i, seg(&f.far, i * 1000, 1000));
	for (unsigned i = 0; i < 64; i++) {
		pattern_fill(f.near.at + i * 1000, i + 1, i);
		send_post(f.pair.near.ep, 100 + i, seg(&f.near, i * 1000, i + 1),
			  DAT_COMPLETION_DEFAULT_FLAG);
	}
	for (unsigned i = 0; i < 64; i++) {
		dto_wait(f.pair.far.recvs, f.pair.far.ep, i, DAT_DTO_SUCCESS, i + 1);
		dto_wait(f.pair.near.requests, f.pair.near.ep, 100 + i, DAT_DTO_SUCCESS, i + 1);
		pattern_check(f.far.at + i * 1000, i + 1, i);
	}
	pair_close(&f.pair);
}
END_TEST

START_TEST(reads_beyond_the_depth_queue_up)
{
	DAT_EP_ATTR attr = ep_attr(4, 32);
	struct field f;

	attr.max_rdma_read_in = 2;
	attr.max_rdma_read_out = 2;
	field_open(&f, &attr);
	pattern_fill(f.far.at, 32 * PAGE, 3);
	for (unsigned i = 0; i < 32; i++)
		read_post(f.pair.near.ep, i, seg(&f.near, i * PAGE, PAGE),
			  target(&f.far, i * PAGE, PAGE), DAT_COMPLETION_DEFAULT_FLAG);
	for (unsigned i = 0; i < 32; i++)
		dto_wait(f.pair.near.requests, f.pair.near.ep, i, DAT_DTO_SUCCESS, PAGE);
	pattern_check(f.near.at, 32 * PAGE, 3);
	pair_close(&f.pair);
}
END_TEST

START_TEST(send_waits_for_a_receive)
{
	struct field f;

	field_open(&f, NULL);
	pattern_fill(f.near.at, 100, 1);
	send_post(f.pair.near.ep, 1, seg(&f.near, 0, 100), DAT_COMPLETION_DEFAULT_FLAG);
	/* the other way round nothing is held up, and by then the message has been offered */
	recv_post(f.pair.near.ep, 2, seg(&f.near, 200, 100));
	send_post(f.pair.far.ep, 3, seg(&f.far, 0, 100), DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(f.pair.near.recvs, f.pair.near.ep, 2, DAT_DTO_SUCCESS, 100);
	recv_post(f.pair.far.ep, 4, seg(&f.far, 200, 100));
	dto_wait(f.pair.far.recvs, f.pair.far.ep, 4, DAT_DTO_SUCCESS, 100);
	dto_wait(f.pair.near.requests, f.pair.near.ep, 1, DAT_DTO_SUCCESS, 100);
	pattern_check(f.far.at + 200, 100, 1);
	pair_close(&f.pair);
}
END_TEST

/* ---- flags ---- */

/* Nobody takes their completions, as there are none: slots come back all the same. */
START_TEST(suppressed_requests_never_lock_up)
{
	const DAT_EP_ATTR attr = ep_attr(4, 8);
	struct field f;

	field_open(&f, &attr);
	recv_post(f.pair.far.ep, 1, seg(&f.far, AREA - 1, 1));
	pattern_fill(f.near.at, 200 * 100, 5);
	for (unsigned i = 0; i < 200; i++) {
		DAT_LMR_TRIPLET from = seg(&f.near, i * 100, 100);
		DAT_RMR_TRIPLET to = target(&f.far, i * 100, 100);
		DAT_RETURN ret;

		while ((ret = dat_ep_post_rdma_write(f.pair.near.ep, 1, &from, cookie(i), &to,
						     DAT_COMPLETION_SUPPRESS_FLAG)) !=
		       DAT_SUCCESS) {
			returns(FAILS(INSUFFICIENT_RESOURCES, RESOURCE_MEMORY), ret);
			sched_yield();
		}
	}
	while (dat_ep_post_send(f.pair.near.ep, 0, NULL, cookie(999),
				DAT_COMPLETION_DEFAULT_FLAG) != DAT_SUCCESS)
		sched_yield();
	dto_wait(f.pair.far.recvs, f.pair.far.ep, 1, DAT_DTO_SUCCESS, 0);
	pattern_check(f.far.at, 200 * 100, 5);
	dto_wait(f.pair.near.requests, f.pair.near.ep, 999, DAT_DTO_SUCCESS, 0);
	no_event(f.pair.near.requests);
	pair_close(&f.pair);
}
END_TEST

START_TEST(plain_requests_among_suppressed_report_in_order)
{
	const DAT_EP_ATTR attr = ep_attr(4, 32);
	DAT_BOOLEAN idle;
	struct field f;

	field_open(&f, &attr);
	for (unsigned i = 0; i < 32; i++)
		write_post(f.pair.near.ep, i, seg(&f.near, i, 1), target(&f.far, i, 1),
			   i % 3 == 1 ? DAT_COMPLETION_DEFAULT_FLAG : DAT_COMPLETION_SUPPRESS_FLAG);
	for (unsigned i = 1; i < 32; i += 3)
		dto_wait(f.pair.near.requests, f.pair.near.ep, i, DAT_DTO_SUCCESS, 1);
	no_event(f.pair.near.requests);
	/* the last one, 31, was plain: all before it are proved done */
	must(dat_ep_get_status(f.pair.near.ep, NULL, NULL, &idle));
	ck_assert_int_eq(idle, DAT_TRUE);
	pair_close(&f.pair);
}
END_TEST

START_TEST(fence_waits_for_reads)
{
	const size_t size = 100000;
	struct field f;

	field_open(&f, NULL);
	for (unsigned round = 0; round < 10; round++) {
		pattern_fill(f.far.at, size, round);
		memset(f.far.at + MIB / 2, 0, size);
		recv_post(f.pair.far.ep, 1, seg(&f.far, AREA - 1, 1));
		/*
		 * what the read brings is written back: too early, and it would be the round before
		 */
		read_post(f.pair.near.ep, 2, seg(&f.near, 0, size), target(&f.far, 0, size),
			  DAT_COMPLETION_SUPPRESS_FLAG);
		write_post(f.pair.near.ep, 3, seg(&f.near, 0, size), target(&f.far, MIB / 2, size),
			   DAT_COMPLETION_BARRIER_FENCE_FLAG);
		send_post(f.pair.near.ep, 4, seg(&f.near, 0, 1), DAT_COMPLETION_DEFAULT_FLAG);
		dto_wait(f.pair.near.requests, f.pair.near.ep, 3, DAT_DTO_SUCCESS, size);
		dto_wait(f.pair.near.requests, f.pair.near.ep, 4, DAT_DTO_SUCCESS, 1);
		dto_wait(f.pair.far.recvs, f.pair.far.ep, 1, DAT_DTO_SUCCESS, 1);
		pattern_check(f.far.at + MIB / 2, size, round);
	}
	pair_close(&f.pair);
}
END_TEST

/* The other way, where nobody waits; time enough for a thread that was woken to be seen. */
static void chat(struct field *f)
{
	for (unsigned i = 0; i < 20; i++) {
		recv_post(f->pair.near.ep, i, seg(&f->near, MIB, 10));
		send_post(f->pair.far.ep, i, seg(&f->far, MIB, 10), DAT_COMPLETION_DEFAULT_FLAG);
		dto_wait(f->pair.near.recvs, f->pair.near.ep, i, DAT_DTO_SUCCESS, 10);
		dto_wait(f->pair.far.requests, f->pair.far.ep, i, DAT_DTO_SUCCESS, 10);
	}
}

START_TEST(unsignalled_completions_do_not_wake)
{
	DAT_EP_ATTR attr = ep_attr(4, 4);
	struct waiter waiter = { 0 };
	struct field f;

	attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
	field_open(&f, &attr);
	recv_post(f.pair.far.ep, 1, seg(&f.far, 0, 10));
	recv_post(f.pair.far.ep, 2, seg(&f.far, 0, 10));
	waiter.evd = f.pair.near.requests;
	waiter_start(&waiter);
	send_post(f.pair.near.ep, 3, seg(&f.near, 0, 10), DAT_COMPLETION_UNSIGNALLED_FLAG);
	dto_wait(f.pair.far.recvs, f.pair.far.ep, 1, DAT_DTO_SUCCESS, 10);
	chat(&f);
	send_post(f.pair.near.ep, 4, seg(&f.near, 0, 10), DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(f.pair.far.recvs, f.pair.far.ep, 2, DAT_DTO_SUCCESS, 10);
	waiter_join(&waiter);
	/* it slept through the first, and was given it all the same */
	must(waiter.ret);
	ck_assert_uint_eq(waiter.event.event_data.dto_completion_event_data.user_cookie.as_64, 3);
	ck_assert_int_eq(waiter.nmore, 1);
	dto_wait(f.pair.near.requests, f.pair.near.ep, 4, DAT_DTO_SUCCESS, 10);
	pair_close(&f.pair);
}
END_TEST

START_TEST(only_solicited_messages_wake)
{
	DAT_EP_ATTR attr = ep_attr(4, 4);
	struct waiter waiter = { 0 };
	struct field f;

	attr.recv_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG;
	field_open(&f, &attr);
	recv_post(f.pair.far.ep, 1, seg(&f.far, 0, 10));
	recv_post(f.pair.far.ep, 2, seg(&f.far, 0, 10));
	waiter.evd = f.pair.far.recvs;
	waiter_start(&waiter);
	send_post(f.pair.near.ep, 3, seg(&f.near, 0, 10), DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(f.pair.near.requests, f.pair.near.ep, 3, DAT_DTO_SUCCESS, 10);
	chat(&f);
	send_post(f.pair.near.ep, 4, seg(&f.near, 0, 10), DAT_COMPLETION_SOLICITED_WAIT_FLAG);
	waiter_join(&waiter);
	must(waiter.ret);
	ck_assert_uint_eq(waiter.event.event_data.dto_completion_event_data.user_cookie.as_64, 1);
	ck_assert_int_eq(waiter.nmore, 1);
	dto_wait(f.pair.far.recvs, f.pair.far.ep, 2, DAT_DTO_SUCCESS, 10);
	dto_wait(f.pair.near.requests, f.pair.near.ep, 4, DAT_DTO_SUCCESS, 10);
	pair_close(&f.pair);
}
END_TEST

START_TEST(flags_that_do_not_fit_are_refused)
{
	const DAT_EP_ATTR attr = ep_attr(4, 4);
	DAT_PROVIDER_ATTR provider;
	struct field f;
	DAT_RMR_TRIPLET to;
	DAT_LMR_TRIPLET at;

	field_open(&f, &attr);
	at = seg(&f.near, 0, 1);
	to = target(&f.far, 0, 1);
	must(dat_ia_query(f.pair.near.ia, NULL, 0, NULL,
			  DAT_PROVIDER_FIELD_COMPLETION_FLAGS_SUPPORTED, &provider));
	ck_assert_int_eq(provider.completion_flags_supported, 0x1f);
	returns(BAD_ARG(5),
		dat_ep_post_recv(f.pair.near.ep, 1, &at, cookie(1), DAT_COMPLETION_SUPPRESS_FLAG));
	returns(BAD_ARG(5), dat_ep_post_recv(f.pair.near.ep, 1, &at, cookie(1),
					     DAT_COMPLETION_BARRIER_FENCE_FLAG));
	returns(BAD_ARG(5), dat_ep_post_recv(f.pair.near.ep, 1, &at, cookie(1),
					     DAT_COMPLETION_UNSIGNALLED_FLAG));
	returns(BAD_ARG(5), dat_ep_post_send(f.pair.near.ep, 1, &at, cookie(1),
					     DAT_COMPLETION_UNSIGNALLED_FLAG));
	returns(BAD_ARG(5), dat_ep_post_send(f.pair.near.ep, 1, &at, cookie(1),
					     DAT_COMPLETION_EVD_THRESHOLD_FLAG));
	returns(BAD_ARG(6), dat_ep_post_rdma_write(f.pair.near.ep, 1, &at, cookie(1), &to,
						   DAT_COMPLETION_SOLICITED_WAIT_FLAG));
	returns(BAD_ARG(6), dat_ep_post_rdma_read(f.pair.near.ep, 1, &at, cookie(1), &to,
						  DAT_COMPLETION_SOLICITED_WAIT_FLAG));
	say_hello(&f.pair);
	pair_close(&f.pair);
}
END_TEST

/* ---- limits ---- */

START_TEST(too_many_segments_or_bytes_are_refused)
{
	DAT_EP_ATTR attr = ep_attr(4, 4);
	DAT_LMR_TRIPLET list[64];
	DAT_RMR_TRIPLET to;
	DAT_EP_PARAM param;
	struct field f;

	attr.max_message_size = 1000;
	attr.max_rdma_size = 2000;
	field_open(&f, &attr);
	must(dat_ep_query(f.pair.near.ep, DAT_EP_FIELD_EP_ATTR_ALL, &param));
	ck_assert_int_lt(param.ep_attr.max_request_iov, (int)COUNT(list));
	for (size_t i = 0; i < COUNT(list); i++)
		list[i] = seg(&f.near, i, 1);
	to = target(&f.far, 0, 64);
	returns(BAD_ARG(2), dat_ep_post_send(f.pair.near.ep, param.ep_attr.max_request_iov + 1,
					     list, cookie(1), 0));
	returns(BAD_ARG(2), dat_ep_post_recv(f.pair.near.ep, param.ep_attr.max_recv_iov + 1, list,
					     cookie(1), 0));
	returns(BAD_ARG(2),
		dat_ep_post_rdma_write(f.pair.near.ep, param.ep_attr.max_rdma_write_iov + 1, list,
				       cookie(1), &to, 0));
	returns(BAD_ARG(2),
		dat_ep_post_rdma_read(f.pair.near.ep, param.ep_attr.max_rdma_read_iov + 1, list,
				      cookie(1), &to, 0));
	returns(BAD_ARG(2), dat_ep_post_send(f.pair.near.ep, -1, list, cookie(1), 0));
	returns(BAD_ARG(3), dat_ep_post_send(f.pair.near.ep, 1, NULL, cookie(1), 0));
	list[0] = seg(&f.near, 0, 1001);
	returns(BAD_ARG(3), dat_ep_post_send(f.pair.near.ep, 1, list, cookie(1), 0));
	list[0] = seg(&f.near, 0, 2001);
	to = target(&f.far, 0, 2001);
	returns(BAD_ARG(5), dat_ep_post_rdma_write(f.pair.near.ep, 1, list, cookie(1), &to, 0));
	returns(BAD_ARG(5), dat_ep_post_rdma_read(f.pair.near.ep, 1, list, cookie(1), &to, 0));
	to = target(&f.far, 0, 1999);
	list[0] = seg(&f.near, 0, 2000);
	returns(FAILS(LENGTH_ERROR, NO_SUBTYPE),
		dat_ep_post_rdma_write(f.pair.near.ep, 1, list, cookie(1), &to, 0));
	list[0] = seg(&f.near, 0, 1998);
	returns(FAILS(LENGTH_ERROR, NO_SUBTYPE),
		dat_ep_post_rdma_read(f.pair.near.ep, 1, list, cookie(1), &to, 0));
	say_hello(&f.pair);
	pair_close(&f.pair);
}
END_TEST

START_TEST(one_receive_too_many_is_refused)
{
	const DAT_EP_ATTR attr = ep_attr(4, 4);
	DAT_LMR_TRIPLET one;
	struct field f;

	field_open(&f, &attr);
	for (unsigned i = 0; i < 4; i++)
		recv_post(f.pair.far.ep, i, seg(&f.far, i, 1));
	one = seg(&f.far, 4, 1);
	returns(FAILS(INSUFFICIENT_RESOURCES, RESOURCE_MEMORY),
		dat_ep_post_recv(f.pair.far.ep, 1, &one, cookie(4), DAT_COMPLETION_DEFAULT_FLAG));
	send_post(f.pair.near.ep, 9, seg(&f.near, 0, 1), DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(f.pair.far.recvs, f.pair.far.ep, 0, DAT_DTO_SUCCESS, 1);
	recv_post(f.pair.far.ep, 4, one);
	pair_close(&f.pair);
}
END_TEST

/* No receive waits for them, so all stay outstanding. */
START_TEST(one_request_too_many_is_refused)
{
	const DAT_EP_ATTR attr = ep_attr(16, 4);
	DAT_EP_PARAM param;
	DAT_COUNT depth;
	struct field f;

	field_open(&f, &attr);
	must(dat_ep_query(f.pair.near.ep, DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, &param));
	depth = param.ep_attr.max_request_dtos;
	ck_assert_int_le(depth, 16);
	for (DAT_COUNT i = 0; i < depth; i++)
		send_post(f.pair.near.ep, (uint64_t)i, seg(&f.near, 0, 1),
			  DAT_COMPLETION_DEFAULT_FLAG);
	returns(FAILS(INSUFFICIENT_RESOURCES, RESOURCE_MEMORY),
		dat_ep_post_send(f.pair.near.ep, 0, NULL, cookie(99), DAT_COMPLETION_DEFAULT_FLAG));
	for (DAT_COUNT i = 0; i < depth; i++)
		recv_post(f.pair.far.ep, (uint64_t)i, seg(&f.far, 0, 1));
	for (DAT_COUNT i = 0; i < depth; i++) {
		dto_wait(f.pair.far.recvs, f.pair.far.ep, (uint64_t)i, DAT_DTO_SUCCESS, 1);
		dto_wait(f.pair.near.requests, f.pair.near.ep, (uint64_t)i, DAT_DTO_SUCCESS, 1);
	}
	no_event(f.pair.near.requests);
	say_hello(&f.pair);
	pair_close(&f.pair);
}
END_TEST

int main(int argc, char **argv)
{
	const struct test tests[] = {
		{ sends_keep_every_byte, NEEDS_NOTHING },
		{ writes_keep_every_byte, NEEDS_NOTHING },
		{ reads_keep_every_byte, NEEDS_NOTHING },
		{ segments_are_put_together, NEEDS_NOTHING },
		{ writes_gather_and_reads_scatter, NEEDS_NOTHING },
		{ empty_messages_and_any_cookie, NEEDS_NOTHING },
		{ last_byte_of_a_write_shows_last, NEEDS_NOTHING },
		{ completed_write_is_there, NEEDS_PLACED },
		{ read_returns_what_was_just_written, NEEDS_NOTHING },
		{ received_message_shows_earlier_writes, NEEDS_NOTHING },
		{ messages_arrive_in_order, NEEDS_NOTHING },
		{ reads_beyond_the_depth_queue_up, NEEDS_NOTHING },
		{ send_waits_for_a_receive, NEEDS_RNR },
		{ suppressed_requests_never_lock_up, NEEDS_NOTHING },
		{ plain_requests_among_suppressed_report_in_order, NEEDS_NOTHING },
		{ fence_waits_for_reads, NEEDS_NOTHING },
		{ unsignalled_completions_do_not_wake, NEEDS_NOTHING },
		{ only_solicited_messages_wake, NEEDS_SOLICITED },
		{ flags_that_do_not_fit_are_refused, NEEDS_NOTHING },
		{ too_many_segments_or_bytes_are_refused, NEEDS_NOTHING },
		{ one_receive_too_many_is_refused, NEEDS_NOTHING },
		{ one_request_too_many_is_refused, NEEDS_RNR },
	};

	return run(argc, argv, tests, COUNT(tests));
}
