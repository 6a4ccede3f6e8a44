/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * More rows of scale.c, for DAT 2.0: endpoints of datagrams whose peers are many. There are two
 * endpoints; each exchange of address handles is a peer of both. The last row is no time, but the
 * memory that a peer takes, on both sides and in the transport, in bytes.
 */
#include <dat2/dat_ib_extensions.h>
#include <dat2/udat.h>
#include <malloc.h>
#include <string.h>

#include "scale.h"

#define QUALIFIER 45781
#define FOREVER	  DAT_TIMEOUT_INFINITE
#define MAX_PEERS 10000
#define HEADER	  40 /* bytes of the network, before a message */
#define LENGTH	  64

static DAT_IA_HANDLE ia;
static DAT_PZ_HANDLE pz;
static DAT_EVD_HANDLE async_evd, cr_evd, conn_evd, recv_evd, request_evd;
static DAT_IA_ADDRESS_PTR address;
static DAT_LMR_CONTEXT context;
static char memory[HEADER + LENGTH];

/* What one side has of a peer. */
struct way {
	DAT_IB_ADDR_HANDLE ah;
	DAT_CONTEXT context;
};

static DAT_EVENT event_expect(DAT_EVD_HANDLE evd, int number)
{
	DAT_EVENT event;
	DAT_COUNT more;

	MUST(!dat_evd_wait(evd, FOREVER, 1, &event, &more) && (int)event.event_number == number);
	return event;
}

static DAT_EVD_HANDLE evd_make(DAT_EVD_FLAGS flags)
{
	DAT_EVD_HANDLE evd;

	MUST(!dat_evd_create(ia, 64, DAT_HANDLE_NULL, flags, &evd));
	return evd;
}

static void ia_open_all(void)
{
	static DAT_IA_ATTR attr;
	const DAT_REGION_DESCRIPTION region = { .for_va = memory };
	DAT_LMR_HANDLE lmr;
	DAT_PSP_HANDLE psp;

	async_evd = DAT_HANDLE_NULL;
	MUST(!dat_ia_open("scale2", 8, &async_evd, &ia));
	MUST(!dat_ia_query(ia, NULL, DAT_IA_FIELD_ALL, &attr, 0, NULL));
	address = attr.ia_address_ptr;
	MUST(!dat_pz_create(ia, &pz));
	cr_evd = evd_make(DAT_EVD_CR_FLAG);
	conn_evd = evd_make(DAT_EVD_CONNECTION_FLAG);
	recv_evd = evd_make(DAT_EVD_DTO_FLAG);
	request_evd = evd_make(DAT_EVD_DTO_FLAG);
	MUST(!dat_psp_create(ia, QUALIFIER, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	MUST(!dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof(memory), pz,
			     DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr, &context, NULL, NULL,
			     NULL));
}

static DAT_EP_HANDLE datagram_ep(void)
{
	const DAT_EP_ATTR attr = {
		.service_type = (DAT_SERVICE_TYPE)DAT_IB_SERVICE_TYPE_UD,
		.max_recv_dtos = 2,
		.max_request_dtos = 2,
		.max_recv_iov = 1,
		.max_request_iov = 1,
	};
	DAT_EP_HANDLE ep;

	MUST(!dat_ep_create(ia, pz, recv_evd, request_evd, conn_evd, &attr, &ep));
	return ep;
}

/* ways[0] is of the side that asks, ways[1] of the other one. */
static void meet_one(const DAT_EP_HANDLE eps[2], struct way ways[2])
{
	DAT_CR_HANDLE cr;

	MUST(!dat_ep_connect(eps[0], address, QUALIFIER, FOREVER, 0, NULL, DAT_QOS_BEST_EFFORT,
			     DAT_CONNECT_DEFAULT_FLAG));
	cr = event_expect(cr_evd, DAT_IB_UD_CONNECTION_REQUEST_EVENT)
		     .event_data.cr_arrival_event_data.cr_handle;
	MUST(!dat_cr_accept(cr, eps[1], 0, NULL));
	for (int i = 0; i < 2; i++) {
		const DAT_EVENT event = event_expect(conn_evd,
						     DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED);
		DAT_IB_EXTENSION_EVENT_DATA found;

		memcpy(&found, event.event_extension_data, sizeof(found));
		ways[found.type == DAT_IB_UD_PASSIVE_REMOTE_AH] = (struct way){ found.remote_ah,
										found.context };
	}
}

static void message_one(const DAT_EP_HANDLE eps[2], struct way *way)
{
	DAT_LMR_TRIPLET to = { (uintptr_t)memory, sizeof(memory), context };
	DAT_LMR_TRIPLET from = { (uintptr_t)memory + HEADER, LENGTH, context };
	const DAT_DTO_COOKIE cookie = { 0 };

	MUST(!dat_ep_post_recv(eps[1], 1, &to, cookie, DAT_COMPLETION_DEFAULT_FLAG));
	MUST(!dat_ib_post_send_ud(eps[0], 1, &from, &way->ah, cookie, DAT_COMPLETION_DEFAULT_FLAG));
	event_expect(recv_evd, DAT_IB_DTO_EVENT);
	event_expect(request_evd, DAT_IB_DTO_EVENT);
}

static void part_one(const DAT_EP_HANDLE eps[2], struct way ways[2])
{
	for (int i = 0; i < 2; i++) {
		MUST(!dat_ib_ud_cm_free(eps[i], ways[i].context));
		MUST(!dat_ib_ud_ah_free(eps[i], &ways[i].ah));
	}
}

enum peer_step { MEET, MESSAGE, PART, PEER_MEMORY, PEER_STEPS };

static size_t heap_used(void)
{
	const struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static void peers_measure(unsigned n, struct cell *cells[PEER_STEPS])
{
	const DAT_EP_HANDLE eps[2] = { datagram_ep(), datagram_ep() };
	struct way(*ways)[2] = calloc(n, sizeof(*ways));
	size_t before = heap_used();

	MUST(ways);
	cell_begin(cells[MEET]);
	for (unsigned i = 0; i < n; i++)
		meet_one(eps, ways[i]);
	cell_end(cells[MEET], n);
	if (!cells[PEER_MEMORY]->us) /* the first time: objects that were freed are used again */
		cells[PEER_MEMORY]->us = (double)(heap_used() - before) / n;
	cell_begin(cells[MESSAGE]);
	for (unsigned i = 0; i < n; i++)
		message_one(eps, ways[i]);
	cell_end(cells[MESSAGE], n);
	cell_begin(cells[PART]);
	for (unsigned i = n; i--;)
		part_one(eps, ways[i]);
	cell_end(cells[PART], n);
	MUST(!dat_ep_free(eps[0]) && !dat_ep_free(eps[1]));
	free(ways);
}

int main(void)
{
	static const char *const names[PEER_STEPS] = {
		"datagrams: two endpoints meet",
		"a message, to each peer in turn",
		"give the peer up, on both sides",
		"memory of a peer, both sides: bytes",
	};
	struct cell cells[PEER_STEPS][COLUMNS] = { 0 };

	for (int i = 0; i < COLUMNS && columns[i] <= MAX_PEERS; i++) {
		struct cell *column[PEER_STEPS];

		/* a process's objects stay with the IA, so each column has its own */
		ia_open_all();
		for (int step = 0; step < PEER_STEPS; step++)
			column[step] = &cells[step][i];
		for (unsigned r = repetitions(columns[i]); r; r--)
			peers_measure(columns[i], column);
		MUST(!dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
	}
	for (int step = 0; step < PEER_STEPS; step++)
		row_print(names[step], cells[step]);
	return 0;
}
