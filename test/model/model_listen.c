/* SPDX-License-Identifier: BSD-2-Clause */
/* The model of service points and connection requests. */
#include <arpa/inet.h>
#include <string.h>
#include <unistd.h>

#include "model.h"

#define STATE(name) (1u << DAT_EP_STATE_##name)
#define QUALS	    4 /* of each thread */

/* Nobody else has these: threads differ, and so do processes that run at the same time. */
static DAT_CONN_QUAL qual_of(const struct world *w, uint16_t arg)
{
	return 20000u + (unsigned)getpid() * 61 % 9000 + w->thread * QUALS + arg % QUALS;
}

static bool same_host(const struct object *a, const struct object *b)
{
	const struct sockaddr_in *x = (const void *)&a->ia_of.address;
	const struct sockaddr_in *y = (const void *)&b->ia_of.address;

	return x->sin_addr.s_addr == y->sin_addr.s_addr;
}

static struct object *listener(struct world *w, const struct object *ia, DAT_CONN_QUAL qual)
{
	for (unsigned i = 0; i < 2 * SLOTS; i++) {
		struct object *sp =
			&w->slot[i < SLOTS ? DAT_HANDLE_TYPE_PSP : DAT_HANDLE_TYPE_RSP][i % SLOTS];

		if (sp->live && !sp->sp.used && sp->sp.qual == qual && same_host(sp->ia, ia))
			return sp;
	}
	return NULL;
}

static void sp_born(struct object *sp, DAT_HANDLE handle, struct object *ia, struct object *evd,
		    DAT_CONN_QUAL qual)
{
	object_born(sp, handle, ia);
	sp->sp.qual = qual;
	sp->sp.evd = evd;
	evd->uses++;
}

void sp_release(struct world *w, struct object *sp)
{
	struct object *ep = sp->sp.ep;

	if (!sp->sp.used)
		sp->sp.evd->uses--;
	if (ep && ep->ep.rsp == sp) {
		ep->ep.rsp = NULL;
		ep->ep.states = STATE(UNCONNECTED);
	}
	for (struct conn *conn = w->conns; conn; conn = conn->next) {
		if (conn->asked == sp)
			conn->asked = NULL;
		if (conn->sp != sp)
			continue;
		conn->sp = NULL;
		if (conn->progress != ON_WIRE)
			continue;
		conn->lost = true;
		if (conn->end[CLIENT])
			ep_ends(conn->end[CLIENT],
				EVENT_BIT(DAT_CONNECTION_EVENT_NON_PEER_REJECTED), false);
	}
	for (unsigned i = 0; i < SLOTS; i++)
		if (w->slot[DAT_HANDLE_TYPE_CR][i].cr.sp == sp)
			w->slot[DAT_HANDLE_TYPE_CR][i].cr.sp = NULL;
}

/* ---- listening ---- */

static struct object *cr_evd_arg(struct world *w, uint16_t arg, const struct object *ia,
				 DAT_EVD_HANDLE *handle)
{
	struct object *evd = object_of(w, arg, DAT_HANDLE_TYPE_EVD, ia, handle);

	for (unsigned i = 0; i < SLOTS && evd && !(evd->evd.flags & DAT_EVD_CR_FLAG); i++)
		evd = object_of(w, (uint16_t)(arg + i), DAT_HANDLE_TYPE_EVD, ia, handle);
	return evd && evd->evd.flags & DAT_EVD_CR_FLAG ? evd : NULL;
}

/*
 * A request may have arrived at the RSP, unseen: one to it, or one to a service point that had its
 * qualifier before and was freed while the client resolved the address.
 */
static bool may_be_used(const struct world *w, const struct object *rsp)
{
	for (const struct conn *conn = w->conns; conn; conn = conn->next)
		if (conn->progress == ON_WIRE && !conn->sp && conn->qual == rsp->sp.qual)
			return true;
	return rsp->sp.attempts;
}

static void psp_create_op(struct world *w, const struct call *c)
{
	DAT_CONN_QUAL qual = rarely(c->arg[3], 32) ? 0 : qual_of(w, c->arg[3]);
	bool no_out = rarely(c->arg[1], 32), bad_flags = qual && rarely(c->arg[2], 32);
	DAT_PSP_FLAGS flags = (DAT_PSP_FLAGS)(bad_flags ? 7 : c->arg[4] % 3 == 0);
	struct object *psp = object_slot(w, DAT_HANDLE_TYPE_PSP), *ia, *evd;
	DAT_IA_HANDLE ia_handle;
	DAT_EVD_HANDLE evd_handle;
	DAT_PSP_HANDLE handle;
	DAT_RETURN want = DAT_SUCCESS;

	if (!psp)
		return;
	ia = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_IA, &ia_handle);
	evd = cr_evd_arg(w, c->arg[5], ia, &evd_handle);
	CHECK(want, !ia, BAD_HANDLE(IA));
	CHECK(want, !of_ia(evd, ia), BAD_HANDLE(EVD_CR));
	CHECK(want, no_out, BAD_ARG(5));
	CHECK(want, !qual, BAD_ARG(2));
	CHECK(want, bad_flags, BAD_ARG(4));
	CHECK(want, listener(w, ia, qual), NO_SUBTYPE(DAT_CONN_QUAL_IN_USE));
	if (want == NO_SUBTYPE(DAT_CONN_QUAL_IN_USE) &&
	    listener(w, ia, qual)->kind == DAT_HANDLE_TYPE_RSP &&
	    may_be_used(w, listener(w, ia, qual)))
		return; /* the listener may be gone */
	if (!returned(w,
		      dat_psp_create(ia_handle, qual, evd_handle, flags, no_out ? NULL : &handle),
		      want))
		return;
	sp_born(psp, handle, ia, evd, qual);
	psp->sp.makes_eps = flags == DAT_PSP_PROVIDER_FLAG;
}

static void psp_create_any_op(struct world *w, const struct call *c)
{
	bool no_out = rarely(c->arg[1], 16), no_qual = rarely(c->arg[2], 16);
	struct object *psp = object_slot(w, DAT_HANDLE_TYPE_PSP), *ia, *evd;
	DAT_CONN_QUAL qual = 0;
	DAT_IA_HANDLE ia_handle;
	DAT_EVD_HANDLE evd_handle;
	DAT_PSP_HANDLE handle;
	DAT_RETURN want = DAT_SUCCESS;

	if (!psp)
		return;
	ia = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_IA, &ia_handle);
	evd = cr_evd_arg(w, c->arg[5], ia, &evd_handle);
	CHECK(want, !ia, BAD_HANDLE(IA));
	CHECK(want, !of_ia(evd, ia), BAD_HANDLE(EVD_CR));
	CHECK(want, no_qual, BAD_ARG(2));
	CHECK(want, no_out, BAD_ARG(5));
	if (!returned(w,
		      dat_psp_create_any(ia_handle, no_qual ? NULL : &qual, evd_handle,
					 DAT_PSP_CONSUMER_FLAG, no_out ? NULL : &handle),
		      want))
		return;
	holds(w, qual > 1023 && !listener(w, ia, qual), "the qualifier is %llu",
	      (unsigned long long)qual);
	sp_born(psp, handle, ia, evd, qual);
}

static void psp_query_op(struct world *w, const struct call *c)
{
	bool no_out = rarely(c->arg[1], 16);
	DAT_PSP_HANDLE handle;
	struct object *psp = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_PSP, &handle);
	DAT_RETURN want = DAT_SUCCESS;
	DAT_PSP_PARAM param;

	CHECK(want, !psp, BAD_HANDLE(PSP));
	CHECK(want, no_out, BAD_ARG(3));
	if (!returned(w, dat_psp_query(handle, DAT_PSP_FIELD_ALL, no_out ? NULL : &param), want))
		return;
	holds(w, param.ia_handle == psp->ia->handle, "the IA is %p", param.ia_handle);
	holds(w, param.conn_qual == psp->sp.qual, "the qualifier is %llu",
	      (unsigned long long)param.conn_qual);
	holds(w, param.evd_handle == psp->sp.evd->handle, "the EVD is %p", param.evd_handle);
	holds(w, param.psp_flags == (DAT_PSP_FLAGS)psp->sp.makes_eps, "the flags are %d",
	      param.psp_flags);
}

static void psp_free_op(struct world *w, const struct call *c)
{
	DAT_PSP_HANDLE handle;
	struct object *psp = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_PSP, &handle);

	if (!returned(w, dat_psp_free(handle), psp ? DAT_SUCCESS : BAD_HANDLE(PSP)))
		return;
	sp_release(w, psp);
	object_dies(psp);
}

static void rsp_create_op(struct world *w, const struct call *c)
{
	bool no_out = rarely(c->arg[1], 32), no_ep = rarely(c->arg[2], 8);
	DAT_CONN_QUAL qual = qual_of(w, c->arg[3]);
	struct object *rsp = object_slot(w, DAT_HANDLE_TYPE_RSP), *ia, *evd, *ep = NULL;
	DAT_EP_HANDLE ep_handle = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia_handle;
	DAT_EVD_HANDLE evd_handle;
	DAT_RSP_HANDLE handle;
	DAT_RETURN want = DAT_SUCCESS, got;

	if (!rsp)
		return;
	ia = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_IA, &ia_handle);
	if (!no_ep)
		ep = object_of(w, c->arg[4], DAT_HANDLE_TYPE_EP, ia, &ep_handle);
	evd = cr_evd_arg(w, c->arg[5], ia, &evd_handle);
	if ((ep && has_events(&ep->ep.past)) || (ia && listener(w, ia, qual)))
		return;
	CHECK(want, !ia, BAD_HANDLE(IA));
	CHECK(want, ep_handle && !of_ia(ep, ia), BAD_HANDLE(EP));
	CHECK(want, !of_ia(evd, ia), BAD_HANDLE(EVD_CR));
	CHECK(want, no_out, BAD_ARG(5));
	got = dat_rsp_create(ia_handle, qual, ep_handle, evd_handle, no_out ? NULL : &handle);
	if (want != DAT_SUCCESS || !ep) {
		if (!returned(w, got, want))
			return;
	} else if (!ep_returned(w, ep, got, STATE(UNCONNECTED))) {
		return;
	}
	sp_born(rsp, handle, ia, evd, qual);
	rsp->sp.ep = ep;
	rsp->sp.makes_eps = !ep;
	if (!ep)
		return;
	ep->ep.states = STATE(RESERVED);
	ep->ep.rsp = rsp;
}

static void rsp_query_op(struct world *w, const struct call *c)
{
	bool no_out = rarely(c->arg[1], 16);
	DAT_RSP_HANDLE handle;
	struct object *rsp = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_RSP, &handle);
	DAT_RETURN want = DAT_SUCCESS;
	DAT_RSP_PARAM param;

	CHECK(want, !rsp, BAD_HANDLE(RSP));
	CHECK(want, no_out, BAD_ARG(3));
	if (!returned(w, dat_rsp_query(handle, DAT_RSP_FIELD_ALL, no_out ? NULL : &param), want))
		return;
	holds(w, param.conn_qual == rsp->sp.qual, "the qualifier is %llu",
	      (unsigned long long)param.conn_qual);
	if (rsp->sp.used || may_be_used(w, rsp))
		return;
	holds(w, param.evd_handle == rsp->sp.evd->handle, "the EVD is %p", param.evd_handle);
	holds(w, param.ep_handle == (rsp->sp.ep ? rsp->sp.ep->handle : DAT_HANDLE_NULL),
	      "the endpoint is %p", param.ep_handle);
}

static void rsp_free_op(struct world *w, const struct call *c)
{
	DAT_RSP_HANDLE handle;
	struct object *rsp = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_RSP, &handle);

	if (rsp && may_be_used(w, rsp))
		return; /* what becomes of the endpoint is open */
	if (!returned(w, dat_rsp_free(handle), rsp ? DAT_SUCCESS : BAD_HANDLE(RSP)))
		return;
	sp_release(w, rsp);
	object_dies(rsp);
}

/* ---- requests ---- */

unsigned cr_must(const struct world *w, const struct object *evd)
{
	unsigned n = 0;

	for (const struct conn *conn = w->conns; conn; conn = conn->next)
		n += conn->evd == evd && conn->progress == ON_WIRE && !conn->lost;
	return n;
}

bool cr_may(const struct world *w, const struct object *evd)
{
	for (const struct conn *conn = w->conns; conn; conn = conn->next)
		if (conn->evd == evd && conn->progress == ON_WIRE)
			return true;
	return false;
}

static struct conn *conn_of(const struct world *w, const DAT_CR_PARAM *param)
{
	uint32_t id[2];

	if (param->private_data_size < (DAT_COUNT)sizeof(id))
		return NULL;
	memcpy(id, param->private_data, sizeof(id));
	for (struct conn *conn = w->conns; conn; conn = conn->next)
		if (conn->id == id[0] && w->thread == id[1])
			return conn;
	return NULL;
}

/* The request is over, and the endpoint that came with it is what it was, or gone. */
static void cr_gives_back(struct world *w, struct object *cr)
{
	struct object *ep = cr->cr.ep;

	if (!ep)
		return;
	ep->ep.cr = NULL;
	if (ep->ep.states == STATE(TENTATIVE_CONNECTION_PENDING))
		ep_release(w, ep);
	else
		ep->ep.states = STATE(UNCONNECTED);
}

static void conn_refused(struct conn *conn, unsigned ends, bool must)
{
	conn->progress = REFUSED;
	if (conn->end[CLIENT])
		ep_ends(conn->end[CLIENT], ends, must);
}

void cr_release(struct object *cr)
{
	conn_refused(cr->cr.conn,
		     EVENT_BIT(DAT_CONNECTION_EVENT_NON_PEER_REJECTED) |
			     EVENT_BIT(DAT_CONNECTION_EVENT_PEER_REJECTED) |
			     EVENT_BIT(DAT_CONNECTION_EVENT_UNREACHABLE),
		     false);
}

void cr_arrived(struct world *w, struct object *evd, const DAT_CR_ARRIVAL_EVENT_DATA *data)
{
	struct object *cr = object_slot(w, DAT_HANDLE_TYPE_CR), *sp;
	struct object *ep = object_slot(w, DAT_HANDLE_TYPE_EP);
	DAT_CR_PARAM param;
	struct conn *conn;
	bool full;

	returned(w, dat_cr_query(data->cr_handle, DAT_CR_FIELD_ALL, &param), DAT_SUCCESS);
	conn = conn_of(w, &param);
	holds(w, conn, "a request with %d bytes of private data, which nobody has made",
	      param.private_data_size);
	holds(w, conn->progress == ON_WIRE && conn->evd == evd,
	      "the request %u arrived twice, or elsewhere", conn->id);
	holds(w, data->conn_qual == conn->qual, "the qualifier is %llu",
	      (unsigned long long)data->conn_qual);
	sp = conn->sp;
	holds(w, !sp || data->sp_handle.psp_handle == sp->handle, "the service point is %p",
	      data->sp_handle.psp_handle);
	full = !cr || (param.local_ep_handle && !(sp && sp->sp.ep) && !ep);
	conn->progress = REQUESTED;
	conn->lost = false;
	if (conn->end[CLIENT] && !conn->end[CLIENT]->ep.life.end_must)
		conn->end[CLIENT]->ep.life.ends = 0;
	if (sp)
		sp->sp.attempts--;
	if (sp && sp->kind == DAT_HANDLE_TYPE_RSP) {
		sp->sp.used = true;
		sp->sp.evd->uses--;
		if (sp->sp.ep) {
			ep = sp->sp.ep;
			holds(w, param.local_ep_handle == ep->handle, "its endpoint is %p",
			      param.local_ep_handle);
			ep->ep.rsp = NULL;
			ep->ep.states = STATE(PASSIVE_CONNECTION_PENDING);
			sp->sp.ep = NULL;
		} else if (!full) {
			ep_born_tentative(w, ep, param.local_ep_handle, sp->ia);
		}
	} else if (param.local_ep_handle && !full) {
		ep_born_tentative(w, ep, param.local_ep_handle, evd->ia);
	} else {
		ep = NULL;
	}
	holds(w,
	      !sp || sp->kind == DAT_HANDLE_TYPE_RSP ||
		      sp->sp.makes_eps == (param.local_ep_handle != DAT_HANDLE_NULL),
	      "its endpoint is %p", param.local_ep_handle);
	if (full) { /* there is no room for it in the model */
		returned(w, CR_REJECT(data->cr_handle), DAT_SUCCESS);
		if (ep && ep->live && ep->ep.states == STATE(PASSIVE_CONNECTION_PENDING))
			ep->ep.states = STATE(UNCONNECTED);
		conn_refused(conn, EVENT_BIT(DAT_CONNECTION_EVENT_PEER_REJECTED), true);
		return;
	}
	object_born(cr, data->cr_handle, evd->ia);
	cr->cr.conn = conn;
	cr->cr.sp = sp;
	cr->cr.qual = conn->qual;
	cr->cr.ep = ep;
	if (ep)
		ep->ep.cr = cr;
}

static void cr_query_op(struct world *w, const struct call *c)
{
	bool no_out = rarely(c->arg[1], 16);
	DAT_CR_HANDLE handle;
	struct object *cr = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_CR, &handle);
	DAT_RETURN want = DAT_SUCCESS;
	DAT_CR_PARAM param;

	CHECK(want, !cr, BAD_HANDLE(CR));
	CHECK(want, no_out, BAD_ARG(3));
	if (!returned(w, dat_cr_query(handle, DAT_CR_FIELD_ALL, no_out ? NULL : &param), want))
		return;
	holds(w, conn_of(w, &param) == cr->cr.conn, "its private data are another's");
	holds(w, param.local_ep_handle == (cr->cr.ep ? cr->cr.ep->handle : DAT_HANDLE_NULL),
	      "its endpoint is %p", param.local_ep_handle);
}

static void cr_reject_op(struct world *w, const struct call *c)
{
	DAT_CR_HANDLE handle;
	struct object *cr = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_CR, &handle);

	if (!returned(w, CR_REJECT(handle), cr ? DAT_SUCCESS : BAD_HANDLE(CR)))
		return;
	conn_refused(cr->cr.conn, EVENT_BIT(DAT_CONNECTION_EVENT_PEER_REJECTED), true);
	cr_gives_back(w, cr);
	object_dies(cr);
}

/* To a PSP whose EVD has room for certain; else why it fails is open. */
static void cr_handoff_op(struct world *w, const struct call *c)
{
	DAT_CONN_QUAL qual = qual_of(w, c->arg[1]);
	DAT_CR_HANDLE handle;
	struct object *cr = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_CR, &handle), *sp = NULL;
	DAT_RETURN want = DAT_SUCCESS;
	struct conn *conn;

	for (unsigned i = 0; cr && i < SLOTS; i++) {
		struct object *psp = &w->slot[DAT_HANDLE_TYPE_PSP][i];

		if (psp->live && psp->ia == cr->ia && psp->sp.qual == qual)
			sp = psp;
	}
	if (cr && (sp ? sp->sp.evd->evd.qlen < 64 : listener(w, cr->ia, qual) != NULL))
		return;
	CHECK(want, !cr, BAD_HANDLE(CR));
	CHECK(want, !sp || sp == cr->cr.sp, BAD_ARG(2));
	if (!returned(w, dat_cr_handoff(handle, qual), want))
		return;
	conn = cr->cr.conn;
	conn->progress = ON_WIRE;
	conn->sp = sp;
	conn->evd = sp->sp.evd;
	conn->qual = qual;
	sp->sp.attempts++;
	cr_gives_back(w, cr);
	object_dies(cr);
}

/* ---- accepting ---- */

static void server_accepts(struct object *ep, struct conn *conn)
{
	struct object *client = conn->end[CLIENT];
	struct life *life = &ep->ep.life;

	ep->ep.cr = NULL;
	ep->ep.conn = conn;
	ep->ep.client = false;
	ep->ep.states = STATE(COMPLETION_PENDING);
	ep->ep.failed[0] = ep->ep.failed[1] = false;
	memset(life, 0, sizeof(*life));
	conn->progress = ACCEPTED;
	conn->end[SERVER] = ep;
	conn_gets_recvs(ep);
	if (client && !client->ep.life.ends) {
		life->est_must = true;
		client->ep.life.est_must = true;
		return;
	}
	life->est_may = true; /* the client has given up */
	ep_ends(ep, ENDED | EVENT_BIT(DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR), true);
	if (client && !client->ep.life.over)
		client->ep.life.est_may = true;
}

static void cr_accept_op(struct world *w, const struct call *c)
{
	uint32_t reply[2];
	DAT_COUNT size = rarely(c->arg[2], 32) ? -1 : (DAT_COUNT)sizeof(reply);
	bool no_data = rarely(c->arg[3], 32);
	DAT_CR_HANDLE handle;
	struct object *cr = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_CR, &handle), *ep = NULL;
	DAT_EP_HANDLE ep_handle = DAT_HANDLE_NULL;
	DAT_RETURN want = DAT_SUCCESS, got;

	if (!cr || !cr->cr.ep || rarely(c->arg[4], 16))
		ep = object_of(w, c->arg[1], DAT_HANDLE_TYPE_EP, cr ? cr->ia : NULL, &ep_handle);
	if (ep && has_events(&ep->ep.past))
		return;
	reply[0] = cr ? ~cr->cr.conn->id : 0;
	reply[1] = w->thread;
	CHECK(want, !cr, BAD_HANDLE(CR));
	CHECK(want, cr->cr.ep ? ep_handle != DAT_HANDLE_NULL : !of_ia(ep, cr->ia), BAD_HANDLE(EP));
	CHECK(want, size > 0 && no_data, BAD_ARG(4));
	CHECK(want, size < 0, BAD_ARG(3));
	if (cr && cr->cr.ep)
		ep = cr->cr.ep;
	if (want == DAT_SUCCESS && (!ep->ep.pz || !ep->ep.evd[CONNECT_ROLE])) {
		if (!cr->cr.ep && !ep_surely(ep, DAT_EP_STATE_UNCONNECTED))
			return;
		want = BAD_STATE(EP_NOTREADY);
	}
	got = dat_cr_accept(handle, ep_handle, size, no_data ? NULL : reply);
	if (want != DAT_SUCCESS) {
		returned(w, got, want);
		return;
	}
	if (!ep_returned(w, ep, got,
			 cr->cr.ep ? STATE(PASSIVE_CONNECTION_PENDING) |
					     STATE(TENTATIVE_CONNECTION_PENDING)
				   : STATE(UNCONNECTED)))
		return;
	server_accepts(ep, cr->cr.conn);
	object_dies(cr);
}

const struct op listen_ops[] = {
	{ "dat_psp_create", 8, psp_create_op }, { "dat_psp_create_any", 2, psp_create_any_op },
	{ "dat_psp_query", 3, psp_query_op },	{ "dat_psp_free", 2, psp_free_op },
	{ "dat_rsp_create", 6, rsp_create_op }, { "dat_rsp_query", 3, rsp_query_op },
	{ "dat_rsp_free", 2, rsp_free_op },	{ "dat_cr_query", 5, cr_query_op },
	{ "dat_cr_reject", 2, cr_reject_op },	{ "dat_cr_handoff", 3, cr_handoff_op },
	{ "dat_cr_accept", 30, cr_accept_op },	{ 0 },
};
