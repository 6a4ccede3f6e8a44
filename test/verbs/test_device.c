/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * device.c: each failure of an open, the attributes and quirks that are read from a device, the
 * settings that are read from the environment.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../unit/alloc.h"
#include "verbs_test.h"

/* The attributes of an open device, after which it is closed. */
static struct tp_attr attr_of_open(void)
{
	struct tp_dev *dev = dev_open();
	struct tp_attr attr = *tp_dev_attr(dev);

	dev_close(dev);
	return attr;
}

/* ---- open and close ---- */

START_TEST(an_open_device_leaves_nothing)
{
	struct tp_dev *dev = dev_open();
	int fds[TP_DEV_FDS];

	ck_assert_str_eq(tp_dev_attr(dev)->device, "fv0");
	ck_assert_uint_eq(fv_alive(FV_CONTEXT), 1);
	ck_assert_uint_eq(fv_alive(FV_EVENT_CHANNEL), 1);
	ck_assert_uint_eq(fv_alive(FV_PD) + fv_alive(FV_CQ) + fv_alive(FV_MW), 0);
	ck_assert_uint_eq(tp_dev_fds(dev, fds), TP_DEV_FDS);
	for (unsigned n = 0; n < TP_DEV_FDS; n++) {
		ck_assert_int_ne(fcntl(fds[n], F_GETFD) & FD_CLOEXEC, 0);
		ck_assert_int_ne(fcntl(fds[n], F_GETFL) & O_NONBLOCK, 0);
	}
	tp_dev_progress(dev, UINT_MAX); /* there is nothing to do */
	dev_close(dev);
}
END_TEST

static const struct {
	const char *call;
	int err;
	unsigned nth;
	int want;
	const char *text; /* of the log */
} open_failures[] = {
	{ "ibv_get_device_list", ENOSYS, 1, -ENODEV, "" },
	{ "rdma_create_event_channel", ENOMEM, 1, -ENOMEM, "rdma_create_event_channel" },
	{ "ibv_open_device", EPERM, 1, -EPERM, "ibv_open_device of device fv0 port 1" },
	{ "ibv_open_device", FV_NO_ERRNO, 1, -EIO, "ibv_open_device of device fv0 port 1" },
	{ "ibv_query_device", EIO, 1, -EIO, "ibv_query_device of device fv0 port 1" },
	{ "ibv_query_port", EIO, 1, -EIO, "ibv_query_port of device fv0 port 1" },
	{ "fcntl", EINVAL, 1, -EINVAL, "descriptors of device fv0: Invalid argument" },
};

START_TEST(a_failed_open_is_reported_and_leaves_nothing)
{
	struct tp_dev *dev = NULL;

	fv_log_capture();
	errno = 0;
	fv_fail(open_failures[_i].call, open_failures[_i].err, open_failures[_i].nth);
	ck_assert_int_eq(tp_dev_open("fveth0 0", up_ia(), &dev), open_failures[_i].want);
	ck_assert_ptr_null(dev);
	ck_assert_uint_eq(fv_alive(FV_KINDS), 0);
	ck_assert_ptr_nonnull(strstr(fv_log(), open_failures[_i].text));
	dev_close(dev_open());
}
END_TEST

START_TEST(an_open_without_descriptor_flags_leaves_nothing)
{
	struct tp_dev *dev;
	unsigned before, calls;

	before = fv_calls("fcntl");
	dev_close(dev_open());
	calls = fv_calls("fcntl") - before;
	ck_assert_uint_gt(calls, 0);
	for (unsigned n = 1; n <= calls; n++) {
		fv_fail("fcntl", EINVAL, n);
		ck_assert_int_eq(tp_dev_open("fveth0 0", up_ia(), &dev), -EINVAL);
		ck_assert_uint_eq(fv_alive(FV_KINDS), 0);
	}
}
END_TEST

START_TEST(an_open_without_memory_leaves_nothing)
{
	struct tp_dev *dev;
	int err;

	alloc_fail_nth(1);
	err = tp_dev_open("fveth0 0", up_ia(), &dev);
	ck_assert(alloc_failed());
	ck_assert_int_eq(err, -ENOMEM);
	ck_assert_uint_eq(fv_alive(FV_KINDS), 0);
}
END_TEST

/* ---- attributes ---- */

static const struct limit {
	size_t from; /* in ibv_device_attr, an int */
	int has;
	size_t to; /* in tp_attr, an unsigned */
	unsigned want;
} limits[] = {
#define FROM(field) offsetof(struct ibv_device_attr, field)
#define TO(field)   offsetof(struct tp_attr, field)
	{ FROM(max_qp), 77, TO(max_qp), 77 },
	{ FROM(max_qp), -1, TO(max_qp), INT_MAX }, /* more than an int holds */
	{ FROM(max_qp_wr), 77, TO(max_qp_wr), 77 },
	{ FROM(max_cq), 77, TO(max_cq), 77 },
	{ FROM(max_cqe), 77, TO(max_cqe), 77 },
	{ FROM(max_cqe), -1, TO(max_cqe), INT_MAX },
	{ FROM(max_mr), 77, TO(max_mr), 77 },
	{ FROM(max_pd), 77, TO(max_pd), 77 },
	{ FROM(max_mw), 77, TO(max_mw), 77 },
	{ FROM(max_sge), 7, TO(max_sge), 7 },
	{ FROM(max_sge), 77, TO(max_sge), TP_MAX_SGE },
	{ FROM(max_sge_rd), 7, TO(max_read_sge), 7 },
	{ FROM(max_sge_rd), 0, TO(max_read_sge), 30 }, /* it says nothing about reads */
	{ FROM(max_sge_rd), 77, TO(max_read_wr_sge), 30 },
	{ FROM(max_qp_rd_atom), 7, TO(max_read_in), 7 },
	{ FROM(max_qp_rd_atom), 777, TO(max_read_in), UINT8_MAX },
	{ FROM(max_qp_init_rd_atom), 7, TO(max_read_out), 7 },
	{ FROM(max_qp_init_rd_atom), -1, TO(max_read_out), UINT8_MAX },
	{ FROM(max_res_rd_atom), 77, TO(max_read_in_total), 77 },
	{ FROM(hw_ver), 9, TO(hw_version), 9 },
};

START_TEST(a_limit_is_the_device_s)
{
	const struct limit *limit = &limits[_i];
	struct tp_attr attr;
	unsigned got;

	memcpy((char *)&fv_device(0)->attr + limit->from, &limit->has, sizeof(limit->has));
	attr = attr_of_open();
	memcpy(&got, (char *)&attr + limit->to, sizeof(got));
	ck_assert_uint_eq(got, limit->want);
}
END_TEST

START_TEST(an_iwarp_device_reads_into_one_segment)
{
	struct tp_attr attr;

	fv_make_iwarp(0);
	fv_device(0)->attr.max_sge_rd = 0;
	attr = attr_of_open();
	ck_assert_uint_eq(attr.max_read_wr_sge, 1);
	ck_assert_uint_eq(attr.max_read_sge, 30);
	ck_assert_uint_eq(attr.max_request_pdata, 251);
	ck_assert_uint_eq(attr.max_reply_pdata, 251);
	ck_assert_uint_eq(attr.caps, TP_CAP_CQ_RESIZE | TP_CAP_READ_NEEDS_WRITE |
					     TP_CAP_WRITE_IS_LOCAL | TP_CAP_ORDERED_READS);
}
END_TEST

START_TEST(private_data_have_the_room_of_their_transport)
{
	struct tp_attr attr;

	if (_i)
		fv_make_iwarp(0);
	attr = attr_of_open();
	ck_assert_uint_eq(attr.max_request_pdata, _i ? 251 : 56);
	ck_assert_uint_eq(attr.max_reply_pdata, _i ? 251 : 196);
	ck_assert_uint_eq(attr.max_reject_pdata, _i ? 247 : 144);
}
END_TEST

START_TEST(an_infiniband_device_has_no_peculiarities)
{
	struct tp_attr attr = attr_of_open();

	ck_assert_uint_eq(attr.max_request_pdata, 56);
	ck_assert_uint_eq(attr.max_reply_pdata, 196);
	ck_assert_uint_eq(attr.caps, TP_CAP_CQ_RESIZE);
	ck_assert_uint_eq(attr.max_mr_size, UINT64_MAX);
	ck_assert_uint_eq(attr.max_message, 1u << 30);
}
END_TEST

START_TEST(a_port_without_a_message_size_has_2_gigabytes)
{
	fv_device(0)->port.max_msg_sz = 0;
	ck_assert_uint_eq(attr_of_open().max_message, 1u << 31);
}
END_TEST

static const struct {
	const char *text;
	unsigned major, minor;
	bool understood;
} versions[] = {
	{ "16.35.2000", 16, 35, true },
	{ "7", 7, 0, true },
	{ "T5.x", 0, 0, false },
	{ "", 0, 0, false },
};

START_TEST(a_firmware_version_is_two_numbers)
{
	struct tp_attr attr;

	snprintf(fv_device(0)->attr.fw_ver, sizeof(fv_device(0)->attr.fw_ver), "%s",
		 versions[_i].text);
	fv_log_capture();
	attr = attr_of_open();
	ck_assert_uint_eq(attr.fw_major, versions[_i].major);
	ck_assert_uint_eq(attr.fw_minor, versions[_i].minor);
	ck_assert_int_eq(!strstr(fv_log(), "not of the form major.minor"), versions[_i].understood);
}
END_TEST

/* ---- vendors ---- */

static const struct {
	uint32_t id;
	const char *name;
	unsigned caps; /* beside TP_CAP_CQ_RESIZE */
	/* armed for errors: queues of receives and of requests */
	enum fv_armed recv, send;
} vendors[] = {
	{ 0x000000, "soft RoCE", 0, FV_ARMED_SOLICITED, FV_ARMED_ANY },
	{ 0xffffff, "soft RoCE", 0, FV_ARMED_SOLICITED, FV_ARMED_ANY },
	{ 0x626d74, "soft iWARP", TP_CAP_LOSES_READS | TP_CAP_UNCANCELLED_POSTS, FV_ARMED_ANY,
	  FV_ARMED_ANY },
	{ 0x0002c9, "Mellanox", 0, FV_ARMED_SOLICITED, FV_ARMED_SOLICITED },
	{ 0x0014e4, "Broadcom", 0, FV_ARMED_SOLICITED, FV_ARMED_SOLICITED },
	/* of others nothing is known */
	{ 0x123456, "vendor 0x123456", 0, FV_ARMED_SOLICITED, FV_ARMED_ANY },
};

START_TEST(a_device_has_the_quirks_of_its_vendor)
{
	const struct tp_attr *attr;
	struct rig rig = { 0 };

	fv_device(0)->attr.vendor_id = vendors[_i].id;
	rig_open(&rig);
	attr = tp_dev_attr(rig.dev);
	ck_assert_str_eq(attr->vendor, vendors[_i].name);
	ck_assert_uint_eq(attr->caps, TP_CAP_CQ_RESIZE | vendors[_i].caps);
	ck_assert_int_eq(tp_cq_arm(rig.send_cq, TP_ARM_ERRORS), 0);
	ck_assert_int_eq(tp_cq_arm(rig.recv_cq, TP_ARM_ERRORS), 0);
	ck_assert_int_eq(fv_armed(rig.send_cq->ibv), vendors[_i].send);
	ck_assert_int_eq(fv_armed(rig.recv_cq->ibv), vendors[_i].recv);
	rig_close(&rig);
}
END_TEST

/* The device keeps failures to itself as far as its vendor may. */
START_TEST(a_failed_request_is_told_whatever_the_device_misses)
{
	struct rig rig = { 0 };
	struct tp_wc wc;

	fv_device(0)->attr.vendor_id = vendors[_i].id;
	if (vendors[_i].send == FV_ARMED_ANY)
		fv_device(0)->quirks = FV_MISSES_ERRORS;
	rig_open(&rig);
	ck_assert_int_eq(tp_cq_arm(rig.send_cq, TP_ARM_ERRORS), 0);
	ck_assert_int_eq(tp_post_marker(rig.qp, &rig), 0);
	fv_complete_send(rig.qp->ibv, IBV_WC_RETRY_EXC_ERR);
	ck_assert(tp_cq_events(rig.send_cq));
	ck_assert_uint_eq(tp_cq_poll(rig.send_cq, &wc, 1), 1);
	ck_assert_int_eq(wc.status, DAT_DTO_ERR_TRANSPORT);
	rig_close(&rig);
}
END_TEST

/* ---- asynchronous events ---- */

static const struct {
	enum ibv_event_type type;
	enum up_kind want;
	bool other_port;
} async_rows[] = {
	{ IBV_EVENT_QP_FATAL, UP_QP_BROKEN, false },
	{ IBV_EVENT_QP_REQ_ERR, UP_QP_BROKEN, false },
	{ IBV_EVENT_QP_ACCESS_ERR, UP_QP_BROKEN, false },
	{ IBV_EVENT_CQ_ERR, UP_CQ_OVERRUN, false },
	{ IBV_EVENT_PORT_ERR, UP_PORT_DOWN, false },
	{ IBV_EVENT_PORT_ERR, UP_NONE, true },
	{ IBV_EVENT_DEVICE_FATAL, UP_DEV_FATAL, false },
	{ IBV_EVENT_COMM_EST, UP_NONE, false }, /* there is no connection */
	{ IBV_EVENT_SQ_DRAINED, UP_NONE, false },
	{ IBV_EVENT_PORT_ACTIVE, UP_NONE, false },
	{ IBV_EVENT_LID_CHANGE, UP_NONE, false },
	{ IBV_EVENT_PKEY_CHANGE, UP_NONE, false },
	{ IBV_EVENT_GID_CHANGE, UP_NONE, false },
	{ IBV_EVENT_SM_CHANGE, UP_NONE, false },
};

static struct ibv_async_event async_event_of(const struct rig *rig, int row)
{
	struct ibv_async_event event = { .event_type = async_rows[row].type };

	if (event.event_type == IBV_EVENT_CQ_ERR)
		event.element.cq = rig->send_cq->ibv;
	else if (event.event_type <= IBV_EVENT_PATH_MIG_ERR)
		event.element.qp = rig->qp->ibv;
	else
		event.element.port_num = async_rows[row].other_port ? 2 : 1;
	return event;
}

START_TEST(an_asynchronous_event_reaches_the_object_that_it_is_about)
{
	struct rig rig = { 0 };
	struct ibv_async_event event;
	const void *about;

	rig_open(&rig);
	switch (async_rows[_i].want) {
	case UP_NONE:
		about = NULL;
		break;
	case UP_QP_BROKEN:
		about = up_ep(0);
		break;
	case UP_CQ_OVERRUN:
		about = up_evd(0);
		break;
	default:
		about = up_ia();
	}
	event = async_event_of(&rig, _i);
	fv_async_event(0, &event);
	rig_progress(&rig);
	upcall_is(async_rows[_i].want, about);
	no_upcall();
	ck_assert_uint_eq(fv_alive(FV_ASYNC_EVENT), 0); /* acknowledged */
	rig_close(&rig);
}
END_TEST

START_TEST(an_event_about_what_the_core_has_destroyed_is_dropped)
{
	struct rig rig = { 0 };
	struct ibv_async_event event = { .event_type = IBV_EVENT_CQ_ERR };

	rig_open(&rig);
	event.element.cq = rig.send_cq->ibv;
	tp_cq_destroy(rig.send_cq); /* the queue pair holds it */
	rig.send_cq = NULL;
	fv_async_event(0, &event);
	rig_progress(&rig);
	no_upcall();
	rig_close(&rig);
}
END_TEST

/* ---- what is tried ---- */

static const struct {
	const char *why;
	unsigned flags, quirks;
	const char *fails;
	unsigned want;
} windows[] = {
	{ "it has windows", IBV_DEVICE_MEM_WINDOW, 0, NULL, 1 << 16 },
	{ "only of type 2", IBV_DEVICE_MEM_WINDOW_TYPE_2B, 0, NULL, 0 },
	{ "advertised only", IBV_DEVICE_MEM_WINDOW, FV_NO_WINDOWS, NULL, 0 },
	{ "not of type 1", IBV_DEVICE_MEM_WINDOW, FV_NO_TYPE_1, NULL, 0 },
	{ "none is left", IBV_DEVICE_MEM_WINDOW, 0, "ibv_alloc_mw", 0 },
	{ "no domain is left", IBV_DEVICE_MEM_WINDOW, 0, "ibv_alloc_pd", 0 },
};

START_TEST(windows_are_told_if_one_can_be_made)
{
	fv_device(0)->attr.device_cap_flags = windows[_i].flags;
	fv_device(0)->quirks = windows[_i].quirks;
	if (windows[_i].fails)
		fv_fail(windows[_i].fails, ENOMEM, 1);
	ck_assert_msg(attr_of_open().max_mw == windows[_i].want, "%s", windows[_i].why);
}
END_TEST

START_TEST(resizing_is_told_if_it_works)
{
	fv_device(0)->quirks = FV_NO_RESIZE;
	ck_assert_uint_eq(attr_of_open().caps, 0);
	fv_device(0)->quirks = 0;
	fv_fail("ibv_create_cq", ENOMEM, 1);
	ck_assert_uint_eq(attr_of_open().caps, 0);
	ck_assert_uint_eq(attr_of_open().caps, TP_CAP_CQ_RESIZE);
}
END_TEST

/* ---- the environment ---- */

static const struct {
	const char *name, *text;
	size_t to; /* in tp_env */
	unsigned want;
	bool warns;
} variables[] = {
#define ENV(field) offsetof(struct tp_env, field)
	{ "DAPL_MAX_INLINE", "128", ENV(max_inline), 128, false },
	{ "DAPL_MAX_INLINE", "0", ENV(max_inline), 0, false },
	{ "DAPL_MAX_INLINE", "0x40", ENV(max_inline), 64, false },
	{ "DAPL_MAX_INLINE", "65537", ENV(max_inline), 200, true },
	{ "DAPL_MAX_INLINE", "-1", ENV(max_inline), 200, true },
	{ "DAPL_MAX_INLINE", "64k", ENV(max_inline), 200, true },
	{ "DAPL_MAX_INLINE", "", ENV(max_inline), 200, false },
	{ "DAPL_ACK_TIMER", "20", ENV(ack_timer), 20, false },
	{ "DAPL_ACK_TIMER", "32", ENV(ack_timer), TP_ENV_UNSET, true },
	{ "DAPL_ACK_RETRY", "7", ENV(ack_retry), 7, false },
	{ "DAPL_ACK_RETRY", "8", ENV(ack_retry), 6, true },
	{ "DAPL_RNR_TIMER", "010", ENV(rnr_timer), 8, false },
	{ "DAPL_RNR_RETRY", "6", ENV(rnr_retry), 6, false },
	{ "DAPL_RNR_RETRY", "8", ENV(rnr_retry), TP_RNR_RETRY_NO_LIMIT, true },
	{ "DAPL_IB_SL", "16", ENV(service_level), TP_ENV_UNSET, true },
	{ "DAPL_TCLASS", "256", ENV(traffic_class), TP_ENV_UNSET, true },
	{ "DAPL_HOP_LIMIT", "0", ENV(hop_limit), TP_ENV_UNSET, true },
	{ "DAPL_CM_TOS", "high", ENV(tos), TP_ENV_UNSET, true },
	{ "DAPL_WR_MAX", "0", ENV(wr_max), INT_MAX, true },
	{ "DAPL_LMR_ODP", "1", ENV(on_demand), 1, false },
	{ "DAPL_LMR_ODP", "2", ENV(on_demand), 0, true },
	{ "DAPL_CM_ARP_TIMEOUT_MS", "10", ENV(arp_timeout), 10, false },
	{ "DAPL_CM_ARP_RETRY_COUNT", "3", ENV(arp_retry), 3, false },
	{ "DAPL_CM_ROUTE_TIMEOUT_MS", "11", ENV(route_timeout), 11, false },
	{ "DAPL_CM_ROUTE_RETRY_COUNT", "4", ENV(route_retry), 4, false },
};

START_TEST(a_setting_is_a_number_within_its_range)
{
	struct tp_dev *dev;
	unsigned got;

	fv_log_capture();
	setenv(variables[_i].name, variables[_i].text, 1);
	dev = dev_open();
	memcpy(&got, (char *)&dev->env + variables[_i].to, sizeof(got));
	ck_assert_uint_eq(got, variables[_i].want);
	ck_assert_int_eq(strstr(fv_log(), "is ignored: not a number from ") != NULL,
			 variables[_i].warns);
	dev_close(dev);
}
END_TEST

START_TEST(iwarp_sends_less_inline)
{
	struct tp_dev *dev;

	fv_make_iwarp(0);
	dev = dev_open();
	ck_assert_uint_eq(dev->env.max_inline, 64);
	dev_close(dev);
}
END_TEST

static const struct {
	const char *value;
	uint32_t vendor_id;
	bool warns;
} single_threaded[] = {
	{ "1", 0x02c9, true },	 { "1", 0x15b3, true },	 { "0", 0x02c9, false },
	{ NULL, 0x02c9, false }, { "1", 0x14e4, false },
};

START_TEST(a_library_without_locks_is_reported_once)
{
	const char *line = "MLX5_SINGLE_THREADED=1 is unsafe", *found;

	unsetenv("MLX5_SINGLE_THREADED");
	if (single_threaded[_i].value)
		setenv("MLX5_SINGLE_THREADED", single_threaded[_i].value, 1);
	fv_device(0)->attr.vendor_id = single_threaded[_i].vendor_id;
	fv_log_capture();
	dev_close(dev_open());
	dev_close(dev_open());
	found = strstr(fv_log(), line);
	ck_assert_int_eq(found != NULL, single_threaded[_i].warns);
	if (found)
		ck_assert_ptr_null(strstr(found + 1, line));
}
END_TEST

/* ---- once in a process ---- */

START_TEST(fork_support_is_asked_for_where_it_is_needed)
{
	if (_i)
		fv_fail("ibv_is_fork_initialized", -IBV_FORK_UNNEEDED, 1);
	dev_close(dev_open());
	dev_close(dev_open());
	ck_assert_uint_eq(fv_calls("ibv_fork_init"), _i ? 0 : 1);
}
END_TEST

START_TEST(fork_support_that_fails_is_reported)
{
	fv_log_capture();
	fv_fail("ibv_fork_init", ENOSYS, 1);
	dev_close(dev_open());
	ck_assert_ptr_nonnull(strstr(fv_log(), "ibv_fork_init: Function not implemented"));
}
END_TEST

static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

	ck_assert_int_eq(syscall(SYS_capset, &header, none), 0);
}

static const struct {
	rlim_t soft, hard;
	bool privileged;
	const char *text; /* NULL: no warning */
} memlocks[] = {
	{ 64 << 10, 64 << 10, false, "soft limit 64 KiB, hard limit 64 KiB" },
	{ 64 << 10, RLIM_INFINITY, false, "soft limit 64 KiB, hard limit unlimited" },
	{ 64 << 10, RLIM_INFINITY, true, NULL },
	{ 4 << 20, RLIM_INFINITY, false, NULL },
};

START_TEST(a_low_limit_of_locked_memory_is_reported)
{
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
	limit.rlim_cur = memlocks[_i].soft;
	if (setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){ memlocks[_i].soft, memlocks[_i].hard }))
		ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0); /* no right to raise it */
	else
		limit.rlim_max = memlocks[_i].hard;
	if (!memlocks[_i].privileged)
		drop_capabilities();
	else if (geteuid() != 0)
		return; /* this process can't have the privilege */
	fv_log_capture();
	dev_close(dev_open());
	if (!memlocks[_i].text)
		ck_assert_ptr_null(strstr(fv_log(), "RLIMIT_MEMLOCK"));
	else if (limit.rlim_max == memlocks[_i].hard)
		ck_assert_ptr_nonnull(strstr(fv_log(), memlocks[_i].text));
}
END_TEST

#define ROWS(array) ((int)ARRAY_SIZE(array))

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("device");

	case_fixture(NULL, verbs_begin, NULL);
	tcase_add_test(cases, an_open_device_leaves_nothing);
	tcase_add_loop_test(cases, a_failed_open_is_reported_and_leaves_nothing, 0,
			    ROWS(open_failures));
	tcase_add_test(cases, an_open_without_descriptor_flags_leaves_nothing);
	tcase_add_test(cases, an_open_without_memory_leaves_nothing);
	tcase_add_loop_test(cases, a_limit_is_the_device_s, 0, ROWS(limits));
	tcase_add_test(cases, an_iwarp_device_reads_into_one_segment);
	tcase_add_loop_test(cases, private_data_have_the_room_of_their_transport, 0, 2);
	tcase_add_test(cases, an_infiniband_device_has_no_peculiarities);
	tcase_add_test(cases, a_port_without_a_message_size_has_2_gigabytes);
	tcase_add_loop_test(cases, a_firmware_version_is_two_numbers, 0, ROWS(versions));
	tcase_add_loop_test(cases, a_device_has_the_quirks_of_its_vendor, 0, ROWS(vendors));
	tcase_add_loop_test(cases, a_failed_request_is_told_whatever_the_device_misses, 0,
			    ROWS(vendors));
	tcase_add_loop_test(cases, an_asynchronous_event_reaches_the_object_that_it_is_about, 0,
			    ROWS(async_rows));
	tcase_add_test(cases, an_event_about_what_the_core_has_destroyed_is_dropped);
	tcase_add_loop_test(cases, windows_are_told_if_one_can_be_made, 0, ROWS(windows));
	tcase_add_test(cases, resizing_is_told_if_it_works);
	tcase_add_loop_test(cases, a_setting_is_a_number_within_its_range, 0, ROWS(variables));
	tcase_add_test(cases, iwarp_sends_less_inline);
	tcase_add_loop_test(cases, a_library_without_locks_is_reported_once, 0,
			    ROWS(single_threaded));
	tcase_add_loop_test(cases, fork_support_is_asked_for_where_it_is_needed, 0, 2);
	tcase_add_test(cases, fork_support_that_fails_is_reported);
	tcase_add_loop_test(cases, a_low_limit_of_locked_memory_is_reported, 0, ROWS(memlocks));
	return run_cases(argc, argv);
}
