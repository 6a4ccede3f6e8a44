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
 *	mem.c		memory regions, the check of local buffers
 *	cq.c		completion queues
 *	signal.c	what libfabric's tcp signals for each completion, without use to who polls
 *	progress.c	serving the peers while no consumer polls
 *	qp.c		queue pairs: requests and receives in flight, in the order of their posts
 *	post.c		posts
 *	cm.c		connections
 *	socket.c	the sockets of libfabric's tcp
 *	srq.c		shared receive queues, and the queue pairs that have one
 *	window.c	windows, which libfabric can't serve
 *	zone.c		protection domains, and the completion queues that serve several
 *
 * libfabric's tcp does nothing by itself: data move, and peers are served, only while somebody
 * reads a completion queue. A consumer that polls or sleeps on a queue does that as it goes. For
 * all other times the service thread does (progress.c).
 *
 * Completions come in an order of libfabric's own, and its fences are no fences. So each queue pair
 * has its transfers in two queues, one for each direction, from which they complete in the order of
 * their posts, and in which those wait that can't be given to libfabric yet.
 *
 * An endpoint of libfabric is good for one connection. It is made when there is one to make, so
 * what is posted before waits in those queues, too.
 *
 * Locks: events_lock before cqs_lock before cq->lock before srq->lock, mrs_lock, due_lock and
 * srx_lock; mr_eq_lock with no other lock of this transport held. A comment on a function names the
 * locks that its caller holds. Where it names none, any thread may call the function, if it holds
 * no lock that comes after those that the function takes.
 */
#ifndef UDAPL_OFI_H
#define UDAPL_OFI_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "libfabric.h"
#undef container_of /* libfabric defines one, too */

#include "base/base.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/race.h"
#include "base/sockaddr.h"
#include "base/thread.h"
#include "transport.h"

/*
 * Makes a call of libfabric on the data path and returns its result. libfabric may meet a
 * cancellation point while it holds locks of its own, so the thread can't be cancelled meanwhile.
 * Nothing is unwound then, so this needs no handler for that, as CANCEL_FORBIDDEN has one.
 */
#define UNCANCELLED(call)                                                                          \
	({                                                                                         \
		__typeof__(call) result_;                                                          \
		int before_;                                                                       \
                                                                                                   \
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_);                          \
		result_ = (call);                                                                  \
		pthread_setcancelstate(before_, NULL);                                             \
		result_;                                                                           \
	})

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

/*
 * Loads libfabric, once in a process, and fills in that struct. Returns 0; or -ENOENT if it is not
 * installed, and then the cause was logged. No other function here is called before it succeeds.
 */
int libfabric_load(void);
/*
 * Calls fi_getinfo and returns its result; *info is freed with libfabric.freeinfo. The first call
 * loads plugins, which may set signal handlers, so it puts the handlers of the process back.
 */
int libfabric_getinfo(const struct fi_info *hints, struct fi_info **info);
/*
 * Gives libfabric, once in a process, a monitor of memory that can't be started: without a monitor
 * it has no cache of regions. It is called before the domain of a device is opened.
 */
void libfabric_prevent_cache(void);

/*
 * Returns the negative errno for what a call of libfabric has returned. The numbers that only
 * libfabric has are mapped to one of the system's that fits. 0 stays 0.
 */
int ofi_errno(ssize_t ret);

/* ---- env.c ---- */

/* Does the user want a send to complete only when a receive of the peer has taken it? */
bool env_delivered_sends(void);
/* Does the user want a registration to touch the pages? It does by default. */
bool env_populates(void);
/* Warns, once in a process, of the variables that are set and have no effect here. */
void env_check(void);

/* ---- select.c ---- */

/*
 * Finds the provider and the interface that @params of dat.conf mean, with FI_MR_BASIC if @basic.
 * Returns 0, and *info is freed with libfabric.freeinfo; or a negative errno, and the cause was
 * logged.
 */
int select_info(const char *params, bool basic, struct fi_info **info);

/* ---- hints.c ---- */

/*
 * Asks libfabric for all interfaces of the provider of that name that can serve DAT, with
 * FI_MR_BASIC if @basic. Returns 0, and the list is freed with libfabric.freeinfo; -FI_ENODATA if
 * the provider is not there, or has nothing that fits; -EOPNOTSUPP if it can't serve DAT, and the
 * reason was logged; or another result of fi_getinfo.
 */
int hints_infos(const char *provider, bool basic, struct fi_info **infos);
/* Sets the limits of endpoints in @info to the most that libfabric grants and that is of use. */
void hints_limits(struct fi_info *info);

/* ---- verify.c ---- */

/*
 * Opens a domain with @info, and tries whether a peer writes to virtual addresses in it, as its
 * mr_mode says. It takes 0.2 ms, and 0.2 s if the provider does not answer. If that is so, and for
 * DAT 2.0, *zero_based becomes whether a region may have addresses that begin at 0; otherwise it
 * stays as it is.
 */
bool verify_virtual(struct fi_info *info, bool *zero_based);

/* ---- device.c ---- */

#define TCP_1_18 118 /* the major version of libfabric's tcp in libfabric 1.18 */

#define MR_CHUNK  4096 /* regions */
#define MR_CHUNKS 4096
#define KEY_STOCK 64

/*
 * What makes libfabric's descriptor of a queue readable when it has completions, or events, see
 * signal.c.
 */
struct fi_signal {
	int fd;		 /* -1: it is not known, or there is none */
	uint32_t events; /* these, and the data, are as libfabric has added it to its set */
	uint64_t data;
};

struct tp_dev {
	struct ia *ia;
	struct tp_attr attr;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	_Atomic bool domain_taken; /* by a protection domain: each has one of its own */
	struct fid_eq *eq;
	uint64_t write_flags;	  /* FI_DELIVERY_COMPLETE where the provider has it */
	uint64_t send_flags;	  /* the same if the user wants that, for it is not cheap; or 0 */
	bool ordered_reads;	  /* libfabric executes reads in the order of their posts */
	bool writes_in_parts;	  /* libfabric copies what arrives, see post.c */
	bool immed_follows;	  /* immediate data of a write take a message, see immed_issue */
	bool provider_keys;	  /* libfabric chooses the keys of regions */
	bool soft_queues;	  /* of completions: no device has them, so they have no limit */
	bool arming_looks;	  /* fi_trywait of the event queue moves the connections */
	bool shares_progress;	  /* a read of any completion queue moves the data of all */
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
	struct tp_conn *unnoticed;		 /* ia->lock; those for cm_end_unnoticed */
	int last_accepted, last_attempt;	 /* ia->lock; sockets of connections; or 0 */
	struct tp_srq *srqs;			 /* ia->lock */
	bool stranger_told;			 /* ia->lock; a request of no provider */

	/* the event queue's descriptor; it is muted if it is readable and nothing comes of it */
	int eq_fd;
	int rdma_cm; /* librdmacm's, in which libfabric's verbs has all connections; -1: none */
	unsigned eq_fruitless; /* ia->lock; rounds, one after the other */
	uint64_t eq_muted;     /* ia->lock; until then; 0: it is not */
	uint64_t eq_readable;  /* ia->lock; when it last was so for nothing */
	int eq_next;	       /* ia->lock; descriptor_next when it was last asked why */
	bool eq_shortage_told; /* ia->lock; since there was a descriptor by then */
	struct fi_signal eq_signal;
	bool eq_signal_muted; /* events_lock; eq_fd, a set itself, does not report it */
	unsigned unwatched; /* ia->lock; connections that are up, and whose socket is not watched */

	struct mutex cqs_lock; /* held while completion queues are visited, and removed */
	struct tp_cq *cqs;     /* cqs_lock; all of them */
	struct spinlock due_lock;
	struct tp_cq *due;   /* due_lock */
	uint64_t next_visit; /* ia->lock; of progress.c */
	bool busy_polls;     /* ia->lock; the service thread does not sleep until then */
	/* how often the service thread has begun, or ended, to serve who polls its memory */
	_Atomic unsigned serves;
	uint64_t next_delay; /* cqs_lock; ns to the earliest visit that is due, TP_NEVER: none is */
	unsigned pass;	     /* cqs_lock; a number for all that is visited at once */

	uintptr_t page_mask;
	/* MADV_POPULATE_READ; or a number that the kernel refuses, as that after it, see mem.c */
	int populate;
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
	struct fid_domain *domain;
};

/* A slot in the table of a device. Its context has the index and a generation. */
struct tp_mr {
	_Atomic uint32_t context; /* 0: free */
	DAT_MEM_PRIV_FLAGS priv;
	struct tp_pd *pd;
	struct iovec range;
	struct region_view *views; /* mrs_lock; those of this region */
	uint32_t name;		   /* mrs_lock; its context in this life, or in the next one */
#if DAT_EDITION == 2
	uint64_t bias; /* from the address that a segment has to that in memory */
#endif
	union {
		struct fid_mr *fi;
		struct tp_mr *next_free; /* mrs_lock */
	};
};

/* No view is of a region behind this, so the sum of segments in a view fits into 64 bits. */
#define VIEW_LIMIT (UINT64_C(1) << 58)
_Static_assert(TP_MAX_SGE <= 1 << (64 - 58), "that many segments are not longer");

/*
 * The region that posts of one kind have used last. It is what they look at first, because most
 * segments are in the same region as those before them. The poster sets it, and reads it without a
 * lock; any thread may clear it: it is cleared before the region is gone, and when posts have to
 * take the slow path.
 */
struct region_view {
	uint32_t context;
	uint64_t first;			  /* below VIEW_LIMIT, as end is */
	uint64_t end;			  /* the address behind the region; 0: cleared */
	uint64_t size;			  /* of the region; 0: cleared */
	void *desc;			  /* of libfabric */
	void **descs;			  /* the same for each segment of a post */
	struct tp_mr *mr;		  /* mrs_lock; NULL: cleared */
	struct region_view *next, **back; /* mrs_lock; mr->views */
};

/*
 * Fills in @nsge segments for libfabric, with the descriptors of their regions. Returns false if
 * one of them is not in a live region of @pd that the transfer may use; @write: it writes there.
 */
bool mem_map(struct tp_dev *dev, const struct tp_pd *pd, bool write, const struct tp_sge *sge,
	     unsigned nsge, struct iovec *iov, void **desc);
struct transfer_queue;

/*
 * Has the view show the region of the segment, if posts to the queue may be fast, and if that is a
 * live region of its protection domain that its transfers may use; @write: they write there.
 * Otherwise the view is cleared. The poster calls it.
 */
void view_set(const struct transfer_queue *queue, struct region_view *view, bool write,
	      const struct tp_sge *sge);
/* Clears the view, so that the next post which looks at it takes the slow path. */
void view_clear(struct tp_dev *dev, struct region_view *view);
/* Returns a random key for a region, other than 0, for a provider that takes keys of ours. */
uint32_t mem_key_choose(const struct fi_info *info);
/*
 * Finds out how the provider registers memory, before the first region is. Returns 0 or a negative
 * errno, and the cause was logged.
 */
int mem_open(struct tp_dev *dev);
/* Frees the table of regions. The domain is closed, so there is none left. */
void mem_close(struct tp_dev *dev);

/* ---- cq.c, progress.c ---- */

/* What a poll finds beside what libfabric has completed. */
enum cq_backlog {
	CQ_READY = 1 << 0,   /* the list of transfers that are ready is not empty */
	CQ_UNTAKEN = 1 << 1, /* entries were read and not looked at yet */
	CQ_STALLED = 1 << 2, /* a post of one of its queue pairs waits for libfabric */
	CQ_MEMBERS = 1 << 3, /* always: some receives complete in other queues of libfabric */
	CQ_GUARDED = 1 << 4, /* always: requests of endpoints that share receives complete here */
	CQ_DOMAINS = 1 << 5, /* always: those of other domains complete here, too */
	CQ_ELSEWHERE = CQ_MEMBERS | CQ_DOMAINS,
};

/* What a poll need not ask libfabric. */
enum cq_known {
	CQ_FRESH = 1 << 0, /* its queue was empty just now, or reports what comes */
	/* its queue was empty when it was read last: its descriptor says if it still is */
	CQ_EMPTIED = 1 << 1,
};

/* Who sleeps on a queue. */
enum cq_sleeper {
	SLEEPER_NONE,
	SLEEPER_READS,	/* one who reads the queue whenever something arrives */
	SLEEPER_AWAITS, /* one who waits for completions that others have to take in */
};

#define CQ_HARVEST 8 /* entries that are read at once */

/* What libfabric's queues report of a transfer: for DAT 2.0 with immediate data. */
#if DAT_EDITION == 2
#define CQ_ENTRY	struct fi_cq_data_entry
#define CQ_ENTRY_FORMAT FI_CQ_FORMAT_DATA
#else
#define CQ_ENTRY	struct fi_cq_msg_entry
#define CQ_ENTRY_FORMAT FI_CQ_FORMAT_MSG
#endif

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
	CQ_ENTRY entries[CQ_HARVEST], *untaken, *read_end;
	_Atomic bool batch; /* written under lock; tp_cq_next may find one of those */
	struct transfer *ready, **ready_end; /* lock; complete, in order, not reported yet */
	struct transfer_queue *queues;	     /* lock; that complete here */
	bool armed;	    /* lock; completions that others take in make tp_cq_fd readable */
	bool signalled;	    /* lock; they have; until tp_cq_events */
	uint8_t known;	    /* lock; enum cq_known */
	unsigned fruitless; /* lock; times in a row that who sleeps woke up for nothing */

	struct tp_cq *next;	/* dev->cqs_lock */
	struct tp_cq *together; /* dev->cqs_lock; the next one of those that are visited together */
	struct tp_cq *next_due; /* dev->due_lock */
	bool due;		/* dev->due_lock; the service thread looks at it next */
	bool due_again;		/* dev->due_lock; who asked for that found it due already */
	int fi_fd;   /* libfabric's; readable when bytes or, unless muted, completions are there */
	int epoll;   /* holds that of always_ready, for one event, and fi_fd when armed */
	bool in_set; /* lock; epoll holds fi_fd */
	struct ready_fd *always_ready;
	unsigned depth;

	/* what consumers let the service thread know */
	_Atomic bool polled;	 /* they have read the queue since the latest visit */
	_Atomic uint8_t sleeper; /* enum cq_sleeper */
	_Atomic bool direct;	 /* who READS sleeps on fi_fd itself, and says when it ends */
	_Atomic bool starved;	 /* something has arrived that can't be taken in */
	_Atomic bool waited;	 /* a request of a queue pair waits for completions */

	_Atomic unsigned progress; /* enum progress_state; written under dev->cqs_lock */
	uint64_t delay;		   /* dev->cqs_lock; ns from a visit to the next; 0: none is due */
	unsigned pass;		   /* dev->cqs_lock; of the latest visit */
	unsigned at;		   /* dev->cqs_lock; the consumers whom it has found */
	bool in_dev_set;   /* dev->cqs_lock; dev->epoll has fi_fd, though it may not report it */
	bool reports;	   /* dev->cqs_lock; it does, as it has not since it was asked to */
	unsigned attended; /* dev->cqs_lock; visits in a row that found consumers at it */
	unsigned vain;	   /* dev->cqs_lock; times in a row that it was served for nothing */
	bool has_ends;	   /* dev->cqs_lock; peers have closed connections since the latest visit */
	uint64_t settles;  /* dev->cqs_lock; when it is served in full, at the latest; 0: it was */
	/* dev->cqs_lock; of a consumer that polls; of those visited together the lowest has them */
	uint64_t grace_ends;	 /* until then it may take what waits; 0: it has no grace */
	unsigned graces_missed;	 /* less those that it has used since */
	unsigned served;	 /* times that the queue was served since it has missed one */
	unsigned naps;		 /* one after the other, during which nothing arrived */
	uint64_t polled_at;	 /* when it was last found to have polled */
	bool writes_when_served; /* lock, to write; of this one, see qp_write_when_served_locked */
	bool leftover;		 /* something was waiting when it had been served last */
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

	/* of signal.c */
	struct fi_signal fi_signal;
	_Atomic bool muted; /* written under lock; fi_fd does not tell of completions */

	/* of zone.c; lock, and to change the list dev->cqs_lock, too, which is enough to read it */
	struct domain_cq *domains;
};

/*
 * Creates a completion queue of libfabric in @domain, of @depth entries, and returns its descriptor
 * in *fd, which is closed with the queue. Returns 0 or a negative errno.
 */
int fi_cq_create(struct tp_dev *dev, struct fid_domain *domain, unsigned depth, struct fid_cq **fi,
		 int *fd);
/* Destroys it; the endpoints that complete there are closed. */
void fi_cq_destroy(struct tp_dev *dev, struct fid_cq *fi);
/* Does its descriptor report what comes from here on? If not, the queue is to be read first. */
bool fi_cq_is_quiet(struct tp_dev *dev, struct fid_cq *fi);
/* Finds the signal of a new queue of libfabric, whose descriptor is @set. */
void fi_signal_find(struct fi_signal *found, int set);
/* Is the signal of the queue known, not muted yet, and nobody asleep? */
bool cq_may_be_muted(const struct tp_cq *cq);
/* Mutes the signal if that is so: libfabric's descriptor tells of bytes only. cq->lock held. */
void cq_mute_locked(struct tp_cq *cq);
/* From here on it tells of completions, too. Returns whether it does. cq->lock held. */
bool cq_unmute_locked(struct tp_cq *cq);
/*
 * Mutes the signal of the event queue if it is known and the device watches all connections, or has
 * it reported again, also if it was set meanwhile. Returns whether it was muted just now: then an
 * event may be there that nothing tells of. ia->lock and dev->events_lock held.
 */
bool eq_signal_update_locked(struct tp_dev *dev);
/*
 * Takes the failure that fi_cq_read has announced. Returns the transfer that has failed, and why in
 * *status; or NULL if there is none. Lock of the tp_cq held that the queue belongs to.
 */
struct transfer *cq_read_failure(struct fid_cq *fi, DAT_DTO_COMPLETION_STATUS *status);
/*
 * Takes in what libfabric has completed; and the failure that it has announced, whose return value
 * says whether there was one. Lock of the tp_cq held.
 */
void cq_take_entry_locked(const CQ_ENTRY *entry);
bool cq_take_failure_locked(struct fid_cq *fi);

/* Is it a receive that has brought immediate data? */
static ALWAYS_INLINE bool entry_has_immed(const CQ_ENTRY *entry)
{
	return DAT_EDITION == 2 && unlikely(entry->flags & FI_REMOTE_CQ_DATA);
}
/*
 * Returns the status of such a receive, how many bytes the peer has written in *length, and the
 * immediate data in *immed.
 */
#if DAT_EDITION == 2
DAT_DTO_COMPLETION_STATUS immed_read(const struct tp_dev *dev, const CQ_ENTRY *entry,
				     uint32_t *length, uint32_t *immed);
#else
static inline DAT_DTO_COMPLETION_STATUS immed_read(const struct tp_dev *dev, const CQ_ENTRY *entry,
						   uint32_t *length, uint32_t *immed)
{
	(void)dev, (void)entry, (void)length, (void)immed;
	return DAT_DTO_SUCCESS;
}
#endif

/*
 * Reads libfabric's queue once, which moves data, and takes in what it reports, for tp_cq_poll.
 * Returns how many completions there were. cq->lock held; the caller has forbidden cancellation.
 */
unsigned cq_harvest_locked(struct tp_cq *cq);
/*
 * Takes in what libfabric has completed already, until there is nothing more. It does not read a
 * queue in which nothing can be, because data need not move. cq->lock held.
 */
void cq_collect_locked(struct tp_cq *cq);
/* Are there completions that tp_cq_poll can report without libfabric? cq->lock held. */
static inline bool cq_has_completions_locked(const struct tp_cq *cq)
{
	assert_locked(&cq->lock);
	return cq->backlog & (CQ_READY | CQ_UNTAKEN);
}
/* Appends a transfer that is complete to what tp_cq_poll reports. cq->lock held. */
void cq_push_locked(struct tp_cq *cq, struct transfer *transfer);
/* Is there nothing, neither here nor in libfabric, as far as that has said so? cq->lock held. */
bool cq_has_nothing_locked(const struct tp_cq *cq);
/* Makes tp_cq_fd readable, if the queue is armed. cq->lock held. */
void cq_signal_locked(struct tp_cq *cq);
/*
 * If somebody sleeps on the queue for all that arrives, leaves what arrives to the service thread,
 * whose completions wake who sleeps, too. cq->lock held.
 */
void cq_entrust_locked(struct tp_cq *cq);
/*
 * Takes in what is there, until libfabric's descriptors report all that arrives from here on.
 * Returns false if it does not come to that, because something is there that nobody can take in.
 * cq->lock held.
 */
bool cq_settle_locked(struct tp_cq *cq);

/*
 * Has the epoll set report @fd once, as @what, if @on; or makes it a silent member. @op is that of
 * epoll_ctl: to add it, or to change it. Returns 0 or a negative errno.
 */
int epoll_once(int epoll, int op, int fd, void *what, bool on);

/* Adds @fd to the set, which reports it whenever it is readable. Returns 0 or a negative errno. */
int epoll_watch(int epoll, int fd);

/*
 * From here on the service thread serves the peers at @cq, as it finds necessary. Returns 0 or a
 * negative errno. tp_cq_create calls it, without ia->lock.
 */
int progress_add(struct tp_cq *cq);
/*
 * From here on the service thread does not know @cq. Waits for the end of a visit. tp_cq_destroy
 * calls it.
 */
void progress_remove(struct tp_cq *cq);
/*
 * Does all that is due: visits queues, handles events of connections. @ready: dev->epoll is
 * readable; @only: nothing is done unless it is, indeed. Returns whether another event may be there
 * at once. ia->lock held; the service thread calls it, and calls that attend to the device do.
 */
bool progress_run(struct tp_dev *dev, bool ready, bool only);
/* Has the service thread visit the queue when it visits the next time, whenever that is. */
void progress_due(struct tp_cq *cq);
/*
 * Does the same because the peer of one of its queue pairs has closed the connection. cqs_lock
 * held.
 */
void progress_due_for_end_locked(struct tp_cq *cq);
/* Has the service thread visit the queue soon. */
void progress_wake(struct tp_cq *cq);
/*
 * Has the set of the device report a descriptor of the queue once, and notes in *in_set that it is
 * there. Returns 0 or a negative errno. dev->cqs_lock held.
 */
int dev_set_report_locked(struct tp_cq *cq, int fd, bool *in_set);
/* Takes it out, if it is there. dev->cqs_lock held. */
void dev_set_drop_locked(struct tp_cq *cq, int fd, bool *in_set);
/*
 * Has the service thread visit the queue soon, and then now and then, because something is there
 * that nobody can take in, so that nobody can sleep on the queue, either.
 */
void progress_poke(struct tp_cq *cq);
/*
 * Has the service thread visit the queue soon, if it has left it to a consumer that sleeps there:
 * that one is awake, or does not do what is to be done. What the visit has to find was stored
 * before.
 */
static inline void progress_resume(struct tp_cq *cq)
{
	if (atomic_load(&cq->progress) == PROGRESS_LEFT)
		progress_wake(cq);
}
/*
 * Has all other queues visited that were left to consumers, as @cq was: it is not visited together
 * with them any more. dev->cqs_lock held.
 */
void progress_resume_others_locked(const struct tp_cq *cq);
/* Notes that @qp completes in its two queues, from progress_join to progress_part. */
void progress_join(const struct tp_qp *qp);
void progress_part(const struct tp_qp *qp);

/* ---- qp.c ---- */

enum transfer_kind {
	TRANSFER_SEND,
	TRANSFER_WRITE,
	TRANSFER_READ,
	TRANSFER_RECV,
	TRANSFER_NOTHING,     /* moves no bytes, and completes in its turn */
	TRANSFER_SHARED,      /* a receive of a shared receive queue */
	TRANSFER_WRITE_IMMED, /* a write with immediate data */
	TRANSFER_IMMED,	      /* one of which libfabric has the write, but not the data yet */
};

/* What is reported of a transfer, laid out as the beginning of struct tp_wc. */
struct done {
	union {
		void *tag;
		uint64_t tag_space; /* which it has on hosts of 32 bits, too */
	};
	union {
		DAT_DTO_COMPLETION_STATUS status;
		uint32_t kept_context;
	};
	union {
		uint32_t ep[2]; /* the address of the endpoint, of a shared receive */
		uint32_t immed; /* to be sent; the poster writes them */
	};
	union {
		uint32_t length; /* received */
		uint32_t kept_length;
	};
};

/*
 * The slot of one post, which its tag leads to, and whose address libfabric returns when the
 * transfer is complete. A fast post writes nothing here. While a transfer of a single segment waits
 * it keeps that in what describes it when it is complete: kept_address, and in @done.
 */
struct transfer {
	struct transfer_queue *queue; /* NULL: it is of a shared receive queue */
	union {
		struct transfer *next; /* cq->lock; in the list of those that are ready */
		uint64_t kept_address; /* cq->lock */
	};
	struct done done;
	union {
		struct transfer *following; /* the slot of the next post */
		struct tp_srq *srq;	    /* shared */
	};
	/*
	 * cq->lock; but the poster describes the transfer before. They are used if it waits, or
	 * does not complete in its turn. What others look at meanwhile has bytes of its own.
	 */
	union {
		_Alignas(8) uint64_t remote_address;
		uint32_t immed; /* that a receive has got */
	};
	uint32_t remote_key;
	uint8_t kind : 6; /* enum transfer_kind */
	bool fenced : 1;
	bool invalid : 1; /* shared; its buffer is not what a receive takes */
	uint8_t nsge;
	bool complete; /* it is, and not reported, because others are before it */
	bool waiting;  /* it has not been given to libfabric yet */
};

#define TRANSFER_SIZE 64 /* a multiple of TP_TAG_SIZE */
_Static_assert(sizeof(struct transfer) == TRANSFER_SIZE, "transfer_of counts in it");

/*
 * The transfers of one direction. As long as nothing is unusual, the queue is
 *	open		posts go to libfabric at once, and change nothing here
 *	in order	each completion is that of the oldest transfer, so its slot need not say so
 * It is not open while something waits, because no connection is there, or libfabric takes no more,
 * or a fence stands before it; and for ever after the end of the connection.
 */
struct transfer_queue {
	uintptr_t base;		       /* transfer_of */
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
	struct tp_sge *sges; /* @max_sge for each slot; none of transfers of single segments */
	unsigned max_sge;
	struct transfer_queue *next, **back; /* cq->lock; cq->queues */
	/*
	 * Poster; of the latest fast post, unless it was of a single segment of a message. In sends
	 * there is no memory behind the first @max_sge.
	 */
	struct iovec iov[TP_MAX_SGE];
};

/* The slot of a post with that tag. */
static inline struct transfer *transfer_of(const struct transfer_queue *queue, const void *tag)
{
	return (struct transfer *)(queue->base + (uintptr_t)tag * (TRANSFER_SIZE / TP_TAG_SIZE));
}

/* May posts go to libfabric at once, and is there nothing else to do for them? */
bool queue_is_fast(const struct transfer_queue *queue);
/*
 * Takes in a message that may have waited for @receive, which was posted while somebody sleeps on
 * its completion queue: so it may have if that is the only receive. The poster calls it.
 */
COLD void queue_poke_late(struct transfer_queue *queue, const struct transfer *receive);
/*
 * Notes that a message waits for a receive: until it does not, posts of receives take the slow
 * path, which has the service thread look. cq->lock held.
 */
void cq_starve_locked(struct tp_cq *cq);

enum qp_phase {
	QP_IDLE,       /* no connection yet */
	QP_CONNECTING, /* receives are issued */
	QP_CONNECTED,  /* requests are, too */
	QP_ERROR,
};

#define WRITE_LAST_PART 8 /* bytes: a word, which is stored at once */

struct tp_qp {
	struct fid_ep *fi; /* stays from when a queue is open; before that, lock of the queue */
	/* copies of its tables, for fast posts: fi_send and the others look for them in fi */
	struct fi_ops_msg messages;
	struct fi_ops_rma rma;
	ssize_t (*writemsg)(struct fid_ep *, const struct fi_msg_rma *, uint64_t); /* libfabric's */
	unsigned waited_for; /* poster; what serves was when a write has waited */
	uint64_t write_flags;
	struct transfer_queue recvs;
	struct region_view reads; /* local buffers of reads; sends.view is that of all others */
	/*
	 * Poster; the arguments of libfabric's calls for RMA, of which a fast post fills in what
	 * varies. By numbers of segments; the first one is for all other numbers.
	 */
	struct fi_msg_rma write_of[FEW_SEGMENTS + 1], read_of[FEW_SEGMENTS + 1];
	struct fi_rma_iov remote[2];
	uint64_t most_of_one_part; /* bytes of a write, see post.c */
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
	unsigned seen;		     /* posts to the srq when it was read last */
	bool starved;		     /* a message waits for a receive */
	struct transfer_queue sends; /* the last, because it ends in an array that may be shorter */
};

/* Are reads in flight? The poster of requests asks that, or who holds the lock of sends.cq. */
static inline bool qp_is_reading(const struct tp_qp *qp)
{
	return qp->reads_posted != atomic_load_explicit(&qp->reads_done, memory_order_acquire);
}

/*
 * Counts a read that is about to be posted (@by is 1), or that was refused (-1, as an unsigned
 * number). See reads_posted for who may.
 */
static ALWAYS_INLINE void qp_count_read(struct tp_qp *qp, unsigned by)
{
	unsigned posted = qp->reads_posted;

	race_reach(RACE_READ, qp);
	qp->reads_posted = posted + by;
}

/* Counts a read that has succeeded: one that fails ends the connection. */
static inline void qp_read_done_locked(struct tp_qp *qp)
{
	assert_locked(&qp->sends.cq->lock);
	atomic_store_explicit(&qp->reads_done, qp->reads_done + 1, memory_order_release);
}

/*
 * Makes libfabric's endpoint for a connection. Returns 0 or a negative errno. The handle of the
 * request that @info may be of becomes NULL as soon as that can't be rejected any more, whatever is
 * returned. ia->lock held.
 */
int qp_attach(struct tp_qp *qp, struct fi_info *info);
/* Destroys an endpoint of which no connection came. ia->lock held. */
void qp_detach(struct tp_qp *qp);
/* Ends the connection; libfabric flushes what it has. */
void qp_shutdown(struct tp_qp *qp);
/*
 * From here on writes wait while the service thread serves, or do not, as at first. The lock of
 * sends.cq is held.
 */
void qp_write_when_served_locked(struct tp_qp *qp, bool when_served);
/*
 * Destroys the endpoint, which tells the peer even of an attempt, and flushes all transfers.
 * ia->lock and events_lock held.
 */
void qp_close_locked(struct tp_qp *qp);
/* From here on receives go to libfabric. ia->lock held. */
void qp_connecting(struct tp_qp *qp);
/* From here on requests go to libfabric, too. ia->lock held. */
void qp_connected(struct tp_qp *qp);

/*
 * Notes that the transfer is complete, which is reported behind all that was posted before it.
 * @read: it is a read that has succeeded. Lock of the completion queue held.
 */
void qp_complete_locked(struct transfer *transfer, DAT_DTO_COMPLETION_STATUS status,
			uint32_t length, bool read);
/*
 * Gives libfabric what waits, as far as that is possible, and reports what is complete then. Lock
 * of the completion queue held.
 */
void queue_advance_locked(struct transfer_queue *queue);
/* Does something wait, though there is a connection? Lock of the completion queue held. */
bool queue_waits_locked(const struct transfer_queue *queue);

/*
 * The poster calls the functions that follow, with no lock of this transport held.
 */

/*
 * Notes which slot is that of the first post, before it is made. That post takes the slow path,
 * because no view shows its region yet.
 */
void queue_start(struct transfer_queue *queue, struct transfer *first);
/*
 * Keeps a transfer that can't be given to libfabric now, until it can be, and copies its segments.
 * The transfer is described. After the end of the connection it is flushed in its turn.
 */
void queue_post_later(struct transfer_queue *queue, struct transfer *transfer,
		      const struct tp_sge *sge);
/*
 * Posts a transfer that moves no bytes, and never reaches libfabric: it is complete when all before
 * it are. Returns 0; or -ENOTCONN if the connection is over, and then nothing was posted.
 */
int queue_post_nothing(struct transfer_queue *queue, struct transfer *transfer);
/*
 * Does what follows when libfabric has refused a transfer with @err. It is kept, as one that waits,
 * if that is -EAGAIN; otherwise it has failed, which ends the connection. The transfer is
 * described.
 */
COLD void queue_transfer_failed(struct transfer_queue *queue, struct transfer *transfer,
				const struct tp_sge *sge, int err);

/* ---- post.c ---- */

/*
 * Gives one transfer to libfabric, with the segments at @sge. Returns 0; -EAGAIN if libfabric takes
 * none for now; -EPERM if a local buffer is not what the transfer takes; or another negative errno.
 * The poster calls it, or who holds the lock of the completion queue while the queue is not open.
 */
int transfer_issue(struct transfer *transfer, const struct tp_sge *sge);
/* Returns the status of a transfer for which transfer_issue returned @err. */
DAT_DTO_COMPLETION_STATUS transfer_status(int err);
/*
 * The context of all writes whose completion tells nothing, because a message follows them. It is
 * of no queue, and never the transfer that is expected next.
 */
extern const struct transfer untold_write;

/* ---- srq.c ---- */

/*
 * libfabric's tcp before 1.18 takes buffers of a shared receive context under one lock, and gives
 * them back under another when a connection ends in the middle of a message. So once a device has
 * such a context, a call that may do either is made between srx_guard and srx_unguard, which gets
 * what the former returned. It takes srx_lock, so no mutex is taken between the two.
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

/* Does what fi_cq_read does. The caller has forbidden cancellation. */
static ALWAYS_INLINE ssize_t fi_cq_read_guarded(struct tp_dev *dev, struct fid_cq *fi,
						CQ_ENTRY *entries, size_t most)
{
	bool guarded = srx_guard(dev);
	ssize_t got = fi_cq_read(fi, entries, most);

	srx_unguard(dev, guarded);
	return got;
}

struct recv_block;
struct srq_feed;

struct tp_srq {
	struct tp_dev *dev;
	struct tp_pd *pd;
	struct srq *srq;
	struct fid_ep *fi;
	struct tp_srq *next;	   /* ia->lock */
	_Atomic unsigned max_recv; /* srq->depth_lock, to write */
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

/*
 * Sets the attributes of shared receive queues, if the domain has shared receive contexts that can
 * be used. Called while the device is opened.
 */
void srx_probe(struct tp_dev *dev);
/* Gives back the slot of a shared receive whose completion was reported. */
void srq_recv_reported(struct transfer *transfer);
/* Makes the upcalls about limits of tp_srq_arm that were reached. ia->lock held. */
void srq_report_limits(struct tp_dev *dev);

/*
 * Makes a queue pair with a shared receive queue a member of its completion queue for receives.
 * Returns 0 or a negative errno. tp_qp_create calls it.
 */
int member_create(struct tp_qp *qp);
/* Undoes that, when the endpoint is closed; completions that are left stay for tp_cq_poll. */
void member_destroy(struct tp_qp *qp);
/* Takes in what the end of its connection has completed. */
void member_flush(struct tp_qp *qp);

/*
 * Reads the members that have something, and those that wait for a receive if one was posted.
 * Returns how many completions there were. cq->lock held.
 */
unsigned members_harvest_locked(struct tp_cq *cq);
/*
 * For a consumer that polls, reads the members to which a post may matter: their descriptors say
 * nothing of that. From here on posts do not wake the service thread, which calls this.
 */
void members_visit(struct tp_cq *cq);
/*
 * Takes in all that is there, and returns whether there was something. From here on posts wake the
 * service thread, which calls this. cq->lock held.
 */
bool members_leave_locked(struct tp_cq *cq);

/* ---- zone.c ---- */

/*
 * From here on endpoints of a queue pair in that protection domain can complete in the queue.
 * Returns 0 or a negative errno. dev->cqs_lock not held.
 */
int cq_join_domain(struct tp_cq *cq, const struct tp_pd *pd);
/* Undoes one cq_join_domain. The queue pair has no endpoint any more. dev->cqs_lock not held. */
void cq_leave_domain(struct tp_cq *cq, const struct tp_pd *pd);
/* Returns the queue of libfabric where those endpoints complete, between the two calls. */
struct fid_cq *cq_in_domain(struct tp_cq *cq, const struct tp_pd *pd);

/*
 * The functions that follow do for all other domains of a completion queue what is done elsewhere
 * for that of the device. cq->lock held: read each queue of libfabric once, and return how many
 * completions there were; ask whether all are known to be empty; ask whether all descriptors report
 * what comes from here on; have them make that of the tp_cq readable, or return false if the kernel
 * refuses; have them do so no longer.
 */
unsigned domains_harvest_locked(struct tp_cq *cq);
bool domains_are_empty_locked(const struct tp_cq *cq);
bool domains_are_quiet_locked(const struct tp_cq *cq);
bool domains_watch_locked(struct tp_cq *cq);
void domains_unwatch_locked(struct tp_cq *cq);
/*
 * And with dev->cqs_lock held: have the set of the device report the descriptors once, and return 0
 * or a negative errno; take them out of it; ask whether one is readable.
 */
int domains_report_locked(struct tp_cq *cq);
void domains_drop_locked(struct tp_cq *cq);
bool domains_have_waiting_locked(const struct tp_cq *cq);

/* ---- socket.c ---- */

struct socket_ends {
	const struct sockaddr_storage *local, *remote;
};

/*
 * Returns the descriptor that the kernel gives next, if no other thread is faster; or a negative
 * errno, if it gives none.
 */
int descriptor_next(const struct tp_dev *dev);
/*
 * Finds the socket of a connection whose two ends are open, near @guess; or -1. No program that
 * this process executes gets it.
 */
int socket_find_near(struct socket_ends *ends, int guess);
/* Likewise among the newest; if it is not there, all descriptors are looked at. */
int socket_find(const struct tp_dev *dev, struct socket_ends *ends);
/* From here on the kernel ends the connection if the peer's host has vanished. */
void socket_probe(int socket);
/*
 * The same of an attempt to connect, whose peer may not be known to the kernel yet. Returns its
 * socket, or -1 if it is not found. ia->lock held.
 */
int socket_probe_attempt(struct tp_dev *dev, struct socket_ends *ends);
/*
 * Finds the socket that listens at @local; @guess is looked at first. Returns -1 if it is not
 * found. What it accepts from here on does not block a reader.
 */
int socket_find_listener(struct sockaddr_storage *local, int guess);
/* From here on the socket of a listener accepts nothing. */
void socket_listen_no_more(int socket);
/*
 * Were all bytes read that have arrived? If not, *read is how many were since the connection
 * began.
 */
bool socket_is_read(int socket, uint64_t *read);
/*
 * Closes the copy of a socket in the child after a fork, if it still is that of @ends, or the one
 * that listens at @local. -1 stands for none.
 */
void socket_close_copy(int socket, struct socket_ends *ends);
void socket_close_listener_copy(int socket, struct sockaddr_storage *local);
/*
 * Shuts down the sockets that @listener has accepted at @local and that have not sent a whole
 * request. Returns how many there were.
 */
unsigned sockets_end_strangers(const struct sockaddr_storage *local, int listener);

/* ---- cm.c ---- */

#define WIRE_HEADER_SIZE 4 /* bytes of private data that this transport takes for itself */

struct eq_event;

/*
 * Returns the info for an endpoint that connects to @to, to be freed with libfabric.freeinfo; or
 * NULL if there is no memory. The device is chosen, and the address resolved, when the endpoint is
 * made.
 */
struct fi_info *info_to(const struct tp_dev *dev, const struct sockaddr_storage *to);

/*
 * Opens the event queue of a domain, and adds its descriptor to dev->epoll. Returns 0 or a negative
 * errno.
 */
int eq_open(struct tp_dev *dev);
/* Closes it. The requests that are left are rejected. */
void eq_close(struct tp_dev *dev);
/* Handles all events, and returns whether there was one. ia->lock held. */
bool eq_progress(struct tp_dev *dev);
/*
 * If @what, which dev->epoll has reported, is a connection, notes that its peer has closed it;
 * returns false if it is none. ia->lock and cqs_lock held.
 */
bool cm_closed(void *what);
/* Were events read that are not handled yet? */
bool eq_has_pending(struct tp_dev *dev);
/*
 * Ends connections that libfabric says nothing about: those that their peers have closed while a
 * message waits for a receive, and those that could not be accepted. Returns when it is to be
 * called again. ia->lock held.
 */
uint64_t cm_end_unnoticed(struct tp_dev *dev);
/*
 * Returns whether a connection of the queue has bytes that libfabric does not read, and has read
 * none since the call before; and notes how many it has read. Of a message without bytes it reads
 * nothing behind the header before there is a receive, and says nothing of that. ia->lock held.
 */
bool cm_find_held_up(const struct tp_cq *cq);
/* Drops the events about an endpoint that is about to be closed. events_lock held. */
void cm_forget_locked(struct tp_dev *dev, const struct tp_qp *qp);
/*
 * In the child after a fork, closes its copies of sockets, which would keep the parent's
 * connections open.
 */
void cm_after_fork(const struct tp_dev *dev);

#endif
