/* SPDX-License-Identifier: BSD-2-Clause */
/* The lock, the injected faults, and the counts of calls and of live objects. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_impl.h"

struct fake fake = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.upcall_over = PTHREAD_COND_INITIALIZER,
	.attr = {
		.vendor = "a test",
		.hw_version = 1,
		.fw_major = 1,
		.caps = TP_CAP_CQ_RESIZE | TP_CAP_DATA_BESIDE |
			(DAT_EDITION == 2 ? TP_CAP_IMMED | TP_CAP_ATOMIC | TP_CAP_ZERO_BASED |
						    TP_CAP_QP_WINDOWS | TP_CAP_INVALIDATE
					  : 0),
		.max_qp = 65536,
		.max_qp_wr = 8192,
		.max_cq = 65536,
		.max_cqe = 1 << 20,
		.max_mr = 1 << 20,
		.max_pd = 4096,
		.max_mw = 4096,
		.max_srq = 4096,
#if DAT_EDITION == 2
		.max_datagram = 1024,
		.max_datagram_reply_pdata = 136,
		.max_datagram_reject_pdata = 132,
#endif
		.max_srq_wr = 8192,
		.max_srq_sge = FAKE_MAX_SGE,
		.max_sge = FAKE_MAX_SGE,
		.max_read_sge = FAKE_MAX_SGE,
		.max_read_wr_sge = FAKE_MAX_SGE,
		.max_read_in = 16,
		.max_read_out = 16,
		.max_read_in_total = 65536,
		.max_request_pdata = 56,
		.max_reply_pdata = 196,
		.max_reject_pdata = 144,
		.max_mr_size = 1ULL << 40,
		.max_message = 1ULL << 31,
	},
	.next_key = 1,
	.wire_end = &fake.wire,
	.next_port = 49152,
};

static struct {
	const char *name;
	/* TEARDOWN: fake_fail can make it fail, fake_fail_call does not count it */
	enum { NEVER_FAILS, MAY_FAIL, TEARDOWN } fails;
	bool uncertain; /* the core has forbidden cancellation, or the transport has to */
	unsigned count;
	unsigned fail_in; /* calls until the one that fails; 0: none will */
	int err;
} calls[CALLS] = {
	[CALL_DEV_OPEN] = { .name = "dev_open", .fails = MAY_FAIL },
	[CALL_DEV_CLOSE] = { .name = "dev_close" },
	[CALL_DEV_PROGRESS] = { .name = "dev_progress" },
	[CALL_PD_CREATE] = { .name = "pd_create", .fails = MAY_FAIL },
	[CALL_PD_DESTROY] = { .name = "pd_destroy" },
	[CALL_MR_REG] = { .name = "mr_reg", .fails = MAY_FAIL },
	[CALL_MR_DEREG] = { .name = "mr_dereg", .fails = TEARDOWN },
	[CALL_MW_CREATE] = { .name = "mw_create", .fails = MAY_FAIL },
	[CALL_MW_DESTROY] = { .name = "mw_destroy" },
	[CALL_CQ_CREATE] = { .name = "cq_create", .fails = MAY_FAIL },
	[CALL_CQ_DESTROY] = { .name = "cq_destroy" },
	[CALL_CQ_RESIZE] = { .name = "cq_resize", .fails = MAY_FAIL },
	[CALL_CQ_POLL] = { .name = "cq_poll", .uncertain = true },
	[CALL_CQ_ARM] = { .name = "cq_arm", .fails = MAY_FAIL },
	[CALL_CQ_EVENTS] = { .name = "cq_events" },
	[CALL_SRQ_CREATE] = { .name = "srq_create", .fails = MAY_FAIL },
	[CALL_SRQ_DESTROY] = { .name = "srq_destroy" },
	[CALL_SRQ_RESIZE] = { .name = "srq_resize", .fails = MAY_FAIL },
	[CALL_SRQ_ARM] = { .name = "srq_arm", .fails = MAY_FAIL },
	[CALL_SRQ_POST] = { .name = "srq_post", .fails = MAY_FAIL, .uncertain = true },
	[CALL_QP_CREATE] = { .name = "qp_create", .fails = MAY_FAIL },
	[CALL_QP_ERROR] = { .name = "qp_error", .fails = TEARDOWN },
	[CALL_QP_DESTROY] = { .name = "qp_destroy" },
	[CALL_QP_FORGET] = { .name = "qp_forget" },
	[CALL_POST_SEND] = { .name = "post_send", .fails = MAY_FAIL, .uncertain = true },
	[CALL_POST_RECV] = { .name = "post_recv", .fails = MAY_FAIL, .uncertain = true },
	[CALL_POST_WRITE] = { .name = "post_write", .fails = MAY_FAIL, .uncertain = true },
	[CALL_POST_READ] = { .name = "post_read", .fails = MAY_FAIL, .uncertain = true },
	[CALL_POST_WRITE_IMMED] = { .name = "post_write_immed",
				    .fails = MAY_FAIL,
				    .uncertain = true },
	[CALL_POST_ATOMIC] = { .name = "post_atomic", .fails = MAY_FAIL, .uncertain = true },
	[CALL_POST_BIND] = { .name = "post_bind", .fails = MAY_FAIL, .uncertain = true },
	[CALL_POST_MARKER] = { .name = "post_marker", .fails = MAY_FAIL },
	[CALL_LISTEN] = { .name = "listen", .fails = MAY_FAIL },
	[CALL_UNLISTEN] = { .name = "unlisten" },
	[CALL_CONNECT] = { .name = "connect", .fails = MAY_FAIL },
	[CALL_ACCEPT] = { .name = "accept", .fails = MAY_FAIL },
	[CALL_REJECT] = { .name = "reject" },
	[CALL_RELEASE] = { .name = "release" },
	[CALL_ESTABLISH] = { .name = "establish", .fails = TEARDOWN },
	[CALL_DATAGRAM_CONNECT] = { .name = "datagram_connect", .fails = MAY_FAIL },
	[CALL_DATAGRAM_ACCEPT] = { .name = "datagram_accept", .fails = MAY_FAIL },
	[CALL_POST_DATAGRAM] = { .name = "post_datagram", .fails = MAY_FAIL, .uncertain = true },
	[CALL_DATAGRAM_RESUME] = { .name = "datagram_resume", .fails = TEARDOWN },
	[CALL_AH_CREATE] = { .name = "ah_create", .fails = TEARDOWN },
	[CALL_AH_DESTROY] = { .name = "ah_destroy" },
};

/* of fake_fail_call */
static _Thread_local unsigned fail_call_in; /* calls until the one that fails; 0: none will */
static _Thread_local bool fail_call_done;
static _Thread_local bool inside;

void fake_require(bool kept, const char *rule)
{
	if (kept)
		return;
	fprintf(stderr, "fake transport: the core broke a rule of the seam: %s\n", rule);
	abort();
}

void fake_require_host(bool available, const char *resource)
{
	if (available)
		return;
	fprintf(stderr, "fake transport: this host is out of a resource: %s\n", resource);
	abort();
}

/* A thread that was cancelled with the lock would keep it. */
static _Thread_local int state_before_lock;

void fake_lock(void)
{
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state_before_lock);
	pthread_mutex_lock(&fake.lock);
	inside = true;
}

void fake_unlock(void)
{
	inside = false;
	pthread_mutex_unlock(&fake.lock);
	pthread_setcancelstate(state_before_lock, NULL);
}

bool fake_is_inside(void)
{
	return inside;
}

/* ---- threads that stay in a call ---- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* lock */
	enum { NO_NEWS, STAYS, GOES_ON, PASSES } state;
} stay = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static _Thread_local unsigned stay_in; /* calls until the one in which the thread stays; 0: none */

static void stay_set(int state)
{
	pthread_mutex_lock(&stay.lock);
	stay.state = state;
	pthread_cond_broadcast(&stay.changed);
	pthread_mutex_unlock(&stay.lock);
}

static void stay_here(void)
{
	stay_set(STAYS);
	pthread_mutex_lock(&stay.lock);
	while (stay.state != GOES_ON)
		pthread_cond_wait(&stay.changed, &stay.lock);
	stay.state = NO_NEWS;
	pthread_mutex_unlock(&stay.lock);
}

void fake_stay(unsigned n)
{
	if (!n && stay_in)
		stay_set(PASSES);
	stay_in = n;
}

bool fake_wait_stay(void)
{
	bool stays;

	pthread_mutex_lock(&stay.lock);
	while (stay.state != STAYS && stay.state != PASSES)
		pthread_cond_wait(&stay.changed, &stay.lock);
	stays = stay.state == STAYS;
	if (!stays)
		stay.state = NO_NEWS;
	pthread_mutex_unlock(&stay.lock);
	return stays;
}

void fake_go_on(void)
{
	stay_set(GOES_ON);
}

/* ---- calls ---- */

static void uncancelled_require(int state)
{
	fake_require(state == PTHREAD_CANCEL_DISABLE,
		     "no thread can be cancelled in a call of the transport");
}

void fake_require_uncancelled(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	uncancelled_require(state);
}

/* A call of a transport may make system calls, which are cancellation points. */
static void call_reach(enum fake_call call)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	if (!calls[call].uncertain)
		uncancelled_require(state);
	if (stay_in > 0 && --stay_in == 0)
		stay_here();
	pthread_setcancelstate(state, NULL);
}

void fake_begin(enum fake_call call)
{
	call_reach(call);
	fake_lock();
	calls[call].count++;
}

int fake_fault_locked(enum fake_call call)
{
	calls[call].count++;
	if (calls[call].fail_in > 0 && --calls[call].fail_in == 0)
		return -calls[call].err;
	if (calls[call].fails == MAY_FAIL && fail_call_in > 0 && --fail_call_in == 0) {
		fail_call_done = true;
		return -ENOMEM;
	}
	return 0;
}

int fake_enter(enum fake_call call)
{
	int err;

	call_reach(call);
	fake_lock();
	err = fake_fault_locked(call);
	if (err)
		fake_unlock();
	return err;
}

static enum fake_call call_named(const char *name)
{
	for (enum fake_call call = 0; call < CALLS; call++)
		if (strcmp(calls[call].name, name) == 0)
			return call;
	fprintf(stderr, "fake transport: the test names an unknown call: %s\n", name);
	abort();
}

void fake_fail(const char *name, int err, unsigned nth)
{
	enum fake_call call = call_named(name);

	if (calls[call].fails == NEVER_FAILS) {
		fprintf(stderr,
			"fake transport: the test injects a fault into a call that cannot "
			"fail: %s\n",
			name);
		abort();
	}
	fake_lock();
	calls[call].fail_in = nth;
	calls[call].err = err;
	fake_unlock();
}

void fake_fail_call(unsigned n)
{
	fail_call_in = n;
	fail_call_done = false;
}

bool fake_failed(void)
{
	return fail_call_done;
}

unsigned fake_calls(const char *name)
{
	enum fake_call call = call_named(name);
	unsigned count;

	fake_lock();
	count = calls[call].count;
	fake_unlock();
	return count;
}

unsigned fake_alive(enum fake_kind kind)
{
	unsigned count = 0;

	fake_lock();
	for (enum fake_kind k = 0; k < FAKE_ANY; k++)
		if (k == kind || kind == FAKE_ANY)
			count += fake.alive[k];
	fake_unlock();
	return count;
}

struct fake_seen fake_seen(void)
{
	struct fake_seen seen;

	fake_lock();
	seen = fake.seen;
	fake_unlock();
	return seen;
}

struct tp_attr *fake_attr(void)
{
	return &fake.attr;
}

void fake_quirks(unsigned quirks)
{
	fake_lock();
	fake.quirks = quirks;
	fake_unlock();
}
