/* SPDX-License-Identifier: BSD-2-Clause */
/* What the registry has to say, sorted by who asked for it. */
#ifndef DAT_LOG_H
#define DAT_LOG_H

/*
 * The bits of the environment variable DAT_DBG_TYPE. Errors alone are on unless it says otherwise;
 * 0 is silence.
 */
enum {
	DBG_ERROR = 0x01,
	DBG_GENERIC = 0x02,
	DBG_STATIC = 0x04,   /* dat.conf and the libraries it names */
	DBG_DYNAMIC = 0x08,  /* what providers registered */
	DBG_PROVIDER = 0x10, /* calls between registry and provider */
	DBG_CONSUMER = 0x20, /* calls of the consumer */
};

/*
 * Writes one line; format carries no newline. Goes to stderr (DAT_DBG_DEST 1, the default), syslog
 * (2) or both (3).
 */
void dbg(unsigned class, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
