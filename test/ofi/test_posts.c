/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posts of both directions of one endpoint, and when sends complete. The service thread does
 * nothing while the lock of the IA is held.
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "../../udapl/ofi/ofi.h"
#include "../unit/race.h"
#include "ofi_test.h"

static struct ofi_rig rig;

static void setup(void)
{
	ofi_rig_open(&rig);
	ofi_rig_lock(&rig);
}

static void teardown(void)
{
	ofi_rig_unlock(&rig);
	ofi_rig_close(&rig);
}

static void post_recv(DAT_EP_HANDLE ep)
{
	ck_dat(ep_post_recv(ep, 1, &rig.segment, (DAT_DTO_COOKIE){ .as_64 = 1 },
			    DAT_COMPLETION_DEFAULT_FLAG));
}

static void post_send(DAT_COMPLETION_FLAGS flags)
{
	ck_dat(ep_post_send(rig.active, 1, &rig.segment, (DAT_DTO_COOKIE){ .as_64 = 3 }, flags));
}

static struct tp_cq *cq_of(DAT_EVD_HANDLE evd)
{
	return ((struct evd *)evd)->cq;
}

/* As the service thread does when nobody polls. */
static void harvest(struct tp_cq *cq)
{
	spin_lock(&cq->lock);
	(void)cq_harvest_locked(cq);
	spin_unlock(&cq->lock);
}

/* ---- who counts reads ---- */

static void post_read(void *unused)
{
	(void)unused;
	ck_dat(ep_post_rdma_read(rig.active, 1, &rig.segment, (DAT_DTO_COOKIE){ .as_64 = 2 },
				 &rig.target, DAT_COMPLETION_DEFAULT_FLAG));
}

static void have_read_posted_beside(void)
{
	race_call(RACE_READ, NULL, post_read, NULL);
}

static void post_recv_at_once(void)
{
	have_read_posted_beside();
	post_recv(rig.active);
}

/* Who reads the queue next gives it to libfabric. */
static void post_recv_later(void)
{
	ff_fail("fi_recv", FI_EAGAIN, 1);
	post_recv(rig.active);
	have_read_posted_beside();
	harvest(cq_of(rig.dto_evd));
}

static void post_recv_in_vain(void)
{
	ff_fail("fi_recv", FI_EAGAIN, 1);
	ff_hook("fi_recv", have_read_posted_beside);
	post_recv(rig.active);
	ff_hook("fi_recv", NULL);
}

static void (*const receives[])(void) = { post_recv_at_once, post_recv_later, post_recv_in_vain };

/* What the consumer still waits for must have happened. */
static void expect_completions(unsigned n)
{
	DAT_EVENT event;

	while (n--) {
		ck_dat(evd_dequeue(rig.dto_evd, &event));
		ck_assert_uint_eq(event.event_data.dto_completion_event_data.status,
				  DAT_DTO_SUCCESS);
	}
}

/* A read that another thread posts at the same time would be lost, and a fence wait for ever. */
START_TEST(a_receive_leaves_the_count_of_reads_alone)
{
	post_recv(rig.passive);
	post_read(NULL);
	expect_completions(1); /* so reads of that region are fast from here on */
	receives[_i]();
	if (!race_happened(RACE_READ)) {
		race_call(RACE_READ, &rig, NULL, NULL); /* nothing has that address */
		post_read(NULL);
	}
	expect_completions(1);
	ck_dat(ep_post_send(rig.active, 1, &rig.segment, (DAT_DTO_COOKIE){ .as_64 = 3 },
			    DAT_COMPLETION_BARRIER_FENCE_FLAG));
	expect_completions(2);
}
END_TEST

/* A fence would wait for ever for a read that was counted, and not made. */
START_TEST(a_read_that_is_refused_again_is_counted_once)
{
	ff_fail_times("fi_read", FI_EAGAIN, 2);
	post_read(NULL);
	harvest(cq_of(rig.dto_evd));
	ck_assert(!ff_fail_left("fi_read"));
	post_recv(rig.passive);
	post_send(DAT_COMPLETION_BARRIER_FENCE_FLAG);
	expect_completions(3);
}
END_TEST

/* ---- a queue with something unusual ---- */

/* Though it is into the region of the read before. */
START_TEST(a_read_does_not_overtake_a_send_that_waits)
{
	unsigned reads;

	post_read(NULL);
	expect_completions(1);
	post_recv(rig.passive);
	ff_fail_times("fi_send", FI_EAGAIN, 2);
	post_send(DAT_COMPLETION_DEFAULT_FLAG);
	reads = ff_calls("fi_read");
	post_read(NULL);
	ck_assert_uint_eq(ff_calls("fi_read"), reads);
	expect_completions(3);
	ck_assert_uint_eq(ff_calls("fi_read"), reads + 1);
}
END_TEST

/* Receives are slow then, because each may be the one for which the message waits. */
START_TEST(a_message_that_waits_makes_no_send_slow)
{
	const struct tp_qp *qp = ((struct ep *)rig.active)->qp;
	struct tp_cq *cq = cq_of(rig.dto_evd);

	spin_lock(&cq->lock);
	cq_starve_locked(cq);
	spin_unlock(&cq->lock);
	post_recv(rig.active);
	ck_assert_ptr_null(qp->recvs.view.mr);
	post_recv(rig.passive);
	post_send(DAT_COMPLETION_DEFAULT_FLAG);
	ck_assert_ptr_nonnull(qp->sends.view.mr);
	expect_completions(2);
}
END_TEST

START_TEST(a_receive_that_waits_is_flushed_at_the_end)
{
	DAT_EVENT event;

	ff_fail("fi_recv", FI_EAGAIN, 1);
	post_recv(rig.active);
	ck_assert_int_eq(tp_qp_error(((struct ep *)rig.active)->qp), 0);
	ck_dat(evd_dequeue(rig.dto_evd, &event));
	ck_assert_uint_eq(event.event_data.dto_completion_event_data.status, DAT_DTO_ERR_FLUSHED);
}
END_TEST

/* As often as the service thread takes them in, and a call takes all that there are. */
START_TEST(what_another_thread_took_in_is_reported)
{
	for (unsigned i = 0; i < 3; i++) {
		post_recv(rig.passive);
		post_send(DAT_COMPLETION_DEFAULT_FLAG);
		harvest(cq_of(rig.dto_evd));
		ck_assert(evd_drain(rig.dto_evd));
		expect_completions(2);
	}
}
END_TEST

/* ---- a post that waits ---- */

static DAT_EVD_HANDLE evd_new(void)
{
	DAT_EVD_HANDLE evd;

	ck_dat(evd_create(rig.ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd));
	return evd;
}

/* The active endpoint has two queues to itself. */
static void rig_open_with_queues(DAT_EVD_HANDLE *recv, DAT_EVD_HANDLE *request)
{
	ck_dat(ofi_ia_open(&rig, "scripted 127.0.0.1"));
	ck_dat(ofi_objects_create(&rig));
	*recv = evd_new();
	*request = evd_new();
	ck_dat(ep_free(rig.active));
	ck_dat(ep_create(rig.ia, rig.pz, *recv, *request, rig.conn_evd, NULL, &rig.active));
	ck_dat(ofi_connect(&rig));
	ofi_rig_lock(&rig);
}

static void rig_close_with_queues(DAT_EVD_HANDLE recv, DAT_EVD_HANDLE request)
{
	ofi_rig_unlock(&rig);
	ck_dat(ep_free(rig.active));
	rig.active = DAT_HANDLE_NULL;
	ck_dat(evd_free(recv));
	ck_dat(evd_free(request));
	ofi_rig_close(&rig);
}

static void visit(struct tp_cq *cq)
{
	progress_due(cq);
	(void)tp_dev_progress(cq->dev, 0);
}

/* The read is complete, but in libfabric's queue, and the message waits for it. */
static void post_what_waits(void)
{
	post_read(NULL);
	ck_dat(ep_post_send(rig.active, 1, &rig.segment, (DAT_DTO_COOKIE){ .as_64 = 3 },
			    DAT_COMPLETION_BARRIER_FENCE_FLAG));
}

/*
 * While the consumer sleeps on the other queue of the endpoint, it does not take in the read for
 * which the message waits, and the service thread has left both queues.
 */
START_TEST(a_post_that_waits_calls_the_service_thread)
{
	DAT_EVD_HANDLE recv, request;

	rig_open_with_queues(&recv, &request);
	post_recv(rig.passive);
	ck_assert_int_eq(tp_cq_arm(cq_of(recv), TP_ARM_ANY), 0);
	visit(cq_of(recv));
	ck_assert_uint_eq(cq_of(request)->progress, PROGRESS_LEFT);
	post_what_waits();
	(void)tp_dev_progress(cq_of(request)->dev, 0);
	expect_completions(1);
	rig_close_with_queues(recv, request);
}
END_TEST

static void *post_on_another_thread(void *unused)
{
	post_what_waits();
	return unused;
}

static void have_waiting_posted(void *unused)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, post_on_another_thread, unused), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

/* The visit has looked at the first queue of the two; it looks at the second one next. */
static void have_waiting_posted_later(void *queue)
{
	const struct tp_cq *second = queue;

	race_call(RACE_UNLOCK, second->lock.id.name, have_waiting_posted, NULL);
}

/* It has seen that nothing waits, and that the consumer sleeps. */
START_TEST(a_post_that_waits_as_its_queue_is_left_has_it_visited)
{
	DAT_EVD_HANDLE recv, request;

	rig_open_with_queues(&recv, &request);
	post_recv(rig.passive);
	ck_assert_int_eq(tp_cq_arm(cq_of(recv), TP_ARM_ANY), 0);
	race_call(RACE_UNLOCK, cq_of(request)->lock.id.name, have_waiting_posted_later,
		  cq_of(recv));
	visit(cq_of(request));
	ck_assert(race_happened(RACE_UNLOCK));
	ck_assert(cq_of(request)->due);
	(void)tp_dev_progress(cq_of(request)->dev, 0);
	expect_completions(1);
	rig_close_with_queues(recv, request);
}
END_TEST

/* ---- when a send completes ---- */

#define SETTING "DAPL_OFI_DELIVERED_SENDS"

static const struct {
	const char *value;
	uint64_t offered, want;
	const char *log;
} settings[] = {
	{ NULL, FI_DELIVERY_COMPLETE, 0, NULL },
	{ "", FI_DELIVERY_COMPLETE, 0, NULL },
	{ "0", FI_DELIVERY_COMPLETE, 0, NULL },
	{ "1", FI_DELIVERY_COMPLETE, FI_DELIVERY_COMPLETE, NULL },
	{ "1", 0, 0, NULL }, /* a device, whose sends do so anyway */
	{ "2", FI_DELIVERY_COMPLETE, 0, SETTING "=2 is ignored: not 0 or 1" },
	{ "1x", FI_DELIVERY_COMPLETE, 0, SETTING "=1x is ignored: not 0 or 1" },
};

START_TEST(sends_are_delivered_if_the_environment_says_so)
{
	unsetenv(SETTING);
	if (settings[_i].value)
		setenv(SETTING, settings[_i].value, 1);
	ff_provider()->op_flags = settings[_i].offered;
	ff_log_capture();
	ofi_rig_open(&rig);
	ck_assert_uint_eq(ff_seen().send_flags, settings[_i].want);
	ofi_rig_close(&rig);
	if (settings[_i].log)
		ck_assert_ptr_nonnull(strstr(ff_log(), settings[_i].log));
	else
		ck_assert_str_eq(ff_log(), "");
}
END_TEST

static void setup_delivered(void)
{
	setenv(SETTING, "1", 1);
	setup();
	ck_dat(ep_post_send(rig.active, 1, &rig.segment, (DAT_DTO_COOKIE){ .as_64 = 3 },
			    DAT_COMPLETION_DEFAULT_FLAG));
}

static void expect_nothing(void)
{
	DAT_EVENT event;

	ck_assert_uint_eq(evd_dequeue(rig.dto_evd, &event), DAT_QUEUE_EMPTY);
}

START_TEST(a_delivered_send_completes_when_a_receive_has_taken_it)
{
	expect_nothing();
	post_recv(rig.passive);
	expect_completions(2);
	expect_nothing();
}
END_TEST

static void expect_flushed(uint64_t cookie)
{
	const DAT_EVENT event = ofi_event(rig.dto_evd);

	ck_assert_ptr_eq(event.event_data.dto_completion_event_data.ep_handle, rig.active);
	ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, cookie);
	ck_assert_uint_eq(event.event_data.dto_completion_event_data.status, DAT_DTO_ERR_FLUSHED);
}

START_TEST(a_delivered_send_that_was_not_taken_is_flushed)
{
	ofi_rig_unlock(&rig);
	ck_dat(ep_disconnect(rig.active, DAT_CLOSE_ABRUPT_FLAG));
	expect_flushed(3);
	expect_nothing();
	ofi_rig_lock(&rig);
}
END_TEST

/* It is complete before the send is, which stands before it. */
static void post_write_behind(void)
{
	ck_dat(ep_post_rdma_write(rig.active, 1, &rig.segment, (DAT_DTO_COOKIE){ .as_64 = 4 },
				  &rig.target, DAT_COMPLETION_DEFAULT_FLAG));
	expect_nothing();
}

START_TEST(what_completes_early_is_reported_in_its_turn)
{
	post_write_behind();
	post_recv(rig.passive);
	expect_completions(3);
	expect_nothing();
}
END_TEST

/* As on a device, where nothing behind a failure is executed. */
START_TEST(what_completed_early_is_flushed_behind_a_failure)
{
	post_write_behind();
	ofi_rig_unlock(&rig);
	ck_dat(ep_disconnect(rig.active, DAT_CLOSE_ABRUPT_FLAG));
	expect_flushed(3);
	expect_flushed(4);
	ofi_rig_lock(&rig);
}
END_TEST

/* ---- where a write ends ---- */

/* Programs await the last word in memory, which who copies a write must not store in pieces. */
START_TEST(the_last_word_of_a_write_is_a_part_of_its_own)
{
	const size_t parts = ff_provider()->rma_iov_limit = _i ? 1 : 4;

	ck_dat(ofi_ia_open(&rig, "scripted 127.0.0.1"));
	ck_dat(ofi_objects_create(&rig));
	ck_dat(ofi_connect(&rig));
	for (size_t size = 1; size <= 100; size++) {
		const bool at_once = size <= 8 && !(size & (size - 1));
		const size_t last = size > 8 ? 8 : 1;

		rig.segment.segment_length = size;
		rig.target.segment_length = size;
		ck_assert_uint_eq(ofi_write(&rig, rig.target.rmr_context), DAT_DTO_SUCCESS);
		ck_assert_uint_eq(ff_seen().last_part, parts == 1 || at_once ? size : last);
		ck_assert_mem_eq(rig.memory, rig.memory + OFI_MEMORY / 2, size);
	}
	ofi_rig_close(&rig);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *counts = tcase_create("counts"), *opened = tcase_create("opened"),
	      *delivered = tcase_create("delivered");

	tcase_add_checked_fixture(counts, setup, teardown);
	tcase_add_loop_test(counts, a_receive_leaves_the_count_of_reads_alone, 0, COUNT(receives));
	tcase_add_test(counts, a_read_that_is_refused_again_is_counted_once);
	tcase_add_test(counts, a_read_does_not_overtake_a_send_that_waits);
	tcase_add_test(counts, a_message_that_waits_makes_no_send_slow);
	tcase_add_test(counts, a_receive_that_waits_is_flushed_at_the_end);
	tcase_add_test(counts, what_another_thread_took_in_is_reported);
	tcase_add_test(opened, a_post_that_waits_calls_the_service_thread);
	tcase_add_test(opened, a_post_that_waits_as_its_queue_is_left_has_it_visited);
	tcase_add_loop_test(opened, sends_are_delivered_if_the_environment_says_so, 0,
			    COUNT(settings));
	tcase_add_loop_test(opened, the_last_word_of_a_write_is_a_part_of_its_own, 0, 2);
	tcase_add_checked_fixture(delivered, setup_delivered, teardown);
	tcase_add_test(delivered, a_delivered_send_completes_when_a_receive_has_taken_it);
	tcase_add_test(delivered, a_delivered_send_that_was_not_taken_is_flushed);
	tcase_add_test(delivered, what_completes_early_is_reported_in_its_turn);
	tcase_add_test(delivered, what_completed_early_is_flushed_behind_a_failure);
	return run_cases(argc, argv);
}
