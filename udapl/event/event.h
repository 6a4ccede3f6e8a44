/* SPDX-License-Identifier: BSD-2-Clause */
/* Event dispatchers, notification objects, and what they offer to endpoints and listeners. */
#ifndef UDAPL_EVENT_H
#define UDAPL_EVENT_H

#include "memory/memory.h"

/* ---- evd.c: the object; evd_queue.c: its events; evd_wait.c: dequeue and wait ---- */

struct queued_event {
	DAT_EVENT event;
	bool notify;  /* ends a wait, triggers the CNO */
	bool bounded; /* qlen limits its stream */
	/* the slot of an SRQ's receive, which is free when the consumer takes the event */
	struct req *receive;
};

/*
 * A circular buffer that grows: of its @size slots, a power of two, @count are used from @head on.
 */
struct event_queue {
	struct queued_event *slots;
	unsigned size, head, count;
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
	EVD_TURNED_AWAY = 1 << 7, /* it was made unwaitable, so its waiter leaves, come what may */
};

/*
 * The receives of a shared receive queue, as those who take completions see them. A slot is what
 * completions expect of a request: it leads to its ring, which is of no endpoint and never reports.
 * The slots are not in order, so the ring has no array; its tail counts the posts, its head the
 * slots that came back.
 */
struct recv_pool {
	struct ring ring;
	_Atomic(struct req *) returned; /* free slots that came back since the poster looked */
	_Atomic unsigned queued;	/* completed slots whose event is in the queue of an EVD */
	/* the consumer takes such an event: times that this began, and times that it ended */
	_Atomic unsigned takes_begun, takes_ended;
	unsigned slots;		   /* ia->lock; how many there are */
	struct pool_share *shares; /* ia->lock; the EVDs of its receives */
};

/*
 * Gives a slot back to the poster, for whoever has taken its completion or its event. Any thread,
 * with or without a lock: the poster takes all that came back at once, so a slot that is the first
 * one again is as good as the one that was there.
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

/* Returns the pool of the slot of a shared receive. */
static inline struct recv_pool *pool_of(const struct req *slot)
{
	return container_of(slot->ring, struct recv_pool, ring);
}

/*
 * That endpoints of one shared receive queue have one EVD for their receives: together they have at
 * most as many completions there as the queue has slots. ia->lock guards all of it.
 */
struct pool_share {
	struct recv_pool *pool;
	struct evd *evd;
	unsigned eps;	/* how many endpoints these are */
	unsigned depth; /* completions for which the EVD has room */
	bool grown;	/* dat_srq_resize has had the device make the room that it wants here */
	struct pool_share *next_of_evd;
	struct pool_share *next_of_pool, **back_of_pool;
};

/* The streams of an EVD whose events the connection manager makes. */
#define EVD_FLAGS_CONNECTIONS (DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG)

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
	struct tp_wc kept;  /* lock; what the slow path of dequeue translates */
	unsigned notifying; /* lock; queued events that notify */
	unsigned receives;  /* lock; queued events of shared receive queues */
	unsigned reserved;  /* lock; slots kept free for connection events */
	/* lock; slots kept free for flushes: at most all transfers of the attached roles */
	unsigned dto_depth;
	/* lock; wakes the waiter for everything that is not a completion; -1: none sleeps */
	int wakefd;
	bool woken;	    /* lock; wakefd was signalled */
	bool listens;	    /* the waiter; to the connection manager, see attend_wait_begin */
	uint64_t due;	    /* the waiter; when it calls attend_wait_ready in any case */
	struct watch watch; /* its completion channel */
	/* cno->lock; on the lists of its CNO, else NULL */
	struct evd *next_missed, **back_missed, *next_caller, **back_caller;
	struct cno *cno; /* ia->lock and lock */
	/* lock; DAT_EVD_STATE_CONFIG_* that follows from the roles, 0 while there are none */
	unsigned config;
	unsigned notify_roles, solicited_roles; /* lock; attached roles that ask for these modes */
	unsigned roles[EVD_ROLES];		/* lock; how many endpoints use it as what */
	/*
	 * ia->lock and lock; endpoints to which each completion is reported: it is armed for all
	 */
	unsigned reporting_eps;
	struct pool_share *shares; /* ia->lock */
	struct mutex cq_lock;	   /* how long cq is; held while the device resizes it */
	unsigned resizers;	   /* ia->lock; threads that resize the queue without it */
	struct counter counters[EVD_ALL_COUNTERS];
};

/* Counts one more of that. */
static inline void evd_counts(struct evd *evd, enum evd_counter counter)
{
	counter_add(&evd->counters[counter], 1);
}

/* Polls, as tp_cq_poll does, and counts. */
static ALWAYS_INLINE unsigned evd_poll_locked(struct evd *evd, struct tp_wc *wc, unsigned max)
{
	unsigned n;

	assert_locked(&evd->lock);
	n = tp_cq_poll(evd->cq, wc, max);
	counter_add_fast(&evd->counters[EVD_DEQUEUE_POLL], 1);
	counter_add_fast(&evd->counters[EVD_DEQUEUE_POLL_FOUND], n);
	return n;
}

/*
 * Returns whether binds of an endpoint with this request EVD can be reported; NULL is allowed. It
 * need not have DAT_EVD_RMR_BIND_FLAG: no provider has asked for that.
 */
static inline bool evd_takes_binds(const struct evd *evd)
{
	return evd && !evd->is_sink;
}

/* Returns whether its events trigger the CNO. Takes evd->lock. */
static inline bool evd_is_enabled(struct evd *evd)
{
	bool enabled;

	spin_lock(&evd->lock);
	enabled = evd->enabled;
	spin_unlock(&evd->lock);
	return enabled;
}

/* Returns the handle that an endpoint with this EVD, or NULL, shows: the sink is hidden. */
static inline DAT_EVD_HANDLE evd_shown(struct evd *evd)
{
	return evd && evd->is_sink ? DAT_HANDLE_NULL : evd;
}

/* ---- evd.c; those called _locked and _relock want ia->lock ---- */

/*
 * Makes an invisible EVD: dat_evd_create but for the checks and the publishing, for dat_ia_open,
 * too, which makes the asynchronous EVD. @cno, unless it is NULL, was attached for it, and is
 * detached on failure.
 */
DAT_RETURN evd_new_locked(struct ia *ia, DAT_COUNT qlen, struct cno *cno, DAT_EVD_FLAGS flags,
			  struct evd **evd);
/* Finds, or makes, the private EVD of @ia that drops its events. It is destroyed with the IA. */
DAT_RETURN evd_sink_locked(struct ia *ia, struct evd **evd);
/*
 * For an EVD that is retired, or the sink: destroys its queues. Nothing of its IA refers to it any
 * more; the slot is freed when no endpoint of another IA does, either.
 */
void evd_destroy_locked(struct evd *evd);
/*
 * For an EVD that is retired: wakes the waiter, if any, and waits until it has left, and who
 * resizes the EVD, without ia->lock meanwhile.
 */
void evd_expel_waiter_relock(struct evd *evd);

/* By role: the EVDs that an endpoint is about to have for its receives and its requests. */
struct evd_needs {
	DAT_EVD_HANDLE evds[EVD_ROLE_CONNECT];
	unsigned depths[EVD_ROLE_CONNECT]; /* completions for which it needs room there */
	const struct recv_pool *pool;	   /* the receives are from there; NULL: from its queue */
};
/*
 * Has the device make that room; the EVDs are attached later. ia->lock is not held. Threads that do
 * so at the same time may find that it is not enough for all; evd_attach_locked and
 * evd_attach_pool_locked make more. A handle that is no EVD of @ia is passed over. The IA is kept
 * open by ia_keep.
 */
DAT_RETURN evd_grow_ahead(struct ia *ia, const struct evd_needs *needs);
/* Returns how many completions an endpoint of @ia may have outstanding in that role. */
unsigned evd_role_depth(const struct ia *ia, enum evd_role role, const DAT_EP_ATTR *attr);
/*
 * Gives an endpoint of @ia, whose lock is held, an EVD in a role: makes room for @depth
 * completions, and takes a hold. Only in the connect role the EVD may belong to another IA. On
 * failure nothing has changed.
 */
DAT_RETURN evd_attach_locked(struct ia *ia, struct evd *evd, enum evd_role role,
			     const DAT_EP_ATTR *attr, unsigned depth);
/* The opposite of evd_attach_locked: the attachment has room for @depth completions. */
void evd_detach_locked(struct ia *ia, struct evd *evd, enum evd_role role, const DAT_EP_ATTR *attr,
		       unsigned depth);
/*
 * One more endpoint that has its receives from @pool has @evd for them: to be called after the role
 * was attached. Makes room for completions of all slots of the pool, once for each EVD.
 */
DAT_RETURN evd_attach_pool_locked(struct evd *evd, struct recv_pool *pool);
/* One such endpoint less: to be called before the role is detached. */
void evd_detach_pool_locked(struct evd *evd, struct recv_pool *pool);
/*
 * Makes room for @depth completions of @pool, which is more than before, in all of its EVDs, or, if
 * it fails, in none. ia->lock is not held while the device works, but for EVDs that are attached
 * meanwhile. The IA is kept open by ia_keep, and one thread does that at a time.
 */
DAT_RETURN evd_grow_pool_relock(struct ia *ia, struct recv_pool *pool, unsigned depth);

/* ---- evd_queue.c: evd->lock is not held; any thread ---- */

/*
 * Reserves @n more slots for connection events, so that evd_post_reserved can't fail. Returns 0 or
 * -ENOMEM.
 */
int evd_reserve(struct evd *evd, unsigned n);
/* Gives @n slots up that were reserved. */
void evd_unreserve(struct evd *evd, unsigned n);
/* Posts a connection event, for which a slot was reserved, and notifies. */
void evd_post_reserved(struct evd *evd, const DAT_EVENT *event);
/*
 * Posts an event of a stream that qlen limits, and notifies. Returns 0; -ENOSPC if the queue is
 * full; -ENOENT if the EVD is going away.
 */
int evd_post_bounded(struct evd *evd, const DAT_EVENT *event);
/*
 * Posts the event of a request that was never posted, so is in no ring, as flushed, and notifies.
 * Returns false without memory.
 */
bool evd_post_flushed(struct evd *evd, const struct req *req);
/*
 * Moves completions into the queue, and notifies. Returns false without memory: some are still in
 * the completion queue.
 */
bool evd_drain(struct evd *evd);
/*
 * Completes as flushed what is still in @ring, in order, and notifies. Returns false without
 * memory: some are left.
 */
bool evd_flush(struct evd *evd, struct ring *ring);
/*
 * Empties the completion queue: drops what belongs to @ep, whose QP is gone, and queues the rest.
 * Events of @ep that are queued stay, and give the slots of a shared receive queue back.
 */
void evd_purge_ep(struct evd *evd, const struct ep *ep);
/*
 * dat_evd_resize but for the completion queue: from here on the consumer may use @qlen slots, which
 * it has if this returns DAT_SUCCESS. ia->lock is held.
 */
DAT_RETURN evd_set_qlen_locked(struct evd *evd, DAT_COUNT qlen);

/* ---- completion.c ---- */

/*
 * Returns whether a read before the position @until is outstanding, although something behind it is
 * flushed: then the device has lost the read, and what is outstanding is flushed when the
 * connection has ended. The lock of the ring's EVD is held.
 */
bool completion_is_behind_lost_read(const struct ring *ring, unsigned until);
/*
 * The endpoints define this, and the events call it, with the lock of the EVD held, on any thread:
 * a completion of @ep took the slow path.
 */
void ep_completion_seen(struct ep *ep, const struct req *req, DAT_DTO_COMPLETION_STATUS status);
/* So they do this: @ep has received a message, or immediate data, and this build counts that. */
void ep_count_receive(struct ep *ep, const struct tp_wc *wc);

/* ---- evd_channel.c; those called _locked want ia->lock ---- */

/*
 * One more endpoint with completions in @evd has each of them reported to it, or, with @on false,
 * one less: as long as there is one, every completion wakes a waiter or the service thread.
 */
void evd_set_reporting_locked(struct evd *evd, bool on);
/*
 * Arms the completion queue anew, and takes what is there. What happened while notification was off
 * triggers the CNO once.
 */
void evd_trigger_backlog_locked(struct evd *evd);
/* Each completion that matters wakes a waiter or the service thread, from here on. */
void evd_watch_locked(struct evd *evd);
/*
 * For an EVD that has missed a trigger, so that its queue is not armed: takes what is there. Then
 * it is armed, or has missed a trigger again. Returns whether there was something.
 */
bool evd_look_missed_locked(struct evd *evd);
/*
 * Arms the completion queue, if there is one, for the next completion that matters. The caller, or
 * its consumer, looks at the queue afterwards: what is there makes no event. Any thread; takes
 * watch.lock.
 */
void evd_arm(struct evd *evd);

/* ---- cno.c ---- */

struct wait_entry;

struct cno {
	struct obj obj;
	struct spinlock lock;
	int fd; /* fixed; readable while the latch is set; -1: it has none, as in DAT 1.2 */
	struct evd *latched; /* lock; the first trigger since the last delivery; by cno_set_latch */
	/* lock; threads in dat_cno_wait that were not woken yet, oldest first */
	struct wait_entry *wait_list;
	unsigned waiters;	       /* lock; threads in dat_cno_wait */
	unsigned takers;	       /* lock; those that are awake and take the latch next */
	unsigned broadcasts;	       /* lock; how often all waiters were woken without an EVD */
	bool closing;		       /* lock; abrupt close */
	unsigned evds;		       /* ia->lock; how many EVDs refer to it */
	DAT_OS_WAIT_PROXY_AGENT agent; /* lock; one-shot */
	/* lock; EVDs whose triggers it is to be called for, the latest, which it is told, first */
	struct evd *callers;
	bool agent_released; /* lock; it is to be called in any case: all EVDs were gone */
	struct work work;    /* runs the agent on the service thread, unlocked */
	/* an epoll set, with the completion channels of its EVDs */
	struct watch watch;
	/*
	 * lock; EVDs whose completion queue is not armed, or whose events triggered nothing,
	 * because the latch was set
	 */
	struct evd *missed, **missed_end;
	unsigned missed_count; /* lock; how many these are */
};

/* ---- cno_trigger.c: evd->lock of @evd is held ---- */

/*
 * An event of @evd, whose CNO this is, notifies: it becomes the latch if that is clear, wakes a
 * thread that sleeps, and has the agent called. Any thread.
 */
void cno_trigger_locked(struct cno *cno, struct evd *evd);
/*
 * Returns whether a trigger by @evd would change anything. If not, @evd counts as one that has
 * missed a trigger, and its queue needs no interrupt until the latch is taken. Any thread.
 */
bool cno_awaits_trigger(struct cno *cno, struct evd *evd);

/* ---- cno.c: ia->lock is held, but by cno_destroy ---- */

/*
 * Takes a hold for one more EVD. Returns false if it is no CNO of @ia, or has just been freed, for
 * which no lock is needed.
 */
bool cno_attach_locked(struct ia *ia, DAT_CNO_HANDLE cno);
/*
 * Gives up the hold of an EVD; @freed says that the EVD is going away, and if that was the last
 * one, all waiters are woken.
 */
void cno_detach_locked(struct cno *cno, bool freed);
/*
 * @cno, which was attached, or none if that is NULL, takes the place of the CNO that @evd has, if
 * any; that is detached, with @freed as in cno_detach_locked. The channel of @evd moves with it.
 */
void cno_replace_locked(struct evd *evd, struct cno *cno, bool freed);
/* For an abrupt close: wakes all waiters, and waits until they and the agent's call have ended. */
void cno_expel_waiters_relock(struct cno *cno);
/* For a CNO that is retired, and has no waiter. No lock is held; waits for the agent's call. */
void cno_destroy(struct cno *cno);

/* ---- async_error.c: asynchronous errors, and the EVDs that take them ---- */

/*
 * Posts an asynchronous error of @handle to all EVDs that take those of this IA; @reason is DAT's.
 * ia->lock is held, and loan_lock taken.
 */
void async_error_post_locked(struct ia *ia, DAT_EVENT_NUMBER number, DAT_HANDLE handle,
			     DAT_COUNT reason);

/*
 * Sends the asynchronous errors of @ia to an EVD that another IA owns, until it is returned or
 * revoked. Refuses what is no EVD, or one without DAT_EVD_ASYNC_FLAG. For dat_ia_open; takes
 * loan_lock, as the next four do.
 */
DAT_RETURN async_evd_borrow(struct ia *ia, DAT_EVD_HANDLE evd);
/* For dat_ia_close: gives back the EVD that @ia has borrowed, if any. */
void async_evd_return(struct ia *ia);
/* For an EVD that is retired and going away: its borrowers are without an EVD from here on. */
void async_evd_revoke(const struct evd *evd);
/* Returns whether another IA has borrowed an EVD of @owner. */
bool async_evd_is_lent(const struct ia *owner);
/* Returns the handle that dat_ia_open and dat_ia_query show. */
DAT_EVD_HANDLE async_evd_handle(struct ia *ia);

/* In the child after a fork, where the caller is the only thread: forgets what was borrowed. */
void async_evds_after_fork(void);

/* ---- the calls of DAT that entry/provider.c has in its table: no lock is held ---- */

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
#if DAT_EDITION == 2
DAT_RETURN cno_fd_create(DAT_IA_HANDLE ia, DAT_FD *fd, DAT_CNO_HANDLE *cno);
DAT_RETURN cno_trigger(DAT_CNO_HANDLE cno, DAT_EVD_HANDLE *evd);
#endif

#endif
