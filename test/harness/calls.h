/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each call of a provider's table, in its normal use, on objects that are there for it: for tests
 * of what holds for all calls, over any transport. A case has the form
 *
 *	calls_prepare(&calls, ia, &peer);
 *	the call of one row, in the way that the test is about
 *	calls_make_all(&calls, row);
 *	calls_close(&calls);
 */
#ifndef TEST_CALLS_H
#define TEST_CALLS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "editions.h"

#define CALLS_MEMORY 4096
#define CALLS_SPARES 4
#define CALLS_COOKIE 5

struct calls;

/* The other ends of the connections, where the transport does not let an IA connect to itself. */
struct calls_peer {
	/* Answers dat_ep_connect of @ep, which was called: the connection is established. */
	void (*accept)(struct calls *calls, DAT_EP_HANDLE ep);
	/* A request arrives at calls->psp. */
	void (*request)(struct calls *calls);
	/* The oldest request that was posted to @ep completes. */
	void (*complete)(struct calls *calls, DAT_EP_HANDLE ep);
};

/* One IA and its objects. A call that makes one leaves it in made; others have theirs. */
struct calls {
	const struct calls_peer *peer; /* NULL: endpoints of the IA connect to it */
	DAT_IA_HANDLE ia, spare_ias[CALLS_SPARES], made_ias[CALLS_SPARES];
	unsigned spares_closed, ias_made;
	DAT_HANDLE made;
	DAT_PZ_HANDLE pz, spare_pz;
	DAT_LMR_HANDLE lmr, spare_lmr;
	DAT_LMR_TRIPLET local;
	DAT_RMR_TRIPLET remote;
	DAT_RMR_HANDLE rmr, spare_rmr;
	DAT_RMR_CONTEXT rmr_context;
	DAT_CNO_HANDLE cno, spare_cno;
	/* of endpoints and service points, peer_evd for receives of the other ends */
	DAT_EVD_HANDLE recv_evd, request_evd, connect_evd, cr_evd, peer_evd;
	/* software_evd is that of the CNO */
	DAT_EVD_HANDLE software_evd, idle_evd, resized_evd, spare_evd;
	DAT_SRQ_HANDLE srq, spare_srq;
	DAT_PSP_HANDLE psp, other_psp, spare_psp;
	DAT_CONN_QUAL qual, other_qual, next_qual;
	DAT_RSP_HANDLE rsp, spare_rsp;
	DAT_CR_HANDLE queried_cr, accepted_cr, rejected_cr, handed_cr;
	DAT_EP_HANDLE up_ep;	   /* connected */
	DAT_EP_HANDLE leaving_ep;  /* connected, to be disconnected */
	DAT_EP_HANDLE down_ep;	   /* disconnected */
	DAT_EP_HANDLE passive_ep;  /* for dat_cr_accept */
	DAT_EP_HANDLE active_ep;   /* for dat_ep_connect */
	DAT_EP_HANDLE like_ep;	   /* for dat_ep_dup_connect */
	DAT_EP_HANDLE reserved_ep; /* for dat_rsp_create */
	DAT_EP_HANDLE idle_ep, spare_ep;
	struct sockaddr_storage address; /* of the IA */
	DAT_EVENT event;		 /* of a wait or a dequeue */
	DAT_EVD_HANDLE triggered;
#if DAT_EDITION == 2
	DAT_CNO_HANDLE fd_cno; /* with a descriptor; of fd_evd */
	DAT_EVD_HANDLE fd_evd;
	DAT_CSP_HANDLE csp, spare_csp;
	DAT_EP_HANDLE common_ep; /* for dat_ep_common_connect */
#endif
	char memory[CALLS_MEMORY];
};

struct call_row {
	const char *name; /* "dat_ep_create" */
	size_t slot;	  /* offset in DAT_PROVIDER */
	/* Makes the call. Nothing in it but the call is a cancellation point. */
	DAT_RETURN (*run)(struct calls *calls);
	/* It posts a request with the cookie CALLS_COOKIE to up_ep. */
	bool posts;
	DAT_RETURN want; /* what the call returns: DAT_SUCCESS, or that it is not supported */
};

/*
 * The rows, in an order in which one thread can make all of them, one after the other; the last one
 * has no name. calls_check_rows fails unless each slot of the edition's table has one row.
 */
extern const struct call_row call_rows[];
unsigned calls_count(void);
const struct call_row *call_named(const char *name);
void calls_check_rows(void);

/* Makes the objects, of an IA that is open and has none. */
void calls_prepare(struct calls *calls, DAT_IA_HANDLE ia, const struct calls_peer *peer);
/* Connects another endpoint of the IA. */
void calls_connect(struct calls *calls, DAT_EP_HANDLE ep);
/*
 * Makes all calls. Each returns what its row wants, but that of @made, which the test has made
 * before.
 */
void calls_make_all(struct calls *calls, const struct call_row *made);
/*
 * Makes the call of @row in a thread of its own, with a request to cancel it pending. Fails unless
 * the thread was cancelled, and the call has returned what the row wants. Returns whether it was
 * cancelled inside the call, not after it.
 */
bool calls_make_cancelled(struct calls *calls, const struct call_row *row);
/* Closes the IA, and those that the calls have opened, abruptly. */
void calls_close(struct calls *calls);
/* How many descriptors this process has. */
unsigned calls_descriptors(void);
/* Waits for the next event of that number, on an EVD that has no other events. */
DAT_EVENT calls_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number);

#endif
