/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What all threads of a run share: an EVD of software events with its CNO, and a zone. Of these the
 * model knows a set of results, since the others' calls may come before or after; and what holds
 * whatever the order: each event that was posted is taken once, those of one thread in their order.
 */
#include <stdatomic.h>

#include "model.h"

static struct {
	DAT_IA_HANDLE ia;
	DAT_EVD_HANDLE async_evd, evd;
	DAT_CNO_HANDLE cno;
	DAT_PZ_HANDLE pz;
	atomic_uint posted[MAX_THREADS], taken[MAX_THREADS];
	atomic_uint posted_sum[MAX_THREADS], taken_sum[MAX_THREADS];
	unsigned last[MAX_THREADS][MAX_THREADS]; /* that a thread has taken of a thread's */
} shared;

void shared_open(struct world *w)
{
	shared.async_evd = DAT_HANDLE_NULL;
	returned(w,
		 dat_ia_openv((DAT_NAME_PTR)ia_name(CLIENT, BY_INTERFACE), 8, &shared.async_evd,
			      &shared.ia, DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_TRUE),
		 DAT_SUCCESS);
	returned(w, dat_cno_create(shared.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &shared.cno),
		 DAT_SUCCESS);
	returned(w, dat_evd_create(shared.ia, 16, shared.cno, DAT_EVD_SOFTWARE_FLAG, &shared.evd),
		 DAT_SUCCESS);
	returned(w, dat_pz_create(shared.ia, &shared.pz), DAT_SUCCESS);
}

/* The pointer of an event is the thread that posts it, and which of its events it is. */
static void post_op(struct world *w, const struct call *c)
{
	unsigned number = shared.posted[w->thread] + 1;
	DAT_EVENT event = { .event_number = DAT_SOFTWARE_EVENT };
	DAT_RETURN got;

	(void)c;
	event.event_data.software_event_data.pointer = (DAT_PVOID)((uintptr_t)number * MAX_THREADS +
								   w->thread);
	got = dat_evd_post_se(shared.evd, &event);
	if (got == NO_SUBTYPE(DAT_QUEUE_FULL) || !returned(w, got, DAT_SUCCESS))
		return;
	shared.posted[w->thread] = number;
	shared.posted_sum[w->thread] += number;
}

static void event_taken(struct world *w, const DAT_EVENT *event)
{
	uintptr_t value = (uintptr_t)event->event_data.software_event_data.pointer;
	unsigned from = (unsigned)(value % MAX_THREADS), number = (unsigned)(value / MAX_THREADS);

	holds(w, event->event_number == DAT_SOFTWARE_EVENT && event->evd_handle == shared.evd,
	      "event 0x%x of %p", event->event_number, event->evd_handle);
	holds(w, number > shared.last[w->thread][from], "event %u of thread %u comes after %u",
	      number, from, shared.last[w->thread][from]);
	shared.last[w->thread][from] = number;
	shared.taken[from]++;
	shared.taken_sum[from] += number;
}

static bool others_wait(const struct world *w, DAT_RETURN got)
{
	return w->threads > 1 && got == BAD_STATE(EVD_WAITER);
}

static void dequeue_op(struct world *w, const struct call *c)
{
	DAT_EVENT event;
	DAT_RETURN got = dat_evd_dequeue(shared.evd, &event);

	(void)c;
	if (got != DAT_QUEUE_EMPTY && !others_wait(w, got) && returned(w, got, DAT_SUCCESS))
		event_taken(w, &event);
}

static void wait_op(struct world *w, const struct call *c)
{
	DAT_COUNT threshold = 1 + c->arg[0] % 3, nmore;
	DAT_EVENT event;
	DAT_RETURN got = dat_evd_wait(shared.evd, c->arg[1] % 50, threshold, &event, &nmore);

	if (got == NO_SUBTYPE(DAT_TIMEOUT_EXPIRED) || others_wait(w, got) ||
	    !returned(w, got, DAT_SUCCESS))
		return;
	holds(w, nmore >= threshold - 1 && nmore <= 16, "%d more events of %d", nmore, threshold);
	event_taken(w, &event);
}

static void cno_wait_op(struct world *w, const struct call *c)
{
	DAT_EVD_HANDLE evd;
	DAT_RETURN got = dat_cno_wait(shared.cno, c->arg[0] % 50, &evd);

	if (got == DAT_QUEUE_EMPTY)
		holds(w, evd == DAT_HANDLE_NULL, "a wait that timed out says %p", evd);
	else if (returned(w, got, DAT_SUCCESS))
		holds(w, evd == shared.evd, "it was triggered by %p", evd);
}

/* No call frees what another thread may be using, even if it were refused. */
static void zone_op(struct world *w, const struct call *c)
{
	DAT_RMR_HANDLE rmr;

	(void)c;
	if (returned(w, dat_rmr_create(shared.pz, &rmr), DAT_SUCCESS))
		returned(w, dat_rmr_free(rmr), DAT_SUCCESS);
}

void shared_close(struct world *w)
{
	DAT_EVENT event;
	DAT_RETURN got;

	for (unsigned i = 0; i < MAX_THREADS; i++)
		shared.last[w->thread][i] = 0;
	while ((got = dat_evd_dequeue(shared.evd, &event)) != DAT_QUEUE_EMPTY)
		if (returned(w, got, DAT_SUCCESS))
			event_taken(w, &event);
	for (unsigned i = 0; i < MAX_THREADS; i++)
		holds(w,
		      shared.posted[i] == shared.taken[i] &&
			      shared.posted_sum[i] == shared.taken_sum[i],
		      "thread %u has posted %u events, of which %u were taken", i, shared.posted[i],
		      shared.taken[i]);
	returned(w, dat_pz_free(shared.pz), DAT_SUCCESS);
	returned(w, dat_evd_free(shared.evd), DAT_SUCCESS);
	returned(w, dat_cno_free(shared.cno), DAT_SUCCESS);
	returned(w, dat_ia_close(shared.ia, DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
}

const struct op shared_ops[] = {
	{ "shared:dat_evd_post_se", 10, post_op }, { "shared:dat_evd_dequeue", 6, dequeue_op },
	{ "shared:dat_evd_wait", 6, wait_op },	   { "shared:dat_cno_wait", 3, cno_wait_op },
	{ "shared:dat_rmr_create", 2, zone_op },   { 0 },
};
