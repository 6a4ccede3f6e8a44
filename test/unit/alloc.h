/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocations that fail when a test says so. */
#ifndef ALLOC_H
#define ALLOC_H

#include <stdbool.h>

/*
 * A program linked with $(WRAP_ALLOC_LDFLAGS) allocates through this module, with all objects that
 * are linked statically. Allocations of shared libraries do not fail, nor do those inside the fake
 * transport: for these there is fake_fail_call. Check may be linked statically, so a test makes no
 * checks between alloc_fail_nth and alloc_failed. A test of every failure has this form:
 *
 *	for (n = 1; alloc_fail_nth(n), ret = create(&it), alloc_failed(); n++)
 *		check that the call failed for lack of memory and has changed nothing;
 *	check that the call succeeded;
 */

/* The @n-th allocation of this thread from now on fails, once; 1 is the next. */
void alloc_fail_nth(unsigned n);
/* Tells whether that allocation has failed. Ends the effect of alloc_fail_nth. */
bool alloc_failed(void);

/* While @on, every allocation of all other threads, in particular the service threads, fails. */
void alloc_starve_others(bool on);
/* Returns how many allocations alloc_starve_others has made fail since the start of the process. */
unsigned alloc_refused(void);

#endif
