/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dat_ia_openv and dat_ia_close: from a name to its library, its provider, and an open IA; and
 * back.
 */
#include <dlfcn.h>
#include <string.h>

#include "libdat.h"
#include "log.h"

/* What ia_open's four arguments have no room for. */
static __thread int ro_aware;

int datx_ia_open_ro_aware(void)
{
	return ro_aware;
}

static void become_busy_locked(struct entry *entry)
{
	entry->busy = true;
	entry->busy_thread = pthread_self();
}

static void become_idle_locked(struct entry *entry)
{
	entry->busy = false;
	pthread_cond_broadcast(&registry.idle);
}

/*
 * The first library of the chain that loads. A library stays in memory for good: its threads may
 * outlive its IAs.
 */
static void *load_first(const struct entry *entry, const struct source **loaded)
{
	const struct source *source;
	const char *why = NULL;
	void *library = NULL;

	for (source = entry->sources; source && !library; source = source->next) {
		library = dlopen(source->library, RTLD_NOW | RTLD_GLOBAL);
		*loaded = source;
		if (library)
			continue;
		why = dlerror();
		dbg(DBG_STATIC, "%s: line %u: %s", entry->info.ia_name, source->line, why);
	}
	/* The log of the whole chain has every reason; unasked, one line has to do. */
	if (!library)
		dbg(DBG_ERROR, "%s: no provider library can be loaded: %s", entry->info.ia_name,
		    why);
	return library;
}

static bool load(struct entry *entry)
{
	const struct source *source;
	void *library;

	if (entry->loaded)
		return true;
	library = load_first(entry, &source);
	if (!library)
		return false;
	entry->init = (DAT_PROVIDER_INIT_FUNC)dlsym(library, DAT_PROVIDER_INIT_FUNC_STR);
	entry->fini = (DAT_PROVIDER_FINI_FUNC)dlsym(library, DAT_PROVIDER_FINI_FUNC_STR);
	entry->loaded = source;
	return true;
}

/*
 * For the busy thread. A library without dat_provider_init may have registered from a constructor.
 */
static bool start(struct entry *entry)
{
	if (!load(entry))
		return false;
	if (!entry->init)
		return true;
	pthread_mutex_lock(&registry.lock);
	entry->starting = true;
	pthread_mutex_unlock(&registry.lock);
	dbg(DBG_PROVIDER, "%s: dat_provider_init(\"%s\")", entry->info.ia_name,
	    entry->loaded->ia_params);
	entry->init(&entry->info, entry->loaded->ia_params);
	pthread_mutex_lock(&registry.lock);
	entry->starting = false;
	pthread_mutex_unlock(&registry.lock);
	return true;
}

/* For the busy thread. */
static void stop(struct entry *entry)
{
	dbg(DBG_PROVIDER, "%s: dat_provider_fini", entry->info.ia_name);
	if (entry->fini)
		entry->fini(&entry->info);
}

/* Counts the caller as a user of entry, or says who must make it ready first. */
static bool join_locked(struct entry *entry)
{
	while (entry->busy)
		pthread_cond_wait(&registry.idle, &registry.lock);
	if (entry->users++ > 0)
		return true;
	become_busy_locked(entry);
	return false;
}

/*
 * The line of dat.conf that serves what is wanted, running, with the caller as one more user. NULL
 * if there is none or it does not load: a provider may yet have registered by itself. Also NULL in
 * the entry's own dat_provider_init or _fini, which would otherwise wait for themselves.
 */
static struct entry *hold_entry(const DAT_PROVIDER_INFO *want)
{
	struct entry *entry;
	bool ready;

	pthread_mutex_lock(&registry.lock);
	entry = registry_entry_locked(want);
	if (entry && entry->busy && pthread_equal(entry->busy_thread, pthread_self()))
		entry = NULL;
	ready = !entry || join_locked(entry);
	pthread_mutex_unlock(&registry.lock);
	if (ready)
		return entry;

	ready = start(entry);
	pthread_mutex_lock(&registry.lock);
	if (!ready)
		entry->users--;
	become_idle_locked(entry);
	pthread_mutex_unlock(&registry.lock);
	return ready ? entry : NULL;
}

static void put_entry(struct entry *entry)
{
	if (!entry)
		return;
	pthread_mutex_lock(&registry.lock);
	if (--entry->users == 0 && entry->init) {
		become_busy_locked(entry);
		pthread_mutex_unlock(&registry.lock);
		stop(entry);
		pthread_mutex_lock(&registry.lock);
		registry_disown_locked(entry);
		become_idle_locked(entry);
	}
	pthread_mutex_unlock(&registry.lock);
}

static DAT_RETURN hold_provider(const DAT_PROVIDER_INFO *want, const struct entry *entry,
				struct provider **held)
{
	DAT_RETURN ret = DAT_SUCCESS;
	struct provider *provider;

	pthread_mutex_lock(&registry.lock);
	provider = registry_provider_locked(want, entry);
	if (provider)
		provider->users++;
	else
		ret = registry_miss_locked(want);
	pthread_mutex_unlock(&registry.lock);
	*held = provider;
	return ret;
}

static void put_provider(struct provider *provider)
{
	pthread_mutex_lock(&registry.lock);
	provider->users--;
	pthread_mutex_unlock(&registry.lock);
}

/* What an open asks for. */
struct request {
	DAT_PROVIDER_INFO want;
	bool ro_aware;
	DAT_COUNT async_qlen;
};

/*
 * On success the consumer's event dispatcher variable is as the provider left it, else as it was.
 */
static DAT_RETURN call_ia_open(const struct provider *provider, struct request *request,
			       DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia)
{
	DAT_EVD_HANDLE evd = *async_evd;
	const int outer = ro_aware;
	DAT_RETURN ret;

	*ia = DAT_HANDLE_NULL;
	ro_aware = request->ro_aware;
	ret = provider->ia_open(request->want.ia_name, request->async_qlen, &evd, ia);
	ro_aware = outer;
	dbg(DBG_PROVIDER, "%s: ia_open: 0x%08x", request->want.ia_name, ret);
	if (ret == DAT_SUCCESS && !is_object(*ia))
		ret = DAT_ERROR(DAT_INTERNAL_ERROR, DAT_NO_SUBTYPE);
	if (ret == DAT_SUCCESS)
		*async_evd = evd;
	return ret;
}

static DAT_RETURN open_ia(struct request *request, DAT_EVD_HANDLE *async_evd,
			  DAT_IA_HANDLE *ia_handle)
{
	struct provider *provider;
	struct ia_slot *slot;
	struct entry *entry;
	DAT_IA_HANDLE ia;
	DAT_RETURN ret;

	entry = hold_entry(&request->want);
	ret = hold_provider(&request->want, entry, &provider);
	if (ret != DAT_SUCCESS)
		goto put_entry;
	slot = ia_slot_take();
	if (!slot) {
		ret = DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
		goto put_provider;
	}
	ret = call_ia_open(provider, request, async_evd, &ia);
	if (ret != DAT_SUCCESS)
		goto free_slot;
	slot->entry = entry;
	slot->provider = provider;
	*ia_handle = ia_slot_publish(slot, ia);
	return DAT_SUCCESS;
free_slot:
	ia_slot_free(slot);
put_provider:
	put_provider(provider);
put_entry:
	put_entry(entry);
	return ret;
}

static DAT_RETURN check_arguments(const char *name, DAT_COUNT async_qlen,
				  const DAT_EVD_HANDLE *async_evd, const DAT_IA_HANDLE *ia_handle)
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

/*
 * A prefix that some entry's name begins with is part of that name; otherwise it tells of the
 * consumer.
 */
static DAT_RETURN name_request(struct request *request, const char *name)
{
	const size_t prefix = strlen(DAT_RO_AWARE_PREFIX);
	DAT_RETURN ret;

	ret = registry_enter();
	if (ret != DAT_SUCCESS)
		return ret;
	request->ro_aware = strncmp(name, DAT_RO_AWARE_PREFIX, prefix) == 0 &&
			    !registry_names_locked(name);
	pthread_mutex_unlock(&registry.lock);
	strcpy(request->want.ia_name, request->ro_aware ? name + prefix : name);
	return DAT_SUCCESS;
}

DAT_RETURN dat_ia_openv(const DAT_NAME_PTR name, DAT_COUNT async_qlen, DAT_EVD_HANDLE *async_evd,
			DAT_IA_HANDLE *ia_handle, DAT_UINT32 major, DAT_UINT32 minor,
			DAT_BOOLEAN thread_safety)
{
	struct request request = { .async_qlen = async_qlen };
	DAT_RETURN ret;

	request.want.dapl_version_major = major;
	request.want.dapl_version_minor = minor;
	request.want.is_thread_safe = thread_safety;
	ret = check_arguments(name, async_qlen, async_evd, ia_handle);
	if (ret == DAT_SUCCESS)
		ret = name_request(&request, name);
	if (ret == DAT_SUCCESS)
		ret = open_ia(&request, async_evd, ia_handle);
	if (ret != DAT_SUCCESS && ia_handle)
		*ia_handle = DAT_HANDLE_NULL;
	dbg(DBG_CONSUMER, "dat_ia_openv(\"%s\", u%u.%u): 0x%08x", request.want.ia_name, major,
	    minor, ret);
	return ret;
}

DAT_RETURN dat_ia_close(DAT_IA_HANDLE ia_handle, DAT_CLOSE_FLAGS flags)
{
	struct ia_slot *slot = ia_slot_retire(ia_handle);
	struct provider *provider;
	struct entry *entry;
	DAT_IA_HANDLE ia;
	DAT_RETURN ret;

	if (!slot)
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
	ia = slot->ia;
	ret = DAT_HANDLE_TO_PROVIDER(ia)->ia_close_func(ia, flags);
	dbg(DBG_CONSUMER, "dat_ia_close(%p, %u): 0x%08x", ia_handle, flags, ret);
	if (ret != DAT_SUCCESS) {
		ia_slot_keep(slot);
		return ret;
	}
	entry = slot->entry;
	provider = slot->provider;
	ia_slot_free(slot);
	put_provider(provider);
	put_entry(entry);
	return DAT_SUCCESS;
}
