/* SPDX-License-Identifier: BSD-2-Clause */
/* What the two halves of a CNO share: cno_trigger.c, and cno.c with the calls. */
#ifndef UDAPL_CNO_H
#define UDAPL_CNO_H

#include "event.h"

/*
 * A thread that sleeps in dat_cno_wait, on its stack. A trigger wakes one of them; each has a
 * descriptor of its own, so that none consumes the wake-up of another.
 */
struct wait_entry {
	struct cno *cno;
	int wakefd;
	bool listed;		 /* cno->lock; it is on cno->wait_list */
	bool woken;		 /* cno->lock; wakefd was signalled */
	struct wait_entry *next; /* cno->lock; the one that sleeps since later */
};

/* ---- cno_trigger.c: cno->lock is held ---- */

/*
 * Wakes the thread of @entry, which is the first of the list, and takes it from there. Any thread.
 */
void cno_wake_locked(struct cno *cno, struct wait_entry *entry);
/* Appends the calling thread to the list: from here on a trigger may wake it. It is not listed. */
void cno_enlist_locked(struct cno *cno, struct wait_entry *entry);
/* Takes the calling thread from the list, if it is there: no trigger wakes it any more. */
void cno_delist_locked(struct cno *cno, struct wait_entry *entry);
/* Takes @evd from the list of those that missed a trigger, if it is there. */
void cno_missed_remove_locked(struct cno *cno, struct evd *evd);
/* Takes @evd from the list of those that the agent is to be called for, if it is there. */
void cno_caller_remove_locked(struct cno *cno, struct evd *evd);
/* Forgets for what the agent was due: it is about to be called, or was replaced. */
void cno_agent_settle_locked(struct cno *cno);

/* ---- cno_trigger.c: cno->lock is not held ---- */

/* Gives back what the calling thread slept on. It is not listed, so no other one wakes it. */
void wait_entry_end(struct wait_entry *entry);
/*
 * Takes each EVD from the list that has missed a trigger by now, and calls @visit with it; other
 * threads, and @visit, add EVDs behind these. Returns how often that returned true. ia->lock is
 * held: it keeps the EVDs alive, and those on the list with this CNO.
 */
unsigned cno_visit_missed_locked(struct cno *cno, bool (*visit)(struct evd *));

/* Sets the latch, or clears it. cno->lock is held. */
static inline void cno_set_latch_locked(struct cno *cno, struct evd *evd)
{
	cno->latched = evd;
	if (DAT_EDITION == 1 || cno->fd < 0)
		return;
	if (evd)
		wakefd_signal(cno->fd);
	else
		wakefd_clear(cno->fd);
}

/* Returns whether the agent is to be called. cno->lock is held. */
static inline bool cno_agent_is_due_locked(const struct cno *cno)
{
	assert_locked(&cno->lock);
	return cno->callers || cno->agent_released;
}

/* Returns whether there is an agent: DAT_OS_WAIT_PROXY_AGENT_NULL is none. */
static inline bool cno_has_agent(const DAT_OS_WAIT_PROXY_AGENT *agent)
{
	return agent->proxy_agent_func != NULL;
}

#endif
