/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts and failures of calls, calls that wait, counts of objects. */
#include <sys/eventfd.h>

#include "impl.h"

#define TRACE_SIZE 8192

#define FV_CALL_ROW(name, traced) { #name, traced, 0, 0, 0, 0, false, false },
static struct {
	const char *name;
	bool traced;
	unsigned count;
	unsigned fail_in; /* calls until the one that fails; 0: none will */
	int err, always;
	bool held, firmly;
} calls[] = { FV_CALLS(FV_CALL_ROW) };

struct fv_state fv = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.interfaces = {
		{ "fveth0", "127.0.0.1", 0, 1 },
		{ "fveth1", "127.0.0.2", 1, 1 },
	},
	.next_number = 0x100,
	.next_port = 50000,
};

static char trace[TRACE_SIZE];
static _Thread_local bool ia_locked, inside;

void fv_require(bool kept, const char *rule)
{
	if (kept)
		return;
	fprintf(stderr, "rule of libibverbs or librdmacm broken: %s\n", rule);
	abort();
}

/* A thread that was cancelled with the lock would keep it. */
static _Thread_local int state_before_lock;

void fv_lock(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&fv.lock);
	state_before_lock = state;
	inside = true;
}

void fv_unlock(void)
{
	int state = state_before_lock;

	inside = false;
	pthread_mutex_unlock(&fv.lock);
	pthread_setcancelstate(state, NULL);
}

/* For alloc.c, which makes no allocation of the stand-in fail. */
bool fake_is_inside(void)
{
	return inside;
}

static void unlock_cleanup(void *unused)
{
	(void)unused;
	fv_unlock();
}

void fv_sleep_relock(const char *why)
{
	fv_require(!ia_locked, why);
	pthread_cleanup_push(unlock_cleanup, NULL);
	pthread_setcancelstate(state_before_lock, NULL);
	pthread_cond_wait(&fv.changed, &fv.lock);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cleanup_pop(0);
}

/* ---- calls ---- */

static enum fv_call call_named(const char *name)
{
	for (unsigned i = 0; i < COUNT_OF(calls); i++)
		if (!strcmp(calls[i].name, name))
			return (enum fv_call)i;
	fprintf(stderr, "the stand-in does not know the call %s\n", name);
	abort();
}

static void trace_add(const char *name)
{
	size_t used = strlen(trace);

	fv_require(used + strlen(name) + 2 < sizeof(trace), "the trace is full: fv_trace_clear");
	snprintf(trace + used, sizeof(trace) - used, "%s%s", used ? " " : "", name);
}

static void call_wait_relock(enum fv_call call)
{
	int state = state_before_lock;

	if (calls[call].firmly)
		state_before_lock = PTHREAD_CANCEL_DISABLE;
	fv_sleep_relock("a call waits under ia->lock");
	state_before_lock = state;
}

/* Posts make theirs when the request is in the queue, and only those of software devices. */
static bool begins_with_system_call(enum fv_call call)
{
	switch (call) {
	case CALL_ibv_bind_mw:
	case CALL_ibv_poll_cq:
	case CALL_ibv_post_recv:
	case CALL_ibv_post_send:
	case CALL_ibv_post_srq_recv:
		return false;
	default:
		return true;
	}
}

/* A system call is a cancellation point. */
int fv_enter(enum fv_call call)
{
	int err;

	if (begins_with_system_call(call))
		pthread_testcancel();
	fv_lock();
	calls[call].count++;
	if (calls[call].traced)
		trace_add(calls[call].name);
	pthread_cond_broadcast(&fv.changed);
	while (calls[call].held)
		call_wait_relock(call);
	err = calls[call].always;
	if (calls[call].fail_in && !--calls[call].fail_in)
		err = calls[call].err;
	if (err)
		fv_unlock();
	return err;
}

int fv_enter_errno(enum fv_call call)
{
	int err = fv_enter(call);

	if (err && err != FV_NO_ERRNO)
		errno = err;
	return err;
}

void fv_fail(const char *call, int err, unsigned nth)
{
	enum fv_call i = call_named(call);

	fv_lock();
	calls[i].err = err;
	calls[i].fail_in = nth;
	fv_unlock();
}

void fv_fail_always(const char *call, int err)
{
	enum fv_call i = call_named(call);

	fv_lock();
	calls[i].always = err;
	fv_unlock();
}

unsigned fv_calls(const char *call)
{
	enum fv_call i = call_named(call);
	unsigned count;

	fv_lock();
	count = calls[i].count;
	fv_unlock();
	return count;
}

const char *fv_trace(void)
{
	static char copy[TRACE_SIZE];

	fv_lock();
	memcpy(copy, trace, sizeof(copy));
	fv_unlock();
	return copy;
}

void fv_trace_clear(void)
{
	fv_lock();
	trace[0] = '\0';
	fv_unlock();
}

static void call_hold(const char *call, bool firmly)
{
	enum fv_call i = call_named(call);

	fv_lock();
	calls[i].held = true;
	calls[i].firmly = firmly;
	fv_unlock();
}

void fv_hold(const char *call)
{
	call_hold(call, false);
}

void fv_hold_firmly(const char *call)
{
	call_hold(call, true);
}

void fv_let_go(const char *call)
{
	enum fv_call i = call_named(call);

	fv_lock();
	calls[i].held = false;
	pthread_cond_broadcast(&fv.changed);
	fv_unlock();
}

void fv_await(const char *call, unsigned n)
{
	enum fv_call i = call_named(call);

	fv_lock();
	while (calls[i].count < n)
		pthread_cond_wait(&fv.changed, &fv.lock);
	fv_unlock();
}

void fv_ia_lock(void)
{
	ia_locked = true;
}

void fv_ia_unlock(void)
{
	ia_locked = false;
}

bool fv_ia_locked(void)
{
	return ia_locked;
}

/* ---- objects ---- */

void fv_alive_add(enum fv_kind kind, int n)
{
	fv.alive[kind] += (unsigned)n;
	pthread_cond_broadcast(&fv.changed);
}

static unsigned alive_locked(enum fv_kind kind)
{
	unsigned sum = 0;

	if (kind != FV_KINDS)
		return fv.alive[kind];
	for (unsigned i = 0; i < FV_KINDS; i++)
		sum += fv.alive[i];
	return sum;
}

unsigned fv_alive(enum fv_kind kind)
{
	unsigned count;

	fv_lock();
	count = alive_locked(kind);
	fv_unlock();
	return count;
}

void fv_await_nothing(void)
{
	fv_lock();
	while (alive_locked(FV_KINDS))
		pthread_cond_wait(&fv.changed, &fv.lock);
	fv_unlock();
}

void fv_free_poisoned(void *object, size_t size)
{
	memset(object, 0xee, size);
	__asm__ volatile("" : : "r"(object) : "memory"); /* or the compiler leaves that out */
	free(object);
}

uint32_t fv_number(void)
{
	return fv.next_number += 0x100;
}

struct fv_seen fv_seen(void)
{
	struct fv_seen seen;

	fv_lock();
	seen = fv.seen;
	fv_unlock();
	return seen;
}

/* ---- descriptors ---- */

int __real_eventfd(unsigned count, int flags);

int fv_fd_open(void)
{
	int fd = __real_eventfd(0, EFD_SEMAPHORE);

	fv_require(fd >= 0, "no descriptor is left");
	return fd;
}

void fv_fd_add(int fd)
{
	fv_require(eventfd_write(fd, 1) == 0, "no event can be announced");
}

bool fv_fd_take(int fd)
{
	eventfd_t count;

	return eventfd_read(fd, &count) == 0;
}
