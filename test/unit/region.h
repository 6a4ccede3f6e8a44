/* SPDX-License-Identifier: BSD-2-Clause */
/* The unit tests of memory share descriptions of regions, and use counts. */
#ifndef REGION_H
#define REGION_H

#include <sys/mman.h>

#include "harness.h"

#define PAGE	     4096
#define REGION_TYPES ((int)DAT_MEM_TYPE_SO_VIRTUAL + 1)

/* What a peer does. */
enum access { READS, WRITES, ACCESSES };

/* Maps a page of shared memory. */
static inline char *map_shared_page(void)
{
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(page, MAP_FAILED);
	return page;
}

/* Returns the description of shared memory at @address with @cookie. */
static inline DAT_REGION_DESCRIPTION describe_shared(char *address,
						     char (*cookie)[DAT_LMR_COOKIE_SIZE])
{
	return (DAT_REGION_DESCRIPTION){ .for_shared_memory = { address, cookie } };
}

/* Returns how many objects and calls hold @handle. */
static inline unsigned handle_uses(DAT_HANDLE handle)
{
	return atomic_load(&((struct obj *)handle)->uses);
}

#endif
