/* SPDX-License-Identifier: BSD-2-Clause */
/* The registry's messages: which are wanted, and where they go. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <syslog.h>

#include "log.h"

enum {
	TO_STDERR = 1,
	TO_SYSLOG = 2,
};

static unsigned wanted, destination; /* fixed once read */

static unsigned number_from_env(const char *name, unsigned otherwise)
{
	const char *text = secure_getenv(name);
	unsigned long value;
	char *end;

	if (!text)
		return otherwise;
	value = strtoul(text, &end, 0);
	return end == text ? otherwise : (unsigned)value;
}

static void read_environment(void)
{
	wanted = number_from_env("DAT_DBG_TYPE", DBG_ERROR);
	destination = number_from_env("DAT_DBG_DEST", TO_STDERR);
}

/* One line in one piece: several ranks of a job often share a terminal. */
static void to_stderr(const char *format, va_list args)
{
	flockfile(stderr);
	vfprintf(stderr, format, args);
	putc_unlocked('\n', stderr);
	funlockfile(stderr);
}

void dbg(unsigned class, const char *format, ...)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	va_list args;

	pthread_once(&once, read_environment);
	if (!(wanted & class))
		return;
	if (destination & TO_STDERR) {
		va_start(args, format);
		to_stderr(format, args);
		va_end(args);
	}
	if (destination & TO_SYSLOG) {
		va_start(args, format);
		vsyslog(class & DBG_ERROR ? LOG_ERR : LOG_DEBUG, format, args);
		va_end(args);
	}
}
