/* SPDX-License-Identifier: BSD-2-Clause */
/* The provider's messages: which are wanted, and where they go. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "log.h"

#define LONGEST 512 /* bytes of a line; the rest is cut off */

/* The bits of DAPL_DBG_DEST. OFED writes to standard output, where a program's own words are. */
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
	wanted = number_from_env("DAPL_DBG_TYPE", LOG_ERROR | LOG_WARN);
	destination = number_from_env("DAPL_DBG_DEST", TO_STDERR);
}

static int severity(enum log_kind kind)
{
	switch (kind) {
	case LOG_ERROR:
		return LOG_ERR;
	case LOG_WARN:
		return LOG_WARNING;
	default:
		return LOG_DEBUG;
	}
}

/* The line in one piece: ranks of a job often share a terminal. */
static void emit(enum log_kind kind, char *line, size_t length)
{
	if (destination & TO_SYSLOG)
		syslog(severity(kind), "%s", line);
	if (destination & TO_STDERR) {
		line[length] = '\n';
		(void)!write(STDERR_FILENO, line, length + 1);
	}
}

void log_to(enum log_kind kind, const char *format, ...)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const int saved = errno;
	char line[LONGEST] = "DAPL: ";
	size_t length = strlen(line);
	va_list args;
	int more;

	pthread_once(&once, read_environment);
	if (!(wanted & kind))
		return;
	va_start(args, format);
	errno = saved; /* for %m */
	more = vsnprintf(line + length, sizeof(line) - length, format, args);
	va_end(args);
	if (more > 0)
		length += (size_t)more < sizeof(line) - length ? (size_t)more
							       : sizeof(line) - length - 1;
	emit(kind, line, length);
	errno = saved;
}
