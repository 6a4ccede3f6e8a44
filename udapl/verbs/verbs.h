/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private structs of the verbs transport.
 *
 * Two libraries share the work. What moves data is ours, made by libibverbs on a context of our
 * own: protection domain, completion queues, queue pairs. librdmacm talks to the peer and is told
 * no more of a queue pair than its number, so receives can be posted before there is a connection,
 * and an idle endpoint costs no identifier. What librdmacm would have done to a queue pair of its
 * own, qp_bring_up does.
 *
 * The core's ia->lock guards everything about connections. One other thread is the helper of an
 * iWARP connect; it touches nothing but its own attempt and the list of outcomes, which has a lock.
 *
 * An iWARP attempt that is given up lives on in a thread that nobody waits for, even when the
 * device is closed: until the kernel has its answer, it lets go neither of the attempt nor of the
 * queue pair. So a queue pair has holders, and holds its queues and its domain, which hold the
 * device; whoever lets go last destroys.
 */
#ifndef UDAPL_VERBS_H
#define UDAPL_VERBS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>

#include "log.h"
#include "lock.h"
#include "thread.h"
#include "transport.h"

#define TP_MAX_SGE 32 /* segments of one request; they are built on the stack */

/* What the environment decides. */
struct tp_env {
	unsigned max_inline; /* bytes; 0 = none */
	/* 4.096 us * 2^n; TP_ACK_TIMER_CM = what the connection manager computes */
	unsigned ack_timer;
	unsigned ack_retry; /* 7 = for ever, on some devices */
	/* code of the wait before a send to an unready receiver is repeated */
	unsigned rnr_timer;
	unsigned arp_timeout, arp_retry;     /* ms, times; of address resolution */
	unsigned route_timeout, route_retry; /* likewise, of the route */
};

#define TP_ACK_TIMER_CM 32
#define TP_RNR_FOR_EVER 7

/*
 * Which completion queues get no solicited event when a request fails, against the specification.
 */
enum tp_forgets {
	FORGETS_NOTHING,
	FORGETS_REQUESTS, /* soft RoCE: failures in a send queue */
	FORGETS_ALL,	  /* soft iWARP: solicited receives, too */
};

struct tp_dev {
	/* its owner, domains and completion queues: these need ibv, and nothing else of it */
	_Atomic unsigned holders;
	struct ia *ia;
	struct ibv_context *ibv;
	struct tp_attr attr;
	struct tp_env env;
	uint8_t port;
	bool iwarp;
	bool fatal; /* ia->lock; the core was told that the device is gone */
	enum tp_forgets forgets;

	int epoll; /* holds the two channels and the next two */
	int wake;  /* eventfd: outcomes or stashed events are there */
	int timer; /* timerfd: the first of the leaving connections has had its time */

	/* ia->lock; cm.c */
	struct rdma_event_channel *cm;
	struct tp_listener *listeners;
	struct cm_event *stash, **stash_end;	/* taken off the channel, not handled yet */
	struct tp_conn *leaving, **leaving_end; /* released; first come, first to time out */

	struct mutex outcome_lock;
	struct tp_conn *outcomes; /* outcome_lock */
};

struct tp_pd {
	_Atomic unsigned holders; /* its owner, queue pairs */
	struct ibv_pd *ibv;
	struct tp_dev *dev;
};

/*
 * A region is nothing but libibverbs' own, and has no struct of ours: registering is a path that
 * counts.
 */
static inline struct ibv_mr *ibv_mr_of(struct tp_mr *mr)
{
	return (struct ibv_mr *)mr;
}

struct tp_mw {
	struct ibv_mw_bind wr; /* one poster at a time, as the core promises */
	struct ibv_mw *ibv;
};

struct tp_cq {
	_Atomic unsigned holders; /* its owner, queue pairs */
	struct ibv_cq *ibv;
	struct ibv_comp_channel *channel;
	struct tp_dev *dev;
	struct evd *evd;	  /* ia->lock; NULL: its owner is gone */
	_Atomic unsigned senders; /* queue pairs that complete their requests here */
};

struct tp_qp {
	struct ibv_qp *ibv;
	/*
	 * Of one segment, filled in but for what varies; one poster at a time, as the core promises
	 * each direction.
	 */
	struct ibv_send_wr send_wr;
	struct ibv_recv_wr recv_wr;
	struct ibv_sge send_sge, recv_sge;
	unsigned max_inline;
	/* IBV_SEND_FENCE where sends and writes would overtake reads (iWARP) */
	unsigned order;
	_Atomic unsigned holders; /* its owner, and an attempt that was given up */
	struct tp_dev *dev;
	struct tp_pd *pd;
	struct tp_cq *send_cq, *recv_cq;
	struct ep *ep;	      /* ia->lock; NULL: its attempt was given up */
	struct tp_conn *conn; /* ia->lock */
	/* as we moved it: asking the device is no good, soft iWARP always says RESET */
	enum ibv_qp_state state;
};

/* ibv_post_* and ibv_bind_mw return the errno; soft iWARP may return -1 after a disconnect. */
static inline int post_result(int err)
{
	if (likely(!err))
		return 0;
	return err > 0 ? -err : -ENOTCONN;
}

/* Each lets go of one hold, on any thread. */
void dev_put(struct tp_dev *dev); /* device.c */
void pd_put(struct tp_pd *pd);	  /* mem.c */
void cq_put(struct tp_cq *cq);	  /* cq.c */
void qp_put(struct tp_qp *qp);	  /* qp.c */

/* mem.c: warns when so little memory may be pinned that nothing useful can be done. */
void memlock_check(void);

/*
 * qp.c: INIT to RTS for the connection of @id. -ENOTCONN: the peer is gone and the QP is as it was.
 */
int qp_bring_up(struct tp_qp *qp, struct rdma_cm_id *id, unsigned max_read_in,
		unsigned max_read_out);

/* cm.c; ia->lock held. */
int cm_open(struct tp_dev *dev);
void cm_close(struct tp_dev *dev);
void cm_events(struct tp_dev *dev);   /* the event channel is readable */
void cm_outcomes(struct tp_dev *dev); /* wake is readable */
void cm_reap(struct tp_dev *dev);     /* timer is readable */
/* data came before the peer's last message of the handshake */
void cm_heard(struct tp_conn *conn);

/* device.c; ia->lock held. Tells the core once. */
void dev_is_fatal(struct tp_dev *dev);

#endif
