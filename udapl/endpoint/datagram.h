/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints of datagrams, see datagram2.c: what an endpoint, its connects and its end have to do
 * for them. In an edition without datagrams no endpoint has any. ia->lock is held in all of these.
 */
#ifndef UDAPL_DATAGRAM_H
#define UDAPL_DATAGRAM_H

#include "ep.h"

#if DAT_EDITION == 2
/* Begins an exchange with the listener at @remote. Returns as dat_ep_connect does. */
DAT_RETURN datagram_connect_locked(struct ep *ep, const struct sockaddr_storage *remote,
				   uint64_t deadline, const struct tp_cm_param *param);
/* Answers a request, and takes over @conn on success. Returns as dat_cr_accept does. */
DAT_RETURN datagram_accept_locked(struct ep *ep, struct tp_conn *conn,
				  const struct tp_cm_param *param);
/* Looks what is due because a completion has failed. */
void datagram_step_locked(struct ep *ep);
/* Ends all exchanges of an endpoint that is being freed: no event follows. */
void datagram_quiesce_locked(struct ep *ep);
/* Destroys all peers of an endpoint whose queue pair is gone. */
void datagram_discard_locked(struct ep *ep);
#else
static inline DAT_RETURN datagram_connect_locked(struct ep *ep,
						 const struct sockaddr_storage *remote,
						 uint64_t deadline, const struct tp_cm_param *param)
{
	(void)ep, (void)remote, (void)deadline, (void)param;
	return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
}

static inline DAT_RETURN datagram_accept_locked(struct ep *ep, struct tp_conn *conn,
						const struct tp_cm_param *param)
{
	(void)ep, (void)conn, (void)param;
	return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
}

static inline void datagram_step_locked(struct ep *ep)
{
	(void)ep;
}

static inline void datagram_quiesce_locked(struct ep *ep)
{
	(void)ep;
}

static inline void datagram_discard_locked(struct ep *ep)
{
	(void)ep;
}
#endif

#endif
