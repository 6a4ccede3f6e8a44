/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every call of libfabric fails once, at each of its turns in a life of an IA: whatever comes of
 * it, nothing is left behind, nobody waits for ever, and no status is an internal error that has a
 * better name.
 */
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "../../udapl/ofi/ofi.h"
#include "../unit/alloc.h"
#include "ofi_test.h"

#define PARAMS "scripted 127.0.0.1"

/* No call has failed, but what it began. */
#define IN_AN_EVENT DAT_ERROR(DAT_ABORT, DAT_NO_SUBTYPE)

/* ---- a life ---- */

struct life {
	struct ofi_rig rig;
	DAT_SRQ_HANDLE srq;
	DAT_RMR_HANDLE rmr;
	bool established; /* on both sides */
	bool whole;	  /* nothing has failed */
};

static void segment_at(const struct life *life, size_t offset, DAT_LMR_TRIPLET *segment)
{
	*segment = life->rig.segment;
	segment->virtual_address += offset;
	segment->segment_length = 64;
}

/* The passive endpoint takes its receives from a shared queue. */
static DAT_RETURN srq_use(struct life *life)
{
	DAT_SRQ_ATTR attr = { .max_recv_dtos = 4, .max_recv_iov = 1 };
	struct ofi_rig *rig = &life->rig;
	DAT_EP_PARAM param;
	DAT_RETURN ret;

	ck_dat(ep_query(rig->passive, DAT_EP_FIELD_ALL, &param));
	ck_dat(ep_free(rig->passive));
	rig->passive = DAT_HANDLE_NULL;
	ret = srq_create(rig->ia, rig->pz, &attr, &life->srq);
	if (!ret)
		ret = ep_create_with_srq(rig->ia, rig->pz, rig->dto_evd, rig->dto_evd,
					 rig->conn_evd, life->srq, &param.ep_attr, &rig->passive);
	return ret;
}

/* Ends with one event on each side that took part. */
static DAT_RETURN connect_both(struct life *life)
{
	struct ofi_rig *rig = &life->rig;
	DAT_RETURN ret = ofi_connect_begin(rig);
	DAT_CR_HANDLE cr;
	bool one, other;

	if (ret)
		return ret;
	cr = ofi_event(rig->cr_evd).event_data.cr_arrival_event_data.cr_handle;
	ret = cr_accept(cr, rig->passive, 0, NULL);
	if (ret)
		(void)cr_reject_bare(cr);
	one = ofi_event(rig->conn_evd).event_number == DAT_CONNECTION_EVENT_ESTABLISHED;
	if (ret) {
		ck_assert(!one);
		return ret;
	}
	other = ofi_event(rig->conn_evd).event_number == DAT_CONNECTION_EVENT_ESTABLISHED;
	life->established = one && other;
	return DAT_SUCCESS;
}

/* What was posted completes; returns whether all of it succeeded. */
static bool completions_await(struct life *life, unsigned n)
{
	bool good = true;

	while (n--) {
		const DAT_EVENT event = ofi_event(life->rig.dto_evd);

		if (event.event_number == DAT_DTO_COMPLETION_EVENT)
			good &= !event.event_data.dto_completion_event_data.status;
		else
			good &= event.event_data.rmr_completion_event_data.status ==
				DAT_RMR_BIND_SUCCESS;
	}
	return good;
}

static DAT_RETURN transfer_all(struct life *life)
{
	const DAT_DTO_COOKIE cookie = { .as_64 = 1 };
	const DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG;
	struct ofi_rig *rig = &life->rig;
	DAT_LMR_TRIPLET from, to;
	DAT_RMR_TRIPLET target = rig->target;
	unsigned posted = 0;
	DAT_RETURN ret;

	segment_at(life, 0, &from);
	segment_at(life, 256, &to);
	target.segment_length = 64;
	if (life->srq)
		ret = srq_post_recv(life->srq, 1, &to, cookie);
	else
		ret = ep_post_recv(rig->passive, 1, &to, cookie, flags);
	if (!ret) {
		ret = ep_post_send(rig->active, 1, &from, cookie, flags);
		/* a receive of a shared queue may be left there, by a connection that ends */
		posted += !life->srq;
	}
	if (!ret) {
		posted++;
		ret = ep_post_rdma_write(rig->active, 1, &from, cookie, &target, flags);
	}
	if (!ret) {
		posted++;
		ret = ep_post_rdma_read(rig->active, 1, &from, cookie, &target, flags);
	}
	posted += !ret;
	if (ret && !life->srq && posted)
		ck_dat(ep_disconnect(rig->active, DAT_CLOSE_ABRUPT_FLAG));
	if (!completions_await(life, posted) && !ret)
		ret = IN_AN_EVENT;
	return ret;
}

static DAT_RETURN bind_and_unbind(struct life *life)
{
	const DAT_RMR_COOKIE cookie = { .as_64 = 2 };
	struct ofi_rig *rig = &life->rig;
	DAT_LMR_TRIPLET range;
	DAT_RMR_CONTEXT context;
	DAT_RETURN ret = rmr_create(rig->pz, &life->rmr);

	segment_at(life, 512, &range);
	if (!ret)
		ret = rmr_bind_va(life->rmr, &range, DAT_MEM_PRIV_REMOTE_READ_FLAG, rig->active,
				  cookie, DAT_COMPLETION_DEFAULT_FLAG, &context);
	if (!ret && !completions_await(life, 1))
		ret = IN_AN_EVENT;
	range.segment_length = 0;
	if (!ret)
		ret = rmr_bind_va(life->rmr, &range, DAT_MEM_PRIV_NONE_FLAG, rig->active, cookie,
				  DAT_COMPLETION_DEFAULT_FLAG, &context);
	if (!ret && !completions_await(life, 1))
		ret = IN_AN_EVENT;
	return ret;
}

/* Both sides are told. */
static DAT_RETURN disconnect_both(struct life *life)
{
	DAT_RETURN ret = ep_disconnect(life->rig.active, DAT_CLOSE_ABRUPT_FLAG);

	if (ret)
		return ret;
	(void)ofi_event(life->rig.conn_evd);
	(void)ofi_event(life->rig.conn_evd);
	return DAT_SUCCESS;
}

static void life_end(struct life *life)
{
	struct ofi_rig *rig = &life->rig;

	if (rig->active)
		ck_dat(ep_free(rig->active));
	if (rig->passive)
		ck_dat(ep_free(rig->passive));
	rig->active = rig->passive = DAT_HANDLE_NULL;
	if (life->srq)
		ck_dat(srq_free(life->srq));
	if (life->rmr)
		ck_dat(rmr_free(life->rmr));
	ofi_rig_close(rig);
}

enum kind {
	PLAIN,
	SHARED,	     /* with a shared receive queue */
	SECOND_ZONE, /* with that, and not in the first protection zone */
	KINDS,
};

/* Until something fails. */
static DAT_RETURN life_run(struct life *life, enum kind kind)
{
	DAT_RETURN ret = ofi_ia_open(&life->rig, PARAMS);

	if (kind == SECOND_ZONE)
		setenv("DAT_TEST_SECOND_ZONE", "1", 1);
	if (!ret)
		ret = ofi_objects_create(&life->rig);
	if (!ret && kind != PLAIN)
		ret = srq_use(life);
	if (!ret)
		ret = connect_both(life);
	if (ret || !life->established)
		return ret;
	ret = transfer_all(life);
	if (!ret)
		ret = bind_and_unbind(life);
	if (!ret)
		ret = disconnect_both(life);
	life->whole = !ret;
	return ret;
}

/* ---- the sweep ---- */

/*
 * The type of the status, where a call of DAT fails because of it. What the service thread calls as
 * often as it likes fails a few times only.
 */
static const struct {
	const char *call;
	int err;
	DAT_RETURN_TYPE type; /* 0: any */
	unsigned most;	      /* 0: all turns */
} sweeps[] = {
	{ "fi_getinfo", FI_ENOMEM, DAT_INSUFFICIENT_RESOURCES, 0 },
	{ "fi_dupinfo", FI_ENOMEM, DAT_INSUFFICIENT_RESOURCES, 0 },
	{ "fi_fabric", FI_ENOMEM, DAT_INSUFFICIENT_RESOURCES, 0 },
	{ "fi_domain", FI_EACCES, DAT_INSUFFICIENT_RESOURCES, 0 },
	{ "fi_mr_regattr", FI_ENOMEM, DAT_INSUFFICIENT_RESOURCES, 0 },
	{ "fi_eq_open", FI_ENOMEM, DAT_INSUFFICIENT_RESOURCES, 0 },
	{ "fi_eq_read", FI_EIO, 0, 20 },
	{ "fi_eq_readerr", FI_EIO, 0, 20 },
	{ "fi_cq_open", FI_ENOMEM, DAT_INSUFFICIENT_RESOURCES, 0 },
	{ "fi_cq_read", FI_EIO, 0, 40 },
	{ "fi_cq_readerr", FI_EIO, 0, 20 },
	{ "fi_getwait", FI_EINVAL, DAT_INSUFFICIENT_RESOURCES, 0 },
	{ "fi_trywait", FI_EINVAL, 0, 40 },
	{ "fi_passive_ep", FI_ENOMEM, DAT_INSUFFICIENT_RESOURCES, 0 },
	{ "fi_pep_bind", FI_EINVAL, 0, 0 },
	{ "fi_listen", FI_EADDRINUSE, 0, 0 },
	{ "fi_getname", FI_EINVAL, 0, 0 },
	{ "fi_getpeer", FI_ENOTCONN, 0, 0 },
	{ "fi_getopt", FI_ENOPROTOOPT, DAT_INSUFFICIENT_RESOURCES, 0 },
	{ "fi_endpoint", FI_ENOMEM, DAT_INSUFFICIENT_RESOURCES, 0 },
	{ "fi_srx_context", FI_ENOMEM, 0, 0 },
	{ "fi_ep_bind", FI_ENOMEM, DAT_INSUFFICIENT_RESOURCES, 0 },
	{ "fi_enable", FI_ENOMEM, DAT_INSUFFICIENT_RESOURCES, 0 },
	{ "fi_connect", FI_ENETUNREACH, DAT_INVALID_ADDRESS, 0 },
	{ "fi_accept", FI_ENOMEM, DAT_INSUFFICIENT_RESOURCES, 0 },
	{ "fi_reject", FI_EIO, 0, 0 },
	{ "fi_shutdown", FI_EIO, 0, 0 },
	{ "fi_send", FI_EAGAIN, 0, 0 },
	{ "fi_send", FI_EIO, 0, 0 },
	{ "fi_recv", FI_EAGAIN, 0, 0 },
	{ "fi_recv", FI_EIO, 0, 0 },
	{ "fi_write", FI_EAGAIN, 0, 0 },
	{ "fi_write", FI_EIO, 0, 0 },
	{ "fi_read", FI_EAGAIN, 0, 0 },
	{ "fi_read", FI_EIO, 0, 0 },
	{ "epoll_create1", EMFILE, DAT_INSUFFICIENT_RESOURCES, 0 },
	{ "epoll_ctl", ENOSPC, DAT_INSUFFICIENT_RESOURCES, 0 },
	{ "eventfd", EMFILE, DAT_INSUFFICIENT_RESOURCES, 0 },
};

START_TEST(a_call_that_fails_leaves_nothing_behind)
{
	const unsigned most = sweeps[_i / KINDS].most ? sweeps[_i / KINDS].most : UINT_MAX;
	const char *call = sweeps[_i / KINDS].call;
	/* if it failed as the IA looked for shared receive contexts */
	const DAT_RETURN no_srqs = _i % KINDS ? DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE)
					      : DAT_SUCCESS;
	bool whole = false, failed = true;

	setenv("DAPL_DBG_TYPE", "0", 1);
	for (unsigned n = 1; failed && n <= most; n++) {
		struct life life = { .whole = false };
		DAT_RETURN ret;

		ff_fail(call, sweeps[_i / KINDS].err, n);
		ret = life_run(&life, (enum kind)(_i % KINDS));
		failed = !ff_fail_left(call);
		whole = life.whole;
		if (ret && ret != IN_AN_EVENT && sweeps[_i / KINDS].type && ret != no_srqs)
			ck_assert_uint_eq(DAT_GET_TYPE(ret), sweeps[_i / KINDS].type);
		life_end(&life);
	}
	ck_assert(failed || whole);
}
END_TEST

START_TEST(without_a_failure_a_life_is_whole)
{
	struct life life = { .whole = false };

	ck_dat(life_run(&life, (enum kind)_i));
	ck_assert(life.whole);
	life_end(&life);
}
END_TEST

START_TEST(an_open_without_memory_leaves_nothing_behind)
{
	bool failed = true;

	setenv("DAPL_DBG_TYPE", "0", 1);
	for (unsigned n = 1; failed; n++) {
		struct ofi_rig rig;
		DAT_RETURN ret;

		ofi_prepare(&rig, PARAMS);
		alloc_fail_nth(n);
		ret = ia_open((DAT_NAME_PTR) "ofi", 8, &rig.async_evd, &rig.ia);
		failed = alloc_failed();
		if (!failed)
			ck_dat(ret);
		ofi_rig_close(&rig);
	}
}
END_TEST

START_TEST(objects_without_memory_leave_nothing_behind)
{
	bool failed = true;

	setenv("DAPL_DBG_TYPE", "0", 1);
	for (unsigned n = 1; failed; n++) {
		struct life life = { .whole = false };
		DAT_RETURN ret;

		ck_dat(ofi_ia_open(&life.rig, PARAMS));
		alloc_fail_nth(n);
		ret = ofi_objects_create(&life.rig);
		failed = alloc_failed();
		ck_assert(failed ? ret != DAT_SUCCESS : ret == DAT_SUCCESS);
		life_end(&life);
	}
}
END_TEST

static DAT_DTO_COMPLETION_STATUS dequeued(struct ofi_rig *rig, uint64_t cookie)
{
	const DAT_DTO_COMPLETION_EVENT_DATA *dto;
	DAT_EVENT event;

	ck_dat(evd_dequeue(rig->dto_evd, &event));
	dto = &event.event_data.dto_completion_event_data;
	ck_assert_uint_eq(dto->user_cookie.as_64, cookie);
	return dto->status;
}

/* Otherwise the end event would be late by the time that is granted for flushes. */
START_TEST(what_is_posted_behind_a_failure_is_flushed_by_the_post)
{
	DAT_LMR_TRIPLET bad;
	struct ofi_rig rig;

	ofi_rig_open(&rig);
	bad = rig.segment;
	bad.lmr_context ^= 0x00ffff00;
	for (uint64_t n = 1; n < 4; n++)
		ck_dat(ep_post_send(rig.active, 1, n == 1 ? &bad : &rig.segment,
				    (DAT_DTO_COOKIE){ .as_64 = n }, DAT_COMPLETION_DEFAULT_FLAG));
	ck_assert_int_eq(dequeued(&rig, 1), DAT_DTO_ERR_LOCAL_PROTECTION);
	ck_assert_int_eq(dequeued(&rig, 2), DAT_DTO_ERR_FLUSHED);
	ck_assert_int_eq(dequeued(&rig, 3), DAT_DTO_ERR_FLUSHED);
	ofi_rig_close(&rig);
}
END_TEST

/* ---- an epoll set that refuses a descriptor ---- */

static void write_post(struct ofi_rig *rig)
{
	const DAT_DTO_COOKIE cookie = { .as_64 = 1 };

	ck_dat(ep_post_rdma_write(rig->active, 1, &rig->segment, cookie, &rig->target,
				  DAT_COMPLETION_DEFAULT_FLAG));
}

/* As the consumer does nothing, the service thread takes in what completes. */
static void completions_are_noticed(struct ofi_rig *rig, DAT_CNO_HANDLE cno, DAT_EVD_HANDLE evd)
{
	DAT_EVD_HANDLE triggered;

	if (!cno)
		ff_fail("completion", FI_EIO, 1);
	write_post(rig);
	if (!cno) {
		ck_assert_uint_eq(ofi_event(rig->conn_evd).event_number,
				  DAT_CONNECTION_EVENT_BROKEN);
		return;
	}
	ck_dat(cno_wait(cno, DAT_TIMEOUT_INFINITE, &triggered));
	ck_assert_ptr_eq(triggered, evd);
}

/* With another one that is made afterwards, if it is not made. */
START_TEST(an_evd_whose_descriptor_is_refused_is_not_made_or_works)
{
	bool failed = true;

	setenv("DAPL_DBG_TYPE", "0", 1);
	for (unsigned n = 1; failed; n++) {
		DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
		DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
		struct ofi_rig rig;
		DAT_RETURN ret;

		ck_dat(ofi_ia_open(&rig, PARAMS));
		ck_dat(ofi_objects_create(&rig));
		ck_dat(ep_free(rig.active));
		if (_i)
			ck_dat(cno_create(rig.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
		ff_fail("epoll_ctl", ENOSPC, n);
		ret = evd_create(rig.ia, 8, cno, DAT_EVD_DTO_FLAG, &evd);
		failed = !ff_fail_left("epoll_ctl");
		if (ret) {
			ck_assert_uint_eq(DAT_GET_TYPE(ret), DAT_INSUFFICIENT_RESOURCES);
			ck_assert_ptr_eq(evd, DAT_HANDLE_NULL);
			ck_dat(evd_create(rig.ia, 8, cno, DAT_EVD_DTO_FLAG, &evd));
		}
		ck_dat(ep_create(rig.ia, rig.pz, evd, evd, rig.conn_evd, NULL, &rig.active));
		ck_dat(ofi_connect(&rig));
		completions_are_noticed(&rig, cno, evd);
		ck_dat(ep_free(rig.active));
		rig.active = DAT_HANDLE_NULL;
		ck_dat(evd_free(evd));
		if (cno)
			ck_dat(cno_free(cno));
		ofi_rig_close(&rig);
	}
}
END_TEST

/* Does the service thread sleep until something arrives there? */
static bool queue_is_in_set(const struct ofi_rig *rig)
{
	CANCEL_FORBIDDEN;
	const struct evd *evd = rig->dto_evd;
	struct ia *ia = rig->ia;
	bool is_in;

	mutex_lock(&ia->lock);
	is_in = evd->cq->in_dev_set;
	mutex_unlock(&ia->lock);
	return is_in;
}

/* The queue of a consumer that polls leaves the set. When the polls end it can't be added again. */
START_TEST(a_queue_whose_descriptor_is_refused_is_visited)
{
	struct ofi_rig rig;
	DAT_EVENT event;
	unsigned calls;

	ofi_rig_open(&rig);
	/* only what adds to a set fails; before it leaves, or it might be back already */
	ff_fail_times("epoll_ctl", ENOSPC, UINT_MAX);
	while (queue_is_in_set(&rig)) {
		write_post(&rig);
		while (evd_dequeue(rig.dto_evd, &event) != DAT_SUCCESS)
			;
	}
	calls = ff_calls("epoll_ctl");
	while (ff_calls("epoll_ctl") < calls + 3)
		sched_yield();
	ff_fail("completion", FI_EIO, 1);
	write_post(&rig);
	ck_assert_uint_eq(ofi_event(rig.conn_evd).event_number, DAT_CONNECTION_EVENT_BROKEN);
	ck_assert(!queue_is_in_set(&rig));
	ck_assert(ff_fail_left("epoll_ctl"));
	while (!queue_is_in_set(&rig))
		sched_yield();
	ofi_rig_close(&rig);
}
END_TEST

static const struct {
	const char *call;
	int err;
} cno_steps[] = {
	{ "epoll_create1", EMFILE },
	{ "epoll_create1", ENOMEM },
	{ "epoll_ctl", ENOSPC },
};

START_TEST(a_cno_whose_set_is_refused_is_not_made)
{
	DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
	struct ofi_rig rig;

	setenv("DAPL_DBG_TYPE", "0", 1);
	ck_dat(ofi_ia_open(&rig, PARAMS));
	ff_fail(cno_steps[_i].call, cno_steps[_i].err, 1);
	ck_assert_uint_eq(DAT_GET_TYPE(cno_create(rig.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno)),
			  DAT_INSUFFICIENT_RESOURCES);
	ck_assert_ptr_eq(cno, DAT_HANDLE_NULL);
	ck_dat(cno_create(rig.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(cno_free(cno));
	ofi_rig_close(&rig);
}
END_TEST

/* One line says so. A move back can fail as well, so it is no error of the call. */
START_TEST(an_evd_that_its_new_cno_refuses_reports_to_those_who_poll)
{
	DAT_CNO_HANDLE cno;
	struct ofi_rig rig;
	DAT_EVENT event;

	ff_log_capture();
	ofi_rig_open(&rig);
	ck_dat(cno_create(rig.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ff_fail("epoll_ctl", ENOSPC, 1);
	ck_dat(evd_modify_cno(rig.dto_evd, cno));
	ck_assert(!ff_fail_left("epoll_ctl"));
	ck_assert_ptr_nonnull(strstr(ff_log(), "are noticed by those who poll only"));
	write_post(&rig);
	while (evd_dequeue(rig.dto_evd, &event) != DAT_SUCCESS)
		;
	ck_dat(evd_modify_cno(rig.dto_evd, DAT_HANDLE_NULL));
	write_post(&rig);
	ck_assert_int_eq(ofi_completion(&rig), DAT_DTO_SUCCESS);
	ck_dat(cno_free(cno));
	ofi_rig_close(&rig);
}
END_TEST

/* It reports what was registered in an event queue of its own. */
START_TEST(an_open_of_an_asynchronous_provider_that_fails_leaves_nothing_behind)
{
	bool failed = true;

	setenv("DAPL_DBG_TYPE", "0", 1);
	ff_provider()->asynchronous = true;
	for (unsigned n = 1; failed; n++) {
		struct ofi_rig rig;
		DAT_RETURN ret;

		ff_fail("fi_eq_open", FI_ENOMEM, n);
		ret = ofi_ia_open(&rig, PARAMS);
		failed = !ff_fail_left("fi_eq_open");
		ck_assert(failed || !ret);
		if (ret)
			ck_assert_uint_eq(DAT_GET_TYPE(ret), DAT_INSUFFICIENT_RESOURCES);
		ofi_rig_close(&rig);
	}
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tcase = tcase_create("failures");

	tcase_add_loop_test(tcase, without_a_failure_a_life_is_whole, 0, KINDS);
	tcase_add_loop_test(tcase, a_call_that_fails_leaves_nothing_behind, 0,
			    KINDS * COUNT(sweeps));
	tcase_add_test(tcase, an_open_without_memory_leaves_nothing_behind);
	tcase_add_test(tcase, objects_without_memory_leave_nothing_behind);
	tcase_add_test(tcase, what_is_posted_behind_a_failure_is_flushed_by_the_post);
	tcase_add_loop_test(tcase, an_evd_whose_descriptor_is_refused_is_not_made_or_works, 0, 2);
	tcase_add_test(tcase, a_queue_whose_descriptor_is_refused_is_visited);
	tcase_add_loop_test(tcase, a_cno_whose_set_is_refused_is_not_made, 0, COUNT(cno_steps));
	tcase_add_test(tcase, an_evd_that_its_new_cno_refuses_reports_to_those_who_poll);
	tcase_add_test(tcase, an_open_of_an_asynchronous_provider_that_fails_leaves_nothing_behind);
	return run_cases(argc, argv);
}
