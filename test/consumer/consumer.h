/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the test programs share that use DAT through libdat, as a consumer does: the device that
 * they run on, the two ends of a connection, events, transfers, windows, processes and threads.
 *
 * Same names as test/unit/harness.h on purpose: one vocabulary, here over libdat, there over the
 * core.
 */
#ifndef CONSUMER_H
#define CONSUMER_H

#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../harness/editions.h"
#include "../harness/process.h"
#include "../harness/run.h"
#include "../harness/status.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/*
 * The limit of a wait, in microseconds. No test passes or fails by the clock: this limit only ends
 * the wait for an event that never comes. The clock of a guest may leap 21 s ahead when its host
 * stands still (half a period of the timer that it reads). The limit of a case is longer, so that a
 * failure says which event did not come.
 */
#define TIME_LIMIT 120000000u

/* ---- checks (events.c) ---- */

/* Returns "ESTABLISHED" for DAT_CONNECTION_EVENT_ESTABLISHED, or "unknown". */
const char *event_name(DAT_EVENT_NUMBER number);

/* These have the names that udapl/base/status.h gives them. */
#define DAT_ERROR(type, subtype) (DAT_CLASS_ERROR | (DAT_RETURN)(type) | (DAT_RETURN)(subtype))
#define BAD_HANDLE(kind)	 DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_##kind)
#define BAD_ARG(n)		 DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG##n)
/* Of a call whose parameters the editions number differently. */
#define BAD_ARG_OF(dat1, dat2) OF_EDITION(BAD_ARG(dat1), BAD_ARG(dat2))
#define BAD_STATE(what)	       DAT_ERROR(DAT_INVALID_STATE, DAT_INVALID_STATE_##what)
#define NO_RESOURCE(what)      DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_##what)
#define NO_PRIVILEGE(what)     DAT_ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_##what)

/*
 * The test's own line, which a failure in a function of this library names. The macros below set it
 * for the functions of their names; the library itself calls the functions.
 */
extern _Thread_local const char *test_file;
extern _Thread_local int test_line;

#define AT_TEST_LINE (test_file = __FILE__, test_line = __LINE__)

/* ---- the device (device.c) ---- */

/* What a case may need and some device lacks; device.c says which, and why. */
enum need {
	NEEDS_NOTHING = 0,
	NEEDS_PLACEMENT = 1 << 0,      /* a completed write is in the peer's memory */
	NEEDS_REMOTE_STATUS = 1 << 1,  /* a request completes with the error of the peer */
	NEEDS_READ_RIGHTS = 1 << 2,    /* a region without remote read cannot be read */
	NEEDS_RNR = 1 << 3,	       /* a send waits until the peer posts a receive */
	NEEDS_SOLICITED = 1 << 4,      /* it tells solicited messages from others */
	NEEDS_FREE_ADDRESSES = 1 << 5, /* some address of the network is known to be unused */
	NEEDS_TCP = 1 << 6,	       /* a connection runs over TCP */
	NEEDS_WINDOW_RANGE = 1 << 7,   /* the range of a window is checked, not only its region's */
	NEEDS_HUGE_PAGES = 1 << 8,     /* the system has some free */
	NEEDS_PINNING = 1 << 9,	       /* registering a region needs its pages to be there */
	NEEDS_RESIZE = 1 << 10,	       /* a queue with endpoints can be made longer */
	NEEDS_OWN_DEVICES = 1 << 11,   /* the test may remove them, and change the network */
	NEEDS_OWN_CLOCK = 1 << 12,     /* the test may set the host's time of day */
	NEEDS_SEND_PLACEMENT = 1 << 13, /* a send completes when a receive has taken it */
	NEEDS_RDMA_DEVICE = 1 << 14,	/* one of libibverbs; other interfaces have none */
	NEEDS_SRQ = 1 << 15,		/* shared receive queues */
	NEEDS_MEMLOCK = 1 << 17,	/* pinned pages count for RLIMIT_MEMLOCK */
	NEEDS_QUIET_POLL = 1 << 16,	/* a poll makes no system call */
	NEEDS_SIZE_LIMIT = 1 << 21,	/* a length may exceed what the device moves at once */
	NEEDS_PORT_EVENTS = 1 << 23,	/* a port that goes down is reported */
	NEEDS_RELEASE = 1 << 20,	/* an IA that is closed gives up its device */
	NEEDS_ACCESS_FLAGS = 1 << 22,	/* the provider itself chooses the rights of a region */
	NEEDS_UNWINDING = 1 << 18,	/* of the deep stack of a thread that is cancelled */
	NEEDS_RANDOM_CONTEXTS = 1 << 19,
	/* of DAT 2.0 */
	NEEDS_ZERO_BASED = 1 << 24, /* regions that begin at 0 */
	NEEDS_ANY_OFFSET = 1 << 25, /* and may be of any memory, not only of whole pages */
	NEEDS_EP_WINDOWS = 1 << 26, /* windows of an endpoint */
	NEEDS_IMMED = 1 << 27,	    /* writes with immediate data */
	NEEDS_ATOMICS = 1 << 28,    /* atomic operations */
	NEEDS_DATAGRAMS = 1 << 29,  /* endpoints of datagrams */
	/* of both */
	NEEDS_NO_WINDOWS = 1 << 30, /* a bind registers its range */
};

/* What a device does where the standard leaves a choice. */
struct device {
	const char *kind;			     /* as DAT_TEST_DEV names it, or "fake" */
	const char *provider;			     /* its library; NULL: libdaplcma */
	const char *params;			     /* IA params for an interface; NULL: "%s 0" */
	const char *library;			     /* what device_preload loads; NULL: nothing */
	DAT_DTO_COMPLETION_STATUS bad_segment;	     /* a request's local region is unusable */
	DAT_DTO_COMPLETION_STATUS bad_range;	     /* a request exceeds its local region */
	DAT_DTO_COMPLETION_STATUS bad_read_sink;     /* either of them, of an RDMA read */
	DAT_DTO_COMPLETION_STATUS wrapped_read_sink; /* beyond the last address; 0: as any */
	DAT_DTO_COMPLETION_STATUS bad_receive;	     /* either of them, of a receive */
	DAT_DTO_COMPLETION_STATUS short_receive;     /* a message exceeds its receive */
	DAT_DTO_COMPLETION_STATUS refused_send;	     /* the peer could not receive the message */
	/* Bytes of private data; 0: it is not padded. */
	DAT_COUNT request_padded, reply_padded, reject_padded;
	DAT_COUNT max_reject;  /* bytes of private data of a reject; 0: max_private_data_size */
	unsigned max_eps;      /* endpoints that one IA surely can have */
	unsigned max_requests; /* at once, 0: max_eps */
	/* ESTABLISHED may follow the accept of a request whose client has given up. */
	bool late_accept_error;
	/* An attempt to connect that is given up is over at once, whatever the peer does. */
	bool ends_attempts;
	/* A message without a receive holds up answers to requests of the other direction. */
	bool holds_up;
	/* What waited behind a message without a receive may stay until more is posted. */
	bool stays_held_up;
	/* It repeats a bind with the message before it, which ends the queue and tells nobody. */
	bool repeats_binds;
	/* The provider checks local buffers itself, and a fault ends the connection at once. */
	bool checks_buffers;
	size_t kept_per_reject; /* bytes that a library below keeps of each rejected request */
	bool reply_lacks_reads; /* the numbers of reads that the acceptor has chosen */
	/* What the client sends during the accept may stay unread until it sends more. */
	bool early_data_waits;
	/* A request that waits for a read keeps the answers to the peer's reads waiting, too. */
	bool fence_holds_answers;
	struct {
		unsigned needs; /* enum need */
		const char *why;
	} lacks[16];
};

/*
 * Chooses the device of DAT_TEST_DEV, and makes a dat.conf that has names for its two interfaces.
 * Returns false if there is no device.
 */
bool device_choose(void);
/*
 * Chooses the IAs that CONFORM_NAMES names, the client's and the server's, on a device of
 * DAT_TEST_DEV's kind; dat.conf must have the names. Without CONFORM_NAMES it chooses two IAs of
 * the fake provider, which is in @library.
 */
void device_choose_names(const char *library);
/* Chooses two IAs of the fake provider, "fake0" and "fake1". */
void device_choose_fake(const char *library, bool thread_safe);

const struct device *device(void);
bool device_has(unsigned needs); /* enum need */
/*
 * The device is in a guest of vm/on-device, which is tens of times slower than its host: there a
 * case repeats less often what it shows, and moves less where the size is not its point.
 */
bool in_guest(void);
/* Returns why a case with these needs cannot run, or NULL if it can. */
const char *device_lack(unsigned needs);

enum end { SERVER, CLIENT, ENDS };

/*
 * What a name in dat.conf selects the interface by. BY_HOST is there if the address has a host
 * name.
 */
enum naming { BY_INTERFACE, BY_ADDRESS, BY_DEVICE, BY_HOST, NAMINGS };

/* Returns the name of dat.conf, or NULL if there is no such name. */
const char *ia_name(enum end end, enum naming by);
/*
 * Makes another dat.conf, whose names are "ia0", "ia1", and so on. Each of @params has an interface
 * or what else selects it, and a number. To be called before any DAT call.
 */
void choose_conf(const char *const params[], size_t n);
/* The same with one name, of that interface and number. */
void choose_name(const char *name, const char *params);

/* The address sanitizer keeps what is freed for a while, and finds itself what is never freed. */
#ifdef __SANITIZE_ADDRESS__
#define SANITIZER_KEEPS_MEMORY true
#else
#define SANITIZER_KEEPS_MEMORY false
#endif

/*
 * Loads, before the cases are run in processes of their own, what each of them would load for a
 * third of a second: libfabric.
 */
void device_preload(void);

struct device_case {
	const TTest *test;
	unsigned needs; /* enum need */
};

/* Cases whose needs the device lacks are reported as skipped. */
void add_device_cases(TCase *tcase, const struct device_case *cases, size_t n);
/* This is the main function of a program that needs a device: it runs its cases, or skips all. */
int run_on_device(int argc, char **argv, const struct device_case *cases, size_t n);

/* ---- one end (side.c) ---- */

#define SIDE_MEMORY ((size_t)65536) /* bytes, of each side */
#define SIDE_QLEN   256		    /* of each EVD of a side */
#define UNTOUCHED   0xee	    /* every byte of new memory */

#define LOCAL ((DAT_MEM_PRIV_FLAGS)(DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG))
#define REMOTE                                                                                     \
	((DAT_MEM_PRIV_FLAGS)(DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG))

/* An open IA with the objects that a connection needs. A test may replace any of them. */
struct side {
	char name[DAT_NAME_MAX_LENGTH];
	DAT_IA_HANDLE ia;
	DAT_IA_ATTR attr;
	DAT_PROVIDER_ATTR provider;
	struct sockaddr_in address;
	DAT_PZ_HANDLE pz;
	DAT_PZ_HANDLE first_pz; /* nothing is in it; NULL, unless DAT_TEST_SECOND_ZONE is set */
	DAT_EVD_HANDLE async_evd, recv_evd, request_evd, connect_evd, cr_evd;
	DAT_EP_HANDLE ep;
	DAT_LMR_HANDLE lmr; /* of memory, with all privileges */
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
	unsigned char *memory;
	size_t size; /* of memory */
};

/* Opens the IA and its asynchronous EVD only. */
void side_open_ia(struct side *side, const char *name, bool thread_safe);
/* These open all but the memory and the endpoint. */
void side_open_bare(struct side *side, enum end end);
void side_open_bare_as(struct side *side, const char *name, bool thread_safe);
/* Gives a bare side memory and an endpoint with @attr, or the defaults if that is NULL. */
void side_equip(struct side *side, const DAT_EP_ATTR *attr, size_t size);
void side_open(struct side *side, enum end end);
/* Frees its zone, and the first one of the IA if that is another one. */
void side_free_zones(const struct side *side);
/* Frees what a side has, endpoint first; the test has freed its own objects. */
void side_close(struct side *side);
/* Closes the IA abruptly, which frees the test's objects, too. */
void side_close_abrupt(struct side *side);

DAT_EVD_HANDLE side_create_evd(const struct side *side, DAT_COUNT qlen, DAT_EVD_FLAGS flags);
DAT_EP_HANDLE side_create_ep(const struct side *side, const DAT_EP_ATTR *attr);
/*
 * Returns attributes with room for so many transfers of four segments, or as many as the device
 * has, and for four reads each way.
 */
DAT_EP_ATTR ep_attr_for(DAT_COUNT recvs, DAT_COUNT requests);
DAT_EP_STATE ep_get_state(DAT_EP_HANDLE ep);

/* These return a range of the side's own memory. */
DAT_LMR_TRIPLET segment(const struct side *side, size_t offset, size_t length);
DAT_RMR_TRIPLET target(const struct side *side, size_t offset, size_t length);

/* Memory and its registration, beside that of a side. */
struct region {
	unsigned char *at;
	size_t size;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
};

/* Registers @what in the side's zone. Checks that a failure leaves @region unchanged. */
DAT_RETURN region_try(const struct side *side, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION what,
		      DAT_VLEN size, DAT_MEM_PRIV_FLAGS priv, struct region *region);
struct region region_over(const struct side *side, void *at, size_t size, DAT_MEM_PRIV_FLAGS priv);
struct region region_map(const struct side *side, size_t size, DAT_MEM_PRIV_FLAGS priv);
void region_unmap(const struct region *region); /* what region_map made */
DAT_LMR_TRIPLET region_segment(const struct region *region, size_t offset, size_t length);
DAT_RMR_TRIPLET region_target(const struct region *region, size_t offset, size_t length);

/* Makes a copy of @side with a new zone and, of the same memory, a region in that zone. */
void side_copy_in_new_zone(struct side *other, const struct side *side);

/* ---- two ends (pair.c) ---- */

/* The client connects, the server listens. */
struct pair {
	struct side client, server;
};

void pair_open(struct pair *pair, const DAT_EP_ATTR *attr);		       /* connected */
void pair_open_sized(struct pair *pair, const DAT_EP_ATTR *attr, size_t size); /* of the memory */
void pair_open_unconnected(struct pair *pair, const DAT_EP_ATTR *attr);
void pair_connect(struct pair *pair);
void connect_eps(const struct side *client, DAT_EP_HANDLE client_ep, const struct side *server,
		 DAT_EP_HANDLE server_ep);
/* The client disconnects; both see the end. */
void pair_disconnect(struct pair *pair, DAT_CLOSE_FLAGS flags);
/* Resets both endpoints, which are disconnected. */
void pair_reset(struct pair *pair);
void pair_reconnect(struct pair *pair);
/* Makes a second connection of the same sides, whose server end has a zone of its own. */
void pair_copy_in_new_zone(struct pair *other, const struct pair *pair);
/* These close both sides, as side_close and side_close_abrupt do. */
void pair_close(struct pair *pair);
void pair_close_abrupt(struct pair *pair);

DAT_PSP_HANDLE listen_any(const struct side *side, DAT_CONN_QUAL *qual);
/*
 * Returns a qualifier that nobody listens on, for dat_psp_create, dat_rsp_create and attempts that
 * find nobody. It is none of those that the system gives to connections and to dat_psp_create_any,
 * so that what the test does meanwhile cannot take it. Each call returns another one.
 */
DAT_CONN_QUAL free_qual(const struct side *side);
DAT_RETURN try_connect(DAT_EP_HANDLE ep, const struct side *server, DAT_CONN_QUAL qual,
		       DAT_TIMEOUT timeout);
/* Connects up to the accept. ESTABLISHED is not waited for. */
void connect_and_accept(struct pair *pair, DAT_CONN_QUAL qual);
DAT_CR_HANDLE expect_cr(const struct side *side); /* a connection request */
/*
 * Returns the request of a client whose attempt has timed out, because the server has not answered.
 */
DAT_CR_HANDLE request_given_up(const struct pair *pair, DAT_CONN_QUAL qual);
/* Accepts a request whose client has given up, which an event reports after the call. */
void accept_given_up(const struct side *side, DAT_CR_HANDLE cr);
void expect_established(const struct pair *pair);
void expect_disconnected(const struct pair *pair);
void expect_ends(const struct pair *pair); /* as expect_end, at both sides */

/* Sends one message each way. */
void exchange_messages(const struct pair *pair);

/* ---- events (events.c) ---- */

/* Waits for the next event, which must be of that kind. */
DAT_EVENT expect_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number);
void expect_no_event(DAT_EVD_HANDLE evd);
/* The next completion is a success of the side's endpoint, of a request or of a receive. */
void expect_request_done(const struct side *side, uint64_t cookie, size_t length);
void expect_recv_done(const struct side *side, uint64_t cookie, size_t length);
/* The next completion is this one; its length counts if it is a success. */
void expect_dto(DAT_EVD_HANDLE evd, DAT_EP_HANDLE ep, uint64_t cookie,
		DAT_DTO_COMPLETION_STATUS status, size_t length);
void expect_bind(DAT_EVD_HANDLE evd, DAT_RMR_HANDLE rmr, uint64_t cookie,
		 DAT_RMR_BIND_COMPLETION_STATUS status);
/* The next event on the side's connect_evd is this one. */
DAT_EVENT expect_connection(const struct side *side, DAT_EVENT_NUMBER number);
DAT_EVENT expect_connection_of(const struct side *side, DAT_EP_HANDLE ep, DAT_EVENT_NUMBER number);
/* The next event says that the connection has ended: DISCONNECTED or BROKEN. */
void expect_end(const struct side *side);

/* ---- transfers (transfer.c) ---- */

DAT_DTO_COOKIE cookie_of(uint64_t n);

/* These post a request of one segment, with @n for a cookie; the post must succeed. */
void post_recv(DAT_EP_HANDLE ep, uint64_t n, DAT_LMR_TRIPLET to);
void post_send(DAT_EP_HANDLE ep, uint64_t n, DAT_LMR_TRIPLET from, DAT_COMPLETION_FLAGS flags);
void post_write(DAT_EP_HANDLE ep, uint64_t n, DAT_LMR_TRIPLET from, DAT_RMR_TRIPLET to,
		DAT_COMPLETION_FLAGS flags);
void post_read(DAT_EP_HANDLE ep, uint64_t n, DAT_LMR_TRIPLET to, DAT_RMR_TRIPLET from,
	       DAT_COMPLETION_FLAGS flags);

/*
 * Posts @n requests of 8 bytes, with cookies from 0 on, that stay outstanding until the peer posts
 * a receive: a message and writes, or, where the message completes as soon as it is sent, the
 * writes behind it. A case with it needs NEEDS_RNR.
 */
void post_outstanding(const struct side *from, const struct side *to, unsigned n);

/* Posts @n receives, each of 8 bytes of the side's memory, with cookies from @first on. */
void post_recvs(const struct side *side, uint64_t first, unsigned n);
void expect_flushed_recvs(const struct side *side, uint64_t first, unsigned n);

void pattern_fill(void *at, size_t size, unsigned seed);
void pattern_check(const void *at, size_t size, unsigned seed);
void bytes_check(const void *at, size_t size, unsigned char byte);

/* The client reads or writes the server's memory, and the bytes arrive. */
void expect_read(const struct pair *pair, DAT_RMR_TRIPLET from);
void expect_write(const struct pair *pair, DAT_RMR_TRIPLET to);
/*
 * The access is refused: no byte of either side's memory changes and the connection ends. It is
 * established again.
 */
void expect_read_refused(struct pair *pair, DAT_RMR_TRIPLET from);
void expect_write_refused(struct pair *pair, DAT_RMR_TRIPLET to);

/* ---- windows (window.c) ---- */

/* bind_window binds here in the server's memory, across the border of two pages. */
#define WINDOW_FROM ((size_t)4000)
#define WINDOW_SIZE ((size_t)300)

/* The client has no right to @region, so that what it can do is what the window permits. */
struct window {
	struct pair pair;
	struct region region; /* the server's memory, with local privileges only */
	DAT_RMR_HANDLE rmr;
};

void window_open(struct window *window); /* unbound */
/*
 * Closes gracefully: the test has freed the window. A test that has not closes the pair abruptly.
 */
void window_close(struct window *window);

/*
 * Posts a bind to the window's region with @n for a cookie. Waits while the endpoint has no room
 * for the request.
 */
DAT_RMR_CONTEXT post_bind(const struct window *window, uint64_t n, DAT_LMR_TRIPLET range,
			  DAT_MEM_PRIV_FLAGS priv, DAT_COMPLETION_FLAGS flags);
/* These wait for the completion. The range is of @lmr. */
DAT_RMR_CONTEXT bind_range(const struct window *window, DAT_LMR_HANDLE lmr, DAT_LMR_TRIPLET range,
			   DAT_MEM_PRIV_FLAGS priv);
DAT_RMR_CONTEXT bind_window(const struct window *window, DAT_MEM_PRIV_FLAGS priv);
void unbind_window(const struct window *window);

/* Returns a range of the server's memory, by the window's context. */
DAT_RMR_TRIPLET window_target(const struct window *window, DAT_RMR_CONTEXT context, size_t offset,
			      size_t length);

/* ---- processes and threads (process.c) ---- */

/*
 * Starts a process that runs @body with one end of a socket; *fd becomes the other end. To be
 * called before any DAT call.
 */
pid_t process_start(void (*body)(int fd), int *fd);
void process_end(pid_t pid); /* it has exited with status 0 */
void channel_send(int fd, const void *what, size_t size);
void channel_recv(int fd, void *what, size_t size);

/*
 * Makes a TCP socket of a peer that is no provider. What waits for something to arrive there fails
 * after 100 seconds.
 */
int socket_open(void);
/* Makes such a socket listen at the side's address, on a port that the system chooses. */
int socket_listen(const struct side *side, DAT_CONN_QUAL *qual);

/* Starts a thread, which consumer_thread_join ends. */
pthread_t consumer_thread_start(void *(*run)(void *), void *arg);

/* A thread that blocks in one call. */
struct waiter {
	DAT_EVD_HANDLE evd;  /* dat_evd_wait, or NULL */
	DAT_CNO_HANDLE cno;  /* dat_cno_wait */
	DAT_COUNT threshold; /* 0: 1 */
	bool cancel_async;   /* its cancellation type is asynchronous */
	DAT_RETURN ret;
	DAT_EVENT event;
	DAT_COUNT nmore;
	DAT_EVD_HANDLE triggered; /* by dat_cno_wait */
	pthread_t thread;
	_Atomic pid_t tid;
};
void waiter_start(struct waiter *waiter); /* returns when the thread sleeps */
DAT_RETURN waiter_join(struct waiter *waiter);

/* Redirects stderr into a file until stderr_restore, which returns what was written there. */
void stderr_redirect(void);
const char *stderr_restore(void);

/* From here on RLIMIT_MEMLOCK holds for a privileged process, too. */
void memlock_limit(size_t bytes);

#ifndef CONSUMER_IMPLEMENTATION
#define pair_open(...)		  (AT_TEST_LINE, pair_open(__VA_ARGS__))
#define pair_open_sized(...)	  (AT_TEST_LINE, pair_open_sized(__VA_ARGS__))
#define pair_connect(...)	  (AT_TEST_LINE, pair_connect(__VA_ARGS__))
#define connect_eps(...)	  (AT_TEST_LINE, connect_eps(__VA_ARGS__))
#define pair_disconnect(...)	  (AT_TEST_LINE, pair_disconnect(__VA_ARGS__))
#define pair_reset(...)		  (AT_TEST_LINE, pair_reset(__VA_ARGS__))
#define pair_reconnect(...)	  (AT_TEST_LINE, pair_reconnect(__VA_ARGS__))
#define connect_and_accept(...)	  (AT_TEST_LINE, connect_and_accept(__VA_ARGS__))
#define expect_cr(...)		  (AT_TEST_LINE, expect_cr(__VA_ARGS__))
#define request_given_up(...)	  (AT_TEST_LINE, request_given_up(__VA_ARGS__))
#define accept_given_up(...)	  (AT_TEST_LINE, accept_given_up(__VA_ARGS__))
#define expect_established(...)	  (AT_TEST_LINE, expect_established(__VA_ARGS__))
#define expect_disconnected(...)  (AT_TEST_LINE, expect_disconnected(__VA_ARGS__))
#define expect_ends(...)	  (AT_TEST_LINE, expect_ends(__VA_ARGS__))
#define exchange_messages(...)	  (AT_TEST_LINE, exchange_messages(__VA_ARGS__))
#define expect_event(...)	  (AT_TEST_LINE, expect_event(__VA_ARGS__))
#define expect_no_event(...)	  (AT_TEST_LINE, expect_no_event(__VA_ARGS__))
#define expect_request_done(...)  (AT_TEST_LINE, expect_request_done(__VA_ARGS__))
#define expect_recv_done(...)	  (AT_TEST_LINE, expect_recv_done(__VA_ARGS__))
#define expect_dto(...)		  (AT_TEST_LINE, expect_dto(__VA_ARGS__))
#define expect_bind(...)	  (AT_TEST_LINE, expect_bind(__VA_ARGS__))
#define expect_connection(...)	  (AT_TEST_LINE, expect_connection(__VA_ARGS__))
#define expect_connection_of(...) (AT_TEST_LINE, expect_connection_of(__VA_ARGS__))
#define expect_end(...)		  (AT_TEST_LINE, expect_end(__VA_ARGS__))
#define post_recv(...)		  (AT_TEST_LINE, post_recv(__VA_ARGS__))
#define post_send(...)		  (AT_TEST_LINE, post_send(__VA_ARGS__))
#define post_write(...)		  (AT_TEST_LINE, post_write(__VA_ARGS__))
#define post_read(...)		  (AT_TEST_LINE, post_read(__VA_ARGS__))
#define post_recvs(...)		  (AT_TEST_LINE, post_recvs(__VA_ARGS__))
#define expect_flushed_recvs(...) (AT_TEST_LINE, expect_flushed_recvs(__VA_ARGS__))
#define post_bind(...)		  (AT_TEST_LINE, post_bind(__VA_ARGS__))
#define bind_range(...)		  (AT_TEST_LINE, bind_range(__VA_ARGS__))
#define bind_window(...)	  (AT_TEST_LINE, bind_window(__VA_ARGS__))
#define unbind_window(...)	  (AT_TEST_LINE, unbind_window(__VA_ARGS__))
#define pattern_check(...)	  (AT_TEST_LINE, pattern_check(__VA_ARGS__))
#define bytes_check(...)	  (AT_TEST_LINE, bytes_check(__VA_ARGS__))
#define expect_read(...)	  (AT_TEST_LINE, expect_read(__VA_ARGS__))
#define expect_write(...)	  (AT_TEST_LINE, expect_write(__VA_ARGS__))
#define expect_read_refused(...)  (AT_TEST_LINE, expect_read_refused(__VA_ARGS__))
#define expect_write_refused(...) (AT_TEST_LINE, expect_write_refused(__VA_ARGS__))
#endif

#endif
