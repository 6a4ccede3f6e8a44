/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits: what dat_ia_query says can be had, what is beyond it is refused as a shortage that names
 * what is short, and so is what the device refuses although its limits allow it.
 */
#include <unistd.h>

#include "harness.h"

#define DEFAULT_DEPTH 36 /* completions of an endpoint with the default attributes */

static struct {
	DAT_IA_HANDLE ia;
	DAT_EVD_HANDLE async_evd;
	DAT_PZ_HANDLE pz;
	DAT_EVD_HANDLE evd; /* for both directions */
	DAT_IA_ATTR attr;
	int log; /* what was printed */
} limits;

static DAT_EVD_HANDLE limits_evd(DAT_COUNT qlen)
{
	DAT_EVD_HANDLE evd;

	ck_dat(evd_create(limits.ia, qlen, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd));
	return evd;
}

static void limits_open(void)
{
	DAT_PROVIDER_ATTR provider;

	limits.log = stderr_capture();
	limits.ia = ia_open_on("fake0", false, &limits.async_evd);
	ck_dat(ia_query(limits.ia, NULL, DAT_IA_FIELD_ALL, &limits.attr, 0, &provider));
	ck_dat(pz_create(limits.ia, &limits.pz));
	limits.evd = limits_evd(1);
}

static void limits_close(void)
{
	ck_dat(ia_close(limits.ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}

static void expect_line(const char *text)
{
	const char *lines = output_text(limits.log);

	ck_assert_msg(strstr(lines, text) != NULL, "\"%s\" is not in: %s", text, lines);
}

static DAT_EP_ATTR limits_ep_attr(DAT_COUNT recv_dtos, DAT_COUNT request_dtos)
{
	DAT_EP_ATTR attr;

	attr_ep_default(limits.ia, &attr);
	attr.max_recv_dtos = recv_dtos;
	attr.max_request_dtos = request_dtos;
	return attr;
}

static DAT_RETURN try_ep(DAT_EVD_HANDLE recv_evd, DAT_EVD_HANDLE request_evd,
			 const DAT_EP_ATTR *attr, DAT_HANDLE *ep)
{
	return ep_create(limits.ia, limits.pz, recv_evd, request_evd, DAT_HANDLE_NULL, attr, ep);
}

/* ---- how many objects ---- */

static DAT_RETURN make_pz(DAT_HANDLE *pz)
{
	return pz_create(limits.ia, pz);
}

static DAT_RETURN make_evd(DAT_HANDLE *evd)
{
	return evd_create(limits.ia, 1, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, evd);
}

static DAT_RETURN make_lmr(DAT_HANDLE *lmr)
{
	static char memory[64];

	return lmr_create_va(limits.ia, DAT_MEM_TYPE_VIRTUAL,
			     (DAT_REGION_DESCRIPTION){ .for_va = memory }, sizeof(memory),
			     limits.pz, DAT_MEM_PRIV_ALL_FLAG, lmr, NULL, NULL, NULL, NULL);
}

static DAT_RETURN make_rmr(DAT_HANDLE *rmr)
{
	return rmr_create(limits.pz, rmr);
}

static DAT_RETURN make_ep(DAT_HANDLE *ep)
{
	return try_ep(limits.evd, limits.evd, NULL, ep);
}

static const struct {
	size_t told;	/* in DAT_IA_ATTR */
	DAT_COUNT made; /* by limits_open */
	DAT_RETURN (*make)(DAT_HANDLE *handle);
	DAT_RETURN beyond;
} objects[] = {
#define TOLD(field) offsetof(DAT_IA_ATTR, field)
	{ TOLD(max_pzs), 1, make_pz, NO_RESOURCE(PROTECTION_DOMAIN) },
	{ TOLD(max_evds), 1, make_evd, NO_RESOURCE(TEVD) },
	{ TOLD(max_lmrs), 0, make_lmr, NO_RESOURCE(MEMORY_REGION) },
	{ TOLD(max_rmrs), 0, make_rmr, NO_RESOURCE(MEMORY_REGION) },
	{ TOLD(max_eps), 0, make_ep, NO_RESOURCE(TEP) },
};

START_TEST(as_many_objects_as_are_told_can_be_made)
{
	DAT_HANDLE handle;
	DAT_COUNT told;

	fake_attr()->max_pd = 5;
	fake_attr()->max_cq = 6;
	fake_attr()->max_mr = 7;
	fake_attr()->max_mw = 8;
	fake_attr()->max_qp = 9;
	limits_open();
	memcpy(&told, (char *)&limits.attr + objects[_i].told, sizeof(told));
	ck_assert_int_eq(told, 5 + _i);
	for (DAT_COUNT n = objects[_i].made; n < told; n++)
		ck_dat(objects[_i].make(&handle));
	handle = POISON;
	ck_dat_is(objects[_i].make(&handle), objects[_i].beyond);
	ck_assert_ptr_eq(handle, POISON);
	limits_close();
}
END_TEST

/* ---- how large they are ---- */

static const struct device {
	unsigned max_qp_wr, max_cqe;
	bool resizes;
	DAT_COUNT max_dtos, max_qlen;
} devices[] = {
	{ 50, 1000, true, 48, 936 }, /* the queue pair is the limit */
	{ 50, 1000, false, 48, 936 },	{ 1000, 200, true, 136, 136 }, /* the completion queue is */
	{ 1000, 200, false, 136, 136 }, { 202, 200, true, 136, 136 },
	{ 12, 80, true, 10, 16 },	{ 12, 80, false, 10, 16 },
};

static void limits_open_device(const struct device *device)
{
	fake_attr()->max_qp_wr = device->max_qp_wr;
	fake_attr()->max_cqe = device->max_cqe;
	if (!device->resizes)
		fake_attr()->caps &= ~(unsigned)TP_CAP_CQ_RESIZE;
	limits_open();
	ck_assert_int_eq(limits.attr.max_dto_per_ep, device->max_dtos);
	ck_assert_int_eq(limits.attr.max_evd_qlen, device->max_qlen);
}

START_TEST(an_evd_can_be_as_long_as_is_told)
{
	DAT_HANDLE evd = POISON;

	limits_open_device(&devices[_i]);
	limits_evd(limits.attr.max_evd_qlen);
	ck_dat_is(evd_create(limits.ia, limits.attr.max_evd_qlen + 1, DAT_HANDLE_NULL,
			     DAT_EVD_DTO_FLAG, &evd),
		  NO_RESOURCE(TEVD));
	ck_assert_ptr_eq(evd, POISON);
	limits_close();
}
END_TEST

/* A queue that can't be resized is made as long as the consumer needs it. */
START_TEST(an_endpoint_can_have_as_many_transfers_as_are_told)
{
	const bool resizes = devices[_i].resizes;
	DAT_EVD_HANDLE recv_evd, request_evd;
	DAT_HANDLE ep = POISON;
	DAT_EP_ATTR attr;
	DAT_COUNT max;

	limits_open_device(&devices[_i]);
	max = limits.attr.max_dto_per_ep;
	recv_evd = limits_evd(resizes ? 1 : max);
	request_evd = limits_evd(resizes ? 1 : max);
	attr = limits_ep_attr(max, max);
	ck_dat(try_ep(recv_evd, request_evd, &attr, &ep));
	for (DAT_COUNT n = 0; n < max; n++)
		ck_dat(ep_post_recv(ep, 0, NULL, cookie_of(0), 0));
	ck_dat_is(ep_post_recv(ep, 0, NULL, cookie_of(0), 0), NO_RESOURCE(MEMORY));
	attr.max_recv_dtos++;
	ck_dat_is(try_ep(recv_evd, request_evd, &attr, &ep), BAD_ARG(6));
	attr = limits_ep_attr(max, max + 1);
	ck_dat_is(try_ep(recv_evd, request_evd, &attr, &ep), BAD_ARG(6));
	limits_close();
}
END_TEST

/* Each direction has its share of the queue. */
START_TEST(both_directions_fit_into_an_evd_of_the_told_length)
{
	DAT_HANDLE ep = POISON;
	DAT_EP_ATTR attr;

	limits_open_device(&devices[_i]);
	attr = limits_ep_attr(limits.attr.max_evd_qlen / 2, limits.attr.max_evd_qlen / 2);
	if (attr.max_recv_dtos > limits.attr.max_dto_per_ep)
		attr.max_recv_dtos = attr.max_request_dtos = limits.attr.max_dto_per_ep;
	ck_dat(try_ep(limits.evd, limits.evd, &attr, &ep));
	limits_close();
}
END_TEST

/* Reads of many segments take several work requests, but never more than the queues hold. */
START_TEST(split_reads_do_not_exceed_the_largest_queue)
{
	DAT_HANDLE ep;
	DAT_EP_ATTR attr;

	fake_attr()->max_read_wr_sge = 1;
	fake_attr()->max_cqe = 200;
	limits_open();
	attr = limits_ep_attr(1, limits.attr.max_dto_per_ep);
	attr.max_rdma_read_iov = limits.attr.max_iov_segments_per_rdma_read;
	ck_dat(try_ep(limits_evd(1), limits_evd(1), &attr, &ep));
	ck_assert_uint_eq(fake_seen().qp.max_send, 200);
	limits_close();
}
END_TEST

static const struct {
	size_t asked; /* in DAT_EP_ATTR */
	size_t told;  /* in DAT_IA_ATTR */
} counts[] = {
#define ASKED(field) offsetof(DAT_EP_ATTR, field)
	{ ASKED(max_recv_iov), TOLD(max_iov_segments_per_dto) },
	{ ASKED(max_request_iov), TOLD(max_iov_segments_per_dto) },
	{ ASKED(max_rdma_read_iov), TOLD(max_iov_segments_per_rdma_read) },
	{ ASKED(max_rdma_write_iov), TOLD(max_iov_segments_per_rdma_write) },
	{ ASKED(max_rdma_read_in), TOLD(max_rdma_read_per_ep_in) },
	{ ASKED(max_rdma_read_out), TOLD(max_rdma_read_per_ep_out) },
};

START_TEST(an_endpoint_can_have_the_counts_that_are_told)
{
	DAT_HANDLE ep;
	DAT_EP_ATTR attr;
	DAT_COUNT told;

	fake_attr()->max_sge = 9;
	fake_attr()->max_read_sge = 7;
	fake_attr()->max_read_wr_sge = 2;
	fake_attr()->max_read_in = 5;
	fake_attr()->max_read_out = 3;
	limits_open();
	attr = limits_ep_attr(1, 1);
	memcpy(&told, (char *)&limits.attr + counts[_i].told, sizeof(told));
	memcpy((char *)&attr + counts[_i].asked, &told, sizeof(told));
	ck_dat(try_ep(limits.evd, limits.evd, &attr, &ep));
	told++;
	memcpy((char *)&attr + counts[_i].asked, &told, sizeof(told));
	ck_dat_is(try_ep(limits.evd, limits.evd, &attr, &ep), BAD_ARG(6));
	limits_close();
}
END_TEST

/* ---- many endpoints on one EVD ---- */

START_TEST(an_evd_serves_as_many_endpoints_as_the_largest_queue_holds)
{
	const unsigned max_cqe = 500, fit = max_cqe / DEFAULT_DEPTH;
	DAT_HANDLE eps[14], ep = POISON;

	ck_assert_uint_eq(fit, COUNT(eps) - 1);
	fake_attr()->max_cqe = max_cqe;
	limits_open();
	for (unsigned n = 0; n < fit; n++) {
		ck_dat(make_ep(&eps[n]));
		ck_assert_uint_ge(tp_cq_depth(cq_of_evd(limits.evd)), (n + 1) * DEFAULT_DEPTH);
		ck_assert_uint_le(tp_cq_depth(cq_of_evd(limits.evd)), max_cqe);
	}
	ck_dat_is(make_ep(&ep), NO_RESOURCE(TEVD));
	ck_assert_ptr_eq(ep, POISON);
	expect_line("504 entries is needed, and the device's largest has 500");
	/* what one gives back another gets */
	ck_dat(ep_free(eps[0]));
	ck_dat(make_ep(&eps[0]));
	ck_dat_is(make_ep(&ep), NO_RESOURCE(TEVD));
	limits_close();
}
END_TEST

/* The last doubling is cut to the limit, so the rest needs no system call. */
START_TEST(a_queue_that_grows_stays_below_the_limit)
{
	DAT_HANDLE ep;

	fake_attr()->max_cqe = 500;
	limits_open();
	for (unsigned n = 0; n < 500 / DEFAULT_DEPTH; n++)
		ck_dat(make_ep(&ep));
	ck_assert_uint_eq(tp_cq_depth(cq_of_evd(limits.evd)), 500);
	/* 36, 72, 144, 288, 500 */
	ck_assert_uint_eq(fake_calls("cq_resize"), 5);
	limits_close();
}
END_TEST

START_TEST(a_queue_that_can_not_be_doubled_grows_as_needed)
{
	DAT_HANDLE ep, other;

	limits_open();
	for (unsigned n = 0; n < 2; n++)
		ck_dat(make_ep(&ep));
	ck_assert_uint_eq(tp_cq_depth(cq_of_evd(limits.evd)), 2 * DEFAULT_DEPTH);
	other = limits_evd(100);
	fake_fail("cq_resize", ENOMEM, 1);
	ck_dat(try_ep(limits.evd, other, NULL, &ep));
	ck_assert_uint_eq(tp_cq_depth(cq_of_evd(limits.evd)),
			  2 * DEFAULT_DEPTH + DEFAULT_DEPTH / 2);
	limits_close();
}
END_TEST

/* ---- a device that can't resize a queue ---- */

static void limits_open_fixed(void)
{
	fake_attr()->caps &= ~(unsigned)TP_CAP_CQ_RESIZE;
	limits_open();
}

START_TEST(a_fixed_queue_serves_what_it_was_made_for)
{
	const unsigned fit = 4096 / DEFAULT_DEPTH;
	DAT_HANDLE ep = POISON;

	limits_open_fixed();
	for (unsigned n = 0; n < fit; n++)
		ck_dat(make_ep(&ep));
	ep = POISON;
	ck_dat_is(make_ep(&ep), NO_RESOURCE(TEVD));
	ck_assert_ptr_eq(ep, POISON);
	expect_line("this one has 4096, and the device can't resize it");
	ck_assert_uint_eq(fake_calls("cq_resize"), 0);
	limits_close();
}
END_TEST

START_TEST(evd_resize_of_a_fixed_queue_stays_within_its_entries)
{
	limits_open_fixed();
	ck_dat(evd_resize(limits.evd, 4096));
	ck_assert_int_eq(((struct evd *)limits.evd)->qlen, 4096);
	ck_dat_is(evd_resize(limits.evd, 4097), NO_RESOURCE(TEVD));
	ck_assert_int_eq(((struct evd *)limits.evd)->qlen, 4096);
	ck_dat(evd_resize(limits.evd, 1));
	limits_close();
}
END_TEST

START_TEST(a_fixed_queue_is_smaller_if_there_is_no_memory)
{
	DAT_EVD_HANDLE evd;

	limits_open_fixed();
	fake_fail("cq_create", ENOMEM, 1);
	evd = limits_evd(8);
	ck_assert_uint_eq(tp_cq_depth(cq_of_evd(evd)), 8);
	limits_close();
}
END_TEST

/* ---- what the device refuses although its limits allow it ---- */

static DAT_RETURN resize_evd(DAT_HANDLE *handle)
{
	(void)handle;
	return evd_resize(limits.evd, 100);
}

static const struct {
	const char *call;
	DAT_RETURN (*make)(DAT_HANDLE *handle);
	DAT_RETURN want;
} makers[] = {
	{ "pd_create", make_pz, NO_RESOURCE(PROTECTION_DOMAIN) },
	{ "cq_create", make_evd, NO_RESOURCE(TEVD) },
	{ "cq_resize", resize_evd, NO_RESOURCE(TEVD) },
	{ "cq_resize", make_ep, NO_RESOURCE(TEVD) },
	{ "qp_create", make_ep, NO_RESOURCE(TEP) },
	{ "mw_create", make_rmr, NO_RESOURCE(MEMORY_REGION) },
};

static const struct {
	int err;
	const char *text;
} refusals[] = {
	{ EINVAL, "Invalid argument" },
	{ ENOMEM, "Cannot allocate memory" },
	{ EOPNOTSUPP, "Operation not supported" },
	{ ENOSYS, "Function not implemented" },
};

START_TEST(what_the_device_refuses_is_named)
{
	const int maker = _i / COUNT(refusals), refusal = _i % COUNT(refusals);
	DAT_HANDLE handle = POISON;
	unsigned alive;

	limits_open();
	alive = fake_alive(FAKE_ANY);
	fake_fail(makers[maker].call, refusals[refusal].err, 1);
	ck_dat_is(makers[maker].make(&handle), makers[maker].want);
	ck_assert_ptr_eq(handle, POISON);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), alive);
	if (strncmp(makers[maker].call, "cq_", 3) == 0)
		expect_line(refusals[refusal].text);
	limits_close();
}
END_TEST

/* ---- descriptors ---- */

/* Too few: an IA has two, and the fake one for the device. */
START_TEST(an_open_without_descriptors_names_their_limit)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia = POISON;
	DAT_RETURN ret;

	limits_open();
	limit_descriptors((unsigned)_i);
	ret = ia_open("fake0", 8, &async, &ia);
	limit_descriptors(20);
	ck_dat_is(ret, _i < 2 ? NO_RESOURCE(ERROR_HANDLER) : NO_RESOURCE(DEVICE));
	ck_assert_ptr_null(ia);
	ck_assert_ptr_null(async);
	expect_line("ulimit -n");
	limits_close();
}
END_TEST

/* The transport need not say that it was for want of descriptors. */
START_TEST(an_open_that_finds_no_device_for_want_of_descriptors_says_so)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;
	DAT_RETURN ret;

	limits_open();
	fake_fail("dev_open", ENOENT, 1);
	limit_descriptors(2);
	ret = ia_open("fake0", 8, &async, &ia);
	limit_descriptors(100);
	ck_dat_is(ret, NO_RESOURCE(DEVICE));
	expect_line("ulimit -n");
	fake_fail("dev_open", ENOENT, 1);
	ck_dat_is(ia_open("fake0", 8, &async, &ia), DAT_ERROR(DAT_INVALID_ADDRESS, 0));
	limits_close();
}
END_TEST

/* A completion queue has one, and a thread that sleeps. */
START_TEST(a_call_without_descriptors_names_their_limit)
{
	DAT_EVD_HANDLE evd = POISON;
	DAT_CNO_HANDLE cno;
	DAT_EVENT event;
	DAT_COUNT nmore;
	DAT_RETURN ret;

	limits_open();
	ck_dat(cno_create(limits.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	limit_descriptors(0);
	if (_i == 0)
		ret = evd_create(limits.ia, 4, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd);
	else if (_i == 1)
		ret = evd_wait(limits.evd, SECONDS(1), 1, &event, &nmore);
	else
		ret = cno_wait(cno, SECONDS(1), &evd);
	limit_descriptors(20);
	ck_dat_is(ret, _i < 2 ? NO_RESOURCE(TEVD) : NO_RESOURCE(MEMORY));
	ck_assert_ptr_eq(evd, POISON);
	expect_line("ulimit -n");
	limits_close();
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("limits");

	tcase_add_loop_test(cases, as_many_objects_as_are_told_can_be_made, 0, COUNT(objects));
	tcase_add_loop_test(cases, an_evd_can_be_as_long_as_is_told, 0, COUNT(devices));
	tcase_add_loop_test(cases, an_endpoint_can_have_as_many_transfers_as_are_told, 0,
			    COUNT(devices));
	tcase_add_loop_test(cases, both_directions_fit_into_an_evd_of_the_told_length, 0,
			    COUNT(devices));
	tcase_add_test(cases, split_reads_do_not_exceed_the_largest_queue);
	tcase_add_loop_test(cases, an_endpoint_can_have_the_counts_that_are_told, 0, COUNT(counts));
	tcase_add_test(cases, an_evd_serves_as_many_endpoints_as_the_largest_queue_holds);
	tcase_add_test(cases, a_queue_that_grows_stays_below_the_limit);
	tcase_add_test(cases, a_queue_that_can_not_be_doubled_grows_as_needed);
	tcase_add_test(cases, a_fixed_queue_serves_what_it_was_made_for);
	tcase_add_test(cases, evd_resize_of_a_fixed_queue_stays_within_its_entries);
	tcase_add_test(cases, a_fixed_queue_is_smaller_if_there_is_no_memory);
	tcase_add_loop_test(cases, what_the_device_refuses_is_named, 0,
			    COUNT(makers) * COUNT(refusals));
	tcase_add_loop_test(cases, an_open_without_descriptors_names_their_limit, 0, 3);
	tcase_add_test(cases, an_open_that_finds_no_device_for_want_of_descriptors_says_so);
	tcase_add_loop_test(cases, a_call_without_descriptors_names_their_limit, 0, 3);
	return run_unit_cases(argc, argv);
}
