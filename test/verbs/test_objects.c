/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains, regions, windows, completion queues and queue pairs: mem.c, window.c, cq.c
 * and qp.c, with each failure of the calls that they make.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "../unit/alloc.h"
#include "verbs_test.h"

#define ROWS(array) ((int)ARRAY_SIZE(array))
#define POISON	    ((void *)0x5a5a5a5a)

static struct rig rig;
static char memory[8192] __attribute__((aligned(4096)));

static void setup(void)
{
	fv_log_capture();
	rig_open(&rig);
}

#define logged(text) ck_assert_msg(strstr(fv_log(), text), "\"%s\" is not in: %s", text, fv_log())

/* ---- creation that fails ---- */

static int make_pd(void **out)
{
	return tp_pd_create(rig.dev, (struct tp_pd **)out);
}

static int make_cq(void **out)
{
	return tp_cq_create(rig.dev, 16, up_evd(3), (struct tp_cq **)out);
}

static int make_mw(void **out)
{
	DAT_RMR_CONTEXT context;

	return tp_mw_create(rig.pd, (struct tp_mw **)out, &context);
}

static int make_qp(void **out)
{
	const struct tp_qp_attr attr = {
		.pd = rig.pd,
		.send_cq = rig.send_cq,
		.recv_cq = rig.recv_cq,
		.max_send = 100,
		.max_recv = 50,
		.max_send_sge = 3,
		.max_recv_sge = 2,
	};

	return tp_qp_create(rig.dev, &attr, up_ep(3), (struct tp_qp **)out);
}

static const struct {
	int (*make)(void **out);
	const char *call;
	int err;
	unsigned nth;
	int want;
} failures[] = {
	{ make_pd, "ibv_alloc_pd", ENOMEM, 1, -ENOMEM },
	{ make_pd, "ibv_alloc_pd", FV_NO_ERRNO, 1, -EINVAL },
	{ make_mw, "ibv_alloc_mw", EOPNOTSUPP, 1, -EOPNOTSUPP },
	{ make_mw, "ibv_alloc_mw", FV_NO_ERRNO, 1, -EINVAL },
	{ make_cq, "ibv_create_comp_channel", EMFILE, 1, -EMFILE },
	{ make_cq, "ibv_create_comp_channel", FV_NO_ERRNO, 1, -EINVAL },
	{ make_cq, "fcntl", EINVAL, 1, -EINVAL },
	{ make_cq, "fcntl", EBADF, 2, -EBADF },
	{ make_cq, "ibv_create_cq", ENOMEM, 1, -ENOMEM },
	{ make_cq, "ibv_create_cq", FV_NO_ERRNO, 1, -EINVAL },
	{ make_qp, "ibv_modify_qp", EINVAL, 1, -EINVAL },
};

START_TEST(a_failed_creation_leaves_nothing)
{
	const unsigned alive = fv_alive(FV_KINDS);
	void *out = POISON;

	fv_fail(failures[_i].call, failures[_i].err, failures[_i].nth);
	errno = ENOENT; /* of another call */
	ck_assert_int_eq(failures[_i].make(&out), failures[_i].want);
	ck_assert_ptr_eq(out, POISON);
	ck_assert_uint_eq(fv_alive(FV_KINDS), alive);
	rig_close(&rig);
}
END_TEST

static int (*const makers[])(void **out) = { make_pd, make_cq, make_mw, make_qp };

START_TEST(a_creation_without_memory_leaves_nothing)
{
	const unsigned alive = fv_alive(FV_KINDS);
	void *out = POISON;

	alloc_fail_nth(1);
	ck_assert_int_eq(makers[_i](&out), -ENOMEM);
	ck_assert(alloc_failed());
	ck_assert_ptr_eq(out, POISON);
	ck_assert_uint_eq(fv_alive(FV_KINDS), alive);
	rig_close(&rig);
}
END_TEST

/* ---- the end of objects ---- */

/* The object is lost to the transport; the test destroys it. */
START_TEST(a_refused_destruction_is_reported)
{
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mw *mw;
	struct ibv_pd *pd;
	struct ibv_qp *qp;
	void *out;

	ck_assert_int_eq(make_mw(&out), 0);
	mw = ((struct tp_mw *)out)->ibv;
	fv_fail("ibv_dealloc_mw", EBUSY, 1);
	tp_mw_destroy(out);
	logged("ibv_dealloc_mw of rkey");
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);

	ck_assert_int_eq(make_pd(&out), 0);
	pd = ((struct tp_pd *)out)->ibv;
	fv_fail("ibv_dealloc_pd", EBUSY, 1);
	tp_pd_destroy(out);
	logged("fv0: ibv_dealloc_pd: ");
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);

	ck_assert_int_eq(make_cq(&out), 0);
	cq = ((struct tp_cq *)out)->ibv;
	channel = ((struct tp_cq *)out)->channel;
	fv_fail("ibv_destroy_cq", EBUSY, 1);
	tp_cq_destroy(out);
	logged("fv0: ibv_destroy_cq: ");
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(channel), 0);

	qp = rig.qp->ibv;
	fv_fail("ibv_destroy_qp", EINVAL, 1);
	rig_qp_destroy(rig.qp);
	logged("fv0: ibv_destroy_qp of QP ");
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	rig.qp = NULL;
	rig_close(&rig);
}
END_TEST

/* A child is destroyed after its parent was given up: the parent's end waits for it. */
START_TEST(objects_wait_for_those_that_use_them)
{
	fv_trace_clear();
	tp_cq_destroy(rig.send_cq);
	tp_cq_destroy(rig.recv_cq);
	tp_pd_destroy(rig.pd);
	ck_assert_str_eq(fv_trace(), "");
	rig_qp_destroy(rig.qp);
	ck_assert_str_eq(fv_trace(),
			 "ibv_destroy_qp ibv_destroy_cq ibv_destroy_comp_channel ibv_destroy_cq "
			 "ibv_destroy_comp_channel ibv_dealloc_pd");
	dev_close(rig.dev);
}
END_TEST

/* ---- completion queues ---- */

static const struct {
	enum ibv_wc_status status;
	DAT_DTO_COMPLETION_STATUS want;
} statuses[] = {
	{ IBV_WC_SUCCESS, DAT_DTO_SUCCESS },
	{ IBV_WC_LOC_LEN_ERR, DAT_DTO_ERR_LOCAL_LENGTH },
	{ IBV_WC_LOC_QP_OP_ERR, DAT_DTO_ERR_LOCAL_EP },
	{ IBV_WC_LOC_EEC_OP_ERR, DAT_DTO_ERR_TRANSPORT },
	{ IBV_WC_LOC_PROT_ERR, DAT_DTO_ERR_LOCAL_PROTECTION },
	{ IBV_WC_WR_FLUSH_ERR, DAT_DTO_ERR_FLUSHED },
	{ IBV_WC_MW_BIND_ERR, DAT_RMR_OPERATION_FAILED },
	{ IBV_WC_BAD_RESP_ERR, DAT_DTO_ERR_BAD_RESPONSE },
	{ IBV_WC_LOC_ACCESS_ERR, DAT_DTO_ERR_LOCAL_PROTECTION },
	{ IBV_WC_REM_INV_REQ_ERR, DAT_DTO_ERR_REMOTE_RESPONDER },
	{ IBV_WC_REM_ACCESS_ERR, DAT_DTO_ERR_REMOTE_ACCESS },
	{ IBV_WC_REM_OP_ERR, DAT_DTO_ERR_REMOTE_RESPONDER },
	{ IBV_WC_RETRY_EXC_ERR, DAT_DTO_ERR_TRANSPORT },
	{ IBV_WC_RNR_RETRY_EXC_ERR, DAT_DTO_ERR_RECEIVER_NOT_READY },
	{ IBV_WC_LOC_RDD_VIOL_ERR, DAT_DTO_ERR_LOCAL_PROTECTION },
	{ IBV_WC_REM_INV_RD_REQ_ERR, DAT_DTO_ERR_REMOTE_RESPONDER },
	{ IBV_WC_REM_ABORT_ERR, DAT_DTO_ERR_REMOTE_RESPONDER },
	{ IBV_WC_INV_EECN_ERR, DAT_DTO_ERR_TRANSPORT },
	{ IBV_WC_INV_EEC_STATE_ERR, DAT_DTO_ERR_TRANSPORT },
	{ IBV_WC_FATAL_ERR, DAT_DTO_ERR_TRANSPORT },
	{ IBV_WC_RESP_TIMEOUT_ERR, DAT_DTO_ERR_RECEIVER_NOT_READY },
	{ IBV_WC_GENERAL_ERR, DAT_DTO_ERR_TRANSPORT },
	{ (enum ibv_wc_status)99, DAT_DTO_ERR_TRANSPORT }, /* of a later libibverbs */
};

START_TEST(a_completion_has_the_status_of_dat)
{
	const struct ibv_wc wc = {
		.wr_id = (uintptr_t)memory,
		.status = statuses[_i].status,
		.vendor_err = 0xab,
		.byte_len = 7,
	};
	struct tp_wc got;
	bool failed = wc.status != IBV_WC_SUCCESS && wc.status != IBV_WC_WR_FLUSH_ERR;

	fv_complete(rig.recv_cq->ibv, &wc, false);
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, &got, 1), 1);
	ck_assert_ptr_eq(got.tag, memory);
	ck_assert_int_eq(got.status, statuses[_i].want);
	ck_assert_uint_eq(got.length, 7);
	ck_assert_int_eq(strstr(fv_log(), "vendor error 0xab") != NULL, failed);
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, &got, 1), 0);
	rig_close(&rig);
}
END_TEST

/* An acknowledgement timer that is too short for a large fabric is found by its name. */
START_TEST(a_lost_peer_names_the_acknowledgement_timer_once)
{
	struct ibv_wc wc = { .status = IBV_WC_WR_FLUSH_ERR };
	const char *named;
	struct tp_wc got;

	for (int i = 0; i < 4; i++) {
		fv_complete(rig.recv_cq->ibv, &wc, false);
		ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, &got, 1), 1);
		named = strstr(fv_log(), "DAPL_ACK_TIMER");
		ck_assert_int_eq(named != NULL, i > 0);
		wc.status = IBV_WC_RETRY_EXC_ERR;
	}
	ck_assert_ptr_null(strstr(named + 1, "DAPL_ACK_TIMER"));
	rig_close(&rig);
}
END_TEST

/* However many there are. */
START_TEST(each_completion_of_a_poll_has_its_status)
{
	static const struct ibv_wc wc = { .status = IBV_WC_WR_FLUSH_ERR };
	struct tp_wc got[TP_POLL_MAX];

	for (unsigned n = 1; n <= TP_POLL_MAX; n++) {
		for (unsigned i = 0; i < n; i++)
			fv_complete(rig.recv_cq->ibv, &wc, false);
		ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, got, n), n);
		for (unsigned i = 0; i < n; i++)
			ck_assert_int_eq(got[i].status, DAT_DTO_ERR_FLUSHED);
	}
	rig_close(&rig);
}
END_TEST

START_TEST(a_poll_takes_at_most_what_it_asks_for)
{
	struct ibv_wc wc = { 0 };
	struct tp_wc got[TP_POLL_MAX];

	for (unsigned n = 1; n <= TP_POLL_MAX + 3; n++) {
		wc.wr_id = n;
		fv_complete(rig.recv_cq->ibv, &wc, false);
	}
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, got, TP_POLL_MAX), TP_POLL_MAX);
	for (unsigned n = 0; n < TP_POLL_MAX; n++)
		ck_assert_uint_eq((uintptr_t)got[n].tag, n + 1);
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, got, 2), 2);
	ck_assert_uint_eq((uintptr_t)got[1].tag, TP_POLL_MAX + 2);
	fv_fail("ibv_poll_cq", EIO, 1); /* a device that is gone */
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, got, 2), 0);
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, got, 2), 1);
	rig_close(&rig);
}
END_TEST

static const struct {
	int result; /* of ibv_resize_cq */
	int want;
} resizes[] = {
	{ ENOMEM, -ENOMEM },  { EINVAL, -EINVAL },
	{ ENOSYS, -ENOSYS },  { -EINVAL, -EINVAL }, /* some providers */
	{ -ENOMEM, -ENOMEM },
};

START_TEST(a_failed_resize_keeps_the_queue)
{
	fv_fail("ibv_resize_cq", resizes[_i].result, 1);
	ck_assert_int_eq(tp_cq_resize(rig.recv_cq, 1000), resizes[_i].want);
	ck_assert_uint_eq(tp_cq_depth(rig.recv_cq), 64);
	ck_assert_int_eq(tp_cq_resize(rig.recv_cq, 1000), 0);
	ck_assert_uint_eq(tp_cq_depth(rig.recv_cq), 1000);
	rig_close(&rig);
}
END_TEST

static bool cq_is_readable(const struct tp_cq *cq)
{
	struct pollfd ready = { .fd = tp_cq_fd(cq), .events = POLLIN };

	return poll(&ready, 1, 0) == 1;
}

START_TEST(an_armed_queue_makes_one_event)
{
	const struct ibv_wc wc = { .status = IBV_WC_SUCCESS };
	struct tp_wc got;

	ck_assert(!tp_cq_events(rig.recv_cq)); /* does not block */
	ck_assert_int_eq(tp_cq_arm(rig.recv_cq, TP_ARM_ANY), 0);
	fv_complete(rig.recv_cq->ibv, &wc, false);
	fv_complete(rig.recv_cq->ibv, &wc, false);
	ck_assert(cq_is_readable(rig.recv_cq));
	ck_assert(tp_cq_events(rig.recv_cq));
	ck_assert_uint_eq(fv_alive(FV_CQ_EVENT), 0); /* acknowledged */
	ck_assert(!cq_is_readable(rig.recv_cq));
	ck_assert(!tp_cq_events(rig.recv_cq));
	fv_fail("ibv_req_notify_cq", EIO, 1);
	ck_assert_int_eq(tp_cq_arm(rig.recv_cq, TP_ARM_ANY), -EIO);
	while (tp_cq_poll(rig.recv_cq, &got, 1))
		;
	rig_close(&rig);
}
END_TEST

/* On devices that miss failures of requests. */
START_TEST(a_queue_that_gets_a_sender_is_armed_anew)
{
	struct tp_qp *qp;
	struct rig other = { 0 };

	fv_device(1)->attr.vendor_id = 0xffffff;
	ck_assert_int_eq(tp_dev_open("fveth1 0", up_ia(), &other.dev), 0);
	ck_assert_int_eq(tp_pd_create(other.dev, &other.pd), 0);
	ck_assert_int_eq(tp_cq_create(other.dev, 64, up_evd(0), &other.send_cq), 0);
	ck_assert_int_eq(tp_cq_create(other.dev, 64, up_evd(1), &other.recv_cq), 0);
	ck_assert_int_eq(tp_cq_arm(other.send_cq, TP_ARM_ERRORS), 0);
	ck_assert_int_eq(fv_armed(other.send_cq->ibv), FV_ARMED_SOLICITED);
	other.qp = rig_qp(&other, 1);
	ck_assert_int_eq(fv_armed(other.send_cq->ibv), FV_ARMED_ANY);
	ck_assert_int_eq(fv_armed(other.recv_cq->ibv), FV_DISARMED);
	/* the queue of a device that misses none is left as it is */
	qp = rig_qp(&rig, 2);
	ck_assert_int_eq(fv_armed(rig.send_cq->ibv), FV_DISARMED);
	rig_qp_destroy(qp);
	rig_qp_destroy(rig.qp);
	tp_cq_destroy(rig.send_cq);
	tp_cq_destroy(rig.recv_cq);
	tp_pd_destroy(rig.pd);
	fv_ia_unlock();
	tp_dev_close(rig.dev);
	fv_ia_lock();
	rig_close(&other);
}
END_TEST

/* ---- queue pairs ---- */

static const struct {
	const char *asked; /* DAPL_MAX_INLINE */
	unsigned most;	   /* of the device */
	unsigned calls;	   /* of ibv_create_qp */
	unsigned granted;
} inlines[] = {
	{ "200", 512, 1, 200 }, { "200", 100, 2, 64 }, { "200", 32, 3, 0 },
	{ "64", 32, 2, 0 },	{ "40", 32, 2, 0 },    { "0", 32, 1, 0 },
};

START_TEST(a_queue_pair_has_as_much_inline_data_as_the_device_grants)
{
	unsigned before;
	void *out;

	rig_close(&rig);
	setenv("DAPL_MAX_INLINE", inlines[_i].asked, 1);
	fv_device(0)->max_inline = inlines[_i].most;
	rig_open(&rig);
	before = fv_calls("ibv_create_qp");
	ck_assert_int_eq(make_qp(&out), 0);
	ck_assert_uint_eq(fv_calls("ibv_create_qp") - before, inlines[_i].calls);
	ck_assert_uint_eq(((struct tp_qp *)out)->max_inline, inlines[_i].granted);
	ck_assert_ptr_null(strstr(fv_log(), "ibv_create_qp for"));
	rig_qp_destroy(out);
	rig_close(&rig);
}
END_TEST

static const struct {
	int err; /* of all attempts but the last; 0: the device's limit on work requests */
	int last, want;
	const char *text;
} qp_refusals[] = {
	{ 0, 0, -EINVAL, "Invalid argument" },
	{ EINVAL, ENOMEM, -ENOMEM, "Cannot allocate memory" },
	{ ENOMEM, EINVAL, -EINVAL, "Invalid argument" },
	{ EINVAL, FV_NO_ERRNO, -EINVAL, "Invalid argument" },
	{ EPERM, EAGAIN, -EAGAIN, "Resource temporarily unavailable" },
};

START_TEST(a_refused_queue_pair_is_reported_with_what_was_asked_for)
{
	const unsigned alive = fv_alive(FV_KINDS);
	void *out = POISON;

	if (qp_refusals[_i].err) {
		fv_fail_always("ibv_create_qp", qp_refusals[_i].err);
		fv_fail("ibv_create_qp", qp_refusals[_i].last, 3); /* 200, 64 and 0 bytes inline */
	} else {
		fv_device(0)->max_wr = 99;
	}
	ck_assert_int_eq(make_qp(&out), qp_refusals[_i].want);
	ck_assert_ptr_eq(out, POISON);
	ck_assert_uint_eq(fv_alive(FV_KINDS), alive);
	logged("100 requests of 3 segments and 50 receives of 2");
	logged(qp_refusals[_i].text);
	fv_fail_always("ibv_create_qp", 0);
	fv_device(0)->max_wr = 100;
	ck_assert_int_eq(make_qp(&out), 0);
	rig_qp_destroy(out);
	rig_close(&rig);
}
END_TEST

START_TEST(a_queue_pair_has_no_more_segments_than_are_built)
{
	struct tp_qp_attr attr = {
		.pd = rig.pd,
		.send_cq = rig.send_cq,
		.recv_cq = rig.recv_cq,
		.max_send = 1,
		.max_recv = 1,
		.max_send_sge = _i ? 1 : TP_MAX_SGE + 1,
		.max_recv_sge = _i ? TP_MAX_SGE + 1 : 1,
	};
	const unsigned calls = fv_calls("ibv_create_qp");
	struct tp_qp *qp;

	ck_assert_int_eq(tp_qp_create(rig.dev, &attr, up_ep(1), &qp), -EINVAL);
	ck_assert_uint_eq(fv_calls("ibv_create_qp"), calls);
	rig_close(&rig);
}
END_TEST

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

START_TEST(a_new_queue_pair_takes_receives)
{
	struct ibv_qp_attr init;
	int mask;

	if (_i) {
		rig_close(&rig);
		fv_make_iwarp(0);
		rig_open(&rig);
	}
	init = fv_seen().modified[IBV_QPS_INIT].attr;
	mask = fv_seen().modified[IBV_QPS_INIT].mask;
	ck_assert_int_eq(rig.qp->state, IBV_QPS_INIT);
	ck_assert_int_eq(mask, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS |
				       (_i ? 0 : IBV_QP_PKEY_INDEX | IBV_QP_PORT));
	ck_assert_uint_eq(init.qp_access_flags, ACCESS);
	ck_assert_uint_eq(init.port_num, 1);
	ck_assert_uint_eq(rig.qp->fence, _i ? IBV_SEND_FENCE : 0);
	rig_close(&rig);
}
END_TEST

START_TEST(a_queue_pair_can_be_put_into_the_error_state_again)
{
	fv_fail("ibv_modify_qp", EINVAL, 1);
	ck_assert_int_eq(tp_qp_error(rig.qp), -EINVAL);
	ck_assert_int_eq(rig.qp->state, IBV_QPS_INIT);
	ck_assert_int_eq(tp_qp_error(rig.qp), 0);
	ck_assert_int_eq(tp_qp_error(rig.qp), 0);
	ck_assert_int_eq(rig.qp->state, IBV_QPS_ERR);
	rig_close(&rig);
}
END_TEST

/* An identifier of librdmacm on the device of @rig. */
static struct rdma_cm_id *id_open(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	struct rdma_cm_id *id;

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ck_assert_int_eq(rdma_create_id(rig.dev->cm, &id, NULL, RDMA_PS_TCP), 0);
	ck_assert_int_eq(rdma_bind_addr(id, (struct sockaddr *)&addr), 0);
	return id;
}

/* An administrator, or the subnet manager, may change the tables while the device is open. */
START_TEST(each_connection_has_the_keys_and_addresses_of_the_tables_now)
{
	for (uint8_t n = 0; n < 3; n++) {
		struct rdma_cm_id *id = id_open();
		struct tp_qp *qp = rig_qp(&rig, 1);
		struct fv_seen seen;

		fv_device(0)->pkey_index = 7 - n;
		fv_device(0)->gid_index = 2 + n;
		ck_assert_int_eq(qp_to_rts(qp, id, 4, 2), 0);
		ck_assert_int_eq(qp->state, IBV_QPS_RTS);
		seen = fv_seen();
		ck_assert_int_ne(seen.modified[IBV_QPS_RTR].mask & IBV_QP_PKEY_INDEX, 0);
		ck_assert_uint_eq(seen.modified[IBV_QPS_RTR].attr.pkey_index, 7u - n);
		ck_assert_uint_eq(seen.modified[IBV_QPS_RTR].attr.ah_attr.grh.sgid_index, 2u + n);
		ck_assert_int_eq(rdma_destroy_id(id), 0);
		rig_qp_destroy(qp);
	}
	rig_close(&rig);
}
END_TEST

/* So it is on RoCE: the index of a key can't be another one than 0. */
START_TEST(the_only_key_is_not_asked_for)
{
	struct rdma_cm_id *id;

	rig_close(&rig);
	fv_device(0)->port.pkey_tbl_len = 1;
	rig_open(&rig);
	id = id_open();
	fv_trace_clear();
	ck_assert_int_eq(qp_to_rts(rig.qp, id, 4, 2), 0);
	ck_assert_str_eq(fv_trace(),
			 "rdma_init_qp_attr rdma_init_qp_attr ibv_modify_qp ibv_modify_qp");
	ck_assert_int_ne(fv_seen().modified[IBV_QPS_RTR].mask & IBV_QP_PKEY_INDEX, 0);
	ck_assert_uint_eq(fv_seen().modified[IBV_QPS_RTR].attr.pkey_index, 0);
	ck_assert_int_eq(rdma_destroy_id(id), 0);
	rig_close(&rig);
}
END_TEST

static const struct {
	const char *call;
	int err;
	unsigned nth;
	int want;
	enum ibv_qp_state state;
	const char *text;
} rts_failures[] = {
	/* the peer has given up */
	{ "rdma_init_qp_attr", EINVAL, 1, -ENOTCONN, IBV_QPS_INIT, "rdma_init_qp_attr: Invalid" },
	{ "rdma_init_qp_attr", EINVAL, 2, -ENOTCONN, IBV_QPS_INIT, "rdma_init_qp_attr: Invalid" },
	{ "rdma_init_qp_attr", EINVAL, 3, -ENOTCONN, IBV_QPS_INIT, "rdma_init_qp_attr: Invalid" },
	{ "ibv_modify_qp", EINVAL, 1, -EINVAL, IBV_QPS_INIT, "to RTR: Invalid argument" },
	{ "ibv_modify_qp", ENOMEM, 2, -ENOMEM, IBV_QPS_RTR, "to RTS: Cannot allocate memory" },
};

START_TEST(a_queue_pair_that_can_not_connect_is_reported)
{
	struct rdma_cm_id *id = id_open();

	fv_fail(rts_failures[_i].call, rts_failures[_i].err, rts_failures[_i].nth);
	ck_assert_int_eq(qp_to_rts(rig.qp, id, 4, 2), rts_failures[_i].want);
	ck_assert_int_eq(rig.qp->state, rts_failures[_i].state);
	logged(rts_failures[_i].text);
	ck_assert_int_eq(rdma_destroy_id(id), 0);
	rig_close(&rig);
}
END_TEST

static const struct {
	const char *timer; /* DAPL_ACK_TIMER */
	unsigned timeout;
} timers[] = {
	{ NULL, 18 }, /* what librdmacm computes */
	{ "20", 20 },
};

START_TEST(a_connection_has_the_time_outs_that_are_set)
{
	struct ibv_qp_attr rtr, rts;
	struct rdma_cm_id *id;

	rig_close(&rig);
	setenv("DAPL_RNR_TIMER", "9", 1);
	setenv("DAPL_ACK_RETRY", "5", 1);
	if (timers[_i].timer)
		setenv("DAPL_ACK_TIMER", timers[_i].timer, 1);
	rig_open(&rig);
	id = id_open();
	ck_assert_int_eq(qp_to_rts(rig.qp, id, 4, 2), 0);
	rtr = fv_seen().modified[IBV_QPS_RTR].attr;
	rts = fv_seen().modified[IBV_QPS_RTS].attr;
	ck_assert_uint_eq(rtr.max_dest_rd_atomic, 4);
	ck_assert_uint_eq(rtr.min_rnr_timer, 9);
	ck_assert_uint_eq(rts.max_rd_atomic, 2);
	ck_assert_uint_eq(rts.retry_cnt, 5);
	ck_assert_uint_eq(rts.rnr_retry, 7);
	ck_assert_uint_eq(rts.timeout, timers[_i].timeout);
	ck_assert_int_eq(rdma_destroy_id(id), 0);
	rig_close(&rig);
}
END_TEST

/* ---- regions ---- */

static int try_reg(void *address, size_t size, DAT_MEM_PRIV_FLAGS priv, bool relaxed,
		   struct tp_mr **mr, struct tp_mr_info *info)
{
	unsigned flags = TP_REG_WINDOWS | (relaxed ? TP_REG_RELAXED : 0);

	return tp_mr_reg(rig.pd, address, size, priv, flags, mr, info);
}

static const struct {
	DAT_MEM_PRIV_FLAGS priv;
	bool relaxed;
	unsigned want;
} accesses[] = {
	{ DAT_MEM_PRIV_NONE_FLAG, false, 0 },
	{ DAT_MEM_PRIV_LOCAL_READ_FLAG, false, 0 },
	{ DAT_MEM_PRIV_LOCAL_WRITE_FLAG, false, IBV_ACCESS_LOCAL_WRITE },
	{ DAT_MEM_PRIV_REMOTE_READ_FLAG, false, IBV_ACCESS_REMOTE_READ },
	{ DAT_MEM_PRIV_REMOTE_WRITE_FLAG, false, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE },
	{ DAT_MEM_PRIV_ALL_FLAG, true, ACCESS | IBV_ACCESS_RELAXED_ORDERING },
};

START_TEST(a_region_has_the_access_that_was_asked_for)
{
	struct tp_mr_info info;
	struct tp_mr *mr;

	ck_assert_int_eq(
		try_reg(memory + 8, 100, accesses[_i].priv, accesses[_i].relaxed, &mr, &info), 0);
	ck_assert_uint_eq(fv_seen().access, accesses[_i].want | IBV_ACCESS_MW_BIND);
	ck_assert_uint_eq(info.address, (uintptr_t)memory + 8);
	ck_assert_uint_eq(info.size, 100);
	ck_assert_uint_eq(info.lmr_context, ibv_mr_of(mr)->lkey);
	ck_assert_uint_eq(info.rmr_context, ibv_mr_of(mr)->rkey);
	ck_assert(info.bindable);
	ck_assert_int_eq(tp_mr_dereg(mr), 0);
	rig_close(&rig);
}
END_TEST

START_TEST(a_region_of_read_only_memory_is_not_bindable)
{
	struct tp_mr_info info;
	struct tp_mr *mr;

	fv_device(0)->quirks = FV_READ_ONLY_PLAIN;
	ck_assert_int_eq(try_reg(memory, 100, DAT_MEM_PRIV_READ_FLAG, false, &mr, &info), 0);
	ck_assert(!info.bindable);
	ck_assert_uint_eq(fv_seen().access, IBV_ACCESS_REMOTE_READ);
	ck_assert_int_eq(tp_mr_dereg(mr), 0);
	ck_assert_int_eq(try_reg(memory, 100, DAT_MEM_PRIV_ALL_FLAG, false, &mr, &info), 0);
	ck_assert(info.bindable);
	ck_assert_int_eq(tp_mr_dereg(mr), 0);
	rig_close(&rig);
}
END_TEST

/* By one call: a device that refuses windows on such memory is not asked for them. */
START_TEST(a_region_is_registered_for_windows_only_if_they_are_wanted)
{
	struct tp_mr_info info;
	struct tp_mr *mr;

	fv_device(0)->quirks = FV_READ_ONLY_PLAIN;
	fv_fail("ibv_reg_mr", ENOMEM, 2);
	ck_assert_int_eq(tp_mr_reg(rig.pd, memory, 100, DAT_MEM_PRIV_READ_FLAG, 0, &mr, &info), 0);
	ck_assert(!info.bindable);
	ck_assert_uint_eq(fv_seen().access, IBV_ACCESS_REMOTE_READ);
	ck_assert_int_eq(tp_mr_dereg(mr), 0);
	ck_assert_int_eq(tp_mr_reg(rig.pd, memory, 100, DAT_MEM_PRIV_READ_FLAG, 0, &mr, &info),
			 -ENOMEM);
	rig_close(&rig);
}
END_TEST

START_TEST(a_region_of_a_device_without_windows_is_not_bindable)
{
	struct tp_mr_info info;
	struct tp_mr *mr;

	rig_close(&rig);
	fv_device(0)->quirks = FV_NO_WINDOWS;
	rig_open(&rig);
	ck_assert_int_eq(try_reg(memory, 100, DAT_MEM_PRIV_ALL_FLAG, false, &mr, &info), 0);
	ck_assert(!info.bindable);
	ck_assert_uint_eq(fv_seen().access, ACCESS);
	ck_assert_int_eq(tp_mr_dereg(mr), 0);
	rig_close(&rig);
}
END_TEST

/* ---- pages on demand ---- */

#define ODP_TRANSFERS                                                                              \
	(IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ)
#define ODP_ALL (ODP_TRANSFERS | IBV_ODP_SUPPORT_SRQ_RECV)

/* What a device grants, and whether that serves. */
static const struct {
	const char *setting;
	uint64_t general;
	uint32_t rc;
	int max_srq;
	bool serves, warns;
} on_demand[] = {
	{ "1", IBV_ODP_SUPPORT, ODP_ALL, 8, true, false },
	{ "1", IBV_ODP_SUPPORT, ODP_TRANSFERS, 0, true, false },
	{ "1", IBV_ODP_SUPPORT, ODP_TRANSFERS, 8, false, true },
	{ "1", IBV_ODP_SUPPORT, ODP_ALL & ~IBV_ODP_SUPPORT_SEND, 8, false, true },
	{ "1", IBV_ODP_SUPPORT, ODP_ALL & ~IBV_ODP_SUPPORT_RECV, 8, false, true },
	{ "1", IBV_ODP_SUPPORT, ODP_ALL & ~IBV_ODP_SUPPORT_WRITE, 8, false, true },
	{ "1", IBV_ODP_SUPPORT, ODP_ALL & ~IBV_ODP_SUPPORT_READ, 8, false, true },
	{ "1", 0, ODP_ALL, 8, false, true },
	{ "0", IBV_ODP_SUPPORT, ODP_ALL, 8, false, false },
	{ NULL, IBV_ODP_SUPPORT, ODP_ALL, 8, false, false },
};

static void rig_open_on_demand(const char *setting, uint64_t general, uint32_t rc, int max_srq)
{
	rig_close(&rig);
	if (setting)
		setenv("DAPL_LMR_ODP", setting, 1);
	fv_device(0)->attr.max_srq = fv_device(0)->attr.max_srq_wr = max_srq;
	fv_device(0)->attr.max_srq_sge = 1;
	fv_device(0)->on_demand = (struct ibv_odp_caps){
		.general_caps = general,
		.per_transport_caps.rc_odp_caps = rc,
	};
	rig_open(&rig);
}

START_TEST(pages_are_on_demand_if_the_device_serves_all_transfers_so)
{
	const unsigned want = on_demand[_i].serves ? IBV_ACCESS_ON_DEMAND : 0;
	struct tp_mr_info info;
	struct tp_mr *mr;

	rig_open_on_demand(on_demand[_i].setting, on_demand[_i].general, on_demand[_i].rc,
			   on_demand[_i].max_srq);
	ck_assert_int_eq(tp_dev_attr(rig.dev)->caps & TP_CAP_ON_DEMAND,
			 on_demand[_i].serves ? TP_CAP_ON_DEMAND : 0);
	ck_assert_int_eq(strstr(fv_log(), "fv0: pages on demand are refused") != NULL,
			 on_demand[_i].warns);
	ck_assert_int_eq(try_reg(memory, 100, DAT_MEM_PRIV_ALL_FLAG, false, &mr, &info), 0);
	ck_assert_uint_eq(fv_seen().access, ACCESS | IBV_ACCESS_MW_BIND | want);
	ck_assert_int_eq(tp_mr_dereg(mr), 0);
	rig_close(&rig);
}
END_TEST

static const struct {
	const char *params;
	bool on_demand;
} third_words[] = {
	{ "fveth0 0", false },
	{ "fveth0 0 odp", true },
	{ "fveth0 0\todp ", true },
};

START_TEST(dat_conf_says_whether_pages_are_on_demand)
{
	struct tp_dev *dev;

	rig_close(&rig);
	fv_device(0)->on_demand = (struct ibv_odp_caps){
		.general_caps = IBV_ODP_SUPPORT,
		.per_transport_caps.rc_odp_caps = ODP_ALL,
	};
	ck_assert_int_eq(tp_dev_open(third_words[_i].params, up_ia(), &dev), 0);
	ck_assert_int_eq(tp_dev_attr(dev)->caps & TP_CAP_ON_DEMAND,
			 third_words[_i].on_demand ? TP_CAP_ON_DEMAND : 0);
	dev_close(dev);
}
END_TEST

/* What soft-RoCE transfers is at the beginning of a page, wherever it should be. */
START_TEST(soft_roce_pins_pages_although_it_grants_them_on_demand)
{
	fv_device(0)->attr.vendor_id = 0xffffff;
	rig_open_on_demand("1", IBV_ODP_SUPPORT, ODP_ALL, 8);
	ck_assert(!(tp_dev_attr(rig.dev)->caps & TP_CAP_ON_DEMAND));
	logged("fv0: pages on demand are refused");
	rig_close(&rig);
}
END_TEST

START_TEST(a_device_that_does_not_tell_pins_pages)
{
	fv_fail_always("ibv_query_device_ex", EIO);
	rig_open_on_demand("1", IBV_ODP_SUPPORT, ODP_ALL, 8);
	ck_assert(!(tp_dev_attr(rig.dev)->caps & TP_CAP_ON_DEMAND));
	logged("fv0: pages on demand are refused");
	rig_close(&rig);
}
END_TEST

/* The device would look at the memory when a transfer needs it. */
START_TEST(memory_on_demand_is_looked_at_when_it_is_registered)
{
	void *pages = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct tp_mr_info info;
	struct tp_mr *mr;

	ck_assert_ptr_ne(pages, MAP_FAILED);
	rig_open_on_demand("1", IBV_ODP_SUPPORT, ODP_ALL, 8);
	ck_assert_int_eq(try_reg(pages, 8192, DAT_MEM_PRIV_ALL_FLAG, false, &mr, &info), -EACCES);
	ck_assert_int_eq(try_reg(pages, 8192, DAT_MEM_PRIV_READ_FLAG, false, &mr, &info), 0);
	ck_assert_int_eq(tp_mr_dereg(mr), 0);
	munmap((char *)pages + 4096, 4096);
	ck_assert_int_eq(try_reg(pages, 8192, DAT_MEM_PRIV_READ_FLAG, false, &mr, &info), -EFAULT);
	munmap(pages, 4096);
	rig_close(&rig);
}
END_TEST

/* Some devices have no windows on such memory. Then a bind registers the range, on demand, too. */
START_TEST(memory_on_demand_without_windows_is_registered_without)
{
	struct tp_mr_info info;
	struct tp_mr *mr;

	rig_open_on_demand("1", IBV_ODP_SUPPORT, ODP_ALL, 8);
	fv_fail("ibv_reg_mr", EOPNOTSUPP, 1);
	ck_assert_int_eq(try_reg(memory, 100, DAT_MEM_PRIV_ALL_FLAG, false, &mr, &info), 0);
	ck_assert(!info.bindable);
	ck_assert_uint_eq(fv_seen().access, ACCESS | IBV_ACCESS_ON_DEMAND);
	ck_assert_int_eq(tp_mr_dereg(mr), 0);
	rig_close(&rig);
}
END_TEST

START_TEST(a_refused_deregistration_keeps_the_region)
{
	struct tp_mr_info info;
	struct tp_mr *mr;

	ck_assert_int_eq(try_reg(memory, 100, DAT_MEM_PRIV_ALL_FLAG, false, &mr, &info), 0);
	fv_fail("ibv_dereg_mr", EBUSY, 1);
	ck_assert_int_eq(tp_mr_dereg(mr), -EBUSY);
	ck_assert_uint_eq(fv_alive(FV_MR), 1);
	ck_assert_int_eq(tp_mr_dereg(mr), 0);
	rig_close(&rig);
}
END_TEST

static const struct {
	int err;
	bool unmapped, limited; /* by RLIMIT_MEMLOCK */
	int want;
	const char *text;
} reg_failures[] = {
	{ EFAULT, false, false, -EFAULT, "ibv_reg_mr of 100 bytes at 0x" },
	{ EINVAL, false, false, -EINVAL, "Invalid argument" },
	{ ENOMEM, true, false, -EFAULT, "Bad address" },
	{ ENOMEM, false, false, -ENOMEM, "the device supports 16777216 regions" },
	{ ENOMEM, false, true, -ENOMEM, "pinned already and RLIMIT_MEMLOCK is 0 KiB" },
	{ EPERM, false, true, -EPERM, "ulimit -l" },
};

START_TEST(a_failed_registration_names_the_limit)
{
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };
	char *address = memory;
	struct tp_mr_info info;
	struct tp_mr *mr;

	if (reg_failures[_i].unmapped) {
		address = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		ck_assert_int_eq(munmap(address, 4096), 0);
	}
	ck_assert_int_eq(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
	limit.rlim_cur = reg_failures[_i].limited ? 0 : limit.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	fv_fail_always("ibv_reg_mr", reg_failures[_i].err);
	ck_assert_int_eq(try_reg(address, 100, DAT_MEM_PRIV_ALL_FLAG, false, &mr, &info),
			 reg_failures[_i].want);
	logged(reg_failures[_i].text);
	rig_close(&rig);
}
END_TEST

/* ---- windows ---- */

static const struct {
	DAT_MEM_PRIV_FLAGS priv;
	unsigned want;
} window_accesses[] = {
	{ DAT_MEM_PRIV_NONE_FLAG, 0 },
	{ DAT_MEM_PRIV_REMOTE_READ_FLAG, IBV_ACCESS_REMOTE_READ },
	{ DAT_MEM_PRIV_REMOTE_WRITE_FLAG, IBV_ACCESS_REMOTE_WRITE },
	{ DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG,
	  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE },
};

static struct tp_mr *bindable_region(void)
{
	struct tp_mr_info info;
	struct tp_mr *mr;

	ck_assert_int_eq(try_reg(memory, sizeof(memory), DAT_MEM_PRIV_ALL_FLAG, false, &mr, &info),
			 0);
	return mr;
}

START_TEST(a_bind_has_the_range_and_the_access_that_were_asked_for)
{
	DAT_RMR_CONTEXT first, context;
	struct ibv_mw_bind seen;
	struct tp_bind bind;

	bind.mr = bindable_region();
	ck_assert_int_eq(tp_mw_create(rig.pd, &bind.mw, &first), 0);
	ck_assert_int_eq(fv_seen().mw_type, IBV_MW_TYPE_1);
	bind.address = (uintptr_t)memory + 5;
	bind.size = 77;
	bind.priv = window_accesses[_i].priv;
	ck_assert_int_eq(tp_post_bind(rig.qp, memory, &bind, IBV_SEND_SIGNALED, &context), 0);
	seen = fv_seen().bind;
	ck_assert_uint_eq(seen.wr_id, (uintptr_t)memory);
	ck_assert_ptr_eq(seen.bind_info.mr, ibv_mr_of(bind.mr));
	ck_assert_uint_eq(seen.bind_info.addr, bind.address);
	ck_assert_uint_eq(seen.bind_info.length, 77);
	ck_assert_uint_eq(seen.bind_info.mw_access_flags, window_accesses[_i].want);
	ck_assert_uint_ne(context, first);
	fv_complete_send(rig.qp->ibv, IBV_WC_SUCCESS);
	tp_mw_destroy(bind.mw);
	ck_assert_int_eq(tp_mr_dereg(bind.mr), 0);
	rig_close(&rig);
}
END_TEST

static const struct {
	int result; /* of ibv_bind_mw; 0: the quirk */
	int want;
} bind_failures[] = {
	{ 0, -EOPNOTSUPP },
	{ EINVAL, -EINVAL },
	{ ENOMEM, -ENOMEM },
	{ -1, -ENOTCONN }, /* some providers, after a disconnect */
};

START_TEST(a_refused_bind_keeps_the_context)
{
	DAT_RMR_CONTEXT first, context = 0;
	struct tp_bind bind = { .size = 8 };

	bind.mr = bindable_region();
	bind.address = (uintptr_t)memory;
	ck_assert_int_eq(tp_mw_create(rig.pd, &bind.mw, &first), 0);
	if (bind_failures[_i].result)
		fv_fail("ibv_bind_mw", bind_failures[_i].result, 1);
	else
		fv_device(0)->quirks = FV_BIND_REFUSED;
	ck_assert_int_eq(tp_post_bind(rig.qp, memory, &bind, 0, &context), bind_failures[_i].want);
	ck_assert_uint_eq(context, first);
	tp_mw_destroy(bind.mw);
	ck_assert_int_eq(tp_mr_dereg(bind.mr), 0);
	rig_close(&rig);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("objects");

	case_fixture(NULL, verbs_begin, NULL);
	case_fixture(cases, setup, NULL);
	tcase_add_loop_test(cases, a_failed_creation_leaves_nothing, 0, ROWS(failures));
	tcase_add_loop_test(cases, a_creation_without_memory_leaves_nothing, 0, ROWS(makers));
	tcase_add_test(cases, a_refused_destruction_is_reported);
	tcase_add_test(cases, objects_wait_for_those_that_use_them);
	tcase_add_loop_test(cases, a_completion_has_the_status_of_dat, 0, ROWS(statuses));
	tcase_add_test(cases, a_lost_peer_names_the_acknowledgement_timer_once);
	tcase_add_test(cases, each_completion_of_a_poll_has_its_status);
	tcase_add_test(cases, a_poll_takes_at_most_what_it_asks_for);
	tcase_add_loop_test(cases, a_failed_resize_keeps_the_queue, 0, ROWS(resizes));
	tcase_add_test(cases, an_armed_queue_makes_one_event);
	tcase_add_test(cases, a_queue_that_gets_a_sender_is_armed_anew);
	tcase_add_loop_test(cases, a_queue_pair_has_as_much_inline_data_as_the_device_grants, 0,
			    ROWS(inlines));
	tcase_add_loop_test(cases, a_refused_queue_pair_is_reported_with_what_was_asked_for, 0,
			    ROWS(qp_refusals));
	tcase_add_loop_test(cases, a_queue_pair_has_no_more_segments_than_are_built, 0, 2);
	tcase_add_loop_test(cases, a_new_queue_pair_takes_receives, 0, 2);
	tcase_add_test(cases, a_queue_pair_can_be_put_into_the_error_state_again);
	tcase_add_test(cases, each_connection_has_the_keys_and_addresses_of_the_tables_now);
	tcase_add_test(cases, the_only_key_is_not_asked_for);
	tcase_add_loop_test(cases, a_queue_pair_that_can_not_connect_is_reported, 0,
			    ROWS(rts_failures));
	tcase_add_loop_test(cases, a_connection_has_the_time_outs_that_are_set, 0, ROWS(timers));
	tcase_add_loop_test(cases, a_region_has_the_access_that_was_asked_for, 0, ROWS(accesses));
	tcase_add_test(cases, a_region_of_read_only_memory_is_not_bindable);
	tcase_add_test(cases, a_region_of_a_device_without_windows_is_not_bindable);
	tcase_add_loop_test(cases, pages_are_on_demand_if_the_device_serves_all_transfers_so, 0,
			    ROWS(on_demand));
	tcase_add_loop_test(cases, dat_conf_says_whether_pages_are_on_demand, 0, ROWS(third_words));
	tcase_add_test(cases, soft_roce_pins_pages_although_it_grants_them_on_demand);
	tcase_add_test(cases, a_device_that_does_not_tell_pins_pages);
	tcase_add_test(cases, memory_on_demand_is_looked_at_when_it_is_registered);
	tcase_add_test(cases, memory_on_demand_without_windows_is_registered_without);
	tcase_add_test(cases, a_region_is_registered_for_windows_only_if_they_are_wanted);
	tcase_add_test(cases, a_refused_deregistration_keeps_the_region);
	tcase_add_loop_test(cases, a_failed_registration_names_the_limit, 0, ROWS(reg_failures));
	tcase_add_loop_test(cases, a_bind_has_the_range_and_the_access_that_were_asked_for, 0,
			    ROWS(window_accesses));
	tcase_add_loop_test(cases, a_refused_bind_keeps_the_context, 0, ROWS(bind_failures));
	return run_cases(argc, argv);
}
