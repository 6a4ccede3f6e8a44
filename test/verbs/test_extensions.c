/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the verbs transport makes of the requests of extensions, for DAT 2.0: work requests, their
 * refusals and flushes, the rights that atomic operations need, and immediate data of receives.
 */
#include <stdlib.h>

#include "verbs_test.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define NUMBER	     0xfedc1234u
#define TAG	     ((void *)(uintptr_t)0xabcdef012345)

static struct rig rig;

static const struct tp_sge sges[2] = {
	{ .address = 0x200000001000, .length = 100, .lmr_context = 0x11 },
	{ .address = 0x2000, .length = 200, .lmr_context = 0x22 },
};
static const DAT_RMR_TRIPLET far_away = { .REMOTE_ADDRESS = 0x7000deadbeef0008,
					  .segment_length = 3,
					  .rmr_context = 0x8badf00d };
static const struct tp_atomic add = { .operand = UINT64_C(0x8000000000000001) };
static const struct tp_atomic swap = { .swaps = true, .operand = UINT64_MAX, .swap = 7 };

static int post_immed(unsigned nsge, uint32_t size, DAT_UINT32 immed, unsigned flags)
{
	return tp_post_write_immed(rig.qp, TAG, sges, nsge, size, nsge ? &far_away : NULL, immed,
				   flags);
}

static int post_atomic(const struct tp_atomic *atomic, unsigned flags)
{
	return tp_post_atomic(rig.qp, TAG, sges, &far_away, atomic, flags);
}

/* ---- what a device has ---- */

static const struct {
	enum ibv_atomic_cap atomics;
	bool iwarp;
	unsigned want;
} devices[] = {
	{ IBV_ATOMIC_NONE, false, TP_CAP_IMMED },
	{ IBV_ATOMIC_HCA, false, TP_CAP_IMMED | TP_CAP_ATOMIC },
	{ IBV_ATOMIC_GLOB, false, TP_CAP_IMMED | TP_CAP_ATOMIC },
	{ IBV_ATOMIC_HCA, true, 0 },
};

static void open_device(enum ibv_atomic_cap atomics)
{
	fv_device(0)->attr.atomic_cap = atomics;
	rig_open(&rig);
}

START_TEST(the_device_says_what_it_has)
{
	if (devices[_i].iwarp)
		fv_make_iwarp(0);
	open_device(devices[_i].atomics);
	ck_assert_uint_eq(tp_dev_attr(rig.dev)->caps & (TP_CAP_IMMED | TP_CAP_ATOMIC),
			  devices[_i].want);
	rig_close(&rig);
}
END_TEST

/* Devices refuse them to peers of a queue pair, and on a region, that do not have the right. */
START_TEST(peers_get_the_right_to_atomic_operations)
{
	const bool has = devices[_i].want & TP_CAP_ATOMIC;
	static char memory[64];
	struct tp_mr_info info;
	struct tp_mr *mr;

	if (devices[_i].iwarp)
		fv_make_iwarp(0);
	open_device(devices[_i].atomics);
	ck_assert_int_eq(tp_qp_error(rig.qp), 0);
	ck_assert_uint_eq(fv_seen().modified[IBV_QPS_INIT].attr.qp_access_flags &
				  IBV_ACCESS_REMOTE_ATOMIC,
			  has ? IBV_ACCESS_REMOTE_ATOMIC : 0);
	if (has) {
		ck_assert_int_eq(tp_mr_reg(rig.pd, memory, sizeof(memory),
					   (DAT_MEM_PRIV_FLAGS)TP_PRIV_ATOMIC, 0, &mr, &info),
				 0);
		ck_assert_uint_eq(fv_seen().access,
				  IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE);
		ck_assert_int_eq(tp_mr_dereg(mr), 0);
	}
	rig_close(&rig);
}
END_TEST

/* All others may be on demand. */
START_TEST(a_region_for_atomic_operations_is_pinned_where_the_device_needs_that)
{
	static const unsigned grants[] = { 0, IBV_ODP_SUPPORT_ATOMIC };
	static char memory[64];
	struct tp_mr_info info;
	struct tp_mr *mr;

	setenv("DAPL_LMR_ODP", "1", 1);
	fv_device(0)->on_demand = (struct ibv_odp_caps){
		.general_caps = IBV_ODP_SUPPORT,
		.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
						  IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
						  grants[_i],
	};
	open_device(IBV_ATOMIC_HCA);
	ck_assert_int_eq(tp_mr_reg(rig.pd, memory, sizeof(memory),
				   (DAT_MEM_PRIV_FLAGS)TP_PRIV_ATOMIC, 0, &mr, &info),
			 0);
	ck_assert_int_eq(!!(fv_seen().access & IBV_ACCESS_ON_DEMAND), !!grants[_i]);
	ck_assert_int_eq(tp_mr_dereg(mr), 0);
	ck_assert_int_eq(
		tp_mr_reg(rig.pd, memory, sizeof(memory), DAT_MEM_PRIV_ALL_FLAG, 0, &mr, &info), 0);
	ck_assert_int_ne(fv_seen().access & IBV_ACCESS_ON_DEMAND, 0);
	ck_assert_int_eq(tp_mr_dereg(mr), 0);
	rig_close(&rig);
}
END_TEST

/* ---- work requests ---- */

static const struct {
	unsigned nsge, flags;
	uint32_t size;
	DAT_UINT32 immed;
	unsigned send_flags;
} writes[] = {
	{ 1, TP_POST_SIGNAL, 201, NUMBER, IBV_SEND_SIGNALED },
	{ 1, TP_POST_SIGNAL, 200, 0, IBV_SEND_SIGNALED | IBV_SEND_INLINE },
	{ 2, 0, 300, UINT32_MAX, 0 },
	{ 1, TP_POST_SIGNAL | TP_POST_FENCE, 500, 1, IBV_SEND_SIGNALED | IBV_SEND_FENCE },
	{ 2, TP_POST_SIGNAL | TP_POST_SOLICIT, 500, NUMBER,
	  IBV_SEND_SIGNALED | IBV_SEND_SOLICITED },
	{ 0, TP_POST_SIGNAL, 0, NUMBER, IBV_SEND_SIGNALED },
};

/*
 * The bytes of the number are not reordered. Each follows a write, of which nothing may be left in
 * it.
 */
START_TEST(a_write_reaches_the_device_with_its_number)
{
	struct fv_sent sent;

	rig_open(&rig);
	ck_assert_int_eq(tp_post_write(rig.qp, TAG, sges, 2, 300, &far_away, TP_POST_FENCE), 0);
	ck_assert_int_eq(
		post_immed(writes[_i].nsge, writes[_i].size, writes[_i].immed, writes[_i].flags),
		0);
	sent = fv_sent(0);
	ck_assert_ptr_eq(sent.qp, rig.qp->ibv);
	ck_assert_uint_eq(sent.wr.wr_id, (uintptr_t)TAG);
	ck_assert_int_eq(sent.wr.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	ck_assert_uint_eq(sent.wr.imm_data, writes[_i].immed);
	ck_assert_uint_eq(sent.wr.send_flags, writes[_i].send_flags);
	ck_assert_int_eq(sent.wr.num_sge, (int)writes[_i].nsge);
	for (unsigned i = 0; i < writes[_i].nsge; i++) {
		ck_assert_uint_eq(sent.sge[i].addr, sges[i].address);
		ck_assert_uint_eq(sent.sge[i].length, sges[i].length);
		ck_assert_uint_eq(sent.sge[i].lkey, sges[i].lmr_context);
	}
	ck_assert_uint_eq(sent.wr.wr.rdma.remote_addr,
			  writes[_i].nsge ? far_away.REMOTE_ADDRESS : 0);
	ck_assert_uint_eq(sent.wr.wr.rdma.rkey, writes[_i].nsge ? far_away.rmr_context : 0);
	fv_flush(rig.qp->ibv);
	rig_close(&rig);
}
END_TEST

static const struct {
	const struct tp_atomic *atomic;
	enum ibv_wr_opcode opcode;
} atomics[] = {
	{ &add, IBV_WR_ATOMIC_FETCH_AND_ADD },
	{ &swap, IBV_WR_ATOMIC_CMP_AND_SWP },
};

START_TEST(an_atomic_operation_reaches_the_device_with_its_operands)
{
	const struct tp_atomic *atomic = atomics[_i].atomic;
	struct fv_sent sent;

	open_device(IBV_ATOMIC_HCA);
	ck_assert_int_eq(post_immed(2, 300, NUMBER, TP_POST_SOLICIT), 0); /* it leaves nothing */
	ck_assert_int_eq(post_atomic(atomic, TP_POST_SIGNAL | TP_POST_FENCE), 0);
	sent = fv_sent(0);
	ck_assert_uint_eq(sent.wr.wr_id, (uintptr_t)TAG);
	ck_assert_int_eq(sent.wr.opcode, atomics[_i].opcode);
	ck_assert_uint_eq(sent.wr.send_flags, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
	ck_assert_uint_eq(sent.wr.wr.atomic.remote_addr, far_away.REMOTE_ADDRESS);
	ck_assert_uint_eq(sent.wr.wr.atomic.rkey, far_away.rmr_context);
	ck_assert_uint_eq(sent.wr.wr.atomic.compare_add, atomic->operand);
	if (atomic->swaps)
		ck_assert_uint_eq(sent.wr.wr.atomic.swap, atomic->swap);
	ck_assert_int_eq(sent.wr.num_sge, 1);
	ck_assert_uint_eq(sent.sge[0].addr, sges[0].address);
	ck_assert_uint_eq(sent.sge[0].lkey, sges[0].lmr_context);
	fv_flush(rig.qp->ibv);
	rig_close(&rig);
}
END_TEST

/* A write after an atomic operation goes where it was told to. */
START_TEST(an_atomic_operation_leaves_nothing_in_the_next_request)
{
	struct fv_sent sent;

	open_device(IBV_ATOMIC_HCA);
	ck_assert_int_eq(post_atomic(&swap, TP_POST_FENCE), 0);
	ck_assert_int_eq(tp_post_write(rig.qp, TAG, sges, 2, 300, &far_away, TP_POST_SIGNAL), 0);
	sent = fv_sent(0);
	ck_assert_int_eq(sent.wr.opcode, IBV_WR_RDMA_WRITE);
	ck_assert_uint_eq(sent.wr.send_flags, IBV_SEND_SIGNALED);
	ck_assert_uint_eq(sent.wr.wr.rdma.remote_addr, far_away.REMOTE_ADDRESS);
	ck_assert_uint_eq(sent.wr.wr.rdma.rkey, far_away.rmr_context);
	fv_flush(rig.qp->ibv);
	rig_close(&rig);
}
END_TEST

/* ---- refusals, and the end ---- */

enum { IMMED, ADD, SWAP, KINDS };

static int post_kind(int kind)
{
	if (kind == IMMED)
		return post_immed(1, 500, NUMBER, TP_POST_SIGNAL);
	return post_atomic(kind == ADD ? &add : &swap, TP_POST_SIGNAL);
}

START_TEST(what_the_device_refuses_is_not_posted)
{
	int result;

	open_device(IBV_ATOMIC_HCA);
	fv_fail("ibv_post_send", ENOMEM, 1);
	result = post_kind(_i);
	ck_assert_int_ne(result, 0);
	ck_assert_int_eq(tp_post_error(result), -ENOMEM);
	ck_assert_uint_eq(fv_outstanding(), 0);
	ck_assert_int_eq(post_kind(_i), 0);
	ck_assert_uint_eq(fv_outstanding(), 1);
	fv_flush(rig.qp->ibv);
	rig_close(&rig);
}
END_TEST

static const struct {
	enum ibv_wc_status status;
	DAT_DTO_COMPLETION_STATUS want;
} failures[] = {
	{ IBV_WC_SUCCESS, DAT_DTO_SUCCESS },
	{ IBV_WC_WR_FLUSH_ERR, DAT_DTO_ERR_FLUSHED },
	{ IBV_WC_REM_ACCESS_ERR, DAT_DTO_ERR_REMOTE_ACCESS },
	{ IBV_WC_REM_INV_REQ_ERR, DAT_DTO_ERR_REMOTE_RESPONDER },
	{ IBV_WC_LOC_PROT_ERR, DAT_DTO_ERR_LOCAL_PROTECTION },
};

/* Iterations: each kind with each status. */
START_TEST(a_request_completes_with_its_status)
{
	struct tp_wc wc;

	open_device(IBV_ATOMIC_HCA);
	ck_assert_int_eq(post_kind(_i % KINDS), 0);
	fv_complete_send(rig.qp->ibv, failures[_i / KINDS].status);
	ck_assert_uint_eq(tp_cq_poll(rig.send_cq, &wc, 1), 1);
	ck_assert_ptr_eq(wc.tag, TAG);
	ck_assert_int_eq((int)wc.status, (int)failures[_i / KINDS].want);
	rig_close(&rig);
}
END_TEST

/* ---- immediate data of receives ---- */

static void complete_with(struct tp_qp *qp, enum ibv_wc_opcode opcode, enum ibv_wc_status status,
			  uint64_t tag, uint32_t immed)
{
	const struct ibv_wc wc = {
		.wr_id = tag,
		.status = status,
		.opcode = opcode,
		.wc_flags = IBV_WC_WITH_IMM,
		.byte_len = 20,
		.imm_data = immed,
		.qp_num = qp->number,
	};

	fv_complete(rig.recv_cq->ibv, &wc, false);
}

/* Each one of several has its own, which a poll for many takes at once. */
START_TEST(each_receive_of_a_poll_has_its_number)
{
	struct tp_wc wc[TP_POLL_MAX];

	rig_open(&rig);
	for (uint32_t n = 0; n < TP_POLL_MAX; n++)
		complete_with(rig.qp, n % 2 ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM,
			      IBV_WC_SUCCESS, 100 + n, NUMBER + n);
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, wc, TP_POLL_MAX), TP_POLL_MAX);
	for (uint32_t n = 0; n < TP_POLL_MAX; n++) {
		ck_assert_uint_eq((uintptr_t)wc[n].tag, 100 + n);
		ck_assert_int_eq((int)wc[n].status, n % 2 ? TP_WC_SEND_IMMED : TP_WC_WRITE_IMMED);
		ck_assert_uint_eq(tp_wc_immed(&wc[n]), NUMBER + n);
		ck_assert_uint_eq(wc[n].length, 20);
	}
	rig_close(&rig);
}
END_TEST

/* Of a completion that has failed the flags mean nothing. */
START_TEST(a_receive_that_has_failed_has_no_number)
{
	struct tp_wc wc;

	rig_open(&rig);
	complete_with(rig.qp, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WR_FLUSH_ERR, 5, NUMBER);
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, &wc, 1), 1);
	ck_assert_int_eq((int)wc.status, DAT_DTO_ERR_FLUSHED);
	rig_close(&rig);
}
END_TEST

START_TEST(a_shared_receive_has_its_number_and_its_endpoint)
{
	struct tp_srq_attr srq_attr = { .max_recv = 10, .max_sge = 1 };
	struct tp_qp_attr attr = { .max_send = 8, .max_recv = 8, .max_send_sge = 2 };
	struct fv_device *device = fv_device(0);
	struct tp_srq *srq;
	struct tp_qp *qp;
	struct tp_wc wc;

	device->attr.max_srq = 100;
	device->attr.max_srq_wr = 1000;
	device->attr.max_srq_sge = 8;
	rig_open(&rig);
	srq_attr.pd = attr.pd = rig.pd;
	attr.send_cq = rig.send_cq;
	attr.recv_cq = rig.recv_cq;
	ck_assert_int_eq(tp_srq_create(rig.dev, &srq_attr, (struct srq *)up_evd(9), &srq), 0);
	attr.srq = srq;
	ck_assert_int_eq(tp_qp_create(rig.dev, &attr, up_ep(2), &qp), 0);
	complete_with(qp, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_SUCCESS, 7, NUMBER);
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, &wc, 1), 1);
	ck_assert_uint_eq((uintptr_t)wc.tag, 7);
	ck_assert_int_eq((int)wc.status, TP_WC_WRITE_IMMED);
	ck_assert_uint_eq(tp_wc_immed(&wc), NUMBER);
	ck_assert_ptr_eq(tp_wc_ep(rig.recv_cq, &wc), up_ep(2));
	rig_qp_destroy(qp);
	tp_qp_forget(qp);
	tp_srq_destroy(srq);
	rig_close(&rig);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("extensions");

	tcase_add_checked_fixture(cases, verbs_begin, NULL);
	tcase_add_loop_test(cases, the_device_says_what_it_has, 0, COUNT(devices));
	tcase_add_loop_test(cases, peers_get_the_right_to_atomic_operations, 0, COUNT(devices));
	tcase_add_loop_test(
		cases, a_region_for_atomic_operations_is_pinned_where_the_device_needs_that, 0, 2);
	tcase_add_loop_test(cases, a_write_reaches_the_device_with_its_number, 0, COUNT(writes));
	tcase_add_loop_test(cases, an_atomic_operation_reaches_the_device_with_its_operands, 0,
			    COUNT(atomics));
	tcase_add_test(cases, an_atomic_operation_leaves_nothing_in_the_next_request);
	tcase_add_loop_test(cases, what_the_device_refuses_is_not_posted, 0, KINDS);
	tcase_add_loop_test(cases, a_request_completes_with_its_status, 0, KINDS * COUNT(failures));
	tcase_add_test(cases, each_receive_of_a_poll_has_its_number);
	tcase_add_test(cases, a_receive_that_has_failed_has_no_number);
	tcase_add_test(cases, a_shared_receive_has_its_number_and_its_endpoint);
	return run_cases(argc, argv);
}
