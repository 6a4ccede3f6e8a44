/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Consumer notification objects: a latch that EVDs set and dat_cno_wait takes, and a one-shot proxy
 * agent beside it.
 */
#include <errno.h>
#include <unistd.h>

#include "udapl.h"

/*
 * A thread in dat_cno_wait. A trigger wakes one of them; each has a descriptor of its own, so that
 * none consumes the wake-up of another.
 */
struct wait_entry {
	struct cno *cno;
	int wakefd;
	bool listed;
	bool woken; /* cno->lock; wakefd was signalled */
	struct wait_entry *next;
};

static void entry_wake_locked(struct cno *cno, struct wait_entry *entry)
{
	assert_locked(&cno->lock);
	cno->wait_list = entry->next;
	entry->listed = false;
	entry->woken = true;
	wakefd_signal(entry->wakefd);
}

static void entry_add_locked(struct cno *cno, struct wait_entry *entry)
{
	struct wait_entry **at = &cno->wait_list;

	assert_locked(&cno->lock);
	while (*at)
		at = &(*at)->next;
	entry->next = NULL;
	entry->listed = true;
	*at = entry;
}

static void entry_remove_locked(struct cno *cno, struct wait_entry *entry)
{
	struct wait_entry **at = &cno->wait_list;

	assert_locked(&cno->lock);
	if (!entry->listed)
		return;
	while (*at != entry)
		at = &(*at)->next;
	*at = entry->next;
	entry->listed = false;
}

/* Gives back what the thread slept on. It is not listed, so no thread wakes it. */
static void entry_end(struct wait_entry *entry)
{
	if (entry->woken)
		wakefd_clear(entry->wakefd);
	wakefd_give(&entry->cno->obj.ia->wakefds, entry->wakefd);
}

static bool has_agent(const DAT_OS_WAIT_PROXY_AGENT *agent)
{
	return agent->proxy_agent_func != NULL;
}

/* ---- triggering ---- */

void cno_trigger_locked(struct cno *cno, struct evd *evd)
{
	assert_locked(&evd->lock);
	spin_lock(&cno->lock);
	if (!cno->latched) {
		cno->latched = evd;
		if (cno->wait_list)
			entry_wake_locked(cno, cno->wait_list);
	}
	if (has_agent(&cno->agent)) {
		cno->agent_evd = evd;
		cno->agent_due = true;
		service_queue_work(cno->obj.ia, &cno->work);
	}
	spin_unlock(&cno->lock);
}

bool cno_wants_trigger(struct cno *cno)
{
	bool wants;

	spin_lock(&cno->lock);
	wants = !cno->latched || has_agent(&cno->agent);
	spin_unlock(&cno->lock);
	return wants;
}

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
	evd = cno->agent_evd;
	if (cno->agent_due) {
		agent = cno->agent;
		cno->agent = (DAT_OS_WAIT_PROXY_AGENT){ 0 };
	}
	cno->agent_due = false;
	spin_unlock(&cno->lock);
	if (has_agent(&agent))
		agent.proxy_agent_func(agent.instance_data, evd);
}

/* Wakes all waiters, and calls the agent once, without an EVD. */
static void wake_all(struct cno *cno)
{
	spin_lock(&cno->lock);
	cno->latched = NULL;
	cno->broadcasts++;
	while (cno->wait_list)
		entry_wake_locked(cno, cno->wait_list);
	if (has_agent(&cno->agent)) {
		cno->agent_evd = NULL;
		cno->agent_due = true;
		service_queue_work(cno->obj.ia, &cno->work);
	}
	spin_unlock(&cno->lock);
}

void cno_attach_locked(struct cno *cno)
{
	assert_locked(&cno->obj.ia->lock);
	obj_hold(cno->obj.ia, cno, DAT_HANDLE_TYPE_CNO);
	cno->evds++;
}

/*
 * The EVD that was latched is gone. While it was latched, events of other EVDs triggered nothing.
 */
static void trigger_backlogs_locked(struct cno *cno)
{
	struct ia *ia = cno->obj.ia;

	assert_locked(&ia->lock);
	for (struct obj *obj = obj_next(ia, DAT_HANDLE_TYPE_EVD, NULL); obj;
	     obj = obj_next(ia, DAT_HANDLE_TYPE_EVD, obj)) {
		struct evd *evd = container_of(obj, struct evd, obj);

		if (evd->cno == cno)
			evd_trigger_backlog(evd);
	}
}

void cno_detach_locked(struct cno *cno, struct evd *evd, bool freed)
{
	bool latched, due;

	assert_locked(&cno->obj.ia->lock);
	spin_lock(&cno->lock);
	latched = cno->latched == evd;
	if (latched)
		cno->latched = NULL;
	due = cno->agent_due && cno->agent_evd == evd;
	if (due)
		cno->agent_due = false; /* it stays attached */
	spin_unlock(&cno->lock);
	if (latched || due)
		trigger_backlogs_locked(cno);
	if (--cno->evds == 0 && freed)
		wake_all(cno);
	obj_put(&cno->obj);
}

/* ---- the calls ---- */

DAT_RETURN cno_create(DAT_IA_HANDLE ia_handle, DAT_OS_WAIT_PROXY_AGENT agent, DAT_CNO_HANDLE *out)
{
	struct ia *ia = ia_handle;
	struct cno *cno;

	if (!obj_valid(NULL, ia, DAT_HANDLE_TYPE_IA))
		return BAD_HANDLE(IA);
	if (!out)
		return BAD_ARG(3);
	cno = obj_alloc(ia, &ia->provider->table, DAT_HANDLE_TYPE_CNO);
	if (!cno)
		return NO_RESOURCE(MEMORY);
	spin_init(&cno->lock, RANK_CNO);
	cno->agent = agent;
	cno->work.run = agent_run;
	cno->work.unlocked = true;
	*out = obj_publish(&cno->obj);
	return DAT_SUCCESS;
}

void cno_destroy(struct cno *cno)
{
	service_cancel_unlocked_work(cno->obj.ia, &cno->work);
	obj_free(&cno->obj);
}

DAT_RETURN cno_free(DAT_CNO_HANDLE handle)
{
	struct cno *cno = handle;
	bool waited;

	if (!obj_valid(NULL, cno, DAT_HANDLE_TYPE_CNO))
		return BAD_HANDLE(CNO);
	spin_lock(&cno->lock);
	waited = cno->waiters > 0;
	spin_unlock(&cno->lock);
	if (waited || !obj_retire(&cno->obj))
		return BAD_STATE(CNO_IN_USE);
	cno_destroy(cno);
	return DAT_SUCCESS;
}

void cno_expel_waiters_relock(struct cno *cno)
{
	struct ia *ia = cno->obj.ia;

	assert_locked(&ia->lock);
	wake_all(cno);
	spin_lock(&cno->lock);
	cno->closing = true;
	while (cno->waiters || cno->agent_due) {
		spin_unlock(&cno->lock);
		cond_wait_relock(&ia->waiter_left, &ia->lock);
		spin_lock(&cno->lock);
	}
	spin_unlock(&cno->lock);
}

DAT_RETURN cno_query(DAT_CNO_HANDLE handle, DAT_CNO_PARAM_MASK mask, DAT_CNO_PARAM *param)
{
	struct cno *cno = handle;

	if (!obj_valid(NULL, cno, DAT_HANDLE_TYPE_CNO))
		return BAD_HANDLE(CNO);
	if (!param)
		return BAD_ARG(3);
	if (mask & ~(unsigned)DAT_CNO_FIELD_ALL)
		return BAD_ARG(2);
	param->ia_handle = cno->obj.ia;
	spin_lock(&cno->lock);
	param->agent = cno->agent;
	spin_unlock(&cno->lock);
	return DAT_SUCCESS;
}

/*
 * The latch is clear, or an agent is attached: from here on the next completion of each EVD counts.
 */
static void arm_evds(struct cno *cno)
{
	struct ia *ia = cno->obj.ia;

	mutex_lock(&ia->lock);
	for (struct obj *obj = obj_next(ia, DAT_HANDLE_TYPE_EVD, NULL); obj;
	     obj = obj_next(ia, DAT_HANDLE_TYPE_EVD, obj)) {
		struct evd *evd = container_of(obj, struct evd, obj);

		if (evd->cno == cno && evd->cq)
			evd_watch(evd);
	}
	mutex_unlock(&ia->lock);
}

DAT_RETURN cno_modify_agent(DAT_CNO_HANDLE handle, DAT_OS_WAIT_PROXY_AGENT agent)
{
	struct cno *cno = handle;

	if (!obj_valid(NULL, cno, DAT_HANDLE_TYPE_CNO))
		return BAD_HANDLE(CNO);
	spin_lock(&cno->lock);
	cno->agent = agent;
	spin_unlock(&cno->lock);
	if (has_agent(&agent))
		arm_evds(cno);
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
		cno->latched = NULL;
		return DAT_SUCCESS;
	}
	if (cno->broadcasts != broadcasts || cno->closing)
		return DAT_SUCCESS;
	if (entry && !entry->listed)
		entry_add_locked(cno, entry);
	return NOT_LATCHED;
}

/* When an abrupt close waits for this thread, the last access is under ia->lock. */
static void leave_wait(struct cno *cno)
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

/* The thread was cancelled in its sleep. A trigger that woke it is passed on to another waiter. */
static void cno_wait_cancelled(void *arg)
{
	struct wait_entry *entry = arg;
	struct cno *cno = entry->cno;

	spin_lock(&cno->lock);
	entry_remove_locked(cno, entry);
	if (cno->latched && cno->wait_list)
		entry_wake_locked(cno, cno->wait_list);
	spin_unlock(&cno->lock);
	entry_end(entry);
	leave_wait(cno);
}

/* The only place of a wait where the thread can be cancelled; as in dat_evd_wait. */
static int cno_wait_poll(struct wait_entry *entry, uint64_t deadline,
			 const struct cancellation *cancel)
{
	struct pollfd pollfd = { .fd = entry->wakefd, .events = POLLIN };
	int ready;

	pthread_cleanup_push(cno_wait_cancelled, entry);
	cancel_allow(cancel);
	ready = tp_poll(&pollfd, 1, deadline);
	cancel_forbid_again();
	pthread_cleanup_pop(0);
	return ready;
}

static DAT_RETURN sleep_until_latched(struct cno *cno, unsigned broadcasts, uint64_t deadline,
				      const struct cancellation *cancel, struct evd **evd)
{
	struct wait_entry entry = { .cno = cno, .wakefd = wakefd_take(&cno->obj.ia->wakefds) };
	DAT_RETURN ret;

	if (entry.wakefd < 0) {
		(void)log_descriptor_shortage("dat_cno_wait", entry.wakefd);
		return status_of(entry.wakefd, DAT_RESOURCE_MEMORY);
	}
	for (;;) {
		int ready;

		spin_lock(&cno->lock);
		ret = check_latch_locked(cno, broadcasts, &entry, evd);
		spin_unlock(&cno->lock);
		if (ret != NOT_LATCHED)
			break;
		ready = cno_wait_poll(&entry, deadline, cancel);
		if (ready > 0) { /* it was woken, so it is not listed */
			wakefd_clear(entry.wakefd);
			entry.woken = false;
			continue;
		}
		spin_lock(&cno->lock);
		ret = check_latch_locked(cno, broadcasts, NULL, evd);
		spin_unlock(&cno->lock);
		if (ret == NOT_LATCHED && ready == -EINTR)
			ret = DAT_ERROR(DAT_INTERRUPTED_CALL, 0);
		break;
	}
	spin_lock(&cno->lock);
	entry_remove_locked(cno, &entry);
	spin_unlock(&cno->lock);
	entry_end(&entry);
	return ret;
}

DAT_RETURN cno_wait(DAT_CNO_HANDLE handle, DAT_TIMEOUT timeout, DAT_EVD_HANDLE *out)
{
	struct cno *cno = handle;
	uint64_t deadline = deadline_of(timeout);
	struct evd *evd = NULL;
	unsigned broadcasts;
	struct cancellation cancel;
	DAT_RETURN ret;

	if (!obj_is(cno, DAT_HANDLE_TYPE_CNO))
		return BAD_HANDLE(CNO);
	if (!out)
		return BAD_ARG(3);
	cancel_forbid(&cancel);
	spin_lock(&cno->lock);
	broadcasts = cno->broadcasts;
	cno->waiters++;
	ret = check_latch_locked(cno, broadcasts, NULL, &evd);
	spin_unlock(&cno->lock);
	if (ret == NOT_LATCHED && timeout != 0)
		ret = sleep_until_latched(cno, broadcasts, deadline, &cancel, &evd);
	if (evd)
		arm_evds(cno);
	if (ret == DAT_SUCCESS || ret == NOT_LATCHED)
		*out = evd;
	leave_wait(cno);
	cancel_restore(&cancel);
	return ret;
}
