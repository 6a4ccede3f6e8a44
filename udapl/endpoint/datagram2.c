/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints of datagrams, an extension of DAT 2.0: the peers that they know. extended.c has the
 * sends to one.
 *
 * Such an endpoint has no connection, and stays UNCONNECTED; its queue pair takes receives and
 * sends from the beginning. dat_ep_connect and dat_cr_accept begin an exchange with one peer, which
 * brings an address handle. Both are a struct peer here, an object of which the consumer has the
 * address twice: as the context of the events, which dat_ib_ud_cm_free gives up, and as the address
 * handle, which dat_ib_ud_ah_free does. What the consumer does not give up goes with the endpoint.
 *
 * ia->lock guards all of a peer, but the address handle of one that is posted to: the consumer
 * frees none that a thread posts to.
 */
#include <stdlib.h>
#include <string.h>

#include <dat2/dat_ib_extensions.h>

#include "base/sockaddr.h"
#include "datagram.h"

/* ---- peers ---- */

static void link_locked(struct peer *peer)
{
	struct ep *ep = peer->ep;

	assert_locked(&ep->obj.ia->lock);
	peer->next = ep->peers;
	if (peer->next)
		peer->next->back = &peer->next;
	peer->back = &ep->peers;
	ep->peers = peer;
}

static struct peer *peer_new_locked(struct ep *ep, const struct sockaddr_storage *remote)
{
	struct ia *ia = ep->obj.ia;
	struct peer *peer = obj_alloc(ia, ia->obj.table, PEER_KIND);

	assert_locked(&ia->lock);
	if (!peer)
		return NULL;
	peer->ep = ep;
	memcpy(&peer->remote, remote, sizeof(peer->remote));
	link_locked(peer);
	return peer;
}

/* Ends the exchange, if it is not over: no event follows. */
static void exchange_end_locked(struct peer *peer)
{
	struct ia *ia = peer->obj.ia;

	assert_locked(&ia->lock);
	timer_cancel_locked(ia, &peer->timer);
	if (peer->conn)
		tp_release(peer->conn);
	peer->conn = NULL;
	if (peer->event_reserved)
		evd_unreserve(peer->ep->connect_evd, 1);
	peer->event_reserved = false;
}

static void peer_free_locked(struct peer *peer)
{
	assert_locked(&peer->obj.ia->lock);
	exchange_end_locked(peer);
	*peer->back = peer->next;
	if (peer->next)
		peer->next->back = peer->back;
	obj_retire_forced(&peer->obj);
	if (peer->ah)
		tp_ah_destroy(peer->ah);
	free(peer->private_data);
	obj_free_as(&peer->obj, PEER_KIND);
}

void datagram_quiesce_locked(struct ep *ep)
{
	assert_locked(&ep->obj.ia->lock);
	for (struct peer *peer = ep->peers; peer; peer = peer->next)
		exchange_end_locked(peer);
}

void datagram_discard_locked(struct ep *ep)
{
	assert_locked(&ep->obj.ia->lock);
	while (ep->peers)
		peer_free_locked(ep->peers);
}

/* ---- events ---- */

static DAT_IB_ADDR_HANDLE address_handle(struct peer *peer)
{
	return (DAT_IB_ADDR_HANDLE){
		.ah = peer->ah ? (struct ibv_ah *)&peer->obj : NULL,
		.qpn = peer->ah ? tp_ah_number(peer->ah) : 0,
		.ia_addr = peer->remote,
	};
}

/* Tells how the exchange has ended, in the slot that was reserved for that. */
static void tell_locked(struct peer *peer, DAT_IB_EVENT_NUMBER number, DAT_IB_EXT_TYPE type)
{
	DAT_EVENT event = {
		.event_number = (DAT_EVENT_NUMBER)number,
		.event_data.connect_event_data = {
			.ep_handle = peer->ep,
			.private_data_size = peer->private_data_size,
			.private_data = peer->private_data,
		},
	};
	DAT_IB_EXTENSION_EVENT_DATA *ext = (void *)event.event_extension_data;

	assert_locked(&peer->obj.ia->lock);
	ext->type = type;
	ext->status = peer->ah ? DAT_OP_SUCCESS : DAT_IB_OP_ERR;
	ext->remote_ah = address_handle(peer);
	ext->context.as_ptr = peer;
	log_cm("EP %p, peer %p: event %#x", (void *)peer->ep, (void *)peer, (unsigned)number);
	if (peer->ah)
		ia_counts(peer->obj.ia, IA_CM_AH_RESOLVED);
	peer->event_reserved = false;
	evd_post_reserved(peer->ep->connect_evd, &event);
}

static void private_data_keep(struct peer *peer, const void *data, unsigned size)
{
	if (!size)
		return;
	peer->private_data = malloc(size);
	if (!peer->private_data)
		return; /* the way to the peer is worth more */
	memcpy(peer->private_data, data, size);
	peer->private_data_size = (DAT_COUNT)size;
}

/* The exchange is over: the transport needs nothing of it any more. */
static void exchange_over_locked(struct peer *peer)
{
	assert_locked(&peer->obj.ia->lock);
	timer_cancel_locked(peer->obj.ia, &peer->timer);
	tp_release(peer->conn);
	peer->conn = NULL;
}

void up_peer_found(struct peer *peer, struct tp_ah *ah, const void *private_data, unsigned size)
{
	peer->ah = ah;
	private_data_keep(peer, private_data, size);
	exchange_over_locked(peer);
	tell_locked(peer, DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED,
		    peer->active ? DAT_IB_UD_REMOTE_AH : DAT_IB_UD_PASSIVE_REMOTE_AH);
}

void up_peer_failed(struct peer *peer, enum tp_cause cause, const void *private_data, unsigned size)
{
	private_data_keep(peer, private_data, size);
	exchange_over_locked(peer);
	if (cause == TP_PEER_REJECTED)
		tell_locked(peer, DAT_IB_UD_CONNECTION_REJECT_EVENT, DAT_IB_UD_CONNECT_REJECT);
	else
		tell_locked(peer, DAT_IB_UD_CONNECTION_ERROR_EVENT, DAT_IB_UD_CONNECT_ERROR);
}

static void timed_out_locked(struct timer *timer)
{
	struct peer *peer = container_of(timer, struct peer, timer);

	assert_locked(&peer->obj.ia->lock);
	up_peer_failed(peer, TP_UNREACHABLE, NULL, 0);
}

/* ---- connect and accept ---- */

/* Makes a peer whose exchange can begin: there is room for its one event. */
static DAT_RETURN exchange_prepare_locked(struct ep *ep, const struct sockaddr_storage *remote,
					  struct peer **out)
{
	struct peer *peer;

	assert_locked(&ep->obj.ia->lock);
	if (!ep->qp || !ep->connect_evd)
		return BAD_STATE(EP_NOTREADY);
	peer = peer_new_locked(ep, remote);
	if (!peer)
		return NO_RESOURCE(MEMORY);
	if (evd_reserve(ep->connect_evd, 1)) {
		peer_free_locked(peer);
		return NO_RESOURCE(MEMORY);
	}
	peer->event_reserved = true;
	peer->has_context = true;
	*out = peer;
	return DAT_SUCCESS;
}

/* Ends it with the result of the transport. */
static DAT_RETURN exchange_begin_locked(struct peer *peer, int err)
{
	assert_locked(&peer->obj.ia->lock);
	if (err) {
		peer_free_locked(peer);
		return status_of(err, DAT_RESOURCE_TEP);
	}
	obj_publish(&peer->obj);
	return DAT_SUCCESS;
}

DAT_RETURN datagram_connect_locked(struct ep *ep, const struct sockaddr_storage *remote,
				   uint64_t deadline, const struct tp_cm_param *param)
{
	struct ia *ia = ep->obj.ia;
	struct peer *peer;
	DAT_RETURN ret;
	int err;

	assert_locked(&ia->lock);
	ret = exchange_prepare_locked(ep, remote, &peer);
	if (ret != DAT_SUCCESS)
		return ret;
	peer->active = true;
	err = tp_datagram_connect(ia->dev, (const struct sockaddr *)remote, sockaddr_port(remote),
				  ep->qp, peer, param, &peer->conn);
	(void)log_descriptor_shortage("dat_ep_connect", err);
	ret = exchange_begin_locked(peer, err);
	if (ret == DAT_SUCCESS) {
		ia_counts(ia, IA_CM_AH_REQ_TX);
		ep_counts(ep, EP_CONNECT);
	}
	if (ret == DAT_SUCCESS && deadline != TP_NEVER)
		timer_set_locked(ia, &peer->timer, deadline, timed_out_locked);
	return ret;
}

DAT_RETURN datagram_accept_locked(struct ep *ep, struct tp_conn *conn,
				  const struct tp_cm_param *param)
{
	struct sockaddr_storage local, remote;
	struct peer *peer;
	DAT_RETURN ret;

	assert_locked(&ep->obj.ia->lock);
	tp_conn_addr(conn, &local, &remote);
	ret = exchange_prepare_locked(ep, &remote, &peer);
	if (ret != DAT_SUCCESS)
		return ret;
	ret = exchange_begin_locked(peer, tp_datagram_accept(conn, ep->qp, peer, param));
	if (ret == DAT_SUCCESS)
		peer->conn = conn;
	return ret;
}

/* ---- what the consumer gives up ---- */

/* Returns the peer that a consumer's word names: one of @ep, or NULL. Any value is safe. */
static struct peer *peer_of(struct ep *ep, const void *word)
{
	struct peer *peer = (struct peer *)(uintptr_t)word;

	return obj_valid(ep->obj.ia, peer, PEER_KIND) && peer->ep == ep ? peer : NULL;
}

static DAT_RETURN give_up_context_locked(struct ep *ep, const void *context)
{
	struct peer *peer = peer_of(ep, context);

	assert_locked(&ep->obj.ia->lock);
	if (!peer || !peer->has_context)
		return BAD_ARG(2);
	exchange_end_locked(peer);
	peer->has_context = false;
	free(peer->private_data);
	peer->private_data = NULL;
	if (!peer->ah)
		peer_free_locked(peer);
	return DAT_SUCCESS;
}

static DAT_RETURN give_up_ah_locked(struct ep *ep, const void *ah)
{
	struct peer *peer = peer_of(ep, ah);

	assert_locked(&ep->obj.ia->lock);
	if (!peer || !peer->ah)
		return BAD_ARG(2);
	tp_ah_destroy(peer->ah);
	peer->ah = NULL;
	if (!peer->has_context)
		peer_free_locked(peer);
	return DAT_SUCCESS;
}

DAT_RETURN ep_datagrams_judge(DAT_EP_HANDLE handle)
{
	const struct ep *ep = handle;

	if (!obj_valid(NULL, handle, DAT_HANDLE_TYPE_EP))
		return BAD_HANDLE(EP);
	if (!ep->obj.ia->attr->max_datagram)
		return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	return ep->datagrams ? DAT_SUCCESS : BAD_HANDLE(EP);
}

DAT_RETURN ep_free_context(DAT_EP_HANDLE handle, DAT_CONTEXT context)
{
	CANCEL_FORBIDDEN;
	DAT_RETURN ret = ep_datagrams_judge(handle);
	struct ep *ep = handle;

	if (ret != DAT_SUCCESS)
		return ret;
	mutex_lock(&ep->obj.ia->lock);
	ret = give_up_context_locked(ep, context.as_ptr);
	mutex_unlock(&ep->obj.ia->lock);
	return ret;
}

DAT_RETURN ep_free_ah(DAT_EP_HANDLE handle, const DAT_IB_ADDR_HANDLE *ah)
{
	CANCEL_FORBIDDEN;
	DAT_RETURN ret = ep_datagrams_judge(handle);
	struct ep *ep = handle;

	if (ret != DAT_SUCCESS)
		return ret;
	if (!ah)
		return BAD_ARG(2);
	mutex_lock(&ep->obj.ia->lock);
	ret = give_up_ah_locked(ep, ah->ah);
	mutex_unlock(&ep->obj.ia->lock);
	return ret;
}

/* ---- failures ---- */

/*
 * After a send that has failed the device stops the sends of the queue pair, and flushes them. When
 * the last one has completed they go on: until then what is posted is flushed, too. A failed
 * receive stops nothing, or all; then the queue pair is in error, and the consumer is told so once.
 */
void datagram_step_locked(struct ep *ep)
{
	assert_locked(&ep->obj.ia->lock);
	if (!atomic_load(&ep->seen.failed) && !atomic_load(&ep->seen.flushed))
		return;
	if (ring_used(&ep->sends))
		return; /* the completion of the last one brings us here again */
	atomic_store(&ep->seen.failed, false);
	atomic_store(&ep->seen.flushed, false);
	if (!tp_datagram_resume(ep->qp) || ep->broken_told)
		return;
	ep->broken_told = true;
	async_error_post_locked(ep->obj.ia, DAT_ASYNC_ERROR_EP_BROKEN, ep,
				DAT_EP_TRANSFER_TO_ERROR);
}
