/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an event does to a CNO: a latch that EVDs set and dat_cno_wait takes, a one-shot proxy agent
 * beside it with the EVDs that it is to be called for, and those that have missed a trigger,
 * because the latch was set.
 */
#include "base/race.h"
#include "cno.h"

/* ---- threads that wait ---- */

void cno_wake_locked(struct cno *cno, struct wait_entry *entry)
{
	assert_locked(&cno->lock);
	cno->wait_list = entry->next;
	entry->listed = false;
	entry->woken = true;
	wakefd_signal(entry->wakefd);
}

void cno_enlist_locked(struct cno *cno, struct wait_entry *entry)
{
	struct wait_entry **at = &cno->wait_list;

	assert_locked(&cno->lock);
	while (*at)
		at = &(*at)->next;
	entry->next = NULL;
	entry->listed = true;
	*at = entry;
}

void cno_delist_locked(struct cno *cno, struct wait_entry *entry)
{
	struct wait_entry **at = &cno->wait_list;

	assert_locked(&cno->lock);
	if (!entry->listed)
		return;
	while (*at != entry)
		at = &(*at)->next;
	*at = entry->next;
	entry->listed = false;
}

void wait_entry_end(struct wait_entry *entry)
{
	if (entry->woken)
		wakefd_clear(entry->wakefd);
	wakefd_give(&entry->cno->obj.ia->wakefds, entry->wakefd);
}

/* ---- EVDs that missed a trigger ---- */

/*
 * Appends @evd to the list, unless it is there. Its lock is held, too: an EVD is on the list of no
 * CNO but its own.
 */
static void missed_add_locked(struct cno *cno, struct evd *evd)
{
	assert_locked(&cno->lock);
	assert_locked(&evd->lock);
	debug_assert(evd->cno == cno);
	if (evd->back_missed)
		return;
	cno->missed_count++;
	evd->next_missed = NULL;
	evd->back_missed = cno->missed_end;
	*cno->missed_end = evd;
	cno->missed_end = &evd->next_missed;
}

void cno_missed_remove_locked(struct cno *cno, struct evd *evd)
{
	assert_locked(&cno->lock);
	if (!evd->back_missed)
		return;
	*evd->back_missed = evd->next_missed;
	if (evd->next_missed)
		evd->next_missed->back_missed = evd->back_missed;
	else
		cno->missed_end = evd->back_missed;
	evd->back_missed = NULL;
	cno->missed_count--;
}

/* Takes the first EVD from the list, and returns it; NULL if there is none. */
static struct evd *missed_take_first(struct cno *cno)
{
	struct evd *evd;

	spin_lock(&cno->lock);
	evd = cno->missed;
	if (evd)
		cno_missed_remove_locked(cno, evd);
	spin_unlock(&cno->lock);
	if (evd)
		race_reach(RACE_MISSED, evd);
	return evd;
}

unsigned cno_visit_missed_locked(struct cno *cno, bool (*visit)(struct evd *))
{
	unsigned left, yes = 0;
	struct evd *evd;

	assert_locked(&cno->obj.ia->lock);
	spin_lock(&cno->lock);
	left = cno->missed_count;
	spin_unlock(&cno->lock);
	for (; left > 0 && (evd = missed_take_first(cno)); left--)
		yes += visit(evd);
	return yes;
}

/* ---- EVDs that have the agent called ---- */

void cno_caller_remove_locked(struct cno *cno, struct evd *evd)
{
	assert_locked(&cno->lock);
	if (!evd->back_caller)
		return;
	*evd->back_caller = evd->next_caller;
	if (evd->next_caller)
		evd->next_caller->back_caller = evd->back_caller;
	evd->back_caller = NULL;
}

/* The agent is to be called, with @evd, unless another one triggers the CNO before the call. */
static void caller_add_locked(struct cno *cno, struct evd *evd)
{
	assert_locked(&cno->lock);
	cno_caller_remove_locked(cno, evd);
	evd->next_caller = cno->callers;
	evd->back_caller = &cno->callers;
	if (evd->next_caller)
		evd->next_caller->back_caller = &evd->next_caller;
	cno->callers = evd;
}

void cno_agent_settle_locked(struct cno *cno)
{
	assert_locked(&cno->lock);
	while (cno->callers)
		cno_caller_remove_locked(cno, cno->callers);
	cno->agent_released = false;
}

/* ---- triggering ---- */

void cno_trigger_locked(struct cno *cno, struct evd *evd)
{
	assert_locked(&evd->lock);
	spin_lock(&cno->lock);
	if (cno->latched && cno->latched != evd)
		missed_add_locked(cno, evd);
	if (!cno->latched) {
		cno_set_latch_locked(cno, evd);
		if (cno->wait_list && !cno->takers)
			cno_wake_locked(cno, cno->wait_list);
	}
	if (cno_has_agent(&cno->agent)) {
		caller_add_locked(cno, evd);
		service_queue_work(cno->obj.ia, &cno->work);
	}
	spin_unlock(&cno->lock);
}

bool cno_awaits_trigger(struct cno *cno, struct evd *evd)
{
	bool awaits;

	assert_locked(&evd->lock);
	spin_lock(&cno->lock);
	awaits = !cno->latched || cno->takers || cno_has_agent(&cno->agent);
	if (!awaits)
		missed_add_locked(cno, evd);
	spin_unlock(&cno->lock);
	return awaits;
}
