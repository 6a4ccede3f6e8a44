/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private structs of the verbs transport, and what its files call in one another.
 *
 *	device.c	opening a device, its limits, its descriptors and asynchronous events
 *	resolve.c	the device, port and address that the IA params of dat.conf mean
 *	env.c		settings from environment variables
 *	mem.c		protection domains, memory regions, the limit of locked memory
 *	window.c	memory windows
 *	cq.c		completion queues
 *	srq.c		shared receive queues, and which endpoint took a receive
 *	qp.c		queue pairs and their states
 *	post.c		work requests
 *	cm.c		the life of a connection; cm.h has the structs
 *	cm_event.c	what the service thread handles for connections: events, CM results
 *	datagram2.c	how two endpoints of datagrams learn of each other, in DAT 2.0
 *	iwarp.c		connecting on iWARP, where librdmacm blocks
 *	stray.c		late completions of a queue pair that an iWARP attempt still uses
 *
 * The objects that move data (protection domains, completion queues, queue pairs) are made with
 * libibverbs on a device context of our own. librdmacm makes the connections; it is given only the
 * number of a queue pair. So receives can be posted before there is a connection, and an endpoint
 * without one needs no rdma_cm_id. qp_to_rts makes the state changes that librdmacm would make for
 * a queue pair of its own.
 *
 * Everything in cm.c, cm_event.c and iwarp.c runs under ia->lock unless its comment says otherwise.
 * The helper threads of iwarp.c run without it; tp_dev.result_lock guards the list to which they
 * add.
 *
 * An iWARP attempt that is given up keeps its queue pair in use until the kernel has the peer's
 * answer, which may be after the device was closed. So objects below the device count their
 * holders: a queue pair holds its completion queues, its protection domain and its shared receive
 * queue, and these hold the device. The last holder destroys the object.
 */
#ifndef UDAPL_VERBS_H
#define UDAPL_VERBS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>

#include "base/base.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "transport.h"

/*
 * Makes a call of librdmacm that may take the lock which it has for all devices, and returns its
 * result, an int: calls that make, bind and destroy identifiers, and get events. It is counted, for
 * tp_was_in_call. The thread can't be cancelled.
 */
#define LIBRDMACM(call)                                                                            \
	({                                                                                         \
		int result_;                                                                       \
                                                                                                   \
		atomic_fetch_add(&librdmacm_calls, 1);                                             \
		result_ = (call);                                                                  \
		atomic_fetch_sub(&librdmacm_calls, 1);                                             \
		result_;                                                                           \
	})
extern atomic_uint librdmacm_calls; /* device.c; threads that are in such a call */

/* The settings from environment variables, which env.c reads. */
struct tp_env {
	unsigned max_inline; /* bytes; 0 = none */
	unsigned wr_max;     /* work requests of a queue, at most */
	unsigned on_demand;  /* whether to register without pinning pages */
	unsigned ack_timer;  /* local ACK time-out, 4.096 us * 2^n, or unset */
	unsigned ack_retry;  /* 7 means no limit on some devices */
	unsigned rnr_timer;  /* code of the delay after which a sender repeats on an RNR NAK */
	unsigned rnr_retry;  /* 7 means no limit */
	/* of the packets of a connection; if unset, they are as librdmacm resolves the path */
	unsigned service_level, traffic_class, hop_limit;
	unsigned tos;			     /* of librdmacm's look for a path, or unset */
	unsigned arp_timeout, arp_retry;     /* ms, times; of address resolution */
	unsigned route_timeout, route_retry; /* ms, times; of route resolution */
};

/* Bytes of private data that the transport puts before the consumer's, see datagram2.c. */
#define DATAGRAM_HEADER 20

#define TP_ENV_UNSET	      UINT32_MAX
#define TP_RNR_RETRY_NO_LIMIT 7

/*
 * Against the specification, some devices raise no completion event on a CQ that is armed for
 * solicited events only. Such a CQ is armed for every completion instead.
 */
enum solicited_quirk {
	SOLICITED_WORKS,
	SOLICITED_MISSES_SEND_ERRORS, /* soft RoCE: none for failures of the send queue */
	SOLICITED_MISSES_ALL,	      /* soft iWARP: none for solicited receives either */
};

/* How many sets of privileges a region can have, from 0 on. */
#define PRIV_SETS (((unsigned)DAT_MEM_PRIV_ALL_FLAG | TP_PRIV_ATOMIC) + 1)

/* A list of connections that wait for a time, by deadline. */
struct cm_conn_list {
	struct tp_conn *first, **end;
};

/* The address that had a route when it was last asked for, and until when that is believed. */
struct cm_route {
	struct sockaddr_storage to; /* without a port */
	uint64_t until;
};

struct tp_dev {
	_Atomic unsigned holders; /* its owner, PDs and CQs: these need ibv, and nothing else */
	struct ia *ia;
	struct ibv_context *ibv;
	struct tp_attr attr;
	struct tp_env env;
	uint8_t port;
	bool iwarp;
	bool has_pkeys; /* more than one, so that the index of a connection's is not always 0 */
	/* what a region is registered with */
	uint8_t access[PRIV_SETS]; /* IBV_ACCESS_*, by privileges */
	unsigned reg_flags;	   /* those of TP_REG_* that the device has */
	bool may_have_gpus;	   /* memory that it registers may be that of one */
	bool wants_on_demand;	   /* its line of dat.conf says so */
	enum solicited_quirk solicited;
	unsigned no_caps; /* TP_CAP_* that it does not have, whatever it says */
	/* endpoints by the numbers of their queue pairs; ia->lock to add; NULL: none has an SRQ */
	struct qp_leaf **qp_table;

	/* ia->lock */
	struct rdma_event_channel *cm;
	bool removed;	/* librdmacm said so */
	bool move_told; /* its address belongs to another device */
	unsigned conns; /* that exist */
	struct tp_listener *listeners;
	struct cm_event *pending, **pending_end; /* taken off the channel, not handled yet */
	struct cm_conn_list lingering, retrying, to_destroy;
	struct cm_route route;
	struct rdma_cm_id *asked_back; /* listens for peers that ask back; NULL: none has to yet */
	struct datagram_answers *answers; /* NULL: none was given yet */

	struct mutex result_lock;
	struct tp_conn *results; /* result_lock; linked by next_result, newest first */

#if DAT_EDITION == 2
	struct spinlock windows_lock;
	unsigned invalidated_flags; /* IBV_WC_*; each says that the message has invalidated */
#endif
};

struct tp_pd {
	_Atomic unsigned holders; /* its owner, QPs, AHs */
	struct ibv_pd *ibv;
	struct tp_dev *dev;
	struct spinlock qps_lock;
	struct tp_qp *qps; /* qps_lock */
	bool no_inline;	   /* qps_lock; its queue pairs send nothing inline; never set back */
};

/* A tp_mr is an ibv_mr: a struct of our own would cost an allocation for each registration. */
static inline struct ibv_mr *ibv_mr_of(struct tp_mr *mr)
{
	return (struct ibv_mr *)mr;
}

struct tp_mw {
	struct ibv_mw_bind wr; /* of the bind being posted; the core serialises them */
	struct ibv_mw *ibv;
#if DAT_EDITION == 2
	/* of a queue pair, that is of type 2; windows_lock guards all but dev, and ibv then */
	struct tp_dev *dev;	    /* fixed; NULL of type 1 */
	struct tp_mw *next, **back; /* in qp->windows; NULL: it was not bound, or qp is gone */
#endif
};

/* A completion is polled in place: the two have the same members in the same places. */
union wc {
	struct tp_wc tp;
	struct ibv_wc ibv;
};

struct tp_cq {
	_Atomic unsigned holders; /* its owner, QPs */
	struct ibv_cq *ibv;
	struct ibv_comp_channel *channel;
	struct tp_dev *dev;
	struct evd *evd;    /* ia->lock; NULL: its owner has destroyed it */
	_Atomic bool sends; /* it is, or was, the send CQ of a QP */

	_Atomic(struct ibv_cq *) polled; /* by tp_cq_poll: ibv or &filter, see stray.c */
	struct ibv_cq filter;		 /* only its context is used */
	struct spinlock stray_lock;
	struct stray *strays; /* stray_lock */
};

struct tp_srq {
	struct ibv_recv_wr wr; /* of the post being made, as in a tp_qp */
	struct ibv_recv_wr *bad;
	struct ibv_srq *ibv;
	_Atomic unsigned holders; /* its owner, QPs */
	struct tp_dev *dev;
	struct tp_pd *pd;
	struct srq *srq; /* ia->lock; NULL: its owner has destroyed it */
};

/* What a queue pair of datagrams has to know of another one, which it sends to. */
struct tp_ah {
	struct ibv_ah *ibv;
	struct tp_pd *pd; /* held */
	uint32_t qp_num, qkey;
};

struct tp_qp {
	/*
	 * Posting fills in only the fields that vary. The core serialises the posts of each
	 * direction.
	 */
	struct ibv_send_wr send_wr;
	struct ibv_recv_wr recv_wr;
	struct ibv_send_wr *bad_send; /* where libibverbs says which one it refused; not read */
	struct ibv_recv_wr *bad_recv;
	struct ibv_qp *ibv;
	unsigned max_inline; /* bytes; pd_end_inline sets it to 0 while others may post */
	unsigned fence;	     /* IBV_SEND_FENCE where sends and writes may overtake reads (iWARP) */
	_Atomic unsigned holders; /* its owner, the orphaned attempt that uses it */
	struct tp_dev *dev;
	struct tp_pd *pd;
	struct tp_qp *next_of_pd, **back_of_pd; /* pd->qps_lock; in pd->qps */
	struct tp_cq *send_cq, *recv_cq;
	struct tp_srq *srq;	 /* NULL: none */
	uint32_t number;	 /* that of ibv, which may be gone */
	_Atomic unsigned memory; /* uses of this struct: ibv, and with an SRQ until forgotten */
	struct ep *ep;		 /* ia->lock; NULL: its attempt was given up */
	struct tp_conn *conn;	 /* ia->lock */
	/* the one that we set last; soft iWARP reports RESET always, so ibv_query_qp is no use */
	enum ibv_qp_state state;
	bool datagrams;		 /* fixed; its endpoint is one of datagrams */
	bool orphaned;		 /* ia->lock; an attempt with it was given up without an answer */
	bool filtered;		 /* stray_qp_begin was called */
	struct stray *strays[2]; /* iWARP; of recv_cq, and of send_cq if that is another one */
#if DAT_EDITION == 2
	struct tp_mw *windows; /* windows_lock; that were bound on it */
#endif
};

/*
 * Translates the result of ibv_post_* and ibv_bind_mw to 0 or a negative errno. They return an
 * errno, but soft iWARP may return -1 after a disconnect.
 */
static inline int post_result(int err)
{
	if (likely(!err))
		return 0;
	return err > 0 ? -err : -ENOTCONN;
}

/*
 * Returns why libibverbs made no object. The caller has set errno to 0 before, because some
 * providers set none when a limit is exceeded.
 */
static inline int refusal(void)
{
	return errno ? -errno : -EINVAL;
}

/*
 * Each of these gives up one hold of an object, and the last one destroys it. Any thread may call
 * them.
 */
void dev_put(struct tp_dev *dev); /* device.c */
void pd_put(struct tp_pd *pd);	  /* mem.c */
void cq_put(struct tp_cq *cq);	  /* cq.c */
void qp_put(struct tp_qp *qp);	  /* qp.c */
void srq_put(struct tp_srq *srq); /* srq.c */
/* Gives up one hold of the memory of the struct; the last one frees it. */
void qp_memory_put(struct tp_qp *qp); /* qp.c */

/* ---- mem.c ---- */

/* For a device that is opened, whose attributes are known: decides how regions are registered. */
void mem_init(struct tp_dev *dev);
/* From the creation of a queue pair to its destruction its domain knows it. Any thread. */
void pd_join(struct tp_qp *qp);
void pd_part(struct tp_qp *qp);

/* ---- window.c ---- */

/* For a device that is opened. */
void windows_init(struct tp_dev *dev);
/*
 * Frees the windows of a queue pair, to which nobody posts and which is destroyed next: soft-RoCE
 * takes 51 seconds to destroy one with a bound window.
 */
void windows_end(struct tp_qp *qp);

/* ---- srq.c ---- */

/*
 * Says whether there is a queue pair of this number, with an SRQ, that was not forgotten. ia->lock
 * is held.
 */
bool srq_has_number(const struct tp_dev *dev, uint32_t number);
/*
 * Has the queue pair found by its number, and hold its SRQ. Returns 0 or -ENOMEM. ia->lock is held.
 */
int srq_qp_begin(struct tp_qp *qp);
/*
 * Corrects what the attributes say about SRQs, by making one. It is called when the device is
 * opened.
 */
void srq_probe(struct tp_dev *dev);
/* Frees the table that leads from numbers to endpoints, when the device is closed. */
void srq_table_destroy(struct tp_dev *dev);

/* ---- stray.c ---- */

/*
 * Begins to poll @cq, whose ibv is set, without a filter. stray_fini frees what is left, and no
 * thread uses the queue then.
 */
void stray_init(struct tp_cq *cq);
void stray_fini(struct tp_cq *cq);
/* Allocates what the other two need. Returns 0 or -ENOMEM; stray_qp_end follows in either case. */
int stray_qp_prepare(struct tp_qp *qp);
/*
 * Has the completions of the queue pair dropped from now on: its owner destroys it, and an orphan
 * may use it for longer.
 */
void stray_qp_begin(struct tp_qp *qp);
/* Ends that when ibv_destroy_qp has returned: what is in the queue now are the last ones. */
void stray_qp_end(struct tp_qp *qp);
/* Says whether completions of a QP of this number may be dropped. ia->lock is held. */
bool stray_has(struct tp_cq *cq, uint32_t qp_num);

/* ---- resolve.c ---- */

/* A search for the device that the IA params mean. */
struct lookup {
	char name[256]; /* the first word of the params */
	unsigned port;	/* the second */
	bool on_demand; /* there is a third, which says so */
	struct ibv_device **devices;
	int device_count;
	struct rdma_event_channel *cm;
	bool interface_exists; /* a network interface has that name */
	bool interface_up;
	struct sockaddr_storage number; /* the name, if that is an address */
};

/*
 * Begins a search. Returns -ENODEV or -ENOENT if this host has no RDMA device, and -ENOENT if
 * @params are wrong; the cause was logged. Otherwise lookup_end follows.
 */
int lookup_begin(struct lookup *lookup, const char *params);
/*
 * Finds the device, and sets the address and the port of @dev. @device is valid until lookup_end.
 * Returns 0 or a negative errno, whose cause was logged.
 */
int lookup_run(struct lookup *lookup, struct tp_dev *dev, struct ibv_device **device);
/* Ends a search, and frees the list of devices. */
void lookup_end(struct lookup *lookup);

/* ---- port.c ---- */

/* Returns bytes; 0: a driver may tell a size that is none, of a port that is down. */
unsigned mtu_bytes(enum ibv_mtu mtu);

/* ---- env.c ---- */

/*
 * Reads the settings for a device, of which is known whether it is iWARP. tp_dev_open calls this.
 */
void env_read(struct tp_dev *dev);
/* Applies the settings to the path of a connection, before its QP learns of it. */
void env_apply_to_path(const struct tp_env *env, struct ibv_ah_attr *path);
/*
 * Applies them to an identifier, before an address is resolved or listened on: connections that are
 * accepted take them from there.
 */
void env_apply_to_id(const struct tp_dev *dev, struct rdma_cm_id *id);

/* ---- qp.c ---- */

/*
 * Moves a QP from INIT to RTS, for the connection of @id. Returns 0 or a negative errno; -ENOTCONN:
 * the peer has given up, and the QP is unchanged. ia->lock is held.
 */
int qp_to_rts(struct tp_qp *qp, struct rdma_cm_id *id, unsigned max_read_in, unsigned max_read_out);

/* ---- cm.c, cm_event.c ---- */

/* These are called when the device is opened and closed: no other thread uses it. */
int cm_open(struct tp_dev *dev);
void cm_close(struct tp_dev *dev);

/*
 * Handles CM results, events, if the channel is @ready or some are pending, and what is due by
 * time. Returns whether an address was resolved: then the event of the route may be there at once.
 * ia->lock is held; tp_dev_progress calls this.
 */
bool cm_progress(struct tp_dev *dev, bool ready);
/*
 * Tells librdmacm that data came before the peer's last message of the handshake
 * (IBV_EVENT_COMM_EST). ia->lock is held.
 */
void cm_conn_comm_established(struct tp_conn *conn);

#endif
