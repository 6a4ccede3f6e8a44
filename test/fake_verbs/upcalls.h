/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A core that only records upcalls, in place of the real one. The test's thread plays the service
 * thread and holds "ia->lock": it calls fv_ia_lock first.
 */
#ifndef FAKE_VERBS_UPCALLS_H
#define FAKE_VERBS_UPCALLS_H

#include "../../udapl/transport.h"

enum up_kind {
	UP_NONE,
	UP_REQUEST,
	UP_ESTABLISHED,
	UP_REJECT_DATA,
	UP_FAILED,
	UP_PEER_FOUND,
	UP_PEER_FAILED,
	UP_DISCONNECTED,
	UP_QP_BROKEN,
	UP_LAST_RECEIVE,
	UP_SRQ_LIMIT,
	UP_SRQ_BROKEN,
	UP_CQ_OVERRUN,
	UP_PORT_DOWN,
	UP_DEV_FATAL,
};

struct up_record {
	enum up_kind kind;
	const void *about;    /* the SP, EP, EVD or IA */
	enum tp_cause cause;  /* UP_FAILED, UP_PEER_FAILED */
	struct tp_conn *conn; /* UP_REQUEST */
	bool datagrams;	      /* UP_REQUEST */
	struct tp_ah *ah;     /* UP_PEER_FOUND */
	unsigned max_read_in, max_read_out;
	unsigned pdata_size;
	char pdata[256];
	bool has_pdata;
	struct sockaddr_storage local, remote; /* UP_REQUEST */
};

/* Takes the oldest upcall that was not taken; of kind UP_NONE if there is none. */
struct up_record up_take(void);
/* Was up_wake called since the last time? */
bool up_take_wake(void);
/* Called within each upcall, after it is recorded; the core may call the transport there. */
extern void (*up_hook)(const struct up_record *record);

/* Addresses of core objects, which the transport passes back and never looks into. */
struct ia *up_ia(void);
struct ep *up_ep(unsigned n);	  /* n < 16 */
struct sp *up_sp(unsigned n);	  /* n < 16 */
struct peer *up_peer(unsigned n); /* n < 16 */
struct evd *up_evd(unsigned n);	  /* n < 16 */

#endif
