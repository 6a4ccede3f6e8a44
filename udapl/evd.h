/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of an EVD share beside udapl.h: its queue, and how a waiter is woken. */
#ifndef UDAPL_EVD_H
#define UDAPL_EVD_H

#include "udapl.h"

/* ---- evd_queue.c: evd->lock is held ---- */

/* Makes room for @extra events beyond what is reserved. False: no memory. */
bool evd_make_room_relock(struct evd *evd, unsigned extra);
/* There must be room. @notify: the event ends a wait. */
void evd_push_locked(struct evd *evd, const DAT_EVENT *event, bool notify);
/* There must be an event. */
void evd_pop_locked(struct evd *evd, DAT_EVENT *event);
/*
 * Moves all completions into the queue. *notified: one of them ends a wait, or may. False: no
 * memory, some are still in the completion queue, which will not report those again.
 */
bool evd_drain_relock(struct evd *evd, bool *notified);

/* ---- evd_queue.c: no lock is held ---- */

/* As evd_arm; @leaving: the waiter that there is does not count any more. */
void evd_arm_as(struct evd *evd, bool leaving);
/* What ends a wait has changed: arms the completion queue, and whoever is notified looks again. */
void evd_mode_changed(struct evd *evd);

#endif
