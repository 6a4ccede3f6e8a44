/* SPDX-License-Identifier: BSD-2-Clause */
/* Event dispatchers as objects: create, query, modify, free, and their roles for endpoints. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "evd.h"
#include "base/race.h"

#define CQ_FIXED 4096 /* entries at least of a queue that can't grow, if the device has them */

#define READ_SEGMENTS 4 /* of one RDMA read, as programs ask for: OFED's default */

/* DAT_IB_EVD_EXTENSION_FLAG, which feeds nothing: it was meant for collective operations. */
#if DAT_EDITION == 2
#define EVD_FLAG_EXTENSION DAT_EVD_EXTENSION_BASE
#else
#define EVD_FLAG_EXTENSION 0
#endif

#define EVD_FLAGS_ALL                                                                              \
	(DAT_EVD_SOFTWARE_FLAG | DAT_EVD_CR_FLAG | DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG |    \
	 DAT_EVD_RMR_BIND_FLAG | DAT_EVD_ASYNC_FLAG | EVD_FLAG_EXTENSION)
#define EVD_FLAGS_COMPLETION (DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG)

/* ---- roles of endpoints ---- */

static unsigned config_of(DAT_COMPLETION_FLAGS flags)
{
	if (flags & DAT_COMPLETION_UNSIGNALLED_FLAG)
		return DAT_EVD_STATE_CONFIG_NOTIFY;
	if (flags & DAT_COMPLETION_SOLICITED_WAIT_FLAG)
		return DAT_EVD_STATE_CONFIG_SOLICITED;
	return DAT_EVD_STATE_CONFIG_THRESHOLD;
}

static unsigned role_config(enum evd_role role, const DAT_EP_ATTR *attr)
{
	switch (role) {
	case EVD_ROLE_RECV:
		return config_of(attr->recv_completion_flags);
	case EVD_ROLE_REQUEST:
		return config_of(attr->request_completion_flags);
	default:
		return DAT_EVD_STATE_CONFIG_THRESHOLD;
	}
}

/* A read of many segments may take several work requests. */
unsigned evd_role_depth(const struct ia *ia, enum evd_role role, const DAT_EP_ATTR *attr)
{
	switch (role) {
	case EVD_ROLE_RECV:
		return (unsigned)attr->max_recv_dtos + RING_SLACK;
	case EVD_ROLE_REQUEST:
		return attr_ep_work_requests(ia, attr);
	default:
		return 0;
	}
}

/*
 * Returns the mode that follows from the roles; 0 if there are none. An EVD is in notify or
 * solicited mode as long as all its roles ask for that, and only receives can be solicited. With
 * any other mixture it is in threshold mode.
 */
static unsigned config_locked(const struct evd *evd)
{
	unsigned roles = 0;

	assert_locked(&evd->lock);
	for (unsigned role = 0; role < EVD_ROLES; role++)
		roles += evd->roles[role];
	if (!roles)
		return 0;
	if (evd->notify_roles == roles)
		return DAT_EVD_STATE_CONFIG_NOTIFY;
	if (evd->solicited_roles == roles)
		return DAT_EVD_STATE_CONFIG_SOLICITED;
	return DAT_EVD_STATE_CONFIG_THRESHOLD;
}

/* Returns the mode by which a wait ends: without an endpoint it is that with a threshold. */
static unsigned wait_mode(unsigned config)
{
	return config ? config : (unsigned)DAT_EVD_STATE_CONFIG_THRESHOLD;
}

/*
 * One more (@change 1) or one less (-1) endpoint has @evd in this role, with room for @depth
 * completions. Returns whether that changes what ends a wait, so that evd_mode_changed is due.
 */
static bool role_change_locked(struct evd *evd, enum evd_role role, const DAT_EP_ATTR *attr,
			       int change, unsigned depth)
{
	const unsigned config = role_config(role, attr), before = evd->config;

	assert_locked(&evd->lock);
	evd->dto_depth += (unsigned)change * depth;
	evd->roles[role] += (unsigned)change;
	if (config == DAT_EVD_STATE_CONFIG_NOTIFY)
		evd->notify_roles += (unsigned)change;
	if (config == DAT_EVD_STATE_CONFIG_SOLICITED)
		evd->solicited_roles += (unsigned)change;
	evd->config = config_locked(evd);
	return before && wait_mode(before) != wait_mode(evd->config);
}

/* Makes the completion queue hold at least @depth entries. */
static DAT_RETURN cq_resize_locked(struct evd *evd, unsigned depth)
{
	const struct tp_attr *attr = evd->obj.ia->attr;
	const unsigned now = tp_cq_depth(evd->cq);
	int err;

	assert_locked(&evd->cq_lock);
	if (depth <= now)
		return DAT_SUCCESS;
	if (depth > attr->max_cqe) {
		log_error("%s: a completion queue with %u entries is needed, and the device's "
			  "largest has %u",
			  attr->device, depth, attr->max_cqe);
		return NO_RESOURCE(TEVD);
	}
	if (!(attr->caps & TP_CAP_CQ_RESIZE)) {
		log_error("%s: a completion queue with %u entries is needed, this one has %u, and "
			  "the device can't resize it: create the EVD with the number of all "
			  "transfers that its endpoints may have outstanding",
			  attr->device, depth, now);
		return NO_RESOURCE(TEVD);
	}
	err = tp_cq_resize(evd->cq, depth);
	if (err)
		log_error("%s: resizing a completion queue from %u to %u entries: %s", attr->device,
			  now, depth, strerror(-err));
	return status_of_made(err, DAT_RESOURCE_TEVD);
}

static DAT_RETURN cq_grow_locked(struct evd *evd, unsigned want)
{
	const struct tp_attr *attr = evd->obj.ia->attr;
	const unsigned now = tp_cq_depth(evd->cq);
	const unsigned ample = (unsigned)min_u64(2 * (uint64_t)now, attr->max_cqe);

	assert_locked(&evd->cq_lock);
	if (now < want && want < ample && attr->caps & TP_CAP_CQ_RESIZE &&
	    !tp_cq_resize(evd->cq, ample))
		return DAT_SUCCESS;
	return cq_resize_locked(evd, want);
}

/*
 * Makes the completion queue hold @depth entries more than the roles so far need. One direction of
 * an endpoint has at most as many completions as its depth, so a queue as deep as the sum can't
 * overrun. It is at least doubled, because each resize costs a system call and a copy; if there is
 * no memory for that, less will do.
 */
static DAT_RETURN cq_grow(struct evd *evd, unsigned depth)
{
	DAT_RETURN ret;
	unsigned want;

	spin_lock(&evd->lock);
	want = evd->dto_depth + depth;
	spin_unlock(&evd->lock);
	mutex_lock(&evd->cq_lock);
	ret = cq_grow_locked(evd, want);
	mutex_unlock(&evd->cq_lock);
	return ret;
}

/*
 * Drops a hold of an endpoint, or that of evd_destroy_locked. The last one frees the slot of a
 * destroyed EVD. All of them are dropped under evd->lock, so there is one last one.
 */
static void evd_put_unlock(struct evd *evd)
{
	bool last;

	assert_locked(&evd->lock);
	obj_put(&evd->obj);
	last = evd->destroyed && atomic_load(&evd->obj.uses) == OBJ_RETIRED;
	spin_unlock(&evd->lock);
	if (!last)
		return;
	free(evd->queue.slots); /* an endpoint of another IA may have made room meanwhile */
	mutex_destroy(&evd->watch.lock);
	mutex_destroy(&evd->cq_lock);
	obj_free(&evd->obj);
}

/*
 * Returns where in the list of @evd the share of @pool is, or the end of it. Programs have few of
 * these queues.
 */
static struct pool_share **share_find_locked(struct evd *evd, const struct recv_pool *pool)
{
	struct pool_share **link = &evd->shares;

	assert_locked(&evd->obj.ia->lock);
	while (*link && (*link)->pool != pool)
		link = &(*link)->next_of_evd;
	return link;
}

/*
 * Makes room in the completion queue of @handle, or is silent if that is none: it is checked again
 * when it is attached. That includes room for @pool, unless that is NULL, or another endpoint has
 * both. While the device works the EVD counts as in use.
 */
static DAT_RETURN grow_ahead(struct ia *ia, DAT_EVD_HANDLE handle, unsigned depth,
			     const struct recv_pool *pool)
{
	struct evd *evd = handle;
	DAT_RETURN ret = DAT_SUCCESS;

	mutex_lock(&ia->lock);
	if (!obj_valid(ia, handle, DAT_HANDLE_TYPE_EVD) && (!evd || evd != ia->sink)) {
		mutex_unlock(&ia->lock);
		return DAT_SUCCESS;
	}
	if (pool && !*share_find_locked(evd, pool))
		depth += pool->slots;
	obj_get(&evd->obj);
	mutex_unlock(&ia->lock);
	if (evd->cq && depth)
		ret = cq_grow(evd, depth);
	mutex_lock(&ia->lock);
	obj_put(&evd->obj);
	mutex_unlock(&ia->lock);
	return ret;
}

DAT_RETURN evd_grow_ahead(struct ia *ia, const struct evd_needs *needs)
{
	const DAT_EVD_HANDLE recv = needs->evds[EVD_ROLE_RECV];
	const DAT_EVD_HANDLE request = needs->evds[EVD_ROLE_REQUEST];
	const unsigned *depths = needs->depths;
	DAT_RETURN ret;

	if (recv == request)
		return grow_ahead(ia, recv, depths[EVD_ROLE_RECV] + depths[EVD_ROLE_REQUEST],
				  needs->pool);
	ret = grow_ahead(ia, recv, depths[EVD_ROLE_RECV], needs->pool);
	return ret == DAT_SUCCESS ? grow_ahead(ia, request, depths[EVD_ROLE_REQUEST], NULL) : ret;
}

DAT_RETURN evd_attach_locked(struct ia *ia, struct evd *evd, enum evd_role role,
			     const DAT_EP_ATTR *attr, unsigned depth)
{
	bool ok, changed = false;
	DAT_RETURN ret;

	assert_locked(&ia->lock);
	debug_assert(evd->obj.ia == ia || role == EVD_ROLE_CONNECT);
	if (!evd->is_sink && !obj_hold(NULL, evd, DAT_HANDLE_TYPE_EVD))
		return DAT_ERROR(DAT_INTERNAL_ERROR, 0);
	ret = depth ? cq_grow(evd, depth) : DAT_SUCCESS;
	spin_lock(&evd->lock);
	/*
	 * A full poll fits into an empty queue, so that a waiter gets its first completions even
	 * without memory.
	 */
	ok = ret == DAT_SUCCESS && evd_make_room_relock(evd, depth ? depth + TP_POLL_MAX : 1);
	if (ret == DAT_SUCCESS && !ok)
		ret = NO_RESOURCE(MEMORY);
	if (evd->destroyed) /* meanwhile, with its IA, which is not @ia */
		ret = DAT_ERROR(DAT_INTERNAL_ERROR, 0);
	if (ret == DAT_SUCCESS)
		changed = role_change_locked(evd, role, attr, 1, depth);
	if (ret == DAT_SUCCESS && evd->obj.ia != ia) /* whoever waits there listens to its own IA */
		attend_others_more(&ia->attendance);
	if (ret == DAT_SUCCESS || evd->is_sink)
		spin_unlock(&evd->lock);
	else
		evd_put_unlock(evd);
	if (changed)
		evd_mode_changed(evd);
	return ret;
}

void evd_detach_locked(struct ia *ia, struct evd *evd, enum evd_role role, const DAT_EP_ATTR *attr,
		       unsigned depth)
{
	bool changed;

	assert_locked(&ia->lock);
	if (evd->obj.ia != ia)
		attend_others_less(&ia->attendance);
	spin_lock(&evd->lock);
	changed = role_change_locked(evd, role, attr, -1, depth);
	spin_unlock(&evd->lock);
	if (changed)
		evd_mode_changed(evd);
	if (evd->is_sink)
		return;
	spin_lock(&evd->lock);
	evd_put_unlock(evd);
}

/* ---- shared receive queues of endpoints ---- */

/* Makes room for @more completions, which depth_drop_locked gives up. */
static DAT_RETURN depth_add_locked(struct evd *evd, unsigned more)
{
	DAT_RETURN ret = cq_grow(evd, more);
	bool ok;

	assert_locked(&evd->obj.ia->lock);
	if (ret != DAT_SUCCESS)
		return ret;
	spin_lock(&evd->lock);
	ok = evd_make_room_relock(evd, more + TP_POLL_MAX);
	if (ok)
		evd->dto_depth += more;
	spin_unlock(&evd->lock);
	return ok ? DAT_SUCCESS : NO_RESOURCE(MEMORY);
}

static void depth_drop_locked(struct evd *evd, unsigned less)
{
	assert_locked(&evd->obj.ia->lock);
	spin_lock(&evd->lock);
	evd->dto_depth -= less;
	spin_unlock(&evd->lock);
}

DAT_RETURN evd_attach_pool_locked(struct evd *evd, struct recv_pool *pool)
{
	struct pool_share **link = share_find_locked(evd, pool), *share = *link;
	DAT_RETURN ret;

	assert_locked(&evd->obj.ia->lock);
	if (share) {
		share->eps++;
		return DAT_SUCCESS;
	}
	share = malloc(sizeof(*share));
	if (!share)
		return NO_RESOURCE(MEMORY);
	*share = (struct pool_share){ .pool = pool, .evd = evd, .eps = 1 };
	share->depth = pool->slots;
	ret = depth_add_locked(evd, share->depth);
	if (ret != DAT_SUCCESS) {
		free(share);
		return ret;
	}
	*link = share;
	share->next_of_pool = pool->shares;
	share->back_of_pool = &pool->shares;
	if (pool->shares)
		pool->shares->back_of_pool = &share->next_of_pool;
	pool->shares = share;
	return DAT_SUCCESS;
}

void evd_detach_pool_locked(struct evd *evd, struct recv_pool *pool)
{
	struct pool_share **link = share_find_locked(evd, pool), *share = *link;

	assert_locked(&evd->obj.ia->lock);
	if (--share->eps > 0)
		return;
	depth_drop_locked(evd, share->depth);
	*link = share->next_of_evd;
	*share->back_of_pool = share->next_of_pool;
	if (share->next_of_pool)
		share->next_of_pool->back_of_pool = share->back_of_pool;
	free(share);
}

/* Takes the EVDs of the shares before @end back to @depth completions. */
static void shares_shrink_locked(struct ia *ia, struct recv_pool *pool,
				 const struct pool_share *end, unsigned depth)
{
	assert_locked(&ia->lock);
	for (struct pool_share *share = pool->shares; share != end; share = share->next_of_pool) {
		depth_drop_locked(share->evd, share->depth - depth);
		share->depth = depth;
	}
}

/*
 * The queue of @evd is resized next, without ia->lock: who frees the EVD waits until
 * resize_end_lock.
 */
static void resize_begin_unlock(struct evd *evd)
{
	struct ia *ia = evd->obj.ia;

	assert_locked(&ia->lock);
	evd->resizers++;
	mutex_unlock(&ia->lock);
}

static void resize_end_lock(struct evd *evd)
{
	struct ia *ia = evd->obj.ia;

	mutex_lock(&ia->lock);
	if (--evd->resizers == 0)
		pthread_cond_broadcast(&ia->waiter_left);
}

static struct pool_share *share_to_grow_locked(struct ia *ia, const struct recv_pool *pool)
{
	struct pool_share *share = pool->shares;

	assert_locked(&ia->lock);
	while (share && share->grown)
		share = share->next_of_pool;
	return share;
}

/*
 * Has the device make room for @depth completions in each EVD of @pool. The list may change
 * whenever the lock is let go of: who frees an EVD that has left it waits, as for dat_evd_resize.
 */
static DAT_RETURN shares_grow_relock(struct ia *ia, struct recv_pool *pool, unsigned depth)
{
	DAT_RETURN ret = DAT_SUCCESS;
	struct pool_share *share;

	assert_locked(&ia->lock);
	for (share = pool->shares; share; share = share->next_of_pool)
		share->grown = false;
	while (ret == DAT_SUCCESS && (share = share_to_grow_locked(ia, pool))) {
		const unsigned more = depth - share->depth;
		struct evd *evd = share->evd;

		share->grown = true;
		resize_begin_unlock(evd);
		ret = cq_grow(evd, more);
		resize_end_lock(evd);
	}
	return ret;
}

DAT_RETURN evd_grow_pool_relock(struct ia *ia, struct recv_pool *pool, unsigned depth)
{
	DAT_RETURN grown = shares_grow_relock(ia, pool, depth);

	assert_locked(&ia->lock);
	if (grown != DAT_SUCCESS)
		return grown;
	for (struct pool_share *share = pool->shares; share; share = share->next_of_pool) {
		DAT_RETURN ret = depth_add_locked(share->evd, depth - share->depth);

		if (ret != DAT_SUCCESS) {
			shares_shrink_locked(ia, pool, share, share->depth);
			return ret;
		}
		share->depth = depth;
	}
	return DAT_SUCCESS;
}

/* ---- create and free ---- */

/*
 * Returns how deep the completion queue of an EVD with @qlen events is made. One that can't grow
 * when endpoints are attached is large from the start: each event may be a read of READ_SEGMENTS,
 * which takes several work requests. It is not larger than that, because some devices map few large
 * queues.
 */
static unsigned cq_depth(const struct tp_attr *attr, unsigned qlen)
{
	uint64_t per_read = attr_read_work_requests(attr,
						    min_u64(attr->max_read_sge, READ_SEGMENTS));
	uint64_t wanted = max_u64(qlen * per_read + CQ_RESERVE, CQ_FIXED);

	if (attr->caps & TP_CAP_CQ_RESIZE)
		return qlen;
	return (unsigned)max_u64(qlen, min_u64(wanted, attr->max_cqe));
}

static DAT_RETURN cq_create(struct evd *evd)
{
	struct ia *ia = evd->obj.ia;
	unsigned qlen = (unsigned)evd->qlen, depth = cq_depth(ia->attr, qlen);
	int err;

	race_reach(RACE_CREATE, evd);
	err = tp_cq_create(ia->dev, depth, evd, &evd->cq);
	if (err && depth > qlen)
		err = tp_cq_create(ia->dev, qlen, evd, &evd->cq);
	if (log_descriptor_shortage("dat_evd_create", err))
		return NO_RESOURCE(TEVD);
	if (err)
		log_error("%s: making a completion queue with %u entries: %s; the device supports "
			  "%u queues with up to %u entries",
			  ia->attr->device, qlen, strerror(-err), ia->attr->max_cq,
			  ia->attr->max_cqe);
	return status_of_made(err, DAT_RESOURCE_TEVD);
}

/*
 * Makes an EVD as far as that needs no lock: the call of the device, which may take its time, is
 * here. evd_complete_locked or evd_discard_locked follows.
 */
static DAT_RETURN evd_prepare(struct ia *ia, DAT_COUNT qlen, DAT_EVD_FLAGS flags, bool is_sink,
			      struct evd **out)
{
	struct evd *evd = obj_alloc(ia, ia->obj.table, DAT_HANDLE_TYPE_EVD);
	DAT_RETURN ret;

	if (!evd)
		return NO_RESOURCE(MEMORY);
	spin_init(&evd->lock, RANK_EVD);
	mutex_init(&evd->cq_lock, RANK_CQ_DEPTH);
	evd->flags = flags;
	evd->is_sink = is_sink;
	evd->slow_path = flags & EVD_FLAGS_COMPLETION ? 0 : EVD_NO_CQ;
	evd->qlen = qlen;
	evd->enabled = true;
	evd->wakefd = -1;
	evd_channel_init(evd);
	spin_lock(&evd->lock);
	ret = evd_make_room_relock(evd, 1) ? DAT_SUCCESS : NO_RESOURCE(MEMORY);
	spin_unlock(&evd->lock);
	if (ret != DAT_SUCCESS)
		goto free_evd;
	if (flags & EVD_FLAGS_COMPLETION) {
		ret = cq_create(evd);
		if (ret != DAT_SUCCESS)
			goto free_queue;
	}
	*out = evd;
	return DAT_SUCCESS;
free_queue:
	free(evd->queue.slots);
free_evd:
	obj_free(&evd->obj);
	return ret;
}

/* Has it events of connections and completions both? */
static bool evd_mixes(const struct evd *evd)
{
	return evd->flags & EVD_FLAGS_CONNECTIONS && evd->flags & EVD_FLAGS_COMPLETION;
}

/* The opposite of evd_prepare. */
static void evd_discard_locked(struct evd *evd)
{
	assert_locked(&evd->obj.ia->lock);
	if (evd->cq)
		tp_cq_destroy(evd->cq);
	evd->cq = NULL;
	free(evd->queue.slots);
	obj_free(&evd->obj);
}

/*
 * Tells the service thread, or @cno, which was attached, of an EVD that was prepared. On failure
 * the EVD is discarded, and @cno detached.
 */
static DAT_RETURN evd_complete_locked(struct evd *evd, struct cno *cno)
{
	int err = evd->cq ? evd_channel_open(evd, cno) : 0;

	assert_locked(&evd->obj.ia->lock);
	if (err) {
		if (cno)
			cno_detach_locked(cno, false);
		evd_discard_locked(evd);
		return status_of(err, DAT_RESOURCE_TEVD);
	}
	if (cno) {
		evd->cno = cno;
		evd_watch_locked(evd);
	}
	if (evd_mixes(evd))
		attend_others_more(&evd->obj.ia->attendance);
	return DAT_SUCCESS;
}

static DAT_RETURN evd_build_locked(struct ia *ia, DAT_COUNT qlen, struct cno *cno,
				   DAT_EVD_FLAGS flags, bool is_sink, struct evd **out)
{
	struct evd *evd;
	DAT_RETURN ret = evd_prepare(ia, qlen, flags, is_sink, &evd);

	assert_locked(&ia->lock);
	if (ret == DAT_SUCCESS)
		ret = evd_complete_locked(evd, cno);
	if (ret == DAT_SUCCESS)
		*out = evd;
	return ret;
}

DAT_RETURN evd_new_locked(struct ia *ia, DAT_COUNT qlen, struct cno *cno, DAT_EVD_FLAGS flags,
			  struct evd **out)
{
	return evd_build_locked(ia, qlen, cno, flags, false, out);
}

DAT_RETURN evd_sink_locked(struct ia *ia, struct evd **out)
{
	DAT_RETURN ret = DAT_SUCCESS;

	assert_locked(&ia->lock);
	if (!ia->sink)
		ret = evd_build_locked(ia, 1, NULL, EVD_FLAGS_COMPLETION, true, &ia->sink);
	if (ret == DAT_SUCCESS)
		*out = ia->sink;
	return ret;
}

/*
 * Endpoints of other IAs may have their connection events sent here when this IA is closed
 * abruptly: then the last of them frees the slot, and until then events are dropped.
 */
void evd_destroy_locked(struct evd *evd)
{
	struct ia *ia = evd->obj.ia;
	struct tp_cq *cq = evd->cq;

	assert_locked(&ia->lock);
	obj_get(&evd->obj); /* keeps the slot until the end of this function */
	if (!evd->is_sink)
		ia_counts(ia, IA_EVD_FREE);
	counters_sum(&evd_counters, ia->evd_sums, evd->counters);
	if (cq)
		evd_channel_close_locked(evd);
	if (evd_mixes(evd))
		attend_others_less(&ia->attendance);
	spin_lock(&evd->lock);
	evd->destroyed = true; /* from here on threads of other IAs use nothing but the locks */
	free(evd->queue.slots);
	evd->queue = (struct event_queue){ 0 };
	spin_unlock(&evd->lock);
	cno_replace_locked(evd, NULL, true);
	if (cq)
		tp_cq_destroy(cq);
	spin_lock(&evd->lock);
	evd_put_unlock(evd);
}

/*
 * evd_complete_locked for dat_evd_create, without whose lock the IA may have been closed, or the
 * CNO freed, meanwhile: then the EVD is discarded.
 */
static DAT_RETURN evd_finish_locked(struct evd *evd, DAT_CNO_HANDLE cno)
{
	struct ia *ia = evd->obj.ia;
	DAT_RETURN ret = DAT_SUCCESS;

	assert_locked(&ia->lock);
	if (!obj_valid(NULL, ia, DAT_HANDLE_TYPE_IA))
		ret = BAD_HANDLE(IA);
	else if (cno && !cno_attach_locked(ia, cno))
		ret = BAD_HANDLE(CNO);
	if (ret == DAT_SUCCESS)
		return evd_complete_locked(evd, cno);
	evd_discard_locked(evd);
	return ret;
}

DAT_RETURN evd_create(DAT_IA_HANDLE ia_handle, DAT_COUNT qlen, DAT_CNO_HANDLE cno,
		      DAT_EVD_FLAGS flags, DAT_EVD_HANDLE *out)
{
	CANCEL_FORBIDDEN;
	struct ia *ia = ia_handle;
	struct evd *evd;
	DAT_RETURN ret;

	if (!obj_valid(NULL, ia, DAT_HANDLE_TYPE_IA))
		return BAD_HANDLE(IA);
	if (cno && !obj_valid(ia, cno, DAT_HANDLE_TYPE_CNO))
		return BAD_HANDLE(CNO);
	if (!out)
		return BAD_ARG(5);
	if (qlen <= 0)
		return BAD_ARG(2);
	flags &= EVD_FLAGS_ALL;
	if (!flags)
		return BAD_ARG(4);
	if (qlen > attr_max_evd_qlen(ia))
		return NO_RESOURCE(TEVD);
	if (!ia_keep(ia))
		return BAD_HANDLE(IA);
	ret = evd_prepare(ia, qlen, flags, false, &evd);
	mutex_lock(&ia->lock);
	if (ret == DAT_SUCCESS)
		ret = evd_finish_locked(evd, cno);
	if (ret == DAT_SUCCESS) {
		ia_counts(ia, IA_EVD_CREATE);
		*out = obj_publish(&evd->obj);
	}
	ia_unkeep_locked(ia);
	mutex_unlock(&ia->lock);
	return ret;
}

DAT_RETURN evd_free(DAT_EVD_HANDLE handle)
{
	CANCEL_FORBIDDEN;
	struct evd *evd = handle;
	DAT_RETURN ret = DAT_SUCCESS;
	struct ia *ia;

	if (!obj_lock_ia(NULL, handle, DAT_HANDLE_TYPE_EVD))
		return BAD_EVD;
	ia = evd->obj.ia;
	if (evd == ia->async_evd || !obj_retire(&evd->obj)) {
		ret = BAD_STATE(EVD_IN_USE);
	} else {
		ia_keep_to_free_locked(ia);
		evd_expel_waiter_relock(evd);
		evd_destroy_locked(evd);
		ia_unkeep_locked(ia);
	}
	mutex_unlock(&ia->lock);
	return ret;
}

void evd_expel_waiter_relock(struct evd *evd)
{
	struct ia *ia = evd->obj.ia;

	assert_locked(&ia->lock);
	spin_lock(&evd->lock);
	evd->slow_path |= EVD_CLOSING;
	evd_wake_locked(evd);
	while (evd->slow_path & EVD_WAITER || evd->resizers) {
		spin_unlock(&evd->lock);
		race_reach(RACE_EXPEL, evd);
		cond_wait_relock(&ia->waiter_left, &ia->lock);
		spin_lock(&evd->lock);
	}
	spin_unlock(&evd->lock);
}

/* ---- query and modify ---- */

DAT_RETURN evd_query(DAT_EVD_HANDLE handle, DAT_EVD_PARAM_MASK mask, DAT_EVD_PARAM *param)
{
	CANCEL_FORBIDDEN;
	struct evd *evd = handle;
	DAT_IA_HANDLE ia;

	(void)mask; /* all members are filled in */
	if (!obj_valid(NULL, evd, DAT_HANDLE_TYPE_EVD))
		return BAD_EVD;
	if (!param)
		return BAD_ARG(3);
	ia = attr_ia_handle(evd->obj.ia);
	spin_lock(&evd->lock);
	*param = (DAT_EVD_PARAM){
		.ia_handle = ia,
		.evd_qlen = evd->qlen,
		.evd_state = (evd->enabled ? DAT_EVD_STATE_ENABLED : DAT_EVD_STATE_DISABLED) |
			     (evd->slow_path & EVD_UNWAITABLE ? DAT_EVD_STATE_UNWAITABLE
							      : DAT_EVD_STATE_WAITABLE) |
			     wait_mode(evd->config),
		.cno_handle = evd->cno,
		.evd_flags = evd->flags,
	};
	spin_unlock(&evd->lock);
	return DAT_SUCCESS;
}

DAT_RETURN evd_modify_cno(DAT_EVD_HANDLE handle, DAT_CNO_HANDLE cno)
{
	CANCEL_FORBIDDEN;
	struct evd *evd = handle;
	DAT_RETURN ret = DAT_SUCCESS;
	struct ia *ia;

	if (!obj_lock_ia(NULL, handle, DAT_HANDLE_TYPE_EVD))
		return BAD_EVD;
	ia = evd->obj.ia;
	if (cno == evd->cno) {
		/* nothing changes */
	} else if (cno && !cno_attach_locked(ia, cno)) {
		ret = BAD_HANDLE(CNO);
	} else {
		cno_replace_locked(evd, cno, false);
		evd_trigger_backlog_locked(evd);
	}
	mutex_unlock(&ia->lock);
	return ret;
}

DAT_RETURN evd_enable(DAT_EVD_HANDLE handle)
{
	CANCEL_FORBIDDEN;
	struct evd *evd = handle;
	bool before;

	if (!obj_lock_ia(NULL, handle, DAT_HANDLE_TYPE_EVD))
		return BAD_EVD;
	spin_lock(&evd->lock);
	before = evd->enabled;
	evd->enabled = true;
	spin_unlock(&evd->lock);
	if (!before)
		evd_trigger_backlog_locked(evd);
	mutex_unlock(&evd->obj.ia->lock);
	return DAT_SUCCESS;
}

DAT_RETURN evd_disable(DAT_EVD_HANDLE handle)
{
	CANCEL_FORBIDDEN;
	struct evd *evd = handle;

	if (!obj_valid(NULL, evd, DAT_HANDLE_TYPE_EVD))
		return BAD_EVD;
	spin_lock(&evd->lock);
	evd->enabled = false;
	spin_unlock(&evd->lock);
	return DAT_SUCCESS;
}

/* dat_evd_set_unwaitable and dat_evd_clear_unwaitable. */
static DAT_RETURN waitable_change(DAT_EVD_HANDLE handle, bool waitable)
{
	CANCEL_FORBIDDEN;
	struct evd *evd = handle;

	if (!obj_valid(NULL, evd, DAT_HANDLE_TYPE_EVD))
		return BAD_EVD;
	spin_lock(&evd->lock);
	if (waitable) {
		evd->slow_path &= ~(unsigned)EVD_UNWAITABLE;
	} else {
		evd->slow_path |= EVD_UNWAITABLE;
		if (evd->slow_path & EVD_WAITER)
			evd->slow_path |= EVD_TURNED_AWAY;
		evd_wake_locked(evd);
	}
	spin_unlock(&evd->lock);
	return DAT_SUCCESS;
}

DAT_RETURN evd_set_unwaitable(DAT_EVD_HANDLE evd)
{
	return waitable_change(evd, false);
}

DAT_RETURN evd_clear_unwaitable(DAT_EVD_HANDLE evd)
{
	return waitable_change(evd, true);
}

static DAT_RETURN cq_resize_relock(struct evd *evd, unsigned depth)
{
	DAT_RETURN ret;

	assert_locked(&evd->obj.ia->lock);
	resize_begin_unlock(evd);
	mutex_lock(&evd->cq_lock);
	ret = cq_resize_locked(evd, depth);
	mutex_unlock(&evd->cq_lock);
	resize_end_lock(evd);
	return ret;
}

DAT_RETURN evd_resize(DAT_EVD_HANDLE handle, DAT_COUNT qlen)
{
	CANCEL_FORBIDDEN;
	struct evd *evd = handle;
	DAT_RETURN ret = DAT_SUCCESS;
	struct ia *ia;

	if (!obj_lock_ia(NULL, handle, DAT_HANDLE_TYPE_EVD))
		return BAD_EVD;
	ia = evd->obj.ia;
	if (qlen <= 0 || qlen > attr_max_evd_qlen(ia))
		ret = BAD_ARG(2);
	else if (evd->cq)
		ret = cq_resize_relock(evd, (unsigned)qlen);
	if (ret == DAT_SUCCESS)
		ret = evd_set_qlen_locked(evd, qlen);
	mutex_unlock(&ia->lock);
	return ret;
}
