/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls to the registry while the process exits. The registry is linked statically, so that the
 * order of the destructors is known.
 */
#define _GNU_SOURCE
#include "registry_test.h"

#define INVALID_STATE 0x80070000U

static int destructor_enabled;

/*
 * A destructor with a priority runs after those without one, such as the registry's. The exit
 * status is 1 when each call was refused.
 */
static void __attribute__((destructor(101))) call_after_destruction(void)
{
	static const DAT_PROVIDER_INFO info = { "a", API_MAJOR, 2, DAT_FALSE };
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia = &evd;
	DAT_PROVIDER table = { .device_name = "a" };
	DAT_COUNT count = -1;

	if (!destructor_enabled)
		return;
	_exit(dat_registry_add_provider(&table, &info) == INVALID_STATE &&
	      dat_registry_remove_provider(&table, &info) == INVALID_STATE &&
	      dat_registry_list_providers(0, &count, NULL) == INVALID_STATE && count == -1 &&
	      dat_ia_open((char *)"a", 8, &evd, &ia) == INVALID_STATE && !ia);
}

START_TEST(calls_after_the_registrys_destructor_are_refused)
{
	use_conf("");
	destructor_enabled = 1;
	exit(0);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("exit");

	tcase_add_exit_test(cases, calls_after_the_registrys_destructor_are_refused, 1);
	return run_cases(argc, argv);
}
