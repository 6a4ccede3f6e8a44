/* SPDX-License-Identifier: BSD-2-Clause */
/* Fake time: it stands still until a test moves it, or until all threads sleep. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "fake_impl.h"

#define MAX_FDS 64

/* A thread that has called tp_poll or fake_clock_auto, until it exits. */
struct clock_thread {
	struct clock_thread *next;
	bool first;	/* of the process */
	bool consumer;	/* not a service thread */
	bool automatic; /* time moves on while this thread and all others sleep */
	bool asleep;
	uint64_t deadline;
	unsigned nfds;
	struct pollfd fds[MAX_FDS]; /* lock; other threads poll them, too */
	int wake;		    /* eventfd */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* lock; a thread fell asleep, woke up or exited */
	uint64_t now;		/* lock; nanoseconds */
	bool real;
	struct clock_thread *threads; /* lock */
	unsigned expected;	      /* lock; service threads */
	unsigned polls;		      /* lock; calls of tp_poll */
	unsigned most_polls;	      /* lock; 0: any number is allowed */
} clock_state = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.now = 1000000000000,
};

static _Thread_local struct clock_thread *self;
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void time_move_if_idle(void);

static void clock_thread_exit(void *arg)
{
	struct clock_thread *thread = arg, **link = &clock_state.threads;

	pthread_mutex_lock(&clock_state.lock);
	while (*link != thread)
		link = &(*link)->next;
	*link = thread->next;
	time_move_if_idle();
	pthread_cond_broadcast(&clock_state.changed);
	pthread_mutex_unlock(&clock_state.lock);
	close(thread->wake);
	free(thread);
}

static void at_exit_create(void)
{
	fake_require_host(pthread_key_create(&at_exit, clock_thread_exit) == 0, "thread key");
}

static struct clock_thread *clock_thread_self(void)
{
	if (self)
		return self;
	pthread_once(&once, at_exit_create);
	fake_lock(); /* inside the fake no allocation is made to fail */
	self = calloc(1, sizeof(*self));
	fake_unlock();
	fake_require_host(self != NULL, "memory");
	self->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	fake_require_host(self->wake >= 0, "file descriptor");
	self->first = self->consumer = getpid() == gettid();
	pthread_setspecific(at_exit, self);
	pthread_mutex_lock(&clock_state.lock);
	self->next = clock_state.threads;
	clock_state.threads = self;
	pthread_mutex_unlock(&clock_state.lock);
	return self;
}

/* ---- which threads are idle; the lock is held in all of these ---- */

static bool clock_thread_is_ready(struct clock_thread *thread)
{
	return thread->deadline <= clock_state.now || poll(thread->fds, thread->nfds, 0) > 0;
}

static void clock_thread_wake(const struct clock_thread *thread)
{
	eventfd_write(thread->wake, 1);
}

/*
 * Whether every service thread sleeps with nothing to do, and with @consumers also every consumer
 * thread that time waits for. A sleeping thread that is ready is woken up explicitly: when its
 * descriptor is no longer readable by the time it polls, it goes back to sleep and signals that.
 */
static bool all_idle(bool consumers)
{
	unsigned services = 0;
	bool idle = true;

	for (struct clock_thread *thread = clock_state.threads; thread; thread = thread->next) {
		bool ignored = thread->consumer &&
			       (!consumers || thread->first || thread->automatic);

		services += !thread->consumer;
		if (!thread->asleep) {
			idle = idle && ignored;
		} else if (clock_thread_is_ready(thread)) {
			clock_thread_wake(thread);
			idle = false;
		}
	}
	return idle && services >= clock_state.expected;
}

static void time_set(uint64_t now)
{
	clock_state.now = now;
	for (struct clock_thread *thread = clock_state.threads; thread; thread = thread->next)
		if (thread->asleep && thread->deadline <= now)
			clock_thread_wake(thread);
}

/* Moves time to the next deadline if a thread with an automatic clock sleeps and all are idle. */
static void time_move_if_idle(void)
{
	uint64_t next = TP_NEVER;
	bool automatic = false;

	for (struct clock_thread *thread = clock_state.threads; thread; thread = thread->next) {
		if (!thread->asleep)
			continue;
		automatic = automatic || thread->automatic;
		if (thread->deadline < next)
			next = thread->deadline;
	}
	if (automatic && all_idle(true) && next != TP_NEVER)
		time_set(next);
}

/* ---- the seam ---- */

static uint64_t real_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

uint64_t tp_now(void)
{
	uint64_t now;

	if (clock_state.real)
		return real_now();
	pthread_mutex_lock(&clock_state.lock);
	now = clock_state.now;
	pthread_mutex_unlock(&clock_state.lock);
	return now;
}

static int real_poll(struct pollfd *fds, unsigned nfds, uint64_t deadline)
{
	uint64_t now = real_now(), left = deadline > now ? deadline - now : 0;
	const struct timespec ts = { .tv_sec = (time_t)(left / 1000000000),
				     .tv_nsec = (long)(left % 1000000000) };
	int n = ppoll(fds, nfds, deadline == TP_NEVER ? NULL : &ts, NULL);

	return n < 0 ? -errno : n;
}

/* The thread was cancelled in its sleep. */
static void sleep_cancelled(void *arg)
{
	struct clock_thread *thread = arg;

	pthread_mutex_lock(&clock_state.lock);
	thread->asleep = false;
	pthread_cond_broadcast(&clock_state.changed);
	pthread_mutex_unlock(&clock_state.lock);
}

/* ppoll, where the thread can be cancelled if its @cancel_state allows that. */
static int cancellable_ppoll(struct clock_thread *thread, struct pollfd *fds, unsigned nfds,
			     const sigset_t *signals, int cancel_state)
{
	int n;

	pthread_cleanup_push(sleep_cancelled, thread);
	pthread_setcancelstate(cancel_state, NULL);
	n = ppoll(fds, nfds, NULL, signals);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cleanup_pop(0);
	return n;
}

/*
 * Sleeps until a descriptor is readable or the thread is woken up; releases the lock meanwhile.
 * Returns 0 or -EINTR. @signals is the caller's signal mask: signals are delivered here only.
 */
static int sleep_once_relock(struct clock_thread *thread, const sigset_t *signals, int cancel_state)
{
	struct pollfd fds[MAX_FDS + 1];
	eventfd_t ignored;
	int n, err;

	memcpy(fds, thread->fds, thread->nfds * sizeof(*fds));
	fds[thread->nfds] = (struct pollfd){ .fd = thread->wake, .events = POLLIN };
	thread->asleep = true;
	pthread_cond_broadcast(&clock_state.changed);
	time_move_if_idle();
	pthread_mutex_unlock(&clock_state.lock);
	n = cancellable_ppoll(thread, fds, thread->nfds + 1, signals, cancel_state);
	err = n < 0 ? -errno : 0;
	pthread_mutex_lock(&clock_state.lock);
	(void)eventfd_read(thread->wake, &ignored);
	thread->asleep = false;
	return err;
}

int tp_poll(struct pollfd *fds, unsigned nfds, uint64_t deadline)
{
	struct clock_thread *thread;
	sigset_t all, signals;
	int n, cancel_state, err = 0;

	if (clock_state.real)
		return real_poll(fds, nfds, deadline);
	fake_require(nfds <= MAX_FDS, "tp_poll is called with at most 64 descriptors");
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	thread = clock_thread_self();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &signals);
	pthread_mutex_lock(&clock_state.lock);
	clock_state.polls++;
	fake_require(!clock_state.most_polls || clock_state.polls < clock_state.most_polls,
		     "tp_poll is called more often than the test allows");
	memcpy(thread->fds, fds, nfds * sizeof(*fds));
	thread->nfds = nfds;
	thread->deadline = deadline;
	while ((n = poll(thread->fds, nfds, 0)) == 0 && deadline > clock_state.now && err == 0)
		err = sleep_once_relock(thread, &signals, cancel_state);
	memcpy(fds, thread->fds, nfds * sizeof(*fds));
	time_move_if_idle(); /* time does not wait for this thread any more, it is awake */
	pthread_cond_broadcast(&clock_state.changed);
	pthread_mutex_unlock(&clock_state.lock);
	pthread_sigmask(SIG_SETMASK, &signals, NULL);
	pthread_setcancelstate(cancel_state, NULL);
	return n > 0 ? n : err;
}

int tp_epoll(int epoll, struct epoll_event *events, int max, uint64_t deadline)
{
	struct pollfd pollfd = { .fd = epoll, .events = POLLIN };
	int n = tp_poll(&pollfd, 1, deadline);

	return n > 0 ? epoll_wait(epoll, events, max, 0) : n;
}

void clock_after_fork(void)
{
	pthread_mutex_init(&clock_state.lock, NULL);
	pthread_cond_init(&clock_state.changed, NULL);
	clock_state.expected = 0;
	clock_state.threads = self;
	if (self)
		self->next = NULL;
}

void clock_expect(int n)
{
	pthread_mutex_lock(&clock_state.lock);
	clock_state.expected += (unsigned)n;
	time_move_if_idle();
	pthread_cond_broadcast(&clock_state.changed);
	pthread_mutex_unlock(&clock_state.lock);
}

/* ---- for tests ---- */

void fake_clock_advance(uint64_t ns)
{
	pthread_mutex_lock(&clock_state.lock);
	time_set(clock_state.now + ns);
	pthread_mutex_unlock(&clock_state.lock);
}

void fake_clock_auto(bool on)
{
	struct clock_thread *thread = clock_thread_self();

	pthread_mutex_lock(&clock_state.lock);
	thread->consumer = true;
	thread->automatic = on;
	pthread_mutex_unlock(&clock_state.lock);
}

void fake_clock_real(void)
{
	clock_state.real = true;
}

unsigned fake_polls(void)
{
	unsigned polls;

	pthread_mutex_lock(&clock_state.lock);
	polls = clock_state.polls;
	pthread_mutex_unlock(&clock_state.lock);
	return polls;
}

void fake_limit_polls(unsigned n)
{
	pthread_mutex_lock(&clock_state.lock);
	clock_state.most_polls = clock_state.polls + n;
	pthread_mutex_unlock(&clock_state.lock);
}

static unsigned waiters_asleep(void)
{
	unsigned n = 0;

	for (const struct clock_thread *thread = clock_state.threads; thread; thread = thread->next)
		n += thread->consumer && thread->asleep;
	return n;
}

void fake_wait_idle(unsigned waiters)
{
	pthread_mutex_lock(&clock_state.lock);
	while (!all_idle(false) || waiters_asleep() < waiters)
		pthread_cond_wait(&clock_state.changed, &clock_state.lock);
	pthread_mutex_unlock(&clock_state.lock);
}
