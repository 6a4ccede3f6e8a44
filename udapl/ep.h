/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the two halves of an endpoint, the object (ep.c) and its connection (conn.c), share.
 * ia->lock held throughout.
 */
#ifndef UDAPL_EP_H
#define UDAPL_EP_H

#include "udapl.h"

/* What moves the state; the table of moves is in conn.c. */
enum trigger {
	ON_CONNECT,
	ON_ACCEPT,
	ON_ESTABLISHED,
	ON_PEER_REJECTED,
	ON_NON_PEER_REJECTED,
	ON_UNREACHABLE,
	ON_PEER_GONE,
	ON_FAULT, /* a transfer or the transport failed */
	ON_TIMEOUT,
	ON_ABRUPT,
	ON_GRACEFUL,
	ON_IDLE, /* the last request of a graceful disconnect is done */
	ON_RESET,
	ON_FREE,
	TRIGGERS,
};

/* Is a call legal that pulls @trigger? If not, the status names the state. */
DAT_RETURN ep_may(const struct ep *ep, enum trigger trigger);

/* Does what the table says, unless the connection is ending already. */
void ep_fire(struct ep *ep, enum trigger trigger);

/* The gates follow the state and the QP: call it when either has changed. */
void ep_set_gates(struct ep *ep);

/* Completes as flushed what the device has not completed. False: no memory. */
bool ep_flush(struct ep *ep);

/* From here on nothing happens to it any more, and nobody is told. */
void ep_silence(struct ep *ep);

/* What the data path kicks. */
void ep_work(struct work *work);

#endif
