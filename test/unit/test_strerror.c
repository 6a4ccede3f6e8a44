/* SPDX-License-Identifier: BSD-2-Clause */
/* dat_strerror: the name of every status, by the number that programs were compiled with. */
#define _GNU_SOURCE
#include <dat/udat.h>

#include "registry_test.h"

static const char *const types[] = {
	[0x00] = "DAT_SUCCESS",
	[0x01] = "DAT_ABORT",
	[0x02] = "DAT_CONN_QUAL_IN_USE",
	[0x03] = "DAT_INSUFFICIENT_RESOURCES",
	[0x04] = "DAT_INTERNAL_ERROR",
	[0x05] = "DAT_INVALID_HANDLE",
	[0x06] = "DAT_INVALID_PARAMETER",
	[0x07] = "DAT_INVALID_STATE",
	[0x08] = "DAT_LENGTH_ERROR",
	[0x09] = "DAT_MODEL_NOT_SUPPORTED",
	[0x0a] = "DAT_PROVIDER_NOT_FOUND",
	[0x0b] = "DAT_PRIVILEGES_VIOLATION",
	[0x0c] = "DAT_PROTECTION_VIOLATION",
	[0x0d] = "DAT_QUEUE_EMPTY",
	[0x0e] = "DAT_QUEUE_FULL",
	[0x0f] = "DAT_TIMEOUT_EXPIRED",
	[0x10] = "DAT_PROVIDER_ALREADY_REGISTERED",
	[0x11] = "DAT_PROVIDER_IN_USE",
	[0x12] = "DAT_INVALID_ADDRESS",
	[0x13] = "DAT_INTERRUPTED_CALL",
	[0x14] = "DAT_CONN_QUAL_UNAVAILABLE",
};

static const char *const subtypes[] = {
	[0] = "",
	[1] = "DAT_SUB_INTERRUPTED",
	[2] = "DAT_RESOURCE_MEMORY",
	[3] = "DAT_RESOURCE_DEVICE",
	[4] = "DAT_RESOURCE_TEP",
	[5] = "DAT_RESOURCE_TEVD",
	[6] = "DAT_RESOURCE_PROTECTION_DOMAIN",
	[7] = "DAT_RESOURCE_MEMORY_REGION",
	[8] = "DAT_RESOURCE_ERROR_HANDLER",
	[9] = "DAT_RESOURCE_CREDITS",
	[10] = "DAT_RESOURCE_SRQ",
	[11] = "DAT_INVALID_HANDLE_IA",
	[12] = "DAT_INVALID_HANDLE_EP",
	[13] = "DAT_INVALID_HANDLE_LMR",
	[14] = "DAT_INVALID_HANDLE_RMR",
	[15] = "DAT_INVALID_HANDLE_PZ",
	[16] = "DAT_INVALID_HANDLE_PSP",
	[17] = "DAT_INVALID_HANDLE_RSP",
	[18] = "DAT_INVALID_HANDLE_CR",
	[19] = "DAT_INVALID_HANDLE_CNO",
	[20] = "DAT_INVALID_HANDLE_EVD_CR",
	[21] = "DAT_INVALID_HANDLE_EVD_REQUEST",
	[22] = "DAT_INVALID_HANDLE_EVD_RECV",
	[23] = "DAT_INVALID_HANDLE_EVD_CONN",
	[24] = "DAT_INVALID_HANDLE_EVD_ASYNC",
	[25] = "DAT_INVALID_HANDLE_SRQ",
	[26] = "DAT_INVALID_HANDLE1",
	[27] = "DAT_INVALID_HANDLE2",
	[28] = "DAT_INVALID_HANDLE3",
	[29] = "DAT_INVALID_HANDLE4",
	[30] = "DAT_INVALID_HANDLE5",
	[31] = "DAT_INVALID_HANDLE6",
	[32] = "DAT_INVALID_HANDLE7",
	[33] = "DAT_INVALID_HANDLE8",
	[34] = "DAT_INVALID_HANDLE9",
	[35] = "DAT_INVALID_HANDLE10",
	[36] = "DAT_INVALID_ARG1",
	[37] = "DAT_INVALID_ARG2",
	[38] = "DAT_INVALID_ARG3",
	[39] = "DAT_INVALID_ARG4",
	[40] = "DAT_INVALID_ARG5",
	[41] = "DAT_INVALID_ARG6",
	[42] = "DAT_INVALID_ARG7",
	[43] = "DAT_INVALID_ARG8",
	[44] = "DAT_INVALID_ARG9",
	[45] = "DAT_INVALID_ARG10",
	[46] = "DAT_INVALID_STATE_EP_UNCONNECTED",
	[47] = "DAT_INVALID_STATE_EP_ACTCONNPENDING",
	[48] = "DAT_INVALID_STATE_EP_PASSCONNPENDING",
	[49] = "DAT_INVALID_STATE_EP_TENTCONNPENDING",
	[50] = "DAT_INVALID_STATE_EP_CONNECTED",
	[51] = "DAT_INVALID_STATE_EP_DISCONNECTED",
	[52] = "DAT_INVALID_STATE_EP_RESERVED",
	[53] = "DAT_INVALID_STATE_EP_COMPLPENDING",
	[54] = "DAT_INVALID_STATE_EP_DISCPENDING",
	[55] = "DAT_INVALID_STATE_EP_PROVIDERCONTROL",
	[56] = "DAT_INVALID_STATE_EP_NOTREADY",
	[57] = "DAT_INVALID_STATE_EP_RECV_WATERMARK",
	[58] = "DAT_INVALID_STATE_EP_PZ",
	[59] = "DAT_INVALID_STATE_EP_EVD_REQUEST",
	[60] = "DAT_INVALID_STATE_EP_EVD_RECV",
	[61] = "DAT_INVALID_STATE_EP_EVD_CONNECT",
	[62] = "DAT_INVALID_STATE_EP_UNCONFIGURED",
	[63] = "DAT_INVALID_STATE_EP_UNCONFRESERVED",
	[64] = "DAT_INVALID_STATE_EP_UNCONFPASSIVE",
	[65] = "DAT_INVALID_STATE_EP_UNCONFTENTATIVE",
	[66] = "DAT_INVALID_STATE_CNO_IN_USE",
	[67] = "DAT_INVALID_STATE_CNO_DEAD",
	[68] = "DAT_INVALID_STATE_EVD_OPEN",
	[69] = "DAT_INVALID_STATE_EVD_ENABLED",
	[70] = "DAT_INVALID_STATE_EVD_DISABLED",
	[71] = "DAT_INVALID_STATE_EVD_WAITABLE",
	[72] = "DAT_INVALID_STATE_EVD_UNWAITABLE",
	[73] = "DAT_INVALID_STATE_EVD_IN_USE",
	[74] = "DAT_INVALID_STATE_EVD_CONFIG_NOTIFY",
	[75] = "DAT_INVALID_STATE_EVD_CONFIG_SOLICITED",
	[76] = "DAT_INVALID_STATE_EVD_CONFIG_THRESHOLD",
	[77] = "DAT_INVALID_STATE_EVD_WAITER",
	[78] = "DAT_INVALID_STATE_EVD_ASYNC",
	[79] = "DAT_INVALID_STATE_IA_IN_USE",
	[80] = "DAT_INVALID_STATE_LMR_IN_USE",
	[81] = "DAT_INVALID_STATE_LMR_FREE",
	[82] = "DAT_INVALID_STATE_PZ_IN_USE",
	[83] = "DAT_INVALID_STATE_PZ_FREE",
	[84] = "DAT_INVALID_STATE_SRQ_OPERATIONAL",
	[85] = "DAT_INVALID_STATE_SRQ_ERROR",
	[86] = "DAT_INVALID_STATE_SRQ_IN_USE",
	[87] = "DAT_PRIVILEGES_READ",
	[88] = "DAT_PRIVILEGES_WRITE",
	[89] = "DAT_PRIVILEGES_RDMA_READ",
	[90] = "DAT_PRIVILEGES_RDMA_WRITE",
	[91] = "DAT_PROTECTION_READ",
	[92] = "DAT_PROTECTION_WRITE",
	[93] = "DAT_PROTECTION_RDMA_READ",
	[94] = "DAT_PROTECTION_RDMA_WRITE",
	[95] = "DAT_INVALID_ADDRESS_UNSUPPORTED",
	[96] = "DAT_INVALID_ADDRESS_UNREACHABLE",
	[97] = "DAT_INVALID_ADDRESS_MALFORMED",
	[98] = "DAT_NAME_NOT_REGISTERED",
	[99] = "DAT_MAJOR_NOT_FOUND",
	[100] = "DAT_MINOR_NOT_FOUND",
	[101] = "DAT_THREAD_SAFETY_NOT_FOUND",
	[102] = "DAT_INVALID_RO_COOKIE",
};

static void strerror_is(DAT_RETURN value, DAT_RETURN ret, const char *want_major,
			const char *want_minor)
{
	const char *major = "none", *minor = "none";

	ck_assert_uint_eq(dat_strerror(value, &major, &minor), ret);
	ck_assert_str_eq(major, want_major);
	ck_assert_str_eq(minor, want_minor);
}

START_TEST(each_type_has_its_name)
{
	const DAT_RETURN type = (DAT_RETURN)_i << 16;

	strerror_is(type, DAT_SUCCESS, types[_i], "");
	strerror_is(DAT_CLASS_ERROR | type, DAT_SUCCESS, types[_i], "");
	strerror_is(DAT_CLASS_WARNING | type, DAT_SUCCESS, types[_i], "");
}
END_TEST

START_TEST(each_subtype_has_its_name)
{
	strerror_is(0x80060000U | (DAT_RETURN)_i, DAT_SUCCESS, "DAT_INVALID_PARAMETER",
		    subtypes[_i]);
}
END_TEST

/* The class bits are part of this type, and DAT_GET_TYPE removes them. */
START_TEST(not_implemented_is_named_with_and_without_class)
{
	strerror_is(0xffff0000U, DAT_SUCCESS, "DAT_NOT_IMPLEMENTED", "");
	strerror_is(0x3fff0000U, DAT_SUCCESS, "DAT_NOT_IMPLEMENTED", "");
}
END_TEST

START_TEST(unknown_numbers_are_invalid_arguments)
{
	const DAT_RETURN arg1 = 0x80060024U;

	strerror_is(0x80150000U, arg1, "unknown error", "");
	strerror_is(0x80150002U, arg1, "unknown error", "DAT_RESOURCE_MEMORY");
	strerror_is(0x80060067U, arg1, "DAT_INVALID_PARAMETER", "unknown minor error");
	strerror_is(0x3ffeffffU, arg1, "unknown error", "unknown minor error");
}
END_TEST

START_TEST(the_minor_string_may_be_null)
{
	const char *major = "none", *minor = "none";

	ck_assert_uint_eq(dat_strerror(DAT_SUCCESS, NULL, &minor), 0x80060025U);
	ck_assert_str_eq(minor, "none");
	ck_assert_uint_eq(dat_strerror(0x80070042U, &major, NULL), DAT_SUCCESS);
	ck_assert_str_eq(major, "DAT_INVALID_STATE");
}
END_TEST

int main(int argc, char **argv)
{
	TCase *names = tcase_create("names");

	tcase_add_loop_test(names, each_type_has_its_name, 0, COUNT(types));
	tcase_add_loop_test(names, each_subtype_has_its_name, 0, COUNT(subtypes));
	tcase_add_test(names, not_implemented_is_named_with_and_without_class);
	tcase_add_test(names, unknown_numbers_are_invalid_arguments);
	tcase_add_test(names, the_minor_string_may_be_null);
	return run_cases(argc, argv);
}
