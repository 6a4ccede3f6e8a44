/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of dtest share: the options, the state of one run, and the macro that makes every
 * DAT call and reports its result.
 */
#ifndef DTEST_H
#define DTEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <edition.h>

#include "tools/tools.h"

enum {
	PORT = TOOL_PORT,
	/* receives posted before connecting: one for each message of the peer that is no ping */
	MESSAGES = 3,
	SEGMENTS = 2, /* of an RDMA write */
	READS = 4,
	RMR_LENGTH = 64,      /* bytes; every dtest sends this length, whatever -b says */
	SIZE_MIN = 26,	      /* "client RDMA write data..." and its NUL */
	SWEEP_WINDOW = 64,    /* RDMA writes in flight */
	SWEEP_READS = 16,     /* RDMA reads in flight */
	SWEEP_RECEIVES = 4,   /* posted at any time */
	SWEEP_TIMES = 100000, /* of pings, kept for the percentiles of --time */
};

/* The limits of waits in seconds, unless --wait gives another number for all of them. */
enum {
	REQUEST_WAIT = 20,
	CONNECT_WAIT = 10,
	TRANSFER_WAIT = 5,
};

enum {
	/* of a sweep: from some size on there are fewer pings and writes, so many bytes suffice, */
	SWEEP_BYTES = 64 * 1024 * 1024,
	SWEEP_COUNT_MIN = 10, /* but never fewer than these */
};

/* What a run does. The values are bits, because a step can belong to several. */
enum dtest_mode {
	MODE_CHECK = 1,
	MODE_WRITES = 2, /* -w */
	MODE_SWEEP = 4,	 /* -a */
	MODE_QUERY = 8,	 /* -q */
	MODE_LIST = 16,	 /* --list */
};

/* How the client prints the sizes of a sweep. */
enum dtest_format {
	FORMAT_TEXT,
	FORMAT_CSV,
	FORMAT_JSON,
};

enum dtest_timer {
	TIME_OPEN,
	TIME_CLOSE,
	TIME_PZ_CREATE,
	TIME_PZ_FREE,
	TIME_LMR_CREATE,
	TIME_LMR_FREE,
	TIME_EVD_CREATE,
	TIME_EVD_FREE,
	TIME_CNO_CREATE,
	TIME_CNO_FREE,
	TIME_EP_CREATE,
	TIME_EP_FREE,
	TIMERS,
	UNTIMED = TIMERS,
};

struct dtest_options {
	char *ia_name;
	const char *host; /* NULL: this process is the server */
	unsigned size;	  /* bytes of one buffer and of each ping; of a sweep, the largest */
	unsigned burst;	  /* number of RDMA writes, and of pings; of a sweep, for each size */
	unsigned delay;	  /* seconds between the connection request and its accept */
	unsigned port;
	unsigned wait;	 /* seconds; 0: REQUEST_WAIT and so on */
	unsigned signal; /* of so many RDMA writes of a sweep one is signalled */
	unsigned time;	 /* seconds of each measurement of a sweep; 0: as many as -B says */
	bool cno;
	bool poll;
	bool old; /* exchanges no parameters */
	bool write_only;
	bool write_pings;
	bool one_size; /* a sweep of the largest size alone */
	enum dtest_mode mode;
	enum dtest_format format;
};

/* Memory and its registration. */
struct dtest_buffer {
	char *mem;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
};

struct dtest_measure {
	double usec;
	unsigned long polls; /* dequeues that found the EVD empty */
};

/*
 * What each side tells the other about its buffer "in", in the byte order of its host. It has the
 * layout of DAT_RMR_TRIPLET in DAT 1.2, which other programs of this name send.
 */
struct dtest_offer {
	DAT_RMR_CONTEXT rmr_context;
	DAT_UINT32 size; /* of a buffer; it is padding to a dtest that does not know of it, or 0 */
	DAT_VADDR address;
	DAT_VLEN length; /* RMR_LENGTH */
};

/* What both sides tell each other as private data, in network byte order. */
struct dtest_hello {
	char magic[8];
	uint32_t flags;
	uint32_t size;
	uint32_t burst;
};

struct dtest {
	struct dtest_options opt;
	bool server;
	bool failed;
	bool told;  /* the cause of the failure; what follows from it is not */
	bool ended; /* the peer ended the connection, which was told as the cause */

	DAT_EVD_HANDLE async_evd;
	DAT_IA_HANDLE ia;
	struct sockaddr_storage local;	/* the IA's address */
	struct sockaddr_storage remote; /* the server's; of the client */
	DAT_PZ_HANDLE pz;
	DAT_CNO_HANDLE cno; /* NULL without -c */
	DAT_EVD_HANDLE cr_evd;
	DAT_EVD_HANDLE connect_evd;
	DAT_EVD_HANDLE request_evd;
	DAT_EVD_HANDLE recv_evd;
	DAT_EP_HANDLE ep;
	DAT_PSP_HANDLE psp; /* NULL on the client, and once the server has one */

	/* burst x size: the source of RDMA writes and pings, the sink of RDMA reads */
	struct dtest_buffer out;
	/* burst x size: target of the peer's RDMA writes and reads, then sink of its pings */
	struct dtest_buffer in;
	struct dtest_buffer msg_out; /* one struct dtest_offer */
	struct dtest_buffer msg_in;  /* MESSAGES of them */
	unsigned messages_in;	     /* messages received; also the cookie of the next receive */
	unsigned pings_in;	     /* the same for the messages of a sweep */
	struct dtest_hello hello;    /* the peer's; all 0 from a dtest that sends none */
	struct dtest_offer peer;

	unsigned long polls;   /* of the current measure */
	double timers[TIMERS]; /* microseconds */
	struct dtest_measure writes;
	struct dtest_measure reads[READS];
	struct dtest_measure pings;
};

/*
 * report.c writes all output but the sizes of a sweep. Every line begins with the process id.
 * dtest_tables_only keeps the standard output for those: the other lines go to the standard error.
 */
void dtest_tables_only(void);
void dtest_trace_on(void);
void dtest_call_begin(const char *call);
int dtest_call_end(const char *call, DAT_RETURN ret);
void dtest_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
void dtest_error(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints where a failure was, as dtest_error, unless its cause was told. */
void dtest_context(const struct dtest *t, const char *what, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Prints one sentence for the user; NULL prints nothing. */
void dtest_explain(const char *sentence);
void dtest_print_result(const struct dtest *t);

/*
 * table.c: the sizes of a sweep, as text, CSV or JSON. The table of a client with JSON is complete
 * also if the sweep failed or was not reached.
 */
struct dtest_row {
	size_t bytes;
	uint64_t count; /* of pings, or, without pings, of RDMA writes */
	struct samples *pings;
	double writes, reads; /* 10^6 bytes a second */
};
void dtest_table_begin(const struct dtest *t);
void dtest_table_add(const struct dtest *t, const struct dtest_row *row);
void dtest_table_end(const struct dtest *t);

/*
 * These make a DAT call, trace it if asked, and report a failure. They return 0 or -1. CALL_TOOL
 * has a function of the tools make it.
 */
#define CALL(call, ...)		   CALL_TOOL(#call, call, __VA_ARGS__)
#define CALL_TOOL(name, call, ...) (dtest_call_begin(name), dtest_call_end(name, call(__VA_ARGS__)))
/* The same for a call that posts a transfer, which the end of the connection may refuse. */
#define POST(t, call, ...) (dtest_call_begin(#call), dtest_post_end(t, #call, call(__VA_ARGS__)))

/*
 * The steps of a run. They return 0, or -1 after a line on stderr that says why. A create that
 * fails undoes what it did; a free continues after a failure, so that every failure is reported.
 */

/* objects.c */
int dtest_ia_open(struct dtest *t);
int dtest_ia_close(struct dtest *t);
/* A device with room for fewer requests would refuse the endpoint, but not say why. */
int dtest_check_burst(struct dtest *t);
int dtest_pz_create(struct dtest *t);
int dtest_pz_free(struct dtest *t);
int dtest_buffers_create(struct dtest *t);
int dtest_buffers_free(struct dtest *t);
/* Returns how many bytes are registered for the transfers that these options ask for. */
uint64_t dtest_buffers_bytes(const struct dtest_options *opt);
int dtest_cno_create(struct dtest *t);
int dtest_cno_free(struct dtest *t);
int dtest_evds_create(struct dtest *t);
int dtest_evds_free(struct dtest *t);
int dtest_ep_create(struct dtest *t);
int dtest_ep_free(struct dtest *t);
int dtest_messages_create(struct dtest *t);
int dtest_messages_free(struct dtest *t);
int dtest_psp_create(struct dtest *t);
int dtest_psp_free(struct dtest *t);

/* connect.c */
int dtest_connect(struct dtest *t);
int dtest_disconnect(struct dtest *t);
int dtest_print_addresses(struct dtest *t);
/*
 * If the connection ends within @timeout microseconds, or has ended, prints that and returns true.
 */
bool dtest_connection_ended(struct dtest *t, DAT_TIMEOUT timeout);
int dtest_event_wait(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout, DAT_EVENT *event);
/* Returns the limit of a wait in microseconds: so many seconds, or those of --wait. */
DAT_TIMEOUT dtest_wait_limit(const struct dtest *t, unsigned seconds);

/* hello.c */
struct dtest_hello dtest_hello_make(const struct dtest *t);
void dtest_hello_read(struct dtest *t, const void *data, DAT_COUNT size);
bool dtest_hello_known(const struct dtest *t);
int dtest_hello_check(const struct dtest *t);
/* Returns the options of the command line that these parameters come from. */
struct dtest_options_text {
	char text[64];
};
struct dtest_options_text dtest_hello_text(const struct dtest_hello *hello);

/* transfer.c */
int dtest_post_end(struct dtest *t, const char *call, DAT_RETURN ret);
int dtest_post_receives(struct dtest *t);
int dtest_exchange_rmrs(struct dtest *t);
int dtest_rdma_write(struct dtest *t);
int dtest_rdma_read(struct dtest *t);
int dtest_ping_pong(struct dtest *t);
DAT_LMR_TRIPLET dtest_iov(const struct dtest_buffer *buffer, size_t offset, size_t length);
DAT_DTO_COOKIE dtest_cookie(DAT_UINT64 value);
DAT_RMR_TRIPLET dtest_peer_buffer(const struct dtest *t, size_t length);
DAT_TIMEOUT dtest_transfer_limit(const struct dtest *t);
int dtest_expect_completion(struct dtest *t, const char *what, DAT_EVD_HANDLE evd,
			    DAT_UINT64 cookie, DAT_VLEN length);
void dtest_print_failed_request(struct dtest *t);

/* sweep.c */
int dtest_sweep_prepare(struct dtest *t);
int dtest_sweep(struct dtest *t);

/* query.c */
int dtest_print_attributes(struct dtest *t);

/* list.c */
int dtest_list_names(void);

#endif
