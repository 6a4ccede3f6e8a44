/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replaces the functions of libc that the logs call and that take a lock, so that a thread can hold
 * that lock for good.
 */
#ifndef LIBC_LOCK_H
#define LIBC_LOCK_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock_of_libc = PTHREAD_MUTEX_INITIALIZER;
static sem_t in_libc_now;
static _Thread_local bool stays_in_libc;

static void use_libc(void)
{
	pthread_mutex_lock(&lock_of_libc);
	if (stays_in_libc) {
		sem_post(&in_libc_now);
		pause();
	}
	pthread_mutex_unlock(&lock_of_libc);
}

/* The library calls these instead of libc's. */
struct tm *localtime_r(const time_t *now, struct tm *day)
{
	use_libc();
	return gmtime_r(now, day);
}

void(syslog)(int priority, const char *format, ...)
{
	(void)priority;
	(void)format;
	use_libc();
}

/* This is the name of syslog in a build with _FORTIFY_SOURCE. */
void __syslog_chk(int priority, int flag, const char *format, ...);
void __syslog_chk(int priority, int flag, const char *format, ...)
{
	(void)priority;
	(void)flag;
	(void)format;
	use_libc();
}

#endif
