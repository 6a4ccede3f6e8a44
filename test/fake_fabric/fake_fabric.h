/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stand-in for libfabric as tests control it: one provider, "scripted", in memory. Programs are
 * linked with it and with udapl/ofi/, which finds it with dlopen as it would find libfabric.
 *
 *	script.c	counts and failures of calls, counts of objects
 *	host.c		dlopen, the clock, and calls of the C library that can fail or are recorded
 *	info.c		fi_getinfo: what the provider says of itself
 *	domain.c	fabrics, domains, memory regions
 *	queue.c		event queues and completion queues
 *	connect.c	endpoints, and connections between those of this process
 *	transfer.c	sends, receives, writes and reads
 *
 * A transfer is executed as it is posted; a message without a receive waits. What a program may not
 * do to libfabric ends it with a message. Any thread may call these functions.
 */
#ifndef FAKE_FABRIC_H
#define FAKE_FABRIC_H

#include <stdbool.h>
#include <stddef.h>

#include "../../udapl/ofi/libfabric.h"

/* ---- the provider ---- */

/* A row that tests may change before a domain is opened. */
struct ff_provider {
	const char *name;
	uint64_t caps;	      /* FI_MSG, FI_RMA */
	uint64_t mode;	      /* FI_RX_CQ_DATA: a write with data completes a receive */
	uint64_t orders;      /* FI_ORDER_* */
	uint64_t op_flags;    /* levels of completion beside the default one */
	int mr_mode;	      /* FI_MR_* that it wants */
	bool basic;	      /* knows FI_MR_BASIC as well */
	bool basic_only;      /* and no other bits */
	bool ignores_virtual; /* FI_MR_VIRT_ADDR written into an info has no effect */
	bool loses_writes;    /* a write completes, and places nothing */
	unsigned late_writes; /* it places its bytes at the n-th fi_cq_read after it; 0: at once */
	bool asynchronous;    /* refuses to register without an event queue for that */
	bool keys_for_peers;  /* a region that no peer may access has no key */
	uint64_t first_key;   /* of those that it chooses; they count up */
	size_t mr_key_size, cq_data_size, cm_data_size;
	size_t iov_limit, rma_iov_limit, tx_size, rx_size;
	uint32_t protocol;
	int prov_errno;	       /* of a completion that fails */
	bool garbles_requests; /* their data are not what was sent */
	bool garbles_answers;  /* those of accepts are not, either */
	bool no_device;
	const char *elsewhere; /* a domain of this name at an address of no interface; or NULL */
	bool iwarp_too;	       /* the first device at its address is an iWARP one, "iw0" */
	bool resolves;	       /* an endpoint that connects is made for the address of its peer */
	bool caches;	/* a region of the same memory is the same region, if that is monitored */
	bool monitored; /* somebody else has brought a monitor of memory */
	bool old;	/* it takes none */
	size_t cq_size; /* the longest completion queue; 0: any */
	bool arms_blindly; /* fi_trywait never says that something is there */
	unsigned signals; /* up to 2, in a set that is a completion queue's descriptor; 0: no set */
	/*
	 * Connections have sockets, which are shut down at their ends. The event queue's descriptor
	 * is a set, of a signal of these ends and, once an endpoint is bound to it, of what tells
	 * of all else.
	 */
	bool sockets;
};
struct ff_provider *ff_provider(void);

/* ---- calls ---- */

/*
 * A call is one of libfabric by its name, such as "fi_cq_open"; "fi_close_mr" is fi_close of a
 * region, "fi_getwait" fi_control of FI_GETWAIT, "fi_mr_complete" a registration that is reported
 * later, "fi_connected" the end of an attempt to connect, "completion" that of a transfer. Or it is
 * one of these of the C library: dlopen, dlsym, epoll_create1, epoll_ctl that adds a descriptor,
 * eventfd, getrandom, madvise.
 */

/*
 * The @nth call of @call from now on, 1 being the next, fails with @err, once. Those that return a
 * pointer return NULL.
 */
void ff_fail(const char *call, int err, unsigned nth);
/* Tells whether a failure is still to come, and takes it back. */
bool ff_fail_left(const char *call);
/* The next @n calls of @call fail with @err. */
void ff_fail_times(const char *call, int err, unsigned n);
/* The next call of @call calls @hook first, or none does if that is NULL. */
void ff_hook(const char *call, void (*hook)(void));
/*
 * These are for hooks: a request of nobody, whose data are not ours, arrives at all that listen;
 * all connections end.
 */
void ff_stray_request(void);
void ff_disconnect_all(void);
/* What becomes of sockets first when all connections end: the rest is ff_disconnect_all. */
void ff_shut_all(void);
/*
 * What any peer may do, be it no uDAPL provider: a request of nobody, with these data, arrives at
 * all that listen; the next accept or rejection brings these data instead of those that it was
 * given; a message arrives at all that are connected, with @immed, unless that is NULL, as the data
 * of its completion. At most 256 bytes.
 */
void ff_request_arrives(const void *data, size_t size);
void ff_answer_with(const void *data, size_t size);
void ff_message_arrives(const void *bytes, size_t size, const uint64_t *immed);
/* Returns how often @call was made since the start of the process. */
unsigned ff_calls(const char *call);
unsigned ff_calls_here(const char *call); /* by the calling thread */
/*
 * Returns the name of the @n-th call that a failure can be asked of, or NULL if there are no more.
 */
const char *ff_call_name(unsigned n);

/* ---- objects ---- */

enum ff_kind {
	FF_INFO,
	FF_FABRIC,
	FF_DOMAIN,
	FF_MR,
	FF_EQ,
	FF_CQ,
	FF_PEP,
	FF_EP,	    /* and shared receive contexts */
	FF_REQUEST, /* a connection request that was neither accepted nor rejected */
	FF_KINDS,
};
/* Returns how many objects exist, of all kinds for FF_KINDS. */
unsigned ff_alive(enum ff_kind kind);

/* Reports @err of the endpoint that listens. */
void ff_listener_fail(int err);

/* ---- time ---- */

/*
 * From now on the clock stands still for the calling thread, but that each fi_cq_read of it takes
 * @ns.
 */
void ff_clock_stop(uint64_t ns);
void ff_clock_start(void);

/* ---- what was recorded: the arguments of the latest calls ---- */

struct ff_seen {
	struct fi_mr_attr mr; /* fi_mr_regattr, without the pointers */
	uint64_t mr_flags;
	int mr_mode;		 /* of the info of fi_domain */
	uint64_t write_flags;	 /* fi_writemsg */
	size_t last_part;	 /* of a write: bytes in the last of its parts at the peer */
	uint64_t message_flags;	 /* fi_sendmsg */
	int hint_mode;		 /* the mr_mode of the latest hints */
	uint64_t hint_orders;	 /* and their orders */
	const void *desc;	 /* of the first segment of a transfer */
	size_t tx_size, rx_size; /* of the endpoint */
	uint64_t send_flags;	 /* of the endpoint's messages */
	char library[64];	 /* the latest one that dlopen was asked for */
};
struct ff_seen ff_seen(void);

/* The next random numbers of getrandom are these. */
void ff_random(const uint32_t *numbers, unsigned n);

/* From now on standard error goes to a buffer; the other one returns what is in it. */
void ff_log_capture(void);
const char *ff_log(void);

#endif
