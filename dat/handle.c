/* SPDX-License-Identifier: BSD-2-Clause */
/* Open IAs: the consumer's small integer beside the provider's pointer. */
#include "libdat.h"

/*
 * Untouched pages of this cost nothing, so the table never moves and a call finds its IA without a
 * lock. Slot 0 stays empty: it would be the null handle.
 */
struct ia_slot ia_slots[IA_HANDLES];
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned slots_end = 1; /* slots_lock; no slot from here on was ever taken */

static DAT_IA_HANDLE handle_of(const struct ia_slot *slot)
{
	return (DAT_IA_HANDLE)(uintptr_t)(slot - ia_slots);
}

struct ia_slot *ia_slot_take(void)
{
	struct ia_slot *found = NULL;

	pthread_mutex_lock(&slots_lock);
	for (unsigned i = 1; i < IA_HANDLES && !found; i++)
		if (!ia_slots[i].taken)
			found = &ia_slots[i];
	if (found) {
		found->taken = true;
		if (found == &ia_slots[slots_end])
			slots_end++;
	}
	pthread_mutex_unlock(&slots_lock);
	return found;
}

void ia_slot_free(struct ia_slot *slot)
{
	pthread_mutex_lock(&slots_lock);
	atomic_store_explicit(&slot->ia, NULL, memory_order_release);
	slot->closing = false;
	slot->taken = false;
	pthread_mutex_unlock(&slots_lock);
}

DAT_IA_HANDLE ia_slot_publish(struct ia_slot *slot, DAT_IA_HANDLE ia)
{
	pthread_mutex_lock(&slots_lock);
	atomic_store_explicit(&slot->ia, ia, memory_order_release);
	pthread_mutex_unlock(&slots_lock);
	return handle_of(slot);
}

/*
 * The slot of a provider's handle. Not one that is closing: when its provider has let the object
 * go, the pointer may already be the next IA's.
 */
static struct ia_slot *slot_by_pointer_locked(DAT_HANDLE ia)
{
	for (unsigned i = 1; i < slots_end; i++)
		if (ia_slots[i].ia == ia && !ia_slots[i].closing)
			return &ia_slots[i];
	return NULL;
}

struct ia_slot *ia_slot_retire(DAT_IA_HANDLE handle)
{
	uintptr_t value = (uintptr_t)handle;
	struct ia_slot *slot;

	pthread_mutex_lock(&slots_lock);
	slot = value < IA_HANDLES ? &ia_slots[value] : slot_by_pointer_locked(handle);
	if (slot && (!slot->ia || slot->closing))
		slot = NULL;
	if (slot)
		slot->closing = true;
	pthread_mutex_unlock(&slots_lock);
	return slot;
}

void ia_slot_keep(struct ia_slot *slot)
{
	pthread_mutex_lock(&slots_lock);
	slot->closing = false;
	pthread_mutex_unlock(&slots_lock);
}

DAT_IA_HANDLE ia_of_pointer(DAT_IA_HANDLE handle)
{
	const struct ia_slot *slot;

	pthread_mutex_lock(&slots_lock);
	slot = slot_by_pointer_locked(handle);
	pthread_mutex_unlock(&slots_lock);
	return slot ? handle : NULL;
}

DAT_HANDLE ia_shown(DAT_HANDLE handle)
{
	const struct ia_slot *slot;

	pthread_mutex_lock(&slots_lock);
	slot = handle ? slot_by_pointer_locked(handle) : NULL;
	pthread_mutex_unlock(&slots_lock);
	return slot ? handle_of(slot) : handle;
}
