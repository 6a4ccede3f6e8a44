/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What any provider must do for consumers of the public API, tested in one process with two IAs.
 *
 * Runs on the fake provider, or on IAs that dat.conf has, of any provider, through any libdat that
 * the dynamic linker finds:
 *
 *	conform --ia CLIENT [--server SERVER] [OPTIONS OF run.h]
 *
 * or CONFORM_NAMES="CLIENT SERVER" in the environment; both may be the same. DAT_TEST_DEV then
 * names the kind of their device, as for the other tests of devices.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform.h"

static struct pair pair; /* of the case that runs in this process */

/* ---- objects ---- */

START_TEST(names_are_listed)
{
	DAT_PROVIDER_INFO infos[32], *list[32];
	DAT_COUNT count;
	bool found = false;

	for (size_t n = 0; n < COUNT(list); n++)
		list[n] = &infos[n];
	ck_dat(dat_registry_list_providers(COUNT(list), &count, list));
	for (size_t n = 0; n < (size_t)count && n < COUNT(list); n++)
		found |= strcmp(infos[n].ia_name, ia_name(CLIENT, BY_INTERFACE)) == 0;
	ck_assert(found);
}
END_TEST

START_TEST(ia_opens_and_closes_repeatedly)
{
	const struct side *client = &pair.client;
	DAT_HANDLE_TYPE type;
	DAT_EVD_HANDLE async_evd;

	for (int n = 0; n < 3; n++) {
		side_open_ia(&pair.client, ia_name(CLIENT, BY_INTERFACE), false);
		ck_assert_ptr_nonnull(client->attr.ia_address_ptr);
		ck_assert_int_gt(client->attr.max_eps, 0);
		ck_assert_int_gt(client->attr.max_dto_per_ep, 0);
		ck_assert_int_gt(client->attr.max_evd_qlen, 0);
		ck_assert_int_gt(client->attr.max_iov_segments_per_dto, 0);
		ck_assert_int_ge(client->provider.max_private_data_size, 0);
		ck_dat(dat_ia_query(client->ia, &async_evd, 0, NULL, 0, NULL));
		ck_assert_ptr_eq(async_evd, client->async_evd);
		ck_dat(dat_get_handle_type(client->ia, &type));
		ck_assert_int_eq(type, DAT_HANDLE_TYPE_IA);
		ck_dat(dat_ia_close(client->ia, DAT_CLOSE_GRACEFUL_FLAG));
		ck_dat_is(dat_ia_close(client->ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_HANDLE(IA));
	}
}
END_TEST

START_TEST(queries_return_the_handles_of_the_consumer)
{
	DAT_EVD_PARAM evd;
	DAT_EP_PARAM ep;
	DAT_PZ_PARAM pz;
	DAT_LMR_PARAM lmr;

	pair_open_unconnected(&pair, NULL);
	ck_dat(dat_evd_query(pair.client.recv_evd, DAT_EVD_FIELD_ALL, &evd));
	ck_assert_ptr_eq(evd.ia_handle, pair.client.ia);
	ck_dat(dat_ep_query(pair.client.ep, DAT_EP_FIELD_ALL, &ep));
	ck_assert_ptr_eq(ep.ia_handle, pair.client.ia);
	ck_assert_ptr_eq(ep.pz_handle, pair.client.pz);
	ck_assert_ptr_eq(ep.recv_evd_handle, pair.client.recv_evd);
	ck_assert_int_eq(ep.ep_state, DAT_EP_STATE_UNCONNECTED);
	ck_dat(dat_pz_query(pair.client.pz, DAT_PZ_FIELD_ALL, &pz));
	ck_assert_ptr_eq(pz.ia_handle, pair.client.ia);
	ck_dat(dat_lmr_query(pair.client.lmr, DAT_LMR_FIELD_ALL, &lmr));
	ck_assert_ptr_eq(lmr.ia_handle, pair.client.ia);
	ck_assert_uint_eq(lmr.lmr_context, pair.client.lmr_context);
	pair_close(&pair);
}
END_TEST

#define IA_OF(query, handle, mask, type)                                                           \
	({                                                                                         \
		type param_;                                                                       \
		ck_dat(query(handle, mask, &param_));                                              \
		param_.ia_handle;                                                                  \
	})

START_TEST(nine_queries_return_the_ia_of_the_consumer)
{
	DAT_SRQ_ATTR attr = { .max_recv_dtos = 8,
			      .max_recv_iov = 1,
			      .low_watermark = DAT_SRQ_LW_DEFAULT };
	const struct side *side = &pair.server;
	DAT_CONN_QUAL qual;
	DAT_HANDLE h;

	pair_open_unconnected(&pair, NULL);
	ck_assert_ptr_eq(IA_OF(dat_pz_query, side->pz, DAT_PZ_FIELD_ALL, DAT_PZ_PARAM), side->ia);
	ck_assert_ptr_eq(IA_OF(dat_lmr_query, side->lmr, DAT_LMR_FIELD_ALL, DAT_LMR_PARAM),
			 side->ia);
	ck_assert_ptr_eq(IA_OF(dat_evd_query, side->cr_evd, DAT_EVD_FIELD_ALL, DAT_EVD_PARAM),
			 side->ia);
	ck_assert_ptr_eq(IA_OF(dat_ep_query, side->ep, DAT_EP_FIELD_ALL, DAT_EP_PARAM), side->ia);
	ck_dat(dat_cno_create(side->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &h));
	ck_assert_ptr_eq(IA_OF(dat_cno_query, h, DAT_CNO_FIELD_ALL, DAT_CNO_PARAM), side->ia);
	h = listen_any(side, &qual);
	ck_assert_ptr_eq(IA_OF(dat_psp_query, h, DAT_PSP_FIELD_ALL, DAT_PSP_PARAM), side->ia);
	ck_dat(dat_rsp_create(side->ia, free_qual(side), side->ep, side->cr_evd, &h));
	ck_assert_ptr_eq(IA_OF(dat_rsp_query, h, DAT_RSP_FIELD_ALL, DAT_RSP_PARAM), side->ia);
	if (device_has(NEEDS_SRQ)) {
		ck_dat(dat_srq_create(side->ia, side->pz, &attr, &h));
		ck_assert_ptr_eq(IA_OF(dat_srq_query, h, DAT_SRQ_FIELD_ALL, DAT_SRQ_PARAM),
				 side->ia);
	}
	if (dat_rmr_create(side->pz, &h) == DAT_SUCCESS) /* a provider may have no windows */
		ck_assert_ptr_eq(IA_OF(dat_rmr_query, h, DAT_RMR_FIELD_IA_HANDLE, DAT_RMR_PARAM),
				 side->ia);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(private_data_arrives_at_both_sides)
{
	static const char request[] = "a request", reply[] = "a reply that is longer than it";
	const DAT_CONNECTION_EVENT_DATA *connection;
	DAT_CR_PARAM param;
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;
	DAT_CR_HANDLE cr;
	DAT_EVENT event;

	pair_open_unconnected(&pair, NULL);
	psp = listen_any(&pair.server, &qual);
	ck_dat(dat_ep_connect(pair.client.ep, pair.server.attr.ia_address_ptr, qual, TIME_LIMIT,
			      sizeof(request), (DAT_PVOID)request, DAT_QOS_BEST_EFFORT,
			      DAT_CONNECT_DEFAULT_FLAG));
	cr = expect_cr(&pair.server);
	ck_dat(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
	/* a transport may pad it */
	ck_assert_int_ge(param.private_data_size, (int)sizeof(request));
	ck_assert_mem_eq(param.private_data, request, sizeof(request));
	ck_assert_ptr_nonnull(param.remote_ia_address_ptr);
	ck_assert_ptr_eq(param.local_ep_handle, DAT_HANDLE_NULL);
	ck_dat(dat_cr_accept(cr, pair.server.ep, sizeof(reply), (DAT_PVOID)reply));
	event = expect_connection(&pair.client, DAT_CONNECTION_EVENT_ESTABLISHED);
	connection = &event.event_data.connect_event_data;
	ck_assert_int_ge(connection->private_data_size, (int)sizeof(reply));
	ck_assert_mem_eq(connection->private_data, reply, sizeof(reply));
	event = expect_connection(&pair.server, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_assert_int_eq(event.event_data.connect_event_data.private_data_size, 0);
	ck_dat_is(CR_REJECT(cr), BAD_HANDLE(CR));
	ck_dat(dat_psp_free(psp));
	pair_disconnect(&pair, DAT_CLOSE_ABRUPT_FLAG);
	pair_close(&pair);
}
END_TEST

START_TEST(reject_ends_the_request)
{
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;

	pair_open_unconnected(&pair, NULL);
	psp = listen_any(&pair.server, &qual);
	ck_dat(try_connect(pair.client.ep, &pair.server, qual, TIME_LIMIT));
	ck_dat(CR_REJECT(expect_cr(&pair.server)));
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_PEER_REJECTED);
	ck_assert_int_eq(ep_get_state(pair.client.ep), DAT_EP_STATE_DISCONNECTED);
	ck_dat(dat_ep_reset(pair.client.ep));
	connect_and_accept(&pair, qual);
	expect_established(&pair);
	ck_dat(dat_psp_free(psp));
	pair_close(&pair);
}
END_TEST

#if DAT_EDITION == 2
START_TEST(a_reject_brings_its_private_data)
{
	static const DAT_COUNT sizes[] = { 1, 100 };
	const DAT_CONNECTION_EVENT_DATA *connection;
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;
	DAT_EVENT event;
	char reason[100];

	pair_open_unconnected(&pair, NULL);
	psp = listen_any(&pair.server, &qual);
	for (size_t i = 0; i < COUNT(sizes); i++) {
		memset(reason, 'a' + (int)i, sizeof(reason));
		ck_dat(try_connect(pair.client.ep, &pair.server, qual, TIME_LIMIT));
		ck_dat(dat_cr_reject(expect_cr(&pair.server), sizes[i], reason));
		event = expect_connection(&pair.client, DAT_CONNECTION_EVENT_PEER_REJECTED);
		connection = &event.event_data.connect_event_data;
		ck_assert_int_ge(connection->private_data_size, sizes[i]); /* it may be padded */
		ck_assert_mem_eq(connection->private_data, reason, (size_t)sizes[i]);
		ck_dat(dat_ep_reset(pair.client.ep));
	}
	ck_dat(dat_psp_free(psp));
	pair_close(&pair);
}
END_TEST
#endif

START_TEST(connect_without_listener_is_refused)
{
	pair_open_unconnected(&pair, NULL);
	post_recv(pair.client.ep, 1, segment(&pair.client, 0, 64));
	ck_dat(try_connect(pair.client.ep, &pair.server, free_qual(&pair.server), TIME_LIMIT));
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	expect_dto(pair.client.recv_evd, pair.client.ep, 1, DAT_DTO_ERR_FLUSHED, 0);
	pair_close(&pair);
}
END_TEST

START_TEST(qualifier_has_one_listener)
{
	DAT_PSP_HANDLE psp, other;
	DAT_CONN_QUAL qual;

	pair_open_unconnected(&pair, NULL);
	qual = free_qual(&pair.server);
	ck_dat(dat_psp_create(pair.server.ia, qual, pair.server.cr_evd, DAT_PSP_CONSUMER_FLAG,
			      &psp));
	ck_dat_is(dat_psp_create(pair.server.ia, qual, pair.server.cr_evd, DAT_PSP_CONSUMER_FLAG,
				 &other),
		  DAT_ERROR(DAT_CONN_QUAL_IN_USE, DAT_NO_SUBTYPE));
	ck_dat(dat_psp_free(psp));
	ck_dat(dat_psp_create(pair.server.ia, qual, pair.server.cr_evd, DAT_PSP_CONSUMER_FLAG,
			      &psp));
	ck_dat(dat_psp_free(psp));
	pair_close(&pair);
}
END_TEST

static const size_t lengths[] = { 0, 1, 7, 64, 4096, 30000 };

START_TEST(send_arrives)
{
	size_t length = lengths[_i];

	pair_open(&pair, NULL);
	pattern_fill(pair.client.memory, SIDE_MEMORY, 1);
	post_recv(pair.server.ep, 1, segment(&pair.server, 0, SIDE_MEMORY / 2));
	post_send(pair.client.ep, 0xfedcba9876543210, segment(&pair.client, 0, length),
		  DAT_COMPLETION_DEFAULT_FLAG);
	expect_request_done(&pair.client, 0xfedcba9876543210, length);
	expect_recv_done(&pair.server, 1, length);
	ck_assert_mem_eq(pair.client.memory, pair.server.memory, length);
	ck_assert_uint_eq(pair.server.memory[length], UNTOUCHED);
	pair_disconnect(&pair, DAT_CLOSE_GRACEFUL_FLAG);
	pair_close(&pair);
}
END_TEST

START_TEST(send_gathers_and_receive_scatters)
{
	DAT_LMR_TRIPLET sends[3], recvs[2];

	pair_open(&pair, NULL);
	pattern_fill(pair.client.memory, SIDE_MEMORY, 5);
	for (int n = 0; n < 3; n++)
		sends[n] = segment(&pair.client, (size_t)n * 1000, 100);
	for (int n = 0; n < 2; n++)
		recvs[n] = segment(&pair.server, (size_t)n * 1000, 150);
	ck_dat(dat_ep_post_recv(pair.server.ep, 2, recvs, cookie_of(1),
				DAT_COMPLETION_DEFAULT_FLAG));
	ck_dat(dat_ep_post_send(pair.client.ep, 3, sends, cookie_of(2),
				DAT_COMPLETION_DEFAULT_FLAG));
	expect_recv_done(&pair.server, 1, 300);
	ck_assert_mem_eq(pair.server.memory, pair.client.memory, 100);
	ck_assert_mem_eq(pair.server.memory + 100, pair.client.memory + 1000, 50);
	ck_assert_mem_eq(pair.server.memory + 1000, pair.client.memory + 1050, 50);
	ck_assert_mem_eq(pair.server.memory + 1050, pair.client.memory + 2000, 100);
	expect_request_done(&pair.client, 2, 300);
	pair_disconnect(&pair, DAT_CLOSE_GRACEFUL_FLAG);
	pair_close(&pair);
}
END_TEST

/* When the message behind the write is received, the write has been placed. */
START_TEST(write_is_placed)
{
	size_t length = lengths[_i];
	DAT_LMR_TRIPLET iov;
	DAT_RMR_TRIPLET remote;

	pair_open(&pair, NULL);
	pattern_fill(pair.client.memory, SIDE_MEMORY, 2);
	iov = segment(&pair.client, 100, length);
	remote = target(&pair.server, 200, length);
	post_recv(pair.server.ep, 1, segment(&pair.server, 0, 8));
	ck_dat(dat_ep_post_rdma_write(pair.client.ep, 1, &iov, cookie_of(2), &remote,
				      DAT_COMPLETION_DEFAULT_FLAG));
	post_send(pair.client.ep, 3, segment(&pair.client, 0, 0), DAT_COMPLETION_DEFAULT_FLAG);
	expect_request_done(&pair.client, 2, length);
	expect_request_done(&pair.client, 3, 0);
	expect_recv_done(&pair.server, 1, 0);
	ck_assert_mem_eq(pair.server.memory + 200, pair.client.memory + 100, length);
	ck_assert_uint_eq(pair.server.memory[200 + length], UNTOUCHED);
	pair_disconnect(&pair, DAT_CLOSE_GRACEFUL_FLAG);
	pair_close(&pair);
}
END_TEST

START_TEST(read_returns_the_bytes)
{
	size_t length = lengths[_i];
	DAT_LMR_TRIPLET iov;
	DAT_RMR_TRIPLET remote;

	pair_open(&pair, NULL);
	pattern_fill(pair.server.memory, SIDE_MEMORY, 3);
	iov = segment(&pair.client, 0, length); /* it decides how much is read */
	remote = target(&pair.server, 200, SIDE_MEMORY / 2);
	ck_dat(dat_ep_post_rdma_read(pair.client.ep, 1, &iov, cookie_of(4), &remote,
				     DAT_COMPLETION_DEFAULT_FLAG));
	expect_request_done(&pair.client, 4, length);
	ck_assert_mem_eq(pair.client.memory, pair.server.memory + 200, length);
	ck_assert_uint_eq(pair.client.memory[length], UNTOUCHED);
	pair_disconnect(&pair, DAT_CLOSE_GRACEFUL_FLAG);
	pair_close(&pair);
}
END_TEST

/*
 * Whatever earlier reads left in the device's ring: the reads are so many that each slot is used
 * several times.
 */
START_TEST(empty_read_moves_no_byte)
{
	DAT_LMR_TRIPLET iov;
	DAT_RMR_TRIPLET remote;

	pair_open(&pair, NULL);
	pattern_fill(pair.server.memory, SIDE_MEMORY, 3);
	for (unsigned n = 0; n < 300; n++) {
		size_t length = n % 3 ? 64 : 0;

		memset(pair.client.memory, 0, 64);
		iov = segment(&pair.client, 0, length);
		remote = target(&pair.server, n, 64);
		ck_dat(dat_ep_post_rdma_read(pair.client.ep, 1, &iov, cookie_of(n), &remote,
					     DAT_COMPLETION_DEFAULT_FLAG));
		expect_request_done(&pair.client, n, length);
		ck_assert_mem_eq(pair.client.memory, pair.server.memory + n, length);
		for (size_t i = length; i < 64; i++)
			ck_assert_int_eq(pair.client.memory[i], 0);
	}
	pair_disconnect(&pair, DAT_CLOSE_GRACEFUL_FLAG);
	pair_close(&pair);
}
END_TEST

/* A cookie may be a number or a pointer: all of its bits are the consumer's. */
START_TEST(cookies_are_returned_unchanged)
{
	const uint64_t cookies[] = { 0,
				     1,
				     UINT64_MAX,
				     UINT64_C(1) << 63,
				     UINT64_C(0x8000000080000001),
				     (uintptr_t)&pair.client };
	DAT_EVENT event;

	pair_open(&pair, NULL);
	for (size_t n = 0; n < COUNT(cookies); n++) {
		post_recv(pair.server.ep, cookies[n], segment(&pair.server, 0, 8));
		post_send(pair.client.ep, cookies[n], segment(&pair.client, 0, 8),
			  DAT_COMPLETION_DEFAULT_FLAG);
		expect_recv_done(&pair.server, cookies[n], 8);
		event = expect_event(pair.client.request_evd, DAT_DTO_COMPLETION_EVENT);
		ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64,
				  cookies[n]);
	}
	ck_assert_ptr_eq(event.event_data.dto_completion_event_data.user_cookie.as_ptr,
			 &pair.client);
	pair_disconnect(&pair, DAT_CLOSE_GRACEFUL_FLAG);
	pair_close(&pair);
}
END_TEST

START_TEST(suppressed_request_has_no_completion)
{
	pair_open(&pair, NULL);
	for (unsigned n = 0; n < 100; n++) {
		post_recv(pair.server.ep, n, segment(&pair.server, 0, 64));
		post_send(pair.client.ep, n, segment(&pair.client, 0, 8),
			  DAT_COMPLETION_SUPPRESS_FLAG);
		expect_recv_done(&pair.server, n, 8);
	}
	post_recv(pair.server.ep, 100, segment(&pair.server, 0, 64));
	post_send(pair.client.ep, 100, segment(&pair.client, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	expect_request_done(&pair.client, 100, 8);
	expect_no_event(pair.client.request_evd);
	pair_disconnect(&pair, DAT_CLOSE_GRACEFUL_FLAG);
	pair_close(&pair);
}
END_TEST

START_TEST(end_flushes_receives)
{
	pair_open(&pair, NULL);
	post_recvs(&pair.client, 0, 8);
	post_recvs(&pair.server, 0, 8);
	pair_disconnect(&pair, _i ? DAT_CLOSE_GRACEFUL_FLAG : DAT_CLOSE_ABRUPT_FLAG);
	expect_flushed_recvs(&pair.client, 0, 8);
	expect_flushed_recvs(&pair.server, 0, 8);
	post_recvs(&pair.client, 8, 1); /* after the end it is flushed at once */
	expect_flushed_recvs(&pair.client, 8, 1);
	expect_no_event(pair.client.recv_evd);
	expect_no_event(pair.server.recv_evd);
	ck_dat(dat_ep_disconnect(pair.client.ep, DAT_CLOSE_ABRUPT_FLAG)); /* no effect */
	expect_no_event(pair.client.connect_evd);
	pair_close(&pair);
}
END_TEST

START_TEST(graceful_disconnect_completes_requests)
{
	pair_open(&pair, NULL);
	for (unsigned n = 0; n < 8; n++)
		post_recv(pair.server.ep, n, segment(&pair.server, 0, 64));
	for (unsigned n = 0; n < 8; n++)
		post_send(pair.client.ep, n, segment(&pair.client, 0, 8),
			  DAT_COMPLETION_DEFAULT_FLAG);
	pair_disconnect(&pair, DAT_CLOSE_GRACEFUL_FLAG);
	for (unsigned n = 0; n < 8; n++) {
		expect_request_done(&pair.client, n, 8);
		expect_recv_done(&pair.server, n, 8);
	}
	pair_close(&pair);
}
END_TEST

START_TEST(reset_endpoint_connects_again)
{
	pair_open_unconnected(&pair, NULL);
	for (unsigned n = 0; n < 5; n++) {
		pair_connect(&pair);
		post_recv(pair.server.ep, n, segment(&pair.server, 0, 64));
		post_send(pair.client.ep, n, segment(&pair.client, 0, 8),
			  DAT_COMPLETION_DEFAULT_FLAG);
		expect_request_done(&pair.client, n, 8);
		expect_recv_done(&pair.server, n, 8);
		pair_disconnect(&pair, DAT_CLOSE_ABRUPT_FLAG);
		pair_reset(&pair);
		ck_assert_int_eq(ep_get_state(pair.client.ep), DAT_EP_STATE_UNCONNECTED);
	}
	pair_close(&pair);
}
END_TEST

START_TEST(completion_triggers_the_cno)
{
	DAT_CNO_HANDLE cno;
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;

	pair_open(&pair, NULL);
	ck_dat(dat_cno_create(pair.server.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(dat_evd_modify_cno(pair.server.recv_evd, cno));
	ck_dat_is(dat_cno_wait(cno, 1, &evd), DAT_QUEUE_EMPTY);
	for (unsigned n = 0; n < 5; n++) {
		post_recv(pair.server.ep, n, segment(&pair.server, 0, 64));
		post_send(pair.client.ep, n, segment(&pair.client, 0, 8),
			  DAT_COMPLETION_DEFAULT_FLAG);
		ck_dat(dat_cno_wait(cno, TIME_LIMIT, &evd));
		ck_assert_ptr_eq(evd, pair.server.recv_evd);
		expect_recv_done(&pair.server, n, 8);
		expect_request_done(&pair.client, n, 8);
	}
	ck_dat_is(dat_cno_free(cno), BAD_STATE(CNO_IN_USE));
	ck_dat(dat_evd_modify_cno(pair.server.recv_evd, DAT_HANDLE_NULL));
	ck_dat(dat_cno_free(cno));
	pair_disconnect(&pair, DAT_CLOSE_GRACEFUL_FLAG);
	pair_close(&pair);
}
END_TEST

START_TEST(threshold_counts_software_events)
{
	DAT_EVENT event = { .event_number = DAT_SOFTWARE_EVENT };
	DAT_EVD_HANDLE evd;
	DAT_COUNT nmore;

	pair_open_unconnected(&pair, NULL);
	ck_dat(dat_evd_create(pair.client.ia, 4, DAT_HANDLE_NULL, DAT_EVD_SOFTWARE_FLAG, &evd));
	event.event_data.software_event_data.pointer = &pair.client;
	ck_dat(dat_evd_post_se(evd, &event));
	ck_dat(dat_evd_post_se(evd, &event));
	ck_dat_is(dat_evd_wait(evd, 1, 3, &event, &nmore),
		  DAT_ERROR(DAT_TIMEOUT_EXPIRED, DAT_NO_SUBTYPE));
	ck_assert_int_eq(nmore, 2);
	ck_dat(dat_evd_wait(evd, TIME_LIMIT, 2, &event, &nmore));
	ck_assert_int_eq(nmore, 1);
	ck_assert_ptr_eq(event.event_data.software_event_data.pointer, &pair.client);
	ck_dat(dat_evd_free(evd));
	pair_close(&pair);
}
END_TEST

/* ---- threads ---- */

#define ROUNDS 200

static void *echo_messages(void *arg)
{
	(void)arg;
	for (uint64_t n = 0; n < ROUNDS; n++) {
		expect_recv_done(&pair.server, n, 64);
		if (n + 1 < ROUNDS)
			post_recv(pair.server.ep, n + 1, segment(&pair.server, 0, 64));
		post_send(pair.server.ep, n, segment(&pair.server, 0, 64),
			  DAT_COMPLETION_DEFAULT_FLAG);
		expect_request_done(&pair.server, n, 64);
	}
	return NULL;
}

START_TEST(two_threads_exchange_messages)
{
	pthread_t thread;

	pair_open(&pair, NULL);
	pattern_fill(pair.client.memory, SIDE_MEMORY, 9);
	post_recv(pair.server.ep, 0, segment(&pair.server, 0, 64));
	thread = consumer_thread_start(echo_messages, NULL);
	for (uint64_t n = 0; n < ROUNDS; n++) {
		post_recv(pair.client.ep, n, segment(&pair.client, 1000, 64));
		post_send(pair.client.ep, n, segment(&pair.client, n, 64),
			  DAT_COMPLETION_DEFAULT_FLAG);
		expect_request_done(&pair.client, n, 64);
		expect_recv_done(&pair.client, n, 64);
		ck_assert_mem_eq(pair.client.memory + 1000, pair.client.memory + n, 64);
	}
	consumer_thread_join(thread);
	pair_disconnect(&pair, DAT_CLOSE_GRACEFUL_FLAG);
	pair_close(&pair);
}
END_TEST

/* ---- the end of an IA ---- */

START_TEST(ia_in_use_is_not_closed)
{
	pair_open(&pair, NULL);
	ck_dat_is(dat_ia_close(pair.client.ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	pair_disconnect(&pair, DAT_CLOSE_GRACEFUL_FLAG);
	pair_close(&pair);
}
END_TEST

START_TEST(abrupt_close_frees_all)
{
	pair_open(&pair, NULL);
	post_recv(pair.client.ep, 1, segment(&pair.client, 0, 64));
	post_send(pair.client.ep, 1, segment(&pair.client, 0, 64),
		  DAT_COMPLETION_DEFAULT_FLAG); /* no receive is posted for it */
	ck_dat(dat_ia_close(pair.client.ia, DAT_CLOSE_ABRUPT_FLAG));
	expect_connection(&pair.server, DAT_CONNECTION_EVENT_DISCONNECTED);
	side_close(&pair.server);
	side_open(&pair.client, CLIENT);
	side_close(&pair.client);
}
END_TEST

/* Takes --ia and --server off the command line. */
static void take_names(int *argc, char **argv)
{
	const char *client = NULL, *server = NULL;
	char names[2 * DAT_NAME_MAX_LENGTH];
	int used = 1;

	while (*argc > used + 1 &&
	       (!strcmp(argv[used], "--ia") || !strcmp(argv[used], "--server"))) {
		if (!strcmp(argv[used], "--ia"))
			client = argv[used + 1];
		else
			server = argv[used + 1];
		used += 2;
	}
	for (int i = used; i <= *argc; i++)
		argv[i - used + 1] = argv[i];
	*argc -= used - 1;
	if (!client)
		return;
	snprintf(names, sizeof(names), "%s %s", client, server ? server : client);
	setenv("CONFORM_NAMES", names, 1);
}

int main(int argc, char **argv)
{
	TCase *tcase = tcase_create("conform");
	const struct device_case cases[] = {
		{ names_are_listed, NEEDS_NOTHING },
		{ ia_opens_and_closes_repeatedly, NEEDS_NOTHING },
		{ queries_return_the_handles_of_the_consumer, NEEDS_NOTHING },
		{ nine_queries_return_the_ia_of_the_consumer, NEEDS_NOTHING },
		{ private_data_arrives_at_both_sides, NEEDS_NOTHING },
		{ reject_ends_the_request, NEEDS_NOTHING },
#if DAT_EDITION == 2
		{ a_reject_brings_its_private_data, NEEDS_NOTHING },
#endif
		{ connect_without_listener_is_refused, NEEDS_NOTHING },
		{ qualifier_has_one_listener, NEEDS_NOTHING },
		{ send_gathers_and_receive_scatters, NEEDS_NOTHING },
		{ empty_read_moves_no_byte, NEEDS_NOTHING },
		{ cookies_are_returned_unchanged, NEEDS_NOTHING },
		{ suppressed_request_has_no_completion, NEEDS_NOTHING },
		{ graceful_disconnect_completes_requests, NEEDS_NOTHING },
		{ reset_endpoint_connects_again, NEEDS_NOTHING },
		{ completion_triggers_the_cno, NEEDS_NOTHING },
		{ threshold_counts_software_events, NEEDS_NOTHING },
		{ two_threads_exchange_messages, NEEDS_NOTHING },
		{ ia_in_use_is_not_closed, NEEDS_NOTHING },
		{ abrupt_close_frees_all, NEEDS_NOTHING },
	};

	take_names(&argc, argv);
	/* An address that nobody has is found out in seconds; the default takes a minute. */
	setenv("DAPL_CM_ARP_RETRY_COUNT", "1", 0);
	device_choose_names(FAKE_FOLDER "/libfakedat" OF_EDITION("", "2") ".so");
	device_preload();
	add_device_cases(tcase, cases, COUNT(cases));
	tcase_add_loop_test(tcase, send_arrives, 0, COUNT(lengths));
	tcase_add_loop_test(tcase, write_is_placed, 0, COUNT(lengths));
	tcase_add_loop_test(tcase, read_returns_the_bytes, 0, COUNT(lengths));
	tcase_add_loop_test(tcase, end_flushes_receives, 0, 2);
	add_habit_cases(tcase);
	add_limit_cases(tcase);
	add_memory_cases(tcase);
	add_window_cases(tcase);
	add_code_cases(tcase);
	add_log_cases(tcase);
	add_sheet_cases(tcase_create("sheet"));
	return run_cases(argc, argv);
}
