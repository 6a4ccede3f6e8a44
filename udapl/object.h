/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What every DAT object of a provider begins with, and how one is made visible, held and retired.
 */
#ifndef UDAPL_OBJECT_H
#define UDAPL_OBJECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <dat/udat.h>
#include <dat/udat_redirection.h>

struct ia;

/*
 * A tag is a kind plus one; of a live object, on top of a pattern that stray memory seldom holds.
 */
#define OBJ_KINDS      (DAT_HANDLE_TYPE_SRQ + 1)
#define OBJ_DEAD(kind) (1u + (unsigned)(kind))
#define OBJ_TAG(kind)  (0xDA710000u + OBJ_DEAD(kind))

/*
 * The memory of an object is type-stable: it comes from slabs per kind that are never given back
 * while the process lives, the oldest dead slot first, and word 0 of a slot always leads to a live
 * table. So a stale handle may be read, and is refused by its tag.
 */
struct obj {
	const DAT_PROVIDER *provider; /* word 0 by the ABI: libdat calls through it */
	_Atomic uint32_t tag;	      /* OBJ_TAG while it is visible, else OBJ_DEAD */
	/* who holds it, and OBJ_RETIRED while it is invisible; never reset, but balanced */
	_Atomic uint32_t uses;
	struct ia *ia;	     /* fixed while alive */
	DAT_CONTEXT context; /* the consumer's to serialize */
	struct obj *next;    /* the next dead slot */
};

#define OBJ_RETIRED 0x80000000u

static inline bool obj_is(const void *handle, DAT_HANDLE_TYPE kind)
{
	const struct obj *obj = handle;

	return atomic_load_explicit(&obj->tag, memory_order_relaxed) == OBJ_TAG(kind);
}

/*
 * An invisible object, zeroed but for its header; NULL without memory. @ia is NULL only for an IA
 * itself.
 */
void *obj_alloc(struct ia *ia, const DAT_PROVIDER *provider, DAT_HANDLE_TYPE kind);

/*
 * The opposite of obj_alloc, for an object that is invisible again or still. Nobody holds it any
 * more.
 */
void obj_discard(struct obj *obj);

/* Makes it findable: the last step of a create call. Returns the handle. */
DAT_HANDLE obj_publish(struct obj *obj);

/* The first step of a free call: in one step, refuses while somebody holds it, or hides it. */
bool obj_retire(struct obj *obj);

/* Retires it whoever holds it: abrupt close only. */
void obj_retire_anyway(struct obj *obj);

/* Is this a live object of that kind, of @ia unless that is NULL? Safe for any value. */
bool obj_valid(struct ia *ia, DAT_HANDLE handle, DAT_HANDLE_TYPE kind);

/* As obj_valid, and from here on it can't be freed, until obj_put. */
bool obj_hold(struct ia *ia, DAT_HANDLE handle, DAT_HANDLE_TYPE kind);

/* One that surely is alive, by a lock or another hold. */
static inline void obj_get(struct obj *obj)
{
	atomic_fetch_add_explicit(&obj->uses, 1, memory_order_relaxed);
}

static inline void obj_put(struct obj *obj)
{
	atomic_fetch_sub_explicit(&obj->uses, 1, memory_order_release);
}

/* Any live object of this library, NULL if @handle is none. */
struct obj *obj_any(DAT_HANDLE handle);

/* How many published objects of that kind belong to @ia. */
unsigned obj_count(struct ia *ia, DAT_HANDLE_TYPE kind);

/*
 * The first visible object of that kind, or the one after @obj, which may be retired meanwhile.
 * Walks memory, so it is for paths that may take their time. The caller sees to it that none of
 * them is freed under him (ia->lock).
 */
struct obj *obj_next(struct ia *ia, DAT_HANDLE_TYPE kind, struct obj *obj);

#endif
