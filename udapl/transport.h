/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The seam between the core and a transport.
 *
 * Each provider library is the core plus exactly one transport, joined at link time: these are
 * plain calls. A transport knows DAT objects only as opaque pointers that it passes back; the core
 * knows neither verbs nor libfabric. Plain data of DAT (privileges, remote triplets, completion
 * status) crosses unchanged; local triplets are converted to struct tp_sge.
 *
 * Results. An int is 0 or a negative errno, but for that of a post. Outputs are written on success
 * only. A call that fails has changed nothing. No call waits for a peer.
 *
 * Threads and locks. Below stands for each call who makes it and with which locks:
 *	ia->lock	the calls on listeners, connections and the device's events, the making and
 *			the end of completion queues and shared receive queues, and the making of
 *			queue pairs (but tp_cq_create, and tp_qp_create without a shared receive
 *			queue, which may come without it). A consumer's call or the service thread
 *			makes them, one at a time. They may sleep, but not for long.
 *	a spinlock	polls, on threads of the consumer and on the service thread; posts, on
 *			threads of the consumer, if an IA is thread-safe, and otherwise without a
 *			lock. They do not sleep.
 *	other locks	arming and resizing a completion queue, resizing a shared receive queue.
 *	no lock		the rest, on threads of the consumer: memory, the end of a queue pair, the
 *			device as a whole.
 * Calls that are made with no lock in common may run at the same time.
 *
 * Upcalls (up_*, at the end) about connections, queue pairs, queues and the device are made from
 * tp_dev_progress and from no other call, so they run with ia->lock held. up_wake,
 * up_is_service_thread and up_assert_locked may be called on any thread, with any locks.
 *
 * Cancellation. The core has forbidden cancellation of the calling thread, but in polls for less
 * than TP_POLL_MAX, in fast posts, tp_srq_post and tp_post_bind. If one of those meets a
 * cancellation point, the transport forbids it itself; or, in a fast post of a request, leaves
 * nothing to be undone but by tp_post_cancelled.
 */
#ifndef UDAPL_TRANSPORT_H
#define UDAPL_TRANSPORT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <edition.h>

struct ia;
struct evd;
struct ep;
struct sp;
struct srq;
struct peer;

struct tp_dev;
struct tp_pd;
struct tp_mr;
struct tp_mw;
struct tp_cq;
struct tp_srq;
struct tp_qp;
struct tp_sge;
struct tp_listener;
struct tp_conn;
struct tp_ah;

/* The beginning of each line of the log: "libdaplcma". */
extern const char tp_library_name[];

/* ---- time: nanoseconds on a monotonic clock, which unit tests replace ---- */

#define TP_NEVER UINT64_MAX

/* Returns what the clock says. Any thread may call it, with any locks. */
uint64_t tp_now(void);

/*
 * Calls poll(2) until something is ready, and returns how many descriptors are; or 0 when the
 * deadline has passed; or -EINTR when a signal handler has run. Threads in dat_evd_wait and
 * dat_cno_wait sleep here. They hold no lock, and can be cancelled if their program allows it.
 */
int tp_poll(struct pollfd *fds, unsigned nfds, uint64_t deadline);
/*
 * Calls epoll_wait(2) in the same way, which leaves up to @max descriptors that are ready in
 * @events, and returns how many these are, or what tp_poll returns. The service thread sleeps here,
 * without a lock.
 */
int tp_epoll(int epoll, struct epoll_event *events, int max, uint64_t deadline);

/* ---- the device ---- */

enum {
	/* tp_cq_resize works on a queue that is in use */
	TP_CAP_CQ_RESIZE = 1 << 0,
	/* an unsignalled success can't be proved later, so the core signals everything */
	TP_CAP_SIGNAL_ALL = 1 << 1,
	/* the local buffer of an RDMA read needs the remote write privilege (iWARP) */
	TP_CAP_READ_NEEDS_WRITE = 1 << 2,
	/* a write that has completed is not yet placed at the peer (iWARP) */
	TP_CAP_WRITE_IS_LOCAL = 1 << 3,
	/* reads are executed in order, and tp_post_read takes no TP_POST_FENCE */
	TP_CAP_ORDERED_READS = 1 << 4,
	/* reads that are posted behind one that fails may never complete (soft-iWARP) */
	TP_CAP_LOSES_READS = 1 << 5,
	/* a queue pair and its shared receive queue may have different protection domains */
	TP_CAP_SRQ_ANY_PD = 1 << 6,
	/* an RDMA write may be seen before an earlier one, whatever a region was registered for */
	TP_CAP_RELAXED_ONLY = 1 << 7,
	/* no thread may be cancelled in a post of a request (soft-iWARP) */
	TP_CAP_UNCANCELLED_POSTS = 1 << 8,
	/* writes with immediate data: tp_post_write_immed */
	TP_CAP_IMMED = 1 << 9,
	/* atomic operations, tp_post_atomic, and the privilege of memory for them; DAT 2.0 only */
	TP_CAP_ATOMIC = 1 << 10,
	/* a registration pins no page, and touches none, because the user wants it so */
	TP_CAP_ON_DEMAND = 1 << 11,
	/* the first descriptor of tp_dev_fds is readable when data arrive, too */
	TP_CAP_DATA_BESIDE = 1 << 12,
	/* of DAT 2.0: tp_mr_reg_at can have regions whose first byte is at 0 */
	TP_CAP_ZERO_BASED = 1 << 16,
	/* windows can belong to a queue pair: tp_mw_create_for_qp */
	TP_CAP_QP_WINDOWS = 1 << 17,
	/* a message can invalidate such a window of its receiver: tp_post_send_invalidate */
	TP_CAP_INVALIDATE = 1 << 18,
};

/* What the device is and grants. Numbers are clamped to INT_MAX. */
struct tp_attr {
	char device[64];	      /* the system's name for it */
	char vendor[64];	      /* maker, as text */
	struct sockaddr_storage addr; /* the address of this IA, port 0 */
	unsigned hw_version, fw_major, fw_minor;
	unsigned caps;
	unsigned max_qp, max_qp_wr, max_cq, max_cqe, max_mr, max_pd;
	/* 0: it has no windows of a domain, tp_mw_create and tp_post_bind are never called */
	unsigned max_mw;
	unsigned max_srq; /* 0: it has no shared receive queues, tp_srq_create is never called */
	unsigned max_srq_wr, max_srq_sge;
	unsigned max_sge, max_read_sge;
	unsigned max_read_wr_sge; /* segments of one read work request; more take several */
	/* RDMA reads in flight per QP, as target and as originator */
	unsigned max_read_in, max_read_out;
	unsigned max_read_in_total; /* of the whole device */
	unsigned max_request_pdata; /* bytes of private data in a connection request */
	unsigned max_reply_pdata;   /* and in its answer, */
	unsigned max_reject_pdata;  /* or in a rejection */
	uint64_t max_mr_size;
	uint64_t max_message; /* the core posts no more than TP_MAX_LENGTH */
	/* bytes of a datagram; 0: it has none, and what is below "datagrams" is never called */
	unsigned max_datagram;
	/* as the two above, of endpoints of datagrams; a request holds max_request_pdata, too */
	unsigned max_datagram_reply_pdata, max_datagram_reject_pdata;
};

/*
 * Opens the device that @params names, which is the IA params field of dat.conf ("eth0 0",
 * "10.0.0.1 0", "mlx5_0 1", "host 0"). Returns -ENOENT if they name nothing that this host has, and
 * -EOPNOTSUPP if what they name can't do what DAT takes; the transport has logged the cause of any
 * failure. dat_ia_open calls this, without a lock. From now on the transport may call up_wake,
 * whose descriptors are open already, and no other upcall before tp_dev_progress is called.
 */
int tp_dev_open(const char *params, struct ia *ia, struct tp_dev **dev);
/*
 * Closes the device. All of its objects are destroyed, and the service thread has ended. The thread
 * of dat_ia_close calls this, or of dat_ia_open when that fails, without a lock. Until it returns
 * the transport may call up_wake.
 */
void tp_dev_close(struct tp_dev *dev);
/*
 * Gives up, in the child after a fork, what would keep connections of the parent alive after its
 * end. Nothing else of @dev is used in the child. It calls nothing that acts on the parent's
 * device. The child's only thread calls it, in the handler of pthread_atfork(3).
 */
void tp_dev_after_fork(struct tp_dev *dev);
/*
 * Returns, in the child after a fork, whether another thread was in a call that may hold a lock of
 * the libraries below for all devices: then a child that opens one could wait for ever. What is
 * called by tp_dev_open and tp_dev_close does not count, because libdat knows of those.
 */
bool tp_was_in_call(void);
/* Returns the attributes, which do not change until tp_dev_close. dat_ia_open calls this. */
const struct tp_attr *tp_dev_attr(const struct tp_dev *dev);

/* The port of the device, as DAT 2.0 describes it. */
struct tp_port {
	const char *provider; /* what manages connections: "CMA" of rdma_cm */
	const char *state;    /* "NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "DEFER" or "UNKNOWN" */
	uint8_t node_guid[8]; /* in network order; 0 without one */
	uint8_t gid[16];      /* the IPv4 address as one of IPv6, where there are no GIDs */
	unsigned mtu;	      /* bytes of a packet's payload */
	unsigned number;
	const char *own_name; /* of an attribute of the transport's own; NULL: it has none */
	char own_value[96];
};

/* Describes the port as it is now. Any thread, with any locks; it may sleep. */
void tp_dev_port(const struct tp_dev *dev, struct tp_port *port);

/*
 * Fills in the descriptors on which the service thread sleeps for the device, and returns how many
 * there are. The first one is the connection manager's. They stay the same until tp_dev_close.
 * dat_ia_open calls this before the service thread is started.
 */
#define TP_DEV_FDS 2
unsigned tp_dev_fds(const struct tp_dev *dev, int fds[TP_DEV_FDS]);
/*
 * Returns when tp_dev_progress is due even if no descriptor is readable; TP_NEVER: it is not. The
 * service thread asks each time before it sleeps, with ia->lock held. A call on another thread that
 * makes the deadline earlier than the last answer has to call up_wake; tp_dev_progress need not.
 */
uint64_t tp_dev_deadline(const struct tp_dev *dev);
/*
 * Returns whether the service thread is to poll its descriptors until that deadline, and not to
 * sleep, because something is expected at once. It asks after tp_dev_deadline.
 */
bool tp_dev_busy_polls(const struct tp_dev *dev);
/*
 * Takes the events of the device, does what is due by time, and makes the upcalls that follow.
 * @ready has a bit for each descriptor that is readable or in error, in the order of tp_dev_fds.
 * With the first bit it takes an event of the connection manager, if there is one. With
 * TP_ONLY_READY it may leave alone what is due, if nothing is readable after all. Returns whether
 * what it did led to a step on this host, whose event may be there at once.
 *
 * ia->lock is held. The service thread calls this when a descriptor is readable or in error, when
 * the deadline has passed, and after up_wake; a consumer's call that connects, accepts or
 * disconnects, or that waits for an event of a connection, does so, too (core/attend.c).
 */
#define TP_ONLY_READY (1u << TP_DEV_FDS)
bool tp_dev_progress(struct tp_dev *dev, unsigned ready);

/* ---- memory: calls on threads of the consumer, without a lock unless it says so ---- */

struct tp_mr_info {
	DAT_LMR_CONTEXT lmr_context;
	/* as the device gave it; the core reports 0 if no remote privilege was asked for */
	DAT_RMR_CONTEXT rmr_context;
	DAT_VADDR address; /* the range that peers can reach, as they address it */
	DAT_VLEN size;
	bool bindable; /* windows can be bound to it */
};

/* Makes a protection domain, for dat_pz_create. */
int tp_pd_create(struct tp_dev *dev, struct tp_pd **pd);
/* Destroys it, for dat_pz_free or dat_ia_close. Nothing of the core uses it any more. */
void tp_pd_destroy(struct tp_pd *pd);

/* The privilege for atomic operations of peers, DAT_IB_MEM_PRIV_REMOTE_ATOMIC of DAT 2.0. */
#if DAT_EDITION == 2
#define TP_PRIV_ATOMIC ((unsigned)DAT_MEM_PRIV_EXTENSION_BASE)
#else
#define TP_PRIV_ATOMIC 0u
#endif

enum {
	TP_REG_WINDOWS = 1 << 4,  /* windows may be bound to it, if the device can do that */
	TP_REG_RELAXED = 1 << 20, /* its accesses need no order */
};

/*
 * Registers @size bytes at @address with the privileges @priv, for dat_lmr_create. @flags are of
 * TP_REG_*, at least one of them; or 0 if the range is a part of a region that stays registered,
 * which is how dat_rmr_bind grants a range where the device has no window for it.
 */
int tp_mr_reg(struct tp_pd *pd, void *address, size_t size, DAT_MEM_PRIV_FLAGS priv, unsigned flags,
	      struct tp_mr **mr, struct tp_mr_info *info);
#if DAT_EDITION == 2
/*
 * Registers as tp_mr_reg does, but peers and local segments address the first byte by @first, and
 * those behind it accordingly. -EINVAL: the transport can't do that for this memory; one over verbs
 * takes only a @first that is as far into a page as @address. It is called only if the transport
 * has TP_CAP_ZERO_BASED, for dat_lmr_create and for a range that dat_rmr_bind grants.
 */
int tp_mr_reg_at(struct tp_pd *pd, void *address, size_t size, DAT_VADDR first,
		 DAT_MEM_PRIV_FLAGS priv, unsigned flags, struct tp_mr **mr,
		 struct tp_mr_info *info);
#endif
/*
 * Ends a registration: afterwards no peer has access. If it fails, the region stays registered;
 * -EBUSY or -EINVAL: something uses it, as a window that is bound to it. dat_lmr_free and
 * dat_ia_close call this, and whoever runs deferred releases (core/release.c), with
 * ia->releases.running held.
 */
int tp_mr_dereg(struct tp_mr *mr);

/*
 * Makes a window, for dat_rmr_create, and for a bind that takes the place of one that has failed.
 * It belongs to its protection domain, not to the queue pair that binds it. *context is the one
 * from which the first bind derives its own.
 */
int tp_mw_create(struct tp_pd *pd, struct tp_mw **mw, DAT_RMR_CONTEXT *context);
#if DAT_EDITION == 2
/*
 * Makes a window that serves the queue pair which it is bound on, once, by tp_post_bind_typed;
 * *context is the one that it has then, which no other window has meanwhile. It is called only if
 * the device has TP_CAP_QP_WINDOWS, for dat_rmr_bind. The window may outlive the queue pair, and
 * serves no other one then.
 */
int tp_mw_create_for_qp(struct tp_pd *pd, struct tp_mw **mw, DAT_RMR_CONTEXT *context);
#endif
/*
 * Destroys a window, bound or not: afterwards no peer can use it. Whoever runs deferred releases
 * calls this, with ia->releases.running held.
 */
void tp_mw_destroy(struct tp_mw *mw);

/* ---- completion queues ---- */

/*
 * In the place of DAT_DTO_SUCCESS: a receive has succeeded that has brought more than bytes. So it
 * takes the slow path of the core. For DAT 2.0 only, because DAT 1.2 can't tell its consumer.
 */
enum {
	TP_WC_SPECIAL = 0x100,		   /* from here on */
	TP_WC_WRITE_IMMED = TP_WC_SPECIAL, /* immediate data of a write of @length bytes */
	TP_WC_SEND_IMMED,		   /* those of a message */
	TP_WC_INVALIDATED,		   /* a message that has invalidated a window */
};

struct tp_wc {
	union {
		void *tag;	    /* of the post */
		uint64_t tag_space; /* which it has on hosts of 32 bits, too */
	};
	DAT_DTO_COMPLETION_STATUS status; /* DAT_DTO_SUCCESS is 0 */
	uint32_t transport_0[2];
	uint32_t length; /* bytes received; of a receive only */
	/* and transport_0: what else the transport has; here, so that nothing is copied */
	uint64_t transport[3];
};

/*
 * Immediate data begin where transport does: as they were sent, in the order of the bytes of either
 * host. Of TP_WC_INVALIDATED it is the context of the window.
 */
static inline uint32_t tp_wc_immed(const struct tp_wc *wc)
{
	uint32_t immed;

	memcpy(&immed, wc->transport, sizeof(immed));
	return immed;
}

enum tp_arm {
	TP_ARM_NOTHING, /* nobody sleeps on it; a device may stay armed */
	/* failures and solicited receives; all, if the device can't be armed for those alone */
	TP_ARM_ERRORS,	  /* for the service thread, which is in no hurry */
	TP_ARM_SOLICITED, /* for who waits for them */
	TP_ARM_ANY,
};

/*
 * Makes a completion queue of at least @depth entries. dat_evd_create calls this without a lock,
 * and what needs the sink of an IA with ia->lock held.
 */
int tp_cq_create(struct tp_dev *dev, unsigned depth, struct evd *evd, struct tp_cq **cq);
/* Destroys it. No queue pair uses it, no thread polls or sleeps on it. ia->lock is held. */
void tp_cq_destroy(struct tp_cq *cq);
/* Returns its entries, at least as many as were asked for. evd->cq_lock is held. */
unsigned tp_cq_depth(const struct tp_cq *cq);
/*
 * Makes it at least @depth entries long. It is called only if the device has TP_CAP_CQ_RESIZE, with
 * evd->cq_lock held. It may sleep, so it may run beside all others but tp_cq_destroy.
 */
int tp_cq_resize(struct tp_cq *cq, unsigned depth);
/*
 * Takes up to @max <= TP_POLL_MAX completions, and returns how many. If these are fewer than @max
 * the queue is empty. Whoever looks for events calls this, a thread of the consumer or the service
 * thread, with evd->lock held.
 */
#define TP_POLL_MAX 8
unsigned tp_cq_poll(struct tp_cq *cq, struct tp_wc *wc, unsigned max);
/*
 * Takes the next completion if a poll for one has brought it along, and it is a success that is of
 * no shared receive queue. It calls nothing then, so its caller saves no registers. If it returns
 * false, tp_cq_poll may find one all the same. dat_evd_dequeue calls this, with evd->lock held.
 */
bool tp_cq_next(struct tp_cq *cq, struct tp_wc *wc);
/*
 * Returns the endpoint that took a receive of a shared receive queue; NULL: its queue pair was
 * forgotten. It is called where completions are taken, with evd->lock held.
 */
struct ep *tp_wc_ep(const struct tp_cq *cq, const struct tp_wc *wc);
#if DAT_EDITION == 2
/* Says whether that endpoint is one of datagrams, as tp_qp_create was told. */
bool tp_wc_is_datagram(const struct tp_cq *cq, const struct tp_wc *wc);
#endif

/*
 * Returns a descriptor, non-blocking and always the same, that becomes readable when the queue was
 * armed and then a completion has arrived. One that is there already makes no event: the caller
 * arms, then polls again. When the device is removed it may be in error (POLLERR or POLLHUP) for
 * ever.
 */
int tp_cq_fd(const struct tp_cq *cq);
/*
 * Arms the queue for what is to wake somebody. Threads that are about to sleep call this, the
 * service thread, and calls that change what wakes somebody: with evd->watch.lock held and no
 * spinlock. It may run beside tp_cq_poll.
 */
int tp_cq_arm(struct tp_cq *cq, enum tp_arm what);
/*
 * Arms the queue as TP_ARM_ANY does, for a thread in dat_evd_wait that sleeps on tp_cq_fd and on
 * the descriptor that this returns, unless it is -1. That one is readable when a poll may find
 * something, until that poll. TP_ARM_NOTHING ends it. evd->watch.lock is held.
 */
int tp_cq_sleep(struct tp_cq *cq);
/*
 * Takes and acknowledges the event that made tp_cq_fd readable. Returns whether there was one: then
 * the caller polls, and calls tp_cq_arm after that. The thread that has slept calls this, without a
 * lock, or the service thread or one in dat_cno_wait, with ia->lock held. It may run beside
 * tp_cq_poll.
 */
bool tp_cq_events(struct tp_cq *cq);

/*
 * ---- shared receive queues ----
 *
 * A receive that is on the queue stays there when a queue pair ends; one that a queue pair has
 * taken completes on the completion queue of that queue pair.
 */

struct tp_srq_attr {
	struct tp_pd *pd;
	unsigned max_recv; /* work requests */
	unsigned max_sge;  /* segments */
};

/* Makes a queue, for dat_srq_create. ia->lock is held. */
int tp_srq_create(struct tp_dev *dev, const struct tp_srq_attr *attr, struct srq *srq,
		  struct tp_srq **tp);
/*
 * Destroys a queue that no queue pair uses, and drops the receives that are left. ia->lock is held,
 * so no upcall about it is under way, and none follows.
 */
void tp_srq_destroy(struct tp_srq *srq);
/*
 * Makes room for at least @max_recv work requests, which is more than before. -EOPNOTSUPP: it can't
 * be done. srq->depth_lock is held, and ia->lock is not. It may sleep, so it may run beside all
 * others but tp_srq_arm and tp_srq_destroy.
 */
int tp_srq_resize(struct tp_srq *srq, unsigned max_recv);
/*
 * Has one up_srq_limit made as soon as a receive is taken and fewer than @limit are left then. It
 * takes the place of what was armed before; 0: nothing is. -EOPNOTSUPP: the device can't do that,
 * and the transport does not count. ia->lock and srq->depth_lock are held. It may run beside
 * tp_srq_post, but not beside tp_srq_resize, because soft-RoCE can't do both at once.
 */
int tp_srq_arm(struct tp_srq *srq, unsigned limit);
/*
 * Posts a receive, and returns as tp_post_recv does. dat_srq_post_recv calls this, with the lock of
 * posts held if several threads may post; at most one does at a time.
 */
int tp_srq_post(struct tp_srq *srq, void *tag, const struct tp_sge *sge, unsigned nsge);

/* ---- queue pairs ---- */

/*
 * The tags of posts to one direction of a queue pair, in turn: addresses of an array whose elements
 * have TP_TAG_SIZE bytes. From the last one it goes on with the first. A transport that keeps
 * something for each post finds its place by the tag.
 */
#define TP_TAG_SIZE 32
struct tp_tags {
	const void *first;
	unsigned count; /* a power of two, or 0: no posts */
};

struct tp_qp_attr {
	struct tp_pd *pd;
	struct tp_cq *send_cq, *recv_cq;
	struct tp_srq *srq;		     /* NULL: it has receives of its own */
	unsigned max_send, max_recv;	     /* work requests; without an srq */
	unsigned max_send_sge, max_recv_sge; /* segments */
	struct tp_tags send_tags, recv_tags; /* of all posts but markers */
	bool datagrams; /* it has no connection, and sends by tp_post_datagram alone */
};

enum {
	TP_POST_FENCE = 1 << 0,	  /* after all earlier RDMA reads */
	TP_POST_SIGNAL = 1 << 1,  /* report success, too; failures always report */
	TP_POST_SOLICIT = 1 << 2, /* wake the peer's solicited receive */
};

extern const unsigned tp_post_flags; /* those that mean something here */

/*
 * Makes a queue pair without a connection, to which receives may be posted at once. Modifying an
 * endpoint calls this with ia->lock held, and so do creating and resetting one with a shared
 * receive queue; without one they call it without a lock, and several threads may do so at the same
 * time.
 */
int tp_qp_create(struct tp_dev *dev, const struct tp_qp_attr *attr, struct ep *ep,
		 struct tp_qp **qp);
/*
 * Ends all transfers. What is outstanding completes as flushed, as far as the device does that. It
 * may be called again, to flush what was posted meanwhile. The end of a connection calls this with
 * ia->lock held, the free of an endpoint without a lock. It may run beside any post.
 */
int tp_qp_error(struct tp_qp *qp);
/*
 * Destroys a queue pair to which nobody posts and that has no connection: afterwards no transfer
 * accesses a buffer. @outstanding: completions of it may still come. It waits for the end of an
 * upcall about it, after which there is none, so no lock is held. Freeing, modifying and resetting
 * an endpoint call this.
 */
void tp_qp_destroy(struct tp_qp *qp, bool outstanding);
/*
 * Follows tp_qp_destroy of a queue pair that has a shared receive queue, when none of its
 * completions is left in a completion queue: until then tp_wc_ep knows its endpoint. No lock is
 * held.
 */
void tp_qp_forget(struct tp_qp *qp);

/*
 * ---- posts ----
 *
 * At most one thread at a time posts requests to a queue pair, and one receives: on an IA that is
 * not thread-safe the consumer sees to that, otherwise ep->send_lock and ep->recv_lock do.
 * tp_post_marker and tp_qp_error may run beside any post. No post sleeps.
 */

/*
 * A local segment. It is laid out as struct ibv_sge and as the segment of DAT 2.0, so that a post
 * passes segments on without another copy.
 */
struct tp_sge {
	uint64_t address;
	uint32_t length;
	uint32_t lmr_context;
};

#define TP_MAX_SGE    32	 /* segments of one post */
#define FEW_SEGMENTS  4		 /* posts of so many take no loop */
#define TP_MAX_LENGTH UINT32_MAX /* bytes of all of them */

/* Returns the address that a remote segment begins at. */
static inline DAT_VADDR tp_remote_address(const DAT_RMR_TRIPLET *remote)
{
#if DAT_EDITION == 2
	return remote->virtual_address;
#else
	return remote->target_address;
#endif
}

/* Fills in @sge, field by field, which takes one register less for each. */
static inline void tp_sge_set(struct tp_sge *sge, const DAT_LMR_TRIPLET *segment, DAT_VLEN length)
{
	sge->address = segment->virtual_address;
	sge->length = (uint32_t)length;
	sge->lmr_context = segment->lmr_context;
}

enum tp_post {
	TP_SEND,
	TP_WRITE,
	TP_READ,
	TP_RECV,
	TP_WRITE_IMMED,
	TP_ATOMIC,
};

/*
 * A fast post is made in two steps, so that each segment is looked at once: tp_take_segment takes
 * the segments, one after the other, then tp_fast_* posts what was taken. It is for posts that need
 * nothing special; all others are among those further below, tp_post_*. dat_ep_post_* call these.
 */

/* The segments that were taken, between the two steps. */
struct tp_taken {
	/* the transport's, to use as it likes; sges is an array with room for the segments */
	struct tp_sge *sges;
	const DAT_LMR_TRIPLET *single;
	DAT_LMR_CONTEXT context;
	/*
	 * The offset of the last byte, or, of several segments, the sum of the lengths: that is
	 * less than the limit of a fast post. Before the first segment it is -1.
	 */
	DAT_VLEN last;
};

/* Converts a segment, and adds it to those that were taken. Returns as tp_take_segment does. */
static inline bool tp_convert(struct tp_taken *taken, unsigned i, const DAT_LMR_TRIPLET *segment)
{
	const DAT_VLEN before = taken->last;

	tp_sge_set(&taken->sges[i], segment, segment->segment_length);
	taken->last += segment->segment_length;
	return !i || taken->last > before;
}

/* The tp_take_segment of a transport that takes any segment: those of DAT 2.0 as they are. */
#if DAT_EDITION == 2
_Static_assert(
	sizeof(struct tp_sge) == sizeof(DAT_LMR_TRIPLET) &&
		offsetof(struct tp_sge, address) == offsetof(DAT_LMR_TRIPLET, virtual_address) &&
		offsetof(struct tp_sge, length) == offsetof(DAT_LMR_TRIPLET, segment_length) &&
		offsetof(struct tp_sge, lmr_context) == offsetof(DAT_LMR_TRIPLET, lmr_context),
	"the consumer's segments may be given to the device");

static inline bool tp_take_any(struct tp_taken *taken, unsigned i, const DAT_LMR_TRIPLET *segment)
{
	const DAT_VLEN before = taken->last;

	if (!i)
		taken->sges = (struct tp_sge *)(uintptr_t)segment; /* a device only reads it */
	taken->last += segment->segment_length;
	return !i || taken->last > before;
}
#else
static inline bool tp_take_any(struct tp_taken *taken, unsigned i, const DAT_LMR_TRIPLET *segment)
{
	return tp_convert(taken, i, segment);
}
#endif

/*
 * Takes segment @i of a post of @nseg. Returns whether the post may be fast so far: the segment is
 * not empty, and the sum of the lengths is a number of 64 bits. It may return true for a first
 * segment that is empty, because that leaves the largest number in taken->last, which is beyond any
 * limit. After false nothing has happened, and the post has to be made by tp_post_*.
 */
bool tp_take_segment(struct tp_qp *qp, enum tp_post post, unsigned i, unsigned nseg,
		     const DAT_LMR_TRIPLET *segment, struct tp_taken *taken);
/* Returns the sum of the lengths of all @nseg segments that were taken. */
DAT_VLEN tp_taken_size(const struct tp_taken *taken, unsigned nseg);

/*
 * These four post what was taken. The sum of the lengths is at most TP_MAX_LENGTH. They return 0,
 * or what tp_post_refused translates.
 */
int tp_fast_send(struct tp_qp *qp, void *tag, const struct tp_taken *taken, unsigned nseg,
		 unsigned flags);
int tp_fast_write(struct tp_qp *qp, void *tag, const struct tp_taken *taken, unsigned nseg,
		  const DAT_RMR_TRIPLET *remote, unsigned flags);
int tp_fast_read(struct tp_qp *qp, void *tag, const struct tp_taken *taken, unsigned nseg,
		 const DAT_RMR_TRIPLET *remote, unsigned flags);
int tp_fast_recv(struct tp_qp *qp, void *tag, const struct tp_taken *taken, unsigned nseg);
/* For DAT 2.0: as tp_fast_write, and tp_post_write_immed; the segments were taken for TP_WRITE. */
int tp_fast_write_immed(struct tp_qp *qp, void *tag, const struct tp_taken *taken, unsigned nseg,
			const DAT_RMR_TRIPLET *remote, uint32_t immed, unsigned flags);
/*
 * Ends a fast post of a request in which the thread is cancelled. The request stays posted. The
 * handler that unwinds the thread's stack calls this, with the lock of the posts held, if they take
 * one.
 */
void tp_post_cancelled(struct tp_qp *qp);
/*
 * Says whether somebody sleeps who has to learn of a receive that was posted just now, by
 * tp_fast_recv or tp_post_recv with the result 0, to a queue pair whose receives complete in
 * @recv_cq. If the result is not 0 the poster calls tp_recv_late.
 */
unsigned tp_recv_posted(const struct tp_cq *recv_cq);
void tp_recv_late(struct tp_qp *qp, void *tag);

/*
 * These post without tp_take_segment. No segment is empty, @size is their sum, and the caller has
 * checked the limits that were given at the creation. The segment_length of @remote is not looked
 * at. They return 0, or what tp_post_error translates to a negative errno: only the path of
 * failures needs that. -ENOTCONN: the device has ended the connection on its own. Posts that can't
 * be fast call these, dat_ep_modify for receives that move to another queue pair, and dat_rmr_bind
 * where a write of no bytes stands for the bind.
 */
int tp_post_send(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		 uint32_t size, unsigned flags);
int tp_post_recv(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge);
int tp_post_write(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		  uint32_t size, const DAT_RMR_TRIPLET *remote, unsigned flags);
/* Posts a read of at most max_read_wr_sge segments. */
int tp_post_read(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		 const DAT_RMR_TRIPLET *remote, unsigned flags);
/* Posts a read of more segments, up to max_read_sge, which takes several work requests. */
int tp_post_split_read(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		       const DAT_RMR_TRIPLET *remote, unsigned flags);
/*
 * For DAT 2.0: posts a write that brings @immed, and completes a receive of the peer,
 * TP_WC_WRITE_IMMED. Without bytes @remote may be null. It is called only if the device has
 * TP_CAP_IMMED.
 */
int tp_post_write_immed(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
			uint32_t size, const DAT_RMR_TRIPLET *remote, uint32_t immed,
			unsigned flags);

/*
 * For DAT 2.0: as tp_post_send, and when the message arrives @context gives no access any more. It
 * must be that of a window of the peer's queue pair; else the connection breaks. The receive of the
 * peer completes as TP_WC_INVALIDATED. It is called only if the device has TP_CAP_INVALIDATE.
 */
int tp_post_send_invalidate(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
			    uint32_t size, DAT_RMR_CONTEXT context, unsigned flags);

/* An operation on 8 bytes of the peer, in the order of the bytes of either host. */
struct tp_atomic {
	bool swaps;	  /* if they are equal to @operand, @swap takes their place; else it adds */
	uint64_t operand; /* what they are compared with, or what is added */
	uint64_t swap;
};

/*
 * For DAT 2.0: posts an atomic operation, one of the RDMA reads in flight. What was there before is
 * written to @sge, of 8 bytes. It is called only if the device has TP_CAP_ATOMIC.
 */
int tp_post_atomic(struct tp_qp *qp, void *tag, const struct tp_sge *sge,
		   const DAT_RMR_TRIPLET *remote, const struct tp_atomic *atomic, unsigned flags);
/* Translates the result of a post, other than 0, to a negative errno. */
int tp_post_error(int result);
/*
 * Says what follows from the result, other than 0, of the latest post to this direction of a queue
 * pair. 0: the transport has taken it after all; otherwise it is what tp_post_error returns. The
 * poster calls this, before another post.
 */
int tp_post_refused(struct tp_qp *qp, enum tp_post post, void *tag, unsigned nseg, int result);

struct tp_bind {
	struct tp_mw *mw;
	struct tp_mr *mr; /* the region to bind to, or to unbind from */
	DAT_VADDR address;
	DAT_VLEN size;		 /* 0: unbind */
	DAT_MEM_PRIV_FLAGS priv; /* remote privileges */
};

/*
 * Posts a bind. The window has the new context when this completes, and later requests of the queue
 * pair are executed after that. Returns 0 or a negative errno. dat_rmr_bind calls this, with the
 * lock of the posts held, if they take one, and the spinlock of the RMR.
 */
int tp_post_bind(struct tp_qp *qp, void *tag, const struct tp_bind *bind, unsigned flags,
		 DAT_RMR_CONTEXT *context);
#if DAT_EDITION == 2
/*
 * Posts the bind of a window that tp_mw_create_for_qp has made, or, if @zero_based, of any one
 * whose first byte peers address by 0. -EINVAL, -EOPNOTSUPP: the device can't do that, at least not
 * for this range. Else it is as tp_post_bind.
 */
int tp_post_bind_typed(struct tp_qp *qp, void *tag, const struct tp_bind *bind, bool zero_based,
		       unsigned flags, DAT_RMR_CONTEXT *context);
#endif
/*
 * Posts a signalled request without data that completes after all earlier ones, reads included.
 * Returns 0 or a negative errno. The end of a connection calls this, with ia->lock and the spinlock
 * of the EVD for requests held; never where everything is signalled.
 */
int tp_post_marker(struct tp_qp *qp, void *tag);

/*
 * ---- connections ----
 *
 * ia->lock is held in all of these calls. The core owns a tp_conn from the call or upcall that
 * returns it until tp_reject or tp_release; afterwards the transport makes no upcall about it.
 */

struct tp_cm_param {
	const void *private_data;
	unsigned private_data_size;
	/* what is wanted; up_established has what was agreed on */
	unsigned max_read_in, max_read_out;
};

struct tp_request {			       /* valid during the upcall only */
	const struct sockaddr *local, *remote; /* ports set */
	const void *private_data;
	unsigned private_data_size;
	unsigned max_read_in, max_read_out; /* what the peer accepts, and what it will issue */
	bool datagrams; /* the peer asks for the way to an endpoint of datagrams */
};

struct tp_established {
	const void *private_data; /* the acceptor's; active side only, else NULL */
	unsigned private_data_size;
	unsigned max_read_in, max_read_out; /* as agreed */
};

enum tp_cause {
	TP_PEER_REJECTED,     /* the peer's consumer rejected it */
	TP_NON_PEER_REJECTED, /* no listener, or the peer's system rejected it */
	TP_UNREACHABLE,	      /* no route, or no answer */
	TP_LOCAL_ERROR,	      /* this side failed */
};

/*
 * Listens on *port. If that is 0 the system chooses a port and stores its number there.
 * -EADDRINUSE: the port is in use, but by no other service point of this IA, among which the core
 * has looked. -EACCES: this process may not use the port. Until tp_unlisten, up_request reports the
 * requests that arrive. Creating a service point calls this.
 */
int tp_listen(struct tp_dev *dev, uint16_t *port, struct sp *sp, struct tp_listener **listener);
/*
 * Ends that. Requests that were not reported yet are rejected, not in the consumer's name. Freeing
 * a service point calls this, and the core within up_request of a reserved one.
 */
void tp_unlisten(struct tp_listener *listener);

/*
 * Begins to connect @qp to @port of @remote. -ENETUNREACH, -EHOSTUNREACH, -EAFNOSUPPORT: it is
 * known at once that this can't be. After success exactly one of up_established and up_failed
 * follows, unless the core releases the attempt before. dat_ep_connect and dat_ep_dup_connect call
 * this.
 */
int tp_connect(struct tp_dev *dev, const struct sockaddr *remote, uint16_t port, struct tp_qp *qp,
	       struct ep *ep, const struct tp_cm_param *param, struct tp_conn **conn);
/*
 * Accepts a request with @qp. After a failure the request and the QP are unchanged. After success
 * requests may be posted at once, which are sent as soon as the connection stands, and exactly one
 * of up_established and up_failed follows, unless the core releases the connection before. That the
 * peer is gone is reported by up_failed; until then a post is taken, or fails with -ENOTCONN.
 * dat_cr_accept calls this.
 */
int tp_accept(struct tp_conn *conn, struct tp_qp *qp, struct ep *ep,
	      const struct tp_cm_param *param);
/*
 * Rejects a request, and consumes @conn. The peer's consumer sees a rejection by this consumer,
 * with at most max_reject_pdata bytes of private data, or one by the system, which has none.
 * dat_cr_reject calls this, dat_ia_close, and the core within up_request.
 */
void tp_reject(struct tp_conn *conn, bool by_consumer, const void *private_data, unsigned size);
/*
 * Releases a connection or attempt in any state, and consumes @conn: the peer is notified, the rest
 * is done in the background. The end of a connection calls this, often within the upcall that
 * reports it, and the free of an endpoint.
 */
void tp_release(struct tp_conn *conn);
/*
 * Copies the addresses, with their ports; what is not known is zeroed. It is called for each
 * request, after tp_connect and tp_accept, and within up_established.
 */
void tp_conn_addr(const struct tp_conn *conn, struct sockaddr_storage *local,
		  struct sockaddr_storage *remote);

/*
 * ---- datagrams, of DAT 2.0 ----
 *
 * A queue pair of datagrams sends to any peer whose address handle it has. Two peers exchange these
 * like a request for a connection and its answer: a struct tp_conn is one exchange. It ends with
 * one of up_peer_found and up_peer_failed, and the core releases it then or later; address handles
 * outlive it. ia->lock is held, but in tp_post_datagram.
 */

/*
 * Begins to ask the listener at @port of @remote for the way to its queue pair, and tells it the
 * way to @qp. Otherwise as tp_connect.
 */
int tp_datagram_connect(struct tp_dev *dev, const struct sockaddr *remote, uint16_t port,
			struct tp_qp *qp, struct peer *peer, const struct tp_cm_param *param,
			struct tp_conn **conn);
/*
 * Answers such a request with the way to @qp, and begins to look for the way back. After a failure
 * the request is unchanged. -ENOTCONN: the peer has given up.
 */
int tp_datagram_accept(struct tp_conn *conn, struct tp_qp *qp, struct peer *peer,
		       const struct tp_cm_param *param);
/* Returns the number of the peer's queue pair. */
uint32_t tp_ah_number(const struct tp_ah *ah);
/* Destroys an address handle, to which nobody posts any more. */
void tp_ah_destroy(struct tp_ah *ah);
/*
 * Posts a message to one peer, with the rules of tp_post_send. Of the flags it takes those but the
 * fence.
 */
int tp_post_datagram(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		     uint32_t size, const struct tp_ah *ah, unsigned flags);
/*
 * Has the queue pair send again what is posted from now on, if a failed send has stopped it. The
 * service thread calls this when all sends have completed. Returns a negative errno if the queue
 * pair is in error, and sends nothing any more.
 */
int tp_datagram_resume(struct tp_qp *qp);

/*
 * ---- upcalls, which the core implements ----
 *
 * These are made from tp_dev_progress only: ia->lock is held, and the thread is the service thread
 * or in a consumer's call. Any of them may release the connections that it ends, and those are not
 * used any more when it returns; up_request may also end the listener. The core makes up_dev_fatal
 * itself, too, when a descriptor of the device is in error.
 */

/*
 * Reports a request, which is valid during the upcall. The core owns @conn from now on: the
 * consumer will answer, or the core rejects it at once.
 */
void up_request(struct sp *sp, struct tp_conn *conn, const struct tp_request *request);
/* Reports that the connection stands: the active side has its answer, the passive one its peer. */
void up_established(struct ep *ep, const struct tp_established *established);
/* Brings the private data of the rejection that up_failed reports next, if there are any. */
void up_reject_data(struct ep *ep, const void *private_data, unsigned size);
/*
 * Reports the way to a peer. The core owns the address handle from now on. On the active side
 * @private_data are the acceptor's.
 */
void up_peer_found(struct peer *peer, struct tp_ah *ah, const void *private_data, unsigned size);
/* Reports that an exchange was in vain; of a rejection, with the private data of the rejecter. */
void up_peer_failed(struct peer *peer, enum tp_cause cause, const void *private_data,
		    unsigned size);
/* Reports that an attempt or an accept was in vain. The core releases it, here or later. */
void up_failed(struct ep *ep, enum tp_cause cause);
/* Reports, once, that a connection that stood has ended. The core releases it, here or later. */
void up_disconnected(struct ep *ep);
/* Reports that the device has put @qp into the error state; @ep may have another one meanwhile. */
void up_qp_broken(struct ep *ep, const struct tp_qp *qp);
/*
 * Reports that @qp, with a shared receive queue, is in error and has completed all receives that it
 * took; @ep may have another one meanwhile. Some devices never say so; the core waits for it only
 * if the device has said so once.
 */
void up_qp_last_receive(struct ep *ep, const struct tp_qp *qp);
/* Reports what tp_srq_arm asked for. */
void up_srq_limit(struct srq *srq);
/* Reports that the device has put the shared receive queue into the error state. */
void up_srq_broken(struct srq *srq);
/* Reports that a completion queue was too short, so that completions are lost. */
void up_cq_overrun(struct evd *evd);
/* Reports that the port of the device is down. Connections may survive that. */
void up_port_down(struct ia *ia);
/*
 * Reports that the device has failed, or was removed. It may be reported several times. All
 * connections of the IA end, and each one is released in the upcall.
 */
void up_dev_fatal(struct ia *ia);

/*
 * These may be called on any thread, with any locks, while the device is open.
 */

/* Has the service thread call tp_dev_progress soon. */
void up_wake(struct ia *ia);
/*
 * Says whether the calling thread is the service thread, and may poll its descriptors, because as
 * far as it knows nobody else wants its processor.
 */
bool up_may_busy_poll(struct ia *ia);
/* Says whether the calling thread is the service thread. */
bool up_is_service_thread(const struct ia *ia);

/*
 * Aborts in debug builds if the calling thread does not hold ia->lock. The transport checks its
 * callers by it, because it cannot see struct ia.
 */
#ifdef UDAPL_DEBUG
#define up_assert_locked(ia) up_assert_locked_in(ia, __func__)
void up_assert_locked_in(struct ia *ia, const char *function);
#else
static inline void up_assert_locked(struct ia *ia)
{
	(void)ia;
}
#endif

#endif
