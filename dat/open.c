/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dat_ia_openv: finds the key of dat.conf, loads and initialises its library, and calls ia_open of
 * the provider that the library registered. dat_ia_close undoes the same steps.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "libdat.h"
#include "log.h"

/* For datx_ia_open_ro_aware: ia_open has no parameter for it. */
static __thread int open_ro_aware;

int datx_ia_open_ro_aware(void)
{
	return open_ro_aware;
}

/*
 * Around provider code and the dynamic linker: the child of a fork meanwhile must know, see fork.c.
 */
static void provider_call_begin(void)
{
	atomic_fetch_add(&registry.provider_calls, 1);
}

static void provider_call_end(void)
{
	atomic_fetch_sub(&registry.provider_calls, 1);
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
 * Where this library is: "/opt/dat/lib/". False: not known, or the path is too long. In a program
 * that has the registry in itself this is argv[0], which other users choose.
 */
static bool own_folder(char *path, size_t size)
{
	Dl_info self;
	char *slash;

	if (getauxval(AT_SECURE) || !dladdr((void *)(uintptr_t)own_folder, &self) ||
	    !self.dli_fname || (size_t)snprintf(path, size, "%s", self.dli_fname) >= size)
		return false;
	slash = strrchr(path, '/');
	if (slash)
		slash[1] = '\0';
	return slash;
}

/*
 * A bare name is looked for where the dynamic linker looks, and then beside this library: a
 * provider that was installed with it is found whatever the prefix. dlerror() tells why it failed
 * where it was found, or that it was not.
 */
static void *library_load(const char *name)
{
	char path[PATH_MAX];
	void *library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);

	if (library || strchr(name, '/') || !own_folder(path, sizeof(path)) ||
	    strlen(path) + strlen(name) >= sizeof(path))
		return library;
	strcat(path, name);
	return access(path, F_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
}

/*
 * Loads the first library of the chain that can be loaded. It is never unloaded, because its
 * threads may outlive its IAs.
 */
static void *key_dlopen(const struct conf_key *key, const struct conf_line **loaded)
{
	const struct conf_line *line;
	const char *reason = NULL;
	void *library = NULL;

	for (line = key->lines; line && !library; line = line->next) {
		reason = library_refuse(line->library);
		library = reason ? NULL : library_load(line->library);
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

/* By busy_thread. */
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
	return true;
}

/*
 * By busy_thread: loads the library and calls its dat_provider_init. A library without that may
 * register from a constructor.
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

/* By busy_thread. */
static void key_finalise(struct conf_key *key)
{
	libdat_log(DBG_PROVIDER, "%s: dat_provider_fini", key->info.ia_name);
	if (key->fini)
		key->fini(&key->info);
}

/*
 * Counts the caller as a user of key. Returns whether the key is ready; if not, the caller has
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
 * The key that matches, initialised, with the caller as one more user. NULL if there is none or its
 * library does not load; a provider that registered without dat.conf may still match. Also NULL if
 * the key's own dat_provider_init or _fini calls this, which would otherwise wait for itself.
 */
static struct conf_key *key_hold(const DAT_PROVIDER_INFO *want)
{
	struct conf_key *key;
	bool ready;

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

static DAT_RETURN registration_hold(const DAT_PROVIDER_INFO *want, const struct conf_key *key,
				    struct registration **held)
{
	DAT_RETURN ret = DAT_SUCCESS;
	struct registration *registration;
	bool lacks_major = false;

	libdat_mutex_lock(&registry.lock);
	registration = registry_find_locked(want, key);
	if (registration) {
		registration->users++;
	} else {
		ret = registry_not_found_locked(want);
		lacks_major = registry_lacks_major_locked(want->dapl_version_major);
	}
	libdat_mutex_unlock(&registry.lock);
	if (lacks_major)
		open_warn_of_version(want);
	*held = registration;
	return ret;
}

static void registration_put(struct registration *registration)
{
	libdat_mutex_lock(&registry.lock);
	registration->users--;
	libdat_mutex_unlock(&registry.lock);
}

/* What the consumer asked for. */
struct open_request {
	DAT_PROVIDER_INFO want;
	bool ro_aware;
	DAT_COUNT async_qlen;
};

/* Writes *async_evd on success only, whatever the provider does with its variable. */
static DAT_RETURN open_call_provider(const struct registration *registration,
				     struct open_request *request, DAT_EVD_HANDLE *async_evd,
				     DAT_IA_HANDLE *ia)
{
	DAT_EVD_HANDLE evd = *async_evd;
	const int previous = open_ro_aware;
	DAT_RETURN ret;

	*ia = DAT_HANDLE_NULL;
	open_ro_aware = request->ro_aware;
	provider_call_begin();
	ret = registration->ia_open(request->want.ia_name, request->async_qlen, &evd, ia);
	provider_call_end();
	open_ro_aware = previous;
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
	*ia_handle = ia_slot_publish(slot, ia);
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

DAT_RETURN dat_ia_openv(const DAT_NAME_PTR name, DAT_COUNT async_qlen, DAT_EVD_HANDLE *async_evd,
			DAT_IA_HANDLE *ia_handle, DAT_UINT32 major, DAT_UINT32 minor,
			DAT_BOOLEAN thread_safety)
{
	struct open_request request = { .async_qlen = async_qlen };
	DAT_RETURN ret;

	request.want.dapl_version_major = major;
	request.want.dapl_version_minor = minor;
	request.want.is_thread_safe = thread_safety;
	ret = open_check_arguments(name, async_qlen, async_evd, ia_handle);
	if (ret == DAT_SUCCESS)
		ret = open_parse_name(&request, name);
	if (ret == DAT_SUCCESS)
		ret = open_ia_requested(&request, async_evd, ia_handle);
	if (ret != DAT_SUCCESS && ia_handle)
		*ia_handle = DAT_HANDLE_NULL;
	libdat_log_result(DBG_CONSUMER, ret, "dat_ia_openv(\"%s\", u%u.%u)", request.want.ia_name,
			  major, minor);
	return ret;
}

DAT_RETURN dat_ia_close(DAT_IA_HANDLE ia_handle, DAT_CLOSE_FLAGS flags)
{
	struct ia_slot *slot = ia_slot_retire(ia_handle);
	struct registration *registration;
	struct conf_key *key;
	DAT_IA_HANDLE ia;
	DAT_RETURN ret;

	if (!slot)
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
	ia = slot->ia;
	provider_call_begin();
	ret = DAT_HANDLE_TO_PROVIDER(ia)->ia_close_func(ia, flags);
	provider_call_end();
	libdat_log_result(DBG_CONSUMER, ret, "dat_ia_close(%p, %u)", ia_handle, flags);
	if (ret != DAT_SUCCESS) {
		ia_slot_unretire(slot);
		return ret;
	}
	key = slot->key;
	registration = slot->registration;
	ia_slot_free(slot);
	registration_put(registration);
	key_put(key);
	return DAT_SUCCESS;
}
