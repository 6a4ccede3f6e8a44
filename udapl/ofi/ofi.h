/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private structs of the libfabric transport, and what its files call in one another.
 *
 *	load.c		loading libfabric without losing the process's signal handlers
 *	device.c	opening a domain, its limits, its descriptors
 *	env.c		environment variables, with an effect and without
 *	select.c	the libfabric provider and address that the IA params of dat.conf mean
 *	hints.c		what is asked of that provider
 *	verify.c	whether it takes virtual addresses that it doesn't want
 *	mem.c		protection domains, memory regions, the check of local buffers
 *	cq.c		completion queues
 *	progress.c	serving the peers while no consumer polls
 *	qp.c		queue pairs: requests and receives in flight, in the order of their posts
 *	post.c		posts
 *	cm.c		connections
 *	socket.c	the sockets of libfabric's tcp
 *	srq.c		shared receive queues, and the queue pairs that have one
 *	window.c	windows, which libfabric can't serve
 *
 * libfabric's tcp does nothing by itself: data move, and peers are served, only while somebody
 * reads a completion queue. A consumer that polls or sleeps on a queue does that as it goes. For
 * all other times the service thread does (progress.c).
 *
 * Completions come in an order of libfabric's own, and its fences are no fences. So each queue pair
 * has its transfers in a queue, from which they complete in the order of their posts, and in which
 * those wait that can't be given to libfabric yet.
 *
 * An endpoint of libfabric is good for one connection. It is made when there is one to make, so
 * what is posted before waits in those queues, too.
 *
 * Locks: events_lock before cqs_lock before cq->lock before srq->lock, mrs_lock, due_lock and
 * srx_lock; mr_eq_lock with no other lock of this transport held.
 */
#ifndef UDAPL_OFI_H
#define UDAPL_OFI_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#undef container_of /* libfabric defines one, too */

#include "base/base.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/race.h"
#include "base/sockaddr.h"
#include "base/thread.h"
#include "transport.h"

/* ---- load.c ---- */

/* What libfabric exports; all else is reached through the tables of its objects. */
struct libfabric {
	int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const struct fi_info *hints, struct fi_info **info);
	void (*freeinfo)(struct fi_info *info);
	struct fi_info *(*dupinfo)(const struct fi_info *info);
	int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
	int (*open)(uint32_t version, const char *name, void *attr, size_t attr_len, uint64_t flags,
		    struct fid **fid, void *context);
	const char *(*strerror)(int errnum);
};

extern struct libfabric libfabric;

/* Loads it once in a process. -ENOENT: it is not installed; the cause was logged. */
int libfabric_load(void);
/* fi_getinfo; the first one loads plugins, which may set signal handlers as well. */
int libfabric_getinfo(const struct fi_info *hints, struct fi_info **info);
/*
 * Before a domain of a device is opened: libfabric gets a monitor of memory that can't be started,
 * and has no cache of regions without one.
 */
void libfabric_prevent_cache(void);

/* A negative errno: what libfabric has beyond those of the system is mapped to one that fits. */
int ofi_errno(ssize_t ret);

/* ---- env.c ---- */

/* Is a send to complete only when a receive of the peer has taken it? */
bool env_delivered_sends(void);
/* A warning names, once in a process, the variables that are set to no effect. */
void env_check(void);

/* ---- select.c ---- */

/*
 * What the params mean; freed with libfabric.freeinfo. @basic: with FI_MR_BASIC. The cause of a
 * failure was logged.
 */
int select_info(const char *params, bool basic, struct fi_info **info);

/* ---- hints.c ---- */

/*
 * All that this provider offers, as a list. @basic: with FI_MR_BASIC. -FI_ENODATA: it is not there,
 * or has nothing that fits. -EOPNOTSUPP: DAT can't be served, which was logged.
 */
int hints_infos(const char *provider, bool basic, struct fi_info **infos);
/* Sets the limits of endpoints to the most that libfabric grants, as far as they are of use. */
void hints_limits(struct fi_info *info);

/* ---- verify.c ---- */

/* Do peers write to virtual addresses in a domain opened with @info, as its mr_mode says? */
bool verify_virtual(struct fi_info *info);

/* ---- device.c ---- */

#define MR_CHUNK  4096 /* regions */
#define MR_CHUNKS 4096
#define KEY_STOCK 64

struct tp_dev {
	struct ia *ia;
	struct tp_attr attr;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	uint64_t write_flags;	  /* FI_DELIVERY_COMPLETE where the provider has it */
	uint64_t send_flags;	  /* likewise, if the user wants that, for it is not cheap */
	bool ordered_reads;	  /* libfabric executes reads in the order of their posts */
	bool provider_keys;	  /* libfabric chooses the keys of regions */
	bool soft_queues;	  /* of completions: no device has them, so they have no limit */
	bool pins_pages;	  /* of regions, when they are registered */
	struct spinlock srx_lock; /* see srx_guard */
	_Atomic bool guards_srx;  /* set once, under ia->lock */
	struct fid_eq *mr_eq;	  /* where it reports registrations; NULL: they are over at once */
	struct mutex mr_eq_lock;  /* held while one is waited for */
	int epoll;    /* descriptors of the event queue and of watched completion queues */
	int ready_fd; /* an eventfd that is always readable */
	struct ready_fd *ready_fds; /* cqs_lock; those of the completion queues */

	/* held from the reading of an event until it was handled, and while endpoints are closed */
	struct mutex events_lock;
	bool handling;				 /* ia->lock; in an upcall about an event */
	struct eq_event *pending, **pending_end; /* events_lock; read, not handled yet */
	struct tp_listener *listeners;		 /* ia->lock */
	struct tp_conn *conns;			 /* ia->lock; those with a queue pair */
	int last_socket;			 /* ia->lock; of the newest connection */
	bool any_unnoticed;			 /* ia->lock; cm_end_unnoticed may find something */
	struct tp_srq *srqs;			 /* ia->lock */
	bool stranger_told;			 /* ia->lock; a request of no provider */

	/* the event queue's descriptor; it is muted if it is readable and nothing comes of it */
	int eq_fd;
	int rdma_cm; /* librdmacm's, in which libfabric's verbs has all connections; -1: none */
	unsigned eq_fruitless; /* ia->lock; rounds, one after the other */
	uint64_t eq_muted;     /* ia->lock; until then; 0: it is not */

	struct mutex cqs_lock; /* held while completion queues are visited, and removed */
	struct spinlock due_lock;
	struct tp_cq *due;   /* due_lock */
	uint64_t next_visit; /* ia->lock; of progress.c */
	uint64_t next_delay; /* cqs_lock; ns to the earliest visit that is due, TP_NEVER: none is */
	unsigned pass;	     /* cqs_lock; a number for all that is visited at once */

	uintptr_t page_mask;
	uint64_t rights[DAT_MEM_PRIV_ALL_FLAG + 1]; /* libfabric's of a region, by privileges */
	struct spinlock mrs_lock;
	/*
	 * mrs_lock; random keys for the regions to come, because a system call draws many as fast
	 * as one; behind the last one is 0. None where libfabric chooses the keys.
	 */
	uint32_t keys[KEY_STOCK + 1];
	unsigned next_key, last_key;		/* mrs_lock; not used yet; the 0 behind them */
	_Atomic(struct tp_mr *) mrs[MR_CHUNKS]; /* chunks, which are never freed or moved */
	struct tp_mr *free_mr;			/* mrs_lock */
	unsigned mr_count;			/* mrs_lock; slots that were ever used */
};

/* ---- mem.c ---- */

struct tp_pd {
	struct tp_dev *dev;
};

/* A slot in the table of a device. Its context has the index and a generation. */
struct tp_mr {
	_Atomic uint32_t context; /* 0: free */
	DAT_MEM_PRIV_FLAGS priv;
	struct tp_pd *pd;
	struct iovec range;
	struct region_view *views; /* mrs_lock; those of this region */
	uint32_t name;		   /* mrs_lock; its context in this life, or in the next one */
	union {
		struct fid_mr *fi;
		struct tp_mr *next_free; /* mrs_lock */
	};
};

/* No view is of a region behind this, so the sum of segments in a view is a number of 64 bits. */
#define VIEW_LIMIT (UINT64_C(1) << 58)
_Static_assert(TP_MAX_SGE <= 1 << (64 - 58), "that many segments are not longer");

/*
 * The region that posts of one kind have used last. It is what they look at first, because most
 * segments are in the same region as those before them. The poster sets it, any thread may clear
 * it: it is cleared before the region is gone, and when posts have to take the slow path.
 */
struct region_view {
	uint32_t context;
	uint64_t first;			  /* below VIEW_LIMIT, as end is */
	uint64_t end;			  /* the address behind the region; 0: cleared */
	uint64_t size;			  /* likewise */
	void *desc[TP_MAX_SGE];		  /* of libfabric, for each segment of a post the same */
	struct tp_mr *mr;		  /* mrs_lock; NULL: cleared */
	struct region_view *next, **back; /* mrs_lock; mr->views */
};

/*
 * The poster reads a view without a lock. It is a race that does no harm: what is cleared at the
 * same time may be seen before or after. An atomic load would take an instruction of its own.
 */
#if defined(__SANITIZE_THREAD__)
#define view_read(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#else
#define view_read(field) (field)
#endif
#define view_write(field, value) __atomic_store_n(&(field), value, __ATOMIC_RELAXED)

/*
 * Fills in the segments for libfabric. False: one of them is not in a live region of @pd that may
 * be written, if the transfer does that.
 */
bool mem_map(struct tp_dev *dev, const struct tp_pd *pd, bool write, const struct tp_sge *sge,
	     unsigned nsge, struct iovec *iov, void **desc);
struct transfer_queue;

/*
 * Has the view show the region of the segment, if the posts to the queue may be fast, and that is a
 * live region of its protection domain, which may be written, if the transfers do that.
 */
void view_set(const struct transfer_queue *queue, struct region_view *view, bool write,
	      const struct tp_sge *sge);
void view_clear(struct tp_dev *dev, struct region_view *view);
/* A key for a region, where they are ours. */
uint32_t mem_key_choose(const struct fi_info *info);
/* Before the first region is registered, and after the last one is gone. */
int mem_open(struct tp_dev *dev);
void mem_close(struct tp_dev *dev);

/* ---- cq.c, progress.c ---- */

/* What a poll finds beside what libfabric has completed. */
enum cq_backlog {
	CQ_READY = 1 << 0,   /* the list of transfers that are ready is not empty */
	CQ_UNTAKEN = 1 << 1, /* entries were read and not looked at yet */
	CQ_STALLED = 1 << 2, /* a post of one of its queue pairs waits for libfabric */
	CQ_MEMBERS = 1 << 3, /* always: some receives complete in other queues of libfabric */
	CQ_GUARDED = 1 << 4, /* always: requests of endpoints that share receives complete here */
};

/* What a poll need not ask libfabric. */
enum cq_known {
	CQ_FRESH = 1 << 0, /* its queue was empty just now, or reports what comes */
	/* its queue was empty when it was read last: its descriptor says if it still is */
	CQ_EMPTIED = 1 << 1,
};

#define CQ_HARVEST 8 /* entries that are read at once */

/*
 * An eventfd that is always readable, for so many completion queues: an epoll set of each holds it,
 * and the kernel limits the sets, and those that hold these, by way of which one descriptor wakes.
 */
#define READY_SHARES 32

struct ready_fd {
	struct ready_fd *next; /* dev->cqs_lock */
	int fd;
	unsigned shares; /* dev->cqs_lock */
};

/*
 * What the service thread does about a completion queue until it visits that again. progress.c has
 * a diagram.
 */
enum progress_state {
	PROGRESS_WATCHED, /* it sleeps until dev->epoll reports libfabric's descriptor */
	PROGRESS_VISITED, /* it looks again after some time */
	PROGRESS_LEFT,	  /* nothing, because a consumer sleeps, and calls progress_resume after */
};

struct tp_cq {
	struct tp_dev *dev;
	struct fid_cq *fi;
	struct spinlock lock;
	unsigned backlog; /* lock; enum cq_backlog */
	/* lock; what libfabric has reported, and what of it was not looked at yet */
	struct fi_cq_msg_entry entries[CQ_HARVEST], *untaken, *read_end;
	_Atomic bool batch; /* written under lock; tp_cq_next may find one of those */
	struct transfer *ready, **ready_end; /* lock; complete, in order, not reported yet */
	struct transfer_queue *queues;	     /* lock; that complete here */
	bool armed;	    /* lock; completions that others take in make tp_cq_fd readable */
	bool signalled;	    /* lock; they have; until tp_cq_events */
	uint8_t known;	    /* lock; enum cq_known */
	unsigned fruitless; /* lock; times in a row that who sleeps woke up for nothing */

	struct tp_cq *next_due; /* dev->due_lock */
	bool due;		/* dev->due_lock; the service thread looks at it next */
	bool due_again;		/* dev->due_lock; who asked for that found it due already */
	int fi_fd;		/* libfabric's; readable when bytes or completions have arrived */
	int epoll;   /* holds that of always_ready, for one event, and fi_fd when armed */
	bool in_set; /* lock; epoll holds fi_fd */
	struct ready_fd *always_ready;
	unsigned depth;

	/* what consumers let the service thread know */
	_Atomic bool polled;   /* they have read the queue since the latest visit */
	_Atomic bool slept_on; /* whatever arrives wakes somebody who will read the queue */
	_Atomic bool starved;  /* something has arrived that can't be taken in */
	_Atomic bool waited;   /* a request of a queue pair waits for completions */

	_Atomic unsigned progress; /* enum progress_state; written under dev->cqs_lock */
	uint64_t delay;		   /* dev->cqs_lock; ns from a visit to the next; 0: none is due */
	unsigned pass;		   /* dev->cqs_lock; of the latest visit */
	bool in_dev_set;   /* dev->cqs_lock; dev->epoll has fi_fd, though it may not report it */
	unsigned attended; /* dev->cqs_lock; visits in a row that found consumers at it */
	unsigned vain;	   /* dev->cqs_lock; times in a row that it was served for nothing */
	/* dev->cqs_lock; about a consumer that polls; of a pair, that at the lower address has them */
	uint64_t grace_ends;	/* until then it may take what waits; 0: it has no grace */
	unsigned graces_missed; /* less those that it has used since */
	unsigned served;	/* times that the queue was served since it has missed one */
	/* dev->due_lock; the other queue of all of its queue pairs, NULL: they differ */
	struct tp_cq *other;
	unsigned qps; /* dev->due_lock; directions of queue pairs that complete here */

	/* of srq.c */
	struct tp_qp *members;	  /* lock; whose receives complete here, from a shared queue */
	unsigned starved_members; /* lock; how many */
	int members_epoll;	  /* of their descriptors; -1 before the first one */
	struct srq_feed *feeds;	  /* lock */
	_Atomic bool asleep;	  /* written under lock; the service thread reads no member */
	_Atomic bool poked;	  /* though it is, because a receive was posted */
};

/* A completion queue of libfabric, and its descriptor. */
int fi_cq_create(struct tp_dev *dev, unsigned depth, struct fid_cq **fi, int *fd);
void fi_cq_destroy(struct tp_dev *dev, struct fid_cq *fi);
/* Does its descriptor report what comes from here on? Else the queue is to be read first. */
bool fi_cq_is_quiet(struct tp_dev *dev, struct fid_cq *fi);
/* The transfer that failed, which fi_cq_read has announced. NULL: there is none. */
struct transfer *cq_read_failure(struct fid_cq *fi, DAT_DTO_COMPLETION_STATUS *status);

/*
 * Takes in what libfabric has completed. Returns how many entries there were. The caller has
 * forbidden cancellation.
 */
unsigned cq_harvest_locked(struct tp_cq *cq);
/*
 * Takes in what libfabric has completed, until there is nothing more. It is for completions that
 * are there: data need not move.
 */
void cq_collect_locked(struct tp_cq *cq);
/* Are there completions that somebody may report? */
static inline bool cq_has_completions_locked(const struct tp_cq *cq)
{
	assert_locked(&cq->lock);
	return cq->backlog & (CQ_READY | CQ_UNTAKEN);
}
/* Appends to what tp_cq_poll reports. */
void cq_push_locked(struct tp_cq *cq, struct transfer *transfer);
/* Makes tp_cq_fd readable, if the queue is armed. */
void cq_signal_locked(struct tp_cq *cq);
/*
 * Will libfabric's descriptor report what arrives from here on? Takes in what is there; false:
 * something is that nobody can take in.
 */
bool cq_settle_locked(struct tp_cq *cq);

/* Has @fd in the epoll set report one event, as @what; or makes it a silent member of the set. */
int epoll_once(int epoll, int op, int fd, void *what, bool on);

/* Has @epoll report @fd whenever it is readable. */
int epoll_watch(int epoll, int fd);

int progress_add(struct tp_cq *cq);
void progress_remove(struct tp_cq *cq);
/*
 * Does what is due: after an event of dev->epoll, by time, or after up_wake. True: an event of a
 * connection was handled. ia->lock held.
 */
bool progress_run(struct tp_dev *dev, bool ready);
/* Has the service thread visit the queue when it visits the next time. Any thread. */
void progress_due(struct tp_cq *cq);
/* Has the service thread visit the queue soon. Any thread. */
void progress_wake(struct tp_cq *cq);
/* As progress_wake, of a queue that nobody can sleep on now. */
void progress_poke(struct tp_cq *cq);
/*
 * Who slept on the queue is awake, or does not do what it takes now: if the service thread has left
 * it to that one, it visits it soon. Any thread; what it should notice was stored before.
 */
static inline void progress_resume(struct tp_cq *cq)
{
	if (atomic_load(&cq->progress) == PROGRESS_LEFT)
		progress_wake(cq);
}
/* Its queues are those of one queue pair more, or less. */
void progress_join(const struct tp_qp *qp);
void progress_part(const struct tp_qp *qp);

/* ---- qp.c ---- */

enum transfer_kind {
	TRANSFER_SEND,
	TRANSFER_WRITE,
	TRANSFER_READ,
	TRANSFER_RECV,
	TRANSFER_NOTHING, /* moves no bytes, and completes in its turn */
	TRANSFER_SHARED,  /* a receive of a shared receive queue */
};

/* What is reported of a transfer, laid out as the beginning of struct tp_wc. */
struct done {
	void *tag;
	DAT_DTO_COMPLETION_STATUS status;
	uint32_t ep[2];	 /* the address of the endpoint, of a shared receive */
	uint32_t length; /* received */
};

/*
 * One post; the slot of its tag. libfabric may use what is at the address of its context while it
 * is in flight. A fast post writes nothing here.
 */
struct transfer {
	struct fi_context2 context;
	struct transfer_queue *queue; /* NULL: it is of a shared receive queue */
	struct transfer *next;	      /* cq->lock; in the list of those that are ready */
	struct done done;
	union {
		struct transfer *following; /* the slot of the next post */
		struct tp_srq *srq;	    /* shared */
	};
	/*
	 * Of one that waits, or is not complete in its turn; cq->lock, but the poster describes it
	 * before. So what others look at has bytes of its own.
	 */
	uint64_t remote_address;
	uint32_t remote_key;
	uint8_t kind : 6; /* enum transfer_kind */
	bool fenced : 1;
	bool invalid : 1; /* shared; its buffer is not what a receive takes */
	uint8_t nsge;
	bool complete; /* and not reported, because others are before it */
	bool waiting;  /* to be given to libfabric */
};

#define TRANSFER_SIZE 128
_Static_assert(sizeof(struct transfer) == TRANSFER_SIZE, "transfer_of multiplies by a shift");

/*
 * The transfers of one direction. As long as nothing is unusual, the queue is
 *	open		posts go to libfabric at once, and change nothing here
 *	in order	each completion is that of the oldest transfer, so its slot need not say so
 * It is not open while something waits, because no connection is there, or libfabric takes no more,
 * or a fence stands before it; and for ever after the end of the connection.
 */
struct transfer_queue {
	uintptr_t base; /* transfer_of */
	/* poster; of the latest fast post, unless it was of a single segment of a message */
	struct iovec iov[TP_MAX_SGE];
	const DAT_LMR_TRIPLET *single; /* poster; while it posts a message of a single segment */
	bool started;		       /* poster; there was a post */
	struct region_view view;
	atomic_bool open;	   /* cq->lock; the poster reads it */
	struct transfer *expected; /* cq->lock; the oldest transfer; NULL: not in order */
	struct transfer *oldest;   /* cq->lock; when not in order */
	struct transfer *issue;	   /* cq->lock; when not open: the first that waits */
	unsigned early;		   /* cq->lock; how many have completed, but not in their turn */
	bool failed;		   /* cq->lock; a failure was reported */
	struct tp_cq *cq;	   /* where they complete */
	struct tp_qp *qp;
	struct transfer *slots;
	struct tp_sge *sges;
	unsigned count; /* of slots */
	unsigned max_sge;
	struct transfer_queue *next, **back; /* cq->lock; cq->queues */
};

static inline struct transfer *transfer_of(const struct transfer_queue *queue, const void *tag)
{
	return (struct transfer *)(queue->base + (uintptr_t)tag * (TRANSFER_SIZE / TP_TAG_SIZE));
}

/* May posts go to libfabric at once, and is there nothing else to do for them? */
bool queue_is_fast(const struct transfer_queue *queue);
/*
 * @receive was posted while somebody sleeps on its queue: if it is the only one, a message may have
 * waited for it, and is taken in. No lock of this transport held.
 */
COLD void queue_poke_late(struct transfer_queue *queue, const struct transfer *receive);
/* A message waits for a receive: the next posts of receives take the slow path, which says so. */
void cq_starve_locked(struct tp_cq *cq);

enum qp_phase {
	QP_IDLE,       /* no connection yet */
	QP_CONNECTING, /* receives are issued */
	QP_CONNECTED,  /* requests are, too */
	QP_ERROR,
};

struct tp_qp {
	struct fid_ep *fi; /* stays from when a queue is open; before that, lock of the queue */
	/* copies of its tables, for fast posts: fi_send and the others look for them in fi */
	struct fi_ops_msg messages;
	struct fi_ops_rma rma;
	uint64_t write_flags;
	struct transfer_queue sends, recvs;
	struct region_view reads; /* local buffers of reads; sends.view is that of all others */
	/*
	 * Poster; the arguments of libfabric's calls for RMA, of which a fast post fills in what
	 * varies. By numbers of segments; the first one is for all other numbers.
	 */
	struct fi_msg_rma write_of[FEW_SEGMENTS + 1], read_of[FEW_SEGMENTS + 1];
	struct fi_rma_iov remote;
	/*
	 * The poster of requests, or lock of sends.cq while sends is not open. Who posts or issues
	 * receives does not touch it.
	 */
	unsigned reads_posted;
	_Atomic unsigned reads_done; /* lock of sends.cq */
	_Atomic unsigned phase;	     /* enum qp_phase */
	struct tp_dev *dev;
	struct tp_pd *pd;
	struct ep *ep;
	struct tp_conn *conn;	     /* ia->lock */
	bool was_connected;	     /* set once, under ia->lock */
	unsigned max_send, max_recv; /* transfers in flight */
	/* with a shared receive queue: a member of recvs.cq, whose lock guards the rest */
	struct tp_srq *srq;
	struct fid_cq *own; /* where libfabric completes its receives */
	int own_fd;
	struct tp_qp *next_member;
	unsigned seen; /* posts to the srq when it was read last */
	bool starved;  /* a message waits for a receive */
};

/* Are reads in flight? To the poster, or with the lock of sends.cq. */
static inline bool qp_is_reading(const struct tp_qp *qp)
{
	return qp->reads_posted != atomic_load_explicit(&qp->reads_done, memory_order_acquire);
}

/* One more read is about to be posted, or was refused (@by: 1, or -1 as a number). */
static ALWAYS_INLINE void qp_count_read(struct tp_qp *qp, unsigned by)
{
	unsigned posted = qp->reads_posted;

	race_reach(RACE_READ, qp);
	qp->reads_posted = posted + by;
}

/* One more has completed, with success: one that fails ends the connection. */
static inline void qp_read_done_locked(struct tp_qp *qp)
{
	assert_locked(&qp->sends.cq->lock);
	atomic_store_explicit(&qp->reads_done, qp->reads_done + 1, memory_order_release);
}

/*
 * Makes the endpoint of a connection, and destroys one that came to none. The handle of a request
 * becomes NULL as soon as it can't be rejected any more, failure or not. ia->lock held.
 */
int qp_attach(struct tp_qp *qp, struct fi_info *info);
void qp_detach(struct tp_qp *qp);
/* Ends the connection; libfabric flushes what it has. */
void qp_shutdown(struct tp_qp *qp);
/* Destroys it, which tells the peer even of an attempt, and flushes all transfers. */
void qp_close_locked(struct tp_qp *qp);
/* From here on receives go to libfabric; requests, too. */
void qp_connecting(struct tp_qp *qp);
void qp_connected(struct tp_qp *qp);

/*
 * Completes in its turn, behind all that was posted earlier; @read: it is a read that has
 * succeeded. Lock of the completion queue held, by these two.
 */
void qp_complete_locked(struct transfer *transfer, DAT_DTO_COMPLETION_STATUS status,
			uint32_t length, bool read);
/* Issues what waits, as far as possible. */
void queue_advance_locked(struct transfer_queue *queue);
/* Does something wait, though there is a connection? */
bool queue_waits_locked(const struct transfer_queue *queue);

/* Before the first post, which takes the slow path, because no view shows its region. */
void queue_start(struct transfer_queue *queue, struct transfer *first);
/* What a post can't give to libfabric now. The fields that describe the transfer are set. */
void queue_post_later(struct transfer_queue *queue, struct transfer *transfer,
		      const struct tp_sge *sge);
/* What moves no bytes. -ENOTCONN: the connection is over. */
int queue_post_nothing(struct transfer_queue *queue, struct transfer *transfer);
/* libfabric has refused it: it waits if that was for a while only, and has failed otherwise. */
COLD void queue_transfer_failed(struct transfer_queue *queue, struct transfer *transfer,
				const struct tp_sge *sge, int err);

/* ---- post.c ---- */

/* Gives one transfer to libfabric. -EAGAIN: it takes none for now. */
int transfer_issue(struct transfer *transfer, const struct tp_sge *sge);
/* Of a transfer that libfabric refused with @err. */
DAT_DTO_COMPLETION_STATUS transfer_status(int err);

/* ---- srq.c ---- */

/*
 * libfabric's tcp before 1.18 takes buffers of a shared receive context under one lock, and gives
 * them back under another when a connection ends in the middle of a message. So once a device has
 * such a context, a call that may do either is made between these two.
 */
static ALWAYS_INLINE bool srx_guard(struct tp_dev *dev)
{
	if (likely(!atomic_load_explicit(&dev->guards_srx, memory_order_relaxed)))
		return false;
	spin_lock(&dev->srx_lock);
	return true;
}
static ALWAYS_INLINE void srx_unguard(struct tp_dev *dev, bool guarded)
{
	if (unlikely(guarded))
		spin_unlock(&dev->srx_lock);
}

struct recv_block;
struct srq_feed;

struct tp_srq {
	struct tp_dev *dev;
	struct tp_pd *pd;
	struct srq *srq;
	struct fid_ep *fi;
	struct tp_srq *next; /* ia->lock */
	unsigned max_recv;   /* ia->lock */
	struct spinlock lock;
	struct transfer *spares;   /* lock */
	struct recv_block *blocks; /* lock */
	struct srq_feed *feeds;	   /* lock */
	unsigned left;		   /* lock; posted, and nobody knows that they were taken */
	unsigned limit;		   /* lock; the number of tp_srq_arm, 0: none */
	bool limit_reached;	   /* lock; an upcall is due */
	_Atomic unsigned posts;	   /* to libfabric */
	_Atomic unsigned asleep;   /* completion queues whose members nobody reads */
};

/* Sets the attributes, if the domain has shared receive contexts. */
void srx_probe(struct tp_dev *dev);
/* A shared receive was taken from the list of those that are ready. */
void srq_recv_reported(struct transfer *transfer);
/* Upcalls that are due. ia->lock held. */
void srq_report_limits(struct tp_dev *dev);

/* Makes the queue pair, whose srq is set, a member of its completion queue. */
int member_create(struct tp_qp *qp);
/* Its endpoint is closed. */
void member_destroy(struct tp_qp *qp);
/* Takes what the end of its connection has completed. */
void member_flush(struct tp_qp *qp);

/* As cq_harvest_locked, of those that have something. */
unsigned members_harvest_locked(struct tp_cq *cq);
/* The consumer polls. Reads those to which nothing but a post may matter. */
void members_visit(struct tp_cq *cq);
/*
 * Takes all that is there; true: there was something. From here on the service thread sleeps,
 * unless it is poked.
 */
bool members_leave_locked(struct tp_cq *cq);

/* ---- socket.c ---- */

struct socket_ends {
	const struct sockaddr_storage *local, *remote;
};

/* The descriptor that the kernel gives next, if no other thread is faster; or a negative errno. */
int descriptor_next(const struct tp_dev *dev);
/*
 * Both ends must be open. All descriptors are looked at if it isn't near dev->last_socket or where
 * a new one is expected. -1: it is not found. No program that this process executes gets it.
 */
int socket_find(const struct tp_dev *dev, struct socket_ends *ends);
/*
 * The socket that listens at @local; @guess is looked at first. -1: it is not found. What it
 * accepts from here on does not block a reader.
 */
int socket_find_listener(struct sockaddr_storage *local, int guess);
void socket_listen_no_more(int socket);
/* Of what has arrived: were all bytes read? *read: how many. */
bool socket_is_read(int socket, uint64_t *read);
/* In the child after a fork, if it is still that socket. -1 is none. */
void socket_close_copy(int socket, struct socket_ends *ends);
void socket_close_listener_copy(int socket, struct sockaddr_storage *local);
/* Shuts down what was accepted at @local and has not sent a request. Returns how many. */
unsigned sockets_end_strangers(const struct sockaddr_storage *local, int listener);

/* ---- cm.c ---- */

#define WIRE_HEADER_SIZE 4 /* bytes of private data that this transport takes for itself */

struct eq_event;

/*
 * For an endpoint that connects to @to: a device is chosen, and the address resolved, when it is
 * made. NULL: no memory.
 */
struct fi_info *info_to(const struct tp_dev *dev, const struct sockaddr_storage *to);

int eq_open(struct tp_dev *dev);
void eq_close(struct tp_dev *dev);
/* Handles all events. True: there was one. ia->lock held. */
bool eq_progress(struct tp_dev *dev);
/*
 * dev->epoll has reported @what. False: it is no connection; else the peer has closed it. ia->lock
 * held.
 */
bool cm_closed(struct tp_dev *dev, const void *what);
/* Were events read that are not handled yet? */
bool eq_has_pending(struct tp_dev *dev);
/*
 * Ends connections that libfabric says nothing about: those that their peers have closed while a
 * message waits for a receive, and those that could not be accepted. Returns when it is to be
 * called again. ia->lock held.
 */
uint64_t cm_end_unnoticed(struct tp_dev *dev);
/*
 * Has a connection of the queue bytes that libfabric does not read, and has read none since this
 * was asked last? Of a message without bytes it reads nothing behind the header before there is a
 * receive, and says nothing of that. ia->lock held.
 */
bool cm_find_held_up(const struct tp_cq *cq);
/* Before the endpoint of @qp is closed: forgets events about it. events_lock held. */
void cm_forget_locked(struct tp_dev *dev, const struct tp_qp *qp);
/* In the child: closes its copies of sockets, which would keep the parent's connections open. */
void cm_after_fork(const struct tp_dev *dev);

#endif
