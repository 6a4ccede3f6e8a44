/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of verbs: two queue pairs of one device are connected without a connection manager. The
 * work requests are prepared before they are measured, at the least possible cost.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "bench.h"
#include "rows.h"

static struct ibv_context *context;
static struct ibv_cq *send_cq, *recv_cq, *idle_cq;
static struct ibv_pd *pd;
static struct ibv_qp *client, *server;
static struct ibv_srq *srq;
static struct ibv_mr *mr;
static struct ibv_mw *mw;
static char *read_only;
static char buffer[2 * SIZE];
static struct ibv_gid_entry gid;

/* Finds the RoCE v2 GID of an IPv4 address. */
static void find_gid(void)
{
	struct ibv_gid_entry entries[32];
	ssize_t n = ibv_query_gid_table(context, entries, 32, 0);

	for (ssize_t i = 0; i < n; i++)
		if (entries[i].gid_type == IBV_GID_TYPE_ROCE_V2 && entries[i].gid.raw[10] == 0xff &&
		    entries[i].gid.raw[11] == 0xff)
			gid = entries[i];
	MUST(gid.port_num);
}

static struct ibv_qp *bench_qp(struct ibv_cq *recv, struct ibv_srq *from)
{
	struct ibv_qp_init_attr init = {
		.send_cq = send_cq,
		.recv_cq = recv,
		.srq = from,
		.cap = { .max_send_wr = TURNS * (CALLS + 1),
			 .max_recv_wr = TURNS * CALLS,
			 .max_send_sge = 4,
			 .max_recv_sge = 4,
			 .max_inline_data = SMALL },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = (uint8_t)gid.port_num,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_ATOMIC,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	MUST(qp);
	MUST(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	return qp;
}

static void qp_connect(struct ibv_qp *qp, struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1,
			     .port_num = (uint8_t)gid.port_num,
			     .grh = { .dgid = gid.gid,
				      .sgid_index = (uint8_t)gid.gid_index,
				      .hop_limit = 64 } },
	};

	MUST(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .timeout = 16,
				     .retry_cnt = 6,
				     .rnr_retry = 7,
				     .max_rd_atomic = 4 };
	MUST(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

/* The receives of the server come from @from, unless that is null. */
static void open_connection(struct ibv_srq *from)
{
	client = bench_qp(idle_cq, NULL);
	server = bench_qp(recv_cq, from);
	qp_connect(client, server);
	qp_connect(server, client);
}

static void open_all(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	MUST(list && list[0]);
	context = ibv_open_device(list[0]);
	MUST(context);
	find_gid();
	pd = ibv_alloc_pd(context);
	send_cq = ibv_create_cq(context, 4 * CALLS, NULL, NULL, 0);
	recv_cq = ibv_create_cq(context, 4 * CALLS, NULL, NULL, 0);
	idle_cq = ibv_create_cq(context, 4 * CALLS, NULL, NULL, 0);
	MUST(pd && send_cq && recv_cq && idle_cq);
	mr = ibv_reg_mr(pd, buffer, sizeof(buffer),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	read_only = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(mr && mw && read_only != MAP_FAILED);
	open_connection(NULL);
}

static void take_completions(struct ibv_cq *cq, int calls)
{
	struct ibv_wc wc;

	for (int n = 0; n < calls;) {
		int got = ibv_poll_cq(cq, 1, &wc);

		MUST(got >= 0 && (!got || wc.status == IBV_WC_SUCCESS));
		n += got;
	}
}

static struct ibv_sge sge, pieces[4], small, word;
static struct ibv_mw_bind bind_wr;

/* ---- posts ---- */

static inline void recv_all(struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *bad;

	for (uint64_t i = 0; i < CALLS; i++) {
		wr->wr_id = i;
		MUST(!ibv_post_recv(server, wr, &bad));
	}
}

static inline void post_all_on(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	for (uint64_t i = 0; i < CALLS; i++) {
		wr->wr_id = i;
		MUST(!ibv_post_send(qp, wr, &bad));
	}
}

static inline void post_all(struct ibv_send_wr *wr)
{
	post_all_on(client, wr);
}

#define SGES(segments) ((segments) == WHOLE ? &sge : (segments) == SHORT ? &small : pieces)
#define SEND_FLAGS(segments, flag)                                                                 \
	(((flag) == SUPPRESSED ? 0 : IBV_SEND_SIGNALED) |                                          \
	 ((flag) == FENCED ? IBV_SEND_FENCE : 0) |                                                 \
	 ((flag) == SOLICITED ? IBV_SEND_SOLICITED : 0) |                                          \
	 ((segments) == SHORT ? IBV_SEND_INLINE : 0))

#define RECV_ROW(name, segments)                                                                   \
	static struct ibv_recv_wr name##_wr = { .sg_list = SGES(segments),                         \
						.num_sge = SEGMENTS_COUNT(segments) };             \
	MEASURE measure_##name(void)                                                               \
	{                                                                                          \
		recv_all(&name##_wr);                                                              \
	}

#define REQUEST_ROW(name, op, segments, flag)                                                      \
	static struct ibv_send_wr name##_wr = {                                                    \
		.sg_list = SGES(segments),                                                         \
		.num_sge = SEGMENTS_COUNT(segments),                                               \
		.opcode = IBV_WR_##op,                                                             \
		.send_flags = SEND_FLAGS(segments, flag),                                          \
	};                                                                                         \
	MEASURE measure_##name(void)                                                               \
	{                                                                                          \
		name##_wr.wr.rdma.remote_addr = (uintptr_t)buffer + SIZE;                          \
		name##_wr.wr.rdma.rkey = mr->rkey;                                                 \
		post_all(&name##_wr);                                                              \
	}
#define SEND_ROW(name, segments, flag, receives) REQUEST_ROW(name, SEND, segments, flag)
#define WRITE_ROW(name, segments, flag)		 REQUEST_ROW(name, RDMA_WRITE, segments, flag)
#define READ_ROW(name, segments, flag)		 REQUEST_ROW(name, RDMA_READ, segments, flag)

RECV_ROWS(RECV_ROW)
SEND_ROWS(SEND_ROW)
WRITE_ROWS(WRITE_ROW)
READ_ROWS(READ_ROW)

static void recv_unmeasured(void)
{
	recv_all(&post_recv_wr);
}

static void send_unmeasured(void)
{
	post_all(&post_send_wr);
}

static void message_unmeasured(void)
{
	struct ibv_recv_wr *bad_recv;
	struct ibv_send_wr *bad_send;

	MUST(!ibv_post_recv(server, &post_recv_wr, &bad_recv));
	MUST(!ibv_post_send(client, &post_send_wr, &bad_send));
}

static void post_write(void)
{
	struct ibv_send_wr *bad;

	post_rdma_write_wr.wr.rdma.remote_addr = (uintptr_t)buffer + SIZE;
	post_rdma_write_wr.wr.rdma.rkey = mr->rkey;
	MUST(!ibv_post_send(client, &post_rdma_write_wr, &bad));
}

/* ---- what the extensions of DAT 2.0 have ---- */

static struct ibv_send_wr immed_wr = { .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				       .send_flags = IBV_SEND_SIGNALED };
static struct ibv_send_wr add_wr = { .sg_list = &word,
				     .num_sge = 1,
				     .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				     .send_flags = IBV_SEND_SIGNALED };
static struct ibv_send_wr swap_wr = { .sg_list = &word,
				      .num_sge = 1,
				      .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
				      .send_flags = IBV_SEND_SIGNALED };

MEASURE measure_post_write_immed(void)
{
	immed_wr.wr.rdma.remote_addr = (uintptr_t)buffer + SIZE;
	immed_wr.wr.rdma.rkey = mr->rkey;
	post_all(&immed_wr);
}

MEASURE measure_post_fetch_add(void)
{
	add_wr.wr.atomic.remote_addr = (uintptr_t)buffer + SIZE;
	add_wr.wr.atomic.rkey = mr->rkey;
	post_all(&add_wr);
}

MEASURE measure_post_cmp_swap(void)
{
	swap_wr.wr.atomic.remote_addr = (uintptr_t)buffer + SIZE;
	swap_wr.wr.atomic.rkey = mr->rkey;
	post_all(&swap_wr);
}

static struct ibv_qp *datagram_qps[2]; /* the first sends to the second */
static struct ibv_send_wr ud_wr = {
	.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED
};

/* Nobody receives them: they are lost. */
MEASURE measure_post_send_ud(void)
{
	post_all_on(datagram_qps[0], &ud_wr);
}

static void open_datagrams(void)
{
	const uint32_t qkey = 0x11111111;
	struct ibv_ah_attr path = {
		.is_global = 1,
		.port_num = (uint8_t)gid.port_num,
		.grh = { .dgid = gid.gid, .sgid_index = (uint8_t)gid.gid_index, .hop_limit = 64 }
	};
	struct ibv_qp_init_attr init = {
		.send_cq = send_cq,
		.recv_cq = idle_cq,
		.cap = { .max_send_wr = TURNS * (CALLS + 1),
			 .max_recv_wr = 1,
			 .max_send_sge = 4,
			 .max_recv_sge = 1,
			 .max_inline_data = SMALL },
		.qp_type = IBV_QPT_UD,
	};

	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
					    .port_num = (uint8_t)gid.port_num,
					    .qkey = qkey };

		datagram_qps[i] = ibv_create_qp(pd, &init);
		MUST(datagram_qps[i]);
		MUST(!ibv_modify_qp(datagram_qps[i], &attr,
				    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
		attr.qp_state = IBV_QPS_RTR;
		MUST(!ibv_modify_qp(datagram_qps[i], &attr, IBV_QP_STATE));
		attr.qp_state = IBV_QPS_RTS;
		MUST(!ibv_modify_qp(datagram_qps[i], &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	}
	ud_wr.wr.ud.ah = ibv_create_ah(pd, &path);
	MUST(ud_wr.wr.ud.ah);
	ud_wr.wr.ud.remote_qpn = datagram_qps[1]->qp_num;
	ud_wr.wr.ud.remote_qkey = qkey;
}

static bool has_atomic_operations(void)
{
	struct ibv_device_attr attr;

	MUST(!ibv_query_device(context, &attr));
	return attr.atomic_cap != IBV_ATOMIC_NONE;
}

static void measure_extensions(void)
{
	open_datagrams();
	for (int i = 0; i < TURNS; i++) {
		measure_post_send_ud();
		take_completions(send_cq, CALLS);
	}
	for (int i = 0; i < TURNS; i++) {
		recv_unmeasured();
		measure_post_write_immed();
		take_completions(send_cq, CALLS);
		take_completions(recv_cq, CALLS);
	}
	for (int i = 0; i < TURNS && has_atomic_operations(); i++) {
		measure_post_fetch_add();
		take_completions(send_cq, CALLS);
		measure_post_cmp_swap();
		take_completions(send_cq, CALLS);
	}
}

/* ---- binds and regions ---- */

MEASURE measure_bind(void)
{
	for (uint64_t i = 0; i < CALLS; i++) {
		bind_wr.wr_id = i;
		MUST(!ibv_bind_mw(client, mw, &bind_wr));
	}
}

/*
 * Does what an emulated bind asks of the device. Returns the region, whose end is not part of the
 * figure.
 */
static APART struct ibv_mr *measure_bind_emulated(void)
{
	struct ibv_send_wr *bad,
		wr = { .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_mr *region = ibv_reg_mr(pd, read_only, SIZE, IBV_ACCESS_REMOTE_READ);

	MUST(region);
	MUST(!ibv_post_send(client, &wr, &bad));
	return region;
}

static void measure_binds(void)
{
	for (int i = 0; i < TURNS; i++) {
		measure_bind();
		take_completions(send_cq, CALLS);
	}
	for (int i = 0; i < CALLS * TURNS; i++) {
		struct ibv_mr *region = measure_bind_emulated();

		take_completions(send_cq, 1);
		MUST(!ibv_dereg_mr(region));
	}
}

/* The access flags are those that the provider uses. */
MEASURE measure_register(void)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
			   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND;

	for (int i = 0; i < CALLS; i++) {
		struct ibv_mr *one = ibv_reg_mr(pd, buffer, SIZE, access);

		MUST(one);
		MUST(!ibv_dereg_mr(one));
	}
}

/* ---- completions ---- */

MEASURE measure_dequeue(void)
{
	struct ibv_wc wc;

	for (int i = 0; i < CALLS; i++)
		MUST(ibv_poll_cq(recv_cq, 1, &wc) == 1);
}

MEASURE measure_wait(void)
{
	struct ibv_wc wc;

	MUST(ibv_poll_cq(recv_cq, 1, &wc) == 1);
}

MEASURE measure_dequeue_nothing(void)
{
	struct ibv_wc wc;

	for (int i = 0; i < CALLS; i++)
		MUST(ibv_poll_cq(recv_cq, 1, &wc) == 0);
}

/* A completion of a send is the peer's acknowledgement: the receive has completed. */
static void messages_arrive(int calls)
{
	take_completions(send_cq, calls);
}

static void take_requests(int calls)
{
	take_completions(send_cq, calls);
}

static void take_receives(int calls)
{
	take_completions(recv_cq, calls);
}

#include "turns.h"

MEASURE measure_srq_post_recv(void)
{
	struct ibv_recv_wr *bad;

	for (uint64_t i = 0; i < CALLS; i++) {
		post_recv_wr.wr_id = i;
		MUST(!ibv_post_srq_recv(srq, &post_recv_wr, &bad));
	}
}

static void measure_shared_receives(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = TURNS * CALLS, .max_sge = 4 } };

	srq = ibv_create_srq(pd, &attr);
	MUST(srq);
	open_connection(srq);
	for (int i = 0; i < TURNS; i++) {
		measure_srq_post_recv();
		send_unmeasured();
		messages_arrive(CALLS);
		take_receives(CALLS);
	}
}

int main(void)
{
	second_thread_start();
	open_all();
	sge = (struct ibv_sge){ .addr = (uintptr_t)buffer, .length = SIZE, .lkey = mr->lkey };
	small = (struct ibv_sge){ .addr = (uintptr_t)buffer, .length = SMALL, .lkey = mr->lkey };
	word = (struct ibv_sge){ .addr = (uintptr_t)buffer, .length = 8, .lkey = mr->lkey };
	for (uint32_t i = 0; i < 4; i++)
		pieces[i] = (struct ibv_sge){ .addr = (uintptr_t)buffer + i * SIZE / 4,
					      .length = SIZE / 4,
					      .lkey = mr->lkey };
	bind_wr = (struct ibv_mw_bind){
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = mr,
			       .addr = (uintptr_t)buffer,
			       .length = SIZE,
			       .mw_access_flags = IBV_ACCESS_REMOTE_READ |
						  IBV_ACCESS_REMOTE_WRITE },
	};

	measure_posts();
	measure_extensions();
	measure_completions();
	measure_binds();
	for (int i = 0; i < TURNS; i++)
		measure_register();
	measure_shared_receives();
	return 0;
}
