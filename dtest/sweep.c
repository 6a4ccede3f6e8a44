/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dtest -a: latency and bandwidth over sizes that double from 1 byte. For each size the two sides
 * exchange pings, then the client streams RDMA writes and reads back what it wrote, and both
 * compare the bytes that arrived.
 */
#include "dtest.h"

#include <stdio.h>
#include <string.h>

enum {
	COOKIE_PING = 0x2222,
	WARM_UP = 10, /* pings before those that are measured */
};

struct dtest_sweep {
	struct dtest *t;
	size_t size;
	unsigned count; /* pings, writes, and reads */
	struct samples samples;
	double writes, reads; /* 10^6 bytes a second */
};

/* ---- data ---- */

/* The byte differs between sides, between sizes, and from byte to byte. */
static unsigned char dtest_sweep_byte(bool server, size_t size, size_t at)
{
	return (unsigned char)(at * 7 + at / 251 + size * 3 + (server ? 101 : 42));
}

static void dtest_sweep_fill(const struct dtest_sweep *sweep)
{
	for (size_t at = 0; at < sweep->size; at++)
		sweep->t->out.mem[at] = (char)dtest_sweep_byte(sweep->t->server, sweep->size, at);
}

/* Compares the buffer "in" with what @server, or else the client, sends. */
static int dtest_sweep_check(const struct dtest_sweep *sweep, bool server, size_t length)
{
	const struct dtest *t = sweep->t;

	for (size_t at = 0; at < length; at++) {
		unsigned char byte = (unsigned char)t->in.mem[at];
		unsigned char wanted = dtest_sweep_byte(server, sweep->size, at);

		if (byte != wanted) {
			dtest_error("sweep", "of %zu bytes, byte %zu is %#x instead of %#x",
				    sweep->size, at, byte, wanted);
			return -1;
		}
	}
	return 0;
}

/* ---- messages ---- */

/* All receives share the memory, because the peer sends one message at a time. */
static int dtest_sweep_post(struct dtest *t, unsigned number)
{
	DAT_LMR_TRIPLET iov = dtest_iov(&t->in, 0, t->opt.size);

	return CALL(dat_ep_post_recv, t->ep, 1, &iov, dtest_cookie(number),
		    DAT_COMPLETION_DEFAULT_FLAG);
}

/*
 * Posts receives before the connection exists. From then on each message is replaced by a new one.
 */
int dtest_sweep_prepare(struct dtest *t)
{
	for (unsigned i = 0; i < SWEEP_RECEIVES; i++)
		if (dtest_sweep_post(t, i) < 0)
			return -1;
	return 0;
}

static int dtest_sweep_send(struct dtest *t, size_t size)
{
	DAT_LMR_TRIPLET iov = dtest_iov(&t->out, 0, size);

	return CALL(dat_ep_post_send, t->ep, 1, &iov, dtest_cookie(COOKIE_PING),
		    DAT_COMPLETION_DEFAULT_FLAG);
}

static int dtest_sweep_receive(struct dtest *t, size_t size)
{
	if (dtest_expect_completion(t, "message", t->recv_evd, t->pings_in, size) < 0)
		return -1;
	t->pings_in++;
	return 0;
}

/* Does what follows a message, when the time of its round trip has been taken. */
static int dtest_sweep_settle(struct dtest *t, size_t size)
{
	if (dtest_sweep_post(t, t->pings_in + SWEEP_RECEIVES - 1) < 0)
		return -1;
	return dtest_expect_completion(t, "message", t->request_evd, COOKIE_PING, size);
}

/*
 * The client sends a message of one byte, then the server, which calls @act between them. The byte
 * is the first one of the data, so that it does not disturb them.
 */
static int dtest_sweep_sync(struct dtest_sweep *sweep, int (*act)(struct dtest_sweep *))
{
	struct dtest *t = sweep->t;

	if (!t->server && dtest_sweep_send(t, 1) < 0)
		return -1;
	if (dtest_sweep_receive(t, 1) < 0)
		return -1;
	if (act && act(sweep) < 0)
		return -1;
	if (t->server && dtest_sweep_send(t, 1) < 0)
		return -1;
	return dtest_sweep_settle(t, 1);
}

/* ---- latency ---- */

static int dtest_ping_by_message(struct dtest_sweep *sweep, unsigned number, double *usec)
{
	struct dtest *t = sweep->t;
	double begun = tool_usec_now();

	(void)number;
	if (!t->server && dtest_sweep_send(t, sweep->size) < 0)
		return -1;
	if (dtest_sweep_receive(t, sweep->size) < 0)
		return -1;
	if (t->server && dtest_sweep_send(t, sweep->size) < 0)
		return -1;
	*usec = tool_usec_now() - begun;
	return dtest_sweep_settle(t, sweep->size);
}

static int dtest_write_post(struct dtest *t, size_t size, DAT_UINT64 cookie,
			    DAT_COMPLETION_FLAGS flags)
{
	DAT_LMR_TRIPLET iov = dtest_iov(&t->out, 0, size);
	DAT_RMR_TRIPLET rmr = dtest_peer_buffer(t, size);

	return CALL(dat_ep_post_rdma_write, t->ep, 1, &iov, dtest_cookie(cookie), &rmr, flags);
}

/* The last byte of a write arrives last. It is the number of the ping, and never 0. */
static char dtest_ping_mark(unsigned number)
{
	return (char)(1 + number % 255);
}

static int dtest_mark_wait(struct dtest *t, size_t size, char mark)
{
	const volatile char *last = &t->in.mem[size - 1];
	double deadline = tool_usec_now() + dtest_transfer_limit(t);

	for (unsigned polls = 1; *last != mark; polls++)
		if (polls % 1024 == 0 && tool_usec_now() > deadline) {
			dtest_error("RDMA write", "the last byte is %#x instead of %#x",
				    (unsigned char)*last, (unsigned char)mark);
			dtest_print_failed_request(t);
			return -1;
		}
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return 0;
}

static int dtest_ping_by_write(struct dtest_sweep *sweep, unsigned number, double *usec)
{
	const char mark = dtest_ping_mark(number);
	struct dtest *t = sweep->t;
	double begun = tool_usec_now();

	t->out.mem[sweep->size - 1] = mark;
	if (!t->server &&
	    dtest_write_post(t, sweep->size, COOKIE_PING, DAT_COMPLETION_DEFAULT_FLAG) < 0)
		return -1;
	if (dtest_mark_wait(t, sweep->size, mark) < 0)
		return -1;
	if (t->server &&
	    dtest_write_post(t, sweep->size, COOKIE_PING, DAT_COMPLETION_DEFAULT_FLAG) < 0)
		return -1;
	*usec = tool_usec_now() - begun;
	return dtest_expect_completion(t, "RDMA write", t->request_evd, COOKIE_PING, sweep->size);
}

/* The marks of the previous size may be those of this one. */
static int dtest_mark_clear(struct dtest_sweep *sweep)
{
	sweep->t->in.mem[sweep->size - 1] = 0;
	return 0;
}

static int dtest_measure_latency(struct dtest_sweep *sweep)
{
	struct dtest *t = sweep->t;
	int (*ping)(struct dtest_sweep *, unsigned,
		    double *) = t->opt.write_pings ? dtest_ping_by_write : dtest_ping_by_message;
	double usec;

	for (unsigned i = 0; i < WARM_UP + sweep->count; i++) {
		if (ping(sweep, i, &usec) < 0) {
			dtest_error("sweep", "ping %u of %zu bytes", i + 1, sweep->size);
			return -1;
		}
		if (i < WARM_UP)
			continue;
		samples_add(&sweep->samples, usec / 2);
		tool_progress_show("%zu bytes: ping %u of %u", sweep->size, i - WARM_UP,
				   sweep->count);
	}
	/* a write leaves its mark in the last byte */
	return dtest_sweep_check(sweep, !t->server, sweep->size - t->opt.write_pings);
}

/* ---- bandwidth ---- */

/* What the client posts one after the other, and how many of those are in flight. */
struct dtest_stream {
	const char *name;
	int (*post)(struct dtest *t, size_t size, DAT_UINT64 cookie, DAT_COMPLETION_FLAGS flags);
	unsigned window;
	unsigned signal; /* one of so many is signalled */
};

static int dtest_read_post(struct dtest *t, size_t size, DAT_UINT64 cookie,
			   DAT_COMPLETION_FLAGS flags)
{
	DAT_LMR_TRIPLET iov = dtest_iov(&t->in, 0, size);
	DAT_RMR_TRIPLET rmr = dtest_peer_buffer(t, size);

	return CALL(dat_ep_post_rdma_read, t->ep, 1, &iov, dtest_cookie(cookie), &rmr, flags);
}

static int dtest_stream_run(struct dtest_sweep *sweep, const struct dtest_stream *stream)
{
	struct dtest *t = sweep->t;
	unsigned posted = 0, done = 0, next;
	bool signalled;

	while (done < sweep->count) {
		while (posted < sweep->count && posted - done < stream->window) {
			posted++;
			signalled = posted % stream->signal == 0 || posted == sweep->count;
			if (stream->post(t, sweep->size, posted,
					 signalled ? DAT_COMPLETION_DEFAULT_FLAG
						   : DAT_COMPLETION_SUPPRESS_FLAG) < 0)
				return -1;
		}
		next = done + stream->signal;
		done = next < sweep->count ? next : sweep->count;
		if (dtest_expect_completion(t, stream->name, t->request_evd, done, sweep->size) < 0)
			return -1;
		tool_progress_show("%zu bytes: %s %u of %u", sweep->size, stream->name, done,
				   sweep->count);
	}
	return 0;
}

static int dtest_stream_measure(struct dtest_sweep *sweep, const struct dtest_stream *stream,
				double *rate)
{
	double begun = tool_usec_now();

	if (dtest_stream_run(sweep, stream) < 0) {
		dtest_print_failed_request(sweep->t);
		dtest_error("sweep", "%ss of %zu bytes", stream->name, sweep->size);
		return -1;
	}
	*rate = (double)sweep->size * sweep->count / (tool_usec_now() - begun);
	return 0;
}

/* Of the client. The reads bring what the writes have left in the buffer of the server. */
static int dtest_stream_all(struct dtest_sweep *sweep)
{
	const struct dtest *t = sweep->t;
	const struct dtest_stream writes = { "RDMA write", dtest_write_post, SWEEP_WINDOW,
					     t->opt.signal };
	const struct dtest_stream reads = { "RDMA read", dtest_read_post, SWEEP_READS, 1 };

	if (dtest_stream_measure(sweep, &writes, &sweep->writes) < 0)
		return -1;
	if (t->opt.write_only)
		return 0;
	memset(t->in.mem, 0, sweep->size);
	if (dtest_stream_measure(sweep, &reads, &sweep->reads) < 0)
		return -1;
	return dtest_sweep_check(sweep, t->server, sweep->size);
}

static int dtest_writes_arrived(struct dtest_sweep *sweep)
{
	return sweep->t->server ? dtest_sweep_check(sweep, false, sweep->size) : 0;
}

/* The server has nothing to do until the client's message, which comes behind the writes. */
static int dtest_measure_bandwidth(struct dtest_sweep *sweep)
{
	struct dtest *t = sweep->t;

	t->out.mem[sweep->size - 1] = (char)dtest_sweep_byte(t->server, sweep->size,
							     sweep->size - 1);
	if (!t->server && dtest_stream_all(sweep) < 0)
		return -1;
	return dtest_sweep_sync(sweep, dtest_writes_arrived);
}

/* ---- the sizes ---- */

static int dtest_sweep_size(struct dtest_sweep *sweep, size_t size)
{
	struct dtest *t = sweep->t;
	size_t enough = SWEEP_BYTES / size;

	if (enough < SWEEP_COUNT_MIN)
		enough = SWEEP_COUNT_MIN;
	sweep->size = size;
	sweep->count = t->opt.burst < enough ? t->opt.burst : (unsigned)enough;
	samples_clear(&sweep->samples);
	dtest_sweep_fill(sweep);
	if (dtest_sweep_sync(sweep, dtest_mark_clear) < 0)
		return -1;
	if (!t->opt.write_only && dtest_measure_latency(sweep) < 0)
		return -1;
	if (dtest_measure_bandwidth(sweep) < 0)
		return -1;
	if (!t->server)
		dtest_table_add(t, &(struct dtest_row){ size, sweep->count, &sweep->samples,
							sweep->writes, sweep->reads });
	return 0;
}

int dtest_sweep(struct dtest *t)
{
	struct dtest_sweep sweep = { .t = t };
	int result = 0;

	if (samples_create(&sweep.samples, t->opt.burst) < 0) {
		dtest_error("calloc", "no memory for %u times", t->opt.burst);
		return -1;
	}
	dtest_print("Sizes of 1 to %u bytes, %s", t->opt.size,
		    t->opt.write_only	 ? "RDMA writes"
		    : t->opt.write_pings ? "pings by RDMA write, RDMA writes and reads"
					 : "pings by message, RDMA writes and reads");
	if (!t->server)
		dtest_table_begin(t);
	for (size_t size = 1; size < t->opt.size && result == 0; size *= 2)
		result = dtest_sweep_size(&sweep, size);
	if (result == 0)
		result = dtest_sweep_size(&sweep, t->opt.size);
	tool_progress_clear();
	samples_destroy(&sweep.samples);
	return result;
}
