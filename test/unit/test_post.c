/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data transfer: the checks of each post, the bytes that are moved, limits, suppressed completions,
 * and failures.
 */
#include <sched.h>
#include <sys/mman.h>

#include "harness.h"
#include "race.h"

#define FULL NO_RESOURCE(MEMORY)

#define SUPPRESS      DAT_COMPLETION_SUPPRESS_FLAG
#define UNSIGNALLED   DAT_COMPLETION_UNSIGNALLED_FLAG
#define SOLICITED     DAT_COMPLETION_SOLICITED_WAIT_FLAG
#define FENCE	      DAT_COMPLETION_BARRIER_FENCE_FLAG
#define EVD_THRESHOLD DAT_COMPLETION_EVD_THRESHOLD_FLAG

static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;

static void setup(void)
{
	pair_connect(&pair);
}

/* Connects the pair. The client's endpoint has these limits. */
static void post_connect_with_limits(DAT_COUNT recvs, DAT_COUNT requests)
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

static struct ep *side_ep(const struct side *side)
{
	return side->ep;
}

static void post_fill(const struct side *side, char seed)
{
	for (int n = 0; n < SIDE_MEMORY; n++)
		side->memory[n] = (char)(seed + n * 7);
}

static DAT_DTO_COMPLETION_EVENT_DATA next_completion(DAT_EVD_HANDLE evd)
{
	return expect_event(evd, DAT_DTO_COMPLETION_EVENT).event_data.dto_completion_event_data;
}

static void expect_completion_length(DAT_EVD_HANDLE evd, uint64_t cookie, DAT_VLEN length)
{
	DAT_DTO_COMPLETION_EVENT_DATA dto = next_completion(evd);

	ck_assert_uint_eq(dto.user_cookie.as_64, cookie);
	ck_assert_int_eq(dto.status, DAT_DTO_SUCCESS);
	ck_assert_uint_eq(dto.transfered_length, length);
}

static void expect_idle(bool recv_idle, bool request_idle)
{
	DAT_BOOLEAN recvs, requests;

	ck_dat(ep_get_status(client->ep, NULL, &recvs, &requests));
	ck_assert_int_eq(!recvs, !recv_idle);
	ck_assert_int_eq(!requests, !request_idle);
}

/* ---- arguments ---- */

/* A segment's length has 64 bits, or in DAT 2.0 only 32. */
typedef __typeof__(((DAT_LMR_TRIPLET *)0)->segment_length) seg_length;
#define TOO_LONG OF_EDITION(1ULL << 40, UINT32_MAX)

enum transfer {
	SEND,
	RECV,
	READ,
	WRITE,
};

static DAT_RETURN post_transfer(enum transfer transfer, DAT_EP_HANDLE ep, DAT_COUNT nseg,
				DAT_LMR_TRIPLET *iov, const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	switch (transfer) {
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
	enum transfer transfer;
	DAT_COUNT nseg;
	bool no_iov;
	/* lengths of the first local and the remote segment; ~0: no remote one */
	DAT_VLEN local, remote;
	unsigned flags;
	DAT_RETURN want;
} refusals[] = {
	{ "negative segment count", SEND, -1, false, 8, 8, 0, BAD_ARG(2) },
	{ "negative segment count", RECV, -1, false, 8, 8, 0, BAD_ARG(2) },
	{ "negative segment count", READ, -1, false, 8, 8, 0, BAD_ARG(2) },
	{ "negative segment count", WRITE, -1, false, 8, 8, 0, BAD_ARG(2) },
	{ "too many segments", SEND, 5, false, 8, 8, 0, BAD_ARG(2) },
	{ "too many segments", RECV, 5, false, 8, 8, 0, BAD_ARG(2) },
	{ "too many segments", READ, 5, false, 8, 8, 0, BAD_ARG(2) },
	{ "too many segments", WRITE, 5, false, 8, 8, 0, BAD_ARG(2) },
	{ "no segments", SEND, 1, true, 8, 8, 0, BAD_ARG(3) },
	{ "no segments", RECV, 1, true, 8, 8, 0, BAD_ARG(3) },
	{ "no segments", READ, 1, true, 8, 8, 0, BAD_ARG(3) },
	{ "no segments", WRITE, 1, true, 8, 8, 0, BAD_ARG(3) },
	{ "local segment too long", SEND, 1, false, TOO_LONG, 8, 0, BAD_ARG(3) },
	{ "no remote segment", READ, 1, false, 8, ~0ULL, 0, BAD_ARG(5) },
	{ "no remote segment", WRITE, 1, false, 8, ~0ULL, 0, BAD_ARG(5) },
	{ "local segment too long", READ, 1, false, TOO_LONG, 8, 0, BAD_ARG(3) },
	{ "local segment too long", WRITE, 1, false, TOO_LONG, 8, 0, BAD_ARG(3) },
	{ "both segments too long", READ, 1, false, TOO_LONG, TOO_LONG, 0, BAD_ARG(3) },
	{ "both segments too long", WRITE, 1, false, TOO_LONG, TOO_LONG, 0, BAD_ARG(3) },
};

START_TEST(refused_posts_change_nothing)
{
	DAT_LMR_TRIPLET iov[5] = { segment(client, 0, 0) };
	DAT_RMR_TRIPLET remote = target(server, 0, 0);
	const DAT_RMR_TRIPLET *remote_or_null = refusals[_i].remote == ~0ULL ? NULL : &remote;

	iov[0].segment_length = (seg_length)refusals[_i].local;
	remote.segment_length = (seg_length)refusals[_i].remote;
	ck_dat_is(post_transfer(refusals[_i].transfer, client->ep, refusals[_i].nseg,
				refusals[_i].no_iov ? NULL : iov, remote_or_null,
				refusals[_i].flags),
		  refusals[_i].want);
	ck_assert_uint_eq(fake_outstanding(), 0);
	ck_assert_uint_eq(ring_used(&side_ep(client)->sends) + ring_used(&side_ep(client)->recvs),
			  0);
	expect_no_event(client->request_evd);
	expect_no_event(client->recv_evd);
	pair_close(&pair);
}
END_TEST

static const struct {
	enum transfer transfer;
	unsigned flags, seen;
} flag_cases[] = {
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

/* Flags of other calls, and of endpoints with other attributes, count as 0. */
static const struct {
	enum transfer transfer;
	unsigned flags;
} ignored_flags[] = {
	{ SEND, EVD_THRESHOLD },
	{ SEND, UNSIGNALLED },
	{ SEND, EVD_THRESHOLD | UNSIGNALLED },
	{ WRITE, EVD_THRESHOLD },
	{ WRITE, UNSIGNALLED },
	{ WRITE, SOLICITED },
	{ WRITE, EVD_THRESHOLD | UNSIGNALLED | SOLICITED },
	{ READ, EVD_THRESHOLD },
	{ READ, UNSIGNALLED },
	{ READ, SOLICITED },
	{ READ, EVD_THRESHOLD | UNSIGNALLED | SOLICITED },
	{ RECV, EVD_THRESHOLD },
	{ RECV, UNSIGNALLED },
	{ RECV, SOLICITED },
	{ RECV, FENCE },
	{ RECV, SUPPRESS },
	{ RECV, EVD_THRESHOLD | UNSIGNALLED | SOLICITED | FENCE | SUPPRESS },
};

START_TEST(flags_without_effect_are_ignored)
{
	enum transfer transfer = ignored_flags[_i].transfer;
	DAT_LMR_TRIPLET iov = segment(client, 0, 8);
	DAT_RMR_TRIPLET remote = target(server, 0, 8);

	post_recv(server, 2, 0, 8, 0);
	ck_dat(post_transfer(transfer, client->ep, 1, &iov, &remote, ignored_flags[_i].flags));
	if (transfer == RECV)
		post_send(server, 3, 0, 8, 0);
	else
		ck_assert_uint_eq(fake_seen().post_flags, TP_POST_SIGNAL);
	expect_dto(transfer == RECV ? client->recv_evd : client->request_evd, 1, DAT_DTO_SUCCESS);
}
END_TEST

START_TEST(completion_flags_are_passed_to_the_device)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 8);
	DAT_RMR_TRIPLET remote = target(server, 0, 8);

	ck_dat(post_transfer(flag_cases[_i].transfer, client->ep, 1, &iov, &remote,
			     flag_cases[_i].flags));
	ck_assert_uint_eq(fake_seen().post_flags, flag_cases[_i].seen);
}
END_TEST

/* ---- transfers ---- */

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

/* Describes segments of these lengths, with gaps between them. Returns the total length. */
static size_t layout_segments(const struct side *side, const size_t *lengths, unsigned n,
			      DAT_LMR_TRIPLET *iov)
{
	size_t total = 0;

	for (unsigned i = 0; i < n; i++) {
		iov[i] = segment(side, i * 10000, lengths[i]);
		if (lengths[i] == 0)
			/* not used by the device */
			iov[i] = (DAT_LMR_TRIPLET){ .lmr_context = 0xbad, .virtual_address = 1 };
		total += lengths[i];
	}
	return total;
}

/* Copies the first @length bytes of @iov. */
static void gather_segments(char *out, const DAT_LMR_TRIPLET *iov, unsigned n, size_t length)
{
	for (unsigned i = 0; i < n && length > 0; i++) {
		size_t part = iov[i].segment_length < length ? iov[i].segment_length : length;

		memcpy(out, (void *)(uintptr_t)iov[i].virtual_address, part);
		out += part;
		length -= part;
	}
}

static void expect_same_bytes(const DAT_LMR_TRIPLET *x, unsigned nx, const DAT_LMR_TRIPLET *y,
			      unsigned ny, size_t length)
{
	static char x_bytes[SIDE_MEMORY], y_bytes[SIDE_MEMORY];

	gather_segments(x_bytes, x, nx, length);
	gather_segments(y_bytes, y, ny, length);
	ck_assert_mem_eq(x_bytes, y_bytes, length);
}

START_TEST(sends_gather_and_scatter)
{
	DAT_LMR_TRIPLET sends[4], recvs[4];
	size_t length = layout_segments(client, shapes[_i].sends, shapes[_i].nsend, sends);

	layout_segments(server, shapes[_i].recvs, shapes[_i].nrecv, recvs);
	post_fill(client, 1);
	ck_dat(ep_post_recv(server->ep, (DAT_COUNT)shapes[_i].nrecv,
			    shapes[_i].nrecv ? recvs : NULL, cookie_of(7), 0));
	ck_dat(ep_post_send(client->ep, (DAT_COUNT)shapes[_i].nsend,
			    shapes[_i].nsend ? sends : NULL, cookie_of(~9ULL), 0));
	expect_completion_length(client->request_evd, ~9ULL, length);
	expect_completion_length(server->recv_evd, 7, length);
	expect_same_bytes(sends, shapes[_i].nsend, recvs, shapes[_i].nrecv, length);
	pair_close(&pair);
}
END_TEST

START_TEST(writes_gather)
{
	DAT_LMR_TRIPLET iov[4], remote_iov = segment(server, 20000, 30000);
	DAT_RMR_TRIPLET remote = target(server, 20000, 30000);
	size_t length = layout_segments(client, shapes[_i].sends, shapes[_i].nsend, iov);

	post_fill(client, 1);
	ck_dat(ep_post_rdma_write(client->ep, (DAT_COUNT)shapes[_i].nsend, iov, cookie_of(5),
				  &remote, 0));
	expect_completion_length(client->request_evd, 5, length);
	expect_same_bytes(iov, shapes[_i].nsend, &remote_iov, 1, length);
	ck_assert_int_eq(server->memory[20000 + length], 0);
	expect_no_event(server->recv_evd);
	pair_close(&pair);
}
END_TEST

START_TEST(reads_scatter)
{
	DAT_LMR_TRIPLET iov[4], remote_iov = segment(server, 20000, 30000);
	DAT_RMR_TRIPLET remote = target(server, 20000, 30000);
	size_t length = layout_segments(client, shapes[_i].recvs, shapes[_i].nrecv, iov);

	post_fill(server, 3);
	ck_dat(ep_post_rdma_read(client->ep, (DAT_COUNT)shapes[_i].nrecv, iov, cookie_of(5),
				 &remote, 0));
	expect_completion_length(client->request_evd, 5, length);
	expect_same_bytes(iov, shapes[_i].nrecv, &remote_iov, 1, length);
	if (shapes[_i].nrecv == 1)
		ck_assert_int_eq(client->memory[length], 0);
	pair_close(&pair);
}
END_TEST

#define MANY 8

static const struct {
	const char *why;
	bool thread_safe;
	unsigned flags;
	DAT_COUNT empty; /* this segment has no bytes; -1: none */
} many_segments[] = {
	{ "plain", false, 0, -1 },
	{ "a fence", false, FENCE, -1 },
	{ "thread-safe", true, 0, -1 },
	{ "thread-safe, a fence", true, FENCE, -1 },
	{ "the first is empty", false, 0, 0 },
	{ "the second is empty", false, 0, 1 },
	{ "the third is empty", false, FENCE, 2 },
	{ "the fifth is empty", true, 0, 4 },
	{ "the last is empty", false, 0, MANY - 1 },
};

/* The client moves @iov there and back again, between 0 and all bytes of it. */
static void move_segments(enum transfer transfer, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov,
			  DAT_VLEN length, unsigned flags)
{
	const DAT_RMR_TRIPLET remote = target(server, 1000, length);
	DAT_LMR_TRIPLET peer = segment(server, 1000, length);

	post_fill(client, (char)nseg);
	post_fill(server, (char)(nseg + 1));
	if (transfer == SEND)
		ck_dat(ep_post_recv(server->ep, 1, &peer, cookie_of(2), 0));
	ck_dat(post_transfer(transfer, client->ep, nseg, iov, &remote, flags));
	expect_completion_length(client->request_evd, 1, length);
	if (transfer == SEND)
		expect_completion_length(server->recv_evd, 2, length);
	expect_same_bytes(iov, (unsigned)nseg, &peer, 1, length);
	post_fill(server, (char)(nseg + 2));
	ck_dat(ep_post_recv(client->ep, nseg, iov, cookie_of(3), flags));
	ck_dat(ep_post_send(server->ep, 1, &peer, cookie_of(4), 0));
	expect_completion_length(client->recv_evd, 3, length);
	expect_completion_length(server->request_evd, 4, length);
	expect_same_bytes(iov, (unsigned)nseg, &peer, 1, length);
}

/* The number and the flags decide which instance of the body is called. */
START_TEST(any_number_of_segments_is_one_transfer)
{
	static const enum transfer transfers[] = { SEND, READ, WRITE };
	DAT_LMR_TRIPLET iov[MANY];
	static DAT_EP_ATTR attr;

	side_open(server, "fake1");
	attr = ep_attr_default(server);
	attr.max_recv_iov = attr.max_request_iov = MANY;
	attr.max_rdma_read_iov = attr.max_rdma_write_iov = MANY;
	client->ep_attr = &attr;
	client->thread_safe = many_segments[_i].thread_safe;
	pair_connect(&pair);
	for (DAT_COUNT nseg = 1; nseg <= MANY; nseg++) {
		DAT_VLEN length = 0;

		for (int i = 0; i < nseg; i++) {
			iov[i] = segment(client, (unsigned)i * 100,
					 i == many_segments[_i].empty ? 0 : (unsigned)i + 1);
			length += iov[i].segment_length;
		}
		for (int n = 0; n < COUNT(transfers); n++)
			move_segments(transfers[n], nseg, iov, length, many_segments[_i].flags);
	}
	pair_close(&pair);
}
END_TEST

static const DAT_VLEN remote_lengths[] = { 0, 1, 63, 65, 1ULL << 40, UINT64_MAX };

/* The local segments decide how much is moved. */
START_TEST(the_remote_length_is_not_looked_at)
{
	DAT_LMR_TRIPLET iov[] = { segment(client, 0, 24), segment(client, 24, 40) };
	DAT_LMR_TRIPLET whole = segment(client, 0, 64), remote_iov = segment(server, 100, 64);
	DAT_RMR_TRIPLET remote = target(server, 100, remote_lengths[_i]);

	for (DAT_COUNT nseg = 1; nseg <= 2; nseg++) {
		post_fill(client, (char)nseg);
		ck_dat(ep_post_rdma_write(client->ep, nseg, nseg == 1 ? &whole : iov, cookie_of(5),
					  &remote, 0));
		expect_completion_length(client->request_evd, 5, 64);
		expect_same_bytes(&whole, 1, &remote_iov, 1, 64);
		ck_assert_int_eq(server->memory[164], 0);
		memset(client->memory, 0, SIDE_MEMORY);
		ck_dat(ep_post_rdma_read(client->ep, nseg, nseg == 1 ? &whole : iov, cookie_of(6),
					 &remote, 0));
		expect_completion_length(client->request_evd, 6, 64);
		expect_same_bytes(&whole, 1, &remote_iov, 1, 64);
		ck_assert_int_eq(client->memory[64], 0);
	}
	pair_close(&pair);
}
END_TEST

static const struct {
	const char *why;
	DAT_VLEN lengths[3];
} wrapping_lengths[] = {
#if DAT_EDITION == 1
	{ "the sum is 0", { 1ULL << 63, 1ULL << 63, 0 } },
	{ "the sum is 8", { 1ULL << 63, 1ULL << 63, 8 } },
	{ "the sum wraps with the last segment", { 8, UINT64_MAX - 8, 9 } },
	{ "the sum wraps twice", { UINT64_MAX, UINT64_MAX, 10 } },
	{ "the sum is the largest number", { UINT64_MAX, 0, 0 } },
#else
	{ "32 bits wrap to 0", { 1U << 31, 1U << 31, 0 } },
	{ "32 bits wrap to 8", { 1U << 31, 1U << 31, 8 } },
	{ "32 bits wrap with the last segment", { 8, UINT32_MAX - 8, 9 } },
	{ "32 bits wrap twice", { UINT32_MAX, UINT32_MAX, 10 } },
	{ "the largest sum", { UINT32_MAX, UINT32_MAX, UINT32_MAX } },
#endif
};

START_TEST(segment_lengths_that_wrap_are_refused)
{
	static const enum transfer transfers[] = { SEND, READ, WRITE };
	const DAT_RMR_TRIPLET remote = target(server, 0, 8);
	DAT_LMR_TRIPLET iov[3];

	for (int n = 0; n < COUNT(iov); n++)
		iov[n] = segment(client, 0, wrapping_lengths[_i].lengths[n]);
	for (int n = 0; n < COUNT(transfers); n++)
		ck_dat_is(post_transfer(transfers[n], client->ep, 3, iov, &remote, 0), BAD_ARG(3));
	ck_assert_uint_eq(fake_outstanding(), 0);
	expect_idle(true, true);
	expect_no_event(client->request_evd);
	pair_close(&pair);
}
END_TEST

#define GIBIBYTES(n) ((DAT_VLEN)(n) << 30)

/* The device would take more than 32 bits can count. */
static const struct {
	const char *why;
	DAT_COUNT nseg;
	DAT_VLEN lengths[4];
} long_requests[] = {
#if DAT_EDITION == 1
	{ "4 GiB", 1, { GIBIBYTES(4) } },
	{ "the lower half is 8", 1, { GIBIBYTES(4) + 8 } },
	{ "the lower half is 8", 1, { GIBIBYTES(1024) + 8 } },
	{ "the largest number", 1, { UINT64_MAX } },
	{ "4 GiB in the first segment", 2, { GIBIBYTES(4), 8 } },
	{ "4 GiB in the last segment", 2, { 8, GIBIBYTES(4) } },
	{ "the sum wraps to 0", 2, { GIBIBYTES(1024), -GIBIBYTES(1024) } },
	{ "the sum wraps to 8", 2, { 1ULL << 63, (1ULL << 63) + 8 } },
	{ "4 GiB among four segments", 4, { 8, 0, GIBIBYTES(4), 8 } },
	{ "the sum of four wraps to 0", 4, { 1ULL << 62, 1ULL << 62, 1ULL << 62, 1ULL << 62 } },
	{ "the sum wraps with the last segment", 4, { 8, 8, 8, UINT64_MAX - 15 } },
#endif
	{ "the sum is 4 GiB", 2, { GIBIBYTES(2), GIBIBYTES(2) } },
	{ "the sum is 4 GiB and 8", 2, { UINT32_MAX, 9 } },
	{ "the sum of four is 4 GiB",
	  4,
	  { GIBIBYTES(1), GIBIBYTES(1), GIBIBYTES(1), GIBIBYTES(1) } },
};

/* None is cut to 32 bits, and no sum wraps, on a thread-safe IA or another, by any flags. */
START_TEST(a_request_of_4_gib_or_more_is_refused)
{
	static const enum transfer transfers[] = { SEND, READ, WRITE };
	static const unsigned flags[] = { 0, SUPPRESS, FENCE, EVD_THRESHOLD };
	DAT_IA_ATTR attr;
	DAT_RMR_TRIPLET remote;
	DAT_LMR_TRIPLET iov[4];

	fake_attr()->max_message = UINT64_MAX;
	client->thread_safe = _i % 2;
	pair_connect(&pair);
	ck_dat(ia_query(client->ia, NULL, DAT_IA_FIELD_ALL, &attr, 0, NULL));
	ck_assert_uint_eq(attr.max_message_size, UINT32_MAX);
	ck_assert_uint_eq(attr.max_rdma_size, UINT32_MAX);
	remote = target(server, 0, 8);
	for (int n = 0; n < COUNT(iov); n++)
		iov[n] = segment(client, 0, long_requests[_i / 2].lengths[n]);
	for (int n = 0; n < COUNT(transfers); n++)
		for (int f = 0; f < COUNT(flags); f++)
			ck_dat_is(post_transfer(transfers[n], client->ep,
						long_requests[_i / 2].nseg, iov, &remote, flags[f]),
				  BAD_ARG(3));
	ck_assert_uint_eq(fake_outstanding(), 0);
	expect_idle(true, true);
	expect_no_event(client->request_evd);
	pair_close(&pair);
}
END_TEST

/* A buffer may be longer than any message. */
static const struct {
	const char *why;
	DAT_COUNT nseg;
	DAT_VLEN lengths[4];
} long_receives[] = {
#if DAT_EDITION == 1
	{ "4 GiB", 1, { GIBIBYTES(4) } },
	{ "the lower half is 8", 1, { GIBIBYTES(4) + 8 } },
	{ "4 GiB in the first segment", 2, { GIBIBYTES(4), 8 } },
	{ "4 GiB in the last segment", 2, { 8, GIBIBYTES(4) } },
	{ "the sum is 8 GiB", 2, { GIBIBYTES(4), GIBIBYTES(4) } },
	{ "4 GiB among four segments", 4, { 8, 0, GIBIBYTES(4), 8 } },
	{ "the sum of four is 16 GiB",
	  4,
	  { GIBIBYTES(4), GIBIBYTES(4), GIBIBYTES(4), GIBIBYTES(4) } },
#else
	{ "the longest segment", 1, { UINT32_MAX } },
	{ "the sum of four is almost 16 GiB",
	  4,
	  { UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX } },
#endif
	{ "the sum is 4 GiB", 2, { GIBIBYTES(2), GIBIBYTES(2) } },
};

/* All segments are in one region, which takes addresses but no memory. */
START_TEST(a_receive_of_4_gib_or_more_takes_a_message)
{
	const size_t size = (size_t)(GIBIBYTES(4) + 4096);
	DAT_REGION_DESCRIPTION region;
	DAT_LMR_TRIPLET iov[4];
	DAT_LMR_HANDLE lmr;
	char *at;

	client->thread_safe = _i % 2;
	pair_connect(&pair);
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		  -1, 0);
	ck_assert_ptr_ne(at, MAP_FAILED);
	region.for_va = at;
	for (int n = 0; n < COUNT(iov); n++)
		iov[n] = (DAT_LMR_TRIPLET){
			.virtual_address = (uintptr_t)at,
			.segment_length = (seg_length)long_receives[_i / 2].lengths[n],
		};
	ck_dat(lmr_create_va(client->ia, DAT_MEM_TYPE_VIRTUAL, region, size, client->pz,
			     DAT_MEM_PRIV_ALL_FLAG, &lmr, &iov[0].lmr_context, NULL, NULL, NULL));
	for (int n = 1; n < COUNT(iov); n++)
		iov[n].lmr_context = iov[0].lmr_context;
	ck_dat(ep_post_recv(client->ep, long_receives[_i / 2].nseg, iov, cookie_of(3), 0));
	post_fill(server, 1);
	post_send(server, 4, 0, 64, 0);
	expect_completion_length(client->recv_evd, 3, 64);
	expect_dto(server->request_evd, 4, DAT_DTO_SUCCESS);
	if (long_receives[_i / 2].lengths[0] == 8)
		ck_assert_mem_eq(at, server->memory + 8, 56);
	else
		ck_assert_mem_eq(at, server->memory, 64);
	munmap(at, size);
	pair_close_abrupt(&pair);
}
END_TEST

/* No memory is that long. Sums of DAT 2.0 do not wrap. */
START_TEST(receive_lengths_that_wrap_are_refused)
{
	static const DAT_VLEN wraps[][3] = {
		{ 1ULL << 63, 1ULL << 63, 0 },
		{ 1ULL << 63, 1ULL << 63, 8 },
		{ 8, UINT64_MAX - 8, 9 },
		{ UINT64_MAX, UINT64_MAX, 10 },
	};
	DAT_LMR_TRIPLET iov[3];

	for (int n = 0; n < COUNT(iov); n++)
		iov[n] = segment(client, 0, wraps[_i][n]);
	ck_dat_is(post_transfer(RECV, client->ep, 3, iov, NULL, 0), BAD_ARG(3));
	ck_assert_uint_eq(fake_outstanding(), 0);
	expect_idle(true, true);
	expect_no_event(client->recv_evd);
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

/* ---- limits ---- */

START_TEST(posts_beyond_the_limits_are_refused)
{
	post_connect_with_limits(3, 5);
	expect_idle(true, true);
	for (unsigned n = 0; n < 3; n++)
		post_recv(client, n, 0, 8, 0);
	ck_dat_is(try_recv(client, 3, 0, 8, 0), FULL);
	for (unsigned n = 0; n < 5; n++)
		post_send(client, n, 0, 8, 0);
	ck_dat_is(try_send(client, 5, 0, 8, 0), FULL);
	expect_idle(false, false);
	ck_assert_uint_eq(fake_outstanding(), 8); /* the refused posts did not reach the device */
	post_recv(server, 0, 0, 64, 0);
	expect_dto(client->request_evd, 0, DAT_DTO_SUCCESS);
	post_send(client, 5, 0, 8, 0);
	ck_dat_is(try_send(client, 6, 0, 8, 0), FULL);
	pair_close(&pair);
}
END_TEST

#define MEBIBYTE (1 << 20)

/* A region of @size zeroed bytes, which the test does not free. */
static void create_large_region(const struct side *side, size_t size, DAT_LMR_TRIPLET *local,
				DAT_RMR_TRIPLET *remote)
{
	DAT_REGION_DESCRIPTION region = { .for_va = calloc(1, size) };
	DAT_LMR_HANDLE lmr;

	ck_assert_ptr_nonnull(region.for_va);
	*local = (DAT_LMR_TRIPLET){ .virtual_address = (uintptr_t)region.for_va,
				    .segment_length = size };
	*remote = (DAT_RMR_TRIPLET){ .REMOTE_ADDRESS = (uintptr_t)region.for_va };
	ck_dat(lmr_create_va(side->ia, DAT_MEM_TYPE_VIRTUAL, region, size, side->pz,
			     DAT_MEM_PRIV_ALL_FLAG, &lmr, &local->lmr_context, &remote->rmr_context,
			     NULL, NULL));
}

/* What the endpoint asked for when it was created is no limit of a post. */
START_TEST(a_post_is_limited_by_the_device_only)
{
	static DAT_EP_ATTR attr;
	DAT_LMR_TRIPLET local, peer;
	DAT_RMR_TRIPLET unused, remote;
	char *bytes, *peer_bytes;

	fake_attr()->max_message = MEBIBYTE;
	side_open(server, "fake1");
	attr = ep_attr_default(server);
	attr.max_message_size = attr.max_rdma_size = 65536;
	client->ep_attr = &attr;
	pair_connect(&pair);
	create_large_region(client, MEBIBYTE + 1, &local, &unused);
	create_large_region(server, MEBIBYTE, &peer, &remote);
	bytes = (char *)(uintptr_t)local.virtual_address;
	peer_bytes = (char *)(uintptr_t)peer.virtual_address;
	for (int transfer = SEND; transfer <= WRITE; transfer++) {
		if (transfer == RECV)
			continue;
		local.segment_length = MEBIBYTE + 1;
		ck_dat_is(post_transfer((enum transfer)transfer, client->ep, 1, &local, &remote, 0),
			  BAD_ARG(3));
		local.segment_length = MEBIBYTE;
		(transfer == READ ? peer_bytes : bytes)[MEBIBYTE - 1] = (char)(transfer + 1);
		ck_dat(ep_post_recv(server->ep, 1, &peer, cookie_of(2), 0));
		ck_dat(post_transfer((enum transfer)transfer, client->ep, 1, &local, &remote, 0));
		expect_completion_length(client->request_evd, 1, MEBIBYTE);
		ck_assert_int_eq(bytes[MEBIBYTE - 1], transfer + 1);
		ck_assert_int_eq(peer_bytes[MEBIBYTE - 1], transfer + 1);
	}
	free(bytes);
	free(peer_bytes);
	pair_close_abrupt(&pair);
}
END_TEST

/* A post that finds no slot polls for completions that the consumer did not dequeue yet. */
START_TEST(a_post_to_a_full_ring_polls_first)
{
	post_connect_with_limits(2, 4);
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

START_TEST(ep_recv_query_counts_outstanding_receives)
{
	DAT_COUNT buffers = -1, span = -1;

	post_connect_with_limits(4, 4);
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
	expect_idle(false, true);
	pair_close(&pair);
}
END_TEST

/* ---- suppressed requests ---- */

static const unsigned sizes[] = { 1, 2, 3, 4, 16, 100 };

/* There are no events, and slots become free. */
START_TEST(suppressing_every_request_never_stalls)
{
	unsigned total = 5 * sizes[_i] + 3;

	post_connect_with_limits(1, (DAT_COUNT)sizes[_i]);
	for (unsigned n = 0; n < total; n++) {
		post_recv(server, n, 0, 64, 0);
		post_send(client, n, 0, 8, SUPPRESS);
		expect_dto(server->recv_evd, n, DAT_DTO_SUCCESS);
	}
	expect_no_event(client->request_evd);
	pair_close(&pair);
}
END_TEST

/* The request in the last free slot is signalled, so the slots are free as soon as it completes. */
START_TEST(a_ring_full_of_suppressed_requests_becomes_free)
{
	post_connect_with_limits(1, (DAT_COUNT)sizes[_i]);
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

/*
 * Just those of a run of suppressed requests that were to be signalled are refused: by the device,
 * or because they are too long.
 */
START_TEST(refused_requests_do_not_stall_a_run)
{
	unsigned posted = 0, tried = 0;

	post_connect_with_limits(1, 8);
	fake_hold(true);
	for (unsigned n = 0; n < 8; n++)
		post_recv(server, n, 0, 64, 0);
	while (posted < 8) {
		if (tried++ % 4 < 3) {
			post_send(client, posted++, 0, 8, SUPPRESS);
			continue;
		}
		if (_i == 0)
			fake_fail("post_send", ENOMEM, 1);
		ck_dat_is(try_send(client, 0, 0, _i ? SIZE_MAX : 8, SUPPRESS),
			  _i ? BAD_ARG(3) : FULL);
	}
	ck_dat_is(try_send(client, 8, 0, 8, SUPPRESS), FULL);
	fake_hold(false);
	for (unsigned n = 0; n < 8; n++)
		expect_dto(server->recv_evd, n, DAT_DTO_SUCCESS);
	post_recv(server, 8, 0, 64, 0);
	post_send(client, 8, 0, 8, SUPPRESS);
	expect_no_event(client->request_evd);
	pair_close(&pair);
}
END_TEST

START_TEST(a_success_covers_the_suppressed_requests_before_it)
{
	post_connect_with_limits(1, 8);
	for (unsigned n = 0; n < 4; n++)
		post_recv(server, n, 0, 64, 0);
	for (unsigned n = 0; n < 3; n++)
		post_send(client, n, 0, 8, SUPPRESS);
	expect_no_event(client->request_evd);
	expect_idle(true, false); /* no completion covers them yet */
	post_send(client, 3, 0, 8, 0);
	expect_dto(client->request_evd, 3, DAT_DTO_SUCCESS);
	expect_idle(true, true);
	expect_no_event(client->request_evd);
	pair_close(&pair);
}
END_TEST

START_TEST(suppressed_requests_are_signalled_if_the_device_needs_it)
{
	fake_attr()->caps |= TP_CAP_SIGNAL_ALL;
	post_connect_with_limits(1, 8);
	post_recv(server, 0, 0, 64, 0);
	post_send(client, 0, 0, 8, SUPPRESS);
	ck_assert_uint_eq(fake_seen().post_flags, TP_POST_SIGNAL);
	expect_no_event(client->request_evd); /* the completion is internal */
	expect_idle(true, true);
	pair_close(&pair);
}
END_TEST

START_TEST(internal_completions_do_not_wake_the_waiter)
{
	struct waiter waiter = { .timeout = SECONDS(1), .threshold = 1 };

	post_connect_with_limits(1, 4);
	fake_clock_auto(false);
	waiter.evd = client->request_evd;
	waiter_start(&waiter);
	for (unsigned n = 0; n < 12; n++) {
		post_recv(server, n, 0, 64, 0);
		post_send(client, n, 0, 8, SUPPRESS);
		fake_wait_idle(1);
		ck_dat(evd_wait(server->recv_evd, 0, 1, &waiter.event, &waiter.nmore));
	}
	fake_clock_advance(1000000000);
	ck_dat_is(waiter_join(&waiter), DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0));
	fake_clock_auto(true);
	pair_close(&pair);
}
END_TEST

/* A dequeue or a wait returns the next event, or none, but no internal completion. */
START_TEST(internal_completions_are_no_events)
{
	DAT_EVENT event;
	DAT_COUNT nmore;

	post_connect_with_limits(1, 8);
	for (uint64_t n = 0; n < 16; n++)
		post_recv(server, n, 0, 64, 0);
	for (unsigned n = 0; n < 5; n++) /* the fourth completes internally */
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
	expect_idle(true, true);
	pair_close(&pair);
}
END_TEST

START_TEST(a_failed_suppressed_request_is_reported)
{
	post_connect_with_limits(1, 8);
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

/* ---- memory faults ---- */

static DAT_LMR_CONTEXT post_create_lmr(const struct side *side, DAT_PZ_HANDLE pz, unsigned priv,
				       DAT_RMR_CONTEXT *rmr_context)
{
	DAT_REGION_DESCRIPTION region = { .for_va = side->memory };
	DAT_LMR_CONTEXT lmr_context;
	DAT_LMR_HANDLE lmr;

	ck_dat(lmr_create_va(side->ia, DAT_MEM_TYPE_VIRTUAL, region, SIDE_MEMORY, pz, priv, &lmr,
			     &lmr_context, rmr_context, NULL, NULL));
	return lmr_context;
}

static const struct {
	const char *why;
	enum transfer transfer;
	bool at_server; /* the fault is in the server's receive or remote segment */
	unsigned priv;	/* of the faulty region; 0: the region of the side */
	bool other_pz;	/* the faulty region is in another protection zone */
	size_t offset, length;
	uint32_t context_change; /* bits of the faulty context that are inverted */
	DAT_DTO_COMPLETION_STATUS at_requester, at_receiver;
} memory_faults[] = {
	{ "unknown context", SEND, false, 0, false, 0, 64, 0x100000, DAT_DTO_ERR_LOCAL_PROTECTION,
	  DAT_DTO_SUCCESS },
	{ "past the end of the region", SEND, false, 0, false, SIDE_MEMORY - 63, 64, 0,
	  DAT_DTO_ERR_LOCAL_PROTECTION, DAT_DTO_SUCCESS },
	{ "another protection zone", SEND, false, DAT_MEM_PRIV_ALL_FLAG, true, 0, 64, 0,
	  DAT_DTO_ERR_LOCAL_PROTECTION, DAT_DTO_SUCCESS },
	{ "unknown context", RECV, true, 0, false, 0, 64, 0x100000, DAT_DTO_ERR_REMOTE_RESPONDER,
	  DAT_DTO_ERR_LOCAL_PROTECTION },
	{ "past the end of the region", RECV, true, 0, false, SIDE_MEMORY - 63, 64, 0,
	  DAT_DTO_ERR_REMOTE_RESPONDER, DAT_DTO_ERR_LOCAL_PROTECTION },
	{ "no local write privilege", RECV, true, DAT_MEM_PRIV_READ_FLAG, false, 0, 64, 0,
	  DAT_DTO_ERR_REMOTE_RESPONDER, DAT_DTO_ERR_LOCAL_PROTECTION },
	{ "receive too short", RECV, true, 0, false, 0, 63, 0, DAT_DTO_ERR_REMOTE_RESPONDER,
	  DAT_DTO_ERR_LOCAL_LENGTH },
	{ "unknown context", WRITE, true, 0, false, 0, 64, 0x100000, DAT_DTO_ERR_REMOTE_ACCESS,
	  DAT_DTO_SUCCESS },
	{ "past the end of the region", WRITE, true, 0, false, SIDE_MEMORY - 63, 64, 0,
	  DAT_DTO_ERR_REMOTE_ACCESS, DAT_DTO_SUCCESS },
	{ "no remote write privilege", WRITE, true, DAT_MEM_PRIV_REMOTE_READ_FLAG, false, 0, 64, 0,
	  DAT_DTO_ERR_REMOTE_ACCESS, DAT_DTO_SUCCESS },
	{ "another protection zone", WRITE, true, DAT_MEM_PRIV_ALL_FLAG, true, 0, 64, 0,
	  DAT_DTO_ERR_REMOTE_ACCESS, DAT_DTO_SUCCESS },
	{ "no local write privilege", READ, false, DAT_MEM_PRIV_READ_FLAG, false, 0, 64, 0,
	  DAT_DTO_ERR_LOCAL_PROTECTION, DAT_DTO_SUCCESS },
	{ "no remote read privilege", READ, true, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, false, 0, 64, 0,
	  DAT_DTO_ERR_REMOTE_ACCESS, DAT_DTO_SUCCESS },
	{ "past the end of the region", READ, true, 0, false, SIDE_MEMORY - 63, 64, 0,
	  DAT_DTO_ERR_REMOTE_ACCESS, DAT_DTO_SUCCESS },
};

START_TEST(a_memory_fault_breaks_the_connection)
{
	const struct side *at = memory_faults[_i].at_server ? server : client;
	DAT_LMR_TRIPLET good = segment(client, 0, 64),
			bad = segment(at, memory_faults[_i].offset, memory_faults[_i].length);
	DAT_RMR_TRIPLET remote = target(server, 0, 64);
	DAT_RMR_CONTEXT rmr_context = at->rmr_context;
	DAT_PZ_HANDLE pz = at->pz;

	if (memory_faults[_i].other_pz)
		ck_dat(pz_create(at->ia, &pz));
	if (memory_faults[_i].priv)
		bad.lmr_context = post_create_lmr(at, pz, memory_faults[_i].priv, &rmr_context);
	bad.lmr_context ^= memory_faults[_i].context_change;
	if (memory_faults[_i].at_server) {
		remote.rmr_context = rmr_context ^ memory_faults[_i].context_change;
		remote.REMOTE_ADDRESS += memory_faults[_i].offset;
	}
	if (memory_faults[_i].transfer == RECV)
		ck_dat(ep_post_recv(server->ep, 1, &bad, cookie_of(2), 0));
	ck_dat(post_transfer(memory_faults[_i].transfer == RECV ? SEND : memory_faults[_i].transfer,
			     client->ep, 1, memory_faults[_i].at_server ? &good : &bad, &remote,
			     0));
	expect_dto(client->request_evd, 1, memory_faults[_i].at_requester);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
	if (memory_faults[_i].transfer == RECV)
		expect_dto(server->recv_evd, 2, memory_faults[_i].at_receiver);
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_DISCONNECTED);
	ck_assert_int_eq(server->memory[0], 0);
}
END_TEST

/* ---- the device refuses a post ---- */

static const struct {
	enum transfer transfer;
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

START_TEST(a_post_refused_by_the_device_changes_nothing)
{
	DAT_LMR_TRIPLET iov;
	DAT_RMR_TRIPLET remote;

	post_connect_with_limits(2, 2);
	iov = segment(client, 0, 8);
	remote = target(server, 0, 8);
	post_recv(server, 9, 0, 64, 0);
	for (int n = 0; n < 5; n++) { /* no slot is leaked */
		fake_fail(device_refusals[_i].call, device_refusals[_i].err, 1);
		ck_dat_is(post_transfer(device_refusals[_i].transfer, client->ep, 1, &iov, &remote,
					0),
			  device_refusals[_i].want);
		expect_idle(true, true);
	}
	ck_dat(post_transfer(device_refusals[_i].transfer, client->ep, 1, &iov, &remote, 0));
	expect_no_event(device_refusals[_i].transfer == RECV ? client->request_evd
							     : client->recv_evd);
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_CONNECTED);
	pair_close(&pair);
}
END_TEST

/* ---- after a disconnect ---- */

static const unsigned quirks[] = {
	0,
	FAKE_FORGETS_RECV,
	FAKE_FORGETS_RECV | FAKE_REFLUSH,
	FAKE_REFUSES_RECV | FAKE_REFUSES_SEND,
	FAKE_FORGETS_RECV | FAKE_SWALLOWS_SEND,
	FAKE_LATE_FLUSH,
	FAKE_ARM_ANY | FAKE_DROPS_CQES,
};

/* The quirks are the ways in which a device treats such a post. */
START_TEST(posts_after_the_disconnect_are_flushed)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 8);
	DAT_RMR_TRIPLET remote = target(server, 0, 8);

	fake_quirks(quirks[_i]);
	side_disconnect(client);
	for (unsigned n = 0; n < 100; n++) { /* more than the limits of the endpoint */
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
	expect_idle(true, true);
}
END_TEST

/*
 * A receive that is posted while the connection ends is queued, whatever the device says of it, and
 * flushed at the end; unless a resource is short.
 */
static const struct {
	int err; /* of the post; 0: as the quirk has it */
	DAT_CLOSE_FLAGS how;
	DAT_RETURN want;
} ending_receives[] = {
	{ 0, DAT_CLOSE_ABRUPT_FLAG, DAT_SUCCESS },
	{ EINVAL, DAT_CLOSE_ABRUPT_FLAG, DAT_SUCCESS },
	{ EIO, DAT_CLOSE_ABRUPT_FLAG, DAT_SUCCESS },
	{ ENOTCONN, DAT_CLOSE_ABRUPT_FLAG, DAT_SUCCESS },
	{ ENOMEM, DAT_CLOSE_ABRUPT_FLAG, FULL },
	{ EINVAL, DAT_CLOSE_GRACEFUL_FLAG, DAT_SUCCESS },
	{ ENOMEM, DAT_CLOSE_GRACEFUL_FLAG, FULL },
};

START_TEST(a_receive_posted_while_the_connection_ends_is_flushed)
{
	DAT_RETURN want = ending_receives[_i / 2].want;
	int err = ending_receives[_i / 2].err;

	client->thread_safe = _i % 2;
	pair_connect(&pair);
	fake_quirks(FAKE_LATE_FLUSH | FAKE_REFUSES_RECV);
	fake_hold(true);
	fake_clock_auto(false);
	post_recv(client, 1, 0, 8, 0);
	post_send(client, 2, 0, 8, 0);
	ck_dat(ep_disconnect(client->ep, ending_receives[_i / 2].how));
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_DISCONNECT_PENDING);
	if (err)
		fake_fail("post_recv", err, 1);
	ck_dat_is(try_recv(client, 3, 0, 8, 0), want);
	fake_clock_auto(true);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_dto(client->recv_evd, 1, DAT_DTO_ERR_FLUSHED);
	if (want == DAT_SUCCESS)
		expect_dto(client->recv_evd, 3, DAT_DTO_ERR_FLUSHED);
	expect_no_event(client->recv_evd);
	expect_dto(client->request_evd, 2, DAT_DTO_ERR_FLUSHED);
	expect_idle(true, true);
	pair_close_abrupt(&pair);
}
END_TEST

static void reset_and_post_recv(void *unused)
{
	(void)unused;
	ck_dat(ep_reset(client->ep));
	post_recv(client, 2, 0, 8, 0);
}

/* Another thread resets the endpoint before the flush, and what it posts then stays. */
START_TEST(a_flush_spares_what_was_posted_after_a_reset)
{
	DAT_COUNT posted;

	client->thread_safe = true;
	pair_connect(&pair);
	side_disconnect(client);
	race_call(RACE_FLUSH, client->ep, reset_and_post_recv, NULL);
	if (_i)
		post_send(client, 1, 0, 8, 0);
	else
		post_recv(client, 1, 0, 8, 0);
	ck_assert(race_happened(RACE_FLUSH));
	expect_dto(_i ? client->request_evd : client->recv_evd, 1, DAT_DTO_ERR_FLUSHED);
	expect_no_event(client->recv_evd);
	ck_dat(ep_recv_query(client->ep, &posted, NULL));
	ck_assert_int_eq(posted, 1);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- posts of one thread, while another ends the connection and resets the endpoint ---- */

static void end_reset_and_post_recv(void *unused)
{
	side_disconnect(client);
	reset_and_post_recv(unused);
}

enum { SEGMENTS_OF_MANY = 5 };

static DAT_RETURN post_write(DAT_COUNT nseg)
{
	const DAT_LMR_TRIPLET one = segment(client, 0, 8);
	DAT_LMR_TRIPLET iov[SEGMENTS_OF_MANY] = { one, one, one, one, one };
	const DAT_RMR_TRIPLET remote = target(server, 0, 64);

	return ep_post_rdma_write(client->ep, nseg, iov, cookie_of(1), &remote, 0);
}

static DAT_RETURN post_read(void)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 8);
	const DAT_RMR_TRIPLET remote = target(server, 0, 8);

	return ep_post_rdma_read(client->ep, 1, &iov, cookie_of(1), &remote, 0);
}

static DAT_RETURN bind_nothing(void)
{
	DAT_LMR_TRIPLET nothing = { 0 };
	DAT_RMR_CONTEXT context;
	DAT_RMR_HANDLE rmr;
	DAT_RETURN ret;

	ck_dat(rmr_create(client->pz, &rmr));
	ret = rmr_bind_va(rmr, &nothing, DAT_MEM_PRIV_NONE_FLAG, client->ep, cookie_of(1), 0,
			  &context);
	ck_dat(rmr_free(rmr));
	return ret;
}

static DAT_RETURN post_request(int kind)
{
	switch (kind) {
	case 0:
		return try_send(client, 1, 0, 8, 0);
	case 1:
		return try_send(client, 1, 0, 0, 0); /* on the slow path */
	case 2:
		return post_write(1);
	case 3:
		return post_write(SEGMENTS_OF_MANY);
	case 4:
		return post_read();
	default:
		return bind_nothing();
	}
}

#define REQUESTS_OF_A_LATE_THREAD 6

/* Its thread has found the endpoint connected. */
START_TEST(a_request_that_meets_a_reset_is_refused)
{
	DAT_EP_ATTR attr;

	side_open(server, "fake1");
	attr = ep_attr_default(server);
	attr.max_rdma_write_iov = SEGMENTS_OF_MANY;
	client->ep_attr = &attr;
	client->thread_safe = true;
	pair_connect(&pair);
	race_call(RACE_POST, client->ep, end_reset_and_post_recv, NULL);
	ck_dat_is(post_request(_i), BAD_STATE(EP_UNCONNECTED));
	ck_assert(race_happened(RACE_POST));
	expect_no_event(client->request_evd);
	expect_idle(false, true);
	pair_close_abrupt(&pair);
}
END_TEST

static void end_only(void *unused)
{
	(void)unused;
	side_disconnect(client);
}

/* The client's endpoint is reset already. */
static void connect_again(void)
{
	side_disconnect(server);
	ck_dat(ep_reset(server->ep));
	connect_eps(client, client->ep, server, server->ep);
}

/* The bits are dat_ep_modify's. */
static void end_modify_and_connect(void *mask)
{
	DAT_EP_PARAM param = { .request_evd_handle = DAT_HANDLE_NULL };

	end_only(NULL);
	ck_dat(pz_create(client->ia, &param.pz_handle));
	ck_dat(ep_reset(client->ep));
	ck_dat(ep_modify(client->ep, (DAT_EP_PARAM_MASK)(uintptr_t)mask, &param));
	connect_again();
}

/* What another thread does before a bind takes the lock of posts, and what becomes of that. */
static const struct {
	void (*act)(void *);
	DAT_EP_PARAM_MASK mask;
	DAT_RETURN want;
} bind_races[] = {
	{ end_only, 0, DAT_SUCCESS },
	{ end_reset_and_post_recv, 0, BAD_STATE(EP_UNCONNECTED) },
	{ end_modify_and_connect, DAT_EP_FIELD_PZ_HANDLE,
	  DAT_ERROR(DAT_PROTECTION_VIOLATION, DAT_NO_SUBTYPE) },
	{ end_modify_and_connect, DAT_EP_FIELD_REQUEST_EVD_HANDLE, BAD_HANDLE(EVD_REQUEST) },
};

START_TEST(a_bind_goes_by_what_the_endpoint_is_by_then)
{
	const DAT_RETURN want = bind_races[_i].want;
	DAT_LMR_TRIPLET range;
	DAT_RMR_CONTEXT context;
	DAT_RMR_HANDLE rmr;

	client->thread_safe = true;
	pair_connect(&pair);
	range = segment(client, 0, 8);
	ck_dat(rmr_create(client->pz, &rmr));
	race_call(RACE_POST, client->ep, bind_races[_i].act,
		  (void *)(uintptr_t)bind_races[_i].mask);
	ck_dat_is(rmr_bind_va(rmr, &range, DAT_MEM_PRIV_REMOTE_READ_FLAG, client->ep, cookie_of(1),
			      0, &context),
		  want);
	ck_assert(race_happened(RACE_POST));
	if (want == DAT_SUCCESS)
		ck_assert_int_eq(expect_event(client->request_evd, DAT_RMR_BIND_COMPLETION_EVENT)
					 .event_data.rmr_completion_event_data.status,
				 (int)DAT_DTO_ERR_FLUSHED);
	expect_no_event(client->request_evd);
	ck_dat(lmr_free(client->lmr)); /* nothing is bound to it */
	ck_dat(rmr_free(rmr));
	pair_close_abrupt(&pair);
}
END_TEST

/* It is one of those before a connect, which a dat_ep_modify moves. */
START_TEST(a_receive_that_meets_a_reset_is_an_early_one)
{
	DAT_EP_PARAM fewer = { .ep_attr = { .max_recv_dtos = 2 } };
	DAT_LMR_TRIPLET iov;
	DAT_COUNT posted;

	client->thread_safe = true;
	pair_connect(&pair);
	iov = segment(client, 0, 8);
	race_call(RACE_POST, client->ep, end_reset_and_post_recv, NULL);
	ck_dat(ep_post_recv(client->ep, _i ? 0 : 1, &iov, cookie_of(1), 0)); /* 0: the slow path */
	ck_assert(race_happened(RACE_POST));
	ck_dat(ep_modify(client->ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, &fewer));
	ck_dat(ep_recv_query(client->ep, &posted, NULL));
	ck_assert_int_eq(posted, 2);
	connect_again();
	post_send(server, 3, 0, 8, 0);
	post_send(server, 4, 0, 0, 0);
	expect_dto(client->recv_evd, 2, DAT_DTO_SUCCESS);
	expect_dto(client->recv_evd, 1, DAT_DTO_SUCCESS);
	pair_close_abrupt(&pair);
}
END_TEST

struct resetter {
	atomic_bool over;
	DAT_RETURN ret;
};

static void *reset_in_thread(void *arg)
{
	struct resetter *resetter = arg;

	resetter->ret = ep_reset(client->ep);
	atomic_store(&resetter->over, true);
	return NULL;
}

static void nothing(void *unused)
{
	(void)unused;
}

static void *post_one(void *is_receive)
{
	if (is_receive)
		post_recv(client, 1, 0, 8, 0);
	else
		post_send(client, 1, 0, 8, 0);
	return NULL;
}

/* The queue pair must be there until then. Slots of posts that are under way are flushed once. */
START_TEST(a_reset_waits_for_a_post_that_is_under_way)
{
	struct resetter resetter = { 0 };
	pthread_t poster, thread;
	struct ep *ep;
	bool gone;

	fake_attr()->caps |= TP_CAP_SIGNAL_ALL; /* else the end of the connection waits for sends */
	client->thread_safe = true;
	pair_connect(&pair);
	ep = client->ep;
	race_hold(RACE_CLAIMED, _i ? &ep->recvs : &ep->sends);
	race_call(RACE_SPIN, _i ? &ep->recv_lock : &ep->send_lock, nothing, NULL);
	race_call(RACE_GONE, ep, nothing, NULL);
	poster = consumer_thread_start(post_one, _i ? client : NULL);
	race_wait_held();
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	while (ep_get_state(ep) != DAT_EP_STATE_DISCONNECTED) /* it waits for that post */
		fake_clock_advance(10000000);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	thread = consumer_thread_start(reset_in_thread, &resetter);
	while (!atomic_load(&resetter.over) && !race_happened(RACE_SPIN))
		sched_yield();
	gone = race_happened(RACE_GONE);
	race_release(NULL);
	consumer_thread_join(poster);
	consumer_thread_join(thread);
	ck_assert(!gone);
	ck_dat(resetter.ret);
	expect_dto(_i ? client->recv_evd : client->request_evd, 1, DAT_DTO_ERR_FLUSHED);
	expect_no_event(client->recv_evd);
	expect_no_event(client->request_evd);
	expect_idle(true, true);
	pair_close_abrupt(&pair);
}
END_TEST

static void post_recv_three(void *unused)
{
	(void)unused;
	post_recv(client, 3, 0, 8, 0);
}

/* A reset has destroyed the queue pair, and makes the next one. */
START_TEST(a_receive_is_flushed_while_there_is_no_queue_pair)
{
	client->thread_safe = true;
	pair_connect(&pair);
	side_disconnect(client);
	race_call(RACE_GATE, client->ep, post_recv_three, NULL);
	ck_dat(ep_reset(client->ep));
	ck_assert(race_happened(RACE_GATE));
	expect_dto(client->recv_evd, 3, DAT_DTO_ERR_FLUSHED);
	expect_idle(true, true);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- while the connection ends, and nobody has asked for that ---- */

static void begin_to_end(bool thread_safe)
{
	client->thread_safe = thread_safe;
	pair_connect(&pair);
	pair_begin_to_end(&pair);
}

/* The device takes the next request, whose completion stands for all before it. */
START_TEST(a_request_without_memory_while_the_connection_ends_is_refused)
{
	begin_to_end(_i);
	fake_fail("post_send", ENOMEM, 1);
	ck_dat_is(try_send(client, 2, 0, 8, 0), FULL);
	post_send(client, 3, 0, 8, 0);
	fake_clock_auto(true);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_dto(client->request_evd, 1, DAT_DTO_ERR_FLUSHED);
	expect_dto(client->request_evd, 3, DAT_DTO_ERR_FLUSHED);
	expect_no_event(client->request_evd);
	expect_idle(true, true);
	pair_close_abrupt(&pair);
}
END_TEST

/* The connection ends, and sends 1 to 4 are flushed. */
static void expect_four_flushed(void)
{
	pair_finish_the_end(&pair);
	for (unsigned n = 1; n <= 4; n++)
		expect_dto(client->request_evd, n, DAT_DTO_ERR_FLUSHED);
	expect_no_event(client->request_evd);
	expect_idle(true, true);
}

/* Those behind it are not given to the device, which might complete them, but flushed, too. */
START_TEST(a_request_that_is_refused_while_the_connection_ends_is_flushed)
{
	const int err = _i / 2 ? EIO : EINVAL;
	unsigned posted;

	begin_to_end(_i % 2);
	posted = fake_calls("post_send");
	fake_fail("post_send", err, 1);
	post_send(client, 2, 0, 8, 0);
	post_send(client, 3, 0, 8, SUPPRESS);
	post_send(client, 4, 0, 8, 0);
	ck_assert_uint_eq(fake_calls("post_send"), posted + 1);
	expect_four_flushed();
	fake_hold(false);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(ep_reset(client->ep));
	ck_dat(ep_reset(server->ep));
	connect_eps(client, client->ep, server, server->ep);
	post_recv(server, 5, 0, 8, 0);
	post_send(client, 5, 0, 0, 0); /* on the slow path */
	expect_dto(client->request_evd, 5, DAT_DTO_SUCCESS);
	expect_dto(server->recv_evd, 5, DAT_DTO_SUCCESS);
	pair_close(&pair);
}
END_TEST

static void post_two_refused(void *posted)
{
	fake_fail("post_send", EINVAL, 1);
	post_send(client, 2, 0, 8, 0);
	post_send(client, 3, 0, 8, SUPPRESS);
	atomic_store((atomic_bool *)posted, true);
}

/*
 * They are posted when the connection ends already, and the marker of the suppressed requests is
 * not posted yet. It would stand for these two, which the device never got.
 */
START_TEST(no_marker_follows_a_request_that_is_refused_while_the_connection_ends)
{
	atomic_bool posted = false;

	client->thread_safe = _i;
	pair_connect(&pair);
	race_call(RACE_GATE, client->ep, post_two_refused, &posted);
	pair_begin_to_end(&pair);
	while (!atomic_load(&posted))
		sched_yield();
	fake_wait_idle(0); /* by now the service thread would have posted a marker */
	post_send(client, 4, 0, 8, 0);
	expect_four_flushed();
	pair_close_abrupt(&pair);
}
END_TEST

/* The same of a bind of a range that is too long for the device's windows. */
START_TEST(a_bind_that_is_refused_while_the_connection_ends_is_flushed)
{
	DAT_LMR_TRIPLET range;
	DAT_RMR_CONTEXT context;
	DAT_RMR_HANDLE rmr;

	begin_to_end(_i);
	range = segment(client, 0, 8192);
	ck_dat(rmr_create(client->pz, &rmr));
	fake_quirks(FAKE_LATE_FLUSH | FAKE_SHORT_WINDOWS);
	ck_dat(rmr_bind_va(rmr, &range, DAT_MEM_PRIV_REMOTE_READ_FLAG, client->ep, cookie_of(2), 0,
			   &context));
	range.segment_length = 8;
	ck_dat(rmr_bind_va(rmr, &range, DAT_MEM_PRIV_REMOTE_READ_FLAG, client->ep, cookie_of(3), 0,
			   &context));
	post_send(client, 4, 0, 8, 0);
	pair_finish_the_end(&pair);
	expect_dto(client->request_evd, 1, DAT_DTO_ERR_FLUSHED);
	expect_event(client->request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
	expect_event(client->request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
	expect_dto(client->request_evd, 4, DAT_DTO_ERR_FLUSHED);
	ck_dat(rmr_free(rmr));
	ck_dat(lmr_free(client->lmr));
	pair_close_abrupt(&pair);
}
END_TEST

/* The device completes requests that were flushed already. */
START_TEST(late_completions_are_dropped)
{
	fake_quirks(FAKE_LATE_FLUSH);
	fake_hold(true);
	for (unsigned n = 0; n < 4; n++) {
		post_send(client, n, 0, 8, n % 2 ? SUPPRESS : 0);
		post_recv(client, n, 0, 8, 0);
	}
	side_disconnect(client);
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

static void *post_many_sends(void *arg)
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

/* On a thread-safe IA: each request completes once, and those of one thread in order. */
START_TEST(threads_may_post_to_one_endpoint)
{
	uint64_t next[2] = { 0, POSTS };
	unsigned received = 0, sent = 0;
	pthread_t threads[2];

	client->thread_safe = true;
	pair_connect(&pair);
	for (unsigned n = 0; n < 16; n++)
		post_recv(server, n, 0, 64, 0);
	for (uintptr_t n = 0; n < 2; n++)
		threads[n] = consumer_thread_start(post_many_sends, (void *)n);
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
		consumer_thread_join(threads[n]);
	expect_no_event(client->request_evd);
	pair_close(&pair);
}
END_TEST

/* One thread posts while another disconnects. */
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

START_TEST(posts_that_race_with_a_disconnect_are_flushed_or_refused)
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
	consumer_thread_join(thread);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	fake_wait_idle(0);
	while (evd_dequeue(client->request_evd, &event) == DAT_SUCCESS) {
		ck_assert_int_eq(event.event_data.dto_completion_event_data.status,
				 DAT_DTO_ERR_FLUSHED);
		flushed++;
	}
	ck_assert_uint_le(flushed, atomic_load(&accepted));
	expect_idle(true, true);
}
END_TEST

/* ---- lines of the log ---- */

static bool no_lock_may_be_held;
static unsigned lines;

void __wrap_log_to(unsigned kind, const char *format, ...);

/* Who writes a line may sleep, and the threads that want a spinlock meanwhile would not. */
void __wrap_log_to(unsigned kind, const char *format, ...)
{
	(void)kind, (void)format;
	if (no_lock_may_be_held)
		assert_no_lock_held();
	lines++;
}

static DAT_SRQ_HANDLE logged_srq;

static DAT_RETURN logged_srq_post(void)
{
	DAT_LMR_TRIPLET iov = segment(server, 0, 8);

	return srq_post_recv(logged_srq, 1, &iov, cookie_of(1));
}

static DAT_RETURN logged_srq_post_slow(void)
{
	DAT_LMR_TRIPLET iov = segment(server, 0, 0);

	return srq_post_recv(logged_srq, 1, &iov, cookie_of(1));
}

static DAT_RETURN logged_send(void)
{
	return try_send(client, 1, 0, 8, 0);
}

static DAT_RETURN logged_send_slow(void)
{
	return try_send(client, 1, 0, 0, 0);
}

static DAT_RETURN logged_recv(void)
{
	return try_recv(client, 1, 0, 8, 0);
}

static DAT_RETURN logged_recv_slow(void)
{
	return try_recv(client, 1, 0, 0, 0);
}

/* Empty segments take the slow path. */
static const struct {
	DAT_RETURN (*post)(void);
	const char *refuses; /* the call of the device; NULL: as many are posted as may be */
} logged_posts[] = {
	{ logged_send, "post_send" },
	{ logged_send_slow, "post_send" },
	{ logged_send, NULL },
	{ logged_recv, "post_recv" },
	{ logged_recv_slow, "post_recv" },
	{ logged_recv, NULL },
	{ logged_srq_post, "srq_post" },
	{ logged_srq_post_slow, "srq_post" },
	{ logged_srq_post, NULL },
	{ logged_srq_post_slow, NULL },
};

/* Each post is made on an IA that is thread-safe, and on one that is not. */
START_TEST(a_refused_post_writes_its_line_without_a_lock)
{
	DAT_SRQ_ATTR attr = { .max_recv_dtos = 2, .max_recv_iov = 1 };

	setenv("DAPL_DBG_TYPE", "0x80", 1);
	client->thread_safe = server->thread_safe = _i % 2;
	post_connect_with_limits(2, 2);
	ck_dat(srq_create(server->ia, server->pz, &attr, &logged_srq));
	fake_hold(true);
	if (logged_posts[_i / 2].refuses)
		fake_fail(logged_posts[_i / 2].refuses, EINVAL, 1);
	for (int n = 0; n < 2 && !logged_posts[_i / 2].refuses; n++)
		ck_dat(logged_posts[_i / 2].post());
	no_lock_may_be_held = true;
	ck_assert_uint_ne(logged_posts[_i / 2].post(), DAT_SUCCESS);
	no_lock_may_be_held = false;
	ck_assert_uint_eq(lines, 1);
	pair_close_abrupt(&pair);
}
END_TEST

/* An early receive takes the lock on any IA. */
START_TEST(a_line_of_a_receive_is_written_without_a_lock)
{
	const bool connected = _i & 1, refused = _i & 4;

	setenv("DAPL_DBG_TYPE", "0x80", 1);
	client->thread_safe = server->thread_safe = _i & 2;
	side_open(server, "fake1");
	side_open(client, "fake0");
	if (connected)
		pair_connect(&pair);
	if (refused)
		fake_fail("post_recv", EINVAL, 1);
	no_lock_may_be_held = true;
	if (refused)
		ck_assert_uint_ne(try_recv(client, 1, 0, 8, 0), DAT_SUCCESS);
	else
		ck_dat(try_recv(client, 1, 0, 8, DAT_COMPLETION_BARRIER_FENCE_FLAG));
	no_lock_may_be_held = false;
	ck_assert_uint_eq(lines, 1);
	pair_close_abrupt(&pair);
}
END_TEST

/* Its lock was taken for an early receive before, and is not held now. */
START_TEST(a_refused_receive_releases_no_lock)
{
	setenv("DAPL_DBG_TYPE", "0x80", 1);
	side_open(server, "fake1");
	side_open(client, "fake0");
	post_recv(client, 1, 0, 8, 0);
	pair_connect(&pair);
	fake_fail("post_recv", EINVAL, 1);
	ck_assert_uint_ne(try_recv(client, 2, 0, 8, 0), DAT_SUCCESS);
	ck_assert_uint_eq(lines, 1);
	pair_close_abrupt(&pair);
}
END_TEST

/* A flush takes the lock of the IA, which stands above that of posts. */
START_TEST(threads_may_post_after_the_disconnect)
{
	client->thread_safe = server->thread_safe = true;
	post_connect_with_limits(2, 2);
	side_disconnect(client);
	for (unsigned n = 0; n < 4; n++) {
		post_send(client, n, 0, 8, 0);
		post_recv(client, n, 0, 8, 0);
		expect_dto(client->request_evd, n, DAT_DTO_ERR_FLUSHED);
		expect_dto(client->recv_evd, n, DAT_DTO_ERR_FLUSHED);
	}
	pair_close_abrupt(&pair);
}
END_TEST

static void add_post_connected_cases(void)
{
	TCase *cases = tcase_create("connected");

	tcase_add_checked_fixture(cases, setup, NULL);
	tcase_add_loop_test(cases, refused_posts_change_nothing, 0, COUNT(refusals));
	tcase_add_loop_test(cases, completion_flags_are_passed_to_the_device, 0, COUNT(flag_cases));
	tcase_add_loop_test(cases, flags_without_effect_are_ignored, 0, COUNT(ignored_flags));
	tcase_add_loop_test(cases, sends_gather_and_scatter, 0, COUNT(shapes));
	tcase_add_loop_test(cases, writes_gather, 0, COUNT(shapes));
	tcase_add_loop_test(cases, reads_scatter, 0, COUNT(shapes));
	tcase_add_loop_test(cases, the_remote_length_is_not_looked_at, 0, COUNT(remote_lengths));
	tcase_add_loop_test(cases, segment_lengths_that_wrap_are_refused, 0,
			    COUNT(wrapping_lengths));
	if (DAT_EDITION == 1)
		tcase_add_loop_test(cases, receive_lengths_that_wrap_are_refused, 0, 4);
	tcase_add_test(cases, requests_complete_in_order);
	tcase_add_loop_test(cases, a_memory_fault_breaks_the_connection, 0, COUNT(memory_faults));
	tcase_add_loop_test(cases, posts_after_the_disconnect_are_flushed, 0, COUNT(quirks));
	tcase_add_test(cases, late_completions_are_dropped);
	tcase_add_loop_test(cases, posts_that_race_with_a_disconnect_are_flushed_or_refused, 0, 17);
}

static void add_post_limit_cases(void)
{
	TCase *cases = tcase_create("limits");

	tcase_add_test(cases, posts_beyond_the_limits_are_refused);
	tcase_add_test(cases, a_post_is_limited_by_the_device_only);
	tcase_add_loop_test(cases, any_number_of_segments_is_one_transfer, 0, COUNT(many_segments));
	tcase_add_loop_test(cases, a_request_of_4_gib_or_more_is_refused, 0,
			    2 * COUNT(long_requests));
	if (SIZE_MAX > UINT32_MAX)
		tcase_add_loop_test(cases, a_receive_of_4_gib_or_more_takes_a_message, 0,
				    2 * COUNT(long_receives));
	else
		case_skip(cases, a_receive_of_4_gib_or_more_takes_a_message,
			  "memory of 32 bits has no such region");
	tcase_add_loop_test(cases, a_receive_posted_while_the_connection_ends_is_flushed, 0,
			    2 * COUNT(ending_receives));
	tcase_add_loop_test(cases, a_flush_spares_what_was_posted_after_a_reset, 0, 2);
	tcase_add_loop_test(cases, a_request_that_meets_a_reset_is_refused, 0,
			    REQUESTS_OF_A_LATE_THREAD);
	tcase_add_loop_test(cases, a_receive_that_meets_a_reset_is_an_early_one, 0, 2);
	tcase_add_loop_test(cases, a_bind_goes_by_what_the_endpoint_is_by_then, 0,
			    COUNT(bind_races));
	tcase_add_loop_test(cases, a_reset_waits_for_a_post_that_is_under_way, 0, 2);
	tcase_add_test(cases, a_receive_is_flushed_while_there_is_no_queue_pair);
	tcase_add_loop_test(cases, a_request_without_memory_while_the_connection_ends_is_refused, 0,
			    2);
	tcase_add_loop_test(cases, a_request_that_is_refused_while_the_connection_ends_is_flushed,
			    0, 4);
	tcase_add_loop_test(
		cases, no_marker_follows_a_request_that_is_refused_while_the_connection_ends, 0, 2);
	tcase_add_loop_test(cases, a_bind_that_is_refused_while_the_connection_ends_is_flushed, 0,
			    2);
	tcase_add_test(cases, a_post_to_a_full_ring_polls_first);
	tcase_add_test(cases, ep_recv_query_counts_outstanding_receives);
	tcase_add_loop_test(cases, suppressing_every_request_never_stalls, 0, COUNT(sizes));
	tcase_add_loop_test(cases, a_ring_full_of_suppressed_requests_becomes_free, 0,
			    COUNT(sizes));
	tcase_add_loop_test(cases, refused_requests_do_not_stall_a_run, 0, 2);
	tcase_add_test(cases, a_success_covers_the_suppressed_requests_before_it);
	tcase_add_test(cases, suppressed_requests_are_signalled_if_the_device_needs_it);
	tcase_add_test(cases, internal_completions_do_not_wake_the_waiter);
	tcase_add_loop_test(cases, internal_completions_are_no_events, 0, 2);
	tcase_add_test(cases, a_failed_suppressed_request_is_reported);
	tcase_add_loop_test(cases, a_post_refused_by_the_device_changes_nothing, 0,
			    COUNT(device_refusals));
	tcase_add_test(cases, threads_may_post_to_one_endpoint);
	tcase_add_loop_test(cases, a_refused_post_writes_its_line_without_a_lock, 0,
			    2 * COUNT(logged_posts));
	tcase_add_loop_test(cases, a_line_of_a_receive_is_written_without_a_lock, 0, 8);
	tcase_add_test(cases, a_refused_receive_releases_no_lock);
	tcase_add_test(cases, threads_may_post_after_the_disconnect);
}

int main(int argc, char **argv)
{
	add_post_connected_cases();
	add_post_limit_cases();
	return run_unit_cases(argc, argv);
}
