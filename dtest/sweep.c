/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dtest -a: latency and bandwidth over sizes that double from 1 byte. For each size the two sides
 * exchange pings, then the client streams RDMA writes and reads back what it wrote, and both
 * compare the bytes that arrived. With --time each of the three takes so long; of pings the client
 * tells after each batch whether another one follows.
 */
#include "dtest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
	COOKIE_PING = 0x2222,
	WARM_UP = 10,	    /* pings before those that are measured */
	MARK_POLLS = 65536, /* of the last byte, between two looks at the connection */
};

struct dtest_sweep {
	struct dtest *t;
	size_t size;
	unsigned count;	 /* pings, writes, and reads; with --time, pings of a batch */
	double deadline; /* of the current measurement, with --time */
	bool more;	 /* batches of pings follow */
	struct samples samples;
	uint64_t written;     /* RDMA writes */
	double writes, reads; /* 10^6 bytes a second */
};

static bool dtest_time_is_left(const struct dtest_sweep *sweep)
{
	return tool_usec_now() < sweep->deadline;
}

static void dtest_progress(const struct dtest_sweep *sweep, const char *what, uint64_t done)
{
	if (sweep->t->opt.time)
		tool_progress_show("%zu bytes: %s %" PRIu64, sweep->size, what, done);
	else
		tool_progress_show("%zu bytes: %s %" PRIu64 " of %u", sweep->size, what, done,
				   sweep->count);
}

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

	return POST(t, dat_ep_post_recv, t->ep, 1, &iov, dtest_cookie(number),
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

	return POST(t, dat_ep_post_send, t->ep, 1, &iov, dtest_cookie(COOKIE_PING),
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

	return POST(t, dat_ep_post_rdma_write, t->ep, 1, &iov, dtest_cookie(cookie), &rmr, flags);
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

	for (unsigned polls = 1; *last != mark; polls++) {
		if (polls % MARK_POLLS != 0)
			continue;
		if (dtest_connection_ended(t, 0))
			return -1;
		if (tool_usec_now() > deadline) {
			dtest_error("RDMA write", "the last byte is %#x instead of %#x",
				    (unsigned char)*last, (unsigned char)mark);
			dtest_print_failed_request(t);
			return -1;
		}
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

/* Those from WARM_UP on are measured. */
static int dtest_pings(struct dtest_sweep *sweep, unsigned first, unsigned count)
{
	struct dtest *t = sweep->t;
	int (*ping)(struct dtest_sweep *, unsigned,
		    double *) = t->opt.write_pings ? dtest_ping_by_write : dtest_ping_by_message;
	double usec;

	for (unsigned i = first; i < first + count; i++) {
		if (ping(sweep, i, &usec) < 0) {
			dtest_context(t, "sweep", "ping %u of %zu bytes", i + 1, sweep->size);
			return -1;
		}
		if (i < WARM_UP)
			continue;
		samples_add(&sweep->samples, usec / 2);
		dtest_progress(sweep, "ping", sweep->samples.count);
	}
	return 0;
}

/* The server learns from the client's message whether another batch follows. */
static int dtest_batch_end(struct dtest_sweep *sweep)
{
	const struct dtest *t = sweep->t;

	if (t->server)
		sweep->more = (unsigned char)t->in.mem[0] !=
			      dtest_sweep_byte(false, sweep->size, 0);
	return t->opt.write_pings ? dtest_mark_clear(sweep) : 0;
}

/* The client's message has the first byte of the data, unless another batch follows. */
static int dtest_batch_sync(struct dtest_sweep *sweep)
{
	struct dtest *t = sweep->t;
	const char data = (char)dtest_sweep_byte(t->server, sweep->size, 0);

	if (!t->server) {
		sweep->more = dtest_time_is_left(sweep);
		t->out.mem[0] = (char)(sweep->more ? ~data : data);
	}
	if (dtest_sweep_sync(sweep, dtest_batch_end) < 0)
		return -1;
	t->out.mem[0] = data;
	return 0;
}

static int dtest_measure_latency(struct dtest_sweep *sweep)
{
	struct dtest *t = sweep->t;

	if (dtest_pings(sweep, 0, WARM_UP) < 0)
		return -1;
	sweep->deadline = tool_usec_now() + 1e6 * t->opt.time;
	sweep->more = false;
	do {
		if (dtest_pings(sweep, WARM_UP, sweep->count) < 0)
			return -1;
		if (t->opt.time && dtest_batch_sync(sweep) < 0)
			return -1;
	} while (sweep->more);
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

	return POST(t, dat_ep_post_rdma_read, t->ep, 1, &iov, dtest_cookie(cookie), &rmr, flags);
}

/*
 * Posts as many as wanted, or, with --time, until the time is up. Stores how many there were in
 * *done.
 */
static int dtest_stream_run(struct dtest_sweep *sweep, const struct dtest_stream *stream,
			    uint64_t *done)
{
	struct dtest *t = sweep->t;
	uint64_t posted = 0, wanted = sweep->count, next;
	bool signalled;

	for (*done = 0; *done < wanted; *done = next) {
		/* the last one is signalled, so whether more follow is decided before its post */
		while (t->opt.time && wanted - posted <= stream->window &&
		       dtest_time_is_left(sweep))
			wanted += sweep->count;
		while (posted < wanted && posted - *done < stream->window) {
			posted++;
			signalled = posted % stream->signal == 0 || posted == wanted;
			if (stream->post(t, sweep->size, posted,
					 signalled ? DAT_COMPLETION_DEFAULT_FLAG
						   : DAT_COMPLETION_SUPPRESS_FLAG) < 0)
				return -1;
		}
		next = *done + stream->signal;
		if (next > wanted)
			next = wanted;
		if (dtest_expect_completion(t, stream->name, t->request_evd, next, sweep->size) < 0)
			return -1;
		dtest_progress(sweep, stream->name, next);
	}
	return 0;
}

static int dtest_stream_measure(struct dtest_sweep *sweep, const struct dtest_stream *stream,
				uint64_t *done, double *rate)
{
	double begun = tool_usec_now();

	sweep->deadline = begun + 1e6 * sweep->t->opt.time;
	if (dtest_stream_run(sweep, stream, done) < 0) {
		dtest_print_failed_request(sweep->t);
		dtest_context(sweep->t, "sweep", "%ss of %zu bytes", stream->name, sweep->size);
		return -1;
	}
	*rate = (double)sweep->size * (double)*done / (tool_usec_now() - begun);
	return 0;
}

/* Of the client. The reads bring what the writes have left in the buffer of the server. */
static int dtest_stream_all(struct dtest_sweep *sweep)
{
	const struct dtest *t = sweep->t;
	const struct dtest_stream writes = { "RDMA write", dtest_write_post, SWEEP_WINDOW,
					     t->opt.signal };
	const struct dtest_stream reads = { "RDMA read", dtest_read_post, SWEEP_READS, 1 };
	uint64_t read;

	if (dtest_stream_measure(sweep, &writes, &sweep->written, &sweep->writes) < 0)
		return -1;
	if (t->opt.write_only)
		return 0;
	memset(t->in.mem, 0, sweep->size);
	if (dtest_stream_measure(sweep, &reads, &read, &sweep->reads) < 0)
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
		dtest_table_add(t,
				&(struct dtest_row){
					size,
					t->opt.write_only ? sweep->written : sweep->samples.count,
					&sweep->samples,
					sweep->writes,
					sweep->reads,
				});
	return 0;
}

int dtest_sweep(struct dtest *t)
{
	const unsigned kept = t->opt.time ? SWEEP_TIMES : t->opt.burst;
	struct dtest_sweep sweep = { .t = t };
	int result = 0;

	if (samples_create(&sweep.samples, kept) < 0) {
		dtest_error("calloc", "no memory for %u times", kept);
		return -1;
	}
	dtest_print("%s %u bytes, %s", t->opt.one_size ? "Size of" : "Sizes of 1 to", t->opt.size,
		    t->opt.write_only	 ? "RDMA writes"
		    : t->opt.write_pings ? "pings by RDMA write, RDMA writes and reads"
					 : "pings by message, RDMA writes and reads");
	if (!t->server)
		dtest_table_begin(t);
	for (size_t size = 1; size < t->opt.size && !t->opt.one_size && result == 0; size *= 2)
		result = dtest_sweep_size(&sweep, size);
	if (result == 0)
		result = dtest_sweep_size(&sweep, t->opt.size);
	tool_progress_clear();
	samples_destroy(&sweep.samples);
	return result;
}
