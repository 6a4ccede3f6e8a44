/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an IA, an endpoint and an EVD count, for people who tune: in DAT 2.0 for the operations of
 * dat_extension_op, in both editions for DAPL_COUNTERS. All that is named here is legal on any
 * thread, with or without locks.
 */
#ifndef UDAPL_COUNTERS_H
#define UDAPL_COUNTERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

/*
 * Whether what the instruction budgets are about is counted, too, which takes instructions:
 * transfers, dequeues, regions. Of `configure --enable-counters`.
 */
#ifdef UDAPL_COUNTERS
#define COUNTS_FAST_PATH true
#else
#define COUNTS_FAST_PATH false
#endif

/*
 * The counters that there are, X(number, name, counted). The numbers and names are those of DAT
 * 2.0, whose other counters stay 0. What each counts is in doc/design.md.
 */
#define IA_COUNTERS(X)                                                                             \
	X(0, PZ_CREATE, true)                                                                      \
	X(1, PZ_FREE, true)                                                                        \
	X(2, LMR_CREATE, COUNTS_FAST_PATH)                                                         \
	X(3, LMR_FREE, COUNTS_FAST_PATH)                                                           \
	X(4, RMR_CREATE, true)                                                                     \
	X(5, RMR_FREE, true)                                                                       \
	X(6, PSP_CREATE, true)                                                                     \
	X(7, PSP_CREATE_ANY, true)                                                                 \
	X(8, PSP_FREE, true)                                                                       \
	X(9, RSP_CREATE, true)                                                                     \
	X(10, RSP_FREE, true)                                                                      \
	X(11, EVD_CREATE, true)                                                                    \
	X(12, EVD_FREE, true)                                                                      \
	X(13, EP_CREATE, true)                                                                     \
	X(14, EP_FREE, true)                                                                       \
	X(15, SRQ_CREATE, true)                                                                    \
	X(16, SRQ_FREE, true)                                                                      \
	X(17, SP_CR, true)                                                                         \
	X(18, SP_CR_ACCEPTED, true)                                                                \
	X(19, SP_CR_REJECTED, true)                                                                \
	X(23, ASYNC_ERROR, true)                                                                   \
	X(24, ASYNC_QP_ERROR, true)                                                                \
	X(25, ASYNC_CQ_ERROR, true)                                                                \
	X(26, CM_LISTEN, true)                                                                     \
	X(27, CM_REQ_TX, true)                                                                     \
	X(28, CM_REQ_RX, true)                                                                     \
	X(34, CM_USER_REJ_RX, true)                                                                \
	X(35, CM_ACTIVE_EST, true)                                                                 \
	X(36, CM_PASSIVE_EST, true)                                                                \
	X(37, CM_AH_REQ_TX, true)                                                                  \
	X(39, CM_AH_RESOLVED, true)                                                                \
	X(40, CM_DREQ_TX, true)                                                                    \
	X(41, CM_DREQ_RX, true)                                                                    \
	X(47, CM_ERR, true)                                                                        \
	X(55, CM_ERR_REFUSED, true)                                                                \
	X(56, CM_ERR_RESET, true)                                                                  \
	X(57, CM_ERR_TIMEOUT, true)                                                                \
	X(58, CM_ERR_REJ_TX, true)                                                                 \
	X(80, DIAG_ERR_SQ_RAE, true)                                                               \
	X(82, DIAG_ERR_SQ_RIRE, true)                                                              \
	X(83, DIAG_ERR_SQ_RREE, true)                                                              \
	X(84, DIAG_ERR_SQ_TREE, true)

#define EP_COUNTERS(X)                                                                             \
	X(0, CONNECT, true)                                                                        \
	X(1, DISCONNECT, true)                                                                     \
	X(2, POST_SEND, COUNTS_FAST_PATH)                                                          \
	X(3, POST_SEND_DATA, COUNTS_FAST_PATH)                                                     \
	X(4, POST_SEND_UD, COUNTS_FAST_PATH)                                                       \
	X(5, POST_SEND_UD_DATA, COUNTS_FAST_PATH)                                                  \
	X(6, POST_RECV, COUNTS_FAST_PATH)                                                          \
	X(7, POST_RECV_DATA, COUNTS_FAST_PATH)                                                     \
	X(8, POST_WRITE, COUNTS_FAST_PATH)                                                         \
	X(9, POST_WRITE_DATA, COUNTS_FAST_PATH)                                                    \
	X(10, POST_WRITE_IMM, COUNTS_FAST_PATH)                                                    \
	X(11, POST_WRITE_IMM_DATA, COUNTS_FAST_PATH)                                               \
	X(12, POST_READ, COUNTS_FAST_PATH)                                                         \
	X(13, POST_READ_DATA, COUNTS_FAST_PATH)                                                    \
	X(14, POST_CMP_SWAP, COUNTS_FAST_PATH)                                                     \
	X(15, POST_FETCH_ADD, COUNTS_FAST_PATH)                                                    \
	X(16, RECV, COUNTS_FAST_PATH)                                                              \
	X(17, RECV_DATA, COUNTS_FAST_PATH)                                                         \
	X(18, RECV_UD, COUNTS_FAST_PATH)                                                           \
	X(19, RECV_UD_DATA, COUNTS_FAST_PATH)                                                      \
	X(20, RECV_IMM, COUNTS_FAST_PATH)                                                          \
	X(21, RECV_IMM_DATA, COUNTS_FAST_PATH)                                                     \
	X(22, RECV_RDMA_IMM, COUNTS_FAST_PATH)                                                     \
	X(23, RECV_RDMA_IMM_DATA, COUNTS_FAST_PATH)

#define EVD_COUNTERS(X)                                                                            \
	X(0, WAIT, COUNTS_FAST_PATH)                                                               \
	X(1, WAIT_BLOCKED, true)                                                                   \
	X(2, WAIT_NOTIFY, true)                                                                    \
	X(3, DEQUEUE, COUNTS_FAST_PATH)                                                            \
	X(4, DEQUEUE_FOUND, COUNTS_FAST_PATH)                                                      \
	X(5, DEQUEUE_NOT_FOUND, COUNTS_FAST_PATH)                                                  \
	X(6, DEQUEUE_POLL, COUNTS_FAST_PATH)                                                       \
	X(7, DEQUEUE_POLL_FOUND, COUNTS_FAST_PATH)                                                 \
	X(8, CONN_CALLBACK, true)                                                                  \
	X(9, DTO_CALLBACK, true)

#define IA_COUNTER_NUMBER(number, name, counted)  IA_##name = (number),
#define EP_COUNTER_NUMBER(number, name, counted)  EP_##name = (number),
#define EVD_COUNTER_NUMBER(number, name, counted) EVD_##name = (number),
enum ia_counter { IA_COUNTERS(IA_COUNTER_NUMBER) IA_ALL_COUNTERS = 85 };
enum ep_counter { EP_COUNTERS(EP_COUNTER_NUMBER) EP_ALL_COUNTERS = 24 };
enum evd_counter { EVD_COUNTERS(EVD_COUNTER_NUMBER) EVD_ALL_COUNTERS = 10 };

/* Begins at 0, as memory of objects does. */
struct counter {
	_Atomic uint64_t value;
};

/* The counters of one kind of object. */
struct counter_kind {
	unsigned count; /* how many there are; what is not counted among them */
	/* by number; the public name, or NULL if it is not counted */
	const char *const *names;
};
extern const struct counter_kind ia_counters, ep_counters, evd_counters;

static inline void counter_add(struct counter *counter, uint64_t n)
{
	atomic_fetch_add_explicit(&counter->value, n, memory_order_relaxed);
}

/* What the instruction budgets are about: counted only in builds that do. */
static ALWAYS_INLINE void counter_add_fast(struct counter *counter, uint64_t n)
{
	if (COUNTS_FAST_PATH)
		counter_add(counter, n);
}

/* Returns the value. If @reset it is 0 from here on, and no count gets lost. */
uint64_t counter_read(struct counter *counter, bool reset);
/* Adds the counters of an object that is going away to those of its kind in an IA. */
void counters_sum(const struct counter_kind *kind, struct counter *sums, struct counter *counters);
/* Writes the line of the counter @number of @whose to the log, whatever kinds are wanted there. */
void counter_print(const struct counter_kind *kind, unsigned number, const char *whose,
		   uint64_t value);

/* For an IA that is opened: returns whether its counters are to be printed when it is closed. */
bool counters_wanted_at_close(void);
/* Writes the lines of those that are not 0. */
void counters_print(const struct counter_kind *kind, const char *whose, struct counter *counters);

#endif
