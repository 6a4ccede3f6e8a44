/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gives dapltest any bytes for those of its peer: a message of the control connection, the first
 * message of a lane, and the private data of a request.
 */
#include "dapltest/dapltest.h"
#include "fuzz.h"

/* The buffers of a plan that is taken lie one behind the other, in memory that can be counted. */
static void require_plan(const struct plan *plan)
{
	size_t offsets[OPS_MAX + BARRIERS + 1];
	uint64_t end = plan_lay_out(plan, offsets);

	require(!plan_problem(plan));
	for (unsigned i = 0; i < plan->op_count; i++)
		require(offsets[i] + operation_bytes(&plan->ops[i]) <= offsets[i + 1]);
	require(end == offsets[plan->op_count] && end <= INT64_MAX);
}

/* What is taken is what another dapltest would have sent, byte for byte. */
static void fuzz_message(const unsigned char *bytes, size_t size)
{
	unsigned char again[MESSAGE_MAX];
	char problem[PROBLEM_TEXT];
	struct message message = { 0 };
	enum message_code code = message_decode(&message, bytes, size, problem);

	if (code != CODE_GOOD) {
		require(*problem && strnlen(problem, sizeof(problem)) < sizeof(problem));
		return;
	}
	require(message_encode(&message, again) == size && !memcmp(again, bytes, size));
	if (message.kind == MESSAGE_PLAN)
		require_plan(&message.plan);
}

static void fuzz_offer(const unsigned char *bytes, size_t size)
{
	unsigned char again[SETUP_BYTES];
	struct offer offer;

	if (size < SETUP_BYTES)
		return;
	setup_decode(&offer, bytes);
	setup_encode(&offer, again);
	/* a context has 4 bytes in DAT 1.2 and 8 in DAT 2.0 */
	require(!memcmp(again, bytes, 4) && !memcmp(again + 8, bytes + 8, SETUP_BYTES - 8));
}

/* Private data are those of one lane, or of none. */
static void fuzz_invitation(const unsigned char *bytes, size_t size)
{
	const struct invitation first = { .port = 45279 }, second = { .port = 45279, .lane = 1 };

	require(!(invitation_equals(&first, bytes, size) &&
		  invitation_equals(&second, bytes, size)));
	require(size >= INVITATION_BYTES || !invitation_equals(&first, bytes, size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char *bytes = fuzz_copy(data, size, false);

	if (size <= MESSAGE_MAX)
		fuzz_message(bytes, size);
	fuzz_offer(bytes, size);
	fuzz_invitation(bytes, size);
	free(bytes);
	return 0;
}
