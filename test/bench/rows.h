/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The posts that raw.c, raw_ofi.c and dat.c measure, a row each. Each of them makes a row NAME the
 * function measure_NAME, which turns.h calls in the order of the rows.
 */
#ifndef BENCH_ROWS_H
#define BENCH_ROWS_H

enum segments {
	WHOLE, /* one of SIZE bytes */
	SHORT, /* one of SMALL bytes */
	TWO,   /* of SIZE / 4 bytes each */
	FOUR,
};

#define SEGMENTS_COUNT(segments) ((segments) == FOUR ? 4 : (segments) == TWO ? 2 : 1)

enum flag { NO_FLAG, SUPPRESSED, FENCED, SOLICITED, UNSIGNALLED /* which verbs do not have */ };

/*
 * raw_ofi.c leaves out the rows with flags: what DAT adds with a flag is compared with libfabric's
 * call without one.
 */
#ifdef BENCH_WITHOUT_FLAGS
#define FLAGGED(row)
#else
#define FLAGGED(row) row
#endif

/* A row of receives is X(name, segments). */
#define RECV_ROWS(X)                                                                               \
	X(post_recv, WHOLE)                                                                        \
	X(post_recv_two, TWO)                                                                      \
	X(post_recv_four, FOUR)

/*
 * A row of sends is X(name, segments, flag, receives). The last is the function that posts the
 * receives of the messages.
 */
#define SEND_ROWS(X)                                                                               \
	X(post_send, WHOLE, NO_FLAG, measure_post_recv)                                            \
	X(post_send_two, TWO, NO_FLAG, measure_post_recv_two)                                      \
	X(post_send_four, FOUR, NO_FLAG, measure_post_recv_four)                                   \
	X(post_send_inline, SHORT, NO_FLAG, recv_unmeasured)                                       \
	FLAGGED(X(post_send_suppressed, WHOLE, SUPPRESSED, recv_unmeasured))                       \
	FLAGGED(X(post_send_fenced, WHOLE, FENCED, recv_unmeasured))                               \
	FLAGGED(X(post_send_solicited, WHOLE, SOLICITED, recv_unmeasured))                         \
	FLAGGED(X(post_send_two_suppressed, TWO, SUPPRESSED, recv_unmeasured))

/* A row of RDMA is X(name, segments, flag). */
#define WRITE_ROWS(X)                                                                              \
	X(post_rdma_write, WHOLE, NO_FLAG)                                                         \
	X(post_rdma_write_inline, SHORT, NO_FLAG)                                                  \
	X(post_rdma_write_two, TWO, NO_FLAG)                                                       \
	X(post_rdma_write_four, FOUR, NO_FLAG)                                                     \
	FLAGGED(X(post_rdma_write_suppressed, WHOLE, SUPPRESSED))                                  \
	FLAGGED(X(post_rdma_write_fenced, WHOLE, FENCED))
#define READ_ROWS(X)                                                                               \
	X(post_rdma_read, WHOLE, NO_FLAG)                                                          \
	X(post_rdma_read_two, TWO, NO_FLAG)                                                        \
	X(post_rdma_read_four, FOUR, NO_FLAG)                                                      \
	FLAGGED(X(post_rdma_read_suppressed, WHOLE, SUPPRESSED))                                   \
	FLAGGED(X(post_rdma_read_fenced, WHOLE, FENCED))

#endif
