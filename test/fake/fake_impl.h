/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The inside of the fake transport. One lock guards it all, but for time; no upcall is made under
 * it.
 */
#ifndef FAKE_IMPL_H
#define FAKE_IMPL_H

#include <netinet/in.h>
#include <pthread.h>

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
	CALL_QP_CREATE,
	CALL_QP_ERROR,
	CALL_QP_DESTROY,
	CALL_POST_SEND,
	CALL_POST_RECV,
	CALL_POST_WRITE,
	CALL_POST_READ,
	CALL_POST_BIND,
	CALL_POST_MARKER,
	CALL_LISTEN,
	CALL_UNLISTEN,
	CALL_CONNECT,
	CALL_ACCEPT,
	CALL_REJECT,
	CALL_RELEASE,
	CALL_ESTABLISH,
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
	struct tp_mr *mrs;
	struct tp_mw *mws;
	uint32_t next_key;
	bool hold;
	uint64_t next_seq; /* of work requests, over all QPs */
	DAT_DTO_COMPLETION_STATUS fail_transfer;
	bool hold_cm;
	struct message *wire, **wire_end;
	uint16_t next_port;
};
extern struct fake fake;

/* Counts the call and takes the lock; if it is to fail, says so and does not. */
int fake_enter(enum fake_call call);
/* For calls that can't fail. */
void fake_lock(void);
void fake_unlock(void);
void fake_count(enum fake_call call); /* locked */
/* Scripted failure within a call; locked. */
int fake_fault(enum fake_call call);

/* A rule of the seam: without it the core is wrong, and the test ends here. */
void fake_demand(bool kept, const char *rule);

/* ---- device.c ---- */

enum event_kind {
	EV_REQUEST,
	EV_ESTABLISHED,
	EV_FAILED,
	EV_DISCONNECTED,
	EV_QP_BROKEN,
	EV_CQ_OVERRUN,
	EV_PORT_DOWN,
	EV_DEV_FATAL,
};

struct event {
	struct event *next;
	enum event_kind kind;
	void *about; /* what it happened to: a connection, a QP, a CQ, or nothing */
	enum tp_cause cause;
};

struct tp_dev {
	struct tp_dev *next;
	struct ia *ia;
	struct tp_attr attr;
	int fd;
	bool served; /* somebody asked for the descriptor: a service thread is due */
	struct event *events, **events_end;
	const void *upcall; /* what the upcall under way is about */
	unsigned alive[FAKE_ANY];
	struct tp_listener *listeners;
};

void event_post(struct tp_dev *dev, enum event_kind kind, void *about, enum tp_cause cause);
/* Forgets what was queued about it. */
void events_drop(struct tp_dev *dev, const void *about);
void alive_add(struct tp_dev *dev, enum fake_kind kind, int n);

/* ---- mem.c ---- */

struct tp_pd {
	struct tp_dev *dev;
	unsigned users;
};

/* Is that memory of @pd, with one of the privileges in @priv (0: any)? */
bool mem_may(const struct tp_pd *pd, uint32_t key, bool remote, DAT_VADDR address, DAT_VLEN length,
	     unsigned priv);
/* A key that a window may have next. */
DAT_RMR_CONTEXT mw_next_key(void);
/* A bind that will give the window @key is posted. What it goes on from. */
DAT_RMR_CONTEXT mw_post(struct tp_mw *mw, DAT_RMR_CONTEXT key);
/*
 * Carries out @bind, which gives the window @key unless it has another than @from. False: it can't
 * be.
 */
bool mw_bind(const struct tp_pd *pd, const struct tp_bind *bind, DAT_RMR_CONTEXT from,
	     DAT_RMR_CONTEXT key);

/* ---- cq.c ---- */

struct cqe {
	struct tp_wc wc;
	struct tp_qp *qp; /* NULL once that is gone */
	bool is_send;
	unsigned number; /* of the work request, in its queue */
};

struct tp_cq {
	struct tp_dev *dev;
	struct evd *evd;
	int fd;
	enum fake_armed armed;
	unsigned users;
	unsigned depth, head, count; /* a circle */
	struct cqe *entries;
};

void cq_push(struct tp_cq *cq, const struct cqe *cqe, bool solicited);
/* @qp goes away. */
void cq_forget(struct tp_cq *cq, const struct tp_qp *qp);

/* ---- qp.c and post.c ---- */

enum wr_kind {
	WR_SEND,
	WR_WRITE,
	WR_READ,
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
	DAT_VLEN size; /* all segments together */
	DAT_RMR_TRIPLET remote;
	struct tp_bind bind;
	DAT_RMR_CONTEXT from, key; /* for the window */
	unsigned nseg;
	DAT_LMR_TRIPLET iov[FAKE_MAX_SGE];
};

struct wr_queue {
	struct wr *first, **end;
	unsigned posted, retired; /* work requests, counted as the device counts its slots */
	unsigned limit, max_sge;
};

enum qp_state {
	QP_READY, /* takes receives */
	QP_UP,
	QP_ERROR,
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
	struct wr_queue sends, recvs;
};

/* Into the error state; what is queued is flushed. */
void qp_break(struct tp_qp *qp, bool tell);
void qp_complete(struct tp_qp *qp, struct wr *wr, DAT_DTO_COMPLETION_STATUS status, uint32_t length,
		 bool solicited);
void qp_flush(struct tp_qp *qp, struct wr_queue *queue);
struct wr *wr_take(struct wr_queue *queue);
/* Whatever can run between @qp and its peer does, unless transfers are held. */
void transfers_run(struct tp_qp *qp);

/* ---- cm.c ---- */

void conn_dispatch(const struct event *event); /* locked, but for the upcall */
void conn_forget_qp(struct tp_qp *qp);
void upcall_begin(struct tp_dev *dev, const void *about);
void upcall_end(struct tp_dev *dev);

/* ---- clock.c ---- */

/* One service thread more, or less, is to be heard of. */
void clock_expect(int n);

#endif
