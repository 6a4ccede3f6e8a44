/* SPDX-License-Identifier: BSD-2-Clause */
/* A provider over devices, as libfabric's verbs is: what it needs, lacks and reports. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "../../udapl/ofi/ofi.h"
#include "ofi_test.h"

#define PARAMS "scripted 127.0.0.1"

static void make_device(uint32_t protocol)
{
	struct ff_provider *provider = ff_provider();

	provider->protocol = protocol;
	provider->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	provider->op_flags = 0;
	provider->cm_data_size = 55;
	provider->resolves = true;
	provider->cq_size = 32767;
}

/* ---- a kernel before 5.11 ---- */

static _Atomic unsigned pwait2_calls;

/* In front of the C library's. */
__attribute__((visibility("default"))) int epoll_pwait2(int epoll, struct epoll_event *events,
							int max, const struct timespec *timeout,
							const sigset_t *mask)
{
	(void)epoll, (void)events, (void)max, (void)timeout, (void)mask;
	pwait2_calls++;
	errno = ENOSYS;
	return -1;
}

START_TEST(a_kernel_without_epoll_pwait2_is_asked_once)
{
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(EPOLL_CLOEXEC), always_ready = eventfd(1, EFD_CLOEXEC);

	ck_assert_int_eq(tp_epoll(epoll, &event, 1, tp_now()), 0);
	ck_assert_int_eq(epoll_ctl(epoll, EPOLL_CTL_ADD, always_ready, &event), 0);
	ck_assert_int_eq(tp_epoll(epoll, &event, 1, TP_NEVER), 1);
	ck_assert_uint_le(pwait2_calls, 1); /* 0: neither had the C library of the build it */
	close(always_ready);
	close(epoll);
}
END_TEST

/* Up to the request of the active endpoint. */
static DAT_CR_HANDLE rig_request(struct ofi_rig *rig)
{
	ck_dat(ofi_ia_open(rig, PARAMS));
	ck_dat(ofi_objects_create(rig));
	ck_dat(ofi_connect_begin(rig));
	return ofi_event(rig->cr_evd).event_data.cr_arrival_event_data.cr_handle;
}

static void expect_connection(struct ofi_rig *rig, DAT_EP_HANDLE ep, DAT_EVENT_NUMBER number)
{
	const DAT_EVENT event = ofi_event(rig->conn_evd);

	ck_assert_uint_eq(event.event_number, number);
	ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, ep);
}

/* ---- endpoints ---- */

/* A device has a work queue of the size that was asked for, with room in its completion queue. */
START_TEST(an_endpoint_is_made_for_its_peer_and_no_larger_than_asked)
{
	struct ofi_rig rig;
	DAT_EP_PARAM param;

	make_device(FI_PROTO_RDMA_CM_IB_RC);
	ofi_rig_open(&rig);
	ck_dat(ep_query(rig.passive, DAT_EP_FIELD_ALL, &param));
	ck_assert_uint_eq(ff_seen().rx_size, (size_t)param.ep_attr.max_recv_dtos);
	ck_assert_uint_le(ff_seen().tx_size, 2 * (size_t)param.ep_attr.max_request_dtos);
	ck_assert_uint_eq(ofi_write(&rig, rig.target.rmr_context), DAT_DTO_SUCCESS);
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(a_message_without_bytes_has_no_vector)
{
	const DAT_DTO_COOKIE cookie = { .as_64 = 1 };
	struct ofi_rig rig;

	make_device(FI_PROTO_RDMA_CM_IB_RC);
	ofi_rig_open(&rig);
	ck_dat(ep_post_recv(rig.passive, 0, NULL, cookie, DAT_COMPLETION_DEFAULT_FLAG));
	ck_dat(ep_post_send(rig.active, 0, NULL, cookie, DAT_COMPLETION_DEFAULT_FLAG));
	ck_assert_uint_eq(ofi_completion(&rig), DAT_DTO_SUCCESS);
	ck_assert_uint_eq(ofi_completion(&rig), DAT_DTO_SUCCESS);
	ofi_rig_close(&rig);
}
END_TEST

/* ---- completion queues ---- */

START_TEST(a_queue_is_as_long_as_the_device_has)
{
	struct ofi_rig rig;
	DAT_IA_ATTR attr;
	DAT_EVD_HANDLE evd;

	make_device(FI_PROTO_RDMA_CM_IB_RC);
	ff_provider()->cq_size = 1000;
	ck_dat(ofi_ia_open(&rig, PARAMS));
	ck_dat(ia_query(rig.ia, NULL, DAT_IA_FIELD_ALL, &attr, DAT_PROVIDER_FIELD_NONE, NULL));
	ck_assert_int_le(attr.max_evd_qlen, 1000);
	ck_assert_int_ge(attr.max_evd_qlen, 400);
	ck_dat(evd_create(rig.ia, attr.max_evd_qlen, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd));
	ck_dat(evd_free(evd));
	ofi_rig_close(&rig);
}
END_TEST

/* ---- iWARP ---- */

/* libfabric connects there while it reads its event queue, which may take minutes. */
START_TEST(an_iwarp_device_is_refused)
{
	static const char *const places[] = { PARAMS,	  "scripted ff0", "scripted lo",
					      "scripted", "scripted 0",	  "scripted localhost" };
	struct ofi_rig rig;
	const char *line;

	make_device(FI_PROTO_IWARP);
	ff_log_capture();
	ck_dat_is(ofi_ia_open(&rig, places[_i]), DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	ck_assert_uint_eq(ff_calls("fi_fabric"), 0);
	line = strstr(ff_log(), "open ff0: libfabric's scripted can't connect over iWARP without "
				"blocking; use libdaplcma\n");
	ck_assert_msg(line && !strchr(line, '\n')[1], "the log: %s", ff_log());
	ofi_rig_close(&rig);
}
END_TEST

/* At the same address, and as the first device of all. */
START_TEST(a_device_beside_an_iwarp_one_is_preferred)
{
	static const char *const places[] = { PARAMS, "scripted lo", "scripted 0", "scripted" };
	struct ofi_rig rig;

	make_device(FI_PROTO_RDMA_CM_IB_RC);
	ff_provider()->iwarp_too = true;
	ck_dat(ofi_ia_open(&rig, places[_i]));
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(an_iwarp_device_that_is_named_is_refused)
{
	struct ofi_rig rig;

	make_device(FI_PROTO_RDMA_CM_IB_RC);
	ff_provider()->iwarp_too = true;
	ck_dat_is(ofi_ia_open(&rig, "scripted iw0"), DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	ofi_rig_close(&rig);
}
END_TEST

/* ---- regions ---- */

/* In such a cache every region has all rights, and stays when it was closed. */
START_TEST(a_cache_of_regions_is_refused)
{
	struct ofi_rig rig;

	make_device(FI_PROTO_RDMA_CM_IB_RC);
	ff_provider()->caches = true;
	ff_provider()->monitored = _i == 0;
	ff_provider()->old = _i == 1;
	ff_log_capture();
	ck_dat_is(ofi_ia_open(&rig, PARAMS), DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	ck_assert_ptr_nonnull(strstr(ff_log(), "FI_MR_CACHE_MONITOR=disabled"));
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(libfabric_has_no_cache_of_a_devices_regions)
{
	struct ofi_rig rig;

	make_device(FI_PROTO_RDMA_CM_IB_RC);
	ff_provider()->caches = true;
	for (int n = 0; n < 2; n++) {
		ck_dat(ofi_ia_open(&rig, PARAMS));
		ofi_rig_close(&rig);
	}
}
END_TEST

static size_t environment_copy(char *copy, size_t size)
{
	size_t length = 0;

	for (char **at = environ; *at; at++)
		length += (size_t)snprintf(copy + length, size - length, "%s\n", *at);
	ck_assert_uint_lt(length, size);
	return length;
}

/* Other threads may read it, and children inherit it. */
START_TEST(an_open_leaves_the_environment_as_it_is)
{
	static char before[1 << 16], after[1 << 16];
	size_t length = environment_copy(before, sizeof(before));
	struct ofi_rig rig;

	if (_i)
		make_device(FI_PROTO_RDMA_CM_IB_RC);
	ck_dat(ofi_ia_open(&rig, PARAMS));
	ofi_rig_close(&rig);
	ck_assert_uint_eq(environment_copy(after, sizeof(after)), length);
	ck_assert_str_eq(after, before);
}
END_TEST

/* ---- connecting ---- */

START_TEST(an_attempt_that_is_given_up_has_no_endpoint_any_more)
{
	DAT_CR_HANDLE cr;
	struct ofi_rig rig;

	make_device(FI_PROTO_RDMA_CM_IB_RC);
	cr = rig_request(&rig);
	ck_assert_uint_eq(ff_alive(FF_EP), 1);
	ck_dat(ep_disconnect(rig.active, DAT_CLOSE_ABRUPT_FLAG));
	expect_connection(&rig, rig.active, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_assert_uint_eq(ff_alive(FF_EP), 0);
	ck_dat(cr_reject_bare(cr));
	ofi_rig_close(&rig);
}
END_TEST

/* Receives that were posted for it are flushed, each once. */
START_TEST(the_receives_of_an_attempt_are_flushed_at_its_end)
{
	DAT_CR_HANDLE cr;
	struct ofi_rig rig;
	DAT_EVENT event;

	make_device(FI_PROTO_RDMA_CM_IB_RC);
	cr = rig_request(&rig);
	for (uint64_t i = 0; i < 3; i++)
		ck_dat(ep_post_recv(rig.active, 1, &rig.segment, (DAT_DTO_COOKIE){ .as_64 = i },
				    DAT_COMPLETION_DEFAULT_FLAG));
	ck_assert_uint_eq(ff_calls("fi_recv"), 3); /* libfabric has them */
	ck_dat(ep_disconnect(rig.active, DAT_CLOSE_ABRUPT_FLAG));
	for (uint64_t i = 0; i < 3; i++)
		ck_assert_uint_eq(ofi_completion(&rig), DAT_DTO_ERR_FLUSHED);
	ck_assert_uint_ne(evd_dequeue(rig.dto_evd, &event), DAT_SUCCESS);
	ck_dat(cr_reject_bare(cr));
	ofi_rig_close(&rig);
}
END_TEST

static const struct ep *posting;

static void expect_queue_lock(void)
{
	assert_locked(&posting->qp->recvs.cq->lock);
}

/* Or the endpoint could be closed meanwhile. The lock is the one that its end takes. */
START_TEST(a_receive_of_an_attempt_is_posted_under_a_lock)
{
	DAT_CR_HANDLE cr;
	struct ofi_rig rig;

	make_device(FI_PROTO_RDMA_CM_IB_RC);
	cr = rig_request(&rig);
	posting = rig.active;
	ff_hook("fi_recv", expect_queue_lock);
	for (uint64_t i = 0; i < 2; i++)
		ck_dat(ep_post_recv(rig.active, 1, &rig.segment, (DAT_DTO_COOKIE){ .as_64 = i },
				    DAT_COMPLETION_DEFAULT_FLAG));
	ck_assert_uint_eq(ff_calls("fi_recv"), 2);
	ff_hook("fi_recv", NULL);
	ck_dat(cr_reject_bare(cr));
	expect_connection(&rig, rig.active, DAT_CONNECTION_EVENT_PEER_REJECTED);
	ofi_rig_close(&rig);
}
END_TEST

/* libfabric has the request by then: it can be neither accepted again nor rejected. */
START_TEST(an_accept_that_is_too_late_is_reported_by_an_event)
{
	static const char *const calls[] = { "fi_ep_bind", "fi_enable", "fi_accept" };
	DAT_CR_HANDLE cr;
	struct ofi_rig rig;

	make_device(FI_PROTO_RDMA_CM_IB_RC);
	cr = rig_request(&rig);
	ck_dat(ep_post_recv(rig.passive, 1, &rig.segment, (DAT_DTO_COOKIE){ .as_64 = 1 },
			    DAT_COMPLETION_DEFAULT_FLAG));
	ff_fail(calls[_i], FI_EINVAL, 1);
	ck_dat(cr_accept(cr, rig.passive, 0, NULL));
	for (unsigned i = 0; i < 2; i++) {
		const DAT_EVENT event = ofi_event(rig.conn_evd);
		const bool passive = event.event_data.connect_event_data.ep_handle == rig.passive;

		ck_assert_uint_eq(event.event_number,
				  passive ? DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR
					  : DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	}
	ck_assert_uint_eq(ofi_completion(&rig), DAT_DTO_ERR_FLUSHED);
	ck_assert_uint_eq(ff_alive(FF_EP), 0);
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(an_address_that_does_not_answer_is_unreachable)
{
	static const int errs[] = { FI_ETIMEDOUT, FI_EHOSTUNREACH };
	struct ofi_rig rig;

	make_device(FI_PROTO_RDMA_CM_IB_RC);
	ck_dat(ofi_ia_open(&rig, PARAMS));
	ck_dat(ofi_objects_create(&rig));
	ff_fail("fi_endpoint", errs[_i], 1);
	ck_dat(ofi_connect_begin(&rig));
	expect_connection(&rig, rig.active, DAT_CONNECTION_EVENT_UNREACHABLE);
	ck_dat(ep_reset(rig.active));
	ck_dat(ofi_connect(&rig));
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(an_address_that_no_device_reaches_is_invalid)
{
	struct ofi_rig rig;

	make_device(FI_PROTO_RDMA_CM_IB_RC);
	ck_dat(ofi_ia_open(&rig, PARAMS));
	ck_dat(ofi_objects_create(&rig));
	ff_fail("fi_endpoint", FI_ENODEV, 1);
	ck_dat_is(ofi_connect_begin(&rig), DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE);
	ck_dat(ofi_connect(&rig));
	ofi_rig_close(&rig);
}
END_TEST

/* Through an endpoint that has an event queue, as verbs wants. */
START_TEST(a_request_is_rejected_when_its_listener_has_gone)
{
	DAT_CR_HANDLE cr;
	struct ofi_rig rig;

	make_device(FI_PROTO_RDMA_CM_IB_RC);
	cr = rig_request(&rig);
	ck_dat(psp_free(rig.psp));
	rig.psp = DAT_HANDLE_NULL;
	ck_dat(cr_reject_bare(cr));
	expect_connection(&rig, rig.active, DAT_CONNECTION_EVENT_PEER_REJECTED);
	ofi_rig_close(&rig);
}
END_TEST

/* It is about a request that was given up, or about the device. */
START_TEST(a_failure_of_the_listener_is_no_failure_of_a_connection)
{
	struct ofi_rig rig;

	setenv("DAPL_DBG_TYPE", "0x8", 1); /* of the connection manager */
	ff_log_capture();
	make_device(FI_PROTO_RDMA_CM_IB_RC);
	ofi_rig_open(&rig);
	ff_listener_fail(FI_ECONNREFUSED);
	ck_assert_uint_eq(ofi_write(&rig, rig.target.rmr_context), DAT_DTO_SUCCESS);
	ck_dat(ep_disconnect(rig.active, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_uint_eq(ofi_event(rig.conn_evd).event_number, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_assert_uint_eq(ofi_event(rig.conn_evd).event_number, DAT_CONNECTION_EVENT_DISCONNECTED);
	ofi_rig_close(&rig);
	ck_assert_ptr_nonnull(strstr(ff_log(), "ff0: a passive endpoint: "));
}
END_TEST

/* Everything that has a place in the connection manager says so. */
START_TEST(a_device_that_was_removed_ends_its_connections)
{
	struct ofi_rig rig;
	DAT_EVENT event;

	make_device(FI_PROTO_RDMA_CM_IB_RC);
	ofi_rig_open(&rig);
	ff_listener_fail(FI_ENODEV);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_uint_eq(ofi_event(rig.conn_evd).event_number,
				  DAT_CONNECTION_EVENT_BROKEN);
	event = ofi_event(rig.async_evd);
	ck_assert_uint_eq(event.event_number, DAT_ASYNC_ERROR_IA_CATASTROPHIC);
	ofi_rig_close(&rig);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tcase = tcase_create("device");

	tcase_add_test(tcase, a_kernel_without_epoll_pwait2_is_asked_once);
	tcase_add_test(tcase, an_endpoint_is_made_for_its_peer_and_no_larger_than_asked);
	tcase_add_test(tcase, a_message_without_bytes_has_no_vector);
	tcase_add_test(tcase, a_queue_is_as_long_as_the_device_has);
	tcase_add_loop_test(tcase, an_iwarp_device_is_refused, 0, 6);
	tcase_add_loop_test(tcase, a_device_beside_an_iwarp_one_is_preferred, 0, 4);
	tcase_add_test(tcase, an_iwarp_device_that_is_named_is_refused);
	tcase_add_loop_test(tcase, a_cache_of_regions_is_refused, 0, 2);
	tcase_add_test(tcase, libfabric_has_no_cache_of_a_devices_regions);
	tcase_add_loop_test(tcase, an_open_leaves_the_environment_as_it_is, 0, 2);

	tcase_add_test(tcase, an_attempt_that_is_given_up_has_no_endpoint_any_more);
	tcase_add_test(tcase, the_receives_of_an_attempt_are_flushed_at_its_end);
	tcase_add_test(tcase, a_receive_of_an_attempt_is_posted_under_a_lock);
	tcase_add_loop_test(tcase, an_accept_that_is_too_late_is_reported_by_an_event, 0, 3);
	tcase_add_loop_test(tcase, an_address_that_does_not_answer_is_unreachable, 0, 2);
	tcase_add_test(tcase, an_address_that_no_device_reaches_is_invalid);
	tcase_add_test(tcase, a_request_is_rejected_when_its_listener_has_gone);
	tcase_add_test(tcase, a_failure_of_the_listener_is_no_failure_of_a_connection);
	tcase_add_test(tcase, a_device_that_was_removed_ends_its_connections);
	return run_cases(argc, argv);
}
