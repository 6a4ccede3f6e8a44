/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which plans there are. The command line and the server, whose clients may be any program, take
 * the same ones.
 */
#include "dapltest.h"

enum {
	ALIGNMENT = 64, /* of the operations' buffers */
};

#define OPERATION_BYTES_MAX ((uint64_t)SEGMENTS_MAX * SEGMENT_SIZE_MAX)

_Static_assert(INT64_MAX / LANES_MAX / (OPS_MAX + BARRIERS + 1) > OPERATION_BYTES_MAX,
	       "the bytes of all lanes are counted in 64 bits");
_Static_assert(PIPELINE_MAX < INT32_MAX - OPS_MAX - BARRIERS - 2,
	       "the requests of an endpoint are a DAT_COUNT");

const struct plan_range plan_ranges[] = {
	[PLAN_MODE] = { "the plan's mode", MODE_QUIT, MODE_PERFORMANCE },
	[PLAN_ITERATIONS] = { "the plan's number of iterations", 1, INT32_MAX },
	[PLAN_THREADS] = { "the plan's number of threads", 1, THREADS_MAX },
	[PLAN_LANES] = { "the plan's number of endpoints", 1, LANES_MAX },
	[PLAN_VALIDATE] = { "the plan's word for -V", 0, 1 },
	[PLAN_POLL] = { "the plan's word for -P", 0, 1 },
	[PLAN_CNO] = { "the plan's word for -Q", 0, 1 },
	[PLAN_RSP] = { "the plan's word for -r", 0, 1 },
	[PLAN_PIPELINE] = { "the plan's pipeline", 0, PIPELINE_MAX },
	[PLAN_QOS] = { "the plan's quality of service", 0, DAT_QOS_PREMIUM },
	[PLAN_OP_COUNT] = { "the plan's number of operations", 0, OPS_MAX + BARRIERS },
	[PLAN_BY_SERVER] = { "the side of an operation", 0, 1 },
	[PLAN_TRANSFER] = { "the kind of an operation", TRANSFER_SEND, TRANSFER_READ },
	[PLAN_SEGMENT_SIZE] = { "the segment size of an operation", 1, SEGMENT_SIZE_MAX },
	[PLAN_SEGMENTS] = { "the number of segments of an operation", 1, SEGMENTS_MAX },
	[PLAN_REAP_LATE] = { "the word for -f of an operation", 0, 1 },
};

uint64_t plan_lay_out(const struct plan *plan, size_t offsets[])
{
	uint64_t offset = LANE_SETUP;

	for (unsigned i = 0; i < plan->op_count; i++) {
		offsets[i] = (size_t)offset;
		offset += (uint64_t)plan->ops[i].segment_size * plan->ops[i].segments;
		offset += ALIGNMENT - 1;
		offset -= offset % ALIGNMENT;
	}
	offsets[plan->op_count] = (size_t)offset;
	return offset;
}

/*
 * With a send each way neither side can be more than an iteration ahead, so that each send finds a
 * receive posted.
 */
const char *plan_sends_problem(const struct plan *plan)
{
	static const char unpaired[] =
		"the -f of a client SR and that of a server SR must follow each other";
	bool sends[2] = { false, false }, server_next = false;

	for (unsigned i = 0; i < plan->op_count; i++) {
		const struct operation *op = &plan->ops[i];

		if (op->reap_late && op->transfer != TRANSFER_SEND)
			return "-f: only SR has it";
		sends[op->by_server] |= op->transfer == TRANSFER_SEND;
		if (!op->reap_late)
			continue;
		if (op->by_server != server_next)
			return unpaired;
		server_next = !server_next;
	}
	if (server_next)
		return unpaired;
	return sends[false] && sends[true] ? NULL : "there must be a client SR and a server SR";
}

static bool plan_ends_in_barriers(const struct plan *plan)
{
	if (plan->op_count < BARRIERS)
		return false;
	for (unsigned i = 0; i < BARRIERS; i++) {
		const struct operation *op = &plan->ops[plan->op_count - BARRIERS + i];

		if (op->transfer != TRANSFER_SEND || op->by_server != (i != 1))
			return false;
	}
	return true;
}

static const char *plan_transaction_problem(const struct plan *plan)
{
	if (plan->pipeline > 0)
		return "-T T has no pipeline";
	if (plan->validate && !plan_ends_in_barriers(plan))
		return "-V needs the three sends that separate the iterations";
	return plan_sends_problem(plan);
}

/* The server posts nothing, so it needs no room for the pipeline. */
static const char *plan_performance_problem(const struct plan *plan)
{
	if (plan->threads > 1 || plan->lanes > 1)
		return "-T P has one endpoint";
	if (plan->op_count != 1)
		return "-T P has one operation";
	if (plan->ops[0].by_server || plan->ops[0].reap_late)
		return "the client posts the operation of -T P, without -f";
	return plan->ops[0].transfer == TRANSFER_SEND ? "SR is no operation of -T P" : NULL;
}

size_t operation_bytes(const struct operation *op)
{
	return (size_t)op->segment_size * op->segments;
}

/* Counts with 64 bits: from here on operation_bytes fits into the size_t of this host. */
const char *plan_sizes_problem(const struct plan *plan)
{
	const struct operation *op = plan->ops;

	for (unsigned i = 0; i < plan->op_count; i++, op++)
		if ((uint64_t)op->segment_size * op->segments > TRANSFER_BYTES_MAX)
			return "an operation has more bytes than a transfer of DAT " TOOL_DAT
			       " can have";
	return NULL;
}

const char *plan_problem(const struct plan *plan)
{
	const char *problem = plan_sizes_problem(plan);

	if (problem)
		return problem;
	if ((uint64_t)plan->threads * plan->lanes > LANES_MAX)
		return "threads and endpoints make more endpoints than there may be";
	switch (plan->mode) {
	case MODE_TRANSACTION:
		return plan_transaction_problem(plan);
	case MODE_PERFORMANCE:
		return plan_performance_problem(plan);
	default:
		return plan->op_count ? "-T Q has no operations" : NULL;
	}
}
