/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues on a device: several connections take their receives from one queue. */
#include <string.h>

#include "../consumer/consumer.h"

#define PEERS	 4
#define RECEIVES 16
#define PIECE	 ((size_t)256) /* bytes of a buffer */

static struct pair pair;
static DAT_SRQ_HANDLE srq;
static DAT_EVD_HANDLE evds[PEERS];
static DAT_EP_HANDLE from[PEERS], to[PEERS]; /* of the client, of the server */

static DAT_SRQ_HANDLE make_queue(DAT_COUNT receives)
{
	DAT_SRQ_ATTR attr = { .max_recv_dtos = receives, .max_recv_iov = 2 };
	DAT_SRQ_HANDLE queue;

	ck_dat(dat_srq_create(pair.server.ia, pair.server.pz, &attr, &queue));
	return queue;
}

static DAT_EP_HANDLE make_endpoint(DAT_PZ_HANDLE pz, DAT_EVD_HANDLE evd)
{
	DAT_EP_ATTR attr = ep_attr_for(1, 16);
	DAT_EP_HANDLE ep;

	ck_dat(dat_ep_create_with_srq(pair.server.ia, pz, evd, pair.server.request_evd,
				      pair.server.connect_evd, srq, &attr, &ep));
	return ep;
}

static void open_peers(void)
{
	pair_open_unconnected(&pair, NULL);
	srq = make_queue(RECEIVES);
	for (unsigned i = 0; i < PEERS; i++) {
		evds[i] = side_create_evd(&pair.server, SIDE_QLEN, DAT_EVD_DTO_FLAG);
		to[i] = make_endpoint(pair.server.pz, evds[i]);
		from[i] = side_create_ep(&pair.client, NULL);
		connect_eps(&pair.client, from[i], &pair.server, to[i]);
	}
}

static void close_peers(void)
{
	pair_close_abrupt(&pair);
}

static void post_to_srq(uint64_t n)
{
	DAT_LMR_TRIPLET iov = segment(&pair.server, (size_t)n % 128 * PIECE, PIECE);

	ck_dat(dat_srq_post_recv(srq, 1, &iov, cookie_of(n)));
}

static void send_from(unsigned i, size_t length)
{
	post_send(from[i], i, segment(&pair.client, 0, length), DAT_COMPLETION_DEFAULT_FLAG);
}

/* The next receive of endpoint @i; returns its cookie. */
static uint64_t expect_receive(unsigned i, size_t length)
{
	DAT_EVENT event = expect_event(evds[i], DAT_DTO_COMPLETION_EVENT);
	DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;

	ck_assert_ptr_eq(dto->ep_handle, to[i]);
	ck_assert_int_eq(dto->status, DAT_DTO_SUCCESS);
	ck_assert_uint_eq(dto->transfered_length, length);
	return dto->user_cookie.as_64;
}

static DAT_SRQ_PARAM srq_param(void)
{
	DAT_SRQ_PARAM param;

	ck_dat(dat_srq_query(srq, DAT_SRQ_FIELD_ALL, &param));
	return param;
}

#define expect_outstanding(n) ck_assert_int_eq(srq_param().outstanding_dto_count, n)

static void expect_watermark(void)
{
	DAT_EVENT event = expect_event(pair.server.async_evd,
				       DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR);

	ck_assert_ptr_eq(event.event_data.asynch_error_event_data.dat_handle, srq);
	ck_assert_int_eq(event.event_data.asynch_error_event_data.reason,
			 DAT_SRQ_LOW_WATERMARK_EVENT);
}

/* From here on the connection has ended at both sides. */
static void end_connection(unsigned i)
{
	ck_dat(dat_ep_disconnect(from[i], DAT_CLOSE_ABRUPT_FLAG));
	expect_connection_of(&pair.client, from[i], DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_connection_of(&pair.server, to[i], DAT_CONNECTION_EVENT_DISCONNECTED);
}

/* Each receive of the queue completes once. */
static void expect_whole(unsigned i, unsigned receives)
{
	bool seen[256] = { false };

	for (unsigned n = 0; n < receives; n++)
		post_to_srq(n);
	expect_outstanding((DAT_COUNT)receives);
	for (unsigned n = 0; n < receives; n++) {
		uint64_t cookie;

		send_from(i, PIECE);
		cookie = expect_receive(i, PIECE);
		ck_assert_uint_lt(cookie, receives);
		ck_assert(!seen[cookie]);
		seen[cookie] = true;
		expect_event(pair.client.request_evd, DAT_DTO_COMPLETION_EVENT);
	}
	expect_outstanding(0);
}

START_TEST(each_endpoint_completes_what_it_was_sent)
{
	open_peers();
	ck_assert_int_eq(pair.server.provider.srq_supported, DAT_TRUE);
	ck_assert_int_gt(pair.server.attr.max_srqs, 0);
	for (unsigned n = 0; n < RECEIVES; n++)
		post_to_srq(n);
	for (unsigned n = 0; n < RECEIVES; n++)
		send_from(n % PEERS, n);
	for (unsigned n = 0; n < RECEIVES; n++) {
		unsigned i = PEERS - 1 - n % PEERS;

		pattern_fill(pair.client.memory, PIECE, 1);
		(void)expect_receive(i, n / PEERS * PEERS + i);
	}
	expect_outstanding(0);
	for (unsigned i = 0; i < PEERS; i++)
		expect_no_event(evds[i]);
	close_peers();
}
END_TEST

START_TEST(every_byte_arrives)
{
	open_peers();
	for (unsigned n = 0; n < 64; n++) {
		post_to_srq(n);
		pattern_fill(pair.client.memory, PIECE, n);
		send_from(n % PEERS, PIECE);
		ck_assert_uint_eq(expect_receive(n % PEERS, PIECE), n);
		pattern_check(pair.server.memory + n * PIECE, PIECE, n);
		expect_event(pair.client.request_evd, DAT_DTO_COMPLETION_EVENT);
	}
	close_peers();
}
END_TEST

START_TEST(a_receive_may_have_no_segment_or_two)
{
	DAT_LMR_TRIPLET iov[2];

	open_peers();
	iov[0] = segment(&pair.server, 0, 100);
	iov[1] = segment(&pair.server, 5000, 100);
	ck_dat(dat_srq_post_recv(srq, 0, NULL, cookie_of(1)));
	send_from(0, 0);
	ck_assert_uint_eq(expect_receive(0, 0), 1);
	ck_dat(dat_srq_post_recv(srq, 2, iov, cookie_of(2)));
	pattern_fill(pair.client.memory, 150, 9);
	send_from(1, 150);
	ck_assert_uint_eq(expect_receive(1, 150), 2);
	pattern_check(pair.server.memory, 100, 9);
	close_peers();
}
END_TEST

START_TEST(a_sender_waits_for_a_receive)
{
	open_peers();
	send_from(2, PIECE);
	expect_no_event(evds[2]);
	post_to_srq(7);
	ck_assert_uint_eq(expect_receive(2, PIECE), 7);
	close_peers();
}
END_TEST

START_TEST(a_waiter_is_woken_by_its_endpoint)
{
	struct waiter waiter = { 0 };

	open_peers();
	for (unsigned n = 0; n < RECEIVES; n++)
		post_to_srq(n);
	waiter.evd = evds[3];
	waiter_start(&waiter);
	send_from(1, 1);
	(void)expect_receive(1, 1);
	send_from(3, 3);
	ck_dat(waiter_join(&waiter));
	ck_assert_ptr_eq(waiter.event.event_data.dto_completion_event_data.ep_handle, to[3]);
	expect_outstanding(RECEIVES - 2);
	close_peers();
}
END_TEST

/*
 * What was sent to endpoint @i has been looked at when this returns: the peer has served a request
 * that came later.
 */
static void expect_served(unsigned i)
{
	const unsigned other = (i + 1) % PEERS;

	post_read(from[other], 99, segment(&pair.client, 40000, 8), target(&pair.server, 40000, 8),
		  DAT_COMPLETION_DEFAULT_FLAG);
	while (expect_event(pair.client.request_evd, DAT_DTO_COMPLETION_EVENT)
		       .event_data.dto_completion_event_data.user_cookie.as_64 != 99)
		;
}

static const size_t lengths[] = { 0, 8, 40000 };

/* All endpoints' receives complete on @evd, which a thread waits for, or for its CNO. */
static void expect_late_receive(DAT_EVD_HANDLE evd, DAT_CNO_HANDLE cno)
{
	for (unsigned n = 0; n < 5 * COUNT(lengths); n++) {
		const size_t length = lengths[n % COUNT(lengths)];
		struct waiter waiter = { .evd = cno ? NULL : evd, .cno = cno };
		DAT_LMR_TRIPLET iov = segment(&pair.server, 0, length);

		waiter_start(&waiter);
		send_from(2, length);
		expect_served(2);
		ck_dat(dat_srq_post_recv(srq, 1, &iov, cookie_of(n)));
		ck_dat(waiter_join(&waiter));
		if (cno)
			waiter.event = expect_event(waiter.triggered, DAT_DTO_COMPLETION_EVENT);
		ck_assert_ptr_eq(waiter.event.event_data.dto_completion_event_data.ep_handle,
				 to[2]);
		ck_assert_uint_eq(
			waiter.event.event_data.dto_completion_event_data.transfered_length,
			length);
	}
}

START_TEST(a_late_receive_wakes_a_waiter)
{
	open_peers();
	expect_late_receive(evds[2], NULL);
	close_peers();
}
END_TEST

/* The thread waits on the EVD of the endpoint's requests, too. */
START_TEST(a_late_receive_wakes_a_waiter_of_both_queues)
{
	open_peers();
	evds[2] = pair.server.request_evd;
	ck_dat(dat_ep_free(to[2]));
	to[2] = make_endpoint(pair.server.pz, evds[2]);
	expect_connection_of(&pair.client, from[2], DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(dat_ep_reset(from[2]));
	connect_eps(&pair.client, from[2], &pair.server, to[2]);
	expect_late_receive(evds[2], NULL);
	close_peers();
}
END_TEST

START_TEST(a_late_receive_triggers_a_cno)
{
	DAT_CNO_HANDLE cno;

	open_peers();
	ck_dat(dat_cno_create(pair.server.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(dat_evd_modify_cno(evds[2], cno));
	expect_late_receive(evds[2], cno);
	close_peers();
}
END_TEST

START_TEST(receives_stay_when_an_endpoint_ends)
{
	open_peers();
	for (unsigned n = 0; n < RECEIVES; n++)
		post_to_srq(n);
	end_connection(0);
	expect_no_event(evds[0]);
	expect_outstanding(RECEIVES);
	ck_dat(dat_ep_free(to[0]));
	end_connection(1);
	ck_dat(dat_ep_reset(to[1]));
	ck_dat(dat_ep_reset(from[1]));
	connect_eps(&pair.client, from[1], &pair.server, to[1]);
	for (unsigned n = 0; n < RECEIVES; n++) {
		send_from(1 + n % 3, PIECE);
		ck_assert_uint_eq(expect_receive(1 + n % 3, PIECE), n);
		expect_event(pair.client.request_evd, DAT_DTO_COMPLETION_EVENT);
	}
	expect_no_event(evds[1]);
	expect_whole(2, RECEIVES);
	close_peers();
}
END_TEST

/* With messages on their way, and completions that nobody has taken. */
START_TEST(no_receive_is_lost_when_endpoints_are_freed)
{
	open_peers();
	for (unsigned n = 0; n < RECEIVES; n++)
		post_to_srq(n);
	for (unsigned i = 0; i < 3; i++)
		for (unsigned n = 0; n < 3; n++)
			send_from(i, PIECE);
	for (unsigned n = 0; n < 9; n++)
		expect_event(pair.client.request_evd, DAT_DTO_COMPLETION_EVENT);
	for (unsigned i = 0; i < 3; i++)
		ck_dat(dat_ep_free(to[i]));
	for (unsigned n = (unsigned)srq_param().outstanding_dto_count; n > 0; n--) {
		send_from(3, PIECE);
		(void)expect_receive(3, PIECE);
		expect_event(pair.client.request_evd, DAT_DTO_COMPLETION_EVENT);
	}
	expect_whole(3, RECEIVES);
	close_peers();
}
END_TEST

/* The network may tell the ends of several connections in any order. */
static void expect_all_ended(void)
{
	unsigned ended = 0;

	for (unsigned n = 0; n < COUNT(lengths); n++) {
		DAT_EVENT event = expect_event(pair.client.connect_evd,
					       DAT_CONNECTION_EVENT_DISCONNECTED);

		for (unsigned i = 0; i < COUNT(lengths); i++)
			if (event.event_data.connect_event_data.ep_handle == from[i])
				ended |= 1u << i;
	}
	ck_assert_uint_eq(ended, (1u << COUNT(lengths)) - 1);
}

START_TEST(a_message_that_waits_ends_with_its_endpoint)
{
	open_peers();
	for (unsigned n = 0; n < COUNT(lengths); n++)
		send_from(n, lengths[n]);
	expect_served(2);
	expect_no_event(evds[0]);
	ck_dat(dat_ep_free(to[0]));
	ck_dat(dat_ep_disconnect(to[1], DAT_CLOSE_ABRUPT_FLAG));
	expect_connection_of(&pair.server, to[1], DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_no_event(evds[1]);
	ck_dat(dat_ep_reset(to[1]));
	ck_dat(dat_ep_free(to[1]));
	ck_dat(dat_ep_free(to[2]));
	expect_all_ended();
	while (dat_evd_dequeue(pair.client.request_evd, &(DAT_EVENT){ 0 }) == DAT_SUCCESS)
		;
	expect_whole(3, RECEIVES);
	close_peers();
}
END_TEST

/* A waiter for receives, and one for the CNO, leave; receives, and messages without one, end. */
START_TEST(an_abrupt_close_ends_waits)
{
	struct waiter waiters[2] = { 0 };
	DAT_CNO_HANDLE cno;

	open_peers();
	ck_dat(dat_cno_create(pair.server.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(dat_evd_modify_cno(evds[2], cno));
	waiters[0].evd = evds[3];
	waiters[1].cno = cno;
	waiter_start(&waiters[0]);
	waiter_start(&waiters[1]);
	if (device_has(NEEDS_RNR)) {
		send_from(0, 0);
		send_from(1, 8);
		expect_served(1);
	}
	post_to_srq(1);
	ck_dat(dat_ia_close(pair.server.ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat_is(waiter_join(&waiters[0]), DAT_ERROR(DAT_ABORT, DAT_NO_SUBTYPE));
	ck_dat(waiter_join(&waiters[1]));
	ck_assert_ptr_null(waiters[1].triggered);
	side_close_abrupt(&pair.client);
}
END_TEST

#define MANY 200

/* Receives are scarce: most senders wait for one. */
START_TEST(many_endpoints_have_one_queue)
{
	const unsigned n = device_has(NEEDS_RDMA_DEVICE) ? device()->max_eps - 1 : MANY;
	const DAT_EVD_HANDLE evd = (pair_open_unconnected(&pair, NULL),
				    side_create_evd(&pair.server, MANY, DAT_EVD_DTO_FLAG));
	DAT_EP_HANDLE senders[MANY], receivers[MANY];

	descriptors_allow_all();
	srq = make_queue(8);
	for (unsigned i = 0; i < n; i++) {
		senders[i] = side_create_ep(&pair.client, NULL);
		receivers[i] = make_endpoint(pair.server.pz, evd);
		connect_eps(&pair.client, senders[i], &pair.server, receivers[i]);
	}
	for (unsigned i = 0; i < 8; i++)
		post_to_srq(i);
	for (unsigned i = 0; i < n; i++)
		post_send(senders[i], i, segment(&pair.client, 0, i), DAT_COMPLETION_DEFAULT_FLAG);
	for (unsigned i = 0; i < n; i++) {
		DAT_EVENT event = expect_event(evd, DAT_DTO_COMPLETION_EVENT);
		const DAT_DTO_COMPLETION_EVENT_DATA *dto =
			&event.event_data.dto_completion_event_data;

		ck_assert_int_eq(dto->status, DAT_DTO_SUCCESS);
		ck_assert_uint_lt(dto->transfered_length, n);
		ck_assert_ptr_eq(dto->ep_handle, receivers[dto->transfered_length]);
		receivers[dto->transfered_length] = DAT_HANDLE_NULL; /* once */
		post_to_srq(i);
	}
	expect_outstanding(8);
	close_peers();
}
END_TEST

START_TEST(a_queue_in_use_is_not_freed)
{
	open_peers();
	ck_dat_is(dat_srq_free(srq), BAD_STATE(SRQ_IN_USE));
	expect_whole(0, RECEIVES);
	for (unsigned i = 0; i < PEERS; i++)
		ck_dat(dat_ep_free(to[i]));
	post_to_srq(1);
	ck_dat(dat_srq_free(srq));
	ck_dat_is(dat_srq_free(srq), BAD_HANDLE(SRQ));
	close_peers();
}
END_TEST

START_TEST(the_low_watermark_is_reported_once)
{
	open_peers();
	for (unsigned n = 0; n < 6; n++)
		post_to_srq(n);
	ck_dat(dat_srq_set_lw(srq, 3));
	for (unsigned n = 0; n < 3; n++) {
		send_from(n, PIECE);
		(void)expect_receive(n, PIECE);
	}
	expect_no_event(pair.server.async_evd);
	send_from(3, PIECE);
	(void)expect_receive(3, PIECE);
	expect_watermark();
	send_from(3, PIECE);
	(void)expect_receive(3, PIECE);
	expect_no_event(pair.server.async_evd);
	ck_dat(dat_srq_set_lw(srq, 3));
	expect_watermark();
	for (unsigned n = 0; n < 6; n++)
		post_to_srq(n);
	ck_dat(dat_srq_set_lw(srq, 4));
	ck_dat(dat_srq_set_lw(srq, 0));
	for (unsigned n = 0; n < 6; n++) {
		send_from(3, PIECE);
		(void)expect_receive(3, PIECE);
	}
	expect_no_event(pair.server.async_evd);
	close_peers();
}
END_TEST

/* Or is refused by a device that can't, and works on. */
START_TEST(a_queue_grows_with_receives_posted)
{
	DAT_RETURN ret;

	open_peers();
	for (unsigned n = 0; n < RECEIVES; n++)
		post_to_srq(n);
	ck_dat_is(dat_srq_resize(srq, RECEIVES - 1), DAT_ERROR(DAT_INVALID_STATE, 0));
	ck_dat(dat_srq_resize(srq, RECEIVES));
	ret = dat_srq_resize(srq, 100);
	if (ret != NO_RESOURCE(SRQ)) {
		ck_dat(ret);
		ck_assert_int_eq(srq_param().max_recv_dtos, 100);
		for (unsigned n = RECEIVES; n < 100; n++)
			post_to_srq(n);
	}
	for (unsigned n = 0; n < (ret ? RECEIVES : 100); n++) {
		send_from(0, PIECE);
		ck_assert_uint_eq(expect_receive(0, PIECE), n);
		expect_event(pair.client.request_evd, DAT_DTO_COMPLETION_EVENT);
	}
	expect_outstanding(0);
	close_peers();
}
END_TEST

START_TEST(zones_may_differ_if_the_device_says_so)
{
	DAT_PZ_HANDLE pz;
	DAT_EP_HANDLE peer;

	open_peers();
	ck_dat(dat_pz_create(pair.server.ia, &pz));
	if (pair.server.provider.srq_ep_pz_difference_supported) {
		ck_dat(dat_ep_free(to[0]));
		to[0] = make_endpoint(pz, evds[0]);
		peer = from[0] = side_create_ep(&pair.client, NULL);
		expect_event(pair.client.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
		connect_eps(&pair.client, peer, &pair.server, to[0]);
		expect_whole(0, RECEIVES);
	} else {
		DAT_EP_ATTR attr = ep_attr_for(1, 16);

		ck_dat_is(dat_ep_create_with_srq(pair.server.ia, pz, evds[0], NULL, NULL, srq,
						 &attr, &peer),
			  BAD_ARG(2));
		ck_dat(dat_pz_free(pz));
	}
	close_peers();
}
END_TEST

START_TEST(a_message_that_is_too_long_ends_one_connection)
{
	DAT_EVENT event;

	open_peers();
	post_to_srq(1);
	post_to_srq(2);
	send_from(0, PIECE + 1);
	event = expect_event(evds[0], DAT_DTO_COMPLETION_EVENT);
	ck_assert_ptr_eq(event.event_data.dto_completion_event_data.ep_handle, to[0]);
	ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, 1);
	ck_assert_int_eq(event.event_data.dto_completion_event_data.status,
			 device()->short_receive);
	expect_outstanding(1);
	send_from(1, PIECE);
	ck_assert_uint_eq(expect_receive(1, PIECE), 2);
	expect_whole(1, RECEIVES);
	close_peers();
}
END_TEST

/* It is refused when a message takes it, not when it is posted. */
START_TEST(a_bad_buffer_ends_the_connection_that_takes_it)
{
	DAT_LMR_TRIPLET iov;
	DAT_EVENT event;

	open_peers();
	iov = segment(&pair.server, SIDE_MEMORY - 4, 8); /* four bytes too many */
	ck_dat(dat_srq_post_recv(srq, 1, &iov, cookie_of(1)));
	post_to_srq(2);
	send_from(0, 8);
	event = expect_event(evds[0], DAT_DTO_COMPLETION_EVENT);
	ck_assert_ptr_eq(event.event_data.dto_completion_event_data.ep_handle, to[0]);
	ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, 1);
	ck_assert_int_eq(event.event_data.dto_completion_event_data.status, device()->bad_receive);
	expect_outstanding(1);
	send_from(1, PIECE);
	ck_assert_uint_eq(expect_receive(1, PIECE), 2);
	close_peers();
}
END_TEST

#define ROUNDS 500

static void *send_many(void *arg)
{
	const unsigned i = (unsigned)(uintptr_t)arg;
	DAT_LMR_TRIPLET iov = segment(&pair.client, i * PIECE, PIECE);

	for (unsigned n = 0; n < ROUNDS; n++)
		while (dat_ep_post_send(from[i], 1, &iov, cookie_of(n),
					DAT_COMPLETION_SUPPRESS_FLAG) != DAT_SUCCESS)
			;
	return NULL;
}

/* Every sender is as fast as the receives that come back allow. */
START_TEST(many_messages_of_several_senders)
{
	pthread_t threads[PEERS];
	unsigned got[PEERS] = { 0 }, sum = 0;
	DAT_EVENT event;

	open_peers();
	for (unsigned n = 0; n < RECEIVES; n++)
		post_to_srq(n);
	for (unsigned i = 0; i < PEERS; i++)
		threads[i] = consumer_thread_start(send_many, (void *)(uintptr_t)i);
	while (sum < PEERS * ROUNDS) {
		for (unsigned i = 0; i < PEERS; i++) {
			if (dat_evd_dequeue(evds[i], &event) != DAT_SUCCESS)
				continue;
			ck_assert_ptr_eq(event.event_data.dto_completion_event_data.ep_handle,
					 to[i]);
			ck_assert_int_eq(event.event_data.dto_completion_event_data.status,
					 DAT_DTO_SUCCESS);
			got[i]++;
			post_to_srq(sum++);
		}
	}
	for (unsigned i = 0; i < PEERS; i++) {
		consumer_thread_join(threads[i]);
		ck_assert_uint_eq(got[i], ROUNDS);
	}
	expect_outstanding(RECEIVES);
	close_peers();
}
END_TEST

int main(int argc, char **argv)
{
	const struct device_case cases[] = {
		{ each_endpoint_completes_what_it_was_sent, NEEDS_SRQ },
		{ every_byte_arrives, NEEDS_SRQ },
		{ a_receive_may_have_no_segment_or_two, NEEDS_SRQ },
		{ a_sender_waits_for_a_receive, NEEDS_SRQ | NEEDS_RNR },
		{ a_waiter_is_woken_by_its_endpoint, NEEDS_SRQ },
		{ a_late_receive_wakes_a_waiter, NEEDS_SRQ | NEEDS_RNR },
		{ a_late_receive_wakes_a_waiter_of_both_queues, NEEDS_SRQ | NEEDS_RNR },
		{ a_late_receive_triggers_a_cno, NEEDS_SRQ | NEEDS_RNR },
		{ receives_stay_when_an_endpoint_ends, NEEDS_SRQ },
		{ no_receive_is_lost_when_endpoints_are_freed, NEEDS_SRQ },
		{ a_message_that_waits_ends_with_its_endpoint, NEEDS_SRQ | NEEDS_RNR },
		{ an_abrupt_close_ends_waits, NEEDS_SRQ },
		{ many_endpoints_have_one_queue, NEEDS_SRQ | NEEDS_RNR },
		{ a_queue_in_use_is_not_freed, NEEDS_SRQ },
		{ the_low_watermark_is_reported_once, NEEDS_SRQ },
		{ a_queue_grows_with_receives_posted, NEEDS_SRQ },
		{ zones_may_differ_if_the_device_says_so, NEEDS_SRQ },
		{ a_message_that_is_too_long_ends_one_connection, NEEDS_SRQ },
		{ a_bad_buffer_ends_the_connection_that_takes_it, NEEDS_SRQ },
		{ many_messages_of_several_senders, NEEDS_SRQ | NEEDS_RNR },
	};

	return run_on_device(argc, argv, cases, COUNT(cases));
}
