/* SPDX-License-Identifier: BSD-2-Clause */
/* The client of a transaction or performance test, and what ends a server. */
#include "dapltest.h"

#include <netdb.h>
#include <string.h>

/* These count moments: a second, five seconds, and two, then twice that time and so on. */
enum {
	TICK = 5,
	PING_INTERVAL = 25,
	PROGRESS_FIRST = 10,
};

struct client {
	const struct options *options;
	struct plan plan;
	struct adapter adapter;
	struct sockaddr_storage address;
	atomic_bool stop;
	struct patience patience;
	struct control control;
	struct tally tally; /* of the server */
	bool over;	    /* the server has sent its last message, before it was asked to */
};

/* ---- before the test ---- */

static int client_find_server(struct client *client)
{
	const struct sockaddr *own = client->adapter.attr.ia_address_ptr;
	const char *problem = tool_address_find(client->options->host,
						own ? own->sa_family : AF_INET, &client->address);
	char text[NI_MAXHOST];

	if (problem) {
		complain(DAPLTEST ": %s: %s", client->options->host, problem);
		return -1;
	}
	report("Server Name: %s", client->options->host);
	if (tool_address_text((struct sockaddr *)&client->address, text, sizeof(text)) == 0)
		report("Server Net Address: %s", text);
	return 0;
}

/* Writes how many requests an endpoint without wishes may have in flight. */
static int client_endpoint_depth(struct client *client, unsigned *depth)
{
	const struct origin origin = { .name = "DT_cs_Client", .lane = -1 };
	const DAT_IA_HANDLE ia = client->adapter.ia;
	DAT_EVD_HANDLE dto_evd, connect_evd;
	DAT_PZ_HANDLE pz;
	DAT_EP_HANDLE ep;
	DAT_EP_PARAM param;
	int result = -1;

	if (TRY(&origin, dat_pz_create, ia, &pz) < 0)
		return -1;
	if (TRY(&origin, dat_evd_create, ia, 1, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &dto_evd) < 0)
		goto free_pz;
	if (TRY(&origin, dat_evd_create, ia, 1, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG,
		&connect_evd) < 0)
		goto free_dto_evd;
	if (TRY(&origin, dat_ep_create, ia, pz, dto_evd, dto_evd, connect_evd, NULL, &ep) < 0)
		goto free_connect_evd;
	result = TRY(&origin, dat_ep_query, ep, DAT_EP_FIELD_ALL, &param);
	if (result == 0)
		*depth = (unsigned)param.ep_attr.max_request_dtos;
	if (TRY(&origin, dat_ep_free, ep) < 0)
		result = -1;
free_connect_evd:
	if (TRY(&origin, dat_evd_free, connect_evd) < 0)
		result = -1;
free_dto_evd:
	if (TRY(&origin, dat_evd_free, dto_evd) < 0)
		result = -1;
free_pz:
	if (TRY(&origin, dat_pz_free, pz) < 0)
		result = -1;
	return result;
}

static int client_choose_pipeline(struct client *client)
{
	/* without those of the setup */
	const unsigned most = (unsigned)client->adapter.attr.max_dto_per_ep - 3;
	struct plan *plan = &client->plan;

	if (plan->mode != MODE_PERFORMANCE)
		return 0;
	if (plan->pipeline == 0 && client_endpoint_depth(client, &plan->pipeline) < 0)
		return -1;
	if (client->adapter.attr.max_dto_per_ep > 3 && plan->pipeline > most) {
		report("NOTE: the pipeline has %u requests, not %u, as the device allows", most,
		       plan->pipeline);
		plan->pipeline = most;
	}
	if (plan->pipeline > plan->iterations)
		plan->pipeline = plan->iterations;
	return 0;
}

/* A device that has too few segments would refuse an endpoint, but not say why. */
static int client_check_segments(const struct client *client)
{
	const DAT_IA_ATTR *attr = &client->adapter.attr;
	char text[64];

	for (unsigned i = 0; i < client->plan.op_count; i++) {
		const struct operation *op = &client->plan.ops[i];
		DAT_COUNT most = op->transfer == TRANSFER_READ &&
						 attr->max_iov_segments_per_rdma_read > 0
					 ? attr->max_iov_segments_per_rdma_read
					 : attr->max_iov_segments_per_dto;

		if (most > 0 && op->segments > (unsigned)most) {
			complain(DAPLTEST ": %s: this device takes %d segments at most",
				 operation_text(op, text, sizeof(text)), most);
			return -1;
		}
	}
	return 0;
}

static int client_connect(struct client *client)
{
	const struct target target = { .address = (struct sockaddr *)&client->address,
				       .port = client->options->port,
				       .qos = client->plan.qos };

	if (control_connect(&client->control, &target) < 0)
		return -1;
	report("DT_cs_Client: Starting Test ... ");
	return 0;
}

/* ---- messages ---- */

static int client_expect(struct client *client, enum message_kind kind, struct message *message)
{
	do
		if (control_receive(&client->control, message) < 0)
			return -1;
	while (message->kind == MESSAGE_PONG && kind == MESSAGE_RESULT); /* from before an end */
	if (message->kind == kind)
		return 0;
	client->over = message->kind == MESSAGE_RESULT;
	if (message->kind) /* else what is wrong with it has been reported */
		complain(DAPLTEST ": the server sent message %d, not %d", message->kind, kind);
	return -1;
}

/* Tells the server what to do. *port becomes where its first lane is. */
static int client_send_plan(struct client *client, uint32_t *port)
{
	struct message message = { .kind = MESSAGE_PLAN, .plan = client->plan };

	if (control_send(&client->control, &message) < 0 ||
	    client_expect(client, MESSAGE_ANSWER, &message) < 0)
		return -1;
	if (message.code == CODE_VERSION)
		report("DAPLTEST VERSION MISMATCH");
	else if (message.code != CODE_GOOD)
		complain(DAPLTEST ": the server can't do this test; its output tells why");
	if (message.code != CODE_GOOD)
		return -1;
	*port = message.port;
	return 0;
}

static int client_ping(struct client *client)
{
	struct message message = { .kind = MESSAGE_PING };

	if (control_send(&client->control, &message) < 0)
		return -1;
	return client_expect(client, MESSAGE_PONG, &message);
}

/* The test is over here. Returns how it went at the server. */
static int client_finish(struct client *client, int own_result)
{
	struct message message = { .kind = MESSAGE_DONE,
				   .code = own_result < 0 ? CODE_BAD : CODE_GOOD };

	if (client->over)
		message.code = CODE_BAD;
	else if (control_send(&client->control, &message) < 0 ||
		 client_expect(client, MESSAGE_RESULT, &message) < 0)
		return -1;
	if (message.code != CODE_GOOD) {
		complain(DAPLTEST ": the test failed at the server; its output tells why");
		return -1;
	}
	client->tally = message.tally;
	return 0;
}

/* ---- during the test ---- */

static void progress_print(const struct test *test, double seconds)
{
	const uint64_t total = (uint64_t)test->plan->iterations * test->plan->threads;
	uint64_t done = 0;

	for (unsigned i = 0; i < test->started; i++)
		done += atomic_load_explicit(&test->crews[i].iterations, memory_order_relaxed);
	report("DT_cs_Client: %llu of %llu iterations, %llu %%, after %.0f seconds",
	       (unsigned long long)done, (unsigned long long)total,
	       (unsigned long long)(100 * done / total), seconds);
}

/* The pings show the server, and the answers show the client, that the other one still works. */
static int client_attend(struct client *client, struct test *test)
{
	const double moment = event_moment;
	double begun = tool_usec_now();
	double next_ping = PING_INTERVAL * moment, next_print = PROGRESS_FIRST * moment;

	while (!test_wait(test, TICK * event_moment)) {
		double passed = tool_usec_now() - begun;

		if (passed >= next_print) {
			progress_print(test, passed / 1e6);
			next_print *= 2;
		}
		if (passed < next_ping || patience_ended(&client->patience))
			continue;
		next_ping += PING_INTERVAL * moment;
		if (client_ping(client) < 0) {
			test_stop(test);
			return -1;
		}
	}
	return 0;
}

static int client_run_threads(struct client *client, struct test *test)
{
	int result = test_start(test);

	if (client_attend(client, test) < 0)
		result = -1;
	return test_join(test) < 0 ? -1 : result;
}

static void client_print(const struct client *client, const struct test *test)
{
	if (client->plan.mode == MODE_TRANSACTION)
		transaction_print(test, &client->tally);
	else
		performance_print(test);
}

static int client_test(struct client *client, uint32_t port, struct card *card)
{
	struct test test = { .adapter = &client->adapter,
			     .plan = &client->plan,
			     .address = (struct sockaddr *)&client->address,
			     .port = port,
			     .card = card };
	int result;

	if (test_open(&test) < 0) {
		(void)client_finish(client, -1);
		return -1;
	}
	result = client_run_threads(client, &test);
	if (client_finish(client, result) < 0)
		result = -1;
	if (result == 0)
		client_print(client, &test);
	if (test_close(&test) < 0)
		result = -1;
	return result;
}

static int client_work(struct client *client)
{
	struct card card;
	uint32_t port;
	int result;

	if (client_send_plan(client, &port) < 0)
		return -1;
	if (client->plan.mode == MODE_QUIT)
		return 0;
	if (card_create(&card, client->plan.iterations) < 0)
		return -1;
	result = client_test(client, port, &card);
	card_destroy(&card);
	return result;
}

/* The end is no failure of the test, unless it was Ctrl-C. */
static int client_result(int result)
{
	if (interrupted)
		complain(DAPLTEST ": interrupted");
	report("DT_cs_Client: ========== End of Work -- Client Exiting");
	return interrupted ? -1 : result;
}

int client_run(const struct options *options)
{
	struct client client = { .options = options,
				 .plan = options->plan,
				 .patience = { .way = WAIT_EVD } };
	int result = -1;

	client.patience.stop = &client.stop;
	if (adapter_open(&client.adapter, options->ia_name) < 0)
		return -1;
	if (client_find_server(&client) < 0 || client_check_segments(&client) < 0 ||
	    client_choose_pipeline(&client) < 0 ||
	    control_create(&client.control, &client.adapter, &client.patience, "DT_cs_Client",
			   options->plan.qos) < 0)
		goto close_adapter;
	if (client_connect(&client) == 0)
		result = client_result(client_work(&client));
	channel_disconnect(&client.control.channel);
	if (control_free(&client.control) < 0)
		result = -1;
close_adapter:
	if (adapter_close(&client.adapter) < 0)
		result = -1;
	return result;
}
