/* SPDX-License-Identifier: BSD-2-Clause */
/* The provider's messages: which are wanted, where they are written, and names for numbers. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "base.h"
#include "log.h"
#include "registry.h"
#include "thread.h"
#include "transport.h"

#define LINE_SIZE 512 /* bytes of a line; what is longer is cut off */

/* The bits of DAPL_DBG_DEST. OFED writes to standard output, where a program's own output is. */
enum {
	TO_STDERR = 1,
	TO_SYSLOG = 2,
};

static unsigned wanted, destination, with_time; /* fixed once read */

static atomic_bool absence_hidden, absence_hinted;

static atomic_uint in_libc; /* threads in a function of libc that takes a lock */
static bool libc_is_locked; /* written after a fork, by the only thread */

void log_after_fork(void)
{
	if (in_libc > 0)
		libc_is_locked = true;
}

static unsigned log_env_number(const char *name, unsigned fallback)
{
	const char *text = secure_getenv(name);
	unsigned long value;
	char *end;

	if (!text)
		return fallback;
	value = strtoul(text, &end, 0);
	return end == text ? fallback : (unsigned)value;
}

static void log_read_env(void)
{
	wanted = log_env_number("DAPL_DBG_TYPE", LOG_ERROR | LOG_WARN) | LOG_ANSWER;
	destination = log_env_number("DAPL_DBG_DEST", TO_STDERR);
	with_time = log_env_number("DAPL_DBG_TIME", 0);
}

static int syslog_priority(unsigned kind)
{
	switch (kind) {
	case LOG_ERROR:
		return LOG_ERR;
	case LOG_WARN:
		return LOG_WARNING;
	case LOG_ANSWER:
		return LOG_INFO;
	default:
		return LOG_DEBUG;
	}
}

/*
 * Returns how many bytes snprintf has written if it returned @printed for a buffer of @size bytes.
 */
static size_t bytes_in(size_t size, int printed)
{
	if (printed < 0)
		return 0;
	return (size_t)printed < size ? (size_t)printed : size - 1;
}

/*
 * Writes "03:12:44.123456 libdaplcma[812]: ", the time of day only if it is wanted. Returns how
 * long.
 */
static size_t write_prefix(char *line, size_t size)
{
	struct timespec now;
	struct tm day;
	size_t length = 0;

	in_libc++;
	if (with_time && !libc_is_locked && clock_gettime(CLOCK_REALTIME, &now) == 0 &&
	    localtime_r(&now.tv_sec, &day))
		length = bytes_in(size, snprintf(line, size, "%02d:%02d:%02d.%06ld ", day.tm_hour,
						 day.tm_min, day.tm_sec, now.tv_nsec / 1000));
	in_libc--;
	return length +
	       bytes_in(size - length, snprintf(line + length, size - length,
						"%s[%d]: ", tp_library_name, (int)getpid()));
}

/*
 * Writes a line, to which it adds the newline, in one write, because the processes of a job often
 * share a terminal. The caller may hold locks, so it must not be cancelled here.
 */
static void write_line(unsigned kind, char *line, size_t length)
{
	CANCEL_FORBIDDEN;

	if ((destination & TO_SYSLOG) && !libc_is_locked) {
		in_libc++;
		syslog(syslog_priority(kind), "%s", line);
		in_libc--;
	}
	if ((destination & TO_STDERR) || libc_is_locked) {
		line[length] = '\n';
		(void)!write(STDERR_FILENO, line, length + 1);
	}
}

bool log_wants(unsigned kind)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const int saved = errno;

	pthread_once(&once, log_read_env);
	errno = saved;
	return wanted & kind;
}

void log_to(unsigned kind, const char *format, ...)
{
	const int saved = errno;
	char line[LINE_SIZE];
	size_t length;
	va_list args;

	if (!log_wants(kind))
		return;
	length = write_prefix(line, sizeof(line));
	va_start(args, format);
	errno = saved; /* for %m */
	length += bytes_in(sizeof(line) - length,
			   vsnprintf(line + length, sizeof(line) - length, format, args));
	va_end(args);
	write_line(kind, line, length);
	errno = saved;
}

void log_absence_hide(void)
{
	absence_hidden = true;
}

void log_absence_hint(const char *ia_name)
{
	if (atomic_exchange(&absence_hidden, false) && !atomic_exchange(&absence_hinted, true))
		log_warn("%s: this host lacks what dat.conf has for it: datinfo %s tells what",
			 ia_name, ia_name);
}

const char *log_conf_line(void)
{
	const struct registry_calls *registry = registry_known();
	const char *line = registry->line ? registry->line() : NULL;

	return line ? line : "dat.conf";
}

bool log_descriptor_shortage(const char *what, int err)
{
	if (err == -EMFILE)
		log_error("%s: this process has no file descriptor left; ulimit -n is the limit",
			  what);
	else if (err == -ENFILE)
		log_error("%s: this system has no file descriptor left; fs.file-max is the limit",
			  what);
	return err == -EMFILE || err == -ENFILE;
}

/* ---- names ---- */

const char *event_name(DAT_EVENT_NUMBER number)
{
	/* clang-format off */
#define NAMED(event) { event, #event }
	/* clang-format on */
	static const struct {
		DAT_EVENT_NUMBER number;
		const char *name;
	} names[] = {
		NAMED(DAT_CONNECTION_REQUEST_EVENT),
		NAMED(DAT_CONNECTION_EVENT_ESTABLISHED),
		NAMED(DAT_CONNECTION_EVENT_PEER_REJECTED),
		NAMED(DAT_CONNECTION_EVENT_NON_PEER_REJECTED),
		NAMED(DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR),
		NAMED(DAT_CONNECTION_EVENT_DISCONNECTED),
		NAMED(DAT_CONNECTION_EVENT_BROKEN),
		NAMED(DAT_CONNECTION_EVENT_TIMED_OUT),
		NAMED(DAT_CONNECTION_EVENT_UNREACHABLE),
	};
#undef NAMED

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].number == number)
			return names[i].name;
	return "an unknown event";
}

const char *event_cause(DAT_EVENT_NUMBER number)
{
	switch (number) {
	case DAT_CONNECTION_EVENT_PEER_REJECTED:
		return "the peer's program refuses the connection";
	case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
		return "no program of DAT listens there, or it has no room for a request";
	case DAT_CONNECTION_EVENT_UNREACHABLE:
		return "there is no way to this address, or no host has it";
	case DAT_CONNECTION_EVENT_TIMED_OUT:
		return "no answer in time";
	default:
		return NULL;
	}
}

const char *status_name(DAT_RETURN status, struct status_text *text)
{
	const char *type = "?", *subtype = "?";

	(void)dat_strerror(status, &type, &subtype);
	snprintf(text->text, sizeof(text->text), "%s, %s", type, subtype);
	return text->text;
}
