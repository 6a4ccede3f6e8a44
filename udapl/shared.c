/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the system says of a range of memory, and the cookies by which processes name the memory
 * that they share.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "udapl.h"

/* ---- the system's list of areas ---- */

/* Where bytes really are: the same for all processes that share them. */
struct place {
	unsigned major, minor; /* of the device */
	unsigned long inode;
	bool sysv; /* numbered apart from the files of the same internal device */
	uint64_t offset;
};

/* One line of the list. */
struct area {
	uintptr_t start, end;
	bool may_read, may_write, shared;
	struct place place; /* of start */
};

/* A walk along the areas that hold a span; they are listed in ascending order. */
struct walk {
	FILE *file;
	char *line;
	size_t size;
	uintptr_t next, last; /* all below next has been seen; the last byte of interest */
	bool covered;	      /* all of it has been seen */
};

static int walk_start(struct walk *walk, const struct span *span)
{
	*walk = (struct walk){
		.file = fopen("/proc/self/maps", "re"),
		.next = (uintptr_t)span->address,
		.last = (uintptr_t)span->address + span->length - 1,
	};
	return walk->file ? 0 : -errno;
}

static void walk_end(struct walk *walk)
{
	free(walk->line);
	fclose(walk->file);
}

static bool area_parse(const char *line, struct area *area)
{
	char may_read, may_write, shared;
	unsigned long offset;
	int path = 0;

	if (sscanf(line, "%lx-%lx %c%c%*c%c %lx %x:%x %lu %n", &area->start, &area->end, &may_read,
		   &may_write, &shared, &offset, &area->place.major, &area->place.minor,
		   &area->place.inode, &path) != 9)
		return false;
	area->may_read = may_read == 'r';
	area->may_write = may_write == 'w';
	area->shared = shared == 's';
	area->place.sysv = strncmp(line + path, "/SYSV", 5) == 0;
	area->place.offset = offset;
	return true;
}

/*
 * The next area with bytes of the span. False at the end, and at a hole: then the span is not
 * covered.
 */
static bool walk_next(struct walk *walk, struct area *area)
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
	struct walk walk;
	struct area area;

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

static bool same_place(const struct place *a, const struct place *b)
{
	return a->major == b->major && a->minor == b->minor && a->inode == b->inode &&
	       a->sysv == b->sysv && a->offset == b->offset;
}

/*
 * Where the span begins, if it is one piece of one object that may be shared. -EINVAL: it is not.
 */
static int place_of(const struct span *span, struct place *place)
{
	struct walk walk;
	struct area area;
	bool first = true, one = true;
	int err = walk_start(&walk, span);

	if (err)
		return err;
	while (one && walk_next(&walk, &area)) {
		/* of the span's first byte, by this area */
		area.place.offset += (uintptr_t)span->address - area.start;
		if (first)
			*place = area.place;
		one = area.shared && same_place(place, &area.place);
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
	struct place place;
	size_t length;
};

static struct mutex lock = MUTEX_INITIALIZER(RANK_COOKIES, "cookies"); /* a leaf */
static struct cookie *cookies; /* lock, as is what is in them */

/* Text is not what a cookie is: all bytes count. */
static struct cookie *find_locked(DAT_LMR_COOKIE bytes)
{
	struct cookie *cookie = cookies;

	while (cookie && memcmp(cookie->bytes, *bytes, sizeof(cookie->bytes)) != 0)
		cookie = cookie->next;
	return cookie;
}

static struct cookie *add_locked(DAT_LMR_COOKIE bytes, const struct place *place, size_t length)
{
	struct cookie *cookie = calloc(1, sizeof(*cookie));

	if (!cookie)
		return NULL;
	memcpy(cookie->bytes, *bytes, sizeof(cookie->bytes));
	cookie->place = *place;
	cookie->length = length;
	cookie->next = cookies;
	cookies = cookie;
	return cookie;
}

/*
 * Shared is what the system lists so, as one piece of one object. That equal cookies name the same
 * piece is checked within the process: of others we know nothing. Source: uDAPL 1.2; what makes an
 * object the same is our choice.
 */
DAT_RETURN cookie_get(DAT_LMR_COOKIE bytes, const struct span *span, struct cookie **cookie_out)
{
	struct cookie *cookie;
	struct place place;
	DAT_RETURN ret = DAT_SUCCESS;
	int err = place_of(span, &place);

	if (err == -EINVAL) {
		log_util("%zu bytes at %p are not one piece of shared memory", span->length,
			 (void *)span->address);
		return DAT_ERROR(DAT_INVALID_STATE, DAT_NO_SUBTYPE);
	}
	if (err)
		return status_of(err, DAT_RESOURCE_MEMORY);
	mutex_lock(&lock);
	cookie = find_locked(bytes);
	if (cookie && (!same_place(&cookie->place, &place) || cookie->length != span->length))
		ret = DAT_ERROR(DAT_INVALID_STATE, DAT_NO_SUBTYPE);
	if (!cookie)
		cookie = add_locked(bytes, &place, span->length);
	if (!cookie)
		ret = NO_RESOURCE(MEMORY);
	if (ret == DAT_SUCCESS)
		cookie->users++;
	mutex_unlock(&lock);
	if (ret == DAT_SUCCESS)
		*cookie_out = cookie;
	return ret;
}

void cookie_put(struct cookie *cookie)
{
	struct cookie **at = &cookies;
	bool last;

	mutex_lock(&lock);
	last = --cookie->users == 0;
	if (last) {
		while (*at != cookie)
			at = &(*at)->next;
		*at = cookie->next;
	}
	mutex_unlock(&lock);
	if (last)
		free(cookie);
}

DAT_LMR_COOKIE cookie_bytes(struct cookie *cookie)
{
	return &cookie->bytes;
}
