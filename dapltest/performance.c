/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The performance test: the client reads or writes the server's memory, with as many requests in
 * flight as the pipeline has, and measures each. At the end a message tells the server that it is
 * over, and the side that the data came to checks them.
 */
#include "dapltest.h"

#include <stdlib.h>
#include <sys/resource.h>

enum {
	SAMPLES_KEPT = 100 * 1000, /* of more a random choice gives the percentiles */
	SEED = 77,
};

int card_create(struct card *card, unsigned operations)
{
	const size_t room = operations < SAMPLES_KEPT ? operations : SAMPLES_KEPT;

	*card = (struct card){ .pipeline = 0 };
	if (samples_create(&card->latency, room) == 0 && samples_create(&card->posts, 1) == 0 &&
	    samples_create(&card->reaps, 1) == 0)
		return 0;
	complain(DAPLTEST ": no memory for %zu samples", room);
	card_destroy(card);
	return -1;
}

void card_destroy(struct card *card)
{
	samples_destroy(&card->latency);
	samples_destroy(&card->posts);
	samples_destroy(&card->reaps);
}

/* Tells whether this is the side that the data come from. */
static bool lane_is_source(const struct lane *lane)
{
	return lane->crew->test->server == (lane_operation(lane, 0)->transfer == TRANSFER_READ);
}

void performance_prepare(struct lane *lane)
{
	if (lane_is_source(lane))
		pattern_fill(lane->memory.at + lane->crew->test->offsets[0],
			     operation_bytes(lane_operation(lane, 0)), SEED);
}

static int lane_check_data(const struct lane *lane)
{
	ptrdiff_t wrong;

	if (lane_is_source(lane))
		return 0;
	wrong = pattern_check(lane->memory.at + lane->crew->test->offsets[0],
			      operation_bytes(lane_operation(lane, 0)), SEED);
	if (wrong < 0)
		return 0;
	report("%s: Validation Error: byte %td is wrong", lane->channel.origin.name, wrong);
	return -1;
}

/* Waits as long as the client works: if it is gone, that ends the connection or the session. */
static int performance_serve(struct lane *lane)
{
	if (lane_receive_setup(lane, DAT_TIMEOUT_INFINITE) < 0)
		return -1;
	return lane_check_data(lane);
}

static int lane_reap_one(struct lane *lane, struct card *card, double posted_at)
{
	double begun = tool_usec_now(), now;
	DAT_VLEN length;

	if (channel_complete(&lane->channel, lane->channel.request_evd, lane->reaped, PEER_TIMEOUT,
			     &length) < 0)
		return -1;
	now = tool_usec_now();
	if (length != operation_bytes(lane_operation(lane, 0))) {
		report_failure(&lane->channel.origin, "completion", "length %lu in place of %zu",
			       (unsigned long)length, operation_bytes(lane_operation(lane, 0)));
		return -1;
	}
	lane->reaped++;
	samples_add(&card->reaps, now - begun);
	samples_add(&card->latency, now - posted_at);
	return 0;
}

static int lane_post_one(struct lane *lane, struct card *card, double *posted_at)
{
	*posted_at = tool_usec_now();
	if (lane_post_operation(lane, 0) < 0)
		return -1;
	samples_add(&card->posts, tool_usec_now() - *posted_at);
	return 0;
}

static int performance_measure(struct lane *lane, struct card *card, double *posted_at)
{
	const unsigned iterations = lane->crew->test->plan->iterations;
	unsigned posted = 0;

	for (unsigned reaped = 0; reaped < iterations; reaped++) {
		if (patience_ended(&lane->crew->patience))
			return -1;
		for (; posted < iterations && posted - reaped < card->pipeline; posted++)
			if (lane_post_one(lane, card, &posted_at[posted % card->pipeline]) < 0)
				return -1;
		if (lane_reap_one(lane, card, posted_at[reaped % card->pipeline]) < 0)
			return -1;
		atomic_fetch_add_explicit(&lane->crew->iterations, 1, memory_order_relaxed);
	}
	return 0;
}

static double cpu_usec(void)
{
	struct rusage usage;

	(void)getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static int performance_drive(struct lane *lane)
{
	struct card *card = lane->crew->test->card;
	double begun = tool_usec_now(), cpu = cpu_usec();
	double *posted_at;
	int result;

	card->pipeline = lane->crew->test->plan->pipeline;
	posted_at = calloc(card->pipeline, sizeof(*posted_at));
	if (!posted_at) {
		report_failure(&lane->channel.origin, "calloc", "no memory");
		return -1;
	}
	result = performance_measure(lane, card, posted_at);
	lane->crew->begun = begun;
	lane->crew->ended = tool_usec_now();
	card->cpu = 100 * (cpu_usec() - cpu) / (lane->crew->ended - begun);
	free(posted_at);
	if (result < 0 || lane_send_setup(lane) < 0)
		return -1;
	return lane_check_data(lane);
}

int performance_run(struct crew *crew)
{
	return crew->test->server ? performance_serve(&crew->lanes[0])
				  : performance_drive(&crew->lanes[0]);
}

/* ---- results ---- */

static void times_print(const char *what, const struct samples *samples)
{
	report("    %s", what);
	report("        Arithmetic Mean        : %.2f us", samples_mean(samples));
	report("        Maximum                : %.2f us", samples->max);
	report("        Minimum                : %.2f us", samples->min);
}

void performance_print(const struct test *test)
{
	const struct plan *plan = test->plan;
	const struct operation *op = &plan->ops[0];
	const bool read = op->transfer == TRANSFER_READ;
	struct card *card = test->card;
	const double seconds = (test->crews[0].ended - test->crews[0].begun) / 1e6;
	const double rate = plan->iterations / seconds;
	const double megabytes = (double)operation_bytes(op) * plan->iterations / (1 << 20);
	const double latency = samples_mean(&card->latency);

	report("------------------------- Statistics -------------------------");
	report("    Mode                       : %s", plan->poll ? "Polling" : "Blocking");
	report("    Operation Type             : RDMA %s", read ? "Read" : "Write");
	report("    Number of Operations       : %u", plan->iterations);
	report("    Segment Size               : %u", op->segment_size);
	report("    Number of Segments         : %u", op->segments);
	report("    Pipeline Length            : %u", card->pipeline);
	report("    Total Time                 : %.2f sec", seconds);
	report("    Total Data Exchanged       : %.2f MB", megabytes);
	report("    CPU Utilization            : %.2f", card->cpu);
	report("    Operation Throughput       : %.2f ops/sec", rate);
	report("    Bandwidth                  : %.2f MB/sec", megabytes / seconds);
	report("    Latency                    : %.2f us", latency);
	report("        50%%, 90%%, 99%%, 99.9%%    : %.2f, %.2f, %.2f, %.2f us",
	       samples_percentile(&card->latency, 50), samples_percentile(&card->latency, 90),
	       samples_percentile(&card->latency, 99), samples_percentile(&card->latency, 99.9));
	report("        Maximum                : %.2f us", card->latency.max);
	report("        Minimum                : %.2f us", card->latency.min);
	times_print("Time Per Post", &card->posts);
	times_print("Time Per Reap", &card->reaps);
	report("raw columns: operation, operations, segment size, segments, pipeline, CPU %%, "
	       "ops/sec, MB/sec, latency us, us per post, us per reap");
	report("raw: %s, %u, %u, %u, %u, %.2f, %.2f, %.2f, %.2f, %.2f, %.2f ", read ? "RR" : "RW",
	       plan->iterations, op->segment_size, op->segments, card->pipeline, card->cpu, rate,
	       megabytes / seconds, latency, samples_mean(&card->posts),
	       samples_mean(&card->reaps));
}
