/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of connection management share: cm.c, cm_event.c, datagram2.c, iwarp.c. */
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

/* What the private data of a question for the way to a queue pair begin with, on the wire. */
struct __attribute__((packed)) datagram_header {
	char magic[4];
	uint8_t version, kind;
	__be16 port; /* where the peer asks back */
	__be32 qp_num;
	uint64_t exchange; /* random; a question that comes again has the same, and so its answer */
};

struct tp_conn {
	struct tp_dev *dev;
	struct rdma_cm_id *id; /* its context is this connection */
	enum cm_state state;
	struct ep *ep;	  /* from tp_connect or tp_accept to tp_release */
	struct tp_qp *qp; /* as long; qp->conn is this connection */

	/* of an exchange, see datagram2.c, which has neither endpoint nor queue pair */
	bool datagrams;
	bool asks_back;		    /* it is the passive side's question, after its accept */
	struct peer *peer;	    /* from its begin or its accept to tp_release */
	struct tp_pd *pd;	    /* as long; held; the address handle will belong to it */
	struct datagram_header ask; /* passive side: what the request said */
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
	struct ibv_ah_attr path;    /* these three of datagrams: the way to the peer */
	uint32_t qp_num, qkey;
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

/* These are for datagram2.c, too. ia->lock is held. */

/* Rejects the request of @id, in the consumer's name, with private data, or in ours, with none. */
void cm_id_reject(struct tp_dev *dev, struct rdma_cm_id *id, bool by_consumer,
		  const void *private_data, unsigned size);
/*
 * Reads the private data of a rejection, one of a consumer for all that the event tells. Returns
 * who has rejected the request, and points *data at what that consumer has sent, *size bytes.
 */
enum tp_cause cm_rejection_read(const struct cm_event *event, bool by_consumer, const char **data,
				unsigned *size);
/* Destroys an identifier, and its events that are pending. */
void cm_id_destroy(struct tp_dev *dev, struct rdma_cm_id *id);
/* Makes an identifier of @ps that begins to resolve @to. Returns 0 or a negative errno. */
int cm_id_resolve(struct tp_dev *dev, struct sockaddr *to, enum rdma_port_space ps,
		  struct rdma_cm_id **id);
/* Makes an identifier of @ps that listens at @port; 0: any. Returns 0 or a negative errno. */
int cm_id_listen(struct tp_dev *dev, uint16_t port, enum rdma_port_space ps,
		 struct rdma_cm_id **id);
/* Makes a connection of @id, with the numbers of retries; NULL without memory. */
struct tp_conn *cm_conn_new(struct tp_dev *dev, struct rdma_cm_id *id, enum cm_state state);
/* Begins an attempt at @port of @remote, in CM_RESOLVING_ADDR. Returns as tp_connect does. */
int cm_conn_begin(struct tp_dev *dev, const struct sockaddr *remote, uint16_t port,
		  enum rdma_port_space ps, struct tp_conn **conn);
/* The attempt was in vain for that @cause: the core is told. @conn may be freed on return. */
void cm_conn_ended(struct tp_conn *conn, enum tp_cause cause);

/* ---- datagram2.c, of DAT 2.0: without it no device has datagrams. ia->lock is held. ---- */

#if DAT_EDITION == 2
/* Handles a request for datagrams, at a listener of @sp; NULL: at the one for the way back. */
void datagram_request(struct tp_dev *dev, struct sp *sp, const struct cm_event *event);
/* These three handle what an exchange comes to: an answer, a refusal, and any other end. */
void datagram_answered(struct tp_conn *conn, const struct cm_event *event);
void datagram_refused(struct tp_conn *conn, const struct cm_event *event);
void datagram_ended(struct tp_conn *conn, enum tp_cause cause);
/* Has a request that the consumer rejects be rejected again, if it comes once more. */
void datagram_rejected(const struct tp_conn *conn, const void *private_data, unsigned size);
/* Ends what was begun for exchanges, when the device is closed. */
void datagram_close(struct tp_dev *dev);
#else
static inline void datagram_request(struct tp_dev *dev, struct sp *sp, const struct cm_event *event)
{
	(void)dev, (void)sp, (void)event;
}

static inline void datagram_answered(struct tp_conn *conn, const struct cm_event *event)
{
	(void)conn, (void)event;
}

static inline void datagram_refused(struct tp_conn *conn, const struct cm_event *event)
{
	(void)conn, (void)event;
}

static inline void datagram_ended(struct tp_conn *conn, enum tp_cause cause)
{
	(void)conn, (void)cause;
}

static inline void datagram_rejected(const struct tp_conn *conn, const void *private_data,
				     unsigned size)
{
	(void)conn, (void)private_data, (void)size;
}

static inline void datagram_close(struct tp_dev *dev)
{
	(void)dev;
}
#endif

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
