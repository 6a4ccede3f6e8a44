/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gives dtest any private data for those of its peer. The first byte of an input says which of our
 * options differ from the default.
 */
#include "dtest/dtest.h"
#include "fuzz.h"

static unsigned sentences;

void dtest_explain(const char *sentence)
{
	require(strnlen(sentence, TOOL_SENTENCE) < TOOL_SENTENCE && *sentence);
	sentences++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = { data, size };
	const unsigned bits = fuzz_byte(&input);
	struct dtest t = {
		.server = bits & 1,
		.opt = { .mode = bits & 2 ? MODE_SWEEP : MODE_CHECK,
			 .write_only = bits & 4,
			 .write_pings = bits & 8,
			 .old = bits & 16,
			 .size = 64,
			 .burst = 10 },
	};
	const struct dtest_hello ours = dtest_hello_make(&t), none = { 0 };
	void *bytes = fuzz_copy(input.at, input.left, false);
	const bool whole = !t.opt.old && input.left >= sizeof(ours);

	sentences = 0;
	dtest_hello_read(&t, bytes, (DAT_COUNT)input.left);
	require(!memcmp(&t.hello, whole ? bytes : &none, sizeof(none)));
	/* it goes on, or says in one sentence why not */
	require((dtest_hello_check(&t) == 0) == (sentences == 0) && sentences <= 1);
	require(!whole || memcmp(bytes, &ours, sizeof(ours)) || !sentences);
	free(bytes);
	return 0;
}
