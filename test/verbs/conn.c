/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections of the tests. */
#include "conn.h"

#include <arpa/inet.h>

#define PORT 7000

struct rig rig;
struct tp_listener *conn_listener;

static const struct tp_cm_param cm_param = {
	.private_data = "hello",
	.private_data_size = 5,
	.max_read_in = 4,
	.max_read_out = 2,
};

void conn_setup(void)
{
	rig_open(&rig);
}

void iwarp_setup(void)
{
	fv_make_iwarp(0);
	rig_open(&rig);
}

int conn_connect(struct tp_conn **conn)
{
	const struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(0x7f000009),
	};

	return tp_connect(rig.dev, (const struct sockaddr *)&to, PORT, rig.qp, up_ep(0), &cm_param,
			  conn);
}

int conn_accept(struct tp_conn *conn)
{
	return tp_accept(conn, rig.qp, up_ep(0), &cm_param);
}

void conn_event(struct tp_conn *conn, enum rdma_cm_event_type type, int status)
{
	fv_cm_post(conn->id, type, status);
	rig_progress(&rig);
}

static struct tp_conn *active_at(enum place place)
{
	struct tp_conn *conn;

	ck_assert_int_eq(conn_connect(&conn), 0);
	if (place == AT_RESOLVING_ADDR)
		return conn;
	conn_event(conn, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	if (place == AT_RESOLVING_ROUTE)
		return conn;
	conn_event(conn, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	if (rig.dev->iwarp) {
		fv_await("rdma_connect", 1);
		while (conn->result_pending)
			rig_progress(&rig);
	}
	if (place == AT_CONNECTING)
		return conn;
	if (place == AT_RETRYING) {
		conn_event(conn, RDMA_CM_EVENT_REJECTED, CM_REJECT_STALE);
		return conn;
	}
	if (place == AT_AWAITING_RELEASE) {
		conn_event(conn, RDMA_CM_EVENT_UNREACHABLE, 0);
		upcall_is(UP_FAILED, up_ep(0));
		return conn;
	}
	conn_event(conn,
		   rig.dev->iwarp ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	upcall_is(UP_ESTABLISHED, up_ep(0));
	if (place == AT_LINGERING || place == AT_AWAITING_DESTROY)
		tp_release(conn);
	if (place == AT_AWAITING_DESTROY)
		conn_event(conn, RDMA_CM_EVENT_DISCONNECTED, 0);
	return conn;
}

static struct tp_conn *passive_at(enum place place)
{
	const struct fv_cm_event depths = { .responder_resources = 3, .initiator_depth = 3 };
	struct tp_conn *conn;
	uint16_t port = PORT;

	ck_assert_int_eq(tp_listen(rig.dev, &port, up_sp(0), &conn_listener), 0);
	fv_request(fv_id(0), &depths);
	rig_progress(&rig);
	conn = upcall_is(UP_REQUEST, up_sp(0)).conn;
	if (place == AT_WITHDRAWN)
		conn_event(conn, RDMA_CM_EVENT_DISCONNECTED, 0);
	if (place == AT_REQUESTED || place == AT_WITHDRAWN)
		return conn;
	ck_assert_int_eq(conn_accept(conn), 0);
	if (place == AT_ACCEPTING)
		return conn;
	conn_event(conn, RDMA_CM_EVENT_ESTABLISHED, 0);
	upcall_is(UP_ESTABLISHED, up_ep(0));
	return conn;
}

struct tp_conn *conn_at(enum place place)
{
	struct tp_conn *conn = place >= AT_REQUESTED ? passive_at(place) : active_at(place);

	no_upcall();
	fv_trace_clear();
	return conn;
}

void conn_end(struct tp_conn *conn)
{
	if (conn)
		tp_release(conn);
	if (conn_listener)
		tp_unlisten(conn_listener);
	rig_close(&rig);
}
