/* SPDX-License-Identifier: BSD-2-Clause */
/* The DAT objects of one connection, from the adapter to a completion. */
#include "dapltest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	ASYNC_QLEN = 8,
	CONNECT_QLEN = 8,
};

/* ---- adapter ---- */

static const struct origin adapter_origin = { .name = DAPLTEST, .lane = -1 };

int adapter_open(struct adapter *adapter, char *name)
{
	char text[TOOL_SENTENCE];
	const char *sentence;
	DAT_RETURN ret;

	adapter->async_evd = DAT_HANDLE_NULL;
	ret = dat_ia_open(name, ASYNC_QLEN, &adapter->async_evd, &adapter->ia);
	if (ret != DAT_SUCCESS) {
		sentence = tool_open_sentence(ret, name, text);
		complain(DAPLTEST ": dat_ia_open %s: %s", name,
			 sentence ? sentence : tool_return_text(ret, text, sizeof(text)));
		return -1;
	}
	memset(&adapter->attr, 0, sizeof(adapter->attr));
	if (TRY(&adapter_origin, dat_ia_query, adapter->ia, NULL, DAT_IA_FIELD_ALL, &adapter->attr,
		0, NULL) < 0)
		goto close_ia;
	return 0;
close_ia:
	(void)dat_ia_close(adapter->ia, DAT_CLOSE_ABRUPT_FLAG);
	return -1;
}

/* The close is graceful, which fails if anything was not freed. */
int adapter_close(struct adapter *adapter)
{
	if (TRY(&adapter_origin, dat_ia_close, adapter->ia, DAT_CLOSE_GRACEFUL_FLAG) == 0)
		return 0;
	(void)dat_ia_close(adapter->ia, DAT_CLOSE_ABRUPT_FLAG);
	return -1;
}

/* ---- memory ---- */

int memory_create(struct memory *memory, const struct adapter *adapter, DAT_PZ_HANDLE pz,
		  const struct origin *origin, size_t size)
{
	int error;

	error = posix_memalign((void **)&memory->at, DAT_OPTIMAL_ALIGNMENT, size);
	if (error) {
		report_failure(origin, "posix_memalign", "%zu bytes: %s", size, strerror(error));
		return -1;
	}
	memory->size = size;
	memset(memory->at, 0, size);
	if (TRY_TOOL(origin, "dat_lmr_create", tool_lmr_create, adapter->ia, memory->at, size, pz,
		     DAT_MEM_PRIV_ALL_FLAG, &memory->lmr, &memory->lmr_context,
		     &memory->rmr_context) < 0)
		goto free_memory;
	return 0;
free_memory:
	free(memory->at);
	return -1;
}

int memory_free(struct memory *memory, const struct origin *origin)
{
	if (TRY(origin, dat_lmr_free, memory->lmr) < 0)
		return -1; /* still registered: the device may access the memory until the exit */
	free(memory->at);
	return 0;
}

DAT_LMR_TRIPLET memory_segment(const struct memory *memory, size_t offset, size_t length)
{
	return (DAT_LMR_TRIPLET){ .lmr_context = memory->lmr_context,
				  .virtual_address = (DAT_VADDR)(uintptr_t)(memory->at + offset),
				  .segment_length = length };
}

static unsigned char pattern_byte(size_t at, unsigned seed)
{
	return (unsigned char)(at * 7 + at / 251 + seed * 13 + (seed >> 8));
}

void pattern_fill(unsigned char *at, size_t size, unsigned seed)
{
	for (size_t i = 0; i < size; i++)
		at[i] = pattern_byte(i, seed);
}

ptrdiff_t pattern_check(const unsigned char *at, size_t size, unsigned seed)
{
	for (size_t i = 0; i < size; i++)
		if (at[i] != pattern_byte(i, seed))
			return (ptrdiff_t)i;
	return -1;
}

/* ---- channel ---- */

DAT_TIMEOUT retry_pause = 1000 * 1000;

int channel_create(struct channel *channel, DAT_PZ_HANDLE pz, const DAT_EP_ATTR *attr)
{
	const DAT_CNO_HANDLE cno = channel->patience->cno;
	const DAT_IA_HANDLE ia = channel->adapter->ia;
	const struct origin *origin = &channel->origin;

	if (TRY(origin, dat_evd_create, ia, CONNECT_QLEN, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG,
		&channel->connect_evd) < 0)
		return -1;
	if (TRY(origin, dat_evd_create, ia, attr->max_recv_dtos, cno, DAT_EVD_DTO_FLAG,
		&channel->recv_evd) < 0)
		goto free_connect_evd;
	if (TRY(origin, dat_evd_create, ia, attr->max_request_dtos, cno, DAT_EVD_DTO_FLAG,
		&channel->request_evd) < 0)
		goto free_recv_evd;
	if (TRY(origin, dat_ep_create, ia, pz, channel->recv_evd, channel->request_evd,
		channel->connect_evd, attr, &channel->ep) < 0)
		goto free_request_evd;
	return 0;
free_request_evd:
	(void)TRY(origin, dat_evd_free, channel->request_evd);
free_recv_evd:
	(void)TRY(origin, dat_evd_free, channel->recv_evd);
free_connect_evd:
	(void)TRY(origin, dat_evd_free, channel->connect_evd);
	return -1;
}

int channel_free(struct channel *channel)
{
	const DAT_EVD_HANDLE evds[] = { channel->request_evd, channel->recv_evd,
					channel->connect_evd };
	int result = TRY(&channel->origin, dat_ep_free, channel->ep);

	for (size_t i = 0; i < sizeof(evds) / sizeof(evds[0]); i++)
		if (TRY(&channel->origin, dat_evd_free, evds[i]) < 0)
			result = -1;
	return result;
}

/* Connection events are waited for with -P and -Q, too. */
static enum wait_result channel_wait_connection(struct channel *channel, DAT_TIMEOUT limit,
						DAT_EVENT *event, DAT_RETURN *ret)
{
	const struct patience patience = { .way = WAIT_EVD, .stop = channel->patience->stop };

	return event_wait(&patience, channel->connect_evd, limit, event, ret);
}

/* What the control connection meets is why no test takes place, which is told without @name. */
static void channel_report_refusal(const struct channel *channel, const char *what,
				   const char *name, const char *sentence)
{
	if (channel->origin.lane >= 0)
		report_failure(&channel->origin, what, "%s%s%s", name, sentence ? ": " : "",
			       sentence ? sentence : "");
	else if (sentence)
		complain(DAPLTEST ": %s", sentence);
	else
		complain(DAPLTEST ": %s: %s", what, name);
}

static struct tool_attempt channel_tool_attempt(const struct channel *channel,
						const struct target *target)
{
	return (struct tool_attempt){ .local = channel->adapter->attr.ia_address_ptr,
				      .server = target->address,
				      .port = target->port,
				      .timeout = CONNECT_TIMEOUT };
}

static int channel_request(struct channel *channel, const struct target *target)
{
	const struct tool_attempt attempt = channel_tool_attempt(channel, target);
	char name[TOOL_RETURN], text[TOOL_SENTENCE];
	DAT_RETURN ret;

	/* neither the address nor the data is const in DAT */
	ret = dat_ep_connect(channel->ep, (DAT_IA_ADDRESS_PTR)(uintptr_t)target->address,
			     target->port, CONNECT_TIMEOUT, target->private_data_size,
			     target->private_data, target->qos, DAT_CONNECT_DEFAULT_FLAG);
	if (ret == DAT_SUCCESS)
		return report_call(&channel->origin, "dat_ep_connect", ret);
	channel_report_refusal(channel, "dat_ep_connect", tool_return_text(ret, name, sizeof(name)),
			       tool_connect_sentence(ret, &attempt, text));
	return -1;
}

static int channel_attempt(struct channel *channel, const struct target *target,
			   DAT_EVENT_NUMBER *outcome)
{
	DAT_EVENT event;
	DAT_RETURN ret;

	if (channel_request(channel, target) < 0)
		return -1;
	/* the provider ends the attempt at its time-out; the wait is longer */
	switch (channel_wait_connection(channel, CONNECT_TIMEOUT + PEER_TIMEOUT, &event, &ret)) {
	case WAIT_EVENT:
		*outcome = event.event_number;
		return 0;
	case WAIT_LATE:
		report_failure(&channel->origin, "connect", "no event");
		return -1;
	case WAIT_STOPPED:
		return -1;
	default:
		return report_call(&channel->origin, "dat_evd_wait", ret);
	}
}

/* Makes another attempt possible after a rejection, because the server may not be ready yet. */
static int channel_make_ready(struct channel *channel)
{
	DAT_EVENT event;
	DAT_RETURN ret;

	if (TRY(&channel->origin, dat_ep_reset, channel->ep) < 0)
		return -1;
	while (dat_evd_dequeue(channel->recv_evd, &event) == DAT_SUCCESS)
		; /* receives of the attempt, which were flushed */
	/* nothing will come; this is a pause that Ctrl-C ends */
	return channel_wait_connection(channel, retry_pause, &event, &ret) == WAIT_LATE ? 0 : -1;
}

int channel_connect(struct channel *channel, const struct target *target,
		    int (*prepare)(struct channel *channel))
{
	const struct tool_attempt attempt = channel_tool_attempt(channel, target);
	char text[TOOL_SENTENCE];
	DAT_EVENT_NUMBER outcome;

	for (unsigned tries = 1;; tries++) {
		if (prepare(channel) < 0 || channel_attempt(channel, target, &outcome) < 0)
			return -1;
		if (outcome == DAT_CONNECTION_EVENT_ESTABLISHED)
			return 0;
		if (outcome != DAT_CONNECTION_EVENT_PEER_REJECTED || tries == CONNECT_TRIES)
			break;
		report_step(&channel->origin, "rejected, attempt %u", tries);
		if (channel_make_ready(channel) < 0)
			return -1;
	}
	channel_report_refusal(channel, "connect", tool_event_name(outcome),
			       tool_attempt_sentence(outcome, &attempt, text));
	return -1;
}

int channel_expect_established(struct channel *channel)
{
	DAT_EVENT event;
	DAT_RETURN ret;

	switch (channel_wait_connection(channel, PEER_TIMEOUT, &event, &ret)) {
	case WAIT_EVENT:
		if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
			return 0;
		report_failure(&channel->origin, "accept", "%s",
			       tool_event_name(event.event_number));
		return -1;
	case WAIT_LATE:
		report_failure(&channel->origin, "accept", "the client did not continue");
		return -1;
	case WAIT_STOPPED:
		return -1;
	default:
		return report_call(&channel->origin, "dat_evd_wait", ret);
	}
}

void channel_disconnect(struct channel *channel)
{
	(void)dat_ep_disconnect(channel->ep, DAT_CLOSE_ABRUPT_FLAG);
}

/* ---- completions ---- */

/* The connection often ended for a reason that its last event tells. */
static void channel_report_status(struct channel *channel, DAT_DTO_COMPLETION_STATUS status)
{
	char text[TOOL_SENTENCE];
	const char *sentence = NULL;
	DAT_EVENT event;

	if (patience_ended(channel->patience))
		return;
	if (status == DAT_DTO_ERR_FLUSHED &&
	    dat_evd_dequeue(channel->connect_evd, &event) == DAT_SUCCESS)
		sentence = tool_end_sentence(event.event_number, text);
	if (!sentence)
		sentence = tool_status_sentence(status, text);
	report_failure(&channel->origin, "completion", "%s%s%s", tool_status_name(status),
		       sentence ? ": " : "", sentence ? sentence : "");
}

static int channel_check_event(struct channel *channel, const DAT_EVENT *event, DAT_UINT64 cookie)
{
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event->event_data.dto_completion_event_data;
	const struct origin *origin = &channel->origin;

	if (event->event_number != DAT_DTO_COMPLETION_EVENT)
		report_failure(origin, "completion", "%s in place of a completion",
			       tool_event_name(event->event_number));
	else if (dto->status != DAT_DTO_SUCCESS)
		channel_report_status(channel, dto->status);
	else if (dto->ep_handle != channel->ep)
		report_failure(origin, "completion", "of another endpoint");
	else if (dto->user_cookie.as_64 != cookie)
		report_failure(origin, "completion", "cookie %#lx in place of %#lx",
			       (unsigned long)dto->user_cookie.as_64, (unsigned long)cookie);
	else
		return 0;
	return -1;
}

int channel_complete(struct channel *channel, DAT_EVD_HANDLE evd, DAT_UINT64 cookie,
		     DAT_TIMEOUT limit, DAT_VLEN *length)
{
	DAT_EVENT event;
	DAT_RETURN ret;

	switch (event_wait(channel->patience, evd, limit, &event, &ret)) {
	case WAIT_EVENT:
		if (channel_check_event(channel, &event, cookie) < 0)
			return -1;
		if (length)
			*length = event.event_data.dto_completion_event_data.transfered_length;
		return 0;
	case WAIT_LATE:
		report_failure(&channel->origin, "completion", "none within %d seconds",
			       (int)(limit / 1000000));
		return -1;
	case WAIT_STOPPED:
		return -1;
	default:
		return report_call(&channel->origin, "dat_evd_wait", ret);
	}
}
