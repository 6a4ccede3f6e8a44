/* SPDX-License-Identifier: BSD-2-Clause */
/* The fake as a provider library that programs open by name: for them, time goes by. */
#include "fake.h"

static void __attribute__((constructor)) module_loaded(void)
{
	fake_clock_real();
}
