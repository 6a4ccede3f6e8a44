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
	MAPPING_UNKNOWN,
	MAPPING_HOLES,	  /* not all of it can be read */
	MAPPING_READONLY, /* not all of it can be written */
	MAPPING_WRITABLE,
};
enum mapping mapping_of(const struct span *span);

/* What is mapped: the same for all processes that share it. */
struct backing {
	unsigned major, minor; /* of the device */
	unsigned long inode;
	bool sysv; /* its inode numbers are not those of files on the same device */
	uint64_t offset;
};

bool backing_same(const struct backing *a, const struct backing *b);
/* What the span maps, if it is one piece of one shared object. -EINVAL: it is not. */
int backing_of(const struct span *span, struct backing *backing);

#endif
