/* SPDX-License-Identifier: BSD-2-Clause */
/* The names an IA can be opened by: those dat.conf promises, and those providers registered. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf.h"
#include "libdat.h"
#include "log.h"

#define SYSTEM_CONF "/etc/dat.conf"

struct registry registry = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.idle = PTHREAD_COND_INITIALIZER,
};

/* How much of a key a candidate has, in the order in which a miss is explained. */
enum match {
	MATCH_NOTHING,
	MATCH_NAME,
	MATCH_MAJOR,
	MATCH_MINOR,
	MATCH_KEY,
};

static enum match match(const DAT_PROVIDER_INFO *have, const DAT_PROVIDER_INFO *want)
{
	if (strcmp(have->ia_name, want->ia_name) != 0)
		return MATCH_NOTHING;
	if (have->dapl_version_major != want->dapl_version_major)
		return MATCH_NAME;
	if (have->dapl_version_minor < want->dapl_version_minor)
		return MATCH_MAJOR;
	if (!have->is_thread_safe != !want->is_thread_safe)
		return MATCH_MINOR;
	return MATCH_KEY;
}

static bool same_key(const DAT_PROVIDER_INFO *a, const DAT_PROVIDER_INFO *b)
{
	return match(a, b) == MATCH_KEY && a->dapl_version_minor == b->dapl_version_minor;
}

static bool is_better(const DAT_PROVIDER_INFO *have, const DAT_PROVIDER_INFO *than,
		      const DAT_PROVIDER_INFO *want)
{
	return match(have, want) == MATCH_KEY &&
	       (!than || have->dapl_version_minor < than->dapl_version_minor);
}

struct entry *registry_entry_locked(const DAT_PROVIDER_INFO *want)
{
	struct entry *best = NULL;

	for (struct entry *entry = registry.entries; entry; entry = entry->next)
		if (is_better(&entry->info, best ? &best->info : NULL, want))
			best = entry;
	return best;
}

struct provider *registry_provider_locked(const DAT_PROVIDER_INFO *want, const struct entry *entry)
{
	struct provider *best = NULL;

	for (struct provider *provider = registry.providers; provider; provider = provider->next)
		if ((!provider->entry || provider->entry == entry) &&
		    is_better(&provider->info, best ? &best->info : NULL, want))
			best = provider;
	return best;
}

bool registry_names_locked(const char *name)
{
	for (const struct entry *entry = registry.entries; entry; entry = entry->next)
		if (strcmp(entry->info.ia_name, name) == 0)
			return true;
	for (const struct provider *provider = registry.providers; provider;
	     provider = provider->next)
		if (strcmp(provider->info.ia_name, name) == 0)
			return true;
	return false;
}

DAT_RETURN registry_miss_locked(const DAT_PROVIDER_INFO *want)
{
	static const DAT_RETURN_SUBTYPE reasons[] = {
		[MATCH_NOTHING] = DAT_NAME_NOT_REGISTERED,
		[MATCH_NAME] = DAT_MAJOR_NOT_FOUND,
		[MATCH_MAJOR] = DAT_MINOR_NOT_FOUND,
		[MATCH_MINOR] = DAT_THREAD_SAFETY_NOT_FOUND,
		/* promised, but its library did not register it */
		[MATCH_KEY] = DAT_NAME_NOT_REGISTERED,
	};
	enum match best = MATCH_NOTHING, found;

	for (const struct entry *entry = registry.entries; entry; entry = entry->next) {
		found = match(&entry->info, want);
		best = found > best ? found : best;
	}
	for (const struct provider *provider = registry.providers; provider;
	     provider = provider->next) {
		found = match(&provider->info, want);
		best = found > best ? found : best;
	}
	return DAT_ERROR(DAT_PROVIDER_NOT_FOUND, reasons[best]);
}

static struct entry *exact_entry_locked(const DAT_PROVIDER_INFO *info)
{
	for (struct entry *entry = registry.entries; entry; entry = entry->next)
		if (same_key(&entry->info, info))
			return entry;
	return NULL;
}

/*
 * Where the pointer to the provider with this key is kept; to the NULL at the list's end if there
 * is none.
 */
static struct provider **exact_provider_locked(const DAT_PROVIDER_INFO *info)
{
	struct provider **link = &registry.providers;

	while (*link && !same_key(&(*link)->info, info))
		link = &(*link)->next;
	return link;
}

static void unlink_provider_locked(struct provider **link)
{
	struct provider *provider = *link;

	*link = provider->next;
	free(provider);
}

void registry_disown_locked(const struct entry *entry)
{
	struct provider **link = &registry.providers;

	while (*link) {
		if ((*link)->entry == entry && (*link)->users == 0)
			unlink_provider_locked(link);
		else
			link = &(*link)->next;
	}
}

/* A file being read into the registry. */
struct reading {
	const char *path;
	struct entry **end; /* where the next key goes */
};

static struct entry *new_entry(const DAT_PROVIDER_INFO *info, struct reading *reading)
{
	struct entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return NULL;
	entry->info = *info;
	*reading->end = entry;
	reading->end = &entry->next;
	return entry;
}

static void add_line(void *arg, unsigned line, const struct conf_entry *found)
{
	struct source *source = calloc(1, sizeof(*source));
	struct entry *entry = exact_entry_locked(&found->info);
	struct reading *reading = arg;
	struct source **link;

	if (source && !entry)
		entry = new_entry(&found->info, reading);
	if (!source || !entry) {
		free(source);
		dbg(DBG_ERROR, "%s:%u: no memory for this line", reading->path, line);
		return;
	}
	source->line = line;
	source->library = found->library;
	source->ia_params = found->ia_params;
	for (link = &entry->sources; *link; link = &(*link)->next)
		;
	*link = source;
}

static void refuse_line(void *arg, unsigned line, const char *reason)
{
	const struct reading *reading = arg;

	dbg(DBG_ERROR, "%s:%u: %s", reading->path, line, reason);
}

/* 0 and the file's text, which has room for one byte more; or -errno. */
static int read_text(FILE *file, char **text, size_t *length)
{
	char *larger;
	size_t room = 0;

	do {
		if (*length + 1 >= room) {
			room = room ? 2 * room : 4096;
			larger = realloc(*text, room);
			if (!larger)
				return -ENOMEM;
			*text = larger;
		}
		*length += fread(*text + *length, 1, room - *length - 1, file);
	} while (!feof(file) && !ferror(file));
	return ferror(file) ? -errno : 0;
}

/* 0 or -errno. */
static int read_conf_locked(const char *path)
{
	struct reading reading = { path, &registry.entries };
	struct conf_sink sink = { add_line, refuse_line, &reading };
	FILE *file = fopen(path, "re");
	size_t length = 0;
	int err;

	if (!file)
		return -errno;
	err = read_text(file, &registry.text, &length);
	fclose(file);
	if (err)
		return err;
	dbg(DBG_STATIC, "%s: %zu bytes", path, length);
	conf_parse(registry.text, length, &sink);
	return 0;
}

/*
 * DAT_OVERRIDE names the one file to be read, but not to a program that runs with another's rights.
 */
static void find_conf_locked(void)
{
	static const char *const places[] = { DAT_CONF_DIR "/dat.conf", SYSTEM_CONF };
	const char *override = secure_getenv("DAT_OVERRIDE");
	int err;

	if (override) {
		err = read_conf_locked(override);
		if (err)
			dbg(DBG_ERROR, "DAT_OVERRIDE: cannot read \"%s\": %s", override,
			    strerror(-err));
		return;
	}
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		err = read_conf_locked(places[i]);
		if (!err)
			return;
		/* A machine without RDMA has no such file, and is not to be pestered about it. */
		dbg(err == -ENOENT ? DBG_STATIC : DBG_ERROR, "%s: %s", places[i], strerror(-err));
	}
}

DAT_RETURN registry_enter(void)
{
	pthread_mutex_lock(&registry.lock);
	if (registry.closed) {
		pthread_mutex_unlock(&registry.lock);
		return DAT_ERROR(DAT_INVALID_STATE, DAT_NO_SUBTYPE);
	}
	if (!registry.read) {
		registry.read = true;
		find_conf_locked();
	}
	return DAT_SUCCESS;
}

/* Nothing is freed: other threads may run until the very end. */
static void __attribute__((destructor)) registry_close(void)
{
	pthread_mutex_lock(&registry.lock);
	registry.closed = true;
	pthread_mutex_unlock(&registry.lock);
}

static bool is_named(const DAT_PROVIDER_INFO *info)
{
	size_t length = strnlen(info->ia_name, DAT_NAME_MAX_LENGTH);

	return length > 0 && length < DAT_NAME_MAX_LENGTH;
}

static DAT_RETURN add_locked(struct provider *provider)
{
	struct provider **link = exact_provider_locked(&provider->info);
	struct entry *entry = exact_entry_locked(&provider->info);

	if (registry.closed)
		return DAT_ERROR(DAT_INVALID_STATE, DAT_NO_SUBTYPE);
	if (*link)
		return DAT_ERROR(DAT_PROVIDER_ALREADY_REGISTERED, DAT_NO_SUBTYPE);
	provider->entry = entry && entry->starting ? entry : NULL;
	*link = provider;
	return DAT_SUCCESS;
}

DAT_RETURN dat_registry_add_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info)
{
	struct provider *added;
	DAT_RETURN ret;

	if (!provider)
		return DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
	if (!info || !is_named(info))
		return DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
	added = calloc(1, sizeof(*added));
	if (!added)
		return DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
	added->info = *info;
	added->ia_open = provider->ia_open_func;
	pthread_mutex_lock(&registry.lock);
	ret = add_locked(added);
	pthread_mutex_unlock(&registry.lock);
	dbg(DBG_DYNAMIC, "%s u%u.%u: added: 0x%08x", info->ia_name, info->dapl_version_major,
	    info->dapl_version_minor, ret);
	if (ret != DAT_SUCCESS)
		free(added);
	return ret;
}

static DAT_RETURN remove_locked(const DAT_PROVIDER_INFO *info)
{
	struct provider **link = exact_provider_locked(info);

	if (registry.closed)
		return DAT_ERROR(DAT_INVALID_STATE, DAT_NO_SUBTYPE);
	if (!*link)
		return DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
	if ((*link)->users > 0)
		return DAT_ERROR(DAT_PROVIDER_IN_USE, DAT_NO_SUBTYPE);
	unlink_provider_locked(link);
	return DAT_SUCCESS;
}

DAT_RETURN dat_registry_remove_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info)
{
	DAT_RETURN ret;

	if (!provider)
		return DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
	if (!info || !is_named(info))
		return DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
	pthread_mutex_lock(&registry.lock);
	ret = remove_locked(info);
	pthread_mutex_unlock(&registry.lock);
	dbg(DBG_DYNAMIC, "%s u%u.%u: removed: 0x%08x", info->ia_name, info->dapl_version_major,
	    info->dapl_version_minor, ret);
	return ret;
}

static DAT_COUNT count_entries_locked(void)
{
	DAT_COUNT count = 0;

	for (const struct entry *entry = registry.entries; entry; entry = entry->next)
		count++;
	return count;
}

static DAT_RETURN list_locked(DAT_COUNT max, DAT_COUNT *number, DAT_PROVIDER_INFO **list)
{
	const DAT_COUNT total = count_entries_locked();
	const DAT_COUNT filled = max < total ? max : total;
	const struct entry *entry = registry.entries;

	if (max == 0)
		*number = total;
	if (max <= 0)
		return DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
	/*
	 * No further than needed: programs are about that pass the address of one pointer, and
	 * claim eight.
	 */
	for (DAT_COUNT i = 0; i < filled; i++)
		if (!list[i])
			return DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
	for (DAT_COUNT i = 0; i < filled; i++, entry = entry->next)
		*list[i] = entry->info;
	*number = filled;
	return DAT_SUCCESS;
}

DAT_RETURN dat_registry_list_providers(DAT_COUNT max, DAT_COUNT *number, DAT_PROVIDER_INFO **list)
{
	DAT_RETURN ret;

	if (!number)
		return DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
	if (!list && max > 0)
		return DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
	ret = registry_enter();
	if (ret != DAT_SUCCESS)
		return ret;
	ret = list_locked(max, number, list);
	pthread_mutex_unlock(&registry.lock);
	return ret;
}
