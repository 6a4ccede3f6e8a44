/* SPDX-License-Identifier: BSD-2-Clause */
/* The sheet: changes of an endpoint, and connections to where another endpoint is connected. */
#include <string.h>

#include "sheet.h"

/* ---- dat_ep_modify ---- */

/* Of an unconnected endpoint of the client's; nothing changes if the call fails. */
static DAT_RETURN modify(DAT_EP_PARAM_MASK mask, const DAT_EP_PARAM *param)
{
	DAT_EP_HANDLE ep = new_ep(NULL);
	DAT_EP_PARAM before, after;
	DAT_RETURN ret;

	ck_dat(dat_ep_query(ep, DAT_EP_FIELD_ALL, &before));
	ret = dat_ep_modify(ep, mask, param);
	ck_dat(dat_ep_query(ep, DAT_EP_FIELD_ALL, &after));
	if (ret != DAT_SUCCESS) {
		ck_assert_ptr_eq(after.pz_handle, before.pz_handle);
		ck_assert_ptr_eq(after.recv_evd_handle, before.recv_evd_handle);
		ck_assert_ptr_eq(after.connect_evd_handle, before.connect_evd_handle);
		ck_assert_int_eq(after.ep_attr.max_recv_dtos, before.ep_attr.max_recv_dtos);
		ck_assert_int_eq(after.ep_attr.max_request_iov, before.ep_attr.max_request_iov);
	}
	return ret;
}

/* One member alone; the others of the struct are not looked at. */
#define MODIFY(field, member, value)                                                               \
	({                                                                                         \
		DAT_EP_PARAM param_;                                                               \
                                                                                                   \
		memset(&param_, 0xff, sizeof(param_));                                             \
		param_.member = value;                                                             \
		modify(DAT_EP_FIELD_##field, &param_);                                             \
	})
#define MODIFY_ROW(when, want, field, member, value, ...)                                          \
	ROW(dat_ep_modify, when, want, MODIFY(field, member, value), __VA_ARGS__)

static DAT_EP_PARAM some_param;

HANDLE_ROWS(dat_ep_modify, "the endpoint", EP, BAD_HANDLE(EP),
	    dat_ep_modify(h, DAT_EP_FIELD_PZ_HANDLE, &some_param));
ROW(dat_ep_modify, "the mask is 0", DAT_SUCCESS, modify(0, &some_param));
ROW(dat_ep_modify, "the members are null", BAD_ARG(3), modify(DAT_EP_FIELD_PZ_HANDLE, NULL));
ROW(dat_ep_modify, "the mask has an unknown bit, which is ignored", DAT_SUCCESS,
    modify(UINT64_C(0x80000000), &some_param));
ROW(dat_ep_modify, "its IA", BAD_ARG(2), modify(DAT_EP_FIELD_IA_HANDLE, &some_param));
ROW(dat_ep_modify, "its state", BAD_ARG(2), modify(DAT_EP_FIELD_EP_STATE, &some_param));
ROW(dat_ep_modify, "its address", BAD_ARG(2),
    modify(DAT_EP_FIELD_LOCAL_IA_ADDRESS_PTR, &some_param));
ROW(dat_ep_modify, "its port", BAD_ARG(2), modify(DAT_EP_FIELD_LOCAL_PORT_QUAL, &some_param));
ROW(dat_ep_modify, "the peer's address", BAD_ARG(2),
    modify(DAT_EP_FIELD_REMOTE_IA_ADDRESS_PTR, &some_param));
ROW(dat_ep_modify, "the peer's port", BAD_ARG(2),
    modify(DAT_EP_FIELD_REMOTE_PORT_QUAL, &some_param));
ROW(dat_ep_modify, "its shared receive queue", BAD_ARG(2),
    modify(DAT_EP_FIELD_SRQ_HANDLE, &some_param));
HANDLE_OR_NULL_ROWS(dat_ep_modify, "the zone", PZ, BAD_ARG(3), MODIFY(PZ_HANDLE, pz_handle, h));
HANDLE_OR_NULL_ROWS(dat_ep_modify, "the receive EVD", EVD, BAD_ARG(3),
		    MODIFY(RECV_EVD_HANDLE, recv_evd_handle, h));
HANDLE_OR_NULL_ROWS(dat_ep_modify, "the request EVD", EVD, BAD_ARG(3),
		    MODIFY(REQUEST_EVD_HANDLE, request_evd_handle, h));
HANDLE_OR_NULL_ROWS(dat_ep_modify, "the connect EVD", EVD, BAD_ARG(3),
		    MODIFY(CONNECT_EVD_HANDLE, connect_evd_handle, h));
MODIFY_ROW("the zone is another instance's", BAD_ARG(3), PZ_HANDLE, pz_handle, there->pz);
MODIFY_ROW("the receive EVD takes no completions", BAD_ARG(3), RECV_EVD_HANDLE, recv_evd_handle,
	   here->cr_evd);
MODIFY_ROW("the receive EVD is another instance's", BAD_ARG(3), RECV_EVD_HANDLE, recv_evd_handle,
	   there->recv_evd);
MODIFY_ROW("the request EVD takes no completions", BAD_ARG(3), REQUEST_EVD_HANDLE,
	   request_evd_handle, here->cr_evd);
MODIFY_ROW("the connect EVD takes no connections", BAD_ARG(3), CONNECT_EVD_HANDLE,
	   connect_evd_handle, here->recv_evd);
MODIFY_ROW("an unknown service", BAD_ARG(3), EP_ATTR_SERVICE_TYPE, ep_attr.service_type,
	   (DAT_SERVICE_TYPE)2);
MODIFY_ROW("an unknown quality of service, which is ignored", DAT_SUCCESS, EP_ATTR_QOS, ep_attr.qos,
	   (DAT_QOS)16);
MODIFY_ROW("larger messages than the device has", BAD_ARG(3), EP_ATTR_MAX_MESSAGE_SIZE,
	   ep_attr.max_message_size, here->attr.max_message_size + 1, .needs = NEEDS_SIZE_LIMIT);
MODIFY_ROW("larger RDMA than the device has", BAD_ARG(3), EP_ATTR_MAX_RDMA_SIZE,
	   ep_attr.max_rdma_size, here->attr.max_rdma_size + 1, .needs = NEEDS_SIZE_LIMIT);
MODIFY_ROW("unknown flags of receives, which are ignored", DAT_SUCCESS,
	   EP_ATTR_RECV_COMPLETION_FLAGS, ep_attr.recv_completion_flags,
	   (DAT_COMPLETION_FLAGS)0x20);
MODIFY_ROW("unknown flags of requests, which are ignored", DAT_SUCCESS,
	   EP_ATTR_REQUEST_COMPLETION_FLAGS, ep_attr.request_completion_flags,
	   (DAT_COMPLETION_FLAGS)0x20);
MODIFY_ROW("a negative number of receives", BAD_ARG(3), EP_ATTR_MAX_RECV_DTOS,
	   ep_attr.max_recv_dtos, -1);
MODIFY_ROW("more requests than the device has", BAD_ARG(3), EP_ATTR_MAX_REQUEST_DTOS,
	   ep_attr.max_request_dtos, here->attr.max_dto_per_ep + 1);
MODIFY_ROW("receives of no segment", BAD_ARG(3), EP_ATTR_MAX_RECV_IOV, ep_attr.max_recv_iov, 0);
MODIFY_ROW("requests of more segments than the device has", BAD_ARG(3), EP_ATTR_MAX_REQUEST_IOV,
	   ep_attr.max_request_iov, here->attr.max_iov_segments_per_dto + 1);
MODIFY_ROW("more RDMA reads as the target than the device has", BAD_ARG(3),
	   EP_ATTR_MAX_RDMA_READ_IN, ep_attr.max_rdma_read_in,
	   here->attr.max_rdma_read_per_ep_in + 1);
MODIFY_ROW("a negative number of RDMA reads as the initiator", BAD_ARG(3),
	   EP_ATTR_MAX_RDMA_READ_OUT, ep_attr.max_rdma_read_out, -1);
MODIFY_ROW("a negative number of segments of an RDMA read", BAD_ARG(3), EP_ATTR_MAX_RDMA_READ_IOV,
	   ep_attr.max_rdma_read_iov, -1);
MODIFY_ROW("a negative number of segments of an RDMA write", BAD_ARG(3), EP_ATTR_MAX_RDMA_WRITE_IOV,
	   ep_attr.max_rdma_write_iov, -1);
MODIFY_ROW("attributes of a transport, which are ignored", DAT_SUCCESS, EP_ATTR_NUM_TRANSPORT_ATTR,
	   ep_attr.ep_transport_specific_count, 1);
MODIFY_ROW("attributes of a provider, which are ignored", DAT_SUCCESS, EP_ATTR_NUM_PROVIDER_ATTR,
	   ep_attr.ep_provider_specific_count, 1);

MODIFY_ROW("another zone", DAT_SUCCESS, PZ_HANDLE, pz_handle, new_pz());
MODIFY_ROW("no zone", DAT_SUCCESS, PZ_HANDLE, pz_handle, DAT_HANDLE_NULL);
MODIFY_ROW("another receive EVD", DAT_SUCCESS, RECV_EVD_HANDLE, recv_evd_handle, here->recv_evd);
MODIFY_ROW("no receive EVD", DAT_SUCCESS, RECV_EVD_HANDLE, recv_evd_handle, DAT_HANDLE_NULL);
MODIFY_ROW("another request EVD", DAT_SUCCESS, REQUEST_EVD_HANDLE, request_evd_handle,
	   here->request_evd);
MODIFY_ROW("another connect EVD", DAT_SUCCESS, CONNECT_EVD_HANDLE, connect_evd_handle,
	   here->connect_evd);
MODIFY_ROW("more receives", DAT_SUCCESS, EP_ATTR_MAX_RECV_DTOS, ep_attr.max_recv_dtos, 30);
MODIFY_ROW("fewer requests", DAT_SUCCESS, EP_ATTR_MAX_REQUEST_DTOS, ep_attr.max_request_dtos, 2);
MODIFY_ROW("fewer segments", DAT_SUCCESS, EP_ATTR_MAX_REQUEST_IOV, ep_attr.max_request_iov, 1);
MODIFY_ROW("no RDMA reads", DAT_SUCCESS, EP_ATTR_MAX_RDMA_READ_OUT, ep_attr.max_rdma_read_out, 0);
MODIFY_ROW("UNSIGNALLED requests", DAT_SUCCESS, EP_ATTR_REQUEST_COMPLETION_FLAGS,
	   ep_attr.request_completion_flags, DAT_COMPLETION_UNSIGNALLED_FLAG);
MODIFY_ROW("no attributes of a transport", DAT_SUCCESS, EP_ATTR_NUM_TRANSPORT_ATTR,
	   ep_attr.ep_transport_specific_count, 0);

ROW_DO(dat_ep_modify, "a good and a bad member: neither changes", BAD_ARG(3))
{
	const DAT_EP_PARAM param = { .pz_handle = new_pz(), .recv_evd_handle = here->cr_evd };

	return modify(DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE, &param);
}

ROW_DO(dat_ep_modify, "the zone that it had is free again", DAT_SUCCESS)
{
	DAT_EP_PARAM param = { .pz_handle = new_pz() };
	DAT_PZ_HANDLE old = param.pz_handle;
	DAT_EP_HANDLE ep = new_ep(NULL);
	DAT_RETURN ret;

	ck_dat(dat_ep_modify(ep, DAT_EP_FIELD_PZ_HANDLE, &param));
	ck_dat_is(dat_pz_free(old), BAD_STATE(PZ_IN_USE));
	param.pz_handle = DAT_HANDLE_NULL;
	ret = dat_ep_modify(ep, DAT_EP_FIELD_PZ_HANDLE, &param);
	ck_dat(dat_pz_free(old));
	return ret;
}

ROW_DO(dat_ep_modify, "what was set is what a query shows", DAT_SUCCESS)
{
	DAT_EP_PARAM param = { .connect_evd_handle = here->connect_evd,
			       .ep_attr = { .max_recv_dtos = 9 } };
	DAT_EP_HANDLE ep = new_ep(NULL);
	DAT_RETURN ret = dat_ep_modify(
		ep, DAT_EP_FIELD_CONNECT_EVD_HANDLE | DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, &param);

	ck_dat(dat_ep_query(ep, DAT_EP_FIELD_ALL, &param));
	ck_assert_ptr_eq(param.connect_evd_handle, here->connect_evd);
	ck_assert_int_eq(param.ep_attr.max_recv_dtos, 9);
	return ret;
}

ROW_DO(dat_ep_modify, "receives are posted, and stay, though its queue pair is made anew",
       DAT_SUCCESS)
{
	struct pair *pair = new_pair(NULL);
	const DAT_EP_PARAM param = { .ep_attr = { .max_request_dtos = 40 } };
	DAT_RETURN ret;

	post_recvs(&pair->client, 0, 3);
	ret = dat_ep_modify(pair->client.ep, DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, &param);
	pair_connect(pair);
	for (unsigned i = 0; i < 3; i++) {
		post_send(pair->server.ep, i, segment(there, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
		expect_recv_done(&pair->client, i, 8);
	}
	return ret;
}

ROW_DO(dat_ep_modify, "flags of receives, and receives are posted", BAD_STATE(EP_UNCONNECTED))
{
	const DAT_EP_PARAM param = {
		.ep_attr = { .recv_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG },
	};
	DAT_EP_HANDLE ep = new_ep(NULL);

	post_recv(ep, 1, segment(here, 0, 8));
	return dat_ep_modify(ep, DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS, &param);
}

ROW_DO(dat_ep_modify, "fewer receives than are posted", BAD_ARG(3))
{
	const DAT_EP_PARAM param = { .ep_attr = { .max_recv_dtos = 1 } };
	DAT_EP_HANDLE ep = new_ep(NULL);

	for (unsigned i = 0; i < 2; i++)
		post_recv(ep, i, segment(here, 0, 8));
	return dat_ep_modify(ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, &param);
}

EVENT_ROW(dat_ep_modify, "the provider's endpoint gets zone and EVDs, and is accepted with",
	  DAT_CONNECTION_EVENT_ESTABLISHED)
{
	DAT_EP_HANDLE ep = new_ep_in(DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
	DAT_CR_HANDLE cr = last_kept();
	struct pair *pair = new_pair(NULL);
	const DAT_EP_PARAM param = {
		.pz_handle = there->pz,
		.recv_evd_handle = pair->server.recv_evd,
		.request_evd_handle = pair->server.request_evd,
		.connect_evd_handle = pair->server.connect_evd,
	};

	ck_dat_is(dat_cr_accept(cr, DAT_HANDLE_NULL, 0, NULL), BAD_STATE(EP_NOTREADY));
	ck_dat(dat_ep_modify(ep,
			     DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
				     DAT_EP_FIELD_REQUEST_EVD_HANDLE |
				     DAT_EP_FIELD_CONNECT_EVD_HANDLE,
			     &param));
	ck_dat(dat_cr_accept(cr, DAT_HANDLE_NULL, 0, NULL));
	keep(ep); /* it is freed before its EVDs */
	return event_of(pair->server.connect_evd);
}

/* ---- dat_ep_dup_connect ---- */

static char data[4096];

/* A connection, whose server listens on. */
static struct pair *new_listening(void)
{
	struct pair *pair = new_pair(NULL);
	DAT_CONN_QUAL qual;

	keep(listen_any(&pair->server, &qual));
	connect_and_accept(pair, qual);
	expect_established(pair);
	return pair;
}

static DAT_RETURN try_dup(DAT_EP_HANDLE ep, DAT_EP_HANDLE of)
{
	return dat_ep_dup_connect(ep, of, TIME_LIMIT, 0, NULL, DAT_QOS_BEST_EFFORT);
}

static DAT_RETURN dup_with(DAT_TIMEOUT timeout, DAT_COUNT size, void *from, int qos)
{
	DAT_EP_HANDLE ep = new_ep(NULL);
	DAT_RETURN ret = dat_ep_dup_connect(ep, new_connection(NULL)->client.ep, timeout, size,
					    from, (DAT_QOS)qos);

	if (ret != DAT_SUCCESS)
		ck_assert_int_eq(ep_get_state(ep), DAT_EP_STATE_UNCONNECTED);
	return ret;
}

static DAT_RETURN dup_incomplete(DAT_PZ_HANDLE pz, DAT_EVD_HANDLE connect_evd)
{
	DAT_EP_HANDLE ep;

	ck_dat(dat_ep_create(here->ia, pz, here->recv_evd, here->request_evd, connect_evd, NULL,
			     &ep));
	return try_dup(keep(ep), here->ep);
}

HANDLE_ROWS(dat_ep_dup_connect, "the endpoint", EP, BAD_HANDLE(EP), try_dup(h, here->ep));
HANDLE_ROWS(dat_ep_dup_connect, "the other endpoint", EP, BAD_HANDLE(EP), try_dup(new_ep(NULL), h));
ROW(dat_ep_dup_connect, "the other endpoint is another instance's", BAD_HANDLE(EP),
    try_dup(new_ep(NULL), there->ep));
ROW(dat_ep_dup_connect, "the endpoint has no connect EVD", BAD_HANDLE(EVD_CONN),
    dup_incomplete(here->pz, DAT_HANDLE_NULL));
ROW(dat_ep_dup_connect, "the endpoint has no zone", BAD_STATE(EP_NOTREADY),
    dup_incomplete(DAT_HANDLE_NULL, here->connect_evd));
ROW(dat_ep_dup_connect, "the timeout is 0", BAD_ARG(3), dup_with(0, 0, NULL, 0));
ROW(dat_ep_dup_connect, "the size is negative", BAD_ARG(4), dup_with(TIME_LIMIT, -1, data, 0));
ROW(dat_ep_dup_connect, "the size is above max_private_data_size", BAD_ARG(4),
    dup_with(TIME_LIMIT, here->provider.max_private_data_size + 1, data, 0));
ROW(dat_ep_dup_connect, "the data is null, and its size is not", BAD_ARG(5),
    dup_with(TIME_LIMIT, 1, NULL, 0));
ROW(dat_ep_dup_connect, "an unknown quality of service", NOT_SUPPORTED,
    dup_with(TIME_LIMIT, 0, NULL, 16));
ROW(dat_ep_dup_connect, "the other endpoint connected", DAT_SUCCESS,
    dup_with(TIME_LIMIT, 1, data, 0));

EVENT_ROW(dat_ep_dup_connect, "the peer accepts", DAT_CONNECTION_EVENT_ESTABLISHED)
{
	struct pair *pair = new_listening(), *other = new_pair(NULL);

	ck_dat(try_dup(other->client.ep, pair->client.ep));
	ck_dat(dat_cr_accept(expect_cr(&pair->server), other->server.ep, 0, NULL));
	return event_of(other->client.connect_evd);
}

EVENT_ROW(dat_ep_dup_connect, "nobody listens there any more",
	  DAT_CONNECTION_EVENT_NON_PEER_REJECTED)
{
	struct pair *other = new_pair(NULL);

	ck_dat(try_dup(other->client.ep, new_connection(NULL)->client.ep));
	return event_of(other->client.connect_evd);
}

EVENT_ROW(dat_ep_dup_connect, "the peer rejects", DAT_CONNECTION_EVENT_PEER_REJECTED)
{
	struct pair *pair = new_listening(), *other = new_pair(NULL);

	ck_dat(try_dup(other->client.ep, pair->client.ep));
	ck_dat(CR_REJECT(expect_cr(&pair->server)));
	return event_of(other->client.connect_evd);
}
