/* SPDX-License-Identifier: BSD-2-Clause */
/* Work requests: what of each post reaches libibverbs, and what its refusals become. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/nodes.h"
#include "verbs_test.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

enum post {
	SEND,
	WRITE,
	READ,
	SPLIT_READ,
	RECV,
	POSTS,
};

static struct rig post_rig;
static struct tp_qp *qp; /* of five segments */

static const struct tp_sge sges[5] = {
	{ .address = 0x1000, .length = 100, .lmr_context = 0x11 },
	{ .address = 0x200000002000, .length = 7, .lmr_context = 0x22 },
	{ .address = UINT64_MAX - 8, .length = 8, .lmr_context = UINT32_MAX },
	{ .address = 0x4000, .length = 1u << 31, .lmr_context = 0x44 },
	{ .address = 0x5000, .length = 1, .lmr_context = 0 },
};
/* The address of a request: what the device gets back. */
#define TAG ((uintptr_t)0xabcdef012345)

static const DAT_RMR_TRIPLET far_away = { .REMOTE_ADDRESS = 0x7000deadbeef0000,
					  .segment_length = 3,
					  .rmr_context = 0x8badf00d };

/* @iwarp: a device that takes two segments in a read. */
static void post_open(bool iwarp)
{
	struct tp_qp_attr attr;

	if (iwarp) {
		fv_make_iwarp(0);
		fv_device(0)->attr.max_sge_rd = 2;
	}
	rig_open(&post_rig);
	attr = (struct tp_qp_attr){
		.pd = post_rig.pd,
		.send_cq = post_rig.send_cq,
		.recv_cq = post_rig.recv_cq,
		.max_send = 16,
		.max_recv = 16,
		.max_send_sge = COUNT(sges),
		.max_recv_sge = COUNT(sges),
	};
	ck_assert_int_eq(tp_qp_create(post_rig.dev, &attr, up_ep(1), &qp), 0);
}

static void post_close(void)
{
	(void)tp_qp_error(qp);
	(void)tp_qp_error(post_rig.qp);
	rig_qp_destroy(qp);
	rig_close(&post_rig);
}

static int post_call(enum post post, void *tag, unsigned nsge, uint32_t size, unsigned flags)
{
	switch (post) {
	case SEND:
		return tp_post_send(qp, tag, sges, nsge, size, flags);
	case WRITE:
		return tp_post_write(qp, tag, sges, nsge, size, &far_away, flags);
	case READ:
		return tp_post_read(qp, tag, sges, nsge, &far_away, flags);
	case SPLIT_READ:
		return tp_post_split_read(qp, tag, sges, nsge, &far_away, flags);
	default:
		return tp_post_recv(qp, tag, sges, nsge);
	}
}

static void sges_check(const struct ibv_sge *got, int n, unsigned from, unsigned want)
{
	ck_assert_int_eq(n, (int)want);
	for (unsigned i = 0; i < want; i++) {
		ck_assert_uint_eq(got[i].addr, sges[from + i].address);
		ck_assert_uint_eq(got[i].length, sges[from + i].length);
		ck_assert_uint_eq(got[i].lkey, sges[from + i].lmr_context);
	}
}

static const struct {
	enum post post;
	unsigned nsge, flags;
	uint32_t size;
	enum ibv_wr_opcode opcode;
	unsigned send_flags, iwarp_flags;
} requests[] = {
	{ SEND, 1, TP_POST_SIGNAL, 201, IBV_WR_SEND, IBV_SEND_SIGNALED,
	  IBV_SEND_SIGNALED | IBV_SEND_FENCE },
	{ SEND, 1, TP_POST_SIGNAL, 200, IBV_WR_SEND, IBV_SEND_SIGNALED | IBV_SEND_INLINE,
	  IBV_SEND_SIGNALED | IBV_SEND_FENCE },
	{ SEND, 1, TP_POST_SIGNAL, 64, IBV_WR_SEND, IBV_SEND_SIGNALED | IBV_SEND_INLINE,
	  IBV_SEND_SIGNALED | IBV_SEND_FENCE | IBV_SEND_INLINE },
	/* what is copied at the post lacks what a read before it brings */
	{ SEND, 1, TP_POST_FENCE, 64, IBV_WR_SEND, IBV_SEND_FENCE, IBV_SEND_FENCE },
	{ SEND, 2, TP_POST_SIGNAL, 1, IBV_WR_SEND, IBV_SEND_SIGNALED | IBV_SEND_INLINE,
	  IBV_SEND_SIGNALED | IBV_SEND_FENCE | IBV_SEND_INLINE },
	{ SEND, 0, TP_POST_SIGNAL, 0, IBV_WR_SEND, IBV_SEND_SIGNALED,
	  IBV_SEND_SIGNALED | IBV_SEND_FENCE },
	{ SEND, 3, 0, UINT32_MAX, IBV_WR_SEND, 0, IBV_SEND_FENCE },
	{ SEND, 1, TP_POST_FENCE, 500, IBV_WR_SEND, IBV_SEND_FENCE, IBV_SEND_FENCE },
	{ SEND, 5, TP_POST_SIGNAL | TP_POST_SOLICIT, 500, IBV_WR_SEND,
	  IBV_SEND_SIGNALED | IBV_SEND_SOLICITED,
	  IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_FENCE },
	{ WRITE, 1, TP_POST_SIGNAL, 201, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED,
	  IBV_SEND_SIGNALED | IBV_SEND_FENCE },
	{ WRITE, 1, TP_POST_SIGNAL, 64, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED | IBV_SEND_INLINE,
	  IBV_SEND_SIGNALED | IBV_SEND_FENCE | IBV_SEND_INLINE },
	{ WRITE, 1, TP_POST_FENCE, 64, IBV_WR_RDMA_WRITE, IBV_SEND_FENCE, IBV_SEND_FENCE },
	{ WRITE, 0, 0, 0, IBV_WR_RDMA_WRITE, 0, IBV_SEND_FENCE },
	{ WRITE, 5, TP_POST_FENCE | TP_POST_SIGNAL, 500, IBV_WR_RDMA_WRITE,
	  IBV_SEND_SIGNALED | IBV_SEND_FENCE, IBV_SEND_SIGNALED | IBV_SEND_FENCE },
	/* no read is inline or fenced by the transport */
	{ READ, 1, TP_POST_SIGNAL, 1, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, IBV_SEND_SIGNALED },
	{ READ, 2, TP_POST_SIGNAL, 500, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, IBV_SEND_SIGNALED },
	{ READ, 1, 0, 1, IBV_WR_RDMA_READ, 0, 0 },
	{ READ, 1, TP_POST_FENCE, 1, IBV_WR_RDMA_READ, IBV_SEND_FENCE, IBV_SEND_FENCE },
};

/* Each follows a write, of which nothing may be left in it. */
START_TEST(a_request_reaches_the_device_as_posted)
{
	bool iwarp = _i % 2;
	unsigned flags = iwarp ? requests[_i / 2].iwarp_flags : requests[_i / 2].send_flags;
	struct fv_sent sent;

	post_open(iwarp);
	ck_assert_int_eq(post_call(WRITE, (void *)1, 5, 500, TP_POST_SIGNAL | TP_POST_SOLICIT), 0);
	ck_assert_int_eq(post_call(requests[_i / 2].post, (void *)TAG, requests[_i / 2].nsge,
				   requests[_i / 2].size, requests[_i / 2].flags),
			 0);
	sent = fv_sent(0);
	ck_assert_ptr_eq(sent.qp, qp->ibv);
	ck_assert_uint_eq(sent.wr.wr_id, TAG);
	ck_assert_ptr_null(sent.wr.next);
	ck_assert_int_eq(sent.wr.opcode, requests[_i / 2].opcode);
	ck_assert_uint_eq(sent.wr.send_flags, flags);
	sges_check(sent.sge, sent.wr.num_sge, 0, requests[_i / 2].nsge);
	if (requests[_i / 2].post != SEND) {
		ck_assert_uint_eq(sent.wr.wr.rdma.remote_addr, far_away.REMOTE_ADDRESS);
		ck_assert_uint_eq(sent.wr.wr.rdma.rkey, far_away.rmr_context);
	}
	ck_assert_uint_eq(fv_calls("ibv_post_send"), 2);
	post_close();
}
END_TEST

START_TEST(a_receive_reaches_the_device_as_posted)
{
	struct fv_received received;

	post_open(_i % 2);
	ck_assert_int_eq(post_call(RECV, (void *)1, 5, 0, 0), 0);
	for (unsigned nsge = 1; nsge <= COUNT(sges); nsge++) {
		ck_assert_int_eq(post_call(RECV, (void *)(TAG + nsge), nsge, 0, 0), 0);
		received = fv_received(0);
		ck_assert_ptr_eq(received.qp, qp->ibv);
		ck_assert_uint_eq(received.wr.wr_id, TAG + nsge);
		ck_assert_ptr_null(received.wr.next);
		sges_check(received.sge, received.wr.num_sge, 0, nsge);
	}
	post_close();
}
END_TEST

/* On iWARP an empty segment stands for none. */
START_TEST(a_receive_without_segments)
{
	bool iwarp = _i % 2;
	struct fv_received received;

	post_open(iwarp);
	ck_assert_int_eq(post_call(RECV, (void *)2, 0, 0, 0), 0);
	received = fv_received(0);
	ck_assert_int_eq(received.wr.num_sge, iwarp);
	if (iwarp) {
		ck_assert_uint_eq(received.sge[0].length, 0);
		ck_assert_uint_eq(received.sge[0].addr, 0);
	}
	post_close();
}
END_TEST

/* Soft iWARP may answer it with the bytes of another one; a write of none needs no answer. */
START_TEST(on_iwarp_a_read_of_no_bytes_is_a_fenced_write_of_none)
{
	bool iwarp = _i % 2;
	unsigned flags = _i / 2 ? TP_POST_SIGNAL : 0;
	struct fv_sent sent;

	post_open(iwarp);
	ck_assert_int_eq(post_call(READ, (void *)1, 0, 0, flags), 0);
	sent = fv_sent(0);
	ck_assert_uint_eq(sent.wr.wr_id, 1);
	ck_assert_int_eq(sent.wr.num_sge, 0);
	ck_assert_int_eq(sent.wr.opcode, iwarp ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ);
	ck_assert_uint_eq(sent.wr.send_flags, flags | (iwarp ? IBV_SEND_FENCE : 0u));
	ck_assert_uint_eq(sent.wr.wr.rdma.rkey, far_away.rmr_context);
	post_close();
}
END_TEST

/* Two segments in each, from where the one before it ended; the last one is signalled. */
START_TEST(a_read_of_many_segments_is_posted_as_several)
{
	uint64_t from = far_away.REMOTE_ADDRESS;
	unsigned nsge = 3 + (unsigned)_i, reads = (nsge + 1) / 2;

	post_open(true);
	ck_assert_int_eq(post_call(SPLIT_READ, (void *)0x99, nsge, 0, TP_POST_SIGNAL), 0);
	ck_assert_uint_eq(fv_outstanding(), reads);
	for (unsigned n = 0; n < reads; n++) {
		struct fv_sent sent = fv_sent(reads - 1 - n);
		unsigned part = nsge - 2 * n < 2 ? 1 : 2;
		bool last = n == reads - 1;

		ck_assert_uint_eq(sent.wr.wr_id, 0x99);
		ck_assert_int_eq(sent.wr.opcode, IBV_WR_RDMA_READ);
		ck_assert_uint_eq(sent.wr.send_flags, last ? IBV_SEND_SIGNALED : 0u);
		ck_assert_int_eq(!sent.wr.next, last);
		ck_assert_uint_eq(sent.wr.wr.rdma.remote_addr, from);
		ck_assert_uint_eq(sent.wr.wr.rdma.rkey, far_away.rmr_context);
		sges_check(sent.sge, sent.wr.num_sge, 2 * n, part);
		for (unsigned i = 0; i < part; i++)
			from += sges[2 * n + i].length;
	}
	post_close();
}
END_TEST

START_TEST(a_marker_is_a_signalled_write_of_nothing)
{
	bool iwarp = _i % 2;
	struct fv_sent sent;

	post_open(iwarp);
	ck_assert_int_eq(post_call(WRITE, (void *)1, 5, 500, 0), 0);
	ck_assert_int_eq(tp_post_marker(qp, (void *)0x55), 0);
	sent = fv_sent(0);
	ck_assert_uint_eq(sent.wr.wr_id, 0x55);
	ck_assert_ptr_null(sent.wr.next);
	ck_assert_int_eq(sent.wr.opcode, IBV_WR_RDMA_WRITE);
	ck_assert_int_eq(sent.wr.num_sge, 0);
	ck_assert_uint_eq(sent.wr.send_flags,
			  iwarp ? IBV_SEND_SIGNALED | IBV_SEND_FENCE : IBV_SEND_SIGNALED);
	post_close();
}
END_TEST

static const struct {
	int result; /* of libibverbs */
	int err;
} results[] = {
	{ ENOMEM, -ENOMEM },	 { EINVAL, -EINVAL }, { EIO, -EIO },
	{ ENOTCONN, -ENOTCONN }, { -1, -ENOTCONN }, /* soft iWARP after a disconnect */
};

START_TEST(a_refusal_becomes_a_negative_errno)
{
	post_open(true);
	for (int post = SEND; post < POSTS; post++) {
		const char *call = post == RECV ? "ibv_post_recv" : "ibv_post_send";
		unsigned nsge = post == SPLIT_READ ? 5 : 1;
		int result;

		fv_fail(call, results[_i].result, 1);
		result = post_call((enum post)post, (void *)1, nsge, 100, TP_POST_SIGNAL);
		ck_assert_int_ne(result, 0);
		ck_assert_int_eq(tp_post_error(result), results[_i].err);
	}
	fv_fail("ibv_post_send", results[_i].result, 1);
	ck_assert_int_eq(tp_post_marker(qp, (void *)1), results[_i].err);
	ck_assert_uint_eq(fv_outstanding(), 0);
	/* the next ones are as if nothing had been */
	for (int post = SEND; post < POSTS; post++)
		ck_assert_int_eq(post_call((enum post)post, (void *)1, post == SPLIT_READ ? 5 : 1,
					   100, TP_POST_SIGNAL),
				 0);
	post_close();
}
END_TEST

/* A device may give less than was asked for. */
START_TEST(nothing_is_inline_without_inline_data)
{
	fv_device(0)->max_inline = 0;
	post_open(false);
	ck_assert_int_eq(post_call(SEND, (void *)1, 1, 1, TP_POST_SIGNAL), 0);
	ck_assert_uint_eq(fv_sent(0).wr.send_flags, IBV_SEND_SIGNALED);
	ck_assert_int_eq(post_call(WRITE, (void *)1, 0, 0, TP_POST_SIGNAL), 0);
	ck_assert_uint_eq(fv_sent(0).wr.send_flags, IBV_SEND_SIGNALED);
	post_close();
}
END_TEST

/* Has the host the module that lets devices register the memory of GPUs. */
static void gpus_make(void)
{
	static char folder[] = "/tmp/udapl-modules-XXXXXX";
	char module[64];

	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(module, sizeof(module), "%s/nvidia_peermem", folder);
	ck_assert_int_eq(mkdir(module, 0700), 0);
	nodes_places.modules = folder;
}

static void gpus_remove(void)
{
	char module[64];

	snprintf(module, sizeof(module), "%s/nvidia_peermem", nodes_places.modules);
	ck_assert_int_eq(rmdir(module), 0);
	ck_assert_int_eq(rmdir(nodes_places.modules), 0);
}

static struct tp_mr *register_page(void *page)
{
	struct tp_mr_info info;
	struct tp_mr *mr;

	ck_assert_int_eq(
		tp_mr_reg(post_rig.pd, page, 1, DAT_MEM_PRIV_ALL_FLAG, TP_REG_WINDOWS, &mr, &info),
		0);
	return mr;
}

static bool is_sent_inline(struct tp_qp *on)
{
	ck_assert_int_eq(tp_post_send(on, (void *)1, sges, 1, 100, TP_POST_SIGNAL), 0);
	return fv_sent(0).wr.send_flags & IBV_SEND_INLINE;
}

/* libibverbs would copy what is sent inline, and the process crash. */
START_TEST(nothing_is_inline_when_memory_of_a_gpu_is_registered)
{
	static char readable;
	struct tp_qp *before, *after;
	struct tp_mr *mr, *other;
	void *gpu = mmap(NULL, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(gpu, MAP_FAILED);
	gpus_make();
	post_open(false);
	before = rig_qp(&post_rig, 2);
	other = register_page(&readable);
	ck_assert(is_sent_inline(qp));
	mr = register_page(gpu);
	after = rig_qp(&post_rig, 3);
	ck_assert(!is_sent_inline(qp));
	ck_assert(!is_sent_inline(before));
	ck_assert(!is_sent_inline(after));
	ck_assert_int_eq(tp_mr_dereg(mr), 0);
	ck_assert_int_eq(tp_mr_dereg(other), 0);
	(void)tp_qp_error(before);
	(void)tp_qp_error(after);
	rig_qp_destroy(before);
	rig_qp_destroy(after);
	post_close();
	gpus_remove();
	munmap(gpu, 1);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("posts");

	tcase_add_checked_fixture(cases, verbs_begin, NULL);
	tcase_add_loop_test(cases, a_request_reaches_the_device_as_posted, 0, 2 * COUNT(requests));
	tcase_add_loop_test(cases, a_receive_reaches_the_device_as_posted, 0, 2);
	tcase_add_loop_test(cases, a_receive_without_segments, 0, 2);
	tcase_add_loop_test(cases, on_iwarp_a_read_of_no_bytes_is_a_fenced_write_of_none, 0, 4);
	tcase_add_loop_test(cases, a_read_of_many_segments_is_posted_as_several, 0, 3);
	tcase_add_loop_test(cases, a_marker_is_a_signalled_write_of_nothing, 0, 2);
	tcase_add_loop_test(cases, a_refusal_becomes_a_negative_errno, 0, COUNT(results));
	tcase_add_test(cases, nothing_is_inline_without_inline_data);
	tcase_add_test(cases, nothing_is_inline_when_memory_of_a_gpu_is_registered);
	return run_cases(argc, argv);
}
