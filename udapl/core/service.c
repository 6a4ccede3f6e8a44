/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The service thread of an IA. It handles events of the connection manager and of the device, idle
 * completion channels, timers, and work that the data path queues.
 */
#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/race.h"
#include "core.h"

#define EPOLL_BATCH 16 /* ready descriptors that one epoll_wait may return */

bool service_is_current(const struct ia *ia)
{
	return ia->service.started && pthread_equal(ia->service.thread, pthread_self());
}

bool up_is_service_thread(const struct ia *ia)
{
	return service_is_current(ia);
}

/* ---- work ---- */

void service_queue_work(struct ia *ia, struct work *work)
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
		wakefd_signal(service->wakefd);
}

/* Takes the first work from the queue, and returns it; NULL if there is none. */
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

/*
 * Runs unlocked work, that is code of the consumer, without our locks. A thread that cancels the
 * work waits for its end.
 */
static void work_run_relock(struct ia *ia, struct work *work)
{
	assert_locked(&ia->lock);
	mutex_unlock(&ia->lock);
	work->run(work);
	mutex_lock(&ia->lock);
	spin_lock(&ia->service.lock);
	ia->service.running = NULL;
	spin_unlock(&ia->service.lock);
	pthread_cond_broadcast(&ia->waiter_left);
}

static void work_run_all_relock(struct ia *ia)
{
	struct work *work;

	assert_locked(&ia->lock);
	while ((work = work_take(&ia->service))) {
		if (work->unlocked)
			work_run_relock(ia, work);
		else
			work->run(work);
	}
}

/* Takes @work out of the queue, if it is there. Returns whether it is running at this moment. */
static bool work_unqueue(struct service *service, struct work *work)
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

void service_cancel_work_locked(struct ia *ia, struct work *work)
{
	assert_locked(&ia->lock);
	debug_assert(!work->unlocked);
	work_unqueue(&ia->service, work);
}

void service_cancel_unlocked_work(struct ia *ia, struct work *work)
{
	debug_assert(work->unlocked);
	mutex_lock(&ia->lock);
	while (work_unqueue(&ia->service, work) && !service_is_current(ia))
		cond_wait_relock(&ia->waiter_left, &ia->lock);
	mutex_unlock(&ia->lock);
}

/* ---- timers ---- */

void timer_cancel_locked(struct ia *ia, struct timer *timer)
{
	assert_locked(&ia->lock);
	if (timer->deadline)
		timer_heap_remove(&ia->service.timers, timer);
	timer->deadline = 0;
}

void timer_set_locked(struct ia *ia, struct timer *timer, uint64_t deadline,
		      void (*run)(struct timer *))
{
	assert_locked(&ia->lock);
	timer_cancel_locked(ia, timer);
	timer->deadline = deadline;
	timer->run = run;
	timer_heap_add(&ia->service.timers, timer);
	if (deadline < ia->service.sleeps_until) {
		ia->service.sleeps_until = 0; /* until it sleeps again, others need no signal */
		wakefd_signal(ia->service.wakefd);
	}
}

static void timers_run_locked(struct ia *ia)
{
	uint64_t now = ia->service.timers.first ? tp_now() : 0;
	struct timer *timer;

	assert_locked(&ia->lock);
	while ((timer = ia->service.timers.first) && timer->deadline <= now) {
		timer_cancel_locked(ia, timer);
		timer->run(timer);
	}
}

/* ---- the device ---- */

void up_wake(struct ia *ia)
{
	atomic_store(&ia->service.dev_due, true);
	wakefd_signal(ia->service.wakefd);
}

static int epoll_set(struct service *service, int op, int fd, uint32_t events, void *what)
{
	struct epoll_event event = { .events = events, .data.ptr = what };

	return epoll_ctl(service->epoll, op, fd, &event) == 0 ? 0 : -errno;
}

/* Adds the descriptors of the device to the set. */
static int device_watch(struct ia *ia)
{
	struct service *service = &ia->service;
	unsigned n = tp_dev_fds(ia->dev, service->dev_fds);
	int err = 0;

	for (unsigned i = 0; i < n && !err; i++)
		err = epoll_set(service, EPOLL_CTL_ADD, service->dev_fds[i], EPOLLIN,
				&service->dev_fds[i]);
	return err;
}

/* ---- for those who attend to the device ---- */

bool service_listen(struct ia *ia, bool listen)
{
	struct service *service = &ia->service;

	return !epoll_set(service, EPOLL_CTL_MOD, service->dev_fds[0],
			  listen ? EPOLLIN : EPOLLONESHOT, &service->dev_fds[0]);
}

/*
 * Returns when the device is due for the service thread. A waiter that listens wakes up for that
 * itself, unless another thread has made it earlier since.
 */
static uint64_t device_deadline_locked(struct ia *ia)
{
	const struct attendance *attendance = &ia->attendance;
	uint64_t deadline = tp_dev_deadline(ia->dev);

	assert_locked(&ia->lock);
	return attendance->lent && attendance->due <= deadline ? TP_NEVER : deadline;
}

static uint64_t timers_deadline_locked(const struct ia *ia)
{
	const struct timer *timer = ia->service.timers.first;

	assert_locked(&ia->lock);
	return timer ? timer->deadline : TP_NEVER;
}

/* Returns when the service thread has something to do next, if nothing happens before. */
static uint64_t next_deadline_locked(struct ia *ia)
{
	return min_u64(timers_deadline_locked(ia), device_deadline_locked(ia));
}

void service_check_deadline_locked(struct ia *ia)
{
	uint64_t next = atomic_load(&ia->attendance.away) ? timers_deadline_locked(ia)
							  : next_deadline_locked(ia);

	assert_locked(&ia->lock);
	if (next < ia->service.sleeps_until) {
		ia->service.sleeps_until = 0;
		wakefd_signal(ia->service.wakefd);
	}
}

/* ---- the device's events ---- */

static bool device_is_due_locked(struct ia *ia)
{
	uint64_t deadline = tp_dev_deadline(ia->dev);

	assert_locked(&ia->lock);
	return atomic_exchange(&ia->service.dev_due, false) ||
	       (deadline != TP_NEVER && deadline <= tp_now());
}

/*
 * Handles what the device's descriptors report, one bit each, and what is due. One that is in error
 * stays so: after what could still be read there, it leaves the set.
 */
static void handle_device_locked(struct ia *ia, unsigned ready, unsigned in_error)
{
	struct service *service = &ia->service;

	assert_locked(&ia->lock);
	if (ready | in_error || device_is_due_locked(ia))
		tp_dev_progress(ia->dev, ready | in_error);
	for (unsigned i = 0; i < TP_DEV_FDS; i++)
		if (in_error & 1u << i)
			(void)epoll_ctl(service->epoll, EPOLL_CTL_DEL, service->dev_fds[i], NULL);
	if (in_error)
		up_dev_fatal(ia);
}

/*
 * ---- busy polling ----
 *
 * Where something is expected at once the thread does not sleep: to be woken up takes longer. It
 * yields its processor in each round, and so it gets that back late if others want it. Then it
 * sleeps as usual for some time; four times as long as the time before, so that trials cost little,
 * unless nobody has wanted the processor for a while. If it gets that back very late, its group may
 * have used up what it may have of processors, which those that poll take from the rest of the
 * program: such a stall is followed by a long time, and by one twice as long if the one before was
 * not long ago.
 */
#define LONG_ROUND	   UINT64_C(200000)    /* ns; others have had the processor */
#define LONGEST_ROUND	   UINT64_C(10000000)  /* ns; more than the turns of a few others */
#define FREE_TIME	   UINT64_C(1000000)   /* ns, of rounds; nobody has wanted it */
#define SHORTEST_REST	   UINT64_C(1000000)   /* ns */
#define LONGEST_REST	   UINT64_C(500000000) /* ns; of those that follow no stall */
#define LONGEST_STALL_REST (128 * LONGEST_REST)
#define LONG_AGO	   10 /* times the rest */

/* Returns how long the thread rests that has got its processor back very late. */
static uint64_t stall_rest(struct busy_poll *busy, uint64_t now)
{
	const bool again = busy->stall_rest && now - busy->stalled < LONG_AGO * busy->stall_rest;

	busy->stalled = now;
	busy->stall_rest = again ? min_u64(2 * busy->stall_rest, LONGEST_STALL_REST) : LONGEST_REST;
	return busy->stall_rest;
}

void busy_poll_round(struct busy_poll *busy, uint64_t began, uint64_t now)
{
	if (now - began < LONG_ROUND) {
		busy->free += now - began;
		return;
	}
	if (now - began >= LONGEST_ROUND)
		busy->rest = stall_rest(busy, now);
	else if (busy->free >= FREE_TIME)
		busy->rest = SHORTEST_REST;
	else
		busy->rest = min_u64(max_u64(4 * busy->rest, SHORTEST_REST), LONGEST_REST);
	busy->free = 0;
	atomic_store(&busy->rests_until, now + busy->rest);
}

bool busy_poll_allowed(const struct busy_poll *busy, uint64_t now)
{
	return now >= atomic_load(&busy->rests_until);
}

bool up_may_busy_poll(struct ia *ia)
{
	return service_is_current(ia) && busy_poll_allowed(&ia->service.busy, tp_now()) &&
	       thread_shares_fairly();
}

/* Does what tp_epoll does, and does not sleep. After a long round it returns early. */
static int epoll_busy(struct service *service, struct epoll_event *events, uint64_t deadline)
{
	uint64_t began, now = tp_now();
	int ready;

	do {
		began = now;
		ready = epoll_wait(service->epoll, events, EPOLL_BATCH, 0);
		if (ready)
			return ready;
		sched_yield();
		now = tp_now();
		busy_poll_round(&service->busy, began, now);
	} while (now < deadline && busy_poll_allowed(&service->busy, now));
	return 0;
}

/* ---- the thread ---- */

static void handle_events_locked(struct ia *ia, const struct epoll_event *events, int n)
{
	struct service *service = &ia->service;
	unsigned dev_ready = 0, dev_in_error = 0;

	assert_locked(&ia->lock);
	for (int i = 0; i < n; i++) {
		bool in_error = events[i].events & (EPOLLERR | EPOLLHUP);
		void *what = events[i].data.ptr;
		unsigned bits = 0;

		for (unsigned fd = 0; fd < TP_DEV_FDS; fd++)
			bits |= what == &service->dev_fds[fd] ? 1u << fd : 0;
		dev_ready |= bits;
		dev_in_error |= in_error ? bits : 0;
		if (what == service)
			wakefd_clear(service->wakefd);
		else if (!bits)
			watch_report_locked(ia, &events[i]);
	}
	handle_device_locked(ia, dev_ready, dev_in_error);
}

static bool stop_requested(struct service *service)
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
	struct epoll_event events[EPOLL_BATCH];

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL); /* by nobody: an agent knows it */
	thread_take_short_turns();
	mutex_lock(&ia->lock);
	while (!stop_requested(service)) {
		uint64_t deadline = next_deadline_locked(ia);
		bool busy = deadline <= tp_dev_deadline(ia->dev) && tp_dev_busy_polls(ia->dev);
		int ready;

		service->sleeps_until = deadline;
		mutex_unlock(&ia->lock);
		ready = busy ? epoll_busy(service, events, deadline)
			     : tp_epoll(service->epoll, events, EPOLL_BATCH, deadline);
		race_reach(RACE_NAMED, ia);
		mutex_lock(&ia->lock);
		service->sleeps_until = 0;
		handle_events_locked(ia, events, ready);
		timers_run_locked(ia);
		work_run_all_relock(ia);
	}
	mutex_unlock(&ia->lock);
	return NULL;
}

/*
 * If the service thread forked, in a proxy agent, the child has this thread alone: it ends when the
 * agent returns, and the child with it.
 */
void service_after_fork(struct ia *ia)
{
	struct service *service = &ia->service;

	spin_after_fork(&service->lock);
	service->stop = true;
	service->work = NULL;
	service->work_end = &service->work;
}

int service_open(struct ia *ia)
{
	struct service *service = &ia->service;
	int err;

	spin_init(&service->lock, RANK_SERVICE);
	service->work_end = &service->work;
	service->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (service->epoll < 0)
		return -errno;
	service->wakefd = wakefd_open();
	if (service->wakefd < 0) {
		err = service->wakefd;
		goto close_epoll;
	}
	err = epoll_set(service, EPOLL_CTL_ADD, service->wakefd, EPOLLIN, service);
	if (err)
		goto close_wakefd;
	return 0;
close_wakefd:
	close(service->wakefd);
close_epoll:
	close(service->epoll);
	return err;
}

int service_start(struct ia *ia)
{
	struct service *service = &ia->service;
	int err = device_watch(ia);

	if (err)
		return err;
	/* The new thread reads service->thread only with the lock held. */
	mutex_lock(&ia->lock);
	err = thread_start(&service->thread, service_main, ia);
	service->started = err == 0;
	mutex_unlock(&ia->lock);
	return err;
}

void service_stop(struct ia *ia)
{
	struct service *service = &ia->service;

	spin_lock(&service->lock);
	service->stop = true;
	spin_unlock(&service->lock);
	wakefd_signal(service->wakefd);
	pthread_join(service->thread, NULL);
	service->started = false;
}

void service_close(struct ia *ia)
{
	close(ia->service.wakefd);
	close(ia->service.epoll);
}
