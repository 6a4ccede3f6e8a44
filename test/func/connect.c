/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections: how they come about, what comes with them, and every way in which they don't. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "peer.h"

#define TOO_MUCH 4096 /* bytes of private data, more than any transport carries */

static DAT_COUNT private_limit(const struct side *side)
{
	DAT_PROVIDER_ATTR attr;

	must(dat_ia_query(side->ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_MAX_PRIVATE_DATA_SIZE,
			  &attr));
	ck_assert_int_ge(attr.max_private_data_size, 32);
	ck_assert_int_lt(attr.max_private_data_size, TOO_MUCH);
	return attr.max_private_data_size;
}

/* size bytes went in; some transports don't say how many and pad with zeroes. */
static void private_check(const void *data, DAT_COUNT got, DAT_COUNT size, DAT_COUNT padded,
			  unsigned seed)
{
	ck_assert_int_eq(got, padded ? padded : size);
	if (got)
		pattern_check(data, (size_t)size, seed);
	if (got > size)
		bytes_check((const char *)data + size, (size_t)(got - size), 0);
}

static void private_data_exchange(struct pair *pair, DAT_CONN_QUAL qual, DAT_COUNT size)
{
	DAT_CONNECTION_EVENT_DATA *data;
	char out[TOO_MUCH];
	DAT_CR_PARAM request;
	DAT_CR_HANDLE cr;
	DAT_EVENT event;

	pattern_fill(out, sizeof(out), 1);
	must(dat_ep_connect(pair->near.ep, (DAT_IA_ADDRESS_PTR)&pair->far.address, qual, LONG, size,
			    size ? out : NULL, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	memset(out, 0, sizeof(out));
	cr = request_take(&pair->far);
	must(dat_cr_query(cr, DAT_CR_FIELD_ALL, &request));
	private_check(request.private_data, request.private_data_size, size,
		      device()->request_padded, 1);
	ck_assert_ptr_null(request.local_ep_handle);

	pattern_fill(out, sizeof(out), 2);
	/* refused, and the request is as it was */
	returns(BAD_ARG(3), dat_cr_accept(cr, pair->far.ep, TOO_MUCH, out));
	must(dat_cr_accept(cr, pair->far.ep, size, size ? out : NULL));
	memset(out, 0, sizeof(out));
	event = connection_event_wait(pair->near.connects, DAT_CONNECTION_EVENT_ESTABLISHED,
				      pair->near.ep);
	data = &event.event_data.connect_event_data;
	private_check(data->private_data, data->private_data_size, size, device()->reply_padded, 2);
	event = connection_event_wait(pair->far.connects, DAT_CONNECTION_EVENT_ESTABLISHED,
				      pair->far.ep);
	ck_assert_ptr_null(event.event_data.connect_event_data.private_data);
	ck_assert_int_eq(event.event_data.connect_event_data.private_data_size, 0);
}

static void both_reset(struct pair *pair)
{
	must(dat_ep_disconnect(pair->near.ep, DAT_CLOSE_ABRUPT_FLAG));
	connection_event_wait(pair->near.connects, DAT_CONNECTION_EVENT_DISCONNECTED,
			      pair->near.ep);
	connection_event_wait(pair->far.connects, DAT_CONNECTION_EVENT_DISCONNECTED, pair->far.ep);
	must(dat_ep_reset(pair->near.ep));
	must(dat_ep_reset(pair->far.ep));
}

START_TEST(private_data_goes_both_ways)
{
	char out[TOO_MUCH] = { 0 };
	struct pair pair;
	DAT_CONN_QUAL qual;
	DAT_COUNT limit;

	pair_open_unconnected(&pair, NULL);
	limit = private_limit(&pair.near);
	listen_any(&pair.far, &qual);
	returns(BAD_ARG(5),
		dat_ep_connect(pair.near.ep, (DAT_IA_ADDRESS_PTR)&pair.far.address, qual, LONG,
			       limit + 1, out, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	private_data_exchange(&pair, qual, 0);
	both_reset(&pair);
	private_data_exchange(&pair, qual, 1);
	both_reset(&pair);
	private_data_exchange(&pair, qual, limit);
	say_hello(&pair);
	pair_close(&pair);
}
END_TEST

START_TEST(rejected_by_the_peer)
{
	struct memory memory;
	struct pair pair;
	DAT_CONN_QUAL qual;
	DAT_CR_HANDLE cr;

	pair_open_unconnected(&pair, NULL);
	memory = memory_make(&pair.near, 100, DAT_MEM_PRIV_ALL_FLAG);
	recv_post(pair.near.ep, 1, seg(&memory, 0, 100));
	recv_post(pair.near.ep, 2, seg(&memory, 0, 100));
	listen_any(&pair.far, &qual);
	must(connect_to(pair.near.ep, &pair.far, qual, LONG));
	cr = request_take(&pair.far);
	must(dat_cr_reject(cr));
	returns(BAD_HANDLE(_CR), dat_cr_reject(cr));
	returns(BAD_HANDLE(_CR), dat_cr_accept(cr, pair.far.ep, 0, NULL));
	connection_event_wait(pair.near.connects, DAT_CONNECTION_EVENT_PEER_REJECTED, pair.near.ep);
	ck_assert_int_eq(ep_state(pair.near.ep), DAT_EP_STATE_DISCONNECTED);
	dto_wait(pair.near.recvs, pair.near.ep, 1, DAT_DTO_ERR_FLUSHED, 0);
	dto_wait(pair.near.recvs, pair.near.ep, 2, DAT_DTO_ERR_FLUSHED, 0);
	/* both endpoints are as good as new */
	must(dat_ep_reset(pair.near.ep));
	ck_assert_int_eq(ep_state(pair.far.ep), DAT_EP_STATE_UNCONNECTED);
	pair_connect(&pair);
	say_hello(&pair);
	no_event(pair.near.recvs);
	pair_close(&pair);
}
END_TEST

START_TEST(nobody_listens)
{
	struct pair pair;
	DAT_CONN_QUAL qual;

	pair_open_unconnected(&pair, NULL);
	must(dat_psp_free(listen_any(&pair.far, &qual)));
	must(connect_to(pair.near.ep, &pair.far, qual, LONG));
	connection_event_wait(pair.near.connects, DAT_CONNECTION_EVENT_NON_PEER_REJECTED,
			      pair.near.ep);
	ck_assert_int_eq(ep_state(pair.near.ep), DAT_EP_STATE_DISCONNECTED);
	must(dat_ep_reset(pair.near.ep));
	pair_connect(&pair);
	say_hello(&pair);
	pair_close(&pair);
}
END_TEST

START_TEST(listener_never_accepts)
{
	struct memory memory;
	struct pair pair;
	DAT_CONN_QUAL qual;
	DAT_CR_HANDLE cr;

	pair_open_unconnected(&pair, NULL);
	memory = memory_make(&pair.far, 100, DAT_MEM_PRIV_ALL_FLAG);
	recv_post(pair.far.ep, 1, seg(&memory, 0, 100));
	listen_any(&pair.far, &qual);
	returns(BAD_ARG(4), connect_to(pair.near.ep, &pair.far, qual, 0));
	must(connect_to(pair.near.ep, &pair.far, qual, 200000));
	cr = request_take(&pair.far);
	connection_event_wait(pair.near.connects, DAT_CONNECTION_EVENT_TIMED_OUT, pair.near.ep);
	ck_assert_int_eq(ep_state(pair.near.ep), DAT_EP_STATE_DISCONNECTED);
	/* too late, but the other side is told only after the call */
	request_accept_in_vain(&pair.far, cr);
	dto_wait(pair.far.recvs, pair.far.ep, 1, DAT_DTO_ERR_FLUSHED, 0);
	must(dat_ep_reset(pair.near.ep));
	must(dat_ep_reset(pair.far.ep));
	no_event(pair.near.connects);
	pair_connect(&pair);
	say_hello(&pair);
	pair_close(&pair);
}
END_TEST

/* Known at once, or told by an event. */
static void unreachable(struct side *side, const char *address)
{
	struct side nowhere = *side;
	DAT_RETURN ret;

	inet_pton(AF_INET, address, &nowhere.address.sin_addr);
	ret = connect_to(side->ep, &nowhere, 5555, DAT_TIMEOUT_INFINITE);
	if (ret == FAILS(INVALID_ADDRESS, INVALID_ADDRESS_UNREACHABLE)) {
		ck_assert_int_eq(ep_state(side->ep), DAT_EP_STATE_UNCONNECTED);
		return;
	}
	must(ret);
	connection_event_wait(side->connects, DAT_CONNECTION_EVENT_UNREACHABLE, side->ep);
	must(dat_ep_reset(side->ep));
}

START_TEST(addresses_that_nobody_has)
{
	struct side side;

	setenv("DAPL_CM_ARP_TIMEOUT_MS", "200", 1);
	setenv("DAPL_CM_ARP_RETRY_COUNT", "2", 1);
	side_open(&side, 1);
	side.ep = ep_make(&side, NULL);
	unreachable(&side, "192.0.2.1");  /* there is no route */
	unreachable(&side, "10.77.0.77"); /* in our network, but nobody answers */
	side_close(&side);
}
END_TEST

START_TEST(requests_wait_and_are_answered_in_any_order)
{
	DAT_EP_HANDLE near[2], far[2];
	DAT_CR_PARAM request;
	DAT_CR_HANDLE cr[2];
	DAT_CONN_QUAL qual;
	struct pair pair;
	char tag;

	pair_open_unconnected(&pair, NULL);
	listen_any(&pair.far, &qual);
	for (int i = 0; i < 2; i++) {
		near[i] = ep_make(&pair.near, NULL);
		far[i] = ep_make(&pair.far, NULL);
		tag = (char)('a' + i);
		must(dat_ep_connect(near[i], (DAT_IA_ADDRESS_PTR)&pair.far.address, qual, LONG, 1,
				    &tag, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	}
	for (int i = 0; i < 2; i++) {
		DAT_CR_HANDLE came = request_take(&pair.far);

		must(dat_cr_query(came, DAT_CR_FIELD_ALL, &request));
		cr[((char *)request.private_data)[0] - 'a'] = came;
	}
	for (int i = 1; i >= 0; i--) {
		must(dat_cr_accept(cr[i], far[i], 0, NULL));
		connection_event_wait(pair.near.connects, DAT_CONNECTION_EVENT_ESTABLISHED,
				      near[i]);
		connection_event_wait(pair.far.connects, DAT_CONNECTION_EVENT_ESTABLISHED, far[i]);
		pair.near.ep = near[i];
		pair.far.ep = far[i];
		say_hello(&pair);
	}
	pair_close(&pair);
}
END_TEST

START_TEST(accepting_twice)
{
	DAT_EP_HANDLE second;
	DAT_CONN_QUAL qual;
	DAT_CR_HANDLE cr;
	struct pair pair;

	pair_open_unconnected(&pair, NULL);
	second = ep_make(&pair.near, NULL);
	listen_any(&pair.far, &qual);
	must(connect_to(pair.near.ep, &pair.far, qual, LONG));
	cr = request_take(&pair.far);
	must(dat_cr_accept(cr, pair.far.ep, 0, NULL));
	returns(BAD_HANDLE(_CR), dat_cr_accept(cr, pair.far.ep, 0, NULL));
	connection_event_wait(pair.far.connects, DAT_CONNECTION_EVENT_ESTABLISHED, pair.far.ep);
	connection_event_wait(pair.near.connects, DAT_CONNECTION_EVENT_ESTABLISHED, pair.near.ep);
	/* an endpoint that has a connection takes no other, and the request lives on */
	must(connect_to(second, &pair.far, qual, LONG));
	cr = request_take(&pair.far);
	returns(BAD_STATE(EP_CONNECTED), dat_cr_accept(cr, pair.far.ep, 0, NULL));
	returns(BAD_HANDLE(_EP), dat_cr_accept(cr, DAT_HANDLE_NULL, 0, NULL));
	must(dat_cr_reject(cr));
	connection_event_wait(pair.near.connects, DAT_CONNECTION_EVENT_PEER_REJECTED, second);
	returns(BAD_STATE(EP_CONNECTED), connect_to(pair.near.ep, &pair.far, qual, LONG));
	say_hello(&pair);
	pair_close(&pair);
}
END_TEST

#define LARGE_QUAL ((DAT_CONN_QUAL)0xaffab1e)
#define ITS_PORT   (LARGE_QUAL % 32001 + 33534)

START_TEST(qualifiers_beyond_16_bits)
{
	DAT_PSP_HANDLE psp, other;
	DAT_PSP_PARAM param;
	struct pair pair;
	DAT_EVENT event;

	pair_open_unconnected(&pair, NULL);
	must(dat_psp_create(pair.far.ia, LARGE_QUAL, pair.far.arrivals, DAT_PSP_CONSUMER_FLAG,
			    &psp));
	must(dat_psp_query(psp, DAT_PSP_FIELD_ALL, &param));
	ck_assert_uint_eq(param.conn_qual, LARGE_QUAL);
	/* on the wire these could not be told apart */
	returns(FAILS(CONN_QUAL_IN_USE, NO_SUBTYPE),
		dat_psp_create(pair.far.ia, ITS_PORT, pair.far.arrivals, DAT_PSP_CONSUMER_FLAG,
			       &other));
	must(connect_to(pair.near.ep, &pair.far, LARGE_QUAL, LONG));
	event = event_wait(pair.far.arrivals, DAT_CONNECTION_REQUEST_EVENT);
	ck_assert_uint_eq(event.event_data.cr_arrival_event_data.conn_qual, LARGE_QUAL);
	ck_assert_ptr_eq(event.event_data.cr_arrival_event_data.sp_handle.psp_handle, psp);
	request_accept(event.event_data.cr_arrival_event_data.cr_handle, pair.far.ep);
	connection_event_wait(pair.near.connects, DAT_CONNECTION_EVENT_ESTABLISHED, pair.near.ep);
	connection_event_wait(pair.far.connects, DAT_CONNECTION_EVENT_ESTABLISHED, pair.far.ep);
	say_hello(&pair);
	pair_close(&pair);
}
END_TEST

#define BUSY_QUAL ((DAT_CONN_QUAL)45248)

static void busy_listener(int fd)
{
	DAT_PSP_HANDLE psp;
	struct side side;
	char word;

	side_open(&side, 0);
	must(dat_psp_create(side.ia, BUSY_QUAL, side.arrivals, DAT_PSP_CONSUMER_FLAG, &psp));
	tell(fd, "l", 1);
	hear(fd, &word, 1);
	must(dat_psp_free(psp));
	tell(fd, "f", 1);
	hear(fd, &word, 1);
	side_close(&side);
}

START_TEST(busy_qualifiers)
{
	const DAT_RETURN busy = FAILS(CONN_QUAL_IN_USE, NO_SUBTYPE);
	DAT_PSP_HANDLE psp, other;
	struct side side, same;
	char word;
	pid_t pid;
	int fd;

	pid = process_start(busy_listener, &fd);
	hear(fd, &word, 1);
	side_open(&side, 0);
	side_open(&same, 0);
	returns(busy,
		dat_psp_create(side.ia, BUSY_QUAL, side.arrivals, DAT_PSP_CONSUMER_FLAG, &psp));
	tell(fd, "f", 1);
	hear(fd, &word, 1);
	/* now it is free, at once, and then ours */
	must(dat_psp_create(side.ia, BUSY_QUAL, side.arrivals, DAT_PSP_CONSUMER_FLAG, &psp));
	returns(busy,
		dat_psp_create(side.ia, BUSY_QUAL, side.arrivals, DAT_PSP_CONSUMER_FLAG, &other));
	returns(busy,
		dat_psp_create(same.ia, BUSY_QUAL, same.arrivals, DAT_PSP_CONSUMER_FLAG, &other));
	must(dat_psp_free(psp));
	must(dat_psp_create(same.ia, BUSY_QUAL, same.arrivals, DAT_PSP_CONSUMER_FLAG, &other));
	tell(fd, "e", 1);
	process_end(pid);
	side_close(&side);
	side_close(&same);
}
END_TEST

START_TEST(any_qualifier_fits_16_bits)
{
	DAT_CONN_QUAL qual[3];
	DAT_PSP_PARAM param;
	DAT_PSP_HANDLE psp;
	struct side side;

	side_open(&side, 0);
	for (size_t i = 0; i < COUNT(qual); i++) {
		psp = listen_any(&side, &qual[i]);
		ck_assert_uint_ge(qual[i], 1024);
		ck_assert_uint_le(qual[i], UINT16_MAX);
		must(dat_psp_query(psp, DAT_PSP_FIELD_ALL, &param));
		ck_assert_uint_eq(param.conn_qual, qual[i]);
		for (size_t j = 0; j < i; j++)
			ck_assert_uint_ne(qual[i], qual[j]);
	}
	side_close(&side);
}
END_TEST

START_TEST(service_points_want_the_right_evd)
{
	DAT_PSP_HANDLE psp = (DAT_PSP_HANDLE)1;
	DAT_CONN_QUAL qual;
	struct side side;

	side_open(&side, 0);
	returns(BAD_HANDLE(_EVD_CR),
		dat_psp_create(side.ia, 5555, side.connects, DAT_PSP_CONSUMER_FLAG, &psp));
	returns(BAD_ARG(2), dat_psp_create(side.ia, 0, side.arrivals, DAT_PSP_CONSUMER_FLAG, &psp));
	returns(BAD_ARG(4), dat_psp_create(side.ia, 5555, side.arrivals, (DAT_PSP_FLAGS)2, &psp));
	returns(BAD_ARG(2),
		dat_psp_create_any(side.ia, NULL, side.arrivals, DAT_PSP_CONSUMER_FLAG, &psp));
	ck_assert_ptr_eq(psp, (DAT_PSP_HANDLE)1);
	psp = listen_any(&side, &qual);
	returns(BAD_STATE(EVD_IN_USE), dat_evd_free(side.arrivals));
	must(dat_psp_free(psp));
	returns(BAD_HANDLE(_PSP), dat_psp_free(psp));
	must(dat_evd_free(side.arrivals));
	side_close(&side);
}
END_TEST

START_TEST(requests_outlive_their_service_point)
{
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;
	DAT_CR_HANDLE cr;
	struct pair pair;

	pair_open_unconnected(&pair, NULL);
	psp = listen_any(&pair.far, &qual);
	must(connect_to(pair.near.ep, &pair.far, qual, LONG));
	cr = request_take(&pair.far);
	must(dat_psp_free(psp));
	request_accept(cr, pair.far.ep);
	connection_event_wait(pair.near.connects, DAT_CONNECTION_EVENT_ESTABLISHED, pair.near.ep);
	connection_event_wait(pair.far.connects, DAT_CONNECTION_EVENT_ESTABLISHED, pair.far.ep);
	say_hello(&pair);
	pair_close(&pair);
}
END_TEST

/* However an IA is named, it reaches itself and is reached by others of the same interface. */
START_TEST(loopback_under_every_name)
{
	for (int by = BY_INTERFACE; by < NAMES; by++) {
		struct pair pair;

		if (!ia_name(0, (enum named)by))
			continue;
		side_open_as(&pair.near, ia_name(0, (enum named)by), false);
		pair.far = pair.near;
		must(dat_evd_create(pair.far.ia, QLEN, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG,
				    &pair.far.connects));
		pair.near.ep = ep_make(&pair.near, NULL);
		pair.far.ep = ep_make(&pair.far, NULL);
		pair_connect(&pair);
		say_hello(&pair);
		side_close(&pair.near);
	}
	/* these three exist wherever there is a device */
	ck_assert_ptr_nonnull(ia_name(0, BY_INTERFACE));
	ck_assert_ptr_nonnull(ia_name(0, BY_ADDRESS));
	ck_assert_ptr_nonnull(ia_name(0, BY_DEVICE));
}
END_TEST

/*
 * The connector sends at once; the acceptor looks at its receives before it learns that it is
 * connected.
 */
START_TEST(first_message_before_established_is_read)
{
	struct memory near, far;
	DAT_CONN_QUAL qual;
	struct pair pair;

	pair_open_unconnected(&pair, NULL);
	near = memory_make(&pair.near, 100, DAT_MEM_PRIV_ALL_FLAG);
	far = memory_make(&pair.far, 100, DAT_MEM_PRIV_ALL_FLAG);
	pattern_fill(near.at, 100, 1);
	recv_post(pair.far.ep, 1, seg(&far, 0, 100));
	listen_any(&pair.far, &qual);
	must(connect_to(pair.near.ep, &pair.far, qual, LONG));
	request_accept(request_take(&pair.far), pair.far.ep);
	connection_event_wait(pair.near.connects, DAT_CONNECTION_EVENT_ESTABLISHED, pair.near.ep);
	send_post(pair.near.ep, 2, seg(&near, 0, 100), DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(pair.far.recvs, pair.far.ep, 1, DAT_DTO_SUCCESS, 100);
	pattern_check(far.at, 100, 1);
	connection_event_wait(pair.far.connects, DAT_CONNECTION_EVENT_ESTABLISHED, pair.far.ep);
	dto_wait(pair.near.requests, pair.near.ep, 2, DAT_DTO_SUCCESS, 100);
	say_hello(&pair);
	pair_close(&pair);
}
END_TEST

static void same_host(const void *address, const struct sockaddr_in *host)
{
	const struct sockaddr_in *in = address;

	ck_assert_int_eq(in->sin_family, AF_INET);
	ck_assert_uint_eq(in->sin_addr.s_addr, host->sin_addr.s_addr);
}

START_TEST(both_know_both_addresses)
{
	DAT_EP_PARAM near, far;
	struct pair pair;

	pair_open(&pair, NULL);
	must(dat_ep_query(pair.near.ep, DAT_EP_FIELD_ALL, &near));
	must(dat_ep_query(pair.far.ep, DAT_EP_FIELD_ALL, &far));
	same_host(near.local_ia_address_ptr, &pair.near.address);
	same_host(near.remote_ia_address_ptr, &pair.far.address);
	same_host(far.local_ia_address_ptr, &pair.far.address);
	same_host(far.remote_ia_address_ptr, &pair.near.address);
	ck_assert_uint_ne(near.remote_port_qual, 0);
	ck_assert_uint_eq(near.remote_port_qual, far.local_port_qual);
	ck_assert_uint_eq(near.local_port_qual, far.remote_port_qual);
	ck_assert_int_eq(near.ep_state, DAT_EP_STATE_CONNECTED);
	ck_assert_ptr_eq(near.ia_handle, pair.near.ia);
	pair_close(&pair);
}
END_TEST

#define CROWD 64

START_TEST(a_crowd_connects_at_once)
{
	DAT_EP_HANDLE near[CROWD];
	int crowd = device()->crowd;
	struct pair pair;
	DAT_CONN_QUAL qual;

	ck_assert_int_le(crowd, CROWD);
	pair_open_unconnected(&pair, NULL);
	listen_any(&pair.far, &qual);
	for (int i = 0; i < crowd; i++) {
		near[i] = ep_make(&pair.near, NULL);
		must(connect_to(near[i], &pair.far, qual, LONG));
	}
	for (int i = 0; i < crowd; i++)
		request_accept(request_take(&pair.far), ep_make(&pair.far, NULL));
	for (int i = 0; i < crowd; i++) {
		event_wait(pair.far.connects, DAT_CONNECTION_EVENT_ESTABLISHED);
		event_wait(pair.near.connects, DAT_CONNECTION_EVENT_ESTABLISHED);
	}
	for (int i = 0; i < crowd; i++)
		ck_assert_int_eq(ep_state(near[i]), DAT_EP_STATE_CONNECTED);
	pair_close(&pair);
}
END_TEST

/* The connector that finds no room is told so, and not that the peer said no. */
START_TEST(requests_beyond_the_queue_are_refused)
{
	DAT_EVD_PARAM queue;
	DAT_PSP_HANDLE psp;
	struct pair pair;

	pair_open_unconnected(&pair, NULL);
	must(dat_evd_free(pair.far.arrivals));
	must(dat_evd_create(pair.far.ia, 2, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &pair.far.arrivals));
	must(dat_evd_query(pair.far.arrivals, DAT_EVD_FIELD_ALL, &queue)); /* it may be longer */
	must(dat_psp_create(pair.far.ia, BUSY_QUAL, pair.far.arrivals, DAT_PSP_CONSUMER_FLAG,
			    &psp));
	for (int i = 0; i < queue.evd_qlen + 1; i++)
		must(connect_to(ep_make(&pair.near, NULL), &pair.far, BUSY_QUAL, LONG));
	event_wait(pair.near.connects, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	for (int i = 0; i < queue.evd_qlen; i++) {
		request_accept(request_take(&pair.far), ep_make(&pair.far, NULL));
		event_wait(pair.far.connects, DAT_CONNECTION_EVENT_ESTABLISHED);
		event_wait(pair.near.connects, DAT_CONNECTION_EVENT_ESTABLISHED);
	}
	no_event(pair.far.arrivals);
	pair_close(&pair);
}
END_TEST

START_TEST(connects_that_are_refused_on_the_spot)
{
	struct sockaddr_in group = { .sin_family = AF_INET };
	struct pair pair;
	DAT_EP_HANDLE ep;

	pair_open_unconnected(&pair, NULL);
	inet_pton(AF_INET, "224.0.0.1", &group.sin_addr);
	ep = pair.near.ep;
#define CONNECT(ep, address, qual, qos, flags)                                                     \
	dat_ep_connect(ep, (DAT_IA_ADDRESS_PTR)(address), qual, LONG, 0, NULL, qos,                \
		       (DAT_CONNECT_FLAGS)(flags))
	returns(BAD_ARG(2), CONNECT(ep, NULL, 5555, DAT_QOS_BEST_EFFORT, 0));
	returns(BAD_ARG(3), CONNECT(ep, &pair.far.address, 0, DAT_QOS_BEST_EFFORT, 0));
	returns(BAD_ARG(8), CONNECT(ep, &pair.far.address, 5555, DAT_QOS_BEST_EFFORT, 2));
	returns(FAILS(MODEL_NOT_SUPPORTED, NO_SUBTYPE),
		CONNECT(ep, &pair.far.address, 5555, DAT_QOS_PREMIUM, 0));
	returns(FAILS(MODEL_NOT_SUPPORTED, NO_SUBTYPE),
		CONNECT(ep, &pair.far.address, 5555, DAT_QOS_BEST_EFFORT,
			DAT_CONNECT_MULTIPATH_FLAG));
	returns(FAILS(INVALID_ADDRESS, INVALID_ADDRESS_UNSUPPORTED),
		CONNECT(ep, &group, 5555, DAT_QOS_BEST_EFFORT, 0));
	group.sin_family = 77;
	returns(FAILS(INVALID_ADDRESS, INVALID_ADDRESS_MALFORMED),
		CONNECT(ep, &group, 5555, DAT_QOS_BEST_EFFORT, 0));
	must(dat_ep_create(pair.near.ia, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
			   pair.near.connects, NULL, &ep));
	returns(BAD_STATE(EP_NOTREADY),
		CONNECT(ep, &pair.far.address, 5555, DAT_QOS_BEST_EFFORT, 0));
	must(dat_ep_create(pair.near.ia, pair.near.pz, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
			   DAT_HANDLE_NULL, NULL, &ep));
	returns(BAD_HANDLE(_EVD_CONN),
		CONNECT(ep, &pair.far.address, 5555, DAT_QOS_BEST_EFFORT, 0));
#undef CONNECT
	ck_assert_int_eq(ep_state(pair.near.ep), DAT_EP_STATE_UNCONNECTED);
	pair_connect(&pair);
	say_hello(&pair);
	pair_close(&pair);
}
END_TEST

int main(int argc, char **argv)
{
	const struct test tests[] = {
		{ private_data_goes_both_ways, NEEDS_NOTHING },
		{ rejected_by_the_peer, NEEDS_NOTHING },
		{ nobody_listens, NEEDS_NOTHING },
		{ listener_never_accepts, NEEDS_NOTHING },
		{ addresses_that_nobody_has, NEEDS_OWN_NET },
		{ requests_wait_and_are_answered_in_any_order, NEEDS_NOTHING },
		{ accepting_twice, NEEDS_NOTHING },
		{ qualifiers_beyond_16_bits, NEEDS_NOTHING },
		{ busy_qualifiers, NEEDS_NOTHING },
		{ any_qualifier_fits_16_bits, NEEDS_NOTHING },
		{ service_points_want_the_right_evd, NEEDS_NOTHING },
		{ requests_outlive_their_service_point, NEEDS_NOTHING },
		{ loopback_under_every_name, NEEDS_NOTHING },
		{ first_message_before_established_is_read, NEEDS_NOTHING },
		{ both_know_both_addresses, NEEDS_NOTHING },
		{ a_crowd_connects_at_once, NEEDS_NOTHING },
		{ requests_beyond_the_queue_are_refused, NEEDS_NOTHING },
		{ connects_that_are_refused_on_the_spot, NEEDS_NOTHING },
	};

	return run(argc, argv, tests, COUNT(tests));
}
