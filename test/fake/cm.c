/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fake connection manager: messages between the two halves of a connection, over a wire that
 * can be held.
 *
 * tp_connect creates both halves; the passive one has no device until its request is delivered, and
 * is not the core's until up_request. A half that is destroyed is detached from its peer, and the
 * messages to it are removed from the wire.
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
	CONN_CONNECTING, /* active: no reply yet */
	CONN_REQUESTED,	 /* passive: the core has neither accepted nor rejected yet */
	CONN_ACCEPTED,	 /* passive: the peer has not confirmed yet */
	CONN_UP,
	CONN_FINISHED, /* up_failed or up_disconnected is queued or made */
};

struct tp_conn {
	struct tp_dev *dev; /* NULL: a request that was not delivered yet */
	struct tp_conn *peer;
	struct tp_listener *listener; /* of a request before its up_request */
	enum conn_state state;
	bool active;
	struct tp_qp *qp;
	struct ep *ep;
	struct sockaddr_in local, remote;
	char pdata[FAKE_MAX_PDATA]; /* from the peer */
	unsigned pdata_size;
	unsigned read_in, read_out; /* as the peer requested, then as negotiated */
	bool datagrams;		    /* an exchange: these, and no endpoint */
	struct peer *told;
	uint32_t number; /* of the other queue pair */
};

enum message_kind {
	MSG_REQUEST,
	MSG_REPLY,
	MSG_REJECT,
	MSG_READY,
	MSG_DISCONNECT,
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

static bool addr_equals(const struct sockaddr_storage *a, const struct sockaddr_in *b)
{
	return ((const struct sockaddr_in *)a)->sin_addr.s_addr == b->sin_addr.s_addr;
}

static struct tp_listener *listener_at(const struct sockaddr_in *addr, uint16_t port)
{
	for (struct tp_dev *dev = fake.devs; dev; dev = dev->next)
		for (struct tp_listener *listener = dev->listeners; listener;
		     listener = listener->next)
			if (addr_equals(&dev->attr.addr, addr) && listener->port == port)
				return listener;
	return NULL;
}

static bool host_exists(const struct sockaddr_in *addr)
{
	for (struct tp_dev *dev = fake.devs; dev; dev = dev->next)
		if (addr_equals(&dev->attr.addr, addr))
			return true;
	return false;
}

static void conn_finish(struct tp_conn *conn, enum event_kind kind, enum tp_cause cause)
{
	conn->state = CONN_FINISHED;
	event_post(conn->dev, kind, conn, cause);
}

/* ---- the wire ---- */

static void wire_deliver_request(struct tp_conn *conn)
{
	struct tp_listener *listener = listener_at(&conn->local, ntohs(conn->local.sin_port));

	if (!listener) {
		conn->peer->peer = NULL;
		conn_finish(conn->peer, EV_FAILED,
			    host_exists(&conn->local) ? TP_NON_PEER_REJECTED : TP_UNREACHABLE);
		free(conn);
		return;
	}
	conn->dev = listener->dev;
	conn->listener = listener;
	event_post(conn->dev, EV_REQUEST, conn, 0);
}

static void wire_deliver(const struct message *msg)
{
	struct tp_conn *to = msg->to;

	if (msg->kind == MSG_REQUEST) {
		wire_deliver_request(to);
		return;
	}
	if (to->state == CONN_FINISHED || to->state == CONN_REQUESTED)
		return; /* CONN_REQUESTED: tp_accept finds that the peer is gone */
	if (to->datagrams && msg->kind == MSG_DISCONNECT)
		return; /* each side releases an exchange when it has its answer */
	switch (msg->kind) {
	case MSG_REPLY:
	case MSG_READY:
		to->state = CONN_UP;
		event_post(to->dev, EV_ESTABLISHED, to, 0);
		break;
	case MSG_REJECT:
		conn_finish(to, EV_FAILED, msg->cause);
		break;
	default:
		conn_finish(to, to->state == CONN_UP ? EV_DISCONNECTED : EV_FAILED,
			    TP_NON_PEER_REJECTED);
	}
}

static void wire_send(enum message_kind kind, struct tp_conn *to, enum tp_cause cause)
{
	struct message now = { .kind = kind, .to = to, .cause = cause }, *later;

	if (!fake.hold_cm) {
		wire_deliver(&now);
		return;
	}
	later = malloc(sizeof(*later));
	fake_require_host(later != NULL, "memory");
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

static void wire_drop_for(const struct tp_conn *to)
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
	wire_deliver(msg);
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

/* A request whose up_request is still queued, or NULL. */
static struct tp_conn *listener_first(const struct tp_listener *listener)
{
	for (const struct event *event = listener->dev->events; event; event = event->next) {
		struct tp_conn *conn = event->about;

		if (event->kind == EV_REQUEST && conn->listener == listener)
			return conn;
	}
	return NULL;
}

/* Detaches both halves from each other and notifies the peer. */
static void conn_detach(struct tp_conn *conn, enum message_kind kind, enum tp_cause cause)
{
	struct tp_conn *peer = conn->peer;

	events_drop(conn->dev, conn);
	wire_drop_for(conn);
	if (!peer)
		return;
	peer->peer = NULL;
	conn->peer = NULL;
	if (peer->dev) {
		wire_send(kind, peer, cause);
	} else {
		wire_drop_for(peer); /* the request was not delivered yet */
		free(peer);
	}
}

void tp_unlisten(struct tp_listener *listener)
{
	struct tp_dev *dev = listener->dev;
	struct tp_listener **link = &dev->listeners;
	struct tp_conn *conn;

	fake_begin(CALL_UNLISTEN);
	while (*link != listener)
		link = &(*link)->next;
	*link = listener->next;
	while ((conn = listener_first(listener))) {
		conn_detach(conn, MSG_REJECT, TP_NON_PEER_REJECTED);
		free(conn);
	}
	alive_add(dev, FAKE_LISTENER, -1);
	fake_unlock();
	free(listener);
}

/* ---- connecting ---- */

static int route_find(const struct sockaddr *remote)
{
	uint32_t addr;

	if (remote->sa_family != AF_INET)
		return -EAFNOSUPPORT;
	addr = ntohl(((const struct sockaddr_in *)remote)->sin_addr.s_addr);
	if ((addr & 0xffff0000) != FAKE_NETWORK)
		return -ENETUNREACH;
	return (addr & 0xff00) == 0xff00 ? -EHOSTUNREACH : 0;
}

static void pdata_send(struct tp_conn *to, const struct tp_cm_param *param, unsigned limit)
{
	if (param->private_data_size > 0)
		memcpy(to->pdata, param->private_data, param->private_data_size);
	to->pdata_size = fake.quirks & FAKE_PADS_PDATA ? limit : param->private_data_size;
	fake.seen.cm = *param;
	fake.seen.cm.private_data = NULL;
}

static void conn_take_qp(struct tp_conn *conn, struct tp_qp *qp, struct ep *ep)
{
	fake_require(qp->state != QP_UP && !qp->conn, "a queue pair is used for one connection");
	conn->qp = qp;
	conn->ep = ep;
	qp->conn = conn;
}

/* Makes both halves. The lock is held. */
static int conn_begin(struct tp_dev *dev, const struct sockaddr *remote, uint16_t port,
		      const struct tp_cm_param *param, unsigned limit, struct tp_conn **out)
{
	struct tp_conn *conn, *peer;
	int err = route_find(remote);

	if (err)
		return err;
	if (param->private_data_size > limit)
		return -EINVAL;
	conn = calloc(1, sizeof(*conn));
	if (!conn)
		return -ENOMEM;
	peer = calloc(1, sizeof(*peer));
	if (!peer) {
		free(conn);
		return -ENOMEM;
	}
	conn->dev = dev;
	conn->active = true;
	conn->state = CONN_CONNECTING;
	conn->remote = *(const struct sockaddr_in *)remote;
	conn->remote.sin_port = htons(port);
	memcpy(&conn->local, &dev->attr.addr, sizeof(conn->local));
	conn->local.sin_port = htons(port_pick(&conn->local));
	peer->state = CONN_REQUESTED;
	peer->local = conn->remote;
	peer->remote = conn->local;
	peer->read_in = param->max_read_in;
	peer->read_out = param->max_read_out;
	conn->peer = peer;
	peer->peer = conn;
	pdata_send(peer, param, limit);
	alive_add(dev, FAKE_CONN, 1);
	*out = conn;
	return 0;
}

int tp_connect(struct tp_dev *dev, const struct sockaddr *remote, uint16_t port, struct tp_qp *qp,
	       struct ep *ep, const struct tp_cm_param *param, struct tp_conn **out)
{
	int err = fake_enter(CALL_CONNECT);

	if (err)
		return err;
	err = qp->state == QP_READY
		      ? conn_begin(dev, remote, port, param, dev->attr.max_request_pdata, out)
		      : -EINVAL;
	if (!err) {
		conn_take_qp(*out, qp, ep);
		wire_send(MSG_REQUEST, (*out)->peer, 0);
	}
	fake_unlock();
	return err;
}

/* The passive side decides on the read depths, within what the active side requested. */
static void read_depths_set(struct tp_conn *conn, const struct tp_cm_param *param)
{
	unsigned peer_in = conn->read_in, peer_out = conn->read_out;

	conn->read_in = min(min(param->max_read_in, peer_out), conn->dev->attr.max_read_in);
	conn->read_out = min(min(param->max_read_out, peer_in), conn->dev->attr.max_read_out);
	conn->peer->read_in = conn->read_out;
	conn->peer->read_out = conn->read_in;
}

static void qps_connect(struct tp_qp *qp, struct tp_qp *peer)
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
	fake_require(conn->state == CONN_REQUESTED && conn->dev, "a request is answered once");
	err = -EINVAL;
	if (param->private_data_size > conn->dev->attr.max_reply_pdata || qp->state != QP_READY)
		goto unlock;
	err = 0;
	conn_take_qp(conn, qp, ep);
	if (!conn->peer) {
		qp_break(qp, false);
		conn_finish(conn, EV_FAILED, TP_NON_PEER_REJECTED);
		goto unlock;
	}
	read_depths_set(conn, param);
	qps_connect(qp, conn->peer->qp);
	pdata_send(conn->peer, param, conn->dev->attr.max_reply_pdata);
	conn->state = CONN_ACCEPTED;
	wire_send(MSG_REPLY, conn->peer, 0);
unlock:
	fake_unlock();
	return err;
}

/* ---- datagrams ---- */

#if DAT_EDITION == 2
int tp_datagram_connect(struct tp_dev *dev, const struct sockaddr *remote, uint16_t port,
			struct tp_qp *qp, struct peer *peer, const struct tp_cm_param *param,
			struct tp_conn **out)
{
	int err = fake_enter(CALL_DATAGRAM_CONNECT);

	if (err)
		return err;
	fake_require(qp->datagrams, "an exchange is one of datagrams");
	err = conn_begin(dev, remote, port, param, dev->attr.max_request_pdata, out);
	if (!err) {
		(*out)->datagrams = (*out)->peer->datagrams = true;
		(*out)->told = peer;
		(*out)->peer->number = qp->number;
		wire_send(MSG_REQUEST, (*out)->peer, 0);
	}
	fake_unlock();
	return err;
}

int tp_datagram_accept(struct tp_conn *conn, struct tp_qp *qp, struct peer *peer,
		       const struct tp_cm_param *param)
{
	int err = fake_enter(CALL_DATAGRAM_ACCEPT);

	if (err)
		return err;
	fake_require(conn->state == CONN_REQUESTED && conn->datagrams && qp->datagrams,
		     "a request for datagrams is answered once");
	err = -EINVAL;
	if (param->private_data_size > conn->dev->attr.max_datagram_reply_pdata)
		goto unlock;
	err = -ENOTCONN;
	if (!conn->peer)
		goto unlock;
	err = 0;
	conn->told = peer;
	conn->peer->number = qp->number;
	pdata_send(conn->peer, param, conn->dev->attr.max_datagram_reply_pdata);
	conn->state = CONN_UP;
	wire_send(MSG_REPLY, conn->peer, 0);
	event_post(conn->dev, EV_ESTABLISHED, conn, 0);
unlock:
	fake_unlock();
	return err;
}

/* The upcalls may release @conn. */
static void report_peer_failed(struct tp_conn *conn, enum tp_cause cause)
{
	struct tp_dev *dev = conn->dev;
	char pdata[FAKE_MAX_PDATA];
	unsigned size = cause == TP_PEER_REJECTED ? conn->pdata_size : 0;

	memcpy(pdata, conn->pdata, sizeof(pdata));
	upcall_begin(dev, NULL);
	up_peer_failed(conn->told, cause, pdata, size);
	upcall_end(dev);
}

static void report_peer_found(struct tp_conn *conn)
{
	struct tp_dev *dev = conn->dev;
	char pdata[FAKE_MAX_PDATA];
	struct tp_ah *ah;

	if (fake_fault_locked(CALL_AH_CREATE)) {
		conn->state = CONN_FINISHED;
		report_peer_failed(conn, TP_LOCAL_ERROR);
		return;
	}
	ah = ah_new(dev, conn->number);
	memcpy(pdata, conn->pdata, sizeof(pdata));
	upcall_begin(dev, NULL);
	up_peer_found(conn->told, ah, pdata, conn->active ? conn->pdata_size : 0);
	upcall_end(dev);
}
#else
static void report_peer_failed(struct tp_conn *conn, enum tp_cause cause)
{
	(void)conn, (void)cause;
}

static void report_peer_found(struct tp_conn *conn)
{
	(void)conn;
}
#endif

static void conn_free(struct tp_conn *conn, enum message_kind kind, enum tp_cause cause)
{
	conn_detach(conn, kind, cause);
	if (conn->qp)
		conn->qp->conn = NULL;
	alive_add(conn->dev, FAKE_CONN, -1);
	free(conn);
}

void tp_reject(struct tp_conn *conn, bool by_consumer, const void *private_data, unsigned size)
{
	const struct tp_cm_param param = { .private_data = private_data,
					   .private_data_size = size };
	const struct tp_attr *attr = &conn->dev->attr;
	const unsigned limit = conn->datagrams ? attr->max_datagram_reject_pdata
					       : attr->max_reject_pdata;

	fake_begin(CALL_REJECT);
	fake_require(conn->state == CONN_REQUESTED, "only an unanswered request is rejected");
	fake_require(by_consumer || !size, "the provider's rejection has no private data");
	fake_require(size <= limit, "private data of a rejection fit");
	if (conn->peer && size)
		pdata_send(conn->peer, &param, limit);
	conn_free(conn, MSG_REJECT, by_consumer ? TP_PEER_REJECTED : TP_NON_PEER_REJECTED);
	fake_unlock();
}

void tp_release(struct tp_conn *conn)
{
	fake_begin(CALL_RELEASE);
	conn_free(conn, conn->state == CONN_REQUESTED ? MSG_REJECT : MSG_DISCONNECT,
		  TP_NON_PEER_REJECTED);
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

void conn_detach_qp(struct tp_qp *qp)
{
	if (qp->conn)
		qp->conn->qp = NULL;
}

/* ---- upcalls ---- */

static void report_request(struct tp_conn *conn)
{
	struct tp_dev *dev = conn->dev;
	struct sp *sp = conn->listener->sp;
	/* the core may reject within the upcall, but @request must stay valid until it returns */
	char pdata[FAKE_MAX_PDATA];
	struct sockaddr_in local = conn->local, remote = conn->remote;
	const struct tp_request request = {
		.local = (struct sockaddr *)&local,
		.remote = (struct sockaddr *)&remote,
		.private_data = pdata,
		.private_data_size = conn->pdata_size,
		.max_read_in = conn->read_in,
		.max_read_out = conn->read_out,
		.datagrams = conn->datagrams,
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
	if (cause == TP_PEER_REJECTED && conn->pdata_size)
		up_reject_data(conn->ep, conn->pdata, conn->pdata_size);
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
		if (fake_fault_locked(CALL_ESTABLISH)) {
			conn_detach(conn, MSG_REJECT, TP_NON_PEER_REJECTED);
			conn->state = CONN_FINISHED;
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
		if (conn->datagrams)
			report_peer_found(conn);
		else
			report_established(conn);
		break;
	case EV_FAILED:
		if (conn->datagrams)
			report_peer_failed(conn, event->cause);
		else
			report_failed(conn, event->cause);
		break;
	default:
		report_disconnected(conn);
	}
}
