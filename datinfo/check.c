/* SPDX-License-Identifier: BSD-2-Clause */
/* datinfo --check: what is wrong in a dat.conf, found without opening a name. */
#include "datinfo.h"

#include <stdarg.h>

#include <stdlib.h>
#include <string.h>

#include "../dat/conf.h"
#include "../tools/tools.h"
#include "../udapl/host/params.h"

/* A line of a file, and the host that it is to be of use on. */
struct subject {
	const struct conf_file *file;
	const struct conf_name *name;
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
	const char *line = conf_line_find(subject->file, subject->name->line);
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

static bool library_is_wrong(struct subject *subject)
{
	const struct conf_name *name = subject->name;
	struct probe probe;

	if (!name->edition)
		return false;
	if (provider_misplaced(name, subject->text, sizeof(subject->text)))
		return true;
	probe_library(name, &probe);
	return probe.stage == PROBE_NO_PROVIDER &&
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

static bool lines_share_key(const struct conf_name *a, const struct conf_name *b)
{
	return a->name && b->name && !strcmp(a->name, b->name) && a->major == b->major &&
	       a->minor == b->minor && a->thread_safe == b->thread_safe;
}

/* The first line with the name, version and thread safety of this one; or this one itself. */
static const struct conf_name *first_of_key(const struct subject *subject)
{
	const struct conf_name *first = subject->file->names;

	while (first != subject->name && !lines_share_key(first, subject->name))
		first++;
	return first;
}

static bool key_is_repeated(struct subject *subject)
{
	const struct conf_name *first = first_of_key(subject);

	return first != subject->name && !strcmp(first->library, subject->name->library) &&
	       wrong(subject,
		     "never used: line %u has the same name, version, thread safety and library",
		     first->line);
}

/* ---- all ---- */

/* A line with the key of another one and a library of its own is a fallback: this is no mistake. */
static void fallback_print(const struct subject *subject)
{
	const struct conf_name *first = first_of_key(subject);
	char library[TEXT];

	if (first != subject->name && strcmp(first->library, subject->name->library) != 0)
		printf("%s:%u: note: used only if %s of line %u can't be loaded\n",
		       subject->file->path, subject->name->line,
		       tool_text_clean(first->library, library, sizeof(library)), first->line);
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
		       tool_text_clean(subject->text, text, sizeof(text)));
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

int check(const char *path, const struct host *host)
{
	struct conf_file file;
	int err = conf_file_read(path, &file), bad = 0;

	if (err) {
		fprintf(stderr, "datinfo: %s: %s\n", path, conf_text_error(err));
		return 1;
	}
	for (size_t i = 0; i < file.count; i++) {
		struct subject subject = { .file = &file, .name = &file.names[i], .host = host };

		bad |= line_check(&subject);
	}
	if (!file.count) {
		printf("%s: no line defines a name; datinfo --generate prints lines for this "
		       "host\n",
		       path);
		bad = 1;
	}
	conf_file_free(&file);
	return bad;
}
