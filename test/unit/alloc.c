/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocations that fail: the linker's --wrap redirects malloc and its variants to this module. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "alloc.h"

static _Thread_local unsigned fail_in; /* allocations until the one that fails; 0: none will */
static _Thread_local bool failed;
static _Thread_local bool exempt; /* this thread called alloc_starve_others */
static _Atomic bool failing_others;
static _Atomic unsigned refused;

/* The tests of the registry are not linked with the fake transport. */
bool fake_is_inside(void) __attribute__((weak));

void alloc_fail_nth(unsigned n)
{
	fail_in = n;
	failed = false;
}

bool alloc_failed(void)
{
	fail_in = 0;
	return failed;
}

void alloc_starve_others(bool on)
{
	exempt = on;
	atomic_store(&failing_others, on);
}

unsigned alloc_refused(void)
{
	return atomic_load(&refused);
}

static bool alloc_fails(void)
{
	if (fake_is_inside && fake_is_inside())
		return false;
	if (fail_in > 0 && --fail_in == 0) {
		failed = true;
	} else if (atomic_load(&failing_others) && !exempt) {
		atomic_fetch_add(&refused, 1);
	} else {
		return false;
	}
	errno = ENOMEM;
	return true;
}

/*
 * The linker prescribes the names. They must have default visibility, or it rejects them where a
 * shared library allocates, too.
 */
#define WRAP(type, call, params, ...)                                                              \
	type __real_##call params;                                                                 \
	__attribute__((visibility("default"))) type __wrap_##call params;                          \
	type __wrap_##call params                                                                  \
	{                                                                                          \
		return alloc_fails() ? NULL : __real_##call(__VA_ARGS__);                          \
	}

WRAP(void *, malloc, (size_t size), size)
WRAP(void *, calloc, (size_t n, size_t size), n, size)
WRAP(void *, realloc, (void *old, size_t size), old, size)
WRAP(void *, aligned_alloc, (size_t alignment, size_t size), alignment, size)
WRAP(char *, strdup, (const char *text), text)
