/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parses the text of dat.conf: a function over a buffer that opens no file, allocates no memory and
 * logs nothing.
 */
#include <string.h>

#include "conf.h"

#define FIELDS 8

/* Some editors write it at the beginning of a file in UTF-8. */
static const char byte_order_mark[] = "\xef\xbb\xbf";

/* The line that is being parsed. */
struct conf_record {
	struct conf_entry entry;
	bool user_level; /* "u", not "k" */
	bool by_default; /* "default", not "nondefault" */
};

static bool conf_is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool conf_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* No digits at all count as 0. A number that needs more than 32 bits is refused. */
static bool conf_parse_number(const char **text, DAT_UINT32 *number)
{
	uint64_t value = 0;

	for (; conf_is_digit(**text); ++*text) {
		value = value * 10 + (unsigned)(**text - '0');
		if (value > UINT32_MAX)
			return false;
	}
	*number = (DAT_UINT32)value;
	return true;
}

/* Parses "1.2". "1." is 1.0, as in OFED. */
static bool conf_parse_version(const char *text, DAT_UINT32 *major, DAT_UINT32 *minor)
{
	if (!conf_is_digit(*text) || !conf_parse_number(&text, major) || *text != '.')
		return false;
	text++;
	return conf_parse_number(&text, minor) && *text == '\0';
}

/* Keywords are compared by their beginning, as in OFED: "threadsafeX" is accepted. */
static bool conf_begins_with(const char *text, const char *word)
{
	return strncmp(text, word, strlen(word)) == 0;
}

static bool conf_parse_name(const char *text, struct conf_record *record)
{
	size_t length = strlen(text);

	if (length == 0 || length >= DAT_NAME_MAX_LENGTH)
		return false;
	memcpy(record->entry.info.ia_name, text, length + 1);
	return true;
}

static bool conf_parse_api_version(const char *text, struct conf_record *record)
{
	DAT_PROVIDER_INFO *info = &record->entry.info;

	if (*text != 'u' && *text != 'k')
		return false;
	record->user_level = *text == 'u';
	return conf_parse_version(text + 1, &info->dapl_version_major, &info->dapl_version_minor);
}

static bool conf_parse_thread_safety(const char *text, struct conf_record *record)
{
	record->entry.info.is_thread_safe = conf_begins_with(text, "threadsafe") ? DAT_TRUE
										 : DAT_FALSE;
	if (strcmp(text, "threadsafe") != 0 && strcmp(text, "nonthreadsafe") != 0)
		record->entry.doubtful_field = 3;
	return record->entry.info.is_thread_safe || conf_begins_with(text, "nonthreadsafe");
}

static bool conf_parse_default(const char *text, struct conf_record *record)
{
	record->by_default = conf_begins_with(text, "default");
	if (strcmp(text, "default") != 0 && strcmp(text, "nondefault") != 0)
		record->entry.doubtful_field = 4;
	return record->by_default || conf_begins_with(text, "nondefault");
}

/* To dlopen an empty name stands for the program itself. */
static bool conf_parse_library(const char *text, struct conf_record *record)
{
	record->entry.library = text;
	return *text != '\0';
}

/* Only its form is checked; it is no part of the key. */
static bool conf_parse_provider_version(const char *text, struct conf_record *record)
{
	const char *dot = strchr(text, '.');
	DAT_UINT32 major, minor;

	(void)record;
	return dot && dot != text && conf_parse_version(dot + 1, &major, &minor);
}

static bool conf_parse_ia_params(const char *text, struct conf_record *record)
{
	record->entry.ia_params = text;
	return true;
}

static bool conf_parse_platform_params(const char *text, struct conf_record *record)
{
	(void)text; /* Solaris has a driver name here; the registry ignores it */
	(void)record;
	return true;
}

static const struct conf_field {
	bool (*parse)(const char *text, struct conf_record *record);
	const char *refusal;
} conf_fields[FIELDS] = {
	{ conf_parse_name, "the IA name must have 1 to 255 bytes" },
	{ conf_parse_api_version, "the API version must look like u1.2" },
	{ conf_parse_thread_safety, "field 3 must be threadsafe or nonthreadsafe" },
	{ conf_parse_default, "field 4 must be default or nondefault" },
	{ conf_parse_library, "the provider library must have a name" },
	{ conf_parse_provider_version, "the provider version must look like dapl.1.2" },
	{ conf_parse_ia_params, NULL },
	{ conf_parse_platform_params, NULL },
};

/* Ends the bare word at p, and returns what follows. A quote ends the word, and is dropped. */
static char *conf_cut_bare(char *p, char *end)
{
	while (p < end && !conf_is_blank(*p) && *p != '"')
		p++;
	*p = '\0';
	return p < end ? p + 1 : p;
}

/* Unquotes the text after an opening quote in place. Returns NULL if there is no closing quote. */
static char *conf_cut_quoted(char *p, char *end)
{
	char *out = p;

	for (; p < end && *p != '"'; p++) {
		if (*p == '\\' && p + 1 < end)
			p++;
		*out++ = *p;
	}
	if (p == end)
		return NULL;
	*out = '\0';
	return p + 1;
}

/*
 * Cuts [p, end) into words, each ended by a NUL; the byte at end may be written. Returns NULL, or
 * what is wrong with the line.
 */
static const char *conf_cut_words(char *p, char *end, char *words[FIELDS], unsigned *count)
{
	*count = 0;
	for (;;) {
		while (p < end && conf_is_blank(*p))
			p++;
		if (p == end || *p == '#')
			return NULL;
		if (*count == FIELDS)
			return "more than eight fields";
		if (*p == '"') {
			words[(*count)++] = ++p;
			p = conf_cut_quoted(p, end);
		} else {
			words[(*count)++] = p;
			p = conf_cut_bare(p, end);
		}
		if (!p)
			return "a quote is not closed on its line";
	}
}

static const char *conf_parse_fields(char *const words[FIELDS], struct conf_record *record)
{
	for (unsigned i = 0; i < FIELDS; i++)
		if (!conf_fields[i].parse(words[i], record))
			return conf_fields[i].refusal;
	return NULL;
}

static void conf_parse_line(char *text, char *end, unsigned number, const struct conf_sink *sink)
{
	struct conf_record record = { 0 };
	char *words[FIELDS];
	const char *reason;
	unsigned count;

	if (memchr(text, '\0', (size_t)(end - text))) {
		sink->refused(sink->arg, number, "a NUL byte");
		return;
	}
	reason = conf_cut_words(text, end, words, &count);
	if (!reason && count == 0)
		return;
	if (!reason && count < FIELDS)
		reason = "fewer than eight fields";
	if (!reason)
		reason = conf_parse_fields(words, &record);
	if (reason)
		sink->refused(sink->arg, number, reason);
	else if (record.user_level && record.by_default)
		sink->entry(sink->arg, number, &record.entry);
	else if (!record.user_level && sink->kernel)
		sink->kernel(sink->arg, number);
}

void conf_parse(char *text, size_t length, const struct conf_sink *sink)
{
	const size_t mark = sizeof(byte_order_mark) - 1;
	char *limit = text + length;
	unsigned number = 0;
	char *line, *end, *next;

	if (length >= mark && !memcmp(text, byte_order_mark, mark))
		text += mark;
	for (line = text; line < limit; line = next) {
		end = memchr(line, '\n', (size_t)(limit - line));
		if (!end)
			end = limit;
		next = end + 1;
		if (end > line && end[-1] == '\r')
			end--;
		conf_parse_line(line, end, ++number, sink);
	}
}
