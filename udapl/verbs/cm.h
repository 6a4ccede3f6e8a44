/* SPDX-License-Identifier: BSD-2-Clause */
/* What the three files of connection management share: cm.c, cm_event.c, iwarp.c. */
#ifndef UDAPL_CM_H
#define UDAPL_CM_H

#include "verbs.h"

/* InfiniBand's reason codes for a rejection. */
#define CM_REJECT_STALE		   10
#define CM_REJECT_CONSUMER_DEFINED 28

/* The top of cm.c shows how a connection moves through these states. */
enum cm_state {
	CM_RESOLVING_ADDR,  /* active side */
	CM_RESOLVING_ROUTE, /* active side */
	CM_CONNECTING,	    /* active side: the request is sent */
	CM_RETRYING,	    /* active side: waits, then begins again */
	CM_REQUESTED,	    /* passive side: the core accepts, rejects or releases it next */
	CM_ACCEPTING,	    /* passive side: the reply is sent, or its failure is to be reported */
	CM_ESTABLISHED,
	CM_AWAITS_RELEASE, /* it is over, and the core's still, which releases it next */
	CM_LINGERING,	   /* released; waits for the peer, or for a CM result */
	CM_AWAITS_DESTROY, /* released; waits for nothing, and is destroyed when there is time */
};

struct tp_conn {
	struct tp_dev *dev;
	struct rdma_cm_id *id; /* its context is this connection */
	enum cm_state state;
	struct ep *ep;	  /* from tp_connect or tp_accept to tp_release */
	struct tp_qp *qp; /* as long; qp->conn is this connection */
	/* what this side takes and sends; of a request it is what the peer takes and sends */
	unsigned max_read_in, max_read_out;
	unsigned arp_retry, route_retry, stale_retry; /* that are left */

	/*
	 * the links in the list of the device, in CM_LINGERING, CM_RETRYING and CM_AWAITS_DESTROY
	 */
	struct tp_conn *next, **back;
	uint64_t deadline;

	/*
	 * A CM result is due: from iwarp_connect or a failed tp_accept to cm_conn_result_handle.
	 * Meanwhile only cm_close destroys the connection.
	 */
	bool result_pending;
	int result;		     /* helper thread, then dev->result_lock; 0 or -errno */
	struct tp_conn *next_result; /* dev->result_lock */

	/* on iWARP */
	bool has_helper;
	pthread_t helper;
	/*
	 * The kernel does not wait for the peer any more: the peer has answered, or rdma_connect
	 * has failed.
	 */
	bool answered;
	struct tp_qp *orphaned_qp; /* held; this is an attempt that was given up unanswered */
	struct rdma_event_channel *own_channel; /* NULL: the identifier uses dev->cm */

	/* on the active side */
	struct rdma_conn_param param;
	char private_data[UINT8_MAX];
};

/*
 * A copy of a struct rdma_cm_event, which is acknowledged already: rdma_destroy_id waits until all
 * events of the identifier are.
 */
struct cm_event {
	struct cm_event *next; /* dev->pending */
	struct rdma_cm_id *id, *listen_id;
	enum rdma_cm_event_type type;
	int status;
	unsigned peer_in, peer_out; /* RDMA reads that the peer takes and sends */
	unsigned private_data_size;
	char private_data[UINT8_MAX];
};

/* ---- cm.c ---- */

/*
 * These handle an event that was taken off the channel, and the CM result of @conn. Either may free
 * the connection. ia->lock is held; tp_dev_progress calls them.
 */
void cm_event_handle(struct tp_dev *dev, const struct cm_event *event);
void cm_conn_result_handle(struct tp_conn *conn);

/*
 * Destroys the connections whose time of lingering or of waiting for that is up, and begins
 * attempts again whose time has come. ia->lock is held; tp_dev_progress calls this.
 */
void cm_times_expire(struct tp_dev *dev);

/* Rejects a request that the core has not seen, and destroys its identifier. ia->lock is held. */
void cm_id_refuse(struct tp_dev *dev, struct rdma_cm_id *id);

/* ---- cm_event.c ---- */

/*
 * Takes all events off the channel, and has the service thread handle them later. A call on any
 * thread that needs the channel to be empty makes this one, with ia->lock held.
 */
void cm_events_fetch(struct tp_dev *dev);
/*
 * Removes the pending events of @id, which is about to be destroyed, and refuses the requests among
 * them. ia->lock is held.
 */
void cm_events_discard(struct tp_dev *dev, const struct rdma_cm_id *id);
/*
 * Has the service thread call cm_conn_result_handle, with @result in conn->result. Any thread may
 * call it, with ia->lock held or not.
 */
void cm_conn_result_post(struct tp_conn *conn, int result);

/* ---- iwarp.c ---- */

/*
 * Starts rdma_connect on a helper thread. Returns 0, and a CM result follows; or a negative errno.
 * ia->lock is held, by this and the two below.
 */
int iwarp_connect(struct tp_conn *conn);
/*
 * Cancels the helper thread, and makes an attempt without an answer an orphan. tp_release calls
 * this.
 */
void iwarp_release(struct tp_conn *conn);
/* Waits for the end of the helper thread, if there is one. */
void iwarp_helper_join(struct tp_conn *conn);
/*
 * Destroys an orphan on a thread of its own. Returns false if there are no resources for that; then
 * the caller still owns @conn. ia->lock is held.
 */
bool iwarp_orphan_destroy(struct tp_conn *conn);
/*
 * Destroys an orphan, and sleeps while it has no answer. It needs no ia->lock: the orphan's thread
 * calls it, or one that closes the device.
 */
void iwarp_orphan_end(struct tp_conn *conn);

#endif
