/* SPDX-License-Identifier: BSD-2-Clause */
/* The protocols over DAT. dat.conf names the devices "client" and "server". */
#include <dat/udat.h>
#include <string.h>

#include "clock.h"

#define QUALIFIER 45778
#define FOREVER	  DAT_TIMEOUT_INFINITE

enum { CLIENT, SERVER, ENDS };

/* A device, and what all connections over it share. */
static struct node {
	DAT_IA_HANDLE ia;
	DAT_IA_ATTR attr;
	DAT_PZ_HANDLE pz;
	DAT_EVD_HANDLE async_evd, conn_evd, cr_evd;
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
	DAT_RMR_HANDLE rmr;
	_Alignas(PAGE) char memory[MEMORY];
} nodes[ENDS];

struct queues {
	DAT_EVD_HANDLE recv, request;
	DAT_COUNT depth; /* of one endpoint */
};

struct end {
	DAT_EP_HANDLE ep;
	struct queues *queues;
	struct node *node;
};

struct pair {
	struct end client, server;
};

static uint32_t server_key; /* of the server's memory */

/* ---- opening ---- */

static DAT_EVD_HANDLE node_create_evd(struct node *node, DAT_COUNT qlen, DAT_CNO_HANDLE cno,
				      DAT_EVD_FLAGS flags)
{
	DAT_EVD_HANDLE evd;

	MUST(!dat_evd_create(node->ia, qlen, cno, flags, &evd));
	return evd;
}

static void node_open(struct node *node, const char *name)
{
	DAT_REGION_DESCRIPTION region = { .for_va = node->memory };
	DAT_LMR_HANDLE lmr;

	MUST(!dat_ia_open((DAT_NAME_PTR)name, 8, &node->async_evd, &node->ia));
	MUST(!dat_ia_query(node->ia, NULL, DAT_IA_FIELD_ALL, &node->attr, 0, NULL));
	MUST(!dat_pz_create(node->ia, &node->pz));
	node->conn_evd = node_create_evd(node, 2 * MAX_ENDPOINTS, DAT_HANDLE_NULL,
					 DAT_EVD_CONNECTION_FLAG);
	node->cr_evd = node_create_evd(node, 16, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG);
	memset(node->memory, 1, MEMORY);
	MUST(!dat_lmr_create(node->ia, DAT_MEM_TYPE_VIRTUAL, region, MEMORY, node->pz,
			     DAT_MEM_PRIV_ALL_FLAG, &lmr, &node->lmr_context, &node->rmr_context,
			     NULL, NULL));
}

static void ends_open(void)
{
	struct node *server = &nodes[SERVER];
	DAT_PSP_HANDLE psp;

	node_open(&nodes[CLIENT], "client");
	node_open(server, "server");
	MUST(!dat_psp_create(server->ia, QUALIFIER, server->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	MUST(!dat_rmr_create(server->pz, &server->rmr));
	server_key = server->rmr_context;
}

static void queues_open(struct queues queues[ENDS], unsigned endpoints)
{
	DAT_COUNT depth = endpoints > 1 ? SMALL_DEPTH : DEPTH;
	DAT_COUNT qlen = (DAT_COUNT)endpoints * depth;

	for (int i = 0; i < ENDS; i++) {
		queues[i].recv = node_create_evd(&nodes[i], qlen, DAT_HANDLE_NULL,
						 DAT_EVD_DTO_FLAG);
		queues[i].request = node_create_evd(&nodes[i], qlen, DAT_HANDLE_NULL,
						    DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG);
		queues[i].depth = depth;
	}
}

static void queues_close(struct queues queues[ENDS])
{
	for (int i = 0; i < ENDS; i++) {
		MUST(!dat_evd_free(queues[i].recv));
		MUST(!dat_evd_free(queues[i].request));
	}
}

/* ---- transfers ---- */

static inline DAT_LMR_TRIPLET end_segment(const struct end *end, DAT_VLEN size)
{
	return (DAT_LMR_TRIPLET){ .lmr_context = end->node->lmr_context,
				  .virtual_address = (DAT_VADDR)(uintptr_t)end->node->memory,
				  .segment_length = size };
}

static inline void end_recv(struct end *end, DAT_VLEN size)
{
	DAT_LMR_TRIPLET segment = end_segment(end, size);

	MUST(!dat_ep_post_recv(end->ep, 1, &segment, (DAT_DTO_COOKIE){ 0 },
			       DAT_COMPLETION_DEFAULT_FLAG));
}

static inline void end_send(struct end *end, DAT_VLEN size)
{
	DAT_LMR_TRIPLET segment = end_segment(end, size);

	MUST(!dat_ep_post_send(end->ep, 1, &segment, (DAT_DTO_COOKIE){ 0 },
			       DAT_COMPLETION_DEFAULT_FLAG));
}

static inline void end_write(struct end *end, uint32_t size, void *at, uint32_t key)
{
	DAT_LMR_TRIPLET segment = end_segment(end, size);
	DAT_RMR_TRIPLET to = { .rmr_context = key,
			       .target_address = (DAT_VADDR)(uintptr_t)at,
			       .segment_length = size };

	MUST(!dat_ep_post_rdma_write(end->ep, 1, &segment, (DAT_DTO_COOKIE){ 0 }, &to,
				     DAT_COMPLETION_DEFAULT_FLAG));
}

/* To the server's memory. */
static inline void end_post_write(struct end *end, uint32_t size, uint32_t key)
{
	end_write(end, size, nodes[SERVER].memory, key);
}

static inline void end_write_to(struct end *end, const struct end *peer, uint32_t size)
{
	end_write(end, size, peer->node->memory + MEMORY / 2, peer->node->rmr_context);
}

/* The provider makes it. */
static inline void end_progress(struct end *end)
{
	(void)end;
}

static inline bool evd_take(DAT_EVD_HANDLE evd, DAT_DTO_COMPLETION_STATUS status)
{
	DAT_EVENT event;
	DAT_RETURN ret = dat_evd_dequeue(evd, &event);

	if (DAT_GET_TYPE(ret) == DAT_QUEUE_EMPTY)
		return false;
	MUST(!ret && event.event_number == DAT_DTO_COMPLETION_EVENT);
	MUST(event.event_data.dto_completion_event_data.status == status);
	return true;
}

static inline bool end_poll_recv(struct end *end)
{
	return evd_take(end->queues->recv, DAT_DTO_SUCCESS);
}

static inline bool end_poll_request(struct end *end)
{
	return evd_take(end->queues->request, DAT_DTO_SUCCESS);
}

static void end_flushed_recv(struct end *end)
{
	while (!evd_take(end->queues->recv, DAT_DTO_ERR_FLUSHED))
		;
}

static inline DAT_EVENT evd_expect(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number)
{
	DAT_EVENT event;
	DAT_COUNT more;

	MUST(!dat_evd_wait(evd, FOREVER, 1, &event, &more) && event.event_number == number);
	return event;
}

static inline void end_wait_recv(struct end *end)
{
	DAT_EVENT event = evd_expect(end->queues->recv, DAT_DTO_COMPLETION_EVENT);

	MUST(event.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS);
}

/* The first bytes of the server's memory. Returns the key when the bind has completed. */
static inline uint32_t end_bind(struct end *end)
{
	DAT_LMR_TRIPLET segment = end_segment(end, MESSAGE);
	DAT_RMR_CONTEXT key;
	DAT_EVENT event;

	MUST(!dat_rmr_bind(end->node->rmr, &segment,
			   DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG, end->ep,
			   (DAT_RMR_COOKIE){ 0 }, DAT_COMPLETION_DEFAULT_FLAG, &key));
	while (dat_evd_dequeue(end->queues->request, &event))
		;
	MUST(event.event_number == DAT_RMR_BIND_COMPLETION_EVENT);
	MUST(event.event_data.rmr_completion_event_data.status == DAT_RMR_BIND_SUCCESS);
	return key;
}

static void memory_register(void)
{
	struct node *node = &nodes[SERVER];
	DAT_REGION_DESCRIPTION region = { .for_va = node->memory };
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
	DAT_LMR_HANDLE lmr;

	MUST(!dat_lmr_create(node->ia, DAT_MEM_TYPE_VIRTUAL, region, BLOCK, node->pz,
			     DAT_MEM_PRIV_ALL_FLAG, &lmr, &lmr_context, &rmr_context, NULL, NULL));
	MUST(!dat_lmr_free(lmr));
}

/* ---- connections ---- */

static void end_create_ep(struct end *end)
{
	DAT_EP_ATTR attr = {
		.service_type = DAT_SERVICE_TYPE_RC,
		.max_message_size = MEMORY,
		.max_rdma_size = MEMORY,
		.max_recv_dtos = end->queues->depth,
		.max_request_dtos = end->queues->depth,
		.max_recv_iov = 1,
		.max_request_iov = 1,
		.max_rdma_read_in = 4,
		.max_rdma_read_out = 4,
	};

	MUST(!dat_ep_create(end->node->ia, end->node->pz, end->queues->recv, end->queues->request,
			    end->node->conn_evd, &attr, &end->ep));
}

static void pair_create(struct pair *pair, struct queues queues[ENDS])
{
	struct node *client = &nodes[CLIENT], *server = &nodes[SERVER];
	DAT_CR_HANDLE cr;

	pair->client = (struct end){ .queues = &queues[CLIENT], .node = client };
	pair->server = (struct end){ .queues = &queues[SERVER], .node = server };
	end_create_ep(&pair->client);
	MUST(!dat_ep_connect(pair->client.ep, server->attr.ia_address_ptr, QUALIFIER, FOREVER, 0,
			     NULL, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	cr = evd_expect(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
		     .event_data.cr_arrival_event_data.cr_handle;
	end_create_ep(&pair->server);
	MUST(!dat_cr_accept(cr, pair->server.ep, 0, NULL));
	evd_expect(client->conn_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	evd_expect(server->conn_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

static void pair_disconnect(struct pair *pair, bool abrupt)
{
	MUST(!dat_ep_disconnect(pair->client.ep,
				abrupt ? DAT_CLOSE_ABRUPT_FLAG : DAT_CLOSE_GRACEFUL_FLAG));
	evd_expect(nodes[SERVER].conn_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	evd_expect(nodes[CLIENT].conn_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

static void pair_free(struct pair *pair)
{
	MUST(!dat_ep_free(pair->client.ep));
	MUST(!dat_ep_free(pair->server.ep));
}

#include "clock_protocols.h"

/* ---- a CNO ---- */

static DAT_CNO_HANDLE cno;
static struct pair cno_pair; /* the server's receives trigger the CNO */

static void cno_open(void)
{
	if (cno)
		return;
	pair_open(&cno_pair);
	MUST(!dat_cno_create(nodes[SERVER].ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	MUST(!dat_evd_modify_cno(cno_pair.server.queues->recv, cno));
	end_post_recv(&cno_pair.server);
}

/* Takes the event, too, as a consumer does. */
static void cno_wait_recv(enum counted row)
{
	struct end *end = &cno_pair.server;
	DAT_EVD_HANDLE evd;

	mark_calls(row);
	MUST(!dat_cno_wait(cno, FOREVER, &evd) && evd == end->queues->recv);
	MUST(end_poll_recv(end));
	mark_calls(NOT_COUNTED);
	end_post_recv(end);
}

static void count_cno_ready(void)
{
	cno_open();
	message_for_waiter(&cno_pair.client);
	cno_wait_recv(CNO_READY);
}

static void *cno_asleep(void *arg)
{
	cno_wait_recv(CNO_SLEEP);
	return arg;
}

static void count_cno_sleep(void)
{
	pthread_t thread;

	cno_open();
	MUST(!pthread_create(&thread, NULL, cno_asleep, NULL));
	mark_await_sleep(CNO_SLEEP);
	message_for_waiter(&cno_pair.client);
	MUST(!pthread_join(thread, NULL));
}

const struct clock_side clock_dat = {
	PROTOCOLS_OF_SIDE,
	.count = { [POLLED_ROUND] = count_polled_round,
		   [WAIT_READY] = count_wait_ready,
		   [WAIT_SLEEP] = count_wait_sleep,
		   [CNO_READY] = count_cno_ready,
		   [CNO_SLEEP] = count_cno_sleep },
};
