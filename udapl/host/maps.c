/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * /proc/self/maps. Since Linux 6.11 it answers for one address with PROCMAP_QUERY, in a time that
 * does not depend on how much is mapped. Before that it is text, one line an area, read from the
 * beginning.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "maps.h"

/* One mapped area. */
struct maps_area {
	uintptr_t start, end;
	bool may_read, may_write, shared;
	struct backing backing; /* of the byte at start */
};

/* An iteration over the areas that hold a span, in ascending order. */
struct maps_walk {
	int fd;
	FILE *text; /* NULL while the kernel answers queries */
	char *line;
	size_t size;
	uintptr_t next, last; /* the first byte not seen yet; the last byte of the span */
	bool covered;	      /* all of the span has been seen */
};

/* SysV shared memory has a name of this form, and no file. */
static bool name_is_sysv(const char *name)
{
	return strncmp(name, "/SYSV", 5) == 0;
}

/* ---- one query an area: proc_pid_maps(5), linux/fs.h ---- */

/* The headers of older systems lack it. */
struct maps_query {
	uint64_t size, flags, address;				   /* in */
	uint64_t start, end, area_flags, page_size, offset, inode; /* out */
	uint32_t major, minor;
	uint32_t name_size, build_id_size; /* in: space */
	uint64_t name, build_id;
};

#define MAPS_QUERY	   _IOWR('f', 17, struct maps_query)
#define MAPS_AREA_READABLE 0x1
#define MAPS_AREA_WRITABLE 0x2
#define MAPS_AREA_SHARED   0x8

/*
 * Asks for the area of that address, or the next one. Returns 0; -ENOENT if nothing is mapped
 * there; another error if the kernel does not answer queries.
 */
static int area_query(int fd, uintptr_t address, struct maps_area *area)
{
	char name[64]; /* longer than any name of SysV shared memory */
	struct maps_query query = {
		.size = sizeof(query),
		.address = address,
		.name_size = sizeof(name),
		.name = (uintptr_t)name,
	};

	name[0] = '\0';
	if (ioctl(fd, MAPS_QUERY, &query)) {
		if (errno != ENAMETOOLONG)
			return -errno;
		query.name_size = 0;
		query.name = 0;
		if (ioctl(fd, MAPS_QUERY, &query))
			return -errno;
	}
	*area = (struct maps_area){
		.start = query.start,
		.end = query.end,
		.may_read = query.area_flags & MAPS_AREA_READABLE,
		.may_write = query.area_flags & MAPS_AREA_WRITABLE,
		.shared = query.area_flags & MAPS_AREA_SHARED,
		.backing = {
			.major = query.major,
			.minor = query.minor,
			.inode = query.inode,
			.sysv = name_is_sysv(name),
			.offset = query.offset,
		},
	};
	return 0;
}

/* ---- the text ---- */

/* Reads a line of the text. Returns false if it is none that we know. */
static bool area_parse(const char *line, struct maps_area *area)
{
	char may_read, may_write, shared;
	int path = 0;

	if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %c%c%*c%c %" SCNx64 " %x:%x %" SCNu64 " %n",
		   &area->start, &area->end, &may_read, &may_write, &shared, &area->backing.offset,
		   &area->backing.major, &area->backing.minor, &area->backing.inode, &path) != 9)
		return false;
	area->may_read = may_read == 'r';
	area->may_write = may_write == 'w';
	area->shared = shared == 's';
	area->backing.sysv = name_is_sysv(line + path);
	return true;
}

/* Reads on to the first area that ends behind walk->next. Returns false if there is none. */
static bool area_read(struct maps_walk *walk, struct maps_area *area)
{
	while (getline(&walk->line, &walk->size, walk->text) > 0)
		if (area_parse(walk->line, area) && area->end > walk->next)
			return true;
	return false;
}

/* ---- the walk ---- */

static int walk_start(struct maps_walk *walk, const struct span *span)
{
	*walk = (struct maps_walk){
		.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC),
		.next = (uintptr_t)span->address,
		.last = (uintptr_t)span->address + span->length - 1,
	};
	return walk->fd >= 0 ? 0 : -errno;
}

static void walk_end(struct maps_walk *walk)
{
	free(walk->line);
	if (walk->text)
		fclose(walk->text);
	else
		close(walk->fd);
}

/* Finds the area of walk->next, or of an address behind it. Returns false if there is none. */
static bool walk_find(struct maps_walk *walk, struct maps_area *area)
{
	int err;

	if (!walk->text) {
		err = area_query(walk->fd, walk->next, area);
		if (err == 0 || err == -ENOENT)
			return err == 0;
		walk->text = fdopen(walk->fd, "r");
	}
	return walk->text && area_read(walk, area);
}

/*
 * Goes on to the next area with bytes of the span. Returns false at the end, and at a hole: then
 * the span is not covered.
 */
static bool walk_next(struct maps_walk *walk, struct maps_area *area)
{
	if (walk->covered || !walk_find(walk, area) || area->start > walk->next)
		return false;
	walk->next = area->end;
	walk->covered = area->end > walk->last;
	return true;
}

/* ---- what the core asks ---- */

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

bool backing_same(const struct backing *a, const struct backing *b)
{
	return a->major == b->major && a->minor == b->minor && a->inode == b->inode &&
	       a->sysv == b->sysv && a->offset == b->offset;
}

int backing_of(const struct span *span, struct backing *backing)
{
	struct maps_walk walk;
	struct maps_area area;
	bool first = true, one = true;
	int err = walk_start(&walk, span);

	if (err)
		return err;
	while (one && walk_next(&walk, &area)) {
		/* of the span's first byte, by this area; both addresses with 64 bits */
		area.backing.offset += (uint64_t)(uintptr_t)span->address;
		area.backing.offset -= (uint64_t)area.start;
		if (first)
			*backing = area.backing;
		one = area.shared && backing_same(backing, &area.backing);
		first = false;
	}
	walk_end(&walk);
	return one && walk.covered ? 0 : -EINVAL;
}
