/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Consumer notification objects as objects: create, free, query, modify, the EVDs that they are of,
 * and dat_cno_wait. cno_trigger.c has what an event does to one.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/race.h"
#include "base/refuse.h"
#include "cno.h"

/*
 * Calls the consumer's agent on the service thread, without locks. The agent is one-shot: it is
 * detached first, and may attach itself again.
 */
static void agent_run(struct work *work)
{
	struct cno *cno = container_of(work, struct cno, work);
	DAT_OS_WAIT_PROXY_AGENT agent = { 0 };
	struct evd *evd;

	spin_lock(&cno->lock);
	evd = cno->callers;
	if (cno_agent_is_due_locked(cno)) {
		agent = cno->agent;
		cno->agent = (DAT_OS_WAIT_PROXY_AGENT){ 0 };
	}
	cno_agent_settle_locked(cno);
	spin_unlock(&cno->lock);
	if (cno_has_agent(&agent))
		agent.proxy_agent_func(agent.instance_data, evd);
}

/*
 * The CNO has no EVD any more: wakes all waiters, and has the agent called once, with the EVD that
 * comes and triggers before that, or with none.
 */
static void wake_all(struct cno *cno)
{
	spin_lock(&cno->lock);
	debug_assert(!cno->callers);
	cno_set_latch_locked(cno, NULL);
	cno->broadcasts++;
	while (cno->wait_list)
		cno_wake_locked(cno, cno->wait_list);
	if (cno_has_agent(&cno->agent)) {
		cno->agent_released = true;
		service_queue_work(cno->obj.ia, &cno->work);
	}
	spin_unlock(&cno->lock);
}

bool cno_attach_locked(struct ia *ia, DAT_CNO_HANDLE handle)
{
	struct cno *cno = handle;

	assert_locked(&ia->lock);
	race_reach(RACE_ATTACH, handle);
	if (!obj_hold(ia, handle, DAT_HANDLE_TYPE_CNO))
		return false;
	cno->evds++;
	return true;
}

/* A visitor for cno_visit_missed_locked. */
static bool trigger_backlog(struct evd *evd)
{
	evd_trigger_backlog_locked(evd);
	return true;
}

/*
 * The CNO forgets an EVD, whose lock is held. Returns whether events of others may have triggered
 * nothing because of it.
 */
static bool cno_forget_locked(struct cno *cno, struct evd *evd)
{
	bool latched;

	assert_locked(&evd->lock);
	spin_lock(&cno->lock);
	cno_missed_remove_locked(cno, evd);
	latched = cno->latched == evd;
	if (latched)
		cno_set_latch_locked(cno, NULL);
	cno_caller_remove_locked(cno, evd); /* the agent, if it is due no more, stays attached */
	spin_unlock(&cno->lock);
	return latched;
}

void cno_detach_locked(struct cno *cno, bool freed)
{
	assert_locked(&cno->obj.ia->lock);
	if (--cno->evds == 0 && freed)
		wake_all(cno);
	obj_put(&cno->obj);
}

/*
 * Threads in dat_evd_wait and dat_evd_post_se trigger the CNO that they find, with evd->lock but
 * without ia->lock. So the old one forgets the EVD before that lock is released.
 */
void cno_replace_locked(struct evd *evd, struct cno *cno, bool freed)
{
	struct cno *before;
	bool missed; /* the latch was cleared: those that found it set trigger now */

	assert_locked(&evd->obj.ia->lock);
	spin_lock(&evd->lock);
	before = evd->cno;
	missed = before && cno_forget_locked(before, evd);
	evd->cno = cno;
	spin_unlock(&evd->lock);
	race_reach(RACE_CNO, evd);
	if (evd->cq)
		watch_move_locked(&evd->watch, cno ? &cno->watch : NULL);
	if (missed)
		(void)cno_visit_missed_locked(before, trigger_backlog);
	if (before)
		cno_detach_locked(before, freed);
}

/* ---- completion channels ---- */

#define CHANNEL_BATCH 16 /* that one epoll_wait may return */

static struct cno *cno_of_watch(struct watch *watch)
{
	return container_of(watch, struct cno, watch);
}

/* Handles what the channels of the EVDs report. Returns how many did. */
static int channels_handle_locked(struct cno *cno)
{
	struct epoll_event events[CHANNEL_BATCH];
	struct ia *ia = cno->obj.ia;
	int n;

	assert_locked(&ia->lock);
	n = epoll_wait(cno->watch.fd, events, CHANNEL_BATCH, 0);
	for (int i = 0; i < n; i++)
		watch_report_locked(ia, &events[i]);
	return n;
}

/*
 * The epoll set is readable. One of the channels may be in error, which the set tells; the set
 * itself is not.
 */
static void cno_ready_locked(struct watch *watch, bool in_error)
{
	(void)in_error;
	if (watch->fd >= 0) /* or the CNO was freed */
		(void)channels_handle_locked(cno_of_watch(watch));
}

/* The service thread looks at all EVDs: finds failures in queues that are not armed, too. */
static bool cno_look_locked(struct watch *watch)
{
	struct cno *cno = cno_of_watch(watch);
	bool ready = channels_handle_locked(cno) > 0;

	return cno_visit_missed_locked(cno, evd_look_missed_locked) > 0 || ready;
}

/* A visitor for cno_visit_missed_locked. */
static bool arm_and_drain(struct evd *evd)
{
	evd_arm(evd);
	(void)evd_drain(evd); /* what was there before makes no event */
	return true;
}

/* With an agent or a descriptor each completion is urgent: it has to be told at once. */
static bool cno_is_urgent_locked(struct watch *watch)
{
	struct cno *cno = cno_of_watch(watch);
	bool agent;

	assert_locked(&watch->lock);
	spin_lock(&cno->lock);
	agent = cno_has_agent(&cno->agent);
	spin_unlock(&cno->lock);
	return agent || cno->fd >= 0;
}

/* Arms the queues of the EVDs that have missed a trigger. */
static void cno_arm_locked(struct watch *watch)
{
	(void)cno_visit_missed_locked(cno_of_watch(watch), arm_and_drain);
}

static const struct watch_ops cno_ops = {
	.is_urgent_locked = cno_is_urgent_locked,
	.arm_locked = cno_arm_locked,
	.look_locked = cno_look_locked,
	.ready_locked = cno_ready_locked,
};

/*
 * A visitor like arm_and_drain, if the consumer looks at its EVDs next, but for disabled ones. If
 * it does not, a failure that was there before is found by the service thread.
 */
static bool arm_missed(struct evd *evd)
{
	if (!evd_is_enabled(evd))
		return arm_and_drain(evd);
	evd_arm(evd);
	if (evd->cq)
		watch_start_looks_locked(&evd->watch);
	return true;
}

/*
 * Arms the queues of EVDs that have missed a trigger: the latch is clear, or an agent is attached,
 * so the next completion of each counts. No lock is held.
 */
static void arm_all_missed(struct cno *cno)
{
	struct ia *ia = cno->obj.ia;

	mutex_lock(&ia->lock);
	(void)cno_visit_missed_locked(cno, arm_missed);
	mutex_unlock(&ia->lock);
}

static int cno_channels_open(struct cno *cno)
{
	int set = epoll_create1(EPOLL_CLOEXEC), err = set < 0 ? -errno : 0;

	if (err) {
		(void)log_descriptor_shortage("dat_cno_create", err);
		return err;
	}
	mutex_init(&cno->watch.lock, RANK_CNO_WATCH);
	watch_init(&cno->watch, cno->obj.ia, &cno_ops);
	err = watch_open(&cno->watch, set, NULL);
	if (err)
		close(set);
	return err;
}

static void cno_channels_close(struct cno *cno)
{
	struct ia *ia = cno->obj.ia;
	int set = cno->watch.fd;

	mutex_lock(&ia->lock);
	watch_close_locked(&cno->watch);
	cno->watch.fd = -1;
	mutex_unlock(&ia->lock);
	mutex_destroy(&cno->watch.lock);
	close(set);
}

/* ---- the calls ---- */

/* Makes an invisible CNO, of which @fd, unless it is -1, tells the latch. It takes over @fd. */
static DAT_RETURN cno_new(struct ia *ia, DAT_OS_WAIT_PROXY_AGENT agent, int fd, struct cno **out)
{
	struct cno *cno = obj_alloc(ia, ia->obj.table, DAT_HANDLE_TYPE_CNO);
	int err;

	if (!cno)
		return NO_RESOURCE(MEMORY);
	err = cno_channels_open(cno);
	if (err) {
		obj_free(&cno->obj);
		return status_of(err, DAT_RESOURCE_MEMORY);
	}
	spin_init(&cno->lock, RANK_CNO);
	cno->fd = fd;
	cno->missed_end = &cno->missed;
	cno->agent = agent;
	cno->work.run = agent_run;
	cno->work.unlocked = true;
	attend_others_more(&ia->attendance);
	*out = cno;
	return DAT_SUCCESS;
}

DAT_RETURN cno_create(DAT_IA_HANDLE ia_handle, DAT_OS_WAIT_PROXY_AGENT agent, DAT_CNO_HANDLE *out)
{
	CANCEL_FORBIDDEN;
	struct ia *ia = ia_handle;
	struct cno *cno = NULL;
	DAT_RETURN ret;

	if (!obj_valid(NULL, ia, DAT_HANDLE_TYPE_IA))
		return BAD_HANDLE(IA);
	if (!out)
		return BAD_ARG(3);
	ret = cno_new(ia, agent, -1, &cno);
	if (ret == DAT_SUCCESS)
		*out = obj_publish(&cno->obj);
	return ret;
}

#if DAT_EDITION == 2
DAT_RETURN cno_fd_create(DAT_IA_HANDLE ia_handle, DAT_FD *fd, DAT_CNO_HANDLE *out)
{
	CANCEL_FORBIDDEN;
	const DAT_OS_WAIT_PROXY_AGENT no_agent = DAT_OS_WAIT_PROXY_AGENT_NULL;
	struct ia *ia = ia_handle;
	struct cno *cno = NULL;
	DAT_RETURN ret;
	int latch_fd;

	if (!obj_valid(NULL, ia, DAT_HANDLE_TYPE_IA))
		return BAD_HANDLE(IA);
	if (!fd)
		return BAD_ARG(2);
	if (!out)
		return BAD_ARG(3);
	latch_fd = wakefd_open();
	if (latch_fd < 0) {
		(void)log_descriptor_shortage("dat_cno_fd_create", latch_fd);
		return status_of(latch_fd, DAT_RESOURCE_MEMORY);
	}
	ret = cno_new(ia, no_agent, latch_fd, &cno);
	if (ret != DAT_SUCCESS) {
		close(latch_fd);
		return ret;
	}
	*fd = latch_fd;
	*out = obj_publish(&cno->obj);
	return DAT_SUCCESS;
}
#endif

void cno_destroy(struct cno *cno)
{
	service_cancel_unlocked_work(cno->obj.ia, &cno->work);
	cno_channels_close(cno);
	attend_others_less(&cno->obj.ia->attendance);
	if (cno->fd >= 0)
		close(cno->fd);
	obj_free(&cno->obj);
}

DAT_RETURN cno_free(DAT_CNO_HANDLE handle)
{
	CANCEL_FORBIDDEN;
	struct cno *cno = handle;
	struct ia *ia;
	bool idle;

	if (!obj_lock_ia(NULL, cno, DAT_HANDLE_TYPE_CNO))
		return BAD_HANDLE(CNO);
	ia = cno->obj.ia;
	spin_lock(&cno->lock);
	idle = !cno->waiters;
	spin_unlock(&cno->lock);
	idle = idle && obj_retire(&cno->obj);
	ia->cno_freers += idle;
	mutex_unlock(&ia->lock);
	if (!idle)
		return BAD_STATE(CNO_IN_USE);
	cno_destroy(cno);
	mutex_lock(&ia->lock);
	if (--ia->cno_freers == 0)
		pthread_cond_broadcast(&ia->waiter_left);
	mutex_unlock(&ia->lock);
	return DAT_SUCCESS;
}

void cno_expel_waiters_relock(struct cno *cno)
{
	struct ia *ia = cno->obj.ia;

	assert_locked(&ia->lock);
	wake_all(cno);
	spin_lock(&cno->lock);
	cno->closing = true;
	while (cno->waiters || cno_agent_is_due_locked(cno)) {
		spin_unlock(&cno->lock);
		cond_wait_relock(&ia->waiter_left, &ia->lock);
		spin_lock(&cno->lock);
	}
	spin_unlock(&cno->lock);
}

static void cno_describe_locked(const struct cno *cno, DAT_CNO_PARAM *param)
{
	assert_locked(&cno->lock);
#if DAT_EDITION == 2
	memset(&param->proxy, 0, sizeof(param->proxy));
	param->proxy_type = DAT_PROXY_TYPE_NONE;
	if (cno->fd >= 0) {
		param->proxy_type = DAT_PROXY_TYPE_FD;
		param->proxy.fd = cno->fd;
	} else if (cno_has_agent(&cno->agent)) {
		param->proxy_type = DAT_PROXY_TYPE_AGENT;
		param->proxy.agent = cno->agent;
	}
#else
	param->agent = cno->agent;
#endif
}

DAT_RETURN cno_query(DAT_CNO_HANDLE handle, DAT_CNO_PARAM_MASK mask, DAT_CNO_PARAM *param)
{
	CANCEL_FORBIDDEN;
	struct cno *cno = handle;

	(void)mask; /* all members are filled in */
	if (!obj_valid(NULL, cno, DAT_HANDLE_TYPE_CNO))
		return BAD_HANDLE(CNO);
	if (!param)
		return BAD_ARG(3);
	param->ia_handle = attr_ia_handle(cno->obj.ia);
	spin_lock(&cno->lock);
	cno_describe_locked(cno, param);
	spin_unlock(&cno->lock);
	return DAT_SUCCESS;
}

DAT_RETURN cno_modify_agent(DAT_CNO_HANDLE handle, DAT_OS_WAIT_PROXY_AGENT agent)
{
	CANCEL_FORBIDDEN;
	struct cno *cno = handle;

	if (!obj_valid(NULL, cno, DAT_HANDLE_TYPE_CNO) || cno->fd >= 0)
		return BAD_HANDLE(CNO);
	spin_lock(&cno->lock);
	cno->agent = agent;
	cno_agent_settle_locked(cno); /* a trigger of before does not call this one */
	spin_unlock(&cno->lock);
	if (cno_has_agent(&agent)) {
		watch_take_back(&cno->watch);
		arm_all_missed(cno);
	}
	return DAT_SUCCESS;
}

/* ---- waiting ---- */

#define NOT_LATCHED DAT_QUEUE_EMPTY /* also the status of a time-out; without a class bit */

/*
 * Takes the latch, or sees that all waiters were woken; else adds @entry, unless that is NULL, to
 * the wait list.
 */
static DAT_RETURN check_latch_locked(struct cno *cno, unsigned broadcasts, struct wait_entry *entry,
				     struct evd **evd)
{
	assert_locked(&cno->lock);
	if (cno->latched) {
		*evd = cno->latched;
		cno_set_latch_locked(cno, NULL);
		return DAT_SUCCESS;
	}
	if (cno->broadcasts != broadcasts || cno->closing)
		return DAT_SUCCESS;
	if (entry && !entry->listed)
		cno_enlist_locked(cno, entry);
	return NOT_LATCHED;
}

/*
 * The last step of a wait: its last access to the CNO, which is under ia->lock when an abrupt close
 * waits for this thread.
 */
static void cno_wait_leave(struct cno *cno)
{
	struct ia *ia = cno->obj.ia;
	bool closing;

	spin_lock(&cno->lock);
	closing = cno->closing;
	if (!closing)
		cno->waiters--;
	spin_unlock(&cno->lock);
	if (!closing)
		return;
	mutex_lock(&ia->lock);
	spin_lock(&cno->lock);
	cno->waiters--;
	spin_unlock(&cno->lock);
	pthread_cond_broadcast(&ia->waiter_left);
	mutex_unlock(&ia->lock);
}

/*
 * Gives back what the thread slept on. The queues that are to be armed are armed when the latch is
 * taken.
 */
static void cno_sleep_give_back(struct cno *cno, struct wait_entry *entry)
{
	spin_lock(&cno->lock);
	cno_delist_locked(cno, entry);
	spin_unlock(&cno->lock);
	wait_entry_end(entry);
	race_reach(RACE_RETURN, cno);
	mutex_lock(&cno->watch.lock);
	(void)watch_return_locked(&cno->watch);
	mutex_unlock(&cno->watch.lock);
}

/* The thread was cancelled in its sleep. A trigger that woke it is passed on to another waiter. */
static void cno_wait_cancelled(void *arg)
{
	CANCEL_FORBIDDEN;
	struct wait_entry *entry = arg;
	struct cno *cno = entry->cno;

	cno_sleep_give_back(cno, entry);
	spin_lock(&cno->lock);
	if (cno->latched && cno->wait_list)
		cno_wake_locked(cno, cno->wait_list);
	spin_unlock(&cno->lock);
	cno_wait_leave(cno);
}

/* What a thread in dat_cno_wait sleeps on. */
enum {
	CNO_WAKEFD,   /* the CNO was triggered, or all its waiters are woken */
	CNO_CHANNELS, /* the epoll set with the completion channels of its EVDs */
	CNO_FDS,
};

/* tp_poll, as the only place of a wait where the thread can be cancelled; see wait_poll. */
static int cno_wait_poll(struct wait_entry *entry, struct pollfd fds[CNO_FDS], uint64_t deadline,
			 int consumers_state)
{
	int ready;

	pthread_cleanup_push(cno_wait_cancelled, entry);
	cancel_allow(consumers_state);
	ready = tp_poll(fds, CNO_FDS, deadline);
	cancel_forbid();
	pthread_cleanup_pop(0);
	return ready;
}

/*
 * Handles what woke the thread up, and takes the latch. Meanwhile the thread is not on the wait
 * list: a trigger needs no wake-up, and leaves its EVD armed.
 */
static DAT_RETURN cno_wakeup_consume(struct cno *cno, unsigned broadcasts, struct wait_entry *entry,
				     const struct pollfd fds[CNO_FDS], struct evd **evd)
{
	struct ia *ia = cno->obj.ia;
	DAT_RETURN ret;
	bool woken;

	spin_lock(&cno->lock);
	cno->takers++;
	if (fds[CNO_CHANNELS].revents)
		cno_delist_locked(cno, entry);
	woken = entry->woken; /* then it is not listed */
	entry->woken = false;
	spin_unlock(&cno->lock);
	if (woken)
		wakefd_clear(entry->wakefd);
	if (fds[CNO_CHANNELS].revents) {
		mutex_lock(&ia->lock);
		(void)channels_handle_locked(cno);
		mutex_unlock(&ia->lock);
	}
	spin_lock(&cno->lock);
	cno->takers--;
	ret = check_latch_locked(cno, broadcasts, NULL, evd);
	spin_unlock(&cno->lock);
	return ret;
}

/* Sleeps until the latch is taken, or there is another reason to return, and returns it. */
static DAT_RETURN sleep_until_latched(struct cno *cno, unsigned broadcasts, uint64_t deadline,
				      int consumers_state, struct wait_entry *entry,
				      struct evd **evd)
{
	struct pollfd fds[CNO_FDS] = {
		[CNO_WAKEFD] = { .fd = entry->wakefd, .events = POLLIN },
		[CNO_CHANNELS] = { .fd = cno->watch.fd, .events = POLLIN },
	};
	DAT_RETURN ret;
	int ready;

	do {
		spin_lock(&cno->lock);
		ret = check_latch_locked(cno, broadcasts, entry, evd);
		spin_unlock(&cno->lock);
		if (ret != NOT_LATCHED)
			return ret;
		ready = cno_wait_poll(entry, fds, deadline, consumers_state);
		if (ready > 0)
			ret = cno_wakeup_consume(cno, broadcasts, entry, fds, evd);
		if (ret != NOT_LATCHED)
			return ret;
	} while (ready > 0 && tp_now() < deadline); /* it may always have something to wake for */
	spin_lock(&cno->lock);
	cno_delist_locked(cno, entry); /* the next trigger wakes another thread */
	ret = check_latch_locked(cno, broadcasts, NULL, evd);
	spin_unlock(&cno->lock);
	return ret == NOT_LATCHED && ready == -EINTR ? DAT_ERROR(DAT_INTERRUPTED_CALL, 0) : ret;
}

/* Borrows what the thread sleeps on, has it sleep, and gives that back. */
static DAT_RETURN cno_wait_asleep(struct cno *cno, unsigned broadcasts, uint64_t deadline,
				  int consumers_state, struct evd **evd)
{
	struct wait_entry entry = { .cno = cno, .wakefd = wakefd_take(&cno->obj.ia->wakefds) };
	DAT_RETURN ret;

	if (entry.wakefd < 0) {
		(void)log_descriptor_shortage("dat_cno_wait", entry.wakefd);
		return status_of(entry.wakefd, DAT_RESOURCE_MEMORY);
	}
	mutex_lock(&cno->watch.lock);
	watch_lend_locked(&cno->watch);
	mutex_unlock(&cno->watch.lock);
	ret = sleep_until_latched(cno, broadcasts, deadline, consumers_state, &entry, evd);
	race_reach(RACE_AWAKE, cno);
	cno_sleep_give_back(cno, &entry);
	return ret;
}

static COLD DAT_RETURN cno_wait_refused(DAT_RETURN ret, const struct cno *cno, DAT_TIMEOUT timeout,
					DAT_EVD_HANDLE *out)
{
	return refused(ret, LOG_EVD, "dat_cno_wait", "cno %p, timeout %u, evd %p",
		       (const void *)cno, (unsigned)timeout, (void *)out);
}

/* dat_cno_wait in full: with a sleep if need be, and with EVDs that have missed a trigger. */
static NOINLINE DAT_RETURN cno_wait_slow(struct cno *cno, DAT_TIMEOUT timeout, DAT_EVD_HANDLE *out)
{
	CANCEL_FORBIDDEN;
	struct evd *evd = NULL;
	unsigned broadcasts;
	bool missed;
	DAT_RETURN ret;

	spin_lock(&cno->lock);
	broadcasts = cno->broadcasts;
	cno->waiters++;
	ret = check_latch_locked(cno, broadcasts, NULL, &evd);
	spin_unlock(&cno->lock);
	if (ret == NOT_LATCHED)
		ret = cno_wait_asleep(cno, broadcasts, deadline_of(timeout), cancel_state_before,
				      &evd);
	spin_lock(&cno->lock);
	missed = evd && cno->missed;
	spin_unlock(&cno->lock);
	if (missed)
		arm_all_missed(cno);
	if (ret == DAT_SUCCESS || ret == NOT_LATCHED)
		*out = evd;
	else
		(void)cno_wait_refused(ret, cno, timeout, out);
	cno_wait_leave(cno);
	return ret;
}

/*
 * A call of a thread that could be cancelled at any instruction: as long as the call lasts it can
 * be at cancellation points only.
 */
static COLD DAT_RETURN cno_wait_defer_cancel(struct cno *cno, DAT_TIMEOUT timeout,
					     DAT_EVD_HANDLE *out)
{
	DAT_RETURN ret = cno_wait(cno, timeout, out);

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	return ret;
}

/* Refuses a call whose handle is none, or that has no place for the EVD. */
static COLD DAT_RETURN cno_wait_refuse_args(const struct cno *cno, DAT_TIMEOUT timeout,
					    DAT_EVD_HANDLE *out)
{
	const bool is_cno = obj_is(cno, DAT_HANDLE_TYPE_CNO);

	return cno_wait_refused(is_cno ? BAD_ARG(3) : BAD_HANDLE(CNO), cno, timeout, out);
}

DAT_RETURN cno_wait(DAT_CNO_HANDLE handle, DAT_TIMEOUT timeout, DAT_EVD_HANDLE *out)
{
	struct cno *cno = handle;
	struct evd *evd;
	int cancel_type;

	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &cancel_type);
	if (unlikely(cancel_type != PTHREAD_CANCEL_DEFERRED))
		return cno_wait_defer_cancel(cno, timeout, out);
	if (!obj_is(cno, DAT_HANDLE_TYPE_CNO))
		return cno_wait_refuse_args(cno, timeout, out);
	if (!out)
		return cno_wait_refuse_args(cno, timeout, out);
	spin_lock(&cno->lock);
	evd = cno->latched;
	if (unlikely(!evd || cno->missed)) {
		spin_unlock(&cno->lock);
		return cno_wait_slow(cno, timeout, out);
	}
	cno_set_latch_locked(cno, NULL);
	spin_unlock(&cno->lock);
	*out = evd;
	return DAT_SUCCESS;
}

#if DAT_EDITION == 2
static COLD DAT_RETURN cno_trigger_refused(DAT_RETURN ret, const void *cno, DAT_EVD_HANDLE *out)
{
	return refused(ret, LOG_EVD, "dat_cno_trigger", "cno %p, evd %p", cno, (void *)out);
}

DAT_RETURN cno_trigger(DAT_CNO_HANDLE handle, DAT_EVD_HANDLE *out)
{
	CANCEL_FORBIDDEN;
	struct cno *cno = handle;

	if (!obj_valid(NULL, cno, DAT_HANDLE_TYPE_CNO) || cno->fd < 0)
		return cno_trigger_refused(BAD_HANDLE(CNO), cno, out);
	if (!out)
		return cno_trigger_refused(BAD_ARG(2), cno, out);
	return cno_wait(cno, 0, out);
}
#endif
