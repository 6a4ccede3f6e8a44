/* SPDX-License-Identifier: BSD-2-Clause */
/* The limit of locked memory, which devices need. */
#ifndef UDAPL_MEMLOCK_H
#define UDAPL_MEMLOCK_H

#include <stddef.h>

struct tp_attr;

/* Warns if this process may lock so little memory that no connection can be made. Any thread. */
void memlock_check(void);
/*
 * Logs why @call could not register memory, and which limit it exceeds; @err is a positive errno.
 */
void memlock_name_cause(const struct tp_attr *attr, const char *call, const void *address,
			size_t size, int err);

#endif
