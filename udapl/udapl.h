/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every private struct of the core, the lock order, and what guards what: read this file first.
 *
 * Every mutex and spinlock of the product, outermost first. A thread takes a lock only if all locks
 * that it holds stand above it; debug builds check that (lock.h).
 *
 *   in the provider libraries
 *	ia->releases.running	mutex; one thread at a time returns deferred resources to the
 *				device. Taken with no other lock held.
 *	ia->lock		mutex; connection management: EP states, service points, connection
 *				requests, timers, roles and CNO of each EVD. The service thread
 *				holds it while it handles anything.
 *	loan_lock		mutex (async_error.c); which IA borrows whose asynchronous EVD
 *	dev->result_lock	mutex (verbs/cm_event.c); results of connection manager calls
 *	cookie_lock		mutex (cookie.c); cookies
 *	provider_lock		mutex (provider.c); the list of announced names
 *	cno->watch.lock		mutex; who sleeps on the completion channels of its EVDs
 *	evd->watch.lock		mutex; who sleeps on the completion channel; arming the queue
 *	ep->send_lock		spin, recv_lock likewise; claiming a slot and posting, in one
 *				direction, on a thread-safe IA; srq->post_lock likewise
 *	evd->lock		spin; the event queue, and polling of its completion queue. The only
 *				lock of the fast paths.
 *	cq->stray_lock		spin (verbs/stray.c); orphaned queue pairs of a completion queue
 *	rmr->lock		spin; the bindings of a window
 *	ia->lmr_lock		spin; the live LMRs by context
 *	ia->releases.lock	spin; the queue of deferred releases
 *	cno->lock		spin; the latch, the wait list, the EVDs that missed a trigger
 *	pool->lock		spin (object.c); the free slots of one kind of object
 *	service->lock		spin; the queue of work for the service thread
 *	ia->wakefds.lock	spin; the descriptors kept for threads that sleep
 *   in libdat (dat/libdat.h), which shares no thread of control with the above while it holds one
 *	registry.lock		mutex; names, dat.conf, open IAs
 *	the handle table's	mutex (dat/handle.c); slots of IA handles
 *
 * A child of fork(2) releases those that outlive an IA, and all that a proxy agent's thread takes
 * next (fork.c).
 *
 * Under a spinlock no tp_* call is made but tp_cq_poll, the posts and tp_mw_rewind.
 *
 * Names: the caller of x_locked() holds the lock that x_locked asserts first. x_unlock() also
 * releases it; x_relock() may release it and take it again.
 *
 * A connection changes its state under ia->lock only, in a consumer's call or on the service
 * thread. The data path reads the state as one atomic word, and reports what it saw (a failed
 * completion, the last request of a connection that ends) through service_queue_work, which is
 * legal under any lock.
 */
#ifndef UDAPL_UDAPL_H
#define UDAPL_UDAPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <dat/udat.h>
#include <dat/udat_redirection.h>
#include <dat/dat_registry.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/port.h"
#include "host/maps.h"
#include "core/object.h"
#include "core/ring.h"
#include "base/thread.h"
#include "base/timer.h"
#include "transport.h"

/* Status: class, type and subtype of a failure. */
#define DAT_ERROR(type, subtype)                                                                   \
	((DAT_RETURN)(DAT_CLASS_ERROR | (DAT_RETURN)(type) | (DAT_RETURN)(subtype)))
#define BAD_HANDLE(kind)  DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_##kind)
#define BAD_ARG(n)	  DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG##n)
#define BAD_STATE(what)	  DAT_ERROR(DAT_INVALID_STATE, DAT_INVALID_STATE_##what)
#define NO_RESOURCE(what) DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_##what)

#define LOCAL_PRIVS  ((unsigned)(DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG))
#define REMOTE_PRIVS ((unsigned)(DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG))

/* ns; an event that found no memory is tried again after this time */
#define NO_MEMORY_RETRY UINT64_C(10000000)

/*
 * status.c: a negative errno of the transport to DAT; @resource is what could not be made. 0 is
 * DAT_SUCCESS.
 */
DAT_RETURN status_of(int err, DAT_RETURN_SUBTYPE resource);
/* Likewise, of what the device was to make or to resize: that it refuses is a shortage. */
DAT_RETURN status_of_made(int err, DAT_RETURN_SUBTYPE resource);
/* DAT_INVALID_STATE with the subtype that names it */
DAT_RETURN status_of_ep_state(DAT_EP_STATE state);

/* Every flag that DAT defines for a post and for an endpoint. */
#define ALL_COMPLETION_FLAGS                                                                       \
	(DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_SOLICITED_WAIT_FLAG |                       \
	 DAT_COMPLETION_UNSIGNALLED_FLAG | DAT_COMPLETION_BARRIER_FENCE_FLAG |                     \
	 DAT_COMPLETION_EVD_THRESHOLD_FLAG)
/* When a call that begins now times out, on the clock of tp_now. */
static inline uint64_t deadline_of(DAT_TIMEOUT timeout)
{
	return timeout == DAT_TIMEOUT_INFINITE ? TP_NEVER : tp_now() + (uint64_t)timeout * 1000;
}

/* ---- provider.c: the names that dat_provider_init announced ---- */

/* One IA name. Never freed: handles, stale ones included, lead to its table. */
struct provider {
	DAT_PROVIDER table; /* device_name is info.ia_name; extension leads back here */
	DAT_PROVIDER_INFO info;
	char *params;	/* provider_lock; the IA params of dat.conf */
	bool announced; /* provider_lock; between dat_provider_init and dat_provider_fini */
	struct provider *next;
};

/* The announced name that an ia_open is for, and a copy of its IA params that the caller frees. */
DAT_RETURN provider_find(const char *name, bool thread_safe, struct provider **provider,
			 char **params);

/* ---- service.c: the service thread, one for each IA ---- */

struct work {
	struct work *next; /* service->lock */
	bool queued;	   /* service->lock */
	bool unlocked;	   /* run without ia->lock: it calls the consumer */
	void (*run)(struct work *);
};

struct service {
	pthread_t thread;
	bool started;
	/* holds wakefd, the device's descriptors, completion channels */
	int epoll;
	int wakefd; /* work, an earlier timer, up_wake, stop */
	int dev_fds[TP_DEV_FDS];
	bool attended;	       /* ia->lock; dev_fds[0] is not listened to */
	_Atomic bool dev_due;  /* up_wake was called: tp_dev_progress is due */
	uint64_t sleeps_until; /* ia->lock; a timer later than this wakes nobody; 0: not asleep */
	struct spinlock lock;
	struct work *work, **work_end; /* lock */
	struct work *running;	       /* lock; the unlocked work being run */
	bool stop;		       /* lock */
	struct timer_heap timers;      /* ia->lock */
};

/* The device is open between: from service_open to service_close it may call up_wake. */
int service_open(struct ia *ia);
int service_start(struct ia *ia);
void service_stop(struct ia *ia); /* joins the thread; no lock is held */
void service_close(struct ia *ia);

/* Is the calling thread the service thread, e.g. in a proxy agent? */
bool service_is_current(const struct ia *ia);

/* Has the service thread run @work once, soon. Any thread, any lock. Queued already: no effect. */
void service_queue_work(struct ia *ia, struct work *work);
/* Afterwards @work is not queued. ia->lock held. Not for unlocked work. */
void service_cancel_work_locked(struct ia *ia, struct work *work);
/* Afterwards @work is neither queued nor running. For unlocked work; waits, no lock is held. */
void service_cancel_unlocked_work(struct ia *ia, struct work *work);

/*
 * Between the two, a call with ia->lock held makes the transport cause events: of a connection that
 * is local or fast, some arrive before it returns. It handles these itself. The service thread
 * would wake up for each, wait for the lock, and be woken up once more.
 */
void service_attend_locked(struct ia *ia);
void service_attended_locked(struct ia *ia);

/* ia->lock held. */
void timer_set_locked(struct ia *ia, struct timer *timer, uint64_t deadline,
		      void (*run)(struct timer *));
void timer_cancel_locked(struct ia *ia, struct timer *timer);

/* ---- watch.c: descriptors on which the service thread sleeps, unless a waiter does ---- */

struct watch;

struct watch_ops {
	/* Arms what is not armed. ia->lock and watch->lock held. */
	void (*arm_locked)(struct watch *watch);
	/* Takes what is there. True: there was something. ia->lock held. */
	bool (*look_locked)(struct watch *watch);
	/*
	 * The descriptor is readable, or @in_error. The object of the watch may have been freed
	 * since the kernel named it. ia->lock held.
	 */
	void (*ready_locked)(struct watch *watch, bool in_error);
};

/* The completion channel of an EVD, or the epoll set of a CNO, with the channels of its EVDs. */
struct watch {
	const struct watch_ops *ops;
	struct ia *ia;
	int fd;
	struct mutex lock;
	struct watch *parent; /* ia->lock and lock; of the CNO, whose epoll set has it */
	bool lent;	      /* lock; the epoll set does not report it: waiters sleep on it */
	bool looked;	      /* lock; the service thread looks now and then */
	unsigned waiters;     /* lock; threads that sleep on it: from lend to return */
	bool waited;	      /* lock; a wait has ended since the last look */
	unsigned quiet;	      /* lock; looks in a row that found nothing */
	struct timer timer;   /* the next look */
	struct work work;     /* a look at once */
};

/* The caller initialises the lock, whose rank it knows. */
void watch_init(struct watch *watch, struct ia *ia, const struct watch_ops *ops);
/* Puts @fd into the epoll set of @parent, or else of the service thread. */
int watch_open(struct watch *watch, int fd, struct watch *parent);
/* Takes it out again. ia->lock held. */
void watch_close_locked(struct watch *watch);
/* What an epoll set of @ia reported of a watch, which may be gone meanwhile. ia->lock held. */
void watch_report_locked(struct ia *ia, const struct epoll_event *event);
/* Moves it to the epoll set of another parent. ia->lock held. */
void watch_move_locked(struct watch *watch, struct watch *parent);
/* It is not armed any more: from now on the service thread looks. ia->lock held. */
void watch_look_locked(struct watch *watch);
/*
 * A waiter sleeps on it from lend to return. True, always if it is @urgent: the service thread or
 * the CNO sleeps on it again, so the caller arms, and has the service thread look.
 */
void watch_lend(struct watch *watch);
bool watch_return(struct watch *watch, bool urgent);
/* It is in error, so the waiter does not sleep on it any more: the service thread reports that. */
void watch_surrender(struct watch *watch);
bool watch_is_waited_for(struct watch *watch);
/* The service thread sleeps on it again, unless there is a waiter. */
void watch_take_back(struct watch *watch);

/* ---- release.c: deferred release ---- */

/*
 * What a bind that is over gives back. The device is not called under a spinlock, so completions
 * and failed posts queue this, and a thread without locks returns it to the device.
 */
struct release {
	struct release *next; /* releases->lock */
	struct tp_mr *region; /* NULL: none */
	struct tp_mw *window; /* NULL: none */
	struct obj *held;     /* what the two need, until they are released; NULL: nothing */
	bool late;	      /* the device has refused the region: releases behind it came first */
	/* Called last, without locks; frees the memory that holds the struct. */
	void (*done)(struct release *);
};

struct release_queue {
	struct spinlock lock;
	struct release *first, **end; /* lock */
	_Atomic unsigned pending;     /* queued, or in the hands of release_run */
	struct mutex running;
};

void release_queue_init(struct release_queue *queue);
void release_queue_destroy(struct release_queue *queue);

/* Any lock that is not below releases->lock may be held. */
void release_defer(struct ia *ia, struct release *release);
/*
 * Returns what is queued to the device. No lock is held; may block. When it returns, peers have
 * lost access: if another thread is in here, this one waits for it.
 */
void release_run(struct ia *ia);
/* Likewise, but drops what the device refuses to take back: the device is about to be closed. */
void release_run_final(struct ia *ia);

/* ---- ia.c ---- */

/*
 * A power of two. Caches of registrations hold up to a hundred thousand. Only the pages of the
 * table that are used take memory.
 */
#define LMR_CHAINS 65536

struct ia {
	struct obj obj;
	struct provider *provider;
	bool thread_safe; /* posts to one endpoint may come from several threads */
	/* opened under an RO_AWARE_ name: plain VIRTUAL memory may be ordered weakly */
	bool ro_aware;
	struct tp_dev *dev;
	const struct tp_attr *attr;
	struct mutex lock;
	unsigned creating;	    /* lock; calls that make an object without the lock */
	pthread_cond_t waiter_left; /* lock; a waiter has left an EVD or CNO that is going away */
	struct service service;
	bool failed; /* lock; the device has failed or was removed, which was reported */
	/* lock; the device has called up_qp_last_receive, so it may be waited for */
	bool says_last_receive;
	struct evd *async_evd;	  /* made by open; NULL if it was borrowed or is out of scope */
	struct evd *borrowed_evd; /* loan_lock; the asynchronous EVD of another IA */
	struct ia *next_borrower; /* loan_lock */
	/*
	 * lock; takes the completions of endpoints without an EVD for them; made when first needed
	 */
	struct evd *sink;
	struct spinlock lmr_lock;
	struct lmr **lmrs; /* lmr_lock; LMR_CHAINS chains: the live ones by context */
	struct release_queue releases;
	struct wakefds wakefds; /* of the waiters */
};

/* ---- fork.c; in the child, *_after_fork give up the state of threads that are not there ---- */

/* From here on a child of fork(2) begins without objects. */
void fork_watch(void);

void providers_after_fork(void);
void async_evds_after_fork(void);
void cookies_after_fork(void);
void service_after_fork(struct ia *ia);
void ep_after_fork(struct ep *ep);

/* ---- async_error.c: asynchronous errors, and the EVDs that take them ---- */

/* Posts an asynchronous error to all EVDs that take those of this IA. ia->lock held. */
void async_error_post_locked(struct ia *ia, DAT_EVENT_NUMBER number, DAT_HANDLE handle,
			     DAT_COUNT reason);

/* Sends the asynchronous errors of @ia to an EVD that another IA owns, until it is returned. */
DAT_RETURN async_evd_borrow(struct ia *ia, DAT_EVD_HANDLE evd);
void async_evd_return(struct ia *ia);
/* @evd, retired already, is going away: its borrowers are without an EVD from here on. */
void async_evd_revoke(const struct evd *evd);
/* Does another IA use an EVD of @owner? */
bool async_evd_is_lent(const struct ia *owner);
/* The handle that dat_ia_open and dat_ia_query show. */
DAT_EVD_HANDLE async_evd_handle(struct ia *ia);

/* ---- attr.c ---- */

#define CQ_RESERVE 64 /* entries of the device's largest completion queue kept for markers */

/* The longest queue of an EVD that a consumer may ask for. */
DAT_COUNT attr_max_evd_qlen(const struct ia *ia);
/* Work requests that the request queue of such an endpoint must hold. */
unsigned attr_ep_work_requests(const struct ia *ia, const DAT_EP_ATTR *attr);
void attr_ia(const struct ia *ia, DAT_IA_ATTR *attr);
void attr_provider(const struct ia *ia, DAT_PROVIDER_ATTR *attr);
void attr_ep_default(const struct ia *ia, DAT_EP_ATTR *attr);
/*
 * Checks what a consumer asked for and fills in what it left open. @bad is the status of a value
 * out of range.
 */
DAT_RETURN attr_ep_check(const struct ia *ia, const DAT_EP_ATTR *asked, DAT_RETURN bad,
			 DAT_EP_ATTR *attr);
/* Receives that a shared receive queue can have; 0: there are none. */
DAT_COUNT attr_max_srq_dtos(const struct ia *ia);

/* ---- evd.c: the object; evd_queue.c: its events; evd_wait.c: dequeue and wait ---- */

struct queued_event {
	DAT_EVENT event;
	bool notify;  /* ends a wait, triggers the CNO */
	bool bounded; /* qlen limits its stream */
	/* the slot of an SRQ's receive, which is free when the consumer takes the event */
	struct req *receive;
};

/* A circular buffer that grows; count events from head on. */
struct event_queue {
	struct queued_event *slots;
	unsigned size, head, count; /* size is a power of two */
};

enum evd_role {
	EVD_ROLE_RECV,
	EVD_ROLE_REQUEST,
	EVD_ROLE_CONNECT,
	EVD_ROLES,
};

/* Why dequeue and wait can't just poll the completion queue. */
enum evd_slow_path {
	EVD_NO_CQ = 1 << 0,  /* fixed */
	EVD_WAITER = 1 << 1, /* a thread is in dat_evd_wait: no other one may take events */
	EVD_UNWAITABLE = 1 << 2,
	EVD_CLOSING = 1 << 3,	  /* it is being freed: the waiter leaves */
	EVD_RELEASE_DUE = 1 << 4, /* release_run comes before the consumer sees the event */
	EVD_RECEIVES = 1 << 5,	  /* events of shared receive queues are queued */
	/* an asynchronous event was dropped, and that was not reported yet */
	EVD_OVERFLOWED = 1 << 6,
};

/*
 * The receives of a shared receive queue, as those who take completions see them. A slot is what
 * completions expect of a request: it leads to its ring, which is of no endpoint and never drains.
 * The slots are not in order, so the ring has no array; its tail counts the posts, its head the
 * slots that came back.
 */
struct recv_pool {
	struct ring ring;
	_Atomic(struct req *) returned; /* free slots that came back since the poster looked */
	_Atomic unsigned queued;	/* completed slots whose event is in the queue of an EVD */
	unsigned slots;			/* ia->lock; how many there are */
	struct pool_share *shares;	/* ia->lock; the EVDs of its receives */
};

/*
 * The slot is free. Any thread: the poster takes all that came back at once, so a slot that is the
 * first one again is as good as the one that was there.
 */
static ALWAYS_INLINE void pool_return(struct recv_pool *pool, struct req *slot)
{
	struct req *first = atomic_load_explicit(&pool->returned, memory_order_relaxed);

	do
		slot->next_free = first;
	while (!atomic_compare_exchange_weak_explicit(&pool->returned, &first, slot,
						      memory_order_release, memory_order_relaxed));
	atomic_fetch_add_explicit(&pool->ring.head, 1, memory_order_release);
}

static inline struct recv_pool *pool_of(const struct req *slot)
{
	return container_of(slot->ring, struct recv_pool, ring);
}

/*
 * Endpoints of one shared receive queue have this EVD for their receives: together they have at
 * most as many completions there as the queue has slots. ia->lock.
 */
struct pool_share {
	struct recv_pool *pool;
	struct evd *evd;
	unsigned eps;	/* how many */
	unsigned depth; /* completions for which the EVD has room */
	struct pool_share *next_of_evd;
	struct pool_share *next_of_pool, **back_of_pool;
};

struct evd {
	struct obj obj;
	DAT_EVD_FLAGS flags; /* fixed */
	bool is_sink;	     /* fixed; events are dropped */
	struct tp_cq *cq;    /* fixed until it is destroyed; NULL without DTO and RMR_BIND */
	struct spinlock lock;
	unsigned slow_path;	  /* lock; enum evd_slow_path */
	bool destroyed;		  /* lock; only endpoints of other IAs keep its slot */
	bool wait_satisfied;	  /* lock; what arrived ends the wait */
	bool enabled;		  /* lock */
	DAT_COUNT qlen;		  /* lock; what the consumer may use */
	DAT_COUNT threshold;	  /* lock; of the waiter */
	struct event_queue queue; /* lock */
	/* lock; queued events of the streams that qlen limits: software, CR, asynchronous */
	unsigned bounded;
	struct tp_wc polled; /* lock; what the slow path of dequeue translates */
	unsigned notifying;  /* lock; queued events that notify */
	unsigned receives;   /* lock; queued events of shared receive queues */
	unsigned reserved;   /* lock; slots kept free for connection events */
	/* lock; slots kept free for flushes: at most all transfers of the attached roles */
	unsigned dto_depth;
	/* lock; wakes the waiter for everything that is not a completion; -1: none sleeps */
	int wakefd;
	bool woken;				/* lock; wakefd was signalled */
	struct watch watch;			/* its completion channel */
	struct evd *next_missed, **back_missed; /* cno->lock; on the list of its CNO, else NULL */
	struct cno *cno;			/* ia->lock and lock */
	/* lock; DAT_EVD_STATE_CONFIG_* that follows from the roles, 0 while there are none */
	unsigned config;
	unsigned notify_roles, solicited_roles; /* lock; attached roles that ask for these modes */
	unsigned roles[EVD_ROLES];		/* lock; how many endpoints use it as what */
	unsigned draining; /* ia->lock and lock; draining endpoints: arm for every completion */
	struct pool_share *shares; /* ia->lock */
};

/* Not only with DAT_EVD_RMR_BIND_FLAG: no provider has asked for that. */
static inline bool evd_takes_binds(const struct evd *evd)
{
	return evd && !evd->is_sink;
}

/* The handle that an endpoint with it shows. */
static inline DAT_EVD_HANDLE evd_shown(struct evd *evd)
{
	return evd && evd->is_sink ? DAT_HANDLE_NULL : evd;
}

/*
 * Between the two an object is made without ia->lock, so that connection events are handled
 * meanwhile; the IA is not destroyed. False: the IA has been closed.
 */
bool ia_creation_begin(struct ia *ia);
void ia_creation_end_locked(struct ia *ia);
/* All but publishing; for ia.c too (asynchronous EVD). ia->lock held. */
DAT_RETURN evd_new_locked(struct ia *ia, DAT_COUNT qlen, struct cno *cno, DAT_EVD_FLAGS flags,
			  struct evd **evd);
/* The private EVD of @ia that drops events. ia->lock held. */
DAT_RETURN evd_sink_locked(struct ia *ia, struct evd **evd);
/* ia->lock held; nothing refers to it any more. */
void evd_destroy_locked(struct evd *evd);
/* Wakes the waiter, if any, and waits until it has left, without ia->lock meanwhile. */
void evd_expel_waiter_relock(struct evd *evd);

/*
 * Roles for an endpoint of @ia, whose lock is held. attach makes room, and takes a use. Only in the
 * connect role the EVD may belong to another IA. An attachment with the attributes @replaced, which
 * is detached next, makes its room available; NULL: there is none.
 */
DAT_RETURN evd_attach_locked(struct ia *ia, struct evd *evd, enum evd_role role,
			     const DAT_EP_ATTR *attr, const DAT_EP_ATTR *replaced);
void evd_detach_locked(struct ia *ia, struct evd *evd, enum evd_role role, const DAT_EP_ATTR *attr);
/*
 * One more or one less endpoint with the receives of @pool has @evd for them, after the role was
 * attached and before it is detached. ia->lock held.
 */
DAT_RETURN evd_attach_pool_locked(struct evd *evd, struct recv_pool *pool);
void evd_detach_pool_locked(struct evd *evd, struct recv_pool *pool);
/* All EVDs of @pool, of @ia, get room for @depth completions of it, or none does. */
DAT_RETURN evd_grow_pool_locked(struct ia *ia, struct recv_pool *pool, unsigned depth);
void evd_shrink_pool_locked(struct ia *ia, struct recv_pool *pool, unsigned depth);
/* One more or one less endpoint drains into @evd: then every completion matters. ia->lock held. */
void evd_set_draining_locked(struct evd *evd, bool on);

/* Reserves @n more slots for connection events, so that evd_post_reserved can't fail. */
int evd_reserve(struct evd *evd, unsigned n);
void evd_unreserve(struct evd *evd, unsigned n);
void evd_post_reserved(struct evd *evd, const DAT_EVENT *event);
/* An event of a stream that qlen limits. -ENOSPC: full, -ENOENT: the EVD is going away. */
int evd_post_bounded(struct evd *evd, const DAT_EVENT *event);
/* A request that was never posted, so in no ring, completes as flushed. False: no memory. */
bool evd_post_flushed(struct evd *evd, const struct req *req);

/* Moves completions into the queue and notifies. False: no memory, some are still in the CQ. */
bool evd_drain(struct evd *evd);
/* Completes as flushed what is still in @ring, in order. False: no memory, some are left. */
bool evd_flush(struct evd *evd, struct ring *ring);
/*
 * Empties the completion queue; drops what belongs to @ep, whose QP is gone, and queues the rest.
 */
void evd_purge_ep(struct evd *evd, const struct ep *ep);
/*
 * Arms the completion queue anew, and takes what is there. What happened while notification was
 * off triggers the CNO once. ia->lock held.
 */
void evd_trigger_backlog(struct evd *evd);

/*
 * Is a read before the position @until outstanding, although something behind it is flushed? Then
 * the device has lost the read: what is outstanding is flushed when the connection has ended.
 */
bool completion_is_behind_lost_read(const struct ring *ring, unsigned until);
/*
 * The endpoints define this, and the events call it: a completion of @ep took the slow path. Any
 * thread; evd->lock of its EVD held.
 */
void ep_completion_seen(struct ep *ep, const struct req *req, DAT_DTO_COMPLETION_STATUS status);

/* ---- evd_channel.c ---- */

/* Each completion from here on wakes a waiter or the service thread. ia->lock held. */
void evd_watch_locked(struct evd *evd);
/*
 * An EVD whose queue is not armed, and whose events may have triggered nothing: takes what is
 * there. It remains such an EVD, or is armed. True: there was something. ia->lock held.
 */
bool evd_look_missed_locked(struct evd *evd);
/* For the next completion that matters. Then the queue is looked at again: it makes no event. */
void evd_arm(struct evd *evd);

/* ---- evd_queue.c ---- */

/* ia->lock held. */
DAT_RETURN evd_set_qlen_locked(struct evd *evd, DAT_COUNT qlen);

/* ---- cno.c ---- */

struct wait_entry;

struct cno {
	struct obj obj;
	struct spinlock lock;
	struct evd *latched; /* lock; the first trigger since the last delivery */
	/* lock; threads in dat_cno_wait that were not woken yet, oldest first */
	struct wait_entry *wait_list;
	unsigned waiters;	       /* lock; threads in dat_cno_wait */
	unsigned takers;	       /* lock; those that are awake and take the latch next */
	unsigned broadcasts;	       /* lock; how often all waiters were woken without an EVD */
	bool closing;		       /* lock; abrupt close */
	unsigned evds;		       /* ia->lock; how many EVDs refer to it */
	DAT_OS_WAIT_PROXY_AGENT agent; /* lock; one-shot */
	bool agent_due;		       /* lock; it is to be called */
	struct evd *agent_evd;	       /* lock; the EVD to call it with */
	struct work work;	       /* runs the agent on the service thread, unlocked */
	/* an epoll set, with the completion channels of its EVDs */
	struct watch watch;
	/*
	 * lock; EVDs whose completion queue is not armed, or whose events triggered nothing,
	 * because the latch was set
	 */
	struct evd *missed, **missed_end;
	unsigned missed_count; /* lock; how many these are */
};

/* evd->lock of @evd is held. */
void cno_trigger_locked(struct cno *cno, struct evd *evd);
/*
 * Would a trigger change anything? If not, the queue of @evd needs no interrupt until the latch is
 * taken. evd->lock of @evd held.
 */
bool cno_awaits_trigger(struct cno *cno, struct evd *evd);
/*
 * Takes a use for one more EVD. False: it is no CNO of @ia, or has just been freed, for which no
 * lock is needed. ia->lock held.
 */
bool cno_attach_locked(struct ia *ia, DAT_CNO_HANDLE cno);
/* @freed: the EVD is going away; the last one wakes all waiters. ia->lock held. */
void cno_detach_locked(struct cno *cno, bool freed);
/*
 * @cno, which was attached, or none if that is NULL, takes the place of the CNO that @evd has, if
 * any, and that is detached. ia->lock held.
 */
void cno_replace_locked(struct evd *evd, struct cno *cno, bool freed);
/* Abrupt close: wakes all waiters and waits until they have left, without ia->lock meanwhile. */
void cno_expel_waiters_relock(struct cno *cno);
void cno_destroy(struct cno *cno); /* no lock is held */

/* ---- pz.c, lmr.c, cookie.c ---- */

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

void pz_destroy(struct pz *pz);
void lmr_destroy(struct lmr *lmr); /* retired already */
/* LMR_CHAINS empty chains; NULL: no memory. */
struct lmr **lmr_table_new(void);
void lmr_table_destroy(struct lmr **table);
/* The live LMR of that context, held; NULL if there is none. */
struct lmr *lmr_hold(struct ia *ia, DAT_LMR_CONTEXT context);
/* Likewise; NULL also if another thread looks one up. */
struct lmr *lmr_try_hold(struct ia *ia, DAT_LMR_CONTEXT context);

/* Is the segment not empty, and within the LMR? */
static inline bool lmr_covers(const struct lmr *lmr, const DAT_LMR_TRIPLET *segment)
{
	DAT_VADDR first = segment->virtual_address, last = first + segment->segment_length - 1;

	return lmr->address <= first && first <= last && last <= lmr->last;
}

/* The name of shared memory: a copy of it that lives as long as it is used. */
struct cookie;

/*
 * A use of @bytes for @span. DAT_INVALID_STATE: the span is not shared memory, or the cookie is in
 * use for other memory.
 */
DAT_RETURN cookie_get(DAT_LMR_COOKIE bytes, const struct span *span, struct cookie **cookie);
void cookie_put(struct cookie *cookie);
DAT_LMR_COOKIE cookie_bytes(struct cookie *cookie);

/* ---- rmr.c ---- */

enum binding_flags {
	BINDING_COMPLETE = 1 << 0, /* the bind has completed successfully */
	BINDING_WINDOW = 1 << 1,   /* the window is bound for it, to its LMR */
};

/* One bind: what the window covers from its completion on. NULL for an LMR: nothing. */
struct binding {
	struct rmr *rmr;
	struct binding *next; /* rmr->lock; posted after this one, or the next spare one */
	struct lmr *lmr;      /* held */
	DAT_VADDR address;
	DAT_VLEN size;
	DAT_MEM_PRIV_FLAGS priv;
	DAT_RMR_CONTEXT key;  /* rmr->lock; the window's own after this bind, bound or not */
	unsigned flags;	      /* rmr->lock; enum binding_flags */
	struct tp_mr *region; /* the range registered by itself, where no window can be bound */
	DAT_RMR_CONTEXT region_key;
	struct release release; /* what goes back to the device when the binding is over */
	bool last;		/* its release frees the RMR, too */
};

struct rmr {
	struct obj obj;
	struct pz *pz; /* held */
	struct spinlock lock;
	/* lock; NULL: the device has no windows, or it was released after a failed bind */
	struct tp_mw *mw;
	/* lock; as posted; exactly one is complete: that is in force */
	struct binding *bindings, *latest;
	struct binding *spares; /* lock; none while the window is lost */
	struct binding unbound; /* lock; in force at first, and after a bind that failed */
	bool freed;		/* lock; the last bind in flight destroys it */
	bool reuses; /* lock; it has a window and was not freed: bindings become spares */
};

/* Is the window bound for it? Else its range, if any, is registered. */
static inline bool binding_uses_window(const struct binding *binding)
{
	return binding->flags & BINDING_WINDOW;
}

/* As the bind is posted: it comes after all others. */
static inline void binding_append_locked(struct rmr *rmr, struct binding *binding)
{
	assert_locked(&rmr->lock);
	debug_assert(!rmr->latest->next && !(binding->flags & BINDING_COMPLETE));
	binding->next = NULL;
	rmr->latest->next = binding;
	rmr->latest = binding;
}

/* For the post of a bind: a binding of @rmr that is all zero. NULL: no memory. */
struct binding *binding_new(struct rmr *rmr);
/* As binding_new, but a spare one if there is any. */
struct binding *binding_get(struct rmr *rmr);
/* Makes a spare one of a binding that was never appended. False: the caller frees it. */
bool binding_reuse(struct rmr *rmr, struct binding *binding);
/* The context by which peers use it; 0: nothing is bound. */
DAT_RMR_CONTEXT binding_context(const struct binding *binding);
/* What was bound, as the consumer asked for it. */
DAT_LMR_TRIPLET binding_triplet(const struct binding *binding);
/*
 * Completion of a bind, called as its slot is retired. Takes rmr->lock. True: release_run must be
 * called before the consumer sees the completion.
 */
bool rmr_bind_completed(struct binding *binding, DAT_DTO_COMPLETION_STATUS status);
void rmr_destroy(struct rmr *rmr); /* retired already; binds may be in flight */

/* ---- srq.c ---- */

/* As the gates of an endpoint, see there. */
#define SRQ_OPEN   0x0DA70FEDu
#define SRQ_SHARED 0x0DA70FEFu

struct srq_slots;

struct srq {
	struct obj obj;
	_Atomic unsigned state; /* DAT_SRQ_STATE; written under ia->lock */
	/* SRQ_OPEN or SRQ_SHARED: post; else the slow path says why not */
	_Atomic unsigned gate;
	struct tp_srq *tp;
	struct recv_pool pool;
	struct req *spares; /* poster; free slots */
	struct spinlock post_lock;
	unsigned max_segments;	 /* fixed; of one receive */
	DAT_VLEN max_transfer;	 /* fixed; as an endpoint's */
	struct pz *pz;		 /* held */
	struct srq_slots *slots; /* ia->lock; the memory of all slots */
	DAT_COUNT low_watermark; /* ia->lock */
	bool watched;		 /* ia->lock; the event of the low watermark is to come */
};

/* Posted, and the consumer has not taken the completion. Its posts must not run beside this. */
static inline unsigned srq_outstanding(const struct srq *srq)
{
	return atomic_load_explicit(&srq->pool.ring.tail, memory_order_relaxed) -
	       atomic_load_explicit(&srq->pool.ring.head, memory_order_acquire);
}

void srq_after_fork(struct srq *srq);
/* Retired already, and no endpoint uses it. ia->lock held. */
void srq_destroy_locked(struct srq *srq);

/* ---- ep.c, conn.c, post.c ---- */

/* How far the end of a connection has come. */
enum ep_phase {
	PHASE_NONE,	 /* no connection, or it is not ending */
	PHASE_LINGERING, /* graceful disconnect: outstanding requests may still complete */
	PHASE_DRAINING,	 /* the end event is known, the QP is in error: the device flushes */
	PHASE_FLUSHING,	 /* state DISCONNECTED: flushes and the end event wait for memory */
};

struct ep_end {
	enum ep_phase phase;	/* ia->lock */
	DAT_EVENT_NUMBER event; /* ia->lock; the end event, from PHASE_DRAINING on */
	/* ia->lock; the peer disconnected; a failure still to come may be the reason */
	bool by_peer;
	bool evds_draining;	/* ia->lock; both EVDs report every completion */
	_Atomic bool requested; /* set before the state; the consumer has called disconnect */
	_Atomic bool failed;	/* a completion failed, not by flush */
	_Atomic bool flushed;	/* a completion was flushed though neither side disconnected */
	/* ia->lock; all receives that it took from the SRQ have completed; the device said so */
	bool last_receive;
	bool stray; /* ia->lock; completions may come of what was completed without the device */
};

/*
 * A request of ours behind the last one of a run of unsignalled requests. Its completion proves
 * that those before it have completed. request_evd->lock.
 */
struct ep_marker {
	struct req req;	 /* the tag of the post, in no ring */
	bool posted;	 /* it is in the QP */
	bool uncertain;	 /* the newest request it covers may have reached the QP after it */
	unsigned covers; /* all requests before this position of sends */
};

/* What dat_ep_connect was asked for last; for dat_ep_dup_connect. */
struct ep_target {
	struct sockaddr_storage remote;
	DAT_CONN_QUAL qual;
	DAT_CONNECT_FLAGS flags;
};

/*
 * The receives that were posted before a connection was begun, oldest first. None has completed, so
 * they are the oldest ones of the ring. dat_ep_modify posts them to a new queue pair. There is room
 * for as many as may be outstanding, so that a post never needs memory.
 */
struct early_recvs {
	char *records;
	size_t size; /* bytes */
	unsigned count;
};

/* No other object has these where an endpoint has its gates. */
#define EP_OPEN	  0x0DA70FE9u
#define EP_SHARED 0x0DA70FEBu

struct ep {
	struct obj obj;
	/*
	 * What a post reads first and last, in one word each. EP_OPEN: this is a live endpoint, no
	 * other thread may post to it, and a request may go to the transport (send_gate: it is
	 * connected) or a receive may (recv_gate: likewise; early receives take the slow path).
	 * EP_SHARED: so it is, but other threads may post, so a post takes send_lock or recv_lock.
	 * Anything else takes the slow path. They follow the state.
	 */
	_Atomic unsigned send_gate, recv_gate;
	_Atomic unsigned state; /* DAT_EP_STATE; written under ia->lock */
	/*
	 * dat_cr_accept has returned: requests may be posted before the connection is established
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
	 * By enum req_kind: bytes of a fast post of so many segments; 0: there may be none. Those
	 * of reads follow the state.
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

	struct ep_marker marker;
	struct ep_end end;
	struct work work; /* the data path saw something that ep_step_locked has to look at */

	/* ia->lock */
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
};

static ALWAYS_INLINE unsigned gate_value(const _Atomic unsigned *gate)
{
	return hot_load(unsigned, gate);
}

static inline bool gate_open(const _Atomic unsigned *gate)
{
	return gate_value(gate) == EP_OPEN;
}

/* The state is sequentially consistent against ring_push, see there. */
static inline unsigned ep_state(const struct ep *ep)
{
	return atomic_load_explicit(&ep->state, memory_order_seq_cst);
}

/*
 * After dat_cr_accept requests go to the queue: a server that polls its memory sees the peer's
 * write before the event ESTABLISHED, and answers at once.
 */
static inline bool ep_takes_early_requests(const struct ep *ep)
{
	return ep_state(ep) == DAT_EP_STATE_COMPLETION_PENDING && atomic_load(&ep->accepted);
}

/*
 * Marker race: a post finds on its way out that the connection is ending. If a marker was posted
 * meanwhile it does not cover the newest request of @ring, which may have been claimed before it
 * and posted after it. request_evd->lock held, if @ring is sends.
 */
void ep_marker_race(struct ep *ep, const struct ring *ring);
/*
 * Late flush: completes, on an endpoint that is disconnected, what was posted while it became so.
 * False: no memory. ia->lock held.
 */
bool ep_flush_late_locked(struct ep *ep);

/*
 * A bind is a request like the others, posted from rmr.c. When ep_post_begin says that there is
 * room, or ring_has_room and the gate is open, ep_claim_bind takes the next slot, and ep_posted
 * checks the result of the post. ep_post_end follows ep_post_begin in any case.
 */
bool ep_post_begin(struct ep *ep);
void ep_post_end(struct ep *ep);
struct req *ep_claim_bind(struct ep *ep, struct binding *binding, DAT_RMR_COOKIE cookie,
			  DAT_COMPLETION_FLAGS flags);
DAT_RETURN ep_posted(struct ep *ep, int err);
/* The state as posts of requests see it. */
DAT_EP_STATE ep_request_state(const struct ep *ep);
/* A post to an endpoint that is disconnected completes as flushed at once. */
DAT_RETURN ep_complete_flushed(const struct req *req, struct evd *evd);
/*
 * Those of @flags that have an effect: @plain ones, and UNSIGNALLED if the endpoint was @configured
 * so. Programs pass others, too, and every provider has ignored them.
 */
DAT_COMPLETION_FLAGS ep_effective_flags(DAT_COMPLETION_FLAGS flags, unsigned plain,
					DAT_COMPLETION_FLAGS configured);

/* What follows from the attributes, for posts. */
void ep_init_posts(struct ep *ep);
/* Sets limits[REQ_READ], before the gate is opened: while it is open they do not change. */
void ep_limit_reads(struct ep *ep);
/*
 * A receive of @nsge segments, those in the array of its ring, was posted to an endpoint that was
 * not connected. Serialised as posts of receives are.
 */
void ep_remember_recv(struct ep *ep, unsigned nsge, DAT_DTO_COOKIE cookie,
		      DAT_COMPLETION_FLAGS flags);

/* What changes the state; the table of moves is in conn.c. */
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

/* Is a call that is @trigger legal in the state of @ep? If not, the status names the state. */
DAT_RETURN ep_may(const struct ep *ep, enum trigger trigger);

/* Does what the table of moves says, unless the end event is known already. */
void ep_trigger_locked(struct ep *ep, enum trigger trigger);

/* The device or the completion queue failed: the connection, if any, is broken. ia->lock held. */
void ep_break_locked(struct ep *ep);
/* A peer's request for a connection. */
struct ep_request {
	struct tp_conn *conn;
	unsigned max_read_in, max_read_out; /* the peer's */
};

/* A request, which has the addresses of @conn, waits for the consumer's answer. */
void ep_request_locked(struct ep *ep, const struct tp_conn *conn);
/*
 * Accepts @request with @ep, which takes over its connection on success; @own: the request has
 * brought the endpoint. ia->lock held.
 */
DAT_RETURN ep_accept_locked(struct ep *ep, const struct ep_request *request, bool own,
			    const void *private_data, unsigned size);
/* Tears down QP and rings. Retired already. No lock is held: it waits for upcalls. */
void ep_destroy(struct ep *ep);
/*
 * An invisible endpoint for a request, without zone and EVDs: the consumer sets them before it
 * accepts. ia->lock held.
 */
DAT_RETURN ep_new_tentative_locked(struct ia *ia, const struct ep_request *request, struct ep **ep);
/* It was never shown to the consumer, and has no QP. ia->lock held. */
void ep_discard_locked(struct ep *ep);

/* ---- sp.c, cr.c ---- */

struct sp {
	struct obj obj; /* a PSP or an RSP */
	DAT_CONN_QUAL conn_qual;
	DAT_PSP_FLAGS flags;	      /* of an RSP: does the provider make its endpoint? */
	struct evd *evd;	      /* held while it listens */
	struct tp_listener *listener; /* ia->lock; NULL: of an RSP whose request has arrived */
	struct ep *ep;		      /* of an RSP; reserved while it listens, may be NULL */
};

struct cr {
	struct obj obj;
	struct ep_request request;
	struct sp *sp; /* may be stale: the CR outlives it */
	/* waits for the answer; the provider made it if it is tentative. NULL: there is none */
	struct ep *ep;
	struct sockaddr_storage remote;
	DAT_COUNT private_data_size;
	char private_data[256]; /* the longest that any transport delivers */
};

/* The service point of @ia that listens on that port, or NULL. ia->lock held. */
struct sp *sp_on_port_locked(struct ia *ia, uint16_t port);
/* The request of an RSP has arrived: no other will. ia->lock held. */
void sp_stop_locked(struct sp *sp);
void sp_destroy_locked(struct sp *sp); /* ia->lock held */
/*
 * Rejects the request, in the consumer's name or the provider's, and destroys an endpoint that was
 * made for it. Retired already. No lock is held.
 */
void cr_destroy(struct cr *cr, bool by_consumer);

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
DAT_RETURN rsp_create(DAT_IA_HANDLE ia, DAT_CONN_QUAL qual, DAT_EP_HANDLE ep, DAT_EVD_HANDLE evd,
		      DAT_RSP_HANDLE *rsp);
DAT_RETURN rsp_query(DAT_RSP_HANDLE rsp, DAT_RSP_PARAM_MASK mask, DAT_RSP_PARAM *param);
DAT_RETURN rsp_free(DAT_RSP_HANDLE rsp);

DAT_RETURN cr_query(DAT_CR_HANDLE cr, DAT_CR_PARAM_MASK mask, DAT_CR_PARAM *param);
DAT_RETURN cr_accept(DAT_CR_HANDLE cr, DAT_EP_HANDLE ep, DAT_COUNT private_data_size,
		     const DAT_PVOID private_data);
DAT_RETURN cr_reject(DAT_CR_HANDLE cr);
DAT_RETURN cr_handoff(DAT_CR_HANDLE cr, DAT_CONN_QUAL qual);

#endif
