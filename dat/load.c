/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a provider library is looked for. libdat and datinfo are both built with this file. */
#define _GNU_SOURCE
#include "load.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/*
 * Writes the folder of the file that has @code, as "/opt/dat/lib/". Returns false if it is not
 * known, or too long. In a program that has the registry in itself the file is argv[0], which other
 * users choose.
 */
static bool folder_of(const void *code, char *path, size_t size)
{
	Dl_info file;
	char *slash;

	if (getauxval(AT_SECURE) || !dladdr(code, &file) || !file.dli_fname ||
	    (size_t)snprintf(path, size, "%s", file.dli_fname) >= size)
		return false;
	slash = strrchr(path, '/');
	if (slash)
		slash[1] = '\0';
	return slash;
}

void *provider_load(const char *name, const void *libdat)
{
	char path[PATH_MAX];
	void *library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);

	if (library || strchr(name, '/') || !folder_of(libdat, path, sizeof(path)) ||
	    strlen(path) + strlen(name) >= sizeof(path))
		return library;
	strcat(path, name);
	return access(path, F_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
}
