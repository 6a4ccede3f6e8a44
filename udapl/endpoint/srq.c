/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues: create, free, query, resize, the low watermark. post.c posts to them.
 *
 * A receive has a slot, as a request in a ring has. But each message takes the buffer for whichever
 * endpoint it is for, so slots come back in any order, from the threads that take the completions
 * of any of the endpoints. Two lists of free slots need no lock: the poster's own, and one to which
 * everybody else adds, and of which the poster takes all when its own is empty.
 *
 * Nothing here ends a receive but its completion: those that the device drops with a queue pair are
 * in use until the queue is freed.
 */
#include <errno.h>
#include <stdlib.h>

#include "endpoint.h"
#include "base/race.h"

/* Slots that were allocated together. */
struct srq_slots {
	struct srq_slots *next;
	unsigned count;
	struct req slots[];
};

/* ---- slots ---- */

static struct srq_slots *slots_new(struct srq *srq, unsigned count)
{
	struct srq_slots *slots = calloc(1, sizeof(*slots) + count * sizeof(slots->slots[0]));

	if (!slots)
		return NULL;
	slots->count = count;
	for (unsigned i = 0; i < count; i++) {
		slots->slots[i].ring = &srq->pool.ring;
		req_set_kind(&slots->slots[i], REQ_SRQ_RECV, REQ_SLOW_PATH);
	}
	return slots;
}

/* Adds slots as if they had been posted and had come back. */
static void slots_add(struct srq *srq, struct srq_slots *slots)
{
	slots->next = srq->slots;
	srq->slots = slots;
	atomic_fetch_sub(&srq->pool.ring.head, slots->count);
	for (unsigned i = slots->count; i-- > 0;)
		pool_return(&srq->pool, &slots->slots[i]);
}

static void slots_free(struct srq *srq)
{
	struct srq_slots *slots;

	while ((slots = srq->slots)) {
		srq->slots = slots->next;
		free(slots);
	}
}

/*
 * Counts the receives as the poster may. It takes the poster's lock, because on a thread-safe IA
 * that is another thread.
 */
static unsigned outstanding(struct srq *srq)
{
	unsigned n;

	spin_lock(&srq->post_lock);
	n = srq_outstanding(srq);
	spin_unlock(&srq->post_lock);
	return n;
}

/* ---- create and free ---- */

static void srq_set_state_locked(struct srq *srq, DAT_SRQ_STATE state)
{
	unsigned open = srq->obj.ia->thread_safe ? SRQ_SHARED : SRQ_OPEN;

	assert_locked(&srq->obj.ia->lock);
	atomic_store(&srq->state, state);
	atomic_store(&srq->gate, state == DAT_SRQ_STATE_OPERATIONAL ? open : 0);
}

void srq_after_fork(struct srq *srq)
{
	atomic_store(&srq->gate, 0);
}

static DAT_RETURN srq_init(struct srq *srq, const DAT_SRQ_ATTR *attr)
{
	const unsigned segments = (unsigned)attr->max_recv_iov;
	struct srq_slots *slots = slots_new(srq, (unsigned)attr->max_recv_dtos);

	srq->pool.ring.sges = calloc(max_u64(segments, 1), sizeof(*srq->pool.ring.sges));
	if (!slots || !srq->pool.ring.sges) {
		free(slots);
		free(srq->pool.ring.sges);
		return NO_RESOURCE(MEMORY);
	}
	spin_init(&srq->post_lock, RANK_POST);
	mutex_init(&srq->depth_lock, RANK_SRQ_DEPTH);
	slots_add(srq, slots);
	srq->max_segments = segments;
	srq->max_transfer = min_u64(srq->obj.ia->attr->max_message, TP_MAX_LENGTH);
	srq->pool.slots = srq->depth = (unsigned)attr->max_recv_dtos;
	return DAT_SUCCESS;
}

static void srq_fini(struct srq *srq)
{
	mutex_destroy(&srq->depth_lock);
	free(srq->pool.ring.sges);
	slots_free(srq);
}

/* Makes a queue, in all but publishing it. */
static DAT_RETURN srq_new_locked(struct ia *ia, struct pz *pz, const DAT_SRQ_ATTR *attr,
				 struct srq **out)
{
	const struct tp_srq_attr asked = {
		.pd = pz->pd,
		.max_recv = (unsigned)attr->max_recv_dtos,
		.max_sge = max_u64((unsigned)attr->max_recv_iov, 1), /* some devices refuse 0 */
	};
	struct srq *srq = obj_alloc(ia, ia->obj.table, DAT_HANDLE_TYPE_SRQ);
	DAT_RETURN ret;

	assert_locked(&ia->lock);
	if (!srq)
		return NO_RESOURCE(MEMORY);
	srq->pz = pz;
	ret = srq_init(srq, attr);
	if (ret != DAT_SUCCESS)
		goto free_srq;
	ret = status_of_made(tp_srq_create(ia->dev, &asked, srq, &srq->tp), DAT_RESOURCE_SRQ);
	if (ret != DAT_SUCCESS)
		goto fini;
	srq_set_state_locked(srq, DAT_SRQ_STATE_OPERATIONAL);
	*out = srq;
	return DAT_SUCCESS;
fini:
	srq_fini(srq);
free_srq:
	obj_free(&srq->obj);
	return ret;
}

static DAT_RETURN srq_create_refused(const struct ia *ia, const DAT_SRQ_ATTR *attr,
				     const DAT_SRQ_HANDLE *out)
{
	if (!attr)
		return BAD_ARG(3);
	if (!out)
		return BAD_ARG(4);
	if (!attr_max_srq_dtos(ia))
		return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	if (attr->max_recv_dtos <= 0 || attr->max_recv_dtos > attr_max_srq_dtos(ia) ||
	    attr->max_recv_iov < 0 || (unsigned)attr->max_recv_iov > ia->attr->max_srq_sge ||
	    attr->low_watermark != DAT_SRQ_LW_DEFAULT) {
		log_ep("SRQ attributes: max_recv_dtos %d, of 1 to %d, max_recv_iov %d, of 0 to %u, "
		       "low_watermark %d, of 0",
		       attr->max_recv_dtos, attr_max_srq_dtos(ia), attr->max_recv_iov,
		       ia->attr->max_srq_sge, attr->low_watermark);
		return BAD_ARG(3);
	}
	return DAT_SUCCESS;
}

DAT_RETURN srq_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz, DAT_SRQ_ATTR *attr,
		      DAT_SRQ_HANDLE *out)
{
	CANCEL_FORBIDDEN;
	struct ia *ia = ia_handle;
	struct srq *srq = NULL;
	DAT_RETURN ret;

	if (!obj_valid(NULL, ia, DAT_HANDLE_TYPE_IA))
		return BAD_HANDLE(IA);
	if (!obj_hold(ia, pz, DAT_HANDLE_TYPE_PZ))
		return BAD_HANDLE(PZ);
	ret = srq_create_refused(ia, attr, out);
	if (ret != DAT_SUCCESS)
		goto put_pz;
	mutex_lock(&ia->lock);
	ret = srq_new_locked(ia, pz, attr, &srq);
	if (ret == DAT_SUCCESS) {
		ia_counts(ia, IA_SRQ_CREATE);
		*out = obj_publish(&srq->obj);
	}
	mutex_unlock(&ia->lock);
	if (ret == DAT_SUCCESS)
		return DAT_SUCCESS;
put_pz:
	obj_put(pz);
	return ret;
}

/* Receives that are still posted end without an event. */
void srq_destroy_locked(struct srq *srq)
{
	assert_locked(&srq->obj.ia->lock);
	debug_assert(!srq->pool.shares && !atomic_load(&srq->pool.queued) && !srq->callers);
	ia_counts(srq->obj.ia, IA_SRQ_FREE);
	atomic_store(&srq->gate, 0);
	tp_srq_destroy(srq->tp);
	obj_put(&srq->pz->obj);
	srq_fini(srq);
	obj_free(&srq->obj);
}

/* For a queue that is retired: waits for the threads that resize or arm it. */
static void srq_expel_callers_relock(struct srq *srq)
{
	struct ia *ia = srq->obj.ia;

	assert_locked(&ia->lock);
	ia_keep_to_free_locked(ia);
	while (srq->callers) {
		race_reach(RACE_EXPEL, srq);
		cond_wait_relock(&ia->waiter_left, &ia->lock);
	}
	ia_unkeep_locked(ia);
}

DAT_RETURN srq_free(DAT_SRQ_HANDLE handle)
{
	CANCEL_FORBIDDEN;
	struct srq *srq = handle;
	DAT_RETURN ret = DAT_SUCCESS;
	struct ia *ia;

	if (!obj_lock_ia(NULL, handle, DAT_HANDLE_TYPE_SRQ))
		return BAD_HANDLE(SRQ);
	ia = srq->obj.ia;
	if (obj_retire(&srq->obj)) {
		srq_expel_callers_relock(srq);
		srq_destroy_locked(srq);
	} else {
		ret = BAD_STATE(SRQ_IN_USE);
	}
	mutex_unlock(&ia->lock);
	return ret;
}

/* ---- query and resize ---- */

DAT_RETURN srq_query(DAT_SRQ_HANDLE handle, DAT_SRQ_PARAM_MASK mask, DAT_SRQ_PARAM *param)
{
	CANCEL_FORBIDDEN;
	struct srq *srq = handle;
	struct ia *ia;

	(void)mask; /* all members are filled in */
	if (!obj_valid(NULL, handle, DAT_HANDLE_TYPE_SRQ))
		return BAD_HANDLE(SRQ);
	if (!param)
		return BAD_ARG(3);
	if (!obj_lock_ia(NULL, handle, DAT_HANDLE_TYPE_SRQ))
		return BAD_HANDLE(SRQ);
	ia = srq->obj.ia;
	*param = (DAT_SRQ_PARAM){
		.ia_handle = attr_ia_handle(ia),
		.srq_state = (DAT_SRQ_STATE)atomic_load(&srq->state),
		.pz_handle = srq->pz,
		.max_recv_dtos = (DAT_COUNT)srq->pool.slots,
		.max_recv_iov = (DAT_COUNT)srq->max_segments,
		.low_watermark = srq->low_watermark,
		.available_dto_count = DAT_VALUE_UNKNOWN, /* the device does not tell */
		.outstanding_dto_count = (DAT_COUNT)outstanding(srq),
	};
	mutex_unlock(&ia->lock);
	return DAT_SUCCESS;
}

/* The opposite of srq_lock. From there on another thread may destroy the queue. */
static void srq_unlock(struct srq *srq)
{
	struct ia *ia = srq->obj.ia;

	assert_locked(&ia->lock);
	mutex_unlock(&srq->depth_lock);
	if (--srq->callers == 0)
		pthread_cond_broadcast(&ia->waiter_left);
	ia_unkeep_locked(ia);
	mutex_unlock(&ia->lock);
}

/*
 * Takes depth_lock, and the lock of the IA, of a handle that is one of @ia unless that is NULL. It
 * waits for depth_lock without the other: who has it may be in the device. Meanwhile no close
 * destroys the queue, and dat_srq_free waits, but the handle may be refused then. Returns whether
 * it has the locks.
 */
static bool srq_lock(struct ia *ia, DAT_SRQ_HANDLE handle)
{
	struct srq *srq = handle;

	if (!obj_lock_ia(ia, handle, DAT_HANDLE_TYPE_SRQ))
		return false;
	ia = srq->obj.ia;
	if (!ia_keep_locked(ia)) {
		mutex_unlock(&ia->lock);
		return false;
	}
	srq->callers++;
	mutex_unlock(&ia->lock);
	mutex_lock(&srq->depth_lock);
	mutex_lock(&ia->lock);
	if (obj_valid(ia, handle, DAT_HANDLE_TYPE_SRQ))
		return true;
	srq_unlock(srq);
	return false;
}

/* Has the device make room, without ia->lock meanwhile. It may have more than there are slots. */
static DAT_RETURN device_resize_relock(struct srq *srq, unsigned to)
{
	struct ia *ia = srq->obj.ia;
	int err;

	assert_locked(&ia->lock);
	assert_locked(&srq->depth_lock);
	if (to <= srq->depth)
		return DAT_SUCCESS;
	mutex_unlock(&ia->lock);
	err = tp_srq_resize(srq->tp, to);
	if (!err)
		srq->depth = to;
	mutex_lock(&ia->lock);
	return err == -EOPNOTSUPP ? NO_RESOURCE(SRQ) : status_of_made(err, DAT_RESOURCE_SRQ);
}

/*
 * Until the slots are there nobody posts more than before. The EVDs come after the device, because
 * more of them may be attached meanwhile. What the device has made stays if they have no room.
 */
static DAT_RETURN grow_relock(struct srq *srq, unsigned to)
{
	struct srq_slots *slots = slots_new(srq, to - srq->pool.slots);
	DAT_RETURN ret;

	assert_locked(&srq->obj.ia->lock);
	if (!slots)
		return NO_RESOURCE(MEMORY);
	ret = device_resize_relock(srq, to);
	if (ret == DAT_SUCCESS)
		ret = evd_grow_pool_relock(srq->obj.ia, &srq->pool, to);
	if (ret != DAT_SUCCESS) {
		free(slots);
		return ret;
	}
	slots_add(srq, slots);
	srq->pool.slots = to;
	return DAT_SUCCESS;
}

/* A queue does not become shorter: who asks for less may have more. */
static DAT_RETURN resize_relock(struct srq *srq, DAT_COUNT to)
{
	assert_locked(&srq->obj.ia->lock);
	if ((unsigned)to < outstanding(srq) || to < srq->low_watermark)
		return DAT_ERROR(DAT_INVALID_STATE, DAT_NO_SUBTYPE);
	if ((unsigned)to <= srq->pool.slots)
		return DAT_SUCCESS;
	return grow_relock(srq, (unsigned)to);
}

DAT_RETURN srq_resize(DAT_SRQ_HANDLE handle, DAT_COUNT max_recv_dtos)
{
	CANCEL_FORBIDDEN;
	struct srq *srq = handle;
	struct ia *ia;
	DAT_RETURN ret;

	if (!obj_valid(NULL, handle, DAT_HANDLE_TYPE_SRQ))
		return BAD_HANDLE(SRQ);
	ia = srq->obj.ia;
	if (max_recv_dtos <= 0 || max_recv_dtos > attr_max_srq_dtos(ia))
		return BAD_ARG(2);
	if (!srq_lock(ia, handle))
		return BAD_HANDLE(SRQ);
	ret = resize_relock(srq, max_recv_dtos);
	srq_unlock(srq);
	return ret;
}

/* ---- the low watermark ---- */

static void report_locked(struct srq *srq, DAT_COUNT reason)
{
	assert_locked(&srq->obj.ia->lock);
	async_error_post_locked(srq->obj.ia, DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR, srq, reason);
}

static void watermark_reached_locked(struct srq *srq)
{
	assert_locked(&srq->obj.ia->lock);
	if (srq->watched)
		report_locked(srq, DAT_SRQ_LOW_WATERMARK_EVENT);
	srq->watched = false;
}

/*
 * Counts the receives that have not completed. Events of others may be taken meanwhile, which
 * changes two counts, one after the other: then it counts again.
 */
static unsigned uncompleted_locked(struct srq *srq)
{
	struct recv_pool *pool = &srq->pool;

	assert_locked(&srq->obj.ia->lock);
	for (;;) {
		const unsigned ended = atomic_load(&pool->takes_ended);
		const unsigned completed = atomic_load(&pool->queued);
		unsigned n;

		race_reach(RACE_COUNT, srq);
		n = outstanding(srq) - completed;
		if (atomic_load(&pool->takes_begun) == ended)
			return n;
		for (struct pool_share *share = pool->shares; share; share = share->next_of_pool)
			(void)evd_is_enabled(
				share->evd); /* waits for who takes one: it has the lock */
	}
}

/*
 * Says whether there are fewer receives on the queue than @watermark. Completions that are there
 * already are taken first, and counted.
 */
static bool is_below_locked(struct srq *srq, unsigned watermark)
{
	assert_locked(&srq->obj.ia->lock);
	for (struct pool_share *share = srq->pool.shares; share; share = share->next_of_pool)
		(void)evd_drain(share->evd);
	return uncompleted_locked(srq) < watermark;
}

/*
 * The device looks only when a receive is taken. So after it is armed the core looks whether there
 * are too few already. If the device has seen that, too, its upcall comes too late to be reported.
 */
static DAT_RETURN watch_locked(struct srq *srq, DAT_COUNT watermark)
{
	int err;

	assert_locked(&srq->obj.ia->lock);
	assert_locked(&srq->depth_lock);
	err = tp_srq_arm(srq->tp, (unsigned)watermark);
	if (err)
		return status_of(err, DAT_RESOURCE_SRQ);
	srq->low_watermark = watermark;
	srq->watched = watermark != DAT_SRQ_LW_DEFAULT;
	if (srq->watched && is_below_locked(srq, (unsigned)watermark)) {
		(void)tp_srq_arm(srq->tp, 0);
		watermark_reached_locked(srq);
	}
	return DAT_SUCCESS;
}

DAT_RETURN srq_set_lw(DAT_SRQ_HANDLE handle, DAT_COUNT low_watermark)
{
	CANCEL_FORBIDDEN;
	struct srq *srq = handle;
	DAT_RETURN ret = BAD_ARG(2);

	if (!srq_lock(NULL, handle))
		return BAD_HANDLE(SRQ);
	if (low_watermark >= 0 && (unsigned)low_watermark <= srq->pool.slots)
		ret = watch_locked(srq, low_watermark);
	srq_unlock(srq);
	return ret;
}

/* ---- upcalls of the transport ---- */

void up_srq_limit(struct srq *srq)
{
	watermark_reached_locked(srq);
}

void up_srq_broken(struct srq *srq)
{
	srq_set_state_locked(srq, DAT_SRQ_STATE_ERROR);
	report_locked(srq, DAT_SRQ_TRANSFER_TO_ERROR);
}
