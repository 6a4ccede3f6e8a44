/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests to cancel a thread, in each call of the provider's table over libfabric, which makes
 * system calls with locks of its own: see test/unit/test_cancel.c. The stand-in ends the case when
 * it is called by a thread that can be cancelled.
 */
#include <stdlib.h>

#include "../harness/calls.h"
#include "ofi_test.h"

static struct calls calls;

static void all_open(bool thread_safe)
{
	const DAT_PROVIDER_INFO info = {
		.ia_name = "ofi",
		.dapl_version_major = DAT_VERSION_MAJOR,
		.dapl_version_minor = DAT_VERSION_MINOR,
		.is_thread_safe = thread_safe,
	};
	DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
	static bool announced[2];
	DAT_IA_HANDLE ia;

	if (!announced[thread_safe])
		dat_provider_init(&info, "scripted 127.0.0.1");
	announced[thread_safe] = true;
	ck_dat((thread_safe ? ia_open_threadsafe : ia_open)((DAT_NAME_PTR) "ofi", 8, &async_evd,
							    &ia));
	calls_prepare(&calls, ia, NULL);
}

static void all_close(void)
{
	calls_close(&calls);
	ck_assert_uint_eq(ff_alive(FF_KINDS), 0);
}

static void call_once(const struct call_row *row, bool thread_safe)
{
	all_open(thread_safe);
	ck_assert_msg(!calls_make_cancelled(&calls, row), "%s: the thread was cancelled inside",
		      row->name);
	if (row->posts)
		(void)calls_event(calls.request_evd, DAT_DTO_COMPLETION_EVENT);
	calls_make_all(&calls, row);
	all_close();
}

START_TEST(a_request_is_pending_as_long_as_the_call_lasts)
{
	for (int thread_safe = 0; thread_safe < 2; thread_safe++)
		call_once(&call_rows[_i], thread_safe);
}
END_TEST

static DAT_RETURN poll_nothing(struct calls *c)
{
	DAT_RETURN ret = DAT_EVD_DEQUEUE(c->recv_evd, &c->event);

	return ret == DAT_QUEUE_EMPTY ? DAT_SUCCESS : ret;
}

static DAT_RETURN wait_for_nothing(struct calls *c)
{
	DAT_COUNT nmore;
	DAT_RETURN ret = DAT_EVD_WAIT(c->recv_evd, 0, 1, &c->event, &nmore);

	return DAT_GET_TYPE(ret) == DAT_TIMEOUT_EXPIRED ? DAT_SUCCESS : ret;
}

/* Each of these endpoints has a queue of libfabric for its receives. */
START_TEST(a_request_is_pending_in_a_poll_for_receives_of_a_shared_queue)
{
	const struct call_row rows[] = {
		{ "dat_evd_dequeue", 0, poll_nothing, false, DAT_SUCCESS },
		{ "dat_evd_wait", 0, wait_for_nothing, false, DAT_SUCCESS },
	};

	for (int thread_safe = 0; thread_safe < 2; thread_safe++) {
		all_open(thread_safe);
		ck_dat(call_named("dat_ep_create_with_srq")->run(&calls));
		calls_connect(&calls, calls.made);
		for (int i = 0; i < COUNT(rows); i++)
			ck_assert_msg(!calls_make_cancelled(&calls, &rows[i]),
				      "%s: the thread was cancelled inside", rows[i].name);
		calls_make_all(&calls, NULL);
		all_close();
	}
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tcase = tcase_create("cancel");

	for (unsigned i = 0; i < calls_count(); i++)
		case_add_named(tcase, a_request_is_pending_as_long_as_the_call_lasts,
			       call_rows[i].name, (int)i, NULL);
	tcase_add_test(tcase, a_request_is_pending_in_a_poll_for_receives_of_a_shared_queue);
	return run_cases(argc, argv);
}
