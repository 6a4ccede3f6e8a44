/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client that writes into the memory of its server. The server's private data, which come with
 * its acceptance, tell the client where: context, address and length.
 *
 *	rdma_write SERVER-IA			offers its memory to one client
 *	rdma_write CLIENT-IA HOST TEXT		writes TEXT there
 */
#include <dat/udat.h>
#include <endian.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUALIFIER  45792
#define SIZE	   256 /* bytes of the memory that is offered */
#define TIME_LIMIT (10 * 1000 * 1000)

/* Ends the program when a call fails. */
#define DO(call)                                                                                   \
	do {                                                                                       \
		DAT_RETURN ret_ = (call);                                                          \
		if (ret_ != DAT_SUCCESS)                                                           \
			write_fail(#call, ret_);                                                   \
	} while (0)

static _Noreturn void write_fail(const char *call, DAT_RETURN ret)
{
	const char *major = "?", *minor = "";

	(void)dat_strerror(ret, &major, &minor);
	fprintf(stderr, "rdma_write: %s: %s %s\n", call, major, minor);
	exit(1);
}

/* The private data. The two hosts may order bytes differently: these are big-endian. */
struct write_offer {
	uint64_t address;
	uint32_t context, length;
};

static DAT_IA_HANDLE ia;
static DAT_PZ_HANDLE pz;
static DAT_EVD_HANDLE async_evd, connections, transfers;
static DAT_EP_HANDLE ep;
static DAT_LMR_HANDLE lmr;
static DAT_LMR_CONTEXT local_context;
static DAT_RMR_CONTEXT remote_context;
static char memory[SIZE];

/* Waits for the next event of the connection, which must have this number. */
static DAT_EVENT write_await(DAT_EVENT_NUMBER number)
{
	DAT_EVENT event;
	DAT_COUNT more;

	DO(dat_evd_wait(connections, DAT_TIMEOUT_INFINITE, 1, &event, &more));
	if (event.event_number != number) {
		fprintf(stderr, "rdma_write: event 0x%x, not 0x%x\n", event.event_number, number);
		exit(1);
	}
	return event;
}

static void write_await_transfer(void)
{
	DAT_DTO_COMPLETION_STATUS status;
	DAT_EVENT event;
	DAT_COUNT more;

	DO(dat_evd_wait(transfers, DAT_TIMEOUT_INFINITE, 1, &event, &more));
	status = event.event_data.dto_completion_event_data.status;
	if (status != DAT_DTO_SUCCESS) {
		fprintf(stderr, "rdma_write: a transfer failed with status %d\n", status);
		exit(1);
	}
}

/*
 * Completions have a dispatcher of their own: the first receive of a server may complete before the
 * event that its connection is established. Only the server's memory may be written by the peer.
 */
static void write_open(char *name, DAT_MEM_PRIV_FLAGS privileges)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = memory };

	async_evd = DAT_HANDLE_NULL;
	DO(dat_ia_open(name, 8, &async_evd, &ia));
	DO(dat_pz_create(ia, &pz));
	DO(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, SIZE, pz, privileges, &lmr,
			  &local_context, &remote_context, NULL, NULL));
	DO(dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG,
			  &connections));
	DO(dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &transfers));
	DO(dat_ep_create(ia, pz, transfers, transfers, connections, NULL, &ep));
}

static void write_serve(void)
{
	const DAT_DTO_COOKIE cookie = { .as_64 = 1 };
	struct write_offer offer = {
		.address = htobe64((uintptr_t)memory),
		.context = htobe32(remote_context),
		.length = htobe32(SIZE),
	};
	DAT_PSP_HANDLE psp;
	DAT_EVENT event;

	/* A write makes no event here. A message of no bytes behind it does; it needs a receive. */
	DO(dat_ep_post_recv(ep, 0, NULL, cookie, DAT_COMPLETION_DEFAULT_FLAG));
	DO(dat_psp_create(ia, QUALIFIER, connections, DAT_PSP_CONSUMER_FLAG, &psp));
	puts("server: waiting");
	fflush(stdout);
	event = write_await(DAT_CONNECTION_REQUEST_EVENT);
	DO(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, ep, sizeof(offer),
			 &offer));
	write_await(DAT_CONNECTION_EVENT_ESTABLISHED);
	write_await_transfer();
	printf("server: the client has written \"%s\"\n", memory);
	write_await(DAT_CONNECTION_EVENT_DISCONNECTED);
	DO(dat_psp_free(psp));
}

/* Connects, and returns what the server offers. */
static struct write_offer write_connect(const char *host)
{
	const DAT_CONNECTION_EVENT_DATA *answer;
	struct write_offer offer;
	struct addrinfo *found;
	DAT_EVENT event;

	if (getaddrinfo(host, NULL, NULL, &found)) {
		fprintf(stderr, "rdma_write: %s: no such host\n", host);
		exit(1);
	}
	DO(dat_ep_connect(ep, found->ai_addr, QUALIFIER, TIME_LIMIT, 0, NULL, DAT_QOS_BEST_EFFORT,
			  DAT_CONNECT_DEFAULT_FLAG));
	freeaddrinfo(found);
	event = write_await(DAT_CONNECTION_EVENT_ESTABLISHED);
	answer = &event.event_data.connect_event_data;
	if (answer->private_data_size < (DAT_COUNT)sizeof(offer)) { /* a device may pad them */
		fputs("rdma_write: the server offers no memory\n", stderr);
		exit(1);
	}
	memcpy(&offer, answer->private_data, sizeof(offer)); /* the endpoint's memory */
	return offer;
}

static void write_text(const char *host, const char *text)
{
	const DAT_DTO_COOKIE cookie = { .as_64 = 2 };
	const struct write_offer offer = write_connect(host);
	const size_t length = strnlen(text, SIZE - 1) + 1;
	DAT_LMR_TRIPLET from = { .lmr_context = local_context,
				 .virtual_address = (uintptr_t)memory,
				 .segment_length = length };
	const DAT_RMR_TRIPLET to = { .rmr_context = be32toh(offer.context),
				     .target_address = be64toh(offer.address),
				     .segment_length = length };

	snprintf(memory, SIZE, "%s", text);
	if (length > be32toh(offer.length)) {
		fputs("rdma_write: the text is longer than the server's memory\n", stderr);
		exit(1);
	}
	/* In the order of the posts: the message arrives when the write has. */
	DO(dat_ep_post_rdma_write(ep, 1, &from, cookie, &to, DAT_COMPLETION_DEFAULT_FLAG));
	DO(dat_ep_post_send(ep, 0, NULL, cookie, DAT_COMPLETION_DEFAULT_FLAG));
	write_await_transfer();
	write_await_transfer();
	printf("client: has written \"%s\"\n", memory);
	DO(dat_ep_disconnect(ep, DAT_CLOSE_GRACEFUL_FLAG));
	write_await(DAT_CONNECTION_EVENT_DISCONNECTED);
}

int main(int argc, char **argv)
{
	if (argc != 2 && argc != 4) {
		fputs("usage: rdma_write SERVER-IA, or rdma_write CLIENT-IA HOST TEXT\n", stderr);
		return 2;
	}
	write_open(argv[1], argc == 2
				    ? DAT_MEM_PRIV_REMOTE_WRITE_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG
				    : DAT_MEM_PRIV_LOCAL_READ_FLAG);
	if (argc == 2)
		write_serve();
	else
		write_text(argv[2], argv[3]);
	DO(dat_ep_free(ep));
	DO(dat_evd_free(transfers));
	DO(dat_evd_free(connections));
	DO(dat_lmr_free(lmr));
	DO(dat_pz_free(pz));
	DO(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
	return 0;
}
