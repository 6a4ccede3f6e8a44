/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The library of the unit tests of the registry: what differs between the editions of DAT, a
 * dat.conf of their own, capture of stderr, and short forms of the registry's calls.
 */
#ifndef REGISTRY_TEST_H
#define REGISTRY_TEST_H

#include <edition.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../harness/process.h"
#include "../harness/run.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- the edition: most tests are compiled for both ---- */

/*
 * Its version as in dat.conf, with any minor one, and its major version; those of the other
 * edition, whose providers this one's registry refuses; the registry, and the mock provider that is
 * linked with it.
 */
#if DAT_EDITION == 2
#define API_MINOR(minor) "u2." minor
#define API_VERSION	 API_MINOR("0")
#define API_MAJOR	 2
#define FOREIGN_VERSION	 "u1.2"
#define FOREIGN_MAJOR	 1
#define FOREIGN_MINOR	 2
#define LIBDAT		 LIBDAT_FOLDER "/libdat2.so.2"
#define MOCK_PROVIDER	 MOCK_FOLDER "/mock_provider20.so"
#else
#define API_MINOR(minor) "u1." minor
#define API_VERSION	 API_MINOR("2")
#define API_MAJOR	 1
#define FOREIGN_VERSION	 "u2.0"
#define FOREIGN_MAJOR	 2
#define FOREIGN_MINOR	 0
#define LIBDAT		 LIBDAT_FOLDER "/libdat.so.1"
#define MOCK_PROVIDER	 MOCK_FOLDER "/mock_provider.so"
#endif

#define ERROR_OF(type, subtype) (DAT_CLASS_ERROR | (DAT_RETURN)(type) | (DAT_RETURN)(subtype))
#define BAD_ARG(n)		ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1 + (n)-1)
#define BAD_IA			ERROR_OF(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA)
#define NO_NAME			ERROR_OF(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED)
#define NO_MAJOR		ERROR_OF(DAT_PROVIDER_NOT_FOUND, DAT_MAJOR_NOT_FOUND)
#define NO_DEVICE		ERROR_OF(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE)
#define IA_IN_USE		ERROR_OF(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE)
#define PROVIDER_IN_USE		ERROR_OF(DAT_PROVIDER_IN_USE, DAT_NO_SUBTYPE)

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

/* A line of dat.conf, and one for a provider whose library does not exist. */
#define LINE(name, version, library, params)                                                       \
	name " " version " nonthreadsafe default " library " dapl.1.2 \"" params "\" \"\"\n"
#define CONF_LINE(name) LINE(name, API_VERSION, "libnone.so", "p")
/* One of the mock provider. */
#define MOCK(name, params) LINE(name, API_VERSION, MOCK_PROVIDER, params)

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

/*
 * The object of a test's own provider: it begins with the provider's table, as the ABI demands, at
 * an address that malloc(3) may return.
 */
struct registry_object {
	_Alignas(2 * sizeof(void *)) DAT_PROVIDER *provider;
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
