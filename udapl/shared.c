/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a range of memory is mapped, and the cookies by which processes name the memory that they
 * share.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "udapl.h"

/* ---- /proc/self/maps ---- */

/* What is mapped: the same for all processes that share it. */
struct backing {
	unsigned major, minor; /* of the device */
	unsigned long inode;
	bool sysv; /* its inode numbers are not those of files on the same device */
	uint64_t offset;
};

/* One line of the file. */
struct maps_area {
	uintptr_t start, end;
	bool may_read, may_write, shared;
	struct backing backing; /* of the byte at start */
};

/* An iteration over the areas that hold a span; the file has them in ascending order. */
struct maps_walk {
	FILE *file;
	char *line;
	size_t size;
	uintptr_t next, last; /* the first byte not seen yet; the last byte of the span */
	bool covered;	      /* all of the span has been seen */
};

static int walk_start(struct maps_walk *walk, const struct span *span)
{
	*walk = (struct maps_walk){
		.file = fopen("/proc/self/maps", "re"),
		.next = (uintptr_t)span->address,
		.last = (uintptr_t)span->address + span->length - 1,
	};
	return walk->file ? 0 : -errno;
}

static void walk_end(struct maps_walk *walk)
{
	free(walk->line);
	fclose(walk->file);
}

static bool area_parse(const char *line, struct maps_area *area)
{
	char may_read, may_write, shared;
	unsigned long offset;
	int path = 0;

	if (sscanf(line, "%lx-%lx %c%c%*c%c %lx %x:%x %lu %n", &area->start, &area->end, &may_read,
		   &may_write, &shared, &offset, &area->backing.major, &area->backing.minor,
		   &area->backing.inode, &path) != 9)
		return false;
	area->may_read = may_read == 'r';
	area->may_write = may_write == 'w';
	area->shared = shared == 's';
	area->backing.sysv = strncmp(line + path, "/SYSV", 5) == 0;
	area->backing.offset = offset;
	return true;
}

/*
 * The next area with bytes of the span. False at the end, and at a hole: then the span is not
 * covered.
 */
static bool walk_next(struct maps_walk *walk, struct maps_area *area)
{
	while (!walk->covered && getline(&walk->line, &walk->size, walk->file) > 0) {
		if (!area_parse(walk->line, area) || area->end <= walk->next)
			continue;
		if (area->start > walk->next)
			return false;
		walk->next = area->end;
		walk->covered = area->end > walk->last;
		return true;
	}
	return false;
}

enum mapping mapping_of(const struct span *span)
{
	enum mapping mapping = MAPPING_WRITABLE;
	struct maps_walk walk;
	struct maps_area area;

	if (walk_start(&walk, span))
		return MAPPING_UNKNOWN;
	while (walk_next(&walk, &area)) {
		if (!area.may_read) {
			walk.covered = false;
			break;
		}
		if (!area.may_write)
			mapping = MAPPING_READONLY;
	}
	walk_end(&walk);
	return walk.covered ? mapping : MAPPING_HOLES;
}

static bool same_backing(const struct backing *a, const struct backing *b)
{
	return a->major == b->major && a->minor == b->minor && a->inode == b->inode &&
	       a->sysv == b->sysv && a->offset == b->offset;
}

/* What the span maps, if it is one piece of one shared object. -EINVAL: it is not. */
static int backing_of(const struct span *span, struct backing *backing)
{
	struct maps_walk walk;
	struct maps_area area;
	bool first = true, one = true;
	int err = walk_start(&walk, span);

	if (err)
		return err;
	while (one && walk_next(&walk, &area)) {
		/* of the span's first byte, by this area */
		area.backing.offset += (uintptr_t)span->address - area.start;
		if (first)
			*backing = area.backing;
		one = area.shared && same_backing(backing, &area.backing);
		first = false;
	}
	walk_end(&walk);
	return one && walk.covered ? 0 : -EINVAL;
}

/* ---- cookies ---- */

struct cookie {
	struct cookie *next;
	unsigned users; /* LMRs */
	char bytes[DAT_LMR_COOKIE_SIZE];
	struct backing backing;
	size_t length;
};

static struct mutex cookie_lock = MUTEX_INITIALIZER(RANK_COOKIES, "cookie_lock");
static struct cookie *cookies; /* cookie_lock, and so are their contents */

/* A cookie is not a string: all its bytes are compared. */
static struct cookie *cookie_find_locked(DAT_LMR_COOKIE bytes)
{
	struct cookie *cookie = cookies;

	assert_locked(&cookie_lock);
	while (cookie && memcmp(cookie->bytes, *bytes, sizeof(cookie->bytes)) != 0)
		cookie = cookie->next;
	return cookie;
}

static struct cookie *cookie_add_locked(DAT_LMR_COOKIE bytes, const struct backing *backing,
					size_t length)
{
	struct cookie *cookie = calloc(1, sizeof(*cookie));

	assert_locked(&cookie_lock);
	if (!cookie)
		return NULL;
	memcpy(cookie->bytes, *bytes, sizeof(cookie->bytes));
	cookie->backing = *backing;
	cookie->length = length;
	cookie->next = cookies;
	cookies = cookie;
	return cookie;
}

/*
 * Memory is shared if /proc/self/maps says so of all its areas, and they map one piece of one
 * object. That equal cookies name the same piece is checked within the process: other processes
 * can't be asked. Source: uDAPL 1.2; what makes an object the same is our choice.
 */
DAT_RETURN cookie_get(DAT_LMR_COOKIE bytes, const struct span *span, struct cookie **cookie_out)
{
	struct cookie *cookie;
	struct backing backing;
	DAT_RETURN ret = DAT_SUCCESS;
	int err = backing_of(span, &backing);

	if (err == -EINVAL) {
		log_util("%zu bytes at %p are not one piece of shared memory", span->length,
			 (void *)span->address);
		return DAT_ERROR(DAT_INVALID_STATE, DAT_NO_SUBTYPE);
	}
	if (err)
		return status_of(err, DAT_RESOURCE_MEMORY);
	mutex_lock(&cookie_lock);
	cookie = cookie_find_locked(bytes);
	if (cookie && (!same_backing(&cookie->backing, &backing) || cookie->length != span->length))
		ret = DAT_ERROR(DAT_INVALID_STATE, DAT_NO_SUBTYPE);
	if (!cookie)
		cookie = cookie_add_locked(bytes, &backing, span->length);
	if (!cookie)
		ret = NO_RESOURCE(MEMORY);
	if (ret == DAT_SUCCESS)
		cookie->users++;
	mutex_unlock(&cookie_lock);
	if (ret == DAT_SUCCESS)
		*cookie_out = cookie;
	return ret;
}

void cookie_put(struct cookie *cookie)
{
	struct cookie **at = &cookies;
	bool last;

	mutex_lock(&cookie_lock);
	last = --cookie->users == 0;
	if (last) {
		while (*at != cookie)
			at = &(*at)->next;
		*at = cookie->next;
	}
	mutex_unlock(&cookie_lock);
	if (last)
		free(cookie);
}

DAT_LMR_COOKIE cookie_bytes(struct cookie *cookie)
{
	return &cookie->bytes;
}
