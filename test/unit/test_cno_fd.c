/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Consumer notification objects of DAT 2.0 with a descriptor, which is readable while the latch is
 * set, and dat_cno_trigger, which takes the latch without a wait.
 */
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "alloc.h"
#include "harness.h"

#define EMPTY	 ((DAT_RETURN)DAT_QUEUE_EMPTY) /* without a class, as dat_cno_wait returns it */
#define NO_AGENT DAT_OS_WAIT_PROXY_AGENT_NULL

static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;
static DAT_CNO_HANDLE cno;
static DAT_FD fd;

static void setup(void)
{
	side_open(client, "fake0");
	fake_wait_idle(0); /* the service thread has opened its descriptor */
	ck_dat(cno_fd_create(client->ia, &fd, &cno));
}

static void teardown(void)
{
	ck_dat(ia_close(client->ia, DAT_CLOSE_ABRUPT_FLAG));
	free(client->memory);
	if (server->ia) {
		ck_dat(ia_close(server->ia, DAT_CLOSE_ABRUPT_FLAG));
		free(server->memory);
	}
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}

static bool is_readable(void)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	fake_wait_idle(0);
	return poll(&pollfd, 1, 0) == 1 && pollfd.revents == POLLIN;
}

static DAT_EVD_HANDLE software_evd(void)
{
	DAT_EVD_HANDLE evd;

	ck_dat(evd_create(client->ia, 16, cno, DAT_EVD_SOFTWARE_FLAG, &evd));
	return evd;
}

/* The descriptor is readable, and the latch has that EVD; then neither. */
static void expect_trigger(DAT_EVD_HANDLE want)
{
	DAT_EVD_HANDLE evd = POISON;

	ck_assert(is_readable());
	ck_dat(cno_trigger(cno, &evd));
	ck_assert_ptr_eq(evd, want);
	ck_assert(!is_readable());
}

static void expect_no_trigger(void)
{
	DAT_EVD_HANDLE evd = POISON;

	ck_assert(!is_readable());
	ck_dat_is(cno_trigger(cno, &evd), EMPTY);
	ck_assert_ptr_eq(evd, DAT_HANDLE_NULL);
}

/* ---- the calls ---- */

START_TEST(the_calls_check_their_arguments)
{
	const DAT_OS_WAIT_PROXY_AGENT agent = { .instance_data = client };
	DAT_CNO_HANDLE other = POISON;
	DAT_EVD_HANDLE evd = POISON;
	DAT_FD none = -5;

	ck_dat_is(cno_fd_create(client->pz, &none, &other), BAD_HANDLE(IA));
	ck_dat_is(cno_fd_create(client->ia, NULL, &other), BAD_ARG(2));
	ck_dat_is(cno_fd_create(client->ia, &none, NULL), BAD_ARG(3));
	ck_assert_int_eq(none, -5);
	ck_assert_ptr_eq(other, POISON);
	ck_dat_is(cno_trigger(client->pz, &evd), BAD_HANDLE(CNO));
	ck_dat_is(cno_trigger(cno, NULL), BAD_ARG(2));
	ck_dat(cno_create(client->ia, NO_AGENT, &other));
	ck_dat_is(cno_trigger(other, &evd), BAD_HANDLE(CNO)); /* it has no descriptor */
	ck_assert_ptr_eq(evd, POISON);
	ck_dat_is(cno_modify_agent(cno, agent), BAD_HANDLE(CNO)); /* it has a descriptor */
}
END_TEST

START_TEST(a_query_tells_the_descriptor)
{
	DAT_CNO_PARAM param;

	memset(&param, 0xee, sizeof(param));
	ck_dat(cno_query(cno, DAT_CNO_FIELD_ALL, &param));
	ck_assert_ptr_eq(param.ia_handle, client->ia);
	ck_assert_int_eq(param.proxy_type, DAT_PROXY_TYPE_FD);
	ck_assert_int_eq(param.proxy.fd, fd);
}
END_TEST

START_TEST(the_descriptor_ends_with_the_object)
{
	const unsigned before = count_entries("/proc/self/fd");
	DAT_CNO_HANDLE other;
	DAT_FD other_fd;

	ck_dat(cno_fd_create(client->ia, &other_fd, &other));
	ck_assert_int_ge(other_fd, 0);
	ck_assert_int_ne(other_fd, fd);
	ck_dat(cno_free(other));
	ck_assert_uint_eq(count_entries("/proc/self/fd"), before);
	ck_dat_is(cno_trigger(other, &(DAT_EVD_HANDLE){ NULL }), BAD_HANDLE(CNO));
}
END_TEST

/* The slab of the objects has to grow several times. */
START_TEST(create_without_memory_changes_nothing)
{
	unsigned failures = 0;
	DAT_RETURN ret;

	for (unsigned i = 0; i < 40; i++) {
		const unsigned before = count_entries("/proc/self/fd");
		DAT_CNO_HANDLE other = POISON;
		DAT_FD other_fd = -5;

		for (unsigned n = 1; alloc_fail_nth(n),
			      ret = cno_fd_create(client->ia, &other_fd, &other), alloc_failed();
		     n++) {
			ck_dat_is(ret, NO_RESOURCE(MEMORY));
			ck_assert_ptr_eq(other, POISON);
			ck_assert_int_eq(other_fd, -5);
			ck_assert_uint_eq(count_entries("/proc/self/fd"), before);
			failures++;
		}
		ck_dat(ret);
	}
	ck_assert_uint_gt(failures, 0);
}
END_TEST

/* The first descriptor is the consumer's, the second one is for the completion channels. */
START_TEST(create_without_descriptors_changes_nothing)
{
	DAT_CNO_HANDLE other = POISON;
	DAT_FD other_fd = -5;
	unsigned before;

	fake_wait_idle(0); /* the service thread has opened its own */
	before = count_entries("/proc/self/fd");
	for (unsigned n = 0; n < 2; n++) {
		limit_descriptors(n);
		ck_dat_is(cno_fd_create(client->ia, &other_fd, &other), NO_RESOURCE(MEMORY));
		descriptors_allow_all();
		ck_assert_ptr_eq(other, POISON);
		ck_assert_int_eq(other_fd, -5);
		ck_assert_uint_eq(count_entries("/proc/self/fd"), before);
	}
	limit_descriptors(2);
	ck_dat(cno_fd_create(client->ia, &other_fd, &other));
	descriptors_allow_all();
}
END_TEST

/* ---- the latch ---- */

START_TEST(the_descriptor_is_readable_while_the_latch_is_set)
{
	const DAT_EVD_HANDLE evd = software_evd();

	expect_no_trigger();
	post_se(evd, 1);
	ck_assert(is_readable()); /* a look changes nothing */
	expect_trigger(evd);
	expect_no_trigger(); /* though the event is still in the queue */
	expect_se(evd, 1);
}
END_TEST

START_TEST(many_triggers_are_one_notification)
{
	const DAT_EVD_HANDLE first = software_evd(), second = software_evd();

	for (unsigned n = 0; n < 5; n++) {
		post_se(first, n);
		post_se(second, n);
	}
	expect_trigger(first);
	expect_no_trigger();
	post_se(second, 9);
	expect_trigger(second);
}
END_TEST

START_TEST(a_wait_takes_the_latch_and_the_descriptor)
{
	const DAT_EVD_HANDLE evd = software_evd();
	DAT_EVD_HANDLE taken = POISON;

	post_se(evd, 1);
	ck_dat(cno_wait(cno, 0, &taken));
	ck_assert_ptr_eq(taken, evd);
	expect_no_trigger();
	ck_dat_is(cno_wait(cno, 1000, &taken), EMPTY);
	post_se(evd, 2);
	expect_trigger(evd);
}
END_TEST

static void *waiter_main(void *arg)
{
	ck_dat(cno_wait(cno, DAT_TIMEOUT_INFINITE, arg));
	return NULL;
}

START_TEST(a_thread_that_sleeps_takes_the_latch_and_the_descriptor)
{
	const DAT_EVD_HANDLE evd = software_evd();
	DAT_EVD_HANDLE taken = POISON;
	pthread_t thread = consumer_thread_start(waiter_main, &taken);

	fake_wait_idle(1);
	post_se(evd, 1);
	consumer_thread_join(thread);
	ck_assert_ptr_eq(taken, evd);
	expect_no_trigger();
}
END_TEST

START_TEST(the_latch_of_a_freed_evd_is_cleared)
{
	const DAT_EVD_HANDLE evd = software_evd(), other = software_evd();

	post_se(evd, 1);
	ck_assert(is_readable());
	ck_dat(evd_free(evd));
	expect_no_trigger();
	post_se(other, 1);
	ck_dat(evd_modify_cno(other, DAT_HANDLE_NULL));
	expect_no_trigger();
}
END_TEST

/* The other one has missed a trigger while the latch was taken. */
START_TEST(the_latch_of_a_freed_evd_passes_to_another)
{
	const DAT_EVD_HANDLE evd = software_evd(), other = software_evd();

	post_se(evd, 1);
	post_se(other, 1);
	ck_dat(evd_free(evd));
	expect_trigger(other);
}
END_TEST

START_TEST(it_is_in_use_by_its_evds)
{
	const DAT_EVD_HANDLE evd = software_evd();

	ck_dat_is(cno_free(cno), BAD_STATE(CNO_IN_USE));
	post_se(evd, 1);
	expect_trigger(evd); /* nothing has changed */
	ck_dat(evd_free(evd));
	ck_dat(cno_free(cno));
	ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
}
END_TEST

/* ---- completions, of which only the descriptor tells ---- */

static DAT_EVD_HANDLE recv_evd_with_cno(void)
{
	ck_dat(evd_modify_cno(client->recv_evd, cno));
	pair_connect(&pair);
	return client->recv_evd;
}

START_TEST(each_completion_makes_the_descriptor_readable)
{
	const DAT_EVD_HANDLE evd = recv_evd_with_cno();

	for (unsigned n = 0; n < 5; n++) {
		post_recv(client, n, 0, 64, 0);
		expect_no_trigger();
		post_send(server, n, 0, 64, 0);
		expect_dto(server->request_evd, n, DAT_DTO_SUCCESS);
		expect_trigger(evd);
		expect_dto(evd, n, DAT_DTO_SUCCESS);
	}
}
END_TEST

/* The queue that missed a trigger is armed when the latch is taken. */
START_TEST(a_completion_that_missed_the_latch_is_followed_by_one_that_does_not)
{
	const DAT_EVD_HANDLE evd = recv_evd_with_cno(), software = software_evd();

	post_recv(client, 1, 0, 64, 0);
	post_recv(client, 2, 0, 64, 0);
	post_se(software, 1);
	post_send(server, 1, 0, 64, 0);
	expect_trigger(software);
	expect_se(software, 1);
	expect_dto(evd, 1, DAT_DTO_SUCCESS);
	expect_no_trigger();
	post_send(server, 2, 0, 64, 0);
	expect_trigger(evd);
	expect_dto(evd, 2, DAT_DTO_SUCCESS);
}
END_TEST

/* A wait that has slept had the channels lent; the service thread has them back. */
START_TEST(completions_are_told_after_a_wait)
{
	const DAT_EVD_HANDLE evd = recv_evd_with_cno();
	DAT_EVD_HANDLE taken;

	ck_dat_is(cno_wait(cno, 1000, &taken), EMPTY);
	post_recv(client, 1, 0, 64, 0);
	post_send(server, 1, 0, 64, 0);
	expect_trigger(evd);
	expect_dto(evd, 1, DAT_DTO_SUCCESS);
}
END_TEST

START_TEST(the_end_of_a_connection_is_told_too)
{
	pair_connect(&pair);
	ck_dat(evd_modify_cno(client->connect_evd, cno));
	expect_no_trigger();
	ck_dat(ep_disconnect(server->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_trigger(client->connect_evd);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}
END_TEST

/* ---- requests to cancel a thread ---- */

static DAT_RETURN cancelled_ret;
static bool cancelled_returned;

/* With the latch set neither call sleeps: it comes to its end, and keeps no lock. */
static void *cancelled_main(void *wait)
{
	static DAT_EVD_HANDLE evd; /* not on the stack that is unwound, see CAN_UNWIND_THREADS */

	pthread_cancel(pthread_self());
	cancelled_ret = wait ? cno_wait(cno, DAT_TIMEOUT_INFINITE, &evd) : cno_trigger(cno, &evd);
	cancelled_returned = true;
	pthread_testcancel();
	return NULL;
}

START_TEST(a_request_to_cancel_leaves_the_latch_taken)
{
	const DAT_EVD_HANDLE evd = software_evd();
	pthread_t thread;

	if (!CAN_CANCEL_THREADS)
		return;
	cancelled_returned = false;
	post_se(evd, 1);
	thread = consumer_thread_start(cancelled_main, _i ? cno : NULL);
	ck_assert_ptr_eq(consumer_thread_join(thread), PTHREAD_CANCELED);
	ck_assert(cancelled_returned);
	ck_dat(cancelled_ret);
	expect_no_trigger();
	post_se(evd, 2);
	expect_trigger(evd);
}
END_TEST

/* It is the thread's latch until the sleep ends. */
START_TEST(a_waiter_that_is_cancelled_leaves_the_descriptor)
{
	const DAT_EVD_HANDLE evd = software_evd();
	DAT_EVD_HANDLE taken = POISON;
	pthread_t thread;

	if (!CAN_CANCEL_THREADS)
		return;
	thread = consumer_thread_start(waiter_main, &taken);
	fake_wait_idle(1);
	ck_assert_int_eq(pthread_cancel(thread), 0);
	ck_assert_ptr_eq(consumer_thread_join(thread), PTHREAD_CANCELED);
	ck_assert_ptr_eq(taken, POISON);
	expect_no_trigger();
	post_se(evd, 1);
	expect_trigger(evd);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("CNOs with a descriptor");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_test(cases, the_calls_check_their_arguments);
	tcase_add_test(cases, a_query_tells_the_descriptor);
	tcase_add_test(cases, the_descriptor_ends_with_the_object);
	tcase_add_test(cases, create_without_memory_changes_nothing);
	tcase_add_test(cases, create_without_descriptors_changes_nothing);
	tcase_add_test(cases, the_descriptor_is_readable_while_the_latch_is_set);
	tcase_add_test(cases, many_triggers_are_one_notification);
	tcase_add_test(cases, a_wait_takes_the_latch_and_the_descriptor);
	tcase_add_test(cases, a_thread_that_sleeps_takes_the_latch_and_the_descriptor);
	tcase_add_test(cases, the_latch_of_a_freed_evd_is_cleared);
	tcase_add_test(cases, the_latch_of_a_freed_evd_passes_to_another);
	tcase_add_test(cases, it_is_in_use_by_its_evds);
	tcase_add_test(cases, each_completion_makes_the_descriptor_readable);
	tcase_add_test(cases, a_completion_that_missed_the_latch_is_followed_by_one_that_does_not);
	tcase_add_test(cases, completions_are_told_after_a_wait);
	tcase_add_test(cases, the_end_of_a_connection_is_told_too);
	tcase_add_loop_test(cases, a_request_to_cancel_leaves_the_latch_taken, 0, 2);
	tcase_add_test(cases, a_waiter_that_is_cancelled_leaves_the_descriptor);
	return run_unit_cases(argc, argv);
}
