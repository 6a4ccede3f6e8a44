/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the tests of the registry share: a dat.conf of their own, and what they print on stderr.
 */
#ifndef REGISTRY_TEST_H
#define REGISTRY_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../harness/run.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* A file without a name, so that none is left behind. Read it through what path says. */
static inline int scratch_file(char path[32])
{
	int fd = memfd_create("scratch", 0);

	ck_assert_int_ge(fd, 0);
	snprintf(path, 32, "/proc/self/fd/%d", fd);
	return fd;
}

/*
 * From here on this is what dat.conf says, in the caller's process. It is read when the registry is
 * first asked.
 */
static inline void use_conf(const char *text)
{
	char path[32];
	int fd = scratch_file(path);
	ssize_t length = (ssize_t)strlen(text);

	ck_assert_int_eq(write(fd, text, (size_t)length), length);
	ck_assert_int_eq(setenv("DAT_OVERRIDE", path, 1), 0);
}

/* Sends stderr to a file, whose contents heard() returns. */
static inline int listen_to_stderr(void)
{
	char path[32];
	int fd = scratch_file(path);

	fflush(stderr);
	ck_assert_int_eq(dup2(fd, STDERR_FILENO), STDERR_FILENO);
	return fd;
}

static inline const char *heard(int fd)
{
	static char text[65536];
	ssize_t length;

	fflush(stderr);
	length = pread(fd, text, sizeof(text) - 1, 0);
	ck_assert_int_ge(length, 0);
	text[length] = '\0';
	return text;
}

static inline int lines_heard(int fd)
{
	int lines = 0;

	for (const char *p = heard(fd); *p; p++)
		lines += *p == '\n';
	return lines;
}

#endif
