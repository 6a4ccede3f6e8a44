/* SPDX-License-Identifier: BSD-2-Clause */
/* What a registry enters by: announced names, the IA as a whole, the calls on any handle. */
#ifndef UDAPL_ENTRY_H
#define UDAPL_ENTRY_H

#include "listen/listen.h"

/* ---- names.c: the names that dat_provider_init announced; any thread ---- */

/*
 * Announces info->ia_name with a copy of @params. Its table begins as a copy of @calls; a name that
 * was announced before keeps the one that it has. NULL: no memory.
 */
struct provider *provider_announce(const DAT_PROVIDER_INFO *info, const DAT_PROVIDER *calls,
				   const char *params);
/* The name is not found any more. Its struct stays, because handles lead to it. NULL: unknown. */
struct provider *provider_retract(const DAT_PROVIDER_INFO *info);
/* The announced name that an ia_open is for, and a copy of its IA params that the caller frees. */
DAT_RETURN provider_find(const char *name, bool thread_safe, struct provider **provider,
			 char **params);

/* From here on a child of fork(2) begins without objects. */
void fork_watch(void);
void providers_after_fork(void);

/* calls.c: has calls that fail leave a line in the log, but for those that do it themselves. */
void calls_log_refusals(DAT_PROVIDER *table);

/* ---- calls ---- */

DAT_RETURN ia_open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd,
		   DAT_IA_HANDLE *ia_out);
DAT_RETURN ia_open_threadsafe(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd,
			      DAT_IA_HANDLE *ia_out);
DAT_RETURN ia_close(DAT_IA_HANDLE handle, DAT_CLOSE_FLAGS flags);
DAT_RETURN ia_query(DAT_IA_HANDLE handle, DAT_EVD_HANDLE *async_evd, DAT_IA_ATTR_MASK ia_mask,
		    DAT_IA_ATTR *ia_attr, DAT_PROVIDER_ATTR_MASK provider_mask,
		    DAT_PROVIDER_ATTR *provider_attr);
DAT_RETURN context_set(DAT_HANDLE handle, DAT_CONTEXT context);
DAT_RETURN context_get(DAT_HANDLE handle, DAT_CONTEXT *context);
DAT_RETURN handle_type(DAT_HANDLE handle, DAT_HANDLE_TYPE *type);

#endif
