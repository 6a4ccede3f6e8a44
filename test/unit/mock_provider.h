/* SPDX-License-Identifier: BSD-2-Clause */
/* A provider without a device: what dat.conf can ask of it, and what it tells its test. */
#ifndef MOCK_PROVIDER_H
#define MOCK_PROVIDER_H

#include <dat/udat.h>
#include <semaphore.h>
#include <stdatomic.h>

/*
 * Words of the IA parameters:
 *   mute     dat_provider_init registers nothing
 *   sick     ia_open stores rubbish in its results and fails: no device
 *   blank    ia_open succeeds without an IA
 *   clingy   dat_provider_fini does not remove what was registered
 *   gate     dat_provider_init posts entered, then waits for leave
 *   gate2    dat_provider_fini does
 *   nested   dat_provider_init and _fini open their own name, list, and open and close the name
 *            "other"
 * Beyond that, the environment variable MOCK_REGISTERS holds a name to be registered when the
 * library is loaded.
 */
struct mock {
	atomic_int inits, finis;
	atomic_int opens, closes; /* that succeeded */
	atomic_int wrong;	  /* init of what runs, fini or ia_open of what doesn't */
	sem_t entered, leave;	  /* initialised when the library is loaded */

	/* Of the last init, open or nested call. For tests that make them one after the other. */
	char params[256];
	char name[DAT_NAME_MAX_LENGTH];
	int ro_aware;
	DAT_COUNT qlen;
	DAT_RETURN own, other;
	DAT_COUNT listed;
};

#define MOCK_ASYNC_EVD ((DAT_EVD_HANDLE)0x1000)

/* The provider's copy, found by dlsym once it is loaded. */
extern struct mock mock;

#endif
