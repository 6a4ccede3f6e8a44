/* SPDX-License-Identifier: BSD-2-Clause */
/* A provider without a device, to be loaded by the registry under test. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default)
#include "mock_provider.h"
#include <dat/dat_registry.h>
#pragma GCC visibility pop

struct mock mock;

/* One of the names served. They are few, and stay. */
struct name {
	DAT_PROVIDER table;
	DAT_PROVIDER_INFO info;
	char params[256];
	bool running; /* lock; between init and fini */
	bool used;    /* lock */
};

struct ia {
	DAT_PROVIDER *provider;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct name names[8]; /* lock */

static bool asks_for(const struct name *name, const char *word)
{
	const char *found = strstr(name->params, word);

	return found && (found[strlen(word)] == ' ' || found[strlen(word)] == '\0');
}

/* ia_open is told no more than the name, so it takes the one that runs. */
static struct name *find_running_locked(const char *ia_name)
{
	for (int i = 0; i < 8; i++)
		if (names[i].running && strcmp(names[i].info.ia_name, ia_name) == 0)
			return &names[i];
	return NULL;
}

static bool is_aware(void)
{
	int (*ask)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "datx_ia_open_ro_aware");

	return ask && ask();
}

static DAT_RETURN open_ia(const DAT_NAME_PTR ia_name, DAT_COUNT qlen, DAT_EVD_HANDLE *evd,
			  DAT_IA_HANDLE *handle)
{
	struct name *name;
	struct ia *ia;

	pthread_mutex_lock(&lock);
	name = find_running_locked(ia_name);
	if (!name)
		mock.wrong++;
	strcpy(mock.name, ia_name);
	mock.ro_aware = is_aware();
	mock.qlen = qlen;
	pthread_mutex_unlock(&lock);
	if (!name)
		return DAT_CLASS_ERROR | DAT_INTERNAL_ERROR;
	if (asks_for(name, "sick")) {
		*evd = MOCK_ASYNC_EVD;
		*handle = names;
		return DAT_CLASS_ERROR | DAT_INSUFFICIENT_RESOURCES | 3U /* the device */;
	}
	*evd = MOCK_ASYNC_EVD;
	if (asks_for(name, "blank"))
		return DAT_SUCCESS;
	ia = malloc(sizeof(*ia));
	if (!ia)
		abort();
	ia->provider = &name->table;
	*handle = ia;
	mock.opens++;
	return DAT_SUCCESS;
}

static DAT_RETURN close_ia(DAT_IA_HANDLE handle, DAT_CLOSE_FLAGS flags)
{
	if (flags == DAT_CLOSE_GRACEFUL_FLAG)
		return DAT_CLASS_ERROR | DAT_INVALID_STATE | 79U /* in use */;
	free(handle);
	mock.closes++;
	return DAT_SUCCESS;
}

/* The name with this key, now served if it was not. */
static struct name *get(const DAT_PROVIDER_INFO *info)
{
	struct name *name = names;

	pthread_mutex_lock(&lock);
	while (name->used && memcmp(&name->info, info, sizeof(*info)) != 0)
		if (++name == names + 8)
			abort();
	name->used = true;
	name->info = *info;
	name->table.device_name = name->info.ia_name;
	name->table.ia_open_func = open_ia;
	name->table.ia_close_func = close_ia;
	pthread_mutex_unlock(&lock);
	return name;
}

static void pass_gate(void)
{
	sem_post(&mock.entered);
	while (sem_wait(&mock.leave) != 0)
		;
}

/* What a provider's entry points may call. */
static void call_back(const DAT_PROVIDER_INFO *info)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;

	mock.own = dat_ia_open((char *)info->ia_name, 8, &evd, &ia);
	dat_registry_list_providers(0, &mock.listed, NULL);
	evd = DAT_HANDLE_NULL;
	mock.other = dat_ia_open((char *)"other", 8, &evd, &ia);
	if (mock.other == DAT_SUCCESS)
		mock.other = dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
}

void dat_provider_init(const DAT_PROVIDER_INFO *info, const char *params)
{
	struct name *name = get(info);

	mock.inits++;
	pthread_mutex_lock(&lock);
	if (name->running)
		mock.wrong++;
	name->running = true;
	strncpy(name->params, params, sizeof(name->params) - 1);
	strcpy(mock.params, name->params);
	pthread_mutex_unlock(&lock);
	if (asks_for(name, "gate"))
		pass_gate();
	if (asks_for(name, "nested"))
		call_back(info);
	if (!asks_for(name, "mute"))
		dat_registry_add_provider(&name->table, info);
}

void dat_provider_fini(const DAT_PROVIDER_INFO *info)
{
	struct name *name = get(info);

	mock.finis++;
	if (asks_for(name, "gate2"))
		pass_gate();
	if (asks_for(name, "nested"))
		call_back(info);
	if (!asks_for(name, "mute") && !asks_for(name, "clingy") &&
	    dat_registry_remove_provider(&name->table, info) != DAT_SUCCESS)
		mock.wrong++;
	pthread_mutex_lock(&lock);
	if (!name->running)
		mock.wrong++;
	name->running = false;
	pthread_mutex_unlock(&lock);
}

static void __attribute__((constructor)) prepare(void)
{
	DAT_PROVIDER_INFO info = { "", 1, 2, DAT_FALSE };
	const char *by_itself = getenv("MOCK_REGISTERS");
	struct name *name;

	sem_init(&mock.entered, 0, 0);
	sem_init(&mock.leave, 0, 0);
	if (!by_itself)
		return;
	strcpy(info.ia_name, by_itself);
	name = get(&info);
	name->running = true;
	dat_registry_add_provider(&name->table, &info);
}
