/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints of datagrams: the exchange of address handles, sends, receives. Of DAT 2.0 only. */
#include <dat2/dat_ib_extensions.h>

#include "harness.h"

#define FULL	      NO_RESOURCE(MEMORY)
#define NOT_SUPPORTED DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE)

#define QUAL   5000
#define HEADER 40
#define DEPTH  4

static struct side client, server;
static DAT_EP_HANDLE from, to; /* the endpoints of datagrams of the two */
static DAT_PSP_HANDLE psp;

/* The macros of the public header call the provider's function. */
static DAT_RETURN operate(DAT_HANDLE handle, DAT_EXTENDED_OP op, ...)
{
	va_list args;
	DAT_RETURN ret;

	va_start(args, op);
	ret = extended_op(handle, op, args);
	va_end(args);
	return ret;
}
#define dat_extension_op(handle, op, ...) operate(handle, (DAT_EXTENDED_OP)(op), __VA_ARGS__)

/* ---- the sides ---- */

static DAT_EP_ATTR ud_attr(const struct side *side)
{
	DAT_EP_ATTR attr = ep_attr_default(side);

	attr.service_type = (DAT_SERVICE_TYPE)DAT_IB_SERVICE_TYPE_UD;
	attr.max_message_size = 0;
	attr.max_request_dtos = DEPTH;
	return attr;
}

static DAT_EP_HANDLE ud_ep(const struct side *side)
{
	DAT_EP_ATTR attr = ud_attr(side);

	return side_create_ep(side, &attr);
}

static void setup(void)
{
	side_open(&client, "fake0");
	side_open(&server, "fake1");
	from = ud_ep(&client);
	to = ud_ep(&server);
	ck_dat(psp_create(server.ia, QUAL, server.cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
}

static void setup_thread_safe(void)
{
	client.thread_safe = server.thread_safe = true;
	setup();
}

static void setup_without_datagrams(void)
{
	fake_attr()->max_datagram = 0;
	side_open(&client, "fake0");
}

/* Whatever is left of exchanges goes with the endpoints. */
static void teardown(void)
{
	ck_dat(psp_free(psp));
	ck_dat(ep_free(from));
	ck_dat(ep_free(to));
	side_close(&client);
	side_close(&server);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}

/* ---- exchanges ---- */

static const DAT_IB_EXTENSION_EVENT_DATA *extension_of(const DAT_EVENT *event)
{
	return (const DAT_IB_EXTENSION_EVENT_DATA *)&event->event_extension_data;
}

static DAT_RETURN try_connect(DAT_EP_HANDLE ep, const char *pdata, DAT_TIMEOUT timeout)
{
	return ep_connect(ep, (DAT_IA_ADDRESS_PTR)&server.address, QUAL, timeout,
			  (DAT_COUNT)strlen(pdata), (DAT_PVOID)(uintptr_t)pdata,
			  DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
}

static DAT_CR_HANDLE expect_request(void)
{
	DAT_EVENT event = expect_event(server.cr_evd,
				       (DAT_EVENT_NUMBER)DAT_IB_UD_CONNECTION_REQUEST_EVENT);

	ck_assert_int_eq(extension_of(&event)->type, DAT_IB_UD_CONNECT_REQUEST);
	ck_assert_uint_eq(event.event_data.cr_arrival_event_data.conn_qual, QUAL);
	return event.event_data.cr_arrival_event_data.cr_handle;
}

struct found {
	DAT_IB_ADDR_HANDLE ah;
	DAT_CONTEXT context;
};

static struct found expect_found(const struct side *side, DAT_EP_HANDLE ep, DAT_IB_EXT_TYPE type,
				 const char *pdata)
{
	DAT_EVENT event = expect_event(side->connect_evd,
				       (DAT_EVENT_NUMBER)DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED);
	const DAT_CONNECTION_EVENT_DATA *data = &event.event_data.connect_event_data;
	const DAT_IB_EXTENSION_EVENT_DATA *extension = extension_of(&event);

	ck_assert_ptr_eq(data->ep_handle, ep);
	ck_assert_int_eq(data->private_data_size, strlen(pdata));
	ck_assert_int_eq(memcmp(data->private_data ? data->private_data : "", pdata, strlen(pdata)),
			 0);
	ck_assert_int_eq(extension->type, type);
	ck_assert_int_eq(extension->status, DAT_OP_SUCCESS);
	ck_assert_ptr_nonnull(extension->remote_ah.ah);
	ck_assert_uint_ne(extension->remote_ah.qpn, 0);
	return (struct found){ extension->remote_ah, extension->context };
}

static DAT_CONTEXT expect_failed(DAT_IB_EVENT_NUMBER number, DAT_IB_EXT_TYPE type,
				 const char *pdata)
{
	DAT_EVENT event = expect_event(client.connect_evd, (DAT_EVENT_NUMBER)number);
	const DAT_CONNECTION_EVENT_DATA *data = &event.event_data.connect_event_data;
	const DAT_IB_EXTENSION_EVENT_DATA *extension = extension_of(&event);

	ck_assert_ptr_eq(data->ep_handle, from);
	ck_assert_int_eq(data->private_data_size, strlen(pdata));
	if (*pdata)
		ck_assert_mem_eq(data->private_data, pdata, strlen(pdata));
	ck_assert_int_eq(extension->type, type);
	ck_assert_int_ne(extension->status, DAT_OP_SUCCESS);
	ck_assert_ptr_null(extension->remote_ah.ah);
	return extension->context;
}

#define expect_rejected(pdata)                                                                     \
	expect_failed(DAT_IB_UD_CONNECTION_REJECT_EVENT, DAT_IB_UD_CONNECT_REJECT, pdata)
#define expect_error() expect_failed(DAT_IB_UD_CONNECTION_ERROR_EVENT, DAT_IB_UD_CONNECT_ERROR, "")

/* Both endpoints learn of each other. */
static void meet(struct found *active, struct found *passive)
{
	ck_dat(try_connect(from, "ask", SECONDS(60)));
	ck_dat(cr_accept(expect_request(), to, 6, (DAT_PVOID) "answer"));
	*passive = expect_found(&server, to, DAT_IB_UD_PASSIVE_REMOTE_AH, "");
	*active = expect_found(&client, from, DAT_IB_UD_REMOTE_AH, "answer");
}

START_TEST(both_sides_learn_the_way_to_each_other)
{
	struct found active, passive;
	DAT_CR_PARAM param;
	DAT_CR_HANDLE cr;

	ck_dat(try_connect(from, "ask", SECONDS(60)));
	cr = expect_request();
	ck_dat(cr_query(cr, DAT_CR_FIELD_ALL, &param));
	ck_assert_int_eq(param.private_data_size, 3);
	ck_assert_mem_eq(param.private_data, "ask", 3);
	ck_dat(cr_accept(cr, to, 6, (DAT_PVOID) "answer"));
	passive = expect_found(&server, to, DAT_IB_UD_PASSIVE_REMOTE_AH, "");
	active = expect_found(&client, from, DAT_IB_UD_REMOTE_AH, "answer");
	ck_assert_uint_ne(active.ah.qpn, passive.ah.qpn);
	ck_assert_int_eq(ep_get_state(from), DAT_EP_STATE_UNCONNECTED);
	ck_assert_int_eq(ep_get_state(to), DAT_EP_STATE_UNCONNECTED);
	ck_assert_uint_eq(fake_alive(FAKE_CONN), 0);
	ck_assert_uint_eq(fake_alive(FAKE_AH), 2);
	ck_assert_int_eq(((struct sockaddr_in *)&active.ah.ia_addr)->sin_addr.s_addr,
			 server.address.sin_addr.s_addr);
	ck_assert_int_eq(((struct sockaddr_in *)&passive.ah.ia_addr)->sin_addr.s_addr,
			 client.address.sin_addr.s_addr);
}
END_TEST

START_TEST(a_rejection_brings_the_data_of_the_rejecter)
{
	DAT_CONTEXT context;

	ck_dat(try_connect(from, "ask", SECONDS(60)));
	ck_dat(cr_reject(expect_request(), 2, (DAT_PVOID) "no"));
	context = expect_rejected("no");
	ck_dat(dat_ib_ud_cm_free(from, context));
	expect_no_event(client.connect_evd);
	ck_assert_uint_eq(fake_alive(FAKE_CONN), 0);
}
END_TEST

START_TEST(an_attempt_in_vain_is_an_error_event)
{
	struct sockaddr_in nowhere = server.address;

	nowhere.sin_addr.s_addr = htonl(FAKE_NETWORK + 99);
	ck_dat(ep_connect(from, (DAT_IA_ADDRESS_PTR)&nowhere, QUAL, SECONDS(1), 0, NULL,
			  DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	expect_error();
	ck_dat(ep_connect(from, (DAT_IA_ADDRESS_PTR)&server.address, QUAL + 1, SECONDS(1), 0, NULL,
			  DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	expect_error();
	ck_dat(try_connect(from, "", SECONDS(1))); /* nobody answers */
	expect_error();
	ck_dat(cr_reject(expect_request(), 0, NULL));
	expect_no_event(client.connect_evd);
}
END_TEST

START_TEST(an_accept_of_a_request_that_was_given_up_fails_and_leaves_it)
{
	DAT_CR_HANDLE cr;

	ck_dat(try_connect(from, "", SECONDS(1)));
	expect_error();
	cr = expect_request();
	ck_assert_uint_ne(cr_accept(cr, to, 0, NULL), DAT_SUCCESS);
	ck_dat(cr_reject(cr, 0, NULL));
	expect_no_event(server.connect_evd);
}
END_TEST

START_TEST(endpoints_and_requests_are_of_one_kind)
{
	DAT_RSP_HANDLE rsp = POISON;
	DAT_CR_HANDLE cr;
	DAT_EVENT event;

	ck_dat(try_connect(from, "", SECONDS(60)));
	cr = expect_request();
	ck_assert_uint_eq(cr_accept(cr, server.ep, 0, NULL), BAD_HANDLE(EP));
	ck_dat(cr_accept(cr, to, 0, NULL));
	ck_dat(ep_connect(client.ep, (DAT_IA_ADDRESS_PTR)&server.address, QUAL, SECONDS(60), 0,
			  NULL, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	event = expect_event(server.cr_evd, DAT_CONNECTION_REQUEST_EVENT);
	cr = event.event_data.cr_arrival_event_data.cr_handle;
	ck_assert_uint_eq(cr_accept(cr, to, 0, NULL), BAD_HANDLE(EP));
	ck_dat(cr_reject(cr, 0, NULL));
	expect_found(&client, from, DAT_IB_UD_REMOTE_AH, "");
	expect_event(client.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
	ck_assert_uint_eq(rsp_create(server.ia, QUAL + 1, to, server.cr_evd, &rsp), BAD_HANDLE(EP));
	ck_assert_uint_eq(ep_dup_connect(from, client.ep, SECONDS(1), 0, NULL, DAT_QOS_BEST_EFFORT),
			  BAD_HANDLE(EP));
}
END_TEST

START_TEST(a_service_point_that_brings_endpoints_refuses_datagrams)
{
	DAT_PSP_HANDLE bringing;

	ck_dat(psp_create(server.ia, QUAL + 2, server.cr_evd, DAT_PSP_PROVIDER_FLAG, &bringing));
	ck_dat(ep_connect(from, (DAT_IA_ADDRESS_PTR)&server.address, QUAL + 2, SECONDS(1), 0, NULL,
			  DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	expect_error();
	expect_no_event(server.cr_evd);
	ck_dat(psp_free(bringing));
}
END_TEST

/* ---- what is given up ---- */

START_TEST(context_and_address_handle_are_given_up_once_each)
{
	struct found active, passive;
	DAT_CONTEXT none = { .as_ptr = &active };
	DAT_IB_ADDR_HANDLE empty = { .ah = NULL };

	meet(&active, &passive);
	ck_assert_uint_eq(dat_ib_ud_cm_free(from, none), BAD_ARG(2));
	ck_assert_uint_eq(dat_ib_ud_ah_free(from, NULL), BAD_ARG(2));
	ck_assert_uint_eq(dat_ib_ud_ah_free(from, &empty), BAD_ARG(2));
	ck_assert_uint_eq(dat_ib_ud_ah_free(to, &active.ah), BAD_ARG(2));
	ck_assert_uint_eq(dat_ib_ud_cm_free(client.ep, active.context), BAD_HANDLE(EP));
	if (_i)
		ck_dat(dat_ib_ud_ah_free(from, &active.ah));
	ck_dat(dat_ib_ud_cm_free(from, active.context));
	ck_assert_uint_eq(dat_ib_ud_cm_free(from, active.context), BAD_ARG(2));
	if (!_i)
		ck_dat(dat_ib_ud_ah_free(from, &active.ah));
	ck_assert_uint_eq(dat_ib_ud_ah_free(from, &active.ah), BAD_ARG(2));
	ck_assert_uint_eq(fake_alive(FAKE_AH), 1);
}
END_TEST

START_TEST(to_give_up_a_context_ends_its_exchange)
{
	DAT_EVENT event;
	DAT_COUNT more;

	fake_hold_cm(true);
	ck_dat(try_connect(from, "", SECONDS(60)));
	fake_hold_cm(false);
	event = expect_event(server.cr_evd, (DAT_EVENT_NUMBER)DAT_IB_UD_CONNECTION_REQUEST_EVENT);
	ck_dat(cr_accept(event.event_data.cr_arrival_event_data.cr_handle, to, 0, NULL));
	ck_dat(evd_wait(server.connect_evd, SECONDS(60), 1, &event, &more));
	ck_dat(dat_ib_ud_cm_free(to, extension_of(&event)->context));
	ck_dat(dat_ib_ud_ah_free(to, &extension_of(&event)->remote_ah));
	expect_found(&client, from, DAT_IB_UD_REMOTE_AH, "");
}
END_TEST

START_TEST(an_endpoint_takes_its_exchanges_with_it)
{
	struct found active, passive;

	meet(&active, &passive);
	fake_hold_cm(true);
	ck_dat(try_connect(from, "", SECONDS(60)));
	ck_dat(ep_free(from));
	fake_hold_cm(false);
	ck_assert_uint_eq(fake_alive(FAKE_AH), 1);
	expect_no_event(client.connect_evd);
	from = ud_ep(&client);
}
END_TEST

START_TEST(an_abrupt_close_ends_exchanges)
{
	struct found active, passive;

	meet(&active, &passive);
	fake_hold_cm(true);
	ck_dat(try_connect(from, "", SECONDS(60)));
	ck_dat(ia_close(client.ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat(ia_close(server.ia, DAT_CLOSE_ABRUPT_FLAG));
	fake_hold_cm(false);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

/* ---- failures ---- */

START_TEST(a_connect_that_fails_leaves_nothing)
{
	unsigned n = 1;

	for (; fake_fail_call(n), try_connect(from, "ask", SECONDS(60)) != DAT_SUCCESS; n++) {
		ck_assert_uint_eq(fake_alive(FAKE_CONN), 0);
		expect_no_event(client.connect_evd);
	}
	fake_fail_call(0);
	ck_assert_uint_gt(n, 1);
	ck_dat(cr_accept(expect_request(), to, 0, NULL));
	expect_found(&client, from, DAT_IB_UD_REMOTE_AH, "");
}
END_TEST

START_TEST(an_accept_that_fails_leaves_the_request)
{
	DAT_CR_HANDLE cr;
	unsigned n = 1;

	ck_dat(try_connect(from, "ask", SECONDS(60)));
	cr = expect_request();
	for (; fake_fail_call(n), cr_accept(cr, to, 0, NULL) != DAT_SUCCESS; n++)
		expect_no_event(server.connect_evd);
	fake_fail_call(0);
	ck_assert_uint_gt(n, 1);
	expect_found(&server, to, DAT_IB_UD_PASSIVE_REMOTE_AH, "");
	expect_found(&client, from, DAT_IB_UD_REMOTE_AH, "");
}
END_TEST

START_TEST(a_way_that_the_device_refuses_is_an_error_event)
{
	ck_dat(try_connect(from, "", SECONDS(60)));
	fake_hold_cm(true);
	ck_dat(cr_accept(expect_request(), to, 0, NULL));
	expect_found(&server, to, DAT_IB_UD_PASSIVE_REMOTE_AH, "");
	fake_fail("ah_create", ENOMEM, 1);
	fake_hold_cm(false);
	expect_error();
	ck_assert_uint_eq(fake_alive(FAKE_AH), 1);
	ck_assert_uint_eq(fake_alive(FAKE_CONN), 0);
}
END_TEST

START_TEST(private_data_have_limits_of_their_own)
{
	const DAT_COUNT reply = (DAT_COUNT)fake_attr()->max_datagram_reply_pdata;
	const DAT_COUNT rejection = (DAT_COUNT)fake_attr()->max_datagram_reject_pdata;
	char data[512] = { 0 };
	DAT_CR_HANDLE cr;

	ck_dat(try_connect(from, "", SECONDS(60)));
	cr = expect_request();
	ck_assert_uint_eq(cr_accept(cr, to, reply + 1, data), BAD_ARG(3));
	ck_assert_uint_eq(cr_reject(cr, rejection + 1, data), BAD_ARG(2));
	ck_dat(cr_accept(cr, to, reply, data));
	expect_event(server.connect_evd, (DAT_EVENT_NUMBER)DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED);
	expect_event(client.connect_evd, (DAT_EVENT_NUMBER)DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED);
}
END_TEST

/* ---- transfers ---- */

static DAT_RETURN try_send_to(const DAT_IB_ADDR_HANDLE *ah, uint64_t n, size_t length,
			      unsigned flags)
{
	DAT_LMR_TRIPLET iov = segment(&client, 0, length);

	return dat_ib_post_send_ud(from, 1, &iov, ah, cookie_of(n), (DAT_COMPLETION_FLAGS)flags);
}

static void receive(uint64_t n, size_t offset, size_t length)
{
	DAT_LMR_TRIPLET iov = segment(&server, offset, length);

	ck_dat(ep_post_recv(to, 1, &iov, cookie_of(n), DAT_COMPLETION_DEFAULT_FLAG));
}

static void expect_extended(DAT_EVD_HANDLE evd, DAT_EP_HANDLE ep, uint64_t n, DAT_IB_DTOS operation,
			    DAT_IB_EXT_TYPE type, DAT_DTO_COMPLETION_STATUS status, size_t length)
{
	DAT_EVENT event = expect_event(evd, (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT);
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;

	ck_assert_ptr_eq(dto->ep_handle, ep);
	ck_assert_uint_eq(dto->user_cookie.as_64, n);
	ck_assert_int_eq(dto->status, status);
	ck_assert_int_eq(dto->operation, operation);
	ck_assert_uint_eq(dto->transfered_length, length);
	ck_assert_int_eq(extension_of(&event)->type, type);
	ck_assert_int_eq(extension_of(&event)->status == DAT_OP_SUCCESS, status == DAT_DTO_SUCCESS);
}

static void expect_sent(uint64_t n, size_t length)
{
	expect_extended(client.request_evd, from, n, DAT_IB_DTO_SEND_UD, DAT_IB_UD_SEND,
			DAT_DTO_SUCCESS, length);
}

static void expect_received(uint64_t n, size_t length)
{
	expect_extended(server.recv_evd, to, n, DAT_IB_DTO_RECV_UD, DAT_IB_UD_RECV, DAT_DTO_SUCCESS,
			HEADER + length);
}

/* Programs of libibverbs may send some; DAT has no such post. */
static void expect_received_with_immediate_data(uint64_t n, size_t length)
{
	DAT_EVENT event = expect_event(server.recv_evd, (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT);
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;

	ck_assert_uint_eq(dto->user_cookie.as_64, n);
	ck_assert_int_eq(dto->status, DAT_DTO_SUCCESS);
	ck_assert_int_eq(dto->operation, DAT_IB_DTO_RECV_UD_IMMED);
	ck_assert_uint_eq(dto->transfered_length, HEADER + length);
	ck_assert_int_eq(extension_of(&event)->type, DAT_IB_UD_RECV);
	ck_assert_int_eq(extension_of(&event)->status, DAT_OP_SUCCESS);
	ck_assert_uint_eq(extension_of(&event)->val.immed.data, FAKE_IMMED);
}

START_TEST(a_message_arrives_behind_the_header_of_the_network)
{
	struct found active, passive;

	meet(&active, &passive);
	receive(7, 1024, 256);
	memset(client.memory, 'x', 100);
	ck_dat(try_send_to(&active.ah, 8, 100, 0));
	expect_sent(8, 100);
	expect_received(7, 100);
	ck_assert_mem_eq(server.memory + 1024 + HEADER, client.memory, 100);
	ck_assert_int_eq(server.memory[1024 + HEADER + 100], 0);
}
END_TEST

START_TEST(a_message_without_receive_or_peer_is_lost)
{
	struct found active, passive;

	meet(&active, &passive);
	ck_dat(try_send_to(&active.ah, 1, 8, 0));
	expect_sent(1, 8);
	ck_dat(ep_free(to));
	ck_dat(try_send_to(&active.ah, 2, 8, 0));
	expect_sent(2, 8);
	to = ud_ep(&server);
}
END_TEST

START_TEST(an_answer_goes_the_way_back)
{
	DAT_LMR_TRIPLET iov = segment(&server, 0, 16), own = segment(&client, 512, 64);
	struct found active, passive;

	meet(&active, &passive);
	ck_dat(ep_post_recv(from, 1, &own, cookie_of(1), DAT_COMPLETION_DEFAULT_FLAG));
	memset(server.memory, 'y', 16);
	ck_dat(dat_ib_post_send_ud(to, 1, &iov, &passive.ah, cookie_of(2),
				   DAT_COMPLETION_SOLICITED_WAIT_FLAG));
	ck_assert_uint_eq(fake_seen().post_flags, TP_POST_SIGNAL | TP_POST_SOLICIT);
	expect_extended(server.request_evd, to, 2, DAT_IB_DTO_SEND_UD, DAT_IB_UD_SEND,
			DAT_DTO_SUCCESS, 16);
	expect_extended(client.recv_evd, from, 1, DAT_IB_DTO_RECV_UD, DAT_IB_UD_RECV,
			DAT_DTO_SUCCESS, HEADER + 16);
	ck_assert_mem_eq(client.memory + 512 + HEADER, server.memory, 16);
}
END_TEST

START_TEST(suppressed_sends_make_no_event_and_free_their_slots)
{
	struct found active, passive;

	meet(&active, &passive);
	for (unsigned n = 0; n < 5 * DEPTH; n++)
		ck_dat(try_send_to(&active.ah, n, 8, DAT_COMPLETION_SUPPRESS_FLAG));
	expect_no_event(client.request_evd);
}
END_TEST

START_TEST(a_full_queue_refuses_and_goes_on_when_events_were_taken)
{
	struct found active, passive;
	DAT_LMR_TRIPLET iov[2] = { segment(&client, 0, 8), segment(&client, 64, 0) };

	meet(&active, &passive);
	for (unsigned n = 0; n < DEPTH; n++)
		ck_dat(dat_ib_post_send_ud(from, 2, iov, &active.ah, cookie_of(n),
					   DAT_COMPLETION_DEFAULT_FLAG));
	ck_dat(try_send_to(&active.ah, DEPTH, 8, 0)); /* the completions were taken to make room */
	for (unsigned n = 0; n <= DEPTH; n++)
		expect_sent(n, 8);
	ck_dat(dat_ib_post_send_ud(from, 0, NULL, &active.ah, cookie_of(9),
				   DAT_COMPLETION_DEFAULT_FLAG));
	expect_sent(9, 0);
}
END_TEST

START_TEST(wrong_arguments_of_a_send_are_refused)
{
	DAT_LMR_TRIPLET iov = segment(&client, 0, 8);
	const size_t longest = fake_attr()->max_datagram;
	struct found active, passive;
	DAT_IB_ADDR_HANDLE none = { .ah = NULL }, foreign, ep_as_ah = { .ah = from };
	DAT_EP_ATTR attr = ep_attr_default(&client);

	meet(&active, &passive);
	foreign = passive.ah;
#define SEND(ep, nseg, iov, ah)                                                                    \
	dat_ib_post_send_ud(ep, nseg, iov, ah, cookie_of(1), DAT_COMPLETION_DEFAULT_FLAG)
	ck_assert_uint_eq(SEND(client.ep, 1, &iov, &active.ah), BAD_HANDLE(EP));
	ck_assert_uint_eq(SEND(client.pz, 1, &iov, &active.ah), BAD_HANDLE(EP));
	ck_assert_uint_eq(SEND(from, -1, &iov, &active.ah), BAD_ARG(2));
	ck_assert_uint_eq(SEND(from, attr.max_request_iov + 1, &iov, &active.ah), BAD_ARG(2));
	ck_assert_uint_eq(SEND(from, 1, NULL, &active.ah), BAD_ARG(3));
	ck_assert_uint_eq(try_send_to(&active.ah, 1, longest + 1, 0), BAD_ARG(3));
	ck_assert_uint_eq(SEND(from, 1, &iov, NULL), BAD_ARG(4));
	ck_assert_uint_eq(SEND(from, 1, &iov, &none), BAD_ARG(4));
	ck_assert_uint_eq(SEND(from, 1, &iov, &foreign), BAD_ARG(4));
	ck_assert_uint_eq(SEND(from, 1, &iov, &ep_as_ah), BAD_ARG(4));
	ck_dat(try_send_to(&active.ah, 2, longest, 0));
	expect_sent(2, longest);
	ck_dat(dat_ib_ud_ah_free(from, &active.ah));
	ck_assert_uint_eq(SEND(from, 1, &iov, &active.ah), BAD_ARG(4));
#undef SEND
}
END_TEST

START_TEST(transfers_of_connections_are_refused)
{
	DAT_LMR_TRIPLET iov = segment(&client, 0, 8);
	DAT_RMR_TRIPLET remote = target(&server, 0, 8);
	DAT_EP_PARAM param = { .ep_attr.max_request_dtos = 1 };

	ck_assert_uint_eq(ep_post_send(from, 1, &iov, cookie_of(1), DAT_COMPLETION_DEFAULT_FLAG),
			  BAD_HANDLE(EP));
	ck_assert_uint_eq(ep_post_rdma_write(from, 1, &iov, cookie_of(1), &remote,
					     DAT_COMPLETION_DEFAULT_FLAG),
			  BAD_HANDLE(EP));
	ck_assert_uint_eq(ep_post_rdma_read(from, 1, &iov, cookie_of(1), &remote,
					    DAT_COMPLETION_DEFAULT_FLAG),
			  BAD_HANDLE(EP));
	ck_assert_uint_eq(dat_ib_post_rdma_write_immed(from, 1, &iov, cookie_of(1), &remote, 1, 0),
			  BAD_HANDLE(EP));
	ck_assert_uint_eq(ep_modify(from, DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, &param),
			  NOT_SUPPORTED);
	param.ep_attr = ud_attr(&client);
	ck_assert_uint_eq(ep_modify(client.ep, DAT_EP_FIELD_EP_ATTR_SERVICE_TYPE, &param),
			  BAD_ARG(3));
	ck_assert_uint_eq(ep_disconnect(from, DAT_CLOSE_ABRUPT_FLAG), BAD_STATE(EP_UNCONNECTED));
}
END_TEST

START_TEST(sends_go_on_after_one_that_has_failed)
{
	struct found active, passive;

	meet(&active, &passive);
	fake_fail_transfer(DAT_DTO_ERR_LOCAL_PROTECTION);
	ck_dat(try_send_to(&active.ah, 1, 8, 0));
	expect_extended(client.request_evd, from, 1, DAT_IB_DTO_SEND_UD, DAT_IB_UD_SEND,
			DAT_DTO_ERR_LOCAL_PROTECTION, 0);
	expect_no_event(client.request_evd); /* the service thread has resumed it */
	ck_assert_uint_eq(fake_calls("datagram_resume"), 1);
	ck_dat(try_send_to(&active.ah, 3, 8, 0));
	expect_sent(3, 8);
	expect_no_event(client.async_evd);
}
END_TEST

START_TEST(an_endpoint_that_can_t_be_resumed_is_broken_once)
{
	struct found active, passive;
	DAT_EVENT event;

	meet(&active, &passive);
	fake_fail("datagram_resume", EINVAL, 1);
	fake_fail_transfer(DAT_DTO_ERR_LOCAL_PROTECTION);
	ck_dat(try_send_to(&active.ah, 1, 8, 0));
	expect_event(client.request_evd, (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT);
	event = expect_event(client.async_evd, DAT_ASYNC_ERROR_EP_BROKEN);
	ck_assert_ptr_eq(event.event_data.asynch_error_event_data.dat_handle, from);
	fake_fail("datagram_resume", EINVAL, 1);
	ck_dat(try_send_to(&active.ah, 2, 8, 0));
	expect_extended(client.request_evd, from, 2, DAT_IB_DTO_SEND_UD, DAT_IB_UD_SEND,
			DAT_DTO_ERR_FLUSHED, 0);
	expect_no_event(client.async_evd);
}
END_TEST

START_TEST(a_post_that_the_device_refuses_leaves_the_queue_as_it_was)
{
	struct found active, passive;

	meet(&active, &passive);
	fake_fail("post_datagram", ENOMEM, 1);
	ck_assert_uint_eq(try_send_to(&active.ah, 1, 8, 0), FULL);
	ck_dat(try_send_to(&active.ah, 2, 8, 0));
	expect_sent(2, 8);
	expect_no_event(client.request_evd);
}
END_TEST

START_TEST(receives_of_a_shared_queue_tell_their_endpoint)
{
	DAT_SRQ_ATTR srq_attr = { .max_recv_dtos = 8, .max_recv_iov = 1 };
	DAT_LMR_TRIPLET iov = segment(&server, 2048, 64);
	DAT_EP_ATTR attr = ud_attr(&server);
	struct found active, passive;
	DAT_SRQ_HANDLE srq;

	ck_dat(srq_create(server.ia, server.pz, &srq_attr, &srq));
	ck_dat(ep_free(to));
	ck_dat(ep_create_with_srq(server.ia, server.pz, server.recv_evd, server.request_evd,
				  server.connect_evd, srq, &attr, &to));
	ck_dat(srq_post_recv(srq, 1, &iov, cookie_of(5)));
	meet(&active, &passive);
	ck_dat(try_send_to(&active.ah, 1, 8, 0));
	expect_received(5, 8);
	fake_quirks(FAKE_SENDS_IMMED);
	ck_dat(srq_post_recv(srq, 1, &iov, cookie_of(6)));
	ck_dat(try_send_to(&active.ah, 1, 8, 0));
	expect_received_with_immediate_data(6, 8);
	ck_dat(ep_free(to));
	ck_dat(srq_free(srq));
	to = ud_ep(&server);
}
END_TEST

START_TEST(immediate_data_of_a_message_are_told)
{
	struct found active, passive;

	meet(&active, &passive);
	fake_quirks(FAKE_SENDS_IMMED);
	receive(7, 0, 64);
	ck_dat(try_send_to(&active.ah, 8, 10, 0));
	expect_received_with_immediate_data(7, 10);
	fake_quirks(0);
	receive(9, 0, 64);
	ck_dat(try_send_to(&active.ah, 8, 10, 0));
	expect_received(9, 10);
}
END_TEST

/* The thread is cancelled in the system call of a device's library, or when the call is over. */
static struct found cancelled_way;

static void *post_in_thread(void *arg)
{
	const unsigned *flags = arg;

	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	pthread_cancel(pthread_self());
	(void)try_send_to(&cancelled_way.ah, 5, 8, *flags);
	pthread_testcancel();
	return NULL;
}

START_TEST(a_thread_that_is_cancelled_in_a_post_leaves_it_posted)
{
	unsigned flags = _i ? DAT_COMPLETION_SOLICITED_WAIT_FLAG : 0;
	struct found passive;
	pthread_t thread;
	void *result;

	if (!CAN_UNWIND_THREADS)
		return;
	meet(&cancelled_way, &passive);
	fake_quirks(FAKE_POSTS_BY_CALL);
	ck_assert_int_eq(pthread_create(&thread, NULL, post_in_thread, &flags), 0);
	ck_assert_int_eq(pthread_join(thread, &result), 0);
	ck_assert_ptr_eq(result, PTHREAD_CANCELED);
	expect_sent(5, 8);
	ck_dat(try_send_to(&cancelled_way.ah, 6, 8, 0)); /* its lock is free */
	expect_sent(6, 8);
}
END_TEST

START_TEST(receives_that_are_outstanding_go_with_the_endpoint)
{
	receive(1, 0, 64);
	receive(2, 64, 64);
	ck_dat(ep_free(to));
	expect_no_event(server.recv_evd);
	to = ud_ep(&server);
}
END_TEST

/* ---- without datagrams ---- */

START_TEST(a_device_without_datagrams_says_so)
{
	DAT_EP_ATTR attr = ud_attr(&client);
	DAT_LMR_TRIPLET iov = segment(&client, 0, 8);
	DAT_IB_ADDR_HANDLE ah = { .ah = NULL };
	DAT_CONTEXT context = { .as_ptr = NULL };
	DAT_EP_HANDLE ep = POISON;

	ck_assert_uint_eq(ep_create(client.ia, client.pz, client.recv_evd, client.request_evd,
				    client.connect_evd, &attr, &ep),
			  NOT_SUPPORTED);
	ck_assert_ptr_eq(ep, POISON);
	ck_assert_uint_eq(dat_ib_post_send_ud(client.ep, 1, &iov, &ah, cookie_of(1), 0),
			  NOT_SUPPORTED);
	ck_assert_uint_eq(dat_ib_ud_cm_free(client.ep, context), NOT_SUPPORTED);
	ck_assert_uint_eq(dat_ib_ud_ah_free(client.ep, &ah), NOT_SUPPORTED);
	side_close(&client);
}
END_TEST

START_TEST(an_endpoint_is_as_large_as_the_datagrams_of_the_device)
{
	DAT_EP_ATTR attr = ud_attr(&client);
	DAT_EP_HANDLE ep = POISON;
	DAT_EP_PARAM param;

	ck_dat(ep_query(from, DAT_EP_FIELD_ALL, &param));
	ck_assert_int_eq(param.ep_attr.service_type, DAT_IB_SERVICE_TYPE_UD);
	ck_assert_uint_eq(param.ep_attr.max_message_size, fake_attr()->max_datagram);
	attr.max_message_size = fake_attr()->max_datagram + 1;
	ck_assert_uint_eq(ep_create(client.ia, client.pz, client.recv_evd, client.request_evd,
				    client.connect_evd, &attr, &ep),
			  BAD_ARG(6));
	attr.service_type = (DAT_SERVICE_TYPE)2;
	attr.max_message_size = 0;
	ck_assert_uint_eq(ep_create(client.ia, client.pz, client.recv_evd, client.request_evd,
				    client.connect_evd, &attr, &ep),
			  BAD_ARG(6));
}
END_TEST

static void add_cases(void)
{
	TCase *cases = tcase_create("exchanges");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_test(cases, both_sides_learn_the_way_to_each_other);
	tcase_add_test(cases, a_rejection_brings_the_data_of_the_rejecter);
	tcase_add_test(cases, an_attempt_in_vain_is_an_error_event);
	tcase_add_test(cases, an_accept_of_a_request_that_was_given_up_fails_and_leaves_it);
	tcase_add_test(cases, endpoints_and_requests_are_of_one_kind);
	tcase_add_test(cases, a_service_point_that_brings_endpoints_refuses_datagrams);
	tcase_add_loop_test(cases, context_and_address_handle_are_given_up_once_each, 0, 2);
	tcase_add_test(cases, to_give_up_a_context_ends_its_exchange);
	tcase_add_test(cases, an_endpoint_takes_its_exchanges_with_it);
	tcase_add_test(cases, a_connect_that_fails_leaves_nothing);
	tcase_add_test(cases, an_accept_that_fails_leaves_the_request);
	tcase_add_test(cases, a_way_that_the_device_refuses_is_an_error_event);
	tcase_add_test(cases, private_data_have_limits_of_their_own);
	tcase_add_test(cases, an_endpoint_is_as_large_as_the_datagrams_of_the_device);

	cases = tcase_create("transfers");
	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_test(cases, a_message_arrives_behind_the_header_of_the_network);
	tcase_add_test(cases, a_message_without_receive_or_peer_is_lost);
	tcase_add_test(cases, an_answer_goes_the_way_back);
	tcase_add_test(cases, suppressed_sends_make_no_event_and_free_their_slots);
	tcase_add_test(cases, a_full_queue_refuses_and_goes_on_when_events_were_taken);
	tcase_add_test(cases, wrong_arguments_of_a_send_are_refused);
	tcase_add_test(cases, transfers_of_connections_are_refused);
	tcase_add_test(cases, sends_go_on_after_one_that_has_failed);
	tcase_add_test(cases, an_endpoint_that_can_t_be_resumed_is_broken_once);
	tcase_add_test(cases, a_post_that_the_device_refuses_leaves_the_queue_as_it_was);
	tcase_add_test(cases, receives_of_a_shared_queue_tell_their_endpoint);
	tcase_add_test(cases, receives_that_are_outstanding_go_with_the_endpoint);
	tcase_add_test(cases, immediate_data_of_a_message_are_told);
	tcase_add_loop_test(cases, a_thread_that_is_cancelled_in_a_post_leaves_it_posted, 0, 2);

	cases = tcase_create("a thread-safe IA");
	tcase_add_checked_fixture(cases, setup_thread_safe, teardown);
	tcase_add_test(cases, a_message_arrives_behind_the_header_of_the_network);
	tcase_add_test(cases, a_full_queue_refuses_and_goes_on_when_events_were_taken);
	tcase_add_loop_test(cases, a_thread_that_is_cancelled_in_a_post_leaves_it_posted, 0, 2);

	cases = tcase_create("the end of IAs");
	tcase_add_checked_fixture(cases, setup, NULL);
	tcase_add_test(cases, an_abrupt_close_ends_exchanges);

	cases = tcase_create("a device without datagrams");
	tcase_add_checked_fixture(cases, setup_without_datagrams, NULL);
	tcase_add_test(cases, a_device_without_datagrams_says_so);
}

int main(int argc, char **argv)
{
	add_cases();
	return run_unit_cases(argc, argv);
}
