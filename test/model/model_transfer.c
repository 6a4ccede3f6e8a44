/* SPDX-License-Identifier: BSD-2-Clause */
/* The model of transfers: queues of what was posted, what completes, and what the data are. */
#include <stdlib.h>

#include "model.h"

#define STATE(name) (1u << DAT_EP_STATE_##name)

/* ---- queues ---- */

void queue_init(struct queue *queue)
{
	queue->first = NULL;
	queue->last = &queue->first;
	queue->n = 0;
}

void queue_push(struct queue *queue, struct transfer *transfer)
{
	transfer->next = NULL;
	*queue->last = transfer;
	queue->last = &transfer->next;
	queue->n++;
}

struct transfer *queue_pop(struct queue *queue)
{
	struct transfer *transfer = queue->first;

	if (!transfer)
		return NULL;
	queue->first = transfer->next;
	if (!queue->first)
		queue->last = &queue->first;
	queue->n--;
	return transfer;
}

static void queue_take(struct queue *queue, struct transfer *transfer)
{
	struct transfer **at = &queue->first;

	while (*at != transfer)
		at = &(*at)->next;
	*at = transfer->next;
	if (!*at)
		queue->last = at;
	queue->n--;
}

static struct transfer *queue_find(const struct queue *queue, uint64_t cookie)
{
	struct transfer *t = queue->first;

	while (t && t->cookie != cookie)
		t = t->next;
	return t;
}

/* It is over: what it used is free for others. */
void transfer_free(struct world *w, struct transfer *transfer)
{
	if (transfer->rmr)
		transfer->rmr->rmr.binds--;
	for (unsigned i = 0; i < COUNT(transfer->lmr); i++)
		if (transfer->lmr[i])
			transfer->lmr[i]->lmr.transfers--;
	block_put(w, transfer->block);
	free(transfer);
}

void transfers_drop(struct world *w, struct queue *queue)
{
	for (struct transfer *t; (t = queue_pop(queue));)
		transfer_free(w, t);
}

/* A bind that was not seen complete leaves the window as it was, unless it was. */
static void bind_ends(struct transfer *t, bool done)
{
	if (!t->rmr)
		return;
	if (!done) {
		if (t->lmr[0])
			t->lmr[0]->uses--;
		return;
	}
	if (t->rmr->rmr.lmr)
		t->rmr->rmr.lmr->uses--;
	t->rmr->rmr.lmr = t->lmr[0];
}

/* Its endpoint is gone, so that a bind has been executed or not: the window says which. */
static void bind_settles(struct world *w, struct transfer *t)
{
	struct object *rmr = t->rmr, *was = rmr->rmr.lmr, *now = NULL;
	DAT_RMR_PARAM param;
	DAT_RETURN got;

	t->rmr = NULL;
	if (!rmr->live)
		return; /* with its IA */
	rmr->rmr.binds--;
	got = dat_rmr_query(rmr->handle, DAT_RMR_FIELD_ALL, &param);
	if (got != BAD_ARG(2)) { /* it is bound */
		returned(w, got, DAT_SUCCESS);
		now = param.lmr_triplet.lmr_context == t->lmr[0]->lmr.context ? t->lmr[0] : was;
		holds(w, now && param.lmr_triplet.lmr_context == now->lmr.context,
		      "the window is bound to 0x%x", param.lmr_triplet.lmr_context);
	}
	if (was)
		was->uses--;
	t->lmr[0]->uses--;
	rmr->rmr.lmr = now;
	if (now)
		now->uses++;
}

/* Their endpoint is freed or reset, which ends them; their events may have been queued before. */
void transfers_orphan(struct world *w, struct queue *queue)
{
	for (struct transfer *t; (t = queue_pop(queue));) {
		if (t->kind == BIND)
			bind_settles(w, t);
		for (unsigned i = 0; i < COUNT(t->lmr); i++)
			if (t->lmr[i])
				t->lmr[i]->lmr.transfers--;
		block_put(w, t->block);
		t->lmr[0] = t->lmr[1] = NULL;
		t->block = -1;
		t->ep = NULL;
		if (t->evd || t->of_srq)
			queue_push(&w->orphans, t);
		else
			free(t);
	}
}

/* ---- what must complete ---- */

static struct way *way_out(const struct object *ep)
{
	return &ep->ep.conn->way[ep->ep.client ? CLIENT : SERVER];
}

static struct way *way_in(const struct object *ep)
{
	return &ep->ep.conn->way[ep->ep.client ? SERVER : CLIENT];
}

void conn_gets_recvs(struct object *ep)
{
	struct way *way = way_in(ep);

	way->shared = ep->ep.srq != NULL;
	for (const struct transfer *t = ep->ep.recvs.first; t; t = t->next)
		way->room[way->posted++ % MESSAGES] = t->length;
}

static bool surely_up(const struct object *ep)
{
	return ep && ep_surely(ep, DAT_EP_STATE_CONNECTED);
}

bool ep_flows(const struct object *ep)
{
	const struct way *in, *out;

	if (!ep->ep.conn)
		return false;
	in = way_in(ep);
	out = way_out(ep);
	if (device()->stays_held_up && (in->held_up || out->held_up))
		return false;
	return surely_up(ep) && surely_up(ep_peer(ep)) && !ep->ep.conn->broken && !in->shared &&
	       !out->shared && in->sent <= in->posted && out->sent <= out->posted;
}

bool transfer_must(struct world *w, const struct transfer *t)
{
	const struct object *ep = t->ep;
	const struct way *in;
	unsigned index = 0;

	(void)w;
	if (!ep || !t->evd)
		return false;
	if (ep_surely(ep, DAT_EP_STATE_DISCONNECTED) || ep->ep.life.end_must)
		return !t->conn || !(t->flags & DAT_COMPLETION_SUPPRESS_FLAG);
	if (!ep_flows(ep))
		return false;
	if (t->kind != RECV)
		return !(t->flags & DAT_COMPLETION_SUPPRESS_FLAG);
	in = way_in(ep);
	for (const struct transfer *other = ep->ep.recvs.first; other != t; other = other->next)
		index++;
	return in->received + index < in->sent;
}

/* ---- what has completed ---- */

static bool may_have_ended(const struct object *ep)
{
	return ep_states(ep) & (STATE(DISCONNECTED) | STATE(DISCONNECT_PENDING)) ||
	       (ep->ep.conn && ep->ep.conn->broken);
}

static void message_judge(struct world *w, const struct transfer *t, struct object *ep,
			  size_t length)
{
	struct way *way = way_in(ep);
	unsigned k = way->received++ % MESSAGES;

	holds(w, way->received <= way->sent, "a message that nobody has sent");
	holds(w, length == way->length[k], "%zu bytes arrived, not %zu", length, way->length[k]);
	holds(w, block_has(w, t->block, length, way->seed[k]), "other bytes than were sent");
}

static void success_judge(struct world *w, const struct transfer *t, struct object *ep,
			  const DAT_DTO_COMPLETION_EVENT_DATA *data)
{
	holds(w, !ep->ep.failed[t->kind != RECV], "a success behind a failure");
	holds(w, ep->ep.conn && !t->bad, "a success without a connection, or without a region");
	if (t->kind == RECV) {
		message_judge(w, t, ep, data->transfered_length);
		return;
	}
	if (t->kind == BIND)
		return;
	holds(w, t->conn, "a success of what was posted after the end");
	holds(w, data->transfered_length == t->length, "%llu bytes were moved, not %zu",
	      (unsigned long long)data->transfered_length, t->length);
	if (t->kind == SEND && device_has(NEEDS_SEND_PLACEMENT) && !way_out(ep)->shared)
		holds(w, t->number < way_out(ep)->posted, "a message without a receive was sent");
	if (t->kind == READ)
		holds(w, block_has(w, t->block, t->length, (uint64_t)block_source()),
		      "other bytes than the peer has");
	if (t->kind == WRITE && device_has(NEEDS_PLACEMENT))
		holds(w, block_has(w, t->target, t->length, t->cookie),
		      "other bytes than were written");
}

static bool is_failure_of(const struct transfer *t, const struct object *ep,
			  DAT_DTO_COMPLETION_STATUS status)
{
	if (t->bad)
		return status ==
		       (t->kind == READ ? device()->bad_read_sink : device()->bad_segment);
	if (ep->ep.conn && ep->ep.conn->broken)
		return status == (t->kind == RECV ? device()->short_receive
						  : device()->refused_send) ||
		       status == DAT_DTO_ERR_TRANSPORT;
	/* the peer has gone, and does not answer */
	return t->kind != RECV && may_have_ended(ep) &&
	       (status == DAT_DTO_ERR_TRANSPORT || status == DAT_DTO_ERR_RECEIVER_NOT_READY);
}

static void status_judge(struct world *w, const struct transfer *t, struct object *ep,
			 const DAT_DTO_COMPLETION_EVENT_DATA *data)
{
	script_saw(data->status == DAT_DTO_SUCCESS	 ? COMPLETED
		   : data->status == DAT_DTO_ERR_FLUSHED ? FLUSHED
							 : FAILED);
	if (data->status == DAT_DTO_SUCCESS) {
		success_judge(w, t, ep, data);
		return;
	}
	ep->ep.failed[t->kind != RECV] = true;
	if (data->status == DAT_DTO_ERR_FLUSHED) {
		holds(w, may_have_ended(ep), "it is flushed, and the connection stands");
		return;
	}
	holds(w, is_failure_of(t, ep, data->status), "it fails with status %d", data->status);
	if (!may_have_ended(ep) || !ep->ep.life.end_must)
		ep_ends(ep, ENDED, true);
	else
		ep_ends(ep, ENDED, false);
	ep_peer_ends(ep);
}

#if DAT_EDITION == 2
static void operation_judge(struct world *w, const struct transfer *t,
			    const DAT_DTO_COMPLETION_EVENT_DATA *data)
{
	static const DAT_DTOS operations[TRANSFER_KINDS] = {
		[SEND] = DAT_DTO_SEND,
		[RECV] = DAT_DTO_RECEIVE,
		[WRITE] = DAT_DTO_RDMA_WRITE,
		[READ] = DAT_DTO_RDMA_READ,
	};

	holds(w, data->operation == operations[t->kind], "its operation is %d", data->operation);
}
#else
static void operation_judge(struct world *w, const struct transfer *t,
			    const DAT_DTO_COMPLETION_EVENT_DATA *data)
{
	(void)w;
	(void)t;
	(void)data;
}
#endif

/* Earlier requests that were suppressed have succeeded; any other should have completed. */
static void head_judge(struct world *w, struct queue *queue, const struct transfer *t)
{
	while (queue->first != t) {
		struct transfer *skipped = queue_pop(queue);

		holds(w, skipped->flags & DAT_COMPLETION_SUPPRESS_FLAG && skipped->conn,
		      "0x%llx completes before 0x%llx", (unsigned long long)t->cookie,
		      (unsigned long long)skipped->cookie);
		bind_ends(skipped, true);
		transfer_free(w, skipped);
	}
}

static struct queue *queue_of(struct world *w, uint64_t cookie, struct object **ep_out,
			      struct transfer **out)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		struct object *ep = &w->slot[DAT_HANDLE_TYPE_EP][i];
		struct object *srq = &w->slot[DAT_HANDLE_TYPE_SRQ][i];

		*ep_out = ep;
		if (ep->live && (*out = queue_find(&ep->ep.recvs, cookie)))
			return &ep->ep.recvs;
		if (ep->live && (*out = queue_find(&ep->ep.requests, cookie)))
			return &ep->ep.requests;
		*ep_out = NULL;
		if (srq->live && (*out = queue_find(&srq->srq.recvs, cookie)))
			return &srq->srq.recvs;
	}
	*ep_out = NULL;
	*out = queue_find(&w->orphans, cookie);
	return *out ? &w->orphans : NULL;
}

static void bind_judge(struct world *w, struct queue *queue, struct transfer *t, struct object *ep,
		       const DAT_RMR_BIND_COMPLETION_EVENT_DATA *data)
{
	DAT_DTO_COMPLETION_EVENT_DATA as_dto = { .status = data->status };

	holds(w, t->kind == BIND, "a completed bind that was none");
	if (ep) {
		head_judge(w, queue, t);
		holds(w, data->rmr_handle == t->rmr->handle, "the window is %p", data->rmr_handle);
		status_judge(w, t, ep, &as_dto);
	}
	bind_ends(t, data->status == DAT_RMR_BIND_SUCCESS);
}

static void dto_judge(struct world *w, struct queue *queue, struct transfer *t, struct object *ep,
		      const DAT_DTO_COMPLETION_EVENT_DATA *data)
{
	holds(w, t->kind != BIND, "a completed transfer that was a bind");
	operation_judge(w, t, data);
	if (queue == &w->orphans)
		return;
	if (!ep) { /* of an SRQ: an endpoint has taken it */
		ep = object_with(w, DAT_HANDLE_TYPE_EP, data->ep_handle);
		if (!ep || !ep->ep.srq || queue != &ep->ep.srq->srq.recvs || !ep->ep.conn)
			return; /* that one was freed or reset since */
		way_in(ep)->unsure |= handle_is_used_again(w, ep->handle);
		if (way_in(ep)->unsure)
			return; /* it may have been */
	} else {
		head_judge(w, queue, t);
		holds(w, data->ep_handle == ep->handle, "the endpoint is %p", data->ep_handle);
	}
	status_judge(w, t, ep, data);
}

void transfer_judge(struct world *w, struct object *evd, const DAT_EVENT *event)
{
	const DAT_EVENT_DATA *data = &event->event_data;
	bool bind = event->event_number == DAT_RMR_BIND_COMPLETION_EVENT;
	uint64_t cookie = bind ? data->rmr_completion_event_data.user_cookie.as_64
			       : data->dto_completion_event_data.user_cookie.as_64;
	struct transfer *t = NULL;
	struct object *ep;
	struct queue *queue = queue_of(w, cookie, &ep, &t);

	holds(w, queue, "a completion of 0x%llx, which is not outstanding",
	      (unsigned long long)cookie);
	holds(w, t->evd == evd || !t->evd, "a completion on the wrong EVD");
	if (bind)
		bind_judge(w, queue, t, ep, &data->rmr_completion_event_data);
	else
		dto_judge(w, queue, t, ep, &data->dto_completion_event_data);
	queue_take(queue, t);
	transfer_free(w, t);
}
