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
 *	srq->depth_lock		mutex; resizing the shared receive queue, and arming it
 *	ia->lock		mutex; connection management: EP states, service points, connection
 *				requests, timers, roles and CNO of each EVD. The service thread
 *				holds it while it handles anything.
 *	loan_lock		mutex (async_error.c); which IA borrows whose asynchronous EVD
 *	dev->result_lock	mutex (verbs/cm_event.c); results of connection manager calls
 *	cookie_lock		mutex (cookie.c); cookies
 *	provider_lock		mutex (names.c); the list of announced names
 *	cno->watch.lock		mutex; who sleeps on the completion channels of its EVDs
 *	evd->watch.lock		mutex; who sleeps on the completion channel; arming the queue
 *	evd->cq_lock		mutex; resizing the completion queue
 *	ep->send_lock		spin, as are recv_lock and srq->post_lock; claiming a slot and
 *				posting, in one direction, on a thread-safe IA; recv_lock on any
 *				for early receives, which dat_ep_modify moves
 *	evd->lock		spin; the event queue, and polling of its completion queue. The only
 *				lock of the fast paths.
 *	cq->stray_lock		spin (verbs/stray.c); orphaned queue pairs of a completion queue
 *	ia->ep_windows_lock	spin; the windows whose scope is an endpoint
 *	rmr->lock		spin; the bindings of a window
 *	dev->windows_lock	spin (verbs/window.c); the windows of queue pairs
 *	ia->lmr_lock		spin; the live LMRs by context
 *	ia->releases.lock	spin; the queue of deferred releases
 *	cno->lock		spin; the latch, the wait list, the EVDs that missed a trigger
 *	pool->lock		spin (object.c); the free slots of one kind of object
 *	service->lock		spin; the queue of work for the service thread
 *	ia->wakefds.lock	spin; the descriptors kept for threads that sleep
 *	pd->qps_lock		spin (verbs/mem.c); the queue pairs of a protection domain
 *   in libdat (dat/libdat.h), which shares no thread of control with the above while it holds one
 *	registry.lock		mutex; names, dat.conf, open IAs
 *	the handle table's	mutex (dat/handle.c); slots of IA handles
 *
 * A child of fork(2) releases those that outlive an IA, and all that a proxy agent's thread takes
 * next (fork.c).
 *
 * Under a spinlock no tp_* call is made but tp_cq_poll and the posts.
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

#include <edition.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/port.h"
#include "base/status.h"
#include "base/thread.h"
#include "base/timer.h"
#include "counters.h"
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

/* Returns when a call that begins now times out, on the clock of tp_now. */
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

/* Of a thread that polls its descriptors: do others want its processor? */
struct busy_poll {
	uint64_t free;	     /* service thread; ns of rounds since others have had the processor */
	uint64_t rest;	     /* service thread; ns that it sleeps as usual since they had */
	uint64_t stalled;    /* service thread; when they had had it very long */
	uint64_t stall_rest; /* service thread; ns that it slept as usual then */
	_Atomic uint64_t rests_until;
};

/* Takes note of a round from @began to @now; after a long one the thread rests for some time. */
void busy_poll_round(struct busy_poll *busy, uint64_t began, uint64_t now);
/* May the thread poll? Any thread. */
bool busy_poll_allowed(const struct busy_poll *busy, uint64_t now);

struct service {
	pthread_t thread;
	bool started;
	int epoll;  /* the set on which it sleeps: wakefd, dev_fds, completion channels */
	int wakefd; /* work, an earlier timer, up_wake, stop */
	int dev_fds[TP_DEV_FDS];
	_Atomic bool dev_due;  /* up_wake was called: tp_dev_progress is due */
	uint64_t sleeps_until; /* ia->lock; a timer later than this wakes nobody; 0: not asleep */
	struct spinlock lock;
	struct work *work, **work_end; /* lock */
	struct work *running;	       /* lock; the unlocked work being run */
	bool stop;		       /* lock */
	struct timer_heap timers;      /* ia->lock */
	struct busy_poll busy;
};

/*
 * dat_ia_open and dat_ia_close call the next four, in that order, and open the device after the
 * first: from there to service_close it may call up_wake. No lock is held. Those that make
 * something return 0 or a negative errno. This one makes the descriptors on which the thread
 * sleeps.
 */
int service_open(struct ia *ia);
/* Adds the descriptors of the device, which is open, and starts the thread. */
int service_start(struct ia *ia);
/* Stops the thread, and waits for its end. Not for the service thread itself. */
void service_stop(struct ia *ia);
/* Closes what service_open made. */
void service_close(struct ia *ia);

/* Returns whether the calling thread is the service thread, as in a proxy agent. */
bool service_is_current(const struct ia *ia);

/*
 * Has the service thread run @work once, soon. If it is queued already that has no effect. Any
 * thread, with any locks held.
 */
void service_queue_work(struct ia *ia, struct work *work);
/*
 * Takes @work out of the queue, if it is there. Not for unlocked work: ia->lock, which is held,
 * keeps all other work from running.
 */
void service_cancel_work_locked(struct ia *ia, struct work *work);
/*
 * For unlocked work: takes @work out of the queue, and waits for its end if it is running, but on
 * the service thread itself. No lock is held.
 */
void service_cancel_unlocked_work(struct ia *ia, struct work *work);

/*
 * Has the service thread listen to the connection manager, or not; returns whether that worked. The
 * descriptor stays in the set: to add one that is an epoll set itself, as libfabric's is, costs the
 * kernel a look at everything in that. For attend.c, which knows who listens instead.
 */
bool service_listen(struct ia *ia, bool listen);
/*
 * Wakes the service thread if it sleeps beyond a deadline that has become earlier. It sleeps on if
 * that is the device's, and nobody listens: that ends soon, and so by a timer.
 */
void service_check_deadline_locked(struct ia *ia);

/*
 * Has the service thread call @run at @deadline, with ia->lock held, unless the timer is set anew
 * or cancelled before. ia->lock is held.
 */
void timer_set_locked(struct ia *ia, struct timer *timer, uint64_t deadline,
		      void (*run)(struct timer *));
/* Cancels the timer, if it is set. ia->lock is held, so it is not running. */
void timer_cancel_locked(struct ia *ia, struct timer *timer);

/* In the child after a fork: forgets the work, and ends the thread if it is the one that forked. */
void service_after_fork(struct ia *ia);

/* ---- attend.c: who listens to the connection manager, if not the service thread ---- */

struct attendance {
	bool silent;   /* ia->lock; the service thread does not listen */
	bool lent;     /* ia->lock; a waiter listens, and wakes up when the device is due */
	uint64_t due;  /* ia->lock; ... at this time, as far as it knows */
	bool follows;  /* ia->lock; its wait came soon after another one */
	uint64_t last; /* ia->lock; when such a wait last began or ended */
	struct timer back;
	_Atomic bool away;	 /* nobody listens, until the timer ends that */
	_Atomic unsigned others; /* whoever wants to be told, and does not come to listen */
};

/*
 * For a call that makes the transport cause events: of a connection that is local or fast, some
 * arrive before the call returns. From here to attend_call_end_locked the service thread does not
 * listen: it would wake up for each event, wait for ia->lock, which the call holds throughout, and
 * be woken up once more.
 */
void attend_call_begin_locked(struct ia *ia);
/* Handles the events that have arrived since attend_call_begin_locked. */
void attend_call_end_locked(struct ia *ia);

/*
 * For a thread that is about to sleep until there is an event of a connection: returns the
 * descriptor on which it sleeps, too, until *due at most; or -1, if it is left to others to wake
 * the thread. Takes ia->lock, as the next two do.
 */
int attend_wait_begin(struct ia *ia, uint64_t *due);
/*
 * The descriptor is readable, or in error; or *due has come, and from here on that is the next
 * time. @ready is for tp_dev_progress. Returns false if the thread does not listen any more.
 */
bool attend_wait_ready(struct ia *ia, unsigned ready, bool in_error, uint64_t *due);
/* The thread does not sleep any more. @listens: it has slept on the descriptor to the end. */
void attend_wait_end(struct ia *ia, bool listens);

/* For dat_ia_close, before service_stop, when no thread waits. */
void attend_close(struct ia *ia);

/*
 * An object more, or less, makes events of connections known to threads that do not come to listen.
 * Any thread, with any locks.
 */
static inline void attend_others_more(struct attendance *attendance)
{
	atomic_fetch_add(&attendance->others, 1);
}

static inline void attend_others_less(struct attendance *attendance)
{
	atomic_fetch_sub(&attendance->others, 1);
}

/*
 * For a poll of an EVD for connections that has found nothing, and for a wait for completions: has
 * the service thread listen, if nobody does. It does not wait for ia->lock; whoever holds that
 * moves the connections meanwhile.
 */
void attend_recall(struct ia *ia);

/* ---- watch.c: descriptors on which the service thread sleeps, unless a waiter does ---- */

struct watch;

struct watch_ops {
	/*
	 * Returns whether the service thread must learn of each completion at once. Whoever makes
	 * that true calls watch_take_back afterwards. watch->lock is held.
	 */
	bool (*is_urgent_locked)(struct watch *watch);
	/* Arms what is not armed. ia->lock and watch->lock are held. */
	void (*arm_locked)(struct watch *watch);
	/* Takes what is there. Returns whether there was something. ia->lock is held. */
	bool (*look_locked)(struct watch *watch);
	/*
	 * The descriptor is readable, or @in_error. The object of the watch may have been freed
	 * since the kernel named it. ia->lock is held.
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
	bool lent;	      /* lock; it is in no epoll set: waiters sleep on it, or have */
	bool looked_at;	      /* lock; the service thread looks now and then */
	unsigned waiters;     /* lock; threads that sleep on it: from lend to return */
	bool wait_ended;      /* lock; a wait has ended since the last look */
	unsigned quiet_looks; /* lock; looks in a row that found nothing */
	struct timer timer;   /* the next look */
	struct work work;     /* a look at once */
};

/* For the owner of a new watch, which initialises the lock, because it knows the rank. */
void watch_init(struct watch *watch, struct ia *ia, const struct watch_ops *ops);
/*
 * Puts @fd into the epoll set of @parent, or, if that is NULL, of the service thread. Returns 0 or
 * a negative errno.
 */
int watch_open(struct watch *watch, int fd, struct watch *parent);
/* Takes the descriptor out of that set, and ends the looks. ia->lock is held. */
void watch_close_locked(struct watch *watch);
/*
 * Moves the descriptor to the epoll set of another parent; NULL: of the service thread. The caller
 * arms afterwards. ia->lock is held.
 */
void watch_move_locked(struct watch *watch, struct watch *parent);
/* From here on the service thread looks, because the queues are not armed. ia->lock is held. */
void watch_start_looks_locked(struct watch *watch);
/*
 * The calling thread, a waiter, sleeps on the descriptor from here to watch_return_locked: it
 * leaves the epoll set, and the caller arms. Both want watch->lock, and ia->lock need not be held.
 */
void watch_lend_locked(struct watch *watch);
/*
 * The calling waiter does not sleep on the descriptor any more. Returns whether it is in its epoll
 * set again, because it was the last one and completions are urgent: then the caller arms, and has
 * the service thread look.
 */
bool watch_return_locked(struct watch *watch);
/*
 * For a waiter that found the descriptor in error, and does not poll it any more: it is in its
 * epoll set again, so that the service thread reports that. watch_return_locked follows all the
 * same. ia->lock need not be held; this takes watch->lock, as do the two below.
 */
void watch_surrender(struct watch *watch);
/* Returns whether a waiter sleeps on the descriptor. */
bool watch_is_waited_for(struct watch *watch);
/* Puts the descriptor back into its epoll set, unless a waiter sleeps on it. Any thread. */
void watch_take_back(struct watch *watch);

/* ---- release.c: deferred release ---- */

/*
 * What a bind that is over gives back. The device is not called under a spinlock, so completions
 * and failed posts queue this, and a thread without locks returns it to the device.
 */
struct release {
	struct release *next; /* releases->lock */
	struct tp_mr *region; /* to be deregistered; may be NULL */
	struct tp_mw *window; /* to be freed; may be NULL */
	struct obj *held;     /* what the two need, put when they are released; may be NULL */
	bool overtaken;	      /* the device has refused the region: releases behind it came first */
	/* Called last, without locks; frees the memory that holds the struct. */
	void (*done)(struct release *);
};

struct release_queue {
	struct spinlock lock;
	struct release *first, **end; /* lock */
	_Atomic unsigned pending;     /* queued, or in the hands of release_run */
	struct mutex running;
	bool refusal_told; /* running; that the device has refused a region, which it does again */
};

/* For an IA that is opened. */
void release_queue_init(struct release_queue *queue);
/* For an IA that is closed, of which nothing is queued any more. */
void release_queue_destroy(struct release_queue *queue);

/*
 * Queues a release, whose members but next are set. Any thread; any lock may be held that stands
 * above releases->lock.
 */
void release_defer(struct ia *ia, struct release *release);
/*
 * Gives what is queued back to the device. No lock is held; may block in system calls. When it
 * returns, peers have lost access: if another thread is in here, this one waits for it.
 */
void release_run(struct ia *ia);
/*
 * release_run for an abrupt close: what the device refuses to take back is dropped, because closing
 * it frees that. No lock is held.
 */
void release_run_final(struct ia *ia);

/* ---- the IA ---- */

/*
 * A power of two. Caches of registrations hold up to a hundred thousand. Only the pages of the
 * table that are used take memory.
 */
#define LMR_CHAINS 65536
/* As an invalidation compares no more than contexts, a chain may be long. */
#define EP_WINDOW_CHAINS 256

struct ia {
	struct obj obj;
	struct provider *provider;
	bool thread_safe; /* posts to one endpoint may come from several threads */
	bool query_only;  /* opened for its attributes, by dat_extension_op of DAT 2.0 */
	/* opened under an RO_AWARE_ name: plain VIRTUAL memory may be ordered weakly */
	bool ro_aware;
	struct tp_dev *dev;
	const struct tp_attr *attr;
	struct named_attrs *named; /* attr2.c; NULL in DAT 1.2 */
	struct mutex lock;
	unsigned keepers;    /* lock; calls that make, resize or free an object without the lock */
	unsigned cno_freers; /* lock; likewise dat_cno_free, whose agent may wait for an event */
	/* lock; a waiter has left an EVD or CNO, or a call an EVD or SRQ, that is going away */
	pthread_cond_t waiter_left;
	struct service service;
	struct attendance attendance;
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
#if DAT_EDITION == 2
	struct spinlock ep_windows_lock;
	/* ep_windows_lock; the bindings that have a window of their own, by context */
	struct binding *ep_windows[EP_WINDOW_CHAINS];
#endif
	struct release_queue releases;
	struct wakefds wakefds; /* of the waiters */
	bool prints_counters;	/* fixed; when it is closed */
	struct counter counters[IA_ALL_COUNTERS];
	/* the sums of the endpoints and EVDs that are gone */
	struct counter ep_sums[EP_ALL_COUNTERS], evd_sums[EVD_ALL_COUNTERS];
};

/* Counts one more of that. */
static inline void ia_counts(struct ia *ia, enum ia_counter counter)
{
	counter_add(&ia->counters[counter], 1);
}

/*
 * Handles what an epoll set of @ia reported, the service thread's or a CNO's. The object may have
 * been freed since the kernel named its watch. Its memory stays readable; that of a new one in the
 * same slot is all zero until it has this IA. ia->lock is held.
 */
static inline void watch_report_locked(struct ia *ia, const struct epoll_event *event)
{
	struct watch *watch = event->data.ptr;

	assert_locked(&ia->lock);
	if (watch->ia == ia && watch->ops)
		watch->ops->ready_locked(watch, event->events & (EPOLLERR | EPOLLHUP));
}

/* ---- keep.c ---- */

/*
 * For a call that makes or resizes an object without ia->lock, so that connection events are
 * handled meanwhile: from here to ia_unkeep_locked the IA is not destroyed. Returns false, and then
 * nothing has begun, if the IA has been closed. Takes ia->lock.
 */
bool ia_keep(struct ia *ia);
/* The same for a call that has ia->lock, and lets go of it then. */
bool ia_keep_locked(struct ia *ia);
/*
 * For a call that has retired an object, and lets go of ia->lock before it is done with it. An
 * abrupt close of the IA that has begun waits for it, too.
 */
void ia_keep_to_free_locked(struct ia *ia);
/* The end of such a call; an abrupt close may wait for it. */
void ia_unkeep_locked(struct ia *ia);
/* For an abrupt close: waits until there is no such call. */
void ia_wait_unkept_relock(struct ia *ia);

/* ---- attr.c: what follows from the attributes of the device; any thread, without a lock ---- */

#define CQ_RESERVE 64 /* entries of the device's largest completion queue kept for markers */

/* Returns the longest queue of an EVD that a consumer may ask for. */
DAT_COUNT attr_max_evd_qlen(const struct ia *ia);
/* Returns how many work requests a read of @segments takes: one has max_read_wr_sge at most. */
static inline uint64_t attr_read_work_requests(const struct tp_attr *attr, uint64_t segments)
{
	return (segments + attr->max_read_wr_sge - 1) / attr->max_read_wr_sge;
}
/* Returns how many work requests the request queue of such an endpoint must hold. */
unsigned attr_ep_work_requests(const struct ia *ia, const DAT_EP_ATTR *attr);
/* Writes what dat_ia_query tells of the IA. */
void attr_ia(const struct ia *ia, DAT_IA_ATTR *attr);
/* Writes what dat_ia_query tells of this provider. */
void attr_provider(const struct ia *ia, DAT_PROVIDER_ATTR *attr);
/* Writes the attributes of an endpoint for which the consumer asked for none. */
void attr_ep_default(const struct ia *ia, DAT_EP_ATTR *attr);
/* Says whether they ask for an endpoint of datagrams, which DAT 1.2 does not know. */
static inline bool attr_is_datagram(const DAT_EP_ATTR *attr)
{
#if DAT_EDITION == 2
	return (int)attr->service_type == (int)DAT_SERVICE_TYPE_EXTENSION_BASE;
#else
	(void)attr;
	return false;
#endif
}
/*
 * Checks what a consumer asked for, NULL for nothing, and writes the attributes that an endpoint
 * gets, with what was left open filled in. Returns @bad if a value is out of range.
 */
DAT_RETURN attr_ep_check(const struct ia *ia, const DAT_EP_ATTR *asked, DAT_RETURN bad,
			 DAT_EP_ATTR *attr);
/* Returns how many receives a shared receive queue can have; 0 if there are no such queues. */
DAT_COUNT attr_max_srq_dtos(const struct ia *ia);

/* ---- attr1.c of DAT 1.2, attr2.c of DAT 2.0 ---- */

/*
 * Returns the handle that queries show: in DAT 1.2 the provider's, in DAT 2.0 the consumer's, which
 * the registry tells. No spinlock is held.
 */
DAT_IA_HANDLE attr_ia_handle(struct ia *ia);
/* For an IA that is opened, whose device is open: makes its named attributes. 0 or -ENOMEM. */
int attr_own_open(struct ia *ia);
/* For an IA that is closed: frees them. */
void attr_own_close(struct ia *ia);
/* Write what only this edition tells, or tells differently. attr_ia and attr_provider call them. */
void attr_ia_own(const struct ia *ia, DAT_IA_ATTR *attr);
void attr_provider_own(const struct ia *ia, DAT_PROVIDER_ATTR *attr);

#endif
