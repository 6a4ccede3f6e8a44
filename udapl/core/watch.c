/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who looks at completion queues, and when.
 *
 * A consumer that polls and a thread that sleeps in a wait take completions themselves. The service
 * thread takes them beside those two, because a failure ends its connection even if no one polls,
 * because completions trigger the CNO, and because flushes come before the end event. For the
 * service thread the completion channel of an EVD, or the channels of all EVDs of a CNO together,
 * are in one of three states:
 *	armed	A failure makes the descriptor readable, on many devices any completion. Queues that
 *		are not used stay armed.
 *	looked	The queues are not armed, so that a consumer that polls causes no interrupts. The
 *		service thread looks at them every LOOK_INTERVAL, and arms them again when it has
 *		found nothing for a while.
 *	lent	The queues are not armed for the service thread, and the descriptor is not in its
 *		epoll set. A thread that waits arms the queues and sleeps on the descriptor. While
 *		it sleeps, the service thread does not look; after that it does, as above.
 * The first event of an armed queue makes it looked at; the first wait that sleeps has it lent. It
 * is armed again at once if each completion is urgent for the service thread: a CNO awaits a
 * trigger, or an endpoint has each completion reported to it.
 */
#include <errno.h>
#include <sys/epoll.h>

#include "core.h"

#define LOOK_INTERVAL UINT64_C(10000000) /* ns; the latest that a failure is noticed */
#define QUIET_LOOKS   100		 /* in a row, before the queues are armed */

/* ---- epoll sets ---- */

/* Adds the descriptor to its epoll set or takes it out. Returns 0 or a negative errno. */
static int epoll_change(struct watch *watch, int op)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = watch };
	int set = watch->parent ? watch->parent->fd : watch->ia->service.epoll;

	return epoll_ctl(set, op, watch->fd, &event) == 0 ? 0 : -errno;
}

/*
 * Takes the descriptor out of its set, if it is there. One that is only muted there wakes the
 * thread that sleeps on the set all the same, because the kernel does not say what has happened
 * when it wakes the pollers of a completion channel.
 */
static void epoll_leave_locked(struct watch *watch)
{
	assert_locked(&watch->lock);
	if (!watch->lent)
		(void)epoll_change(watch, EPOLL_CTL_DEL);
	watch->lent = true;
}

/*
 * Puts the descriptor into its set, if it is not there. Returns false if the kernel has no memory:
 * then it remains lent, and so it is looked at.
 */
static bool epoll_enter_locked(struct watch *watch)
{
	assert_locked(&watch->lock);
	if (watch->lent)
		watch->lent = epoll_change(watch, EPOLL_CTL_ADD) != 0;
	return !watch->lent;
}

void watch_take_back(struct watch *watch)
{
	mutex_lock(&watch->lock);
	if (!watch->waiters)
		(void)epoll_enter_locked(watch);
	mutex_unlock(&watch->lock);
}

void watch_surrender(struct watch *watch)
{
	mutex_lock(&watch->lock);
	(void)epoll_enter_locked(watch);
	mutex_unlock(&watch->lock);
}

/* ---- looking ---- */

static void look_due_locked(struct timer *timer);

/* Sets the timer for the next look, at the same time as others: one wake-up is for all of them. */
static void look_later_locked(struct watch *watch)
{
	uint64_t next = (tp_now() / LOOK_INTERVAL + 1) * LOOK_INTERVAL;

	timer_set_locked(watch->ia, &watch->timer, next, look_due_locked);
}

/*
 * Notes that the service thread looks from here on. Returns whether it did not so before, so that
 * the caller has to have it begin.
 */
static bool mark_looked_at_locked(struct watch *watch)
{
	bool begin = !watch->looked_at;

	assert_locked(&watch->lock);
	watch->looked_at = true;
	watch->quiet_looks = 0;
	return begin;
}

/*
 * What follows from a look, which found something or did not. Returns whether another one follows;
 * if not, the queues are armed, or a waiter has them. A thread that sleeps for long takes all
 * completions, so the looks end; when it leaves it has them begin again. Those of short waits go
 * on.
 */
static bool look_finish_locked(struct watch *watch, bool found)
{
	bool again;

	assert_locked(&watch->ia->lock);
	mutex_lock(&watch->lock);
	watch->quiet_looks = found || watch->wait_ended ? 0 : watch->quiet_looks + 1;
	if (watch->waiters) {
		watch->looked_at = watch->wait_ended;
	} else if ((watch->quiet_looks >= QUIET_LOOKS || watch->ia->failed) &&
		   epoll_enter_locked(watch)) {
		watch->looked_at = false;
		watch->ops->arm_locked(watch);
	}
	watch->wait_ended = false;
	again = watch->looked_at;
	mutex_unlock(&watch->lock);
	return again;
}

/* The time of a look has come. */
static void look_due_locked(struct timer *timer)
{
	struct watch *watch = container_of(timer, struct watch, timer);

	assert_locked(&watch->ia->lock);
	if (look_finish_locked(watch, watch->ops->look_locked(watch)))
		look_later_locked(watch);
	else
		watch->ops->look_locked(watch); /* what came before the queues were armed */
}

/* Looks begin: with one at once, because the queues may not have been armed for a while. */
static void look_at_once_locked(struct work *work)
{
	struct watch *watch = container_of(work, struct watch, work);

	assert_locked(&watch->ia->lock);
	watch->ops->look_locked(watch);
	look_later_locked(watch);
}

void watch_start_looks_locked(struct watch *watch)
{
	bool begin;

	assert_locked(&watch->ia->lock);
	mutex_lock(&watch->lock);
	begin = !watch->waiters && mark_looked_at_locked(watch);
	mutex_unlock(&watch->lock);
	if (begin)
		look_later_locked(watch);
}

/* ---- waiters ---- */

void watch_lend_locked(struct watch *watch)
{
	assert_locked(&watch->lock);
	epoll_leave_locked(watch);
	watch->waiters++;
}

bool watch_is_waited_for(struct watch *watch)
{
	bool waited_for;

	mutex_lock(&watch->lock);
	waited_for = watch->waiters > 0;
	mutex_unlock(&watch->lock);
	return waited_for;
}

bool watch_return_locked(struct watch *watch)
{
	bool back;

	assert_locked(&watch->lock);
	watch->waiters--;
	watch->wait_ended = true;
	/* the queues below a CNO are armed at once, for its triggers */
	back = !watch->waiters && (watch->parent || watch->ops->is_urgent_locked(watch));
	if (back)
		(void)epoll_enter_locked(watch);
	if (!watch->parent && !watch->waiters && mark_looked_at_locked(watch))
		service_queue_work(watch->ia, &watch->work);
	return back;
}

/* ---- opening and closing ---- */

void watch_init(struct watch *watch, struct ia *ia, const struct watch_ops *ops)
{
	watch->ia = ia;
	watch->ops = ops;
	watch->fd = -1;
	watch->work.run = look_at_once_locked;
}

int watch_open(struct watch *watch, int fd, struct watch *parent)
{
	watch->fd = fd;
	watch->parent = parent;
	return epoll_change(watch, EPOLL_CTL_ADD);
}

static void looks_cancel_locked(struct watch *watch)
{
	timer_cancel_locked(watch->ia, &watch->timer);
	service_cancel_work_locked(watch->ia, &watch->work);
}

void watch_move_locked(struct watch *watch, struct watch *parent)
{
	assert_locked(&watch->ia->lock);
	looks_cancel_locked(watch);
	mutex_lock(&watch->lock);
	epoll_leave_locked(watch);
	watch->parent = parent;
	watch->looked_at = false;
	if (!watch->waiters && !epoll_enter_locked(watch))
		log_error("epoll_ctl: %m; completions are noticed by those who poll only");
	mutex_unlock(&watch->lock);
}

void watch_close_locked(struct watch *watch)
{
	assert_locked(&watch->ia->lock);
	looks_cancel_locked(watch);
	(void)epoll_change(watch, EPOLL_CTL_DEL);
}
