/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of counters share: the operations of DAT 2.0 on the core. */
#ifndef COUNTER_CALLS_H
#define COUNTER_CALLS_H

#include <dat2/dat_ib_extensions.h>
#include <stdarg.h>

#include "harness.h"

/* The macros of the public header call the provider's function. */
static inline DAT_RETURN operate(DAT_HANDLE handle, DAT_EXTENDED_OP op, ...)
{
	va_list args;
	DAT_RETURN ret;

	va_start(args, op);
	ret = extended_op(handle, op, args);
	va_end(args);
	return ret;
}
#define dat_extension_op(handle, op, ...) operate(handle, (DAT_EXTENDED_OP)(op), __VA_ARGS__)

/* Returns a counter. If @reset it is 0 afterwards. */
static inline DAT_UINT64 count_of(DAT_HANDLE handle, int number, int reset)
{
	DAT_UINT64 value;

	ck_dat(dat_ib_query_counters(handle, number, &value, reset));
	return value;
}

#endif
