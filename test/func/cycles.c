/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many cycles of the same operations leak nothing: no descriptors, no memory, no threads.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../consumer/consumer.h"

#define KIB 1024

/* The resources of this process. */
struct resources {
	unsigned descriptors, threads;
	size_t heap, resident; /* bytes */
};

static size_t heap_size(void)
{
	return mallinfo2().uordblks + mallinfo2().hblkhd;
}

static struct resources resources_now(void)
{
	(void)malloc_trim(0); /* what was freed may be resident or not */
	return (struct resources){
		.descriptors = count_entries("/proc/self/fd"),
		.threads = count_entries("/proc/self/task"),
		.heap = heap_size(),
		.resident = resident_size(),
	};
}

/* Libraries below free what a connection took when they notice its end, which may be later. */
static bool heap_falls_to(size_t most)
{
	for (unsigned ms = 0; ms < 10000 && heap_size() > most; ms++)
		usleep(1000);
	return heap_size() <= most;
}

/* An IA keeps what a thread has slept on for the next one that sleeps. */
static void sleep_once(const struct side *side)
{
	DAT_EVENT event;
	DAT_COUNT nmore;
	DAT_RETURN ret = dat_evd_wait(side->async_evd, 1000, 1, &event, &nmore);

	ck_assert_uint_eq(DAT_GET_TYPE(ret), DAT_TIMEOUT_EXPIRED);
}

/* The margin is for caches of the libraries below; a leak of 100 bytes in each cycle exceeds it. */
static void expect_no_growth(const struct resources *before, unsigned cycles)
{
	struct resources after;

	ck_assert(heap_falls_to(before->heap + 100 * cycles));
	ck_assert(threads_end(before->threads));
	after = resources_now();
	ck_assert_uint_eq(after.descriptors, before->descriptors);
	if (!SANITIZER_KEEPS_MEMORY)
		ck_assert_uint_le(after.resident, before->resident + 256 * KIB + 500 * cycles);
}

START_TEST(connections_leak_nothing)
{
	const unsigned cycles = in_guest() ? 150 : 900;
	struct resources before = { 0 };
	DAT_CONN_QUAL qual;
	struct pair pair;

	pair_open_unconnected(&pair, NULL);
	sleep_once(&pair.client);
	sleep_once(&pair.server);
	listen_any(&pair.server, &qual);
	for (unsigned i = 0; i < 100 + cycles; i++) {
		if (i == 100) /* what is allocated once has been allocated */
			before = resources_now();
		connect_and_accept(&pair, qual);
		expect_established(&pair);
		ck_dat(dat_ep_disconnect(i % 2 ? pair.client.ep : pair.server.ep,
					 i % 3 ? DAT_CLOSE_ABRUPT_FLAG : DAT_CLOSE_GRACEFUL_FLAG));
		expect_disconnected(&pair);
		pair_reset(&pair);
	}
	expect_no_growth(&before, cycles);
	pair_connect(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(failed_connections_leak_nothing)
{
	struct resources before = { 0 };
	DAT_CONN_QUAL qual, unused;
	struct pair pair;

	pair_open_unconnected(&pair, NULL);
	sleep_once(&pair.client);
	sleep_once(&pair.server);
	ck_dat(dat_psp_free(listen_any(&pair.server, &unused)));
	listen_any(&pair.server, &qual);
	for (unsigned i = 0; i < 200; i++) {
		if (i == 50)
			before = resources_now();
		ck_dat(try_connect(pair.client.ep, &pair.server, qual, TIME_LIMIT));
		ck_dat(CR_REJECT(expect_cr(&pair.server)));
		expect_connection(&pair.client, DAT_CONNECTION_EVENT_PEER_REJECTED);
		ck_dat(dat_ep_reset(pair.client.ep));
		ck_dat(try_connect(pair.client.ep, &pair.server, unused, TIME_LIMIT));
		expect_connection(&pair.client, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
		ck_dat(dat_ep_reset(pair.client.ep));
	}
	before.heap += 150 * device()->kept_per_reject;
	before.resident += 150 * device()->kept_per_reject;
	expect_no_growth(&before, 150);
	pair_connect(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(objects_leak_nothing)
{
	struct resources before = { 0 };
	struct side side;

	side_open_bare(&side, SERVER);
	for (unsigned i = 0; i < 300; i++) {
		struct region region;
		DAT_CNO_HANDLE cno;
		DAT_EVD_HANDLE evd;
		DAT_CONN_QUAL qual;

		if (i == 50)
			before = resources_now();
		ck_dat(dat_cno_create(side.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
		ck_dat(dat_evd_create(side.ia, 32, cno, DAT_EVD_DTO_FLAG, &evd));
		region = region_map(&side, 8192, DAT_MEM_PRIV_ALL_FLAG);
		side.ep = side_create_ep(&side, NULL);
		post_recv(side.ep, i, region_segment(&region, 0, 100));
		ck_dat(dat_psp_free(listen_any(&side, &qual)));
		ck_dat(dat_ep_free(side.ep));
		region_unmap(&region);
		ck_dat(dat_evd_free(evd));
		ck_dat(dat_cno_free(cno));
	}
	expect_no_growth(&before, 250);
	side_close_abrupt(&side);
}
END_TEST

/* 400 IAs, one after the other, need no more than 50 descriptors; in a guest it is 150. */
START_TEST(repeated_opens_need_few_descriptors)
{
	const struct rlimit few = { 50, 50 };
	const unsigned cycles = in_guest() ? 100 : 350;
	struct resources before = { 0 };

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	for (unsigned i = 0; i < 50 + cycles; i++) {
		DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
		DAT_IA_HANDLE ia;

		if (i == 50)
			before = resources_now();
		ck_dat(dat_ia_open((DAT_NAME_PTR)ia_name(SERVER, BY_INTERFACE), 8, &async, &ia));
		ck_dat(dat_ia_close(ia, i % 2 ? DAT_CLOSE_ABRUPT_FLAG : DAT_CLOSE_GRACEFUL_FLAG));
	}
	expect_no_growth(&before, cycles);
}
END_TEST

/* An open that runs out of descriptors, at whichever step, fails and releases all. */
START_TEST(open_without_descriptors_releases_all)
{
	DAT_EVD_HANDLE async = (DAT_EVD_HANDLE)NULL;
	unsigned refused = 0;
	DAT_IA_HANDLE ia;
	unsigned base, used;

	/* what is loaded and opened once stays so */
	ck_dat(dat_ia_open((DAT_NAME_PTR)ia_name(SERVER, BY_INTERFACE), 8, &async, &ia));
	ck_dat(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
	base = count_entries("/proc/self/fd");
	used = base - 3; /* ".", "..", and the descriptor that lists them */
	setenv("DAPL_DBG_TYPE", "0", 1);
	for (unsigned spare = 0; spare < 30; spare++) {
		const struct rlimit few = { used + spare, 4096 };
		DAT_RETURN ret;

		async = DAT_HANDLE_NULL;
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
		ret = dat_ia_open((DAT_NAME_PTR)ia_name(SERVER, BY_INTERFACE), 8, &async, &ia);
		if (ret == DAT_SUCCESS) {
			ck_dat(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
		} else {
			ck_assert_uint_eq(DAT_GET_TYPE(ret), DAT_INSUFFICIENT_RESOURCES);
			ck_assert_ptr_null(ia);
			ck_assert_ptr_null(async);
			refused++;
		}
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 4096, 4096 }), 0);
		ck_assert_uint_eq(count_entries("/proc/self/fd"), base);
	}
	ck_assert_uint_gt(refused, 2);
	ck_assert_uint_lt(refused, 30);
}
END_TEST

int main(int argc, char **argv)
{
	const struct device_case cases[] = {
		{ connections_leak_nothing, NEEDS_NOTHING },
		{ failed_connections_leak_nothing, NEEDS_NOTHING },
		{ objects_leak_nothing, NEEDS_NOTHING },
		{ repeated_opens_need_few_descriptors, NEEDS_NOTHING },
		{ open_without_descriptors_releases_all, NEEDS_NOTHING },
	};

	return run_on_device(argc, argv, cases, COUNT(cases));
}
