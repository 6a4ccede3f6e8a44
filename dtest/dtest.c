/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dtest: two processes, one connection, every kind of data transfer; the options, and the list of
 * steps.
 */
#include "dtest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	STATUS_FAILED = 1,
	STATUS_USAGE = 244,
	SIZE_MAX_BYTES = 1 << 30,
	BURST_MAX = 65535,
	DELAY_MAX = 24 * 60 * 60,
};

/* Done from the first to the last, undone from the last one done to the first. */
struct step {
	const char *name;
	int (*up)(struct dtest *t);
	int (*down)(struct dtest *t); /* NULL: leaves nothing to undo */
	enum timer up_timer;
	enum timer down_timer;
};

static const struct step test_steps[] = {
	{ "open the IA", ia_open, ia_close, TIME_OPEN, TIME_CLOSE },
	{ "create the PZ", pz_create, pz_free, TIME_PZ_CREATE, TIME_PZ_FREE },
	{ "register the buffers", buffers_create, buffers_free, TIME_LMR_CREATE, TIME_LMR_FREE },
	{ "create the CNO", cno_create, cno_free, TIME_CNO_CREATE, TIME_CNO_FREE },
	{ "create the EVDs", evds_create, evds_free, TIME_EVD_CREATE, TIME_EVD_FREE },
	{ "create the EP", ep_create, ep_free, TIME_EP_CREATE, TIME_EP_FREE },
	{ "register the messages", messages_create, messages_free, UNTIMED, UNTIMED },
	{ "post the receives", receives_post, NULL, UNTIMED, UNTIMED },
	{ "create the PSP", psp_create, psp_free, UNTIMED, UNTIMED },
	{ "connect", connection_open, connection_close, UNTIMED, UNTIMED },
	{ "exchange RMRs", rmrs_exchange, NULL, UNTIMED, UNTIMED },
	{ "query the EP", addresses_print, NULL, UNTIMED, UNTIMED },
	{ "RDMA write", rdma_write, NULL, UNTIMED, UNTIMED },
	{ "RDMA read", rdma_read, NULL, UNTIMED, UNTIMED },
	{ "ping", ping_pong, NULL, UNTIMED, UNTIMED },
};

static const struct step query_steps[] = {
	{ "open the IA", ia_open, ia_close, TIME_OPEN, TIME_CLOSE },
	{ "query the IA", attributes_print, NULL, UNTIMED, UNTIMED },
};

static void usage(FILE *to)
{
	fputs("usage: dtest [-s | -h HOST] [-P NAME] [-b N] [-B N] [-d SEC] [-cpv]\n"
	      "       dtest -q [-P NAME] [-v]\n"
	      "  -s       be the server (so it is without -h)\n"
	      "  -h HOST  be the client of the server on HOST\n"
	      "  -P NAME  interface adapter to open, as dat.conf names it (OpenIB-cma)\n"
	      "  -b N     bytes of a buffer, 26 or more (64); the same on both sides\n"
	      "  -B N     RDMA writes and pings in a burst (10); the same on both sides\n"
	      "  -d SEC   server: seconds between a request and its accept (0)\n"
	      "  -c       learn of completions through a CNO\n"
	      "  -p       poll for completions\n"
	      "  -v       trace every DAT call\n"
	      "  -q       only print what adapter and provider say of themselves\n"
	      "  -U       print this text\n",
	      to);
}

static int number_parse(int option, const char *text, unsigned min, unsigned max, unsigned *value)
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

static int option_take(struct options *opt, int option, char *argument)
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
		return number_parse(option, argument, SIZE_MIN, SIZE_MAX_BYTES, &opt->size);
	case 'B':
		return number_parse(option, argument, 1, BURST_MAX, &opt->burst);
	case 'd':
		return number_parse(option, argument, 0, DELAY_MAX, &opt->delay);
	case 'c':
		opt->cno = true;
		return 0;
	case 'p':
		opt->poll = true;
		return 0;
	case 'v':
		trace_on();
		return 0;
	case 'q':
		opt->query = true;
		return 0;
	case 'U':
		usage(stdout);
		exit(STATUS_USAGE);
	default:
		return -1; /* getopt has named it */
	}
}

static void options_parse(struct options *opt, int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "sh:P:b:B:d:cpvqU")) != -1)
		if (option_take(opt, option, optarg) < 0)
			goto refuse;
	if (optind == argc)
		return;
	fprintf(stderr, "dtest: %s: not an option\n", argv[optind]);
refuse:
	usage(stderr);
	exit(STATUS_USAGE);
}

static int step_call(struct dtest *t, int (*call)(struct dtest *), enum timer timer)
{
	double begun = usec_now();
	int result = call(t);

	if (timer != UNTIMED)
		t->timers[timer] = usec_now() - begun;
	return result;
}

static void run(struct dtest *t, const struct step *steps, size_t count)
{
	size_t done;

	for (done = 0; done < count; done++)
		if (step_call(t, steps[done].up, steps[done].up_timer) < 0) {
			complain("in step", "%s", steps[done].name);
			t->failed = true;
			break;
		}
	while (done-- > 0)
		if (steps[done].down &&
		    step_call(t, steps[done].down, steps[done].down_timer) < 0) {
			complain("in undoing step", "%s", steps[done].name);
			t->failed = true;
		}
}

int main(int argc, char **argv)
{
	static char default_name[] = "OpenIB-cma";
	struct dtest t = { .opt = { .ia_name = default_name, .size = 64, .burst = 10 } };

	(void)setvbuf(stdout, NULL, _IOLBF, 0); /* scripts read our log while we run */
	options_parse(&t.opt, argc, argv);
	if (t.opt.query) {
		run(&t, query_steps, sizeof(query_steps) / sizeof(query_steps[0]));
		return t.failed ? STATUS_FAILED : 0;
	}
	t.server = !t.opt.host;
	say("Running as %s - %s", t.server ? "server" : "client", t.opt.ia_name);
	run(&t, test_steps, sizeof(test_steps) / sizeof(test_steps[0]));
	result_print(&t);
	return t.failed ? STATUS_FAILED : 0;
}
