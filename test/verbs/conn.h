/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections of the tests: to each state of cm.c, on either side. */
#ifndef VERBS_CONN_H
#define VERBS_CONN_H

#include "../../udapl/verbs/cm.h"
#include "verbs_test.h"

/* The one rig of a test program, opened by conn_setup and closed by conn_end. */
extern struct rig rig;
/* The fixtures: the device is one of InfiniBand, or of iWARP. */
void conn_setup(void);
void iwarp_setup(void);

/* Begins to connect rig.qp to 127.0.0.9, with 4 RDMA reads in and 2 out. */
int conn_connect(struct tp_conn **conn);
/* Accepts with rig.qp, and as many RDMA reads. */
int conn_accept(struct tp_conn *conn);
/* Posts an event about @conn and has it handled. */
void conn_event(struct tp_conn *conn, enum rdma_cm_event_type type, int status);

/* Where a test begins; ESTABLISHED and AWAITING_RELEASE are reached from CONNECTING. */
enum place {
	AT_RESOLVING_ADDR,
	AT_RESOLVING_ROUTE,
	AT_CONNECTING,
	AT_RETRYING, /* not on iWARP */
	AT_ESTABLISHED,
	AT_AWAITING_RELEASE,
	AT_LINGERING,	     /* released when established */
	AT_AWAITING_DESTROY, /* the peer has answered, too; not on iWARP */
	AT_REQUESTED,
	AT_ACCEPTING,
	AT_ACCEPTED,  /* passive, established */
	AT_WITHDRAWN, /* a request that the peer has given up */
	PLACES,
};
/* The upcalls on the way are taken. Passive: conn_listener is set. */
struct tp_conn *conn_at(enum place place);
extern struct tp_listener *conn_listener;

/* Releases @conn, if not NULL, closes everything, and proves that nothing is left. */
void conn_end(struct tp_conn *conn);

#endif
