/* SPDX-License-Identifier: BSD-2-Clause */
/* The sheet: each call that takes an endpoint, in each state of the endpoint. */
#include "sheet.h"

/* ---- an endpoint in each state ---- */

/* The request for the reserved endpoint of @pair has arrived. */
static void request_reserved(struct pair *pair, DAT_CONN_QUAL qual)
{
	ck_dat(try_connect(pair->client.ep, there, qual, TIME_LIMIT));
	keep(expect_cr(&pair->server));
}

static DAT_EP_HANDLE ep_passive(void)
{
	struct pair *pair;
	DAT_CONN_QUAL qual;

	new_rsp(&qual, &pair);
	request_reserved(pair, qual);
	return pair->server.ep;
}

static DAT_EP_HANDLE ep_tentative(void)
{
	struct pair *pair = new_pair(NULL);
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;
	DAT_CR_PARAM param;
	DAT_CR_HANDLE cr;

	ck_dat(dat_psp_create_any(there->ia, &qual, pair->server.cr_evd, DAT_PSP_PROVIDER_FLAG,
				  &psp));
	keep(psp);
	ck_dat(try_connect(pair->client.ep, there, qual, TIME_LIMIT));
	cr = keep(expect_cr(&pair->server));
	ck_dat(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
	return param.local_ep_handle;
}

static DAT_EP_HANDLE ep_active(void)
{
	struct pair *pair = new_pair(NULL);
	DAT_CONN_QUAL qual;

	keep(listen_any(&pair->client, &qual));
	ck_dat(try_connect(pair->server.ep, here, qual, TIME_LIMIT));
	keep(expect_cr(&pair->client));
	return pair->server.ep;
}

/* It waits for a request, which waits for a receive of its peer. */
static DAT_EP_HANDLE ep_disconnecting(void)
{
	struct pair *pair = new_connection(NULL);

	post_outstanding(&pair->server, &pair->client, 1);
	ck_dat(dat_ep_disconnect(pair->server.ep, DAT_CLOSE_GRACEFUL_FLAG));
	return pair->server.ep;
}

static DAT_EP_HANDLE ep_reserved(void)
{
	struct pair *pair;
	DAT_CONN_QUAL qual;

	new_rsp(&qual, &pair);
	return pair->server.ep;
}

DAT_EP_HANDLE new_ep_in(DAT_EP_STATE state)
{
	switch (state) {
	case DAT_EP_STATE_UNCONNECTED:
		return new_pair(NULL)->server.ep;
	case DAT_EP_STATE_RESERVED:
		return ep_reserved();
	case DAT_EP_STATE_PASSIVE_CONNECTION_PENDING:
		return ep_passive();
	case DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING:
		return ep_tentative();
	case DAT_EP_STATE_ACTIVE_CONNECTION_PENDING:
		return ep_active();
	case DAT_EP_STATE_CONNECTED:
		return new_connection(NULL)->server.ep;
	case DAT_EP_STATE_DISCONNECT_PENDING:
		return ep_disconnecting();
	case DAT_EP_STATE_DISCONNECTED:
		return new_disconnected()->server.ep;
	default:
		ck_abort_msg("no endpoint in state %d", state);
	}
}

/* What a call returns that its endpoint's state forbids. */
#define IN_UNC	  BAD_STATE(EP_UNCONNECTED)
#define IN_RES	  BAD_STATE(EP_RESERVED)
#define IN_PASS	  BAD_STATE(EP_PASSCONNPENDING)
#define IN_TENT	  BAD_STATE(EP_TENTCONNPENDING)
#define IN_ACT	  BAD_STATE(EP_ACTCONNPENDING)
#define IN_CONN	  BAD_STATE(EP_CONNECTED)
#define IN_PEND	  BAD_STATE(EP_DISCPENDING)
#define IN_DISC	  BAD_STATE(EP_DISCONNECTED)
#define OK	  DAT_SUCCESS
#define NOT_READY BAD_STATE(EP_NOTREADY)

#define IN_STATE(name, state, call, what, want, ...)                                               \
	ROW_OF(name, ROW_NAME(state_run), call, what ", " #state, want,                            \
	       new_ep_in(DAT_EP_STATE_##state), __VA_ARGS__)

/* Eight rows: @expression, whose endpoint is @ep, returns one of the values that follow. */
#define STATE_ROWS(call, what, expression, w_unc, w_res, w_pass, w_tent, w_act, w_conn, w_pend,    \
		   w_disc)                                                                         \
	static DAT_RETURN ROW_NAME(state_run)(DAT_EP_HANDLE ep)                                    \
	{                                                                                          \
		return expression;                                                                 \
	}                                                                                          \
	IN_STATE(unc, UNCONNECTED, call, what, w_unc)                                              \
	IN_STATE(res, RESERVED, call, what, w_res)                                                 \
	IN_STATE(pass, PASSIVE_CONNECTION_PENDING, call, what, w_pass)                             \
	IN_STATE(tent, TENTATIVE_CONNECTION_PENDING, call, what, w_tent)                           \
	IN_STATE(act, ACTIVE_CONNECTION_PENDING, call, what, w_act)                                \
	IN_STATE(conn, CONNECTED, call, what, w_conn)                                              \
	IN_STATE(pend, DISCONNECT_PENDING, call, what, w_pend, .needs = NEEDS_RNR)                 \
	IN_STATE(disc, DISCONNECTED, call, what, w_disc)                                           \
	struct row

/* ---- calls ---- */

static DAT_EP_PARAM param;
static DAT_EP_STATE state;
static DAT_COUNT buffers, span;

static DAT_RETURN connect_ep(DAT_EP_HANDLE ep)
{
	return try_connect(ep, here, 1, TIME_LIMIT);
}

static DAT_RETURN reserve(DAT_EP_HANDLE ep)
{
	DAT_EVD_HANDLE evd = keep(side_create_evd(there, 8, DAT_EVD_CR_FLAG));
	DAT_RSP_HANDLE rsp;
	DAT_RETURN ret = dat_rsp_create(there->ia, free_qual(there), ep, evd, &rsp);

	if (ret == DAT_SUCCESS)
		keep(rsp);
	return ret;
}

static DAT_RETURN accept_with(DAT_EP_HANDLE ep)
{
	return dat_cr_accept(new_cr(), ep, 0, NULL);
}

static DAT_RETURN post(DAT_RETURN (*call)(DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *,
					  DAT_DTO_COOKIE, DAT_COMPLETION_FLAGS),
		       DAT_EP_HANDLE ep)
{
	DAT_LMR_TRIPLET iov = segment(there, 0, 8);

	return call(ep, 1, &iov, no_cookie, DAT_COMPLETION_DEFAULT_FLAG);
}

static DAT_RETURN post_rdma(DAT_RETURN (*call)(DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *,
					       DAT_DTO_COOKIE, const DAT_RMR_TRIPLET *,
					       DAT_COMPLETION_FLAGS),
			    DAT_EP_HANDLE ep)
{
	DAT_LMR_TRIPLET iov = segment(there, 0, 8);
	const DAT_RMR_TRIPLET remote = target(here, 0, 8);

	return call(ep, 1, &iov, no_cookie, &remote, DAT_COMPLETION_DEFAULT_FLAG);
}

static DAT_RETURN post_a_bind(DAT_EP_HANDLE ep)
{
	const DAT_LMR_TRIPLET range = segment(there, 0, 64);
	DAT_RMR_CONTEXT context;
	DAT_RMR_HANDLE rmr;

	ck_dat(dat_rmr_create(there->pz, &rmr));
	return RMR_BIND(keep(rmr), there->lmr, &range, REMOTE, ep, no_cookie,
			DAT_COMPLETION_DEFAULT_FLAG, &context);
}

/* A member of an endpoint that is set to what it may be. */
#define MODIFY(ep, field, member, value)                                                           \
	({                                                                                         \
		const DAT_EP_PARAM param_ = { .member = value };                                   \
                                                                                                   \
		dat_ep_modify(ep, DAT_EP_FIELD_##field, &param_);                                  \
	})

static DAT_RETURN dup_connect(DAT_EP_HANDLE ep, DAT_EP_HANDLE of)
{
	return dat_ep_dup_connect(ep, of, TIME_LIMIT, 0, NULL, DAT_QOS_BEST_EFFORT);
}

/* An endpoint of the server's that has connected. */
static DAT_EP_HANDLE ep_connected(void)
{
	struct pair *pair = new_pair(NULL);

	connect_eps(&pair->server, pair->server.ep, &pair->client, pair->client.ep);
	return pair->server.ep;
}

/* ---- the table; UNCONNECTED, RESERVED, PASSIVE, TENTATIVE, ACTIVE, CONNECTED, and the end ---- */

STATE_ROWS(dat_ep_query, "query", dat_ep_query(ep, DAT_EP_FIELD_ALL, &param), OK, OK, OK, OK, OK,
	   OK, OK, OK);
STATE_ROWS(dat_ep_get_status, "status", dat_ep_get_status(ep, &state, NULL, NULL), OK, OK, OK, OK,
	   OK, OK, OK, OK);
STATE_ROWS(dat_ep_recv_query, "query", dat_ep_recv_query(ep, &buffers, &span), OK, OK, OK, OK, OK,
	   OK, OK, OK);
STATE_ROWS(dat_ep_set_watermark, "none",
	   dat_ep_set_watermark(ep, DAT_WATERMARK_INFINITE, DAT_WATERMARK_INFINITE), OK, OK, OK, OK,
	   OK, OK, OK, OK);
/* In TENTATIVE_CONNECTION_PENDING it has no EVDs yet, and handles are checked before the state. */
STATE_ROWS(dat_ep_connect, "connect", connect_ep(ep), OK, IN_RES, IN_PASS, BAD_HANDLE(EVD_CONN),
	   IN_ACT, IN_CONN, IN_PEND, IN_DISC);
STATE_ROWS(dat_rsp_create, "reserve", reserve(ep), OK, IN_RES, IN_PASS, IN_TENT, IN_ACT, IN_CONN,
	   IN_PEND, IN_DISC);
STATE_ROWS(dat_cr_accept, "accept another request", accept_with(ep), OK, IN_RES, IN_PASS, IN_TENT,
	   IN_ACT, IN_CONN, IN_PEND, IN_DISC);
STATE_ROWS(dat_ep_disconnect, "abruptly", dat_ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG), IN_UNC,
	   IN_RES, IN_PASS, IN_TENT, OK, OK, OK, OK);
STATE_ROWS(dat_ep_disconnect, "gracefully", dat_ep_disconnect(ep, DAT_CLOSE_GRACEFUL_FLAG), IN_UNC,
	   IN_RES, IN_PASS, IN_TENT, OK, OK, OK, OK);
STATE_ROWS(dat_ep_reset, "reset", dat_ep_reset(ep), OK, IN_RES, IN_PASS, IN_TENT, IN_ACT, IN_CONN,
	   IN_PEND, OK);
STATE_ROWS(dat_ep_free, "free", dat_ep_free(ep), OK, IN_RES, IN_PASS, IN_TENT, OK, OK, OK, OK);
/* An endpoint of the provider has no zone yet. */
STATE_ROWS(dat_ep_post_recv, "post", post(dat_ep_post_recv, ep), OK, OK, OK, NOT_READY, OK, OK, OK,
	   OK);
STATE_ROWS(dat_ep_post_send, "post", post(dat_ep_post_send, ep), IN_UNC, IN_RES, IN_PASS, IN_TENT,
	   IN_ACT, OK, IN_PEND, OK);
STATE_ROWS(dat_ep_post_rdma_write, "post", post_rdma(dat_ep_post_rdma_write, ep), IN_UNC, IN_RES,
	   IN_PASS, IN_TENT, IN_ACT, OK, IN_PEND, OK);
STATE_ROWS(dat_ep_post_rdma_read, "post", post_rdma(dat_ep_post_rdma_read, ep), IN_UNC, IN_RES,
	   IN_PASS, IN_TENT, IN_ACT, OK, IN_PEND, OK);
STATE_ROWS(dat_rmr_bind, "bind", post_a_bind(ep), IN_UNC, IN_RES, IN_PASS, BAD_HANDLE(EVD_REQUEST),
	   IN_ACT, OK, IN_PEND, OK);
STATE_ROWS(dat_ep_modify, "the zone", MODIFY(ep, PZ_HANDLE, pz_handle, there->pz), OK, IN_RES,
	   IN_PASS, OK, IN_ACT, IN_CONN, IN_PEND, IN_DISC);
STATE_ROWS(dat_ep_modify, "the receive EVD",
	   MODIFY(ep, RECV_EVD_HANDLE, recv_evd_handle, there->recv_evd), OK, OK, OK, OK, IN_ACT,
	   IN_CONN, IN_PEND, IN_DISC);
STATE_ROWS(dat_ep_modify, "the number of requests",
	   MODIFY(ep, EP_ATTR_MAX_REQUEST_DTOS, ep_attr.max_request_dtos, 20), OK, OK, OK, OK,
	   IN_ACT, IN_CONN, IN_PEND, IN_DISC);
STATE_ROWS(dat_ep_modify, "flags of requests",
	   MODIFY(ep, EP_ATTR_REQUEST_COMPLETION_FLAGS, ep_attr.request_completion_flags,
		  DAT_COMPLETION_UNSIGNALLED_FLAG),
	   OK, OK, OK, OK, IN_ACT, IN_CONN, IN_PEND, IN_DISC);
STATE_ROWS(dat_ep_modify, "attributes of a transport",
	   MODIFY(ep, EP_ATTR_NUM_TRANSPORT_ATTR, ep_attr.ep_transport_specific_count, 0), OK,
	   IN_RES, IN_PASS, IN_TENT, IN_ACT, IN_CONN, IN_PEND, IN_DISC);
/* Again it has no connect EVD in TENTATIVE_CONNECTION_PENDING. */
STATE_ROWS(dat_ep_dup_connect, "connect", dup_connect(ep, ep_connected()), OK, IN_RES, IN_PASS,
	   BAD_HANDLE(EVD_CONN), IN_ACT, IN_CONN, IN_PEND, IN_DISC);
/* The connected one has accepted: nobody is known to listen at its peer. */
STATE_ROWS(dat_ep_dup_connect, "the other endpoint",
	   dup_connect(new_ep_in(DAT_EP_STATE_UNCONNECTED), ep), IN_UNC, IN_RES, IN_PASS, IN_TENT,
	   IN_ACT, IN_CONN, IN_PEND, IN_DISC);
