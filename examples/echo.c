/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server that sends back the message that it receives, and its client. dat-tutorial(7) explains
 * the program step by step.
 *
 *	echo SERVER-IA			listens, and serves one client
 *	echo CLIENT-IA HOST TEXT	sends TEXT, and prints the answer
 */
#include <dat/udat.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUALIFIER  45791
#define SIZE	   256 /* bytes of a message */
#define TIME_LIMIT (10 * 1000 * 1000)

/* Ends the program when a call fails. */
#define DO(call)                                                                                   \
	do {                                                                                       \
		DAT_RETURN ret_ = (call);                                                          \
		if (ret_ != DAT_SUCCESS)                                                           \
			echo_fail(#call, ret_);                                                    \
	} while (0)

static _Noreturn void echo_fail(const char *call, DAT_RETURN ret)
{
	const char *major = "?", *minor = "";

	(void)dat_strerror(ret, &major, &minor);
	fprintf(stderr, "echo: %s: %s %s\n", call, major, minor);
	exit(1);
}

static struct {
	DAT_IA_HANDLE ia;
	DAT_PZ_HANDLE pz;
	DAT_EVD_HANDLE async, connections, transfers;
	DAT_EP_HANDLE ep;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT context;
	char in[SIZE], out[SIZE];
} echo;

static DAT_LMR_TRIPLET echo_segment(char *buffer)
{
	return (DAT_LMR_TRIPLET){
		.lmr_context = echo.context,
		.virtual_address = (DAT_VADDR)(uintptr_t)buffer,
		.segment_length = SIZE,
	};
}

/* Waits for the next event of a dispatcher, which must have this number. */
static DAT_EVENT echo_wait(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number)
{
	DAT_EVENT event;
	DAT_COUNT more;

	DO(dat_evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &more));
	if (event.event_number != number) {
		fprintf(stderr, "echo: event 0x%x, not 0x%x\n", event.event_number, number);
		exit(1);
	}
	return event;
}

static void echo_await_transfer(void)
{
	DAT_EVENT event = echo_wait(echo.transfers, DAT_DTO_COMPLETION_EVENT);
	DAT_DTO_COMPLETION_STATUS status = event.event_data.dto_completion_event_data.status;

	if (status != DAT_DTO_SUCCESS) {
		fprintf(stderr, "echo: a transfer failed with status %d\n", status);
		exit(1);
	}
}

/* Opens the IA, and makes all that a connection needs. The receive is posted before it is used. */
static void echo_open(char *name)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = echo.in };
	const DAT_DTO_COOKIE cookie = { .as_64 = 1 };
	DAT_LMR_TRIPLET in;

	echo.async = DAT_HANDLE_NULL;
	DO(dat_ia_open(name, 8, &echo.async, &echo.ia));
	DO(dat_pz_create(echo.ia, &echo.pz));
	DO(dat_lmr_create(echo.ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof(echo.in) + sizeof(echo.out),
			  echo.pz, DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG,
			  &echo.lmr, &echo.context, NULL, NULL, NULL));
	DO(dat_evd_create(echo.ia, 8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG,
			  &echo.connections));
	DO(dat_evd_create(echo.ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &echo.transfers));
	DO(dat_ep_create(echo.ia, echo.pz, echo.transfers, echo.transfers, echo.connections, NULL,
			 &echo.ep));
	in = echo_segment(echo.in);
	DO(dat_ep_post_recv(echo.ep, 1, &in, cookie, DAT_COMPLETION_DEFAULT_FLAG));
}

static void echo_send(void)
{
	const DAT_DTO_COOKIE cookie = { .as_64 = 2 };
	DAT_LMR_TRIPLET out = echo_segment(echo.out);

	DO(dat_ep_post_send(echo.ep, 1, &out, cookie, DAT_COMPLETION_DEFAULT_FLAG));
}

static void echo_serve(void)
{
	DAT_PSP_HANDLE psp;
	DAT_EVENT event;

	DO(dat_psp_create(echo.ia, QUALIFIER, echo.connections, DAT_PSP_CONSUMER_FLAG, &psp));
	puts("server: waiting");
	fflush(stdout);
	event = echo_wait(echo.connections, DAT_CONNECTION_REQUEST_EVENT);
	DO(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, echo.ep, 0, NULL));
	echo_wait(echo.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
	echo_await_transfer(); /* the receive */
	printf("server: received \"%s\"\n", echo.in);
	memcpy(echo.out, echo.in, SIZE);
	echo_send();
	echo_await_transfer();
	echo_wait(echo.connections, DAT_CONNECTION_EVENT_DISCONNECTED); /* by the client */
	DO(dat_psp_free(psp));
}

static void echo_ask(const char *host, const char *text)
{
	struct addrinfo *found;

	if (getaddrinfo(host, NULL, NULL, &found)) {
		fprintf(stderr, "echo: %s: no such host\n", host);
		exit(1);
	}
	DO(dat_ep_connect(echo.ep, found->ai_addr, QUALIFIER, TIME_LIMIT, 0, NULL,
			  DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	freeaddrinfo(found);
	echo_wait(echo.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
	snprintf(echo.out, SIZE, "%s", text);
	echo_send();
	echo_await_transfer(); /* the send and the receive, in either order */
	echo_await_transfer();
	printf("client: received \"%s\"\n", echo.in);
	DO(dat_ep_disconnect(echo.ep, DAT_CLOSE_GRACEFUL_FLAG));
	echo_wait(echo.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
}

int main(int argc, char **argv)
{
	if (argc != 2 && argc != 4) {
		fprintf(stderr, "usage: echo SERVER-IA, or echo CLIENT-IA HOST TEXT\n");
		return 2;
	}
	echo_open(argv[1]);
	if (argc == 2)
		echo_serve();
	else
		echo_ask(argv[2], argv[3]);
	DO(dat_ep_free(echo.ep));
	DO(dat_evd_free(echo.transfers));
	DO(dat_evd_free(echo.connections));
	DO(dat_lmr_free(echo.lmr));
	DO(dat_pz_free(echo.pz));
	DO(dat_ia_close(echo.ia, DAT_CLOSE_GRACEFUL_FLAG));
	return 0;
}
