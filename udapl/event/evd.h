/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of an EVD share beside event.h: its queue, and how a waiter is woken. */
#ifndef UDAPL_EVD_H
#define UDAPL_EVD_H

#include <string.h>

#include "event.h"

/* What a call on an EVD answers to any other handle: DAT's subtypes name EVDs by a role only. */
#define BAD_EVD DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1)

/* Returns the slot of the event that has @at queued ones in front of it. evd->lock is held. */
static inline struct queued_event *queue_slot(const struct event_queue *queue, unsigned at)
{
	return &queue->slots[(queue->head + at) & (queue->size - 1)];
}

/*
 * Copies an event. Of one of the base set the extension that DAT 2.0 has room for stays as it is.
 */
static ALWAYS_INLINE void event_copy(DAT_EVENT *to, const DAT_EVENT *from)
{
#if DAT_EDITION == 2
	memcpy(to, from, offsetof(DAT_EVENT, event_extension_data));
	if (unlikely(from->event_number >= DAT_EXTENSION_EVENT))
		memcpy(to->event_extension_data, from->event_extension_data,
		       sizeof(to->event_extension_data));
#else
	*to = *from;
#endif
}

/* ---- evd_queue.c: evd->lock is held; any thread ---- */

/*
 * Makes room for @extra events beyond the slots that are promised to others. Returns false without
 * memory.
 */
bool evd_make_room_relock(struct evd *evd, unsigned extra);
/* Appends an event, for which there is room; @notify says whether it ends a wait. */
void evd_push_locked(struct evd *evd, const DAT_EVENT *event, bool notify);
/*
 * Takes a completion that was polled, and appends its event, if it is one, to the queue, which has
 * room. *notified becomes true if the event ends a wait; else it is not changed.
 */
void evd_queue_completion_locked(struct evd *evd, const struct tp_wc *wc, bool *notified);
/* Takes the oldest event, of which there must be one, and gives the slot of its receive back. */
void evd_pop_locked(struct evd *evd, DAT_EVENT *event);
/*
 * Moves all completions into the queue, and notifies nobody: the caller does, if *notified becomes
 * true, because one of them ends a wait, or may; else it is not changed. Returns false without
 * memory: some are still in the completion queue, which will not report those again.
 */
bool evd_take_completions_relock(struct evd *evd, bool *notified);
/* Has the waiter, if there is one, look again. */
void evd_wake_locked(struct evd *evd);
/*
 * Events that notify were appended: wakes the waiter if its threshold is reached; without a waiter
 * it triggers the CNO. The waiter itself does not call this for what it has taken.
 */
void evd_notify_locked(struct evd *evd);

/*
 * evd_pop_locked, inline: while neither an overflow is to be reported nor receives of a shared
 * queue are queued. Returns whether qlen limits the event's stream.
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
	event_copy(event, &slot->event);
	return bounded;
}

/* ---- evd_queue.c: evd->lock is not held ---- */

/* evd_drain; returns whether there was something to take. */
bool evd_drain_found(struct evd *evd);

/* ---- evd_channel.c: evd->lock is not held ---- */

/*
 * The roles of endpoints have changed what ends a wait: arms the completion queue for that, and
 * whoever is notified looks again. Any thread.
 */
void evd_mode_changed(struct evd *evd);

/* ---- evd_channel.c: evd->lock is not held, and, but for the first, there is a queue ---- */

/* For a new EVD, which nobody else knows. */
void evd_channel_init(struct evd *evd);
/*
 * Has the service thread, or @cno unless that is NULL, sleep on the channel, and arms the queue.
 * For a new EVD, with ia->lock held. Returns 0 or a negative errno.
 */
int evd_channel_open(struct evd *evd, struct cno *cno);
/* From here on the EVD has no completion queue; the caller destroys it. */
void evd_channel_close_locked(struct evd *evd);
/*
 * The calling thread, the waiter, has the channel from here to evd_channel_return, and sleeps on it
 * next: arms the queue for that. Returns a second descriptor to sleep on, or -1.
 */
int evd_channel_lend(struct evd *evd);
/* Arms the queue again, as evd_channel_lend did, for a waiter that has slept on the channel. */
int evd_arm_to_sleep(struct evd *evd);
/*
 * For the waiter: it does not sleep on the channel any more. Returns whether the completion queue
 * was armed for others, to whom what had arrived before makes no event.
 */
bool evd_channel_return(struct evd *evd);

#endif
