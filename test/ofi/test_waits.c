/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues: what makes their descriptor readable, what a sleep below a CNO costs, and who
 * takes completions that were read together.
 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>

#include <rdma/fi_errno.h>

#include "../../udapl/ofi/ofi.h"
#include "../unit/race.h"
#include "ofi_test.h"

static struct ofi_rig rig;
static struct evd *evd;
static struct tp_cq *cq;

/* A message, which has two completions as soon as it is posted. */
static void send_message_of(uint64_t n)
{
	const DAT_DTO_COOKIE cookie = { .as_64 = n };

	ck_dat(ep_post_recv(rig.passive, 1, &rig.segment, cookie, DAT_COMPLETION_DEFAULT_FLAG));
	ck_dat(ep_post_send(rig.active, 1, &rig.segment, cookie, DAT_COMPLETION_DEFAULT_FLAG));
}

static void send_message(void)
{
	send_message_of(1);
}

static void expect_message(void)
{
	for (unsigned i = 0; i < 2; i++)
		ck_assert_uint_eq(ofi_completion(&rig), DAT_DTO_SUCCESS);
}

/* ---- readable ---- */

static bool is_readable(void)
{
	struct pollfd fd = { .fd = tp_cq_fd(cq), .events = POLLIN };

	return poll(&fd, 1, 0) > 0;
}

/* The service thread does nothing as long as the lock of the IA is held. */
static void setup(void)
{
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	ofi_rig_open(&rig);
	evd = rig.dto_evd;
	cq = evd->cq;
	mutex_lock(&evd->obj.ia->lock);
}

static void teardown(void)
{
	ck_assert_int_eq(tp_cq_arm(cq, TP_ARM_ERRORS), 0);
	mutex_unlock(&evd->obj.ia->lock);
	ofi_rig_close(&rig);
}

START_TEST(a_queue_that_is_armed_for_nobody_is_not_readable)
{
	ck_assert_int_eq(tp_cq_arm(cq, TP_ARM_ANY), 0);
	ck_assert(!is_readable());
	send_message();
	ck_assert(is_readable());
	ck_assert(tp_cq_events(cq));
	ck_assert_int_eq(tp_cq_arm(cq, TP_ARM_NOTHING), 0);
	ck_assert(!is_readable());
	expect_message();
}
END_TEST

START_TEST(a_queue_is_armed_again_when_its_event_was_taken)
{
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(tp_cq_arm(cq, TP_ARM_ANY), 0);
		ck_assert(!is_readable());
		send_message();
		ck_assert(is_readable());
		ck_assert(tp_cq_events(cq));
		ck_assert(evd_drain(evd));
		expect_message();
	}
}
END_TEST

static struct tp_cq *pair_of_cq;
static unsigned arrivals;

/* The second of a pair, which was visited with the first one. */
static void second_is_due_again(enum race_point point, const void *object)
{
	if (point != RACE_VISIT || (object != cq && object != pair_of_cq))
		return;
	if (++arrivals == 2)
		progress_due(object == cq ? cq : pair_of_cq);
}

/* Somebody who slept there has said so, for example: the service thread has left it to that one. */
START_TEST(a_queue_that_becomes_due_after_its_pair_was_visited_stays_due)
{
	struct tp_dev *dev = cq->dev;
	struct tp_cq *first, *second;
	DAT_EVD_HANDLE other;

	mutex_unlock(&evd->obj.ia->lock);
	ck_dat(evd_create(rig.ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &other));
	mutex_lock(&evd->obj.ia->lock);
	pair_of_cq = ((struct evd *)other)->cq;
	first = cq->other;
	cq->other = pair_of_cq;
	pair_of_cq->other = cq;
	progress_due(pair_of_cq);
	progress_due(cq);
	second = pair_of_cq;
	atomic_store(&race_hook, second_is_due_again);
	(void)progress_run(dev, false, false);
	atomic_store(&race_hook, NULL);
	ck_assert_uint_eq(arrivals, 2);
	ck_assert(second->due);
	cq->other = first;
	second->other = NULL;
	mutex_unlock(&evd->obj.ia->lock);
	ck_dat(evd_free(other));
	mutex_lock(&evd->obj.ia->lock);
}
END_TEST

/* Or the service thread would leave it to a thread that does not come. */
START_TEST(after_an_event_nobody_sleeps_on_a_queue)
{
	ck_assert_int_eq(tp_cq_arm(cq, TP_ARM_ANY), 0);
	ck_assert_uint_eq(cq->sleeper, SLEEPER_READS);
	send_message();
	evd->watch.ops->ready_locked(&evd->watch, false);
	ck_assert_uint_eq(cq->sleeper, SLEEPER_NONE);
	expect_message();
}
END_TEST

static void take_in_and_signal(void)
{
	spin_lock(&cq->lock);
	(void)cq_harvest_locked(cq);
	cq_signal_locked(cq);
	spin_unlock(&cq->lock);
}

/* Even if nobody took the event before the queue was armed again. */
START_TEST(what_others_take_in_is_signalled_once)
{
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(tp_cq_arm(cq, _i ? TP_ARM_ANY : TP_ARM_ERRORS), 0);
		send_message();
		take_in_and_signal();
		ck_assert(is_readable());
		ck_assert(evd_drain(evd));
	}
	ck_assert_int_eq(tp_cq_arm(cq, TP_ARM_ANY), 0);
	(void)tp_cq_events(cq);
	ck_assert_int_eq(tp_cq_arm(cq, TP_ARM_ANY), 0);
	ck_assert(!is_readable());
	expect_message();
	expect_message();
}
END_TEST

/* The service thread comes to a queue that was readable before somebody armed it and sleeps. */
START_TEST(a_queue_without_an_event_stays_armed)
{
	ck_assert_int_eq(tp_cq_sleep(cq), cq->fi_fd);
	ck_assert(!tp_cq_events(cq));
	send_message();
	take_in_and_signal();
	ck_assert(is_readable());
	ck_assert(tp_cq_events(cq));
	expect_message();
}
END_TEST

/* A visit of the service thread, which no consumer makes needless. */
static void visit(void)
{
	atomic_store(&cq->polled, false);
	progress_due(cq);
	(void)tp_dev_progress(cq->dev, 0);
}

/* The service thread has looked for completions, and asks libfabric to report those to come. */
START_TEST(what_completes_during_a_visit_is_signalled)
{
	ck_assert_int_eq(tp_cq_arm(cq, TP_ARM_ERRORS), 0);
	ff_fail("fi_cq_read", FI_EAGAIN, 1); /* as if it came a moment later */
	send_message();
	visit();
	ck_assert(is_readable());
	ck_assert(evd_drain(evd));
	expect_message();
}
END_TEST

/* Who sleeps would wake up for ever. */
START_TEST(a_queue_that_can_not_be_emptied_is_not_readable)
{
	ck_assert_int_eq(tp_cq_arm(cq, TP_ARM_ANY), 0);
	send_message();
	ff_fail_times("fi_trywait", FI_EAGAIN, 2);
	ff_fail_times("fi_cq_read", FI_EAGAIN, 2);
	ck_assert(tp_cq_events(cq));
	ck_assert_int_eq(tp_cq_arm(cq, TP_ARM_ANY), 0);
	ck_assert(!ff_fail_left("fi_trywait"));
	ck_assert(!ff_fail_left("fi_cq_read"));
	ck_assert(!is_readable());
	expect_message();
}
END_TEST

/* ---- batches ---- */

#define BATCH 4 /* messages; each has two completions, which are read together */

/* Those of each endpoint come in the order of its posts. */
static void dequeue_in_order(unsigned n)
{
	static uint64_t next[2];
	DAT_EVENT event;

	for (unsigned i = 0; i < n; i++) {
		const DAT_DTO_COMPLETION_EVENT_DATA *dto =
			&event.event_data.dto_completion_event_data;

		ck_dat(evd_dequeue(rig.dto_evd, &event));
		ck_assert_uint_eq(dto->status, DAT_DTO_SUCCESS);
		ck_assert_uint_eq(dto->user_cookie.as_64, next[dto->ep_handle == rig.active]++);
	}
}

static void send_batch(unsigned messages)
{
	for (uint64_t i = 0; i < messages; i++)
		send_message_of(i);
}

/* The service thread takes those that are left of it in. */
START_TEST(a_batch_stays_in_order_whoever_takes_it)
{
	DAT_EVENT event;

	send_batch(BATCH);
	dequeue_in_order((unsigned)_i);
	spin_lock(&cq->lock);
	(void)cq_harvest_locked(cq);
	spin_unlock(&cq->lock);
	dequeue_in_order(2 * BATCH - (unsigned)_i);
	ck_assert_uint_eq(evd_dequeue(rig.dto_evd, &event), DAT_QUEUE_EMPTY);
}
END_TEST

/*
 * Behind the end of what was read together stands what an older read has left there: here that of a
 * receive for which nothing has come.
 */
START_TEST(what_an_older_read_has_left_is_no_completion)
{
	const struct tp_qp *qp = ((struct ep *)rig.active)->qp;
	const DAT_DTO_COOKIE cookie = { .as_64 = 0 };
	DAT_EVENT event;

	ck_dat(ep_post_recv(rig.active, 1, &rig.segment, cookie, DAT_COMPLETION_DEFAULT_FLAG));
	ck_assert_ptr_nonnull(qp->recvs.expected);
	send_batch(BATCH - 1);
	dequeue_in_order(1);
	spin_lock(&cq->lock);
	(void)cq_harvest_locked(cq);
	*cq->read_end = (CQ_ENTRY){ .op_context = qp->recvs.expected };
	spin_unlock(&cq->lock);
	dequeue_in_order(2 * (BATCH - 1) - 1);
	ck_assert_uint_eq(evd_dequeue(rig.dto_evd, &event), DAT_QUEUE_EMPTY);
}
END_TEST

/* ---- calls ---- */

#define ROUNDS 200

/* What one sleep takes. */
static struct counts {
	unsigned sets, reads, tries; /* calls of epoll_ctl, fi_cq_read and fi_trywait */
} own;

static struct counts counts_here(void)
{
	return (struct counts){ ff_calls_here("epoll_ctl"), ff_calls_here("fi_cq_read"),
				ff_calls_here("fi_trywait") };
}

static void *sleep_once(void *cno)
{
	const struct counts before = counts_here();
	DAT_EVD_HANDLE triggered;
	struct counts after;

	ck_dat(cno_wait(cno, DAT_TIMEOUT_INFINITE, &triggered));
	ck_assert_ptr_eq(triggered, rig.dto_evd);
	after = counts_here();
	own = (struct counts){ after.sets - before.sets, after.reads - before.reads,
			       after.tries - before.tries };
	return NULL;
}

static bool is_waited_for(struct cno *cno)
{
	bool waited_for;

	spin_lock(&cno->lock);
	waited_for = cno->wait_list;
	spin_unlock(&cno->lock);
	return waited_for;
}

static void message_for_sleeper(DAT_CNO_HANDLE cno)
{
	DAT_EVD_HANDLE triggered;
	pthread_t thread;

	while (cno_wait(cno, 0, &triggered) == DAT_SUCCESS)
		; /* of an event that was taken */
	ck_assert_int_eq(pthread_create(&thread, NULL, sleep_once, cno), 0);
	while (!is_waited_for(cno))
		sched_yield();
	send_message();
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	expect_message();
}

/* The service thread may come in between now and then, which makes it more calls. */
START_TEST(a_sleep_below_a_cno_takes_the_calls_of_libfabric_only)
{
	bool cheap = false;
	DAT_CNO_HANDLE cno;

	ofi_rig_open(&rig);
	ck_dat(cno_create(rig.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(evd_modify_cno(rig.dto_evd, cno));
	for (unsigned i = 0; i < ROUNDS && !cheap; i++) {
		message_for_sleeper(cno);
		cheap = !own.sets && own.reads <= 1 && own.tries <= 1;
	}
	ck_assert(cheap);
	ck_dat(evd_modify_cno(rig.dto_evd, DAT_HANDLE_NULL));
	ck_dat(cno_free(cno));
	ofi_rig_close(&rig);
}
END_TEST

/* ---- a wait that begins ---- */

static void nothing(void *unused)
{
	(void)unused;
}

static void *expect_completion(void *unused)
{
	ck_assert_uint_eq(ofi_completion(&rig), DAT_DTO_SUCCESS);
	return unused;
}

/* The service thread has found nobody who waits, and one comes before it disarms the queue. */
START_TEST(who_waits_as_a_queue_is_disarmed_sleeps_armed)
{
	pthread_t thread;

	ofi_rig_open(&rig);
	evd = rig.dto_evd;
	race_hold(RACE_DISARM, evd);
	send_message();
	race_wait_held();
	expect_message();
	race_call(RACE_SLEEP, evd, nothing, NULL);
	ck_assert_int_eq(pthread_create(&thread, NULL, expect_completion, NULL), 0);
	while (!race_happened(RACE_SLEEP))
		sched_yield();
	race_release(NULL);
	ofi_rig_lock(&rig);
	ck_assert(evd->cq->armed);
	ck_assert_uint_eq(evd->cq->sleeper, SLEEPER_READS);
	ofi_rig_unlock(&rig);
	send_message();
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_uint_eq(ofi_completion(&rig), DAT_DTO_SUCCESS);
	ofi_rig_close(&rig);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *readable = tcase_create("readable"), *calls = tcase_create("calls");

	tcase_add_checked_fixture(readable, setup, teardown);
	tcase_add_test(readable, a_queue_that_is_armed_for_nobody_is_not_readable);
	tcase_add_test(readable, a_queue_is_armed_again_when_its_event_was_taken);
	tcase_add_test(readable, a_queue_that_becomes_due_after_its_pair_was_visited_stays_due);
	tcase_add_test(readable, after_an_event_nobody_sleeps_on_a_queue);
	tcase_add_loop_test(readable, what_others_take_in_is_signalled_once, 0, 2);
	tcase_add_test(readable, a_queue_without_an_event_stays_armed);
	tcase_add_test(readable, what_completes_during_a_visit_is_signalled);
	tcase_add_test(readable, a_queue_that_can_not_be_emptied_is_not_readable);
	tcase_add_test(readable, what_an_older_read_has_left_is_no_completion);
	tcase_add_loop_test(readable, a_batch_stays_in_order_whoever_takes_it, 0, 2 * BATCH + 1);
	tcase_add_test(calls, a_sleep_below_a_cno_takes_the_calls_of_libfabric_only);
	tcase_add_test(calls, who_waits_as_a_queue_is_disarmed_sleeps_armed);
	return run_cases(argc, argv);
}
