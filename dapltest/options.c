/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line: the options of each mode, and the operations that follow them. */
#include "dapltest.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
	ITERATIONS = 1000,
	LIMIT_MAX = 1000,
	SEGMENT_SIZE = 4096,
	WIDTH_MAX = 1000,
};

static const char usage_text[] =
	"usage: " DAPLTEST " [-T S [-D NAME] [-n PORT] [-d] [-R QOS]]\n"
	"       " DAPLTEST
	" -T T -s HOST [-D NAME] [-n PORT] [-i N] [-t N] [-w N] [-VPQr] [-d] [-R "
	"QOS]\n"
	"                client|server SR|RW|RR [SIZE [SEGMENTS]] [-f] ...\n"
	"       " DAPLTEST
	" -T P -s HOST [-D NAME] [-n PORT] [-i N] [-m b|p] [-p N] [-d] [-R QOS]\n"
	"                RW|RR [SIZE [SEGMENTS]]\n"
	"       " DAPLTEST " -T Q -s HOST [-D NAME] [-n PORT] [-d] [-R QOS]\n"
	"       " DAPLTEST " -T L [-D NAME] [-m N] [-w N] [-d] [TEST ...]\n"
	"       " DAPLTEST " -T F -f FAMILY [-D NAME] [CASE ...]\n"
	"       " DAPLTEST " -f FILE | --help | --version\n"
	"modes: S the server, also without arguments; T transactions; P performance; Q ends the\n"
	"server; L limits of a device; F functions\n"
	"  -D NAME  interface adapter to open, as dat.conf names it (" TOOL_IA ")\n"
	"  -s HOST  the host of the server\n"
	"  -n PORT  of the server (" SERVER_PORT_TEXT "); 0: the server chooses one and prints it\n"
	"  -d       print the steps; -dd: and the calls\n"
	"  -R QOS   HT, LL, EC, PM or BE (BE)\n"
	"  -i N     iterations (1000)\n"
	"  -t N     T: threads (1)\n"
	"  -w N     T: endpoints of a thread; L: objects of each kind that the others use (1)\n"
	"  -V       T: check the data\n"
	"  -P       T: poll for completions\n"
	"  -Q       T: wait for completions on a CNO\n"
	"  -r       T: the server uses reserved service points\n"
	"  -m b|p   P: wait for completions (b) or poll\n"
	"  -p N     P: requests in flight (as many as an endpoint has by default)\n"
	"  -m N     L: objects to create at most (1000)\n"
	"  -f NAME  F: family hwconn, endpoint, pz, mem, connmgt or queryinfo; cases case0, "
	"case1...\n"
	"  -f FILE  as the only option: read the arguments from this file\n";

void options_usage(FILE *to)
{
	fputs(usage_text, to);
}

static const struct mode_form {
	char letter;
	enum mode mode;
	const char *options; /* as getopt takes them; '+': it ends at the first operand */
} mode_forms[] = {
	{ 'S', MODE_SERVER, "+:D:dR:n:" },
	{ 'Q', MODE_QUIT, "+:D:dR:n:s:" },
	{ 'T', MODE_TRANSACTION, "+:D:dR:n:s:i:t:w:VPQr" },
	{ 'P', MODE_PERFORMANCE, "+:D:dR:n:s:i:m:p:" },
	{ 'L', MODE_LIMIT, "+:D:dR:w:m:" },
	{ 'F', MODE_FUNCTION, "+:D:dR:n:s:i:t:v:f:" },
};

static int option_number(int option, const char *text, unsigned long min, unsigned long max,
			 unsigned *value)
{
	unsigned long number;

	if (tool_number_parse(text, min, max, &number) < 0) {
		complain(DAPLTEST ": -%c %s: not a number from %lu to %lu", option, text, min, max);
		return -1;
	}
	*value = (unsigned)number;
	return 0;
}

/* 0 means the default in a plan, but is none of the numbers to ask for. */
static int option_plan_number(int option, const char *text, enum plan_number number,
			      unsigned *value)
{
	return option_number(option, text, 1, plan_ranges[number].max, value);
}

static int option_port(struct options *options, const char *text)
{
	unsigned port;

	if (option_number('n', text, options->mode == MODE_SERVER ? 0 : 1, UINT32_MAX, &port) < 0)
		return -1;
	options->port = port;
	return 0;
}

/* What is none of the names means best effort, as in all programs of this name. */
static DAT_QOS option_qos(const char *text)
{
	static const struct {
		const char *name;
		DAT_QOS qos;
	} names[] = {
		{ "HT", DAT_QOS_HIGH_THROUGHPUT },
		{ "LL", DAT_QOS_LOW_LATENCY },
		{ "EC", DAT_QOS_ECONOMY },
		{ "PM", DAT_QOS_PREMIUM },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(text, names[i].name) == 0)
			return names[i].qos;
	return DAT_QOS_BEST_EFFORT;
}

/* Two modes have an option -m, with different meanings. */
static int option_m(struct options *options, const char *text)
{
	if (options->mode == MODE_LIMIT)
		return option_number('m', text, 1, INT32_MAX, &options->max);
	if (strcmp(text, "b") != 0 && strcmp(text, "p") != 0) {
		complain(DAPLTEST ": -m %s: neither b nor p", text);
		return -1;
	}
	options->plan.poll = *text == 'p';
	return 0;
}

static int option_w(struct options *options, const char *text)
{
	if (options->mode == MODE_LIMIT)
		return option_number('w', text, 1, WIDTH_MAX, &options->width);
	return option_plan_number('w', text, PLAN_LANES, &options->plan.lanes);
}

static int option_f(struct options *options, const char *text)
{
	if (!function_family_known(text)) {
		complain(DAPLTEST
			 ": -f %s: the families are hwconn, endpoint, pz, mem, connmgt and "
			 "queryinfo",
			 text);
		return -1;
	}
	options->family = text;
	return 0;
}

/* Takes an option that only one or two modes have. */
static int option_take_special(struct options *options, int option, const char *value)
{
	struct plan *plan = &options->plan;

	switch (option) {
	case 'V':
		plan->validate = true;
		return 0;
	case 'P':
		plan->poll = true;
		return 0;
	case 'Q':
		plan->cno = true;
		return 0;
	case 'r':
		plan->rsp = true;
		return 0;
	case 'm':
		return option_m(options, value);
	case 'w':
		return option_w(options, value);
	case 'f':
		return option_f(options, value);
	case 'p':
		return option_plan_number(option, value, PLAN_PIPELINE, &plan->pipeline);
	case 't':
		return option_plan_number(option, value, PLAN_THREADS, &plan->threads);
	default:
		return option_plan_number(option, value, PLAN_ITERATIONS, &plan->iterations);
	}
}

static int option_take(struct options *options, int option, char *value)
{
	switch (option) {
	case 'D':
		options->ia_name = value;
		return 0;
	case 'd':
		options->debug++;
		return 0;
	case 'R':
		options->plan.qos = option_qos(value);
		return 0;
	case 's':
		options->host = value;
		return 0;
	case 'n':
		return option_port(options, value);
	case 'i':
	case 't':
	case 'v':
		if (options->mode == MODE_FUNCTION)
			return 0; /* without effect there */
		return option_take_special(options, option, value);
	default:
		return option_take_special(options, option, value);
	}
}

/* ---- operations ---- */

/* The operands are one list of words, because an operation may be one quoted argument. */
struct word_list {
	char **words;
	unsigned count;
	unsigned next;
	char *text; /* the words are in here */
};

static int word_list_split(struct word_list *list, char **operands, int count)
{
	size_t length = 0;
	char *rest, *word;

	for (int i = 0; i < count; i++)
		length += strlen(operands[i]) + 1;
	*list = (struct word_list){ .text = malloc(length + 1),
				    .words = calloc(length + 1, sizeof(*list->words)) };
	if (!list->text || !list->words) {
		complain(DAPLTEST ": no memory for the operands");
		free(list->words);
		free(list->text);
		return -1;
	}
	rest = list->text;
	*rest = '\0';
	for (int i = 0; i < count; i++)
		rest = stpcpy(stpcpy(rest, operands[i]), " ");
	rest = list->text;
	while ((word = strtok_r(rest, " \t\n", &rest)))
		list->words[list->count++] = word;
	return 0;
}

static void word_list_free(struct word_list *list)
{
	free(list->words);
	free(list->text);
}

static const char *word_peek(const struct word_list *list)
{
	return list->next < list->count ? list->words[list->next] : NULL;
}

static bool word_take(struct word_list *list, const char *wanted)
{
	const char *word = word_peek(list);

	if (!word || strcasecmp(word, wanted) != 0)
		return false;
	list->next++;
	return true;
}

/*
 * Takes an optional number. If the next word does not begin with a digit, it returns 0 and leaves
 * *value.
 */
static int word_take_number(struct word_list *list, const char *what, unsigned max, unsigned *value)
{
	const char *word = word_peek(list);
	unsigned long number;

	if (!word || *word < '0' || *word > '9')
		return 0;
	if (tool_number_parse(word, 1, max, &number) < 0) {
		complain(DAPLTEST ": %s: not a %s from 1 to %u", word, what, max);
		return -1;
	}
	*value = (unsigned)number;
	list->next++;
	return 0;
}

static int operation_parse_transfer(struct word_list *list, struct operation *op)
{
	const char *word = word_peek(list);

	op->segment_size = SEGMENT_SIZE;
	op->segments = 1;
	if (word_take(list, "SR")) {
		op->transfer = TRANSFER_SEND;
	} else if (word_take(list, "RW")) {
		op->transfer = TRANSFER_WRITE;
	} else if (word_take(list, "RR")) {
		op->transfer = TRANSFER_READ;
	} else {
		complain(DAPLTEST ": %s: SR, RW or RR must be here",
			 word ? word : "end of arguments");
		return -1;
	}
	if (word_take_number(list, "segment size", plan_ranges[PLAN_SEGMENT_SIZE].max,
			     &op->segment_size) < 0)
		return -1;
	return word_take_number(list, "number of segments", plan_ranges[PLAN_SEGMENTS].max,
				&op->segments);
}

static int operation_parse(struct word_list *list, struct operation *op)
{
	*op = (struct operation){ .by_server = word_take(list, "server") };
	if (!op->by_server && !word_take(list, "client")) {
		complain(DAPLTEST ": %s: client or server must be here", word_peek(list));
		return -1;
	}
	if (operation_parse_transfer(list, op) < 0)
		return -1;
	op->reap_late = word_take(list, "-f");
	return 0;
}

const char *operation_text(const struct operation *op, char *text, size_t size)
{
	static const char *const transfers[] = {
		[TRANSFER_SEND] = "SR",
		[TRANSFER_WRITE] = "RW",
		[TRANSFER_READ] = "RR",
	};

	(void)snprintf(text, size, "%s %s %u %u%s", op->by_server ? "server" : "client",
		       transfers[op->transfer], op->segment_size, op->segments,
		       op->reap_late ? " -f" : "");
	return text;
}

static void operations_add_barriers(struct plan *plan)
{
	for (unsigned i = 0; i < BARRIERS; i++) {
		struct operation *op = &plan->ops[plan->op_count++];

		*op = (struct operation){ .by_server = i != 1,
					  .transfer = TRANSFER_SEND,
					  .segment_size = SEGMENT_SIZE,
					  .segments = 1 };
		report("NOTE: Adding OP \"%s SR\" to separate the iterations",
		       op->by_server ? "server" : "client");
	}
}

static int operations_parse(struct plan *plan, struct word_list *list)
{
	const char *problem;

	while (word_peek(list)) {
		if (plan->op_count == OPS_MAX) {
			complain(DAPLTEST ": more than %d operations", OPS_MAX);
			return -1;
		}
		if (operation_parse(list, &plan->ops[plan->op_count]) < 0)
			return -1;
		plan->op_count++;
	}
	problem = plan_sends_problem(plan);
	if (!problem)
		problem = plan_sizes_problem(plan);
	if (problem) {
		complain(DAPLTEST ": %s", problem);
		return -1;
	}
	if (plan->validate)
		operations_add_barriers(plan);
	return 0;
}

static int performance_operation_parse(struct plan *plan, struct word_list *list)
{
	if (operation_parse_transfer(list, &plan->ops[0]) < 0)
		return -1;
	if (plan->ops[0].transfer == TRANSFER_SEND) {
		complain(DAPLTEST ": SR is no operation of -T P");
		return -1;
	}
	if (word_peek(list)) {
		complain(DAPLTEST ": %s: -T P has one operation", word_peek(list));
		return -1;
	}
	plan->op_count = 1;
	if (plan_sizes_problem(plan)) {
		complain(DAPLTEST ": %s", plan_sizes_problem(plan));
		return -1;
	}
	return 0;
}

/* ---- operands of the other modes ---- */

static int limit_tests_parse(struct options *options, struct word_list *list)
{
	for (const char *word; (word = word_peek(list)); list->next++) {
		int test = limit_test_find(word);

		if (test < 0) {
			complain(DAPLTEST ": %s: not a limit test", word);
			return -1;
		}
		options->limit_tests |= 1U << test;
	}
	return 0;
}

static int cases_parse(struct options *options, struct word_list *list)
{
	unsigned count = function_case_count(options->family);

	for (const char *word; (word = word_peek(list)); list->next++) {
		unsigned long number;

		if (strncmp(word, "case", 4) != 0 ||
		    tool_number_parse(word + 4, 0, count - 1, &number) < 0) {
			complain(DAPLTEST ": %s: the cases of %s are case0 to case%u", word,
				 options->family, count - 1);
			return -1;
		}
		options->cases |= UINT32_C(1) << number;
	}
	return 0;
}

static int operands_parse(struct options *options, struct word_list *list)
{
	switch (options->mode) {
	case MODE_TRANSACTION:
		return operations_parse(&options->plan, list);
	case MODE_PERFORMANCE:
		return performance_operation_parse(&options->plan, list);
	case MODE_LIMIT:
		return limit_tests_parse(options, list);
	case MODE_FUNCTION:
		return cases_parse(options, list);
	default:
		if (!word_peek(list))
			return 0;
		complain(DAPLTEST ": %s: this mode has no operands", word_peek(list));
		return -1;
	}
}

static int options_check(const struct options *options)
{
	if ((options->mode == MODE_TRANSACTION || options->mode == MODE_PERFORMANCE ||
	     options->mode == MODE_QUIT) &&
	    !options->host) {
		complain(DAPLTEST ": -s HOST must tell where the server is");
		return -1;
	}
	if (options->mode == MODE_FUNCTION && !options->family) {
		complain(DAPLTEST ": -f FAMILY must tell what to test");
		return -1;
	}
	if ((unsigned long)options->plan.threads * options->plan.lanes > LANES_MAX) {
		complain(DAPLTEST ": -t and -w make more than %d endpoints", LANES_MAX);
		return -1;
	}
	return 0;
}

static const struct mode_form *mode_find(int argc, char **argv, int *used)
{
	const char *letter;

	if (strncmp(argv[1], "-T", 2) != 0) {
		complain(DAPLTEST ": %s: the first option is -T, or the only one is -f", argv[1]);
		return NULL;
	}
	*used = argv[1][2] ? 1 : 2;
	letter = argv[1][2] ? argv[1] + 2 : argc > 2 ? argv[2] : "";
	for (size_t i = 0; i < sizeof(mode_forms) / sizeof(mode_forms[0]); i++)
		if (letter[0] == mode_forms[i].letter && !letter[1])
			return &mode_forms[i];
	complain(DAPLTEST ": -T %s: the modes are S, T, P, Q, L and F", letter);
	return NULL;
}

int options_parse(struct options *options, int argc, char **argv)
{
	static char default_name[] = TOOL_IA;
	const struct mode_form *form = &mode_forms[0];
	struct word_list list;
	int used = 0, option, result;

	*options =
		(struct options){ .ia_name = default_name,
				  .port = SERVER_PORT,
				  .width = 1,
				  .max = LIMIT_MAX,
				  .plan = { .iterations = ITERATIONS, .threads = 1, .lanes = 1 } };
	if (argc > 1)
		form = mode_find(argc, argv, &used);
	if (!form)
		return -1;
	options->mode = options->plan.mode = form->mode;
	optind = 0; /* begins anew; the word before the options stands for the program's name */
	while ((option = getopt(argc - used, argv + used, form->options)) != -1) {
		if (option == '?' || option == ':') {
			complain(DAPLTEST ": -%c: %s -T %c", optopt,
				 option == '?' ? "not an option of" : "lacks its value, with",
				 form->letter);
			return -1;
		}
		if (option_take(options, option, optarg) < 0)
			return -1;
	}
	if (options_check(options) < 0 ||
	    word_list_split(&list, argv + used + optind, argc - used - optind) < 0)
		return -1;
	result = operands_parse(options, &list);
	word_list_free(&list);
	return result;
}

/* ---- a file of arguments ---- */

/* A # where a word could begin starts a comment. */
static void argument_file_split(struct argument_file *file)
{
	char *text = file->text, *line, *word;

	while ((line = strsep(&text, "\n")))
		while ((word = strtok_r(line, " \t\r", &line)) && *word != '#')
			file->argv[file->argc++] = word;
}

int argument_file_read(struct argument_file *file, const char *path, char *program)
{
	FILE *stream = fopen(path, "r");
	const char *problem = NULL; /* else that of errno */
	size_t room = 0;
	ssize_t length;

	*file = (struct argument_file){ .argc = 1 };
	if (!stream)
		goto complain;
	length = getdelim(&file->text, &room, '\0', stream);
	if (length < 0 && !feof(stream))
		goto close_stream;
	if (length > 0 && !file->text[length - 1]) {
		problem = "has a NUL, so it is no file of arguments";
		goto close_stream;
	}
	if (length <= 0 && file->text)
		*file->text = '\0'; /* an empty file */
	/* program, every other byte of the text, and NULL */
	file->argv = calloc((length > 0 ? (size_t)length : 0) / 2 + 3, sizeof(*file->argv));
	if (!file->argv)
		goto close_stream;
	file->argv[0] = program;
	argument_file_split(file);
	if (file->argc == 1) {
		problem = "has no arguments; a server is -T S";
		goto close_stream;
	}
	(void)fclose(stream);
	return 0;
close_stream:
	(void)fclose(stream);
	argument_file_free(file);
complain:
	complain(DAPLTEST ": %s: %s", path, problem ? problem : strerror(errno));
	return -1;
}

void argument_file_free(struct argument_file *file)
{
	free(file->argv);
	free(file->text);
}
