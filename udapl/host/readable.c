/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether the processor can read memory: the kernel copies a byte of each page, and tells. */
#include <fcntl.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

#include "readable.h"

#define PAGES_AT_ONCE 1024 /* IOV_MAX of Linux; so many bytes always fit into a pipe */

/*
 * Copies a byte of each page from *next on, through a pipe, and moves *next behind the last of
 * them. No byte outside of the range is read: the memory there may be another's. Returns whether
 * all could be copied.
 */
static bool pages_copied(const int fds[2], const char **next, const char *end, size_t page)
{
	struct iovec iov[PAGES_AT_ONCE];
	char bytes[PAGES_AT_ONCE];
	ssize_t count = 0;

	while (*next < end && count < PAGES_AT_ONCE) {
		iov[count++] = (struct iovec){ (void *)(uintptr_t)*next, 1 };
		*next += page - (uintptr_t)*next % page;
	}
	return writev(fds[1], iov, (int)count) == count &&
	       read(fds[0], bytes, (size_t)count) == count;
}

bool memory_is_readable(const void *address, size_t size)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const char *next = address, *end = next + size;
	bool readable = true;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return true;
	while (readable && next < end)
		readable = pages_copied(fds, &next, end, page);
	close(fds[0]);
	close(fds[1]);
	return readable;
}
