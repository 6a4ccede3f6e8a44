/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What registering memory costs a program: for each message, as MPI does without a cache, and for
 * the first time. `make bench-rendezvous` prints both; doc/design.md has what came of it.
 *
 * The first is what a pool of idle regions would save, in the two kinds of rendezvous:
 *
 *	put	the receiver exposes its buffer, the sender registers its own and writes
 *	get	the sender exposes its buffer, the receiver registers its own and reads
 *
 * A pool keeps regions without remote rights only, so it saves the registration of one of the two
 * sides, and the other side registers. The third way keeps both, which no pool of a provider may
 * do: it is the most that a program can save that keeps its regions itself.
 *
 * The three ways take turns, so what else this machine does disturbs them alike. Each figure is the
 * median of ROUNDS ratios.
 *
 * The second is the registration of new memory, and the first write of a peer to it beside the next
 * one. DAPL_LMR_ODP and DAPL_OFI_POPULATE move the cost of new pages from the one to the other.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../consumer/consumer.h"
#include "bench.h"

#define ROUNDS	 31
#define LARGEST	 ((size_t)4 << 20)
#define PER_TURN ((size_t)8 << 20) /* bytes; and at least 8 messages */

enum kind { PUT, GET, KINDS };
enum way { ALL, LOCAL_KEPT, BOTH_KEPT, WAYS };

static const char *const kind_names[] = { "put", "get" };
static const size_t sizes[] = { 4096, 16384, 65536, 262144, 1048576, LARGEST };

/* What one side does with a buffer of its own. */
struct end_memory {
	const struct side *side;
	void *at;
	DAT_MEM_PRIV_FLAGS priv;
	struct region kept; /* all of it */
};

/* Takes a completion of @evd, while the other side is polled, as its process would do. */
static void await(DAT_EVD_HANDLE evd, DAT_EVD_HANDLE other)
{
	DAT_EVENT event;

	while (dat_evd_dequeue(evd, &event) != DAT_SUCCESS)
		ck_assert_uint_eq(DAT_GET_TYPE(dat_evd_dequeue(other, &event)), DAT_QUEUE_EMPTY);
	ck_assert_uint_eq(event.event_data.dto_completion_event_data.status, DAT_DTO_SUCCESS);
}

/* One message of 16 bytes, which stands for an envelope or the end of a transfer. */
static void tell(const struct side *from, const struct side *to)
{
	post_recv(to->ep, 0, segment(to, 0, 16));
	post_send(from->ep, 0, segment(from, 0, 16), DAT_COMPLETION_DEFAULT_FLAG);
	await(to->recv_evd, from->recv_evd);
	await(from->request_evd, to->recv_evd);
}

static struct region memory_take(const struct end_memory *memory, size_t size, bool keeps)
{
	return keeps ? memory->kept : region_over(memory->side, memory->at, size, memory->priv);
}

static void memory_give(const struct region *region, bool keeps)
{
	if (!keeps)
		ck_assert_uint_eq(dat_lmr_free(region->lmr), DAT_SUCCESS);
}

/* The side that is exposed tells the other one, which transfers and tells it the end. */
static void rendezvous(enum kind kind, enum way way, const struct end_memory *exposed,
		       const struct end_memory *local, size_t size)
{
	const struct side *origin = local->side, *target = exposed->side;
	struct region there = memory_take(exposed, size, way == BOTH_KEPT), here;

	tell(target, origin);
	here = memory_take(local, size, way != ALL);
	if (kind == PUT)
		post_write(origin->ep, 0, region_segment(&here, 0, size),
			   region_target(&there, 0, size), DAT_COMPLETION_DEFAULT_FLAG);
	else
		post_read(origin->ep, 0, region_segment(&here, 0, size),
			  region_target(&there, 0, size), DAT_COMPLETION_DEFAULT_FLAG);
	await(origin->request_evd, target->recv_evd);
	memory_give(&here, way != ALL);
	tell(origin, target);
	memory_give(&there, way == BOTH_KEPT);
}

/* Returns how many ns a message takes. */
static double turn(enum kind kind, enum way way, const struct end_memory *exposed,
		   const struct end_memory *local, size_t size)
{
	const size_t messages = PER_TURN / size < 8	? 8
				: PER_TURN / size > 256 ? 256
							: PER_TURN / size;
	const uint64_t from = clock_ns();

	for (size_t i = 0; i < messages; i++)
		rendezvous(kind, way, exposed, local, size);
	return (double)(clock_ns() - from) / (double)messages;
}

static void measure(enum kind kind, const struct end_memory *exposed,
		    const struct end_memory *local, size_t size)
{
	double all[ROUNDS], saved[WAYS][ROUNDS];

	for (int round = 0; round < ROUNDS; round++) {
		double ns[WAYS];

		for (enum way way = 0; way < WAYS; way++)
			ns[way] = turn(kind, way, exposed, local, size);
		all[round] = ns[ALL] / 1000;
		for (enum way way = 0; way < WAYS; way++)
			saved[way][round] = 100 * (1 - ns[way] / ns[ALL]);
	}
	printf("%s %8zu bytes: %9.1f us; a pool saves %5.1f %%, both sides' regions kept %5.1f "
	       "%%\n",
	       kind_names[kind], size, median(all, ROUNDS), median(saved[LOCAL_KEPT], ROUNDS),
	       median(saved[BOTH_KEPT], ROUNDS));
	fflush(stdout);
}

START_TEST(a_pool_saves)
{
	struct end_memory exposed, local;
	struct pair pair;

	pair_open(&pair, NULL);
	for (enum kind kind = 0; kind < KINDS; kind++) {
		exposed = (struct end_memory){ .side = &pair.server,
					       .at = aligned_alloc(4096, LARGEST) };
		local = (struct end_memory){ .side = &pair.client,
					     .at = aligned_alloc(4096, LARGEST) };
		exposed.priv = kind == PUT ? LOCAL | DAT_MEM_PRIV_REMOTE_WRITE_FLAG
					   : LOCAL | DAT_MEM_PRIV_REMOTE_READ_FLAG;
		local.priv = kind == PUT ? DAT_MEM_PRIV_LOCAL_READ_FLAG : LOCAL;
		memset(exposed.at, 1, LARGEST);
		memset(local.at, 2, LARGEST);
		exposed.kept = region_over(exposed.side, exposed.at, LARGEST, exposed.priv);
		local.kept = region_over(local.side, local.at, LARGEST, local.priv);
		for (size_t i = 0; i < COUNT(sizes); i++)
			measure(kind, &exposed, &local, sizes[i]);
		ck_assert_uint_eq(dat_lmr_free(exposed.kept.lmr), DAT_SUCCESS);
		ck_assert_uint_eq(dat_lmr_free(local.kept.lmr), DAT_SUCCESS);
		free(exposed.at);
		free(local.at);
	}
	pair_close(&pair);
}
END_TEST

/* Returns how many us the client's write of all of the region takes. */
static double write_all(const struct pair *pair, const struct region *from, const struct region *to)
{
	const uint64_t begin = clock_ns();

	post_write(pair->client.ep, 0, region_segment(from, 0, to->size),
		   region_target(to, 0, to->size), DAT_COMPLETION_DEFAULT_FLAG);
	await(pair->client.request_evd, pair->server.recv_evd);
	return (double)(clock_ns() - begin) / 1000;
}

static void measure_first_touch(const struct pair *pair, const struct region *from, size_t size)
{
	double registering[ROUNDS], first[ROUNDS], next[ROUNDS];

	for (int round = 0; round < ROUNDS; round++) {
		void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				    -1, 0);
		struct region region;
		uint64_t begin;

		ck_assert_ptr_ne(memory, MAP_FAILED);
		begin = clock_ns();
		region = region_over(&pair->server, memory, size, DAT_MEM_PRIV_ALL_FLAG);
		registering[round] = (double)(clock_ns() - begin) / 1000;
		first[round] = write_all(pair, from, &region);
		next[round] = write_all(pair, from, &region);
		ck_assert_uint_eq(dat_lmr_free(region.lmr), DAT_SUCCESS);
		munmap(memory, size);
	}
	printf("new %8zu bytes: registration %9.1f us, first write %9.1f us, next %9.1f us\n", size,
	       median(registering, ROUNDS), median(first, ROUNDS), median(next, ROUNDS));
	fflush(stdout);
}

START_TEST(a_first_touch_costs)
{
	struct region from;
	struct pair pair;

	pair_open(&pair, NULL);
	from = region_map(&pair.client, LARGEST, LOCAL);
	for (size_t i = 0; i < COUNT(sizes); i++)
		measure_first_touch(&pair, &from, sizes[i]);
	region_unmap(&from);
	pair_close(&pair);
}
END_TEST

int main(int argc, char **argv)
{
	const struct device_case cases[] = {
		{ a_pool_saves, NEEDS_NOTHING },
		{ a_first_touch_costs, NEEDS_NOTHING },
	};

	return run_on_device(argc, argv, cases, COUNT(cases));
}
