/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages of libdat: the environment decides which are logged, and where. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "conf.h"
#include "lock.h"
#include "log.h"

/* The bits of DAT_DBG_DEST. */
enum {
	DBG_DEST_STDERR = 1,
	DBG_DEST_SYSLOG = 2,
};

/* What the environment says. It is read once. */
static struct dbg_settings {
	unsigned kinds;
	unsigned destination;
	bool time;
} dbg_settings;

/* So many threads are in a function of libc that takes a lock. */
static atomic_uint dbg_in_libc;
static bool dbg_libc_is_locked; /* written after a fork, by the only thread */

void libdat_log_after_fork(void)
{
	if (dbg_in_libc > 0)
		dbg_libc_is_locked = true;
}

/* A line that is being made. What does not fit is cut off. */
struct dbg_line {
	size_t length;
	char text[1024];
};

static unsigned dbg_number_from_env(const char *name, unsigned otherwise)
{
	const char *text = secure_getenv(name);
	unsigned long value;
	char *end;

	if (!text)
		return otherwise;
	value = strtoul(text, &end, 0);
	return end == text ? otherwise : (unsigned)value;
}

static void dbg_settings_read(void)
{
	const int saved = errno; /* strtoul may set it */

	dbg_settings.kinds = dbg_number_from_env("DAT_DBG_TYPE", DBG_ERROR);
	dbg_settings.destination = dbg_number_from_env("DAT_DBG_DEST", DBG_DEST_STDERR);
	dbg_settings.time = dbg_number_from_env("DAT_DBG_TIME", 0) != 0;
	errno = saved;
}

static bool dbg_is_wanted(enum libdat_log_kind kind)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, dbg_settings_read);
	return dbg_settings.kinds & kind;
}

static void dbg_line_vadd(struct dbg_line *line, const char *format, va_list args)
{
	const size_t room = sizeof(line->text) - line->length;
	int more = vsnprintf(line->text + line->length, room, format, args);

	if (more > 0)
		line->length += (size_t)more < room ? (size_t)more : room - 1;
}

static void __attribute__((format(printf, 2, 3)))
dbg_line_add(struct dbg_line *line, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	dbg_line_vadd(line, format, args);
	va_end(args);
}

static void dbg_line_add_result(struct dbg_line *line, DAT_RETURN ret)
{
	const char *major, *minor;

	if (dat_strerror(ret, &major, &minor) == DAT_SUCCESS)
		dbg_line_add(line, ": %s%s%s", major, *minor ? " " : "", minor);
	else
		dbg_line_add(line, ": unknown result 0x%08x", ret);
}

/*
 * Adds the time of day, and the process, which is asked for at each line, because a process may
 * fork.
 */
static void dbg_line_add_origin(struct dbg_line *line)
{
	struct timespec now;
	struct tm local;

	dbg_in_libc++;
	if (dbg_settings.time && !dbg_libc_is_locked && clock_gettime(CLOCK_REALTIME, &now) == 0 &&
	    localtime_r(&now.tv_sec, &local))
		dbg_line_add(line, "%02d:%02d:%02d.%06ld ", local.tm_hour, local.tm_min,
			     local.tm_sec, now.tv_nsec / 1000);
	dbg_in_libc--;
	dbg_line_add(line, REGISTRY_NAME "[%ld]: ", (long)getpid());
}

/* The whole line is one write, because several processes of a job often share a terminal. */
static void dbg_line_write(struct dbg_line *line)
{
	line->text[line->length] = '\n';
	(void)!write(STDERR_FILENO, line->text, line->length + 1);
}

/* The caller may hold a mutex, so it must not be cancelled here. */
static void dbg_emit(enum libdat_log_kind kind, const DAT_RETURN *ret, const char *format,
		     va_list args)
{
	NO_CANCELLATION;
	const int saved = errno;
	struct dbg_line line = { .length = 0 };
	const char *text;

	dbg_line_add_origin(&line);
	text = line.text + line.length;
	errno = saved; /* for %m */
	dbg_line_vadd(&line, format, args);
	if (ret)
		dbg_line_add_result(&line, *ret);
	conf_text_clean(line.text);
	if ((dbg_settings.destination & DBG_DEST_SYSLOG) && !dbg_libc_is_locked) {
		dbg_in_libc++;
		syslog(kind == DBG_ERROR ? LOG_ERR : LOG_DEBUG, REGISTRY_NAME ": %s", text);
		dbg_in_libc--;
	}
	if (dbg_settings.destination & DBG_DEST_STDERR || dbg_libc_is_locked)
		dbg_line_write(&line);
	errno = saved;
}

void libdat_log(enum libdat_log_kind kind, const char *format, ...)
{
	va_list args;

	if (!dbg_is_wanted(kind))
		return;
	va_start(args, format);
	dbg_emit(kind, NULL, format, args);
	va_end(args);
}

void libdat_log_result(enum libdat_log_kind kind, DAT_RETURN ret, const char *format, ...)
{
	va_list args;

	if (!dbg_is_wanted(kind))
		return;
	va_start(args, format);
	dbg_emit(kind, &ret, format, args);
	va_end(args);
}
