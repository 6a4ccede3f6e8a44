/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of open IAs: translates between the consumer's and the provider's handle. */
#include "libdat.h"

/*
 * The table has its full size from the start, because pages that are never touched cost no memory.
 * It never moves, so a call finds its IA without a lock. Slot 0 stays empty: its index would be the
 * null handle.
 */
struct ia_slot ia_slots[IA_HANDLES];
struct libdat_mutex ia_slots_lock = LIBDAT_MUTEX("ia_slots_lock", LIBDAT_RANK_IA_SLOTS);
static unsigned ia_slots_end = 1; /* ia_slots_lock; slots from here on were never taken */

/*
 * The owner of the lock may not exist here, so what it guards may be in the middle of a change;
 * each word is valid.
 */
void ia_slots_after_fork(void)
{
	const unsigned end = ia_slots_end < IA_HANDLES ? ia_slots_end + 1 : IA_HANDLES;

	(void)libdat_mutex_reset(&ia_slots_lock);
	for (unsigned i = 1; i < end; i++) {
		atomic_store_explicit(&ia_slots[i].ia, NULL, memory_order_relaxed);
		ia_slots[i].query = NULL;
		ia_slots[i].closing = false;
		ia_slots[i].taken = false;
	}
}

static DAT_IA_HANDLE ia_slot_handle(const struct ia_slot *slot)
{
	return (DAT_IA_HANDLE)(uintptr_t)(slot - ia_slots);
}

struct ia_slot *ia_slot_take(void)
{
	struct ia_slot *found = NULL;

	libdat_mutex_lock(&ia_slots_lock);
	for (unsigned i = 1; i < IA_HANDLES && !found; i++)
		if (!ia_slots[i].taken)
			found = &ia_slots[i];
	if (found) {
		found->taken = true;
		if (found == &ia_slots[ia_slots_end])
			ia_slots_end++;
	}
	libdat_mutex_unlock(&ia_slots_lock);
	return found;
}

void ia_slot_free(struct ia_slot *slot)
{
	libdat_mutex_lock(&ia_slots_lock);
	atomic_store_explicit(&slot->ia, NULL, memory_order_release);
	slot->query = NULL;
	slot->closing = false;
	slot->taken = false;
	libdat_mutex_unlock(&ia_slots_lock);
}

DAT_IA_HANDLE ia_slot_publish(struct ia_slot *slot, DAT_IA_HANDLE ia, enum ia_purpose purpose)
{
	const bool is_query = purpose == IA_FOR_QUERY;

	libdat_mutex_lock(&ia_slots_lock);
	if (is_query)
		slot->query = ia;
	else
		atomic_store_explicit(&slot->ia, ia, memory_order_release);
	libdat_mutex_unlock(&ia_slots_lock);
	return is_query ? ia : ia_slot_handle(slot);
}

/*
 * Returns the slot of a provider's handle. Slots that are closing do not count: once the provider
 * has freed the object, a new IA may have the same address.
 */
static struct ia_slot *ia_slot_find_locked(DAT_HANDLE ia)
{
	ASSERT_HELD(&ia_slots_lock);
	for (unsigned i = 1; i < ia_slots_end; i++)
		if (ia_slots[i].ia == ia && !ia_slots[i].closing)
			return &ia_slots[i];
	return NULL;
}

/* Several may have the same handle, if the provider gives out one object more than once. */
static struct ia_slot *ia_slot_find_query_locked(DAT_IA_HANDLE query)
{
	ASSERT_HELD(&ia_slots_lock);
	for (unsigned i = 1; query && i < ia_slots_end; i++)
		if (ia_slots[i].query == query && !ia_slots[i].closing)
			return &ia_slots[i];
	return NULL;
}

static struct ia_slot *ia_slot_find_open_locked(DAT_IA_HANDLE handle)
{
	const uintptr_t value = (uintptr_t)handle;
	struct ia_slot *slot;

	ASSERT_HELD(&ia_slots_lock);
	slot = value < IA_HANDLES ? &ia_slots[value] : ia_slot_find_locked(handle);
	if (slot && (!slot->ia || slot->closing))
		slot = NULL;
	return slot;
}

struct ia_slot *ia_slot_retire(DAT_IA_HANDLE handle, enum ia_purpose purpose)
{
	struct ia_slot *slot;

	libdat_mutex_lock(&ia_slots_lock);
	slot = purpose == IA_FOR_QUERY ? ia_slot_find_query_locked(handle)
				       : ia_slot_find_open_locked(handle);
	if (slot)
		slot->closing = true;
	libdat_mutex_unlock(&ia_slots_lock);
	return slot;
}

void ia_slot_unretire(struct ia_slot *slot)
{
	libdat_mutex_lock(&ia_slots_lock);
	slot->closing = false;
	libdat_mutex_unlock(&ia_slots_lock);
}

DAT_IA_HANDLE ia_to_provider_slow(DAT_IA_HANDLE handle)
{
	const struct ia_slot *slot;

	libdat_mutex_lock(&ia_slots_lock);
	slot = ia_slot_find_locked(handle);
	libdat_mutex_unlock(&ia_slots_lock);
	return slot ? handle : NULL;
}

DAT_HANDLE ia_to_consumer(DAT_HANDLE handle)
{
	const struct ia_slot *slot;

	libdat_mutex_lock(&ia_slots_lock);
	slot = handle ? ia_slot_find_locked(handle) : NULL;
	libdat_mutex_unlock(&ia_slots_lock);
	return slot ? ia_slot_handle(slot) : handle;
}
