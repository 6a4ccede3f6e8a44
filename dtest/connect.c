/* SPDX-License-Identifier: BSD-2-Clause */
/* The connection, from its request to ESTABLISHED, and from there to DISCONNECTED. */
#include "dtest.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
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

DAT_TIMEOUT dtest_wait_limit(const struct dtest *t, unsigned seconds)
{
	return (t->opt.wait ? t->opt.wait : seconds) * 1000000;
}

static struct tool_attempt dtest_attempt(const struct dtest *t)
{
	return (struct tool_attempt){
		.local = t->local.ss_family ? (const struct sockaddr *)&t->local : NULL,
		.server = (const struct sockaddr *)&t->remote,
		.port = t->opt.port,
		.timeout = dtest_wait_limit(t, CONNECT_WAIT),
		.one_client = true,
	};
}

/* @wanted tells an attempt from a connection: what ends the one has other reasons. */
static void dtest_explain_event(const struct dtest *t, DAT_EVENT_NUMBER wanted,
				DAT_EVENT_NUMBER number)
{
	const struct tool_attempt attempt = dtest_attempt(t);
	char text[TOOL_SENTENCE];

	if (wanted == DAT_CONNECTION_EVENT_ESTABLISHED && !t->server)
		dtest_explain(tool_attempt_sentence(number, &attempt, text));
	else
		dtest_explain(tool_end_sentence(number, text));
}

static int dtest_expect_connection_event(struct dtest *t, DAT_EVENT_NUMBER wanted,
					 DAT_TIMEOUT timeout, DAT_EVENT *event)
{
	if (dtest_event_wait(t->connect_evd, timeout, event) < 0)
		return -1;
	if (event->event_number != wanted) {
		dtest_error("dat_evd_wait", "%s instead of %s",
			    tool_event_name(event->event_number), tool_event_name(wanted));
		dtest_explain_event(t, wanted, event->event_number);
		return -1;
	}
	if (event->event_data.connect_event_data.ep_handle != t->ep) {
		dtest_error("dat_evd_wait", "%s of another endpoint", tool_event_name(wanted));
		return -1;
	}
	return 0;
}

static int dtest_check_request(const struct dtest *t, const DAT_CR_ARRIVAL_EVENT_DATA *request)
{
	if (request->conn_qual != t->opt.port) {
		dtest_error("dat_evd_wait", "request for qualifier %" PRIu64 " instead of %u",
			    request->conn_qual, t->opt.port);
		return -1;
	}
	if (request->sp_handle.psp_handle != t->psp) {
		dtest_error("dat_evd_wait", "request of another service point");
		return -1;
	}
	return 0;
}

/* A client that says nothing about its parameters is not told ours. */
static int dtest_answer_request(struct dtest *t, DAT_CR_HANDLE cr)
{
	struct dtest_hello hello = dtest_hello_make(t);
	DAT_CR_PARAM param;
	DAT_COUNT size;

	if (CALL(dat_cr_query, cr, DAT_CR_FIELD_ALL, &param) < 0)
		return -1;
	dtest_hello_read(t, param.private_data, param.private_data_size);
	size = dtest_hello_known(t) ? (DAT_COUNT)sizeof(hello) : 0;
	for (unsigned left = t->opt.delay; left > 0; left = sleep(left))
		;
	return CALL(dat_cr_accept, cr, t->ep, size, size ? &hello : NULL);
}

/* Where the server listens, and how a client of it is started: an IA has one address, as a rule. */
static void dtest_print_invitation(const struct dtest *t)
{
	const struct dtest_hello hello = dtest_hello_make(t);
	char address[NI_MAXHOST], port[16] = "";

	if (tool_address_text((const struct sockaddr *)&t->local, address, sizeof(address)) < 0)
		return;
	if (t->opt.port != PORT)
		(void)snprintf(port, sizeof(port), "-n %u ", t->opt.port);
	dtest_print("Server listens at %s port %u", address, t->opt.port);
	tool_address_cut(address);
	dtest_print("Client: %s -P %s -h %s %s%s", program_invocation_short_name, t->opt.ia_name,
		    address, port, dtest_hello_text(&hello).text);
}

/* Of datinfo --peer. */
static bool dtest_is_question(const DAT_EVENT *event)
{
	if (event->event_number != DAT_CONNECTION_REQUEST_EVENT ||
	    !tool_question_answer(event->event_data.cr_arrival_event_data.cr_handle))
		return false;
	dtest_print("datinfo has asked whether this server can be reached");
	return true;
}

static int dtest_wait_for_request(struct dtest *t, DAT_EVENT *event)
{
	const DAT_TIMEOUT limit = dtest_wait_limit(t, REQUEST_WAIT);
	const double deadline = tool_usec_now() + limit;
	const struct tool_attempt attempt = dtest_attempt(t);
	char text[TOOL_SENTENCE];
	double left = limit;

	dtest_print_invitation(t);
	dtest_print("Server waiting for connect request..");
	while (dtest_event_wait(t->cr_evd, left > 0 ? (DAT_TIMEOUT)left : 0, event) == 0) {
		if (!dtest_is_question(event))
			return 0;
		left = deadline - tool_usec_now();
	}
	if (!tool_interface_sentence(attempt.local, true, text))
		(void)snprintf(text, sizeof(text), "no client has come within %u s",
			       limit / 1000000);
	dtest_explain(text);
	return -1;
}

static int dtest_accept_request(struct dtest *t)
{
	const DAT_CR_ARRIVAL_EVENT_DATA *request;
	DAT_EVENT event;

	if (dtest_wait_for_request(t, &event) < 0)
		return -1;
	if (event.event_number != DAT_CONNECTION_REQUEST_EVENT) {
		dtest_error("dat_evd_wait", "%s instead of a connection request",
			    tool_event_name(event.event_number));
		return -1;
	}
	request = &event.event_data.cr_arrival_event_data;
	if (dtest_check_request(t, request) == 0 &&
	    dtest_answer_request(t, request->cr_handle) == 0)
		return 0;
	/* without a reject the client would wait until its time-out */
	(void)CALL_TOOL("dat_cr_reject", tool_cr_reject, request->cr_handle);
	return -1;
}

/* A second client is told so at once; else it would wait until its time-out. */
static int dtest_take_no_other(struct dtest *t)
{
	DAT_EVENT event;

	if (dtest_psp_free(t) < 0)
		return -1;
	while (dat_evd_dequeue(t->cr_evd, &event) == DAT_SUCCESS)
		if (event.event_number == DAT_CONNECTION_REQUEST_EVENT)
			(void)CALL_TOOL("dat_cr_reject", tool_cr_reject,
					event.event_data.cr_arrival_event_data.cr_handle);
	return 0;
}

static int dtest_find_server(struct dtest *t)
{
	const struct sockaddr *remote = (const struct sockaddr *)&t->remote;
	const char *reason = tool_address_find(t->opt.host, t->local.ss_family, &t->remote);
	char text[NI_MAXHOST];

	if (reason) {
		dtest_error("getaddrinfo", "%s: %s", t->opt.host, reason);
		return -1;
	}
	if (tool_address_text(remote, text, sizeof(text)) < 0) {
		dtest_error("getnameinfo", "no text for the address of %s", t->opt.host);
		return -1;
	}
	dtest_print("Server Name: %s", t->opt.host);
	dtest_print("Server Net Address: %s", text);
	return 0;
}

static int dtest_send_request(struct dtest *t)
{
	struct dtest_hello hello = dtest_hello_make(t);
	struct tool_attempt attempt;
	char text[TOOL_SENTENCE];
	DAT_RETURN ret;

	if (dtest_find_server(t) < 0)
		return -1;
	attempt = dtest_attempt(t);
	dtest_call_begin("dat_ep_connect");
	ret = dat_ep_connect(t->ep, (struct sockaddr *)&t->remote, t->opt.port, attempt.timeout,
			     t->opt.old ? 0 : sizeof(hello), t->opt.old ? NULL : &hello,
			     DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
	if (dtest_call_end("dat_ep_connect", ret) < 0) {
		dtest_explain(tool_connect_sentence(ret, &attempt, text));
		return -1;
	}
	dtest_print("Waiting for connect response");
	return 0;
}

/*
 * Each side knows the parameters of the other: the client from the event, the server from the
 * request. The server leaves it to the client to disconnect, which needs the connection to learn
 * why it ends; but an older client does not know.
 */
static int dtest_compare_parameters(struct dtest *t, const DAT_CONNECTION_EVENT_DATA *established)
{
	DAT_EVENT event;

	if (!t->server)
		dtest_hello_read(t, established->private_data, established->private_data_size);
	if (dtest_hello_check(t) == 0)
		return 0;
	if ((t->server && dtest_hello_known(t)) ||
	    CALL(dat_ep_disconnect, t->ep, DAT_CLOSE_DEFAULT) == 0)
		(void)dtest_event_wait(t->connect_evd, dtest_wait_limit(t, CONNECT_WAIT), &event);
	return -1;
}

/*
 * The wait needs no time-out: dat_ep_connect has one on the client, and the attempt that ends there
 * ends the accept of the server.
 */
int dtest_connect(struct dtest *t)
{
	DAT_EVENT event;

	if ((t->server ? dtest_accept_request(t) : dtest_send_request(t)) < 0)
		return -1;
	if (dtest_expect_connection_event(t, DAT_CONNECTION_EVENT_ESTABLISHED, DAT_TIMEOUT_INFINITE,
					  &event) < 0)
		return -1;
	if (t->server && dtest_take_no_other(t) < 0)
		return -1;
	if (dtest_compare_parameters(t, &event.event_data.connect_event_data) < 0)
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
	dtest_print("Query EP: %s addr %s port %" PRIu64, side, text, port);
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

bool dtest_connection_ended(struct dtest *t, DAT_TIMEOUT timeout)
{
	char text[TOOL_SENTENCE];
	const char *sentence;
	DAT_EVENT event;
	DAT_COUNT more;

	if (t->ended)
		return true;
	if (dat_evd_wait(t->connect_evd, timeout, 1, &event, &more) != DAT_SUCCESS)
		return false;
	sentence = tool_end_sentence(event.event_number, text);
	t->ended = t->told = sentence;
	dtest_explain(sentence);
	return t->ended;
}

/*
 * After a run that passed the client disconnects, and the server waits for that. After a failure
 * the side that noticed it disconnects at once, so that the other does not wait for data that will
 * not come; any event may follow then.
 */
int dtest_disconnect(struct dtest *t)
{
	const DAT_TIMEOUT limit = dtest_wait_limit(t, REQUEST_WAIT);
	DAT_EVENT event;

	if (t->ended)
		return 0;
	if ((t->failed || !t->server) && CALL(dat_ep_disconnect, t->ep, DAT_CLOSE_DEFAULT) < 0)
		return -1;
	if (t->failed)
		return dtest_event_wait(t->connect_evd, limit, &event);
	return dtest_expect_connection_event(t, DAT_CONNECTION_EVENT_DISCONNECTED, limit, &event);
}
