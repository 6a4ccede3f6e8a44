/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The server: one thread waits for clients, and each client has a session with a thread of its own,
 * so that clients can be served at once.
 */
#include "dapltest.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	CR_QLEN = 32,
};

static const struct origin server_origin = { .name = "Server", .lane = -1 };

struct server {
	const struct options *options;
	struct adapter adapter;
	DAT_EVD_HANDLE cr_evd;
	DAT_PSP_HANDLE psp;
	DAT_CONN_QUAL port;
	struct patience patience;
	atomic_bool stop; /* never set: Ctrl-C alone ends the wait early */
	atomic_bool quit; /* a client wants the end */
	atomic_bool failed;
	pthread_mutex_t lock;
	uint32_t next_port;	  /* lock; of the next test */
	struct session *sessions; /* of the first thread only */
};

struct session {
	struct session *next;
	struct server *server;
	struct control control;
	struct patience patience;
	atomic_bool stop;
	pthread_t thread;
	atomic_bool ended; /* its thread uses it no more */
};

/* ---- a session ---- */

/*
 * Ports are not used again at once, because connections of an earlier test may linger. The
 * qualifiers that another program has are skipped later.
 */
static uint32_t server_take_ports(struct server *server, uint32_t count)
{
	uint32_t first;

	pthread_mutex_lock(&server->lock);
	if (server->next_port + count > PORT_LAST + 1)
		server->next_port = LANE_PORT;
	first = server->next_port;
	server->next_port += count;
	pthread_mutex_unlock(&server->lock);
	return first;
}

/*
 * Keeps other sessions from the qualifiers of a test, if they were moved from @taken to @first,
 * which is a lower one after the last qualifier.
 */
static void server_pass_ports(struct server *server, uint32_t taken, uint32_t first, uint32_t count)
{
	pthread_mutex_lock(&server->lock);
	if (server->next_port < first + count || (first < taken && server->next_port > taken))
		server->next_port = first + count;
	pthread_mutex_unlock(&server->lock);
}

/*
 * Answers the client until it says that the test is over, or its last sign of life is too long ago.
 */
static int session_attend(struct session *session)
{
	struct message message;

	for (;;) {
		if (control_receive(&session->control, &message) < 0)
			return -1;
		if (message.kind == MESSAGE_DONE)
			return message.code == CODE_GOOD ? 0 : -1;
		if (!message.kind) /* which has been reported */
			return -1;
		if (message.kind != MESSAGE_PING) {
			report_failure(&session->control.channel.origin, "receive",
				       "message %d during the test", message.kind);
			return -1;
		}
		message = (struct message){ .kind = MESSAGE_PONG };
		if (control_send(&session->control, &message) < 0)
			return -1;
	}
}

/*
 * Sends the last message of a session. The client disconnects when it has it; if it can't be sent,
 * the session ends without it.
 */
static int session_send_last(struct session *session, const struct message *message)
{
	DAT_EVENT event;
	DAT_RETURN ret;

	if (control_send(&session->control, message) < 0)
		return -1;
	(void)event_wait(&session->patience, session->control.channel.connect_evd, PEER_TIMEOUT,
			 &event, &ret);
	return 0;
}

static int session_refuse(struct session *session, enum message_code code)
{
	const struct message answer = { .kind = MESSAGE_ANSWER, .code = code };

	(void)session_send_last(session, &answer);
	return -1;
}

static int session_send_result(struct session *session, const struct test *test, int result)
{
	struct message message = { .kind = MESSAGE_RESULT,
				   .code = result < 0 ? CODE_BAD : CODE_GOOD };

	for (unsigned i = 0; i < test->started; i++) {
		message.tally.requests += test->crews[i].tally.requests;
		message.tally.written += test->crews[i].tally.written;
		message.tally.read += test->crews[i].tally.read;
	}
	return session_send_last(session, &message);
}

static int session_run_test(struct session *session, struct test *test)
{
	const struct message answer = { .kind = MESSAGE_ANSWER, .port = test->port };
	int result = control_send(&session->control, &answer);

	if (result == 0)
		result = test_start(test);
	if (result < 0 || session_attend(session) < 0) {
		test_stop(test);
		result = -1;
	}
	/* a thread that did not come to its end by now will not: the client has come to its own */
	if (!test_wait(test, PEER_TIMEOUT))
		test_stop(test);
	return test_join(test) < 0 ? -1 : result;
}

static int session_test(struct session *session, const struct plan *plan)
{
	const uint32_t count = plan->threads * plan->lanes;
	const uint32_t taken = server_take_ports(session->server, count);
	struct test test = {
		.adapter = &session->server->adapter, .plan = plan, .server = true, .port = taken
	};
	int result;

	if (test_open(&test) < 0)
		return session_refuse(session, CODE_BAD);
	server_pass_ports(session->server, taken, test.port, count);
	result = session_run_test(session, &test);
	if (session_send_result(session, &test, result) < 0)
		result = -1;
	if (test_close(&test) < 0)
		result = -1;
	return result;
}

static int session_quit(struct session *session)
{
	const struct message answer = { .kind = MESSAGE_ANSWER };
	int result = session_send_last(session, &answer);

	atomic_store(&session->server->quit, true);
	return result;
}

/* Does what the client wants; @message becomes its first one. */
static int session_work(struct session *session, struct message *message)
{
	if (channel_expect_established(&session->control.channel) < 0 ||
	    control_receive(&session->control, message) < 0)
		return -1;
	if (!message->kind)
		return session_refuse(session, message->code);
	if (message->kind != MESSAGE_PLAN) {
		report_failure(&session->control.channel.origin, "receive",
			       "message %d before the plan", message->kind);
		return -1;
	}
	if (message->plan.mode == MODE_QUIT)
		return session_quit(session);
	return session_test(session, &message->plan);
}

static void session_report_end(enum mode mode, int result)
{
	if (result < 0)
		report("Server: the test of this client failed");
	else if (mode != MODE_QUIT)
		report("Server: %s Test Finished for this client",
		       mode == MODE_TRANSACTION ? "Transaction" : "Performance");
}

/*
 * What a session has is freed before anybody is told that it is over, so that clients one after the
 * other find a server that has not more than one of them needs.
 */
static void *session_main(void *argument)
{
	struct session *session = argument;
	struct message message = { .kind = 0 };
	int result = session_work(session, &message);

	channel_disconnect(&session->control.channel);
	if (control_free(&session->control) < 0)
		result = -1;
	if (result < 0)
		atomic_store(&session->server->failed, true);
	atomic_store(&session->ended, true);
	session_report_end(message.plan.mode, result);
	return NULL;
}

/* ---- the first thread ---- */

/*
 * Joins the threads of the sessions that have ended, or of all. They have freed the rest
 * themselves.
 */
static void server_collect_sessions(struct server *server, bool all)
{
	struct session **link = &server->sessions;

	while (*link) {
		struct session *session = *link;

		if (!all && !atomic_load(&session->ended)) {
			link = &session->next;
			continue;
		}
		*link = session->next;
		(void)pthread_join(session->thread, NULL);
		free(session);
	}
}

static int server_start_session(struct server *server, DAT_CR_HANDLE cr)
{
	struct session *session;

	server_collect_sessions(server, false);
	session = calloc(1, sizeof(*session));
	if (!session) {
		complain(DAPLTEST ": no memory for another client");
		goto reject;
	}
	session->server = server;
	session->patience = (struct patience){ .way = WAIT_EVD, .stop = &session->stop };
	if (control_create(&session->control, &server->adapter, &session->patience, "Server",
			   server->options->plan.qos) < 0)
		goto free_session;
	if (control_accept(&session->control, cr) < 0)
		goto free_control;
	if (pthread_create(&session->thread, NULL, session_main, session)) {
		complain(DAPLTEST ": no thread for another client");
		(void)control_free(&session->control);
		free(session);
		return -1;
	}
	session->next = server->sessions;
	server->sessions = session;
	return 0;
free_control:
	(void)control_free(&session->control);
free_session:
	free(session);
reject:
	(void)TRY_TOOL(&server_origin, "dat_cr_reject", tool_cr_reject, cr);
	return -1;
}

static int server_take_client(struct server *server, const DAT_EVENT *event)
{
	if (event->event_number != DAT_CONNECTION_REQUEST_EVENT) {
		report_failure(&server_origin, "dat_evd_wait", "%s",
			       tool_event_name(event->event_number));
		return -1;
	}
	if (tool_question_answer(event->event_data.cr_arrival_event_data.cr_handle))
		return 0;
	return server_start_session(server, event->event_data.cr_arrival_event_data.cr_handle);
}

/* It waits a moment at a time, because a client may ask for the end meanwhile. */
static int server_serve(struct server *server)
{
	bool announced = false;
	DAT_EVENT event;
	DAT_RETURN ret;

	while (!atomic_load(&server->quit)) {
		if (!announced)
			report("Dapltest: Service Point Ready - %s", server->options->ia_name);
		announced = true;
		switch (event_wait(&server->patience, server->cr_evd, event_moment, &event, &ret)) {
		case WAIT_EVENT:
			announced = false;
			if (server_take_client(server, &event) < 0)
				atomic_store(&server->failed, true);
			break;
		case WAIT_LATE:
			server_collect_sessions(server, false);
			break;
		case WAIT_STOPPED:
			complain(DAPLTEST ": interrupted");
			return -1;
		default:
			return report_call(&server_origin, "dat_evd_wait", ret);
		}
	}
	return 0;
}

/* Prints where the server listens, and how a client of it is started. */
static void server_invite(const struct server *server)
{
	const struct sockaddr *local = server->adapter.attr.ia_address_ptr;
	char address[NI_MAXHOST], port[32] = "";

	if (!local || tool_address_text(local, address, sizeof(address)) < 0)
		return;
	if (server->port != SERVER_PORT)
		(void)snprintf(port, sizeof(port), " -n %lu", (unsigned long)server->port);
	report("Dapltest: Service Point Address - %s", address);
	tool_address_cut(address);
	report("Dapltest: Client - %s -T P -s %s -D %s%s RW", program_invocation_short_name,
	       address, server->options->ia_name, port);
}

static int server_listen(struct server *server)
{
	const DAT_IA_HANDLE ia = server->adapter.ia;
	char text[TOOL_SENTENCE];
	const char *sentence;
	DAT_RETURN ret;

	server->port = server->options->port;
	if (server->port)
		ret = dat_psp_create(ia, server->port, server->cr_evd, DAT_PSP_CONSUMER_FLAG,
				     &server->psp);
	else
		ret = dat_psp_create_any(ia, &server->port, server->cr_evd, DAT_PSP_CONSUMER_FLAG,
					 &server->psp);
	if (ret != DAT_SUCCESS) {
		sentence = tool_listen_sentence(ret, server->port, text);
		complain(DAPLTEST ": %s",
			 sentence ? sentence : tool_return_text(ret, text, sizeof(text)));
		return -1;
	}
	if (server->port != SERVER_PORT)
		report("Dapltest: Service Point Port - %lu", (unsigned long)server->port);
	server_invite(server);
	server->next_port = server->port < PORT_LAST ? (uint32_t)server->port + 1 : LANE_PORT;
	return 0;
}

int server_run(const struct options *options)
{
	struct server server = { .options = options,
				 .patience = { .way = WAIT_EVD },
				 .lock = PTHREAD_MUTEX_INITIALIZER };
	int result = -1;

	server.patience.stop = &server.stop;
	if (adapter_open(&server.adapter, options->ia_name) < 0)
		return -1;
	if (TRY(&server_origin, dat_evd_create, server.adapter.ia, CR_QLEN, DAT_HANDLE_NULL,
		DAT_EVD_CR_FLAG, &server.cr_evd) < 0)
		goto close_adapter;
	if (server_listen(&server) < 0)
		goto free_cr_evd;
	result = server_serve(&server);
	if (TRY(&server_origin, dat_psp_free, server.psp) < 0)
		result = -1;
	server_collect_sessions(&server, true);
	report("DT_cs_Server (%s):  Exiting.", options->ia_name);
free_cr_evd:
	if (TRY(&server_origin, dat_evd_free, server.cr_evd) < 0)
		result = -1;
close_adapter:
	if (adapter_close(&server.adapter) < 0)
		result = -1;
	return atomic_load(&server.failed) ? -1 : result;
}
