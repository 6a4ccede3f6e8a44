/* SPDX-License-Identifier: BSD-2-Clause */
/* The model of endpoints: creation, attributes, what state they may be in. */
#include <string.h>

#include "model.h"

#define STATE(name) (1u << DAT_EP_STATE_##name)

/* ---- states ---- */

DAT_RETURN ep_state_error(DAT_EP_STATE state)
{
	switch (state) {
	case DAT_EP_STATE_UNCONNECTED:
		return BAD_STATE(EP_UNCONNECTED);
	case DAT_EP_STATE_RESERVED:
		return BAD_STATE(EP_RESERVED);
	case DAT_EP_STATE_PASSIVE_CONNECTION_PENDING:
		return BAD_STATE(EP_PASSCONNPENDING);
	case DAT_EP_STATE_ACTIVE_CONNECTION_PENDING:
		return BAD_STATE(EP_ACTCONNPENDING);
	case DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING:
		return BAD_STATE(EP_TENTCONNPENDING);
	case DAT_EP_STATE_CONNECTED:
		return BAD_STATE(EP_CONNECTED);
	case DAT_EP_STATE_DISCONNECT_PENDING:
		return BAD_STATE(EP_DISCPENDING);
	case DAT_EP_STATE_DISCONNECTED:
		return BAD_STATE(EP_DISCONNECTED);
	case DAT_EP_STATE_COMPLETION_PENDING:
		return BAD_STATE(EP_COMPLPENDING);
	default:
		return DAT_INTERNAL_ERROR;
	}
}

static bool reservation_may_be_taken(const struct object *ep)
{
	return ep->ep.rsp && ep->ep.rsp->sp.attempts;
}

/* The last state that was seen, and those that an event not yet seen may have brought. */
unsigned ep_states(const struct object *ep)
{
	const struct life *life = &ep->ep.life;
	unsigned states = ep->ep.states;

	if (states & STATE(RESERVED) && reservation_may_be_taken(ep))
		states |= STATE(PASSIVE_CONNECTION_PENDING);
	if (states & (STATE(ACTIVE_CONNECTION_PENDING) | STATE(COMPLETION_PENDING)) &&
	    (life->est_may || life->est_must))
		states |= STATE(CONNECTED);
	if (life->ends && !life->over && states & (STATE(CONNECTED) | STATE(COMPLETION_PENDING)))
		states |= STATE(DISCONNECT_PENDING); /* for a moment */
	if (life->ends && !life->over)
		states |= STATE(DISCONNECTED);
	return states;
}

bool ep_surely(const struct object *ep, DAT_EP_STATE state)
{
	return ep_states(ep) == 1u << state;
}

bool ep_returned(struct world *w, struct object *ep, DAT_RETURN got, unsigned legal)
{
	unsigned states = ep_states(ep), illegal = states & ~legal;

	script_saw(got == DAT_SUCCESS ? A_SUCCESS : A_REFUSAL);
	if (got == DAT_SUCCESS) {
		holds(w, states & legal, "it succeeded in one of the states 0x%x", states);
		ep->ep.states = states & legal;
		return true;
	}
	for (unsigned state = 0; illegal >> state; state++)
		if (illegal & 1u << state && got == ep_state_error((DAT_EP_STATE)state)) {
			ep->ep.states = 1u << state;
			return false;
		}
	mismatch(w, "it returned %s in one of the states 0x%x; 0x%x are legal", status_text(got),
		 states, legal);
}

/* ---- what it holds ---- */

void ep_attach(struct object *ep, enum role role, struct object *evd)
{
	if (ep->ep.evd[role])
		ep->ep.evd[role]->uses--;
	ep->ep.evd[role] = evd;
	if (evd)
		evd->uses++;
}

static void ghost_born(struct world *w, const struct object *ep)
{
	struct ghost *ghost = &w->ghosts[w->n_ghosts++ % COUNT(w->ghosts)];

	ghost->handle = ep->handle;
	ghost->evd = ep->ep.evd[CONNECT_ROLE];
}

bool has_events(const struct life *life)
{
	return !life->over && (life->est_may || life->est_must || life->ends);
}

/* The endpoint is freed, and its connection ends silently. */
void ep_release(struct world *w, struct object *ep)
{
	ep_peer_ends(ep);
	if (has_events(&ep->ep.life) || has_events(&ep->ep.past) || ep->ep.srq)
		ghost_born(w, ep);
	transfers_orphan(w, &ep->ep.recvs);
	transfers_orphan(w, &ep->ep.requests);
	for (unsigned role = 0; role < ROLES; role++)
		ep_attach(ep, (enum role)role, NULL);
	if (ep->ep.pz)
		ep->ep.pz->uses--;
	if (ep->ep.srq)
		ep->ep.srq->uses--;
	if (ep->ep.rsp)
		ep->ep.rsp->sp.ep = NULL;
	if (ep->ep.cr)
		ep->ep.cr->cr.ep = NULL;
	for (struct conn *conn = w->conns; conn; conn = conn->next)
		for (unsigned end = 0; end < ENDS; end++)
			if (conn->end[end] == ep)
				conn->end[end] = NULL;
	object_dies(ep);
}

/* ---- creation ---- */

/* Attributes that all devices have; with flags of @arg, or one that no endpoint can have. */
static DAT_EP_ATTR attr_of(uint16_t arg, bool *bad)
{
	DAT_EP_ATTR attr = ep_attr_for(4 + arg % 5, 4 + arg / 5 % 5);

	attr.max_recv_iov = attr.max_request_iov = 2;
	if (arg / 32 % 4 == 0)
		attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
	if (arg / 32 % 8 == 0)
		attr.recv_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
	*bad = arg / 256 % 32 == 0;
	if (*bad && arg % 2)
		attr.max_recv_dtos = -1;
	else if (*bad)
		attr.service_type = (DAT_SERVICE_TYPE)0x70;
	return attr;
}

static struct object *evd_arg(struct world *w, uint16_t arg, const struct object *ia,
			      DAT_EVD_FLAGS flag, DAT_EVD_HANDLE *handle, bool *bad)
{
	struct object *evd;

	*handle = DAT_HANDLE_NULL;
	*bad = false;
	if (arg / 1024 % 8 == 0)
		return NULL;
	evd = object_of(w, arg, DAT_HANDLE_TYPE_EVD, ia, handle);
	for (unsigned i = 0; i < SLOTS && evd && !(evd->evd.flags & flag) && arg % 16; i++)
		evd = object_of(w, (uint16_t)(arg + i), DAT_HANDLE_TYPE_EVD, ia, handle);
	*bad = *handle && !(evd && evd->evd.flags & flag);
	return evd;
}

static void ep_born(struct world *w, struct object *ep, DAT_EP_HANDLE handle, struct object *ia,
		    struct object *pz, struct object *const evds[ROLES], struct object *srq)
{
	DAT_EP_PARAM param;

	object_born(ep, handle, ia);
	ep->ep.states = STATE(UNCONNECTED);
	queue_init(&ep->ep.recvs);
	queue_init(&ep->ep.requests);
	ep->ep.pz = pz;
	if (pz)
		pz->uses++;
	ep->ep.srq = srq;
	if (srq)
		srq->uses++;
	for (unsigned role = 0; evds && role < ROLES; role++)
		ep_attach(ep, (enum role)role, evds[role]);
	returned(w, dat_ep_query(handle, DAT_EP_FIELD_ALL, &param), DAT_SUCCESS);
	ep->ep.attr = param.ep_attr;
}

void ep_born_tentative(struct world *w, struct object *ep, DAT_EP_HANDLE handle, struct object *ia)
{
	ep_born(w, ep, handle, ia, NULL, NULL, NULL);
	ep->ep.states = STATE(TENTATIVE_CONNECTION_PENDING);
}

static void ep_create_with(struct world *w, const struct call *c, bool with_srq)
{
	struct object *ep = object_slot(w, DAT_HANDLE_TYPE_EP), *ia, *pz = NULL, *srq = NULL;
	bool no_attr = !(c->arg[6] % 4) && !with_srq, no_out = rarely(c->arg[7], 64), bad_attr;
	DAT_EP_ATTR attr = attr_of(c->arg[6], &bad_attr);
	struct object *evds[ROLES];
	DAT_EVD_HANDLE evd_handles[ROLES];
	bool bad[ROLES];
	DAT_IA_HANDLE ia_handle;
	DAT_PZ_HANDLE pz_handle = DAT_HANDLE_NULL;
	DAT_SRQ_HANDLE srq_handle = DAT_HANDLE_NULL;
	DAT_EP_HANDLE handle;
	DAT_RETURN want = DAT_SUCCESS, got;

	if (!ep)
		return;
	ia = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_IA, &ia_handle);
	if (c->arg[1] / 1024 % 16)
		pz = object_of(w, c->arg[1], DAT_HANDLE_TYPE_PZ, ia, &pz_handle);
	evds[RECV_ROLE] = evd_arg(w, c->arg[2], ia, DAT_EVD_DTO_FLAG, &evd_handles[RECV_ROLE],
				  &bad[RECV_ROLE]);
	evds[REQUEST_ROLE] = evd_arg(w, c->arg[3], ia, DAT_EVD_DTO_FLAG, &evd_handles[REQUEST_ROLE],
				     &bad[REQUEST_ROLE]);
	evds[CONNECT_ROLE] = evd_arg(w, c->arg[4], ia, DAT_EVD_CONNECTION_FLAG,
				     &evd_handles[CONNECT_ROLE], &bad[CONNECT_ROLE]);
	if (with_srq)
		srq = object_of(w, c->arg[5], DAT_HANDLE_TYPE_SRQ, ia, &srq_handle);
	if (srq && (!pz || pz != srq->srq.pz))
		return; /* whether the zones may differ depends on the device */
	if (foreign(evds[CONNECT_ROLE], ia))
		return; /* allowed, but its IA may be closed before */
	bad_attr = bad_attr && !no_attr;
	CHECK(want, !ia, BAD_HANDLE(IA));
	CHECK(want, pz_handle && !of_ia(pz, ia), BAD_HANDLE(PZ));
	CHECK(want, bad[RECV_ROLE] || foreign(evds[RECV_ROLE], ia), BAD_HANDLE(EVD_RECV));
	CHECK(want, bad[REQUEST_ROLE] || foreign(evds[REQUEST_ROLE], ia), BAD_HANDLE(EVD_REQUEST));
	CHECK(want, bad[CONNECT_ROLE], BAD_HANDLE(EVD_CONN));
	CHECK(want, with_srq && !of_ia(srq, ia), BAD_HANDLE(SRQ));
	CHECK(want, no_out, with_srq ? BAD_ARG(8) : BAD_ARG(7));
	CHECK(want, bad_attr, with_srq ? BAD_ARG(7) : BAD_ARG(6));
	if (with_srq)
		got = dat_ep_create_with_srq(ia_handle, pz_handle, evd_handles[RECV_ROLE],
					     evd_handles[REQUEST_ROLE], evd_handles[CONNECT_ROLE],
					     srq_handle, &attr, no_out ? NULL : &handle);
	else
		got = dat_ep_create(ia_handle, pz_handle, evd_handles[RECV_ROLE],
				    evd_handles[REQUEST_ROLE], evd_handles[CONNECT_ROLE],
				    no_attr ? NULL : &attr, no_out ? NULL : &handle);
	if (!returned(w, got, want))
		return;
	ep_born(w, ep, handle, ia, pz, evds, srq);
	if (no_attr)
		return;
	holds(w, with_srq || ep->ep.attr.max_recv_dtos == attr.max_recv_dtos,
	      "max_recv_dtos is %d, not %d", ep->ep.attr.max_recv_dtos, attr.max_recv_dtos);
	holds(w, ep->ep.attr.max_request_dtos >= attr.max_request_dtos,
	      "max_request_dtos is %d, not %d", ep->ep.attr.max_request_dtos,
	      attr.max_request_dtos);
}

static void ep_create_op(struct world *w, const struct call *c)
{
	ep_create_with(w, c, false);
}

static void ep_create_with_srq_op(struct world *w, const struct call *c)
{
	if (device_has(NEEDS_SRQ))
		ep_create_with(w, c, true);
}

/* ---- queries ---- */

static DAT_HANDLE handle_or_null(const struct object *object)
{
	return object ? object->handle : DAT_HANDLE_NULL;
}

static void state_seen(struct world *w, struct object *ep, DAT_EP_STATE state)
{
	unsigned states = ep_states(ep);

	holds(w, states & 1u << state, "the state is %d, not one of 0x%x", state, states);
	ep->ep.states = 1u << state;
}

static void ep_query_op(struct world *w, const struct call *c)
{
	bool no_out = rarely(c->arg[1], 16);
	DAT_EP_HANDLE handle;
	struct object *ep = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EP, &handle);
	DAT_RETURN want = DAT_SUCCESS;
	DAT_EP_PARAM param;

	CHECK(want, !ep, BAD_HANDLE(EP));
	CHECK(want, no_out, BAD_ARG(3));
	if (!returned(w, dat_ep_query(handle, DAT_EP_FIELD_ALL, no_out ? NULL : &param), want))
		return;
	state_seen(w, ep, param.ep_state);
	holds(w, param.ia_handle == ep->ia->handle, "the IA is %p", param.ia_handle);
	holds(w, param.pz_handle == handle_or_null(ep->ep.pz), "the zone is %p", param.pz_handle);
	holds(w, param.recv_evd_handle == handle_or_null(ep->ep.evd[RECV_ROLE]),
	      "the EVD of receives is %p", param.recv_evd_handle);
	holds(w, param.request_evd_handle == handle_or_null(ep->ep.evd[REQUEST_ROLE]),
	      "the EVD of requests is %p", param.request_evd_handle);
	holds(w, param.connect_evd_handle == handle_or_null(ep->ep.evd[CONNECT_ROLE]),
	      "the EVD of connections is %p", param.connect_evd_handle);
	holds(w, param.srq_handle == handle_or_null(ep->ep.srq), "the SRQ is %p", param.srq_handle);
	holds(w, param.ep_attr.max_recv_dtos == ep->ep.attr.max_recv_dtos, "max_recv_dtos is %d",
	      param.ep_attr.max_recv_dtos);
}

/* Nothing is outstanding for certain only if every completion was seen. */
static void ep_get_status_op(struct world *w, const struct call *c)
{
	DAT_EP_HANDLE handle;
	struct object *ep = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EP, &handle);
	DAT_BOOLEAN recv_idle, request_idle;
	DAT_EP_STATE state;

	if (!returned(w, dat_ep_get_status(handle, &state, &recv_idle, &request_idle),
		      ep ? DAT_SUCCESS : BAD_HANDLE(EP)))
		return;
	state_seen(w, ep, state);
	holds(w, recv_idle || ep->ep.recvs.n, "receives are outstanding, and none was posted");
	holds(w, request_idle || ep->ep.requests.n,
	      "requests are outstanding, and none was posted");
	holds(w, !recv_idle || !ep->ep.recvs.n || ep->ep.conn || ep->ep.srq,
	      "no receive is outstanding, and %u were posted", ep->ep.recvs.n);
}

/* Receives that surely wait: no message was sent to them, and no connection has ended. */
static unsigned recvs_waiting(const struct object *ep)
{
	const struct conn *conn = ep->ep.conn;
	unsigned sent;

	if (ep_states(ep) & (STATE(DISCONNECTED) | STATE(DISCONNECT_PENDING)) || ep->ep.failed[0])
		return 0;
	if (!conn)
		return ep->ep.recvs.n;
	sent = conn->way[!ep->ep.client ? CLIENT : SERVER].sent -
	       conn->way[!ep->ep.client ? CLIENT : SERVER].received;
	return ep->ep.recvs.n > sent ? ep->ep.recvs.n - sent : 0;
}

static void ep_recv_query_op(struct world *w, const struct call *c)
{
	DAT_EP_HANDLE handle;
	struct object *ep = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EP, &handle);
	DAT_COUNT n = -5, span = -5;

	if (!returned(w, dat_ep_recv_query(handle, &n, &span), ep ? DAT_SUCCESS : BAD_HANDLE(EP)) ||
	    ep->ep.srq)
		return;
	holds(w, n == span, "%d buffers, but a span of %d", n, span);
	holds(w, n >= (DAT_COUNT)recvs_waiting(ep) && n <= (DAT_COUNT)ep->ep.recvs.n,
	      "%d buffers, not %u to %u", n, recvs_waiting(ep), ep->ep.recvs.n);
}

static void ep_set_watermark_op(struct world *w, const struct call *c)
{
	DAT_COUNT soft = rarely(c->arg[1], 4) ? -2 : DAT_WATERMARK_INFINITE;
	DAT_EP_HANDLE handle;
	struct object *ep = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EP, &handle);
	DAT_RETURN want = DAT_SUCCESS;

	CHECK(want, !ep, BAD_HANDLE(EP));
	CHECK(want, soft == -2, BAD_ARG(2));
	returned(w, dat_ep_set_watermark(handle, soft, DAT_WATERMARK_INFINITE), want);
}

/* ---- changes ---- */

/*
 * Gives it a zone and EVDs, which a provider's endpoint lacks. With transfers or events under way
 * it is left as it is: which EVD gets them would be open.
 */
static void ep_modify_op(struct world *w, const struct call *c)
{
	const unsigned evds_in = STATE(UNCONNECTED) | STATE(RESERVED) |
				 STATE(PASSIVE_CONNECTION_PENDING) |
				 STATE(TENTATIVE_CONNECTION_PENDING);
	const unsigned zone_in = STATE(UNCONNECTED) | STATE(TENTATIVE_CONNECTION_PENDING);
	bool no_param = rarely(c->arg[5], 32), bad_field = rarely(c->arg[6], 32), bad_recv, bad_req,
	     bad_conn;
	DAT_EP_PARAM_MASK mask = DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_REQUEST_EVD_HANDLE |
				 DAT_EP_FIELD_CONNECT_EVD_HANDLE | DAT_EP_FIELD_PZ_HANDLE;
	struct object *ep, *pz, *recv_evd, *request_evd, *connect_evd, *ia;
	DAT_EP_PARAM param;
	DAT_EP_HANDLE handle;
	DAT_RETURN want = DAT_SUCCESS, got;

	memset(&param, 0, sizeof(param));
	ep = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EP, &handle);
	ia = ep ? ep->ia : NULL;
	if (ep && (ep->ep.srq || ep->ep.recvs.n || ep->ep.requests.n || has_events(&ep->ep.past)))
		return;
	pz = object_of(w, c->arg[1], DAT_HANDLE_TYPE_PZ, ia, &param.pz_handle);
	recv_evd = evd_arg(w, c->arg[2], ia, DAT_EVD_DTO_FLAG, &param.recv_evd_handle, &bad_recv);
	request_evd = evd_arg(w, c->arg[3], ia, DAT_EVD_DTO_FLAG, &param.request_evd_handle,
			      &bad_req);
	connect_evd = evd_arg(w, c->arg[4], ia, DAT_EVD_CONNECTION_FLAG, &param.connect_evd_handle,
			      &bad_conn);
	if (c->arg[7] % 2 || (param.pz_handle && !pz))
		mask &= ~DAT_EP_FIELD_PZ_HANDLE;
	if (bad_field)
		mask |= DAT_EP_FIELD_EP_STATE;
	if (ep &&
	    ((pz && pz->ia != ia) || (recv_evd && recv_evd->ia != ia) ||
	     (request_evd && request_evd->ia != ia) || (connect_evd && connect_evd->ia != ia)))
		return;
	CHECK(want, !ep, BAD_HANDLE(EP));
	CHECK(want, no_param, BAD_ARG(3));
	CHECK(want, bad_field, BAD_ARG(2));
	if (want == DAT_SUCCESS && (bad_recv || bad_req || bad_conn))
		return; /* in a wrong state, too, either is told */
	got = dat_ep_modify(handle, mask, no_param ? NULL : &param);
	if (want != DAT_SUCCESS) {
		returned(w, got, want);
		return;
	}
	if (!ep_returned(w, ep, got, mask & DAT_EP_FIELD_PZ_HANDLE ? zone_in : evds_in))
		return;
	ep_attach(ep, RECV_ROLE, recv_evd);
	ep_attach(ep, REQUEST_ROLE, request_evd);
	ep_attach(ep, CONNECT_ROLE, connect_evd);
	if (!(mask & DAT_EP_FIELD_PZ_HANDLE))
		return;
	if (ep->ep.pz)
		ep->ep.pz->uses--;
	ep->ep.pz = pz;
	if (pz)
		pz->uses++;
}

static void ep_free_op(struct world *w, const struct call *c)
{
	DAT_EP_HANDLE handle;
	struct object *ep = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EP, &handle);
	DAT_RETURN got;

	if (ep && ep->ep.states & STATE(CONNECTED) && !rarely(c->arg[1], 8))
		return; /* so that connections live for a while */
	got = dat_ep_free(handle);
	if (!ep)
		returned(w, got, BAD_HANDLE(EP));
	else if (ep_returned(w, ep, got,
			     ~(STATE(RESERVED) | STATE(PASSIVE_CONNECTION_PENDING) |
			       STATE(TENTATIVE_CONNECTION_PENDING))))
		ep_release(w, ep);
}

/* Events of the old connection stay queued; the next attempt waits until they were seen. */
static void ep_reset_op(struct world *w, const struct call *c)
{
	DAT_EP_HANDLE handle;
	struct object *ep = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EP, &handle);
	DAT_RETURN got;
	bool was_unconnected;

	if (ep && has_events(&ep->ep.past))
		return;
	was_unconnected = ep && ep_surely(ep, DAT_EP_STATE_UNCONNECTED);
	got = dat_ep_reset(handle);
	if (!ep) {
		returned(w, got, BAD_HANDLE(EP));
		return;
	}
	if (!ep_returned(w, ep, got, STATE(DISCONNECTED) | STATE(UNCONNECTED)) || was_unconnected)
		return;
	ep_peer_ends(ep);
	if (ep->ep.srq)
		ghost_born(w, ep); /* a completion does not say of which connection it is */
	ep->ep.past = ep->ep.life;
	memset(&ep->ep.life, 0, sizeof(ep->ep.life));
	ep->ep.states = STATE(UNCONNECTED);
	transfers_orphan(w, &ep->ep.recvs);
	transfers_orphan(w, &ep->ep.requests);
	if (ep->ep.conn)
		ep->ep.conn->end[ep->ep.client ? CLIENT : SERVER] = NULL;
	ep->ep.conn = NULL;
	ep->ep.failed[0] = ep->ep.failed[1] = ep->ep.asked = false;
}

const struct op ep_ops[] = {
	{ "dat_ep_create", 18, ep_create_op },
	{ "dat_ep_create_with_srq", 4, ep_create_with_srq_op },
	{ "dat_ep_query", 6, ep_query_op },
	{ "dat_ep_get_status", 12, ep_get_status_op },
	{ "dat_ep_recv_query", 6, ep_recv_query_op },
	{ "dat_ep_set_watermark", 2, ep_set_watermark_op },
	{ "dat_ep_modify", 16, ep_modify_op },
	{ "dat_ep_free", 6, ep_free_op },
	{ "dat_ep_reset", 14, ep_reset_op },
	{ 0 },
};
