/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transaction test: each iteration does the operations in their order, each on all lanes of the
 * thread before the next. The side that posts an operation waits for its completion, the other one
 * for the message of a send and for nothing of an RDMA.
 *
 * With validation the three sends at the end of an iteration are barriers. After the first of them
 * the client knows that the server's RDMA of this iteration is done, so it checks what was written
 * into its memory and renews what will be read from there; after the second the server does.
 */
#include "dapltest.h"

static bool operation_is_ours(const struct lane *lane, const struct operation *op)
{
	return op->by_server == lane->crew->test->server;
}

static unsigned char *lane_buffer(const struct lane *lane, unsigned i)
{
	return lane->memory.at + lane->crew->test->offsets[i];
}

static void lane_fill(const struct lane *lane, unsigned i, unsigned iteration)
{
	pattern_fill(lane_buffer(lane, i), operation_bytes(lane_operation(lane, i)),
		     lane_seed(lane, i, iteration));
}

static int lane_check(const struct lane *lane, unsigned i, unsigned iteration)
{
	const struct operation *op = lane_operation(lane, i);
	char text[64];
	ptrdiff_t wrong = pattern_check(lane_buffer(lane, i), operation_bytes(op),
					lane_seed(lane, i, iteration));

	if (wrong < 0)
		return 0;
	report("%s: Validation Error: #%d, iteration %u, operation %u (%s): byte %td is wrong; "
	       "over TCP that is seen, too, if the program at the other end takes a completed "
	       "send for a received one: DAPL_OFI_DELIVERED_SENDS=1 on its host makes it so",
	       lane->channel.origin.name, lane->channel.origin.lane, iteration, i,
	       operation_text(op, text, sizeof(text)), wrong);
	return -1;
}

static int lane_post_receive_of(struct lane *lane, unsigned i)
{
	const struct operation *op = lane_operation(lane, i);

	return lane_post_receive(lane, lane->crew->test->offsets[i], op->segments,
				 op->segment_size);
}

/* Writes what the peer reads in this iteration. */
static void lane_offer(const struct lane *lane, unsigned iteration)
{
	const struct plan *plan = lane->crew->test->plan;

	for (unsigned i = 0; i < plan->op_count; i++)
		if (plan->ops[i].transfer == TRANSFER_READ &&
		    !operation_is_ours(lane, &plan->ops[i]))
			lane_fill(lane, i, iteration);
}

int transaction_prepare(struct lane *lane)
{
	const struct plan *plan = lane->crew->test->plan;

	for (unsigned i = 0; i < plan->op_count; i++)
		if (plan->ops[i].transfer == TRANSFER_SEND &&
		    !operation_is_ours(lane, &plan->ops[i]) && lane_post_receive_of(lane, i) < 0)
			return -1;
	if (plan->validate)
		lane_offer(lane, 0);
	return 0;
}

static void crew_count(struct crew *crew, const struct operation *op)
{
	struct tally *tally = &crew->tally;

	tally->requests++;
	switch (op->transfer) {
	case TRANSFER_SEND:
		tally->sent += operation_bytes(op);
		break;
	case TRANSFER_WRITE:
		tally->written += operation_bytes(op);
		break;
	case TRANSFER_READ:
		tally->read += operation_bytes(op);
		break;
	}
}

/* Does an operation that this side posts. */
static int crew_post(struct crew *crew, unsigned i, unsigned iteration)
{
	const struct plan *plan = crew->test->plan;
	const struct operation *op = &plan->ops[i];

	for (unsigned j = 0; j < plan->lanes; j++) {
		if (plan->validate && op->transfer != TRANSFER_READ)
			lane_fill(&crew->lanes[j], i, iteration);
		if (lane_post_operation(&crew->lanes[j], i) < 0)
			return -1;
		crew_count(crew, op);
	}
	if (op->reap_late)
		return 0;
	for (unsigned j = 0; j < plan->lanes; j++) {
		if (lane_reap_all(&crew->lanes[j], i) < 0)
			return -1;
		if (plan->validate && op->transfer == TRANSFER_READ &&
		    lane_check(&crew->lanes[j], i, iteration) < 0)
			return -1;
	}
	return 0;
}

/* Returns the last send of this side before operation @i, cyclically, which is reaped late. */
static unsigned plan_previous_send(const struct test *test, unsigned i)
{
	const struct plan *plan = test->plan;

	do
		i = (i ? i : plan->op_count) - 1;
	while (plan->ops[i].by_server != test->server || plan->ops[i].transfer != TRANSFER_SEND);
	return i;
}

/*
 * Takes the message of an operation that the peer posts. Its buffer is used again in each
 * iteration.
 */
static int crew_receive(struct crew *crew, unsigned i, unsigned iteration)
{
	const struct plan *plan = crew->test->plan;
	const struct operation *op = &plan->ops[i];
	const bool last = iteration + 1 == plan->iterations;

	for (unsigned j = 0; j < plan->lanes; j++) {
		struct lane *lane = &crew->lanes[j];

		if (lane_receive(lane, operation_bytes(op), PEER_TIMEOUT) < 0)
			return -1;
		crew->tally.received += operation_bytes(op);
		if (plan->validate && lane_check(lane, i, iteration) < 0)
			return -1;
		if (!last && lane_post_receive_of(lane, i) < 0)
			return -1;
		if (lane->reaped < lane->posted &&
		    lane_reap_all(lane, plan_previous_send(crew->test, i)) < 0)
			return -1;
	}
	return 0;
}

/*
 * This is done at a barrier: no RDMA of this iteration is to come, and none of the next one can
 * begin.
 */
static int crew_check_targets(struct crew *crew, unsigned iteration)
{
	const struct plan *plan = crew->test->plan;

	for (unsigned j = 0; j < plan->lanes; j++) {
		const struct lane *lane = &crew->lanes[j];

		for (unsigned i = 0; i < plan->op_count; i++)
			if (plan->ops[i].transfer == TRANSFER_WRITE &&
			    !operation_is_ours(lane, &plan->ops[i]) &&
			    lane_check(lane, i, iteration) < 0)
				return -1;
		if (iteration + 1 < plan->iterations)
			lane_offer(lane, iteration + 1);
	}
	return 0;
}

static bool operation_is_barrier(const struct test *test, unsigned i)
{
	const unsigned barriers = test->plan->op_count - BARRIERS;

	return test->plan->validate && i == (test->server ? barriers + 1 : barriers);
}

static int crew_iterate(struct crew *crew, unsigned iteration)
{
	const struct plan *plan = crew->test->plan;
	int result = 0;

	for (unsigned i = 0; i < plan->op_count && result == 0; i++) {
		const struct operation *op = &plan->ops[i];

		if (op->by_server == crew->test->server)
			result = crew_post(crew, i, iteration);
		else if (op->transfer == TRANSFER_SEND)
			result = crew_receive(crew, i, iteration);
		if (result == 0 && operation_is_barrier(crew->test, i))
			result = crew_check_targets(crew, iteration);
	}
	return result;
}

int transaction_run(struct crew *crew)
{
	const struct plan *plan = crew->test->plan;

	crew->begun = tool_usec_now();
	for (unsigned iteration = 0; iteration < plan->iterations; iteration++) {
		if (patience_ended(&crew->patience) || crew_iterate(crew, iteration) < 0)
			return -1;
		atomic_fetch_add_explicit(&crew->iterations, 1, memory_order_relaxed);
	}
	for (unsigned j = 0; j < plan->lanes; j++)
		if (crew->lanes[j].reaped < crew->lanes[j].posted &&
		    lane_reap_all(&crew->lanes[j], plan_previous_send(crew->test, 0)) < 0)
			return -1;
	crew->ended = tool_usec_now();
	return 0;
}

/* ---- results ---- */

static void tally_add(struct tally *sum, const struct tally *one)
{
	sum->requests += one->requests;
	sum->sent += one->sent;
	sum->received += one->received;
	sum->written += one->written;
	sum->read += one->read;
}

static void rate_print(const char *what, uint64_t bytes, double seconds)
{
	report("%-17s:   %10.2f MB - %10.2f MB/Sec", what, (double)bytes / 1e6,
	       (double)bytes / 1e6 / seconds);
}

/* Messages are counted as the client sees them, requests and RDMA of both sides. */
void transaction_print(const struct test *test, const struct tally *server)
{
	const struct crew *crews = test->crews;
	double begun = crews[0].begun, ended = crews[0].ended, seconds;
	struct tally sum = { .requests = server->requests,
			     .written = server->written,
			     .read = server->read };

	for (unsigned i = 0; i < test->plan->threads; i++) {
		tally_add(&sum, &crews[i].tally);
		begun = crews[i].begun < begun ? crews[i].begun : begun;
		ended = crews[i].ended > ended ? crews[i].ended : ended;
	}
	seconds = (ended - begun) / 1e6;
	if (seconds < 1e-3) {
		report("----- Test completed successfully, but cannot calculate stats as not "
		       "enough time has elapsed.");
		return;
	}
	report("----- Stats ---- : %u threads, %u EPs", test->plan->threads, test->plan->lanes);
	report("%-17s:   %10.2f WQE/Sec", "Total WQE", (double)sum.requests / seconds);
	report("%-17s:   %10.4f sec", "Total Time", seconds);
	rate_print("Total Send", sum.sent, seconds);
	rate_print("Total Recv", sum.received, seconds);
	rate_print("Total RDMA Read", sum.read, seconds);
	rate_print("Total RDMA Write", sum.written, seconds);
}
