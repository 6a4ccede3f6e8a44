/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dtest: two processes, one connection, every kind of data transfer. This file has the options and
 * the list of steps.
 */
#include "dtest.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	OPTION_HELP = 256, /* beyond the characters, because it has no short form */
	STATUS_FAILED = 1,
	STATUS_USAGE = 244,
	SIZE_MAX_BYTES = 1 << 30,
	BURST_MAX = 65535,
	DELAY_MAX = 24 * 60 * 60, /* seconds */
};

/* Steps are done in the order of their table, and undone in reverse, from the last one done. */
struct dtest_step {
	const char *name;
	int (*setup)(struct dtest *t);
	int (*teardown)(struct dtest *t); /* NULL: nothing to undo */
	enum dtest_timer setup_timer;
	enum dtest_timer teardown_timer;
};

static const struct dtest_step test_steps[] = {
	{ "open the IA", dtest_ia_open, dtest_ia_close, TIME_OPEN, TIME_CLOSE },
	{ "create the PZ", dtest_pz_create, dtest_pz_free, TIME_PZ_CREATE, TIME_PZ_FREE },
	{ "register the buffers", dtest_buffers_create, dtest_buffers_free, TIME_LMR_CREATE,
	  TIME_LMR_FREE },
	{ "create the CNO", dtest_cno_create, dtest_cno_free, TIME_CNO_CREATE, TIME_CNO_FREE },
	{ "create the EVDs", dtest_evds_create, dtest_evds_free, TIME_EVD_CREATE, TIME_EVD_FREE },
	{ "create the EP", dtest_ep_create, dtest_ep_free, TIME_EP_CREATE, TIME_EP_FREE },
	{ "register the messages", dtest_messages_create, dtest_messages_free, UNTIMED, UNTIMED },
	{ "post the receives", dtest_post_receives, NULL, UNTIMED, UNTIMED },
	{ "create the PSP", dtest_psp_create, dtest_psp_free, UNTIMED, UNTIMED },
	{ "connect", dtest_connect, dtest_disconnect, UNTIMED, UNTIMED },
	{ "exchange RMRs", dtest_exchange_rmrs, NULL, UNTIMED, UNTIMED },
	{ "query the EP", dtest_print_addresses, NULL, UNTIMED, UNTIMED },
	{ "RDMA write", dtest_rdma_write, NULL, UNTIMED, UNTIMED },
	{ "RDMA read", dtest_rdma_read, NULL, UNTIMED, UNTIMED },
	{ "ping", dtest_ping_pong, NULL, UNTIMED, UNTIMED },
};

static const struct dtest_step query_steps[] = {
	{ "open the IA", dtest_ia_open, dtest_ia_close, TIME_OPEN, TIME_CLOSE },
	{ "query the IA", dtest_print_attributes, NULL, UNTIMED, UNTIMED },
};

static void dtest_usage(FILE *to)
{
	fputs("usage: dtest [-s | -h HOST] [-P NAME] [-b N] [-B N] [-d SEC] [-cpv]\n"
	      "       dtest -q [-P NAME] [-v]\n"
	      "       dtest -U | --help | -V | --version\n"
	      "  -s       be the server (also the default without -h)\n"
	      "  -h HOST  be the client of the server on HOST\n"
	      "  -P NAME  interface adapter to open, as dat.conf names it (OpenIB-cma)\n"
	      "  -b N     bytes of a buffer, 26 or more (64); the same on both sides\n"
	      "  -B N     RDMA writes and pings in a burst (10); the same on both sides\n"
	      "  -d SEC   server: seconds between a request and its accept (0)\n"
	      "  -c       wait for completions on a CNO\n"
	      "  -p       poll for completions\n"
	      "  -v       trace every DAT call\n"
	      "  -q       only print the attributes of the interface adapter and its provider\n"
	      "  -U       print this text, with exit status 244; --help is the same with 0\n"
	      "  -V       print the version, as --version\n",
	      to);
}

static int dtest_parse_number(int option, const char *text, unsigned min, unsigned max,
			      unsigned *value)
{
	char *end;
	long long number;

	errno = 0;
	number = strtoll(text, &end, 10);
	if (errno || end == text || *end || number < min || number > max) {
		fprintf(stderr, "dtest: -%c %s: not a number from %u to %u\n", option, text, min,
			max);
		return -1;
	}
	*value = (unsigned)number;
	return 0;
}

static int dtest_parse_option(struct dtest_options *opt, int option, char *argument)
{
	switch (option) {
	case 's':
		opt->host = NULL;
		return 0;
	case 'h':
		opt->host = argument;
		return 0;
	case 'P':
		opt->ia_name = argument;
		return 0;
	case 'b':
		return dtest_parse_number(option, argument, SIZE_MIN, SIZE_MAX_BYTES, &opt->size);
	case 'B':
		return dtest_parse_number(option, argument, 1, BURST_MAX, &opt->burst);
	case 'd':
		return dtest_parse_number(option, argument, 0, DELAY_MAX, &opt->delay);
	case 'c':
		opt->cno = true;
		return 0;
	case 'p':
		opt->poll = true;
		return 0;
	case 'v':
		dtest_trace_on();
		return 0;
	case 'q':
		opt->query = true;
		return 0;
	case 'U':
		dtest_usage(stdout);
		exit(STATUS_USAGE);
	case OPTION_HELP:
		dtest_usage(stdout);
		exit(0);
	case 'V':
		puts("dtest (" PACKAGE_NAME ") " PACKAGE_VERSION);
		exit(0);
	default:
		return -1; /* getopt_long has printed the reason */
	}
}

static void dtest_parse_options(struct dtest_options *opt, int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "help", no_argument, NULL, OPTION_HELP },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "sh:P:b:B:d:cpvqUV", long_options, NULL)) != -1)
		if (dtest_parse_option(opt, option, optarg) < 0)
			goto refuse;
	if (optind == argc)
		return;
	fprintf(stderr, "dtest: %s: not an option\n", argv[optind]);
refuse:
	dtest_usage(stderr);
	exit(STATUS_USAGE);
}

static int dtest_call_step(struct dtest *t, int (*call)(struct dtest *), enum dtest_timer timer)
{
	double begun = tool_usec_now();
	int result = call(t);

	if (timer != UNTIMED)
		t->timers[timer] = tool_usec_now() - begun;
	return result;
}

static void dtest_run(struct dtest *t, const struct dtest_step *steps, size_t count)
{
	size_t done;

	for (done = 0; done < count; done++)
		if (dtest_call_step(t, steps[done].setup, steps[done].setup_timer) < 0) {
			dtest_error("in step", "%s", steps[done].name);
			t->failed = true;
			break;
		}
	while (done-- > 0)
		if (steps[done].teardown &&
		    dtest_call_step(t, steps[done].teardown, steps[done].teardown_timer) < 0) {
			dtest_error("in undoing step", "%s", steps[done].name);
			t->failed = true;
		}
}

int main(int argc, char **argv)
{
	static char default_name[] = "OpenIB-cma";
	struct dtest t = { .opt = { .ia_name = default_name, .size = 64, .burst = 10 } };

	(void)setvbuf(stdout, NULL, _IOLBF, 0); /* scripts read the output during the run */
	dtest_parse_options(&t.opt, argc, argv);
	if (t.opt.query) {
		dtest_run(&t, query_steps, sizeof(query_steps) / sizeof(query_steps[0]));
		return t.failed ? STATUS_FAILED : 0;
	}
	t.server = !t.opt.host;
	dtest_print("Running as %s - %s", t.server ? "server" : "client", t.opt.ia_name);
	dtest_run(&t, test_steps, sizeof(test_steps) / sizeof(test_steps[0]));
	dtest_print_result(&t);
	return t.failed ? STATUS_FAILED : 0;
}
