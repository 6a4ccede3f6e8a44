/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams of DAT 2.0 over verbs: the exchange of the ways to two queue pairs, and their sends. */
#include "../unit/alloc.h"
#include "conn.h"

#include <arpa/inet.h>

#define PORT	    7000
#define PEER_NUMBER 4711
#define PEER_PORT   9000
#define KEPT	    1024 /* answers */

static struct tp_qp *qp; /* of datagrams, of up_ep(1) */
static struct tp_listener *listener;
static struct rdma_cm_id *listening; /* for datagrams */

static const struct tp_cm_param hello = { .private_data = "hello", .private_data_size = 5 };

static struct tp_qp_attr datagram_attr(void)
{
	return (struct tp_qp_attr){
		.pd = rig.pd,
		.send_cq = rig.send_cq,
		.recv_cq = rig.recv_cq,
		.max_send = 8,
		.max_recv = 8,
		.max_send_sge = 2,
		.max_recv_sge = 2,
		.datagrams = true,
	};
}

static void setup(void)
{
	struct tp_qp_attr attr;
	uint16_t port = PORT;

	fv_device(0)->port.active_mtu = IBV_MTU_1024;
	rig_open(&rig);
	attr = datagram_attr();
	ck_assert_int_eq(tp_qp_create(rig.dev, &attr, up_ep(1), &qp), 0);
	ck_assert_int_eq(tp_listen(rig.dev, &port, up_sp(0), &listener), 0);
	listening = fv_id(0);
	ck_assert_int_eq(listening->ps, RDMA_PS_UDP);
	ck_assert_int_eq(ntohs(rdma_get_src_port(listening)), PORT);
	fv_trace_clear();
}

/* Ends the case, and proves that nothing is left. */
static void end(void)
{
	tp_unlisten(listener);
	rig_qp_destroy(qp);
	rig_close(&rig);
}

/* ---- questions ---- */

static int ask(struct tp_conn **conn)
{
	const struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(0x7f000009),
	};

	return tp_datagram_connect(rig.dev, (const struct sockaddr *)&to, PORT, qp, up_peer(0),
				   &hello, conn);
}

/* Has @conn ask, which begins to resolve an address. */
static void resolve(struct tp_conn *conn)
{
	conn_event(conn, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	conn_event(conn, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	ck_assert_int_eq(conn->state, CM_CONNECTING);
}

static struct tp_conn *asking(void)
{
	struct tp_conn *conn;

	ck_assert_int_eq(ask(&conn), 0);
	resolve(conn);
	return conn;
}

static struct datagram_header sent_header(void)
{
	struct datagram_header header;

	ck_assert_uint_ge(fv_seen().pdata.size, sizeof(header));
	memcpy(&header, fv_seen().pdata.data, sizeof(header));
	return header;
}

static void answer(struct tp_conn *conn, const char *pdata)
{
	const struct fv_cm_event event = {
		.type = RDMA_CM_EVENT_ESTABLISHED,
		.qp_num = PEER_NUMBER,
		.pdata = pdata,
		.pdata_size = pdata ? (unsigned)strlen(pdata) : 0,
	};

	fv_cm_event(conn->id, &event);
	rig_progress(&rig);
}

static void found(unsigned n, const char *pdata)
{
	const struct up_record record = upcall_is(UP_PEER_FOUND, up_peer(n));

	ck_assert_uint_eq(record.pdata_size, strlen(pdata));
	ck_assert_int_eq(memcmp(record.pdata, pdata, strlen(pdata)), 0);
	ck_assert_uint_eq(tp_ah_number(record.ah), PEER_NUMBER);
	ck_assert_uint_eq(fv_seen().ah.dlid, FV_DLID);
	tp_ah_destroy(record.ah);
}

START_TEST(a_question_says_where_to_ask_back_and_for_what)
{
	struct tp_conn *conn = asking();
	const struct datagram_header header = sent_header();
	struct rdma_cm_id *asked_back = rig.dev->asked_back;

	ck_assert_mem_eq(header.magic, "DATU", 4);
	ck_assert_uint_eq(ntohl(header.qp_num), qp->number);
	ck_assert_uint_eq(header.port, rdma_get_src_port(asked_back));
	ck_assert_uint_ne(header.port, 0);
	ck_assert_uint_eq(fv_seen().pdata.size, sizeof(header) + 5);
	ck_assert_mem_eq(fv_seen().pdata.data + sizeof(header), "hello", 5);
	ck_assert_uint_eq(fv_seen().connected.qp_num, qp->number);
	answer(conn, "yes");
	found(0, "yes");
	tp_release(conn);
	conn = asking();
	ck_assert_ptr_eq(rig.dev->asked_back, asked_back);
	ck_assert_uint_ne(sent_header().exchange, header.exchange);
	tp_release(conn);
	end();
}
END_TEST

static const struct {
	int status;
	const char *pdata;
	unsigned size;
	enum tp_cause cause;
	unsigned brought;
} refusals[] = {
	{ -ETIMEDOUT, NULL, 0, TP_UNREACHABLE, 0 },
	{ 1, NULL, 0, TP_NON_PEER_REJECTED, 0 },	/* nobody listens */
	{ 2, "\2\0\1\0no", 6, TP_PEER_REJECTED, 2 },	/* behind the header of a rejection */
	{ 2, "DAT\0\0\0", 6, TP_NON_PEER_REJECTED, 0 }, /* the provider's */
	{ 2, NULL, 0, TP_PEER_REJECTED, 0 },
};

START_TEST(a_refusal_tells_its_cause)
{
	struct tp_conn *conn = asking();
	const struct fv_cm_event event = {
		.type = RDMA_CM_EVENT_UNREACHABLE,
		.status = refusals[_i].status,
		.pdata = refusals[_i].pdata,
		.pdata_size = refusals[_i].size,
	};
	struct up_record record;

	fv_cm_event(conn->id, &event);
	rig_progress(&rig);
	record = upcall_is(UP_PEER_FAILED, up_peer(0));
	ck_assert_int_eq(record.cause, refusals[_i].cause);
	ck_assert_uint_eq(record.pdata_size, refusals[_i].brought);
	if (record.pdata_size)
		ck_assert_mem_eq(record.pdata, "no", 2);
	tp_release(conn);
	end();
}
END_TEST

static const enum rdma_cm_event_type in_vain[] = {
	RDMA_CM_EVENT_ADDR_ERROR,
	RDMA_CM_EVENT_ROUTE_ERROR,
	RDMA_CM_EVENT_DEVICE_REMOVAL,
};

START_TEST(an_exchange_that_ends_earlier_has_failed)
{
	struct tp_conn *conn;

	ck_assert_int_eq(ask(&conn), 0);
	while (conn->state != CM_AWAITS_RELEASE) { /* its retries */
		if (in_vain[_i] == RDMA_CM_EVENT_ROUTE_ERROR && conn->state == CM_RESOLVING_ADDR)
			conn_event(conn, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
		conn_event(conn, in_vain[_i], -ETIMEDOUT);
	}
	upcall_is(UP_PEER_FAILED, up_peer(0));
	if (in_vain[_i] == RDMA_CM_EVENT_DEVICE_REMOVAL)
		upcall_is(UP_DEV_FATAL, up_ia());
	tp_release(conn);
	end();
}
END_TEST

START_TEST(a_way_that_the_device_refuses_is_a_failure)
{
	struct tp_conn *conn = asking();

	fv_fail("ibv_create_ah", ENOMEM, 1);
	answer(conn, NULL);
	ck_assert_int_eq(upcall_is(UP_PEER_FAILED, up_peer(0)).cause, TP_LOCAL_ERROR);
	ck_assert_uint_eq(fv_alive(FV_AH), 0);
	tp_release(conn);
	end();
}
END_TEST

START_TEST(an_exchange_is_released_at_any_time)
{
	struct tp_conn *conn;

	ck_assert_int_eq(ask(&conn), 0);
	if (_i > 0)
		conn_event(conn, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	if (_i > 1)
		conn_event(conn, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	if (_i > 2)
		fv_cm_post(conn->id, RDMA_CM_EVENT_ESTABLISHED, 0);
	tp_release(conn);
	rig_progress(&rig);
	no_upcall();
	end();
}
END_TEST

static const char *const asking_calls[] = {
	"rdma_create_id",
	"rdma_bind_addr",
	"rdma_listen",
	"rdma_resolve_addr",
};

START_TEST(a_question_that_fails_leaves_nothing_but_the_listener)
{
	struct tp_conn *conn = (struct tp_conn *)1;
	unsigned alive;

	fv_fail(asking_calls[_i], EMFILE, 1);
	ck_assert_int_eq(ask(&conn), -EMFILE);
	ck_assert_ptr_eq(conn, (struct tp_conn *)1);
	conn = asking(); /* the next one is not harmed */
	tp_release(conn);
	rig_progress(&rig);
	alive = fv_alive(FV_KINDS);
	fv_fail("rdma_create_id", EMFILE, 1);
	ck_assert_int_eq(ask(&conn), -EMFILE);
	alloc_fail_nth(1);
	ck_assert_int_eq(ask(&conn), -ENOMEM);
	ck_assert(alloc_failed());
	ck_assert_uint_le(fv_alive(FV_KINDS), alive);
	end();
}
END_TEST

/* ---- requests ---- */

static struct datagram_header question(uint64_t exchange)
{
	return (struct datagram_header){
		.magic = { 'D', 'A', 'T', 'U' },
		.version = 1,
		.kind = 1,
		.port = htons(PEER_PORT),
		.qp_num = htonl(PEER_NUMBER),
		.exchange = exchange,
	};
}

static struct rdma_cm_id *arrives(struct rdma_cm_id *at, const struct datagram_header *header,
				  unsigned size)
{
	const struct fv_cm_event event = { .pdata = header, .pdata_size = size };
	struct rdma_cm_id *id = fv_request(at, &event);

	rig_progress(&rig);
	return id;
}

static struct tp_conn *asked(uint64_t exchange)
{
	struct {
		struct datagram_header header;
		char pdata[3];
	} __attribute__((packed)) message = { question(exchange), "ask" };
	struct up_record record;

	arrives(listening, &message.header, sizeof(message));
	record = upcall_is(UP_REQUEST, up_sp(0));
	ck_assert(record.datagrams);
	ck_assert_uint_eq(record.pdata_size, 3);
	ck_assert_mem_eq(record.pdata, "ask", 3);
	return record.conn;
}

START_TEST(the_side_that_answers_asks_back)
{
	struct tp_conn *conn = asked(5);
	struct datagram_header header;

	ck_assert_int_eq(tp_datagram_accept(conn, qp, up_peer(1), &hello), 0);
	ck_assert_uint_eq(fv_seen().accepted.qp_num, qp->number);
	ck_assert_mem_eq(fv_seen().pdata.data, "hello", 5);
	ck_assert_int_eq(ntohs(*(uint16_t *)conn->id->route.addr.dst_addr.sa_data), PEER_PORT);
	resolve(conn);
	header = sent_header();
	ck_assert_uint_eq(fv_seen().pdata.size, sizeof(header));
	ck_assert_uint_eq(ntohl(header.qp_num), PEER_NUMBER);
	ck_assert_uint_eq(header.exchange, 5);
	answer(conn, "zeroes, as the network pads");
	found(1, "");
	tp_release(conn);
	end();
}
END_TEST

START_TEST(who_asks_back_is_told_the_number_that_it_says)
{
	struct datagram_header header = question(7);
	struct tp_conn *conn = asking();

	header.kind = 2;
	header.port = 0;
	arrives(rig.dev->asked_back, &header, sizeof(header));
	ck_assert_uint_eq(fv_seen().accepted.qp_num, PEER_NUMBER);
	ck_assert_uint_eq(fv_seen().pdata.size, 0);
	no_upcall();
	tp_release(conn);
	end();
}
END_TEST

/* Headers that no provider of ours sends: the place of a byte, and what is there. */
static const struct {
	unsigned at;
	uint8_t byte;
	unsigned size;
} forged[] = {
	{ 0, 'd', 20 },		      /* the magic number */
	{ 3, 0, 20 },	{ 4, 2, 20 }, /* the version */
	{ 5, 0, 20 },		      /* the kind */
	{ 5, 2, 20 },	{ 8, 1, 20 }, /* the number has 24 bits */
	{ 0, 'D', 19 },		      /* it is too short */
	{ 0, 'D', 0 },
};

START_TEST(what_is_no_question_is_refused_unseen)
{
	struct datagram_header header = question(1);
	struct tp_conn *conn = asking();
	struct rdma_cm_id *places[] = { listening, rig.dev->asked_back };
	const unsigned accepts = fv_calls("rdma_accept"), alive = fv_alive(FV_ID);

	((uint8_t *)&header)[forged[_i].at] = forged[_i].byte;
	if (forged[_i].at == 5 && forged[_i].byte == 2)
		places[1] = listening;
	for (unsigned i = 0; i < ARRAY_SIZE(places); i++) {
		const unsigned rejects = fv_calls("rdma_reject");

		arrives(places[i], &header, forged[_i].size);
		ck_assert_uint_eq(fv_calls("rdma_reject"), rejects + 1);
	}
	no_upcall();
	ck_assert_uint_eq(fv_calls("rdma_accept"), accepts);
	ck_assert_uint_eq(fv_alive(FV_ID), alive);
	tp_release(conn);
	end();
}
END_TEST

START_TEST(a_question_of_number_0_or_port_0_is_refused)
{
	struct datagram_header header = question(1);

	if (_i)
		header.qp_num = 0;
	else
		header.port = 0;
	arrives(listening, &header, sizeof(header));
	no_upcall();
	ck_assert_uint_eq(fv_calls("rdma_reject"), 1);
	end();
}
END_TEST

START_TEST(a_question_that_comes_again_is_answered_again)
{
	const struct datagram_header header = question(9);
	struct tp_conn *conn = asked(9);
	unsigned accepts, alive;

	ck_assert_int_eq(tp_datagram_accept(conn, qp, up_peer(1), &hello), 0);
	tp_release(conn);
	accepts = fv_calls("rdma_accept");
	alive = fv_alive(FV_ID);
	arrives(listening, &header, sizeof(header));
	no_upcall();
	ck_assert_uint_eq(fv_calls("rdma_accept"), accepts + 1);
	ck_assert_uint_eq(fv_seen().accepted.qp_num, qp->number);
	ck_assert_mem_eq(fv_seen().pdata.data, "hello", 5);
	ck_assert_uint_le(fv_alive(FV_ID), alive);
	end();
}
END_TEST

START_TEST(a_question_that_was_rejected_is_rejected_again_but_not_for_the_provider)
{
	const struct datagram_header header = question(9);

	tp_reject(asked(9), true, "no", 2);
	arrives(listening, &header, sizeof(header));
	no_upcall();
	ck_assert_uint_eq(fv_calls("rdma_reject"), 2);
	ck_assert_uint_eq(fv_seen().pdata.size, 4 + 2);
	ck_assert_mem_eq(fv_seen().pdata.data + 4, "no", 2);
	tp_reject(asked(10), false, NULL, 0); /* there was no memory for it; now there may be */
	tp_reject(asked(10), true, NULL, 0);
	end();
}
END_TEST

START_TEST(only_the_latest_answers_are_kept)
{
	const struct datagram_header second = question(2);

	for (unsigned n = 1; n <= KEPT + 1; n++) {
		tp_reject(asked(n), true, "no", 2);
		fv_trace_clear();
	}
	arrives(listening, &second, sizeof(second));
	no_upcall();
	tp_reject(asked(1), true, NULL, 0); /* it is a new one */
	end();
}
END_TEST

START_TEST(without_memory_an_answer_is_given_all_the_same)
{
	struct tp_conn *conn = asked(3);
	int result;

	alloc_fail_nth((unsigned)_i);
	result = tp_datagram_accept(conn, qp, up_peer(1), &hello);
	ck_assert(alloc_failed());
	ck_assert_int_eq(result, 0);
	resolve(conn);
	tp_release(conn);
	tp_reject(asked(3), true, NULL, 0); /* it is a new one: nothing was kept */
	end();
}
END_TEST

START_TEST(an_accept_that_fails_leaves_the_request)
{
	struct tp_conn *conn = asked(3);
	const unsigned alive = fv_alive(FV_ID);

	fv_fail("rdma_create_id", EMFILE, 1);
	ck_assert_int_eq(tp_datagram_accept(conn, qp, up_peer(1), &hello), -EMFILE);
	fv_fail("rdma_accept", ENOMEM, 1);
	ck_assert_int_eq(tp_datagram_accept(conn, qp, up_peer(1), &hello), -ENOMEM);
	fv_fail("rdma_accept", EINVAL, 1);
	ck_assert_int_eq(tp_datagram_accept(conn, qp, up_peer(1), &hello), -ENOTCONN);
	ck_assert_uint_eq(fv_alive(FV_ID), alive);
	ck_assert_int_eq(tp_datagram_accept(conn, qp, up_peer(1), &hello), 0);
	tp_release(conn);
	end();
}
END_TEST

START_TEST(an_address_handle_outlives_its_exchange_and_holds_its_zone)
{
	struct tp_conn *conn = asking();
	struct up_record record;

	answer(conn, NULL);
	record = upcall_is(UP_PEER_FOUND, up_peer(0));
	tp_release(conn);
	tp_unlisten(listener);
	rig_qp_destroy(qp);
	rig_qp_destroy(rig.qp);
	rig.qp = NULL;
	tp_pd_destroy(rig.pd);
	rig.pd = NULL;
	ck_assert_uint_eq(fv_alive(FV_PD), 1);
	tp_ah_destroy(record.ah);
	rig_close(&rig);
}
END_TEST

/* ---- queue pairs ---- */

START_TEST(a_queue_pair_is_ready_from_the_beginning)
{
	const struct fv_seen seen = fv_seen();

	ck_assert_int_eq(qp->ibv->qp_type, IBV_QPT_UD);
	ck_assert_int_eq(qp->ibv->state, IBV_QPS_RTS);
	ck_assert_uint_eq(seen.modified[IBV_QPS_INIT].attr.qkey, FV_QKEY);
	ck_assert_uint_eq(seen.modified[IBV_QPS_INIT].attr.pkey_index, fv_device(0)->pkey_index);
	ck_assert_int_eq(seen.modified[IBV_QPS_INIT].mask,
			 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	end();
}
END_TEST

static const struct {
	const char *call;
	unsigned nth;
} creation[] = {
	{ "rdma_create_id", 1 }, { "rdma_bind_addr", 1 }, { "rdma_init_qp_attr", 1 },
	{ "ibv_modify_qp", 1 },	 { "ibv_modify_qp", 2 },  { "ibv_modify_qp", 3 },
};

START_TEST(a_queue_pair_that_fails_leaves_nothing)
{
	const struct tp_qp_attr attr = datagram_attr();
	const unsigned alive = fv_alive(FV_KINDS);
	struct tp_qp *other;

	fv_fail(creation[_i].call, EADDRNOTAVAIL, creation[_i].nth);
	ck_assert_int_eq(tp_qp_create(rig.dev, &attr, up_ep(2), &other), -EADDRNOTAVAIL);
	ck_assert_uint_eq(fv_alive(FV_KINDS), alive);
	end();
}
END_TEST

START_TEST(a_send_is_for_the_peer_of_its_address_handle)
{
	struct tp_conn *conn = asking();
	struct tp_sge sge = { .address = 1000, .length = 500, .lmr_context = 3 };
	struct up_record record;
	struct fv_sent sent;

	answer(conn, NULL);
	record = upcall_is(UP_PEER_FOUND, up_peer(0));
	tp_release(conn);
	ck_assert_int_eq(tp_post_datagram(qp, &sge, &sge, 1, 500, record.ah,
					  TP_POST_SIGNAL | TP_POST_SOLICIT),
			 0);
	sent = fv_sent(0);
	ck_assert_int_eq(sent.wr.opcode, IBV_WR_SEND);
	ck_assert_uint_eq(sent.wr.wr.ud.remote_qpn, PEER_NUMBER);
	ck_assert_uint_eq(sent.wr.wr.ud.remote_qkey, FV_QKEY);
	ck_assert_ptr_nonnull(sent.wr.wr.ud.ah);
	ck_assert_uint_eq(sent.wr.send_flags, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
	sge.length = 8;
	ck_assert_int_eq(tp_post_datagram(qp, &sge, &sge, 1, 8, record.ah, TP_POST_SIGNAL), 0);
	ck_assert_uint_eq(fv_sent(0).wr.send_flags,
			  IBV_SEND_SIGNALED | (qp->max_inline >= 8 ? IBV_SEND_INLINE : 0));
	tp_ah_destroy(record.ah);
	end();
}
END_TEST

START_TEST(sends_are_resumed_where_they_were_stopped)
{
	ck_assert_int_eq(tp_datagram_resume(qp), 0); /* a receive has failed, and stops nothing */
	ck_assert_uint_eq(fv_calls("ibv_modify_qp"), 4); /* of both queue pairs' creation */
	fv_qp_set_state(qp->ibv, IBV_QPS_SQE);
	ck_assert_int_eq(tp_datagram_resume(qp), 0);
	ck_assert_int_eq(qp->ibv->state, IBV_QPS_RTS);
	ck_assert_int_eq(fv_seen().modified[IBV_QPS_RTS].mask, IBV_QP_STATE | IBV_QP_CUR_STATE);
	fv_qp_set_state(qp->ibv, IBV_QPS_SQE);
	fv_fail("ibv_modify_qp", EINVAL, 1);
	ck_assert_int_eq(tp_datagram_resume(qp), -EINVAL);
	fv_fail("ibv_query_qp", EINVAL, 1);
	ck_assert_int_eq(tp_datagram_resume(qp), -EINVAL);
	fv_qp_set_state(qp->ibv, IBV_QPS_ERR);
	ck_assert_int_eq(tp_datagram_resume(qp), -EIO);
	end();
}
END_TEST

/* ---- devices ---- */

START_TEST(a_device_is_asked_for_datagrams)
{
	struct tp_dev *dev;

	fv_device(0)->port.active_mtu = IBV_MTU_2048;
	if (_i == 1)
		fv_device(0)->quirks = FV_NO_DATAGRAMS;
	if (_i == 2)
		fv_make_iwarp(0);
	if (_i == 3)
		fv_device(0)->port.active_mtu = 0; /* of a port that is down */
	dev = dev_open();
	ck_assert_uint_eq(dev->attr.max_datagram, _i ? 0 : 2048);
	if (_i == 2)
		ck_assert_uint_eq(fv_calls("ibv_create_qp"), 0);
	dev_close(dev);
}
END_TEST

START_TEST(a_device_without_datagrams_listens_for_connections_only)
{
	uint16_t port = PORT;
	struct tp_dev *dev;

	fv_device(0)->quirks = FV_NO_DATAGRAMS;
	dev = dev_open();
	ck_assert_int_eq(tp_listen(dev, &port, up_sp(0), &listener), 0);
	ck_assert_int_eq(fv_id(0)->ps, RDMA_PS_TCP);
	tp_unlisten(listener);
	dev_close(dev);
}
END_TEST

START_TEST(a_port_that_others_have_for_datagrams_is_one_of_connections)
{
	uint16_t port = PORT;

	fv_device(0)->port.active_mtu = IBV_MTU_1024;
	rig.dev = dev_open();
	fv_fail("rdma_bind_addr", EADDRINUSE, 2);
	ck_assert_int_eq(tp_listen(rig.dev, &port, up_sp(0), &listener), 0);
	ck_assert_uint_eq(fv_alive(FV_ID), 1);
	fv_request(fv_id(0), NULL);
	rig_progress(&rig);
	tp_reject(upcall_is(UP_REQUEST, up_sp(0)).conn, true, NULL, 0);
	tp_unlisten(listener);
	dev_close(rig.dev);
}
END_TEST

static void add_cases(void)
{
	TCase *cases = tcase_create("exchanges");

	tcase_add_checked_fixture(cases, verbs_begin, NULL);
	tcase_add_checked_fixture(cases, setup, NULL);
	tcase_add_test(cases, a_question_says_where_to_ask_back_and_for_what);
	tcase_add_loop_test(cases, a_refusal_tells_its_cause, 0, ARRAY_SIZE(refusals));
	tcase_add_loop_test(cases, an_exchange_that_ends_earlier_has_failed, 0,
			    ARRAY_SIZE(in_vain));
	tcase_add_test(cases, a_way_that_the_device_refuses_is_a_failure);
	tcase_add_loop_test(cases, an_exchange_is_released_at_any_time, 0, 4);
	tcase_add_loop_test(cases, a_question_that_fails_leaves_nothing_but_the_listener, 0,
			    ARRAY_SIZE(asking_calls));
	tcase_add_test(cases, the_side_that_answers_asks_back);
	tcase_add_test(cases, who_asks_back_is_told_the_number_that_it_says);
	tcase_add_loop_test(cases, what_is_no_question_is_refused_unseen, 0, ARRAY_SIZE(forged));
	tcase_add_loop_test(cases, a_question_of_number_0_or_port_0_is_refused, 0, 2);
	tcase_add_test(cases, a_question_that_comes_again_is_answered_again);
	tcase_add_test(cases,
		       a_question_that_was_rejected_is_rejected_again_but_not_for_the_provider);
	tcase_add_test(cases, only_the_latest_answers_are_kept);
	tcase_add_loop_test(cases, without_memory_an_answer_is_given_all_the_same, 1, 3);
	tcase_add_test(cases, an_accept_that_fails_leaves_the_request);
	tcase_add_test(cases, an_address_handle_outlives_its_exchange_and_holds_its_zone);
	tcase_add_test(cases, a_queue_pair_is_ready_from_the_beginning);
	tcase_add_loop_test(cases, a_queue_pair_that_fails_leaves_nothing, 0, ARRAY_SIZE(creation));
	tcase_add_test(cases, a_send_is_for_the_peer_of_its_address_handle);
	tcase_add_test(cases, sends_are_resumed_where_they_were_stopped);

	cases = tcase_create("devices");
	tcase_add_checked_fixture(cases, verbs_begin, NULL);
	tcase_add_loop_test(cases, a_device_is_asked_for_datagrams, 0, 4);
	tcase_add_test(cases, a_device_without_datagrams_listens_for_connections_only);
	tcase_add_test(cases, a_port_that_others_have_for_datagrams_is_one_of_connections);
}

int main(int argc, char **argv)
{
	add_cases();
	return run_cases(argc, argv);
}
