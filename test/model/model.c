/* SPDX-License-Identifier: BSD-2-Clause */
/* The model's tools: which object an argument names, what a call should have returned, memory. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model.h"

/* ---- judging ---- */

void mismatch(const struct world *w, const char *format, ...)
{
	va_list args;

	if (script_failed(w->call_index, format))
		_exit(1); /* another thread was first, or nobody wants to know */
	fprintf(stderr, "# call %zu: ", w->call_index);
	if (w->call)
		call_print(stderr, w->call);
	fprintf(stderr, "#\t");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	_exit(1);
}

bool returned(const struct world *w, DAT_RETURN got, DAT_RETURN want)
{
	holds(w, got == want, "it returned %s, not %s", status_text(got), status_text(want));
	script_saw(got == DAT_SUCCESS ? A_SUCCESS : A_REFUSAL);
	return got == DAT_SUCCESS;
}

/* ---- arguments ---- */

/* The low bits of an argument are a slot, the others say what else to take. */
enum { NULL_HANDLE = 1, OTHER_KIND, ANY_SLOT = 8, CHOICES = 64 };

static unsigned choice_of(uint16_t arg)
{
	return arg / SLOTS % CHOICES;
}

struct object *object_with(struct world *w, DAT_HANDLE_TYPE kind, DAT_HANDLE handle)
{
	for (unsigned i = 0; handle && i < SLOTS; i++)
		if (w->slot[kind][i].live && w->slot[kind][i].handle == handle)
			return &w->slot[kind][i];
	return NULL;
}

/*
 * A stale handle may be that of an object which the model does not know: another thread's, or a
 * request that has arrived unseen, with its endpoint. Then it is not used.
 */
static DAT_HANDLE usable_handle(const struct world *w, const struct object *object)
{
	if (object->live)
		return object->handle;
	if (w->threads > 1)
		return DAT_HANDLE_NULL;
	for (const struct conn *conn = w->conns; conn; conn = conn->next)
		if (conn->progress == ON_WIRE)
			return DAT_HANDLE_NULL;
	return object->handle;
}

struct object *any_object(struct world *w, uint16_t arg, DAT_HANDLE *handle)
{
	*handle = usable_handle(w, &w->slot[arg / SLOTS % KINDS][arg % SLOTS]);
	for (unsigned kind = 0; kind < KINDS; kind++) {
		struct object *object = object_with(w, (DAT_HANDLE_TYPE)kind, *handle);

		if (object)
			return object;
	}
	return NULL;
}

struct object *object_of(struct world *w, uint16_t arg, DAT_HANDLE_TYPE kind,
			 const struct object *ia, DAT_HANDLE *handle)
{
	unsigned choice = choice_of(arg);

	*handle = usable_handle(w, &w->slot[kind][arg % SLOTS]);
	for (unsigned i = 0; i < SLOTS && choice >= ANY_SLOT; i++) {
		struct object *object = &w->slot[kind][(arg + i) % SLOTS];

		if (!object->live || (ia && object->ia != ia))
			continue;
		*handle = object->handle;
		return object;
	}
	if (choice == NULL_HANDLE)
		*handle = DAT_HANDLE_NULL;
	else if (choice == OTHER_KIND)
		any_object(w, (uint16_t)(arg * 7 / 3), handle);
	return object_with(w, kind, *handle);
}

struct object *object_arg(struct world *w, uint16_t arg, DAT_HANDLE_TYPE kind, DAT_HANDLE *handle)
{
	return object_of(w, arg, kind, NULL, handle);
}

/* ---- the life of an object ---- */

struct object *object_slot(struct world *w, DAT_HANDLE_TYPE kind)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (!w->slot[kind][i].live)
			return &w->slot[kind][i];
	return NULL;
}

void object_born(struct object *object, DAT_HANDLE handle, struct object *ia)
{
	DAT_HANDLE_TYPE kind = object->kind;

	memset(object, 0, sizeof(*object));
	object->kind = kind;
	object->live = true;
	object->handle = handle;
	object->ia = ia;
}

void object_dies(struct object *object)
{
	object->live = false;
}

/* ---- memory ---- */

/*
 * Local buffers are in the first blocks, each of one transfer at a time. What peers write to comes
 * behind it, each block in turn, because a write may arrive when nobody waits for it any more. The
 * last one is what peers read, which never changes.
 */
#define TARGETS	     (ARENA_BLOCKS / 2)
#define FIRST_TARGET (ARENA_BLOCKS - 1 - TARGETS)
#define SOURCE	     (ARENA_BLOCKS - 1)

struct arena {
	char memory[ARENA_BLOCKS][BLOCK_SIZE];
	bool taken[FIRST_TARGET];
	unsigned next, next_target;
};

void arena_open(struct world *w)
{
	w->arena = aligned_alloc(4096, (sizeof(*w->arena) + 4095) / 4096 * 4096);
	if (!w->arena)
		abort();
	memset(w->arena, 0, sizeof(*w->arena));
	block_fill(w, SOURCE, SOURCE);
}

void arena_close(struct world *w)
{
	free(w->arena);
}

char *arena_memory(struct world *w)
{
	return w->arena->memory[0];
}

size_t arena_size(void)
{
	return sizeof(((struct arena *)NULL)->memory);
}

int block_take(struct world *w)
{
	struct arena *arena = w->arena;

	for (unsigned i = 0; i < FIRST_TARGET; i++) {
		unsigned block = arena->next++ % FIRST_TARGET;

		if (!arena->taken[block]) {
			arena->taken[block] = true;
			return (int)block;
		}
	}
	return -1;
}

void block_put(struct world *w, int block)
{
	if (block >= 0)
		w->arena->taken[block] = false;
}

int block_target(struct world *w)
{
	return (int)(FIRST_TARGET + w->arena->next_target++ % TARGETS);
}

int block_source(void)
{
	return SOURCE;
}

char *block_at(struct world *w, int block)
{
	return w->arena->memory[block];
}

static char pattern_byte(uint64_t seed, size_t i)
{
	return (char)((seed * 0x9e3779b97f4a7c15u >> 32) + i * 13);
}

void block_fill(struct world *w, int block, uint64_t seed)
{
	for (size_t i = 0; i < BLOCK_SIZE; i++)
		block_at(w, block)[i] = pattern_byte(seed, i);
}

bool block_has(struct world *w, int block, size_t length, uint64_t seed)
{
	for (size_t i = 0; i < length; i++)
		if (block_at(w, block)[i] != pattern_byte(seed, i))
			return false;
	return true;
}
