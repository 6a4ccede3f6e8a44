/* SPDX-License-Identifier: BSD-2-Clause */
/* The ring of requests in flight: its limit, retirement, late completions, position wrap-around. */
#include <limits.h>

#include "harness.h"

/* Positions are never reset. Each case runs from each of these slots; the last one wraps around. */
static const unsigned positions[] = { 0, 5, UINT_MAX - 2 };

static struct ring ring;

static void ring_init_at(unsigned limit, unsigned slot)
{
	unsigned position = slot * RING_STEP;

	ck_assert_int_eq(ring_init(&ring, NULL, limit, 1), 0);
	atomic_store(&ring.head, position);
	atomic_store(&ring.tail, position);
}

static struct req *claim_slot(void)
{
	struct req *req;

	if (!ring_has_room(&ring))
		return NULL;
	req = ring_next(&ring);
	ring_push(&ring, req);
	return req;
}

START_TEST(a_ring_holds_exactly_its_limit)
{
	static const unsigned limits[] = { 1, 2, 3, 7, 8, 9 };

	for (int i = 0; i < COUNT(limits); i++) {
		ring_init_at(limits[i], positions[_i]);
		for (unsigned n = 0; n < limits[i]; n++) {
			ck_assert_uint_eq(ring_used(&ring), n);
			ck_assert_ptr_nonnull(claim_slot());
		}
		ck_assert_ptr_null(claim_slot());
		ck_assert_uint_eq(ring_used(&ring), limits[i]);
		ring_fini(&ring);
	}
}
END_TEST

START_TEST(a_slot_is_used_when_pushed)
{
	struct req *req;

	ring_init_at(4, positions[_i]);
	req = ring_next(&ring);
	ck_assert_ptr_eq(ring_next(&ring), req);
	ck_assert_uint_eq(ring_used(&ring), 0);
	ck_assert(!ring_retire(&ring, req)); /* by a late completion of its last request */
	ring_push(&ring, req);
	ck_assert_ptr_ne(ring_next(&ring), req);
	ring_unpush(&ring);
	ck_assert_uint_eq(ring_used(&ring), 0);
	ck_assert_ptr_eq(ring_next(&ring), req);
	for (unsigned n = 0; n < 4; n++)
		ck_assert_ptr_nonnull(claim_slot());
	ck_assert_ptr_null(claim_slot());
	ring_fini(&ring);
}
END_TEST

START_TEST(each_slot_points_to_its_ring)
{
	ring_init_at(5, positions[_i]);
	for (unsigned n = 0; n < 5; n++)
		ck_assert_ptr_eq(claim_slot()->ring, &ring);
	ring_fini(&ring);
}
END_TEST

START_TEST(a_completion_retires_all_slots_before_it)
{
	struct req *reqs[5];

	ring_init_at(5, positions[_i]);
	for (int n = 0; n < 5; n++)
		reqs[n] = claim_slot();
	ck_assert(ring_retire(&ring, reqs[2]));
	ck_assert_uint_eq(ring_used(&ring), 2);
	ck_assert(ring_retire(&ring, reqs[4]));
	ck_assert_uint_eq(ring_used(&ring), 0);
	ring_fini(&ring);
}
END_TEST

START_TEST(a_late_completion_is_detected)
{
	struct req *reqs[4];

	ring_init_at(4, positions[_i]);
	for (int n = 0; n < 4; n++)
		reqs[n] = claim_slot();
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

START_TEST(slots_are_used_again)
{
	ring_init_at(3, positions[_i]);
	for (int n = 0; n < 100; n++) {
		struct req *first = claim_slot(), *second = claim_slot();

		ck_assert(first && second && first != second);
		ck_assert(ring_retire(&ring, first));
		ck_assert_uint_eq(ring_used(&ring), 1);
		ck_assert(ring_retire(&ring, second));
	}
	ring_fini(&ring);
}
END_TEST

#define REQUESTS 20000

static void *ring_poster(void *arg)
{
	struct req **posted = arg;

	for (unsigned n = 0; n < REQUESTS;) {
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

/* One thread posts and another polls, as on the data path. */
START_TEST(a_poster_and_a_poller_need_no_lock)
{
	struct req *posted[4] = { NULL };
	pthread_t thread;

	ring_init_at(4, positions[_i]);
	thread = consumer_thread_start(ring_poster, posted);
	for (unsigned n = 0; n < REQUESTS;) {
		struct req *req = __atomic_exchange_n(&posted[n % 4], NULL, __ATOMIC_ACQUIRE);

		if (!req) {
			sched_yield();
			continue;
		}
		ck_assert_uint_eq(req->cookie.as_64, n++);
		ck_assert(ring_retire(&ring, req));
	}
	consumer_thread_join(thread);
	ck_assert_uint_eq(ring_used(&ring), 0);
	ring_fini(&ring);
}
END_TEST

/* As many as there is time for: on a busy machine each waits until the other thread runs. */
#define ENDS	     20000
#define ENDS_SECONDS 30

#define NO_MORE UINT_MAX

/* Each has a cache line of its own, as far as that matters. */
static _Alignas(64) _Atomic unsigned gate;
static _Alignas(64) atomic_uint begun;
static _Alignas(64) atomic_uint ended;
static unsigned used_at_end; /* what the end of the connection saw */

/* Waits for round @n; false if there are no more rounds. */
static bool meet(atomic_uint *round, unsigned n)
{
	unsigned now;

	for (unsigned spins = 1; (now = atomic_load(round)) != n; spins++) {
		if (now == NO_MORE)
			return false;
		if (spins % 1000 == 0)
			sched_yield(); /* there may be one processor only */
	}
	return true;
}

static void *end_connections(void *unused)
{
	(void)unused;
	for (unsigned n = 1; meet(&begun, n); n++) {
		atomic_store(&gate, 0);
		used_at_end = ring_used(&ring);
		atomic_store(&ended, n);
	}
	return NULL;
}

/*
 * A claim is published before the gate is read again, on the processor, too: either the end of the
 * connection finds the claim, or the poster finds the gate closed.
 */
START_TEST(a_claim_and_the_end_of_a_connection_do_not_miss_each_other)
{
	const time_t limit = time(NULL) + ENDS_SECONDS;
	pthread_t thread;

	ring_init_at(2, positions[_i]);
	atomic_store(&begun, 0);
	thread = consumer_thread_start(end_connections, NULL);
	for (unsigned n = 1; n <= ENDS && time(NULL) < limit; n++) {
		struct req *req = ring_next(&ring);
		bool open;

		ck_assert(ring_has_room(&ring));
		atomic_store(&gate, EP_OPEN);
		atomic_store(&begun, n);
		for (volatile unsigned delay = n % 128; delay > 0; delay--)
			; /* until the other thread has noticed, or a little less or more */
		ring_push(&ring, req);
		open = gate_open(&gate);
		meet(&ended, n);
		ck_assert(!open || used_at_end == 1);
		ck_assert(ring_retire(&ring, req));
	}
	atomic_store(&begun, NO_MORE);
	consumer_thread_join(thread);
	ring_fini(&ring);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("ring");

	tcase_add_loop_test(cases, a_ring_holds_exactly_its_limit, 0, COUNT(positions));
	tcase_add_loop_test(cases, a_slot_is_used_when_pushed, 0, COUNT(positions));
	tcase_add_loop_test(cases, each_slot_points_to_its_ring, 0, COUNT(positions));
	tcase_add_loop_test(cases, a_completion_retires_all_slots_before_it, 0, COUNT(positions));
	tcase_add_loop_test(cases, a_late_completion_is_detected, 0, COUNT(positions));
	tcase_add_loop_test(cases, slots_are_used_again, 0, COUNT(positions));
	tcase_add_loop_test(cases, a_poster_and_a_poller_need_no_lock, 0, COUNT(positions));
	tcase_add_loop_test(cases, a_claim_and_the_end_of_a_connection_do_not_miss_each_other, 0,
			    COUNT(positions));
	return run_unit_cases(argc, argv);
}
