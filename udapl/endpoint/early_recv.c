/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Early receives: those that are posted before a connection is begun. A copy of each is kept, so
 * that dat_ep_modify can post them to another queue pair.
 */
#include <stdlib.h>
#include <string.h>

#include "ep.h"

struct early_recv {
	DAT_DTO_COOKIE cookie;
	DAT_COMPLETION_FLAGS flags;
	unsigned nsge;
	struct tp_sge sges[];
};

static size_t early_recv_size(unsigned nsge)
{
	return sizeof(struct early_recv) + nsge * sizeof(struct tp_sge);
}

bool ep_has_been_connected(const struct ep *ep)
{
	switch (ep_state(ep)) {
	case DAT_EP_STATE_CONNECTED:
	case DAT_EP_STATE_DISCONNECT_PENDING:
	case DAT_EP_STATE_DISCONNECTED:
		return true;
	default:
		return ep_takes_early_requests(ep);
	}
}

static bool records_make(struct ep *ep)
{
	const size_t most = early_recv_size((unsigned)ep->attr.max_recv_iov);

	ep->early.records = malloc(ep->recvs.limit * most + 1); /* malloc(0) may be NULL */
	return ep->early.records;
}

bool ep_room_to_remember(struct ep *ep)
{
	assert_locked(&ep->recv_lock);
	return ep->early.records || ep_has_been_connected(ep) || records_make(ep);
}

void early_recvs_free(struct ep *ep)
{
	spin_lock(&ep->recv_lock);
	free(ep->early.records);
	ep->early = (struct early_recvs){ 0 };
	spin_unlock(&ep->recv_lock);
}

static const struct early_recv *early_recv_after(const struct early_recv *recv)
{
	return (const struct early_recv *)((const char *)recv + early_recv_size(recv->nsge));
}

/*
 * If the queue pair fails, receives are flushed, the oldest ones first; those that the consumer has
 * back are not to be posted again.
 */
static void early_recvs_drop_flushed(struct ep *ep)
{
	struct early_recvs *early = &ep->early;
	const struct early_recv *kept = (const struct early_recv *)early->records;
	const unsigned used = ring_used(&ep->recvs);

	assert_locked(&ep->recv_lock);
	for (; early->count > used; early->count--)
		kept = early_recv_after(kept);
	early->size -= (size_t)((const char *)kept - early->records);
	if (early->size)
		memmove(early->records, kept, early->size);
}

/* Adds a record of a receive whose segments are those of the ring. There is room. */
static void record_add(struct ep *ep, unsigned nsge, DAT_DTO_COOKIE cookie,
		       DAT_COMPLETION_FLAGS flags)
{
	struct early_recvs *early = &ep->early;
	struct early_recv *recv = (struct early_recv *)(early->records + early->size);

	recv->cookie = cookie;
	recv->flags = flags;
	recv->nsge = nsge;
	memcpy(recv->sges, ep->recvs.sges, nsge * sizeof(*recv->sges));
	early->size += early_recv_size(nsge);
	early->count++;
}

/*
 * While a connection is begun receives may complete, and be posted again, before the state tells
 * it. Then the endpoint can't be modified any more, and what is beyond the limit need not be
 * remembered.
 */
void ep_remember_recv(struct ep *ep, unsigned nsge, DAT_DTO_COOKIE cookie,
		      DAT_COMPLETION_FLAGS flags)
{
	const struct early_recvs *early = &ep->early;

	assert_locked(&ep->recv_lock);
	if (!early->records || ep_has_been_connected(ep))
		return;
	if (early->count >= ep->recvs.limit)
		early_recvs_drop_flushed(ep);
	if (early->count < ep->recvs.limit)
		record_add(ep, nsge, cookie, flags);
}

bool early_recvs_fit_locked(struct ep *ep, const DAT_EP_ATTR *attr)
{
	const struct early_recv *recv = (const struct early_recv *)ep->early.records;

	assert_locked(&ep->recv_lock);
	early_recvs_drop_flushed(ep);
	if (ep->early.count > (unsigned)attr->max_recv_dtos)
		return false;
	for (unsigned i = 0; i < ep->early.count; i++, recv = early_recv_after(recv))
		if (recv->nsge > (unsigned)attr->max_recv_iov)
			return false;
	return true;
}

/* Posts one receive to @next. Without a zone there is no queue pair, and it waits in the ring. */
static DAT_RETURN recv_repeat(struct ep *next, const struct early_recv *recv)
{
	struct req *req = ring_next(&next->recvs);
	int err = 0;

	memcpy(next->recvs.sges, recv->sges, recv->nsge * sizeof(*recv->sges));
	record_add(next, recv->nsge, recv->cookie, recv->flags);
	req->cookie = recv->cookie;
	req_set_kind(req, REQ_RECV, recv->flags);
	ring_push(&next->recvs, req);
	if (next->qp)
		err = tp_post_recv(next->qp, req, next->recvs.sges, recv->nsge);
	return err ? status_of(tp_post_error(err), DAT_RESOURCE_MEMORY) : DAT_SUCCESS;
}

DAT_RETURN early_recvs_repeat_locked(const struct ep *ep, struct ep *next)
{
	const struct early_recv *recv = (const struct early_recv *)ep->early.records;
	DAT_RETURN ret = DAT_SUCCESS;

	assert_locked(&ep->recv_lock);
	if (ep->early.count && !records_make(next))
		return NO_RESOURCE(MEMORY);
	for (unsigned i = 0; i < ep->early.count && ret == DAT_SUCCESS; i++) {
		ret = recv_repeat(next, recv);
		recv = early_recv_after(recv);
	}
	return ret;
}
