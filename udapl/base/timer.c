/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A leftist heap: each timer runs before its children, and the way to the right, where timers are
 * added, is never longer than the one to the left. So it is short: a timer of rank r has at least
 * 2^r - 1 below it, itself included.
 */
#include <stdbool.h>
#include <stddef.h>

#include "timer.h"

static bool runs_before(const struct timer *a, const struct timer *b)
{
	return a->deadline != b->deadline ? a->deadline < b->deadline : a->number < b->number;
}

/* NULL has rank 0. */
static unsigned rank_of(const struct timer *timer)
{
	return timer ? timer->rank : 0;
}

/* Puts the rank right after the children have changed. Returns whether it has changed, too. */
static bool rank_update(struct timer *timer)
{
	unsigned before = timer->rank;

	if (rank_of(timer->left) < rank_of(timer->right)) {
		struct timer *left = timer->left;

		timer->left = timer->right;
		timer->right = left;
	}
	timer->rank = rank_of(timer->right) + 1;
	return timer->rank != before;
}

/*
 * Returns the heap of both, either of which may be NULL. It recurses as deep as both ranks
 * together.
 */
static struct timer *merge(struct timer *a, struct timer *b)
{
	struct timer *first, *second;

	if (!a || !b)
		return a ? a : b;
	first = runs_before(a, b) ? a : b;
	second = first == a ? b : a;
	first->right = merge(first->right, second);
	first->right->parent = first;
	(void)rank_update(first);
	return first;
}

void timer_heap_add(struct timer_heap *heap, struct timer *timer)
{
	timer->number = heap->added++;
	timer->left = timer->right = NULL;
	timer->rank = 1;
	heap->first = merge(heap->first, timer);
	heap->first->parent = NULL;
}

/* On the way up each rank that changes is higher than the one before, so there are few. */
void timer_heap_remove(struct timer_heap *heap, struct timer *timer)
{
	struct timer *parent = timer->parent, *rest = merge(timer->left, timer->right);

	if (rest)
		rest->parent = parent;
	if (!parent)
		heap->first = rest;
	else if (parent->left == timer)
		parent->left = rest;
	else
		parent->right = rest;
	while (parent && rank_update(parent))
		parent = parent->parent;
}
