/* SPDX-License-Identifier: BSD-2-Clause */
/* The text of dat.conf, and its parser. */
#ifndef DAT_CONF_H
#define DAT_CONF_H

#include <errno.h>
#include <stddef.h>

#include "libdat.h"

/* A well-formed line for user-level consumers. */
struct conf_entry {
	DAT_PROVIDER_INFO info; /* IA name, API version, thread safety: the key */
	const char *library;	/* points into the text, as ia_params */
	const char *ia_params;
	unsigned doubtful_field; /* it has more than the word by which it begins; 0: none has */
};

struct conf_sink {
	void (*entry)(void *arg, unsigned line, const struct conf_entry *entry);
	void (*refused)(void *arg, unsigned line, const char *reason);
	void *arg;
	void (*kernel)(void *arg, unsigned line); /* may be NULL */
};

/*
 * Parses length bytes of text and calls sink for each line, in order: entry for a line that is one,
 * refused with the reason for a line that breaks a rule, kernel for a well-formed line marked k.
 * Lines count from 1. Blank lines, comments, well-formed lines marked nondefault, and a byte-order
 * mark at the beginning are skipped. The text is modified in place, up to and including the byte
 * behind it, which must exist and may have any value.
 */
void conf_parse(char *text, size_t length, const struct conf_sink *sink);

#define CONF_SIZE_MAX	 (1u << 20)  /* bytes that a dat.conf may have at most */
#define CONF_NOT_REGULAR EMEDIUMTYPE /* neither a regular file nor a directory */

/*
 * Reads the file of that name to its end, without waiting for a writer. Returns 0, and a text to be
 * freed, which has room for one more byte; or -errno, and no text.
 */
int conf_text_read(const char *path, char **text, size_t *length);
/* Returns the words for what conf_text_read has returned. */
const char *conf_text_error(int err);
/*
 * Makes a question mark of each byte of a control character, which dat.conf may have, and a
 * terminal would obey.
 */
void conf_text_clean(char *text);

#endif
