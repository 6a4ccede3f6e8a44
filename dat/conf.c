/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dat.conf text -> entries: a pure function over a buffer. No file, no memory, no message of its
 * own.
 */
#include <string.h>

#include "conf.h"

#define FIELDS 8

/* A line being read. */
struct record {
	struct conf_entry entry;
	bool user_level; /* u, not k */
	bool by_default; /* default, not nondefault */
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Any number of digits, none being 0; false beyond 32 bits. */
static bool read_number(const char **text, DAT_UINT32 *number)
{
	uint64_t value = 0;

	for (; is_digit(**text); ++*text) {
		value = value * 10 + (unsigned)(**text - '0');
		if (value > UINT32_MAX)
			return false;
	}
	*number = (DAT_UINT32)value;
	return true;
}

/* "1.2"; "1." is 1.0, as it always was. */
static bool read_version(const char *text, DAT_UINT32 *major, DAT_UINT32 *minor)
{
	if (!is_digit(*text) || !read_number(&text, major) || *text != '.')
		return false;
	text++;
	return read_number(&text, minor) && *text == '\0';
}

/* Words are compared by their beginning: "threadsafeX" has always passed. */
static bool begins_with(const char *text, const char *word)
{
	return strncmp(text, word, strlen(word)) == 0;
}

static bool read_name(const char *text, struct record *record)
{
	size_t length = strlen(text);

	if (length == 0 || length >= DAT_NAME_MAX_LENGTH)
		return false;
	memcpy(record->entry.info.ia_name, text, length + 1);
	return true;
}

static bool read_api_version(const char *text, struct record *record)
{
	DAT_PROVIDER_INFO *info = &record->entry.info;

	if (*text != 'u' && *text != 'k')
		return false;
	record->user_level = *text == 'u';
	return read_version(text + 1, &info->dapl_version_major, &info->dapl_version_minor);
}

static bool read_thread_safety(const char *text, struct record *record)
{
	record->entry.info.is_thread_safe = begins_with(text, "threadsafe") ? DAT_TRUE : DAT_FALSE;
	return record->entry.info.is_thread_safe || begins_with(text, "nonthreadsafe");
}

static bool read_default(const char *text, struct record *record)
{
	record->by_default = begins_with(text, "default");
	return record->by_default || begins_with(text, "nondefault");
}

static bool read_library(const char *text, struct record *record)
{
	record->entry.library = text;
	return true;
}

/* Checked for its form alone: it takes no part in the key. */
static bool read_provider_version(const char *text, struct record *record)
{
	const char *dot = strchr(text, '.');
	DAT_UINT32 major, minor;

	(void)record;
	return dot && dot != text && read_version(dot + 1, &major, &minor);
}

static bool read_ia_params(const char *text, struct record *record)
{
	record->entry.ia_params = text;
	return true;
}

static bool read_platform_params(const char *text, struct record *record)
{
	(void)text; /* Solaris keeps a driver name there; a registry has no use for it */
	(void)record;
	return true;
}

static const struct field {
	bool (*read)(const char *text, struct record *record);
	const char *refusal;
} fields[FIELDS] = {
	{ read_name, "the IA name must have 1 to 255 bytes" },
	{ read_api_version, "the API version must look like u1.2" },
	{ read_thread_safety, "field 3 must be threadsafe or nonthreadsafe" },
	{ read_default, "field 4 must be default or nondefault" },
	{ read_library, NULL },
	{ read_provider_version, "the provider version must look like dapl.1.2" },
	{ read_ia_params, NULL },
	{ read_platform_params, NULL },
};

/* Ends the bare word that begins at p; returns where to go on. A quote ends it too, and is lost. */
static char *cut_bare(char *p, char *end)
{
	while (p < end && !is_blank(*p) && *p != '"')
		p++;
	*p = '\0';
	return p < end ? p + 1 : p;
}

/* Unquotes in place the text behind an opening quote; NULL if no quote closes it on this line. */
static char *cut_quoted(char *p, char *end)
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
 * Cuts [p, end) into words, each ended by a NUL; end itself may be written. Returns what is wrong
 * with the line.
 */
static const char *split(char *p, char *end, char *words[FIELDS], unsigned *count)
{
	*count = 0;
	for (;;) {
		while (p < end && is_blank(*p))
			p++;
		if (p == end || *p == '#')
			return NULL;
		if (*count == FIELDS)
			return "more than eight fields";
		if (*p == '"') {
			words[(*count)++] = ++p;
			p = cut_quoted(p, end);
		} else {
			words[(*count)++] = p;
			p = cut_bare(p, end);
		}
		if (!p)
			return "a quote is not closed on its line";
	}
}

static const char *read_fields(char *const words[FIELDS], struct record *record)
{
	for (unsigned i = 0; i < FIELDS; i++)
		if (!fields[i].read(words[i], record))
			return fields[i].refusal;
	return NULL;
}

static void parse_line(char *text, char *end, unsigned number, const struct conf_sink *sink)
{
	struct record record = { 0 };
	char *words[FIELDS];
	const char *reason;
	unsigned count;

	if (memchr(text, '\0', (size_t)(end - text))) {
		sink->refused(sink->arg, number, "a NUL byte");
		return;
	}
	reason = split(text, end, words, &count);
	if (!reason && count == 0)
		return;
	if (!reason && count < FIELDS)
		reason = "fewer than eight fields";
	if (!reason)
		reason = read_fields(words, &record);
	if (reason)
		sink->refused(sink->arg, number, reason);
	else if (record.user_level && record.by_default)
		sink->entry(sink->arg, number, &record.entry);
}

void conf_parse(char *text, size_t length, const struct conf_sink *sink)
{
	char *limit = text + length;
	unsigned number = 0;
	char *line, *end, *next;

	for (line = text; line < limit; line = next) {
		end = memchr(line, '\n', (size_t)(limit - line));
		if (!end)
			end = limit;
		next = end + 1;
		if (end > line && end[-1] == '\r')
			end--;
		parse_line(line, end, ++number, sink);
	}
}
