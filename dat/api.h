/* SPDX-License-Identifier: BSD-2-Clause */
/* What the calls of both editions that dispatch to a provider have in common. */
#ifndef DAT_API_H
#define DAT_API_H

#include "libdat.h"
#include "log.h"

#define BAD_HANDLE(which) DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE##which)

/* Returns @ret, with a line of the log: this is not a handle that @call could be of. */
DAT_RETURN __attribute__((cold, noinline))
api_refused(DAT_RETURN ret, const char *call, const void *handle);

/* In 2.0 the masks of a CNO's query are numbers, not bits: each asks for all. */
#if DAT_EDITION == 2
#define CNO_MASK_HAS_IA(mask) ((mask) != 0)
#else
#define CNO_MASK_HAS_IA(mask) ((mask)&DAT_CNO_FIELD_IA_HANDLE)
#endif

/*
 * As is_object, and an object of a provider of ours is one of this edition. For calls that are not
 * on the data path: there a post of DAT 2.0 on an object of DAT 1.2 reads wrong segments, which the
 * device refuses.
 */
static inline bool is_own_object(const void *handle)
{
#if DAT_EDITION == 2
	return is_object(handle) &&
	       (uintptr_t)DAT_HANDLE_TO_PROVIDER(handle)->ia_ha_related_func != TABLE_MARK_OF_DAT1;
#else
	return is_object(handle);
#endif
}

/* Returns the provider's handle of an object of any kind, or NULL for what can't be one. */
static inline DAT_HANDLE api_object(DAT_HANDLE handle)
{
	return is_own_object(handle) ? handle : ia_to_provider(handle);
}

/*
 * A provider writes its own IA handle into the result of a query; the consumer must see the handle
 * that the registry gave it. ia_handle is the first member of each result that has one.
 */
static inline DAT_RETURN api_show_ia(DAT_RETURN ret, bool requested, void *result)
{
	DAT_IA_HANDLE *ia = result;

	if (ret == DAT_SUCCESS && requested)
		*ia = ia_to_consumer(*ia);
	return ret;
}

/*
 * The call is not made a jump: gcc would take every argument on the stack into a register, and put
 * it back.
 */
#if defined(__has_attribute) && __has_attribute(optimize)
#define NO_JUMP __attribute__((optimize("no-optimize-sibling-calls")))
#else
#define NO_JUMP
#endif

#endif
