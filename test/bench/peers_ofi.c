/* SPDX-License-Identifier: BSD-2-Clause */
/* A program of libfabric's tcp: messages, and RDMA writes that complete when they are placed. */
#include <string.h>

#include "peers.h"
#include "raw_fabric.h"

#define RECEIVES 4 /* posted at any time, all of the same memory */

/* What the client must know of the server. */
struct greeting {
	char address[64];
	uint64_t memory, key;
};

static struct {
	struct fabric_node node;
	struct fid_cq *recv, *request;
	int recv_fd, request_fd;
	struct fid_ep *ep;
	struct fid_mr *mr;
	struct greeting peer;
	void (*await)(struct fabric_node *node, struct fid_cq *cq, int fd);
} end;
static _Alignas(PAGE) char memory[LARGEST];

static void receive_post(void)
{
	MUST(!fi_recv(end.ep, memory, LARGEST, fi_mr_desc(end.mr), 0, NULL));
}

static void queues_open(void)
{
	end.recv = fabric_cq(&end.node, 2 * AHEAD);
	end.request = fabric_cq(&end.node, 2 * AHEAD);
	MUST(!fi_control(&end.recv->fid, FI_GETWAIT, &end.recv_fd));
	MUST(!fi_control(&end.request->fid, FI_GETWAIT, &end.request_fd));
}

static void endpoint_create(struct fi_info *info)
{
	end.ep = fabric_endpoint(&end.node, info, end.request, end.recv, 2 * AHEAD);
	for (int i = 0; i < RECEIVES; i++)
		receive_post();
}

static void peer_accept(int channel)
{
	struct greeting own = { .memory = (uintptr_t)memory, .key = fi_mr_key(end.mr) };
	size_t size = sizeof(own.address);
	struct fi_info *request;

	MUST(!fi_getname(&end.node.listener->fid, own.address, &size));
	channel_send(channel, &own, sizeof(own));
	request = fabric_expect(&end.node, FI_CONNREQ);
	endpoint_create(request);
	MUST(!fi_accept(end.ep, NULL, 0));
	fi_freeinfo(request);
}

static void peer_connect(int channel)
{
	channel_receive(channel, &end.peer, sizeof(end.peer));
	endpoint_create(end.node.info);
	MUST(!fi_connect(end.ep, end.peer.address, NULL, 0));
}

static void ends_open(bool server, int channel, bool polls)
{
	memset(memory, 1, sizeof(memory));
	end.await = polls ? fabric_poll : fabric_wait;
	fabric_open(&end.node, "tcp", getenv(server ? SERVER_ADDR : CLIENT_ADDR), server);
	end.mr = fabric_register(&end.node, memory, sizeof(memory), 1);
	queues_open();
	(server ? peer_accept : peer_connect)(channel);
	fabric_expect(&end.node, FI_CONNECTED);
}

static void message_send(size_t bytes)
{
	MUST(!fi_send(end.ep, memory, bytes, fi_mr_desc(end.mr), 0, NULL));
}

/* The queue has the message of the peer. */
static void message_receive(size_t bytes)
{
	(void)bytes;
	end.await(&end.node, end.recv, end.recv_fd);
}

static void request_await(void)
{
	end.await(&end.node, end.request, end.request_fd);
}

static void message_settle(void)
{
	receive_post();
	request_await();
}

static void writes_post(size_t bytes, unsigned count)
{
	unsigned posted = 0;

	for (unsigned done = 0; done < count; done++) {
		for (; posted < count && posted - done < AHEAD; posted++)
			fabric_write(end.ep, memory, bytes, fi_mr_desc(end.mr), end.peer.memory,
				     end.peer.key);
		request_await();
	}
}

/* The server learns nothing of writes; that it awaits the message behind them lets them arrive. */
static void writes_take(size_t bytes, unsigned count)
{
	(void)bytes;
	(void)count;
}

const struct peers_side peers_fabric = {
	.open = ends_open,
	.send = message_send,
	.receive = message_receive,
	.settle = message_settle,
	.write = writes_post,
	.take_writes = writes_take,
};
