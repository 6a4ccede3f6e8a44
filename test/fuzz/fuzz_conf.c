/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any text as dat.conf. With clang: -fsanitize=fuzzer,address, and dat/conf.c beside it; else
 * corpus.c has main.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf.h"
#include "fuzz.h"

/* The text under test, and what the parser has told of it. */
struct run {
	const char *text;
	size_t length;
	unsigned line;		       /* the last one spoken of */
	const struct conf_entry *same; /* the one entry there should be, or NULL */
	unsigned entries;
};

static void demand(bool condition)
{
	if (!condition)
		abort();
}

static void speak_of_line(struct run *run, unsigned line)
{
	demand(line > run->line);
	run->line = line;
}

static bool lies_in_text(const struct run *run, const char *word)
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

static void parse(struct run *run, const void *text, size_t length);

/* Written out again, with everything in quotes, it must be read as the same. */
static void read_again(const struct conf_entry *entry)
{
	struct run run = { .same = entry };
	size_t length;
	char *text;
	FILE *file = open_memstream(&text, &length);

	demand(file != NULL);
	put_quoted(file, entry->info.ia_name);
	fprintf(file, "\"u%u.%u\"", entry->info.dapl_version_major, entry->info.dapl_version_minor);
	put_quoted(file, entry->info.is_thread_safe ? "threadsafe" : "nonthreadsafe");
	put_quoted(file, "default");
	put_quoted(file, entry->library);
	put_quoted(file, "id.1.2");
	put_quoted(file, entry->ia_params);
	put_quoted(file, "");
	demand(fclose(file) == 0);
	parse(&run, text, length);
	demand(run.entries == 1);
	free(text);
}

static void on_entry(void *arg, unsigned line, const struct conf_entry *entry)
{
	const size_t length = strnlen(entry->info.ia_name, DAT_NAME_MAX_LENGTH);
	struct run *run = arg;

	speak_of_line(run, line);
	run->entries++;
	demand(length > 0 && length < DAT_NAME_MAX_LENGTH);
	demand(lies_in_text(run, entry->library) && lies_in_text(run, entry->ia_params));
	if (!run->same) {
		read_again(entry);
		return;
	}
	demand(memcmp(&entry->info, &run->same->info, sizeof(entry->info)) == 0);
	demand(strcmp(entry->library, run->same->library) == 0 &&
	       strcmp(entry->ia_params, run->same->ia_params) == 0);
}

static void on_refused(void *arg, unsigned line, const char *reason)
{
	speak_of_line(arg, line);
	demand(reason && *reason);
}

/* In a buffer of exactly the size the parser was promised. */
static void parse(struct run *run, const void *text, size_t length)
{
	struct conf_sink sink = { on_entry, on_refused, run };
	char *copy = malloc(length + 1);

	demand(copy != NULL);
	memcpy(copy, text, length);
	copy[length] = 'x';
	run->text = copy;
	run->length = length;
	conf_parse(copy, length, &sink);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run run = { 0 };

	if (size)
		parse(&run, data, size);
	return 0;
}
