/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Windows: the arguments of a bind, its effect on the bindings before it, and the state of the
 * window after a failure.
 */
#include <sched.h>

#include "../fake/fake_impl.h"
#include "race.h"
#include "region.h"

#define READ_ONLY   DAT_MEM_PRIV_REMOTE_READ_FLAG
#define WRITE_ONLY  DAT_MEM_PRIV_REMOTE_WRITE_FLAG
#define REMOTE_BOTH ((DAT_MEM_PRIV_FLAGS)(READ_ONLY | WRITE_ONLY))
#define SUPPRESS    DAT_COMPLETION_SUPPRESS_FLAG
#define UNSIGNALLED DAT_COMPLETION_UNSIGNALLED_FLAG
#define BARRIER	    DAT_COMPLETION_BARRIER_FENCE_FLAG

/* The argument of a bind that is the range. */
#define BAD_TRIPLET OF_EDITION(BAD_ARG(2), BAD_ARG(3))

/* How binds are implemented; most cases loop over the methods. */
enum method {
	BY_WINDOW, /* the device has windows */
	BY_REGION, /* it has none: each bind registers a region of its own */
	BY_BOTH,   /* it has windows, but the region of other_lmr() cannot have one */
	METHODS,
};

/* The server has the window, the client accesses its range. */
static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;
static DAT_RMR_HANDLE rmr;

static void rmr_pair_open(enum method method, const DAT_EP_ATTR *attr)
{
	if (method == BY_REGION)
		fake_attr()->max_mw = 0;
	if (method == BY_BOTH)
		fake_quirks(FAKE_UNBINDABLE);
	client->ep_attr = server->ep_attr = attr;
	pair_connect(&pair);
	ck_dat(rmr_create(server->pz, &rmr));
}

static void rmr_pair_close(void)
{
	ck_dat(ia_close(client->ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat(ia_close(server->ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}

static DAT_RETURN try_rmr_bind(DAT_LMR_TRIPLET triplet, DAT_MEM_PRIV_FLAGS priv, uint64_t cookie,
			       DAT_COMPLETION_FLAGS flags, DAT_RMR_CONTEXT *context)
{
	return rmr_bind_va(rmr, &triplet, priv, server->ep, cookie_of(cookie), flags, context);
}

/* Posts a bind and returns its context. */
static DAT_RMR_CONTEXT bind_posted(DAT_LMR_TRIPLET triplet, DAT_MEM_PRIV_FLAGS priv,
				   uint64_t cookie)
{
	DAT_RMR_CONTEXT context;

	ck_dat(try_rmr_bind(triplet, priv, cookie, DAT_COMPLETION_DEFAULT_FLAG, &context));
	return context;
}

/* The next event of that EVD, which is the server's. */
static void expect_rmr_event_in(DAT_EVD_HANDLE evd, DAT_RMR_HANDLE handle, uint64_t cookie,
				DAT_DTO_COMPLETION_STATUS status)
{
	DAT_EVENT event = expect_event(evd, DAT_RMR_BIND_COMPLETION_EVENT);
	const DAT_RMR_BIND_COMPLETION_EVENT_DATA *bind =
		&event.event_data.rmr_completion_event_data;

	ck_assert_ptr_eq(bind->rmr_handle, handle);
	ck_assert_uint_eq(bind->user_cookie.as_64, cookie);
	ck_assert_int_eq(bind->status, status);
}

static void expect_rmr_event(DAT_RMR_HANDLE handle, uint64_t cookie,
			     DAT_DTO_COMPLETION_STATUS status)
{
	expect_rmr_event_in(server->request_evd, handle, cookie, status);
}

/* Posts a bind, waits for its completion, and returns its context. */
static DAT_RMR_CONTEXT bind_completed(DAT_LMR_TRIPLET triplet, DAT_MEM_PRIV_FLAGS priv)
{
	DAT_RMR_CONTEXT context = bind_posted(triplet, priv, 99);

	expect_rmr_event(rmr, 99, DAT_RMR_BIND_SUCCESS);
	return context;
}

static const DAT_LMR_TRIPLET no_range; /* to unbind */

/* A second region over the memory of the server, without local write: see BY_BOTH. */
static DAT_LMR_HANDLE other_lmr(DAT_LMR_CONTEXT *context)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = server->memory };
	DAT_LMR_HANDLE lmr;

	ck_dat(lmr_create_va(server->ia, DAT_MEM_TYPE_VIRTUAL, region, SIDE_MEMORY, server->pz,
			     DAT_MEM_PRIV_READ_FLAG, &lmr, context, NULL, NULL, NULL));
	return lmr;
}

static DAT_LMR_TRIPLET other_segment(DAT_LMR_CONTEXT context, size_t offset, size_t length)
{
	DAT_LMR_TRIPLET triplet = segment(server, offset, length);

	triplet.lmr_context = context;
	return triplet;
}

/*
 * The client accesses @length bytes at @offset of the server's memory; its request completes with
 * the status @want. A failure ends the connection.
 */
static void rmr_access_is(enum access access, DAT_RMR_CONTEXT context, size_t offset, size_t length,
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

static DAT_RMR_PARAM rmr_param(void)
{
	DAT_RMR_PARAM param;

	memset(&param, 0xff, sizeof(param));
	ck_dat(rmr_query(rmr, DAT_RMR_FIELD_ALL, &param));
	return param;
}

static void expect_unbound(void)
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

static void disconnect_pair(void)
{
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

/* Connects the same endpoints again. */
static void reconnect_pair(void)
{
	ck_dat(ep_reset(client->ep));
	ck_dat(ep_reset(server->ep));
	connect_eps(client, client->ep, server, server->ep);
}

/* ---- create, query, free ---- */

START_TEST(create_refuses_bad_arguments)
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

START_TEST(a_new_window_is_unbound)
{
	DAT_HANDLE_TYPE type;
	DAT_RMR_PARAM param;

	rmr_pair_open(_i, NULL);
	expect_unbound();
	ck_dat(handle_type(rmr, &type));
	ck_assert_int_eq(type, DAT_HANDLE_TYPE_RMR);
	ck_dat_is(rmr_query(server->lmr, DAT_RMR_FIELD_ALL, &param), BAD_HANDLE(RMR));
	ck_dat_is(rmr_query(rmr, DAT_RMR_FIELD_IA_HANDLE, NULL), BAD_ARG(3));
	ck_dat(rmr_query(rmr, (DAT_RMR_PARAM_MASK)0x20, &param));
	ck_dat_is(pz_free(server->pz), BAD_STATE(PZ_IN_USE));
	ck_dat(rmr_free(rmr));
	ck_dat_is(rmr_free(rmr), BAD_HANDLE(RMR));
	ck_dat_is(rmr_query(rmr, DAT_RMR_FIELD_ALL, &param), BAD_HANDLE(RMR));
	pair_close(&pair);
}
END_TEST

START_TEST(a_window_holds_its_zone)
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

START_TEST(query_returns_a_bind_once_it_is_posted)
{
	const DAT_LMR_TRIPLET range = segment(server, 100, 50);
	DAT_RMR_CONTEXT context;
	DAT_RMR_PARAM param;

	rmr_pair_open(_i, NULL);
	fake_hold(true);
	context = bind_posted(segment(server, 100, 50), DAT_MEM_PRIV_ALL_FLAG, 5);
	ck_assert_uint_ne(context, 0);
	param = rmr_param(); /* the consumer sees the new binding once the bind is posted */
	ck_assert_uint_eq(param.lmr_triplet.lmr_context, server->lmr_context);
	ck_assert_uint_eq(param.lmr_triplet.virtual_address, (uintptr_t)server->memory + 100);
	ck_assert_uint_eq(param.lmr_triplet.segment_length, range.segment_length);
	ck_assert_uint_eq(param.mem_priv, REMOTE_BOTH);
	ck_assert_uint_eq(param.rmr_context, context);
	expect_no_event(server->request_evd);
	fake_hold(false);
	expect_rmr_event(rmr, 5, DAT_RMR_BIND_SUCCESS);
	memset(server->memory + 100, 'x', 50);
	rmr_access_is(READS, context, 100, 50, DAT_DTO_SUCCESS);
	ck_assert_int_eq(client->memory[49], 'x');
	rmr_access_is(WRITES, context, 149, 1, DAT_DTO_SUCCESS);
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
	{ "the whole range", READS, REMOTE_BOTH, 100, 50, DAT_DTO_SUCCESS },
	{ "the whole range", WRITES, REMOTE_BOTH, 100, 50, DAT_DTO_SUCCESS },
	{ "a byte before", WRITES, REMOTE_BOTH, 99, 50, DAT_DTO_ERR_REMOTE_ACCESS },
	{ "a byte after", READS, REMOTE_BOTH, 101, 50, DAT_DTO_ERR_REMOTE_ACCESS },
	{ "a read, with remote read", READS, READ_ONLY, 100, 50, DAT_DTO_SUCCESS },
	{ "a write, with remote read", WRITES, READ_ONLY, 100, 50, DAT_DTO_ERR_REMOTE_ACCESS },
	{ "a write, with remote write", WRITES, WRITE_ONLY, 100, 50, DAT_DTO_SUCCESS },
	{ "a read, with remote write", READS, WRITE_ONLY, 100, 50, DAT_DTO_ERR_REMOTE_ACCESS },
	{ "no privileges", READS, DAT_MEM_PRIV_NONE_FLAG, 100, 50, DAT_DTO_ERR_REMOTE_ACCESS },
};

static void access_case(enum method method, int i)
{
	rmr_pair_open(method, NULL);
	rmr_access_is(accesses[i].access,
		      bind_completed(segment(server, 100, 50), accesses[i].priv),
		      accesses[i].offset, accesses[i].length, accesses[i].want);
	rmr_pair_close();
}

START_TEST(peers_have_the_range_and_privileges_of_a_window)
{
	access_case(BY_WINDOW, _i);
}
END_TEST

START_TEST(peers_have_the_range_and_privileges_without_windows)
{
	access_case(BY_REGION, _i);
}
END_TEST

/* A window cannot be bound to such a region on this device; the bind registers a region. */
START_TEST(a_region_without_local_write_can_be_bound)
{
	DAT_LMR_CONTEXT context;
	DAT_LMR_HANDLE lmr;
	unsigned regions;

	rmr_pair_open(BY_BOTH, NULL);
	lmr = other_lmr(&context);
	regions = fake_alive(FAKE_MR);
	rmr_access_is(READS, bind_completed(other_segment(context, 100, 50), READ_ONLY), 100, 50,
		      DAT_DTO_SUCCESS);
	ck_assert_uint_eq(fake_alive(FAKE_MR), regions + 1);
	ck_assert(!fake_seen().windows); /* nothing is bound to that one */
	ck_dat(rmr_free(rmr));
	ck_assert_uint_eq(fake_alive(FAKE_MR), regions);
	ck_dat(lmr_free(lmr));
	pair_close(&pair);
}
END_TEST

/* ---- refusals ---- */

/* What is wrong with the bind of a case. */
enum flaw {
	NO_FLAW, /* of the handles; another argument is wrong */
	NO_RMR,
	NO_EP,
	FOREIGN_EP,
	NO_TRIPLET,
	NO_CONTEXT,
	NO_EVD,
	OTHER_PZ,
	OTHER_LMR_PZ,
	NO_LOCAL_PRIVS
};

static const struct {
	const char *why;
	enum flaw flaw;
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
	{ "no request EVD", NO_EVD, DAT_EP_STATE_UNCONNECTED, 0, 0, 8, 0, 0,
	  BAD_HANDLE(EVD_REQUEST) },
	{ "no triplet", NO_TRIPLET, UP, 0, 0, 8, 0x100, 0, BAD_TRIPLET },
	{ "no output for the context", NO_CONTEXT, UP, 0, 0, 8, 0x100, 0,
	  OF_EDITION(BAD_ARG(7), BAD_ARG(9)) },
	{ "unknown LMR context", NO_FLAW, UP, 0x100000, 0, 8, 0x100, 0,
	  OF_EDITION(BAD_ARG(2), BAD_HANDLE(LMR)) },
	{ "past the end", NO_FLAW, UP, 0, SIDE_MEMORY - 7, 8, 0, 0, BAD_TRIPLET },
	{ "before the start", NO_FLAW, UP, 0, (size_t)-1, 8, 0, 0, BAD_TRIPLET },
	{ "unsignalled, on an endpoint without that flag", NO_FLAW, DAT_EP_STATE_UNCONNECTED, 0, 0,
	  8, 0, UNSIGNALLED, OF_EDITION(BAD_ARG(6), BAD_ARG(8)) },
	{ "not connected", NO_FLAW, DAT_EP_STATE_UNCONNECTED, 0, 0, 8, 0, 0,
	  BAD_STATE(EP_UNCONNECTED) },
	{ "not connected, unbinding", NO_FLAW, DAT_EP_STATE_UNCONNECTED, 0, 0, 0, 0, 0,
	  BAD_STATE(EP_UNCONNECTED) },
	{ "not connected, another zone", OTHER_PZ, DAT_EP_STATE_UNCONNECTED, 0, 0, 8, 0, 0,
	  BAD_STATE(EP_UNCONNECTED) },
	{ "window of another zone", OTHER_PZ, UP, 0, 0, 8, 0, 0,
	  DAT_ERROR(DAT_PROTECTION_VIOLATION, 0) },
	{ "window of another zone, unbinding", OTHER_PZ, UP, 0, 0, 0, 0, 0,
	  DAT_ERROR(DAT_PROTECTION_VIOLATION, 0) },
	{ "region of another zone", OTHER_LMR_PZ, UP, 0, 0, 8, 0, 0,
	  DAT_ERROR(DAT_PROTECTION_VIOLATION, 0) },
	{ "remote read without local read", NO_LOCAL_PRIVS, UP, 0, 0, 8, DAT_MEM_PRIV_ALL_FLAG, 0,
	  DAT_ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_RDMA_READ) },
	{ "remote write without local write", NO_LOCAL_PRIVS, UP, 0, 0, 8, WRITE_ONLY, 0,
	  DAT_ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_RDMA_WRITE) },
	{ "remote read without local read, disconnected", NO_LOCAL_PRIVS, DAT_EP_STATE_DISCONNECTED,
	  0, 0, 8, READ_ONLY, 0, DAT_ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_RDMA_READ) },
#undef UP
};

/* The endpoint of the case, in @state; endpoints that are created for a flaw are unconnected. */
static DAT_EP_HANDLE refusing_ep(enum flaw flaw, DAT_EP_STATE state)
{
	DAT_EP_HANDLE ep = server->ep;

	if (flaw == NO_EP)
		return server->lmr;
	if (flaw == FOREIGN_EP)
		return client->ep;
	if (flaw == NO_EVD)
		ck_dat(ep_create(server->ia, server->pz, server->recv_evd, DAT_HANDLE_NULL,
				 server->connect_evd, NULL, &ep));
	else if (state == DAT_EP_STATE_UNCONNECTED)
		ep = side_create_ep(server, NULL);
	if (state == DAT_EP_STATE_DISCONNECTED)
		disconnect_pair();
	return ep;
}

START_TEST(bind_refuses_bad_arguments)
{
	enum flaw flaw = refusals[_i].flaw;
	DAT_RMR_CONTEXT context = 0x5a5a5a5a;
	DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
	DAT_LMR_TRIPLET triplet;
	DAT_PZ_HANDLE other;
	DAT_RMR_PARAM param;
	DAT_EP_HANDLE ep;

	rmr_pair_open(BY_WINDOW, NULL);
	triplet = segment(server, refusals[_i].offset, refusals[_i].length);
	ck_dat(pz_create(server->ia, &other));
	if (flaw == OTHER_PZ)
		ck_dat(rmr_create(other, &rmr));
	if (flaw == OTHER_LMR_PZ || flaw == NO_LOCAL_PRIVS)
		ck_dat(lmr_create_va(server->ia, DAT_MEM_TYPE_VIRTUAL,
				     (DAT_REGION_DESCRIPTION){ .for_va = server->memory },
				     SIDE_MEMORY, flaw == NO_LOCAL_PRIVS ? server->pz : other,
				     flaw == NO_LOCAL_PRIVS ? REMOTE_BOTH : DAT_MEM_PRIV_ALL_FLAG,
				     &lmr, &triplet.lmr_context, NULL, NULL, NULL));
	triplet.lmr_context ^= refusals[_i].garble;
	ep = refusing_ep(flaw, refusals[_i].state);
	ck_dat_is(rmr_bind_va(flaw == NO_RMR ? server->pz : rmr,
			      flaw == NO_TRIPLET ? NULL : &triplet,
			      (DAT_MEM_PRIV_FLAGS)refusals[_i].priv, ep, cookie_of(1),
			      (DAT_COMPLETION_FLAGS)refusals[_i].flags,
			      flaw == NO_CONTEXT ? NULL : &context),
		  refusals[_i].want);
	ck_assert_uint_eq(context, 0x5a5a5a5a);
	ck_assert_uint_eq(handle_uses(server->lmr), 0);
	if (lmr)
		ck_assert_uint_eq(handle_uses(lmr), 0);
	/* still unbound */
	ck_dat_is(rmr_query(rmr, DAT_RMR_FIELD_LMR_TRIPLET, &param), BAD_ARG(2));
	expect_no_event(server->request_evd);
	rmr_pair_close();
}
END_TEST

/* Programs create the EVD of their requests for DTOs alone, and bind with flags of other calls. */
START_TEST(binds_are_reported_to_an_evd_of_dtos_with_any_flags)
{
	DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG |
				     DAT_COMPLETION_EVD_THRESHOLD_FLAG;
	DAT_LMR_TRIPLET triplet;
	DAT_RMR_CONTEXT context;
	DAT_EVD_HANDLE evd;
	DAT_EP_HANDLE ep;

	rmr_pair_open(_i, NULL);
	triplet = segment(server, 0, 8);
	disconnect_pair();
	ck_dat(ep_reset(client->ep));
	evd = side_create_evd(server, 8, DAT_EVD_DTO_FLAG);
	ck_dat(ep_create(server->ia, server->pz, server->recv_evd, evd, server->connect_evd, NULL,
			 &ep));
	connect_eps(client, client->ep, server, ep);
	ck_dat(rmr_bind_va(rmr, &triplet, DAT_MEM_PRIV_ALL_FLAG, ep, cookie_of(7), flags,
			   &context));
	expect_event(evd, DAT_RMR_BIND_COMPLETION_EVENT);
	ck_dat(ep_free(ep));
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(an_unbind_ignores_all_but_the_length)
{
	const DAT_LMR_TRIPLET garbage = { .lmr_context = 0xdeadbeef, .virtual_address = 0x123 };
	DAT_RMR_CONTEXT context = 5;

	rmr_pair_open(_i, NULL);
	ck_dat(try_rmr_bind(garbage, DAT_MEM_PRIV_ALL_FLAG, 3, DAT_COMPLETION_DEFAULT_FLAG,
			    &context));
	ck_assert_uint_eq(context, 0);
	expect_rmr_event(rmr, 3, DAT_RMR_BIND_SUCCESS);
	expect_unbound();
	rmr_pair_close();
}
END_TEST

START_TEST(a_bind_needs_a_request_slot)
{
	DAT_EP_ATTR attr;
	DAT_RMR_CONTEXT context = 5;

	side_open(client, "fake0");
	attr = ep_attr_default(client);
	side_close(client);
	attr.max_request_dtos = 2;
	rmr_pair_open(_i, &attr);
	fake_hold(true);
	post_send(server, 1, 0, 8, 0);
	bind_posted(segment(server, 0, 8), READ_ONLY, 2);
	ck_dat_is(try_rmr_bind(segment(server, 8, 8), READ_ONLY, 3, 0, &context),
		  NO_RESOURCE(MEMORY));
	ck_dat_is(try_send(server, 4, 0, 8, 0), NO_RESOURCE(MEMORY));
	ck_assert_uint_eq(context, 5);
	ck_assert_uint_eq(rmr_param().lmr_triplet.virtual_address, (uintptr_t)server->memory);
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	rmr_pair_close();
}
END_TEST

/* ---- several binds ---- */

START_TEST(binds_complete_in_order)
{
	rmr_pair_open(_i, NULL);
	fake_hold(true);
	for (unsigned n = 0; n < 4; n++) {
		post_recv(client, n, 0, 8, 0);
		post_send(server, 10 + n, 0, 8, 0);
		bind_posted(segment(server, n, 8), READ_ONLY, 20 + n);
	}
	fake_hold(false);
	for (unsigned n = 0; n < 4; n++) {
		expect_dto(server->request_evd, 10 + n, DAT_DTO_SUCCESS);
		expect_rmr_event(rmr, 20 + n, DAT_RMR_BIND_SUCCESS);
	}
	expect_no_event(server->request_evd);
	rmr_pair_close();
}
END_TEST

START_TEST(a_completed_rebind_releases_the_region_before)
{
	DAT_RMR_CONTEXT first, second, context;
	DAT_LMR_CONTEXT lmr_context;
	DAT_LMR_HANDLE lmr;

	rmr_pair_open(_i, NULL);
	lmr = other_lmr(&lmr_context);
	first = bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	fake_hold(true);
	second = bind_posted(other_segment(lmr_context, 0, 64), READ_ONLY, 1);
	ck_assert_uint_ne(first, second);
	ck_assert_uint_eq(rmr_param().rmr_context, second);
	/* both regions are in use until the bind completes */
	ck_dat_is(lmr_free(server->lmr), BAD_STATE(LMR_IN_USE));
	ck_dat_is(lmr_free(lmr), BAD_STATE(LMR_IN_USE));
	fake_hold(false);
	expect_rmr_event(rmr, 1, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(handle_uses(server->lmr), 0);
	ck_assert_uint_eq(handle_uses(lmr), 1);
	rmr_access_is(READS, second, 0, 64, DAT_DTO_SUCCESS);
	ck_dat(lmr_free(server->lmr)); /* no window of the device is bound to it */
	server->lmr_context = lmr_context;
	context = bind_completed(other_segment(lmr_context, 8, 8), READ_ONLY);
	rmr_access_is(READS, context, 8, 8, DAT_DTO_SUCCESS);
	rmr_access_is(READS, first, 0, 64, DAT_DTO_ERR_REMOTE_ACCESS);
	rmr_pair_close();
}
END_TEST

START_TEST(a_rebind_invalidates_the_context_before)
{
	DAT_RMR_CONTEXT second;
	DAT_LMR_CONTEXT lmr_context;

	rmr_pair_open(_i, NULL);
	other_lmr(&lmr_context);
	bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	second = bind_completed(other_segment(lmr_context, 0, 64), READ_ONLY);
	bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	rmr_access_is(READS, second, 0, 64, DAT_DTO_ERR_REMOTE_ACCESS);
	rmr_pair_close();
}
END_TEST

START_TEST(an_unbind_invalidates_the_context)
{
	DAT_RMR_CONTEXT context;
	unsigned regions;

	rmr_pair_open(_i, NULL);
	regions = fake_alive(FAKE_MR);
	context = bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	rmr_access_is(WRITES, context, 0, 64, DAT_DTO_SUCCESS);
	ck_assert_uint_eq(bind_completed(no_range, DAT_MEM_PRIV_NONE_FLAG), 0);
	expect_unbound();
	ck_assert_uint_eq(handle_uses(server->lmr), 0);
	ck_assert_uint_eq(fake_alive(FAKE_MR), regions);
	rmr_access_is(READS, context, 0, 64, DAT_DTO_ERR_REMOTE_ACCESS);
	ck_dat(lmr_free(server->lmr));
	rmr_pair_close();
}
END_TEST

START_TEST(a_free_invalidates_the_context)
{
	DAT_RMR_CONTEXT context;

	rmr_pair_open(_i, NULL);
	context = bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	ck_dat_is(lmr_free(server->lmr), BAD_STATE(LMR_IN_USE));
	ck_dat(rmr_free(rmr));
	rmr_access_is(WRITES, context, 0, 64, DAT_DTO_ERR_REMOTE_ACCESS);
	ck_dat(lmr_free(server->lmr));
	rmr_pair_close();
}
END_TEST

/* The event has the stale handle. The region is in use until then. */
START_TEST(a_bind_in_flight_completes_after_the_free)
{
	DAT_RMR_CONTEXT before, context;
	DAT_RMR_HANDLE stale;
	unsigned regions;

	rmr_pair_open(_i, NULL);
	regions = fake_alive(FAKE_MR);
	before = bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	fake_hold(true);
	context = bind_posted(segment(server, 64, 64), REMOTE_BOTH, 6);
	ck_assert_uint_ne(before, context);
	stale = rmr;
	ck_dat(rmr_free(rmr));
	ck_dat_is(rmr_free(rmr), BAD_HANDLE(RMR));
	ck_dat_is(lmr_free(server->lmr), BAD_STATE(LMR_IN_USE));
	ck_dat(rmr_create(server->pz, &rmr));
	ck_assert_ptr_ne(rmr, stale);
	fake_hold(false);
	expect_rmr_event(stale, 6, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(handle_uses(server->lmr), 0);
	ck_assert_uint_eq(fake_alive(FAKE_MR), regions);
	rmr_access_is(READS, context, 64, 64, DAT_DTO_ERR_REMOTE_ACCESS);
	rmr_pair_close();
}
END_TEST

/* ---- flags ---- */

START_TEST(a_suppressed_success_has_no_event)
{
	DAT_RMR_CONTEXT context;

	rmr_pair_open(_i, NULL);
	ck_dat(try_rmr_bind(segment(server, 0, 64), REMOTE_BOTH, 1, SUPPRESS, &context));
	expect_no_event(server->request_evd);
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	rmr_access_is(READS, context, 0, 64, DAT_DTO_SUCCESS);
	ck_dat(try_rmr_bind(no_range, DAT_MEM_PRIV_NONE_FLAG, 2, SUPPRESS, &context));
	expect_no_event(server->request_evd);
	ck_assert_uint_eq(handle_uses(server->lmr), 0);
	expect_unbound();
	rmr_pair_close();
}
END_TEST

/* The consumer takes no completion; each bind releases the binding before. */
START_TEST(suppressed_binds_reuse_their_slots)
{
	DAT_RMR_CONTEXT context;

	rmr_pair_open(_i, NULL);
	for (unsigned n = 0; n < 200; n++)
		ck_dat(try_rmr_bind(segment(server, n, 64), REMOTE_BOTH, n, SUPPRESS, &context));
	expect_no_event(server->request_evd);
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	rmr_access_is(READS, context, 199, 64, DAT_DTO_SUCCESS);
	rmr_pair_close();
}
END_TEST

START_TEST(a_flush_is_reported_although_suppressed)
{
	DAT_RMR_CONTEXT context;

	rmr_pair_open(_i, NULL);
	fake_hold(true);
	ck_dat(try_rmr_bind(segment(server, 0, 64), REMOTE_BOTH, 1, SUPPRESS, &context));
	disconnect_pair();
	expect_rmr_event(rmr, 1, DAT_RMR_BIND_FAILURE);
	expect_no_event(server->request_evd);
	rmr_pair_close();
}
END_TEST

START_TEST(a_graceful_disconnect_waits_for_a_suppressed_bind)
{
	DAT_RMR_CONTEXT context;

	rmr_pair_open(_i, NULL);
	fake_hold(true);
	ck_dat(try_rmr_bind(segment(server, 0, 64), REMOTE_BOTH, 1, SUPPRESS, &context));
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_GRACEFUL_FLAG));
	ck_assert_int_eq(ep_get_state(server->ep), DAT_EP_STATE_DISCONNECT_PENDING);
	fake_hold(false);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_no_event(server->request_evd);
	ck_assert_uint_eq(rmr_param().rmr_context, context);
	rmr_pair_close();
}
END_TEST

START_TEST(an_unsignalled_bind_wakes_no_waiter)
{
	DAT_EP_ATTR attr;
	DAT_RMR_CONTEXT context;
	struct waiter waiter;

	side_open(client, "fake0");
	attr = ep_attr_default(client);
	side_close(client);
	attr.request_completion_flags = UNSIGNALLED;
	rmr_pair_open(_i, &attr);
	waiter = (struct waiter){ .evd = server->request_evd,
				  .timeout = DAT_TIMEOUT_INFINITE,
				  .threshold = 1 };
	waiter_start(&waiter);
	ck_dat(try_rmr_bind(segment(server, 0, 64), REMOTE_BOTH, 1, UNSIGNALLED, &context));
	fake_wait_idle(1);
	ck_dat(try_rmr_bind(segment(server, 8, 64), REMOTE_BOTH, 2, DAT_COMPLETION_DEFAULT_FLAG,
			    &context));
	ck_dat(waiter_join(&waiter));
	ck_assert_uint_eq(waiter.event.event_data.rmr_completion_event_data.user_cookie.as_64, 1);
	ck_assert_int_eq(waiter.nmore, 1);
	rmr_pair_close();
}
END_TEST

START_TEST(a_barrier_flag_posts_a_fence)
{
	DAT_RMR_CONTEXT context;

	rmr_pair_open(_i, NULL);
	ck_dat(try_rmr_bind(segment(server, 0, 64), REMOTE_BOTH, 1, BARRIER, &context));
	ck_assert_uint_eq(fake_seen().post_flags, TP_POST_FENCE | TP_POST_SIGNAL);
	ck_dat(try_rmr_bind(segment(server, 0, 64), REMOTE_BOTH, 1, SUPPRESS, &context));
	ck_assert_uint_eq(fake_seen().post_flags, TP_POST_SIGNAL);
	rmr_pair_close();
}
END_TEST

/* Each had four bindings at once, which it keeps for its next binds. */
START_TEST(windows_that_are_freed_take_their_memory_along)
{
	const unsigned many = 1000;
	size_t used = 0;

	rmr_pair_open(_i, NULL);
	for (unsigned i = 0; i < 2 * many; i++) {
		fake_hold(true);
		for (unsigned n = 0; n < 4; n++)
			bind_posted(segment(server, 0, 64), REMOTE_BOTH, n);
		fake_hold(false);
		for (unsigned n = 0; n < 4; n++)
			expect_rmr_event(rmr, n, DAT_RMR_BIND_SUCCESS);
		ck_dat(rmr_free(rmr));
		ck_dat(rmr_create(server->pz, &rmr));
		if (i == many) /* all is as large as it will be */
			used = memory_in_use();
	}
	ck_assert_uint_lt(memory_in_use(), used + many * LEAST_BLOCK);
	rmr_pair_close();
}
END_TEST

/* ---- binds that are flushed or fail, and posts that fail ---- */

/* Two binds are flushed: the window keeps its binding, for the consumer and on the device. */
START_TEST(a_flushed_bind_keeps_the_binding_before)
{
	DAT_RMR_CONTEXT context, after;
	DAT_LMR_CONTEXT lmr_context;
	DAT_LMR_HANDLE lmr;
	unsigned regions;

	rmr_pair_open(_i, NULL);
	lmr = other_lmr(&lmr_context);
	context = bind_completed(segment(server, 16, 64), REMOTE_BOTH);
	regions = fake_alive(FAKE_MR);
	fake_hold(true);
	bind_posted(other_segment(lmr_context, 0, 64), READ_ONLY, 1);
	bind_posted(no_range, READ_ONLY, 2);
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_rmr_event(rmr, 1, DAT_RMR_BIND_FAILURE);
	expect_rmr_event(rmr, 2, DAT_RMR_BIND_FAILURE);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_assert_uint_eq(rmr_param().rmr_context, context);
	ck_assert_uint_eq(rmr_param().lmr_triplet.virtual_address, (uintptr_t)server->memory + 16);
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	ck_assert_uint_eq(fake_alive(FAKE_MR), regions);
	ck_dat(lmr_free(lmr));
	fake_hold(false);
	reconnect_pair(); /* the binding outlives the connection */
	rmr_access_is(READS, context, 16, 64, DAT_DTO_SUCCESS);
	after = bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	rmr_access_is(READS, after, 0, 64, DAT_DTO_SUCCESS);
	rmr_access_is(READS, context, 16, 64, DAT_DTO_ERR_REMOTE_ACCESS);
	rmr_pair_close();
}
END_TEST

static void flush_a_bind(DAT_LMR_TRIPLET range, uint64_t cookie)
{
	fake_hold(true);
	bind_posted(range, READ_ONLY, cookie);
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_rmr_event(rmr, cookie, DAT_RMR_BIND_FAILURE);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	fake_hold(false);
}

/*
 * The device has executed a bind that it flushes, so that its window has a key that nobody knows.
 * If nothing is in force, that window ends at once, and with it what the bind has granted; else
 * before the next bind.
 */
START_TEST(a_flushed_bind_may_have_been_executed)
{
	DAT_RMR_CONTEXT context, after;
	DAT_LMR_CONTEXT lmr_context;
	DAT_LMR_HANDLE lmr;

	rmr_pair_open(_i, NULL);
	lmr = other_lmr(&lmr_context);
	fake_quirks(FAKE_FLUSHES_BOUND);
	flush_a_bind(other_segment(lmr_context, 0, 64), 1);
	expect_unbound();
	ck_dat(lmr_free(lmr));
	reconnect_pair();
	context = bind_completed(segment(server, 16, 64), REMOTE_BOTH);
	rmr_access_is(READS, context, 16, 64, DAT_DTO_SUCCESS);
	flush_a_bind(segment(server, 8, 64), 2);
	ck_assert_uint_eq(rmr_param().rmr_context, context);
	reconnect_pair();
	after = bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	rmr_access_is(READS, after, 0, 64, DAT_DTO_SUCCESS);
	flush_a_bind(no_range, 3);
	reconnect_pair();
	ck_assert_uint_eq(bind_completed(no_range, REMOTE_BOTH), 0);
	expect_unbound();
	ck_assert_uint_eq(handle_uses(server->lmr), 0);
	after = bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	rmr_access_is(READS, after, 0, 64, DAT_DTO_SUCCESS);
	rmr_access_is(READS, context, 16, 64, DAT_DTO_ERR_REMOTE_ACCESS);
	rmr_pair_close();
}
END_TEST

/*
 * The bind after the flush is flushed, too: what it would have superseded is still in force. At the
 * end the device has two windows, one of the binding and one of a bind that was not posted.
 */
START_TEST(flushed_binds_keep_the_binding_before)
{
	DAT_RMR_CONTEXT context, unused;

	rmr_pair_open(_i, NULL);
	context = bind_completed(segment(server, 16, 64), REMOTE_BOTH);
	for (uint64_t n = 1; n < 4; n++) {
		flush_a_bind(segment(server, 8, 64), n);
		reconnect_pair();
		ck_assert_uint_eq(rmr_param().rmr_context, context);
		ck_assert_uint_eq(rmr_param().mem_priv, REMOTE_BOTH);
		ck_assert_uint_eq(handle_uses(server->lmr), 1);
		rmr_access_is(READS, context, 16, 64, DAT_DTO_SUCCESS);
	}
	fake_fail(_i == BY_REGION ? "post_write" : "post_bind", ENOMEM, 1);
	ck_dat_is(try_rmr_bind(segment(server, 8, 64), REMOTE_BOTH, 4, 0, &unused),
		  NO_RESOURCE(MEMORY));
	ck_assert_uint_eq(rmr_param().rmr_context, context);
	ck_dat(rmr_free(rmr));
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	ck_assert_uint_eq(fake_alive(FAKE_MR), 2);
	rmr_access_is(READS, context, 16, 64, DAT_DTO_ERR_REMOTE_ACCESS);
	rmr_pair_close();
}
END_TEST

/* A bind that registers its range leaves the window as it was, even if it is flushed. */
START_TEST(a_flushed_bind_of_a_region_keeps_the_window)
{
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT context;
	DAT_LMR_HANDLE lmr;
	unsigned regions;

	rmr_pair_open(BY_BOTH, NULL);
	lmr = other_lmr(&lmr_context);
	context = bind_completed(other_segment(lmr_context, 16, 64), READ_ONLY);
	regions = fake_alive(FAKE_MR);
	flush_a_bind(other_segment(lmr_context, 8, 64), 1);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 1);
	ck_assert_uint_eq(fake_alive(FAKE_MR), regions);
	reconnect_pair();
	rmr_access_is(READS, context, 16, 64, DAT_DTO_SUCCESS);
	context = bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	rmr_access_is(READS, context, 0, 64, DAT_DTO_SUCCESS);
	ck_assert_uint_eq(handle_uses(lmr), 0);
	rmr_pair_close();
}
END_TEST

START_TEST(a_bind_after_the_disconnect_is_flushed)
{
	DAT_RMR_CONTEXT context;

	rmr_pair_open(_i, NULL);
	context = bind_completed(segment(server, 16, 64), REMOTE_BOTH);
	disconnect_pair();
	ck_assert_uint_eq(bind_posted(segment(server, 0, 64), REMOTE_BOTH, 8), 0);
	expect_rmr_event(rmr, 8, DAT_RMR_BIND_FAILURE);
	ck_assert_uint_eq(rmr_param().rmr_context, context);
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	rmr_pair_close();
}
END_TEST

static const DAT_DTO_COMPLETION_STATUS failures[] = { DAT_RMR_OPERATION_FAILED,
						      DAT_DTO_ERR_TRANSPORT, DAT_DTO_ERR_LOCAL_EP };

/*
 * The window is unbound, for the consumer and on the device. Later requests are flushed. A window
 * can be bound again after that.
 */
static void failed_case(enum method method, DAT_DTO_COMPLETION_STATUS status)
{
	DAT_RMR_CONTEXT before, after;

	rmr_pair_open(method, NULL);
	before = bind_completed(segment(server, 16, 64), REMOTE_BOTH);
	fake_hold(true);
	bind_posted(segment(server, 0, 64), REMOTE_BOTH, 1);
	bind_posted(segment(server, 8, 64), REMOTE_BOTH, 2);
	fake_fail_transfer(status);
	ck_assert(fake_step());
	expect_rmr_event(rmr, 1, DAT_RMR_OPERATION_FAILED);
	expect_rmr_event(rmr, 2, DAT_RMR_BIND_FAILURE);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
	expect_unbound();
	ck_assert_uint_eq(handle_uses(server->lmr), 0);
	fake_hold(false);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	reconnect_pair();
	after = bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	ck_assert_uint_eq(fake_alive(FAKE_MW), method == BY_REGION ? 0 : 1);
	rmr_access_is(READS, after, 0, 64, DAT_DTO_SUCCESS);
	rmr_access_is(READS, before, 16, 64, DAT_DTO_ERR_REMOTE_ACCESS);
	ck_dat(rmr_free(rmr));
	ck_dat(lmr_free(server->lmr));
	rmr_pair_close();
}

START_TEST(a_failed_bind_leaves_the_window_unbound)
{
	failed_case(_i % METHODS, failures[_i / METHODS]);
}
END_TEST

START_TEST(bind_fails_when_a_lost_window_cannot_be_replaced)
{
	DAT_RMR_CONTEXT context = 5;

	rmr_pair_open(BY_WINDOW, NULL);
	fake_fail_transfer(DAT_RMR_OPERATION_FAILED);
	bind_posted(segment(server, 0, 64), REMOTE_BOTH, 1);
	expect_rmr_event(rmr, 1, DAT_RMR_OPERATION_FAILED);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	reconnect_pair();
	fake_fail("mw_create", ENOMEM, 1);
	ck_assert_uint_eq(bind_completed(no_range, REMOTE_BOTH), 0); /* needs none */
	ck_dat_is(try_rmr_bind(segment(server, 0, 64), REMOTE_BOTH, 2, 0, &context),
		  NO_RESOURCE(MEMORY_REGION));
	ck_assert_uint_eq(context, 5);
	ck_assert_uint_eq(handle_uses(server->lmr), 0);
	bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	rmr_pair_close();
}
END_TEST

START_TEST(post_failure_keeps_the_binding)
{
	const char *call = _i == BY_REGION ? "post_write" : "post_bind";
	DAT_RMR_CONTEXT before, context = 5;
	unsigned regions;

	rmr_pair_open(_i, NULL);
	before = bind_completed(segment(server, 16, 64), REMOTE_BOTH);
	regions = fake_alive(FAKE_MR);
	fake_fail(call, ENOMEM, 1);
	ck_dat_is(try_rmr_bind(segment(server, 0, 64), REMOTE_BOTH, 2, 0, &context),
		  NO_RESOURCE(MEMORY));
	ck_assert_uint_eq(context, 5);
	ck_assert_uint_eq(rmr_param().rmr_context, before);
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	ck_assert_uint_eq(fake_alive(FAKE_MR), regions);
	expect_no_event(server->request_evd);
	bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	rmr_pair_close();
}
END_TEST

START_TEST(a_failed_call_changes_nothing)
{
	DAT_RMR_CONTEXT context = 5;
	unsigned n;

	rmr_pair_open(_i, NULL);
	ck_dat(rmr_free(rmr));
	rmr = POISON;
	for (n = 1; fake_fail_call(n), rmr_create(server->pz, &rmr) != DAT_SUCCESS; n++) {
		ck_assert_ptr_eq(rmr, POISON);
		ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	}
	for (n = 1; fake_fail_call(n),
	    try_rmr_bind(segment(server, 0, 64), REMOTE_BOTH, 2, 0, &context) != DAT_SUCCESS;
	     n++) {
		ck_assert_uint_eq(context, 5);
		expect_unbound();
		ck_assert_uint_eq(handle_uses(server->lmr), 0);
		ck_assert_uint_eq(fake_alive(FAKE_MR), 2); /* of client and server */
	}
	ck_assert_uint_gt(n, 1);
	fake_fail_call(0);
	expect_rmr_event(rmr, 2, DAT_RMR_BIND_SUCCESS);
	ck_dat(rmr_free(rmr));
	pair_close(&pair);
}
END_TEST

/* ---- an endpoint, a region or the IA is freed before the window ---- */

/* Takes the events of a freed endpoint, if there are any. */
static void take_bind_events(DAT_EVD_HANDLE evd)
{
	DAT_EVENT event;

	fake_wait_idle(0);
	while (evd_dequeue(evd, &event) == DAT_SUCCESS)
		ck_assert_int_eq(event.event_number, DAT_RMR_BIND_COMPLETION_EVENT);
}

/*
 * The endpoint is freed while the bind is in flight (@held), or when it is executed but its
 * completion still in the queue. The window has the latest binding that the device executed.
 */
static void endpoint_freed_case(enum method method, unsigned quirks, bool held)
{
	DAT_RMR_CONTEXT before, context;

	rmr_pair_open(method, NULL);
	before = bind_completed(segment(server, 16, 64), REMOTE_BOTH);
	fake_quirks(quirks | (method == BY_BOTH ? FAKE_UNBINDABLE : 0));
	fake_hold(held);
	context = bind_posted(segment(server, 0, 64), REMOTE_BOTH, 1);
	ck_dat(ep_free(server->ep));
	fake_hold(false);
	ck_assert_uint_eq(rmr_param().rmr_context, held ? before : context);
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	take_bind_events(server->request_evd);
	/* peers reach the window, and it can be bound, through another endpoint of the zone */
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	server->ep = side_create_ep(server, NULL);
	reconnect_pair();
	rmr_access_is(READS, held ? before : context, held ? 16 : 0, 64, DAT_DTO_SUCCESS);
	rmr_access_is(READS, bind_completed(segment(server, 8, 8), REMOTE_BOTH), 8, 8,
		      DAT_DTO_SUCCESS);
	ck_dat(rmr_free(rmr));
	ck_dat(lmr_free(server->lmr));
	rmr_pair_close();
}

static const unsigned destroy_quirks[] = { 0, FAKE_DROPS_CQES, FAKE_LATE_FLUSH };

START_TEST(a_window_outlives_an_endpoint_with_a_bind_in_flight)
{
	endpoint_freed_case(_i % METHODS, destroy_quirks[_i / METHODS], true);
}
END_TEST

START_TEST(a_window_outlives_an_endpoint_with_a_bind_executed)
{
	endpoint_freed_case(_i % METHODS, destroy_quirks[_i / METHODS], false);
}
END_TEST

START_TEST(an_abrupt_close_frees_a_window_with_binds_in_flight)
{
	rmr_pair_open(_i, NULL);
	bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	fake_hold(true);
	bind_posted(segment(server, 8, 64), REMOTE_BOTH, 1);
	bind_posted(no_range, REMOTE_BOTH, 2);
	ck_dat_is(ia_close(server->ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	rmr_pair_close();
}
END_TEST

START_TEST(ep_free_ends_the_binds_of_a_freed_window)
{
	rmr_pair_open(_i, NULL);
	bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	fake_hold(true);
	bind_posted(segment(server, 8, 64), REMOTE_BOTH, 1);
	ck_dat(rmr_free(rmr));
	ck_dat(ep_free(server->ep));
	ck_dat(lmr_free(server->lmr));
	ck_dat(pz_free(server->pz));
	rmr_pair_close();
}
END_TEST

/*
 * Peers can access the region of the bind until the device deregisters it, so the LMR below is in
 * use until then.
 */
START_TEST(dereg_failure_keeps_the_lmr_in_use)
{
	DAT_RMR_CONTEXT old;

	rmr_pair_open(BY_REGION, NULL);
	old = bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	fake_fail("mr_dereg", EIO, 1);
	bind_completed(no_range, DAT_MEM_PRIV_NONE_FLAG);
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	fake_fail("mr_dereg", EIO, 1);
	ck_dat_is(lmr_free(server->lmr), BAD_STATE(LMR_IN_USE));
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	ck_dat(lmr_free(server->lmr));
	rmr_access_is(WRITES, old, 0, 64, DAT_DTO_ERR_REMOTE_ACCESS);
	rmr_pair_close();
}
END_TEST

START_TEST(dereg_failure_does_not_prevent_an_abrupt_close)
{
	struct lmr *lmr;

	rmr_pair_open(BY_REGION, NULL);
	bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	lmr = server->lmr;
	fake_fail("mr_dereg", EIO, 1);
	bind_completed(no_range, DAT_MEM_PRIV_NONE_FLAG);
	fake_fail("mr_dereg", EIO, 1);
	ck_dat(ia_close(server->ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat(ia_close(client->ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
	ck_assert_uint_eq(atomic_load(&lmr->obj.uses), OBJ_RETIRED);
}
END_TEST

/* Neither the free of the window nor that of the endpoint could deregister the region. */
START_TEST(a_close_retries_a_failed_dereg)
{
	struct lmr *lmr;

	rmr_pair_open(BY_REGION, NULL);
	bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	lmr = server->lmr;
	fake_fail("mr_dereg", EIO, 1);
	bind_completed(no_range, DAT_MEM_PRIV_NONE_FLAG);
	fake_fail("mr_dereg", EIO, 1);
	ck_dat(rmr_free(rmr));
	fake_fail("mr_dereg", EIO, 1);
	ck_dat(ep_free(server->ep));
	ck_assert_uint_eq(fake_alive(FAKE_MR), 3);
	rmr_pair_close();
	ck_assert_uint_eq(atomic_load(&lmr->obj.uses), OBJ_RETIRED);
	ck_assert_ptr_null(((struct rmr *)rmr)->spares); /* it was gone before */
}
END_TEST

/* A program may have thousands of windows, and each release tries again what was refused. */
START_TEST(refusals_to_dereg_are_told_once)
{
	static const char line[] = "refuses to free the region";
	const char *told;
	int captured;

	rmr_pair_open(BY_REGION, NULL);
	bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	captured = stderr_capture();
	fake_fail("mr_dereg", EIO, 1);
	bind_completed(no_range, DAT_MEM_PRIV_NONE_FLAG);
	fake_fail("mr_dereg", EIO, 1);
	ck_dat(rmr_free(rmr));
	told = strstr(output_text(captured), line);
	ck_assert_ptr_nonnull(told);
	ck_assert_ptr_null(strstr(told + 1, line));
	rmr_pair_close();
}
END_TEST

/* ---- late completions ---- */

/* The binding of the late completion is freed by then, or used for another bind. */
START_TEST(a_late_flush_of_the_device_is_ignored)
{
	rmr_pair_open(_i, NULL);
	fake_quirks(FAKE_LATE_FLUSH | (_i == BY_BOTH ? FAKE_UNBINDABLE : 0));
	fake_hold(true);
	bind_posted(segment(server, 0, 64), REMOTE_BOTH, 1);
	disconnect_pair();
	expect_rmr_event(rmr, 1, DAT_RMR_BIND_FAILURE);
	ck_dat(rmr_free(rmr));
	ck_assert(fake_step());
	expect_no_event(server->request_evd);
	ck_dat(lmr_free(server->lmr));
	rmr_pair_close();
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

/* Its requests and binds are reported on @evd, which nobody else uses. */
static DAT_EP_HANDLE other_ep_with_evd(DAT_EVD_HANDLE *evd)
{
	const DAT_EVD_HANDLE usual = server->request_evd;
	DAT_EP_HANDLE ep;

	ck_dat(evd_create(server->ia, 16, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG,
			  evd));
	server->request_evd = *evd;
	ep = other_ep(NULL);
	server->request_evd = usual;
	return ep;
}

static DAT_RETURN try_rmr_bind_on(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET triplet, uint64_t cookie,
				  DAT_RMR_CONTEXT *context)
{
	return rmr_bind_va(rmr, &triplet, READ_ONLY, ep, cookie_of(cookie), 0, context);
}

/*
 * While it is held, the service thread takes nothing out of the queues of the server. The mutex is
 * taken without the check of lock ranks, because the calling thread goes on to make consumer calls.
 */
static void hold_service_thread(bool hold)
{
	struct ia *ia = server->ia;

	if (hold)
		pthread_mutex_lock(&ia->lock.os);
	else
		pthread_mutex_unlock(&ia->lock.os);
}

/*
 * The ring of the endpoint is full, so the bind processes completions to free a slot. It finds the
 * failure of an earlier bind, by which the window that it was to move is lost.
 */
START_TEST(a_window_may_be_lost_while_a_bind_looks_for_a_slot)
{
	DAT_RMR_CONTEXT context = 5;
	DAT_LMR_TRIPLET range, iov;
	DAT_RMR_TRIPLET remote;
	DAT_EP_ATTR attr;
	DAT_EP_HANDLE ep;
	DAT_RETURN ret;

	rmr_pair_open(_i % METHODS, NULL);
	attr = ep_attr_default(server);
	attr.max_request_dtos = 1;
	ep = other_ep(&attr);
	range = _i < METHODS ? segment(server, 8, 8) : no_range;
	iov = segment(server, 0, 8);
	remote = target(client, 0, 8);
	bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	ck_dat(ep_post_rdma_write(ep, 1, &iov, cookie_of(2), &remote, 0));
	fake_hold(true);
	hold_service_thread(true);
	bind_posted(segment(server, 0, 64), REMOTE_BOTH, 1);
	fake_fail_transfer(DAT_RMR_OPERATION_FAILED);
	ck_assert(fake_step());
	ret = try_rmr_bind_on(ep, range, 3, &context);
	hold_service_thread(false);
	fake_hold(false);
	expect_dto(server->request_evd, 2, DAT_DTO_SUCCESS);
	expect_rmr_event(rmr, 1, DAT_RMR_OPERATION_FAILED);
	if (ret == DAT_SUCCESS) {
		expect_rmr_event(rmr, 3, DAT_RMR_BIND_SUCCESS);
	} else {
		ck_dat_is(ret, NO_RESOURCE(MEMORY)); /* the next bind creates another window */
		ck_assert_uint_eq(context, 5);
		expect_unbound();
	}
	ck_assert_uint_eq(handle_uses(server->lmr),
			  ret == DAT_SUCCESS && range.segment_length ? 1 : 0);
	ck_dat(try_rmr_bind_on(ep, segment(server, 16, 8), 4, &context));
	expect_rmr_event(rmr, 4, DAT_RMR_BIND_SUCCESS);
	rmr_pair_close();
}
END_TEST

/* A window is lost while a third endpoint has a bind in flight that was to move it. */
START_TEST(a_window_may_be_lost_with_binds_on_three_endpoints)
{
	DAT_RMR_CONTEXT context = 5;
	DAT_EP_HANDLE ep, third;
	DAT_LMR_TRIPLET iov;
	DAT_RMR_TRIPLET remote;
	DAT_EP_ATTR attr;

	rmr_pair_open(BY_WINDOW, NULL);
	attr = ep_attr_default(server);
	attr.max_request_dtos = 1;
	ep = other_ep(&attr);
	third = other_ep(NULL);
	iov = segment(server, 0, 8);
	remote = target(client, 0, 8);
	ck_dat(ep_post_rdma_write(ep, 1, &iov, cookie_of(2), &remote, 0));
	fake_hold(true);
	hold_service_thread(true);
	bind_posted(segment(server, 0, 64), REMOTE_BOTH, 1);
	ck_dat(try_rmr_bind_on(third, segment(server, 8, 8), 3, &context));
	fake_fail_transfer(DAT_RMR_OPERATION_FAILED);
	ck_assert(fake_step());
	if (_i)
		ck_dat_is(try_rmr_bind_on(ep, segment(server, 16, 8), 4, &context),
			  NO_RESOURCE(MEMORY));
	else
		ck_dat(try_rmr_bind_on(ep, no_range, 4, &context));
	hold_service_thread(false);
	fake_hold(false);
	expect_dto(server->request_evd, 2, DAT_DTO_SUCCESS);
	take_bind_events(server->request_evd);
	expect_unbound();
	ck_assert_uint_eq(handle_uses(server->lmr), 0);
	ck_dat(try_rmr_bind_on(ep, segment(server, 16, 8), 5, &context));
	expect_rmr_event(rmr, 5, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 1);
	rmr_pair_close();
}
END_TEST

/* As before, but the earlier bind was flushed, and executed: nobody knows the key of the window. */
START_TEST(a_window_may_become_unknown_while_a_bind_looks_for_a_slot)
{
	DAT_RMR_CONTEXT before, context = 5;
	DAT_LMR_TRIPLET iov;
	DAT_RMR_TRIPLET remote;
	DAT_EP_ATTR attr;
	DAT_EP_HANDLE ep;

	rmr_pair_open(BY_WINDOW, NULL);
	fake_quirks(FAKE_FLUSHES_BOUND);
	attr = ep_attr_default(server);
	attr.max_request_dtos = 1;
	ep = other_ep(&attr);
	iov = segment(server, 0, 8);
	remote = target(client, 0, 8);
	before = bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	ck_dat(ep_post_rdma_write(ep, 1, &iov, cookie_of(2), &remote, 0));
	fake_hold(true);
	hold_service_thread(true);
	ck_dat(ep_post_rdma_write(server->ep, 1, &iov, cookie_of(5), &remote, 0));
	bind_posted(segment(server, 0, 64), REMOTE_BOTH, 1);
	fake_fail_transfer(DAT_DTO_ERR_TRANSPORT);
	ck_assert(fake_step());
	if (_i) {
		ck_dat(try_rmr_bind_on(ep, no_range, 3, &context));
		ck_assert_uint_eq(context, 0);
	} else { /* the next bind makes another window */
		ck_dat_is(try_rmr_bind_on(ep, segment(server, 8, 8), 3, &context),
			  NO_RESOURCE(MEMORY));
		ck_assert_uint_eq(rmr_param().rmr_context, before);
		ck_assert_uint_eq(handle_uses(server->lmr), 1);
	}
	hold_service_thread(false);
	fake_hold(false);
	expect_dto(server->request_evd, 2, DAT_DTO_SUCCESS);
	expect_dto(server->request_evd, 5, DAT_DTO_ERR_TRANSPORT);
	expect_rmr_event(rmr, 1, DAT_RMR_BIND_FAILURE);
	if (_i)
		expect_rmr_event(rmr, 3, DAT_RMR_BIND_SUCCESS);
	ck_dat(try_rmr_bind_on(ep, segment(server, 16, 8), 4, &context));
	expect_rmr_event(rmr, 4, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 1);
	rmr_pair_close();
}
END_TEST

/* ---- a flush while a bind of another endpoint is in flight ---- */

/* A bind of @ep, whose requests are reported on @evd alone, is flushed. */
static void flush_a_bind_on(DAT_EP_HANDLE ep, DAT_EVD_HANDLE evd, DAT_LMR_TRIPLET range,
			    uint64_t cookie)
{
	DAT_RMR_CONTEXT context;

	ck_dat(try_rmr_bind_on(ep, range, cookie, &context));
	ck_dat(ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_rmr_event_in(evd, rmr, cookie, DAT_RMR_BIND_FAILURE);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

/*
 * The first bind was executed, but its completion is still in the queue; the second one was flushed
 * and executed, so that nobody knows the window's key. A third one is posted behind the first.
 */
enum third {
	THIRD_BINDS,
	THIRD_BINDS_OTHER, /* see BY_BOTH */
	THIRD_UNBINDS,
	THIRD_KINDS
};

static DAT_LMR_TRIPLET third_range(enum third third)
{
	DAT_LMR_CONTEXT lmr_context;

	if (third == THIRD_UNBINDS)
		return no_range;
	if (third == THIRD_BINDS)
		return segment(server, 24, 64);
	(void)other_lmr(&lmr_context);
	return other_segment(lmr_context, 24, 64);
}

/* If @bound, another binding was in force before the three. */
static void flushed_beside_case(enum method method, enum third third, bool bound)
{
	DAT_RMR_CONTEXT first, context;
	DAT_LMR_TRIPLET range;
	DAT_EVD_HANDLE other;
	DAT_EP_HANDLE ep;
	unsigned regions;

	rmr_pair_open(method, NULL);
	ep = other_ep_with_evd(&other);
	range = third_range(third);
	fake_quirks(FAKE_FLUSHES_BOUND | (method == BY_BOTH ? FAKE_UNBINDABLE : 0));
	regions = fake_alive(FAKE_MR);
	if (bound)
		bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	fake_hold(true);
	first = bind_posted(segment(server, 16, 64), REMOTE_BOTH, 1);
	ck_assert(fake_step());
	flush_a_bind_on(ep, other, segment(server, 8, 64), 2);
	ck_assert_uint_eq(rmr_param().rmr_context, first);
	context = bind_posted(range, READ_ONLY, 3);
	fake_hold(false);
	expect_rmr_event(rmr, 1, DAT_RMR_BIND_SUCCESS);
	expect_rmr_event(rmr, 3, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(handle_uses(server->lmr), third == THIRD_BINDS);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0); /* it went before the event was delivered */
	if (third == THIRD_UNBINDS) {
		expect_unbound();
	} else {
		ck_assert_uint_eq(rmr_param().rmr_context, context);
		rmr_access_is(READS, context, 24, 64, DAT_DTO_SUCCESS);
	}
	context = bind_completed(segment(server, 32, 64), REMOTE_BOTH);
	ck_assert_uint_eq(fake_alive(FAKE_MR), method == BY_REGION ? regions + 1 : regions);
	rmr_access_is(READS, context, 32, 64, DAT_DTO_SUCCESS);
	rmr_access_is(READS, first, 16, 8, DAT_DTO_ERR_REMOTE_ACCESS);
	rmr_pair_close();
}

START_TEST(a_bind_may_be_flushed_while_another_is_not_dequeued)
{
	const enum third third = _i / METHODS % THIRD_KINDS;

	flushed_beside_case(_i % METHODS, third, _i / METHODS / THIRD_KINDS);
}
END_TEST

/* The second bind was not executed, so the first one is in force until a later one completes. */
START_TEST(a_flush_keeps_a_bind_that_is_not_dequeued)
{
	DAT_RMR_CONTEXT context, next;
	DAT_EVD_HANDLE other;
	DAT_EP_HANDLE ep;

	rmr_pair_open(_i, NULL);
	ep = other_ep_with_evd(&other);
	bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	fake_hold(true);
	context = bind_posted(segment(server, 16, 64), REMOTE_BOTH, 1);
	ck_assert(fake_step());
	flush_a_bind_on(ep, other, segment(server, 8, 64), 2);
	fake_hold(false);
	expect_rmr_event(rmr, 1, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	rmr_access_is(READS, context, 16, 64, DAT_DTO_SUCCESS);
	next = bind_completed(segment(server, 24, 64), REMOTE_BOTH);
	rmr_access_is(READS, next, 24, 64, DAT_DTO_SUCCESS);
	ck_assert_uint_eq(fake_alive(FAKE_MW), _i != BY_REGION);
	rmr_access_is(READS, context, 16, 8, DAT_DTO_ERR_REMOTE_ACCESS);
	rmr_pair_close();
}
END_TEST

/*
 * The third bind is of another endpoint, and its completion is dequeued first. So the binding that
 * it supersedes must have ended, and with it the window, if the first bind was dequeued, too.
 */
START_TEST(a_bind_behind_a_flush_may_be_dequeued_first)
{
	DAT_RMR_CONTEXT before, context;
	DAT_EVD_HANDLE other, last;
	DAT_EP_HANDLE ep, third;

	rmr_pair_open(_i, NULL);
	ep = other_ep_with_evd(&other);
	third = other_ep_with_evd(&last);
	before = bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	fake_hold(true);
	bind_posted(segment(server, 16, 64), REMOTE_BOTH, 1);
	flush_a_bind_on(ep, other, segment(server, 8, 64), 2);
	ck_dat(try_rmr_bind_on(third, segment(server, 24, 64), 3, &context));
	ck_assert(fake_step());
	ck_assert(fake_step());
	expect_rmr_event_in(last, rmr, 3, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(fake_alive(FAKE_MW), _i != BY_REGION); /* of the first bind */
	expect_rmr_event(rmr, 1, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	ck_assert_uint_eq(rmr_param().rmr_context, context);
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	fake_hold(false);
	rmr_access_is(READS, context, 24, 64, DAT_DTO_SUCCESS);
	rmr_access_is(READS, before, 0, 8, DAT_DTO_ERR_REMOTE_ACCESS);
	rmr_pair_close();
}
END_TEST

/*
 * An unbind and a bind behind it are in flight, executed or not, when a bind of another endpoint is
 * flushed. The end of the unbind does not take the window away from the bind.
 */
START_TEST(an_unbind_before_a_flush_keeps_the_window_of_a_bind)
{
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT context;
	DAT_LMR_HANDLE lmr;
	DAT_EVD_HANDLE other;
	DAT_EP_HANDLE ep;

	rmr_pair_open(BY_WINDOW, NULL);
	lmr = other_lmr(&lmr_context);
	ep = other_ep_with_evd(&other);
	bind_completed(other_segment(lmr_context, 0, 64), READ_ONLY);
	fake_hold(true);
	bind_posted(no_range, REMOTE_BOTH, 1);
	context = bind_posted(segment(server, 16, 64), REMOTE_BOTH, 2);
	for (int n = 0; n < _i; n++)
		ck_assert(fake_step());
	flush_a_bind_on(ep, other, segment(server, 8, 64), 3);
	if (_i == 0)
		ck_assert(fake_step());
	expect_rmr_event(rmr, 1, DAT_RMR_BIND_SUCCESS);
	ck_dat(lmr_free(lmr)); /* the unbind has ended that */
	fake_hold(false);
	expect_rmr_event(rmr, 2, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(rmr_param().rmr_context, context);
	rmr_access_is(READS, context, 16, 64, DAT_DTO_SUCCESS);
	rmr_pair_close();
}
END_TEST

/* How a bind ends that waits behind a send, for which the peer has no receive. */
enum stall { STALL_EXECUTED, STALL_FLUSHED, STALLS };

static void stall_end(enum stall end)
{
	if (end == STALL_FLUSHED) {
		disconnect_pair();
		expect_dto(server->request_evd, 50, DAT_DTO_ERR_FLUSHED);
		expect_rmr_event(rmr, 1, DAT_RMR_BIND_FAILURE);
		reconnect_pair();
	} else {
		post_recv(client, 0, 0, 64, 0);
		expect_dto(server->request_evd, 50, DAT_DTO_SUCCESS);
		expect_rmr_event(rmr, 1, DAT_RMR_BIND_SUCCESS);
	}
}

/*
 * A bind, or an unbind, waits on its endpoint; one of another endpoint is flushed; that of a third
 * one succeeds. The window, what it was bound to, and the hold on that stay until the first one has
 * ended, too.
 */
static void stalled_case(DAT_LMR_TRIPLET range, DAT_LMR_CONTEXT other_context, enum stall end)
{
	DAT_RMR_CONTEXT before, context;
	DAT_EVD_HANDLE other, last;
	DAT_EP_HANDLE ep, third;

	ep = other_ep_with_evd(&other);
	third = other_ep_with_evd(&last);
	before = bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	post_send(server, 50, 0, 8, 0);
	bind_posted(range, READ_ONLY, 1);
	fake_hold(true);
	flush_a_bind_on(ep, other, other_segment(other_context, 8, 64), 2);
	fake_hold(false);
	ck_dat(try_rmr_bind_on(third, other_segment(other_context, 24, 64), 3, &context));
	expect_rmr_event_in(last, rmr, 3, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 1);
	ck_dat_is(lmr_free(server->lmr), BAD_STATE(LMR_IN_USE));
	stall_end(end);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	ck_dat(lmr_free(server->lmr));
	ck_assert_uint_eq(rmr_param().rmr_context, context);
	rmr_access_is(READS, context, 24, 64, DAT_DTO_SUCCESS);
	rmr_access_is(READS, before, 0, 8, DAT_DTO_ERR_REMOTE_ACCESS);
}

START_TEST(a_bind_that_waits_keeps_its_window)
{
	const bool unbinds = _i / STALLS;
	DAT_LMR_CONTEXT lmr_context;
	DAT_LMR_HANDLE lmr;

	rmr_pair_open(BY_WINDOW, NULL);
	lmr = other_lmr(&lmr_context);
	stalled_case(unbinds ? no_range : other_segment(lmr_context, 16, 64), lmr_context,
		     _i % STALLS);
	ck_assert_uint_eq(handle_uses(lmr), 1);
	rmr_pair_close();
}
END_TEST

/* A region to which the window is not bound is freed, even if a bind in flight needs the window. */
START_TEST(a_superseded_region_does_not_wait_for_the_window)
{
	DAT_EVD_HANDLE other, last;
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT unused;
	DAT_EP_HANDLE ep, third;
	DAT_LMR_HANDLE lmr;

	rmr_pair_open(BY_BOTH, NULL);
	lmr = other_lmr(&lmr_context);
	ep = other_ep_with_evd(&other);
	third = other_ep_with_evd(&last);
	bind_completed(segment(server, 0, 64), READ_ONLY);
	fake_hold(true);
	bind_posted(other_segment(lmr_context, 0, 64), READ_ONLY, 1); /* unbinds the window */
	post_send(server, 50, 0, 8, 0);
	bind_posted(segment(server, 16, 64), READ_ONLY, 2);
	flush_a_bind_on(ep, other, segment(server, 8, 64), 3);
	ck_dat(try_rmr_bind_on(third, no_range, 4, &unused));
	fake_hold(false);
	expect_rmr_event(rmr, 1, DAT_RMR_BIND_SUCCESS);
	expect_rmr_event_in(last, rmr, 4, DAT_RMR_BIND_SUCCESS);
	ck_dat(lmr_free(lmr));
	ck_assert_uint_eq(fake_alive(FAKE_MW), 1);
	post_recv(client, 0, 0, 64, 0);
	expect_dto(server->request_evd, 50, DAT_DTO_SUCCESS);
	expect_rmr_event(rmr, 2, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	ck_dat(lmr_free(server->lmr));
	rmr_pair_close();
}
END_TEST

/* ---- a bind behind an unbind of another endpoint, which waits ---- */

/*
 * The bind behind leaves the window as it is. So the window and the hold on what it is bound to
 * stay until the unbind has ended, too, although another binding is in force.
 */
START_TEST(an_unbind_that_waits_holds_what_it_unbinds)
{
	const bool by_region = _i / STALLS;
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT before, context;
	DAT_EVD_HANDLE other;
	DAT_LMR_TRIPLET range;
	DAT_EP_HANDLE ep;

	rmr_pair_open(BY_BOTH, NULL);
	(void)other_lmr(&lmr_context);
	range = by_region ? other_segment(lmr_context, 24, 64) : no_range;
	ep = other_ep_with_evd(&other);
	before = bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	post_send(server, 50, 0, 8, 0);
	bind_posted(no_range, READ_ONLY, 1);
	ck_dat(try_rmr_bind_on(ep, range, 2, &context));
	expect_rmr_event_in(other, rmr, 2, DAT_RMR_BIND_SUCCESS);
	if (by_region)
		ck_assert_uint_eq(rmr_param().rmr_context, context);
	else
		expect_unbound();
	ck_dat_is(lmr_free(server->lmr), BAD_STATE(LMR_IN_USE));
	stall_end(_i % STALLS);
	ck_dat(lmr_free(server->lmr));
	if (by_region)
		rmr_access_is(READS, context, 24, 64, DAT_DTO_SUCCESS);
	rmr_access_is(READS, before, 0, 8, DAT_DTO_ERR_REMOTE_ACCESS);
	rmr_pair_close();
}
END_TEST

/* Binds of two endpoints complete in the other order than that of their posts. */
START_TEST(a_bind_that_completes_late_supersedes_nothing)
{
	DAT_RMR_CONTEXT context;
	DAT_EVD_HANDLE other;
	DAT_EP_HANDLE ep;

	rmr_pair_open(_i, NULL);
	ep = other_ep_with_evd(&other);
	bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	fake_hold(true);
	bind_posted(segment(server, 8, 64), READ_ONLY, 1);
	ck_dat(try_rmr_bind_on(ep, segment(server, 16, 64), 2, &context));
	ck_assert(fake_step());
	ck_assert(fake_step());
	expect_rmr_event_in(other, rmr, 2, DAT_RMR_BIND_SUCCESS);
	ck_dat_is(lmr_free(server->lmr), BAD_STATE(LMR_IN_USE));
	expect_rmr_event(rmr, 1, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	ck_assert_uint_eq(rmr_param().rmr_context, context);
	fake_hold(false);
	rmr_access_is(READS, context, 16, 64, DAT_DTO_SUCCESS);
	rmr_pair_close();
}
END_TEST

struct unbind_beside {
	DAT_EP_HANDLE ep;
	DAT_EVD_HANDLE evd;
};

/* Unbinds behind an unbind, so it leaves the window as it is. */
static void unbind_behind(void *arg)
{
	const struct unbind_beside *beside = arg;
	DAT_RMR_CONTEXT unused;

	ck_dat(try_rmr_bind_on(beside->ep, no_range, 2, &unused));
	expect_rmr_event_in(beside->evd, rmr, 2, DAT_RMR_BIND_SUCCESS);
}

/* The device has refused an unbind, behind which another thread has posted one. */
START_TEST(an_unbind_that_is_not_posted_takes_the_window_along)
{
	struct unbind_beside beside;
	DAT_RMR_CONTEXT before, context;

	rmr_pair_open(BY_WINDOW, NULL);
	beside.ep = other_ep_with_evd(&beside.evd);
	before = bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	race_call(RACE_CANCEL, rmr, unbind_behind, &beside);
	fake_fail("post_bind", ENOMEM, 1);
	ck_dat_is(try_rmr_bind(no_range, REMOTE_BOTH, 1, 0, &context), NO_RESOURCE(MEMORY));
	ck_assert(race_happened(RACE_CANCEL));
	expect_unbound();
	ck_assert_uint_eq(handle_uses(server->lmr), 0);
	rmr_access_is(READS, before, 0, 8, DAT_DTO_ERR_REMOTE_ACCESS);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	reconnect_pair();
	context = bind_completed(segment(server, 16, 64), REMOTE_BOTH);
	rmr_access_is(READS, context, 16, 64, DAT_DTO_SUCCESS);
	rmr_pair_close();
}
END_TEST

/* An unbind that is refused, and behind which nothing was posted, changes nothing. */
START_TEST(an_unbind_that_is_not_posted_changes_nothing)
{
	DAT_RMR_CONTEXT before, context;

	rmr_pair_open(BY_WINDOW, NULL);
	before = bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	fake_fail("post_bind", ENOMEM, 1);
	ck_dat_is(try_rmr_bind(no_range, REMOTE_BOTH, 1, 0, &context), NO_RESOURCE(MEMORY));
	rmr_access_is(READS, before, 0, 64, DAT_DTO_SUCCESS);
	fake_hold(true);
	bind_posted(segment(server, 16, 64), REMOTE_BOTH, 2);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 1); /* it is bound by the same window */
	fake_hold(false);
	expect_rmr_event(rmr, 2, DAT_RMR_BIND_SUCCESS);
	rmr_pair_close();
}
END_TEST

struct flush_beside {
	DAT_EP_HANDLE ep, third;
	DAT_EVD_HANDLE other, last;
	DAT_LMR_CONTEXT lmr_context;
};

/* The bind that @arg has in flight is flushed, and one that registers its range succeeds. */
static void flush_and_bind(void *arg)
{
	const struct flush_beside *beside = arg;
	DAT_RMR_CONTEXT context;

	ck_dat(ep_disconnect(beside->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_rmr_event_in(beside->other, rmr, 1, DAT_RMR_BIND_FAILURE);
	ck_dat(try_rmr_bind_on(beside->third, other_segment(beside->lmr_context, 0, 64), 2,
			       &context));
	ck_assert(fake_step());
	expect_rmr_event_in(beside->last, rmr, 2, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 1);
}

/* The device has refused a bind, which is still in flight for the bind of another thread. */
START_TEST(a_bind_that_is_not_posted_lets_the_window_go)
{
	struct flush_beside beside;
	DAT_RMR_CONTEXT context;

	rmr_pair_open(BY_WINDOW, NULL);
	(void)other_lmr(&beside.lmr_context);
	beside.ep = other_ep_with_evd(&beside.other);
	beside.third = other_ep_with_evd(&beside.last);
	bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	fake_hold(true);
	ck_dat(try_rmr_bind_on(beside.ep, other_segment(beside.lmr_context, 8, 64), 1, &context));
	race_call(RACE_CANCEL, rmr, flush_and_bind, &beside);
	fake_fail("post_bind", ENOMEM, 1);
	ck_dat_is(try_rmr_bind(segment(server, 16, 64), REMOTE_BOTH, 3, 0, &context),
		  NO_RESOURCE(MEMORY));
	ck_assert(race_happened(RACE_CANCEL));
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	ck_assert_uint_eq(handle_uses(server->lmr), 0);
	fake_hold(false);
	ck_dat(rmr_free(rmr));
	ck_assert_uint_eq(fake_alive(FAKE_MR), 3);
	rmr_pair_close();
}
END_TEST

/* The window is flushed behind a bind that has registered its range, which does not need it. */
START_TEST(an_unused_window_ends_with_its_flush)
{
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT context;
	DAT_EVD_HANDLE other;
	DAT_EP_HANDLE ep;

	rmr_pair_open(BY_BOTH, NULL);
	(void)other_lmr(&lmr_context);
	ep = other_ep_with_evd(&other);
	fake_quirks(FAKE_FLUSHES_BOUND | FAKE_UNBINDABLE);
	fake_hold(true);
	bind_posted(other_segment(lmr_context, 0, 64), READ_ONLY, 1);
	ck_assert(fake_step());
	flush_a_bind_on(ep, other, segment(server, 8, 64), 2);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	context = bind_posted(segment(server, 0, 64), READ_ONLY, 3);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 1);
	fake_hold(false);
	expect_rmr_event(rmr, 1, DAT_RMR_BIND_SUCCESS);
	expect_rmr_event(rmr, 3, DAT_RMR_BIND_SUCCESS);
	rmr_access_is(READS, context, 0, 64, DAT_DTO_SUCCESS);
	ck_dat(rmr_free(rmr));
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	ck_dat(lmr_free(server->lmr));
	rmr_pair_close();
}
END_TEST

/* The bind of another endpoint is flushed and executed, and the unbind behind it is in flight. */
static void flush_before_an_unbind(void)
{
	DAT_RMR_CONTEXT context;
	DAT_EVD_HANDLE other;
	DAT_EP_HANDLE ep;

	ep = other_ep_with_evd(&other);
	fake_quirks(FAKE_FLUSHES_BOUND | FAKE_UNBINDABLE);
	fake_hold(true);
	ck_dat(try_rmr_bind_on(ep, segment(server, 8, 64), 1, &context));
	bind_posted(no_range, READ_ONLY, 2);
	ck_dat(ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_rmr_event_in(other, rmr, 1, DAT_RMR_BIND_FAILURE);
}

/*
 * An unbind succeeds behind a bind that was flushed and executed. Nothing needs the window then,
 * which ends with the next bind, whatever that is.
 */
START_TEST(an_unused_window_ends_with_the_next_bind)
{
	DAT_LMR_CONTEXT lmr_context;

	rmr_pair_open(BY_BOTH, NULL);
	(void)other_lmr(&lmr_context);
	flush_before_an_unbind();
	fake_hold(false);
	expect_rmr_event(rmr, 2, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 1);
	bind_completed(_i == 0	 ? no_range
		       : _i == 1 ? segment(server, 0, 64)
				 : other_segment(lmr_context, 8, 64),
		       READ_ONLY);
	ck_assert_uint_eq(fake_alive(FAKE_MW), _i == 1);
	bind_completed(segment(server, 0, 64), READ_ONLY);
	ck_dat(rmr_free(rmr));
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	ck_dat(lmr_free(server->lmr));
	rmr_pair_close();
}
END_TEST

/* As before, but the next bind is posted before the unbind has completed. */
START_TEST(an_unused_window_ends_with_the_unbind_before)
{
	DAT_RMR_CONTEXT context;

	rmr_pair_open(BY_WINDOW, NULL);
	flush_before_an_unbind();
	context = bind_posted(segment(server, 16, 64), READ_ONLY, 3);
	fake_hold(false);
	expect_rmr_event(rmr, 2, DAT_RMR_BIND_SUCCESS);
	expect_rmr_event(rmr, 3, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	rmr_access_is(READS, context, 16, 64, DAT_DTO_SUCCESS);
	rmr_pair_close();
}
END_TEST

/* A bind that has registered its range is in flight, which does not need the window either. */
START_TEST(a_window_is_replaced_while_a_region_is_in_flight)
{
	DAT_RMR_CONTEXT first, context, unused;
	DAT_EVD_HANDLE other, last;
	DAT_EP_HANDLE ep, third;

	rmr_pair_open(BY_WINDOW, NULL);
	ep = other_ep_with_evd(&other);
	third = other_ep_with_evd(&last);
	fake_hold(true);
	first = bind_posted(segment(server, 0, 64), READ_ONLY, 1);
	ck_assert(fake_step());
	flush_a_bind_on(ep, other, segment(server, 8, 64), 2);
	ck_dat(try_rmr_bind_on(third, segment(server, 16, 64), 3, &unused));
	expect_rmr_event(rmr, 1, DAT_RMR_BIND_SUCCESS);
	context = bind_posted(segment(server, 24, 64), READ_ONLY, 4);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 2);
	fake_hold(false);
	expect_rmr_event(rmr, 4, DAT_RMR_BIND_SUCCESS);
	expect_rmr_event_in(last, rmr, 3, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 1);
	ck_assert_uint_eq(fake_alive(FAKE_MR), 2);
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	rmr_access_is(READS, context, 24, 64, DAT_DTO_SUCCESS);
	rmr_access_is(READS, first, 0, 8, DAT_DTO_ERR_REMOTE_ACCESS);
	rmr_pair_close();
}
END_TEST

/*
 * A bind that was posted after the one that failed is not complete yet when the window is replaced.
 * The post with the new window fails.
 */
START_TEST(a_lost_window_is_replaced_while_old_binds_are_in_flight)
{
	DAT_RMR_CONTEXT context = 5;
	DAT_EP_HANDLE ep;
	DAT_EVENT event;

	rmr_pair_open(_i, NULL);
	ep = other_ep(NULL);
	bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	fake_hold(true);
	hold_service_thread(true);
	bind_posted(segment(server, 0, 64), REMOTE_BOTH, 1);
	bind_posted(segment(server, 8, 64), REMOTE_BOTH, 2);
	fake_fail_transfer(DAT_RMR_OPERATION_FAILED);
	ck_assert(fake_step());
	ck_dat(evd_dequeue(server->request_evd, &event));
	ck_assert_int_eq(event.event_data.rmr_completion_event_data.status,
			 DAT_RMR_OPERATION_FAILED);
	fake_fail(_i == BY_REGION ? "post_write" : "post_bind", ENOMEM, 1);
	ck_dat_is(try_rmr_bind_on(ep, segment(server, 16, 8), 3, &context), NO_RESOURCE(MEMORY));
	hold_service_thread(false);
	fake_hold(false);
	expect_rmr_event(rmr, 2, DAT_RMR_BIND_FAILURE);
	expect_unbound();
	ck_dat(try_rmr_bind_on(ep, segment(server, 16, 8), 4, &context));
	expect_rmr_event(rmr, 4, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	rmr_pair_close();
}
END_TEST

static void bind_on(void *ep)
{
	DAT_RMR_CONTEXT context;

	ck_dat(try_rmr_bind_on(ep, segment(server, 8, 8), 4, &context));
	expect_rmr_event(rmr, 4, DAT_RMR_BIND_SUCCESS);
}

/* The window is lost, and two threads bind it anew. */
START_TEST(a_lost_window_is_replaced_by_one)
{
	DAT_RMR_CONTEXT context;
	DAT_EP_HANDLE ep;

	rmr_pair_open(BY_WINDOW, NULL);
	ep = other_ep(NULL);
	bind_posted(segment(server, 0, 64), REMOTE_BOTH, 1);
	expect_rmr_event(rmr, 1, DAT_RMR_BIND_SUCCESS);
	fake_fail_transfer(DAT_RMR_OPERATION_FAILED);
	bind_posted(segment(server, 0, 64), REMOTE_BOTH, 2);
	expect_rmr_event(rmr, 2, DAT_RMR_OPERATION_FAILED);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	race_call(RACE_RENEW, rmr, bind_on, ep);
	ck_dat(try_rmr_bind_on(ep, segment(server, 16, 8), 5, &context));
	ck_assert(race_happened(RACE_RENEW));
	expect_rmr_event(rmr, 5, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 1);
	ck_assert_uint_eq(rmr_param().rmr_context, context);
	rmr_pair_close();
}
END_TEST

/* A bind that registers a region does not depend on one that fails on another endpoint. */
START_TEST(a_failed_bind_keeps_the_region_of_another_bind)
{
	DAT_EVD_HANDLE other;
	DAT_RMR_CONTEXT context;
	DAT_EP_HANDLE ep;

	rmr_pair_open(BY_REGION, NULL);
	ep = other_ep_with_evd(&other);
	bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	fake_hold(true);
	hold_service_thread(true);
	bind_posted(segment(server, 8, 64), REMOTE_BOTH, 1);
	ck_dat(try_rmr_bind_on(ep, segment(server, 16, 8), 2, &context));
	fake_fail_transfer(DAT_RMR_OPERATION_FAILED);
	ck_assert(fake_step());
	ck_assert(fake_step());
	expect_rmr_event_in(other, rmr, 2, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(handle_uses(server->lmr), 2);
	hold_service_thread(false);
	fake_hold(false);
	expect_rmr_event(rmr, 1, DAT_RMR_OPERATION_FAILED);
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	ck_assert_uint_eq(((struct rmr *)rmr)->latest->region_key, context);
	ck_assert_ptr_eq(((struct rmr *)rmr)->latest, ((struct rmr *)rmr)->bindings);
	rmr_pair_close();
}
END_TEST

/* ---- binds of three endpoints in any order ---- */

enum {
	MIX_EPS = 3,
	MIX_STEPS = 600,
	MIX_SEEDS = 80,
};

/* A bind, and what has become of it. */
struct mixed {
	unsigned ep; /* of which one */
	DAT_LMR_TRIPLET range;
	DAT_RMR_CONTEXT context;
	bool ended, succeeded;
};

static struct mix {
	unsigned seed;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT lmr_context;
	DAT_EP_HANDLE ep[MIX_EPS];
	DAT_EVD_HANDLE evd[MIX_EPS];
	struct mixed binds[MIX_STEPS];
	unsigned posted;
	bool may_be_executed; /* a bind that was flushed since the last one that succeeded */
} mix;

static unsigned random_below(unsigned below)
{
	return (unsigned)rand_r(&mix.seed) % below;
}

static void mix_open(unsigned seed)
{
	mix.seed = seed;
	rmr_pair_open(seed / 2 % 2 ? BY_BOTH : BY_WINDOW, NULL);
	fake_quirks((seed % 2 ? FAKE_FLUSHES_BOUND : 0) | (seed / 2 % 2 ? FAKE_UNBINDABLE : 0));
	mix.lmr = other_lmr(&mix.lmr_context);
	mix.ep[0] = server->ep;
	mix.evd[0] = server->request_evd;
	for (int i = 1; i < MIX_EPS; i++)
		mix.ep[i] = other_ep_with_evd(&mix.evd[i]);
	fake_hold(true);
}

static DAT_LMR_TRIPLET random_range(void)
{
	const size_t offset = random_below(1000);

	switch (random_below(4)) {
	case 0:
		return no_range;
	case 1:
		return other_segment(mix.lmr_context, offset, 64);
	default:
		return segment(server, offset, 64);
	}
}

/* Posts a bind, now and then with a device or a host that has nothing left. */
static void mix_post(unsigned ep)
{
	struct mixed *bind = &mix.binds[mix.posted];

	*bind = (struct mixed){ .ep = ep, .range = random_range() };
	if (random_below(16) == 0)
		fake_fail_call(1 + random_below(3));
	if (try_rmr_bind_on(mix.ep[ep], bind->range, mix.posted, &bind->context) == DAT_SUCCESS)
		mix.posted++;
	fake_fail_call(0);
}

/* Takes a completion, which must be one of a bind that succeeded or was flushed. */
static bool mix_dequeue(unsigned ep)
{
	const DAT_RMR_BIND_COMPLETION_EVENT_DATA *data;
	struct mixed *bind;
	DAT_EVENT event;

	if (evd_dequeue(mix.evd[ep], &event) != DAT_SUCCESS)
		return false;
	ck_assert_int_eq(event.event_number, DAT_RMR_BIND_COMPLETION_EVENT);
	data = &event.event_data.rmr_completion_event_data;
	bind = &mix.binds[data->user_cookie.as_64];
	ck_assert_uint_eq(bind->ep, ep);
	ck_assert(!bind->ended);
	bind->ended = true;
	bind->succeeded = data->status == DAT_RMR_BIND_SUCCESS;
	if (!bind->succeeded)
		ck_assert_int_eq(data->status, DAT_RMR_BIND_FAILURE);
	return true;
}

/* Returns the first bind of an endpoint that has not ended, or the number of all. */
static unsigned mix_first_in_flight(unsigned ep)
{
	unsigned n = 0;

	while (n < mix.posted && (mix.binds[n].ended || mix.binds[n].ep != ep))
		n++;
	return n;
}

/*
 * Ends the connection of an endpoint that has binds in flight, and makes another one. Not if one of
 * another endpoint was posted later: it fails if the device has not executed those before.
 */
static void mix_flush(unsigned ep)
{
	const unsigned first = mix_first_in_flight(ep);

	for (unsigned n = first; n < mix.posted; n++)
		if (!mix.binds[n].ended && mix.binds[n].ep != ep)
			return;
	if (first == mix.posted)
		return;
	mix.may_be_executed = true;
	ck_dat(ep_disconnect(mix.ep[ep], DAT_CLOSE_ABRUPT_FLAG));
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	while (mix_dequeue(ep))
		;
	ck_assert_uint_eq(mix_first_in_flight(ep), mix.posted);
	ck_dat(ep_reset(mix.ep[ep]));
	connect_eps(client, side_create_ep(client, NULL), server, mix.ep[ep]);
}

/* What the last bind that succeeded has bound is in force, and nothing else is held. */
static void mix_expect_in_force(const struct mixed *bind)
{
	const DAT_LMR_CONTEXT lmr_context = bind->range.lmr_context;
	const bool bound = bind->range.segment_length;

	ck_assert_uint_eq(handle_uses(mix.lmr), bound && lmr_context == mix.lmr_context);
	ck_assert_uint_eq(handle_uses(server->lmr), bound && lmr_context != mix.lmr_context);
	ck_assert_uint_le(fake_alive(FAKE_MW), 2);
	ck_assert_uint_le(fake_alive(FAKE_MR), 4);
	if (!bound) {
		expect_unbound();
		return;
	}
	ck_assert_uint_eq(rmr_param().rmr_context, bind->context);
	if (mix.may_be_executed)
		return;
	fake_hold(false);
	rmr_access_is(READS, bind->context,
		      (size_t)(bind->range.virtual_address - (uintptr_t)server->memory), 64,
		      DAT_DTO_SUCCESS);
	fake_hold(true);
}

/* Ends all binds. */
static void mix_settle(void)
{
	const struct mixed *last = NULL;

	while (fake_step())
		;
	for (unsigned ep = 0; ep < MIX_EPS; ep++) {
		while (mix_dequeue(ep))
			;
		ck_assert_uint_eq(mix_first_in_flight(ep), mix.posted);
	}
	for (unsigned n = 0; n < mix.posted; n++)
		if (mix.binds[n].succeeded)
			last = &mix.binds[n];
	if (!last)
		return;
	if (last == &mix.binds[mix.posted - 1])
		mix.may_be_executed = false;
	mix_expect_in_force(last);
}

/* Binds are flushed, but none fails. */
START_TEST(binds_of_several_endpoints_mix)
{
	mix_open((unsigned)_i);
	for (int n = 0; n < MIX_STEPS; n++) {
		const unsigned what = random_below(20), ep = random_below(MIX_EPS);

		if (what < 8)
			mix_post(ep);
		else if (what < 13)
			(void)fake_step();
		else if (what < 16)
			(void)mix_dequeue(ep);
		else if (ep)
			mix_flush(ep);
		if (n % 40 == 39)
			mix_settle();
	}
	if (_i % 3 == 0)
		mix_settle();
	ck_dat(rmr_free(rmr));
	if (_i % 3 == 0) {
		ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
		ck_assert_uint_eq(fake_alive(FAKE_MR), 3);
	}
	fake_hold(false);
	rmr_pair_close();
}
END_TEST

/* ---- windows that the device refuses to bind ---- */

/* The server's window covers its first 64 bytes; now the device has short windows only. */
static DAT_RMR_CONTEXT short_window_open(void)
{
	DAT_RMR_CONTEXT context;

	rmr_pair_open(BY_WINDOW, NULL);
	context = bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	fake_quirks(FAKE_SHORT_WINDOWS);
	return context;
}

#define LONG_RANGE segment(server, 16, 2 * FAKE_WINDOW)

/* Two binds of another endpoint are reported; the first one never is, because its endpoint goes. */
START_TEST(a_bind_that_is_not_reported_leaves_the_last_one_in_force)
{
	DAT_EVD_HANDLE other;
	DAT_RMR_CONTEXT context = 0;
	DAT_EP_HANDLE ep;

	rmr_pair_open(_i, NULL);
	ep = other_ep_with_evd(&other);
	bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	fake_hold(true);
	hold_service_thread(true);
	bind_posted(segment(server, 8, 64), REMOTE_BOTH, 1);
	ck_assert(fake_step());
	for (unsigned n = 2; n < 4; n++) {
		ck_dat(try_rmr_bind_on(ep, segment(server, 8 * n, 8), n, &context));
		ck_assert(fake_step());
		expect_rmr_event_in(other, rmr, n, DAT_RMR_BIND_SUCCESS);
	}
	hold_service_thread(false);
	ck_dat(ep_free(server->ep));
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	ck_assert_uint_eq(rmr_param().rmr_context, context);
	fake_hold(false);
	rmr_pair_close();
}
END_TEST

START_TEST(a_range_too_long_for_a_window_is_registered)
{
	const DAT_RMR_CONTEXT before = short_window_open();
	const unsigned regions = fake_alive(FAKE_MR);
	DAT_RMR_CONTEXT context, after;

	context = bind_posted(LONG_RANGE, READ_ONLY, 1);
	ck_assert_uint_ne(context, before);
	ck_assert_uint_eq(rmr_param().rmr_context, context);
	ck_assert_uint_eq(rmr_param().lmr_triplet.segment_length, 2 * FAKE_WINDOW);
	expect_rmr_event(rmr, 1, DAT_RMR_BIND_SUCCESS);
	expect_no_event(server->request_evd);
	ck_assert_uint_eq(fake_alive(FAKE_MR), regions + 1);
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	rmr_access_is(READS, context, 16, 2 * FAKE_WINDOW, DAT_DTO_SUCCESS);
	/* the next one has the window again */
	after = bind_completed(segment(server, 8, 8), REMOTE_BOTH);
	ck_assert_uint_eq(fake_alive(FAKE_MR), regions);
	rmr_access_is(WRITES, after, 8, 8, DAT_DTO_SUCCESS);
	rmr_access_is(READS, context, 16, 8, DAT_DTO_ERR_REMOTE_ACCESS);
	rmr_pair_close();
}
END_TEST

START_TEST(a_registered_range_ends_the_window_before_it)
{
	const DAT_RMR_CONTEXT before = short_window_open();

	bind_completed(LONG_RANGE, REMOTE_BOTH);
	rmr_access_is(READS, before, 0, 8, DAT_DTO_ERR_REMOTE_ACCESS);
	rmr_pair_close();
}
END_TEST

START_TEST(a_registered_range_keeps_its_place_among_the_requests)
{
	const DAT_RMR_CONTEXT before = short_window_open();
	const unsigned regions = fake_alive(FAKE_MR);

	for (uint64_t n = 0; n < 3; n++)
		post_recv(client, n, 0, 64, 0);
	fake_hold(true);
	post_send(server, 1, 0, 8, 0);
	bind_posted(LONG_RANGE, READ_ONLY, 2);
	post_send(server, 3, 0, 8, 0);
	bind_posted(segment(server, 0, 8), READ_ONLY, 4);
	if (_i == 0) {
		fake_hold(false);
		expect_dto(server->request_evd, 1, DAT_DTO_SUCCESS);
		expect_rmr_event(rmr, 2, DAT_RMR_BIND_SUCCESS);
		expect_dto(server->request_evd, 3, DAT_DTO_SUCCESS);
		expect_rmr_event(rmr, 4, DAT_RMR_BIND_SUCCESS);
		ck_assert_uint_ne(rmr_param().rmr_context, before);
	} else {
		disconnect_pair();
		expect_dto(server->request_evd, 1, DAT_DTO_ERR_FLUSHED);
		expect_rmr_event(rmr, 2, DAT_DTO_ERR_FLUSHED);
		expect_dto(server->request_evd, 3, DAT_DTO_ERR_FLUSHED);
		expect_rmr_event(rmr, 4, DAT_DTO_ERR_FLUSHED);
		ck_assert_uint_eq(rmr_param().rmr_context, before);
	}
	expect_no_event(server->request_evd);
	ck_assert_uint_eq(fake_alive(FAKE_MR), regions);
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	rmr_pair_close();
}
END_TEST

START_TEST(a_range_that_can_not_be_registered_either_is_refused)
{
	const DAT_RMR_CONTEXT before = short_window_open();
	DAT_RMR_CONTEXT context = 5;

	fake_fail("mr_reg", ENOMEM, 1);
	ck_dat_is(try_rmr_bind(LONG_RANGE, REMOTE_BOTH, 2, 0, &context),
		  NO_RESOURCE(MEMORY_REGION));
	ck_assert_uint_eq(context, 5);
	ck_assert_uint_eq(rmr_param().rmr_context, before);
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	expect_no_event(server->request_evd);
	rmr_access_is(READS, before, 0, 8, DAT_DTO_SUCCESS);
	rmr_pair_close();
}
END_TEST

/* The device has ended the connection, and the core does not know yet. */
START_TEST(a_bind_behind_the_end_of_the_connection_is_flushed)
{
	DAT_RMR_CONTEXT before;

	rmr_pair_open(BY_WINDOW, NULL);
	before = bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	fake_fail("post_bind", ENOTCONN, 1);
	bind_posted(segment(server, 8, 8), READ_ONLY, 2);
	disconnect_pair();
	expect_rmr_event(rmr, 2, DAT_DTO_ERR_FLUSHED);
	expect_no_event(server->request_evd);
	ck_assert_uint_eq(rmr_param().rmr_context, before);
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	rmr_pair_close();
}
END_TEST

static const struct {
	int err;
	DAT_RETURN want;
} bind_refusals[] = {
	{ EINVAL, DAT_SUCCESS },
	{ EOPNOTSUPP, DAT_SUCCESS },
	{ ENOMEM, NO_RESOURCE(MEMORY) },
	{ EIO, DAT_ERROR(DAT_INTERNAL_ERROR, 0) },
};

/* A bind with a fence is posted once before the range is registered. */
START_TEST(a_refused_window_is_told_from_other_failures)
{
	DAT_RMR_CONTEXT before, context = 5;
	unsigned regions;

	rmr_pair_open(BY_WINDOW, NULL);
	before = bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	regions = fake_alive(FAKE_MR);
	fake_fail("post_bind", bind_refusals[_i].err, 1);
	ck_dat_is(try_rmr_bind(segment(server, 8, 8), READ_ONLY, 2, BARRIER, &context),
		  bind_refusals[_i].want);
	if (bind_refusals[_i].want == DAT_SUCCESS) {
		expect_rmr_event(rmr, 2, DAT_RMR_BIND_SUCCESS);
		ck_assert_uint_eq(fake_alive(FAKE_MR), regions + 1);
		ck_assert_uint_ne(context, before);
		rmr_access_is(READS, context, 8, 8, DAT_DTO_SUCCESS);
	} else {
		ck_assert_uint_eq(context, 5);
		ck_assert_uint_eq(fake_alive(FAKE_MR), regions);
		rmr_access_is(READS, before, 0, 8, DAT_DTO_SUCCESS);
	}
	ck_assert_uint_eq(handle_uses(server->lmr), 1);
	rmr_pair_close();
}
END_TEST

/* The consumer takes no completion, and the device has few regions. */
START_TEST(suppressed_binds_free_their_regions)
{
	DAT_RMR_CONTEXT context;
	unsigned spares = 0;

	fake_attr()->max_mr = 300;
	rmr_pair_open(_i, NULL);
	for (unsigned n = 0; n < 2000; n++)
		ck_dat(try_rmr_bind(segment(server, n, 64), REMOTE_BOTH, n, SUPPRESS, &context));
	expect_no_event(server->request_evd);
	ck_assert_uint_le(fake_alive(FAKE_MR), 3);
	for (struct binding *spare = ((struct rmr *)rmr)->spares; spare; spare = spare->next)
		spares++;
	ck_assert_uint_le(spares, 300);
	rmr_pair_close();
}
END_TEST

/* ---- deferred releases ---- */

/* From here on the service thread drains the completion queue of requests. */
static void add_cno(void)
{
	DAT_CNO_HANDLE cno;

	ck_dat(cno_create(server->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(evd_modify_cno(server->request_evd, cno));
}

/* How the consumer takes the completion. */
static const struct {
	const char *how;
	bool waits, sleeps, drained;
} event_calls[] = {
	{ "dequeue", false, false, false },
	{ "wait", true, false, false },
	{ "wait, blocked", true, true, false },
	{ "dequeue, drained by the service thread", false, false, true },
	{ "wait, drained by the service thread", true, false, true },
};

/*
 * Moves the window to @range. When the consumer has the event, the region of the earlier binding is
 * deregistered. @suppressed: that move is suppressed, and an unbind follows.
 */
static void release_case(enum method method, int i, DAT_LMR_TRIPLET range, bool suppressed)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };
	unsigned regions = fake_alive(FAKE_MR);
	DAT_RMR_CONTEXT context;
	DAT_EVENT event;
	DAT_COUNT nmore;

	if (method == BY_BOTH) /* the earlier binding has a region, the later one the window */
		regions -= 1;
	waiter.evd = server->request_evd;
	if (event_calls[i].drained)
		add_cno();
	fake_hold(event_calls[i].sleeps);
	if (event_calls[i].sleeps)
		waiter_start(&waiter);
	if (suppressed)
		ck_dat(try_rmr_bind(range, READ_ONLY, 1, SUPPRESS, &context));
	ck_dat(try_rmr_bind(suppressed ? no_range : range, READ_ONLY, 2,
			    DAT_COMPLETION_DEFAULT_FLAG, &context));
	if (event_calls[i].sleeps) {
		fake_hold(false);
		ck_dat(waiter_join(&waiter));
		event = waiter.event;
	} else if (event_calls[i].waits) {
		fake_wait_idle(0);
		ck_dat(evd_wait(server->request_evd, 0, 1, &event, &nmore));
	} else {
		fake_wait_idle(0);
		ck_dat(evd_dequeue(server->request_evd, &event));
	}
	ck_assert_uint_eq(event.event_data.rmr_completion_event_data.user_cookie.as_64, 2);
	if (method == BY_REGION && (suppressed || !range.segment_length))
		regions -= 1;
	ck_assert_uint_eq(fake_alive(FAKE_MR), regions);
}

START_TEST(an_old_region_is_freed_before_its_event_is_delivered)
{
	enum method method = _i % 2 ? BY_BOTH : BY_REGION;
	DAT_LMR_CONTEXT lmr_context;
	DAT_LMR_HANDLE lmr;

	rmr_pair_open(method, NULL);
	lmr = other_lmr(&lmr_context);
	bind_completed(other_segment(lmr_context, 0, 64), READ_ONLY);
	release_case(method, _i / 4, segment(server, 0, 64), _i / 2 % 2);
	ck_dat(lmr_free(lmr));
	if (_i / 2 % 2 == 0) {
		ck_dat_is(lmr_free(server->lmr), BAD_STATE(LMR_IN_USE));
		ck_dat(rmr_free(rmr));
	}
	ck_dat(lmr_free(server->lmr));
	rmr_pair_close();
}
END_TEST

/* The window was freed while the bind was in flight. */
START_TEST(a_zone_can_be_freed_after_the_last_completion)
{
	DAT_PZ_HANDLE zone;

	rmr_pair_open(_i, NULL);
	zone = server->pz;
	bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	fake_hold(true);
	bind_posted(segment(server, 8, 64), REMOTE_BOTH, 1);
	ck_dat(rmr_free(rmr));
	fake_hold(false);
	add_cno();
	fake_wait_idle(0);
	ck_dat_is(pz_free(zone), BAD_STATE(PZ_IN_USE));
	expect_rmr_event(rmr, 1, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	ck_assert_uint_eq(fake_alive(FAKE_MR), 2);
	ck_dat(ep_free(server->ep));
	ck_dat(lmr_free(server->lmr));
	ck_dat(pz_free(zone));
	rmr_pair_close();
}
END_TEST

static bool has_deferred_releases(struct ia *ia)
{
	bool has;

	spin_lock(&ia->releases.lock);
	has = ia->releases.first;
	spin_unlock(&ia->releases.lock);
	return has;
}

/* The completion queue was drained, but the consumer has not taken the events. */
START_TEST(a_close_runs_the_deferred_releases)
{
	CANCEL_FORBIDDEN;
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT context;

	rmr_pair_open(_i % METHODS, NULL);
	other_lmr(&lmr_context);
	for (unsigned n = 0; n < 4; n++)
		bind_posted(n % 2 ? segment(server, n, 8) : other_segment(lmr_context, n, 8),
			    READ_ONLY, n);
	if (_i >= METHODS) {
		fake_fail_transfer(DAT_RMR_OPERATION_FAILED);
		ck_dat(try_rmr_bind(segment(server, 0, 8), READ_ONLY, 4, 0, &context));
	}
	ck_assert(evd_drain(server->request_evd));
	ck_assert(_i == BY_WINDOW || has_deferred_releases(server->ia));
	rmr_pair_close();
}
END_TEST

/* A thread in dat_evd_wait runs deferred releases while another one closes the IA. */
START_TEST(a_close_races_with_deferred_releases)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 60 };

	for (int round = 0; round < 10; round++) {
		rmr_pair_open(_i, NULL);
		waiter.evd = server->request_evd;
		bind_completed(segment(server, 0, 64), REMOTE_BOTH);
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

static _Atomic bool may_dequeue, may_free;
static DAT_RETURN lmr_free_status;

static void yield_until(const _Atomic bool *word)
{
	while (!atomic_load(word))
		sched_yield();
}

static void *free_lmr_thread(void *lmr)
{
	yield_until(&may_free);
	lmr_free_status = lmr_free(lmr);
	return NULL;
}

static void *dequeue_thread(void *evd)
{
	DAT_EVENT event;

	yield_until(&may_dequeue);
	ck_dat(evd_dequeue(evd, &event));
	return NULL;
}

/*
 * The first thread takes the list of deferred releases and blocks in the device, because the test
 * holds the lock of the fake. The second one must wait until the first has released the region.
 */
START_TEST(lmr_free_waits_for_a_release_in_progress)
{
	CANCEL_FORBIDDEN;
	pthread_t dequeuer, freer;

	rmr_pair_open(BY_REGION, NULL);
	bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	bind_posted(no_range, 0, 1);
	ck_assert(evd_drain(server->request_evd));
	fake_wait_idle(0);
	ck_assert(has_deferred_releases(server->ia));
	dequeuer = consumer_thread_start(dequeue_thread, server->request_evd);
	freer = consumer_thread_start(free_lmr_thread, server->lmr);
	pthread_mutex_lock(&fake.lock);
	atomic_store(&may_dequeue, true);
	while (has_deferred_releases(server->ia))
		sched_yield();
	atomic_store(&may_free, true);
	for (int n = 0; n < 1000; n++)
		sched_yield(); /* enough for a call that does not wait to fail */
	pthread_mutex_unlock(&fake.lock);
	consumer_thread_join(dequeuer);
	consumer_thread_join(freer);
	ck_dat(lmr_free_status);
	rmr_pair_close();
}
END_TEST

/* ---- every failure of a rebind ---- */

static const struct {
	const char *how;
	bool elsewhere, unbinds;
	DAT_COMPLETION_FLAGS flags;
} rebinds[] = {
	{ "within the region", false, false, 0 },
	{ "to another region", true, false, 0 },
	{ "within the region, suppressed", false, false, SUPPRESS },
	{ "to another region, with a fence", true, false, BARRIER },
	{ "to nothing", false, true, 0 },
};

/*
 * After each failure the window has its binding, and in the end the same bind succeeds. If a bind
 * was @flushed before, another window is made for it, and the old one serves the binding.
 */
static void failed_rebind_case(enum method method, int how, bool flushed)
{
	DAT_RMR_CONTEXT before, context = 5;
	DAT_LMR_CONTEXT lmr_context;
	DAT_LMR_TRIPLET range;
	DAT_LMR_HANDLE lmr;
	unsigned regions, windows, n;

	rmr_pair_open(method, NULL);
	lmr = other_lmr(&lmr_context);
	bind_completed(segment(server, 0, 64), READ_ONLY);
	before = bind_completed(segment(server, 16, 64), READ_ONLY); /* there are spare bindings */
	range = rebinds[how].unbinds	 ? no_range
		: rebinds[how].elsewhere ? other_segment(lmr_context, 8, 8)
					 : segment(server, 8, 8);
	regions = fake_alive(FAKE_MR);
	windows = fake_alive(FAKE_MW);
	if (flushed) {
		flush_a_bind(segment(server, 8, 64), 1);
		reconnect_pair();
	}
	for (n = 1; fake_fail_call(n),
	    try_rmr_bind(range, READ_ONLY, 2, rebinds[how].flags, &context) != DAT_SUCCESS;
	     n++) {
		ck_assert_uint_eq(context, 5);
		ck_assert_uint_eq(rmr_param().rmr_context, before);
		ck_assert_uint_eq(handle_uses(server->lmr), 1);
		ck_assert_uint_eq(handle_uses(lmr), 0);
		ck_assert_uint_eq(fake_alive(FAKE_MR), regions);
		ck_assert_uint_ge(fake_alive(FAKE_MW), windows);
		ck_assert_uint_le(fake_alive(FAKE_MW), windows + flushed);
		rmr_access_is(READS, before, 16, 64, DAT_DTO_SUCCESS);
	}
	ck_assert_uint_gt(n, 1);
	fake_fail_call(0);
	if (rebinds[how].flags == SUPPRESS)
		expect_no_event(server->request_evd);
	else
		expect_rmr_event(rmr, 2, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_eq(handle_uses(server->lmr),
			  !rebinds[how].elsewhere && !rebinds[how].unbinds);
	ck_assert_uint_eq(handle_uses(lmr), rebinds[how].elsewhere);
	if (!rebinds[how].unbinds)
		rmr_access_is(READS, context, 8, 8, DAT_DTO_SUCCESS);
	ck_dat(rmr_free(rmr));
	ck_dat(lmr_free(lmr));
	ck_dat(lmr_free(server->lmr));
	rmr_pair_close();
}

START_TEST(a_failed_rebind_keeps_the_binding)
{
	failed_rebind_case(_i % METHODS, _i / METHODS, false);
}
END_TEST

START_TEST(a_failed_rebind_after_a_flush_keeps_the_binding)
{
	failed_rebind_case(_i % METHODS, _i / METHODS, true);
}
END_TEST

/* ---- a window freed with binds in flight on several endpoints ---- */

/*
 * Each endpoint executes its bind, or is freed before. The window of the device is destroyed with
 * the last bind.
 */
START_TEST(a_freed_window_lives_until_its_last_bind)
{
	const unsigned ep_freed = _i / METHODS; /* one bit for each endpoint */
	DAT_RMR_CONTEXT context;
	DAT_EP_HANDLE eps[3];

	rmr_pair_open(_i % METHODS, NULL);
	eps[0] = server->ep;
	eps[1] = other_ep(NULL);
	eps[2] = other_ep(NULL);
	bind_completed(segment(server, 0, 64), REMOTE_BOTH);
	fake_hold(true);
	for (int n = 0; n < COUNT(eps); n++)
		ck_dat(try_rmr_bind_on(eps[n], segment(server, 8, 8), n, &context));
	ck_dat(rmr_free(rmr));
	ck_dat_is(lmr_free(server->lmr), BAD_STATE(LMR_IN_USE));
	for (int n = COUNT(eps) - 1; n >= 0; n--)
		if (ep_freed & 1u << n)
			ck_dat(ep_free(eps[n]));
	if (ep_freed != 7)
		ck_dat_is(lmr_free(server->lmr), BAD_STATE(LMR_IN_USE));
	fake_hold(false);
	take_bind_events(server->request_evd);
	for (int n = 0; n < COUNT(eps); n++)
		if (!(ep_freed & 1u << n))
			ck_dat(ep_free(eps[n]));
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	ck_dat(lmr_free(server->lmr));
	ck_dat(pz_free(server->pz));
	rmr_pair_close();
}
END_TEST

/* ---- threads ---- */

#define BINDERS 4
#define ROUNDS	150

struct binder {
	struct side *side;
	DAT_EP_HANDLE ep;
	DAT_RMR_HANDLE rmr;
	unsigned expected; /* events */
	_Atomic unsigned events;
};

static struct binder binders[BINDERS];
static _Atomic bool stop;

/* Two threads for each queue. Taking an event frees what the bind has replaced. */
static void *take_bind_events_until_stopped(void *evd)
{
	DAT_RETURN ret;
	DAT_COUNT nmore;
	DAT_EVENT event;

	for (unsigned n = 0; !atomic_load(&stop); n++) {
		ret = n % 2 ? evd_dequeue(evd, &event) : evd_wait(evd, 0, 1, &event, &nmore);
		if (ret == DAT_SUCCESS) {
			DAT_RMR_BIND_COMPLETION_EVENT_DATA *bind =
				&event.event_data.rmr_completion_event_data;
			struct binder *binder = bind->user_cookie.as_ptr;

			ck_assert_int_eq(event.event_number, DAT_RMR_BIND_COMPLETION_EVENT);
			ck_assert_int_eq(bind->status, DAT_RMR_BIND_SUCCESS);
			atomic_fetch_add(&binder->events, 1);
		} else {
			sched_yield();
		}
	}
	return NULL;
}

static void binder_bind(struct binder *binder, DAT_LMR_CONTEXT lmr_context, size_t offset,
			size_t length, DAT_COMPLETION_FLAGS flags)
{
	const DAT_RMR_COOKIE cookie = { .as_ptr = binder };
	DAT_LMR_TRIPLET range = segment(binder->side, offset, length);
	DAT_RMR_CONTEXT context;

	range.lmr_context = lmr_context;
	ck_dat(rmr_bind_va(binder->rmr, &range, READ_ONLY, binder->ep, cookie, flags, &context));
	binder->expected += !(flags & SUPPRESS);
}

static void binder_wait(struct binder *binder)
{
	while (atomic_load(&binder->events) != binder->expected)
		sched_yield();
}

static void *bind_and_free(void *arg)
{
	struct binder *binder = arg;
	const DAT_REGION_DESCRIPTION region = { .for_va = binder->side->memory };

	for (unsigned n = 0; n < ROUNDS; n++) {
		DAT_LMR_CONTEXT lmr_context;
		DAT_LMR_HANDLE lmr;

		ck_dat(lmr_create_va(binder->side->ia, DAT_MEM_TYPE_VIRTUAL, region, SIDE_MEMORY,
				     binder->side->pz,
				     n % 3 ? DAT_MEM_PRIV_ALL_FLAG : DAT_MEM_PRIV_READ_FLAG, &lmr,
				     &lmr_context, NULL, NULL, NULL));
		binder_bind(binder, binder->side->lmr_context, 0, 64, 0);
		binder_bind(binder, lmr_context, n, 64, n % 5 ? 0 : SUPPRESS);
		binder_bind(binder, lmr_context, 0, 32, 0);
		if (n % 7 == 0) {
			ck_dat(rmr_free(binder->rmr)); /* its binds may be in flight */
			ck_dat(rmr_create(binder->side->pz, &binder->rmr));
		} else {
			binder_bind(binder, lmr_context, 0, n % 2 ? 64 : 0, 0);
			binder_bind(binder, binder->side->lmr_context, 0, n % 4 ? 64 : 0, 0);
		}
		binder_wait(binder);
		ck_dat(lmr_free(lmr));
	}
	ck_dat(rmr_free(binder->rmr));
	return NULL;
}

/*
 * Two IAs, each with two endpoints that share a request EVD. With @cnos the service thread drains
 * the completion queue of one of them, too.
 */
static void threads_case(enum method method, bool thread_safe, bool cnos)
{
	pthread_t threads[BINDERS], takers[4];

	client->thread_safe = server->thread_safe = thread_safe;
	rmr_pair_open(method, NULL);
	ck_dat(rmr_free(rmr));
	binders[0] = (struct binder){ .side = client, .ep = client->ep };
	binders[1] = (struct binder){ .side = server, .ep = server->ep };
	binders[2] = (struct binder){ .side = client, .ep = side_create_ep(client, NULL) };
	binders[3] = (struct binder){ .side = server, .ep = side_create_ep(server, NULL) };
	connect_eps(client, binders[2].ep, server, binders[3].ep);
	if (cnos)
		add_cno();
	for (int n = 0; n < BINDERS; n++)
		ck_dat(rmr_create(binders[n].side->pz, &binders[n].rmr));
	for (int n = 0; n < COUNT(takers); n++)
		takers[n] = consumer_thread_start(take_bind_events_until_stopped,
						  n % 2 ? client->request_evd
							: server->request_evd);
	for (int n = 0; n < BINDERS; n++)
		threads[n] = consumer_thread_start(bind_and_free, &binders[n]);
	for (int n = 0; n < BINDERS; n++)
		consumer_thread_join(threads[n]);
	atomic_store(&stop, true);
	for (int n = 0; n < COUNT(takers); n++)
		consumer_thread_join(takers[n]);
	ck_assert_uint_eq(fake_alive(FAKE_MR), 2);
	ck_assert_uint_eq(fake_alive(FAKE_MW), 0);
	ck_assert_uint_eq(handle_uses(client->lmr), 0);
	ck_assert_uint_eq(handle_uses(server->lmr), 0);
	rmr_pair_close();
}

START_TEST(threads_bind_take_events_and_free)
{
	threads_case(_i % METHODS, _i / METHODS & 1, _i / METHODS & 2);
}
END_TEST

/* Connections end while a thread binds: each bind has one event, whether executed or flushed. */
static void *bind_while_up(void *arg)
{
	struct binder *binder = arg;

	for (unsigned n = 0; ep_get_state(binder->ep) == DAT_EP_STATE_CONNECTED; n++) {
		const DAT_RMR_COOKIE cookie = { .as_ptr = binder };
		const DAT_LMR_TRIPLET range = segment(binder->side, n % 64, n % 8 ? 64 : 0);
		DAT_RMR_CONTEXT context;
		DAT_RETURN ret = rmr_bind_va(binder->rmr, &range, READ_ONLY, binder->ep, cookie, 0,
					     &context);

		if (ret == DAT_SUCCESS)
			binder->expected++;
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

	while (!atomic_load(&stop) || atomic_load(&binder->events) != binder->expected) {
		if (evd_dequeue(binder->side->request_evd, &event) == DAT_SUCCESS)
			atomic_fetch_add(&binder->events, 1);
		else
			sched_yield();
	}
	ck_dat_is(evd_dequeue(binder->side->request_evd, &event), (DAT_RETURN)DAT_QUEUE_EMPTY);
	return NULL;
}

START_TEST(every_bind_completes_once_when_the_connection_ends)
{
	struct binder *binder = &binders[0];

	rmr_pair_open(_i, NULL);
	for (int round = 0; round < 10; round++) {
		pthread_t poster, dequeuer;

		*binder = (struct binder){ .side = server, .ep = server->ep, .rmr = rmr };
		atomic_store(&stop, false);
		dequeuer = consumer_thread_start(take_while_up, binder);
		poster = consumer_thread_start(bind_while_up, binder);
		while (atomic_load(&binder->events) < 20)
			sched_yield();
		if (round % 2)
			ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
		else
			ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
		expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
		expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
		consumer_thread_join(poster);
		atomic_store(&stop, true);
		consumer_thread_join(dequeuer);
		ck_assert_uint_le(handle_uses(server->lmr), 1);
		reconnect_pair();
	}
	ck_dat(rmr_free(rmr));
	ck_assert_uint_eq(handle_uses(server->lmr), 0);
	ck_assert_uint_eq(fake_alive(FAKE_MR), 2);
	pair_close(&pair);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("rmr");

	tcase_add_test(cases, create_refuses_bad_arguments);
	tcase_add_loop_test(cases, a_new_window_is_unbound, 0, METHODS);
	tcase_add_test(cases, a_window_holds_its_zone);
	tcase_add_loop_test(cases, query_returns_a_bind_once_it_is_posted, 0, METHODS);
	tcase_add_loop_test(cases, peers_have_the_range_and_privileges_of_a_window, 0,
			    COUNT(accesses));
	tcase_add_loop_test(cases, peers_have_the_range_and_privileges_without_windows, 0,
			    COUNT(accesses));
	tcase_add_test(cases, a_region_without_local_write_can_be_bound);
	tcase_add_loop_test(cases, bind_refuses_bad_arguments, 0, COUNT(refusals));
	tcase_add_loop_test(cases, binds_are_reported_to_an_evd_of_dtos_with_any_flags, 0, METHODS);
	tcase_add_loop_test(cases, an_unbind_ignores_all_but_the_length, 0, METHODS);
	tcase_add_loop_test(cases, a_bind_needs_a_request_slot, 0, METHODS);
	tcase_add_loop_test(cases, binds_complete_in_order, 0, METHODS);
	tcase_add_loop_test(cases, a_completed_rebind_releases_the_region_before, 0, METHODS);
	tcase_add_loop_test(cases, a_rebind_invalidates_the_context_before, 0, METHODS);
	tcase_add_loop_test(cases, an_unbind_invalidates_the_context, 0, METHODS);
	tcase_add_loop_test(cases, a_free_invalidates_the_context, 0, METHODS);
	tcase_add_loop_test(cases, a_bind_in_flight_completes_after_the_free, 0, METHODS);
	tcase_add_loop_test(cases, a_suppressed_success_has_no_event, 0, METHODS);
	tcase_add_loop_test(cases, suppressed_binds_reuse_their_slots, 0, METHODS);
	tcase_add_loop_test(cases, a_flush_is_reported_although_suppressed, 0, METHODS);
	tcase_add_loop_test(cases, a_graceful_disconnect_waits_for_a_suppressed_bind, 0, METHODS);
	tcase_add_loop_test(cases, an_unsignalled_bind_wakes_no_waiter, 0, METHODS);
	tcase_add_loop_test(cases, a_barrier_flag_posts_a_fence, 0, METHODS);
	tcase_add_loop_test(cases, a_flushed_bind_keeps_the_binding_before, 0, METHODS);
	tcase_add_loop_test(cases, a_flushed_bind_may_have_been_executed, 0, METHODS);
	tcase_add_loop_test(cases, windows_that_are_freed_take_their_memory_along, 0, METHODS);
	tcase_add_loop_test(cases, flushed_binds_keep_the_binding_before, 0, METHODS);
	tcase_add_test(cases, a_flushed_bind_of_a_region_keeps_the_window);
	tcase_add_loop_test(cases, a_bind_after_the_disconnect_is_flushed, 0, METHODS);
	tcase_add_loop_test(cases, a_failed_bind_leaves_the_window_unbound, 0,
			    METHODS * COUNT(failures));
	tcase_add_test(cases, bind_fails_when_a_lost_window_cannot_be_replaced);
	tcase_add_loop_test(cases, post_failure_keeps_the_binding, 0, METHODS);
	tcase_add_loop_test(cases, a_failed_call_changes_nothing, 0, METHODS);
	tcase_add_loop_test(cases, a_window_outlives_an_endpoint_with_a_bind_in_flight, 0,
			    METHODS * COUNT(destroy_quirks));
	tcase_add_loop_test(cases, a_window_outlives_an_endpoint_with_a_bind_executed, 0,
			    METHODS * COUNT(destroy_quirks));
	tcase_add_loop_test(cases, an_abrupt_close_frees_a_window_with_binds_in_flight, 0, METHODS);
	tcase_add_loop_test(cases, ep_free_ends_the_binds_of_a_freed_window, 0, METHODS);
	tcase_add_test(cases, dereg_failure_keeps_the_lmr_in_use);
	tcase_add_test(cases, dereg_failure_does_not_prevent_an_abrupt_close);
	tcase_add_test(cases, a_close_retries_a_failed_dereg);
	tcase_add_test(cases, refusals_to_dereg_are_told_once);
	tcase_add_loop_test(cases, a_late_flush_of_the_device_is_ignored, 0, METHODS);
	tcase_add_loop_test(cases, a_window_may_be_lost_while_a_bind_looks_for_a_slot, 0,
			    2 * METHODS);
	tcase_add_loop_test(cases, a_window_may_be_lost_with_binds_on_three_endpoints, 0, 2);
	tcase_add_loop_test(cases, a_window_may_become_unknown_while_a_bind_looks_for_a_slot, 0, 2);
	tcase_add_loop_test(cases, a_bind_may_be_flushed_while_another_is_not_dequeued, 0,
			    METHODS * THIRD_KINDS * 2);
	tcase_add_loop_test(cases, a_flush_keeps_a_bind_that_is_not_dequeued, 0, METHODS);
	tcase_add_loop_test(cases, a_bind_behind_a_flush_may_be_dequeued_first, 0, METHODS);
	tcase_add_loop_test(cases, an_unbind_before_a_flush_keeps_the_window_of_a_bind, 0, 3);
	tcase_add_loop_test(cases, a_bind_that_waits_keeps_its_window, 0, 2 * STALLS);
	tcase_add_test(cases, a_superseded_region_does_not_wait_for_the_window);
	tcase_add_test(cases, a_bind_that_is_not_posted_lets_the_window_go);
	tcase_add_loop_test(cases, an_unbind_that_waits_holds_what_it_unbinds, 0, 2 * STALLS);
	tcase_add_loop_test(cases, a_bind_that_completes_late_supersedes_nothing, 0, METHODS);
	tcase_add_test(cases, an_unbind_that_is_not_posted_takes_the_window_along);
	tcase_add_test(cases, an_unbind_that_is_not_posted_changes_nothing);
	tcase_add_test(cases, an_unused_window_ends_with_its_flush);
	tcase_add_loop_test(cases, an_unused_window_ends_with_the_next_bind, 0, 3);
	tcase_add_test(cases, an_unused_window_ends_with_the_unbind_before);
	tcase_add_test(cases, a_window_is_replaced_while_a_region_is_in_flight);
	tcase_add_test(cases, a_lost_window_is_replaced_by_one);
	tcase_add_loop_test(cases, a_lost_window_is_replaced_while_old_binds_are_in_flight, 0,
			    METHODS);
	tcase_add_test(cases, a_failed_bind_keeps_the_region_of_another_bind);
	tcase_add_loop_test(cases, binds_of_several_endpoints_mix, 0, MIX_SEEDS);
	tcase_add_loop_test(cases, a_bind_that_is_not_reported_leaves_the_last_one_in_force, 0,
			    METHODS);
	tcase_add_test(cases, a_range_too_long_for_a_window_is_registered);
	tcase_add_test(cases, a_registered_range_ends_the_window_before_it);
	tcase_add_loop_test(cases, a_registered_range_keeps_its_place_among_the_requests, 0, 2);
	tcase_add_test(cases, a_range_that_can_not_be_registered_either_is_refused);
	tcase_add_test(cases, a_bind_behind_the_end_of_the_connection_is_flushed);
	tcase_add_loop_test(cases, a_refused_window_is_told_from_other_failures, 0,
			    COUNT(bind_refusals));
	tcase_add_loop_test(cases, suppressed_binds_free_their_regions, 0, METHODS);
	tcase_add_loop_test(cases, an_old_region_is_freed_before_its_event_is_delivered, 0,
			    4 * COUNT(event_calls));
	tcase_add_loop_test(cases, a_zone_can_be_freed_after_the_last_completion, 0, METHODS);
	tcase_add_loop_test(cases, a_close_runs_the_deferred_releases, 0, 2 * METHODS);
	tcase_add_loop_test(cases, a_close_races_with_deferred_releases, 0, METHODS);
	tcase_add_test(cases, lmr_free_waits_for_a_release_in_progress);
	tcase_add_loop_test(cases, a_failed_rebind_keeps_the_binding, 0, METHODS * COUNT(rebinds));
	tcase_add_loop_test(cases, a_failed_rebind_after_a_flush_keeps_the_binding, 0,
			    METHODS * COUNT(rebinds));
	tcase_add_loop_test(cases, a_freed_window_lives_until_its_last_bind, 0, 8 * METHODS);
	tcase_add_loop_test(cases, threads_bind_take_events_and_free, 0, 4 * METHODS);
	tcase_add_loop_test(cases, every_bind_completes_once_when_the_connection_ends, 0, METHODS);
	return run_unit_cases(argc, argv);
}
