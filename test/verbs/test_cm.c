/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of a connection over librdmacm: cm.c and cm_event.c, each state with each event. */
#include <arpa/inet.h>
#include <stdlib.h>

#include "../unit/alloc.h"
#include "conn.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- the table of states ---- */

#define EVENTS			(RDMA_CM_EVENT_TIMEWAIT_EXIT + 1)
#define IBCM_REJECT_NO_LISTENER 8

enum effect {
	IGNORED,
	MOVES,	 /* to the state, without an upcall */
	TELLS,	 /* to the state, with the upcall */
	SETTLES, /* to the state in which the connection waits to be destroyed */
	GONE,	 /* the connection is destroyed */
	RETOLD,	 /* the device's removal, for a connection that has an endpoint */
};

struct outcome {
	enum effect effect;
	enum cm_state to;
	enum up_kind up;
	enum tp_cause cause;
};

#define MOVES_TO(state)                                                                            \
	{                                                                                          \
		MOVES, state, UP_NONE, TP_LOCAL_ERROR                                              \
	}
#define FAILS(cause)                                                                               \
	{                                                                                          \
		TELLS, CM_AWAITS_RELEASE, UP_FAILED, cause                                         \
	}
#define ESTABLISHES                                                                                \
	{                                                                                          \
		TELLS, CM_ESTABLISHED, UP_ESTABLISHED, TP_LOCAL_ERROR                              \
	}
#define DISCONNECTS                                                                                \
	{                                                                                          \
		TELLS, CM_AWAITS_RELEASE, UP_DISCONNECTED, TP_LOCAL_ERROR                          \
	}
#define DESTROYED_LATER                                                                            \
	{                                                                                          \
		SETTLES, CM_AWAITS_DESTROY, UP_NONE, TP_LOCAL_ERROR                                \
	}
#define DESTROYS                                                                                   \
	{                                                                                          \
		GONE, CM_AWAITS_RELEASE, UP_NONE, TP_LOCAL_ERROR                                   \
	}
#define REMOVED                                                                                    \
	{                                                                                          \
		RETOLD, CM_AWAITS_RELEASE, UP_NONE, TP_LOCAL_ERROR                                 \
	}

#define EV(name) [RDMA_CM_EVENT_##name]

/* What ends any attempt, whatever it waits for. */
#define ENDINGS                                                                                    \
	EV(CONNECT_ERROR) = FAILS(TP_UNREACHABLE), EV(UNREACHABLE) = FAILS(TP_UNREACHABLE),        \
	EV(REJECTED) = FAILS(TP_NON_PEER_REJECTED), EV(DISCONNECTED) = FAILS(TP_UNREACHABLE),      \
	EV(ADDR_ERROR) = FAILS(TP_UNREACHABLE), EV(ROUTE_ERROR) = FAILS(TP_UNREACHABLE),           \
	EV(DEVICE_REMOVAL) = REMOVED

#define ENDINGS_WITH(outcome)                                                                      \
	EV(CONNECT_ERROR) = outcome, EV(UNREACHABLE) = outcome, EV(REJECTED) = outcome,            \
	EV(DISCONNECTED) = outcome, EV(ADDR_ERROR) = outcome, EV(ROUTE_ERROR) = outcome

/* All events with status 0; REJECTED: no listener. */
static const struct outcome outcomes[PLACES][EVENTS] = {
	[AT_RESOLVING_ADDR] = { ENDINGS, EV(ADDR_RESOLVED) = MOVES_TO(CM_RESOLVING_ROUTE) },
	[AT_RESOLVING_ROUTE] = { ENDINGS, EV(ROUTE_RESOLVED) = MOVES_TO(CM_CONNECTING) },
	[AT_CONNECTING] = { ENDINGS, EV(CONNECT_RESPONSE) = ESTABLISHES,
			    EV(ESTABLISHED) = ESTABLISHES },
	[AT_RETRYING] = { ENDINGS },
	[AT_ESTABLISHED] = { ENDINGS_WITH(DISCONNECTS), EV(DEVICE_REMOVAL) = REMOVED },
	[AT_AWAITING_RELEASE] = { EV(DEVICE_REMOVAL) = REMOVED },
	[AT_LINGERING] = { ENDINGS_WITH(DESTROYED_LATER), EV(DEVICE_REMOVAL) = DESTROYS,
			   EV(ESTABLISHED) = DESTROYED_LATER, EV(TIMEWAIT_EXIT) = DESTROYED_LATER },
	[AT_AWAITING_DESTROY] = { EV(DEVICE_REMOVAL) = DESTROYS, EV(TIMEWAIT_EXIT) = DESTROYS },
	[AT_REQUESTED] = { ENDINGS_WITH(MOVES_TO(CM_AWAITS_RELEASE)),
			   EV(DEVICE_REMOVAL) = MOVES_TO(CM_AWAITS_RELEASE) },
	[AT_ACCEPTING] = { ENDINGS, EV(ESTABLISHED) = ESTABLISHES },
	[AT_ACCEPTED] = { ENDINGS_WITH(DISCONNECTS), EV(DEVICE_REMOVAL) = REMOVED },
	[AT_WITHDRAWN] = { EV(DEVICE_REMOVAL) = MOVES_TO(CM_AWAITS_RELEASE) },
};

START_TEST(each_event_has_its_effect_in_each_state)
{
	enum place place = (enum place)(_i / EVENTS);
	enum rdma_cm_event_type type = (enum rdma_cm_event_type)(_i % EVENTS);
	const struct outcome *outcome = &outcomes[place][type];
	bool removal = type == RDMA_CM_EVENT_DEVICE_REMOVAL;
	struct tp_conn *conn = conn_at(place);
	enum cm_state before = conn->state;
	bool released = place == AT_LINGERING || place == AT_AWAITING_DESTROY;
	unsigned ids = fv_alive(FV_ID);

	if (type == RDMA_CM_EVENT_CONNECT_REQUEST) { /* it is a listener's; see below */
		conn_end(released ? NULL : conn);
		return;
	}
	conn_event(conn, type, type == RDMA_CM_EVENT_REJECTED ? IBCM_REJECT_NO_LISTENER : 0);
	if (outcome->effect == TELLS)
		ck_assert_uint_eq(upcall_is(outcome->up, up_ep(0)).cause,
				  outcome->up == UP_FAILED ? outcome->cause : 0);
	for (unsigned n = removal + (outcome->effect == RETOLD); n; n--)
		upcall_is(UP_DEV_FATAL, up_ia());
	no_upcall();
	ck_assert_uint_eq(fv_alive(FV_ID), outcome->effect == GONE ? ids - 1 : ids);
	if (outcome->effect == MOVES || outcome->effect == TELLS || outcome->effect == SETTLES)
		ck_assert_int_eq(conn->state, outcome->to);
	else if (outcome->effect != GONE)
		ck_assert_int_eq(conn->state, before);
	conn_end(released ? NULL : conn);
}
END_TEST

/* ---- release in each state ---- */

static const struct {
	enum place place;
	const char *calls;
	bool lingers;
	unsigned done; /* connections that are destroyed later */
} releases[] = {
	{ AT_RESOLVING_ADDR, "rdma_destroy_id", false, 0 },
	{ AT_RESOLVING_ROUTE, "rdma_destroy_id", false, 0 },
	{ AT_CONNECTING, "rdma_destroy_id", false, 0 },
	{ AT_RETRYING, "rdma_destroy_id", false, 0 },
	{ AT_ESTABLISHED, "rdma_disconnect", true, 1 },
	{ AT_AWAITING_RELEASE, "", false, 1 },
	{ AT_REQUESTED, "rdma_reject rdma_destroy_id", false, 0 },
	{ AT_ACCEPTING, "rdma_destroy_id", false, 0 },
	{ AT_ACCEPTED, "rdma_disconnect", true, 1 },
	{ AT_WITHDRAWN, "", false, 1 },
};

START_TEST(a_release_notifies_the_peer_and_makes_no_upcall)
{
	struct tp_conn *conn = conn_at(releases[_i].place);
	struct rdma_cm_id *id = conn->id;

	tp_release(conn);
	ck_assert_str_eq(fv_trace(), releases[_i].calls);
	if (releases[_i].lingers)
		fv_cm_post(id, RDMA_CM_EVENT_DISCONNECTED, 0);
	rig_progress(&rig);
	ck_assert_uint_eq(fv_alive(FV_ID), (conn_listener ? 1u : 0) + releases[_i].done);
	conn_end(NULL);
}
END_TEST

/* ---- connections that await their destruction ---- */

START_TEST(the_next_connections_destroy_those_that_await_it)
{
	struct tp_conn *conn;

	for (int i = 0; i < 5; i++)
		tp_release(conn_at(AT_AWAITING_RELEASE));
	ck_assert_uint_eq(fv_alive(FV_ID), 1); /* each destroyed the one before */
	fv_trace_clear();
	ck_assert_int_eq(conn_connect(&conn), 0);
	ck_assert_str_eq(fv_trace(), "rdma_destroy_id rdma_create_id rdma_resolve_addr");
	conn_end(conn);
}
END_TEST

START_TEST(a_request_destroys_those_that_await_it)
{
	struct tp_conn *conns[4];

	for (int i = 0; i < COUNT(conns); i++)
		conns[i] = conn_at(AT_LINGERING);
	for (int i = 0; i < COUNT(conns); i++)
		conn_event(conns[i], RDMA_CM_EVENT_DISCONNECTED, 0);
	ck_assert_uint_eq(fv_alive(FV_ID), 4);
	tp_release(conn_at(AT_WITHDRAWN)); /* the listener's, and its own, for two of those */
	ck_assert_uint_eq(fv_alive(FV_ID), 4);
	conn_end(NULL);
}
END_TEST

START_TEST(those_that_await_it_are_destroyed_after_ten_seconds)
{
	const uint64_t now = tp_now();

	conn_at(AT_AWAITING_DESTROY);
	ck_assert_uint_le(tp_dev_deadline(rig.dev), now + 10000000000);
	fv_clock_advance(10000000000);
	rig_progress(&rig);
	ck_assert_uint_eq(fv_alive(FV_ID), 0);
	conn_end(NULL);
}
END_TEST

/* The kernel waits for them. */
START_TEST(the_removal_of_the_device_destroys_all_that_await_it)
{
	struct tp_conn *conns[3], *conn;

	for (int i = 0; i < COUNT(conns); i++)
		conns[i] = conn_at(AT_LINGERING);
	conn = conn_at(AT_LINGERING);
	for (int i = 0; i < COUNT(conns); i++)
		conn_event(conns[i], RDMA_CM_EVENT_DISCONNECTED, 0);
	conn_event(conn, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	upcall_is(UP_DEV_FATAL, up_ia());
	ck_assert_uint_eq(fv_alive(FV_ID), 0);
	conn_end(NULL);
}
END_TEST

START_TEST(after_the_removal_of_the_device_nothing_is_put_off)
{
	struct tp_conn *conn = conn_at(AT_ESTABLISHED);

	conn_event(conn, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	upcall_is(UP_DEV_FATAL, up_ia());
	upcall_is(UP_DEV_FATAL, up_ia());
	tp_release(conn);
	conn_event(conn, RDMA_CM_EVENT_DISCONNECTED, 0);
	ck_assert_uint_eq(fv_alive(FV_ID), 0);
	conn_end(NULL);
}
END_TEST

/* Late events: queued before the release, read after it. */
START_TEST(an_event_that_is_queued_at_the_release_is_dropped)
{
	struct tp_conn *conn = conn_at(AT_CONNECTING);

	fv_cm_post(conn->id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	tp_release(conn);
	rig_progress(&rig);
	conn_end(NULL);
}
END_TEST

START_TEST(a_disconnect_that_the_device_refuses_ends_without_lingering)
{
	struct tp_conn *conn = conn_at(AT_ESTABLISHED);

	fv_fail("rdma_disconnect", EINVAL, 1);
	tp_release(conn);
	ck_assert_uint_eq(fv_alive(FV_ID), 0);
	conn_end(NULL);
}
END_TEST

START_TEST(a_peer_that_does_not_answer_a_disconnect_is_waited_for_ten_seconds)
{
	struct tp_conn *conn = conn_at(AT_ESTABLISHED);

	tp_release(conn);
	fv_clock_advance(9999999999);
	rig_progress(&rig);
	ck_assert_uint_eq(fv_alive(FV_ID), 1);
	fv_clock_advance(1);
	rig_progress(&rig);
	ck_assert_uint_eq(fv_alive(FV_ID), 0);
	conn_end(NULL);
}
END_TEST

START_TEST(lingering_connections_end_in_any_order)
{
	struct tp_conn *conns[3];

	for (int i = 0; i < COUNT(conns); i++)
		conns[i] = conn_at(AT_LINGERING);
	conn_event(conns[1], RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	conn_event(conns[2], RDMA_CM_EVENT_DISCONNECTED, 0);
	ck_assert_int_eq(conns[0]->state, CM_LINGERING);
	ck_assert_uint_eq(fv_alive(FV_ID), 3);
	tp_release(conn_at(AT_ESTABLISHED));
	ck_assert_uint_eq(fv_alive(FV_ID), 2);
	conn_event(conns[0], RDMA_CM_EVENT_DISCONNECTED, 0);
	ck_assert_uint_eq(fv_alive(FV_ID), 2);
	fv_clock_advance(10000000000);
	rig_progress(&rig);
	ck_assert_uint_eq(fv_alive(FV_ID), 0);
	conn_end(NULL);
}
END_TEST

START_TEST(close_waits_for_no_lingering_connection)
{
	conn_at(AT_LINGERING);
	conn_at(AT_LINGERING);
	conn_end(NULL);
}
END_TEST

/* ---- the active side ---- */

START_TEST(the_service_thread_looks_again_when_something_is_due)
{
	const uint64_t now = tp_now();
	struct tp_conn *conn;

	ck_assert_uint_eq(tp_dev_deadline(rig.dev), TP_NEVER);
	conn = conn_at(AT_CONNECTING);
	ck_assert_uint_eq(tp_dev_deadline(rig.dev), now + 10000000000);
	conn_event(conn, RDMA_CM_EVENT_REJECTED, CM_REJECT_STALE);
	ck_assert_uint_eq(tp_dev_deadline(rig.dev), now + 250000000);
	tp_release(conn);
	ck_assert_uint_eq(tp_dev_deadline(rig.dev), TP_NEVER);
	tp_release(conn_at(AT_ESTABLISHED));
	fv_clock_advance(1);
	ck_assert_uint_eq(tp_dev_deadline(rig.dev), now + 10000000000);
	conn_end(NULL);
}
END_TEST

START_TEST(a_connection_agrees_on_the_smaller_read_depths)
{
	const struct fv_cm_event response = {
		.type = RDMA_CM_EVENT_CONNECT_RESPONSE,
		.responder_resources = 8,
		.initiator_depth = 1,
		.pdata = "answer",
		.pdata_size = 6,
	};
	struct tp_conn *conn = conn_at(AT_CONNECTING);
	struct up_record up;

	ck_assert_uint_eq(fv_seen().connected.responder_resources, 4);
	ck_assert_uint_eq(fv_seen().connected.initiator_depth, 2);
	ck_assert_uint_eq(fv_seen().connected.qp_num, rig.qp->ibv->qp_num);
	ck_assert_uint_eq(fv_seen().pdata.size, 5);
	ck_assert_mem_eq(fv_seen().pdata.data, "hello", 5);
	fv_cm_event(conn->id, &response);
	rig_progress(&rig);
	ck_assert_str_eq(fv_trace(), "rdma_init_qp_attr rdma_init_qp_attr rdma_init_qp_attr "
				     "ibv_modify_qp ibv_modify_qp rdma_establish");
	up = upcall_is(UP_ESTABLISHED, up_ep(0));
	ck_assert_uint_eq(up.max_read_in, 4);
	ck_assert_uint_eq(up.max_read_out, 1);
	ck_assert_uint_eq(up.pdata_size, 6);
	ck_assert_mem_eq(up.pdata, "answer", 6);
	ck_assert_uint_eq(fv_seen().modified[IBV_QPS_RTR].attr.max_dest_rd_atomic, 4);
	ck_assert_uint_eq(fv_seen().modified[IBV_QPS_RTS].attr.max_rd_atomic, 1);
	conn_end(conn);
}
END_TEST

/* A call of tp_connect fails: nothing is left, and no event follows. */
static const struct {
	const char *call;
	int err, want;
} connect_failures[] = {
	{ "rdma_create_id", EMFILE, -EMFILE },
	{ "rdma_resolve_addr", EADDRNOTAVAIL, -EADDRNOTAVAIL },
	{ "rdma_resolve_addr", ENODEV, -ENODEV },
	{ "connect", ENETUNREACH, -ENETUNREACH },
	{ "connect", EHOSTUNREACH, -EHOSTUNREACH },
};

START_TEST(a_connect_that_fails_at_once_leaves_nothing)
{
	struct tp_conn *conn = NULL;

	fv_fail(connect_failures[_i].call, connect_failures[_i].err, 1);
	ck_assert_int_eq(conn_connect(&conn), connect_failures[_i].want);
	ck_assert_ptr_null(conn);
	ck_assert_ptr_null(rig.qp->conn);
	ck_assert_uint_eq(fv_alive(FV_ID), 0);
	ck_assert_int_eq(conn_connect(&conn), 0);
	conn_end(conn);
}
END_TEST

START_TEST(a_connect_without_memory_leaves_nothing)
{
	struct tp_conn *conn = NULL;
	int err;

	alloc_fail_nth(1);
	err = conn_connect(&conn);
	ck_assert(alloc_failed());
	ck_assert_int_eq(err, -ENOMEM);
	ck_assert_uint_eq(fv_alive(FV_ID), 0);
	conn_end(NULL);
}
END_TEST

START_TEST(an_address_that_has_a_route_is_not_asked_about_again_for_a_second)
{
	unsigned asked;
	struct tp_conn *conn;

	conn = conn_at(AT_RESOLVING_ADDR);
	asked = fv_calls("socket");
	tp_release(conn);
	fv_clock_advance(999999999);
	tp_release(conn_at(AT_RESOLVING_ADDR));
	ck_assert_uint_eq(fv_calls("socket"), asked);
	fv_clock_advance(1);
	conn = conn_at(AT_RESOLVING_ADDR);
	ck_assert_uint_eq(fv_calls("socket"), asked + 1);
	conn_end(conn);
}
END_TEST

START_TEST(each_address_is_asked_about)
{
	const struct sockaddr_in to = { .sin_family = AF_INET,
					.sin_addr.s_addr = htonl(0x7f000008) };
	const struct tp_cm_param param = { 0 };
	struct tp_conn *conn;

	tp_release(conn_at(AT_RESOLVING_ADDR));
	fv_fail("connect", ENETUNREACH, 1);
	ck_assert_int_eq(tp_connect(rig.dev, (const struct sockaddr *)&to, 7000, rig.qp, up_ep(0),
				    &param, &conn),
			 -ENETUNREACH);
	ck_assert_int_eq(tp_connect(rig.dev, (const struct sockaddr *)&to, 7000, rig.qp, up_ep(0),
				    &param, &conn),
			 0); /* that it had none is not remembered */
	conn_end(conn);
}
END_TEST

/* That the routing table can't be asked is no failure. */
static const char *const route_questions[] = { "socket", "bind" };

START_TEST(a_connect_needs_no_routing_table)
{
	struct tp_conn *conn;

	fv_fail(route_questions[_i], EMFILE, 1);
	ck_assert_int_eq(conn_connect(&conn), 0);
	conn_end(conn);
}
END_TEST

START_TEST(an_address_of_another_family_is_refused)
{
	const struct sockaddr_in6 to = { .sin6_family = AF_INET6 };
	const struct tp_cm_param param = { 0 };
	struct tp_conn *conn;

	ck_assert_int_eq(tp_connect(rig.dev, (const struct sockaddr *)&to, 1, rig.qp, up_ep(0),
				    &param, &conn),
			 -EAFNOSUPPORT);
	conn_end(NULL);
}
END_TEST

/* A call that an event causes fails. */
static const struct {
	enum place place;
	enum rdma_cm_event_type event;
	const char *call;
	int err;
	unsigned nth;
	enum tp_cause cause;
} step_failures[] = {
	{ AT_RESOLVING_ADDR, RDMA_CM_EVENT_ADDR_RESOLVED, "rdma_resolve_route", EINVAL, 1,
	  TP_LOCAL_ERROR },
	{ AT_RESOLVING_ROUTE, RDMA_CM_EVENT_ROUTE_RESOLVED, "rdma_connect", ENOMEM, 1,
	  TP_LOCAL_ERROR },
	{ AT_CONNECTING, RDMA_CM_EVENT_CONNECT_RESPONSE, "rdma_init_qp_attr", EINVAL, 1,
	  TP_NON_PEER_REJECTED },
	{ AT_CONNECTING, RDMA_CM_EVENT_CONNECT_RESPONSE, "rdma_init_qp_attr", EINVAL, 2,
	  TP_NON_PEER_REJECTED },
	{ AT_CONNECTING, RDMA_CM_EVENT_CONNECT_RESPONSE, "rdma_init_qp_attr", EINVAL, 3,
	  TP_NON_PEER_REJECTED },
	{ AT_CONNECTING, RDMA_CM_EVENT_CONNECT_RESPONSE, "ibv_modify_qp", EINVAL, 1,
	  TP_LOCAL_ERROR },
	{ AT_CONNECTING, RDMA_CM_EVENT_CONNECT_RESPONSE, "ibv_modify_qp", ETIMEDOUT, 2,
	  TP_UNREACHABLE },
	{ AT_CONNECTING, RDMA_CM_EVENT_CONNECT_RESPONSE, "rdma_establish", EINVAL, 1,
	  TP_NON_PEER_REJECTED },
};

START_TEST(a_step_that_fails_ends_the_attempt)
{
	struct tp_conn *conn = conn_at(step_failures[_i].place);

	fv_fail(step_failures[_i].call, step_failures[_i].err, step_failures[_i].nth);
	conn_event(conn, step_failures[_i].event, 0);
	ck_assert_uint_eq(upcall_is(UP_FAILED, up_ep(0)).cause, step_failures[_i].cause);
	conn_end(conn);
}
END_TEST

static const struct {
	enum place place;
	enum rdma_cm_event_type event;
	const char *call, *variable;
} resolutions[] = {
	{ AT_RESOLVING_ADDR, RDMA_CM_EVENT_ADDR_ERROR, "rdma_resolve_addr",
	  "DAPL_CM_ARP_RETRY_COUNT" },
	{ AT_RESOLVING_ROUTE, RDMA_CM_EVENT_ROUTE_ERROR, "rdma_resolve_route",
	  "DAPL_CM_ROUTE_RETRY_COUNT" },
};

START_TEST(a_resolution_that_times_out_is_tried_again)
{
	struct tp_conn *conn = conn_at(resolutions[_i].place);
	unsigned before = fv_calls(resolutions[_i].call);

	for (unsigned i = 1; i <= 15; i++) {
		conn_event(conn, resolutions[_i].event, -ETIMEDOUT);
		ck_assert_uint_eq(fv_calls(resolutions[_i].call), before + i);
		ck_assert_int_eq(fv_seen().resolve_timeout, 4000);
	}
	no_upcall();
	conn_event(conn, resolutions[_i].event, -ETIMEDOUT);
	ck_assert_uint_eq(upcall_is(UP_FAILED, up_ep(0)).cause, TP_UNREACHABLE);
	conn_end(conn);
}
END_TEST

START_TEST(a_resolution_that_fails_otherwise_is_not_tried_again)
{
	struct tp_conn *conn = conn_at(resolutions[_i].place);
	unsigned before = fv_calls(resolutions[_i].call);

	conn_event(conn, resolutions[_i].event, -EHOSTUNREACH);
	ck_assert_uint_eq(fv_calls(resolutions[_i].call), before);
	ck_assert_uint_eq(upcall_is(UP_FAILED, up_ep(0)).cause, TP_UNREACHABLE);
	conn_end(conn);
}
END_TEST

START_TEST(a_resolution_that_can_not_be_tried_again_has_failed)
{
	struct tp_conn *conn = conn_at(resolutions[_i].place);

	fv_fail(resolutions[_i].call, ENOMEM, 1);
	conn_event(conn, resolutions[_i].event, -ETIMEDOUT);
	ck_assert_uint_eq(upcall_is(UP_FAILED, up_ep(0)).cause, TP_UNREACHABLE);
	conn_end(conn);
}
END_TEST

/* ---- rejections ---- */

static const struct {
	int status;
	const char *pdata;
	unsigned size;
	enum tp_cause cause;
	unsigned header; /* bytes in front of what the consumer sent; the rest is for ours */
} rejections[] = {
	{ CM_REJECT_CONSUMER_DEFINED, NULL, 0, TP_PEER_REJECTED, 0 },
	{ CM_REJECT_CONSUMER_DEFINED, "abc", 3, TP_PEER_REJECTED, 0 },
	{ CM_REJECT_CONSUMER_DEFINED, "DAT\0", 4, TP_NON_PEER_REJECTED, 0 },
	{ CM_REJECT_CONSUMER_DEFINED, "DAT\0\0\0\0\0", 8, TP_NON_PEER_REJECTED, 0 },
	{ CM_REJECT_CONSUMER_DEFINED, "DATA", 4, TP_PEER_REJECTED, 0 },
	{ CM_REJECT_CONSUMER_DEFINED, "\1\2\1\2", 4, TP_PEER_REJECTED, 4 },
	{ CM_REJECT_CONSUMER_DEFINED, "\1\2\1\2why", 7, TP_PEER_REJECTED, 4 },
	{ CM_REJECT_CONSUMER_DEFINED, "\2\0\2\0why", 7, TP_PEER_REJECTED, 4 },
	{ CM_REJECT_CONSUMER_DEFINED, "\2\0\2", 3, TP_PEER_REJECTED, 0 },
	{ CM_REJECT_CONSUMER_DEFINED, "\0\0\0\0\0", 5, TP_PEER_REJECTED, 0 },
	{ 4, NULL, 0, TP_NON_PEER_REJECTED, 0 },
	{ IBCM_REJECT_NO_LISTENER, NULL, 0, TP_NON_PEER_REJECTED, 0 },
	{ 12345, NULL, 0, TP_NON_PEER_REJECTED, 0 },
	{ -ECONNREFUSED, NULL, 0, TP_NON_PEER_REJECTED, 0 },
};

START_TEST(a_rejection_says_who_rejected)
{
	const struct fv_cm_event rejected = {
		.type = RDMA_CM_EVENT_REJECTED,
		.status = rejections[_i].status,
		.pdata = rejections[_i].pdata,
		.pdata_size = rejections[_i].size,
	};
	struct tp_conn *conn = conn_at(AT_CONNECTING);

	const unsigned told = rejections[_i].size - rejections[_i].header;

	fv_cm_event(conn->id, &rejected);
	rig_progress(&rig);
	if (rejections[_i].cause == TP_PEER_REJECTED && told) {
		const struct up_record up = upcall_is(UP_REJECT_DATA, up_ep(0));

		ck_assert_uint_eq(up.pdata_size, told);
		ck_assert_mem_eq(up.pdata, rejections[_i].pdata + rejections[_i].header, told);
	}
	ck_assert_uint_eq(upcall_is(UP_FAILED, up_ep(0)).cause, rejections[_i].cause);
	conn_end(conn);
}
END_TEST

/* The peer has not forgotten an earlier connection with the same QP number. */
START_TEST(a_stale_rejection_is_retried_and_not_told)
{
	struct tp_conn *conn = conn_at(AT_RETRYING);
	struct rdma_cm_id *before = conn->id;

	fv_clock_advance(249999999);
	rig_progress(&rig);
	ck_assert_str_eq(fv_trace(), "");
	fv_clock_advance(1);
	rig_progress(&rig);
	ck_assert_str_eq(fv_trace(), "rdma_create_id rdma_resolve_addr rdma_destroy_id");
	ck_assert_ptr_ne(conn->id, before);
	ck_assert_uint_eq(fv_alive(FV_ID), 1);
	conn_event(conn, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	conn_event(conn, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	ck_assert_uint_eq(fv_seen().pdata.size, 5);
	ck_assert_uint_eq(fv_seen().connected.qp_num, rig.qp->ibv->qp_num);
	ck_assert_uint_eq(ntohs(((struct sockaddr_in *)rdma_get_peer_addr(conn->id))->sin_port),
			  7000);
	no_upcall();
	conn_event(conn, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	upcall_is(UP_ESTABLISHED, up_ep(0));
	conn_end(conn);
}
END_TEST

static void retry_once(struct tp_conn *conn)
{
	fv_clock_advance(250000000);
	rig_progress(&rig);
	conn_event(conn, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	conn_event(conn, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	ck_assert_int_eq(conn->state, CM_CONNECTING);
	conn_event(conn, RDMA_CM_EVENT_REJECTED, CM_REJECT_STALE);
}

START_TEST(a_stale_rejection_is_told_after_ten_seconds)
{
	struct tp_conn *conn = conn_at(AT_RETRYING);

	for (int i = 0; i < 39; i++) {
		retry_once(conn);
		no_upcall();
	}
	retry_once(conn);
	ck_assert_uint_eq(upcall_is(UP_FAILED, up_ep(0)).cause, TP_NON_PEER_REJECTED);
	conn_end(conn);
}
END_TEST

START_TEST(attempts_that_wait_are_retried_in_turn)
{
	struct tp_conn *first = conn_at(AT_RETRYING), *second = conn_at(AT_RETRYING);

	tp_release(first);
	fv_clock_advance(250000000);
	rig_progress(&rig);
	ck_assert_int_eq(second->state, CM_RESOLVING_ADDR);
	conn_end(second);
}
END_TEST

static const struct {
	const char *call;
	int err;
	enum tp_cause cause;
} retry_failures[] = {
	{ "rdma_create_id", EMFILE, TP_LOCAL_ERROR },
	{ "rdma_resolve_addr", EADDRNOTAVAIL, TP_LOCAL_ERROR },
	{ "rdma_resolve_addr", ENETUNREACH, TP_UNREACHABLE },
};

START_TEST(a_retry_that_fails_ends_the_attempt)
{
	struct tp_conn *conn = conn_at(AT_RETRYING);

	fv_fail(retry_failures[_i].call, retry_failures[_i].err, 1);
	fv_clock_advance(250000000);
	rig_progress(&rig);
	ck_assert_uint_eq(upcall_is(UP_FAILED, up_ep(0)).cause, retry_failures[_i].cause);
	ck_assert_int_eq(conn->state, CM_AWAITS_RELEASE);
	conn_end(conn);
}
END_TEST

/* ---- an address that has moved ---- */

static const struct {
	int device;
	uint8_t port;
	const char *line;
} moves[] = {
	{ 1, 1, "fv0 port 1: the address 127.0.0.1 belongs to fv1 port 1 now" },
	{ 0, 2, "fv0 port 1: the address 127.0.0.1 belongs to fv0 port 2 now" },
};

static void address_move(int to)
{
	fv_interface(0)->device = moves[to].device;
	fv_interface(0)->port = moves[to].port;
	fv_log_capture();
}

START_TEST(a_connect_from_an_address_that_has_moved_fails)
{
	struct tp_conn *conn = conn_at(AT_RESOLVING_ADDR);

	address_move(_i);
	conn_event(conn, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_str_eq(fv_trace(), "");
	ck_assert_uint_eq(upcall_is(UP_FAILED, up_ep(0)).cause, TP_LOCAL_ERROR);
	ck_assert_ptr_nonnull(strstr(fv_log(), moves[_i].line));
	conn_end(conn);
}
END_TEST

START_TEST(a_request_to_an_address_that_has_moved_is_refused)
{
	uint16_t port = 7000;

	ck_assert_int_eq(tp_listen(rig.dev, &port, up_sp(0), &conn_listener), 0);
	address_move(_i);
	fv_trace_clear();
	fv_request(fv_id(0), NULL);
	rig_progress(&rig);
	no_upcall();
	ck_assert_str_eq(fv_trace(), "rdma_reject rdma_destroy_id");
	ck_assert_uint_eq(fv_seen().pdata.size, 4);
	ck_assert_ptr_nonnull(strstr(fv_log(), strstr(moves[_i].line, "belongs")));
	conn_end(NULL);
}
END_TEST

/* Whoever reaches the address can send any number of requests, and fill no log. */
START_TEST(an_address_that_has_moved_is_told_once)
{
	uint16_t port = 7000;
	const char *line;

	setenv("DAPL_DBG_TYPE", "3", 1); /* errors and warnings, the default */
	ck_assert_int_eq(tp_listen(rig.dev, &port, up_sp(0), &conn_listener), 0);
	address_move(0);
	for (int i = 0; i < 3; i++) {
		fv_trace_clear();
		fv_request(fv_id(0), NULL);
		rig_progress(&rig);
		ck_assert_str_eq(fv_trace(), "rdma_reject rdma_destroy_id");
	}
	line = strstr(fv_log(), "belongs");
	ck_assert_ptr_nonnull(line);
	ck_assert_ptr_null(strstr(line + 1, "belongs"));
	conn_end(NULL);
}
END_TEST

/* ---- listeners and requests ---- */

START_TEST(a_listener_has_the_port_that_is_asked_for_or_any)
{
	struct tp_listener *one, *other;
	uint16_t port = 7001, any = 0;

	ck_assert_int_eq(tp_listen(rig.dev, &port, up_sp(0), &one), 0);
	ck_assert_int_eq(tp_listen(rig.dev, &any, up_sp(1), &other), 0);
	ck_assert_uint_eq(port, 7001);
	ck_assert_uint_ge(any, 50000);
	ck_assert_int_eq(fv_seen().backlog, 1024);
	fv_request(fv_id(1), NULL);
	fv_request(fv_id(1), NULL);
	rig_progress(&rig);
	tp_release(upcall_is(UP_REQUEST, up_sp(0)).conn);
	tp_release(upcall_is(UP_REQUEST, up_sp(1)).conn);
	tp_unlisten(one); /* not the first of the list */
	tp_unlisten(other);
	conn_end(NULL);
}
END_TEST

static const struct {
	const char *call;
	int err;
	uint16_t port;
} listen_failures[] = {
	{ "rdma_create_id", EMFILE, 7000 },	{ "rdma_bind_addr", EADDRINUSE, 7000 },
	{ "rdma_bind_addr", EADDRNOTAVAIL, 0 }, { "rdma_listen", EADDRINUSE, 7000 },
	{ "rdma_listen", ENOMEM, 0 },
};

START_TEST(a_listen_that_fails_leaves_nothing)
{
	struct tp_listener *listener = NULL;
	uint16_t port = listen_failures[_i].port;

	fv_fail(listen_failures[_i].call, listen_failures[_i].err, 1);
	ck_assert_int_eq(tp_listen(rig.dev, &port, up_sp(0), &listener), -listen_failures[_i].err);
	ck_assert_ptr_null(listener);
	ck_assert_uint_eq(port, listen_failures[_i].port);
	ck_assert_uint_eq(fv_alive(FV_ID), 0);
	conn_end(NULL);
}
END_TEST

START_TEST(a_listen_without_memory_leaves_nothing)
{
	uint16_t port = 7000;
	int err;

	alloc_fail_nth(1);
	err = tp_listen(rig.dev, &port, up_sp(0), &conn_listener);
	ck_assert(alloc_failed());
	ck_assert_int_eq(err, -ENOMEM);
	ck_assert_ptr_null(conn_listener);
	conn_end(NULL);
}
END_TEST

/* iWARP: the TCP port of the number that librdmacm picks may be in use. */
START_TEST(any_port_is_looked_for_sixteen_times)
{
	uint16_t port = 0;

	fv_log_capture();
	fv_fail("rdma_listen", EADDRINUSE, 1);
	ck_assert_int_eq(tp_listen(rig.dev, &port, up_sp(0), &conn_listener), 0);
	ck_assert_uint_eq(fv_calls("rdma_listen"), 2);
	tp_unlisten(conn_listener);
	fv_fail_always("rdma_listen", EADDRINUSE);
	port = 0;
	ck_assert_int_eq(tp_listen(rig.dev, &port, up_sp(0), &conn_listener), -EADDRINUSE);
	ck_assert_uint_eq(fv_calls("rdma_listen"), 2 + 16);
	ck_assert_str_eq(fv_log(), ""); /* no line for each, nor one */
	conn_listener = NULL;
	conn_end(NULL);
}
END_TEST

START_TEST(a_request_is_told_with_its_addresses_and_private_data)
{
	const struct fv_cm_event details = {
		.responder_resources = 5,
		.initiator_depth = 6,
		.pdata = "request",
		.pdata_size = 7,
	};
	struct up_record up;
	uint16_t port = 7000;

	ck_assert_int_eq(tp_listen(rig.dev, &port, up_sp(3), &conn_listener), 0);
	fv_request(fv_id(0), &details);
	rig_progress(&rig);
	up = upcall_is(UP_REQUEST, up_sp(3));
	ck_assert_uint_eq(up.max_read_in, 6);
	ck_assert_uint_eq(up.max_read_out, 5);
	ck_assert_uint_eq(up.pdata_size, 7);
	ck_assert_mem_eq(up.pdata, "request", 7);
	ck_assert_uint_eq(ntohs(((struct sockaddr_in *)&up.local)->sin_port), 7000);
	ck_assert_uint_eq(ntohl(((struct sockaddr_in *)&up.remote)->sin_addr.s_addr), 0x7f000009);
	conn_end(up.conn);
}
END_TEST

/* As dapl's: the versions of DAT and of the provider, then what the consumer has to say. */
START_TEST(a_rejection_tells_whose_it_is)
{
	static const struct {
		bool by_consumer;
		const char *data;
		unsigned size;
		const char *sent;
	} rejections[] = {
		{ false, NULL, 0, "DAT\0" },
		{ true, NULL, 0, "\1\2\1\2" },
		{ true, "no", 2, "\1\2\1\2no" },
	};
	struct tp_conn *conn = conn_at(AT_REQUESTED);

	tp_reject(conn, rejections[_i].by_consumer, rejections[_i].data, rejections[_i].size);
	ck_assert_str_eq(fv_trace(), "rdma_reject rdma_destroy_id");
	ck_assert_uint_eq(fv_seen().pdata.size, 4 + rejections[_i].size);
	ck_assert_mem_eq(fv_seen().pdata.data, rejections[_i].sent, 4 + rejections[_i].size);
	conn_end(NULL);
}
END_TEST

/* The longest is that of iWARP; the header is in front of it. */
START_TEST(a_rejection_has_room_for_the_longest)
{
	struct tp_conn *conn = conn_at(AT_REQUESTED);
	const unsigned most = UINT8_MAX - 4;
	char data[UINT8_MAX];

	for (unsigned n = 0; n < sizeof(data); n++)
		data[n] = (char)n;
	tp_reject(conn, true, data, most);
	ck_assert_uint_eq(fv_seen().pdata.size, 4 + most);
	ck_assert_mem_eq(fv_seen().pdata.data + 4, data, most);
	conn_end(NULL);
}
END_TEST

START_TEST(a_request_that_the_peer_gave_up_can_be_rejected)
{
	struct tp_conn *conn = conn_at(AT_WITHDRAWN);

	fv_fail("rdma_reject", EINVAL, 1);
	tp_reject(conn, true, NULL, 0);
	conn_end(NULL);
}
END_TEST

/* Without memory for it a request is refused by the system. */
START_TEST(a_request_without_memory_is_refused)
{
	struct rdma_cm_id *listen;
	uint16_t port = 7000;

	ck_assert_int_eq(tp_listen(rig.dev, &port, up_sp(0), &conn_listener), 0);
	listen = fv_id(0);
	fv_request(listen, NULL);
	fv_trace_clear();
	alloc_fail_nth(1);
	tp_dev_progress(rig.dev, ~0u);
	ck_assert(alloc_failed());
	ck_assert_str_eq(fv_trace(), "rdma_reject rdma_destroy_id");
	ck_assert_ptr_eq(fv_id(0), listen);
	conn_end(NULL);
}
END_TEST

START_TEST(requests_that_are_queued_when_a_listener_ends_are_refused)
{
	struct tp_conn *conn = conn_at(AT_CONNECTING);
	struct tp_listener *other;
	struct rdma_cm_id *listen;
	uint16_t port = 7000, other_port = 7001;

	ck_assert_int_eq(tp_listen(rig.dev, &other_port, up_sp(1), &other), 0);
	ck_assert_int_eq(tp_listen(rig.dev, &port, up_sp(0), &conn_listener), 0);
	listen = fv_id(0);
	fv_request(listen, NULL);
	fv_request(fv_id(2), NULL); /* of the other listener */
	fv_cm_post(conn->id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	fv_request(listen, NULL);
	fv_trace_clear();
	tp_unlisten(conn_listener);
	conn_listener = other;
	ck_assert_str_eq(fv_trace(), "rdma_reject rdma_destroy_id rdma_reject rdma_destroy_id "
				     "rdma_destroy_id");
	/* the other two are handled later, in order */
	no_upcall();
	rig_progress(&rig);
	tp_release(upcall_is(UP_REQUEST, up_sp(1)).conn);
	upcall_is(UP_ESTABLISHED, up_ep(0));
	conn_end(conn);
}
END_TEST

/* What can't be taken off the channel for lack of memory stays there, and the kernel drops it. */
START_TEST(a_listener_ends_without_memory_for_its_events)
{
	struct tp_conn *conn = conn_at(AT_CONNECTING);
	uint16_t port = 7000;

	ck_assert_int_eq(tp_listen(rig.dev, &port, up_sp(0), &conn_listener), 0);
	fv_request(fv_id(0), NULL);
	fv_cm_post(conn->id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	alloc_fail_nth(1);
	tp_unlisten(conn_listener);
	ck_assert(alloc_failed());
	conn_listener = NULL;
	rig_progress(&rig);
	upcall_is(UP_ESTABLISHED, up_ep(0));
	conn_end(conn);
}
END_TEST

/* The channel stays readable while there are more: other threads get ia->lock in between. */
START_TEST(one_event_of_the_channel_is_handled_at_a_time)
{
	struct tp_conn *conn = conn_at(AT_ESTABLISHED);
	struct tp_listener *listener;
	uint16_t port = 7000;

	ck_assert_int_eq(tp_listen(rig.dev, &port, up_sp(0), &listener), 0);
	for (int i = 0; i < 40; i++)
		fv_request(fv_id((unsigned)i), NULL);
	fv_cm_post(conn->id, RDMA_CM_EVENT_DISCONNECTED, 0);
	tp_unlisten(listener);
	ck_assert_uint_eq(fv_alive(FV_ID), 1);
	ck_assert_int_eq(tp_listen(rig.dev, &port, up_sp(0), &conn_listener), 0);
	for (int i = 0; i < 3; i++)
		fv_request(fv_id((unsigned)i), NULL);
	tp_dev_progress(rig.dev, ~0u);
	upcall_is(UP_DISCONNECTED, up_ep(0)); /* the one that was pending */
	no_upcall();
	for (int i = 0; i < 3; i++) {
		tp_dev_progress(rig.dev, ~0u);
		tp_release(upcall_is(UP_REQUEST, up_sp(0)).conn);
		no_upcall();
	}
	conn_end(conn);
}
END_TEST

/* The requests of a listener are taken off the channel, and dropped, when it is closed. */
START_TEST(an_event_can_be_pending_after_all_before_it_were_dropped)
{
	struct tp_conn *conn = conn_at(AT_ESTABLISHED);
	struct tp_listener *listener;
	uint16_t port = 7000;

	for (int round = 0; round < 2; round++) {
		ck_assert_int_eq(tp_listen(rig.dev, &port, up_sp(0), &listener), 0);
		if (!round)
			fv_request(fv_id(0), NULL);
		else
			fv_cm_post(conn->id, RDMA_CM_EVENT_DISCONNECTED, 0);
		tp_unlisten(listener);
	}
	tp_dev_progress(rig.dev, 0);
	upcall_is(UP_DISCONNECTED, up_ep(0));
	conn_end(conn);
}
END_TEST

START_TEST(pending_events_beyond_a_batch_are_handled_next)
{
	struct tp_conn *conn = conn_at(AT_ESTABLISHED);
	struct tp_listener *listener;
	uint16_t port = 7000;

	ck_assert_int_eq(tp_listen(rig.dev, &port, up_sp(0), &listener), 0);
	for (int i = 0; i < 20; i++)
		fv_cm_post(conn->id, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	fv_cm_post(conn->id, RDMA_CM_EVENT_DISCONNECTED, 0);
	tp_unlisten(listener);
	(void)up_take_wake();
	tp_dev_progress(rig.dev, 0);
	no_upcall();
	ck_assert(up_take_wake());
	tp_dev_progress(rig.dev, 0);
	upcall_is(UP_DISCONNECTED, up_ep(0));
	ck_assert(!up_take_wake());
	conn_end(conn);
}
END_TEST

/* ---- release ---- */

/* The event comes while the result of the accept is still on its way to the service thread. */
START_TEST(a_released_connection_lives_until_its_result_is_handled)
{
	struct tp_conn *conn = conn_at(AT_REQUESTED);
	struct cm_event event = { .id = conn->id, .type = RDMA_CM_EVENT_DISCONNECTED };

	fv_fail("rdma_accept", EINVAL, 1);
	ck_assert_int_eq(conn_accept(conn), 0);
	tp_release(conn);
	ck_assert_ptr_eq(rig.dev->lingering.first, conn);
	cm_event_handle(rig.dev, &event);
	ck_assert_ptr_eq(rig.dev->lingering.first, conn);
	rig_progress(&rig);
	ck_assert_ptr_null(rig.dev->lingering.first);
	conn_end(NULL);
}
END_TEST

/* ---- accept ---- */

START_TEST(an_accepted_connection_has_the_smaller_read_depths)
{
	struct tp_conn *conn = conn_at(AT_REQUESTED); /* the peer: 3 and 3 */
	struct up_record up;

	ck_assert_int_eq(conn_accept(conn), 0);
	ck_assert_str_eq(fv_trace(), "rdma_init_qp_attr rdma_init_qp_attr rdma_init_qp_attr "
				     "ibv_modify_qp ibv_modify_qp rdma_accept");
	ck_assert_uint_eq(fv_seen().accepted.responder_resources, 3);
	ck_assert_uint_eq(fv_seen().accepted.initiator_depth, 2);
	ck_assert_mem_eq(fv_seen().pdata.data, "hello", 5);
	conn_event(conn, RDMA_CM_EVENT_ESTABLISHED, 0);
	up = upcall_is(UP_ESTABLISHED, up_ep(0));
	ck_assert(!up.has_pdata);
	ck_assert_uint_eq(up.max_read_in, 3);
	ck_assert_uint_eq(up.max_read_out, 2);
	conn_end(conn);
}
END_TEST

static const struct {
	const char *call;
	int err;
	unsigned nth;
	int returned;	     /* else a CM result */
	enum tp_cause cause; /* of that */
} accept_failures[] = {
	{ "rdma_init_qp_attr", EINVAL, 1, 0, TP_NON_PEER_REJECTED },
	{ "ibv_modify_qp", ENOMEM, 1, -ENOMEM, TP_LOCAL_ERROR },
	{ "ibv_modify_qp", EINVAL, 2, 0, TP_LOCAL_ERROR },
	{ "rdma_accept", EINVAL, 1, 0, TP_NON_PEER_REJECTED },
	{ "rdma_accept", ENOMEM, 1, 0, TP_LOCAL_ERROR },
};

START_TEST(an_accept_that_fails_is_returned_or_reported)
{
	struct tp_conn *conn = conn_at(AT_REQUESTED);
	int returned = accept_failures[_i].returned;

	fv_fail(accept_failures[_i].call, accept_failures[_i].err, accept_failures[_i].nth);
	ck_assert_int_eq(conn_accept(conn), returned);
	no_upcall();
	if (returned) {
		/* the request is unchanged, and can be accepted again */
		ck_assert_int_eq(rig.qp->state, IBV_QPS_INIT);
		ck_assert_int_eq(conn_accept(conn), 0);
	} else {
		ck_assert_int_eq(rig.qp->state, IBV_QPS_ERR);
		rig_progress(&rig);
		ck_assert_uint_eq(upcall_is(UP_FAILED, up_ep(0)).cause, accept_failures[_i].cause);
	}
	conn_end(conn);
}
END_TEST

START_TEST(an_accept_of_a_request_that_was_given_up_is_reported)
{
	struct tp_conn *conn = conn_at(AT_WITHDRAWN);

	ck_assert_int_eq(conn_accept(conn), 0);
	ck_assert_str_eq(fv_trace(), "ibv_modify_qp");
	rig_progress(&rig);
	ck_assert_uint_eq(upcall_is(UP_FAILED, up_ep(0)).cause, TP_NON_PEER_REJECTED);
	conn_end(conn);
}
END_TEST

START_TEST(a_failed_accept_that_is_released_first_is_not_reported)
{
	struct tp_conn *conn = conn_at(AT_WITHDRAWN);

	(void)conn_at(AT_LINGERING);
	ck_assert_int_eq(conn_accept(conn), 0);
	tp_release(conn);
	/* neither the time nor an event destroys what a result refers to */
	fv_clock_advance(10000000000);
	tp_dev_progress(rig.dev, 0);
	ck_assert_int_eq(conn->state, CM_AWAITS_DESTROY);
	ck_assert_uint_eq(fv_alive(FV_ID), 2); /* its own and the listener's */
	conn_end(NULL);
}
END_TEST

START_TEST(close_handles_a_result_that_nobody_has_seen)
{
	struct tp_conn *conn = conn_at(AT_WITHDRAWN);

	ck_assert_int_eq(conn_accept(conn), 0);
	conn_end(conn);
}
END_TEST

START_TEST(data_before_the_last_message_of_the_handshake_establishes)
{
	const struct ibv_async_event event = {
		.event_type = IBV_EVENT_COMM_EST,
		.element.qp = rig.qp->ibv,
	};
	struct tp_conn *conn = conn_at(AT_ACCEPTING);

	fv_async_event(0, &event);
	rig_progress(&rig);
	ck_assert_str_eq(fv_trace(), "rdma_notify");
	ck_assert_int_eq(fv_seen().notified, IBV_EVENT_COMM_EST);
	fv_fail("rdma_notify", EINVAL, 1); /* the message has come meanwhile */
	fv_async_event(0, &event);
	rig_progress(&rig);
	no_upcall();
	conn_end(conn);
}
END_TEST

START_TEST(the_end_of_a_connection_is_confirmed_to_the_peer)
{
	struct tp_conn *conn = conn_at(_i ? AT_ACCEPTING : AT_ESTABLISHED);

	conn_event(conn, RDMA_CM_EVENT_DISCONNECTED, 0);
	ck_assert_str_eq(fv_trace(), "rdma_disconnect");
	upcall_is(_i ? UP_FAILED : UP_DISCONNECTED, up_ep(0));
	conn_end(conn);
}
END_TEST

/* The core may release the connection in any upcall. */
static struct tp_conn *hooked;

static void release_hooked(const struct up_record *record)
{
	(void)record;
	up_hook = NULL;
	tp_release(hooked);
}

static const struct {
	enum place place;
	enum rdma_cm_event_type event;
	enum up_kind up;
} upcalls[] = {
	{ AT_CONNECTING, RDMA_CM_EVENT_CONNECT_RESPONSE, UP_ESTABLISHED },
	{ AT_CONNECTING, RDMA_CM_EVENT_REJECTED, UP_FAILED },
	{ AT_ACCEPTING, RDMA_CM_EVENT_ESTABLISHED, UP_ESTABLISHED },
	{ AT_ESTABLISHED, RDMA_CM_EVENT_DISCONNECTED, UP_DISCONNECTED },
	{ AT_ESTABLISHED, RDMA_CM_EVENT_DEVICE_REMOVAL, UP_DEV_FATAL },
};

START_TEST(a_connection_may_be_released_within_its_upcall)
{
	hooked = conn_at(upcalls[_i].place);
	up_hook = release_hooked;
	conn_event(hooked, upcalls[_i].event, 0);
	upcall_is(upcalls[_i].up, upcalls[_i].up == UP_DEV_FATAL ? (void *)up_ia() : up_ep(0));
	while (up_take().kind != UP_NONE)
		;
	conn_end(NULL);
}
END_TEST

START_TEST(a_removal_that_no_connection_sees_is_reported_once)
{
	uint16_t port = 7000;

	ck_assert_int_eq(tp_listen(rig.dev, &port, up_sp(0), &conn_listener), 0);
	fv_cm_post(fv_id(0), RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	fv_cm_post(fv_id(0), RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	rig_progress(&rig);
	upcall_is(UP_DEV_FATAL, up_ia());
	no_upcall();
	conn_end(NULL);
}
END_TEST

/* librdmacm, too, must let go of it. */
START_TEST(closing_a_removed_device_looks_for_devices)
{
	if (_i) {
		uint16_t port = 7000;

		ck_assert_int_eq(tp_listen(rig.dev, &port, up_sp(0), &conn_listener), 0);
		fv_cm_post(fv_id(0), RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
		rig_progress(&rig);
		upcall_is(UP_DEV_FATAL, up_ia());
	}
	conn_end(NULL);
	ck_assert_uint_eq(fv_calls("rdma_get_devices"), (unsigned)_i);
	ck_assert_uint_eq(fv_calls("rdma_free_devices"), (unsigned)_i);
}
END_TEST

static void add_cases(TCase *tcase)
{
	tcase_add_loop_test(tcase, each_event_has_its_effect_in_each_state, 0, PLACES * EVENTS);
	tcase_add_loop_test(tcase, a_release_notifies_the_peer_and_makes_no_upcall, 0,
			    COUNT(releases));
	tcase_add_test(tcase, an_event_that_is_queued_at_the_release_is_dropped);
	tcase_add_test(tcase, a_disconnect_that_the_device_refuses_ends_without_lingering);
	tcase_add_test(tcase, a_peer_that_does_not_answer_a_disconnect_is_waited_for_ten_seconds);
	tcase_add_test(tcase, lingering_connections_end_in_any_order);
	tcase_add_test(tcase, the_next_connections_destroy_those_that_await_it);
	tcase_add_test(tcase, a_request_destroys_those_that_await_it);
	tcase_add_test(tcase, those_that_await_it_are_destroyed_after_ten_seconds);
	tcase_add_test(tcase, the_removal_of_the_device_destroys_all_that_await_it);
	tcase_add_test(tcase, after_the_removal_of_the_device_nothing_is_put_off);
	tcase_add_test(tcase, close_waits_for_no_lingering_connection);
	tcase_add_test(tcase, the_service_thread_looks_again_when_something_is_due);
	tcase_add_loop_test(tcase, a_connection_may_be_released_within_its_upcall, 0,
			    COUNT(upcalls));
	tcase_add_test(tcase, a_removal_that_no_connection_sees_is_reported_once);
	tcase_add_loop_test(tcase, closing_a_removed_device_looks_for_devices, 0, 2);
	tcase_add_test(tcase, an_event_can_be_pending_after_all_before_it_were_dropped);
	tcase_add_test(tcase, pending_events_beyond_a_batch_are_handled_next);
	tcase_add_test(tcase, one_event_of_the_channel_is_handled_at_a_time);
}

static void add_active_cases(TCase *tcase)
{
	tcase_add_test(tcase, a_connection_agrees_on_the_smaller_read_depths);
	tcase_add_loop_test(tcase, a_connect_that_fails_at_once_leaves_nothing, 0,
			    COUNT(connect_failures));
	tcase_add_test(tcase, a_connect_without_memory_leaves_nothing);
	tcase_add_test(tcase, an_address_that_has_a_route_is_not_asked_about_again_for_a_second);
	tcase_add_test(tcase, each_address_is_asked_about);
	tcase_add_loop_test(tcase, a_connect_needs_no_routing_table, 0, COUNT(route_questions));
	tcase_add_test(tcase, an_address_of_another_family_is_refused);
	tcase_add_loop_test(tcase, a_step_that_fails_ends_the_attempt, 0, COUNT(step_failures));
	tcase_add_loop_test(tcase, a_resolution_that_times_out_is_tried_again, 0,
			    COUNT(resolutions));
	tcase_add_loop_test(tcase, a_resolution_that_fails_otherwise_is_not_tried_again, 0,
			    COUNT(resolutions));
	tcase_add_loop_test(tcase, a_resolution_that_can_not_be_tried_again_has_failed, 0,
			    COUNT(resolutions));
	tcase_add_loop_test(tcase, a_rejection_says_who_rejected, 0, COUNT(rejections));
	tcase_add_test(tcase, a_stale_rejection_is_retried_and_not_told);
	tcase_add_test(tcase, a_stale_rejection_is_told_after_ten_seconds);
	tcase_add_test(tcase, attempts_that_wait_are_retried_in_turn);
	tcase_add_loop_test(tcase, a_retry_that_fails_ends_the_attempt, 0, COUNT(retry_failures));
	tcase_add_loop_test(tcase, a_connect_from_an_address_that_has_moved_fails, 0, COUNT(moves));
}

static void add_passive_cases(TCase *tcase)
{
	tcase_add_test(tcase, a_listener_has_the_port_that_is_asked_for_or_any);
	tcase_add_loop_test(tcase, a_listen_that_fails_leaves_nothing, 0, COUNT(listen_failures));
	tcase_add_test(tcase, a_listen_without_memory_leaves_nothing);
	tcase_add_test(tcase, any_port_is_looked_for_sixteen_times);
	tcase_add_test(tcase, a_request_is_told_with_its_addresses_and_private_data);
	tcase_add_loop_test(tcase, a_rejection_tells_whose_it_is, 0, 3);
	tcase_add_test(tcase, a_rejection_has_room_for_the_longest);
	tcase_add_test(tcase, a_request_that_the_peer_gave_up_can_be_rejected);
	tcase_add_test(tcase, a_request_without_memory_is_refused);
	tcase_add_loop_test(tcase, a_request_to_an_address_that_has_moved_is_refused, 0,
			    COUNT(moves));
	tcase_add_test(tcase, an_address_that_has_moved_is_told_once);
	tcase_add_test(tcase, requests_that_are_queued_when_a_listener_ends_are_refused);
	tcase_add_test(tcase, a_listener_ends_without_memory_for_its_events);
	tcase_add_test(tcase, an_accepted_connection_has_the_smaller_read_depths);
	tcase_add_loop_test(tcase, an_accept_that_fails_is_returned_or_reported, 0,
			    COUNT(accept_failures));
	tcase_add_test(tcase, an_accept_of_a_request_that_was_given_up_is_reported);
	tcase_add_test(tcase, a_failed_accept_that_is_released_first_is_not_reported);
	tcase_add_test(tcase, close_handles_a_result_that_nobody_has_seen);
	tcase_add_test(tcase, data_before_the_last_message_of_the_handshake_establishes);
	tcase_add_loop_test(tcase, the_end_of_a_connection_is_confirmed_to_the_peer, 0, 2);
}

int main(int argc, char **argv)
{
	TCase *tcase = tcase_create("cm");

	case_fixture(NULL, verbs_begin, NULL);
	case_fixture(tcase, conn_setup, NULL);
	add_cases(tcase);
	add_active_cases(tcase);
	add_passive_cases(tcase);
	tcase_add_test(tcase, a_released_connection_lives_until_its_result_is_handled);
	return run_cases(argc, argv);
}
