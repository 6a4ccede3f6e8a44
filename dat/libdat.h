/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of libdat share: the registry of provider names and the table of open IAs, each
 * with its lock.
 */
#ifndef LIBDAT_H
#define LIBDAT_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lock.h"

/* The library is compiled with hidden visibility; what these headers declare is exported. */
#pragma GCC visibility push(default)
#include <edition.h>

/*
 * Translates the consumer's IA handle to the provider's. It is not in the standard, and declared in
 * no public header, but part of the ABI.
 */
DAT_RETURN dats_get_ia_handle(unsigned long handle, DAT_IA_HANDLE *ia);
/*
 * Tells our providers whether the consumer opened the name with DAT_RO_AWARE_PREFIX. The answer is
 * valid on the thread that runs the provider's ia_open, until that returns.
 */
int datx_ia_open_ro_aware(void);
/*
 * Tells our providers the line of dat.conf whose name is being opened, as "/etc/dat.conf:12", or
 * NULL if the provider registered the name without dat.conf. The text is valid on the thread that
 * runs the provider's ia_open, until that returns.
 */
const char *datx_ia_open_line(void);
/*
 * The registry, the one of the other edition, and our providers call this in the child after a
 * fork, if another thread may have had a lock of the dynamic linker or of a library below the
 * providers. These are the same for both: from here on every call of both registries fails.
 */
typedef void datx_lose_fn(void);
datx_lose_fn datx_registry_lose;
/* The registry of the other edition gives its datx_registry_lose for ours. */
datx_lose_fn *datx_registry_meet(datx_lose_fn *lose);
#pragma GCC visibility pop

/*
 * Each edition has a registry. This is how the one is found that this file belongs to, how the
 * other one is, and what the major version of the other one's providers is.
 */
#if DAT_EDITION == 2
#define REGISTRY_SONAME "libdat2.so.2"
#define OTHER_SONAME	"libdat.so.1"
#define OTHER_NODE	"DAT_1.2"
#define OTHER_DATX_NODE "DATX_1.0"
#define OTHER_MAJOR	1
#else
#define REGISTRY_SONAME "libdat.so.1"
#define OTHER_SONAME	"libdat2.so.2"
#define OTHER_NODE	"DAT_2.0"
#define OTHER_DATX_NODE "DATX_2.0"
#define OTHER_MAJOR	2
#endif

#define unlikely(condition) __builtin_expect(!!(condition), 0)

#define DAT_ERROR(type, subtype)                                                                   \
	((DAT_RETURN)(DAT_CLASS_ERROR | (DAT_UINT32)(type) | (DAT_UINT32)(subtype)))

/*
 * The consumer's IA handle is an integer below IA_HANDLES. Every other handle is a pointer to an
 * object whose first word points to its provider's table. No object lies in the first page, so the
 * value alone tells the two apart.
 */
#define IA_HANDLES 4096U

/*
 * What no handle has. Objects of DAT 2.0, if a provider of ours has made them, are no multiples of
 * 16, and those of DAT 1.2 are, as is all that malloc(3) returns.
 */
#if DAT_EDITION == 1
#define OBJECT_NEVER (2 * sizeof(void *) - 1)
#else
#define OBJECT_NEVER 7
#endif

static inline bool is_object(const void *handle)
{
	uintptr_t value = (uintptr_t)handle;

	return !(value & OBJECT_NEVER) && value >= IA_HANDLES;
}

/* ---- registry ---- */

/* This file is read if that of DAT_CONF_DIR, which configure sets, is not there. */
#define SYSTEM_CONF "/etc/dat.conf"

/* One line of dat.conf. Lines with the same key form a chain. Fixed after dat.conf was read. */
struct conf_line {
	struct conf_line *next; /* the line to try if this one's library does not load */
	unsigned number;
	const char *library;
	const char *ia_params;
};

/* One key of dat.conf, with the provider library that serves it. */
struct conf_key {
	DAT_PROVIDER_INFO info;	 /* fixed */
	struct conf_key *next;	 /* fixed; in file order */
	struct conf_line *lines; /* fixed; in file order, at least one */
	unsigned users;		 /* registry.lock; opens in progress and open IAs */
	/*
	 * registry.lock; busy_thread loads, initialises or finalises the library meanwhile, without
	 * the lock
	 */
	bool busy;
	bool initialising;     /* registry.lock; busy_thread is in dat_provider_init */
	pthread_t busy_thread; /* registry.lock; valid while busy */
	/* by busy_thread: the line whose library is loaded, or NULL */
	const struct conf_line *loaded;
	DAT_PROVIDER_INIT_FUNC init; /* by busy_thread; NULL if the library has none */
	DAT_PROVIDER_FINI_FUNC fini; /* by busy_thread */
};

/* One call of dat_registry_add_provider: a key, and the ia_open that serves it. */
struct registration {
	DAT_PROVIDER_INFO info;	  /* fixed */
	DAT_IA_OPEN_FUNC ia_open; /* fixed */
#if DAT_EDITION == 2
	DAT_HANDLE_EXTENDEDOP_FUNC extended_op; /* fixed; NULL: the provider has none */
#endif
	/* fixed; the key whose dat_provider_init made this call, or NULL */
	const struct conf_key *key;
	struct registration *next; /* registry.lock */
	unsigned users;		   /* registry.lock; opens in progress and open IAs */
	atomic_flag opened; /* an open was tried, and has loaded what is below the provider */
};

/* Why every call of the registry fails. Once it fails, it does so for good. */
enum registry_end {
	REGISTRY_LIVES,
	REGISTRY_CLOSED, /* the process is exiting */
	/* the process was forked while another thread loaded a library or ran provider code */
	REGISTRY_LOST,
};

/*
 * registry.lock is not held while dat.conf is read, a library is loaded or provider code runs: the
 * first may take long, the others may call any function of libdat. Lock order: registry.lock, then
 * the lock of the IA table.
 */
extern struct registry {
	struct libdat_mutex lock;
	pthread_cond_t idle;   /* a key stopped being busy, or dat.conf was read */
	bool conf_is_read_now; /* lock */
	bool conf_was_read;    /* lock */
	char *text;	       /* fixed after dat.conf was read; the lines point into it */
	char path[PATH_MAX];   /* fixed then, too; the file that was read; empty: none */
	_Atomic enum registry_end end;
	/* threads that load a library, or are in its dat_provider_init, _fini, ia_open, ia_close */
	atomic_uint provider_calls;
	struct conf_key *keys;		    /* lock; in file order; fixed after dat.conf was read */
	struct registration *registrations; /* lock */
} registry;

/* How many of registry.provider_calls are the calling thread's. */
extern _Thread_local unsigned own_provider_calls;

/*
 * These two stand around provider code and the dynamic linker: the child of a fork meanwhile must
 * know, see fork.c, and an exit waits for them.
 */
static inline void provider_call_begin(void)
{
	atomic_fetch_add(&registry.provider_calls, 1);
	own_provider_calls++;
}

static inline void provider_call_end(void)
{
	own_provider_calls--;
	atomic_fetch_sub(&registry.provider_calls, 1);
}

/*
 * For a call that opens an IA, between provider_call_begin and provider_call_end. Returns false if
 * the process is exiting on another thread.
 */
bool registry_may_open(void);
/* Returns whether the process is exiting. */
bool registry_is_exiting(void);
/* Has an exit wait for opens and closes before it calls what the libraries of now have added. */
void exit_handler_add(void);

/*
 * Takes registry.lock and reads dat.conf if that was not done yet. On success the caller holds the
 * lock. When the registry has ended, or memory or descriptors are too few to read the file, the
 * call fails, and the lock is not held.
 */
DAT_RETURN registry_lock(void);
/* Is called in the child after a fork, see fork.c. */
void registry_after_fork(void);

/* Tells whether a key or a registration has exactly this IA name. */
bool registry_has_name_locked(const char *name);
/*
 * Returns the best match: of those that satisfy @want the one with the smallest minor version, or
 * NULL if none does.
 */
struct conf_key *registry_find_key_locked(const DAT_PROVIDER_INFO *want);
/*
 * Returns the best match, in the same sense, among the registrations that were made by @key, which
 * may be NULL, or by no key.
 */
struct registration *registry_find_locked(const DAT_PROVIDER_INFO *want,
					  const struct conf_key *key);
/* Returns the error of an open for which nothing matches. */
DAT_RETURN registry_not_found_locked(const DAT_PROVIDER_INFO *want);
/*
 * Writes the names of dat.conf for this major version, with commas between them, for a message.
 * What does not fit is left out.
 */
void registry_names_locked(DAT_UINT32 major, char *text, size_t size);
/* Tells whether dat.conf has names, but none of them for this major version. */
bool registry_lacks_major_locked(DAT_UINT32 major);
/* Removes the registrations that were made by @key and are still there. */
void registry_remove_of_key_locked(const struct conf_key *key);

/* ---- open.c ---- */

/* Who may use an open IA. */
enum ia_purpose {
	IA_FOR_CALLS, /* every call that takes an IA; opened by dat_ia_openv */
	/*
	 * Its attributes were read when it was opened, by an extension. The consumer has the
	 * provider's handle, which only the operation that closes it accepts.
	 */
	IA_FOR_QUERY,
};

struct open_request;

/* Asks the provider for an IA, which it stores in *@ia. */
typedef DAT_RETURN open_ask(const struct registration *registration, struct open_request *request,
			    DAT_IA_HANDLE *ia);

/* What a consumer asked for. */
struct open_request {
	DAT_PROVIDER_INFO want;
	bool ro_aware;
	DAT_COUNT async_qlen;
	enum ia_purpose purpose;
	open_ask *ask; /* NULL: by the provider's ia_open */
};

/*
 * Finds the provider for request->want, which has no name yet, under @name, and opens an IA.
 * *@async_evd and *@ia_handle are written on success only; the latter is the consumer's handle.
 */
DAT_RETURN registry_open(const char *name, struct open_request *request, DAT_EVD_HANDLE *async_evd,
			 DAT_IA_HANDLE *ia_handle);
/*
 * Closes the IA of @ia_handle, which was opened for @purpose, by @close, which may refuse. Of an IA
 * for calls it may be either of the two handles. @call: the name of the consumer's call.
 */
DAT_RETURN registry_close_ia(DAT_IA_HANDLE ia_handle, enum ia_purpose purpose, const char *call,
			     DAT_RETURN (*close)(DAT_IA_HANDLE ia, void *arg), void *arg);

/* ---- other.c: the registry of the other edition, if this process has it ---- */

/*
 * Tells whether providers of this major version can be opened here. The table of another edition
 * has other calls in the same places, and may be shorter.
 */
static inline bool registry_serves(DAT_UINT32 major)
{
	return DAT_EDITION == 2 ? major == 2 : major != OTHER_MAJOR;
}

/*
 * Returns the other registry's function of this name and node of versions, or NULL if this process
 * has no such registry. It asks the dynamic linker: the caller stands between provider_call_begin
 * and provider_call_end, or is a constructor.
 */
void *other_registry_find(const char *function, const char *node);
/*
 * Calls @function of the other registry for a provider that has called the one of this registry and
 * is not of its edition: a provider that was linked with no registry finds the functions of the one
 * that is first in the global scope. Refuses the call, with a line of the log, if this process has
 * no registry for the provider. The caller stands between provider_call_begin and
 * provider_call_end.
 */
DAT_RETURN other_registry_call(const char *function, const DAT_PROVIDER *provider,
			       const DAT_PROVIDER_INFO *info);

/* ---- open IAs ---- */

/* One open IA. The consumer's handle is the index of the slot, or the provider's for a query. */
extern struct ia_slot {
	/* the provider's handle, NULL unless open for calls; written under the table's lock */
	_Atomic(DAT_IA_HANDLE) ia;
	DAT_IA_HANDLE query; /* table's lock; the provider's handle, NULL unless open for a query */
	bool taken;	     /* table's lock */
	bool closing;	     /* table's lock */
	struct registration *registration; /* fixed while open */
	struct conf_key *key;		   /* fixed while open; may be NULL */
} ia_slots[IA_HANDLES];

extern struct libdat_mutex ia_slots_lock;

/* Closes all in the child after a fork, see fork.c. */
void ia_slots_after_fork(void);

/* Reserves the lowest free slot. Returns NULL if all are taken. */
struct ia_slot *ia_slot_take(void);
void ia_slot_free(struct ia_slot *slot);
/* Makes a reserved slot an open IA. Returns the consumer's handle. */
DAT_IA_HANDLE ia_slot_publish(struct ia_slot *slot, DAT_IA_HANDLE ia, enum ia_purpose purpose);
/*
 * Takes an IA that is open for @purpose from its slot, to be closed, and returns the slot, or NULL
 * if there is none, or another thread closes it. The caller then calls ia_slot_free, or
 * ia_slot_unretire if the provider refused the close.
 */
struct ia_slot *ia_slot_retire(DAT_IA_HANDLE handle, enum ia_purpose purpose);
void ia_slot_unretire(struct ia_slot *slot);
DAT_IA_HANDLE __attribute__((cold, noinline)) ia_to_provider_slow(DAT_IA_HANDLE handle);
/*
 * Returns the provider's handle of an IA that is open for calls, given either handle; NULL for
 * anything else.
 */
static inline DAT_IA_HANDLE ia_to_provider(DAT_IA_HANDLE handle)
{
	if (unlikely((uintptr_t)handle >= IA_HANDLES))
		return ia_to_provider_slow(handle);
	return atomic_load_explicit(&ia_slots[(uintptr_t)handle].ia, memory_order_acquire);
}

/*
 * Returns the consumer's handle of an IA that is open for calls, given the provider's, and any
 * other argument unchanged.
 */
DAT_HANDLE ia_to_consumer(DAT_HANDLE handle);

#endif
