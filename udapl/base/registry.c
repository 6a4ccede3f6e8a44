/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the functions that only the registries of this project have. */
#include <dlfcn.h>
#include <pthread.h>

#include <edition.h>

#include "registry.h"

static struct registry_calls found;

/*
 * A process may have the registries of both editions: each has its names in a version of its own.
 */
static void registry_find(void)
{
	found.ro_aware = (int (*)(void))dlvsym(RTLD_DEFAULT, "datx_ia_open_ro_aware",
					       REGISTRY_NODE);
	found.line = (const char *(*)(void))dlvsym(RTLD_DEFAULT, "datx_ia_open_line",
						   REGISTRY_NODE);
	found.lose = (void (*)(void))dlvsym(RTLD_DEFAULT, "datx_registry_lose", REGISTRY_NODE);
}

const struct registry_calls *registry_known(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, registry_find);
	return &found;
}
