/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Remote memory regions: windows through which peers reach a part of a region.
 *
 * A bind is a request of an endpoint, so a window changes twice: for the consumer who asks at the post, for the peers
 * at the completion. In between it has both bindings, and both their regions are held.
 *
 * Where the device has no windows, or can't bind one to that region, the range is registered as a region of its own and
 * a write of nothing stands for the bind in the queue.
 */
#include <stdlib.h>

#include "udapl.h"

#define REMOTE_PRIVS (DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG)
#define BIND_FLAGS   (DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_BARRIER_FENCE_FLAG)

/* ---- bindings --------------------------------------------------------------------------------------------------- */

static struct binding *binding_make(struct rmr *rmr)
{
	struct binding *binding;

	spin_lock(&rmr->lock);
	binding = rmr->spares;
	if (binding)
		rmr->spares = binding->next;
	spin_unlock(&rmr->lock);
	if (!binding)
		binding = malloc(sizeof(*binding));
	if (binding)
		*binding = (struct binding){ .rmr = rmr };
	return binding;
}

/* No peer comes this way any more, and the LMR may go. If it had the window, that has moved on or is gone already. */
static void binding_clear(struct binding *binding)
{
	if (binding->region && tp_mr_dereg(binding->region))
		log_error("window %p: the device keeps the region of a binding that is over", (void *)binding->rmr);
	if (binding->lmr)
		obj_put(&binding->lmr->obj);
	*binding = (struct binding){
		.rmr = binding->rmr,
		.next = binding->next,
		.done = binding->done,
		.key = binding->key,
	};
}

static void binding_spare_locked(struct binding *binding)
{
	struct rmr *rmr = binding->rmr;

	binding_clear(binding);
	binding->next = rmr->spares;
	rmr->spares = binding;
}

static void append_locked(struct rmr *rmr, struct binding *binding)
{
	if (rmr->latest)
		rmr->latest->next = binding;
	else
		rmr->bindings = binding;
	rmr->latest = binding;
}

/* It never was, or even was not posted. If it was the latest, the one before it is that again. */
static void remove_locked(struct rmr *rmr, struct binding *binding)
{
	struct binding **at = &rmr->bindings, *before = NULL;

	while (*at && *at != binding) {
		before = *at;
		at = &before->next;
	}
	if (*at) {
		*at = binding->next;
		if (rmr->latest == binding)
			rmr->latest = before;
	}
	binding_spare_locked(binding);
}

/* Of those that are done, the last one is in force. */
static void prune_locked(struct rmr *rmr)
{
	struct binding **at = &rmr->bindings, *in_force = NULL;

	for (struct binding *binding = rmr->bindings; binding; binding = binding->next)
		if (binding->done)
			in_force = binding;
	while (*at != in_force) {
		struct binding *binding = *at;

		if (binding->done) {
			*at = binding->next;
			binding_spare_locked(binding);
		} else {
			at = &binding->next;
		}
	}
}

/* The device may still serve the binding before: only without its window we know that it does not. */
static void lose_locked(struct rmr *rmr, struct binding *binding)
{
	if (rmr->mw)
		tp_mw_destroy(rmr->mw);
	rmr->mw = NULL;
	binding_clear(binding);
	binding->done = true;
}

static bool is_idle_locked(const struct rmr *rmr)
{
	return rmr->bindings == rmr->latest;
}

/* ---- create and free -------------------------------------------------------------------------------------------- */

DAT_RETURN rmr_create(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE *rmr_out)
{
	struct pz *pz = pz_handle;
	struct binding *none;
	struct rmr *rmr;
	struct ia *ia;
	DAT_RETURN ret = NO_RESOURCE(MEMORY);

	if (!obj_hold(NULL, pz_handle, DAT_HANDLE_TYPE_PZ))
		return BAD_HANDLE(PZ);
	if (!rmr_out) {
		ret = BAD_ARG(2);
		goto put_pz;
	}
	ia = pz->obj.ia;
	rmr = obj_alloc(ia, ia->obj.provider, DAT_HANDLE_TYPE_RMR);
	if (!rmr)
		goto put_pz;
	rmr->pz = pz;
	none = binding_make(rmr);
	if (!none)
		goto discard_rmr;
	none->done = true;
	append_locked(rmr, none);
	if (ia->attr->max_mw)
		ret = status_of(tp_mw_create(pz->pd, &rmr->mw, &none->key), DAT_RESOURCE_MEMORY_REGION);
	else
		ret = DAT_SUCCESS;
	if (ret != DAT_SUCCESS)
		goto free_none;
	*rmr_out = obj_publish(&rmr->obj);
	return DAT_SUCCESS;
free_none:
	free(none);
discard_rmr:
	obj_discard(&rmr->obj);
put_pz:
	obj_put(&pz->obj);
	return ret;
}

/* Nothing is in flight, and nobody has its handle. */
static void rmr_release(struct rmr *rmr)
{
	if (rmr->mw)
		tp_mw_destroy(rmr->mw);
	binding_spare_locked(rmr->latest);
	while (rmr->spares) {
		struct binding *next = rmr->spares->next;

		free(rmr->spares);
		rmr->spares = next;
	}
	obj_put(&rmr->pz->obj);
	obj_discard(&rmr->obj);
}

void rmr_unmake(struct rmr *rmr)
{
	bool idle;

	spin_lock(&rmr->lock);
	rmr->freed = true;
	idle = is_idle_locked(rmr);
	spin_unlock(&rmr->lock);
	if (idle)
		rmr_release(rmr);
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

DAT_RETURN rmr_query(DAT_RMR_HANDLE handle, DAT_RMR_PARAM_MASK mask, DAT_RMR_PARAM *param)
{
	struct rmr *rmr = handle;
	struct binding now;

	if (!obj_valid(NULL, handle, DAT_HANDLE_TYPE_RMR))
		return BAD_HANDLE(RMR);
	if (!param)
		return BAD_ARG(3);
	if (mask & ~(unsigned)DAT_RMR_FIELD_ALL)
		return BAD_ARG(2);
	spin_lock(&rmr->lock);
	now = *rmr->latest;
	spin_unlock(&rmr->lock);
	if (!now.lmr && mask & DAT_RMR_FIELD_LMR_TRIPLET)
		return BAD_ARG(2);
	*param = (DAT_RMR_PARAM){
		.ia_handle = rmr->obj.ia,
		.pz_handle = rmr->pz,
		.lmr_triplet = now.triplet,
		.mem_priv = now.priv,
		.rmr_context = now.context,
	};
	return DAT_SUCCESS;
}

/* ---- bind ------------------------------------------------------------------------------------------------------- */

/* By their tags alone, as everywhere on the data path. */
static DAT_RETURN handles_refused(const struct rmr *rmr, const struct ep *ep)
{
	if (!rmr || !obj_is(rmr, DAT_HANDLE_TYPE_RMR))
		return BAD_HANDLE(RMR);
	if (!ep || !obj_is(ep, DAT_HANDLE_TYPE_EP) || ep->obj.ia != rmr->obj.ia)
		return BAD_HANDLE(EP);
	if (ep->request_evd->is_sink || !(ep->request_evd->flags & DAT_EVD_RMR_BIND_FLAG))
		return BAD_HANDLE(EVD_REQUEST);
	return DAT_SUCCESS;
}

/* Holds the LMR that the triplet is about; an empty one is about none. */
static DAT_RETURN lmr_pin(struct ia *ia, const DAT_LMR_TRIPLET *triplet, struct lmr **out)
{
	struct lmr *lmr;

	*out = NULL;
	if (!triplet->segment_length)
		return DAT_SUCCESS;
	pthread_mutex_lock(&ia->lock);
	lmr = lmr_find(ia, triplet->lmr_context, triplet->virtual_address, triplet->segment_length);
	if (lmr)
		obj_get(&lmr->obj);
	pthread_mutex_unlock(&ia->lock);
	*out = lmr;
	return lmr ? DAT_SUCCESS : BAD_ARG(2);
}

static DAT_RETURN bind_refused(const struct rmr *rmr, const struct lmr *lmr, DAT_MEM_PRIV_FLAGS priv,
			       const struct ep *ep, DAT_EP_STATE state, DAT_COMPLETION_FLAGS flags)
{
	if (priv & ~(unsigned)DAT_MEM_PRIV_ALL_FLAG)
		return BAD_ARG(3);
	if (!ep_flags_legal(ep, flags, BIND_FLAGS))
		return BAD_ARG(6);
	if (state != DAT_EP_STATE_CONNECTED && state != DAT_EP_STATE_DISCONNECTED)
		return status_of_ep_state(state);
	if (ep->pz != rmr->pz || (lmr && lmr->pz != rmr->pz))
		return DAT_ERROR(DAT_PROTECTION_VIOLATION, DAT_NO_SUBTYPE);
	if (lmr && priv & DAT_MEM_PRIV_REMOTE_READ_FLAG && !(lmr->priv & DAT_MEM_PRIV_LOCAL_READ_FLAG))
		return DAT_ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_RDMA_READ);
	if (lmr && priv & DAT_MEM_PRIV_REMOTE_WRITE_FLAG && !(lmr->priv & DAT_MEM_PRIV_LOCAL_WRITE_FLAG))
		return DAT_ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_RDMA_WRITE);
	return DAT_SUCCESS;
}

/* A failed bind took the window along. */
static DAT_RETURN window_renew(struct rmr *rmr)
{
	DAT_RMR_CONTEXT key;
	struct tp_mw *mw;
	int err;

	if (!rmr->obj.ia->attr->max_mw)
		return DAT_SUCCESS;
	err = tp_mw_create(rmr->pz->pd, &mw, &key);
	if (err)
		return status_of(err, DAT_RESOURCE_MEMORY_REGION);
	spin_lock(&rmr->lock);
	rmr->mw = mw;
	rmr->latest->key = key;
	spin_unlock(&rmr->lock);
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

static DAT_RETURN region_make(struct binding *binding)
{
	struct tp_mr_info info;
	int err = tp_mr_reg(binding->rmr->pz->pd, (void *)(uintptr_t)binding->triplet.virtual_address,
			    binding->triplet.segment_length, binding->priv, false, &binding->region, &info);

	if (err)
		return status_of(err, DAT_RESOURCE_MEMORY_REGION);
	if (binding->priv)
		binding->context = info.rmr_context;
	return DAT_SUCCESS;
}

/* On success @lmr is the binding's to put. */
static DAT_RETURN bind_prepare(struct rmr *rmr, struct lmr *lmr, const DAT_LMR_TRIPLET *triplet,
			       DAT_MEM_PRIV_FLAGS priv, struct binding **out)
{
	DAT_RETURN ret = has_window(rmr) ? DAT_SUCCESS : window_renew(rmr);
	struct binding *binding;

	if (ret != DAT_SUCCESS)
		return ret;
	binding = binding_make(rmr);
	if (!binding)
		return NO_RESOURCE(MEMORY);
	if (lmr) {
		binding->triplet = *triplet;
		binding->priv = (DAT_MEM_PRIV_FLAGS)(priv & REMOTE_PRIVS);
		if (!lmr->info.bindable || !rmr->obj.ia->attr->max_mw)
			ret = region_make(binding);
	}
	if (ret == DAT_SUCCESS) {
		binding->lmr = lmr;
		*out = binding;
		return DAT_SUCCESS;
	}
	spin_lock(&rmr->lock);
	binding_spare_locked(binding);
	spin_unlock(&rmr->lock);
	return ret;
}

static bool uses_window(const struct binding *binding)
{
	return binding->lmr && !binding->region;
}

/* The window follows, or has to let go of what it was bound to, or has nothing to do with it. */
static int hand_down(struct binding *binding, const struct binding *before, struct tp_qp *qp, void *tag, unsigned how)
{
	static const DAT_RMR_TRIPLET nowhere;
	struct tp_bind bind = { .mw = binding->rmr->mw, .context = before->key };
	int err;

	binding->key = before->key;
	if (uses_window(binding)) {
		bind.mr = binding->lmr->mr;
		bind.address = binding->triplet.virtual_address;
		bind.size = binding->triplet.segment_length;
		bind.priv = binding->priv;
	} else if (uses_window(before)) {
		bind.mr = before->lmr->mr;
	} else {
		return tp_post_write(qp, tag, NULL, 0, 0, &nowhere, how);
	}
	err = tp_post_bind(qp, tag, &bind, how);
	if (err)
		return err;
	binding->key = bind.context;
	if (uses_window(binding))
		binding->context = bind.context;
	return 0;
}

/* rmr->lock makes the completion wait, which another thread may see before the post is through. */
int rmr_post(struct binding *binding, struct ep *ep, struct req *req, unsigned how, DAT_RMR_CONTEXT *context)
{
	struct rmr *rmr = binding->rmr;
	int err;

	spin_lock(&rmr->lock);
	ring_push(&ep->sends, req);
	err = hand_down(binding, rmr->latest, ep->qp, req, how);
	append_locked(rmr, binding);
	*context = binding->context;
	spin_unlock(&rmr->lock);
	return err;
}

void rmr_settle(struct binding *binding, DAT_DTO_COMPLETION_STATUS status)
{
	struct rmr *rmr = binding->rmr;
	bool over;

	spin_lock(&rmr->lock);
	if (status == DAT_DTO_SUCCESS)
		binding->done = true;
	else if (status == DAT_DTO_ERR_FLUSHED)
		remove_locked(rmr, binding);
	else
		lose_locked(rmr, binding);
	prune_locked(rmr);
	over = rmr->freed && is_idle_locked(rmr);
	spin_unlock(&rmr->lock);
	if (over)
		rmr_release(rmr);
}

/* An endpoint that is disconnected completes it as flushed, at once: then nothing is bound, and no context made. */
static DAT_RETURN flush_now(struct rmr *rmr, struct ep *ep, DAT_RMR_COOKIE cookie, DAT_RMR_CONTEXT *context)
{
	struct binding never = { .rmr = rmr };
	const struct req req = { .cookie = cookie, .ring = &ep->sends, .binding = &never, .kind = REQ_BIND };
	struct ia *ia = ep->obj.ia;
	bool ok;

	pthread_mutex_lock(&ia->lock);
	ok = ep_settle(ep) && evd_post_flushed(ep->request_evd, &req);
	pthread_mutex_unlock(&ia->lock);
	if (!ok)
		return NO_RESOURCE(MEMORY);
	*context = 0;
	return DAT_SUCCESS;
}

DAT_RETURN rmr_bind(DAT_RMR_HANDLE handle, const DAT_LMR_TRIPLET *triplet, DAT_MEM_PRIV_FLAGS priv,
		    DAT_EP_HANDLE ep_handle, DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags,
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
	state = (DAT_EP_STATE)ep_state(ep); /* looked at once: it may go on meanwhile */
	ret = bind_refused(rmr, lmr, priv, ep, state, flags);
	if (ret != DAT_SUCCESS)
		goto put_lmr;
	if (state == DAT_EP_STATE_DISCONNECTED) {
		ret = flush_now(rmr, ep, cookie, context);
		goto put_lmr;
	}
	ret = bind_prepare(rmr, lmr, triplet, priv, &binding);
	if (ret != DAT_SUCCESS)
		goto put_lmr;
	ret = ep_post_bind(ep, binding, cookie, flags, context);
	if (ret != DAT_SUCCESS)
		rmr_settle(binding, DAT_DTO_ERR_FLUSHED);
	return ret;
put_lmr:
	if (lmr)
		obj_put(&lmr->obj);
	return ret;
}
