/* SPDX-License-Identifier: BSD-2-Clause */
/* What a provider library exports to the registry, and how it registers the names it serves. */
#ifndef _DAT_REGISTRY_H_
#define _DAT_REGISTRY_H_

#include <dat/udat.h>
#include <dat/udat_redirection.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DAT_PROVIDER_INIT_FUNC_NAME	dat_provider_init
#define DAT_PROVIDER_FINI_FUNC_NAME	dat_provider_fini
#define DAT_PROVIDER_INIT_FUNC_STR	"dat_provider_init"
#define DAT_PROVIDER_FINI_FUNC_STR	"dat_provider_fini"

typedef void (*DAT_PROVIDER_INIT_FUNC)(const DAT_PROVIDER_INFO *, const char *);
typedef void (*DAT_PROVIDER_FINI_FUNC)(const DAT_PROVIDER_INFO *);

void DAT_PROVIDER_INIT_FUNC_NAME(const DAT_PROVIDER_INFO *info, const char *instance_data);
void DAT_PROVIDER_FINI_FUNC_NAME(const DAT_PROVIDER_INFO *info);

DAT_RETURN dat_registry_add_provider(const DAT_PROVIDER *, const DAT_PROVIDER_INFO *);
DAT_RETURN dat_registry_remove_provider(const DAT_PROVIDER *, const DAT_PROVIDER_INFO *);

#ifdef __cplusplus
}
#endif

#endif
