/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts and failures of calls, counts of objects. */
#include "impl.h"

#define FF_CALL_ROW(name) { #name, 0, 0, 0, 0, NULL },
static struct {
	const char *name;
	unsigned count;
	unsigned fail_in; /* calls until the one that fails; 0: none will */
	unsigned times;	  /* that still fail from then on */
	int err;
	void (*hook)(void);
} scripts[] = { FF_CALLS(FF_CALL_ROW) };

struct ff_state ff = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.provider = {
		.name = "scripted",
		.caps = FI_MSG | FI_RMA,
		.orders = FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAW |
			  FI_ORDER_WAS | FI_ORDER_SAW | FI_ORDER_SAS,
		.op_flags = FI_DELIVERY_COMPLETE,
		.basic = true,
		.first_key = 1,
		.mr_key_size = 8,
		.cq_data_size = 8,
		.cm_data_size = FF_MAX_DATA,
		.iov_limit = 4,
		.rma_iov_limit = 4,
		.tx_size = 1024,
		.rx_size = 1024,
		.protocol = FI_PROTO_SOCK_TCP,
	},
	.next_port = 50000,
};

static _Thread_local bool is_inside;
static _Thread_local unsigned counts_here[COUNT_OF(scripts)];

void ff_require(bool kept, const char *rule)
{
	if (kept)
		return;
	fprintf(stderr, "rule of libfabric broken: %s\n", rule);
	abort();
}

void ff_lock(void)
{
	pthread_mutex_lock(&ff.lock);
	is_inside = true;
}

void ff_unlock(void)
{
	is_inside = false;
	pthread_mutex_unlock(&ff.lock);
}

/* For alloc.c, which makes no allocation of the stand-in fail. */
bool fake_is_inside(void)
{
	return is_inside;
}

struct ff_provider *ff_provider(void)
{
	return &ff.provider;
}

/* ---- calls ---- */

static enum ff_call script_named(const char *name)
{
	for (unsigned i = 0; i < COUNT_OF(scripts); i++)
		if (!strcmp(scripts[i].name, name))
			return (enum ff_call)i;
	fprintf(stderr, "the stand-in does not know the call %s\n", name);
	abort();
}

int ff_step_locked(enum ff_call call)
{
	void (*hook)(void) = scripts[call].hook;

	scripts[call].count++;
	counts_here[call]++;
	if (hook) {
		scripts[call].hook = NULL;
		hook();
	}
	if (!scripts[call].fail_in || --scripts[call].fail_in)
		return 0;
	if (--scripts[call].times)
		scripts[call].fail_in = 1;
	return scripts[call].err;
}

/* libfabric has locks of its own, and makes system calls, which are cancellation points. */
static void uncancelled_require(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	ff_require(state == PTHREAD_CANCEL_DISABLE, "no thread can be cancelled in its calls");
}

int ff_enter(enum ff_call call)
{
	int err;

	if (call >= CALL_fi_getinfo)
		uncancelled_require();
	ff_lock();
	err = ff_step_locked(call);
	if (err)
		ff_unlock();
	return err;
}

static void script_set(const char *call, int err, unsigned nth, unsigned times)
{
	enum ff_call i = script_named(call);

	ff_lock();
	scripts[i].err = err;
	scripts[i].fail_in = nth;
	scripts[i].times = times;
	ff_unlock();
}

void ff_hook(const char *call, void (*hook)(void))
{
	enum ff_call i = script_named(call);

	ff_lock();
	scripts[i].hook = hook;
	ff_unlock();
}

void ff_fail(const char *call, int err, unsigned nth)
{
	script_set(call, err, nth, 1);
}

void ff_fail_times(const char *call, int err, unsigned n)
{
	script_set(call, err, 1, n);
}

bool ff_fail_left(const char *call)
{
	enum ff_call i = script_named(call);
	bool left;

	ff_lock();
	left = scripts[i].fail_in;
	scripts[i].fail_in = 0;
	ff_unlock();
	return left;
}

unsigned ff_calls(const char *call)
{
	enum ff_call i = script_named(call);
	unsigned count;

	ff_lock();
	count = scripts[i].count;
	ff_unlock();
	return count;
}

unsigned ff_calls_here(const char *call)
{
	return counts_here[script_named(call)];
}

const char *ff_call_name(unsigned n)
{
	return n < COUNT_OF(scripts) ? scripts[n].name : NULL;
}

/* ---- objects ---- */

void ff_alive_add(enum ff_kind kind, int n)
{
	ff.alive[kind] += (unsigned)n;
}

unsigned ff_alive(enum ff_kind kind)
{
	unsigned sum = 0;

	ff_lock();
	for (unsigned i = 0; i < FF_KINDS; i++)
		if (kind == FF_KINDS || i == (unsigned)kind)
			sum += ff.alive[i];
	ff_unlock();
	return sum;
}

struct ff_seen ff_seen(void)
{
	struct ff_seen seen;

	ff_lock();
	seen = ff.seen;
	ff_unlock();
	return seen;
}
