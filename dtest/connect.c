/* SPDX-License-Identifier: BSD-2-Clause */
/* From a connection request to ESTABLISHED, and from there to DISCONNECTED. */
#include "dtest.h"

#include <netdb.h>
#include <string.h>
#include <unistd.h>

/* Takes one event within timeout microseconds, a signal or not. */
int event_wait(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout, DAT_EVENT *event)
{
	double deadline = usec_now() + timeout, left;
	DAT_TIMEOUT usec = timeout;
	DAT_COUNT more;
	DAT_RETURN ret;

	call_begins("dat_evd_wait");
	for (;;) {
		ret = dat_evd_wait(evd, usec, 1, event, &more);
		if (DAT_GET_TYPE(ret) != DAT_INTERRUPTED_CALL)
			return call_ended("dat_evd_wait", ret);
		if (timeout == DAT_TIMEOUT_INFINITE)
			continue;
		left = deadline - usec_now();
		usec = left > 0 ? (DAT_TIMEOUT)left : 0;
	}
}

static int connection_event(struct dtest *t, DAT_EVENT_NUMBER wanted, DAT_TIMEOUT timeout)
{
	DAT_EVENT event;

	if (event_wait(t->connect_evd, timeout, &event) < 0)
		return -1;
	if (event.event_number != wanted) {
		complain("dat_evd_wait", "%s instead of %s", event_name(event.event_number),
			 event_name(wanted));
		return -1;
	}
	if (event.event_data.connect_event_data.ep_handle != t->ep) {
		complain("dat_evd_wait", "%s of another endpoint", event_name(wanted));
		return -1;
	}
	return 0;
}

static int request_check(const struct dtest *t, const DAT_CR_ARRIVAL_EVENT_DATA *request)
{
	if (request->conn_qual != CONN_QUAL) {
		complain("dat_evd_wait", "request for qualifier %lu instead of %d",
			 request->conn_qual, CONN_QUAL);
		return -1;
	}
	if (request->sp_handle.psp_handle != t->psp) {
		complain("dat_evd_wait", "request of another service point");
		return -1;
	}
	return 0;
}

static int request_accept(struct dtest *t)
{
	const DAT_CR_ARRIVAL_EVENT_DATA *request;
	DAT_EVENT event;
	unsigned left;

	say("Server waiting for connect request..");
	if (event_wait(t->cr_evd, REQUEST_TIMEOUT, &event) < 0)
		return -1;
	if (event.event_number != DAT_CONNECTION_REQUEST_EVENT) {
		complain("dat_evd_wait", "%s instead of a connection request",
			 event_name(event.event_number));
		return -1;
	}
	request = &event.event_data.cr_arrival_event_data;
	if (request_check(t, request) < 0)
		goto reject;
	for (left = t->opt.delay; left > 0; left = sleep(left))
		;
	if (CALL(dat_cr_accept, request->cr_handle, t->ep, 0, NULL) < 0)
		goto reject;
	return 0;
reject:
	/* or the client would sit out its time-out */
	(void)CALL(dat_cr_reject, request->cr_handle);
	return -1;
}

/*
 * A host may have addresses of both families, an IA has one: the first of the IA's family, else the
 * last.
 */
static int server_address(struct dtest *t, struct sockaddr_storage *address)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	const struct addrinfo *chosen;
	struct addrinfo *list;
	DAT_IA_ATTR attr = { .ia_address_ptr = NULL };
	int error;

	if (CALL(dat_ia_query, t->ia, NULL, DAT_IA_FIELD_IA_ADDRESS_PTR, &attr, 0, NULL) < 0)
		return -1;
	error = getaddrinfo(t->opt.host, NULL, &hints, &list);
	if (error) {
		complain("getaddrinfo", "%s: %s", t->opt.host, gai_strerror(error));
		return -1;
	}
	chosen = list;
	while (chosen->ai_next && attr.ia_address_ptr &&
	       chosen->ai_family != attr.ia_address_ptr->sa_family)
		chosen = chosen->ai_next;
	memcpy(address, chosen->ai_addr, chosen->ai_addrlen);
	freeaddrinfo(list);
	return 0;
}

static int request_send(struct dtest *t)
{
	struct sockaddr_storage address;
	struct sockaddr *remote = (struct sockaddr *)&address;
	char text[NI_MAXHOST];

	if (server_address(t, &address) < 0)
		return -1;
	if (address_text(remote, text, sizeof(text)) < 0) {
		complain("getnameinfo", "no text for the address of %s", t->opt.host);
		return -1;
	}
	say("Server Name: %s", t->opt.host);
	say("Server Net Address: %s", text);
	if (CALL(dat_ep_connect, t->ep, remote, CONN_QUAL, CONNECT_TIMEOUT, 0, NULL,
		 DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG) < 0)
		return -1;
	say("Waiting for connect response");
	return 0;
}

/*
 * No limit here: the client's connect carries one, and the server's accept ends with the client's
 * attempt.
 */
int connection_open(struct dtest *t)
{
	if ((t->server ? request_accept(t) : request_send(t)) < 0)
		return -1;
	if (connection_event(t, DAT_CONNECTION_EVENT_ESTABLISHED, DAT_TIMEOUT_INFINITE) < 0)
		return -1;
	say("CONNECTED!");
	return 0;
}

static int address_say(const char *side, const struct sockaddr *address, DAT_PORT_QUAL port)
{
	char text[NI_MAXHOST];

	if (!address || address_text(address, text, sizeof(text)) < 0) {
		complain("dat_ep_query", "no %s address", side);
		return -1;
	}
	say("Query EP: %s addr %s port %lu", side, text, port);
	return 0;
}

int addresses_print(struct dtest *t)
{
	DAT_EP_PARAM param;

	if (CALL(dat_ep_query, t->ep, DAT_EP_FIELD_ALL, &param) < 0)
		return -1;
	if (address_say("LOCAL", param.local_ia_address_ptr, param.local_port_qual) < 0)
		return -1;
	return address_say("REMOTE", param.remote_ia_address_ptr, param.remote_port_qual);
}

/*
 * After a good run the client hangs up, and the server waits for that as long as it takes. After a
 * bad one either side hangs up at once, so that the other doesn't wait for data that will not come,
 * and whichever event follows is right.
 */
int connection_close(struct dtest *t)
{
	DAT_EVENT event;

	if ((t->failed || !t->server) && CALL(dat_ep_disconnect, t->ep, DAT_CLOSE_DEFAULT) < 0)
		return -1;
	if (t->failed)
		return event_wait(t->connect_evd, DTO_TIMEOUT, &event);
	return connection_event(t, DAT_CONNECTION_EVENT_DISCONNECTED, DAT_TIMEOUT_INFINITE);
}
