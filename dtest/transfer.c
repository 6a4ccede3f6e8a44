/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The data steps: messages, RDMA writes and reads, pings; every completion and every byte is
 * checked.
 */
#include "dtest.h"

#include <string.h>
#include <unistd.h>

/* What comes back with a completion; the numbers of receives are their positions. */
enum {
	COOKIE_SEND = 0x1111,
	COOKIE_WRITE = 0x5555,
	COOKIE_READ = 0x9999,
};

enum {
	PING = 0x55, /* first byte of the client's */
	PONG = 0xaa, /* first byte of the server's */
};

/*
 * What a buffer holds: the head that every dtest sends, then a pattern of ours that tells any two
 * payloads apart.
 */
struct payload {
	const char *what;
	char head[SIZE_MIN];
	size_t head_length;
	unsigned salt;
};

static unsigned char payload_byte(const struct payload *payload, size_t at)
{
	if (at < payload->head_length)
		return (unsigned char)payload->head[at];
	return (unsigned char)(at * 7 + at / 251 + payload->salt);
}

static void payload_fill(const struct dtest *t, const struct payload *payload, char *mem)
{
	for (size_t at = 0; at < t->opt.size; at++)
		mem[at] = (char)payload_byte(payload, at);
}

/* A peer that doesn't tell its buffer size puts nothing known behind the head. */
static int payload_check(const struct dtest *t, const struct payload *payload, const char *mem)
{
	size_t known = t->peer.pad ? t->opt.size : payload->head_length;

	for (size_t at = 0; at < known; at++) {
		unsigned char byte = (unsigned char)mem[at], wanted = payload_byte(payload, at);

		if (byte != wanted) {
			complain(payload->what, "byte %zu is %#x instead of %#x", at, byte, wanted);
			return -1;
		}
	}
	return 0;
}

static struct payload text_payload(const char *what, const char *text, unsigned salt)
{
	struct payload payload = { .what = what, .head_length = strlen(text) + 1, .salt = salt };

	memcpy(payload.head, text, payload.head_length);
	return payload;
}

static struct payload write_payload(bool server)
{
	return text_payload("RDMA write data",
			    server ? "server RDMA write data..." : "client RDMA write data...",
			    server ? 3 : 5);
}

static struct payload read_payload(bool server)
{
	return text_payload("RDMA read data",
			    server ? "server RDMA read data..." : "client RDMA read data...",
			    server ? 11 : 13);
}

static struct payload ping_payload(bool server, unsigned number)
{
	return (struct payload){ .what = "ping data",
				 .head = { (char)(server ? PONG : PING) },
				 .head_length = 1,
				 .salt = 2 * number + (server ? 17 : 18) };
}

static DAT_LMR_TRIPLET piece(const struct buffer *buffer, size_t offset, size_t length)
{
	return (DAT_LMR_TRIPLET){ .lmr_context = buffer->lmr_context,
				  .virtual_address = (DAT_VADDR)(uintptr_t)(buffer->mem + offset),
				  .segment_length = length };
}

static DAT_DTO_COOKIE cookie_of(DAT_UINT64 value)
{
	return (DAT_DTO_COOKIE){ .as_64 = value };
}

/* Consumers have always compared the bare DAT_QUEUE_EMPTY here, and so do we. */
static int event_poll(struct dtest *t, DAT_EVD_HANDLE evd, DAT_EVENT *event)
{
	double deadline = usec_now() + DTO_TIMEOUT;
	DAT_RETURN ret;

	call_begins("dat_evd_dequeue");
	while ((ret = dat_evd_dequeue(evd, event)) == DAT_QUEUE_EMPTY && usec_now() < deadline)
		t->polls++;
	return call_ended("dat_evd_dequeue", ret);
}

/*
 * The EVD that the CNO names is a hint, and may be the one we emptied before: only a look at ours
 * tells.
 */
static int event_by_cno(struct dtest *t, DAT_EVD_HANDLE evd, DAT_EVENT *event)
{
	double deadline = usec_now() + DTO_TIMEOUT, left;
	DAT_EVD_HANDLE hint;
	DAT_RETURN ret;

	call_begins("dat_evd_dequeue");
	while ((ret = dat_evd_dequeue(evd, event)) == DAT_QUEUE_EMPTY) {
		t->polls++;
		left = deadline - usec_now();
		call_begins("dat_cno_wait");
		ret = dat_cno_wait(t->cno, left > 0 ? (DAT_TIMEOUT)left : 0, &hint);
		if (DAT_GET_TYPE(ret) == DAT_INTERRUPTED_CALL)
			continue;
		if (call_ended("dat_cno_wait", ret) < 0)
			return -1;
		if (hint != t->recv_evd && hint != t->request_evd) {
			complain("dat_cno_wait", "an EVD that is not of this CNO");
			return -1;
		}
	}
	return call_ended("dat_evd_dequeue", ret);
}

static int event_take(struct dtest *t, DAT_EVD_HANDLE evd, DAT_EVENT *event)
{
	if (t->opt.cno)
		return event_by_cno(t, evd, event);
	if (t->opt.poll)
		return event_poll(t, evd, event);
	return event_wait(evd, DTO_TIMEOUT, event);
}

static int completion_check(const struct dtest *t, const char *what, const DAT_EVENT *event,
			    DAT_UINT64 cookie, DAT_VLEN length)
{
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event->event_data.dto_completion_event_data;

	if (event->event_number != DAT_DTO_COMPLETION_EVENT)
		complain(what, "%s instead of a completion", event_name(event->event_number));
	else if (dto->status != DAT_DTO_SUCCESS)
		complain(what, "completed with %s", status_name(dto->status));
	else if (dto->ep_handle != t->ep)
		complain(what, "completed on another endpoint");
	else if (dto->user_cookie.as_64 != cookie)
		complain(what, "cookie %#lx instead of %#lx", dto->user_cookie.as_64, cookie);
	else if (dto->transfered_length != length)
		complain(what, "length %lu instead of %lu", dto->transfered_length, length);
	else
		return 0;
	return -1;
}

/*
 * A request that went wrong stops the answer to it: the first such completion is the cause of what
 * we saw.
 */
static void cause_print(const struct dtest *t)
{
	DAT_EVENT event;

	while (dat_evd_dequeue(t->request_evd, &event) == DAT_SUCCESS) {
		const DAT_DTO_COMPLETION_EVENT_DATA *dto =
			&event.event_data.dto_completion_event_data;

		if (event.event_number == DAT_DTO_COMPLETION_EVENT &&
		    dto->status != DAT_DTO_SUCCESS) {
			complain("request", "cookie %#lx completed with %s", dto->user_cookie.as_64,
				 status_name(dto->status));
			return;
		}
	}
}

static int reap(struct dtest *t, const char *what, DAT_EVD_HANDLE evd, DAT_UINT64 cookie,
		DAT_VLEN length)
{
	DAT_EVENT event;

	if (event_take(t, evd, &event) == 0 &&
	    completion_check(t, what, &event, cookie, length) == 0)
		return 0;
	complain(what, "expected cookie %#lx, length %lu", cookie, length);
	cause_print(t);
	return -1;
}

static int receive_post(struct dtest *t, const struct buffer *buffer, unsigned number, size_t size)
{
	DAT_LMR_TRIPLET iov = piece(buffer, number * size, size);

	return CALL(dat_ep_post_recv, t->ep, 1, &iov, cookie_of(number),
		    DAT_COMPLETION_DEFAULT_FLAG);
}

/* Before the connection exists, so that the peer's first messages find their buffers. */
int receives_post(struct dtest *t)
{
	for (unsigned i = 0; i < MESSAGES; i++)
		if (receive_post(t, &t->msg_in, i, sizeof(DAT_RMR_TRIPLET)) < 0)
			return -1;
	return 0;
}

/* All our messages are the same triplet; what each says is that everything before it is done. */
static int message_send(struct dtest *t, DAT_COMPLETION_FLAGS flags)
{
	DAT_LMR_TRIPLET iov = piece(&t->msg_out, 0, sizeof(DAT_RMR_TRIPLET));

	if (CALL(dat_ep_post_send, t->ep, 1, &iov, cookie_of(COOKIE_SEND), flags) < 0)
		return -1;
	if (flags & DAT_COMPLETION_SUPPRESS_FLAG)
		return 0;
	return reap(t, "send", t->request_evd, COOKIE_SEND, sizeof(DAT_RMR_TRIPLET));
}

static int message_receive(struct dtest *t, DAT_RMR_TRIPLET *message)
{
	const char *slot = t->msg_in.mem + t->messages_in * sizeof(*message);

	if (reap(t, "receive", t->recv_evd, t->messages_in, sizeof(*message)) < 0)
		return -1;
	memcpy(message, slot, sizeof(*message));
	t->messages_in++;
	return 0;
}

static int message_repeated(struct dtest *t)
{
	DAT_RMR_TRIPLET message;

	if (message_receive(t, &message) < 0)
		return -1;
	if (t->peer.pad && memcmp(&message, &t->peer, sizeof(message)) != 0) {
		complain("receive", "the peer's message is not the one it began with");
		return -1;
	}
	return 0;
}

/*
 * The client speaks first: iWARP wants the connecting side to, and each side then knows that what
 * it is about to read has been put there, since the peer speaks of it before.
 */
static int exchange(struct dtest *t, int (*speak)(struct dtest *), int (*listen)(struct dtest *))
{
	int (*first)(struct dtest *) = t->server ? listen : speak;
	int (*second)(struct dtest *) = t->server ? speak : listen;

	return first(t) < 0 ? -1 : second(t);
}

static void measure_begin(struct dtest *t, struct measure *measure)
{
	t->polls = 0;
	measure->usec = usec_now();
}

static void measure_end(struct dtest *t, struct measure *measure)
{
	measure->usec = usec_now() - measure->usec;
	measure->polls = t->polls;
}

/* The pad carries our buffer size to a dtest that knows of it; others send 0 and never look. */
static int rmr_send(struct dtest *t)
{
	const DAT_RMR_TRIPLET rmr = {
		.rmr_context = t->in.rmr_context,
		.pad = t->opt.size,
		.target_address = (DAT_VADDR)(uintptr_t)t->in.mem,
		.segment_length = RMR_LENGTH,
	};

	memcpy(t->msg_out.mem, &rmr, sizeof(rmr));
	say("Send RMR to remote: snd_msg: r_key_ctx=%x,pad=%x, va=%lx,len=%#lx", rmr.rmr_context,
	    rmr.pad, rmr.target_address, rmr.segment_length);
	return message_send(t, DAT_COMPLETION_SUPPRESS_FLAG);
}

static int rmr_receive(struct dtest *t)
{
	if (message_receive(t, &t->peer) < 0)
		return -1;
	if (t->peer.segment_length != RMR_LENGTH) {
		complain("RMR", "length %#lx instead of %#x: the peer is no dtest of DAT 1.2",
			 t->peer.segment_length, RMR_LENGTH);
		return -1;
	}
	if (t->peer.pad && t->peer.pad != t->opt.size) {
		complain("RMR", "the peer was started with -b %u, we with -b %u", t->peer.pad,
			 t->opt.size);
		return -1;
	}
	say("remote RMR data arrived!");
	return 0;
}

int rmrs_exchange(struct dtest *t)
{
	return exchange(t, rmr_send, rmr_receive);
}

/*
 * The announced length is too short for -b above 64: what we may touch is a buffer as large as
 * ours.
 */
static DAT_RMR_TRIPLET peer_buffer(const struct dtest *t)
{
	DAT_RMR_TRIPLET rmr = t->peer;

	rmr.pad = 0;
	rmr.segment_length = t->opt.size;
	return rmr;
}

static int writes_send(struct dtest *t)
{
	const struct payload payload = write_payload(t->server);
	const DAT_RMR_TRIPLET rmr = peer_buffer(t);
	size_t half = t->opt.size / 2;
	DAT_LMR_TRIPLET iov[SEGMENTS] = { piece(&t->out, 0, half),
					  piece(&t->out, half, t->opt.size - half) };

	payload_fill(t, &payload, t->out.mem);
	measure_begin(t, &t->writes);
	for (unsigned i = 0; i < t->opt.burst; i++)
		if (CALL(dat_ep_post_rdma_write, t->ep, SEGMENTS, iov, cookie_of(COOKIE_WRITE),
			 &rmr, DAT_COMPLETION_SUPPRESS_FLAG) < 0) {
			cause_print(t);
			return -1;
		}
	/* its completion proves the writes' */
	if (message_send(t, DAT_COMPLETION_DEFAULT_FLAG) < 0)
		return -1;
	measure_end(t, &t->writes);
	return 0;
}

static int writes_receive(struct dtest *t)
{
	const struct payload written = write_payload(!t->server), offered = read_payload(t->server);

	if (message_repeated(t) < 0)
		return -1;
	if (payload_check(t, &written, t->in.mem) < 0)
		return -1;
	say("%s: RDMA write buffer contains: %s", t->server ? "SERVER" : "CLIENT", t->in.mem);
	/* before our next message, and the peer reads after it */
	payload_fill(t, &offered, t->in.mem);
	return 0;
}

int rdma_write(struct dtest *t)
{
	say("RDMA WRITE DATA with SEND MSG");
	return exchange(t, writes_send, writes_receive);
}

static int read_one(struct dtest *t, struct measure *measure)
{
	const DAT_RMR_TRIPLET rmr = peer_buffer(t);
	DAT_LMR_TRIPLET iov = piece(&t->out, 0, t->opt.size);

	memset(t->out.mem, 0, t->opt.size);
	measure_begin(t, measure);
	if (CALL(dat_ep_post_rdma_read, t->ep, 1, &iov, cookie_of(COOKIE_READ), &rmr,
		 DAT_COMPLETION_DEFAULT_FLAG) < 0)
		return -1;
	if (reap(t, "RDMA read", t->request_evd, COOKIE_READ, t->opt.size) < 0)
		return -1;
	measure_end(t, measure);
	return 0;
}

/*
 * A dtest that sends no pad fills its buffer whenever it gets there: its bytes are shown, not
 * judged.
 */
static int reads_send(struct dtest *t)
{
	const struct payload payload = read_payload(!t->server);

	for (unsigned i = 0; i < READS; i++) {
		if (read_one(t, &t->reads[i]) < 0)
			return -1;
		if (t->peer.pad && payload_check(t, &payload, t->out.mem) < 0)
			return -1;
	}
	say("%s: RCV RDMA read buffer contains: %.*s", t->server ? "SERVER" : "CLIENT",
	    (int)payload.head_length, t->out.mem);
	return message_send(t, DAT_COMPLETION_DEFAULT_FLAG);
}

int rdma_read(struct dtest *t)
{
	say("RDMA READ DATA with SEND MSG");
	return exchange(t, reads_send, message_repeated);
}

static int ping_send(struct dtest *t, unsigned number)
{
	DAT_LMR_TRIPLET iov = piece(&t->out, (size_t)number * t->opt.size, t->opt.size);

	return CALL(dat_ep_post_send, t->ep, 1, &iov, cookie_of(COOKIE_SEND),
		    DAT_COMPLETION_SUPPRESS_FLAG);
}

static int ping_receive(struct dtest *t, unsigned number)
{
	return reap(t, "ping", t->recv_evd, number, t->opt.size);
}

static int pings_prepare(struct dtest *t)
{
	memset(t->in.mem, 0, (size_t)t->opt.burst * t->opt.size);
	for (unsigned i = 0; i < t->opt.burst; i++) {
		const struct payload payload = ping_payload(t->server, i);

		payload_fill(t, &payload, t->out.mem + (size_t)i * t->opt.size);
		if (receive_post(t, &t->in, i, t->opt.size) < 0)
			return -1;
	}
	return 0;
}

static int pings_check(const struct dtest *t)
{
	for (unsigned i = 0; i < t->opt.burst; i++) {
		const struct payload payload = ping_payload(!t->server, i);

		if (payload_check(t, &payload, t->in.mem + (size_t)i * t->opt.size) < 0) {
			complain("ping", "number %u of %u", i + 1, t->opt.burst);
			return -1;
		}
	}
	return 0;
}

/*
 * Each ping has a buffer to itself, so that looking at what they hold can come after the time is
 * taken.
 */
int ping_pong(struct dtest *t)
{
	say("PING DATA with SEND MSG");
	if (pings_prepare(t) < 0)
		return -1;
	/* a ping that had to wait for its receive would spoil the time, not the test */
	(void)sleep(1);
	measure_begin(t, &t->pings);
	for (unsigned i = 0; i < t->opt.burst; i++) {
		if (!t->server && ping_send(t, i) < 0)
			return -1;
		if (ping_receive(t, i) < 0)
			return -1;
		if (t->server && ping_send(t, i) < 0)
			return -1;
	}
	measure_end(t, &t->pings);
	return pings_check(t);
}
