/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Consumer notification objects: a latch that EVDs set and dat_cno_wait takes, and a one-shot agent
 * beside it.
 */
#include <errno.h>
#include <unistd.h>

#include "udapl.h"

/*
 * A thread in dat_cno_wait. One trigger wakes one; each has a descriptor of its own, so none takes
 * another's wake-up.
 */
struct sleeper {
	int wake;
	bool listed;
	struct sleeper *next;
};

static void wake(struct cno *cno, struct sleeper *sleeper)
{
	cno->sleepers = sleeper->next;
	sleeper->listed = false;
	wakefd_signal(sleeper->wake);
}

static void enlist(struct cno *cno, struct sleeper *sleeper)
{
	struct sleeper **at = &cno->sleepers;

	while (*at)
		at = &(*at)->next;
	sleeper->next = NULL;
	sleeper->listed = true;
	*at = sleeper;
}

static void delist(struct cno *cno, struct sleeper *sleeper)
{
	struct sleeper **at = &cno->sleepers;

	if (!sleeper->listed)
		return;
	while (*at != sleeper)
		at = &(*at)->next;
	*at = sleeper->next;
	sleeper->listed = false;
}

static bool has_agent(const DAT_OS_WAIT_PROXY_AGENT *agent)
{
	return agent->proxy_agent_func != NULL;
}

/* ---- triggering ---- */

void cno_trigger(struct cno *cno, struct evd *evd)
{
	spin_lock(&cno->lock);
	if (!cno->latched) {
		cno->latched = evd;
		if (cno->sleepers)
			wake(cno, cno->sleepers);
	}
	if (has_agent(&cno->agent)) {
		cno->agent_evd = evd;
		cno->agent_due = true;
		service_kick(cno->obj.ia, &cno->work);
	}
	spin_unlock(&cno->lock);
}

bool cno_wants(struct cno *cno)
{
	bool wants;

	spin_lock(&cno->lock);
	wants = !cno->latched || has_agent(&cno->agent);
	spin_unlock(&cno->lock);
	return wants;
}

/*
 * On the service thread, without locks: the consumer's code. One-shot: it is detached first, and
 * may arm itself again.
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

/* Everybody goes home without an EVD: the waiters, and the agent once. */
static void release(struct cno *cno)
{
	spin_lock(&cno->lock);
	cno->latched = NULL;
	cno->released++;
	while (cno->sleepers)
		wake(cno, cno->sleepers);
	if (has_agent(&cno->agent)) {
		cno->agent_evd = NULL;
		cno->agent_due = true;
		service_kick(cno->obj.ia, &cno->work);
	}
	spin_unlock(&cno->lock);
}

void cno_attach(struct cno *cno)
{
	obj_hold(cno->obj.ia, cno, DAT_HANDLE_TYPE_CNO);
	cno->evds++;
}

/*
 * What was to be told went with its EVD; what came to the others meanwhile was no trigger because
 * of it.
 */
static void trigger_again(struct cno *cno)
{
	struct ia *ia = cno->obj.ia;

	for (struct obj *obj = obj_next(ia, DAT_HANDLE_TYPE_EVD, NULL); obj;
	     obj = obj_next(ia, DAT_HANDLE_TYPE_EVD, obj)) {
		struct evd *evd = container_of(obj, struct evd, obj);

		if (evd->cno == cno)
			evd_trigger_backlog(evd);
	}
}

void cno_detach(struct cno *cno, struct evd *evd, bool freed)
{
	bool latched, due;

	spin_lock(&cno->lock);
	latched = cno->latched == evd;
	if (latched)
		cno->latched = NULL;
	due = cno->agent_due && cno->agent_evd == evd;
	if (due)
		cno->agent_due = false; /* it stays armed */
	spin_unlock(&cno->lock);
	if (latched || due)
		trigger_again(cno);
	if (--cno->evds == 0 && freed)
		release(cno);
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

void cno_unmake(struct cno *cno)
{
	service_forget(cno->obj.ia, &cno->work);
	obj_discard(&cno->obj);
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
	cno_unmake(cno);
	return DAT_SUCCESS;
}

void cno_kill(struct cno *cno)
{
	struct ia *ia = cno->obj.ia;

	release(cno);
	spin_lock(&cno->lock);
	cno->dying = true;
	while (cno->waiters || cno->agent_due) {
		spin_unlock(&cno->lock);
		cond_wait_relock(&ia->left, &ia->lock);
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
 * A latch that is clear, or an agent that is armed: from here on the EVDs' next completions count.
 * ia->lock not held.
 */
static void rearm_evds(struct cno *cno)
{
	struct ia *ia = cno->obj.ia;

	mutex_lock(&ia->lock);
	for (struct obj *obj = obj_next(ia, DAT_HANDLE_TYPE_EVD, NULL); obj;
	     obj = obj_next(ia, DAT_HANDLE_TYPE_EVD, obj)) {
		struct evd *evd = container_of(obj, struct evd, obj);

		if (evd->cno == cno && evd->cq)
			evd_rearm(evd);
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
		rearm_evds(cno);
	return DAT_SUCCESS;
}

/* ---- waiting ---- */

#define NOTHING_YET DAT_QUEUE_EMPTY /* what a time-out says, too; bare, as dat_evd_dequeue's */

/*
 * Takes the latch, or hears of a release; else lists @sleeper, unless that is NULL. cno->lock held.
 */
static DAT_RETURN look_locked(struct cno *cno, unsigned released, struct sleeper *sleeper,
			      struct evd **evd)
{
	if (cno->latched) {
		*evd = cno->latched;
		cno->latched = NULL;
		return DAT_SUCCESS;
	}
	if (cno->released != released || cno->dying)
		return DAT_SUCCESS;
	if (sleeper && !sleeper->listed)
		enlist(cno, sleeper);
	return NOTHING_YET;
}

static DAT_RETURN sleep_on(struct cno *cno, unsigned released, uint64_t deadline, struct evd **evd)
{
	struct sleeper sleeper = { .wake = wakefd_open() };
	struct pollfd pollfd = { .fd = sleeper.wake, .events = POLLIN };
	DAT_RETURN ret;

	if (sleeper.wake < 0)
		return status_of(sleeper.wake, DAT_RESOURCE_MEMORY);
	for (;;) {
		int ready;

		spin_lock(&cno->lock);
		ret = look_locked(cno, released, &sleeper, evd);
		spin_unlock(&cno->lock);
		if (ret != NOTHING_YET)
			break;
		ready = tp_poll(&pollfd, 1, deadline);
		if (ready > 0) {
			wakefd_clear(sleeper.wake);
			continue;
		}
		spin_lock(&cno->lock);
		ret = look_locked(cno, released, NULL, evd);
		spin_unlock(&cno->lock);
		if (ret == NOTHING_YET && ready == -EINTR)
			ret = DAT_ERROR(DAT_INTERRUPTED_CALL, 0);
		break;
	}
	spin_lock(&cno->lock);
	delist(cno, &sleeper);
	spin_unlock(&cno->lock);
	close(sleeper.wake);
	return ret;
}

/*
 * As in dat_evd_wait: when an abrupt close waits for us, our leaving is the last thing that we
 * touch.
 */
static void wait_leave(struct cno *cno)
{
	struct ia *ia = cno->obj.ia;
	bool dying;

	spin_lock(&cno->lock);
	dying = cno->dying;
	if (!dying)
		cno->waiters--;
	spin_unlock(&cno->lock);
	if (!dying)
		return;
	mutex_lock(&ia->lock);
	spin_lock(&cno->lock);
	cno->waiters--;
	spin_unlock(&cno->lock);
	pthread_cond_broadcast(&ia->left);
	mutex_unlock(&ia->lock);
}

DAT_RETURN cno_wait(DAT_CNO_HANDLE handle, DAT_TIMEOUT timeout, DAT_EVD_HANDLE *out)
{
	struct cno *cno = handle;
	uint64_t deadline = timeout == DAT_TIMEOUT_INFINITE ? TP_NEVER
							    : tp_now() + (uint64_t)timeout * 1000;
	struct evd *evd = NULL;
	unsigned released;
	DAT_RETURN ret;

	if (!obj_is(cno, DAT_HANDLE_TYPE_CNO))
		return BAD_HANDLE(CNO);
	if (!out)
		return BAD_ARG(3);
	spin_lock(&cno->lock);
	released = cno->released;
	cno->waiters++;
	ret = look_locked(cno, released, NULL, &evd);
	spin_unlock(&cno->lock);
	if (ret == NOTHING_YET && timeout != 0)
		ret = sleep_on(cno, released, deadline, &evd);
	if (evd)
		rearm_evds(cno);
	if (ret == DAT_SUCCESS || ret == NOTHING_YET)
		*out = evd;
	wait_leave(cno);
	return ret;
}
