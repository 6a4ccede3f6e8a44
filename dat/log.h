/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of libdat: DAT_DBG_TYPE selects their kinds, DAT_DBG_DEST their destination, and
 * DAT_DBG_TIME puts the time in front.
 */
#ifndef DAT_LOG_H
#define DAT_LOG_H

#include <edition.h>

/* What each message begins with. */
#if DAT_EDITION == 2
#define REGISTRY_NAME "libdat2"
#else
#define REGISTRY_NAME "libdat"
#endif

/* The bits of DAT_DBG_TYPE. Without the variable errors alone are logged; 0 logs nothing. */
enum libdat_log_kind {
	DBG_ERROR = 0x01,
	DBG_GENERIC = 0x02,
	DBG_STATIC = 0x04,   /* dat.conf and the libraries that it names */
	DBG_DYNAMIC = 0x08,  /* registrations by providers */
	DBG_PROVIDER = 0x10, /* calls between registry and provider */
	/* opens and closes, and calls that are refused before a provider is asked */
	DBG_CONSUMER = 0x20,
};

/*
 * Logs one line; @format has no newline. The line is "libdat[PID]: TEXT" on stderr
 * (DAT_DBG_DEST 1, the default), and "libdat: TEXT" in syslog (2); 3 is both. With DAT_DBG_TIME set
 * to a number other than 0 a line on stderr begins with the time of day. Control characters are
 * replaced by question marks. Keeps errno; %m works.
 */
void libdat_log(enum libdat_log_kind kind, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Is called in the child after a fork. If another thread was in syslog(3) or localtime_r(3), whose
 * locks are then held for good, lines carry no time and are written to stderr only.
 */
void libdat_log_after_fork(void);

/* Logs the same line with ": " and the names of @ret behind it, as dat_strerror gives them. */
void libdat_log_result(enum libdat_log_kind kind, DAT_RETURN ret, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
