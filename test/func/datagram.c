/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints of datagrams, an extension of DAT 2.0, on a device. */
#include <string.h>

#include <dat2/dat_ib_extensions.h>

#include "../consumer/consumer.h"

#define NOT_HAD DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE)
#define HEADER	40			  /* bytes of the network, in front of each message */
#define DEPTH	32			  /* receives, and requests, of an endpoint */
#define BUFFER	(SIDE_MEMORY / DEPTH / 2) /* bytes of a receive; they are in the upper half */
#define PEERS	24
#define ROUNDS	200

static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;
static DAT_PSP_HANDLE psp;
static DAT_CONN_QUAL qual;

/* What the event of an exchange has brought. */
struct found {
	DAT_IB_ADDR_HANDLE ah;
	DAT_CONTEXT context;
};

/* ---- the two ends ---- */

static DAT_EP_ATTR datagram_attr(void)
{
	DAT_EP_ATTR attr = ep_attr_for(DEPTH, DEPTH);

	attr.service_type = (DAT_SERVICE_TYPE)DAT_IB_SERVICE_TYPE_UD;
	return attr;
}

static void ends_open(bool thread_safe)
{
	const DAT_EP_ATTR attr = datagram_attr();

	side_open_bare_as(server, ia_name(SERVER, BY_INTERFACE), thread_safe);
	side_open_bare_as(client, ia_name(CLIENT, BY_INTERFACE), thread_safe);
	side_equip(server, &attr, SIDE_MEMORY);
	side_equip(client, &attr, SIDE_MEMORY);
	psp = listen_any(server, &qual);
}

static void ends_close(void)
{
	ck_dat(dat_psp_free(psp));
	pair_close(&pair);
}

static DAT_RETURN try_ask(DAT_EP_HANDLE ep, DAT_CONN_QUAL at, const char *pdata)
{
	struct sockaddr_in address = server->address;

	return dat_ep_connect(ep, (DAT_IA_ADDRESS_PTR)&address, at, TIME_LIMIT,
			      (DAT_COUNT)strlen(pdata) + 1, (DAT_PVOID)(uintptr_t)pdata,
			      DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
}

static DAT_EVENT expect_extension(DAT_EVD_HANDLE evd, DAT_IB_EVENT_NUMBER number,
				  DAT_IB_EXT_TYPE type, DAT_IB_EXTENSION_EVENT_DATA *extension)
{
	DAT_EVENT event = expect_event(evd, (DAT_EVENT_NUMBER)number);

	memcpy(extension, event.event_extension_data, sizeof(*extension));
	ck_assert_int_eq(extension->type, type);
	return event;
}

static DAT_CR_HANDLE expect_asked(const char *pdata)
{
	DAT_IB_EXTENSION_EVENT_DATA extension;
	DAT_EVENT event = expect_extension(server->cr_evd, DAT_IB_UD_CONNECTION_REQUEST_EVENT,
					   DAT_IB_UD_CONNECT_REQUEST, &extension);
	DAT_CR_HANDLE cr = event.event_data.cr_arrival_event_data.cr_handle;
	DAT_CR_PARAM param;

	ck_dat(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
	ck_assert_int_gt(param.private_data_size, (int)strlen(pdata));
	ck_assert_str_eq(param.private_data, pdata);
	return cr;
}

/* The exchange of one of the side's endpoints has brought an address handle. */
static struct found expect_found(const struct side *side, DAT_EP_HANDLE ep, DAT_IB_EXT_TYPE type,
				 const char *pdata)
{
	DAT_IB_EXTENSION_EVENT_DATA extension;
	DAT_EVENT event = expect_extension(
		side->connect_evd, DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED, type, &extension);
	const DAT_CONNECTION_EVENT_DATA *data = &event.event_data.connect_event_data;

	ck_assert_ptr_eq(data->ep_handle, ep);
	ck_assert_int_eq(extension.status, DAT_OP_SUCCESS);
	if (pdata)
		ck_assert_str_eq(data->private_data, pdata);
	return (struct found){ extension.remote_ah, extension.context };
}

/* Two endpoints learn of each other. */
static void meet(DAT_EP_HANDLE asker, DAT_EP_HANDLE answerer, struct found *active,
		 struct found *passive)
{
	ck_dat(try_ask(asker, qual, "ask"));
	ck_dat(dat_cr_accept(expect_asked("ask"), answerer, 7, (DAT_PVOID) "answer"));
	*active = expect_found(client, asker, DAT_IB_UD_REMOTE_AH, "answer");
	*passive = expect_found(server, answerer, DAT_IB_UD_PASSIVE_REMOTE_AH, NULL);
}

/* ---- transfers ---- */

static DAT_LMR_TRIPLET buffer(const struct side *side, unsigned n)
{
	return segment(side, SIDE_MEMORY / 2 + n % DEPTH * BUFFER, BUFFER);
}

static unsigned char *message(const struct side *side, unsigned n)
{
	return side->memory + SIDE_MEMORY / 2 + n % DEPTH * BUFFER + HEADER;
}

static DAT_RETURN try_send(const struct side *side, const struct found *to, uint64_t n,
			   size_t length, DAT_COMPLETION_FLAGS flags)
{
	DAT_LMR_TRIPLET from = segment(side, 0, length);

	return dat_ib_post_send_ud(side->ep, 1, &from, &to->ah, cookie_of(n), flags);
}

static void expect_transfer(DAT_EVD_HANDLE evd, DAT_EP_HANDLE ep, uint64_t n, DAT_IB_DTOS operation,
			    DAT_IB_EXT_TYPE type, size_t length)
{
	DAT_IB_EXTENSION_EVENT_DATA extension;
	DAT_EVENT event = expect_extension(evd, DAT_IB_DTO_EVENT, type, &extension);
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;

	ck_assert_ptr_eq(dto->ep_handle, ep);
	ck_assert_int_eq(dto->status, DAT_DTO_SUCCESS);
	ck_assert_uint_eq(dto->user_cookie.as_64, n);
	ck_assert_int_eq(dto->operation, operation);
	ck_assert_uint_eq(dto->transfered_length, length);
}

static void expect_sent(const struct side *side, uint64_t n, size_t length)
{
	expect_transfer(side->request_evd, side->ep, n, DAT_IB_DTO_SEND_UD, DAT_IB_UD_SEND, length);
}

static void expect_received(const struct side *side, uint64_t n, size_t length)
{
	expect_transfer(side->recv_evd, side->ep, n, DAT_IB_DTO_RECV_UD, DAT_IB_UD_RECV,
			HEADER + length);
}

/* A message of @length bytes goes from one endpoint to the other. */
static void expect_passes(const struct side *from, const struct found *way, const struct side *to,
			  unsigned seed, size_t length)
{
	memset(to->memory + SIDE_MEMORY / 2, UNTOUCHED, BUFFER);
	post_recv(to->ep, seed, buffer(to, 0));
	pattern_fill(from->memory, length, seed);
	ck_dat(try_send(from, way, seed + 1, length, DAT_COMPLETION_DEFAULT_FLAG));
	expect_sent(from, seed + 1, length);
	expect_received(to, seed, length);
	pattern_check(message(to, 0), length, seed);
	bytes_check(message(to, 0) + length, BUFFER - HEADER - length, UNTOUCHED);
}

/* ---- exchanges ---- */

START_TEST(the_attribute_says_whether_there_are_datagrams)
{
	const bool had = device_has(NEEDS_DATAGRAMS);
	const DAT_EP_ATTR attr = datagram_attr();
	const char *value = NULL;
	DAT_EP_HANDLE ep;

	side_open_bare(client, CLIENT);
	for (int i = 0; i < client->provider.num_provider_specific_attr; i++)
		if (!strcmp(client->provider.provider_specific_attr[i].name, DAT_IB_ATTR_UD))
			value = client->provider.provider_specific_attr[i].value;
	ck_assert_str_eq(value, had ? "TRUE" : "FALSE");
	ck_dat_is(dat_ep_create(client->ia, client->pz, client->recv_evd, client->request_evd,
				client->connect_evd, &attr, &ep),
		  had ? DAT_SUCCESS : NOT_HAD);
	side_close_abrupt(client);
}
END_TEST

START_TEST(messages_go_both_ways_behind_a_header_of_forty_bytes)
{
	struct found active, passive;

	ends_open(false);
	meet(client->ep, server->ep, &active, &passive);
	ck_assert_uint_ne(active.ah.qpn, passive.ah.qpn);
	expect_passes(client, &active, server, 10, 200);
	expect_passes(server, &passive, client, 20, 1);
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_UNCONNECTED);
	ends_close();
}
END_TEST

START_TEST(a_message_is_as_long_as_a_packet)
{
	struct found active, passive;
	DAT_EP_PARAM param;
	size_t longest;

	ends_open(false);
	ck_dat(dat_ep_query(client->ep, DAT_EP_FIELD_ALL, &param));
	longest = param.ep_attr.max_message_size;
	ck_assert_uint_ge(longest, 256);
	ck_assert_uint_le(longest, 4096);
	ck_assert_uint_eq(longest & (longest - 1), 0);
	meet(client->ep, server->ep, &active, &passive);
	ck_dat_is(try_send(client, &active, 1, longest + 1, DAT_COMPLETION_DEFAULT_FLAG),
		  BAD_ARG(3));
	if (longest > BUFFER - HEADER)
		longest = BUFFER - HEADER;
	expect_passes(client, &active, server, 1, longest);
	ends_close();
}
END_TEST

START_TEST(a_rejection_and_a_missing_listener_are_told_apart)
{
	const DAT_CONN_QUAL nobody = 19999; /* free_qual begins above it */
	DAT_IB_EXTENSION_EVENT_DATA extension;
	DAT_EVENT event;

	ends_open(false);
	ck_dat(try_ask(client->ep, qual, "ask"));
	ck_dat(dat_cr_reject(expect_asked("ask"), 3, (DAT_PVOID) "no"));
	event = expect_extension(client->connect_evd, DAT_IB_UD_CONNECTION_REJECT_EVENT,
				 DAT_IB_UD_CONNECT_REJECT, &extension);
	ck_assert_str_eq(event.event_data.connect_event_data.private_data, "no");
	ck_dat(dat_ib_ud_cm_free(client->ep, extension.context));
	ck_dat(try_ask(client->ep, nobody, "ask"));
	expect_extension(client->connect_evd, DAT_IB_UD_CONNECTION_ERROR_EVENT,
			 DAT_IB_UD_CONNECT_ERROR, &extension);
	ck_assert_ptr_null(extension.remote_ah.ah);
	ends_close();
}
END_TEST

START_TEST(a_way_outlives_its_exchange_and_ends_when_it_is_given_up)
{
	struct found active, passive;

	ends_open(false);
	meet(client->ep, server->ep, &active, &passive);
	ck_dat(dat_ib_ud_cm_free(client->ep, active.context));
	ck_dat(dat_ib_ud_cm_free(server->ep, passive.context));
	expect_passes(client, &active, server, 10, 64);
	expect_passes(server, &passive, client, 20, 64);
	ck_dat(dat_ib_ud_ah_free(client->ep, &active.ah));
	ck_dat_is(try_send(client, &active, 1, 8, DAT_COMPLETION_DEFAULT_FLAG), BAD_ARG(4));
	ck_dat_is(dat_ib_ud_ah_free(client->ep, &active.ah), BAD_ARG(2));
	ends_close();
}
END_TEST

/* ---- many peers, threads, shared receives ---- */

START_TEST(one_endpoint_talks_to_many)
{
	const DAT_EP_ATTR attr = datagram_attr();
	struct found active[PEERS], passive[PEERS];
	DAT_EP_HANDLE first, eps[PEERS];

	ends_open(false);
	first = client->ep;
	for (unsigned i = 0; i < PEERS; i++) {
		eps[i] = side_create_ep(client, &attr);
		meet(eps[i], server->ep, &active[i], &passive[i]);
	}
	for (unsigned i = 0; i < PEERS; i++) {
		client->ep = eps[i];
		expect_passes(server, &passive[i], client, 3 * i, 8 * i + 1);
		expect_passes(client, &active[i], server, 5 * i, 100);
		if (i % 2)
			ck_dat(dat_ib_ud_ah_free(server->ep, &passive[i].ah));
		ck_dat(dat_ep_free(eps[i]));
	}
	client->ep = first;
	ends_close();
}
END_TEST

START_TEST(a_shared_queue_tells_which_endpoint_took_the_receive)
{
	DAT_SRQ_ATTR srq_attr = { .max_recv_dtos = 8, .max_recv_iov = 1 };
	const DAT_EP_ATTR attr = datagram_attr();
	struct found active[2], passive[2];
	DAT_EP_HANDLE first, eps[2];
	DAT_SRQ_HANDLE srq;
	DAT_LMR_TRIPLET iov;

	ends_open(false);
	first = server->ep;
	ck_dat(dat_srq_create(server->ia, server->pz, &srq_attr, &srq));
	for (unsigned i = 0; i < 2; i++) {
		ck_dat(dat_ep_create_with_srq(server->ia, server->pz, server->recv_evd,
					      server->request_evd, server->connect_evd, srq, &attr,
					      &eps[i]));
		meet(client->ep, eps[i], &active[i], &passive[i]);
	}
	for (unsigned i = 0; i < 2; i++) {
		iov = buffer(server, i);
		ck_dat(dat_srq_post_recv(srq, 1, &iov, cookie_of(i)));
		pattern_fill(client->memory, 50, i);
		ck_dat(try_send(client, &active[i], 9, 50, DAT_COMPLETION_DEFAULT_FLAG));
		expect_sent(client, 9, 50);
		server->ep = eps[i];
		expect_received(server, i, 50);
		pattern_check(message(server, i), 50, i);
	}
	ck_dat(dat_ep_free(eps[0]));
	ck_dat(dat_ep_free(eps[1]));
	ck_dat(dat_srq_free(srq));
	server->ep = first;
	ends_close();
}
END_TEST

static struct found shared_way;

static void *send_suppressed(void *arg)
{
	unsigned *sent = arg;

	for (*sent = 0; *sent < ROUNDS;)
		if (try_send(client, &shared_way, 0, 8, DAT_COMPLETION_SUPPRESS_FLAG) ==
		    DAT_SUCCESS)
			(*sent)++;
	return NULL;
}

START_TEST(threads_post_to_one_endpoint_at_once)
{
	struct found passive;
	unsigned sent[2];
	pthread_t thread;

	ends_open(true);
	meet(client->ep, server->ep, &shared_way, &passive);
	thread = consumer_thread_start(send_suppressed, &sent[0]);
	send_suppressed(&sent[1]);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_uint_eq(sent[0] + sent[1], 2 * ROUNDS);
	expect_passes(client, &shared_way, server, 10, 64); /* nothing of it is in the way */
	expect_no_event(client->request_evd);
	ends_close();
}
END_TEST

/* ---- losses and ends ---- */

START_TEST(a_message_without_a_receive_is_lost)
{
	struct found active, passive;

	ends_open(false);
	meet(client->ep, server->ep, &active, &passive);
	for (unsigned n = 0; n < 2 * DEPTH; n++) {
		ck_dat(try_send(client, &active, n, 8, DAT_COMPLETION_DEFAULT_FLAG));
		expect_sent(client, n, 8);
	}
	expect_passes(client, &active, server, 10, 100);
	ends_close();
}
END_TEST

static void forget_events(DAT_EVD_HANDLE evd)
{
	DAT_EVENT event;

	while (dat_evd_dequeue(evd, &event) == DAT_SUCCESS)
		continue;
}

START_TEST(an_endpoint_ends_with_its_transfers_and_exchanges)
{
	const DAT_EP_ATTR attr = datagram_attr();
	struct found active, passive;

	ends_open(false);
	for (unsigned round = 0; round < 3; round++) {
		meet(client->ep, server->ep, &active, &passive);
		for (unsigned n = 0; n < DEPTH; n++) {
			post_recv(server->ep, n, buffer(server, n));
			ck_dat(try_send(client, &active, n, 8, DAT_COMPLETION_DEFAULT_FLAG));
		}
		ck_dat(try_ask(client->ep, qual, "under way"));
		ck_dat(dat_ep_free(client->ep));
		ck_dat(dat_ep_free(server->ep));
		expect_no_event(client->connect_evd);
		client->ep = side_create_ep(client, &attr);
		server->ep = side_create_ep(server, &attr);
		ck_dat(dat_cr_reject(expect_asked("under way"), 0, NULL));
		forget_events(client->request_evd); /* what has completed in time */
		forget_events(server->recv_evd);
	}
	meet(client->ep, server->ep, &active, &passive);
	expect_passes(client, &active, server, 10, 100);
	ends_close();
}
END_TEST

START_TEST(an_abrupt_close_ends_exchanges_on_both_sides)
{
	struct found active, passive;

	ends_open(false);
	meet(client->ep, server->ep, &active, &passive);
	for (unsigned n = 0; n < PEERS; n++)
		ck_dat(try_ask(client->ep, qual, "ask"));
	for (unsigned n = 0; n < PEERS / 2; n++)
		ck_dat(dat_cr_accept(expect_asked("ask"), server->ep, 0, NULL));
	pair_close_abrupt(&pair);
}
END_TEST

/* The device stops the endpoint, or not. In neither case does the consumer wait in vain. */
START_TEST(a_send_that_fails_is_told_and_what_follows_too)
{
	DAT_LMR_TRIPLET bad;
	struct found active, passive;
	DAT_EVENT event;

	ends_open(false);
	meet(client->ep, server->ep, &active, &passive);
	bad = segment(client, 0, 512); /* too long to be copied into the request */
	bad.lmr_context ^= 0x5a5a5a00;
	ck_dat(dat_ib_post_send_ud(client->ep, 1, &bad, &active.ah, cookie_of(1),
				   DAT_COMPLETION_DEFAULT_FLAG));
	event = expect_event(client->request_evd, (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT);
	ck_assert_int_ne(event.event_data.dto_completion_event_data.status, DAT_DTO_SUCCESS);
	for (unsigned n = 0; n < 3; n++) {
		ck_dat(try_send(client, &active, n, 8, DAT_COMPLETION_DEFAULT_FLAG));
		event = expect_event(client->request_evd, (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT);
		ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, n);
	}
	if (event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS) {
		event = expect_event(client->async_evd, DAT_ASYNC_ERROR_EP_BROKEN);
		ck_assert_ptr_eq(event.event_data.asynch_error_event_data.dat_handle, client->ep);
	}
	expect_no_event(client->async_evd);
	ends_close();
}
END_TEST

int main(int argc, char **argv)
{
	const struct device_case cases[] = {
		{ the_attribute_says_whether_there_are_datagrams, NEEDS_NOTHING },
		{ a_message_is_as_long_as_a_packet, NEEDS_DATAGRAMS },
		{ a_rejection_and_a_missing_listener_are_told_apart, NEEDS_DATAGRAMS },
		{ a_way_outlives_its_exchange_and_ends_when_it_is_given_up, NEEDS_DATAGRAMS },
		{ one_endpoint_talks_to_many, NEEDS_DATAGRAMS },
		{ a_shared_queue_tells_which_endpoint_took_the_receive,
		  NEEDS_DATAGRAMS | NEEDS_SRQ },
		{ threads_post_to_one_endpoint_at_once, NEEDS_DATAGRAMS },
		{ a_message_without_a_receive_is_lost, NEEDS_DATAGRAMS },
		{ an_endpoint_ends_with_its_transfers_and_exchanges, NEEDS_DATAGRAMS },
		{ an_abrupt_close_ends_exchanges_on_both_sides, NEEDS_DATAGRAMS },
		{ a_send_that_fails_is_told_and_what_follows_too, NEEDS_DATAGRAMS },
		{ messages_go_both_ways_behind_a_header_of_forty_bytes, NEEDS_DATAGRAMS },
	};

	return run_on_device(argc, argv, cases, COUNT(cases));
}
