/* SPDX-License-Identifier: BSD-2-Clause */
/* Service points, and the connection requests that arrive there. */
#ifndef UDAPL_LISTEN_H
#define UDAPL_LISTEN_H

#include "endpoint/endpoint.h"

/* ---- sp.c, csp.c of DAT 2.0, cr.c ---- */

struct sp {
	struct obj obj;	 /* a PSP, an RSP or, in DAT 2.0, a CSP */
	uint64_t number; /* fixed; of no other one, although a handle is used again */
	DAT_CONN_QUAL conn_qual;
	DAT_PSP_FLAGS flags;	      /* of an RSP: does the provider make its endpoint? */
	struct evd *evd;	      /* held while it listens */
	struct tp_listener *listener; /* ia->lock; NULL: of an RSP whose request has arrived */
	struct ep *ep;		      /* of an RSP; reserved while it listens, may be NULL */
#if DAT_EDITION == 2
	DAT_COMM comm;			 /* of a CSP, as its consumer gave them */
	struct sockaddr_storage address; /* of a CSP */
#endif
};

struct cr {
	struct obj obj;
	struct ep_request request;
	struct sp *sp; /* may be stale: the CR outlives it */
	uint64_t sp_number;
	/* waits for the answer; the provider has made it if it is tentative; NULL: there is none */
	struct ep *ep;
	struct sockaddr_storage remote;
	DAT_COUNT private_data_size;
	char private_data[256]; /* the longest that any transport delivers */
};

/* Returns the service point of @ia that listens on that port, or NULL. ia->lock is held. */
struct sp *sp_on_port_locked(struct ia *ia, uint16_t port);
/*
 * Makes an invisible service point of @kind that listens on the port of @qual; with 0 on a port
 * that is free, whose number becomes the qualifier. ia->lock is held.
 */
DAT_RETURN sp_new_locked(struct ia *ia, DAT_HANDLE_TYPE kind, DAT_CONN_QUAL qual, struct evd *evd,
			 DAT_PSP_FLAGS flags, struct sp **sp);
/* Returns whether @evd is one of @ia that takes connection requests. */
bool sp_evd_takes_requests(struct ia *ia, const struct evd *evd);
/* Frees a service point of @kind. Returns @bad if @handle is anything else. */
DAT_RETURN sp_free(DAT_HANDLE handle, DAT_HANDLE_TYPE kind, DAT_RETURN bad);
/*
 * Ends the listening of a service point: it is being freed, or it is an RSP whose request has
 * arrived. ia->lock is held.
 */
void sp_stop_locked(struct sp *sp);
/*
 * Destroys a service point, which is retired already. ia->lock is held; freeing one calls this, and
 * dat_ia_close.
 */
void sp_destroy_locked(struct sp *sp);
/*
 * Rejects a request in the provider's name, and destroys it, retired already, and an endpoint that
 * was made for it. No lock is held; dat_ia_close calls this.
 */
void cr_destroy(struct cr *cr);
/*
 * dat_cr_reject but for the checks of the arguments. In DAT 1.2 there are no private data, but the
 * transports carry them.
 */
DAT_RETURN cr_reject_with(DAT_CR_HANDLE cr, const void *private_data, unsigned size);

/* ---- calls: as in endpoint/endpoint.h ---- */

DAT_RETURN psp_create(DAT_IA_HANDLE ia, DAT_CONN_QUAL qual, DAT_EVD_HANDLE evd, DAT_PSP_FLAGS flags,
		      DAT_PSP_HANDLE *psp);
DAT_RETURN psp_create_any(DAT_IA_HANDLE ia, DAT_CONN_QUAL *qual, DAT_EVD_HANDLE evd,
			  DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *psp);
DAT_RETURN psp_query(DAT_PSP_HANDLE psp, DAT_PSP_PARAM_MASK mask, DAT_PSP_PARAM *param);
DAT_RETURN psp_free(DAT_PSP_HANDLE psp);
DAT_RETURN rsp_create(DAT_IA_HANDLE ia, DAT_CONN_QUAL qual, DAT_EP_HANDLE ep, DAT_EVD_HANDLE evd,
		      DAT_RSP_HANDLE *rsp);
DAT_RETURN rsp_query(DAT_RSP_HANDLE rsp, DAT_RSP_PARAM_MASK mask, DAT_RSP_PARAM *param);
DAT_RETURN rsp_free(DAT_RSP_HANDLE rsp);
#if DAT_EDITION == 2
DAT_RETURN csp_create(DAT_IA_HANDLE ia, DAT_COMM *comm, DAT_IA_ADDRESS_PTR address,
		      DAT_EVD_HANDLE evd, DAT_CSP_HANDLE *csp);
DAT_RETURN csp_query(DAT_CSP_HANDLE csp, DAT_CSP_PARAM_MASK mask, DAT_CSP_PARAM *param);
DAT_RETURN csp_free(DAT_CSP_HANDLE csp);
DAT_RETURN ep_common_connect(DAT_EP_HANDLE ep, DAT_IA_ADDRESS_PTR address, DAT_TIMEOUT timeout,
			     DAT_COUNT private_data_size, const DAT_PVOID private_data);
#endif
DAT_RETURN cr_query(DAT_CR_HANDLE cr, DAT_CR_PARAM_MASK mask, DAT_CR_PARAM *param);
DAT_RETURN cr_accept(DAT_CR_HANDLE cr, DAT_EP_HANDLE ep, DAT_COUNT private_data_size,
		     const DAT_PVOID private_data);
#if DAT_EDITION == 2
DAT_RETURN cr_reject(DAT_CR_HANDLE cr, DAT_COUNT private_data_size, const DAT_PVOID private_data);
#else
DAT_RETURN cr_reject(DAT_CR_HANDLE cr);
#endif
DAT_RETURN cr_handoff(DAT_CR_HANDLE cr, DAT_CONN_QUAL qual);

#endif
