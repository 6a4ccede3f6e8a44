/* SPDX-License-Identifier: BSD-2-Clause */
/* Host memory that runs out when a test says so. */
#ifndef ALLOC_H
#define ALLOC_H

#include <stdbool.h>

/*
 * For programs linked with $(alloc_ldflags): they get every allocation of the objects linked in.
 * Shared libraries are left alone, and the fake transport is while it is called: what its calls do
 * without memory is fake_fail_call's. Check may be linked in, too, so make no checks between
 * alloc_fail_nth and alloc_failed. The shape of a sweep:
 *
 *	for (n = 1; alloc_fail_nth(n), ret = create(&it), alloc_failed(); n++)
 *		it failed for want of memory, and nothing has changed;
 *	now there was enough;
 */

/* The @n-th allocation of this thread from now on fails, once; 1 is the next. */
void alloc_fail_nth(unsigned n);
/* Has it? From here on none will. */
bool alloc_failed(void);

/* From here on all other threads, service threads above all, get nothing; or they do again. */
void alloc_starve_others(bool on);
/* How often one of them was refused, since the start. */
unsigned alloc_refused(void);

#endif
