/* SPDX-License-Identifier: BSD-2-Clause */
/* The entry point of a fuzz target, which libFuzzer or replay.c calls, and what targets share. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Tests one input; aborts if a property does not hold. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void require(bool condition)
{
	if (!condition)
		abort();
}

/*
 * A copy of @size bytes, with a NUL behind them if @text, in a block of the heap that ends there: a
 * sanitizer sees an access beyond the end. The caller frees it.
 */
static inline void *fuzz_copy(const void *bytes, size_t size, bool text)
{
	char *copy = calloc(1, size + text);

	require(copy || size + text == 0);
	if (size)
		memcpy(copy, bytes, size);
	if (text)
		copy[size] = '\0';
	return copy;
}

/* What is left of an input that is read as a list of steps. Behind its end all is 0. */
struct fuzz_input {
	const uint8_t *at;
	size_t left;
};

static inline uint8_t fuzz_byte(struct fuzz_input *input)
{
	if (!input->left)
		return 0;
	input->left--;
	return *input->at++;
}

/*
 * Takes up to @max bytes, as many as the next byte says. Returns how many; *bytes is in the input.
 */
static inline unsigned fuzz_bytes(struct fuzz_input *input, unsigned max, const uint8_t **bytes)
{
	unsigned size = fuzz_byte(input);

	size = size < max ? size : max;
	size = size < input->left ? size : (unsigned)input->left;
	*bytes = input->at;
	input->at += size;
	input->left -= size;
	return size;
}

#endif
