/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dat_ia_openv: finds the key of dat.conf, loads and initialises its library, and calls ia_open of
 * the provider that the library registered. dat_ia_close undoes the same steps.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "libdat.h"
#include "load.h"
#include "log.h"

/* What our extensions tell a provider, because ia_open has no parameters for it. */
static __thread int open_ro_aware;
static __thread const char *open_line;

int datx_ia_open_ro_aware(void)
{
	return open_ro_aware;
}

const char *datx_ia_open_line(void)
{
	return open_line;
}

static void key_become_busy_locked(struct conf_key *key)
{
	ASSERT_HELD(&registry.lock);
	key->busy = true;
	key->busy_thread = pthread_self();
	provider_call_begin();
}

static void key_become_idle_locked(struct conf_key *key)
{
	ASSERT_HELD(&registry.lock);
	key->busy = false;
	provider_call_end();
	pthread_cond_broadcast(&registry.idle);
}

/*
 * Whoever starts a program that runs with other privileges than its user's chooses its working
 * directory, too. A name without a slash is safe: the dynamic linker then ignores LD_LIBRARY_PATH.
 */
static const char *library_refuse(const char *library)
{
	if (getauxval(AT_SECURE) && *library != '/' && strchr(library, '/'))
		return "a relative path is not used in a program with other privileges than its "
		       "user's";
	return NULL;
}

/*
 * A provider that is not linked with a registry finds its functions in the global scope. A program
 * may have loaded this library into a scope of its own.
 */
static void registry_become_global(void)
{
	(void)dlopen(REGISTRY_SONAME, RTLD_NOLOAD | RTLD_LAZY | RTLD_GLOBAL);
}

/*
 * Loads the first library of the chain that can be loaded. It is never unloaded, because its
 * threads may outlive its IAs.
 */
static void *key_dlopen(const struct conf_key *key, const struct conf_line **loaded)
{
	const void *here = (const void *)(uintptr_t)key_dlopen;
	const struct conf_line *line;
	const char *reason = NULL;
	void *library = NULL;

	registry_become_global();
	for (line = key->lines; line && !library; line = line->next) {
		reason = library_refuse(line->library);
		library = reason ? NULL : provider_load(line->library, here);
		*loaded = line;
		if (library)
			continue;
		reason = reason ? reason : dlerror();
		libdat_log(DBG_STATIC, "%s: line %u: %s", key->info.ia_name, line->number, reason);
	}
	/* One line by default; DBG_STATIC logs the reason for each library of the chain. */
	if (!library)
		libdat_log(DBG_ERROR, "%s: no provider library can be loaded: %s",
			   key->info.ia_name, reason);
	return library;
}

/* Loads the library, unless it is loaded; the caller is the busy_thread of @key. */
static bool key_load(struct conf_key *key)
{
	const struct conf_line *line;
	void *library;

	if (key->loaded)
		return true;
	library = key_dlopen(key, &line);
	if (!library)
		return false;
	key->init = (DAT_PROVIDER_INIT_FUNC)dlsym(library, DAT_PROVIDER_INIT_FUNC_STR);
	key->fini = (DAT_PROVIDER_FINI_FUNC)dlsym(library, DAT_PROVIDER_FINI_FUNC_STR);
	key->loaded = line;
	exit_handler_add();
	return true;
}

/*
 * Loads the library and calls its dat_provider_init; the caller is the busy_thread of @key. A
 * library without that function may register from a constructor.
 */
static bool key_initialise(struct conf_key *key)
{
	if (!key_load(key))
		return false;
	if (!key->init)
		return true;
	libdat_mutex_lock(&registry.lock);
	key->initialising = true;
	libdat_mutex_unlock(&registry.lock);
	libdat_log(DBG_PROVIDER, "%s: dat_provider_init(\"%s\")", key->info.ia_name,
		   key->loaded->ia_params);
	key->init(&key->info, key->loaded->ia_params);
	libdat_mutex_lock(&registry.lock);
	key->initialising = false;
	libdat_mutex_unlock(&registry.lock);
	return true;
}

/* Calls dat_provider_fini of the library; the caller is the busy_thread of @key. */
static void key_finalise(struct conf_key *key)
{
	libdat_log(DBG_PROVIDER, "%s: dat_provider_fini", key->info.ia_name);
	if (key->fini)
		key->fini(&key->info);
}

/*
 * Counts the caller as a user of @key. Returns whether the key is ready; if not, the caller has
 * become its busy_thread and must initialise it. Releases the lock while another thread is busy.
 */
static bool key_join_relock(struct conf_key *key)
{
	ASSERT_HELD(&registry.lock);
	while (key->busy)
		libdat_mutex_wait(&registry.idle, &registry.lock);
	if (key->users++ > 0)
		return true;
	key_become_busy_locked(key);
	return false;
}

/*
 * Returns the key that matches, initialised, with the caller as one more user; NULL if there is
 * none or its library does not load. Then a provider that registered without dat.conf may still
 * match. It returns NULL, too, if the key's own dat_provider_init or _fini calls this, which would
 * otherwise wait for itself, and if the key is of the other edition.
 */
static struct conf_key *key_hold(const DAT_PROVIDER_INFO *want)
{
	struct conf_key *key;
	bool ready;

	if (!registry_serves(want->dapl_version_major))
		return NULL;
	libdat_mutex_lock(&registry.lock);
	key = registry_find_key_locked(want);
	if (key && key->busy && pthread_equal(key->busy_thread, pthread_self()))
		key = NULL;
	ready = !key || key_join_relock(key);
	libdat_mutex_unlock(&registry.lock);
	if (ready)
		return key;

	ready = key_initialise(key);
	libdat_mutex_lock(&registry.lock);
	if (!ready)
		key->users--;
	key_become_idle_locked(key);
	libdat_mutex_unlock(&registry.lock);
	return ready ? key : NULL;
}

static void key_put(struct conf_key *key)
{
	if (!key)
		return;
	libdat_mutex_lock(&registry.lock);
	if (--key->users == 0 && key->init) {
		key_become_busy_locked(key);
		libdat_mutex_unlock(&registry.lock);
		key_finalise(key);
		libdat_mutex_lock(&registry.lock);
		registry_remove_of_key_locked(key);
		key_become_idle_locked(key);
	}
	libdat_mutex_unlock(&registry.lock);
}

/* The place of a line, as messages tell it: "/etc/dat.conf:12". */
struct place {
	char text[PATH_MAX + 12];
};

static const char *place_of(const struct conf_line *line, struct place *place)
{
	snprintf(place->text, sizeof(place->text), "%s:%u", registry.path, line->number);
	return place->text;
}

/* A provider that does not register the name says why, if it is for us to know. */
static void open_tell_no_provider(const struct conf_key *key)
{
	const enum libdat_log_kind kind = key->init ? DBG_STATIC : DBG_ERROR;
	struct place place;
	const char *at = place_of(key->loaded, &place);

	if (key->init)
		libdat_log(kind, "%s: %s: %s has not registered this name", key->info.ia_name, at,
			   key->loaded->library);
	else
		libdat_log(kind, "%s: %s: %s is no provider: it has no dat_provider_init",
			   key->info.ia_name, at, key->loaded->library);
}

/* This is told once in a process, because some programs try names until one can be opened. */
static void open_tell_unknown(const DAT_PROVIDER_INFO *want)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;
	enum libdat_log_kind kind = atomic_flag_test_and_set(&told) ? DBG_STATIC : DBG_ERROR;
	char names[768];

	if (!*registry.path && secure_getenv("DAT_OVERRIDE"))
		kind = DBG_STATIC; /* that it can't be read was told when it was looked for */

	libdat_mutex_lock(&registry.lock);
	registry_names_locked(want->dapl_version_major, names, sizeof(names));
	libdat_mutex_unlock(&registry.lock);
	if (*registry.path)
		libdat_log(kind, "%s: %s has no such name; it has %s", want->ia_name, registry.path,
			   *names ? names : "none");
	else
		libdat_log(kind, "%s: there is neither " DAT_CONF_DIR "/dat.conf nor " SYSTEM_CONF,
			   want->ia_name);
}

/*
 * Where two generations of DAT are installed, the file may be that of the other one: then programs
 * find no provider at all, and many do not say why.
 */
static void open_warn_of_version(const DAT_PROVIDER_INFO *want)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&warned))
		libdat_log(DBG_ERROR, "%s: no line of dat.conf is for DAT %u", want->ia_name,
			   want->dapl_version_major);
}

/*
 * This is told once in a process, because some programs try all names of the list of providers.
 */
static void open_tell_other_edition(const DAT_PROVIDER_INFO *want)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&told))
		libdat_log(DBG_ERROR, "%s u%u.%u: %s opens no IA of this version", want->ia_name,
			   want->dapl_version_major, want->dapl_version_minor, REGISTRY_SONAME);
}

static DAT_RETURN registration_hold(const DAT_PROVIDER_INFO *want, const struct conf_key *key,
				    struct registration **held)
{
	DAT_RETURN ret = DAT_SUCCESS;
	struct registration *registration;
	bool lacks_major = false, unknown = false;

	libdat_mutex_lock(&registry.lock);
	registration = registry_find_locked(want, key);
	if (registration) {
		registration->users++;
	} else {
		ret = registry_not_found_locked(want);
		lacks_major = registry_lacks_major_locked(want->dapl_version_major);
		unknown = !registry_has_name_locked(want->ia_name);
	}
	libdat_mutex_unlock(&registry.lock);
	if (!registry_serves(want->dapl_version_major))
		open_tell_other_edition(want);
	else if (lacks_major)
		open_warn_of_version(want);
	else if (unknown)
		open_tell_unknown(want);
	else if (!registration && key)
		open_tell_no_provider(key);
	*held = registration;
	return ret;
}

static void registration_put(struct registration *registration)
{
	libdat_mutex_lock(&registry.lock);
	registration->users--;
	libdat_mutex_unlock(&registry.lock);
}

/* Writes *async_evd on success only, whatever the provider does with its variable. */
static DAT_RETURN open_call_provider(struct registration *registration,
				     struct open_request *request, DAT_EVD_HANDLE *async_evd,
				     DAT_IA_HANDLE *ia)
{
	DAT_EVD_HANDLE evd = *async_evd;
	const int previous = open_ro_aware;
	const char *previous_line = open_line;
	struct place place;
	DAT_RETURN ret;

	*ia = DAT_HANDLE_NULL;
	open_ro_aware = request->ro_aware;
	open_line = registration->key ? place_of(registration->key->loaded, &place) : NULL;
	provider_call_begin();
	ret = request->ask
		      ? request->ask(registration, request, ia)
		      : registration->ia_open(request->want.ia_name, request->async_qlen, &evd, ia);
	if (!atomic_flag_test_and_set(&registration->opened))
		exit_handler_add();
	provider_call_end();
	open_ro_aware = previous;
	open_line = previous_line;
	libdat_log_result(DBG_PROVIDER, ret, "%s: ia_open", request->want.ia_name);
	if (ret == DAT_SUCCESS && !is_object(*ia))
		ret = DAT_ERROR(DAT_INTERNAL_ERROR, DAT_NO_SUBTYPE);
	if (ret == DAT_SUCCESS)
		*async_evd = evd;
	return ret;
}

static DAT_RETURN open_ia_requested(struct open_request *request, DAT_EVD_HANDLE *async_evd,
				    DAT_IA_HANDLE *ia_handle)
{
	struct registration *registration;
	struct ia_slot *slot;
	struct conf_key *key;
	DAT_IA_HANDLE ia;
	DAT_RETURN ret;

	key = key_hold(&request->want);
	ret = registration_hold(&request->want, key, &registration);
	if (ret != DAT_SUCCESS)
		goto put_key;
	slot = ia_slot_take();
	if (!slot) {
		ret = DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
		goto put_registration;
	}
	ret = open_call_provider(registration, request, async_evd, &ia);
	if (ret != DAT_SUCCESS)
		goto free_slot;
	slot->key = key;
	slot->registration = registration;
	*ia_handle = ia_slot_publish(slot, ia, request->purpose);
	return DAT_SUCCESS;
free_slot:
	ia_slot_free(slot);
put_registration:
	registration_put(registration);
put_key:
	key_put(key);
	return ret;
}

static DAT_RETURN open_check_arguments(const char *name, DAT_COUNT async_qlen,
				       const DAT_EVD_HANDLE *async_evd,
				       const DAT_IA_HANDLE *ia_handle)
{
	if (!name || strnlen(name, DAT_NAME_MAX_LENGTH) == DAT_NAME_MAX_LENGTH)
		return DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
	if (!async_evd)
		return DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
	if (!ia_handle)
		return DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG4);
	if (*async_evd == DAT_HANDLE_NULL && async_qlen <= 0)
		return DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
	return DAT_SUCCESS;
}

/* DAT_RO_AWARE_PREFIX is part of the name if the registry has a name that begins with it. */
static DAT_RETURN open_parse_name(struct open_request *request, const char *name)
{
	const size_t prefix = strlen(DAT_RO_AWARE_PREFIX);
	DAT_RETURN ret;

	ret = registry_lock();
	if (ret != DAT_SUCCESS)
		return ret;
	request->ro_aware = strncmp(name, DAT_RO_AWARE_PREFIX, prefix) == 0 &&
			    !registry_has_name_locked(name);
	libdat_mutex_unlock(&registry.lock);
	strcpy(request->want.ia_name, request->ro_aware ? name + prefix : name);
	return DAT_SUCCESS;
}

DAT_RETURN registry_open(const char *name, struct open_request *request, DAT_EVD_HANDLE *async_evd,
			 DAT_IA_HANDLE *ia_handle)
{
	DAT_RETURN ret = open_parse_name(request, name);

	if (ret != DAT_SUCCESS)
		return ret;
	provider_call_begin();
	ret = registry_may_open() ? open_ia_requested(request, async_evd, ia_handle)
				  : DAT_ERROR(DAT_INVALID_STATE, DAT_NO_SUBTYPE);
	provider_call_end();
	return ret;
}

DAT_RETURN dat_ia_openv(const DAT_NAME_PTR name, DAT_COUNT async_qlen, DAT_EVD_HANDLE *async_evd,
			DAT_IA_HANDLE *ia_handle, DAT_UINT32 major, DAT_UINT32 minor,
			DAT_BOOLEAN thread_safety)
{
	NO_CANCELLATION;
	struct open_request request = { .async_qlen = async_qlen };
	DAT_RETURN ret;

	request.want.dapl_version_major = major;
	request.want.dapl_version_minor = minor;
	request.want.is_thread_safe = thread_safety;
	ret = open_check_arguments(name, async_qlen, async_evd, ia_handle);
	if (ret == DAT_SUCCESS)
		ret = registry_open(name, &request, async_evd, ia_handle);
	if (ret != DAT_SUCCESS && ia_handle)
		*ia_handle = DAT_HANDLE_NULL;
	libdat_log_result(DBG_CONSUMER, ret, "dat_ia_openv(\"%s\", u%u.%u)", request.want.ia_name,
			  major, minor);
	return ret;
}

DAT_RETURN registry_close_ia(DAT_IA_HANDLE ia_handle, enum ia_purpose purpose, const char *call,
			     DAT_RETURN (*close)(DAT_IA_HANDLE ia, void *arg), void *arg)
{
	struct ia_slot *slot = ia_slot_retire(ia_handle, purpose);
	struct registration *registration;
	struct conf_key *key;
	DAT_RETURN ret;

	if (!slot) {
		ret = DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
		libdat_log_result(DBG_CONSUMER, ret, "%s(%p)", call, ia_handle);
		return ret;
	}
	provider_call_begin();
	ret = close(purpose == IA_FOR_QUERY ? slot->query : slot->ia, arg);
	libdat_log_result(DBG_CONSUMER, ret, "%s(%p)", call, ia_handle);
	if (ret != DAT_SUCCESS) {
		ia_slot_unretire(slot);
		provider_call_end();
		return ret;
	}
	key = slot->key;
	registration = slot->registration;
	ia_slot_free(slot);
	registration_put(registration);
	key_put(key);
	provider_call_end();
	return DAT_SUCCESS;
}

static DAT_RETURN close_by_table(DAT_IA_HANDLE ia, void *arg)
{
	const DAT_CLOSE_FLAGS *flags = arg;

	return DAT_HANDLE_TO_PROVIDER(ia)->ia_close_func(ia, *flags);
}

DAT_RETURN dat_ia_close(DAT_IA_HANDLE ia_handle, DAT_CLOSE_FLAGS flags)
{
	NO_CANCELLATION;

	return registry_close_ia(ia_handle, IA_FOR_CALLS, "dat_ia_close", close_by_table, &flags);
}
