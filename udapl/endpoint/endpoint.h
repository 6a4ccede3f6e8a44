/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints, their connections and transfers, and shared receive queues. */
#ifndef UDAPL_ENDPOINT_H
#define UDAPL_ENDPOINT_H

#include "event/event.h"

#if DAT_EDITION == 2
#include <dat2/dat_ib_extensions.h>
#endif

/* ---- srq.c ---- */

/*
 * The two values of the gate of a live queue. They stand for what EP_OPEN and EP_SHARED do, see
 * there.
 */
#define SRQ_OPEN   0x0DA70FEDu
#define SRQ_SHARED 0x0DA70FEFu

struct srq_slots;

struct srq {
	struct obj obj;
	_Atomic unsigned state; /* DAT_SRQ_STATE; written under ia->lock */
	/*
	 * SRQ_OPEN or SRQ_SHARED: a post may go to the transport; else the slow path says why not
	 */
	_Atomic unsigned gate;
	struct tp_srq *tp;
	struct recv_pool pool;
	struct req *spares; /* poster; free slots */
	struct spinlock post_lock;
	unsigned max_segments;	 /* fixed; of one receive */
	DAT_VLEN max_transfer;	 /* fixed; as an endpoint's */
	struct pz *pz;		 /* held */
	struct srq_slots *slots; /* ia->lock; the memory of all slots */
	struct mutex depth_lock; /* how long the queue is; held while the device resizes it */
	unsigned depth;		 /* depth_lock; receives that the device has room for */
	unsigned callers;	 /* ia->lock; threads that have depth_lock, or wait for it */
	DAT_COUNT low_watermark; /* ia->lock */
	bool watched;		 /* ia->lock; the event of the low watermark is to come */
};

/*
 * Returns how many receives are posted of which the consumer has not taken the completion. No
 * thread posts meanwhile.
 */
static inline unsigned srq_outstanding(const struct srq *srq)
{
	return atomic_load_explicit(&srq->pool.ring.tail, memory_order_relaxed) -
	       atomic_load_explicit(&srq->pool.ring.head, memory_order_acquire);
}

/* Closes the gate, in the child after a fork. */
void srq_after_fork(struct srq *srq);
/*
 * Destroys a queue, which is retired already and which no endpoint uses. Receives that are still
 * posted end without an event. ia->lock is held; dat_srq_free and dat_ia_close call this.
 */
void srq_destroy_locked(struct srq *srq);

/* ---- ep.c, conn.c, post.c ---- */

/* How far the end of a connection has come; the top of conn.c says what each phase is for. */
enum ep_phase {
	PHASE_NONE,	 /* no connection, or it is not ending */
	PHASE_LINGERING, /* graceful disconnect: outstanding requests may still complete */
	PHASE_DRAINING,	 /* the end event is known, the QP is in error: the device flushes */
	PHASE_FLUSHING,	 /* state DISCONNECTED: flushes and the end event wait for memory */
};

/* How the connection ends, and who ends it. */
struct ep_end {
	enum ep_phase phase;	/* ia->lock */
	DAT_EVENT_NUMBER event; /* ia->lock; the end event, from PHASE_DRAINING on */
	/* ia->lock; the peer has disconnected; a failure that is still to come may be the reason */
	bool by_peer;
	bool reporting;	    /* ia->lock; each completion is reported: both rings and EVDs know */
	_Atomic bool asked; /* set before the state; the consumer has called dat_ep_disconnect */
};

/* What completions have told since the connection was begun. The data path sets these. */
struct ep_seen {
	_Atomic bool failed;  /* a completion failed, not by flush */
	_Atomic bool flushed; /* a completion was flushed though neither side disconnected */
};

/*
 * A request of ours behind the last one of a run of unsignalled requests. Its completion proves
 * that those before it have completed. request_evd->lock guards the fields.
 */
struct ep_marker {
	struct req req;	 /* the tag of the post, in no ring */
	bool posted;	 /* it is in the QP */
	bool uncertain;	 /* the newest request it covers may have reached the QP after it */
	unsigned covers; /* all requests before this position of sends */
};

/* What dat_ep_connect was asked for last, for a dat_ep_dup_connect to the same peer. */
struct ep_target {
	struct sockaddr_storage remote;
	DAT_CONN_QUAL qual;
	DAT_CONNECT_FLAGS flags;
};

/*
 * The receives that were posted before a connection was begun, oldest first. None has completed, so
 * they are the oldest ones of the ring. dat_ep_modify posts them to a new queue pair. The first one
 * takes memory for as many as may be outstanding, which is freed when the endpoint is connected.
 */
struct early_recvs {
	char *records; /* as the others, recv_lock */
	size_t size;   /* bytes */
	unsigned count;
};

/*
 * The values of an open gate, the latter two of requests where the endpoint is one of datagrams. No
 * other object has them where an endpoint has its gates.
 */
#define EP_OPEN		   0x0DA70FE9u
#define EP_SHARED	   0x0DA70FEBu
#define EP_DATAGRAM_OPEN   0x0DA70FEDu
#define EP_DATAGRAM_SHARED 0x0DA70FEFu

struct ep {
	struct obj obj;
	/*
	 * What a post reads first and last, in one word each. EP_OPEN: this is a live endpoint, no
	 * other thread may post to it, and a post may go to the transport: send_gate says so of
	 * requests, when it is connected, and recv_gate of receives, when it is connected, because
	 * early receives take the slow path. EP_SHARED: so it is, but other threads may post, so a
	 * post takes send_lock or recv_lock, and looks once more. With anything else a post takes
	 * the slow path. They follow the state. An endpoint of datagrams, which is never connected,
	 * is open for receives, and by values of its own for datagrams, so that other posts are
	 * refused.
	 */
	_Atomic unsigned send_gate, recv_gate;
	_Atomic unsigned state; /* DAT_EP_STATE; written under ia->lock */
	/*
	 * dat_cr_accept has returned, so requests may be posted before the connection is
	 * established
	 */
	_Atomic bool accepted;
	struct tp_qp *qp;      /* NULL without a PZ */
	struct tp_cq *recv_cq; /* recv_evd->cq, if there is a qp */
	struct spinlock send_lock, recv_lock;
	bool thread_safe; /* fixed; posts take those locks */
	/* by enum req_kind: flags that take the slow path, for they have no effect */
	unsigned slow_flags[REQ_RECV + 1];
	unsigned fast_read_segments; /* a read of more takes the slow path */
	/* fixed; bytes of a message or an RDMA, the device's limit; at most TP_MAX_LENGTH */
	DAT_VLEN max_transfer;
	/*
	 * By enum req_kind: the bytes of a fast post of so many segments; 0: there may be none.
	 * Those of reads follow the state.
	 */
	DAT_VLEN limits[REQ_RECV + 1][FEW_SEGMENTS + 1];
	bool signal_all; /* fixed; TP_CAP_SIGNAL_ALL */
	struct ring sends, recvs;
	DAT_EP_ATTR attr; /* what it really has */

	struct srq *srq;    /* fixed; held; NULL: it has receives of its own */
	struct pz *pz;	    /* held, may be NULL */
	struct pz *bind_pz; /* pz, if the request EVD takes binds, else NULL */
	/* for completions: the consumer's or the IA's sink; may be NULL without a PZ */
	struct evd *recv_evd, *request_evd;
	struct evd *connect_evd; /* may be NULL */
	/* ia->lock; by role: the completions for which that EVD has room on its account */
	unsigned rooms[EVD_ROLES];
	unsigned modifiers; /* ia->lock; threads in dat_ep_modify, for which a free waits */
	bool modified;	    /* ia->lock; one of these has let go of that lock */

	struct ep_marker marker;
	struct ep_end end;
	struct ep_seen seen;
	struct work work; /* the data path saw something that step_locked has to look at */

	/* ia->lock */
	bool last_receive; /* of qp: all receives that it took from the SRQ have completed */
	bool broken_told;  /* an asynchronous event has told that this connection broke */
	/* of qp: the device may yet complete what was completed as flushed without it */
	bool late_completions;
	struct tp_conn *conn;
	unsigned events_reserved; /* slots of connect_evd, for this connection's events */
	struct timer timer;	  /* time-out of connect, of lingering, of draining */
	/* the consumer gave the number of RDMA reads, so a connection may not lower it */
	bool read_in_given, read_out_given;
	/* RDMA reads as asked for; attr has what the connection agreed on */
	DAT_COUNT read_in, read_out;
	struct sockaddr_storage local, remote; /* of the latest connection, ports set */
	struct ep_target target;
	void *private_data; /* the acceptor's; lives until reset or free */
	DAT_COUNT private_data_size;
	struct early_recvs early;
	bool posts_early;   /* a receive is being posted that takes recv_lock on any IA */
	bool renews_qp;	    /* ia->lock; dat_ep_reset has let go of that lock */
	bool datagrams;	    /* fixed; its service type is that of datagrams */
	struct peer *peers; /* ia->lock; of datagrams */
	struct counter counters[EP_ALL_COUNTERS];

#if DAT_EDITION == 2
	/* bytes of a fast write with immediate data, of one segment; 0: there may be none */
	DAT_VLEN immed_limit;
	/* bytes of an atomic operation, and 0 if there may be none; it follows limits[REQ_READ] */
	DAT_VLEN atomic_size;
#endif
};

#if DAT_EDITION == 2
/* A peer is an object of the kind that extensions have for themselves. */
#define PEER_KIND DAT_HANDLE_TYPE_EXTENSION_BASE

/* What an endpoint of datagrams knows of one that it sends to, see datagram2.c. */
struct peer {
	struct obj obj;
	struct ep *ep;		   /* fixed; it owns the peer */
	struct peer *next, **back; /* ia->lock; the others of the endpoint */
	struct tp_conn *conn;	   /* ia->lock; NULL: the exchange is over */
	struct tp_ah *ah;	   /* NULL: there is none yet, or not any more */
	bool active;		   /* fixed; this side has asked first */
	bool has_context;	   /* ia->lock; the consumer has not given it up */
	bool event_reserved;	   /* ia->lock; the event of the exchange is to come */
	struct timer timer;	   /* time-out of the exchange */
	DAT_SOCK_ADDR6 remote;	   /* fixed */
	void *private_data;	   /* ia->lock; what the event has brought */
	DAT_COUNT private_data_size;
};
#endif

/* Says whether it is an endpoint of datagrams, which DAT 1.2 does not have. */
static ALWAYS_INLINE bool ep_has_datagrams(const struct ep *ep)
{
	return DAT_EDITION == 2 && ep->datagrams;
}

/* Counts one more of that. */
static inline void ep_counts(struct ep *ep, enum ep_counter counter)
{
	counter_add(&ep->counters[counter], 1);
}

/* Returns what a gate is at, with the order that the second look of a post needs. */
static ALWAYS_INLINE unsigned gate_value(const _Atomic unsigned *gate)
{
	return hot_load(unsigned, gate);
}

static inline bool gate_open(const _Atomic unsigned *gate)
{
	return gate_value(gate) == EP_OPEN;
}

/* Returns the state, DAT_EP_STATE. It is sequentially consistent against ring_push, see there. */
static inline unsigned ep_state(const struct ep *ep)
{
	return atomic_load_explicit(&ep->state, memory_order_seq_cst);
}

/*
 * Says whether requests go to the queue before the connection is established, which they do after
 * dat_cr_accept: a server that polls its memory sees the peer's write before the event ESTABLISHED,
 * and answers at once.
 */
static inline bool ep_takes_early_requests(const struct ep *ep)
{
	return ep_state(ep) == DAT_EP_STATE_COMPLETION_PENDING && atomic_load(&ep->accepted);
}

/*
 * Corrects a marker after a race: a post finds on its way out that the connection is ending. If a
 * marker was posted meanwhile it does not cover the newest request of @ring, which may have been
 * claimed before it and posted after it. The poster calls this, with request_evd->lock held if
 * @ring is sends.
 */
void ep_marker_race(struct ep *ep, const struct ring *ring);
/*
 * Completes as flushed, on an endpoint that is disconnected, what was posted while it became so.
 * Returns false if there was no memory for that. ia->lock is held.
 */
bool ep_flush_late_locked(struct ep *ep);

/* What a post gets from the judgement of its endpoint's state, if that is disconnected. */
#define TO_BE_FLUSHED ((DAT_RETURN)(DAT_CLASS_WARNING | 1))
/* The status of a call with which nothing is wrong, so that it posts. No call returns it. */
#define PROCEED ((DAT_RETURN)DAT_CLASS_WARNING)

/*
 * A bind is a request like the others, posted from bind.c on a thread of the consumer. Between
 * ep_post_begin and ep_post_end the lock of the posts is held, if they take one. When then the
 * state lets it proceed, and there is room, or ring_has_room and the gate is open, ep_claim_bind
 * takes the next slot, and ep_posted checks the result of the post and returns that of the call.
 */
void ep_post_begin(struct ep *ep);
void ep_post_end(struct ep *ep);
/*
 * Says why no request can be posted in the state of @ep, or TO_BE_FLUSHED, or PROCEED. The poster
 * calls this: until ep_post_end no thread resets the endpoint. If the connection ends meanwhile,
 * that flushes what is posted.
 */
DAT_RETURN ep_request_judge(const struct ep *ep);
/* Says whether there is room in the ring of requests. The poster calls this. */
bool ep_has_room(struct ep *ep);
struct req *ep_claim_bind(struct ep *ep, struct binding *binding, DAT_RMR_COOKIE cookie,
			  DAT_COMPLETION_FLAGS flags);
DAT_RETURN ep_posted(struct ep *ep, int err);
/*
 * Returns the state as posts of requests see it: for them early and ending connections may be up.
 */
DAT_EP_STATE ep_request_state(const struct ep *ep);
/*
 * Completes @req at once as flushed, because its endpoint is disconnected. No lock is held. Returns
 * DAT_SUCCESS, or that there is no memory.
 */
DAT_RETURN ep_complete_flushed(const struct req *req);
/*
 * Returns those of @flags that have no effect: all but @plain ones, and UNSIGNALLED if the endpoint
 * was @configured so. Programs pass them, and every provider has ignored them.
 */
DAT_COMPLETION_FLAGS ep_ignored_flags(DAT_COMPLETION_FLAGS flags, unsigned plain,
				      DAT_COMPLETION_FLAGS configured);
/* Writes a line of the log that says so, if there are any. No lock of posts is held. */
void ep_tell_ignored(DAT_COMPLETION_FLAGS flags, DAT_COMPLETION_FLAGS ignored);

/*
 * Sets what follows from the attributes for posts. Nobody posts: the endpoint is made, or modified
 * with ia->lock held.
 */
void ep_init_posts(struct ep *ep);
/*
 * Sets limits[REQ_READ]. ia->lock is held, or the endpoint is not visible yet, and the gate is
 * closed: while it is open the limits do not change.
 */
void ep_limit_reads(struct ep *ep);
/* Says whether the endpoint is connected, may be any moment, or was. */
bool ep_has_been_connected(const struct ep *ep);
/*
 * Makes room for early receives, if the endpoint has not been connected. Returns false if there is
 * no memory. recv_lock held.
 */
bool ep_room_to_remember(struct ep *ep);
/*
 * Remembers a receive of @nsge segments, those in the array of its ring, that was posted to an
 * endpoint which was not connected, if there is room. recv_lock held.
 */
void ep_remember_recv(struct ep *ep, unsigned nsge, DAT_DTO_COOKIE cookie,
		      DAT_COMPLETION_FLAGS flags);

/* What changes the state. The table of moves in conn.c says how. */
enum trigger {
	ON_CONNECT,
	ON_RESERVE, /* an RSP listens for it */
	ON_UNRESERVE,
	ON_REQUEST,	 /* a request arrived for it, or it was made for one */
	ON_REQUEST_LOST, /* the consumer can't be told of that request */
	ON_REJECT,
	ON_ACCEPT,     /* named by the consumer */
	ON_ACCEPT_OWN, /* the endpoint that a request brings */
	ON_ESTABLISHED,
	ON_PEER_REJECTED,
	ON_NON_PEER_REJECTED,
	ON_UNREACHABLE,
	ON_PEER_GONE,
	ON_FAULT, /* a transfer or the transport failed */
	ON_TIMEOUT,
	ON_ABRUPT,
	ON_GRACEFUL,
	ON_IDLE, /* a graceful disconnect: the last request has completed */
	ON_RESET,
	ON_FREE,
	TRIGGERS,
};

/*
 * Returns DAT_SUCCESS if a call that is @trigger is legal in the state of @ep; otherwise the status
 * that names the state. Under ia->lock the answer stays true.
 */
DAT_RETURN ep_may(const struct ep *ep, enum trigger trigger);

/*
 * Does what the table of moves says for @trigger, unless the end event is known already. ia->lock
 * is held. The end of a connection may release its tp_conn.
 */
void ep_trigger_locked(struct ep *ep, enum trigger trigger);

/*
 * Breaks the connection, if there is one, because the device or the completion queue has failed.
 * ia->lock is held.
 */
void ep_break_locked(struct ep *ep);
/* A peer's request for a connection, or for the way to an endpoint of datagrams. */
struct ep_request {
	struct tp_conn *conn;
	bool datagrams;
	unsigned max_read_in, max_read_out; /* the peer's */
};

/*
 * Has the endpoint wait for the consumer's answer to a request, which has the addresses of @conn.
 * ia->lock is held.
 */
void ep_request_locked(struct ep *ep, const struct tp_conn *conn);
/*
 * Accepts @request with @ep, which takes over its connection on success. @own: the request has
 * brought the endpoint. Returns what dat_cr_accept does. ia->lock is held.
 */
DAT_RETURN ep_accept_locked(struct ep *ep, const struct ep_request *request, bool own,
			    const void *private_data, unsigned size);
/*
 * Destroys an endpoint, which is retired already, with its QP and rings. It lets go of ia->lock,
 * because it waits for upcalls. dat_ep_free, dat_ia_close and answers to requests call this.
 */
void ep_destroy_relock(struct ep *ep);
/*
 * Makes an invisible endpoint for a request, without zone and EVDs, which the consumer sets before
 * it accepts. Returns DAT_SUCCESS, or that there is no memory. ia->lock is held.
 */
DAT_RETURN ep_new_tentative_locked(struct ia *ia, const struct ep_request *request, struct ep **ep);
/*
 * Frees an endpoint that was never shown to the consumer, and all that ep_make_relock made of one
 * but the QP, which it does not have, or not any more. ia->lock is held.
 */
void ep_discard_locked(struct ep *ep);

/* The queue pair of a visible endpoint is in error, or its completions are lost. */
void ep_qp_broken_locked(struct ep *ep);

/* Closes the gates, in the child after a fork. */
void ep_after_fork(struct ep *ep);

/*
 * ---- calls ----
 *
 * Each is the call dat_* of its name, and returns what the manual page of that says. The provider
 * table has them: libdat calls them on any thread of the consumer, without a lock, or on the
 * service thread in a proxy agent.
 */

DAT_RETURN ep_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,
		     DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd,
		     const DAT_EP_ATTR *attr, DAT_EP_HANDLE *ep);
DAT_RETURN ep_query(DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask, DAT_EP_PARAM *param);
DAT_RETURN ep_modify(DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask, const DAT_EP_PARAM *param);
DAT_RETURN ep_get_status(DAT_EP_HANDLE ep, DAT_EP_STATE *state, DAT_BOOLEAN *recv_idle,
			 DAT_BOOLEAN *request_idle);
DAT_RETURN ep_connect(DAT_EP_HANDLE ep, DAT_IA_ADDRESS_PTR remote, DAT_CONN_QUAL qual,
		      DAT_TIMEOUT timeout, DAT_COUNT private_data_size,
		      const DAT_PVOID private_data, DAT_QOS qos, DAT_CONNECT_FLAGS flags);
DAT_RETURN ep_dup_connect(DAT_EP_HANDLE ep, DAT_EP_HANDLE other, DAT_TIMEOUT timeout,
			  DAT_COUNT private_data_size, const DAT_PVOID private_data, DAT_QOS qos);
DAT_RETURN ep_disconnect(DAT_EP_HANDLE ep, DAT_CLOSE_FLAGS flags);
DAT_RETURN ep_reset(DAT_EP_HANDLE ep);
DAT_RETURN ep_free(DAT_EP_HANDLE ep);
DAT_RETURN ep_post_send(DAT_EP_HANDLE ep, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov,
			DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags);
DAT_RETURN ep_post_recv(DAT_EP_HANDLE ep, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov,
			DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags);
DAT_RETURN ep_post_rdma_read(DAT_EP_HANDLE ep, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov,
			     DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
			     DAT_COMPLETION_FLAGS flags);
DAT_RETURN ep_post_rdma_write(DAT_EP_HANDLE ep, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov,
			      DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
			      DAT_COMPLETION_FLAGS flags);
#if DAT_EDITION == 2
DAT_RETURN ep_post_send_with_invalidate(DAT_EP_HANDLE ep, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov,
					DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags,
					DAT_BOOLEAN invalidate, DAT_RMR_CONTEXT context);
/* The posts of dat_extension_op: as dat_ib_post_rdma_write_immed and so on. */
DAT_RETURN ep_post_write_immed(DAT_EP_HANDLE ep, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
			       DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
			       DAT_UINT32 immed, DAT_COMPLETION_FLAGS flags);
DAT_RETURN ep_post_fetch_add(DAT_EP_HANDLE ep, DAT_UINT64 add, const DAT_LMR_TRIPLET *iov,
			     DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
			     DAT_COMPLETION_FLAGS flags);
DAT_RETURN ep_post_cmp_swap(DAT_EP_HANDLE ep, DAT_UINT64 compare, DAT_UINT64 swap,
			    const DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
			    const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags);
#endif
DAT_RETURN ep_recv_query(DAT_EP_HANDLE ep, DAT_COUNT *nbufs, DAT_COUNT *span);
DAT_RETURN ep_set_watermark(DAT_EP_HANDLE ep, DAT_COUNT soft, DAT_COUNT hard);
DAT_RETURN ep_create_with_srq(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,
			      DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd,
			      DAT_SRQ_HANDLE srq, const DAT_EP_ATTR *attr, DAT_EP_HANDLE *ep);
DAT_RETURN srq_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_SRQ_ATTR *attr, DAT_SRQ_HANDLE *srq);
DAT_RETURN srq_free(DAT_SRQ_HANDLE srq);
DAT_RETURN srq_query(DAT_SRQ_HANDLE srq, DAT_SRQ_PARAM_MASK mask, DAT_SRQ_PARAM *param);
DAT_RETURN srq_resize(DAT_SRQ_HANDLE srq, DAT_COUNT max_recv_dtos);
DAT_RETURN srq_set_lw(DAT_SRQ_HANDLE srq, DAT_COUNT low_watermark);
DAT_RETURN srq_post_recv(DAT_SRQ_HANDLE srq, DAT_COUNT nseg, DAT_LMR_TRIPLET *iov,
			 DAT_DTO_COOKIE cookie);
#if DAT_EDITION == 2
/* Those of dat_extension_op: as dat_ib_post_send_ud, dat_ib_ud_cm_free and dat_ib_ud_ah_free. */
DAT_RETURN ep_post_datagram(DAT_EP_HANDLE ep, DAT_COUNT nseg, const DAT_LMR_TRIPLET *iov,
			    const DAT_IB_ADDR_HANDLE *ah, DAT_DTO_COOKIE cookie,
			    DAT_COMPLETION_FLAGS flags);
DAT_RETURN ep_free_context(DAT_EP_HANDLE ep, DAT_CONTEXT context);
DAT_RETURN ep_free_ah(DAT_EP_HANDLE ep, const DAT_IB_ADDR_HANDLE *ah);
DAT_RETURN rmr_bind(DAT_RMR_HANDLE rmr, DAT_LMR_HANDLE lmr, const DAT_LMR_TRIPLET *triplet,
		    DAT_MEM_PRIV_FLAGS priv, DAT_VA_TYPE va_type, DAT_EP_HANDLE ep,
		    DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags, DAT_RMR_CONTEXT *context);
#else
DAT_RETURN rmr_bind(DAT_RMR_HANDLE rmr, const DAT_LMR_TRIPLET *triplet, DAT_MEM_PRIV_FLAGS priv,
		    DAT_EP_HANDLE ep, DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags,
		    DAT_RMR_CONTEXT *context);
#endif

#endif
