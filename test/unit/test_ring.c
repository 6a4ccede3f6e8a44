/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ring of requests in flight: limits, retiring in bulk, late completions, positions that wrap
 * around.
 */
#include <limits.h>

#include "harness.h"

/* Positions count up for ever: each case begins here, and once across the place where they wrap. */
static const unsigned starts[] = { 0, 5, UINT_MAX - 2 };

static struct ring ring;

static void ring_start(unsigned limit, unsigned position)
{
	ck_assert_int_eq(ring_init(&ring, NULL, limit), 0);
	atomic_store(&ring.head, position);
	atomic_store(&ring.tail, position);
}

static struct req *claim(void)
{
	struct req *req;

	if (!ring_has_room(&ring))
		return NULL;
	req = ring_next(&ring);
	ring_push(&ring, req);
	return req;
}

START_TEST(the_limit_is_exact)
{
	static const unsigned limits[] = { 1, 2, 3, 7, 8, 9 };

	for (int i = 0; i < COUNT(limits); i++) {
		ring_start(limits[i], starts[_i]);
		for (unsigned n = 0; n < limits[i]; n++) {
			ck_assert_uint_eq(ring_used(&ring), n);
			ck_assert_ptr_nonnull(claim());
		}
		ck_assert_ptr_null(claim());
		ck_assert_uint_eq(ring_used(&ring), limits[i]);
		ring_fini(&ring);
	}
}
END_TEST

START_TEST(a_claim_counts_only_once_pushed)
{
	struct req *req;

	ring_start(4, starts[_i]);
	req = ring_next(&ring);
	ck_assert_ptr_eq(ring_next(&ring), req);
	ck_assert_uint_eq(ring_used(&ring), 0);
	ring_push(&ring, req);
	ck_assert_ptr_ne(ring_next(&ring), req);
	ring_unpush(&ring);
	ck_assert_uint_eq(ring_used(&ring), 0);
	ck_assert_ptr_eq(ring_next(&ring), req);
	ring_fini(&ring);
}
END_TEST

START_TEST(each_slot_knows_its_ring)
{
	ring_start(5, starts[_i]);
	for (unsigned n = 0; n < 5; n++)
		ck_assert_ptr_eq(claim()->ring, &ring);
	ring_fini(&ring);
}
END_TEST

START_TEST(a_completion_retires_all_before_it)
{
	struct req *reqs[5];

	ring_start(5, starts[_i]);
	for (int n = 0; n < 5; n++)
		reqs[n] = claim();
	ck_assert(ring_retire(&ring, reqs[2]));
	ck_assert_uint_eq(ring_used(&ring), 2);
	ck_assert(ring_retire(&ring, reqs[4]));
	ck_assert_uint_eq(ring_used(&ring), 0);
	ring_fini(&ring);
}
END_TEST

START_TEST(a_late_completion_is_told_apart)
{
	struct req *reqs[4];

	ring_start(4, starts[_i]);
	for (int n = 0; n < 4; n++)
		reqs[n] = claim();
	ck_assert(ring_retire(&ring, reqs[1]));
	ck_assert(!ring_retire(&ring, reqs[0]));
	ck_assert(!ring_retire(&ring, reqs[1]));
	ck_assert_uint_eq(ring_used(&ring), 2);
	ck_assert(ring_retire(&ring, reqs[3]));
	for (int n = 0; n < 4; n++)
		ck_assert(!ring_retire(&ring, reqs[n]));
	ck_assert_uint_eq(ring_used(&ring), 0);
	ring_fini(&ring);
}
END_TEST

START_TEST(many_rounds)
{
	ring_start(3, starts[_i]);
	for (int n = 0; n < 100; n++) {
		struct req *first = claim(), *second = claim();

		ck_assert(first && second && first != second);
		ck_assert(ring_retire(&ring, first));
		ck_assert_uint_eq(ring_used(&ring), 1);
		ck_assert(ring_retire(&ring, second));
	}
	ring_fini(&ring);
}
END_TEST

#define ROUNDS 20000

static void *poster(void *arg)
{
	struct req **posted = arg;

	for (unsigned n = 0; n < ROUNDS;) {
		struct req *req;

		if (!ring_has_room(&ring)) {
			sched_yield();
			continue;
		}
		req = ring_next(&ring);
		req->cookie = cookie_of(n);
		ring_push(&ring, req);
		__atomic_store_n(&posted[n++ % ring.limit], req, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* One posts, one polls, without a lock between them, as on the data path. */
START_TEST(poster_and_poller)
{
	struct req *posted[4] = { NULL };
	pthread_t thread;

	ring_start(4, starts[_i]);
	thread = consumer_thread_start(poster, posted);
	for (unsigned n = 0; n < ROUNDS;) {
		struct req *req = __atomic_exchange_n(&posted[n % 4], NULL, __ATOMIC_ACQUIRE);

		if (!req) {
			sched_yield();
			continue;
		}
		ck_assert_uint_eq(req->cookie.as_64, n++);
		ck_assert(ring_retire(&ring, req));
	}
	consumer_thread_end(thread);
	ck_assert_uint_eq(ring_used(&ring), 0);
	ring_fini(&ring);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("ring");

	tcase_set_timeout(cases, 60);
	tcase_add_loop_test(cases, the_limit_is_exact, 0, COUNT(starts));
	tcase_add_loop_test(cases, a_claim_counts_only_once_pushed, 0, COUNT(starts));
	tcase_add_loop_test(cases, each_slot_knows_its_ring, 0, COUNT(starts));
	tcase_add_loop_test(cases, a_completion_retires_all_before_it, 0, COUNT(starts));
	tcase_add_loop_test(cases, a_late_completion_is_told_apart, 0, COUNT(starts));
	tcase_add_loop_test(cases, many_rounds, 0, COUNT(starts));
	tcase_add_loop_test(cases, poster_and_poller, 0, COUNT(starts));
	return run_unit_cases(argc, argv);
}
