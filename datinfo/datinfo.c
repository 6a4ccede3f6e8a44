/* SPDX-License-Identifier: BSD-2-Clause */
/* datinfo: lists, checks and generates dat.conf, and tells why a name does not open. */
#include "datinfo.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "../tools/tools.h"

enum {
	OPTION_ALL = 256,
	OPTION_JSON,
	OPTION_CHECK,
	OPTION_GENERATE,
	OPTION_WAIT,
};

static void usage(FILE *to)
{
	fputs("usage: datinfo [--all] [--json] [--wait SEC] [NAME...]\n"
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
	      "  --wait SEC  how long a name may take to open, 1 to 3600 (30)\n",
	      to);
}

static int usage_wrong(const char *what)
{
	fprintf(stderr, "datinfo: %s\n", what);
	usage(stderr);
	return 2;
}

/* ---- datinfo [NAME...] ---- */

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
	fprintf(stderr, "The names of %s are:", file->path);
	for (size_t i = 0; i < file->count; i++)
		if (file->names[i].name && is_first(file, i))
			fprintf(stderr, " %s", file->names[i].name);
	fputc('\n', stderr);
}

/* Tells whether every name that was asked for is there; each one that is not gets a line. */
static bool names_exist(const struct conf_file *file, char **wanted, int count)
{
	bool all = true;

	for (int i = 0; i < count; i++) {
		bool found = false;

		for (size_t n = 0; n < file->count; n++)
			found |= file->names[n].name && !strcmp(file->names[n].name, wanted[i]);
		if (!found)
			fprintf(stderr, "datinfo: %s has no name %s\n", file->path, wanted[i]);
		all &= found;
	}
	if (!all)
		names_print(file);
	return all;
}

static int list(bool all, bool json, char **wanted, int count)
{
	struct conf_file file;
	struct host host;
	struct report report = {
		.file = &file,
		.host = &host,
		.json = json,
		.details = count > 0,
		.all = all || count > 0,
	};
	bool all_open = true;
	int err = conf_file_read(conf_file_find(), &file);

	if (err) {
		fprintf(stderr, "datinfo: %s: %s; datinfo --generate prints one for this host\n",
			file.path, strerror(-err));
		return 1;
	}
	if (!names_exist(&file, wanted, count)) {
		conf_file_free(&file);
		return 1;
	}
	if (!file.count) {
		fprintf(stderr,
			"datinfo: %s: no line defines a name; datinfo --generate prints lines for "
			"this host\n",
			file.path);
		all_open = false;
	}
	host_read(&host);
	report_begin(&report);
	for (size_t i = 0; i < file.count; i++) {
		const struct conf_name *name = &file.names[i];
		struct probe probe;

		if (name->ignored || !is_wanted(name, wanted, count))
			continue;
		if (name->refused || !name->edition) {
			report_name(&report, name, NULL);
			all_open &= !name->refused;
			continue;
		}
		probe_run(name, &probe);
		report_name(&report, name, &probe);
		all_open &= probe.stage == PROBE_OPENED;
	}
	report_end(&report);
	host_free(&host);
	conf_file_free(&file);
	return all_open ? 0 : 1;
}

/* ---- main ---- */

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
		{ "version", no_argument, NULL, 'V' },
		{ "wait", required_argument, NULL, OPTION_WAIT },
		{ NULL, 0, NULL, 0 },
	};
	int option, action = 0;
	unsigned long seconds;
	bool all = false, json = false;

	tool_output_watch("datinfo");
	while ((option = getopt_long(argc, argv, "hV", options, NULL)) != -1) {
		switch (option) {
		case 'h':
			usage(stdout);
			return 0;
		case 'V':
			puts("datinfo " PACKAGE_VERSION);
			return 0;
		case OPTION_ALL:
			all = true;
			break;
		case OPTION_JSON:
			json = true;
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
			probe_limit = (unsigned)seconds;
			break;
		default:
			usage(stderr);
			return 2;
		}
	}
	if ((all || json) && action)
		return usage_wrong("--all and --json go with the list only");
	argv += optind;
	argc -= optind;
	if (action == OPTION_CHECK)
		return check_all(argv, argc);
	if (action == OPTION_GENERATE)
		return generate_all(argc);
	return list(all, json, argv, argc);
}
