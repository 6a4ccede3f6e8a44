/* SPDX-License-Identifier: BSD-2-Clause */
/* The names of IAs that dat_provider_init announced. */
#include <stdlib.h>
#include <string.h>

#include "entry.h"

static struct mutex provider_lock = MUTEX_INITIALIZER(RANK_PROVIDERS, "provider_lock");
static struct provider *providers; /* provider_lock; the latest announced first */
static bool providers_are_lost;	   /* written when a child of fork(2) begins; see there */

/*
 * A change that a missing thread had begun is lost; each step of one leaves a list that can be
 * read.
 */
void providers_after_fork(bool lost)
{
	mutex_after_fork(&provider_lock);
	providers_are_lost = lost;
}

static bool same_name_and_version(const DAT_PROVIDER_INFO *a, const DAT_PROVIDER_INFO *b)
{
	return strncmp(a->ia_name, b->ia_name, DAT_NAME_MAX_LENGTH) == 0 &&
	       a->dapl_version_major == b->dapl_version_major &&
	       a->dapl_version_minor == b->dapl_version_minor &&
	       !a->is_thread_safe == !b->is_thread_safe;
}

/* Removes a name from the list. Returns NULL if it was never announced. */
static struct provider *provider_unlink_locked(const DAT_PROVIDER_INFO *info)
{
	struct provider **at = &providers, *provider;

	assert_locked(&provider_lock);
	while (*at && !same_name_and_version(&(*at)->info, info))
		at = &(*at)->next;
	provider = *at;
	if (provider)
		*at = provider->next;
	return provider;
}

/* What the table of every edition of DAT begins with. */
struct table_head {
	const char *device_name;
	void *extension; /* leads back to the name */
};

_Static_assert(offsetof(struct table_head, device_name) == offsetof(DAT_PROVIDER, device_name) &&
		       offsetof(struct table_head, extension) == offsetof(DAT_PROVIDER, extension),
	       "that is how a registry finds the two");

/* What stands behind a table of DAT 1.2: see edition.h. */
struct table_end {
	uintptr_t words[TABLE_ADDED];
};

#define TABLE_END_SIZE (DAT_EDITION == 1 ? sizeof(struct table_end) : 0)

/* In the numbers of DAT 2.0 it is DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1. */
static DAT_RETURN call_of_dat2(void)
{
	return (DAT_RETURN)(DAT_CLASS_ERROR | (unsigned)DAT_INVALID_HANDLE | 27u);
}

static void table_end_fill(struct table_end *end)
{
	for (unsigned i = 0; i < TABLE_ADDED; i++)
		end->words[i] = (uintptr_t)call_of_dat2;
	end->words[TABLE_MARK_AT] = TABLE_MARK_OF_DAT1;
}

/* The table lies behind the struct. */
static struct provider *provider_new(const DAT_PROVIDER_INFO *info, const void *calls, size_t size)
{
	struct provider *provider = calloc(1, sizeof(*provider) + size + TABLE_END_SIZE);
	struct table_head *table = (struct table_head *)(provider + 1);

	if (!provider)
		return NULL;
	provider->info = *info;
	provider->table = memcpy(table, calls, size);
	table->device_name = provider->info.ia_name;
	table->extension = provider;
	if (TABLE_END_SIZE)
		table_end_fill((struct table_end *)((char *)table + size));
	return provider;
}

/*
 * Puts a name on the list. One that was announced before gets the same struct again, because
 * handles may still lead to its table.
 */
static struct provider *provider_announce_locked(const DAT_PROVIDER_INFO *info, const void *calls,
						 size_t size, char *params)
{
	struct provider *provider = provider_unlink_locked(info);

	assert_locked(&provider_lock);
	if (!provider)
		provider = provider_new(info, calls, size);
	if (!provider)
		return NULL;
	free(provider->params);
	provider->params = params;
	provider->announced = true;
	provider->next = providers;
	providers = provider;
	return provider;
}

struct provider *provider_announce(const DAT_PROVIDER_INFO *info, const void *calls, size_t size,
				   const char *params)
{
	char *copy = strdup(params);
	struct provider *provider = NULL;

	mutex_lock(&provider_lock);
	if (copy)
		provider = provider_announce_locked(info, calls, size, copy);
	mutex_unlock(&provider_lock);
	if (!provider)
		free(copy);
	return provider;
}

struct provider *provider_retract(const DAT_PROVIDER_INFO *info)
{
	struct provider *provider;

	mutex_lock(&provider_lock);
	provider = providers;
	while (provider && !same_name_and_version(&provider->info, info))
		provider = provider->next;
	if (provider)
		provider->announced = false;
	mutex_unlock(&provider_lock);
	return provider;
}

DAT_RETURN provider_find(const char *name, bool thread_safe, struct provider **provider_out,
			 char **params_out)
{
	struct provider *provider;
	char *params = NULL;

	if (providers_are_lost) {
		log_error("this process was forked while another thread was in a call of this "
			  "provider, so it can open no IA");
		return DAT_ERROR(DAT_INVALID_STATE, DAT_NO_SUBTYPE);
	}
	mutex_lock(&provider_lock);
	provider = providers;
	while (provider &&
	       !(provider->announced && !provider->info.is_thread_safe == !thread_safe &&
		 strcmp(provider->info.ia_name, name) == 0))
		provider = provider->next;
	if (provider)
		params = strdup(provider->params);
	mutex_unlock(&provider_lock);
	if (!provider)
		return DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
	if (!params)
		return NO_RESOURCE(MEMORY);
	*provider_out = provider;
	*params_out = params;
	return DAT_SUCCESS;
}
