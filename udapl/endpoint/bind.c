/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dat_rmr_bind: a bind is a request of an endpoint, posted here. The consumer gets the new context
 * from the post; peers can use it from the completion on, of which memory/rmr.c makes the end.
 *
 * Where the device has no windows, or can't bind one to that region or range, the range is
 * registered as a region of its own, and an RDMA write of no bytes takes the bind's place in the
 * queue.
 *
 * In DAT 2.0 a window may be zero-based, so that peers count from its beginning, and a window whose
 * scope is an endpoint is another one at each bind (memory/rmr.c). Neither is fast.
 *
 * There are three ways to a post. All of them prepare a binding, and then append and post it with
 * rmr->lock held (bind_post_locked, bind_posted_unlock):
 *	bind_post		the fast path: a window to bytes of an LMR that allows it
 *	bind_region_unlock	the fast path's way where that LMR takes no window
 *	bind_slow		everything else, refusals included
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/refuse.h"
#include "endpoint.h"

/* The flags that have an effect on any endpoint. */
#define BIND_FLAGS (DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_BARRIER_FENCE_FLAG)

/* ---- a binding, before it is posted ---- */

/* Sets what @binding binds; it takes over the hold on @lmr. */
static ALWAYS_INLINE void binding_fill(struct binding *binding, struct lmr *lmr,
				       const DAT_LMR_TRIPLET *triplet, DAT_MEM_PRIV_FLAGS priv)
{
	binding->lmr = lmr;
	binding->address = triplet->virtual_address;
	binding->size = triplet->segment_length;
	binding->priv = (DAT_MEM_PRIV_FLAGS)(priv & REMOTE_PRIVS);
}

/* What the device is told of a bind of the window to the range of @binding. */
static ALWAYS_INLINE struct tp_bind bind_of_locked(const struct rmr *rmr,
						   const struct binding *binding)
{
	assert_locked(&rmr->lock);
	return (struct tp_bind){
		.mw = rmr->mw,
		.mr = binding->lmr->mr,
		.address = binding->address,
		.size = binding->size,
		.priv = binding->priv,
	};
}

/* The handles are checked by their tags alone, as everywhere on the data path. */
static DAT_RETURN bind_judge_handles(const struct rmr *rmr, const struct ep *ep)
{
	if (!obj_readable(rmr) || !obj_is(rmr, DAT_HANDLE_TYPE_RMR))
		return BAD_HANDLE(RMR);
	if (!obj_readable(ep) || !obj_is(ep, DAT_HANDLE_TYPE_EP) || ep->obj.ia != rmr->obj.ia)
		return BAD_HANDLE(EP);
	if (!evd_takes_binds(ep->request_evd))
		return BAD_HANDLE(EVD_REQUEST);
	return DAT_SUCCESS;
}

/* The numbers of the arguments in both editions of DAT. */
#define ARG_TRIPLET ARG_OF_EDITION(2, 3)
#define ARG_FLAGS   ARG_OF_EDITION(6, 8)
#define ARG_CONTEXT ARG_OF_EDITION(7, 9)

/*
 * Returns the LMR that a bind names, held, or NULL: in DAT 2.0 by its handle, in DAT 1.2 by the
 * context of the triplet.
 */
static struct lmr *lmr_hold_named(struct ia *ia, DAT_LMR_HANDLE handle, DAT_LMR_CONTEXT context)
{
	if (DAT_EDITION == 1)
		return lmr_hold(ia, context);
	return obj_hold(ia, handle, DAT_HANDLE_TYPE_LMR) ? handle : NULL;
}

/*
 * *out is the LMR that is named, held, if it covers the range; NULL for an empty triplet, which
 * unbinds.
 */
static DAT_RETURN lmr_hold_covering(struct ia *ia, DAT_LMR_HANDLE handle,
				    const DAT_LMR_TRIPLET *triplet, struct lmr **out)
{
	struct lmr *lmr = NULL;

	if (triplet->segment_length) {
		lmr = lmr_hold_named(ia, handle, triplet->lmr_context);
		if (!lmr)
			return DAT_EDITION == 1 ? BAD_ARG(2) : BAD_HANDLE(LMR);
		if (!lmr_covers(lmr, triplet)) {
			obj_put(&lmr->obj);
			return BAD_ARG(ARG_TRIPLET);
		}
	}
	*out = lmr;
	return DAT_SUCCESS;
}

/*
 * Returns whether the bind is UNSIGNALLED on an endpoint that was not configured so. Other posts
 * ignore that; of binds every provider has refused it.
 */
static bool unsignalled_by_mistake(const struct ep *ep, DAT_COMPLETION_FLAGS flags)
{
	return flags & ~ep->attr.request_completion_flags & DAT_COMPLETION_UNSIGNALLED_FLAG;
}

/* Returns why a bind on an endpoint in @state is refused, or DAT_SUCCESS. @lmr may be NULL. */
static DAT_RETURN bind_judge(const struct rmr *rmr, const struct lmr *lmr, DAT_MEM_PRIV_FLAGS priv,
			     const struct ep *ep, DAT_EP_STATE state, DAT_COMPLETION_FLAGS flags)
{
	if (unsignalled_by_mistake(ep, flags))
		return BAD_ARG(ARG_FLAGS);
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

/* Returns whether a device says by @err that it can't do such a bind, which was not posted. */
static bool is_window_refusal(int err)
{
	return err == -EINVAL || err == -EOPNOTSUPP;
}

#if DAT_EDITION == 2
/* The range is addressed as its LMR is, or from 0 on. */
static int range_register(struct binding *binding, struct pz *pz, struct tp_mr_info *info)
{
	const DAT_VADDR bias = lmr_bias(binding->lmr);
	const bool zero_based = binding_is_zero_based(binding);
	void *memory = (void *)(uintptr_t)(binding->address + bias);

	if (likely(!zero_based && !bias))
		return tp_mr_reg(pz->pd, memory, binding->size, binding->priv, 0, &binding->region,
				 info);
	if (!(pz->obj.ia->attr->caps & TP_CAP_ZERO_BASED))
		return -EOPNOTSUPP;
	return tp_mr_reg_at(pz->pd, memory, binding->size, zero_based ? 0 : binding->address,
			    binding->priv, 0, &binding->region, info);
}

/* Makes the window of a binding of an RMR whose scope is an endpoint. */
static DAT_RETURN own_window_create(struct binding *binding, struct pz *pz)
{
	int err;

	if (!binding->lmr->info.bindable)
		return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	err = tp_mw_create_for_qp(pz->pd, &binding->own_window, &binding->region_key);
	if (err)
		return status_of_made(err, DAT_RESOURCE_MEMORY_REGION);
	binding->flags |= BINDING_OWN_WINDOW;
	binding_window_made(binding);
	return DAT_SUCCESS;
}
#else
static int range_register(struct binding *binding, struct pz *pz, struct tp_mr_info *info)
{
	return tp_mr_reg(pz->pd, (void *)(uintptr_t)binding->address, binding->size, binding->priv,
			 0, &binding->region, info);
}

static DAT_RETURN own_window_create(struct binding *binding, struct pz *pz)
{
	(void)binding, (void)pz;
	return DAT_SUCCESS;
}
#endif

/* Registers the range of a binding, for which there is no window. */
static DAT_RETURN region_register(struct binding *binding, struct pz *pz)
{
	struct tp_mr_info info;
	int err = range_register(binding, pz, &info);

	if (err && binding_is_zero_based(binding) && is_window_refusal(err))
		return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	if (err)
		return status_of(err, DAT_RESOURCE_MEMORY_REGION);
	binding->region_key = info.rmr_context;
	return DAT_SUCCESS;
}

/* The arguments of a bind that may be posted twice. */
struct bind_call {
	const DAT_LMR_TRIPLET *triplet;
	DAT_MEM_PRIV_FLAGS priv;
	struct ep *ep;
	DAT_RMR_COOKIE cookie;
	DAT_COMPLETION_FLAGS flags; /* those that have an effect */
	bool by_region;		    /* the device has refused a window on this range */
	bool zero_based;	    /* not in DAT 1.2 */
	DAT_RMR_CONTEXT *context;
};

static bool call_is_zero_based(const struct bind_call *call)
{
	return DAT_EDITION == 2 && call->zero_based;
}

/*
 * Makes the binding of a call, which is to be posted next: one of the window, or one with a region
 * of its own. Takes over the hold on @lmr in any case; @lmr is NULL if nothing is to be bound. No
 * lock is held.
 */
static DAT_RETURN binding_prepare(struct rmr *rmr, struct lmr *lmr, const struct bind_call *call,
				  struct binding **out)
{
	const bool own = rmr_is_of_ep(rmr);
	const bool by_region = lmr && !own &&
			       (call->by_region || !lmr->window_pz || rmr_window_waits(rmr));
	const bool by_window = lmr && !own && !by_region;
	struct binding *binding;
	DAT_RETURN ret;

	rmr_end_unused_window(rmr);
	release_run(rmr->obj.ia); /* a consumer that suppresses completions never dequeues them */
	ret = by_window ? rmr_renew_window(rmr) : DAT_SUCCESS;
	if (ret != DAT_SUCCESS)
		goto put_lmr;
	ret = NO_RESOURCE(MEMORY);
	binding = binding_take(rmr);
	if (!binding)
		goto put_lmr;
	if (lmr)
		binding_fill(binding, lmr, call->triplet, call->priv);
	if (by_window)
		binding->flags = BINDING_WINDOW;
	if (lmr && call_is_zero_based(call))
		binding->flags |= BINDING_ZERO_BASED;
	ret = by_region	   ? region_register(binding, rmr->pz)
	      : lmr && own ? own_window_create(binding, rmr->pz)
			   : DAT_SUCCESS;
	if (ret != DAT_SUCCESS)
		goto discard_binding;
	*out = binding;
	return DAT_SUCCESS;
discard_binding:
	binding_discard(binding); /* and puts the LMR */
	return ret;
put_lmr:
	if (lmr)
		obj_put(&lmr->obj);
	return ret;
}

/* ---- the post, whichever way led here ---- */

/* What a bind is to the device. */
enum bind_form {
	BIND_WINDOW,	/* a bind of the window */
	BIND_WRITE,	/* a write of no bytes: the window stays as it is */
	BIND_NO_WINDOW, /* nothing: after rmr_renew_window the window was lost, or its key */
	BIND_TYPED,	/* a bind of a window of the binding, or of one that is zero-based */
	BIND_KEPT_BACK, /* nothing, as all that is posted: the connection is ending */
};

#if DAT_EDITION == 2
static int bind_post_typed_locked(struct binding *binding, struct ep *ep, struct req *req,
				  const struct tp_bind *bind, unsigned post_flags)
{
	DAT_RMR_CONTEXT known; /* of a window of its own: others look it up by that already */

	assert_locked(&binding->rmr->lock);
	return tp_post_bind_typed(ep->qp, req, bind, binding_is_zero_based(binding), post_flags,
				  binding_has_own_window(binding) ? &known : &binding->key);
}
#else
static int bind_post_typed_locked(struct binding *binding, struct ep *ep, struct req *req,
				  const struct tp_bind *bind, unsigned post_flags)
{
	(void)binding, (void)ep, (void)req, (void)bind, (void)post_flags;
	return -EOPNOTSUPP;
}
#endif

/*
 * Appends @binding, claims the next slot of @ep for its bind, for which there is room, and posts
 * that; @bind is what BIND_WINDOW tells the device. A bind is signalled even if it is suppressed:
 * what it supersedes is released when it completes. Returns 0 or a negative errno, which
 * bind_posted_unlock has to be given.
 */
static ALWAYS_INLINE int bind_post_locked(struct rmr *rmr, struct binding *binding, struct ep *ep,
					  DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags,
					  enum bind_form form, const struct tp_bind *bind)
{
	static const DAT_RMR_TRIPLET nowhere;
	const unsigned post_flags = TP_POST_SIGNAL |
				    (flags & DAT_COMPLETION_BARRIER_FENCE_FLAG ? TP_POST_FENCE : 0);
	struct req *req;
	int result;

	assert_locked(&rmr->lock);
	if (form != BIND_WINDOW)
		binding->key = rmr->latest->key; /* the window keeps its own */
	binding_append_locked(rmr, binding);
	req = ep_claim_bind(ep, binding, cookie, flags);
	if (DAT_EDITION == 2 && unlikely(form == BIND_TYPED))
		return bind_post_typed_locked(binding, ep, req, bind, post_flags);
	switch (form) {
	case BIND_WINDOW:
		return tp_post_bind(ep->qp, req, bind, post_flags, &binding->key);
	case BIND_WRITE:
		result = tp_post_write(ep->qp, req, NULL, 0, 0, &nowhere, post_flags);
		return likely(!result) ? 0 : tp_post_error(result);
	case BIND_KEPT_BACK:
		return -ENOTCONN;
	default:
		return -ENOMEM;
	}
}

/*
 * bind_posted_unlock of a post that the transport has refused. If it counts as taken all the same,
 * because the connection is ending, its bind completes as flushed: then *context is @made. Else the
 * binding is cancelled; what that releases is for the next release_run, because the caller may hold
 * the lock of posts.
 */
static COLD DAT_RETURN bind_failed_unlock(struct rmr *rmr, struct binding *binding, struct ep *ep,
					  int err, DAT_RMR_CONTEXT made, DAT_RMR_CONTEXT *context)
{
	DAT_RETURN ret;

	assert_locked(&rmr->lock);
	spin_unlock(&rmr->lock);
	ret = ep_posted(ep, err);
	if (ret == DAT_SUCCESS) /* the binding may be over by now */
		*context = made;
	else
		rmr_bind_not_posted(binding);
	return ret;
}

/*
 * Ends a post for which bind_post_locked has returned @err. *context is @made, the context of the
 * binding, if this returns DAT_SUCCESS; else the binding is over. The lock was held until here so
 * that a completion waits until the context is stored.
 */
static ALWAYS_INLINE DAT_RETURN bind_posted_unlock(struct rmr *rmr, struct binding *binding,
						   struct ep *ep, int err, DAT_RMR_CONTEXT made,
						   DAT_RMR_CONTEXT *context)
{
	assert_locked(&rmr->lock);
	if (unlikely(err))
		return bind_failed_unlock(rmr, binding, ep, err, made, context);
	*context = made;
	spin_unlock(&rmr->lock);
	return ep_posted(ep, 0); /* DAT_SUCCESS */
}

/* ---- the slow path ---- */

/* A window whose key nobody knows refuses binds, which would break the connection. */
static bool window_can_be_bound_locked(const struct rmr *rmr)
{
	assert_locked(&rmr->lock);
	return rmr->mw && !rmr->key_unknown;
}

/*
 * Returns what a bind is to the device that does not bind the window, and describes it in *bind for
 * BIND_WINDOW: the window is unbound from the range of the latest binding, or stays as it is.
 */
static ALWAYS_INLINE enum bind_form beside_window_form_locked(const struct rmr *rmr,
							      struct binding *binding,
							      struct tp_bind *bind)
{
	const struct binding *before = rmr->latest;

	assert_locked(&rmr->lock);
	if (!binding_uses_window(before) || !window_can_be_bound_locked(rmr))
		return BIND_WRITE;
	binding->flags |= BINDING_UNBINDS;
	*bind = (struct tp_bind){ .mw = rmr->mw, .mr = before->lmr->mr };
	return BIND_WINDOW;
}

/*
 * Returns what the bind of @binding, which is appended next, is to the device, and describes it in
 * *bind for BIND_WINDOW.
 */
static enum bind_form bind_form_locked(const struct rmr *rmr, struct binding *binding,
				       struct tp_bind *bind)
{
	assert_locked(&rmr->lock);
	if (binding_has_own_window(binding)) {
		*bind = bind_of_locked(rmr, binding);
		bind->mw = binding->own_window;
		return BIND_TYPED;
	}
	if (!binding_uses_window(binding))
		return beside_window_form_locked(rmr, binding, bind);
	if (!window_can_be_bound_locked(rmr))
		return BIND_NO_WINDOW;
	*bind = bind_of_locked(rmr, binding);
	return binding_is_zero_based(binding) ? BIND_TYPED : BIND_WINDOW;
}

static DAT_COMPLETION_FLAGS ignored_flags(const struct ep *ep, DAT_COMPLETION_FLAGS flags)
{
	return ep_ignored_flags(flags, BIND_FLAGS, ep->attr.request_completion_flags);
}

/* Says why no bind can be posted, or TO_BE_FLUSHED, or PROCEED. The poster calls this. */
static DAT_RETURN bind_request_judge(struct ep *ep, const struct rmr *rmr)
{
	DAT_RETURN ret = ep_request_judge(ep);

	if (ret != PROCEED)
		return ret;
	/* both were judged, but it may have been reset, modified and connected again meanwhile */
	if (ep->pz != rmr->pz)
		return DAT_ERROR(DAT_PROTECTION_VIOLATION, DAT_NO_SUBTYPE);
	if (!ep->bind_pz)
		return BAD_HANDLE(EVD_REQUEST);
	return ep_has_room(ep) ? PROCEED : NO_RESOURCE(MEMORY);
}

/*
 * Posts @binding in turn with other posts to the endpoint. If that fails, or it is TO_BE_FLUSHED,
 * the binding is over. *err becomes what the transport says, if the post comes so far. No lock is
 * held.
 */
static DAT_RETURN bind_post_serialized(struct rmr *rmr, struct binding *binding,
				       const struct bind_call *call, int *err)
{
	struct ep *ep = call->ep;
	enum bind_form form;
	struct tp_bind bind;
	DAT_RETURN ret;

	ep_post_begin(ep);
	ret = bind_request_judge(ep, rmr);
	if (ret != PROCEED) {
		ep_post_end(ep);
		binding_discard(binding);
		return ret;
	}
	spin_lock(&rmr->lock);
	form = ep->sends.kept_back ? BIND_KEPT_BACK : bind_form_locked(rmr, binding, &bind);
	*err = bind_post_locked(rmr, binding, ep, call->cookie,
				call->flags ^ ignored_flags(ep, call->flags), form, &bind);
	ret = bind_posted_unlock(rmr, binding, ep, *err, binding_context(binding), call->context);
	ep_post_end(ep);
	if (ret != DAT_SUCCESS)
		release_run(rmr->obj.ia);
	return ret;
}

/* Takes over the hold on @lmr, unless that is NULL. *err: as of bind_post_serialized. */
static DAT_RETURN bind_prepare_and_post(struct rmr *rmr, struct lmr *lmr,
					const struct bind_call *call, int *err)
{
	struct binding *binding = NULL;
	DAT_RETURN ret;

	ret = binding_prepare(rmr, lmr, call, &binding);
	return ret == DAT_SUCCESS ? bind_post_serialized(rmr, binding, call, err) : ret;
}

/*
 * Some devices have windows, but not for every range: the limit of one is 2 GB. No attribute says
 * so; the bind is refused as it is posted. Then the range is registered. Takes over the hold on
 * @lmr, unless that is NULL.
 */
static DAT_RETURN bind_by_window_or_region(struct rmr *rmr, struct lmr *lmr, struct bind_call *call)
{
	DAT_RETURN ret;
	int err = 0;

	if (!lmr || !lmr->window_pz || rmr_is_of_ep(rmr)) {
		ret = bind_prepare_and_post(rmr, lmr, call, &err);
		/* nothing else can take the place of a window of an endpoint */
		return ret != DAT_SUCCESS && rmr_is_of_ep(rmr) && is_window_refusal(err)
			       ? DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE)
			       : ret;
	}
	obj_get(&lmr->obj);
	ret = bind_prepare_and_post(rmr, lmr, call, &err);
	if (ret == DAT_SUCCESS || !is_window_refusal(err)) {
		obj_put(&lmr->obj);
		return ret;
	}
	log_util("%s: bind of a window to %" PRIu64 " bytes: %s; they are registered instead",
		 rmr->obj.ia->attr->device, (uint64_t)call->triplet->segment_length,
		 strerror(-err));
	call->by_region = true;
	return bind_prepare_and_post(rmr, lmr, call, &err);
}

/*
 * On a disconnected endpoint a bind completes as flushed at once, and binds nothing. The binding
 * that the event is described from lives for that long only.
 */
static DAT_RETURN bind_complete_flushed(struct rmr *rmr, struct ep *ep, DAT_RMR_COOKIE cookie,
					DAT_RMR_CONTEXT *context)
{
	struct binding never_bound = { .rmr = rmr };
	const struct req req = {
		.cookie = cookie,
		.ring = &ep->sends,
		.binding = &never_bound,
		.kind = REQ_BIND,
	};
	DAT_RETURN ret = ep_complete_flushed(&req);

	if (ret == DAT_SUCCESS)
		*context = 0;
	return ret;
}

/* Checks every argument of dat_rmr_bind, and posts the bind, or completes it as flushed. */
static DAT_RETURN bind_judge_and_post(DAT_RMR_HANDLE handle, DAT_LMR_HANDLE lmr_handle,
				      const DAT_LMR_TRIPLET *triplet, DAT_MEM_PRIV_FLAGS priv,
				      bool zero_based, DAT_EP_HANDLE ep_handle,
				      DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags,
				      DAT_RMR_CONTEXT *context)
{
	CANCEL_FORBIDDEN;
	struct rmr *rmr = handle;
	struct ep *ep = ep_handle;
	struct bind_call call;
	DAT_EP_STATE state;
	struct lmr *lmr;
	DAT_RETURN ret;

	ret = bind_judge_handles(rmr, ep);
	if (ret != DAT_SUCCESS)
		return ret;
	if (!triplet)
		return BAD_ARG(ARG_TRIPLET);
	if (!context)
		return BAD_ARG(ARG_CONTEXT);
	ret = lmr_hold_covering(rmr->obj.ia, lmr_handle, triplet, &lmr);
	if (ret != DAT_SUCCESS)
		return ret;
	state = ep_request_state(ep); /* read once: it may change meanwhile */
	ret = bind_judge(rmr, lmr, priv, ep, state, flags);
	if (ret == DAT_SUCCESS && state != DAT_EP_STATE_DISCONNECTED) {
		ep_tell_ignored(flags, ignored_flags(ep, flags));
		call = (struct bind_call){
			.triplet = triplet,
			.priv = priv,
			.zero_based = zero_based,
			.ep = ep,
			.cookie = cookie,
			.flags = flags,
			.context = context,
		};
		ret = bind_by_window_or_region(rmr, lmr, &call);
	} else {
		if (lmr)
			obj_put(&lmr->obj);
		ret = ret == DAT_SUCCESS ? TO_BE_FLUSHED : ret;
	}
	return ret == TO_BE_FLUSHED ? bind_complete_flushed(rmr, ep, cookie, context) : ret;
}

/* dat_rmr_bind in full, and a refusal leaves a line of the log. */
static NOINLINE DAT_RETURN bind_slow(DAT_RMR_HANDLE rmr, DAT_LMR_HANDLE lmr,
				     const DAT_LMR_TRIPLET *triplet, DAT_MEM_PRIV_FLAGS priv,
				     DAT_EP_HANDLE ep, DAT_RMR_COOKIE cookie,
				     DAT_COMPLETION_FLAGS flags, DAT_RMR_CONTEXT *context)
{
	DAT_RETURN ret = bind_judge_and_post(rmr, lmr, triplet, priv, false, ep, cookie, flags,
					     context);

	if (ret == DAT_SUCCESS)
		return DAT_SUCCESS;
	return refused(ret, LOG_DTO, "dat_rmr_bind",
		       "rmr %p, triplet %p, privileges %#x, ep %p, cookie, flags %#x, context %p",
		       rmr, (const void *)triplet, (unsigned)priv, ep, (unsigned)flags,
		       (void *)context);
}

/* ---- the fast path ---- */

/* The fast path has few arguments at hand for the line of the log. */
static COLD DAT_RETURN bind_fast_refused(DAT_RETURN ret, const struct rmr *rmr)
{
	return refused(ret, LOG_DTO, "dat_rmr_bind", "rmr %p", (const void *)rmr);
}

/*
 * The device has refused a bind of the fast path, which the slow path may try in another way: all
 * its arguments are still there. If it was not posted, its slot is free again, but has the cookie
 * until this thread claims it.
 */
static COLD DAT_RETURN bind_fast_failed_unlock(struct rmr *rmr, struct binding *binding,
					       struct ep *ep, int err, DAT_RMR_CONTEXT *context)
{
	const DAT_LMR_TRIPLET triplet = binding_triplet(binding);
	const DAT_LMR_HANDLE lmr = binding->lmr;
	const DAT_MEM_PRIV_FLAGS priv = binding->priv;
	DAT_RMR_COOKIE cookie;
	DAT_RETURN ret;

	assert_locked(&rmr->lock);
	ret = bind_failed_unlock(rmr, binding, ep, err, binding->key, context);
	if (ret == DAT_SUCCESS)
		return ret;
	cookie = ring_next(&ep->sends)->cookie;
	if (!is_window_refusal(err))
		return bind_fast_refused(ret, rmr);
	return bind_slow(rmr, lmr, &triplet, priv, ep, cookie, DAT_COMPLETION_DEFAULT_FLAG,
			 context);
}

#if DAT_EDITION == 2
/* dat_rmr_bind of a window whose first byte peers address by 0, or with a wrong type. */
static NOINLINE DAT_RETURN bind_zero_based(DAT_RMR_HANDLE rmr, DAT_LMR_HANDLE lmr,
					   const DAT_LMR_TRIPLET *triplet, DAT_MEM_PRIV_FLAGS priv,
					   DAT_VA_TYPE va_type, DAT_EP_HANDLE ep,
					   DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags,
					   DAT_RMR_CONTEXT *context)
{
	DAT_RETURN ret = bind_judge_handles(rmr, ep);

	if (ret == DAT_SUCCESS)
		ret = va_type == DAT_VA_TYPE_ZB ? bind_judge_and_post(rmr, lmr, triplet, priv, true,
								      ep, cookie, flags, context)
						: BAD_ARG(5);
	return ret == DAT_SUCCESS ? ret : bind_fast_refused(ret, rmr);
}
#endif

/*
 * Returns the LMR that a bind names, held, or NULL: as lmr_hold_named. Most binds stay within the
 * LMR of the latest binding, which that binding holds.
 */
static ALWAYS_INLINE struct lmr *lmr_of_bind_locked(const struct rmr *rmr, DAT_LMR_HANDLE handle,
						    DAT_LMR_CONTEXT context)
{
	struct lmr *lmr = rmr->latest->lmr;

	assert_locked(&rmr->lock);
	if (DAT_EDITION == 2 && unlikely(!lmr || lmr != handle))
		return obj_hold(rmr->obj.ia, handle, DAT_HANDLE_TYPE_LMR) ? handle : NULL;
	if (DAT_EDITION == 1 && (unlikely(!lmr) || unlikely(lmr->info.lmr_context != context)))
		return lmr_try_hold(rmr->obj.ia, context);
	obj_get(&lmr->obj);
	return lmr;
}

/*
 * @lmr, which is held, takes no window, so the range is registered: bind_slow without the checks
 * that the fast path has made, and without the lock of posts. A system call is not for spinlocks,
 * so the lock is released meanwhile.
 */
NOINLINE HOT static DAT_RETURN bind_region_unlock(struct rmr *rmr, struct lmr *lmr,
						  const DAT_LMR_TRIPLET *triplet,
						  DAT_MEM_PRIV_FLAGS priv, struct ep *ep,
						  DAT_RMR_COOKIE cookie, DAT_RMR_CONTEXT *context)
{
	CANCEL_FORBIDDEN;
	struct binding *binding = spare_take_locked(rmr);
	enum bind_form form;
	struct tp_bind bind;
	DAT_RETURN ret;
	int err;

	assert_locked(&rmr->lock);
	spin_unlock(&rmr->lock);
	if (unlikely(!binding))
		rmr_end_unused_window(rmr);
	release_run(rmr->obj.ia);
	if (unlikely(!binding))
		binding = binding_alloc(rmr);
	if (unlikely(!binding)) {
		obj_put(&lmr->obj);
		return bind_fast_refused(NO_RESOURCE(MEMORY), rmr);
	}
	binding_fill(binding, lmr, triplet, priv);
	binding->flags = 0;
	ret = DAT_ERROR(DAT_PROTECTION_VIOLATION, DAT_NO_SUBTYPE);
	if (likely(lmr->pz == rmr->pz))
		ret = region_register(binding, rmr->pz);
	if (unlikely(ret != DAT_SUCCESS)) {
		binding_discard(binding); /* and puts the LMR */
		return bind_fast_refused(ret, rmr);
	}
	spin_lock(&rmr->lock);
	form = beside_window_form_locked(rmr, binding, &bind);
	err = bind_post_locked(rmr, binding, ep, cookie, 0, form, &bind);
	ret = bind_posted_unlock(rmr, binding, ep, err, binding->region_key, context);
	if (likely(ret == DAT_SUCCESS))
		return DAT_SUCCESS;
	release_run(rmr->obj.ia);
	return bind_fast_refused(ret, rmr);
}

/*
 * A window that exists is bound to bytes of an LMR that allows it, through an endpoint whose gate
 * is open, without flags. All else is for bind_slow. A spare is there only if there is a window.
 */
static ALWAYS_INLINE DAT_RETURN bind_post(DAT_RMR_HANDLE handle, DAT_LMR_HANDLE lmr_handle,
					  const DAT_LMR_TRIPLET *triplet, DAT_MEM_PRIV_FLAGS priv,
					  DAT_EP_HANDLE ep_handle, DAT_RMR_COOKIE cookie,
					  DAT_COMPLETION_FLAGS flags, DAT_RMR_CONTEXT *context)
{
	struct rmr *rmr = handle;
	struct ep *ep = ep_handle;
	struct binding *binding;
	struct tp_bind bind;
	struct lmr *lmr;
	int err;

	if (unlikely(!triplet || !obj_readable(ep) || !context || flags))
		goto slow;
	if (unlikely(!obj_is(rmr, DAT_HANDLE_TYPE_RMR) || !gate_open(&ep->send_gate)))
		goto slow;
	if (unlikely(ep->bind_pz != rmr_fast_pz(rmr) || !ring_has_room(&ep->sends)))
		goto slow;
	if (unlikely(!spin_trylock(&rmr->lock)))
		goto slow;
	lmr = lmr_of_bind_locked(rmr, lmr_handle, triplet->lmr_context);
	if (unlikely(!lmr))
		goto unlock;
	if (unlikely(priv & lmr->window_never || !lmr_covers(lmr, triplet)))
		goto put_lmr;
	if (unlikely(lmr->window_pz != rmr_fast_pz(rmr)))
		return bind_region_unlock(rmr, lmr, triplet, priv, ep, cookie, context);
	binding = spare_take_locked(rmr); /* not before the look-up, which needs a register less */
	if (unlikely(!binding))
		goto put_lmr;
	binding_fill(binding, lmr, triplet, priv);
	bind = bind_of_locked(rmr, binding);
	err = bind_post_locked(rmr, binding, ep, cookie, 0, BIND_WINDOW, &bind);
	if (unlikely(err))
		return bind_fast_failed_unlock(rmr, binding, ep, err, context);
	return bind_posted_unlock(rmr, binding, ep, 0, binding->key, context);
put_lmr:
	obj_put(&lmr->obj);
unlock:
	spin_unlock(&rmr->lock);
slow:
	return bind_slow(rmr, lmr_handle, triplet, priv, ep, cookie, flags, context);
}

#if DAT_EDITION == 2
HOT DAT_RETURN rmr_bind(DAT_RMR_HANDLE rmr, DAT_LMR_HANDLE lmr, const DAT_LMR_TRIPLET *triplet,
			DAT_MEM_PRIV_FLAGS priv, DAT_VA_TYPE va_type, DAT_EP_HANDLE ep,
			DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags, DAT_RMR_CONTEXT *context)
{
	if (unlikely(va_type != DAT_VA_TYPE_VA))
		return bind_zero_based(rmr, lmr, triplet, priv, va_type, ep, cookie, flags,
				       context);
	return bind_post(rmr, lmr, triplet, priv, ep, cookie, flags, context);
}
#else
HOT DAT_RETURN rmr_bind(DAT_RMR_HANDLE rmr, const DAT_LMR_TRIPLET *triplet, DAT_MEM_PRIV_FLAGS priv,
			DAT_EP_HANDLE ep, DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags,
			DAT_RMR_CONTEXT *context)
{
	return bind_post(rmr, DAT_HANDLE_NULL, triplet, priv, ep, cookie, flags, context);
}
#endif
