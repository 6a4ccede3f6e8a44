/* SPDX-License-Identifier: BSD-2-Clause */
/* Cookies: the names by which processes share memory. */
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

struct cookie {
	char bytes[DAT_LMR_COOKIE_SIZE];
	unsigned users; /* LMRs */
	struct backing backing;
	size_t length;
};

static struct mutex cookie_lock = MUTEX_INITIALIZER(RANK_COOKIES, "cookie_lock");
static void *cookies; /* cookie_lock, and so are their contents; a tree of tsearch(3) */

void cookies_after_fork(void)
{
	mutex_after_fork(&cookie_lock);
	cookies = NULL; /* those of the parent's LMRs */
}

/* A cookie is not a string: all its bytes are compared. They are its first member. */
static int cookie_compare(const void *a, const void *b)
{
	return memcmp(a, b, DAT_LMR_COOKIE_SIZE);
}

static struct cookie *cookie_find_locked(DAT_LMR_COOKIE bytes)
{
	struct cookie **node = tfind(*bytes, &cookies, cookie_compare);

	assert_locked(&cookie_lock);
	return node ? *node : NULL;
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
	if (!tsearch(cookie, &cookies, cookie_compare)) {
		free(cookie);
		return NULL;
	}
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
	if (cookie && (!backing_same(&cookie->backing, &backing) || cookie->length != span->length))
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
	bool last;

	mutex_lock(&cookie_lock);
	last = --cookie->users == 0;
	if (last)
		tdelete(cookie, &cookies, cookie_compare);
	mutex_unlock(&cookie_lock);
	if (last)
		free(cookie);
}

DAT_LMR_COOKIE cookie_bytes(struct cookie *cookie)
{
	return &cookie->bytes;
}
