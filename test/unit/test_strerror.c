/* SPDX-License-Identifier: BSD-2-Clause */
/* dat_strerror: the name of every status, by the number that programs were compiled with. */
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
#if DAT_EDITION == 2
	[0x15] = "DAT_RESERVED_LMR",
	[0x16] = "DAT_PORT_IN_USE",
	[0x17] = "DAT_COMM_NOT_SUPPORTED",
#endif
};

/* DAT 2.0 has two new subtypes, after the numbers 25 and 86 of DAT 1.2. */
#if DAT_EDITION == 2
#define FROM_26(n) ((n) + 1)
#define FROM_87(n) ((n) + 2)
#else
#define FROM_26(n) (n)
#define FROM_87(n) (n)
#endif

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
#if DAT_EDITION == 2
	[26] = "DAT_INVALID_HANDLE_CSP",
	[88] = "DAT_INVALID_STATE_SRQ_SHUTDOWN",
#endif
	[FROM_26(26)] = "DAT_INVALID_HANDLE1",
	[FROM_26(27)] = "DAT_INVALID_HANDLE2",
	[FROM_26(28)] = "DAT_INVALID_HANDLE3",
	[FROM_26(29)] = "DAT_INVALID_HANDLE4",
	[FROM_26(30)] = "DAT_INVALID_HANDLE5",
	[FROM_26(31)] = "DAT_INVALID_HANDLE6",
	[FROM_26(32)] = "DAT_INVALID_HANDLE7",
	[FROM_26(33)] = "DAT_INVALID_HANDLE8",
	[FROM_26(34)] = "DAT_INVALID_HANDLE9",
	[FROM_26(35)] = "DAT_INVALID_HANDLE10",
	[FROM_26(36)] = "DAT_INVALID_ARG1",
	[FROM_26(37)] = "DAT_INVALID_ARG2",
	[FROM_26(38)] = "DAT_INVALID_ARG3",
	[FROM_26(39)] = "DAT_INVALID_ARG4",
	[FROM_26(40)] = "DAT_INVALID_ARG5",
	[FROM_26(41)] = "DAT_INVALID_ARG6",
	[FROM_26(42)] = "DAT_INVALID_ARG7",
	[FROM_26(43)] = "DAT_INVALID_ARG8",
	[FROM_26(44)] = "DAT_INVALID_ARG9",
	[FROM_26(45)] = "DAT_INVALID_ARG10",
	[FROM_26(46)] = "DAT_INVALID_STATE_EP_UNCONNECTED",
	[FROM_26(47)] = "DAT_INVALID_STATE_EP_ACTCONNPENDING",
	[FROM_26(48)] = "DAT_INVALID_STATE_EP_PASSCONNPENDING",
	[FROM_26(49)] = "DAT_INVALID_STATE_EP_TENTCONNPENDING",
	[FROM_26(50)] = "DAT_INVALID_STATE_EP_CONNECTED",
	[FROM_26(51)] = "DAT_INVALID_STATE_EP_DISCONNECTED",
	[FROM_26(52)] = "DAT_INVALID_STATE_EP_RESERVED",
	[FROM_26(53)] = "DAT_INVALID_STATE_EP_COMPLPENDING",
	[FROM_26(54)] = "DAT_INVALID_STATE_EP_DISCPENDING",
	[FROM_26(55)] = "DAT_INVALID_STATE_EP_PROVIDERCONTROL",
	[FROM_26(56)] = "DAT_INVALID_STATE_EP_NOTREADY",
	[FROM_26(57)] = "DAT_INVALID_STATE_EP_RECV_WATERMARK",
	[FROM_26(58)] = "DAT_INVALID_STATE_EP_PZ",
	[FROM_26(59)] = "DAT_INVALID_STATE_EP_EVD_REQUEST",
	[FROM_26(60)] = "DAT_INVALID_STATE_EP_EVD_RECV",
	[FROM_26(61)] = "DAT_INVALID_STATE_EP_EVD_CONNECT",
	[FROM_26(62)] = "DAT_INVALID_STATE_EP_UNCONFIGURED",
	[FROM_26(63)] = "DAT_INVALID_STATE_EP_UNCONFRESERVED",
	[FROM_26(64)] = "DAT_INVALID_STATE_EP_UNCONFPASSIVE",
	[FROM_26(65)] = "DAT_INVALID_STATE_EP_UNCONFTENTATIVE",
	[FROM_26(66)] = "DAT_INVALID_STATE_CNO_IN_USE",
	[FROM_26(67)] = "DAT_INVALID_STATE_CNO_DEAD",
	[FROM_26(68)] = "DAT_INVALID_STATE_EVD_OPEN",
	[FROM_26(69)] = "DAT_INVALID_STATE_EVD_ENABLED",
	[FROM_26(70)] = "DAT_INVALID_STATE_EVD_DISABLED",
	[FROM_26(71)] = "DAT_INVALID_STATE_EVD_WAITABLE",
	[FROM_26(72)] = "DAT_INVALID_STATE_EVD_UNWAITABLE",
	[FROM_26(73)] = "DAT_INVALID_STATE_EVD_IN_USE",
	[FROM_26(74)] = "DAT_INVALID_STATE_EVD_CONFIG_NOTIFY",
	[FROM_26(75)] = "DAT_INVALID_STATE_EVD_CONFIG_SOLICITED",
	[FROM_26(76)] = "DAT_INVALID_STATE_EVD_CONFIG_THRESHOLD",
	[FROM_26(77)] = "DAT_INVALID_STATE_EVD_WAITER",
	[FROM_26(78)] = "DAT_INVALID_STATE_EVD_ASYNC",
	[FROM_26(79)] = "DAT_INVALID_STATE_IA_IN_USE",
	[FROM_26(80)] = "DAT_INVALID_STATE_LMR_IN_USE",
	[FROM_26(81)] = "DAT_INVALID_STATE_LMR_FREE",
	[FROM_26(82)] = "DAT_INVALID_STATE_PZ_IN_USE",
	[FROM_26(83)] = "DAT_INVALID_STATE_PZ_FREE",
	[FROM_26(84)] = "DAT_INVALID_STATE_SRQ_OPERATIONAL",
	[FROM_26(85)] = "DAT_INVALID_STATE_SRQ_ERROR",
	[FROM_26(86)] = "DAT_INVALID_STATE_SRQ_IN_USE",
	[FROM_87(87)] = "DAT_PRIVILEGES_READ",
	[FROM_87(88)] = "DAT_PRIVILEGES_WRITE",
	[FROM_87(89)] = "DAT_PRIVILEGES_RDMA_READ",
	[FROM_87(90)] = "DAT_PRIVILEGES_RDMA_WRITE",
	[FROM_87(91)] = "DAT_PROTECTION_READ",
	[FROM_87(92)] = "DAT_PROTECTION_WRITE",
	[FROM_87(93)] = "DAT_PROTECTION_RDMA_READ",
	[FROM_87(94)] = "DAT_PROTECTION_RDMA_WRITE",
	[FROM_87(95)] = "DAT_INVALID_ADDRESS_UNSUPPORTED",
	[FROM_87(96)] = "DAT_INVALID_ADDRESS_UNREACHABLE",
	[FROM_87(97)] = "DAT_INVALID_ADDRESS_MALFORMED",
	[FROM_87(98)] = "DAT_NAME_NOT_REGISTERED",
	[FROM_87(99)] = "DAT_MAJOR_NOT_FOUND",
	[FROM_87(100)] = "DAT_MINOR_NOT_FOUND",
	[FROM_87(101)] = "DAT_THREAD_SAFETY_NOT_FOUND",
	[FROM_87(102)] = "DAT_INVALID_RO_COOKIE",
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

/* In DAT 1.2 the class bits are part of this type, and DAT_GET_TYPE removes them. */
START_TEST(not_implemented_is_named_with_and_without_class)
{
	strerror_is(0xffff0000U, DAT_SUCCESS, "DAT_NOT_IMPLEMENTED", "");
	strerror_is(0xbfff0000U, DAT_SUCCESS, "DAT_NOT_IMPLEMENTED", "");
	strerror_is(0x3fff0000U, DAT_SUCCESS, "DAT_NOT_IMPLEMENTED", "");
}
END_TEST

#if DAT_EDITION == 2
START_TEST(the_first_type_of_extensions_is_named)
{
	strerror_is(0x10000000U, DAT_SUCCESS, "DAT_EXTENSION_BASE", "");
	strerror_is(0x90000000U, DAT_SUCCESS, "DAT_EXTENSION_BASE", "");
}
END_TEST

/* As the numbers in programs that were built with the headers of dapl 2.1. */
START_TEST(names_are_those_of_the_numbers_of_dat_2_0)
{
	strerror_is(0x8005001aU, DAT_SUCCESS, "DAT_INVALID_HANDLE", "DAT_INVALID_HANDLE_CSP");
	strerror_is(0x8005001bU, DAT_SUCCESS, "DAT_INVALID_HANDLE", "DAT_INVALID_HANDLE1");
	strerror_is(0x80060025U, DAT_SUCCESS, "DAT_INVALID_PARAMETER", "DAT_INVALID_ARG1");
	strerror_is(0x8007002fU, DAT_SUCCESS, "DAT_INVALID_STATE",
		    "DAT_INVALID_STATE_EP_UNCONNECTED");
	strerror_is(0x80070050U, DAT_SUCCESS, "DAT_INVALID_STATE", "DAT_INVALID_STATE_IA_IN_USE");
	strerror_is(0x80070058U, DAT_SUCCESS, "DAT_INVALID_STATE",
		    "DAT_INVALID_STATE_SRQ_SHUTDOWN");
	strerror_is(0x800a0064U, DAT_SUCCESS, "DAT_PROVIDER_NOT_FOUND", "DAT_NAME_NOT_REGISTERED");
}
END_TEST
#endif

START_TEST(unknown_numbers_are_invalid_arguments)
{
	const DAT_RETURN arg1 = 0x80060000U | FROM_26(36);

	strerror_is(0x80180000U, arg1, "unknown error", "");
	strerror_is(0x80180002U, arg1, "unknown error", "DAT_RESOURCE_MEMORY");
	strerror_is(0x80060000U | FROM_87(103), arg1, "DAT_INVALID_PARAMETER",
		    "unknown minor error");
	strerror_is(0x3ffeffffU, arg1, "unknown error", "unknown minor error");
}
END_TEST

START_TEST(the_minor_string_may_be_null)
{
	const char *major = "none", *minor = "none";

	ck_assert_uint_eq(dat_strerror(DAT_SUCCESS, NULL, &minor), BAD_ARG(2));
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
#if DAT_EDITION == 2
	tcase_add_test(names, the_first_type_of_extensions_is_named);
	tcase_add_test(names, names_are_those_of_the_numbers_of_dat_2_0);
#endif
	tcase_add_test(names, unknown_numbers_are_invalid_arguments);
	tcase_add_test(names, the_minor_string_may_be_null);
	return run_cases(argc, argv);
}
