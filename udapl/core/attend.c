/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who listens to the connection manager, that is to the first descriptor of the device.
 *
 * The service thread does, in general. To wake it up for each event, and then the thread that waits
 * for what follows from that, takes longer than all the rest, so others take events themselves:
 *	a call		that connects, accepts or disconnects, before it returns: what arrives
 *			meanwhile, because its connection is local or fast
 *	a waiter	in dat_evd_wait of an EVD for connections and requests only. It sleeps on
 *			the descriptor, too, and until the device is due; one thread at a time
 *	nobody		for AWAY_TIME at most, between the waits of a consumer that goes from one
 *			such wait to the next. A poll of an EVD without completions that finds
 *			nothing ends that.
 *
 * Nobody listens only if nobody else wants to be told: an IA with a CNO, with a second thread in
 * such a wait, or with an EVD for connections and completions both, is not left alone so.
 */
#include "core.h"

#define AWAY_TIME UINT64_C(2000000) /* ns */

/* Returns whether that worked: the descriptor is not in the set once it was in error. */
static bool silence_locked(struct ia *ia)
{
	struct attendance *attendance = &ia->attendance;

	assert_locked(&ia->lock);
	if (!attendance->silent)
		attendance->silent = service_listen(ia, false);
	return attendance->silent;
}

static void listen_locked(struct ia *ia)
{
	struct attendance *attendance = &ia->attendance;

	assert_locked(&ia->lock);
	timer_cancel_locked(ia, &attendance->back);
	if (attendance->silent)
		(void)service_listen(ia, true);
	attendance->silent = false;
	atomic_store(&attendance->away, false);
}

/* ---- calls ---- */

void attend_call_begin_locked(struct ia *ia)
{
	(void)silence_locked(ia);
}

void attend_call_end_locked(struct ia *ia)
{
	struct attendance *attendance = &ia->attendance;

	assert_locked(&ia->lock);
	if (!attendance->silent)
		return;
	while (tp_dev_progress(ia->dev, 1))
		;
	service_check_deadline_locked(ia);
	if (!attendance->lent && !atomic_load(&attendance->away))
		listen_locked(ia);
}

/* ---- waits ---- */

/* The time is over. If there was a wait meanwhile, or is one, it begins anew with that. */
static void back_due_locked(struct timer *timer)
{
	struct attendance *attendance = container_of(timer, struct attendance, back);
	struct ia *ia = container_of(attendance, struct ia, attendance);

	assert_locked(&ia->lock);
	if (attendance->last + AWAY_TIME > tp_now())
		timer_set_locked(ia, timer, attendance->last + AWAY_TIME, back_due_locked);
	else if (!attendance->lent)
		listen_locked(ia);
}

int attend_wait_begin(struct ia *ia, uint64_t *due)
{
	struct attendance *attendance = &ia->attendance;
	int fd = -1;

	*due = TP_NEVER;
	mutex_lock(&ia->lock);
	if (attendance->lent || !silence_locked(ia)) {
		attend_others_more(attendance);
	} else {
		uint64_t now = tp_now();

		attendance->lent = true;
		atomic_store(&attendance->away, false);
		attendance->follows = now - attendance->last < AWAY_TIME;
		attendance->last = now;
		*due = attendance->due = tp_dev_deadline(ia->dev);
		fd = ia->service.dev_fds[0];
	}
	mutex_unlock(&ia->lock);
	return fd;
}

void attend_wait_ready(struct ia *ia, bool in_error, uint64_t *due)
{
	mutex_lock(&ia->lock);
	(void)tp_dev_progress(ia->dev, 1);
	*due = ia->attendance.due = in_error ? TP_NEVER : tp_dev_deadline(ia->dev);
	service_check_deadline_locked(ia);
	if (in_error) /* which the service thread reports */
		listen_locked(ia);
	mutex_unlock(&ia->lock);
}

/* The waiter that listened leaves. */
static void waiter_leave_locked(struct ia *ia)
{
	struct attendance *attendance = &ia->attendance;
	uint64_t now = tp_now();

	assert_locked(&ia->lock);
	attendance->lent = false;
	attendance->last = now;
	service_check_deadline_locked(ia);
	if (!attendance->follows || !attendance->silent || atomic_load(&attendance->others)) {
		listen_locked(ia);
		return;
	}
	atomic_store(&attendance->away, true);
	if (!attendance->back.deadline)
		timer_set_locked(ia, &attendance->back, now + AWAY_TIME, back_due_locked);
}

void attend_wait_end(struct ia *ia, bool listened)
{
	mutex_lock(&ia->lock);
	if (listened)
		waiter_leave_locked(ia);
	else
		attend_others_less(&ia->attendance);
	mutex_unlock(&ia->lock);
}

/* ---- others ---- */

void attend_recall(struct ia *ia)
{
	CANCEL_FORBIDDEN;

	if (!mutex_trylock(&ia->lock))
		return;
	if (atomic_load(&ia->attendance.away))
		listen_locked(ia);
	mutex_unlock(&ia->lock);
}
