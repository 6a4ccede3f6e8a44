/* SPDX-License-Identifier: BSD-2-Clause */
/* A provider without a device, which the registry under test loads. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#pragma GCC visibility push(default)
#include "mock_provider.h"
#pragma GCC visibility pop

/* What the registry of this edition has for our providers. */
#if DAT_EDITION == 2
#define OUR_NODE "DATX_2.0"
#else
#define OUR_NODE "DATX_1.0"
#endif

#define ERROR_OF(type, subtype) (DAT_CLASS_ERROR | (DAT_RETURN)(type) | (DAT_RETURN)(subtype))

struct mock mock;

#define MOCK_NAMES 8

/* A name that was initialised at least once; it is never removed. */
struct mock_name {
	DAT_PROVIDER table;
	DAT_PROVIDER_INFO info;
	char params[256];
	bool running; /* lock; between init and fini */
	bool used;    /* lock */
};

struct mock_ia {
	DAT_PROVIDER *provider;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mock_name names[MOCK_NAMES]; /* lock */

static bool has_word(const struct mock_name *name, const char *word)
{
	const char *found = strstr(name->params, word);

	return found && (found[strlen(word)] == ' ' || found[strlen(word)] == '\0');
}

/* ia_open gets the name without the rest of the key, so this finds the one that runs. */
static struct mock_name *running_name_locked(const char *ia_name)
{
	for (int i = 0; i < MOCK_NAMES; i++)
		if (names[i].running && strcmp(names[i].info.ia_name, ia_name) == 0)
			return &names[i];
	return NULL;
}

static bool is_ro_aware(void)
{
	int (*ro_aware)(void) = (int (*)(void))dlvsym(RTLD_DEFAULT, "datx_ia_open_ro_aware",
						      OUR_NODE);

	return ro_aware && ro_aware();
}

static const char *conf_line_or_empty(void)
{
	const char *(*line)(void) = (const char *(*)(void))dlvsym(RTLD_DEFAULT, "datx_ia_open_line",
								  OUR_NODE);

	return line && line() ? line() : "";
}

static void mock_block(void)
{
	sem_post(&mock.entered);
	while (sem_wait(&mock.proceed) != 0)
		;
}

/* Records an open of a name, which must run. NULL: it does not. */
static struct mock_name *mock_open_begin(const char *ia_name)
{
	struct mock_name *name;

	pthread_mutex_lock(&lock);
	name = running_name_locked(ia_name);
	if (!name)
		mock.misuses++;
	strcpy(mock.name, ia_name);
	mock.ro_aware = is_ro_aware();
	snprintf(mock.line, sizeof(mock.line), "%s", conf_line_or_empty());
	pthread_mutex_unlock(&lock);
	return name;
}

/* Stores a new IA unless the words of the name say otherwise. */
static DAT_RETURN mock_ia_new(struct mock_name *name, DAT_IA_HANDLE *handle)
{
	struct mock_ia *ia;

	if (!name)
		return ERROR_OF(DAT_INTERNAL_ERROR, DAT_NO_SUBTYPE);
	if (has_word(name, "no-device")) {
		*handle = names;
		return ERROR_OF(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
	}
	if (has_word(name, "block-open"))
		mock_block();
	if (has_word(name, "no-ia"))
		return DAT_SUCCESS;
	ia = malloc(sizeof(*ia));
	if (!ia)
		abort();
	ia->provider = &name->table;
	*handle = ia;
	return DAT_SUCCESS;
}

static DAT_RETURN mock_ia_open(const DAT_NAME_PTR ia_name, DAT_COUNT qlen, DAT_EVD_HANDLE *evd,
			       DAT_IA_HANDLE *handle)
{
	DAT_RETURN ret;

	pthread_mutex_lock(&lock);
	mock.qlen = qlen;
	pthread_mutex_unlock(&lock);
	*evd = MOCK_ASYNC_EVD;
	ret = mock_ia_new(mock_open_begin(ia_name), handle);
	if (ret == DAT_SUCCESS && *handle)
		mock.opens++;
	return ret;
}

static DAT_RETURN mock_ia_close(DAT_IA_HANDLE handle, DAT_CLOSE_FLAGS flags)
{
	if (flags == DAT_CLOSE_GRACEFUL_FLAG)
		return ERROR_OF(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE);
	free(handle);
	mock.closes++;
	return DAT_SUCCESS;
}

#if DAT_EDITION == 2
static DAT_RETURN mock_query_open(const char *ia_name, va_list args)
{
	struct mock_name *name = mock_open_begin(ia_name);
	DAT_HANDLE *handle = va_arg(args, DAT_HANDLE *);
	DAT_RETURN ret;

	mock.query_words[0] = (uintptr_t)handle;
	for (int i = 1; i < 5; i++)
		mock.query_words[i] = i % 2 ? va_arg(args, DAT_UINT64) /* a mask */
					    : (uintptr_t)va_arg(args, void *);
	ret = mock_ia_new(name, handle);
	if (ret == DAT_SUCCESS && *handle)
		mock.query_opens++;
	return ret;
}

static DAT_RETURN mock_query_close(DAT_HANDLE handle)
{
	if (mock.refused_closes > 0 && mock.refused_closes--)
		return ERROR_OF(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE);
	free(handle);
	mock.query_closes++;
	return DAT_SUCCESS;
}

static DAT_RETURN mock_extended_op(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list args)
{
	if (op & DAT_OPEN_EXTENSION_BASE)
		return mock_query_open(handle, args);
	if (op & DAT_CLOSE_EXTENSION_BASE)
		return mock_query_close(handle);
	mock.handle = handle;
	mock.op = op;
	for (int i = 0; i < 2; i++)
		mock.words[i] = va_arg(args, DAT_UINT64);
	return DAT_SUCCESS;
}

static void mock_set_extension(struct mock_name *name)
{
	name->table.handle_extendedop_func = has_word(name, "no-extension") ? NULL
									    : mock_extended_op;
}
#else
static void mock_set_extension(struct mock_name *name)
{
	(void)name;
}
#endif

/* Returns the name with this key; adds it if there is none. */
static struct mock_name *mock_name_get(const DAT_PROVIDER_INFO *info)
{
	struct mock_name *name = names;

	pthread_mutex_lock(&lock);
	while (name->used && memcmp(&name->info, info, sizeof(*info)) != 0)
		if (++name == names + MOCK_NAMES)
			abort();
	name->used = true;
	name->info = *info;
	name->table.device_name = name->info.ia_name;
	name->table.ia_open_func = mock_ia_open;
	name->table.ia_close_func = mock_ia_close;
	pthread_mutex_unlock(&lock);
	return name;
}

/* The entry points of a provider may call all of the registry's calls. */
static void make_nested_calls(const DAT_PROVIDER_INFO *info)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;

	mock.own_status = dat_ia_open((char *)info->ia_name, 8, &evd, &ia);
	dat_registry_list_providers(0, &mock.list_count, NULL);
	evd = DAT_HANDLE_NULL;
	mock.other_status = dat_ia_open((char *)"other", 8, &evd, &ia);
	if (mock.other_status == DAT_SUCCESS)
		mock.other_status = dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
}

void dat_provider_init(const DAT_PROVIDER_INFO *info, const char *params)
{
	struct mock_name *name = mock_name_get(info);

	mock.inits++;
	pthread_mutex_lock(&lock);
	if (name->running)
		mock.misuses++;
	name->running = true;
	strncpy(name->params, params, sizeof(name->params) - 1);
	strcpy(mock.params, name->params);
	mock_set_extension(name);
	pthread_mutex_unlock(&lock);
	if (has_word(name, "block-init"))
		mock_block();
	if (has_word(name, "nested"))
		make_nested_calls(info);
	if (!has_word(name, "no-register"))
		dat_registry_add_provider(&name->table, info);
}

void dat_provider_fini(const DAT_PROVIDER_INFO *info)
{
	struct mock_name *name = mock_name_get(info);

	mock.finis++;
	if (has_word(name, "block-fini"))
		mock_block();
	if (has_word(name, "nested"))
		make_nested_calls(info);
	if (!has_word(name, "no-register") && !has_word(name, "no-remove") &&
	    dat_registry_remove_provider(&name->table, info) != DAT_SUCCESS)
		mock.misuses++;
	pthread_mutex_lock(&lock);
	if (!name->running)
		mock.misuses++;
	name->running = false;
	pthread_mutex_unlock(&lock);
}

/* While the dynamic linker holds its lock. */
static void block_loading(void)
{
	const char *pipes = getenv("MOCK_BLOCKS_LOADING");
	int entered, proceed;
	char byte = 0;

	if (pipes && sscanf(pipes, "%d %d", &entered, &proceed) == 2 &&
	    (write(entered, &byte, 1) != 1 || read(proceed, &byte, 1) != 1))
		abort();
}

static void __attribute__((constructor)) mock_loaded(void)
{
	DAT_PROVIDER_INFO info = { "", DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_FALSE };
	const char *registers = getenv("MOCK_REGISTERS");
	struct mock_name *name;

	sem_init(&mock.entered, 0, 0);
	sem_init(&mock.proceed, 0, 0);
	block_loading();
	if (!registers)
		return;
	strcpy(info.ia_name, registers);
	name = mock_name_get(&info);
	name->running = true;
	dat_registry_add_provider(&name->table, &info);
}
