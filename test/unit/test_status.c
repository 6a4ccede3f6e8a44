/* SPDX-License-Identifier: BSD-2-Clause */
/* Errors of the transport and endpoint states as DAT status. */
#include "harness.h"

static const struct {
	int err;
	DAT_RETURN want;
} errors[] = {
	{ 0, DAT_SUCCESS },
	{ ENOMEM, NO_RESOURCE(TEVD) },
	{ ENOSPC, NO_RESOURCE(TEVD) },
	{ EDQUOT, NO_RESOURCE(TEVD) },
	{ E2BIG, NO_RESOURCE(TEVD) },
	{ EAGAIN, NO_RESOURCE(TEVD) },
	{ EMFILE, NO_RESOURCE(TEVD) },
	{ ENFILE, NO_RESOURCE(TEVD) },
	{ EACCES, DAT_ERROR(DAT_PRIVILEGES_VIOLATION, 0) },
	{ EPERM, DAT_ERROR(DAT_PROTECTION_VIOLATION, 0) },
	{ ENXIO, DAT_ERROR(DAT_PROTECTION_VIOLATION, 0) },
	{ ERANGE, DAT_ERROR(DAT_PROTECTION_VIOLATION, 0) },
	{ EADDRINUSE, DAT_ERROR(DAT_CONN_QUAL_IN_USE, 0) },
	{ ENETUNREACH, DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE) },
	{ EHOSTUNREACH, DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE) },
	{ EADDRNOTAVAIL, DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE) },
	{ EAFNOSUPPORT, DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED) },
	{ EOPNOTSUPP, DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, 0) },
	{ ENOSYS, DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, 0) },
	{ EINTR, DAT_ERROR(DAT_INTERRUPTED_CALL, 0) },
	{ EIO, DAT_ERROR(DAT_INTERNAL_ERROR, 0) },
	{ EINVAL, DAT_ERROR(DAT_INTERNAL_ERROR, 0) },
	{ 9999, DAT_ERROR(DAT_INTERNAL_ERROR, 0) },
};

START_TEST(an_errno_has_one_status)
{
	ck_dat_is(status_of(-errors[_i].err, DAT_RESOURCE_TEVD), errors[_i].want);
}
END_TEST

/* What else a device says when it can't make an object. */
static const int refusals[] = { EINVAL, EOPNOTSUPP, ENOSYS };

START_TEST(what_a_device_refuses_to_make_is_a_shortage)
{
	const int err = errors[_i].err;
	DAT_RETURN want = errors[_i].want;

	for (int i = 0; i < COUNT(refusals); i++)
		if (refusals[i] == err)
			want = NO_RESOURCE(TEVD);
	ck_dat_is(status_of_made(-err, DAT_RESOURCE_TEVD), want);
}
END_TEST

START_TEST(the_caller_names_the_resource)
{
	ck_assert_uint_eq(status_of(-ENOMEM, DAT_RESOURCE_MEMORY_REGION), 0x80030007U);
	ck_assert_uint_eq(status_of(-ENOMEM, DAT_RESOURCE_TEP), 0x80030004U);
}
END_TEST

/* The subtypes as numbers, because programs were compiled with them. */
static const DAT_UINT32 states[] = {
	[DAT_EP_STATE_UNCONNECTED] = 46,
	[DAT_EP_STATE_UNCONFIGURED_UNCONNECTED] = 62,
	[DAT_EP_STATE_RESERVED] = 52,
	[DAT_EP_STATE_UNCONFIGURED_RESERVED] = 63,
	[DAT_EP_STATE_PASSIVE_CONNECTION_PENDING] = 48,
	[DAT_EP_STATE_UNCONFIGURED_PASSIVE] = 64,
	[DAT_EP_STATE_ACTIVE_CONNECTION_PENDING] = 47,
	[DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING] = 49,
	[DAT_EP_STATE_UNCONFIGURED_TENTATIVE] = 65,
	[DAT_EP_STATE_CONNECTED] = 50,
	[DAT_EP_STATE_DISCONNECT_PENDING] = 54,
	[DAT_EP_STATE_DISCONNECTED] = 51,
	[DAT_EP_STATE_COMPLETION_PENDING] = 53,
};

START_TEST(a_wrong_ep_state_has_its_subtype)
{
	ck_assert_uint_eq(status_of_ep_state((DAT_EP_STATE)_i), 0x80070000U | states[_i]);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("status");

	tcase_add_loop_test(cases, an_errno_has_one_status, 0, COUNT(errors));
	tcase_add_loop_test(cases, what_a_device_refuses_to_make_is_a_shortage, 0, COUNT(errors));
	tcase_add_test(cases, the_caller_names_the_resource);
	tcase_add_loop_test(cases, a_wrong_ep_state_has_its_subtype, 0, COUNT(states));
	return run_unit_cases(argc, argv);
}
