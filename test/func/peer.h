/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the tests over a device share: a dat.conf, both ends of a connection, events, patterns, and
 * how to run.
 */
#ifndef PEER_H
#define PEER_H

#include <check.h>
#include <dat/udat.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/*
 * Nothing passes or fails by the clock: this only ends the wait for what never comes. Microseconds,
 * of a clock that may leap 21 s ahead when the host of a guest stands still: half a turn of the
 * timer that it reads.
 */
#define LONG 45000000u

#define QLEN 256 /* of every EVD of a side */

/* ---- what a device has ---- */

/* What a test may need and some device lacks: peer.c has the table of who lacks what, and why. */
enum need {
	NEEDS_NOTHING = 0,	      /* any device will do */
	NEEDS_PLACED = 1 << 0,	      /* a completed write is in the peer's memory */
	NEEDS_REMOTE_STATUS = 1 << 1, /* a request completes with what went wrong at the peer */
	NEEDS_READ_RIGHTS = 1 << 2,   /* memory without remote read can't be read */
	/* a send waits, outstanding, until the peer posts a receive */
	NEEDS_RNR = 1 << 3,
	NEEDS_SOLICITED = 1 << 4,    /* solicited messages can be told from others */
	NEEDS_OWN_NET = 1 << 5,	     /* we know which addresses of the network nobody has */
	NEEDS_TCP = 1 << 6,	     /* its connections are TCP's */
	NEEDS_WINDOW_RANGE = 1 << 7, /* a window ends where it ends, not where its region does */
	NEEDS_HUGE_PAGES = 1 << 8,   /* the system keeps some */
};

struct device {
	const char *kind;			 /* as DAT_TEST_DEV has it */
	DAT_DTO_COMPLETION_STATUS bad_segment;	 /* local memory that the request may not use */
	DAT_DTO_COMPLETION_STATUS bad_range;	 /* of a request, where only the range is wrong */
	DAT_DTO_COMPLETION_STATUS bad_read_into; /* in any way, of an RDMA read */
	DAT_DTO_COMPLETION_STATUS bad_receive;	 /* in any way, of a receive */
	DAT_DTO_COMPLETION_STATUS short_receive; /* of a receive that is too short */
	DAT_DTO_COMPLETION_STATUS sent_too_long; /* of the send for it, with NEEDS_REMOTE_STATUS */
	/* private data is padded to so many bytes; 0: it is not */
	DAT_COUNT request_padded, reply_padded;
	/* a window's range is not checked, its region's is */
	bool loose_windows;
	int crowd; /* endpoints that one IA surely can have */
	/* an acceptor may not know yet that its peer gave up */
	bool hears_late;
};

const struct device *device(void);
bool device_has(unsigned needs); /* enum need */

/* ---- running ---- */

struct test {
	const TTest *body;
	unsigned needs; /* enum need */
};

/*
 * Each test in a process of its own; TAP on stdout. Arguments of the program choose tests by name.
 * For main.
 */
int run(int argc, char **argv, const struct test *tests, size_t count);

/* ---- what calls return ---- */

#define FAILS(type, subtype) (DAT_CLASS_ERROR | (DAT_RETURN)DAT_##type | (DAT_RETURN)DAT_##subtype)
#define BAD_ARG(n)	     FAILS(INVALID_PARAMETER, INVALID_ARG##n)
#define BAD_HANDLE(kind)     FAILS(INVALID_HANDLE, INVALID_HANDLE##kind)
#define BAD_STATE(what)	     FAILS(INVALID_STATE, INVALID_STATE_##what)
#define TIMED_OUT	     FAILS(TIMEOUT_EXPIRED, NO_SUBTYPE)

void check_returned(const char *file, int line, const char *call, DAT_RETURN got, DAT_RETURN want);

#define returns(want, call) check_returned(__FILE__, __LINE__, #call, (call), (want))
#define must(call)	    returns(DAT_SUCCESS, call)

/* The line that a failure in one of the functions below is blamed on. */
extern _Thread_local int blamed;

/* ---- one end ---- */

/* An open IA and what an endpoint needs. A test may replace any of it. */
struct side {
	DAT_IA_HANDLE ia;
	DAT_PZ_HANDLE pz;
	DAT_EVD_HANDLE async, arrivals, connects, recvs, requests;
	DAT_EP_HANDLE ep;
	struct sockaddr_in address;
};

/*
 * Names in the dat.conf of a run: by interface, address, device and host name; a host name only if
 * there is one.
 */
enum named { BY_INTERFACE, BY_ADDRESS, BY_DEVICE, BY_HOST, NAMES };

/* NULL: it has no name of this kind. end 0 is the listener's, 1 the connector's. */
const char *ia_name(unsigned end, enum named by);

void side_open(struct side *side, unsigned end); /* everything but the endpoint */
void side_open_as(struct side *side, const char *name, bool threadsafe);
void side_close(struct side *side); /* abruptly */

/* 4 segments, or as many as the device has; 4 reads */
DAT_EP_ATTR ep_attr(DAT_COUNT recvs, DAT_COUNT requests);
DAT_EP_HANDLE ep_make(const struct side *side, const DAT_EP_ATTR *attr);
DAT_EP_STATE ep_state(DAT_EP_HANDLE ep);

/* ---- connections ---- */

DAT_PSP_HANDLE listen_any(const struct side *side, DAT_CONN_QUAL *qual);
DAT_RETURN connect_to(DAT_EP_HANDLE ep, const struct side *listener, DAT_CONN_QUAL qual,
		      DAT_TIMEOUT timeout);
DAT_CR_HANDLE request_take(const struct side *side);
void request_accept(DAT_CR_HANDLE cr, DAT_EP_HANDLE ep);
void request_accept_in_vain(const struct side *side, DAT_CR_HANDLE cr); /* the peer has given up */

/* near connects, far listens and accepts. */
struct pair {
	struct side near, far;
};

void pair_open(struct pair *pair, const DAT_EP_ATTR *attr); /* an endpoint at each end, connected */
void pair_open_unconnected(struct pair *pair, const DAT_EP_ATTR *attr);
void pair_connect(struct pair *pair);
void pair_close(struct pair *pair);
void eps_connect(const struct side *near, DAT_EP_HANDLE near_ep, const struct side *far,
		 DAT_EP_HANDLE far_ep);

/* ---- events ---- */

DAT_EVENT event_wait(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number);
DAT_EVENT connection_event_wait(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number, DAT_EP_HANDLE ep);
/* A connection that ended, by the peer's word or by its death. */
void ended_wait(DAT_EVD_HANDLE evd, DAT_EP_HANDLE ep);
/* The next completion; of a success also its length. */
void dto_wait(DAT_EVD_HANDLE evd, DAT_EP_HANDLE ep, uint64_t cookie,
	      DAT_DTO_COMPLETION_STATUS status, size_t length);
void no_event(DAT_EVD_HANDLE evd);

#define event_wait(...)		   (blamed = __LINE__, event_wait(__VA_ARGS__))
#define connection_event_wait(...) (blamed = __LINE__, connection_event_wait(__VA_ARGS__))
#define ended_wait(...)		   (blamed = __LINE__, ended_wait(__VA_ARGS__))
#define dto_wait(...)		   (blamed = __LINE__, dto_wait(__VA_ARGS__))
#define no_event(...)		   (blamed = __LINE__, no_event(__VA_ARGS__))

/* ---- memory ---- */

#define UNTOUCHED 0xee /* every byte of new memory */

struct memory {
	unsigned char *at;
	size_t size;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT local;
	DAT_RMR_CONTEXT remote;
};

struct memory memory_make(const struct side *side, size_t size, DAT_MEM_PRIV_FLAGS priv);
DAT_LMR_TRIPLET seg(const struct memory *memory, size_t offset, size_t length);
DAT_RMR_TRIPLET target(const struct memory *memory, size_t offset, size_t length);

void pattern_fill(void *at, size_t size, unsigned seed);
void pattern_check(const void *at, size_t size, unsigned seed);
void bytes_check(const void *at, size_t size, unsigned char byte);

#define pattern_check(...) (blamed = __LINE__, pattern_check(__VA_ARGS__))
#define bytes_check(...)   (blamed = __LINE__, bytes_check(__VA_ARGS__))

/* ---- transfers, which must be taken ---- */

DAT_DTO_COOKIE cookie(uint64_t value);
void recv_post(DAT_EP_HANDLE ep, uint64_t cookie, DAT_LMR_TRIPLET into);
void send_post(DAT_EP_HANDLE ep, uint64_t cookie, DAT_LMR_TRIPLET from, DAT_COMPLETION_FLAGS flags);
void write_post(DAT_EP_HANDLE ep, uint64_t cookie, DAT_LMR_TRIPLET from, DAT_RMR_TRIPLET to,
		DAT_COMPLETION_FLAGS flags);
void read_post(DAT_EP_HANDLE ep, uint64_t cookie, DAT_LMR_TRIPLET into, DAT_RMR_TRIPLET from,
	       DAT_COMPLETION_FLAGS flags);

#define recv_post(...)	(blamed = __LINE__, recv_post(__VA_ARGS__))
#define send_post(...)	(blamed = __LINE__, send_post(__VA_ARGS__))
#define write_post(...) (blamed = __LINE__, write_post(__VA_ARGS__))
#define read_post(...)	(blamed = __LINE__, read_post(__VA_ARGS__))

/* One message there, and one back. */
void say_hello(const struct pair *pair);

#define say_hello(...) (blamed = __LINE__, say_hello(__VA_ARGS__))

/* ---- other processes and threads ---- */

/* What this process has of something: the entries of a folder in /proc/self. */
unsigned entries(const char *path);

/*
 * A process that runs body with one end of a socket; *fd is the other. To be started before any DAT
 * call.
 */
pid_t process_start(void (*body)(int fd), int *fd);
void process_end(pid_t pid); /* it has ended well */
void tell(int fd, const void *what, size_t size);
void hear(int fd, void *what, size_t size);

/* A thread that blocks in one call. */
struct waiter {
	DAT_EVD_HANDLE evd; /* dat_evd_wait, or NULL */
	DAT_CNO_HANDLE cno; /* dat_cno_wait */
	DAT_COUNT threshold;
	DAT_RETURN ret;
	DAT_EVENT event;
	DAT_COUNT nmore;
	DAT_EVD_HANDLE fired; /* of dat_cno_wait */
	pthread_t thread;
	_Atomic pid_t tid;
};

void waiter_start(struct waiter *waiter); /* returns when it is asleep */
void waiter_join(struct waiter *waiter);

#endif
