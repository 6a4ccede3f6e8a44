/* SPDX-License-Identifier: BSD-2-Clause */
/* The model of connections: how they are asked for, how they end, and what each end is told. */
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define STATE(name) (1u << DAT_EP_STATE_##name)

/* ---- ends ---- */

struct object *ep_peer(const struct object *ep)
{
	return ep->ep.conn ? ep->ep.conn->end[ep->ep.client ? SERVER : CLIENT] : NULL;
}

void ep_ends(struct object *ep, unsigned ends, bool must)
{
	struct life *life = &ep->ep.life;

	if (life->over)
		return;
	life->ends |= ends;
	life->end_must |= must;
}

void ep_peer_ends(struct object *ep)
{
	struct object *peer = ep_peer(ep);
	struct conn *conn = ep->ep.conn;
	struct life *life;
	unsigned ends = ENDED;

	if (!conn)
		return;
	if (!peer) {
		conn->lost |= conn->progress == ON_WIRE;
		return;
	}
	life = &peer->ep.life;
	if (life->est_must || life->est_may) {
		life->est_may = true;
		life->est_must = false;
		ends |= peer->ep.client ? EVENT_BIT(DAT_CONNECTION_EVENT_NON_PEER_REJECTED) |
						  EVENT_BIT(DAT_CONNECTION_EVENT_UNREACHABLE)
					: EVENT_BIT(DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
	}
	ep_ends(peer, ends, true);
}

static void ep_disconnect_op(struct world *w, const struct call *c)
{
	unsigned ignored = rarely(c->arg[1], 32) ? 4 : 0; /* an unknown flag */
	bool over;
	DAT_EP_HANDLE handle;
	struct object *ep = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EP, &handle);
	DAT_CLOSE_FLAGS flags = DAT_CLOSE_ABRUPT_FLAG;
	struct life *life = ep ? &ep->ep.life : NULL;
	DAT_RETURN want = DAT_SUCCESS, got;

	if (ep && ep->ep.states & (STATE(CONNECTED) | STATE(ACTIVE_CONNECTION_PENDING)) &&
	    !rarely(c->arg[2], 8))
		return; /* so that connections live for a while */
	if (ep && !ep->ep.requests.n && c->arg[3] % 2)
		flags = DAT_CLOSE_GRACEFUL_FLAG; /* nothing is to be waited for */
	CHECK(want, !ep, BAD_HANDLE(EP));
	over = ep && ep_surely(ep, DAT_EP_STATE_DISCONNECTED);
	got = dat_ep_disconnect(handle, (DAT_CLOSE_FLAGS)(flags | ignored));
	if (want != DAT_SUCCESS) {
		returned(w, got, want);
		return;
	}
	if (!ep_returned(w, ep, got,
			 STATE(CONNECTED) | STATE(DISCONNECT_PENDING) | STATE(COMPLETION_PENDING) |
				 STATE(ACTIVE_CONNECTION_PENDING) | STATE(DISCONNECTED)) ||
	    over)
		return;
	if (life->est_must && ep->ep.states != STATE(CONNECTED)) {
		life->est_must = false;
		life->est_may = true;
	}
	ep->ep.states = STATE(DISCONNECT_PENDING) | STATE(DISCONNECTED);
	ep->ep.asked = true;
	ep_ends(ep, EVENT_BIT(DAT_CONNECTION_EVENT_DISCONNECTED), true);
	ep_peer_ends(ep);
}

/* ---- connecting ---- */

static struct conn *conn_new(struct world *w, struct object *sp)
{
	struct conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		abort();
	conn->id = ++w->next_conn;
	conn->next = w->conns;
	w->conns = conn;
	if (!sp)
		return conn;
	conn->sp = conn->asked = sp;
	conn->evd = sp->sp.evd;
	/* it finds room for certain only on a long queue */
	conn->lost = conn->evd->evd.qlen < 64 ||
		     (sp->kind == DAT_HANDLE_TYPE_RSP && sp->sp.attempts);
	sp->sp.attempts++;
	return conn;
}

static void conn_begins(struct object *ep, struct conn *conn)
{
	const unsigned refused = EVENT_BIT(DAT_CONNECTION_EVENT_NON_PEER_REJECTED);

	conn->end[CLIENT] = ep;
	ep->ep.conn = conn;
	ep->ep.client = true;
	ep->ep.states = STATE(ACTIVE_CONNECTION_PENDING);
	ep->ep.failed[0] = ep->ep.failed[1] = false;
	memset(&ep->ep.life, 0, sizeof(ep->ep.life));
	if (!conn->sp)
		ep_ends(ep, refused, true);
	else if (conn->lost)
		ep_ends(ep, refused, false);
	conn_gets_recvs(ep);
}

static struct object *some_sp(struct world *w, uint16_t arg)
{
	DAT_HANDLE_TYPE kind = arg / SLOTS % 2 ? DAT_HANDLE_TYPE_PSP : DAT_HANDLE_TYPE_RSP;

	for (unsigned i = 0; i < SLOTS; i++) {
		struct object *sp = &w->slot[kind][(arg + i) % SLOTS];

		if (sp->live)
			return sp;
	}
	return NULL;
}

enum mistake { NO_ADDRESS = 1, NO_QUAL, NO_TIME, BAD_SIZE, TOO_LARGE, NO_DATA, BAD_FLAGS };

static DAT_RETURN mistake_result(unsigned mistake)
{
	static const DAT_RETURN results[] = {
		[NO_ADDRESS] = BAD_ARG(2), [NO_QUAL] = BAD_ARG(3),   [NO_TIME] = BAD_ARG(4),
		[BAD_SIZE] = BAD_ARG(5),   [TOO_LARGE] = BAD_ARG(5), [NO_DATA] = BAD_ARG(6),
		[BAD_FLAGS] = BAD_ARG(8),
	};

	return mistake < COUNT(results) ? results[mistake] : DAT_SUCCESS;
}

/* It could begin, but for its state: it has what it needs, and no event of before is to come. */
static bool ep_ready(const struct object *ep)
{
	return ep->ep.pz && ep->ep.evd[CONNECT_ROLE];
}

static void ep_connect_op(struct world *w, const struct call *c)
{
	unsigned mistake = c->arg[1] % 64;
	struct object *ep, *sp = some_sp(w, c->arg[2]);
	struct sockaddr_storage address;
	DAT_CONN_QUAL qual = 64000; /* nobody listens there */
	DAT_COUNT size = 2 * sizeof(uint32_t);
	DAT_EP_HANDLE handle;
	DAT_RETURN want = DAT_SUCCESS, got;
	struct conn *conn;
	uint32_t data[2];

	ep = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EP, &handle);
	if (rarely(c->arg[3], 32))
		sp = NULL;
	if (ep && (has_events(&ep->ep.past) ||
		   (sp && sp->kind == DAT_HANDLE_TYPE_RSP && (sp->sp.used || sp->sp.attempts))))
		return;
	if (!ep && !sp)
		return;
	address = sp ? sp->ia->ia_of.address : ep->ia->ia_of.address;
	if (sp)
		qual = sp->sp.qual;
	CHECK(want, !ep, BAD_HANDLE(EP));
	CHECK(want, true, mistake_result(mistake));
	if (ep && !ep_ready(ep)) {
		if (want != DAT_SUCCESS || !ep_surely(ep, DAT_EP_STATE_UNCONNECTED))
			return;
		want = ep->ep.evd[CONNECT_ROLE] ? BAD_STATE(EP_NOTREADY) : BAD_HANDLE(EVD_CONN);
	}
	if (mistake == TOO_LARGE)
		size = ep ? ep->ia->ia_of.provider.max_private_data_size + 1 : 0;
	data[0] = w->next_conn + 1;
	data[1] = w->thread;
	got = dat_ep_connect(
		handle, mistake == NO_ADDRESS ? NULL : (DAT_IA_ADDRESS_PTR)&address,
		mistake == NO_QUAL ? 0 : qual, mistake == NO_TIME ? 0 : DAT_TIMEOUT_INFINITE,
		mistake == BAD_SIZE ? -1 : size, mistake == NO_DATA ? NULL : (DAT_PVOID)data,
		DAT_QOS_BEST_EFFORT,
		mistake == BAD_FLAGS ? (DAT_CONNECT_FLAGS)0x80 : DAT_CONNECT_DEFAULT_FLAG);
	if (want != DAT_SUCCESS) {
		returned(w, got, want);
		return;
	}
	if (!ep_returned(w, ep, got, STATE(UNCONNECTED)))
		return;
	conn = conn_new(w, sp);
	conn->qual = qual;
	conn_begins(ep, conn);
}

/* Only of endpoints whose state is known: which of two wrong ones is told first is open. */
static void ep_dup_connect_op(struct world *w, const struct call *c)
{
	DAT_EP_HANDLE handle, like_handle;
	struct object *ep = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EP, &handle);
	struct object *like = object_arg(w, c->arg[1], DAT_HANDLE_TYPE_EP, &like_handle);
	uint32_t data[2] = { w->next_conn + 1, w->thread };
	bool no_time = rarely(c->arg[2], 32);
	struct object *sp = NULL;
	DAT_RETURN want = DAT_SUCCESS;
	struct conn *conn;

	if (ep && (!ep_surely(ep, DAT_EP_STATE_UNCONNECTED) || !ep_ready(ep) || ep == like ||
		   has_events(&ep->ep.past)))
		return;
	CHECK(want, !ep || !of_ia(like, ep->ia), BAD_HANDLE(EP));
	CHECK(want, no_time, BAD_ARG(3));
	if (want == DAT_SUCCESS) {
		for (unsigned state = 0; state < 16; state++)
			if (ep_states(like) == 1u << state && state != DAT_EP_STATE_CONNECTED)
				want = ep_state_error((DAT_EP_STATE)state);
		if (want == DAT_SUCCESS && !ep_surely(like, DAT_EP_STATE_CONNECTED))
			return;
		CHECK(want, !like->ep.client, BAD_STATE(EP_CONNECTED));
	}
	if (want == DAT_SUCCESS) {
		sp = like->ep.conn->asked;
		if (!sp || sp->kind != DAT_HANDLE_TYPE_PSP)
			return;
	}
	if (!returned(w,
		      dat_ep_dup_connect(handle, like_handle, no_time ? 0 : DAT_TIMEOUT_INFINITE,
					 sizeof(data), data, DAT_QOS_BEST_EFFORT),
		      want))
		return;
	conn = conn_new(w, sp);
	conn->qual = sp->sp.qual;
	conn_begins(ep, conn);
}

const struct op connect_ops[] = {
	{ "dat_ep_connect", 30, ep_connect_op },
	{ "dat_ep_dup_connect", 4, ep_dup_connect_op },
	{ "dat_ep_disconnect", 10, ep_disconnect_op },
	{ 0 },
};
