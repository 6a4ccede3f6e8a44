/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Interface adapters: open, close, query; what a handle of any kind can be asked; asynchronous
 * errors.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include "udapl.h"

/*
 * An IA may send its asynchronous events to the EVD of another. The lender may close abruptly at
 * any time, on a thread that knows nothing of the borrower: so one lock for all guards who borrows
 * what, and is held while an event goes there. It is taken after an ia->lock and before all
 * spinlocks.
 */
static struct mutex lending = MUTEX_INITIALIZER(RANK_ASYNC_LOAN, "lending");
static struct ia *borrowers; /* lending, as are their ->borrowed and ->next_borrower */

static DAT_RETURN borrow(struct ia *ia, DAT_EVD_HANDLE handle)
{
	struct evd *evd = handle;
	DAT_RETURN ret = BAD_HANDLE(EVD_ASYNC);

	mutex_lock(&lending);
	if (!obj_hold(NULL, handle, DAT_HANDLE_TYPE_EVD))
		goto unlock;
	if (!(evd->flags & DAT_EVD_ASYNC_FLAG)) {
		obj_put(&evd->obj);
		goto unlock;
	}
	ia->borrowed = evd;
	ia->next_borrower = borrowers;
	borrowers = ia;
	ret = DAT_SUCCESS;
unlock:
	mutex_unlock(&lending);
	return ret;
}

static void give_back(struct ia *ia)
{
	struct ia **at = &borrowers;

	mutex_lock(&lending);
	if (ia->borrowed) {
		while (*at != ia)
			at = &(*at)->next_borrower;
		*at = ia->next_borrower;
		obj_put(&ia->borrowed->obj);
		ia->borrowed = NULL;
	}
	mutex_unlock(&lending);
}

/* @evd is retired already, so nobody borrows it anew. Who has it is without one from here on. */
static void call_in(const struct evd *evd)
{
	struct ia **at = &borrowers;

	mutex_lock(&lending);
	while (*at) {
		struct ia *ia = *at;

		if (ia->borrowed == evd) {
			*at = ia->next_borrower;
			obj_put(&ia->borrowed->obj);
			ia->borrowed = NULL;
		} else {
			at = &ia->next_borrower;
		}
	}
	mutex_unlock(&lending);
}

static bool lends(const struct ia *lender)
{
	const struct ia *ia;

	mutex_lock(&lending);
	ia = borrowers;
	while (ia && ia->borrowed->obj.ia != lender)
		ia = ia->next_borrower;
	mutex_unlock(&lending);
	return ia != NULL;
}

/* ---- open ---- */

/* Only our own registry can say so, and only during the open: a foreign one lacks the symbol. */
static bool opened_ro_aware(void)
{
	int (*ro_aware)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "datx_ia_open_ro_aware");

	return ro_aware && ro_aware();
}

static struct ia *ia_alloc(struct provider *provider, bool thread_safe)
{
	struct ia *ia = obj_alloc(NULL, &provider->table, DAT_HANDLE_TYPE_IA);

	if (!ia)
		return NULL;
	ia->provider = provider;
	ia->thread_safe = thread_safe;
	ia->ro_aware = opened_ro_aware();
	mutex_init(&ia->lock, RANK_IA);
	pthread_cond_init(&ia->left, NULL);
	mutex_init(&ia->sweeping, RANK_RELEASE_RUN);
	spin_init(&ia->lmr_lock, RANK_LMR_TABLE);
	ia->leftovers_end = &ia->leftovers;
	return ia;
}

static void ia_discard(struct ia *ia)
{
	mutex_destroy(&ia->sweeping);
	pthread_cond_destroy(&ia->left);
	mutex_destroy(&ia->lock);
	obj_discard(&ia->obj);
}

/* The transport, which knows why, has logged it. */
static DAT_RETURN device_start(struct ia *ia, const char *params)
{
	int err;

	if (tp_dev_open(params, ia, &ia->dev) != 0)
		return NO_RESOURCE(DEVICE);
	ia->attr = tp_dev_attr(ia->dev);
	err = service_start(ia);
	if (err) {
		errno = -err;
		log_error("%s: no service thread: %m", ia->provider->info.ia_name);
		goto close_dev;
	}
	return DAT_SUCCESS;
close_dev:
	tp_dev_close(ia->dev);
	return NO_RESOURCE(ERROR_HANDLER);
}

static void device_stop(struct ia *ia)
{
	service_stop(ia);
	tp_dev_close(ia->dev);
}

/* The EVD that open makes; one that others have or made is not ours to make. */
static DAT_RETURN async_make(struct ia *ia, DAT_COUNT qlen)
{
	DAT_RETURN ret;

	if (qlen > evd_max_qlen(ia))
		return NO_RESOURCE(TEVD);
	mutex_lock(&ia->lock);
	ret = evd_make(ia, qlen, NULL, DAT_EVD_ASYNC_FLAG, &ia->async_evd);
	if (ret == DAT_SUCCESS)
		obj_publish(&ia->async_evd->obj);
	mutex_unlock(&ia->lock);
	return ret;
}

static DAT_EVD_HANDLE async_handle(struct ia *ia)
{
	DAT_EVD_HANDLE handle = ia->async_evd;

	mutex_lock(&lending);
	if (!handle)
		handle = ia->borrowed ? (DAT_EVD_HANDLE)ia->borrowed : DAT_EVD_OUT_OF_SCOPE;
	mutex_unlock(&lending);
	return handle;
}

/*
 * @async is what the consumer gave: nothing, another's EVD, or the word that somebody else watches.
 */
static DAT_RETURN ia_build(struct provider *provider, const char *params, bool thread_safe,
			   DAT_COUNT qlen, DAT_EVD_HANDLE async, struct ia **out)
{
	struct ia *ia = ia_alloc(provider, thread_safe);
	DAT_RETURN ret = DAT_SUCCESS;

	if (!ia)
		return NO_RESOURCE(MEMORY);
	if (async != DAT_HANDLE_NULL && async != DAT_EVD_ASYNC_EXISTS)
		ret = borrow(ia, async);
	if (ret != DAT_SUCCESS)
		goto discard_ia;
	ret = device_start(ia, params);
	if (ret != DAT_SUCCESS)
		goto give_back;
	if (async == DAT_HANDLE_NULL)
		ret = async_make(ia, qlen);
	if (ret != DAT_SUCCESS)
		goto stop_device;
	*out = ia;
	return DAT_SUCCESS;
stop_device:
	device_stop(ia);
give_back:
	give_back(ia);
discard_ia:
	ia_discard(ia);
	return ret;
}

static DAT_RETURN open_as(bool thread_safe, const DAT_NAME_PTR name, DAT_COUNT qlen,
			  DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia_out)
{
	struct provider *provider;
	struct ia *ia = NULL;
	DAT_RETURN ret;
	char *params;

	if (ia_out)
		*ia_out = DAT_HANDLE_NULL;
	if (!name)
		return BAD_ARG(1);
	if (!async_evd)
		return BAD_ARG(3);
	if (!ia_out)
		return BAD_ARG(4);
	if (*async_evd == DAT_HANDLE_NULL && qlen <= 0)
		return BAD_ARG(2);
	ret = provider_find(name, thread_safe, &provider, &params);
	if (ret != DAT_SUCCESS)
		return ret;
	ret = ia_build(provider, params, thread_safe, qlen, *async_evd, &ia);
	free(params);
	if (ret != DAT_SUCCESS)
		return ret;
	*async_evd = async_handle(ia);
	*ia_out = obj_publish(&ia->obj);
	return DAT_SUCCESS;
}

DAT_RETURN ia_open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd,
		   DAT_IA_HANDLE *ia_out)
{
	return open_as(false, name, qlen, async_evd, ia_out);
}

DAT_RETURN ia_open_threadsafe(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd,
			      DAT_IA_HANDLE *ia_out)
{
	return open_as(true, name, qlen, async_evd, ia_out);
}

/* ---- close ---- */

static void end_sp(struct obj *obj)
{
	sp_unmake(container_of(obj, struct sp, obj));
}

static void end_cr(struct obj *obj)
{
	cr_unmake(container_of(obj, struct cr, obj), false);
}

static void end_rmr(struct obj *obj)
{
	rmr_unmake(container_of(obj, struct rmr, obj));
}

static void end_ep(struct obj *obj)
{
	ep_unmake(container_of(obj, struct ep, obj));
}

static void end_lmr(struct obj *obj)
{
	lmr_unmake(container_of(obj, struct lmr, obj));
}

static void end_pz(struct obj *obj)
{
	pz_unmake(container_of(obj, struct pz, obj));
}

static void end_evd(struct obj *obj)
{
	struct evd *evd = container_of(obj, struct evd, obj);

	call_in(evd);
	evd_kill(evd);
	evd_unmake(evd);
}

static void end_cno(struct obj *obj)
{
	struct cno *cno = container_of(obj, struct cno, obj);

	mutex_lock(&obj->ia->lock);
	cno_kill(cno);
	mutex_unlock(&obj->ia->lock);
	cno_unmake(cno);
}

/*
 * In this order each object goes before what it uses. The asynchronous EVD goes with the other
 * EVDs: the consumer may have given it a CNO.
 */
static const struct {
	DAT_HANDLE_TYPE kind;
	bool locked; /* ended with ia->lock held */
	void (*end)(struct obj *obj);
} ends[] = {
	{ DAT_HANDLE_TYPE_PSP, true, end_sp }, /* no new requests from here on */
	{ DAT_HANDLE_TYPE_CR, true, end_cr },	 { DAT_HANDLE_TYPE_RMR, false, end_rmr },
	{ DAT_HANDLE_TYPE_EP, false, end_ep },	 { DAT_HANDLE_TYPE_LMR, false, end_lmr },
	{ DAT_HANDLE_TYPE_PZ, false, end_pz },	 { DAT_HANDLE_TYPE_EVD, true, end_evd },
	{ DAT_HANDLE_TYPE_CNO, false, end_cno },
};

/* Retired first: whoever comes with its handle is refused. */
static void end_all(struct ia *ia, DAT_HANDLE_TYPE kind, bool locked, void (*end)(struct obj *obj))
{
	struct obj *obj = NULL;

	mutex_lock(&ia->lock);
	while ((obj = obj_next(ia, kind, obj))) {
		obj_retire_anyway(obj);
		if (!locked)
			mutex_unlock(&ia->lock);
		end(obj);
		if (!locked)
			mutex_lock(&ia->lock);
	}
	mutex_unlock(&ia->lock);
}

/* Is there anything but what open made? */
static bool has_objects(struct ia *ia)
{
	unsigned count = 0;

	for (unsigned kind = 0; kind < OBJ_KINDS; kind++)
		count += obj_count(ia, (DAT_HANDLE_TYPE)kind);
	return count > (ia->async_evd ? 1 : 0);
}

static void ia_unmake(struct ia *ia)
{
	for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		end_all(ia, ends[i].kind, ends[i].locked, ends[i].end);
	mutex_lock(&ia->lock);
	if (ia->sink)
		evd_unmake(ia->sink);
	mutex_unlock(&ia->lock);
	device_stop(ia);
	give_back(ia);
	ia_discard(ia);
}

DAT_RETURN ia_close(DAT_IA_HANDLE handle, DAT_CLOSE_FLAGS flags)
{
	struct ia *ia = handle;
	bool busy;

	if (!obj_valid(NULL, handle, DAT_HANDLE_TYPE_IA))
		return BAD_HANDLE(IA);
	if (flags != DAT_CLOSE_ABRUPT_FLAG && flags != DAT_CLOSE_GRACEFUL_FLAG)
		return BAD_ARG(2);
	mutex_lock(&ia->lock);
	busy = flags == DAT_CLOSE_GRACEFUL_FLAG && (has_objects(ia) || lends(ia));
	if (!busy)
		obj_retire_anyway(&ia->obj);
	mutex_unlock(&ia->lock);
	if (busy)
		return BAD_STATE(IA_IN_USE);
	ia_unmake(ia);
	return DAT_SUCCESS;
}

/* ---- query, and what any handle can be asked ---- */

DAT_RETURN ia_query(DAT_IA_HANDLE handle, DAT_EVD_HANDLE *async_evd, DAT_IA_ATTR_MASK ia_mask,
		    DAT_IA_ATTR *ia_attr, DAT_PROVIDER_ATTR_MASK provider_mask,
		    DAT_PROVIDER_ATTR *provider_attr)
{
	struct ia *ia = handle;

	if (!obj_valid(NULL, handle, DAT_HANDLE_TYPE_IA))
		return BAD_HANDLE(IA);
	if (ia_mask && !ia_attr)
		return BAD_ARG(4);
	if (provider_mask && !provider_attr)
		return BAD_ARG(6);
	if (ia_mask & ~DAT_IA_FIELD_ALL)
		return BAD_ARG(3);
	if (provider_mask & ~DAT_PROVIDER_FIELD_ALL)
		return BAD_ARG(5);
	if (async_evd)
		*async_evd = async_handle(ia);
	if (ia_mask)
		attr_ia(ia, ia_attr);
	if (provider_mask)
		attr_provider(ia, provider_attr);
	return DAT_SUCCESS;
}

DAT_RETURN context_set(DAT_HANDLE handle, DAT_CONTEXT context)
{
	struct obj *obj = obj_any(handle);

	if (!obj)
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
	obj->context = context;
	return DAT_SUCCESS;
}

DAT_RETURN context_get(DAT_HANDLE handle, DAT_CONTEXT *context)
{
	struct obj *obj = obj_any(handle);

	if (!obj)
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
	if (!context)
		return BAD_ARG(2);
	*context = obj->context;
	return DAT_SUCCESS;
}

DAT_RETURN handle_type(DAT_HANDLE handle, DAT_HANDLE_TYPE *type)
{
	struct obj *obj = obj_any(handle);

	if (!obj)
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
	if (!type)
		return BAD_ARG(2);
	*type = (DAT_HANDLE_TYPE)(atomic_load_explicit(&obj->tag, memory_order_relaxed) -
				  OBJ_TAG(0));
	return DAT_SUCCESS;
}

/* ---- asynchronous errors ---- */

/*
 * To the EVD of open, to every other one made with the ASYNC flag, and to the borrowed one. Full
 * ones report that.
 */
void ia_async_event(struct ia *ia, DAT_EVENT_NUMBER number, DAT_HANDLE handle, DAT_COUNT reason)
{
	DAT_EVENT event = { .event_number = number };
	struct obj *obj;

	event.event_data.asynch_error_event_data.dat_handle = handle;
	event.event_data.asynch_error_event_data.reason = reason;
	for (obj = obj_next(ia, DAT_HANDLE_TYPE_EVD, NULL); obj;
	     obj = obj_next(ia, DAT_HANDLE_TYPE_EVD, obj)) {
		struct evd *evd = container_of(obj, struct evd, obj);

		if (evd->flags & DAT_EVD_ASYNC_FLAG)
			(void)evd_post_bounded(evd, &event);
	}
	mutex_lock(&lending);
	if (ia->borrowed)
		(void)evd_post_bounded(ia->borrowed, &event);
	mutex_unlock(&lending);
}

/*
 * Completions are lost, so no endpoint that uses it can be trusted any more. The sink is nobody's
 * to know about.
 */
void up_cq_overrun(struct evd *evd)
{
	struct ia *ia = evd->obj.ia;
	struct obj *obj;

	if (!evd->is_sink)
		ia_async_event(ia, DAT_ASYNC_ERROR_EVD_OVERFLOW, evd, DAT_EVD_OVERFLOW_ERROR);
	for (obj = obj_next(ia, DAT_HANDLE_TYPE_EP, NULL); obj;
	     obj = obj_next(ia, DAT_HANDLE_TYPE_EP, obj)) {
		struct ep *ep = container_of(obj, struct ep, obj);

		if (ep->recv_evd == evd || ep->request_evd == evd)
			up_qp_broken(ep);
	}
}

void up_port_down(struct ia *ia)
{
	ia_async_event(ia, DAT_ASYNC_ERROR_IA_CATASTROPHIC, ia, DAT_IA_OTHER_ERROR);
}

void up_dev_fatal(struct ia *ia)
{
	struct obj *obj;

	ia_async_event(ia, DAT_ASYNC_ERROR_IA_CATASTROPHIC, ia, DAT_IA_CATASTROPHIC_ERROR);
	for (obj = obj_next(ia, DAT_HANDLE_TYPE_EP, NULL); obj;
	     obj = obj_next(ia, DAT_HANDLE_TYPE_EP, obj))
		ep_break(container_of(obj, struct ep, obj));
}

#ifdef UDAPL_DEBUG
void up_assert_locked_in(struct ia *ia, const char *function)
{
	lock_check_held(&ia->lock.id, function);
}
#endif
