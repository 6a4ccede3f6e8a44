/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A line of the log for each call that is refused: the call, the result, why, the arguments. Calls
 * of the data path write it in the cold functions that refuse them; entry/calls.c does of all
 * others.
 */
#ifndef UDAPL_REFUSE_H
#define UDAPL_REFUSE_H

#include <edition.h>

#include "base.h"

/*
 * Returns @ret, which is not DAT_SUCCESS, and writes the line if one of the @kinds is wanted. What
 * is written with @format are the arguments by position, "NAME VALUE" each, with ", " between them.
 */
COLD DAT_RETURN refused(DAT_RETURN ret, unsigned kinds, const char *call, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

#endif
