/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event dispatchers: what they take, how they wait and notify, what happens when they are full, and
 * how they end.
 */
#include <signal.h>

#include "alloc.h"
#include "harness.h"

#define EMPTY	  ((DAT_RETURN)DAT_QUEUE_EMPTY) /* bare: an answer */
#define TIMED_OUT DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0)
#define HANDLE1	  DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1)

static struct side side;
static struct pair pair;
static DAT_EVENT event;
static DAT_COUNT nmore;

static void open_side(void)
{
	side_open(&side, "fake0");
}

static struct tp_cq *cq_of(DAT_EVD_HANDLE evd)
{
	return ((struct evd *)evd)->cq;
}

static DAT_EVD_HANDLE software_evd(DAT_COUNT qlen)
{
	return side_create_evd(&side, qlen, DAT_EVD_SOFTWARE_FLAG);
}

static DAT_EVD_PARAM query(DAT_EVD_HANDLE evd)
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
	{ "no length", 0, DAT_EVD_DTO_FLAG, BAD_ARG(2) },
	{ "negative length", -1, DAT_EVD_DTO_FLAG, BAD_ARG(2) },
	{ "too long", INT32_MAX, DAT_EVD_DTO_FLAG, NO_RESOURCE(TEVD) },
	{ "no flags", 1, 0, BAD_ARG(4) },
	{ "unknown flag", 1, 0x2, BAD_ARG(4) },
	{ "unknown flag among known ones", 1, DAT_EVD_DTO_FLAG | 0x1000, BAD_ARG(4) },
	{ "software", 1, DAT_EVD_SOFTWARE_FLAG, DAT_SUCCESS },
	{ "asynchronous", 1, DAT_EVD_ASYNC_FLAG, DAT_SUCCESS },
	{ "default", 1, DAT_EVD_DEFAULT_FLAG, DAT_SUCCESS },
	{ "all streams", 1, DAT_EVD_DEFAULT_FLAG | DAT_EVD_SOFTWARE_FLAG, DAT_SUCCESS },
};

START_TEST(create_checks_its_arguments)
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

START_TEST(create_checks_handles_first)
{
	DAT_EVD_HANDLE evd = POISON;

	ck_dat_is(evd_create(side.pz, 0, DAT_HANDLE_NULL, 0, NULL), BAD_HANDLE(IA));
	ck_dat_is(evd_create(side.ia, 0, side.pz, 0, NULL), BAD_HANDLE(CNO));
	ck_dat_is(evd_create(side.ia, 0, DAT_HANDLE_NULL, 0, NULL), BAD_ARG(5));
	ck_dat_is(evd_create(side.ia, 0, DAT_HANDLE_NULL, 0, &evd), BAD_ARG(2));
}
END_TEST

START_TEST(only_completions_need_a_queue_of_the_device)
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

START_TEST(every_failure_of_create_unwinds)
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
	ck_dat(cno_free(cno)); /* nobody holds it */
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

/* So many that the memory of objects has to grow, too. */
START_TEST(create_runs_out_of_memory)
{
	const DAT_EVD_FLAGS flags = (DAT_EVD_FLAGS)streams[_i];
	DAT_CNO_HANDLE cno;
	DAT_RETURN ret;

	ck_dat(cno_create(side.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	fake_settle(0); /* the service thread takes a descriptor of the fake's as it begins */
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
		ck_assert_uint_ge(n, 2); /* its queue, at least */
	}
	ck_dat(ia_close(side.ia, DAT_CLOSE_ABRUPT_FLAG));
	free(side.memory);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

/* One of its own, and one of the queue below. */
START_TEST(create_runs_out_of_descriptors)
{
	unsigned before = fake_alive(FAKE_ANY);
	DAT_EVD_HANDLE evd = POISON;

	for (unsigned n = 0; n < 2; n++) {
		limit_descriptors(n);
		ck_dat_is(evd_create(side.ia, 4, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd),
			  NO_RESOURCE(TEVD));
		ck_assert_ptr_eq(evd, POISON);
		ck_assert_uint_eq(fake_alive(FAKE_ANY), before);
	}
	limit_descriptors(2);
	ck_dat(evd_create(side.ia, 4, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd));
	limit_descriptors(20);
}
END_TEST

START_TEST(query_tells_all)
{
	DAT_CNO_HANDLE cno;
	DAT_EVD_HANDLE evd;
	DAT_EVD_PARAM param;

	ck_dat(cno_create(side.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(evd_create(side.ia, 5, cno, DAT_EVD_SOFTWARE_FLAG | DAT_EVD_CR_FLAG, &evd));
	param = query(evd);
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
	param = query(evd);
	ck_assert_int_eq(param.evd_state, DAT_EVD_STATE_DISABLED | DAT_EVD_STATE_UNWAITABLE |
						  DAT_EVD_STATE_CONFIG_THRESHOLD);
	ck_assert_ptr_eq(param.cno_handle, DAT_HANDLE_NULL);
	ck_dat(evd_enable(evd));
	ck_dat(evd_clear_unwaitable(evd));
	ck_assert_int_eq(query(evd).evd_state, DAT_EVD_STATE_ENABLED | DAT_EVD_STATE_WAITABLE |
						       DAT_EVD_STATE_CONFIG_THRESHOLD);
	ck_dat_is(evd_query(evd, 0, NULL), BAD_ARG(3));
	ck_dat_is(evd_query(evd, 0x1000, &param), BAD_ARG(2));
	ck_dat(evd_query(evd, 0, &param));
}
END_TEST

START_TEST(free_is_refused_while_it_is_fed)
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

START_TEST(free_loses_what_is_queued)
{
	DAT_EVD_HANDLE evd = software_evd(4);

	post_se(evd, 1);
	ck_dat(evd_free(evd));
	side_close(&side);
}
END_TEST

/* ---- software events, dequeue ---- */

START_TEST(events_come_out_as_they_went_in)
{
	DAT_EVD_HANDLE evd = software_evd(8);
	uintptr_t in = 0, out = 0;

	ck_dat_is(evd_dequeue(evd, &event), EMPTY);
	for (int round = 0; round < 20; round++) { /* once around the queue, and again */
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
	DAT_COUNT qlen = query(evd).evd_qlen;

	for (DAT_COUNT n = 0; n < qlen; n++)
		post_se(evd, (uintptr_t)n);
	ck_dat_is(try_post_se(evd, 99), DAT_ERROR(DAT_QUEUE_FULL, 0));
	ck_dat(evd_dequeue(evd, &event));
	post_se(evd, (uintptr_t)qlen);
	ck_dat_is(try_post_se(evd, 99), DAT_ERROR(DAT_QUEUE_FULL, 0));
	for (DAT_COUNT n = 1; n <= qlen; n++)
		expect_se(evd, (uintptr_t)n);
	expect_no_event(evd);
	expect_no_event(side.async_evd); /* the poster was told: no error event */
}
END_TEST

/* ---- waiting ---- */

START_TEST(wait_checks_its_arguments)
{
	DAT_EVD_HANDLE evd = software_evd(4);
	DAT_COUNT qlen = query(evd).evd_qlen;

	ck_dat_is(evd_wait(evd, 0, 1, NULL, &nmore), BAD_ARG(4));
	ck_dat_is(evd_wait(evd, 0, 1, &event, NULL), BAD_ARG(5));
	ck_dat_is(evd_wait(evd, 0, 0, &event, &nmore), BAD_ARG(3));
	ck_dat_is(evd_wait(evd, 0, -1, &event, &nmore), BAD_ARG(3));
	ck_dat_is(evd_wait(evd, 0, qlen + 1, &event, &nmore), BAD_ARG(3));
	ck_dat_is(evd_wait(evd, 0, qlen, &event, &nmore), TIMED_OUT);
}
END_TEST

START_TEST(enough_events_end_a_wait_at_once)
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
 * To the nanosecond, beyond what 32 bits of microseconds hold when added up; what is there stays.
 */
START_TEST(a_wait_times_out_exactly)
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

/* The deadline is computed once: events that are too few do not put it off. */
START_TEST(too_few_events_do_not_put_the_deadline_off)
{
	struct waiter waiter = { .evd = software_evd(8), .timeout = SECONDS(10), .threshold = 3 };

	fake_clock_auto(false);
	waiter_start(&waiter);
	fake_clock_advance(9 * 1000000000ULL);
	post_se(waiter.evd, 1);
	fake_settle(1);
	fake_clock_advance(1000000000ULL - 1);
	post_se(waiter.evd, 2);
	fake_settle(1);
	fake_clock_advance(1);
	ck_dat_is(waiter_join(&waiter), TIMED_OUT);
	ck_assert_int_eq(waiter.nmore, 2);
}
END_TEST

START_TEST(the_threshold_wakes)
{
	struct waiter waiter = { .evd = software_evd(8),
				 .timeout = DAT_TIMEOUT_INFINITE,
				 .threshold = 3 };

	waiter_start(&waiter);
	for (uintptr_t n = 0; n < 2; n++) {
		post_se(waiter.evd, n);
		fake_settle(1);
	}
	post_se(waiter.evd, 2);
	ck_dat(waiter_join(&waiter));
	ck_assert_uint_eq((uintptr_t)waiter.event.event_data.software_event_data.pointer, 0);
	ck_assert_int_eq(waiter.nmore, 2);
	expect_se(waiter.evd, 1);
	expect_se(waiter.evd, 2);
}
END_TEST

START_TEST(a_waiter_is_alone)
{
	struct waiter waiter = { .evd = software_evd(8),
				 .timeout = DAT_TIMEOUT_INFINITE,
				 .threshold = 2 };

	waiter_start(&waiter);
	post_se(waiter.evd, 1);
	ck_dat_is(evd_wait(waiter.evd, 0, 1, &event, &nmore), BAD_STATE(EVD_WAITER));
	ck_dat_is(evd_dequeue(waiter.evd, &event), BAD_STATE(EVD_WAITER));
	ck_dat_is(evd_free(waiter.evd), BAD_STATE(EVD_WAITER));
	ck_dat_is(evd_resize(waiter.evd, 20), BAD_STATE(EVD_WAITER));
	post_se(waiter.evd, 2);
	ck_dat(waiter_join(&waiter));
	ck_assert_int_eq(waiter.nmore, 1);
	expect_se(waiter.evd, 2);
	ck_dat(evd_free(waiter.evd));
}
END_TEST

START_TEST(unwaitable_refuses_and_ends_a_wait)
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
	post_se(waiter.evd, 2); /* arrival and dequeue go on */
	ck_dat(evd_dequeue(waiter.evd, &event));
	ck_assert_uint_eq((uintptr_t)event.event_data.software_event_data.pointer, 1);
	ck_dat(evd_clear_unwaitable(waiter.evd));
	expect_se(waiter.evd, 2);
}
END_TEST

static volatile sig_atomic_t signals;

static void on_signal(int number)
{
	(void)number;
	signals++;
}

START_TEST(a_signal_interrupts_a_wait)
{
	struct waiter waiter = { .evd = software_evd(8), .timeout = SECONDS(10), .threshold = 2 };
	const struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	fake_clock_auto(false);
	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	waiter_start(&waiter);
	post_se(waiter.evd, 1);
	fake_settle(1);
	ck_assert_int_eq(pthread_kill(waiter.thread, SIGUSR1), 0);
	ck_dat_is(waiter_join(&waiter), DAT_ERROR(DAT_INTERRUPTED_CALL, 0));
	ck_assert_int_eq(signals, 1);
	ck_assert_int_eq(waiter.nmore, 1);
	expect_se(waiter.evd, 1);
}
END_TEST

START_TEST(an_abrupt_close_aborts_a_wait)
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
	fake_settle(COUNT(waiters));
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

/* An endpoint at each side, connected; a's receives and requests are what the caller wants. */
static void connect_with(DAT_COMPLETION_FLAGS recv_flags, DAT_COMPLETION_FLAGS request_flags)
{
	static DAT_EP_ATTR attr;

	side_open(&pair.server, "fake1");
	attr = ep_attr_default(&pair.server);
	attr.recv_completion_flags = recv_flags;
	attr.request_completion_flags = request_flags;
	pair.client.ep_attr = &attr;
	side_open(&pair.client, "fake0");
	pair_connect(&pair);
}

static void *sender(void *arg)
{
	post_send(&pair.server, (uintptr_t)arg, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
	return NULL;
}

START_TEST(completions_count_for_the_threshold)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 3 };

	connect_with(DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_DEFAULT_FLAG);
	for (unsigned n = 0; n < 4; n++)
		post_recv(&pair.client, n, n * 64, 64, DAT_COMPLETION_DEFAULT_FLAG);
	waiter.evd = pair.client.recv_evd;
	waiter_start(&waiter);
	for (uintptr_t n = 0; n < 2; n++) {
		sender((void *)n);
		fake_settle(1);
	}
	sender((void *)2);
	ck_dat(waiter_join(&waiter));
	ck_assert_uint_eq(waiter.event.event_data.dto_completion_event_data.user_cookie.as_64, 0);
	ck_assert_uint_eq(waiter.event.event_data.dto_completion_event_data.transfered_length, 8);
	ck_assert_int_eq(waiter.nmore, 2);
	expect_dto(pair.client.recv_evd, 1, DAT_DTO_SUCCESS);
	expect_dto(pair.client.recv_evd, 2, DAT_DTO_SUCCESS);
	expect_no_event(pair.client.recv_evd);
	pair_close(&pair);
}
END_TEST

START_TEST(an_unwaitable_evd_gives_completions)
{
	connect_with(DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_DEFAULT_FLAG);
	ck_dat(evd_set_unwaitable(pair.client.recv_evd));
	for (uint64_t n = 0; n < 2; n++) {
		post_recv(&pair.client, n, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
		sender(NULL);
		ck_dat(evd_dequeue(pair.client.recv_evd, &event));
		ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, n);
		ck_dat_is(evd_dequeue(pair.client.recv_evd, &event), EMPTY);
	}
	pair_close(&pair);
}
END_TEST

START_TEST(a_wait_for_completions_times_out_with_what_is_there)
{
	connect_with(DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_DEFAULT_FLAG);
	post_recv(&pair.client, 1, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	sender(NULL);
	ck_dat_is(evd_wait(pair.client.recv_evd, 10, 2, &event, &nmore), TIMED_OUT);
	ck_assert_int_eq(nmore, 1);
	expect_dto(pair.client.recv_evd, 1, DAT_DTO_SUCCESS);
	pair_close(&pair);
}
END_TEST

START_TEST(unsignalled_completions_end_no_wait)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };

	connect_with(DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_UNSIGNALLED_FLAG);
	for (unsigned n = 0; n < 3; n++)
		post_recv(&pair.server, n, n * 64, 64, DAT_COMPLETION_DEFAULT_FLAG);
	ck_assert_int_eq(query(pair.client.request_evd).evd_state & DAT_EVD_STATE_CONFIG_THRESHOLD,
			 DAT_EVD_STATE_CONFIG_NOTIFY);
	ck_dat_is(evd_wait(pair.client.request_evd, 0, 2, &event, &nmore),
		  BAD_STATE(EVD_CONFIG_NOTIFY));
	waiter.evd = pair.client.request_evd;
	waiter_start(&waiter);
	post_send(&pair.client, 0, 0, 8, DAT_COMPLETION_UNSIGNALLED_FLAG);
	post_send(&pair.client, 1, 0, 8, DAT_COMPLETION_UNSIGNALLED_FLAG);
	fake_settle(1);
	post_send(&pair.client, 2, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
	ck_dat(waiter_join(&waiter)); /* with the oldest, whatever woke it */
	ck_assert_uint_eq(waiter.event.event_data.dto_completion_event_data.user_cookie.as_64, 0);
	ck_assert_int_eq(waiter.nmore, 2);
	expect_dto(pair.client.request_evd, 1, DAT_DTO_SUCCESS);
	expect_dto(pair.client.request_evd, 2, DAT_DTO_SUCCESS);
	pair_close(&pair);
}
END_TEST

START_TEST(queued_events_end_a_wait_that_begins_whatever_their_kind)
{
	connect_with(DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_UNSIGNALLED_FLAG);
	post_recv(&pair.server, 0, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	post_send(&pair.client, 5, 0, 8, DAT_COMPLETION_UNSIGNALLED_FLAG);
	expect_dto(pair.client.request_evd, 5, DAT_DTO_SUCCESS);
	pair_close(&pair);
}
END_TEST

START_TEST(failures_always_notify)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };

	connect_with(DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_UNSIGNALLED_FLAG);
	fake_hold(true);
	post_send(&pair.client, 6, 0, 8, DAT_COMPLETION_UNSIGNALLED_FLAG);
	waiter.evd = pair.client.request_evd;
	waiter_start(&waiter);
	fake_fail_transfer(DAT_DTO_ERR_TRANSPORT);
	ck_assert(fake_step());
	ck_dat(waiter_join(&waiter));
	ck_assert_int_eq(waiter.event.event_data.dto_completion_event_data.status,
			 DAT_DTO_ERR_TRANSPORT);
	expect_event(pair.client.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
}
END_TEST

START_TEST(solicited_mode_waits_for_solicited_receives)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };

	connect_with(DAT_COMPLETION_SOLICITED_WAIT_FLAG, DAT_COMPLETION_DEFAULT_FLAG);
	for (unsigned n = 0; n < 3; n++)
		post_recv(&pair.client, n, n * 64, 64, DAT_COMPLETION_DEFAULT_FLAG);
	ck_assert_int_eq(query(pair.client.recv_evd).evd_state & DAT_EVD_STATE_CONFIG_THRESHOLD,
			 DAT_EVD_STATE_CONFIG_SOLICITED);
	ck_dat_is(evd_wait(pair.client.recv_evd, 0, 2, &event, &nmore),
		  BAD_STATE(EVD_CONFIG_SOLICITED));
	waiter.evd = pair.client.recv_evd;
	waiter_start(&waiter);
	ck_assert_int_eq(fake_armed(cq_of(pair.client.recv_evd)), FAKE_ARMED_ERRORS);
	post_send(&pair.server, 0, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
	fake_settle(1);
	post_send(&pair.server, 1, 0, 8, DAT_COMPLETION_SOLICITED_WAIT_FLAG);
	ck_dat(waiter_join(&waiter));
	ck_assert_uint_eq(waiter.event.event_data.dto_completion_event_data.user_cookie.as_64, 0);
	ck_assert_int_eq(waiter.nmore, 1);
	expect_dto(pair.client.recv_evd, 1, DAT_DTO_SUCCESS);
	pair_close(&pair);
}
END_TEST

/* ---- configuration ---- */

static const struct {
	const char *why;
	unsigned first_recv, first_request, then_recv, then_request;
	bool shared; /* one EVD for both directions of the second */
	DAT_RETURN want;
} configurations[] = {
	{ "same", DAT_COMPLETION_EVD_THRESHOLD_FLAG, DAT_COMPLETION_EVD_THRESHOLD_FLAG,
	  DAT_COMPLETION_EVD_THRESHOLD_FLAG, DAT_COMPLETION_EVD_THRESHOLD_FLAG, false,
	  DAT_SUCCESS },
	{ "default is threshold", 0, 0, DAT_COMPLETION_EVD_THRESHOLD_FLAG,
	  DAT_COMPLETION_EVD_THRESHOLD_FLAG, false, DAT_SUCCESS },
	{ "another for receives", 0, 0, DAT_COMPLETION_SOLICITED_WAIT_FLAG, 0, false, BAD_ARG(6) },
	{ "another for requests", 0, 0, 0, DAT_COMPLETION_UNSIGNALLED_FLAG, false, BAD_ARG(6) },
	{ "solicited twice", DAT_COMPLETION_SOLICITED_WAIT_FLAG, 0,
	  DAT_COMPLETION_SOLICITED_WAIT_FLAG, 0, false, DAT_SUCCESS },
	{ "solicited with requests", DAT_COMPLETION_SOLICITED_WAIT_FLAG, 0,
	  DAT_COMPLETION_SOLICITED_WAIT_FLAG, 0, true, BAD_ARG(6) },
	{ "unsignalled both ways", DAT_COMPLETION_UNSIGNALLED_FLAG, 0,
	  DAT_COMPLETION_UNSIGNALLED_FLAG, DAT_COMPLETION_UNSIGNALLED_FLAG, true, DAT_SUCCESS },
	{ "unsignalled one way", DAT_COMPLETION_UNSIGNALLED_FLAG, 0,
	  DAT_COMPLETION_UNSIGNALLED_FLAG, 0, true, BAD_ARG(6) },
};

START_TEST(the_first_endpoint_decides)
{
	DAT_EP_ATTR attr = ep_attr_default(&side);
	DAT_EP_HANDLE first, then = POISON;
	unsigned alive;

	ck_dat(ep_free(side.ep)); /* it decided already */
	attr.recv_completion_flags = configurations[_i].first_recv;
	attr.request_completion_flags = configurations[_i].first_request;
	first = side_create_ep(&side, &attr);
	attr.recv_completion_flags = configurations[_i].then_recv;
	attr.request_completion_flags = configurations[_i].then_request;
	alive = fake_alive(FAKE_ANY);
	ck_dat_is(ep_create(side.ia, side.pz, side.recv_evd,
			    configurations[_i].shared ? side.recv_evd : side.request_evd,
			    side.connect_evd, &attr, &then),
		  configurations[_i].want);
	if (configurations[_i].want == DAT_SUCCESS) {
		ck_dat(ep_free(then));
	} else {
		ck_assert_ptr_eq(then, POISON);
		ck_assert_uint_eq(fake_alive(FAKE_ANY), alive);
	}
	ck_dat(ep_free(first));
	ck_assert_int_eq(query(side.recv_evd).evd_state & DAT_EVD_STATE_CONFIG_THRESHOLD,
			 DAT_EVD_STATE_CONFIG_THRESHOLD);
	side.ep = side_create_ep(&side, NULL);
	side_close(&side);
}
END_TEST

/* ---- arming ---- */

START_TEST(nobody_pays_for_a_wait_that_nobody_makes)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };
	struct tp_cq *cq;
	unsigned arms;

	connect_with(DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_DEFAULT_FLAG);
	cq = cq_of(pair.client.recv_evd);
	fake_settle(0);
	ck_assert_int_eq(fake_armed(cq), FAKE_ARMED_ERRORS);
	for (unsigned n = 0; n < 3; n++)
		post_recv(&pair.client, n, n * 64, 64, DAT_COMPLETION_DEFAULT_FLAG);
	arms = fake_calls("cq_arm");
	sender(NULL);
	fake_settle(0);
	ck_dat(evd_dequeue(pair.client.recv_evd, &event));
	ck_assert_uint_eq(fake_calls("cq_arm"), arms); /* polling takes no interrupt */
	waiter.evd = pair.client.recv_evd;
	waiter_start(&waiter);
	ck_assert_int_eq(fake_armed(cq), FAKE_ARMED_ANY);
	sender(NULL);
	ck_dat(waiter_join(&waiter));
	sender(NULL); /* may take one interrupt that was meant for the waiter */
	fake_settle(0);
	ck_assert_int_eq(fake_armed(cq), FAKE_ARMED_ERRORS);
	pair_close(&pair);
}
END_TEST

START_TEST(a_failure_is_noticed_though_nobody_polls)
{
	fake_quirks(_i ? FAKE_ARM_ANY : 0);
	connect_with(DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_DEFAULT_FLAG);
	fake_hold(true);
	post_send(&pair.client, 1, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
	fake_fail_transfer(DAT_DTO_ERR_TRANSPORT);
	ck_assert(fake_step());
	expect_event(pair.client.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
	expect_dto(pair.client.request_evd, 1, DAT_DTO_ERR_TRANSPORT);
}
END_TEST

/* ---- room ---- */

START_TEST(moved_completions_make_the_queue_grow)
{
	DAT_EP_ATTR attr;
	unsigned total = 200;

	side_open(&pair.server, "fake1");
	attr = ep_attr_default(&pair.server);
	attr.max_recv_dtos = (DAT_COUNT)total;
	pair.client.ep_attr = &attr;
	pair.client.qlen = 1;
	side_open(&pair.client, "fake0");
	pair_connect(&pair);
	for (unsigned n = 0; n < total; n++)
		post_recv(&pair.client, n, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	ck_dat(ep_disconnect(pair.client.ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_event(pair.client.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	for (unsigned n = 0; n < total; n++)
		expect_dto(pair.client.recv_evd, n, DAT_DTO_ERR_FLUSHED);
	expect_no_event(pair.client.recv_evd);
	expect_no_event(pair.client.async_evd); /* nothing overran */
	side_close(&pair.client);
}
END_TEST

/* The queue has room for as many as it was made for, and this many of its slots are kept. */
static void connect_with_queue(DAT_COUNT qlen, DAT_COUNT depth)
{
	static DAT_EP_ATTR attr;

	side_open(&pair.server, "fake1");
	attr = ep_attr_default(&pair.server);
	attr.max_recv_dtos = depth;
	pair.client.ep_attr = &attr;
	pair.client.qlen = qlen;
	side_open(&pair.client, "fake0");
	pair_connect(&pair);
}

static void connect_with_depth(DAT_COUNT depth)
{
	connect_with_queue(1, depth);
}

static void send_to_a(unsigned n)
{
	post_recv(&pair.client, n, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	post_send(&pair.server, n, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	expect_dto(pair.server.request_evd, n, DAT_DTO_SUCCESS);
}

/* Whatever the depth, power of two or not. */
START_TEST(a_sleeper_needs_no_memory)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };

	connect_with_depth(100 + _i);
	waiter.evd = pair.client.recv_evd;
	alloc_starve_others(true);
	waiter_start(&waiter);
	send_to_a(1);
	ck_dat(waiter_join(&waiter));
	alloc_starve_others(false);
	ck_assert_uint_eq(waiter.event.event_data.dto_completion_event_data.user_cookie.as_64, 1);
	pair_close(&pair);
}
END_TEST

/* What found no memory made its noise already: who counts on it looks again. */
START_TEST(a_sleeper_comes_back_to_what_found_no_memory)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 50 };
	unsigned refused;

	connect_with_queue(50, 100);
	waiter.evd = pair.client.recv_evd;
	alloc_starve_others(true);
	refused = alloc_refused();
	waiter_start(&waiter);
	for (unsigned n = 0; n < 50; n++)
		send_to_a(n);
	fake_settle(1);
	ck_assert_uint_gt(alloc_refused(), refused);
	alloc_starve_others(false);
	fake_clock_advance(10000000);
	ck_dat(waiter_join(&waiter));
	ck_assert_uint_eq(waiter.event.event_data.dto_completion_event_data.user_cookie.as_64, 0);
	ck_assert_int_eq(waiter.nmore, 49);
	pair_close(&pair);
}
END_TEST

/* Completions that find no memory stay below, in order, and can be had one by one. */
START_TEST(a_queue_that_can_not_grow_loses_nothing)
{
	const DAT_COUNT total = 100;
	DAT_RETURN ret;

	connect_with_depth(total);
	for (unsigned n = 0; n < (unsigned)total; n++)
		send_to_a(n);
	alloc_fail_nth(1);
	ret = evd_wait(pair.client.recv_evd, 0, 1, &event, &nmore);
	ck_assert(alloc_failed());
	ck_dat(ret);
	ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, 0);
	ck_assert_int_lt(nmore, total - 1);
	for (unsigned n = 1; n < (unsigned)total; n++) {
		alloc_fail_nth(1);
		ret = n % 2 ? evd_dequeue(pair.client.recv_evd, &event)
			    : evd_wait(pair.client.recv_evd, 0, 1, &event, &nmore);
		(void)alloc_failed();
		ck_dat(ret);
		ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, n);
	}
	expect_no_event(pair.client.recv_evd);
	expect_no_event(pair.client.async_evd);
	pair_close(&pair);
}
END_TEST

START_TEST(connection_events_find_room_in_a_full_queue)
{
	pair.client.one_evd = true;
	pair.client.qlen = 1;
	side_open(&pair.client, "fake0");
	while (try_post_se(pair.client.connect_evd, 1) == DAT_SUCCESS)
		;
	side_open(&pair.server, "fake1");
	pair.server.ep_attr = NULL;
	{
		DAT_EVD_HANDLE cr_evd = pair.server.cr_evd;
		DAT_PSP_HANDLE psp;
		DAT_CONN_QUAL qual;

		ck_dat(psp_create_any(pair.server.ia, &qual, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
		ck_dat(ep_connect(pair.client.ep, (DAT_IA_ADDRESS_PTR)&pair.server.address, qual,
				  DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT,
				  DAT_CONNECT_DEFAULT_FLAG));
		event = expect_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT);
		ck_dat(cr_accept(event.event_data.cr_arrival_event_data.cr_handle, pair.server.ep,
				 0, NULL));
		expect_event(pair.server.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
		ck_dat(ep_disconnect(pair.server.ep, DAT_CLOSE_ABRUPT_FLAG));
		expect_event(pair.server.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	}
	fake_settle(0);
	do
		ck_dat(evd_dequeue(pair.client.connect_evd, &event));
	while (event.event_number == DAT_SOFTWARE_EVENT);
	ck_assert_int_eq(event.event_number, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_event(pair.client.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_no_event(pair.client.connect_evd);
}
END_TEST

START_TEST(a_request_without_room_is_refused)
{
	DAT_EVD_HANDLE cr_evd;
	DAT_EP_HANDLE eps[20];
	DAT_COUNT room, refused = 0;
	DAT_PSP_HANDLE psp;
	DAT_CONN_QUAL qual;

	side_open(&pair.client, "fake1");
	cr_evd = side_create_evd(&side, 2, DAT_EVD_CR_FLAG);
	room = query(cr_evd).evd_qlen;
	ck_assert_int_lt(room, COUNT(eps));
	ck_dat(psp_create_any(side.ia, &qual, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	for (int n = 0; n < room + 2; n++) {
		eps[n] = side_create_ep(&pair.client, NULL);
		ck_dat(ep_connect(eps[n], (DAT_IA_ADDRESS_PTR)&side.address, qual,
				  DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT,
				  DAT_CONNECT_DEFAULT_FLAG));
		fake_settle(0);
	}
	while (evd_dequeue(pair.client.connect_evd, &event) == DAT_SUCCESS) {
		ck_assert_int_eq(event.event_number, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
		ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle,
				 eps[room + refused++]);
	}
	ck_assert_int_eq(refused, 2);
	for (int n = 0; n < room; n++)
		ck_dat(cr_reject(expect_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT)
					 .event_data.cr_arrival_event_data.cr_handle));
	expect_no_event(cr_evd);
	expect_no_event(side.async_evd);
}
END_TEST

START_TEST(lost_asynchronous_errors_are_reported_once)
{
	struct ia *ia = side.ia;
	DAT_COUNT room = query(side.async_evd).evd_qlen;

	for (int n = 0; n < room + 3; n++)
		fake_port_down(ia->dev);
	fake_settle(0);
	for (int n = 0; n < room; n++)
		expect_event(side.async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC);
	event = expect_event(side.async_evd, DAT_ASYNC_ERROR_EVD_OVERFLOW);
	ck_assert_ptr_eq(event.event_data.asynch_error_event_data.dat_handle, side.async_evd);
	ck_assert_int_eq(event.event_data.asynch_error_event_data.reason, DAT_EVD_OVERFLOW_ERROR);
	expect_no_event(side.async_evd);
	fake_port_down(ia->dev);
	expect_event(side.async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC); /* it stays usable */
	expect_no_event(side.async_evd);
}
END_TEST

START_TEST(a_queue_that_cannot_grow_takes_what_fits)
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
	ck_dat(evd_free(evd)); /* nobody holds it */
	side_close(&side);
}
END_TEST

START_TEST(attaching_makes_room_below)
{
	DAT_EP_ATTR attr = ep_attr_default(&side);
	DAT_EVD_HANDLE evd = side_create_evd(&side, 1, DAT_EVD_DTO_FLAG);
	DAT_EP_HANDLE eps[10];

	attr.max_recv_dtos = attr.max_request_dtos = 100;
	for (int n = 0; n < COUNT(eps); n++) {
		ck_dat(ep_create(side.ia, side.pz, evd, evd, side.connect_evd, &attr, &eps[n]));
		ck_assert_uint_ge(tp_cq_depth(cq_of(evd)), 200u * (unsigned)(n + 1));
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

START_TEST(resize_checks_and_keeps_events)
{
	DAT_EVD_HANDLE evd = software_evd(4);

	ck_dat_is(evd_resize(evd, 0), BAD_ARG(2));
	ck_dat_is(evd_resize(evd, -5), BAD_ARG(2));
	ck_dat_is(evd_resize(evd, INT32_MAX), BAD_ARG(2));
	for (uintptr_t n = 0; n < 3; n++)
		post_se(evd, n);
	ck_dat(evd_resize(evd, 100));
	ck_assert_int_ge(query(evd).evd_qlen, 100);
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

START_TEST(resize_runs_out_of_memory)
{
	DAT_EVD_HANDLE evd = software_evd(4);
	unsigned n = 1;
	DAT_RETURN ret;

	for (uintptr_t i = 0; i < 4; i++)
		post_se(evd, i);
	for (; alloc_fail_nth(n), ret = evd_resize(evd, 100), alloc_failed(); n++) {
		ck_dat_is(ret, NO_RESOURCE(MEMORY));
		ck_assert_int_eq(query(evd).evd_qlen, 4);
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

START_TEST(resize_of_a_queue_in_use)
{
	connect_with(DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_DEFAULT_FLAG);
	for (unsigned n = 0; n < 3; n++) {
		post_recv(&pair.client, n, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
		sender(NULL);
	}
	ck_dat_is(evd_resize(pair.client.recv_evd, 2), DAT_ERROR(DAT_INVALID_STATE, 0));
	ck_dat(evd_resize(pair.client.recv_evd, 500));
	ck_assert_uint_ge(tp_cq_depth(cq_of(pair.client.recv_evd)), 500);
	fake_fail("cq_resize", ENOMEM, 1);
	ck_dat_is(evd_resize(pair.client.recv_evd, 5000), NO_RESOURCE(TEVD));
	ck_assert_int_eq(query(pair.client.recv_evd).evd_qlen, 500);
	for (unsigned n = 0; n < 3; n++)
		expect_dto(pair.client.recv_evd, n, DAT_DTO_SUCCESS);
	pair_close(&pair);
}
END_TEST

/* ---- threads ---- */

#define PER_POSTER 500
#define POSTERS	   2
#define TAKERS	   3

static DAT_EVD_HANDLE busy_evd;
static atomic_uint taken[POSTERS * PER_POSTER], taken_total;

static void *poster(void *arg)
{
	uintptr_t base = (uintptr_t)arg * PER_POSTER;

	for (uintptr_t n = 0; n < PER_POSTER;)
		if (try_post_se(busy_evd, base + n) == DAT_SUCCESS)
			n++;
		else
			sched_yield();
	return NULL;
}

static void take(const DAT_EVENT *got)
{
	atomic_fetch_add(&taken[(uintptr_t)got->event_data.software_event_data.pointer], 1);
	atomic_fetch_add(&taken_total, 1);
}

/* Whoever waits is alone; the others are refused and try again. */
static void *taker(void *arg)
{
	DAT_EVENT got;
	DAT_COUNT more;

	while (atomic_load(&taken_total) < POSTERS * PER_POSTER) {
		if (arg && evd_wait(busy_evd, 0, 2, &got, &more) == DAT_SUCCESS)
			take(&got);
		else if (evd_dequeue(busy_evd, &got) == DAT_SUCCESS)
			take(&got);
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
		posters[n] = consumer_thread_start(poster, (void *)n);
	for (uintptr_t n = 0; n < TAKERS; n++)
		takers[n] = consumer_thread_start(taker, (void *)n);
	for (int n = 0; n < POSTERS; n++)
		consumer_thread_end(posters[n]);
	for (int n = 0; n < TAKERS; n++)
		consumer_thread_end(takers[n]);
	for (int n = 0; n < POSTERS * PER_POSTER; n++)
		ck_assert_uint_eq(atomic_load(&taken[n]), 1);
	expect_no_event(busy_evd);
}
END_TEST

static void *blocking_taker(void *arg)
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
	thread = consumer_thread_start(blocking_taker, NULL);
	poster(NULL);
	consumer_thread_end(thread);
	expect_no_event(busy_evd);
}
END_TEST

#define MESSAGES 300

static void *message_taker(void *arg)
{
	DAT_EVENT got;
	DAT_COUNT more;

	(void)arg;
	for (uint64_t n = 0; n < MESSAGES; n++) {
		ck_dat(evd_wait(pair.client.recv_evd, DAT_TIMEOUT_INFINITE, 1, &got, &more));
		ck_assert_int_eq(got.event_data.dto_completion_event_data.status, DAT_DTO_SUCCESS);
		ck_assert_uint_eq(got.event_data.dto_completion_event_data.user_cookie.as_64, n);
		if (n + 8 < MESSAGES)
			post_recv(&pair.client, n + 8, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	}
	return NULL;
}

START_TEST(no_completion_is_slept_over)
{
	pthread_t thread;

	connect_with(DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_DEFAULT_FLAG);
	for (unsigned n = 0; n < 8; n++)
		post_recv(&pair.client, n, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	thread = consumer_thread_start(message_taker, NULL);
	for (uint64_t n = 0; n < MESSAGES; n++) {
		post_send(&pair.server, n, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
		expect_dto(pair.server.request_evd, n, DAT_DTO_SUCCESS);
	}
	consumer_thread_end(thread);
	pair_close(&pair);
}
END_TEST

static void add_cases_alone(void)
{
	TCase *cases = tcase_create("one");

	tcase_set_timeout(cases, 60);
	tcase_add_checked_fixture(cases, open_side, NULL);
	tcase_add_loop_test(cases, create_checks_its_arguments, 0, COUNT(creations));
	tcase_add_test(cases, create_checks_handles_first);
	tcase_add_test(cases, only_completions_need_a_queue_of_the_device);
	tcase_add_test(cases, every_failure_of_create_unwinds);
	tcase_add_loop_test(cases, create_runs_out_of_memory, 0, COUNT(streams));
	tcase_add_test(cases, create_runs_out_of_descriptors);
	tcase_add_test(cases, query_tells_all);
	tcase_add_test(cases, free_is_refused_while_it_is_fed);
	tcase_add_test(cases, free_loses_what_is_queued);
	tcase_add_test(cases, events_come_out_as_they_went_in);
	tcase_add_test(cases, post_se_checks_its_arguments);
	tcase_add_test(cases, a_full_queue_refuses_software_events);
	tcase_add_test(cases, wait_checks_its_arguments);
	tcase_add_test(cases, enough_events_end_a_wait_at_once);
	tcase_add_loop_test(cases, a_wait_times_out_exactly, 0, COUNT(timeouts));
	tcase_add_test(cases, too_few_events_do_not_put_the_deadline_off);
	tcase_add_test(cases, the_threshold_wakes);
	tcase_add_test(cases, a_waiter_is_alone);
	tcase_add_test(cases, unwaitable_refuses_and_ends_a_wait);
	tcase_add_test(cases, a_signal_interrupts_a_wait);
	tcase_add_test(cases, an_abrupt_close_aborts_a_wait);
	tcase_add_loop_test(cases, the_first_endpoint_decides, 0, COUNT(configurations));
	tcase_add_test(cases, a_request_without_room_is_refused);
	tcase_add_test(cases, lost_asynchronous_errors_are_reported_once);
	tcase_add_test(cases, a_queue_that_cannot_grow_takes_what_fits);
	tcase_add_test(cases, attaching_makes_room_below);
	tcase_add_test(cases, resize_checks_and_keeps_events);
	tcase_add_test(cases, resize_runs_out_of_memory);
	tcase_add_test(cases, each_event_is_delivered_once);
	tcase_add_test(cases, no_wake_up_is_lost);
}

static void add_cases_of_pairs(void)
{
	TCase *cases = tcase_create("pairs");

	tcase_set_timeout(cases, 60);
	tcase_add_test(cases, completions_count_for_the_threshold);
	tcase_add_test(cases, an_unwaitable_evd_gives_completions);
	tcase_add_test(cases, a_wait_for_completions_times_out_with_what_is_there);
	tcase_add_test(cases, unsignalled_completions_end_no_wait);
	tcase_add_test(cases, queued_events_end_a_wait_that_begins_whatever_their_kind);
	tcase_add_test(cases, failures_always_notify);
	tcase_add_test(cases, solicited_mode_waits_for_solicited_receives);
	tcase_add_test(cases, nobody_pays_for_a_wait_that_nobody_makes);
	tcase_add_loop_test(cases, a_failure_is_noticed_though_nobody_polls, 0, 2);
	tcase_add_test(cases, moved_completions_make_the_queue_grow);
	tcase_add_loop_test(cases, a_sleeper_needs_no_memory, 0, 40);
	tcase_add_test(cases, a_sleeper_comes_back_to_what_found_no_memory);
	tcase_add_test(cases, a_queue_that_can_not_grow_loses_nothing);
	tcase_add_test(cases, connection_events_find_room_in_a_full_queue);
	tcase_add_test(cases, resize_of_a_queue_in_use);
	tcase_add_test(cases, no_completion_is_slept_over);
}

int main(int argc, char **argv)
{
	add_cases_alone();
	add_cases_of_pairs();
	return run_unit_cases(argc, argv);
}
