/* SPDX-License-Identifier: BSD-2-Clause */
/* The registry of one edition of DAT: loading it, and names of results. Compiled like open.c. */
#include "registry.h"

#include <dlfcn.h>

void registry_loader_tell(void)
{
	const char *reason = dlerror();

	fprintf(stderr, "%s\n", reason ? reason : "unknown reason");
}

bool registry_load(const char *name, struct registry *registry)
{
	void *library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);

	if (library) {
		registry->ia_openv = dlsym(library, "dat_ia_openv");
		registry->ia_query = dlsym(library, "dat_ia_query");
		registry->ia_close = dlsym(library, "dat_ia_close");
		registry->strerror = dlsym(library, "dat_strerror");
		registry->pz_create = dlsym(library, "dat_pz_create");
		registry->evd_create = dlsym(library, "dat_evd_create");
		registry->evd_wait = dlsym(library, "dat_evd_wait");
		registry->ep_create = dlsym(library, "dat_ep_create");
		registry->ep_connect = dlsym(library, "dat_ep_connect");
	}
	if (library && registry->ia_openv && registry->ia_query && registry->ia_close &&
	    registry->strerror)
		return true;
	registry_loader_tell();
	return false;
}

void registry_return_text(const struct registry *registry, DAT_RETURN ret, char *text, size_t size)
{
	const char *major = "unknown error", *minor = "";

	(void)registry->strerror(ret, &major, &minor);
	snprintf(text, size, "%s%s%s", major, *minor ? " " : "", minor);
}
