/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transfers that must fail: what they complete with, that they harm nothing, and that the rest is
 * flushed in order.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "peer.h"

/* bytes of a transfer: more than a device copies into the request, unchecked */
#define SIZE   ((size_t)1000)
#define REGION ((size_t)8192)
#define POSTED 3 /* receives at each end */

/* The same rows serve every test; a failure is below the last that is named. */
static void row(const char *what)
{
	printf("# %s\n", what);
	fflush(stdout);
}

static struct memory other_zone(const struct side *side, DAT_MEM_PRIV_FLAGS priv)
{
	struct side other = *side;

	must(dat_pz_create(side->ia, &other.pz));
	return memory_make(&other, REGION, priv);
}

/* ---- memory that may not be used so ---- */

static DAT_LMR_TRIPLET unknown_local(const struct side *side)
{
	struct memory memory = memory_make(side, REGION, DAT_MEM_PRIV_ALL_FLAG);
	DAT_LMR_TRIPLET bad = seg(&memory, 0, SIZE);

	bad.lmr_context ^= 0x00ffff00;
	return bad;
}

static DAT_LMR_TRIPLET local_past_the_end(const struct side *side)
{
	struct memory memory = memory_make(side, REGION, DAT_MEM_PRIV_ALL_FLAG);

	return seg(&memory, REGION - SIZE + 1, SIZE);
}

static DAT_LMR_TRIPLET freed_local(const struct side *side)
{
	struct memory memory = memory_make(side, REGION, DAT_MEM_PRIV_ALL_FLAG);

	must(dat_lmr_free(memory.lmr));
	return seg(&memory, 0, SIZE);
}

static DAT_LMR_TRIPLET local_of_another_zone(const struct side *side)
{
	struct memory memory = other_zone(side, DAT_MEM_PRIV_ALL_FLAG);

	return seg(&memory, 0, SIZE);
}

static DAT_LMR_TRIPLET local_without_write(const struct side *side)
{
	struct memory memory = memory_make(side, REGION, DAT_MEM_PRIV_READ_FLAG);

	return seg(&memory, 0, SIZE);
}

static DAT_RMR_TRIPLET unknown_remote(const struct side *side)
{
	struct memory memory = memory_make(side, REGION, DAT_MEM_PRIV_ALL_FLAG);
	DAT_RMR_TRIPLET bad = target(&memory, 0, SIZE);

	bad.rmr_context ^= 0x00ffff00;
	return bad;
}

static DAT_RMR_TRIPLET remote_past_the_end(const struct side *side)
{
	struct memory memory = memory_make(side, REGION, DAT_MEM_PRIV_ALL_FLAG);

	return target(&memory, REGION - SIZE + 1, SIZE);
}

static DAT_RMR_TRIPLET remote_before_the_start(const struct side *side)
{
	struct memory memory = memory_make(side, REGION, DAT_MEM_PRIV_ALL_FLAG);
	DAT_RMR_TRIPLET bad = target(&memory, 0, SIZE);

	bad.target_address--;
	return bad;
}

static DAT_RMR_TRIPLET freed_remote(const struct side *side)
{
	struct memory memory = memory_make(side, REGION, DAT_MEM_PRIV_ALL_FLAG);

	must(dat_lmr_free(memory.lmr));
	return target(&memory, 0, SIZE);
}

static DAT_RMR_TRIPLET remote_of_another_zone(const struct side *side)
{
	struct memory memory = other_zone(side, DAT_MEM_PRIV_ALL_FLAG);

	return target(&memory, 0, SIZE);
}

/* What a peer may do to it is all but what it will try. */
static DAT_RMR_TRIPLET remote_without_write(const struct side *side)
{
	struct memory memory = memory_make(side, REGION,
					   DAT_MEM_PRIV_LOCAL_WRITE_FLAG | DAT_MEM_PRIV_READ_FLAG);

	ck_assert_uint_ne(memory.remote, 0);
	return target(&memory, 0, SIZE);
}

static DAT_RMR_TRIPLET remote_without_read(const struct side *side)
{
	struct memory memory = memory_make(side, REGION,
					   DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_WRITE_FLAG);

	ck_assert_uint_ne(memory.remote, 0);
	return target(&memory, 0, SIZE);
}

static DAT_RMR_TRIPLET remote_without_any(const struct side *side)
{
	struct memory memory = memory_make(
		side, REGION, DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);

	ck_assert_uint_eq(memory.remote, 0);
	return target(&memory, 0, SIZE);
}

/* ---- the frame: something good before, something good behind ---- */

struct stage {
	struct pair pair;
	struct memory near, far; /* in order, both */
};

static void stage_open(struct stage *s)
{
	pair_open(&s->pair, NULL);
	s->near = memory_make(&s->pair.near, REGION, DAT_MEM_PRIV_ALL_FLAG);
	s->far = memory_make(&s->pair.far, REGION, DAT_MEM_PRIV_ALL_FLAG);
	write_post(s->pair.near.ep, 1, seg(&s->near, 0, SIZE), target(&s->far, 0, SIZE),
		   DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(s->pair.near.requests, s->pair.near.ep, 1, DAT_DTO_SUCCESS, SIZE);
}

static void receives_post(const struct side *side, const struct memory *memory)
{
	for (unsigned i = 0; i < POSTED; i++)
		recv_post(side->ep, 100 + i, seg(memory, 0, SIZE));
}

static void receives_flushed(const struct side *side)
{
	for (unsigned i = 0; i < POSTED; i++)
		dto_wait(side->recvs, side->ep, 100 + i, DAT_DTO_ERR_FLUSHED, 0);
}

/*
 * Requests behind the bad one; half of them suppressed, but failures report. The connection may end
 * meanwhile.
 */
static void more_post(const struct stage *s)
{
	for (unsigned i = 3; i < 9; i++)
		write_post(s->pair.near.ep, i, seg(&s->near, 0, SIZE), target(&s->far, 0, SIZE),
			   i % 2 ? DAT_COMPLETION_DEFAULT_FLAG : DAT_COMPLETION_SUPPRESS_FLAG);
}

static void more_flushed(const struct stage *s)
{
	for (unsigned i = 3; i < 9; i++)
		dto_wait(s->pair.near.requests, s->pair.near.ep, i, DAT_DTO_ERR_FLUSHED, 0);
}

/* Both ends are as good as new. */
static void stage_close(struct stage *s)
{
	const struct side *sides[] = { &s->pair.near, &s->pair.far };

	for (size_t i = 0; i < COUNT(sides); i++) {
		ck_assert_int_eq(ep_state(sides[i]->ep), DAT_EP_STATE_DISCONNECTED);
		must(dat_ep_reset(sides[i]->ep));
		no_event(sides[i]->connects);
		no_event(sides[i]->recvs);
		no_event(sides[i]->requests);
	}
	pair_connect(&s->pair);
	say_hello(&s->pair);
	pair_close(&s->pair);
}

/* ---- what the peer refuses ---- */

static const struct remote_fault {
	const char *what;
	DAT_RMR_TRIPLET (*make)(const struct side *side);
	bool write, read; /* what is a fault with it */
} remote_faults[] = {
	{ "unknown rmr_context", unknown_remote, true, true },
	{ "past the end", remote_past_the_end, true, true },
	{ "before the start", remote_before_the_start, true, true },
	{ "freed LMR", freed_remote, true, true },
	{ "LMR of another zone", remote_of_another_zone, true, true },
	{ "no right to write", remote_without_write, true, false },
	{ "no right to read", remote_without_read, false, true },
	{ "no remote rights at all", remote_without_any, true, true },
};

/* One consumer waits for the end only, and looks at its transfers afterwards. */
static void remote_fault(const struct remote_fault *fault, bool read, DAT_COMPLETION_FLAGS flags)
{
	DAT_RMR_TRIPLET bad;
	struct stage s;

	row(fault->what);
	stage_open(&s);
	bad = fault->make(&s.pair.far);
	receives_post(&s.pair.near, &s.near);
	receives_post(&s.pair.far, &s.far);
	if (read)
		read_post(s.pair.near.ep, 2, seg(&s.near, 0, SIZE), bad, flags);
	else
		write_post(s.pair.near.ep, 2, seg(&s.near, 0, SIZE), bad, flags);
	more_post(&s);
	connection_event_wait(s.pair.near.connects, DAT_CONNECTION_EVENT_BROKEN, s.pair.near.ep);
	dto_wait(s.pair.near.requests, s.pair.near.ep, 2, DAT_DTO_ERR_REMOTE_ACCESS, 0);
	more_flushed(&s);
	receives_flushed(&s.pair.near);
	ended_wait(s.pair.far.connects, s.pair.far.ep);
	receives_flushed(&s.pair.far);
	if (read)
		bytes_check(s.near.at, REGION, UNTOUCHED);
	stage_close(&s);
}

START_TEST(writes_that_the_peer_refuses)
{
	for (size_t i = 0; i < COUNT(remote_faults); i++)
		if (remote_faults[i].write)
			remote_fault(&remote_faults[i], false, DAT_COMPLETION_DEFAULT_FLAG);
}
END_TEST

START_TEST(reads_that_the_peer_refuses)
{
	for (size_t i = 0; i < COUNT(remote_faults); i++)
		if (remote_faults[i].read)
			remote_fault(&remote_faults[i], true, DAT_COMPLETION_DEFAULT_FLAG);
}
END_TEST

START_TEST(suppressed_requests_report_failure)
{
	remote_fault(&remote_faults[0], false, DAT_COMPLETION_SUPPRESS_FLAG);
	remote_fault(&remote_faults[0], true, DAT_COMPLETION_SUPPRESS_FLAG);
}
END_TEST

/*
 * On iWARP no completion tells the writer: it sees the connection go, and the target its memory
 * unharmed.
 */
START_TEST(refused_writes_end_the_connection)
{
	for (size_t i = 0; i < COUNT(remote_faults); i++) {
		DAT_RMR_TRIPLET bad;
		struct stage s;

		if (!remote_faults[i].write)
			continue;
		row(remote_faults[i].what);
		stage_open(&s);
		bad = remote_faults[i].make(&s.pair.far);
		receives_post(&s.pair.near, &s.near);
		receives_post(&s.pair.far, &s.far);
		memset(s.near.at, 1, SIZE);
		write_post(s.pair.near.ep, 2, seg(&s.near, 0, SIZE), bad,
			   DAT_COMPLETION_DEFAULT_FLAG);
		ended_wait(s.pair.near.connects, s.pair.near.ep);
		ended_wait(s.pair.far.connects, s.pair.far.ep);
		receives_flushed(&s.pair.near);
		receives_flushed(&s.pair.far);
		event_wait(s.pair.near.requests, DAT_DTO_COMPLETION_EVENT);
		bytes_check((void *)(uintptr_t)(bad.target_address + 1), SIZE - 2, UNTOUCHED);
		stage_close(&s);
	}
}
END_TEST

/* ---- what is wrong here ---- */

static const struct local_fault {
	const char *what;
	DAT_LMR_TRIPLET (*make)(const struct side *side);
	bool source; /* not even to be read */
	bool range;  /* the region is good */
} local_faults[] = {
	{ "unknown lmr_context", unknown_local, true, false },
	{ "past the end", local_past_the_end, true, true },
	{ "freed LMR", freed_local, true, false },
	{ "LMR of another zone", local_of_another_zone, true, false },
	{ "no right to write", local_without_write, false, false },
};

enum op { OP_SEND, OP_WRITE, OP_READ };

static DAT_DTO_COMPLETION_STATUS local_status(const struct local_fault *fault, enum op op)
{
	if (op == OP_READ)
		return device()->bad_read_into;
	return fault->range ? device()->bad_range : device()->bad_segment;
}

static void local_fault(const struct local_fault *fault, enum op op)
{
	DAT_LMR_TRIPLET bad;
	struct stage s;

	row(fault->what);
	stage_open(&s);
	bad = fault->make(&s.pair.near);
	receives_post(&s.pair.near, &s.near);
	receives_post(&s.pair.far, &s.far);
	switch (op) {
	case OP_SEND:
		send_post(s.pair.near.ep, 2, bad, DAT_COMPLETION_DEFAULT_FLAG);
		break;
	case OP_WRITE:
		write_post(s.pair.near.ep, 2, bad, target(&s.far, 0, SIZE),
			   DAT_COMPLETION_DEFAULT_FLAG);
		break;
	case OP_READ:
		read_post(s.pair.near.ep, 2, bad, target(&s.far, 0, SIZE),
			  DAT_COMPLETION_DEFAULT_FLAG);
		break;
	}
	more_post(&s);
	dto_wait(s.pair.near.requests, s.pair.near.ep, 2, local_status(fault, op), 0);
	more_flushed(&s);
	connection_event_wait(s.pair.near.connects, DAT_CONNECTION_EVENT_BROKEN, s.pair.near.ep);
	receives_flushed(&s.pair.near);
	ended_wait(s.pair.far.connects, s.pair.far.ep);
	receives_flushed(&s.pair.far);
	stage_close(&s);
}

START_TEST(requests_with_bad_segments)
{
	for (size_t i = 0; i < COUNT(local_faults); i++) {
		local_fault(&local_faults[i], OP_READ);
		if (!local_faults[i].source)
			continue;
		local_fault(&local_faults[i], OP_SEND);
		local_fault(&local_faults[i], OP_WRITE);
	}
}
END_TEST

/* The message comes, and there is nowhere to put it. */
static void bad_receive(struct stage *s, DAT_LMR_TRIPLET bad, DAT_DTO_COMPLETION_STATUS here)
{
	recv_post(s->pair.far.ep, 99, bad);
	receives_post(&s->pair.far, &s->far);
	receives_post(&s->pair.near, &s->near);
	send_post(s->pair.near.ep, 2, seg(&s->near, 0, SIZE), DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(s->pair.far.recvs, s->pair.far.ep, 99, here, 0);
	receives_flushed(&s->pair.far);
	connection_event_wait(s->pair.far.connects, DAT_CONNECTION_EVENT_BROKEN, s->pair.far.ep);
	if (device_has(NEEDS_REMOTE_STATUS))
		dto_wait(s->pair.near.requests, s->pair.near.ep, 2, device()->sent_too_long, 0);
	else
		event_wait(s->pair.near.requests, DAT_DTO_COMPLETION_EVENT);
	ended_wait(s->pair.near.connects, s->pair.near.ep);
	receives_flushed(&s->pair.near);
	stage_close(s);
}

START_TEST(receives_with_bad_segments)
{
	for (size_t i = 0; i < COUNT(local_faults); i++) {
		struct stage s;

		row(local_faults[i].what);
		stage_open(&s);
		bad_receive(&s, local_faults[i].make(&s.pair.far), device()->bad_receive);
	}
}
END_TEST

START_TEST(receives_that_are_too_short)
{
	static const size_t sizes[] = { 0, 1, SIZE - 1 };

	for (size_t i = 0; i < COUNT(sizes); i++) {
		struct stage s;

		stage_open(&s);
		bad_receive(&s, seg(&s.far, 0, sizes[i]), device()->short_receive);
		bytes_check(s.far.at + sizes[i], REGION - sizes[i], UNTOUCHED);
	}
}
END_TEST

/* ---- memory that goes while it is in use ---- */

/* First they succeed, one fails, the rest is flushed; and after the free nothing is written. */
START_TEST(target_is_freed_under_writes)
{
	enum { DEPTH = 200 };
	const DAT_EP_ATTR attr = ep_attr(4, DEPTH);
	DAT_DTO_COMPLETION_STATUS was = DAT_DTO_SUCCESS;
	struct memory near, far;
	struct pair pair;

	pair_open(&pair, &attr);
	near = memory_make(&pair.near, 65536, DAT_MEM_PRIV_ALL_FLAG);
	far = memory_make(&pair.far, 65536, DAT_MEM_PRIV_ALL_FLAG);
	for (unsigned i = 0; i < DEPTH; i++)
		write_post(pair.near.ep, i, seg(&near, 0, 65536), target(&far, 0, 65536),
			   DAT_COMPLETION_DEFAULT_FLAG);
	must(dat_lmr_free(far.lmr));
	must(dat_ep_get_status(pair.near.ep, NULL, NULL, NULL));
	munmap(far.at, far.size);
	for (unsigned i = 0; i < DEPTH; i++) {
		DAT_EVENT event = event_wait(pair.near.requests, DAT_DTO_COMPLETION_EVENT);
		DAT_DTO_COMPLETION_STATUS status =
			event.event_data.dto_completion_event_data.status;

		ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, i);
		if (was != DAT_DTO_SUCCESS)
			ck_assert_int_eq(status, DAT_DTO_ERR_FLUSHED);
		else if (status != DAT_DTO_SUCCESS)
			ck_assert_int_eq(status, DAT_DTO_ERR_REMOTE_ACCESS);
		was = status;
	}
	if (was != DAT_DTO_SUCCESS) {
		connection_event_wait(pair.near.connects, DAT_CONNECTION_EVENT_BROKEN,
				      pair.near.ep);
		ended_wait(pair.far.connects, pair.far.ep);
	}
	pair_close(&pair);
}
END_TEST

int main(int argc, char **argv)
{
	const struct test tests[] = {
		{ writes_that_the_peer_refuses, NEEDS_REMOTE_STATUS },
		{ reads_that_the_peer_refuses, NEEDS_REMOTE_STATUS | NEEDS_READ_RIGHTS },
		{ suppressed_requests_report_failure, NEEDS_REMOTE_STATUS },
		{ refused_writes_end_the_connection, NEEDS_NOTHING },
		{ requests_with_bad_segments, NEEDS_NOTHING },
		{ receives_with_bad_segments, NEEDS_NOTHING },
		{ receives_that_are_too_short, NEEDS_NOTHING },
		{ target_is_freed_under_writes, NEEDS_REMOTE_STATUS },
	};

	return run(argc, argv, tests, COUNT(tests));
}
