/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests to cancel a thread, in each call of the provider's table: a call comes to its end, and
 * what it leaves is as if there had been no request. Only a wait ends while it sleeps, and a post
 * of a request over a software device, see transport.h. A lock that a thread has kept shows as a
 * case that hangs.
 *
 * With the asynchronous type a request can only be pending for a thread that has cancellation
 * disabled. Then nothing may enable it.
 */
#include <unistd.h>

#include "../harness/calls.h"
#include "harness.h"
#include "race.h"

#define TIMED_OUT DAT_ERROR(DAT_TIMEOUT_EXPIRED, DAT_NO_SUBTYPE)

static struct calls calls;

/* ---- a thread that makes one call ---- */

struct attempt {
	/* of the thread */
	int state, type;
	bool pending;	/* the request comes before the call */
	unsigned stays; /* in the n-th call of the transport, until fake_go_on */
	DAT_RETURN (*run)(struct calls *calls);
	DAT_RETURN want;

	bool returned;
	DAT_RETURN answer;
	int state_after, type_after;
	void *result; /* of the thread */
};

/* No checks of the test library: they are cancellation points. */
static void *attempt_main(void *arg)
{
	struct attempt *attempt = arg;

	pthread_setcancelstate(attempt->state, NULL);
	pthread_setcanceltype(attempt->type, NULL);
	if (attempt->pending)
		pthread_cancel(pthread_self());
	if (attempt->stays)
		fake_stay(attempt->stays);
	attempt->answer = attempt->run(&calls);
	attempt->returned = true;
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &attempt->type_after);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &attempt->state_after);
	if (attempt->stays)
		fake_stay(0);
	pthread_setcancelstate(attempt->state_after, NULL);
	pthread_testcancel();
	return NULL;
}

static void attempt_check(const struct attempt *attempt)
{
	if (!attempt->returned)
		return;
	ck_dat_is(attempt->answer, attempt->want);
	ck_assert_int_eq(attempt->state_after, attempt->state);
	ck_assert_int_eq(attempt->type_after, attempt->type);
}

/* Afterwards the request is, or was, pending, unless the thread did not come to where it stays. */
static bool attempt_make(struct attempt *attempt)
{
	pthread_t thread = consumer_thread_start(attempt_main, attempt);
	bool stayed = attempt->stays && fake_wait_stay();

	if (stayed) {
		ck_assert_int_eq(pthread_cancel(thread), 0);
		fake_go_on();
	}
	attempt->result = consumer_thread_join(thread);
	if (attempt->state == PTHREAD_CANCEL_ENABLE && (attempt->pending || stayed))
		ck_assert_ptr_eq(attempt->result, PTHREAD_CANCELED);
	else
		ck_assert_ptr_null(attempt->result);
	attempt_check(attempt);
	return stayed;
}

/* ---- the IA, and the objects of all calls ---- */

static unsigned descriptors;
static bool is_software; /* the device: a post of a request makes a system call */

static void all_open(bool thread_safe)
{
	DAT_EVD_HANDLE async_evd;

	descriptors = calls_descriptors();
	fake_quirks(is_software ? FAKE_POSTS_BY_CALL : 0);
	calls_prepare(&calls, ia_open_on("fake0", thread_safe, &async_evd), NULL);
}

static void all_close(void)
{
	calls_close(&calls);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
	ck_assert_uint_eq(calls_descriptors(), descriptors);
}

START_TEST(each_call_of_the_table_has_a_row)
{
	calls_check_rows();
	all_open(false);
	calls_make_all(&calls, NULL);
	all_close();
}
END_TEST

/* ---- the calls ---- */

/* The thread has ended in the post, or has returned from it: the request is in the queue. */
static void expect_posted(const struct call_row *row)
{
	const DAT_EVENT event = calls_event(calls.request_evd, DAT_DTO_COMPLETION_EVENT);
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;

	ck_assert_msg(dto->user_cookie.as_64 == CALLS_COOKIE && dto->status == DAT_DTO_SUCCESS,
		      "%s: cookie %u, status %d", row->name, (unsigned)dto->user_cookie.as_64,
		      dto->status);
}

static bool call_once(const struct call_row *row, bool thread_safe, struct attempt attempt)
{
	const bool ends = row->posts && attempt.state == PTHREAD_CANCEL_ENABLE && is_software &&
			  !(fake_attr()->caps & TP_CAP_UNCANCELLED_POSTS);
	bool stayed;

	attempt.run = row->run;
	attempt.want = row->want;
	all_open(thread_safe);
	stayed = attempt_make(&attempt);
	if (attempt.pending || stayed)
		ck_assert_msg(attempt.returned != ends, "%s: the thread %s", row->name,
			      attempt.returned ? "has returned" : "was cancelled inside");
	if (row->posts)
		expect_posted(row);
	calls_make_all(&calls, row);
	all_close();
	return stayed;
}

static void call_with_request(const struct call_row *row)
{
	for (int thread_safe = 0; thread_safe < 2; thread_safe++) {
		call_once(row, thread_safe,
			  (struct attempt){ .state = PTHREAD_CANCEL_ENABLE,
					    .type = PTHREAD_CANCEL_DEFERRED,
					    .pending = true });
		call_once(row, thread_safe,
			  (struct attempt){ .state = PTHREAD_CANCEL_DISABLE,
					    .type = PTHREAD_CANCEL_ASYNCHRONOUS,
					    .pending = true });
	}
}

START_TEST(a_request_is_pending_as_long_as_the_call_lasts)
{
	call_with_request(&call_rows[_i]);
}
END_TEST

/* @_i: it has a lock then, so it forbids that. */
START_TEST(a_thread_ends_in_a_post_only_where_the_device_lets_it)
{
	is_software = true;
	if (_i)
		fake_attr()->caps |= TP_CAP_UNCANCELLED_POSTS;
	for (const struct call_row *row = call_rows; row->name; row++)
		if (row->posts)
			call_with_request(row);
}
END_TEST

static DAT_RETURN free_pz_in_use(struct calls *c)
{
	return DAT_PZ_FREE(c->pz);
}

/* A line is written by a system call, which is a cancellation point. */
START_TEST(a_request_is_pending_while_lines_of_the_log_are_written)
{
	const int log = output_file_create(), errors = dup(STDERR_FILENO);
	struct attempt refused_call = { .state = PTHREAD_CANCEL_ENABLE,
					.type = PTHREAD_CANCEL_DEFERRED,
					.pending = true,
					.run = free_pz_in_use,
					.want = BAD_STATE(PZ_IN_USE) };

	setenv("DAPL_DBG_TYPE", "0xff", 1);
	setenv("DAT_DBG_TYPE", "0xff", 1);
	ck_assert_int_ge(dup2(log, STDERR_FILENO), 0);
	for (const struct call_row *row = call_rows; row->name; row++)
		call_with_request(row);
	all_open(false);
	attempt_make(&refused_call);
	ck_assert(refused_call.returned);
	all_close();
	ck_assert_int_ge(dup2(errors, STDERR_FILENO), 0);
	ck_assert_int_gt(lseek(log, 0, SEEK_END), 0);
	close(errors);
	close(log);
}
END_TEST

static DAT_RETURN announce_and_retract(struct calls *c)
{
	const DAT_PROVIDER_INFO info = { .ia_name = "announced",
					 .dapl_version_major = DAT_VERSION_MAJOR,
					 .dapl_version_minor = DAT_VERSION_MINOR };
	(void)c;
	dat_provider_init(&info, "fake2 0");
	dat_provider_fini(&info);
	return DAT_SUCCESS;
}

START_TEST(a_request_is_pending_while_a_name_is_announced_and_retracted)
{
	struct attempt attempt = { .state = PTHREAD_CANCEL_ENABLE,
				   .type = PTHREAD_CANCEL_DEFERRED,
				   .pending = true,
				   .run = announce_and_retract };

	for (int i = 0; i < 2; i++) {
		attempt.returned = false;
		attempt_make(&attempt);
		ck_assert(attempt.returned);
	}
}
END_TEST

/* Calls that are known to come to the transport; posts do, too. */
static const char *const known[] = {
	"dat_ia_open",	  "dat_ia_close",      "dat_pz_create",	     "dat_pz_free",
	"dat_evd_create", "dat_evd_resize",    "dat_evd_free",	     "dat_lmr_create",
	"dat_lmr_free",	  "dat_rmr_bind",      "dat_srq_create",     "dat_srq_resize",
	"dat_srq_free",	  "dat_srq_post_recv", "dat_ep_create",	     "dat_ep_create_with_srq",
	"dat_ep_free",	  "dat_ep_connect",    "dat_ep_dup_connect", "dat_ep_disconnect",
	"dat_ep_reset",	  "dat_ep_post_recv",  "dat_psp_create",     "dat_psp_create_any",
	"dat_psp_free",	  "dat_rsp_create",    "dat_rsp_free",	     "dat_cr_accept",
	"dat_cr_reject",
};

static bool is_known(const struct call_row *row)
{
	for (int i = 0; i < COUNT(known); i++)
		if (!strcmp(known[i], row->name))
			return true;
	return row->posts;
}

/* In each of the calls of the transport that it makes, in turn. */
START_TEST(a_request_that_arrives_in_the_transport_is_pending)
{
	const struct call_row *row = &call_rows[_i];

	for (int thread_safe = 0; thread_safe < 2; thread_safe++) {
		struct attempt attempt = { .state = PTHREAD_CANCEL_ENABLE,
					   .type = PTHREAD_CANCEL_DEFERRED,
					   .stays = 1 };

		while (call_once(row, thread_safe, attempt))
			attempt.stays++;
		ck_assert_msg(attempt.stays > 1 || !is_known(row),
			      "%s does not come to the transport", row->name);
	}
}
END_TEST

/* ---- slow paths ---- */

static void no_windows(void)
{
	fake_attr()->max_mw = 0;
}

static unsigned regions_freed;

/* The completion of the second bind ends the first one, and with it its region. */
static void bind_twice(void)
{
	fake_wait_idle(0); /* so the service thread does not look for completions */
	for (int i = 0; i < 2; i++)
		ck_dat(call_named("dat_rmr_bind")->run(&calls));
	ck_dat(evd_dequeue(calls.request_evd, &calls.event));
	regions_freed = fake_calls("mr_dereg");
}

static void send_twice(void)
{
	for (int i = 0; i < 2; i++)
		ck_dat(call_named("dat_ep_post_send")->run(&calls));
}

/* The queue of the completions is in use, so the service thread does not look at it. */
static void send_fails(void)
{
	fake_wait_idle(0);
	send_twice();
	for (int i = 0; i < 2; i++)
		ck_dat(evd_dequeue(calls.request_evd, &calls.event));
	fake_hold(true);
	ck_dat(call_named("dat_ep_post_send")->run(&calls));
	fake_fail_transfer(DAT_DTO_ERR_TRANSPORT);
	ck_assert(fake_step());
	fake_hold(false);
}

static void connection_ended(void)
{
	calls_event(calls.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
}

static void region_freed(void)
{
	ck_assert_uint_eq(fake_calls("mr_dereg"), regions_freed + 1);
}

static void requests_fail(void)
{
	fake_fail("post_send", ENOMEM, 1);
}

static void receives_fail(void)
{
	fake_fail("post_recv", ENOMEM, 1);
	fake_fail("srq_post", ENOMEM, 1);
}

static void end_up_ep(void *unused)
{
	(void)unused;
	(void)ep_disconnect(calls.up_ep, DAT_CLOSE_ABRUPT_FLAG);
}

/* It ends while the thread posts to it, which is after the look at its state. */
static void connection_ends_at_a_request(void)
{
	fake_quirks(FAKE_SWALLOWS_SEND | (is_software ? FAKE_POSTS_BY_CALL : 0));
	race_call(RACE_CLAIM, &((struct ep *)calls.up_ep)->sends, end_up_ep, NULL);
}

static void connection_ends_at_a_receive(void)
{
	fake_quirks(FAKE_FORGETS_RECV);
	race_call(RACE_CLAIM, &((struct ep *)calls.up_ep)->recvs, end_up_ep, NULL);
}

static void post_was_flushed(void)
{
	ck_assert(race_happened(RACE_CLAIM));
	calls_event(calls.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

static DAT_RETURN wait_for_request(struct calls *c)
{
	DAT_COUNT nmore;

	return DAT_EVD_WAIT(c->request_evd, DAT_TIMEOUT_INFINITE, 1, &c->event, &nmore);
}

static DAT_RETURN dequeue_request(struct calls *c)
{
	return DAT_EVD_DEQUEUE(c->request_evd, &c->event);
}

static DAT_RETURN bind_to_nothing(struct calls *c)
{
	const DAT_LMR_TRIPLET range = { .lmr_context = c->local.lmr_context,
					.virtual_address = 1,
					.segment_length = 1 };

	return rmr_bind_va(c->rmr, &range, DAT_MEM_PRIV_REMOTE_READ_FLAG, c->up_ep,
			   (DAT_RMR_COOKIE){ .as_64 = 1 }, DAT_COMPLETION_DEFAULT_FLAG,
			   &c->rmr_context);
}

static DAT_RETURN send_here(struct calls *c)
{
	return call_named("dat_ep_post_send")->run(c);
}

static DAT_RETURN recv_here(struct calls *c)
{
	return call_named("dat_ep_post_recv")->run(c);
}

static DAT_RETURN srq_recv_here(struct calls *c)
{
	return call_named("dat_srq_post_recv")->run(c);
}

static DAT_RETURN bind_here(struct calls *c)
{
	return call_named("dat_rmr_bind")->run(c);
}

static DAT_RETURN recv_of_down_ep(struct calls *c)
{
	return DAT_EP_POST_RECV(c->down_ep, 1, &c->local, cookie_of(1),
				DAT_COMPLETION_DEFAULT_FLAG);
}

static DAT_RETURN recv_without_segments(struct calls *c)
{
	return DAT_EP_POST_RECV(c->up_ep, -1, NULL, cookie_of(1), DAT_COMPLETION_DEFAULT_FLAG);
}

static DAT_RETURN srq_recv_without_segments(struct calls *c)
{
	return DAT_SRQ_POST_RECV(c->srq, -1, NULL, cookie_of(1));
}

/* @before the IA is opened; @software: the device; @unlocked: posts have taken no lock. */
static const struct {
	const char *what;
	void (*before)(void), (*prepare)(void);
	DAT_RETURN (*run)(struct calls *);
	DAT_RETURN want;
	void (*check)(void);
	bool software, unlocked;
} slow_paths[] = {
	{ "a wait finds two completions", .prepare = send_twice, .run = wait_for_request },
	{ "a dequeue ends the connection", .prepare = send_fails, .run = dequeue_request,
	  .check = connection_ended },
	{ "a wait ends the connection", .prepare = send_fails, .run = wait_for_request,
	  .check = connection_ended },
	{ "a bind has a region of its own", .before = no_windows, .run = bind_here },
	{ "a dequeue frees a region", .before = no_windows, .prepare = bind_twice,
	  .run = dequeue_request, .check = region_freed },
	{ "a wait frees a region", .before = no_windows, .prepare = bind_twice,
	  .run = wait_for_request, .check = region_freed },
	{ "a bind is refused", .run = bind_to_nothing, .want = OF_EDITION(BAD_ARG(2), BAD_ARG(3)) },
	{ "the device refuses a request", .prepare = requests_fail, .run = send_here,
	  .want = NO_RESOURCE(MEMORY) },
	{ "the device refuses a receive", .prepare = receives_fail, .run = recv_here,
	  .want = NO_RESOURCE(MEMORY) },
	{ "the device refuses a shared receive", .prepare = receives_fail, .run = srq_recv_here,
	  .want = NO_RESOURCE(MEMORY) },
	{ "a receive is refused", .run = recv_without_segments, .want = BAD_ARG(2) },
	{ "a shared receive is refused", .run = srq_recv_without_segments, .want = BAD_ARG(2) },
	{ "the connection of a receive has ended", .run = recv_of_down_ep },
	{ "the connection of a request ends", .prepare = connection_ends_at_a_request,
	  .run = send_here, .check = post_was_flushed, .unlocked = true },
	{ "the connection of a request ends in which the thread ends", .software = true,
	  .prepare = connection_ends_at_a_request, .run = send_here, .check = post_was_flushed,
	  .unlocked = true },
	{ "the connection of a receive ends", .prepare = connection_ends_at_a_receive,
	  .run = recv_here, .check = post_was_flushed, .unlocked = true },
};

START_TEST(a_request_is_pending_on_the_slow_path)
{
	struct attempt attempt = { .state = PTHREAD_CANCEL_ENABLE,
				   .type = PTHREAD_CANCEL_DEFERRED,
				   .pending = true,
				   .run = slow_paths[_i].run,
				   .want = slow_paths[_i].want };

	is_software = slow_paths[_i].software;
	for (int thread_safe = 0; thread_safe < 2 - slow_paths[_i].unlocked; thread_safe++) {
		if (slow_paths[_i].before)
			slow_paths[_i].before();
		all_open(thread_safe);
		if (slow_paths[_i].prepare)
			slow_paths[_i].prepare();
		attempt.returned = false;
		attempt_make(&attempt);
		ck_assert(attempt.returned == !slow_paths[_i].software);
		if (slow_paths[_i].check)
			slow_paths[_i].check();
		ck_dat(call_named("dat_ep_create")->run(&calls));
		(void)dequeue_request(&calls);
		(void)send_here(&calls);
		(void)recv_here(&calls);
		all_close();
	}
}
END_TEST

/* ---- waits that have to sleep ---- */

static DAT_RETURN wait_for_completion(struct calls *c)
{
	DAT_COUNT nmore;

	return DAT_EVD_WAIT(c->recv_evd, DAT_TIMEOUT_INFINITE, 1, &c->event, &nmore);
}

static DAT_RETURN wait_for_trigger(struct calls *c)
{
	return DAT_CNO_WAIT(c->spare_cno, DAT_TIMEOUT_INFINITE, &c->triggered);
}

/* Before the wait, or in its n-th call of the transport: it polls, arms, and polls once more. */
static const struct {
	DAT_RETURN (*run)(struct calls *);
	unsigned stays; /* 0: before */
} sleeps[] = {
	{ wait_for_completion, 0 }, { wait_for_completion, 1 }, { wait_for_completion, 2 },
	{ wait_for_completion, 3 }, { wait_for_trigger, 0 },
};

START_TEST(a_wait_is_cancelled_when_it_sleeps)
{
	struct attempt attempt = { .state = PTHREAD_CANCEL_ENABLE,
				   .type = PTHREAD_CANCEL_DEFERRED,
				   .run = sleeps[_i].run,
				   .pending = !sleeps[_i].stays,
				   .stays = sleeps[_i].stays };

	all_open(false);
	ck_dat(evd_modify_cno(calls.recv_evd, calls.spare_cno));
	attempt_make(&attempt);
	ck_assert(!attempt.returned);
	ck_dat(evd_modify_cno(calls.recv_evd, DAT_HANDLE_NULL));
	ck_dat_is(evd_wait(calls.recv_evd, 0, 1, &calls.event, &(DAT_COUNT){ 0 }), TIMED_OUT);
	calls_make_all(&calls, NULL);
	all_close();
}
END_TEST

int main(int argc, char **argv)
{
	const int n = (int)calls_count();
	TCase *tcase = tcase_create("cancel");

	tcase_add_test(tcase, each_call_of_the_table_has_a_row);
	for (int i = 0; i < n; i++)
		case_add_named(tcase, a_request_is_pending_as_long_as_the_call_lasts,
			       call_rows[i].name, i, NULL);
	tcase_add_loop_test(tcase, a_thread_ends_in_a_post_only_where_the_device_lets_it, 0, 2);
	tcase_add_test(tcase, a_request_is_pending_while_lines_of_the_log_are_written);
	tcase_add_test(tcase, a_request_is_pending_while_a_name_is_announced_and_retracted);
	for (int i = 0; i < n; i++)
		case_add_named(tcase, a_request_that_arrives_in_the_transport_is_pending,
			       call_rows[i].name, i, NULL);
	for (int i = 0; i < COUNT(slow_paths); i++)
		case_add_named(tcase, a_request_is_pending_on_the_slow_path, slow_paths[i].what, i,
			       NULL);
	if (CAN_CANCEL_THREADS)
		tcase_add_loop_test(tcase, a_wait_is_cancelled_when_it_sleeps, 0, COUNT(sleeps));
	return run_unit_cases(argc, argv);
}
