/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory, visibility and use counts of the objects. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "udapl.h"

#define CACHE_LINE  64
#define STRIDE(x)   ((sizeof(x) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE)
#define FIRST_SLAB  16	 /* objects; each next slab has twice as many */
#define LARGEST_SLAB 8192

/* A run of slots of one kind. Never freed, never changed. */
struct slab {
	struct slab *next;
	char *base;
	size_t size; /* bytes */
};

static struct kind {
	size_t stride; /* bytes from slot to slot; 0: no such objects yet */
	_Atomic(struct slab *) slabs;	/* written under obj_lock; latest first */
	unsigned next_slots;		/* obj_lock; of the next slab */
	struct obj *dead_first, *dead_last; /* obj_lock; oldest first: a handle value comes back as late as possible */
} kinds[OBJ_KINDS] = {
	[DAT_HANDLE_TYPE_IA] = { .stride = STRIDE(struct ia) },
	[DAT_HANDLE_TYPE_EP] = { .stride = STRIDE(struct ep) },
	[DAT_HANDLE_TYPE_EVD] = { .stride = STRIDE(struct evd) },
	[DAT_HANDLE_TYPE_CNO] = { .stride = STRIDE(struct cno) },
	[DAT_HANDLE_TYPE_PZ] = { .stride = STRIDE(struct pz) },
	[DAT_HANDLE_TYPE_LMR] = { .stride = STRIDE(struct lmr) },
	[DAT_HANDLE_TYPE_RMR] = { .stride = STRIDE(struct rmr) },
	[DAT_HANDLE_TYPE_PSP] = { .stride = STRIDE(struct sp) },
	[DAT_HANDLE_TYPE_CR] = { .stride = STRIDE(struct cr) },
};

static pthread_mutex_t obj_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- slots ------------------------------------------------------------------------------------------------------ */

static void dead_push_locked(struct kind *kind, struct obj *obj)
{
	obj->next = NULL;
	if (kind->dead_last)
		kind->dead_last->next = obj;
	else
		kind->dead_first = obj;
	kind->dead_last = obj;
}

static struct obj *dead_pop_locked(struct kind *kind)
{
	struct obj *obj = kind->dead_first;

	if (obj) {
		kind->dead_first = obj->next;
		if (!obj->next)
			kind->dead_last = NULL;
	}
	return obj;
}

static bool slab_add_locked(struct kind *kind)
{
	unsigned slots = kind->next_slots ? kind->next_slots : FIRST_SLAB;
	struct slab *slab = malloc(sizeof(*slab));

	if (!slab)
		return false;
	slab->size = slots * kind->stride;
	slab->base = aligned_alloc(CACHE_LINE, slab->size);
	if (!slab->base) {
		free(slab);
		return false;
	}
	memset(slab->base, 0, slab->size);
	for (unsigned i = 0; i < slots; i++) {
		struct obj *obj = (struct obj *)(slab->base + i * kind->stride);

		atomic_init(&obj->tag, OBJ_DEAD(kind - kinds));
		atomic_init(&obj->uses, OBJ_RETIRED);
		dead_push_locked(kind, obj);
	}
	slab->next = atomic_load_explicit(&kind->slabs, memory_order_relaxed);
	atomic_store_explicit(&kind->slabs, slab, memory_order_release);
	kind->next_slots = slots < LARGEST_SLAB ? 2 * slots : slots;
	return true;
}

/* Dead or alive, a slot stays of its kind. */
static unsigned kind_of(const struct obj *obj)
{
	return (atomic_load_explicit(&obj->tag, memory_order_relaxed) & 0xff) - OBJ_DEAD(0);
}

void *obj_alloc(struct ia *ia, const DAT_PROVIDER *provider, DAT_HANDLE_TYPE type)
{
	struct kind *kind = &kinds[type];
	struct obj *obj = NULL;

	pthread_mutex_lock(&obj_lock);
	if (likely(kind->dead_first) || slab_add_locked(kind))
		obj = dead_pop_locked(kind);
	pthread_mutex_unlock(&obj_lock);
	if (!obj)
		return NULL;
	/* Somebody with a stale handle may be looking at what stands before. */
	memset(&obj->ia, 0, kind->stride - offsetof(struct obj, ia));
	obj->provider = provider;
	obj->ia = type == DAT_HANDLE_TYPE_IA ? (struct ia *)obj : ia;
	return obj;
}

void obj_discard(struct obj *obj)
{
	struct kind *kind = &kinds[kind_of(obj)];

	pthread_mutex_lock(&obj_lock);
	dead_push_locked(kind, obj);
	pthread_mutex_unlock(&obj_lock);
}

/* ---- visible or not --------------------------------------------------------------------------------------------- */

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

/* ---- by their handles ------------------------------------------------------------------------------------------- */

static const struct slab *slab_of(const struct kind *kind, const void *at)
{
	const struct slab *slab = atomic_load_explicit(&kind->slabs, memory_order_acquire);

	while (slab && (uintptr_t)at - (uintptr_t)slab->base >= slab->size)
		slab = slab->next;
	return slab;
}

/* The live object behind @handle, NULL if it is none of that kind. Looks at no memory but the slabs. */
static struct obj *find(DAT_HANDLE handle, DAT_HANDLE_TYPE type)
{
	const struct kind *kind = &kinds[type];
	const struct slab *slab = slab_of(kind, handle);

	if (!slab || (size_t)((char *)handle - slab->base) % kind->stride != 0 || !obj_is(handle, type))
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
	if (!(atomic_fetch_add_explicit(&obj->uses, 1, memory_order_acquire) & OBJ_RETIRED) && (!ia || obj->ia == ia))
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

/* ---- all of an IA ----------------------------------------------------------------------------------------------- */

/* The first slot, or the one after @obj. */
static struct obj *slot_next(const struct kind *kind, const struct slab **slab, struct obj *obj)
{
	char *at = obj ? (char *)obj + kind->stride : (*slab)->base;

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
	const struct kind *kind = &kinds[type];
	const struct slab *slab;

	pthread_mutex_lock(&obj_lock);
	slab = obj ? slab_of(kind, obj) : atomic_load_explicit(&kind->slabs, memory_order_relaxed);
	do
		obj = slab ? slot_next(kind, &slab, obj) : NULL;
	while (obj && !is_of(obj, ia, type));
	pthread_mutex_unlock(&obj_lock);
	return obj;
}

unsigned obj_count(struct ia *ia, DAT_HANDLE_TYPE type)
{
	unsigned count = 0;

	for (struct obj *obj = obj_next(ia, type, NULL); obj; obj = obj_next(ia, type, obj))
		count++;
	return count;
}
