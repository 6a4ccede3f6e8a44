/* SPDX-License-Identifier: BSD-2-Clause */
/* The private data of a rejection, which DAT 2.0 gives to the peer's consumer. */
#include "harness.h"

#define PORT 40000
#define MOST 144 /* bytes that the fake takes */

static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;
static char data[256];

static void setup(void)
{
	side_open(client, "fake0");
	side_open(server, "fake1");
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i + 1);
}

static void teardown(void)
{
	pair_close_abrupt(&pair);
}

/* The client's endpoint connects. */
static DAT_CR_HANDLE request_made(void)
{
	DAT_PSP_HANDLE psp;
	DAT_CR_HANDLE cr;

	ck_dat(psp_create(server->ia, PORT, server->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	ck_dat(ep_connect(client->ep, (DAT_IA_ADDRESS_PTR)&server->address, PORT,
			  DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT,
			  DAT_CONNECT_DEFAULT_FLAG));
	cr = expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
		     .event_data.cr_arrival_event_data.cr_handle;
	ck_dat(psp_free(psp));
	return cr;
}

static void expect_data(const DAT_CONNECTION_EVENT_DATA *event, const void *want, DAT_COUNT size)
{
	ck_assert_ptr_eq(event->ep_handle, client->ep);
	ck_assert_int_eq(event->private_data_size, size);
	if (size)
		ck_assert_mem_eq(event->private_data, want, (size_t)size);
	else
		ck_assert_ptr_null(event->private_data);
}

static DAT_CONNECTION_EVENT_DATA rejection(void)
{
	return expect_event(client->connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED)
		.event_data.connect_event_data;
}

static const DAT_COUNT sizes[] = { 0, 1, 4, MOST };

START_TEST(the_peer_gets_every_byte)
{
	DAT_CONNECTION_EVENT_DATA event;

	ck_dat(cr_reject(request_made(), sizes[_i], sizes[_i] ? data : NULL));
	event = rejection();
	expect_data(&event, data, sizes[_i]);
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_DISCONNECTED);
}
END_TEST

/* As on InfiniBand, where the length of the field is all that is told. */
START_TEST(a_transport_may_fill_up_with_zeros)
{
	char padded[MOST] = { 0 };
	DAT_CONNECTION_EVENT_DATA event;

	memcpy(padded, data, 3);
	fake_quirks(FAKE_PADS_PDATA);
	ck_dat(cr_reject(request_made(), 3, data));
	event = rejection();
	expect_data(&event, padded, MOST);
}
END_TEST

START_TEST(the_data_stay_until_the_endpoint_is_reset)
{
	DAT_CONNECTION_EVENT_DATA event;

	ck_dat(cr_reject(request_made(), 5, data));
	event = rejection();
	ck_dat(ia_close(server->ia, DAT_CLOSE_ABRUPT_FLAG));
	free(server->memory);
	*server = (struct side){ 0 };
	expect_data(&event, data, 5);
	side_open(server, "fake1");
	ck_dat(ep_reset(client->ep));
}
END_TEST

/* What a rejection has brought is not told with the connection after it. */
START_TEST(the_data_are_not_those_of_the_next_attempt)
{
	DAT_CONNECTION_EVENT_DATA event;

	ck_dat(cr_reject(request_made(), 5, data));
	(void)rejection();
	ck_dat(ep_reset(client->ep));
	if (_i) {
		ck_dat(cr_accept(request_made(), server->ep, 0, NULL));
		event = expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED)
				.event_data.connect_event_data;
	} else {
		ck_dat(cr_reject(request_made(), 0, NULL));
		event = rejection();
	}
	expect_data(&event, NULL, 0);
}
END_TEST

static const struct {
	const char *why;
	bool other; /* the handle is of something else */
	DAT_COUNT size;
	bool no_data;
	DAT_RETURN want;
} refusals[] = {
	{ "no request", true, 0, false, BAD_HANDLE(CR) },
	{ "a negative size", false, -1, false, BAD_ARG(2) },
	{ "one byte too many", false, MOST + 1, false, BAD_ARG(2) },
	{ "far too many", false, INT32_MAX, false, BAD_ARG(2) },
	{ "a negative size and no data", false, INT32_MIN, true, BAD_ARG(2) },
	{ "no data", false, 1, true, BAD_ARG(3) },
};

START_TEST(a_refused_rejection_keeps_the_request)
{
	const DAT_CR_HANDLE cr = request_made();

	ck_dat_is(cr_reject(refusals[_i].other ? server->pz : cr, refusals[_i].size,
			    refusals[_i].no_data ? NULL : data),
		  refusals[_i].want);
	ck_assert_uint_eq(fake_calls("reject"), 0);
	ck_dat(cr_accept(cr, server->ep, 0, NULL));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_dat_is(cr_reject(cr, 0, NULL), BAD_HANDLE(CR));
}
END_TEST

/* The limit of an answer is another one than that of a rejection; memory is for the larger one. */
START_TEST(the_longer_of_both_answers_fits)
{
	const unsigned reply = _i ? 16 : 144, reject = _i ? 144 : 16;
	DAT_CONNECTION_EVENT_DATA event;

	teardown();
	pair = (struct pair){ .client = { 0 } };
	fake_attr()->max_reply_pdata = reply;
	fake_attr()->max_reject_pdata = reject;
	setup();
	ck_dat_is(cr_reject(request_made(), (DAT_COUNT)reject + 1, data), BAD_ARG(2));
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(ep_reset(client->ep));
	ck_dat(cr_reject(request_made(), (DAT_COUNT)reject, data));
	event = rejection();
	expect_data(&event, data, (DAT_COUNT)reject);
	ck_dat(ep_reset(client->ep));
	ck_dat(cr_accept(request_made(), server->ep, (DAT_COUNT)reply, data));
	event = expect_event(client->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED)
			.event_data.connect_event_data;
	expect_data(&event, data, (DAT_COUNT)reply);
}
END_TEST

static void data_arrive(const void *bytes, unsigned size)
{
	CANCEL_FORBIDDEN;
	struct ep *ep = client->ep;

	mutex_lock(&ep->obj.ia->lock);
	up_reject_data(ep, bytes, size);
	mutex_unlock(&ep->obj.ia->lock);
}

/* A transport may bring more than its attributes say: of that, what there is memory for is kept. */
START_TEST(what_is_longer_than_any_answer_is_cut)
{
	char longer[1024];
	struct ep *ep = client->ep;

	memset(longer, 7, sizeof(longer));
	(void)request_made();
	data_arrive(longer, sizeof(longer));
	ck_assert_int_eq(ep->private_data_size, 196);
	data_arrive(longer, 0); /* nothing is kept of none */
	ck_assert_int_eq(ep->private_data_size, 196);
}
END_TEST

/* The rejections of the provider, on its own or when the IA is closed. */
START_TEST(only_a_consumers_rejection_has_data)
{
	DAT_CONNECTION_EVENT_DATA event;

	(void)request_made();
	ck_dat(ia_close(server->ia, DAT_CLOSE_ABRUPT_FLAG));
	free(server->memory);
	*server = (struct side){ 0 };
	event = expect_event(client->connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED)
			.event_data.connect_event_data;
	expect_data(&event, NULL, 0);
	side_open(server, "fake1");
}
END_TEST

/* The attempt is over before the rejection arrives: nobody is told of its data. */
START_TEST(the_data_of_a_late_rejection_are_dropped)
{
	DAT_CR_HANDLE cr = request_made();
	DAT_CONNECTION_EVENT_DATA event;

	fake_hold_cm(true);
	ck_dat(cr_reject(cr, 5, data));
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	event = expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED)
			.event_data.connect_event_data;
	expect_data(&event, NULL, 0);
	fake_hold_cm(false);
	expect_no_event(client->connect_evd);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("rejections with private data");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_loop_test(cases, the_peer_gets_every_byte, 0, COUNT(sizes));
	tcase_add_test(cases, a_transport_may_fill_up_with_zeros);
	tcase_add_test(cases, the_data_stay_until_the_endpoint_is_reset);
	tcase_add_loop_test(cases, the_data_are_not_those_of_the_next_attempt, 0, 2);
	tcase_add_loop_test(cases, a_refused_rejection_keeps_the_request, 0, COUNT(refusals));
	tcase_add_loop_test(cases, the_longer_of_both_answers_fits, 0, 2);
	tcase_add_test(cases, what_is_longer_than_any_answer_is_cut);
	tcase_add_test(cases, only_a_consumers_rejection_has_data);
	tcase_add_test(cases, the_data_of_a_late_rejection_are_dropped);
	return run_unit_cases(argc, argv);
}
