/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The data transfers: messages, RDMA writes and reads, pings. Every completion and every byte
 * received is checked.
 */
#include "dtest.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* The cookies of requests. The cookie of a receive is its position, from 0. */
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
 * The contents of a buffer: the head, which every dtest sends, then a pattern that only this dtest
 * sends and that differs between any two payloads.
 */
struct dtest_payload {
	const char *what;
	char head[SIZE_MIN];
	size_t head_length;
	unsigned salt;
};

static unsigned char dtest_payload_byte(const struct dtest_payload *payload, size_t at)
{
	if (at < payload->head_length)
		return (unsigned char)payload->head[at];
	return (unsigned char)(at * 7 + at / 251 + payload->salt);
}

static void dtest_payload_fill(const struct dtest *t, const struct dtest_payload *payload,
			       char *mem)
{
	for (size_t at = 0; at < t->opt.size; at++)
		mem[at] = (char)dtest_payload_byte(payload, at);
}

/* What a peer that does not send its buffer size puts behind the head is unknown. */
static int dtest_payload_check(const struct dtest *t, const struct dtest_payload *payload,
			       const char *mem)
{
	size_t known = t->peer.size ? t->opt.size : payload->head_length;

	for (size_t at = 0; at < known; at++) {
		unsigned char byte = (unsigned char)mem[at],
			      wanted = dtest_payload_byte(payload, at);

		if (byte != wanted) {
			dtest_error(payload->what, "byte %zu is %#x instead of %#x", at, byte,
				    wanted);
			return -1;
		}
	}
	return 0;
}

static struct dtest_payload dtest_text_payload(const char *what, const char *text, unsigned salt)
{
	struct dtest_payload payload = { .what = what,
					 .head_length = strlen(text) + 1,
					 .salt = salt };

	memcpy(payload.head, text, payload.head_length);
	return payload;
}

static struct dtest_payload dtest_write_payload(bool server)
{
	return dtest_text_payload(
		"RDMA write data",
		server ? "server RDMA write data..." : "client RDMA write data...", server ? 3 : 5);
}

static struct dtest_payload dtest_read_payload(bool server)
{
	return dtest_text_payload("RDMA read data",
				  server ? "server RDMA read data..." : "client RDMA read data...",
				  server ? 11 : 13);
}

static struct dtest_payload dtest_ping_payload(bool server, unsigned number)
{
	return (struct dtest_payload){ .what = "ping data",
				       .head = { (char)(server ? PONG : PING) },
				       .head_length = 1,
				       .salt = 2 * number + (server ? 17 : 18) };
}

DAT_LMR_TRIPLET dtest_iov(const struct dtest_buffer *buffer, size_t offset, size_t length)
{
	return (DAT_LMR_TRIPLET){ .lmr_context = buffer->lmr_context,
				  .virtual_address = (DAT_VADDR)(uintptr_t)(buffer->mem + offset),
				  .segment_length = length };
}

DAT_DTO_COOKIE dtest_cookie(DAT_UINT64 value)
{
	return (DAT_DTO_COOKIE){ .as_64 = value };
}

static double dtest_burst_bytes(const struct dtest *t)
{
	double bytes = (double)t->opt.burst * t->opt.size;
	double least = (double)SWEEP_COUNT_MIN * t->opt.size;

	if (t->opt.mode != MODE_SWEEP || bytes < SWEEP_BYTES)
		return bytes;
	return least < SWEEP_BYTES ? SWEEP_BYTES : least;
}

/*
 * Some completions come when a burst has been transferred, so the limit grows with it: by a
 * millisecond for each transfer and a second for each 16 MB. With --time they come when the RDMA
 * writes and the reads have had their time.
 */
DAT_TIMEOUT dtest_transfer_limit(const struct dtest *t)
{
	const double most = 4e9; /* a DAT_TIMEOUT has 32 bits */
	double limit = dtest_wait_limit(t, TRANSFER_WAIT) + 1000.0 * t->opt.burst +
		       dtest_burst_bytes(t) / 16 + 2e6 * t->opt.time;

	return (DAT_TIMEOUT)(limit < most ? limit : most);
}

/* Compares the whole word with DAT_QUEUE_EMPTY, as consumers of DAT do. */
static int dtest_event_poll(struct dtest *t, DAT_EVD_HANDLE evd, DAT_EVENT *event)
{
	double deadline = tool_usec_now() + dtest_transfer_limit(t);
	DAT_RETURN ret;

	dtest_call_begin("dat_evd_dequeue");
	while ((ret = dat_evd_dequeue(evd, event)) == DAT_QUEUE_EMPTY && tool_usec_now() < deadline)
		t->polls++;
	return dtest_call_end("dat_evd_dequeue", ret);
}

/*
 * The EVD that dat_cno_wait returns is a hint, and may be one that was emptied before: only
 * dat_evd_dequeue tells whether evd has an event.
 */
static int dtest_event_by_cno(struct dtest *t, DAT_EVD_HANDLE evd, DAT_EVENT *event)
{
	double deadline = tool_usec_now() + dtest_transfer_limit(t), left;
	DAT_EVD_HANDLE hint;
	DAT_RETURN ret;

	dtest_call_begin("dat_evd_dequeue");
	while ((ret = dat_evd_dequeue(evd, event)) == DAT_QUEUE_EMPTY) {
		t->polls++;
		left = deadline - tool_usec_now();
		dtest_call_begin("dat_cno_wait");
		ret = dat_cno_wait(t->cno, left > 0 ? (DAT_TIMEOUT)left : 0, &hint);
		if (DAT_GET_TYPE(ret) == DAT_INTERRUPTED_CALL)
			continue;
		if (dtest_call_end("dat_cno_wait", ret) < 0)
			return -1;
		if (hint != t->recv_evd && hint != t->request_evd) {
			dtest_error("dat_cno_wait", "an EVD that is not of this CNO");
			return -1;
		}
	}
	return dtest_call_end("dat_evd_dequeue", ret);
}

static int dtest_event_take(struct dtest *t, DAT_EVD_HANDLE evd, DAT_EVENT *event)
{
	if (t->opt.cno)
		return dtest_event_by_cno(t, evd, event);
	if (t->opt.poll)
		return dtest_event_poll(t, evd, event);
	return dtest_event_wait(evd, dtest_transfer_limit(t), event);
}

/*
 * Takes the requests that have completed. Prints the first one that failed, or only was flushed if
 * @flushed, and tells whether there was one.
 */
static bool dtest_print_failure(struct dtest *t, bool flushed)
{
	char text[TOOL_SENTENCE];
	DAT_EVENT event;

	while (dat_evd_dequeue(t->request_evd, &event) == DAT_SUCCESS) {
		const DAT_DTO_COMPLETION_EVENT_DATA *dto =
			&event.event_data.dto_completion_event_data;

		if (event.event_number != DAT_DTO_COMPLETION_EVENT ||
		    dto->status == DAT_DTO_SUCCESS ||
		    (dto->status == DAT_DTO_ERR_FLUSHED && !flushed))
			continue;
		dtest_error("request", "cookie %#" PRIx64 " completed with %s",
			    dto->user_cookie.as_64, tool_status_name(dto->status));
		if (dto->status != DAT_DTO_ERR_FLUSHED)
			dtest_explain(tool_status_sentence(dto->status, text));
		t->told = true;
		return true;
	}
	return false;
}

/* The cause of a wait or a post that failed is often a request that failed before. */
void dtest_print_failed_request(struct dtest *t)
{
	if (!t->told)
		(void)dtest_print_failure(t, true);
}

/*
 * A transfer failed because there is no connection any more. Prints why, unless that was told: a
 * request of ours that failed, or else the peer. Returns whether the cause is known.
 */
static bool dtest_cause_told(struct dtest *t)
{
	return t->told || dtest_print_failure(t, false) ||
	       dtest_connection_ended(t, dtest_wait_limit(t, CONNECT_WAIT));
}

int dtest_post_end(struct dtest *t, const char *call, DAT_RETURN ret)
{
	if (DAT_GET_TYPE(ret) == DAT_INVALID_STATE && dtest_cause_told(t))
		return -1;
	return dtest_call_end(call, ret);
}

static int dtest_check_completion(struct dtest *t, const char *what, const DAT_EVENT *event,
				  DAT_UINT64 cookie, DAT_VLEN length)
{
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event->event_data.dto_completion_event_data;
	const bool completion = event->event_number == DAT_DTO_COMPLETION_EVENT;
	char text[TOOL_SENTENCE];

	if (completion && dto->status == DAT_DTO_ERR_FLUSHED && dtest_cause_told(t))
		return -1;
	if (!completion)
		dtest_error(what, "%s instead of a completion",
			    tool_event_name(event->event_number));
	else if (dto->status != DAT_DTO_SUCCESS)
		dtest_error(what, "completed with %s", tool_status_name(dto->status));
	else if (dto->ep_handle != t->ep)
		dtest_error(what, "completed on another endpoint");
	else if (dto->user_cookie.as_64 != cookie)
		dtest_error(what, "cookie %#" PRIx64 " instead of %#" PRIx64,
			    dto->user_cookie.as_64, cookie);
	else if (dto->transfered_length != length)
		dtest_error(what, "length %" PRIu64 " instead of %" PRIu64,
			    (DAT_VLEN)dto->transfered_length, length);
	else
		return 0;
	if (completion)
		dtest_explain(tool_status_sentence(dto->status, text));
	t->told = completion && dto->status != DAT_DTO_SUCCESS &&
		  dto->status != DAT_DTO_ERR_FLUSHED;
	return -1;
}

int dtest_expect_completion(struct dtest *t, const char *what, DAT_EVD_HANDLE evd,
			    DAT_UINT64 cookie, DAT_VLEN length)
{
	DAT_EVENT event;

	if (dtest_event_take(t, evd, &event) == 0 &&
	    dtest_check_completion(t, what, &event, cookie, length) == 0)
		return 0;
	dtest_context(t, what, "expected cookie %#" PRIx64 ", length %" PRIu64, cookie, length);
	dtest_print_failed_request(t);
	return -1;
}

static int dtest_post_receive(struct dtest *t, const struct dtest_buffer *buffer, unsigned number,
			      size_t size)
{
	DAT_LMR_TRIPLET iov = dtest_iov(buffer, number * size, size);

	return POST(t, dat_ep_post_recv, t->ep, 1, &iov, dtest_cookie(number),
		    DAT_COMPLETION_DEFAULT_FLAG);
}

/*
 * Receives are posted before the connection exists, so that the peer's first messages find their
 * buffers. What follows the first one in a sweep has other buffers.
 */
int dtest_post_receives(struct dtest *t)
{
	unsigned messages = t->opt.mode == MODE_SWEEP ? 1 : MESSAGES;

	for (unsigned i = 0; i < messages; i++)
		if (dtest_post_receive(t, &t->msg_in, i, sizeof(struct dtest_offer)) < 0)
			return -1;
	return 0;
}

/* All messages of a side are the same offer; each marks the end of the transfers before it. */
static int dtest_message_send(struct dtest *t, DAT_COMPLETION_FLAGS flags)
{
	DAT_LMR_TRIPLET iov = dtest_iov(&t->msg_out, 0, sizeof(struct dtest_offer));

	if (POST(t, dat_ep_post_send, t->ep, 1, &iov, dtest_cookie(COOKIE_SEND), flags) < 0)
		return -1;
	if (flags & DAT_COMPLETION_SUPPRESS_FLAG)
		return 0;
	return dtest_expect_completion(t, "send", t->request_evd, COOKIE_SEND,
				       sizeof(struct dtest_offer));
}

static int dtest_message_receive(struct dtest *t, struct dtest_offer *message)
{
	const char *slot = t->msg_in.mem + t->messages_in * sizeof(*message);

	if (dtest_expect_completion(t, "receive", t->recv_evd, t->messages_in, sizeof(*message)) <
	    0)
		return -1;
	memcpy(message, slot, sizeof(*message));
	t->messages_in++;
	return 0;
}

static int dtest_message_expect_same(struct dtest *t)
{
	struct dtest_offer message;

	if (dtest_message_receive(t, &message) < 0)
		return -1;
	if (t->peer.size && memcmp(&message, &t->peer, sizeof(message)) != 0) {
		dtest_error("receive", "the peer's message is not the one it began with");
		return -1;
	}
	return 0;
}

/*
 * The client sends first, because iWARP requires that of the active side. The order also makes sure
 * that the peer has filled its buffer before it is read, because its message comes after that.
 */
static int dtest_exchange(struct dtest *t, int (*send)(struct dtest *),
			  int (*receive)(struct dtest *))
{
	int (*first)(struct dtest *) = t->server ? receive : send;
	int (*second)(struct dtest *) = t->server ? send : receive;

	return first(t) < 0 ? -1 : second(t);
}

static void dtest_measure_begin(struct dtest *t, struct dtest_measure *measure)
{
	t->polls = 0;
	measure->usec = tool_usec_now();
}

static void dtest_measure_end(struct dtest *t, struct dtest_measure *measure)
{
	measure->usec = tool_usec_now() - measure->usec;
	measure->polls = t->polls;
}

static int dtest_rmr_send(struct dtest *t)
{
	const struct dtest_offer offer = {
		.rmr_context = t->in.rmr_context,
		.size = t->opt.size,
		.address = (DAT_VADDR)(uintptr_t)t->in.mem,
		.length = RMR_LENGTH,
	};

	memcpy(t->msg_out.mem, &offer, sizeof(offer));
	dtest_print("Send RMR to remote: snd_msg: r_key_ctx=%x,pad=%x, va=%" PRIx64
		    ",len=%#" PRIx64,
		    offer.rmr_context, offer.size, offer.address, offer.length);
	return dtest_message_send(t, DAT_COMPLETION_SUPPRESS_FLAG);
}

static int dtest_rmr_receive(struct dtest *t)
{
	if (dtest_message_receive(t, &t->peer) < 0)
		return -1;
	if (t->peer.length != RMR_LENGTH) {
		dtest_error("RMR",
			    "length %#" PRIx64 " instead of %#x: the peer is another program",
			    t->peer.length, RMR_LENGTH);
		return -1;
	}
	if (t->peer.size && t->peer.size != t->opt.size) {
		dtest_error("RMR", "the peer was started with -b %u, we with -b %u", t->peer.size,
			    t->opt.size);
		return -1;
	}
	dtest_print("remote RMR data arrived!");
	return 0;
}

int dtest_exchange_rmrs(struct dtest *t)
{
	return dtest_exchange(t, dtest_rmr_send, dtest_rmr_receive);
}

/*
 * Returns the head of the peer's buffer, with its real length: the one in the offer is always
 * RMR_LENGTH, but both sides have the same -b.
 */
DAT_RMR_TRIPLET dtest_peer_buffer(const struct dtest *t, size_t length)
{
	return (DAT_RMR_TRIPLET){ .rmr_context = t->peer.rmr_context,
				  .REMOTE_ADDRESS = t->peer.address,
				  .segment_length = length };
}

static int dtest_writes_send(struct dtest *t)
{
	const struct dtest_payload payload = dtest_write_payload(t->server);
	const DAT_RMR_TRIPLET rmr = dtest_peer_buffer(t, t->opt.size);
	size_t half = t->opt.size / 2;
	DAT_LMR_TRIPLET iov[SEGMENTS] = { dtest_iov(&t->out, 0, half),
					  dtest_iov(&t->out, half, t->opt.size - half) };

	dtest_payload_fill(t, &payload, t->out.mem);
	dtest_measure_begin(t, &t->writes);
	for (unsigned i = 0; i < t->opt.burst; i++)
		if (POST(t, dat_ep_post_rdma_write, t->ep, SEGMENTS, iov,
			 dtest_cookie(COOKIE_WRITE), &rmr, DAT_COMPLETION_SUPPRESS_FLAG) < 0) {
			dtest_print_failed_request(t);
			return -1;
		}
	/* its completion covers those of the suppressed writes */
	if (dtest_message_send(t, DAT_COMPLETION_DEFAULT_FLAG) < 0)
		return -1;
	dtest_measure_end(t, &t->writes);
	return 0;
}

static int dtest_writes_receive(struct dtest *t)
{
	const struct dtest_payload written = dtest_write_payload(!t->server),
				   offered = dtest_read_payload(t->server);

	if (dtest_message_expect_same(t) < 0)
		return -1;
	if (dtest_payload_check(t, &written, t->in.mem) < 0)
		return -1;
	dtest_print("%s: RDMA write buffer contains: %s", t->server ? "SERVER" : "CLIENT",
		    t->in.mem);
	/* filled before the next message, after which the peer reads it */
	dtest_payload_fill(t, &offered, t->in.mem);
	return 0;
}

int dtest_rdma_write(struct dtest *t)
{
	dtest_print("RDMA WRITE DATA with SEND MSG");
	return dtest_exchange(t, dtest_writes_send, dtest_writes_receive);
}

static int dtest_read_one(struct dtest *t, struct dtest_measure *measure)
{
	const DAT_RMR_TRIPLET rmr = dtest_peer_buffer(t, t->opt.size);
	DAT_LMR_TRIPLET iov = dtest_iov(&t->out, 0, t->opt.size);

	memset(t->out.mem, 0, t->opt.size);
	dtest_measure_begin(t, measure);
	if (POST(t, dat_ep_post_rdma_read, t->ep, 1, &iov, dtest_cookie(COOKIE_READ), &rmr,
		 DAT_COMPLETION_DEFAULT_FLAG) < 0)
		return -1;
	if (dtest_expect_completion(t, "RDMA read", t->request_evd, COOKIE_READ, t->opt.size) < 0)
		return -1;
	dtest_measure_end(t, measure);
	return 0;
}

/* The buffers of RDMA become those of the pings. */
static int dtest_pings_prepare(struct dtest *t)
{
	memset(t->in.mem, 0, (size_t)t->opt.burst * t->opt.size);
	for (unsigned i = 0; i < t->opt.burst; i++) {
		const struct dtest_payload payload = dtest_ping_payload(t->server, i);

		dtest_payload_fill(t, &payload, t->out.mem + (size_t)i * t->opt.size);
		if (dtest_post_receive(t, &t->in, i, t->opt.size) < 0)
			return -1;
	}
	return 0;
}

/*
 * A dtest that does not send the size of its buffer may fill it after the reads: its bytes are
 * printed, but not checked. The server's message lets the client send its first ping, which must
 * find a receive: iWARP ends a connection whose message finds none.
 */
static int dtest_reads_send(struct dtest *t)
{
	const struct dtest_payload payload = dtest_read_payload(!t->server);

	for (unsigned i = 0; i < READS; i++) {
		if (dtest_read_one(t, &t->reads[i]) < 0)
			return -1;
		if (t->peer.size && dtest_payload_check(t, &payload, t->out.mem) < 0)
			return -1;
	}
	dtest_print("%s: RCV RDMA read buffer contains: %.*s", t->server ? "SERVER" : "CLIENT",
		    (int)payload.head_length, t->out.mem);
	/* the client has read what it wants: its message has come */
	if (t->server && dtest_pings_prepare(t) < 0)
		return -1;
	return dtest_message_send(t, DAT_COMPLETION_DEFAULT_FLAG);
}

int dtest_rdma_read(struct dtest *t)
{
	dtest_print("RDMA READ DATA with SEND MSG");
	return dtest_exchange(t, dtest_reads_send, dtest_message_expect_same);
}

static int dtest_ping_send(struct dtest *t, unsigned number)
{
	DAT_LMR_TRIPLET iov = dtest_iov(&t->out, (size_t)number * t->opt.size, t->opt.size);

	return POST(t, dat_ep_post_send, t->ep, 1, &iov, dtest_cookie(COOKIE_SEND),
		    DAT_COMPLETION_SUPPRESS_FLAG);
}

static int dtest_ping_receive(struct dtest *t, unsigned number)
{
	return dtest_expect_completion(t, "ping", t->recv_evd, number, t->opt.size);
}

static int dtest_pings_check(const struct dtest *t)
{
	for (unsigned i = 0; i < t->opt.burst; i++) {
		const struct dtest_payload payload = dtest_ping_payload(!t->server, i);

		if (dtest_payload_check(t, &payload, t->in.mem + (size_t)i * t->opt.size) < 0) {
			dtest_error("ping", "number %u of %u", i + 1, t->opt.burst);
			return -1;
		}
	}
	return 0;
}

/* Each ping has its own buffer, so that their bytes can be checked after the measurement. */
int dtest_ping_pong(struct dtest *t)
{
	dtest_print("PING DATA with SEND MSG");
	if (!t->server && dtest_pings_prepare(t) < 0)
		return -1;
	/* a program that tells no parameters may be one that posts its receives only now */
	if (!dtest_hello_known(t))
		(void)sleep(1);
	dtest_measure_begin(t, &t->pings);
	for (unsigned i = 0; i < t->opt.burst; i++) {
		if (!t->server && dtest_ping_send(t, i) < 0)
			return -1;
		if (dtest_ping_receive(t, i) < 0)
			return -1;
		if (t->server && dtest_ping_send(t, i) < 0)
			return -1;
	}
	dtest_measure_end(t, &t->pings);
	return dtest_pings_check(t);
}
