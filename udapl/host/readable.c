/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether the processor can read memory: the kernel copies a byte of each page, and tells. */
#include <fcntl.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/base.h"
#include "readable.h"

#define PAGES_AT_ONCE 1024 /* IOV_MAX of Linux; so many bytes always fit into a pipe */

/* Copies the first byte of each page, through a pipe. Returns whether all could be copied. */
static bool pages_copied(const int fds[2], const char *first, size_t size, size_t page)
{
	struct iovec iov[PAGES_AT_ONCE];
	char bytes[PAGES_AT_ONCE];
	ssize_t count = 0;

	for (size_t at = 0; at < size && count < PAGES_AT_ONCE; at += page)
		iov[count++] = (struct iovec){ (void *)(uintptr_t)(first + at), 1 };
	return writev(fds[1], iov, (int)count) == count &&
	       read(fds[0], bytes, (size_t)count) == count;
}

bool memory_is_readable(const void *address, size_t size)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), stride = PAGES_AT_ONCE * page;
	const size_t into_page = (uintptr_t)address % page;
	const char *first = (const char *)address - into_page;
	bool readable = true;
	int fds[2];

	size += into_page;
	if (pipe2(fds, O_CLOEXEC))
		return true;
	for (size_t at = 0; readable && at < size; at += stride)
		readable = pages_copied(fds, first + at, min_u64(stride, size - at), page);
	close(fds[0]);
	close(fds[1]);
	return readable;
}
