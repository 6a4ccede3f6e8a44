/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the unit tests of the core share: interface adapters on the fake transport, connected
 * endpoints, and checks.
 */
#ifndef HARNESS_H
#define HARNESS_H

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../../udapl/udapl.h"
#include "../fake/fake.h"
#include "../harness/run.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

#define SECONDS(n) (1000000 * (DAT_TIMEOUT)(n))

/* An output that a failed call must leave alone. */
#define POISON ((void *)0x5a5a5a5a)

/* ---- checks ---- */

/*
 * "DAT_INVALID_STATE, DAT_INVALID_STATE_EP_CONNECTED (0x80210007)"; in one of a few buffers of this
 * thread.
 */
const char *status_text(DAT_RETURN ret);

#define ck_dat_is(call, want)                                                                      \
	do {                                                                                       \
		DAT_RETURN ret_ = (call), want_ = (want);                                          \
		ck_assert_msg(ret_ == want_, "%s: %s, not %s", #call, status_text(ret_),           \
			      status_text(want_));                                                 \
	} while (0)

#define ck_dat(call) ck_dat_is(call, DAT_SUCCESS)

/* ---- one end ---- */

#define SIDE_MEMORY 65536
#define SIDE_QLEN   64

/* An IA with all that a connection takes. Fields above the line may be set before side_open. */
struct side {
	const DAT_EP_ATTR *attr; /* NULL: defaults */
	bool one_evd;		 /* every stream feeds recv_evd, which is the other three, too */
	bool thread_safe;
	DAT_COUNT qlen; /* 0: SIDE_QLEN */
	/* -- */
	DAT_IA_HANDLE ia;
	DAT_PZ_HANDLE pz;
	DAT_EVD_HANDLE async_evd, recv_evd, request_evd, connect_evd, cr_evd;
	DAT_EP_HANDLE ep;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
	char *memory; /* SIDE_MEMORY bytes, all privileges */
	struct sockaddr_in addr;
};

/* An IA and its asynchronous EVD, nothing else. @device: "fake0". */
DAT_IA_HANDLE ia_make(const char *device, bool thread_safe, DAT_EVD_HANDLE *async_evd);

void side_open(struct side *side, const char *device);
/* Everything goes, gracefully, and the fake has nothing left of it. */
void side_close(struct side *side);

/* Any streams but asynchronous ones. */
DAT_EVD_HANDLE evd_make_for(const struct side *side, DAT_COUNT qlen, DAT_EVD_FLAGS flags);
DAT_EP_HANDLE ep_make(const struct side *side, const DAT_EP_ATTR *attr);
/* What defaults would be, to change one thing. */
DAT_EP_ATTR ep_attr(const struct side *side);

DAT_LMR_TRIPLET segment(const struct side *side, size_t offset, size_t length);
DAT_RMR_TRIPLET target(const struct side *side, size_t offset, size_t length);

/* ---- two ends ---- */

struct pair {
	struct side a, b; /* a connects to b */
};

/* Opens what is not open yet ("fake0", "fake1") and connects. */
void pair_connect(struct pair *pair);
void connect_eps(struct side *a, DAT_EP_HANDLE ep_a, struct side *b, DAT_EP_HANDLE ep_b);
/* Disconnects abruptly, waits for both, and closes the sides. */
void pair_close(struct pair *pair);

/* ---- transfers and events ---- */

DAT_DTO_COOKIE cookie_of(uint64_t n);

/* One segment at @offset of the side's memory, with @n for a cookie. */
DAT_RETURN try_send(const struct side *side, uint64_t n, size_t offset, size_t length,
		    DAT_COMPLETION_FLAGS flags);
DAT_RETURN try_recv(const struct side *side, uint64_t n, size_t offset, size_t length,
		    DAT_COMPLETION_FLAGS flags);
#define post_send(...) ck_dat(try_send(__VA_ARGS__))
#define post_recv(...) ck_dat(try_recv(__VA_ARGS__))

/* A software event with @n for a pointer. */
DAT_RETURN try_post_se(DAT_EVD_HANDLE evd, uintptr_t n);
#define post_se(...) ck_dat(try_post_se(__VA_ARGS__))

/* The next event, waited for on the automatic clock; it must be of that kind. */
DAT_EVENT expect(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number);
void expect_dto(DAT_EVD_HANDLE evd, uint64_t cookie, DAT_DTO_COMPLETION_STATUS status);
void expect_se(DAT_EVD_HANDLE evd, uintptr_t n);
/* Nothing is there when all have settled. */
void expect_none(DAT_EVD_HANDLE evd);

DAT_EP_STATE state_of(DAT_EP_HANDLE ep);

/* From here on @n more descriptors can be opened. Leave some at the end: sanitizers want them. */
void leave_descriptors(unsigned n);

/* ---- threads of the consumer ---- */

/* In pthread_create's place: the fake must be able to tell them from service threads. */
pthread_t consumer_thread_start(void *(*run)(void *), void *arg);
void *consumer_thread_end(pthread_t thread);

/* dat_evd_wait in a thread of its own. */
struct waiter {
	DAT_EVD_HANDLE evd;
	DAT_TIMEOUT timeout;
	DAT_COUNT threshold;
	DAT_RETURN ret;
	DAT_EVENT event;
	DAT_COUNT nmore;
	pthread_t thread;
};
void waiter_start(struct waiter *waiter); /* returns when it sleeps */
DAT_RETURN waiter_end(struct waiter *waiter);

/* ---- main ---- */

/* run_cases, with the automatic clock of the fake in every case. */
int run_unit_cases(int argc, char **argv);

#endif
