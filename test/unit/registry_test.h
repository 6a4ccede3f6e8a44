/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The library of the unit tests of the registry: a dat.conf of their own, capture of stderr, and
 * short forms of the registry's calls.
 */
#ifndef REGISTRY_TEST_H
#define REGISTRY_TEST_H

#include <dat/dat_registry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../harness/process.h"
#include "../harness/run.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- dat.conf ---- */

/* Opens a file in memory. @path is set to a name under which this process can open it again. */
static inline int scratch_file(char path[32])
{
	int fd = output_file_create();

	snprintf(path, 32, "/proc/self/fd/%d", fd);
	return fd;
}

/*
 * Makes @text the contents of dat.conf for this process. To be called before the first call to the
 * registry, which reads the file.
 */
static inline void use_conf(const char *text)
{
	char path[32];
	int fd = scratch_file(path);
	ssize_t length = (ssize_t)strlen(text);

	ck_assert_int_eq(write(fd, text, (size_t)length), length);
	ck_assert_int_eq(setenv("DAT_OVERRIDE", path, 1), 0);
}

/* A line of dat.conf for a provider whose library does not exist. */
#define CONF_LINE(name) name " u1.2 nonthreadsafe default libnone.so dapl.1.2 \"p\" \"\"\n"

/* ---- stderr ---- */

/* Counts the lines that stderr_capture() has captured. */
static inline int captured_lines(int fd)
{
	int lines = 0;

	for (const char *p = output_text(fd); *p; p++)
		lines += *p == '\n';
	return lines;
}

/* ---- the registry's calls ---- */

/* The object of a test's own provider: it begins with the provider's table, as the ABI demands. */
struct registry_object {
	DAT_PROVIDER *provider;
};

/* Returns the first characters of the names that the registry lists, at most @max of them. */
static inline const char *registry_list(DAT_COUNT max)
{
	static char text[32];
	DAT_PROVIDER_INFO infos[32], *list[32];
	DAT_COUNT count = -1;

	for (int i = 0; i < COUNT(list); i++)
		list[i] = i < max ? &infos[i] : NULL;
	ck_assert_uint_eq(dat_registry_list_providers(max, &count, list), DAT_SUCCESS);
	for (int i = 0; i < count; i++)
		text[i] = infos[i].ia_name[0];
	text[count] = '\0';
	return text;
}

/* Removes the provider of @name; its table may be any. */
static inline DAT_RETURN registry_remove(const char *name, DAT_UINT32 major, DAT_UINT32 minor,
					 DAT_BOOLEAN thread_safe)
{
	DAT_PROVIDER_INFO info = { "", major, minor, thread_safe };
	DAT_PROVIDER table = { .device_name = name };

	strcpy(info.ia_name, name);
	return dat_registry_remove_provider(&table, &info);
}

#endif
