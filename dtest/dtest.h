/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of dtest share: the options, the state of one run, and the way every DAT call is
 * made and reported.
 */
#ifndef DTEST_H
#define DTEST_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <dat/udat.h>

enum {
	CONN_QUAL = 45248,
	/* receives posted before connecting, one for each message that is not a ping */
	MESSAGES = 3,
	SEGMENTS = 2, /* of an RDMA write */
	READS = 4,
	RMR_LENGTH = 64, /* what every dtest announces, whatever its buffers hold */
	SIZE_MIN = 26,	 /* "client RDMA write data..." and its NUL */
};

/* Microseconds, as dat_evd_wait counts. */
enum {
	REQUEST_TIMEOUT = 20 * 1000 * 1000,
	CONNECT_TIMEOUT = 10 * 1000 * 1000,
	DTO_TIMEOUT = 5 * 1000 * 1000,
};

enum timer {
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

struct options {
	char *ia_name;
	const char *host; /* NULL: we are the server */
	unsigned size;	  /* bytes of one buffer, and of each ping */
	unsigned burst;	  /* writes, and pings */
	unsigned delay;	  /* seconds between the request and its accept */
	bool cno;
	bool poll;
	bool query;
};

/* Registered memory, whole or not at all: lmr is NULL until everything else is valid. */
struct buffer {
	char *mem;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
};

struct measure {
	double usec;
	unsigned long polls; /* dequeues that found nothing */
};

struct dtest {
	struct options opt;
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

	/* burst x size: source of writes and pings, sink of reads */
	struct buffer out;
	/* burst x size: what the peer writes to and reads from, then takes our pings */
	struct buffer in;
	struct buffer msg_out; /* one DAT_RMR_TRIPLET */
	struct buffer msg_in;  /* MESSAGES of them */
	unsigned messages_in;  /* so many have arrived; the cookie of the next */
	/* its "in"; pad is its buffer size, or 0 from a dtest that doesn't say */
	DAT_RMR_TRIPLET peer;

	unsigned long polls;   /* of the measure under way */
	double timers[TIMERS]; /* microseconds */
	struct measure writes;
	struct measure reads[READS];
	struct measure pings;
};

/* report.c: all output but the query's. Every line begins with the process id. */
void trace_on(void);
void call_begins(const char *call);
int call_ended(const char *call, DAT_RETURN ret);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void complain(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *event_name(DAT_EVENT_NUMBER number);
const char *status_name(DAT_DTO_COMPLETION_STATUS status);
int address_text(const struct sockaddr *address, char *text, size_t size);
double usec_now(void);
void result_print(const struct dtest *t);

/* Makes a DAT call, traced and its failure reported; 0, or -1 when it didn't succeed. */
#define CALL(call, ...) (call_begins(#call), call_ended(#call, call(__VA_ARGS__)))

/*
 * What follows are steps: 0, or -1 after a line on stderr that says why. A create that fails leaves
 * nothing behind; a free goes on after a refusal, so that every refusal is seen.
 */

/* objects.c */
int ia_open(struct dtest *t);
int ia_close(struct dtest *t);
int pz_create(struct dtest *t);
int pz_free(struct dtest *t);
int buffers_create(struct dtest *t);
int buffers_free(struct dtest *t);
int cno_create(struct dtest *t);
int cno_free(struct dtest *t);
int evds_create(struct dtest *t);
int evds_free(struct dtest *t);
int ep_create(struct dtest *t);
int ep_free(struct dtest *t);
int messages_create(struct dtest *t);
int messages_free(struct dtest *t);
int psp_create(struct dtest *t);
int psp_free(struct dtest *t);

/* connect.c */
int connection_open(struct dtest *t);
int connection_close(struct dtest *t);
int addresses_print(struct dtest *t);
int event_wait(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout, DAT_EVENT *event);

/* transfer.c */
int receives_post(struct dtest *t);
int rmrs_exchange(struct dtest *t);
int rdma_write(struct dtest *t);
int rdma_read(struct dtest *t);
int ping_pong(struct dtest *t);

/* query.c */
int attributes_print(struct dtest *t);

#endif
