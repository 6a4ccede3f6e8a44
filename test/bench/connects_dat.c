/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes that connect to each other over DAT. dat.conf names the device "server". */
#include <dat/udat.h>

#include "connects.h"

static struct process {
	unsigned rank, processes;
	DAT_IA_HANDLE ia;
	DAT_IA_ATTR attr;
	DAT_PZ_HANDLE pz;
	DAT_EVD_HANDLE evd;		  /* of requests and connections */
	DAT_EVD_HANDLE recv, request;	  /* of the transfers of all endpoints */
	DAT_EP_HANDLE eps[MAX_PROCESSES]; /* by the rank of the peer */
} self;

static DAT_EVD_HANDLE evd_create(unsigned qlen, DAT_EVD_FLAGS flags)
{
	DAT_EVD_HANDLE evd;

	MUST(!dat_evd_create(self.ia, (DAT_COUNT)qlen, DAT_HANDLE_NULL, flags, &evd));
	return evd;
}

static void process_open(unsigned rank, unsigned processes)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_PSP_HANDLE psp;

	self.rank = rank;
	self.processes = processes;
	MUST(!dat_ia_open((DAT_NAME_PTR) "server", 8, &async, &self.ia));
	MUST(!dat_ia_query(self.ia, NULL, DAT_IA_FIELD_ALL, &self.attr, 0, NULL));
	MUST(!dat_pz_create(self.ia, &self.pz));
	self.evd = evd_create(4 * processes, DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG);
	self.recv = evd_create(DEPTH * processes, DAT_EVD_DTO_FLAG);
	self.request = evd_create(DEPTH * processes, DAT_EVD_DTO_FLAG);
	MUST(!dat_psp_create(self.ia, FIRST_PORT + rank, self.evd, DAT_PSP_CONSUMER_FLAG, &psp));
}

static void ep_create(unsigned peer)
{
	DAT_EP_ATTR attr = {
		.service_type = DAT_SERVICE_TYPE_RC,
		.max_message_size = 65536,
		.max_rdma_size = 65536,
		.max_recv_dtos = DEPTH,
		.max_request_dtos = DEPTH,
		.max_recv_iov = 1,
		.max_request_iov = 1,
		.max_rdma_read_in = 4,
		.max_rdma_read_out = 4,
	};

	MUST(!dat_ep_create(self.ia, self.pz, self.recv, self.request, self.evd, &attr,
			    &self.eps[peer]));
}

static void ask(unsigned peer)
{
	ep_create(peer);
	MUST(!dat_ep_connect(self.eps[peer], self.attr.ia_address_ptr, FIRST_PORT + peer,
			     PATIENCE * 1000000, sizeof(self.rank), &self.rank, DAT_QOS_BEST_EFFORT,
			     DAT_CONNECT_DEFAULT_FLAG));
}

static unsigned rank_in(const void *private_data)
{
	unsigned rank = *(const unsigned *)private_data;

	MUST(rank < self.processes && rank != self.rank);
	return rank;
}

static void answer(DAT_CR_HANDLE cr)
{
	DAT_CR_PARAM param;
	unsigned peer;

	MUST(!dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
	peer = rank_in(param.private_data);
	MUST(peer < self.rank);
	if (self.eps[peer]) /* the peer has given up its last attempt */
		MUST(!dat_ep_free(self.eps[peer]));
	ep_create(peer);
	MUST(!dat_cr_accept(cr, self.eps[peer], sizeof(self.rank), &self.rank));
}

static unsigned peer_of(DAT_EP_HANDLE ep)
{
	unsigned peer = 0;

	while (self.eps[peer] != ep)
		MUST(++peer < self.processes);
	return peer;
}

static void check_established(const DAT_CONNECTION_EVENT_DATA *data)
{
	unsigned peer = peer_of(data->ep_handle);

	if (peer > self.rank)
		MUST(rank_in(data->private_data) == peer);
}

/* Asks again, or waits to be asked again. */
static void repeat(DAT_EP_HANDLE ep)
{
	unsigned peer = peer_of(ep);

	MUST(!dat_ep_free(ep));
	self.eps[peer] = DAT_HANDLE_NULL;
	if (peer > self.rank)
		ask(peer);
}

static unsigned process_connect(void)
{
	unsigned up = 0, repeated = 0;
	DAT_COUNT more;
	DAT_EVENT event;

	for (unsigned peer = self.rank + 1; peer < self.processes; peer++)
		ask(peer);
	while (up < self.processes - 1) {
		MUST(!dat_evd_wait(self.evd, DAT_TIMEOUT_INFINITE, 1, &event, &more));
		switch (event.event_number) {
		case DAT_CONNECTION_REQUEST_EVENT:
			answer(event.event_data.cr_arrival_event_data.cr_handle);
			break;
		case DAT_CONNECTION_EVENT_ESTABLISHED:
			check_established(&event.event_data.connect_event_data);
			up++;
			break;
		default:
			repeat(event.event_data.connect_event_data.ep_handle);
			repeated++;
		}
	}
	return repeated;
}

const struct connects_side connects_dat = { .open = process_open, .connect = process_connect };
