/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who listens to the connection manager, that is to the first descriptor of the device.
 *
 * The service thread does, in general. To wake it up for each event, and then the thread that waits
 * for what follows from that, takes longer than all the rest, so others take events themselves:
 *	a call		that connects, accepts or disconnects, before it returns: what arrives
 *			meanwhile, because its connection is local or fast
 *	a waiter	in dat_evd_wait of an EVD for connections and requests only. It sleeps on
 *			the descriptor, too, and until the device is due; one thread at a time. Over
 *			tcp the descriptor has data, too: a thread that sleeps for long is not to
 *			serve those, so there it listens for WAIT_TIME.
 *	nobody		for AWAY_TIME at most, between the short waits of a consumer that goes from
 *			one to the next; what the device does by time may be as late. A poll of an
 *			EVD without completions that finds nothing ends that, and so does a wait
 *			for completions.
 *
 * Nobody listens only if nobody else wants to be told: an IA with a CNO, with a second thread in
 * such a wait, with one that sleeps until there is a completion, with an EVD for connections and
 * completions both, or with an endpoint whose events go to an EVD of another IA, is not left alone
 * so.
 */
#include "core.h"

#define WAIT_TIME UINT64_C(2000000) /* ns */
#define AWAY_TIME UINT64_C(2000000)

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
	if (!attendance->lent &&
	    (!atomic_load(&attendance->away) || atomic_load(&attendance->others)))
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

/* Returns when the waiter, which listens, leaves that to the service thread. */
static uint64_t wait_limit_locked(const struct ia *ia)
{
	assert_locked(&ia->lock);
	return ia->attr->caps & TP_CAP_DATA_BESIDE ? ia->attendance.last + WAIT_TIME : TP_NEVER;
}

/* Returns when it wakes up in any case. */
static uint64_t wait_due_locked(struct ia *ia)
{
	struct attendance *attendance = &ia->attendance;

	assert_locked(&ia->lock);
	attendance->due = tp_dev_deadline(ia->dev);
	return min_u64(attendance->due, wait_limit_locked(ia));
}

int attend_wait_begin(struct ia *ia, uint64_t *due)
{
	struct attendance *attendance = &ia->attendance;
	int fd = -1;

	mutex_lock(&ia->lock);
	if (!attendance->lent && silence_locked(ia)) {
		uint64_t now = tp_now();

		attendance->lent = true;
		atomic_store(&attendance->away, false);
		attendance->follows = now - attendance->last < AWAY_TIME;
		attendance->last = now;
		*due = wait_due_locked(ia);
		fd = ia->service.dev_fds[0];
	} else {
		attend_others_more(attendance);
	}
	mutex_unlock(&ia->lock);
	return fd;
}

bool attend_wait_ready(struct ia *ia, unsigned ready, bool in_error, uint64_t *due)
{
	struct attendance *attendance = &ia->attendance;
	bool stays;

	mutex_lock(&ia->lock);
	(void)tp_dev_progress(ia->dev, ready);
	/* an error is reported by the service thread */
	stays = !in_error && tp_now() < wait_limit_locked(ia);
	if (stays) {
		*due = wait_due_locked(ia);
	} else { /* from here on the service thread listens in its place */
		attend_others_more(attendance);
		attendance->lent = false;
		listen_locked(ia);
	}
	service_check_deadline_locked(ia);
	mutex_unlock(&ia->lock);
	return stays;
}

/* The waiter that listened leaves. */
static void waiter_leave_locked(struct ia *ia)
{
	struct attendance *attendance = &ia->attendance;
	const uint64_t now = tp_now();
	const bool series = attendance->follows && now - attendance->last < WAIT_TIME;

	assert_locked(&ia->lock);
	attendance->lent = false;
	attendance->last = now;
	/* who comes meanwhile counts among the others first, and then looks at this */
	atomic_store(&attendance->away, true);
	if (!series || !attendance->silent || atomic_load(&attendance->others))
		listen_locked(ia);
	else if (!attendance->back.deadline)
		timer_set_locked(ia, &attendance->back, now + AWAY_TIME, back_due_locked);
	service_check_deadline_locked(ia);
}

void attend_wait_end(struct ia *ia, bool listens)
{
	if (!listens) {
		attend_others_less(&ia->attendance);
		return;
	}
	mutex_lock(&ia->lock);
	waiter_leave_locked(ia);
	mutex_unlock(&ia->lock);
}

/* ---- the end of the IA ---- */

void attend_close(struct ia *ia)
{
	mutex_lock(&ia->lock);
	listen_locked(ia);
	mutex_unlock(&ia->lock);
}

/* ---- others ---- */

void attend_recall(struct ia *ia)
{
	CANCEL_FORBIDDEN;

	if (!mutex_trylock(&ia->lock))
		return;
	if (atomic_load(&ia->attendance.away)) {
		listen_locked(ia);
		service_check_deadline_locked(ia);
	}
	mutex_unlock(&ia->lock);
}
