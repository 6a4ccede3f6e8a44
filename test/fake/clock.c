/* SPDX-License-Identifier: BSD-2-Clause */
/* Fake time: it stands still until a test moves it, or until everybody sleeps. */
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

/* A thread that has called tp_poll, until it ends. */
struct sleeper {
	struct sleeper *next;
	bool first;	/* of the process */
	bool consumer;	/* no service thread */
	bool automatic; /* moves the time when it and all others sleep */
	bool asleep;
	uint64_t deadline;
	unsigned nfds;
	struct pollfd fds[MAX_FDS]; /* others look at them, too: with the lock held */
	int wake;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t moved; /* lock; somebody fell asleep or left */
	uint64_t now;	      /* lock */
	bool real;
	struct sleeper *sleepers; /* lock */
	unsigned expected;	  /* lock; service threads */
} clock_state = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.moved = PTHREAD_COND_INITIALIZER,
	.now = 1000000000000,
};

static _Thread_local struct sleeper *self;
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void time_flows(void);

static void sleeper_end(void *arg)
{
	struct sleeper *sleeper = arg, **link = &clock_state.sleepers;

	pthread_mutex_lock(&clock_state.lock);
	while (*link != sleeper)
		link = &(*link)->next;
	*link = sleeper->next;
	time_flows();
	pthread_cond_broadcast(&clock_state.moved);
	pthread_mutex_unlock(&clock_state.lock);
	close(sleeper->wake);
	free(sleeper);
}

static void key_make(void)
{
	fake_demand(pthread_key_create(&at_exit, sleeper_end) == 0,
		    "there is a thread key (no rule, but bad luck)");
}

static struct sleeper *sleeper_self(void)
{
	if (self)
		return self;
	pthread_once(&once, key_make);
	fake_lock(); /* so that no test starves it */
	self = calloc(1, sizeof(*self));
	fake_unlock();
	fake_demand(self != NULL, "there is memory for a thread (no rule, but bad luck)");
	self->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	fake_demand(self->wake >= 0, "there is a descriptor for a thread (no rule, but bad luck)");
	self->first = self->consumer = getpid() == gettid();
	pthread_setspecific(at_exit, self);
	pthread_mutex_lock(&clock_state.lock);
	self->next = clock_state.sleepers;
	clock_state.sleepers = self;
	pthread_mutex_unlock(&clock_state.lock);
	return self;
}

/* ---- who sleeps; all with the lock held ---- */

static bool has_something(struct sleeper *sleeper)
{
	return sleeper->deadline <= clock_state.now || poll(sleeper->fds, sleeper->nfds, 0) > 0;
}

static void nudge(const struct sleeper *sleeper)
{
	eventfd_write(sleeper->wake, 1);
}

/*
 * Is every service thread asleep with nothing to do, and those @consumers that time waits for? A
 * sleeper with something to do is nudged: what there was to do may be gone before it looks, and
 * then it must say so.
 */
static bool quiet(bool consumers)
{
	unsigned services = 0;
	bool all = true;

	for (struct sleeper *sleeper = clock_state.sleepers; sleeper; sleeper = sleeper->next) {
		bool ignored = sleeper->consumer &&
			       (!consumers || sleeper->first || sleeper->automatic);

		services += !sleeper->consumer;
		if (!sleeper->asleep) {
			all = all && ignored;
		} else if (has_something(sleeper)) {
			nudge(sleeper);
			all = false;
		}
	}
	return all && services >= clock_state.expected;
}

static void time_set(uint64_t now)
{
	clock_state.now = now;
	for (struct sleeper *sleeper = clock_state.sleepers; sleeper; sleeper = sleeper->next)
		if (sleeper->asleep && sleeper->deadline <= now)
			nudge(sleeper);
}

/* To the next deadline, if an automatic thread sleeps and nobody has anything to do. */
static void time_flows(void)
{
	uint64_t next = TP_NEVER;
	bool automatic = false;

	for (struct sleeper *sleeper = clock_state.sleepers; sleeper; sleeper = sleeper->next) {
		if (!sleeper->asleep)
			continue;
		automatic = automatic || sleeper->automatic;
		if (sleeper->deadline < next)
			next = sleeper->deadline;
	}
	if (automatic && quiet(true) && next != TP_NEVER)
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

/*
 * Sleeps once, the lock given up meanwhile. 0 or -EINTR; only here do signals of the mask @signals
 * get through.
 */
static int sleep_once(struct sleeper *sleeper, const sigset_t *signals)
{
	struct pollfd fds[MAX_FDS + 1];
	eventfd_t ignored;
	int n, err;

	memcpy(fds, sleeper->fds, sleeper->nfds * sizeof(*fds));
	fds[sleeper->nfds] = (struct pollfd){ .fd = sleeper->wake, .events = POLLIN };
	sleeper->asleep = true;
	pthread_cond_broadcast(&clock_state.moved);
	time_flows();
	pthread_mutex_unlock(&clock_state.lock);
	n = ppoll(fds, sleeper->nfds + 1, NULL, signals);
	err = n < 0 ? -errno : 0;
	pthread_mutex_lock(&clock_state.lock);
	(void)eventfd_read(sleeper->wake, &ignored);
	sleeper->asleep = false;
	return err;
}

int tp_poll(struct pollfd *fds, unsigned nfds, uint64_t deadline)
{
	struct sleeper *sleeper;
	sigset_t all, signals;
	int n, err = 0;

	if (clock_state.real)
		return real_poll(fds, nfds, deadline);
	fake_demand(nfds <= MAX_FDS, "nobody polls that many descriptors");
	sleeper = sleeper_self();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &signals);
	pthread_mutex_lock(&clock_state.lock);
	memcpy(sleeper->fds, fds, nfds * sizeof(*fds));
	sleeper->nfds = nfds;
	sleeper->deadline = deadline;
	while ((n = poll(sleeper->fds, nfds, 0)) == 0 && deadline > clock_state.now && err == 0)
		err = sleep_once(sleeper, &signals);
	memcpy(fds, sleeper->fds, nfds * sizeof(*fds));
	time_flows(); /* a consumer that leaves holds nobody up any more */
	pthread_cond_broadcast(&clock_state.moved);
	pthread_mutex_unlock(&clock_state.lock);
	pthread_sigmask(SIG_SETMASK, &signals, NULL);
	return n > 0 ? n : err;
}

void clock_expect(int n)
{
	pthread_mutex_lock(&clock_state.lock);
	clock_state.expected += (unsigned)n;
	time_flows();
	pthread_cond_broadcast(&clock_state.moved);
	pthread_mutex_unlock(&clock_state.lock);
}

/* ---- the test's ---- */

void fake_clock_advance(uint64_t ns)
{
	pthread_mutex_lock(&clock_state.lock);
	time_set(clock_state.now + ns);
	pthread_mutex_unlock(&clock_state.lock);
}

void fake_clock_auto(bool on)
{
	struct sleeper *sleeper = sleeper_self();

	pthread_mutex_lock(&clock_state.lock);
	sleeper->consumer = true;
	sleeper->automatic = on;
	pthread_mutex_unlock(&clock_state.lock);
}

void fake_clock_real(void)
{
	clock_state.real = true;
}

static unsigned sleeping_consumers(void)
{
	unsigned n = 0;

	for (const struct sleeper *sleeper = clock_state.sleepers; sleeper; sleeper = sleeper->next)
		n += sleeper->consumer && sleeper->asleep;
	return n;
}

void fake_settle(unsigned sleepers)
{
	pthread_mutex_lock(&clock_state.lock);
	while (!quiet(false) || sleeping_consumers() < sleepers)
		pthread_cond_wait(&clock_state.moved, &clock_state.lock);
	pthread_mutex_unlock(&clock_state.lock);
}
