/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages of the provider. */
#ifndef UDAPL_LOG_H
#define UDAPL_LOG_H

#include <stdbool.h>

#include <edition.h>

/* The bits of the environment variable DAPL_DBG_TYPE. */
enum log_kind {
	LOG_ERROR = 0x1, /* the call fails; on by default */
	LOG_WARN = 0x2,	 /* the call goes on; on by default */
	/* The kinds of objects; of each also the calls that failed, see refuse.h. */
	LOG_EVD = 0x4, /* and CNOs */
	LOG_CM = 0x8,
	LOG_EP = 0x10, /* and shared receive queues */
	LOG_UTIL = 0x20,
	LOG_CALLBACK = 0x40,
	LOG_DTO = 0x80, /* and binds */
	LOG_API = 0x100,
	/*
	 * What a line of dat.conf names is not on this host: programs try one line after the other,
	 * so it is off by default. The tools turn it on.
	 */
	LOG_ABSENT = 0x2000,
	/* What the consumer has asked for, by a call or a variable: always wanted. */
	LOG_ANSWER = 1 << 30,
};

/*
 * Writes one line, "libdaplcma[PID]: ..." and the newline, with the time of day in front if
 * DAPL_DBG_TIME is set to a number other than 0. DAPL_DBG_DEST says where to: 1 standard error (the
 * default), 2 syslog, 3 both. Thread-safe, keeps errno, does not block on a lock of ours.
 */
void log_to(unsigned kind, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * In the child after a fork. If another thread was in syslog(3) or localtime_r(3), whose locks are
 * then taken for good, lines carry no time and are written to stderr only.
 */
void log_after_fork(void);

/* Returns whether lines of this kind, or of one of several, are wanted. Any thread; keeps errno. */
bool log_wants(unsigned kind);

#define log_error(...) log_to(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_to(LOG_WARN, __VA_ARGS__)
/* Their arguments are evaluated only if the line is wanted: names and texts take time. */
#define log_cm(...)   (log_wants(LOG_CM) ? log_to(LOG_CM, __VA_ARGS__) : (void)0)
#define log_ep(...)   (log_wants(LOG_EP) ? log_to(LOG_EP, __VA_ARGS__) : (void)0)
#define log_util(...) (log_wants(LOG_UTIL) ? log_to(LOG_UTIL, __VA_ARGS__) : (void)0)

/*
 * What a line of dat.conf names is not on this host: wanted with LOG_UTIL, too. A line that is not
 * wanted is kept from the user, which log_absence_hint makes up for.
 */
#define log_absent(...)                                                                            \
	(log_wants(LOG_ABSENT | LOG_UTIL) ? log_to(LOG_ABSENT | LOG_UTIL, __VA_ARGS__)             \
					  : log_absence_hide())
void log_absence_hide(void);

/*
 * To be called when dat_ia_open of @ia_name has found no device. If the cause was not told, a
 * warning says who tells it, once in a process. Thread-safe.
 */
void log_absence_hint(const char *ia_name);

/*
 * For messages: returns the line of dat.conf that is being opened, as "/etc/dat.conf:12", on the
 * thread of dat_ia_open while that lasts; else "dat.conf".
 */
const char *log_conf_line(void);

/*
 * Returns whether @err, 0 or a negative errno, says that descriptors ran out. If so, a line says of
 * @what that it failed for that, and which limit counts.
 */
bool log_descriptor_shortage(const char *what, int err);

/* For messages: returns "DAT_CONNECTION_EVENT_ESTABLISHED"; "an unknown event" of other numbers. */
const char *event_name(DAT_EVENT_NUMBER number);
/* For messages: returns why an attempt to connect ends with this event; NULL for all others. */
const char *event_cause(DAT_EVENT_NUMBER number);

struct status_text {
	char text[96];
};
/*
 * For messages: writes "DAT_INVALID_STATE, DAT_INVALID_STATE_EP_CONNECTED" to @text, and returns
 * it.
 */
const char *status_name(DAT_RETURN status, struct status_text *text);

#endif
