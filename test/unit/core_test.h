/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of the core share: a registry of one entry, IAs over the fake transport, counts of what is left. */
#ifndef CORE_TEST_H
#define CORE_TEST_H

#include <check.h>
#include <stdbool.h>
#include <string.h>

#include "fake.h"
#include "udapl.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* Where a failed call must leave its output alone. It is no handle of anything. */
#define POISON ((DAT_HANDLE)(uintptr_t)0x5a5a5a50)

/* The registry as the core sees it. */
extern struct registry {
	const DAT_PROVIDER *provider; /* NULL if nothing is registered */
	DAT_PROVIDER_INFO info;
	DAT_RETURN answer; /* to the next dat_registry_add_provider */
} registry;

DAT_PROVIDER_INFO info_of(const char *name, bool thread_safe);
/* Has dat_provider_init announce it, version 1.2. */
void announce(const char *name, const char *params, bool thread_safe);

/* Opens device @n of the fake network, non-threadsafe, with an asynchronous EVD of its own. */
struct ia *open_fake(unsigned n);
void close_abrupt(struct ia *ia);

/* How many entries a directory of /proc/self has. */
unsigned proc_count(const char *what);
static inline unsigned fds(void)
{
	return proc_count("fd");
}
static inline unsigned threads(void)
{
	return proc_count("task");
}

/* Every case in a process of its own. Returns what main should. */
int run(const char *name, TCase *cases);

#endif
