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

#include <dat/udat.h>

#include "tools/tools.h"

enum {
	CONN_QUAL = 45248,
	/* receives posted before connecting: one for each message of the peer that is no ping */
	MESSAGES = 3,
	SEGMENTS = 2, /* of an RDMA write */
	READS = 4,
	RMR_LENGTH = 64, /* bytes; every dtest sends this length, whatever -b says */
	SIZE_MIN = 26,	 /* "client RDMA write data..." and its NUL */
};

/* Microseconds. */
enum {
	REQUEST_TIMEOUT = 60 * 1000 * 1000,
	CONNECT_TIMEOUT = 60 * 1000 * 1000,
	DTO_TIMEOUT = 60 * 1000 * 1000,
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
	unsigned size;	  /* bytes of one buffer and of each ping */
	unsigned burst;	  /* number of RDMA writes, and of pings */
	unsigned delay;	  /* seconds between the connection request and its accept */
	bool cno;
	bool poll;
	bool query;
};

/* Registered memory. */
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

struct dtest {
	struct dtest_options opt;
	bool server;
	bool failed;

	DAT_EVD_HANDLE async_evd;
	DAT_IA_HANDLE ia;
	DAT_PZ_HANDLE pz;
	DAT_CNO_HANDLE cno; /* NULL without -c */
	DAT_EVD_HANDLE cr_evd;
	DAT_EVD_HANDLE connect_evd;
	DAT_EVD_HANDLE request_evd;
	DAT_EVD_HANDLE recv_evd;
	DAT_EP_HANDLE ep;
	DAT_PSP_HANDLE psp; /* NULL on the client */

	/* burst x size: the source of RDMA writes and pings, the sink of RDMA reads */
	struct dtest_buffer out;
	/* burst x size: target of the peer's RDMA writes and reads, then sink of its pings */
	struct dtest_buffer in;
	struct dtest_buffer msg_out; /* one DAT_RMR_TRIPLET */
	struct dtest_buffer msg_in;  /* MESSAGES of them */
	unsigned messages_in;	     /* messages received; also the cookie of the next receive */
	/* the peer's "in"; pad is its buffer size, or 0 from a dtest that does not send it */
	DAT_RMR_TRIPLET peer;

	unsigned long polls;   /* of the current measure */
	double timers[TIMERS]; /* microseconds */
	struct dtest_measure writes;
	struct dtest_measure reads[READS];
	struct dtest_measure pings;
};

/* report.c: all output. Every line begins with the process id. */
void dtest_trace_on(void);
void dtest_call_begin(const char *call);
int dtest_call_end(const char *call, DAT_RETURN ret);
void dtest_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
void dtest_error(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));
void dtest_print_result(const struct dtest *t);

/* Makes a DAT call, traces it if asked, and reports a failure. Returns 0 or -1. */
#define CALL(call, ...) (dtest_call_begin(#call), dtest_call_end(#call, call(__VA_ARGS__)))

/*
 * The steps of a run. They return 0, or -1 after a line on stderr that says why. A create that
 * fails undoes what it did; a free continues after a failure, so that every failure is reported.
 */

/* objects.c */
int dtest_ia_open(struct dtest *t);
int dtest_ia_close(struct dtest *t);
int dtest_pz_create(struct dtest *t);
int dtest_pz_free(struct dtest *t);
int dtest_buffers_create(struct dtest *t);
int dtest_buffers_free(struct dtest *t);
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
int dtest_event_wait(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout, DAT_EVENT *event);

/* transfer.c */
int dtest_post_receives(struct dtest *t);
int dtest_exchange_rmrs(struct dtest *t);
int dtest_rdma_write(struct dtest *t);
int dtest_rdma_read(struct dtest *t);
int dtest_ping_pong(struct dtest *t);

/* query.c */
int dtest_print_attributes(struct dtest *t);

#endif
