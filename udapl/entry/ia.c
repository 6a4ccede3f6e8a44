/* SPDX-License-Identifier: BSD-2-Clause */
/* Interface adapters: open, close, query; and what a handle of any kind can be asked. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/race.h"
#include "base/refuse.h"
#include "base/registry.h"
#include "kinds.h"

/* ---- open ---- */

/*
 * Says whether the IA is opened under an RO_AWARE_ name: the registry answers during dat_ia_open.
 */
static bool opened_ro_aware(void)
{
	const struct registry_calls *registry = registry_known();

	return registry->ro_aware && registry->ro_aware();
}

static struct ia *ia_alloc(struct provider *provider, bool thread_safe)
{
	struct ia *ia;

	fork_watch();
	ia = obj_alloc(NULL, provider->table, DAT_HANDLE_TYPE_IA);
	if (!ia)
		return NULL;
	ia->lmrs = lmr_table_new();
	if (!ia->lmrs) {
		obj_free(&ia->obj);
		return NULL;
	}
	ia->provider = provider;
	ia->thread_safe = thread_safe;
	ia->ro_aware = opened_ro_aware();
	ia->prints_counters = counters_wanted_at_close();
	mutex_init(&ia->lock, RANK_IA);
	pthread_cond_init(&ia->waiter_left, NULL);
	spin_init(&ia->lmr_lock, RANK_LMR_TABLE);
#if DAT_EDITION == 2
	spin_init(&ia->ep_windows_lock, RANK_EP_WINDOWS);
#endif
	release_queue_init(&ia->releases);
	wakefds_init(&ia->wakefds);
	return ia;
}

static void ia_free(struct ia *ia)
{
	wakefds_destroy(&ia->wakefds);
	release_queue_destroy(&ia->releases);
	pthread_cond_destroy(&ia->waiter_left);
	/* not the lock: a call may have found a handle valid just before, and take it next */
	lmr_table_destroy(ia->lmrs);
	obj_free(&ia->obj);
}

/*
 * Says whether descriptors have run out, because not every library below does: then no device is
 * found, or librdmacm is not there. None needs as many as this to open a device.
 */
#define OPEN_DESCRIPTORS 16

static bool descriptors_are_short(const struct ia *ia)
{
	int fds[OPEN_DESCRIPTORS];
	unsigned n = 0;
	bool enough;

	while (n < OPEN_DESCRIPTORS &&
	       (fds[n] = fcntl(ia->service.wakefd, F_DUPFD_CLOEXEC, 0)) >= 0)
		n++;
	enough = n == OPEN_DESCRIPTORS;
	while (n)
		close(fds[--n]);
	return !enough;
}

/* Opens the device. If it can't be opened the transport has logged why. */
static DAT_RETURN device_open(struct ia *ia, const char *params)
{
	int err = tp_dev_open(params, ia, &ia->dev);

	if (err && descriptors_are_short(ia))
		err = -EMFILE;
	if (err) {
		if (!log_descriptor_shortage(ia->provider->info.ia_name, err))
			log_absence_hint(ia->provider->info.ia_name);
		switch (err) {
		case -ENOENT:
			return DAT_ERROR(DAT_INVALID_ADDRESS, DAT_NO_SUBTYPE);
		case -EOPNOTSUPP:
			return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
		default:
			return NO_RESOURCE(DEVICE);
		}
	}
	ia->attr = tp_dev_attr(ia->dev);
	if (ia->ro_aware || !(ia->attr->caps & TP_CAP_RELAXED_ONLY))
		return DAT_SUCCESS;
	log_error("%s: RDMA writes may be seen out of order here; a program that can take that "
		  "opens " DAT_RO_AWARE_PREFIX "%s",
		  ia->provider->info.ia_name, ia->provider->info.ia_name);
	tp_dev_close(ia->dev);
	return DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_RO_COOKIE);
}

static DAT_RETURN service_failed(const struct ia *ia, int err)
{
	errno = -err;
	if (!log_descriptor_shortage(ia->provider->info.ia_name, err))
		log_error("%s: starting the service thread: %m", ia->provider->info.ia_name);
	return NO_RESOURCE(ERROR_HANDLER);
}

static DAT_RETURN device_start(struct ia *ia, const char *params)
{
	int err = service_open(ia);
	DAT_RETURN ret;

	if (err)
		return service_failed(ia, err);
	ret = device_open(ia, params);
	if (ret != DAT_SUCCESS)
		goto close_service;
	err = service_start(ia);
	if (err) {
		ret = service_failed(ia, err);
		goto close_dev;
	}
	return DAT_SUCCESS;
close_dev:
	tp_dev_close(ia->dev);
close_service:
	service_close(ia);
	return ret;
}

static void device_stop(struct ia *ia)
{
	attend_close(ia);
	service_stop(ia);
	tp_dev_close(ia->dev); /* its threads may call up_wake until then */
	service_close(ia);
}

/* Creates the asynchronous EVD for a consumer that passed none. */
static DAT_RETURN async_evd_new(struct ia *ia, DAT_COUNT qlen)
{
	DAT_RETURN ret;

	if (qlen > attr_max_evd_qlen(ia))
		return NO_RESOURCE(TEVD);
	mutex_lock(&ia->lock);
	ret = evd_new_locked(ia, qlen, NULL, DAT_EVD_ASYNC_FLAG, &ia->async_evd);
	if (ret == DAT_SUCCESS) {
		ia_counts(ia, IA_EVD_CREATE);
		obj_publish(&ia->async_evd->obj);
	}
	mutex_unlock(&ia->lock);
	return ret;
}

/*
 * Makes an IA, in all but publishing it. @async is DAT_HANDLE_NULL, the EVD of another IA, or
 * DAT_EVD_ASYNC_EXISTS.
 */
static DAT_RETURN ia_new(struct provider *provider, const char *params, bool thread_safe,
			 DAT_COUNT qlen, DAT_EVD_HANDLE async, struct ia **out)
{
	struct ia *ia = ia_alloc(provider, thread_safe);
	DAT_RETURN ret = DAT_SUCCESS;

	if (!ia)
		return NO_RESOURCE(MEMORY);
	if (async != DAT_HANDLE_NULL && async != DAT_EVD_ASYNC_EXISTS)
		ret = async_evd_borrow(ia, async);
	if (ret != DAT_SUCCESS)
		goto free_ia;
	ret = device_start(ia, params);
	if (ret != DAT_SUCCESS)
		goto return_evd;
	if (attr_own_open(ia))
		ret = NO_RESOURCE(MEMORY);
	if (ret == DAT_SUCCESS && async == DAT_HANDLE_NULL)
		ret = async_evd_new(ia, qlen);
	if (ret != DAT_SUCCESS)
		goto stop_device;
	*out = ia;
	return DAT_SUCCESS;
stop_device:
	attr_own_close(ia);
	device_stop(ia);
return_evd:
	async_evd_return(ia);
free_ia:
	ia_free(ia);
	return ret;
}

static DAT_RETURN ia_open_as(bool thread_safe, const DAT_NAME_PTR name, DAT_COUNT qlen,
			     DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia_out)
{
	CANCEL_FORBIDDEN;
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
	ret = ia_new(provider, params, thread_safe, qlen, *async_evd, &ia);
	free(params);
	if (ret != DAT_SUCCESS)
		return ret;
	*async_evd = async_evd_handle(ia);
	*ia_out = obj_publish(&ia->obj);
	return DAT_SUCCESS;
}

static DAT_RETURN ia_open_logged(bool thread_safe, const DAT_NAME_PTR name, DAT_COUNT qlen,
				 DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia_out)
{
	DAT_RETURN ret = ia_open_as(thread_safe, name, qlen, async_evd, ia_out);

	if (ret == DAT_SUCCESS)
		return ret;
	return refused(ret, LOG_UTIL, "dat_ia_open",
		       "name \"%s\", async_evd_qlen %d, async_evd %p, ia %p", name ? name : "",
		       qlen, async_evd ? *async_evd : NULL, (void *)ia_out);
}

DAT_RETURN ia_open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd,
		   DAT_IA_HANDLE *ia_out)
{
	return ia_open_logged(false, name, qlen, async_evd, ia_out);
}

DAT_RETURN ia_open_threadsafe(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd,
			      DAT_IA_HANDLE *ia_out)
{
	return ia_open_logged(true, name, qlen, async_evd, ia_out);
}

#if DAT_EDITION == 2
DAT_RETURN ia_open_query(const char *name, struct ia **ia)
{
	struct provider *provider;
	DAT_RETURN ret;
	char *params;

	ret = provider_find(name, false, &provider, &params);
	if (DAT_GET_TYPE(ret) == DAT_PROVIDER_NOT_FOUND)
		ret = provider_find(name, true, &provider, &params);
	if (ret != DAT_SUCCESS)
		return ret;
	ret = ia_new(provider, params, false, 0, DAT_EVD_ASYNC_EXISTS, ia);
	free(params);
	if (ret != DAT_SUCCESS)
		return ret;
	(*ia)->query_only = true;
	obj_publish(&(*ia)->obj);
	return DAT_SUCCESS;
}
#endif

/* ---- close ---- */

/*
 * Destroys all objects of one kind. Each is retired first, so that calls with its handle are
 * refused. Those that another thread is freeing may use objects of the kinds that follow.
 */
static void close_all(struct ia *ia, const struct close_step *step)
{
	struct obj *obj = NULL;

	mutex_lock(&ia->lock);
	while ((obj = obj_next(ia, step->kind, obj))) {
		obj_retire_forced(obj);
		if (!step->locked)
			mutex_unlock(&ia->lock);
		step->close(obj);
		if (!step->locked)
			mutex_lock(&ia->lock);
	}
	ia_wait_unkept_relock(ia);
	mutex_unlock(&ia->lock);
}

/*
 * Says whether there are objects other than those that ia_open made, and RSPs whose request has
 * arrived: by the standard the latter exist no more.
 */
static bool has_objects_locked(struct ia *ia)
{
	unsigned count = 0, ignored = ia->async_evd ? 1 : 0;
	struct obj *obj = NULL;

	assert_locked(&ia->lock);
	for (unsigned kind = 0; kind < OBJ_KINDS; kind++)
		count += obj_count(ia, (DAT_HANDLE_TYPE)kind);
	while ((obj = obj_next(ia, DAT_HANDLE_TYPE_RSP, obj)))
		ignored += !container_of(obj, struct sp, obj)->listener;
	return count > ignored;
}

/* Of an IA that has no objects any more, so that the sums have all. */
static void ia_print_counters(struct ia *ia)
{
	const char *name = ia->provider->info.ia_name;

	counters_print(&ia_counters, name, ia->counters);
	counters_print(&ep_counters, name, ia->ep_sums);
	counters_print(&evd_counters, name, ia->evd_sums);
}

static void ia_destroy(struct ia *ia)
{
	for (const struct close_step *step = close_steps; step->close; step++)
		close_all(ia, step);
	mutex_lock(&ia->lock);
	while (ia->cno_freers) /* no wait is left for which their agents could wait */
		cond_wait_relock(&ia->waiter_left, &ia->lock);
	if (ia->sink)
		evd_destroy_locked(ia->sink);
	mutex_unlock(&ia->lock);
	if (ia->prints_counters)
		ia_print_counters(ia);
	attr_own_close(ia);
	device_stop(ia);
	async_evd_return(ia);
	ia_free(ia);
}

DAT_RETURN ia_close(DAT_IA_HANDLE handle, DAT_CLOSE_FLAGS flags)
{
	CANCEL_FORBIDDEN;
	struct ia *ia = handle;
	bool busy;

	if (!obj_valid(NULL, handle, DAT_HANDLE_TYPE_IA))
		return BAD_HANDLE(IA);
	if (flags != DAT_CLOSE_ABRUPT_FLAG && flags != DAT_CLOSE_GRACEFUL_FLAG)
		return BAD_ARG(2);
	mutex_lock(&ia->lock);
	busy = flags == DAT_CLOSE_GRACEFUL_FLAG &&
	       (ia->keepers || ia->cno_freers || has_objects_locked(ia) || async_evd_is_lent(ia));
	if (!busy)
		obj_retire_forced(&ia->obj);
	if (!busy)
		ia_wait_unkept_relock(ia);
	mutex_unlock(&ia->lock);
	if (busy)
		return BAD_STATE(IA_IN_USE);
	race_reach(RACE_CLOSE, ia);
	ia_destroy(ia);
	return DAT_SUCCESS;
}

/* ---- query, and what any handle can be asked ---- */

DAT_RETURN ia_query(DAT_IA_HANDLE handle, DAT_EVD_HANDLE *async_evd, DAT_IA_ATTR_MASK ia_mask,
		    DAT_IA_ATTR *ia_attr, DAT_PROVIDER_ATTR_MASK provider_mask,
		    DAT_PROVIDER_ATTR *provider_attr)
{
	CANCEL_FORBIDDEN;
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
		*async_evd = async_evd_handle(ia);
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
