/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes that connect to each other over librdmacm. */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <string.h>

#include "connects.h"

#define TIME_LIMIT 2000 /* ms, of address and route resolution */

static struct process {
	unsigned rank, processes;
	struct sockaddr_in addr;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct ibv_pd *pd;
	struct ibv_cq *recv, *request;	       /* of the transfers of all endpoints */
	struct rdma_cm_id *ids[MAX_PROCESSES]; /* by the rank of the peer */
} self;

static struct sockaddr *address_of(unsigned rank, struct sockaddr_in *addr)
{
	*addr = self.addr;
	addr->sin_port = htons((uint16_t)(FIRST_PORT + rank));
	return (struct sockaddr *)addr;
}

static void process_open(unsigned rank, unsigned processes)
{
	int entries = (int)(DEPTH * processes);
	struct sockaddr_in addr;

	self.rank = rank;
	self.processes = processes;
	self.addr.sin_family = AF_INET;
	MUST(getenv(ADDR) && inet_pton(AF_INET, getenv(ADDR), &self.addr.sin_addr) == 1);
	self.channel = rdma_create_event_channel();
	MUST(self.channel);
	MUST(!rdma_create_id(self.channel, &self.listener, NULL, RDMA_PS_TCP));
	MUST(!rdma_bind_addr(self.listener, address_of(rank, &addr)));
	self.pd = ibv_alloc_pd(self.listener->verbs);
	MUST(self.pd);
	self.recv = ibv_create_cq(self.listener->verbs, entries, NULL, NULL, 0);
	self.request = ibv_create_cq(self.listener->verbs, entries, NULL, NULL, 0);
	MUST(self.recv && self.request);
	MUST(!rdma_listen(self.listener, (int)processes));
}

static void qp_create(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {
		.send_cq = self.request,
		.recv_cq = self.recv,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH,
			 .max_recv_wr = DEPTH,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};

	MUST(!rdma_create_qp(id, self.pd, &init));
}

static struct rdma_conn_param connection(void)
{
	return (struct rdma_conn_param){ .private_data = &self.rank,
					 .private_data_len = sizeof(self.rank),
					 .responder_resources = 4,
					 .initiator_depth = 4,
					 .retry_count = 7,
					 .rnr_retry_count = 7 };
}

static void ask(unsigned peer)
{
	struct sockaddr_in addr;

	MUST(!rdma_create_id(self.channel, &self.ids[peer], NULL, RDMA_PS_TCP));
	MUST(!rdma_resolve_addr(self.ids[peer], (struct sockaddr *)&self.addr,
				address_of(peer, &addr), TIME_LIMIT));
}

static void id_destroy(unsigned peer)
{
	if (self.ids[peer]->qp)
		rdma_destroy_qp(self.ids[peer]);
	MUST(!rdma_destroy_id(self.ids[peer]));
	self.ids[peer] = NULL;
}

static unsigned rank_in(const void *private_data)
{
	unsigned rank = *(const unsigned *)private_data;

	MUST(rank < self.processes && rank != self.rank);
	return rank;
}

static void answer(struct rdma_cm_id *id, unsigned peer)
{
	struct rdma_conn_param param = connection();

	MUST(peer < self.rank);
	if (self.ids[peer]) /* the peer has given up its last attempt */
		id_destroy(peer);
	self.ids[peer] = id;
	qp_create(id);
	MUST(!rdma_accept(id, &param));
}

static void request(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = connection();

	qp_create(id);
	MUST(!rdma_connect(id, &param));
}

static unsigned peer_of(const struct rdma_cm_id *id)
{
	unsigned peer = 0;

	while (self.ids[peer] != id)
		MUST(++peer < self.processes);
	return peer;
}

/* Asks again, or waits to be asked again. */
static void repeat(const struct rdma_cm_id *id)
{
	unsigned peer = peer_of(id);

	id_destroy(peer);
	if (peer > self.rank)
		ask(peer);
}

static unsigned process_connect(void)
{
	unsigned up = 0, repeated = 0;
	enum rdma_cm_event_type type;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	unsigned peer;

	for (peer = self.rank + 1; peer < self.processes; peer++)
		ask(peer);
	while (up < self.processes - 1) {
		MUST(!rdma_get_cm_event(self.channel, &event));
		type = event->event;
		id = event->id;
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
			peer = rank_in(event->param.conn.private_data);
		MUST(!rdma_ack_cm_event(event));
		switch (type) {
		case RDMA_CM_EVENT_ADDR_RESOLVED:
			MUST(!rdma_resolve_route(id, TIME_LIMIT));
			break;
		case RDMA_CM_EVENT_ROUTE_RESOLVED:
			request(id);
			break;
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			answer(id, peer);
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			up++;
			break;
		default:
			repeat(id);
			repeated++;
		}
	}
	return repeated;
}

const struct connects_side connects_raw = { .open = process_open, .connect = process_connect };
