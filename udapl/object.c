/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory, visibility and use counts of the objects. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "udapl.h"

#define CACHE_LINE  64
#define FIRST_SLAB  16	 /* objects; each next slab has twice as many */
#define LARGEST_SLAB 8192

/* A run of slots of one kind. Never freed. */
struct slab {
	struct slab *next;
	char *base, *end;
};

static struct kind {
	size_t size; /* 0: no such objects yet */
	struct slab *slabs;
	unsigned next_slots;		/* of the next slab */
	struct obj *dead_first, *dead_last; /* oldest first: a handle value comes back as late as possible */
} kinds[OBJ_KINDS] = {
	[DAT_HANDLE_TYPE_IA] = { .size = sizeof(struct ia) },
	[DAT_HANDLE_TYPE_EP] = { .size = sizeof(struct ep) },
	[DAT_HANDLE_TYPE_EVD] = { .size = sizeof(struct evd) },
	[DAT_HANDLE_TYPE_CNO] = { .size = sizeof(struct cno) },
	[DAT_HANDLE_TYPE_PZ] = { .size = sizeof(struct pz) },
	[DAT_HANDLE_TYPE_LMR] = { .size = sizeof(struct lmr) },
	[DAT_HANDLE_TYPE_RMR] = { .size = sizeof(struct rmr) },
	[DAT_HANDLE_TYPE_PSP] = { .size = sizeof(struct sp) },
	[DAT_HANDLE_TYPE_CR] = { .size = sizeof(struct cr) },
};

static pthread_mutex_t obj_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t stride(const struct kind *kind)
{
	return (kind->size + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

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
	size_t size = slots * stride(kind);
	struct slab *slab = malloc(sizeof(*slab));

	if (!slab)
		return false;
	slab->base = aligned_alloc(CACHE_LINE, size);
	if (!slab->base) {
		free(slab);
		return false;
	}
	memset(slab->base, 0, size);
	slab->end = slab->base + size;
	slab->next = kind->slabs;
	kind->slabs = slab;
	kind->next_slots = slots < LARGEST_SLAB ? 2 * slots : slots;
	for (unsigned i = 0; i < slots; i++) {
		struct obj *obj = (struct obj *)(slab->base + i * stride(kind));

		atomic_init(&obj->tag, OBJ_DEAD(kind - kinds));
		dead_push_locked(kind, obj);
	}
	return true;
}

/* The live object behind @handle, NULL if it is none of that kind. Looks at no memory but the slabs. */
static struct obj *find_locked(DAT_HANDLE handle, DAT_HANDLE_TYPE type)
{
	const struct kind *kind = &kinds[type];
	char *at = handle;

	for (const struct slab *slab = kind->slabs; slab; slab = slab->next)
		if (at >= slab->base && at < slab->end)
			return (size_t)(at - slab->base) % stride(kind) == 0 && obj_is(at, type) ? handle : NULL;
	return NULL;
}

static struct obj *find_in_locked(struct ia *ia, DAT_HANDLE handle, DAT_HANDLE_TYPE type)
{
	struct obj *obj = find_locked(handle, type);

	return obj && (!ia || obj->ia == ia) ? obj : NULL;
}

/* Dead or alive, a slot stays of its kind. */
static unsigned type_of(const struct obj *obj)
{
	return (atomic_load_explicit(&obj->tag, memory_order_relaxed) & 0xff) - OBJ_DEAD(0);
}

void *obj_alloc(struct ia *ia, const DAT_PROVIDER *provider, DAT_HANDLE_TYPE type)
{
	struct kind *kind = &kinds[type];
	struct obj *obj = NULL;

	pthread_mutex_lock(&obj_lock);
	if (kind->dead_first || slab_add_locked(kind))
		obj = dead_pop_locked(kind);
	pthread_mutex_unlock(&obj_lock);
	if (!obj)
		return NULL;
	/* Somebody with a stale handle may be reading the two words before. */
	memset(&obj->uses, 0, kind->size - offsetof(struct obj, uses));
	obj->provider = provider;
	obj->ia = type == DAT_HANDLE_TYPE_IA ? (struct ia *)obj : ia;
	return obj;
}

void obj_discard(struct obj *obj)
{
	pthread_mutex_lock(&obj_lock);
	dead_push_locked(&kinds[type_of(obj)], obj);
	pthread_mutex_unlock(&obj_lock);
}

DAT_HANDLE obj_publish(struct obj *obj)
{
	unsigned type = type_of(obj);

	pthread_mutex_lock(&obj_lock);
	atomic_store_explicit(&obj->tag, OBJ_TAG(type), memory_order_release);
	if (obj != &obj->ia->obj) {
		struct obj_list *list = &obj->ia->objs[type];

		obj->prev = NULL;
		obj->next = list->first;
		if (list->first)
			list->first->prev = obj;
		list->first = obj;
		list->count++;
	}
	pthread_mutex_unlock(&obj_lock);
	return obj;
}

static void unlink_locked(struct obj *obj)
{
	unsigned type = type_of(obj);

	if (obj != &obj->ia->obj) {
		struct obj_list *list = &obj->ia->objs[type];

		if (obj->prev)
			obj->prev->next = obj->next;
		else
			list->first = obj->next;
		if (obj->next)
			obj->next->prev = obj->prev;
		list->count--;
	}
	atomic_store_explicit(&obj->tag, OBJ_DEAD(type), memory_order_release);
}

bool obj_retire(struct obj *obj)
{
	bool idle;

	pthread_mutex_lock(&obj_lock);
	idle = obj->uses == 0;
	if (idle)
		unlink_locked(obj);
	pthread_mutex_unlock(&obj_lock);
	return idle;
}

void obj_retire_anyway(struct obj *obj)
{
	pthread_mutex_lock(&obj_lock);
	unlink_locked(obj);
	pthread_mutex_unlock(&obj_lock);
}

bool obj_valid(struct ia *ia, DAT_HANDLE handle, DAT_HANDLE_TYPE type)
{
	bool valid;

	pthread_mutex_lock(&obj_lock);
	valid = find_in_locked(ia, handle, type) != NULL;
	pthread_mutex_unlock(&obj_lock);
	return valid;
}

bool obj_hold(struct ia *ia, DAT_HANDLE handle, DAT_HANDLE_TYPE type)
{
	struct obj *obj;

	pthread_mutex_lock(&obj_lock);
	obj = find_in_locked(ia, handle, type);
	if (obj)
		obj->uses++;
	pthread_mutex_unlock(&obj_lock);
	return obj != NULL;
}

void obj_get(struct obj *obj)
{
	pthread_mutex_lock(&obj_lock);
	obj->uses++;
	pthread_mutex_unlock(&obj_lock);
}

void obj_put(struct obj *obj)
{
	pthread_mutex_lock(&obj_lock);
	obj->uses--;
	pthread_mutex_unlock(&obj_lock);
}

struct obj *obj_any(DAT_HANDLE handle)
{
	struct obj *obj = NULL;

	pthread_mutex_lock(&obj_lock);
	for (unsigned type = 0; !obj && type < OBJ_KINDS; type++)
		obj = find_locked(handle, (DAT_HANDLE_TYPE)type);
	pthread_mutex_unlock(&obj_lock);
	return obj;
}

unsigned obj_count(struct ia *ia, DAT_HANDLE_TYPE type)
{
	unsigned count;

	pthread_mutex_lock(&obj_lock);
	count = ia->objs[type].count;
	pthread_mutex_unlock(&obj_lock);
	return count;
}

struct obj *obj_next(struct ia *ia, DAT_HANDLE_TYPE type, const struct obj *obj)
{
	struct obj *next;

	pthread_mutex_lock(&obj_lock);
	next = obj ? obj->next : ia->objs[type].first;
	pthread_mutex_unlock(&obj_lock);
	return next;
}
