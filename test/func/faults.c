/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transfers that must fail: their status, that they change no memory, and that the requests behind
 * them are flushed in order.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "../consumer/consumer.h"

/* bytes of a transfer: too many for a device to copy them, unchecked, into the request */
#define SIZE   ((size_t)1000)
#define REGION ((size_t)8192)
#define POSTED 3 /* receives at each side, with cookies from 100 on */

/* Several cases use the same rows; a failure is that of the last row printed. */
static void print_row(const char *what)
{
	printf("# %s\n", what);
	fflush(stdout);
}

static struct region in_new_zone(const struct side *side)
{
	struct side other;

	side_copy_in_new_zone(&other, side);
	return region_map(&other, REGION, DAT_MEM_PRIV_ALL_FLAG);
}

/* ---- memory that a transfer may not use ---- */

static DAT_LMR_TRIPLET unknown_local(const struct side *side)
{
	struct region memory = region_map(side, REGION, DAT_MEM_PRIV_ALL_FLAG);
	DAT_LMR_TRIPLET bad = region_segment(&memory, 0, SIZE);

	bad.lmr_context ^= 0x00ffff00;
	return bad;
}

static DAT_LMR_TRIPLET local_past_the_end(const struct side *side)
{
	struct region memory = region_map(side, REGION, DAT_MEM_PRIV_ALL_FLAG);

	return region_segment(&memory, REGION - SIZE + 1, SIZE);
}

static DAT_LMR_TRIPLET local_before_the_start(const struct side *side)
{
	struct region memory = region_map(side, REGION, DAT_MEM_PRIV_ALL_FLAG);
	DAT_LMR_TRIPLET bad = region_segment(&memory, 0, SIZE);

	bad.virtual_address--;
	return bad;
}

/* Its last byte is at a lower address than its first. */
static DAT_LMR_TRIPLET local_past_all_addresses(const struct side *side)
{
	struct region memory = region_map(side, REGION, DAT_MEM_PRIV_ALL_FLAG);
	DAT_LMR_TRIPLET bad = region_segment(&memory, 0, SIZE);

	bad.virtual_address = UINT64_MAX - SIZE / 2;
	return bad;
}

/* The new region may have the place of the old one in the provider's tables. */
static DAT_LMR_TRIPLET freed_and_registered_again(const struct side *side)
{
	struct region memory = region_map(side, REGION, DAT_MEM_PRIV_ALL_FLAG);
	DAT_LMR_TRIPLET bad = region_segment(&memory, 0, SIZE);

	ck_dat(dat_lmr_free(memory.lmr));
	(void)region_over(side, memory.at, REGION, DAT_MEM_PRIV_ALL_FLAG);
	return bad;
}

/* In another instance of the same IA. */
static DAT_LMR_TRIPLET local_of_another_ia(const struct side *side)
{
	struct region memory;
	struct side other;

	side_open_bare_as(&other, side->name, false);
	memory = region_map(&other, REGION, DAT_MEM_PRIV_ALL_FLAG);
	return region_segment(&memory, 0, SIZE);
}

static DAT_LMR_TRIPLET freed_local(const struct side *side)
{
	struct region memory = region_map(side, REGION, DAT_MEM_PRIV_ALL_FLAG);

	ck_dat(dat_lmr_free(memory.lmr));
	return region_segment(&memory, 0, SIZE);
}

static DAT_LMR_TRIPLET local_of_another_zone(const struct side *side)
{
	struct region memory = in_new_zone(side);

	return region_segment(&memory, 0, SIZE);
}

static DAT_LMR_TRIPLET local_without_write(const struct side *side)
{
	struct region memory = region_map(side, REGION, DAT_MEM_PRIV_READ_FLAG);

	return region_segment(&memory, 0, SIZE);
}

static DAT_RMR_TRIPLET unknown_remote(const struct side *side)
{
	struct region memory = region_map(side, REGION, DAT_MEM_PRIV_ALL_FLAG);
	DAT_RMR_TRIPLET bad = region_target(&memory, 0, SIZE);

	bad.rmr_context ^= 0x00ffff00;
	return bad;
}

static DAT_RMR_TRIPLET remote_past_the_end(const struct side *side)
{
	struct region memory = region_map(side, REGION, DAT_MEM_PRIV_ALL_FLAG);

	return region_target(&memory, REGION - SIZE + 1, SIZE);
}

static DAT_RMR_TRIPLET remote_before_the_start(const struct side *side)
{
	struct region memory = region_map(side, REGION, DAT_MEM_PRIV_ALL_FLAG);
	DAT_RMR_TRIPLET bad = region_target(&memory, 0, SIZE);

	bad.REMOTE_ADDRESS--;
	return bad;
}

static DAT_RMR_TRIPLET freed_remote(const struct side *side)
{
	struct region memory = region_map(side, REGION, DAT_MEM_PRIV_ALL_FLAG);

	ck_dat(dat_lmr_free(memory.lmr));
	return region_target(&memory, 0, SIZE);
}

static DAT_RMR_TRIPLET remote_of_another_zone(const struct side *side)
{
	struct region memory = in_new_zone(side);

	return region_target(&memory, 0, SIZE);
}

/* All privileges but the one that the transfer needs. */
static DAT_RMR_TRIPLET remote_without_write(const struct side *side)
{
	struct region memory = region_map(side, REGION,
					  DAT_MEM_PRIV_LOCAL_WRITE_FLAG | DAT_MEM_PRIV_READ_FLAG);

	ck_assert_uint_ne(memory.rmr_context, 0);
	return region_target(&memory, 0, SIZE);
}

static DAT_RMR_TRIPLET remote_without_read(const struct side *side)
{
	struct region memory = region_map(side, REGION,
					  DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_WRITE_FLAG);

	ck_assert_uint_ne(memory.rmr_context, 0);
	return region_target(&memory, 0, SIZE);
}

static DAT_RMR_TRIPLET remote_without_any(const struct side *side)
{
	struct region memory = region_map(
		side, REGION, DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);

	ck_assert_uint_eq(memory.rmr_context, 0);
	return region_target(&memory, 0, SIZE);
}

/* ---- before and after a fault ---- */

/* The connection works: a write succeeds. */
static void open_and_write(struct pair *pair)
{
	pair_open(pair, NULL);
	post_write(pair->client.ep, 1, segment(&pair->client, 0, SIZE),
		   target(&pair->server, 0, SIZE), DAT_COMPLETION_DEFAULT_FLAG);
	expect_request_done(&pair->client, 1, SIZE);
}

/*
 * Requests behind the one that fails. Half of them are suppressed, but a failure has a completion.
 * The connection may end meanwhile.
 */
static void post_more(const struct pair *pair)
{
	for (unsigned i = 3; i < 9; i++)
		post_write(pair->client.ep, i, segment(&pair->client, 0, SIZE),
			   target(&pair->server, 0, SIZE),
			   i % 2 ? DAT_COMPLETION_DEFAULT_FLAG : DAT_COMPLETION_SUPPRESS_FLAG);
}

static void expect_more_flushed(const struct pair *pair)
{
	for (unsigned i = 3; i < 9; i++)
		expect_dto(pair->client.request_evd, pair->client.ep, i, DAT_DTO_ERR_FLUSHED, 0);
}

/* Both endpoints can be reset and connected again. */
static void reuse_and_close(struct pair *pair)
{
	const struct side *sides[] = { &pair->client, &pair->server };

	for (size_t i = 0; i < COUNT(sides); i++) {
		ck_assert_int_eq(ep_get_state(sides[i]->ep), DAT_EP_STATE_DISCONNECTED);
		ck_dat(dat_ep_reset(sides[i]->ep));
		expect_no_event(sides[i]->connect_evd);
		expect_no_event(sides[i]->recv_evd);
		expect_no_event(sides[i]->request_evd);
	}
	pair_connect(pair);
	exchange_messages(pair);
	pair_close_abrupt(pair);
}

/* ---- faults at the peer ---- */

static const struct remote_fault {
	const char *what;
	DAT_RMR_TRIPLET (*make)(const struct side *side);
	bool write, read; /* the accesses that are refused */
	unsigned needs;	  /* of the device */
} remote_faults[] = {
	{ "unknown rmr_context", unknown_remote, true, true, 0 },
	{ "past the end", remote_past_the_end, true, true, 0 },
	{ "before the start", remote_before_the_start, true, true, 0 },
	{ "freed LMR", freed_remote, true, true, 0 },
	{ "LMR of another zone", remote_of_another_zone, true, true, 0 },
	{ "no remote write", remote_without_write, true, false, 0 },
	{ "no remote read", remote_without_read, false, true, 0 },
	{ "no remote privilege", remote_without_any, true, true, 0 },
};

/* The client waits for the end of the connection first, and takes its completions afterwards. */
static void expect_remote_fault(const struct remote_fault *fault, bool read,
				DAT_COMPLETION_FLAGS flags)
{
	DAT_RMR_TRIPLET bad;
	struct pair pair;

	print_row(fault->what);
	open_and_write(&pair);
	bad = fault->make(&pair.server);
	post_recvs(&pair.client, 100, POSTED);
	post_recvs(&pair.server, 100, POSTED);
	if (read)
		post_read(pair.client.ep, 2, segment(&pair.client, 0, SIZE), bad, flags);
	else
		post_write(pair.client.ep, 2, segment(&pair.client, 0, SIZE), bad, flags);
	post_more(&pair);
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_BROKEN);
	expect_dto(pair.client.request_evd, pair.client.ep, 2, DAT_DTO_ERR_REMOTE_ACCESS, 0);
	expect_more_flushed(&pair);
	expect_flushed_recvs(&pair.client, 100, POSTED);
	expect_end(&pair.server);
	expect_flushed_recvs(&pair.server, 100, POSTED);
	if (read)
		bytes_check(pair.client.memory, REGION, UNTOUCHED);
	reuse_and_close(&pair);
}

START_TEST(refused_write_is_reported)
{
	for (size_t i = 0; i < COUNT(remote_faults); i++)
		if (remote_faults[i].write && device_has(remote_faults[i].needs))
			expect_remote_fault(&remote_faults[i], false, DAT_COMPLETION_DEFAULT_FLAG);
}
END_TEST

START_TEST(refused_read_is_reported)
{
	for (size_t i = 0; i < COUNT(remote_faults); i++)
		if (remote_faults[i].read && device_has(remote_faults[i].needs))
			expect_remote_fault(&remote_faults[i], true, DAT_COMPLETION_DEFAULT_FLAG);
}
END_TEST

START_TEST(suppressed_request_reports_its_failure)
{
	expect_remote_fault(&remote_faults[0], false, DAT_COMPLETION_SUPPRESS_FLAG);
	expect_remote_fault(&remote_faults[0], true, DAT_COMPLETION_SUPPRESS_FLAG);
}
END_TEST

/*
 * Also on iWARP, where the completion of the write may be a success: the connection ends, and the
 * target is unchanged.
 */
START_TEST(refused_write_ends_the_connection)
{
	for (size_t i = 0; i < COUNT(remote_faults); i++) {
		DAT_RMR_TRIPLET bad;
		struct pair pair;

		if (!remote_faults[i].write || !device_has(remote_faults[i].needs))
			continue;
		print_row(remote_faults[i].what);
		open_and_write(&pair);
		bad = remote_faults[i].make(&pair.server);
		post_recvs(&pair.client, 100, POSTED);
		post_recvs(&pair.server, 100, POSTED);
		memset(pair.client.memory, 1, SIZE);
		post_write(pair.client.ep, 2, segment(&pair.client, 0, SIZE), bad,
			   DAT_COMPLETION_DEFAULT_FLAG);
		expect_ends(&pair);
		expect_flushed_recvs(&pair.client, 100, POSTED);
		expect_flushed_recvs(&pair.server, 100, POSTED);
		expect_event(pair.client.request_evd, DAT_DTO_COMPLETION_EVENT);
		bytes_check((void *)(uintptr_t)(bad.REMOTE_ADDRESS + 1), SIZE - 2, UNTOUCHED);
		reuse_and_close(&pair);
	}
}
END_TEST

/* ---- local faults ---- */

static const struct local_fault {
	const char *what;
	DAT_LMR_TRIPLET (*make)(const struct side *side);
	bool source; /* is a fault for a send or write, too */
	bool range;  /* only the range is invalid */
	bool wraps;  /* and ends beyond the last address */
} local_faults[] = {
	{ "unknown lmr_context", unknown_local, true, false, false },
	{ "past the end", local_past_the_end, true, true, false },
	{ "before the start", local_before_the_start, true, true, false },
	{ "past all addresses", local_past_all_addresses, true, true, true },
	{ "freed LMR", freed_local, true, false, false },
	{ "freed LMR, registered again", freed_and_registered_again, true, false, false },
	{ "LMR of another zone", local_of_another_zone, true, false, false },
	{ "LMR of another IA", local_of_another_ia, true, false, false },
	{ "no local write", local_without_write, false, false, false },
};

enum op { OP_SEND, OP_WRITE, OP_READ };

static DAT_DTO_COMPLETION_STATUS local_status(const struct local_fault *fault, enum op op)
{
	if (op == OP_READ && fault->wraps && device()->wrapped_read_sink)
		return device()->wrapped_read_sink;
	if (op == OP_READ)
		return device()->bad_read_sink;
	return fault->range ? device()->bad_range : device()->bad_segment;
}

static DAT_COUNT read_segments(DAT_EP_HANDLE ep)
{
	DAT_EP_PARAM param;

	ck_dat(dat_ep_query(ep, DAT_EP_FIELD_ALL, &param));
	return param.ep_attr.max_rdma_read_iov;
}

/* The segment is the last of @nseg; those before it are valid. */
static void expect_local_fault(const struct local_fault *fault, enum op op, DAT_COUNT nseg)
{
	DAT_LMR_TRIPLET list[2];
	DAT_RMR_TRIPLET remote;
	struct pair pair;
	DAT_RETURN ret = DAT_SUCCESS;

	print_row(fault->what);
	open_and_write(&pair);
	if (op == OP_READ && nseg > read_segments(pair.client.ep)) {
		pair_close_abrupt(&pair);
		return;
	}
	list[0] = segment(&pair.client, 0, SIZE);
	list[nseg - 1] = fault->make(&pair.client);
	remote = target(&pair.server, 0, (size_t)nseg * SIZE);
	post_recvs(&pair.client, 100, POSTED);
	post_recvs(&pair.server, 100, POSTED);
	switch (op) {
	case OP_SEND:
		ret = dat_ep_post_send(pair.client.ep, nseg, list, cookie_of(2),
				       DAT_COMPLETION_DEFAULT_FLAG);
		break;
	case OP_WRITE:
		ret = dat_ep_post_rdma_write(pair.client.ep, nseg, list, cookie_of(2), &remote,
					     DAT_COMPLETION_DEFAULT_FLAG);
		break;
	case OP_READ:
		ret = dat_ep_post_rdma_read(pair.client.ep, nseg, list, cookie_of(2), &remote,
					    DAT_COMPLETION_DEFAULT_FLAG);
		break;
	}
	ck_dat(ret);
	post_more(&pair);
	expect_dto(pair.client.request_evd, pair.client.ep, 2, local_status(fault, op), 0);
	expect_more_flushed(&pair);
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_BROKEN);
	expect_flushed_recvs(&pair.client, 100, POSTED);
	expect_end(&pair.server);
	expect_flushed_recvs(&pair.server, 100, POSTED);
	reuse_and_close(&pair);
}

static void expect_local_faults(DAT_COUNT nseg)
{
	for (size_t i = 0; i < COUNT(local_faults); i++) {
		expect_local_fault(&local_faults[i], OP_READ, nseg);
		if (!local_faults[i].source)
			continue;
		expect_local_fault(&local_faults[i], OP_SEND, nseg);
		expect_local_fault(&local_faults[i], OP_WRITE, nseg);
	}
}

START_TEST(request_with_an_invalid_segment_fails)
{
	expect_local_faults(1);
}
END_TEST

START_TEST(request_with_an_invalid_second_segment_fails)
{
	expect_local_faults(2);
}
END_TEST

/* A write, or a read. */
static void post_access(const struct pair *pair, bool read, uint64_t n, DAT_LMR_TRIPLET local)
{
	if (read)
		post_read(pair->client.ep, n, local, target(&pair->server, 0, SIZE),
			  DAT_COMPLETION_DEFAULT_FLAG);
	else
		post_write(pair->client.ep, n, local, target(&pair->server, 0, SIZE),
			   DAT_COMPLETION_DEFAULT_FLAG);
}

/* What was found out for a request does not hold for those behind it. @range: past the end. */
static void expect_fault_behind(bool read, bool range)
{
	const struct local_fault fault = { .range = range };
	DAT_LMR_TRIPLET local;
	struct region memory;
	struct pair pair;

	open_and_write(&pair);
	memory = region_map(&pair.client, REGION, DAT_MEM_PRIV_ALL_FLAG);
	local = region_segment(&memory, 0, SIZE);
	for (uint64_t n = 10; n < 13; n++) {
		post_access(&pair, read, n, local);
		expect_request_done(&pair.client, n, SIZE);
	}
	if (range)
		local = region_segment(&memory, REGION - SIZE + 1, SIZE);
	else
		ck_dat(dat_lmr_free(memory.lmr));
	post_access(&pair, read, 2, local);
	expect_dto(pair.client.request_evd, pair.client.ep, 2,
		   local_status(&fault, read ? OP_READ : OP_WRITE), 0);
	expect_ends(&pair);
	reuse_and_close(&pair);
}

START_TEST(each_request_of_a_region_is_checked)
{
	for (unsigned i = 0; i < 4; i++)
		expect_fault_behind(i & 1, i & 2);
}
END_TEST

/* A message arrives, and its receive cannot take it. */
static void expect_bad_receive(const struct pair *pair, DAT_COUNT nseg, DAT_LMR_TRIPLET *list,
			       DAT_DTO_COMPLETION_STATUS status, bool arrives)
{
	ck_dat(dat_ep_post_recv(pair->server.ep, nseg, list, cookie_of(99),
				DAT_COMPLETION_DEFAULT_FLAG));
	post_recvs(&pair->server, 100, POSTED);
	post_recvs(&pair->client, 100, POSTED);
	post_send(pair->client.ep, 2, segment(&pair->client, 0, (size_t)nseg * SIZE),
		  DAT_COMPLETION_DEFAULT_FLAG);
	expect_dto(pair->server.recv_evd, pair->server.ep, 99, status, 0);
	expect_flushed_recvs(&pair->server, 100, POSTED);
	expect_connection(&pair->server, DAT_CONNECTION_EVENT_BROKEN);
	if (arrives && device_has(NEEDS_REMOTE_STATUS))
		expect_dto(pair->client.request_evd, pair->client.ep, 2, device()->refused_send, 0);
	else
		expect_event(pair->client.request_evd, DAT_DTO_COMPLETION_EVENT);
	expect_end(&pair->client);
	expect_flushed_recvs(&pair->client, 100, POSTED);
}

/* The invalid segment is the last of @nseg, and the message needs all of it. */
static void expect_bad_receives(DAT_COUNT nseg)
{
	for (size_t i = 0; i < COUNT(local_faults); i++) {
		DAT_LMR_TRIPLET list[2];
		struct pair pair;

		print_row(local_faults[i].what);
		open_and_write(&pair);
		list[0] = segment(&pair.server, 0, SIZE);
		list[nseg - 1] = local_faults[i].make(&pair.server);
		expect_bad_receive(&pair, nseg, list, device()->bad_receive,
				   !device()->checks_buffers);
		reuse_and_close(&pair);
	}
}

START_TEST(receive_with_an_invalid_segment_fails)
{
	expect_bad_receives(1);
}
END_TEST

START_TEST(receive_with_an_invalid_second_segment_fails)
{
	expect_bad_receives(2);
}
END_TEST

START_TEST(receive_that_is_too_short_fails)
{
	static const size_t sizes[] = { 0, 1, SIZE - 1 };

	for (size_t i = 0; i < COUNT(sizes); i++) {
		DAT_LMR_TRIPLET short_one;
		struct pair pair;

		open_and_write(&pair);
		short_one = segment(&pair.server, 0, sizes[i]);
		expect_bad_receive(&pair, 1, &short_one, device()->short_receive, true);
		bytes_check(pair.server.memory + sizes[i], REGION - sizes[i], UNTOUCHED);
		reuse_and_close(&pair);
	}
}
END_TEST

/* ---- regions that are freed while they are in use ---- */

/* The first writes succeed, one fails, the rest is flushed. The memory may be unmapped at once. */
START_TEST(freed_target_refuses_outstanding_writes)
{
	enum { DEPTH = 200 };
	const DAT_EP_ATTR attr = ep_attr_for(4, DEPTH);
	DAT_DTO_COMPLETION_STATUS last = DAT_DTO_SUCCESS;
	struct pair pair;

	pair_open(&pair, &attr);
	for (unsigned i = 0; i < DEPTH; i++)
		post_write(pair.client.ep, i, segment(&pair.client, 0, 65536),
			   target(&pair.server, 0, 65536), DAT_COMPLETION_DEFAULT_FLAG);
	ck_dat(dat_lmr_free(pair.server.lmr));
	ck_dat(dat_ep_get_status(pair.client.ep, NULL, NULL, NULL));
	munmap(pair.server.memory, pair.server.size);
	pair.server.memory = NULL;
	for (unsigned i = 0; i < DEPTH; i++) {
		DAT_EVENT event = expect_event(pair.client.request_evd, DAT_DTO_COMPLETION_EVENT);
		DAT_DTO_COMPLETION_STATUS status =
			event.event_data.dto_completion_event_data.status;

		ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, i);
		if (last != DAT_DTO_SUCCESS)
			ck_assert_int_eq(status, DAT_DTO_ERR_FLUSHED);
		else if (status != DAT_DTO_SUCCESS)
			ck_assert_int_eq(status, DAT_DTO_ERR_REMOTE_ACCESS);
		last = status;
	}
	if (last != DAT_DTO_SUCCESS) {
		expect_connection(&pair.client, DAT_CONNECTION_EVENT_BROKEN);
		expect_end(&pair.server);
	}
	pair_close_abrupt(&pair);
}
END_TEST

int main(int argc, char **argv)
{
	const struct device_case cases[] = {
		{ refused_write_is_reported, NEEDS_REMOTE_STATUS },
		{ refused_read_is_reported, NEEDS_REMOTE_STATUS | NEEDS_READ_RIGHTS },
		{ suppressed_request_reports_its_failure, NEEDS_REMOTE_STATUS },
		{ refused_write_ends_the_connection, NEEDS_NOTHING },
		{ request_with_an_invalid_segment_fails, NEEDS_NOTHING },
		{ request_with_an_invalid_second_segment_fails, NEEDS_NOTHING },
		{ each_request_of_a_region_is_checked, NEEDS_NOTHING },
		{ receive_with_an_invalid_segment_fails, NEEDS_NOTHING },
		{ receive_with_an_invalid_second_segment_fails, NEEDS_NOTHING },
		{ receive_that_is_too_short_fails, NEEDS_NOTHING },
		{ freed_target_refuses_outstanding_writes, NEEDS_REMOTE_STATUS },
	};

	return run_on_device(argc, argv, cases, COUNT(cases));
}
