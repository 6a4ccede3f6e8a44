/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The points at which threads race. In debug builds a test can have a function called in the thread
 * that reaches one of them, for example to hold that thread while another one acts. In release
 * builds they do not exist.
 */
#ifndef UDAPL_RACE_H
#define UDAPL_RACE_H

#include <stdatomic.h>

/* Each has the kind of object that it concerns, what happens there, and the locks that are held. */
enum race_point {
	RACE_ROOM,   /* EVD; its lock was let go of to allocate slots of the event queue */
	RACE_LOCK,   /* any; its handle is valid, and its IA is about to be locked; none */
	RACE_CREATE, /* EVD; its completion queue is about to be made; none, in dat_evd_create */
	RACE_ARM,    /* EVD; how to arm is chosen, the queue is not armed yet; watch.lock */
	RACE_DISARM, /* EVD; nobody needs its channel, and it is disarmed next; ia->lock, or none */
	RACE_SLEEP,  /* EVD; its waiter has armed its queue, and looks next; none */
	RACE_NAMED,  /* IA; the kernel has told its service thread what is readable; none */
	RACE_VISIT,  /* tp_cq of ofi/; the service thread comes to it in its round; ia->lock */
	RACE_LEFT,   /* EVD; its waiter has given the channel back, and is still its waiter; none */
	RACE_WOKEN,  /* EVD; its waiter has cleared its wakefd, and counts as woken; none */
	RACE_ATTACH, /* CNO; it is about to be held for an EVD; ia->lock */
	RACE_CNO,    /* EVD; it has another CNO, nobody has looked for events yet; ia->lock */
	RACE_MISSED, /* EVD; its CNO's list of those that missed a trigger has lost it; ia->lock */
	RACE_AWAKE,  /* CNO; a dat_cno_wait has its result, and is still a waiter; none */
	RACE_RETURN, /* CNO, EVD; its waiter gives the channels back next; none */
	RACE_EXPEL,  /* EVD, SRQ; it is being freed, and waits for who is in a call; ia->lock */
	RACE_RENEW,  /* RMR; it has no window to bind, another one is about to be made; none */
	RACE_CANCEL, /* RMR; a bind was not posted, and leaves its list next; mostly none */
	RACE_COUNT,  /* SRQ; its completed receives are counted, those posted are next; ia->lock */
	RACE_GATE,   /* EP; its gate for requests follows the state; mostly ia->lock */
	RACE_FLUSH,  /* EP; a post on it is flushed next, because it was disconnected; none */
	RACE_GONE,   /* EP; its QP is destroyed, completions of it may be queued; none */
	RACE_FREE,   /* EP; it is retired and idle, and has its QP; none */
	RACE_CLOSE,  /* IA; it is retired, its objects are about to be freed; none */
	RACE_REQUEST, /* PSP or RSP; a request is visible, its event is not posted yet; ia->lock */
	RACE_UNLOCK,  /* the name of a lock; it is about to be released */
	RACE_SPIN,    /* a spinlock that another thread holds; it is waited for next; any */
	RACE_POST,    /* EP; a post is about to take the lock of posts, if posts do; none */
	/* the next three: ring; send_lock or recv_lock, if posts take them */
	RACE_CLAIM,   /* the gate was open, the slot is filled and not claimed */
	RACE_CLAIMED, /* it is claimed, and not posted yet */
	RACE_RETIRED, /* the slot of a completion is free; lock of the EVD instead */
	RACE_READ,    /* libfabric's QP; the count of its reads changes; at times its queue's */
	RACE_POINTS,
};

#ifdef UDAPL_DEBUG
typedef void race_hook_fn(enum race_point point, const void *object);
extern race_hook_fn *_Atomic race_hook; /* lock.c; NULL, or the test's */

/* The calling thread is at @point with @object: calls the hook of a test, if there is one. */
static inline void race_reach(enum race_point point, const void *object)
{
	race_hook_fn *hook = atomic_load_explicit(&race_hook, memory_order_acquire);

	if (hook)
		hook(point, object);
}
#else
#define race_reach(point, object) ((void)0)
#endif

#endif
