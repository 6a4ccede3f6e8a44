/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues: srq.c, and what queue pairs on one do; which endpoint took a receive, the
 * numbers of queue pairs, the device's events, and each failure.
 */
#include "../harness/process.h"
#include "../unit/alloc.h"
#include "verbs_test.h"

#define ROWS(array) ((int)ARRAY_SIZE(array))
#define POISON	    ((void *)0x5a5a5a5a)

static struct rig rig;
static struct tp_srq *srq;

static struct fv_device *with_queues(void)
{
	struct fv_device *device = fv_device(0);

	device->attr.max_srq = 100;
	device->attr.max_srq_wr = 1000;
	device->attr.max_srq_sge = 8;
	return device;
}

static struct srq *up_srq(void)
{
	return (struct srq *)up_evd(9);
}

static struct tp_srq *make_srq(struct tp_pd *pd)
{
	const struct tp_srq_attr attr = { .pd = pd, .max_recv = 10, .max_sge = 3 };
	struct tp_srq *made;

	ck_assert_int_eq(tp_srq_create(rig.dev, &attr, up_srq(), &made), 0);
	return made;
}

static int try_srq_qp(unsigned n, struct tp_qp **qp)
{
	const struct tp_qp_attr attr = {
		.pd = rig.pd,
		.send_cq = rig.send_cq,
		.recv_cq = rig.recv_cq,
		.srq = srq,
		.max_send = 8,
		.max_recv = 8,
		.max_send_sge = 2,
		.max_recv_sge = 2,
	};

	return tp_qp_create(rig.dev, &attr, up_ep(n), qp);
}

static struct tp_qp *make_srq_qp(unsigned n)
{
	struct tp_qp *qp;

	ck_assert_int_eq(try_srq_qp(n, &qp), 0);
	return qp;
}

static void setup(void)
{
	with_queues();
	fv_log_capture();
	rig_open(&rig);
	srq = make_srq(rig.pd);
}

static void teardown(void)
{
	if (srq)
		tp_srq_destroy(srq);
	rig_close(&rig);
}

static void destroy(struct tp_qp *qp)
{
	rig_qp_destroy(qp);
	tp_qp_forget(qp);
}

static void post(uint64_t n)
{
	const struct tp_sge sge = { .address = n, .length = 64, .lmr_context = 5 };

	ck_assert_int_eq(tp_srq_post(srq, (void *)(uintptr_t)n, &sge, 1), 0);
}

/* The next completion is a receive of endpoint @n. */
static void expect_receive(uint64_t tag, unsigned n, DAT_DTO_COMPLETION_STATUS status)
{
	struct tp_wc wc;

	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, &wc, 1), 1);
	ck_assert_uint_eq((uintptr_t)wc.tag, tag);
	ck_assert_int_eq(wc.status, status);
	ck_assert_ptr_eq(tp_wc_ep(rig.recv_cq, &wc), up_ep(n));
}

/* ---- what a device has ---- */

static struct tp_attr attr_of_open(void)
{
	struct tp_dev *dev = dev_open();
	struct tp_attr attr = *tp_dev_attr(dev);

	dev_close(dev);
	return attr;
}

START_TEST(the_limits_are_the_devices)
{
	struct fv_device *device = with_queues();
	struct tp_attr attr = attr_of_open();

	ck_assert_uint_eq(attr.max_srq, 100);
	ck_assert_uint_eq(attr.max_srq_wr, 1000);
	ck_assert_uint_eq(attr.max_srq_sge, 8);
	ck_assert_uint_ne(attr.caps & TP_CAP_SRQ_ANY_PD, 0);
	device->quirks = FV_SRQ_SAME_PD;
	attr = attr_of_open();
	ck_assert_uint_eq(attr.max_srq, 100);
	ck_assert_uint_eq(attr.caps & TP_CAP_SRQ_ANY_PD, 0);
	device->attr.max_srq_sge = 1000;
	ck_assert_uint_eq(attr_of_open().max_srq_sge, TP_MAX_SGE);
	device->attr.max_srq_wr = 0;
	ck_assert_uint_eq(attr_of_open().max_srq, 0);
}
END_TEST

/* It uses the protection domain of the queue pair; other devices are not known. */
START_TEST(zones_may_differ_only_where_that_is_known_to_work)
{
	static const struct {
		uint32_t vendor;
		bool may;
	} rows[] = { { 0, false },
		     { 0xffffff, false },
		     { 0x626d74, true },
		     { 0x0002c9, true },
		     { 0x123456, false } };

	with_queues()->attr.vendor_id = rows[_i].vendor;
	ck_assert_int_eq(!!(attr_of_open().caps & TP_CAP_SRQ_ANY_PD), rows[_i].may);
}
END_TEST

static const struct {
	const char *call;
	unsigned nth;
} probe_failures[] = {
	{ "ibv_create_srq", 1 },
	{ "ibv_create_qp", 1 },
	{ "ibv_alloc_pd", 2 },
	{ "ibv_alloc_pd", 3 },
};

/* They may be counted all the same. */
START_TEST(a_device_that_makes_no_queue_has_none)
{
	with_queues();
	if (_i == 0)
		fv_device(0)->quirks = FV_NO_SRQ;
	else
		fv_fail(probe_failures[_i - 1].call, ENOMEM, probe_failures[_i - 1].nth);
	ck_assert_uint_eq(attr_of_open().max_srq, 0);
}
END_TEST

START_TEST(a_device_without_queues_is_not_asked_for_one)
{
	const unsigned before = fv_calls("ibv_create_srq");

	ck_assert_uint_eq(attr_of_open().max_srq, 0);
	ck_assert_uint_eq(fv_calls("ibv_create_srq"), before);
}
END_TEST

/* ---- the queue ---- */

START_TEST(a_queue_is_made_as_asked)
{
	const struct ibv_srq_init_attr init = fv_seen().srq;

	ck_assert_uint_eq(init.attr.max_wr, 10);
	ck_assert_uint_eq(init.attr.max_sge, 3);
	ck_assert_ptr_eq(init.srq_context, srq);
	ck_assert_uint_eq(fv_alive(FV_SRQ), 1);
}
END_TEST

START_TEST(a_queue_that_fails_leaves_nothing)
{
	const struct tp_srq_attr attr = { .pd = rig.pd, .max_recv = 10, .max_sge = 3 };
	struct tp_srq *made = POISON;
	int err;

	fv_fail("ibv_create_srq", ENOMEM, 1);
	ck_assert_int_eq(tp_srq_create(rig.dev, &attr, up_srq(), &made), -ENOMEM);
	ck_assert_ptr_nonnull(strstr(fv_log(), "ibv_create_srq for 10 receives of 3 segments"));
	fv_fail("ibv_create_srq", FV_NO_ERRNO, 1);
	ck_assert_int_eq(tp_srq_create(rig.dev, &attr, up_srq(), &made), -EINVAL);
	alloc_fail_nth(1);
	err = tp_srq_create(rig.dev, &attr, up_srq(), &made);
	ck_assert(alloc_failed());
	ck_assert_int_eq(err, -ENOMEM);
	ck_assert_ptr_eq(made, POISON);
	ck_assert_uint_eq(fv_alive(FV_SRQ), 1);
}
END_TEST

START_TEST(a_post_passes_its_segments_on)
{
	const struct tp_sge sges[] = { { 0x1000, 10, 7 }, { 0x2000, 20, 8 } };
	struct fv_received seen;

	ck_assert_int_eq(tp_srq_post(srq, (void *)0x77, sges, 2), 0);
	seen = fv_received(0);
	ck_assert_ptr_eq(seen.srq, srq->ibv);
	ck_assert_uint_eq(seen.wr.wr_id, 0x77);
	ck_assert_int_eq(seen.wr.num_sge, 2);
	ck_assert_ptr_null(seen.wr.next);
	ck_assert_mem_eq(seen.sge, sges, sizeof(sges));
	ck_assert_int_eq(tp_srq_post(srq, (void *)0x78, NULL, 0), 0);
	ck_assert_int_eq(fv_received(0).wr.num_sge, rig.dev->iwarp ? 1 : 0);
	fv_fail("ibv_post_srq_recv", ENOMEM, 1);
	ck_assert_int_eq(tp_post_error(tp_srq_post(srq, (void *)0x79, sges, 1)), -ENOMEM);
}
END_TEST

START_TEST(a_modify_asks_for_one_thing)
{
	ck_assert_int_eq(tp_srq_resize(srq, 77), 0);
	ck_assert_int_eq(fv_seen().srq_mask, IBV_SRQ_MAX_WR);
	ck_assert_uint_eq(fv_seen().srq_attr.max_wr, 77);
	ck_assert_int_eq(tp_srq_arm(srq, 5), 0);
	ck_assert_int_eq(fv_seen().srq_mask, IBV_SRQ_LIMIT);
	ck_assert_uint_eq(fv_seen().srq_attr.srq_limit, 5);
	fv_fail("ibv_modify_srq", ENOMEM, 1);
	ck_assert_int_eq(tp_srq_resize(srq, 78), -ENOMEM);
	fv_fail("ibv_modify_srq", EINVAL, 1);
	ck_assert_int_eq(tp_srq_resize(srq, 78), -EOPNOTSUPP);
	fv_device(0)->quirks = FV_NO_SRQ_MODIFY;
	ck_assert_int_eq(tp_srq_resize(srq, 78), -EOPNOTSUPP);
	ck_assert_int_eq(tp_srq_arm(srq, 1), -EOPNOTSUPP);
}
END_TEST

/* ---- queue pairs ---- */

START_TEST(a_queue_lives_as_long_as_its_queue_pairs)
{
	struct tp_qp *one = make_srq_qp(1), *two = make_srq_qp(2);

	destroy(one);
	ck_assert_uint_eq(fv_alive(FV_SRQ), 1);
	tp_srq_destroy(srq);
	srq = NULL;
	ck_assert_uint_eq(fv_alive(FV_SRQ), 1);
	destroy(two);
	ck_assert_uint_eq(fv_alive(FV_SRQ), 0);
}
END_TEST

/* Each is needed until it is forgotten, because a completion may still lead to it. */
START_TEST(queue_pairs_that_are_forgotten_take_no_memory)
{
	const unsigned many = 1000;
	size_t used = 0;

	for (unsigned i = 0; i < 2 * many; i++) {
		fv_next_qp_num(500);
		destroy(make_srq_qp(1));
		fv_trace_clear();
		if (i == many) /* all is as large as it will be */
			used = memory_in_use();
	}
	ck_assert_uint_lt(memory_in_use(), used + many * LEAST_BLOCK);
}
END_TEST

START_TEST(a_queue_pair_has_no_receives_of_its_own)
{
	struct tp_qp *qp = make_srq_qp(1);

	ck_assert_ptr_eq(fv_seen().qp.srq, srq->ibv);
	ck_assert_uint_eq(fv_seen().qp.cap.max_recv_wr, 0);
	ck_assert_uint_eq(fv_seen().qp.cap.max_recv_sge, 0);
	destroy(qp);
}
END_TEST

START_TEST(each_completion_names_its_endpoint)
{
	struct tp_qp *one = make_srq_qp(1), *two = make_srq_qp(2);
	struct tp_wc wc[3];

	for (unsigned n = 1; n <= 4; n++)
		post(n);
	fv_complete_srq_recv(two->ibv, IBV_WC_SUCCESS, 11);
	fv_complete_srq_recv(one->ibv, IBV_WC_SUCCESS, 12);
	fv_complete_srq_recv(two->ibv, IBV_WC_WR_FLUSH_ERR, 13);
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, wc, 3), 3);
	ck_assert_ptr_eq(tp_wc_ep(rig.recv_cq, &wc[0]), up_ep(2));
	ck_assert_ptr_eq(tp_wc_ep(rig.recv_cq, &wc[1]), up_ep(1));
	ck_assert_ptr_eq(tp_wc_ep(rig.recv_cq, &wc[2]), up_ep(2));
	ck_assert_uint_eq(wc[1].length, 12);
	destroy(two);
	fv_complete_srq_recv(one->ibv, IBV_WC_SUCCESS, 14);
	expect_receive(4, 1, DAT_DTO_SUCCESS);
	destroy(one);
}
END_TEST

/* The numbers are far apart, at the borders of the table's parts. */
START_TEST(any_number_leads_to_its_endpoint)
{
	static const uint32_t numbers[] = { 1,	      0x801,	 0xfff,	     0x1000,
					    0xffffff, 0x1000000, 0xfffff000, 0xffffffff };
	struct tp_qp *qps[ROWS(numbers)];

	for (int i = 0; i < ROWS(numbers); i++) {
		fv_next_qp_num(numbers[i]);
		qps[i] = make_srq_qp((unsigned)i + 1);
		ck_assert_uint_eq(qps[i]->ibv->qp_num, numbers[i]); /* nobody else has it */
		post((unsigned)i);
	}
	for (int i = 0; i < ROWS(numbers); i++) {
		fv_complete_srq_recv(qps[i]->ibv, IBV_WC_SUCCESS, 1);
		expect_receive((unsigned)i, (unsigned)i + 1, DAT_DTO_SUCCESS);
	}
	for (int i = 0; i < ROWS(numbers); i++)
		destroy(qps[i]);
}
END_TEST

/* Until it is forgotten its completions are its endpoint's, and nobody else has its number. */
START_TEST(a_number_is_not_used_again_before_it_is_forgotten)
{
	struct tp_qp *old, *next;

	fv_next_qp_num(500);
	old = make_srq_qp(1);
	post(1);
	post(2);
	post(3);
	fv_complete_srq_recv(old->ibv, IBV_WC_SUCCESS, 5);
	fv_complete_srq_recv(old->ibv, IBV_WC_WR_FLUSH_ERR, 0);
	rig_qp_destroy(old);
	fv_next_qp_num(500);
	next = make_srq_qp(2);
	ck_assert_uint_ne(next->ibv->qp_num, 500);
	ck_assert_uint_eq(fv_alive(FV_QP), 2);
	expect_receive(1, 1, DAT_DTO_SUCCESS);
	expect_receive(2, 1, DAT_DTO_ERR_FLUSHED);
	tp_qp_forget(old);
	destroy(next);
	fv_next_qp_num(500);
	next = make_srq_qp(3);
	ck_assert_uint_eq(next->ibv->qp_num, 500);
	fv_complete_srq_recv(next->ibv, IBV_WC_SUCCESS, 5);
	expect_receive(3, 3, DAT_DTO_SUCCESS);
	destroy(next);
}
END_TEST

START_TEST(a_queue_pair_that_fails_leaves_nothing)
{
	const unsigned alive = fv_alive(FV_KINDS);
	struct tp_qp *qp = POISON;
	int err;

	for (unsigned n = 1; alloc_fail_nth(n), err = try_srq_qp(1, &qp), alloc_failed(); n++) {
		ck_assert_int_eq(err, -ENOMEM);
		ck_assert_ptr_eq(qp, POISON);
		ck_assert_uint_eq(fv_alive(FV_KINDS), alive);
	}
	ck_assert_int_eq(err, 0);
	destroy(qp);
	qp = POISON;
	fv_fail("ibv_modify_qp", EINVAL, 1);
	fv_next_qp_num(600);
	ck_assert_int_eq(try_srq_qp(1, &qp), -EINVAL);
	ck_assert_ptr_eq(qp, POISON);
	ck_assert_uint_eq(fv_alive(FV_KINDS), alive);
	fv_next_qp_num(600);
	qp = make_srq_qp(2);
	ck_assert_uint_eq(qp->ibv->qp_num, 600);
	destroy(qp);
}
END_TEST

/* ---- events ---- */

static const struct {
	enum ibv_event_type type;
	enum up_kind want;
} srq_events[] = {
	{ IBV_EVENT_SRQ_LIMIT_REACHED, UP_SRQ_LIMIT },
	{ IBV_EVENT_SRQ_ERR, UP_SRQ_BROKEN },
	{ IBV_EVENT_QP_LAST_WQE_REACHED, UP_LAST_RECEIVE },
};

START_TEST(events_reach_their_object)
{
	struct tp_qp *qp = make_srq_qp(4);
	struct ibv_async_event event = { .event_type = srq_events[_i].type };
	const bool is_qp = srq_events[_i].want == UP_LAST_RECEIVE;

	if (is_qp)
		event.element.qp = qp->ibv;
	else
		event.element.srq = srq->ibv;
	fv_async_event(0, &event);
	rig_progress(&rig);
	upcall_is(srq_events[_i].want, is_qp ? (void *)up_ep(4) : (void *)up_srq());
	no_upcall();
	ck_assert_uint_eq(fv_alive(FV_ASYNC_EVENT), 0); /* acknowledged */
	/* one that was not read goes with its object */
	fv_async_event(0, &event);
	destroy(qp);
	tp_srq_destroy(srq);
	srq = NULL;
	rig_progress(&rig);
	no_upcall();
}
END_TEST

/* The queue pair of an orphaned attempt holds its queue in the same way. */
START_TEST(events_of_a_queue_that_only_a_queue_pair_holds_are_dropped)
{
	struct tp_qp *qp = make_srq_qp(4);
	const struct ibv_async_event event = { .event_type = srq_events[_i].type,
					       .element.srq = srq->ibv };

	tp_srq_destroy(srq);
	srq = NULL;
	fv_async_event(0, &event);
	rig_progress(&rig);
	no_upcall();
	destroy(qp);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *devices = tcase_create("devices"), *queues = tcase_create("queues");

	tcase_add_checked_fixture(devices, verbs_begin, NULL);
	tcase_add_test(devices, the_limits_are_the_devices);
	tcase_add_loop_test(devices, zones_may_differ_only_where_that_is_known_to_work, 0, 5);
	tcase_add_loop_test(devices, a_device_that_makes_no_queue_has_none, 0,
			    ROWS(probe_failures) + 1);
	tcase_add_test(devices, a_device_without_queues_is_not_asked_for_one);
	tcase_add_checked_fixture(queues, verbs_begin, NULL);
	tcase_add_checked_fixture(queues, setup, teardown);
	tcase_add_test(queues, a_queue_is_made_as_asked);
	tcase_add_test(queues, a_queue_that_fails_leaves_nothing);
	tcase_add_test(queues, a_post_passes_its_segments_on);
	tcase_add_test(queues, a_modify_asks_for_one_thing);
	tcase_add_test(queues, a_queue_lives_as_long_as_its_queue_pairs);
	tcase_add_test(queues, queue_pairs_that_are_forgotten_take_no_memory);
	tcase_add_test(queues, a_queue_pair_has_no_receives_of_its_own);
	tcase_add_test(queues, each_completion_names_its_endpoint);
	tcase_add_test(queues, any_number_leads_to_its_endpoint);
	tcase_add_test(queues, a_number_is_not_used_again_before_it_is_forgotten);
	tcase_add_test(queues, a_queue_pair_that_fails_leaves_nothing);
	tcase_add_loop_test(queues, events_reach_their_object, 0, ROWS(srq_events));
	tcase_add_loop_test(queues, events_of_a_queue_that_only_a_queue_pair_holds_are_dropped, 0,
			    2);
	return run_cases(argc, argv);
}
