/* SPDX-License-Identifier: BSD-2-Clause */
/* What the two halves of a CNO share: cno_trigger.c, and cno.c with the calls. */
#ifndef UDAPL_CNO_H
#define UDAPL_CNO_H

#include "event.h"

/*
 * A thread in dat_cno_wait. A trigger wakes one of them; each has a descriptor of its own, so that
 * none consumes the wake-up of another.
 */
struct wait_entry {
	struct cno *cno;
	int wakefd;
	bool listed;
	bool woken; /* cno->lock; wakefd was signalled */
	struct wait_entry *next;
};

/* Wakes the thread of @entry, the first of the list. */
void cno_wake_locked(struct cno *cno, struct wait_entry *entry);
/* The next trigger may wake the thread, or does not any more; both may be so already. */
void cno_enlist_locked(struct cno *cno, struct wait_entry *entry);
void cno_delist_locked(struct cno *cno, struct wait_entry *entry);
/* Gives back what the thread slept on. It is not listed, so no thread wakes it. */
void wait_entry_end(struct wait_entry *entry);

/* @evd is none of those that missed a trigger. cno->lock held. */
void cno_missed_remove_locked(struct cno *cno, struct evd *evd);
/*
 * Calls @visit for each EVD that has missed a trigger by now; other threads, and @visit, add EVDs
 * behind these. Returns how often that returned true. ia->lock keeps the EVDs alive, and on the
 * list.
 */
unsigned cno_visit_missed_locked(struct cno *cno, bool (*visit)(struct evd *));

static inline bool cno_has_agent(const DAT_OS_WAIT_PROXY_AGENT *agent)
{
	return agent->proxy_agent_func != NULL;
}

#endif
