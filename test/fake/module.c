/* SPDX-License-Identifier: BSD-2-Clause */
/* The fake in a provider library that programs load by name; they use the clock of the system. */
#include "fake.h"

static void __attribute__((constructor)) module_loaded(void)
{
	fake_clock_real();
}
