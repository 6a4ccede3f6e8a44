/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An IA's one service thread: connection manager and device events, completion channels, timers,
 * work of the data path.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "udapl.h"

#define BATCH 16 /* ready descriptors taken from the kernel at once */

bool service_is_me(const struct ia *ia)
{
	return ia->service.started && pthread_equal(ia->service.thread, pthread_self());
}

/* ---- work ---- */

void service_kick(struct ia *ia, struct work *work)
{
	struct service *service = &ia->service;
	bool first = false;

	spin_lock(&service->lock);
	if (!work->queued) {
		first = !service->work;
		work->queued = true;
		work->next = NULL;
		*service->work_end = work;
		service->work_end = &work->next;
	}
	spin_unlock(&service->lock);
	if (first)
		wakefd_signal(service->wake);
}

static struct work *work_take(struct service *service)
{
	struct work *work;

	spin_lock(&service->lock);
	work = service->work;
	if (work) {
		service->work = work->next;
		if (!service->work)
			service->work_end = &service->work;
		work->queued = false;
		if (work->unlocked)
			service->running = work;
	}
	spin_unlock(&service->lock);
	return work;
}

/* Consumer code runs without our locks, and whoever forgets it meanwhile waits for its end. */
static void work_run_unlocked(struct ia *ia, struct work *work)
{
	mutex_unlock(&ia->lock);
	work->run(work);
	mutex_lock(&ia->lock);
	spin_lock(&ia->service.lock);
	ia->service.running = NULL;
	spin_unlock(&ia->service.lock);
	pthread_cond_broadcast(&ia->left);
}

static void work_run_all(struct ia *ia)
{
	struct work *work;

	while ((work = work_take(&ia->service))) {
		if (work->unlocked)
			work_run_unlocked(ia, work);
		else
			work->run(work);
	}
}

/* True if it runs right now. */
static bool work_unlink(struct service *service, struct work *work)
{
	bool running;

	spin_lock(&service->lock);
	if (work->queued) {
		struct work **at = &service->work;

		while (*at != work)
			at = &(*at)->next;
		*at = work->next;
		if (!*at)
			service->work_end = at;
		work->queued = false;
	}
	running = service->running == work;
	spin_unlock(&service->lock);
	return running;
}

void service_forget(struct ia *ia, struct work *work)
{
	if (!work->unlocked) {
		work_unlink(&ia->service, work);
		return;
	}
	mutex_lock(&ia->lock);
	while (work_unlink(&ia->service, work) && !service_is_me(ia))
		cond_wait_relock(&ia->left, &ia->lock);
	mutex_unlock(&ia->lock);
}

/* ---- timers ---- */

void timer_cancel(struct ia *ia, struct timer *timer)
{
	struct service *service = &ia->service;

	if (!timer->deadline)
		return;
	if (timer->prev)
		timer->prev->next = timer->next;
	else
		service->first = timer->next;
	if (timer->next)
		timer->next->prev = timer->prev;
	else
		service->last = timer->prev;
	timer->deadline = 0;
}

void timer_set(struct ia *ia, struct timer *timer, uint64_t deadline, void (*run)(struct timer *))
{
	struct service *service = &ia->service;
	struct timer *before;

	timer_cancel(ia, timer);
	timer->deadline = deadline;
	timer->run = run;
	/* From the end: most deadlines are of one kind, and the newest is the latest. */
	for (before = service->last; before && before->deadline > deadline; before = before->prev)
		;
	timer->prev = before;
	timer->next = before ? before->next : service->first;
	if (timer->prev)
		timer->prev->next = timer;
	else
		service->first = timer;
	if (timer->next)
		timer->next->prev = timer;
	else
		service->last = timer;
	if (service->first == timer && !service_is_me(ia))
		wakefd_signal(service->wake);
}

static void timers_run(struct ia *ia)
{
	struct timer *timer;

	while ((timer = ia->service.first) && timer->deadline <= tp_now()) {
		timer_cancel(ia, timer);
		timer->run(timer);
	}
}

/* ---- completion channels ---- */

static int channel_ctl(struct ia *ia, struct evd *evd, int op, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = evd };

	return epoll_ctl(ia->service.epoll, op, tp_cq_fd(evd->cq), &event) == 0 ? 0 : -errno;
}

int service_watch(struct ia *ia, struct evd *evd)
{
	return channel_ctl(ia, evd, EPOLL_CTL_ADD, EPOLLIN);
}

void service_unwatch(struct ia *ia, struct evd *evd)
{
	(void)channel_ctl(ia, evd, EPOLL_CTL_DEL, 0);
}

void service_lend(struct ia *ia, struct evd *evd)
{
	(void)channel_ctl(ia, evd, EPOLL_CTL_MOD, 0);
}

void service_take_back(struct ia *ia, struct evd *evd)
{
	(void)channel_ctl(ia, evd, EPOLL_CTL_MOD, EPOLLIN);
}

/* ---- the thread ---- */

/*
 * An EVD may have been freed since the kernel named it. Its memory is readable for ever; a dead one
 * has no queue, and a new one in the same place is only looked at once too often.
 */
static void ready(struct ia *ia, void *what)
{
	struct evd *evd = what;

	if (what == &ia->service)
		wakefd_clear(ia->service.wake);
	else if (what == ia->dev)
		tp_dev_progress(ia->dev);
	else if (evd->obj.ia == ia && evd->cq)
		evd_channel_ready(evd);
}

static bool stopped(struct service *service)
{
	bool stop;

	spin_lock(&service->lock);
	stop = service->stop;
	spin_unlock(&service->lock);
	return stop;
}

static void *service_main(void *arg)
{
	struct ia *ia = arg;
	struct service *service = &ia->service;
	struct pollfd pollfd = { .fd = service->epoll, .events = POLLIN };
	struct epoll_event events[BATCH];

	mutex_lock(&ia->lock);
	while (!stopped(service)) {
		uint64_t deadline = service->first ? service->first->deadline : TP_NEVER;
		int n;

		mutex_unlock(&ia->lock);
		(void)tp_poll(&pollfd, 1, deadline);
		mutex_lock(&ia->lock);
		n = epoll_wait(service->epoll, events, BATCH, 0);
		for (int i = 0; i < n; i++)
			ready(ia, events[i].data.ptr);
		timers_run(ia);
		work_run_all(ia);
	}
	mutex_unlock(&ia->lock);
	return NULL;
}

static int watch_fd(struct service *service, int fd, void *what)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = what };

	return epoll_ctl(service->epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

int service_start(struct ia *ia)
{
	struct service *service = &ia->service;
	int err;

	spin_init(&service->lock, RANK_SERVICE);
	service->work_end = &service->work;
	service->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (service->epoll < 0)
		return -errno;
	service->wake = wakefd_open();
	if (service->wake < 0) {
		err = service->wake;
		goto close_epoll;
	}
	err = watch_fd(service, service->wake, service);
	if (err)
		goto close_wake;
	err = watch_fd(service, tp_dev_fd(ia->dev), ia->dev);
	if (err)
		goto close_wake;
	/* The new thread asks who it is only with the lock held. */
	mutex_lock(&ia->lock);
	err = thread_start(&service->thread, service_main, ia);
	service->started = err == 0;
	mutex_unlock(&ia->lock);
	if (err)
		goto close_wake;
	return 0;
close_wake:
	close(service->wake);
close_epoll:
	close(service->epoll);
	return err;
}

void service_stop(struct ia *ia)
{
	struct service *service = &ia->service;

	spin_lock(&service->lock);
	service->stop = true;
	spin_unlock(&service->lock);
	wakefd_signal(service->wake);
	pthread_join(service->thread, NULL);
	service->started = false;
	close(service->wake);
	close(service->epoll);
}
