/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What programs do that were written for other DAT 1.2 providers, call by call. Each section has
 * the program's name.
 */
#include <arpa/inet.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../consumer/consumer.h"

#define MIB	((size_t)1 << 20)
#define CANCELS 20

static DAT_COUNT at_most(DAT_COUNT wanted, DAT_COUNT limit)
{
	return wanted < limit ? wanted : limit;
}

/* One EVD for connection requests and connection events, one for transfers and binds. */
static void merge_evds(struct side *side, DAT_COUNT qlen)
{
	ck_dat(dat_evd_free(side->recv_evd));
	ck_dat(dat_evd_free(side->request_evd));
	ck_dat(dat_evd_free(side->connect_evd));
	ck_dat(dat_evd_free(side->cr_evd));
	side->connect_evd = side_create_evd(side, qlen, DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG);
	side->cr_evd = side->connect_evd;
	side->recv_evd = side_create_evd(side, qlen, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG);
	side->request_evd = side->recv_evd;
}

/* Programs that poll memory wait so for the last byte of a write. */
static void poll_byte(const unsigned char *at, unsigned char byte)
{
	while (__atomic_load_n(at, __ATOMIC_ACQUIRE) != byte)
		sched_yield();
}

static DAT_EVENT dequeue_next(DAT_EVD_HANDLE evd)
{
	DAT_EVENT event;
	DAT_RETURN ret;

	while ((ret = dat_evd_dequeue(evd, &event)) == DAT_QUEUE_EMPTY)
		sched_yield();
	ck_dat(ret);
	return event;
}

static const char *good_params(void)
{
	static char params[64];

	snprintf(params, sizeof(params), "%s 0", getenv("DAT_TEST_IF0"));
	return params;
}

/* ---- Open MPI ---- */

START_TEST(providers_are_listed_into_the_callers_structs)
{
	const char *params[] = { "eth77 0", good_params(), "eth78 0" };
	DAT_PROVIDER_INFO *list[8], guard;
	DAT_COUNT count = 0;
	unsigned opened = 0;

	choose_conf(params, COUNT(params));
	memset(&guard, UNTOUCHED, sizeof(guard));
	for (size_t i = 0; i < COUNT(list); i++) {
		list[i] = malloc(sizeof(*list[i]));
		memcpy(list[i], &guard, sizeof(guard));
	}
	ck_dat(dat_registry_list_providers(COUNT(list), &count, list));
	ck_assert_int_eq(count, COUNT(params));
	ck_assert_mem_eq(list[count], &guard, sizeof(guard));
	for (DAT_COUNT i = 0; i < count; i++) {
		DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
		DAT_IA_HANDLE ia;

		ck_assert_uint_eq(list[i]->dapl_version_major, DAT_VERSION_MAJOR);
		ck_assert_uint_eq(list[i]->dapl_version_minor, DAT_VERSION_MINOR);
		if (dat_ia_open(list[i]->ia_name, 8, &async, &ia) != DAT_SUCCESS)
			continue;
		opened++;
		ck_dat(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
	}
	ck_assert_uint_eq(opened, 1);
	for (size_t i = 0; i < COUNT(list); i++)
		free(list[i]);
}
END_TEST

/* A program learns the limits of endpoints from one that it does not use. */
static DAT_EP_ATTR dummy_ep_attr(const struct side *side)
{
	DAT_EP_HANDLE dummy;
	DAT_EP_PARAM param;

	ck_dat(dat_ep_create(side->ia, side->pz, side->recv_evd, side->request_evd,
			     side->connect_evd, NULL, &dummy));
	ck_dat(dat_ep_query(dummy, DAT_EP_FIELD_ALL, &param));
	ck_dat(dat_ep_free(dummy));
	return param.ep_attr;
}

START_TEST(attributes_of_a_dummy_endpoint_are_valid_attributes)
{
	DAT_PSP_PARAM psp_param;
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;
	struct pair pair;
	DAT_EP_ATTR attr;

	side_open_bare(&pair.server, SERVER);
	side_open_bare(&pair.client, CLIENT);
	merge_evds(&pair.server, SIDE_QLEN);
	merge_evds(&pair.client, SIDE_QLEN);
	attr = dummy_ep_attr(&pair.server);
	ck_assert_int_gt(attr.max_recv_dtos, 0);
	ck_assert_int_gt(attr.max_request_dtos, 0);
	ck_assert_int_gt(attr.max_recv_iov, 0);
	ck_assert_int_gt(attr.max_request_iov, 0);
	attr.max_recv_dtos *= 2;
	attr.max_request_dtos *= 2;
	side_equip(&pair.server, &attr, SIDE_MEMORY);
	side_equip(&pair.client, &attr, SIDE_MEMORY);
	ck_dat(dat_psp_create_any(pair.server.ia, &qual, pair.server.cr_evd, DAT_PSP_CONSUMER_FLAG,
				  &psp));
	ck_dat(dat_psp_query(psp, DAT_PSP_FIELD_ALL, &psp_param));
	connect_and_accept(&pair, psp_param.conn_qual);
	expect_established(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

/* It compares addresses of peers byte by byte, and writes a port into its copy. */
START_TEST(addresses_are_compared_by_bytes)
{
	struct pair pair;
	struct side again;
	DAT_EP_PARAM param;
	struct sockaddr_in seen;

	pair_open(&pair, NULL);
	side_open_bare(&again, CLIENT);
	ck_assert_uint_eq(pair.client.address.sin_port, 0);
	ck_assert_mem_eq(&pair.client.address, &again.address, sizeof(again.address));
	ck_dat(dat_ep_query(pair.server.ep, DAT_EP_FIELD_ALL, &param));
	memcpy(&seen, param.remote_ia_address_ptr, sizeof(seen));
	seen.sin_port = 0;
	ck_assert_mem_eq(&seen, &pair.client.address, sizeof(seen));
	side_close_abrupt(&again);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(active_side_sends_at_once_and_the_last_byte_is_polled)
{
	DAT_CONN_QUAL qual;
	struct pair pair;

	side_open_bare(&pair.server, SERVER);
	side_open_bare(&pair.client, CLIENT);
	merge_evds(&pair.server, SIDE_QLEN);
	merge_evds(&pair.client, SIDE_QLEN);
	side_equip(&pair.server, NULL, SIDE_MEMORY);
	side_equip(&pair.client, NULL, SIDE_MEMORY);
	post_recv(pair.server.ep, 1, segment(&pair.server, 0, 100));
	listen_any(&pair.server, &qual);
	connect_and_accept(&pair, qual);
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_ESTABLISHED);
	pattern_fill(pair.client.memory, 100, 1);
	post_send(pair.client.ep, 2, segment(&pair.client, 0, 100), DAT_COMPLETION_DEFAULT_FLAG);
	expect_connection(&pair.server, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_recv_done(&pair.server, 1, 100);
	pattern_check(pair.server.memory, 100, 1);
	expect_request_done(&pair.client, 2, 100);
	for (unsigned i = 0; i < 200; i++) {
		const size_t size = 1 + 321 * (size_t)i;

		memset(pair.server.memory, 0, SIDE_MEMORY);
		pattern_fill(pair.client.memory, size, i);
		pair.client.memory[size] = 0xa5;
		post_write(pair.client.ep, 3 + i, segment(&pair.client, 0, size + 1),
			   target(&pair.server, 0, size + 1), DAT_COMPLETION_DEFAULT_FLAG);
		poll_byte(&pair.server.memory[size], 0xa5);
		pattern_check(pair.server.memory, size, i);
		expect_request_done(&pair.client, 3 + i, size + 1);
	}
	pair_close_abrupt(&pair);
}
END_TEST

/* Messages are under way and events in the queue when it grows. */
START_TEST(queue_grows_while_connected)
{
	const DAT_COUNT n = 12;
	DAT_EVD_PARAM param;
	DAT_COUNT larger;
	struct pair pair;

	side_open_bare(&pair.server, SERVER);
	side_open_bare(&pair.client, CLIENT);
	merge_evds(&pair.server, 16);
	merge_evds(&pair.client, 16);
	side_equip(&pair.server, NULL, SIDE_MEMORY);
	side_equip(&pair.client, NULL, SIDE_MEMORY);
	pair_connect(&pair);
	for (int round = 0; round < 3; round++) {
		for (DAT_COUNT i = 0; i < n; i++)
			post_recv(pair.server.ep, (uint64_t)i, segment(&pair.server, 0, 100));
		for (DAT_COUNT i = 0; i < n; i++) {
			post_send(pair.client.ep, (uint64_t)i, segment(&pair.client, 0, 100),
				  DAT_COMPLETION_DEFAULT_FLAG);
			if (i != n / 2)
				continue;
			ck_dat(dat_evd_query(pair.server.recv_evd, DAT_EVD_FIELD_EVD_QLEN, &param));
			larger = 2 * param.evd_qlen;
			ck_dat(dat_evd_resize(pair.server.recv_evd, larger));
			ck_dat(dat_evd_resize(pair.client.recv_evd, larger));
			ck_dat(dat_evd_resize(pair.client.connect_evd, larger));
			ck_dat(dat_evd_query(pair.server.recv_evd, DAT_EVD_FIELD_ALL, &param));
			ck_assert_int_ge(param.evd_qlen, larger);
		}
		for (DAT_COUNT i = 0; i < n; i++) {
			expect_recv_done(&pair.server, (uint64_t)i, 100);
			expect_request_done(&pair.client, (uint64_t)i, 100);
		}
	}
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- MVAPICH2 ---- */

START_TEST(taken_qualifier_is_retried_1024_higher)
{
	const DAT_CONN_QUAL first = 1024 + (DAT_CONN_QUAL)getpid();
	DAT_PSP_HANDLE psps[3];
	struct pair pair;
	DAT_CONN_QUAL qual = 0;

	pair_open_unconnected(&pair, NULL);
	for (size_t i = 0; i < COUNT(psps); i++) {
		DAT_RETURN ret;

		for (qual = first;; qual += 1024) {
			ret = dat_psp_create(pair.server.ia, qual, pair.server.cr_evd,
					     DAT_PSP_CONSUMER_FLAG, &psps[i]);
			if (ret == DAT_SUCCESS)
				break;
			ck_dat_is(ret, DAT_ERROR(DAT_CONN_QUAL_IN_USE, DAT_NO_SUBTYPE));
		}
		ck_assert_uint_ge(qual, first + 1024 * i);
	}
	connect_and_accept(&pair, qual);
	expect_established(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

/* An initial value of srq_soft_hw that nothing has set. */
#define GARBAGE ((DAT_COUNT)0x5a5a5a5a)

static DAT_EP_ATTR mvapich_attr(const struct side *side)
{
	return (DAT_EP_ATTR){
		.service_type = DAT_SERVICE_TYPE_RC,
		.max_message_size = 8 * MIB,
		.max_rdma_size = 8 * MIB,
		.qos = DAT_QOS_BEST_EFFORT,
		.recv_completion_flags = DAT_COMPLETION_DEFAULT_FLAG,
		.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG,
		.max_recv_dtos = 128,
		.max_request_dtos = 64,
		.max_recv_iov = at_most(20, side->attr.max_iov_segments_per_dto),
		.max_request_iov = at_most(20, side->attr.max_iov_segments_per_dto),
		.max_rdma_read_in = 4,
		.max_rdma_read_out = 4,
		.srq_soft_hw = GARBAGE,
		.max_rdma_read_iov = at_most(20, side->attr.max_iov_segments_per_rdma_read),
		.max_rdma_write_iov = at_most(20, side->attr.max_iov_segments_per_rdma_write),
	};
}

static void mvapich_open(struct side *side, enum end end)
{
	DAT_EP_ATTR attr;

	side_open_bare(side, end);
	merge_evds(side, SIDE_QLEN);
	attr = mvapich_attr(side);
	side_equip(side, &attr, SIDE_MEMORY);
}

START_TEST(one_dto_evd_takes_unsignalled_requests_and_default_receives)
{
	static const DAT_COMPLETION_FLAGS flags[] = { DAT_COMPLETION_UNSIGNALLED_FLAG,
						      DAT_COMPLETION_DEFAULT_FLAG };
	DAT_DTO_COMPLETION_EVENT_DATA dto;
	struct pair pair;

	mvapich_open(&pair.server, SERVER);
	mvapich_open(&pair.client, CLIENT);
	pair_connect(&pair);
	for (size_t i = 0; i < COUNT(flags); i++) {
		for (unsigned n = 0; n < 64; n++)
			post_recv(pair.server.ep, n, segment(&pair.server, 0, 64));
		for (unsigned n = 0; n < 64; n++)
			post_send(pair.client.ep, n, segment(&pair.client, 0, 64), flags[i]);
		for (unsigned n = 0; n < 64; n++) {
			expect_recv_done(&pair.server, n, 64);
			dto = dequeue_next(pair.client.request_evd)
				      .event_data.dto_completion_event_data;
			ck_assert_uint_eq(dto.user_cookie.as_64, n);
			ck_assert_int_eq(dto.status, DAT_DTO_SUCCESS);
		}
	}
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(only_the_active_established_has_private_data)
{
	const char reply[] = "the acceptor's";
	DAT_CONNECTION_EVENT_DATA active, passive;
	DAT_CONN_QUAL qual;
	struct pair pair;

	mvapich_open(&pair.server, SERVER);
	mvapich_open(&pair.client, CLIENT);
	listen_any(&pair.server, &qual);
	ck_dat(dat_ep_connect(pair.client.ep, (DAT_IA_ADDRESS_PTR)&pair.server.address, qual,
			      TIME_LIMIT, 5, (DAT_PVOID) "rank", DAT_QOS_BEST_EFFORT,
			      DAT_CONNECT_DEFAULT_FLAG));
	ck_dat(dat_cr_accept(expect_cr(&pair.server), pair.server.ep, sizeof(reply),
			     (DAT_PVOID)reply));
	active = expect_connection(&pair.client, DAT_CONNECTION_EVENT_ESTABLISHED)
			 .event_data.connect_event_data;
	passive = expect_connection(&pair.server, DAT_CONNECTION_EVENT_ESTABLISHED)
			  .event_data.connect_event_data;
	ck_assert_int_eq(passive.private_data_size, 0);
	ck_assert_int_ge(active.private_data_size, (DAT_COUNT)sizeof(reply));
	ck_assert_mem_eq(active.private_data, reply, sizeof(reply));
	pair_close_abrupt(&pair);
}
END_TEST

/* The connection thread's EVD is freed at the end of the program, after the service point. */
START_TEST(free_of_the_evd_ends_the_connection_threads_wait)
{
	struct waiter waiter = { 0 };
	DAT_PSP_HANDLE psp;
	DAT_CONN_QUAL qual;
	struct pair pair;

	mvapich_open(&pair.server, SERVER);
	mvapich_open(&pair.client, CLIENT);
	psp = listen_any(&pair.server, &qual);
	connect_and_accept(&pair, qual);
	expect_established(&pair);
	waiter.evd = pair.server.connect_evd;
	waiter_start(&waiter);
	ck_dat(dat_ep_free(pair.server.ep));
	ck_dat(dat_psp_free(psp));
	ck_dat(dat_evd_free(waiter.evd));
	ck_dat_is(waiter_join(&waiter), DAT_ERROR(DAT_ABORT, DAT_NO_SUBTYPE));
	ck_dat_is(dat_evd_free(waiter.evd), DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
	expect_end(&pair.client);
	pair_close_abrupt(&pair);
}
END_TEST

static void *wait_again_and_again(void *evd)
{
	DAT_EVENT event;
	DAT_COUNT nmore;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (;;)
		(void)dat_evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &nmore);
	return NULL;
}

/* The connection thread repeats its wait, which fails then, until it is cancelled. */
START_TEST(thread_is_cancelled_that_repeats_its_wait_on_a_freed_evd)
{
	struct pair pair;

	side_open_bare(&pair.client, CLIENT);
	for (int i = 0; i < CANCELS; i++) {
		DAT_PSP_HANDLE psp;
		DAT_CONN_QUAL qual;
		pthread_t thread;

		side_open_bare(&pair.server, SERVER);
		merge_evds(&pair.server, SIDE_QLEN);
		psp = listen_any(&pair.server, &qual);
		thread = consumer_thread_start(wait_again_and_again, pair.server.connect_evd);
		ck_dat(dat_psp_free(psp));
		ck_dat(dat_evd_free(pair.server.connect_evd));
		ck_assert_int_eq(pthread_cancel(thread), 0);
		ck_assert_ptr_eq(consumer_thread_join(thread), PTHREAD_CANCELED);
		side_close_abrupt(&pair.server);
	}
	side_open_bare(&pair.server, SERVER);
	side_equip(&pair.server, NULL, SIDE_MEMORY);
	side_equip(&pair.client, NULL, SIDE_MEMORY);
	pair_connect(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

/* A service point or an endpoint still uses the EVD: the wait goes on. */
START_TEST(refused_free_of_an_evd_leaves_its_waiter)
{
	struct waiter waiter = { 0 };
	DAT_CONN_QUAL qual;
	struct pair pair;

	mvapich_open(&pair.server, SERVER);
	mvapich_open(&pair.client, CLIENT);
	listen_any(&pair.server, &qual);
	waiter.evd = pair.server.cr_evd;
	waiter_start(&waiter);
	ck_dat_is(dat_evd_free(waiter.evd), BAD_STATE(EVD_IN_USE));
	ck_dat(try_connect(pair.client.ep, &pair.server, qual, TIME_LIMIT));
	ck_dat(waiter_join(&waiter));
	ck_assert_int_eq(waiter.event.event_number, DAT_CONNECTION_REQUEST_EVENT);
	ck_dat(dat_cr_accept(waiter.event.event_data.cr_arrival_event_data.cr_handle,
			     pair.server.ep, 0, NULL));
	expect_established(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

static void cancel_waiter(struct waiter *waiter)
{
	ck_assert_int_eq(pthread_cancel(waiter->thread), 0);
	ck_assert_ptr_eq(consumer_thread_join(waiter->thread), PTHREAD_CANCELED);
}

START_TEST(evd_is_usable_after_its_waiter_was_cancelled)
{
	struct waiter on_cr = { .cancel_async = true }, on_dto = { .cancel_async = true };
	DAT_CONN_QUAL qual;
	struct pair pair;
	DAT_PSP_HANDLE psp;

	mvapich_open(&pair.server, SERVER);
	mvapich_open(&pair.client, CLIENT);
	psp = listen_any(&pair.server, &qual);
	on_cr.evd = pair.server.connect_evd;
	on_dto.evd = pair.server.recv_evd;
	for (int i = 0; i < CANCELS; i++) {
		waiter_start(&on_cr);
		waiter_start(&on_dto);
		cancel_waiter(&on_cr);
		cancel_waiter(&on_dto);
		expect_no_event(on_cr.evd);
		expect_no_event(on_dto.evd);
		connect_and_accept(&pair, qual);
		expect_established(&pair);
		waiter_start(&on_cr);
		waiter_start(&on_dto);
		cancel_waiter(&on_cr);
		cancel_waiter(&on_dto);
		exchange_messages(&pair);
		pair_disconnect(&pair, DAT_CLOSE_GRACEFUL_FLAG);
		pair_reset(&pair);
	}
	/* at the end the program cancels the thread, then frees everything */
	waiter_start(&on_cr);
	cancel_waiter(&on_cr);
	ck_dat(dat_psp_free(psp));
	ck_dat(dat_ep_free(pair.server.ep));
	ck_dat(dat_evd_free(on_cr.evd));
	ck_dat(dat_evd_free(on_dto.evd));
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(cno_is_usable_after_its_waiter_was_cancelled)
{
	struct waiter waiter = { .cancel_async = true }, other = { 0 };
	DAT_EVENT event = { .event_number = DAT_SOFTWARE_EVENT };
	DAT_EVD_HANDLE evd;
	unsigned files = 0;
	struct side side;

	side_open_bare(&side, SERVER);
	ck_dat(dat_cno_create(side.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &waiter.cno));
	ck_dat(dat_evd_create(side.ia, 8, waiter.cno, DAT_EVD_SOFTWARE_FLAG, &evd));
	other.cno = waiter.cno;
	for (int i = 0; i < CANCELS; i++) {
		waiter_start(&other);
		waiter_start(&waiter);
		cancel_waiter(&waiter);
		if (i == 0) /* the library keeps what the first two slept on for the next */
			files = count_entries("/proc/self/fd");
		ck_assert_uint_eq(count_entries("/proc/self/fd"), files);
		ck_dat(dat_evd_post_se(evd, &event));
		ck_dat(waiter_join(&other));
		ck_assert_ptr_eq(other.triggered, evd);
		expect_event(evd, DAT_SOFTWARE_EVENT);
	}
	waiter_start(&waiter);
	cancel_waiter(&waiter);
	ck_dat(dat_evd_free(evd));
	ck_dat(dat_cno_free(waiter.cno));
	side_close(&side);
}
END_TEST

/* ---- MVAPICH2, connections on demand ---- */

/* The lower rank is the client: its request is the one that is accepted. */
struct meeting {
	struct pair pair;
	DAT_CONN_QUAL lower_qual, higher_qual;
	pthread_barrier_t both_requested, accept_refused;
};

static void *lower_rank_main(void *arg)
{
	struct meeting *meeting = arg;
	struct side *lower = &meeting->pair.client;
	DAT_CR_HANDLE cr;

	ck_dat(try_connect(lower->ep, &meeting->pair.server, meeting->higher_qual, TIME_LIMIT));
	cr = expect_cr(lower);
	pthread_barrier_wait(&meeting->both_requested);
	pthread_barrier_wait(&meeting->accept_refused);
	ck_dat(CR_REJECT(cr));
	expect_connection(lower, DAT_CONNECTION_EVENT_ESTABLISHED);
	return NULL;
}

/* The higher rank's connection thread. */
static void *reset_after_reject_main(void *arg)
{
	struct meeting *meeting = arg;

	expect_connection(&meeting->pair.server, DAT_CONNECTION_EVENT_PEER_REJECTED);
	ck_dat(dat_ep_reset(meeting->pair.server.ep));
	return NULL;
}

static void *higher_rank_main(void *arg)
{
	struct meeting *meeting = arg;
	struct side *higher = &meeting->pair.server;
	pthread_t connection_thread;
	DAT_CR_HANDLE cr;
	DAT_RETURN ret;

	ck_dat(try_connect(higher->ep, &meeting->pair.client, meeting->lower_qual, TIME_LIMIT));
	cr = expect_cr(higher);
	pthread_barrier_wait(&meeting->both_requested);
	ck_dat_is(dat_cr_accept(cr, higher->ep, 0, NULL), BAD_STATE(EP_ACTCONNPENDING));
	ck_assert_int_eq(ep_get_state(higher->ep), DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
	connection_thread = consumer_thread_start(reset_after_reject_main, meeting);
	pthread_barrier_wait(&meeting->accept_refused);
	while ((ret = dat_cr_accept(cr, higher->ep, 0, NULL)) != DAT_SUCCESS) {
		ck_assert_uint_eq(DAT_GET_TYPE(ret), DAT_INVALID_STATE);
		sched_yield();
	}
	consumer_thread_join(connection_thread);
	expect_connection(higher, DAT_CONNECTION_EVENT_ESTABLISHED);
	return NULL;
}

static void meet_once(struct meeting *meeting)
{
	pthread_t lower, higher;

	pthread_barrier_init(&meeting->both_requested, NULL, 2);
	pthread_barrier_init(&meeting->accept_refused, NULL, 2);
	lower = consumer_thread_start(lower_rank_main, meeting);
	higher = consumer_thread_start(higher_rank_main, meeting);
	consumer_thread_join(lower);
	consumer_thread_join(higher);
	exchange_messages(&meeting->pair);
	pair_disconnect(&meeting->pair, DAT_CLOSE_GRACEFUL_FLAG);
	pair_reset(&meeting->pair);
	expect_no_event(meeting->pair.client.connect_evd);
	expect_no_event(meeting->pair.server.connect_evd);
}

START_TEST(accept_with_a_connecting_endpoint_changes_nothing)
{
	struct meeting meeting;

	side_open_bare_as(&meeting.pair.server, ia_name(SERVER, BY_INTERFACE), true);
	side_open_bare_as(&meeting.pair.client, ia_name(CLIENT, BY_INTERFACE), true);
	side_equip(&meeting.pair.server, NULL, SIDE_MEMORY);
	side_equip(&meeting.pair.client, NULL, SIDE_MEMORY);
	listen_any(&meeting.pair.client, &meeting.lower_qual);
	listen_any(&meeting.pair.server, &meeting.higher_qual);
	for (int i = 0; i < 20; i++)
		meet_once(&meeting);
	pair_close_abrupt(&meeting.pair);
}
END_TEST

/* ---- pscom ---- */

START_TEST(failed_open_leaves_the_variable_of_the_async_evd)
{
	const char *params[] = { "eth77 0", "192.0.2.1 0", "mlx5_7 1", good_params() };
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
	const char *log, *hint;
	char name[] = "ia0";

	choose_conf(params, COUNT(params));
	stderr_redirect();
	for (; name[2] < '3'; name[2]++) {
		ck_dat_is(DAT_GET_TYPE(dat_ia_open(name, 8, &async, &ia)) != DAT_SUCCESS, true);
		ck_assert_ptr_eq(async, DAT_HANDLE_NULL);
		ck_assert_ptr_eq(ia, DAT_HANDLE_NULL);
	}
	/* programs try line after line: that this host lacks something is one message at most */
	log = stderr_restore();
	hint = strstr(log, "datinfo ia0 tells what\n");
	ck_assert_ptr_nonnull(hint);
	ck_assert_ptr_eq(strchr(log, '\n'), strchr(hint, '\n'));
	ck_assert_str_eq(strchr(hint, '\n'), "\n");
	ck_dat(dat_ia_open(name, 8, &async, &ia));
	ck_assert_ptr_ne(async, DAT_HANDLE_NULL);
	ck_dat(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
}
END_TEST

START_TEST(zone_is_freed_before_the_evds)
{
	const DAT_EP_ATTR attr = ep_attr_for(8, 8);
	DAT_CONN_QUAL qual = 33444;
	DAT_PSP_HANDLE psps[2];
	struct pair pair;
	DAT_RETURN ret;

	side_open_bare(&pair.server, SERVER);
	side_open_bare(&pair.client, CLIENT);
	merge_evds(&pair.server, 16);
	merge_evds(&pair.client, 16);
	side_equip(&pair.server, &attr, SIDE_MEMORY);
	side_equip(&pair.client, &attr, SIDE_MEMORY);
	for (size_t i = 0; i < COUNT(psps); i++, qual++)
		while ((ret = dat_psp_create(pair.server.ia, qual, pair.server.cr_evd,
					     DAT_PSP_CONSUMER_FLAG, &psps[i])) != DAT_SUCCESS) {
			ck_dat_is(ret, DAT_ERROR(DAT_CONN_QUAL_IN_USE, DAT_NO_SUBTYPE));
			qual++;
		}
	connect_and_accept(&pair, qual - 1);
	expect_established(&pair);
	exchange_messages(&pair);
	pair_disconnect(&pair, DAT_CLOSE_ABRUPT_FLAG);
	ck_dat(dat_psp_free(psps[0]));
	ck_dat(dat_psp_free(psps[1]));
	for (int i = 0; i < 2; i++) {
		struct side *side = i ? &pair.client : &pair.server;

		ck_dat(dat_ep_free(side->ep));
		ck_dat(dat_lmr_free(side->lmr));
		side_free_zones(side);
		ck_dat(dat_evd_free(side->recv_evd));
		ck_dat(dat_evd_free(side->connect_evd));
		ck_dat(dat_ia_close(side->ia, DAT_CLOSE_GRACEFUL_FLAG));
	}
}
END_TEST

/* An exchange takes MESSAGE bytes of each side's memory for what comes, and as many to write. */
#define MESSAGE	  ((size_t)256)
#define LAST	  (MESSAGE - 1)
#define EXCHANGES 300

struct exchanges {
	struct pair pair;
	DAT_CONN_QUAL qual;
	unsigned n;
	_Atomic unsigned received; /* answers; the client has all its completions, too */
};

static unsigned char mark(unsigned i)
{
	return (unsigned char)(1 + i % 255);
}

static unsigned exchange_count(void)
{
	const char *wanted = getenv("HABITS_EXCHANGES");

	return wanted ? (unsigned)atoi(wanted) : in_guest() ? EXCHANGES / 5 : EXCHANGES;
}

/*
 * It does not look at its connection events before it has answered. It disconnects when both sides
 * have their completions: siw reports a request as failed if the peer closes the connection between
 * the request's last byte and its completion.
 */
static void answer_from_polling(struct exchanges *exchanges, unsigned i)
{
	struct side *server = &exchanges->pair.server;
	const struct side *client = &exchanges->pair.client;
	DAT_CR_HANDLE cr = expect_cr(server);

	server->ep = side_create_ep(server, NULL);
	memset(server->memory, 0, MESSAGE);
	ck_dat(dat_cr_accept(cr, server->ep, 0, NULL));
	poll_byte(&server->memory[LAST], mark(i));
	bytes_check(server->memory, MESSAGE, mark(i));
	memset(server->memory + MESSAGE, mark(i), MESSAGE);
	post_write(server->ep, 1, segment(server, MESSAGE, MESSAGE), target(client, 0, MESSAGE),
		   DAT_COMPLETION_DEFAULT_FLAG);
	post_send(server->ep, 2, segment(server, MESSAGE, MESSAGE), DAT_COMPLETION_DEFAULT_FLAG);
	expect_connection(server, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_request_done(server, 1, MESSAGE);
	expect_request_done(server, 2, MESSAGE);
	while (exchanges->received <= i)
		sched_yield();
	ck_dat(dat_ep_disconnect(server->ep, DAT_CLOSE_GRACEFUL_FLAG));
	expect_connection(server, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(dat_ep_free(server->ep));
	server->ep = DAT_HANDLE_NULL;
}

static void *polling_server_main(void *arg)
{
	struct exchanges *exchanges = arg;

	for (unsigned i = 0; i < exchanges->n; i++)
		answer_from_polling(exchanges, i);
	return NULL;
}

/* Small writes behind its own keep the data moving where early data may wait. */
static void poll_answer(const struct side *client, const struct side *server, unsigned char byte)
{
	while (device()->early_data_waits &&
	       __atomic_load_n(&client->memory[LAST], __ATOMIC_ACQUIRE) != byte) {
		post_write(client->ep, 5, segment(client, MESSAGE, 1),
			   target(server, MESSAGE * 2, 1), DAT_COMPLETION_DEFAULT_FLAG);
		expect_request_done(client, 5, 1);
	}
	poll_byte(&client->memory[LAST], byte);
}

static void write_at_once(struct exchanges *exchanges, unsigned i)
{
	struct side *client = &exchanges->pair.client;
	const struct side *server = &exchanges->pair.server;

	client->ep = side_create_ep(client, NULL);
	memset(client->memory, 0, MESSAGE);
	memset(client->memory + MESSAGE, mark(i), MESSAGE);
	memset(client->memory + 2 * MESSAGE, 0, MESSAGE);
	post_recv(client->ep, 3, segment(client, 2 * MESSAGE, MESSAGE));
	ck_dat(try_connect(client->ep, server, exchanges->qual, TIME_LIMIT));
	expect_connection(client, DAT_CONNECTION_EVENT_ESTABLISHED);
	post_write(client->ep, 4, segment(client, MESSAGE, MESSAGE), target(server, 0, MESSAGE),
		   DAT_COMPLETION_DEFAULT_FLAG);
	expect_request_done(client, 4, MESSAGE);
	poll_answer(client, server, mark(i));
	bytes_check(client->memory, MESSAGE, mark(i));
	expect_recv_done(client, 3, MESSAGE);
	bytes_check(client->memory + 2 * MESSAGE, MESSAGE, mark(i));
	exchanges->received = i + 1;
	expect_connection(client, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(dat_ep_free(client->ep));
	client->ep = DAT_HANDLE_NULL;
}

/*
 * The server sees the client's write in its memory, perhaps before its own ESTABLISHED event, and
 * answers with a write and a message. HABITS_EXCHANGES in the environment says how often.
 */
START_TEST(server_answers_a_write_before_its_established_event)
{
	struct exchanges exchanges = { .n = exchange_count() };
	struct pair *pair = &exchanges.pair;
	pthread_t server;

	pair_open_unconnected(pair, NULL);
	ck_dat(dat_ep_free(pair->server.ep));
	ck_dat(dat_ep_free(pair->client.ep));
	listen_any(&pair->server, &exchanges.qual);
	server = consumer_thread_start(polling_server_main, &exchanges);
	for (unsigned i = 0; i < exchanges.n; i++)
		write_at_once(&exchanges, i);
	consumer_thread_join(server);
	pair_close_abrupt(pair);
}
END_TEST

/* Requests posted after the accept are flushed if the connection never comes up. */
START_TEST(early_requests_are_flushed_when_the_client_has_gone)
{
	DAT_DTO_COMPLETION_EVENT_DATA dto;
	DAT_CONN_QUAL qual;
	struct pair pair;
	DAT_CR_HANDLE cr;
	DAT_EVENT event;

	pair_open_unconnected(&pair, NULL);
	listen_any(&pair.server, &qual);
	ck_dat(try_connect(pair.client.ep, &pair.server, qual, TIME_LIMIT));
	cr = expect_cr(&pair.server);
	ck_dat(dat_ep_disconnect(pair.client.ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(dat_cr_accept(cr, pair.server.ep, 0, NULL));
	for (unsigned i = 0; i < 4; i++)
		post_send(pair.server.ep, i, segment(&pair.server, 0, 8),
			  DAT_COMPLETION_DEFAULT_FLAG);
	event = dequeue_next(pair.server.connect_evd);
	if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
		expect_end(&pair.server);
	else
		ck_assert_int_eq(event.event_number, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
	for (unsigned i = 0; i < 4; i++) {
		dto = expect_event(pair.server.request_evd, DAT_DTO_COMPLETION_EVENT)
			      .event_data.dto_completion_event_data;
		ck_assert_uint_eq(dto.user_cookie.as_64, i);
		if (device_has(NEEDS_PLACEMENT))
			ck_assert_int_ne(dto.status, DAT_DTO_SUCCESS);
	}
	expect_no_event(pair.server.request_evd);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- Photon ---- */

struct disconnector {
	DAT_EP_HANDLE ep;
	pthread_barrier_t *start;
};

static void *disconnector_main(void *arg)
{
	struct disconnector *disconnector = arg;

	pthread_barrier_wait(disconnector->start);
	ck_dat(dat_ep_disconnect(disconnector->ep, DAT_CLOSE_ABRUPT_FLAG));
	return NULL;
}

START_TEST(each_endpoint_gets_one_disconnected_event)
{
	pthread_barrier_t start;
	struct pair pair;

	pair_open(&pair, NULL);
	pthread_barrier_init(&start, NULL, 2);
	for (int i = 0; i < 30; i++) {
		struct disconnector server = { pair.server.ep, &start };
		struct disconnector client = { pair.client.ep, &start };
		pthread_t thread = consumer_thread_start(disconnector_main, &server);

		disconnector_main(&client);
		consumer_thread_join(thread);
		expect_disconnected(&pair);
		ck_dat(dat_ep_free(pair.client.ep));
		ck_dat(dat_ep_free(pair.server.ep));
		expect_no_event(pair.client.connect_evd);
		expect_no_event(pair.server.connect_evd);
		pair.client.ep = side_create_ep(&pair.client, NULL);
		pair.server.ep = side_create_ep(&pair.server, NULL);
		pair_connect(&pair);
	}
	pair_close_abrupt(&pair);
}
END_TEST

/*
 * Photon takes what follows the last dash of the name for the interface, and looks up its address.
 */
START_TEST(interface_follows_the_last_dash_of_the_name)
{
	const char *interface = getenv("DAT_TEST_IF0");
	char name[64], params[32], found[INET_ADDRSTRLEN];
	DAT_PROVIDER_INFO info, *list = &info;
	struct side side;
	DAT_COUNT count;

	snprintf(name, sizeof(name), "ofa-v2-%s", interface);
	snprintf(params, sizeof(params), "%s 0", interface);
	choose_name(name, params);
	ck_dat(dat_registry_list_providers(1, &count, &list));
	ck_assert_str_eq(strrchr(info.ia_name, '-') + 1, interface);
	side_open_ia(&side, info.ia_name, false);
	ck_assert_ptr_nonnull(inet_ntop(AF_INET, &side.address.sin_addr, found, sizeof(found)));
	ck_assert_str_eq(found, getenv("DAT_TEST_ADDR0"));
	ck_dat(dat_ia_close(side.ia, DAT_CLOSE_GRACEFUL_FLAG));
}
END_TEST

START_TEST(qualifier_may_exceed_32_bits)
{
	const DAT_CONN_QUAL qual = UINT64_C(0x123456789abda6f); /* port 61106 */
	DAT_CR_ARRIVAL_EVENT_DATA arrival;
	DAT_PSP_HANDLE psp;
	DAT_PSP_PARAM param;
	struct pair pair;

	pair_open_unconnected(&pair, NULL);
	ck_dat(dat_psp_create(pair.server.ia, qual, pair.server.cr_evd, DAT_PSP_CONSUMER_FLAG,
			      &psp));
	ck_dat(dat_psp_query(psp, DAT_PSP_FIELD_ALL, &param));
	ck_assert_uint_eq(param.conn_qual, qual);
	ck_dat(try_connect(pair.client.ep, &pair.server, qual, TIME_LIMIT));
	arrival = expect_event(pair.server.cr_evd, DAT_CONNECTION_REQUEST_EVENT)
			  .event_data.cr_arrival_event_data;
	ck_assert_uint_eq(arrival.conn_qual, qual);
	ck_dat(dat_cr_accept(arrival.cr_handle, pair.server.ep, 0, NULL));
	expect_established(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- NetPIPE ---- */

#define LARGEST (8 * MIB)

/* Transfers complete to an EVD with a CNO. */
static void netpipe_open(struct side *side, enum end end, DAT_COUNT dtos, DAT_CNO_HANDLE *cno)
{
	DAT_EP_ATTR attr;
	DAT_EP_PARAM param;
	DAT_COUNT qlen;

	side_open_bare(side, end);
	dtos = at_most(dtos, side->attr.max_dto_per_ep);
	qlen = at_most(dtos, side->attr.max_evd_qlen);
	attr = ep_attr_for(dtos, dtos);
	attr.request_completion_flags = DAT_COMPLETION_SUPPRESS_FLAG;
	attr.max_message_size = LARGEST;
	attr.max_rdma_size = LARGEST;
	ck_dat(dat_evd_free(side->recv_evd));
	ck_dat(dat_cno_create(side->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno));
	ck_dat(dat_evd_create(side->ia, qlen, *cno, DAT_EVD_DTO_FLAG, &side->recv_evd));
	ck_dat(dat_evd_free(side->request_evd));
	side->request_evd = side_create_evd(side, qlen, DAT_EVD_DTO_FLAG);
	side_equip(side, &attr, LARGEST);
	ck_dat(dat_ep_query(side->ep, DAT_EP_FIELD_ALL, &param));
	ck_assert_int_ge(param.ep_attr.max_recv_dtos, dtos);
	ck_assert_int_ge(param.ep_attr.max_request_dtos, dtos);
}

/* It may connect before its peer listens. */
static void connect_until_accepted(struct pair *pair)
{
	const DAT_CONN_QUAL qual = free_qual(&pair->server);
	DAT_PSP_HANDLE psp;

	ck_dat(try_connect(pair->client.ep, &pair->server, qual, TIME_LIMIT));
	expect_connection(&pair->client, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	ck_dat(dat_ep_reset(pair->client.ep));
	ck_dat(dat_psp_create(pair->server.ia, qual, pair->server.cr_evd, DAT_PSP_CONSUMER_FLAG,
			      &psp));
	connect_and_accept(pair, qual);
	expect_established(pair);
	ck_dat(dat_psp_free(psp));
}

START_TEST(suppressed_writes_to_8_mib_are_polled)
{
	static const size_t sizes[] = { 1, 64, 4096 + 1, 65536, MIB + 3, LARGEST };
	DAT_CNO_HANDLE client_cno, server_cno;
	struct pair pair;

	netpipe_open(&pair.server, SERVER, 64, &server_cno);
	netpipe_open(&pair.client, CLIENT, 64, &client_cno);
	connect_until_accepted(&pair);
	for (size_t i = 0; i < COUNT(sizes); i++) {
		const size_t size = sizes[i], last = size - 1;

		pattern_fill(pair.client.memory, size, (unsigned)i);
		pair.client.memory[last] = 0x5a;
		pair.server.memory[last] = 0;
		post_write(pair.client.ep, i, segment(&pair.client, 0, size),
			   target(&pair.server, 0, size), DAT_COMPLETION_SUPPRESS_FLAG);
		poll_byte(&pair.server.memory[last], 0x5a);
		pattern_check(pair.server.memory, last, (unsigned)i);
		memset(pair.client.memory, 0, size);
		post_write(pair.server.ep, i, segment(&pair.server, 0, size),
			   target(&pair.client, 0, size), DAT_COMPLETION_SUPPRESS_FLAG);
		poll_byte(&pair.client.memory[last], 0x5a);
		pattern_check(pair.client.memory, last, (unsigned)i);
	}
	expect_no_event(pair.client.request_evd);
	expect_no_event(pair.server.request_evd);
	pair_close_abrupt(&pair);
}
END_TEST

static void post_suppressed_send(const struct side *side, size_t offset)
{
	DAT_LMR_TRIPLET from = segment(side, offset, 8);
	DAT_RETURN ret;

	while ((ret = dat_ep_post_send(side->ep, 1, &from, cookie_of(0),
				       DAT_COMPLETION_SUPPRESS_FLAG)) == NO_RESOURCE(MEMORY))
		sched_yield();
	ck_dat(ret);
}

/* The messages of @taken completions so far; waits on the CNO until there is one more at least. */
static DAT_COUNT take_completions(const struct side *side, DAT_CNO_HANDLE cno, DAT_COUNT taken)
{
	DAT_EVD_HANDLE evd;
	DAT_EVENT event;

	ck_dat(dat_cno_wait(cno, TIME_LIMIT, &evd));
	ck_assert_ptr_eq(evd, side->recv_evd);
	while (dat_evd_dequeue(evd, &event) == DAT_SUCCESS) {
		const DAT_DTO_COMPLETION_EVENT_DATA *dto =
			&event.event_data.dto_completion_event_data;

		ck_assert_int_eq(dto->status, DAT_DTO_SUCCESS);
		ck_assert_uint_eq(dto->user_cookie.as_64, (uint64_t)taken);
		taken++;
	}
	return taken;
}

/* 20,000 receives are posted at once, or as many as the device has. A guest uses a few of them. */
START_TEST(suppressed_sends_fill_a_deep_endpoint)
{
	DAT_CNO_HANDLE client_cno, server_cno;
	DAT_COUNT taken = 0, n, sent;
	struct pair pair;

	netpipe_open(&pair.server, SERVER, 20000, &server_cno);
	netpipe_open(&pair.client, CLIENT, 20000, &client_cno);
	n = at_most(20000, at_most(pair.server.attr.max_dto_per_ep, pair.server.attr.max_evd_qlen));
	sent = in_guest() ? n / 8 : n;
	printf("# %d messages\n", sent);
	if (!device_has(NEEDS_RDMA_DEVICE)) /* which has limits */
		ck_assert_int_eq(n, 20000);
	for (DAT_COUNT i = 0; i < n; i++)
		post_recv(pair.server.ep, (uint64_t)i, segment(&pair.server, 8 * (size_t)i, 8));
	connect_until_accepted(&pair);
	pattern_fill(pair.client.memory, 8 * (size_t)sent, 1);
	for (DAT_COUNT i = 0; i < sent; i++)
		post_suppressed_send(&pair.client, 8 * (size_t)i);
	while (taken < sent)
		taken = take_completions(&pair.server, server_cno, taken);
	pattern_check(pair.server.memory, 8 * (size_t)sent, 1);
	expect_no_event(pair.client.request_evd);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- Intel MPI ---- */

#define REGIONS 4000

/* Its cache of registrations has regions that overlap, and gives them up in any order. */
START_TEST(thousands_of_overlapping_regions_are_used)
{
	static struct region regions[REGIONS];
	const size_t size = 4096, stride = 512;
	unsigned char *memory;
	struct pair pair;
	unsigned n;

	pair_open(&pair, NULL);
	n = (unsigned)at_most(REGIONS, pair.server.attr.max_lmrs / 2);
	printf("# %u regions\n", n);
	memory = mmap(NULL, REGIONS * stride + size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(memory, MAP_FAILED);
	for (unsigned i = 0; i < n; i++)
		regions[i] = region_over(&pair.server, memory + i * stride, size,
					 DAT_MEM_PRIV_ALL_FLAG);
	for (unsigned i = 0; i < n; i += 100)
		expect_write(&pair, region_target(&regions[i], 0, 64));
	for (unsigned i = 0; i < n; i++) {
		const unsigned any = i * 1237 % n;

		ck_dat(dat_lmr_free(regions[any].lmr));
		if (i % 100 == 0) /* its neighbours, of which some live, are other regions */
			expect_write(&pair, region_target(&regions[(i + 1) * 1237 % n], 0, 64));
	}
	exchange_messages(&pair);
	munmap(memory, REGIONS * stride + size);
	pair_close_abrupt(&pair);
}
END_TEST

#define ENDPOINTS 1000

/* Requests and connection events come in any order, because they have one EVD. */
static void accept_all(struct side *server, DAT_EP_HANDLE eps[], unsigned n)
{
	unsigned requests = 0, established = 0;

	while (established < n) {
		DAT_EVENT event;
		DAT_COUNT nmore;

		ck_dat(dat_evd_wait(server->connect_evd, TIME_LIMIT, 1, &event, &nmore));
		if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED) {
			established++;
			continue;
		}
		ck_assert_int_eq(event.event_number, DAT_CONNECTION_REQUEST_EVENT);
		ck_assert_uint_lt(requests, n);
		eps[requests] = side_create_ep(server, NULL);
		post_recv(eps[requests], requests, segment(server, 8 * (size_t)requests, 8));
		ck_dat(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle,
				     eps[requests], 0, NULL));
		requests++;
	}
}

/* Each gets one DISCONNECTED, and nothing else. */
static void disconnect_all(const struct pair *pair, const DAT_EP_HANDLE clients[],
			   const DAT_EP_HANDLE servers[], unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		ck_dat(dat_ep_disconnect(clients[i], DAT_CLOSE_GRACEFUL_FLAG));
	for (unsigned i = 0; i < n; i++) {
		expect_event(pair->client.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
		expect_event(pair->server.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	}
	for (unsigned i = 0; i < n; i++) {
		ck_assert_int_eq(ep_get_state(clients[i]), DAT_EP_STATE_DISCONNECTED);
		ck_dat(dat_ep_free(clients[i]));
		ck_dat(dat_ep_free(servers[i]));
	}
	expect_no_event(pair->client.connect_evd);
	expect_no_event(pair->server.connect_evd);
}

/* Of each side: one for connections, one for transfers. */
START_TEST(a_thousand_endpoints_share_two_evds)
{
	static DAT_EP_HANDLE clients[ENDPOINTS], servers[ENDPOINTS];
	const unsigned n = device_has(NEEDS_RDMA_DEVICE) ? device()->max_eps / 2 : ENDPOINTS;
	DAT_CONN_QUAL qual;
	struct pair pair;

	descriptors_allow_all();
	side_open_bare(&pair.server, SERVER);
	side_open_bare(&pair.client, CLIENT);
	merge_evds(&pair.server, (DAT_COUNT)(4 * n));
	merge_evds(&pair.client, (DAT_COUNT)(4 * n));
	side_equip(&pair.server, NULL, SIDE_MEMORY);
	side_equip(&pair.client, NULL, SIDE_MEMORY);
	listen_any(&pair.server, &qual);
	for (unsigned i = 0; i < n; i++) {
		clients[i] = side_create_ep(&pair.client, NULL);
		ck_dat(try_connect(clients[i], &pair.server, qual, TIME_LIMIT));
	}
	accept_all(&pair.server, servers, n);
	for (unsigned i = 0; i < n; i++)
		expect_event(pair.client.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	pattern_fill(pair.client.memory, 8, 1);
	for (unsigned i = 0; i < n; i++)
		post_send(clients[i], i, segment(&pair.client, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	for (unsigned i = 0; i < n; i++) {
		expect_event(pair.client.request_evd, DAT_DTO_COMPLETION_EVENT);
		expect_event(pair.server.recv_evd, DAT_DTO_COMPLETION_EVENT);
	}
	for (unsigned i = 0; i < n; i++)
		pattern_check(pair.server.memory + 8 * (size_t)i, 8, 1);
	disconnect_all(&pair, clients, servers, n);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- dtest and dapltest of OFED ---- */

/* What programs have in the segment_length of a remote buffer. */
static const DAT_VLEN remote_lengths[] = { 64, 0, 1, UINT64_MAX, UINT64_C(0xdeadbeefdeadbeef) };

START_TEST(local_segments_decide_how_much_is_moved)
{
	DAT_EP_ATTR attr = ep_attr_for(8, 8);
	DAT_RMR_TRIPLET remote;
	struct pair pair;

	attr.max_message_size = 65536;
	attr.max_rdma_size = 65536;
	pair_open_sized(&pair, &attr, 2 * MIB);
	for (unsigned i = 0; i < COUNT(remote_lengths); i++) {
		memset(pair.server.memory, UNTOUCHED, 2 * MIB);
		pattern_fill(pair.client.memory, MIB, i);
		remote = target(&pair.server, 0, 0);
		remote.segment_length = remote_lengths[i];
		post_write(pair.client.ep, 1, segment(&pair.client, 0, MIB), remote,
			   DAT_COMPLETION_DEFAULT_FLAG);
		post_read(pair.client.ep, 2, segment(&pair.client, MIB, MIB), remote,
			  DAT_COMPLETION_DEFAULT_FLAG);
		expect_request_done(&pair.client, 1, MIB);
		expect_request_done(&pair.client, 2, MIB);
		pattern_check(pair.server.memory, MIB, i);
		bytes_check(pair.server.memory + MIB, MIB, UNTOUCHED);
		pattern_check(pair.client.memory + MIB, MIB, i);
	}
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(message_may_exceed_what_the_endpoint_asked_for)
{
	DAT_EP_ATTR attr = ep_attr_for(8, 8);
	struct pair pair;

	attr.max_message_size = 64;
	pair_open_sized(&pair, &attr, MIB);
	pattern_fill(pair.client.memory, MIB, 1);
	post_recv(pair.server.ep, 1, segment(&pair.server, 0, MIB));
	post_send(pair.client.ep, 2, segment(&pair.client, 0, MIB), DAT_COMPLETION_DEFAULT_FLAG);
	expect_recv_done(&pair.server, 1, MIB);
	expect_request_done(&pair.client, 2, MIB);
	pattern_check(pair.server.memory, MIB, 1);
	pair_close_abrupt(&pair);
}
END_TEST

/* The connection events of the pair's server go to the EVD of another IA, @first. */
static void pair_connect_to_evd_of(struct pair *pair, struct side *first)
{
	side_open_bare(first, SERVER);
	pair_open_unconnected(pair, NULL);
	ck_dat(dat_ep_free(pair->server.ep));
	ck_dat(dat_evd_free(pair->server.connect_evd));
	pair->server.connect_evd = first->connect_evd;
	pair->server.ep = side_create_ep(&pair->server, NULL);
	pair_connect(pair);
}

/* dapltest -T L -w */
START_TEST(connection_events_go_to_an_evd_of_another_ia)
{
	struct side first;
	struct pair pair;

	pair_connect_to_evd_of(&pair, &first);
	exchange_messages(&pair);
	ck_dat_is(dat_evd_free(first.connect_evd), BAD_STATE(EVD_IN_USE));
	pair_disconnect(&pair, DAT_CLOSE_GRACEFUL_FLAG);
	pair_reconnect(&pair);
	exchange_messages(&pair);
	ck_dat(dat_ep_free(pair.server.ep));
	expect_end(&pair.client);
	side_close(&first);
	pair_close_abrupt(&pair);
}
END_TEST

/* The events of the endpoint are lost, and nothing else. */
START_TEST(ia_of_a_foreign_connection_evd_is_closed_first)
{
	struct side first;
	struct pair pair;

	pair_connect_to_evd_of(&pair, &first);
	side_close_abrupt(&first);
	exchange_messages(&pair);
	ck_dat(dat_ep_disconnect(pair.client.ep, DAT_CLOSE_GRACEFUL_FLAG));
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_DISCONNECTED);
	while (ep_get_state(pair.server.ep) != DAT_EP_STATE_DISCONNECTED)
		sched_yield();
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- RDMA reads of several segments, which an iWARP device does not have ---- */

#define SEGMENTS 4

static DAT_EP_ATTR reader_attr(DAT_COUNT requests)
{
	DAT_EP_ATTR attr = ep_attr_for(8, requests);

	attr.max_rdma_read_iov = SEGMENTS;
	return attr;
}

/* Two pages apart, of different sizes; the first and the last begin within a page. */
static const size_t segment_sizes[SEGMENTS] = { 1, 4097, 100, 777 };

static size_t segment_offset(unsigned i)
{
	return 8192 * (size_t)i + 11;
}

/* Returns the bytes of all. */
static size_t scatter_list(const struct side *side, unsigned n, DAT_LMR_TRIPLET list[SEGMENTS])
{
	size_t size = 0;

	for (unsigned i = 0; i < n; i++) {
		list[i] = segment(side, segment_offset(i), segment_sizes[i]);
		size += segment_sizes[i];
	}
	return size;
}

/* The bytes of @from, one behind the other, are in the segments and nowhere else. */
static void check_scattered(const struct side *side, unsigned n, const unsigned char *from)
{
	size_t at = 0;

	for (unsigned i = 0; i < n; i++) {
		const size_t offset = segment_offset(i), size = segment_sizes[i];

		bytes_check(side->memory + at, offset - at, UNTOUCHED);
		ck_assert_mem_eq(side->memory + offset, from, size);
		from += size;
		at = offset + size;
	}
	bytes_check(side->memory + at, 8192 * (size_t)SEGMENTS - at, UNTOUCHED);
}

START_TEST(read_fills_each_of_its_segments)
{
	static const DAT_COMPLETION_FLAGS flags[] = {
		DAT_COMPLETION_DEFAULT_FLAG,
		DAT_COMPLETION_SUPPRESS_FLAG,
		DAT_COMPLETION_BARRIER_FENCE_FLAG,
		DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_BARRIER_FENCE_FLAG,
	};
	const DAT_EP_ATTR attr = reader_attr(16);
	DAT_LMR_TRIPLET list[SEGMENTS];
	DAT_RMR_TRIPLET remote;
	DAT_EP_PARAM param;
	struct pair pair;
	size_t size, end;

	pair_open_sized(&pair, &attr, SIDE_MEMORY);
	end = SIDE_MEMORY - 64;
	ck_assert_int_ge(pair.client.attr.max_iov_segments_per_rdma_read, SEGMENTS);
	ck_dat(dat_ep_query(pair.client.ep, DAT_EP_FIELD_ALL, &param));
	ck_assert_int_ge(param.ep_attr.max_rdma_read_iov, SEGMENTS);
	for (unsigned i = 0; i < COUNT(flags) * SEGMENTS; i++) {
		const unsigned n = 1 + i % SEGMENTS;
		const DAT_COMPLETION_FLAGS flag = flags[i / SEGMENTS];

		printf("# %u segments, flags %d\n", n, (int)flag);
		fflush(stdout);
		memset(pair.client.memory, UNTOUCHED, end);
		pattern_fill(pair.server.memory, end, i);
		size = scatter_list(&pair.client, n, list);
		remote = target(&pair.server, 33, 0);
		post_write(pair.client.ep, 1, segment(&pair.client, end, 8),
			   target(&pair.server, 33, 8), DAT_COMPLETION_DEFAULT_FLAG);
		ck_dat(dat_ep_post_rdma_read(pair.client.ep, (DAT_COUNT)n, list, cookie_of(2),
					     &remote, flag));
		/* fenced, it sends what the read has fetched */
		post_recv(pair.server.ep, 4, segment(&pair.server, end, 8));
		post_send(pair.client.ep, 3, segment(&pair.client, segment_offset(0), 1),
			  DAT_COMPLETION_BARRIER_FENCE_FLAG);
		expect_request_done(&pair.client, 1, 8);
		if (!(flag & DAT_COMPLETION_SUPPRESS_FLAG))
			expect_request_done(&pair.client, 2, size);
		expect_request_done(&pair.client, 3, 1);
		check_scattered(&pair.client, n, pair.server.memory + 33);
		expect_recv_done(&pair.server, 4, 1);
		ck_assert_uint_eq(pair.server.memory[end], pair.server.memory[33]);
		expect_no_event(pair.client.request_evd);
	}
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(outstanding_reads_of_segments_complete_in_order)
{
	const DAT_COUNT depth = 64;
	const DAT_EP_ATTR attr = reader_attr(depth);
	DAT_LMR_TRIPLET list[SEGMENTS];
	DAT_RMR_TRIPLET remote;
	DAT_RETURN ret;
	struct pair pair;
	DAT_COUNT next = 0;
	size_t size;

	pair_open_sized(&pair, &attr, SIDE_MEMORY);
	size = scatter_list(&pair.client, SEGMENTS, list);
	remote = target(&pair.server, 0, 0);
	for (DAT_COUNT i = 0; i < 10 * depth; i++) {
		const bool suppressed = i % 3 == 1 && i != 10 * depth - 1;

		while ((ret = dat_ep_post_rdma_read(
				pair.client.ep, SEGMENTS, list, cookie_of((uint64_t)i), &remote,
				suppressed ? DAT_COMPLETION_SUPPRESS_FLAG
					   : DAT_COMPLETION_DEFAULT_FLAG)) == NO_RESOURCE(MEMORY)) {
			expect_request_done(&pair.client, (uint64_t)next, size);
			next += next % 3 == 0 ? 2 : 1;
		}
		ck_dat(ret);
	}
	while (next < 10 * depth) {
		expect_request_done(&pair.client, (uint64_t)next, size);
		next += next % 3 == 0 ? 2 : 1;
	}
	expect_no_event(pair.client.request_evd);
	expect_no_event(pair.client.async_evd);
	ck_assert_mem_eq(pair.client.memory + segment_offset(0), pair.server.memory, 1);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- such reads that fail ---- */

/* Memory that the k-th segment of a read may not be written to. */
static DAT_LMR_TRIPLET bad_sink(const struct side *side, bool freed)
{
	const struct region region = region_map(
		side, 4096, freed ? DAT_MEM_PRIV_ALL_FLAG : DAT_MEM_PRIV_READ_FLAG);

	if (freed)
		ck_dat(dat_lmr_free(region.lmr));
	return region_segment(&region, 0, 300);
}

static void fail_at_segment(unsigned n, unsigned bad, bool freed, DAT_COMPLETION_FLAGS flags)
{
	const DAT_EP_ATTR attr = reader_attr(8);
	DAT_LMR_TRIPLET list[SEGMENTS];
	DAT_RMR_TRIPLET remote;
	struct pair pair;

	printf("# segment %u of %u, %s, flags %d\n", bad, n, freed ? "freed" : "no local write",
	       (int)flags);
	fflush(stdout);
	pair_open_sized(&pair, &attr, SIDE_MEMORY);
	memset(pair.server.memory, 1, SIDE_MEMORY);
	scatter_list(&pair.client, n, list);
	list[bad] = bad_sink(&pair.client, freed);
	remote = target(&pair.server, 0, 0);
	post_recv(pair.client.ep, 9, segment(&pair.client, 0, 8));
	post_read(pair.client.ep, 1, segment(&pair.client, 0, 8), remote,
		  DAT_COMPLETION_DEFAULT_FLAG);
	ck_dat(dat_ep_post_rdma_read(pair.client.ep, (DAT_COUNT)n, list, cookie_of(2), &remote,
				     flags));
	ck_dat(dat_ep_post_rdma_read(pair.client.ep, (DAT_COUNT)n, list, cookie_of(3), &remote,
				     DAT_COMPLETION_SUPPRESS_FLAG));
	post_read(pair.client.ep, 4, segment(&pair.client, 0, 8), remote,
		  DAT_COMPLETION_DEFAULT_FLAG);
	expect_request_done(&pair.client, 1, 8);
	expect_dto(pair.client.request_evd, pair.client.ep, 2, device()->bad_read_sink, 0);
	expect_dto(pair.client.request_evd, pair.client.ep, 3, DAT_DTO_ERR_FLUSHED, 0);
	expect_dto(pair.client.request_evd, pair.client.ep, 4, DAT_DTO_ERR_FLUSHED, 0);
	expect_ends(&pair);
	expect_dto(pair.client.recv_evd, pair.client.ep, 9, DAT_DTO_ERR_FLUSHED, 0);
	pair_reconnect(&pair);
	expect_no_event(pair.client.request_evd);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}

START_TEST(read_into_a_bad_segment_completes_once)
{
	for (unsigned n = 2; n <= SEGMENTS; n++)
		for (unsigned bad = 0; bad < n; bad++) {
			fail_at_segment(n, bad, false, DAT_COMPLETION_DEFAULT_FLAG);
			fail_at_segment(n, bad, true, DAT_COMPLETION_DEFAULT_FLAG);
			fail_at_segment(n, bad, true, DAT_COMPLETION_SUPPRESS_FLAG);
		}
}
END_TEST

/* A device may also report that the queue pair failed. */
static void expect_no_overflow(const struct side *side)
{
	DAT_EVENT event;

	while (dat_evd_dequeue(side->async_evd, &event) == DAT_SUCCESS)
		ck_assert_int_eq(event.event_number, DAT_ASYNC_ERROR_EP_BROKEN);
}

/* The EVD is no longer than the endpoint's requests. */
START_TEST(failed_reads_do_not_overrun_the_queue)
{
	const DAT_COUNT depth = 64;
	const DAT_EP_ATTR attr = reader_attr(depth);
	DAT_LMR_TRIPLET list[SEGMENTS];
	DAT_RMR_TRIPLET remote;
	struct pair pair;
	DAT_COUNT n;

	side_open_bare(&pair.server, SERVER);
	side_open_bare(&pair.client, CLIENT);
	ck_dat(dat_evd_free(pair.client.request_evd));
	pair.client.request_evd = side_create_evd(&pair.client, depth, DAT_EVD_DTO_FLAG);
	side_equip(&pair.server, &attr, SIDE_MEMORY);
	side_equip(&pair.client, &attr, SIDE_MEMORY);
	for (int i = 0; i < 8; i++) {
		pair_connect(&pair);
		scatter_list(&pair.client, SEGMENTS, list);
		list[i % SEGMENTS] = bad_sink(&pair.client, i % 2);
		remote = target(&pair.server, 0, 0);
		for (n = 0; n < depth; n++)
			ck_dat(dat_ep_post_rdma_read(pair.client.ep, SEGMENTS, list,
						     cookie_of((uint64_t)n), &remote,
						     DAT_COMPLETION_DEFAULT_FLAG));
		expect_ends(&pair);
		for (n = 0; n < depth; n++)
			expect_dto(pair.client.request_evd, pair.client.ep, (uint64_t)n,
				   n ? DAT_DTO_ERR_FLUSHED : device()->bad_read_sink, 0);
		pair_reset(&pair);
		expect_no_event(pair.client.request_evd);
		expect_no_overflow(&pair.client);
	}
	pair_connect(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- names in dat.conf that this host lacks ---- */

static const struct {
	const char *params;
	DAT_RETURN want;
	unsigned needs; /* of the device */
} unusable[] = {
	{ "eth77 0", DAT_ERROR(DAT_INVALID_ADDRESS, DAT_NO_SUBTYPE), 0 },
	{ "mlx5_7 1", DAT_ERROR(DAT_INVALID_ADDRESS, DAT_NO_SUBTYPE), 0 },
	{ "192.0.2.1 0", DAT_ERROR(DAT_INVALID_ADDRESS, DAT_NO_SUBTYPE), 0 },
	{ "2001:db8::1 0", DAT_ERROR(DAT_INVALID_ADDRESS, DAT_NO_SUBTYPE), 0 },
	{ "no-such-host.invalid 0", DAT_ERROR(DAT_INVALID_ADDRESS, DAT_NO_SUBTYPE), 0 },
	{ "lo 0", NO_RESOURCE(DEVICE), NEEDS_RDMA_DEVICE },
};

START_TEST(open_of_what_the_host_lacks_is_an_invalid_address)
{
	const char *params[COUNT(unusable)];
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
	char name[] = "ia0";

	for (size_t i = 0; i < COUNT(unusable); i++)
		params[i] = unusable[i].params;
	choose_conf(params, COUNT(params));
	for (size_t i = 0; i < COUNT(unusable); i++, name[2]++) {
		if (!device_has(unusable[i].needs))
			continue;
		printf("# %s\n", unusable[i].params);
		fflush(stdout);
		ck_dat_is(dat_ia_open(name, 8, &async, &ia), unusable[i].want);
	}
	ck_assert_ptr_eq(async, DAT_HANDLE_NULL);
	ck_assert_ptr_eq(ia, DAT_HANDLE_NULL);
}
END_TEST

/* HP-MPI: test/func/dlopen.c does the same with a libdat that it loads. */
START_TEST(failed_opens_leave_no_files_and_threads)
{
	const char *params[10] = { "ib0 0",   "ib1 0", "ib2 0",	      good_params(), "mlx5_0 1",
				   "eth77 0", "lo 0",  good_params(), "192.0.2.1 0", "ehca0 1" };
	unsigned opened = 0, files = 0, threads = 0;
	char name[] = "ia0";

	choose_conf(params, COUNT(params));
	for (int round = 0; round < 3; round++)
		for (name[2] = '0'; name[2] <= '9'; name[2]++) {
			DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
			DAT_IA_HANDLE ia;

			if (dat_ia_open(name, 8, &async, &ia) == DAT_SUCCESS) {
				ck_dat(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
				opened++;
			}
			if (round == 1 && name[2] == '0') {
				files = count_entries("/proc/self/fd");
				threads = count_entries("/proc/self/task");
			}
		}
	ck_assert_uint_eq(opened, device_has(NEEDS_RDMA_DEVICE) ? 6 : 9); /* lo is a device, too */
	ck_assert_uint_eq(count_entries("/proc/self/fd"), files);
	ck_assert(threads_end(threads));
}
END_TEST

int main(int argc, char **argv)
{
	const struct device_case cases[] = {
		{ providers_are_listed_into_the_callers_structs, NEEDS_NOTHING },
		{ attributes_of_a_dummy_endpoint_are_valid_attributes, NEEDS_NOTHING },
		{ addresses_are_compared_by_bytes, NEEDS_NOTHING },
		{ active_side_sends_at_once_and_the_last_byte_is_polled, NEEDS_NOTHING },
		{ queue_grows_while_connected, NEEDS_NOTHING },
		{ taken_qualifier_is_retried_1024_higher, NEEDS_NOTHING },
		{ one_dto_evd_takes_unsignalled_requests_and_default_receives, NEEDS_NOTHING },
		{ only_the_active_established_has_private_data, NEEDS_NOTHING },
		{ free_of_the_evd_ends_the_connection_threads_wait, NEEDS_NOTHING },
		{ thread_is_cancelled_that_repeats_its_wait_on_a_freed_evd, NEEDS_UNWINDING },
		{ refused_free_of_an_evd_leaves_its_waiter, NEEDS_NOTHING },
		{ evd_is_usable_after_its_waiter_was_cancelled, NEEDS_NOTHING },
		{ cno_is_usable_after_its_waiter_was_cancelled, NEEDS_UNWINDING },
		{ accept_with_a_connecting_endpoint_changes_nothing, NEEDS_NOTHING },
		{ failed_open_leaves_the_variable_of_the_async_evd, NEEDS_NOTHING },
		{ zone_is_freed_before_the_evds, NEEDS_NOTHING },
		{ server_answers_a_write_before_its_established_event, NEEDS_NOTHING },
		{ early_requests_are_flushed_when_the_client_has_gone, NEEDS_NOTHING },
		{ each_endpoint_gets_one_disconnected_event, NEEDS_NOTHING },
		{ interface_follows_the_last_dash_of_the_name, NEEDS_NOTHING },
		{ qualifier_may_exceed_32_bits, NEEDS_NOTHING },
		{ suppressed_writes_to_8_mib_are_polled, NEEDS_NOTHING },
		{ suppressed_sends_fill_a_deep_endpoint, NEEDS_NOTHING },
		{ thousands_of_overlapping_regions_are_used, NEEDS_NOTHING },
		{ a_thousand_endpoints_share_two_evds, NEEDS_NOTHING },
		{ local_segments_decide_how_much_is_moved, NEEDS_NOTHING },
		{ message_may_exceed_what_the_endpoint_asked_for, NEEDS_NOTHING },
		{ connection_events_go_to_an_evd_of_another_ia, NEEDS_NOTHING },
		{ ia_of_a_foreign_connection_evd_is_closed_first, NEEDS_NOTHING },
		{ read_fills_each_of_its_segments, NEEDS_NOTHING },
		{ outstanding_reads_of_segments_complete_in_order, NEEDS_NOTHING },
		{ read_into_a_bad_segment_completes_once, NEEDS_NOTHING },
		{ failed_reads_do_not_overrun_the_queue, NEEDS_NOTHING },
		{ open_of_what_the_host_lacks_is_an_invalid_address, NEEDS_NOTHING },
		{ failed_opens_leave_no_files_and_threads, NEEDS_NOTHING },
	};

	return run_on_device(argc, argv, cases, COUNT(cases));
}
