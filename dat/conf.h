/* SPDX-License-Identifier: BSD-2-Clause */
/* dat.conf text -> entries. */
#ifndef DAT_CONF_H
#define DAT_CONF_H

#include <stddef.h>

#include "libdat.h"

/* A well-formed line that offers a provider to user-level consumers. */
struct conf_entry {
	DAT_PROVIDER_INFO info; /* IA name, API version, thread safety: the key */
	const char *library;	/* these two point into the text */
	const char *ia_params;
};

struct conf_sink {
	void (*entry)(void *arg, unsigned line, const struct conf_entry *entry);
	void (*refused)(void *arg, unsigned line, const char *reason);
	void *arg;
};

/*
 * Tells sink of every line of text, in order: the entries, and the lines that are no entry with the
 * reason. Lines count from 1. Blank lines, comments, and the well-formed lines marked k or
 * nondefault are passed over. text is taken apart in place: length bytes and one more, which need
 * not be anything in particular.
 */
void conf_parse(char *text, size_t length, const struct conf_sink *sink);

#endif
