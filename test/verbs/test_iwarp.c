/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iWARP: rdma_connect on a helper thread, attempts that are given up without an answer, and the
 * completions that they leave.
 */
#include <pthread.h>
#include <stdio.h>

#include "../unit/alloc.h"
#include "conn.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- helper threads ---- */

/* A connection whose helper is in rdma_connect. */
static struct tp_conn *conn_in_helper(void)
{
	struct tp_conn *conn = conn_at(AT_RESOLVING_ROUTE);

	fv_hold("rdma_connect");
	conn_event(conn, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	fv_await("rdma_connect", 1);
	return conn;
}

/* Handles the result of the helper, once it is there. */
static void result_await(const struct tp_conn *conn)
{
	while (conn->result_pending)
		rig_progress(&rig);
}

START_TEST(a_connect_does_not_block_the_service_thread)
{
	const struct fv_cm_event established = {
		.type = RDMA_CM_EVENT_ESTABLISHED,
		.responder_resources = 1,
		.initiator_depth = 8,
		.pdata = "answer",
		.pdata_size = 6,
	};
	struct tp_conn *conn = conn_in_helper();
	struct up_record up;

	fv_let_go("rdma_connect");
	result_await(conn);
	no_upcall();
	fv_cm_event(conn->id, &established);
	rig_progress(&rig);
	up = upcall_is(UP_ESTABLISHED, up_ep(0));
	ck_assert_uint_eq(up.max_read_in, 1);
	ck_assert_uint_eq(up.max_read_out, 2);
	ck_assert_mem_eq(up.pdata, "answer", 6);
	conn_end(conn);
}
END_TEST

START_TEST(a_peer_without_read_depths_leaves_them)
{
	struct tp_conn *conn = conn_at(AT_CONNECTING);
	struct up_record up;

	conn_event(conn, RDMA_CM_EVENT_ESTABLISHED, 0);
	up = upcall_is(UP_ESTABLISHED, up_ep(0));
	ck_assert_uint_eq(up.max_read_in, 4);
	ck_assert_uint_eq(up.max_read_out, 2);
	conn_end(conn);
}
END_TEST

START_TEST(the_answer_may_come_before_the_result)
{
	struct tp_conn *conn = conn_in_helper();

	conn_event(conn, RDMA_CM_EVENT_ESTABLISHED, 0);
	upcall_is(UP_ESTABLISHED, up_ep(0));
	fv_let_go("rdma_connect");
	result_await(conn);
	no_upcall();
	fv_answer(conn->id);
	conn_end(conn);
}
END_TEST

static unsigned count_areas(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned lines = 0;
	int c;

	ck_assert_ptr_nonnull(maps);
	while ((c = getc(maps)) != EOF)
		lines += c == '\n';
	fclose(maps);
	return lines;
}

/* A thread that nobody joins keeps its stack. */
START_TEST(helpers_leave_no_stacks)
{
	unsigned before = 0;

	for (unsigned n = 0; n < 200; n++) {
		if (n == 20) /* some stacks are kept for the next threads */
			before = count_areas();
		tp_release(conn_at(AT_AWAITING_RELEASE));
	}
	ck_assert_uint_lt(count_areas(), before + 100);
	conn_end(NULL);
}
END_TEST

START_TEST(a_helper_has_a_small_stack)
{
	struct tp_conn *conn = conn_at(AT_CONNECTING);

	ck_assert_uint_gt(fv_seen().stack_size, 0);
	ck_assert_uint_le(fv_seen().stack_size, 1 << 18);
	fv_answer(conn->id);
	conn_end(conn);
}
END_TEST

/* A program with much thread-local memory, which is on the stack. */
START_TEST(a_helper_has_a_stack_of_the_usual_size_if_a_small_one_is_refused)
{
	struct tp_conn *conn;

	fv_fail("pthread_create", EINVAL, 1);
	conn = conn_at(AT_CONNECTING);
	ck_assert_uint_gt(fv_seen().stack_size, 1 << 18);
	fv_answer(conn->id);
	conn_end(conn);
}
END_TEST

START_TEST(a_helper_that_does_not_start_ends_the_attempt)
{
	struct tp_conn *conn = conn_at(AT_RESOLVING_ROUTE);

	fv_fail("pthread_create", EAGAIN, 1);
	conn_event(conn, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	ck_assert_uint_eq(upcall_is(UP_FAILED, up_ep(0)).cause, TP_LOCAL_ERROR);
	conn_end(conn);
}
END_TEST

static const struct {
	int err;
	enum tp_cause cause;
} results[] = {
	{ ECONNREFUSED, TP_NON_PEER_REJECTED },
	{ ECONNRESET, TP_NON_PEER_REJECTED },
	{ ENOTCONN, TP_NON_PEER_REJECTED },
	{ ETIMEDOUT, TP_UNREACHABLE },
	{ EHOSTUNREACH, TP_UNREACHABLE },
	{ ENETUNREACH, TP_UNREACHABLE },
	{ EHOSTDOWN, TP_UNREACHABLE },
	{ EADDRNOTAVAIL, TP_LOCAL_ERROR },
	{ ENOMEM, TP_LOCAL_ERROR },
};

START_TEST(a_connect_that_fails_says_why)
{
	struct tp_conn *conn = conn_at(AT_RESOLVING_ROUTE);

	fv_fail("rdma_connect", results[_i].err, 1);
	conn_event(conn, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	result_await(conn);
	ck_assert_uint_eq(upcall_is(UP_FAILED, up_ep(0)).cause, results[_i].cause);
	conn_end(conn);
}
END_TEST

START_TEST(a_failure_after_the_end_is_not_told)
{
	struct tp_conn *conn = conn_in_helper();

	conn_event(conn, RDMA_CM_EVENT_UNREACHABLE, 0);
	upcall_is(UP_FAILED, up_ep(0));
	fv_fail("rdma_connect", ECONNREFUSED, 1);
	fv_let_go("rdma_connect");
	result_await(conn);
	no_upcall();
	fv_answer(conn->id);
	conn_end(conn);
}
END_TEST

START_TEST(an_iwarp_rejection_has_no_reason_code)
{
	static const char mark[] = { 'D', 'A', 'T', 0 };
	const struct fv_cm_event rejected = {
		.type = RDMA_CM_EVENT_REJECTED,
		.status = CM_REJECT_STALE,
		.pdata = _i ? mark : NULL,
		.pdata_size = _i ? 4 : 0,
	};
	struct tp_conn *conn = conn_at(AT_CONNECTING);

	fv_cm_event(conn->id, &rejected);
	rig_progress(&rig);
	ck_assert_uint_eq(upcall_is(UP_FAILED, up_ep(0)).cause,
			  _i ? TP_NON_PEER_REJECTED : TP_PEER_REJECTED);
	conn_end(conn);
}
END_TEST

/* ---- release while the helper runs ---- */

START_TEST(a_release_cancels_the_helper)
{
	struct tp_conn *conn = conn_in_helper();

	tp_release(conn); /* rdma_connect is still held */
	conn_end(NULL);
}
END_TEST

START_TEST(a_helper_that_was_cancelled_is_handled_by_the_service_thread)
{
	struct tp_conn *conn = conn_in_helper();

	tp_release(conn);
	while (fv_alive(FV_ID))
		rig_progress(&rig);
	conn_end(NULL);
}
END_TEST

/* What no signal interrupts is waited for, longer than connections linger. */
START_TEST(a_helper_that_can_not_be_cancelled_is_waited_for)
{
	struct tp_conn *conn = conn_at(AT_RESOLVING_ROUTE);

	fv_hold_firmly("rdma_connect");
	conn_event(conn, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	fv_await("rdma_connect", 1);
	tp_release(conn);
	for (int i = 0; i < 3; i++) {
		fv_clock_advance(10000000000);
		rig_progress(&rig);
	}
	ck_assert_uint_eq(fv_alive(FV_ID), 1);
	fv_fail("rdma_connect", ECONNREFUSED, 1);
	fv_let_go("rdma_connect");
	while (fv_alive(FV_ID))
		rig_progress(&rig);
	conn_end(NULL);
}
END_TEST

START_TEST(an_answer_while_the_helper_is_cancelled_is_no_end_yet)
{
	struct tp_conn *conn = conn_in_helper();
	enum rdma_cm_event_type answer = _i ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_REJECTED;

	fv_cm_post(conn->id, answer, 0);
	tp_release(conn);
	while (fv_alive(FV_ID))
		rig_progress(&rig);
	conn_end(NULL);
}
END_TEST

/* ---- orphans ---- */

START_TEST(an_attempt_without_an_answer_is_left_to_a_thread)
{
	struct tp_conn *conn = conn_at(_i ? AT_ACCEPTING : AT_CONNECTING);
	unsigned destroys = fv_calls("rdma_destroy_id");
	struct rdma_cm_id *id = conn->id;

	fv_cm_post(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0); /* queued: dropped */
	tp_release(conn);
	ck_assert_int_eq(fv_seen().modified[IBV_QPS_ERR].attr.qp_state, IBV_QPS_ERR);
	ck_assert_ptr_null(rig.qp->conn);
	rig_qp_destroy(rig.qp);
	rig.qp = NULL;
	ck_assert_uint_eq(fv_alive(FV_QP), 1);
	fv_await("rdma_destroy_id", destroys + 1);
	ck_assert_uint_eq(fv_alive(FV_ID), conn_listener ? 2 : 1);
	fv_answer(id);
	conn_end(NULL);
}
END_TEST

struct answer {
	struct rdma_cm_id *id;
	pthread_t thread;
	unsigned destroys; /* of identifiers, until the peer answers */
};

static void *answer_main(void *arg)
{
	const struct answer *answer = arg;

	fv_await("rdma_destroy_id", answer->destroys);
	fv_answer(answer->id);
	return NULL;
}

/* The peer answers when the provider waits for it, and not before. */
static void answer_late(struct answer *answer, struct rdma_cm_id *id)
{
	answer->id = id;
	answer->destroys = fv_calls("rdma_destroy_id") + 1;
	ck_assert_int_eq(pthread_create(&answer->thread, NULL, answer_main, answer), 0);
}

START_TEST(an_orphan_outlives_its_device)
{
	struct tp_conn *conn = conn_at(AT_CONNECTING);
	struct rdma_cm_id *id = conn->id;

	tp_release(conn);
	rig_qp_destroy(rig.qp);
	tp_cq_destroy(rig.send_cq);
	tp_cq_destroy(rig.recv_cq);
	tp_pd_destroy(rig.pd);
	fv_ia_unlock();
	tp_dev_close(rig.dev);
	ck_assert_uint_eq(fv_alive(FV_CONTEXT), 1);
	ck_assert_uint_eq(fv_alive(FV_QP), 1);
	ck_assert_uint_eq(fv_alive(FV_EVENT_CHANNEL), 1);
	fv_answer(id);
	fv_await_nothing();
}
END_TEST

/* The endpoint may be freed by now. */
START_TEST(events_of_an_orphan_s_queue_pair_are_not_told)
{
	const struct ibv_async_event event = {
		.event_type = IBV_EVENT_QP_FATAL,
		.element.qp = rig.qp->ibv,
	};
	struct tp_conn *conn = conn_at(AT_CONNECTING);
	struct rdma_cm_id *id = conn->id;

	tp_release(conn);
	rig_qp_destroy(rig.qp);
	rig.qp = NULL;
	fv_async_event(0, &event);
	rig_progress(&rig);
	no_upcall();
	fv_answer(id);
	conn_end(NULL);
}
END_TEST

START_TEST(pending_events_of_an_orphan_are_dropped)
{
	struct tp_conn *conn = conn_at(AT_CONNECTING);
	struct rdma_cm_id *id = conn->id;
	struct tp_listener *listener;
	uint16_t port = 7000;

	ck_assert_int_eq(tp_listen(rig.dev, &port, up_sp(0), &listener), 0);
	fv_cm_post(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	tp_unlisten(listener); /* takes it off the channel */
	tp_release(conn);
	fv_answer(id);
	while (fv_alive(FV_ID))
		sched_yield();
	rig_progress(&rig);
	conn_end(NULL);
}
END_TEST

START_TEST(a_qp_that_can_not_be_put_into_error_is_logged)
{
	struct tp_conn *conn = conn_at(AT_CONNECTING);
	struct rdma_cm_id *id = conn->id;

	fv_fail("ibv_modify_qp", EINVAL, 1);
	fv_log_capture();
	tp_release(conn);
	ck_assert_ptr_nonnull(strstr(fv_log(), "to ERR failed"));
	fv_answer(id);
	conn_end(NULL);
}
END_TEST

/* What an orphan's thread needs, and is not to be had. */
static const struct {
	const char *call;
	int err;
} shortages[] = {
	{ "rdma_create_event_channel", EMFILE },
	{ "rdma_migrate_id", ENOMEM },
	{ "pthread_create", EAGAIN },
};

/* The stand-in aborts a call that would sleep under ia->lock. */
static struct rdma_cm_id *orphan_without_resources(int shortage, struct answer *answer)
{
	struct tp_conn *conn = conn_at(AT_CONNECTING);
	struct rdma_cm_id *id = conn->id;

	if (answer)
		answer_late(answer, id);
	fv_fail_always(shortages[shortage].call, shortages[shortage].err);
	tp_release(conn);
	rig_progress(&rig);
	rig_qp_destroy(rig.qp);
	rig.qp = NULL;
	ck_assert_uint_eq(fv_alive(FV_ID), 1);
	ck_assert_uint_eq(fv_alive(FV_QP), 1);
	return id;
}

static const enum rdma_cm_event_type answers[] = {
	RDMA_CM_EVENT_ESTABLISHED,  RDMA_CM_EVENT_REJECTED,	 RDMA_CM_EVENT_UNREACHABLE,
	RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_CONNECT_ERROR,
};

START_TEST(an_orphan_without_a_thread_ends_with_its_answer)
{
	struct rdma_cm_id *id = orphan_without_resources(_i / COUNT(answers), NULL);

	fv_cm_post(id, answers[_i % COUNT(answers)], 0);
	rig_progress(&rig);
	ck_assert_uint_eq(fv_alive(FV_ID), 0);
	ck_assert_uint_eq(fv_alive(FV_QP), 0);
	conn_end(NULL);
}
END_TEST

START_TEST(an_orphan_without_a_thread_gets_one_later)
{
	struct rdma_cm_id *id = orphan_without_resources(_i, NULL);
	unsigned destroys = fv_calls("rdma_destroy_id");

	for (int i = 0; i < 3; i++) {
		fv_clock_advance(10000000000);
		rig_progress(&rig);
		ck_assert_uint_eq(fv_calls("rdma_destroy_id"), destroys);
	}
	fv_fail_always(shortages[_i].call, 0);
	fv_clock_advance(10000000000);
	rig_progress(&rig);
	fv_await("rdma_destroy_id", destroys + 1);
	fv_answer(id);
	conn_end(NULL);
}
END_TEST

START_TEST(an_orphan_without_a_thread_is_waited_for_by_close)
{
	struct answer answer;

	orphan_without_resources(_i, &answer);
	conn_end(NULL);
	pthread_join(answer.thread, NULL);
}
END_TEST

/* The thread was cancelled, but the request may have been sent before. */
START_TEST(an_attempt_whose_helper_was_cancelled_may_have_no_answer_yet)
{
	struct tp_conn *conn = conn_in_helper();
	struct rdma_cm_id *id = conn->id;
	unsigned destroys = fv_calls("rdma_destroy_id");

	fv_ask(id);
	tp_release(conn);
	while (fv_calls("rdma_destroy_id") == destroys)
		rig_progress(&rig);
	ck_assert_uint_eq(fv_alive(FV_ID), 1);
	fv_answer(id);
	conn_end(NULL);
}
END_TEST

START_TEST(an_attempt_that_has_failed_needs_no_thread)
{
	struct tp_conn *conn = conn_at(AT_RESOLVING_ROUTE);

	fv_hold_firmly("rdma_connect");
	conn_event(conn, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	fv_await("rdma_connect", 1);
	tp_release(conn);
	fv_fail_always("rdma_create_event_channel", EMFILE);
	fv_fail("rdma_connect", ECONNREFUSED, 1);
	fv_let_go("rdma_connect");
	while (!up_take_wake())
		sched_yield();
	tp_dev_progress(rig.dev, 0);
	ck_assert_uint_eq(fv_alive(FV_ID), 0);
	conn_end(NULL);
}
END_TEST

/* ---- stray completions ---- */

/* An endpoint with receives posted, @tag up, is destroyed while its attempt has no answer. */
static struct ibv_qp *qp_orphan(struct rdma_cm_id **id, uintptr_t tag, unsigned receives)
{
	const struct tp_sge sge = { .address = 0x1000, .length = 64 };
	struct tp_conn *conn = conn_at(AT_CONNECTING);
	struct ibv_qp *ibv = rig.qp->ibv;
	struct tp_wc wc;

	fv_device(0)->quirks |= FV_LATE_FLUSH;
	*id = conn->id;
	for (unsigned i = 0; i < receives; i++)
		ck_assert_int_eq(tp_post_recv(rig.qp, (void *)(tag + i), &sge, 1), 0);
	tp_release(conn);
	rig_qp_destroy(rig.qp);
	rig.qp = NULL;
	/* as the core does when it has destroyed a QP */
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, &wc, 1), 0);
	ck_assert_uint_eq(tp_cq_poll(rig.send_cq, &wc, 1), 0);
	return ibv;
}

/* The peer answers, and the orphan's thread is through. */
static void orphan_finish(struct rdma_cm_id *id)
{
	fv_answer(id);
	while (rig.recv_cq->holders > 1 || rig.send_cq->holders > 1)
		sched_yield();
}

START_TEST(late_flushes_of_an_orphan_are_dropped)
{
	struct tp_wc wc[TP_POLL_MAX];
	struct rdma_cm_id *id;
	struct ibv_qp *ibv = qp_orphan(&id, 0x500, 3);

	ck_assert_uint_eq(fv_outstanding(), 3);
	fv_flush(ibv);
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, wc, TP_POLL_MAX), 0);
	fv_answer(id);
	conn_end(NULL);
}
END_TEST

START_TEST(late_successes_of_an_orphan_are_dropped)
{
	struct tp_wc wc[TP_POLL_MAX];
	struct rdma_cm_id *id;
	struct ibv_qp *ibv = qp_orphan(&id, 0x500, 1);

	fv_complete_recv(ibv, IBV_WC_SUCCESS, 64);
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, wc, 1), 0);
	fv_answer(id);
	conn_end(NULL);
}
END_TEST

/* Before tp_qp_destroy the endpoint gets its flushes. */
START_TEST(flushes_before_the_end_of_the_endpoint_are_delivered)
{
	const struct tp_sge sge = { .address = 0x1000, .length = 64 };
	struct tp_conn *conn = conn_at(AT_CONNECTING);
	struct rdma_cm_id *id = conn->id;
	struct tp_wc wc;

	ck_assert_int_eq(tp_post_recv(rig.qp, (void *)0x77, &sge, 1), 0);
	tp_release(conn);
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, &wc, 1), 1);
	ck_assert_ptr_eq(wc.tag, (void *)0x77);
	ck_assert_int_eq(wc.status, DAT_DTO_ERR_FLUSHED);
	fv_answer(id);
	conn_end(NULL);
}
END_TEST

static void complete_in(struct tp_cq *cq, uint32_t qp_num, uint64_t wr_id)
{
	const struct ibv_wc wc = { .wr_id = wr_id, .qp_num = qp_num };

	fv_complete(cq->ibv, &wc, false);
}

static void complete_as(uint32_t qp_num, uint64_t wr_id)
{
	complete_in(rig.recv_cq, qp_num, wr_id);
}

/* A queue pair has one queue for its sends and another one for its receives. */
START_TEST(late_completions_of_an_orphan_are_dropped_in_either_queue)
{
	struct tp_cq *cq = _i ? rig.send_cq : rig.recv_cq;
	struct tp_wc wc[TP_POLL_MAX];
	struct rdma_cm_id *id;
	uint32_t number = qp_orphan(&id, 0x500, 0)->qp_num;

	ck_assert_ptr_eq(cq->polled, &cq->filter);
	ck_assert(stray_has(cq, number));
	complete_in(cq, number, 0x500);
	complete_in(cq, 0x11, 1);
	ck_assert_uint_eq(tp_cq_poll(cq, wc, TP_POLL_MAX), 1);
	ck_assert_ptr_eq(wc[0].tag, (void *)1);
	orphan_finish(id);
	complete_in(cq, number, 0x501);
	ck_assert_uint_eq(tp_cq_poll(cq, wc, TP_POLL_MAX), 0);
	ck_assert_ptr_eq(cq->polled, cq->ibv);
	ck_assert(!stray_has(cq, number));
	conn_end(NULL);
}
END_TEST

START_TEST(completions_of_others_keep_their_order_between_dropped_ones)
{
	struct tp_wc wc[TP_POLL_MAX];
	struct rdma_cm_id *id;
	struct ibv_qp *orphan = qp_orphan(&id, 0x500, 0);
	uint32_t number = orphan->qp_num;

	rig.qp = rig_qp(&rig, 1);
	for (unsigned i = 0; i < 11; i++) {
		complete_as(number, 0x500 + i);
		complete_as(rig.qp->ibv->qp_num, i);
	}
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, wc, TP_POLL_MAX), TP_POLL_MAX);
	for (unsigned i = 0; i < TP_POLL_MAX; i++)
		ck_assert_uint_eq((uintptr_t)wc[i].tag, i);
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, wc, 2), 2);
	ck_assert_uint_eq((uintptr_t)wc[0].tag, 8);
	ck_assert_uint_eq((uintptr_t)wc[1].tag, 9);
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, wc, 2), 1);
	ck_assert_uint_eq((uintptr_t)wc[0].tag, 10);
	fv_answer(id);
	conn_end(NULL);
}
END_TEST

START_TEST(a_queue_is_polled_directly_again_when_its_orphans_are_gone)
{
	struct tp_wc wc[TP_POLL_MAX];
	struct rdma_cm_id *id;
	struct ibv_qp *ibv = qp_orphan(&id, 0x500, 2);
	uint32_t number = ibv->qp_num;

	ck_assert_ptr_eq(rig.recv_cq->polled, &rig.recv_cq->filter);
	fv_flush(ibv);
	orphan_finish(id);
	/* the flushes are in the queue though the QP is gone */
	ck_assert(stray_has(rig.recv_cq, number));
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, wc, TP_POLL_MAX), 0);
	ck_assert_ptr_eq(rig.recv_cq->polled, rig.recv_cq->ibv);
	ck_assert(!stray_has(rig.recv_cq, number));
	complete_as(number, 9); /* of another QP, since the number is free */
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, wc, TP_POLL_MAX), 1);
	conn_end(NULL);
}
END_TEST

START_TEST(a_queue_that_is_never_empty_goes_on_dropping)
{
	struct tp_wc wc[TP_POLL_MAX];
	struct rdma_cm_id *id;
	struct ibv_qp *ibv = qp_orphan(&id, 0x500, 1);
	uint32_t number = ibv->qp_num;

	orphan_finish(id);
	complete_as(0x11, 1);
	complete_as(0x11, 2);
	complete_as(number, 0x500);
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, wc, 1), 1);
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, wc, 1), 1);
	ck_assert_ptr_eq(rig.recv_cq->polled, &rig.recv_cq->filter);
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, wc, 1), 0);
	conn_end(NULL);
}
END_TEST

START_TEST(one_queue_for_both_directions_drops_both)
{
	const struct tp_qp_attr attr = {
		.pd = rig.pd,
		.send_cq = rig.recv_cq,
		.recv_cq = rig.recv_cq,
		.max_send = 1,
		.max_recv = 1,
		.max_send_sge = 1,
		.max_recv_sge = 1,
	};
	struct rdma_cm_id *id;
	struct ibv_qp *ibv;
	struct tp_wc wc;

	rig_qp_destroy(rig.qp);
	ck_assert_int_eq(tp_qp_create(rig.dev, &attr, up_ep(0), &rig.qp), 0);
	ibv = qp_orphan(&id, 0x500, 1);
	fv_flush(ibv);
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, &wc, 1), 0);
	fv_answer(id);
	conn_end(NULL);
}
END_TEST

/* dat_ep_reset makes a new QP, which uses the same tags. */
START_TEST(a_qp_number_is_not_used_again_while_its_completions_are_dropped)
{
	struct tp_wc wc[TP_POLL_MAX];
	struct rdma_cm_id *id;
	struct ibv_qp *ibv = qp_orphan(&id, 0x500, 1);
	uint32_t number = ibv->qp_num;

	orphan_finish(id);
	fv_next_qp_num(number);
	rig.qp = rig_qp(&rig, 0);
	ck_assert_uint_ne(rig.qp->ibv->qp_num, number);
	rig_qp_destroy(rig.qp);
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, wc, 1), 0);
	ck_assert_uint_eq(tp_cq_poll(rig.send_cq, wc, 1), 0);
	fv_next_qp_num(number);
	rig.qp = rig_qp(&rig, 0);
	ck_assert_uint_eq(rig.qp->ibv->qp_num, number);
	conn_end(NULL);
}
END_TEST

/* Another endpoint may have one of the two queues, and one of its own. */
START_TEST(no_qp_of_either_queue_has_the_number_of_an_orphan)
{
	struct tp_qp_attr attr = { .pd = rig.pd, .max_send = 1, .max_recv = 1 };
	struct rdma_cm_id *id;
	uint32_t number = qp_orphan(&id, 0x500, 1)->qp_num;
	struct tp_cq *own;
	struct tp_qp *qp;

	orphan_finish(id);
	ck_assert_int_eq(tp_cq_create(rig.dev, 8, up_evd(2), &own), 0);
	attr.send_cq = _i ? own : rig.send_cq;
	attr.recv_cq = _i ? rig.recv_cq : own;
	fv_next_qp_num(number);
	ck_assert_int_eq(tp_qp_create(rig.dev, &attr, up_ep(1), &qp), 0);
	ck_assert_uint_ne(qp->ibv->qp_num, number);
	rig_qp_destroy(qp);
	tp_cq_destroy(own);
	conn_end(NULL);
}
END_TEST

START_TEST(a_qp_whose_number_is_taken_fails_as_the_second_one_does)
{
	const struct tp_qp_attr attr = {
		.pd = rig.pd, .send_cq = rig.send_cq, .recv_cq = rig.recv_cq, .max_recv = 1
	};
	struct rdma_cm_id *id;
	uint32_t number = qp_orphan(&id, 0x500, 1)->qp_num;

	orphan_finish(id);
	fv_next_qp_num(number);
	fv_fail("ibv_create_qp", ENOMEM, 2);
	rig.dev->env.max_inline = 0; /* no other attempts */
	ck_assert_int_eq(tp_qp_create(rig.dev, &attr, up_ep(0), &rig.qp), -ENOMEM);
	ck_assert_uint_eq(fv_alive(FV_QP), 0);
	conn_end(NULL);
}
END_TEST

START_TEST(a_queue_may_end_while_it_drops)
{
	struct rdma_cm_id *id;
	struct ibv_qp *ibv = qp_orphan(&id, 0x500, 2);

	tp_cq_destroy(rig.recv_cq);
	rig.recv_cq = NULL;
	fv_flush(ibv);
	fv_answer(id);
	conn_end(NULL);
}
END_TEST

START_TEST(a_qp_without_memory_leaves_nothing)
{
	const struct tp_qp_attr attr = {
		.pd = rig.pd, .send_cq = rig.send_cq, .recv_cq = rig.recv_cq, .max_recv = 1
	};
	struct tp_qp *qp = NULL;
	unsigned n;
	int err;

	for (n = 1;
	     alloc_fail_nth(n), err = tp_qp_create(rig.dev, &attr, up_ep(1), &qp), alloc_failed();
	     n++) {
		ck_assert_int_eq(err, -ENOMEM);
		ck_assert_uint_eq(fv_alive(FV_QP), 1);
	}
	ck_assert_uint_eq(n, 4);
	ck_assert_int_eq(err, 0);
	rig_qp_destroy(qp);
	conn_end(NULL);
}
END_TEST

static void add_stray_cases(TCase *tcase)
{
	tcase_add_test(tcase, late_flushes_of_an_orphan_are_dropped);
	tcase_add_test(tcase, late_successes_of_an_orphan_are_dropped);
	tcase_add_loop_test(tcase, late_completions_of_an_orphan_are_dropped_in_either_queue, 0, 2);
	tcase_add_test(tcase, flushes_before_the_end_of_the_endpoint_are_delivered);
	tcase_add_test(tcase, completions_of_others_keep_their_order_between_dropped_ones);
	tcase_add_test(tcase, a_queue_is_polled_directly_again_when_its_orphans_are_gone);
	tcase_add_test(tcase, a_queue_that_is_never_empty_goes_on_dropping);
	tcase_add_test(tcase, one_queue_for_both_directions_drops_both);
	tcase_add_test(tcase, a_qp_number_is_not_used_again_while_its_completions_are_dropped);
	tcase_add_loop_test(tcase, no_qp_of_either_queue_has_the_number_of_an_orphan, 0, 2);
	tcase_add_test(tcase, a_qp_whose_number_is_taken_fails_as_the_second_one_does);
	tcase_add_test(tcase, a_queue_may_end_while_it_drops);
	tcase_add_test(tcase, a_qp_without_memory_leaves_nothing);
}

int main(int argc, char **argv)
{
	TCase *tcase = tcase_create("iwarp");

	case_fixture(NULL, verbs_begin, NULL);
	case_fixture(tcase, iwarp_setup, NULL);
	tcase_add_test(tcase, a_connect_does_not_block_the_service_thread);
	tcase_add_test(tcase, a_peer_without_read_depths_leaves_them);
	tcase_add_test(tcase, the_answer_may_come_before_the_result);
	tcase_add_test(tcase, helpers_leave_no_stacks);
	tcase_add_test(tcase, a_helper_has_a_small_stack);
	tcase_add_test(tcase, a_helper_has_a_stack_of_the_usual_size_if_a_small_one_is_refused);
	tcase_add_test(tcase, a_helper_that_does_not_start_ends_the_attempt);
	tcase_add_loop_test(tcase, a_connect_that_fails_says_why, 0, COUNT(results));
	tcase_add_test(tcase, a_failure_after_the_end_is_not_told);
	tcase_add_loop_test(tcase, an_iwarp_rejection_has_no_reason_code, 0, 2);
	tcase_add_test(tcase, a_release_cancels_the_helper);
	tcase_add_test(tcase, a_helper_that_was_cancelled_is_handled_by_the_service_thread);
	tcase_add_test(tcase, a_helper_that_can_not_be_cancelled_is_waited_for);
	tcase_add_loop_test(tcase, an_answer_while_the_helper_is_cancelled_is_no_end_yet, 0, 2);
	tcase_add_loop_test(tcase, an_attempt_without_an_answer_is_left_to_a_thread, 0, 2);
	tcase_add_test(tcase, an_orphan_outlives_its_device);
	tcase_add_test(tcase, events_of_an_orphan_s_queue_pair_are_not_told);
	tcase_add_test(tcase, pending_events_of_an_orphan_are_dropped);
	tcase_add_test(tcase, a_qp_that_can_not_be_put_into_error_is_logged);
	tcase_add_loop_test(tcase, an_orphan_without_a_thread_ends_with_its_answer, 0,
			    (COUNT(shortages) - 1) * COUNT(answers));
	tcase_add_loop_test(tcase, an_orphan_without_a_thread_gets_one_later, 0, COUNT(shortages));
	tcase_add_loop_test(tcase, an_orphan_without_a_thread_is_waited_for_by_close, 0,
			    COUNT(shortages));
	tcase_add_test(tcase, an_attempt_whose_helper_was_cancelled_may_have_no_answer_yet);
	tcase_add_test(tcase, an_attempt_that_has_failed_needs_no_thread);
	add_stray_cases(tcase);
	return run_cases(argc, argv);
}
