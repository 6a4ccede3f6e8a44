/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of an EVD share beside event.h: its queue, and how a waiter is woken. */
#ifndef UDAPL_EVD_H
#define UDAPL_EVD_H

#include "event.h"

/* What a call on an EVD answers to any other handle: DAT's subtypes name EVDs by a role only. */
#define BAD_EVD DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1)

/* Returns the slot of the event that has @at queued ones in front of it. evd->lock is held. */
static inline struct queued_event *queue_slot(const struct event_queue *queue, unsigned at)
{
	return &queue->slots[(queue->head + at) & (queue->size - 1)];
}

/* ---- evd_queue.c: evd->lock is held ---- */

/* Makes room for @extra events beyond what is reserved. False: no memory. */
bool evd_make_room_relock(struct evd *evd, unsigned extra);
/* There must be room. @notify: the event ends a wait. */
void evd_push_locked(struct evd *evd, const DAT_EVENT *event, bool notify);
/*
 * Takes a completion into the queue, which has room. *notified as in evd_take_completions_relock;
 * else it is not changed.
 */
void evd_queue_completion_locked(struct evd *evd, const struct tp_wc *wc, bool *notified);
/* Takes the oldest event; there must be one. */
void evd_pop_locked(struct evd *evd, DAT_EVENT *event);
/*
 * Moves all completions into the queue. *notified: one of them ends a wait, or may. False: no
 * memory, some are still in the completion queue, which will not report those again.
 */
bool evd_take_completions_relock(struct evd *evd, bool *notified);
/* Has the waiter, if there is one, look again. */
void evd_wake_locked(struct evd *evd);
/* An event that notifies has arrived, from a thread other than its receiver's. */
void evd_notify_locked(struct evd *evd);

/*
 * evd_pop_locked, while neither an overflow is to be reported nor receives of a shared queue are
 * queued. Returns whether qlen limits the event's stream.
 */
static inline bool evd_take_locked(struct evd *evd, DAT_EVENT *event)
{
	struct event_queue *queue = &evd->queue;
	const struct queued_event *slot = queue_slot(queue, 0);
	const bool bounded = slot->bounded;

	assert_locked(&evd->lock);
	debug_assert(queue->count > 0);
	queue->head++;
	queue->count--;
	evd->notifying -= slot->notify;
	evd->bounded -= bounded;
	*event = slot->event;
	return bounded;
}

/* ---- evd_queue.c: no lock is held ---- */

/* As evd_drain, and says whether there was something to take. */
bool evd_drain_found(struct evd *evd);

/* ---- evd_channel.c: evd->lock is not held ---- */

/* What ends a wait has changed: arms the completion queue, and whoever is notified looks again. */
void evd_mode_changed(struct evd *evd);

/* ---- evd_channel.c: there is a completion queue; evd->lock is not held ---- */

void evd_channel_init(struct evd *evd);
/* Has the service thread, or @cno unless that is NULL, sleep on it, and arms it. */
int evd_channel_open(struct evd *evd, struct cno *cno);
/* The EVD has no completion queue from here on: the caller destroys it. ia->lock held. */
void evd_channel_close_locked(struct evd *evd);
/*
 * Arms it for the calling thread, its waiter, which sleeps on the channel next. Returns a second
 * descriptor to sleep on; -1: there is none.
 */
int evd_arm_to_sleep(struct evd *evd);
/*
 * The end of a wait that slept on the channel, which watch_lend began. True: the completion queue
 * was armed for others, to whom what had arrived before makes no event.
 */
bool evd_channel_return(struct evd *evd);

#endif
