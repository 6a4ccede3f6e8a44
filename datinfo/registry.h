/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of a registry, for files that are compiled for each edition of DAT. */
#ifndef DATINFO_REGISTRY_H
#define DATINFO_REGISTRY_H

#include <edition.h>

#include "datinfo.h"

/* The program has these twice. */
#if DAT_EDITION == 2
#define registry_loader_tell registry2_loader_tell
#define registry_load	     registry2_load
#define registry_return_text registry2_return_text
#define peer_ask	     peer2_ask
#endif

#define REGISTRY_CALL(name) __typeof__(dat_##name) *name

struct registry {
	REGISTRY_CALL(ia_openv);
	REGISTRY_CALL(ia_query);
	REGISTRY_CALL(ia_close);
	REGISTRY_CALL(strerror);
	/* for peers; NULL if it lacks them */
	REGISTRY_CALL(pz_create);
	REGISTRY_CALL(evd_create);
	REGISTRY_CALL(evd_wait);
	REGISTRY_CALL(ep_create);
	REGISTRY_CALL(ep_connect);
};

/* Prints why the last library was not loaded. */
void registry_loader_tell(void);

/* Returns false if the registry can't be loaded or lacks a call, and the reason was printed. */
bool registry_load(const char *name, struct registry *registry);

/* Writes the names of what a call returned. */
void registry_return_text(const struct registry *registry, DAT_RETURN ret, char *text, size_t size);

/*
 * peer.c: asks a server at @target over the open IA, whose address is @local, and writes to @peer
 * how far it came. What it creates ends with the IA.
 */
void peer_ask(const struct registry *registry, DAT_IA_HANDLE ia, const struct sockaddr *local,
	      const struct peer_target *target, struct peer *peer);

#endif
