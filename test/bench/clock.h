/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the parts of the programs "clock" and "clock_ofi" share. The same protocols run over raw
 * verbs and librdmacm (clock_raw.c) or libfabric (clock_raw_ofi.c), and over DAT (clock_dat.c),
 * both ends in this process.
 */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "bench.h"

#define MESSAGE	      64      /* bytes of a message */
#define BLOCK	      4096    /* bytes of an RDMA write and of a region that is registered */
#define LARGE	      1048576 /* bytes of a transfer of LARGE_SENDS and LARGE_WRITES */
#define LARGE_AHEAD   4	      /* of them that are outstanding */
#define MEMORY	      4194304 /* bytes of a node's memory, and of the largest transfer */
#define LARGE_WRITE   65536   /* bytes of a write of WRITTEN_LARGE */
#define RARELY	      8	      /* writes of WRITTEN_RARELY whose completions are awaited together */
#define PAGE	      4096    /* where memory begins: copying depends on that */
#define AHEAD	      10      /* RDMA writes that are outstanding */
#define DEPTH	      32      /* requests, and receives, of an endpoint ... */
#define SMALL_DEPTH   4	      /* ... and of one of many */
#define RECEIVES      8	      /* outstanding in UNTIL_TOLD_FLUSHED */
#define THREADS	      4	      /* of FOUR_THREADS */
#define MAX_ENDPOINTS 5000    /* pairs of them, at most */
#define CLIENT_ADDR   "DAT_TEST_ADDR1"
#define SERVER_ADDR   "DAT_TEST_ADDR0"

enum protocol {
	PING_PONG,	    /* polled */
	WRITES,		    /* polled, AHEAD */
	PING_PONG_ASLEEP,   /* of two threads, which sleep, on one processor */
	CONNECT,	    /* connect, disconnect, free */
	UNTIL_TOLD,	    /* abrupt disconnect until both are told */
	UNTIL_TOLD_FLUSHED, /* the same with receives outstanding */
	REGISTER,	    /* and release */
	BIND,		    /* and a write through the window */
	PING_PONG_TWO,	    /* of two threads, which poll */
	PING_PONG_APART,    /* PING_PONG_ASLEEP on two processors */
	WRITTEN_DEQUEUED, /* two threads write to and fro, and see the last byte; they poll, too */
	WRITTEN,	  /* they don't, but once for each completion */
	WRITTEN_RARELY,	  /* they poll once for RARELY completions together */
	WRITTEN_LARGE,	  /* WRITTEN, of LARGE_WRITE bytes */
	WRITTEN_ONE_DEQUEUED, /* WRITTEN_DEQUEUED, WRITTEN by one thread */
	WRITTEN_ONE,
	LARGE_SENDS, /* polled by one thread, LARGE_AHEAD */
	LARGE_WRITES,
	SIZED_MESSAGES, /* a message of sized_bytes, and one back, polled by one thread */
	SIZED_WRITES,	/* of sized_bytes, polled, AHEAD or LARGE_AHEAD */
	SIZED_WRITTEN,	/* WRITTEN, WRITTEN_ONE, of sized_bytes */
	SIZED_WRITTEN_ONE,
	ONE_THREAD, /* PING_PONG by threads that share nothing but the device */
	FOUR_THREADS,
	PROTOCOLS,
};

/* What is counted in system calls. */
enum counted {
	NOT_COUNTED,
	POLLED_ROUND, /* a round of PING_PONG */
	WAIT_READY,   /* a wait that finds an event */
	WAIT_SLEEP,   /* a wait that sleeps */
	CNO_READY,    /* dat_cno_wait when its one EVD has an event */
	CNO_SLEEP,    /* dat_cno_wait that sleeps */
	COUNTED,
};

/* The steps of a connection, of many connections. */
enum step { OPEN_STEP, CONNECT_STEP, MESSAGE_STEP, DISCONNECT_STEP, FREE_STEP, STEPS };

/* One of the two implementations. */
struct clock_side {
	void (*open)(void);
	/* Returns the nanoseconds of @n operations. */
	uint64_t (*run[PROTOCOLS])(unsigned n);
	/* One operation, between mark_calls(row) and mark_calls(NOT_COUNTED). NULL: it has none. */
	void (*count[COUNTED])(void);
	/* The nanoseconds of each step of @n pairs of endpoints. Returns kB that they take. */
	long (*scale)(unsigned n, uint64_t ns[STEPS]);
};
extern const struct clock_side clock_raw, clock_dat;

bool raw_has_windows(void); /* the device */

/* The peer of a write has to poll, too: without that, nothing arrives there. */
extern bool peers_poll;
extern uint32_t sized_bytes; /* of SIZED_MESSAGES and the like, up to LARGE or MEMORY */

/* Of steps: libfabric's tcp runs on machines that others use, too, so there it is all threads'. */
static inline uint64_t step_ns(void)
{
	struct timespec now;

	clock_gettime(peers_poll ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- clock_calls.c: system calls, counted by a process that traces this one ---- */

/* What the calling thread does from here on is @row. */
void mark_calls(enum counted row);
/* Returns when a thread sleeps in a system call of an operation of @row. */
void mark_await_sleep(enum counted row);
/* Runs each operation of both sides, and prints the table. */
void count_calls(void);

#endif
