/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stand-in for libibverbs and librdmacm as tests control it. Programs link it instead of these
 * libraries, together with udapl/verbs/.
 *
 *	script.c	counts and failures of calls, calls that wait
 *	host.c		network interfaces, the clock, calls of the C library that can fail
 *	device.c	devices, their limits, asynchronous events
 *	object.c	protection domains, regions, windows, queue pairs
 *	queue.c		posts, completions, completion channels
 *	cm.c		librdmacm: identifiers, event channels
 *	upcalls.h	a core that records upcalls, for programs without the real one
 *
 * Nothing happens by itself: a test posts each event and each completion. What a real library would
 * wait for for ever, or may not be done to it, ends the test with a message. Any thread may call
 * these functions, and those of the libraries.
 */
#ifndef FAKE_VERBS_H
#define FAKE_VERBS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

/* ---- calls ---- */

/*
 * Each call but polls, posts and binds is a cancellation point.
 *
 * A call is one of libibverbs or librdmacm by its name, such as "ibv_create_qp"; or one of these of
 * the C library: bind, connect, epoll_create1, epoll_ctl (that adds a descriptor), eventfd, fcntl,
 * getaddrinfo, getifaddrs, if_nametoindex, pthread_create, socket. ibv_reg_mr stands for
 * ibv_reg_mr_iova2, too.
 */

/*
 * The @nth call of @call from now on, 1 being the next, fails with errno @err, once. Negative: with
 * that result, for calls that return an errno.
 */
void fv_fail(const char *call, int err, unsigned nth);
#define FV_NO_ERRNO 9999 /* as @err: a call that returns NULL leaves errno as it is */
/* All calls of @call fail; with 0, none. */
void fv_fail_always(const char *call, int err);
/* How often @call was made since the start of the process. */
unsigned fv_calls(const char *call);
/*
 * The calls since the start of the process or the latest fv_trace_clear, in order: their names,
 * with a blank between two. Those that only read (ibv_get_device_name, rdma_get_local_addr), posts,
 * polls, and those of the C library are not in it.
 */
const char *fv_trace(void);
void fv_trace_clear(void);

/*
 * Later calls of @call wait until fv_let_go. Such a wait is a cancellation point, as write(2) is,
 * and no thread may make it that has called fv_ia_lock.
 */
void fv_hold(const char *call);
/*
 * Later calls of @call wait in the same way, but the wait is no cancellation point: it is like a
 * system call that nothing interrupts.
 */
void fv_hold_firmly(const char *call);
void fv_let_go(const char *call);
/* Returns when @call has been made @n times since the start of the process. */
void fv_await(const char *call, unsigned n);

/* Whether the calling thread counts as one that holds ia->lock. */
void fv_ia_lock(void);
void fv_ia_unlock(void);
bool fv_ia_locked(void);

/* ---- objects ---- */

enum fv_kind {
	FV_DEVICE_LIST,
	FV_CONTEXT, /* of ibv_open_device */
	FV_PD,
	FV_MR,
	FV_MW,
	FV_COMP_CHANNEL,
	FV_CQ,
	FV_SRQ,
	FV_QP,
	FV_AH,
	FV_EVENT_CHANNEL,
	FV_ID,
	FV_CM_EVENT,	/* got, not acknowledged */
	FV_ASYNC_EVENT, /* got, not acknowledged */
	FV_CQ_EVENT,	/* got, not acknowledged */
	FV_IFADDRS,
	FV_KINDS,
};
/* How many exist; FV_KINDS: the sum of all kinds. */
unsigned fv_alive(enum fv_kind kind);
/* Waits until no object exists; so it ends by the time limit of the case if one is left. */
void fv_await_nothing(void);

/* ---- this host ---- */

/* The network interfaces: rows that tests may change, up to one without a name. */
struct fv_interface {
	const char *name;
	const char *addr; /* numeric; NULL: none but the link address; "": not even that */
	int device;	  /* the number of the RDMA device to which it belongs, or -1 */
	uint8_t port;	  /* of that device */
};
#define FV_INTERFACES 8
/*
 * Returns row @n. At first these are "fveth0", with 127.0.0.1, of port 1 of device 0, and "fveth1",
 * with 127.0.0.2, of port 1 of device 1.
 */
struct fv_interface *fv_interface(unsigned n);
void fv_interface_set_down(unsigned n);

/* Time does not pass by itself any more. */
void fv_clock_stop(void);
/* Moves the clock, whether it stands still or not. */
void fv_clock_advance(uint64_t ns);

/* From now on standard error goes to a buffer; what is in it. */
void fv_log_capture(void);
const char *fv_log(void);

/* ---- devices ---- */

/* The ways in which devices differ, one bit each. */
enum {
	FV_LAST_ARM_WINS = 1 << 0, /* a weaker arming replaces a stronger one */
	FV_NO_RESIZE = 1 << 1,	   /* ibv_resize_cq: ENOSYS */
	FV_NO_WINDOWS = 1 << 2,	   /* ibv_alloc_mw: EOPNOTSUPP, whatever the flags say */
	FV_NO_TYPE_1 = 1 << 3,	   /* ibv_alloc_mw: EINVAL for windows of type 1 */
	FV_BIND_REFUSED = 1 << 4,  /* ibv_bind_mw: EOPNOTSUPP */
	FV_MISSES_ERRORS = 1 << 5, /* armed for solicited: no event for failed requests */
	FV_MISSES_ALL = 1 << 6,	   /* armed for solicited: no event at all */
	FV_LATE_FLUSH = 1 << 7,	   /* outstanding requests are flushed by fv_flush only */
	FV_CLEANS_QUEUES = 1 << 8, /* ibv_destroy_qp removes the QP's completions */
	FV_READ_ONLY_PLAIN =
		1 << 9,		  /* a region without local write: EPERM with IBV_ACCESS_MW_BIND */
	FV_NO_SRQ = 1 << 10,	  /* ibv_create_srq: EOPNOTSUPP, whatever the attributes say */
	FV_SRQ_SAME_PD = 1 << 11, /* ibv_create_qp: EINVAL with an SRQ of another PD */
	FV_NO_SRQ_MODIFY = 1 << 12, /* ibv_modify_srq: -1 and errno EOPNOTSUPP */
	/* ibv_post_send and ibv_bind_mw end in a system call, as those of soft-RoCE */
	FV_POSTS_BY_CALL = 1 << 13,
	FV_NO_DATAGRAMS = 1 << 14, /* ibv_create_qp: EOPNOTSUPP for a QP of datagrams */
};

/* A device: a row that tests may change before it is opened; quirks and limits at any time. */
struct fv_device {
	struct ibv_device ibv; /* name, node_type, transport_type */
	struct ibv_device_attr attr;
	struct ibv_port_attr port; /* of every port */
	__be64 guid;
	union ibv_gid gids[4]; /* port.gid_tbl_len of them */
	/* where the tables of P_Keys and GIDs have those of each connection: rdma_init_qp_attr */
	uint16_t pkey_index;
	uint8_t gid_index;
	unsigned quirks;
	struct ibv_odp_caps on_demand; /* at first none */
	bool absent;		       /* ibv_get_device_list leaves it out */
	/* more than that fails with EINVAL; max_cqe: of creation and of resizing */
	unsigned max_inline, max_wr, max_sge, max_cqe;
};
#define FV_DEVICES 2
/* "fv0" and "fv1": InfiniBand at first, with 2 ports, and without quirks. */
struct fv_device *fv_device(unsigned n);
/* Makes @n an iWARP device. */
void fv_make_iwarp(unsigned n);

/* The next queue pair has this number, as devices use numbers again. */
void fv_next_qp_num(uint32_t number);

/* Queues an asynchronous event for each context of its device that ibv_open_device has made. */
void fv_async_event(unsigned device, const struct ibv_async_event *event);

/* ---- what was recorded: the arguments of the latest calls ---- */

struct fv_pdata {
	unsigned size;
	char data[256];
};

struct fv_seen {
	struct ibv_srq_init_attr srq; /* ibv_create_srq */
	struct ibv_srq_attr srq_attr; /* ibv_modify_srq */
	int srq_mask;
	struct ibv_qp_init_attr qp; /* ibv_create_qp */
	/* ibv_modify_qp to each state */
	struct {
		struct ibv_qp_attr attr;
		int mask;
	} modified[IBV_QPS_ERR + 1];
	unsigned access; /* ibv_reg_mr */
	size_t length;
	int cqe;			  /* ibv_create_cq, ibv_resize_cq */
	enum ibv_mw_type mw_type;	  /* ibv_alloc_mw */
	struct ibv_mw_bind bind;	  /* ibv_bind_mw */
	struct rdma_conn_param connected; /* rdma_connect, without the private data */
	struct rdma_conn_param accepted;  /* rdma_accept, without the private data */
	struct fv_pdata pdata;		  /* rdma_connect, rdma_accept, rdma_reject */
	int resolve_timeout;		  /* rdma_resolve_addr, rdma_resolve_route; ms */
	int backlog;			  /* rdma_listen */
	enum ibv_event_type notified;	  /* rdma_notify */
	struct {			  /* rdma_set_option, of one byte */
		int level, name;
		uint8_t value;
	} option;
	size_t stack_size;     /* pthread_create; 0: the default */
	struct ibv_ah_attr ah; /* ibv_create_ah */
};
struct fv_seen fv_seen(void);

#define FV_MAX_SGE 32
struct fv_sent {
	struct ibv_qp *qp;
	struct ibv_send_wr wr; /* sg_list is sge; next as it was */
	struct ibv_sge sge[FV_MAX_SGE];
};
struct fv_received {
	struct ibv_qp *qp;   /* NULL: of an SRQ */
	struct ibv_srq *srq; /* NULL: of a QP */
	struct ibv_recv_wr wr;
	struct ibv_sge sge[FV_MAX_SGE];
};
/* The request or receive that was posted last (0), before that (1), ... up to 63. */
struct fv_sent fv_sent(unsigned ago);
struct fv_received fv_received(unsigned ago);

/* ---- completions ---- */

/* Adds @wc to @cq, and raises an event if @cq is armed for that. */
void fv_complete(struct ibv_cq *cq, const struct ibv_wc *wc, bool solicited);
/*
 * Completes the oldest outstanding request (or receive) of @qp, which there must be, with its
 * wr_id, opcode and qp_num.
 */
void fv_complete_send(struct ibv_qp *qp, enum ibv_wc_status status);
void fv_complete_recv(struct ibv_qp *qp, enum ibv_wc_status status, uint32_t length);
/* Completes the oldest receive of the SRQ of @qp, in the same way. */
void fv_complete_srq_recv(struct ibv_qp *qp, enum ibv_wc_status status, uint32_t length);
/* Completes all of @qp as flushed. */
void fv_flush(struct ibv_qp *qp);
/* Requests and receives of all QPs that are posted and not complete. */
unsigned fv_outstanding(void);

enum fv_armed {
	FV_DISARMED,
	FV_ARMED_SOLICITED,
	FV_ARMED_ANY,
};
enum fv_armed fv_armed(struct ibv_cq *cq);

/* ---- connection manager ---- */

struct fv_cm_event {
	enum rdma_cm_event_type type;
	int status;
	/* RDMA reads that the peer may issue, and those that it takes */
	unsigned responder_resources, initiator_depth;
	const void *pdata;
	unsigned pdata_size;
	uint32_t qp_num; /* of an identifier of datagrams: the peer's, with FV_QKEY and FV_DLID */
};
#define FV_QKEY 0x01234567
#define FV_DLID 77 /* of the way to any peer */
/*
 * Queues an event of @id on its channel. ADDR_RESOLVED and CONNECT_REQUEST set the device of the
 * identifier: the one that has its local address then. Of an iWARP attempt the events that end it,
 * and ESTABLISHED, are the peer's answer.
 */
void fv_cm_event(struct rdma_cm_id *id, const struct fv_cm_event *event);
/* Shorthand: an event of @type with @status and nothing else. */
void fv_cm_post(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status);
/* A state that ibv_query_qp tells, and in which ibv_modify_qp finds the queue pair. */
void fv_qp_set_state(struct ibv_qp *qp, enum ibv_qp_state state);
/*
 * A request to the listener @listen, from 127.0.0.9 port 4000: its identifier, with an event
 * CONNECT_REQUEST queued. @event: depths and private data, or NULL.
 */
struct rdma_cm_id *fv_request(struct rdma_cm_id *listen, const struct fv_cm_event *event);
/*
 * iWARP: after rdma_connect or rdma_accept, rdma_destroy_id of the identifier and ibv_destroy_qp of
 * its QP wait for the peer's answer. This one makes no event.
 */
void fv_answer(struct rdma_cm_id *id);
/*
 * Has the identifier wait for the peer's answer, as rdma_connect does: for a call that is held,
 * whose thread may be cancelled when the request is sent.
 */
void fv_ask(struct rdma_cm_id *id);
/* The identifiers that exist: the newest (0), the one before (1), ...; NULL: there is none. */
struct rdma_cm_id *fv_id(unsigned ago);

#endif
