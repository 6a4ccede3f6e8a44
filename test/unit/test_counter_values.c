/* SPDX-License-Identifier: BSD-2-Clause */
/* What each counter counts. Of DAT 2.0 only, whose core counts on the data path in the tests. */
#include "counter_calls.h"

static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;

static void setup(void)
{
	client->thread_safe = true;
	pair_connect(&pair);
}

static void teardown(void)
{
	pair_close_abrupt(&pair);
}

/* ---- what makes something count ---- */

static void make_pzs(void)
{
	DAT_PZ_HANDLE pz[2];

	ck_dat(pz_create(client->ia, &pz[0]));
	ck_dat(pz_create(client->ia, &pz[1]));
	ck_dat(pz_free(pz[0]));
}

static void make_lmrs(void)
{
	DAT_REGION_DESCRIPTION region = { .for_va = client->memory };
	DAT_LMR_HANDLE lmr[2];
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
	DAT_VLEN size;
	DAT_VADDR address;

	for (unsigned i = 0; i < 2; i++)
		ck_dat(lmr_create_va(client->ia, DAT_MEM_TYPE_VIRTUAL, region, 64, client->pz,
				     DAT_MEM_PRIV_ALL_FLAG, &lmr[i], &lmr_context, &rmr_context,
				     &size, &address));
	ck_dat(lmr_free(lmr[0]));
}

static void make_rmrs(void)
{
	DAT_RMR_HANDLE rmr[2];

	ck_dat(rmr_create(client->pz, &rmr[0]));
	ck_dat(rmr_create(client->pz, &rmr[1]));
	ck_dat(rmr_free(rmr[0]));
}

static void make_sps(void)
{
	DAT_PSP_HANDLE psp, any[2];
	DAT_RSP_HANDLE rsp[2];
	DAT_CONN_QUAL qual;

	ck_dat(psp_create(client->ia, 1001, client->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	ck_dat(psp_create_any(client->ia, &qual, client->cr_evd, DAT_PSP_CONSUMER_FLAG, &any[0]));
	ck_dat(psp_create_any(client->ia, &qual, client->cr_evd, DAT_PSP_CONSUMER_FLAG, &any[1]));
	ck_dat(psp_free(psp));
	ck_dat(psp_free(any[0]));
	ck_dat(rsp_create(client->ia, 1002, NULL, client->cr_evd, &rsp[0]));
	ck_dat(rsp_create(client->ia, 1003, NULL, client->cr_evd, &rsp[1]));
	ck_dat(rsp_free(rsp[0]));
}

static void make_evds(void)
{
	DAT_EVD_HANDLE evd = side_create_evd(client, 8, DAT_EVD_SOFTWARE_FLAG);

	side_create_evd(client, 8, DAT_EVD_DTO_FLAG);
	ck_dat(evd_free(evd));
}

static void make_eps(void)
{
	DAT_EP_HANDLE ep = side_create_ep(client, NULL);

	side_create_ep(client, NULL);
	ck_dat(ep_free(ep));
}

static void make_srqs(void)
{
	DAT_SRQ_ATTR attr = { .max_recv_dtos = 8, .max_recv_iov = 1 };
	DAT_SRQ_HANDLE srq[2];

	ck_dat(srq_create(client->ia, client->pz, &attr, &srq[0]));
	ck_dat(srq_create(client->ia, client->pz, &attr, &srq[1]));
	ck_dat(srq_free(srq[0]));
}

static void try_connect(DAT_EP_HANDLE ep, DAT_CONN_QUAL qual, DAT_TIMEOUT timeout)
{
	ck_dat(ep_connect(ep, (DAT_IA_ADDRESS_PTR)&server->address, qual, timeout, 0, NULL,
			  DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
}

static void reject_one(void)
{
	DAT_PSP_HANDLE psp;
	DAT_CONN_QUAL qual;
	DAT_EVENT event;

	ck_dat(psp_create_any(server->ia, &qual, server->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	try_connect(side_create_ep(client, NULL), qual, DAT_TIMEOUT_INFINITE);
	event = expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT);
	ck_dat(cr_reject(event.event_data.cr_arrival_event_data.cr_handle, 0, NULL));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
}

/* The queue of the service point has room for one request. */
static void request_too_many(void)
{
	DAT_EVD_HANDLE evd = side_create_evd(server, 1, DAT_EVD_CR_FLAG);
	DAT_PSP_HANDLE psp;
	DAT_CONN_QUAL qual;

	ck_dat(psp_create_any(server->ia, &qual, evd, DAT_PSP_CONSUMER_FLAG, &psp));
	try_connect(side_create_ep(client, NULL), qual, DAT_TIMEOUT_INFINITE);
	try_connect(side_create_ep(client, NULL), qual, DAT_TIMEOUT_INFINITE);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
}

static void connect_to_no_one(void)
{
	try_connect(side_create_ep(client, NULL), 9999, DAT_TIMEOUT_INFINITE);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
}

static void connect_in_vain(void)
{
	fake_hold_cm(true);
	try_connect(side_create_ep(client, NULL), 9999, SECONDS(1));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_TIMED_OUT);
}

static void break_connection(void)
{
	fake_break_qp(((struct ep *)client->ep)->qp);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
}

static void overrun(void)
{
	fake_overrun(cq_of_evd(client->request_evd));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
}

static void disconnect(void)
{
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG)); /* there is nothing to end */
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

static void fail_send(DAT_DTO_COMPLETION_STATUS status)
{
	fake_fail_transfer(status);
	post_send(client, 1, 0, 8, 0);
	expect_dto(client->request_evd, 1, status);
}

static void fail_access(void)
{
	fail_send(DAT_DTO_ERR_REMOTE_ACCESS);
}

static void fail_responder(void)
{
	fail_send(DAT_DTO_ERR_REMOTE_RESPONDER);
}

static void fail_receiver(void)
{
	fail_send(DAT_DTO_ERR_RECEIVER_NOT_READY);
}

static void fail_transport(void)
{
	fail_send(DAT_DTO_ERR_TRANSPORT);
}

/* Three messages of 8, 8 and 100 bytes; the last from two segments. */
static void send_three(void)
{
	DAT_LMR_TRIPLET iov[2] = { segment(client, 0, 60), segment(client, 64, 40) };

	for (unsigned n = 0; n < 3; n++)
		post_recv(server, n, 128 * n, 128, 0);
	post_send(client, 3, 0, 8, 0);
	post_send(client, 4, 0, 8, DAT_COMPLETION_SUPPRESS_FLAG);
	ck_dat(ep_post_send(client->ep, 2, iov, cookie_of(5), 0));
	expect_dto(client->request_evd, 3, DAT_DTO_SUCCESS);
	expect_dto(client->request_evd, 5, DAT_DTO_SUCCESS);
	for (unsigned n = 0; n < 3; n++)
		expect_dto(server->recv_evd, n, DAT_DTO_SUCCESS);
}

/* Two RDMA writes and one read, of 24 bytes each, and one that is refused. */
static void rdma_three(void)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 24);
	DAT_RMR_TRIPLET remote = target(server, 0, 24);

	ck_dat(ep_post_rdma_write(client->ep, 1, &iov, cookie_of(1), &remote, 0));
	ck_dat(ep_post_rdma_write(client->ep, 1, &iov, cookie_of(2), &remote, 0));
	ck_dat(ep_post_rdma_read(client->ep, 1, &iov, cookie_of(3), &remote, 0));
	ck_dat_is(ep_post_rdma_read(client->ep, 1, &iov, cookie_of(4), NULL, 0), BAD_ARG(5));
	for (unsigned n = 1; n <= 3; n++)
		expect_dto(client->request_evd, n, DAT_DTO_SUCCESS);
}

static void write_immed(void)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 24);
	DAT_RMR_TRIPLET remote = target(server, 0, 24);

	post_recv(server, 1, 128, 64, 0);
	ck_dat(dat_ib_post_rdma_write_immed(client->ep, 1, &iov, cookie_of(2), &remote, 7, 0));
	expect_event(server->recv_evd, (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT);
	expect_event(client->request_evd, (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT);
}

/* As from a verbs program that sends such messages, which DAT does not. */
static void send_immed(void)
{
	fake_quirks(FAKE_SENDS_IMMED);
	post_recv(server, 1, 128, 64, 0);
	post_send(client, 2, 0, 24, 0);
	expect_event(server->recv_evd, (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT);
}

static uint64_t cell __attribute__((aligned(8)));

static void atomics(void)
{
	const DAT_MEM_PRIV_FLAGS priv = (DAT_MEM_PRIV_FLAGS)(DAT_MEM_PRIV_ALL_FLAG |
							     DAT_IB_MEM_PRIV_REMOTE_ATOMIC);
	DAT_REGION_DESCRIPTION region = { .for_va = &cell };
	DAT_RMR_TRIPLET remote = { .virtual_address = (uintptr_t)&cell, .segment_length = 8 };
	DAT_LMR_TRIPLET iov = segment(client, 0, 8);
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT context;

	ck_dat(lmr_create_va(server->ia, DAT_MEM_TYPE_VIRTUAL, region, 8, server->pz, priv, &lmr,
			     &context, &remote.rmr_context, NULL, NULL));
	ck_dat(dat_ib_post_fetch_and_add(client->ep, 1, &iov, cookie_of(1), &remote, 0));
	ck_dat(dat_ib_post_fetch_and_add(client->ep, 1, &iov, cookie_of(2), &remote, 0));
	ck_dat(dat_ib_post_cmp_and_swap(client->ep, 1, 2, &iov, cookie_of(3), &remote, 0));
}

static DAT_EP_HANDLE ud_client, ud_server;

static DAT_EP_HANDLE ud_ep(const struct side *side)
{
	DAT_EP_ATTR attr = ep_attr_default(side);

	attr.service_type = (DAT_SERVICE_TYPE)DAT_IB_SERVICE_TYPE_UD;
	attr.max_message_size = 0;
	return side_create_ep(side, &attr);
}

static DAT_IB_ADDR_HANDLE way_to_server(void)
{
	DAT_PSP_HANDLE psp;
	DAT_CONN_QUAL qual;
	DAT_EVENT event;

	ck_dat(psp_create_any(server->ia, &qual, server->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	try_connect(ud_client, qual, SECONDS(60));
	event = expect_event(server->cr_evd, (DAT_EVENT_NUMBER)DAT_IB_UD_CONNECTION_REQUEST_EVENT);
	ck_dat(cr_accept(event.event_data.cr_arrival_event_data.cr_handle, ud_server, 0, NULL));
	event = expect_event(client->connect_evd,
			     (DAT_EVENT_NUMBER)DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED);
	return ((DAT_IB_EXTENSION_EVENT_DATA *)&event.event_extension_data)->remote_ah;
}

/* A datagram of 8 bytes, before which its receive has 40 of the network. */
static void send_datagram(void)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 8), to = segment(server, 0, 128);
	DAT_IB_ADDR_HANDLE ah;

	ud_client = ud_ep(client);
	ud_server = ud_ep(server);
	ck_dat(ep_post_recv(ud_server, 1, &to, cookie_of(1), 0));
	ah = way_to_server();
	ck_dat(dat_ib_post_send_ud(ud_client, 1, &iov, &ah, cookie_of(2), 0));
	expect_event(server->recv_evd, (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT);
}

static DAT_EVD_HANDLE software_evd;

/* Two that find an event, one that does not, and one that is refused. */
static void dequeue_four(void)
{
	DAT_EVENT event;

	software_evd = side_create_evd(client, 8, DAT_EVD_SOFTWARE_FLAG);
	post_se(software_evd, 1);
	post_se(software_evd, 2);
	ck_dat(evd_dequeue(software_evd, &event));
	ck_dat(evd_dequeue(software_evd, &event));
	ck_dat_is(evd_dequeue(software_evd, &event), DAT_QUEUE_EMPTY);
	ck_dat_is(evd_dequeue(software_evd, NULL), BAD_ARG(2));
}

/* One that need not sleep, one that times out, and one that is woken by an event. */
static void wait_three(void)
{
	struct waiter waiter = { .timeout = SECONDS(60), .threshold = 1 };
	DAT_EVENT event;
	DAT_COUNT nmore;

	software_evd = side_create_evd(client, 8, DAT_EVD_SOFTWARE_FLAG);
	post_se(software_evd, 1);
	ck_dat(evd_wait(software_evd, SECONDS(1), 1, &event, &nmore));
	ck_dat_is(evd_wait(software_evd, SECONDS(1), 1, &event, &nmore),
		  DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0));
	waiter.evd = software_evd;
	waiter_start(&waiter);
	post_se(software_evd, 2);
	ck_dat(waiter_join(&waiter));
}

static void poll_twice(void)
{
	DAT_EVENT event;

	ck_dat_is(evd_dequeue(client->request_evd, &event), DAT_QUEUE_EMPTY);
	post_recv(server, 1, 0, 64, 0);
	post_send(client, 2, 0, 8, 0);
	ck_dat(evd_dequeue(client->request_evd, &event));
}

static void wait_for_completion(void)
{
	struct waiter waiter = { .evd = server->recv_evd, .timeout = SECONDS(60), .threshold = 1 };

	post_recv(server, 1, 0, 64, 0);
	waiter_start(&waiter);
	post_send(client, 2, 0, 8, 0);
	ck_dat(waiter_join(&waiter));
}

/* ---- what each counts ---- */

#define IA(name)  DCNT_IA_##name, #name, &ia_counters
#define EP(name)  DCNT_EP_##name, #name, &ep_counters
#define EVD(name) DCNT_EVD_##name, #name, &evd_counters

/* Without a cause the setup is what is counted, which makes a connection on both sides. */
static const struct {
	DAT_HANDLE *handle;
	int number;
	const char *name;
	const struct counter_kind *kind;
	void (*cause)(void);
	DAT_UINT64 want;
} counts[] = {
	{ &client->ia, IA(PZ_CREATE), make_pzs, 2 },
	{ &client->ia, IA(PZ_FREE), make_pzs, 1 },
	{ &client->ia, IA(LMR_CREATE), make_lmrs, 2 },
	{ &client->ia, IA(LMR_FREE), make_lmrs, 1 },
	{ &client->ia, IA(RMR_CREATE), make_rmrs, 2 },
	{ &client->ia, IA(RMR_FREE), make_rmrs, 1 },
	{ &client->ia, IA(PSP_CREATE), make_sps, 1 },
	{ &client->ia, IA(PSP_CREATE_ANY), make_sps, 2 },
	{ &client->ia, IA(PSP_FREE), make_sps, 2 },
	{ &client->ia, IA(RSP_CREATE), make_sps, 2 },
	{ &client->ia, IA(RSP_FREE), make_sps, 1 },
	{ &client->ia, IA(CM_LISTEN), make_sps, 5 },
	{ &client->ia, IA(EVD_CREATE), make_evds, 2 },
	{ &client->ia, IA(EVD_FREE), make_evds, 1 },
	{ &client->ia, IA(EP_CREATE), make_eps, 2 },
	{ &client->ia, IA(EP_FREE), make_eps, 1 },
	{ &client->ia, IA(SRQ_CREATE), make_srqs, 2 },
	{ &client->ia, IA(SRQ_FREE), make_srqs, 1 },
	{ &server->ia, IA(SP_CR), NULL, 1 },
	{ &server->ia, IA(SP_CR), request_too_many, 1 },
	{ &server->ia, IA(SP_CR_ACCEPTED), NULL, 1 },
	{ &server->ia, IA(SP_CR_REJECTED), reject_one, 1 },
	{ &client->ia, IA(ASYNC_ERROR), overrun, 2 },
	{ &client->ia, IA(ASYNC_QP_ERROR), overrun, 1 },
	{ &client->ia, IA(ASYNC_QP_ERROR), break_connection, 1 },
	{ &client->ia, IA(ASYNC_CQ_ERROR), overrun, 1 },
	{ &client->ia, IA(CM_REQ_TX), NULL, 1 },
	{ &server->ia, IA(CM_REQ_RX), NULL, 1 },
	{ &server->ia, IA(CM_REQ_RX), request_too_many, 2 },
	{ &client->ia, IA(CM_USER_REJ_RX), reject_one, 1 },
	{ &client->ia, IA(CM_ACTIVE_EST), NULL, 1 },
	{ &server->ia, IA(CM_ACTIVE_EST), NULL, 0 },
	{ &server->ia, IA(CM_PASSIVE_EST), NULL, 1 },
	{ &client->ia, IA(CM_PASSIVE_EST), NULL, 0 },
	{ &client->ia, IA(CM_DREQ_TX), disconnect, 1 },
	{ &server->ia, IA(CM_DREQ_TX), disconnect, 0 },
	{ &server->ia, IA(CM_DREQ_RX), disconnect, 1 },
	{ &client->ia, IA(CM_DREQ_RX), disconnect, 0 },
	{ &client->ia, IA(CM_ERR), connect_to_no_one, 1 },
	{ &client->ia, IA(CM_ERR), connect_in_vain, 1 },
	{ &client->ia, IA(CM_ERR), break_connection, 1 },
	{ &client->ia, IA(CM_ERR), reject_one, 0 },
	{ &client->ia, IA(CM_ERR), disconnect, 0 },
	{ &client->ia, IA(CM_ERR_REFUSED), connect_to_no_one, 1 },
	{ &client->ia, IA(CM_ERR_RESET), break_connection, 1 },
	{ &client->ia, IA(CM_ERR_TIMEOUT), connect_in_vain, 1 },
	{ &server->ia, IA(CM_ERR_REJ_TX), request_too_many, 1 },
	{ &client->ia, IA(DIAG_ERR_SQ_RAE), fail_access, 1 },
	{ &client->ia, IA(DIAG_ERR_SQ_RIRE), fail_responder, 1 },
	{ &client->ia, IA(DIAG_ERR_SQ_RREE), fail_receiver, 1 },
	{ &client->ia, IA(DIAG_ERR_SQ_TREE), fail_transport, 1 },
	{ &client->ep, EP(CONNECT), NULL, 1 },
	{ &server->ep, EP(CONNECT), NULL, 0 },
	{ &client->ep, EP(DISCONNECT), disconnect, 2 },
	{ &client->ep, EP(POST_SEND), send_three, 3 },
	{ &client->ep, EP(POST_SEND_DATA), send_three, 116 },
	{ &server->ep, EP(POST_RECV), send_three, 3 },
	{ &server->ep, EP(POST_RECV_DATA), send_three, 384 },
	{ &client->ep, EP(POST_WRITE), rdma_three, 2 },
	{ &client->ep, EP(POST_WRITE_DATA), rdma_three, 48 },
	{ &client->ep, EP(POST_WRITE_IMM), write_immed, 1 },
	{ &client->ep, EP(POST_WRITE_IMM_DATA), write_immed, 24 },
	{ &client->ep, EP(POST_READ), rdma_three, 1 },
	{ &client->ep, EP(POST_READ_DATA), rdma_three, 24 },
	{ &client->ep, EP(POST_FETCH_ADD), atomics, 2 },
	{ &client->ep, EP(POST_CMP_SWAP), atomics, 1 },
	{ &server->ep, EP(RECV), send_three, 3 },
	{ &client->ep, EP(RECV), send_three, 0 },
	{ &server->ep, EP(RECV_DATA), send_three, 116 },
	{ &server->ep, EP(RECV_IMM), send_immed, 1 },
	{ &server->ep, EP(RECV_IMM_DATA), send_immed, 24 },
	{ &server->ep, EP(RECV_RDMA_IMM), write_immed, 1 },
	{ &server->ep, EP(RECV_RDMA_IMM_DATA), write_immed, 24 },
	{ &client->ia, IA(CM_AH_REQ_TX), send_datagram, 1 },
	{ &client->ia, IA(CM_AH_RESOLVED), send_datagram, 1 },
	{ &ud_client, EP(CONNECT), send_datagram, 1 },
	{ &ud_client, EP(POST_SEND_UD), send_datagram, 1 },
	{ &ud_client, EP(POST_SEND_UD_DATA), send_datagram, 8 },
	{ &ud_server, EP(RECV_UD), send_datagram, 1 },
	{ &ud_server, EP(RECV_UD_DATA), send_datagram, 48 },
	{ &ud_server, EP(RECV), send_datagram, 0 },
	{ &software_evd, EVD(WAIT), wait_three, 3 },
	{ &software_evd, EVD(WAIT_BLOCKED), wait_three, 2 },
	{ &software_evd, EVD(WAIT_NOTIFY), wait_three, 1 },
	{ &software_evd, EVD(DEQUEUE), dequeue_four, 3 },
	{ &software_evd, EVD(DEQUEUE_FOUND), dequeue_four, 2 },
	{ &software_evd, EVD(DEQUEUE_NOT_FOUND), dequeue_four, 1 },
	{ &client->request_evd, EVD(DEQUEUE_POLL), poll_twice, 2 },
	{ &client->request_evd, EVD(DEQUEUE_POLL_FOUND), poll_twice, 1 },
	{ &client->connect_evd, EVD(CONN_CALLBACK), NULL, 1 },
	{ &server->recv_evd, EVD(DTO_CALLBACK), wait_for_completion, 1 },
};

START_TEST(each_counter_counts_and_is_reset)
{
	if (counts[_i].cause) {
		if (*counts[_i].handle)
			(void)count_of(*counts[_i].handle, counts[_i].number, 1);
		counts[_i].cause();
	}
	ck_assert_uint_eq(count_of(*counts[_i].handle, counts[_i].number, 0), counts[_i].want);
	ck_assert_uint_eq(count_of(*counts[_i].handle, counts[_i].number, 1), counts[_i].want);
	ck_assert_uint_eq(count_of(*counts[_i].handle, counts[_i].number, 0), 0);
}
END_TEST

static bool has_case(const struct counter_kind *kind, unsigned number)
{
	for (int i = 0; i < COUNT(counts); i++)
		if (counts[i].kind == kind && (unsigned)counts[i].number == number &&
		    counts[i].want)
			return true;
	return false;
}

START_TEST(every_counter_that_has_a_name_has_a_case)
{
	static const struct counter_kind *const kinds[] = { &ia_counters, &ep_counters,
							    &evd_counters };

	for (unsigned number = 0; number < kinds[_i]->count; number++)
		ck_assert_msg(!kinds[_i]->names[number] || has_case(kinds[_i], number), "%s",
			      kinds[_i]->names[number]);
}
END_TEST

/* ---- endpoints of special kinds ---- */

/* As the service thread does with what nobody asks for. */
static void move_completions(DAT_EVD_HANDLE evd)
{
	CANCEL_FORBIDDEN;

	ck_assert(evd_drain(evd));
}

START_TEST(receives_of_a_shared_queue_are_those_of_the_endpoint)
{
	DAT_SRQ_ATTR attr = { .max_recv_dtos = 8, .max_recv_iov = 1 };
	DAT_LMR_TRIPLET to = segment(server, 0, 64), from = segment(client, 0, 8);
	DAT_EP_ATTR ep_attr = ep_attr_default(server);
	DAT_EP_HANDLE ep = side_create_ep(client, NULL), srq_ep;
	DAT_SRQ_HANDLE srq;
	DAT_EVENT event;

	ck_dat(srq_create(server->ia, server->pz, &attr, &srq));
	ck_dat(ep_create_with_srq(server->ia, server->pz, server->recv_evd, server->request_evd,
				  server->connect_evd, srq, &ep_attr, &srq_ep));
	connect_eps(client, ep, server, srq_ep);
	for (unsigned n = 0; n < 2; n++) {
		ck_dat(srq_post_recv(srq, 1, &to, cookie_of(n)));
		ck_dat(ep_post_send(ep, 1, &from, cookie_of(n), 0));
		if (n)
			move_completions(server->recv_evd);
		ck_dat(evd_dequeue(server->recv_evd, &event));
	}
	ck_assert_uint_eq(count_of(srq_ep, DCNT_EP_RECV, 0), 2);
	ck_assert_uint_eq(count_of(srq_ep, DCNT_EP_RECV_DATA, 0), 16);
}
END_TEST

START_TEST(a_receive_is_counted_when_it_completes)
{
	for (unsigned n = 0; n < 2; n++)
		post_recv(server, n, 0, 64, 0);
	post_send(client, 2, 0, 8, 0);
	post_send(client, 3, 0, 8, 0);
	move_completions(server->recv_evd);
	ck_assert_uint_eq(count_of(server->ep, DCNT_EP_RECV, 1), 2);
	expect_dto(server->recv_evd, 0, DAT_DTO_SUCCESS);
	expect_dto(server->recv_evd, 1, DAT_DTO_SUCCESS);
	ck_assert_uint_eq(count_of(server->ep, DCNT_EP_RECV, 0), 0);
}
END_TEST

START_TEST(what_is_flushed_is_not_received)
{
	post_recv(server, 1, 0, 64, 0);
	disconnect();
	expect_dto(server->recv_evd, 1, DAT_DTO_ERR_FLUSHED);
	ck_assert_uint_eq(count_of(server->ep, DCNT_EP_POST_RECV, 0), 1);
	ck_assert_uint_eq(count_of(server->ep, DCNT_EP_RECV, 0), 0);
	ck_assert_uint_eq(count_of(server->ia, DCNT_IA_DIAG_ERR_SQ_TREE, 0), 0);
}
END_TEST

/* dat_ep_modify makes a second endpoint, and destroys it. */
START_TEST(a_modified_endpoint_keeps_its_counts)
{
	DAT_EP_HANDLE ep = side_create_ep(client, NULL);
	DAT_EP_PARAM param = { .ep_attr = ep_attr_default(client) };
	DAT_LMR_TRIPLET iov = segment(client, 0, 64);

	ck_dat(ep_post_recv(ep, 1, &iov, cookie_of(1), 0));
	(void)count_of(client->ia, DCNT_IA_EP_CREATE, 1);
	param.ep_attr.max_recv_dtos++;
	ck_dat(ep_modify(ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, &param));
	ck_assert_uint_eq(count_of(ep, DCNT_EP_POST_RECV, 0), 1);
	ck_assert_uint_eq(count_of(client->ia, DCNT_IA_EP_CREATE, 0), 0);
	ck_assert_uint_eq(count_of(client->ia, DCNT_IA_EP_FREE, 0), 0);
}
END_TEST

/* Such an endpoint is made and freed with its request. */
START_TEST(an_endpoint_of_a_request_is_counted)
{
	DAT_PSP_HANDLE psp;
	DAT_CONN_QUAL qual;
	DAT_EVENT event;

	(void)count_of(server->ia, DCNT_IA_EP_CREATE, 1);
	ck_dat(psp_create_any(server->ia, &qual, server->cr_evd, DAT_PSP_PROVIDER_FLAG, &psp));
	try_connect(side_create_ep(client, NULL), qual, DAT_TIMEOUT_INFINITE);
	event = expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT);
	ck_assert_uint_eq(count_of(server->ia, DCNT_IA_EP_CREATE, 0), 1);
	ck_assert_uint_eq(count_of(server->ia, DCNT_IA_EP_FREE, 0), 0);
	ck_dat(cr_reject(event.event_data.cr_arrival_event_data.cr_handle, 0, NULL));
	ck_assert_uint_eq(count_of(server->ia, DCNT_IA_EP_FREE, 0), 1);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("what is counted");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_loop_test(cases, each_counter_counts_and_is_reset, 0, COUNT(counts));
	tcase_add_test(cases, receives_of_a_shared_queue_are_those_of_the_endpoint);
	tcase_add_test(cases, a_receive_is_counted_when_it_completes);
	tcase_add_test(cases, what_is_flushed_is_not_received);
	tcase_add_test(cases, a_modified_endpoint_keeps_its_counts);
	tcase_add_test(cases, an_endpoint_of_a_request_is_counted);
	cases = tcase_create("names");
	tcase_add_loop_test(cases, every_counter_that_has_a_name_has_a_case, 0, 3);
	return run_unit_cases(argc, argv);
}
