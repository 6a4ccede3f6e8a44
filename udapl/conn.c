/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life of a connection, from connect or accept to its one terminal event.
 *
 * All of it happens under ia->lock, in a consumer's call or on the service thread. A connection
 * ends in steps: the verdict, which stands; the QP in error and the peer told; waiting, for a
 * bounded time, until the device has completed what was outstanding; then what is left completes as
 * flushed, and the terminal event follows.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "ep.h"

#define MS UINT64_C(1000000) /* in ns */

#define GRACE_CAP (3000 * MS) /* how long posted requests may delay a graceful disconnect */
#define DRAIN_CAP (100 * MS)  /* how long the device may take to flush; some never flush all */
/* flushed, and nobody says why: after that the connection is broken */
#define FLUSH_CAP (1000 * MS)

#define EVENTS_PER_CONNECTION 2 /* ESTABLISHED, and one that ends it */

/* ---- states ---- */

static void ep_linger(struct ep *ep);

/*
 * What a trigger does. An empty entry: nothing, and a call that pulls it is refused with the
 * state's name.
 */
static const struct move {
	enum { NONE, STAY, GO, END } kind;
	DAT_EP_STATE to;	   /* GO */
	void (*then)(struct ep *); /* GO, may be NULL */
	DAT_EVENT_NUMBER verdict;  /* END: by way of ep_end to DISCONNECTED */
} moves[][TRIGGERS] = {
/* clang-format off */
#define STAY_HERE     { .kind = STAY }
#define GO_TO(state)  { .kind = GO, .to = DAT_EP_STATE_##state }
#define END_AS(event) { .kind = END, .verdict = DAT_CONNECTION_EVENT_##event }
/* clang-format on */
	[DAT_EP_STATE_UNCONNECTED] = {
		[ON_CONNECT] = GO_TO(ACTIVE_CONNECTION_PENDING),
		[ON_ACCEPT] = GO_TO(COMPLETION_PENDING),
		[ON_RESET] = STAY_HERE,
		[ON_FREE] = STAY_HERE,
	},
	[DAT_EP_STATE_ACTIVE_CONNECTION_PENDING] = {
		[ON_ESTABLISHED] = GO_TO(CONNECTED),
		[ON_PEER_REJECTED] = END_AS(PEER_REJECTED),
		[ON_NON_PEER_REJECTED] = END_AS(NON_PEER_REJECTED),
		[ON_UNREACHABLE] = END_AS(UNREACHABLE),
		[ON_FAULT] = END_AS(NON_PEER_REJECTED),
		[ON_TIMEOUT] = END_AS(TIMED_OUT),
		[ON_ABRUPT] = END_AS(DISCONNECTED),
		[ON_GRACEFUL] = END_AS(DISCONNECTED),
		[ON_FREE] = STAY_HERE,
	},
	[DAT_EP_STATE_COMPLETION_PENDING] = {
		[ON_ESTABLISHED] = GO_TO(CONNECTED),
		[ON_PEER_REJECTED] = END_AS(ACCEPT_COMPLETION_ERROR),
		[ON_NON_PEER_REJECTED] = END_AS(ACCEPT_COMPLETION_ERROR),
		[ON_UNREACHABLE] = END_AS(ACCEPT_COMPLETION_ERROR),
		[ON_FAULT] = END_AS(ACCEPT_COMPLETION_ERROR),
		[ON_ABRUPT] = END_AS(DISCONNECTED),
		[ON_GRACEFUL] = END_AS(DISCONNECTED),
		[ON_FREE] = STAY_HERE,
	},
	[DAT_EP_STATE_CONNECTED] = {
		[ON_PEER_GONE] = END_AS(DISCONNECTED),
		[ON_FAULT] = END_AS(BROKEN),
		[ON_TIMEOUT] = END_AS(BROKEN),
		[ON_ABRUPT] = END_AS(DISCONNECTED),
		[ON_GRACEFUL] = { .kind = GO, .to = DAT_EP_STATE_DISCONNECT_PENDING, .then = ep_linger },
		[ON_FREE] = STAY_HERE,
	},
	[DAT_EP_STATE_DISCONNECT_PENDING] = {
		[ON_PEER_GONE] = END_AS(DISCONNECTED),
		[ON_FAULT] = END_AS(BROKEN),
		[ON_TIMEOUT] = END_AS(DISCONNECTED),
		[ON_ABRUPT] = END_AS(DISCONNECTED),
		[ON_GRACEFUL] = STAY_HERE,
		[ON_IDLE] = END_AS(DISCONNECTED),
		[ON_FREE] = STAY_HERE,
	},
	[DAT_EP_STATE_DISCONNECTED] = {
		[ON_ABRUPT] = STAY_HERE,
		[ON_GRACEFUL] = STAY_HERE,
		[ON_RESET] = GO_TO(UNCONNECTED),
		[ON_FREE] = STAY_HERE,
	},
#undef STAY_HERE
#undef GO_TO
#undef END_AS
};

static void ep_end(struct ep *ep, DAT_EVENT_NUMBER verdict);

static const struct move *ep_move(const struct ep *ep, enum trigger trigger)
{
	return &moves[ep_state(ep)][trigger];
}

DAT_RETURN ep_may(const struct ep *ep, enum trigger trigger)
{
	return ep_move(ep, trigger)->kind != NONE ? DAT_SUCCESS
						  : status_of_ep_state((DAT_EP_STATE)ep_state(ep));
}

void ep_set_gates(struct ep *ep)
{
	unsigned state = ep_state(ep);
	bool alone = ep->qp && !ep->shared;
	bool ending = state == DAT_EP_STATE_DISCONNECT_PENDING ||
		      state == DAT_EP_STATE_DISCONNECTED;

	atomic_store(&ep->send_gate, alone && state == DAT_EP_STATE_CONNECTED ? EP_OPEN : 0);
	atomic_store(&ep->recv_gate, alone && !ending ? EP_OPEN : 0);
	ep->read_limit = ep->attr.max_rdma_read_out ? ep->attr.max_rdma_size : 0;
}

static void ep_set_state(struct ep *ep, DAT_EP_STATE state)
{
	atomic_store_explicit(&ep->state, state, memory_order_seq_cst);
	ep_set_gates(ep);
}

void ep_fire(struct ep *ep, enum trigger trigger)
{
	const struct move *move = ep_move(ep, trigger);

	if (ep->verdict)
		return; /* it is ending: the first verdict stands */
	if (move->kind == END) {
		ep_end(ep, move->verdict);
	} else if (move->kind == GO) {
		ep_set_state(ep, move->to);
		if (move->then)
			move->then(ep);
	}
}

/* ---- the end of a connection ---- */

static void ep_step(struct ep *ep);

static void ep_tell(struct ep *ep, DAT_EVENT_NUMBER number)
{
	DAT_EVENT event = {
		.event_number = number,
		.event_data.connect_event_data.ep_handle = ep,
	};

	if (number == DAT_CONNECTION_EVENT_ESTABLISHED && ep->private_data_size) {
		event.event_data.connect_event_data.private_data = ep->private_data;
		event.event_data.connect_event_data.private_data_size = ep->private_data_size;
	}
	log_cm("endpoint %p: event %#x", (void *)ep, (unsigned)number);
	ep->promised--;
	evd_post_promised(ep->connect_evd, &event);
}

/* From on to off every completion makes ep_notice kick us, and the service thread hears of all. */
static void ep_watch(struct ep *ep, bool on)
{
	if (ep->watching == on)
		return;
	ep->watching = on;
	spin_lock(&ep->request_evd->lock);
	/* a marker still on its way is for ep_notice, too */
	atomic_store(&ep->watched, on || ep->marked);
	spin_unlock(&ep->request_evd->lock);
	evd_watch_drain(ep->recv_evd, on);
	evd_watch_drain(ep->request_evd, on);
}

/* Takes what the device has completed. False: no memory, some stayed behind. */
static bool ep_collect(struct ep *ep)
{
	bool recvs = evd_drain(ep->recv_evd), requests = evd_drain(ep->request_evd);

	return recvs && requests;
}

bool ep_flush(struct ep *ep)
{
	bool recvs = evd_flush(ep->recv_evd, &ep->recvs),
	     requests = evd_flush(ep->request_evd, &ep->sends);

	return recvs && requests;
}

static void ep_unpromise(struct ep *ep)
{
	if (ep->promised)
		evd_unpromise(ep->connect_evd, ep->promised);
	ep->promised = 0;
}

static void ep_release(struct ep *ep)
{
	if (ep->conn)
		tp_release(ep->conn);
	ep->conn = NULL;
}

/* A bind is heard of, suppressed or not. */
static bool is_quiet(const struct req *req)
{
	return (req->flags & (DAT_COMPLETION_SUPPRESS_FLAG | REQ_ODD)) ==
	       DAT_COMPLETION_SUPPRESS_FLAG;
}

/*
 * A suppressed request that nothing follows completes in silence: a marker behind it makes itself
 * heard, and proves that what did not fail before it did succeed. It takes no slot of the ring, for
 * those belong to the poster, who may be in the middle of a post right now unless send_lock keeps
 * him out.
 */
static void ep_mark(struct ep *ep)
{
	struct ring *sends = &ep->sends;
	unsigned tail;

	if (ep->signal_all)
		return;
	if (ep->shared)
		spin_lock(&ep->send_lock);
	spin_lock(&ep->request_evd->lock);
	tail = atomic_load(&sends->tail);
	if (!ep->marked && tail != atomic_load(&sends->head) &&
	    is_quiet(&sends->slots[(tail - 1) & sends->mask])) {
		ep->proves = tail;
		ep->unsure = !ep->shared;
		ep->marked = tp_post_marker(ep->qp, &ep->marker) == 0;
	}
	spin_unlock(&ep->request_evd->lock);
	if (ep->shared)
		spin_unlock(&ep->send_lock);
}

/*
 * The marker came back; that it may be flushed itself takes nothing from its proof.
 * request_evd->lock held.
 */
static void ep_marker_back(struct ep *ep)
{
	struct ring *sends = &ep->sends;

	ep->marked = false;
	if ((int)(ep->proves - atomic_load(&sends->head)) > 0)
		atomic_store(&sends->head, ep->proves);
	else
		ep->unsure = false; /* they had completions of their own */
}

void ep_doubt(struct ep *ep, const struct ring *ring)
{
	unsigned tail = atomic_load(&ep->sends.tail);

	if (ring != &ep->sends || !ep->unsure || ep->proves != tail)
		return;
	ep->unsure = false;
	ep->proves--;
	if (!ep->marked)
		atomic_store(&ep->sends.head, ep->proves); /* not known to be done, after all */
}

void ep_notice(struct ep *ep, const struct req *req, DAT_DTO_COMPLETION_STATUS status)
{
	if (req->kind == REQ_MARKER)
		ep_marker_back(ep);
	else if (status == DAT_DTO_ERR_FLUSHED)
		atomic_store(&ep->flushed, true);
	else if (status != DAT_DTO_SUCCESS)
		atomic_store(&ep->fault, true);
	service_kick(ep->obj.ia, &ep->work);
}

static void ep_expire(struct timer *timer)
{
	struct ep *ep = container_of(timer, struct ep, timer);

	if (ep->verdict || ep_state(ep) == DAT_EP_STATE_DISCONNECTED)
		ep_step(ep);
	else
		ep_fire(ep, ON_TIMEOUT);
}

static void ep_set_timer(struct ep *ep, uint64_t ns)
{
	timer_set(ep->obj.ia, &ep->timer, tp_now() + ns, ep_expire);
}

/* The last step: order on an EVD is completions, flushes, then the event. */
static void ep_finish(struct ep *ep)
{
	DAT_EVENT_NUMBER verdict;

	if (!ep_collect(ep)) {
		ep_set_timer(ep, MEMORY_RETRY);
		return;
	}
	verdict = ep->peer_gone && atomic_load(&ep->fault) ? DAT_CONNECTION_EVENT_BROKEN
							   : ep->verdict;
	/* Who posts from here on sees that state, and has to do with the leftovers himself. */
	ep_set_state(ep, DAT_EP_STATE_DISCONNECTED);
	if (!ep_flush(ep)) {
		ep_set_timer(ep, MEMORY_RETRY);
		return;
	}
	timer_cancel(ep->obj.ia, &ep->timer);
	ep->verdict = 0;
	ep_watch(ep, false);
	ep_tell(ep, verdict);
	ep_unpromise(ep);
}

/* While the device flushes. */
static void ep_drain(struct ep *ep)
{
	bool over = !ep->timer.deadline; /* time is up, or ran up before */

	if (ep_collect(ep) && !ring_used(&ep->sends) && !ring_used(&ep->recvs))
		over = true;
	if (over)
		ep_finish(ep);
}

static void ep_end(struct ep *ep, DAT_EVENT_NUMBER verdict)
{
	ep->verdict = verdict;
	if (ep_state(ep) == DAT_EP_STATE_CONNECTED)
		ep_set_state(ep, DAT_EP_STATE_DISCONNECT_PENDING);
	ep_watch(ep, true);
	ep_mark(ep); /* before the error: there are devices that refuse it afterwards */
	if (tp_qp_error(ep->qp))
		log_warn("endpoint %p: the device would not end its transfers", (void *)ep);
	ep_release(ep);
	ep_set_timer(ep, DRAIN_CAP);
	ep_drain(ep);
}

/* A graceful disconnect lets requests finish; receives are not waited for. */
static void ep_linger(struct ep *ep)
{
	ep_watch(ep, true);
	ep_set_timer(ep, GRACE_CAP);
	ep_step(ep);
}

static void ep_step_lingering(struct ep *ep)
{
	ep_collect(ep);
	if (atomic_load(&ep->fault))
		ep_fire(ep, ON_FAULT);
	else if (!ring_used(&ep->sends))
		ep_fire(ep, ON_IDLE);
	else
		ep_mark(ep);
}

/*
 * A flush that we did not cause has a reason: a failure further back, or a peer whose word is still
 * on its way.
 */
static void ep_step_connected(struct ep *ep)
{
	if (atomic_load(&ep->flushed))
		ep_collect(ep);
	if (atomic_load(&ep->fault))
		ep_fire(ep, ON_FAULT);
	else if (atomic_load(&ep->flushed) && !ep->timer.deadline)
		ep_set_timer(ep, FLUSH_CAP);
}

/* Posts that overtook the end: the device may need to hear again that it is over. */
bool ep_settle(struct ep *ep)
{
	if (!ring_used(&ep->sends) && !ring_used(&ep->recvs))
		return true;
	(void)tp_qp_error(ep->qp);
	return ep_collect(ep) && ep_flush(ep);
}

static void ep_step_disconnected(struct ep *ep)
{
	if (!ep_settle(ep))
		ep_set_timer(ep, MEMORY_RETRY);
}

/* Something has happened; sees to whatever is due. */
static void ep_step(struct ep *ep)
{
	if (ep->verdict) {
		ep_drain(ep);
		return;
	}
	switch (ep_state(ep)) {
	case DAT_EP_STATE_CONNECTED:
		ep_step_connected(ep);
		break;
	case DAT_EP_STATE_DISCONNECT_PENDING:
		ep_step_lingering(ep);
		break;
	case DAT_EP_STATE_DISCONNECTED:
		ep_step_disconnected(ep);
		break;
	default:
		break; /* what failed before ESTABLISHED is looked at thereafter */
	}
}

void ep_work(struct work *work)
{
	ep_step(container_of(work, struct ep, work));
}

void ep_silence(struct ep *ep)
{
	struct ia *ia = ep->obj.ia;

	timer_cancel(ia, &ep->timer);
	service_forget(ia, &ep->work);
	ep_release(ep);
	ep_unpromise(ep);
	ep_watch(ep, false);
	ep->verdict = 0;
	ep_set_state(ep, DAT_EP_STATE_UNCONNECTED); /* where ep_step does nothing */
}

/* ---- word from the transport ---- */

/*
 * What the connection leaves of the RDMA reads. Those of the consumer's wish stay, unless there can
 * be none at all.
 */
static DAT_COUNT reads_left(const struct ep *ep, DAT_COUNT made, unsigned agreed)
{
	return ep->reads_given && agreed ? made : (DAT_COUNT)min_u64((unsigned)made, agreed);
}

/* Consumers that asked once read it whenever they like: it changes only if it must. */
static void addr_update(struct sockaddr_storage *known, const struct sockaddr_storage *now)
{
	if (now->ss_family != AF_UNSPEC && memcmp(known, now, sizeof(*now)) != 0)
		*known = *now;
}

static void ep_learn_addrs(struct ep *ep)
{
	struct sockaddr_storage local, remote;

	tp_conn_addr(ep->conn, &local, &remote);
	addr_update(&ep->local, &local);
	addr_update(&ep->remote, &remote);
}

void up_established(struct ep *ep, const struct tp_established *established)
{
	unsigned size = min_u64(established->private_data_size, ep->obj.ia->attr->max_reply_pdata);

	timer_cancel(ep->obj.ia, &ep->timer);
	ep_learn_addrs(ep);
	ep->attr.max_rdma_read_in = reads_left(ep, ep->read_in, established->max_read_in);
	ep->attr.max_rdma_read_out = reads_left(ep, ep->read_out, established->max_read_out);
	if (established->private_data && size) {
		memcpy(ep->private_data, established->private_data, size);
		ep->private_data_size = (DAT_COUNT)size;
	}
	ep_fire(ep, ON_ESTABLISHED);
	ep_tell(ep, DAT_CONNECTION_EVENT_ESTABLISHED);
	ep_step(ep);
}

void up_failed(struct ep *ep, enum tp_cause cause)
{
	static const enum trigger triggers[] = {
		[TP_PEER_REJECTED] = ON_PEER_REJECTED,
		[TP_NON_PEER_REJECTED] = ON_NON_PEER_REJECTED,
		[TP_UNREACHABLE] = ON_UNREACHABLE,
		[TP_LOCAL_ERROR] = ON_FAULT,
	};

	ep_fire(ep, triggers[cause]);
}

void up_disconnected(struct ep *ep)
{
	ep_collect(ep); /* if a transfer failed, the peer went because of that */
	ep->peer_gone = !ep->verdict;
	ep_fire(ep, atomic_load(&ep->fault) ? ON_FAULT : ON_PEER_GONE);
}

void ep_break(struct ep *ep)
{
	ep_fire(ep, ON_FAULT);
}

void up_qp_broken(struct ep *ep)
{
	if (ep->verdict || ep_state(ep) == DAT_EP_STATE_DISCONNECTED)
		return; /* by us */
	ia_async_event(ep->obj.ia, DAT_ASYNC_ERROR_EP_BROKEN, ep, DAT_EP_TRANSFER_TO_ERROR);
	ep_break(ep);
}

/* ---- connect, accept, disconnect ---- */

/* Room for all that is to come, so that nothing of it can fail. ia->lock held. */
static DAT_RETURN ep_begin(struct ep *ep, enum trigger trigger)
{
	DAT_RETURN ret = ep_may(ep, trigger);

	if (ret != DAT_SUCCESS)
		return ret;
	if (!ep->qp || !ep->connect_evd)
		return BAD_STATE(EP_NOTREADY);
	ret = status_of(evd_promise(ep->connect_evd, EVENTS_PER_CONNECTION), DAT_RESOURCE_MEMORY);
	if (ret != DAT_SUCCESS)
		return ret;
	ep->promised = EVENTS_PER_CONNECTION;
	ep->peer_gone = false;
	atomic_store(&ep->parting, false);
	atomic_store(&ep->fault, false);
	atomic_store(&ep->flushed, false);
	/* before the transport knows: its answer may be quicker than our return */
	ep_fire(ep, trigger);
	return DAT_SUCCESS;
}

static void ep_begin_undo(struct ep *ep)
{
	ep_set_state(ep, DAT_EP_STATE_UNCONNECTED);
	ep_unpromise(ep);
}

static bool is_host_in4(const struct sockaddr_in *in)
{
	uint32_t host = ntohl(in->sin_addr.s_addr);

	return host != INADDR_ANY && host != INADDR_BROADCAST && !IN_MULTICAST(host);
}

static bool is_host_in6(const struct sockaddr_in6 *in6)
{
	return !IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr) && !IN6_IS_ADDR_MULTICAST(&in6->sin6_addr);
}

/* A copy of a consumer's address with the port of @qual in place of its own. */
static DAT_RETURN address_take(const struct sockaddr *from, DAT_CONN_QUAL qual,
			       struct sockaddr_storage *to)
{
	struct sockaddr_in *in = (struct sockaddr_in *)to;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;
	bool host;

	memset(to, 0, sizeof(*to));
	switch (from->sa_family) {
	case AF_INET:
		memcpy(in, from, sizeof(*in));
		in->sin_port = htons(port_of_qual(qual));
		host = is_host_in4(in);
		break;
	case AF_INET6:
		memcpy(in6, from, sizeof(*in6));
		in6->sin6_port = htons(port_of_qual(qual));
		host = is_host_in6(in6);
		break;
	default:
		return DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED);
	}
	return host ? DAT_SUCCESS : DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED);
}

/* What a consumer asked of ep_connect, beside the endpoint. */
struct wish {
	DAT_IA_ADDRESS_PTR remote;
	DAT_CONN_QUAL qual;
	DAT_TIMEOUT timeout; /* us */
	DAT_COUNT private_data_size;
	const void *private_data;
	DAT_QOS qos;
	DAT_CONNECT_FLAGS flags;
};

static DAT_RETURN connect_refused(const struct ia *ia, const struct wish *wish)
{
	if (!wish->remote)
		return BAD_ARG(2);
	if (wish->private_data_size > 0 && !wish->private_data)
		return BAD_ARG(6);
	if (!wish->qual)
		return BAD_ARG(3);
	if (!wish->timeout)
		return BAD_ARG(4);
	if (wish->private_data_size < 0 ||
	    (unsigned)wish->private_data_size > ia->attr->max_request_pdata)
		return BAD_ARG(5);
	if (wish->flags & ~(unsigned)DAT_CONNECT_MULTIPATH_FLAG)
		return BAD_ARG(8);
	if (wish->qos != DAT_QOS_BEST_EFFORT || wish->flags & DAT_CONNECT_MULTIPATH_FLAG)
		return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	return DAT_SUCCESS;
}

/* ia->lock held. */
static DAT_RETURN ep_begin_connect(struct ep *ep, const struct wish *wish,
				   const struct sockaddr_storage *remote)
{
	const struct tp_cm_param param = {
		.private_data = wish->private_data,
		.private_data_size = (unsigned)wish->private_data_size,
		.max_read_in = (unsigned)ep->read_in,
		.max_read_out = (unsigned)ep->read_out,
	};
	struct ia *ia = ep->obj.ia;
	uint64_t deadline = tp_now() + (uint64_t)wish->timeout * 1000;
	DAT_RETURN ret;

	ret = ep_begin(ep, ON_CONNECT);
	if (ret != DAT_SUCCESS)
		return ret;
	if (!ep->private_data)
		/* never 0, which may be NULL */
		ep->private_data = malloc(ia->attr->max_reply_pdata + 1);
	if (!ep->private_data) {
		ret = NO_RESOURCE(MEMORY);
		goto undo;
	}
	ret = status_of(tp_connect(ia->dev, (const struct sockaddr *)remote,
				   port_of_qual(wish->qual), ep->qp, ep, &param, &ep->conn),
			DAT_RESOURCE_TEP);
	if (ret != DAT_SUCCESS)
		goto undo;
	ep->remote = *remote;
	ep_learn_addrs(ep);
	ep->asked = *remote;
	ep->asked_qual = wish->qual;
	ep->asked_flags = wish->flags;
	if (wish->timeout != DAT_TIMEOUT_INFINITE)
		timer_set(ia, &ep->timer, deadline, ep_expire);
	return DAT_SUCCESS;
undo:
	ep_begin_undo(ep);
	return ret;
}

DAT_RETURN ep_connect(DAT_EP_HANDLE handle, DAT_IA_ADDRESS_PTR remote, DAT_CONN_QUAL qual,
		      DAT_TIMEOUT timeout, DAT_COUNT private_data_size,
		      const DAT_PVOID private_data, DAT_QOS qos, DAT_CONNECT_FLAGS flags)
{
	const struct wish wish = { remote,	 qual, timeout, private_data_size,
				   private_data, qos,  flags };
	struct sockaddr_storage address;
	struct ep *ep = handle;
	struct ia *ia;
	DAT_RETURN ret;

	if (!obj_valid(NULL, ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	if (!ep->connect_evd)
		return BAD_HANDLE(EVD_CONN);
	ia = ep->obj.ia;
	ret = connect_refused(ia, &wish);
	if (ret != DAT_SUCCESS)
		return ret;
	ret = address_take(remote, qual, &address);
	if (ret != DAT_SUCCESS)
		return ret;
	mutex_lock(&ia->lock);
	ret = ep_begin_connect(ep, &wish, &address);
	mutex_unlock(&ia->lock);
	return ret;
}

DAT_RETURN ep_accept(struct ep *ep, const struct cr *cr, const void *private_data, unsigned size)
{
	const struct tp_cm_param param = {
		.private_data = private_data,
		.private_data_size = size,
		.max_read_in = min_u64((unsigned)ep->read_in, cr->max_read_out),
		.max_read_out = min_u64((unsigned)ep->read_out, cr->max_read_in),
	};
	DAT_RETURN ret;

	ret = ep_begin(ep, ON_ACCEPT);
	if (ret != DAT_SUCCESS)
		return ret;
	ret = status_of(tp_accept(cr->conn, ep->qp, ep, &param), DAT_RESOURCE_TEP);
	if (ret != DAT_SUCCESS) {
		ep_begin_undo(ep);
		return ret;
	}
	ep->conn = cr->conn;
	ep_learn_addrs(ep);
	return DAT_SUCCESS;
}

DAT_RETURN ep_disconnect(DAT_EP_HANDLE handle, DAT_CLOSE_FLAGS flags)
{
	enum trigger trigger = flags == DAT_CLOSE_GRACEFUL_FLAG ? ON_GRACEFUL : ON_ABRUPT;
	struct ep *ep = handle;
	struct ia *ia;
	DAT_RETURN ret;

	if (!obj_valid(NULL, ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	if (flags != DAT_CLOSE_ABRUPT_FLAG && flags != DAT_CLOSE_GRACEFUL_FLAG)
		return BAD_ARG(2);
	ia = ep->obj.ia;
	mutex_lock(&ia->lock);
	ret = ep_may(ep, trigger);
	if (ret == DAT_SUCCESS) {
		atomic_store(&ep->parting, true);
		ep_fire(ep, trigger);
	}
	mutex_unlock(&ia->lock);
	return ret;
}
