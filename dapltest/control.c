/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control connection. The client sends first, as iWARP requires of the active side, and each
 * message of the client has one answer; so the receives posted are always enough.
 */
#include "dapltest.h"

#include <string.h>

enum {
	SLOTS = 4, /* receives that are posted */
	COOKIE_SEND = 0x5e4d,
};

int control_create(struct control *control, const struct adapter *adapter,
		   const struct patience *patience, const char *name, DAT_QOS qos)
{
	const DAT_EP_ATTR attr = {
		.service_type = DAT_SERVICE_TYPE_RC,
		.max_message_size = MESSAGE_MAX,
		.max_rdma_size = MESSAGE_MAX,
		.qos = qos,
		.recv_completion_flags = DAT_COMPLETION_DEFAULT_FLAG,
		.request_completion_flags = DAT_COMPLETION_DEFAULT_FLAG,
		.max_recv_dtos = SLOTS,
		.max_request_dtos = SLOTS,
		.max_recv_iov = 1,
		.max_request_iov = 1,
		.max_rdma_read_in = 1,
		.max_rdma_read_out = 1,
	};
	struct channel *channel = &control->channel;

	*control = (struct control){
		.channel = { .adapter = adapter, .patience = patience, .origin = { .lane = -1 } }
	};
	(void)snprintf(channel->origin.name, sizeof(channel->origin.name), "%s", name);
	if (TRY(&channel->origin, dat_pz_create, adapter->ia, &control->pz) < 0)
		return -1;
	if (memory_create(&control->memory, adapter, control->pz, &channel->origin,
			  (SLOTS + 1) * MESSAGE_MAX) < 0)
		goto free_pz;
	if (channel_create(channel, control->pz, &attr) < 0)
		goto free_memory;
	return 0;
free_memory:
	(void)memory_free(&control->memory, &channel->origin);
free_pz:
	(void)TRY(&channel->origin, dat_pz_free, control->pz);
	return -1;
}

int control_free(struct control *control)
{
	const struct origin *origin = &control->channel.origin;
	int result = channel_free(&control->channel);

	if (memory_free(&control->memory, origin) < 0 || TRY(origin, dat_pz_free, control->pz) < 0)
		result = -1;
	return result;
}

/* Slot 0 is for sending. */
static int control_post_receive(struct control *control, unsigned number)
{
	DAT_LMR_TRIPLET iov = memory_segment(&control->memory, (1 + number % SLOTS) * MESSAGE_MAX,
					     MESSAGE_MAX);

	return TRY(&control->channel.origin, dat_ep_post_recv, control->channel.ep, 1, &iov,
		   (DAT_DTO_COOKIE){ .as_64 = number }, DAT_COMPLETION_DEFAULT_FLAG);
}

static int control_prepare(struct channel *channel)
{
	struct control *control = (struct control *)channel;

	for (unsigned i = 0; i < SLOTS; i++)
		if (control_post_receive(control, i) < 0)
			return -1;
	return 0;
}

int control_connect(struct control *control, const struct target *target)
{
	return channel_connect(&control->channel, target, control_prepare);
}

int control_accept(struct control *control, DAT_CR_HANDLE cr)
{
	if (control_prepare(&control->channel) < 0)
		return -1;
	return TRY(&control->channel.origin, dat_cr_accept, cr, control->channel.ep, 0, NULL);
}

int control_send(struct control *control, const struct message *message)
{
	struct channel *channel = &control->channel;
	DAT_LMR_TRIPLET iov = memory_segment(&control->memory, 0,
					     message_encode(message, control->memory.at));

	if (TRY(&channel->origin, dat_ep_post_send, channel->ep, 1, &iov,
		(DAT_DTO_COOKIE){ .as_64 = COOKIE_SEND }, DAT_COMPLETION_DEFAULT_FLAG) < 0)
		return -1;
	return channel_complete(channel, channel->request_evd, COOKIE_SEND, PEER_TIMEOUT, NULL);
}

int control_receive(struct control *control, struct message *message)
{
	struct channel *channel = &control->channel;
	unsigned slot = 1 + control->received % SLOTS;
	char problem[PROBLEM_TEXT];
	enum message_code code;
	DAT_VLEN length;

	if (channel_complete(channel, channel->recv_evd, control->received, PEER_TIMEOUT, &length) <
	    0)
		return -1;
	code = message_decode(message, control->memory.at + slot * MESSAGE_MAX, length, problem);
	control->received++;
	if (code == CODE_GOOD)
		return control_post_receive(control, control->received + SLOTS - 1);
	if (code == CODE_VERSION)
		report("DAPLTEST VERSION MISMATCH");
	else
		report_failure(&channel->origin, "receive", "%s", problem);
	*message = (struct message){ .code = code };
	return 0;
}
