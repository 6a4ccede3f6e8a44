/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dtest: two processes, one connection, every kind of data transfer. This file has the options and
 * the list of steps.
 */
#include "dtest.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DTEST TOOL_NAME("dtest")

/* Options without a short form have numbers beyond the characters. */
enum {
	OPTION_CSV = 256,
	OPTION_HELP,
	OPTION_JSON,
	OPTION_LIST,
	OPTION_OLD,
	OPTION_TIME,
	OPTION_WAIT,
};

enum {
	STATUS_FAILED = 1,
	STATUS_USAGE = 244,
	SIZE_MAX_BYTES = 1 << 30,
	BURST_MAX = 65535,
	DELAY_MAX = 24 * 60 * 60, /* seconds */
	WAIT_MAX = 60 * 60,	  /* seconds, less than a DAT_TIMEOUT holds */
	SIGNAL_MAX = SWEEP_WINDOW / 2,
	TIME_MAX = 30 * 60, /* seconds: a DAT_TIMEOUT holds two measurements */
};

enum {
	DEFAULT_SIZE = 64,
	DEFAULT_BURST = 10,
	DEFAULT_SWEEP_SIZE = 4 * 1024 * 1024,
	DEFAULT_SWEEP_BURST = 1000,
};

enum {
	ANY_TEST = MODE_CHECK | MODE_WRITES | MODE_SWEEP,
	ANY_OPEN = ANY_TEST | MODE_QUERY,
};

/* Steps are done in the order of their table, and undone in reverse, from the last one done. */
struct dtest_step {
	const char *name;
	unsigned modes;
	int (*setup)(struct dtest *t);
	int (*teardown)(struct dtest *t); /* NULL: nothing to undo */
	enum dtest_timer setup_timer;
	enum dtest_timer teardown_timer;
};

static const struct dtest_step steps[] = {
	{ "open the IA", ANY_OPEN, dtest_ia_open, dtest_ia_close, TIME_OPEN, TIME_CLOSE },
	{ "query the IA", MODE_QUERY, dtest_print_attributes, NULL, UNTIMED, UNTIMED },
	{ "check the burst", ANY_TEST, dtest_check_burst, NULL, UNTIMED, UNTIMED },
	{ "create the PZ", ANY_TEST, dtest_pz_create, dtest_pz_free, TIME_PZ_CREATE, TIME_PZ_FREE },
	{ "register the buffers", ANY_TEST, dtest_buffers_create, dtest_buffers_free,
	  TIME_LMR_CREATE, TIME_LMR_FREE },
	{ "create the CNO", ANY_TEST, dtest_cno_create, dtest_cno_free, TIME_CNO_CREATE,
	  TIME_CNO_FREE },
	{ "create the EVDs", ANY_TEST, dtest_evds_create, dtest_evds_free, TIME_EVD_CREATE,
	  TIME_EVD_FREE },
	{ "create the EP", ANY_TEST, dtest_ep_create, dtest_ep_free, TIME_EP_CREATE, TIME_EP_FREE },
	{ "register the messages", ANY_TEST, dtest_messages_create, dtest_messages_free, UNTIMED,
	  UNTIMED },
	{ "post the receives", ANY_TEST, dtest_post_receives, NULL, UNTIMED, UNTIMED },
	{ "post the receives of pings", MODE_SWEEP, dtest_sweep_prepare, NULL, UNTIMED, UNTIMED },
	{ "create the PSP", ANY_TEST, dtest_psp_create, dtest_psp_free, UNTIMED, UNTIMED },
	{ "connect", ANY_TEST, dtest_connect, dtest_disconnect, UNTIMED, UNTIMED },
	{ "exchange RMRs", ANY_TEST, dtest_exchange_rmrs, NULL, UNTIMED, UNTIMED },
	{ "query the EP", ANY_TEST, dtest_print_addresses, NULL, UNTIMED, UNTIMED },
	{ "RDMA write", MODE_CHECK | MODE_WRITES, dtest_rdma_write, NULL, UNTIMED, UNTIMED },
	{ "RDMA read", MODE_CHECK, dtest_rdma_read, NULL, UNTIMED, UNTIMED },
	{ "ping", MODE_CHECK, dtest_ping_pong, NULL, UNTIMED, UNTIMED },
	{ "sweep", MODE_SWEEP, dtest_sweep, NULL, UNTIMED, UNTIMED },
};

static void dtest_usage(FILE *to)
{
	fputs("usage: " DTEST " [-s | -h HOST] [-P NAME] [-n PORT] [-b N] [-B N] [-d SEC] [-cpvw]\n"
	      "       " DTEST
	      " -a | --time SEC [-s | -h HOST] [-P NAME] [-n PORT] [-b N] [-B N] [-S N]\n"
	      "             [-cpvwW] [--csv | --json]\n"
	      "       " DTEST " -q [-P NAME] [-v]\n"
	      "       " DTEST " --list | -U | --help | -V | --version\n"
	      "  -s       be the server (also the default without -h)\n"
	      "  -h HOST  be the client of the server on HOST\n"
	      "  -P NAME  interface adapter to open, as dat.conf names it (" TOOL_IA ")\n"
	      "  -n PORT  connection qualifier of the server, as --port (45248)\n"
	      "  -b N     bytes of a buffer, 26 or more (64); with -a the largest size (4194304)\n"
	      "  -B N     RDMA writes and pings in a burst (10), with -a of each size (1000)\n"
	      "  -a       all sizes: latency and bandwidth from 1 byte to -b, doubling\n"
	      "  -w       RDMA writes only: no reads and no pings\n"
	      "  --time SEC  seconds for the pings, the RDMA writes and the reads, each, 1 to "
	      "1800;\n"
	      "           of the size -b, or with -a of all sizes\n"
	      "  -W       with -a or --time: pings are RDMA writes that the other side polls for\n"
	      "  -S N     with -a or --time: signal one of N RDMA writes, 1 to 32 (1)\n"
	      "  --csv, --json  with -a or --time: the client prints the sizes in this form, and "
	      "all\n"
	      "           else on the standard error\n"
	      "  -D -t -u validate data, print times, write one way: always done\n"
	      "  -d SEC   server: seconds between a request and its accept (0)\n"
	      "  -c       wait for completions on a CNO\n"
	      "  -p       poll for completions\n"
	      "  -v       trace every DAT call\n"
	      "  --wait SEC  time-out of each wait, 1 to 3600 (20 for a request, 10 to connect,\n"
	      "           5 and more for a long burst for a transfer)\n"
	      "  --old    send no parameters and check none, as older programs of this name\n"
	      "  -q       only print the attributes of the interface adapter and its provider\n"
	      "  --list   only print the names of dat.conf, and which of them can be opened\n"
	      "  -U       print this text, with exit status 244; --help is the same with 0\n"
	      "  -V       print the version, as --version\n"
	      "-a, -b, -B, -w, -W and --time are the same on both sides.\n",
	      to);
}

static int dtest_parse_number(const char *option, const char *text, unsigned min, unsigned max,
			      unsigned *value)
{
	unsigned long number;

	if (tool_number_parse(text, min, max, &number) < 0) {
		fprintf(stderr, DTEST ": %s %s: not a number from %u to %u\n", option, text, min,
			max);
		return -1;
	}
	*value = (unsigned)number;
	return 0;
}

static int dtest_parse_format(struct dtest_options *opt, enum dtest_format format)
{
	if (opt->format != FORMAT_TEXT && opt->format != format) {
		fprintf(stderr, DTEST ": --csv: not with --json\n");
		return -1;
	}
	opt->format = format;
	return 0;
}

/* Takes an option without an argument. Some of them end the run, some are without effect. */
static int dtest_parse_flag(struct dtest_options *opt, int option)
{
	switch (option) {
	case 'c':
		opt->cno = true;
		return 0;
	case 'p':
		opt->poll = true;
		return 0;
	case 'w':
		opt->write_only = true;
		return 0;
	case 'W':
		opt->write_pings = true;
		return 0;
	case 'v':
		dtest_trace_on();
		return 0;
	case 'a':
		opt->mode |= MODE_SWEEP;
		return 0;
	case 'q':
		opt->mode |= MODE_QUERY;
		return 0;
	case OPTION_CSV:
		return dtest_parse_format(opt, FORMAT_CSV);
	case OPTION_JSON:
		return dtest_parse_format(opt, FORMAT_JSON);
	case OPTION_OLD:
		opt->old = true;
		return 0;
	case OPTION_LIST:
		opt->mode |= MODE_LIST;
		return 0;
	case 'D':
	case 't':
	case 'u':
		return 0; /* always done; scripts have these options */
	case 'U':
		dtest_usage(stdout);
		exit(STATUS_USAGE);
	case OPTION_HELP:
		dtest_usage(stdout);
		exit(0);
	case 'V':
		puts(DTEST " (" PACKAGE_NAME ") " PACKAGE_VERSION);
		exit(0);
	default:
		return -1; /* getopt_long has printed the reason */
	}
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
		return dtest_parse_number("-b", argument, 1, SIZE_MAX_BYTES, &opt->size);
	case 'B':
		return dtest_parse_number("-B", argument, 1, BURST_MAX, &opt->burst);
	case 'd':
		return dtest_parse_number("-d", argument, 0, DELAY_MAX, &opt->delay);
	case 'n':
		return dtest_parse_number("-n", argument, 1, UINT16_MAX, &opt->port);
	case 'S':
		return dtest_parse_number("-S", argument, 1, SIGNAL_MAX, &opt->signal);
	case OPTION_TIME:
		return dtest_parse_number("--time", argument, 1, TIME_MAX, &opt->time);
	case OPTION_WAIT:
		return dtest_parse_number("--wait", argument, 1, WAIT_MAX, &opt->wait);
	default:
		return dtest_parse_flag(opt, option);
	}
}

/* The system would end programs, and this one first, to give it all memory of the host. */
static int dtest_check_memory(const struct dtest_options *opt)
{
	const uint64_t bytes = dtest_buffers_bytes(opt), most = tool_memory_most();

	if (!(opt->mode & ANY_TEST) || bytes <= most)
		return 0;
	fprintf(stderr,
		DTEST ": -b %u -B %u: the test needs %" PRIu64 " bytes of memory; it may take "
		      "%" PRIu64 ", half of what there is\n",
		opt->size, opt->burst, bytes, most);
	return -1;
}

/* -q and --list only print something: neither goes with a test, nor with the other. */
static int dtest_check_mode(const struct dtest_options *opt)
{
	const char *const test = opt->mode & MODE_SWEEP ? "-a"
				 : opt->time		? "--time"
				 : opt->write_only	? "-w"
							: NULL;
	const char *only = NULL, *other = test;

	if (opt->mode & MODE_QUERY)
		only = "-q";
	if (opt->mode & MODE_LIST) {
		other = only ? only : test;
		only = "--list";
	}
	if (!only || !other)
		return 0;
	fprintf(stderr, DTEST ": %s: not with %s\n", only, other);
	return -1;
}

/* Decides what depends on other options, in whatever order they are given. Returns 0 or -1. */
static int dtest_complete_options(struct dtest_options *opt)
{
	const bool all_sizes = opt->mode & MODE_SWEEP, sweep = all_sizes || opt->time;

	opt->one_size = sweep && !all_sizes;
	if (dtest_check_mode(opt) < 0)
		return -1;
	if (opt->mode & MODE_LIST)
		opt->mode = MODE_LIST;
	else if (opt->mode & MODE_QUERY)
		opt->mode = MODE_QUERY;
	else
		opt->mode = sweep ? MODE_SWEEP : opt->write_only ? MODE_WRITES : MODE_CHECK;
	if (!opt->size)
		opt->size = all_sizes ? DEFAULT_SWEEP_SIZE : DEFAULT_SIZE;
	if (!opt->burst)
		opt->burst = sweep ? DEFAULT_SWEEP_BURST : DEFAULT_BURST;
	if (!sweep && opt->size < SIZE_MIN) {
		fprintf(stderr, DTEST ": -b %u: not a number from %d to %d without -a\n", opt->size,
			SIZE_MIN, SIZE_MAX_BYTES);
		return -1;
	}
	if (opt->old && opt->mode & (MODE_SWEEP | MODE_WRITES)) {
		fprintf(stderr, DTEST ": --old: not with %s\n",
			all_sizes   ? "-a"
			: opt->time ? "--time"
				    : "-w");
		return -1;
	}
	if (!sweep && (opt->write_pings || opt->signal)) {
		fprintf(stderr, DTEST ": -%c: only with -a or --time\n",
			opt->write_pings ? 'W' : 'S');
		return -1;
	}
	if (!sweep && opt->format != FORMAT_TEXT) {
		fprintf(stderr, DTEST ": --%s: only with -a or --time\n",
			opt->format == FORMAT_CSV ? "csv" : "json");
		return -1;
	}
	if (opt->write_only && opt->write_pings) {
		fprintf(stderr, DTEST ": -W: not with -w, which has no pings\n");
		return -1;
	}
	if (!opt->signal)
		opt->signal = 1;
	return dtest_check_memory(opt);
}

static void dtest_parse_options(struct dtest_options *opt, int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "csv", no_argument, NULL, OPTION_CSV },
		{ "help", no_argument, NULL, OPTION_HELP },
		{ "json", no_argument, NULL, OPTION_JSON },
		{ "list", no_argument, NULL, OPTION_LIST },
		{ "old", no_argument, NULL, OPTION_OLD },
		{ "port", required_argument, NULL, 'n' },
		{ "time", required_argument, NULL, OPTION_TIME },
		{ "version", no_argument, NULL, 'V' },
		{ "wait", required_argument, NULL, OPTION_WAIT },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "sh:P:n:b:B:d:S:acpqtuvwDUVW", long_options,
				     NULL)) != -1)
		if (dtest_parse_option(opt, option, optarg) < 0)
			goto refuse;
	if (optind == argc && dtest_complete_options(opt) == 0)
		return;
	if (optind < argc)
		fprintf(stderr, DTEST ": %s: not an option\n", argv[optind]);
refuse:
	fputs("try " DTEST " --help\n", stderr);
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

static void dtest_run(struct dtest *t)
{
	const size_t count = sizeof(steps) / sizeof(steps[0]);
	size_t done;

	for (done = 0; done < count; done++)
		if (steps[done].modes & t->opt.mode &&
		    dtest_call_step(t, steps[done].setup, steps[done].setup_timer) < 0) {
			dtest_context(t, "in step", "%s", steps[done].name);
			t->failed = true;
			break;
		}
	while (done-- > 0)
		if (steps[done].modes & t->opt.mode && steps[done].teardown &&
		    dtest_call_step(t, steps[done].teardown, steps[done].teardown_timer) < 0) {
			dtest_error("in undoing step", "%s", steps[done].name);
			t->failed = true;
		}
}

int main(int argc, char **argv)
{
	static char default_name[] = TOOL_IA;
	struct dtest t = { .opt = { .ia_name = default_name, .port = PORT } };

	(void)setvbuf(stdout, NULL, _IOLBF, 0); /* scripts read the output during the run */
	tool_causes_show();
	tool_output_watch(TOOL_NAME("dtest"));
	dtest_parse_options(&t.opt, argc, argv);
	if (t.opt.mode == MODE_LIST)
		return dtest_list_names() < 0 ? STATUS_FAILED : 0;
	t.server = !t.opt.host;
	if (t.opt.format != FORMAT_TEXT)
		dtest_tables_only();
	if (t.opt.mode & ANY_TEST)
		dtest_print("Running as %s - %s", t.server ? "server" : "client", t.opt.ia_name);
	dtest_run(&t);
	if (t.opt.mode & ANY_TEST)
		dtest_print_result(&t);
	if (t.opt.mode == MODE_SWEEP && !t.server)
		dtest_table_end(&t);
	return t.failed ? STATUS_FAILED : 0;
}
