/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests to cancel a thread, in each call of the provider's table over the verbs transport, whose
 * calls of libibverbs and librdmacm make system calls: see test/unit/test_cancel.c.
 */
#include <arpa/inet.h>
#include <check.h>
#include <pthread.h>
#include <string.h>

#include "../../udapl/endpoint/ep.h"
#include "../../udapl/entry/entry.h"
#include "../../udapl/verbs/verbs.h"
#include "../fake_verbs/fake_verbs.h"
#include "../harness/calls.h"
#include "../harness/run.h"

#define ck_dat(call) ck_assert_uint_eq(call, DAT_SUCCESS)

static struct calls calls;

/* ---- the peers ---- */

static bool is_iwarp;

/* The listener of that port. Its requests have the port, too, and came later. */
static struct rdma_cm_id *listener_of(DAT_CONN_QUAL port)
{
	struct rdma_cm_id *oldest = NULL, *id;

	for (unsigned ago = 0; (id = fv_id(ago)); ago++)
		if (ntohs(rdma_get_src_port(id)) == port)
			oldest = id;
	return oldest;
}

static void peer_accept(struct calls *c, DAT_EP_HANDLE ep)
{
	const struct fv_cm_event answer = {
		.type = is_iwarp ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_RESPONSE,
		.responder_resources = 4,
		.initiator_depth = 4,
	};
	struct rdma_cm_id *id = fv_id(0);
	unsigned routes = fv_calls("rdma_resolve_route"), connects = fv_calls("rdma_connect");

	(void)c, (void)ep;
	fv_cm_post(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	fv_await("rdma_resolve_route", routes + 1);
	fv_cm_post(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	fv_await("rdma_connect", connects + 1);
	fv_cm_event(id, &answer);
}

static void peer_request(struct calls *c)
{
	fv_request(listener_of(c->qual), NULL);
}

static void device_complete(struct calls *c, DAT_EP_HANDLE ep)
{
	(void)c;
	fv_complete_send(((struct ep *)ep)->qp->ibv, IBV_WC_SUCCESS);
}

static const struct calls_peer peer = { peer_accept, peer_request, device_complete };

/* ---- the IA ---- */

static void all_open(bool thread_safe)
{
	static bool announced[2];
	const DAT_PROVIDER_INFO info = {
		.ia_name = "fv",
		.dapl_version_major = DAT_VERSION_MAJOR,
		.dapl_version_minor = DAT_VERSION_MINOR,
		.is_thread_safe = thread_safe,
	};
	DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;

	fv_trace_clear();
	if (!announced[thread_safe])
		dat_provider_init(&info, "fveth0 0");
	announced[thread_safe] = true;
	ck_dat((thread_safe ? ia_open_threadsafe : ia_open)((DAT_NAME_PTR) "fv", 8, &async_evd,
							    &ia));
	calls_prepare(&calls, ia, &peer);
	fv_trace_clear(); /* it would become full */
}

/* The end of an iWARP attempt waits for the peer's answer. */
static void all_close(void)
{
	struct rdma_cm_id *id;

	for (unsigned ago = 0; (id = fv_id(ago)); ago++)
		fv_answer(id);
	calls_close(&calls);
	fv_await_nothing();
}

/* ---- the calls ---- */

/* It is in the queue, whether its thread has ended in the post or not. */
static void expect_posted(void)
{
	const DAT_DTO_COMPLETION_EVENT_DATA *dto;
	DAT_EVENT event;

	device_complete(&calls, calls.up_ep);
	event = calls_event(calls.request_evd, DAT_DTO_COMPLETION_EVENT);
	dto = &event.event_data.dto_completion_event_data;
	ck_assert_uint_eq(dto->user_cookie.as_64, CALLS_COOKIE);
	ck_assert_int_eq(dto->status, DAT_DTO_SUCCESS);
}

static void call_once(const struct call_row *row, bool ends, bool thread_safe)
{
	unsigned posts;
	bool ended;

	all_open(thread_safe);
	posts = fv_calls("ibv_post_send");
	ended = calls_make_cancelled(&calls, row);
	ck_assert_msg(ended == (ends && row->posts), "%s: the thread %s", row->name,
		      ended ? "was cancelled inside" : "has returned");
	if (row->posts)
		expect_posted();
	if (ended) /* the thread has not told the device, so it does as its stack is unwound */
		ck_assert_uint_eq(fv_calls("ibv_post_send"), posts + 2);
	fv_trace_clear();
	calls_make_all(&calls, row);
	fv_trace_clear();
	all_close();
}

/* @ends: a thread, in the post of a request. */
static void call_each_way(const struct call_row *row, bool ends)
{
	fv_device(0)->attr.max_srq = 100;
	fv_device(0)->attr.max_srq_wr = 1000;
	fv_device(0)->attr.max_srq_sge = 8;
	for (int thread_safe = 0; thread_safe < 2; thread_safe++)
		call_once(row, ends, thread_safe);
}

START_TEST(a_request_is_pending_over_infiniband)
{
	call_each_way(&call_rows[_i], false);
}
END_TEST

START_TEST(a_request_is_pending_over_soft_roce_but_in_a_post)
{
	fv_device(0)->attr.vendor_id = 0xffffff;
	fv_device(0)->quirks = FV_POSTS_BY_CALL;
	call_each_way(&call_rows[_i], true);
}
END_TEST

START_TEST(a_request_is_pending_over_iwarp)
{
	fv_make_iwarp(0);
	is_iwarp = true;
	call_each_way(&call_rows[_i], false);
}
END_TEST

/* Its library has a lock when it makes the system call of a post. */
START_TEST(a_request_is_pending_over_soft_iwarp)
{
	fv_make_iwarp(0);
	is_iwarp = true;
	fv_device(0)->attr.vendor_id = 0x626d74;
	fv_device(0)->quirks = FV_POSTS_BY_CALL;
	call_each_way(&call_rows[_i], false);
}
END_TEST

int main(int argc, char **argv)
{
	const TTest *const tests[] = {
		a_request_is_pending_over_infiniband,
		a_request_is_pending_over_soft_roce_but_in_a_post,
		a_request_is_pending_over_iwarp,
		a_request_is_pending_over_soft_iwarp,
	};
	TCase *tcase = tcase_create("cancel");

	for (size_t n = 0; n < sizeof(tests) / sizeof(tests[0]); n++)
		for (int i = 0; i < (int)calls_count(); i++)
			case_add_named(tcase, tests[n], call_rows[i].name, i, NULL);
	return run_cases(argc, argv);
}
