/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Plays peers that say anything to the verbs transport of DAT 2.0, through the events that
 * librdmacm makes of it: requests for connections and datagrams, answers, rejections, ends, with
 * any private data, in any order, and before or after what this side does. What comes with an
 * upcall must be what the peer has sent, and nothing may be left at the end.
 *
 * An input is a list of steps, see step_run.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <pthread.h>

#include "../verbs/conn.h"
#include "fuzz.h"

enum { SLOTS = 4, PORT = 7000, MAX_PDATA = 200 };

/* A request, a connection or an exchange that the core would have. */
static struct slot {
	struct tp_conn *conn; /* NULL: it is free */
	struct tp_qp *qp;     /* of a connection, from its begin */
	bool requested;	      /* and not answered */
} slots[SLOTS];

static struct tp_qp *datagram_qp;
static struct tp_listener *listener;
static struct rdma_cm_id *listening, *listening_for_datagrams;

/* The latest event, whose private data an upcall may bring. */
static struct fv_cm_event sent;
static const struct tp_cm_param our_param = {
	.private_data = "ours",
	.private_data_size = 4,
	.max_read_in = 4,
	.max_read_out = 2,
};

/* ---- the rig ---- */

static void fuzz_open(void)
{
	static bool prepared;
	struct tp_qp_attr attr;
	uint16_t port = PORT;

	if (!prepared)
		verbs_begin();
	prepared = true;
	setenv("DAPL_DBG_TYPE", "0", 1);
	fv_device(0)->port.active_mtu = IBV_MTU_1024; /* datagrams have a size */
	rig_open(&rig);
	attr = (struct tp_qp_attr){
		.pd = rig.pd,
		.send_cq = rig.send_cq,
		.recv_cq = rig.recv_cq,
		.max_send = 8,
		.max_recv = 8,
		.max_send_sge = 2,
		.max_recv_sge = 2,
		.datagrams = true,
	};
	require(!tp_qp_create(rig.dev, &attr, up_ep(SLOTS), &datagram_qp));
	require(!tp_listen(rig.dev, &port, up_sp(0), &listener));
	listening_for_datagrams = fv_id(0);
	listening = fv_id(1);
	require(listening->ps == RDMA_PS_TCP && listening_for_datagrams->ps == RDMA_PS_UDP);
}

static void slot_release(struct slot *slot)
{
	if (slot->requested)
		tp_reject(slot->conn, false, NULL, 0);
	else if (slot->conn)
		tp_release(slot->conn);
	if (slot->qp)
		rig_qp_destroy(slot->qp);
	*slot = (struct slot){ 0 };
}

static void fuzz_close(void)
{
	for (unsigned i = 0; i < SLOTS; i++)
		slot_release(&slots[i]);
	tp_unlisten(listener);
	rig_qp_destroy(datagram_qp);
	rig_close(&rig);
}

/* ---- upcalls ---- */

static struct slot *slot_free(void)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (!slots[i].conn)
			return &slots[i];
	return NULL;
}

static struct slot *slot_about(const struct up_record *record)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (record->about == up_ep(i) || record->about == up_peer(i))
			return &slots[i];
	return NULL;
}

/* It is the end of what the peer has sent: a header of ours may have been before it. */
static void require_sent(const struct up_record *record)
{
	require(record->pdata_size <= sent.pdata_size);
	require(!record->pdata_size ||
		!memcmp(record->pdata,
			(const char *)sent.pdata + sent.pdata_size - record->pdata_size,
			record->pdata_size));
}

static void request_keep(const struct up_record *record)
{
	struct slot *slot = slot_free();

	if (slot)
		*slot = (struct slot){ .conn = record->conn, .requested = true };
	else
		tp_reject(record->conn, true, "full", 4);
}

/* Does what the core does about an upcall. Returns false if there was none. */
static bool upcall_take(void)
{
	const struct up_record record = up_take();

	require_sent(&record);
	switch (record.kind) {
	case UP_NONE:
		return false;
	case UP_REQUEST:
		request_keep(&record);
		return true;
	case UP_PEER_FOUND:
		tp_ah_destroy(record.ah);
		slot_release(slot_about(&record));
		return true;
	case UP_FAILED:
	case UP_DISCONNECTED:
	case UP_PEER_FAILED:
		slot_release(slot_about(&record));
		return true;
	default:
		require(record.kind == UP_ESTABLISHED || record.kind == UP_REJECT_DATA);
		return true;
	}
}

static void progress(void)
{
	do
		rig_progress(&rig);
	while (upcall_take());
}

/* ---- what this side does ---- */

static struct sockaddr *peer_address(void)
{
	static struct sockaddr_in to;

	to = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000009) };
	return (struct sockaddr *)&to;
}

static void connect_begin(unsigned n)
{
	struct slot *slot = &slots[n];

	if (slot->conn)
		return;
	slot->qp = rig_qp(&rig, n);
	require(!tp_connect(rig.dev, peer_address(), PORT, slot->qp, up_ep(n), &our_param,
			    &slot->conn));
}

static void datagram_begin(unsigned n)
{
	if (!slots[n].conn)
		require(!tp_datagram_connect(rig.dev, peer_address(), PORT, datagram_qp, up_peer(n),
					     &our_param, &slots[n].conn));
}

/* A request that is refused stays, and is rejected. */
static void accept_as_asked(unsigned n)
{
	struct slot *slot = &slots[n];

	if (slot->conn->datagrams) {
		slot->requested = tp_datagram_accept(slot->conn, datagram_qp, up_peer(n),
						     &our_param) != 0;
		return;
	}
	slot->qp = rig_qp(&rig, n);
	slot->requested = tp_accept(slot->conn, slot->qp, up_ep(n), &our_param) != 0;
}

static void request_answer(unsigned n, bool accept)
{
	struct slot *slot = &slots[n];

	if (slot->requested && accept)
		accept_as_asked(n);
	else if (slot->requested)
		tp_reject(slot->conn, true, "no", 2);
	if (slot->requested && !accept)
		*slot = (struct slot){ 0 };
	else if (slot->requested)
		slot_release(slot);
}

/* ---- what the peer does ---- */

static struct fv_cm_event event_read(struct fuzz_input *input)
{
	struct fv_cm_event event = { .status = (int8_t)fuzz_byte(input) };
	const uint8_t *bytes;

	event.responder_resources = fuzz_byte(input);
	event.initiator_depth = event.responder_resources >> 4;
	event.qp_num = event.responder_resources;
	event.pdata_size = fuzz_bytes(input, MAX_PDATA, &bytes);
	event.pdata = bytes;
	return event;
}

static void request_send(struct rdma_cm_id *to, struct fuzz_input *input)
{
	sent = event_read(input);
	if (to)
		(void)fv_request(to, &sent);
}

/* A question that one byte tells from others, with private data. */
static void question_send(struct rdma_cm_id *to, uint8_t kind, struct fuzz_input *input)
{
	static char bytes[sizeof(struct datagram_header) + MAX_PDATA];
	const struct datagram_header header = {
		.magic = { 'D', 'A', 'T', 'U' },
		.version = 1,
		.kind = kind,
		.port = htons(9000),
		.qp_num = htonl(4711),
		.exchange = fuzz_byte(input) % 4,
	};

	sent = event_read(input);
	memcpy(bytes, &header, sizeof(header));
	if (sent.pdata_size)
		memcpy(bytes + sizeof(header), sent.pdata, sent.pdata_size);
	sent.pdata = bytes;
	sent.pdata_size += (unsigned)sizeof(header);
	if (to)
		(void)fv_request(to, &sent);
}

/* The step of the way to the peer that is next succeeds or fails, which no peer decides. */
static bool resolve(const struct tp_conn *conn, bool good)
{
	const bool addr = conn->state == CM_RESOLVING_ADDR;

	if (!addr && conn->state != CM_RESOLVING_ROUTE)
		return false;
	sent.pdata_size = 0;
	if (good)
		fv_cm_post(conn->id,
			   addr ? RDMA_CM_EVENT_ADDR_RESOLVED : RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	else
		fv_cm_post(conn->id, addr ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ROUTE_ERROR,
			   -ETIMEDOUT);
	return true;
}

/* A connection that the core has released may still wait for its peer. */
static struct rdma_cm_id *id_choose(const struct slot *slot, unsigned byte)
{
	struct rdma_cm_id *id = slot->conn ? slot->conn->id : fv_id(byte % 8);

	return id == listening || id == listening_for_datagrams || id == rig.dev->asked_back ? NULL
											     : id;
}

static void answer_send(struct slot *slot, struct fuzz_input *input)
{
	static const enum rdma_cm_event_type of_connections[] = {
		RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_CONNECT_ERROR,
		RDMA_CM_EVENT_UNREACHABLE,	RDMA_CM_EVENT_REJECTED,
		RDMA_CM_EVENT_ESTABLISHED,	RDMA_CM_EVENT_DISCONNECTED,
		RDMA_CM_EVENT_TIMEWAIT_EXIT,	RDMA_CM_EVENT_ADDR_CHANGE,
	};
	static const enum rdma_cm_event_type of_exchanges[] = { RDMA_CM_EVENT_ESTABLISHED,
								RDMA_CM_EVENT_UNREACHABLE };
	const unsigned byte = fuzz_byte(input);
	struct rdma_cm_id *id = id_choose(slot, byte);

	if (slot->conn && resolve(slot->conn, byte & 1))
		return;
	sent = event_read(input);
	if (!id)
		return;
	if (id->ps == RDMA_PS_UDP)
		sent.type = of_exchanges[byte % ARRAY_SIZE(of_exchanges)];
	else
		sent.type = of_connections[byte % ARRAY_SIZE(of_connections)];
	fv_cm_event(id, &sent);
}

static void step_run(struct fuzz_input *input)
{
	const unsigned step = fuzz_byte(input), n = step / 16 % SLOTS;

	switch (step % 16) {
	case 0:
		connect_begin(n);
		break;
	case 1:
		datagram_begin(n);
		break;
	case 2:
		request_answer(n, true);
		break;
	case 3:
		request_answer(n, false);
		break;
	case 4:
		slot_release(&slots[n]);
		break;
	case 5:
		fv_clock_advance(UINT64_C(1000000000) << n);
		break;
	case 6:
		request_send(listening, input);
		break;
	case 7:
		request_send(listening_for_datagrams, input);
		break;
	case 8:
		request_send(rig.dev->asked_back, input);
		break;
	case 9:
		question_send(listening_for_datagrams, 1, input);
		break;
	case 10:
		question_send(rig.dev->asked_back, 2, input);
		break;
	default:
		answer_send(&slots[n], input);
		break;
	}
	progress();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = { data, size };

	fuzz_open();
	while (input.left)
		step_run(&input);
	fuzz_close();
	return 0;
}
