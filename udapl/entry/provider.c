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

	if (info->dapl_version_major != DAT_EDITION) {
		log_error("%s: not registered: this library is a provider of DAT %d, and its line "
			  "of dat.conf is one of DAT %u",
			  info->ia_name, DAT_EDITION, (unsigned)info->dapl_version_major);
		return;
	}
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

#if DAT_EDITION == 2
DAT_RETURN dapl_extensions(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list args);

/*
 * dapl's registry looks this symbol up, to tell whether a library has extensions; it calls them by
 * the table.
 */
__attribute__((visibility("default"))) DAT_RETURN dapl_extensions(DAT_HANDLE handle,
								  DAT_EXTENDED_OP op, va_list args)
{
	return extended_op(handle, op, args);
}
#endif

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
