/* SPDX-License-Identifier: BSD-2-Clause */
/* The protocols over libibverbs and librdmacm. */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "clock.h"

#define PORT	   45779
#define TIME_LIMIT 2000 /* ms, of address and route resolution */

enum { CLIENT, SERVER, ENDS };

/* A device, and what all connections over it share. */
static struct node {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id; /* bound to the address; the server's listens */
	struct sockaddr_in addr;
	struct ibv_pd *pd;
	struct ibv_mr *mr; /* of memory */
	struct ibv_mw *mw;
	_Alignas(PAGE) char memory[MEMORY];
} nodes[ENDS];

struct queues {
	struct ibv_comp_channel *channel; /* of recv */
	struct ibv_cq *recv, *request;
	unsigned depth; /* of one endpoint */
};

struct end {
	struct rdma_cm_id *id;
	struct queues *queues;
	struct node *node;
};

struct pair {
	struct end client, server;
};

static uint32_t server_key; /* of the server's memory */

/* ---- opening ---- */

static void node_open(struct node *node, const char *addr)
{
	MUST(addr && inet_pton(AF_INET, addr, &node->addr.sin_addr) == 1);
	node->addr.sin_family = AF_INET;
	node->channel = rdma_create_event_channel();
	MUST(node->channel);
	MUST(!rdma_create_id(node->channel, &node->id, NULL, RDMA_PS_TCP));
	node->addr.sin_port = htons(node == &nodes[SERVER] ? PORT : 0);
	MUST(!rdma_bind_addr(node->id, (struct sockaddr *)&node->addr));
	node->pd = ibv_alloc_pd(node->id->verbs);
	MUST(node->pd);
	memset(node->memory, 1, MEMORY);
	node->mr = ibv_reg_mr(node->pd, node->memory, MEMORY,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND);
	MUST(node->mr);
}

static void ends_open(void)
{
	struct node *server = &nodes[SERVER];

	node_open(&nodes[CLIENT], getenv(CLIENT_ADDR));
	node_open(server, getenv(SERVER_ADDR));
	MUST(!rdma_listen(server->id, 16));
	server->mw = ibv_alloc_mw(server->pd, IBV_MW_TYPE_1); /* NULL: the device has none */
	server_key = server->mr->rkey;
}

static void queues_open(struct queues queues[ENDS], unsigned endpoints)
{
	unsigned depth = endpoints > 1 ? SMALL_DEPTH : DEPTH;
	int entries = (int)(endpoints * depth);

	for (int i = 0; i < ENDS; i++) {
		struct ibv_context *verbs = nodes[i].id->verbs;

		queues[i].channel = ibv_create_comp_channel(verbs);
		MUST(queues[i].channel);
		queues[i].recv = ibv_create_cq(verbs, entries, NULL, queues[i].channel, 0);
		queues[i].request = ibv_create_cq(verbs, entries, NULL, NULL, 0);
		queues[i].depth = depth;
		MUST(queues[i].recv && queues[i].request);
	}
}

static void queues_close(struct queues queues[ENDS])
{
	for (int i = 0; i < ENDS; i++) {
		MUST(!ibv_destroy_cq(queues[i].recv));
		MUST(!ibv_destroy_cq(queues[i].request));
		MUST(!ibv_destroy_comp_channel(queues[i].channel));
	}
}

/* ---- transfers ---- */

static inline void end_recv(struct end *end, uint32_t size)
{
	struct ibv_sge sge = { .addr = (uintptr_t)end->node->memory,
			       .length = size,
			       .lkey = end->node->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	MUST(!ibv_post_recv(end->id->qp, &wr, &bad));
}

static inline void end_send(struct end *end, uint32_t size)
{
	struct ibv_sge sge = { .addr = (uintptr_t)end->node->memory,
			       .length = size,
			       .lkey = end->node->mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_SIGNALED };

	if (size <= MESSAGE)
		wr.send_flags |= IBV_SEND_INLINE;
	MUST(!ibv_post_send(end->id->qp, &wr, &bad));
}

static inline void end_write(struct end *end, uint32_t size, void *at, uint32_t key)
{
	struct ibv_sge sge = { .addr = (uintptr_t)end->node->memory,
			       .length = size,
			       .lkey = end->node->mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_SIGNALED };

	if (size <= MESSAGE)
		wr.send_flags |= IBV_SEND_INLINE;
	wr.wr.rdma.remote_addr = (uintptr_t)at;
	wr.wr.rdma.rkey = key;
	MUST(!ibv_post_send(end->id->qp, &wr, &bad));
}

/* The write is to the server's memory. */
static inline void end_post_write(struct end *end, uint32_t size, uint32_t key)
{
	end_write(end, size, nodes[SERVER].memory, key);
}

static inline void end_write_to(struct end *end, const struct end *peer, uint32_t size)
{
	end_write(end, size, peer->node->memory + MEMORY / 2, peer->node->mr->rkey);
}

/* The device makes progress by itself. */
static inline void end_progress(struct end *end)
{
	(void)end;
}

static inline bool cq_take(struct ibv_cq *cq, enum ibv_wc_status status)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(cq, 1, &wc);

	MUST(n >= 0 && (!n || wc.status == status));
	return n;
}

static inline bool end_poll_recv(struct end *end)
{
	return cq_take(end->queues->recv, IBV_WC_SUCCESS);
}

static inline bool end_poll_request(struct end *end)
{
	return cq_take(end->queues->request, IBV_WC_SUCCESS);
}

static void end_flushed_recv(struct end *end)
{
	while (!cq_take(end->queues->recv, IBV_WC_WR_FLUSH_ERR))
		;
}

static inline void end_wait_recv(struct end *end)
{
	struct ibv_cq *cq;
	void *context;

	while (!end_poll_recv(end)) {
		MUST(!ibv_req_notify_cq(end->queues->recv, 0));
		if (end_poll_recv(end))
			return;
		MUST(!ibv_get_cq_event(end->queues->channel, &cq, &context));
		ibv_ack_cq_events(cq, 1);
	}
}

/* Binds the first bytes of the server's memory. Returns the key when the bind has completed. */
static inline uint32_t end_bind(struct end *end)
{
	struct ibv_mw *mw = end->node->mw;
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = end->node->mr,
			       .addr = (uintptr_t)end->node->memory,
			       .length = MESSAGE,
			       .mw_access_flags = IBV_ACCESS_REMOTE_READ |
						  IBV_ACCESS_REMOTE_WRITE },
	};

	MUST(!ibv_bind_mw(end->id->qp, mw, &bind));
	while (!end_poll_request(end))
		;
	return mw->rkey;
}

static void memory_register(void)
{
	struct node *node = &nodes[SERVER];
	struct ibv_mr *mr = ibv_reg_mr(node->pd, node->memory, BLOCK,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					       IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND);

	MUST(mr);
	MUST(!ibv_dereg_mr(mr));
}

/* ---- connections ---- */

/* Returns the identifier that the event is about. */
static struct rdma_cm_id *cm_expect(struct node *node, enum rdma_cm_event_type type)
{
	enum rdma_cm_event_type got;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	do { /* of a connection that ended some seconds ago */
		MUST(!rdma_get_cm_event(node->channel, &event));
		got = event->event;
		id = event->id;
		MUST(!rdma_ack_cm_event(event));
	} while (got == RDMA_CM_EVENT_TIMEWAIT_EXIT);
	MUST(got == type);
	return id;
}

static void end_create_qp(struct end *end)
{
	struct ibv_qp_init_attr init = {
		.send_cq = end->queues->request,
		.recv_cq = end->queues->recv,
		.cap = { .max_send_wr = end->queues->depth,
			 .max_recv_wr = end->queues->depth,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = MESSAGE },
		.qp_type = IBV_QPT_RC,
	};

	MUST(!rdma_create_qp(end->id, end->node->pd, &init));
}

static void pair_create(struct pair *pair, struct queues queues[ENDS])
{
	struct node *client = &nodes[CLIENT], *server = &nodes[SERVER];
	struct rdma_conn_param param = { .responder_resources = 4,
					 .initiator_depth = 4,
					 .retry_count = 6,
					 .rnr_retry_count = 7 };

	pair->client = (struct end){ .queues = &queues[CLIENT], .node = client };
	pair->server = (struct end){ .queues = &queues[SERVER], .node = server };
	MUST(!rdma_create_id(client->channel, &pair->client.id, NULL, RDMA_PS_TCP));
	MUST(!rdma_resolve_addr(pair->client.id, (struct sockaddr *)&client->addr,
				(struct sockaddr *)&server->addr, TIME_LIMIT));
	cm_expect(client, RDMA_CM_EVENT_ADDR_RESOLVED);
	MUST(!rdma_resolve_route(pair->client.id, TIME_LIMIT));
	cm_expect(client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	end_create_qp(&pair->client);
	MUST(!rdma_connect(pair->client.id, &param));
	pair->server.id = cm_expect(server, RDMA_CM_EVENT_CONNECT_REQUEST);
	end_create_qp(&pair->server);
	MUST(!rdma_accept(pair->server.id, &param));
	cm_expect(client, RDMA_CM_EVENT_ESTABLISHED);
	cm_expect(server, RDMA_CM_EVENT_ESTABLISHED);
}

/* Verbs know no graceful disconnect: nothing is outstanding. The answer tells the client. */
static void pair_disconnect(struct pair *pair, bool abrupt)
{
	(void)abrupt;
	MUST(!rdma_disconnect(pair->client.id));
	cm_expect(&nodes[SERVER], RDMA_CM_EVENT_DISCONNECTED);
	MUST(!rdma_disconnect(pair->server.id));
	cm_expect(&nodes[CLIENT], RDMA_CM_EVENT_DISCONNECTED);
}

static void pair_free(struct pair *pair)
{
	rdma_destroy_qp(pair->client.id);
	MUST(!rdma_destroy_id(pair->client.id));
	rdma_destroy_qp(pair->server.id);
	MUST(!rdma_destroy_id(pair->server.id));
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
	return nodes[SERVER].mw;
}
