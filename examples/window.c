/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A window onto memory, and how it is closed again.
 *
 *	window SERVER-IA CLIENT-IA
 *
 * One program plays both sides, over two interface adapters of dat.conf (or one, named twice). The
 * server has a letter that nobody else may touch, and opens a window onto one line of it. The
 * client reads the line and answers in it. Then the server closes the window, and the client learns
 * what the context that it still has is worth.
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
			give_up(#call, ret_);                                                      \
	} while (0)

static _Noreturn void give_up(const char *call, DAT_RETURN ret)
{
	const char *major = "?", *minor = "";

	(void)dat_strerror(ret, &major, &minor);
	fprintf(stderr, "window: %s: %s %s\n", call, major, minor);
	exit(1);
}

/* Everything that one side has. All its events come from one dispatcher. */
struct side {
	const char *name;
	DAT_IA_HANDLE ia;
	DAT_PZ_HANDLE pz;
	DAT_EVD_HANDLE async, evd;
	DAT_EP_HANDLE ep;
	DAT_LMR_CONTEXT lmr;
	char memory[3][LINE];
};

static DAT_LMR_TRIPLET line(struct side *side, int n)
{
	return (DAT_LMR_TRIPLET){
		.lmr_context = side->lmr,
		.virtual_address = (DAT_VADDR)(uintptr_t)side->memory[n],
		.segment_length = LINE,
	};
}

static void side_open(struct side *side, char *ia_name, DAT_MEM_PRIV_FLAGS priv)
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

/* The next event of a side, which must be of that kind. */
static DAT_EVENT await(struct side *side, DAT_EVENT_NUMBER number)
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

/* How the oldest transfer of a side ended. */
static DAT_DTO_COMPLETION_STATUS outcome(struct side *side)
{
	return await(side, DAT_DTO_COMPLETION_EVENT).event_data.dto_completion_event_data.status;
}

static void finish(struct side *side)
{
	if (outcome(side) != DAT_DTO_SUCCESS) {
		fprintf(stderr, "window: a transfer of the %s failed\n", side->name);
		exit(1);
	}
}

static void meet(struct side *server, struct side *client)
{
	DAT_PSP_HANDLE psp;
	DAT_IA_ATTR attr;
	DAT_EVENT event;

	DO(dat_psp_create(server->ia, QUALIFIER, server->evd, DAT_PSP_CONSUMER_FLAG, &psp));
	DO(dat_ia_query(server->ia, NULL, DAT_IA_FIELD_IA_ADDRESS_PTR, &attr, 0, NULL));
	DO(dat_ep_connect(client->ep, attr.ia_address_ptr, QUALIFIER, DAT_TIMEOUT_INFINITE, 0, NULL,
			  DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	event = await(server, DAT_CONNECTION_REQUEST_EVENT);
	DO(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, server->ep, 0, NULL));
	await(server, DAT_CONNECTION_EVENT_ESTABLISHED);
	await(client, DAT_CONNECTION_EVENT_ESTABLISHED);
}

static const DAT_DTO_COOKIE none;

/* The last line of each side's memory is for messages. */
static void send_message(struct side *from, struct side *to, const void *message, size_t size)
{
	DAT_LMR_TRIPLET out = line(from, 2), in = line(to, 2);

	memcpy(from->memory[2], message, size);
	DO(dat_ep_post_recv(to->ep, 1, &in, none, DAT_COMPLETION_DEFAULT_FLAG));
	DO(dat_ep_post_send(from->ep, 1, &out, none, DAT_COMPLETION_DEFAULT_FLAG));
	finish(to);
}

int main(int argc, char **argv)
{
	static struct side server = {
		.name = "server", .memory = { "My key is under the mat.", "How are you today?" }
	};
	static struct side client = { .name = "client" };
	const DAT_LMR_TRIPLET closed = { .segment_length = 0 };
	DAT_LMR_TRIPLET window, local;
	DAT_RMR_TRIPLET remote = { .segment_length = LINE };
	DAT_DTO_COMPLETION_STATUS status;
	DAT_RMR_HANDLE rmr;

	if (argc != 3) {
		fprintf(stderr, "usage: window SERVER-IA CLIENT-IA\n");
		return 2;
	}
	/* No peer has a right to the server's region; what the window gives is all there is. */
	side_open(&server, argv[1], DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
	side_open(&client, argv[2], DAT_MEM_PRIV_ALL_FLAG);
	meet(&server, &client);

	window = line(&server, 1);
	remote.target_address = window.virtual_address;
	DO(dat_rmr_create(server.pz, &rmr));
	DO(dat_rmr_bind(rmr, &window,
			DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG, server.ep,
			none, DAT_COMPLETION_SUPPRESS_FLAG, &remote.rmr_context));
	printf("server: a window onto my second line is open, context 0x%x\n", remote.rmr_context);
	/* right behind the bind: that is soon enough */
	send_message(&server, &client, &remote, sizeof(remote));
	finish(&server);

	memcpy(&remote, client.memory[2], sizeof(remote));
	local = line(&client, 0);
	DO(dat_ep_post_rdma_read(client.ep, 1, &local, none, &remote, DAT_COMPLETION_DEFAULT_FLAG));
	finish(&client);
	printf("client: I read through it: \"%s\"\n", client.memory[0]);
	strcpy(client.memory[0], "Very well, thank you.");
	DO(dat_ep_post_rdma_write(client.ep, 1, &local, none, &remote,
				  DAT_COMPLETION_SUPPRESS_FLAG));
	send_message(&client, &server, "done", sizeof("done"));
	finish(&client);
	printf("server: now the line says: \"%s\"\n", server.memory[1]);

	DO(dat_rmr_bind(rmr, &closed, DAT_MEM_PRIV_NONE_FLAG, server.ep, none,
			DAT_COMPLETION_DEFAULT_FLAG, &(DAT_RMR_CONTEXT){ 0 }));
	await(&server, DAT_RMR_BIND_COMPLETION_EVENT);
	printf("server: the window is closed\n");
	strcpy(client.memory[0], "One more thing...");
	DO(dat_ep_post_rdma_write(client.ep, 1, &local, none, &remote,
				  DAT_COMPLETION_DEFAULT_FLAG));
	status = outcome(&client);
	if (status == DAT_DTO_ERR_REMOTE_ACCESS)
		printf("client: I wrote once more, and was refused: DAT_DTO_ERR_REMOTE_ACCESS\n");
	else /* iWARP's answer to a write means that TCP has it */
		printf("client: I wrote once more; my side says %d, and knows no better\n", status);
	await(&client, status == DAT_DTO_SUCCESS ? DAT_CONNECTION_EVENT_DISCONNECTED
						 : DAT_CONNECTION_EVENT_BROKEN);
	printf("client: and that cost me the connection\n");
	printf("server: the line still says: \"%s\"\n", server.memory[1]);
	DO(dat_ia_close(client.ia, DAT_CLOSE_ABRUPT_FLAG));
	DO(dat_ia_close(server.ia, DAT_CLOSE_ABRUPT_FLAG));
	return 0;
}
