/* SPDX-License-Identifier: BSD-2-Clause */
/* datinfo: lists, checks and generates dat.conf, and tells why a name does not open. */
#include "datinfo.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "../dat/conf.h"
#include "../tools/tools.h"

enum {
	OPTION_ALL = 256,
	OPTION_JSON,
	OPTION_CHECK,
	OPTION_GENERATE,
	OPTION_PEER,
	OPTION_WAIT,
};

static void usage(void)
{
	fputs("usage: datinfo [--all] [--json] [--wait SEC] [NAME...]\n"
	      "       datinfo --peer HOST[:PORT] [--all] [--json] [--wait SEC] [NAME...]\n"
	      "       datinfo --check FILE...\n"
	      "       datinfo --generate\n"
	      "       datinfo -h | --help | -V | --version\n"
	      "Without options: the names of dat.conf in its order; which of them open, and why "
	      "the\n"
	      "others don't. With NAMEs: these, with their attributes. Exit status 1 if one does "
	      "not\n"
	      "open.\n"
	      "  --all       all names that do not open; else, of those with like causes, two, and "
	      "how\n"
	      "              many more there are\n"
	      "  --json      the list, with all names, for programs\n"
	      "  --check     only look for bad lines, and for lines that no program can use; exit\n"
	      "              status 1 if there are any\n"
	      "  --generate  print a dat.conf for the devices and interfaces of this host, for\n"
	      "              programs of DAT 1.2 and 2.0; to add it to another one:\n"
	      "              datinfo --generate >>/etc/dat.conf\n"
	      "  --peer HOST[:PORT]  which names reach a server of dtest or dapltest on HOST, at "
	      "PORT\n"
	      "              (45248), and what is in the way of the others; exit status 1 if none "
	      "does,\n"
	      "              or one of NAMES does not\n"
	      "  --wait SEC  how long a name may take to open (30), and to reach a peer (10), 1 to "
	      "3600\n",
	      stdout);
}

static int try_help(void)
{
	fputs("try datinfo --help\n", stderr);
	return 2;
}

static int usage_wrong(const char *what)
{
	fprintf(stderr, "datinfo: %s\n", what);
	return try_help();
}

/* ---- datinfo [NAME...] ---- */

/* How many names open, and how many do what is asked, or do not: to open, or to reach the peer. */
struct results {
	bool peer;
	unsigned open, good, bad;
};

static bool is_wanted(const struct conf_name *name, char **wanted, int count)
{
	for (int i = 0; i < count; i++)
		if (name->name && !strcmp(name->name, wanted[i]))
			return true;
	return !count;
}

/* Tells whether no line before it has the same name. */
static bool is_first(const struct conf_file *file, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (file->names[i].name && !strcmp(file->names[i].name, file->names[index].name))
			return false;
	return true;
}

static void names_print(const struct conf_file *file)
{
	char text[TEXT];

	fprintf(stderr, "The names of %s are:", file->path);
	for (size_t i = 0; i < file->count; i++)
		if (file->names[i].name && is_first(file, i))
			fprintf(stderr, " %s",
				conf_printable(file->names[i].name, text, sizeof(text)));
	fputc('\n', stderr);
}

/*
 * Tells whether every name that was asked for is there; each one that is not gets a line, and is
 * in @missing.
 */
static bool names_exist(const struct conf_file *file, char **wanted, int count, char missing[TEXT])
{
	size_t length = 0;

	for (int i = 0; i < count; i++) {
		bool found = false;

		for (size_t n = 0; n < file->count; n++)
			found |= file->names[n].name && !strcmp(file->names[n].name, wanted[i]);
		if (found)
			continue;
		fprintf(stderr, "datinfo: %s has no name %s\n", file->path, wanted[i]);
		snprintf(missing + length, TEXT - length, "%s%s",
			 length ? ", " : "no line defines ", wanted[i]);
		length = strlen(missing);
	}
	if (length)
		names_print(file);
	return !length;
}

/* Counts a name as one that does, or does not do, what is asked. */
static void result_count(const struct conf_name *name, const struct probe *probe,
			 struct results *results)
{
	const bool opens = probe && probe->stage == PROBE_OPENED;

	results->open += opens;
	if (opens && (!results->peer || probe->peer.state == PEER_REACHED))
		results->good++;
	else if (probe || name->refused)
		results->bad++;
}

/* Without names it is enough if one of them reaches the peer: each network has its own. */
static int result_status(const struct results *results, int wanted)
{
	if (results->peer && !results->open)
		fprintf(stderr, "datinfo: no name opens; datinfo without --peer tells why\n");
	return results->peer && !wanted ? !results->good : results->bad > 0;
}

/* No line is looked at. With --json there is an object nevertheless. */
static int list_none(struct report *report, const char *reason)
{
	report->reason = reason;
	if (report->json) {
		report_begin(report);
		report_end(report);
	}
	return 1;
}

static int list(struct report report, char **wanted, int count)
{
	char missing[TEXT];
	struct conf_file file;
	struct host host;
	struct results results = { .peer = report.peer };
	int err = conf_file_read(conf_file_find(), &file);

	report.file = &file;
	if (err) {
		fprintf(stderr, "datinfo: %s: %s; datinfo --generate prints one for this host\n",
			file.path, conf_text_error(err));
		return list_none(&report, conf_text_error(err));
	}
	if (!names_exist(&file, wanted, count, missing)) {
		list_none(&report, missing);
		conf_file_free(&file);
		return 1;
	}
	if (!file.count) {
		fprintf(stderr,
			"datinfo: %s: no line defines a name; datinfo --generate prints lines for "
			"this host\n",
			file.path);
		report.reason = "no line defines a name";
		results.bad++;
	}
	host_read(&host);
	report.host = &host;
	report.details = count > 0;
	report.all |= count > 0;
	report_begin(&report);
	for (size_t i = 0; i < file.count; i++) {
		const struct conf_name *name = &file.names[i];
		struct probe probe;
		bool opened;

		if (name->ignored || !is_wanted(name, wanted, count))
			continue;
		opened = !name->refused && name->edition;
		if (opened)
			probe_run(name, report.peer, &probe);
		report_name(&report, name, opened ? &probe : NULL);
		result_count(name, opened ? &probe : NULL, &results);
	}
	report_end(&report);
	host_free(&host);
	conf_file_free(&file);
	return result_status(&results, count);
}

/* ---- main ---- */

/*
 * Takes "host", "host:port", an IPv6 address, or "[address]:port" apart. Returns false if it is
 * none of these.
 */
static bool peer_parse(char *text, struct peer_target *target)
{
	char *colon = strrchr(text, ':'), *bracket = *text == '[' ? strchr(text, ']') : NULL;
	unsigned long port = TOOL_PORT;

	if (bracket) {
		*bracket++ = '\0';
		text++;
		colon = *bracket ? bracket : NULL;
	} else if (colon && strchr(text, ':') != colon) {
		colon = NULL;
	}
	if (colon && (*colon != ':' || tool_number_parse(colon + 1, 1, UINT16_MAX, &port) < 0))
		return false;
	if (colon)
		*colon = '\0';
	target->host = text;
	target->port = (unsigned)port;
	return *text && *text != '[';
}

static int check_all(char **paths, int count)
{
	struct host host;
	int rc = 0;

	if (!count)
		return usage_wrong("--check wants a file");
	host_read(&host);
	for (int i = 0; i < count; i++)
		rc |= check(paths[i], &host);
	host_free(&host);
	return rc;
}

static int generate_all(int count)
{
	struct host host;

	if (count)
		return usage_wrong("--generate takes no argument");
	host_read(&host);
	generate(&host, stdout);
	host_free(&host);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "all", no_argument, NULL, OPTION_ALL },
		{ "json", no_argument, NULL, OPTION_JSON },
		{ "check", no_argument, NULL, OPTION_CHECK },
		{ "generate", no_argument, NULL, OPTION_GENERATE },
		{ "help", no_argument, NULL, 'h' },
		{ "peer", required_argument, NULL, OPTION_PEER },
		{ "version", no_argument, NULL, 'V' },
		{ "wait", required_argument, NULL, OPTION_WAIT },
		{ NULL, 0, NULL, 0 },
	};
	int option, action = 0;
	struct peer_target peer = { .seconds = 10 };
	struct report report = { .peer = NULL };
	unsigned long seconds;

	tool_output_watch("datinfo");
	while ((option = getopt_long(argc, argv, "hV", options, NULL)) != -1) {
		switch (option) {
		case 'h':
			usage();
			return 0;
		case 'V':
			puts("datinfo " PACKAGE_VERSION);
			return 0;
		case OPTION_ALL:
			report.all = true;
			break;
		case OPTION_JSON:
			report.json = true;
			break;
		case OPTION_CHECK:
		case OPTION_GENERATE:
			if (action && action != option)
				return usage_wrong("--check and --generate don't go together");
			action = option;
			break;
		case OPTION_WAIT:
			if (tool_number_parse(optarg, 1, 3600, &seconds) < 0)
				return usage_wrong("--wait wants seconds, 1 to 3600");
			probe_limit = peer.seconds = (unsigned)seconds;
			break;
		case OPTION_PEER:
			if (!peer_parse(optarg, &peer))
				return usage_wrong("--peer wants HOST or HOST:PORT");
			report.peer = &peer;
			break;
		default:
			return try_help();
		}
	}
	if ((report.all || report.json || report.peer) && action)
		return usage_wrong("--all, --json and --peer go with the list only");
	argv += optind;
	argc -= optind;
	if (action == OPTION_CHECK)
		return check_all(argv, argc);
	if (action == OPTION_GENERATE)
		return generate_all(argc);
	return list(report, argv, argc);
}
