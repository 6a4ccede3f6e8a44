/* SPDX-License-Identifier: BSD-2-Clause */
/* The heap of timers: their order, and how deep it gets. */
#include <stdlib.h>

#include "harness.h"

#define MANY 10000

static struct timer_heap heap;
static struct timer *timers;

static void timers_make(void)
{
	timers = calloc(MANY, sizeof(*timers));
	ck_assert_ptr_nonnull(timers);
}

static void timers_free(void)
{
	free(timers);
}

static void add(unsigned i, uint64_t deadline)
{
	timers[i].deadline = deadline;
	timer_heap_add(&heap, &timers[i]);
}

static unsigned take_first(void)
{
	struct timer *timer = heap.first;

	timer_heap_remove(&heap, timer);
	return (unsigned)(timer - timers);
}

static unsigned heap_rank(const struct timer *timer)
{
	return timer ? timer->rank : 0;
}

/*
 * Each rank is that of the shorter way down, which is the right one, plus 1. So the way to the
 * right of n timers, where they are added, has at most log2(n + 1).
 */
static unsigned check_below(const struct timer *timer, const struct timer *parent)
{
	unsigned count = 0;

	while (timer) {
		ck_assert_ptr_eq(timer->parent, parent);
		if (parent)
			ck_assert_uint_le(parent->deadline, timer->deadline);
		ck_assert_uint_eq(timer->rank, heap_rank(timer->right) + 1);
		ck_assert_uint_ge(heap_rank(timer->left), heap_rank(timer->right));
		count += 1 + check_below(timer->right, timer);
		parent = timer;
		timer = timer->left;
	}
	return count;
}

static void check_heap(unsigned count)
{
	ck_assert_uint_eq(check_below(heap.first, NULL), count);
	ck_assert_uint_le((1ull << heap_rank(heap.first)) - 1, count);
}

/* Pseudo-random, the same in every run; many are equal. */
static uint64_t mixed(unsigned i)
{
	return (i * UINT64_C(2654435761)) % 6551 + 1;
}

static uint64_t ascending(unsigned i)
{
	return 1 + i;
}

static uint64_t descending(unsigned i)
{
	return MANY - i;
}

static uint64_t equal(unsigned i)
{
	(void)i;
	return 7;
}

static uint64_t (*const orders[])(unsigned i) = { mixed, ascending, descending, equal };

/* Those of one deadline in the order in which they were added. */
START_TEST(timers_come_by_deadline_and_age)
{
	unsigned before = 0;

	for (unsigned i = 0; i < MANY; i++)
		add(i, orders[_i](i));
	check_heap(MANY);
	for (unsigned n = 0; n < MANY; n++) {
		unsigned i = take_first();

		if (n > 0)
			ck_assert(timers[before].deadline < timers[i].deadline ||
				  (timers[before].deadline == timers[i].deadline && before < i));
		before = i;
	}
	ck_assert_ptr_null(heap.first);
}
END_TEST

/* From the root, the leaves and everywhere between, down to the last one. */
START_TEST(timers_can_be_removed_from_the_middle)
{
	unsigned left = MANY;

	for (unsigned i = 0; i < MANY; i++)
		add(i, orders[_i](i));
	for (unsigned step = 2; step <= 16; step *= 2) {
		for (unsigned i = step / 2 - 1; i < MANY; i += step) {
			timer_heap_remove(&heap, &timers[i]);
			left--;
		}
		check_heap(left);
	}
	for (uint64_t last = 0; left > 0; left--) {
		unsigned i = take_first();

		ck_assert_uint_eq(i % 16, 15);
		ck_assert_uint_ge(timers[i].deadline, last);
		last = timers[i].deadline;
	}
	ck_assert_ptr_null(heap.first);
}
END_TEST

/* As endpoints set them: most are cancelled before they are due. */
START_TEST(timers_can_be_added_again)
{
	enum { FEW = 300 };
	uint64_t now = 1;

	for (unsigned i = 0; i < FEW; i++)
		add(i, now + mixed(i));
	for (unsigned n = 0; n < MANY; n++) {
		unsigned i = (unsigned)(mixed(n) % FEW);

		timer_heap_remove(&heap, &timers[i]);
		add(i, ++now + mixed(n));
		if (n % 1000 == 0)
			check_heap(FEW);
	}
	check_heap(FEW);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("timer");

	tcase_add_checked_fixture(cases, timers_make, timers_free);
	tcase_add_loop_test(cases, timers_come_by_deadline_and_age, 0, COUNT(orders));
	tcase_add_loop_test(cases, timers_can_be_removed_from_the_middle, 0, COUNT(orders));
	tcase_add_test(cases, timers_can_be_added_again);
	return run_unit_cases(argc, argv);
}
