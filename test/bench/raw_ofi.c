/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of libfabric: two endpoints of one domain are connected. What a call takes is prepared
 * before it is measured, and each is the cheapest that libfabric has for the transfer.
 */
#include <arpa/inet.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "raw_fabric.h"
#define BENCH_WITHOUT_FLAGS
#include "rows.h"

static struct fabric_node node;
static struct fid_cq *send_cq, *recv_cq, *idle_cq;
static struct fid_ep *client, *server;
static struct fid_mr *mr;
static void *descs[4]; /* of mr */
static char *read_only;
static char buffer[2 * SIZE];
static const struct iovec whole[] = { { buffer, SIZE } }, small[] = { { buffer, SMALL } };
static const struct iovec pieces[] = {
	{ buffer, SIZE / 4 },
	{ buffer + SIZE / 4, SIZE / 4 },
	{ buffer + SIZE / 2, SIZE / 4 },
	{ buffer + SIZE / 4 * 3, SIZE / 4 },
};

static void open_connection(void)
{
	struct fi_info *request;

	client = fabric_endpoint(&node, node.info, send_cq, idle_cq, TURNS * (CALLS + 1));
	fabric_connect(client, &node);
	request = fabric_expect(&node, FI_CONNREQ);
	server = fabric_endpoint(&node, request, send_cq, recv_cq, TURNS * (CALLS + 1));
	MUST(!fi_accept(server, NULL, 0));
	fabric_expect(&node, FI_CONNECTED);
	fabric_expect(&node, FI_CONNECTED);
	fi_freeinfo(request);
}

static void open_all(void)
{
	fabric_open(&node, "tcp", getenv("DAT_TEST_ADDR0"), true);
	send_cq = fabric_cq(&node, 4 * CALLS);
	recv_cq = fabric_cq(&node, 4 * CALLS);
	idle_cq = fabric_cq(&node, 4 * CALLS);
	mr = fabric_register(&node, buffer, sizeof(buffer), 1);
	for (size_t i = 0; i < 4; i++)
		descs[i] = fi_mr_desc(mr);
	read_only = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(read_only != MAP_FAILED);
	open_connection();
}

static void take_completions(struct fid_cq *cq, int calls)
{
	while (calls)
		calls -= fabric_take(cq);
}

/* ---- posts ---- */

static inline void *context_of(uintptr_t call)
{
	return (void *)call;
}

static inline const struct iovec *iov_of(enum segments segments)
{
	return segments == WHOLE ? whole : segments == SHORT ? small : pieces;
}

static inline void recv_all(enum segments segments)
{
	const struct iovec *iov = iov_of(segments);
	const size_t n = SEGMENTS_COUNT(segments);

	for (uintptr_t i = 0; i < CALLS; i++)
		if (n == 1)
			MUST(!fi_recv(server, iov->iov_base, iov->iov_len, descs[0], 0,
				      context_of(i)));
		else
			MUST(!fi_recvv(server, iov, descs, n, 0, context_of(i)));
}

static inline void send_all(enum segments segments)
{
	const struct iovec *iov = iov_of(segments);
	const size_t n = SEGMENTS_COUNT(segments);

	for (uintptr_t i = 0; i < CALLS; i++)
		if (n == 1)
			MUST(!fi_send(client, iov->iov_base, iov->iov_len, descs[0], 0,
				      context_of(i)));
		else
			MUST(!fi_sendv(client, iov, descs, n, 0, context_of(i)));
}

/* Only the call that takes a whole message takes flags, which a write needs. */
static inline void rma_all(enum segments segments, bool write)
{
	static struct fi_msg_rma message;
	const struct iovec *iov = iov_of(segments);
	const size_t n = SEGMENTS_COUNT(segments);
	struct fi_rma_iov remote = { .addr = (uintptr_t)buffer + SIZE,
				     .len = n * iov->iov_len,
				     .key = fi_mr_key(mr) };

	message = (struct fi_msg_rma){ .msg_iov = iov,
				       .desc = descs,
				       .iov_count = n,
				       .rma_iov = &remote,
				       .rma_iov_count = 1 };
	for (uintptr_t i = 0; i < CALLS; i++) {
		message.context = context_of(i);
		if (write)
			MUST(!fi_writemsg(client, &message, FABRIC_WRITE));
		else
			MUST(!fi_readmsg(client, &message, FI_COMPLETION));
	}
}

#define ROW(name, call)                                                                            \
	MEASURE measure_##name(void)                                                               \
	{                                                                                          \
		call;                                                                              \
	}
#define RECV_ROW(name, segments)		 ROW(name, recv_all(segments))
#define SEND_ROW(name, segments, flag, receives) ROW(name, send_all(segments))
#define WRITE_ROW(name, segments, flag)		 ROW(name, rma_all(segments, true))
#define READ_ROW(name, segments, flag)		 ROW(name, rma_all(segments, false))

RECV_ROWS(RECV_ROW)
SEND_ROWS(SEND_ROW)
WRITE_ROWS(WRITE_ROW)
READ_ROWS(READ_ROW)

static void recv_unmeasured(void)
{
	recv_all(WHOLE);
}

static void send_unmeasured(void)
{
	send_all(WHOLE);
}

static void message_unmeasured(void)
{
	MUST(!fi_recv(server, buffer, SIZE, descs[0], 0, NULL));
	MUST(!fi_send(client, buffer, SIZE, descs[0], 0, NULL));
}

static void post_write(void)
{
	struct fi_rma_iov remote = { .addr = (uintptr_t)buffer + SIZE,
				     .len = SMALL,
				     .key = fi_mr_key(mr) };
	struct fi_msg_rma message = { .msg_iov = small,
				      .desc = descs,
				      .iov_count = 1,
				      .rma_iov = &remote,
				      .rma_iov_count = 1 };

	MUST(!fi_writemsg(client, &message, FABRIC_WRITE));
}

/* libfabric gets its memory at the first transfers, and keeps it. */
static void warm_up(void)
{
	for (int i = 0; i < TURNS; i++) {
		recv_unmeasured();
		send_all(SHORT);
		take_completions(send_cq, CALLS);
		take_completions(recv_cq, CALLS);
		rma_all(SHORT, false);
		take_completions(send_cq, CALLS);
	}
}

/* ---- regions ---- */

/* Does what stands for a bind. Returns the region, whose end is not part of the figure. */
static APART struct fid_mr *measure_bind_emulated(void)
{
	struct fid_mr *region;

	MUST(!fi_mr_reg(node.domain, read_only, SIZE, FI_SEND | FI_WRITE | FI_REMOTE_READ, 0, 2, 0,
			&region, NULL));
	return region;
}

/*
 * The end of the region of the bind before stands for the completion of a bind. libfabric completes
 * nothing for it.
 */
static struct fid_mr *bound[CALLS];

MEASURE measure_dequeue_bind(void)
{
	for (int i = 0; i < CALLS; i++)
		MUST(!fi_close(&bound[i]->fid));
}

/* The keys are random, as those of DAT are. */
static void bind_all(void)
{
	for (uint32_t i = 0; i < CALLS; i++)
		MUST(!fi_mr_reg(node.domain, buffer, SIZE, FI_SEND | FI_WRITE | FI_REMOTE_READ, 0,
				(i + 1) * UINT32_C(2654435761), 0, &bound[i], NULL));
}

MEASURE measure_register(void)
{
	for (int i = 0; i < CALLS; i++) {
		struct fid_mr *one;

		MUST(!fi_mr_reg(node.domain, buffer, SIZE, FABRIC_ACCESS, 0, 2, 0, &one, NULL));
		MUST(!fi_close(&one->fid));
	}
}

static void measure_regions(void)
{
	for (int i = 0; i < CALLS * TURNS; i++) {
		struct fid_mr *region = measure_bind_emulated();

		MUST(!fi_close(&region->fid));
	}
	for (int i = 0; i < TURNS; i++) {
		bind_all();
		measure_dequeue_bind();
	}
	for (int i = 0; i < TURNS; i++)
		measure_register();
}

/* ---- completions ---- */

MEASURE measure_dequeue(void)
{
	struct fi_cq_msg_entry entry;

	for (int i = 0; i < CALLS; i++)
		MUST(fi_cq_read(recv_cq, &entry, 1) == 1);
}

MEASURE measure_wait(void)
{
	struct fi_cq_msg_entry entry;

	MUST(fi_cq_read(recv_cq, &entry, 1) == 1);
}

MEASURE measure_dequeue_nothing(void)
{
	struct fi_cq_msg_entry entry;

	for (int i = 0; i < CALLS; i++)
		MUST(fi_cq_read(recv_cq, &entry, 1) == -FI_EAGAIN);
}

/* Behind the messages there is a write, which completes when it is placed. */
static void messages_arrive(int calls)
{
	post_write();
	take_completions(send_cq, calls + 1);
}

static void take_requests(int calls)
{
	take_completions(send_cq, calls);
}

static void take_receives(int calls)
{
	take_completions(recv_cq, calls);
}

#include "turns.h"

int main(void)
{
	second_thread_start();
	open_all();
	warm_up();
	measure_posts();
	measure_completions();
	measure_regions();
	return 0;
}
