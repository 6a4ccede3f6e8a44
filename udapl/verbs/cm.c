/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections: listeners, attempts, requests, and the way out. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "verbs.h"

#define BACKLOG	       1024
#define EVENTS_AT_ONCE 16 /* then others get a chance at ia->lock */
/* ns; room for two repetitions of a lost disconnect request */
#define LINGER		 10000000000ull
#define REJECTED_BY_USER 28 /* InfiniBand's reason "consumer defined" */

/* In the private data of a rejection: it was the provider's doing, not its consumer's. */
static const char by_provider[4] = { 'D', 'A', 'T', 0 };

enum conn_state {
	CONN_RESOLVING,	 /* active: looking for the peer's address */
	CONN_ROUTING,	 /* active: and for the way to it */
	CONN_CONNECTING, /* active: the request is out */
	CONN_REQUESTED,	 /* passive: the core has to decide */
	CONN_ACCEPTING,	 /* passive: the answer is out */
	CONN_UP,
	/* the core knows, or will learn it from tp_accept, and has yet to release it */
	CONN_OVER,
	CONN_LEAVING, /* released; waits for the peer's answer, or for a helper */
};

struct tp_listener {
	struct tp_listener *next;
	struct tp_dev *dev;
	struct rdma_cm_id *id;
	struct sp *sp;
};

struct tp_conn {
	struct tp_dev *dev;
	struct rdma_cm_id *id; /* its context leads back here */
	enum conn_state state;
	struct ep *ep;
	struct tp_qp *qp;
	/* what we'll take and send; of a request: what the peer will */
	unsigned max_read_in, max_read_out;
	unsigned arp_retry, route_retry; /* left */

	struct tp_conn *next, **back; /* leaving: dev->leaving */
	uint64_t deadline;	      /* leaving */
	struct tp_qp *orphan;	      /* held: an iWARP attempt that was given up unanswered */

	/* An outcome is on its way: only cm_outcomes may end this connection. */
	bool busy;
	bool has_helper;
	pthread_t helper;
	int outcome;		      /* the helper's, then dev->outcome_lock's */
	struct tp_conn *next_outcome; /* dev->outcome_lock */

	struct rdma_conn_param param; /* active */
	char private_data[UINT8_MAX];
};

/* An event that is acknowledged already, so that its identifier may be destroyed at any moment. */
struct cm_event {
	struct cm_event *next;
	struct rdma_cm_id *id, *listen_id;
	enum rdma_cm_event_type type;
	int status;
	unsigned peer_in, peer_out; /* RDMA reads that the peer will take and send */
	unsigned private_data_size;
	char private_data[UINT8_MAX];
};

static socklen_t addr_size(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					   : sizeof(struct sockaddr_in);
}

/* Zeroed while unknown. */
static void addr_copy(struct sockaddr_storage *to, const struct sockaddr *from)
{
	memset(to, 0, sizeof(*to));
	if (from->sa_family)
		memcpy(to, from, addr_size(from));
}

static void addr_set_port(struct sockaddr_storage *addr, uint16_t port)
{
	if (addr->ss_family == AF_INET6)
		((struct sockaddr_in6 *)addr)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)addr)->sin_port = htons(port);
}

/* Has the service thread call cm_outcomes. */
static void poke(struct tp_dev *dev)
{
	wakefd_signal(dev->wake);
}

/* ---- events, and those that were taken off the channel early ---- */

static bool event_get(struct tp_dev *dev, struct cm_event *event)
{
	struct rdma_cm_event *got;
	const struct rdma_conn_param *conn;

	if (rdma_get_cm_event(dev->cm, &got))
		return false;
	conn = &got->param.conn;
	*event = (struct cm_event){
		.id = got->id,
		.listen_id = got->listen_id,
		.type = got->event,
		.status = got->status,
		.peer_in = conn->initiator_depth,
		.peer_out = conn->responder_resources,
		.private_data_size = conn->private_data ? conn->private_data_len : 0,
	};
	if (event->private_data_size)
		memcpy(event->private_data, conn->private_data, event->private_data_size);
	rdma_ack_cm_event(got);
	log_cm("cm: %p %s, status %d, private data %u, peer reads in %u out %u", (void *)event->id,
	       rdma_event_str(event->type), event->status, event->private_data_size, event->peer_in,
	       event->peer_out);
	return true;
}

/* Everything on the channel, kept for later. Without memory it stays there. */
static void stash_fill(struct tp_dev *dev)
{
	struct cm_event *event;

	for (;;) {
		event = malloc(sizeof(*event));
		if (!event || !event_get(dev, event))
			break;
		*dev->stash_end = event;
		dev->stash_end = &event->next;
	}
	free(event);
	if (dev->stash)
		poke(dev);
}

static void stash_remove(struct tp_dev *dev, struct cm_event **link)
{
	struct cm_event *event = *link;

	*link = event->next;
	if (!*link)
		dev->stash_end = link;
	free(event);
}

static void id_destroy(struct tp_dev *dev, struct rdma_cm_id *id);

/* Nobody will handle this request. */
static void id_refuse(struct tp_dev *dev, struct rdma_cm_id *id)
{
	if (rdma_reject(id, by_provider, sizeof(by_provider)))
		log_cm("cm: rejecting: %s", strerror(errno));
	id_destroy(dev, id);
}

/* @id is going away: drops its events, and refuses the requests among them. */
static void stash_forget(struct tp_dev *dev, const struct rdma_cm_id *id)
{
	struct cm_event **link = &dev->stash;
	struct rdma_cm_id *request;

	while (*link) {
		if ((*link)->id != id && (*link)->listen_id != id) {
			link = &(*link)->next;
			continue;
		}
		request = (*link)->id != id ? (*link)->id : NULL;
		stash_remove(dev, link);
		if (request) {
			id_refuse(dev, request); /* which may have changed the list: start over */
			link = &dev->stash;
		}
	}
}

static void id_destroy(struct tp_dev *dev, struct rdma_cm_id *id)
{
	stash_forget(dev, id);
	rdma_destroy_id(id);
}

static bool event_next(struct tp_dev *dev, struct cm_event *event)
{
	if (!dev->stash)
		return event_get(dev, event);
	*event = *dev->stash;
	stash_remove(dev, &dev->stash);
	return true;
}

/* ---- the way out ---- */

static void timer_arm(struct tp_dev *dev)
{
	struct itimerspec when = { 0 };

	if (dev->leaving) {
		when.it_value.tv_sec = (time_t)(dev->leaving->deadline / 1000000000);
		when.it_value.tv_nsec = (long)(dev->leaving->deadline % 1000000000);
	}
	if (timerfd_settime(dev->timer, TFD_TIMER_ABSTIME, &when, NULL))
		log_error("cm: timerfd_settime: %s", strerror(errno));
}

static void leaving_add(struct tp_conn *conn)
{
	struct tp_dev *dev = conn->dev;

	conn->state = CONN_LEAVING;
	conn->deadline = tp_now() + LINGER;
	conn->next = NULL;
	conn->back = dev->leaving_end;
	*dev->leaving_end = conn;
	dev->leaving_end = &conn->next;
	if (dev->leaving == conn)
		timer_arm(dev);
}

static void leaving_remove(struct tp_conn *conn)
{
	*conn->back = conn->next;
	if (conn->next)
		conn->next->back = conn->back;
	else
		conn->dev->leaving_end = conn->back;
}

/*
 * The device may be closed by now: what is used here belongs to the attempt or is held by its queue
 * pair.
 */
static void *orphan_end(void *arg)
{
	struct tp_conn *conn = arg;
	struct rdma_event_channel *channel = conn->id->channel;

	rdma_destroy_id(conn->id);
	rdma_destroy_event_channel(channel);
	qp_put(conn->orphan);
	free(conn);
	return NULL;
}

/*
 * While an iWARP attempt has no answer, the kernel destroys neither its identifier nor its queue
 * pair: the call sleeps, deaf to signals, until the peer answers or goes, or the device gives up
 * (soft iWARP: after 10 s). So a thread of its own, which nobody waits for, makes these calls. It
 * takes along what the attempt uses: the identifier moves to an event channel of its own, the queue
 * pair is held, and we are linked with -z nodelete. A process that exits meanwhile loses nothing,
 * but the kernel ends it no earlier than the attempt. False: no descriptor for a channel.
 */
static bool orphan_leave(struct tp_conn *conn)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	pthread_t thread;

	if (!channel)
		return false;
	if (rdma_migrate_id(conn->id, channel)) {
		rdma_destroy_event_channel(channel);
		return false;
	}
	stash_forget(conn->dev, conn->id);
	if (thread_start(&thread, orphan_end, conn))
		orphan_end(conn);
	else
		pthread_detach(thread);
	return true;
}

/*
 * Without an answer to wait for: destroying the identifier tells the peer whatever it has to know.
 */
static void conn_destroy(struct tp_conn *conn)
{
	if (conn->orphan && orphan_leave(conn))
		return;
	id_destroy(conn->dev, conn->id);
	if (conn->orphan)
		qp_put(conn->orphan);
	free(conn);
}

/* A leaving connection has nothing to wait for any more. */
static void conn_leave(struct tp_conn *conn)
{
	if (conn->busy)
		return;
	leaving_remove(conn);
	conn_destroy(conn);
}

void cm_reap(struct tp_dev *dev)
{
	struct tp_conn *conn;
	uint64_t count, now = tp_now();

	if (read(dev->timer, &count, sizeof(count)) < 0)
		return;
	while ((conn = dev->leaving) && conn->deadline <= now) {
		leaving_remove(conn);
		if (conn->busy)
			leaving_add(conn);
		else
			conn_destroy(conn);
	}
	timer_arm(dev);
}

/*
 * Its queue pair goes into error now, because it may stay: a late answer must not bring it to life.
 */
static void conn_orphan(struct tp_conn *conn)
{
	struct tp_qp *qp = conn->qp;

	if (qp->state != IBV_QPS_ERR && tp_qp_error(qp))
		log_warn("cm: %p the device would not end its transfers", (void *)conn->id);
	qp->ep = NULL;
	qp->holders++;
	conn->orphan = qp;
}

void tp_release(struct tp_conn *conn)
{
	if (conn->dev->iwarp && (conn->state == CONN_CONNECTING || conn->state == CONN_ACCEPTING))
		conn_orphan(conn);
	if (conn->qp)
		conn->qp->conn = NULL;
	conn->ep = NULL;
	conn->qp = NULL;
	if (conn->has_helper)
		pthread_cancel(conn->helper); /* interrupts the system call it is in */
	if (conn->state == CONN_UP && !rdma_disconnect(conn->id))
		leaving_add(conn);
	else if (conn->busy)
		leaving_add(conn);
	else if (conn->state == CONN_REQUESTED)
		tp_reject(conn, false);
	else
		conn_destroy(conn);
}

void tp_reject(struct tp_conn *conn, bool by_consumer)
{
	if (rdma_reject(conn->id, by_provider, by_consumer ? 0 : sizeof(by_provider)))
		/* the peer gave up first */
		log_cm("cm: %p rejecting: %s", (void *)conn->id, strerror(errno));
	conn_destroy(conn);
}

/* The connection, or the attempt, is at its end by itself. @conn may be gone afterwards. */
static void conn_over(struct tp_conn *conn, enum tp_cause cause)
{
	enum conn_state was = conn->state;

	if (was == CONN_LEAVING) {
		conn_leave(conn);
		return;
	}
	conn->state = CONN_OVER;
	if (was == CONN_UP)
		up_disconnected(conn->ep);
	else if (was != CONN_REQUESTED && was != CONN_OVER)
		up_failed(conn->ep, cause);
}

static void conn_up(struct tp_conn *conn, const struct cm_event *event)
{
	const bool active = conn->state == CONN_CONNECTING;
	const struct tp_established established = {
		.private_data = active ? event->private_data : NULL,
		.private_data_size = active ? event->private_data_size : 0,
		.max_read_in = conn->max_read_in,
		.max_read_out = conn->max_read_out,
	};

	conn->state = CONN_UP;
	up_established(conn->ep, &established);
}

static struct tp_conn *conn_make(struct tp_dev *dev, struct rdma_cm_id *id, enum conn_state state)
{
	struct tp_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	conn->dev = dev;
	conn->id = id;
	conn->state = state;
	id->context = conn;
	return conn;
}

/* ---- outcomes: what a helper, or tp_accept, leaves for the service thread ---- */

static void outcome_leave(struct tp_conn *conn, int err)
{
	struct tp_dev *dev = conn->dev;

	mutex_lock(&dev->outcome_lock);
	conn->outcome = err;
	conn->next_outcome = dev->outcomes;
	dev->outcomes = conn;
	mutex_unlock(&dev->outcome_lock);
	poke(dev);
}

static enum tp_cause cause_of(int err)
{
	static const struct {
		int err;
		enum tp_cause cause;
	} causes[] = {
		{ -ECONNREFUSED, TP_NON_PEER_REJECTED }, { -ECONNRESET, TP_NON_PEER_REJECTED },
		{ -ENOTCONN, TP_NON_PEER_REJECTED },	 { -ETIMEDOUT, TP_UNREACHABLE },
		{ -EHOSTUNREACH, TP_UNREACHABLE },	 { -ENETUNREACH, TP_UNREACHABLE },
		{ -EHOSTDOWN, TP_UNREACHABLE },
	};

	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
		if (causes[i].err == err)
			return causes[i].cause;
	return TP_LOCAL_ERROR;
}

/* @conn may be gone afterwards. */
static void outcome_take(struct tp_conn *conn)
{
	int err = conn->outcome;

	if (conn->has_helper)
		pthread_join(conn->helper, NULL);
	conn->has_helper = false;
	conn->busy = false;
	if (conn->state == CONN_LEAVING)
		conn_leave(conn);
	else if (err)
		conn_over(conn, cause_of(err));
}

void cm_outcomes(struct tp_dev *dev)
{
	struct tp_conn *conn;

	wakefd_clear(dev->wake);
	do {
		mutex_lock(&dev->outcome_lock);
		conn = dev->outcomes;
		if (conn)
			dev->outcomes = conn->next_outcome;
		mutex_unlock(&dev->outcome_lock);
		if (conn)
			outcome_take(conn);
	} while (conn);
	if (dev->stash)
		cm_events(dev);
}

/* ---- active side ---- */

static void helper_end(void *arg)
{
	struct tp_conn *conn = arg;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	outcome_leave(conn, conn->outcome);
}

/*
 * On iWARP, rdma_connect may wait for minutes for the peer's TCP, in a write(2): a cancellation
 * point.
 */
static void *helper_main(void *arg)
{
	struct tp_conn *conn = arg;

	conn->outcome = -ECANCELED;
	pthread_cleanup_push(helper_end, conn);
	conn->outcome = rdma_connect(conn->id, &conn->param) ? -errno : 0;
	pthread_cleanup_pop(1);
	return NULL;
}

static int helper_start(struct tp_conn *conn)
{
	int err = thread_start(&conn->helper, helper_main, conn);

	if (err)
		return err;
	conn->busy = true;
	conn->has_helper = true;
	return 0;
}

/*
 * librdmacm takes every address for one on our link when there is no route to it, and waits. Unlike
 * it, the routing table answers at once; its yes proves nothing.
 */
static int route_check(const struct sockaddr_storage *from, const struct sockaddr_storage *to)
{
	int err = 0, fd = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return 0;
	if (!bind(fd, (const struct sockaddr *)from, addr_size((const struct sockaddr *)from)) &&
	    connect(fd, (const struct sockaddr *)to, addr_size((const struct sockaddr *)to)))
		err = -errno;
	close(fd);
	return err == -ENETUNREACH || err == -EHOSTUNREACH ? err : 0;
}

int tp_connect(struct tp_dev *dev, const struct sockaddr *remote, uint16_t port, struct tp_qp *qp,
	       struct ep *ep, const struct tp_cm_param *param, struct tp_conn **conn_out)
{
	struct sockaddr_storage to, from = dev->attr.addr;
	struct rdma_cm_id *id;
	struct tp_conn *conn;
	int err;

	if (remote->sa_family != from.ss_family)
		return -EAFNOSUPPORT;
	addr_copy(&to, remote);
	addr_set_port(&to, port);
	err = route_check(&from, &to);
	if (err)
		return err;
	if (rdma_create_id(dev->cm, &id, NULL, RDMA_PS_TCP))
		return -errno;
	conn = conn_make(dev, id, CONN_RESOLVING);
	if (!conn) {
		err = -ENOMEM;
		goto destroy_id;
	}
	conn->max_read_in = min_u64(param->max_read_in, dev->attr.max_read_in);
	conn->max_read_out = min_u64(param->max_read_out, dev->attr.max_read_out);
	conn->arp_retry = dev->env.arp_retry;
	conn->route_retry = dev->env.route_retry;
	if (param->private_data_size)
		memcpy(conn->private_data, param->private_data, param->private_data_size);
	conn->param = (struct rdma_conn_param){
		.private_data = conn->private_data,
		.private_data_len = (uint8_t)param->private_data_size,
		.responder_resources = (uint8_t)conn->max_read_in,
		.initiator_depth = (uint8_t)conn->max_read_out,
		.flow_control = 1,
		.retry_count = (uint8_t)dev->env.ack_retry,
		.rnr_retry_count = TP_RNR_FOR_EVER,
		.qp_num = qp->ibv->qp_num,
	};
	if (rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&to,
			      (int)dev->env.arp_timeout)) {
		err = -errno;
		goto free_conn;
	}
	conn->ep = ep;
	conn->qp = qp;
	qp->conn = conn;
	*conn_out = conn;
	return 0;
free_conn:
	free(conn);
destroy_id:
	rdma_destroy_id(id);
	return err;
}

static void on_address(struct tp_conn *conn, const struct cm_event *event)
{
	(void)event;
	if (conn->state != CONN_RESOLVING)
		return;
	conn->state = CONN_ROUTING;
	if (rdma_resolve_route(conn->id, (int)conn->dev->env.route_timeout)) {
		log_cm("cm: %p rdma_resolve_route: %s", (void *)conn->id, strerror(errno));
		conn_over(conn, TP_LOCAL_ERROR);
	}
}

static void on_no_address(struct tp_conn *conn, const struct cm_event *event)
{
	struct sockaddr *to = rdma_get_peer_addr(conn->id);

	if (conn->state == CONN_RESOLVING && event->status == -ETIMEDOUT && conn->arp_retry) {
		conn->arp_retry--;
		if (!rdma_resolve_addr(conn->id, NULL, to, (int)conn->dev->env.arp_timeout))
			return;
	}
	conn_over(conn, TP_UNREACHABLE);
}

static void on_route(struct tp_conn *conn, const struct cm_event *event)
{
	int err;

	(void)event;
	if (conn->state != CONN_ROUTING)
		return;
	conn->state = CONN_CONNECTING;
	if (conn->dev->iwarp)
		err = helper_start(conn);
	else
		err = rdma_connect(conn->id, &conn->param) ? -errno : 0;
	if (err) {
		log_cm("cm: %p rdma_connect: %s", (void *)conn->id, strerror(-err));
		conn_over(conn, TP_LOCAL_ERROR);
	}
}

static void on_no_route(struct tp_conn *conn, const struct cm_event *event)
{
	if (conn->state == CONN_ROUTING && event->status == -ETIMEDOUT && conn->route_retry) {
		conn->route_retry--;
		if (!rdma_resolve_route(conn->id, (int)conn->dev->env.route_timeout))
			return;
	}
	conn_over(conn, TP_UNREACHABLE);
}

/* InfiniBand and RoCE: the peer accepted, the rest is ours to do. No event will follow. */
static void on_response(struct tp_conn *conn, const struct cm_event *event)
{
	int err;

	if (conn->state != CONN_CONNECTING)
		return;
	conn->max_read_in = min_u64(conn->max_read_in, event->peer_out);
	conn->max_read_out = min_u64(conn->max_read_out, event->peer_in);
	err = qp_bring_up(conn->qp, conn->id, conn->max_read_in, conn->max_read_out);
	if (!err && rdma_establish(conn->id))
		err = -ENOTCONN;
	if (err) {
		log_cm("cm: %p establishing: %s", (void *)conn->id, strerror(-err));
		conn_over(conn, cause_of(err));
		return;
	}
	conn_up(conn, event);
}

/* ---- passive side ---- */

static struct tp_listener *listener_of(const struct tp_dev *dev, const struct rdma_cm_id *id)
{
	struct tp_listener *listener = dev->listeners;

	while (listener && listener->id != id)
		listener = listener->next;
	return listener;
}

static void request_take(struct tp_dev *dev, const struct cm_event *event)
{
	const struct tp_listener *listener = listener_of(dev, event->listen_id);
	struct tp_conn *conn = listener ? conn_make(dev, event->id, CONN_REQUESTED) : NULL;
	struct sockaddr_storage local, remote;
	const struct tp_request request = {
		.local = (struct sockaddr *)&local,
		.remote = (struct sockaddr *)&remote,
		.private_data = event->private_data,
		.private_data_size = event->private_data_size,
		.max_read_in = event->peer_in,
		.max_read_out = event->peer_out,
	};

	if (!conn) {
		id_refuse(dev, event->id);
		return;
	}
	conn->max_read_in = event->peer_in;
	conn->max_read_out = event->peer_out;
	tp_conn_addr(conn, &local, &remote);
	up_request(listener->sp, conn, &request);
}

static int listener_open(struct tp_listener *listener, uint16_t port)
{
	struct tp_dev *dev = listener->dev;
	struct sockaddr_storage addr = dev->attr.addr;
	int err;

	if (rdma_create_id(dev->cm, &listener->id, NULL, RDMA_PS_TCP))
		return -errno;
	addr_set_port(&addr, port);
	if (!rdma_bind_addr(listener->id, (struct sockaddr *)&addr) &&
	    !rdma_listen(listener->id, BACKLOG))
		return 0;
	err = -errno;
	rdma_destroy_id(listener->id);
	return err;
}

/*
 * A port that the connection manager finds free may be one of TCP's, which an iWARP device needs,
 * too: then another.
 */
static int listener_open_any(struct tp_listener *listener)
{
	int err, tries = 16;

	do
		err = listener_open(listener, 0);
	while (err == -EADDRINUSE && --tries);
	return err;
}

int tp_listen(struct tp_dev *dev, uint16_t *port, struct sp *sp, struct tp_listener **listener_out)
{
	struct tp_listener *listener = calloc(1, sizeof(*listener));
	int err;

	if (!listener)
		return -ENOMEM;
	listener->dev = dev;
	listener->sp = sp;
	err = *port ? listener_open(listener, *port) : listener_open_any(listener);
	if (err) {
		free(listener);
		return err;
	}
	listener->next = dev->listeners;
	dev->listeners = listener;
	*port = ntohs(rdma_get_src_port(listener->id));
	*listener_out = listener;
	return 0;
}

/*
 * What is queued is taken off first: requests that the kernel would drop would look like rejected
 * by the consumer.
 */
void tp_unlisten(struct tp_listener *listener)
{
	struct tp_dev *dev = listener->dev;
	struct tp_listener **link = &dev->listeners;

	while (*link != listener)
		link = &(*link)->next;
	*link = listener->next;
	stash_fill(dev);
	id_destroy(dev, listener->id);
	free(listener);
}

int tp_accept(struct tp_conn *conn, struct tp_qp *qp, struct ep *ep,
	      const struct tp_cm_param *param)
{
	const struct tp_attr *attr = &conn->dev->attr;
	unsigned max_read_in = min_u64(min_u64(param->max_read_in, conn->max_read_out),
				       attr->max_read_in);
	unsigned max_read_out = min_u64(min_u64(param->max_read_out, conn->max_read_in),
					attr->max_read_out);
	struct rdma_conn_param answer = {
		.private_data = param->private_data,
		.private_data_len = (uint8_t)param->private_data_size,
		.responder_resources = (uint8_t)max_read_in,
		.initiator_depth = (uint8_t)max_read_out,
		.flow_control = 1,
		.rnr_retry_count = TP_RNR_FOR_EVER,
		.qp_num = qp->ibv->qp_num,
	};
	int err = conn->state == CONN_OVER ? -ENOTCONN : 0;

	if (!err && !conn->dev->iwarp)
		err = qp_bring_up(qp, conn->id, max_read_in, max_read_out);
	if (err && err != -ENOTCONN && qp->state == IBV_QPS_INIT)
		return err;
	conn->ep = ep;
	conn->qp = qp;
	qp->conn = conn;
	conn->max_read_in = max_read_in;
	conn->max_read_out = max_read_out;
	conn->state = CONN_ACCEPTING;
	if (!err && rdma_accept(conn->id, &answer))
		err = errno == ENOMEM ? -ENOMEM : -ENOTCONN;
	if (err) {
		conn->busy = true;
		outcome_leave(conn, err);
	}
	return 0;
}

void cm_heard(struct tp_conn *conn)
{
	rdma_notify(conn->id, IBV_EVENT_COMM_EST); /* in vain if the last message came meanwhile */
}

/* ---- both sides ---- */

static void on_established(struct tp_conn *conn, const struct cm_event *event)
{
	if (conn->state != CONN_CONNECTING && conn->state != CONN_ACCEPTING)
		return;
	/* Without an enhanced handshake iWARP peers tell no depths. */
	if (conn->state == CONN_CONNECTING && event->peer_in && event->peer_out) {
		conn->max_read_in = min_u64(conn->max_read_in, event->peer_out);
		conn->max_read_out = min_u64(conn->max_read_out, event->peer_in);
	}
	conn_up(conn, event);
}

static void on_unreachable(struct tp_conn *conn, const struct cm_event *event)
{
	(void)event;
	conn_over(conn, TP_UNREACHABLE);
}

/* iWARP has no reasons. */
static void on_rejected(struct tp_conn *conn, const struct cm_event *event)
{
	bool marked = event->private_data_size >= sizeof(by_provider) &&
		      !memcmp(event->private_data, by_provider, sizeof(by_provider));
	bool by_user = conn->dev->iwarp || event->status == REJECTED_BY_USER;

	conn_over(conn, by_user && !marked ? TP_PEER_REJECTED : TP_NON_PEER_REJECTED);
}

/* InfiniBand and RoCE want an answer, or the peer waits for it. */
static void on_disconnected(struct tp_conn *conn, const struct cm_event *event)
{
	(void)event;
	if (conn->state == CONN_UP || conn->state == CONN_ACCEPTING)
		rdma_disconnect(conn->id);
	conn_over(conn, TP_UNREACHABLE);
}

static void on_removal(struct tp_conn *conn, const struct cm_event *event)
{
	(void)event;
	if (conn->state != CONN_UP) {
		conn_over(conn, TP_LOCAL_ERROR);
		return;
	}
	conn->state = CONN_OVER;
	up_qp_broken(conn->ep);
}

static void on_timewait_exit(struct tp_conn *conn, const struct cm_event *event)
{
	(void)event;
	if (conn->state == CONN_LEAVING)
		conn_leave(conn);
}

/* @conn may be gone after any of them. */
static void (*const handlers[])(struct tp_conn *conn, const struct cm_event *event) = {
	[RDMA_CM_EVENT_ADDR_RESOLVED] = on_address,
	[RDMA_CM_EVENT_ADDR_ERROR] = on_no_address,
	[RDMA_CM_EVENT_ROUTE_RESOLVED] = on_route,
	[RDMA_CM_EVENT_ROUTE_ERROR] = on_no_route,
	[RDMA_CM_EVENT_CONNECT_RESPONSE] = on_response,
	[RDMA_CM_EVENT_CONNECT_ERROR] = on_unreachable,
	[RDMA_CM_EVENT_UNREACHABLE] = on_unreachable,
	[RDMA_CM_EVENT_REJECTED] = on_rejected,
	[RDMA_CM_EVENT_ESTABLISHED] = on_established,
	[RDMA_CM_EVENT_DISCONNECTED] = on_disconnected,
	[RDMA_CM_EVENT_DEVICE_REMOVAL] = on_removal,
	[RDMA_CM_EVENT_TIMEWAIT_EXIT] = on_timewait_exit,
};

static void event_handle(struct tp_dev *dev, const struct cm_event *event)
{
	/* NULL: a listener, or a request that was not reported yet */
	struct tp_conn *conn = event->id->context;

	if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST)
		request_take(dev, event);
	else if (conn && event->type < sizeof(handlers) / sizeof(handlers[0]) &&
		 handlers[event->type])
		handlers[event->type](conn, event);
	if (event->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		dev_is_fatal(dev);
}

void cm_events(struct tp_dev *dev)
{
	struct cm_event event;

	for (unsigned n = 0; n < EVENTS_AT_ONCE && event_next(dev, &event); n++)
		event_handle(dev, &event);
	if (dev->stash)
		poke(dev);
}

void tp_conn_addr(const struct tp_conn *conn, struct sockaddr_storage *local,
		  struct sockaddr_storage *remote)
{
	addr_copy(local, rdma_get_local_addr(conn->id));
	addr_copy(remote, rdma_get_peer_addr(conn->id));
}

/* ---- the channel ---- */

int cm_open(struct tp_dev *dev)
{
	dev->cm = rdma_create_event_channel();
	if (!dev->cm)
		return -errno;
	dev->stash_end = &dev->stash;
	dev->leaving_end = &dev->leaving;
	mutex_init(&dev->outcome_lock, RANK_CM_RESULT);
	return 0;
}

/* Only what lingers is left by now; nobody waits for its peers any more. */
void cm_close(struct tp_dev *dev)
{
	struct tp_conn *conn;

	while ((conn = dev->leaving)) {
		leaving_remove(conn);
		if (conn->has_helper)
			pthread_join(conn->helper, NULL);
		conn_destroy(conn);
	}
	mutex_destroy(&dev->outcome_lock);
	rdma_destroy_event_channel(dev->cm);
}
