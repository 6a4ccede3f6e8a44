/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The library of the unit tests of the core: interface adapters on the fake transport, connected
 * endpoints, checks, and threads.
 */
#ifndef HARNESS_H
#define HARNESS_H

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../fake/fake.h"
#include "../harness/core_calls.h"
#include "../harness/process.h"
#include "../harness/run.h"
#include "../harness/status.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

#define SECONDS(n) (1000000 * (DAT_TIMEOUT)(n))

/* The value of an output before a call; a call that fails does not change it. */
#define POISON ((void *)0x5a5a5a5a)

/* ---- one end of a connection ---- */

#define SIDE_MEMORY 65536
#define SIDE_QLEN   64

/*
 * An IA and the objects that a connection needs. The first four fields may be set before side_open,
 * which sets the others.
 */
struct side {
	const DAT_EP_ATTR *ep_attr; /* NULL: the defaults */
	bool one_evd;		    /* recv_evd, with all streams, serves as the other three, too */
	bool thread_safe;
	DAT_COUNT qlen; /* of each EVD; 0: SIDE_QLEN */

	DAT_IA_HANDLE ia;
	DAT_PZ_HANDLE pz;
	DAT_EVD_HANDLE async_evd, recv_evd, request_evd, connect_evd, cr_evd;
	DAT_EP_HANDLE ep;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
	char *memory; /* SIDE_MEMORY bytes, all privileges */
	struct sockaddr_in address;
};

/* Opens an IA on @device, such as "fake0", with an asynchronous EVD, and nothing else. */
DAT_IA_HANDLE ia_open_on(const char *device, bool thread_safe, DAT_EVD_HANDLE *async_evd);

void side_open(struct side *side, const char *device);
/* Frees every object and closes the IA gracefully. */
void side_close(struct side *side);

/* Makes an EVD. @flags may have any streams except DAT_EVD_ASYNC_FLAG. */
DAT_EVD_HANDLE side_create_evd(const struct side *side, DAT_COUNT qlen, DAT_EVD_FLAGS flags);
DAT_EP_HANDLE side_create_ep(const struct side *side, const DAT_EP_ATTR *attr);
/*
 * Returns the attributes of an endpoint that is created without any, for a test that changes some.
 */
DAT_EP_ATTR ep_attr_default(const struct side *side);
/* These compare member by member, because what is between them has no value. */
void expect_same_attr(const DAT_EP_ATTR *is, const DAT_EP_ATTR *want);
void expect_same_param(const DAT_EP_PARAM *is, const DAT_EP_PARAM *want);

DAT_LMR_TRIPLET segment(const struct side *side, size_t offset, DAT_VLEN length);
DAT_RMR_TRIPLET target(const struct side *side, size_t offset, size_t length);

/* ---- a connection ---- */

struct pair {
	struct side client, server; /* the client connects, the server listens */
};

/* Opens the sides that are not open yet (client on "fake0", server on "fake1"), and connects. */
void pair_connect(struct pair *pair);
/* Disconnects abruptly, and takes the event. */
void side_disconnect(const struct side *side);
/*
 * The server disconnects, and nobody has asked the client, whose send 1 is not flushed yet: time
 * stands still, and the device works by fake_step.
 */
void pair_begin_to_end(struct pair *pair);
/* The device flushes what it has, time moves, and the client takes the event. */
void pair_finish_the_end(struct pair *pair);
void connect_eps(struct side *client, DAT_EP_HANDLE client_ep, struct side *server,
		 DAT_EP_HANDLE server_ep);
/* Disconnects abruptly, waits for the event at both sides, and closes them. */
void pair_close(struct pair *pair);
/* Closes both IAs abruptly, whatever their state. */
void pair_close_abrupt(struct pair *pair);

/* ---- transfers and events ---- */

DAT_DTO_COOKIE cookie_of(uint64_t n);

/* Posts one segment, at @offset of the side's memory, with the cookie @n. */
DAT_RETURN try_send(const struct side *side, uint64_t n, size_t offset, size_t length,
		    DAT_COMPLETION_FLAGS flags);
DAT_RETURN try_recv(const struct side *side, uint64_t n, size_t offset, size_t length,
		    DAT_COMPLETION_FLAGS flags);
#define post_send(...) ck_dat(try_send(__VA_ARGS__))
#define post_recv(...) ck_dat(try_recv(__VA_ARGS__))

/* Posts a software event with the pointer @n. */
DAT_RETURN try_post_se(DAT_EVD_HANDLE evd, uintptr_t n);
#define post_se(...) ck_dat(try_post_se(__VA_ARGS__))

/*
 * Waits for the next event, which must have that number. The time-out is 60 seconds of the fake's
 * clock, which pass at once if the calling thread has the automatic clock.
 */
DAT_EVENT expect_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number);
void expect_dto(DAT_EVD_HANDLE evd, uint64_t cookie, DAT_DTO_COMPLETION_STATUS status);
void expect_se(DAT_EVD_HANDLE evd, uintptr_t n);
/* The queue must be empty once every service thread sleeps. */
void expect_no_event(DAT_EVD_HANDLE evd);

DAT_EP_STATE ep_get_state(DAT_EP_HANDLE ep);
struct tp_cq *cq_of_evd(DAT_EVD_HANDLE evd);

/*
 * Does what descriptors_allow does, when every service thread sleeps: each opens a descriptor of
 * its own when it starts.
 */
void limit_descriptors(unsigned n);

/* ---- threads of the consumer ---- */

/*
 * Threads are started with this, because the fake must be able to distinguish them from service
 * threads.
 */
pthread_t consumer_thread_start(void *(*run)(void *), void *arg);

/*
 * Cases that cancel a thread are left out with the thread sanitizer: it does not see the locks of a
 * thread that was cancelled in a call that it intercepts, and reports each access as a race.
 */
#ifdef __SANITIZE_THREAD__
#define CAN_CANCEL_THREADS false
#else
#define CAN_CANCEL_THREADS true
#endif

/*
 * The address sanitizer takes what was on the stack of a thread that was cancelled, and is not any
 * more, for what is there. So cases are left out with it in which such a thread had variables there
 * whose address was taken.
 */
#ifdef __SANITIZE_ADDRESS__
#define CAN_UNWIND_THREADS false
#else
#define CAN_UNWIND_THREADS CAN_CANCEL_THREADS
#endif

/* A thread that blocks in dat_evd_wait. */
struct waiter {
	DAT_EVD_HANDLE evd;
	DAT_TIMEOUT timeout;
	DAT_COUNT threshold;
	DAT_RETURN ret;
	DAT_EVENT event;
	DAT_COUNT nmore;
	pthread_t thread;
};
void waiter_start(struct waiter *waiter); /* returns when the thread sleeps */
DAT_RETURN waiter_join(struct waiter *waiter);

/* ---- main ---- */

/* This is run_cases, with the automatic clock of the fake in every case. */
int run_unit_cases(int argc, char **argv);

#endif
