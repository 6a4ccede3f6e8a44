/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory, visibility and use counts of the objects. */
#include <stdlib.h>
#include <string.h>

#include "udapl.h"

#define CACHE_LINE   64
#define STRIDE(x)    ((sizeof(x) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE)
#define FIRST_SLAB   16 /* objects; each next slab has twice as many */
#define LARGEST_SLAB 8192

/* A run of slots of one kind. Never freed, never changed. */
struct slab {
	struct slab *next;
	char *base;
	size_t size; /* bytes */
};

static struct kind {
	struct spinlock lock;
	_Atomic(struct slab *) slabs; /* lock, to write; latest first */
	unsigned slots;		      /* lock; of the latest slab */
	/* lock; oldest first: a handle value comes back as late as possible */
	struct obj *dead_first, *dead_last;
} kinds[OBJ_KINDS] = {
	[0 ... OBJ_KINDS - 1] = { .lock = SPINLOCK_INITIALIZER(RANK_SLAB, "slab") },
};

/* Bytes from slot to slot; 0: no such objects yet. */
static const size_t strides[OBJ_KINDS] = {
	[DAT_HANDLE_TYPE_IA] = STRIDE(struct ia),   [DAT_HANDLE_TYPE_EP] = STRIDE(struct ep),
	[DAT_HANDLE_TYPE_EVD] = STRIDE(struct evd), [DAT_HANDLE_TYPE_CNO] = STRIDE(struct cno),
	[DAT_HANDLE_TYPE_PZ] = STRIDE(struct pz),   [DAT_HANDLE_TYPE_LMR] = STRIDE(struct lmr),
	[DAT_HANDLE_TYPE_RMR] = STRIDE(struct rmr), [DAT_HANDLE_TYPE_PSP] = STRIDE(struct sp),
	[DAT_HANDLE_TYPE_CR] = STRIDE(struct cr),
};

/* ---- slots ---- */

static inline void dead_push_locked(struct kind *kind, struct obj *obj)
{
	obj->next = NULL;
	if (likely(kind->dead_last))
		kind->dead_last->next = obj;
	else
		kind->dead_first = obj;
	kind->dead_last = obj;
}

static inline struct obj *dead_pop_locked(struct kind *kind)
{
	struct obj *obj = kind->dead_first;

	if (likely(obj)) {
		kind->dead_first = obj->next;
		if (unlikely(!obj->next))
			kind->dead_last = NULL;
	}
	return obj;
}

static struct slab *slab_make(DAT_HANDLE_TYPE type, unsigned slots)
{
	struct slab *slab = malloc(sizeof(*slab));

	if (!slab)
		return NULL;
	slab->size = slots * strides[type];
	slab->base = aligned_alloc(CACHE_LINE, slab->size);
	if (!slab->base) {
		free(slab);
		return NULL;
	}
	memset(slab->base, 0, slab->size);
	return slab;
}

/* All slots are taken. One of a new slab; the others are for those who come next. */
static COLD struct obj *slab_add(DAT_HANDLE_TYPE type)
{
	struct kind *kind = &kinds[type];
	struct slab *slab;
	unsigned slots;

	spin_lock(&kind->lock);
	slots = kind->slots ? kind->slots : FIRST_SLAB / 2;
	spin_unlock(&kind->lock);
	slots = slots < LARGEST_SLAB ? 2 * slots : slots;
	slab = slab_make(type, slots);
	if (!slab)
		return NULL;
	spin_lock(&kind->lock);
	for (unsigned i = 0; i < slots; i++) {
		struct obj *obj = (struct obj *)(slab->base + i * strides[type]);

		atomic_init(&obj->tag, OBJ_DEAD(type));
		atomic_init(&obj->uses, OBJ_RETIRED);
		if (i > 0)
			dead_push_locked(kind, obj);
	}
	slab->next = atomic_load_explicit(&kind->slabs, memory_order_relaxed);
	atomic_store_explicit(&kind->slabs, slab, memory_order_release);
	kind->slots = slots;
	spin_unlock(&kind->lock);
	return (struct obj *)slab->base;
}

/* Dead or alive, a slot stays of its kind. */
static inline unsigned kind_of(const struct obj *obj)
{
	return (atomic_load_explicit(&obj->tag, memory_order_relaxed) & 0xff) - OBJ_DEAD(0);
}

void *obj_alloc(struct ia *ia, const DAT_PROVIDER *provider, DAT_HANDLE_TYPE type)
{
	struct kind *kind = &kinds[type];
	struct obj *obj;

	spin_lock(&kind->lock);
	obj = dead_pop_locked(kind);
	spin_unlock(&kind->lock);
	if (unlikely(!obj))
		obj = slab_add(type);
	if (unlikely(!obj))
		return NULL;
	/* Somebody with a stale handle may be looking at what stands before. */
	memset(&obj->ia, 0, strides[type] - offsetof(struct obj, ia));
	obj->provider = provider;
	obj->ia = type == DAT_HANDLE_TYPE_IA ? (struct ia *)obj : ia;
	return obj;
}

void obj_discard(struct obj *obj)
{
	struct kind *kind = &kinds[kind_of(obj)];

	spin_lock(&kind->lock);
	dead_push_locked(kind, obj);
	spin_unlock(&kind->lock);
}

/* ---- visible or not ---- */

DAT_HANDLE obj_publish(struct obj *obj)
{
	atomic_fetch_and_explicit(&obj->uses, ~OBJ_RETIRED, memory_order_release);
	atomic_store_explicit(&obj->tag, OBJ_TAG(kind_of(obj)), memory_order_release);
	return obj;
}

static void hide(struct obj *obj)
{
	atomic_store_explicit(&obj->tag, OBJ_DEAD(kind_of(obj)), memory_order_release);
}

bool obj_retire(struct obj *obj)
{
	uint32_t idle = 0;

	if (!atomic_compare_exchange_strong(&obj->uses, &idle, OBJ_RETIRED))
		return false;
	hide(obj);
	return true;
}

void obj_retire_anyway(struct obj *obj)
{
	atomic_fetch_or(&obj->uses, OBJ_RETIRED);
	hide(obj);
}

/* ---- by their handles ---- */

static inline const struct slab *slab_of(DAT_HANDLE_TYPE type, const void *at)
{
	const struct slab *slab = atomic_load_explicit(&kinds[type].slabs, memory_order_acquire);

	while (slab && (uintptr_t)at - (uintptr_t)slab->base >= slab->size)
		slab = slab->next;
	return slab;
}

/*
 * The live object behind @handle, NULL if it is none of that kind. Looks at no memory but the
 * slabs.
 */
static inline struct obj *find(DAT_HANDLE handle, DAT_HANDLE_TYPE type)
{
	const struct slab *slab = slab_of(type, handle);

	if (unlikely(!slab || (size_t)((char *)handle - slab->base) % strides[type] != 0 ||
		     !obj_is(handle, type)))
		return NULL;
	return handle;
}

bool obj_valid(struct ia *ia, DAT_HANDLE handle, DAT_HANDLE_TYPE type)
{
	const struct obj *obj = find(handle, type);

	return obj && (!ia || obj->ia == ia);
}

bool obj_hold(struct ia *ia, DAT_HANDLE handle, DAT_HANDLE_TYPE type)
{
	struct obj *obj = find(handle, type);

	if (!obj)
		return false;
	if (likely(!(atomic_fetch_add_explicit(&obj->uses, 1, memory_order_acquire) &
		     OBJ_RETIRED)) &&
	    (!ia || obj->ia == ia))
		return true;
	obj_put(obj); /* retired just now, which that did not hinder; or another's */
	return false;
}

struct obj *obj_any(DAT_HANDLE handle)
{
	struct obj *obj = NULL;

	for (unsigned type = 0; !obj && type < OBJ_KINDS; type++)
		obj = find(handle, (DAT_HANDLE_TYPE)type);
	return obj;
}

/* ---- all of an IA ---- */

/* The first slot, or the one after @obj. */
static struct obj *slot_next(size_t stride, const struct slab **slab, struct obj *obj)
{
	char *at = obj ? (char *)obj + stride : (*slab)->base;

	if (at < (*slab)->base + (*slab)->size)
		return (struct obj *)at;
	*slab = (*slab)->next;
	return *slab ? (struct obj *)(*slab)->base : NULL;
}

static bool is_of(const struct obj *obj, const struct ia *ia, DAT_HANDLE_TYPE type)
{
	bool visible = atomic_load_explicit(&obj->tag, memory_order_acquire) == OBJ_TAG(type);

	return visible && obj->ia == ia && obj != &ia->obj;
}

/* No slot begins another life while we look, because that takes the lock. */
struct obj *obj_next(struct ia *ia, DAT_HANDLE_TYPE type, struct obj *obj)
{
	struct kind *kind = &kinds[type];
	const struct slab *slab;

	spin_lock(&kind->lock);
	slab = obj ? slab_of(type, obj) : atomic_load_explicit(&kind->slabs, memory_order_relaxed);
	do
		obj = slab ? slot_next(strides[type], &slab, obj) : NULL;
	while (obj && !is_of(obj, ia, type));
	spin_unlock(&kind->lock);
	return obj;
}

unsigned obj_count(struct ia *ia, DAT_HANDLE_TYPE type)
{
	unsigned count = 0;

	for (struct obj *obj = obj_next(ia, type, NULL); obj; obj = obj_next(ia, type, obj))
		count++;
	return count;
}
