/* SPDX-License-Identifier: BSD-2-Clause */
/* librdmacm: identifiers, event channels, and the peer as tests script it. */
#include <arpa/inet.h>

#include "impl.h"

/* An event as librdmacm hands it out; it is freed when it is acknowledged. */
struct fv_got_event {
	struct rdma_cm_event rdma; /* first */
	struct fv_got_event *next;
	char pdata[256];
};

struct fv_event_channel {
	struct rdma_event_channel rdma; /* first */
	struct fv_got_event *events, **end;
	unsigned users; /* identifiers */
};

struct fv_id_state {
	struct rdma_cm_id rdma; /* first */
	struct fv_id_state *next;
	unsigned unacked;
	uint32_t qp_num; /* of rdma_connect or rdma_accept */
	bool unanswered; /* iWARP: the kernel waits for the peer */
	bool connected;	 /* rdma_connect or rdma_accept succeeded */
};

static struct fv_event_channel *channel_of(struct rdma_cm_id *id)
{
	return (struct fv_event_channel *)id->channel;
}

static struct fv_id_state *state_of(struct rdma_cm_id *id)
{
	return (struct fv_id_state *)id;
}

/* Ends a call that has taken the lock: 0, or -1 with errno. */
static int cm_leave(int err)
{
	fv_unlock();
	if (!err)
		return 0;
	errno = err;
	return -1;
}

/* ---- event channels ---- */

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct fv_event_channel *channel;

	if (fv_enter_errno(CALL_rdma_create_event_channel))
		return NULL;
	channel = calloc(1, sizeof(*channel));
	fv_require(channel, "no memory for an event channel");
	channel->rdma.fd = fv_fd_open();
	channel->end = &channel->events;
	fv_alive_add(FV_EVENT_CHANNEL, 1);
	fv_unlock();
	return &channel->rdma;
}

void rdma_destroy_event_channel(struct rdma_event_channel *rdma)
{
	struct fv_event_channel *channel = (struct fv_event_channel *)rdma;

	(void)fv_enter(CALL_rdma_destroy_event_channel);
	fv_require(!channel->users, "an event channel is destroyed before its identifiers");
	close(rdma->fd);
	free(channel);
	fv_alive_add(FV_EVENT_CHANNEL, -1);
	fv_unlock();
}

static void event_queue(struct fv_event_channel *channel, struct fv_got_event *event)
{
	event->next = NULL;
	*channel->end = event;
	channel->end = &event->next;
	fv_fd_add(channel->rdma.fd);
}

int rdma_get_cm_event(struct rdma_event_channel *rdma, struct rdma_cm_event **out)
{
	struct fv_event_channel *channel = (struct fv_event_channel *)rdma;
	struct fv_got_event *event;

	if (fv_enter_errno(CALL_rdma_get_cm_event))
		return -1;
	if (!fv_fd_take(rdma->fd)) {
		fv_unlock();
		return -1;
	}
	event = channel->events;
	channel->events = event->next;
	if (!channel->events)
		channel->end = &channel->events;
	state_of(event->rdma.id)->unacked++;
	if (event->rdma.listen_id)
		state_of(event->rdma.listen_id)->unacked++;
	fv_alive_add(FV_CM_EVENT, 1);
	*out = &event->rdma;
	return cm_leave(0);
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	(void)fv_enter(CALL_rdma_ack_cm_event);
	state_of(event->id)->unacked--;
	if (event->listen_id)
		state_of(event->listen_id)->unacked--;
	fv_free_poisoned(event, sizeof(struct fv_got_event));
	fv_alive_add(FV_CM_EVENT, -1);
	return cm_leave(0);
}

const char *rdma_event_str(enum rdma_cm_event_type type)
{
	static _Thread_local char text[32];

	snprintf(text, sizeof(text), "CM event %d", (int)type);
	return text;
}

/* ---- identifiers ---- */

/* Makes an identifier of @channel. The lock is held. */
static struct fv_id_state *id_new(struct rdma_event_channel *channel, void *context,
				  enum rdma_port_space ps)
{
	struct fv_id_state *id = calloc(1, sizeof(*id));

	fv_require(id, "no memory for an identifier");
	id->rdma.channel = channel;
	id->rdma.context = context;
	id->rdma.ps = ps;
	id->next = fv.ids;
	fv.ids = id;
	((struct fv_event_channel *)channel)->users++;
	fv_alive_add(FV_ID, 1);
	return id;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps)
{
	if (fv_enter_errno(CALL_rdma_create_id))
		return -1;
	fv_require(ps == RDMA_PS_TCP || ps == RDMA_PS_UDP, "an identifier of another port space");
	*id = &id_new(channel, context, ps)->rdma;
	return cm_leave(0);
}

static bool qp_unanswered(uint32_t qp_num)
{
	for (const struct fv_id_state *id = fv.ids; id; id = id->next)
		if (id->qp_num == qp_num && id->unanswered)
			return true;
	return false;
}

void fv_qp_wait_answer_relock(uint32_t qp_num)
{
	while (qp_unanswered(qp_num))
		fv_sleep_relock("a QP of an iWARP attempt without an answer is destroyed under "
				"ia->lock");
}

/* Takes @id off the list. */
static void id_free(struct fv_id_state *id)
{
	struct fv_id_state **link = &fv.ids;

	channel_of(&id->rdma)->users--;
	while (*link != id)
		link = &(*link)->next;
	*link = id->next;
	fv_free_poisoned(id, sizeof(*id));
	fv_alive_add(FV_ID, -1);
}

/* Takes the events of @id off @from: to @to, or away. */
static void events_move(struct rdma_cm_id *id, struct fv_event_channel *from,
			struct fv_event_channel *to)
{
	struct fv_got_event **link = &from->events, *event;

	while ((event = *link)) {
		if (event->rdma.id != id && event->rdma.listen_id != id) {
			link = &event->next;
			continue;
		}
		*link = event->next;
		(void)fv_fd_take(from->rdma.fd);
		if (to) {
			event_queue(to, event);
			continue;
		}
		if (event->rdma.id != id) /* a request that nobody has seen */
			id_free(state_of(event->rdma.id));
		free(event);
	}
	from->end = link;
}

int rdma_destroy_id(struct rdma_cm_id *rdma)
{
	struct fv_id_state *id = state_of(rdma);

	if (fv_enter_errno(CALL_rdma_destroy_id))
		return -1;
	while (id->unanswered)
		fv_sleep_relock("an iWARP attempt without an answer is destroyed under ia->lock");
	fv_require(!id->unacked, "rdma_destroy_id waits for an event that is not acknowledged");
	events_move(rdma, channel_of(rdma), NULL);
	id_free(id);
	return cm_leave(0);
}

int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	if (fv_enter_errno(CALL_rdma_migrate_id))
		return -1;
	events_move(id, channel_of(id), (struct fv_event_channel *)channel);
	channel_of(id)->users--;
	id->channel = channel;
	channel_of(id)->users++;
	return cm_leave(0);
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t size)
{
	(void)id;
	if (fv_enter_errno(CALL_rdma_set_option))
		return -1;
	fv_require(size == 1, "rdma_set_option with another size");
	fv.seen.option.level = level;
	fv.seen.option.name = name;
	fv.seen.option.value = *(uint8_t *)value;
	return cm_leave(0);
}

struct rdma_cm_id *fv_id(unsigned ago)
{
	struct fv_id_state *id;

	fv_lock();
	for (id = fv.ids; id && ago; ago--)
		id = id->next;
	fv_unlock();
	return id ? &id->rdma : NULL;
}

/* ---- addresses ---- */

static void addr_set(struct sockaddr_storage *to, const struct sockaddr *from)
{
	memset(to, 0, sizeof(*to));
	memcpy(to, from,
	       from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					   : sizeof(struct sockaddr_in));
}

/* The device to which the local address belongs now: none, or errno. */
static int device_set(struct rdma_cm_id *id)
{
	const struct fv_interface *interface = fv_interface_of(&id->route.addr.src_addr);

	if (!interface)
		return EADDRNOTAVAIL;
	id->verbs = NULL;
	if (interface->device < 0)
		return 0;
	id->verbs = fv_cm_context(interface->device);
	id->port_num = interface->port;
	return 0;
}

/* IPv4 and IPv6 have it in the same place. */
static uint16_t *port_field(struct sockaddr_storage *addr)
{
	return &((struct sockaddr_in *)addr)->sin_port;
}

/* An empty list: it is asked for its side effect on a device that was removed. */
struct ibv_context **rdma_get_devices(int *n)
{
	static struct ibv_context *none;

	fv_require(!n, "the stand-in has no list of devices");
	if (fv_enter_errno(CALL_rdma_get_devices))
		return NULL;
	fv_unlock();
	return &none;
}

void rdma_free_devices(struct ibv_context **list)
{
	(void)list;
	if (!fv_enter_errno(CALL_rdma_free_devices))
		fv_unlock();
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	if (fv_enter_errno(CALL_rdma_bind_addr))
		return -1;
	addr_set(&id->route.addr.src_storage, addr);
	return cm_leave(device_set(id));
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
		      int timeout)
{
	if (fv_enter_errno(CALL_rdma_resolve_addr))
		return -1;
	if (from)
		addr_set(&id->route.addr.src_storage, from);
	if (to != &id->route.addr.dst_addr)
		addr_set(&id->route.addr.dst_storage, to);
	fv.seen.resolve_timeout = timeout;
	return cm_leave(fv_interface_of(&id->route.addr.src_addr) ? 0 : EADDRNOTAVAIL);
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout)
{
	(void)id;
	if (fv_enter_errno(CALL_rdma_resolve_route))
		return -1;
	fv.seen.resolve_timeout = timeout;
	return cm_leave(0);
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return *port_field(&id->route.addr.src_storage);
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	if (fv_enter_errno(CALL_rdma_listen))
		return -1;
	fv.seen.backlog = backlog;
	if (!*port_field(&id->route.addr.src_storage))
		*port_field(&id->route.addr.src_storage) = htons(fv.next_port++);
	return cm_leave(0);
}

/* ---- the handshake ---- */

static void pdata_record(const void *data, unsigned size)
{
	fv.seen.pdata = (struct fv_pdata){ .size = size };
	if (size)
		memcpy(fv.seen.pdata.data, data, size);
}

static void attempt_begin(struct rdma_cm_id *rdma, const struct rdma_conn_param *param)
{
	struct fv_id_state *id = state_of(rdma);

	id->connected = true;
	id->qp_num = param->qp_num;
	id->unanswered = rdma->verbs && rdma->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	pdata_record(param->private_data, param->private_data_len);
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	if (fv_enter_errno(CALL_rdma_connect))
		return -1;
	attempt_begin(id, param);
	fv.seen.connected = *param;
	fv.seen.connected.private_data = NULL;
	return cm_leave(0);
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	if (fv_enter_errno(CALL_rdma_accept))
		return -1;
	attempt_begin(id, param);
	fv.seen.accepted = *param;
	fv.seen.accepted.private_data = NULL;
	return cm_leave(0);
}

int rdma_establish(struct rdma_cm_id *id)
{
	if (fv_enter_errno(CALL_rdma_establish))
		return -1;
	return cm_leave(state_of(id)->connected ? 0 : EINVAL);
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t size)
{
	(void)id;
	if (fv_enter_errno(CALL_rdma_reject))
		return -1;
	pdata_record(data, size);
	return cm_leave(0);
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	if (fv_enter_errno(CALL_rdma_disconnect))
		return -1;
	return cm_leave(state_of(id)->connected ? 0 : EINVAL);
}

int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	(void)id;
	if (fv_enter_errno(CALL_rdma_notify))
		return -1;
	fv.seen.notified = event;
	return cm_leave(0);
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	const struct fv_device *device = fv_device_of(id->verbs);

	if (fv_enter_errno(CALL_rdma_init_qp_attr))
		return -1;
	*mask = IBV_QP_STATE;
	attr->port_num = id->port_num;
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		*mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
		*mask |= id->ps == RDMA_PS_UDP ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
		attr->qkey = id->ps == RDMA_PS_UDP ? FV_QKEY : 0;
		attr->pkey_index = device->pkey_index;
		break;
	case IBV_QPS_RTR:
		*mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		attr->path_mtu = IBV_MTU_1024;
		attr->ah_attr.is_global = 1;
		attr->ah_attr.grh.sgid_index = device->gid_index;
		break;
	default:
		*mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			 IBV_QP_MAX_QP_RD_ATOMIC;
		attr->timeout = 18;
		break;
	}
	return cm_leave(0);
}

/* ---- the peer ---- */

static bool is_answer(enum rdma_cm_event_type type)
{
	switch (type) {
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_DISCONNECTED:
		return true;
	default:
		return false;
	}
}

static void event_post_locked(struct rdma_cm_id *id, struct rdma_cm_id *listen,
			      const struct fv_cm_event *event)
{
	struct fv_got_event *got = calloc(1, sizeof(*got));

	fv_require(got && event->pdata_size <= sizeof(got->pdata), "no memory for an event");
	got->rdma = (struct rdma_cm_event){
		.id = id,
		.listen_id = listen,
		.event = event->type,
		.status = event->status,
	};
	if (id->ps == RDMA_PS_UDP)
		got->rdma.param.ud = (struct rdma_ud_param){
			.private_data = event->pdata_size ? got->pdata : NULL,
			.private_data_len = (uint8_t)event->pdata_size,
			.ah_attr = { .dlid = event->qp_num ? FV_DLID : 0 },
			.qp_num = event->qp_num,
			.qkey = event->qp_num ? FV_QKEY : 0,
		};
	else
		got->rdma.param.conn = (struct rdma_conn_param){
			.private_data = event->pdata_size ? got->pdata : NULL,
			.private_data_len = (uint8_t)event->pdata_size,
			.responder_resources = (uint8_t)event->responder_resources,
			.initiator_depth = (uint8_t)event->initiator_depth,
		};
	if (event->pdata_size)
		memcpy(got->pdata, event->pdata, event->pdata_size);
	if (event->type == RDMA_CM_EVENT_ADDR_RESOLVED)
		(void)device_set(id);
	if (is_answer(event->type))
		state_of(id)->unanswered = false;
	event_queue(channel_of(id), got);
	pthread_cond_broadcast(&fv.changed);
}

void fv_cm_event(struct rdma_cm_id *id, const struct fv_cm_event *event)
{
	fv_lock();
	event_post_locked(id, NULL, event);
	fv_unlock();
}

void fv_cm_post(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status)
{
	const struct fv_cm_event event = { .type = type, .status = status };

	fv_cm_event(id, &event);
}

struct rdma_cm_id *fv_request(struct rdma_cm_id *listen, const struct fv_cm_event *event)
{
	struct fv_cm_event request = event ? *event : (struct fv_cm_event){ 0 };
	struct sockaddr_in from = {
		.sin_family = AF_INET,
		.sin_port = htons(4000),
		.sin_addr.s_addr = htonl(0x7f000009),
	};
	struct rdma_cm_id *id;

	request.type = RDMA_CM_EVENT_CONNECT_REQUEST;
	fv_lock();
	id = &id_new(listen->channel, listen->context, listen->ps)->rdma;
	id->route.addr.src_storage = listen->route.addr.src_storage;
	addr_set(&id->route.addr.dst_storage, (struct sockaddr *)&from);
	(void)device_set(id);
	event_post_locked(id, listen, &request);
	fv_unlock();
	return id;
}

void fv_ask(struct rdma_cm_id *id)
{
	fv_lock();
	state_of(id)->unanswered = true;
	fv_unlock();
}

void fv_answer(struct rdma_cm_id *id)
{
	fv_lock();
	state_of(id)->unanswered = false;
	pthread_cond_broadcast(&fv.changed);
	fv_unlock();
}
