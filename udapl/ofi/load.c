/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loading libfabric. It is not linked: a library among its dependencies replaces the handlers of
 * several signals in its constructor, and only who calls dlopen can put them back.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
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

/* Only those that have changed: a handler that another thread sets meanwhile is lost at worst. */
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
		{ "fi_getinfo", &libfabric.getinfo },	{ "fi_freeinfo", &libfabric.freeinfo },
		{ "fi_dupinfo", &libfabric.dupinfo },	{ "fi_fabric", &libfabric.fabric },
		{ "fi_strerror", &libfabric.strerror },
	};
	struct handlers handlers;
	void *library;

	handlers_save(&handlers);
	/* device.c tells why; it finds out whether this came too late */
	setenv("FI_MR_CACHE_MONITOR", "disabled", false);
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

/* The numbers from 256 on are libfabric's own. */
int ofi_errno(ssize_t ret)
{
	switch (-ret) {
	case FI_ENOKEY:
		return -ENOSPC;
	default:
		return -ret < FI_ERRNO_OFFSET ? (int)ret : -EIO;
	}
}
