/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life of a connection: listeners, requests, attempts, disconnection, release.
 *
 * A connection is a struct tp_conn and its rdma_cm_id. Calls of the core (tp_*), events of
 * librdmacm (RDMA_CM_EVENT_*, here without the prefix) and times move it from state to state (CM_*,
 * likewise). Events come by tp_dev_progress, so they find ia->lock held, as calls do; the on_*
 * functions below handle them. In brackets, what a step calls: librdmacm, libibverbs (qp_to_rts),
 * or the core (up_*).
 *
 *	active side				passive side
 *
 *	tp_connect				CONNECT_REQUEST
 *	  |  [rdma_resolve_addr]		  |  [up_request]
 *	RESOLVING_ADDR <-------+		REQUESTED
 *	  |  ADDR_RESOLVED     |		  |  tp_accept
 *	  |  [rdma_resolve_    |		  |  [qp_to_rts, not on iWARP; rdma_accept]
 *	  |   route]           |		  |
 *	RESOLVING_ROUTE        |		  |
 *	  |  ROUTE_RESOLVED    |		  |
 *	  |  [rdma_connect;    |		  |
 *	  |   iWARP: helper]   |		  |
 *	CONNECTING --------> RETRYING		ACCEPTING
 *	  |  REJECTED as stale			  |  ESTABLISHED
 *	  |					  |  [up_established]
 *	  |  CONNECT_RESPONSE			  |
 *	  |  [qp_to_rts, rdma_establish]	  |
 *	  |  or, on iWARP: ESTABLISHED		  |
 *	  |  [up_established]			  |
 *	  +-----------> ESTABLISHED <-------------+
 *
 * A rejection as stale does not end the attempt: to the peer, an earlier connection with the number
 * of this queue pair has not ended yet. The state is RETRYING for STALE_RETRY_TIME, then a new
 * identifier begins at RESOLVING_ADDR [rdma_resolve_addr]; that happens STALE_RETRIES times.
 *
 * A CM result is a return value that is handled like an event: of rdma_connect on an iWARP helper
 * thread (iwarp.c), or of a tp_accept that has failed (cm_event.c).
 *
 * What ends a connection before the core releases it, and the upcall that reports it. The state is
 * AWAITS_RELEASE from then on, but after DEVICE_REMOVAL: then the upcall itself releases it.
 *
 *	RESOLVING_ADDR		ADDR_ERROR after the last retry		up_failed
 *	RESOLVING_ROUTE		ROUTE_ERROR after the last retry	up_failed
 *	RETRYING		the old identifier has an event that
 *				ends an attempt				up_failed
 *	CONNECTING, ACCEPTING	REJECTED, UNREACHABLE, CONNECT_ERROR,
 *				DISCONNECTED, a CM result that is an
 *				error					up_failed
 *	any of these five	the call of the next step fails		up_failed
 *	ESTABLISHED		DISCONNECTED				up_disconnected
 *	any of these six	DEVICE_REMOVAL				up_dev_fatal
 *	REQUESTED		the peer gives up: any of these events	none; tp_accept reports it
 *									by a CM result
 *
 * In any state the core may call tp_release (or tp_reject in state REQUESTED). No upcall follows.
 * What is next for the connection:
 *
 *	ESTABLISHED		[rdma_disconnect] LINGERING until the peer's answer, which is
 *				DISCONNECTED, TIMEWAIT_EXIT or another event that ends a
 *				connection, or for LINGER_TIME; then AWAITS_DESTROY
 *	a CM result is due	LINGERING until it is handled, however long that takes; then
 *				AWAITS_DESTROY
 *	AWAITS_RELEASE		AWAITS_DESTROY
 *	REQUESTED		[rdma_reject] destroyed
 *	any other		destroyed [rdma_destroy_id, which notifies the peer if need be]; an
 *				iWARP attempt without an answer as an orphan (iwarp.c), which is
 *				LINGERING if that fails
 *
 * One that AWAITS_DESTROY waits for nothing but its turn: it is destroyed [rdma_destroy_id] when a
 * later connection begins, at TIMEWAIT_EXIT or DEVICE_REMOVAL, or after LINGER_TIME. On iWARP, and
 * on a device that was removed, it is destroyed at once instead.
 *
 * The owner of a struct tp_conn and its identifier, which destroys them, is in turn
 *
 *	the core		from tp_connect or up_request to tp_release or tp_reject
 *	dev->lingering		in state LINGERING
 *	dev->to_destroy		in state AWAITS_DESTROY
 *	the orphan's thread	after iwarp_orphan_destroy
 *
 * In state RETRYING the core owns it, and dev->retrying has it, too. While a CM result is due, the
 * helper thread or dev->results refers to it. conn->ep and conn->qp belong to the core and are used
 * until tp_release; an orphan goes on holding its queue pair.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cm.h"
#include "base/sockaddr.h"

#define LISTEN_BACKLOG 1024
#define PORT_TRIES     16
/* In ns: it is time enough for two retransmissions of a lost disconnect request. */
#define LINGER_TIME UINT64_C(10000000000)
/* In ns. All retries together last longer than a connection is in timewait on most networks. */
#define STALE_RETRY_TIME UINT64_C(250000000)
#define STALE_RETRIES	 40
/* In ns: for this time an address that had a route is taken to have one. */
#define ROUTE_TIME UINT64_C(1000000000)
/* When a connection begins, it destroys so many of those that await that: so few are left. */
#define DESTROY_AT_ONCE 2
/* When their time is up, so many are destroyed; then other threads can take ia->lock. */
#define DESTROY_BATCH 16

/*
 * What the private data of a rejection begins with: of one by the provider this is all of it; of
 * one by the consumer these are the versions of DAT and of the provider, as dapl sends them, and
 * the consumer's data follow.
 */
#define REJECT_HEADER 4 /* bytes */
static const char rejected_by_provider[REJECT_HEADER] = { 'D', 'A', 'T', 0 };
#if DAT_EDITION == 2
static const char rejected_by_consumer[REJECT_HEADER] = { 2, 0, 2, 0 };
#else
static const char rejected_by_consumer[REJECT_HEADER] = { 1, 2, 1, 2 };
#endif

struct tp_listener {
	struct tp_listener *next;
	struct tp_dev *dev;
	struct rdma_cm_id *id;
	struct rdma_cm_id *datagram_id; /* NULL: it does not hear of datagrams */
	struct sp *sp;
};

/* ---- identifiers ---- */

void cm_id_reject(struct tp_dev *dev, struct rdma_cm_id *id, bool by_consumer,
		  const void *private_data, unsigned size)
{
	char data[UINT8_MAX];

	memcpy(data, by_consumer ? rejected_by_consumer : rejected_by_provider, REJECT_HEADER);
	if (size)
		memcpy(data + REJECT_HEADER, private_data, size);
	if (rdma_reject(id, data, (uint8_t)(REJECT_HEADER + size)))
		/* the peer has given up already */
		log_cm("%s: id %p: rdma_reject: %s", dev->attr.device, (void *)id, strerror(errno));
}

void cm_id_destroy(struct tp_dev *dev, struct rdma_cm_id *id)
{
	cm_events_discard(dev, id);
	(void)LIBRDMACM(rdma_destroy_id(id));
}

void cm_id_refuse(struct tp_dev *dev, struct rdma_cm_id *id)
{
	cm_id_reject(dev, id, false, NULL, 0);
	cm_id_destroy(dev, id);
}

/*
 * The address of the device has moved to another one since it was opened: queue pairs of this
 * device can't be used there. That is told once, because peers can send any number of requests.
 */
static bool id_is_elsewhere(struct tp_dev *dev, struct rdma_cm_id *id)
{
	char text[SOCKADDR_TEXT_SIZE];
	const char *device = id->verbs ? ibv_get_device_name(id->verbs->device) : dev->attr.device;

	if (!strcmp(device, dev->attr.device) && (!id->verbs || id->port_num == dev->port))
		return false;
	if (!dev->move_told)
		log_error("%s port %u: the address %s belongs to %s port %u now: no connection is "
			  "possible until the IA is opened again",
			  dev->attr.device, dev->port, sockaddr_text(rdma_get_local_addr(id), text),
			  device, id->port_num);
	dev->move_told = true;
	return true;
}

static void cm_conn_log_failure(const struct tp_conn *conn, const char *call, int err)
{
	char text[SOCKADDR_TEXT_SIZE];

	log_cm("%s: id %p, peer %s: %s: %s", conn->dev->attr.device, (void *)conn->id,
	       sockaddr_text(rdma_get_peer_addr(conn->id), text), call, strerror(-err));
}

/* ---- creation and destruction ---- */

struct tp_conn *cm_conn_new(struct tp_dev *dev, struct rdma_cm_id *id, enum cm_state state)
{
	struct tp_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	conn->dev = dev;
	conn->id = id;
	conn->state = state;
	conn->arp_retry = dev->env.arp_retry;
	conn->route_retry = dev->env.route_retry;
	conn->stale_retry = STALE_RETRIES;
	id->context = conn;
	dev->conns++;
	return conn;
}

/*
 * Destroys a connection of which no CM result is due; or, when the device is being closed, of which
 * no helper thread is running. Returns false if it is an orphan that can't be destroyed without
 * sleeping.
 */
static bool cm_conn_try_destroy(struct tp_conn *conn)
{
	struct tp_dev *dev = conn->dev;

	if (conn->orphaned_qp && !conn->answered) {
		if (!iwarp_orphan_destroy(conn))
			return false;
	} else if (conn->orphaned_qp) {
		cm_events_discard(dev, conn->id);
		iwarp_orphan_end(conn);
	} else {
		cm_id_destroy(dev, conn->id);
		free(conn);
	}
	dev->conns--;
	return true;
}

/* ---- connections that wait for a time ---- */

static void cm_conn_list_init(struct cm_conn_list *list)
{
	list->first = NULL;
	list->end = &list->first;
}

static void cm_conn_list_add(struct cm_conn_list *list, struct tp_conn *conn, uint64_t delay)
{
	conn->deadline = tp_now() + delay;
	conn->next = NULL;
	conn->back = list->end;
	*list->end = conn;
	list->end = &conn->next;
}

static void cm_conn_list_remove(struct cm_conn_list *list, struct tp_conn *conn)
{
	*conn->back = conn->next;
	if (conn->next)
		conn->next->back = conn->back;
	else
		list->end = conn->back;
}

static struct tp_conn *cm_conn_list_due(const struct cm_conn_list *list)
{
	return list->first && list->first->deadline <= tp_now() ? list->first : NULL;
}

/* A device works by itself. */
bool tp_dev_busy_polls(const struct tp_dev *dev)
{
	(void)dev;
	return false;
}

/*
 * While there are connections the service thread looks here after LINGER_TIME at the latest. So
 * none that begins to linger, or to await its destruction, meanwhile has to wake it. One begins to
 * wait for its next attempt in tp_dev_progress only.
 */
uint64_t tp_dev_deadline(const struct tp_dev *dev)
{
	const struct tp_conn *lingering = dev->lingering.first, *retrying = dev->retrying.first;
	const struct tp_conn *to_destroy = dev->to_destroy.first;
	uint64_t deadline = TP_NEVER;

	up_assert_locked(dev->ia);
	if (lingering)
		deadline = lingering->deadline;
	else if (dev->conns)
		deadline = tp_now() + LINGER_TIME;
	if (to_destroy)
		deadline = min_u64(to_destroy->deadline, deadline);
	return retrying ? min_u64(retrying->deadline, deadline) : deadline;
}

/* Has a released connection wait for the peer's answer or a CM result, for LINGER_TIME at first. */
static void cm_conn_linger(struct tp_conn *conn)
{
	conn->state = CM_LINGERING;
	cm_conn_list_add(&conn->dev->lingering, conn, LINGER_TIME);
}

/* Destroys a connection; an orphan for which there are no resources lingers instead. */
static void cm_conn_destroy(struct tp_conn *conn)
{
	if (!cm_conn_try_destroy(conn))
		cm_conn_linger(conn);
}

/*
 * Has a connection of which both sides know the end destroyed later. To destroy the identifier
 * sleeps a little in the kernel, so the consumer is told first, and the next connection or the end
 * of a time does it. A device that is being removed waits for its identifiers, so there it is done
 * at once.
 */
static void cm_conn_destroy_later(struct tp_conn *conn)
{
	struct tp_dev *dev = conn->dev;

	if (dev->iwarp || dev->removed) {
		cm_conn_destroy(conn);
		return;
	}
	conn->state = CM_AWAITS_DESTROY;
	cm_conn_list_add(&dev->to_destroy, conn, LINGER_TIME);
}

/* Destroys a connection that awaits that. */
static void cm_conn_destroy_awaiting(struct tp_conn *conn)
{
	cm_conn_list_remove(&conn->dev->to_destroy, conn);
	cm_conn_destroy(conn);
}

/* Destroys up to @max of the connections that await that, those that have waited longest first. */
static void cm_conns_destroy_awaiting(struct tp_dev *dev, unsigned max)
{
	for (; max && dev->to_destroy.first; max--)
		cm_conn_destroy_awaiting(dev->to_destroy.first);
}

/*
 * Ends the lingering of a connection, because the peer has answered or the CM result was handled;
 * but not while a result is due.
 */
static void cm_conn_linger_end(struct tp_conn *conn)
{
	if (conn->result_pending)
		return;
	cm_conn_list_remove(&conn->dev->lingering, conn);
	cm_conn_destroy_later(conn);
}

/* The connection has lingered for LINGER_TIME. It goes on if a CM result is due. */
static void cm_conn_linger_expire(struct tp_conn *conn)
{
	cm_conn_list_remove(&conn->dev->lingering, conn);
	if (conn->result_pending)
		cm_conn_linger(conn);
	else
		cm_conn_destroy(conn);
}

static void cm_conn_retry(struct tp_conn *conn);

void cm_times_expire(struct tp_dev *dev)
{
	struct tp_conn *conn;

	while ((conn = cm_conn_list_due(&dev->lingering)))
		cm_conn_linger_expire(conn);
	for (unsigned n = 0; n < DESTROY_BATCH && (conn = cm_conn_list_due(&dev->to_destroy)); n++)
		cm_conn_destroy_awaiting(conn);
	while ((conn = cm_conn_list_due(&dev->retrying)))
		cm_conn_retry(conn);
}

/* ---- release ---- */

void tp_release(struct tp_conn *conn)
{
	up_assert_locked(conn->dev->ia);
	if (conn->dev->iwarp)
		iwarp_release(conn);
	if (conn->qp)
		conn->qp->conn = NULL;
	conn->ep = NULL;
	conn->qp = NULL;
	conn->peer = NULL;
	if (conn->pd)
		pd_put(conn->pd);
	conn->pd = NULL;
	if (conn->state == CM_RETRYING)
		cm_conn_list_remove(&conn->dev->retrying, conn);
	if (conn->state == CM_ESTABLISHED && !rdma_disconnect(conn->id))
		cm_conn_linger(conn);
	else if (conn->result_pending)
		cm_conn_linger(conn);
	else if (conn->state == CM_REQUESTED)
		tp_reject(conn, false, NULL, 0);
	else if (conn->state == CM_AWAITS_RELEASE)
		cm_conn_destroy_later(conn);
	else
		cm_conn_destroy(conn);
}

void tp_reject(struct tp_conn *conn, bool by_consumer, const void *private_data, unsigned size)
{
	up_assert_locked(conn->dev->ia);
	if (conn->datagrams && by_consumer)
		datagram_rejected(conn, private_data, size);
	cm_id_reject(conn->dev, conn->id, by_consumer, private_data, size);
	cm_conn_destroy(conn);
}

/* ---- state changes that the core is told of; @conn may be freed on return ---- */

/*
 * The connection has ended, or the attempt was in vain for that @cause: the core is told, unless it
 * has released the connection or not seen it.
 */
void cm_conn_ended(struct tp_conn *conn, enum tp_cause cause)
{
	enum cm_state before = conn->state;

	if (before == CM_LINGERING)
		cm_conn_linger_end(conn);
	if (before == CM_LINGERING || before == CM_AWAITS_DESTROY)
		return;
	if (before == CM_RETRYING)
		cm_conn_list_remove(&conn->dev->retrying, conn);
	conn->state = CM_AWAITS_RELEASE;
	if (before == CM_ESTABLISHED)
		up_disconnected(conn->ep);
	else if (before == CM_REQUESTED || before == CM_AWAITS_RELEASE)
		return;
	else if (conn->datagrams)
		datagram_ended(conn, cause);
	else
		up_failed(conn->ep, cause);
}

/* The connection stands, and the core is told. */
static void cm_conn_established(struct tp_conn *conn, const struct cm_event *event)
{
	const bool active = conn->state == CM_CONNECTING;
	const struct tp_established established = {
		.private_data = active ? event->private_data : NULL,
		.private_data_size = active ? event->private_data_size : 0,
		.max_read_in = conn->max_read_in,
		.max_read_out = conn->max_read_out,
	};

	conn->state = CM_ESTABLISHED;
	up_established(conn->ep, &established);
}

static enum tp_cause cause_of_errno(int err)
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

	for (size_t i = 0; i < ARRAY_SIZE(causes); i++)
		if (causes[i].err == err)
			return causes[i].cause;
	return TP_LOCAL_ERROR;
}

void cm_conn_result_handle(struct tp_conn *conn)
{
	int err = conn->result;

	up_assert_locked(conn->dev->ia);
	iwarp_helper_join(conn);
	conn->result_pending = false;
	/* a thread that was cancelled may have sent the request */
	conn->answered |= err && err != -ECANCELED;
	if (err && conn->state == CM_CONNECTING)
		cm_conn_log_failure(conn, "rdma_connect", err);
	if (conn->state == CM_LINGERING)
		cm_conn_linger_end(conn);
	else if (err)
		cm_conn_ended(conn, cause_of_errno(err));
}

/* ---- active side ---- */

/*
 * Asks the routing table whether there is a route, because librdmacm would try to resolve an
 * address without one on the link until a time-out. It is asked by connecting a UDP socket, which
 * sends nothing. Returns 0 if there is a route, or if that is not known.
 */
static int route_ask(const struct sockaddr *from, const struct sockaddr *to)
{
	int err = 0, fd = socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return 0;
	if (!bind(fd, from, sockaddr_size(from)) && connect(fd, to, sockaddr_size(to)))
		err = -errno;
	close(fd);
	return err == -ENETUNREACH || err == -EHOSTUNREACH ? err : 0;
}

/*
 * As route_ask, once in a while for each address: a program may make many connections to one host.
 * @to has no port.
 */
static int route_check(struct tp_dev *dev, const struct sockaddr_storage *to)
{
	int err;

	if (tp_now() < dev->route.until && !memcmp(&dev->route.to, to, sizeof(*to)))
		return 0;
	err = route_ask((struct sockaddr *)&dev->attr.addr, (const struct sockaddr *)to);
	if (!err)
		dev->route = (struct cm_route){ *to, tp_now() + ROUTE_TIME };
	return err;
}

int cm_id_resolve(struct tp_dev *dev, struct sockaddr *to, enum rdma_port_space ps,
		  struct rdma_cm_id **id_out)
{
	struct sockaddr_storage from = dev->attr.addr;
	char text[SOCKADDR_TEXT_SIZE];
	const char *call = "rdma_create_id";
	struct rdma_cm_id *id;
	int err;

	if (LIBRDMACM(rdma_create_id(dev->cm, &id, NULL, ps))) {
		err = -errno;
		goto report;
	}
	env_apply_to_id(dev, id);
	call = "rdma_resolve_addr";
	if (LIBRDMACM(rdma_resolve_addr(id, (struct sockaddr *)&from, to,
					(int)dev->env.arp_timeout))) {
		err = -errno;
		goto destroy_id;
	}
	*id_out = id;
	return 0;
destroy_id:
	(void)LIBRDMACM(rdma_destroy_id(id));
report:
	log_cm("%s: peer %s: %s: %s", dev->attr.device, sockaddr_text(to, text), call,
	       strerror(-err));
	return err;
}

/*
 * Sets what a request with @param needs: the parameters of rdma_connect.
 */
static void cm_conn_prepare(struct tp_conn *conn, const struct tp_qp *qp,
			    const struct tp_cm_param *param)
{
	const struct tp_dev *dev = conn->dev;

	conn->max_read_in = min_u64(param->max_read_in, dev->attr.max_read_in);
	conn->max_read_out = min_u64(param->max_read_out, dev->attr.max_read_out);
	if (param->private_data_size)
		memcpy(conn->private_data, param->private_data, param->private_data_size);
	conn->param = (struct rdma_conn_param){
		.private_data = conn->private_data,
		.private_data_len = (uint8_t)param->private_data_size,
		.responder_resources = (uint8_t)conn->max_read_in,
		.initiator_depth = (uint8_t)conn->max_read_out,
		.flow_control = 1,
		.retry_count = (uint8_t)dev->env.ack_retry,
		.rnr_retry_count = (uint8_t)dev->env.rnr_retry,
		.srq = qp->srq != NULL,
		.qp_num = qp->ibv->qp_num,
	};
}

int cm_conn_begin(struct tp_dev *dev, const struct sockaddr *remote, uint16_t port,
		  enum rdma_port_space ps, struct tp_conn **conn_out)
{
	struct sockaddr_storage to;
	struct rdma_cm_id *id;
	struct tp_conn *conn;
	int err;

	up_assert_locked(dev->ia);
	if (remote->sa_family != dev->attr.addr.ss_family)
		return -EAFNOSUPPORT;
	sockaddr_copy(&to, remote);
	sockaddr_set_port(&to, 0);
	err = route_check(dev, &to);
	if (err)
		return err;
	sockaddr_set_port(&to, port);
	cm_conns_destroy_awaiting(dev, DESTROY_AT_ONCE);
	err = cm_id_resolve(dev, (struct sockaddr *)&to, ps, &id);
	if (err)
		return err;
	conn = cm_conn_new(dev, id, CM_RESOLVING_ADDR);
	if (!conn) {
		(void)LIBRDMACM(rdma_destroy_id(id));
		return -ENOMEM;
	}
	*conn_out = conn;
	return 0;
}

int tp_connect(struct tp_dev *dev, const struct sockaddr *remote, uint16_t port, struct tp_qp *qp,
	       struct ep *ep, const struct tp_cm_param *param, struct tp_conn **conn_out)
{
	struct tp_conn *conn;
	int err = cm_conn_begin(dev, remote, port, RDMA_PS_TCP, &conn);

	if (err)
		return err;
	cm_conn_prepare(conn, qp, param);
	conn->ep = ep;
	conn->qp = qp;
	qp->conn = conn;
	*conn_out = conn;
	return 0;
}

/*
 * Begins the attempt again with another identifier, because that of an attempt that was rejected
 * can't be used again.
 */
static void cm_conn_retry(struct tp_conn *conn)
{
	struct tp_dev *dev = conn->dev;
	struct rdma_cm_id *id;
	int err = cm_id_resolve(dev, rdma_get_peer_addr(conn->id), RDMA_PS_TCP, &id);

	if (err) {
		cm_conn_ended(conn, cause_of_errno(err));
		return;
	}
	cm_conn_list_remove(&dev->retrying, conn);
	conn->state = CM_RESOLVING_ADDR;
	cm_id_destroy(dev, conn->id);
	conn->id = id;
	id->context = conn;
}

static void on_addr_resolved(struct tp_conn *conn, const struct cm_event *event)
{
	(void)event;
	if (conn->state != CM_RESOLVING_ADDR)
		return;
	if (id_is_elsewhere(conn->dev, conn->id)) {
		cm_conn_ended(conn, TP_LOCAL_ERROR);
		return;
	}
	conn->state = CM_RESOLVING_ROUTE;
	if (rdma_resolve_route(conn->id, (int)conn->dev->env.route_timeout)) {
		cm_conn_log_failure(conn, "rdma_resolve_route", -errno);
		cm_conn_ended(conn, TP_LOCAL_ERROR);
	}
}

static void on_addr_error(struct tp_conn *conn, const struct cm_event *event)
{
	struct sockaddr *to = rdma_get_peer_addr(conn->id);

	if (conn->state == CM_RESOLVING_ADDR && event->status == -ETIMEDOUT && conn->arp_retry) {
		conn->arp_retry--;
		if (!LIBRDMACM(
			    rdma_resolve_addr(conn->id, NULL, to, (int)conn->dev->env.arp_timeout)))
			return;
	}
	cm_conn_ended(conn, TP_UNREACHABLE);
}

static void on_route_resolved(struct tp_conn *conn, const struct cm_event *event)
{
	int err;

	(void)event;
	if (conn->state != CM_RESOLVING_ROUTE)
		return;
	conn->state = CM_CONNECTING;
	if (conn->dev->iwarp)
		err = iwarp_connect(conn);
	else
		err = rdma_connect(conn->id, &conn->param) ? -errno : 0;
	if (err) {
		cm_conn_log_failure(conn, "rdma_connect", err);
		cm_conn_ended(conn, TP_LOCAL_ERROR);
	}
}

static void on_route_error(struct tp_conn *conn, const struct cm_event *event)
{
	if (conn->state == CM_RESOLVING_ROUTE && event->status == -ETIMEDOUT && conn->route_retry) {
		conn->route_retry--;
		if (!rdma_resolve_route(conn->id, (int)conn->dev->env.route_timeout))
			return;
	}
	cm_conn_ended(conn, TP_UNREACHABLE);
}

/* The peer has accepted, on InfiniBand or RoCE. No ESTABLISHED event follows there. */
static void on_connect_response(struct tp_conn *conn, const struct cm_event *event)
{
	int err;

	if (conn->state != CM_CONNECTING)
		return;
	conn->max_read_in = min_u64(conn->max_read_in, event->peer_out);
	conn->max_read_out = min_u64(conn->max_read_out, event->peer_in);
	err = qp_to_rts(conn->qp, conn->id, conn->max_read_in, conn->max_read_out);
	if (!err && rdma_establish(conn->id)) {
		cm_conn_log_failure(conn, "rdma_establish", -errno);
		err = -ENOTCONN;
	}
	if (err) {
		cm_conn_ended(conn, cause_of_errno(err));
		return;
	}
	cm_conn_established(conn, event);
}

/* ---- passive side ---- */

/* Returns NULL if the listener was closed while the event was pending. */
static struct tp_listener *listener_of_id(const struct tp_dev *dev, const struct rdma_cm_id *id)
{
	struct tp_listener *listener = dev->listeners;

	while (listener && listener->id != id && listener->datagram_id != id)
		listener = listener->next;
	return listener;
}

static void connection_request(struct tp_dev *dev, const struct tp_listener *listener,
			       const struct cm_event *event)
{
	struct tp_conn *conn = cm_conn_new(dev, event->id, CM_REQUESTED);
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
		cm_id_refuse(dev, event->id);
		return;
	}
	conn->max_read_in = event->peer_in;
	conn->max_read_out = event->peer_out;
	tp_conn_addr(conn, &local, &remote);
	up_request(listener->sp, conn, &request);
}

static void on_connect_request(struct tp_dev *dev, const struct cm_event *event)
{
	const bool asked_back = dev->asked_back && event->listen_id == dev->asked_back;
	const struct tp_listener *listener = listener_of_id(dev, event->listen_id);

	cm_conns_destroy_awaiting(dev, DESTROY_AT_ONCE);
	if ((!listener && !asked_back) || id_is_elsewhere(dev, event->id))
		cm_id_refuse(dev, event->id);
	else if (event->id->ps == RDMA_PS_UDP)
		datagram_request(dev, asked_back ? NULL : listener->sp, event);
	else
		connection_request(dev, listener, event);
}

int cm_id_listen(struct tp_dev *dev, uint16_t port, enum rdma_port_space ps,
		 struct rdma_cm_id **id_out)
{
	struct sockaddr_storage addr = dev->attr.addr;
	struct rdma_cm_id *id;
	int err;

	if (LIBRDMACM(rdma_create_id(dev->cm, &id, NULL, ps)))
		return -errno;
	env_apply_to_id(dev, id);
	sockaddr_set_port(&addr, port);
	if (!LIBRDMACM(rdma_bind_addr(id, (struct sockaddr *)&addr)) &&
	    !rdma_listen(id, LISTEN_BACKLOG)) {
		*id_out = id;
		return 0;
	}
	err = -errno;
	(void)LIBRDMACM(rdma_destroy_id(id));
	return err;
}

static int listener_open(struct tp_listener *listener, uint16_t port)
{
	return cm_id_listen(listener->dev, port, RDMA_PS_TCP, &listener->id);
}

/*
 * Listens for datagrams at the same port. Another program may do that there; the listener goes on
 * without them.
 */
static void listener_open_datagrams(struct tp_listener *listener, uint16_t port)
{
	struct tp_dev *dev = listener->dev;
	int err = cm_id_listen(dev, port, RDMA_PS_UDP, &listener->datagram_id);

	if (err)
		log_cm("%s: no datagrams at port %u: %s", dev->attr.device, port, strerror(-err));
}

/*
 * Listens on a port that librdmacm picks. An iWARP device needs the TCP port of that number, too,
 * which may be in use; then another one is tried.
 */
static int listener_open_any(struct tp_listener *listener)
{
	int err, tries = PORT_TRIES;

	do
		err = listener_open(listener, 0);
	while (err == -EADDRINUSE && --tries);
	return err;
}

int tp_listen(struct tp_dev *dev, uint16_t *port, struct sp *sp, struct tp_listener **listener_out)
{
	struct tp_listener *listener;
	int err;

	up_assert_locked(dev->ia);
	listener = calloc(1, sizeof(*listener));
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
	if (dev->attr.max_datagram)
		listener_open_datagrams(listener, *port);
	*listener_out = listener;
	return 0;
}

/*
 * The channel is emptied first, so that the requests on it are refused by cm_events_discard. The
 * kernel would drop them, and to the peer that looks like a rejection by the consumer.
 */
void tp_unlisten(struct tp_listener *listener)
{
	struct tp_dev *dev = listener->dev;
	struct tp_listener **link = &dev->listeners;

	up_assert_locked(dev->ia);
	while (*link != listener)
		link = &(*link)->next;
	*link = listener->next;
	cm_events_fetch(dev);
	if (listener->datagram_id)
		cm_id_destroy(dev, listener->datagram_id);
	cm_id_destroy(dev, listener->id);
	free(listener);
}

/*
 * A failure that leaves the request and the QP unchanged is returned. From the QP's first state
 * change on, and if the peer has given up, the failure is reported by up_failed, as a CM result.
 */
int tp_accept(struct tp_conn *conn, struct tp_qp *qp, struct ep *ep,
	      const struct tp_cm_param *param)
{
	const struct tp_attr *attr = &conn->dev->attr;
	unsigned max_read_in = min_u64(min_u64(param->max_read_in, conn->max_read_out),
				       attr->max_read_in);
	unsigned max_read_out = min_u64(min_u64(param->max_read_out, conn->max_read_in),
					attr->max_read_out);
	struct rdma_conn_param reply = {
		.private_data = param->private_data,
		.private_data_len = (uint8_t)param->private_data_size,
		.responder_resources = (uint8_t)max_read_in,
		.initiator_depth = (uint8_t)max_read_out,
		.flow_control = 1,
		.rnr_retry_count = (uint8_t)conn->dev->env.rnr_retry,
		.srq = qp->srq != NULL,
		.qp_num = qp->ibv->qp_num,
	};
	int err = conn->state == CM_AWAITS_RELEASE ? -ENOTCONN : 0;

	up_assert_locked(conn->dev->ia);
	if (!err && !conn->dev->iwarp)
		err = qp_to_rts(qp, conn->id, max_read_in, max_read_out);
	if (err && err != -ENOTCONN && qp->state == IBV_QPS_INIT)
		return err;
	conn->ep = ep;
	conn->qp = qp;
	qp->conn = conn;
	conn->max_read_in = max_read_in;
	conn->max_read_out = max_read_out;
	conn->state = CM_ACCEPTING;
	if (!err && rdma_accept(conn->id, &reply)) {
		err = -errno;
		cm_conn_log_failure(conn, "rdma_accept", err);
		if (err != -ENOMEM)
			err = -ENOTCONN;
	}
	if (err) {
		(void)tp_qp_error(qp); /* so that requests posted from here on are flushed */
		conn->result_pending = true;
		cm_conn_result_post(conn, err);
	}
	return 0;
}

void cm_conn_comm_established(struct tp_conn *conn)
{
	up_assert_locked(conn->dev->ia);
	rdma_notify(conn->id, IBV_EVENT_COMM_EST); /* fails if that message has come meanwhile */
}

/* ---- events of both sides ---- */

/* The connection stands: on the passive side, and on the active side on iWARP. */
static void on_established(struct tp_conn *conn, const struct cm_event *event)
{
	if (conn->state == CM_LINGERING) {
		cm_conn_linger_end(conn); /* an orphan's answer */
		return;
	}
	if (conn->datagrams) {
		datagram_answered(conn, event);
		return;
	}
	if (conn->state != CM_CONNECTING && conn->state != CM_ACCEPTING)
		return;
	/* an iWARP peer without the enhanced MPA handshake does not send its read depths */
	if (conn->state == CM_CONNECTING && event->peer_in && event->peer_out) {
		conn->max_read_in = min_u64(conn->max_read_in, event->peer_out);
		conn->max_read_out = min_u64(conn->max_read_out, event->peer_in);
	}
	cm_conn_established(conn, event);
}

static void on_unreachable(struct tp_conn *conn, const struct cm_event *event)
{
	if (conn->datagrams && conn->state == CM_CONNECTING)
		datagram_refused(conn, event);
	else
		cm_conn_ended(conn, TP_UNREACHABLE);
}

/*
 * Has an attempt that was rejected as stale begin again after a while. Returns false if it was
 * rejected for another reason, or was tried often enough.
 */
static bool cm_conn_retry_if_stale(struct tp_conn *conn, const struct cm_event *event)
{
	if (conn->dev->iwarp || event->status != CM_REJECT_STALE || conn->state != CM_CONNECTING ||
	    !conn->stale_retry)
		return false;
	conn->stale_retry--;
	conn->state = CM_RETRYING;
	cm_conn_list_add(&conn->dev->retrying, conn, STALE_RETRY_TIME);
	return true;
}

/* What a consumer has sent is behind the header, if there is one: an edition of DAT begins it. */
enum tp_cause cm_rejection_read(const struct cm_event *event, bool by_consumer, const char **data,
				unsigned *size)
{
	const char first = event->private_data_size >= REJECT_HEADER ? event->private_data[0] : 0;
	const unsigned begin = first == 1 || first == 2 ? REJECT_HEADER : 0;

	*data = event->private_data + begin;
	*size = event->private_data_size - begin;
	if (by_consumer && (event->private_data_size < REJECT_HEADER ||
			    memcmp(event->private_data, rejected_by_provider, REJECT_HEADER) != 0))
		return TP_PEER_REJECTED;
	*size = 0;
	return TP_NON_PEER_REJECTED;
}

/* The peer has rejected the request. On iWARP there is no reason code. */
static void on_rejected(struct tp_conn *conn, const struct cm_event *event)
{
	bool by_consumer = conn->dev->iwarp || event->status == CM_REJECT_CONSUMER_DEFINED;
	enum tp_cause cause;
	const char *data;
	unsigned size;

	if (cm_conn_retry_if_stale(conn, event))
		return;
	cause = cm_rejection_read(event, by_consumer, &data, &size);
	if (conn->ep && size)
		up_reject_data(conn->ep, data, size);
	cm_conn_ended(conn, cause);
}

/*
 * The peer has disconnected. On InfiniBand and RoCE it waits for a reply, which rdma_disconnect
 * sends.
 */
static void on_disconnected(struct tp_conn *conn, const struct cm_event *event)
{
	(void)event;
	if (conn->state == CM_ESTABLISHED || conn->state == CM_ACCEPTING)
		rdma_disconnect(conn->id);
	cm_conn_ended(conn, TP_UNREACHABLE);
}

/* The device is being removed. The upcall ends every connection that has an endpoint. */
static void on_device_removal(struct tp_conn *conn, const struct cm_event *event)
{
	(void)event;
	if (conn->ep)
		up_dev_fatal(conn->dev->ia);
	else
		cm_conn_ended(conn, TP_LOCAL_ERROR);
}

static void on_timewait_exit(struct tp_conn *conn, const struct cm_event *event)
{
	(void)event;
	if (conn->state == CM_LINGERING)
		cm_conn_linger_end(conn);
	else if (conn->state == CM_AWAITS_DESTROY)
		cm_conn_destroy_awaiting(conn);
}

/* ---- the service thread's part ---- */

static const struct {
	void (*handle)(struct tp_conn *conn, const struct cm_event *event);
	bool answers; /* iWARP: the attempt */
} event_types[] = {
	[RDMA_CM_EVENT_ADDR_RESOLVED] = { on_addr_resolved, false },
	[RDMA_CM_EVENT_ADDR_ERROR] = { on_addr_error, false },
	[RDMA_CM_EVENT_ROUTE_RESOLVED] = { on_route_resolved, false },
	[RDMA_CM_EVENT_ROUTE_ERROR] = { on_route_error, false },
	[RDMA_CM_EVENT_CONNECT_RESPONSE] = { on_connect_response, false },
	[RDMA_CM_EVENT_CONNECT_ERROR] = { on_unreachable, true },
	[RDMA_CM_EVENT_UNREACHABLE] = { on_unreachable, true },
	[RDMA_CM_EVENT_REJECTED] = { on_rejected, true },
	[RDMA_CM_EVENT_ESTABLISHED] = { on_established, true },
	[RDMA_CM_EVENT_DISCONNECTED] = { on_disconnected, true },
	[RDMA_CM_EVENT_DEVICE_REMOVAL] = { on_device_removal, false },
	[RDMA_CM_EVENT_TIMEWAIT_EXIT] = { on_timewait_exit, false },
};

static void cm_conn_event(struct tp_conn *conn, const struct cm_event *event)
{
	if (event->type >= ARRAY_SIZE(event_types) || !event_types[event->type].handle)
		return;
	conn->answered |= event_types[event->type].answers;
	event_types[event->type].handle(conn, event);
}

void cm_event_handle(struct tp_dev *dev, const struct cm_event *event)
{
	/* A listener's identifier has none, nor that of a request that was not reported. */
	struct tp_conn *conn = event->id->context;

	up_assert_locked(dev->ia);
	if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST)
		on_connect_request(dev, event);
	else if (conn)
		cm_conn_event(conn, event);
	if (event->type == RDMA_CM_EVENT_DEVICE_REMOVAL && !dev->removed) {
		dev->removed = true;
		cm_conns_destroy_awaiting(dev, UINT_MAX);
		up_dev_fatal(dev->ia);
	}
}

void tp_conn_addr(const struct tp_conn *conn, struct sockaddr_storage *local,
		  struct sockaddr_storage *remote)
{
	up_assert_locked(conn->dev->ia);
	sockaddr_copy(local, rdma_get_local_addr(conn->id));
	sockaddr_copy(remote, rdma_get_peer_addr(conn->id));
}

/* ---- open and close ---- */

int cm_open(struct tp_dev *dev)
{
	dev->cm = rdma_create_event_channel();
	if (!dev->cm)
		return -errno;
	dev->pending_end = &dev->pending;
	cm_conn_list_init(&dev->lingering);
	cm_conn_list_init(&dev->retrying);
	cm_conn_list_init(&dev->to_destroy);
	mutex_init(&dev->result_lock, RANK_CM_RESULT);
	return 0;
}

/*
 * The core has released all connections. The lingering ones are destroyed without waiting, as long
 * as there are resources.
 */
void cm_close(struct tp_dev *dev)
{
	struct tp_conn *conn;

	cm_conns_destroy_awaiting(dev, UINT_MAX);
	while ((conn = dev->lingering.first)) {
		cm_conn_list_remove(&dev->lingering, conn);
		iwarp_helper_join(conn);
		if (!cm_conn_try_destroy(conn))
			iwarp_orphan_end(conn);
	}
	datagram_close(dev);
	mutex_destroy(&dev->result_lock);
	rdma_destroy_event_channel(dev->cm);
}
