/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asynchronous errors: of the device, of completion queues, of endpoints; and the EVDs that take
 * them, which an IA may borrow from another one.
 */
#include "event.h"

/* ---- borrowed EVDs ---- */

/*
 * The owner of a borrowed EVD may be closed abruptly at any time, by a thread that knows nothing of
 * the borrower. So one lock for all IAs guards who borrows what, and is held while an event is
 * posted there.
 */
static struct mutex loan_lock = MUTEX_INITIALIZER(RANK_ASYNC_LOAN, "loan_lock");
static struct ia *borrowers; /* loan_lock */

void async_evds_after_fork(void)
{
	mutex_after_fork(&loan_lock);
	borrowers = NULL;
}

DAT_RETURN async_evd_borrow(struct ia *ia, DAT_EVD_HANDLE handle)
{
	struct evd *evd = handle;
	DAT_RETURN ret = BAD_HANDLE(EVD_ASYNC);

	mutex_lock(&loan_lock);
	if (!obj_hold(NULL, handle, DAT_HANDLE_TYPE_EVD))
		goto unlock;
	if (!(evd->flags & DAT_EVD_ASYNC_FLAG)) {
		obj_put(&evd->obj);
		goto unlock;
	}
	ia->borrowed_evd = evd;
	ia->next_borrower = borrowers;
	borrowers = ia;
	ret = DAT_SUCCESS;
unlock:
	mutex_unlock(&loan_lock);
	return ret;
}

/* Ends the loan of the borrower to which @at leads in the list. */
static void return_evd_locked(struct ia **at)
{
	struct ia *ia = *at;

	assert_locked(&loan_lock);
	*at = ia->next_borrower;
	obj_put(&ia->borrowed_evd->obj);
	ia->borrowed_evd = NULL;
}

void async_evd_return(struct ia *ia)
{
	struct ia **at = &borrowers;

	mutex_lock(&loan_lock);
	if (ia->borrowed_evd) {
		while (*at != ia)
			at = &(*at)->next_borrower;
		return_evd_locked(at);
	}
	mutex_unlock(&loan_lock);
}

void async_evd_revoke(const struct evd *evd)
{
	struct ia **at = &borrowers;

	mutex_lock(&loan_lock);
	while (*at) {
		if ((*at)->borrowed_evd == evd)
			return_evd_locked(at);
		else
			at = &(*at)->next_borrower;
	}
	mutex_unlock(&loan_lock);
}

bool async_evd_is_lent(const struct ia *owner)
{
	const struct ia *ia;

	mutex_lock(&loan_lock);
	ia = borrowers;
	while (ia && ia->borrowed_evd->obj.ia != owner)
		ia = ia->next_borrower;
	mutex_unlock(&loan_lock);
	return ia != NULL;
}

DAT_EVD_HANDLE async_evd_handle(struct ia *ia)
{
	DAT_EVD_HANDLE handle = ia->async_evd;

	mutex_lock(&loan_lock);
	if (!handle)
		handle = ia->borrowed_evd ? (DAT_EVD_HANDLE)ia->borrowed_evd : DAT_EVD_OUT_OF_SCOPE;
	mutex_unlock(&loan_lock);
	return handle;
}

/* ---- errors ---- */

/*
 * Posts to the EVD of ia_open, to every other one with the ASYNC flag, and to the borrowed one. An
 * EVD that is full reports the loss by itself.
 */
void async_error_post_locked(struct ia *ia, DAT_EVENT_NUMBER number, DAT_HANDLE handle,
			     DAT_COUNT reason)
{
	DAT_EVENT event = { .event_number = number };
	struct obj *obj;

	assert_locked(&ia->lock);
	ia_counts(ia, IA_ASYNC_ERROR);
	if (number == DAT_ASYNC_ERROR_EP_BROKEN)
		ia_counts(ia, IA_ASYNC_QP_ERROR);
	else if (number == DAT_ASYNC_ERROR_EVD_OVERFLOW)
		ia_counts(ia, IA_ASYNC_CQ_ERROR);
	event.event_data.asynch_error_event_data.dat_handle = handle;
	event.event_data.asynch_error_event_data.reason = reason;
	for (obj = obj_next(ia, DAT_HANDLE_TYPE_EVD, NULL); obj;
	     obj = obj_next(ia, DAT_HANDLE_TYPE_EVD, obj)) {
		struct evd *evd = container_of(obj, struct evd, obj);

		if (evd->flags & DAT_EVD_ASYNC_FLAG)
			(void)evd_post_bounded(evd, &event);
	}
	mutex_lock(&loan_lock);
	if (ia->borrowed_evd)
		(void)evd_post_bounded(ia->borrowed_evd, &event);
	mutex_unlock(&loan_lock);
}
