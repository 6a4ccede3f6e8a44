/* SPDX-License-Identifier: BSD-2-Clause */
/* What the registries of the two editions do for each other in one process. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "libdat.h"
#include "log.h"

/* Finds the function of the other registry in a node of its versions. */
static void *function_find(const char *function, const char *node)
{
	/* It stays loaded from now on, so that what is found stays valid. */
	void *library = dlopen(OTHER_SONAME, RTLD_NOLOAD | RTLD_LAZY | RTLD_NODELETE);
	void *found = NULL;

	if (library) {
		found = dlvsym(library, function, node);
		dlclose(library);
	}
	return found;
}

void *other_registry_find(const char *function)
{
	return function_find(function, OTHER_NODE);
}

/* ---- fork ---- */

/* The other registry's datx_registry_lose; NULL: it was not there at any open or close so far. */
static void (*_Atomic lose_other)(void);

void other_registry_note(void)
{
	if (atomic_load(&lose_other))
		return;
	provider_call_begin();
	atomic_store(&lose_other,
		     (void (*)(void))function_find("datx_registry_lose", OTHER_DATX_NODE));
	provider_call_end();
}

void other_registry_lose(void)
{
	void (*lose)(void) = atomic_load(&lose_other);

	if (lose)
		lose();
}

void datx_registry_lose(void)
{
	registry.end = REGISTRY_LOST;
}

/* ---- providers of the other edition ---- */

DAT_RETURN other_registry_call(const char *function, const DAT_PROVIDER *provider,
			       const DAT_PROVIDER_INFO *info)
{
	DAT_RETURN (*call)(const DAT_PROVIDER *, const DAT_PROVIDER_INFO *) = NULL;
	const DAT_RETURN refusal = DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);

	if (info->dapl_version_major == OTHER_MAJOR)
		call = (DAT_RETURN(*)(const DAT_PROVIDER *,
				      const DAT_PROVIDER_INFO *))other_registry_find(function);
	if (call)
		return call(provider, info);
	libdat_log(DBG_ERROR, "%s u%u.%u: %s: %s takes no provider of this version", info->ia_name,
		   info->dapl_version_major, info->dapl_version_minor, function, REGISTRY_SONAME);
	libdat_log_result(DBG_DYNAMIC, refusal, "%s u%u.%u: %s", info->ia_name,
			  info->dapl_version_major, info->dapl_version_minor, function);
	return refusal;
}
