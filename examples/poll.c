/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events of DAT beside other descriptors: a chat. What comes on the standard input is sent to the
 * peer, and what the peer sends is printed, both whenever they come. The end of the input ends the
 * connection.
 *
 *	poll SERVER-IA
 *	poll CLIENT-IA HOST
 */
#include <dat/udat.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define QUALIFIER  45793
#define RECEIVES   8   /* messages that may come while the program does something else */
#define SIZE	   256 /* bytes of a message */
#define TIME_LIMIT (10 * 1000 * 1000)

/* Ends the program when a call fails. */
#define DO(call)                                                                                   \
	do {                                                                                       \
		DAT_RETURN ret_ = (call);                                                          \
		if (ret_ != DAT_SUCCESS)                                                           \
			poll_fail(#call, ret_);                                                    \
	} while (0)

static _Noreturn void poll_fail(const char *call, DAT_RETURN ret)
{
	const char *major = "?", *minor = "";

	(void)dat_strerror(ret, &major, &minor);
	fprintf(stderr, "poll: %s: %s %s\n", call, major, minor);
	exit(1);
}

static DAT_IA_HANDLE ia;
static DAT_PZ_HANDLE pz;
static DAT_EVD_HANDLE async_evd, evd;
static DAT_CNO_HANDLE cno;
static DAT_EP_HANDLE ep;
static DAT_LMR_HANDLE lmr;
static DAT_LMR_CONTEXT context;
static char buffers[RECEIVES + 1][SIZE]; /* the last one is for sends */
static int wakeup;			 /* becomes readable when there are events */
static bool connected, sending, ended;

/* An agent: a thread of the provider calls it, once for each time that it is set. */
static void poll_wake(DAT_PVOID data, DAT_EVD_HANDLE unused)
{
	(void)unused;
	(void)eventfd_write(*(int *)data, 1);
}

static const DAT_OS_WAIT_PROXY_AGENT agent = { &wakeup, poll_wake };

static DAT_LMR_TRIPLET poll_segment(unsigned buffer, size_t length)
{
	return (DAT_LMR_TRIPLET){ .lmr_context = context,
				  .virtual_address = (uintptr_t)buffers[buffer],
				  .segment_length = length };
}

static void poll_receive(unsigned buffer)
{
	const DAT_DTO_COOKIE cookie = { .as_64 = buffer };
	DAT_LMR_TRIPLET segment = poll_segment(buffer, SIZE);

	DO(dat_ep_post_recv(ep, 1, &segment, cookie, DAT_COMPLETION_DEFAULT_FLAG));
}

static void poll_open(char *name)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = buffers };

	wakeup = eventfd(0, EFD_CLOEXEC);
	async_evd = DAT_HANDLE_NULL;
	DO(dat_ia_open(name, 8, &async_evd, &ia));
	DO(dat_pz_create(ia, &pz));
	DO(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof(buffers), pz,
			  DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG, &lmr,
			  &context, NULL, NULL, NULL));
	DO(dat_cno_create(ia, agent, &cno));
	DO(dat_evd_create(ia, 2 * RECEIVES, cno,
			  DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG | DAT_EVD_DTO_FLAG, &evd));
	DO(dat_ep_create(ia, pz, evd, evd, evd, NULL, &ep));
	for (unsigned i = 0; i < RECEIVES; i++)
		poll_receive(i);
}

static void poll_connect(const char *host)
{
	struct addrinfo *found;

	if (getaddrinfo(host, NULL, NULL, &found)) {
		fprintf(stderr, "poll: %s: no such host\n", host);
		exit(1);
	}
	DO(dat_ep_connect(ep, found->ai_addr, QUALIFIER, TIME_LIMIT, 0, NULL, DAT_QOS_BEST_EFFORT,
			  DAT_CONNECT_DEFAULT_FLAG));
	freeaddrinfo(found);
}

static void poll_completed(const DAT_DTO_COMPLETION_EVENT_DATA *transfer)
{
	const unsigned buffer = (unsigned)transfer->user_cookie.as_64;

	if (transfer->status == DAT_DTO_ERR_FLUSHED)
		return; /* the connection has ended, which has an event of its own */
	if (transfer->status != DAT_DTO_SUCCESS) {
		fprintf(stderr, "poll: a transfer failed with status %d\n", transfer->status);
		exit(1);
	}
	if (buffer == RECEIVES) {
		sending = false;
		return;
	}
	fwrite(buffers[buffer], 1, transfer->transfered_length, stdout);
	fflush(stdout);
	poll_receive(buffer);
}

static void poll_handle(const DAT_EVENT *event)
{
	switch (event->event_number) {
	case DAT_CONNECTION_REQUEST_EVENT:
		DO(dat_cr_accept(event->event_data.cr_arrival_event_data.cr_handle, ep, 0, NULL));
		break;
	case DAT_CONNECTION_EVENT_ESTABLISHED:
		connected = true;
		break;
	case DAT_CONNECTION_EVENT_DISCONNECTED:
		ended = true;
		break;
	case DAT_DTO_COMPLETION_EVENT:
		poll_completed(&event->event_data.dto_completion_event_data);
		break;
	default:
		fprintf(stderr, "poll: event 0x%x\n", event->event_number);
		exit(1);
	}
}

/* The agent is set first, so that no event comes between the last dequeue and it. */
static void poll_drain(void)
{
	eventfd_t count;
	DAT_EVENT event;

	(void)eventfd_read(wakeup, &count);
	DO(dat_cno_modify_agent(cno, agent));
	while (dat_evd_dequeue(evd, &event) == DAT_SUCCESS)
		poll_handle(&event);
}

/* Sends what there is on the standard input. Returns false at its end. */
static bool poll_send_input(void)
{
	const DAT_DTO_COOKIE cookie = { .as_64 = RECEIVES };
	ssize_t length = read(STDIN_FILENO, buffers[RECEIVES], SIZE);
	DAT_LMR_TRIPLET segment;

	if (length <= 0)
		return false;
	segment = poll_segment(RECEIVES, (size_t)length);
	DO(dat_ep_post_send(ep, 1, &segment, cookie, DAT_COMPLETION_DEFAULT_FLAG));
	sending = true; /* the buffer is the device's until the completion */
	return true;
}

static void poll_chat(void)
{
	struct pollfd fds[] = { { .fd = wakeup, .events = POLLIN }, { .events = POLLIN } };
	bool input = true;

	while (!ended) {
		fds[1].fd = connected && input && !sending ? STDIN_FILENO : -1;
		if (poll(fds, 2, -1) < 0)
			continue; /* a signal */
		if (fds[0].revents)
			poll_drain();
		else if (fds[1].revents && !poll_send_input()) {
			input = false;
			DO(dat_ep_disconnect(ep, DAT_CLOSE_GRACEFUL_FLAG));
		}
	}
}

int main(int argc, char **argv)
{
	DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;

	if (argc != 2 && argc != 3) {
		fputs("usage: poll SERVER-IA, or poll CLIENT-IA HOST\n", stderr);
		return 2;
	}
	poll_open(argv[1]);
	if (argc == 2)
		DO(dat_psp_create(ia, QUALIFIER, evd, DAT_PSP_CONSUMER_FLAG, &psp));
	else
		poll_connect(argv[2]);
	fputs("poll: ready\n", stderr);
	poll_chat();
	if (psp != DAT_HANDLE_NULL)
		DO(dat_psp_free(psp));
	DO(dat_ep_free(ep));
	DO(dat_evd_free(evd));
	DO(dat_cno_free(cno));
	DO(dat_lmr_free(lmr));
	DO(dat_pz_free(pz));
	DO(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
	close(wakeup);
	return 0;
}
