/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a test may ask of the fake transport: its network, its faults, what it has seen, and its
 * time.
 */
#ifndef FAKE_H
#define FAKE_H

#include "../../udapl/transport.h"

/*
 * The devices of a process form one network. "fakeN 0" is the device with the address
 * 10.66.0.(N+1), N up to 199; it may be open several times. Of the network 10.66.0.0/16, an address
 * without an open device answers TP_UNREACHABLE, and 10.66.255.x is known not to be there; all else
 * is another network.
 *
 * All functions may be called by any thread, unless they say otherwise.
 */
#define FAKE_NETWORK 0x0a420000u

/* What devices opened from now on will grant. Change it before tp_dev_open. */
struct tp_attr *fake_attr(void);

/*
 * Where real devices differ from a textbook, one bit each. None at first; valid from the call on.
 */
enum {
	FAKE_FORGETS_RECV = 1 << 0,  /* receives posted in error stay there for ever ... */
	FAKE_REFLUSH = 1 << 1,	     /* ... until tp_qp_error is called once more */
	FAKE_REFUSES_RECV = 1 << 2,  /* a receive posted in error: -EINVAL */
	FAKE_REFUSES_SEND = 1 << 3,  /* a request posted in error: -ENOTCONN */
	FAKE_SWALLOWS_SEND = 1 << 4, /* a request posted in error is taken and never completes */
	FAKE_LATE_FLUSH = 1 << 5,    /* flushes wait for fake_step */
	FAKE_DROPS_CQES = 1 << 6,    /* tp_qp_destroy takes its completions along */
	FAKE_ARM_ANY = 1 << 7,	     /* TP_ARM_ERRORS fires for everything */
	FAKE_TELLS_BROKEN = 1 << 8,  /* a fault of the peer's making is told by up_qp_broken */
	/* private data arrives as long as the field, filled up with zeros */
	FAKE_PADS_PDATA = 1 << 9,
	FAKE_MR_ROUNDS = 1 << 10,  /* regions serve whole pages */
	FAKE_UNBINDABLE = 1 << 11, /* regions that may not be written take no window */
};
void fake_quirks(unsigned quirks);

/*
 * Transfers. While they are held nothing moves or completes, but for flushes; fake_step lets the
 * oldest one that can run do so, and says whether there was one. Letting go runs them all.
 */
void fake_hold(bool hold);
bool fake_step(void);
/* The next transfer ends with @status, its endpoint in error; the peer learns nothing. */
void fake_fail_transfer(DAT_DTO_COMPLETION_STATUS status);
/*
 * Retries are used up: requests to a peer that is gone end with DAT_DTO_ERR_TRANSPORT. Else they
 * wait for ever.
 */
void fake_give_up(void);
/* How many work requests the network holds, receives included. */
unsigned fake_outstanding(void);

/*
 * The connection manager: messages on the wire can be held and delivered one by one, oldest first.
 */
void fake_hold_cm(bool hold);
bool fake_step_cm(void);

/* Asynchronous events of a device. */
void fake_break_qp(struct tp_qp *qp); /* the device puts it into error and says so */
void fake_overrun(struct tp_cq *cq);
void fake_port_down(struct tp_dev *dev);
void fake_dev_fatal(struct tp_dev *dev);

/*
 * Faults. A call goes by its name without tp_: "mr_reg". "establish" is the active side's last
 * step, which has no call. fake_fail: the @nth call of that name from now, 1 being the next, fails
 * with -@err, once.
 */
void fake_fail(const char *call, int err, unsigned nth);
/*
 * The @n-th call of this thread from now that can fail does so, with -ENOMEM; 0: none. Teardown
 * never fails so.
 */
void fake_fail_call(unsigned n);
/* Has what fake_fail_call arranged come to pass? */
bool fake_failed(void);
/* Is this thread at work in here, on what no test may starve? */
bool fake_is_inside(void);

/* What was seen. */
unsigned fake_calls(const char *call); /* how often, since the start */

enum fake_kind {
	FAKE_DEV,
	FAKE_PD,
	FAKE_MR,
	FAKE_MW,
	FAKE_CQ,
	FAKE_QP,
	FAKE_LISTENER,
	FAKE_CONN,
	FAKE_ANY, /* all of them */
};
unsigned fake_alive(enum fake_kind kind);

struct fake_seen {
	DAT_MEM_PRIV_FLAGS priv; /* of the latest registration */
	bool relaxed;
	unsigned post_flags;   /* of the latest request */
	struct tp_qp_attr qp;  /* of the latest QP */
	struct tp_cm_param cm; /* of the latest connect or accept; without the private data */
};
struct fake_seen fake_seen(void);

enum fake_armed {
	FAKE_DISARMED,
	FAKE_ARMED_ERRORS,
	FAKE_ARMED_ANY,
};
enum fake_armed fake_armed(struct tp_cq *cq);

/*
 * Time stands still, but for fake_clock_advance, and for a thread that turned its automatic clock
 * on: when that one sleeps in tp_poll and all others that the fake knows sleep, too, with nothing
 * to do, time moves on to the earliest deadline. The fake knows who has called tp_poll or
 * fake_clock_auto; it does not wait for the first thread, nor for others whose clock is automatic:
 * they may be waiting for the sleeper.
 *
 * A thread is a service thread if it calls tp_poll, is not the first of the process, and never
 * called fake_clock_auto.
 */
void fake_clock_advance(uint64_t ns);
void fake_clock_auto(bool on); /* the calling thread */
/* The system's time instead, for programs that know nothing of this file. Before anything else. */
void fake_clock_real(void);

/*
 * Waits until every service thread sleeps with nothing to do, and @sleepers other threads sleep in
 * tp_poll likewise.
 */
void fake_settle(unsigned sleepers);

#endif
