/* SPDX-License-Identifier: BSD-2-Clause */
/* The connection: from its request to ESTABLISHED, and from there to DISCONNECTED. */
#include "dtest.h"

#include <netdb.h>
#include <string.h>
#include <unistd.h>

/* Waits for one event, timeout microseconds at most; a signal does not end the wait. */
int dtest_event_wait(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout, DAT_EVENT *event)
{
	double deadline = tool_usec_now() + timeout, left;
	DAT_TIMEOUT usec = timeout;
	DAT_COUNT more;
	DAT_RETURN ret;

	dtest_call_begin("dat_evd_wait");
	for (;;) {
		ret = dat_evd_wait(evd, usec, 1, event, &more);
		if (DAT_GET_TYPE(ret) != DAT_INTERRUPTED_CALL)
			return dtest_call_end("dat_evd_wait", ret);
		if (timeout == DAT_TIMEOUT_INFINITE)
			continue;
		left = deadline - tool_usec_now();
		usec = left > 0 ? (DAT_TIMEOUT)left : 0;
	}
}

static int dtest_expect_connection_event(struct dtest *t, DAT_EVENT_NUMBER wanted,
					 DAT_TIMEOUT timeout)
{
	DAT_EVENT event;

	if (dtest_event_wait(t->connect_evd, timeout, &event) < 0)
		return -1;
	if (event.event_number != wanted) {
		dtest_error("dat_evd_wait", "%s instead of %s", tool_event_name(event.event_number),
			    tool_event_name(wanted));
		return -1;
	}
	if (event.event_data.connect_event_data.ep_handle != t->ep) {
		dtest_error("dat_evd_wait", "%s of another endpoint", tool_event_name(wanted));
		return -1;
	}
	return 0;
}

static int dtest_check_request(const struct dtest *t, const DAT_CR_ARRIVAL_EVENT_DATA *request)
{
	if (request->conn_qual != CONN_QUAL) {
		dtest_error("dat_evd_wait", "request for qualifier %lu instead of %d",
			    request->conn_qual, CONN_QUAL);
		return -1;
	}
	if (request->sp_handle.psp_handle != t->psp) {
		dtest_error("dat_evd_wait", "request of another service point");
		return -1;
	}
	return 0;
}

static int dtest_accept_request(struct dtest *t)
{
	const DAT_CR_ARRIVAL_EVENT_DATA *request;
	DAT_EVENT event;
	unsigned left;

	dtest_print("Server waiting for connect request..");
	if (dtest_event_wait(t->cr_evd, REQUEST_TIMEOUT, &event) < 0)
		return -1;
	if (event.event_number != DAT_CONNECTION_REQUEST_EVENT) {
		dtest_error("dat_evd_wait", "%s instead of a connection request",
			    tool_event_name(event.event_number));
		return -1;
	}
	request = &event.event_data.cr_arrival_event_data;
	if (dtest_check_request(t, request) < 0)
		goto reject;
	for (left = t->opt.delay; left > 0; left = sleep(left))
		;
	if (CALL(dat_cr_accept, request->cr_handle, t->ep, 0, NULL) < 0)
		goto reject;
	return 0;
reject:
	/* without a reject the client would wait until its time-out */
	(void)CALL(dat_cr_reject, request->cr_handle);
	return -1;
}

/* The host's address of the family that the IA's address has. */
static int dtest_server_address(struct dtest *t, struct sockaddr_storage *address)
{
	DAT_IA_ATTR attr = { .ia_address_ptr = NULL };
	const char *reason;

	if (CALL(dat_ia_query, t->ia, NULL, DAT_IA_FIELD_IA_ADDRESS_PTR, &attr, 0, NULL) < 0)
		return -1;
	reason = tool_address_find(t->opt.host,
				   attr.ia_address_ptr ? attr.ia_address_ptr->sa_family : AF_UNSPEC,
				   address);
	if (!reason)
		return 0;
	dtest_error("getaddrinfo", "%s: %s", t->opt.host, reason);
	return -1;
}

static int dtest_send_request(struct dtest *t)
{
	struct sockaddr_storage address;
	struct sockaddr *remote = (struct sockaddr *)&address;
	char text[NI_MAXHOST];

	if (dtest_server_address(t, &address) < 0)
		return -1;
	if (tool_address_text(remote, text, sizeof(text)) < 0) {
		dtest_error("getnameinfo", "no text for the address of %s", t->opt.host);
		return -1;
	}
	dtest_print("Server Name: %s", t->opt.host);
	dtest_print("Server Net Address: %s", text);
	if (CALL(dat_ep_connect, t->ep, remote, CONN_QUAL, CONNECT_TIMEOUT, 0, NULL,
		 DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG) < 0)
		return -1;
	dtest_print("Waiting for connect response");
	return 0;
}

/*
 * The wait needs no time-out: dat_ep_connect has one on the client, and the attempt that ends there
 * ends the accept of the server.
 */
int dtest_connect(struct dtest *t)
{
	if ((t->server ? dtest_accept_request(t) : dtest_send_request(t)) < 0)
		return -1;
	if (dtest_expect_connection_event(t, DAT_CONNECTION_EVENT_ESTABLISHED,
					  DAT_TIMEOUT_INFINITE) < 0)
		return -1;
	dtest_print("CONNECTED!");
	return 0;
}

static int dtest_print_address(const char *side, const struct sockaddr *address, DAT_PORT_QUAL port)
{
	char text[NI_MAXHOST];

	if (!address || tool_address_text(address, text, sizeof(text)) < 0) {
		dtest_error("dat_ep_query", "no %s address", side);
		return -1;
	}
	dtest_print("Query EP: %s addr %s port %lu", side, text, port);
	return 0;
}

int dtest_print_addresses(struct dtest *t)
{
	DAT_EP_PARAM param;

	if (CALL(dat_ep_query, t->ep, DAT_EP_FIELD_ALL, &param) < 0)
		return -1;
	if (dtest_print_address("LOCAL", param.local_ia_address_ptr, param.local_port_qual) < 0)
		return -1;
	return dtest_print_address("REMOTE", param.remote_ia_address_ptr, param.remote_port_qual);
}

/*
 * After a run that passed the client disconnects, and the server waits for that without limit.
 * After a failure the side that noticed it disconnects at once, so that the other does not wait for
 * data that will not come; any event may follow then.
 */
int dtest_disconnect(struct dtest *t)
{
	DAT_EVENT event;

	if ((t->failed || !t->server) && CALL(dat_ep_disconnect, t->ep, DAT_CLOSE_DEFAULT) < 0)
		return -1;
	if (t->failed)
		return dtest_event_wait(t->connect_evd, DTO_TIMEOUT, &event);
	return dtest_expect_connection_event(t, DAT_CONNECTION_EVENT_DISCONNECTED,
					     DAT_TIMEOUT_INFINITE);
}
