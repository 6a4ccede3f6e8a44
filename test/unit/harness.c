/* SPDX-License-Identifier: BSD-2-Clause */
/* The library of the unit tests of the core. */
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>

#include "harness.h"

/* ---- one end of a connection ---- */

/* A provider is registered once. */
static void register_device(const char *device, bool thread_safe)
{
	CANCEL_FORBIDDEN;
	DAT_PROVIDER_INFO info = {
		.dapl_version_major = DAT_VERSION_MAJOR,
		.dapl_version_minor = DAT_VERSION_MINOR,
		.is_thread_safe = thread_safe,
	};
	struct provider *provider;
	char *params, device_params[64];

	if (provider_find(device, thread_safe, &provider, &params) == DAT_SUCCESS) {
		free(params);
		return;
	}
	snprintf(info.ia_name, sizeof(info.ia_name), "%s", device);
	snprintf(device_params, sizeof(device_params), "%s 0", device);
	dat_provider_init(&info, device_params);
}

DAT_IA_HANDLE ia_open_on(const char *device, bool thread_safe, DAT_EVD_HANDLE *async_evd)
{
	DAT_IA_HANDLE ia;

	register_device(device, thread_safe);
	*async_evd = DAT_HANDLE_NULL;
	ck_dat((thread_safe ? ia_open_threadsafe : ia_open)((DAT_NAME_PTR)device, 8, async_evd,
							    &ia));
	return ia;
}

DAT_EVD_HANDLE side_create_evd(const struct side *side, DAT_COUNT qlen, DAT_EVD_FLAGS flags)
{
	DAT_EVD_HANDLE evd;

	ck_dat(evd_create(side->ia, qlen, DAT_HANDLE_NULL, flags, &evd));
	return evd;
}

DAT_EP_HANDLE side_create_ep(const struct side *side, const DAT_EP_ATTR *attr)
{
	DAT_EP_HANDLE ep;

	ck_dat(ep_create(side->ia, side->pz, side->recv_evd, side->request_evd, side->connect_evd,
			 attr, &ep));
	return ep;
}

DAT_EP_ATTR ep_attr_default(const struct side *side)
{
	DAT_EP_ATTR attr;

	attr_ep_default(side->ia, &attr);
	return attr;
}

struct member {
	const char *name;
	size_t at, size;
};

static void expect_same_members(const void *is, const void *want, const struct member *members,
				size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (memcmp((const char *)is + members[i].at, (const char *)want + members[i].at,
			   members[i].size) != 0)
			ck_abort_msg("%s differs", members[i].name);
}

#define ATTR(name)                                                                                 \
	{                                                                                          \
#name, offsetof(DAT_EP_ATTR, name), sizeof(((DAT_EP_ATTR *)0)->name)               \
	}
#define PARAM(name)                                                                                \
	{                                                                                          \
#name, offsetof(DAT_EP_PARAM, name), sizeof(((DAT_EP_PARAM *)0)->name)             \
	}

static const struct member attr_members[] = {
	ATTR(service_type),	     ATTR(max_message_size),
	ATTR(max_rdma_size),	     ATTR(qos),
	ATTR(recv_completion_flags), ATTR(request_completion_flags),
	ATTR(max_recv_dtos),	     ATTR(max_request_dtos),
	ATTR(max_recv_iov),	     ATTR(max_request_iov),
	ATTR(max_rdma_read_in),	     ATTR(max_rdma_read_out),
	ATTR(srq_soft_hw),	     ATTR(max_rdma_read_iov),
	ATTR(max_rdma_write_iov),    ATTR(ep_transport_specific_count),
	ATTR(ep_transport_specific), ATTR(ep_provider_specific_count),
	ATTR(ep_provider_specific),
};

static const struct member param_members[] = {
	PARAM(ia_handle),
	PARAM(ep_state),
	PARAM(local_ia_address_ptr),
	PARAM(local_port_qual),
	PARAM(remote_ia_address_ptr),
	PARAM(remote_port_qual),
	PARAM(pz_handle),
	PARAM(recv_evd_handle),
	PARAM(request_evd_handle),
	PARAM(connect_evd_handle),
	PARAM(srq_handle),
};

void expect_same_attr(const DAT_EP_ATTR *is, const DAT_EP_ATTR *want)
{
	expect_same_members(is, want, attr_members, ARRAY_SIZE(attr_members));
}

void expect_same_param(const DAT_EP_PARAM *is, const DAT_EP_PARAM *want)
{
	expect_same_members(is, want, param_members, ARRAY_SIZE(param_members));
	expect_same_attr(&is->ep_attr, &want->ep_attr);
}

static void side_create_evds(struct side *side)
{
	DAT_COUNT qlen = side->qlen ? side->qlen : SIDE_QLEN;

	if (side->one_evd) {
		side->recv_evd = side_create_evd(side, qlen,
						 DAT_EVD_DEFAULT_FLAG | DAT_EVD_SOFTWARE_FLAG);
		side->request_evd = side->connect_evd = side->cr_evd = side->recv_evd;
		return;
	}
	side->recv_evd = side_create_evd(side, qlen, DAT_EVD_DTO_FLAG);
	side->request_evd = side_create_evd(side, qlen, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG);
	side->connect_evd = side_create_evd(side, qlen, DAT_EVD_CONNECTION_FLAG);
	side->cr_evd = side_create_evd(side, qlen, DAT_EVD_CR_FLAG);
}

void side_open(struct side *side, const char *device)
{
	DAT_REGION_DESCRIPTION region;
	struct ia *ia;

	side->ia = ia = ia_open_on(device, side->thread_safe, &side->async_evd);
	memcpy(&side->address, &ia->attr->addr, sizeof(side->address));
	ck_dat(pz_create(side->ia, &side->pz));
	side_create_evds(side);
	side->memory = calloc(1, SIDE_MEMORY);
	ck_assert_ptr_nonnull(side->memory);
	region.for_va = side->memory;
	ck_dat(lmr_create_va(side->ia, DAT_MEM_TYPE_VIRTUAL, region, SIDE_MEMORY, side->pz,
			     DAT_MEM_PRIV_ALL_FLAG, &side->lmr, &side->lmr_context,
			     &side->rmr_context, NULL, NULL));
	side->ep = side_create_ep(side, side->ep_attr);
}

void side_close(struct side *side)
{
	ck_dat(ep_free(side->ep));
	ck_dat(lmr_free(side->lmr));
	ck_dat(pz_free(side->pz));
	ck_dat(evd_free(side->recv_evd));
	if (!side->one_evd) {
		ck_dat(evd_free(side->request_evd));
		ck_dat(evd_free(side->connect_evd));
		ck_dat(evd_free(side->cr_evd));
	}
	ck_dat(ia_close(side->ia, DAT_CLOSE_GRACEFUL_FLAG));
	free(side->memory);
	*side = (struct side){ 0 };
}

DAT_LMR_TRIPLET segment(const struct side *side, size_t offset, DAT_VLEN length)
{
	return (DAT_LMR_TRIPLET){
		.lmr_context = side->lmr_context,
		.virtual_address = (uintptr_t)side->memory + offset,
		.segment_length = length,
	};
}

DAT_RMR_TRIPLET target(const struct side *side, size_t offset, size_t length)
{
	return (DAT_RMR_TRIPLET){
		.rmr_context = side->rmr_context,
		.REMOTE_ADDRESS = (uintptr_t)side->memory + offset,
		.segment_length = length,
	};
}

/* ---- a connection ---- */

void connect_eps(struct side *client, DAT_EP_HANDLE client_ep, struct side *server,
		 DAT_EP_HANDLE server_ep)
{
	DAT_PSP_HANDLE psp;
	DAT_CONN_QUAL qual;
	DAT_EVENT event;

	ck_dat(psp_create_any(server->ia, &qual, server->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	ck_dat(ep_connect(client_ep, (DAT_IA_ADDRESS_PTR)&server->address, qual,
			  DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT,
			  DAT_CONNECT_DEFAULT_FLAG));
	event = expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT);
	ck_dat(cr_accept(event.event_data.cr_arrival_event_data.cr_handle, server_ep, 0, NULL));
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_dat(psp_free(psp));
}

void side_disconnect(const struct side *side)
{
	ck_dat(ep_disconnect(side->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_event(side->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

void pair_begin_to_end(struct pair *pair)
{
	fake_quirks(FAKE_LATE_FLUSH);
	fake_hold(true);
	fake_clock_auto(false);
	post_send(&pair->client, 1, 0, 8, 0);
	ck_dat(ep_disconnect(pair->server.ep, DAT_CLOSE_ABRUPT_FLAG));
	while (ep_get_state(pair->client.ep) != DAT_EP_STATE_DISCONNECT_PENDING)
		sched_yield();
}

void pair_finish_the_end(struct pair *pair)
{
	while (fake_step())
		;
	fake_clock_auto(true);
	expect_event(pair->client.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

void pair_connect(struct pair *pair)
{
	if (!pair->client.ia)
		side_open(&pair->client, "fake0");
	if (!pair->server.ia)
		side_open(&pair->server, "fake1");
	connect_eps(&pair->client, pair->client.ep, &pair->server, pair->server.ep);
}

/* Events that are queued before it do not matter. */
static void side_wait_disconnected(const struct side *side)
{
	DAT_EVENT event;
	DAT_COUNT nmore;

	do {
		ck_dat(evd_wait(side->connect_evd, SECONDS(60), 1, &event, &nmore));
	} while (event.event_number != DAT_CONNECTION_EVENT_DISCONNECTED);
}

void pair_close(struct pair *pair)
{
	ck_dat(ep_disconnect(pair->client.ep, DAT_CLOSE_ABRUPT_FLAG));
	side_wait_disconnected(&pair->client);
	side_wait_disconnected(&pair->server);
	side_close(&pair->client);
	side_close(&pair->server);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}

void pair_close_abrupt(struct pair *pair)
{
	struct side *sides[] = { &pair->client, &pair->server };

	for (int i = 0; i < COUNT(sides); i++) {
		ck_dat(ia_close(sides[i]->ia, DAT_CLOSE_ABRUPT_FLAG));
		free(sides[i]->memory);
	}
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}

/* ---- transfers and events ---- */

DAT_DTO_COOKIE cookie_of(uint64_t n)
{
	return (DAT_DTO_COOKIE){ .as_64 = n };
}

DAT_RETURN try_send(const struct side *side, uint64_t n, size_t offset, size_t length,
		    DAT_COMPLETION_FLAGS flags)
{
	DAT_LMR_TRIPLET iov = segment(side, offset, length);

	return ep_post_send(side->ep, 1, &iov, cookie_of(n), flags);
}

DAT_RETURN try_recv(const struct side *side, uint64_t n, size_t offset, size_t length,
		    DAT_COMPLETION_FLAGS flags)
{
	DAT_LMR_TRIPLET iov = segment(side, offset, length);

	return ep_post_recv(side->ep, 1, &iov, cookie_of(n), flags);
}

DAT_RETURN try_post_se(DAT_EVD_HANDLE evd, uintptr_t n)
{
	const DAT_EVENT event = {
		.event_number = DAT_SOFTWARE_EVENT,
		.event_data.software_event_data.pointer = (void *)n,
	};

	return evd_post_se(evd, &event);
}

DAT_EVENT expect_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number)
{
	DAT_EVENT event;
	DAT_COUNT nmore;

	ck_dat(evd_wait(evd, SECONDS(60), 1, &event, &nmore));
	ck_assert_msg(event.event_number == number, "event %#x, not %#x", event.event_number,
		      number);
	ck_assert_ptr_eq(event.evd_handle, evd);
	return event;
}

void expect_dto(DAT_EVD_HANDLE evd, uint64_t cookie, DAT_DTO_COMPLETION_STATUS status)
{
	DAT_EVENT event = expect_event(evd, DAT_DTO_COMPLETION_EVENT);
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;

	ck_assert_uint_eq(dto->user_cookie.as_64, cookie);
	ck_assert_int_eq(dto->status, status);
	if (status != DAT_DTO_SUCCESS)
		ck_assert_uint_eq(dto->transfered_length, 0);
}

void expect_se(DAT_EVD_HANDLE evd, uintptr_t n)
{
	DAT_EVENT event = expect_event(evd, DAT_SOFTWARE_EVENT);

	ck_assert_uint_eq((uintptr_t)event.event_data.software_event_data.pointer, n);
}

void expect_no_event(DAT_EVD_HANDLE evd)
{
	DAT_EVENT event;

	fake_wait_idle(0);
	ck_dat_is(evd_dequeue(evd, &event), (DAT_RETURN)DAT_QUEUE_EMPTY);
}

DAT_EP_STATE ep_get_state(DAT_EP_HANDLE ep)
{
	DAT_EP_STATE state;

	ck_dat(ep_get_status(ep, &state, NULL, NULL));
	return state;
}

struct tp_cq *cq_of_evd(DAT_EVD_HANDLE evd)
{
	return ((struct evd *)evd)->cq;
}

void limit_descriptors(unsigned n)
{
	fake_wait_idle(0); /* each service thread opens one when it starts */
	descriptors_allow(n);
}

/* ---- threads of the consumer ---- */

struct consumer_thread {
	void *(*run)(void *);
	void *arg;
	sem_t registered; /* with the fake */
};

static void *consumer_thread_main(void *arg)
{
	struct consumer_thread *start = arg;
	void *(*run)(void *) = start->run;

	arg = start->arg;
	fake_clock_auto(false);
	sem_post(&start->registered);
	return run(arg);
}

pthread_t consumer_thread_start(void *(*run)(void *), void *arg)
{
	struct consumer_thread start = { .run = run, .arg = arg };
	pthread_t thread;

	ck_assert_int_eq(sem_init(&start.registered, 0, 0), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, consumer_thread_main, &start), 0);
	while (sem_wait(&start.registered) < 0)
		;
	sem_destroy(&start.registered);
	return thread;
}

static void *waiter_main(void *arg)
{
	struct waiter *waiter = arg;

	waiter->ret = evd_wait(waiter->evd, waiter->timeout, waiter->threshold, &waiter->event,
			       &waiter->nmore);
	return NULL;
}

void waiter_start(struct waiter *waiter)
{
	waiter->thread = consumer_thread_start(waiter_main, waiter);
	fake_wait_idle(1);
}

DAT_RETURN waiter_join(struct waiter *waiter)
{
	consumer_thread_join(waiter->thread);
	return waiter->ret;
}

/* ---- main ---- */

static void automatic_clock(void)
{
	fake_clock_auto(true);
}

int run_unit_cases(int argc, char **argv)
{
	case_fixture(NULL, automatic_clock, NULL);
	return run_cases(argc, argv);
}
