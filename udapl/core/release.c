/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deferred release: what binds give back to the device. A bind ends under a spinlock, in a
 * completion or in a post that failed; freeing a region or a window is a system call. So the bind
 * queues a release, and the thread that consumes the completion runs the queue before it returns.
 */
#include "core.h"

void release_queue_init(struct release_queue *queue)
{
	spin_init(&queue->lock, RANK_RELEASE_QUEUE);
	mutex_init(&queue->running, RANK_RELEASE_RUN);
	queue->end = &queue->first;
}

void release_queue_destroy(struct release_queue *queue)
{
	mutex_destroy(&queue->running);
}

/* Appends a release, because a window is freed before the region that it may still be bound to. */
static void queue_add(struct release_queue *queue, struct release *release)
{
	release->next = NULL;
	spin_lock(&queue->lock);
	*queue->end = release;
	queue->end = &release->next;
	spin_unlock(&queue->lock);
}

static struct release *queue_take_all(struct release_queue *queue)
{
	struct release *first;

	spin_lock(&queue->lock);
	first = queue->first;
	queue->first = NULL;
	queue->end = &queue->first;
	spin_unlock(&queue->lock);
	return first;
}

void release_defer(struct ia *ia, struct release *release)
{
	struct release_queue *queue = &ia->releases;

	atomic_fetch_add_explicit(&queue->pending, 1, memory_order_relaxed);
	queue_add(queue, release);
}

/*
 * Deregisters the region of a release, if it has one. Returns false if the device refuses that:
 * then peers can still reach it, so its LMR stays in use, and the release is queued for the next
 * run.
 */
static inline bool region_free(struct ia *ia, struct release *release)
{
	if (!release->region || tp_mr_dereg(release->region) == 0)
		return true;
	release->overtaken = true;
	if (!ia->releases.refusal_told)
		log_error("IA %p: the device refuses to free the region of a bind that is over",
			  (void *)ia);
	ia->releases.refusal_told = true;
	queue_add(&ia->releases, release);
	return false;
}

/* The rest of a release, whose region is gone. */
static inline void release_finish(struct ia *ia, struct release *release)
{
	if (unlikely(release->window))
		tp_mw_destroy(release->window);
	if (likely(release->held))
		obj_put(release->held);
	release->done(release);
	atomic_fetch_sub_explicit(&ia->releases.pending, 1, memory_order_release);
}

NOINLINE HOT static void run_all(struct ia *ia)
{
	CANCEL_FORBIDDEN;
	struct release *next;

	assert_no_lock_held();
	mutex_lock(&ia->releases.running);
	for (struct release *release = queue_take_all(&ia->releases); release; release = next) {
		next = release->next;
		if (region_free(ia, release))
			release_finish(ia, release);
	}
	mutex_unlock(&ia->releases.running);
}

void release_run(struct ia *ia)
{
	if (unlikely(atomic_load_explicit(&ia->releases.pending, memory_order_acquire)))
		run_all(ia);
}

void release_run_final(struct ia *ia)
{
	struct release *next;

	release_run(ia);
	for (struct release *release = queue_take_all(&ia->releases); release; release = next) {
		next = release->next;
		release_finish(ia, release); /* closing the device frees what it kept */
	}
}
