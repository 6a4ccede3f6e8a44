/* SPDX-License-Identifier: BSD-2-Clause */
/* Settings from environment variables: what reaches librdmacm and the device, and what can't. */
#include <stddef.h>
#include <stdlib.h>

#include "conn.h"

/* Where a value is seen, in the arguments of calls. */
enum seen_at {
	SEEN_RTR_SL,
	SEEN_RTR_TRAFFIC_CLASS,
	SEEN_RTR_HOP_LIMIT,
	SEEN_RTR_RNR_TIMER,
	SEEN_RTS_RNR_RETRY,
	SEEN_RTS_RETRY,
	SEEN_RTS_TIMEOUT,
	SEEN_TOS,
};

static unsigned seen_at(enum seen_at where)
{
	const struct fv_seen seen = fv_seen();
	const struct ibv_qp_attr *rtr = &seen.modified[IBV_QPS_RTR].attr;
	const struct ibv_qp_attr *rts = &seen.modified[IBV_QPS_RTS].attr;

	switch (where) {
	case SEEN_RTR_SL:
		return rtr->ah_attr.sl;
	case SEEN_RTR_TRAFFIC_CLASS:
		return rtr->ah_attr.grh.traffic_class;
	case SEEN_RTR_HOP_LIMIT:
		return rtr->ah_attr.grh.hop_limit;
	case SEEN_RTR_RNR_TIMER:
		return rtr->min_rnr_timer;
	case SEEN_RTS_RNR_RETRY:
		return rts->rnr_retry;
	case SEEN_RTS_RETRY:
		return rts->retry_cnt;
	case SEEN_RTS_TIMEOUT:
		return rts->timeout;
	default:
		ck_assert_int_eq(seen.option.level, RDMA_OPTION_ID);
		ck_assert_int_eq(seen.option.name, RDMA_OPTION_ID_TOS);
		return seen.option.value;
	}
}

static const struct {
	const char *name, *text;
	enum seen_at where;
	unsigned value;
} settings[] = {
	{ "DAPL_IB_SL", "5", SEEN_RTR_SL, 5 },
	{ "DAPL_IB_SL", "0", SEEN_RTR_SL, 0 },
	{ "DAPL_TCLASS", "0x68", SEEN_RTR_TRAFFIC_CLASS, 0x68 },
	{ "DAPL_HOP_LIMIT", "9", SEEN_RTR_HOP_LIMIT, 9 },
	{ "DAPL_RNR_TIMER", "28", SEEN_RTR_RNR_TIMER, 28 },
	{ "DAPL_RNR_RETRY", "3", SEEN_RTS_RNR_RETRY, 3 },
	{ "DAPL_RNR_RETRY", "0", SEEN_RTS_RNR_RETRY, 0 },
	{ "DAPL_ACK_RETRY", "2", SEEN_RTS_RETRY, 2 },
	{ "DAPL_ACK_TIMER", "23", SEEN_RTS_TIMEOUT, 23 },
	{ "DAPL_CM_TOS", "104", SEEN_TOS, 104 },
};

/* The iteration is a setting and a side. */
START_TEST(a_setting_reaches_each_connection)
{
	const bool passive = _i % 2;
	struct tp_conn *conn;

	setenv(settings[_i / 2].name, settings[_i / 2].text, 1);
	conn_setup();
	conn = conn_at(passive ? AT_ACCEPTED : AT_ESTABLISHED);
	ck_assert_uint_eq(seen_at(settings[_i / 2].where), settings[_i / 2].value);
	if (!passive) /* the peer's queue pair takes it from the request */
		ck_assert_uint_eq(fv_seen().connected.rnr_retry_count,
				  settings[_i / 2].where == SEEN_RTS_RNR_RETRY
					  ? settings[_i / 2].value
					  : TP_RNR_RETRY_NO_LIMIT);
	conn_end(conn);
}
END_TEST

/* A connection takes what librdmacm has found where nothing is set. */
START_TEST(without_settings_the_path_is_librdmacms)
{
	struct tp_conn *conn;

	conn_setup();
	conn = conn_at(AT_ESTABLISHED);
	ck_assert_uint_eq(fv_calls("rdma_set_option"), 0);
	ck_assert_uint_eq(seen_at(SEEN_RTS_RNR_RETRY), TP_RNR_RETRY_NO_LIMIT);
	conn_end(conn);
}
END_TEST

/* A path without a global header has neither a traffic class nor a hop limit. */
START_TEST(a_local_path_stays_local)
{
	const struct tp_env env = { .service_level = 3, .traffic_class = 4, .hop_limit = 5 };
	struct ibv_ah_attr path = { .sl = 1 };

	env_apply_to_path(&env, &path);
	ck_assert_uint_eq(path.sl, 3);
	ck_assert_uint_eq(path.is_global, 0);
	ck_assert_uint_eq(path.grh.traffic_class, 0);
	ck_assert_uint_eq(path.grh.hop_limit, 0);
}
END_TEST

/* An old kernel or an iWARP device may refuse the type of service. */
START_TEST(a_refused_setting_fails_no_connection)
{
	struct tp_conn *conn;

	setenv("DAPL_CM_TOS", "1", 1);
	fv_fail_always("rdma_set_option", ENOSYS);
	fv_log_capture();
	conn_setup();
	conn = conn_at(_i ? AT_ACCEPTED : AT_ESTABLISHED);
	ck_assert_ptr_nonnull(strstr(fv_log(), "DAPL_CM_TOS=1: rdma_set_option: "));
	conn_end(conn);
}
END_TEST

/* A resolution is tried again so often, each time with this time-out, and then has failed. */
static void conn_env_retries(enum place place, enum rdma_cm_event_type failure, int timeout,
			     unsigned retries)
{
	struct tp_conn *conn = conn_at(place);

	for (unsigned i = 0; i < retries; i++) {
		conn_event(conn, failure, -ETIMEDOUT);
		ck_assert_int_eq(fv_seen().resolve_timeout, timeout);
	}
	no_upcall();
	conn_event(conn, failure, -ETIMEDOUT);
	ck_assert_uint_eq(upcall_is(UP_FAILED, up_ep(0)).cause, TP_UNREACHABLE);
	tp_release(conn);
}

static const char *const unsupported[] = {
	"DAPL_IB_MTU",	       "DAPL_IB_PKEY", "DAPL_GLOBAL_ROUTING", "DAPL_MAX_CM_RESPONSE_TIME",
	"DAPL_MAX_CM_RETRIES",
};

START_TEST(a_setting_that_nothing_can_be_done_for_is_named_once)
{
	const char *text;

	setenv(unsupported[_i], "1", 1);
	fv_log_capture();
	conn_setup();
	rig_close(&rig);
	conn_setup();
	text = strstr(fv_log(), unsupported[_i]);
	ck_assert_ptr_nonnull(text);
	ck_assert_ptr_nonnull(strstr(text, "=1 has no effect: "));
	ck_assert_ptr_null(strstr(text + 1, unsupported[_i]));
	conn_end(NULL);
}
END_TEST

/*
 * What job scripts of climate models set for OFED's provider takes effect; what can't is named, and
 * nothing else is.
 */
START_TEST(the_settings_of_job_scripts_take_effect_or_are_named)
{
	static const char *const script[][2] = {
		{ "DAPL_CM_ARP_TIMEOUT_MS", "8000" },
		{ "DAPL_CM_ARP_RETRY_COUNT", "25" },
		{ "DAPL_CM_ROUTE_TIMEOUT_MS", "20000" },
		{ "DAPL_CM_ROUTE_RETRY_COUNT", "15" },
		{ "DAPL_ACK_TIMER", "23" },
		{ "DAPL_MAX_CM_RESPONSE_TIME", "20" },
	};
	static const char named[] = "DAPL_MAX_CM_RESPONSE_TIME=20 has no effect: ";
	struct tp_conn *conn;
	const char *text;

	for (size_t i = 0; i < ARRAY_SIZE(script); i++)
		setenv(script[i][0], script[i][1], 1);
	fv_log_capture();
	conn_setup();
	conn_env_retries(AT_RESOLVING_ADDR, RDMA_CM_EVENT_ADDR_ERROR, 8000, 25);
	conn_env_retries(AT_RESOLVING_ROUTE, RDMA_CM_EVENT_ROUTE_ERROR, 20000, 15);
	conn = conn_at(AT_ESTABLISHED);
	ck_assert_uint_eq(seen_at(SEEN_RTS_TIMEOUT), 23);
	text = strstr(fv_log(), named);
	ck_assert_ptr_nonnull(text);
	ck_assert_ptr_null(strstr(text + 1, named));
	for (size_t i = 0; i + 1 < ARRAY_SIZE(script); i++)
		ck_assert_ptr_null(strstr(fv_log(), script[i][0]));
	conn_end(conn);
}
END_TEST

START_TEST(wr_max_limits_the_queues)
{
	setenv("DAPL_WR_MAX", "100", 1);
	conn_setup();
	ck_assert_uint_eq(tp_dev_attr(rig.dev)->max_qp_wr, 100);
	conn_end(NULL);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("env");

	tcase_add_checked_fixture(cases, verbs_begin, NULL);
	tcase_add_loop_test(cases, a_setting_reaches_each_connection, 0,
			    2 * (int)ARRAY_SIZE(settings));
	tcase_add_test(cases, without_settings_the_path_is_librdmacms);
	tcase_add_test(cases, a_local_path_stays_local);
	tcase_add_loop_test(cases, a_refused_setting_fails_no_connection, 0, 2);
	tcase_add_loop_test(cases, a_setting_that_nothing_can_be_done_for_is_named_once, 0,
			    (int)ARRAY_SIZE(unsupported));
	tcase_add_test(cases, the_settings_of_job_scripts_take_effect_or_are_named);
	tcase_add_test(cases, wr_max_limits_the_queues);
	return run_cases(argc, argv);
}
