/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of libfabric: two endpoints of one domain are connected. What a call takes is prepared
 * before it is measured, and each is the cheapest that libfabric has for the transfer.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "raw_fabric.h"

static struct fabric_node node;
static struct fid_cq *send_cq, *recv_cq, *idle_cq;
static struct fid_ep *client, *server;
static struct fid_mr *mr;
static void *desc, *descs[4];
static char *read_only;
static char buffer[2 * SIZE];
static struct iovec pieces[4];

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
	desc = fi_mr_desc(mr);
	for (size_t i = 0; i < 4; i++) {
		pieces[i] = (struct iovec){ buffer + i * SIZE / 4, SIZE / 4 };
		descs[i] = desc;
	}
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

MEASURE measure_post_recv(void)
{
	for (uintptr_t i = 0; i < CALLS; i++)
		MUST(!fi_recv(server, buffer, SIZE, desc, 0, context_of(i)));
}

static inline void recv_pieces(size_t n)
{
	for (uintptr_t i = 0; i < CALLS; i++)
		MUST(!fi_recvv(server, pieces, descs, n, 0, context_of(i)));
}

static inline void send_all(size_t size)
{
	for (uintptr_t i = 0; i < CALLS; i++)
		MUST(!fi_send(client, buffer, size, desc, 0, context_of(i)));
}

static inline void send_pieces(size_t n)
{
	for (uintptr_t i = 0; i < CALLS; i++)
		MUST(!fi_sendv(client, pieces, descs, n, 0, context_of(i)));
}

/* Only the call that takes a whole message takes flags, which a write needs. */
static inline void rma_all(struct fi_msg_rma *message, struct iovec *iov, size_t n, size_t size,
			   bool write)
{
	struct fi_rma_iov remote = { .addr = (uintptr_t)buffer + SIZE,
				     .len = size,
				     .key = fi_mr_key(mr) };

	*message = (struct fi_msg_rma){ .msg_iov = iov,
					.desc = descs,
					.iov_count = n,
					.rma_iov = &remote,
					.rma_iov_count = 1 };
	for (uintptr_t i = 0; i < CALLS; i++) {
		message->context = context_of(i);
		if (write)
			MUST(!fi_writemsg(client, message, FABRIC_WRITE));
		else
			MUST(!fi_readmsg(client, message, FI_COMPLETION));
	}
}

#define WAY(name, call)                                                                            \
	MEASURE measure_##name(void)                                                               \
	{                                                                                          \
		static struct iovec whole = { buffer, SIZE }, small = { buffer, SMALL };           \
		static struct fi_msg_rma message;                                                  \
                                                                                                   \
		(void)whole, (void)small, (void)message;                                           \
		call;                                                                              \
	}

WAY(post_recv_two, recv_pieces(2))
WAY(post_recv_four, recv_pieces(4))
WAY(post_send, send_all(SIZE))
WAY(post_send_inline, send_all(SMALL))
WAY(post_send_two, send_pieces(2))
WAY(post_send_four, send_pieces(4))
WAY(post_rdma_write, rma_all(&message, &whole, 1, SIZE, true))
WAY(post_rdma_write_inline, rma_all(&message, &small, 1, SMALL, true))
WAY(post_rdma_write_two, rma_all(&message, pieces, 2, SIZE / 2, true))
WAY(post_rdma_write_four, rma_all(&message, pieces, 4, SIZE, true))
WAY(post_rdma_read, rma_all(&message, &whole, 1, SIZE, false))
WAY(post_rdma_read_two, rma_all(&message, pieces, 2, SIZE / 2, false))
WAY(post_rdma_read_four, rma_all(&message, pieces, 4, SIZE, false))

/* As in dat.c: one more request. */
static void post_write(void)
{
	struct iovec small = { buffer, SMALL };
	struct fi_rma_iov remote = { .addr = (uintptr_t)buffer + SIZE,
				     .len = SMALL,
				     .key = fi_mr_key(mr) };
	struct fi_msg_rma message = { .msg_iov = &small,
				      .desc = descs,
				      .iov_count = 1,
				      .rma_iov = &remote,
				      .rma_iov_count = 1 };

	MUST(!fi_writemsg(client, &message, FABRIC_WRITE));
}

static void request_turns(void (*measure)(void))
{
	for (int i = 0; i < TURNS; i++) {
		measure();
		post_write();
		take_completions(send_cq, CALLS + 1);
	}
}

static void send_turns(void (*measure_recv)(void), void (*measure_send)(void))
{
	for (int i = 0; i < TURNS; i++) {
		measure_recv();
		measure_send();
		post_write();
		take_completions(send_cq, CALLS + 1);
		take_completions(recv_cq, CALLS);
	}
}

static APART void recv_unmeasured(void)
{
	for (uintptr_t i = 0; i < CALLS; i++)
		MUST(!fi_recv(server, buffer, SIZE, desc, 0, context_of(i)));
}

/* libfabric gets its memory at the first transfers, and keeps it. */
static void warm_up(void)
{
	static struct iovec small = { buffer, SMALL };
	static struct fi_msg_rma message;

	for (int i = 0; i < TURNS; i++) {
		recv_unmeasured();
		send_all(SMALL);
		take_completions(send_cq, CALLS);
		take_completions(recv_cq, CALLS);
		rma_all(&message, &small, 1, SMALL, false);
		take_completions(send_cq, CALLS);
	}
}

static void measure_posts(void)
{
	send_turns(measure_post_recv, measure_post_send);
	send_turns(measure_post_recv_two, measure_post_send_two);
	send_turns(measure_post_recv_four, measure_post_send_four);
	send_turns(recv_unmeasured, measure_post_send_inline);
	request_turns(measure_post_rdma_write);
	request_turns(measure_post_rdma_write_inline);
	request_turns(measure_post_rdma_write_two);
	request_turns(measure_post_rdma_write_four);
	request_turns(measure_post_rdma_read);
	request_turns(measure_post_rdma_read_two);
	request_turns(measure_post_rdma_read_four);
}

/* ---- regions ---- */

/* What stands for a bind. Returns the region, which is not part of the figure. */
static APART struct fid_mr *measure_bind_emulated(void)
{
	struct fid_mr *region;

	MUST(!fi_mr_reg(node.domain, read_only, SIZE, FI_SEND | FI_WRITE | FI_REMOTE_READ, 0, 2, 0,
			&region, NULL));
	return region;
}

/*
 * What stands for the completion of a bind: the end of the region of the bind before. libfabric
 * completes nothing for it.
 */
static struct fid_mr *bound[CALLS];

MEASURE measure_dequeue_bind(void)
{
	for (int i = 0; i < CALLS; i++)
		MUST(!fi_close(&bound[i]->fid));
}

/* As of DAT, the keys are random. */
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

static void measure_completions(void)
{
	for (int i = 0; i < TURNS; i++) {
		recv_unmeasured();
		send_all(SIZE);
		messages_arrive(CALLS);
		measure_dequeue();
		measure_dequeue_nothing();
	}
	for (int i = 0; i < CALLS * TURNS; i++) {
		MUST(!fi_recv(server, buffer, SIZE, desc, 0, NULL));
		MUST(!fi_send(client, buffer, SIZE, desc, 0, NULL));
		messages_arrive(1);
		measure_wait();
	}
}

/* As in raw.c: with a second thread the C library's system calls cost a little more. */
static void *idle(void *arg)
{
	pause();
	return arg;
}

int main(void)
{
	pthread_t thread;

	MUST(!pthread_create(&thread, NULL, idle, NULL));
	open_all();
	warm_up();
	measure_posts();
	measure_completions();
	measure_regions();
	return 0;
}
