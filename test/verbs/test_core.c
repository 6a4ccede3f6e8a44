/* SPDX-License-Identifier: BSD-2-Clause */
/* The real core over the verbs transport, on the stand-in: that the two fit together. */
#include <arpa/inet.h>
#include <check.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../udapl/entry/entry.h"
#include "../fake_verbs/fake_verbs.h"
#include "../harness/core_calls.h"
#include "../harness/run.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

#define ck_dat(call) ck_assert_uint_eq(call, DAT_SUCCESS)

/* One IA, an endpoint, its EVDs, and what it transfers. */
static DAT_IA_HANDLE ia;
static DAT_EVD_HANDLE async_evd, dto_evd, conn_evd;
static DAT_PZ_HANDLE pz;
static DAT_EP_HANDLE ep;
static DAT_LMR_HANDLE lmr;
static DAT_LMR_TRIPLET segment;
static char memory[4096];

static void sides_open(void)
{
	const DAT_PROVIDER_INFO info = {
		.ia_name = "fv",
		.dapl_version_major = DAT_VERSION_MAJOR,
		.dapl_version_minor = DAT_VERSION_MINOR,
	};
	const DAT_REGION_DESCRIPTION region = { .for_va = memory };

	dat_provider_init(&info, "fveth0 0");
	ck_dat(ia_open((DAT_NAME_PTR) "fv", 8, &async_evd, &ia));
	ck_dat(pz_create(ia, &pz));
	ck_dat(evd_create(ia, 64, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &dto_evd));
	ck_dat(evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &conn_evd));
	ck_dat(lmr_create_va(ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof(memory), pz,
			     DAT_MEM_PRIV_ALL_FLAG, &lmr, &segment.lmr_context, NULL, NULL, NULL));
	segment.virtual_address = (uintptr_t)memory;
	segment.segment_length = 64;
	ck_dat(ep_create(ia, pz, dto_evd, dto_evd, conn_evd, NULL, &ep));
}

static void sides_close(void)
{
	if (ep)
		ck_dat(ep_free(ep));
	ck_dat(lmr_free(lmr));
	ck_dat(evd_free(conn_evd));
	ck_dat(evd_free(dto_evd));
	ck_dat(pz_free(pz));
	ck_dat(ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
	fv_await_nothing();
}

static DAT_EVENT event_next(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number)
{
	DAT_EVENT event;
	DAT_COUNT more;

	ck_dat(evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &more));
	ck_assert_uint_eq(event.event_number, number);
	return event;
}

static void completion_is(uint64_t cookie, DAT_DTO_COMPLETION_STATUS status)
{
	const DAT_EVENT event = event_next(dto_evd, DAT_DTO_COMPLETION_EVENT);

	ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, cookie);
	ck_assert_uint_eq(event.event_data.dto_completion_event_data.status, status);
}

static void no_completion(void)
{
	DAT_EVENT event;

	ck_assert_uint_eq(DAT_GET_TYPE(evd_dequeue(dto_evd, &event)), DAT_QUEUE_EMPTY);
}

static void recv_post(uint64_t n)
{
	ck_dat(ep_post_recv(ep, 1, &segment, (DAT_DTO_COOKIE){ .as_64 = n },
			    DAT_COMPLETION_DEFAULT_FLAG));
}

/* To rdma_connect; returns the identifier. */
static struct rdma_cm_id *connect_begin(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000009) };
	unsigned routes = fv_calls("rdma_resolve_route"), connects = fv_calls("rdma_connect");
	struct rdma_cm_id *id;

	ck_dat(ep_connect(ep, (DAT_IA_ADDRESS_PTR)&to, 7000, DAT_TIMEOUT_INFINITE, 0, NULL,
			  DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	id = fv_id(0);
	fv_cm_post(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	fv_await("rdma_resolve_route", routes + 1);
	fv_cm_post(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	fv_await("rdma_connect", connects + 1);
	return id;
}

static struct ibv_qp *qp_of_ep(void)
{
	return fv_received(0).qp;
}

START_TEST(a_connection_transfers_and_ends)
{
	struct rdma_cm_id *id;

	sides_open();
	recv_post(1);
	recv_post(2);
	id = connect_begin();
	fv_cm_post(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	event_next(conn_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_dat(ep_post_send(ep, 1, &segment, (DAT_DTO_COOKIE){ .as_64 = 3 },
			    DAT_COMPLETION_DEFAULT_FLAG));
	fv_complete_send(qp_of_ep(), IBV_WC_SUCCESS);
	completion_is(3, DAT_DTO_SUCCESS);
	fv_complete_recv(qp_of_ep(), IBV_WC_SUCCESS, 64);
	completion_is(1, DAT_DTO_SUCCESS);
	fv_cm_post(id, RDMA_CM_EVENT_DISCONNECTED, 0);
	event_next(conn_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	completion_is(2, DAT_DTO_ERR_FLUSHED);
	sides_close();
}
END_TEST

START_TEST(a_call_that_attends_to_the_connection_manager_needs_no_memory_to_end_that)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000009) };

	sides_open();
	fv_fail_always("epoll_ctl", ENOMEM);
	ck_dat(ep_connect(ep, (DAT_IA_ADDRESS_PTR)&to, 7000, DAT_TIMEOUT_INFINITE, 0, NULL,
			  DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	fv_cm_post(fv_id(0), RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	fv_await("rdma_resolve_route", 1);
	fv_cm_post(fv_id(0), RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	fv_await("rdma_connect", 1);
	fv_fail_always("epoll_ctl", 0);
	sides_close();
}
END_TEST

/* Those in which librdmacm may have its lock for all devices. */
static const char *const locked_calls[] = {
	"rdma_create_id",    "rdma_bind_addr",	  "rdma_destroy_id",
	"rdma_resolve_addr", "rdma_get_cm_event",
};

static void *make_locked_calls(void *cr_evd)
{
	DAT_PSP_HANDLE psp;

	ck_dat(psp_create(ia, 7001, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	ck_dat(psp_free(psp));
	(void)connect_begin();
	return NULL;
}

/* Says whether a child is refused an IA. */
static bool child_is_refused(void)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE opened;
	DAT_RETURN ret;
	pid_t pid = fork();
	int status;

	ck_assert_int_ge(pid, 0);
	if (!pid) {
		ret = ia_open((DAT_NAME_PTR) "fv", 8, &evd, &opened);
		_exit(ret == DAT_ERROR(DAT_INVALID_STATE, DAT_NO_SUBTYPE) ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status == 0;
}

START_TEST(a_child_that_is_forked_beside_a_call_of_librdmacm_opens_nothing)
{
	const char *call = locked_calls[_i];
	DAT_EVD_HANDLE cr_evd;
	pthread_t thread;
	unsigned calls;

	sides_open();
	calls = fv_calls(call);
	ck_dat(evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &cr_evd));
	fv_hold_firmly(call);
	ck_assert_int_eq(pthread_create(&thread, NULL, make_locked_calls, cr_evd), 0);
	fv_await(call, calls + 1);
	ck_assert(child_is_refused());
	fv_let_go(call);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	while (tp_was_in_call()) /* the service thread */
		sched_yield();
	ck_dat(evd_free(cr_evd));
	sides_close();
}
END_TEST

/* The device flushes an orphan's receives when its endpoint, and their ring, are gone. */
START_TEST(late_flushes_of_a_freed_endpoint_make_no_event)
{
	struct rdma_cm_id *id;
	struct ibv_qp *orphan;

	fv_make_iwarp(0);
	sides_open();
	recv_post(1);
	recv_post(2);
	id = connect_begin();
	orphan = qp_of_ep();
	fv_device(0)->quirks |= FV_LATE_FLUSH;
	ck_dat(ep_free(ep));
	ck_assert_uint_eq(fv_outstanding(), 2);
	ck_dat(ep_create(ia, pz, dto_evd, dto_evd, conn_evd, NULL, &ep));
	fv_flush(orphan);
	no_completion();
	fv_answer(id);
	sides_close();
}
END_TEST

/* The new queue pair's requests have the tags of the old one's. */
START_TEST(late_flushes_of_a_reset_endpoint_are_not_taken_for_new_ones)
{
	struct rdma_cm_id *id;
	struct ibv_qp *orphan;
	uint64_t tag;

	fv_make_iwarp(0);
	sides_open();
	recv_post(1);
	tag = fv_received(0).wr.wr_id;
	id = connect_begin();
	orphan = qp_of_ep();
	fv_device(0)->quirks |= FV_LATE_FLUSH;
	ck_dat(ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG));
	event_next(conn_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	completion_is(1, DAT_DTO_ERR_FLUSHED);
	ck_dat(ep_reset(ep));
	for (uint64_t n = 2; fv_outstanding(); n++) {
		recv_post(n);
		if (fv_received(0).wr.wr_id == tag)
			fv_flush(orphan);
		no_completion();
		fv_complete_recv(qp_of_ep(), IBV_WC_SUCCESS, 64);
		completion_is(n, DAT_DTO_SUCCESS);
	}
	fv_answer(id);
	sides_close();
}
END_TEST

/* dat_ep_reset and an immediate reconnect: the peer may not have forgotten the QP's number. */
START_TEST(a_stale_rejection_is_not_told_to_the_consumer)
{
	struct rdma_cm_id *id;

	sides_open();
	recv_post(1);
	id = connect_begin();
	fv_cm_post(id, RDMA_CM_EVENT_REJECTED, 10);
	fv_await("rdma_resolve_addr", 2); /* 250 ms later */
	while (fv_alive(FV_ID) > 1)
		sched_yield();
	id = fv_id(0);
	fv_cm_post(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	fv_cm_post(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	fv_cm_post(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	event_next(conn_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_dat(ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG));
	event_next(conn_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	completion_is(1, DAT_DTO_ERR_FLUSHED);
	sides_close();
}
END_TEST

/* What librdmacm says at once, and what the consumer gets. */
static const struct {
	const char *call;
	int err;
	DAT_RETURN want;
} connect_failures[] = {
	{ "rdma_resolve_addr", EADDRNOTAVAIL,
	  DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE) },
	{ "rdma_resolve_addr", ENETUNREACH,
	  DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE) },
	{ "rdma_resolve_addr", ENOMEM, NO_RESOURCE(TEP) },
	{ "rdma_create_id", EMFILE, NO_RESOURCE(TEP) },
};

START_TEST(a_connect_that_fails_at_once_has_the_status_of_its_cause)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000009) };
	DAT_EP_STATE state;

	sides_open();
	fv_fail(connect_failures[_i].call, connect_failures[_i].err, 1);
	ck_assert_uint_eq(ep_connect(ep, (DAT_IA_ADDRESS_PTR)&to, 7000, DAT_TIMEOUT_INFINITE, 0,
				     NULL, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
			  connect_failures[_i].want);
	ck_dat(ep_get_status(ep, &state, NULL, NULL));
	ck_assert_int_eq(state, DAT_EP_STATE_UNCONNECTED);
	sides_close();
}
END_TEST

/* Statuses of librdmacm: nobody listens, and the host does not answer. */
static const struct {
	int status;
	DAT_EVENT_NUMBER event;
	const char *line;
} refused_attempts[] = {
	{ 8, DAT_CONNECTION_EVENT_NON_PEER_REJECTED,
	  ", peer 127.0.0.9 port 7000: DAT_CONNECTION_EVENT_NON_PEER_REJECTED: no program of DAT "
	  "listens there, or it has no room for a request\n" },
	{ -ETIMEDOUT, DAT_CONNECTION_EVENT_UNREACHABLE,
	  ", peer 127.0.0.9 port 7000: DAT_CONNECTION_EVENT_UNREACHABLE: there is no way to this "
	  "address, or no host has it\n" },
};

START_TEST(an_attempt_that_fails_is_logged_with_peer_port_and_cause)
{
	const bool rejected = refused_attempts[_i].status > 0;

	setenv("DAPL_DBG_TYPE", "8", 1);
	fv_log_capture();
	sides_open();
	fv_cm_post(connect_begin(), rejected ? RDMA_CM_EVENT_REJECTED : RDMA_CM_EVENT_UNREACHABLE,
		   refused_attempts[_i].status);
	event_next(conn_evd, refused_attempts[_i].event);
	ck_assert_ptr_nonnull(strstr(fv_log(), refused_attempts[_i].line));
	sides_close();
}
END_TEST

/* Returns how many lines of the log have the words. */
static unsigned lines_with(const char *words)
{
	unsigned n = 0;

	for (const char *at = fv_log(); (at = strstr(at, words)); at++)
		n++;
	return n;
}

/* Programs try one name after the other: so one line a process, and none if the cause was told. */
START_TEST(names_without_a_device_point_to_datinfo_once)
{
	static const char *const names[] = { "first", "second" };

	for (unsigned i = 0; i < FV_DEVICES; i++)
		fv_device(i)->absent = true;
	if (_i)
		setenv("DAPL_DBG_TYPE", "0x2003", 1);
	fv_log_capture();
	for (unsigned i = 0; i < 2; i++) {
		DAT_PROVIDER_INFO info = { .dapl_version_major = DAT_VERSION_MAJOR,
					   .dapl_version_minor = DAT_VERSION_MINOR };

		strcpy(info.ia_name, names[i]);
		dat_provider_init(&info, "ib0 0");
		async_evd = DAT_HANDLE_NULL;
		ck_assert_uint_eq(ia_open((DAT_NAME_PTR)names[i], 8, &async_evd, &ia),
				  DAT_ERROR(DAT_INVALID_ADDRESS, DAT_NO_SUBTYPE));
	}
	ck_assert_uint_eq(lines_with("\n"), _i ? 2 : 1);
	ck_assert_uint_eq(lines_with("]: first: this host lacks what dat.conf has for it: datinfo "
				     "first tells what\n"),
			  !_i);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tcase = tcase_create("core");

	tcase_add_test(tcase, a_connection_transfers_and_ends);
	tcase_add_test(tcase,
		       a_call_that_attends_to_the_connection_manager_needs_no_memory_to_end_that);
	tcase_add_test(tcase, late_flushes_of_a_freed_endpoint_make_no_event);
	tcase_add_test(tcase, late_flushes_of_a_reset_endpoint_are_not_taken_for_new_ones);
	tcase_add_test(tcase, a_stale_rejection_is_not_told_to_the_consumer);
	tcase_add_loop_test(tcase, a_connect_that_fails_at_once_has_the_status_of_its_cause, 0,
			    COUNT(connect_failures));
	tcase_add_loop_test(tcase, an_attempt_that_fails_is_logged_with_peer_port_and_cause, 0,
			    COUNT(refused_attempts));
	tcase_add_loop_test(tcase, names_without_a_device_point_to_datinfo_once, 0, 2);
	tcase_add_loop_test(tcase, a_child_that_is_forked_beside_a_call_of_librdmacm_opens_nothing,
			    0, COUNT(locked_calls));
	return run_cases(argc, argv);
}
