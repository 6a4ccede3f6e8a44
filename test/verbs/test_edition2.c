/* SPDX-License-Identifier: BSD-2-Clause */
/* What the verbs transport has for DAT 2.0 alone: sends that invalidate, special completions. */
#include "verbs_test.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define TYPE_2	     IBV_DEVICE_MEM_WINDOW_TYPE_2B
#define MANAGEMENT   IBV_DEVICE_MEM_MGT_EXTENSIONS
#define SOFT_ROCE    0xffffffu
#define ANY_VENDOR   0x0002c9u
#define TAG	     ((void *)(uintptr_t)0xabcdef012345)

static struct rig rig;

/* ---- what a device has ---- */

static const struct {
	unsigned flags, quirks, want;
} capabilities[] = {
	{ TYPE_2 | MANAGEMENT, 0, TP_CAP_QP_WINDOWS | TP_CAP_INVALIDATE },
	{ IBV_DEVICE_MEM_WINDOW_TYPE_2A | MANAGEMENT, 0, TP_CAP_QP_WINDOWS | TP_CAP_INVALIDATE },
	{ TYPE_2, 0, TP_CAP_QP_WINDOWS },
	{ MANAGEMENT | IBV_DEVICE_MEM_WINDOW, 0, 0 },
	{ TYPE_2 | MANAGEMENT, FV_NO_WINDOWS, 0 },
};

START_TEST(a_device_that_invalidates_says_so_and_has_the_windows)
{
	struct tp_dev *dev;
	unsigned caps;

	fv_device(0)->attr.device_cap_flags = capabilities[_i].flags;
	fv_device(0)->quirks = capabilities[_i].quirks;
	dev = dev_open();
	caps = tp_dev_attr(dev)->caps;
	dev_close(dev);
	ck_assert_uint_eq(caps & (TP_CAP_QP_WINDOWS | TP_CAP_INVALIDATE), capabilities[_i].want);
}
END_TEST

/* ---- posts ---- */

static const struct tp_sge sge = { .address = 0x1000, .length = 100, .lmr_context = 0x11 };

static const struct {
	uint32_t size;
	unsigned nsge, flags, want;
} sends[] = {
	{ 4000, 1, TP_POST_SIGNAL, IBV_SEND_SIGNALED },
	{ 100, 1, TP_POST_SIGNAL | TP_POST_SOLICIT,
	  IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE },
	{ 0, 0, TP_POST_SIGNAL | TP_POST_FENCE, IBV_SEND_SIGNALED | IBV_SEND_FENCE },
};

START_TEST(a_send_that_invalidates_reaches_the_device_as_posted)
{
	struct fv_sent sent;

	rig_open(&rig);
	ck_assert_int_eq(tp_post_send_invalidate(rig.qp, TAG, &sge, sends[_i].nsge, sends[_i].size,
						 0x8badf00d, sends[_i].flags),
			 0);
	sent = fv_sent(0);
	ck_assert_ptr_eq(sent.qp, rig.qp->ibv);
	ck_assert_uint_eq(sent.wr.wr_id, (uintptr_t)TAG);
	ck_assert_int_eq(sent.wr.opcode, IBV_WR_SEND_WITH_INV);
	ck_assert_uint_eq(sent.wr.invalidate_rkey, 0x8badf00d);
	ck_assert_uint_eq(sent.wr.send_flags, sends[_i].want);
	ck_assert_int_eq(sent.wr.num_sge, (int)sends[_i].nsge);
	fv_complete_send(rig.qp->ibv, IBV_WC_SUCCESS);
	rig_close(&rig);
}
END_TEST

START_TEST(a_window_of_a_queue_pair_gets_the_context_that_was_told)
{
	static char memory[64];
	struct tp_bind bind = { .address = (uintptr_t)memory, .size = 8 };
	DAT_RMR_CONTEXT told, context = 0;
	struct tp_mr_info info;

	rig_open(&rig);
	ck_assert_int_eq(tp_mr_reg(rig.pd, memory, sizeof(memory), DAT_MEM_PRIV_ALL_FLAG,
				   TP_REG_WINDOWS, &bind.mr, &info),
			 0);
	ck_assert_int_eq(tp_mw_create_for_qp(rig.pd, &bind.mw, &told), 0);
	ck_assert_int_eq(fv_seen().mw_type, IBV_MW_TYPE_2);
	ck_assert_int_eq(tp_post_bind_typed(rig.qp, TAG, &bind, false, TP_POST_SIGNAL, &context),
			 0);
	ck_assert_uint_eq(context, told);
	ck_assert_int_eq(fv_sent(0).wr.opcode, IBV_WR_BIND_MW);
	ck_assert_uint_eq(fv_sent(0).wr.bind_mw.rkey, told);
	fv_complete_send(rig.qp->ibv, IBV_WC_SUCCESS);
	tp_mw_destroy(bind.mw);
	ck_assert_int_eq(tp_mr_dereg(bind.mr), 0);
	rig_close(&rig);
}
END_TEST

/* ---- completions ---- */

/* On soft-RoCE a message has invalidated by the bit that tells elsewhere of a right checksum. */
static const struct {
	uint32_t vendor;
	enum ibv_wc_opcode opcode;
	unsigned flags;
	int want;
} completions[] = {
	{ ANY_VENDOR, IBV_WC_RECV, 0, DAT_DTO_SUCCESS },
	{ ANY_VENDOR, IBV_WC_RECV, IBV_WC_GRH, DAT_DTO_SUCCESS },
	{ ANY_VENDOR, IBV_WC_RECV, IBV_WC_IP_CSUM_OK, DAT_DTO_SUCCESS },
	{ ANY_VENDOR, IBV_WC_RECV, IBV_WC_WITH_INV, TP_WC_INVALIDATED },
	{ ANY_VENDOR, IBV_WC_RECV, IBV_WC_WITH_IMM, TP_WC_SEND_IMMED },
	{ ANY_VENDOR, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM, TP_WC_WRITE_IMMED },
	{ ANY_VENDOR, IBV_WC_SEND, IBV_WC_WITH_INV, DAT_DTO_SUCCESS },
	{ ANY_VENDOR, IBV_WC_RDMA_WRITE, IBV_WC_WITH_IMM, DAT_DTO_SUCCESS },
	{ SOFT_ROCE, IBV_WC_RECV, IBV_WC_GRH, DAT_DTO_SUCCESS },
	{ SOFT_ROCE, IBV_WC_RECV, IBV_WC_GRH | IBV_WC_IP_CSUM_OK, TP_WC_INVALIDATED },
	{ SOFT_ROCE, IBV_WC_RECV, IBV_WC_WITH_INV, TP_WC_INVALIDATED },
	{ SOFT_ROCE, IBV_WC_RECV, IBV_WC_GRH | IBV_WC_WITH_IMM, TP_WC_SEND_IMMED },
};

START_TEST(a_completion_says_what_a_message_has_brought)
{
	struct ibv_wc wc = {
		.wr_id = (uintptr_t)TAG,
		.opcode = completions[_i].opcode,
		.wc_flags = completions[_i].flags,
		.byte_len = 20,
		.invalidated_rkey = 0x8badf00d,
	};
	struct tp_wc got;

	fv_device(0)->attr.vendor_id = completions[_i].vendor;
	rig_open(&rig);
	wc.qp_num = rig.qp->number;
	fv_complete(rig.recv_cq->ibv, &wc, false);
	ck_assert_uint_eq(tp_cq_poll(rig.recv_cq, &got, 1), 1);
	ck_assert_ptr_eq(got.tag, TAG);
	ck_assert_int_eq((int)got.status, completions[_i].want);
	ck_assert_uint_eq(got.length, 20);
	ck_assert_uint_eq(tp_wc_immed(&got), 0x8badf00d);
	rig_close(&rig);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("DAT 2.0");

	tcase_add_checked_fixture(cases, verbs_begin, NULL);
	tcase_add_loop_test(cases, a_device_that_invalidates_says_so_and_has_the_windows, 0,
			    COUNT(capabilities));
	tcase_add_loop_test(cases, a_send_that_invalidates_reaches_the_device_as_posted, 0,
			    COUNT(sends));
	tcase_add_test(cases, a_window_of_a_queue_pair_gets_the_context_that_was_told);
	tcase_add_loop_test(cases, a_completion_says_what_a_message_has_brought, 0,
			    COUNT(completions));
	return run_cases(argc, argv);
}
