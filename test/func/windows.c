/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Windows: what peers may do through them, from when on, and until when. Where a device has none,
 * regions stand in.
 */
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "peer.h"

#define REGION	 ((size_t)8192)
#define FROM	 ((size_t)4000) /* of the window, across two pages */
#define SIZE	 ((size_t)300)
#define READING	 DAT_MEM_PRIV_REMOTE_READ_FLAG
#define WRITING	 DAT_MEM_PRIV_REMOTE_WRITE_FLAG
#define BOTH	 ((DAT_MEM_PRIV_FLAGS)(READING | WRITING))
#define BIND_ONE 77 /* cookie of the binds whose completion is awaited at once */

/* far has a region that no peer has a right to, and a window; near has a buffer. */
struct stage {
	struct pair pair;
	struct memory near, far;
	DAT_RMR_HANDLE rmr;
};

static void stage_open(struct stage *s)
{
	pair_open(&s->pair, NULL);
	s->near = memory_make(&s->pair.near, REGION, DAT_MEM_PRIV_ALL_FLAG);
	s->far = memory_make(
		&s->pair.far, REGION,
		(DAT_MEM_PRIV_FLAGS)(DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG));
	must(dat_rmr_create(s->pair.far.pz, &s->rmr));
}

static DAT_RMR_CONTEXT bind_post(struct stage *s, DAT_LMR_TRIPLET range, DAT_MEM_PRIV_FLAGS priv,
				 uint64_t value, DAT_COMPLETION_FLAGS flags)
{
	DAT_RMR_CONTEXT context;
	DAT_RETURN ret;

	/* the device may still be at all that the endpoint can hold */
	while ((ret = dat_rmr_bind(s->rmr, &range, priv, s->pair.far.ep, cookie(value), flags,
				   &context)) == FAILS(INSUFFICIENT_RESOURCES, RESOURCE_MEMORY))
		sched_yield();
	must(ret);
	return context;
}

static void bind_wait(struct stage *s, uint64_t value, DAT_RMR_BIND_COMPLETION_STATUS status)
{
	DAT_EVENT event = event_wait(s->pair.far.requests, DAT_RMR_BIND_COMPLETION_EVENT);
	const DAT_RMR_BIND_COMPLETION_EVENT_DATA *bind =
		&event.event_data.rmr_completion_event_data;

	ck_assert_ptr_eq(bind->rmr_handle, s->rmr);
	ck_assert_uint_eq(bind->user_cookie.as_64, value);
	ck_assert_int_eq(bind->status, status);
}

/* The window at its usual place. */
static DAT_RMR_CONTEXT bind_usual(struct stage *s, DAT_MEM_PRIV_FLAGS priv)
{
	DAT_RMR_CONTEXT context = bind_post(s, seg(&s->far, FROM, SIZE), priv, BIND_ONE,
					    DAT_COMPLETION_DEFAULT_FLAG);

	bind_wait(s, BIND_ONE, DAT_RMR_BIND_SUCCESS);
	return context;
}

static const DAT_LMR_TRIPLET nothing;

static void unbind(struct stage *s)
{
	ck_assert_uint_eq(bind_post(s, nothing, BOTH, BIND_ONE, DAT_COMPLETION_DEFAULT_FLAG), 0);
	bind_wait(s, BIND_ONE, DAT_RMR_BIND_SUCCESS);
}

/* @size bytes of far's region, seen through @context. */
static DAT_RMR_TRIPLET through(const struct stage *s, DAT_RMR_CONTEXT context, size_t offset,
			       size_t size)
{
	DAT_RMR_TRIPLET remote = target(&s->far, offset, size);

	remote.rmr_context = context;
	return remote;
}

/* A message behind it proves that a write has been placed, on any transport. */
static void write_works(struct stage *s, DAT_RMR_CONTEXT context, size_t offset, size_t size,
			unsigned seed)
{
	recv_post(s->pair.far.ep, seed, seg(&s->far, 0, 0));
	pattern_fill(s->near.at, size, seed);
	write_post(s->pair.near.ep, 1, seg(&s->near, 0, size), through(s, context, offset, size),
		   DAT_COMPLETION_DEFAULT_FLAG);
	send_post(s->pair.near.ep, 2, seg(&s->near, 0, 0), DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(s->pair.far.recvs, s->pair.far.ep, seed, DAT_DTO_SUCCESS, 0);
	pattern_check(s->far.at + offset, size, seed);
	dto_wait(s->pair.near.requests, s->pair.near.ep, 1, DAT_DTO_SUCCESS, size);
	dto_wait(s->pair.near.requests, s->pair.near.ep, 2, DAT_DTO_SUCCESS, 0);
}

static void read_works(struct stage *s, DAT_RMR_CONTEXT context, size_t offset, size_t size,
		       unsigned seed)
{
	pattern_fill(s->far.at + offset, size, seed);
	read_post(s->pair.near.ep, 3, seg(&s->near, 0, size), through(s, context, offset, size),
		  DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(s->pair.near.requests, s->pair.near.ep, 3, DAT_DTO_SUCCESS, size);
	pattern_check(s->near.at, size, seed);
}

/*
 * It ends the connection, and not a byte is written. What the writer is told depends on the
 * transport.
 */
static void write_fails(struct stage *s, DAT_RMR_TRIPLET remote)
{
	memset(s->far.at, UNTOUCHED, REGION);
	memset(s->near.at, 1, REGION);
	write_post(s->pair.near.ep, 4, seg(&s->near, 0, remote.segment_length), remote,
		   DAT_COMPLETION_DEFAULT_FLAG);
	ended_wait(s->pair.near.connects, s->pair.near.ep);
	ended_wait(s->pair.far.connects, s->pair.far.ep);
	bytes_check(s->far.at, REGION, UNTOUCHED);
}

static void access_fails(struct stage *s, bool read, DAT_RMR_TRIPLET remote)
{
	memset(s->far.at, UNTOUCHED, REGION);
	memset(s->near.at, 1, REGION);
	if (read)
		read_post(s->pair.near.ep, 4, seg(&s->near, 0, SIZE), remote,
			  DAT_COMPLETION_DEFAULT_FLAG);
	else
		write_post(s->pair.near.ep, 4, seg(&s->near, 0, SIZE), remote,
			   DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(s->pair.near.requests, s->pair.near.ep, 4, DAT_DTO_ERR_REMOTE_ACCESS, 0);
	connection_event_wait(s->pair.near.connects, DAT_CONNECTION_EVENT_BROKEN, s->pair.near.ep);
	ended_wait(s->pair.far.connects, s->pair.far.ep);
	bytes_check(s->far.at, REGION, UNTOUCHED);
	bytes_check(s->near.at, REGION, 1);
}

static void connect_again(struct stage *s)
{
	must(dat_ep_reset(s->pair.near.ep));
	must(dat_ep_reset(s->pair.far.ep));
	pair_connect(&s->pair);
}

/*
 * It ends the connection, and not a byte comes; with what the read completes depends on the
 * transport. The same endpoints are connected again.
 */
static void read_fails(struct stage *s, DAT_RMR_TRIPLET remote)
{
	const DAT_DTO_COMPLETION_EVENT_DATA *dto;
	DAT_EVENT event;

	memset(s->near.at, 1, REGION);
	read_post(s->pair.near.ep, 5, seg(&s->near, 0, remote.segment_length), remote,
		  DAT_COMPLETION_DEFAULT_FLAG);
	ended_wait(s->pair.near.connects, s->pair.near.ep);
	ended_wait(s->pair.far.connects, s->pair.far.ep);
	event = event_wait(s->pair.near.requests, DAT_DTO_COMPLETION_EVENT);
	dto = &event.event_data.dto_completion_event_data;
	ck_assert_uint_eq(dto->user_cookie.as_64, 5);
	ck_assert_int_ne(dto->status, DAT_DTO_SUCCESS);
	if (device_has(NEEDS_REMOTE_STATUS))
		ck_assert_int_eq(dto->status, DAT_DTO_ERR_REMOTE_ACCESS);
	bytes_check(s->near.at, REGION, 1);
	connect_again(s);
}

/* ---- what it is ---- */

START_TEST(is_unbound_until_bound)
{
	const DAT_RMR_PARAM_MASK rest = (DAT_RMR_PARAM_MASK)(DAT_RMR_FIELD_ALL &
							     ~DAT_RMR_FIELD_LMR_TRIPLET);
	DAT_RMR_CONTEXT context;
	DAT_RMR_PARAM param;
	DAT_IA_ATTR attr;
	struct stage s;

	stage_open(&s);
	must(dat_ia_query(s.pair.far.ia, NULL, DAT_IA_FIELD_IA_MAX_RMRS, &attr, 0, NULL));
	ck_assert_int_gt(attr.max_rmrs, 0);
	returns(BAD_ARG(2), dat_rmr_query(s.rmr, DAT_RMR_FIELD_LMR_TRIPLET, &param));
	must(dat_rmr_query(s.rmr, rest, &param));
	ck_assert_ptr_eq(param.pz_handle, s.pair.far.pz);
	ck_assert_uint_eq(param.rmr_context, 0);
	context = bind_usual(&s, READING);
	must(dat_rmr_query(s.rmr, DAT_RMR_FIELD_ALL, &param));
	ck_assert_uint_eq(param.rmr_context, context);
	ck_assert_uint_eq(param.lmr_triplet.virtual_address, (uintptr_t)s.far.at + FROM);
	ck_assert_uint_eq(param.lmr_triplet.segment_length, SIZE);
	ck_assert_int_eq(param.mem_priv, READING);
	returns(BAD_STATE(PZ_IN_USE), dat_pz_free(s.pair.far.pz));
	unbind(&s);
	returns(BAD_ARG(2), dat_rmr_query(s.rmr, DAT_RMR_FIELD_LMR_TRIPLET, &param));
	must(dat_rmr_free(s.rmr));
	returns(BAD_HANDLE(_RMR), dat_rmr_free(s.rmr));
	pair_close(&s.pair);
}
END_TEST

/* The bind, then a message that carries the context, and nobody has waited for the bind. */
START_TEST(context_travels_behind_the_bind)
{
	struct stage s;

	stage_open(&s);
	for (unsigned i = 0; i < 20; i++) {
		DAT_RMR_TRIPLET *message = (void *)s.far.at;

		recv_post(s.pair.near.ep, i, seg(&s.near, 4096, sizeof(*message)));
		*message = through(&s,
				   bind_post(&s, seg(&s.far, FROM + i, SIZE), BOTH, i,
					     DAT_COMPLETION_DEFAULT_FLAG),
				   FROM + i, SIZE);
		send_post(s.pair.far.ep, 100 + i, seg(&s.far, 0, sizeof(*message)),
			  DAT_COMPLETION_DEFAULT_FLAG);
		dto_wait(s.pair.near.recvs, s.pair.near.ep, i, DAT_DTO_SUCCESS, sizeof(*message));
		message = (void *)(s.near.at + 4096);
		write_works(&s, message->rmr_context, FROM + i, SIZE, i);
		read_works(&s, message->rmr_context, FROM + i, SIZE, i + 50);
		bind_wait(&s, i, DAT_RMR_BIND_SUCCESS);
		dto_wait(s.pair.far.requests, s.pair.far.ep, 100 + i, DAT_DTO_SUCCESS,
			 sizeof(*message));
	}
	pair_close(&s.pair);
}
END_TEST

START_TEST(binds_complete_among_sends)
{
	enum { ROUNDS = 5 };
	const DAT_EP_ATTR attr = ep_attr(ROUNDS, 3 * ROUNDS);
	struct stage s;

	pair_open(&s.pair, &attr);
	s.near = memory_make(&s.pair.near, REGION, DAT_MEM_PRIV_ALL_FLAG);
	s.far = memory_make(&s.pair.far, REGION, DAT_MEM_PRIV_ALL_FLAG);
	must(dat_rmr_create(s.pair.far.pz, &s.rmr));
	for (unsigned i = 0; i < ROUNDS; i++)
		recv_post(s.pair.near.ep, i, seg(&s.near, 8 * i, 8));
	for (unsigned i = 0; i < ROUNDS; i++) {
		read_post(s.pair.far.ep, 10 + i, seg(&s.far, 0, 4096), target(&s.near, 4096, 4096),
			  DAT_COMPLETION_DEFAULT_FLAG);
		bind_post(&s, seg(&s.far, i, SIZE), BOTH, 20 + i,
			  i % 2 ? DAT_COMPLETION_BARRIER_FENCE_FLAG : DAT_COMPLETION_DEFAULT_FLAG);
		send_post(s.pair.far.ep, 30 + i, seg(&s.far, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	}
	for (unsigned i = 0; i < ROUNDS; i++) {
		dto_wait(s.pair.far.requests, s.pair.far.ep, 10 + i, DAT_DTO_SUCCESS, 4096);
		bind_wait(&s, 20 + i, DAT_RMR_BIND_SUCCESS);
		dto_wait(s.pair.far.requests, s.pair.far.ep, 30 + i, DAT_DTO_SUCCESS, 8);
	}
	no_event(s.pair.far.requests);
	pair_close(&s.pair);
}
END_TEST

/* A slot each, and what each replaces goes with it, though nobody takes a completion. */
START_TEST(suppressed_binds_never_lock_up)
{
	DAT_RMR_CONTEXT context = 0, before;
	struct stage s;

	stage_open(&s);
	for (unsigned i = 0; i < 500; i++) {
		before = context;
		context = bind_post(&s, seg(&s.far, FROM + i % 100, SIZE), BOTH, i,
				    DAT_COMPLETION_SUPPRESS_FLAG);
		ck_assert_uint_ne(context, before);
	}
	say_hello(&s.pair);
	write_works(&s, context, FROM + 99, SIZE, 5);
	no_event(s.pair.far.requests);
	pair_close(&s.pair);
}
END_TEST

/* ---- what peers may do ---- */

static DAT_RMR_CONTEXT after_rebind(struct stage *s)
{
	DAT_RMR_CONTEXT old = bind_usual(s, BOTH);

	ck_assert_uint_ne(bind_usual(s, BOTH), old);
	return old;
}

static DAT_RMR_CONTEXT after_unbind(struct stage *s)
{
	DAT_RMR_CONTEXT old = bind_usual(s, BOTH);

	unbind(s);
	return old;
}

static DAT_RMR_CONTEXT after_free(struct stage *s)
{
	DAT_RMR_CONTEXT old = bind_usual(s, BOTH);

	must(dat_rmr_free(s->rmr));
	return old;
}

static DAT_RMR_CONTEXT without_rights(struct stage *s)
{
	return bind_usual(s, DAT_MEM_PRIV_NONE_FLAG);
}

static DAT_RMR_CONTEXT for_reading(struct stage *s)
{
	return bind_usual(s, READING);
}

static DAT_RMR_CONTEXT for_writing(struct stage *s)
{
	return bind_usual(s, WRITING);
}

/* The same bytes, but of another zone, whose endpoints are connected, too. */
static DAT_RMR_CONTEXT of_another_zone(struct stage *s)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = s->far.at };
	struct stage other = *s;
	DAT_RMR_CONTEXT context;

	must(dat_pz_create(other.pair.far.ia, &other.pair.far.pz));
	must(dat_lmr_create(other.pair.far.ia, DAT_MEM_TYPE_VIRTUAL, region, REGION,
			    other.pair.far.pz, DAT_MEM_PRIV_ALL_FLAG, &other.far.lmr,
			    &other.far.local, NULL, NULL, NULL));
	must(dat_rmr_create(other.pair.far.pz, &other.rmr));
	other.pair.near.ep = ep_make(&other.pair.near, NULL);
	other.pair.far.ep = ep_make(&other.pair.far, NULL);
	pair_connect(&other.pair);
	context = bind_usual(&other, BOTH);
	write_works(&other, context, FROM, SIZE, 1);
	return context;
}

static DAT_RMR_CONTEXT garbled(struct stage *s)
{
	return bind_usual(s, BOTH) ^ 0x00ffff00;
}

static const struct {
	DAT_RMR_CONTEXT (*make)(struct stage *s);
	bool writes, reads; /* are refused */
	bool by_rights;	    /* the context is good */
} closed[] = {
	{ after_rebind, true, true, false }, { after_unbind, true, true, false },
	{ after_free, true, true, false },   { of_another_zone, true, true, false },
	{ garbled, true, true, false },	     { without_rights, true, true, true },
	{ for_reading, true, false, true },  { for_writing, false, true, true },
};

START_TEST(refused_writes_land_nowhere)
{
	for (size_t i = 0; i < COUNT(closed); i++) {
		struct stage s;

		if (!closed[i].writes)
			continue;
		stage_open(&s);
		write_fails(&s, through(&s, closed[i].make(&s), FROM, SIZE));
		pair_close(&s.pair);
	}
}
END_TEST

START_TEST(refused_writes_are_reported)
{
	for (size_t i = 0; i < COUNT(closed); i++) {
		struct stage s;

		if (!closed[i].writes)
			continue;
		stage_open(&s);
		access_fails(&s, false, through(&s, closed[i].make(&s), FROM, SIZE));
		pair_close(&s.pair);
	}
}
END_TEST

START_TEST(refused_reads_bring_nothing)
{
	for (size_t i = 0; i < COUNT(closed); i++) {
		struct stage s;

		if (!closed[i].reads || (closed[i].by_rights && !device_has(NEEDS_READ_RIGHTS)))
			continue;
		stage_open(&s);
		read_fails(&s, through(&s, closed[i].make(&s), FROM, SIZE));
		pair_close(&s.pair);
	}
}
END_TEST

START_TEST(refused_reads_are_reported)
{
	for (size_t i = 0; i < COUNT(closed); i++) {
		struct stage s;

		if (!closed[i].reads)
			continue;
		stage_open(&s);
		access_fails(&s, true, through(&s, closed[i].make(&s), FROM, SIZE));
		pair_close(&s.pair);
	}
}
END_TEST

START_TEST(narrow_rights_suffice)
{
	struct stage s;

	stage_open(&s);
	read_works(&s, bind_usual(&s, READING), FROM, SIZE, 1);
	write_works(&s, bind_usual(&s, WRITING), FROM, SIZE, 2);
	pair_close(&s.pair);
}
END_TEST

/*
 * One byte too far. Soft-RoCE looks at the range of the region only: the window itself has the
 * right one, as a query shows, and the region's end holds. So there the check is lost in the
 * kernel's driver, not on the way to it.
 */
START_TEST(range_of_the_window)
{
	DAT_RMR_CONTEXT context;
	DAT_RMR_PARAM param;
	struct stage s;

	stage_open(&s);
	context = bind_usual(&s, BOTH);
	must(dat_rmr_query(s.rmr, DAT_RMR_FIELD_ALL, &param));
	ck_assert_uint_eq(param.lmr_triplet.segment_length, SIZE);
	if (device()->loose_windows) {
		write_works(&s, context, FROM + 1, SIZE, 3);
		write_works(&s, context, FROM - 1, SIZE, 4);
		access_fails(&s, false, through(&s, context, REGION - SIZE + 1, SIZE));
	}
	pair_close(&s.pair);
}
END_TEST

/* At either end of it, by a byte that is alone or with others; from the window's first byte on. */
static const struct {
	long offset;
	size_t length;
} outsides[] = {
	{ -1, 1 },	 { -1, 2 },   { -1, SIZE },    { SIZE, 1 },
	{ SIZE - 1, 2 }, { 1, SIZE }, { 0, SIZE + 1 },
};

START_TEST(not_a_byte_more)
{
	struct stage s;

	stage_open(&s);
	for (size_t i = 0; i < COUNT(outsides); i++) {
		DAT_RMR_CONTEXT context = bind_usual(&s, BOTH);
		DAT_RMR_TRIPLET outside = through(&s, context, FROM + (size_t)outsides[i].offset,
						  outsides[i].length);

		write_works(&s, context, FROM, 1, 1);
		write_works(&s, context, FROM + SIZE - 1, 1, 2);
		read_fails(&s, outside);
		write_fails(&s, outside);
		event_wait(s.pair.near.requests, DAT_DTO_COMPLETION_EVENT);
		connect_again(&s);
	}
	pair_close(&s.pair);
}
END_TEST

/* It is of the zone, not of the endpoint that bound it. */
START_TEST(serves_every_endpoint_of_its_zone)
{
	DAT_RMR_CONTEXT context;
	struct stage s;

	stage_open(&s);
	context = bind_usual(&s, BOTH);
	must(dat_ep_free(s.pair.far.ep));
	ended_wait(s.pair.near.connects, s.pair.near.ep);
	must(dat_ep_free(s.pair.near.ep));
	s.pair.near.ep = ep_make(&s.pair.near, NULL);
	s.pair.far.ep = ep_make(&s.pair.far, NULL);
	pair_connect(&s.pair);
	write_works(&s, context, FROM, SIZE, 1);
	read_works(&s, bind_usual(&s, READING), FROM, SIZE, 2);
	pair_close(&s.pair);
}
END_TEST

/* ---- regions ---- */

START_TEST(region_stays_while_bound)
{
	struct memory other;
	struct stage s;

	stage_open(&s);
	other = memory_make(&s.pair.far, REGION, DAT_MEM_PRIV_ALL_FLAG);
	bind_usual(&s, BOTH);
	returns(BAD_STATE(LMR_IN_USE), dat_lmr_free(s.far.lmr));
	bind_post(&s, seg(&other, 0, SIZE), BOTH, BIND_ONE, DAT_COMPLETION_DEFAULT_FLAG);
	bind_wait(&s, BIND_ONE, DAT_RMR_BIND_SUCCESS);
	must(dat_lmr_free(s.far.lmr));
	returns(BAD_STATE(LMR_IN_USE), dat_lmr_free(other.lmr));
	unbind(&s);
	must(dat_lmr_free(other.lmr));
	pair_close(&s.pair);
}
END_TEST

/* Memory that can't be written, which some devices take no window for. */
static void constant_stage_open(struct stage *s)
{
	const DAT_REGION_DESCRIPTION region = {
		.for_va = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0),
	};

	ck_assert_ptr_ne(region.for_va, MAP_FAILED);
	pattern_fill(region.for_va, REGION, 9);
	ck_assert_int_eq(mprotect(region.for_va, REGION, PROT_READ), 0);
	stage_open(s);
	s->far.at = region.for_va;
	must(dat_lmr_create(s->pair.far.ia, DAT_MEM_TYPE_VIRTUAL, region, REGION, s->pair.far.pz,
			    DAT_MEM_PRIV_LOCAL_READ_FLAG, &s->far.lmr, &s->far.local, NULL, NULL,
			    NULL));
}

START_TEST(read_only_memory_can_be_shown)
{
	DAT_RMR_CONTEXT context = 0, before;
	struct stage s;

	constant_stage_open(&s);
	for (unsigned i = 0; i < 3; i++) {
		before = context;
		context = bind_post(&s, seg(&s.far, 0, REGION), READING, i, 0);
		ck_assert_uint_ne(context, before);
		read_post(s.pair.near.ep, i, seg(&s.near, 0, REGION),
			  through(&s, context, 0, REGION), DAT_COMPLETION_DEFAULT_FLAG);
		bind_wait(&s, i, DAT_RMR_BIND_SUCCESS);
		dto_wait(s.pair.near.requests, s.pair.near.ep, i, DAT_DTO_SUCCESS, REGION);
		pattern_check(s.near.at, REGION, 9);
	}
	read_fails(&s, through(&s, before, 0, REGION));
	unbind(&s);
	read_fails(&s, through(&s, context, 0, REGION));
	must(dat_lmr_free(s.far.lmr));
	pair_close(&s.pair);
}
END_TEST

/* A region stands in for the window, so its range holds even where those of windows do not. */
START_TEST(read_only_memory_and_no_more)
{
	DAT_RMR_CONTEXT context;
	struct stage s;

	constant_stage_open(&s);
	context = bind_usual(&s, READING);
	for (size_t i = 0; i < COUNT(outsides); i++) {
		read_post(s.pair.near.ep, 1, seg(&s.near, 0, SIZE),
			  through(&s, context, FROM, SIZE), DAT_COMPLETION_DEFAULT_FLAG);
		dto_wait(s.pair.near.requests, s.pair.near.ep, 1, DAT_DTO_SUCCESS, SIZE);
		read_fails(&s, through(&s, context, FROM + (size_t)outsides[i].offset,
				       outsides[i].length));
	}
	pair_close(&s.pair);
}
END_TEST

/* ---- what goes wrong ---- */

START_TEST(wrong_binds_are_refused)
{
	DAT_LMR_TRIPLET range;
	DAT_RMR_CONTEXT context = 5;
	struct memory blind;
	DAT_EP_HANDLE idle;
	struct stage s;

	stage_open(&s);
	idle = ep_make(&s.pair.far, NULL);
	range = seg(&s.far, FROM, SIZE);
	returns(BAD_STATE(EP_UNCONNECTED),
		dat_rmr_bind(s.rmr, &range, BOTH, idle, cookie(1), 0, &context));
	range = seg(&s.far, REGION - SIZE + 1, SIZE);
	returns(BAD_ARG(2),
		dat_rmr_bind(s.rmr, &range, BOTH, s.pair.far.ep, cookie(1), 0, &context));
	blind = memory_make(&s.pair.far, REGION, WRITING);
	range = seg(&blind, 0, SIZE);
	returns(FAILS(PRIVILEGES_VIOLATION, PRIVILEGES_RDMA_READ),
		dat_rmr_bind(s.rmr, &range, READING, s.pair.far.ep, cookie(1), 0, &context));
	returns(FAILS(PRIVILEGES_VIOLATION, PRIVILEGES_RDMA_WRITE),
		dat_rmr_bind(s.rmr, &range, WRITING, s.pair.far.ep, cookie(1), 0, &context));
	ck_assert_uint_eq(context, 5);
	no_event(s.pair.far.requests);
	say_hello(&s.pair);
	pair_close(&s.pair);
}
END_TEST

START_TEST(flushed_binds_change_nothing)
{
	DAT_RMR_CONTEXT context;
	DAT_RMR_PARAM param;
	struct stage s;

	stage_open(&s);
	context = bind_usual(&s, BOTH);
	must(dat_ep_disconnect(s.pair.far.ep, DAT_CLOSE_ABRUPT_FLAG));
	connection_event_wait(s.pair.far.connects, DAT_CONNECTION_EVENT_DISCONNECTED,
			      s.pair.far.ep);
	bind_post(&s, seg(&s.far, 0, SIZE), BOTH, 1, DAT_COMPLETION_SUPPRESS_FLAG);
	bind_wait(&s, 1, DAT_RMR_BIND_FAILURE);
	must(dat_rmr_query(s.rmr, DAT_RMR_FIELD_ALL, &param));
	ck_assert_uint_eq(param.rmr_context, context);
	ended_wait(s.pair.near.connects, s.pair.near.ep);
	must(dat_ep_reset(s.pair.near.ep));
	must(dat_ep_reset(s.pair.far.ep));
	pair_connect(&s.pair);
	write_works(&s, context, FROM, SIZE, 1);
	write_works(&s, bind_usual(&s, BOTH), FROM, SIZE, 2);
	pair_close(&s.pair);
}
END_TEST

/* Whether the last of them was carried out or not, device and provider agree on what is bound. */
START_TEST(endpoint_goes_with_binds_in_flight)
{
	for (unsigned i = 0; i < 10; i++) {
		struct stage s;

		stage_open(&s);
		for (unsigned n = 0; n < 8; n++)
			bind_post(&s, seg(&s.far, n, SIZE), BOTH, n, DAT_COMPLETION_DEFAULT_FLAG);
		must(dat_ep_free(s.pair.far.ep));
		ended_wait(s.pair.near.connects, s.pair.near.ep);
		must(dat_ep_reset(s.pair.near.ep));
		must(dat_evd_free(s.pair.far.requests));
		must(dat_evd_create(s.pair.far.ia, QLEN, DAT_HANDLE_NULL,
				    DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG,
				    &s.pair.far.requests));
		s.pair.far.ep = ep_make(&s.pair.far, NULL);
		pair_connect(&s.pair);
		write_works(&s, bind_usual(&s, BOTH), FROM, SIZE, i);
		unbind(&s);
		must(dat_lmr_free(s.far.lmr));
		pair_close(&s.pair);
	}
}
END_TEST

int main(int argc, char **argv)
{
	const struct test tests[] = {
		{ is_unbound_until_bound, NEEDS_NOTHING },
		{ context_travels_behind_the_bind, NEEDS_NOTHING },
		{ binds_complete_among_sends, NEEDS_NOTHING },
		{ suppressed_binds_never_lock_up, NEEDS_NOTHING },
		{ refused_writes_land_nowhere, NEEDS_NOTHING },
		{ refused_writes_are_reported, NEEDS_REMOTE_STATUS },
		{ refused_reads_bring_nothing, NEEDS_NOTHING },
		{ refused_reads_are_reported, NEEDS_REMOTE_STATUS | NEEDS_READ_RIGHTS },
		{ narrow_rights_suffice, NEEDS_NOTHING },
		{ range_of_the_window, NEEDS_NOTHING },
		{ not_a_byte_more, NEEDS_WINDOW_RANGE },
		{ serves_every_endpoint_of_its_zone, NEEDS_NOTHING },
		{ region_stays_while_bound, NEEDS_NOTHING },
		{ read_only_memory_can_be_shown, NEEDS_NOTHING },
		{ read_only_memory_and_no_more, NEEDS_NOTHING },
		{ wrong_binds_are_refused, NEEDS_NOTHING },
		{ flushed_binds_change_nothing, NEEDS_NOTHING },
		{ endpoint_goes_with_binds_in_flight, NEEDS_NOTHING },
	};

	return run(argc, argv, tests, COUNT(tests));
}
