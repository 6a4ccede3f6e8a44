/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What every DAT object of a provider begins with, and how one is made visible, held and retired.
 */
#ifndef UDAPL_OBJECT_H
#define UDAPL_OBJECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <edition.h>

#include "base/base.h"

struct ia;

/* The tag of an invisible object or free slot; of a visible one, with a pattern on top of it. */
#if DAT_EDITION == 2
#define OBJ_KINDS (DAT_HANDLE_TYPE_EXTENSION_BASE + 1)
#else
#define OBJ_KINDS (DAT_HANDLE_TYPE_SRQ + 1)
#endif
#define OBJ_HIDDEN(kind) (1u + (unsigned)(kind))
#define OBJ_VISIBLE	 0xDA710000u
#define OBJ_TAG(kind)	 (OBJ_VISIBLE + OBJ_HIDDEN(kind))

/*
 * Object memory is type-stable: each kind has slabs, which are never freed while the process lives,
 * the slot that was freed first is used first, and word 0 of a slot always points to a live table.
 * So a stale handle may be read, and its tag refuses it.
 */
struct obj {
	const void *table; /* word 0 by the ABI: libdat calls through it; of one edition of DAT */
	_Atomic uint32_t tag; /* OBJ_TAG while it is visible, else OBJ_HIDDEN */
	/* holds, and OBJ_RETIRED while it is invisible; never reset, so holds must balance */
	_Atomic uint32_t uses;
	struct ia *ia;	     /* fixed while the object exists */
	DAT_CONTEXT context; /* the consumer serializes access */
	struct obj *next;    /* the next free slot */
};

#define OBJ_RETIRED 0x80000000u

/*
 * Returns whether @handle, of a call of the data path, may be read: not the null handle, nor the
 * number of an IA that a registry hands out, because no object lies in the first page.
 */
static inline bool obj_readable(const void *handle)
{
	return (uintptr_t)handle >= 4096;
}

/* Returns whether a handle that may be read is a visible object of that kind, by its tag alone. */
static inline bool obj_is(const void *handle, DAT_HANDLE_TYPE kind)
{
	const struct obj *obj = handle;

	return atomic_load_explicit(&obj->tag, memory_order_relaxed) == OBJ_TAG(kind);
}

/* Returns the DAT_HANDLE_TYPE_* of a visible object, an invisible one or a free slot. */
static inline unsigned obj_kind(const struct obj *obj)
{
	return (atomic_load_explicit(&obj->tag, memory_order_relaxed) & 0xff) - OBJ_HIDDEN(0);
}

/* Slots begin at a multiple of so many bytes, a cache line. */
#define OBJ_ALIGNMENT 64
/*
 * Of DAT 2.0 they begin 8 bytes behind: no allocator returns such an address. So the registry of
 * DAT 1.2 refuses these handles at no cost; it would have an event of DAT 2.0 written into one of
 * its own, which is shorter.
 */
#define OBJ_OFFSET	 (DAT_EDITION == 2 && sizeof(void *) == 8 ? 8 : 0)
#define OBJ_STRIDE(type) ((sizeof(type) + OBJ_ALIGNMENT - 1) / OBJ_ALIGNMENT * OBJ_ALIGNMENT)

/* What is to be known of each kind here. entry/kinds.c, which knows all kinds, has the table. */
struct obj_kind_info {
	size_t stride; /* bytes from slot to slot; 0: there are no such objects */
	/*
	 * In the child after a fork, for each slot: gives up what missing threads may hold. May be
	 * NULL.
	 */
	void (*after_fork)(struct obj *obj, bool visible);
};
extern const struct obj_kind_info obj_kinds[OBJ_KINDS];

/*
 * Returns an invisible object of @ia, all zero but for its header; NULL without memory. @ia is NULL
 * only for an IA itself; all others have its @table. Any thread, with any locks above pool->lock,
 * as all of object.c.
 */
void *obj_alloc(struct ia *ia, const void *table, DAT_HANDLE_TYPE kind);

/*
 * The opposite of obj_alloc: the object, which is of that kind, is invisible, and nothing holds it
 * any more. Its slot is the next one's.
 */
void obj_free_as(struct obj *obj, unsigned kind);
/* obj_free_as, for callers to whom the kind is no constant. */
static inline void obj_free(struct obj *obj)
{
	obj_free_as(obj, obj_kind(obj));
}

/* Makes an object visible, as the last step of a create call. Returns the handle. */
DAT_HANDLE obj_publish(struct obj *obj);

/*
 * Hides an object, as the first step of a free call. Returns false, and does nothing, if it is held
 * or another thread has retired it: asking and hiding are one atomic step.
 */
bool obj_retire(struct obj *obj);

/* Hides an object even if it is held: for an abrupt close, with ia->lock held. */
void obj_retire_forced(struct obj *obj);

/*
 * Returns whether this is a visible object of that kind, of @ia unless that is NULL. Any value of
 * @handle is safe. The object may be retired as soon as this returns.
 */
bool obj_valid(struct ia *ia, DAT_HANDLE handle, DAT_HANDLE_TYPE kind);

/*
 * As obj_valid, and if this returns true, the caller has the lock of the object's IA, with which
 * other calls free it. It looks with the lock held, because one may have done so meanwhile. Not for
 * an IA itself.
 */
bool obj_lock_ia(struct ia *ia, DAT_HANDLE handle, DAT_HANDLE_TYPE kind);

/* As obj_valid, and if this returns true, the object can't be retired until obj_put. */
bool obj_hold(struct ia *ia, DAT_HANDLE handle, DAT_HANDLE_TYPE kind);

/* Holds an object that can't be retired now, because of a lock or of another hold. */
static inline void obj_get(struct obj *obj)
{
	atomic_fetch_add_explicit(&obj->uses, 1, memory_order_relaxed);
}

/* Gives up a hold. From here on another thread may retire the object, and free it. */
static inline void obj_put(struct obj *obj)
{
	debug_assert((atomic_load(&obj->uses) & ~OBJ_RETIRED) > 0);
	atomic_fetch_sub_explicit(&obj->uses, 1, memory_order_release);
}

/* Returns the visible object of this library, of any kind, that @handle is; NULL if it is none. */
struct obj *obj_any(DAT_HANDLE handle);

/* Returns how many visible objects of that kind belong to @ia. For slow paths, as obj_next. */
unsigned obj_count(struct ia *ia, DAT_HANDLE_TYPE kind);

/* In the child after a fork, where the caller is the only thread: forgets all objects. */
void objects_after_fork(void);

/*
 * Returns the first visible object of that kind, or the one after @obj, which may be retired
 * meanwhile; NULL at the end. It walks the slabs, so it is for slow paths. The caller makes sure,
 * by ia->lock, that no object is freed while it is in use.
 */
struct obj *obj_next(struct ia *ia, DAT_HANDLE_TYPE kind, struct obj *obj);

#endif
