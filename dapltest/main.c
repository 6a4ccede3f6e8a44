/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dapltest: a server and clients that test transfers and measure them, and tests of a provider
 * without a peer. Its command line and its output are those that scripts know from OFED's.
 */
#include "dapltest.h"

#include <string.h>

enum {
	STATUS_PASSED = 0,
	STATUS_FAILED = 1, /* also for a wrong command line */
};

static int arguments_run(int argc, char **argv)
{
	struct options options;

	if (options_parse(&options, argc, argv) < 0) {
		complain("try " DAPLTEST " --help");
		return STATUS_FAILED;
	}
	report_debug_set(options.debug);
	interrupt_catch();
	return mode_run(&options) < 0 ? STATUS_FAILED : STATUS_PASSED;
}

int main(int argc, char **argv)
{
	struct argument_file file;
	int status;

	tool_causes_show();
	tool_output_watch(DAPLTEST);
	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		options_usage(stdout);
		return STATUS_PASSED;
	}
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		report(DAPLTEST " (" PACKAGE_NAME ") " PACKAGE_VERSION);
		return STATUS_PASSED;
	}
	if (argc != 3 || strcmp(argv[1], "-f") != 0)
		return arguments_run(argc, argv);
	if (argument_file_read(&file, argv[2], argv[0]) < 0)
		return STATUS_FAILED;
	status = arguments_run(file.argc, file.argv);
	argument_file_free(&file);
	return status;
}
