/* SPDX-License-Identifier: BSD-2-Clause */
/* What the registries of this project tell their providers, and no other registry does. */
#ifndef UDAPL_REGISTRY_H
#define UDAPL_REGISTRY_H

/* dat/libdat.h tells what each does. NULL: the registry does not have it, or is another's. */
struct registry_calls {
	int (*ro_aware)(void);
	const char *(*line)(void);
	void (*lose)(void);
};

/*
 * Returns them. The dynamic linker is asked at the first call only, because it may be locked: a
 * library that is being unloaded may wait for a thread that opens, and the child of a fork does not
 * have the thread that locked it. What it found stays valid, because these registries are never
 * unloaded. Any thread.
 */
const struct registry_calls *registry_known(void);

#endif
