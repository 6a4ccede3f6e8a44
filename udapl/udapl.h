/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every private struct of the core, the lock order, and what guards what: read this file first.
 *
 * Locks, outermost first:
 *	ia->lock	mutex; connection management: EP states, service points, connection requests, timers, which EVD
 *			has which roles and CNO. The service thread takes it for each thing it handles.
 *	lock		mutex (shared.c); cookies. A leaf.
 *	ia->sweeping	mutex; what binds have left behind goes from the device. Taken with no other lock held.
 *	ep->send_lock	spin, and recv_lock likewise; claim and post of one direction, on a thread-safe IA
 *	evd->lock	spin; the event queue, and polling of its completion queue. The hot path takes this one only.
 *	rmr->lock	spin; what a window is bound to. Taken after any send_lock or evd->lock.
 *	ia->lmr_lock	spin; the live LMRs by context, and what binds have left behind. A leaf.
 *	cno->lock	spin; the latch.
 *	kind->lock	spin (object.c); the dead slots of one kind. A leaf.
 *	service->lock	spin; the list of work for the service thread. A leaf.
 * No tp_* call is made under a spinlock but tp_cq_poll, the posts and tp_mw_rewind.
 *
 * A connection changes its state under ia->lock only, in a consumer's call or on the service
 * thread. The data path reads the state as one atomic word, and tells the service thread what it
 * saw (a failed completion, the last request of a connection that ends) through service_kick, which
 * is legal under any lock.
 */
#ifndef UDAPL_UDAPL_H
#define UDAPL_UDAPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <dat/udat.h>
#include <dat/udat_redirection.h>
#include <dat/dat_registry.h>

#include "log.h"
#include "object.h"
#include "lock.h"
#include "ring.h"
#include "thread.h"
#include "transport.h"

/* Status: class, type and subtype of a failure. */
#define DAT_ERROR(type, subtype)                                                                   \
	((DAT_RETURN)(DAT_CLASS_ERROR | (DAT_RETURN)(type) | (DAT_RETURN)(subtype)))
#define BAD_HANDLE(kind)  DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_##kind)
#define BAD_ARG(n)	  DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG##n)
#define BAD_STATE(what)	  DAT_ERROR(DAT_INVALID_STATE, DAT_INVALID_STATE_##what)
#define NO_RESOURCE(what) DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_##what)

#define MEMORY_RETRY UINT64_C(10000000)

/*
 * status.c: a negative errno of the transport to DAT; @resource is what could not be made. 0 is
 * DAT_SUCCESS.
 */
DAT_RETURN status_of(int err, DAT_RETURN_SUBTYPE resource);
/* DAT_INVALID_STATE with the subtype that names it */
DAT_RETURN status_of_ep_state(DAT_EP_STATE state);

/* ---- provider.c: the names that dat_provider_init announced ---- */

/* One IA name. Never freed: handles, stale ones too, lead to its table. */
struct provider {
	DAT_PROVIDER table; /* device_name is info.ia_name; extension leads back here */
	DAT_PROVIDER_INFO info;
	char *params; /* the provider list's lock; the IA params of dat.conf */
	/* the provider list's lock; between dat_provider_init and dat_provider_fini */
	bool announced;
	struct provider *next;
};

/* The announced name that an ia_open is for, and a copy of its IA params that the caller frees. */
DAT_RETURN provider_find(const char *name, bool thread_safe, struct provider **provider,
			 char **params);

/* ---- async.c: the one thread of an IA ---- */

struct work {
	struct work *next; /* service->lock */
	bool queued;	   /* service->lock */
	bool unlocked;	   /* run without ia->lock: calls into the consumer */
	void (*run)(struct work *);
};

struct timer {
	uint64_t deadline; /* tp_now() clock; 0 = not set */
	struct timer *next, *prev;
	void (*run)(struct timer *); /* with ia->lock held */
};

struct service {
	pthread_t thread;
	bool started;
	/* holds wake, the device's descriptor, completion channels that nobody else owns */
	int epoll;
	int wake; /* eventfd: work, an earlier timer, stop */
	struct spinlock lock;
	struct work *work, **work_end; /* lock */
	struct work *running;	       /* lock; the unlocked one under way */
	bool stop;		       /* lock */
	struct timer *first, *last;    /* ia->lock; earliest first */
};

int service_start(struct ia *ia);
void service_stop(struct ia *ia); /* joins; not under ia->lock */

bool service_is_me(const struct ia *ia); /* on the service thread, e.g. in a proxy agent? */

/* Has the service thread run @work once, soon. Any thread, any lock. Queued already: nothing. */
void service_kick(struct ia *ia, struct work *work);
/*
 * From return on it is neither queued nor running. ia->lock held, unless it is unlocked work: then
 * not held.
 */
void service_forget(struct ia *ia, struct work *work);

/* ia->lock held for all three. */
void timer_set(struct ia *ia, struct timer *timer, uint64_t deadline, void (*run)(struct timer *));
void timer_cancel(struct ia *ia, struct timer *timer);

/*
 * Who sleeps on an EVD's completion channel: the service thread, or (lent) the thread in
 * dat_evd_wait.
 */
int service_watch(struct ia *ia, struct evd *evd);
void service_unwatch(struct ia *ia, struct evd *evd);
void service_lend(struct ia *ia, struct evd *evd);
void service_take_back(struct ia *ia, struct evd *evd);

/* ---- ia.c ---- */

#define LMR_CHAINS 1024 /* a power of two; a cache of registrations holds thousands */

struct ia {
	struct obj obj;
	struct provider *provider;
	bool thread_safe; /* posts to one endpoint may come from several threads */
	/* opened under an RO_AWARE_ name: plain VIRTUAL memory may be ordered weakly */
	bool ro_aware;
	struct tp_dev *dev;
	const struct tp_attr *attr;
	struct mutex lock;
	pthread_cond_t left; /* lock; a waiter has left an EVD or CNO that is going away */
	struct service service;
	struct evd *async_evd;	  /* made by open; NULL if it was borrowed or is out of scope */
	struct evd *borrowed;	  /* async EVD of another instance; ia.c says what guards it */
	struct ia *next_borrower; /* likewise */
	/*
	 * lock; takes the completions of endpoints that have no EVD for them; made when first
	 * needed
	 */
	struct evd *sink;
	struct spinlock lmr_lock;
	struct lmr *lmrs[LMR_CHAINS];		    /* lmr_lock; the live ones by context */
	struct binding *leftovers, **leftovers_end; /* lmr_lock; see rmr_sweep */
	/* leftovers that are not gone yet, those in the hands of a sweeper among them */
	_Atomic unsigned leaving;
	struct mutex sweeping;
};

/* An asynchronous error to all who watch this IA. ia->lock held. */
void ia_async_event(struct ia *ia, DAT_EVENT_NUMBER number, DAT_HANDLE handle, DAT_COUNT reason);

/* attr.c */
void attr_ia(const struct ia *ia, DAT_IA_ATTR *attr);
void attr_provider(const struct ia *ia, DAT_PROVIDER_ATTR *attr);
void attr_ep_default(const struct ia *ia, DAT_EP_ATTR *attr);
/*
 * Checks what a consumer asked for and fills in what it left open. @bad is the status of a value
 * out of range.
 */
DAT_RETURN attr_ep_check(const struct ia *ia, const DAT_EP_ATTR *asked, DAT_RETURN bad,
			 DAT_EP_ATTR *attr);

/* ---- evd.c, events.c ---- */

struct queued {
	DAT_EVENT event;
	bool notify; /* ends a wait, triggers the CNO */
};

/* A circle of events that grows; count of them from head on. */
struct event_q {
	struct queued *slots;
	unsigned size, head, count; /* size is a power of two */
};

enum evd_role {
	EVD_ROLE_RECV,
	EVD_ROLE_REQUEST,
	EVD_ROLE_CONNECT,
	EVD_ROLES,
};

enum hurdle {
	NO_CQ = 1 << 0,	  /* fixed */
	WAITING = 1 << 1, /* a thread sleeps in dat_evd_wait: nobody else may take events */
	UNWAITABLE = 1 << 2,
	DYING = 1 << 3,	    /* abrupt close */
	LEFTOVERS = 1 << 4, /* rmr_sweep first, then the consumer may hear of the bind */
};

struct evd {
	struct obj obj;
	DAT_EVD_FLAGS flags; /* fixed */
	bool is_sink;	     /* fixed; events are dropped */
	struct tp_cq *cq;    /* fixed; NULL without DTO and RMR_BIND */
	struct spinlock lock;
	unsigned hurdles;     /* lock; enum hurdle: why dequeue or wait can't just poll */
	bool fired;	      /* lock; what arrived ends the waiter's sleep */
	bool enabled;	      /* lock */
	DAT_COUNT qlen;	      /* lock; what the consumer may use */
	DAT_COUNT threshold;  /* lock; of the waiter */
	struct event_q queue; /* lock */
	/* lock; queued events of the streams that qlen limits: software, CR, asynchronous */
	unsigned bounded;
	unsigned notifying; /* lock; queued events that notify */
	unsigned promised;  /* lock; slots kept free for connection events to come */
	/*
	 * lock; slots kept free for flushes: outstanding transfers of all attached roles, at most
	 */
	unsigned dto_depth;
	/* lock; an asynchronous event was dropped and that was not reported yet */
	bool overflowed;
	int wake;	 /* eventfd: the waiter's, for everything that is not a completion */
	struct cno *cno; /* ia->lock and lock */
	/* ia->lock; DAT_EVD_STATE_CONFIG_* of the attached roles, 0 while there are none */
	unsigned config;
	unsigned roles[EVD_ROLES]; /* ia->lock; how many endpoints use it as what */
	/* ia->lock and lock; endpoints whose end is awaited here: arm fully */
	unsigned drains;
};

static inline bool evd_takes_binds(const struct evd *evd)
{
	return !evd->is_sink && evd->flags & DAT_EVD_RMR_BIND_FLAG;
}

/*
 * Roles of endpoints. ia->lock held. attach checks flags and configuration, makes room, and takes a
 * use.
 */
DAT_RETURN evd_attach(struct evd *evd, enum evd_role role, const DAT_EP_ATTR *attr,
		      DAT_RETURN clash);
void evd_detach(struct evd *evd, enum evd_role role, const DAT_EP_ATTR *attr);

/* Keeps @n more slots for connection events, so that evd_post_promised can't fail. */
int evd_promise(struct evd *evd, unsigned n);
void evd_unpromise(struct evd *evd, unsigned n);
void evd_post_promised(struct evd *evd, const DAT_EVENT *event);
/* An event of a stream that qlen limits. -ENOSPC: full, -ENOENT: going away. */
int evd_post_bounded(struct evd *evd, const DAT_EVENT *event);

/* Moves completions into the queue, waking who waits. False: no memory, some stayed behind. */
bool evd_drain(struct evd *evd);
/* Completes as flushed what is still in @ring, in order. False: no memory, some stayed behind. */
bool evd_flush(struct evd *evd, struct ring *ring);
/* A request that was never posted, so in no ring, completes as flushed. False: no memory. */
bool evd_post_flushed(struct evd *evd, const struct req *req);
/* The longest queue a consumer may ask for. */
DAT_COUNT evd_max_qlen(const struct ia *ia);
/* Empties the completion queue; drops what belongs to @ep, whose QP is gone, and keeps the rest. */
void evd_forget_ep(struct evd *evd, const struct ep *ep);
/* An endpoint's end is awaited on @evd, or no longer: every completion matters. ia->lock held. */
void evd_watch_drain(struct evd *evd, bool on);
/* The service thread found the channel readable. ia->lock held. */
void evd_channel_ready(struct evd *evd);
/* Arms for what matters now. */
void evd_rearm(struct evd *evd);
/*
 * Makes room for @extra events beyond what is reserved. evd->lock held, but let go on the way: look
 * again.
 */
bool evd_make_room(struct evd *evd, unsigned extra);
/* Gets the thread in dat_evd_wait to look why. evd->lock held. */
void evd_wake(struct evd *evd);
/* Events that came while nobody was told of them: the CNO hears once. */
void evd_trigger_backlog(struct evd *evd);
/* ia->lock held. */
DAT_RETURN evd_set_qlen(struct evd *evd, DAT_COUNT qlen);

/* Everything but publishing; for ia.c too (async EVD, sink). ia->lock held. */
DAT_RETURN evd_make(struct ia *ia, DAT_COUNT qlen, struct cno *cno, DAT_EVD_FLAGS flags,
		    struct evd **evd);
void evd_unmake(struct evd *evd);
/*
 * Abrupt close: wakes the waiter and waits until it has left. ia->lock held (and let go meanwhile).
 */
void evd_kill(struct evd *evd);
/* The private EVD of @ia that drops events. ia->lock held. */
DAT_RETURN evd_sink(struct ia *ia, struct evd **evd);

/* ---- cno.c ---- */

struct sleeper;

struct cno {
	struct obj obj;
	struct spinlock lock;
	struct evd *latched; /* lock; the first trigger since the last delivery */
	/* lock; threads in dat_cno_wait that nobody has woken yet, oldest first */
	struct sleeper *sleepers;
	unsigned waiters; /* lock; threads in dat_cno_wait */
	/* lock; counts the times that all waiters were sent home without an EVD */
	unsigned released;
	bool dying;		       /* lock; abrupt close */
	unsigned evds;		       /* ia->lock; how many EVDs refer to it */
	DAT_OS_WAIT_PROXY_AGENT agent; /* lock; one-shot */
	bool agent_due;		       /* lock; it is to be called */
	struct evd *agent_evd;	       /* lock; what the due agent is to be told */
	struct work work;	       /* runs the agent on the service thread, unlocked */
};

/* evd->lock held. */
void cno_trigger(struct cno *cno, struct evd *evd);
/* Would a trigger change anything? If not, its EVDs need no interrupt. */
bool cno_wants(struct cno *cno);
void cno_attach(struct cno *cno); /* ia->lock held; takes a use */
/* @freed: the EVD is going away; the last one releases the waiters. ia->lock held. */
void cno_detach(struct cno *cno, struct evd *evd, bool freed);
void cno_kill(struct cno *cno); /* abrupt close; ia->lock held (and let go meanwhile) */
void cno_unmake(struct cno *cno);

/* ---- pz.c, lmr.c, shared.c ---- */

struct pz {
	struct obj obj;
	struct tp_pd *pd;
};

/* Fixed while it is alive. */
struct lmr {
	struct obj obj;
	struct lmr *next;      /* ia->lmr_lock; in its chain */
	struct pz *pz;	       /* held */
	struct pz *window_pz;  /* where windows can be bound to it: pz, or NULL */
	unsigned window_never; /* privileges that no window on it can give */
	struct tp_mr *mr;
	struct tp_mr_info info;
	struct cookie *cookie; /* used; NULL but for SHARED_VIRTUAL */
	DAT_MEM_TYPE type;
	DAT_REGION_DESCRIPTION region;
	DAT_VADDR address, last; /* first and last byte, as asked, as are the next two */
	DAT_VLEN length;
	DAT_MEM_PRIV_FLAGS priv;
};

void pz_unmake(struct pz *pz);
void lmr_unmake(struct lmr *lmr);
/* The live LMR of that context, held; NULL if there is none. */
struct lmr *lmr_hold(struct ia *ia, DAT_LMR_CONTEXT context);
/* Does the segment have a byte, and none that was not asked for? */
static inline bool lmr_covers(const struct lmr *lmr, const DAT_LMR_TRIPLET *segment)
{
	DAT_VADDR first = segment->virtual_address, last = first + segment->segment_length - 1;

	return lmr->address <= first && first <= last && last <= lmr->last;
}

/* Bytes of this process, at least one. */
struct span {
	char *address;
	size_t length;
};

/* What the system says of a span. */
enum mapping {
	MAPPING_UNKNOWN,
	MAPPING_HOLES,	  /* not all of it can be read */
	MAPPING_READONLY, /* not all of it can be written */
	MAPPING_WRITABLE,
};
enum mapping mapping_of(const struct span *span);

/* The name of shared memory: a copy of it that lives as long as it is used. */
struct cookie;

/*
 * A use of @bytes for @span. DAT_INVALID_STATE: it is not shared memory, or others use them for
 * something else.
 */
DAT_RETURN cookie_get(DAT_LMR_COOKIE bytes, const struct span *span, struct cookie **cookie);
void cookie_put(struct cookie *cookie);
DAT_LMR_COOKIE cookie_bytes(struct cookie *cookie);

/* ---- rmr.c ---- */

/* What a window is bound to, or will be when the bind completes; NULL for an LMR: to nothing. */
struct binding {
	struct rmr *rmr;
	/* rmr->lock; posted after this one; or (ia->lmr_lock) another leftover */
	struct binding *next;
	struct binding *spare; /* rmr->lock; another spare one */
	struct lmr *lmr;       /* held */
	DAT_VADDR address;
	DAT_VLEN size;
	DAT_MEM_PRIV_FLAGS priv;
	/* rmr->lock; the window's own after this bind, whether it is bound or not */
	DAT_RMR_CONTEXT key;
	bool done;	      /* rmr->lock; the bind has completed */
	struct tp_mr *region; /* the range, registered by itself, where no window can be had */
	DAT_RMR_CONTEXT region_key;
	struct tp_mw *mw; /* of a leftover: a window that has to go */
	struct pz *pz;	  /* of a leftover: held, for these two */
	bool last;	  /* of a leftover: its RMR goes with it */
};

struct rmr {
	struct obj obj;
	struct pz *pz; /* held */
	struct spinlock lock;
	/* lock; NULL: the device has none, or it went with a failed bind */
	struct tp_mw *mw;
	/* lock; as posted, never empty: the last one done is in force */
	struct binding *bindings, *latest;
	struct binding *spares; /* lock; for the light way: none without a window */
	struct binding none;	/* lock; in force at first, and after a bind that failed */
	bool freed;		/* lock; the last bind in flight takes it down */
};

/*
 * The bind is over; what it replaces, or was to be, goes. Takes rmr->lock. True: not all of it
 * could go under a spinlock; rmr_sweep must be called before the consumer hears of the bind.
 */
bool rmr_settle(struct binding *binding, DAT_DTO_COMPLETION_STATUS status);
/*
 * Takes from the device what binds that are over have left. May block. Peers have lost it on
 * return: if another thread is sweeping just now we wait for that.
 */
void rmr_sweep(struct ia *ia);
/* likewise, but all of it, whatever the device says: for ia_close */
void rmr_abandon(struct ia *ia);
void rmr_unmake(struct rmr *rmr); /* retired already */

/* ---- ep.c, post.c ---- */

/*
 * state is the DAT state, written under ia->lock, sequentially consistent against ring_push. An
 * endpoint that ends goes through ep_end: the verdict (the terminal event) stands, the QP is put
 * into error, the rings drain, and ep_finish completes what is left, sets DISCONNECTED and posts
 * the event.
 */
#define EP_OPEN 0x0DA70FE9u /* no other object has this where an endpoint has its gates */

struct ep {
	struct obj obj;
	/*
	 * What the hot path asks first and last, in one word each: EP_OPEN while this is a live
	 * endpoint, nobody else posts to it, and a request may go to the transport (it is
	 * connected), or a receive may (there is a QP, and no connection ends). Anything else is
	 * looked at in detail. They follow the state.
	 */
	_Atomic unsigned send_gate, recv_gate;
	_Atomic unsigned state; /* DAT_EP_STATE */
	/* somebody waits for the rings to empty: kick at each completion */
	_Atomic unsigned watched;
	struct tp_qp *qp;		      /* NULL without a PZ */
	struct spinlock send_lock, recv_lock; /* claim and post, on a thread-safe IA */
	bool shared;			      /* fixed; take those locks */
	/* bytes of an RDMA read, 0 if there can be none; follows the state */
	DAT_VLEN read_limit;
	bool signal_all; /* fixed; TP_CAP_SIGNAL_ALL */
	struct ring sends, recvs;
	DAT_EP_ATTR attr; /* what it really has */

	struct pz *pz; /* held, may be NULL */
	/* fixed; pz, if the request EVD takes binds, else NULL */
	struct pz *bind_pz;
	/* where completions go: the consumer's or the IA's sink */
	struct evd *recv_evd, *request_evd;
	struct evd *connect_evd; /* may be NULL */

	/* request_evd->lock */
	struct req marker; /* the tag of the marker, which is in no ring */
	bool marked;	   /* it is in the QP */
	/* the newest request that it proves may have reached the QP after it, see ep_doubt */
	bool unsure;
	unsigned proves; /* its completion proves all requests before this position of sends */

	/* ia->lock */
	struct tp_conn *conn;
	DAT_EVENT_NUMBER verdict; /* of a connection that is ending; 0 = none */
	_Atomic bool parting;	  /* before the state; the consumer has asked for the end */
	/* it is by the peer's word, and a failure that is still to come may explain that */
	bool peer_gone;
	bool watching;	   /* both EVDs report every completion to us */
	unsigned promised; /* slots of connect_evd kept for this connection's events */
	/* connect time-out, cap of a graceful disconnect, cap of the drain */
	struct timer timer;
	struct work work;     /* the data path saw something */
	_Atomic bool fault;   /* a completion failed, not by flush */
	_Atomic bool flushed; /* a completion was flushed though nobody ended the connection */
	/* fixed; the consumer named its RDMA reads, so a connection may not lower them */
	bool reads_given;
	/* fixed; RDMA reads as made; attr has what the connection left of them */
	DAT_COUNT read_in, read_out;
	struct sockaddr_storage local, remote; /* of the latest connection, ports set */
	struct sockaddr_storage asked;	       /* where connect went; for dup_connect */
	DAT_CONN_QUAL asked_qual;
	DAT_CONNECT_FLAGS asked_flags;
	void *private_data; /* the acceptor's; lives until reset or free */
	DAT_COUNT private_data_size;
};

struct cr;

static inline bool gate_open(const _Atomic unsigned *gate)
{
	return atomic_load_explicit(gate, memory_order_seq_cst) == EP_OPEN;
}

static inline unsigned ep_state(const struct ep *ep)
{
	return atomic_load_explicit(&ep->state, memory_order_seq_cst);
}

/* A completion of @ep was out of the ordinary; any thread, evd->lock held. */
void ep_notice(struct ep *ep, const struct req *req, DAT_DTO_COMPLETION_STATUS status);
/*
 * A post finds on its way out that the connection is ending: if a marker was posted meanwhile it
 * does not prove the newest request of @ring, which may have been claimed before it and posted
 * after. request_evd->lock held, if @ring is sends.
 */
void ep_doubt(struct ep *ep, const struct ring *ring);
/*
 * Completes, on an endpoint that is disconnected, what was posted as it became so. False: no
 * memory. ia->lock held.
 */
bool ep_settle(struct ep *ep);
/*
 * A bind is a request like the others, posted from rmr.c. When begin says that there is room, or
 * ring_has_room and the gate is open, claim takes the next slot, and posted looks what became of
 * the post.
 */
bool ep_post_begin(struct ep *ep);
void ep_post_end(struct ep *ep);
struct req *ep_claim_bind(struct ep *ep, struct binding *binding, DAT_RMR_COOKIE cookie,
			  DAT_COMPLETION_FLAGS flags);
DAT_RETURN ep_posted(struct ep *ep, int err);
/* The state as requests see it. */
DAT_EP_STATE ep_request_state(const struct ep *ep);
/* What is posted to an endpoint that is disconnected completes as flushed at once. */
DAT_RETURN ep_flush_now(const struct req *req, struct evd *evd);
/* Has a request these flags? UNSIGNALLED is for endpoints that were made so. */
bool ep_flags_legal(const struct ep *ep, DAT_COMPLETION_FLAGS flags, unsigned plain);
/*
 * The device or the queue below failed: the connection, if there is one, is broken. ia->lock held.
 */
void ep_break(struct ep *ep);
/* Answers @cr with @ep, which takes over its connection on success. ia->lock held. */
DAT_RETURN ep_accept(struct ep *ep, const struct cr *cr, const void *private_data, unsigned size);
/*
 * Down to the QP and the rings, and nothing of it visible any more. For ia_close. ia->lock NOT
 * held.
 */
void ep_unmake(struct ep *ep);

/* ---- sp.c, cr.c ---- */

struct sp {
	struct obj obj; /* a PSP; later RSPs */
	DAT_CONN_QUAL conn_qual;
	DAT_PSP_FLAGS flags;
	struct evd *evd; /* held */
	struct tp_listener *listener;
};

struct cr {
	struct obj obj;
	struct tp_conn *conn;
	struct sp *sp; /* may be stale: the CR outlives it */
	struct sockaddr_storage remote;
	unsigned max_read_in, max_read_out; /* the peer's */
	DAT_COUNT private_data_size;
	char private_data[256]; /* the longest any transport brings */
};

/*
 * Connection qualifier to port, as OFED's cma provider has it; both ends must map alike. 0 for 0.
 */
uint16_t port_of_qual(DAT_CONN_QUAL qual);
uint16_t port_of_addr(const struct sockaddr_storage *addr); /* 0 where there is none */
void sp_unmake(struct sp *sp);				    /* ia->lock held */
void cr_unmake(struct cr *cr, bool by_consumer);	    /* ia->lock held; refuses the peer */

/* ---- the calls, as they stand in the provider table ---- */

DAT_RETURN ia_open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd,
		   DAT_IA_HANDLE *ia_out);
DAT_RETURN ia_open_threadsafe(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd,
			      DAT_IA_HANDLE *ia_out);
DAT_RETURN ia_close(DAT_IA_HANDLE handle, DAT_CLOSE_FLAGS flags);
DAT_RETURN ia_query(DAT_IA_HANDLE handle, DAT_EVD_HANDLE *async_evd, DAT_IA_ATTR_MASK ia_mask,
		    DAT_IA_ATTR *ia_attr, DAT_PROVIDER_ATTR_MASK provider_mask,
		    DAT_PROVIDER_ATTR *provider_attr);
DAT_RETURN context_set(DAT_HANDLE handle, DAT_CONTEXT context);
DAT_RETURN context_get(DAT_HANDLE handle, DAT_CONTEXT *context);
DAT_RETURN handle_type(DAT_HANDLE handle, DAT_HANDLE_TYPE *type);

DAT_RETURN evd_create(DAT_IA_HANDLE ia, DAT_COUNT qlen, DAT_CNO_HANDLE cno, DAT_EVD_FLAGS flags,
		      DAT_EVD_HANDLE *evd);
DAT_RETURN evd_free(DAT_EVD_HANDLE evd);
DAT_RETURN evd_query(DAT_EVD_HANDLE evd, DAT_EVD_PARAM_MASK mask, DAT_EVD_PARAM *param);
DAT_RETURN evd_modify_cno(DAT_EVD_HANDLE evd, DAT_CNO_HANDLE cno);
DAT_RETURN evd_enable(DAT_EVD_HANDLE evd);
DAT_RETURN evd_disable(DAT_EVD_HANDLE evd);
DAT_RETURN evd_set_unwaitable(DAT_EVD_HANDLE evd);
DAT_RETURN evd_clear_unwaitable(DAT_EVD_HANDLE evd);
DAT_RETURN evd_wait(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout, DAT_COUNT threshold, DAT_EVENT *event,
		    DAT_COUNT *nmore);
DAT_RETURN evd_dequeue(DAT_EVD_HANDLE evd, DAT_EVENT *event);
DAT_RETURN evd_post_se(DAT_EVD_HANDLE evd, const DAT_EVENT *event);
DAT_RETURN evd_resize(DAT_EVD_HANDLE evd, DAT_COUNT qlen);

DAT_RETURN cno_create(DAT_IA_HANDLE ia, DAT_OS_WAIT_PROXY_AGENT agent, DAT_CNO_HANDLE *cno);
DAT_RETURN cno_free(DAT_CNO_HANDLE cno);
DAT_RETURN cno_wait(DAT_CNO_HANDLE cno, DAT_TIMEOUT timeout, DAT_EVD_HANDLE *evd);
DAT_RETURN cno_modify_agent(DAT_CNO_HANDLE cno, DAT_OS_WAIT_PROXY_AGENT agent);
DAT_RETURN cno_query(DAT_CNO_HANDLE cno, DAT_CNO_PARAM_MASK mask, DAT_CNO_PARAM *param);

DAT_RETURN pz_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE *pz);
DAT_RETURN pz_query(DAT_PZ_HANDLE pz, DAT_PZ_PARAM_MASK mask, DAT_PZ_PARAM *param);
DAT_RETURN pz_free(DAT_PZ_HANDLE pz);

DAT_RETURN lmr_create(DAT_IA_HANDLE ia, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region,
		      DAT_VLEN length, DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS priv,
		      DAT_LMR_HANDLE *lmr, DAT_LMR_CONTEXT *lmr_context,
		      DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_size,
		      DAT_VADDR *registered_address);
DAT_RETURN lmr_query(DAT_LMR_HANDLE lmr, DAT_LMR_PARAM_MASK mask, DAT_LMR_PARAM *param);
DAT_RETURN lmr_free(DAT_LMR_HANDLE lmr);
DAT_RETURN lmr_sync_rdma_read(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *segments, DAT_VLEN nseg);
DAT_RETURN lmr_sync_rdma_write(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *segments, DAT_VLEN nseg);

DAT_RETURN ep_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,
		     DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd,
		     const DAT_EP_ATTR *attr, DAT_EP_HANDLE *ep);
DAT_RETURN ep_query(DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask, DAT_EP_PARAM *param);
DAT_RETURN ep_get_status(DAT_EP_HANDLE ep, DAT_EP_STATE *state, DAT_BOOLEAN *recv_idle,
			 DAT_BOOLEAN *request_idle);
DAT_RETURN ep_connect(DAT_EP_HANDLE ep, DAT_IA_ADDRESS_PTR remote, DAT_CONN_QUAL qual,
		      DAT_TIMEOUT timeout, DAT_COUNT private_data_size,
		      const DAT_PVOID private_data, DAT_QOS qos, DAT_CONNECT_FLAGS flags);
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
DAT_RETURN ep_recv_query(DAT_EP_HANDLE ep, DAT_COUNT *nbufs, DAT_COUNT *span);
DAT_RETURN ep_set_watermark(DAT_EP_HANDLE ep, DAT_COUNT soft, DAT_COUNT hard);

DAT_RETURN rmr_create(DAT_PZ_HANDLE pz, DAT_RMR_HANDLE *rmr);
DAT_RETURN rmr_query(DAT_RMR_HANDLE rmr, DAT_RMR_PARAM_MASK mask, DAT_RMR_PARAM *param);
DAT_RETURN rmr_bind(DAT_RMR_HANDLE rmr, const DAT_LMR_TRIPLET *triplet, DAT_MEM_PRIV_FLAGS priv,
		    DAT_EP_HANDLE ep, DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags,
		    DAT_RMR_CONTEXT *context);
DAT_RETURN rmr_free(DAT_RMR_HANDLE rmr);

DAT_RETURN psp_create(DAT_IA_HANDLE ia, DAT_CONN_QUAL qual, DAT_EVD_HANDLE evd, DAT_PSP_FLAGS flags,
		      DAT_PSP_HANDLE *psp);
DAT_RETURN psp_create_any(DAT_IA_HANDLE ia, DAT_CONN_QUAL *qual, DAT_EVD_HANDLE evd,
			  DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *psp);
DAT_RETURN psp_query(DAT_PSP_HANDLE psp, DAT_PSP_PARAM_MASK mask, DAT_PSP_PARAM *param);
DAT_RETURN psp_free(DAT_PSP_HANDLE psp);

DAT_RETURN cr_query(DAT_CR_HANDLE cr, DAT_CR_PARAM_MASK mask, DAT_CR_PARAM *param);
DAT_RETURN cr_accept(DAT_CR_HANDLE cr, DAT_EP_HANDLE ep, DAT_COUNT private_data_size,
		     const DAT_PVOID private_data);
DAT_RETURN cr_reject(DAT_CR_HANDLE cr);

#endif
