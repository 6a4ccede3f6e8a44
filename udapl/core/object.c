/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory, visibility and use counts of the objects. */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "base/race.h"

#define FIRST_SLAB   16 /* objects; each next slab has twice as many */
#define BATCH	     16 /* slots of a slab that become free together; a divisor of FIRST_SLAB */
#define LARGEST_SLAB 8192

/*
 * A run of slots of one kind, which is never freed. Those behind the ones that were free once are
 * all zero, and their pages take no memory yet.
 */
struct slab {
	struct slab *next;
	char *base;
	size_t size; /* bytes */
	size_t used; /* pool->lock; bytes from the base */
};

static struct slot_pool {
	struct spinlock lock;
	_Atomic(struct slab *) slabs; /* lock, to write; latest first */
	unsigned slots;		      /* lock; of the latest slab */
	unsigned unused;	      /* lock; those of all slabs that were never free */
	/*
	 * lock; oldest first, so that a handle value is reused late; there is a last one only if
	 * there is a first
	 */
	struct obj *free_first, *free_last;
} pools[OBJ_KINDS] = {
	[0 ... OBJ_KINDS - 1] = { .lock = SPINLOCK_INITIALIZER(RANK_POOL, "pool->lock") },
};

/* ---- slots ---- */

static inline void slot_push_locked(struct slot_pool *pool, struct obj *obj)
{
	assert_locked(&pool->lock);
	obj->next = NULL;
	if (likely(pool->free_first))
		pool->free_last->next = obj;
	else
		pool->free_first = obj;
	pool->free_last = obj;
}

static inline struct obj *slot_pop_locked(struct slot_pool *pool)
{
	struct obj *obj = pool->free_first;

	assert_locked(&pool->lock);
	if (likely(obj))
		pool->free_first = obj->next;
	return obj;
}

/* Is no slot free, or one, whose handle value would come back as soon as that is freed? */
static inline bool pool_is_low_locked(const struct slot_pool *pool)
{
	assert_locked(&pool->lock);
	return unlikely(!pool->free_first) || unlikely(!pool->free_first->next);
}

/* Frees a batch of slots that were never free, of which there are some. */
static COLD void batch_add_locked(DAT_HANDLE_TYPE type)
{
	struct slot_pool *pool = &pools[type];
	struct slab *slab = pool->slabs;

	assert_locked(&pool->lock);
	while (slab->used == slab->size) /* two threads may have added one at the same time */
		slab = slab->next;
	pool->unused -= BATCH;
	for (unsigned i = 0; i < BATCH; i++) {
		struct obj *obj = (struct obj *)(slab->base + slab->used);

		atomic_init(&obj->tag, OBJ_HIDDEN(type));
		atomic_init(&obj->uses, OBJ_RETIRED);
		slab->used += obj_kinds[type].stride;
		slot_push_locked(pool, obj);
	}
}

/* Nothing is written to the memory, which is calloc's: so the kernel adds pages as needed. */
static struct slab *slab_new(DAT_HANDLE_TYPE type, unsigned slots)
{
	const size_t size = slots * obj_kinds[type].stride;
	struct slab *slab = calloc(1, sizeof(*slab) + OBJ_ALIGNMENT + OBJ_OFFSET + size);
	uintptr_t behind = (uintptr_t)(slab + 1);

	if (!slab)
		return NULL;
	slab->size = size;
	slab->base = (char *)(slab + 1) + -behind % OBJ_ALIGNMENT + OBJ_OFFSET;
	return slab;
}

/* No slot is free: adds a slab and returns one of its slots. */
static COLD struct obj *slab_add_and_take(DAT_HANDLE_TYPE type)
{
	struct slot_pool *pool = &pools[type];
	struct slab *slab;
	struct obj *obj;
	unsigned slots;

	spin_lock(&pool->lock);
	slots = pool->slots ? pool->slots : FIRST_SLAB / 2;
	spin_unlock(&pool->lock);
	slots = slots < LARGEST_SLAB ? 2 * slots : slots;
	slab = slab_new(type, slots);
	if (!slab)
		return NULL;
	spin_lock(&pool->lock);
	slab->next = atomic_load_explicit(&pool->slabs, memory_order_relaxed);
	atomic_store_explicit(&pool->slabs, slab, memory_order_release);
	pool->slots = slots;
	pool->unused += slots;
	batch_add_locked(type);
	obj = slot_pop_locked(pool);
	spin_unlock(&pool->lock);
	return obj;
}

/*
 * Clears an object from obj->ia on. It is done by assignments, because gcc makes of a memset an
 * instruction that is slow to start.
 */
static inline void obj_zero(struct obj *obj, size_t size)
{
	struct line {
		char bytes[OBJ_ALIGNMENT];
	} *lines = (struct line *)obj;

	memset(&obj->ia, 0, OBJ_ALIGNMENT - offsetof(struct obj, ia));
	for (size_t i = 1; i < size / OBJ_ALIGNMENT; i++)
		lines[i] = (struct line){ { 0 } };
}

void *obj_alloc(struct ia *ia, const void *table, DAT_HANDLE_TYPE type)
{
	struct slot_pool *pool = &pools[type];
	struct obj *obj;

	spin_lock(&pool->lock);
	if (pool_is_low_locked(pool) && pool->unused)
		batch_add_locked(type);
	obj = slot_pop_locked(pool);
	spin_unlock(&pool->lock);
	if (unlikely(!obj))
		obj = slab_add_and_take(type);
	if (unlikely(!obj))
		return NULL;
	/* Another thread may be reading the words before that, through a stale handle. */
	obj_zero(obj, obj_kinds[type].stride);
	obj->table = table;
	obj->ia = type == DAT_HANDLE_TYPE_IA ? (struct ia *)obj : ia;
	return obj;
}

void obj_free_as(struct obj *obj, unsigned type)
{
	struct slot_pool *pool = &pools[type];

	debug_assert(atomic_load(&obj->uses) & OBJ_RETIRED && obj_kind(obj) == type);
	spin_lock(&pool->lock);
	slot_push_locked(pool, obj);
	spin_unlock(&pool->lock);
}

/* ---- visibility ---- */

DAT_HANDLE obj_publish(struct obj *obj)
{
	const uint32_t hidden = atomic_load_explicit(&obj->tag, memory_order_relaxed);

	debug_assert(hidden == OBJ_HIDDEN(obj_kind(obj)));
	atomic_fetch_and_explicit(&obj->uses, ~OBJ_RETIRED, memory_order_release);
	atomic_store_explicit(&obj->tag, OBJ_VISIBLE + hidden, memory_order_release);
	return obj;
}

static void obj_hide(struct obj *obj)
{
	atomic_store_explicit(&obj->tag, OBJ_HIDDEN(obj_kind(obj)), memory_order_release);
}

bool obj_retire(struct obj *obj)
{
	uint32_t idle = 0;

	if (!atomic_compare_exchange_strong(&obj->uses, &idle, OBJ_RETIRED))
		return false;
	obj_hide(obj);
	return true;
}

void obj_retire_forced(struct obj *obj)
{
	atomic_fetch_or(&obj->uses, OBJ_RETIRED);
	obj_hide(obj);
}

/* ---- objects by handle ---- */

/* Returns the slab in which the address is, or NULL. */
static inline const struct slab *slab_of(DAT_HANDLE_TYPE type, const void *at)
{
	const struct slab *slab = atomic_load_explicit(&pools[type].slabs, memory_order_acquire);

	while (slab && (uintptr_t)at - (uintptr_t)slab->base >= slab->size)
		slab = slab->next;
	return slab;
}

/* Returns whether this is a visible object of that kind. Reads no memory outside the slabs. */
static inline bool obj_exists(DAT_HANDLE handle, DAT_HANDLE_TYPE type)
{
	const struct slab *slab = slab_of(type, handle);

	return likely(slab && (size_t)((char *)handle - slab->base) % obj_kinds[type].stride == 0 &&
		      obj_is(handle, type));
}

bool obj_valid(struct ia *ia, DAT_HANDLE handle, DAT_HANDLE_TYPE type)
{
	const struct obj *obj = handle;

	return obj_exists(handle, type) && (!ia || obj->ia == ia);
}

bool obj_lock_ia(struct ia *ia, DAT_HANDLE handle, DAT_HANDLE_TYPE type)
{
	struct obj *obj = handle;
	struct ia *owner;

	if (!obj_valid(ia, handle, type))
		return false;
	owner = ia ? ia : obj->ia;
	if (!owner) /* it was freed, and its slot is being filled anew */
		return false;
	race_reach(RACE_LOCK, obj);
	mutex_lock(&owner->lock);
	if (obj_valid(owner, handle, type))
		return true;
	mutex_unlock(&owner->lock);
	return false;
}

bool obj_hold(struct ia *ia, DAT_HANDLE handle, DAT_HANDLE_TYPE type)
{
	struct obj *obj = handle;

	if (!obj_exists(handle, type))
		return false;
	if (likely(!(atomic_fetch_add_explicit(&obj->uses, 1, memory_order_acquire) &
		     OBJ_RETIRED)) &&
	    (!ia || obj->ia == ia))
		return true;
	obj_put(obj); /* it has just been retired, or belongs to another IA */
	return false;
}

struct obj *obj_any(DAT_HANDLE handle)
{
	for (unsigned type = 0; type < OBJ_KINDS; type++)
		if (obj_exists(handle, (DAT_HANDLE_TYPE)type))
			return handle;
	return NULL;
}

/* ---- after a fork ---- */

static void object_after_fork(struct obj *obj, DAT_HANDLE_TYPE type)
{
	const bool visible = atomic_load_explicit(&obj->tag, memory_order_relaxed) == OBJ_TAG(type);

	if (obj_kinds[type].after_fork)
		obj_kinds[type].after_fork(obj, visible);
	if (visible)
		obj_hide(obj);
}

/*
 * The parent's objects stay readable, so their handles are refused. Their slots are not reused:
 * the free ones may be in the middle of a change.
 */
void objects_after_fork(void)
{
	for (unsigned type = 0; type < OBJ_KINDS; type++) {
		struct slot_pool *pool = &pools[type];

		spin_after_fork(&pool->lock);
		for (const struct slab *slab = pool->slabs; slab; slab = slab->next)
			for (size_t at = 0; at < slab->used; at += obj_kinds[type].stride)
				object_after_fork((struct obj *)(slab->base + at),
						  (DAT_HANDLE_TYPE)type);
		pool->slabs = NULL;
		pool->slots = 0;
		pool->unused = 0;
		pool->free_first = NULL;
	}
}

/* ---- objects by IA ---- */

/* Returns the first slot that was ever free, or the one after @obj; NULL at the end. */
static struct obj *slot_next(size_t stride, const struct slab **slab, struct obj *obj)
{
	char *at = obj ? (char *)obj + stride : (*slab)->base;

	if (at < (*slab)->base + (*slab)->used)
		return (struct obj *)at;
	*slab = (*slab)->next;
	return *slab ? (struct obj *)(*slab)->base : NULL;
}

static bool is_visible_of(const struct obj *obj, const struct ia *ia, DAT_HANDLE_TYPE type)
{
	bool visible = atomic_load_explicit(&obj->tag, memory_order_acquire) == OBJ_TAG(type);

	return visible && obj->ia == ia && obj != &ia->obj;
}

/* The lock is held because under it no slot is reused. */
struct obj *obj_next(struct ia *ia, DAT_HANDLE_TYPE type, struct obj *obj)
{
	struct slot_pool *pool = &pools[type];
	const struct slab *slab;

	spin_lock(&pool->lock);
	slab = obj ? slab_of(type, obj) : atomic_load_explicit(&pool->slabs, memory_order_relaxed);
	do
		obj = slab ? slot_next(obj_kinds[type].stride, &slab, obj) : NULL;
	while (obj && !is_visible_of(obj, ia, type));
	spin_unlock(&pool->lock);
	return obj;
}

unsigned obj_count(struct ia *ia, DAT_HANDLE_TYPE type)
{
	unsigned count = 0;

	for (struct obj *obj = obj_next(ia, type, NULL); obj; obj = obj_next(ia, type, obj))
		count++;
	return count;
}
