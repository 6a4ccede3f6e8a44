/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Between the registry and a provider's library: what the library exports, and how it registers its
 * names.
 */
#ifndef _DAT_REGISTRY_H_
#define _DAT_REGISTRY_H_

#include <dat/udat.h>
#include <dat/udat_redirection.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the registry looks for in a library, by plain name. */
#define DAT_PROVIDER_INIT_FUNC_NAME dat_provider_init
#define DAT_PROVIDER_FINI_FUNC_NAME dat_provider_fini

#define DAT_PROVIDER_INIT_FUNC_STR "dat_provider_init"
#define DAT_PROVIDER_FINI_FUNC_STR "dat_provider_fini"

typedef void (*DAT_PROVIDER_INIT_FUNC)(const DAT_PROVIDER_INFO *info, const char *instance_data);
typedef void (*DAT_PROVIDER_FINI_FUNC)(const DAT_PROVIDER_INFO *info);

/*
 * dat_provider_init is the library's: the registry calls it before the first open of a name, after
 * a fini of that name, and after the library withdrew it. It registers exactly info, or nothing if
 * it cannot, which makes the open fail with DAT_PROVIDER_NOT_FOUND. instance_data is the seventh
 * field of the line in dat.conf, as it stands there.
 *
 * Called by one thread at a time. It must not call dat_ia_open or dat_ia_close: a registry may hold
 * its lock.
 * Source: dat_provider_init(3DAT)
 */
void DAT_PROVIDER_INIT_FUNC_NAME(const DAT_PROVIDER_INFO *info, const char *instance_data);

/*
 * dat_provider_fini is the library's: the registry calls it when no instance of the name is open,
 * once for each init. The library removes what it registered; our registry does so itself if it did
 * not.
 *
 * As dat_provider_init.
 * Source: dat_provider_fini(3DAT)
 */
void DAT_PROVIDER_FINI_FUNC_NAME(const DAT_PROVIDER_INFO *info);

/*
 * dat_registry_add_provider offers a name: from now on an open of info reaches ia_open_func of
 * provider. The registry copies info and that entry; the table itself has to stay, as handles point
 * to it. One name may be there in several versions.
 *
 * Safe; allowed within dat_provider_init.
 * DAT_INVALID_PARAMETER, ARG1: provider is null; ARG2: info is null, or its name empty or
 *	not terminated
 * DAT_PROVIDER_ALREADY_REGISTERED: name, version and threads are all taken
 * DAT_INVALID_STATE: the process is exiting
 * Source: dat_registry_add_provider(3DAT); several versions of a name are our choice.
 */
DAT_RETURN dat_registry_add_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info);

/*
 * dat_registry_remove_provider withdraws a name. No instance of it may be open. info alone says
 * which name is meant.
 *
 * Safe; allowed within dat_provider_fini.
 * DAT_INVALID_PARAMETER, ARG1: provider is null; ARG2: info is null
 * DAT_PROVIDER_NOT_FOUND, NAME_NOT_REGISTERED: it is not there
 * DAT_PROVIDER_IN_USE: an instance is open
 * DAT_INVALID_STATE: the process is exiting
 * Source: dat_registry_remove_provider(3DAT); DAT_PROVIDER_NOT_FOUND is our choice, OFED's.
 */
DAT_RETURN dat_registry_remove_provider(const DAT_PROVIDER *provider,
					const DAT_PROVIDER_INFO *info);

#ifdef __cplusplus
}
#endif

#endif
