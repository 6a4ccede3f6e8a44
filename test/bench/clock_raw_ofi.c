/* SPDX-License-Identifier: BSD-2-Clause */
/* The protocols over libfabric's tcp. */
#include <string.h>

#include "clock.h"
#include "raw_fabric.h"

enum { CLIENT, SERVER, ENDS };

/* A domain, and what all connections over it share. */
static struct node {
	struct fabric_node fabric;
	struct fid_mr *mr; /* of memory */
	_Alignas(PAGE) char memory[MEMORY];
} nodes[ENDS];

struct queues {
	struct fid_cq *recv, *request;
	int recv_fd;
	size_t depth; /* of one endpoint */
};

struct end {
	struct fid_ep *ep;
	struct queues *queues;
	struct node *node;
};

struct pair {
	struct end client, server;
};

static uint64_t server_key; /* of the server's memory */

/* ---- opening ---- */

static void node_open(struct node *node, const char *address)
{
	fabric_open(&node->fabric, "tcp", address, node == &nodes[SERVER]);
	memset(node->memory, 1, MEMORY);
	node->mr = fabric_register(&node->fabric, node->memory, MEMORY, 1);
}

static void ends_open(void)
{
	peers_poll = true;
	node_open(&nodes[CLIENT], getenv(CLIENT_ADDR));
	node_open(&nodes[SERVER], getenv(SERVER_ADDR));
	server_key = fi_mr_key(nodes[SERVER].mr);
}

static void queues_open(struct queues queues[ENDS], unsigned endpoints)
{
	size_t depth = endpoints > 1 ? SMALL_DEPTH : DEPTH;

	for (int i = 0; i < ENDS; i++) {
		queues[i].recv = fabric_cq(&nodes[i].fabric, endpoints * depth);
		queues[i].request = fabric_cq(&nodes[i].fabric, endpoints * depth);
		queues[i].depth = depth;
		MUST(!fi_control(&queues[i].recv->fid, FI_GETWAIT, &queues[i].recv_fd));
	}
}

static void queues_close(struct queues queues[ENDS])
{
	for (int i = 0; i < ENDS; i++) {
		MUST(!fi_close(&queues[i].recv->fid));
		MUST(!fi_close(&queues[i].request->fid));
	}
}

/* ---- transfers ---- */

static inline void end_recv(struct end *end, size_t size)
{
	MUST(!fi_recv(end->ep, end->node->memory, size, fi_mr_desc(end->node->mr), 0, NULL));
}

static inline void end_send(struct end *end, size_t size)
{
	MUST(!fi_send(end->ep, end->node->memory, size, fi_mr_desc(end->node->mr), 0, NULL));
}

static inline void end_write(struct end *end, size_t size, void *at, uint64_t key)
{
	fabric_write(end->ep, end->node->memory, size, fi_mr_desc(end->node->mr), (uintptr_t)at,
		     key);
}

/* The write is to the server's memory. */
static inline void end_post_write(struct end *end, size_t size, uint64_t key)
{
	end_write(end, size, nodes[SERVER].memory, key);
}

static inline void end_write_to(struct end *end, const struct end *peer, size_t size)
{
	end_write(end, size, peer->node->memory + MEMORY / 2, fi_mr_key(peer->node->mr));
}

static inline bool end_poll_recv(struct end *end)
{
	return fabric_take(end->queues->recv);
}

static inline bool end_poll_request(struct end *end)
{
	return fabric_take(end->queues->request);
}

/* Nothing arrives unless a queue is read. */
static inline void end_progress(struct end *end)
{
	(void)end_poll_recv(end);
}

static void end_flushed_recv(struct end *end)
{
	struct fi_cq_err_entry failure = { 0 };
	struct fi_cq_msg_entry entry;
	ssize_t got;

	do
		got = fi_cq_read(end->queues->recv, &entry, 1);
	while (got == -FI_EAGAIN);
	MUST(got == -FI_EAVAIL && fi_cq_readerr(end->queues->recv, &failure, 0) == 1);
}

static inline void end_wait_recv(struct end *end)
{
	fabric_wait(&end->node->fabric, end->queues->recv, end->queues->recv_fd);
}

/* Makes what stands for a bind: a region of the first bytes of the server's memory. */
static inline uint64_t end_bind(struct end *end)
{
	static struct fid_mr *bound;

	if (bound)
		MUST(!fi_close(&bound->fid));
	bound = fabric_register(&end->node->fabric, end->node->memory, MESSAGE, 2);
	return fi_mr_key(bound);
}

static void memory_register(void)
{
	struct node *node = &nodes[SERVER];
	struct fid_mr *mr = fabric_register(&node->fabric, node->memory, BLOCK, 2);

	MUST(!fi_close(&mr->fid));
}

/*
 * ---- connections ----
 *
 * One thread drives both ends: it reads the event queues, and a completion queue for the end, in
 * turn, and never sleeps. A program with one end in each process could not do with less than a
 * sleep for each event, nor could one whose other threads need the processor. DAT's waits sleep.
 */

static void pair_create(struct pair *pair, struct queues queues[ENDS])
{
	struct fabric_node *client = &nodes[CLIENT].fabric, *server = &nodes[SERVER].fabric;
	struct fi_info *request;

	pair->client = (struct end){ .queues = &queues[CLIENT], .node = &nodes[CLIENT] };
	pair->server = (struct end){ .queues = &queues[SERVER], .node = &nodes[SERVER] };
	pair->client.ep = fabric_endpoint(client, client->info, queues[CLIENT].request,
					  queues[CLIENT].recv, queues[CLIENT].depth);
	fabric_connect(pair->client.ep, server);
	request = fabric_expect(server, FI_CONNREQ);
	pair->server.ep = fabric_endpoint(server, request, queues[SERVER].request,
					  queues[SERVER].recv, queues[SERVER].depth);
	MUST(!fi_accept(pair->server.ep, NULL, 0));
	fabric_expect(client, FI_CONNECTED);
	fabric_expect(server, FI_CONNECTED);
	fi_freeinfo(request);
}

/* libfabric knows no graceful disconnect. Who reads the queue of the server learns of the end. */
static void pair_disconnect(struct pair *pair, bool abrupt)
{
	struct fi_eq_cm_entry entry;
	uint32_t type;

	(void)abrupt;
	MUST(!fi_shutdown(pair->client.ep, 0));
	while (fi_eq_read(nodes[SERVER].fabric.eq, &type, &entry, sizeof(entry), 0) < 0)
		(void)fi_cq_read(pair->server.queues->request, NULL, 0);
	MUST(type == FI_SHUTDOWN);
	fabric_expect(&nodes[CLIENT].fabric, FI_SHUTDOWN);
}

static void pair_free(struct pair *pair)
{
	MUST(!fi_close(&pair->client.ep->fid));
	MUST(!fi_close(&pair->server.ep->fid));
}

#include "clock_protocols.h"

const struct clock_side clock_raw = {
	PROTOCOLS_OF_SIDE,
	.count = { [POLLED_ROUND] = count_polled_round,
		   [WAIT_READY] = count_wait_ready,
		   [WAIT_SLEEP] = count_wait_sleep,
		   [CNO_READY] = count_wait_ready,
		   [CNO_SLEEP] = count_wait_sleep },
};

bool raw_has_windows(void)
{
	return false;
}
