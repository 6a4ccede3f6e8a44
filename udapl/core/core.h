/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The IA, its service thread, all locks and their order. The map of the code is doc/design.md.
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
 *	provider_lock		mutex (names.c); the list of announced names
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
#ifndef UDAPL_CORE_H
#define UDAPL_CORE_H

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
#include "base/status.h"
#include "base/thread.h"
#include "base/timer.h"
#include "object.h"
#include "ring.h"
#include "transport.h"

/* ns; an event that found no memory is tried again after this time */
#define NO_MEMORY_RETRY UINT64_C(10000000)

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

/* One IA name. Never freed: handles, stale ones included, lead to its table. */
struct provider {
	/* of the edition of DAT for which the name was announced: only the entry room knows it */
	const void *table;
	DAT_PROVIDER_INFO info;
	char *params;	/* provider_lock; the IA params of dat.conf */
	bool announced; /* provider_lock; between dat_provider_init and dat_provider_fini */
	struct provider *next;
};

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

void service_after_fork(struct ia *ia);

/* ---- watch.c: descriptors on which the service thread sleeps, unless a waiter does ---- */

struct watch;

struct watch_ops {
	/*
	 * Returns whether the service thread must learn of each completion at once. What changes it
	 * calls watch_take_back afterwards. watch->lock held.
	 */
	bool (*is_urgent_locked)(struct watch *watch);
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
	bool looked_at;	      /* lock; the service thread looks now and then */
	unsigned waiters;     /* lock; threads that sleep on it: from lend to return */
	bool wait_ended;      /* lock; a wait has ended since the last look */
	unsigned quiet_looks; /* lock; looks in a row that found nothing */
	struct timer timer;   /* the next look */
	struct work work;     /* a look at once */
};

/* The caller initialises the lock, whose rank it knows. */
void watch_init(struct watch *watch, struct ia *ia, const struct watch_ops *ops);
/* Puts @fd into the epoll set of @parent, or else of the service thread. */
int watch_open(struct watch *watch, int fd, struct watch *parent);
/* Takes it out again. ia->lock held. */
void watch_close_locked(struct watch *watch);
/* Moves it to the epoll set of another parent. ia->lock held. */
void watch_move_locked(struct watch *watch, struct watch *parent);
/* It is not armed any more: from now on the service thread looks. ia->lock held. */
void watch_start_looks_locked(struct watch *watch);
/*
 * A waiter sleeps on it from lend to return. True, always if it is urgent: the service thread or
 * the CNO sleeps on it again, so the caller arms, and has the service thread look.
 */
void watch_lend(struct watch *watch);
bool watch_return(struct watch *watch);
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
	bool overtaken;	      /* the device has refused the region: releases behind it came first */
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
/*
 * As release_run, for a device that is about to be closed: what it refuses to take back is dropped.
 * No lock is held.
 */
void release_run_final(struct ia *ia);

/* ---- the IA ---- */

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

/*
 * Handles what an epoll set of @ia reported. The object may have been freed since the kernel named
 * its watch. Its memory stays readable; that of a new one in the same slot is all zero until it has
 * this IA. ia->lock held.
 */
static inline void watch_report_locked(struct ia *ia, const struct epoll_event *event)
{
	struct watch *watch = event->data.ptr;

	assert_locked(&ia->lock);
	if (watch->ia == ia && watch->ops)
		watch->ops->ready_locked(watch, event->events & (EPOLLERR | EPOLLHUP));
}

/*
 * Between the two an object is made without ia->lock, so that connection events are handled
 * meanwhile; the IA is not destroyed. False: the IA has been closed.
 */
bool ia_creation_begin(struct ia *ia);
void ia_creation_end_locked(struct ia *ia);

/* ---- attr.c ---- */

#define CQ_RESERVE 64 /* entries of the device's largest completion queue kept for markers */

/* The longest queue of an EVD that a consumer may ask for. */
DAT_COUNT attr_max_evd_qlen(const struct ia *ia);
/* Returns how many work requests a read of @segments takes: one has max_read_wr_sge at most. */
static inline uint64_t attr_read_work_requests(const struct tp_attr *attr, uint64_t segments)
{
	return (segments + attr->max_read_wr_sge - 1) / attr->max_read_wr_sge;
}
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

#endif
