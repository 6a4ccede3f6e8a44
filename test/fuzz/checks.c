/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of what fuzz targets share with the tests, outside of a case of Check. */
#include <check.h>
#include <stdio.h>

#include "fuzz.h"

void _mark_point(const char *file, int line)
{
	(void)file, (void)line;
}

void _ck_assert_failed(const char *file, int line, const char *expression, const char *message, ...)
{
	(void)message;
	fprintf(stderr, "%s:%d: %s\n", file, line, expression);
	abort();
}
