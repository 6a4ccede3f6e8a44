/* SPDX-License-Identifier: BSD-2-Clause */
/* What the registries of the two editions do for each other in one process. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "libdat.h"
#include "log.h"

void *other_registry_find(const char *function, const char *node)
{
	void *library = dlopen(OTHER_SONAME, RTLD_NOLOAD | RTLD_LAZY);
	void *found = library ? dlvsym(library, function, node) : NULL;

	if (library && !found) /* else it stays loaded, so that what is found stays valid */
		dlclose(library);
	return found;
}

DAT_RETURN other_registry_call(const char *function, const DAT_PROVIDER *provider,
			       const DAT_PROVIDER_INFO *info)
{
	DAT_RETURN (*call)(const DAT_PROVIDER *, const DAT_PROVIDER_INFO *) = NULL;
	const DAT_RETURN refusal = DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);

	if (info->dapl_version_major == OTHER_MAJOR)
		call = (DAT_RETURN(*)(const DAT_PROVIDER *,
				      const DAT_PROVIDER_INFO *))other_registry_find(function,
										     OTHER_NODE);
	if (call)
		return call(provider, info);
	libdat_log(DBG_ERROR, "%s u%u.%u: %s: %s takes no provider of this version", info->ia_name,
		   info->dapl_version_major, info->dapl_version_minor, function, REGISTRY_SONAME);
	libdat_log_result(DBG_DYNAMIC, refusal, "%s u%u.%u: %s", info->ia_name,
			  info->dapl_version_major, info->dapl_version_minor, function);
	return refusal;
}
