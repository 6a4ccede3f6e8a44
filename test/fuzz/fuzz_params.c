/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs the parser of IA params, the seventh field of a line of dat.conf, on any text. */
#define _GNU_SOURCE
#include <stdio.h>

#include "host/params.h"
#include "fuzz.h"

/* Words have their ends in their arrays, and no blanks. */
static void require_word(const char *word, size_t room)
{
	size_t length = strnlen(word, room);

	require(length > 0 && length < room && !strpbrk(word, " \t"));
	(void)params_is_device_like(word);
}

/* The words, with a blank between them, must be parsed as the same words. */
static void parse_words_again(enum params_kind kind, const struct params *params)
{
	struct params same;
	char *text;

	require(asprintf(&text, " %s\t%s ", params->first, params->second) > 0);
	require(!params_parse(kind, text, &same));
	require(!strcmp(same.first, params->first) && !strcmp(same.second, params->second));
	free(text);
}

static void fuzz_kind(enum params_kind kind, const char *text)
{
	struct params params;
	const char *wrong = params_parse(kind, text, &params);

	if (wrong) {
		require(*wrong);
		return;
	}
	require_word(params.first, sizeof(params.first));
	require_word(params.second, sizeof(params.second));
	parse_words_again(kind, &params);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_copy(data, size, true);

	fuzz_kind(PARAMS_OF_VERBS, text);
	fuzz_kind(PARAMS_OF_OFI, text);
	free(text);
	return 0;
}
