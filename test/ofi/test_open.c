/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening an IA: libfabric itself, and whether its provider has what DAT takes. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "ofi_test.h"

#define DEVICE_SHORT DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE)
#define NO_ADDRESS   DAT_ERROR(DAT_INVALID_ADDRESS, DAT_NO_SUBTYPE)
#define NO_MODEL     DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE)

/* One line says why. */
static void open_fails(const char *params, DAT_RETURN status, const char *cause)
{
	struct ofi_rig rig;
	const char *line;

	setenv("DAPL_DBG_TYPE", "0x2003", 1); /* and of what is not there, as the tools do */
	ff_log_capture();
	ck_assert_uint_eq(ofi_ia_open(&rig, params), status);
	line = strstr(ff_log(), cause);
	ck_assert_msg(line != NULL, "the log: %s", ff_log());
	ck_assert_msg(!strchr(ff_log(), '\n') || !strchr(ff_log(), '\n')[1],
		      "more than one line: %s", ff_log());
	ofi_rig_close(&rig);
}

/* ---- libfabric ---- */

START_TEST(libfabric_is_looked_up_by_its_name)
{
	struct ofi_rig rig;

	ck_dat(ofi_ia_open(&rig, "scripted 127.0.0.1"));
	ck_assert_str_eq(ff_seen().library, "libfabric.so.1");
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(libfabric_is_loaded_once)
{
	struct ofi_rig rig;

	for (unsigned i = 0; i < 2; i++) {
		ck_dat(ofi_ia_open(&rig, "scripted 127.0.0.1"));
		ofi_rig_close(&rig);
	}
	ck_assert_uint_eq(ff_calls("dlopen"), 1);
}
END_TEST

START_TEST(without_libfabric_there_is_no_ia)
{
	ff_fail("dlopen", ENOENT, 1);
	open_fails("scripted 127.0.0.1", NO_ADDRESS, "libfabric can't be loaded: ");
}
END_TEST

START_TEST(a_library_without_one_of_its_symbols_is_not_libfabric)
{
	ff_fail("dlsym", ENOENT, 1 + (unsigned)_i);
	open_fails("scripted 127.0.0.1", NO_ADDRESS,
		   "libfabric is older than 1.13: libfabric.so.1: undefined symbol");
}
END_TEST

START_TEST(a_libfabric_that_is_too_old_is_told)
{
	ff_fail_times("fi_getinfo", FI_ENOSYS, 1000);
	open_fails("scripted 127.0.0.1", NO_ADDRESS, "libfabric is older than 1.13");
}
END_TEST

/* ---- signal handlers: libfabric's libraries replace some as they are loaded ---- */

static const int signals[] = { SIGINT, SIGTERM, SIGSEGV, SIGABRT, SIGBUS,
			       SIGILL, SIGFPE,	SIGPIPE, SIGCHLD };

static void own_handler(int sig)
{
	(void)sig;
}

static void own_action(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info, (void)context;
}

static void foreign_handler(int sig)
{
	(void)sig;
}

static void handlers_replace(void)
{
	for (int i = 0; i < COUNT(signals); i++)
		signal(signals[i], foreign_handler);
}

/* Each in another way. */
static struct sigaction action_of(int i)
{
	struct sigaction action = { .sa_flags = SA_RESTART };

	switch (i % 4) {
	case 0:
		action.sa_handler = own_handler;
		break;
	case 1:
		action.sa_handler = SIG_IGN;
		break;
	case 2:
		action.sa_sigaction = own_action;
		action.sa_flags = SA_SIGINFO | SA_ONSTACK;
		break;
	default:
		action.sa_handler = SIG_DFL;
		break;
	}
	return action;
}

/* @_i: at which of libfabric's calls they are replaced. */
START_TEST(signal_handlers_survive_the_load)
{
	static const char *const calls[] = { "dlopen", "fi_getinfo" };
	struct ofi_rig rig;

	for (int i = 0; i < COUNT(signals); i++) {
		const struct sigaction action = action_of(i);

		ck_assert_int_eq(sigaction(signals[i], &action, NULL), 0);
	}
	ff_hook(calls[_i], handlers_replace);
	ck_dat(ofi_ia_open(&rig, "scripted 127.0.0.1"));
	ck_assert_uint_gt(ff_calls(calls[_i]), 0);
	for (int i = 0; i < COUNT(signals); i++) {
		const struct sigaction want = action_of(i);
		struct sigaction now;

		ck_assert_int_eq(sigaction(signals[i], NULL, &now), 0);
		ck_assert(now.sa_handler == want.sa_handler);
		/* the kernel's own bit aside */
		ck_assert_int_eq(now.sa_flags & (SA_RESTART | SA_SIGINFO | SA_ONSTACK),
				 want.sa_flags);
	}
	ofi_rig_close(&rig);
}
END_TEST

/* ---- the provider ---- */

START_TEST(a_provider_that_is_not_there_is_told)
{
	open_fails("another 127.0.0.1", DEVICE_SHORT, "libfabric has no provider another");
}
END_TEST

static const struct {
	const char *setting; /* of FI_PROVIDER */
	bool hides;
} settings[] = {
	{ "tcp", true },	  { "", true },
	{ "another,", false },	  { "^another", true },
	{ "^tcp", false },	  { "^tcp,ANOTHER", true },
	{ "another2", true },	  { "tcp, another", true },
	{ "tcp,Another", false }, { "^another2", false },
};

START_TEST(a_provider_that_libfabrics_variable_hides_is_told)
{
	setenv("FI_PROVIDER", settings[_i].setting, 1);
	open_fails("another 127.0.0.1", DEVICE_SHORT,
		   settings[_i].hides ? "\", so libfabric has no provider another"
				      : "open: libfabric has no provider another");
}
END_TEST

START_TEST(a_provider_without_a_device_is_told)
{
	ff_provider()->no_device = true;
	open_fails("scripted 127.0.0.1", DEVICE_SHORT, "or that finds no device");
}
END_TEST

/* FI_MSG, FI_RMA, or neither. */
START_TEST(a_provider_without_messages_or_rma_is_no_model_of_dat)
{
	static const uint64_t caps[] = { FI_MSG, FI_RMA, 0 };

	ff_provider()->caps = caps[_i];
	open_fails("scripted 127.0.0.1", NO_MODEL, "has no connected endpoints with RMA");
}
END_TEST

START_TEST(a_provider_that_wants_memory_for_transfers_is_not_used)
{
	static const uint64_t modes[] = { FI_CONTEXT, FI_CONTEXT2 };

	ff_provider()->mode = modes[_i];
	open_fails("scripted 127.0.0.1", NO_MODEL, "has no connected endpoints with RMA");
}
END_TEST

START_TEST(a_place_that_the_provider_does_not_have_is_told)
{
	open_fails("scripted nowhere", NO_ADDRESS, "has no interface, address, domain or host");
}
END_TEST

/* libfabric's tcp offers 127.0.0.1 for an interface that has link-local addresses only. */
START_TEST(an_interface_is_not_served_by_an_address_that_it_does_not_have)
{
	ff_provider()->elsewhere = "lo";
	open_fails("scripted lo", DEVICE_SHORT, "open lo: this network interface has no address");
}
END_TEST

START_TEST(a_provider_whose_messages_hold_no_header_is_refused)
{
	struct ofi_rig rig;

	ff_provider()->cm_data_size = 4;
	ck_assert_uint_eq(ofi_ia_open(&rig, "scripted 127.0.0.1"), NO_MODEL);
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(limits_are_those_of_the_provider)
{
	DAT_PROVIDER_ATTR provider;
	struct ofi_rig rig;
	DAT_IA_ATTR attr;

	ff_provider()->cm_data_size = 56;
	ff_provider()->iov_limit = 3;
	ff_provider()->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	ck_dat(ofi_ia_open(&rig, "scripted ff0"));
	ck_dat(ia_query(rig.ia, NULL, DAT_IA_FIELD_ALL, &attr, DAT_PROVIDER_FIELD_ALL, &provider));
	ck_assert_int_eq(provider.max_private_data_size, 52);
	ck_assert_int_eq(attr.max_iov_segments_per_dto, 3);
	ofi_rig_close(&rig);
}
END_TEST

/* The host name resolver may take seconds for what a dat.conf of another host names. */
static const struct {
	const char *params;
	unsigned asked;
} places[] = {
	{ "scripted eth7", 0 },
	{ "scripted mlx5_3", 0 },
	{ "scripted nosuchhost.invalid", 1 },
};

START_TEST(a_name_like_a_device_s_is_not_looked_up_as_a_host)
{
	struct ofi_rig rig;

	ck_assert_uint_eq(ofi_ia_open(&rig, places[_i].params), NO_ADDRESS);
	ck_assert_uint_eq(ff_calls("getaddrinfo"), places[_i].asked);
	ofi_rig_close(&rig);
}
END_TEST

/* ---- settings ---- */

/* What job scripts of climate models set for OFED's provider is named, once in a process. */
START_TEST(the_settings_of_job_scripts_are_named_once)
{
	static const char *const script[][2] = {
		{ "DAPL_CM_ARP_TIMEOUT_MS", "8000" },
		{ "DAPL_CM_ARP_RETRY_COUNT", "25" },
		{ "DAPL_CM_ROUTE_TIMEOUT_MS", "20000" },
		{ "DAPL_CM_ROUTE_RETRY_COUNT", "15" },
		{ "DAPL_ACK_TIMER", "23" },
		{ "DAPL_MAX_CM_RESPONSE_TIME", "20" },
	};
	struct ofi_rig rig;

	for (int i = 0; i < COUNT(script); i++)
		setenv(script[i][0], script[i][1], 1);
	setenv("DAPL_WR_MAX", "", 1); /* that is not set */
	ff_log_capture();
	for (unsigned i = 0; i < 2; i++) {
		ck_dat(ofi_ia_open(&rig, "scripted 127.0.0.1"));
		ofi_rig_close(&rig);
	}
	for (int i = 0; i < COUNT(script); i++)
		ck_assert_msg(strstr(ff_log(), script[i][0]) != NULL, "%s: %s", script[i][0],
			      ff_log());
	ck_assert_ptr_null(strstr(ff_log(), "DAPL_WR_MAX"));
	ck_assert_ptr_eq(strchr(ff_log(), '\n'), strrchr(ff_log(), '\n'));
}
END_TEST

START_TEST(without_settings_nothing_is_named)
{
	struct ofi_rig rig;

	ff_log_capture();
	ck_dat(ofi_ia_open(&rig, "scripted 127.0.0.1"));
	ck_assert_str_eq(ff_log(), "");
	ofi_rig_close(&rig);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tcase = tcase_create("open");

	tcase_add_test(tcase, libfabric_is_looked_up_by_its_name);
	tcase_add_test(tcase, libfabric_is_loaded_once);
	tcase_add_test(tcase, without_libfabric_there_is_no_ia);
	tcase_add_loop_test(tcase, a_library_without_one_of_its_symbols_is_not_libfabric, 0, 5);
	tcase_add_test(tcase, a_libfabric_that_is_too_old_is_told);
	tcase_add_loop_test(tcase, signal_handlers_survive_the_load, 0, 2);
	tcase_add_test(tcase, a_provider_that_is_not_there_is_told);
	tcase_add_loop_test(tcase, a_provider_that_libfabrics_variable_hides_is_told, 0,
			    COUNT(settings));
	tcase_add_test(tcase, a_provider_without_a_device_is_told);
	tcase_add_loop_test(tcase, a_provider_without_messages_or_rma_is_no_model_of_dat, 0, 3);
	tcase_add_loop_test(tcase, a_provider_that_wants_memory_for_transfers_is_not_used, 0, 2);
	tcase_add_test(tcase, a_place_that_the_provider_does_not_have_is_told);
	tcase_add_test(tcase, an_interface_is_not_served_by_an_address_that_it_does_not_have);
	tcase_add_test(tcase, a_provider_whose_messages_hold_no_header_is_refused);
	tcase_add_test(tcase, limits_are_those_of_the_provider);
	tcase_add_loop_test(tcase, a_name_like_a_device_s_is_not_looked_up_as_a_host, 0,
			    COUNT(places));
	tcase_add_test(tcase, the_settings_of_job_scripts_are_named_once);
	tcase_add_test(tcase, without_settings_nothing_is_named);
	return run_cases(argc, argv);
}
