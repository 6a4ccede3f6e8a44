/* SPDX-License-Identifier: BSD-2-Clause */
/* The two entry points of the library, which libdat calls. */
#include "entry.h"

/*
 * Registers info->ia_name, whether or not there is such a device: opening it finds out. There is no
 * way to report a failure; the registry then has no such name. Safe.
 * Source: uDAPL 1.2.
 */
__attribute__((visibility("default"))) void dat_provider_init(const DAT_PROVIDER_INFO *info,
							      const char *instance_data)
{
	CANCEL_FORBIDDEN;
	DAT_PROVIDER table;
	struct provider *provider;
	struct status_text text;
	DAT_RETURN ret;

	table_fill(&table, info->is_thread_safe);
	provider = provider_announce(info, &table, sizeof(table),
				     instance_data ? instance_data : "");
	if (!provider) {
		log_error("%s: not registered: no memory", info->ia_name);
		return;
	}
	ret = dat_registry_add_provider(provider->table, &provider->info);
	if (ret == DAT_SUCCESS)
		return;
	log_error("%s: not registered: %s", info->ia_name, status_name(ret, &text));
	provider_retract(info);
}

/*
 * Unregisters the name. Its table stays, because handles lead to it. Safe.
 * Source: uDAPL 1.2.
 */
__attribute__((visibility("default"))) void dat_provider_fini(const DAT_PROVIDER_INFO *info)
{
	CANCEL_FORBIDDEN;
	struct provider *provider = provider_retract(info);

	if (provider)
		(void)dat_registry_remove_provider(provider->table, &provider->info);
}
