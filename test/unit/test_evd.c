/* SPDX-License-Identifier: BSD-2-Clause */
/* Event dispatchers: creation, waits, notification modes, arming, full queues, and threads. */
#include <signal.h>

#include "alloc.h"
#include "harness.h"

#define EMPTY	  ((DAT_RETURN)DAT_QUEUE_EMPTY) /* without a class: it is no error */
#define TIMED_OUT DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0)
#define HANDLE1	  DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1)

static struct side side;
static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;
static DAT_EVENT event;
static DAT_COUNT nmore;

static void evd_setup_side(void)
{
	side_open(&side, "fake0");
}

static DAT_EVD_HANDLE software_evd(DAT_COUNT qlen)
{
	return side_create_evd(&side, qlen, DAT_EVD_SOFTWARE_FLAG);
}

static DAT_EVD_PARAM evd_query_all(DAT_EVD_HANDLE evd)
{
	DAT_EVD_PARAM param;

	ck_dat(evd_query(evd, DAT_EVD_FIELD_ALL, &param));
	return param;
}

/* ---- create, query, free ---- */

static const struct {
	const char *why;
	DAT_COUNT qlen;
	unsigned flags;
	DAT_RETURN want;
} creations[] = {
	{ "zero length", 0, DAT_EVD_DTO_FLAG, BAD_ARG(2) },
	{ "negative length", -1, DAT_EVD_DTO_FLAG, BAD_ARG(2) },
	{ "longer than the device supports", INT32_MAX, DAT_EVD_DTO_FLAG, NO_RESOURCE(TEVD) },
	{ "no flags", 1, 0, BAD_ARG(4) },
	{ "unknown flag", 1, 0x2, BAD_ARG(4) },
	{ "unknown flag among known ones", 1, DAT_EVD_DTO_FLAG | 0x1000, DAT_SUCCESS },
	{ "software", 1, DAT_EVD_SOFTWARE_FLAG, DAT_SUCCESS },
	{ "asynchronous", 1, DAT_EVD_ASYNC_FLAG, DAT_SUCCESS },
	{ "default", 1, DAT_EVD_DEFAULT_FLAG, DAT_SUCCESS },
	{ "all streams", 1, DAT_EVD_DEFAULT_FLAG | DAT_EVD_SOFTWARE_FLAG, DAT_SUCCESS },
};

START_TEST(evd_create_checks_its_arguments)
{
	DAT_EVD_HANDLE evd = POISON;
	unsigned before = fake_alive(FAKE_ANY);

	ck_dat_is(
		evd_create(side.ia, creations[_i].qlen, DAT_HANDLE_NULL, creations[_i].flags, &evd),
		creations[_i].want);
	if (creations[_i].want == DAT_SUCCESS)
		ck_dat(evd_free(evd));
	else
		ck_assert_ptr_eq(evd, POISON);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), before);
}
END_TEST

START_TEST(evd_create_checks_handles_first)
{
	DAT_EVD_HANDLE evd = POISON;

	ck_dat_is(evd_create(side.pz, 0, DAT_HANDLE_NULL, 0, NULL), BAD_HANDLE(IA));
	ck_dat_is(evd_create(side.ia, 0, side.pz, 0, NULL), BAD_HANDLE(CNO));
	ck_dat_is(evd_create(side.ia, 0, DAT_HANDLE_NULL, 0, NULL), BAD_ARG(5));
	ck_dat_is(evd_create(side.ia, 0, DAT_HANDLE_NULL, 0, &evd), BAD_ARG(2));
}
END_TEST

START_TEST(only_completion_streams_need_a_completion_queue)
{
	unsigned before = fake_alive(FAKE_CQ);
	DAT_EVD_HANDLE with = side_create_evd(&side, 4, DAT_EVD_RMR_BIND_FLAG);
	DAT_EVD_HANDLE without = side_create_evd(&side, 4,
						 DAT_EVD_SOFTWARE_FLAG | DAT_EVD_CR_FLAG |
							 DAT_EVD_CONNECTION_FLAG |
							 DAT_EVD_ASYNC_FLAG);

	ck_assert_uint_eq(fake_alive(FAKE_CQ), before + 1);
	ck_dat(evd_free(with));
	ck_dat(evd_free(without));
	ck_assert_uint_eq(fake_alive(FAKE_CQ), before);
}
END_TEST

START_TEST(a_failed_evd_create_changes_nothing)
{
	unsigned before = fake_alive(FAKE_ANY), failures = 0;
	DAT_CNO_HANDLE cno;

	ck_dat(cno_create(side.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	for (unsigned n = 1;; n++) {
		DAT_EVD_HANDLE evd = POISON;
		DAT_RETURN ret;

		fake_fail_call(n);
		ret = evd_create(side.ia, 4, cno, DAT_EVD_DEFAULT_FLAG, &evd);
		if (ret == DAT_SUCCESS)
			ck_dat(evd_free(evd));
		else
			ck_assert_ptr_eq(evd, POISON);
		ck_assert_uint_eq(fake_alive(FAKE_ANY), before);
		if (!fake_failed())
			break;
		failures += ret != DAT_SUCCESS;
	}
	fake_fail_call(0);
	ck_assert_uint_ge(failures, 1);
	ck_dat(cno_free(cno)); /* the CNO is not in use */
}
END_TEST

static int lowest_descriptor(void)
{
	int fd = dup(STDERR_FILENO);

	ck_assert_int_ge(fd, 0);
	close(fd);
	return fd;
}

static const unsigned streams[] = {
	DAT_EVD_SOFTWARE_FLAG,
	DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG,
	DAT_EVD_DEFAULT_FLAG | DAT_EVD_SOFTWARE_FLAG,
};

/* The slab of the objects has to grow several times, too. */
START_TEST(evd_create_without_memory_changes_nothing)
{
	const DAT_EVD_FLAGS flags = (DAT_EVD_FLAGS)streams[_i];
	DAT_CNO_HANDLE cno;
	DAT_RETURN ret;

	ck_dat(cno_create(side.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	fake_wait_idle(0); /* the service thread opens a descriptor of the fake when it starts */
	for (int i = 0; i < 40; i++) {
		unsigned alive = fake_alive(FAKE_ANY),
			 evds = obj_count(side.ia, DAT_HANDLE_TYPE_EVD), n = 1;
		DAT_EVD_HANDLE evd = POISON;
		int fd = lowest_descriptor();

		for (; alloc_fail_nth(n), ret = evd_create(side.ia, 100, cno, flags, &evd),
					  alloc_failed();
		     n++) {
			ck_dat_is(ret, NO_RESOURCE(MEMORY));
			ck_assert_ptr_eq(evd, POISON);
			ck_assert_uint_eq(fake_alive(FAKE_ANY), alive);
			ck_assert_uint_eq(obj_count(side.ia, DAT_HANDLE_TYPE_EVD), evds);
			ck_assert_uint_eq(((struct cno *)cno)->evds, (unsigned)i);
			ck_assert_int_eq(lowest_descriptor(), fd);
		}
		ck_dat(ret);
		ck_assert_uint_ge(n, 2); /* at least one for its queue */
	}
	ck_dat(ia_close(side.ia, DAT_CLOSE_ABRUPT_FLAG));
	free(side.memory);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

/* Only its completion queue needs one. */
START_TEST(evd_create_without_descriptors_changes_nothing)
{
	unsigned before = fake_alive(FAKE_ANY);
	DAT_EVD_HANDLE evd = POISON;

	limit_descriptors(0);
	ck_dat_is(evd_create(side.ia, 4, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd),
		  NO_RESOURCE(TEVD));
	ck_assert_ptr_eq(evd, POISON);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), before);
	limit_descriptors(1);
	ck_dat(evd_create(side.ia, 4, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd));
	limit_descriptors(20);
}
END_TEST

START_TEST(a_query_returns_state_flags_and_cno)
{
	DAT_CNO_HANDLE cno;
	DAT_EVD_HANDLE evd;
	DAT_EVD_PARAM param;

	ck_dat(cno_create(side.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(evd_create(side.ia, 5, cno, DAT_EVD_SOFTWARE_FLAG | DAT_EVD_CR_FLAG, &evd));
	param = evd_query_all(evd);
	ck_assert_ptr_eq(param.ia_handle, side.ia);
	ck_assert_int_ge(param.evd_qlen, 5);
	ck_assert_int_eq(param.evd_state, DAT_EVD_STATE_ENABLED | DAT_EVD_STATE_WAITABLE |
						  DAT_EVD_STATE_CONFIG_THRESHOLD);
	ck_assert_ptr_eq(param.cno_handle, cno);
	ck_assert_int_eq(param.evd_flags, DAT_EVD_SOFTWARE_FLAG | DAT_EVD_CR_FLAG);
	ck_dat(evd_disable(evd));
	ck_dat(evd_disable(evd));
	ck_dat(evd_set_unwaitable(evd));
	ck_dat(evd_set_unwaitable(evd));
	ck_dat(evd_modify_cno(evd, DAT_HANDLE_NULL));
	param = evd_query_all(evd);
	ck_assert_int_eq(param.evd_state, DAT_EVD_STATE_DISABLED | DAT_EVD_STATE_UNWAITABLE |
						  DAT_EVD_STATE_CONFIG_THRESHOLD);
	ck_assert_ptr_eq(param.cno_handle, DAT_HANDLE_NULL);
	ck_dat(evd_enable(evd));
	ck_dat(evd_clear_unwaitable(evd));
	ck_assert_int_eq(evd_query_all(evd).evd_state, DAT_EVD_STATE_ENABLED |
							       DAT_EVD_STATE_WAITABLE |
							       DAT_EVD_STATE_CONFIG_THRESHOLD);
	ck_dat_is(evd_query(evd, 0, NULL), BAD_ARG(3));
	ck_dat(evd_query(evd, 0x1000, &param));
	ck_dat(evd_query(evd, 0, &param));
}
END_TEST

START_TEST(evd_free_is_refused_while_in_use)
{
	DAT_EVD_HANDLE cr_evd = side_create_evd(&side, 4, DAT_EVD_CR_FLAG);
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;

	ck_dat(psp_create_any(side.ia, &qual, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	ck_dat_is(evd_free(cr_evd), BAD_STATE(EVD_IN_USE));
	ck_dat_is(evd_free(side.async_evd), BAD_STATE(EVD_IN_USE));
	ck_dat_is(evd_free(side.recv_evd), BAD_STATE(EVD_IN_USE));
	ck_dat_is(evd_free(side.request_evd), BAD_STATE(EVD_IN_USE));
	ck_dat_is(evd_free(side.connect_evd), BAD_STATE(EVD_IN_USE));
	ck_dat(psp_free(psp));
	ck_dat(evd_free(cr_evd));
	ck_dat_is(evd_free(cr_evd), HANDLE1);
	ck_dat(ep_free(side.ep));
	side.ep = side_create_ep(&side, NULL);
	side_close(&side);
}
END_TEST

START_TEST(evd_free_discards_queued_events)
{
	DAT_EVD_HANDLE evd = software_evd(4);

	post_se(evd, 1);
	ck_dat(evd_free(evd));
	side_close(&side);
}
END_TEST

/* ---- software events, dequeue ---- */

START_TEST(events_are_dequeued_in_order)
{
	DAT_EVD_HANDLE evd = software_evd(8);
	uintptr_t in = 0, out = 0;

	ck_dat_is(evd_dequeue(evd, &event), EMPTY);
	for (int round = 0; round < 20; round++) { /* the positions wrap around several times */
		for (int n = 0; n < 5; n++)
			post_se(evd, in++);
		for (int n = 0; n < 5; n++) {
			ck_dat(evd_dequeue(evd, &event));
			ck_assert_int_eq(event.event_number, DAT_SOFTWARE_EVENT);
			ck_assert_ptr_eq(event.evd_handle, evd);
			ck_assert_uint_eq((uintptr_t)event.event_data.software_event_data.pointer,
					  out++);
		}
	}
	ck_dat_is(evd_dequeue(evd, &event), EMPTY);
	ck_dat_is(evd_dequeue(evd, NULL), BAD_ARG(2));
}
END_TEST

START_TEST(post_se_checks_its_arguments)
{
	const DAT_EVENT wrong = { .event_number = DAT_DTO_COMPLETION_EVENT };
	DAT_EVD_HANDLE evd = software_evd(8);

	ck_dat_is(try_post_se(side.recv_evd, 1), BAD_ARG(1));
	ck_dat_is(evd_post_se(evd, NULL), BAD_ARG(2));
	ck_dat_is(evd_post_se(evd, &wrong), BAD_ARG(2));
	ck_dat_is(evd_dequeue(evd, &event), EMPTY);
}
END_TEST

START_TEST(a_full_queue_refuses_software_events)
{
	DAT_EVD_HANDLE evd = software_evd(3);
	DAT_COUNT qlen = evd_query_all(evd).evd_qlen;

	for (DAT_COUNT n = 0; n < qlen; n++)
		post_se(evd, (uintptr_t)n);
	ck_dat_is(try_post_se(evd, 99), DAT_ERROR(DAT_QUEUE_FULL, 0));
	ck_dat(evd_dequeue(evd, &event));
	post_se(evd, (uintptr_t)qlen);
	ck_dat_is(try_post_se(evd, 99), DAT_ERROR(DAT_QUEUE_FULL, 0));
	for (DAT_COUNT n = 1; n <= qlen; n++)
		expect_se(evd, (uintptr_t)n);
	expect_no_event(evd);
	expect_no_event(side.async_evd); /* the call returned the error, so there is no event */
}
END_TEST

/* ---- waiting ---- */

START_TEST(evd_wait_checks_its_arguments)
{
	DAT_EVD_HANDLE evd = software_evd(4);
	DAT_COUNT qlen = evd_query_all(evd).evd_qlen;

	ck_dat_is(evd_wait(evd, 0, 1, NULL, &nmore), BAD_ARG(4));
	ck_dat_is(evd_wait(evd, 0, 1, &event, NULL), BAD_ARG(5));
	ck_dat_is(evd_wait(evd, 0, 0, &event, &nmore), BAD_ARG(3));
	ck_dat_is(evd_wait(evd, 0, -1, &event, &nmore), BAD_ARG(3));
	ck_dat_is(evd_wait(evd, 0, qlen + 1, &event, &nmore), BAD_ARG(3));
	ck_dat_is(evd_wait(evd, 0, qlen, &event, &nmore), TIMED_OUT);
}
END_TEST

START_TEST(a_reached_threshold_ends_a_wait_at_once)
{
	DAT_EVD_HANDLE evd = software_evd(8);
	uint64_t began = tp_now();

	for (uintptr_t n = 0; n < 4; n++)
		post_se(evd, n);
	ck_dat(evd_wait(evd, DAT_TIMEOUT_INFINITE, 3, &event, &nmore));
	ck_assert_uint_eq((uintptr_t)event.event_data.software_event_data.pointer, 0);
	ck_assert_int_eq(nmore, 3);
	ck_dat(evd_wait(evd, 0, 1, &event, &nmore));
	ck_assert_int_eq(nmore, 2);
	ck_dat(evd_wait(evd, DAT_TIMEOUT_INFINITE, 2, &event, &nmore));
	ck_assert_int_eq(nmore, 1);
	ck_assert_uint_eq(tp_now(), began);
	ck_dat_is(evd_wait(evd, 0, 2, &event, &nmore), TIMED_OUT);
	ck_assert_int_eq(nmore, 1);
}
END_TEST

static const DAT_TIMEOUT timeouts[] = {
	0, 1, 1000, SECONDS(1), SECONDS(4000), DAT_TIMEOUT_INFINITE - 1
};

/*
 * The deadline is exact to the nanosecond, also beyond 32 bits of microseconds. The queued event is
 * kept.
 */
START_TEST(evd_wait_times_out_exactly)
{
	DAT_EVD_HANDLE evd = software_evd(8);
	uint64_t began = tp_now();

	post_se(evd, 7);
	ck_dat_is(evd_wait(evd, timeouts[_i], 2, &event, &nmore), TIMED_OUT);
	ck_assert_uint_eq(tp_now() - began, (uint64_t)timeouts[_i] * 1000);
	ck_assert_int_eq(nmore, 1);
	expect_se(evd, 7);
}
END_TEST

/* The deadline is computed once, at the start of the wait. */
START_TEST(events_below_the_threshold_do_not_extend_a_wait)
{
	struct waiter waiter = { .evd = software_evd(8), .timeout = SECONDS(10), .threshold = 3 };

	fake_clock_auto(false);
	waiter_start(&waiter);
	fake_clock_advance(9 * 1000000000ULL);
	post_se(waiter.evd, 1);
	fake_wait_idle(1);
	fake_clock_advance(1000000000ULL - 1);
	post_se(waiter.evd, 2);
	fake_wait_idle(1);
	fake_clock_advance(1);
	ck_dat_is(waiter_join(&waiter), TIMED_OUT);
	ck_assert_int_eq(waiter.nmore, 2);
}
END_TEST

START_TEST(the_threshold_wakes_the_waiter)
{
	struct waiter waiter = { .evd = software_evd(8),
				 .timeout = DAT_TIMEOUT_INFINITE,
				 .threshold = 3 };

	waiter_start(&waiter);
	for (uintptr_t n = 0; n < 2; n++) {
		post_se(waiter.evd, n);
		fake_wait_idle(1);
	}
	post_se(waiter.evd, 2);
	ck_dat(waiter_join(&waiter));
	ck_assert_uint_eq((uintptr_t)waiter.event.event_data.software_event_data.pointer, 0);
	ck_assert_int_eq(waiter.nmore, 2);
	expect_se(waiter.evd, 1);
	expect_se(waiter.evd, 2);
}
END_TEST

START_TEST(other_calls_are_refused_while_a_thread_waits)
{
	struct waiter waiter = { .evd = software_evd(8),
				 .timeout = DAT_TIMEOUT_INFINITE,
				 .threshold = 2 };

	waiter_start(&waiter);
	post_se(waiter.evd, 1);
	ck_dat_is(evd_wait(waiter.evd, 0, 1, &event, &nmore), BAD_STATE(EVD_WAITER));
	ck_dat_is(evd_dequeue(waiter.evd, &event), BAD_STATE(EVD_WAITER));
	ck_dat_is(evd_resize(waiter.evd, 20), BAD_STATE(EVD_WAITER));
	ck_dat(evd_resize(waiter.evd, 8)); /* nothing is resized */
	post_se(waiter.evd, 2);
	ck_dat(waiter_join(&waiter));
	ck_assert_int_eq(waiter.nmore, 1);
	expect_se(waiter.evd, 2);
	ck_dat(evd_free(waiter.evd));
}
END_TEST

START_TEST(set_unwaitable_ends_and_refuses_waits)
{
	struct waiter waiter = { .evd = software_evd(8),
				 .timeout = DAT_TIMEOUT_INFINITE,
				 .threshold = 2 };

	waiter_start(&waiter);
	post_se(waiter.evd, 1);
	ck_dat(evd_set_unwaitable(waiter.evd));
	ck_dat_is(waiter_join(&waiter), BAD_STATE(EVD_UNWAITABLE));
	ck_dat_is(evd_wait(waiter.evd, 0, 1, &event, &nmore), BAD_STATE(EVD_UNWAITABLE));
	ck_dat_is(evd_wait(waiter.evd, DAT_TIMEOUT_INFINITE, 1, &event, &nmore),
		  BAD_STATE(EVD_UNWAITABLE));
	post_se(waiter.evd, 2); /* events are still queued and dequeued */
	ck_dat(evd_dequeue(waiter.evd, &event));
	ck_assert_uint_eq((uintptr_t)event.event_data.software_event_data.pointer, 1);
	ck_dat(evd_clear_unwaitable(waiter.evd));
	expect_se(waiter.evd, 2);
}
END_TEST

static volatile sig_atomic_t signals;

static void evd_count_signal(int number)
{
	(void)number;
	signals++;
}

START_TEST(a_signal_interrupts_an_evd_wait)
{
	struct waiter waiter = { .evd = software_evd(8), .timeout = SECONDS(10), .threshold = 2 };
	const struct sigaction action = { .sa_handler = evd_count_signal, .sa_flags = SA_RESTART };

	fake_clock_auto(false);
	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	waiter_start(&waiter);
	post_se(waiter.evd, 1);
	fake_wait_idle(1);
	ck_assert_int_eq(pthread_kill(waiter.thread, SIGUSR1), 0);
	ck_dat_is(waiter_join(&waiter), DAT_ERROR(DAT_INTERRUPTED_CALL, 0));
	ck_assert_int_eq(signals, 1);
	ck_assert_int_eq(waiter.nmore, 1);
	expect_se(waiter.evd, 1);
}
END_TEST

START_TEST(an_abrupt_close_aborts_evd_waits)
{
	struct waiter waiters[] = {
		{ .evd = software_evd(8), .timeout = DAT_TIMEOUT_INFINITE, .threshold = 2 },
		{ .evd = side.recv_evd, .timeout = SECONDS(1), .threshold = 1 },
		{ .evd = side.async_evd, .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 },
	};

	fake_clock_auto(false);
	for (int n = 0; n < COUNT(waiters); n++) {
		waiters[n].thread = 0;
		waiter_start(&waiters[n]);
	}
	fake_wait_idle(COUNT(waiters));
	post_se(waiters[0].evd, 1);
	ck_dat(ia_close(side.ia, DAT_CLOSE_ABRUPT_FLAG));
	for (int n = 0; n < COUNT(waiters); n++) {
		ck_dat_is(waiter_join(&waiters[n]), DAT_ERROR(DAT_ABORT, 0));
		ck_dat_is(evd_wait(waiters[n].evd, 0, 1, &event, &nmore), HANDLE1);
	}
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

/* ---- completions ---- */

/* Connects the pair. The client's endpoint has these completion flags. */
static void evd_connect_with_flags(DAT_COMPLETION_FLAGS recv_flags,
				   DAT_COMPLETION_FLAGS request_flags)
{
	static DAT_EP_ATTR attr;

	side_open(server, "fake1");
	attr = ep_attr_default(server);
	attr.recv_completion_flags = recv_flags;
	attr.request_completion_flags = request_flags;
	client->ep_attr = &attr;
	side_open(client, "fake0");
	pair_connect(&pair);
}

static void *evd_send_from_server(void *arg)
{
	post_send(server, (uintptr_t)arg, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
	return NULL;
}

START_TEST(completions_count_for_the_threshold)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 3 };

	evd_connect_with_flags(DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_DEFAULT_FLAG);
	for (unsigned n = 0; n < 4; n++)
		post_recv(client, n, n * 64, 64, DAT_COMPLETION_DEFAULT_FLAG);
	waiter.evd = client->recv_evd;
	waiter_start(&waiter);
	for (uintptr_t n = 0; n < 2; n++) {
		evd_send_from_server((void *)n);
		fake_wait_idle(1);
	}
	evd_send_from_server((void *)2);
	ck_dat(waiter_join(&waiter));
	ck_assert_uint_eq(waiter.event.event_data.dto_completion_event_data.user_cookie.as_64, 0);
	ck_assert_uint_eq(waiter.event.event_data.dto_completion_event_data.transfered_length, 8);
	ck_assert_int_eq(waiter.nmore, 2);
	expect_dto(client->recv_evd, 1, DAT_DTO_SUCCESS);
	expect_dto(client->recv_evd, 2, DAT_DTO_SUCCESS);
	expect_no_event(client->recv_evd);
	pair_close(&pair);
}
END_TEST

START_TEST(completions_are_dequeued_from_an_unwaitable_evd)
{
	evd_connect_with_flags(DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_DEFAULT_FLAG);
	ck_dat(evd_set_unwaitable(client->recv_evd));
	for (uint64_t n = 0; n < 2; n++) {
		post_recv(client, n, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
		evd_send_from_server(NULL);
		ck_dat(evd_dequeue(client->recv_evd, &event));
		ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, n);
		ck_dat_is(evd_dequeue(client->recv_evd, &event), EMPTY);
	}
	pair_close(&pair);
}
END_TEST

START_TEST(a_wait_that_times_out_keeps_completions)
{
	evd_connect_with_flags(DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_DEFAULT_FLAG);
	post_recv(client, 1, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	evd_send_from_server(NULL);
	ck_dat_is(evd_wait(client->recv_evd, 10, 2, &event, &nmore), TIMED_OUT);
	ck_assert_int_eq(nmore, 1);
	expect_dto(client->recv_evd, 1, DAT_DTO_SUCCESS);
	pair_close(&pair);
}
END_TEST

START_TEST(a_wait_times_out_although_its_channel_stays_readable)
{
	struct waiter waiter = { .timeout = SECONDS(1), .threshold = 2 };

	evd_connect_with_flags(DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_DEFAULT_FLAG);
	fake_quirks(FAKE_STAYS_READABLE);
	post_recv(client, 1, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	waiter.evd = client->recv_evd;
	fake_clock_auto(false);
	waiter_start(&waiter);
	evd_send_from_server(NULL);
	ck_dat_is(waiter_join(&waiter), TIMED_OUT);
	ck_assert_int_eq(waiter.nmore, 1);
	pair_close(&pair);
}
END_TEST

START_TEST(unsignalled_completions_do_not_wake_the_waiter)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };

	evd_connect_with_flags(DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_UNSIGNALLED_FLAG);
	for (unsigned n = 0; n < 3; n++)
		post_recv(server, n, n * 64, 64, DAT_COMPLETION_DEFAULT_FLAG);
	ck_assert_int_eq(evd_query_all(client->request_evd).evd_state &
				 DAT_EVD_STATE_CONFIG_THRESHOLD,
			 DAT_EVD_STATE_CONFIG_NOTIFY);
	ck_dat_is(evd_wait(client->request_evd, 0, 2, &event, &nmore),
		  BAD_STATE(EVD_CONFIG_NOTIFY));
	waiter.evd = client->request_evd;
	waiter_start(&waiter);
	post_send(client, 0, 0, 8, DAT_COMPLETION_UNSIGNALLED_FLAG);
	post_send(client, 1, 0, 8, DAT_COMPLETION_UNSIGNALLED_FLAG);
	fake_wait_idle(1);
	post_send(client, 2, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
	ck_dat(waiter_join(&waiter)); /* returns the oldest event, not the one that woke it up */
	ck_assert_uint_eq(waiter.event.event_data.dto_completion_event_data.user_cookie.as_64, 0);
	ck_assert_int_eq(waiter.nmore, 2);
	expect_dto(client->request_evd, 1, DAT_DTO_SUCCESS);
	expect_dto(client->request_evd, 2, DAT_DTO_SUCCESS);
	pair_close(&pair);
}
END_TEST

START_TEST(a_queued_unsignalled_completion_ends_a_new_wait)
{
	evd_connect_with_flags(DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_UNSIGNALLED_FLAG);
	post_recv(server, 0, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	post_send(client, 5, 0, 8, DAT_COMPLETION_UNSIGNALLED_FLAG);
	expect_dto(client->request_evd, 5, DAT_DTO_SUCCESS);
	pair_close(&pair);
}
END_TEST

START_TEST(a_failure_wakes_the_waiter_even_if_unsignalled)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };

	evd_connect_with_flags(DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_UNSIGNALLED_FLAG);
	fake_hold(true);
	post_send(client, 6, 0, 8, DAT_COMPLETION_UNSIGNALLED_FLAG);
	waiter.evd = client->request_evd;
	waiter_start(&waiter);
	fake_fail_transfer(DAT_DTO_ERR_TRANSPORT);
	ck_assert(fake_step());
	ck_dat(waiter_join(&waiter));
	ck_assert_int_eq(waiter.event.event_data.dto_completion_event_data.status,
			 DAT_DTO_ERR_TRANSPORT);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
}
END_TEST

START_TEST(solicited_mode_waits_for_solicited_receives)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };

	evd_connect_with_flags(DAT_COMPLETION_SOLICITED_WAIT_FLAG, DAT_COMPLETION_DEFAULT_FLAG);
	for (unsigned n = 0; n < 3; n++)
		post_recv(client, n, n * 64, 64, DAT_COMPLETION_DEFAULT_FLAG);
	ck_assert_int_eq(evd_query_all(client->recv_evd).evd_state & DAT_EVD_STATE_CONFIG_THRESHOLD,
			 DAT_EVD_STATE_CONFIG_SOLICITED);
	ck_dat_is(evd_wait(client->recv_evd, 0, 2, &event, &nmore),
		  BAD_STATE(EVD_CONFIG_SOLICITED));
	waiter.evd = client->recv_evd;
	waiter_start(&waiter);
	ck_assert_int_eq(fake_armed(cq_of_evd(client->recv_evd)), FAKE_ARMED_ERRORS);
	post_send(server, 0, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
	fake_wait_idle(1);
	post_send(server, 1, 0, 8, DAT_COMPLETION_SOLICITED_WAIT_FLAG);
	ck_dat(waiter_join(&waiter));
	ck_assert_uint_eq(waiter.event.event_data.dto_completion_event_data.user_cookie.as_64, 0);
	ck_assert_int_eq(waiter.nmore, 1);
	expect_dto(client->recv_evd, 1, DAT_DTO_SUCCESS);
	pair_close(&pair);
}
END_TEST

/* ---- configuration ---- */

#define THRESHOLD_MODE DAT_EVD_STATE_CONFIG_THRESHOLD
#define NOTIFY_MODE    DAT_EVD_STATE_CONFIG_NOTIFY
#define SOLICITED_MODE DAT_EVD_STATE_CONFIG_SOLICITED

#define SOLICITED   DAT_COMPLETION_SOLICITED_WAIT_FLAG
#define UNSIGNALLED DAT_COMPLETION_UNSIGNALLED_FLAG
#define THRESHOLD   DAT_COMPLETION_EVD_THRESHOLD_FLAG

static unsigned mode_of(DAT_EVD_HANDLE evd)
{
	return evd_query_all(evd).evd_state & DAT_EVD_STATE_CONFIG_THRESHOLD;
}

/* Both endpoints receive to recv_evd. */
static const struct mode_case {
	const char *why;
	unsigned first_recv, first_request, second_recv, second_request; /* completion flags */
	bool shared; /* the second endpoint's requests complete at recv_evd, too */
	unsigned first_mode, both_modes, second_mode; /* of recv_evd */
	unsigned request_mode;			      /* of request_evd, with both */
} mode_cases[] = {
	{ "the same modes", THRESHOLD, THRESHOLD, THRESHOLD, THRESHOLD, false, THRESHOLD_MODE,
	  THRESHOLD_MODE, THRESHOLD_MODE, THRESHOLD_MODE },
	{ "the default is the threshold mode", 0, 0, THRESHOLD, THRESHOLD, false, THRESHOLD_MODE,
	  THRESHOLD_MODE, THRESHOLD_MODE, THRESHOLD_MODE },
	{ "one solicited endpoint", 0, 0, SOLICITED, 0, false, THRESHOLD_MODE, THRESHOLD_MODE,
	  SOLICITED_MODE, THRESHOLD_MODE },
	{ "two solicited endpoints", SOLICITED, 0, SOLICITED, 0, false, SOLICITED_MODE,
	  SOLICITED_MODE, SOLICITED_MODE, THRESHOLD_MODE },
	{ "solicited, with requests on the EVD", SOLICITED, 0, SOLICITED, 0, true, SOLICITED_MODE,
	  THRESHOLD_MODE, THRESHOLD_MODE, THRESHOLD_MODE },
	{ "solicited, with unsignalled requests", SOLICITED, 0, SOLICITED, UNSIGNALLED, true,
	  SOLICITED_MODE, THRESHOLD_MODE, THRESHOLD_MODE, THRESHOLD_MODE },
	{ "solicited and unsignalled", SOLICITED, 0, UNSIGNALLED, 0, false, SOLICITED_MODE,
	  THRESHOLD_MODE, NOTIFY_MODE, THRESHOLD_MODE },
	{ "unsignalled requests of one endpoint", 0, 0, 0, UNSIGNALLED, false, THRESHOLD_MODE,
	  THRESHOLD_MODE, THRESHOLD_MODE, THRESHOLD_MODE },
	{ "unsignalled requests of both", 0, UNSIGNALLED, 0, UNSIGNALLED, false, THRESHOLD_MODE,
	  THRESHOLD_MODE, THRESHOLD_MODE, NOTIFY_MODE },
	{ "unsignalled in both directions", UNSIGNALLED, 0, UNSIGNALLED, UNSIGNALLED, true,
	  NOTIFY_MODE, NOTIFY_MODE, NOTIFY_MODE, THRESHOLD_MODE },
	{ "default receives, unsignalled requests", UNSIGNALLED, 0, 0, UNSIGNALLED, true,
	  NOTIFY_MODE, THRESHOLD_MODE, THRESHOLD_MODE, THRESHOLD_MODE },
	{ "flags that configure nothing", SOLICITED | DAT_COMPLETION_SUPPRESS_FLAG,
	  DAT_COMPLETION_SUPPRESS_FLAG, SOLICITED | DAT_COMPLETION_BARRIER_FENCE_FLAG, SOLICITED,
	  false, SOLICITED_MODE, SOLICITED_MODE, SOLICITED_MODE, THRESHOLD_MODE },
};

/* No endpoint is refused, and freeing one may bring a mode back. */
START_TEST(the_mode_is_what_all_endpoints_agree_on)
{
	const struct mode_case *c = &mode_cases[_i];
	DAT_EP_ATTR attr = ep_attr_default(&side);
	DAT_EP_HANDLE first, second;

	ck_dat(ep_free(side.ep));
	ck_assert_uint_eq(mode_of(side.recv_evd), THRESHOLD_MODE);
	attr.recv_completion_flags = c->first_recv;
	attr.request_completion_flags = c->first_request;
	first = side_create_ep(&side, &attr);
	ck_assert_uint_eq(mode_of(side.recv_evd), c->first_mode);
	attr.recv_completion_flags = c->second_recv;
	attr.request_completion_flags = c->second_request;
	for (int round = 0; round < 2; round++) {
		ck_dat(ep_create(side.ia, side.pz, side.recv_evd,
				 c->shared ? side.recv_evd : side.request_evd, side.connect_evd,
				 &attr, &second));
		ck_assert_uint_eq(mode_of(side.recv_evd), c->both_modes);
		ck_assert_uint_eq(mode_of(side.request_evd),
				  c->shared && c->first_request ? NOTIFY_MODE : c->request_mode);
		if (round == 0) {
			ck_dat(ep_free(second));
			ck_assert_uint_eq(mode_of(side.recv_evd), c->first_mode);
		}
	}
	ck_dat(ep_free(first));
	ck_assert_uint_eq(mode_of(side.recv_evd), c->second_mode);
	ck_dat(ep_free(second));
	ck_assert_uint_eq(mode_of(side.recv_evd), THRESHOLD_MODE);
	side.ep = side_create_ep(&side, NULL);
	side_close(&side);
}
END_TEST

START_TEST(a_connection_role_ends_the_solicited_mode)
{
	DAT_EP_ATTR attr = ep_attr_default(&side);
	DAT_EVD_HANDLE evd = side_create_evd(&side, 4, DAT_EVD_DEFAULT_FLAG);
	DAT_EP_HANDLE receiver, other;

	attr.recv_completion_flags = SOLICITED;
	ck_dat(ep_create(side.ia, side.pz, evd, side.request_evd, side.connect_evd, &attr,
			 &receiver));
	ck_assert_uint_eq(mode_of(evd), SOLICITED_MODE);
	ck_dat(ep_create(side.ia, side.pz, side.recv_evd, side.request_evd, evd, NULL, &other));
	ck_assert_uint_eq(mode_of(evd), THRESHOLD_MODE);
	ck_dat(ep_free(other));
	ck_assert_uint_eq(mode_of(evd), SOLICITED_MODE);
	ck_dat(ep_free(receiver));
	ck_dat(evd_free(evd));
	side_close(&side);
}
END_TEST

/*
 * In solicited mode this receive wakes no waiter: it arrives before the mode changes, or after it.
 * The endpoint that changes the mode receives there, or only has its connection events there.
 */
START_TEST(a_waiter_is_armed_anew_when_the_mode_changes)
{
	const bool before = _i & 1, connect_role = _i & 2;
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };
	DAT_EP_ATTR attr;
	DAT_EVD_HANDLE evd;
	DAT_EP_HANDLE other;

	side_open(client, "fake0");
	side_open(server, "fake1");
	evd = side_create_evd(client, 4, DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG);
	attr = ep_attr_default(client);
	attr.recv_completion_flags = SOLICITED;
	ck_dat(ep_free(client->ep));
	ck_dat(ep_create(client->ia, client->pz, evd, client->request_evd, client->connect_evd,
			 &attr, &client->ep));
	pair_connect(&pair);
	post_recv(client, 7, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	waiter.evd = evd;
	waiter_start(&waiter);
	ck_assert_int_eq(fake_armed(cq_of_evd(evd)), FAKE_ARMED_ERRORS);
	if (before) {
		evd_send_from_server(NULL);
		fake_wait_idle(1);
	}
	ck_dat(ep_create(client->ia, client->pz, connect_role ? client->recv_evd : evd,
			 client->request_evd, connect_role ? evd : client->connect_evd, NULL,
			 &other));
	if (!before) {
		fake_wait_idle(1);
		ck_assert_int_eq(fake_armed(cq_of_evd(evd)), FAKE_ARMED_ANY);
		evd_send_from_server(NULL);
	}
	ck_dat(waiter_join(&waiter));
	ck_assert_uint_eq(waiter.event.event_data.dto_completion_event_data.user_cookie.as_64, 7);
}
END_TEST

/* The EVD has a CNO instead of a waiter. */
START_TEST(a_cno_is_triggered_when_the_mode_has_changed)
{
	DAT_EVD_HANDLE hint = POISON;
	DAT_EP_ATTR attr;
	DAT_CNO_HANDLE cno;

	evd_connect_with_flags(SOLICITED, DAT_COMPLETION_DEFAULT_FLAG);
	ck_dat(cno_create(client->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(evd_modify_cno(client->recv_evd, cno));
	post_recv(client, 7, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	fake_wait_idle(0);
	ck_assert_int_eq(fake_armed(cq_of_evd(client->recv_evd)), FAKE_ARMED_ERRORS);
	attr = ep_attr_default(client);
	side_create_ep(client, &attr);
	ck_assert_int_eq(fake_armed(cq_of_evd(client->recv_evd)), FAKE_ARMED_ANY);
	evd_send_from_server(NULL);
	ck_dat(cno_wait(cno, SECONDS(1), &hint));
	ck_assert_ptr_eq(hint, client->recv_evd);
}
END_TEST

/* ---- free under a waiter ---- */

static const unsigned waited_streams[] = { DAT_EVD_SOFTWARE_FLAG, DAT_EVD_DTO_FLAG,
					   DAT_EVD_DEFAULT_FLAG | DAT_EVD_SOFTWARE_FLAG };

START_TEST(evd_free_aborts_the_wait)
{
	const DAT_EVD_FLAGS flags = (DAT_EVD_FLAGS)waited_streams[_i];
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 2 };
	unsigned alive = fake_alive(FAKE_ANY);

	waiter.evd = side_create_evd(&side, 4, flags);
	waiter_start(&waiter);
	if (flags & DAT_EVD_SOFTWARE_FLAG) {
		post_se(waiter.evd, 1);
		fake_wait_idle(1);
	}
	ck_dat(evd_free(waiter.evd));
	ck_assert_uint_eq(fake_alive(FAKE_ANY), alive);
	ck_dat_is(waiter_join(&waiter), DAT_ERROR(DAT_ABORT, 0));
	ck_assert_int_eq(waiter.nmore, flags & DAT_EVD_SOFTWARE_FLAG ? 1 : 0);
	ck_dat_is(evd_wait(waiter.evd, 0, 1, &event, &nmore), HANDLE1);
	ck_dat_is(evd_free(waiter.evd), HANDLE1);
	side_close(&side);
}
END_TEST

START_TEST(evd_free_of_an_evd_in_use_leaves_its_waiter_asleep)
{
	DAT_EVD_HANDLE evd = side_create_evd(&side, 4, DAT_EVD_CR_FLAG | DAT_EVD_SOFTWARE_FLAG);
	struct waiter waiter = { .evd = evd, .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;

	ck_dat(psp_create_any(side.ia, &qual, evd, DAT_PSP_CONSUMER_FLAG, &psp));
	waiter_start(&waiter);
	ck_dat_is(evd_free(evd), BAD_STATE(EVD_IN_USE));
	fake_wait_idle(1);
	ck_dat_is(evd_dequeue(evd, &event), BAD_STATE(EVD_WAITER));
	post_se(evd, 3);
	ck_dat(waiter_join(&waiter));
	ck_assert_uint_eq((uintptr_t)waiter.event.event_data.software_event_data.pointer, 3);
	ck_dat(psp_free(psp));
	ck_dat(evd_free(evd));
	side_close(&side);
}
END_TEST

/* ---- cancellation ---- */

static const int cancel_types[] = { PTHREAD_CANCEL_DEFERRED, PTHREAD_CANCEL_ASYNCHRONOUS };

struct cancelled {
	struct waiter waiter;
	int type; /* of cancellation */
	int state;
	int type_after, state_after;
};

static void *cancelled_main(void *arg)
{
	struct cancelled *thread = arg;
	struct waiter *waiter = &thread->waiter;

	pthread_setcancelstate(thread->state, NULL);
	pthread_setcanceltype(thread->type, NULL);
	waiter->ret = evd_wait(waiter->evd, waiter->timeout, waiter->threshold, &waiter->event,
			       &waiter->nmore);
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &thread->type_after);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &thread->state_after);
	return NULL;
}

static void cancelled_start(struct cancelled *thread, DAT_EVD_HANDLE evd, DAT_COUNT threshold)
{
	thread->waiter = (struct waiter){ .evd = evd,
					  .timeout = DAT_TIMEOUT_INFINITE,
					  .threshold = threshold };
	thread->waiter.thread = consumer_thread_start(cancelled_main, thread);
	fake_wait_idle(1);
}

static void cancel(struct cancelled *thread)
{
	ck_assert_int_eq(pthread_cancel(thread->waiter.thread), 0);
	ck_assert_ptr_eq(consumer_thread_join(thread->waiter.thread), PTHREAD_CANCELED);
}

START_TEST(a_cancelled_evd_wait_leaves_the_evd_as_if_it_had_returned)
{
	struct cancelled thread = { .type = cancel_types[_i] };
	DAT_EVD_HANDLE evd = software_evd(8);

	cancelled_start(&thread, evd, 2);
	post_se(evd, 1);
	fake_wait_idle(1);
	cancel(&thread);
	ck_dat_is(evd_wait(evd, 0, 2, &event, &nmore), TIMED_OUT);
	ck_assert_int_eq(nmore, 1); /* no event was taken */
	ck_dat(evd_dequeue(evd, &event));
	ck_assert_uint_eq((uintptr_t)event.event_data.software_event_data.pointer, 1);
	ck_dat_is(evd_dequeue(evd, &event), EMPTY);
	for (int n = 0; n < 3; n++) { /* other threads wait, and are cancelled, too */
		cancelled_start(&thread, evd, 1);
		cancel(&thread);
	}
	post_se(evd, 2);
	expect_se(evd, 2);
	ck_dat(evd_free(evd));
	side_close(&side);
}
END_TEST

/* The service thread handles a failure that no one polls for. */
START_TEST(a_cancelled_evd_wait_gives_the_completion_channel_back)
{
	struct cancelled thread = { .type = cancel_types[_i] };

	evd_connect_with_flags(DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_DEFAULT_FLAG);
	cancelled_start(&thread, client->request_evd, 1);
	ck_assert_int_eq(fake_armed(cq_of_evd(client->request_evd)), FAKE_ARMED_ANY);
	cancel(&thread);
	fake_hold(true);
	post_send(client, 1, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
	fake_fail_transfer(DAT_DTO_ERR_TRANSPORT);
	ck_assert(fake_step());
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
	expect_dto(client->request_evd, 1, DAT_DTO_ERR_TRANSPORT);
	fake_hold(false);
}
END_TEST

START_TEST(a_wait_keeps_the_cancellation_state_of_its_thread)
{
	struct cancelled thread = { .type = cancel_types[_i & 1],
				    .state = _i & 2 ? PTHREAD_CANCEL_DISABLE
						    : PTHREAD_CANCEL_ENABLE };
	DAT_EVD_HANDLE evd = software_evd(8);

	cancelled_start(&thread, evd, 1);
	if (thread.state == PTHREAD_CANCEL_DISABLE) {
		ck_assert_int_eq(pthread_cancel(thread.waiter.thread), 0);
		fake_wait_idle(1); /* it still sleeps */
		ck_dat_is(evd_dequeue(evd, &event), BAD_STATE(EVD_WAITER));
	}
	post_se(evd, 1);
	ck_assert_ptr_null(consumer_thread_join(thread.waiter.thread));
	ck_dat(thread.waiter.ret);
	ck_assert_uint_eq((uintptr_t)thread.waiter.event.event_data.software_event_data.pointer, 1);
	ck_assert_int_eq(thread.state_after, thread.state);
	ck_assert_int_eq(thread.type_after, thread.type);
}
END_TEST

/* A thread that is woken up and cancelled at once takes the event, or leaves it. */
START_TEST(cancellation_loses_no_event)
{
	struct cancelled thread = { .type = PTHREAD_CANCEL_DEFERRED };
	DAT_EVD_HANDLE evd = software_evd(8);
	void *result;

	for (uintptr_t n = 0; n < 200; n++) {
		cancelled_start(&thread, evd, 1);
		if (n & 1)
			ck_assert_int_eq(pthread_cancel(thread.waiter.thread), 0);
		post_se(evd, n);
		if (!(n & 1))
			ck_assert_int_eq(pthread_cancel(thread.waiter.thread), 0);
		result = consumer_thread_join(thread.waiter.thread);
		if (result == PTHREAD_CANCELED) {
			expect_se(evd, n);
		} else {
			ck_dat(thread.waiter.ret);
			event = thread.waiter.event;
			ck_assert_uint_eq((uintptr_t)event.event_data.software_event_data.pointer,
					  n);
		}
		ck_dat_is(evd_dequeue(evd, &event), EMPTY);
	}
}
END_TEST

/* Even rounds: the EVD is freed; odd ones: its IA is closed. */
START_TEST(a_waiter_may_be_cancelled_while_its_evd_is_destroyed)
{
	struct cancelled thread = { .type = cancel_types[_i >> 1 & 1] };
	DAT_EVD_HANDLE evd = side_create_evd(&side, 8, DAT_EVD_DEFAULT_FLAG);
	void *result;

	cancelled_start(&thread, evd, 1);
	ck_assert_int_eq(pthread_cancel(thread.waiter.thread), 0);
	if (_i & 1)
		ck_dat(ia_close(side.ia, DAT_CLOSE_ABRUPT_FLAG));
	else
		ck_dat(evd_free(evd));
	result = consumer_thread_join(thread.waiter.thread);
	if (result != PTHREAD_CANCELED)
		ck_dat_is(thread.waiter.ret, DAT_ERROR(DAT_ABORT, 0));
	if (!(_i & 1))
		side_close(&side);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

/* The checks of this library are cancellation points. */
static void *post_and_test_cancel(void *arg)
{
	pthread_cancel(pthread_self()); /* pending until a cancellation point */
	(void)try_post_se(arg, 1);
	(void)try_post_se(arg, 2);
	pthread_testcancel();
	return NULL;
}

/* It writes to a descriptor, to wake up the waiter, with the lock of the EVD. */
START_TEST(a_thread_is_not_cancelled_while_it_posts_an_event)
{
	struct waiter waiter = { .evd = software_evd(8),
				 .timeout = DAT_TIMEOUT_INFINITE,
				 .threshold = 1 };
	pthread_t thread;

	waiter_start(&waiter);
	thread = consumer_thread_start(post_and_test_cancel, waiter.evd);
	ck_assert_ptr_eq(consumer_thread_join(thread), PTHREAD_CANCELED);
	ck_dat(waiter_join(&waiter));
	expect_se(waiter.evd, 2);
	expect_no_event(waiter.evd);
}
END_TEST

/* ---- arming ---- */

/* Without an endpoint a wait ends as in threshold mode, and otherwise it does not. */
static const struct {
	DAT_COMPLETION_FLAGS flags;
	unsigned arms;
} last_endpoints[] = {
	{ DAT_COMPLETION_DEFAULT_FLAG, 0 },
	{ DAT_COMPLETION_SOLICITED_WAIT_FLAG, 1 },
	{ DAT_COMPLETION_UNSIGNALLED_FLAG, 1 },
};

START_TEST(the_last_endpoint_of_a_queue_changes_how_waits_end_if_it_had_a_mode)
{
	unsigned arms;

	evd_connect_with_flags(last_endpoints[_i].flags, DAT_COMPLETION_DEFAULT_FLAG);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	fake_wait_idle(0);
	arms = fake_calls("cq_arm");
	ck_dat(ep_free(client->ep));
	client->ep = NULL;
	ck_assert_uint_eq(fake_calls("cq_arm"), arms + last_endpoints[_i].arms);
}
END_TEST

START_TEST(a_queue_without_a_waiter_is_armed_for_errors_only)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };
	struct tp_cq *cq;
	unsigned arms;

	evd_connect_with_flags(DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_DEFAULT_FLAG);
	cq = cq_of_evd(client->recv_evd);
	fake_wait_idle(0);
	ck_assert_int_eq(fake_armed(cq), FAKE_ARMED_ERRORS);
	for (unsigned n = 0; n < 3; n++)
		post_recv(client, n, n * 64, 64, DAT_COMPLETION_DEFAULT_FLAG);
	arms = fake_calls("cq_arm");
	evd_send_from_server(NULL);
	fake_wait_idle(0);
	ck_dat(evd_dequeue(client->recv_evd, &event));
	ck_assert_uint_eq(fake_calls("cq_arm"), arms); /* a poll does not arm */
	waiter.evd = client->recv_evd;
	waiter_start(&waiter);
	ck_assert_int_eq(fake_armed(cq), FAKE_ARMED_ANY);
	evd_send_from_server(NULL);
	ck_dat(waiter_join(&waiter));
	evd_send_from_server(NULL); /* the queue may still be armed for the waiter */
	fake_wait_idle(0);
	ck_assert_int_ne(fake_armed(cq), FAKE_ARMED_ANY);
	pair_close(&pair);
}
END_TEST

START_TEST(a_failure_is_reported_without_polling)
{
	fake_quirks(_i ? FAKE_ARM_ANY : 0);
	evd_connect_with_flags(DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_DEFAULT_FLAG);
	fake_hold(true);
	post_send(client, 1, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
	fake_fail_transfer(DAT_DTO_ERR_TRANSPORT);
	ck_assert(fake_step());
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
	expect_dto(client->request_evd, 1, DAT_DTO_ERR_TRANSPORT);
}
END_TEST

/* ---- full queues, and queues that grow ---- */

/* _i events came and went before. */
START_TEST(a_queue_that_grows_keeps_its_events_in_order)
{
	DAT_EVD_HANDLE evd = side_create_evd(&side, 4, DAT_EVD_SOFTWARE_FLAG);

	for (uintptr_t n = 1; n <= (uintptr_t)_i; n++) {
		post_se(evd, n);
		expect_se(evd, n);
	}
	for (uintptr_t n = 1; n <= 4; n++)
		post_se(evd, n);
	ck_dat(evd_resize(evd, 100));
	for (uintptr_t n = 5; n <= 100; n++)
		post_se(evd, n);
	for (uintptr_t n = 1; n <= 100; n++)
		expect_se(evd, n);
	ck_dat(evd_free(evd));
}
END_TEST

START_TEST(the_event_queue_grows_for_flushes)
{
	DAT_EP_ATTR attr;
	unsigned total = 200;

	side_open(server, "fake1");
	attr = ep_attr_default(server);
	attr.max_recv_dtos = (DAT_COUNT)total;
	client->ep_attr = &attr;
	client->qlen = 1;
	side_open(client, "fake0");
	pair_connect(&pair);
	for (unsigned n = 0; n < total; n++)
		post_recv(client, n, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	for (unsigned n = 0; n < total; n++)
		expect_dto(client->recv_evd, n, DAT_DTO_ERR_FLUSHED);
	expect_no_event(client->recv_evd);
	expect_no_event(client->async_evd); /* no overflow */
	side_close(client);
}
END_TEST

/* The client's EVDs are created with @qlen. Its endpoint reserves slots for @depth receives. */
static void evd_connect_with_qlen(DAT_COUNT qlen, DAT_COUNT depth)
{
	static DAT_EP_ATTR attr;

	side_open(server, "fake1");
	attr = ep_attr_default(server);
	attr.max_recv_dtos = depth;
	client->ep_attr = &attr;
	client->qlen = qlen;
	side_open(client, "fake0");
	pair_connect(&pair);
}

static void evd_connect_with_depth(DAT_COUNT depth)
{
	evd_connect_with_qlen(1, depth);
}

static void evd_send_to_client(unsigned n)
{
	post_recv(client, n, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	post_send(server, n, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	expect_dto(server->request_evd, n, DAT_DTO_SUCCESS);
}

/* The depths 100 to 139 include a power of two. */
START_TEST(a_wake_up_needs_no_memory)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };

	evd_connect_with_depth(100 + _i);
	waiter.evd = client->recv_evd;
	alloc_starve_others(true);
	waiter_start(&waiter);
	evd_send_to_client(1);
	ck_dat(waiter_join(&waiter));
	alloc_starve_others(false);
	ck_assert_uint_eq(waiter.event.event_data.dto_completion_event_data.user_cookie.as_64, 1);
	pair_close(&pair);
}
END_TEST

/*
 * Completions that found no memory do not notify a second time, so the waiter must poll for them
 * again after a while.
 */
START_TEST(a_waiter_retries_completions_that_found_no_memory)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 50 };
	unsigned refused;

	evd_connect_with_qlen(50, 100);
	waiter.evd = client->recv_evd;
	alloc_starve_others(true);
	refused = alloc_refused();
	waiter_start(&waiter);
	for (unsigned n = 0; n < 50; n++)
		evd_send_to_client(n);
	fake_wait_idle(1);
	ck_assert_uint_gt(alloc_refused(), refused);
	alloc_starve_others(false);
	fake_clock_advance(10000000);
	ck_dat(waiter_join(&waiter));
	ck_assert_uint_eq(waiter.event.event_data.dto_completion_event_data.user_cookie.as_64, 0);
	ck_assert_int_eq(waiter.nmore, 49);
	pair_close(&pair);
}
END_TEST

/*
 * Completions that find no memory stay in the completion queue, in order, and can be dequeued one
 * by one.
 */
START_TEST(a_queue_that_can_not_grow_keeps_all_completions)
{
	const DAT_COUNT total = 100;
	DAT_RETURN ret;

	evd_connect_with_depth(total);
	for (unsigned n = 0; n < (unsigned)total; n++)
		evd_send_to_client(n);
	alloc_fail_nth(1);
	ret = evd_wait(client->recv_evd, 0, 1, &event, &nmore);
	ck_assert(alloc_failed());
	ck_dat(ret);
	ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, 0);
	ck_assert_int_lt(nmore, total - 1);
	for (unsigned n = 1; n < (unsigned)total; n++) {
		alloc_fail_nth(1);
		ret = n % 2 ? evd_dequeue(client->recv_evd, &event)
			    : evd_wait(client->recv_evd, 0, 1, &event, &nmore);
		(void)alloc_failed();
		ck_dat(ret);
		ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, n);
	}
	expect_no_event(client->recv_evd);
	expect_no_event(client->async_evd);
	pair_close(&pair);
}
END_TEST

START_TEST(connection_events_have_slots_in_a_full_queue)
{
	client->one_evd = true;
	client->qlen = 1;
	side_open(client, "fake0");
	while (try_post_se(client->connect_evd, 1) == DAT_SUCCESS)
		;
	side_open(server, "fake1");
	server->ep_attr = NULL;
	{
		DAT_EVD_HANDLE cr_evd = server->cr_evd;
		DAT_PSP_HANDLE psp;
		DAT_CONN_QUAL qual;

		ck_dat(psp_create_any(server->ia, &qual, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
		ck_dat(ep_connect(client->ep, (DAT_IA_ADDRESS_PTR)&server->address, qual,
				  DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT,
				  DAT_CONNECT_DEFAULT_FLAG));
		event = expect_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT);
		ck_dat(cr_accept(event.event_data.cr_arrival_event_data.cr_handle, server->ep, 0,
				 NULL));
		expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
		ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
		expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	}
	fake_wait_idle(0);
	do
		ck_dat(evd_dequeue(client->connect_evd, &event));
	while (event.event_number == DAT_SOFTWARE_EVENT);
	ck_assert_int_eq(event.event_number, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_no_event(client->connect_evd);
}
END_TEST

START_TEST(a_request_to_a_full_evd_is_rejected)
{
	DAT_EVD_HANDLE cr_evd;
	DAT_EP_HANDLE eps[20];
	DAT_COUNT room, refused = 0;
	DAT_PSP_HANDLE psp;
	DAT_CONN_QUAL qual;

	side_open(client, "fake1");
	cr_evd = side_create_evd(&side, 2, DAT_EVD_CR_FLAG);
	room = evd_query_all(cr_evd).evd_qlen;
	ck_assert_int_lt(room, COUNT(eps));
	ck_dat(psp_create_any(side.ia, &qual, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	for (int n = 0; n < room + 2; n++) {
		eps[n] = side_create_ep(client, NULL);
		ck_dat(ep_connect(eps[n], (DAT_IA_ADDRESS_PTR)&side.address, qual,
				  DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT,
				  DAT_CONNECT_DEFAULT_FLAG));
		fake_wait_idle(0);
	}
	while (evd_dequeue(client->connect_evd, &event) == DAT_SUCCESS) {
		ck_assert_int_eq(event.event_number, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
		ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle,
				 eps[room + refused++]);
	}
	ck_assert_int_eq(refused, 2);
	for (int n = 0; n < room; n++)
		ck_dat(cr_reject_bare(expect_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT)
					      .event_data.cr_arrival_event_data.cr_handle));
	expect_no_event(cr_evd);
	expect_no_event(side.async_evd);
}
END_TEST

START_TEST(lost_asynchronous_errors_are_one_overflow_event)
{
	struct ia *ia = side.ia;
	DAT_COUNT room = evd_query_all(side.async_evd).evd_qlen;

	for (int n = 0; n < room + 3; n++)
		fake_port_down(ia->dev);
	fake_wait_idle(0);
	for (int n = 0; n < room; n++)
		expect_event(side.async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC);
	event = expect_event(side.async_evd, DAT_ASYNC_ERROR_EVD_OVERFLOW);
	ck_assert_ptr_eq(event.event_data.asynch_error_event_data.dat_handle, side.async_evd);
	ck_assert_int_eq(event.event_data.asynch_error_event_data.reason, DAT_EVD_OVERFLOW_ERROR);
	expect_no_event(side.async_evd);
	fake_port_down(ia->dev);
	expect_event(side.async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC); /* the EVD still works */
	expect_no_event(side.async_evd);
}
END_TEST

START_TEST(an_endpoint_too_large_for_a_fixed_queue_is_refused)
{
	DAT_EP_ATTR attr;
	DAT_EVD_HANDLE evd;
	DAT_EP_HANDLE ep = POISON;
	unsigned alive;

	side_close(&side);
	fake_attr()->caps &= ~(unsigned)TP_CAP_CQ_RESIZE;
	fake_attr()->max_cqe = 1000;
	side_open(&side, "fake0");
	attr = ep_attr_default(&side);
	evd = side_create_evd(&side, 4, DAT_EVD_DTO_FLAG);
	alive = fake_alive(FAKE_ANY);
	attr.max_recv_dtos = attr.max_request_dtos = 600;
	ck_dat_is(ep_create(side.ia, side.pz, evd, evd, side.connect_evd, &attr, &ep),
		  NO_RESOURCE(TEVD));
	ck_assert_ptr_eq(ep, POISON);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), alive);
	ck_dat(evd_free(evd)); /* the EVD is not in use */
	side_close(&side);
}
END_TEST

START_TEST(creating_an_endpoint_grows_the_completion_queue)
{
	DAT_EP_ATTR attr = ep_attr_default(&side);
	DAT_EVD_HANDLE evd = side_create_evd(&side, 1, DAT_EVD_DTO_FLAG);
	DAT_EP_HANDLE eps[10];

	attr.max_recv_dtos = attr.max_request_dtos = 100;
	for (int n = 0; n < COUNT(eps); n++) {
		ck_dat(ep_create(side.ia, side.pz, evd, evd, side.connect_evd, &attr, &eps[n]));
		ck_assert_uint_ge(tp_cq_depth(cq_of_evd(evd)), 200u * (unsigned)(n + 1));
	}
	fake_fail("cq_resize", ENOMEM, 1);
	attr.max_recv_dtos = 8000;
	{
		DAT_EP_HANDLE ep = POISON;

		ck_dat_is(ep_create(side.ia, side.pz, evd, evd, side.connect_evd, &attr, &ep),
			  NO_RESOURCE(TEVD));
		ck_assert_ptr_eq(ep, POISON);
	}
	for (int n = 0; n < COUNT(eps); n++)
		ck_dat(ep_free(eps[n]));
	ck_dat(evd_free(evd));
	side_close(&side);
}
END_TEST

/* ---- resize ---- */

START_TEST(evd_resize_checks_its_arguments_and_keeps_events)
{
	DAT_EVD_HANDLE evd = software_evd(4);

	ck_dat_is(evd_resize(evd, 0), BAD_ARG(2));
	ck_dat_is(evd_resize(evd, -5), BAD_ARG(2));
	ck_dat_is(evd_resize(evd, INT32_MAX), BAD_ARG(2));
	for (uintptr_t n = 0; n < 3; n++)
		post_se(evd, n);
	ck_dat(evd_resize(evd, 100));
	ck_assert_int_ge(evd_query_all(evd).evd_qlen, 100);
	for (uintptr_t n = 3; n < 100; n++)
		post_se(evd, n);
	ck_dat_is(evd_resize(evd, 99), DAT_ERROR(DAT_INVALID_STATE, 0));
	ck_dat(evd_resize(evd, 100));
	for (uintptr_t n = 0; n < 90; n++)
		expect_se(evd, n);
	ck_dat(evd_resize(evd, 10));
	ck_dat_is(try_post_se(evd, 1), DAT_ERROR(DAT_QUEUE_FULL, 0));
	for (uintptr_t n = 90; n < 100; n++)
		expect_se(evd, n);
	expect_no_event(evd);
}
END_TEST

START_TEST(evd_resize_without_memory_changes_nothing)
{
	DAT_EVD_HANDLE evd = software_evd(4);
	unsigned n = 1;
	DAT_RETURN ret;

	for (uintptr_t i = 0; i < 4; i++)
		post_se(evd, i);
	for (; alloc_fail_nth(n), ret = evd_resize(evd, 100), alloc_failed(); n++) {
		ck_dat_is(ret, NO_RESOURCE(MEMORY));
		ck_assert_int_eq(evd_query_all(evd).evd_qlen, 4);
		ck_dat_is(try_post_se(evd, 9), DAT_ERROR(DAT_QUEUE_FULL, 0));
	}
	ck_dat(ret);
	ck_assert_uint_eq(n, 2);
	for (uintptr_t i = 4; i < 100; i++)
		post_se(evd, i);
	for (uintptr_t i = 0; i < 100; i++)
		expect_se(evd, i);
	expect_no_event(evd);
}
END_TEST

START_TEST(evd_resize_resizes_the_completion_queue)
{
	evd_connect_with_flags(DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_DEFAULT_FLAG);
	for (unsigned n = 0; n < 3; n++) {
		post_recv(client, n, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
		evd_send_from_server(NULL);
	}
	ck_dat_is(evd_resize(client->recv_evd, 2), DAT_ERROR(DAT_INVALID_STATE, 0));
	ck_dat(evd_resize(client->recv_evd, 500));
	ck_assert_uint_ge(tp_cq_depth(cq_of_evd(client->recv_evd)), 500);
	fake_fail("cq_resize", ENOMEM, 1);
	ck_dat_is(evd_resize(client->recv_evd, 5000), NO_RESOURCE(TEVD));
	ck_assert_int_eq(evd_query_all(client->recv_evd).evd_qlen, 500);
	for (unsigned n = 0; n < 3; n++)
		expect_dto(client->recv_evd, n, DAT_DTO_SUCCESS);
	pair_close(&pair);
}
END_TEST

/* ---- threads ---- */

#define PER_POSTER 500
#define POSTERS	   2
#define TAKERS	   3

static DAT_EVD_HANDLE busy_evd;
static atomic_uint taken[POSTERS * PER_POSTER], taken_total;

static void *evd_post_events(void *arg)
{
	uintptr_t base = (uintptr_t)arg * PER_POSTER;

	for (uintptr_t n = 0; n < PER_POSTER;)
		if (try_post_se(busy_evd, base + n) == DAT_SUCCESS)
			n++;
		else
			sched_yield();
	return NULL;
}

static void evd_count_event(const DAT_EVENT *got)
{
	atomic_fetch_add(&taken[(uintptr_t)got->event_data.software_event_data.pointer], 1);
	atomic_fetch_add(&taken_total, 1);
}

/* Only one thread can wait. The others are refused, and try again. */
static void *evd_take_events(void *arg)
{
	DAT_EVENT got;
	DAT_COUNT more;

	while (atomic_load(&taken_total) < POSTERS * PER_POSTER) {
		if (arg && evd_wait(busy_evd, 0, 2, &got, &more) == DAT_SUCCESS)
			evd_count_event(&got);
		else if (evd_dequeue(busy_evd, &got) == DAT_SUCCESS)
			evd_count_event(&got);
		else
			sched_yield();
	}
	return NULL;
}

START_TEST(each_event_is_delivered_once)
{
	pthread_t posters[POSTERS], takers[TAKERS];

	busy_evd = software_evd(16);
	for (uintptr_t n = 0; n < POSTERS; n++)
		posters[n] = consumer_thread_start(evd_post_events, (void *)n);
	for (uintptr_t n = 0; n < TAKERS; n++)
		takers[n] = consumer_thread_start(evd_take_events, (void *)n);
	for (int n = 0; n < POSTERS; n++)
		consumer_thread_join(posters[n]);
	for (int n = 0; n < TAKERS; n++)
		consumer_thread_join(takers[n]);
	for (int n = 0; n < POSTERS * PER_POSTER; n++)
		ck_assert_uint_eq(atomic_load(&taken[n]), 1);
	expect_no_event(busy_evd);
}
END_TEST

static void *evd_wait_for_events(void *arg)
{
	DAT_EVENT got;
	DAT_COUNT more;

	(void)arg;
	for (uintptr_t n = 0; n < PER_POSTER; n++) {
		ck_dat(evd_wait(busy_evd, DAT_TIMEOUT_INFINITE, 1, &got, &more));
		ck_assert_uint_eq((uintptr_t)got.event_data.software_event_data.pointer, n);
	}
	return NULL;
}

START_TEST(no_wake_up_is_lost)
{
	pthread_t thread;

	busy_evd = software_evd(2);
	thread = consumer_thread_start(evd_wait_for_events, NULL);
	evd_post_events(NULL);
	consumer_thread_join(thread);
	expect_no_event(busy_evd);
}
END_TEST

#define MESSAGES 300

static void *evd_receive_messages(void *arg)
{
	DAT_EVENT got;
	DAT_COUNT more;

	(void)arg;
	for (uint64_t n = 0; n < MESSAGES; n++) {
		ck_dat(evd_wait(client->recv_evd, DAT_TIMEOUT_INFINITE, 1, &got, &more));
		ck_assert_int_eq(got.event_data.dto_completion_event_data.status, DAT_DTO_SUCCESS);
		ck_assert_uint_eq(got.event_data.dto_completion_event_data.user_cookie.as_64, n);
		if (n + 8 < MESSAGES)
			post_recv(client, n + 8, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	}
	return NULL;
}

START_TEST(a_waiter_misses_no_completion)
{
	pthread_t thread;

	evd_connect_with_flags(DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_DEFAULT_FLAG);
	for (unsigned n = 0; n < 8; n++)
		post_recv(client, n, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	thread = consumer_thread_start(evd_receive_messages, NULL);
	for (uint64_t n = 0; n < MESSAGES; n++) {
		post_send(server, n, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
		expect_dto(server->request_evd, n, DAT_DTO_SUCCESS);
	}
	consumer_thread_join(thread);
	pair_close(&pair);
}
END_TEST

static void add_evd_side_cases(void)
{
	TCase *cases = tcase_create("one");

	tcase_add_checked_fixture(cases, evd_setup_side, NULL);
	tcase_add_loop_test(cases, a_queue_that_grows_keeps_its_events_in_order, 0, 10);
	tcase_add_loop_test(cases, evd_create_checks_its_arguments, 0, COUNT(creations));
	tcase_add_test(cases, evd_create_checks_handles_first);
	tcase_add_test(cases, only_completion_streams_need_a_completion_queue);
	tcase_add_test(cases, a_failed_evd_create_changes_nothing);
	tcase_add_loop_test(cases, evd_create_without_memory_changes_nothing, 0, COUNT(streams));
	tcase_add_test(cases, evd_create_without_descriptors_changes_nothing);
	tcase_add_test(cases, a_query_returns_state_flags_and_cno);
	tcase_add_test(cases, evd_free_is_refused_while_in_use);
	tcase_add_test(cases, evd_free_discards_queued_events);
	tcase_add_test(cases, events_are_dequeued_in_order);
	tcase_add_test(cases, post_se_checks_its_arguments);
	tcase_add_test(cases, a_full_queue_refuses_software_events);
	tcase_add_test(cases, evd_wait_checks_its_arguments);
	tcase_add_test(cases, a_reached_threshold_ends_a_wait_at_once);
	tcase_add_loop_test(cases, evd_wait_times_out_exactly, 0, COUNT(timeouts));
	tcase_add_test(cases, events_below_the_threshold_do_not_extend_a_wait);
	tcase_add_test(cases, the_threshold_wakes_the_waiter);
	tcase_add_test(cases, other_calls_are_refused_while_a_thread_waits);
	tcase_add_test(cases, set_unwaitable_ends_and_refuses_waits);
	tcase_add_test(cases, a_signal_interrupts_an_evd_wait);
	tcase_add_test(cases, an_abrupt_close_aborts_evd_waits);
	tcase_add_loop_test(cases, the_mode_is_what_all_endpoints_agree_on, 0, COUNT(mode_cases));
	tcase_add_test(cases, a_connection_role_ends_the_solicited_mode);
	tcase_add_loop_test(cases, evd_free_aborts_the_wait, 0, COUNT(waited_streams));
	tcase_add_test(cases, evd_free_of_an_evd_in_use_leaves_its_waiter_asleep);
	tcase_add_loop_test(cases, a_wait_keeps_the_cancellation_state_of_its_thread, 0, 4);
	tcase_add_test(cases, a_thread_is_not_cancelled_while_it_posts_an_event);
	tcase_add_test(cases, a_request_to_a_full_evd_is_rejected);
	tcase_add_test(cases, lost_asynchronous_errors_are_one_overflow_event);
	tcase_add_test(cases, an_endpoint_too_large_for_a_fixed_queue_is_refused);
	tcase_add_test(cases, creating_an_endpoint_grows_the_completion_queue);
	tcase_add_test(cases, evd_resize_checks_its_arguments_and_keeps_events);
	tcase_add_test(cases, evd_resize_without_memory_changes_nothing);
	tcase_add_test(cases, each_event_is_delivered_once);
	tcase_add_test(cases, no_wake_up_is_lost);
}

static void add_evd_pair_cases(void)
{
	TCase *cases = tcase_create("pairs");

	tcase_add_test(cases, completions_count_for_the_threshold);
	tcase_add_test(cases, completions_are_dequeued_from_an_unwaitable_evd);
	tcase_add_test(cases, a_wait_that_times_out_keeps_completions);
	tcase_add_test(cases, a_wait_times_out_although_its_channel_stays_readable);
	tcase_add_test(cases, unsignalled_completions_do_not_wake_the_waiter);
	tcase_add_test(cases, a_queued_unsignalled_completion_ends_a_new_wait);
	tcase_add_test(cases, a_failure_wakes_the_waiter_even_if_unsignalled);
	tcase_add_test(cases, solicited_mode_waits_for_solicited_receives);
	tcase_add_loop_test(cases, a_waiter_is_armed_anew_when_the_mode_changes, 0, 4);
	tcase_add_test(cases, a_cno_is_triggered_when_the_mode_has_changed);
	tcase_add_test(cases, a_queue_without_a_waiter_is_armed_for_errors_only);
	tcase_add_loop_test(cases,
			    the_last_endpoint_of_a_queue_changes_how_waits_end_if_it_had_a_mode, 0,
			    COUNT(last_endpoints));
	tcase_add_loop_test(cases, a_failure_is_reported_without_polling, 0, 2);
	tcase_add_test(cases, the_event_queue_grows_for_flushes);
	tcase_add_loop_test(cases, a_wake_up_needs_no_memory, 0, 40);
	tcase_add_test(cases, a_waiter_retries_completions_that_found_no_memory);
	tcase_add_test(cases, a_queue_that_can_not_grow_keeps_all_completions);
	tcase_add_test(cases, connection_events_have_slots_in_a_full_queue);
	tcase_add_test(cases, evd_resize_resizes_the_completion_queue);
	tcase_add_test(cases, a_waiter_misses_no_completion);
}

static void add_evd_cancellation_cases(void)
{
	TCase *cases = tcase_create("cancelled threads");

	tcase_add_checked_fixture(cases, evd_setup_side, NULL);
	tcase_add_loop_test(cases, a_cancelled_evd_wait_leaves_the_evd_as_if_it_had_returned, 0,
			    COUNT(cancel_types));
	tcase_add_test(cases, cancellation_loses_no_event);
	tcase_add_loop_test(cases, a_waiter_may_be_cancelled_while_its_evd_is_destroyed, 0, 20);
	cases = tcase_create("cancelled threads with completions");
	tcase_add_loop_test(cases, a_cancelled_evd_wait_gives_the_completion_channel_back, 0,
			    COUNT(cancel_types));
}

int main(int argc, char **argv)
{
	add_evd_side_cases();
	add_evd_pair_cases();
	if (CAN_CANCEL_THREADS)
		add_evd_cancellation_cases();
	return run_unit_cases(argc, argv);
}
