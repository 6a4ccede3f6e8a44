/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attributes: what a query returns for an IA and the provider, and what an endpoint may be created
 * with.
 */
#include <netinet/in.h>

#include "harness.h"

#define BAD BAD_ARG(6) /* as dat_ep_create returns it */

static struct provider provider;
static struct tp_attr dev_attr;
static struct ia ia = { .provider = &provider, .attr = &dev_attr };

static void setup(void)
{
	provider.info = (DAT_PROVIDER_INFO){
		.ia_name = "roe0",
		.dapl_version_major = DAT_VERSION_MAJOR,
		.dapl_version_minor = 1,
		.is_thread_safe = DAT_TRUE,
	};
	dev_attr = (struct tp_attr){
		.device = "fake0",
		.vendor = "0x1234",
		.hw_version = 7,
		.fw_major = 3,
		.fw_minor = 5,
		.max_qp = 100,
		.max_qp_wr = 1000,
		.max_cq = 200,
		.max_cqe = 4096,
		.max_mr = 300,
		.max_mw = 250,
		.max_pd = 400,
		.max_sge = 30,
		.max_read_sge = 2,
		.max_read_wr_sge = 2,
		.max_read_in = 16,
		.max_read_out = 12,
		.max_read_in_total = 1600,
		.max_request_pdata = 56,
		.max_reply_pdata = 196,
		.max_mr_size = UINT64_C(1) << 40,
		.max_message = UINT64_C(1) << 30,
	};
	dev_attr.addr.ss_family = AF_INET;
	ck_assert_int_eq(attr_own_open(&ia), 0);
}

static void teardown(void)
{
	attr_own_close(&ia);
}

START_TEST(ia_attributes_come_from_the_device)
{
	DAT_IA_ATTR attr;

	attr_ia(&ia, &attr);
	ck_assert_str_eq(attr.adapter_name, OF_EDITION("roe0", "fake0"));
	ck_assert_str_eq(attr.vendor_name, "0x1234");
	ck_assert_uint_eq(attr.hardware_version_major, 7);
	ck_assert_uint_eq(attr.hardware_version_minor, 0);
	ck_assert_uint_eq(attr.firmware_version_major, 3);
	ck_assert_uint_eq(attr.firmware_version_minor, 5);
	ck_assert_ptr_eq(attr.ia_address_ptr, &dev_attr.addr);
	ck_assert_int_eq(attr.max_eps, 100);
	ck_assert_int_eq(attr.max_dto_per_ep, 1000 - RING_SLACK);
	ck_assert_int_eq(attr.max_rdma_read_per_ep_in, 16);
	ck_assert_int_eq(attr.max_rdma_read_per_ep_out, 12);
	ck_assert_int_eq(attr.max_evds, 200);
	ck_assert_int_eq(attr.max_evd_qlen, attr_max_evd_qlen(&ia));
	ck_assert_int_lt(attr.max_evd_qlen, 4096);
	ck_assert_int_ge(attr.max_evd_qlen, attr.max_dto_per_ep);
	ck_assert_int_eq(attr.max_iov_segments_per_dto, 30);
	ck_assert_int_eq(attr.max_lmrs, 300);
	ck_assert_uint_eq(attr.max_lmr_block_size, OF_EDITION(UINT64_C(1) << 40, UINT32_MAX));
	ck_assert_uint_eq(attr.max_lmr_virtual_address, UINTPTR_MAX);
	ck_assert_int_eq(attr.max_pzs, 400);
	ck_assert_uint_eq(attr.max_message_size, UINT64_C(1) << 30);
	ck_assert_uint_eq(attr.max_rdma_size, UINT64_C(1) << 30);
	ck_assert_int_eq(attr.max_rmrs, 250);
	ck_assert_uint_eq(attr.max_rmr_target_address, UINT64_MAX);
	ck_assert_int_eq(attr.max_iov_segments_per_rdma_read, 2);
	ck_assert_int_eq(attr.max_iov_segments_per_rdma_write, 30);
	ck_assert_int_eq(attr.max_rdma_read_in, 1600);
	ck_assert_int_eq(attr.max_rdma_read_out, 12);
	ck_assert_int_eq(attr.max_rdma_read_per_ep_in_guaranteed, DAT_TRUE);
	ck_assert_int_eq(attr.max_rdma_read_per_ep_out_guaranteed, DAT_TRUE);
	ck_assert_int_eq(attr.num_transport_attr, 0);
	ck_assert_ptr_null(attr.transport_attr);
	ck_assert_int_eq(attr.num_vendor_attr, 0);
	ck_assert_ptr_null(attr.vendor_attr);
}
END_TEST

START_TEST(max_rmrs_is_max_lmrs_without_device_windows)
{
	DAT_IA_ATTR attr;

	dev_attr.max_mw = 0;
	attr_ia(&ia, &attr);
	ck_assert_int_eq(attr.max_rmrs, 300);
}
END_TEST

START_TEST(reads_are_guaranteed_only_if_enough_for_all_endpoints)
{
	DAT_IA_ATTR attr;

	dev_attr.max_read_in_total = 1599;
	attr_ia(&ia, &attr);
	ck_assert_int_eq(attr.max_rdma_read_per_ep_in_guaranteed, DAT_FALSE);
}
END_TEST

START_TEST(provider_attributes_say_what_is_supported)
{
	DAT_PROVIDER_ATTR attr;

	attr_provider(&ia, &attr);
	ck_assert_str_ne(attr.provider_name, "");
	ck_assert_uint_eq(attr.provider_version_major, DAT_VERSION_MAJOR);
	/* The registry looks up the provider by this version when the IA is closed. */
	ck_assert_uint_eq(attr.dapl_version_major, DAT_VERSION_MAJOR);
	ck_assert_uint_eq(attr.dapl_version_minor, 1);
	ck_assert_int_eq(attr.is_thread_safe, DAT_TRUE);
	ck_assert_int_eq(attr.iov_ownership_on_return, DAT_IOV_CONSUMER);
	ck_assert_int_eq(attr.dat_qos_supported, DAT_QOS_BEST_EFFORT);
	ck_assert_uint_eq(attr.completion_flags_supported, 0x1f);
	ck_assert_int_eq(attr.max_private_data_size, 56);
	ck_assert_int_eq(attr.supports_multipath, DAT_FALSE);
	ck_assert_int_eq(attr.pz_support, DAT_PZ_UNIQUE);
	ck_assert_uint_eq(DAT_OPTIMAL_ALIGNMENT % attr.optimal_buffer_alignment, 0);
	for (int i = 0; i < 6; i++)
		for (int j = 0; j < 6; j++)
			ck_assert_int_eq(attr.evd_stream_merging_supported[i][j], DAT_TRUE);
	ck_assert_int_eq(attr.ep_recv_info_supported, 0x11);
	ck_assert_int_eq(attr.lmr_mem_types_supported, 3); /* all four of them */
	ck_assert_int_eq(attr.lmr_sync_req, DAT_FALSE);
	ck_assert_int_eq(attr.dto_async_return_guaranteed, DAT_TRUE);
	ck_assert_int_eq(attr.rdma_write_for_rdma_read_req, DAT_FALSE);
	if (DAT_EDITION == 1) {
		ck_assert_int_eq(attr.num_provider_specific_attr, 0);
		ck_assert_ptr_null(attr.provider_specific_attr);
	}
}
END_TEST

START_TEST(a_read_sink_needs_remote_write_on_iwarp)
{
	DAT_PROVIDER_ATTR attr;

	dev_attr.caps = TP_CAP_READ_NEEDS_WRITE;
	attr_provider(&ia, &attr);
	ck_assert_int_eq(attr.rdma_write_for_rdma_read_req, DAT_TRUE);
}
END_TEST

/* The consumer's structure keeps nothing of its contents before the query. */
START_TEST(a_query_writes_every_byte_of_the_attributes)
{
	static DAT_PROVIDER_ATTR provider_attr[2];
	static DAT_IA_ATTR ia_attr[2];

	for (int i = 0; i < 2; i++) {
		memset((void *)&provider_attr[i], i ? 0xff : 0, sizeof(provider_attr[i]));
		memset(&ia_attr[i], i ? 0xff : 0, sizeof(ia_attr[i]));
		attr_provider(&ia, &provider_attr[i]);
		attr_ia(&ia, &ia_attr[i]);
	}
	ck_assert_mem_eq(&provider_attr[0], &provider_attr[1], sizeof(provider_attr[0]));
	ck_assert_mem_eq(&ia_attr[0], &ia_attr[1], sizeof(ia_attr[0]));
}
END_TEST

/* Compares all but the padding. */
static void expect_same_ep_attr(const DAT_EP_ATTR *a, const DAT_EP_ATTR *b)
{
	ck_assert_int_eq(a->service_type, b->service_type);
	ck_assert_uint_eq(a->max_message_size, b->max_message_size);
	ck_assert_uint_eq(a->max_rdma_size, b->max_rdma_size);
	ck_assert_int_eq(a->qos, b->qos);
	ck_assert_int_eq(a->recv_completion_flags, b->recv_completion_flags);
	ck_assert_int_eq(a->request_completion_flags, b->request_completion_flags);
	ck_assert_int_eq(a->max_recv_dtos, b->max_recv_dtos);
	ck_assert_int_eq(a->max_request_dtos, b->max_request_dtos);
	ck_assert_int_eq(a->max_recv_iov, b->max_recv_iov);
	ck_assert_int_eq(a->max_request_iov, b->max_request_iov);
	ck_assert_int_eq(a->max_rdma_read_in, b->max_rdma_read_in);
	ck_assert_int_eq(a->max_rdma_read_out, b->max_rdma_read_out);
	ck_assert_int_eq(a->srq_soft_hw, b->srq_soft_hw);
	ck_assert_int_eq(a->max_rdma_read_iov, b->max_rdma_read_iov);
	ck_assert_int_eq(a->max_rdma_write_iov, b->max_rdma_write_iov);
	ck_assert_int_eq(a->ep_transport_specific_count, b->ep_transport_specific_count);
	ck_assert_ptr_eq(a->ep_transport_specific, b->ep_transport_specific);
	ck_assert_int_eq(a->ep_provider_specific_count, b->ep_provider_specific_count);
	ck_assert_ptr_eq(a->ep_provider_specific, b->ep_provider_specific);
}

START_TEST(ep_defaults_do_not_grow_with_the_device)
{
	DAT_EP_ATTR attr;

	dev_attr.max_message = UINT64_C(1) << 32;
	dev_attr.max_read_sge = dev_attr.max_read_wr_sge = 30;
	attr_ep_default(&ia, &attr);
	ck_assert_int_eq(attr.service_type, DAT_SERVICE_TYPE_RC);
	ck_assert_uint_eq(attr.max_message_size, UINT64_C(1) << 31);
	ck_assert_uint_eq(attr.max_rdma_size, UINT64_C(1) << 31);
	ck_assert_int_eq(attr.qos, DAT_QOS_BEST_EFFORT);
	ck_assert_int_eq(attr.recv_completion_flags, DAT_COMPLETION_EVD_THRESHOLD_FLAG);
	ck_assert_int_eq(attr.request_completion_flags, DAT_COMPLETION_EVD_THRESHOLD_FLAG);
	ck_assert_int_eq(attr.max_recv_dtos, 16);
	ck_assert_int_eq(attr.max_request_dtos, 16);
	ck_assert_int_eq(attr.max_recv_iov, 4);
	ck_assert_int_eq(attr.max_request_iov, 4);
	ck_assert_int_eq(attr.max_rdma_read_in, 8);
	ck_assert_int_eq(attr.max_rdma_read_out, 8);
	ck_assert_int_eq(attr.max_rdma_read_iov, 4);
	ck_assert_int_eq(attr.max_rdma_write_iov, 4);
	ck_assert_int_eq(attr.ep_transport_specific_count, 0);
	ck_assert_int_eq(attr.ep_provider_specific_count, 0);
}
END_TEST

START_TEST(ep_defaults_are_limited_by_the_device)
{
	DAT_EP_ATTR attr;

	dev_attr.max_qp_wr = 10;
	dev_attr.max_sge = 3;
	dev_attr.max_read_sge = 1;
	dev_attr.max_read_in = 2;
	dev_attr.max_read_out = 0;
	dev_attr.max_message = 4096;
	attr_ep_default(&ia, &attr);
	ck_assert_uint_eq(attr.max_message_size, 4096);
	ck_assert_uint_eq(attr.max_rdma_size, 4096);
	ck_assert_int_eq(attr.max_recv_dtos, 10 - RING_SLACK);
	ck_assert_int_eq(attr.max_request_dtos, 10 - RING_SLACK);
	ck_assert_int_eq(attr.max_recv_iov, 3);
	ck_assert_int_eq(attr.max_request_iov, 3);
	ck_assert_int_eq(attr.max_rdma_read_in, 2);
	ck_assert_int_eq(attr.max_rdma_read_out, 0);
	ck_assert_int_eq(attr.max_rdma_read_iov, 1);
	ck_assert_int_eq(attr.max_rdma_write_iov, 3);
}
END_TEST

/* A consumer changes one member of the queried defaults and passes the others as they are. */
START_TEST(ep_defaults_are_accepted)
{
	DAT_EP_ATTR defaults, got;

	attr_ep_default(&ia, &defaults);
	memset(&got, 0xff, sizeof(got));
	ck_dat(attr_ep_check(&ia, &defaults, BAD, &got));
	expect_same_ep_attr(&got, &defaults);
	memset(&got, 0xff, sizeof(got));
	ck_dat(attr_ep_check(&ia, NULL, BAD, &got));
	expect_same_ep_attr(&got, &defaults);
}
END_TEST

START_TEST(ep_maxima_are_accepted)
{
	DAT_EP_ATTR attr, got;
	DAT_IA_ATTR maxima;

	attr_ia(&ia, &maxima);
	attr_ep_default(&ia, &attr);
	attr.max_message_size = maxima.max_message_size;
	attr.max_rdma_size = maxima.max_rdma_size;
	attr.max_recv_dtos = attr.max_request_dtos = maxima.max_dto_per_ep;
	attr.max_recv_iov = attr.max_request_iov = maxima.max_iov_segments_per_dto;
	attr.max_rdma_read_in = maxima.max_rdma_read_per_ep_in;
	attr.max_rdma_read_out = maxima.max_rdma_read_per_ep_out;
	attr.max_rdma_read_iov = maxima.max_iov_segments_per_rdma_read;
	attr.max_rdma_write_iov = maxima.max_iov_segments_per_rdma_write;
	ck_dat(attr_ep_check(&ia, &attr, BAD, &got));
	expect_same_ep_attr(&got, &attr);
}
END_TEST

START_TEST(zero_sizes_stand_for_the_maxima)
{
	DAT_EP_ATTR attr, got;

	attr_ep_default(&ia, &attr);
	attr.max_message_size = attr.max_rdma_size = 0;
	attr.max_request_iov = 7;
	attr.max_rdma_read_iov = attr.max_rdma_write_iov = 0;
	ck_dat(attr_ep_check(&ia, &attr, BAD, &got));
	ck_assert_uint_eq(got.max_message_size, UINT64_C(1) << 30);
	ck_assert_uint_eq(got.max_rdma_size, UINT64_C(1) << 30);
	ck_assert_int_eq(got.max_rdma_read_iov, 2); /* the device's maximum */
	ck_assert_int_eq(got.max_rdma_write_iov, 7);
}
END_TEST

START_TEST(an_endpoint_without_transfers_is_accepted)
{
	DAT_EP_ATTR attr, got;

	attr_ep_default(&ia, &attr);
	attr.max_recv_dtos = attr.max_request_dtos = 0;
	attr.max_recv_iov = attr.max_request_iov = 0;
	attr.max_rdma_read_iov = attr.max_rdma_write_iov = 0;
	attr.max_rdma_read_in = attr.max_rdma_read_out = 0;
	ck_dat(attr_ep_check(&ia, &attr, BAD, &got));
	expect_same_ep_attr(&got, &attr);
}
END_TEST

/* The defaults with one member changed to a value that is refused. */
static const struct {
	const char *why;
	size_t offset;
	int value;
	DAT_RETURN want;
} bad_values[] = {
#define ROW(member, value, want)                                                                   \
	{                                                                                          \
#member " = " #value, offsetof(DAT_EP_ATTR, member), value, want                   \
	}
	ROW(service_type, 2, BAD),	  ROW(max_recv_dtos, -1, BAD),
	ROW(max_recv_dtos, 999, BAD),	  ROW(max_request_dtos, -1, BAD),
	ROW(max_request_dtos, 999, BAD),  ROW(max_recv_iov, -1, BAD),
	ROW(max_recv_iov, 0, BAD),	  ROW(max_recv_iov, 31, BAD),
	ROW(max_request_iov, 0, BAD),	  ROW(max_request_iov, 31, BAD),
	ROW(max_rdma_read_in, -1, BAD),	  ROW(max_rdma_read_in, 17, BAD),
	ROW(max_rdma_read_out, 13, BAD),  ROW(max_rdma_read_iov, 3, BAD),
	ROW(max_rdma_write_iov, 31, BAD),
#undef ROW
};

START_TEST(ep_attributes_out_of_range_are_refused)
{
	DAT_EP_ATTR attr, got, before;

	attr_ep_default(&ia, &attr);
	memcpy((char *)&attr + bad_values[_i].offset, &bad_values[_i].value, sizeof(int));
	memset(&got, 0xa5, sizeof(got));
	before = got;
	ck_assert_msg(attr_ep_check(&ia, &attr, BAD, &got) == bad_values[_i].want, "%s",
		      bad_values[_i].why);
	ck_assert_mem_eq(&got, &before, sizeof(got));
}
END_TEST

START_TEST(ep_sizes_beyond_the_device_are_refused)
{
	DAT_EP_ATTR attr, got;

	attr_ep_default(&ia, &attr);
	attr.max_message_size = (UINT64_C(1) << 30) + 1;
	ck_dat_is(attr_ep_check(&ia, &attr, BAD_ARG(3), &got), BAD_ARG(3));
	attr_ep_default(&ia, &attr);
	attr.max_rdma_size = OF_EDITION(UINT64_MAX, UINT32_MAX);
	ck_dat_is(attr_ep_check(&ia, &attr, BAD_ARG(3), &got), BAD_ARG(3));
}
END_TEST

/* In any combination. Those that configure nothing, or are unknown, count as 0. */
START_TEST(completion_flags_are_never_refused)
{
	const unsigned modes = DAT_COMPLETION_UNSIGNALLED_FLAG | DAT_COMPLETION_EVD_THRESHOLD_FLAG;
	DAT_EP_ATTR attr, got;

	attr_ep_default(&ia, &attr);
	attr.recv_completion_flags = (DAT_COMPLETION_FLAGS)_i;
	ck_dat(attr_ep_check(&ia, &attr, BAD, &got));
	ck_assert_uint_eq(got.recv_completion_flags,
			  (unsigned)_i & (modes | DAT_COMPLETION_SOLICITED_WAIT_FLAG));
	ck_assert_uint_eq(got.request_completion_flags, attr.request_completion_flags);
	attr_ep_default(&ia, &attr);
	attr.request_completion_flags = (DAT_COMPLETION_FLAGS)_i;
	ck_dat(attr_ep_check(&ia, &attr, BAD, &got));
	ck_assert_uint_eq(got.request_completion_flags, (unsigned)_i & modes);
	ck_assert_uint_eq(got.recv_completion_flags, attr.recv_completion_flags);
}
END_TEST

static const int srq_values[] = { DAT_HW_DEFAULT, -2, 1, 4, 0x5a5a5a5a, INT32_MAX, INT32_MIN };

/* Programs that use no shared receive queue leave it uninitialised. */
START_TEST(srq_soft_hw_is_not_looked_at)
{
	DAT_EP_ATTR attr, got;

	attr_ep_default(&ia, &attr);
	attr.srq_soft_hw = srq_values[_i];
	ck_dat(attr_ep_check(&ia, &attr, BAD, &got));
	attr.srq_soft_hw = 0;
	expect_same_ep_attr(&got, &attr);
}
END_TEST

/* Nor are the specific attributes: programs leave their counts uninitialised. */
START_TEST(qos_and_specific_attributes_have_no_effect)
{
	DAT_NAMED_ATTR specific;
	DAT_EP_ATTR attr, got;

	attr_ep_default(&ia, &attr);
	attr.qos = (DAT_QOS)_i;
	attr.ep_transport_specific_count = _i - 1;
	attr.ep_provider_specific_count = INT32_MAX - _i;
	attr.ep_transport_specific = attr.ep_provider_specific = &specific;
	ck_dat(attr_ep_check(&ia, &attr, BAD, &got));
	attr_ep_default(&ia, &attr);
	expect_same_ep_attr(&got, &attr);
}
END_TEST

static const struct {
	unsigned per_work_request;
	DAT_COUNT segments, requests;
	unsigned want; /* without RING_SLACK, unless the device limits it */
} split_reads[] = {
	{ 2, 2, 16, 16 },
	{ 2, 0, 16, 16 },
	{ 2, 1, 16, 16 },
	{ 1, 2, 16, 32 },
	{ 2, 3, 16, 32 },
	{ 2, 4, 16, 32 },
	{ 2, 5, 16, 48 },
	{ 3, 30, 10, 100 },
	{ 1, 2, 0, 0 },
	{ 1, 4, 200, 800 },
	{ 1, 30, 100, 1000 - RING_SLACK },
	{ 1, 30, 990, 1000 - RING_SLACK },
};

/* A read of more segments than one work request takes is posted as several. */
START_TEST(the_request_queue_has_room_for_split_reads)
{
	DAT_EP_ATTR attr;

	dev_attr.max_read_sge = 30;
	dev_attr.max_read_wr_sge = split_reads[_i].per_work_request;
	attr_ep_default(&ia, &attr);
	attr.max_rdma_read_iov = split_reads[_i].segments;
	attr.max_request_dtos = split_reads[_i].requests;
	ck_assert_uint_eq(attr_ep_work_requests(&ia, &attr), split_reads[_i].want + RING_SLACK);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("attributes"), *values = tcase_create("values");

	tcase_add_checked_fixture(cases, setup, teardown);
	case_share_process(values);
	tcase_add_checked_fixture(values, setup, teardown);
	tcase_add_test(cases, ia_attributes_come_from_the_device);
	tcase_add_test(cases, max_rmrs_is_max_lmrs_without_device_windows);
	tcase_add_test(cases, reads_are_guaranteed_only_if_enough_for_all_endpoints);
	tcase_add_test(cases, provider_attributes_say_what_is_supported);
	tcase_add_test(cases, a_read_sink_needs_remote_write_on_iwarp);
	tcase_add_test(cases, a_query_writes_every_byte_of_the_attributes);
	tcase_add_test(cases, ep_defaults_do_not_grow_with_the_device);
	tcase_add_test(cases, ep_defaults_are_limited_by_the_device);
	tcase_add_test(cases, ep_defaults_are_accepted);
	tcase_add_test(cases, ep_maxima_are_accepted);
	tcase_add_test(cases, zero_sizes_stand_for_the_maxima);
	tcase_add_test(cases, an_endpoint_without_transfers_is_accepted);
	tcase_add_loop_test(cases, ep_attributes_out_of_range_are_refused, 0, COUNT(bad_values));
	tcase_add_test(cases, ep_sizes_beyond_the_device_are_refused);
	tcase_add_loop_test(cases, srq_soft_hw_is_not_looked_at, 0, COUNT(srq_values));
	tcase_add_loop_test(cases, the_request_queue_has_room_for_split_reads, 0,
			    COUNT(split_reads));
	tcase_add_loop_test(values, completion_flags_are_never_refused, 0, 0x100);
	tcase_add_loop_test(values, qos_and_specific_attributes_have_no_effect, 0, 0x40);
	return run_unit_cases(argc, argv);
}
