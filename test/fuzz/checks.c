/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of what fuzz targets share with the tests, outside of a case of Check. */
#include <stdio.h>

#include "../harness/run.h"
#include "fuzz.h"

static const char *held;
const char **last_held = &held;

void _ck_assert_failed(const char *file, int line, const char *expression, const char *message, ...)
{
	(void)message;
	fprintf(stderr, "%s:%d: %s\n", file, line, expression);
	abort();
}
