/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Consumers of the public API, in one process with two interface adapters: what any provider must
 * do.
 *
 * Runs on the fake provider. CONFORM_NAMES="x y" names two others, which dat.conf must know; they
 * may be the same. Then DAT_TEST_DEV says what kind of device they are on, as for the other tests
 * of devices.
 */
#include <pthread.h>

#include "conform.h"

/* ---- the cases ---- */

START_TEST(names_are_listed)
{
	DAT_PROVIDER_INFO infos[32], *list[32];
	DAT_COUNT count;
	int found = 0;

	choose_names();
	for (int n = 0; n < COUNT(list); n++)
		list[n] = &infos[n];
	ck_dat(dat_registry_list_providers(COUNT(list), &count, list));
	for (int n = 0; n < count && n < COUNT(list); n++)
		found |= strcmp(infos[n].ia_name, a.name) == 0;
	ck_assert(found);
}
END_TEST

START_TEST(opens_and_tells_about_itself)
{
	DAT_HANDLE_TYPE type;
	DAT_EVD_HANDLE async_evd;

	choose_names();
	for (int n = 0; n < 3; n++) {
		side_open_ia(&a);
		ck_assert_ptr_nonnull(a.attr.ia_address_ptr);
		ck_assert_int_gt(a.attr.max_eps, 0);
		ck_assert_int_gt(a.attr.max_dto_per_ep, 0);
		ck_assert_int_gt(a.attr.max_evd_qlen, 0);
		ck_assert_int_gt(a.attr.max_iov_segments_per_dto, 0);
		ck_assert_int_ge(a.provider.max_private_data_size, 0);
		ck_dat(dat_ia_query(a.ia, &async_evd, 0, NULL, 0, NULL));
		ck_assert_ptr_eq(async_evd, a.async_evd);
		ck_dat(dat_get_handle_type(a.ia, &type));
		ck_assert_int_eq(type, DAT_HANDLE_TYPE_IA);
		ck_dat(dat_ia_close(a.ia, DAT_CLOSE_GRACEFUL_FLAG));
		ck_dat_fails(dat_ia_close(a.ia, DAT_CLOSE_GRACEFUL_FLAG), DAT_INVALID_HANDLE,
			     DAT_INVALID_HANDLE_IA);
	}
}
END_TEST

START_TEST(queries_name_the_adapter_of_the_consumer)
{
	DAT_EVD_PARAM evd;
	DAT_EP_PARAM ep;
	DAT_PZ_PARAM pz;
	DAT_LMR_PARAM lmr;

	open_both();
	ck_dat(dat_evd_query(a.recv_evd, DAT_EVD_FIELD_ALL, &evd));
	ck_assert_ptr_eq(evd.ia_handle, a.ia);
	ck_dat(dat_ep_query(a.ep, DAT_EP_FIELD_ALL, &ep));
	ck_assert_ptr_eq(ep.ia_handle, a.ia);
	ck_assert_ptr_eq(ep.pz_handle, a.pz);
	ck_assert_ptr_eq(ep.recv_evd_handle, a.recv_evd);
	ck_assert_int_eq(ep.ep_state, DAT_EP_STATE_UNCONNECTED);
	ck_dat(dat_pz_query(a.pz, DAT_PZ_FIELD_ALL, &pz));
	ck_assert_ptr_eq(pz.ia_handle, a.ia);
	ck_dat(dat_lmr_query(a.lmr, DAT_LMR_FIELD_ALL, &lmr));
	ck_assert_ptr_eq(lmr.ia_handle, a.ia);
	ck_assert_uint_eq(lmr.lmr_context, a.lmr_context);
	close_both();
}
END_TEST

START_TEST(private_data_goes_both_ways)
{
	static const char asked[] = "may I?", answer[] = "you may, and here is a longer answer";
	const DAT_CONNECTION_EVENT_DATA *connection;
	DAT_CR_PARAM param;
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;
	DAT_CR_HANDLE cr;
	DAT_EVENT event;

	open_both();
	psp = listen_at(&b, &qual);
	call(&a, &b, qual, sizeof(asked), asked);
	cr = expect_request(&b, psp, qual);
	ck_dat(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
	/* a transport may fill it up */
	ck_assert_int_ge(param.private_data_size, (int)sizeof(asked));
	ck_assert_mem_eq(param.private_data, asked, sizeof(asked));
	ck_assert_ptr_nonnull(param.remote_ia_address_ptr);
	ck_assert_ptr_eq(param.local_ep_handle, DAT_HANDLE_NULL);
	ck_dat(dat_cr_accept(cr, b.ep, sizeof(answer), (DAT_PVOID)answer));
	event = expect_connection(&a, DAT_CONNECTION_EVENT_ESTABLISHED);
	connection = &event.event_data.connect_event_data;
	ck_assert_int_ge(connection->private_data_size, (int)sizeof(answer));
	ck_assert_mem_eq(connection->private_data, answer, sizeof(answer));
	event = expect_connection(&b, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_assert_int_eq(event.event_data.connect_event_data.private_data_size, 0);
	ck_dat_fails(dat_cr_reject(cr), DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_CR);
	ck_dat(dat_psp_free(psp));
	disconnect_both(DAT_CLOSE_ABRUPT_FLAG);
	close_both();
}
END_TEST

START_TEST(a_consumer_says_no)
{
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;

	open_both();
	psp = listen_at(&b, &qual);
	call(&a, &b, qual, 0, NULL);
	ck_dat(dat_cr_reject(expect_request(&b, psp, qual)));
	expect_connection(&a, DAT_CONNECTION_EVENT_PEER_REJECTED);
	ck_assert_int_eq(state_of(a.ep), DAT_EP_STATE_DISCONNECTED);
	ck_dat(dat_ep_reset(a.ep));
	call(&a, &b, qual, 0, NULL);
	ck_dat(dat_cr_accept(expect_request(&b, psp, qual), b.ep, 0, NULL));
	expect_connection(&a, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_connection(&b, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_dat(dat_psp_free(psp));
	close_both();
}
END_TEST

START_TEST(nobody_listens)
{
	DAT_CONN_QUAL qual;

	open_both();
	post_recv(&a, 1, 0, 64);
	ck_dat(dat_psp_free(listen_at(&b, &qual)));
	call(&a, &b, qual, 0, NULL);
	expect_connection(&a, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	expect_dto(a.recv_evd, a.ep, 1, DAT_DTO_ERR_FLUSHED, 0);
	close_both();
}
END_TEST

START_TEST(a_qualifier_is_taken_once)
{
	DAT_PSP_HANDLE psp, other;
	DAT_CONN_QUAL qual;

	open_both();
	psp = listen_at(&b, &qual);
	ck_dat_fails(dat_psp_create(b.ia, qual, b.cr_evd, DAT_PSP_CONSUMER_FLAG, &other),
		     DAT_CONN_QUAL_IN_USE, 0);
	ck_dat(dat_psp_free(psp));
	ck_dat(dat_psp_create(b.ia, qual, b.cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	ck_dat(dat_psp_free(psp));
	close_both();
}
END_TEST

static const size_t lengths[] = { 0, 1, 7, 64, 4096, 30000 };

START_TEST(sends_arrive)
{
	size_t length = lengths[_i];

	open_connected();
	fill(&a, 1);
	post_recv(&b, 1, 0, MEMORY / 2);
	post_send(&a, 0xfedcba9876543210, 0, length, DAT_COMPLETION_DEFAULT_FLAG);
	expect_dto(a.request_evd, a.ep, 0xfedcba9876543210, DAT_DTO_SUCCESS, length);
	expect_dto(b.recv_evd, b.ep, 1, DAT_DTO_SUCCESS, length);
	ck_assert_mem_eq(a.memory, b.memory, length);
	ck_assert_int_eq(b.memory[length], 0);
	disconnect_both(DAT_CLOSE_GRACEFUL_FLAG);
	close_both();
}
END_TEST

START_TEST(a_send_gathers_and_a_receive_scatters)
{
	DAT_LMR_TRIPLET sends[3], recvs[2];

	open_connected();
	fill(&a, 5);
	for (int n = 0; n < 3; n++)
		sends[n] = segment(&a, (size_t)n * 1000, 100);
	for (int n = 0; n < 2; n++)
		recvs[n] = segment(&b, (size_t)n * 1000, 150);
	ck_dat(dat_ep_post_recv(b.ep, 2, recvs, cookie_of(1), DAT_COMPLETION_DEFAULT_FLAG));
	ck_dat(dat_ep_post_send(a.ep, 3, sends, cookie_of(2), DAT_COMPLETION_DEFAULT_FLAG));
	expect_dto(b.recv_evd, b.ep, 1, DAT_DTO_SUCCESS, 300);
	ck_assert_mem_eq(b.memory, a.memory, 100);
	ck_assert_mem_eq(b.memory + 100, a.memory + 1000, 50);
	ck_assert_mem_eq(b.memory + 1000, a.memory + 1050, 50);
	ck_assert_mem_eq(b.memory + 1050, a.memory + 2000, 100);
	expect_dto(a.request_evd, a.ep, 2, DAT_DTO_SUCCESS, 300);
	disconnect_both(DAT_CLOSE_GRACEFUL_FLAG);
	close_both();
}
END_TEST

/* The send after it tells the peer that it is there. */
START_TEST(writes_land)
{
	size_t length = lengths[_i];
	DAT_LMR_TRIPLET iov;
	DAT_RMR_TRIPLET remote;

	open_connected();
	fill(&a, 2);
	iov = segment(&a, 100, length);
	remote = target(&b, 200, length);
	post_recv(&b, 1, 0, 8);
	ck_dat(dat_ep_post_rdma_write(a.ep, 1, &iov, cookie_of(2), &remote,
				      DAT_COMPLETION_DEFAULT_FLAG));
	post_send(&a, 3, 0, 0, DAT_COMPLETION_DEFAULT_FLAG);
	expect_dto(a.request_evd, a.ep, 2, DAT_DTO_SUCCESS, length);
	expect_dto(a.request_evd, a.ep, 3, DAT_DTO_SUCCESS, 0);
	expect_dto(b.recv_evd, b.ep, 1, DAT_DTO_SUCCESS, 0);
	ck_assert_mem_eq(b.memory + 200, a.memory + 100, length);
	ck_assert_int_eq(b.memory[200 + length], 0);
	disconnect_both(DAT_CLOSE_GRACEFUL_FLAG);
	close_both();
}
END_TEST

START_TEST(reads_fetch)
{
	size_t length = lengths[_i];
	DAT_LMR_TRIPLET iov;
	DAT_RMR_TRIPLET remote;

	open_connected();
	fill(&b, 3);
	iov = segment(&a, 0, MEMORY / 2); /* more room than is asked for */
	remote = target(&b, 200, length);
	ck_dat(dat_ep_post_rdma_read(a.ep, 1, &iov, cookie_of(4), &remote,
				     DAT_COMPLETION_DEFAULT_FLAG));
	expect_dto(a.request_evd, a.ep, 4, DAT_DTO_SUCCESS, length);
	ck_assert_mem_eq(a.memory, b.memory + 200, length);
	ck_assert_int_eq(a.memory[length], 0);
	disconnect_both(DAT_CLOSE_GRACEFUL_FLAG);
	close_both();
}
END_TEST

/* Whatever the device's ring kept of earlier reads: it comes round several times. */
START_TEST(a_read_of_nothing_moves_nothing)
{
	DAT_LMR_TRIPLET iov;
	DAT_RMR_TRIPLET remote;

	open_connected();
	fill(&b, 3);
	iov = segment(&a, 0, 64);
	for (unsigned n = 0; n < 300; n++) {
		size_t length = n % 3 ? 64 : 0;

		memset(a.memory, 0, 64);
		remote = target(&b, n, length);
		ck_dat(dat_ep_post_rdma_read(a.ep, 1, &iov, cookie_of(n), &remote,
					     DAT_COMPLETION_DEFAULT_FLAG));
		expect_dto(a.request_evd, a.ep, n, DAT_DTO_SUCCESS, length);
		ck_assert_mem_eq(a.memory, b.memory + n, length);
		for (size_t i = length; i < 64; i++)
			ck_assert_int_eq(a.memory[i], 0);
	}
	disconnect_both(DAT_CLOSE_GRACEFUL_FLAG);
	close_both();
}
END_TEST

/* A consumer may keep a number or a pointer in it: the provider looks at none of its bits. */
START_TEST(cookies_come_back_whole)
{
	const uint64_t cookies[] = {
		0, 1, UINT64_MAX, UINT64_C(1) << 63, UINT64_C(0x8000000080000001), (uintptr_t)&a
	};
	DAT_EVENT event;

	open_connected();
	for (int n = 0; n < COUNT(cookies); n++) {
		post_recv(&b, cookies[n], 0, 8);
		post_send(&a, cookies[n], 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
		expect_dto(b.recv_evd, b.ep, cookies[n], DAT_DTO_SUCCESS, 8);
		event = expect(a.request_evd, DAT_DTO_COMPLETION_EVENT);
		ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64,
				  cookies[n]);
	}
	ck_assert_ptr_eq(event.event_data.dto_completion_event_data.user_cookie.as_ptr, &a);
	disconnect_both(DAT_CLOSE_GRACEFUL_FLAG);
	close_both();
}
END_TEST

START_TEST(suppressed_requests_stay_silent)
{
	open_connected();
	for (unsigned n = 0; n < 100; n++) {
		post_recv(&b, n, 0, 64);
		post_send(&a, n, 0, 8, DAT_COMPLETION_SUPPRESS_FLAG);
		expect_dto(b.recv_evd, b.ep, n, DAT_DTO_SUCCESS, 8);
	}
	post_recv(&b, 100, 0, 64);
	post_send(&a, 100, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
	expect_dto(a.request_evd, a.ep, 100, DAT_DTO_SUCCESS, 8);
	expect_empty(a.request_evd);
	disconnect_both(DAT_CLOSE_GRACEFUL_FLAG);
	close_both();
}
END_TEST

START_TEST(the_end_flushes_receives)
{
	open_connected();
	for (unsigned n = 0; n < 8; n++) {
		post_recv(&a, n, 0, 64);
		post_recv(&b, n, 0, 64);
	}
	disconnect_both(_i ? DAT_CLOSE_GRACEFUL_FLAG : DAT_CLOSE_ABRUPT_FLAG);
	for (unsigned n = 0; n < 8; n++) {
		expect_dto(a.recv_evd, a.ep, n, DAT_DTO_ERR_FLUSHED, 0);
		expect_dto(b.recv_evd, b.ep, n, DAT_DTO_ERR_FLUSHED, 0);
	}
	post_recv(&a, 8, 0, 64); /* too late, and said so */
	expect_dto(a.recv_evd, a.ep, 8, DAT_DTO_ERR_FLUSHED, 0);
	expect_empty(a.recv_evd);
	expect_empty(b.recv_evd);
	ck_dat(dat_ep_disconnect(a.ep, DAT_CLOSE_ABRUPT_FLAG)); /* nothing left to do */
	expect_empty(a.connect_evd);
	close_both();
}
END_TEST

START_TEST(graceful_lets_requests_finish)
{
	open_connected();
	for (unsigned n = 0; n < 8; n++)
		post_recv(&b, n, 0, 64);
	for (unsigned n = 0; n < 8; n++)
		post_send(&a, n, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
	disconnect_both(DAT_CLOSE_GRACEFUL_FLAG);
	for (unsigned n = 0; n < 8; n++) {
		expect_dto(a.request_evd, a.ep, n, DAT_DTO_SUCCESS, 8);
		expect_dto(b.recv_evd, b.ep, n, DAT_DTO_SUCCESS, 8);
	}
	close_both();
}
END_TEST

START_TEST(an_endpoint_connects_again)
{
	open_both();
	for (unsigned n = 0; n < 5; n++) {
		connect_both();
		post_recv(&b, n, 0, 64);
		post_send(&a, n, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
		expect_dto(a.request_evd, a.ep, n, DAT_DTO_SUCCESS, 8);
		expect_dto(b.recv_evd, b.ep, n, DAT_DTO_SUCCESS, 8);
		disconnect_both(DAT_CLOSE_ABRUPT_FLAG);
		ck_dat(dat_ep_reset(a.ep));
		ck_dat(dat_ep_reset(b.ep));
		ck_assert_int_eq(state_of(a.ep), DAT_EP_STATE_UNCONNECTED);
	}
	close_both();
}
END_TEST

START_TEST(a_notification_comes_for_completions)
{
	DAT_CNO_HANDLE cno;
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;

	open_connected();
	ck_dat(dat_cno_create(b.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(dat_evd_modify_cno(b.recv_evd, cno));
	ck_dat_fails(dat_cno_wait(cno, 1, &evd), DAT_QUEUE_EMPTY, 0);
	for (unsigned n = 0; n < 5; n++) {
		post_recv(&b, n, 0, 64);
		post_send(&a, n, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
		ck_dat(dat_cno_wait(cno, PATIENCE, &evd));
		ck_assert_ptr_eq(evd, b.recv_evd);
		expect_dto(b.recv_evd, b.ep, n, DAT_DTO_SUCCESS, 8);
		expect_dto(a.request_evd, a.ep, n, DAT_DTO_SUCCESS, 8);
	}
	ck_dat_fails(dat_cno_free(cno), DAT_INVALID_STATE, DAT_INVALID_STATE_CNO_IN_USE);
	ck_dat(dat_evd_modify_cno(b.recv_evd, DAT_HANDLE_NULL));
	ck_dat(dat_cno_free(cno));
	disconnect_both(DAT_CLOSE_GRACEFUL_FLAG);
	close_both();
}
END_TEST

START_TEST(software_events)
{
	DAT_EVENT event = { .event_number = DAT_SOFTWARE_EVENT };
	DAT_EVD_HANDLE evd;
	DAT_COUNT nmore;

	open_both();
	ck_dat(dat_evd_create(a.ia, 4, DAT_HANDLE_NULL, DAT_EVD_SOFTWARE_FLAG, &evd));
	event.event_data.software_event_data.pointer = &a;
	ck_dat(dat_evd_post_se(evd, &event));
	ck_dat(dat_evd_post_se(evd, &event));
	ck_dat_fails(dat_evd_wait(evd, 1, 3, &event, &nmore), DAT_TIMEOUT_EXPIRED, 0);
	ck_assert_int_eq(nmore, 2);
	ck_dat(dat_evd_wait(evd, PATIENCE, 2, &event, &nmore));
	ck_assert_int_eq(nmore, 1);
	ck_assert_ptr_eq(event.event_data.software_event_data.pointer, &a);
	ck_dat(dat_evd_free(evd));
	close_both();
}
END_TEST

/* ---- threads ---- */

#define ROUNDS 200

static void *echo(void *arg)
{
	(void)arg;
	for (uint64_t n = 0; n < ROUNDS; n++) {
		expect_dto(b.recv_evd, b.ep, n, DAT_DTO_SUCCESS, 64);
		if (n + 1 < ROUNDS)
			post_recv(&b, n + 1, 0, 64);
		post_send(&b, n, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
		expect_dto(b.request_evd, b.ep, n, DAT_DTO_SUCCESS, 64);
	}
	return NULL;
}

START_TEST(ping_pong)
{
	pthread_t thread;

	open_connected();
	fill(&a, 9);
	post_recv(&b, 0, 0, 64);
	ck_assert_int_eq(pthread_create(&thread, NULL, echo, NULL), 0);
	for (uint64_t n = 0; n < ROUNDS; n++) {
		post_recv(&a, n, 1000, 64);
		post_send(&a, n, n, 64, DAT_COMPLETION_DEFAULT_FLAG);
		expect_dto(a.request_evd, a.ep, n, DAT_DTO_SUCCESS, 64);
		expect_dto(a.recv_evd, a.ep, n, DAT_DTO_SUCCESS, 64);
		ck_assert_mem_eq(a.memory + 1000, a.memory + n, 64);
	}
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	disconnect_both(DAT_CLOSE_GRACEFUL_FLAG);
	close_both();
}
END_TEST

/* ---- the end of an adapter ---- */

START_TEST(an_adapter_in_use_is_not_closed)
{
	open_connected();
	ck_dat_fails(dat_ia_close(a.ia, DAT_CLOSE_GRACEFUL_FLAG), DAT_INVALID_STATE,
		     DAT_INVALID_STATE_IA_IN_USE);
	disconnect_both(DAT_CLOSE_GRACEFUL_FLAG);
	close_both();
}
END_TEST

START_TEST(an_abrupt_close_takes_all_down)
{
	open_connected();
	post_recv(&a, 1, 0, 64);
	post_send(&a, 1, 0, 64, DAT_COMPLETION_DEFAULT_FLAG); /* nobody receives it */
	ck_dat(dat_ia_close(a.ia, DAT_CLOSE_ABRUPT_FLAG));
	expect_connection(&b, DAT_CONNECTION_EVENT_DISCONNECTED);
	side_close(&b);
	side_open(&a);
	side_close(&a);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("conform");

	tcase_set_timeout(cases, 120);
	tcase_add_test(cases, names_are_listed);
	tcase_add_test(cases, opens_and_tells_about_itself);
	tcase_add_test(cases, queries_name_the_adapter_of_the_consumer);
	tcase_add_test(cases, private_data_goes_both_ways);
	tcase_add_test(cases, a_consumer_says_no);
	tcase_add_test(cases, nobody_listens);
	tcase_add_test(cases, a_qualifier_is_taken_once);
	tcase_add_loop_test(cases, sends_arrive, 0, COUNT(lengths));
	tcase_add_test(cases, a_send_gathers_and_a_receive_scatters);
	tcase_add_loop_test(cases, writes_land, 0, COUNT(lengths));
	tcase_add_loop_test(cases, reads_fetch, 0, COUNT(lengths));
	tcase_add_test(cases, a_read_of_nothing_moves_nothing);
	tcase_add_test(cases, cookies_come_back_whole);
	tcase_add_test(cases, suppressed_requests_stay_silent);
	tcase_add_loop_test(cases, the_end_flushes_receives, 0, 2);
	tcase_add_test(cases, graceful_lets_requests_finish);
	tcase_add_test(cases, an_endpoint_connects_again);
	tcase_add_test(cases, a_notification_comes_for_completions);
	tcase_add_test(cases, software_events);
	tcase_add_test(cases, ping_pong);
	tcase_add_test(cases, an_adapter_in_use_is_not_closed);
	tcase_add_test(cases, an_abrupt_close_takes_all_down);
	add_memory_cases(cases);
	add_window_cases(cases);
	return run_cases(argc, argv);
}
