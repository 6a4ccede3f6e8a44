/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who looks at the completion queue of an EVD, and when.
 *
 * A consumer that polls and a thread that sleeps in dat_evd_wait take completions themselves. The
 * service thread takes them beside those two, because a failure ends its connection even if no one
 * polls, because completions trigger the CNO, and because flushes come before the end event. For
 * the service thread the completion channel is in one of three states:
 *	armed	A failure wakes the service thread, on many devices any completion. A queue that is
 *		not used stays so.
 *	looked	The queue is not armed, so that a consumer that polls causes no interrupts. The
 *		service thread looks at it every LOOK_INTERVAL, and arms it again when it has found
 *		nothing for a while.
 *	lent	Likewise, and the descriptor is not in the epoll set of the service thread. A thread
 *		that waits arms the queue and sleeps on the descriptor. While it sleeps, the service
 *		thread does not look.
 * The first event of an armed queue makes it looked at; the first wait that sleeps has it lent. It
 * is armed again at once if each completion is urgent for the service thread: the CNO awaits a
 * trigger, or an endpoint is draining.
 *
 * On some devices the last request to be notified counts, on others the strongest. So channel.lock
 * is held while a thread chooses how to arm and arms: a change of what matters is followed by a
 * request that knows of it, and by none that does not. It also orders the changes of the epoll set.
 */
#include "evd.h"
#include "race.h"

#define LOOK_INTERVAL UINT64_C(10000000) /* ns; the latest that a failure is noticed */
#define QUIET_LOOKS   100		 /* in a row, before the queue is armed */

static bool is_urgent_locked(const struct evd *evd)
{
	assert_locked(&evd->lock);
	return evd->draining || (evd->cno && evd->enabled && cno_wants_trigger(evd->cno));
}

static bool is_urgent(struct evd *evd)
{
	bool urgent;

	spin_lock(&evd->lock);
	urgent = is_urgent_locked(evd);
	spin_unlock(&evd->lock);
	return urgent;
}

static bool is_waited_for(struct evd_channel *channel)
{
	bool waiting;

	mutex_lock(&channel->lock);
	waiting = channel->waiting;
	mutex_unlock(&channel->lock);
	return waiting;
}

/* ---- armed ---- */

/*
 * Failures always matter. In solicited mode only solicited receives do beside them. The sink has no
 * consumer that polls.
 */
static enum tp_arm arm_mode_locked(const struct evd *evd, bool waiting)
{
	assert_locked(&evd->lock);
	if (evd->is_sink || evd->draining)
		return TP_ARM_ANY;
	if (evd->config == DAT_EVD_STATE_CONFIG_SOLICITED)
		return TP_ARM_ERRORS;
	return waiting || is_urgent_locked(evd) ? TP_ARM_ANY : TP_ARM_ERRORS;
}

static void arm_locked(struct evd *evd)
{
	enum tp_arm what;

	assert_locked(&evd->channel.lock);
	spin_lock(&evd->lock);
	what = arm_mode_locked(evd, evd->channel.waiting);
	spin_unlock(&evd->lock);
	race_reach(RACE_ARM, evd);
	(void)tp_cq_arm(evd->cq, what);
}

void evd_arm(struct evd *evd)
{
	mutex_lock(&evd->channel.lock);
	arm_locked(evd);
	mutex_unlock(&evd->channel.lock);
}

static void take_back_locked(struct evd *evd)
{
	assert_locked(&evd->channel.lock);
	if (evd->channel.lent)
		service_reclaim(evd->obj.ia, evd);
	evd->channel.lent = false;
}

void evd_watch(struct evd *evd)
{
	mutex_lock(&evd->channel.lock);
	if (evd->cq && !evd->channel.waiting)
		take_back_locked(evd);
	if (evd->cq)
		arm_locked(evd);
	mutex_unlock(&evd->channel.lock);
}

/* ---- looked at ---- */

static void look_locked(struct timer *timer);

static void look_later_locked(struct evd *evd)
{
	struct ia *ia = evd->obj.ia;

	timer_set_locked(ia, &evd->channel.timer, tp_now() + LOOK_INTERVAL, look_locked);
}

/* True: the caller has the service thread look. */
static bool begin_looking(struct evd_channel *channel)
{
	bool begin = !channel->looked;

	assert_locked(&channel->lock);
	channel->looked = true;
	channel->quiet = 0;
	return begin;
}

/*
 * What follows from a look. A thread that waits takes all completions, so the looks end; when it
 * leaves it has them begin again.
 */
static bool look_again(struct evd *evd, bool found)
{
	struct evd_channel *channel = &evd->channel;
	bool again;

	mutex_lock(&channel->lock);
	channel->quiet = found || channel->waited ? 0 : channel->quiet + 1;
	channel->waited = false;
	if (channel->waiting) {
		channel->looked = false;
	} else if (channel->quiet >= QUIET_LOOKS) {
		channel->looked = false;
		take_back_locked(evd);
		arm_locked(evd);
	}
	again = channel->looked;
	mutex_unlock(&channel->lock);
	return again;
}

static void look_locked(struct timer *timer)
{
	struct evd *evd = container_of(timer, struct evd, channel.timer);

	assert_locked(&evd->obj.ia->lock);
	if (look_again(evd, evd_drain_found(evd)))
		look_later_locked(evd);
	else
		evd_drain(evd); /* what came before the queue was armed makes no event */
}

static void look_now_locked(struct work *work)
{
	struct evd *evd = container_of(work, struct evd, channel.work);

	assert_locked(&evd->obj.ia->lock);
	evd_drain(evd);
	look_later_locked(evd);
}

void evd_channel_ready_locked(struct evd *evd)
{
	bool begin;

	assert_locked(&evd->obj.ia->lock);
	if (!tp_cq_events(evd->cq))
		return;
	evd_drain(evd);
	if (is_urgent(evd) ||
	    is_waited_for(&evd->channel)) { /* it was lent after the kernel had named it */
		evd_arm(evd);
		evd_drain(evd);
		return;
	}
	mutex_lock(&evd->channel.lock);
	begin = begin_looking(&evd->channel);
	mutex_unlock(&evd->channel.lock);
	if (begin)
		look_later_locked(evd);
}

/* ---- lent ---- */

void evd_channel_lend(struct evd *evd)
{
	mutex_lock(&evd->channel.lock);
	if (!evd->channel.lent)
		service_lend(evd->obj.ia, evd);
	evd->channel.lent = true;
	evd->channel.waiting = true;
	mutex_unlock(&evd->channel.lock);
}

void evd_channel_return(struct evd *evd)
{
	struct evd_channel *channel = &evd->channel;
	bool look;

	mutex_lock(&channel->lock);
	channel->waiting = false;
	channel->waited = true;
	look = is_urgent(evd);
	if (look) {
		take_back_locked(evd);
		arm_locked(evd);
	}
	look |= begin_looking(channel);
	mutex_unlock(&channel->lock);
	if (look)
		service_queue_work(evd->obj.ia, &channel->work);
	race_reach(RACE_LEFT, evd);
}

/* ---- creation and destruction ---- */

void evd_channel_init(struct evd *evd)
{
	mutex_init(&evd->channel.lock, RANK_CHANNEL);
	evd->channel.work.run = look_now_locked;
}

int evd_channel_open(struct evd *evd)
{
	int err = service_watch(evd->obj.ia, evd);

	if (!err)
		evd_arm(evd);
	return err;
}

void evd_channel_close_locked(struct evd *evd)
{
	struct ia *ia = evd->obj.ia;

	assert_locked(&ia->lock);
	timer_cancel_locked(ia, &evd->channel.timer);
	service_cancel_work_locked(ia, &evd->channel.work);
	service_unwatch(ia, evd);
	mutex_lock(&evd->channel.lock);
	spin_lock(&evd->lock);
	evd->cq = NULL;
	spin_unlock(&evd->lock);
	mutex_unlock(&evd->channel.lock);
}
