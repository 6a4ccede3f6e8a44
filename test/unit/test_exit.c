/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that come when the process is on its way out. The registry is linked in, so that we know
 * who goes first.
 */
#define _GNU_SOURCE
#include <dat/udat.h>
#include <dat/dat_registry.h>

#include "registry_test.h"

#define GONE 0x80070000U

static int asked_to_look;

/* Without a priority, as the registry's is, it runs before one with. */
static void __attribute__((destructor(101))) look(void)
{
	static const DAT_PROVIDER_INFO info = { "a", 1, 2, DAT_FALSE };
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia = &evd;
	DAT_PROVIDER table = { .device_name = "a" };
	DAT_COUNT count = -1;

	if (!asked_to_look)
		return;
	_exit(dat_registry_add_provider(&table, &info) == GONE &&
	      dat_registry_remove_provider(&table, &info) == GONE &&
	      dat_registry_list_providers(0, &count, NULL) == GONE && count == -1 &&
	      dat_ia_open((char *)"a", 8, &evd, &ia) == GONE && !ia);
}

START_TEST(test_registry_is_gone)
{
	use_conf("");
	asked_to_look = 1;
	exit(0);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("exit");

	tcase_add_exit_test(cases, test_registry_is_gone, 1);
	return run_cases(argc, argv);
}
