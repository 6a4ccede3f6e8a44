/* SPDX-License-Identifier: BSD-2-Clause */
/* The sheet: service points, connection requests, connections. */
#include <arpa/inet.h>
#include <string.h>

#include "sheet.h"

#define CONSUMER DAT_PSP_CONSUMER_FLAG
#define PROVIDER DAT_PSP_PROVIDER_FLAG

/* Both have port 63534, which the system gives to no connection. */
#define LARGE_QUAL   UINT64_C(0x12345c6b1)
#define SMALLER_QUAL UINT64_C(94002)

static DAT_CONN_QUAL busy_qual(void)
{
	DAT_CONN_QUAL qual;

	new_psp(&qual);
	return qual;
}

static DAT_EVD_HANDLE new_cr_evd(DAT_COUNT qlen)
{
	return keep(side_create_evd(there, qlen, DAT_EVD_CR_FLAG));
}

/* ---- dat_psp_create ---- */

static DAT_RETURN create(DAT_CONN_QUAL qual, DAT_EVD_HANDLE evd, int flags)
{
	DAT_PSP_HANDLE psp = unwritten;
	DAT_RETURN ret = dat_psp_create(there->ia, qual, evd, (DAT_PSP_FLAGS)flags, &psp);

	if (ret == DAT_SUCCESS)
		keep(psp);
	else
		ck_assert_ptr_eq(psp, unwritten);
	return ret;
}

HANDLE_ROWS(dat_psp_create, "the IA", IA, BAD_HANDLE(IA),
	    dat_psp_create(h, 4000, there->cr_evd, CONSUMER, &unwritten));
HANDLE_ROWS(dat_psp_create, "the EVD", EVD, BAD_HANDLE(EVD_CR), create(4000, h, CONSUMER));
ROW(dat_psp_create, "the EVD takes no requests", BAD_HANDLE(EVD_CR),
    create(4000, there->recv_evd, CONSUMER));
ROW(dat_psp_create, "the EVD is another instance's", BAD_HANDLE(EVD_CR),
    create(4000, here->cr_evd, CONSUMER));
ROW(dat_psp_create, "the qualifier is 0", BAD_ARG(2), create(0, there->cr_evd, CONSUMER));
ROW(dat_psp_create, "flags is 2", BAD_ARG(4), create(free_qual(there), there->cr_evd, 2));
ROW(dat_psp_create, "the output is null", BAD_ARG(5),
    dat_psp_create(there->ia, free_qual(there), there->cr_evd, CONSUMER, NULL));
ROW(dat_psp_create, "the qualifier is free", DAT_SUCCESS,
    create(free_qual(there), there->cr_evd, CONSUMER));
ROW(dat_psp_create, "the provider makes the endpoints", DAT_SUCCESS,
    create(free_qual(there), there->cr_evd, PROVIDER));
ROW(dat_psp_create, "a service point of the instance has the qualifier", PLAIN(CONN_QUAL_IN_USE),
    create(busy_qual(), there->cr_evd, CONSUMER));

ROW_DO(dat_psp_create, "a reserved service point has the qualifier", PLAIN(CONN_QUAL_IN_USE))
{
	DAT_CONN_QUAL qual;

	new_rsp(&qual, NULL);
	return create(qual, there->cr_evd, CONSUMER);
}

ROW_DO(dat_psp_create, "another instance of the IA has the qualifier", PLAIN(CONN_QUAL_IN_USE))
{
	struct side other;
	DAT_CONN_QUAL qual;

	side_open_ia(&other, there->name, there->provider.is_thread_safe);
	keep(other.ia);
	other.cr_evd = side_create_evd(&other, 8, DAT_EVD_CR_FLAG);
	listen_any(&other, &qual);
	return create(qual, there->cr_evd, CONSUMER);
}

ROW_DO(dat_psp_create, "the qualifier is above 65535", DAT_SUCCESS)
{
	return create(LARGE_QUAL, there->cr_evd, CONSUMER);
}

ROW_DO(dat_psp_create, "another qualifier has the same port", PLAIN(CONN_QUAL_IN_USE))
{
	ck_dat(create(LARGE_QUAL, there->cr_evd, CONSUMER));
	return create(SMALLER_QUAL, there->cr_evd, CONSUMER);
}

EVENT_ROW(dat_psp_create, "a peer connects", DAT_CONNECTION_REQUEST_EVENT)
{
	struct pair *pair = new_pair(NULL);
	DAT_CR_ARRIVAL_EVENT_DATA arrival;
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp = keep(listen_any(&pair->server, &qual));
	DAT_EVENT event;

	ck_dat(try_connect(pair->client.ep, there, qual, TIME_LIMIT));
	event = expect_event(pair->server.cr_evd, DAT_CONNECTION_REQUEST_EVENT);
	arrival = event.event_data.cr_arrival_event_data;
	keep(arrival.cr_handle);
	ck_assert_ptr_eq(arrival.sp_handle.psp_handle, psp);
	ck_assert_uint_eq(arrival.conn_qual, qual);
	ck_assert_ptr_nonnull(arrival.local_ia_address_ptr);
	return event.event_number;
}

EVENT_ROW(dat_psp_create, "a peer connects, and its EVD is full: at the peer",
	  DAT_CONNECTION_EVENT_NON_PEER_REJECTED)
{
	struct pair *first = new_pair(NULL), *second = new_pair(NULL);
	DAT_EVD_HANDLE evd = new_cr_evd(1);
	DAT_CNO_HANDLE cno;
	DAT_CONN_QUAL qual = free_qual(there);
	DAT_EVENT_NUMBER number;
	DAT_EVENT event;

	ck_dat(dat_cno_create(there->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	keep(cno);
	ck_dat(dat_evd_modify_cno(evd, cno));
	ck_dat(create(qual, evd, CONSUMER));
	ck_dat(try_connect(first->client.ep, there, qual, TIME_LIMIT));
	ck_dat(dat_cno_wait(cno, TIME_LIMIT, &(DAT_EVD_HANDLE){ 0 })); /* the event stays there */
	ck_dat(try_connect(second->client.ep, there, qual, TIME_LIMIT));
	number = event_of(second->client.connect_evd);
	ck_dat(dat_evd_dequeue(evd, &event));
	keep(event.event_data.cr_arrival_event_data.cr_handle);
	ck_dat(dat_evd_modify_cno(evd, DAT_HANDLE_NULL));
	return number;
}

/* ---- dat_psp_create_any ---- */

static DAT_RETURN create_any(DAT_EVD_HANDLE evd, int flags)
{
	DAT_CONN_QUAL qual = 0;
	DAT_PSP_HANDLE psp = unwritten;
	DAT_RETURN ret = dat_psp_create_any(there->ia, &qual, evd, (DAT_PSP_FLAGS)flags, &psp);

	if (ret != DAT_SUCCESS) {
		ck_assert(psp == unwritten && qual == 0);
		return ret;
	}
	keep(psp);
	ck_assert_uint_ge(qual, 1024);
	ck_assert_uint_le(qual, 65535);
	return ret;
}

static DAT_CONN_QUAL any_qual;

HANDLE_ROWS(dat_psp_create_any, "the IA", IA, BAD_HANDLE(IA),
	    dat_psp_create_any(h, &any_qual, there->cr_evd, CONSUMER, &unwritten));
HANDLE_ROWS(dat_psp_create_any, "the EVD", EVD, BAD_HANDLE(EVD_CR), create_any(h, CONSUMER));
ROW(dat_psp_create_any, "the EVD takes no requests", BAD_HANDLE(EVD_CR),
    create_any(there->recv_evd, CONSUMER));
ROW(dat_psp_create_any, "the qualifier's address is null", BAD_ARG(2),
    dat_psp_create_any(there->ia, NULL, there->cr_evd, CONSUMER, &unwritten));
ROW(dat_psp_create_any, "flags is 2", BAD_ARG(4), create_any(there->cr_evd, 2));
ROW(dat_psp_create_any, "the output is null", BAD_ARG(5),
    dat_psp_create_any(there->ia, &any_qual, there->cr_evd, CONSUMER, NULL));
ROW(dat_psp_create_any, "a qualifier is free", DAT_SUCCESS, create_any(there->cr_evd, CONSUMER));
ROW(dat_psp_create_any, "the provider makes the endpoints", DAT_SUCCESS,
    create_any(there->cr_evd, PROVIDER));

/* ---- dat_psp_query, dat_psp_free ---- */

static DAT_PSP_PARAM psp_param;
static DAT_CONN_QUAL some_qual;

HANDLE_ROWS(dat_psp_query, "the service point", PSP, BAD_HANDLE(PSP),
	    dat_psp_query(h, DAT_PSP_FIELD_ALL, &psp_param));
ROW(dat_psp_query, "the mask has an unknown bit, which is ignored", DAT_SUCCESS,
    dat_psp_query(new_psp(&some_qual), (DAT_PSP_PARAM_MASK)0x10, &psp_param));
ROW(dat_psp_query, "the output is null", BAD_ARG(3),
    dat_psp_query(new_psp(&some_qual), DAT_PSP_FIELD_ALL, NULL));
ROW(dat_psp_query, "the mask is 0", DAT_SUCCESS,
    dat_psp_query(new_psp(&some_qual), (DAT_PSP_PARAM_MASK)0, &psp_param));

ROW_DO(dat_psp_query, "all fields, with the consumer's qualifier", DAT_SUCCESS)
{
	DAT_PSP_HANDLE psp;
	DAT_RETURN ret;

	ck_dat(dat_psp_create(there->ia, LARGE_QUAL, there->cr_evd, PROVIDER, &psp));
	ret = dat_psp_query(keep(psp), DAT_PSP_FIELD_ALL, &psp_param);
	ck_assert_ptr_eq(psp_param.ia_handle, there->ia);
	ck_assert_uint_eq(psp_param.conn_qual, LARGE_QUAL);
	ck_assert_ptr_eq(psp_param.evd_handle, there->cr_evd);
	ck_assert_int_eq(psp_param.psp_flags, PROVIDER);
	return ret;
}

HANDLE_ROWS(dat_psp_free, "the service point", PSP, BAD_HANDLE(PSP), dat_psp_free(h));
ROW(dat_psp_free, "nobody has connected", DAT_SUCCESS, dat_psp_free(new_psp(&some_qual)));

ROW_DO(dat_psp_free, "a request waits, which can be accepted still", DAT_SUCCESS)
{
	struct pair *pair = new_pair(NULL);
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp = listen_any(&pair->server, &qual);
	DAT_CR_HANDLE cr;
	DAT_RETURN ret;

	ck_dat(try_connect(pair->client.ep, there, qual, TIME_LIMIT));
	cr = expect_cr(&pair->server);
	ret = dat_psp_free(psp);
	ck_dat(dat_cr_accept(cr, pair->server.ep, 0, NULL));
	expect_established(pair);
	return ret;
}

ROW_DO(dat_psp_free, "the qualifier is free afterwards", DAT_SUCCESS)
{
	DAT_CONN_QUAL qual = free_qual(there);
	DAT_RETURN ret;

	ck_dat(create(qual, there->cr_evd, CONSUMER));
	ret = dat_psp_free(last_kept());
	ck_dat(create(qual, there->cr_evd, CONSUMER));
	return ret;
}

EVENT_ROW(dat_psp_free, "a peer connects afterwards: at the peer",
	  DAT_CONNECTION_EVENT_NON_PEER_REJECTED)
{
	struct pair *pair = new_pair(NULL);

	ck_dat(try_connect(pair->client.ep, there, free_qual(there), TIME_LIMIT));
	return event_of(pair->client.connect_evd);
}

/* ---- dat_rsp_create ---- */

static DAT_RETURN reserve(DAT_CONN_QUAL qual, DAT_EP_HANDLE ep, DAT_EVD_HANDLE evd)
{
	DAT_RSP_HANDLE rsp = unwritten;
	DAT_RETURN ret = dat_rsp_create(there->ia, qual, ep, evd, &rsp);

	if (ret == DAT_SUCCESS)
		keep(rsp);
	else
		ck_assert_ptr_eq(rsp, unwritten);
	return ret;
}

static DAT_EP_HANDLE idle_ep(void)
{
	return new_pair(NULL)->server.ep;
}

HANDLE_ROWS(dat_rsp_create, "the IA", IA, BAD_HANDLE(IA),
	    dat_rsp_create(h, 4000, NULL, there->cr_evd, &unwritten));
HANDLE_ROWS(dat_rsp_create, "the EVD", EVD, BAD_HANDLE(EVD_CR), reserve(4000, idle_ep(), h));
ROW(dat_rsp_create, "the EVD takes no requests", BAD_HANDLE(EVD_CR),
    reserve(4000, idle_ep(), there->recv_evd));
HANDLE_OR_NULL_ROWS(dat_rsp_create, "the endpoint", EP, BAD_HANDLE(EP),
		    reserve(4000, h, there->cr_evd));
ROW(dat_rsp_create, "the endpoint is another instance's", BAD_HANDLE(EP),
    reserve(4000, new_ep(NULL), there->cr_evd));
ROW(dat_rsp_create, "the qualifier is 0", BAD_ARG(2), reserve(0, idle_ep(), there->cr_evd));
ROW(dat_rsp_create, "the output is null", BAD_ARG(5),
    dat_rsp_create(there->ia, free_qual(there), idle_ep(), there->cr_evd, NULL));
ROW(dat_rsp_create, "the qualifier is in use", PLAIN(CONN_QUAL_IN_USE),
    reserve(busy_qual(), idle_ep(), there->cr_evd));
ROW(dat_rsp_create, "the endpoint is null, and the provider will make one", DAT_SUCCESS,
    reserve(free_qual(there), DAT_HANDLE_NULL, there->cr_evd));

ROW_DO(dat_rsp_create, "the qualifier is in use, and the endpoint stays as it was",
       PLAIN(CONN_QUAL_IN_USE))
{
	DAT_EP_HANDLE ep = idle_ep();
	DAT_RETURN ret = reserve(busy_qual(), ep, there->cr_evd);

	ck_assert_int_eq(ep_get_state(ep), DAT_EP_STATE_UNCONNECTED);
	return ret;
}

EVENT_ROW(dat_rsp_create, "a peer connects", DAT_CONNECTION_REQUEST_EVENT)
{
	struct pair *pair;
	DAT_CONN_QUAL qual;
	DAT_RSP_HANDLE rsp = new_rsp(&qual, &pair);
	DAT_EVENT event;
	DAT_CR_PARAM param;

	ck_dat(try_connect(pair->client.ep, there, qual, TIME_LIMIT));
	event = expect_event(pair->server.cr_evd, DAT_CONNECTION_REQUEST_EVENT);
	ck_assert_ptr_eq(event.event_data.cr_arrival_event_data.sp_handle.rsp_handle, rsp);
	ck_dat(dat_cr_query(keep(event.event_data.cr_arrival_event_data.cr_handle),
			    DAT_CR_FIELD_ALL, &param));
	ck_assert_ptr_eq(param.local_ep_handle, pair->server.ep);
	return event.event_number;
}

/* The connection of a reserved endpoint. */
static struct pair *rsp_request(DAT_CR_HANDLE *cr, DAT_RSP_HANDLE *rsp)
{
	struct pair *pair;
	DAT_CONN_QUAL qual;

	*rsp = new_rsp(&qual, &pair);
	ck_dat(try_connect(pair->client.ep, there, qual, TIME_LIMIT));
	*cr = keep(expect_cr(&pair->server));
	return pair;
}

EVENT_ROW(dat_rsp_create, "a second peer connects: at that peer",
	  DAT_CONNECTION_EVENT_NON_PEER_REJECTED)
{
	DAT_CR_HANDLE cr;
	DAT_RSP_HANDLE rsp;
	DAT_RSP_PARAM param;
	struct pair *pair;

	rsp_request(&cr, &rsp);
	ck_dat(dat_rsp_query(rsp, DAT_RSP_FIELD_ALL, &param));
	pair = new_pair(NULL);
	ck_dat(try_connect(pair->client.ep, there, param.conn_qual, TIME_LIMIT));
	return event_of(pair->client.connect_evd);
}

/* ---- dat_rsp_query, dat_rsp_free ---- */

static DAT_RSP_PARAM rsp_param;

HANDLE_ROWS(dat_rsp_query, "the service point", RSP, BAD_HANDLE(RSP),
	    dat_rsp_query(h, DAT_RSP_FIELD_ALL, &rsp_param));
ROW(dat_rsp_query, "the mask has an unknown bit, which is ignored", DAT_SUCCESS,
    dat_rsp_query(new_rsp(&some_qual, NULL), (DAT_RSP_PARAM_MASK)0x10, &rsp_param));
ROW(dat_rsp_query, "the output is null", BAD_ARG(3),
    dat_rsp_query(new_rsp(&some_qual, NULL), DAT_RSP_FIELD_ALL, NULL));
ROW(dat_rsp_query, "the mask is 0", DAT_SUCCESS,
    dat_rsp_query(new_rsp(&some_qual, NULL), (DAT_RSP_PARAM_MASK)0, &rsp_param));

ROW_DO(dat_rsp_query, "all fields", DAT_SUCCESS)
{
	struct pair *pair;
	DAT_CONN_QUAL qual;
	DAT_RETURN ret = dat_rsp_query(new_rsp(&qual, &pair), DAT_RSP_FIELD_ALL, &rsp_param);

	ck_assert_ptr_eq(rsp_param.ia_handle, there->ia);
	ck_assert_uint_eq(rsp_param.conn_qual, qual);
	ck_assert_ptr_eq(rsp_param.evd_handle, pair->server.cr_evd);
	ck_assert_ptr_eq(rsp_param.ep_handle, pair->server.ep);
	return ret;
}

ROW_DO(dat_rsp_query, "its request has arrived", DAT_SUCCESS)
{
	DAT_CR_HANDLE cr;
	DAT_RSP_HANDLE rsp;
	struct pair *pair = rsp_request(&cr, &rsp);
	DAT_RETURN ret = dat_rsp_query(rsp, DAT_RSP_FIELD_ALL, &rsp_param);

	ck_assert_ptr_eq(rsp_param.ep_handle, pair->server.ep);
	return ret;
}

HANDLE_ROWS(dat_rsp_free, "the service point", RSP, BAD_HANDLE(RSP), dat_rsp_free(h));

ROW_DO(dat_rsp_free, "nobody has connected, and the endpoint is unconnected again", DAT_SUCCESS)
{
	struct pair *pair;
	DAT_CONN_QUAL qual;
	DAT_RETURN ret = dat_rsp_free(new_rsp(&qual, &pair));

	ck_assert_int_eq(ep_get_state(pair->server.ep), DAT_EP_STATE_UNCONNECTED);
	return ret;
}

ROW_DO(dat_rsp_free, "its request has arrived, which can be accepted still", DAT_SUCCESS)
{
	DAT_CR_HANDLE cr;
	DAT_RSP_HANDLE rsp;
	struct pair *pair = rsp_request(&cr, &rsp);
	DAT_RETURN ret = dat_rsp_free(rsp);

	ck_dat(dat_cr_accept(cr, DAT_HANDLE_NULL, 0, NULL));
	expect_established(pair);
	return ret;
}

ROW_DO(dat_rsp_free, "its connection is established", DAT_SUCCESS)
{
	DAT_CR_HANDLE cr;
	DAT_RSP_HANDLE rsp;
	struct pair *pair = rsp_request(&cr, &rsp);

	ck_dat(dat_cr_accept(cr, DAT_HANDLE_NULL, 0, NULL));
	expect_established(pair);
	return dat_rsp_free(rsp);
}

/* ---- dat_cr_query ---- */

static DAT_CR_PARAM cr_param;

HANDLE_ROWS(dat_cr_query, "the request", CR, BAD_HANDLE(CR),
	    dat_cr_query(h, DAT_CR_FIELD_ALL, &cr_param));
ROW(dat_cr_query, "the mask has an unknown bit, which is ignored", DAT_SUCCESS,
    dat_cr_query(new_cr(), (DAT_CR_PARAM_MASK)0x20, &cr_param));
ROW(dat_cr_query, "the output is null", BAD_ARG(3), dat_cr_query(new_cr(), DAT_CR_FIELD_ALL, NULL));
ROW(dat_cr_query, "the mask is 0", DAT_SUCCESS,
    dat_cr_query(new_cr(), (DAT_CR_PARAM_MASK)0, &cr_param));

ROW_DO(dat_cr_query, "all fields", DAT_SUCCESS)
{
	DAT_RETURN ret = dat_cr_query(new_cr(), DAT_CR_FIELD_ALL, &cr_param);
	const struct sockaddr_in *remote = (const void *)cr_param.remote_ia_address_ptr;

	ck_assert_uint_eq(remote->sin_addr.s_addr, here->address.sin_addr.s_addr);
	ck_assert_uint_ne(cr_param.remote_port_qual, 0);
	ck_assert_ptr_eq(cr_param.local_ep_handle, DAT_HANDLE_NULL);
	return ret;
}

/* ---- dat_cr_accept ---- */

static char data[4096] = "private data";

/* By the server's endpoint of a new request, which is unchanged if the call fails. */
static DAT_RETURN accept_data(DAT_COUNT size, void *from)
{
	DAT_CR_HANDLE cr;
	struct pair *pair = new_request(&cr);
	DAT_RETURN ret = dat_cr_accept(cr, pair->server.ep, size, from);

	if (ret != DAT_SUCCESS) {
		ck_dat(dat_cr_query(cr, DAT_CR_FIELD_ALL, &cr_param));
		ck_assert_int_eq(ep_get_state(pair->server.ep), DAT_EP_STATE_UNCONNECTED);
		ck_dat(dat_cr_accept(cr, pair->server.ep, 0, NULL));
	}
	expect_established(pair);
	return ret;
}

static DAT_RETURN accept_by(DAT_EP_HANDLE ep)
{
	return dat_cr_accept(new_cr(), ep, 0, NULL);
}

HANDLE_ROWS(dat_cr_accept, "the request", CR, BAD_HANDLE(CR), dat_cr_accept(h, idle_ep(), 0, NULL));
HANDLE_ROWS(dat_cr_accept, "the endpoint", EP, BAD_HANDLE(EP), accept_by(h));
ROW(dat_cr_accept, "the endpoint is another instance's", BAD_HANDLE(EP), accept_by(new_ep(NULL)));
ROW(dat_cr_accept, "the size is negative", BAD_ARG(3), accept_data(-1, data));
ROW(dat_cr_accept, "the size is above the limit", BAD_ARG(3), accept_data(sizeof(data), data));
ROW(dat_cr_accept, "the data is null, and its size is not", BAD_ARG(4), accept_data(1, NULL));
ROW(dat_cr_accept, "without data", DAT_SUCCESS, accept_data(0, NULL));
ROW(dat_cr_accept, "with one byte of data", DAT_SUCCESS, accept_data(1, data));
ROW_DO(dat_cr_accept, "with max_private_data_size bytes of data", DAT_SUCCESS)
{
	DAT_COUNT size = there->provider.max_private_data_size;

	return accept_data(size < (DAT_COUNT)sizeof(data) ? size : (DAT_COUNT)sizeof(data) / 2,
			   data);
}

ROW_DO(dat_cr_accept, "a second time", BAD_HANDLE(CR))
{
	DAT_CR_HANDLE cr;
	struct pair *pair = new_request(&cr);

	ck_dat(dat_cr_accept(cr, pair->server.ep, 0, NULL));
	expect_established(pair);
	return dat_cr_accept(cr, pair->server.ep, 0, NULL);
}

ROW_DO(dat_cr_accept, "the request brings an endpoint, and another is given", BAD_HANDLE(EP))
{
	DAT_CR_HANDLE cr;
	DAT_RSP_HANDLE rsp;

	rsp_request(&cr, &rsp);
	return dat_cr_accept(cr, idle_ep(), 0, NULL);
}

ROW_DO(dat_cr_accept, "the request brings an endpoint, and that is given", BAD_HANDLE(EP))
{
	DAT_CR_HANDLE cr;
	DAT_RSP_HANDLE rsp;
	struct pair *pair = rsp_request(&cr, &rsp);

	return dat_cr_accept(cr, pair->server.ep, 0, NULL);
}

ROW_DO(dat_cr_accept, "the request brings an endpoint, and none is given", DAT_SUCCESS)
{
	DAT_CR_HANDLE cr;
	DAT_RSP_HANDLE rsp;
	struct pair *pair = rsp_request(&cr, &rsp);
	DAT_RETURN ret = dat_cr_accept(cr, DAT_HANDLE_NULL, 0, NULL);

	expect_established(pair);
	return ret;
}

static DAT_RETURN accept_by_incomplete(DAT_PZ_HANDLE pz, DAT_EVD_HANDLE connect_evd)
{
	DAT_EP_HANDLE ep;

	ck_dat(dat_ep_create(there->ia, pz, there->recv_evd, there->request_evd, connect_evd, NULL,
			     &ep));
	return accept_by(keep(ep));
}

ROW(dat_cr_accept, "the endpoint has no zone", BAD_STATE(EP_NOTREADY),
    accept_by_incomplete(DAT_HANDLE_NULL, there->connect_evd));
ROW(dat_cr_accept, "the endpoint has no connect EVD", BAD_STATE(EP_NOTREADY),
    accept_by_incomplete(there->pz, DAT_HANDLE_NULL));

EVENT_ROW(dat_cr_accept, "the peer accepts the reply", DAT_CONNECTION_EVENT_ESTABLISHED)
{
	DAT_CR_HANDLE cr;
	struct pair *pair = new_request(&cr);

	ck_dat(dat_cr_accept(cr, pair->server.ep, 0, NULL));
	return event_of(pair->server.connect_evd);
}

EVENT_ROW(dat_cr_accept, "the peer has given up", DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR,
	  .on = { { "siw", DAT_CONNECTION_EVENT_ESTABLISHED,
		    "TCP takes the reply before it learns that the peer is gone" },
		  { "tcp", DAT_CONNECTION_EVENT_ESTABLISHED,
		    "TCP takes the reply before it learns that the peer is gone" } })
{
	DAT_CR_HANDLE cr;
	struct pair *pair = new_request(&cr);

	ck_dat(dat_ep_disconnect(pair->client.ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_connection(&pair->client, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(dat_cr_accept(cr, pair->server.ep, 0, NULL));
	return event_of(pair->server.connect_evd);
}

/* ---- dat_cr_reject ---- */

HANDLE_ROWS(dat_cr_reject, "the request", CR, BAD_HANDLE(CR), CR_REJECT(h));
ROW(dat_cr_reject, "the peer waits", DAT_SUCCESS, CR_REJECT(new_cr()));

ROW_DO(dat_cr_reject, "a second time", BAD_HANDLE(CR))
{
	DAT_CR_HANDLE cr = new_cr();

	ck_dat(CR_REJECT(cr));
	return CR_REJECT(cr);
}

ROW_DO(dat_cr_reject, "after it was accepted", BAD_HANDLE(CR))
{
	DAT_CR_HANDLE cr;
	struct pair *pair = new_request(&cr);

	ck_dat(dat_cr_accept(cr, pair->server.ep, 0, NULL));
	expect_established(pair);
	return CR_REJECT(cr);
}

ROW_DO(dat_cr_reject, "the peer has given up", DAT_SUCCESS)
{
	DAT_CR_HANDLE cr;
	struct pair *pair = new_request(&cr);

	ck_dat(dat_ep_disconnect(pair->client.ep, DAT_CLOSE_ABRUPT_FLAG));
	return CR_REJECT(cr);
}

EVENT_ROW(dat_cr_reject, "at the peer", DAT_CONNECTION_EVENT_PEER_REJECTED)
{
	DAT_CR_HANDLE cr;
	struct pair *pair = new_request(&cr);

	ck_dat(CR_REJECT(cr));
	return event_of(pair->client.connect_evd);
}

STATE_ROW(dat_cr_reject, "the endpoint that was reserved", DAT_EP_STATE_UNCONNECTED)
{
	DAT_CR_HANDLE cr;
	DAT_RSP_HANDLE rsp;
	struct pair *pair = rsp_request(&cr, &rsp);

	post_recv(pair->server.ep, 1, segment(there, 0, 8));
	ck_dat(CR_REJECT(cr));
	expect_no_event(pair->server.recv_evd); /* it stays posted */
	return ep_get_state(pair->server.ep);
}

ROW_DO(dat_cr_reject, "the provider's endpoint, which is destroyed", DAT_SUCCESS)
{
	DAT_EP_HANDLE ep = new_ep_in(DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
	DAT_RETURN ret = CR_REJECT(last_kept());

	ck_dat_is(dat_ep_free(ep), BAD_HANDLE(EP));
	return ret;
}

/* ---- dat_cr_handoff ---- */

HANDLE_ROWS(dat_cr_handoff, "the request", CR, BAD_HANDLE(CR), dat_cr_handoff(h, 4000));
ROW(dat_cr_handoff, "nobody listens there", BAD_ARG(2), dat_cr_handoff(new_cr(), free_qual(there)));
ROW(dat_cr_handoff, "the qualifier is 0", BAD_ARG(2), dat_cr_handoff(new_cr(), 0));

ROW_DO(dat_cr_handoff, "its own service point listens there", BAD_ARG(2))
{
	struct pair *pair = new_pair(NULL);
	DAT_CONN_QUAL qual;

	keep(listen_any(&pair->server, &qual));
	ck_dat(try_connect(pair->client.ep, there, qual, TIME_LIMIT));
	return dat_cr_handoff(keep(expect_cr(&pair->server)), qual);
}

ROW_DO(dat_cr_handoff, "the other service point's EVD is full", NO_RESOURCE(MEMORY))
{
	DAT_CONN_QUAL qual = free_qual(there);
	DAT_EVD_HANDLE evd = keep(side_create_evd(there, 1, DAT_EVD_CR_FLAG));
	DAT_CR_HANDLE cr;
	DAT_RETURN ret;
	DAT_EVENT event;

	ck_dat(create(qual, evd, CONSUMER));
	ck_dat(dat_cr_handoff(new_cr(), qual));
	cr = new_cr();
	ret = dat_cr_handoff(cr, qual);
	ck_dat(dat_cr_query(cr, DAT_CR_FIELD_ALL, &cr_param));
	ck_dat(dat_evd_dequeue(evd, &event));
	ck_dat(CR_REJECT(event.event_data.cr_arrival_event_data.cr_handle));
	return ret;
}

ROW_DO(dat_cr_handoff, "another service point listens there, and learns the peer", DAT_SUCCESS)
{
	DAT_CONN_QUAL qual = free_qual(there);
	DAT_EVD_HANDLE evd = new_cr_evd(8);
	DAT_CR_HANDLE cr = new_cr();
	DAT_PORT_QUAL port;
	DAT_RETURN ret;

	ck_dat(create(qual, evd, CONSUMER));
	ck_dat(dat_cr_query(cr, DAT_CR_FIELD_ALL, &cr_param));
	port = cr_param.remote_port_qual;
	ret = dat_cr_handoff(cr, qual);
	cr = keep(expect_event(evd, DAT_CONNECTION_REQUEST_EVENT)
			  .event_data.cr_arrival_event_data.cr_handle);
	ck_dat(dat_cr_query(cr, DAT_CR_FIELD_ALL, &cr_param));
	ck_assert_uint_eq(cr_param.remote_port_qual, port);
	return ret;
}

EVENT_ROW(dat_cr_handoff, "another service point listens there", DAT_CONNECTION_REQUEST_EVENT)
{
	DAT_CONN_QUAL qual = free_qual(there);
	DAT_EVD_HANDLE evd = new_cr_evd(8);
	DAT_CR_HANDLE cr;
	struct pair *pair = new_request(&cr);
	DAT_EVENT event;

	ck_dat(create(qual, evd, CONSUMER));
	ck_dat(dat_cr_handoff(cr, qual));
	ck_dat_is(CR_REJECT(cr), BAD_HANDLE(CR));
	event = expect_event(evd, DAT_CONNECTION_REQUEST_EVENT);
	ck_assert_uint_eq(event.event_data.cr_arrival_event_data.conn_qual, qual);
	ck_dat(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, pair->server.ep, 0,
			     NULL));
	expect_established(pair);
	return event.event_number;
}

STATE_ROW(dat_cr_handoff, "to a reserved service point: its endpoint",
	  DAT_EP_STATE_PASSIVE_CONNECTION_PENDING)
{
	DAT_CONN_QUAL qual;
	struct pair *pair;
	DAT_CR_HANDLE cr = new_cr();

	new_rsp(&qual, &pair);
	ck_dat(dat_cr_handoff(cr, qual));
	keep(expect_cr(&pair->server));
	return ep_get_state(pair->server.ep);
}

STATE_ROW(dat_cr_handoff, "from a reserved service point: its endpoint", DAT_EP_STATE_UNCONNECTED)
{
	DAT_CR_HANDLE cr;
	DAT_RSP_HANDLE rsp;
	DAT_CONN_QUAL qual = free_qual(there);
	DAT_EVD_HANDLE evd = new_cr_evd(8);
	struct pair *pair = rsp_request(&cr, &rsp);

	ck_dat(create(qual, evd, CONSUMER));
	ck_dat(dat_cr_handoff(cr, qual));
	keep(expect_event(evd, DAT_CONNECTION_REQUEST_EVENT)
		     .event_data.cr_arrival_event_data.cr_handle);
	return ep_get_state(pair->server.ep);
}

/* ---- dat_ep_connect ---- */

static DAT_RETURN connect_to(const void *address, DAT_CONN_QUAL qual, DAT_TIMEOUT timeout,
			     DAT_COUNT size, void *from, int qos, int flags)
{
	DAT_EP_HANDLE ep = new_ep(NULL);
	DAT_RETURN ret = dat_ep_connect(ep, (DAT_IA_ADDRESS_PTR)(uintptr_t)address, qual, timeout,
					size, from, (DAT_QOS)qos, (DAT_CONNECT_FLAGS)flags);

	if (ret != DAT_SUCCESS)
		ck_assert_int_eq(ep_get_state(ep), DAT_EP_STATE_UNCONNECTED);
	return ret;
}

static DAT_RETURN connect_data(DAT_COUNT size, void *from)
{
	return connect_to(&there->address, free_qual(there), TIME_LIMIT, size, from, 0, 0);
}

static DAT_RETURN connect_address(int family, const char *address)
{
	struct sockaddr_in to = there->address;

	to.sin_family = (sa_family_t)family;
	to.sin_addr.s_addr = inet_addr(address);
	return connect_to(&to, 4000, TIME_LIMIT, 0, NULL, 0, 0);
}

static DAT_RETURN connect_incomplete(DAT_PZ_HANDLE pz, DAT_EVD_HANDLE connect_evd)
{
	DAT_EP_HANDLE ep;

	ck_dat(dat_ep_create(here->ia, pz, here->recv_evd, here->request_evd, connect_evd, NULL,
			     &ep));
	return try_connect(keep(ep), there, 4000, TIME_LIMIT);
}

HANDLE_ROWS(dat_ep_connect, "the endpoint", EP, BAD_HANDLE(EP),
	    try_connect(h, there, 4000, TIME_LIMIT));
ROW(dat_ep_connect, "the endpoint has no connect EVD", BAD_HANDLE(EVD_CONN),
    connect_incomplete(here->pz, DAT_HANDLE_NULL));
ROW(dat_ep_connect, "the endpoint has no zone", BAD_STATE(EP_NOTREADY),
    connect_incomplete(DAT_HANDLE_NULL, here->connect_evd));
ROW(dat_ep_connect, "the address is null", BAD_ARG(2),
    connect_to(NULL, 4000, TIME_LIMIT, 0, NULL, 0, 0));
ROW(dat_ep_connect, "the qualifier is 0", BAD_ARG(3),
    connect_to(&there->address, 0, TIME_LIMIT, 0, NULL, 0, 0));
ROW(dat_ep_connect, "the timeout is 0", BAD_ARG(4),
    connect_to(&there->address, 4000, 0, 0, NULL, 0, 0));
ROW(dat_ep_connect, "the size is negative", BAD_ARG(5), connect_data(-1, data));
ROW(dat_ep_connect, "the size is above max_private_data_size", BAD_ARG(5),
    connect_data(here->provider.max_private_data_size + 1, data));
ROW(dat_ep_connect, "the data is null, and its size is not", BAD_ARG(6), connect_data(1, NULL));
ROW(dat_ep_connect, "the size is max_private_data_size", DAT_SUCCESS,
    connect_data(here->provider.max_private_data_size, data));
ROW(dat_ep_connect, "an unknown quality of service", NOT_SUPPORTED,
    connect_to(&there->address, 4000, TIME_LIMIT, 0, NULL, 0x10, 0));
ROW(dat_ep_connect, "an unknown flag", BAD_ARG(8),
    connect_to(&there->address, 4000, TIME_LIMIT, 0, NULL, 0, OF_EDITION(2, 4)));
#if DAT_EDITION == 2
ROW(dat_ep_connect, "several paths are required, which are not supported", NOT_SUPPORTED,
    connect_to(&there->address, 4000, TIME_LIMIT, 0, NULL, 0, DAT_CONNECT_MULTIPATH_REQUIRED_FLAG));
ROW(dat_ep_connect, "several paths are requested, and there is one", DAT_SUCCESS,
    connect_to(&there->address, 4000, TIME_LIMIT, 0, NULL, 0,
	       DAT_CONNECT_MULTIPATH_REQUESTED_FLAG));
#else
ROW(dat_ep_connect, "several paths, which are not supported", NOT_SUPPORTED,
    connect_to(&there->address, 4000, TIME_LIMIT, 0, NULL, 0, DAT_CONNECT_MULTIPATH_FLAG));
#endif
ROW(dat_ep_connect, "an address of an unknown family",
    DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED), connect_address(99, "10.0.0.1"));
ROW(dat_ep_connect, "a multicast address",
    DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED),
    connect_address(AF_INET, "224.0.0.1"));
ROW(dat_ep_connect, "the broadcast address",
    DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED),
    connect_address(AF_INET, "255.255.255.255"));
ROW(dat_ep_connect, "the unspecified address",
    DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED),
    connect_address(AF_INET, "0.0.0.0"));
ROW(dat_ep_connect, "the timeout is infinite", DAT_SUCCESS,
    connect_to(&there->address, free_qual(there), DAT_TIMEOUT_INFINITE, 0, NULL, 0, 0));

EVENT_ROW(dat_ep_connect, "the peer accepts", DAT_CONNECTION_EVENT_ESTABLISHED)
{
	DAT_CR_HANDLE cr;
	struct pair *pair = new_request(&cr);

	ck_dat(dat_cr_accept(cr, pair->server.ep, 0, NULL));
	return event_of(pair->client.connect_evd);
}

EVENT_ROW(dat_ep_connect, "nobody listens", DAT_CONNECTION_EVENT_NON_PEER_REJECTED)
{
	struct pair *pair = new_pair(NULL);

	post_recv(pair->client.ep, 1, segment(here, 0, 8));
	ck_dat(try_connect(pair->client.ep, there, free_qual(there), TIME_LIMIT));
	ck_assert_int_eq(completion_of(pair->client.recv_evd, 1), DAT_DTO_ERR_FLUSHED);
	return event_of(pair->client.connect_evd);
}

EVENT_ROW(dat_ep_connect, "the peer does not answer in time", DAT_CONNECTION_EVENT_TIMED_OUT)
{
	struct pair *pair = new_pair(NULL);
	DAT_CONN_QUAL qual;

	keep(listen_any(&pair->server, &qual));
	keep(request_given_up(pair, qual));
	return DAT_CONNECTION_EVENT_TIMED_OUT;
}

EVENT_ROW(dat_ep_connect, "nobody has the address", DAT_CONNECTION_EVENT_UNREACHABLE,
	  .needs = NEEDS_FREE_ADDRESSES)
{
	struct pair *pair = new_pair(NULL);
	struct sockaddr_in to = there->address;

	to.sin_addr.s_addr = htonl(ntohl(to.sin_addr.s_addr) + 100);
	ck_dat(dat_ep_connect(pair->client.ep, (DAT_IA_ADDRESS_PTR)&to, 4000, TIME_LIMIT, 0, NULL,
			      DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	return event_of(pair->client.connect_evd);
}

EVENT_ROW(dat_ep_connect, "it is disconnected before the peer answers",
	  DAT_CONNECTION_EVENT_DISCONNECTED)
{
	struct pair *pair = new_request(NULL);

	ck_dat(dat_ep_disconnect(pair->client.ep, DAT_CLOSE_ABRUPT_FLAG));
	return event_of(pair->client.connect_evd);
}

ROW_DO(dat_ep_connect, "to itself: its own IA listens", DAT_SUCCESS)
{
	struct pair *pair = new_pair(NULL);
	struct side own = *here;
	DAT_CONN_QUAL qual;
	DAT_EP_HANDLE other = new_ep(NULL);

	own.cr_evd = new_evd(8, DAT_EVD_CR_FLAG);
	keep(listen_any(&own, &qual));
	ck_dat(try_connect(pair->client.ep, here, qual, TIME_LIMIT));
	ck_dat(dat_cr_accept(expect_cr(&own), other, 0, NULL));
	expect_connection(&pair->client, DAT_CONNECTION_EVENT_ESTABLISHED);
	return DAT_SUCCESS;
}

/* ---- dat_ep_disconnect ---- */

HANDLE_ROWS(dat_ep_disconnect, "the endpoint", EP, BAD_HANDLE(EP),
	    dat_ep_disconnect(h, DAT_CLOSE_ABRUPT_FLAG));
#define DISCONNECT_ROW(when, flags)                                                                \
	EVENT_ROW(dat_ep_disconnect, when, DAT_CONNECTION_EVENT_DISCONNECTED)                      \
	{                                                                                          \
		struct pair *pair = new_connection(NULL);                                          \
                                                                                                   \
		ck_dat(dat_ep_disconnect(pair->client.ep, flags));                                 \
		return event_of(pair->client.connect_evd);                                         \
	}                                                                                          \
	struct row

DISCONNECT_ROW("abruptly, connected", DAT_CLOSE_ABRUPT_FLAG);
DISCONNECT_ROW("gracefully, connected", DAT_CLOSE_GRACEFUL_FLAG);
DISCONNECT_ROW("an unknown flag, which is ignored: abruptly", (DAT_CLOSE_FLAGS)2);

EVENT_ROW(dat_ep_disconnect, "at the peer", DAT_CONNECTION_EVENT_DISCONNECTED)
{
	struct pair *pair = new_connection(NULL);

	ck_dat(dat_ep_disconnect(pair->client.ep, DAT_CLOSE_ABRUPT_FLAG));
	return event_of(pair->server.connect_evd);
}

ROW_DO(dat_ep_disconnect, "at both sides at once, and each has one event", DAT_SUCCESS)
{
	struct pair *pair = new_connection(NULL);
	DAT_RETURN ret = dat_ep_disconnect(pair->client.ep, DAT_CLOSE_ABRUPT_FLAG);

	ck_dat(dat_ep_disconnect(pair->server.ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_disconnected(pair);
	expect_no_event(pair->client.connect_evd);
	expect_no_event(pair->server.connect_evd);
	return ret;
}

ROW_DO(dat_ep_disconnect, "a second time, and no event follows", DAT_SUCCESS)
{
	struct pair *pair = new_disconnected();
	DAT_RETURN ret = dat_ep_disconnect(pair->client.ep, DAT_CLOSE_ABRUPT_FLAG);

	expect_no_event(pair->client.connect_evd);
	return ret;
}

STATUS_ROW(dat_ep_disconnect, "a receive that was posted", DAT_DTO_ERR_FLUSHED)
{
	struct pair *pair = new_connection(NULL);

	post_recv(pair->client.ep, 1, segment(here, 0, 8));
	ck_dat(dat_ep_disconnect(pair->client.ep, DAT_CLOSE_GRACEFUL_FLAG));
	return completion_of(pair->client.recv_evd, 1);
}

STATUS_ROW(dat_ep_disconnect, "abruptly: a request that waits for a receive of the peer",
	   DAT_DTO_ERR_FLUSHED, .needs = NEEDS_RNR)
{
	struct pair *pair = new_connection(NULL);

	post_outstanding(&pair->client, &pair->server, 1);
	ck_dat(dat_ep_disconnect(pair->client.ep, DAT_CLOSE_ABRUPT_FLAG));
	return completion_of(pair->client.request_evd, 0);
}

STATUS_ROW(dat_ep_disconnect, "gracefully: a send that the peer has a receive for", DAT_DTO_SUCCESS)
{
	struct pair *pair = new_connection(NULL);

	post_recv(pair->server.ep, 1, segment(there, 0, 8));
	post_send(pair->client.ep, 1, segment(here, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	ck_dat(dat_ep_disconnect(pair->client.ep, DAT_CLOSE_GRACEFUL_FLAG));
	return completion_of(pair->client.request_evd, 1);
}
