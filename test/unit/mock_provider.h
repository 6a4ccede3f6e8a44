/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A provider without a device, of either edition: what dat.conf can make it do, and what it records
 * for the test.
 */
#ifndef MOCK_PROVIDER_H
#define MOCK_PROVIDER_H

#include <edition.h>
#include <semaphore.h>
#include <stdatomic.h>

/*
 * The IA parameters of an entry are words that change the provider's behaviour for its name:
 *   no-register   dat_provider_init registers nothing
 *   no-device     ia_open stores garbage in its results and fails: no device
 *   no-ia         ia_open succeeds without an IA
 *   no-extension  the table has no entry for extended operations
 *   no-remove     dat_provider_fini does not remove what was registered
 *   block-init    dat_provider_init posts entered, then waits for proceed
 *   block-fini    dat_provider_fini does
 *   block-open    ia_open does
 *   nested        dat_provider_init and dat_provider_fini open their own name, list the providers,
 *                 and open and close the name "other"
 * In DAT 2.0 the open of a query does what ia_open does with these words.
 *
 * The environment variable MOCK_REGISTERS may hold a name that is registered when the library is
 * loaded. MOCK_BLOCKS_LOADING may hold the descriptors of two pipes: while the library is loaded it
 * writes a byte to the first and waits for one from the second.
 */
struct mock {
	atomic_int inits, finis;
	atomic_int opens, closes; /* successful ones */
	atomic_int query_opens, query_closes;
	atomic_int refused_closes; /* the test sets it: closes of queries to refuse from now on */
	atomic_int misuses;	   /* init while running, fini or ia_open while not */
	sem_t entered, proceed;	   /* initialised when the library is loaded */

	/* These are of the latest init, open or nested call, for tests with one thread only. */
	char params[256];
	char name[DAT_NAME_MAX_LENGTH];
	int ro_aware;
	char line[64]; /* of dat.conf; empty: there is none */
	DAT_COUNT qlen;
	DAT_RETURN own_status, other_status; /* of opening their own name, and "other" */
	DAT_COUNT list_count;

	/* Of the latest extended operation that opened or closed no query: its arguments. */
	DAT_HANDLE handle;
	int op;
	DAT_UINT64 words[2];
	/* Of the latest open of a query: the arguments after the name. */
	DAT_UINT64 query_words[5];
};

#define MOCK_ASYNC_EVD ((DAT_EVD_HANDLE)0x1000)

/* It is in the provider's library; a test gets its address by dlsym once the library is loaded. */
extern struct mock mock;

#endif
