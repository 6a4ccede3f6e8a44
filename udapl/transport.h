/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The seam between the core and a transport.
 *
 * Each provider library is the core plus exactly one transport, joined at link time: these are
 * plain calls. A transport knows DAT objects only as opaque pointers that it passes back; the core
 * knows neither verbs nor libfabric. Plain data of DAT (privileges, remote triplets, completion
 * status) crosses unchanged; local triplets are converted to struct tp_sge.
 *
 * Every int is 0 or a negative errno, but for that of a post. No call waits for a peer. The core
 * serialises under ia->lock the calls on listeners and connections, tp_dev_deadline and
 * tp_dev_progress. Upcalls but up_wake are made from tp_dev_progress only, so they run with
 * ia->lock held, on the service thread or in a call that attends to the device (core.h). Calls on
 * one completion queue are serialised, except that tp_cq_arm, tp_cq_events and tp_cq_resize may run
 * beside tp_cq_poll: a resize may sleep, and the lock of a poll is a spinlock. Posts to one
 * direction of one QP are serialised, except that tp_post_marker and tp_qp_error may run beside
 * any. So are posts to one shared receive queue; tp_srq_resize and tp_srq_arm may run beside them.
 *
 * The core has forbidden cancellation of the calling thread, but in polls for less than
 * TP_POLL_MAX, in fast posts, tp_srq_post and tp_post_bind. If those meet a cancellation point a
 * transport forbids it itself; or, in a fast post of a request, leaves nothing to be undone but by
 * tp_post_cancelled.
 */
#ifndef UDAPL_TRANSPORT_H
#define UDAPL_TRANSPORT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <dat/udat.h>

struct ia;
struct evd;
struct ep;
struct sp;
struct srq;

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

/* For log lines: "libdaplcma". */
extern const char tp_library_name[];

/*
 * Time: nanoseconds on a monotonic clock, which unit tests replace.
 */
#define TP_NEVER UINT64_MAX

uint64_t tp_now(void);

/*
 * poll(2) until something is ready (> 0), the deadline has passed (0), or a signal handler ran
 * (-EINTR).
 */
int tp_poll(struct pollfd *fds, unsigned nfds, uint64_t deadline);
/*
 * epoll_wait(2) until then, which leaves in @events up to @max descriptors that are ready. Returns
 * how many, or what tp_poll does.
 */
int tp_epoll(int epoll, struct epoll_event *events, int max, uint64_t deadline);

/*
 * The device. @params is the IA params field of dat.conf ("eth0 0", "10.0.0.1 0", "mlx5_0 1", "host
 * 0").
 */
enum {
	TP_CAP_CQ_RESIZE = 1 << 0, /* tp_cq_resize works on a queue in use */
	/* an unsignalled success can't be proved later: the core signals everything */
	TP_CAP_SIGNAL_ALL = 1 << 1,
	/* the local buffer of an RDMA read needs remote write (iWARP) */
	TP_CAP_READ_NEEDS_WRITE = 1 << 2,
	/* a completed write is not yet placed at the peer (iWARP) */
	TP_CAP_WRITE_IS_LOCAL = 1 << 3,
	/* reads are executed in order, and tp_post_read takes no TP_POST_FENCE */
	TP_CAP_ORDERED_READS = 1 << 4,
	/* reads behind one that fails may never complete (soft-iWARP) */
	TP_CAP_LOSES_READS = 1 << 5,
	/* a queue pair and its shared receive queue may have different protection domains */
	TP_CAP_SRQ_ANY_PD = 1 << 6,
	/* an RDMA write may be seen before an earlier one, whatever a region was registered for */
	TP_CAP_RELAXED_ONLY = 1 << 7,
	/* no thread may be cancelled in a post of a request (soft-iWARP) */
	TP_CAP_UNCANCELLED_POSTS = 1 << 8,
};

struct tp_attr {
	char device[64];	      /* the system's name for it */
	char vendor[64];	      /* maker, as text */
	struct sockaddr_storage addr; /* the address of this IA, port 0 */
	unsigned hw_version, fw_major, fw_minor;
	unsigned caps;
	/* what the device grants, clamped to INT_MAX */
	unsigned max_qp, max_qp_wr, max_cq, max_cqe, max_mr, max_pd;
	unsigned max_mw;  /* 0: it has no windows, tp_mw_create and tp_post_bind are never called */
	unsigned max_srq; /* 0: it has no shared receive queues, tp_srq_create is never called */
	unsigned max_srq_wr, max_srq_sge;
	unsigned max_sge, max_read_sge;
	unsigned max_read_wr_sge; /* segments of one read work request; more take several */
	/* RDMA reads in flight per QP, as target and as originator */
	unsigned max_read_in, max_read_out;
	unsigned max_read_in_total; /* of the whole device */
	unsigned max_request_pdata; /* bytes of private data in a connection request */
	unsigned max_reply_pdata;   /* and in its answer */
	uint64_t max_mr_size;
	uint64_t max_message; /* the core posts no more than TP_MAX_LENGTH */
};

/*
 * -ENOENT: @params names nothing that this host has. -EOPNOTSUPP: what they name can't do what DAT
 * takes.
 */
int tp_dev_open(const char *params, struct ia *ia, struct tp_dev **dev);
void tp_dev_close(struct tp_dev *dev);
/*
 * In the child after a fork, where @dev is not used otherwise: gives up what keeps connections of
 * the parent alive after its end. Calls nothing that acts on the parent's device.
 */
void tp_dev_after_fork(struct tp_dev *dev);
const struct tp_attr *tp_dev_attr(const struct tp_dev *dev);

/*
 * The service thread calls tp_dev_progress when a descriptor of the device is readable or in error,
 * when the deadline has passed, and after up_wake; a call that attends to the device does, too. The
 * descriptors stay the same while the device is open. The deadline is asked for each time before
 * the thread sleeps; a call on another thread that makes it earlier than that answer has to call
 * up_wake, except in tp_dev_progress.
 */
#define TP_DEV_FDS 2
/* Returns how many there are. The first one is the connection manager's. */
unsigned tp_dev_fds(const struct tp_dev *dev, int fds[TP_DEV_FDS]);
uint64_t tp_dev_deadline(const struct tp_dev *dev);
/*
 * @ready has a bit for each descriptor, in the order of tp_dev_fds. With the first bit it takes an
 * event of the connection manager, if there is one. True: that led to a step on this host, whose
 * event may be there at once.
 */
bool tp_dev_progress(struct tp_dev *dev, unsigned ready);

/*
 * Memory.
 */
struct tp_mr_info {
	DAT_LMR_CONTEXT lmr_context;
	/* as the device gave it; the core reports 0 if no remote privilege was asked for */
	DAT_RMR_CONTEXT rmr_context;
	DAT_VADDR address; /* the range that peers can reach */
	DAT_VLEN size;
	bool bindable; /* windows can be bound to it */
};

int tp_pd_create(struct tp_dev *dev, struct tp_pd **pd);
void tp_pd_destroy(struct tp_pd *pd);
enum {
	TP_REG_WINDOWS = 1 << 4,  /* windows may be bound to it, if the device can do that */
	TP_REG_RELAXED = 1 << 20, /* its accesses need no order */
};

/* Without @flags it is a part of a region that stays registered. */
int tp_mr_reg(struct tp_pd *pd, void *address, size_t size, DAT_MEM_PRIV_FLAGS priv, unsigned flags,
	      struct tp_mr **mr, struct tp_mr_info *info);
/* -EBUSY: something uses it. If it fails, it stays registered. */
int tp_mr_dereg(struct tp_mr *mr);

/*
 * A window belongs to its protection domain, not to the queue pair that bound it. @context is the
 * one from which the first bind derives its own.
 */
int tp_mw_create(struct tp_pd *pd, struct tp_mw **mw, DAT_RMR_CONTEXT *context);
void tp_mw_destroy(struct tp_mw *mw); /* bound or not; afterwards no peer can use it */
/*
 * The latest bind was not executed: the next one derives its context from @context. Called under a
 * spinlock.
 */
void tp_mw_rewind(struct tp_mw *mw, DAT_RMR_CONTEXT context);

/*
 * Completion queues. The caller of tp_cq_poll holds the lock of the EVD. The descriptor becomes
 * readable when the queue was armed and then a completion arrived. One that is there already makes
 * no event: arm, then poll again. When the device is removed the descriptor may be in error
 * (POLLERR or POLLHUP) for ever.
 */
struct tp_wc {
	void *tag;			  /* of the post */
	DAT_DTO_COMPLETION_STATUS status; /* DAT_DTO_SUCCESS is 0 */
	uint32_t transport_0[2];
	uint32_t length; /* bytes received; of a receive only */
	/* and transport_0: what else the transport has; here, so that nothing is copied */
	uint64_t transport[3];
};

enum tp_arm {
	TP_ARM_NOTHING, /* nobody sleeps on it; a device may stay armed */
	/* failures and solicited receives; all, if the device can't be armed for those alone */
	TP_ARM_ERRORS,
	TP_ARM_ANY,
};

int tp_cq_create(struct tp_dev *dev, unsigned depth, struct evd *evd, struct tp_cq **cq);
void tp_cq_destroy(struct tp_cq *cq);
unsigned tp_cq_depth(const struct tp_cq *cq); /* entries, at least what was asked for */
int tp_cq_resize(struct tp_cq *cq, unsigned depth);
/*
 * Returns how many completions it took, at most @max <= TP_POLL_MAX; fewer than @max: the queue is
 * empty.
 */
#define TP_POLL_MAX 8
unsigned tp_cq_poll(struct tp_cq *cq, struct tp_wc *wc, unsigned max);
/*
 * The next completion, if a poll for one has brought it along, and it is a success of no shared
 * receive queue. Then nothing is called, so who calls this saves no registers. False: tp_cq_poll
 * may find one all the same.
 */
bool tp_cq_next(struct tp_cq *cq, struct tp_wc *wc);
/*
 * Of a receive of a shared receive queue: the endpoint that took it. NULL: its queue pair was
 * forgotten.
 */
struct ep *tp_wc_ep(const struct tp_cq *cq, const struct tp_wc *wc);
int tp_cq_arm(struct tp_cq *cq, enum tp_arm what);
int tp_cq_fd(const struct tp_cq *cq); /* non-blocking */
/*
 * As TP_ARM_ANY, for a thread that sleeps on tp_cq_fd and on what this returns, unless it is -1:
 * that is readable when a poll may find something, until that poll. TP_ARM_NOTHING ends it.
 */
int tp_cq_sleep(struct tp_cq *cq);
/*
 * Takes and acknowledges the event that made the descriptor readable. False: there was none. Else
 * the caller polls, and calls tp_cq_arm after that.
 */
bool tp_cq_events(struct tp_cq *cq);

/*
 * Shared receive queues. A receive that is on the queue stays there when a queue pair ends; one
 * that a queue pair has taken completes on its completion queue.
 */
struct tp_srq_attr {
	struct tp_pd *pd;
	unsigned max_recv; /* work requests */
	unsigned max_sge;  /* segments */
};

int tp_srq_create(struct tp_dev *dev, const struct tp_srq_attr *attr, struct srq *srq,
		  struct tp_srq **tp);
/* It has no queue pairs. ia->lock is held, so no upcall about it is under way. */
void tp_srq_destroy(struct tp_srq *srq);
/* To at least @max_recv work requests, which is more than before. -EOPNOTSUPP: can't be done. */
int tp_srq_resize(struct tp_srq *srq, unsigned max_recv);
/*
 * One up_srq_limit follows as soon as a receive is taken and fewer than @limit are left then. Takes
 * the place of what was armed before; 0: nothing is. -EOPNOTSUPP: the device can't do that, and the
 * transport does not count.
 */
int tp_srq_arm(struct tp_srq *srq, unsigned limit);
/* As tp_post_recv. */
int tp_srq_post(struct tp_srq *srq, void *tag, const struct tp_sge *sge, unsigned nsge);

/*
 * Queue pairs. Receives may be posted as soon as one is created.
 */
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
};

enum {
	TP_POST_FENCE = 1 << 0,	  /* after all earlier RDMA reads */
	TP_POST_SIGNAL = 1 << 1,  /* report success, too; failures always report */
	TP_POST_SOLICIT = 1 << 2, /* wake the peer's solicited receive */
};

extern const unsigned tp_post_flags; /* those that mean something here */

int tp_qp_create(struct tp_dev *dev, const struct tp_qp_attr *attr, struct ep *ep,
		 struct tp_qp **qp);
/*
 * Ends all transfers; outstanding requests and receives complete as flushed, as far as the device
 * does that. May be called again.
 */
int tp_qp_error(struct tp_qp *qp);
/*
 * Afterwards no transfer accesses a buffer. @outstanding: completions of it may still come. Waits
 * for the end of an upcall about this QP, so ia->lock is not held.
 */
void tp_qp_destroy(struct tp_qp *qp, bool outstanding);
/*
 * Follows tp_qp_destroy, if it has an srq, when none of its completions is left in a completion
 * queue: until then tp_wc_ep knows its endpoint.
 */
void tp_qp_forget(struct tp_qp *qp);

/*
 * A local segment, laid out as struct ibv_sge and as the segment of DAT 2.0: a post passes them on
 * without another copy.
 */
struct tp_sge {
	uint64_t address;
	uint32_t length;
	uint32_t lmr_context;
};

#define TP_MAX_SGE    32	 /* segments of one post */
#define FEW_SEGMENTS  4		 /* posts of so many take no loop */
#define TP_MAX_LENGTH UINT32_MAX /* bytes of all of them */

/* Field by field, which takes one register less for each. */
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
};

/*
 * The fast posts, which are made in two steps, so that each segment is looked at once. First the
 * segments are taken, one after the other: @i of @nseg, the latter of the post. True: the segment
 * is not empty, the sum of the lengths is a number of 64 bits so far, and a fast post may take it.
 * Of the first segment that may be false only with a sum that is too long: an empty one makes it
 * the longest. Else nothing has happened, and the post has to be one of those further below.
 */
struct tp_taken {
	struct tp_sge *sges;	       /* for the transport: a place for segments */
	const DAT_LMR_TRIPLET *single; /* likewise; read again, as no register holds what it has */
	DAT_LMR_CONTEXT context;       /* likewise */
	/*
	 * What is less than the limit of a fast post: the offset of the last byte, or of several
	 * segments it may be the sum. Before the first segment -1.
	 */
	DAT_VLEN last;
};

/* tp_take_segment of a transport that takes any. */
static inline bool tp_take_any(struct tp_taken *taken, unsigned i, const DAT_LMR_TRIPLET *segment)
{
	const DAT_VLEN before = taken->last;

	tp_sge_set(&taken->sges[i], segment, segment->segment_length);
	taken->last += segment->segment_length;
	return !i || taken->last > before;
}

bool tp_take_segment(struct tp_qp *qp, enum tp_post post, unsigned i, unsigned nseg,
		     const DAT_LMR_TRIPLET *segment, struct tp_taken *taken);
/* The sum of the lengths of all @nseg segments. */
DAT_VLEN tp_taken_size(const struct tp_taken *taken, unsigned nseg);
/*
 * These return 0, or what tp_post_refused translates. The sum of the lengths is at most
 * TP_MAX_LENGTH.
 */
/* The thread ends in a fast post of a request, which stays posted: its stack is unwound. */
void tp_post_cancelled(struct tp_qp *qp);
int tp_fast_send(struct tp_qp *qp, void *tag, const struct tp_taken *taken, unsigned nseg,
		 unsigned flags);
int tp_fast_write(struct tp_qp *qp, void *tag, const struct tp_taken *taken, unsigned nseg,
		  const DAT_RMR_TRIPLET *remote, unsigned flags);
int tp_fast_read(struct tp_qp *qp, void *tag, const struct tp_taken *taken, unsigned nseg,
		 const DAT_RMR_TRIPLET *remote, unsigned flags);
int tp_fast_recv(struct tp_qp *qp, void *tag, const struct tp_taken *taken, unsigned nseg);
/*
 * Follows tp_fast_recv; the queue pair's completion queue for receives. Other than 0: if that
 * returned 0, tp_recv_late does, too.
 */
unsigned tp_recv_posted(const struct tp_cq *recv_cq);
void tp_recv_late(struct tp_qp *qp, void *tag);

/*
 * These return 0, or what tp_post_error translates to a negative errno: only the path of failures
 * needs that. -ENOTCONN: the device has ended the connection on its own. No segment is empty, and
 * @size is their sum. The caller has checked the limits given at create. The segment_length of
 * @remote is not looked at.
 */
int tp_post_send(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		 uint32_t size, unsigned flags);
int tp_post_recv(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge);
int tp_post_write(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		  uint32_t size, const DAT_RMR_TRIPLET *remote, unsigned flags);
/* Of at most max_read_wr_sge segments; and of more, which takes several work requests. */
int tp_post_read(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		 const DAT_RMR_TRIPLET *remote, unsigned flags);
int tp_post_split_read(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		       const DAT_RMR_TRIPLET *remote, unsigned flags);
int tp_post_error(int result);
/*
 * What follows from the result, other than 0, of the latest post to this direction of a queue pair.
 * 0: the transport has taken it after all; else what tp_post_error returns. The poster calls this.
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
 * The window has the new context when this completes. Later requests of the queue pair are executed
 * after that.
 */
int tp_post_bind(struct tp_qp *qp, void *tag, const struct tp_bind *bind, unsigned flags,
		 DAT_RMR_CONTEXT *context);
/*
 * A signalled request without data that completes after all earlier ones, reads included. Not used
 * where everything is signalled.
 */
int tp_post_marker(struct tp_qp *qp, void *tag);

/*
 * Connections. The core owns a tp_conn from the call or upcall that returns it until tp_reject or
 * tp_release; afterwards the transport makes no upcall about it.
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

/* *port 0: the system chooses one and stores it there. -EADDRINUSE: the port is in use. */
int tp_listen(struct tp_dev *dev, uint16_t *port, struct sp *sp, struct tp_listener **listener);
/* Requests that were not reported yet are rejected. */
void tp_unlisten(struct tp_listener *listener);

/*
 * -ENETUNREACH, -EHOSTUNREACH, -EAFNOSUPPORT if known at once; else exactly one of
 * up_established and up_failed follows.
 */
int tp_connect(struct tp_dev *dev, const struct sockaddr *remote, uint16_t port, struct tp_qp *qp,
	       struct ep *ep, const struct tp_cm_param *param, struct tp_conn **conn);
/*
 * On failure the request and the QP are unchanged. On success requests may be posted at once; they
 * are sent as soon as the connection stands. That the peer is gone is reported later, by up_failed;
 * until then a post is taken, or fails with -ENOTCONN.
 */
int tp_accept(struct tp_conn *conn, struct tp_qp *qp, struct ep *ep,
	      const struct tp_cm_param *param);
/* The peer's consumer sees a rejection by this consumer, or one by the system. Consumes @conn. */
void tp_reject(struct tp_conn *conn, bool by_consumer);
/*
 * Releases a connection or attempt in any state: the peer is notified, the rest is done in the
 * background. Consumes @conn.
 */
void tp_release(struct tp_conn *conn);
/* Addresses with ports, zeroed while they are not known. */
void tp_conn_addr(const struct tp_conn *conn, struct sockaddr_storage *local,
		  struct sockaddr_storage *remote);

/*
 * Upcalls, implemented by the core. The core owns the @conn of up_request from then on. After
 * up_failed and up_disconnected the core still calls tp_release, possibly within the upcall.
 */
void up_request(struct sp *sp, struct tp_conn *conn, const struct tp_request *request);
void up_established(struct ep *ep, const struct tp_established *established);
void up_failed(struct ep *ep, enum tp_cause cause);
void up_disconnected(struct ep *ep);
void up_qp_broken(struct ep *ep); /* the device has put it into the error state */
/*
 * A queue pair with an srq is in error, and has completed all receives that it took. Some devices
 * never say so.
 */
void up_qp_last_receive(struct ep *ep);
void up_srq_limit(struct srq *srq);  /* see tp_srq_arm */
void up_srq_broken(struct srq *srq); /* the device has put it into the error state */
void up_cq_overrun(struct evd *evd);
void up_port_down(struct ia *ia);
/* Has failed, or was removed. All connections end: @conn of each may be released in the upcall. */
void up_dev_fatal(struct ia *ia);
/* Has the service thread call tp_dev_progress. Any thread, any lock, while the device is open. */
void up_wake(struct ia *ia);
/* Does the service thread call? Any thread, any lock. */
bool up_is_service_thread(const struct ia *ia);

/*
 * Debug builds abort if the calling thread does not hold ia->lock. The transport checks its callers
 * by it, because it cannot see struct ia.
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
