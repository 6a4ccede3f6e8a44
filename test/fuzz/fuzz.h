/* SPDX-License-Identifier: BSD-2-Clause */
/* The entry point of a fuzz target, which libFuzzer or corpus.c calls. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Tests one input; aborts if a property does not hold. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
