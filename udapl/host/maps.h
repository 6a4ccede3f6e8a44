/* SPDX-License-Identifier: BSD-2-Clause */
/* What the system says of a range of this process's memory. */
#ifndef UDAPL_MAPS_H
#define UDAPL_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of this process, at least one. */
struct span {
	char *address;
	size_t length;
};

enum mapping {
	MAPPING_UNKNOWN,  /* /proc does not tell */
	MAPPING_HOLES,	  /* not all of it can be read */
	MAPPING_READONLY, /* not all of it can be written */
	MAPPING_WRITABLE,
};
/* Returns how the span is mapped. Any thread; reads /proc, so it is for calls that failed. */
enum mapping mapping_of(const struct span *span);

/* What is mapped: the same for all processes that share it. */
struct backing {
	unsigned major, minor; /* of the device */
	uint64_t inode, offset;
	bool sysv; /* its inode numbers are not those of files on the same device */
};

/* Returns whether both are the same piece of the same object. */
bool backing_same(const struct backing *a, const struct backing *b);
/*
 * Writes what the span maps, if it is one piece of one shared object. Returns -EINVAL if it is not,
 * or another negative errno without /proc. Any thread.
 */
int backing_of(const struct span *span, struct backing *backing);

#endif
