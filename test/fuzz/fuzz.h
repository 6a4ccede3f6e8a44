/* SPDX-License-Identifier: BSD-2-Clause */
/* What every fuzz target here offers: to libFuzzer, or to corpus.c. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Tries one input; crashes if it finds something wrong. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
