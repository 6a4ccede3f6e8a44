/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The internals of the fake transport. One lock, fake.lock, guards everything but time, which has
 * its own; no upcall is made while either is held.
 */
#ifndef FAKE_IMPL_H
#define FAKE_IMPL_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

#include "fake.h"

#define FAKE_MAX_SGE   16
#define FAKE_MAX_PDATA 256

/* ---- script.c: the lock, faults and counts ---- */

enum fake_call {
	CALL_DEV_OPEN,
	CALL_DEV_CLOSE,
	CALL_DEV_PROGRESS,
	CALL_PD_CREATE,
	CALL_PD_DESTROY,
	CALL_MR_REG,
	CALL_MR_DEREG,
	CALL_MW_CREATE,
	CALL_MW_DESTROY,
	CALL_CQ_CREATE,
	CALL_CQ_DESTROY,
	CALL_CQ_RESIZE,
	CALL_CQ_POLL,
	CALL_CQ_ARM,
	CALL_CQ_EVENTS,
	CALL_SRQ_CREATE,
	CALL_SRQ_DESTROY,
	CALL_SRQ_RESIZE,
	CALL_SRQ_ARM,
	CALL_SRQ_POST,
	CALL_QP_CREATE,
	CALL_QP_ERROR,
	CALL_QP_DESTROY,
	CALL_QP_FORGET,
	CALL_POST_SEND,
	CALL_POST_RECV,
	CALL_POST_WRITE,
	CALL_POST_READ,
	CALL_POST_WRITE_IMMED,
	CALL_POST_ATOMIC,
	CALL_POST_BIND,
	CALL_POST_MARKER,
	CALL_LISTEN,
	CALL_UNLISTEN,
	CALL_CONNECT,
	CALL_ACCEPT,
	CALL_REJECT,
	CALL_RELEASE,
	CALL_ESTABLISH,
	CALL_DATAGRAM_CONNECT,
	CALL_DATAGRAM_ACCEPT,
	CALL_POST_DATAGRAM,
	CALL_DATAGRAM_RESUME,
	CALL_AH_CREATE,
	CALL_AH_DESTROY,
	CALLS,
};

struct fake {
	pthread_mutex_t lock;
	pthread_cond_t upcall_over; /* lock */
	struct tp_attr attr;
	unsigned quirks;
	unsigned alive[FAKE_ANY];
	struct fake_seen seen;
	struct tp_dev *devs;
	struct tp_qp *qps;
	struct tp_cq *cqs;
	struct tp_srq *srqs;
	struct tp_mr *mrs;
	struct tp_mw *mws;
	uint32_t next_key;
	bool hold;
	uint64_t next_seq;			 /* of work requests, over all QPs */
	DAT_DTO_COMPLETION_STATUS fail_transfer; /* of the next request; DAT_DTO_SUCCESS: none */
	bool hold_cm;
	struct message *wire, **wire_end;
	uint16_t next_port;
	uint32_t next_number; /* of queue pairs of datagrams */
};
extern struct fake fake;

/*
 * Counts the call and takes the lock. When the call is scripted to fail, returns its error without
 * the lock.
 */
int fake_enter(enum fake_call call);
/* As fake_enter, for calls that cannot fail. */
void fake_begin(enum fake_call call);
void fake_lock(void);
void fake_unlock(void);
/* Counts the call. Returns 0, or the error that it is scripted to fail with. The lock is held. */
int fake_fault_locked(enum fake_call call);

/* Aborts the test when the core has broken a rule of the seam. */
void fake_require(bool kept, const char *rule);
/* Aborts the test when the calling thread could be cancelled. */
void fake_require_uncancelled(void);
/* Aborts the test when the host is out of a resource that the fake itself needs. */
void fake_require_host(bool available, const char *resource);

/* ---- device.c ---- */

enum event_kind {
	EV_REQUEST,
	EV_ESTABLISHED,
	EV_FAILED,
	EV_DISCONNECTED,
	EV_QP_BROKEN,
	EV_LAST_RECEIVE,
	EV_SRQ_LIMIT,
	EV_SRQ_BROKEN,
	EV_CQ_OVERRUN,
	EV_PORT_DOWN,
	EV_DEV_FATAL,
};

struct event {
	struct event *next;
	enum event_kind kind;
	void *about; /* the connection, QP or CQ that it concerns, or NULL */
	enum tp_cause cause;
};

/*
 * A descriptor that is readable from channel_signal to channel_read: an eventfd, or a pipe, which
 * can be put into error for ever.
 */
struct channel {
	int fd;
	int writer; /* of a pipe; the same as fd: it is an eventfd; -1: in error */
};

/* Opens an eventfd, or a pipe if FAKE_REMOVABLE is set. Returns 0 or a negative errno. */
int channel_open(struct channel *channel);
void channel_close(struct channel *channel);
void channel_signal(const struct channel *channel);
bool channel_read(const struct channel *channel); /* false: there is no signal */
void channel_fail(struct channel *channel);

struct tp_dev {
	struct tp_dev *next;
	struct ia *ia;
	struct tp_attr attr;
	struct channel channel;
	struct channel second;	/* silent */
	bool has_second;	/* it may be removed */
	uint64_t deadline;	/* of fake_alarm; TP_NEVER: none */
	uint64_t next_deadline; /* of fake_alarm_next; 0: none */
	bool removed;
	atomic_bool port_down;
	bool served; /* tp_dev_fds was called, so a service thread is expected to poll it */
	struct event *events, **events_end;
	const void *upcall; /* what the upcall that is under way is about */
	unsigned alive[FAKE_ANY];
	struct tp_listener *listeners;
};

/* The lock is held for all three. */
void event_post(struct tp_dev *dev, enum event_kind kind, void *about, enum tp_cause cause);
/* Removes the queued events about @about. */
void events_drop(struct tp_dev *dev, const void *about);
void alive_add(struct tp_dev *dev, enum fake_kind kind, int n);

/* ---- mem.c ---- */

struct tp_pd {
	struct tp_dev *dev;
	unsigned users;
};

/*
 * Tells whether a region of @pd with @key covers the range and grants one of the privileges in
 * @priv, or any if that is 0; the second one, whether a region or window lets the peer of @qp do
 * that.
 */
bool mem_allows(const struct tp_pd *pd, uint32_t key, DAT_VADDR address, DAT_VLEN length,
		unsigned priv);
bool mem_allows_peer(const struct tp_qp *qp, uint32_t key, DAT_VADDR address, DAT_VLEN length,
		     unsigned priv);
/* Returns what has to be added to an address that goes with @key, to get the one in memory. */
DAT_VADDR mem_bias(uint32_t key);
/* Returns the key that the next bind of a window gives it. */
DAT_RMR_CONTEXT mw_next_key(const struct tp_mw *mw);
/*
 * Records that a bind is posted which will give the window @key. Returns the key that the window
 * has when the binds posted before have been executed.
 */
DAT_RMR_CONTEXT mw_post(struct tp_mw *mw, DAT_RMR_CONTEXT key);
/*
 * Executes @bind, which changes the window's key from @from to @key. Returns false when the window
 * has another key than @from, or when the device refuses the bind.
 */
bool mw_bind(const struct tp_qp *qp, const struct tp_bind *bind, bool zero_based,
	     DAT_RMR_CONTEXT from, DAT_RMR_CONTEXT key);
/* Unbinds the window with the context @key. Returns false if none is bound on @qp that has it. */
bool mw_invalidate(const struct tp_qp *qp, DAT_RMR_CONTEXT key);
/* Unbinds the windows of a queue pair, which is destroyed next. */
void windows_detach_qp(const struct tp_qp *qp);

/* ---- cq.c ---- */

struct cqe {
	struct tp_wc wc;
	struct tp_qp *qp;     /* NULL once it is destroyed */
	struct tp_qp *shared; /* its receive was of a shared receive queue; valid until forgotten */
	bool is_send;
	unsigned number; /* of the work request, in its queue */
};

struct tp_cq {
	struct tp_cq *next;
	struct tp_dev *dev;
	struct evd *evd;
	struct channel channel;
	enum fake_armed armed;
	unsigned users;
	unsigned depth, head, count; /* of a circular buffer */
	struct cqe *entries;
};

void cq_push(struct tp_cq *cq, const struct cqe *cqe, bool solicited);
/* Takes @qp, which is about to be destroyed, from the queue. */
void cq_detach_qp(struct tp_cq *cq, const struct tp_qp *qp);

/* ---- qp.c and post.c ---- */

enum wr_kind {
	WR_SEND,
	WR_WRITE,
	WR_READ,
	WR_WRITE_IMMED,
	WR_ATOMIC,
	WR_BIND,
	WR_RECV,
};

struct wr {
	struct wr *next;
	uint64_t seq;
	unsigned number;
	enum wr_kind kind;
	void *tag;
	unsigned flags;
	DAT_VLEN size; /* the sum over all segments */
	DAT_RMR_TRIPLET remote;
	uint32_t immed;	  /* of WR_WRITE_IMMED; of a receive: what the message has brought */
	bool invalidates; /* of WR_SEND: the window of the peer that has @key */
	struct tp_atomic atomic;
	struct tp_bind bind;
	bool zero_based;	   /* the window that is bound */
	DAT_RMR_CONTEXT from, key; /* of the window: before and after the bind */
	unsigned nseg;
	struct tp_sge sges[FAKE_MAX_SGE];
};

struct wr_queue {
	struct wr *first, **end;
	unsigned posted, retired; /* work requests so far; the difference is the slots in use */
	unsigned limit, max_sge;
};

enum qp_state {
	QP_READY, /* receives may be posted */
	QP_UP,
	QP_ERROR,
	QP_GONE, /* its device is removed: what is posted never completes */
};

struct tp_srq {
	struct tp_srq *next;
	struct tp_dev *dev;
	struct srq *srq;
	struct tp_pd *pd;
	unsigned users;
	unsigned limit; /* armed; 0: not */
	atomic_bool resizing;
	struct wr_queue recvs; /* retired: taken by a queue pair */
};

struct tp_qp {
	struct tp_qp *next;
	struct tp_dev *dev;
	struct ep *ep;
	struct tp_pd *pd;
	struct tp_cq *send_cq, *recv_cq;
	enum qp_state state;
	struct tp_qp *peer;
	struct tp_conn *conn;
	struct tp_srq *srq;	 /* then recvs has what was taken from it for a message */
	bool destroyed;		 /* and not forgotten */
	bool datagrams, stopped; /* stopped: a send has failed, and the others are flushed */
	uint32_t number;	 /* of datagrams; address handles have it */
	struct wr_queue sends, recvs;
};

void queue_init(struct wr_queue *queue, unsigned limit, unsigned max_sge);
void queue_drop(struct wr_queue *queue);

void qp_report_last_receive(struct tp_qp *qp);
/* Enters the error state and flushes what is queued; up_qp_broken follows if @notify. */
void qp_break(struct tp_qp *qp, bool notify);
void qp_complete(struct tp_qp *qp, struct wr *wr, DAT_DTO_COMPLETION_STATUS status, uint32_t length,
		 bool solicited);
void qp_flush(struct tp_qp *qp, struct wr_queue *queue);
struct wr *wr_take(struct wr_queue *queue);
/* Makes a receive with a copy of @sges. Returns NULL if there is no memory. */
struct wr *wr_receive(void *tag, const struct tp_sge *sges, unsigned nsge);
/* Takes the oldest receive, which there must be. */
struct wr *srq_take(struct tp_srq *srq);
/* Executes what can make progress between @qp and its peer, unless transfers are held. */
void transfers_run(struct tp_qp *qp);

/* ---- cm.c ---- */

/* Makes the upcall for an event about a connection. The lock is held, but for the upcall itself. */
void conn_dispatch(const struct event *event);
void conn_detach_qp(struct tp_qp *qp);
/* These stand around an upcall about @about: the first releases the lock, the second retakes it. */
void upcall_begin(struct tp_dev *dev, const void *about);
void upcall_end(struct tp_dev *dev);

/* ---- datagram.c ---- */

/* Makes an address handle of the queue pair with that number. The lock is held. */
struct tp_ah *ah_new(struct tp_dev *dev, uint32_t number);

/* ---- clock.c ---- */

/* Is called in the child after a fork: its one thread is the only one. */
void clock_after_fork(void);
/* Expects @n more service threads, or fewer, to call tp_poll. */
void clock_expect(int n);

#endif
