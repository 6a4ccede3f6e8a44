/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the service thread handles for connections, and the lists where it waits for that.
 *
 *  - Events of librdmacm, read from its event channel. An event is acknowledged as soon as it is
 *    read; cm_event_handle gets a copy. So an identifier can be destroyed at any time.
 *  - Pending events: read by a consumer's call that needs the channel to be empty.
 *  - CM results: return values of rdma_connect on a helper thread (iwarp.c), and failures of
 *    tp_accept.
 *
 * The last two are announced by up_wake.
 */
#include <stdlib.h>
#include <string.h>

#include "cm.h"

#define EVENT_BATCH 16 /* events handled at once; then other threads can take ia->lock */

/* ---- events in log lines ---- */

/* The reasons of InfiniBand for a rejection that occur. */
static const char *const reject_reasons[] = {
	[1] = "no QP",
	[3] = "no resources",
	[4] = "time-out",
	[5] = "unsupported request",
	[6] = "invalid communication ID",
	[8] = "invalid service ID: no listener",
	[CM_REJECT_STALE] = "stale connection",
	[12] = "invalid GID",
	[26] = "invalid path MTU",
	[27] = "insufficient responder resources",
	[CM_REJECT_CONSUMER_DEFINED] = "consumer defined",
};

/* The status of an event is 0, a negative errno, or InfiniBand's reason for a rejection. */
static const char *event_status_text(const struct cm_event *event)
{
	const char *reason = NULL;

	if (event->status <= 0)
		return strerror(-event->status);
	if (event->type == RDMA_CM_EVENT_REJECTED &&
	    (unsigned)event->status < ARRAY_SIZE(reject_reasons))
		reason = reject_reasons[event->status];
	return reason ? reason : "other reason";
}

/* ---- the channel, and pending events ---- */

static void private_data_read(struct cm_event *event, const void *data, unsigned size)
{
	if (!data || !size)
		return;
	memcpy(event->private_data, data, size);
	event->private_data_size = size;
}

static void connection_read(struct cm_event *event, const struct rdma_conn_param *conn)
{
	event->peer_in = conn->initiator_depth;
	event->peer_out = conn->responder_resources;
	private_data_read(event, conn->private_data, conn->private_data_len);
}

static void datagram_read(struct cm_event *event, const struct rdma_ud_param *ud)
{
	event->path = ud->ah_attr;
	event->qp_num = ud->qp_num;
	event->qkey = ud->qkey;
	private_data_read(event, ud->private_data, ud->private_data_len);
}

/* Takes an event off the channel, and acknowledges it. Returns false if there is none. */
static bool event_read(struct tp_dev *dev, struct cm_event *event)
{
	struct rdma_cm_event *got;

	if (LIBRDMACM(rdma_get_cm_event(dev->cm, &got)))
		return false;
	*event = (struct cm_event){
		.id = got->id,
		.listen_id = got->listen_id,
		.type = got->event,
		.status = got->status,
	};
	if (got->id->ps == RDMA_PS_UDP)
		datagram_read(event, &got->param.ud);
	else
		connection_read(event, &got->param.conn);
	rdma_ack_cm_event(got);
	log_cm("%s: id %p: %s, status %d (%s), %u bytes of private data, RDMA reads of the peer: "
	       "%u in, %u out",
	       dev->attr.device, (void *)event->id, rdma_event_str(event->type), event->status,
	       event_status_text(event), event->private_data_size, event->peer_in, event->peer_out);
	return true;
}

void cm_events_fetch(struct tp_dev *dev)
{
	struct cm_event *event;

	for (;;) {
		event = malloc(sizeof(*event));
		/* without memory the rest stays on the channel */
		if (!event || !event_read(dev, event))
			break;
		*dev->pending_end = event;
		dev->pending_end = &event->next;
	}
	free(event);
	if (dev->pending)
		up_wake(dev->ia);
}

static void pending_remove(struct tp_dev *dev, struct cm_event **link)
{
	struct cm_event *event = *link;

	*link = event->next;
	if (!*link)
		dev->pending_end = link;
	free(event);
}

void cm_events_discard(struct tp_dev *dev, const struct rdma_cm_id *id)
{
	struct cm_event **link = &dev->pending;
	struct rdma_cm_id *request;

	while (*link) {
		if ((*link)->id != id && (*link)->listen_id != id) {
			link = &(*link)->next;
			continue;
		}
		request = (*link)->id != id ? (*link)->id : NULL;
		pending_remove(dev, link);
		if (request) {
			cm_id_refuse(dev, request); /* may change the list: start again */
			link = &dev->pending;
		}
	}
}

static bool event_next(struct tp_dev *dev, struct cm_event *event)
{
	if (!dev->pending)
		return event_read(dev, event);
	*event = *dev->pending;
	pending_remove(dev, &dev->pending);
	return true;
}

/*
 * Handles the pending events, or if there are none, one of the channel: a call that only finds that
 * there are no more costs as much as the next wake-up, and mostly there are none. Returns whether
 * an address was resolved: then the event of the next step may be there at once.
 */
static bool events_handle(struct tp_dev *dev)
{
	struct cm_event event;

	for (unsigned n = 0; n < EVENT_BATCH && event_next(dev, &event); n++) {
		cm_event_handle(dev, &event);
		if (!dev->pending)
			return event.type == RDMA_CM_EVENT_ADDR_RESOLVED;
	}
	if (dev->pending)
		up_wake(dev->ia);
	return false;
}

/* ---- CM results ---- */

void cm_conn_result_post(struct tp_conn *conn, int result)
{
	struct tp_dev *dev = conn->dev;

	mutex_lock(&dev->result_lock);
	conn->result = result;
	conn->next_result = dev->results;
	dev->results = conn;
	mutex_unlock(&dev->result_lock);
	up_wake(dev->ia);
}

static struct tp_conn *result_next(struct tp_dev *dev)
{
	struct tp_conn *conn;

	mutex_lock(&dev->result_lock);
	conn = dev->results;
	if (conn)
		dev->results = conn->next_result;
	mutex_unlock(&dev->result_lock);
	return conn;
}

/* ---- the service thread ---- */

bool cm_progress(struct tp_dev *dev, bool ready)
{
	struct tp_conn *conn;
	bool more = false;

	up_assert_locked(dev->ia);
	while ((conn = result_next(dev)))
		cm_conn_result_handle(conn);
	if (ready || dev->pending)
		more = events_handle(dev);
	cm_times_expire(dev);
	return more;
}
