/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loading libfabric. It is not linked: a library among its dependencies replaces the handlers of
 * several signals in its constructor, and only who calls dlopen can put them back.
 */
#include <dlfcn.h>
#include <rdma/fi_ext.h>
#include <signal.h>
#include <string.h>

#include "ofi.h"

#define LIBFABRIC "libfabric.so.1"

struct libfabric libfabric;

/* ---- signal handlers ---- */

struct handlers {
	struct sigaction actions[NSIG];
};

static void handlers_save(struct handlers *handlers)
{
	for (int sig = 1; sig < NSIG; sig++)
		if (sigaction(sig, NULL, &handlers->actions[sig]))
			handlers->actions[sig].sa_handler = SIG_ERR;
}

/*
 * Restores only those that have changed: so at worst a handler is lost that another thread sets
 * meanwhile.
 */
static void handlers_restore(const struct handlers *handlers)
{
	for (int sig = 1; sig < NSIG; sig++) {
		const struct sigaction *was = &handlers->actions[sig];
		struct sigaction now;

		if (was->sa_handler == SIG_ERR || sigaction(sig, NULL, &now))
			continue;
		if (now.sa_handler != was->sa_handler || now.sa_flags != was->sa_flags)
			sigaction(sig, was, NULL);
	}
}

/* ---- the library ---- */

static int load_result;

static void load_once(void)
{
	const struct {
		const char *name;
		void *pointer; /* to a pointer to the function */
	} symbols[] = {
		{ "fi_getinfo", &libfabric.getinfo }, { "fi_freeinfo", &libfabric.freeinfo },
		{ "fi_dupinfo", &libfabric.dupinfo }, { "fi_fabric", &libfabric.fabric },
		{ "fi_open", &libfabric.open },	      { "fi_strerror", &libfabric.strerror },
	};
	struct handlers handlers;
	void *library;

	handlers_save(&handlers);
	library = dlopen(LIBFABRIC, RTLD_NOW | RTLD_LOCAL);
	handlers_restore(&handlers);
	for (unsigned i = 0; library && i < ARRAY_SIZE(symbols); i++) {
		void *symbol = dlsym(library, symbols[i].name);

		if (!symbol)
			break;
		memcpy(symbols[i].pointer, &symbol, sizeof(symbol));
	}
	if (library && libfabric.strerror)
		return;
	if (library)
		log_error("libfabric is older than 1.13: %s", dlerror());
	else
		log_error("libfabric can't be loaded: %s (Debian: libfabric1)", dlerror());
	load_result = -ENOENT;
}

int libfabric_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load_once);
	return load_result;
}

int libfabric_getinfo(const struct fi_info *hints, struct fi_info **info)
{
	struct handlers handlers;
	int ret;

	handlers_save(&handlers);
	ret = libfabric.getinfo(FI_VERSION(1, 11), NULL, NULL, 0, hints, info);
	handlers_restore(&handlers);
	return ret;
}

/* ---- the cache of memory regions ---- */

#ifdef HAVE_FID_MEM_MONITOR
/* libfabric asks it to start for each domain that could have a cache. */
static int monitor_start(struct fid_mem_monitor *monitor)
{
	(void)monitor;
	return -FI_ENOSYS;
}

static void monitor_stop(struct fid_mem_monitor *monitor)
{
	(void)monitor;
}

static int monitor_subscribe(struct fid_mem_monitor *monitor, const void *address, size_t size)
{
	(void)monitor, (void)address, (void)size;
	return -FI_ENOSYS;
}

static void monitor_unsubscribe(struct fid_mem_monitor *monitor, const void *address, size_t size)
{
	(void)monitor, (void)address, (void)size;
}

static bool monitor_valid(struct fid_mem_monitor *monitor, const void *address, size_t size)
{
	(void)monitor, (void)address, (void)size;
	return false;
}

static struct fi_ops_mem_monitor monitor_ops = {
	.size = sizeof(monitor_ops),
	.start = monitor_start,
	.stop = monitor_stop,
	.subscribe = monitor_subscribe,
	.unsubscribe = monitor_unsubscribe,
	.valid = monitor_valid,
};

/* It stays with libfabric until the process ends. */
static struct fid_mem_monitor no_monitor = {
	.fid.fclass = FI_CLASS_MEM_MONITOR,
	.export_ops = &monitor_ops,
};

static int monitor_import(struct fid *cache)
{
	return fi_import_fid(cache, &no_monitor.fid, 0);
}
#else
#define monitor_import(cache) ((void)(cache), -FI_ENOSYS)
#endif

static void cache_prevent(void)
{
	struct fid *cache;
	int ret = libfabric.open(FI_VERSION(1, 13), "mr_cache", NULL, 0, 0, &cache, NULL);

	if (ret)
		return;
	ret = monitor_import(cache);
	log_util("libfabric %s our monitor of memory: %s", ret ? "refuses" : "takes",
		 libfabric.strerror(-ret));
	fi_close(cache);
}

/*
 * FI_MR_CACHE_MONITOR=disabled has the same effect, but other threads may read the environment, and
 * children inherit it. If the program uses libfabric itself it may be too late: mem.c finds out.
 */
void libfabric_prevent_cache(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, cache_prevent);
}

/* The numbers from 256 on are libfabric's own. */
int ofi_errno(ssize_t ret)
{
	switch (-ret) {
	case FI_ENOKEY:
	case FI_EKEYREJECTED:
		return -ENOSPC;
	default:
		return -ret < FI_ERRNO_OFFSET ? (int)ret : -EIO;
	}
}
