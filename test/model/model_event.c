/* SPDX-License-Identifier: BSD-2-Clause */
/* The model of events: which may come from an EVD now, and which must come. */
#include <string.h>

#include "model.h"

#define STATE(name) (1u << DAT_EP_STATE_##name)

/* ---- what is to come ---- */

static unsigned life_must(const struct life *life)
{
	return life->over ? 0 : (unsigned)life->est_must + life->end_must;
}

static unsigned queue_must(struct world *w, const struct queue *queue, const struct object *evd)
{
	unsigned n = 0;

	for (const struct transfer *t = queue->first; t; t = t->next)
		n += t->evd == evd && transfer_must(w, t);
	return n;
}

unsigned events_must(struct world *w, struct object *evd)
{
	unsigned n = evd->evd.n_software + cr_must(w, evd);

	for (unsigned i = 0; i < SLOTS; i++) {
		struct object *ep = &w->slot[DAT_HANDLE_TYPE_EP][i];

		if (!ep->live)
			continue;
		if (ep->ep.evd[CONNECT_ROLE] == evd)
			n += life_must(&ep->ep.life) + life_must(&ep->ep.past);
		n += queue_must(w, &ep->ep.recvs, evd) + queue_must(w, &ep->ep.requests, evd);
	}
	return n;
}

static void queue_print(struct world *w, const struct queue *queue, const struct object *evd)
{
	for (const struct transfer *t = queue->first; t; t = t->next)
		if (t->evd == evd && transfer_must(w, t))
			fprintf(stderr, "#\t  a completion of 0x%llx, kind %d\n",
				(unsigned long long)t->cookie, t->kind);
}

void events_print(struct world *w, const struct object *evd)
{
	fprintf(stderr, "#\tTo come: %u software events, %u requests\n", evd->evd.n_software,
		cr_must(w, evd));
	for (unsigned i = 0; i < SLOTS; i++) {
		const struct object *ep = &w->slot[DAT_HANDLE_TYPE_EP][i];
		const struct life *life = &ep->ep.life;

		if (!ep->live)
			continue;
		if (ep->ep.evd[CONNECT_ROLE] == evd && life_must(life))
			fprintf(stderr,
				"#\t  of endpoint %p in the states 0x%x:%s one of the ends "
				"0x%x%s\n",
				ep->handle, ep_states(ep), life->est_must ? " ESTABLISHED," : "",
				life->ends, life->end_must ? "" : ", perhaps");
		queue_print(w, &ep->ep.recvs, evd);
		queue_print(w, &ep->ep.requests, evd);
	}
}

static bool queue_has(const struct queue *queue, const struct object *evd)
{
	for (const struct transfer *t = queue->first; t; t = t->next)
		if (t->evd == evd || t->of_srq)
			return true;
	return false;
}

bool events_may(struct world *w, struct object *evd)
{
	if (cr_may(w, evd) || queue_has(&w->orphans, evd) || evd->evd.flags & DAT_EVD_ASYNC_FLAG)
		return true;
	for (unsigned i = 0; i < SLOTS; i++) {
		const struct object *ep = &w->slot[DAT_HANDLE_TYPE_EP][i];

		if (!ep->live)
			continue;
		if (ep->ep.evd[CONNECT_ROLE] == evd &&
		    (has_events(&ep->ep.life) || has_events(&ep->ep.past)))
			return true;
		if (queue_has(&ep->ep.recvs, evd) || queue_has(&ep->ep.requests, evd) ||
		    (ep->ep.srq && ep->ep.evd[RECV_ROLE] == evd))
			return true;
	}
	for (unsigned i = 0; i < COUNT(w->ghosts); i++)
		if (w->ghosts[i].evd == evd)
			return true;
	return false;
}

/* The EVD is freed, with whatever is queued. */
void evd_forget(struct world *w, struct object *evd)
{
	struct queue kept;

	queue_init(&kept);
	for (struct transfer *t; (t = queue_pop(&w->orphans));) {
		if (t->evd == evd)
			transfer_free(w, t);
		else
			queue_push(&kept, t);
	}
	w->orphans = kept;
	if (!kept.first)
		w->orphans.last = &w->orphans.first;
	for (unsigned i = 0; i < COUNT(w->ghosts); i++)
		if (w->ghosts[i].evd == evd)
			memset(&w->ghosts[i], 0, sizeof(w->ghosts[i]));
	for (struct conn *conn = w->conns; conn; conn = conn->next) {
		if (conn->evd != evd)
			continue;
		conn->evd = NULL;
		conn->lost = true;
		evd->ia->ia_of.lost_requests |= conn->progress == ON_WIRE;
	}
}

/* ---- events of connections ---- */

bool handle_is_used_again(const struct world *w, DAT_EP_HANDLE handle)
{
	for (unsigned i = 0; i < COUNT(w->ghosts); i++)
		if (w->ghosts[i].handle == handle)
			return true;
	return false;
}

static bool is_ghost(const struct world *w, const struct object *evd, DAT_EP_HANDLE handle)
{
	for (unsigned i = 0; i < COUNT(w->ghosts); i++)
		if (w->ghosts[i].evd == evd && w->ghosts[i].handle == handle)
			return true;
	return false;
}

/* What was posted before the end is flushed before the event that tells it, on the same EVD. */
static void flushes_came_first(const struct world *w, const struct queue *queue,
			       const struct object *evd)
{
	for (const struct transfer *t = queue->first; t; t = t->next)
		holds(w, t->evd != evd || !t->before_end || t->flags & DAT_COMPLETION_SUPPRESS_FLAG,
		      "the end comes before the completion of 0x%llx",
		      (unsigned long long)t->cookie);
}

static void established(struct world *w, struct object *ep, struct life *life,
			const DAT_CONNECTION_EVENT_DATA *data)
{
	bool same_handle = is_ghost(w, ep->ep.evd[CONNECT_ROLE], ep->handle);
	uint32_t reply[2];

	script_saw(UP);
	life->est_may = same_handle; /* then it is open whose it was */
	life->est_must = false;
	if (life != &ep->ep.life || same_handle)
		return;
	if (ep->ep.states & (STATE(ACTIVE_CONNECTION_PENDING) | STATE(COMPLETION_PENDING)))
		ep->ep.states = STATE(CONNECTED);
	if (!ep->ep.client) {
		holds(w, !data->private_data_size, "%d bytes of private data",
		      data->private_data_size);
		return;
	}
	holds(w, data->private_data_size >= (DAT_COUNT)sizeof(reply),
	      "only %d bytes of private data", data->private_data_size);
	memcpy(reply, data->private_data, sizeof(reply));
	holds(w, reply[0] == ~ep->ep.conn->id && reply[1] == w->thread,
	      "the private data are another's");
}

static void ended(struct world *w, struct object *ep, struct object *evd, struct life *life,
		  unsigned bit)
{
	script_saw(DOWN);
	life->over = true;
	if (life != &ep->ep.life)
		return;
	if (bit == EVENT_BIT(DAT_CONNECTION_EVENT_NON_PEER_REJECTED) &&
	    !is_ghost(w, evd, ep->handle) && ep->ep.conn->progress == ON_WIRE) {
		ep->ep.conn->progress = REFUSED;
		if (ep->ep.conn->sp)
			ep->ep.conn->sp->sp.attempts--;
	}
	if (bit & ENDED && !is_ghost(w, evd, ep->handle)) {
		flushes_came_first(w, &ep->ep.recvs, evd);
		flushes_came_first(w, &ep->ep.requests, evd);
	}
	ep->ep.states = STATE(DISCONNECTED);
	ep_peer_ends(ep);
}

/*
 * The handle was used before, by an endpoint of which an event may have been queued: the state says
 * that it is not this one's.
 */
static bool ghost_tells(const struct world *w, const struct object *ep, const struct object *evd,
			DAT_EVENT_NUMBER number)
{
	DAT_EP_STATE state;

	if (has_events(&ep->ep.past) || !is_ghost(w, evd, ep->handle))
		return false;
	returned(w, dat_ep_get_status(ep->handle, &state, NULL, NULL), DAT_SUCCESS);
	return number == DAT_CONNECTION_EVENT_ESTABLISHED
		       ? state == DAT_EP_STATE_UNCONNECTED ||
				 state == DAT_EP_STATE_ACTIVE_CONNECTION_PENDING
		       : state != DAT_EP_STATE_DISCONNECTED;
}

static void connection_judge(struct world *w, struct object *evd, const DAT_EVENT *event)
{
	const DAT_CONNECTION_EVENT_DATA *data = &event->event_data.connect_event_data;
	struct object *ep = object_with(w, DAT_HANDLE_TYPE_EP, data->ep_handle);
	unsigned bit = EVENT_BIT(event->event_number);
	struct life *life;

	if (!ep || ep->ep.evd[CONNECT_ROLE] != evd) {
		holds(w, is_ghost(w, evd, data->ep_handle), "%s of an endpoint that there is not",
		      event_name(event->event_number));
		return;
	}
	if (ghost_tells(w, ep, evd, event->event_number))
		return;
	life = has_events(&ep->ep.past) ? &ep->ep.past : &ep->ep.life;
	if (event->event_number == DAT_CONNECTION_EVENT_ESTABLISHED &&
	    (life->est_may || life->est_must)) {
		established(w, ep, life, data);
		return;
	}
	if (life->ends & bit && !life->over && !life->est_must) {
		ended(w, ep, evd, life, bit);
		return;
	}
	holds(w, is_ghost(w, evd, data->ep_handle),
	      "%s, where ESTABLISHED may%s come, and the ends 0x%x%s",
	      event_name(event->event_number), life->est_may || life->est_must ? "" : " not",
	      life->over ? 0 : life->ends, life->over ? " have" : "");
}

/* ---- all events ---- */

static void software_judge(struct world *w, struct object *evd, const DAT_EVENT *event)
{
	struct evd_model *queue = &evd->evd;
	uintptr_t value = (uintptr_t)event->event_data.software_event_data.pointer;

	holds(w, queue->n_software, "a software event that nobody has posted");
	holds(w, value == queue->software[queue->first], "software event %lu, not %lu",
	      (unsigned long)value, (unsigned long)queue->software[queue->first]);
	queue->first = (queue->first + 1) % COUNT(queue->software);
	queue->n_software--;
}

/*
 * Devices may tell of an endpoint that a failed transfer has broken. In DAT 2.0 one of an SRQ is
 * told of at each end of a connection.
 */
static void async_judge(struct world *w, struct object *evd, const DAT_EVENT *event)
{
	bool broken = DAT_EDITION == 2;

	for (const struct conn *conn = w->conns; conn; conn = conn->next)
		broken |= conn->broken;
	holds(w, evd->evd.flags & DAT_EVD_ASYNC_FLAG, "an asynchronous event");
	holds(w, broken && event->event_number == DAT_ASYNC_ERROR_EP_BROKEN,
	      "asynchronous event 0x%x of an endpoint that is not broken", event->event_number);
}

void event_judge(struct world *w, struct object *evd, const DAT_EVENT *event)
{
	holds(w, event->evd_handle == evd->handle, "the event's EVD is %p", event->evd_handle);
	if (event->event_number == DAT_SOFTWARE_EVENT) {
		script_saw(SOFTWARE);
		software_judge(w, evd, event);
		return;
	}
	cno_triggered(evd, false); /* when it arrived */
	switch ((unsigned)event->event_number) {
	case DAT_DTO_COMPLETION_EVENT:
	case DAT_RMR_BIND_COMPLETION_EVENT:
		transfer_judge(w, evd, event);
		break;
	case DAT_CONNECTION_REQUEST_EVENT:
		script_saw(REQUEST);
		cr_arrived(w, evd, &event->event_data.cr_arrival_event_data);
		break;
	default:
		if ((event->event_number & 0xf000) == 0x4000)
			connection_judge(w, evd, event);
		else
			async_judge(w, evd, event);
	}
}
