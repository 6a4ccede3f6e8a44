/* SPDX-License-Identifier: BSD-2-Clause */
/* The model of posts: to endpoints, to shared receive queues, and of binds. */
#include <stdlib.h>

#include "model.h"

#define STATE(name) (1u << DAT_EP_STATE_##name)
#define SEGMENTS    2

/* What a post is given, beside its endpoint. */
struct post {
	DAT_LMR_TRIPLET iov[SEGMENTS + 8];
	DAT_COUNT n;
	DAT_COMPLETION_FLAGS flags;
	struct transfer *transfer;
	bool no_iov, bad_count;
};

static struct object *usable_lmr(struct world *w, uint16_t arg, const struct object *pz,
				 unsigned priv)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		struct object *lmr = &w->slot[DAT_HANDLE_TYPE_LMR][(arg + i) % SLOTS];

		if (lmr->live && lmr->lmr.pz == pz && (lmr->lmr.priv & priv) == priv)
			return lmr;
	}
	return NULL;
}

static void segments_fill(struct world *w, struct post *post, struct transfer *t, uint16_t split)
{
	char *at = block_at(w, t->block);
	size_t first = t->length ? split % t->length : 0;

	post->n = t->length ? 2 : 0;
	for (unsigned i = 0; i < SEGMENTS; i++) {
		post->iov[i].lmr_context = t->bad ? 0 : t->lmr[0]->lmr.context;
		post->iov[i].virtual_address = (DAT_VADDR)(uintptr_t)(at + (i ? first : 0));
		post->iov[i].segment_length = (DAT_UINT32)(i ? t->length - first : first);
	}
}

/* Returns whether there is memory for it: else the call is not made. */
static bool post_prepare(struct world *w, const struct call *c, enum transfer_kind kind,
			 struct object *pz, struct object *ep, struct post *post)
{
	static const uint16_t lengths[] = { 0, 1, 7, 64, 200, BLOCK_SIZE };
	struct object *lmr = usable_lmr(w, c->arg[1], pz, kind == READ ? 0x31 : 0x11);
	struct transfer *t;

	if (!lmr)
		lmr = usable_lmr(w, c->arg[1], pz, 0x11);
	if (!lmr || (kind == READ && device_has(NEEDS_TCP) && !(lmr->lmr.priv & 0x20)))
		return false;
	t = calloc(1, sizeof(*t));
	if (!t)
		abort();
	t->kind = kind;
	t->block = block_take(w);
	if (t->block < 0) {
		free(t);
		return false;
	}
	t->cookie = ++w->next_cookie << 16 | w->thread << 8 | 1;
	t->length = lengths[c->arg[2] % COUNT(lengths)];
	if (kind == RECV && c->arg[2] % 64)
		t->length = BLOCK_SIZE; /* it seldom is too short */
	t->lmr[0] = lmr;
	lmr->lmr.transfers++;
	t->bad = kind != RECV && t->length > 1 && ep_flows(ep) && rarely(c->arg[3], 200);
	block_fill(w, t->block, t->cookie);
	post->transfer = t;
	segments_fill(w, post, t, c->arg[4]);
	post->no_iov = rarely(c->arg[5], 64);
	post->bad_count = rarely(c->arg[6], 64);
	if (post->bad_count)
		post->n = -1;
	if (post->no_iov && !post->bad_count)
		post->n = 1;
	return true;
}

/* Flags that mean nothing, or that are unknown, are ignored. */
static DAT_COMPLETION_FLAGS post_flags(uint16_t arg, enum transfer_kind kind)
{
	unsigned flags = rarely(arg, 64) ? 0x80 : 0;

	if (kind == RECV)
		return (DAT_COMPLETION_FLAGS)flags;
	if (arg / 64 % 4 == 0)
		flags |= DAT_COMPLETION_SUPPRESS_FLAG;
	if (arg / 256 % 8 == 0)
		flags |= DAT_COMPLETION_BARRIER_FENCE_FLAG;
	if (arg / 2048 % 4 == 0 && kind == SEND)
		flags |= DAT_COMPLETION_SOLICITED_WAIT_FLAG;
	return (DAT_COMPLETION_FLAGS)flags;
}

static unsigned in_flight(const struct way *way)
{
	return way->sent - way->received;
}

/* The connection is to break: a message is longer than the receive that takes it. */
static void message_fits(struct conn *conn, enum end from)
{
	const struct way *way = &conn->way[from];

	for (unsigned k = way->received; k < way->sent && k < way->posted && !way->shared; k++) {
		if (way->length[k % MESSAGES] <= way->room[k % MESSAGES])
			continue;
		conn->broken = true;
		for (unsigned end = 0; end < ENDS; end++)
			if (conn->end[end])
				ep_ends(conn->end[end], ENDED, true);
	}
}

static void message_sent(struct object *ep, struct transfer *t)
{
	struct conn *conn = ep->ep.conn;
	struct way *way = &conn->way[ep->ep.client ? CLIENT : SERVER];

	t->number = way->sent;
	way->length[way->sent % MESSAGES] = t->length;
	way->seed[way->sent++ % MESSAGES] = t->cookie;
	way->held_up |= way->sent > way->posted;
	message_fits(conn, ep->ep.client ? CLIENT : SERVER);
}

static void recv_posted(struct object *ep, const struct transfer *t)
{
	struct conn *conn = ep->ep.conn;
	enum end from = ep->ep.client ? SERVER : CLIENT;

	if (!conn)
		return;
	conn->way[from].room[conn->way[from].posted++ % MESSAGES] = t->length;
	message_fits(conn, from);
}

/* It was posted: what the model knows of it from now on. */
static void posted(struct world *w, struct object *ep, struct post *post)
{
	struct transfer *t = post->transfer;
	bool recv = t->kind == RECV;

	t->ep = ep;
	t->evd = ep->ep.evd[recv ? RECV_ROLE : REQUEST_ROLE];
	t->flags = post->flags;
	t->before_end = !(ep_states(ep) & STATE(DISCONNECTED));
	t->conn = ep_surely(ep, DAT_EP_STATE_DISCONNECTED) ? NULL : ep->ep.conn;
	queue_push(recv ? &ep->ep.recvs : &ep->ep.requests, t);
	if (recv)
		recv_posted(ep, t);
	else if (t->kind == SEND && t->conn && !t->bad)
		message_sent(ep, t);
	if (t->bad && t->conn) {
		t->conn->broken = true;
		ep_ends(ep, ENDED, true);
		ep_peer_ends(ep);
	}
	(void)w;
}

/*
 * The states in which a request is taken. While the peer or a failure ends the connection, it is
 * for the consumer still up: then a request is taken, and flushed.
 */
static unsigned request_states(const struct object *ep)
{
	unsigned states = STATE(CONNECTED) | STATE(COMPLETION_PENDING) | STATE(DISCONNECTED);

	return ep->ep.asked ? states : states | STATE(DISCONNECT_PENDING);
}

/*
 * Judges the result of a post whose arguments are right. A slot is free again when its completion
 * was taken, which may have happened unseen: so a full queue refuses only when nothing of it can
 * have completed, and one that is not full never does.
 */
static bool post_judge(struct world *w, struct object *ep, struct post *post, DAT_RETURN got,
		       unsigned legal)
{
	bool recv = post->transfer->kind == RECV;
	const struct queue *queue = recv ? &ep->ep.recvs : &ep->ep.requests;
	DAT_COUNT max = recv ? ep->ep.attr.max_recv_dtos : ep->ep.attr.max_request_dtos;

	if (got == NO_RESOURCE(MEMORY)) {
		holds(w, (DAT_COUNT)queue->n >= max, "it has no room, with %u of %d outstanding",
		      queue->n, max);
		return false;
	}
	if (got == DAT_SUCCESS && (DAT_COUNT)queue->n >= max)
		holds(w, ep->ep.conn || ep_states(ep) & STATE(DISCONNECTED),
		      "it has room for more than %d", max);
	return ep_returned(w, ep, got, legal);
}

static void post_make(struct world *w, const struct call *c, enum transfer_kind kind)
{
	DAT_RETURN(*call)
	(DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *, DAT_DTO_COOKIE,
	 DAT_COMPLETION_FLAGS) = kind == RECV ? dat_ep_post_recv : dat_ep_post_send;
	DAT_EP_HANDLE handle;
	struct object *ep = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EP, &handle);
	struct post post = { .n = 0 };
	DAT_RETURN want = DAT_SUCCESS, got;

	if (!ep) {
		returned(w, call(handle, 0, NULL, cookie_of(1), DAT_COMPLETION_DEFAULT_FLAG),
			 BAD_HANDLE(EP));
		return;
	}
	if (ep->ep.conn && (in_flight(&ep->ep.conn->way[0]) > MESSAGES / 2 ||
			    in_flight(&ep->ep.conn->way[1]) > MESSAGES / 2))
		return;
	if (ep->ep.recvs.n + ep->ep.requests.n > MESSAGES / 2 || !ep->ep.pz ||
	    !post_prepare(w, c, kind, ep->ep.pz, ep, &post))
		return;
	post.flags = post_flags(c->arg[7], kind);
	if (kind == RECV && ep->ep.srq)
		want = BAD_ARG(1);
	CHECK(want, post.bad_count, BAD_ARG(2));
	CHECK(want, post.no_iov, BAD_ARG(3));
	if (post.bad_count + post.no_iov + (kind == RECV && ep->ep.srq) > 1) {
		transfer_free(w, post.transfer);
		return; /* which mistake is told first is open */
	}
	got = call(handle, post.n, post.no_iov ? NULL : post.iov, cookie_of(post.transfer->cookie),
		   post.flags);
	if (want != DAT_SUCCESS)
		returned(w, got, want);
	else if (post_judge(w, ep, &post, got, kind == RECV ? ~0u : request_states(ep))) {
		posted(w, ep, &post);
		return;
	}
	transfer_free(w, post.transfer);
}

static void post_send_op(struct world *w, const struct call *c)
{
	post_make(w, c, SEND);
}

static void post_recv_op(struct world *w, const struct call *c)
{
	post_make(w, c, RECV);
}

/* Returns a region of the peer's that may be read or written, or any of the arena without one. */
static struct object *peer_lmr(struct world *w, const struct object *ep, uint16_t arg,
			       enum transfer_kind kind)
{
	const struct object *peer = ep_peer(ep);

	return peer && peer->ep.pz ? usable_lmr(w, arg, peer->ep.pz, kind == READ ? 0x03 : 0x30)
				   : NULL;
}

static void rdma_make(struct world *w, const struct call *c, enum transfer_kind kind)
{
	DAT_RETURN(*call)
	(DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *, DAT_DTO_COOKIE, const DAT_RMR_TRIPLET *,
	 DAT_COMPLETION_FLAGS) = kind == READ ? dat_ep_post_rdma_read : dat_ep_post_rdma_write;
	DAT_EP_HANDLE handle;
	struct object *ep = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EP, &handle), *lmr;
	struct post post = { .n = 0 };
	DAT_RMR_TRIPLET remote = { .segment_length = 0 };
	bool no_remote = rarely(c->arg[6] / 64, 32);
	DAT_RETURN want = DAT_SUCCESS, got;
	struct transfer *t;

	if (!ep) {
		returned(w,
			 call(handle, 0, NULL, cookie_of(1), &remote, DAT_COMPLETION_DEFAULT_FLAG),
			 BAD_HANDLE(EP));
		return;
	}
	lmr = peer_lmr(w, ep, c->arg[1], kind);
	if (!lmr || ep->ep.requests.n > MESSAGES / 2 || !ep->ep.pz ||
	    !post_prepare(w, c, kind, ep->ep.pz, ep, &post))
		return;
	t = post.transfer;
	t->lmr[1] = lmr;
	lmr->lmr.transfers++;
	t->target = kind == READ ? block_source() : block_target(w);
	remote.rmr_context = lmr->lmr.rmr_context;
	remote.REMOTE_ADDRESS = (DAT_VADDR)(uintptr_t)block_at(w, t->target);
	remote.segment_length = (DAT_UINT32)t->length;
	post.flags = post_flags(c->arg[7], kind);
	CHECK(want, post.bad_count, BAD_ARG(2));
	CHECK(want, post.no_iov, BAD_ARG(3));
	CHECK(want, no_remote, BAD_ARG(5));
	if (post.bad_count + post.no_iov + no_remote > 1) {
		transfer_free(w, t);
		return;
	}
	got = call(handle, post.n, post.no_iov ? NULL : post.iov, cookie_of(t->cookie),
		   no_remote ? NULL : &remote, post.flags);
	if (want != DAT_SUCCESS)
		returned(w, got, want);
	else if (post_judge(w, ep, &post, got, request_states(ep))) {
		posted(w, ep, &post);
		return;
	}
	transfer_free(w, t);
}

static void rdma_read_op(struct world *w, const struct call *c)
{
	rdma_make(w, c, READ);
}

static void rdma_write_op(struct world *w, const struct call *c)
{
	rdma_make(w, c, WRITE);
}

/* ---- binds ---- */

static struct transfer *bind_transfer(struct world *w, struct object *rmr, struct object *lmr)
{
	struct transfer *t = calloc(1, sizeof(*t));

	if (!t)
		abort();
	t->kind = BIND;
	t->block = -1;
	t->cookie = ++w->next_cookie << 16 | w->thread << 8 | 2;
	t->rmr = rmr;
	rmr->rmr.binds++;
	t->lmr[0] = lmr;
	lmr->lmr.transfers++;
	return t;
}

/* Of a window without a bind outstanding, within one zone: the rest is in the sheet of rows. */
static void rmr_bind_op(struct world *w, const struct call *c)
{
	DAT_EP_HANDLE ep_handle;
	DAT_RMR_HANDLE rmr_handle;
	struct object *ep = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EP, &ep_handle);
	struct object *rmr = object_of(w, c->arg[1], DAT_HANDLE_TYPE_RMR, ep ? ep->ia : NULL,
				       &rmr_handle);
	struct object *lmr = ep ? usable_lmr(w, c->arg[2], ep->ep.pz, 0x11) : NULL;
	struct post post = { .flags = post_flags(c->arg[3], WRITE) };
	DAT_LMR_TRIPLET range = { .segment_length = BLOCK_SIZE };
	bool beyond = rarely(c->arg[4], 32), uses_evd;
	DAT_RMR_COOKIE cookie;
	DAT_RMR_CONTEXT context;
	DAT_RETURN want = DAT_SUCCESS, got;

	if (!ep || !rmr) {
		returned(w,
			 RMR_BIND(rmr_handle, DAT_HANDLE_NULL, &range, DAT_MEM_PRIV_NONE_FLAG,
				  ep_handle, cookie_of(1), DAT_COMPLETION_DEFAULT_FLAG, &context),
			 rmr ? BAD_HANDLE(EP) : BAD_HANDLE(RMR));
		return;
	}
	uses_evd = ep->ep.evd[REQUEST_ROLE] != NULL;
	if (!lmr || !ep->ep.pz || rmr->rmr.pz != ep->ep.pz || rmr->rmr.binds || rmr->ia != ep->ia ||
	    ep->ep.requests.n > MESSAGES / 2 || !uses_evd)
		return;
	if (!(ep->ep.evd[REQUEST_ROLE]->evd.flags & DAT_EVD_RMR_BIND_FLAG))
		return;
	if (device()->repeats_binds && ep->ep.requests.n)
		return;
	range.lmr_context = lmr->lmr.context;
	range.virtual_address = (DAT_VADDR)(uintptr_t)(arena_memory(w) +
						       (beyond ? arena_size() : 0));
	post.transfer = bind_transfer(w, rmr, lmr);
	cookie.as_64 = post.transfer->cookie;
	CHECK(want, beyond, BAD_ARG_OF(2, 3));
	got = RMR_BIND(rmr_handle, lmr->handle, &range, DAT_MEM_PRIV_ALL_FLAG, ep_handle, cookie,
		       post.flags, &context);
	if (want != DAT_SUCCESS)
		returned(w, got, want);
	else if (post_judge(w, ep, &post, got, request_states(ep))) {
		lmr->uses++;
		posted(w, ep, &post);
		return;
	}
	transfer_free(w, post.transfer);
}

/* ---- shared receive queues ---- */

static void srq_create_op(struct world *w, const struct call *c)
{
	struct object *srq = object_slot(w, DAT_HANDLE_TYPE_SRQ), *ia, *pz;
	bool no_attr = rarely(c->arg[2], 16), no_out = rarely(c->arg[3], 16),
	     bad = rarely(c->arg[4], 16);
	DAT_SRQ_ATTR attr = { .max_recv_dtos = bad ? 0 : 4 + c->arg[5] % 8,
			      .max_recv_iov = SEGMENTS,
			      .low_watermark = DAT_SRQ_LW_DEFAULT };
	DAT_IA_HANDLE ia_handle;
	DAT_PZ_HANDLE pz_handle;
	DAT_SRQ_HANDLE handle;
	DAT_SRQ_PARAM param;
	DAT_RETURN want = DAT_SUCCESS;

	if (!srq || !device_has(NEEDS_SRQ))
		return;
	ia = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_IA, &ia_handle);
	pz = object_of(w, c->arg[1], DAT_HANDLE_TYPE_PZ, ia, &pz_handle);
	CHECK(want, !ia, BAD_HANDLE(IA));
	CHECK(want, !of_ia(pz, ia), BAD_HANDLE(PZ));
	CHECK(want, no_attr, BAD_ARG(3));
	CHECK(want, no_out, BAD_ARG(4));
	CHECK(want, bad, BAD_ARG(3));
	if (!returned(w,
		      dat_srq_create(ia_handle, pz_handle, no_attr ? NULL : &attr,
				     no_out ? NULL : &handle),
		      want))
		return;
	object_born(srq, handle, ia);
	queue_init(&srq->srq.recvs);
	srq->srq.pz = pz;
	pz->uses++;
	returned(w, dat_srq_query(handle, DAT_SRQ_FIELD_ALL, &param), DAT_SUCCESS);
	holds(w, param.max_recv_dtos >= attr.max_recv_dtos, "max_recv_dtos is %d",
	      param.max_recv_dtos);
	srq->srq.max = param.max_recv_dtos;
}

static void srq_free_op(struct world *w, const struct call *c)
{
	DAT_SRQ_HANDLE handle;
	struct object *srq = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_SRQ, &handle);
	DAT_RETURN want = DAT_SUCCESS;

	if (srq && srq->srq.recvs.n && !rarely(c->arg[1], 16))
		return; /* which of them have completed is open then */
	CHECK(want, !srq, BAD_HANDLE(SRQ));
	CHECK(want, srq->uses, BAD_STATE(SRQ_IN_USE));
	if (!returned(w, dat_srq_free(handle), want))
		return;
	transfers_orphan(w, &srq->srq.recvs);
	srq->srq.pz->uses--;
	object_dies(srq);
}

static void srq_query_op(struct world *w, const struct call *c)
{
	DAT_SRQ_HANDLE handle;
	struct object *srq = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_SRQ, &handle);
	DAT_SRQ_PARAM param;

	if (!returned(w, dat_srq_query(handle, DAT_SRQ_FIELD_ALL, &param),
		      srq ? DAT_SUCCESS : BAD_HANDLE(SRQ)))
		return;
	holds(w, param.ia_handle == srq->ia->handle, "the IA is %p", param.ia_handle);
	holds(w, param.pz_handle == srq->srq.pz->handle, "the zone is %p", param.pz_handle);
	holds(w, param.max_recv_dtos == srq->srq.max, "max_recv_dtos is %d", param.max_recv_dtos);
}

static void srq_resize_op(struct world *w, const struct call *c)
{
	DAT_SRQ_HANDLE handle;
	struct object *srq = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_SRQ, &handle);

	returned(w, dat_srq_resize(handle, -1), srq ? BAD_ARG(2) : BAD_HANDLE(SRQ));
}

static void srq_set_lw_op(struct world *w, const struct call *c)
{
	DAT_SRQ_HANDLE handle;
	struct object *srq = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_SRQ, &handle);

	returned(w, dat_srq_set_lw(handle, -1), srq ? BAD_ARG(2) : BAD_HANDLE(SRQ));
}

static void srq_post_recv_op(struct world *w, const struct call *c)
{
	DAT_SRQ_HANDLE handle;
	struct object *srq = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_SRQ, &handle);
	struct post post = { .n = 0 };
	DAT_RETURN want = DAT_SUCCESS, got;

	if (!srq) {
		returned(w, dat_srq_post_recv(handle, 0, NULL, cookie_of(1)), BAD_HANDLE(SRQ));
		return;
	}
	if (srq->srq.recvs.n > MESSAGES / 2 || !post_prepare(w, c, RECV, srq->srq.pz, NULL, &post))
		return;
	post.transfer->length = BLOCK_SIZE;
	if (!post.bad_count && !post.no_iov)
		segments_fill(w, &post, post.transfer, c->arg[4]);
	CHECK(want, post.bad_count, BAD_ARG(2));
	CHECK(want, post.no_iov, BAD_ARG(3));
	if (!(post.bad_count && post.no_iov)) {
		got = dat_srq_post_recv(handle, post.n, post.no_iov ? NULL : post.iov,
					cookie_of(post.transfer->cookie));
		if (want == DAT_SUCCESS && got == NO_RESOURCE(MEMORY))
			holds(w, (DAT_COUNT)srq->srq.recvs.n >= srq->srq.max,
			      "it has no room, with %u of %d outstanding", srq->srq.recvs.n,
			      srq->srq.max);
		else if (returned(w, got, want)) {
			post.transfer->of_srq = true;
			queue_push(&srq->srq.recvs, post.transfer);
			return;
		}
	}
	transfer_free(w, post.transfer);
}

const struct op srq_ops[] = {
	{ "dat_srq_create", 2, srq_create_op },
	{ "dat_srq_free", 1, srq_free_op },
	{ "dat_srq_query", 2, srq_query_op },
	{ "dat_srq_resize", 1, srq_resize_op },
	{ "dat_srq_set_lw", 1, srq_set_lw_op },
	{ "dat_srq_post_recv", 6, srq_post_recv_op },
	{ 0 },
};

const struct op post_ops[] = {
	{ "dat_ep_post_send", 40, post_send_op },
	{ "dat_ep_post_recv", 50, post_recv_op },
	{ "dat_ep_post_rdma_read", 12, rdma_read_op },
	{ "dat_ep_post_rdma_write", 20, rdma_write_op },
	{ "dat_rmr_bind", 10, rmr_bind_op },
	{ 0 },
};
