/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fake connection manager: messages between two halves of a connection, over a wire that can be
 * held.
 *
 * tp_connect makes both halves; the passive one is nobody's until its request is reported. A half
 * that goes away cuts the tie, and what is on the wire for it goes, too.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fake_impl.h"

struct tp_listener {
	struct tp_listener *next;
	struct tp_dev *dev;
	struct sp *sp;
	uint16_t port;
};

enum conn_state {
	CONN_CALLING,  /* active: no answer yet */
	CONN_ASKED,    /* passive: the core has not answered yet */
	CONN_ACCEPTED, /* passive: the peer has not confirmed yet */
	CONN_UP,
	CONN_OVER, /* the upcall that says so is queued or done */
};

struct tp_conn {
	struct tp_dev *dev; /* NULL: a request that nobody got yet */
	struct tp_conn *peer;
	struct tp_listener *listener; /* a request that was not reported yet */
	enum conn_state state;
	bool active;
	struct tp_qp *qp;
	struct ep *ep;
	struct sockaddr_in local, remote;
	char pdata[FAKE_MAX_PDATA]; /* what the peer said */
	unsigned pdata_size;
	unsigned read_in, read_out; /* asked for by the peer, then as agreed */
};

enum message_kind {
	MSG_REQUEST,
	MSG_REPLY,
	MSG_REFUSAL,
	MSG_READY,
	MSG_GONE,
};

struct message {
	struct message *next;
	enum message_kind kind;
	struct tp_conn *to;
	enum tp_cause cause;
};

static unsigned min(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

static bool addr_is(const struct sockaddr_storage *a, const struct sockaddr_in *b)
{
	return ((const struct sockaddr_in *)a)->sin_addr.s_addr == b->sin_addr.s_addr;
}

static struct tp_listener *listener_at(const struct sockaddr_in *addr, uint16_t port)
{
	for (struct tp_dev *dev = fake.devs; dev; dev = dev->next)
		for (struct tp_listener *listener = dev->listeners; listener;
		     listener = listener->next)
			if (addr_is(&dev->attr.addr, addr) && listener->port == port)
				return listener;
	return NULL;
}

static bool host_is_there(const struct sockaddr_in *addr)
{
	for (struct tp_dev *dev = fake.devs; dev; dev = dev->next)
		if (addr_is(&dev->attr.addr, addr))
			return true;
	return false;
}

static void conn_over(struct tp_conn *conn, enum event_kind kind, enum tp_cause cause)
{
	conn->state = CONN_OVER;
	event_post(conn->dev, kind, conn, cause);
}

/* ---- the wire ---- */

static void deliver_request(struct tp_conn *conn)
{
	struct tp_listener *listener = listener_at(&conn->local, ntohs(conn->local.sin_port));

	if (!listener) {
		conn->peer->peer = NULL;
		conn_over(conn->peer, EV_FAILED,
			  host_is_there(&conn->local) ? TP_NON_PEER_REJECTED : TP_UNREACHABLE);
		free(conn);
		return;
	}
	conn->dev = listener->dev;
	conn->listener = listener;
	event_post(conn->dev, EV_REQUEST, conn, 0);
}

static void deliver(const struct message *msg)
{
	struct tp_conn *to = msg->to;

	if (msg->kind == MSG_REQUEST) {
		deliver_request(to);
		return;
	}
	if (to->state == CONN_OVER || to->state == CONN_ASKED)
		return; /* the latter learns it when it answers */
	switch (msg->kind) {
	case MSG_REPLY:
	case MSG_READY:
		to->state = CONN_UP;
		event_post(to->dev, EV_ESTABLISHED, to, 0);
		break;
	case MSG_REFUSAL:
		conn_over(to, EV_FAILED, msg->cause);
		break;
	default:
		conn_over(to, to->state == CONN_UP ? EV_DISCONNECTED : EV_FAILED,
			  TP_NON_PEER_REJECTED);
	}
}

static void wire_send(enum message_kind kind, struct tp_conn *to, enum tp_cause cause)
{
	struct message now = { .kind = kind, .to = to, .cause = cause }, *later;

	if (!fake.hold_cm) {
		deliver(&now);
		return;
	}
	later = malloc(sizeof(*later));
	fake_demand(later != NULL, "there is memory for a message (no rule, but bad luck)");
	*later = now;
	*fake.wire_end = later;
	fake.wire_end = &later->next;
}

static void wire_unlink(struct message **link)
{
	if (fake.wire_end == &(*link)->next)
		fake.wire_end = link;
	*link = (*link)->next;
}

static void wire_drop(const struct tp_conn *to)
{
	struct message **link = &fake.wire;

	while (*link) {
		struct message *msg = *link;

		if (msg->to == to) {
			wire_unlink(link);
			free(msg);
		} else {
			link = &msg->next;
		}
	}
}

static bool wire_step(void)
{
	struct message *msg = fake.wire;

	if (!msg)
		return false;
	wire_unlink(&fake.wire);
	deliver(msg);
	free(msg);
	return true;
}

bool fake_step_cm(void)
{
	bool stepped;

	fake_lock();
	stepped = wire_step();
	fake_unlock();
	return stepped;
}

void fake_hold_cm(bool hold)
{
	fake_lock();
	fake.hold_cm = hold;
	while (!hold && wire_step())
		;
	fake_unlock();
}

/* ---- listening ---- */

static uint16_t port_pick(const struct sockaddr_in *addr)
{
	do {
		if (++fake.next_port < 49152)
			fake.next_port = 49152;
	} while (listener_at(addr, fake.next_port));
	return fake.next_port;
}

int tp_listen(struct tp_dev *dev, uint16_t *port, struct sp *sp, struct tp_listener **out)
{
	const struct sockaddr_in *addr = (const struct sockaddr_in *)&dev->attr.addr;
	struct tp_listener *listener;
	int err = fake_enter(CALL_LISTEN);

	if (err)
		return err;
	err = -EADDRINUSE;
	if (*port && listener_at(addr, *port))
		goto unlock;
	err = -ENOMEM;
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		goto unlock;
	listener->dev = dev;
	listener->sp = sp;
	listener->port = *port ? *port : port_pick(addr);
	listener->next = dev->listeners;
	dev->listeners = listener;
	alive_add(dev, FAKE_LISTENER, 1);
	*port = listener->port;
	*out = listener;
	err = 0;
unlock:
	fake_unlock();
	return err;
}

static struct tp_conn *unreported(const struct tp_listener *listener)
{
	for (const struct event *event = listener->dev->events; event; event = event->next) {
		struct tp_conn *conn = event->about;

		if (event->kind == EV_REQUEST && conn->listener == listener)
			return conn;
	}
	return NULL;
}

/* Both halves forget each other; the peer hears of it. */
static void conn_cut(struct tp_conn *conn, enum message_kind kind, enum tp_cause cause)
{
	struct tp_conn *peer = conn->peer;

	events_drop(conn->dev, conn);
	wire_drop(conn);
	if (!peer)
		return;
	peer->peer = NULL;
	conn->peer = NULL;
	if (peer->dev) {
		wire_send(kind, peer, cause);
	} else {
		wire_drop(peer); /* it had not got through */
		free(peer);
	}
}

void tp_unlisten(struct tp_listener *listener)
{
	struct tp_dev *dev = listener->dev;
	struct tp_listener **link = &dev->listeners;
	struct tp_conn *conn;

	fake_lock();
	fake_count(CALL_UNLISTEN);
	while (*link != listener)
		link = &(*link)->next;
	*link = listener->next;
	while ((conn = unreported(listener))) {
		conn_cut(conn, MSG_REFUSAL, TP_NON_PEER_REJECTED);
		free(conn);
	}
	alive_add(dev, FAKE_LISTENER, -1);
	fake_unlock();
	free(listener);
}

/* ---- connecting ---- */

static int route(const struct sockaddr *remote)
{
	uint32_t addr;

	if (remote->sa_family != AF_INET)
		return -EAFNOSUPPORT;
	addr = ntohl(((const struct sockaddr_in *)remote)->sin_addr.s_addr);
	if ((addr & 0xffff0000) != FAKE_NETWORK)
		return -ENETUNREACH;
	return (addr & 0xff00) == 0xff00 ? -EHOSTUNREACH : 0;
}

static void say(struct tp_conn *to, const struct tp_cm_param *param, unsigned limit)
{
	if (param->private_data_size > 0)
		memcpy(to->pdata, param->private_data, param->private_data_size);
	to->pdata_size = fake.quirks & FAKE_PADS_PDATA ? limit : param->private_data_size;
	fake.seen.cm = *param;
	fake.seen.cm.private_data = NULL;
}

static void conn_take_qp(struct tp_conn *conn, struct tp_qp *qp, struct ep *ep)
{
	fake_demand(qp->state != QP_UP && !qp->conn, "a queue pair is used for one connection");
	conn->qp = qp;
	conn->ep = ep;
	qp->conn = conn;
}

int tp_connect(struct tp_dev *dev, const struct sockaddr *remote, uint16_t port, struct tp_qp *qp,
	       struct ep *ep, const struct tp_cm_param *param, struct tp_conn **out)
{
	struct tp_conn *conn, *peer;
	int err = fake_enter(CALL_CONNECT);

	if (err)
		return err;
	err = route(remote);
	if (err)
		goto unlock;
	err = -EINVAL;
	if (param->private_data_size > dev->attr.max_request_pdata || qp->state != QP_READY)
		goto unlock;
	err = -ENOMEM;
	conn = calloc(1, sizeof(*conn));
	if (!conn)
		goto unlock;
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		goto free_conn;
	conn->dev = dev;
	conn->active = true;
	conn->state = CONN_CALLING;
	conn->remote = *(const struct sockaddr_in *)remote;
	conn->remote.sin_port = htons(port);
	memcpy(&conn->local, &dev->attr.addr, sizeof(conn->local));
	conn->local.sin_port = htons(port_pick(&conn->local));
	conn_take_qp(conn, qp, ep);
	peer->state = CONN_ASKED;
	peer->local = conn->remote;
	peer->remote = conn->local;
	peer->read_in = param->max_read_in;
	peer->read_out = param->max_read_out;
	conn->peer = peer;
	peer->peer = conn;
	say(peer, param, dev->attr.max_request_pdata);
	alive_add(dev, FAKE_CONN, 1);
	wire_send(MSG_REQUEST, peer, 0);
	fake_unlock();
	*out = conn;
	return 0;
free_conn:
	free(conn);
unlock:
	fake_unlock();
	return err;
}

/* The acceptor has the last word on read depths, within what the request asked for. */
static void agree(struct tp_conn *conn, const struct tp_cm_param *param)
{
	unsigned peer_in = conn->read_in, peer_out = conn->read_out;

	conn->read_in = min(min(param->max_read_in, peer_out), conn->dev->attr.max_read_in);
	conn->read_out = min(min(param->max_read_out, peer_in), conn->dev->attr.max_read_out);
	conn->peer->read_in = conn->read_out;
	conn->peer->read_out = conn->read_in;
}

static void qp_link(struct tp_qp *qp, struct tp_qp *peer)
{
	qp->state = QP_UP;
	qp->peer = peer;
	if (peer)
		peer->peer = qp;
}

int tp_accept(struct tp_conn *conn, struct tp_qp *qp, struct ep *ep,
	      const struct tp_cm_param *param)
{
	int err = fake_enter(CALL_ACCEPT);

	if (err)
		return err;
	fake_demand(conn->state == CONN_ASKED && conn->dev, "a request is answered once");
	err = -EINVAL;
	if (param->private_data_size > conn->dev->attr.max_reply_pdata || qp->state != QP_READY)
		goto unlock;
	err = 0;
	conn_take_qp(conn, qp, ep);
	if (!conn->peer) {
		conn_over(conn, EV_FAILED, TP_NON_PEER_REJECTED);
		goto unlock;
	}
	agree(conn, param);
	qp_link(qp, conn->peer->qp);
	say(conn->peer, param, conn->dev->attr.max_reply_pdata);
	conn->state = CONN_ACCEPTED;
	wire_send(MSG_REPLY, conn->peer, 0);
unlock:
	fake_unlock();
	return err;
}

static void conn_end(struct tp_conn *conn, enum message_kind kind, enum tp_cause cause)
{
	conn_cut(conn, kind, cause);
	if (conn->qp)
		conn->qp->conn = NULL;
	alive_add(conn->dev, FAKE_CONN, -1);
	free(conn);
}

void tp_reject(struct tp_conn *conn, bool by_consumer)
{
	fake_lock();
	fake_count(CALL_REJECT);
	fake_demand(conn->state == CONN_ASKED,
		    "only a request that waits for an answer is refused");
	conn_end(conn, MSG_REFUSAL, by_consumer ? TP_PEER_REJECTED : TP_NON_PEER_REJECTED);
	fake_unlock();
}

void tp_release(struct tp_conn *conn)
{
	fake_lock();
	fake_count(CALL_RELEASE);
	conn_end(conn, conn->state == CONN_ASKED ? MSG_REFUSAL : MSG_GONE, TP_NON_PEER_REJECTED);
	fake_unlock();
}

void tp_conn_addr(const struct tp_conn *conn, struct sockaddr_storage *local,
		  struct sockaddr_storage *remote)
{
	*local = (struct sockaddr_storage){ 0 };
	*remote = (struct sockaddr_storage){ 0 };
	memcpy(local, &conn->local, sizeof(conn->local));
	memcpy(remote, &conn->remote, sizeof(conn->remote));
}

void conn_forget_qp(struct tp_qp *qp)
{
	if (qp->conn)
		qp->conn->qp = NULL;
}

/* ---- what the core is told ---- */

static void report_request(struct tp_conn *conn)
{
	struct tp_dev *dev = conn->dev;
	struct sp *sp = conn->listener->sp;
	/* the core may refuse at once, and the request lives for the whole upcall */
	char pdata[FAKE_MAX_PDATA];
	struct sockaddr_in local = conn->local, remote = conn->remote;
	const struct tp_request request = {
		.local = (struct sockaddr *)&local,
		.remote = (struct sockaddr *)&remote,
		.private_data = pdata,
		.private_data_size = conn->pdata_size,
		.max_read_in = conn->read_in,
		.max_read_out = conn->read_out,
	};

	memcpy(pdata, conn->pdata, sizeof(pdata));
	conn->listener = NULL;
	alive_add(dev, FAKE_CONN, 1);
	upcall_begin(dev, NULL);
	up_request(sp, conn, &request);
	upcall_end(dev);
}

static void report_failed(struct tp_conn *conn, enum tp_cause cause)
{
	struct tp_dev *dev = conn->dev;

	upcall_begin(dev, conn->qp);
	up_failed(conn->ep, cause);
	upcall_end(dev);
}

static void report_established(struct tp_conn *conn)
{
	struct tp_dev *dev = conn->dev;
	char pdata[FAKE_MAX_PDATA];
	const struct tp_established established = {
		.private_data = conn->active ? pdata : NULL,
		.private_data_size = conn->active ? conn->pdata_size : 0,
		.max_read_in = conn->read_in,
		.max_read_out = conn->read_out,
	};

	if (conn->active) {
		if (fake_fault(CALL_ESTABLISH)) {
			conn_cut(conn, MSG_REFUSAL, TP_NON_PEER_REJECTED);
			conn->state = CONN_OVER;
			report_failed(conn, TP_LOCAL_ERROR);
			return;
		}
		if (conn->qp && conn->qp->state == QP_READY)
			conn->qp->state = QP_UP;
		if (conn->peer)
			wire_send(MSG_READY, conn->peer, 0);
		if (conn->qp)
			transfers_run(conn->qp);
	}
	memcpy(pdata, conn->pdata, sizeof(pdata));
	upcall_begin(dev, conn->qp);
	up_established(conn->ep, &established);
	upcall_end(dev);
}

static void report_disconnected(struct tp_conn *conn)
{
	struct tp_dev *dev = conn->dev;

	upcall_begin(dev, conn->qp);
	up_disconnected(conn->ep);
	upcall_end(dev);
}

void conn_dispatch(const struct event *event)
{
	struct tp_conn *conn = event->about;

	switch (event->kind) {
	case EV_REQUEST:
		report_request(conn);
		break;
	case EV_ESTABLISHED:
		report_established(conn);
		break;
	case EV_FAILED:
		report_failed(conn, event->cause);
		break;
	default:
		report_disconnected(conn);
	}
}
