/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Plays peers over libfabric that are no uDAPL providers, or lie: requests, answers, rejections and
 * messages with any data, for the libfabric transport and the core of DAT 2.0 over it. The events
 * are compared with what the comment of udapl/ofi/cm.c says of the header of such data, and of
 * those of a message that follows a write.
 *
 * An input is a list of steps: a byte for what the peer does and what this side does about it, then
 * the data, with their length before them.
 */
#define _GNU_SOURCE
#include <stdio.h>

#include "../../udapl/ofi/ofi.h"
#include "../ofi/ofi_test.h"
#include "fuzz.h"

#include <dat2/dat_ib_extensions.h>

enum { HEADER = 4, MAGIC = 0xda, REQUEST = 0x11, REPLY = 0x12, REJECT = 0x13, MAX_DATA = 255 };

static struct ofi_rig rig;

/* What the peer says. */
struct saying {
	const uint8_t *bytes;
	unsigned size;
};

static bool is_ours(const struct saying *said, uint8_t kind)
{
	return said->size >= HEADER && said->bytes[0] == MAGIC && said->bytes[1] == kind;
}

/* The consumer gets what is behind the header. */
static void require_data(const struct saying *said, const void *data, DAT_COUNT size)
{
	require((unsigned)size == said->size - HEADER);
	require(!size || !memcmp(data, said->bytes + HEADER, (size_t)size));
}

/* ---- the ends of connections ---- */

/* Returns the latest event of @ep in @last, when each endpoint of @count has none to come. */
static DAT_EVENT_NUMBER end_await(DAT_EP_HANDLE ep, unsigned count)
{
	DAT_EVENT_NUMBER last = DAT_CONNECTION_EVENT_ESTABLISHED;

	while (count) {
		const DAT_EVENT event = ofi_event(rig.conn_evd);

		if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
			continue;
		count--;
		if (event.event_data.connect_event_data.ep_handle == ep)
			last = event.event_number;
	}
	return last;
}

static void endpoint_reset(DAT_EP_HANDLE ep)
{
	DAT_EVENT event;

	require(!ep_reset(ep));
	while (!evd_dequeue(rig.dto_evd, &event))
		;
}

static DAT_CR_HANDLE request_await(void)
{
	return ofi_event(rig.cr_evd).event_data.cr_arrival_event_data.cr_handle;
}

/* ---- steps ---- */

static void request_try(const struct saying *said, bool accept)
{
	DAT_CR_PARAM param;
	DAT_CR_HANDLE cr;

	ff_request_arrives(said->bytes, said->size);
	if (!is_ours(said, REQUEST))
		return;
	cr = request_await();
	require(!cr_query(cr, DAT_CR_FIELD_ALL, &param));
	require_data(said, param.private_data, param.private_data_size);
	if (!accept) {
		require(!cr_reject(cr, 0, NULL));
		return;
	}
	require(!cr_accept(cr, rig.passive, 0, NULL));
	(void)end_await(rig.passive, 1);
	endpoint_reset(rig.passive);
}

/* Takes the events of an attempt whose answer the provider takes, and ends the connection. */
static void established_await(const struct saying *said)
{
	for (unsigned i = 0; i < 2; i++) {
		const DAT_EVENT event = ofi_event(rig.conn_evd);
		const DAT_CONNECTION_EVENT_DATA *data = &event.event_data.connect_event_data;

		require(event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED);
		if (data->ep_handle == rig.active)
			require_data(said, data->private_data, data->private_data_size);
	}
	require(!ep_disconnect(rig.active, DAT_CLOSE_ABRUPT_FLAG));
	(void)end_await(rig.active, 2);
}

static void answer_try(const struct saying *said)
{
	require(!ofi_connect_begin(&rig));
	ff_answer_with(said->bytes, said->size);
	require(!cr_accept(request_await(), rig.passive, 0, NULL));
	if (is_ours(said, REPLY))
		established_await(said);
	else
		require(end_await(rig.active, 2) == DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	endpoint_reset(rig.active);
	endpoint_reset(rig.passive);
}

static void rejection_try(const struct saying *said)
{
	const bool ours = is_ours(said, REJECT);
	DAT_EVENT event;

	require(!ofi_connect_begin(&rig));
	ff_answer_with(said->bytes, said->size);
	require(!cr_reject(request_await(), 0, NULL));
	event = ofi_event(rig.conn_evd);
	require(event.event_number == (ours ? DAT_CONNECTION_EVENT_PEER_REJECTED
					    : DAT_CONNECTION_EVENT_NON_PEER_REJECTED));
	if (ours)
		require_data(said, event.event_data.connect_event_data.private_data,
			     event.event_data.connect_event_data.private_data_size);
	endpoint_reset(rig.active);
}

/* A message of more than the receive takes has failed. */
static void require_received(const struct saying *said, DAT_VLEN room, const uint64_t *immed)
{
	const DAT_EVENT event = ofi_event(rig.dto_evd);
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;
	const DAT_IB_EXTENSION_EVENT_DATA *extension =
		(const DAT_IB_EXTENSION_EVENT_DATA *)&event.event_extension_data;

	require(dto->ep_handle == rig.passive && dto->user_cookie.as_64 == 7);
	if (said->size > room) {
		require(dto->status == DAT_DTO_ERR_LOCAL_LENGTH);
		return;
	}
	require(dto->status == DAT_DTO_SUCCESS);
	require(!said->size || !memcmp(rig.memory, said->bytes, said->size));
	if (!immed) {
		require(event.event_number == DAT_DTO_COMPLETION_EVENT &&
			dto->transfered_length == said->size);
		return;
	}
	require((int)event.event_number == DAT_IB_DTO_EVENT &&
		extension->val.immed.data == (uint32_t)*immed &&
		dto->transfered_length == *immed >> 32);
}

static void message_try(const struct saying *said, bool has_immed, DAT_VLEN room)
{
	DAT_LMR_TRIPLET segment = rig.segment;
	uint64_t immed = 0;

	segment.segment_length = room;
	memcpy(&immed, said->bytes, said->size < sizeof(immed) ? said->size : sizeof(immed));
	require(!ofi_connect(&rig));
	require(!ep_post_recv(rig.passive, 1, &segment, (DAT_DTO_COOKIE){ .as_64 = 7 },
			      DAT_COMPLETION_DEFAULT_FLAG));
	ff_message_arrives(said->bytes, said->size, has_immed ? &immed : NULL);
	require_received(said, room, has_immed ? &immed : NULL);
	(void)ep_disconnect(rig.active, DAT_CLOSE_ABRUPT_FLAG);
	(void)end_await(rig.active, 2);
	endpoint_reset(rig.active);
	endpoint_reset(rig.passive);
}

/* 1 is on, 0 is off, and what is neither is ignored. */
static void variable_try(const struct saying *said)
{
	char *text = fuzz_copy(said->bytes, said->size, true);

	require(!setenv("DAPL_OFI_DELIVERED_SENDS", text, 1));
	require(env_delivered_sends() == !strcmp(text, "1"));
	free(text);
	unsetenv("DAPL_OFI_DELIVERED_SENDS");
}

static void step_run(struct fuzz_input *input)
{
	const unsigned step = fuzz_byte(input);
	struct saying said;

	said.size = fuzz_bytes(input, MAX_DATA, &said.bytes);
	switch (step % 8) {
	case 0:
		variable_try(&said);
		break;
	case 1:
		answer_try(&said);
		break;
	case 2:
		rejection_try(&said);
		break;
	case 3:
	case 4:
		message_try(&said, step % 8 == 4, step / 8);
		break;
	default:
		request_try(&said, step % 8 == 5);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = { data, size };

	if (!rig.ia) {
		setenv("DAPL_DBG_TYPE", "0", 1);
		require(!ofi_ia_open(&rig, "scripted 127.0.0.1") && !ofi_objects_create(&rig));
	}
	while (input.left)
		step_run(&input);
	return 0;
}
