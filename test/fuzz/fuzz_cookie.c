/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gives cookies any bytes, for memory of all kinds, and compares the results with what the manual
 * says of them: a cookie stands for one piece of shared memory as long as it is used.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/memory.h"
#include "fuzz.h"

enum { NAMES = 3, USES = 16, SHARED_PAGES = 2 };

/* Two objects of shared memory, each of two pages, and one that is not shared. */
static char *shared[2], *private;
static size_t page;

/* The cookies of an input, equal or not, and who uses which of them for what. */
static char names[NAMES][DAT_LMR_COOKIE_SIZE];
static struct use {
	struct cookie *cookie; /* NULL: none */
	unsigned name;
	struct span span;
} uses[USES];

static void *map_pages(int flags)
{
	void *pages = mmap(NULL, SHARED_PAGES * page, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS,
			   -1, 0);

	require(pages != MAP_FAILED);
	return pages;
}

static void memory_make(void)
{
	if (private)
		return;
	/* as the core's calls */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	page = (size_t)sysconf(_SC_PAGESIZE);
	for (unsigned i = 0; i < 2; i++)
		shared[i] = map_pages(MAP_SHARED);
	private = map_pages(MAP_PRIVATE);
}

/* The range that a byte stands for: one of three objects, where it begins, and its length. */
static struct span span_of(unsigned byte)
{
	char *const objects[] = { shared[0], shared[1], private, private };
	const size_t at = byte & 4 ? page : 0, length = byte & 8 ? 1 : byte & 16 ? page + 1 : page;

	return (struct span){ objects[byte & 3] + at, length };
}

static bool span_is_shared(const struct span *span)
{
	for (unsigned i = 0; i < 2; i++)
		if (span->address >= shared[i] &&
		    span->address + span->length <= shared[i] + SHARED_PAGES * page)
			return true;
	return false;
}

static const struct use *use_of(unsigned name)
{
	for (unsigned i = 0; i < USES; i++)
		if (uses[i].cookie && !memcmp(names[uses[i].name], names[name], sizeof(*names)))
			return &uses[i];
	return NULL;
}

static void use_begin(struct use *use, unsigned name, unsigned byte)
{
	const struct use *other = use_of(name);
	const struct span span = span_of(byte);
	struct cookie *cookie = NULL;
	bool fits = !other ||
		    (other->span.address == span.address && other->span.length == span.length);
	DAT_RETURN ret = cookie_get(&names[name], &span, &cookie);

	if (!span_is_shared(&span) || !fits) {
		require(ret == DAT_ERROR(DAT_INVALID_STATE, DAT_NO_SUBTYPE) && !cookie);
		return;
	}
	require(ret == DAT_SUCCESS && cookie && (!other || other->cookie == cookie));
	require(!memcmp(cookie_bytes(cookie), names[name], sizeof(*names)));
	*use = (struct use){ .cookie = cookie, .name = name, .span = span };
}

static void use_end(struct use *use)
{
	if (use->cookie)
		cookie_put(use->cookie);
	use->cookie = NULL;
}

/* A name is some bytes of the input, at the end of the cookie: all of them count. */
static void names_read(struct fuzz_input *input)
{
	memset(names, 0, sizeof(names));
	for (unsigned i = 0; i < NAMES; i++) {
		const uint8_t *bytes;
		unsigned size = fuzz_bytes(input, sizeof(*names), &bytes);

		if (size)
			memcpy(names[i] + sizeof(*names) - size, bytes, size);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = { data, size };

	memory_make();
	names_read(&input);
	while (input.left) {
		unsigned step = fuzz_byte(&input);
		struct use *use = &uses[step % USES];

		if (use->cookie)
			use_end(use);
		else
			use_begin(use, step / USES % NAMES, fuzz_byte(&input));
	}
	for (unsigned i = 0; i < USES; i++)
		use_end(&uses[i]);
	return 0;
}
