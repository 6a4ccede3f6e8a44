/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Windows: what a bind may not be, what it does to those that came before, and what is left when it
 * fails.
 */
#include <sched.h>

#include "../fake/fake_impl.h"
#include "harness.h"

#define READ_ONLY   DAT_MEM_PRIV_REMOTE_READ_FLAG
#define WRITE_ONLY  DAT_MEM_PRIV_REMOTE_WRITE_FLAG
#define REMOTE_BOTH ((DAT_MEM_PRIV_FLAGS)(READ_ONLY | WRITE_ONLY))
#define SUPPRESS    DAT_COMPLETION_SUPPRESS_FLAG
#define UNSIGNALLED DAT_COMPLETION_UNSIGNALLED_FLAG
#define BARRIER	    DAT_COMPLETION_BARRIER_FENCE_FLAG

/* Every way there is to have a window; tests loop over them. */
enum way {
	BY_WINDOW,
	BY_REGION, /* the device has no windows */
	BY_BOTH,   /* it has, but none for the region of the second bind, see other_lmr */
	WAYS,
};

static struct pair pair;
/* the server has the window, the client looks through it */
static struct side *const client = &pair.client, *const server = &pair.server;
static DAT_RMR_HANDLE rmr;

static void open_way(enum way way, const DAT_EP_ATTR *attr)
{
	if (way == BY_REGION)
		fake_attr()->max_mw = 0;
	if (way == BY_BOTH)
		fake_quirks(FAKE_UNBINDABLE);
	client->ep_attr = server->ep_attr = attr;
	pair_connect(&pair);
	ck_dat(rmr_create(server->pz, &rmr));
}

static void close_all(void)
{
	ck_dat(ia_close(client->ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat(ia_close(server->ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}

static DAT_RETURN try_bind(DAT_LMR_TRIPLET triplet, DAT_MEM_PRIV_FLAGS priv, uint64_t cookie,
			   DAT_COMPLETION_FLAGS flags, DAT_RMR_CONTEXT *context)
{
	return rmr_bind(rmr, &triplet, priv, server->ep, cookie_of(cookie), flags, context);
}

/* Posted, and its context. */
static DAT_RMR_CONTEXT bind_posted(DAT_LMR_TRIPLET triplet, DAT_MEM_PRIV_FLAGS priv,
				   uint64_t cookie)
{
	DAT_RMR_CONTEXT context;

	ck_dat(try_bind(triplet, priv, cookie, DAT_COMPLETION_DEFAULT_FLAG, &context));
	return context;
}

static void expect_bind(DAT_RMR_HANDLE handle, uint64_t cookie, DAT_DTO_COMPLETION_STATUS status)
{
	DAT_EVENT event = expect_event(server->request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
	const DAT_RMR_BIND_COMPLETION_EVENT_DATA *bind =
		&event.event_data.rmr_completion_event_data;

	ck_assert_ptr_eq(bind->rmr_handle, handle);
	ck_assert_uint_eq(bind->user_cookie.as_64, cookie);
	ck_assert_int_eq(bind->status, status);
}

static DAT_RMR_CONTEXT bound(DAT_LMR_TRIPLET triplet, DAT_MEM_PRIV_FLAGS priv)
{
	DAT_RMR_CONTEXT context = bind_posted(triplet, priv, 99);

	expect_bind(rmr, 99, DAT_RMR_BIND_SUCCESS);
	return context;
}

static const DAT_LMR_TRIPLET nothing; /* unbinds */

/*
 * A second region of the server's, over the same memory; one that windows can't be bound to, for
 * BY_BOTH.
 */
static DAT_LMR_HANDLE other_lmr(DAT_LMR_CONTEXT *context)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = server->memory };
	DAT_LMR_HANDLE lmr;

	ck_dat(lmr_create(server->ia, DAT_MEM_TYPE_VIRTUAL, region, SIDE_MEMORY, server->pz,
			  DAT_MEM_PRIV_READ_FLAG, &lmr, context, NULL, NULL, NULL));
	return lmr;
}

static DAT_LMR_TRIPLET through(DAT_LMR_CONTEXT context, size_t offset, size_t length)
{
	DAT_LMR_TRIPLET triplet = segment(server, offset, length);

	triplet.lmr_context = context;
	return triplet;
}

enum access { READS, WRITES };

/*
 * What comes of an access by the client, of @length bytes at @offset of the server's memory. A
 * failure ends the connection.
 */
static void access_is(enum access access, DAT_RMR_CONTEXT context, size_t offset, size_t length,
		      DAT_DTO_COMPLETION_STATUS want)
{
	DAT_LMR_TRIPLET local = segment(client, 0, length);
	DAT_RMR_TRIPLET remote = target(server, offset, length);

	remote.rmr_context = context;
	if (access == READS)
		ck_dat(ep_post_rdma_read(client->ep, 1, &local, cookie_of(7), &remote, 0));
	else
		ck_dat(ep_post_rdma_write(client->ep, 1, &local, cookie_of(7), &remote, 0));
	expect_dto(client->request_evd, 7, want);
}

static DAT_RMR_PARAM queried(void)
{
	DAT_RMR_PARAM param;

	memset(&param, 0xff, sizeof(param));
	ck_dat(rmr_query(rmr, DAT_RMR_FIELD_ALL, &param));
	return param;
}

static void check_unbound(void)
{
	DAT_RMR_PARAM param;

	ck_dat_is(rmr_query(rmr, DAT_RMR_FIELD_LMR_TRIPLET, &param), BAD_ARG(2));
	ck_dat(rmr_query(rmr, (DAT_RMR_PARAM_MASK)(DAT_RMR_FIELD_ALL & ~DAT_RMR_FIELD_LMR_TRIPLET),
			 &param));
	ck_assert_ptr_eq(param.ia_handle, server->ia);
	ck_assert_ptr_eq(param.pz_handle, server->pz);
	ck_assert_uint_eq(param.rmr_context, 0);
	ck_assert_uint_eq(param.mem_priv, 0);
	ck_assert_uint_eq(param.lmr_triplet.segment_length, 0);
}

static unsigned pins(DAT_LMR_HANDLE lmr)
{
	return ((struct lmr *)lmr)->obj.uses;
}

static void part(void)
{
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

/* The same endpoints once more. */
static void connect_again(void)
{
	ck_dat(ep_reset(client->ep));
	ck_dat(ep_reset(server->ep));
	connect_eps(client, client->ep, server, server->ep);
}

/* ---- create, query, free ---- */

START_TEST(create_refuses)
{
	DAT_RMR_HANDLE out = POISON;

	side_open(server, "fake1");
	ck_dat_is(rmr_create(DAT_HANDLE_NULL, &out), BAD_HANDLE(PZ));
	ck_dat_is(rmr_create(server->lmr, &out), BAD_HANDLE(PZ));
	ck_dat_is(rmr_create(server->pz, NULL), BAD_ARG(2));
	fake_fail("mw_create", ENOMEM, 1);
	ck_dat_is(rmr_create(server->pz, &out), NO_RESOURCE(MEMORY_REGION));
	ck_assert_ptr_eq(out, POISON);
	side_close(server);
}
END_TEST

START_TEST(is_unbound_at_first)
{
	DAT_HANDLE_TYPE type;
	DAT_RMR_PARAM param;

	open_way(_i, NULL);
	check_unbound();
	ck_dat(handle_type(rmr, &type));
	ck_assert_int_eq(type, DAT_HANDLE_TYPE_RMR);
	ck_dat_is(rmr_query(server->lmr, DAT_RMR_FIELD_ALL, &param), BAD_HANDLE(RMR));
	ck_dat_is(rmr_query(rmr, DAT_RMR_FIELD_IA_HANDLE, NULL), BAD_ARG(3));
	ck_dat_is(rmr_query(rmr, (DAT_RMR_PARAM_MASK)0x20, &param), BAD_ARG(2));
	ck_dat_is(pz_free(server->pz), BAD_STATE(PZ_IN_USE));
	ck_dat(rmr_free(rmr));
	ck_dat_is(rmr_free(rmr), BAD_HANDLE(RMR));
	ck_dat_is(rmr_query(rmr, DAT_RMR_FIELD_ALL, &param), BAD_HANDLE(RMR));
	pair_close(&pair);
}
END_TEST

START_TEST(a_zone_is_held)
{
	side_open(server, "fake1");
	ck_dat(rmr_create(server->pz, &rmr));
	ck_dat(ep_free(server->ep));
	ck_dat(lmr_free(server->lmr));
	ck_dat_is(pz_free(server->pz), BAD_STATE(PZ_IN_USE));
	ck_dat_is(ia_close(server->ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	ck_dat(rmr_free(rmr));
	ck_dat(pz_free(server->pz));
	ck_dat(ia_close(server->ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

/* ---- a bind ---- */

START_TEST(a_bind_is_what_was_asked_for)
{
	const DAT_LMR_TRIPLET range = segment(server, 100, 50);
	DAT_RMR_CONTEXT context;
	DAT_RMR_PARAM param;

	open_way(_i, NULL);
	fake_hold(true);
	context = bind_posted(segment(server, 100, 50), DAT_MEM_PRIV_ALL_FLAG, 5);
	ck_assert_uint_ne(context, 0);
	param = queried(); /* for the consumer it counts from the post on */
	ck_assert_uint_eq(param.lmr_triplet.lmr_context, server->lmr_context);
	ck_assert_uint_eq(param.lmr_triplet.virtual_address, (uintptr_t)server->memory + 100);
	ck_assert_uint_eq(param.lmr_triplet.segment_length, range.segment_length);
	ck_assert_uint_eq(param.mem_priv, REMOTE_BOTH);
	ck_assert_uint_eq(param.rmr_context, context);
	expect_no_event(server->request_evd);
	fake_hold(false);
	expect_bind(rmr, 5, DAT_RMR_BIND_SUCCESS);
	memset(server->memory + 100, 'x', 50);
	access_is(READS, context, 100, 50, DAT_DTO_SUCCESS);
	ck_assert_int_eq(client->memory[49], 'x');
	access_is(WRITES, context, 149, 1, DAT_DTO_SUCCESS);
	ck_dat(rmr_free(rmr));
	pair_close(&pair);
}
END_TEST

static const struct {
	const char *why;
	enum access access;
	DAT_MEM_PRIV_FLAGS priv;
	size_t offset, length;
	DAT_DTO_COMPLETION_STATUS want;
} accesses[] = {
	{ "all of it", READS, REMOTE_BOTH, 100, 50, DAT_DTO_SUCCESS },
	{ "all of it", WRITES, REMOTE_BOTH, 100, 50, DAT_DTO_SUCCESS },
	{ "a byte before", WRITES, REMOTE_BOTH, 99, 50, DAT_DTO_ERR_REMOTE_ACCESS },
	{ "a byte behind", READS, REMOTE_BOTH, 101, 50, DAT_DTO_ERR_REMOTE_ACCESS },
	{ "reading where it may", READS, READ_ONLY, 100, 50, DAT_DTO_SUCCESS },
	{ "writing where it may read", WRITES, READ_ONLY, 100, 50, DAT_DTO_ERR_REMOTE_ACCESS },
	{ "writing where it may", WRITES, WRITE_ONLY, 100, 50, DAT_DTO_SUCCESS },
	{ "reading where it may write", READS, WRITE_ONLY, 100, 50, DAT_DTO_ERR_REMOTE_ACCESS },
	{ "no right at all", READS, DAT_MEM_PRIV_NONE_FLAG, 100, 50, DAT_DTO_ERR_REMOTE_ACCESS },
};

static void access_case(enum way way, int i)
{
	open_way(way, NULL);
	access_is(accesses[i].access, bound(segment(server, 100, 50), accesses[i].priv),
		  accesses[i].offset, accesses[i].length, accesses[i].want);
	close_all();
}

START_TEST(peers_have_its_range_and_rights)
{
	access_case(BY_WINDOW, _i);
}
END_TEST

START_TEST(so_they_have_without_windows)
{
	access_case(BY_REGION, _i);
}
END_TEST

/* A region without a right to write takes no window, but its bytes can be read all the same. */
START_TEST(a_region_that_takes_no_window)
{
	DAT_LMR_CONTEXT context;
	DAT_LMR_HANDLE lmr;
	unsigned regions;

	open_way(BY_BOTH, NULL);
	lmr = other_lmr(&context);
	regions = fake_alive(FAKE_MR);
	access_is(READS, bound(through(context, 100, 50), READ_ONLY), 100, 50, DAT_DTO_SUCCESS);
	ck_assert_uint_eq(fake_alive(FAKE_MR), regions + 1);
	ck_dat(rmr_free(rmr));
	ck_assert_uint_eq(fake_alive(FAKE_MR), regions);
	ck_dat(lmr_free(lmr));
	pair_close(&pair);
}
END_TEST

/* ---- refusals ---- */

enum odd {
	PLAIN,
	NO_RMR,
	NO_EP,
	FOREIGN_EP,
	NO_TRIPLET,
	NO_CONTEXT,
	DEAF_EVD,
	NO_EVD,
	OTHER_PZ,
	OTHER_LMR_PZ,
	LOCAL_NONE
};

static const struct {
	const char *why;
	enum odd odd;
	DAT_EP_STATE state;
	uint32_t garble;
	size_t offset, length;
	unsigned priv, flags;
	DAT_RETURN want;
} refusals[] = {
#define UP DAT_EP_STATE_CONNECTED
	{ "no window", NO_RMR, UP, 0, 0, 8, 0, 0, BAD_HANDLE(RMR) },
	{ "no endpoint", NO_EP, UP, 0, 0, 8, 0, 0, BAD_HANDLE(EP) },
	{ "an endpoint of another IA", FOREIGN_EP, UP, 0, 0, 8, 0, 0, BAD_HANDLE(EP) },
	{ "completions go to an EVD that takes no binds", DEAF_EVD, DAT_EP_STATE_UNCONNECTED, 0, 0,
	  8, 0x100, 0, BAD_HANDLE(EVD_REQUEST) },
	{ "completions go nowhere", NO_EVD, DAT_EP_STATE_UNCONNECTED, 0, 0, 8, 0, 0,
	  BAD_HANDLE(EVD_REQUEST) },
	{ "no triplet", NO_TRIPLET, UP, 0, 0, 8, 0x100, 0, BAD_ARG(2) },
	{ "no room for a context", NO_CONTEXT, UP, 0, 0, 8, 0x100, 0, BAD_ARG(7) },
	{ "context of no region", PLAIN, UP, 0x100000, 0, 8, 0x100, 0, BAD_ARG(2) },
	{ "past the end", PLAIN, UP, 0, SIDE_MEMORY - 7, 8, 0, 0, BAD_ARG(2) },
	{ "before the start", PLAIN, UP, 0, (size_t)-1, 8, 0, 0, BAD_ARG(2) },
	{ "unknown right", PLAIN, UP, 0, 0, 8, 0x40, 0x20, BAD_ARG(3) },
	{ "unknown right, unbinding", PLAIN, UP, 0, 0, 0, 0x40, 0, BAD_ARG(3) },
	{ "solicited", PLAIN, UP, 0, 0, 8, 0, DAT_COMPLETION_SOLICITED_WAIT_FLAG, BAD_ARG(6) },
	{ "unsignalled, which the endpoint is not", PLAIN, DAT_EP_STATE_UNCONNECTED, 0, 0, 8, 0,
	  UNSIGNALLED, BAD_ARG(6) },
	{ "not connected", PLAIN, DAT_EP_STATE_UNCONNECTED, 0, 0, 8, 0, 0,
	  BAD_STATE(EP_UNCONNECTED) },
	{ "not connected, unbinding", PLAIN, DAT_EP_STATE_UNCONNECTED, 0, 0, 0, 0, 0,
	  BAD_STATE(EP_UNCONNECTED) },
	{ "not connected, another zone", OTHER_PZ, DAT_EP_STATE_UNCONNECTED, 0, 0, 8, 0, 0,
	  BAD_STATE(EP_UNCONNECTED) },
	{ "window of another zone", OTHER_PZ, UP, 0, 0, 8, 0, 0,
	  DAT_ERROR(DAT_PROTECTION_VIOLATION, 0) },
	{ "window of another zone, unbinding", OTHER_PZ, UP, 0, 0, 0, 0, 0,
	  DAT_ERROR(DAT_PROTECTION_VIOLATION, 0) },
	{ "region of another zone", OTHER_LMR_PZ, UP, 0, 0, 8, 0, 0,
	  DAT_ERROR(DAT_PROTECTION_VIOLATION, 0) },
	{ "to read what we may not", LOCAL_NONE, UP, 0, 0, 8, DAT_MEM_PRIV_ALL_FLAG, 0,
	  DAT_ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_RDMA_READ) },
	{ "to write what we may not", LOCAL_NONE, UP, 0, 0, 8, WRITE_ONLY, 0,
	  DAT_ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_RDMA_WRITE) },
	{ "to read where we may not, disconnected", LOCAL_NONE, DAT_EP_STATE_DISCONNECTED, 0, 0, 8,
	  READ_ONLY, 0, DAT_ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_RDMA_READ) },
#undef UP
};

/* The endpoint of the case: in the state, or unconnected for the sake of something else. */
static DAT_EP_HANDLE refusing_ep(enum odd odd, DAT_EP_STATE state)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_EP_HANDLE ep = server->ep;

	if (odd == NO_EP)
		return server->lmr;
	if (odd == FOREIGN_EP)
		return client->ep;
	if (odd == DEAF_EVD)
		evd = side_create_evd(server, 8, DAT_EVD_DTO_FLAG);
	if (odd == DEAF_EVD || odd == NO_EVD)
		ck_dat(ep_create(server->ia, server->pz, server->recv_evd, evd, server->connect_evd,
				 NULL, &ep));
	else if (state == DAT_EP_STATE_UNCONNECTED)
		ep = side_create_ep(server, NULL);
	if (state == DAT_EP_STATE_DISCONNECTED)
		part();
	return ep;
}

START_TEST(bind_refuses)
{
	enum odd odd = refusals[_i].odd;
	DAT_RMR_CONTEXT context = 0x5a5a5a5a;
	DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
	DAT_LMR_TRIPLET triplet;
	DAT_PZ_HANDLE other;
	DAT_RMR_PARAM param;
	DAT_EP_HANDLE ep;

	open_way(BY_WINDOW, NULL);
	triplet = segment(server, refusals[_i].offset, refusals[_i].length);
	ck_dat(pz_create(server->ia, &other));
	if (odd == OTHER_PZ)
		ck_dat(rmr_create(other, &rmr));
	if (odd == OTHER_LMR_PZ || odd == LOCAL_NONE)
		ck_dat(lmr_create(server->ia, DAT_MEM_TYPE_VIRTUAL,
				  (DAT_REGION_DESCRIPTION){ .for_va = server->memory }, SIDE_MEMORY,
				  odd == LOCAL_NONE ? server->pz : other,
				  odd == LOCAL_NONE ? REMOTE_BOTH : DAT_MEM_PRIV_ALL_FLAG, &lmr,
				  &triplet.lmr_context, NULL, NULL, NULL));
	triplet.lmr_context ^= refusals[_i].garble;
	ep = refusing_ep(odd, refusals[_i].state);
	ck_dat_is(rmr_bind(odd == NO_RMR ? server->pz : rmr, odd == NO_TRIPLET ? NULL : &triplet,
			   (DAT_MEM_PRIV_FLAGS)refusals[_i].priv, ep, cookie_of(1),
			   (DAT_COMPLETION_FLAGS)refusals[_i].flags,
			   odd == NO_CONTEXT ? NULL : &context),
		  refusals[_i].want);
	ck_assert_uint_eq(context, 0x5a5a5a5a);
	ck_assert_uint_eq(pins(server->lmr), 0);
	if (lmr)
		ck_assert_uint_eq(pins(lmr), 0);
	/* still unbound */
	ck_dat_is(rmr_query(rmr, DAT_RMR_FIELD_LMR_TRIPLET, &param), BAD_ARG(2));
	expect_no_event(server->request_evd);
	close_all();
}
END_TEST

/* The range of an unbind is nobody's business. */
START_TEST(unbinding_looks_at_the_length_only)
{
	const DAT_LMR_TRIPLET garbage = { .lmr_context = 0xdeadbeef, .virtual_address = 0x123 };
	DAT_RMR_CONTEXT context = 5;

	open_way(_i, NULL);
	ck_dat(try_bind(garbage, DAT_MEM_PRIV_ALL_FLAG, 3, DAT_COMPLETION_DEFAULT_FLAG, &context));
	ck_assert_uint_eq(context, 0);
	expect_bind(rmr, 3, DAT_RMR_BIND_SUCCESS);
	check_unbound();
	close_all();
}
END_TEST

START_TEST(binds_count_as_requests)
{
	DAT_EP_ATTR attr;
	DAT_RMR_CONTEXT context = 5;

	side_open(client, "fake0");
	attr = ep_attr_default(client);
	side_close(client);
	attr.max_request_dtos = 2;
	open_way(_i, &attr);
	fake_hold(true);
	post_send(server, 1, 0, 8, 0);
	bind_posted(segment(server, 0, 8), READ_ONLY, 2);
	ck_dat_is(try_bind(segment(server, 8, 8), READ_ONLY, 3, 0, &context), NO_RESOURCE(MEMORY));
	ck_dat_is(try_send(server, 4, 0, 8, 0), NO_RESOURCE(MEMORY));
	ck_assert_uint_eq(context, 5);
	ck_assert_uint_eq(queried().lmr_triplet.virtual_address, (uintptr_t)server->memory);
	ck_assert_uint_eq(pins(server->lmr), 1);
	close_all();
}
END_TEST

/* ---- one after the other ---- */

START_TEST(binds_complete_in_turn)
{
	open_way(_i, NULL);
	fake_hold(true);
	for (unsigned n = 0; n < 4; n++) {
		post_recv(client, n, 0, 8, 0);
		post_send(server, 10 + n, 0, 8, 0);
		bind_posted(segment(server, n, 8), READ_ONLY, 20 + n);
	}
	fake_hold(false);
	for (unsigned n = 0; n < 4; n++) {
		expect_dto(server->request_evd, 10 + n, DAT_DTO_SUCCESS);
		expect_bind(rmr, 20 + n, DAT_RMR_BIND_SUCCESS);
	}
	expect_no_event(server->request_evd);
	close_all();
}
END_TEST

START_TEST(a_rebind_ends_the_one_before)
{
	DAT_RMR_CONTEXT first, second, context;
	DAT_LMR_CONTEXT lmr_context;
	DAT_LMR_HANDLE lmr;

	open_way(_i, NULL);
	lmr = other_lmr(&lmr_context);
	first = bound(segment(server, 0, 64), REMOTE_BOTH);
	ck_assert_uint_eq(pins(server->lmr), 1);
	fake_hold(true);
	second = bind_posted(through(lmr_context, 0, 64), READ_ONLY, 1);
	ck_assert_uint_ne(first, second);
	ck_assert_uint_eq(queried().rmr_context, second);
	/* both until it is done */
	ck_dat_is(lmr_free(server->lmr), BAD_STATE(LMR_IN_USE));
	ck_dat_is(lmr_free(lmr), BAD_STATE(LMR_IN_USE));
	fake_hold(false);
	expect_bind(rmr, 1, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(pins(server->lmr), 0);
	ck_assert_uint_eq(pins(lmr), 1);
	access_is(READS, second, 0, 64, DAT_DTO_SUCCESS);
	ck_dat(lmr_free(server->lmr)); /* the device, too, is done with it */
	server->lmr_context = lmr_context;
	context = bound(through(lmr_context, 8, 8), READ_ONLY);
	access_is(READS, context, 8, 8, DAT_DTO_SUCCESS);
	access_is(READS, first, 0, 64, DAT_DTO_ERR_REMOTE_ACCESS);
	close_all();
}
END_TEST

START_TEST(the_second_context_goes_with_the_third)
{
	DAT_RMR_CONTEXT second;
	DAT_LMR_CONTEXT lmr_context;

	open_way(_i, NULL);
	other_lmr(&lmr_context);
	bound(segment(server, 0, 64), REMOTE_BOTH);
	second = bound(through(lmr_context, 0, 64), READ_ONLY);
	bound(segment(server, 0, 64), REMOTE_BOTH);
	access_is(READS, second, 0, 64, DAT_DTO_ERR_REMOTE_ACCESS);
	close_all();
}
END_TEST

START_TEST(an_unbind_ends_it)
{
	DAT_RMR_CONTEXT context;
	unsigned regions;

	open_way(_i, NULL);
	regions = fake_alive(FAKE_MR);
	context = bound(segment(server, 0, 64), REMOTE_BOTH);
	access_is(WRITES, context, 0, 64, DAT_DTO_SUCCESS);
	ck_assert_uint_eq(bound(nothing, DAT_MEM_PRIV_NONE_FLAG), 0);
	check_unbound();
	ck_assert_uint_eq(pins(server->lmr), 0);
	ck_assert_uint_eq(fake_alive(FAKE_MR), regions);
	access_is(READS, context, 0, 64, DAT_DTO_ERR_REMOTE_ACCESS);
	ck_dat(lmr_free(server->lmr));
	close_all();
}
END_TEST

START_TEST(a_free_ends_it)
{
	DAT_RMR_CONTEXT context;

	open_way(_i, NULL);
	context = bound(segment(server, 0, 64), REMOTE_BOTH);
	ck_dat_is(lmr_free(server->lmr), BAD_STATE(LMR_IN_USE));
	ck_dat(rmr_free(rmr));
	access_is(WRITES, context, 0, 64, DAT_DTO_ERR_REMOTE_ACCESS);
	ck_dat(lmr_free(server->lmr));
	close_all();
}
END_TEST

/* The completion comes, for a handle that is dead; the region is held until then, and the zone. */
START_TEST(freed_in_flight)
{
	DAT_RMR_CONTEXT before, context;
	DAT_RMR_HANDLE dead;
	unsigned regions;

	open_way(_i, NULL);
	regions = fake_alive(FAKE_MR);
	before = bound(segment(server, 0, 64), REMOTE_BOTH);
	fake_hold(true);
	context = bind_posted(segment(server, 64, 64), REMOTE_BOTH, 6);
	ck_assert_uint_ne(before, context);
	dead = rmr;
	ck_dat(rmr_free(rmr));
	ck_dat_is(rmr_free(rmr), BAD_HANDLE(RMR));
	ck_dat_is(lmr_free(server->lmr), BAD_STATE(LMR_IN_USE));
	ck_dat(rmr_create(server->pz, &rmr));
	ck_assert_ptr_ne(rmr, dead);
	fake_hold(false);
	expect_bind(dead, 6, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(pins(server->lmr), 0);
	ck_assert_uint_eq(fake_alive(FAKE_MR), regions);
	access_is(READS, context, 64, 64, DAT_DTO_ERR_REMOTE_ACCESS);
	close_all();
}
END_TEST

/* ---- flags ---- */

START_TEST(a_suppressed_success_is_silent)
{
	DAT_RMR_CONTEXT context;

	open_way(_i, NULL);
	ck_dat(try_bind(segment(server, 0, 64), REMOTE_BOTH, 1, SUPPRESS, &context));
	expect_no_event(server->request_evd);
	ck_assert_uint_eq(pins(server->lmr), 1);
	access_is(READS, context, 0, 64, DAT_DTO_SUCCESS);
	ck_dat(try_bind(nothing, DAT_MEM_PRIV_NONE_FLAG, 2, SUPPRESS, &context));
	expect_no_event(server->request_evd);
	ck_assert_uint_eq(pins(server->lmr), 0);
	check_unbound();
	close_all();
}
END_TEST

/* Nobody takes completions, yet slots come back: what was bound before is dropped each time. */
START_TEST(suppressed_for_ever)
{
	DAT_RMR_CONTEXT context;

	open_way(_i, NULL);
	for (unsigned n = 0; n < 200; n++)
		ck_dat(try_bind(segment(server, n, 64), REMOTE_BOTH, n, SUPPRESS, &context));
	expect_no_event(server->request_evd);
	ck_assert_uint_eq(pins(server->lmr), 1);
	access_is(READS, context, 199, 64, DAT_DTO_SUCCESS);
	close_all();
}
END_TEST

START_TEST(a_suppressed_flush_is_told)
{
	DAT_RMR_CONTEXT context;

	open_way(_i, NULL);
	fake_hold(true);
	ck_dat(try_bind(segment(server, 0, 64), REMOTE_BOTH, 1, SUPPRESS, &context));
	part();
	expect_bind(rmr, 1, DAT_RMR_BIND_FAILURE);
	expect_no_event(server->request_evd);
	close_all();
}
END_TEST

START_TEST(a_suppressed_bind_lets_a_graceful_disconnect_end)
{
	DAT_RMR_CONTEXT context;

	open_way(_i, NULL);
	fake_hold(true);
	ck_dat(try_bind(segment(server, 0, 64), REMOTE_BOTH, 1, SUPPRESS, &context));
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_GRACEFUL_FLAG));
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_DISCONNECT_PENDING);
	fake_hold(false);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_no_event(server->request_evd);
	ck_assert_uint_eq(queried().rmr_context, context);
	close_all();
}
END_TEST

START_TEST(an_unsignalled_bind_wakes_nobody)
{
	DAT_EP_ATTR attr;
	DAT_RMR_CONTEXT context;
	struct waiter waiter;

	side_open(client, "fake0");
	attr = ep_attr_default(client);
	side_close(client);
	attr.request_completion_flags = UNSIGNALLED;
	open_way(_i, &attr);
	waiter = (struct waiter){ .evd = server->request_evd,
				  .timeout = DAT_TIMEOUT_INFINITE,
				  .threshold = 1 };
	waiter_start(&waiter);
	ck_dat(try_bind(segment(server, 0, 64), REMOTE_BOTH, 1, UNSIGNALLED, &context));
	fake_settle(1);
	ck_dat(try_bind(segment(server, 8, 64), REMOTE_BOTH, 2, DAT_COMPLETION_DEFAULT_FLAG,
			&context));
	ck_dat(waiter_join(&waiter));
	ck_assert_uint_eq(waiter.event.event_data.rmr_completion_event_data.user_cookie.as_64, 1);
	ck_assert_int_eq(waiter.nmore, 1);
	close_all();
}
END_TEST

START_TEST(a_barrier_is_a_fence)
{
	DAT_RMR_CONTEXT context;

	open_way(_i, NULL);
	ck_dat(try_bind(segment(server, 0, 64), REMOTE_BOTH, 1, BARRIER, &context));
	ck_assert_uint_eq(fake_seen().post_flags, TP_POST_FENCE | TP_POST_SIGNAL);
	ck_dat(try_bind(segment(server, 0, 64), REMOTE_BOTH, 1, SUPPRESS, &context));
	ck_assert_uint_eq(fake_seen().post_flags, TP_POST_SIGNAL);
	close_all();
}
END_TEST

/* ---- flushed, failed, refused ---- */

/*
 * Neither of two binds happened: the window is what it was, and so is what the device thinks of it.
 */
START_TEST(a_flush_restores)
{
	DAT_RMR_CONTEXT context, after;
	DAT_LMR_CONTEXT lmr_context;
	DAT_LMR_HANDLE lmr;
	unsigned regions;

	open_way(_i, NULL);
	lmr = other_lmr(&lmr_context);
	context = bound(segment(server, 16, 64), REMOTE_BOTH);
	regions = fake_alive(FAKE_MR);
	fake_hold(true);
	bind_posted(through(lmr_context, 0, 64), READ_ONLY, 1);
	bind_posted(nothing, READ_ONLY, 2);
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_bind(rmr, 1, DAT_RMR_BIND_FAILURE);
	expect_bind(rmr, 2, DAT_RMR_BIND_FAILURE);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_assert_uint_eq(queried().rmr_context, context);
	ck_assert_uint_eq(queried().lmr_triplet.virtual_address, (uintptr_t)server->memory + 16);
	ck_assert_uint_eq(pins(server->lmr), 1);
	ck_assert_uint_eq(fake_alive(FAKE_MR), regions);
	ck_dat(lmr_free(lmr));
	fake_hold(false);
	connect_again(); /* it survives the connection that bound it */
	access_is(READS, context, 16, 64, DAT_DTO_SUCCESS);
	after = bound(segment(server, 0, 64), REMOTE_BOTH);
	access_is(READS, after, 0, 64, DAT_DTO_SUCCESS);
	access_is(READS, context, 16, 64, DAT_DTO_ERR_REMOTE_ACCESS);
	close_all();
}
END_TEST

START_TEST(disconnected_means_flushed)
{
	DAT_RMR_CONTEXT context;

	open_way(_i, NULL);
	context = bound(segment(server, 16, 64), REMOTE_BOTH);
	part();
	ck_assert_uint_eq(bind_posted(segment(server, 0, 64), REMOTE_BOTH, 8), 0);
	expect_bind(rmr, 8, DAT_RMR_BIND_FAILURE);
	ck_assert_uint_eq(queried().rmr_context, context);
	ck_assert_uint_eq(pins(server->lmr), 1);
	close_all();
}
END_TEST

static const DAT_DTO_COMPLETION_STATUS failures[] = { DAT_RMR_OPERATION_FAILED,
						      DAT_DTO_ERR_TRANSPORT, DAT_DTO_ERR_LOCAL_EP };

/*
 * The window is bound to nothing, for the device, too; what follows is flushed; and it can be bound
 * anew.
 */
static void failed_case(enum way way, DAT_DTO_COMPLETION_STATUS status)
{
	DAT_RMR_CONTEXT before, after;

	open_way(way, NULL);
	before = bound(segment(server, 16, 64), REMOTE_BOTH);
	fake_hold(true);
	bind_posted(segment(server, 0, 64), REMOTE_BOTH, 1);
	bind_posted(segment(server, 8, 64), REMOTE_BOTH, 2);
	fake_fail_transfer(status);
	ck_assert(fake_step());
	expect_bind(rmr, 1, DAT_RMR_OPERATION_FAILED);
	expect_bind(rmr, 2, DAT_RMR_BIND_FAILURE);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
	check_unbound();
	ck_assert_uint_eq(pins(server->lmr), 0);
	fake_hold(false);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	connect_again();
	after = bound(segment(server, 0, 64), REMOTE_BOTH);
	ck_assert_uint_eq(fake_alive(FAKE_MW), way == BY_REGION ? 0 : 1);
	access_is(READS, after, 0, 64, DAT_DTO_SUCCESS);
	access_is(READS, before, 16, 64, DAT_DTO_ERR_REMOTE_ACCESS);
	ck_dat(rmr_free(rmr));
	ck_dat(lmr_free(server->lmr));
	close_all();
}

START_TEST(a_failed_bind_unbinds)
{
	failed_case(_i % WAYS, failures[_i / WAYS]);
}
END_TEST

START_TEST(a_window_that_can_not_be_replaced)
{
	DAT_RMR_CONTEXT context = 5;

	open_way(BY_WINDOW, NULL);
	fake_fail_transfer(DAT_RMR_OPERATION_FAILED);
	bind_posted(segment(server, 0, 64), REMOTE_BOTH, 1);
	expect_bind(rmr, 1, DAT_RMR_OPERATION_FAILED);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	connect_again();
	fake_fail("mw_create", ENOMEM, 1);
	ck_dat_is(try_bind(segment(server, 0, 64), REMOTE_BOTH, 2, 0, &context),
		  NO_RESOURCE(MEMORY_REGION));
	ck_assert_uint_eq(context, 5);
	ck_assert_uint_eq(pins(server->lmr), 0);
	bound(segment(server, 0, 64), REMOTE_BOTH);
	close_all();
}
END_TEST

START_TEST(a_refused_post_did_not_happen)
{
	const char *call = _i == BY_REGION ? "post_write" : "post_bind";
	DAT_RMR_CONTEXT before, context = 5;
	unsigned regions;

	open_way(_i, NULL);
	before = bound(segment(server, 16, 64), REMOTE_BOTH);
	regions = fake_alive(FAKE_MR);
	fake_fail(call, ENOMEM, 1);
	ck_dat_is(try_bind(segment(server, 0, 64), REMOTE_BOTH, 2, 0, &context),
		  NO_RESOURCE(MEMORY));
	ck_assert_uint_eq(context, 5);
	ck_assert_uint_eq(queried().rmr_context, before);
	ck_assert_uint_eq(pins(server->lmr), 1);
	ck_assert_uint_eq(fake_alive(FAKE_MR), regions);
	expect_no_event(server->request_evd);
	bound(segment(server, 0, 64), REMOTE_BOTH);
	close_all();
}
END_TEST

START_TEST(every_failure_unwinds)
{
	DAT_RMR_CONTEXT context = 5;
	unsigned n;

	open_way(_i, NULL);
	ck_dat(rmr_free(rmr));
	rmr = POISON;
	for (n = 1; fake_fail_call(n), rmr_create(server->pz, &rmr) != DAT_SUCCESS; n++) {
		ck_assert_ptr_eq(rmr, POISON);
		ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	}
	for (n = 1; fake_fail_call(n),
	    try_bind(segment(server, 0, 64), REMOTE_BOTH, 2, 0, &context) != DAT_SUCCESS;
	     n++) {
		ck_assert_uint_eq(context, 5);
		check_unbound();
		ck_assert_uint_eq(pins(server->lmr), 0);
		ck_assert_uint_eq(fake_alive(FAKE_MR), 2); /* of client and server */
	}
	ck_assert_uint_gt(n, 1);
	fake_fail_call(0);
	expect_bind(rmr, 2, DAT_RMR_BIND_SUCCESS);
	ck_dat(rmr_free(rmr));
	pair_close(&pair);
}
END_TEST

/* ---- what goes before the window ---- */

/* Completions of a dead endpoint may be there or not. */
static void empty(DAT_EVD_HANDLE evd)
{
	DAT_EVENT event;

	fake_settle(0);
	while (evd_dequeue(evd, &event) == DAT_SUCCESS)
		ck_assert_int_eq(event.event_number, DAT_RMR_BIND_COMPLETION_EVENT);
}

/* In flight, or done and not taken: what became of the bind still counts. */
static void endpoint_freed(enum way way, unsigned quirks, bool held)
{
	DAT_RMR_CONTEXT before, context;

	open_way(way, NULL);
	before = bound(segment(server, 16, 64), REMOTE_BOTH);
	fake_quirks(quirks | (way == BY_BOTH ? FAKE_UNBINDABLE : 0));
	fake_hold(held);
	context = bind_posted(segment(server, 0, 64), REMOTE_BOTH, 1);
	ck_dat(ep_free(server->ep));
	fake_hold(false);
	ck_assert_uint_eq(queried().rmr_context, held ? before : context);
	ck_assert_uint_eq(pins(server->lmr), 1);
	empty(server->request_evd);
	/* another endpoint of the zone serves it as well, and can bind it */
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	server->ep = side_create_ep(server, NULL);
	connect_again();
	access_is(READS, held ? before : context, held ? 16 : 0, 64, DAT_DTO_SUCCESS);
	access_is(READS, bound(segment(server, 8, 8), REMOTE_BOTH), 8, 8, DAT_DTO_SUCCESS);
	ck_dat(rmr_free(rmr));
	ck_dat(lmr_free(server->lmr));
	close_all();
}

static const unsigned leavings[] = { 0, FAKE_DROPS_CQES, FAKE_LATE_FLUSH };

START_TEST(outlives_an_endpoint_with_a_bind_in_flight)
{
	endpoint_freed(_i % WAYS, leavings[_i / WAYS], true);
}
END_TEST

START_TEST(outlives_an_endpoint_with_a_bind_done)
{
	endpoint_freed(_i % WAYS, leavings[_i / WAYS], false);
}
END_TEST

START_TEST(goes_with_its_ia)
{
	open_way(_i, NULL);
	bound(segment(server, 0, 64), REMOTE_BOTH);
	fake_hold(true);
	bind_posted(segment(server, 8, 64), REMOTE_BOTH, 1);
	bind_posted(nothing, REMOTE_BOTH, 2);
	ck_dat_is(ia_close(server->ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	close_all();
}
END_TEST

START_TEST(freed_in_flight_and_then_the_endpoint)
{
	open_way(_i, NULL);
	bound(segment(server, 0, 64), REMOTE_BOTH);
	fake_hold(true);
	bind_posted(segment(server, 8, 64), REMOTE_BOTH, 1);
	ck_dat(rmr_free(rmr));
	ck_dat(ep_free(server->ep));
	ck_dat(lmr_free(server->lmr));
	ck_dat(pz_free(server->pz));
	close_all();
}
END_TEST

/* What the device keeps, peers keep: so its LMR is in use, until the device lets go. */
START_TEST(a_region_that_the_device_keeps)
{
	DAT_RMR_CONTEXT old;

	open_way(BY_REGION, NULL);
	old = bound(segment(server, 0, 64), REMOTE_BOTH);
	fake_fail("mr_dereg", EIO, 1);
	bound(nothing, DAT_MEM_PRIV_NONE_FLAG);
	ck_assert_uint_eq(pins(server->lmr), 1);
	fake_fail("mr_dereg", EIO, 1);
	ck_dat_is(lmr_free(server->lmr), BAD_STATE(LMR_IN_USE));
	ck_assert_uint_eq(pins(server->lmr), 1);
	ck_dat(lmr_free(server->lmr));
	access_is(WRITES, old, 0, 64, DAT_DTO_ERR_REMOTE_ACCESS);
	close_all();
}
END_TEST

START_TEST(nor_does_that_hinder_a_close)
{
	struct lmr *lmr;

	open_way(BY_REGION, NULL);
	bound(segment(server, 0, 64), REMOTE_BOTH);
	lmr = server->lmr;
	fake_fail("mr_dereg", EIO, 1);
	bound(nothing, DAT_MEM_PRIV_NONE_FLAG);
	fake_fail("mr_dereg", EIO, 1);
	ck_dat(ia_close(server->ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat(ia_close(client->ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
	ck_assert_uint_eq(atomic_load(&lmr->obj.uses), OBJ_RETIRED);
}
END_TEST

/* With window and endpoint gone before, the close is the last to try. */
START_TEST(kept_until_the_close)
{
	struct lmr *lmr;

	open_way(BY_REGION, NULL);
	bound(segment(server, 0, 64), REMOTE_BOTH);
	lmr = server->lmr;
	fake_fail("mr_dereg", EIO, 1);
	bound(nothing, DAT_MEM_PRIV_NONE_FLAG);
	fake_fail("mr_dereg", EIO, 1);
	ck_dat(rmr_free(rmr));
	fake_fail("mr_dereg", EIO, 1);
	ck_dat(ep_free(server->ep));
	ck_assert_uint_eq(fake_alive(FAKE_MR), 3);
	close_all();
	ck_assert_uint_eq(atomic_load(&lmr->obj.uses), OBJ_RETIRED);
}
END_TEST

/* ---- who comes late ---- */

/* By then the binding is gone, or has another bind. */
START_TEST(flushed_once_more_by_the_device)
{
	open_way(_i, NULL);
	fake_quirks(FAKE_LATE_FLUSH | (_i == BY_BOTH ? FAKE_UNBINDABLE : 0));
	fake_hold(true);
	bind_posted(segment(server, 0, 64), REMOTE_BOTH, 1);
	part();
	expect_bind(rmr, 1, DAT_RMR_BIND_FAILURE);
	ck_dat(rmr_free(rmr));
	ck_assert(fake_step());
	expect_no_event(server->request_evd);
	ck_dat(lmr_free(server->lmr));
	close_all();
}
END_TEST

/* ---- several endpoints ---- */

/* Another connection between the two. */
static DAT_EP_HANDLE other_ep(const DAT_EP_ATTR *attr)
{
	DAT_EP_HANDLE ep = side_create_ep(server, attr);

	connect_eps(client, side_create_ep(client, NULL), server, ep);
	return ep;
}

static DAT_RETURN try_bind_on(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET triplet, uint64_t cookie,
			      DAT_RMR_CONTEXT *context)
{
	return rmr_bind(rmr, &triplet, READ_ONLY, ep, cookie_of(cookie), 0, context);
}

/* From here on the service thread takes nothing out of the queues of the server, until it may. */
static void service_waits(bool waits)
{
	struct ia *ia = server->ia;

	if (waits)
		mutex_lock(&ia->lock);
	else
		mutex_unlock(&ia->lock);
}

/*
 * The look for room finds the failure, and with it goes the window that the next bind was to move.
 */
START_TEST(a_window_lost_on_the_way_to_the_post)
{
	DAT_RMR_CONTEXT context = 5;
	DAT_LMR_TRIPLET range, iov;
	DAT_RMR_TRIPLET remote;
	DAT_EP_ATTR attr;
	DAT_EP_HANDLE ep;
	DAT_RETURN ret;

	open_way(_i % WAYS, NULL);
	attr = ep_attr_default(server);
	attr.max_request_dtos = 1;
	ep = other_ep(&attr);
	range = _i < WAYS ? segment(server, 8, 8) : nothing;
	iov = segment(server, 0, 8);
	remote = target(client, 0, 8);
	bound(segment(server, 0, 64), REMOTE_BOTH);
	ck_dat(ep_post_rdma_write(ep, 1, &iov, cookie_of(2), &remote, 0));
	fake_hold(true);
	service_waits(true);
	bind_posted(segment(server, 0, 64), REMOTE_BOTH, 1);
	fake_fail_transfer(DAT_RMR_OPERATION_FAILED);
	ck_assert(fake_step());
	ret = try_bind_on(ep, range, 3, &context);
	service_waits(false);
	fake_hold(false);
	expect_dto(server->request_evd, 2, DAT_DTO_SUCCESS);
	expect_bind(rmr, 1, DAT_RMR_OPERATION_FAILED);
	if (ret == DAT_SUCCESS) {
		expect_bind(rmr, 3, DAT_RMR_BIND_SUCCESS);
	} else {
		ck_dat_is(ret, NO_RESOURCE(MEMORY)); /* of the window; the next bind has another */
		ck_assert_uint_eq(context, 5);
		check_unbound();
	}
	ck_assert_uint_eq(pins(server->lmr), ret == DAT_SUCCESS && range.segment_length ? 1 : 0);
	ck_dat(try_bind_on(ep, segment(server, 16, 8), 4, &context));
	expect_bind(rmr, 4, DAT_RMR_BIND_SUCCESS);
	close_all();
}
END_TEST

/*
 * Likewise, with a third endpoint where a bind that came in between is in flight: the window it is
 * to move is gone.
 */
START_TEST(a_window_lost_by_several)
{
	DAT_RMR_CONTEXT context = 5;
	DAT_EP_HANDLE ep, third;
	DAT_LMR_TRIPLET iov;
	DAT_RMR_TRIPLET remote;
	DAT_EP_ATTR attr;

	open_way(BY_WINDOW, NULL);
	attr = ep_attr_default(server);
	attr.max_request_dtos = 1;
	ep = other_ep(&attr);
	third = other_ep(NULL);
	iov = segment(server, 0, 8);
	remote = target(client, 0, 8);
	ck_dat(ep_post_rdma_write(ep, 1, &iov, cookie_of(2), &remote, 0));
	fake_hold(true);
	service_waits(true);
	bind_posted(segment(server, 0, 64), REMOTE_BOTH, 1);
	ck_dat(try_bind_on(third, segment(server, 8, 8), 3, &context));
	fake_fail_transfer(DAT_RMR_OPERATION_FAILED);
	ck_assert(fake_step());
	if (_i)
		ck_dat_is(try_bind_on(ep, segment(server, 16, 8), 4, &context),
			  NO_RESOURCE(MEMORY));
	else
		ck_dat(try_bind_on(ep, nothing, 4, &context));
	service_waits(false);
	fake_hold(false);
	expect_dto(server->request_evd, 2, DAT_DTO_SUCCESS);
	empty(server->request_evd);
	check_unbound();
	ck_assert_uint_eq(pins(server->lmr), 0);
	ck_dat(try_bind_on(ep, segment(server, 16, 8), 5, &context));
	expect_bind(rmr, 5, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 1);
	close_all();
}
END_TEST

/*
 * A bind behind the one that failed is not over yet when the window is replaced, and the new window
 * goes unused.
 */
START_TEST(a_new_window_while_old_binds_are_in_flight)
{
	DAT_RMR_CONTEXT context = 5;
	DAT_EP_HANDLE ep;
	DAT_EVENT event;

	open_way(_i, NULL);
	ep = other_ep(NULL);
	bound(segment(server, 0, 64), REMOTE_BOTH);
	fake_hold(true);
	service_waits(true);
	bind_posted(segment(server, 0, 64), REMOTE_BOTH, 1);
	bind_posted(segment(server, 8, 64), REMOTE_BOTH, 2);
	fake_fail_transfer(DAT_RMR_OPERATION_FAILED);
	ck_assert(fake_step());
	ck_dat(evd_dequeue(server->request_evd, &event));
	ck_assert_int_eq(event.event_data.rmr_completion_event_data.status,
			 DAT_RMR_OPERATION_FAILED);
	fake_fail(_i == BY_REGION ? "post_write" : "post_bind", ENOMEM, 1);
	ck_dat_is(try_bind_on(ep, segment(server, 16, 8), 3, &context), NO_RESOURCE(MEMORY));
	service_waits(false);
	fake_hold(false);
	expect_bind(rmr, 2, DAT_RMR_BIND_FAILURE);
	check_unbound();
	ck_dat(try_bind_on(ep, segment(server, 16, 8), 4, &context));
	expect_bind(rmr, 4, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(pins(server->lmr), 1);
	close_all();
}
END_TEST

/* A bind that came through on another endpoint stands by itself, if it has a region of its own. */
START_TEST(a_failure_is_of_no_concern_to_a_region)
{
	DAT_EVD_HANDLE usual, other;
	DAT_RMR_CONTEXT context;
	DAT_EP_HANDLE ep;

	open_way(BY_REGION, NULL);
	usual = server->request_evd;
	ck_dat(evd_create(server->ia, 16, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG,
			  &other));
	server->request_evd = other;
	ep = other_ep(NULL);
	server->request_evd = usual;
	bound(segment(server, 0, 64), REMOTE_BOTH);
	fake_hold(true);
	service_waits(true);
	bind_posted(segment(server, 8, 64), REMOTE_BOTH, 1);
	ck_dat(try_bind_on(ep, segment(server, 16, 8), 2, &context));
	fake_fail_transfer(DAT_RMR_OPERATION_FAILED);
	ck_assert(fake_step());
	ck_assert(fake_step());
	server->request_evd = other;
	expect_bind(rmr, 2, DAT_RMR_BIND_SUCCESS);
	server->request_evd = usual;
	ck_assert_uint_eq(pins(server->lmr), 2);
	service_waits(false);
	fake_hold(false);
	expect_bind(rmr, 1, DAT_RMR_OPERATION_FAILED);
	ck_assert_uint_eq(pins(server->lmr), 1);
	ck_assert_uint_eq(((struct rmr *)rmr)->latest->region_key, context);
	ck_assert_ptr_eq(((struct rmr *)rmr)->latest, ((struct rmr *)rmr)->bindings);
	close_all();
}
END_TEST

/* Nobody takes completions, and the device has not many regions. */
START_TEST(suppressed_for_ever_keeps_nothing)
{
	DAT_RMR_CONTEXT context;
	unsigned spares = 0;

	fake_attr()->max_mr = 300;
	open_way(_i, NULL);
	for (unsigned n = 0; n < 2000; n++)
		ck_dat(try_bind(segment(server, n, 64), REMOTE_BOTH, n, SUPPRESS, &context));
	expect_no_event(server->request_evd);
	ck_assert_uint_le(fake_alive(FAKE_MR), 3);
	for (struct binding *spare = ((struct rmr *)rmr)->spares; spare; spare = spare->spare)
		spares++;
	ck_assert_uint_le(spares, 300);
	close_all();
}
END_TEST

/* ---- what a bind leaves behind ---- */

static void leave_to_service_thread(void)
{
	DAT_CNO_HANDLE cno;

	ck_dat(cno_create(server->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(evd_modify_cno(server->request_evd, cno));
}

/* Who takes the completion, and how. */
static const struct {
	const char *how;
	bool waits, sleeps, drained;
} takings[] = {
	{ "dequeue", false, false, false },
	{ "wait", true, false, false },
	{ "wait, asleep", true, true, false },
	{ "dequeue of what the service thread has queued", false, false, true },
	{ "wait for what the service thread has queued", true, false, true },
};

/* The old region is gone, and all that it held is free, when the consumer hears of the bind. */
static void left_case(enum way way, int i, DAT_LMR_TRIPLET range, bool suppressed)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };
	unsigned regions = fake_alive(FAKE_MR);
	DAT_RMR_CONTEXT context;
	DAT_EVENT event;
	DAT_COUNT nmore;

	if (way == BY_BOTH) /* what goes is a region, and the window comes back */
		regions -= 1;
	waiter.evd = server->request_evd;
	if (takings[i].drained)
		leave_to_service_thread();
	fake_hold(takings[i].sleeps);
	if (takings[i].sleeps)
		waiter_start(&waiter);
	if (suppressed)
		ck_dat(try_bind(range, READ_ONLY, 1, SUPPRESS, &context));
	ck_dat(try_bind(suppressed ? nothing : range, READ_ONLY, 2, DAT_COMPLETION_DEFAULT_FLAG,
			&context));
	if (takings[i].sleeps) {
		fake_hold(false);
		ck_dat(waiter_join(&waiter));
		event = waiter.event;
	} else if (takings[i].waits) {
		fake_settle(0);
		ck_dat(evd_wait(server->request_evd, 0, 1, &event, &nmore));
	} else {
		fake_settle(0);
		ck_dat(evd_dequeue(server->request_evd, &event));
	}
	ck_assert_uint_eq(event.event_data.rmr_completion_event_data.user_cookie.as_64, 2);
	if (way == BY_REGION && (suppressed || !range.segment_length))
		regions -= 1;
	ck_assert_uint_eq(fake_alive(FAKE_MR), regions);
}

START_TEST(regions_go_before_the_completion_is_seen)
{
	enum way way = _i % 2 ? BY_BOTH : BY_REGION;
	DAT_LMR_CONTEXT lmr_context;
	DAT_LMR_HANDLE lmr;

	open_way(way, NULL);
	lmr = other_lmr(&lmr_context);
	bound(through(lmr_context, 0, 64), READ_ONLY);
	left_case(way, _i / 4, segment(server, 0, 64), _i / 2 % 2);
	ck_dat(lmr_free(lmr));
	if (_i / 2 % 2 == 0) {
		ck_dat_is(lmr_free(server->lmr), BAD_STATE(LMR_IN_USE));
		ck_dat(rmr_free(rmr));
	}
	ck_dat(lmr_free(server->lmr));
	close_all();
}
END_TEST

/* A zone is free as soon as the last completion of a window that went in flight is seen. */
START_TEST(a_zone_goes_after_the_completion)
{
	DAT_PZ_HANDLE zone;

	open_way(_i, NULL);
	zone = server->pz;
	bound(segment(server, 0, 64), REMOTE_BOTH);
	fake_hold(true);
	bind_posted(segment(server, 8, 64), REMOTE_BOTH, 1);
	ck_dat(rmr_free(rmr));
	fake_hold(false);
	leave_to_service_thread();
	fake_settle(0);
	ck_dat_is(pz_free(zone), BAD_STATE(PZ_IN_USE));
	expect_bind(rmr, 1, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	ck_assert_uint_eq(fake_alive(FAKE_MR), 2);
	ck_dat(ep_free(server->ep));
	ck_dat(lmr_free(server->lmr));
	ck_dat(pz_free(zone));
	close_all();
}
END_TEST

static bool has_leftovers(struct ia *ia)
{
	bool has;

	spin_lock(&ia->lmr_lock);
	has = ia->leftovers;
	spin_unlock(&ia->lmr_lock);
	return has;
}

/* Drained, but nobody has taken the events. */
START_TEST(a_close_takes_what_is_left)
{
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT context;

	open_way(_i % WAYS, NULL);
	other_lmr(&lmr_context);
	for (unsigned n = 0; n < 4; n++)
		bind_posted(n % 2 ? segment(server, n, 8) : through(lmr_context, n, 8), READ_ONLY,
			    n);
	if (_i >= WAYS) {
		fake_fail_transfer(DAT_RMR_OPERATION_FAILED);
		ck_dat(try_bind(segment(server, 0, 8), READ_ONLY, 4, 0, &context));
	}
	ck_assert(evd_drain(server->request_evd));
	ck_assert(_i == BY_WINDOW || has_leftovers(server->ia));
	close_all();
}
END_TEST

/* A thread in dat_evd_wait comes to sweep while the close goes on around it. */
START_TEST(a_close_meets_a_sweeper)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 60 };

	for (int round = 0; round < 10; round++) {
		open_way(_i, NULL);
		waiter.evd = server->request_evd;
		bound(segment(server, 0, 64), REMOTE_BOTH);
		waiter_start(&waiter);
		for (unsigned n = 0; n < 8; n++)
			bind_posted(segment(server, n, 8), READ_ONLY, n);
		ck_dat(ia_close(server->ia, DAT_CLOSE_ABRUPT_FLAG));
		ck_dat_is(waiter_join(&waiter), DAT_ERROR(DAT_ABORT, 0));
		ck_dat(ia_close(client->ia, DAT_CLOSE_ABRUPT_FLAG));
		ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
		free(client->memory);
		free(server->memory);
		pair = (struct pair){ 0 };
	}
}
END_TEST

static _Atomic bool may_take, may_free;
static DAT_RETURN freed;

static void wait_for(const _Atomic bool *word)
{
	while (!atomic_load(word))
		sched_yield();
}

static void *free_lmr(void *lmr)
{
	wait_for(&may_free);
	freed = lmr_free(lmr);
	return NULL;
}

static void *take_event(void *evd)
{
	DAT_EVENT event;

	wait_for(&may_take);
	ck_dat(evd_dequeue(evd, &event));
	return NULL;
}

/* Threads come one after the other: the device keeps the first one waiting for its region. */
START_TEST(who_sweeps_second_waits_for_the_first)
{
	pthread_t taker, freer;

	open_way(BY_REGION, NULL);
	bound(segment(server, 0, 64), REMOTE_BOTH);
	bind_posted(nothing, 0, 1);
	ck_assert(evd_drain(server->request_evd));
	fake_settle(0);
	ck_assert(has_leftovers(server->ia));
	taker = consumer_thread_start(take_event, server->request_evd);
	freer = consumer_thread_start(free_lmr, server->lmr);
	pthread_mutex_lock(&fake.lock);
	atomic_store(&may_take, true);
	while (has_leftovers(server->ia))
		sched_yield();
	atomic_store(&may_free, true);
	for (int n = 0; n < 1000; n++)
		sched_yield(); /* enough for one that does not wait to go wrong */
	pthread_mutex_unlock(&fake.lock);
	consumer_thread_end(taker);
	consumer_thread_end(freer);
	ck_dat(freed);
	close_all();
}
END_TEST

/* ---- failures, one after the other ---- */

static const struct {
	const char *how;
	bool elsewhere, unbinds;
	DAT_COMPLETION_FLAGS flags;
} rebinds[] = {
	{ "within the region", false, false, 0 },
	{ "to another region", true, false, 0 },
	{ "within the region, suppressed", false, false, SUPPRESS },
	{ "to another region, behind a fence", true, false, BARRIER },
	{ "to nothing", false, true, 0 },
};

/* Whatever fails, the window is where it was, and can go where it was to go. */
START_TEST(every_failure_of_a_rebind_unwinds)
{
	const int how = _i / WAYS;
	DAT_RMR_CONTEXT before, context = 5;
	DAT_LMR_CONTEXT lmr_context;
	DAT_LMR_TRIPLET range;
	DAT_LMR_HANDLE lmr;
	unsigned regions, windows, n;

	open_way(_i % WAYS, NULL);
	lmr = other_lmr(&lmr_context);
	bound(segment(server, 0, 64), READ_ONLY);
	before = bound(segment(server, 16, 64), READ_ONLY); /* so that spares have been used */
	range = rebinds[how].unbinds	 ? nothing
		: rebinds[how].elsewhere ? through(lmr_context, 8, 8)
					 : segment(server, 8, 8);
	regions = fake_alive(FAKE_MR);
	windows = fake_alive(FAKE_MW);
	for (n = 1; fake_fail_call(n),
	    try_bind(range, READ_ONLY, 2, rebinds[how].flags, &context) != DAT_SUCCESS;
	     n++) {
		ck_assert_uint_eq(context, 5);
		ck_assert_uint_eq(queried().rmr_context, before);
		ck_assert_uint_eq(pins(server->lmr), 1);
		ck_assert_uint_eq(pins(lmr), 0);
		ck_assert_uint_eq(fake_alive(FAKE_MR), regions);
		ck_assert_uint_eq(fake_alive(FAKE_MW), windows);
		access_is(READS, before, 16, 64, DAT_DTO_SUCCESS);
	}
	ck_assert_uint_gt(n, 1);
	fake_fail_call(0);
	if (rebinds[how].flags == SUPPRESS)
		expect_no_event(server->request_evd);
	else
		expect_bind(rmr, 2, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(pins(server->lmr), !rebinds[how].elsewhere && !rebinds[how].unbinds);
	ck_assert_uint_eq(pins(lmr), rebinds[how].elsewhere);
	if (!rebinds[how].unbinds)
		access_is(READS, context, 8, 8, DAT_DTO_SUCCESS);
	ck_dat(rmr_free(rmr));
	ck_dat(lmr_free(lmr));
	ck_dat(lmr_free(server->lmr));
	close_all();
}
END_TEST

/* ---- freed, with binds in flight on several endpoints ---- */

/* Endpoint by endpoint they are carried out, or go with it; the window goes with the last one. */
START_TEST(freed_in_flight_on_several_endpoints)
{
	const unsigned fate = _i / WAYS; /* a bit for each of them: it is freed */
	DAT_RMR_CONTEXT context;
	DAT_EP_HANDLE eps[3];

	open_way(_i % WAYS, NULL);
	eps[0] = server->ep;
	eps[1] = other_ep(NULL);
	eps[2] = other_ep(NULL);
	bound(segment(server, 0, 64), REMOTE_BOTH);
	fake_hold(true);
	for (int n = 0; n < COUNT(eps); n++)
		ck_dat(try_bind_on(eps[n], segment(server, 8, 8), n, &context));
	ck_dat(rmr_free(rmr));
	ck_dat_is(lmr_free(server->lmr), BAD_STATE(LMR_IN_USE));
	for (int n = COUNT(eps) - 1; n >= 0; n--)
		if (fate & 1u << n)
			ck_dat(ep_free(eps[n]));
	if (fate != 7)
		ck_dat_is(lmr_free(server->lmr), BAD_STATE(LMR_IN_USE));
	fake_hold(false);
	empty(server->request_evd);
	for (int n = 0; n < COUNT(eps); n++)
		if (!(fate & 1u << n))
			ck_dat(ep_free(eps[n]));
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	ck_dat(lmr_free(server->lmr));
	ck_dat(pz_free(server->pz));
	close_all();
}
END_TEST

/* ---- threads ---- */

#define BINDERS 4
#define ROUNDS	150

struct binder {
	struct side *side;
	DAT_EP_HANDLE ep;
	DAT_RMR_HANDLE rmr;
	unsigned asked;
	_Atomic unsigned told;
};

static struct binder binders[BINDERS];
static _Atomic bool over;

/* All are taken by two threads for each queue; a completion that is seen frees what it replaced. */
static void *take_for_ever(void *evd)
{
	DAT_RETURN ret;
	DAT_COUNT nmore;
	DAT_EVENT event;

	for (unsigned n = 0; !atomic_load(&over); n++) {
		ret = n % 2 ? evd_dequeue(evd, &event) : evd_wait(evd, 0, 1, &event, &nmore);
		if (ret == DAT_SUCCESS) {
			DAT_RMR_BIND_COMPLETION_EVENT_DATA *bind =
				&event.event_data.rmr_completion_event_data;
			struct binder *binder = bind->user_cookie.as_ptr;

			ck_assert_int_eq(event.event_number, DAT_RMR_BIND_COMPLETION_EVENT);
			ck_assert_int_eq(bind->status, DAT_RMR_BIND_SUCCESS);
			atomic_fetch_add(&binder->told, 1);
		} else {
			sched_yield();
		}
	}
	return NULL;
}

static void binds(struct binder *binder, DAT_LMR_CONTEXT lmr_context, size_t offset, size_t length,
		  DAT_COMPLETION_FLAGS flags)
{
	const DAT_RMR_COOKIE cookie = { .as_ptr = binder };
	DAT_LMR_TRIPLET range = segment(binder->side, offset, length);
	DAT_RMR_CONTEXT context;

	range.lmr_context = lmr_context;
	ck_dat(rmr_bind(binder->rmr, &range, READ_ONLY, binder->ep, cookie, flags, &context));
	binder->asked += !(flags & SUPPRESS);
}

static void hears(struct binder *binder)
{
	while (atomic_load(&binder->told) != binder->asked)
		sched_yield();
}

static void *bind_for_ever(void *arg)
{
	struct binder *binder = arg;
	const DAT_REGION_DESCRIPTION region = { .for_va = binder->side->memory };

	for (unsigned n = 0; n < ROUNDS; n++) {
		DAT_LMR_CONTEXT lmr_context;
		DAT_LMR_HANDLE lmr;

		ck_dat(lmr_create(binder->side->ia, DAT_MEM_TYPE_VIRTUAL, region, SIDE_MEMORY,
				  binder->side->pz,
				  n % 3 ? DAT_MEM_PRIV_ALL_FLAG : DAT_MEM_PRIV_READ_FLAG, &lmr,
				  &lmr_context, NULL, NULL, NULL));
		binds(binder, binder->side->lmr_context, 0, 64, 0);
		binds(binder, lmr_context, n, 64, n % 5 ? 0 : SUPPRESS);
		binds(binder, lmr_context, 0, 32, 0);
		if (n % 7 == 0) {
			ck_dat(rmr_free(binder->rmr)); /* in flight, perhaps */
			ck_dat(rmr_create(binder->side->pz, &binder->rmr));
		} else {
			binds(binder, lmr_context, 0, n % 2 ? 64 : 0, 0);
			binds(binder, binder->side->lmr_context, 0, n % 4 ? 64 : 0, 0);
		}
		hears(binder);
		ck_dat(lmr_free(lmr));
	}
	ck_dat(rmr_free(binder->rmr));
	return NULL;
}

/*
 * Two IAs, each with two endpoints that share the queue of their completions, and a CNO that makes
 * the service thread look.
 */
static void threads_case(enum way way, bool thread_safe, bool cnos)
{
	pthread_t threads[BINDERS], takers[4];

	client->thread_safe = server->thread_safe = thread_safe;
	open_way(way, NULL);
	ck_dat(rmr_free(rmr));
	binders[0] = (struct binder){ .side = client, .ep = client->ep };
	binders[1] = (struct binder){ .side = server, .ep = server->ep };
	binders[2] = (struct binder){ .side = client, .ep = side_create_ep(client, NULL) };
	binders[3] = (struct binder){ .side = server, .ep = side_create_ep(server, NULL) };
	connect_eps(client, binders[2].ep, server, binders[3].ep);
	if (cnos)
		leave_to_service_thread();
	for (int n = 0; n < BINDERS; n++)
		ck_dat(rmr_create(binders[n].side->pz, &binders[n].rmr));
	for (int n = 0; n < COUNT(takers); n++)
		takers[n] = consumer_thread_start(take_for_ever, n % 2 ? client->request_evd
								       : server->request_evd);
	for (int n = 0; n < BINDERS; n++)
		threads[n] = consumer_thread_start(bind_for_ever, &binders[n]);
	for (int n = 0; n < BINDERS; n++)
		consumer_thread_end(threads[n]);
	atomic_store(&over, true);
	for (int n = 0; n < COUNT(takers); n++)
		consumer_thread_end(takers[n]);
	ck_assert_uint_eq(fake_alive(FAKE_MR), 2);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	ck_assert_uint_eq(pins(client->lmr), 0);
	ck_assert_uint_eq(pins(server->lmr), 0);
	close_all();
}

START_TEST(threads_bind_take_and_free)
{
	threads_case(_i % WAYS, _i / WAYS & 1, _i / WAYS & 2);
}
END_TEST

/*
 * A connection that comes and goes below a window that stays: each bind is heard of once, carried
 * out or not.
 */
static void *bind_while_up(void *arg)
{
	struct binder *binder = arg;

	for (unsigned n = 0; ep_get_state(binder->ep) == DAT_EP_STATE_CONNECTED; n++) {
		const DAT_RMR_COOKIE cookie = { .as_ptr = binder };
		const DAT_LMR_TRIPLET range = segment(binder->side, n % 64, n % 8 ? 64 : 0);
		DAT_RMR_CONTEXT context;
		DAT_RETURN ret = rmr_bind(binder->rmr, &range, READ_ONLY, binder->ep, cookie, 0,
					  &context);

		if (ret == DAT_SUCCESS)
			binder->asked++;
		else if (ret == NO_RESOURCE(MEMORY))
			sched_yield();
		else
			ck_dat_is(ret, BAD_STATE(EP_DISCPENDING));
	}
	return NULL;
}

static void *take_while_up(void *arg)
{
	struct binder *binder = arg;
	DAT_EVENT event;

	while (!atomic_load(&over) || atomic_load(&binder->told) != binder->asked) {
		if (evd_dequeue(binder->side->request_evd, &event) == DAT_SUCCESS)
			atomic_fetch_add(&binder->told, 1);
		else
			sched_yield();
	}
	ck_dat_is(evd_dequeue(binder->side->request_evd, &event), (DAT_RETURN)DAT_QUEUE_EMPTY);
	return NULL;
}

START_TEST(threads_bind_while_the_connection_ends)
{
	struct binder *binder = &binders[0];

	open_way(_i, NULL);
	for (int round = 0; round < 10; round++) {
		pthread_t poster, taker;

		*binder = (struct binder){ .side = server, .ep = server->ep, .rmr = rmr };
		atomic_store(&over, false);
		taker = consumer_thread_start(take_while_up, binder);
		poster = consumer_thread_start(bind_while_up, binder);
		while (atomic_load(&binder->told) < 20)
			sched_yield();
		if (round % 2)
			ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
		else
			ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
		expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
		expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
		consumer_thread_end(poster);
		atomic_store(&over, true);
		consumer_thread_end(taker);
		ck_assert_uint_le(pins(server->lmr), 1);
		connect_again();
	}
	ck_dat(rmr_free(rmr));
	ck_assert_uint_eq(pins(server->lmr), 0);
	ck_assert_uint_eq(fake_alive(FAKE_MR), 2);
	pair_close(&pair);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("rmr");

	tcase_set_timeout(cases, 60);
	tcase_add_test(cases, create_refuses);
	tcase_add_loop_test(cases, is_unbound_at_first, 0, WAYS);
	tcase_add_test(cases, a_zone_is_held);
	tcase_add_loop_test(cases, a_bind_is_what_was_asked_for, 0, WAYS);
	tcase_add_loop_test(cases, peers_have_its_range_and_rights, 0, COUNT(accesses));
	tcase_add_loop_test(cases, so_they_have_without_windows, 0, COUNT(accesses));
	tcase_add_test(cases, a_region_that_takes_no_window);
	tcase_add_loop_test(cases, bind_refuses, 0, COUNT(refusals));
	tcase_add_loop_test(cases, unbinding_looks_at_the_length_only, 0, WAYS);
	tcase_add_loop_test(cases, binds_count_as_requests, 0, WAYS);
	tcase_add_loop_test(cases, binds_complete_in_turn, 0, WAYS);
	tcase_add_loop_test(cases, a_rebind_ends_the_one_before, 0, WAYS);
	tcase_add_loop_test(cases, the_second_context_goes_with_the_third, 0, WAYS);
	tcase_add_loop_test(cases, an_unbind_ends_it, 0, WAYS);
	tcase_add_loop_test(cases, a_free_ends_it, 0, WAYS);
	tcase_add_loop_test(cases, freed_in_flight, 0, WAYS);
	tcase_add_loop_test(cases, a_suppressed_success_is_silent, 0, WAYS);
	tcase_add_loop_test(cases, suppressed_for_ever, 0, WAYS);
	tcase_add_loop_test(cases, a_suppressed_flush_is_told, 0, WAYS);
	tcase_add_loop_test(cases, a_suppressed_bind_lets_a_graceful_disconnect_end, 0, WAYS);
	tcase_add_loop_test(cases, an_unsignalled_bind_wakes_nobody, 0, WAYS);
	tcase_add_loop_test(cases, a_barrier_is_a_fence, 0, WAYS);
	tcase_add_loop_test(cases, a_flush_restores, 0, WAYS);
	tcase_add_loop_test(cases, disconnected_means_flushed, 0, WAYS);
	tcase_add_loop_test(cases, a_failed_bind_unbinds, 0, WAYS * COUNT(failures));
	tcase_add_test(cases, a_window_that_can_not_be_replaced);
	tcase_add_loop_test(cases, a_refused_post_did_not_happen, 0, WAYS);
	tcase_add_loop_test(cases, every_failure_unwinds, 0, WAYS);
	tcase_add_loop_test(cases, outlives_an_endpoint_with_a_bind_in_flight, 0,
			    WAYS * COUNT(leavings));
	tcase_add_loop_test(cases, outlives_an_endpoint_with_a_bind_done, 0,
			    WAYS * COUNT(leavings));
	tcase_add_loop_test(cases, goes_with_its_ia, 0, WAYS);
	tcase_add_loop_test(cases, freed_in_flight_and_then_the_endpoint, 0, WAYS);
	tcase_add_test(cases, a_region_that_the_device_keeps);
	tcase_add_test(cases, nor_does_that_hinder_a_close);
	tcase_add_test(cases, kept_until_the_close);
	tcase_add_loop_test(cases, flushed_once_more_by_the_device, 0, WAYS);
	tcase_add_loop_test(cases, a_window_lost_on_the_way_to_the_post, 0, 2 * WAYS);
	tcase_add_loop_test(cases, a_window_lost_by_several, 0, 2);
	tcase_add_loop_test(cases, a_new_window_while_old_binds_are_in_flight, 0, WAYS);
	tcase_add_test(cases, a_failure_is_of_no_concern_to_a_region);
	tcase_add_loop_test(cases, suppressed_for_ever_keeps_nothing, 0, WAYS);
	tcase_add_loop_test(cases, regions_go_before_the_completion_is_seen, 0, 4 * COUNT(takings));
	tcase_add_loop_test(cases, a_zone_goes_after_the_completion, 0, WAYS);
	tcase_add_loop_test(cases, a_close_takes_what_is_left, 0, 2 * WAYS);
	tcase_add_loop_test(cases, a_close_meets_a_sweeper, 0, WAYS);
	tcase_add_test(cases, who_sweeps_second_waits_for_the_first);
	tcase_add_loop_test(cases, every_failure_of_a_rebind_unwinds, 0, WAYS * COUNT(rebinds));
	tcase_add_loop_test(cases, freed_in_flight_on_several_endpoints, 0, 8 * WAYS);
	tcase_add_loop_test(cases, threads_bind_take_and_free, 0, 4 * WAYS);
	tcase_add_loop_test(cases, threads_bind_while_the_connection_ends, 0, WAYS);
	return run_unit_cases(argc, argv);
}
