/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a window (RMR) gives a peer access to part of a region, and how that access ends.
 *
 *	window SERVER-IA CLIENT-IA
 *
 * One process is both sides, over two interface adapters of dat.conf (or one, named twice). The
 * server's region grants no remote access. The server binds a window to one line of it and sends
 * the context to the client. The client reads the line and overwrites it. Then the server unbinds
 * the window, and the client's next write with the old context fails.
 */
#include <dat/udat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUALIFIER 45790
#define LINE	  32 /* bytes */

/* Ends the program when a call fails. */
#define DO(call)                                                                                   \
	do {                                                                                       \
		DAT_RETURN ret_ = (call);                                                          \
		if (ret_ != DAT_SUCCESS)                                                           \
			window_fail(#call, ret_);                                                  \
	} while (0)

static _Noreturn void window_fail(const char *call, DAT_RETURN ret)
{
	const char *major = "?", *minor = "";

	(void)dat_strerror(ret, &major, &minor);
	fprintf(stderr, "window: %s: %s %s\n", call, major, minor);
	exit(1);
}

/* One side of the connection. All its events arrive on one EVD. */
struct window_side {
	const char *name;
	DAT_IA_HANDLE ia;
	DAT_PZ_HANDLE pz;
	DAT_EVD_HANDLE async, evd;
	DAT_EP_HANDLE ep;
	DAT_LMR_CONTEXT lmr;
	char memory[3][LINE];
};

static DAT_LMR_TRIPLET window_line(struct window_side *side, int n)
{
	return (DAT_LMR_TRIPLET){
		.lmr_context = side->lmr,
		.virtual_address = (DAT_VADDR)(uintptr_t)side->memory[n],
		.segment_length = LINE,
	};
}

static void window_side_open(struct window_side *side, char *ia_name, DAT_MEM_PRIV_FLAGS priv)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = side->memory };
	DAT_LMR_HANDLE lmr;

	DO(dat_ia_open(ia_name, 8, &side->async, &side->ia));
	DO(dat_pz_create(side->ia, &side->pz));
	DO(dat_evd_create(side->ia, 32, DAT_HANDLE_NULL, DAT_EVD_DEFAULT_FLAG & ~DAT_EVD_ASYNC_FLAG,
			  &side->evd));
	DO(dat_ep_create(side->ia, side->pz, side->evd, side->evd, side->evd, NULL, &side->ep));
	DO(dat_lmr_create(side->ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof(side->memory), side->pz,
			  priv, &lmr, &side->lmr, NULL, NULL, NULL));
}

/* Takes the next event of a side, which must have this number. */
static DAT_EVENT window_wait(struct window_side *side, DAT_EVENT_NUMBER number)
{
	DAT_EVENT event;
	DAT_COUNT more;

	DO(dat_evd_wait(side->evd, DAT_TIMEOUT_INFINITE, 1, &event, &more));
	if (event.event_number != number) {
		fprintf(stderr, "window: the %s got event 0x%x, not 0x%x\n", side->name,
			event.event_number, number);
		exit(1);
	}
	return event;
}

/* Waits for the oldest transfer of a side, and returns its status. */
static DAT_DTO_COMPLETION_STATUS window_transfer_status(struct window_side *side)
{
	return window_wait(side, DAT_DTO_COMPLETION_EVENT)
		.event_data.dto_completion_event_data.status;
}

static void window_expect_success(struct window_side *side)
{
	if (window_transfer_status(side) != DAT_DTO_SUCCESS) {
		fprintf(stderr, "window: a transfer of the %s failed\n", side->name);
		exit(1);
	}
}

static void window_connect(struct window_side *server, struct window_side *client)
{
	DAT_PSP_HANDLE psp;
	DAT_IA_ATTR attr;
	DAT_EVENT event;

	DO(dat_psp_create(server->ia, QUALIFIER, server->evd, DAT_PSP_CONSUMER_FLAG, &psp));
	DO(dat_ia_query(server->ia, NULL, DAT_IA_FIELD_IA_ADDRESS_PTR, &attr, 0, NULL));
	DO(dat_ep_connect(client->ep, attr.ia_address_ptr, QUALIFIER, DAT_TIMEOUT_INFINITE, 0, NULL,
			  DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	event = window_wait(server, DAT_CONNECTION_REQUEST_EVENT);
	DO(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, server->ep, 0, NULL));
	window_wait(server, DAT_CONNECTION_EVENT_ESTABLISHED);
	window_wait(client, DAT_CONNECTION_EVENT_ESTABLISHED);
}

static const DAT_DTO_COOKIE none;

/* The last line of each side's memory is the buffer for messages. */
static void window_send_message(struct window_side *from, struct window_side *to,
				const void *message, size_t size)
{
	DAT_LMR_TRIPLET out = window_line(from, 2), in = window_line(to, 2);

	memcpy(from->memory[2], message, size);
	DO(dat_ep_post_recv(to->ep, 1, &in, none, DAT_COMPLETION_DEFAULT_FLAG));
	DO(dat_ep_post_send(from->ep, 1, &out, none, DAT_COMPLETION_DEFAULT_FLAG));
	window_expect_success(to);
}

int main(int argc, char **argv)
{
	static struct window_side server = {
		.name = "server", .memory = { "not in the window", "written by the server" }
	};
	static struct window_side client = { .name = "client" };
	const DAT_LMR_TRIPLET closed = { .segment_length = 0 };
	DAT_LMR_TRIPLET window, local;
	DAT_RMR_TRIPLET remote = { .segment_length = LINE };
	DAT_DTO_COMPLETION_STATUS status;
	DAT_RMR_HANDLE rmr;

	if (argc != 3) {
		fprintf(stderr, "usage: window SERVER-IA CLIENT-IA\n");
		return 2;
	}
	/* Our providers tell, too, that this host lacks what a line of dat.conf names. */
	setenv("DAPL_DBG_TYPE", "0x2003", 0);
	/* The server's region has no remote privileges: a peer can only access it by the window. */
	window_side_open(&server, argv[1],
			 DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
	window_side_open(&client, argv[2], DAT_MEM_PRIV_ALL_FLAG);
	window_connect(&server, &client);

	window = window_line(&server, 1);
	remote.target_address = window.virtual_address;
	DO(dat_rmr_create(server.pz, &rmr));
	DO(dat_rmr_bind(rmr, &window,
			DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG, server.ep,
			none, DAT_COMPLETION_SUPPRESS_FLAG, &remote.rmr_context));
	printf("server: window bound to line 1, context 0x%x\n", remote.rmr_context);
	/* No need to wait for the bind: the send is executed after it. */
	window_send_message(&server, &client, &remote, sizeof(remote));
	window_expect_success(&server);

	memcpy(&remote, client.memory[2], sizeof(remote));
	local = window_line(&client, 0);
	DO(dat_ep_post_rdma_read(client.ep, 1, &local, none, &remote, DAT_COMPLETION_DEFAULT_FLAG));
	window_expect_success(&client);
	printf("client: read \"%s\" through the window\n", client.memory[0]);
	strcpy(client.memory[0], "written by the client");
	DO(dat_ep_post_rdma_write(client.ep, 1, &local, none, &remote,
				  DAT_COMPLETION_SUPPRESS_FLAG));
	window_send_message(&client, &server, "done", sizeof("done"));
	window_expect_success(&client);
	printf("server: line 1 is now \"%s\"\n", server.memory[1]);

	DO(dat_rmr_bind(rmr, &closed, DAT_MEM_PRIV_NONE_FLAG, server.ep, none,
			DAT_COMPLETION_DEFAULT_FLAG, &(DAT_RMR_CONTEXT){ 0 }));
	window_wait(&server, DAT_RMR_BIND_COMPLETION_EVENT);
	printf("server: window unbound\n");
	strcpy(client.memory[0], "written too late");
	DO(dat_ep_post_rdma_write(client.ep, 1, &local, none, &remote,
				  DAT_COMPLETION_DEFAULT_FLAG));
	status = window_transfer_status(&client);
	if (status == DAT_DTO_ERR_REMOTE_ACCESS)
		printf("client: write refused: DAT_DTO_ERR_REMOTE_ACCESS\n");
	else if (status == DAT_DTO_ERR_FLUSHED) /* libfabric's tcp */
		printf("client: write flushed: the peer has ended the connection\n");
	else /* iWARP completes a write when TCP has taken the data */
		printf("client: write completed with status %d, before the peer refused it\n",
		       status);
	window_wait(&client, status == DAT_DTO_ERR_REMOTE_ACCESS
				     ? DAT_CONNECTION_EVENT_BROKEN
				     : DAT_CONNECTION_EVENT_DISCONNECTED);
	printf("client: connection ended\n");
	printf("server: line 1 is still \"%s\"\n", server.memory[1]);
	DO(dat_ia_close(client.ia, DAT_CLOSE_ABRUPT_FLAG));
	DO(dat_ia_close(server.ia, DAT_CLOSE_ABRUPT_FLAG));
	return 0;
}
