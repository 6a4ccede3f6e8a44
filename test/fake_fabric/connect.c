/* SPDX-License-Identifier: BSD-2-Clause */
/* Passive and active endpoints, and connections between those of this process. */
#include <arpa/inet.h>

#include "impl.h"

static void socket_close(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* ---- addresses ---- */

static struct sockaddr_in *port_give(struct sockaddr_storage *address)
{
	struct sockaddr_in *in = (struct sockaddr_in *)address;

	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	in->sin_port = htons(ff.next_port++);
	return in;
}

static int address_store(const void *from, void *to, size_t *size)
{
	const size_t most = *size;

	*size = sizeof(struct sockaddr_in);
	memcpy(to, from, most < *size ? most : *size);
	return most < *size ? -FI_ETOOSMALL : 0;
}

static int option_get(fid_t fid, int level, int name, void *value, size_t *size)
{
	int err = ff_enter(CALL_fi_getopt);

	(void)fid;
	if (err)
		return -err;
	ff_require(level == FI_OPT_ENDPOINT && name == FI_OPT_CM_DATA_SIZE &&
			   *size == sizeof(size_t),
		   "an unknown option");
	*(size_t *)value = ff.provider.cm_data_size;
	ff_unlock();
	return 0;
}

static struct fi_ops_ep option_ops = { .size = sizeof(option_ops), .getopt = option_get };

/* ---- passive endpoints ---- */

static uint16_t pep_port(const struct ff_pep *pep)
{
	return ((const struct sockaddr_in *)pep->info->src_addr)->sin_port;
}

static struct ff_pep *pep_of_port(uint16_t port)
{
	struct ff_pep *pep = ff.peps;

	while (pep && pep_port(pep) != port)
		pep = pep->next;
	return pep;
}

static int pep_close(struct fid *fid)
{
	struct ff_pep *pep = (struct ff_pep *)fid, **link = &ff.peps;

	ff_lock();
	while (*link != pep)
		link = &(*link)->next;
	*link = pep->next;
	if (pep->eq) {
		ff_events_drop(pep->eq, fid);
		pep->eq->users--;
	}
	pep->fabric->users--;
	socket_close(pep->socket);
	ff_info_free(pep->info);
	ff_alive_add(FF_INFO, 1); /* not one that the program has */
	free(pep);
	ff_alive_add(FF_PEP, -1);
	ff_unlock();
	return 0;
}

static int pep_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
	struct ff_pep *pep = (struct ff_pep *)fid;
	int err = ff_enter(CALL_fi_pep_bind);

	(void)flags;
	if (err)
		return -err;
	pep->eq = (struct ff_eq *)to;
	ff_eq_use(pep->eq);
	ff_unlock();
	return 0;
}

static int pep_listen(struct fid_pep *fid)
{
	struct ff_pep *pep = (struct ff_pep *)fid;
	int err = ff_enter(CALL_fi_listen);

	if (err)
		return -err;
	ff_require(pep->eq, "fi_listen without an event queue");
	pep->listening = true;
	ff_unlock();
	return 0;
}

static int pep_name(fid_t fid, void *address, size_t *size)
{
	int ret = -ff_enter(CALL_fi_getname);

	if (ret)
		return ret;
	ret = address_store(((struct ff_pep *)fid)->info->src_addr, address, size);
	ff_unlock();
	return ret;
}

/* Gives the event of an answer its data. */
static void answer_fill(struct ff_event *event, const void *data, size_t size)
{
	if (ff.answer.is_set) {
		data = ff.answer.data;
		size = ff.answer.size;
	}
	ff.answer.is_set = false;
	event->size = size;
	if (size)
		memcpy(event->data, data, size);
}

void ff_answer_with(const void *data, size_t size)
{
	ff_lock();
	ff_require(size <= FF_MAX_DATA, "too much data in an answer");
	ff.answer = (struct ff_answer){ .is_set = true, .size = size };
	if (size)
		memcpy(ff.answer.data, data, size);
	ff_unlock();
}

static void request_fail(struct ff_request *request, const void *data, size_t size)
{
	struct ff_event event = { .err = FI_ECONNREFUSED };

	if (request->from) {
		event.fid = &request->from->fid.fid;
		answer_fill(&event, data, size);
		ff_event_add(request->from->eq, &event);
		request->from->request = NULL;
	}
	socket_close(request->socket);
	free(request);
	ff_alive_add(FF_REQUEST, -1);
}

/* If it fails, the request has ended as well. */
static int pep_reject(struct fid_pep *fid, fid_t handle, const void *data, size_t size)
{
	int err;

	ff_lock();
	err = ff_step_locked(CALL_fi_reject);
	ff_require(((struct ff_pep *)fid)->eq, "fi_reject without an event queue");
	ff_require(size <= FF_MAX_DATA, "too much data in a rejection");
	request_fail((struct ff_request *)handle, data, err ? 0 : size);
	ff_unlock();
	return -err;
}

static struct fi_ops pep_fi_ops = {
	.size = sizeof(pep_fi_ops),
	.close = pep_close,
	.bind = pep_bind,
};
static struct fi_ops_cm pep_cm_ops = {
	.size = sizeof(pep_cm_ops),
	.getname = pep_name,
	.listen = pep_listen,
	.reject = pep_reject,
};

/* Gives it a port, if it was given none. */
static void pep_place(struct ff_pep *pep)
{
	struct sockaddr_in *address = pep->info->src_addr;

	pep->socket = -1;
	if (ff.provider.sockets)
		pep->socket = ff_socket_listen(&address->sin_port);
	else if (!address->sin_port)
		port_give(pep->info->src_addr);
}

int ff_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **out,
		void *context)
{
	const struct sockaddr_in *address = info->src_addr;
	struct ff_pep *pep;
	int err = ff_enter(CALL_fi_passive_ep);

	if (err)
		return -err;
	if (address->sin_port && pep_of_port(address->sin_port)) {
		ff_unlock();
		return -FI_EADDRINUSE;
	}
	pep = calloc(1, sizeof(*pep));
	ff_require(pep, "no memory for a passive endpoint");
	pep->fid = (struct fid_pep){
		.fid = { FI_CLASS_PEP, context, &pep_fi_ops },
		.ops = &option_ops,
		.cm = &pep_cm_ops,
	};
	pep->fabric = (struct ff_fabric *)fabric;
	pep->fabric->users++;
	pep->given = info;
	pep->info = ff_info_copy(info);
	ff_alive_add(FF_INFO, -1); /* not one that the program has */
	pep_place(pep);
	pep->next = ff.peps;
	ff.peps = pep;
	ff_alive_add(FF_PEP, 1);
	*out = &pep->fid;
	ff_unlock();
	return 0;
}

void ff_listener_fail(int err)
{
	struct ff_event event = { .err = err };
	struct ff_pep *pep = ff.peps;

	ff_lock();
	while (pep && !pep->listening)
		pep = pep->next;
	ff_require(pep, "no endpoint listens");
	event.fid = &pep->fid.fid;
	ff_event_add(pep->eq, &event);
	ff_unlock();
}

/* ---- the life of an endpoint ---- */

static void ep_shut_socket(struct ff_ep *ep)
{
	if (ep->socket >= 0 && !ep->socket_is_shut)
		(void)shutdown(ep->socket, SHUT_RDWR);
	ep->socket_is_shut = true;
}

void ff_shut_all(void)
{
	ff_lock();
	for (struct ff_ep *ep = ff.eps; ep; ep = ep->next)
		if (ep->connected)
			ep_shut_socket(ep);
	ff_unlock();
}

void ff_ep_end(struct ff_ep *ep, bool told)
{
	struct ff_event event = { .type = FI_SHUTDOWN, .fid = &ep->fid.fid };
	struct ff_ep *peer = ep->peer;

	ep_shut_socket(ep);
	if (peer)
		ep_shut_socket(peer);
	if (told && (ep->connected || ep->request))
		ff_event_add(ep->eq, &event);
	ff_receives_flush(ep);
	ff_sends_flush(ep);
	ep->connected = false;
	ep->shut = true;
	ep->peer = NULL;
	if (!peer)
		return;
	event.fid = &peer->fid.fid;
	ff_receives_flush(peer);
	ff_sends_flush(peer);
	ff_event_add(peer->eq, &event);
	peer->connected = false;
	peer->shut = true;
	peer->peer = NULL;
}

void ff_disconnect_all(void)
{
	for (struct ff_ep *ep = ff.eps; ep; ep = ep->next)
		if (ep->connected)
			ff_ep_end(ep, true);
}

static int ep_close(struct fid *fid)
{
	struct ff_ep *ep = (struct ff_ep *)fid, **link;

	ff_lock();
	if (ep->request && ep->request->from == ep)
		ep->request->from = NULL;
	else if (ep->request)
		request_fail(ep->request, NULL, 0);
	ff_ep_end(ep, false);
	socket_close(ep->socket);
	ff_messages_free(ep);
	ff_late_write_drop(ep);
	for (link = ep->srx ? &ep->srx->takers : NULL; link && *link; link = &(*link)->next_taker)
		if (*link == ep) {
			*link = ep->next_taker;
			break;
		}
	for (link = &ff.eps; *link != ep; link = &(*link)->next)
		;
	*link = ep->next;
	if (ep->eq) {
		ff_events_drop(ep->eq, fid);
		ep->eq->users--;
	}
	if (ep->tx)
		ep->tx->users--;
	if (ep->rx)
		ep->rx->users--;
	ep->domain->users--;
	memset(ep, 0xee, sizeof(*ep));
	__asm__ volatile("" : : "r"(ep) : "memory"); /* or the compiler leaves that out */
	free(ep);
	ff_alive_add(FF_EP, -1);
	ff_unlock();
	return 0;
}

static int ep_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
	struct ff_ep *ep = (struct ff_ep *)fid;
	int err = ff_enter(CALL_fi_ep_bind);

	if (err)
		return -err;
	if (to->fclass == FI_CLASS_SRX_CTX) {
		ff_require(((struct ff_ep *)to)->domain == ep->domain,
			   "what is bound is of a domain");
		ep->srx = (struct ff_ep *)to;
		ep->next_taker = ep->srx->takers;
		ep->srx->takers = ep;
	}
	if (to->fclass == FI_CLASS_EQ) {
		ep->eq = (struct ff_eq *)to;
		ff_eq_use(ep->eq);
	}
	if (to->fclass == FI_CLASS_CQ)
		ff_require(((struct ff_cq *)to)->domain == ep->domain,
			   "what is bound is of a domain");
	if (to->fclass == FI_CLASS_CQ && flags & FI_TRANSMIT) {
		ep->tx = (struct ff_cq *)to;
		ep->tx->users++;
	}
	if (to->fclass == FI_CLASS_CQ && flags & FI_RECV) {
		ep->rx = (struct ff_cq *)to;
		ep->rx->users++;
	}
	ff_unlock();
	return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	struct ff_ep *ep = (struct ff_ep *)fid;
	int err = ff_enter(CALL_fi_enable);

	(void)arg;
	if (err)
		return -err;
	ff_require(command == FI_ENABLE && ep->eq && ep->tx && ep->rx,
		   "an endpoint is enabled before its queues are bound");
	ep->enabled = true;
	ff_unlock();
	return 0;
}

/* ---- connecting ---- */

static int ep_name(fid_t fid, void *address, size_t *size)
{
	int ret = -ff_enter(CALL_fi_getname);

	if (ret)
		return ret;
	ret = address_store(&((struct ff_ep *)fid)->local, address, size);
	ff_unlock();
	return ret;
}

static int ep_peer(struct fid_ep *fid, void *address, size_t *size)
{
	struct ff_ep *ep = (struct ff_ep *)fid;
	int ret = -ff_enter(CALL_fi_getpeer);

	if (ret)
		return ret;
	ret = ep->connected ? address_store(&ep->remote, address, size) : -FI_ENOTCONN;
	ff_unlock();
	return ret;
}

/* @ep NULL: of nobody. */
static void request_send(struct ff_ep *ep, struct ff_pep *pep, const void *data, size_t size)
{
	struct ff_request *request = calloc(1, sizeof(*request));
	struct ff_event event = { .type = FI_CONNREQ, .fid = &pep->fid.fid, .size = size };

	ff_require(request, "no memory for a request");
	request->fid.fclass = FI_CLASS_CONNREQ;
	request->from = ep;
	request->socket = -1;
	if (ep && pep->socket >= 0) {
		ep->socket = ff_socket_connect(pep_port(pep), &ep->local);
		request->socket = ff_socket_accept(pep->socket);
	}
	if (ep)
		ep->request = request;
	ff_alive_add(FF_REQUEST, 1);
	event.info = ff_info_copy(pep->info);
	event.info->handle = &request->fid;
	event.info->dest_addrlen = sizeof(struct sockaddr_in);
	event.info->dest_addr = malloc(sizeof(struct sockaddr_in));
	ff_require(event.info->dest_addr, "no memory for an address");
	memcpy(event.info->dest_addr, ep ? &ep->local : pep->info->src_addr,
	       sizeof(struct sockaddr_in));
	if (size)
		memcpy(event.data, data, size);
	if (size && ff.provider.garbles_requests)
		event.data[0] ^= 1;
	ff_event_add(pep->eq, &event);
}

static void stray_request_send(const void *data, size_t size)
{
	for (struct ff_pep *pep = ff.peps; pep; pep = pep->next)
		if (pep->listening)
			request_send(NULL, pep, data, size);
}

void ff_stray_request(void)
{
	stray_request_send("x", 1);
}

void ff_request_arrives(const void *data, size_t size)
{
	ff_lock();
	ff_require(size <= FF_MAX_DATA, "too much data in a request");
	stray_request_send(data, size);
	ff_unlock();
}

static int ep_connect(struct fid_ep *fid, const void *address, const void *data, size_t size)
{
	struct ff_event failure = { .fid = &fid->fid };
	struct ff_ep *ep = (struct ff_ep *)fid;
	struct ff_pep *pep;
	int err = ff_enter(CALL_fi_connect);

	if (err)
		return -err;
	ff_require(ep->enabled, "fi_connect of an endpoint that is not enabled");
	if (ep->used || size > ff.provider.cm_data_size) {
		ff_unlock();
		return -FI_EINVAL;
	}
	ep->used = true;
	memcpy(&ep->remote, address, sizeof(struct sockaddr_in));
	pep = pep_of_port(((const struct sockaddr_in *)address)->sin_port);
	failure.err = ff_step_locked(CALL_fi_connected);
	if (!failure.err && !(pep && pep->listening))
		failure.err = FI_ECONNREFUSED;
	if (failure.err)
		ff_event_add(ep->eq, &failure);
	else
		request_send(ep, pep, data, size);
	ff_unlock();
	return 0;
}

static int ep_accept(struct fid_ep *fid, const void *data, size_t size)
{
	struct ff_event event = { .type = FI_CONNECTED, .fid = &fid->fid };
	struct ff_ep *ep = (struct ff_ep *)fid, *peer;
	int err = ff_enter(CALL_fi_accept);

	if (err)
		return -err;
	ff_require(ep->enabled && ep->request, "fi_accept of no request");
	ff_require(size <= FF_MAX_DATA, "too much data in an answer");
	peer = ep->request->from;
	ep->socket = ep->request->socket;
	free(ep->request);
	ff_alive_add(FF_REQUEST, -1);
	ep->request = NULL;
	ep->connected = true;
	ff_event_add(ep->eq, &event);
	if (!peer) {
		ff_ep_end(ep, true);
		ff_unlock();
		return 0;
	}
	ep->peer = peer;
	peer->peer = ep;
	peer->request = NULL;
	peer->connected = true;
	event.fid = &peer->fid.fid;
	answer_fill(&event, data, size);
	if (size && ff.provider.garbles_answers)
		event.data[0] ^= 1;
	ff_event_add(peer->eq, &event);
	ff_unlock();
	return 0;
}

static int ep_shutdown(struct fid_ep *fid, uint64_t flags)
{
	struct ff_ep *ep = (struct ff_ep *)fid;
	int err = ff_enter(CALL_fi_shutdown);

	(void)flags;
	if (err)
		return -err;
	if (!ep->shut)
		ff_ep_end(ep, true);
	ff_unlock();
	return 0;
}

static struct fi_ops ep_fi_ops = {
	.size = sizeof(ep_fi_ops),
	.close = ep_close,
	.bind = ep_bind,
	.control = ep_control,
};
static struct fi_ops_cm ep_cm_ops = {
	.size = sizeof(ep_cm_ops),
	.getname = ep_name,
	.getpeer = ep_peer,
	.connect = ep_connect,
	.accept = ep_accept,
	.shutdown = ep_shutdown,
};

int ff_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **out, void *context)
{
	struct ff_ep *ep;
	int err = ff_enter(CALL_fi_endpoint);

	if (err)
		return -err;
	ff_require(!ff.provider.resolves || info->handle || info->dest_addr,
		   "an endpoint is made for nobody");
	ff.seen.tx_size = info->tx_attr->size;
	ff.seen.send_flags = info->tx_attr->op_flags;
	ff.seen.rx_size = info->rx_attr->size;
	ep = calloc(1, sizeof(*ep));
	ff_require(ep, "no memory for an endpoint");
	ep->fid = (struct fid_ep){
		.fid = { FI_CLASS_EP, context, &ep_fi_ops },
		.ops = &option_ops,
		.cm = &ep_cm_ops,
		.msg = &ff_msg_ops,
		.rma = &ff_rma_ops,
	};
	ep->domain = (struct ff_domain *)domain;
	ep->domain->users++;
	ep->receives_end = &ep->receives;
	ep->messages_end = &ep->messages;
	ep->socket = -1;
	port_give(&ep->local);
	ep->request = (struct ff_request *)info->handle;
	ep->used = ep->request != NULL;
	ep->delivers = info->tx_attr->op_flags & FI_DELIVERY_COMPLETE;
	if (ep->request && ep->request->from)
		ep->remote = ep->request->from->local;
	ep->next = ff.eps;
	ff.eps = ep;
	ff_alive_add(FF_EP, 1);
	*out = &ep->fid;
	ff_unlock();
	return 0;
}

/* ---- shared receive contexts ---- */

static int srx_close(struct fid *fid)
{
	struct ff_ep *srx = (struct ff_ep *)fid;

	ff_lock();
	ff_require(!srx->takers, "a shared receive context is closed before its endpoints");
	ff_receives_drop(srx);
	srx->domain->users--;
	free(srx);
	ff_alive_add(FF_EP, -1);
	ff_unlock();
	return 0;
}

static struct fi_ops srx_fi_ops = { .size = sizeof(srx_fi_ops), .close = srx_close };

int ff_srx_context(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **out,
		   void *context)
{
	struct ff_ep *srx;
	int err = ff_enter(CALL_fi_srx_context);

	(void)attr;
	if (err)
		return -err;
	srx = calloc(1, sizeof(*srx));
	ff_require(srx, "no memory for a shared receive context");
	srx->fid = (struct fid_ep){
		.fid = { FI_CLASS_SRX_CTX, context, &srx_fi_ops },
		.msg = &ff_msg_ops,
	};
	srx->domain = (struct ff_domain *)domain;
	srx->domain->users++;
	srx->receives_end = &srx->receives;
	srx->enabled = true;
	ff_alive_add(FF_EP, 1);
	*out = &srx->fid;
	ff_unlock();
	return 0;
}
