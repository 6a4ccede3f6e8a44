/* SPDX-License-Identifier: BSD-2-Clause */
/* One end of a connection, in a module for the edition of DAT that it is compiled for. */
#include <stdlib.h>
#include <string.h>

#include "../harness/editions.h"
#include "editions.h"

#define TIME_LIMIT 120000000u /* microseconds: it only ends a wait for what never comes */

struct end {
	void (*fail)(const char *what, uint32_t result);
	DAT_IA_HANDLE ia;
	DAT_IA_ATTR attr;
	DAT_PZ_HANDLE pz;
	DAT_EVD_HANDLE async_evd, request_evd, recv_evd, connect_evd, cr_evd;
	DAT_EP_HANDLE ep;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT lmr_context;
	unsigned char memory[END_MEMORY];
};

#define MUST(end, call)                                                                            \
	do {                                                                                       \
		DAT_RETURN must_ret_ = (call);                                                     \
                                                                                                   \
		if (must_ret_ != DAT_SUCCESS)                                                      \
			(end)->fail(#call, must_ret_);                                             \
	} while (0)

/* ---- open and close ---- */

static DAT_EVD_HANDLE evd_new(const struct end *end, DAT_EVD_FLAGS flags)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;

	MUST(end, dat_evd_create(end->ia, 16, DAT_HANDLE_NULL, flags, &evd));
	return evd;
}

static struct end *end_open(const char *name, void (*fail)(const char *what, uint32_t result))
{
	struct end *end = calloc(1, sizeof(*end));
	DAT_REGION_DESCRIPTION region;
	DAT_RMR_CONTEXT rmr_context;

	if (!end)
		abort();
	end->fail = fail;
	region.for_va = end->memory;
	MUST(end, dat_ia_open((DAT_NAME_PTR)(uintptr_t)name, 8, &end->async_evd, &end->ia));
	MUST(end, dat_ia_query(end->ia, NULL, DAT_IA_FIELD_ALL, &end->attr, 0, NULL));
	MUST(end, dat_pz_create(end->ia, &end->pz));
	end->request_evd = evd_new(end, DAT_EVD_DTO_FLAG);
	end->recv_evd = evd_new(end, DAT_EVD_DTO_FLAG);
	end->connect_evd = evd_new(end, DAT_EVD_CONNECTION_FLAG);
	end->cr_evd = evd_new(end, DAT_EVD_CR_FLAG);
	MUST(end, dat_ep_create(end->ia, end->pz, end->recv_evd, end->request_evd, end->connect_evd,
				NULL, &end->ep));
	MUST(end, LMR_CREATE(end->ia, DAT_MEM_TYPE_VIRTUAL, region, END_MEMORY, end->pz,
			     DAT_MEM_PRIV_ALL_FLAG, &end->lmr, &end->lmr_context, &rmr_context,
			     NULL, NULL));
	return end;
}

static void end_close(struct end *end)
{
	MUST(end, dat_ia_close(end->ia, DAT_CLOSE_ABRUPT_FLAG));
	free(end);
}

static unsigned char *end_memory(const struct end *end)
{
	return (unsigned char *)(uintptr_t)end->memory;
}

static struct sockaddr_in end_address(const struct end *end)
{
	struct sockaddr_in address;

	memcpy(&address, end->attr.ia_address_ptr, sizeof(address));
	return address;
}

/* ---- connections ---- */

static DAT_EVENT next_event(const struct end *end, DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number)
{
	DAT_EVENT event = { .event_number = number };
	DAT_COUNT nmore;

	MUST(end, dat_evd_wait(evd, TIME_LIMIT, 1, &event, &nmore));
	if (event.event_number != number)
		end->fail("another event than the one that is waited for", event.event_number);
	return event;
}

static DAT_EVENT next_connection_event(const struct end *end, DAT_EVENT_NUMBER number)
{
	const DAT_EVENT event = next_event(end, end->connect_evd, number);

	if (event.event_data.connect_event_data.ep_handle != end->ep)
		end->fail("an event of another endpoint", event.event_number);
	return event;
}

static uint64_t end_listen(struct end *end)
{
	DAT_CONN_QUAL qual = 0;
	DAT_PSP_HANDLE psp;

	MUST(end, dat_psp_create_any(end->ia, &qual, end->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	return qual;
}

static void end_ask(struct end *end, struct sockaddr_in to, uint64_t qual, const char *text)
{
	MUST(end, dat_ep_connect(end->ep, (DAT_IA_ADDRESS_PTR)&to, qual, TIME_LIMIT,
				 (DAT_COUNT)strlen(text), (DAT_PVOID)(uintptr_t)text,
				 DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
}

static DAT_CR_HANDLE next_cr(const struct end *end)
{
	return next_event(end, end->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
		.event_data.cr_arrival_event_data.cr_handle;
}

static void end_accept(struct end *end, const char *text)
{
	const DAT_CR_HANDLE cr = next_cr(end);
	DAT_CR_PARAM param;

	MUST(end, dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
	if ((size_t)param.private_data_size < strlen(text) ||
	    memcmp(param.private_data, text, strlen(text)) != 0)
		end->fail("other private data of the request", (uint32_t)param.private_data_size);
	MUST(end, dat_cr_accept(cr, end->ep, 0, NULL));
}

static void end_established(struct end *end)
{
	next_connection_event(end, DAT_CONNECTION_EVENT_ESTABLISHED);
}

static void end_reject(struct end *end, unsigned size)
{
#if DAT_EDITION == 2
	MUST(end, dat_cr_reject(next_cr(end), (DAT_COUNT)size, end->memory));
#else
	(void)size;
	MUST(end, dat_cr_reject(next_cr(end)));
#endif
}

/* The endpoint is usable again. */
static unsigned end_rejected(struct end *end, unsigned char bytes[256])
{
	const DAT_EVENT event = next_connection_event(end, DAT_CONNECTION_EVENT_PEER_REJECTED);
	const DAT_CONNECTION_EVENT_DATA *data = &event.event_data.connect_event_data;

	if (data->private_data_size < 0 || data->private_data_size > 256)
		end->fail("a size of private data", (uint32_t)data->private_data_size);
	if (data->private_data_size)
		memcpy(bytes, data->private_data, (size_t)data->private_data_size);
	MUST(end, dat_ep_reset(end->ep));
	return (unsigned)data->private_data_size;
}

static void end_disconnect(struct end *end)
{
	MUST(end, dat_ep_disconnect(end->ep, DAT_CLOSE_ABRUPT_FLAG));
}

static void end_disconnected(struct end *end)
{
	next_connection_event(end, DAT_CONNECTION_EVENT_DISCONNECTED);
}

/* ---- messages ---- */

static DAT_LMR_TRIPLET bytes_at(struct end *end, size_t offset, unsigned size)
{
	return (DAT_LMR_TRIPLET){
		.lmr_context = end->lmr_context,
		.virtual_address = (uintptr_t)end->memory + offset,
		.segment_length = size,
	};
}

static void end_post_recv(struct end *end, uint64_t cookie)
{
	DAT_LMR_TRIPLET to = bytes_at(end, END_MEMORY / 2, END_MEMORY / 2);

	MUST(end, dat_ep_post_recv(end->ep, 1, &to, (DAT_DTO_COOKIE){ .as_64 = cookie },
				   DAT_COMPLETION_DEFAULT_FLAG));
}

static void end_post_send(struct end *end, uint64_t cookie, unsigned size)
{
	DAT_LMR_TRIPLET from = bytes_at(end, 0, size);

	MUST(end, dat_ep_post_send(end->ep, 1, &from, (DAT_DTO_COOKIE){ .as_64 = cookie },
				   DAT_COMPLETION_DEFAULT_FLAG));
}

static void completed(const struct end *end, DAT_EVD_HANDLE evd, uint64_t cookie, unsigned size)
{
	const DAT_EVENT event = next_event(end, evd, DAT_DTO_COMPLETION_EVENT);
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;

	if (dto->ep_handle != end->ep || dto->user_cookie.as_64 != cookie)
		end->fail("a completion of something else", (uint32_t)dto->user_cookie.as_64);
	if (dto->status != DAT_DTO_SUCCESS || dto->transfered_length != size)
		end->fail("the status of a completion, or its length", (uint32_t)dto->status);
}

static void end_sent(struct end *end, uint64_t cookie, unsigned size)
{
	completed(end, end->request_evd, cookie, size);
}

static void end_received(struct end *end, uint64_t cookie, unsigned size)
{
	completed(end, end->recv_evd, cookie, size);
}

/* ---- the module ---- */

extern const struct edition edition;

const struct edition __attribute__((visibility("default"))) edition = {
	.number = DAT_EDITION,
	.open = end_open,
	.close = end_close,
	.memory = end_memory,
	.address = end_address,
	.listen = end_listen,
	.ask = end_ask,
	.accept = end_accept,
	.established = end_established,
	.reject = end_reject,
	.rejected = end_rejected,
	.post_recv = end_post_recv,
	.post_send = end_post_send,
	.sent = end_sent,
	.received = end_received,
	.disconnect = end_disconnect,
	.disconnected = end_disconnected,
};
