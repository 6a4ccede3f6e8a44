/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of libdat share: registered names, open IAs, and the lock over both. Read this
 * first.
 */
#ifndef LIBDAT_H
#define LIBDAT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The library is compiled with everything hidden; what these headers declare is what it exports. */
#pragma GCC visibility push(default)
#include <dat/udat.h>
#include <dat/dat_registry.h>

/*
 * Beside the standard: the provider's own handle of an IA the consumer names. Declared nowhere, but
 * part of the ABI.
 */
DAT_RETURN dats_get_ia_handle(unsigned long handle, DAT_IA_HANDLE *ia);
/*
 * For our providers, while their ia_open runs and on its thread: was the name given with
 * DAT_RO_AWARE_PREFIX?
 */
int datx_ia_open_ro_aware(void);
#pragma GCC visibility pop

#define unlikely(condition) __builtin_expect(!!(condition), 0)

#define DAT_ERROR(type, subtype)                                                                   \
	((DAT_RETURN)(DAT_CLASS_ERROR | (DAT_UINT32)(type) | (DAT_UINT32)(subtype)))

/*
 * A consumer's IA handle is a small integer, every other handle a pointer to an object whose first
 * word is its provider's table. No object lies in the first page, so the value tells which of them
 * a handle means to be.
 */
#define IA_HANDLES 4096U

static inline bool is_object(const void *handle)
{
	uintptr_t value = (uintptr_t)handle;

	return !(value & 7) && value >= IA_HANDLES;
}

/* One line of dat.conf with this key. Fixed once read. */
struct source {
	struct source *next; /* to be tried if this one does not load */
	unsigned line;
	const char *library;
	const char *ia_params;
};

/* One key of dat.conf: where its provider comes from, and whether that is running. */
struct entry {
	DAT_PROVIDER_INFO info; /* fixed */
	struct entry *next;	/* fixed; in file order */
	struct source *sources; /* fixed; in file order, at least one */
	unsigned users;		/* registry.lock; opens under way and open IAs */
	/* registry.lock; one thread loads, starts or stops it, without the lock */
	bool busy;
	bool starting;	       /* registry.lock; that thread is in dat_provider_init */
	pthread_t busy_thread; /* registry.lock; valid while busy */
	/* by the busy thread: the line whose library is in memory, NULL before */
	const struct source *loaded;
	DAT_PROVIDER_INIT_FUNC init; /* by the busy thread: NULL if the library has none */
	DAT_PROVIDER_FINI_FUNC fini; /* likewise */
};

/* What a provider registered: one key it can open. */
struct provider {
	DAT_PROVIDER_INFO info;	  /* fixed */
	DAT_IA_OPEN_FUNC ia_open; /* fixed */
	/* fixed; whose dat_provider_init registered it, NULL: it came by itself */
	const struct entry *entry;
	struct provider *next; /* registry.lock */
	unsigned users;	       /* registry.lock; opens under way and open IAs */
};

/*
 * registry.lock is never held while a library is loaded or a provider runs: they may call anything
 * in here. Order: registry.lock, then the handle table's own.
 */
extern struct registry {
	pthread_mutex_t lock;
	pthread_cond_t idle;	    /* some entry is no longer busy */
	bool read;		    /* lock; dat.conf has been */
	char *text;		    /* fixed once read: the file, to which the sources point */
	bool closed;		    /* lock; the process is exiting */
	struct entry *entries;	    /* lock; in file order; never shrinks */
	struct provider *providers; /* lock */
} registry;

/*
 * Takes the lock, reading dat.conf the first time. Refuses, and leaves it, once the process is
 * exiting.
 */
DAT_RETURN registry_enter(void);

/* Exactly this name, in dat.conf or registered? */
bool registry_names_locked(const char *name);
/* The best match for what is wanted, or NULL: smallest sufficient minor version, all else equal. */
struct entry *registry_entry_locked(const DAT_PROVIDER_INFO *want);
/* Likewise among what entry's library registered (entry may be NULL) and what came by itself. */
struct provider *registry_provider_locked(const DAT_PROVIDER_INFO *want, const struct entry *entry);
/* Why there is no match. */
DAT_RETURN registry_miss_locked(const DAT_PROVIDER_INFO *want);
/* Forgets what entry's library registered and did not remove. */
void registry_disown_locked(const struct entry *entry);

/* One open IA. The consumer's handle is its index. */
extern struct ia_slot {
	/* the provider's handle; NULL unless open. Written under the table's lock */
	_Atomic(DAT_IA_HANDLE) ia;
	bool taken;		   /* table's lock */
	bool closing;		   /* table's lock */
	struct provider *provider; /* fixed while open */
	struct entry *entry;	   /* fixed while open; NULL if the provider came by itself */
} ia_slots[IA_HANDLES];

/* The lowest free slot, reserved; NULL if all are taken. */
struct ia_slot *ia_slot_take(void);
void ia_slot_free(struct ia_slot *slot);
/* The slot becomes an open IA. Returns the consumer's handle. */
DAT_IA_HANDLE ia_slot_publish(struct ia_slot *slot, DAT_IA_HANDLE ia);
/*
 * For dat_ia_close: the slot of an open IA that nobody else is closing, or NULL. Then free it or
 * keep it.
 */
struct ia_slot *ia_slot_retire(DAT_IA_HANDLE handle);
void ia_slot_keep(struct ia_slot *slot);
DAT_IA_HANDLE __attribute__((cold, noinline)) ia_of_pointer(DAT_IA_HANDLE handle);
/* The provider's handle of an open IA, given that or the consumer's; else NULL. */
static inline DAT_IA_HANDLE ia_of(DAT_IA_HANDLE handle)
{
	if (unlikely((uintptr_t)handle >= IA_HANDLES))
		return ia_of_pointer(handle);
	return atomic_load_explicit(&ia_slots[(uintptr_t)handle].ia, memory_order_acquire);
}

/* The consumer's handle, if this is the provider's handle of an open IA; else the argument. */
DAT_HANDLE ia_shown(DAT_HANDLE handle);

#endif
