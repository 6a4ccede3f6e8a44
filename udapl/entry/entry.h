/* SPDX-License-Identifier: BSD-2-Clause */
/* What a registry enters by: announced names, the IA as a whole, the calls on any handle. */
#ifndef UDAPL_ENTRY_H
#define UDAPL_ENTRY_H

#include <stdarg.h>

#include "listen/listen.h"

/* ---- names.c: the names that dat_provider_init announced; any thread ---- */

/*
 * Announces info->ia_name with a copy of @params, for dat_provider_init. Its table is a copy of
 * @calls, which has @size bytes and is of any edition of DAT, with the two words in front that are
 * the name's own; a name that was announced before keeps the one that it has. Returns NULL without
 * memory.
 */
struct provider *provider_announce(const DAT_PROVIDER_INFO *info, const void *calls, size_t size,
				   const char *params);
/*
 * Has the name not found any more, for dat_provider_fini. Its struct stays, because handles lead to
 * it. Returns NULL if it was never announced.
 */
struct provider *provider_retract(const DAT_PROVIDER_INFO *info);
/*
 * Finds the announced name that an ia_open is for, and a copy of its IA params that the caller
 * frees. Returns DAT_SUCCESS, that there is no such name, or no memory.
 */
DAT_RETURN provider_find(const char *name, bool thread_safe, struct provider **provider,
			 char **params);

/*
 * Has every child of fork(2) begin without objects, from the first call on. Any thread may call it.
 */
void fork_watch(void);
/*
 * Makes the list of names usable, in the child after a fork; @lost: a lock below may be taken for
 * good, so that no IA can be opened.
 */
void providers_after_fork(bool lost);

/* ---- table.c, calls.c ---- */

/*
 * Fills in the table of calls of the edition of DAT, but for the two words in front, which are
 * those of a name. Any thread may call it.
 */
void table_fill(DAT_PROVIDER *table, bool thread_safe);
/*
 * Has the calls in @table that fail leave a line in the log, but for those that do it themselves.
 * table_fill calls this.
 */
void calls_log_refusals(DAT_PROVIDER *table);

/* ---- calls: as in endpoint/endpoint.h; ia_open_threadsafe is in the tables of such names ---- */

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

#if DAT_EDITION == 2
/* ---- calls2.c: those that DAT 2.0 added, and that no room has ---- */

DAT_RETURN ep_post_rdma_read_to_rmr(DAT_EP_HANDLE ep, const DAT_RMR_TRIPLET *local,
				    DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
				    DAT_COMPLETION_FLAGS flags);
DAT_RETURN ia_ha_related(DAT_IA_HANDLE ia, const DAT_NAME_PTR name, DAT_BOOLEAN *related);
/* dat_extension_op: @args are those behind @op. Of a query open @handle is the name. */
DAT_RETURN extended_op(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list args);

/* ---- counters2.c: dat_ib_query_counters and so on, of a handle of any value ---- */

DAT_RETURN counters_query(DAT_HANDLE handle, int number, DAT_UINT64 *values, bool reset);
DAT_RETURN counters_log(DAT_HANDLE handle, int number, bool reset);
/* dat_ib_start_counter and dat_ib_stop_counter, which are refused: nothing is sampled. */
DAT_RETURN counters_sample(DAT_HANDLE handle, int group);

/* ---- ia.c ---- */

/*
 * Opens an IA for its attributes only, without an asynchronous EVD, for calls2.c. It is closed by
 * ia_close, abruptly.
 */
DAT_RETURN ia_open_query(const char *name, struct ia **ia);
#endif

#endif
