/* SPDX-License-Identifier: BSD-2-Clause */
/* The device nodes of RDMA: why no device can be opened, found by looking. */
#ifndef UDAPL_NODES_H
#define UDAPL_NODES_H

#include <stddef.h>
#include <sys/types.h>

enum nodes_state {
	NODES_COMPLETE,
	NODES_NO_DEVICE,   /* the kernel has none */
	NODES_NO_FOLDER,   /* there is no /dev/infiniband */
	NODES_NO_UVERBS,   /* no node of a device in it */
	NODES_NO_RDMA_CM,  /* no node of the connection manager */
	NODES_CLOSED,	   /* a node may not be opened by this user */
	NODES_OUT_OF_WORK, /* a node can't be opened for another reason */
};

struct nodes {
	enum nodes_state state;
	char text[400]; /* a sentence without a full stop; empty: NODES_COMPLETE */
	gid_t group;	/* NODES_CLOSED: of the node */
	int has_module; /* NODES_NO_...: the module that makes the node is loaded */
};

/* Returns whether the kernel has a device of this name. Thread-safe. */
int nodes_has_device(const char *name);
/* Returns whether the kernel has the module of this name. Thread-safe. */
int nodes_has_module(const char *name);

/*
 * Opens each node that a program needs, and closes it; @nodes says what is missing. Thread-safe,
 * does not block.
 */
void nodes_look(struct nodes *nodes);

/* Where devices, nodes and modules are; tests have other folders. */
extern struct nodes_places {
	const char *devices, *nodes, *modules;
} nodes_places;

#endif
