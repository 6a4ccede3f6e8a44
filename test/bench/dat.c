/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of DAT: two connected endpoints of one IA make the same transfers as raw.c. */
#include <dat/udat.h>

#include "bench.h"

#define QUALIFIER 45777
#define FOREVER	  DAT_TIMEOUT_INFINITE

static DAT_IA_HANDLE ia;
static DAT_PZ_HANDLE pz;
static DAT_EVD_HANDLE async_evd, cr_evd, conn_evd, send_evd, recv_evd, idle_evd;
static DAT_EP_HANDLE client, server;
static DAT_RMR_HANDLE rmr;
static DAT_LMR_TRIPLET local;
static DAT_LMR_CONTEXT other_context; /* of another region of the same memory */
static DAT_RMR_TRIPLET remote;
static char buffer[2 * SIZE];

static DAT_EP_HANDLE bench_ep(DAT_EVD_HANDLE recv)
{
	DAT_EP_ATTR attr = {
		.service_type = DAT_SERVICE_TYPE_RC,
		.max_message_size = 65536,
		.max_rdma_size = 65536,
		.max_recv_dtos = 2 * CALLS,
		.max_request_dtos = 2 * CALLS,
		.max_recv_iov = 4,
		.max_request_iov = 4,
		.max_rdma_read_in = 4,
		.max_rdma_read_out = 4,
	};
	DAT_EP_HANDLE ep;

	MUST(dat_ep_create(ia, pz, recv, send_evd, conn_evd, &attr, &ep) == DAT_SUCCESS);
	return ep;
}

static DAT_EVENT bench_wait(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number)
{
	DAT_EVENT event;
	DAT_COUNT more;

	MUST(dat_evd_wait(evd, FOREVER, 1, &event, &more) == DAT_SUCCESS);
	MUST(event.event_number == number);
	return event;
}

static void connect_client(void)
{
	DAT_PSP_HANDLE psp;
	DAT_IA_ATTR attr;
	DAT_EVENT event;

	MUST(dat_psp_create(ia, QUALIFIER, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp) == DAT_SUCCESS);
	MUST(dat_ia_query(ia, NULL, DAT_IA_FIELD_IA_ADDRESS_PTR, &attr, 0, NULL) == DAT_SUCCESS);
	MUST(dat_ep_connect(client, attr.ia_address_ptr, QUALIFIER, FOREVER, 0, NULL,
			    DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG) == DAT_SUCCESS);
	event = bench_wait(cr_evd, DAT_CONNECTION_REQUEST_EVENT);
	MUST(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, server, 0, NULL) ==
	     DAT_SUCCESS);
	bench_wait(conn_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	bench_wait(conn_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

static DAT_EVD_HANDLE bench_evd(DAT_EVD_FLAGS flags)
{
	DAT_EVD_HANDLE evd;

	MUST(dat_evd_create(ia, 4 * CALLS, DAT_HANDLE_NULL, flags, &evd) == DAT_SUCCESS);
	return evd;
}

static void open_all(const char *name)
{
	DAT_REGION_DESCRIPTION region = { .for_va = buffer };
	DAT_LMR_HANDLE lmr;

	MUST(dat_ia_open((DAT_NAME_PTR)name, 8, &async_evd, &ia) == DAT_SUCCESS);
	MUST(dat_pz_create(ia, &pz) == DAT_SUCCESS);
	cr_evd = bench_evd(DAT_EVD_CR_FLAG);
	conn_evd = bench_evd(DAT_EVD_CONNECTION_FLAG);
	send_evd = bench_evd(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG);
	recv_evd = bench_evd(DAT_EVD_DTO_FLAG);
	idle_evd = bench_evd(DAT_EVD_DTO_FLAG);
	MUST(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof(buffer), pz,
			    DAT_MEM_PRIV_ALL_FLAG, &lmr, &local.lmr_context, &remote.rmr_context,
			    NULL, NULL) == DAT_SUCCESS);
	MUST(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof(buffer), pz,
			    DAT_MEM_PRIV_ALL_FLAG, &lmr, &other_context, NULL, NULL,
			    NULL) == DAT_SUCCESS);
	local.virtual_address = (DAT_VADDR)(uintptr_t)buffer;
	local.segment_length = SIZE;
	remote.target_address = (DAT_VADDR)(uintptr_t)buffer + SIZE;
	remote.segment_length = SIZE;
	MUST(dat_rmr_create(pz, &rmr) == DAT_SUCCESS);
	client = bench_ep(idle_evd);
	server = bench_ep(recv_evd);
	connect_client();
}

static void take_bind_completions(int calls)
{
	for (int i = 0; i < calls; i++) {
		DAT_EVENT event = bench_wait(send_evd, DAT_RMR_BIND_COMPLETION_EVENT);

		MUST(event.event_data.rmr_completion_event_data.status == DAT_RMR_BIND_SUCCESS);
	}
}

static void take_completions(DAT_EVD_HANDLE evd, int calls)
{
	for (int i = 0; i < calls; i++) {
		DAT_EVENT event = bench_wait(evd, DAT_DTO_COMPLETION_EVENT);

		MUST(event.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS);
	}
}

MEASURE measure_post_recv(void)
{
	for (DAT_UINT64 i = 0; i < CALLS; i++)
		MUST(!dat_ep_post_recv(server, 1, &local, (DAT_DTO_COOKIE){ .as_64 = i },
				       DAT_COMPLETION_DEFAULT_FLAG));
}

MEASURE measure_post_send(void)
{
	for (DAT_UINT64 i = 0; i < CALLS; i++)
		MUST(!dat_ep_post_send(client, 1, &local, (DAT_DTO_COOKIE){ .as_64 = i },
				       DAT_COMPLETION_DEFAULT_FLAG));
}

MEASURE measure_post_rdma_write(void)
{
	for (DAT_UINT64 i = 0; i < CALLS; i++)
		MUST(!dat_ep_post_rdma_write(client, 1, &local, (DAT_DTO_COOKIE){ .as_64 = i },
					     &remote, DAT_COMPLETION_DEFAULT_FLAG));
}

MEASURE measure_post_rdma_read(void)
{
	for (DAT_UINT64 i = 0; i < CALLS; i++)
		MUST(!dat_ep_post_rdma_read(client, 1, &local, (DAT_DTO_COOKIE){ .as_64 = i },
					    &remote, DAT_COMPLETION_DEFAULT_FLAG));
}

static void bind_all(void)
{
	DAT_RMR_CONTEXT context;

	for (DAT_UINT64 i = 0; i < CALLS; i++)
		MUST(!dat_rmr_bind(rmr, &local, DAT_MEM_PRIV_ALL_FLAG, client,
				   (DAT_RMR_COOKIE){ .as_64 = i }, DAT_COMPLETION_DEFAULT_FLAG,
				   &context));
}

MEASURE measure_bind(void)
{
	bind_all();
}

/* From one region to another and back again. */
MEASURE measure_bind_elsewhere(void)
{
	DAT_LMR_TRIPLET to[2] = { local, local };
	DAT_RMR_CONTEXT context;

	to[0].lmr_context = other_context;
	for (DAT_UINT64 i = 0; i < CALLS; i++)
		MUST(!dat_rmr_bind(rmr, &to[i % 2], DAT_MEM_PRIV_ALL_FLAG, client,
				   (DAT_RMR_COOKIE){ .as_64 = i }, DAT_COMPLETION_DEFAULT_FLAG,
				   &context));
}

MEASURE measure_register(void)
{
	DAT_REGION_DESCRIPTION region = { .for_va = buffer };

	for (int i = 0; i < CALLS; i++) {
		DAT_LMR_CONTEXT lmr_context;
		DAT_RMR_CONTEXT rmr_context;
		DAT_LMR_HANDLE lmr;
		DAT_VADDR address;
		DAT_VLEN size;

		MUST(!dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, SIZE, pz,
				     DAT_MEM_PRIV_ALL_FLAG, &lmr, &lmr_context, &rmr_context, &size,
				     &address));
		MUST(!dat_lmr_free(lmr));
	}
}

MEASURE measure_dequeue(void)
{
	DAT_EVENT event;

	for (int i = 0; i < CALLS; i++)
		MUST(dat_evd_dequeue(recv_evd, &event) == DAT_SUCCESS);
}

MEASURE measure_dequeue_nothing(void)
{
	DAT_EVENT event;

	for (int i = 0; i < CALLS; i++)
		MUST(dat_evd_dequeue(recv_evd, &event) == DAT_QUEUE_EMPTY);
}

MEASURE measure_wait(void)
{
	DAT_EVENT event;
	DAT_COUNT more;

	MUST(dat_evd_wait(recv_evd, FOREVER, 1, &event, &more) == DAT_SUCCESS);
}

int main(int argc, char **argv)
{
	MUST(argc == 2);
	open_all(argv[1]);
	measure_register();
	measure_post_recv();
	measure_post_send();
	take_completions(send_evd, CALLS); /* acknowledged: all receives have completed */
	measure_dequeue();
	measure_dequeue_nothing();
	measure_post_rdma_write();
	take_completions(send_evd, CALLS);
	measure_post_rdma_read();
	take_completions(send_evd, CALLS);
	/* So many outstanding binds take memory, which is reused by those that are measured. */
	for (int i = 0; i < 2; i++) {
		bind_all();
		take_bind_completions(CALLS);
	}
	measure_bind();
	take_bind_completions(CALLS);
	measure_bind_elsewhere();
	take_bind_completions(CALLS);
	for (DAT_UINT64 i = 0; i < CALLS; i++) {
		MUST(!dat_ep_post_recv(server, 1, &local, (DAT_DTO_COOKIE){ .as_64 = i },
				       DAT_COMPLETION_DEFAULT_FLAG));
		MUST(!dat_ep_post_send(client, 1, &local, (DAT_DTO_COOKIE){ .as_64 = i },
				       DAT_COMPLETION_DEFAULT_FLAG));
		take_completions(send_evd, 1);
		measure_wait();
	}
	MUST(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS);
	return 0;
}
