/* SPDX-License-Identifier: BSD-2-Clause */
/* The sheet: endpoints. What depends on their states is in sheet_states.c. */
#include <limits.h>
#include <netinet/in.h>
#include <string.h>

#include "sheet.h"

static DAT_EP_HANDLE ep_out;
static DAT_EP_PARAM param;

/* ---- dat_ep_create ---- */

static DAT_RETURN create_on(DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv, DAT_EVD_HANDLE request,
			    DAT_EVD_HANDLE connect, const DAT_EP_ATTR *attr)
{
	DAT_RETURN ret;

	ep_out = unwritten;
	ret = dat_ep_create(here->ia, pz, recv, request, connect, attr, &ep_out);
	if (ret == DAT_SUCCESS)
		keep(ep_out);
	else
		ck_assert_ptr_eq(ep_out, unwritten);
	return ret;
}

static DAT_RETURN create(const DAT_EP_ATTR *attr)
{
	return create_on(here->pz, here->recv_evd, here->request_evd, here->connect_evd, attr);
}

/* What the endpoint that was created last has. */
static DAT_EP_ATTR created(void)
{
	ck_dat(dat_ep_query(ep_out, DAT_EP_FIELD_ALL, &param));
	return param.ep_attr;
}

/* An endpoint whose attribute @member is @value, and which otherwise is ordinary. */
#define CREATE_WITH(member, value)                                                                 \
	({                                                                                         \
		DAT_EP_ATTR attr_ = ep_attr_for(4, 4);                                             \
		attr_.member = value;                                                              \
		create(&attr_);                                                                    \
	})
#define ATTR_ROW(when, want, member, value, ...)                                                   \
	ROW(dat_ep_create, when, want, CREATE_WITH(member, value), __VA_ARGS__)

HANDLE_ROWS(dat_ep_create, "the IA", IA, BAD_HANDLE(IA),
	    dat_ep_create(h, here->pz, NULL, NULL, NULL, NULL, &unwritten));
HANDLE_OR_NULL_ROWS(dat_ep_create, "the zone", PZ, BAD_HANDLE(PZ),
		    create_on(h, here->recv_evd, here->request_evd, here->connect_evd, NULL));
ROW(dat_ep_create, "the zone is another instance's", BAD_HANDLE(PZ),
    create_on(foreign_handle(HANDLE_PZ), here->recv_evd, here->request_evd, here->connect_evd,
	      NULL));
HANDLE_OR_NULL_ROWS(dat_ep_create, "the receive EVD", EVD, BAD_HANDLE(EVD_RECV),
		    create_on(here->pz, h, here->request_evd, here->connect_evd, NULL));
ROW(dat_ep_create, "the receive EVD takes no completions", BAD_HANDLE(EVD_RECV),
    create_on(here->pz, here->connect_evd, here->request_evd, here->connect_evd, NULL));
ROW(dat_ep_create, "the receive EVD is another instance's", BAD_HANDLE(EVD_RECV),
    create_on(here->pz, foreign_evd(DAT_EVD_DTO_FLAG), here->request_evd, here->connect_evd, NULL));
HANDLE_OR_NULL_ROWS(dat_ep_create, "the request EVD", EVD, BAD_HANDLE(EVD_REQUEST),
		    create_on(here->pz, here->recv_evd, h, here->connect_evd, NULL));
ROW(dat_ep_create, "the request EVD takes no completions", BAD_HANDLE(EVD_REQUEST),
    create_on(here->pz, here->recv_evd, here->connect_evd, here->connect_evd, NULL));
ROW(dat_ep_create, "the request EVD is another instance's", BAD_HANDLE(EVD_REQUEST),
    create_on(here->pz, here->recv_evd, foreign_evd(DAT_EVD_DTO_FLAG), here->connect_evd, NULL));
HANDLE_OR_NULL_ROWS(dat_ep_create, "the connect EVD", EVD, BAD_HANDLE(EVD_CONN),
		    create_on(here->pz, here->recv_evd, here->request_evd, h, NULL));
ROW(dat_ep_create, "the connect EVD takes no connections", BAD_HANDLE(EVD_CONN),
    create_on(here->pz, here->recv_evd, here->request_evd, here->recv_evd, NULL));
/* OFED's dapltest lives by it. */
ROW(dat_ep_create, "the connect EVD is another instance's", DAT_SUCCESS,
    create_on(here->pz, here->recv_evd, here->request_evd, foreign_evd(DAT_EVD_CONNECTION_FLAG),
	      NULL));
ROW(dat_ep_create, "the output is null", BAD_ARG(7),
    dat_ep_create(here->ia, here->pz, NULL, NULL, NULL, NULL, NULL));

ATTR_ROW("an unknown service", BAD_ARG(6), service_type, (DAT_SERVICE_TYPE)2);
ATTR_ROW("a negative number of receives", BAD_ARG(6), max_recv_dtos, -1);
ATTR_ROW("a negative number of requests", BAD_ARG(6), max_request_dtos, -1);
ATTR_ROW("more receives than the device has", BAD_ARG(6), max_recv_dtos,
	 here->attr.max_dto_per_ep + 1);
ATTR_ROW("more requests than the device has", BAD_ARG(6), max_request_dtos,
	 here->attr.max_dto_per_ep + 1);
ATTR_ROW("receives of no segment", BAD_ARG(6), max_recv_iov, 0);
ATTR_ROW("requests of no segment", BAD_ARG(6), max_request_iov, 0);
ATTR_ROW("receives of a negative number of segments", BAD_ARG(6), max_recv_iov, -1);
ATTR_ROW("receives of more segments than the device has", BAD_ARG(6), max_recv_iov,
	 here->attr.max_iov_segments_per_dto + 1);
ATTR_ROW("requests of more segments than the device has", BAD_ARG(6), max_request_iov,
	 here->attr.max_iov_segments_per_dto + 1);
ATTR_ROW("a negative number of RDMA reads as the target", BAD_ARG(6), max_rdma_read_in, -1);
ATTR_ROW("more RDMA reads as the target than the device has", BAD_ARG(6), max_rdma_read_in,
	 here->attr.max_rdma_read_per_ep_in + 1);
ATTR_ROW("a negative number of RDMA reads as the initiator", BAD_ARG(6), max_rdma_read_out, -1);
ATTR_ROW("more RDMA reads as the initiator than the device has", BAD_ARG(6), max_rdma_read_out,
	 here->attr.max_rdma_read_per_ep_out + 1);
ATTR_ROW("a negative number of segments of an RDMA read", BAD_ARG(6), max_rdma_read_iov, -1);
ATTR_ROW("a negative number of segments of an RDMA write", BAD_ARG(6), max_rdma_write_iov, -1);
ATTR_ROW("more segments of an RDMA write than the device has", BAD_ARG(6), max_rdma_write_iov,
	 here->attr.max_iov_segments_per_rdma_write + 1);
ATTR_ROW("larger messages than the device has", BAD_ARG(6), max_message_size,
	 here->attr.max_message_size + 1, .needs = NEEDS_SIZE_LIMIT);
ATTR_ROW("larger RDMA than the device has", BAD_ARG(6), max_rdma_size, here->attr.max_rdma_size + 1,
	 .needs = NEEDS_SIZE_LIMIT);
ATTR_ROW("unknown flags of receives, which are ignored", DAT_SUCCESS, recv_completion_flags,
	 (DAT_COMPLETION_FLAGS)0x20);
ATTR_ROW("unknown flags of requests, which are ignored", DAT_SUCCESS, request_completion_flags,
	 (DAT_COMPLETION_FLAGS)0x20);
ATTR_ROW("an unknown quality of service, which is ignored", DAT_SUCCESS, qos, (DAT_QOS)0x10);
ATTR_ROW("the largest message of the device", DAT_SUCCESS, max_message_size,
	 here->attr.max_message_size);
ATTR_ROW("the largest RDMA of the device", DAT_SUCCESS, max_rdma_size, here->attr.max_rdma_size);
ATTR_ROW("as many segments of a receive as the device has", DAT_SUCCESS, max_recv_iov,
	 here->attr.max_iov_segments_per_dto);
ATTR_ROW("as many RDMA reads as the device has", DAT_SUCCESS, max_rdma_read_out,
	 here->attr.max_rdma_read_per_ep_out);
ATTR_ROW("no RDMA reads", DAT_SUCCESS, max_rdma_read_out, 0);
/* NetPIPE and MVAPICH2 ask for them. */
ATTR_ROW("receives with SUPPRESS, which has no effect", DAT_SUCCESS, recv_completion_flags,
	 DAT_COMPLETION_SUPPRESS_FLAG);
ATTR_ROW("requests with all known flags", DAT_SUCCESS, request_completion_flags,
	 (DAT_COMPLETION_FLAGS)0x1f);
ATTR_ROW("a soft high watermark, which has no meaning without a shared queue", DAT_SUCCESS,
	 srq_soft_hw, -99);

ROW_DO(dat_ep_create, "the attributes are null", DAT_SUCCESS)
{
	DAT_RETURN ret = create(NULL);
	DAT_EP_ATTR attr = created();

	ck_assert_int_eq(attr.service_type, DAT_SERVICE_TYPE_RC);
	ck_assert_int_ge(attr.max_recv_dtos, 16);
	ck_assert_int_ge(attr.max_request_dtos, 16);
	ck_assert_int_ge(attr.max_recv_iov, 1);
	ck_assert_int_ge(attr.max_request_iov, 1);
	ck_assert_int_ge(attr.max_rdma_read_in, 1);
	ck_assert_int_ge(attr.max_rdma_read_out, 1);
	return ret;
}

ROW_DO(dat_ep_create, "the attributes are what dat_ep_query returned", DAT_SUCCESS)
{
	DAT_EP_ATTR attr;

	ck_dat(create(NULL));
	attr = created();
	return create(&attr);
}

ROW_DO(dat_ep_create, "the attributes are met", DAT_SUCCESS)
{
	const DAT_EP_ATTR attr = ep_attr_for(7, 9);
	DAT_RETURN ret = create(&attr);
	DAT_EP_ATTR real = created();

	ck_assert_int_eq(real.max_recv_dtos, 7);
	ck_assert_int_ge(real.max_request_dtos, 9);
	ck_assert_int_eq(real.max_rdma_read_in, 4);
	return ret;
}

ROW(dat_ep_create, "zone and EVDs are null", DAT_SUCCESS, create_on(NULL, NULL, NULL, NULL, NULL));

ROW_DO(dat_ep_create, "the receive EVD is null, and receives are asked for", DAT_SUCCESS)
{
	const DAT_EP_ATTR attr = ep_attr_for(4, 4);

	return create_on(here->pz, NULL, here->request_evd, here->connect_evd, &attr);
}

ROW_DO(dat_ep_create, "no receives, and a receive EVD", DAT_SUCCESS)
{
	const DAT_EP_ATTR attr = ep_attr_for(0, 4);

	return create(&attr);
}

ROW_DO(dat_ep_create, "one EVD has all roles", DAT_SUCCESS)
{
	DAT_EVD_HANDLE evd = new_evd(64, DAT_EVD_DEFAULT_FLAG);

	return create_on(here->pz, evd, evd, evd, NULL);
}

/* ---- dat_ep_query ---- */

HANDLE_ROWS(dat_ep_query, "the endpoint", EP, BAD_HANDLE(EP),
	    dat_ep_query(h, DAT_EP_FIELD_ALL, &param));
/* MVAPICH2 asks so for the state, and does not look at the result. */
ROW_DO(dat_ep_query, "the mask is 0xffff", DAT_SUCCESS)
{
	DAT_RETURN ret;

	param.ep_state = (DAT_EP_STATE)99;
	ret = dat_ep_query(here->ep, 0xffff, &param);
	ck_assert_int_eq(param.ep_state, DAT_EP_STATE_CONNECTED);
	ck_assert_ptr_eq(param.ia_handle, here->ia);
	return ret;
}

#if DAT_EDITION == 2
ROW_DO(dat_ep_query, "it communicates by a stream in the family of its address", DAT_SUCCESS)
{
	DAT_RETURN ret = dat_ep_query(here->ep, DAT_EP_FIELD_COMM, &param);

	ck_assert_int_eq(param.comm.domain, param.local_ia_address_ptr->sa_family);
	ck_assert_int_eq(param.comm.type, SOCK_STREAM);
	ck_assert_int_eq(param.comm.protocol, 0);
	return ret;
}

#endif
ROW(dat_ep_query, "the mask has an unknown bit, which is ignored", DAT_SUCCESS,
    dat_ep_query(here->ep, UINT64_C(0x80000000), &param));
ROW(dat_ep_query, "the output is null", BAD_ARG(3),
    dat_ep_query(here->ep, DAT_EP_FIELD_EP_STATE, NULL));
ROW(dat_ep_query, "the mask is 0", DAT_SUCCESS, dat_ep_query(here->ep, 0, &param));

ROW_DO(dat_ep_query, "all fields of a connected endpoint", DAT_SUCCESS)
{
	DAT_RETURN ret = dat_ep_query(here->ep, DAT_EP_FIELD_ALL, &param);
	const struct sockaddr_in *local = (const void *)param.local_ia_address_ptr;
	const struct sockaddr_in *remote = (const void *)param.remote_ia_address_ptr;

	ck_assert_ptr_eq(param.ia_handle, here->ia);
	ck_assert_int_eq(param.ep_state, DAT_EP_STATE_CONNECTED);
	ck_assert_ptr_eq(param.pz_handle, here->pz);
	ck_assert_ptr_eq(param.recv_evd_handle, here->recv_evd);
	ck_assert_ptr_eq(param.request_evd_handle, here->request_evd);
	ck_assert_ptr_eq(param.connect_evd_handle, here->connect_evd);
	ck_assert_ptr_eq(param.srq_handle, DAT_HANDLE_NULL);
	ck_assert_uint_eq(local->sin_addr.s_addr, here->address.sin_addr.s_addr);
	ck_assert_uint_eq(remote->sin_addr.s_addr, there->address.sin_addr.s_addr);
	ck_assert_uint_ne(param.remote_port_qual, 0);
	return ret;
}

ROW_DO(dat_ep_query, "of an unconnected endpoint, the addresses, which are not null", DAT_SUCCESS)
{
	DAT_RETURN ret = dat_ep_query(new_ep(NULL), DAT_EP_FIELD_ALL, &param);

	ck_assert_ptr_nonnull(param.local_ia_address_ptr);
	ck_assert_ptr_nonnull(param.remote_ia_address_ptr);
	ck_assert_uint_eq(param.remote_port_qual, 0);
	return ret;
}

/* ---- the state after each call ---- */

static DAT_EP_STATE state_of(DAT_EP_STATE state)
{
	return ep_get_state(new_ep_in(state));
}

STATE_ROW(dat_ep_create, "the new endpoint", DAT_EP_STATE_UNCONNECTED)
{
	return state_of(DAT_EP_STATE_UNCONNECTED);
}

STATE_ROW(dat_rsp_create, "the endpoint of the new service point", DAT_EP_STATE_RESERVED)
{
	return state_of(DAT_EP_STATE_RESERVED);
}

STATE_ROW(dat_rsp_create, "the endpoint, after the request arrived",
	  DAT_EP_STATE_PASSIVE_CONNECTION_PENDING)
{
	return state_of(DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
}

STATE_ROW(dat_psp_create, "the provider's endpoint, after the request arrived",
	  DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING)
{
	return state_of(DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
}

STATE_ROW(dat_ep_connect, "the endpoint, before the peer answered",
	  DAT_EP_STATE_ACTIVE_CONNECTION_PENDING)
{
	return state_of(DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
}

STATE_ROW(dat_ep_disconnect, "gracefully, before all requests are done",
	  DAT_EP_STATE_DISCONNECT_PENDING, .needs = NEEDS_RNR)
{
	return state_of(DAT_EP_STATE_DISCONNECT_PENDING);
}

STATE_ROW(dat_ep_disconnect, "after its event", DAT_EP_STATE_DISCONNECTED)
{
	return state_of(DAT_EP_STATE_DISCONNECTED);
}

STATE_ROW(dat_ep_reset, "of a disconnected endpoint", DAT_EP_STATE_UNCONNECTED)
{
	DAT_EP_HANDLE ep = new_ep_in(DAT_EP_STATE_DISCONNECTED);

	ck_dat(dat_ep_reset(ep));
	return ep_get_state(ep);
}

/* ---- dat_ep_get_status ---- */

static DAT_BOOLEAN recv_idle, request_idle;

HANDLE_ROWS(dat_ep_get_status, "the endpoint", EP, BAD_HANDLE(EP),
	    dat_ep_get_status(h, NULL, &recv_idle, &request_idle));
ROW(dat_ep_get_status, "all outputs are null", DAT_SUCCESS,
    dat_ep_get_status(here->ep, NULL, NULL, NULL));

ROW_DO(dat_ep_get_status, "nothing is posted", DAT_SUCCESS)
{
	DAT_RETURN ret = dat_ep_get_status(here->ep, NULL, &recv_idle, &request_idle);

	ck_assert_int_eq(recv_idle, DAT_TRUE);
	ck_assert_int_eq(request_idle, DAT_TRUE);
	return ret;
}

ROW_DO(dat_ep_get_status, "a receive is posted", DAT_SUCCESS)
{
	DAT_EP_HANDLE ep = new_ep(NULL);
	DAT_RETURN ret;

	post_recv(ep, 1, segment(here, 0, 8));
	ret = dat_ep_get_status(ep, NULL, &recv_idle, &request_idle);
	ck_assert_int_eq(recv_idle, DAT_FALSE);
	ck_assert_int_eq(request_idle, DAT_TRUE);
	return ret;
}

ROW_DO(dat_ep_get_status, "a send is posted", DAT_SUCCESS, .needs = NEEDS_RNR)
{
	struct pair *pair = new_connection(NULL);
	DAT_RETURN ret;

	post_send(pair->client.ep, 1, segment(here, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	if (!device_has(NEEDS_SEND_PLACEMENT)) /* what is behind it waits with it */
		post_read(pair->client.ep, 2, segment(here, 0, 8), target(there, 0, 8), 0);
	ret = dat_ep_get_status(pair->client.ep, NULL, &recv_idle, &request_idle);
	ck_assert_int_eq(recv_idle, DAT_TRUE);
	ck_assert_int_eq(request_idle, DAT_FALSE);
	return ret;
}

/* ---- dat_ep_recv_query ---- */

static DAT_COUNT buffers, span;

HANDLE_ROWS(dat_ep_recv_query, "the endpoint", EP, BAD_HANDLE(EP),
	    dat_ep_recv_query(h, &unwritten_count, NULL));
ROW(dat_ep_recv_query, "both outputs are null", DAT_SUCCESS,
    dat_ep_recv_query(here->ep, NULL, NULL));

ROW_DO(dat_ep_recv_query, "three receives are posted", DAT_SUCCESS)
{
	DAT_EP_HANDLE ep = new_ep(NULL);
	DAT_RETURN ret;

	for (unsigned i = 0; i < 3; i++)
		post_recv(ep, i, segment(here, 0, 8));
	ret = dat_ep_recv_query(ep, &buffers, &span);
	ck_assert_int_eq(buffers, 3);
	ck_assert_int_eq(span, 3);
	return ret;
}

ROW_DO(dat_ep_recv_query, "the receives are completed", DAT_SUCCESS)
{
	struct pair *pair = new_connection(NULL);
	DAT_RETURN ret;

	post_recv(pair->client.ep, 1, segment(here, 0, 8));
	post_send(pair->server.ep, 2, segment(there, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	expect_recv_done(&pair->client, 1, 8);
	ret = dat_ep_recv_query(pair->client.ep, &buffers, &span);
	ck_assert_int_eq(buffers, 0);
	ck_assert_int_eq(span, 0);
	return ret;
}

/* ---- dat_ep_set_watermark ---- */

HANDLE_ROWS(dat_ep_set_watermark, "the endpoint", EP, BAD_HANDLE(EP),
	    dat_ep_set_watermark(h, DAT_WATERMARK_INFINITE, DAT_WATERMARK_INFINITE));
ROW(dat_ep_set_watermark, "the soft one is negative", BAD_ARG(2),
    dat_ep_set_watermark(here->ep, -2, DAT_WATERMARK_INFINITE));
ROW(dat_ep_set_watermark, "the soft one is above max_recv_dtos", BAD_ARG(2),
    dat_ep_set_watermark(here->ep, INT_MAX, DAT_WATERMARK_INFINITE));
ROW(dat_ep_set_watermark, "the hard one is negative", BAD_ARG(3),
    dat_ep_set_watermark(here->ep, DAT_WATERMARK_INFINITE, -2));
ROW(dat_ep_set_watermark, "the hard one is above max_recv_dtos", BAD_ARG(3),
    dat_ep_set_watermark(here->ep, DAT_WATERMARK_INFINITE, INT_MAX));
ROW(dat_ep_set_watermark, "the soft one is finite", NOT_SUPPORTED,
    dat_ep_set_watermark(here->ep, 1, DAT_WATERMARK_INFINITE));
ROW(dat_ep_set_watermark, "the hard one is finite", NOT_SUPPORTED,
    dat_ep_set_watermark(here->ep, DAT_WATERMARK_INFINITE, 1));

/* ---- dat_ep_reset, dat_ep_free ---- */

HANDLE_ROWS(dat_ep_reset, "the endpoint", EP, BAD_HANDLE(EP), dat_ep_reset(h));
HANDLE_ROWS(dat_ep_free, "the endpoint", EP, BAD_HANDLE(EP), dat_ep_free(h));

ROW_DO(dat_ep_reset, "it is unconnected, and its receives stay posted", DAT_SUCCESS)
{
	struct pair *pair = new_pair(NULL);
	DAT_RETURN ret;

	post_recv(pair->client.ep, 1, segment(here, 0, 8));
	ret = dat_ep_reset(pair->client.ep);
	pair_connect(pair);
	post_send(pair->server.ep, 2, segment(there, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	expect_recv_done(&pair->client, 1, 8);
	return ret;
}

ROW_DO(dat_ep_reset, "it is disconnected, and connects again", DAT_SUCCESS)
{
	struct pair *pair = new_disconnected();
	DAT_RETURN ret = dat_ep_reset(pair->client.ep);

	ck_dat(dat_ep_reset(pair->server.ep));
	pair_connect(pair);
	return ret;
}

ROW_DO(dat_ep_reset, "the completions that were not taken stay queued", DAT_SUCCESS)
{
	struct pair *pair = new_connection(NULL);
	DAT_RETURN ret;

	post_recvs(&pair->client, 0, 3);
	pair_disconnect(pair, DAT_CLOSE_ABRUPT_FLAG);
	ret = dat_ep_reset(pair->client.ep);
	expect_flushed_recvs(&pair->client, 0, 3);
	return ret;
}

ROW_DO(dat_ep_free, "it is unconnected, with receives posted", DAT_SUCCESS)
{
	DAT_EP_HANDLE ep = new_ep(NULL);

	post_recv(ep, 1, segment(here, 0, 8));
	return dat_ep_free(ep);
}

EVENT_ROW(dat_ep_free, "it is connected: at the peer", DAT_CONNECTION_EVENT_DISCONNECTED)
{
	struct pair *pair = new_connection(NULL);

	ck_dat(dat_ep_free(pair->client.ep));
	return event_of(pair->server.connect_evd);
}
