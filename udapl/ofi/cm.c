/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections, over the passive and active endpoints of libfabric and one event queue for all.
 *
 * Each message of the handshake begins with a header of ours, in front of the consumer's private
 * data: it tells a uDAPL peer from others, a rejection by the consumer from one by the provider,
 * and carries the numbers of RDMA reads, which libfabric has no place for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ofi.h"

#define CLOSED_INTERVAL UINT64_C(10000000) /* ns */
#define STRANGER_ROUNDS 1000 /* more than libfabric needs to close all sockets of a process */

#define MAX_DATA 256 /* bytes of private data, with our header, that any provider carries */

enum {
	WIRE_MAGIC = 0xDA,
	WIRE_REQUEST = 0x11, /* version 1 in the upper half */
	WIRE_REPLY = 0x12,
	WIRE_REJECT_CONSUMER = 0x13,
	WIRE_REJECT_PROVIDER = 0x14,
};

struct wire_header {
	uint8_t magic, kind;
	uint8_t max_read_in, max_read_out; /* that the sender takes, and issues */
};

struct wire_message {
	struct wire_header header;
	char data[MAX_DATA - sizeof(struct wire_header)];
};

_Static_assert(sizeof(struct wire_header) == WIRE_HEADER_SIZE, "what device.c subtracts");

struct tp_listener {
	struct tp_dev *dev;
	struct tp_listener *next;
	struct sp *sp;
	struct fid_pep *pep;
	struct fi_info *info; /* of pep; libfabric's sockets refers to it, without a copy */
	struct sockaddr_storage local;
	int socket; /* libfabric's; -1: not known */
};

enum conn_state {
	CONN_REQUESTED,	 /* passive side: the core accepts, rejects or releases it next */
	CONN_LOST,	 /* known to be in vain, which is reported next */
	CONN_CONNECTING, /* either side: libfabric reports what comes of it */
	CONN_UP,
	CONN_ENDED, /* the core releases it next */
};

struct tp_conn {
	struct tp_dev *dev;
	enum conn_state state;
	bool active;
	struct fi_info *info;		    /* of a request, until it is answered */
	struct tp_listener *listener;	    /* of a request; NULL when it is gone */
	struct tp_qp *qp;		    /* from tp_connect or tp_accept to tp_release */
	unsigned max_read_in, max_read_out; /* as asked or agreed */
	struct sockaddr_storage local, remote;
	int socket;		      /* libfabric's, which dev->epoll reports; -1: not known */
	int attempt;		      /* of the active side: socket of the attempt; -1: not known */
	int unread;		      /* bytes, when it was looked at last; -1: it was not */
	uint64_t looked;	      /* when that was */
	uint64_t read;		      /* bytes that libfabric had, by cm_find_held_up */
	bool unwatched;		      /* it is up, and the device can't watch its socket */
	struct tp_conn *next, **back; /* dev->conns */
	struct tp_conn *next_unnoticed, **back_unnoticed; /* dev->unnoticed; NULL: not in it */
};

/* What was read from the event queue. */
struct eq_event {
	struct eq_event *next; /* dev->pending */
	uint32_t type;	       /* FI_CONNREQ, ...; 0: a failure */
	fid_t fid;
	struct fi_info *info; /* of FI_CONNREQ */
	int err;
	size_t size; /* of the message, 0: it is not one of ours */
	struct wire_message message;
};

/* ---- messages ---- */

static size_t wire_fill(struct wire_message *message, uint8_t kind, const struct tp_cm_param *param)
{
	*message = (struct wire_message){ .header = { .magic = WIRE_MAGIC, .kind = kind } };
	if (!param)
		return sizeof(message->header);
	message->header.max_read_in = (uint8_t)min_u64(param->max_read_in, UINT8_MAX);
	message->header.max_read_out = (uint8_t)min_u64(param->max_read_out, UINT8_MAX);
	if (param->private_data_size)
		memcpy(message->data, param->private_data, param->private_data_size);
	return sizeof(message->header) + param->private_data_size;
}

/* Keeps the message if it is one of ours. */
static void wire_read(struct eq_event *event, const void *data, size_t size)
{
	event->size = 0;
	if (size < sizeof(event->message.header) || size > sizeof(event->message))
		return;
	memcpy(&event->message, data, size);
	if (event->message.header.magic == WIRE_MAGIC)
		event->size = size;
}

static bool wire_is(const struct eq_event *event, uint8_t kind)
{
	return event->size && event->message.header.kind == kind;
}

static unsigned wire_data_size(const struct eq_event *event)
{
	return (unsigned)(event->size - sizeof(event->message.header));
}

/* ---- rejecting ---- */

/*
 * Rejects a request, through @pep of its listener, or, if that is gone, another passive endpoint.
 * libfabric's tcp sends the answer over the socket of the request.
 */
static void request_reject(struct tp_dev *dev, struct fid_pep *pep, struct fi_info *info,
			   uint8_t kind, const struct tp_cm_param *param)
{
	struct fid_pep *own = NULL;
	struct wire_message message;
	size_t size = wire_fill(&message, kind, param);

	if (!pep && !fi_passive_ep(dev->fabric, dev->info, &own, NULL) &&
	    !fi_pep_bind(own, &dev->eq->fid, 0))
		pep = own;
	if (pep)
		(void)fi_reject(pep, info->handle, &message, size);
	if (own)
		fi_close(&own->fid);
	libfabric.freeinfo(info);
}

/* ---- events ---- */

/* Reads the oldest event that libfabric reports. Returns false if there is none. */
static bool eq_event_read(struct tp_dev *dev, struct eq_event *event)
{
	union {
		struct fi_eq_cm_entry entry;
		char bytes[sizeof(struct fi_eq_cm_entry) + MAX_DATA];
	} buffer;
	struct fi_eq_err_entry failure = { 0 };
	uint32_t type;
	ssize_t got;

	memset(event, 0, offsetof(struct eq_event, message));
	/* libfabric's tcp takes an old EAGAIN for the error of a socket that has reached its end */
	errno = 0;
	got = fi_eq_read(dev->eq, &type, &buffer, sizeof(buffer), 0);
	if (got == -FI_EAVAIL) {
		failure.err_data = buffer.bytes;
		failure.err_data_size = MAX_DATA;
		if (fi_eq_readerr(dev->eq, &failure, 0) <= 0)
			return false;
		event->fid = failure.fid;
		event->err = failure.err;
		wire_read(event, failure.err_data, failure.err_data_size);
		return true;
	}
	if (got < (ssize_t)sizeof(buffer.entry))
		return false;
	event->type = type;
	event->fid = buffer.entry.fid;
	event->info = type == FI_CONNREQ ? buffer.entry.info : NULL;
	wire_read(event, buffer.entry.data, (size_t)got - sizeof(buffer.entry));
	return true;
}

static struct eq_event *pending_take_locked(struct tp_dev *dev)
{
	struct eq_event *event = dev->pending;

	assert_locked(&dev->events_lock);
	if (!event)
		return NULL;
	dev->pending = event->next;
	if (!dev->pending)
		dev->pending_end = &dev->pending;
	return event;
}

static void pending_add_locked(struct tp_dev *dev, struct eq_event *event)
{
	assert_locked(&dev->events_lock);
	event->next = NULL;
	*dev->pending_end = event;
	dev->pending_end = &event->next;
}

/* Removes the events about @fid; with @pep requests among them are rejected through it. */
static void pending_drop_locked(struct tp_dev *dev, fid_t fid, struct fid_pep *pep)
{
	struct eq_event **link = &dev->pending, *event;

	assert_locked(&dev->events_lock);
	while ((event = *link)) {
		if (event->fid != fid) {
			link = &event->next;
			continue;
		}
		*link = event->next;
		if (event->info)
			request_reject(dev, pep, event->info, WIRE_REJECT_PROVIDER, NULL);
		free(event);
	}
	dev->pending_end = link;
}

void cm_forget_locked(struct tp_dev *dev, const struct tp_qp *qp)
{
	pending_drop_locked(dev, &qp->fi->fid, NULL);
}

/* ---- the socket of a connection ---- */

#define CONN_MARK ((uintptr_t)1) /* in what dev->epoll reports: it is a connection */

/* From here on cm_closed is called when the peer closes it, or has vanished. */
static void socket_watch(struct tp_conn *conn)
{
	struct epoll_event event = { .events = EPOLLRDHUP | EPOLLET,
				     .data.u64 = (uintptr_t)conn | CONN_MARK };

	if (conn->socket < 0)
		return;
	if (!conn->active)
		conn->dev->last_accepted = conn->socket;
	if (conn->socket != conn->attempt) /* that is probed already */
		socket_probe(conn->socket);
	if (epoll_ctl(conn->dev->epoll, EPOLL_CTL_ADD, conn->socket, &event))
		conn->socket = -1;
}

static void socket_forget(struct tp_conn *conn)
{
	if (conn->socket >= 0)
		(void)epoll_ctl(conn->dev->epoll, EPOLL_CTL_DEL, conn->socket, NULL);
	conn->socket = -1;
}

/*
 * For a connection that its peer has closed: has libfabric come to a message without a receive? It
 * has if it read nothing for a while; the message may have been read, so it need not be seen. Any
 * other stream comes to its end, which libfabric reports. The look is noted.
 */
static bool conn_look_for_end(struct tp_conn *conn)
{
	const uint64_t now = tp_now();
	int unread = 0;

	if (atomic_load(&conn->qp->recvs.cq->starved))
		return true;
	if (conn->unread >= 0 && now < conn->looked + CLOSED_INTERVAL)
		return false;
	if (ioctl(conn->socket, FIONREAD, &unread))
		return true;
	if (unread == conn->unread)
		return true;
	conn->unread = unread;
	conn->looked = now;
	return false;
}

/* ---- handling ---- */

static enum tp_cause cause_of(const struct eq_event *event)
{
	if (wire_is(event, WIRE_REJECT_CONSUMER))
		return TP_PEER_REJECTED;
	switch (event->err) {
	case FI_ETIMEDOUT:
	case FI_EHOSTUNREACH:
	case FI_ENETUNREACH:
	case EHOSTDOWN:
		return TP_UNREACHABLE;
	default:
		return TP_NON_PEER_REJECTED;
	}
}

/* Logs that something else has the port, or that the process which had it has just ended. */
static void conn_tell_stranger(const struct tp_conn *conn)
{
	const struct sockaddr *remote = (const struct sockaddr *)&conn->remote;
	char text[SOCKADDR_TEXT_SIZE];

	log_warn("connect to %s: what answers there is no uDAPL provider, or has ended",
		 sockaddr_text(remote, text));
}

/* Is it what libfabric's tcp reports of an answer in another protocol, or of none? */
static bool is_of_stranger(const struct eq_event *event)
{
	return !event->type && (event->err == FI_ENOPROTOOPT || event->err == FI_EIO);
}

static void conn_failed(struct tp_conn *conn, enum tp_cause cause)
{
	struct ep *ep = conn->qp->ep;

	conn->state = CONN_ENDED;
	up_failed(ep, cause);
}

static void conn_ended(struct tp_conn *conn)
{
	struct ep *ep = conn->qp->ep;

	conn->state = CONN_ENDED;
	up_disconnected(ep);
}

/* Returns whether they were not known before. */
static bool conn_read_addresses(struct tp_conn *conn)
{
	const struct sockaddr_storage known[] = { conn->local, conn->remote };
	struct sockaddr_storage local = { 0 }, remote = { 0 };
	size_t local_size = sizeof(local), remote_size = sizeof(remote);

	if (!fi_getname(&conn->qp->fi->fid, &local, &local_size))
		conn->local = local;
	if (!fi_getpeer(conn->qp->fi, &remote, &remote_size))
		conn->remote = remote;
	return memcmp(&known[0], &conn->local, sizeof(local)) ||
	       memcmp(&known[1], &conn->remote, sizeof(remote));
}

/* A peer that has the request and vanishes is noticed, however long its answer may take. */
static void conn_probe_attempt(struct tp_conn *conn)
{
	struct socket_ends ends = { &conn->local, &conn->remote };
	struct sockaddr_storage local = { 0 };
	size_t size = sizeof(local);

	if (!conn->dev->soft_queues || fi_getname(&conn->qp->fi->fid, &local, &size))
		return;
	conn->local = local;
	conn->attempt = socket_probe_attempt(conn->dev, &ends);
}

/* Sockets are accepted one after the other, the first one after that of its listener. */
static int conn_guess_socket(const struct tp_conn *conn)
{
	if (conn->active)
		return conn->attempt;
	if (conn->dev->last_accepted)
		return conn->dev->last_accepted;
	return conn->dev->listeners ? conn->dev->listeners->socket : -1;
}

/*
 * Finds the addresses, and the socket of libfabric's tcp. Those of a request, or of an attempt, are
 * mostly right, and then the socket that has them is the proof.
 */
static void conn_find_ends(struct tp_conn *conn)
{
	struct socket_ends ends = { &conn->local, &conn->remote };
	const bool has_socket = conn->dev->soft_queues;
	const int guess = conn_guess_socket(conn);

	if (has_socket)
		conn->socket = socket_find_near(&ends, guess);
	if (conn->socket < 0 && conn_read_addresses(conn) && has_socket)
		conn->socket = socket_find_near(&ends, guess);
	if (conn->socket < 0 && has_socket)
		conn->socket = socket_find(conn->dev, &ends);
}

static void conn_established(struct tp_conn *conn, const struct eq_event *event)
{
	struct tp_established established = {
		.max_read_in = conn->max_read_in,
		.max_read_out = conn->max_read_out,
	};

	if (conn->active && !wire_is(event, WIRE_REPLY)) {
		conn_tell_stranger(conn);
		conn_failed(conn, TP_NON_PEER_REJECTED);
		return;
	}
	if (conn->active) {
		const struct wire_header *header = &event->message.header;

		established.private_data = event->message.data;
		established.private_data_size = wire_data_size(event);
		established.max_read_in = (unsigned)min_u64(conn->max_read_in,
							    header->max_read_out);
		established.max_read_out = (unsigned)min_u64(conn->max_read_out,
							     header->max_read_in);
	}
	conn->state = CONN_UP;
	conn_find_ends(conn);
	socket_watch(conn);
	conn->unwatched = conn->socket < 0;
	conn->dev->unwatched += conn->unwatched;
	qp_connected(conn->qp);
	up_established(conn->qp->ep, &established);
}

static struct tp_listener *listener_of(const struct tp_dev *dev, fid_t fid)
{
	struct tp_listener *listener = dev->listeners;

	while (listener && &listener->pep->fid != fid)
		listener = listener->next;
	return listener;
}

static void copy_address(struct sockaddr_storage *to, const void *from)
{
	memset(to, 0, sizeof(*to));
	if (from)
		sockaddr_copy(to, from);
}

/*
 * Logs that a request is refused. Whoever finds the port can send any number of them, so by default
 * one is told.
 */
static void request_tell_refused(struct tp_dev *dev, const struct eq_event *event)
{
	const bool strange = !wire_is(event, WIRE_REQUEST);
	char text[SOCKADDR_TEXT_SIZE] = "an unknown address";

	if (event->info->dest_addr)
		(void)sockaddr_text(event->info->dest_addr, text);
	if (strange && !dev->stranger_told)
		log_warn("%s: a connection request from %s is refused: its sender is no uDAPL "
			 "provider",
			 dev->attr.device, text);
	else
		log_cm("%s: a connection request from %s is refused: %s", dev->attr.device, text,
		       strange ? "its sender is no uDAPL provider" : "no memory, or no listener");
	dev->stranger_told |= strange;
}

static void request_arrived(struct tp_dev *dev, const struct eq_event *event)
{
	struct tp_listener *listener = listener_of(dev, event->fid);
	struct tp_request request = {
		.private_data = event->message.data,
		.max_read_in = event->message.header.max_read_in,
		.max_read_out = event->message.header.max_read_out,
	};
	/* the core may reject within the upcall, and @request must stay valid until it returns */
	struct sockaddr_storage local, remote;
	struct tp_conn *conn;

	conn = listener && wire_is(event, WIRE_REQUEST) ? calloc(1, sizeof(*conn)) : NULL;
	if (!conn) {
		request_tell_refused(dev, event);
		request_reject(dev, listener ? listener->pep : NULL, event->info,
			       WIRE_REJECT_PROVIDER, NULL);
		return;
	}
	conn->dev = dev;
	conn->state = CONN_REQUESTED;
	conn->listener = listener;
	conn->info = event->info;
	copy_address(&conn->local, event->info->src_addr);
	copy_address(&conn->remote, event->info->dest_addr);
	local = conn->local;
	remote = conn->remote;
	request.local = (struct sockaddr *)&local;
	request.remote = (struct sockaddr *)&remote;
	request.private_data_size = wire_data_size(event);
	up_request(listener->sp, conn, &request);
}

/*
 * Handles one event. @fid of all but FI_CONNREQ is that of a live queue pair: cm_forget_locked sees
 * to that.
 */
static void event_handle(struct tp_dev *dev, const struct eq_event *event)
{
	struct tp_qp *qp;
	struct tp_conn *conn;

	if (event->type == FI_CONNREQ) {
		request_arrived(dev, event);
		return;
	}
	if (event->err == ENODEV) { /* it was removed */
		up_dev_fatal(dev->ia);
		return;
	}
	if (event->fid && event->fid->fclass == FI_CLASS_PEP) {
		log_cm("%s: a passive endpoint: %s", dev->attr.device,
		       libfabric.strerror(event->err));
		return;
	}
	qp = event->fid ? event->fid->context : NULL;
	conn = qp ? qp->conn : NULL;
	if (!conn || conn->state == CONN_ENDED)
		return;
	if (event->type == FI_CONNECTED && conn->state == CONN_CONNECTING)
		conn_established(conn, event);
	else if (event->type != FI_CONNECTED && conn->state == CONN_CONNECTING) {
		if (conn->active && conn->dev->soft_queues && is_of_stranger(event))
			conn_tell_stranger(conn);
		if (wire_is(event, WIRE_REJECT_CONSUMER) && wire_data_size(event))
			up_reject_data(conn->qp->ep, event->message.data, wire_data_size(event));
		conn_failed(conn, cause_of(event));
	} else if (event->type != FI_CONNECTED)
		conn_ended(conn);
}

bool eq_has_pending(struct tp_dev *dev)
{
	bool pending;

	mutex_lock(&dev->events_lock);
	pending = dev->pending;
	mutex_unlock(&dev->events_lock);
	return pending;
}

/*
 * Is the queue to be read once more? Its descriptor stays readable until fi_trywait says that there
 * is nothing, unless its signal is muted. An event may be there that was not when it was read, and
 * if the signal is muted just now, one that nothing tells of any more. @in_vain: so were two reads
 * before.
 */
static bool eq_has_more_locked(struct tp_dev *dev, bool in_vain)
{
	struct fid *fid = &dev->eq->fid;

	assert_locked(&dev->events_lock);
	if (eq_signal_update_locked(dev))
		return true;
	if (dev->eq_signal_muted)
		return false;
	errno = 0; /* as in eq_event_read */
	return fi_trywait(dev->fabric, &fid, 1) == -FI_EAGAIN && (!in_vain || dev->pending);
}

bool eq_progress(struct tp_dev *dev)
{
	struct eq_event event, *pending;
	bool handled = false;
	unsigned vain = 0;

	mutex_lock(&dev->events_lock);
	dev->handling = true;
	do {
		vain++;
		while ((pending = pending_take_locked(dev))) {
			event_handle(dev, pending);
			free(pending);
			handled = true;
		}
		while (eq_event_read(dev, &event)) {
			event_handle(dev, &event);
			handled = true;
			vain = 0;
			if (dev->arming_looks && !dev->eq_signal_muted)
				break; /* fi_trywait looks as a second read would */
		}
	} while (eq_has_more_locked(dev, vain >= 2));
	dev->handling = false;
	mutex_unlock(&dev->events_lock);
	return handled;
}

/* ---- the connections ---- */

static void unnoticed_add(struct tp_conn *conn)
{
	struct tp_dev *dev = conn->dev;

	if (conn->back_unnoticed)
		return;
	conn->next_unnoticed = dev->unnoticed;
	conn->back_unnoticed = &dev->unnoticed;
	if (conn->next_unnoticed)
		conn->next_unnoticed->back_unnoticed = &conn->next_unnoticed;
	dev->unnoticed = conn;
}

static void unnoticed_remove(struct tp_conn *conn)
{
	if (!conn->back_unnoticed)
		return;
	*conn->back_unnoticed = conn->next_unnoticed;
	if (conn->next_unnoticed)
		conn->next_unnoticed->back_unnoticed = conn->back_unnoticed;
	conn->back_unnoticed = NULL;
}

/*
 * libfabric notices that the peer has closed the connection when the queue is read next, which is
 * not to wait for a consumer. A connection leaves the set of the device before it is freed.
 */
bool cm_closed(void *what)
{
	struct tp_conn *conn = (struct tp_conn *)((uintptr_t)what & ~CONN_MARK);

	if (!((uintptr_t)what & CONN_MARK))
		return false;
	unnoticed_add(conn);
	atomic_store(&conn->qp->sends.cq->polled, false);
	atomic_store(&conn->qp->recvs.cq->polled, false);
	progress_due_for_end_locked(conn->qp->recvs.cq);
	return true;
}

uint64_t cm_end_unnoticed(struct tp_dev *dev)
{
	struct tp_conn *conn = dev->unnoticed, *next;
	uint64_t again = TP_NEVER;

	for (; conn; conn = next) {
		next = conn->next_unnoticed;
		if (conn->state == CONN_LOST) {
			conn_failed(conn, TP_UNREACHABLE);
			next = dev->unnoticed; /* the upcall may have released any */
		} else if (conn->state == CONN_UP && conn_look_for_end(conn)) {
			conn_ended(conn);
			next = dev->unnoticed;
		} else if (conn->state == CONN_UP) {
			again = min_u64(again, conn->looked + CLOSED_INTERVAL);
		}
	}
	return again;
}

bool cm_find_held_up(const struct tp_cq *cq)
{
	bool held_up = false;

	for (struct tp_conn *conn = cq->dev->conns; conn; conn = conn->next) {
		uint64_t before = conn->read;

		if (conn->socket >= 0 && (conn->qp->recvs.cq == cq || conn->qp->sends.cq == cq) &&
		    !socket_is_read(conn->socket, &conn->read))
			held_up |= conn->read == before;
	}
	return held_up;
}

void cm_after_fork(const struct tp_dev *dev)
{
	if (dev->rdma_cm >= 0)
		close(dev->rdma_cm);
	for (struct tp_conn *conn = dev->conns; conn; conn = conn->next) {
		struct socket_ends ends = { &conn->local, &conn->remote };

		socket_close_copy(conn->socket, &ends);
	}
	for (struct tp_listener *listener = dev->listeners; listener; listener = listener->next)
		socket_close_listener_copy(listener->socket, &listener->local);
}

static void conns_add(struct tp_conn *conn)
{
	struct tp_dev *dev = conn->dev;

	conn->socket = -1;
	conn->attempt = -1;
	conn->unread = -1;
	conn->next = dev->conns;
	conn->back = &dev->conns;
	if (conn->next)
		conn->next->back = &conn->next;
	dev->conns = conn;
}

static void conns_remove(struct tp_conn *conn)
{
	*conn->back = conn->next;
	if (conn->next)
		conn->next->back = conn->back;
}

/* ---- listening ---- */

static struct fi_info *info_with_port(struct tp_dev *dev, uint16_t port)
{
	struct fi_info *info = libfabric.dupinfo(dev->info);

	if (info)
		sockaddr_set_port(info->src_addr, port);
	return info;
}

static int pep_open(struct tp_listener *listener, uint16_t *port)
{
	struct tp_dev *dev = listener->dev;
	size_t size = sizeof(listener->local);
	int ret, next;

	listener->info = info_with_port(dev, *port);
	if (!listener->info)
		return -ENOMEM;
	next = descriptor_next(dev);
	ret = fi_passive_ep(dev->fabric, listener->info, &listener->pep, listener);
	if (ret && next < 0)
		ret = next; /* libfabric's tcp says EIO */
	if (ret)
		goto free_info;
	ret = fi_pep_bind(listener->pep, &dev->eq->fid, 0);
	if (!ret)
		ret = fi_listen(listener->pep);
	if (!ret)
		ret = fi_getname(&listener->pep->fid, &listener->local, &size);
	if (ret)
		goto close_pep;
	*port = sockaddr_port(&listener->local);
	listener->socket = dev->soft_queues ? socket_find_listener(&listener->local, next) : -1;
	return 0;
close_pep:
	fi_close(&listener->pep->fid);
free_info:
	libfabric.freeinfo(listener->info);
	return ofi_errno(ret);
}

int tp_listen(struct tp_dev *dev, uint16_t *port, struct sp *sp, struct tp_listener **out)
{
	struct tp_listener *listener = calloc(1, sizeof(*listener));
	int err;

	up_assert_locked(dev->ia);
	if (!listener)
		return -ENOMEM;
	listener->dev = dev;
	listener->sp = sp;
	err = pep_open(listener, port);
	if (err) {
		free(listener);
		return err;
	}
	listener->next = dev->listeners;
	dev->listeners = listener;
	*out = listener;
	return 0;
}

/* Reads all events, and keeps them for the service thread. */
static void events_fetch_locked(struct tp_dev *dev)
{
	struct eq_event event, *copy;

	assert_locked(&dev->events_lock);
	while (eq_event_read(dev, &event)) {
		copy = malloc(sizeof(*copy));
		if (copy) {
			*copy = event;
			pending_add_locked(dev, copy);
		} else if (event.info) {
			request_reject(dev, NULL, event.info, WIRE_REJECT_PROVIDER, NULL);
		}
	}
	if (dev->pending)
		up_wake(dev->ia);
}

/*
 * Ends connections that have sent no request yet. libfabric keeps them beyond the end of their
 * listener, and when a request comes, uses the listener's freed memory. A socket that is shut down
 * it closes, when its event queue is read.
 */
static void strangers_end_locked(struct tp_listener *listener)
{
	unsigned round = 0;

	assert_locked(&listener->dev->events_lock);
	if (listener->socket < 0)
		return;
	socket_listen_no_more(listener->socket);
	while (sockets_end_strangers(&listener->local, listener->socket) &&
	       round++ < STRANGER_ROUNDS)
		events_fetch_locked(listener->dev);
}

void tp_unlisten(struct tp_listener *listener)
{
	struct tp_dev *dev = listener->dev;
	struct tp_listener **link = &dev->listeners;
	const bool nested = dev->handling;

	up_assert_locked(dev->ia);
	if (!nested)
		mutex_lock(&dev->events_lock);
	strangers_end_locked(listener);
	events_fetch_locked(dev);
	pending_drop_locked(dev, &listener->pep->fid, listener->pep);
	while (*link != listener)
		link = &(*link)->next;
	*link = listener->next;
	fi_close(&listener->pep->fid);
	libfabric.freeinfo(listener->info);
	if (!nested)
		mutex_unlock(&dev->events_lock);
	free(listener);
}

/* ---- connecting ---- */

static struct tp_conn *conn_new(struct tp_dev *dev, struct tp_qp *qp,
				const struct tp_cm_param *param)
{
	struct tp_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	conn->dev = dev;
	conn->qp = qp;
	conn->max_read_in = param->max_read_in;
	conn->max_read_out = param->max_read_out;
	return conn;
}

struct fi_info *info_to(const struct tp_dev *dev, const struct sockaddr_storage *to)
{
	struct fi_info *info = libfabric.dupinfo(dev->info);

	if (!info)
		return NULL;
	info->dest_addrlen = sockaddr_size((const struct sockaddr *)to);
	info->dest_addr = malloc(info->dest_addrlen);
	if (info->dest_addr) {
		memcpy(info->dest_addr, to, info->dest_addrlen);
		return info;
	}
	libfabric.freeinfo(info);
	return NULL;
}

static int attach_active(struct tp_qp *qp, const struct sockaddr_storage *to)
{
	struct fi_info *info = info_to(qp->dev, to);
	int err;

	if (!info)
		return -ENOMEM;
	err = qp_attach(qp, info);
	libfabric.freeinfo(info);
	return err == -ENODEV ? -ENETUNREACH : err; /* no device has a route */
}

/* Notes that an attempt was in vain, which cm_end_unnoticed reports. */
static int conn_lost(struct tp_conn *conn, struct tp_qp *qp)
{
	conn->state = CONN_LOST;
	conn->qp = qp;
	qp->conn = conn;
	conns_add(conn);
	unnoticed_add(conn);
	up_wake(conn->dev->ia);
	return 0;
}

int tp_connect(struct tp_dev *dev, const struct sockaddr *remote, uint16_t port, struct tp_qp *qp,
	       struct ep *ep, const struct tp_cm_param *param, struct tp_conn **out)
{
	struct sockaddr_storage address;
	struct wire_message message;
	struct tp_conn *conn;
	size_t size;
	int err;

	up_assert_locked(dev->ia);
	(void)ep;
	if (remote->sa_family != dev->attr.addr.ss_family)
		return -EAFNOSUPPORT;
	if (param->private_data_size > dev->attr.max_request_pdata)
		return -EINVAL;
	sockaddr_copy(&address, remote);
	sockaddr_set_port(&address, port);
	size = wire_fill(&message, WIRE_REQUEST, param);
	conn = conn_new(dev, qp, param);
	if (!conn)
		return -ENOMEM;
	conn->active = true;
	conn->remote = address;
	conn->local = dev->attr.addr;
	err = attach_active(qp, &address);
	if (err == -ETIMEDOUT || err == -EHOSTUNREACH) {
		*out = conn;
		return conn_lost(conn, qp);
	}
	if (err)
		goto free_conn;
	err = ofi_errno(fi_connect(qp->fi, &address, &message, size));
	if (err == -EINVAL) /* the kernel's answer to the loopback address calling another host */
		err = -ENETUNREACH;
	if (err)
		goto detach;
	conn->state = CONN_CONNECTING;
	qp->conn = conn;
	conns_add(conn);
	qp_connecting(qp);
	conn_probe_attempt(conn);
	*out = conn;
	return 0;
detach:
	qp_detach(qp);
free_conn:
	free(conn);
	return err;
}

/* Returns the passive endpoint that the request came to; or NULL if it is gone. */
static struct fid_pep *listener_find(const struct tp_conn *conn)
{
	const struct tp_listener *listener = conn->dev->listeners;

	while (listener && listener != conn->listener)
		listener = listener->next;
	return listener ? listener->pep : NULL;
}

/*
 * The endpoint takes over the request, so afterwards it can't be answered in another way. A device
 * whose peer has given up makes none, or can't accept.
 */
int tp_accept(struct tp_conn *conn, struct tp_qp *qp, struct ep *ep,
	      const struct tp_cm_param *param)
{
	struct tp_dev *dev = conn->dev;
	struct wire_message message;
	size_t size;
	int err;

	up_assert_locked(dev->ia);
	(void)ep;
	if (param->private_data_size > dev->attr.max_reply_pdata)
		return -EINVAL;
	size = wire_fill(&message, WIRE_REPLY, param);
	err = qp_attach(qp, conn->info);
	if (err && conn->info->handle)
		return err;
	if (!err)
		err = ofi_errno(fi_accept(qp->fi, &message, size));
	libfabric.freeinfo(conn->info);
	conn->info = NULL;
	if (err) {
		log_cm("%s: a request can't be accepted: %s", dev->attr.device, strerror(-err));
		return conn_lost(conn, qp);
	}
	conn->state = CONN_CONNECTING;
	conn->qp = qp;
	conn->max_read_in = param->max_read_in;
	conn->max_read_out = param->max_read_out;
	qp->conn = conn;
	conns_add(conn);
	qp_connecting(qp);
	return 0;
}

/* ---- ending ---- */

void tp_reject(struct tp_conn *conn, bool by_consumer, const void *private_data, unsigned size)
{
	const struct tp_cm_param param = { .private_data = private_data,
					   .private_data_size = size };

	up_assert_locked(conn->dev->ia);
	if (conn->info)
		request_reject(conn->dev, listener_find(conn), conn->info,
			       by_consumer ? WIRE_REJECT_CONSUMER : WIRE_REJECT_PROVIDER, &param);
	free(conn);
}

static void attempt_end(struct tp_qp *qp)
{
	struct tp_dev *dev = qp->dev;
	const bool nested = dev->handling;

	if (!nested)
		mutex_lock(&dev->events_lock);
	qp_close_locked(qp);
	if (!nested)
		mutex_unlock(&dev->events_lock);
}

void tp_release(struct tp_conn *conn)
{
	up_assert_locked(conn->dev->ia);
	if (!conn->qp) {
		tp_reject(conn, false, NULL, 0);
		return;
	}
	socket_forget(conn);
	conn->dev->unwatched -= conn->unwatched;
	if (!conn->qp->was_connected)
		attempt_end(conn->qp);
	else
		qp_shutdown(conn->qp);
	conn->qp->conn = NULL;
	unnoticed_remove(conn);
	conns_remove(conn);
	free(conn);
}

void tp_conn_addr(const struct tp_conn *conn, struct sockaddr_storage *local,
		  struct sockaddr_storage *remote)
{
	*local = conn->local;
	*remote = conn->remote;
}

/* ---- opening and closing ---- */

/*
 * Returns the descriptor of librdmacm, in the epoll set of an event queue of libfabric's verbs; or
 * -1 if there is none. Connections last as long as a copy of it is open.
 */
static int rdma_cm_find(int epoll)
{
	char path[64], text[128];
	int fd, found = -1;
	FILE *members;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", epoll);
	members = fopen(path, "re");
	while (members && found < 0 && fgets(text, sizeof(text), members)) {
		if (sscanf(text, "tfd: %d", &fd) != 1)
			continue;
		memset(text, 0, sizeof(text));
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, text, sizeof(text) - 1) > 0 && strstr(text, "/rdma_cm"))
			found = fd;
	}
	if (members)
		fclose(members);
	return found;
}

int eq_open(struct tp_dev *dev)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_FD };
	int ret;

	mutex_init(&dev->events_lock, RANK_CM_EVENTS);
	dev->pending_end = &dev->pending;
	ret = fi_eq_open(dev->fabric, &attr, &dev->eq, dev);
	if (ret)
		return ofi_errno(ret);
	ret = fi_control(&dev->eq->fid, FI_GETWAIT, &dev->eq_fd);
	ret = ret ? ofi_errno(ret) : epoll_watch(dev->epoll, dev->eq_fd);
	if (ret)
		fi_close(&dev->eq->fid);
	dev->eq_signal.fd = -1;
	if (!ret && dev->arming_looks)
		fi_signal_find(&dev->eq_signal, dev->eq_fd);
	dev->rdma_cm = ret || dev->soft_queues ? -1 : rdma_cm_find(dev->eq_fd);
	return ret;
}

void eq_close(struct tp_dev *dev)
{
	mutex_lock(&dev->events_lock);
	events_fetch_locked(dev);
	while (dev->pending)
		pending_drop_locked(dev, dev->pending->fid, NULL);
	mutex_unlock(&dev->events_lock);
	fi_close(&dev->eq->fid);
}
