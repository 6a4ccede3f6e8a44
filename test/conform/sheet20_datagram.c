/* SPDX-License-Identifier: BSD-2-Clause */
/* The sheet: endpoints of datagrams, an extension of DAT 2.0. */
#define ROW_NEEDS NEEDS_DATAGRAMS
#include "sheet.h"

#include <string.h>

#include <dat2/dat_ib_extensions.h>

#define DEFAULT DAT_COMPLETION_DEFAULT_FLAG
#define DEPTH	4

static DAT_EP_ATTR datagram_attr(void)
{
	DAT_EP_ATTR attr = ep_attr_for(DEPTH, DEPTH);

	attr.service_type = (DAT_SERVICE_TYPE)DAT_IB_SERVICE_TYPE_UD;
	return attr;
}

static DAT_EP_HANDLE datagram_ep(void)
{
	const DAT_EP_ATTR attr = datagram_attr();

	return new_ep(&attr);
}

/* One of the client's that knows the way to one of the server's. */
struct met {
	DAT_EP_HANDLE ep;
	DAT_IB_EXTENSION_EVENT_DATA found;
};

/* A pair whose client's endpoint has asked the server. */
static struct pair *asked(DAT_CR_HANDLE *cr)
{
	const DAT_EP_ATTR attr = datagram_attr();
	struct pair *pair = new_pair(&attr);
	DAT_CONN_QUAL qual;

	(void)new_psp(&qual);
	ck_dat(try_connect(pair->client.ep, &pair->server, qual, TIME_LIMIT));
	*cr = expect_event(there->cr_evd, (DAT_EVENT_NUMBER)DAT_IB_UD_CONNECTION_REQUEST_EVENT)
		      .event_data.cr_arrival_event_data.cr_handle;
	return pair;
}

static void read_extension(const DAT_EVENT *event, struct met *met)
{
	memcpy(&met->found, event->event_extension_data, sizeof(met->found));
}

static struct met meet(void)
{
	const DAT_EVENT_NUMBER number = (DAT_EVENT_NUMBER)DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED;
	DAT_CR_HANDLE cr;
	struct pair *pair = asked(&cr);
	struct met met = { .ep = pair->client.ep };
	DAT_EVENT event;

	ck_dat(dat_cr_accept(cr, pair->server.ep, 0, NULL));
	expect_event(pair->server.connect_evd, number);
	event = expect_event(pair->client.connect_evd, number);
	read_extension(&event, &met);
	return met;
}

/* ---- endpoints ---- */

STATE_ROW(dat_ep_create, "an endpoint of datagrams", DAT_EP_STATE_UNCONNECTED)
{
	return ep_get_state(datagram_ep());
}

ROW_DO(dat_ep_create, "a datagram longer than a packet", BAD_ARG(6))
{
	DAT_EP_ATTR attr = datagram_attr();

	attr.max_message_size = 4097;
	return dat_ep_create(here->ia, here->pz, NULL, NULL, NULL, &attr, &unwritten);
}

ROW_DO(dat_ep_query, "an endpoint of datagrams tells how long these are", DAT_SUCCESS)
{
	DAT_EP_PARAM param;
	DAT_RETURN ret = dat_ep_query(datagram_ep(), DAT_EP_FIELD_ALL, &param);

	ck_assert_int_eq(param.ep_attr.service_type, DAT_IB_SERVICE_TYPE_UD);
	ck_assert_uint_ge(param.ep_attr.max_message_size, 256);
	ck_assert_uint_le(param.ep_attr.max_message_size, 4096);
	ck_assert_int_eq(param.comm.type, SOCK_DGRAM);
	return ret;
}

ROW_DO(dat_ep_modify, "an endpoint of datagrams", NOT_SUPPORTED)
{
	DAT_EP_PARAM param = { .ep_attr = datagram_attr() };

	return dat_ep_modify(datagram_ep(), DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, &param);
}

ROW_DO(dat_ep_modify, "the service type becomes that of datagrams", BAD_ARG(3))
{
	DAT_EP_PARAM param = { .ep_attr = datagram_attr() };

	return dat_ep_modify(new_ep(NULL), DAT_EP_FIELD_EP_ATTR_SERVICE_TYPE, &param);
}

ROW(dat_ep_reset, "an endpoint of datagrams, which is not connected", DAT_SUCCESS,
    dat_ep_reset(datagram_ep()));
ROW(dat_ep_disconnect, "an endpoint of datagrams, which is not connected",
    BAD_STATE(EP_UNCONNECTED), dat_ep_disconnect(datagram_ep(), DAT_CLOSE_ABRUPT_FLAG));

/* ---- exchanges ---- */

EVENT_ROW(dat_ep_connect, "an endpoint of datagrams, which is accepted",
	  (DAT_EVENT_NUMBER)DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED)
{
	(void)meet();
	return (DAT_EVENT_NUMBER)DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED;
}

EVENT_ROW(dat_cr_reject, "a request for datagrams",
	  (DAT_EVENT_NUMBER)DAT_IB_UD_CONNECTION_REJECT_EVENT)
{
	DAT_CR_HANDLE cr;
	struct pair *pair = asked(&cr);

	ck_dat(dat_cr_reject(cr, 0, NULL));
	return event_of(pair->client.connect_evd);
}

ROW_DO(dat_cr_accept, "a request for datagrams, an endpoint of connections", BAD_HANDLE(EP))
{
	DAT_CR_HANDLE cr;
	struct pair *pair = asked(&cr);
	DAT_EP_HANDLE other = side_create_ep(&pair->server, NULL);
	DAT_RETURN ret = dat_cr_accept(cr, keep(other), 0, NULL);

	ck_dat(dat_cr_reject(cr, 0, NULL));
	(void)event_of(pair->client.connect_evd);
	return ret;
}

ROW_DO(dat_cr_accept, "a request for a connection, an endpoint of datagrams", BAD_HANDLE(EP))
{
	DAT_CR_HANDLE cr;
	struct pair *pair = new_request(&cr);
	const DAT_EP_ATTR attr = datagram_attr();
	DAT_EP_HANDLE other = side_create_ep(&pair->server, &attr);

	return dat_cr_accept(cr, keep(other), 0, NULL);
}

ROW(dat_rsp_create, "an endpoint of datagrams", BAD_HANDLE(EP),
    dat_rsp_create(here->ia, free_qual(here), datagram_ep(), here->cr_evd, &unwritten));
ROW(dat_ep_dup_connect, "an endpoint of datagrams", BAD_HANDLE(EP),
    dat_ep_dup_connect(datagram_ep(), here->ep, TIME_LIMIT, 0, NULL, DAT_QOS_BEST_EFFORT));

/* ---- posts ---- */

static DAT_RETURN try_send(DAT_EP_HANDLE ep, DAT_COUNT nseg, size_t length,
			   const DAT_IB_ADDR_HANDLE *ah)
{
	DAT_LMR_TRIPLET iov = segment(here, 0, length);

	return dat_ib_post_send_ud(ep, nseg, &iov, (DAT_IB_ADDR_HANDLE *)(uintptr_t)ah,
				   cookie_of(1), DEFAULT);
}

static DAT_RETURN send_to_met(DAT_COUNT nseg, size_t length)
{
	const struct met met = meet();

	return try_send(met.ep, nseg, length, &met.found.remote_ah);
}

ROW(dat_extension_op, "datagram: to a peer", DAT_SUCCESS, send_to_met(1, 100));
ROW(dat_extension_op, "datagram: a negative number of segments", BAD_ARG(2), send_to_met(-1, 8));
ROW(dat_extension_op, "datagram: more segments than the endpoint has", BAD_ARG(2),
    send_to_met(5, 8));
ROW(dat_extension_op, "datagram: longer than a packet", BAD_ARG(3), send_to_met(1, 4097));

ROW_DO(dat_extension_op, "datagram: the segments are null", BAD_ARG(3))
{
	struct met met = meet();

	return dat_ib_post_send_ud(met.ep, 1, NULL, &met.found.remote_ah, cookie_of(1), DEFAULT);
}

ROW_DO(dat_extension_op, "datagram: no segments, and they are null", DAT_SUCCESS)
{
	struct met met = meet();

	return dat_ib_post_send_ud(met.ep, 0, NULL, &met.found.remote_ah, cookie_of(1), DEFAULT);
}

ROW(dat_extension_op, "datagram: the address handle is null", BAD_ARG(4),
    try_send(datagram_ep(), 1, 8, NULL));

ROW_DO(dat_extension_op, "datagram: the address handle holds none", BAD_ARG(4))
{
	const DAT_IB_ADDR_HANDLE none = { .ah = NULL };

	return try_send(datagram_ep(), 1, 8, &none);
}

ROW_DO(dat_extension_op, "datagram: the address handle was freed", BAD_ARG(4))
{
	struct met met = meet();

	ck_dat(dat_ib_ud_ah_free(met.ep, &met.found.remote_ah));
	return try_send(met.ep, 1, 8, &met.found.remote_ah);
}

ROW_DO(dat_extension_op, "datagram: the address handle holds another object", BAD_ARG(4))
{
	const DAT_IB_ADDR_HANDLE other = { .ah = (struct ibv_ah *)here->pz };

	return try_send(datagram_ep(), 1, 8, &other);
}

ROW_DO(dat_extension_op, "datagram: by an endpoint of connections", BAD_HANDLE(EP))
{
	struct met met = meet();

	return try_send(here->ep, 1, 8, &met.found.remote_ah);
}

ROW_DO(dat_extension_op, "datagram: by an object that is no endpoint", BAD_HANDLE(EP))
{
	struct met met = meet();

	return try_send(here->pz, 1, 8, &met.found.remote_ah);
}

static DAT_RETURN other_post(DAT_RETURN (*post)(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET *iov,
						DAT_RMR_TRIPLET *remote))
{
	DAT_RMR_TRIPLET remote = target(there, 0, 8);
	DAT_LMR_TRIPLET iov = segment(here, 0, 8);

	return post(datagram_ep(), &iov, &remote);
}

static DAT_RETURN send_post(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET *iov, DAT_RMR_TRIPLET *remote)
{
	(void)remote;
	return dat_ep_post_send(ep, 1, iov, cookie_of(1), DEFAULT);
}

static DAT_RETURN write_post(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET *iov, DAT_RMR_TRIPLET *remote)
{
	return dat_ep_post_rdma_write(ep, 1, iov, cookie_of(1), remote, DEFAULT);
}

static DAT_RETURN read_post(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET *iov, DAT_RMR_TRIPLET *remote)
{
	return dat_ep_post_rdma_read(ep, 1, iov, cookie_of(1), remote, DEFAULT);
}

static DAT_RETURN immed_post(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET *iov, DAT_RMR_TRIPLET *remote)
{
	return dat_ib_post_rdma_write_immed(ep, 1, iov, cookie_of(1), remote, 1, DEFAULT);
}

ROW(dat_ep_post_send, "an endpoint of datagrams", BAD_HANDLE(EP), other_post(send_post));
ROW(dat_ep_post_rdma_write, "an endpoint of datagrams", BAD_HANDLE(EP), other_post(write_post));
ROW(dat_ep_post_rdma_read, "an endpoint of datagrams", BAD_HANDLE(EP), other_post(read_post));
ROW(dat_extension_op, "immediate data: an endpoint of datagrams", BAD_HANDLE(EP),
    other_post(immed_post));

/* ---- what is given up ---- */

ROW_DO(dat_extension_op, "free of a context: once", DAT_SUCCESS)
{
	struct met met = meet();

	return dat_ib_ud_cm_free(met.ep, met.found.context);
}

ROW_DO(dat_extension_op, "free of a context: twice", BAD_ARG(2))
{
	struct met met = meet();

	ck_dat(dat_ib_ud_cm_free(met.ep, met.found.context));
	return dat_ib_ud_cm_free(met.ep, met.found.context);
}

ROW_DO(dat_extension_op, "free of a context: of another endpoint", BAD_ARG(2))
{
	struct met met = meet();

	return dat_ib_ud_cm_free(datagram_ep(), met.found.context);
}

ROW_DO(dat_extension_op, "free of an address handle: once", DAT_SUCCESS)
{
	struct met met = meet();

	return dat_ib_ud_ah_free(met.ep, &met.found.remote_ah);
}

ROW_DO(dat_extension_op, "free of an address handle: twice", BAD_ARG(2))
{
	struct met met = meet();

	ck_dat(dat_ib_ud_ah_free(met.ep, &met.found.remote_ah));
	return dat_ib_ud_ah_free(met.ep, &met.found.remote_ah);
}

ROW(dat_extension_op, "free of an address handle: it is null", BAD_ARG(2),
    dat_ib_ud_ah_free(datagram_ep(), NULL));

static DAT_RETURN free_context_of(DAT_HANDLE ep)
{
	const DAT_CONTEXT context = { .as_ptr = NULL };

	return dat_ib_ud_cm_free(ep, context);
}

ROW(dat_extension_op, "free of a context: the endpoint was freed", BAD_HANDLE(EP),
    free_context_of(freed_handle(HANDLE_EP)));
ROW(dat_extension_op, "free of a context: of an object that is no endpoint", BAD_HANDLE(EP),
    free_context_of(here->pz));
ROW(dat_extension_op, "free of a context: an endpoint of connections", BAD_HANDLE(EP),
    free_context_of(here->ep));
