/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages of the provider: DAPL_DBG_TYPE says which, DAPL_DBG_DEST where to. */
#ifndef UDAPL_LOG_H
#define UDAPL_LOG_H

/* The bits of DAPL_DBG_TYPE. */
enum log_kind {
	LOG_ERROR = 0x1, /* the call fails, on by default */
	LOG_WARN = 0x2,	 /* we carry on, on by default */
	LOG_EVD = 0x4,
	LOG_CM = 0x8,
	LOG_EP = 0x10,
	LOG_UTIL = 0x20,
	LOG_CALLBACK = 0x40,
	LOG_DTO = 0x80,
	LOG_API = 0x100,
};

/* One line; the newline is added. Thread-safe, keeps errno. */
void log_to(enum log_kind kind, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_to(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_to(LOG_WARN, __VA_ARGS__)
#define log_cm(...)    log_to(LOG_CM, __VA_ARGS__)
#define log_ep(...)    log_to(LOG_EP, __VA_ARGS__)
#define log_util(...)  log_to(LOG_UTIL, __VA_ARGS__)

#endif
