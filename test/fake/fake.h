/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fake transport as tests control it: its network, its faults, what it recorded, and its time.
 *
 * All functions may be called by any thread at any time, unless their comment says otherwise.
 */
#ifndef FAKE_H
#define FAKE_H

#include "../../udapl/transport.h"

/* ---- the network ---- */

/*
 * The devices of a process form one network, 10.66.0.0/16. "fakeN 0" is the device with the address
 * 10.66.0.(N+1), N up to 199; it may be open several times. A connection attempt to an address of
 * this network fails with TP_UNREACHABLE when no device with that address is open. 10.66.255.x is
 * refused at once with EHOSTUNREACH, and every other network with ENETUNREACH.
 */
#define FAKE_NETWORK 0x0a420000u

/* Returns the attributes of devices that are opened later, to be changed before tp_dev_open. */
struct tp_attr *fake_attr(void);

/* ---- quirks ---- */

/*
 * The ways in which real devices differ from the specification, one bit each. None is set at first;
 * they apply from the call on.
 */
enum {
	FAKE_FORGETS_RECV = 1 << 0,   /* a receive posted in the error state is not flushed ... */
	FAKE_REFLUSH = 1 << 1,	      /* ... until tp_qp_error is called once more */
	FAKE_REFUSES_RECV = 1 << 2,   /* a receive posted in the error state fails with -EINVAL */
	FAKE_REFUSES_SEND = 1 << 3,   /* a request posted in the error state: -ENOTCONN */
	FAKE_SWALLOWS_SEND = 1 << 4,  /* a request posted in the error state never completes */
	FAKE_LATE_FLUSH = 1 << 5,     /* requests are flushed by fake_step only */
	FAKE_DROPS_CQES = 1 << 6,     /* tp_qp_destroy removes its completions from the CQs */
	FAKE_ARM_ANY = 1 << 7,	      /* TP_ARM_ERRORS fires for every completion */
	FAKE_REPORTS_BROKEN = 1 << 8, /* up_qp_broken, too, when a request of the peer fails */
	FAKE_PADS_PDATA = 1 << 9,     /* private data arrives at its maximum length, zero-filled */
	FAKE_MR_ROUNDS = 1 << 10,     /* regions serve whole pages */
	FAKE_UNBINDABLE = 1 << 11,    /* regions without local write cannot have windows */
	FAKE_LOSES_READS = 1 << 12,   /* reads right behind one that fails never complete */
	FAKE_LAST_ARM_WINS = 1 << 13, /* TP_ARM_ERRORS takes the place of TP_ARM_ANY */
	FAKE_SHORT_WINDOWS = 1 << 14, /* -EINVAL: a bind to more than FAKE_WINDOW bytes */
	FAKE_FLUSHES_DESTROYED = 1 << 15, /* tp_qp_destroy flushes what is outstanding */
	FAKE_REMOVABLE = 1 << 16,     /* fake_remove works on devices and queues made from now on */
	FAKE_LAST_RECEIVE = 1 << 17,  /* up_qp_last_receive, when all of an SRQ's are flushed */
	FAKE_NO_SRQ_LIMIT = 1 << 18,  /* tp_srq_arm: -EOPNOTSUPP */
	FAKE_NO_SRQ_RESIZE = 1 << 19, /* tp_srq_resize: -EOPNOTSUPP */
	FAKE_STAYS_READABLE = 1 << 20, /* a CQ's descriptor, once it was; each look takes 1 ms */
	FAKE_POSTS_BY_CALL = 1 << 21,  /* a request is posted by a system call, see post.c */
	FAKE_SENDS_IMMED = 1 << 22,    /* messages bring FAKE_IMMED, for DAT 2.0 */
	FAKE_PAGES = 1 << 23,	       /* -EINVAL: a zero-based region that is not of whole pages */
	FAKE_NO_ZERO_BASED = 1 << 24,  /* -EINVAL: a bind of a zero-based window */
	FAKE_FLUSHES_BOUND = 1 << 25,  /* a bind that is flushed was executed all the same */
};
#define FAKE_WINDOW 4096
#define FAKE_IMMED  0x1badcafe
void fake_quirks(unsigned quirks);

/* ---- transfers ---- */

/*
 * While transfers are held, requests stay queued; only flushes still complete. fake_step executes
 * the oldest request that can make progress and returns whether there was one. fake_hold(false)
 * executes all of them.
 */
void fake_hold(bool hold);
bool fake_step(void);
/*
 * The next request that is executed completes with @status and puts its QP into the error state.
 * The peer's QP is not affected.
 */
void fake_fail_transfer(DAT_DTO_COMPLETION_STATUS status);
/*
 * Exhausts the retries: the first request of each QP whose peer is gone or in error completes with
 * DAT_DTO_ERR_TRANSPORT. Without this call such requests stay outstanding for ever.
 */
void fake_give_up(void);
/* Returns how many work requests, receives included, are posted and not complete. */
unsigned fake_outstanding(void);

/*
 * Has a message begin to arrive: @qp takes the oldest receive of its shared receive queue. The next
 * message uses it, or it is flushed.
 */
void fake_take_receive(struct tp_qp *qp);

/* ---- the connection manager ---- */

/*
 * While the connection manager is held, its messages stay on the wire. fake_step_cm delivers the
 * oldest one and returns whether there was one. fake_hold_cm(false) delivers all of them.
 */
void fake_hold_cm(bool hold);
bool fake_step_cm(void);

/* ---- asynchronous events of a device ---- */

void fake_break_qp(struct tp_qp *qp);	 /* it enters the error state: up_qp_broken */
void fake_break_srq(struct tp_srq *srq); /* the same of an SRQ: up_srq_broken */
void fake_overrun(struct tp_cq *cq);
void fake_port_down(struct tp_dev *dev);
void fake_dev_fatal(struct tp_dev *dev);
/* To a child of fork(2), another thread of its parent seems to have been in a call of a library. */
void fake_be_in_call(void);
/*
 * Takes the device away: the descriptors in @what are in error for ever, and nothing else tells it.
 * tp_qp_error fails, requests never complete.
 */
enum {
	FAKE_DEV_FD = 1 << 0,
	FAKE_CQ_FDS = 1 << 1,
	FAKE_SECOND_FD = 1 << 2, /* of the device, as those of verbs have */
};
void fake_remove(struct tp_dev *dev, unsigned what);
/* Makes tp_dev_progress due at @deadline, once. */
void fake_alarm(struct tp_dev *dev, uint64_t deadline);
/* The next tp_dev_progress does so, on whatever thread. */
void fake_alarm_next(struct tp_dev *dev, uint64_t deadline);

/* ---- injected faults ---- */

/*
 * The @nth call of @call from now on, 1 being the next, fails with -@err, once. @call is the name
 * without tp_, such as "mr_reg". "establish" is the last step of the active side, and "ah_create"
 * that of an exchange between endpoints of datagrams, which have no calls.
 */
void fake_fail(const char *call, int err, unsigned nth);
/*
 * The @n-th call of this thread from now on fails with -ENOMEM, once, or none if @n is 0. Only
 * calls that can fail count, and calls of teardown do not.
 */
void fake_fail_call(unsigned n);
/* Tells whether the failure that fake_fail_call arranged has happened. */
bool fake_failed(void);
/*
 * Tells whether this thread is inside the fake transport, where no allocation may be made to fail.
 */
bool fake_is_inside(void);

/* ---- threads that stay in a call ---- */

/*
 * The @n-th call of this thread from now on does not return before fake_go_on. 0: none; what was
 * asked for before is over.
 */
void fake_stay(unsigned n);
/* Waits for a thread that stays, true, or for fake_stay(0): it came to no such call. */
bool fake_wait_stay(void);
void fake_go_on(void);

/* ---- what was recorded ---- */

/* Returns how often @call, as in fake_fail, was made since the start of the process. */
unsigned fake_calls(const char *call);

enum fake_kind {
	FAKE_DEV,
	FAKE_PD,
	FAKE_MR,
	FAKE_MW,
	FAKE_CQ,
	FAKE_SRQ,
	FAKE_QP,
	FAKE_LISTENER,
	FAKE_CONN,
	FAKE_AH,
	FAKE_ANY, /* the sum of all kinds */
};
/* Returns how many objects of the transport exist. */
unsigned fake_alive(enum fake_kind kind);

struct fake_seen {
	DAT_MEM_PRIV_FLAGS priv; /* of the latest registration */
	bool relaxed;		 /* it has relaxed ordering */
	bool windows;		 /* windows may be bound to it */
	unsigned post_flags;	 /* of the latest request */
	struct tp_srq_attr srq;	 /* of the latest SRQ */
	struct tp_qp_attr qp;	 /* of the latest QP */
	struct tp_cm_param cm;	 /* of the latest connect or accept; without the private data */
};
/* Returns the arguments of the latest calls. */
struct fake_seen fake_seen(void);

enum fake_armed {
	FAKE_DISARMED,
	FAKE_ARMED_ERRORS,
	FAKE_ARMED_ANY,
};
enum fake_armed fake_armed(struct tp_cq *cq);
/* Returns how often tp_poll was called since the start of the process. */
unsigned fake_polls(void);
/*
 * Aborts the test at the @n-th call of tp_poll from now on, because then a thread does not sleep
 * any more.
 */
void fake_limit_polls(unsigned n);

/* ---- time ---- */

/*
 * Time does not pass by itself. It moves by fake_clock_advance, and for a thread with an automatic
 * clock: while that thread and all others known to the fake sleep in tp_poll with nothing to do,
 * time jumps to the earliest deadline. The fake knows the threads that have called tp_poll or
 * fake_clock_auto. It does not wait for the first thread of the process, nor for others with an
 * automatic clock, because these may be waiting for the thread that sleeps.
 *
 * A thread counts as a service thread when it calls tp_poll, is not the first thread of the
 * process, and has never called fake_clock_auto.
 */
void fake_clock_advance(uint64_t ns);
void fake_clock_auto(bool on); /* the clock of the calling thread */
/*
 * Uses the clock of the system instead, for programs that do not know this header. To be called
 * before any other function of the transport.
 */
void fake_clock_real(void);

/*
 * Returns when every service thread sleeps in tp_poll with nothing to do, and at least @waiters
 * other threads sleep there.
 */
void fake_wait_idle(unsigned waiters);

#endif
