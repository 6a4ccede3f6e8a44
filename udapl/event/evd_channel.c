/* SPDX-License-Identifier: BSD-2-Clause */
/* How the completion queue of an EVD is armed, and what follows when its channel is readable. */
#include "evd.h"
#include "base/race.h"

/* ---- arming ---- */

/*
 * Returns whether the service thread, or one in dat_cno_wait, must learn of each completion at
 * once.
 */
static bool is_urgent_locked(struct evd *evd)
{
	assert_locked(&evd->lock);
	return evd->reporting_eps ||
	       (evd->cno && evd->enabled && cno_awaits_trigger(evd->cno, evd));
}

static bool is_urgent(struct evd *evd)
{
	bool urgent;

	spin_lock(&evd->lock);
	urgent = is_urgent_locked(evd);
	spin_unlock(&evd->lock);
	return urgent;
}

/*
 * Returns which completions matter; @waiting says whether a thread sleeps on the channel. Failures
 * always matter. In solicited mode only solicited receives do beside them. The sink has no consumer
 * that polls.
 */
static enum tp_arm arm_mode_locked(struct evd *evd, bool waiting)
{
	assert_locked(&evd->lock);
	if (evd->is_sink || evd->reporting_eps)
		return TP_ARM_ANY;
	if (!waiting && !is_urgent_locked(evd))
		return TP_ARM_ERRORS;
	return evd->config == DAT_EVD_STATE_CONFIG_SOLICITED ? TP_ARM_SOLICITED : TP_ARM_ANY;
}

/*
 * Arms the completion queue, if there is one, for what matters; @sleeper says whether the calling
 * thread is the waiter that sleeps next, and gets what evd_channel_lend returns. What arrived
 * before makes no event: the caller looks at the queue afterwards, or its consumer does.
 *
 * On some devices the last request to be notified counts, on others the strongest. So the lock is
 * held while a thread chooses how to arm and arms: a change of what matters is followed by a
 * request that knows of it, and by none that does not.
 */
static int channel_arm_for_locked(struct evd *evd, bool sleeper)
{
	struct tp_cq *cq;
	enum tp_arm what;

	assert_locked(&evd->watch.lock);
	spin_lock(&evd->lock);
	cq = evd->cq;
	what = arm_mode_locked(evd, evd->watch.waiters > 0);
	spin_unlock(&evd->lock);
	if (!cq)
		return -1;
	race_reach(RACE_ARM, evd);
	if (sleeper && what == TP_ARM_ANY)
		return tp_cq_sleep(cq);
	(void)tp_cq_arm(cq, what);
	return -1;
}

static bool channel_is_urgent_locked(struct watch *watch)
{
	assert_locked(&watch->lock);
	return is_urgent(container_of(watch, struct evd, watch));
}

static void channel_arm_locked(struct watch *watch)
{
	(void)channel_arm_for_locked(container_of(watch, struct evd, watch), false);
}

void evd_arm(struct evd *evd)
{
	mutex_lock(&evd->watch.lock);
	channel_arm_locked(&evd->watch);
	mutex_unlock(&evd->watch.lock);
}

int evd_arm_to_sleep(struct evd *evd)
{
	int fd;

	mutex_lock(&evd->watch.lock);
	fd = channel_arm_for_locked(evd, true);
	mutex_unlock(&evd->watch.lock);
	return fd;
}

/*
 * Tells the transport that nobody sleeps on the channel. If a waiter has come meanwhile, or all has
 * become urgent, it was armed for that, and stays so.
 */
static void evd_disarm(struct evd *evd)
{
	race_reach(RACE_DISARM, evd);
	mutex_lock(&evd->watch.lock);
	if (!evd->watch.waiters && !is_urgent(evd))
		(void)tp_cq_arm(evd->cq, TP_ARM_NOTHING);
	mutex_unlock(&evd->watch.lock);
}

/* ---- the service thread, or a thread in dat_cno_wait ---- */

void evd_watch_locked(struct evd *evd)
{
	assert_locked(&evd->obj.ia->lock);
	if (!evd->cq)
		return;
	if (evd->watch.parent)
		watch_take_back(evd->watch.parent);
	watch_take_back(&evd->watch);
	evd_arm(evd);
}

/* The service thread looks at the queue, which need not be armed. */
static bool channel_look_locked(struct watch *watch)
{
	return evd_drain_found(container_of(watch, struct evd, watch));
}

bool evd_look_missed_locked(struct evd *evd)
{
	bool found = evd_drain_found(evd);

	assert_locked(&evd->obj.ia->lock);
	if (is_urgent(evd)) { /* the latch was taken meanwhile */
		evd_arm(evd);
		found |= evd_drain_found(evd);
	} else if (evd->cq && !evd_is_enabled(evd)) {
		watch_start_looks_locked(&evd->watch);
	}
	return found;
}

/*
 * The channel is readable: takes its event and the completions. If each is urgent, the queue is
 * armed again; else the service thread looks at it, or the CNO, if that is to be triggered.
 */
static void channel_ready_locked(struct evd *evd)
{
	struct watch *parent = evd->watch.parent;

	assert_locked(&evd->obj.ia->lock);
	if (!tp_cq_events(evd->cq))
		return;
	evd_counts(evd, EVD_DTO_CALLBACK);
	evd_drain(evd);
	/* a waiter: it came after the kernel had named the EVD */
	if (watch_is_waited_for(&evd->watch) || is_urgent(evd)) {
		evd_arm(evd);
		evd_drain(evd);
	} else {
		evd_disarm(evd);
		watch_start_looks_locked(parent && evd_is_enabled(evd) ? parent : &evd->watch);
	}
}

/*
 * What an epoll set reports of the channel. A freed EVD has no completion queue, and a new one in
 * the same slot is polled without need, which does no harm. The kernel reports a channel in error,
 * too, while it is lent: nobody watches it any more, or the service thread would never sleep again.
 */
static void channel_report_locked(struct watch *watch, bool in_error)
{
	struct evd *evd = container_of(watch, struct evd, watch);

	assert_locked(&watch->ia->lock);
	if (!evd->cq)
		return;
	if (!in_error) {
		channel_ready_locked(evd);
		return;
	}
	watch_close_locked(watch);
	(void)evd_drain(evd);
	up_dev_fatal(watch->ia);
}

/* ---- what ends a wait or triggers has changed ---- */

void evd_mode_changed(struct evd *evd)
{
	bool notified = false;

	evd_arm(evd);
	spin_lock(&evd->lock);
	if (evd->slow_path & EVD_WAITER)
		evd_wake_locked(evd);
	else if (evd->cno && evd->enabled)
		evd_take_completions_relock(evd, &notified);
	if (notified)
		evd_notify_locked(evd);
	spin_unlock(&evd->lock);
}

void evd_set_reporting_locked(struct evd *evd, bool on)
{
	assert_locked(&evd->obj.ia->lock);
	spin_lock(&evd->lock);
	debug_assert(on || evd->reporting_eps > 0);
	evd->reporting_eps += on ? 1 : -1;
	spin_unlock(&evd->lock);
	if (on)
		evd_watch_locked(evd);
}

void evd_trigger_backlog_locked(struct evd *evd)
{
	bool notified = false;

	assert_locked(&evd->obj.ia->lock);
	evd_watch_locked(evd);
	spin_lock(&evd->lock);
	evd_take_completions_relock(evd, &notified); /* what was there before makes no event */
	if (notified || (evd->notifying && !(evd->slow_path & EVD_WAITER)))
		evd_notify_locked(evd);
	spin_unlock(&evd->lock);
}

/* ---- waiters ---- */

int evd_channel_lend(struct evd *evd)
{
	int fd;

	mutex_lock(&evd->watch.lock);
	watch_lend_locked(&evd->watch);
	fd = channel_arm_for_locked(evd, true);
	mutex_unlock(&evd->watch.lock);
	return fd;
}

bool evd_channel_return(struct evd *evd)
{
	bool back;

	race_reach(RACE_RETURN, evd);
	mutex_lock(&evd->watch.lock);
	back = watch_return_locked(&evd->watch);
	if (back)
		channel_arm_locked(&evd->watch);
	else /* if all becomes urgent meanwhile, it is armed for that next */
		(void)tp_cq_arm(evd->cq, TP_ARM_NOTHING);
	mutex_unlock(&evd->watch.lock);
	if (back)
		service_queue_work(evd->obj.ia, &evd->watch.work);
	race_reach(RACE_LEFT, evd);
	return back;
}

/* ---- opening and closing ---- */

static const struct watch_ops channel_ops = {
	.is_urgent_locked = channel_is_urgent_locked,
	.arm_locked = channel_arm_locked,
	.look_locked = channel_look_locked,
	.ready_locked = channel_report_locked,
};

void evd_channel_init(struct evd *evd)
{
	mutex_init(&evd->watch.lock, RANK_CHANNEL);
	watch_init(&evd->watch, evd->obj.ia, &channel_ops);
}

int evd_channel_open(struct evd *evd, struct cno *cno)
{
	int err = watch_open(&evd->watch, tp_cq_fd(evd->cq), cno ? &cno->watch : NULL);

	if (!err)
		evd_arm(evd);
	return err;
}

void evd_channel_close_locked(struct evd *evd)
{
	assert_locked(&evd->obj.ia->lock);
	watch_close_locked(&evd->watch);
	mutex_lock(&evd->watch.lock);
	spin_lock(&evd->lock);
	evd->cq = NULL;
	spin_unlock(&evd->lock);
	mutex_unlock(&evd->watch.lock);
}
