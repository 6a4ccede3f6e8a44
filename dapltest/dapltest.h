/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of dapltest share: the options, the objects of one connection, and the output.
 *
 * A client and a server have a control connection, on which the client says what it wants and both
 * say how it went. The transfers of a test have connections of their own, the lanes.
 */
#ifndef DAPLTEST_H
#define DAPLTEST_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <edition.h>

#include "tools/tools.h"

#define DAPLTEST TOOL_NAME("dapltest")

/* The server's port, and the length of a transfer and the largest one. */
#if DAT_EDITION == 2
#define SERVER_PORT	   62000
#define SERVER_PORT_TEXT   "62000"
#define TRANSFER_LENGTH	   DAT_SEG_LENGTH
#define TRANSFER_BYTES_MAX UINT32_MAX
#else
#define SERVER_PORT	   45278
#define SERVER_PORT_TEXT   "45278"
#define TRANSFER_LENGTH	   DAT_VLEN
#define TRANSFER_BYTES_MAX (SIZE_MAX / 2)
#endif

enum {
	LANE_PORT = 45279, /* where the lanes begin, if not behind the server's port */
	PORT_LAST = 65535, /* what every transport has */
	OPS_MAX = 100,
	BARRIERS = 3, /* operations that -V appends */
	SEGMENTS_MAX = 256,
	SEGMENT_SIZE_MAX = 1 << 30,
	THREADS_MAX = 1000,
	LANES_MAX = 10000, /* of all threads together */
	PIPELINE_MAX = 1000 * 1000,
	CONNECT_TRIES = 8,
};

/* Limits of waits, in microseconds. */
enum {
	CONNECT_TIMEOUT = 30 * 1000 * 1000,
	PEER_TIMEOUT = 60 * 1000 * 1000, /* for the next message or completion */
};

/* ---- options.c: the command line ---- */

enum mode {
	MODE_SERVER,
	MODE_QUIT,
	MODE_TRANSACTION,
	MODE_PERFORMANCE,
	MODE_LIMIT,
	MODE_FUNCTION,
};

enum transfer { TRANSFER_SEND, TRANSFER_WRITE, TRANSFER_READ };

/* One operation of a test, which each iteration does once on each lane. */
struct operation {
	bool by_server; /* the side that posts the request */
	enum transfer transfer;
	unsigned segment_size; /* bytes */
	unsigned segments;
	bool reap_late; /* the completion of the send is taken with the next receive */
};

/* What a client tells the server about its test. */
struct plan {
	enum mode mode; /* quit, transaction or performance */
	unsigned iterations;
	unsigned threads;
	unsigned lanes; /* of each thread */
	bool validate;
	bool poll;
	bool cno;
	bool rsp;	   /* the server waits at reserved service points */
	unsigned pipeline; /* requests in flight; performance only, 0: as many as possible */
	DAT_QOS qos;
	unsigned op_count;
	struct operation ops[OPS_MAX + BARRIERS];
};

struct options {
	enum mode mode;
	char *ia_name;
	const char *host;
	DAT_CONN_QUAL port; /* 0, server only: the provider chooses it */
	unsigned debug;	    /* 1: steps, 2: and calls */
	struct plan plan;
	unsigned limit_tests; /* bit i: limit_test_names[i]; 0: all */
	unsigned width;
	unsigned max;
	const char *family;
	uint32_t cases; /* bit i: case i of the family; 0: all */
};

/*
 * Parses the command line. Returns 0, or -1 after a line on standard error that says what is wrong.
 * The options point into the arguments.
 */
int options_parse(struct options *options, int argc, char **argv);
void options_usage(FILE *to);

/* Writes the operation as the command line has it, "client SR 4096 1", and returns @text. */
const char *operation_text(const struct operation *op, char *text, size_t size);

/* The arguments that a file has, as main gets its own. */
struct argument_file {
	int argc;
	char **argv;
	char *text;
};
/*
 * Reads the arguments of a file; @program becomes the first one. Returns 0, or -1 after a line on
 * standard error.
 */
int argument_file_read(struct argument_file *file, const char *path, char *program);
void argument_file_free(struct argument_file *file);

/* ---- plan.c: which plans there are ---- */

/* The numbers of a plan, in the order of its message. */
enum plan_number {
	PLAN_MODE,
	PLAN_ITERATIONS,
	PLAN_THREADS,
	PLAN_LANES,
	PLAN_VALIDATE,
	PLAN_POLL,
	PLAN_CNO,
	PLAN_RSP,
	PLAN_PIPELINE,
	PLAN_QOS,
	PLAN_OP_COUNT,
	PLAN_BY_SERVER, /* from here on of each operation */
	PLAN_TRANSFER,
	PLAN_SEGMENT_SIZE,
	PLAN_SEGMENTS,
	PLAN_REAP_LATE,
};

size_t operation_bytes(const struct operation *op);

struct plan_range {
	const char *name;
	uint32_t min, max;
};
extern const struct plan_range plan_ranges[PLAN_REAP_LATE + 1];

/*
 * These return what is wrong with a plan whose numbers are each in their range, or NULL. The first
 * one looks at the operations of a transaction test alone, the second one at the sizes.
 */
const char *plan_sends_problem(const struct plan *plan);
const char *plan_sizes_problem(const struct plan *plan);
const char *plan_problem(const struct plan *plan);

/*
 * The memory of a lane has the setup messages, then a buffer for each operation. plan_lay_out
 * writes where these begin and the last one ends, and returns that end; what does not fit a size_t
 * is too much.
 */
enum {
	LANE_SLOT = 64,		    /* bytes of a setup message: out, in, and in at the end */
	LANE_SETUP = 3 * LANE_SLOT, /* bytes */
};
uint64_t plan_lay_out(const struct plan *plan, size_t offsets[]);

/* ---- report.c: all output, a whole line at a time ---- */

/* Which part of the program a line is about: "Test[45279]", and the number of the lane or -1. */
struct origin {
	char name[32];
	int lane;
};

void report_debug_set(unsigned level);
unsigned report_debug(void);
/* These print a line on standard output, and on standard error. */
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints a line on standard output with -d, else none. */
void report_step(const struct origin *origin, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Prints a failure that scripts look for on standard output: "NAME: what #lane error: text". */
void report_failure(const struct origin *origin, const char *what, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Takes the result of a DAT call. Returns 0, or -1 after it has reported the failure. */
int report_call(const struct origin *origin, const char *call, DAT_RETURN ret);

#define TRY(origin, call, ...) report_call(origin, #call, call(__VA_ARGS__))
/* Has a function of the tools make the call of this name. */
#define TRY_TOOL(origin, name, call, ...) report_call(origin, name, call(__VA_ARGS__))

/* ---- event.c: waiting, with a limit and for as long as nobody wants the end ---- */

enum wait_way { WAIT_EVD, WAIT_POLL, WAIT_CNO };

struct patience {
	enum wait_way way;
	DAT_CNO_HANDLE cno;
	atomic_bool *stop; /* set: give up */
};

enum wait_result { WAIT_EVENT, WAIT_LATE, WAIT_STOPPED, WAIT_FAILED };

/* Ctrl-C sets it; then everything that waits gives up. */
extern atomic_bool interrupted;
void interrupt_catch(void);

/* How long it may take to notice an end, in microseconds; tests shorten it. */
extern DAT_TIMEOUT event_moment;

bool patience_ended(const struct patience *patience);

/*
 * Waits for the next event of @evd, for @limit microseconds or DAT_TIMEOUT_INFINITE, until the end
 * of @patience. With WAIT_FAILED *ret is the result of the call that failed.
 */
enum wait_result event_wait(const struct patience *patience, DAT_EVD_HANDLE evd, DAT_TIMEOUT limit,
			    DAT_EVENT *event, DAT_RETURN *ret);

/* ---- wire.c: messages of the control connection ---- */

/* A message is the same on every host: words of four and eight bytes, the lowest byte first. */
enum {
	WIRE_VERSION = 7, /* 6 is that of OFED's dapltest, which continues in another way */
	MESSAGE_MAX = 4096,
	SETUP_BYTES = 24,
	INVITATION_BYTES = 16,
};

enum message_kind {
	MESSAGE_PLAN = 1, /* client: what to do */
	MESSAGE_ANSWER,	  /* server: where the lanes are */
	MESSAGE_PING,	  /* client, during the test */
	MESSAGE_PONG,
	MESSAGE_DONE,	/* client: the test is over */
	MESSAGE_RESULT, /* server: and how it went here */
};

enum message_code { CODE_GOOD, CODE_BAD, CODE_VERSION };

struct tally {
	uint64_t requests;
	uint64_t sent, received, written, read; /* bytes */
};

struct message {
	enum message_kind kind;
	enum message_code code; /* of ANSWER, DONE and RESULT */
	uint32_t port;		/* ANSWER: of the first lane; the others follow */
	struct tally tally;	/* RESULT */
	struct plan plan;	/* PLAN */
};

size_t message_encode(const struct message *message, unsigned char bytes[MESSAGE_MAX]);
/*
 * message_decode returns CODE_VERSION for a message of another program, and CODE_BAD for none, or
 * for values that no plan or answer has; then @problem is a sentence that tells which.
 */
enum {
	PROBLEM_TEXT = 128, /* bytes */
};
enum message_code message_decode(struct message *message, const unsigned char *bytes, size_t size,
				 char problem[PROBLEM_TEXT]);

/* The first message of a lane tells the memory of the sender. */
struct offer {
	DAT_RMR_CONTEXT rmr_context;
	DAT_VADDR address;
	DAT_VLEN size; /* bytes */
};
void setup_encode(const struct offer *memory, unsigned char bytes[SETUP_BYTES]);
void setup_decode(struct offer *memory, const unsigned char bytes[SETUP_BYTES]);

/* What the private data of the connection request for a lane have. */
struct invitation {
	uint32_t port; /* of the first lane */
	uint32_t thread;
	uint32_t lane;
};
void invitation_encode(const struct invitation *invitation, unsigned char bytes[INVITATION_BYTES]);
bool invitation_equals(const struct invitation *invitation, const void *bytes, size_t size);

/* ---- channel.c: one connection and its DAT objects ---- */

struct adapter {
	DAT_IA_HANDLE ia;
	DAT_EVD_HANDLE async_evd;
	DAT_IA_ATTR attr;
};

/*
 * All functions from here on return 0, or -1 after a line that says why, unless their comment says
 * otherwise. A create that fails leaves nothing behind.
 */
int adapter_open(struct adapter *adapter, char *name);
int adapter_close(struct adapter *adapter);

struct memory {
	unsigned char *at;
	size_t size;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
};

int memory_create(struct memory *memory, const struct adapter *adapter, DAT_PZ_HANDLE pz,
		  const struct origin *origin, size_t size);
int memory_free(struct memory *memory, const struct origin *origin);
DAT_LMR_TRIPLET memory_segment(const struct memory *memory, size_t offset, size_t length);
/*
 * The bytes that a seed stands for are written, and compared; pattern_check returns where they
 * differ, or -1.
 */
void pattern_fill(unsigned char *at, size_t size, unsigned seed);
ptrdiff_t pattern_check(const unsigned char *at, size_t size, unsigned seed);

struct channel {
	const struct adapter *adapter;
	const struct patience *patience;
	struct origin origin;
	DAT_EVD_HANDLE connect_evd;
	DAT_EVD_HANDLE recv_evd;
	DAT_EVD_HANDLE request_evd;
	DAT_EP_HANDLE ep;
};

/* Makes the objects of a connection. The caller has set adapter, patience and origin. */
int channel_create(struct channel *channel, DAT_PZ_HANDLE pz, const DAT_EP_ATTR *attr);
int channel_free(struct channel *channel);

/* Where a channel connects to. */
struct target {
	const struct sockaddr *address;
	DAT_CONN_QUAL port;
	DAT_QOS qos;
	void *private_data;
	DAT_COUNT private_data_size;
};
/* The pause between two attempts to connect, in microseconds; tests shorten it. */
extern DAT_TIMEOUT retry_pause;
/*
 * Connects, and tries again if the server is not ready yet. @prepare posts receives before each
 * attempt.
 */
int channel_connect(struct channel *channel, const struct target *target,
		    int (*prepare)(struct channel *channel));
int channel_expect_established(struct channel *channel);
/* Ends the connection if there is one; errors have no effect. */
void channel_disconnect(struct channel *channel);

/*
 * Waits for the next completion, which must be a success with this cookie, and writes its length;
 * @length may be NULL. An end that is wanted makes it fail without a line.
 */
int channel_complete(struct channel *channel, DAT_EVD_HANDLE evd, DAT_UINT64 cookie,
		     DAT_TIMEOUT limit, DAT_VLEN *length);

/* ---- control.c: the control connection ---- */

struct control {
	struct channel channel; /* first member */
	struct memory memory;
	DAT_PZ_HANDLE pz;
	unsigned received;
};

int control_create(struct control *control, const struct adapter *adapter,
		   const struct patience *patience, const char *name, DAT_QOS qos);
int control_free(struct control *control);
int control_connect(struct control *control, const struct target *target);
int control_accept(struct control *control, DAT_CR_HANDLE cr);
int control_send(struct control *control, const struct message *message);
/*
 * Waits for the next message. One that is none of this version's is reported, and returned without
 * a kind: with the code CODE_VERSION if another version may know it, else with CODE_BAD.
 */
int control_receive(struct control *control, struct message *message);

/* ---- lane.c: one connection of a test ---- */

struct lane {
	struct channel channel; /* first member */
	struct crew *crew;
	struct memory memory; /* messages of the setup, then a buffer for each operation */
	DAT_PSP_HANDLE psp;   /* of the server, or rsp */
	DAT_RSP_HANDLE rsp;
	struct offer peer; /* the other side's memory */
	/* counts; the number of a request or of a receive is its cookie */
	uint64_t posted, reaped;
	uint64_t recv_posted, received;
};

int lane_open(struct lane *lane, struct crew *crew, unsigned number);
int lane_close(struct lane *lane);

const struct operation *lane_operation(const struct lane *lane, unsigned i);
int lane_post_receive(struct lane *lane, size_t offset, unsigned segments, unsigned size);
/* Waits for the next receive, which must have this length. @limit is as that of event_wait. */
int lane_receive(struct lane *lane, size_t length, DAT_TIMEOUT limit);
/* These send and take the small message that begins and ends what a lane does. */
int lane_send_setup(struct lane *lane);
int lane_receive_setup(struct lane *lane, DAT_TIMEOUT limit);
/* Posts the request that this side's operation asks for; the caller counts it. */
int lane_post_operation(struct lane *lane, unsigned i);
/*
 * Takes the completions of all requests that are posted, the last one of which is of operation @i.
 */
int lane_reap_all(struct lane *lane, unsigned i);
unsigned lane_seed(const struct lane *lane, unsigned i, unsigned iteration);

/* ---- lane_connect.c: how the ends of a lane find each other ---- */

/* Connects the client's lane. After it both sides send a setup message. */
int lane_connect(struct lane *lane);
/* The server listens at a service point of the lane, which lane_unlisten frees. */
DAT_RETURN lane_listen(struct lane *lane, DAT_CONN_QUAL port);
void lane_unlisten(struct lane *lane);
/* Tells whether this request is that of the client's lane. */
bool lane_invited(const struct lane *lane, const DAT_CR_PARAM *param);
int lane_accept(struct lane *lane, DAT_CR_HANDLE cr);

/* ---- test.c: the threads of a test ---- */

/* A thread and its lanes. */
struct crew {
	struct test *test;
	unsigned number;
	pthread_t thread;
	struct patience patience;
	struct origin origin;
	DAT_PZ_HANDLE pz;
	DAT_EVD_HANDLE cr_evd; /* of the server */
	struct lane *lanes;
	struct tally tally;
	double begun, ended;	/* microseconds, of the transfers */
	atomic_uint iterations; /* that are done */
	bool failed;
};

struct test {
	/* set by the caller of test_open */
	const struct adapter *adapter;
	const struct plan *plan;
	bool server;
	const struct sockaddr *address; /* of the server, for the client */
	uint32_t port;			/* of the first lane; the server's is free from here on */
	struct card *card;		/* of the client of a performance test */

	uint64_t memory;			/* bytes, of all lanes */
	size_t offsets[OPS_MAX + BARRIERS + 1]; /* of the operations, in the memory of a lane */
	atomic_bool stop;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned ready; /* lock; crews that wait for the others */
	unsigned ended; /* lock */
	unsigned started;
	struct crew *crews;
};

/* Makes all objects of a test. The server listens when it returns, from test->port on. */
int test_open(struct test *test);
int test_close(struct test *test);
int test_start(struct test *test);
/* Makes all threads end early. */
void test_stop(struct test *test);
/* Waits so many microseconds. Returns true as soon as all threads have ended, else false. */
bool test_wait(struct test *test, unsigned usec);
/* Waits for all threads. Returns -1 if one has failed, else 0. */
int test_join(struct test *test);

/* transaction.c and performance.c have the transfers of a crew whose lanes are set up. */
int transaction_prepare(struct lane *lane); /* before the connection */
int transaction_run(struct crew *crew);
void transaction_print(const struct test *test, const struct tally *server);
void performance_prepare(struct lane *lane);
int performance_run(struct crew *crew);

/* ---- performance.c: what a performance test measures, in microseconds ---- */

struct card {
	struct samples latency, posts, reaps;
	double cpu; /* percent */
	unsigned pipeline;
};

int card_create(struct card *card, unsigned operations);
void card_destroy(struct card *card);
void performance_print(const struct test *test);

/* ---- foundation.c: what objects of any kind need, for tests of one process ---- */

enum {
	FOUNDATION_BUFFER = 4096, /* bytes */
};

struct foundation {
	struct adapter adapter;
	DAT_PZ_HANDLE pz;
	DAT_EVD_HANDLE dto_evd;
	DAT_EVD_HANDLE connect_evd;
	DAT_EVD_HANDLE cr_evd;
	void *buffer;
};

int foundation_create(struct foundation *base, const struct origin *origin, char *name);
int foundation_free(struct foundation *base, const struct origin *origin);
/* Frees what is not the provider's, for an adapter that is closed abruptly. */
void foundation_forget(struct foundation *base);
DAT_RETURN foundation_make_ep(struct foundation *base, DAT_EP_HANDLE *ep);
DAT_RETURN foundation_register(struct foundation *base, void *at, size_t size, DAT_LMR_HANDLE *lmr);

/* ---- the modes: each returns 0 if everything passed, else -1 ---- */

int server_run(const struct options *options);	 /* server.c */
int client_run(const struct options *options);	 /* client.c */
int limit_run(const struct options *options);	 /* limit.c */
int function_run(const struct options *options); /* function.c */
/* mode.c runs the mode of the options. */
int mode_run(const struct options *options);

/* limit.c returns the number of a test, or -1. */
int limit_test_find(const char *name);
/* function.c knows the families. */
bool function_family_known(const char *name);
unsigned function_case_count(const char *family);

#endif
