/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that are cancelled in a call, or when they come to one: what they leave is as if the call
 * had returned, and other threads go on. A lock that such a thread kept shows as a case that hangs.
 */
#include <arpa/inet.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "../consumer/consumer.h"

static struct pair pair;
static DAT_IA_HANDLE ia;

/* ---- a thread for which a request to cancel it is pending ---- */

/* No checks of the test library: they are cancellation points. */
struct row {
	const char *call;
	DAT_RETURN (*run)(void);
	bool may_end; /* the thread may be cancelled inside */
};

static const struct row *row;
static bool returned;
static DAT_RETURN answer;

static void *row_main(void *arg)
{
	(void)arg;
	pthread_cancel(pthread_self());
	answer = row->run();
	returned = true;
	pthread_testcancel();
	return NULL;
}

static void run_row(const struct row *this)
{
	printf("# %s\n", this->call);
	row = this;
	returned = false;
	ck_assert_ptr_eq(consumer_thread_join(consumer_thread_start(row_main, NULL)),
			 PTHREAD_CANCELED);
	ck_assert_msg(returned || this->may_end, "%s: the thread was cancelled inside", this->call);
}

/* ---- the calls, in an order in which each has what it needs ---- */

static DAT_PZ_HANDLE pz;
static DAT_LMR_HANDLE lmr;
static DAT_RMR_HANDLE rmr;
static DAT_EVD_HANDLE evd, dto_evd;
static DAT_CNO_HANDLE cno;
static DAT_SRQ_HANDLE srq;
static DAT_EP_HANDLE ep, srq_ep, passive;
static DAT_EP_ATTR srq_ep_attr;
static DAT_PSP_HANDLE psp, any_psp;
static DAT_RSP_HANDLE rsp;
static DAT_CR_HANDLE cr;
static DAT_CONN_QUAL qual, own_qual = 45321;
static char memory[4096];

static union {
	DAT_IA_ATTR ia;
	DAT_PZ_PARAM pz;
	DAT_LMR_PARAM lmr;
	DAT_RMR_PARAM rmr;
	DAT_EVD_PARAM evd;
	DAT_CNO_PARAM cno;
	DAT_SRQ_PARAM srq;
	DAT_EP_PARAM ep;
	DAT_PSP_PARAM psp;
	DAT_RSP_PARAM rsp;
	DAT_CR_PARAM cr;
} param;
static DAT_LMR_CONTEXT lmr_context;
static DAT_RMR_CONTEXT rmr_context;
static DAT_LMR_TRIPLET local;
static DAT_RMR_TRIPLET remote;
static DAT_EVENT event;
static DAT_EVD_HANDLE triggered;
static DAT_COUNT count, span;
static DAT_EP_STATE state;
static DAT_BOOLEAN idle;
static DAT_HANDLE_TYPE type;
static DAT_CONTEXT context;

static DAT_RETURN lmr_create_here(void)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = memory };

	return LMR_CREATE(ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof(memory), pz,
			  DAT_MEM_PRIV_ALL_FLAG, &lmr, &lmr_context, &rmr_context, NULL, NULL);
}

static DAT_RETURN srq_create_here(void)
{
	DAT_SRQ_ATTR attr = { .max_recv_dtos = 8,
			      .max_recv_iov = 1,
			      .low_watermark = DAT_SRQ_LW_DEFAULT };

	return dat_srq_create(ia, pz, &attr, &srq);
}

static DAT_RETURN post_se_here(void)
{
	const DAT_EVENT software = { .event_number = DAT_SOFTWARE_EVENT };

	return dat_evd_post_se(evd, &software);
}

static DAT_RETURN ep_modify_here(void)
{
	DAT_EP_PARAM want = { .ep_attr.max_recv_dtos = 3 };

	return dat_ep_modify(ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, &want);
}

static DAT_RETURN list_here(void)
{
	DAT_PROVIDER_INFO info[8], *list[8];

	for (size_t i = 0; i < COUNT(list); i++)
		list[i] = &info[i];
	return dat_registry_list_providers(COUNT(list), &count, list);
}

static DAT_RETURN reject_here(void)
{
	return CR_REJECT(cr);
}

static DAT_RETURN connect_here(void)
{
	return try_connect(ep, &pair.server, qual, TIME_LIMIT);
}

#define CALL(name, ...)                                                                            \
	static DAT_RETURN name##_row(void)                                                         \
	{                                                                                          \
		return name(__VA_ARGS__);                                                          \
	}

CALL(dat_ia_query, ia, NULL, DAT_IA_FIELD_ALL, &param.ia, 0, NULL)
CALL(dat_get_handle_type, ia, &type)
CALL(dat_set_consumer_context, ia, context)
CALL(dat_get_consumer_context, ia, &context)
CALL(dat_pz_create, ia, &pz)
CALL(dat_pz_query, pz, DAT_PZ_FIELD_ALL, &param.pz)
CALL(dat_lmr_query, lmr, DAT_LMR_FIELD_ALL, &param.lmr)
CALL(dat_lmr_sync_rdma_read, ia, &local, 1)
CALL(dat_lmr_sync_rdma_write, ia, &local, 1)
CALL(dat_rmr_create, pz, &rmr)
CALL(dat_rmr_query, rmr, DAT_RMR_FIELD_ALL, &param.rmr)
CALL(dat_cno_create, ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno)
CALL(dat_cno_query, cno, DAT_CNO_FIELD_ALL, &param.cno)
CALL(dat_evd_create, ia, 8, DAT_HANDLE_NULL, DAT_EVD_SOFTWARE_FLAG, &evd)
CALL(dat_evd_query, evd, DAT_EVD_FIELD_ALL, &param.evd)
CALL(dat_evd_modify_cno, evd, cno)
CALL(dat_evd_disable, evd)
CALL(dat_evd_enable, evd)
CALL(dat_evd_set_unwaitable, evd)
CALL(dat_evd_clear_unwaitable, evd)
CALL(dat_evd_resize, evd, 12)
CALL(dat_evd_dequeue, evd, &event)
CALL(dat_evd_wait, evd, 0, 1, &event, &count)
CALL(dat_cno_wait, cno, 0, &triggered)
CALL(dat_cno_modify_agent, cno, DAT_OS_WAIT_PROXY_AGENT_NULL)
CALL(dat_srq_query, srq, DAT_SRQ_FIELD_ALL, &param.srq)
CALL(dat_srq_post_recv, srq, 1, &local, (DAT_DTO_COOKIE){ .as_64 = 0 })
CALL(dat_srq_set_lw, srq, 1)
CALL(dat_srq_resize, srq, 16)
CALL(dat_ep_create_with_srq, ia, pz, dto_evd, pair.client.request_evd, pair.client.connect_evd, srq,
     &srq_ep_attr, &srq_ep)
CALL(dat_ep_create, ia, pair.client.pz, pair.client.recv_evd, pair.client.request_evd,
     pair.client.connect_evd, NULL, &ep)
CALL(dat_ep_query, ep, DAT_EP_FIELD_ALL, &param.ep)
CALL(dat_ep_get_status, ep, &state, &idle, &idle)
CALL(dat_ep_recv_query, ep, &count, &span)
CALL(dat_ep_set_watermark, ep, 1, 1)
CALL(dat_ep_reset, ep)
CALL(dat_psp_create, pair.server.ia, own_qual, pair.server.cr_evd, DAT_PSP_CONSUMER_FLAG, &psp)
CALL(dat_psp_query, psp, DAT_PSP_FIELD_ALL, &param.psp)
CALL(dat_psp_create_any, pair.server.ia, &qual, pair.server.cr_evd, DAT_PSP_CONSUMER_FLAG, &any_psp)
CALL(dat_cr_query, cr, DAT_CR_FIELD_ALL, &param.cr)
CALL(dat_cr_accept, cr, passive, 0, NULL)
CALL(dat_cr_handoff, cr, own_qual)
CALL(dat_ep_dup_connect, ep, pair.client.ep, TIME_LIMIT, 0, NULL, DAT_QOS_BEST_EFFORT)
CALL(dat_ep_disconnect, ep, DAT_CLOSE_ABRUPT_FLAG)
CALL(dat_rsp_create, pair.server.ia, own_qual + 1, passive, pair.server.cr_evd, &rsp)
CALL(dat_rsp_query, rsp, DAT_RSP_FIELD_ALL, &param.rsp)
CALL(dat_rsp_free, rsp)
CALL(dat_psp_free, psp)
CALL(dat_ep_free, ep)
CALL(dat_srq_free, srq)
CALL(dat_evd_free, evd)
CALL(dat_cno_free, cno)
CALL(dat_rmr_free, rmr)
CALL(dat_lmr_free, lmr)
CALL(dat_pz_free, pz)

/* clang-format off */
#define ROW(name) { #name, name##_row, false }
/* clang-format on */

static void run_rows(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		run_row(&rows[i]);
		exchange_messages(&pair);
	}
}

#define RUN(...)                                                                                   \
	do {                                                                                       \
		const struct row rows_[] = { __VA_ARGS__ };                                        \
                                                                                                   \
		run_rows(rows_, COUNT(rows_));                                                     \
	} while (0)

static void open_as(bool thread_safe)
{
	side_open_bare_as(&pair.server, ia_name(SERVER, BY_INTERFACE), thread_safe);
	side_open_bare_as(&pair.client, ia_name(CLIENT, BY_INTERFACE), thread_safe);
	side_equip(&pair.server, NULL, SIDE_MEMORY);
	side_equip(&pair.client, NULL, SIDE_MEMORY);
	pair_connect(&pair);
	ia = pair.client.ia;
}

static void use_objects(bool thread_safe)
{
	const struct row lmr_create = { "dat_lmr_create", lmr_create_here, false };
	const struct row post_se = { "dat_evd_post_se", post_se_here, false };
	const struct row list = { "dat_registry_list_providers", list_here, false };
	const struct row srq_create = { "dat_srq_create", srq_create_here, false };

	open_as(thread_safe);
	RUN(list, ROW(dat_ia_query), ROW(dat_get_handle_type), ROW(dat_set_consumer_context),
	    ROW(dat_get_consumer_context), ROW(dat_pz_create), ROW(dat_pz_query), lmr_create);
	local = (DAT_LMR_TRIPLET){ .lmr_context = lmr_context,
				   .virtual_address = (uintptr_t)memory,
				   .segment_length = 8 };
	RUN(ROW(dat_lmr_query), ROW(dat_lmr_sync_rdma_read), ROW(dat_lmr_sync_rdma_write),
	    ROW(dat_rmr_create), ROW(dat_rmr_query), ROW(dat_cno_create), ROW(dat_cno_query),
	    ROW(dat_evd_create), ROW(dat_evd_query), ROW(dat_evd_modify_cno), ROW(dat_evd_disable),
	    ROW(dat_evd_enable), ROW(dat_evd_set_unwaitable), ROW(dat_evd_clear_unwaitable),
	    ROW(dat_evd_resize), ROW(dat_evd_dequeue), ROW(dat_evd_wait), post_se,
	    ROW(dat_cno_wait), ROW(dat_evd_wait), ROW(dat_evd_dequeue), ROW(dat_cno_modify_agent));
	if (device_has(NEEDS_SRQ)) {
		dto_evd = side_create_evd(&pair.client, 64, DAT_EVD_DTO_FLAG);
		srq_ep_attr = ep_attr_for(1, 16);
		RUN(srq_create, ROW(dat_srq_query), ROW(dat_srq_post_recv), ROW(dat_srq_set_lw),
		    ROW(dat_srq_resize), ROW(dat_ep_create_with_srq));
		ck_dat(dat_ep_free(srq_ep));
		RUN(ROW(dat_srq_free));
		ck_dat(dat_evd_free(dto_evd));
	}
	RUN(ROW(dat_evd_free), ROW(dat_cno_free), ROW(dat_rmr_free), ROW(dat_lmr_free),
	    ROW(dat_pz_free));
	pair_close(&pair);
}

START_TEST(no_call_on_an_object_is_cancelled)
{
	use_objects(false);
	use_objects(true);
}
END_TEST

static void use_connections(bool thread_safe)
{
	const struct row ep_modify = { "dat_ep_modify", ep_modify_here, false };
	const struct row connect = { "dat_ep_connect", connect_here, false };
	const struct row reject = { "dat_cr_reject", reject_here, false };

	open_as(thread_safe);
	passive = side_create_ep(&pair.server, NULL);
	RUN(ROW(dat_ep_create), ROW(dat_ep_query), ROW(dat_ep_get_status), ROW(dat_ep_recv_query),
	    ROW(dat_ep_set_watermark), ep_modify, ROW(dat_ep_reset), ROW(dat_psp_create_any),
	    ROW(dat_psp_create), ROW(dat_psp_query), connect);
	cr = expect_cr(&pair.server);
	RUN(ROW(dat_cr_query), reject);
	expect_connection_of(&pair.client, ep, DAT_CONNECTION_EVENT_PEER_REJECTED);
	ck_dat(dat_ep_reset(ep));
	RUN(connect);
	cr = expect_cr(&pair.server);
	RUN(ROW(dat_cr_handoff));
	cr = expect_cr(&pair.server);
	RUN(ROW(dat_cr_accept));
	expect_connection_of(&pair.client, ep, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_connection_of(&pair.server, passive, DAT_CONNECTION_EVENT_ESTABLISHED);
	RUN(ROW(dat_ep_disconnect));
	expect_connection_of(&pair.client, ep, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_connection_of(&pair.server, passive, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(dat_ep_free(passive));
	passive = side_create_ep(&pair.server, NULL);
	ck_dat(dat_ep_reset(ep));
	RUN(ROW(dat_rsp_create), ROW(dat_rsp_query), ROW(dat_rsp_free), ROW(dat_ep_dup_connect),
	    ROW(dat_ep_disconnect), ROW(dat_psp_free), ROW(dat_ep_free));
	ck_dat(dat_psp_free(any_psp));
	ck_dat(dat_ep_free(passive));
	pair_close_abrupt(&pair);
}

START_TEST(no_call_that_connects_is_cancelled)
{
	use_connections(false);
	use_connections(true);
}
END_TEST

/* ---- calls that DAT 2.0 alone has ---- */

#if DAT_EDITION == 2
static DAT_COMM tcp4 = { .domain = AF_INET, .type = SOCK_STREAM, .protocol = IPPROTO_TCP };
static struct sockaddr_in address; /* of a common service point */
static DAT_CSP_HANDLE csp;
static DAT_CSP_PARAM csp_param;
static DAT_FD fd;

CALL(dat_cno_fd_create, ia, &fd, &cno)
CALL(dat_cno_trigger, cno, &triggered)
CALL(dat_csp_create, pair.server.ia, &tcp4, (DAT_IA_ADDRESS_PTR)(void *)&address,
     pair.server.cr_evd, &csp)
CALL(dat_csp_query, csp, DAT_CSP_FIELD_ALL, &csp_param)
CALL(dat_csp_free, csp)
CALL(dat_ep_common_connect, ep, (DAT_IA_ADDRESS_PTR)(void *)&address, TIME_LIMIT, 0, NULL)

static void use_calls_of_2_0(bool thread_safe)
{
	const struct row reject = { "dat_cr_reject", reject_here, false };

	open_as(thread_safe);
	address = pair.server.address;
	address.sin_port = htons((uint16_t)free_qual(&pair.server));
	ep = side_create_ep(&pair.client, NULL);
	RUN(ROW(dat_cno_fd_create), ROW(dat_cno_trigger), ROW(dat_cno_free), ROW(dat_csp_create),
	    ROW(dat_csp_query), ROW(dat_ep_common_connect));
	cr = expect_cr(&pair.server);
	RUN(reject, ROW(dat_csp_free));
	expect_connection_of(&pair.client, ep, DAT_CONNECTION_EVENT_PEER_REJECTED);
	ck_dat(dat_ep_free(ep));
	pair_close(&pair);
}

START_TEST(no_call_that_2_0_alone_has_is_cancelled)
{
	use_calls_of_2_0(false);
	use_calls_of_2_0(true);
}
END_TEST
#endif

/* ---- transfers ---- */

static DAT_DTO_COOKIE cookie;

CALL(dat_ep_post_recv, pair.server.ep, 1, &local, cookie, DAT_COMPLETION_DEFAULT_FLAG)
CALL(dat_ep_post_send, pair.client.ep, 1, &local, cookie, DAT_COMPLETION_DEFAULT_FLAG)
CALL(dat_ep_post_rdma_write, pair.client.ep, 1, &local, cookie, &remote, 0)
CALL(dat_ep_post_rdma_read, pair.client.ep, 1, &local, cookie, &remote, 0)

static DAT_RETURN bind_here(void)
{
	return RMR_BIND(rmr, pair.client.lmr, &local, DAT_MEM_PRIV_REMOTE_READ_FLAG, pair.client.ep,
			(DAT_RMR_COOKIE){ .as_64 = 4 }, DAT_COMPLETION_DEFAULT_FLAG, &rmr_context);
}

static DAT_RETURN wait_empty(void)
{
	return dat_evd_wait(pair.client.request_evd, DAT_TIMEOUT_INFINITE, 1, &event, &count);
}

static DAT_RETURN dequeue_empty(void)
{
	return dat_evd_dequeue(pair.client.request_evd, &event);
}

static void run_post(const char *name, DAT_RETURN (*run)(void), uint64_t n)
{
	const struct row post = { name, run, true };

	cookie = cookie_of(n);
	run_row(&post);
}

/* What is posted is posted, although its thread ended there. */
static void use_transfers(bool thread_safe)
{
	const struct row wait = { "dat_evd_wait", wait_empty, true };
	const struct row dequeue = { "dat_evd_dequeue", dequeue_empty, false };
	const struct row bind = { "dat_rmr_bind", bind_here, false };

	open_as(thread_safe);
	for (unsigned round = 0; round < 3; round++) {
		local = segment(&pair.server, 0, 64);
		run_post("dat_ep_post_recv", dat_ep_post_recv_row, 1);
		local = segment(&pair.client, 64, 64);
		run_post("dat_ep_post_send", dat_ep_post_send_row, 2);
		expect_recv_done(&pair.server, 1, 64);
		expect_request_done(&pair.client, 2, 64);
		remote = target(&pair.server, 128, 64);
		run_post("dat_ep_post_rdma_write", dat_ep_post_rdma_write_row, 3);
		expect_request_done(&pair.client, 3, 64);
		run_post("dat_ep_post_rdma_read", dat_ep_post_rdma_read_row, 4);
		expect_request_done(&pair.client, 4, 64);
		ck_dat(dat_rmr_create(pair.client.pz, &rmr));
		run_row(&bind);
		expect_bind(pair.client.request_evd, rmr, 4, DAT_RMR_BIND_SUCCESS);
		ck_dat(dat_rmr_free(rmr));
		RUN(dequeue, wait, dequeue);
	}
	pair_close(&pair);
}

START_TEST(a_post_of_a_thread_that_is_cancelled_completes)
{
	use_transfers(false);
	use_transfers(true);
}
END_TEST

static DAT_RETURN wait_not(void)
{
	return dat_evd_wait(pair.client.request_evd, 0, 1, &event, &count);
}

/* It may look for completions, with system calls, before it decides to sleep. */
START_TEST(a_wait_that_does_not_sleep_is_not_cancelled)
{
	const struct row wait = { "dat_evd_wait", wait_not, false };

	open_as(false);
	RUN(wait);
	post_write(pair.client.ep, 7, segment(&pair.client, 0, 8), target(&pair.server, 0, 8), 0);
	do
		run_row(&wait);
	while (answer != DAT_SUCCESS);
	ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, 7);
	RUN(wait);
	pair_close(&pair);
}
END_TEST

/* ---- a thread that is cancelled somewhere in a loop ---- */

static _Atomic unsigned turns;
static int cancel_type;

static void *poll_main(void *arg)
{
	(void)arg;
	for (;; turns++) {
		(void)dat_ep_post_rdma_write(pair.client.ep, 1, &local, cookie_of(1), &remote, 0);
		(void)dat_evd_dequeue(pair.client.request_evd, &event);
		(void)dat_evd_dequeue(pair.client.recv_evd, &event);
		pthread_testcancel();
	}
	return NULL;
}

/* Nothing but a call is cancelled with the asynchronous type. */
static void *wait_main(void *arg)
{
	(void)arg;
	pthread_setcanceltype(cancel_type, NULL);
	for (;; turns++) {
		(void)dat_evd_wait(pair.client.request_evd, turns & 1 ? 20 : 0, 1, &event, &count);
		pthread_testcancel();
	}
	return NULL;
}

static void *wait_cno_main(void *arg)
{
	(void)arg;
	pthread_setcanceltype(cancel_type, NULL);
	for (;; turns++) {
		(void)dat_cno_wait(cno, turns & 1 ? 20 : 0, &triggered);
		pthread_testcancel();
	}
	return NULL;
}

/* Events for who waits. */
static void write_one(void)
{
	(void)dat_ep_post_rdma_write(pair.client.ep, 1, &local, cookie_of(1), &remote, 0);
}

static void cancel_after(void *(*run)(void *), unsigned n, void (*meanwhile)(void))
{
	pthread_t thread;
	unsigned last = 0;

	turns = 0;
	thread = consumer_thread_start(run, NULL);
	while (turns < n) {
		if (meanwhile && turns != last) {
			last = turns;
			meanwhile();
		}
		sched_yield();
	}
	ck_assert_int_eq(pthread_cancel(thread), 0);
	ck_assert_ptr_eq(consumer_thread_join(thread), PTHREAD_CANCELED);
}

/* Whatever the thread left: the completions of its writes come before that of this one. */
static void expect_usable(void)
{
	DAT_RETURN ret;

	do {
		ret = dat_ep_post_rdma_write(pair.client.ep, 1, &local, cookie_of(2), &remote, 0);
		if (ret != DAT_SUCCESS)
			(void)dat_evd_dequeue(pair.client.request_evd, &event);
	} while (ret != DAT_SUCCESS);
	do
		ck_dat(dat_evd_wait(pair.client.request_evd, TIME_LIMIT, 1, &event, &count));
	while (event.event_data.dto_completion_event_data.user_cookie.as_64 != 2);
}

#define ROUNDS 100

static unsigned rounds(void)
{
	return in_guest() ? ROUNDS / 5 : ROUNDS;
}

static void cancel_pollers(bool thread_safe)
{
	open_as(thread_safe);
	local = segment(&pair.client, 0, 8);
	remote = target(&pair.server, 0, 8);
	for (unsigned i = 0; i < rounds(); i++) {
		cancel_after(poll_main, 1 + i % 7, NULL);
		expect_usable();
	}
	exchange_messages(&pair);
	pair_close(&pair);
}

START_TEST(a_thread_that_polls_may_be_cancelled)
{
	cancel_pollers(false);
	cancel_pollers(true);
}
END_TEST

static void cancel_waiters(int type_of_cancellation)
{
	cancel_type = type_of_cancellation;
	open_as(false);
	local = segment(&pair.client, 0, 8);
	remote = target(&pair.server, 0, 8);
	for (unsigned i = 0; i < rounds(); i++) {
		cancel_after(wait_main, 1 + i * 5 % 97, write_one);
		expect_usable();
	}
	ck_dat(dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(dat_evd_modify_cno(pair.client.request_evd, cno));
	for (unsigned i = 0; i < rounds(); i++) {
		cancel_after(wait_cno_main, 1 + i * 5 % 97, write_one);
		expect_usable();
	}
	ck_dat(dat_evd_modify_cno(pair.client.request_evd, DAT_HANDLE_NULL));
	ck_dat(dat_cno_free(cno));
	exchange_messages(&pair);
	pair_close(&pair);
}

START_TEST(a_thread_that_waits_may_be_cancelled)
{
	cancel_waiters(PTHREAD_CANCEL_DEFERRED);
	cancel_waiters(PTHREAD_CANCEL_ASYNCHRONOUS);
}
END_TEST

/* ---- opens ---- */

static DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;

static DAT_RETURN open_here(void)
{
	return dat_ia_open((char *)ia_name(CLIENT, BY_INTERFACE), 8, &async_evd, &ia);
}

CALL(dat_ia_close, ia, DAT_CLOSE_ABRUPT_FLAG)

/* It reads dat.conf, and loads libraries: the lock of the dynamic linker is at stake. */
START_TEST(the_first_open_is_not_cancelled)
{
	const struct row rows[] = { { "dat_ia_openv", open_here, false }, ROW(dat_ia_close) };

	for (size_t i = 0; i < COUNT(rows); i++) {
		run_row(&rows[i]);
		ck_dat(answer);
	}
	open_as(true);
	exchange_messages(&pair);
	pair_close(&pair);
}
END_TEST

int main(int argc, char **argv)
{
	const struct device_case cases[] = {
		{ the_first_open_is_not_cancelled, NEEDS_NOTHING },
		{ no_call_on_an_object_is_cancelled, NEEDS_NOTHING },
		{ no_call_that_connects_is_cancelled, NEEDS_NOTHING },
#if DAT_EDITION == 2
		{ no_call_that_2_0_alone_has_is_cancelled, NEEDS_NOTHING },
#endif
		{ a_post_of_a_thread_that_is_cancelled_completes, NEEDS_UNWINDING },
		{ a_wait_that_does_not_sleep_is_not_cancelled, NEEDS_UNWINDING },
		{ a_thread_that_polls_may_be_cancelled, NEEDS_UNWINDING },
		{ a_thread_that_waits_may_be_cancelled, NEEDS_UNWINDING },
	};

	return run_on_device(argc, argv, cases, COUNT(cases));
}
