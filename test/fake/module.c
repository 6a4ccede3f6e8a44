/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fake in a provider library that programs load by name; they use the clock of the system. With
 * FAKE_IN_CALL in the environment a child of fork(2) has a parent with a thread in such a call.
 */
#include <stdlib.h>

#include "fake.h"

static void __attribute__((constructor)) module_loaded(void)
{
	fake_clock_real();
	if (getenv("FAKE_IN_CALL"))
		fake_be_in_call();
}
