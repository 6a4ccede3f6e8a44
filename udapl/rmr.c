/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Remote memory regions: windows through which peers reach a part of a region.
 *
 * A bind is a request of an endpoint, so a window changes twice: for the consumer who asks at the
 * post, for the peers at the completion. In between it has both bindings, and both their regions
 * are held.
 *
 * Where the device has no windows, or can't bind one to that region, the range is registered as a
 * region of its own and a write of nothing stands for the bind in the queue.
 *
 * The life of a binding: a spare one, or a new one, is posted, at the end of its window's list.
 * When its bind completes it is in force, until a later one is. Then it is a spare again, or, if
 * the device has to be told of its end, a leftover, which rmr_sweep ends. If the bind is flushed,
 * or not posted after all, the binding leaves the list as if it had never been. One of the list is
 * always done: at first, and after a failure, that is rmr->none.
 *
 * Each bind gives the window another key, counted on from the one before. A key whose bind was
 * flushed was never given, so the window is wound back to the latest one that stands.
 */
#include <errno.h>
#include <stdlib.h>

#include "udapl.h"

#define REMOTE_PRIVS (DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG)
#define BIND_FLAGS   (DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_BARRIER_FENCE_FLAG)

/* ---- bindings ---- */

static bool uses_window(const struct binding *binding)
{
	return binding->lmr && !binding->region;
}

/* A spare one, or a new one. */
static struct binding *binding_get(struct rmr *rmr)
{
	struct binding *binding;

	spin_lock(&rmr->lock);
	binding = rmr->spares;
	if (binding)
		rmr->spares = binding->spare;
	spin_unlock(&rmr->lock);
	if (!binding)
		binding = malloc(sizeof(*binding));
	if (binding)
		*binding = (struct binding){ .rmr = rmr };
	return binding;
}

static void spare_locked(struct rmr *rmr, struct binding *binding)
{
	binding->lmr = NULL;
	binding->done = false;
	binding->next = NULL;
	binding->spare = rmr->spares;
	rmr->spares = binding;
}

/* First come, first gone: a window before the region that it may still be bound to. */
static void leftover_add(struct ia *ia, struct binding *binding)
{
	binding->next = NULL;
	spin_lock(&ia->lmr_lock);
	*ia->leftovers_end = binding;
	ia->leftovers_end = &binding->next;
	spin_unlock(&ia->lmr_lock);
}

/* Out of the list already. Whatever it has goes by rmr_sweep, itself included. */
static void leave(struct rmr *rmr, struct binding *binding)
{
	struct ia *ia = rmr->obj.ia;

	binding->pz = rmr->pz;
	obj_get(&binding->pz->obj);
	atomic_fetch_add_explicit(&ia->leaving, 1, memory_order_relaxed);
	leftover_add(ia, binding);
}

/*
 * Out of the list already, and no peer is to come this way any more. If it had the window, that has
 * moved on. True: it left something.
 */
static bool drop_locked(struct rmr *rmr, struct binding *binding)
{
	if (binding == &rmr->none)
		return false;
	if (binding->region || !rmr->mw) {
		leave(rmr, binding);
		return true;
	}
	if (binding->lmr)
		obj_put(&binding->lmr->obj);
	spare_locked(rmr, binding);
	return false;
}

static void append_locked(struct rmr *rmr, struct binding *binding)
{
	rmr->latest->next = binding; /* which has no next itself */
	rmr->latest = binding;
}

static void insert_locked(struct rmr *rmr, struct binding *binding, struct binding *behind)
{
	binding->next = behind->next;
	behind->next = binding;
	if (rmr->latest == behind)
		rmr->latest = binding;
}

/* If it was the latest, the one before it is that again. */
static void unlink_locked(struct rmr *rmr, struct binding *binding)
{
	struct binding **at = &rmr->bindings, *before = NULL;

	while (*at && *at != binding) {
		before = *at;
		at = &before->next;
	}
	if (!*at)
		return;
	*at = binding->next;
	if (rmr->latest == binding)
		rmr->latest = before;
}

/* It never was, or even was not posted. The next bind goes on from the one before. */
static bool forget_locked(struct rmr *rmr, struct binding *binding)
{
	unlink_locked(rmr, binding);
	if (rmr->mw)
		tp_mw_rewind(rmr->mw, rmr->latest->key);
	return drop_locked(rmr, binding);
}

/* Of those that are done, the last one is in force. */
static bool prune_locked(struct rmr *rmr)
{
	struct binding **at = &rmr->bindings, *in_force = NULL;
	bool left = false;

	for (struct binding *binding = rmr->bindings; binding; binding = binding->next)
		if (binding->done)
			in_force = binding;
	while (*at != in_force) {
		struct binding *binding = *at;

		if (binding->done) {
			*at = binding->next;
			left |= drop_locked(rmr, binding);
		} else {
			at = &binding->next;
		}
	}
	return left;
}

/*
 * Nothing is in force. The device may still serve the binding before, and only without its window
 * we know that it does not: so with this one go those that were bound to the window later, on
 * another endpoint.
 */
static void fail_locked(struct rmr *rmr, struct binding *binding)
{
	struct binding *lost = binding, *spare;

	for (struct binding *later = binding->next; later; later = later->next)
		if (later->done && uses_window(later))
			lost = later;
	unlink_locked(rmr, &rmr->none);
	insert_locked(rmr, &rmr->none, lost);
	unlink_locked(rmr, binding);
	binding->mw = rmr->mw;
	rmr->mw = NULL;
	leave(rmr, binding);
	while ((spare = rmr->spares)) {
		rmr->spares = spare->spare;
		leave(rmr, spare); /* not freed here: a spinlock is held */
	}
}

static bool is_idle_locked(const struct rmr *rmr)
{
	return rmr->bindings == rmr->latest;
}

/*
 * Nothing is in flight, and its handle is dead. Nobody holds its lock, because from here on any
 * thread may sweep.
 */
static void end(struct rmr *rmr)
{
	struct binding *binding = rmr->latest;

	binding->last = true;
	binding->mw = rmr->mw;
	leave(rmr, binding);
}

bool rmr_settle(struct binding *binding, DAT_DTO_COMPLETION_STATUS status)
{
	struct rmr *rmr = binding->rmr;
	bool left = false, over;

	spin_lock(&rmr->lock);
	if (status == DAT_DTO_SUCCESS) {
		binding->done = true;
	} else if (status == DAT_DTO_ERR_FLUSHED) {
		left = forget_locked(rmr, binding);
	} else {
		fail_locked(rmr, binding);
		left = true;
	}
	left |= prune_locked(rmr);
	over = rmr->freed && is_idle_locked(rmr);
	spin_unlock(&rmr->lock);
	if (over)
		end(rmr);
	return left || over;
}

/* ---- what they leave ---- */

/* Nothing is in flight, and nobody has its handle. */
static void rmr_discard(struct rmr *rmr)
{
	while (rmr->spares) {
		struct binding *next = rmr->spares->spare;

		free(rmr->spares);
		rmr->spares = next;
	}
	obj_put(&rmr->pz->obj);
	obj_discard(&rmr->obj);
}

static void leftover_end(struct ia *ia, struct binding *binding)
{
	struct rmr *rmr = binding->rmr; /* alive only if this is its last */
	struct pz *pz = binding->pz;

	if (binding->mw)
		tp_mw_destroy(binding->mw);
	if (binding->lmr)
		obj_put(&binding->lmr->obj);
	if (binding->last)
		rmr_discard(rmr);
	if (binding != &rmr->none)
		free(binding);
	obj_put(&pz->obj);
	atomic_fetch_sub_explicit(&ia->leaving, 1, memory_order_release);
}

/* What the device keeps, peers keep: then its LMR stays in use, and the next sweep tries again. */
static bool region_end(struct ia *ia, struct binding *binding)
{
	if (!binding->region || tp_mr_dereg(binding->region) == 0)
		return true;
	log_error("window %p: the device does not let go of the region of a bind that is over",
		  (void *)binding->rmr);
	leftover_add(ia, binding);
	return false;
}

static struct binding *leftovers_take(struct ia *ia)
{
	struct binding *first;

	spin_lock(&ia->lmr_lock);
	first = ia->leftovers;
	ia->leftovers = NULL;
	ia->leftovers_end = &ia->leftovers;
	spin_unlock(&ia->lmr_lock);
	return first;
}

static COLD void sweep(struct ia *ia)
{
	struct binding *next;

	mutex_lock(&ia->sweeping);
	for (struct binding *binding = leftovers_take(ia); binding; binding = next) {
		next = binding->next;
		if (region_end(ia, binding))
			leftover_end(ia, binding);
	}
	mutex_unlock(&ia->sweeping);
}

void rmr_sweep(struct ia *ia)
{
	if (unlikely(atomic_load_explicit(&ia->leaving, memory_order_acquire)))
		sweep(ia);
}

void rmr_abandon(struct ia *ia)
{
	struct binding *next;

	rmr_sweep(ia);
	for (struct binding *binding = leftovers_take(ia); binding; binding = next) {
		next = binding->next;
		leftover_end(ia, binding); /* what the device keeps goes when it is closed */
	}
}

/* ---- create and free ---- */

/* The usual life needs two: one binding is in force, the next in flight. */
static bool spares_add(struct rmr *rmr)
{
	struct binding *one = binding_get(rmr), *other = binding_get(rmr);

	if (one)
		spare_locked(rmr, one);
	if (other)
		spare_locked(rmr, other);
	return one && other;
}

static DAT_RETURN rmr_equip(struct rmr *rmr)
{
	spin_init(&rmr->lock, RANK_RMR);
	rmr->none = (struct binding){ .rmr = rmr, .done = true };
	rmr->bindings = rmr->latest = &rmr->none;
	if (!rmr->obj.ia->attr->max_mw)
		return DAT_SUCCESS;
	if (!spares_add(rmr))
		return NO_RESOURCE(MEMORY);
	return status_of(tp_mw_create(rmr->pz->pd, &rmr->mw, &rmr->none.key),
			 DAT_RESOURCE_MEMORY_REGION);
}

DAT_RETURN rmr_create(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE *rmr_out)
{
	struct pz *pz = pz_handle;
	struct rmr *rmr;
	struct ia *ia;
	DAT_RETURN ret;

	if (!obj_hold(NULL, pz_handle, DAT_HANDLE_TYPE_PZ))
		return BAD_HANDLE(PZ);
	if (!rmr_out) {
		ret = BAD_ARG(2);
		goto put_pz;
	}
	ia = pz->obj.ia;
	rmr = obj_alloc(ia, ia->obj.provider, DAT_HANDLE_TYPE_RMR);
	if (!rmr) {
		ret = NO_RESOURCE(MEMORY);
		goto put_pz;
	}
	rmr->pz = pz;
	ret = rmr_equip(rmr);
	if (ret != DAT_SUCCESS) {
		rmr_discard(rmr);
		return ret;
	}
	*rmr_out = obj_publish(&rmr->obj);
	return DAT_SUCCESS;
put_pz:
	obj_put(&pz->obj);
	return ret;
}

void rmr_unmake(struct rmr *rmr)
{
	struct ia *ia = rmr->obj.ia;
	bool idle;

	spin_lock(&rmr->lock);
	rmr->freed = true;
	idle = is_idle_locked(rmr);
	spin_unlock(&rmr->lock);
	if (idle)
		end(rmr);
	rmr_sweep(ia);
}

DAT_RETURN rmr_free(DAT_RMR_HANDLE handle)
{
	struct rmr *rmr = handle;

	/* Nobody holds one, so that it can't be retired means that another thread was faster. */
	if (!obj_valid(NULL, handle, DAT_HANDLE_TYPE_RMR) || !obj_retire(&rmr->obj))
		return BAD_HANDLE(RMR);
	rmr_unmake(rmr);
	return DAT_SUCCESS;
}

/* What peers are to use; 0: nothing. */
static DAT_RMR_CONTEXT context_of(const struct binding *binding)
{
	if (!binding->lmr)
		return 0;
	return binding->region ? binding->region_key : binding->key;
}

static DAT_LMR_TRIPLET triplet_of(const struct binding *binding)
{
	return (DAT_LMR_TRIPLET){
		.lmr_context = binding->lmr ? binding->lmr->info.lmr_context : 0,
		.virtual_address = binding->address,
		.segment_length = binding->size,
	};
}

DAT_RETURN rmr_query(DAT_RMR_HANDLE handle, DAT_RMR_PARAM_MASK mask, DAT_RMR_PARAM *param)
{
	struct rmr *rmr = handle;
	const struct binding *now;
	bool told;

	if (!obj_valid(NULL, handle, DAT_HANDLE_TYPE_RMR))
		return BAD_HANDLE(RMR);
	if (!param)
		return BAD_ARG(3);
	if (mask & ~(unsigned)DAT_RMR_FIELD_ALL)
		return BAD_ARG(2);
	spin_lock(&rmr->lock);
	now = rmr->latest;
	told = now->lmr || !(mask & DAT_RMR_FIELD_LMR_TRIPLET);
	if (told)
		*param = (DAT_RMR_PARAM){
			.ia_handle = rmr->obj.ia,
			.pz_handle = rmr->pz,
			.lmr_triplet = triplet_of(now),
			.mem_priv = now->priv,
			.rmr_context = context_of(now),
		};
	spin_unlock(&rmr->lock);
	return told ? DAT_SUCCESS : BAD_ARG(2);
}

/* ---- bind ---- */

static ALWAYS_INLINE struct tp_bind bind_of(const struct rmr *rmr, const struct lmr *lmr,
					    const DAT_LMR_TRIPLET *triplet, DAT_MEM_PRIV_FLAGS priv)
{
	return (struct tp_bind){
		.mw = rmr->mw,
		.mr = lmr->mr,
		.address = triplet->virtual_address,
		.size = triplet->segment_length,
		.priv = (DAT_MEM_PRIV_FLAGS)(priv & REMOTE_PRIVS),
	};
}

static ALWAYS_INLINE void fill(struct binding *binding, struct lmr *lmr,
			       const DAT_LMR_TRIPLET *triplet, DAT_MEM_PRIV_FLAGS priv)
{
	binding->lmr = lmr;
	binding->address = triplet->virtual_address;
	binding->size = triplet->segment_length;
	binding->priv = (DAT_MEM_PRIV_FLAGS)(priv & REMOTE_PRIVS);
}

/* What it leaves is for the next sweep: there may be a spinlock held. */
static COLD DAT_RETURN not_posted(struct binding *binding, DAT_RETURN ret)
{
	(void)rmr_settle(binding, DAT_DTO_ERR_FLUSHED);
	return ret;
}

/* The end of each bind. rmr->lock held until here, so that its completion waits, and let go. */
static ALWAYS_INLINE DAT_RETURN posted_locked(struct rmr *rmr, struct binding *binding,
					      struct ep *ep, int err, DAT_RMR_CONTEXT made,
					      DAT_RMR_CONTEXT *context)
{
	DAT_RETURN ret;

	spin_unlock(&rmr->lock);
	ret = ep_posted(ep, err);
	if (unlikely(ret != DAT_SUCCESS))
		return not_posted(binding, ret); /* else it may be over by now */
	*context = made;
	return DAT_SUCCESS;
}

/* By their tags alone, as everywhere on the data path. */
static DAT_RETURN handles_refused(const struct rmr *rmr, const struct ep *ep)
{
	if (!rmr || !obj_is(rmr, DAT_HANDLE_TYPE_RMR))
		return BAD_HANDLE(RMR);
	if (!ep || !obj_is(ep, DAT_HANDLE_TYPE_EP) || ep->obj.ia != rmr->obj.ia)
		return BAD_HANDLE(EP);
	if (!evd_takes_binds(ep->request_evd))
		return BAD_HANDLE(EVD_REQUEST);
	return DAT_SUCCESS;
}

/* Holds the LMR that the triplet is about; an empty one is about none. */
static DAT_RETURN lmr_pin(struct ia *ia, const DAT_LMR_TRIPLET *triplet, struct lmr **out)
{
	*out = NULL;
	if (!triplet->segment_length)
		return DAT_SUCCESS;
	*out = lmr_hold(ia, triplet->lmr_context);
	if (!*out)
		return BAD_ARG(2);
	if (lmr_covers(*out, triplet))
		return DAT_SUCCESS;
	obj_put(&(*out)->obj);
	return BAD_ARG(2);
}

static DAT_RETURN bind_refused(const struct rmr *rmr, const struct lmr *lmr,
			       DAT_MEM_PRIV_FLAGS priv, const struct ep *ep, DAT_EP_STATE state,
			       DAT_COMPLETION_FLAGS flags)
{
	if (priv & ~(unsigned)DAT_MEM_PRIV_ALL_FLAG)
		return BAD_ARG(3);
	if (!ep_flags_legal(ep, flags, BIND_FLAGS))
		return BAD_ARG(6);
	if (state != DAT_EP_STATE_CONNECTED && state != DAT_EP_STATE_DISCONNECTED)
		return status_of_ep_state(state);
	if (ep->pz != rmr->pz || (lmr && lmr->pz != rmr->pz))
		return DAT_ERROR(DAT_PROTECTION_VIOLATION, DAT_NO_SUBTYPE);
	if (lmr && priv & lmr->window_never & DAT_MEM_PRIV_REMOTE_READ_FLAG)
		return DAT_ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_RDMA_READ);
	if (lmr && priv & lmr->window_never & DAT_MEM_PRIV_REMOTE_WRITE_FLAG)
		return DAT_ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_RDMA_WRITE);
	return DAT_SUCCESS;
}

static bool has_window(struct rmr *rmr)
{
	bool has;

	spin_lock(&rmr->lock);
	has = rmr->mw != NULL;
	spin_unlock(&rmr->lock);
	return has;
}

/* A failed bind took the window along. */
static DAT_RETURN window_renew(struct rmr *rmr)
{
	DAT_RMR_CONTEXT key;
	struct tp_mw *mw;
	int err;

	if (has_window(rmr) || !rmr->obj.ia->attr->max_mw)
		return DAT_SUCCESS;
	err = tp_mw_create(rmr->pz->pd, &mw, &key);
	if (err)
		return status_of(err, DAT_RESOURCE_MEMORY_REGION);
	spin_lock(&rmr->lock);
	rmr->mw = mw;
	for (struct binding *binding = rmr->bindings; binding; binding = binding->next)
		binding->key = key; /* whichever of them the next bind goes on from */
	spin_unlock(&rmr->lock);
	return DAT_SUCCESS;
}

static DAT_RETURN region_make(struct binding *binding, struct pz *pz)
{
	struct tp_mr_info info;
	int err = tp_mr_reg(pz->pd, (void *)(uintptr_t)binding->address, binding->size,
			    binding->priv, false, &binding->region, &info);

	if (err)
		return status_of(err, DAT_RESOURCE_MEMORY_REGION);
	binding->region_key = info.rmr_context;
	return DAT_SUCCESS;
}

/* On success @lmr is the binding's to put. */
static DAT_RETURN bind_prepare(struct rmr *rmr, struct lmr *lmr, const DAT_LMR_TRIPLET *triplet,
			       DAT_MEM_PRIV_FLAGS priv, struct binding **out)
{
	struct binding *binding;
	DAT_RETURN ret;

	rmr_sweep(rmr->obj.ia); /* who suppresses his completions never comes to take them */
	ret = window_renew(rmr);
	if (ret != DAT_SUCCESS)
		return ret;
	binding = binding_get(rmr);
	if (!binding)
		return NO_RESOURCE(MEMORY);
	if (lmr)
		fill(binding, lmr, triplet, priv);
	if (lmr && !lmr->window_pz)
		ret = region_make(binding, rmr->pz);
	if (ret != DAT_SUCCESS) {
		free(binding);
		return ret;
	}
	*out = binding;
	return DAT_SUCCESS;
}

/*
 * The window moves on, or has to let go of what it was bound to, or has nothing to do with it.
 * rmr->lock held.
 */
static int hand_down(struct rmr *rmr, const struct binding *before, struct binding *binding,
		     struct tp_qp *qp, void *tag, unsigned how)
{
	static const DAT_RMR_TRIPLET nowhere;
	struct tp_bind bind = { .mw = rmr->mw };

	binding->key = before->key;
	if (uses_window(binding) && !rmr->mw)
		return -ENOMEM; /* a bind has failed since we looked; the next one makes another */
	if (uses_window(binding)) {
		bind.mr = binding->lmr->mr;
		bind.address = binding->address;
		bind.size = binding->size;
		bind.priv = binding->priv;
	} else if (uses_window(before) && rmr->mw) {
		bind.mr = before->lmr->mr;
	} else {
		return tp_post_write(qp, tag, NULL, 0, 0, &nowhere, how);
	}
	return tp_post_bind(qp, tag, &bind, how, &binding->key);
}

/* Each bind is heard of, suppressed or not: what it replaces must go when it is done. */
static DAT_RETURN post_in_turn(struct rmr *rmr, struct binding *binding, struct ep *ep,
			       DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags,
			       DAT_RMR_CONTEXT *context)
{
	unsigned fence = flags & DAT_COMPLETION_BARRIER_FENCE_FLAG ? TP_POST_FENCE : 0;
	const struct binding *before;
	struct req *req;
	DAT_RETURN ret;
	int err;

	if (ep_post_begin(ep)) {
		spin_lock(&rmr->lock);
		before = rmr->latest;
		append_locked(rmr, binding);
		req = ep_claim_bind(ep, binding, cookie, flags);
		err = hand_down(rmr, before, binding, ep->qp, req, TP_POST_SIGNAL | fence);
		ret = posted_locked(rmr, binding, ep, err, context_of(binding), context);
	} else {
		ret = not_posted(binding, NO_RESOURCE(MEMORY));
	}
	ep_post_end(ep);
	if (ret != DAT_SUCCESS)
		rmr_sweep(rmr->obj.ia);
	return ret;
}

/*
 * An endpoint that is disconnected completes it as flushed, at once: then nothing is bound, and no
 * context made.
 */
static DAT_RETURN flush_now(struct rmr *rmr, struct ep *ep, DAT_RMR_COOKIE cookie,
			    DAT_RMR_CONTEXT *context)
{
	struct binding never = { .rmr = rmr };
	const struct req req = {
		.cookie = cookie, .ring = &ep->sends, .binding = &never, .kind = REQ_BIND
	};
	DAT_RETURN ret = ep_flush_now(&req, ep->request_evd);

	if (ret == DAT_SUCCESS)
		*context = 0;
	return ret;
}

static __attribute__((noinline)) DAT_RETURN bind_any(DAT_RMR_HANDLE handle,
						     const DAT_LMR_TRIPLET *triplet,
						     DAT_MEM_PRIV_FLAGS priv,
						     DAT_EP_HANDLE ep_handle, DAT_RMR_COOKIE cookie,
						     DAT_COMPLETION_FLAGS flags,
						     DAT_RMR_CONTEXT *context)
{
	struct rmr *rmr = handle;
	struct ep *ep = ep_handle;
	struct binding *binding;
	DAT_EP_STATE state;
	struct lmr *lmr;
	DAT_RETURN ret;

	ret = handles_refused(rmr, ep);
	if (ret != DAT_SUCCESS)
		return ret;
	if (!triplet)
		return BAD_ARG(2);
	if (!context)
		return BAD_ARG(7);
	ret = lmr_pin(rmr->obj.ia, triplet, &lmr);
	if (ret != DAT_SUCCESS)
		return ret;
	state = ep_request_state(ep); /* looked at once: it may go on meanwhile */
	ret = bind_refused(rmr, lmr, priv, ep, state, flags);
	if (ret == DAT_SUCCESS && state != DAT_EP_STATE_DISCONNECTED)
		ret = bind_prepare(rmr, lmr, triplet, priv, &binding);
	if (ret == DAT_SUCCESS && state != DAT_EP_STATE_DISCONNECTED)
		return post_in_turn(rmr, binding, ep, cookie, flags, context);
	if (ret == DAT_SUCCESS)
		ret = flush_now(rmr, ep, cookie, context);
	if (lmr)
		obj_put(&lmr->obj);
	return ret;
}

/*
 * The LMR of that context, held. Mostly a window moves within the region that it is on, which its
 * binding holds.
 */
static ALWAYS_INLINE struct lmr *lmr_hold_locked(const struct rmr *rmr, DAT_LMR_CONTEXT context)
{
	struct lmr *lmr = rmr->latest->lmr;

	if (unlikely(!lmr) || unlikely(lmr->info.lmr_context != context))
		return lmr_hold(rmr->obj.ia, context);
	obj_get(&lmr->obj);
	return lmr;
}

/*
 * The ordinary: the window that there is goes to bytes of an LMR that takes it, on an endpoint that
 * is open.
 */
HOT DAT_RETURN rmr_bind(DAT_RMR_HANDLE handle, const DAT_LMR_TRIPLET *triplet,
			DAT_MEM_PRIV_FLAGS priv, DAT_EP_HANDLE ep_handle, DAT_RMR_COOKIE cookie,
			DAT_COMPLETION_FLAGS flags, DAT_RMR_CONTEXT *context)
{
	struct rmr *rmr = handle;
	struct ep *ep = ep_handle;
	struct binding *binding;
	struct tp_bind bind;
	struct req *req;
	struct lmr *lmr;
	int err;

	if (unlikely(!ep || !triplet || !context || flags))
		goto any;
	if (unlikely(!obj_is(rmr, DAT_HANDLE_TYPE_RMR) || !gate_open(&ep->send_gate)))
		goto any;
	if (unlikely(ep->bind_pz != rmr->pz || !ep->sends.room))
		goto any;
	spin_lock(&rmr->lock);
	binding = rmr->spares;
	if (unlikely(!binding))
		goto unlock;
	lmr = lmr_hold_locked(rmr, triplet->lmr_context);
	if (unlikely(!lmr))
		goto unlock;
	if (unlikely(lmr->window_pz != rmr->pz || priv & lmr->window_never ||
		     !lmr_covers(lmr, triplet)))
		goto put_lmr;
	rmr->spares = binding->spare;
	bind = bind_of(rmr, lmr, triplet, priv);
	fill(binding, lmr, triplet, priv);
	append_locked(rmr, binding);
	req = ep_claim_bind(ep, binding, cookie, 0);
	err = tp_post_bind(ep->qp, req, &bind, TP_POST_SIGNAL, &binding->key);
	return posted_locked(rmr, binding, ep, err, binding->key, context);
put_lmr:
	obj_put(&lmr->obj);
unlock:
	spin_unlock(&rmr->lock);
any:
	return bind_any(rmr, triplet, priv, ep, cookie, flags, context);
}
