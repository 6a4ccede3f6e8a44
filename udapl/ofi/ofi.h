/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private structs of the libfabric transport, and what its files call in one another.
 *
 *	load.c		loading libfabric without losing the process's signal handlers
 *	device.c	opening a domain, its limits, its descriptors
 *	select.c	the libfabric provider and address that the IA params of dat.conf mean
 *	hints.c		what is asked of that provider
 *	verify.c	whether it takes virtual addresses that it doesn't want
 *	mem.c		protection domains, memory regions, the check of local buffers
 *	cq.c		completion queues
 *	progress.c	serving the peers while no consumer polls
 *	qp.c		queue pairs: requests and receives in flight, in the order of their posts
 *	post.c		posts
 *	cm.c		connections
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
 * Locks: events_lock before cqs_lock before cq->lock before qp->lock before srq->lock; mr_eq_lock
 * with no other lock of this transport held.
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

#include "base.h"
#include "lock.h"
#include "log.h"
#include "sockaddr.h"
#include "transport.h"

/* ---- load.c ---- */

/* What libfabric exports; all else is reached through the tables of its objects. */
struct libfabric {
	int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const struct fi_info *hints, struct fi_info **info);
	void (*freeinfo)(struct fi_info *info);
	struct fi_info *(*dupinfo)(const struct fi_info *info);
	int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
	const char *(*strerror)(int errnum);
};

extern struct libfabric libfabric;

/* Loads it once in a process. -ENOENT: it is not installed; the cause was logged. */
int libfabric_load(void);
/* fi_getinfo; the first one loads plugins, which may set signal handlers as well. */
int libfabric_getinfo(const struct fi_info *hints, struct fi_info **info);

/* A negative errno: what libfabric has beyond those of the system is mapped to one that fits. */
int ofi_errno(ssize_t ret);

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
/* The most transfers in flight that libfabric grants an endpoint, in each direction. */
void hints_sizes(const struct fi_info *info, size_t *max_tx, size_t *max_rx);

/* ---- verify.c ---- */

/* Do peers write to virtual addresses in a domain opened with @info, as its mr_mode says? */
bool verify_virtual(struct fi_info *info);

/* ---- device.c ---- */

#define MR_CHUNK  4096 /* regions */
#define MR_CHUNKS 4096

struct tp_dev {
	struct ia *ia;
	struct tp_attr attr;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	uint64_t write_flags;	 /* FI_DELIVERY_COMPLETE where the provider has it */
	bool provider_keys;	 /* libfabric chooses the keys of regions */
	struct fid_eq *mr_eq;	 /* where it reports registrations; NULL: they are over at once */
	struct mutex mr_eq_lock; /* held while one is waited for */
	size_t max_tx, max_rx;	 /* transfers of one endpoint that libfabric takes */
	int epoll;    /* descriptors of the event queue and of watched completion queues */
	int ready_fd; /* an eventfd that is always readable */

	/* held from the reading of an event until it was handled, and while endpoints are closed */
	struct mutex events_lock;
	bool handling;				 /* ia->lock; in an upcall about an event */
	struct eq_event *pending, **pending_end; /* events_lock; read, not handled yet */
	struct tp_listener *listeners;		 /* ia->lock */
	struct tp_conn *conns;			 /* ia->lock; those with a queue pair */
	int last_socket;			 /* ia->lock; of the newest connection */
	struct tp_srq *srqs;			 /* ia->lock */

	struct mutex cqs_lock;
	struct tp_cq *cqs;   /* cqs_lock */
	uint64_t next_visit; /* ia->lock; of progress.c */

	struct spinlock mrs_lock;
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
	uint64_t first, last;
	void *desc;
	union {
		struct fid_mr *fi;
		struct tp_mr *next_free; /* mrs_lock */
	};
};

/*
 * Fills in the segments for libfabric. False: one of them is not in a live region of @pd that may
 * be written, if the transfer does that.
 */
bool mem_map(struct tp_dev *dev, const struct tp_pd *pd, bool write, const struct tp_sge *sge,
	     unsigned nsge, struct iovec *iov, void **desc);
/* A key for a region, where they are ours. */
uint64_t mem_key_choose(const struct fi_info *info);
/* Before the first region is registered, and after the last one is gone. */
int mem_open(struct tp_dev *dev);
void mem_close(struct tp_dev *dev);

/* ---- cq.c, progress.c ---- */

/* What a look at libfabric's queue has to look at, too. */
enum cq_attention {
	CQ_STALLED = 1 << 0, /* a post of one of its queue pairs waits for libfabric */
	CQ_MEMBERS = 1 << 1, /* cq->lock; it has some */
};

/* How a completion queue is armed: what makes tp_cq_fd readable. */
enum cq_arm {
	CQ_UNARMED,
	CQ_ARMED,	 /* a completion that somebody else than the caller of tp_cq_poll takes */
	CQ_ARMED_DIRECT, /* and whatever arrives at libfabric's own descriptor */
};

struct tp_cq {
	struct tp_dev *dev;
	struct tp_cq *next; /* dev->cqs_lock */
	struct fid_cq *fi;
	int fi_fd; /* libfabric's; readable when bytes or completions have arrived */
	int epoll; /* holds fi_fd and dev->ready_fd, each in it for one event when armed */
	unsigned depth;

	struct spinlock lock;
	struct transfer *ready, **ready_end; /* lock; complete, in order, not reported yet */
	struct tp_qp *senders, *receivers;   /* lock; that complete here */
	enum cq_arm armed;		     /* lock */

	_Atomic unsigned polls;	    /* that a consumer made */
	_Atomic unsigned attention; /* enum cq_attention */
	_Atomic bool starved;	    /* something has arrived that can't be taken in */
	unsigned polls_seen;	    /* ia->lock; progress.c has seen so many */
	bool watched;		    /* ia->lock; dev->epoll reports fi_fd and members_epoll, once */

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
/* The transfer that failed, which fi_cq_read has announced. NULL: there is none. */
struct transfer *cq_read_failure(struct fid_cq *fi, DAT_DTO_COMPLETION_STATUS *status);

/* Reads what libfabric has completed. Returns how many entries there were. */
unsigned cq_harvest_locked(struct tp_cq *cq);
/* Appends to what tp_cq_poll reports. */
void cq_push_locked(struct tp_cq *cq, struct transfer *transfer);
/* Makes tp_cq_fd readable, if the queue is armed. */
void cq_signal_locked(struct tp_cq *cq);
/*
 * Will libfabric's descriptor report what arrives from here on? Takes in what is there; false:
 * something is that nobody can take in.
 */
bool cq_quiet_locked(struct tp_cq *cq);

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
bool progress_run(struct tp_dev *dev);
/* Has the service thread visit a queue that nobody can sleep on now. Any thread. */
void progress_poke(struct tp_cq *cq);

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

/* One post. libfabric may use what is at the address of its context while it is in flight. */
struct transfer {
	struct fi_context2 context;
	struct tp_qp *qp;      /* NULL: it is of a shared receive queue */
	struct transfer *next; /* cq->lock; in the list of those that are ready */
	struct done done;
	enum transfer_kind kind;
	unsigned position;
	bool complete; /* qp->lock */
	bool counted;  /* qp->lock; among qp->reads */
	bool invalid;  /* shared; its buffer is not what a receive takes */
	/* of one that waits */
	bool fenced;
	unsigned nsge;
	uint64_t remote_address;
	uint64_t remote_key;
	union {
		struct tp_sge *sge;
		struct tp_srq *srq; /* shared */
	};
};

/*
 * Positions count up and wrap. From head to issued: in the hands of libfabric, or complete out of
 * order; from issued to tail: waiting to be issued.
 */
struct transfer_queue {
	struct transfer *slots;
	struct tp_sge *sges;
	unsigned mask;
	unsigned max_sge;
	struct tp_cq *cq;	     /* where they complete */
	unsigned head, issued, tail; /* qp->lock */
	bool failed;		     /* qp->lock; a failure was reported */
};

enum qp_phase {
	QP_IDLE,       /* no connection yet */
	QP_CONNECTING, /* receives are issued */
	QP_CONNECTED,  /* requests are, too */
	QP_ERROR,
};

struct tp_qp {
	struct tp_dev *dev;
	struct tp_pd *pd;
	struct ep *ep;
	struct tp_conn *conn; /* ia->lock */
	struct fid_ep *fi;    /* set once, before the phase says so */
	struct spinlock lock;
	_Atomic unsigned phase; /* lock; enum qp_phase */
	unsigned reads;		/* lock; in flight */
	bool shut;		/* ia->lock; fi_shutdown was called */
	struct transfer_queue sends, recvs;
	struct tp_qp *next_sender, *next_receiver; /* lock of the queue where they complete */
	/* with a shared receive queue: a member of recvs.cq, whose lock guards the rest */
	struct tp_srq *srq;
	struct fid_cq *own; /* where libfabric completes its receives */
	int own_fd;
	unsigned seen; /* posts to the srq when it was read last */
	bool starved;  /* a message waits for a receive */
};

/* Makes the endpoint of a connection, and destroys one that came to none. ia->lock held. */
int qp_attach(struct tp_qp *qp, struct fi_info *info);
void qp_detach(struct tp_qp *qp);
/* From here on receives go to libfabric; requests, too. */
void qp_connecting(struct tp_qp *qp);
void qp_connected(struct tp_qp *qp);

/* Lock of the completion queue held, by both. */
/* Completes in its turn, behind all that was posted earlier. */
void qp_complete_locked(struct transfer *transfer, DAT_DTO_COMPLETION_STATUS status,
			uint32_t length);
/* Issues what waits, as far as possible. */
void queue_advance_locked(struct tp_qp *qp, struct transfer_queue *queue);

/* libfabric has refused it: it waits if that was for a while only, and has failed otherwise. */
COLD void queue_transfer_failed(struct tp_qp *qp, struct transfer_queue *queue,
				struct transfer *transfer, int err);
/* Posts what moves no bytes. */
void queue_post_nothing(struct tp_qp *qp, void *tag);

/* ---- post.c ---- */

/* Gives one transfer to libfabric. -EAGAIN: it takes none for now. */
int transfer_issue(struct tp_qp *qp, struct transfer *transfer, const struct tp_sge *sge);
/* Of a transfer that libfabric refused with @err. */
DAT_DTO_COMPLETION_STATUS transfer_status(int err);

/* ---- srq.c ---- */

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
/* Takes all that is there. From here on the service thread sleeps, unless it is poked. */
void members_leave_locked(struct tp_cq *cq);

/* ---- cm.c ---- */

#define WIRE_HEADER_SIZE 4 /* bytes of private data that this transport takes for itself */

struct eq_event;

int eq_open(struct tp_dev *dev);
void eq_close(struct tp_dev *dev);
/* Handles all events. True: there was one. ia->lock held. */
bool eq_progress(struct tp_dev *dev);
/*
 * Ends connections that their peers have closed, but libfabric doesn't say so, because a message
 * waits for a receive. ia->lock held.
 */
void cm_end_starved(struct tp_dev *dev);
/* Before the endpoint of @qp is closed: forgets events about it. events_lock held. */
void cm_forget_locked(struct tp_dev *dev, const struct tp_qp *qp);

#endif
