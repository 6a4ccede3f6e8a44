/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs the parser of dat.conf on any text. */
#define _GNU_SOURCE
#include <stdio.h>

#include "conf.h"
#include "fuzz.h"

/* The text under test, and what the parser has reported about it. */
struct fuzz_run {
	const char *text;
	size_t length;
	unsigned line;		       /* the latest that was reported */
	const struct conf_entry *same; /* the only entry that is expected, or NULL: any */
	unsigned entries;
};

/* The parser reports each line at most once, in ascending order. */
static void line_reported(struct fuzz_run *run, unsigned line)
{
	require(line > run->line);
	run->line = line;
}

static bool lies_in_text(const struct fuzz_run *run, const char *word)
{
	return word >= run->text && word + strlen(word) <= run->text + run->length;
}

static void put_quoted(FILE *file, const char *word)
{
	putc('"', file);
	for (; *word; word++) {
		if (*word == '"' || *word == '\\')
			putc('\\', file);
		putc(*word, file);
	}
	fputs("\" ", file);
}

static void fuzz_parse(struct fuzz_run *run, const void *text, size_t length);

/* The entry, written as a line with all fields in quotes, must be parsed as the same entry. */
static void parse_again(const struct conf_entry *entry)
{
	struct fuzz_run run = { .same = entry };
	size_t length;
	char *text;
	FILE *file = open_memstream(&text, &length);

	require(file != NULL);
	put_quoted(file, entry->info.ia_name);
	fprintf(file, "\"u%u.%u\"", entry->info.dapl_version_major, entry->info.dapl_version_minor);
	put_quoted(file, entry->info.is_thread_safe ? "threadsafe" : "nonthreadsafe");
	put_quoted(file, "default");
	put_quoted(file, entry->library);
	put_quoted(file, "id.1.2");
	put_quoted(file, entry->ia_params);
	put_quoted(file, "");
	require(fclose(file) == 0);
	fuzz_parse(&run, text, length);
	require(run.entries == 1);
	free(text);
}

static void fuzz_entry(void *arg, unsigned line, const struct conf_entry *entry)
{
	const size_t length = strnlen(entry->info.ia_name, DAT_NAME_MAX_LENGTH);
	struct fuzz_run *run = arg;

	line_reported(run, line);
	run->entries++;
	require(length > 0 && length < DAT_NAME_MAX_LENGTH);
	require(lies_in_text(run, entry->library) && lies_in_text(run, entry->ia_params));
	if (!run->same) {
		parse_again(entry);
		return;
	}
	require(memcmp(&entry->info, &run->same->info, sizeof(entry->info)) == 0);
	require(strcmp(entry->library, run->same->library) == 0 &&
		strcmp(entry->ia_params, run->same->ia_params) == 0);
}

static void fuzz_refused(void *arg, unsigned line, const char *reason)
{
	line_reported(arg, line);
	require(reason && *reason);
}

/* The parser gets a buffer of the smallest size that it allows. */
static void fuzz_parse(struct fuzz_run *run, const void *text, size_t length)
{
	struct conf_sink sink = { .entry = fuzz_entry, .refused = fuzz_refused, .arg = run };
	char *copy = malloc(length + 1);

	require(copy != NULL);
	memcpy(copy, text, length);
	copy[length] = 'x';
	run->text = copy;
	run->length = length;
	conf_parse(copy, length, &sink);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_run run = { 0 };

	if (size)
		fuzz_parse(&run, data, size);
	return 0;
}
