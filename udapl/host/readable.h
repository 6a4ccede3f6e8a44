/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether the processor can read memory that a device may have. */
#ifndef UDAPL_READABLE_H
#define UDAPL_READABLE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Returns whether a load from each page of the range succeeds: from memory of a GPU it may not,
 * although it is mapped. Returns true also if that can't be found out, for want of descriptors. Any
 * thread; makes two system calls for each 1024 pages.
 */
bool memory_is_readable(const void *address, size_t size);

#endif
