/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The same thing a thousand times: nothing is left behind, neither descriptors nor memory nor
 * threads.
 */
#include <malloc.h>
#include <stdio.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "peer.h"

#define KIB 1024

static size_t resident(void)
{
	size_t pages;
	FILE *statm = fopen("/proc/self/statm", "r");

	ck_assert_ptr_nonnull(statm);
	ck_assert_int_eq(fscanf(statm, "%*u %zu", &pages), 1);
	fclose(statm);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* What the process holds. */
struct holdings {
	unsigned descriptors, threads;
	size_t heap, resident; /* bytes */
};

static struct holdings holdings(void)
{
	return (struct holdings){
		.descriptors = entries("/proc/self/fd"),
		.threads = entries("/proc/self/task"),
		.heap = mallinfo2().uordblks + mallinfo2().hblkhd,
		.resident = resident(),
	};
}

/*
 * Some slack for caches of the libraries below; a leak of a hundred bytes in each cycle exceeds it.
 */
static void no_growth(const struct holdings *before, unsigned cycles)
{
	struct holdings after = holdings();

	ck_assert_uint_eq(after.descriptors, before->descriptors);
	/*
	 * a thread that was joined may stand in the listing for a moment yet, here and in the one
	 * before
	 */
	for (unsigned looks = 0; after.threads > before->threads && looks < 10000; looks++) {
		sched_yield();
		after.threads = entries("/proc/self/task");
	}
	ck_assert_uint_le(after.threads, before->threads);
	ck_assert_uint_le(after.heap, before->heap + 100 * cycles);
	ck_assert_uint_le(after.resident, before->resident + 256 * KIB + 500 * cycles);
}

START_TEST(a_thousand_connections)
{
	struct holdings before = { 0 };
	DAT_CONN_QUAL qual;
	struct pair pair;

	pair_open_unconnected(&pair, NULL);
	listen_any(&pair.far, &qual);
	for (unsigned i = 0; i < 1000; i++) {
		if (i == 100) /* by now everything that is made once has been made */
			before = holdings();
		must(connect_to(pair.near.ep, &pair.far, qual, LONG));
		request_accept(request_take(&pair.far), pair.far.ep);
		connection_event_wait(pair.near.connects, DAT_CONNECTION_EVENT_ESTABLISHED,
				      pair.near.ep);
		connection_event_wait(pair.far.connects, DAT_CONNECTION_EVENT_ESTABLISHED,
				      pair.far.ep);
		must(dat_ep_disconnect(i % 2 ? pair.near.ep : pair.far.ep,
				       i % 3 ? DAT_CLOSE_ABRUPT_FLAG : DAT_CLOSE_GRACEFUL_FLAG));
		connection_event_wait(pair.near.connects, DAT_CONNECTION_EVENT_DISCONNECTED,
				      pair.near.ep);
		connection_event_wait(pair.far.connects, DAT_CONNECTION_EVENT_DISCONNECTED,
				      pair.far.ep);
		must(dat_ep_reset(pair.near.ep));
		must(dat_ep_reset(pair.far.ep));
	}
	no_growth(&before, 900);
	pair_connect(&pair);
	say_hello(&pair);
	pair_close(&pair);
}
END_TEST

START_TEST(connections_that_do_not_come_about)
{
	struct holdings before = { 0 };
	DAT_CONN_QUAL qual, nobody;
	struct pair pair;

	pair_open_unconnected(&pair, NULL);
	must(dat_psp_free(listen_any(&pair.far, &nobody)));
	listen_any(&pair.far, &qual);
	for (unsigned i = 0; i < 200; i++) {
		if (i == 50)
			before = holdings();
		must(connect_to(pair.near.ep, &pair.far, qual, LONG));
		must(dat_cr_reject(request_take(&pair.far)));
		connection_event_wait(pair.near.connects, DAT_CONNECTION_EVENT_PEER_REJECTED,
				      pair.near.ep);
		must(dat_ep_reset(pair.near.ep));
		must(connect_to(pair.near.ep, &pair.far, nobody, LONG));
		connection_event_wait(pair.near.connects, DAT_CONNECTION_EVENT_NON_PEER_REJECTED,
				      pair.near.ep);
		must(dat_ep_reset(pair.near.ep));
	}
	no_growth(&before, 150);
	pair_connect(&pair);
	say_hello(&pair);
	pair_close(&pair);
}
END_TEST

START_TEST(objects_come_and_go)
{
	struct holdings before = { 0 };
	struct side side;

	side_open(&side, 0);
	for (unsigned i = 0; i < 300; i++) {
		struct memory memory;
		DAT_CNO_HANDLE cno;
		DAT_EVD_HANDLE evd;
		DAT_CONN_QUAL qual;

		if (i == 50)
			before = holdings();
		must(dat_cno_create(side.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
		must(dat_evd_create(side.ia, 32, cno, DAT_EVD_DTO_FLAG, &evd));
		memory = memory_make(&side, 8192, DAT_MEM_PRIV_ALL_FLAG);
		side.ep = ep_make(&side, NULL);
		recv_post(side.ep, i, seg(&memory, 0, 100));
		must(dat_psp_free(listen_any(&side, &qual)));
		must(dat_ep_free(side.ep));
		must(dat_lmr_free(memory.lmr));
		munmap(memory.at, memory.size);
		must(dat_evd_free(evd));
		must(dat_cno_free(cno));
	}
	no_growth(&before, 250);
	side_close(&side);
}
END_TEST

/* An instance needs a handful of descriptors. 400 of them, one after the other, get by with 50. */
START_TEST(opens_with_few_descriptors)
{
	const struct rlimit few = { 50, 50 };
	struct holdings before = { 0 };

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	for (unsigned i = 0; i < 400; i++) {
		DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
		DAT_IA_HANDLE ia;

		if (i == 50)
			before = holdings();
		must(dat_ia_openv((DAT_NAME_PTR)ia_name(0, BY_INTERFACE), 8, &async, &ia, 1, 2,
				  DAT_FALSE));
		must(dat_ia_close(ia, i % 2 ? DAT_CLOSE_ABRUPT_FLAG : DAT_CLOSE_GRACEFUL_FLAG));
	}
	no_growth(&before, 350);
}
END_TEST

/* Without descriptors the open fails, wherever on the way that is, and leaves all as it was. */
START_TEST(opens_without_descriptors)
{
	DAT_EVD_HANDLE async = (DAT_EVD_HANDLE)NULL;
	unsigned refused = 0;
	DAT_IA_HANDLE ia;
	unsigned base;

	/* what is loaded and opened once has been */
	must(dat_ia_openv((DAT_NAME_PTR)ia_name(0, BY_INTERFACE), 8, &async, &ia, 1, 2, DAT_FALSE));
	must(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
	base = entries("/proc/self/fd");
	setenv("DAPL_DBG_TYPE", "0", 1);
	for (unsigned spare = 0; spare < 30; spare++) {
		const struct rlimit few = { base + spare, 4096 };
		DAT_RETURN ret;

		async = DAT_HANDLE_NULL;
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
		ret = dat_ia_openv((DAT_NAME_PTR)ia_name(0, BY_INTERFACE), 8, &async, &ia, 1, 2,
				   DAT_FALSE);
		if (ret == DAT_SUCCESS) {
			must(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
		} else {
			ck_assert_uint_eq(DAT_GET_TYPE(ret), DAT_INSUFFICIENT_RESOURCES);
			ck_assert_ptr_null(ia);
			ck_assert_ptr_null(async);
			refused++;
		}
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 4096, 4096 }), 0);
		ck_assert_uint_eq(entries("/proc/self/fd"), base);
	}
	ck_assert_uint_gt(refused, 2);
	ck_assert_uint_lt(refused, 30);
}
END_TEST

int main(int argc, char **argv)
{
	const struct test tests[] = {
		{ a_thousand_connections, NEEDS_NOTHING },
		{ connections_that_do_not_come_about, NEEDS_NOTHING },
		{ objects_come_and_go, NEEDS_NOTHING },
		{ opens_with_few_descriptors, NEEDS_NOTHING },
		{ opens_without_descriptors, NEEDS_NOTHING },
	};

	return run(argc, argv, tests, COUNT(tests));
}
