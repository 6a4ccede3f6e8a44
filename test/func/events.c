/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event dispatchers and notification objects while a device completes requests: waits, wake-ups and
 * thresholds, and no event is lost.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../consumer/consumer.h"

#if DAT_EDITION == 2
#include <dat2/dat_ib_extensions.h>
#endif

static uint64_t now_usec(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* A connected pair with receives 0, 1, ... posted at the server. */
static void pair_open_receiving(struct pair *pair, unsigned recvs)
{
	pair_open(pair, NULL);
	post_recvs(&pair->server, 0, recvs);
}

/*
 * Sends a message to receive @number, and returns when it is in the server's memory. The server's
 * EVD is not touched.
 */
static void deliver_to(struct pair *pair, unsigned number)
{
	memset(pair->client.memory, (int)number + 1, 8);
	post_send(pair->client.ep, number, segment(&pair->client, 0, 8),
		  DAT_COMPLETION_DEFAULT_FLAG);
	expect_request_done(&pair->client, number, 8);
	while (__atomic_load_n(&pair->server.memory[number * 8 + 7], __ATOMIC_ACQUIRE) !=
	       number + 1)
		sched_yield();
}

START_TEST(wait_returns_at_its_threshold)
{
	struct waiter waiter = { 0 };
	struct pair pair;
	DAT_EVENT event;
	DAT_COUNT nmore;

	pair_open_receiving(&pair, 5);
	waiter.evd = pair.server.recv_evd;
	waiter.threshold = 3;
	waiter_start(&waiter);
	deliver_to(&pair, 0);
	deliver_to(&pair, 1);
	/* the waiter is still in the call */
	ck_dat_is(dat_evd_dequeue(pair.server.recv_evd, &event), BAD_STATE(EVD_WAITER));
	deliver_to(&pair, 2);
	ck_dat(waiter_join(&waiter));
	ck_assert_int_eq(waiter.nmore, 2);
	ck_assert_uint_eq(waiter.event.event_data.dto_completion_event_data.user_cookie.as_64, 0);
	/* with two of three events the wait times out, and no event is taken */
	do
		ck_assert_uint_eq(dat_evd_wait(pair.server.recv_evd, 10000, 3, &event, &nmore),
				  DAT_ERROR(DAT_TIMEOUT_EXPIRED, DAT_NO_SUBTYPE));
	while (nmore < 2);
	ck_assert_int_eq(nmore, 2);
	ck_dat(dat_evd_wait(pair.server.recv_evd, 0, 2, &event, &nmore));
	ck_assert_int_eq(nmore, 1);
	expect_recv_done(&pair.server, 2, 8);
	ck_dat_is(dat_evd_wait(pair.server.recv_evd, 0, 0, &event, &nmore), BAD_ARG(3));
	ck_dat_is(dat_evd_wait(pair.server.recv_evd, 0, 100000, &event, &nmore), BAD_ARG(3));
	ck_dat_is(dat_evd_wait(pair.server.recv_evd, 0, 1, NULL, &nmore), BAD_ARG(4));
	ck_dat_is(dat_evd_wait(pair.server.recv_evd, 0, 1, &event, NULL), BAD_ARG(5));
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(wait_times_out)
{
	DAT_COUNT nmore = 77;
	struct side side;
	DAT_EVENT event;
	uint64_t before;

	side_open_bare(&side, SERVER);
	ck_dat_is(dat_evd_wait(side.recv_evd, 0, 1, &event, &nmore),
		  DAT_ERROR(DAT_TIMEOUT_EXPIRED, DAT_NO_SUBTYPE));
	ck_assert_int_eq(nmore, 0);
	before = now_usec();
	ck_dat_is(dat_evd_wait(side.recv_evd, 30000, 1, &event, &nmore),
		  DAT_ERROR(DAT_TIMEOUT_EXPIRED, DAT_NO_SUBTYPE));
	ck_assert_uint_ge(now_usec() - before, 30000);
	before = now_usec();
	ck_dat_is(dat_evd_wait(side.connect_evd, 30000, 1, &event, &nmore),
		  DAT_ERROR(DAT_TIMEOUT_EXPIRED, DAT_NO_SUBTYPE));
	ck_assert_uint_ge(now_usec() - before, 30000);
	expect_no_event(side.recv_evd);
	side_close_abrupt(&side);
}
END_TEST

#define DAY ((time_t)86400)

static void time_of_day_move(time_t seconds)
{
	struct timespec now;

	ck_assert_int_eq(clock_gettime(CLOCK_REALTIME, &now), 0);
	now.tv_sec += seconds;
	ck_assert_int_eq(clock_settime(CLOCK_REALTIME, &now), 0);
}

static void *days_pass(void *ended)
{
	while (!__atomic_load_n((const bool *)ended, __ATOMIC_RELAXED)) {
		time_of_day_move(DAY);
		usleep(1000);
		time_of_day_move(-DAY);
	}
	return NULL;
}

/* One that went by the time of day would return at once, or in a day. */
START_TEST(a_wait_does_not_go_by_the_time_of_day)
{
	const DAT_TIMEOUT timeout = 300000;
	bool ended = false;
	struct side side;
	pthread_t thread;
	DAT_COUNT nmore;
	DAT_EVENT event;
	uint64_t began;

	side_open_bare(&side, SERVER);
	thread = consumer_thread_start(days_pass, &ended);
	began = now_usec();
	ck_dat_is(dat_evd_wait(side.recv_evd, timeout, 1, &event, &nmore),
		  DAT_ERROR(DAT_TIMEOUT_EXPIRED, DAT_NO_SUBTYPE));
	ck_assert_uint_ge(now_usec() - began, timeout);
	__atomic_store_n(&ended, true, __ATOMIC_RELAXED);
	consumer_thread_join(thread);
	side_close_abrupt(&side);
}
END_TEST

START_TEST(evd_has_one_waiter)
{
	struct waiter waiter = { 0 };
	struct pair pair;
	DAT_EVENT event;
	DAT_COUNT nmore;

	pair_open_receiving(&pair, 2);
	waiter.evd = pair.server.recv_evd;
	waiter_start(&waiter);
	ck_dat_is(dat_evd_wait(pair.server.recv_evd, 0, 1, &event, &nmore), BAD_STATE(EVD_WAITER));
	ck_dat_is(dat_evd_dequeue(pair.server.recv_evd, &event), BAD_STATE(EVD_WAITER));
	ck_dat(dat_evd_set_unwaitable(pair.server.recv_evd));
	ck_dat_is(waiter_join(&waiter), BAD_STATE(EVD_UNWAITABLE));
	ck_dat_is(dat_evd_wait(pair.server.recv_evd, 0, 1, &event, &nmore),
		  BAD_STATE(EVD_UNWAITABLE));
	/* the EVD still delivers events to dat_evd_dequeue */
	expect_no_event(pair.server.recv_evd);
	deliver_to(&pair, 0);
	while (dat_evd_dequeue(pair.server.recv_evd, &event) == DAT_QUEUE_EMPTY)
		sched_yield();
	ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, 0);
	ck_dat(dat_evd_clear_unwaitable(pair.server.recv_evd));
	waiter_start(&waiter);
	deliver_to(&pair, 1);
	ck_dat(waiter_join(&waiter));
	ck_assert_uint_eq(waiter.event.event_data.dto_completion_event_data.user_cookie.as_64, 1);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(free_of_an_evd_ends_its_wait)
{
	struct waiter waiter = { 0 };
	struct side side;

	side_open_bare(&side, SERVER);
	ck_dat(dat_evd_create(side.ia, 4, DAT_HANDLE_NULL, DAT_EVD_SOFTWARE_FLAG, &waiter.evd));
	waiter_start(&waiter);
	ck_dat(dat_evd_free(waiter.evd));
	ck_dat_is(waiter_join(&waiter), DAT_ERROR(DAT_ABORT, DAT_NO_SUBTYPE));
	ck_dat_is(dat_evd_free(waiter.evd), DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
	side_close_abrupt(&side);
}
END_TEST

static void ignore_signal(int number)
{
	(void)number;
}

/* Until the thread has returned: a signal may arrive just before it sleeps. */
static void interrupt_waiter(struct waiter *waiter)
{
	while (pthread_tryjoin_np(waiter->thread, NULL)) {
		pthread_kill(waiter->thread, SIGUSR1);
		sched_yield();
	}
	ck_dat_is(waiter->ret, DAT_ERROR(DAT_INTERRUPTED_CALL, DAT_NO_SUBTYPE));
}

START_TEST(signal_interrupts_a_waiter)
{
	struct waiter on_evd = { 0 }, on_cno = { 0 };
	struct sigaction action = { .sa_handler = ignore_signal, .sa_flags = SA_RESTART };
	struct side side;

	sigaction(SIGUSR1, &action, NULL);
	side_open_bare(&side, SERVER);
	on_evd.evd = side.recv_evd;
	waiter_start(&on_evd);
	interrupt_waiter(&on_evd);
	ck_assert_int_eq(on_evd.nmore, 0);
	ck_dat(dat_cno_create(side.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &on_cno.cno));
	waiter_start(&on_cno);
	interrupt_waiter(&on_cno);
	expect_no_event(side.recv_evd);
	side_close_abrupt(&side);
}
END_TEST

/* ---- notification objects ---- */

static void expect_no_trigger(DAT_CNO_HANDLE cno)
{
	DAT_EVD_HANDLE evd = cno;

	ck_dat_is(dat_cno_wait(cno, 0, &evd), DAT_QUEUE_EMPTY);
	ck_assert_ptr_null(evd);
}

START_TEST(evd_triggers_its_cno)
{
	DAT_EVD_HANDLE triggered;
	DAT_CNO_HANDLE cno;
	struct pair pair;

	pair_open_receiving(&pair, 6);
	ck_dat(dat_cno_create(pair.server.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(dat_evd_modify_cno(pair.server.recv_evd, cno));
	ck_dat_is(dat_cno_free(cno), BAD_STATE(CNO_IN_USE));
	expect_no_trigger(cno);
	post_send(pair.client.ep, 0, segment(&pair.client, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	ck_dat(dat_cno_wait(cno, TIME_LIMIT, &triggered));
	ck_assert_ptr_eq(triggered, pair.server.recv_evd);
	expect_recv_done(&pair.server, 0, 8);
	expect_request_done(&pair.client, 0, 8);
	/* three events trigger the CNO once */
	for (unsigned i = 1; i < 4; i++)
		deliver_to(&pair, i);
	ck_dat(dat_cno_wait(cno, TIME_LIMIT, &triggered));
	ck_assert_ptr_eq(triggered, pair.server.recv_evd);
	for (unsigned i = 1; i < 4; i++)
		expect_recv_done(&pair.server, i, 8);
	/* a disabled EVD does not trigger it, until it is enabled again */
	while (dat_cno_wait(cno, 0, &triggered) == DAT_SUCCESS)
		; /* a trigger of events that have been taken may be left */
	ck_dat(dat_evd_disable(pair.server.recv_evd));
	deliver_to(&pair, 4);
	expect_no_trigger(cno);
	ck_dat(dat_evd_enable(pair.server.recv_evd));
	ck_dat(dat_cno_wait(cno, TIME_LIMIT, &triggered));
	ck_assert_ptr_eq(triggered, pair.server.recv_evd);
	expect_recv_done(&pair.server, 4, 8);
	/* a detached EVD does not trigger it */
	ck_dat(dat_evd_modify_cno(pair.server.recv_evd, DAT_HANDLE_NULL));
	deliver_to(&pair, 5);
	expect_no_trigger(cno);
	ck_dat(dat_cno_free(cno));
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(trigger_wakes_the_waiter_of_a_cno)
{
	struct waiter waiter = { 0 };
	struct pair pair;

	pair_open_receiving(&pair, 16);
	ck_dat(dat_cno_create(pair.server.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &waiter.cno));
	ck_dat(dat_evd_modify_cno(pair.server.recv_evd, waiter.cno));
	ck_dat(dat_evd_modify_cno(pair.server.connect_evd, waiter.cno));
	for (unsigned i = 0; i < 16; i++) {
		waiter_start(&waiter);
		post_send(pair.client.ep, i, segment(&pair.client, 0, 8),
			  DAT_COMPLETION_DEFAULT_FLAG);
		ck_dat(waiter_join(&waiter));
		ck_assert_ptr_eq(waiter.triggered, pair.server.recv_evd);
		expect_recv_done(&pair.server, i, 8);
		expect_request_done(&pair.client, i, 8);
	}
	ck_dat(dat_evd_modify_cno(pair.server.recv_evd, DAT_HANDLE_NULL));
	waiter_start(&waiter);
	ck_dat(dat_ep_disconnect(pair.client.ep, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat(waiter_join(&waiter));
	ck_assert_ptr_eq(waiter.triggered, pair.server.connect_evd);
	expect_connection(&pair.server, DAT_CONNECTION_EVENT_DISCONNECTED);
	pair_close_abrupt(&pair);
}
END_TEST

#define MESSAGES 50 /* to each EVD */

/* What threads take from the EVDs of a CNO. */
static struct {
	DAT_CNO_HANDLE cno;
	DAT_EVD_HANDLE evds[2], end_evd;
	DAT_TIMEOUT timeout;
	_Atomic unsigned taken;
} shared;

/* Until there is an event in end_evd, which is passed on to the next thread. */
static void *take_from_cno(void *arg)
{
	DAT_EVENT event;
	DAT_EVD_HANDLE hint;
	DAT_RETURN ret;

	do {
		ret = dat_cno_wait(shared.cno, shared.timeout, &hint);
		ck_assert(ret == DAT_SUCCESS || ret == DAT_QUEUE_EMPTY);
		for (unsigned i = 0; ret == DAT_SUCCESS && i < 2; i++)
			while (dat_evd_dequeue(shared.evds[i], &event) == DAT_SUCCESS)
				shared.taken++;
	} while (ret || dat_evd_dequeue(shared.end_evd, &event));
	ck_dat(dat_evd_post_se(shared.end_evd, &event));
	return arg;
}

/* One completion of the server, of a receive or of a send in turn. */
static void complete_at_server(const struct pair *pair, unsigned number)
{
	const bool recv = number % 2;
	const struct side *to = recv ? &pair->server : &pair->client;
	const struct side *from = recv ? &pair->client : &pair->server;

	post_recv(to->ep, number, segment(to, 0, 8));
	post_send(from->ep, number, segment(from, 8, 8), DAT_COMPLETION_DEFAULT_FLAG);
	if (recv)
		expect_request_done(&pair->client, number, 8);
	else
		expect_recv_done(&pair->client, number, 8);
}

/* Each is waited for before the next one comes, so a wake-up that is lost is missed. */
static void run_threads_at_cno(const struct pair *pair)
{
	const DAT_EVENT end = { .event_number = DAT_SOFTWARE_EVENT };
	pthread_t threads[3];
	DAT_EVENT event;

	shared.taken = 0;
	for (unsigned i = 0; i < COUNT(threads); i++)
		threads[i] = consumer_thread_start(take_from_cno, NULL);
	for (unsigned i = 0; i < 2 * MESSAGES; i++) {
		complete_at_server(pair, i);
		while (shared.taken <= i)
			sched_yield();
	}
	ck_dat(dat_evd_post_se(shared.end_evd, &end));
	for (unsigned i = 0; i < COUNT(threads); i++)
		consumer_thread_join(threads[i]);
	ck_assert_uint_eq(shared.taken, 2 * MESSAGES);
	ck_dat(dat_evd_dequeue(shared.end_evd, &event));
}

START_TEST(threads_at_one_cno_take_each_completion)
{
	static const DAT_TIMEOUT timeouts[] = { TIME_LIMIT, 100, 0 };
	struct pair pair;

	pair_open(&pair, NULL);
	shared.evds[0] = pair.server.recv_evd;
	shared.evds[1] = pair.server.request_evd;
	ck_dat(dat_cno_create(pair.server.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &shared.cno));
	ck_dat(dat_evd_create(pair.server.ia, 4, shared.cno, DAT_EVD_SOFTWARE_FLAG,
			      &shared.end_evd));
	for (unsigned i = 0; i < COUNT(shared.evds); i++)
		ck_dat(dat_evd_modify_cno(shared.evds[i], shared.cno));
	for (unsigned i = 0; i < COUNT(timeouts); i++) {
		shared.timeout = timeouts[i];
		run_threads_at_cno(&pair);
	}
	pair_close_abrupt(&pair);
}
END_TEST

static _Atomic unsigned agent_calls;
static DAT_EVD_HANDLE _Atomic agent_evd;

static void count_agent_call(DAT_PVOID data, DAT_EVD_HANDLE evd)
{
	agent_evd = evd;
	agent_calls += *(unsigned *)data;
}

START_TEST(agent_is_called_once_after_it_is_set)
{
	unsigned one = 1;
	DAT_OS_WAIT_PROXY_AGENT agent = { &one, count_agent_call };
	DAT_EVD_HANDLE triggered;
	DAT_CNO_HANDLE cno;
	struct pair pair;

	pair_open_receiving(&pair, 4);
	ck_dat(dat_cno_create(pair.server.ia, agent, &cno));
	ck_dat(dat_evd_modify_cno(pair.server.recv_evd, cno));
	deliver_to(&pair, 0);
	while (agent_calls == 0)
		sched_yield();
	ck_assert_ptr_eq(agent_evd, pair.server.recv_evd);
	ck_dat(dat_cno_wait(cno, TIME_LIMIT, &triggered)); /* the CNO is triggered all the same */
	deliver_to(&pair, 1);
	ck_dat(dat_cno_wait(cno, TIME_LIMIT, &triggered));
	ck_assert_uint_eq(agent_calls, 1);
	ck_dat(dat_cno_modify_agent(cno, agent));
	deliver_to(&pair, 2);
	while (agent_calls == 1)
		sched_yield();
	ck_assert_uint_eq(agent_calls, 2);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- shared EVDs ---- */

#define MAX_PAIRS 48
#define ROUNDS	  5

/* One EVD for the receives and requests of all endpoints of a side. */
static void share_evd(struct side *side)
{
	ck_dat(dat_evd_create(side->ia, 4 * MAX_PAIRS * ROUNDS, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG,
			      &side->recv_evd));
	side->request_evd = side->recv_evd;
}

/* On the shared EVD each endpoint's receives complete in order, and its sends do. */
static void expect_all_in_order(const struct side *side, const DAT_EP_HANDLE *eps, unsigned n)
{
	unsigned received[MAX_PAIRS] = { 0 }, sent[MAX_PAIRS] = { 0 };

	for (unsigned left = 2 * n * ROUNDS; left; left--) {
		DAT_EVENT event = expect_event(side->recv_evd, DAT_DTO_COMPLETION_EVENT);
		const DAT_DTO_COMPLETION_EVENT_DATA *dto =
			&event.event_data.dto_completion_event_data;
		uint64_t value = dto->user_cookie.as_64;
		unsigned i = (unsigned)(value >> 32), *next = value & 1 ? &sent[i] : &received[i];

		ck_assert_int_eq(dto->status, DAT_DTO_SUCCESS);
		ck_assert_uint_lt(i, n);
		ck_assert_ptr_eq(dto->ep_handle, eps[i]);
		ck_assert_uint_eq((value & 0xffffffff) >> 1, (*next)++);
		ck_assert_uint_eq(dto->transfered_length, i + 1);
	}
	expect_no_event(side->recv_evd);
}

START_TEST(endpoints_share_one_evd)
{
	const DAT_EP_ATTR attr = ep_attr_for(ROUNDS, ROUNDS);
	const unsigned n = device()->max_eps < MAX_PAIRS ? device()->max_eps : MAX_PAIRS;
	DAT_EP_HANDLE client_eps[MAX_PAIRS], server_eps[MAX_PAIRS];
	struct region at_client, at_server;
	struct pair pair;

	side_open_bare(&pair.client, CLIENT);
	side_open_bare(&pair.server, SERVER);
	share_evd(&pair.client);
	share_evd(&pair.server);
	at_client = region_map(&pair.client, 4096, DAT_MEM_PRIV_ALL_FLAG);
	at_server = region_map(&pair.server, 4096, DAT_MEM_PRIV_ALL_FLAG);
	for (unsigned i = 0; i < n; i++) {
		client_eps[i] = side_create_ep(&pair.client, &attr);
		server_eps[i] = side_create_ep(&pair.server, &attr);
		connect_eps(&pair.client, client_eps[i], &pair.server, server_eps[i]);
		for (uint64_t r = 0; r < ROUNDS; r++) {
			post_recv(client_eps[i], (uint64_t)i << 32 | r << 1,
				  region_segment(&at_client, 0, 64));
			post_recv(server_eps[i], (uint64_t)i << 32 | r << 1,
				  region_segment(&at_server, 0, 64));
		}
	}
	for (uint64_t r = 0; r < ROUNDS; r++)
		for (unsigned i = 0; i < n; i++) {
			post_send(client_eps[i], (uint64_t)i << 32 | r << 1 | 1,
				  region_segment(&at_client, 100, i + 1), 0);
			post_send(server_eps[i], (uint64_t)i << 32 | r << 1 | 1,
				  region_segment(&at_server, 100, i + 1), 0);
		}
	expect_all_in_order(&pair.client, client_eps, n);
	expect_all_in_order(&pair.server, server_eps, n);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(streams_share_one_evd)
{
	const DAT_EVD_FLAGS all = DAT_EVD_DEFAULT_FLAG | DAT_EVD_SOFTWARE_FLAG;
	DAT_EVENT event = { .event_number = DAT_SOFTWARE_EVENT };
	struct pair pair;

	side_open_bare(&pair.client, CLIENT);
	side_open_bare(&pair.server, SERVER);
	ck_dat(dat_evd_create(pair.server.ia, SIDE_QLEN, DAT_HANDLE_NULL, all,
			      &pair.server.cr_evd));
	pair.server.connect_evd = pair.server.recv_evd = pair.server.request_evd =
		pair.server.cr_evd;
	side_equip(&pair.client, NULL, SIDE_MEMORY);
	side_equip(&pair.server, NULL, SIDE_MEMORY);
	pair_connect(&pair);
	ck_dat(dat_evd_post_se(pair.server.cr_evd, &event));
	expect_event(pair.server.cr_evd, DAT_SOFTWARE_EVENT);
	post_recv(pair.server.ep, 1, segment(&pair.server, 0, 100));
	post_send(pair.client.ep, 2, segment(&pair.client, 0, 100), DAT_COMPLETION_DEFAULT_FLAG);
	expect_recv_done(&pair.server, 1, 100);
	ck_dat(dat_ep_disconnect(pair.client.ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_connection(&pair.server, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_no_event(pair.server.cr_evd);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(resize_keeps_the_events)
{
	DAT_EVD_PARAM param;
	struct pair pair;

	pair_open_receiving(&pair, 8);
	for (unsigned i = 0; i < 4; i++)
		deliver_to(&pair, i);
	ck_dat(dat_evd_resize(pair.server.recv_evd, 2 * SIDE_QLEN));
	ck_dat(dat_evd_query(pair.server.recv_evd, DAT_EVD_FIELD_ALL, &param));
	ck_assert_int_ge(param.evd_qlen, 2 * SIDE_QLEN);
	for (unsigned i = 4; i < 8; i++)
		deliver_to(&pair, i);
	for (unsigned i = 0; i < 8; i++)
		expect_recv_done(&pair.server, i, 8);
	ck_dat_is(dat_evd_resize(pair.server.recv_evd, 0), BAD_ARG(2));
	pair_close_abrupt(&pair);
}
END_TEST

/* They stay in their queue, and that of another IA has room for one event only. */
/*
 * The message waits, while a thread sleeps, for the receive that another one posts. It has arrived
 * before a read of another connection is served.
 */
START_TEST(a_late_receive_wakes_the_waiter_of_an_evd)
{
	static const size_t lengths[] = { 0, 8, 40000 };
	DAT_EP_HANDLE reader;
	struct pair pair;

	pair_open(&pair, NULL);
	reader = side_create_ep(&pair.client, NULL);
	connect_eps(&pair.client, reader, &pair.server, side_create_ep(&pair.server, NULL));
	for (size_t i = 0; i < 5 * COUNT(lengths); i++) {
		const size_t length = lengths[i % COUNT(lengths)];
		struct waiter waiter = { .evd = pair.server.recv_evd };

		waiter_start(&waiter);
		post_send(pair.client.ep, i, segment(&pair.client, 0, length),
			  DAT_COMPLETION_SUPPRESS_FLAG);
		post_read(reader, 99, segment(&pair.client, 40000, 8),
			  target(&pair.server, 40000, 8), DAT_COMPLETION_DEFAULT_FLAG);
		expect_event(pair.client.request_evd, DAT_DTO_COMPLETION_EVENT);
		post_recv(pair.server.ep, i, segment(&pair.server, 0, length));
		ck_dat(waiter_join(&waiter));
		ck_assert_uint_eq(
			waiter.event.event_data.dto_completion_event_data.transfered_length,
			length);
	}
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(unread_asynchronous_events_block_nothing)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;
	struct pair pair;

	ck_dat(dat_ia_openv((DAT_NAME_PTR)ia_name(SERVER, BY_INTERFACE), 1, &async, &ia,
			    DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_FALSE));
	pair_open_unconnected(&pair, NULL);
	for (unsigned round = 0; round < 10; round++) {
		DAT_RMR_TRIPLET nowhere = { .rmr_context = 0xdead00,
					    .REMOTE_ADDRESS = 4096,
					    .segment_length = 8 };
		struct region memory;

		pair_connect(&pair);
		memory = region_map(&pair.client, 64, DAT_MEM_PRIV_ALL_FLAG);
		post_write(pair.client.ep, round, region_segment(&memory, 0, 8), nowhere,
			   DAT_COMPLETION_DEFAULT_FLAG);
		expect_ends(&pair);
		pair_reset(&pair);
		expect_event(pair.client.request_evd, DAT_DTO_COMPLETION_EVENT);
		ck_dat(dat_lmr_free(memory.lmr));
	}
	pair_connect(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
	ck_dat(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
}
END_TEST

#if DAT_EDITION == 2
static DAT_UINT64 count_of(DAT_HANDLE handle, int counter)
{
	DAT_UINT64 value;

	ck_dat(dat_ib_query_counters(handle, counter, &value, 0));
	return value;
}

/* The server sleeps for a message, and the client ends the connection. */
START_TEST(counters_tell_sleeps_and_connections)
{
	struct waiter waiter = { 0 };
	struct pair pair;

	pair_open_receiving(&pair, 1);
	waiter.evd = pair.server.recv_evd;
	waiter_start(&waiter);
	deliver_to(&pair, 0);
	ck_dat(waiter_join(&waiter));
	ck_assert_uint_eq(count_of(waiter.evd, DCNT_EVD_WAIT_BLOCKED), 1);
	ck_assert_uint_ge(count_of(waiter.evd, DCNT_EVD_WAIT_NOTIFY), 1);
	ck_assert_uint_eq(count_of(pair.client.ia, DCNT_IA_CM_ACTIVE_EST), 1);
	ck_assert_uint_eq(count_of(pair.server.ia, DCNT_IA_CM_PASSIVE_EST), 1);
	ck_assert_uint_eq(count_of(pair.server.ia, DCNT_IA_SP_CR_ACCEPTED), 1);
	ck_dat(dat_ep_disconnect(pair.client.ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_end(&pair.client);
	expect_end(&pair.server);
	ck_assert_uint_eq(count_of(pair.client.ia, DCNT_IA_CM_DREQ_TX), 1);
	ck_assert_uint_eq(count_of(pair.server.ia, DCNT_IA_CM_DREQ_RX), 1);
	ck_assert_uint_eq(count_of(pair.client.ep, DCNT_EP_DISCONNECT), 1);
	pair_close_abrupt(&pair);
}
END_TEST
#endif

int main(int argc, char **argv)
{
	const struct device_case cases[] = {
		{ wait_returns_at_its_threshold, NEEDS_NOTHING },
		{ wait_times_out, NEEDS_NOTHING },
		{ a_wait_does_not_go_by_the_time_of_day, NEEDS_OWN_CLOCK },
		{ evd_has_one_waiter, NEEDS_NOTHING },
		{ free_of_an_evd_ends_its_wait, NEEDS_NOTHING },
		{ signal_interrupts_a_waiter, NEEDS_NOTHING },
		{ evd_triggers_its_cno, NEEDS_NOTHING },
		{ trigger_wakes_the_waiter_of_a_cno, NEEDS_NOTHING },
		{ threads_at_one_cno_take_each_completion, NEEDS_NOTHING },
		{ agent_is_called_once_after_it_is_set, NEEDS_NOTHING },
		{ endpoints_share_one_evd, NEEDS_NOTHING },
		{ streams_share_one_evd, NEEDS_NOTHING },
		{ resize_keeps_the_events, NEEDS_NOTHING },
		{ a_late_receive_wakes_the_waiter_of_an_evd, NEEDS_RNR },
		{ unread_asynchronous_events_block_nothing, NEEDS_NOTHING },
#if DAT_EDITION == 2
		{ counters_tell_sleeps_and_connections, NEEDS_NOTHING },
#endif
	};

	return run_on_device(argc, argv, cases, COUNT(cases));
}
