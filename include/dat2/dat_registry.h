/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Between the registry and a provider's library: the functions that the library exports, and the
 * calls that register its names.
 */
#if defined(_DAT_REGISTRY_H_) && _DAT_REGISTRY_H_ + 0 != 2
#error "A program includes the headers of either dat/ or dat2/: their names are the same."
#endif
#ifndef _DAT_REGISTRY_H_
#define _DAT_REGISTRY_H_ 2

#include <dat2/udat.h>
#include <dat2/udat_redirection.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The symbols that the registry looks up in a library. That of dapl looks for dapl_extensions as
 * well, and only tells in its log if there is none: it calls the last entry of the table.
 */
#define DAT_PROVIDER_INIT_FUNC_NAME dat_provider_init
#define DAT_PROVIDER_FINI_FUNC_NAME dat_provider_fini

#define DAT_PROVIDER_INIT_FUNC_STR "dat_provider_init"
#define DAT_PROVIDER_FINI_FUNC_STR "dat_provider_fini"

typedef void (*DAT_PROVIDER_INIT_FUNC)(const DAT_PROVIDER_INFO *info, const char *instance_data);
typedef void (*DAT_PROVIDER_FINI_FUNC)(const DAT_PROVIDER_INFO *info);

/*
 * dat_provider_init is exported by the library. The registry calls it before the first open of a
 * name, after a fini of that name, and after the library removed the name. It registers exactly
 * info, or nothing if it fails, and then the open fails with DAT_PROVIDER_NOT_FOUND. instance_data
 * is the seventh field of the line in dat.conf, unchanged.
 *
 * Called by one thread at a time for a name, for different names perhaps by several. It must not
 * call dat_ia_open or dat_ia_close, because a registry may hold its lock.
 * Source: dat_provider_init(3DAT)
 */
void DAT_PROVIDER_INIT_FUNC_NAME(const DAT_PROVIDER_INFO *info, const char *instance_data);

/*
 * dat_provider_fini is exported by the library. The registry calls it once for each init, when no
 * instance of the name is open. The library removes what it registered; otherwise our registry
 * does so.
 *
 * Called as dat_provider_init.
 * Source: dat_provider_fini(3DAT)
 */
void DAT_PROVIDER_FINI_FUNC_NAME(const DAT_PROVIDER_INFO *info);

/*
 * dat_registry_add_provider registers a name: from now on an open of info calls ia_open_func of
 * provider. The registry copies info, that entry and the last one, which opens queries. The table
 * itself must remain valid, because handles point to it. One name may be registered in several
 * versions. A provider of DAT 1.2 has a shorter table; one that calls this registry instead of its
 * own is passed on to that one, if it is in the process.
 *
 * Safe; may be called from dat_provider_init.
 * DAT_INVALID_PARAMETER, ARG1: provider is null; ARG2: info is null, its name is empty or not
 *	terminated, or its dapl_version_major is not 2 and cannot be passed on
 * DAT_PROVIDER_ALREADY_REGISTERED: name, version and thread safety are all registered
 * DAT_INVALID_STATE: the process is exiting
 * Source: dat_registry_add_provider(3DAT); several versions of a name, and what becomes of DAT 1.2,
 *	are our choice.
 */
DAT_RETURN dat_registry_add_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info);

/*
 * dat_registry_remove_provider removes the name info; provider is not used, but must not be null.
 * No instance of the name may be open. A name of DAT 1.2 is passed on, as by
 * dat_registry_add_provider.
 *
 * Safe; may be called from dat_provider_fini.
 * DAT_INVALID_PARAMETER, ARG1: provider is null; ARG2: info is null, or its name is empty or not
 *	terminated
 * DAT_PROVIDER_NOT_FOUND, NAME_NOT_REGISTERED: it is not registered
 * DAT_PROVIDER_IN_USE: an instance is open
 * DAT_INVALID_STATE: the process is exiting
 * Source: dat_registry_remove_provider(3DAT); DAT_PROVIDER_NOT_FOUND is our choice, dapl's.
 */
DAT_RETURN dat_registry_remove_provider(const DAT_PROVIDER *provider,
					const DAT_PROVIDER_INFO *info);

/* Whether one IA takes over when another fails. */
typedef enum dat_ha_relationship {
	DAT_HA_FALSE = 0,
	DAT_HA_TRUE = 1,
	DAT_HA_UNKNOWN = 2,
	DAT_HA_CONFLICTING = 3, /* each of the two providers says something else */
	DAT_HA_EXTENSION_BASE = 4
} DAT_HA_RELATIONSHIP;

/*
 * dat_registry_providers_related returns in *relationship whether the IAs of two names are
 * partners. It is DAT_HA_FALSE, because no known provider has partners.
 *
 * Of DATX_2.0, see the conventions of dat.h. Safe.
 * DAT_INVALID_PARAMETER, ARG1, ARG2, ARG3: name, other or relationship is null
 * DAT_INSUFFICIENT_RESOURCES, MEMORY: too little of it, or of descriptors, to read dat.conf now
 * DAT_PROVIDER_NOT_FOUND, NAME_NOT_REGISTERED: dat.conf has no such name
 * Source: dapl, which declares it and has it nowhere; what it does is our choice.
 */
DAT_RETURN dat_registry_providers_related(const DAT_NAME_PTR name, const DAT_NAME_PTR other,
					  DAT_HA_RELATIONSHIP *relationship);

#ifdef __cplusplus
}
#endif

#endif
