/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life of a connection, from connect or accept to its one end event.
 *
 * What happens to a connection is a trigger (enum trigger): a call of the consumer, an upcall of
 * the transport, a time-out, or that a graceful disconnect has nothing left to wait for. The table
 * of moves says what each trigger does in each state of the endpoint, and which calls are refused;
 * ep_trigger_locked does it. All of that is under ia->lock, in a consumer's call or on the service
 * thread, so one trigger is handled after the other.
 *
 * The data path takes no such lock. What a completion tells of the connection it leaves in ep->seen
 * (ep_completion_seen), and queues ep->work, with which the service thread calls step_locked: that
 * looks what is due in the present state and phase, as timers have it do, too.
 *
 * A connection ends in phases (enum ep_phase):
 *	lingering	only after a graceful disconnect: outstanding requests may complete. The
 *			last one of them, or a time-out, is the trigger for what follows.
 *	draining	The end event is known and stands. The QP is in error, the peer is notified,
 *			the tp_conn is released. For a bounded time the device completes what is
 *			outstanding.
 *	flushing	The state is DISCONNECTED. What the device did not complete is completed as
 *			flushed, then the end event is posted. Lasts only while memory is short.
 * So an EVD has the completions, then the flushes, then the end event. While a connection lingers
 * or drains and something is outstanding, each completion is reported, not only failures, so that
 * the last one is noticed.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "datagram.h"
#include "base/race.h"
#include "base/sockaddr.h"

#define MS UINT64_C(1000000) /* in ns */

/* Outstanding requests may delay a graceful disconnect for so long. */
#define LINGER_LIMIT (3000 * MS)
/* The device may take so long to flush what is outstanding. Some never flush all. */
#define DRAIN_LIMIT (100 * MS)
/* After a flush whose cause does not become known in this time the connection is broken. */
#define CAUSE_LIMIT (1000 * MS)

#define EVENTS_PER_CONNECTION 2 /* ESTABLISHED, and the end event */

/* ---- states ---- */

static void linger_locked(struct ep *ep);

/*
 * What a trigger does in a state. Where there is no entry it does nothing, and a call that is this
 * trigger is refused with the name of the state.
 */
static const struct move {
	enum { NONE, STAY, GO, END } kind;
	DAT_EP_STATE to;	   /* GO */
	void (*then)(struct ep *); /* GO, may be NULL */
	DAT_EVENT_NUMBER event;	   /* END: the end event, on the way to DISCONNECTED */
} moves[][TRIGGERS] = {
/* clang-format off */
#define STAY_HERE                { .kind = STAY }
#define GO_TO(state)             { .kind = GO, .to = DAT_EP_STATE_##state }
#define GO_TO_THEN(state, call)  { .kind = GO, .to = DAT_EP_STATE_##state, .then = (call) }
#define END_AS(name)             { .kind = END, .event = DAT_CONNECTION_EVENT_##name }
/* clang-format on */
	[DAT_EP_STATE_UNCONNECTED] = {
		[ON_CONNECT] = GO_TO(ACTIVE_CONNECTION_PENDING),
		[ON_RESERVE] = GO_TO(RESERVED),
		[ON_REQUEST] = GO_TO(TENTATIVE_CONNECTION_PENDING),
		[ON_ACCEPT] = GO_TO(COMPLETION_PENDING),
		[ON_RESET] = STAY_HERE,
		[ON_FREE] = STAY_HERE,
	},
	[DAT_EP_STATE_RESERVED] = {
		[ON_REQUEST] = GO_TO(PASSIVE_CONNECTION_PENDING),
		[ON_UNRESERVE] = GO_TO(UNCONNECTED),
	},
	[DAT_EP_STATE_PASSIVE_CONNECTION_PENDING] = {
		[ON_REQUEST_LOST] = GO_TO(RESERVED),
		[ON_REJECT] = GO_TO(UNCONNECTED),
		[ON_ACCEPT_OWN] = GO_TO(COMPLETION_PENDING),
	},
	[DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING] = {
		[ON_ACCEPT_OWN] = GO_TO(COMPLETION_PENDING),
	},
	[DAT_EP_STATE_ACTIVE_CONNECTION_PENDING] = {
		[ON_ESTABLISHED] = GO_TO_THEN(CONNECTED, early_recvs_free),
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
		[ON_ESTABLISHED] = GO_TO_THEN(CONNECTED, early_recvs_free),
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
		[ON_GRACEFUL] = GO_TO_THEN(DISCONNECT_PENDING, linger_locked),
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

/* Returns what @trigger does to @ep in its present state. */
static const struct move *move_of(const struct ep *ep, enum trigger trigger)
{
	return &moves[ep_state(ep)][trigger];
}

DAT_RETURN ep_may(const struct ep *ep, enum trigger trigger)
{
	const bool queue = trigger == ON_RESET || trigger == ON_FREE;
	const bool may = move_of(ep, trigger)->kind != NONE && !(queue && ep->renews_qp);

	return may ? DAT_SUCCESS : status_of_ep_state((DAT_EP_STATE)ep_state(ep));
}

DAT_RETURN ep_lock_for(DAT_EP_HANDLE handle, enum trigger trigger)
{
	struct ep *ep = handle;
	DAT_RETURN ret;

	if (!obj_lock_ia(NULL, ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	ret = ep_may(ep, trigger);
	if (ret != DAT_SUCCESS)
		mutex_unlock(&ep->obj.ia->lock);
	return ret;
}

/* Returns the value of an open gate: one of two; 0 without a queue pair. */
static unsigned gate_opened(const struct ep *ep, unsigned alone, unsigned shared)
{
	if (!ep->qp)
		return 0;
	return ep->thread_safe ? shared : alone;
}

void ep_set_gates(struct ep *ep)
{
	unsigned state = ep_state(ep);
	unsigned open = gate_opened(ep, EP_OPEN, EP_SHARED);
	bool fast = state == DAT_EP_STATE_CONNECTED || ep_takes_early_requests(ep);
	bool slow_requests = ep->obj.ia->attr->caps & TP_CAP_UNCANCELLED_POSTS;
	unsigned requests = fast && !slow_requests ? open : 0;

	if (ep_has_datagrams(ep))
		requests = gate_opened(ep, EP_DATAGRAM_OPEN, EP_DATAGRAM_SHARED);
	ep_limit_reads(ep);
	atomic_store(&ep->send_gate, requests);
	race_reach(RACE_GATE, ep);
	atomic_store(&ep->recv_gate, (fast || ep_has_datagrams(ep)) && !ep->srq ? open : 0);
}

void ep_after_fork(struct ep *ep)
{
	atomic_store(&ep->send_gate, 0);
	atomic_store(&ep->recv_gate, 0);
}

/* Changes the state, and the gates with it. Every change of a visible endpoint is made here. */
static void set_state_locked(struct ep *ep, DAT_EP_STATE state)
{
	assert_locked(&ep->obj.ia->lock);
	atomic_store_explicit(&ep->state, state, memory_order_seq_cst);
	ep_set_gates(ep);
}

/* Says whether the end event is decided on. */
static bool is_ending_locked(const struct ep *ep)
{
	assert_locked(&ep->obj.ia->lock);
	return ep->end.phase >= PHASE_DRAINING;
}

static void end_connection_locked(struct ep *ep, DAT_EVENT_NUMBER event);

void ep_trigger_locked(struct ep *ep, enum trigger trigger)
{
	const struct move *move = move_of(ep, trigger);

	assert_locked(&ep->obj.ia->lock);
	if (is_ending_locked(ep))
		return; /* the first end event stands */
	if (move->kind == END) {
		end_connection_locked(ep, move->event);
	} else if (move->kind == GO) {
		set_state_locked(ep, move->to);
		if (move->then)
			move->then(ep);
	}
}

/* ---- completions ---- */

/*
 * As long as it is @on each completion of the endpoint is reported to ep_completion_seen, which
 * queues work: so the service thread sees when the rings become empty.
 */
static void set_reporting_locked(struct ep *ep, bool on)
{
	assert_locked(&ep->obj.ia->lock);
	if (ep->end.reporting == on)
		return;
	ep->end.reporting = on;
	spin_lock(&ep->request_evd->lock);
	/* the completion of a marker that is still in the QP must reach ep_completion_seen, too */
	atomic_store(&ep->sends.reports_all, on || ep->marker.posted);
	atomic_store(&ep->recvs.reports_all, on);
	spin_unlock(&ep->request_evd->lock);
	evd_set_reporting_locked(ep->recv_evd, on);
	evd_set_reporting_locked(ep->request_evd, on);
}

bool ep_has_outstanding(const struct ep *ep)
{
	return ep->srq || ring_used(&ep->sends) || ring_used(&ep->recvs);
}

/*
 * Takes what the device has completed, unless nothing is outstanding: an empty queue that thousands
 * of connections share may be slow to read. Returns false if there was no memory, and some
 * completions are still in the queues.
 */
static bool take_completions(struct ep *ep)
{
	bool recvs, requests;

	if (!ep_has_outstanding(ep))
		return true;
	recvs = evd_drain(ep->recv_evd);
	requests = evd_drain(ep->request_evd);
	return recvs && requests;
}

bool ep_flush_locked(struct ep *ep)
{
	bool recvs, requests;

	assert_locked(&ep->obj.ia->lock);
	ep->late_completions |= ring_used(&ep->sends) || ring_used(&ep->recvs);
	recvs = evd_flush(ep->recv_evd, &ep->recvs);
	requests = evd_flush(ep->request_evd, &ep->sends);
	return recvs && requests;
}

/* The device may have to move the QP to error once more, to flush what was posted late. */
bool ep_flush_late_locked(struct ep *ep)
{
	assert_locked(&ep->obj.ia->lock);
	if (!ring_used(&ep->sends) && !ring_used(&ep->recvs))
		return true;
	(void)tp_qp_error(ep->qp);
	return take_completions(ep) && ep_flush_locked(ep);
}

void ep_completion_seen(struct ep *ep, const struct req *req, DAT_DTO_COMPLETION_STATUS status)
{
	if (req->kind == REQ_MARKER) {
		ep_marker_completed_locked(ep, status);
	} else if (status == DAT_DTO_ERR_FLUSHED) {
		atomic_store(&ep->seen.flushed, true);
	} else if (status != DAT_DTO_SUCCESS) {
		atomic_store(&ep->seen.failed, true);
		ep_count_failure(ep, status);
	}
	service_queue_work(ep->obj.ia, &ep->work);
}

/* ---- the end of a connection ---- */

static void step_locked(struct ep *ep);

/* Has an event of that kind the private data of the peer? */
static bool tells_private_data(DAT_EVENT_NUMBER number)
{
	return number == DAT_CONNECTION_EVENT_ESTABLISHED ||
	       (DAT_EDITION == 2 && number == DAT_CONNECTION_EVENT_PEER_REJECTED);
}

/* Logs a connection event, with the peer and, of an attempt that failed, what that means. */
static void tell_connection_event(const struct ep *ep, DAT_EVENT_NUMBER number)
{
	const char *cause = event_cause(number);
	char peer[SOCKADDR_TEXT_SIZE];

	log_cm("EP %p, peer %s: %s%s%s", (const void *)ep,
	       sockaddr_text((const struct sockaddr *)&ep->remote, peer), event_name(number),
	       cause ? ": " : "", cause ? cause : "");
}

/* Posts a connection event, for which start_connection_locked has reserved a slot of the EVD. */
static void post_connection_event_locked(struct ep *ep, DAT_EVENT_NUMBER number)
{
	DAT_EVENT event = {
		.event_number = number,
		.event_data.connect_event_data.ep_handle = ep,
	};

	if (tells_private_data(number) && ep->private_data_size) {
		event.event_data.connect_event_data.private_data = ep->private_data;
		event.event_data.connect_event_data.private_data_size = ep->private_data_size;
	}
	tell_connection_event(ep, number);
	ep_count_event(ep, number);
	debug_assert(ep->events_reserved > 0);
	ep->events_reserved--;
	evd_post_reserved(ep->connect_evd, &event);
}

/* Gives back the slots for events that will not come. */
static void unreserve_events_locked(struct ep *ep)
{
	assert_locked(&ep->obj.ia->lock);
	if (ep->events_reserved)
		evd_unreserve(ep->connect_evd, ep->events_reserved);
	ep->events_reserved = 0;
}

/* Releases the connection, if there is one. The transport makes no upcall about it any more. */
static void release_conn_locked(struct ep *ep)
{
	assert_locked(&ep->obj.ia->lock);
	if (ep->conn)
		tp_release(ep->conn);
	ep->conn = NULL;
}

/* The time-out of an attempt is a trigger; all other times have step_locked look again. */
static void timer_expired_locked(struct timer *timer)
{
	struct ep *ep = container_of(timer, struct ep, timer);

	assert_locked(&ep->obj.ia->lock);
	if (is_ending_locked(ep) || ep_state(ep) == DAT_EP_STATE_DISCONNECTED)
		step_locked(ep);
	else
		ep_trigger_locked(ep, ON_TIMEOUT);
}

/* Has the timer expire in @ns, in place of any earlier setting. */
static void set_timer_locked(struct ep *ep, uint64_t ns)
{
	assert_locked(&ep->obj.ia->lock);
	timer_set_locked(ep->obj.ia, &ep->timer, tp_now() + ns, timer_expired_locked);
}

/* Is it the end of a connection, and not of an attempt that was in vain? */
static bool ends_connection(DAT_EVENT_NUMBER event)
{
	return event == DAT_CONNECTION_EVENT_DISCONNECTED || event == DAT_CONNECTION_EVENT_BROKEN;
}

static void tell_broken_locked(struct ep *ep)
{
	assert_locked(&ep->obj.ia->lock);
	async_error_post_locked(ep->obj.ia, DAT_ASYNC_ERROR_EP_BROKEN, ep,
				DAT_EP_TRANSFER_TO_ERROR);
}

/*
 * The last steps of the end: completions, flushes, the end event, in this order on each EVD. In DAT
 * 2.0 an endpoint with a shared receive queue is reported as broken then, once: its consumers wait
 * for that, to know that none of the receives is in use any more.
 * Without memory it is tried again later, from where it stopped.
 */
static void finish_locked(struct ep *ep)
{
	DAT_EVENT_NUMBER event;

	assert_locked(&ep->obj.ia->lock);
	if (!take_completions(ep)) {
		set_timer_locked(ep, NO_MEMORY_RETRY);
		return;
	}
	event = ep->end.by_peer && atomic_load(&ep->seen.failed) ? DAT_CONNECTION_EVENT_BROKEN
								 : ep->end.event;
	/* A post that comes after this reads the state, and completes as flushed by itself. */
	set_state_locked(ep, DAT_EP_STATE_DISCONNECTED);
	ep->end.phase = PHASE_FLUSHING;
	if (!ep_flush_locked(ep)) {
		set_timer_locked(ep, NO_MEMORY_RETRY);
		return;
	}
	timer_cancel_locked(ep->obj.ia, &ep->timer);
	ep->end.phase = PHASE_NONE;
	set_reporting_locked(ep, false);
	post_connection_event_locked(ep, event);
	unreserve_events_locked(ep);
	if (DAT_EDITION == 2 && ep->srq && !ep->broken_told && ends_connection(event))
		tell_broken_locked(ep);
}

/*
 * Says whether the end has to wait for receives that the endpoint took from an SRQ. A device that
 * never says that these are complete is not waited for.
 */
static bool awaits_last_receive(const struct ep *ep)
{
	return ep->srq && ep->obj.ia->says_last_receive && !ep->last_receive;
}

/* Says whether nothing is outstanding, and nothing else is waited for. */
static bool is_idle(const struct ep *ep)
{
	return !ring_used(&ep->sends) && !ring_used(&ep->recvs) && !awaits_last_receive(ep);
}

/*
 * Has each completion reported, if something is outstanding: with nothing there is nothing to
 * watch, and to watch takes system calls.
 */
static void watch_outstanding_locked(struct ep *ep)
{
	assert_locked(&ep->obj.ia->lock);
	if (!is_idle(ep))
		set_reporting_locked(ep, true);
}

/* Takes what has completed, and says whether all has. */
static bool is_drained(struct ep *ep)
{
	return take_completions(ep) && is_idle(ep);
}

/* Finishes when all has completed, or when the time is up: then the timer is not set. */
static void step_draining_locked(struct ep *ep)
{
	bool drained;

	assert_locked(&ep->obj.ia->lock);
	watch_outstanding_locked(ep);
	drained = is_drained(ep);
	if (drained || !ep->timer.deadline)
		finish_locked(ep);
}

/*
 * Ends the connection with @event: tells the device and, by the release, the peer, then waits for
 * the device to complete what is outstanding.
 */
static void end_connection_locked(struct ep *ep, DAT_EVENT_NUMBER event)
{
	assert_locked(&ep->obj.ia->lock);
	ep->end.phase = PHASE_DRAINING;
	ep->end.event = event;
	/* an attempt that failed keeps its state until the event is there */
	if (ep_state(ep) == DAT_EP_STATE_CONNECTED || ep_takes_early_requests(ep) ||
	    atomic_load(&ep->end.asked))
		set_state_locked(ep, DAT_EP_STATE_DISCONNECT_PENDING);
	watch_outstanding_locked(ep);
	ep_post_marker_locked(ep); /* before the error: some devices refuse it afterwards */
	if (tp_qp_error(ep->qp) && !ep->obj.ia->failed)
		log_warn("EP %p: the device refuses to put the QP into error", (void *)ep);
	release_conn_locked(ep);
	timer_cancel_locked(ep->obj.ia, &ep->timer);
	watch_outstanding_locked(ep); /* a receive may have been posted meanwhile */
	if (is_drained(ep))
		finish_locked(ep);
	else
		set_timer_locked(ep, DRAIN_LIMIT);
}

/*
 * Begins to linger: a graceful disconnect lets requests complete, and does not wait for receives.
 */
static void linger_locked(struct ep *ep)
{
	assert_locked(&ep->obj.ia->lock);
	ep->end.phase = PHASE_LINGERING;
	step_locked(ep);
	if (ep->end.phase == PHASE_LINGERING)
		set_timer_locked(ep, LINGER_LIMIT);
}

/*
 * Ends the connection if a request has failed, or if all have completed. A marker tells that of the
 * last ones, if they are unsignalled.
 */
static void step_lingering_locked(struct ep *ep)
{
	assert_locked(&ep->obj.ia->lock);
	if (ring_used(&ep->sends))
		set_reporting_locked(ep, true);
	take_completions(ep);
	if (atomic_load(&ep->seen.failed))
		ep_trigger_locked(ep, ON_FAULT);
	else if (!ring_used(&ep->sends))
		ep_trigger_locked(ep, ON_IDLE);
	else
		ep_post_marker_locked(ep);
}

/*
 * Looks for the cause of a failure on a connection that is up. A flush that we did not cause has
 * one: a failed completion behind it in the queue, or the peer's disconnect, whose event is still
 * on its way.
 */
static void step_connected_locked(struct ep *ep)
{
	assert_locked(&ep->obj.ia->lock);
	if (atomic_load(&ep->seen.flushed))
		take_completions(ep);
	if (atomic_load(&ep->seen.failed))
		ep_trigger_locked(ep, ON_FAULT);
	else if (atomic_load(&ep->seen.flushed) && !ep->timer.deadline)
		set_timer_locked(ep, CAUSE_LIMIT);
}

/* Flushes what was posted while the connection became DISCONNECTED. */
static void step_disconnected_locked(struct ep *ep)
{
	assert_locked(&ep->obj.ia->lock);
	if (!ep_flush_late_locked(ep))
		set_timer_locked(ep, NO_MEMORY_RETRY);
}

/* Does what is due in this phase and state, because something has happened that is no trigger. */
static void step_locked(struct ep *ep)
{
	assert_locked(&ep->obj.ia->lock);
	if (is_ending_locked(ep)) {
		step_draining_locked(ep);
		return;
	}
	if (ep_has_datagrams(ep)) {
		datagram_step_locked(ep);
		return;
	}
	switch (ep_state(ep)) {
	case DAT_EP_STATE_CONNECTED:
		step_connected_locked(ep);
		break;
	case DAT_EP_STATE_DISCONNECT_PENDING:
		step_lingering_locked(ep);
		break;
	case DAT_EP_STATE_DISCONNECTED:
		step_disconnected_locked(ep);
		break;
	default:
		break; /* a failure before ESTABLISHED is handled right after it */
	}
}

void ep_work_locked(struct work *work)
{
	step_locked(container_of(work, struct ep, work));
}

void ep_quiesce_locked(struct ep *ep)
{
	struct ia *ia = ep->obj.ia;

	assert_locked(&ep->obj.ia->lock);
	timer_cancel_locked(ia, &ep->timer);
	service_cancel_work_locked(ia, &ep->work);
	release_conn_locked(ep);
	datagram_quiesce_locked(ep);
	unreserve_events_locked(ep);
	set_reporting_locked(ep, false);
	ep->end.phase = PHASE_NONE;
	set_state_locked(ep, DAT_EP_STATE_UNCONNECTED); /* where step_locked does nothing */
}

/* ---- upcalls of the transport ---- */

/* Returns how many bytes of private data an answer to a request can have. */
static size_t max_answer_pdata(const struct ia *ia)
{
	return max_u64(ia->attr->max_reply_pdata, ia->attr->max_reject_pdata);
}

/*
 * Returns what the connection leaves of the RDMA reads that were asked for. A number that the
 * consumer gave stays, unless there can be none at all.
 */
static DAT_COUNT reads_agreed(bool given, DAT_COUNT asked, unsigned agreed)
{
	return given && agreed ? asked : (DAT_COUNT)min_u64((unsigned)asked, agreed);
}

/*
 * Stores an address that consumers have a pointer to, and read at any time: it is written only if
 * it changes.
 */
static void update_address(struct sockaddr_storage *known, const struct sockaddr_storage *now)
{
	if (now->ss_family != AF_UNSPEC && memcmp(known, now, sizeof(*now)) != 0)
		*known = *now;
}

static void update_addresses_locked(struct ep *ep, const struct tp_conn *conn)
{
	struct sockaddr_storage local, remote;

	assert_locked(&ep->obj.ia->lock);
	tp_conn_addr(conn, &local, &remote);
	update_address(&ep->local, &local);
	update_address(&ep->remote, &remote);
}

void ep_request_locked(struct ep *ep, const struct tp_conn *conn)
{
	assert_locked(&ep->obj.ia->lock);
	update_addresses_locked(ep, conn);
	ep_trigger_locked(ep, ON_REQUEST);
}

/* On the active side there is memory for it from the connect on. */
static void private_data_keep_locked(struct ep *ep, const void *data, unsigned size)
{
	assert_locked(&ep->obj.ia->lock);
	size = (unsigned)min_u64(size, max_answer_pdata(ep->obj.ia));
	if (!size || !ep->private_data)
		return;
	memcpy(ep->private_data, data, size);
	ep->private_data_size = (DAT_COUNT)size;
}

void up_established(struct ep *ep, const struct tp_established *established)
{
	timer_cancel_locked(ep->obj.ia, &ep->timer);
	update_addresses_locked(ep, ep->conn);
	ep->attr.max_rdma_read_in = reads_agreed(ep->read_in_given, ep->read_in,
						 established->max_read_in);
	ep->attr.max_rdma_read_out = reads_agreed(ep->read_out_given, ep->read_out,
						  established->max_read_out);
	if (established->private_data)
		private_data_keep_locked(ep, established->private_data,
					 established->private_data_size);
	ep_trigger_locked(ep, ON_ESTABLISHED);
	post_connection_event_locked(ep, DAT_CONNECTION_EVENT_ESTABLISHED);
	step_locked(ep);
}

void up_reject_data(struct ep *ep, const void *private_data, unsigned size)
{
	private_data_keep_locked(ep, private_data, size);
}

void up_failed(struct ep *ep, enum tp_cause cause)
{
	static const enum trigger triggers[] = {
		[TP_PEER_REJECTED] = ON_PEER_REJECTED,
		[TP_NON_PEER_REJECTED] = ON_NON_PEER_REJECTED,
		[TP_UNREACHABLE] = ON_UNREACHABLE,
		[TP_LOCAL_ERROR] = ON_FAULT,
	};

	ep_trigger_locked(ep, triggers[cause]);
}

/* If a transfer has failed, that is why the peer has disconnected. */
void up_disconnected(struct ep *ep)
{
	take_completions(ep);
	ep->end.by_peer = !is_ending_locked(ep);
	if (ep->end.by_peer)
		ia_counts(ep->obj.ia, IA_CM_DREQ_RX);
	ep_trigger_locked(ep, atomic_load(&ep->seen.failed) ? ON_FAULT : ON_PEER_GONE);
}

void ep_break_locked(struct ep *ep)
{
	assert_locked(&ep->obj.ia->lock);
	ep_trigger_locked(ep, ON_FAULT);
}

void ep_qp_broken_locked(struct ep *ep)
{
	assert_locked(&ep->obj.ia->lock);
	if (is_ending_locked(ep) || ep_state(ep) == DAT_EP_STATE_DISCONNECTED)
		return; /* we put it into error ourselves */
	tell_broken_locked(ep);
	ep->broken_told = true;
	ep_break_locked(ep);
}

/* dat_ep_modify makes queue pairs that are not, or no longer, that of the endpoint. */
static bool has_qp_locked(const struct ep *ep, const struct tp_qp *qp)
{
	assert_locked(&ep->obj.ia->lock);
	return !ep->renews_qp && ep->qp == qp;
}

void up_qp_broken(struct ep *ep, const struct tp_qp *qp)
{
	if (!obj_is(ep, DAT_HANDLE_TYPE_EP))
		return; /* it is being freed, and its handle is no longer the consumer's */
	if (has_qp_locked(ep, qp))
		ep_qp_broken_locked(ep);
}

/* The completions of those receives are in the queue, and step_locked takes them. */
void up_qp_last_receive(struct ep *ep, const struct tp_qp *qp)
{
	ep->obj.ia->says_last_receive = true;
	if (!has_qp_locked(ep, qp))
		return;
	ep->last_receive = true;
	if (is_ending_locked(ep))
		step_locked(ep);
}

/* ---- connect, accept, disconnect ---- */

/*
 * Begins a connection with the move of @trigger. It reserves room for all events to come, so that
 * none of them can fail.
 */
static DAT_RETURN start_connection_locked(struct ep *ep, enum trigger trigger)
{
	DAT_RETURN ret = ep_may(ep, trigger);

	assert_locked(&ep->obj.ia->lock);
	if (ret != DAT_SUCCESS)
		return ret;
	if (!ep->qp || !ep->connect_evd)
		return BAD_STATE(EP_NOTREADY);
	ret = status_of(evd_reserve(ep->connect_evd, EVENTS_PER_CONNECTION), DAT_RESOURCE_MEMORY);
	if (ret != DAT_SUCCESS)
		return ret;
	ep->events_reserved = EVENTS_PER_CONNECTION;
	ep->end.by_peer = false;
	ep->broken_told = false;
	atomic_store(&ep->accepted, false);
	atomic_store(&ep->end.asked, false);
	atomic_store(&ep->seen.failed, false);
	atomic_store(&ep->seen.flushed, false);
	/* before the transport is called: its upcall may come before that call returns */
	ep_trigger_locked(ep, trigger);
	return DAT_SUCCESS;
}

/* Undoes start_connection_locked, because the transport has refused the call. */
static void undo_start_locked(struct ep *ep, DAT_EP_STATE before)
{
	assert_locked(&ep->obj.ia->lock);
	set_state_locked(ep, before);
	unreserve_events_locked(ep);
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

/*
 * Copies a consumer's address, with the port of @qual in place of its own. Refuses addresses that
 * are of no host.
 */
static DAT_RETURN copy_remote_address(const struct sockaddr *from, DAT_CONN_QUAL qual,
				      struct sockaddr_storage *to)
{
	struct sockaddr_in *in = (struct sockaddr_in *)to;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;
	bool host;

	memset(to, 0, sizeof(*to));
	switch (from->sa_family) {
	case AF_UNSPEC: /* OFED's providers never read the family, so programs leave it out */
		log_cm("connect: address without a family, taken for IPv4");
		/* fall through */
	case AF_INET:
		memcpy(in, from, sizeof(*in));
		in->sin_family = AF_INET;
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

/* The arguments of dat_ep_connect, but for the endpoint. */
struct connect_args {
	DAT_IA_ADDRESS_PTR remote;
	DAT_CONN_QUAL qual;
	DAT_TIMEOUT timeout; /* us */
	DAT_COUNT private_data_size;
	const void *private_data;
	DAT_QOS qos;
	DAT_CONNECT_FLAGS flags;
};

/* Returns the status that names argument @n of a call, counted from 1. */
static DAT_RETURN bad_arg(unsigned n)
{
	return DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1 + n - 1);
}

/* There is one path. DAT 1.2 knows only to demand more; who requests more in DAT 2.0 gets one. */
#if DAT_EDITION == 2
#define REFUSED_CONNECT_FLAG (unsigned)DAT_CONNECT_MULTIPATH_REQUIRED_FLAG
#else
#define REFUSED_CONNECT_FLAG (unsigned)DAT_CONNECT_MULTIPATH_FLAG
#endif
#define KNOWN_CONNECT_FLAGS ((unsigned)DAT_CONNECT_MULTIPATH_FLAG | REFUSED_CONNECT_FLAG)

/*
 * Checks the arguments that both connect calls have. @at is the position of the time-out in the
 * call; size and private data follow it.
 */
static DAT_RETURN connect_refused(const struct ia *ia, const struct connect_args *args, unsigned at)
{
	if (!args->remote)
		return BAD_ARG(2);
	if (args->private_data_size > 0 && !args->private_data)
		return bad_arg(at + 2);
	if (!args->qual)
		return BAD_ARG(3);
	if (!args->timeout)
		return bad_arg(at);
	if (args->private_data_size < 0 ||
	    (unsigned)args->private_data_size > ia->attr->max_request_pdata)
		return bad_arg(at + 1);
	if (args->flags & ~KNOWN_CONNECT_FLAGS)
		return BAD_ARG(8);
	if (args->qos != DAT_QOS_BEST_EFFORT || args->flags & REFUSED_CONNECT_FLAG)
		return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	return DAT_SUCCESS;
}

/*
 * Connects to @remote. The caller has checked the arguments, and attends to the device, because
 * events of a local connection come at once.
 */
static DAT_RETURN connect_locked(struct ep *ep, const struct connect_args *args,
				 const struct sockaddr_storage *remote)
{
	const struct tp_cm_param param = {
		.private_data = args->private_data,
		.private_data_size = (unsigned)args->private_data_size,
		.max_read_in = (unsigned)ep->read_in,
		.max_read_out = (unsigned)ep->read_out,
	};
	struct ia *ia = ep->obj.ia;
	uint64_t deadline = deadline_of(args->timeout);
	DAT_RETURN ret;
	int err;

	assert_locked(&ep->obj.ia->lock);
	if (ep_has_datagrams(ep))
		return datagram_connect_locked(ep, remote, deadline, &param);
	ret = start_connection_locked(ep, ON_CONNECT);
	if (ret != DAT_SUCCESS)
		return ret;
	if (!ep->private_data)
		ep->private_data = malloc(max_answer_pdata(ia) + 1); /* malloc(0) may be NULL */
	if (!ep->private_data) {
		ret = NO_RESOURCE(MEMORY);
		goto undo;
	}
	err = tp_connect(ia->dev, (const struct sockaddr *)remote, port_of_qual(args->qual), ep->qp,
			 ep, &param, &ep->conn);
	(void)log_descriptor_shortage("dat_ep_connect", err);
	ret = status_of(err, DAT_RESOURCE_TEP);
	if (ret != DAT_SUCCESS)
		goto undo;
	ep->remote = *remote;
	update_addresses_locked(ep, ep->conn);
	ep->target = (struct ep_target){ *remote, args->qual, args->flags };
	ia_counts(ia, IA_CM_REQ_TX);
	ep_counts(ep, EP_CONNECT);
	if (deadline != TP_NEVER)
		timer_set_locked(ia, &ep->timer, deadline, timer_expired_locked);
	return DAT_SUCCESS;
undo:
	undo_start_locked(ep, DAT_EP_STATE_UNCONNECTED);
	return ret;
}

DAT_RETURN ep_connect(DAT_EP_HANDLE handle, DAT_IA_ADDRESS_PTR remote, DAT_CONN_QUAL qual,
		      DAT_TIMEOUT timeout, DAT_COUNT private_data_size,
		      const DAT_PVOID private_data, DAT_QOS qos, DAT_CONNECT_FLAGS flags)
{
	CANCEL_FORBIDDEN;
	const struct connect_args args = {
		.remote = remote,
		.qual = qual,
		.timeout = timeout,
		.private_data_size = private_data_size,
		.private_data = private_data,
		.qos = qos,
		.flags = flags,
	};
	struct sockaddr_storage address;
	struct ep *ep = handle;
	struct ia *ia;
	DAT_RETURN ret;

	if (!obj_valid(NULL, ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	if (!ep->connect_evd)
		return BAD_HANDLE(EVD_CONN);
	ia = ep->obj.ia;
	ret = connect_refused(ia, &args, 4);
	if (ret != DAT_SUCCESS)
		return ret;
	ret = copy_remote_address(remote, qual, &address);
	if (ret != DAT_SUCCESS)
		return ret;
	if (!obj_lock_ia(ia, ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	attend_call_begin_locked(ia);
	ret = connect_locked(ep, &args, &address);
	attend_call_end_locked(ia);
	mutex_unlock(&ia->lock);
	return ret;
}

/*
 * Reads the target of the connection of @other. One that was accepted has none, because its peer
 * does not listen.
 */
static DAT_RETURN target_get_locked(const struct ep *other, struct ep_target *target)
{
	DAT_EP_STATE state = (DAT_EP_STATE)ep_state(other);

	assert_locked(&other->obj.ia->lock);
	if (!obj_valid(NULL, (DAT_HANDLE)(uintptr_t)other, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP); /* it has just been freed */
	if (state != DAT_EP_STATE_CONNECTED || !other->target.qual)
		return status_of_ep_state(state);
	*target = other->target;
	return DAT_SUCCESS;
}

DAT_RETURN ep_dup_connect(DAT_EP_HANDLE handle, DAT_EP_HANDLE other_handle, DAT_TIMEOUT timeout,
			  DAT_COUNT private_data_size, const DAT_PVOID private_data, DAT_QOS qos)
{
	CANCEL_FORBIDDEN;
	struct ep_target target = { 0 };
	struct connect_args args = {
		.remote = (DAT_IA_ADDRESS_PTR)&target.remote,
		.qual = 1, /* until the target is known */
		.timeout = timeout,
		.private_data_size = private_data_size,
		.private_data = private_data,
		.qos = qos,
	};
	struct ep *ep = handle, *other = other_handle;
	struct ia *ia;
	DAT_RETURN ret;

	if (!obj_valid(NULL, ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	ia = ep->obj.ia;
	if (!obj_valid(ia, other, DAT_HANDLE_TYPE_EP) || ep_has_datagrams(ep))
		return BAD_HANDLE(EP);
	if (!ep->connect_evd)
		return BAD_HANDLE(EVD_CONN);
	ret = connect_refused(ia, &args, 3);
	if (ret != DAT_SUCCESS)
		return ret;
	if (!obj_lock_ia(ia, ep, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	attend_call_begin_locked(ia);
	ret = ep_may(ep, ON_CONNECT);
	if (ret == DAT_SUCCESS)
		ret = target_get_locked(other, &target);
	args.qual = target.qual;
	args.flags = target.flags;
	if (ret == DAT_SUCCESS)
		ret = connect_locked(ep, &args, &target.remote);
	attend_call_end_locked(ia);
	mutex_unlock(&ia->lock);
	return ret;
}

DAT_RETURN ep_accept_locked(struct ep *ep, const struct ep_request *request, bool own,
			    const void *private_data, unsigned size)
{
	const struct tp_cm_param param = {
		.private_data = private_data,
		.private_data_size = size,
		.max_read_in = min_u64((unsigned)ep->read_in, request->max_read_out),
		.max_read_out = min_u64((unsigned)ep->read_out, request->max_read_in),
	};
	const DAT_EP_STATE before = (DAT_EP_STATE)ep_state(ep);
	DAT_RETURN ret;

	assert_locked(&ep->obj.ia->lock);
	if (ep_has_datagrams(ep) != request->datagrams)
		return BAD_HANDLE(EP);
	if (ep_has_datagrams(ep))
		return datagram_accept_locked(ep, request->conn, &param);
	ret = start_connection_locked(ep, own ? ON_ACCEPT_OWN : ON_ACCEPT);
	if (ret != DAT_SUCCESS)
		return ret;
	ret = status_of(tp_accept(request->conn, ep->qp, ep, &param), DAT_RESOURCE_TEP);
	if (ret != DAT_SUCCESS) {
		undo_start_locked(ep, before);
		return ret;
	}
	ep->conn = request->conn;
	ep->target = (struct ep_target){ 0 };
	update_addresses_locked(ep, ep->conn);
	if (!param.max_read_out)
		ep->attr.max_rdma_read_out = 0; /* early reads, too, would break the connection */
	atomic_store(&ep->accepted, true);
	ep_set_gates(ep);
	return DAT_SUCCESS;
}

DAT_RETURN ep_disconnect(DAT_EP_HANDLE handle, DAT_CLOSE_FLAGS flags)
{
	CANCEL_FORBIDDEN;
	enum trigger trigger = flags & DAT_CLOSE_GRACEFUL_FLAG ? ON_GRACEFUL : ON_ABRUPT;
	DAT_RETURN ret = ep_lock_for(handle, trigger);
	struct ep *ep = handle;
	struct ia *ia;

	if (ret != DAT_SUCCESS)
		return ret;
	ia = ep->obj.ia;
	attend_call_begin_locked(ia);
	ep_counts(ep, EP_DISCONNECT);
	if (ep_state(ep) == DAT_EP_STATE_CONNECTED)
		ia_counts(ia, IA_CM_DREQ_TX);
	atomic_store(&ep->end.asked, true);
	ep_trigger_locked(ep, trigger);
	attend_call_end_locked(ia);
	mutex_unlock(&ia->lock);
	return DAT_SUCCESS;
}
