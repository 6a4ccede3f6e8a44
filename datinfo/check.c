/* SPDX-License-Identifier: BSD-2-Clause */
/* datinfo --check: what is wrong in a dat.conf, found without opening a name. */
#define _GNU_SOURCE /* for qsort_r */
#include "datinfo.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../dat/conf.h"
#include "../udapl/host/params.h"

/* What is known of a library. */
enum verdict {
	VERDICT_NONE, /* it was not looked at yet */
	VERDICT_NO_PROVIDER,
	VERDICT_OTHER, /* it is a provider, or is missing, for example */
};

/* A line of a file, and the host that it is to be of use on. */
struct subject {
	const struct conf_file *file;
	const struct conf_name *name;
	const char *line;	       /* its text, and that of the lines behind it */
	const struct conf_name *first; /* that has its name, version and thread safety; or itself */
	enum verdict *verdict;	       /* of all lines with its library and edition */
	const struct host *host;
	char text[TEXT]; /* what is wrong with it */
};

static bool wrong(struct subject *subject, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Returns true, for the functions below, which do so if something is wrong. */
static bool wrong(struct subject *subject, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(subject->text, sizeof(subject->text), format, args);
	va_end(args);
	return true;
}

/* ---- all lines ---- */

static bool form_is_wrong(struct subject *subject)
{
	const char *reason = subject->name->refused;

	return reason && wrong(subject, "%s", reason);
}

/* Returns whether a quote of typography begins here: U+2018 to U+201F, or one of U+AB and U+BB. */
static bool is_typographic(const char *text)
{
	const unsigned char *byte = (const unsigned char *)text;

	if (byte[0] == 0xe2 && byte[1] == 0x80)
		return byte[2] >= 0x98 && byte[2] <= 0x9f;
	return byte[0] == 0xc2 && (byte[1] == 0xab || byte[1] == 0xbb);
}

/* Only what begins a field was meant for a quote. */
static bool quote_is_wrong(struct subject *subject)
{
	const char *line = subject->line;
	const char *end = line + strcspn(line, "\n");

	for (const char *p = line; p < end && *p != '#'; p++)
		if ((p == line || p[-1] == ' ' || p[-1] == '\t') &&
		    (*p == '\'' || *p == '`' || is_typographic(p)))
			return wrong(subject, "a field is quoted by \", not by %.*s",
				     is_typographic(p) ? (*p == '\xc2' ? 2 : 3) : 1, p);
	return false;
}

static bool kernel_is_meant(struct subject *subject)
{
	return subject->name->ignored && wrong(subject, "%s", subject->name->ignored);
}

/* ---- well-formed lines ---- */

static bool edition_is_wrong(struct subject *subject)
{
	const struct conf_name *name = subject->name;

	if (!name->edition)
		return wrong(subject, "there is no DAT %u.%u: write u1.2 or u2.0", name->major,
			     name->minor);
	return name->minor < name->edition->minor &&
	       wrong(subject, "programs want DAT %u.%u: write u%u.%u", name->edition->major,
		     name->edition->minor, name->edition->major, name->edition->minor);
}

static bool word_is_doubtful(struct subject *subject)
{
	const unsigned field = subject->name->doubtful_field;

	return field && wrong(subject, "field %u should be %s, and no more", field,
			      field == 3 ? "threadsafe or nonthreadsafe" : "default or nondefault");
}

/* A process loads the library, which takes time, so this is done for one of its lines. */
static bool library_is_no_provider(struct subject *subject)
{
	struct probe probe;

	if (*subject->verdict == VERDICT_NONE) {
		probe_library(subject->name, &probe);
		*subject->verdict = probe.stage == PROBE_NO_PROVIDER ? VERDICT_NO_PROVIDER
								     : VERDICT_OTHER;
	}
	return *subject->verdict == VERDICT_NO_PROVIDER;
}

static bool library_is_wrong(struct subject *subject)
{
	const struct conf_name *name = subject->name;

	if (!name->edition)
		return false;
	if (provider_misplaced(name, subject->text, sizeof(subject->text)))
		return true;
	return library_is_no_provider(subject) &&
	       wrong(subject, "%s is no DAT provider: it has no dat_provider_init", name->library);
}

static bool params_are_wrong(struct subject *subject)
{
	const char *reason = provider_params_refused(subject->name->library, subject->name->params);

	return reason && wrong(subject, "%s", reason);
}

/* Those of libfabric's providers that have connected endpoints. */
static bool fabric_is_wrong(struct subject *subject)
{
	static const char *const served[] = { "tcp", "verbs", "net", "sockets" };
	struct params params;

	if (provider_kind_of(subject->name->library) != PROVIDER_OFI ||
	    params_parse(PARAMS_OF_OFI, subject->name->params, &params))
		return false;
	for (size_t i = 0; i < sizeof(served) / sizeof(served[0]); i++)
		if (!strcmp(params.first, served[i]))
			return false;
	return wrong(subject, "field 7: libdaplofi can use tcp and verbs of libfabric, not %s",
		     params.first);
}

static bool port_is_wrong(struct subject *subject)
{
	const struct host *host = subject->host;
	bool device_found = false, port_found = false;
	struct params params;
	unsigned long port;

	if (provider_kind_of(subject->name->library) != PROVIDER_CMA ||
	    params_parse(PARAMS_OF_VERBS, subject->name->params, &params))
		return false;
	port = strtoul(params.second, NULL, 0);
	if (port > 255)
		return wrong(subject, "field 7: a device has no more than 255 ports");
	for (size_t i = 0; i < host->port_count; i++) {
		if (strcmp(host->ports[i].device, params.first) != 0)
			continue;
		device_found = true;
		port_found |= host->ports[i].port == (port ? port : 1);
	}
	return device_found && !port_found &&
	       wrong(subject, "field 7: %s has no port %lu", params.first, port);
}

static bool key_is_repeated(struct subject *subject)
{
	const struct conf_name *first = subject->first;

	return first != subject->name && !strcmp(first->library, subject->name->library) &&
	       wrong(subject,
		     "never used: line %u has the same name, version, thread safety and library",
		     first->line);
}

/* ---- one line ---- */

/* A line with the key of another one and a library of its own is a fallback: this is no mistake. */
static void fallback_print(const struct subject *subject)
{
	const struct conf_name *first = subject->first;
	char library[TEXT];

	if (first != subject->name && strcmp(first->library, subject->name->library) != 0)
		printf("%s:%u: note: used only if %s of line %u can't be loaded\n",
		       subject->file->path, subject->name->line,
		       conf_printable(first->library, library, sizeof(library)), first->line);
}

typedef bool finding(struct subject *subject);

/* Prints each finding that applies to the line. Returns whether one does. */
static bool findings_print(struct subject *subject, finding *const findings[], size_t count)
{
	char text[TEXT];
	bool any = false;

	for (size_t i = 0; i < count; i++) {
		if (!findings[i](subject))
			continue;
		printf("%s:%u: %s\n", subject->file->path, subject->name->line,
		       conf_printable(subject->text, text, sizeof(text)));
		any = true;
	}
	return any;
}

/* Prints all that is wrong with the line. Returns whether something is. */
static bool line_check(struct subject *subject)
{
	static finding *const of_all[] = { form_is_wrong, kernel_is_meant, quote_is_wrong };
	static finding *const of_entries[] = {
		edition_is_wrong, word_is_doubtful, library_is_wrong, params_are_wrong,
		fabric_is_wrong,  port_is_wrong,    key_is_repeated,
	};
	bool any = findings_print(subject, of_all, sizeof(of_all) / sizeof(of_all[0]));

	if (!subject->name->name)
		return any;
	any |= findings_print(subject, of_entries, sizeof(of_entries) / sizeof(of_entries[0]));
	fallback_print(subject);
	return any;
}

/* ---- lines that have something in common ---- */

static int numbers_compare(unsigned a, unsigned b)
{
	return (a > b) - (a < b);
}

static int keys_compare(const struct conf_name *a, const struct conf_name *b)
{
	int order = strcmp(a->name, b->name);

	if (!order)
		order = numbers_compare(a->major, b->major);
	if (!order)
		order = numbers_compare(a->minor, b->minor);
	return order ? order : numbers_compare(a->thread_safe, b->thread_safe);
}

static int libraries_compare(const struct conf_name *a, const struct conf_name *b)
{
	const int order = strcmp(a->library, b->library);

	return order ? order : numbers_compare(a->major, b->major);
}

typedef int comparison(const struct conf_name *a, const struct conf_name *b);

/* For qsort_r: orders pointers to lines. Of those that are equal the first of the file is first. */
static int lines_compare(const void *a, const void *b, void *compare)
{
	const struct conf_name *left = *(const struct conf_name *const *)a;
	const struct conf_name *right = *(const struct conf_name *const *)b;
	const int order = (*(comparison **)compare)(left, right);

	return order ? order : numbers_compare(left->line, right->line);
}

static void *zeroed(size_t count, size_t size)
{
	void *memory = calloc(count + 1, size); /* or none may be NULL */

	if (!memory) {
		perror("datinfo");
		exit(1);
	}
	return memory;
}

/* Returns the first of the lines that are equal to each line, which is itself for a bad one. */
static const struct conf_name **firsts_find(const struct conf_file *file, comparison *compare)
{
	const struct conf_name **firsts = zeroed(file->count, sizeof(*firsts));
	const struct conf_name **sorted = zeroed(file->count, sizeof(*sorted));
	size_t count = 0;

	for (size_t i = 0; i < file->count; i++) {
		firsts[i] = &file->names[i];
		if (file->names[i].name)
			sorted[count++] = &file->names[i];
	}
	qsort_r(sorted, count, sizeof(*sorted), lines_compare, &compare);
	for (size_t i = 1; i < count; i++)
		if (!compare(sorted[i - 1], sorted[i]))
			firsts[sorted[i] - file->names] = firsts[sorted[i - 1] - file->names];
	free(sorted);
	return firsts;
}

/* ---- a file ---- */

/* Returns 1 if something is wrong with one of its lines, else 0. */
static int lines_check(const struct conf_file *file, const struct host *host)
{
	const struct conf_name **of_key = firsts_find(file, keys_compare);
	const struct conf_name **of_library = firsts_find(file, libraries_compare);
	enum verdict *verdicts = zeroed(file->count, sizeof(*verdicts));
	struct subject subject = { .file = file, .line = file->text, .host = host };
	unsigned line = 1;
	int bad = 0;

	for (size_t i = 0; i < file->count; i++) {
		subject.name = &file->names[i];
		subject.line = conf_line_find(subject.line, 1 + subject.name->line - line);
		subject.first = of_key[i];
		subject.verdict = &verdicts[of_library[i] - file->names];
		bad |= line_check(&subject);
		line = subject.name->line;
	}
	free(verdicts);
	free(of_library);
	free(of_key);
	return bad;
}

int check(const char *path, const struct host *host)
{
	struct conf_file file;
	int err = conf_file_read(path, &file), bad;

	if (err) {
		fprintf(stderr, "datinfo: %s: %s\n", path, conf_text_error(err));
		return 1;
	}
	bad = lines_check(&file, host);
	if (!file.count) {
		printf("%s: no line defines a name; datinfo --generate prints lines for this "
		       "host\n",
		       path);
		bad = 1;
	}
	conf_file_free(&file);
	return bad;
}
