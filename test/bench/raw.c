/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of verbs: two queue pairs of one device are connected without a connection manager. The
 * work requests are prepared before they are measured, at the least possible cost.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <unistd.h>

#include "bench.h"

static struct ibv_context *context;
static struct ibv_cq *send_cq, *recv_cq, *idle_cq;
static struct ibv_pd *pd;
static struct ibv_qp *client, *server;
static struct ibv_mr *mr;
static struct ibv_mw *mw;
static char buffer[2 * SIZE];
static struct ibv_gid_entry gid;

/* The RoCE v2 GID of an IPv4 address. */
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

static struct ibv_qp *bench_qp(struct ibv_cq *recv)
{
	struct ibv_qp_init_attr init = {
		.send_cq = send_cq,
		.recv_cq = recv,
		.cap = { .max_send_wr = 2 * CALLS,
			 .max_recv_wr = 2 * CALLS,
			 .max_send_sge = 4,
			 .max_recv_sge = 4 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = (uint8_t)gid.port_num,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
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
				IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	MUST(mr && mw);
	client = bench_qp(idle_cq);
	server = bench_qp(recv_cq);
	qp_connect(client, server);
	qp_connect(server, client);
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

static struct ibv_sge sge;
static struct ibv_send_wr send_wr, write_wr, read_wr;
static struct ibv_recv_wr recv_wr;
static struct ibv_mw_bind bind_wr;

MEASURE measure_post_recv(void)
{
	struct ibv_recv_wr *bad;

	for (uint64_t i = 0; i < CALLS; i++) {
		recv_wr.wr_id = i;
		MUST(!ibv_post_recv(server, &recv_wr, &bad));
	}
}

static inline void post_all(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	for (uint64_t i = 0; i < CALLS; i++) {
		wr->wr_id = i;
		MUST(!ibv_post_send(client, wr, &bad));
	}
}

MEASURE measure_post_send(void)
{
	post_all(&send_wr);
}

static inline void bind_all(void)
{
	for (uint64_t i = 0; i < CALLS; i++) {
		bind_wr.wr_id = i;
		MUST(!ibv_bind_mw(client, mw, &bind_wr));
	}
}

MEASURE measure_bind(void)
{
	bind_all();
}

/* With the access flags that the provider uses. */
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

MEASURE measure_post_rdma_write(void)
{
	post_all(&write_wr);
}

MEASURE measure_post_rdma_read(void)
{
	post_all(&read_wr);
}

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

/*
 * With a second thread the C library's system calls cost a little more. Every program that uses a
 * provider has one, so this one has it, too.
 */
static void *idle(void *arg)
{
	pause();
	return arg;
}

int main(void)
{
	pthread_t thread;

	MUST(!pthread_create(&thread, NULL, idle, NULL));
	open_all();
	sge = (struct ibv_sge){ .addr = (uintptr_t)buffer, .length = SIZE, .lkey = mr->lkey };
	recv_wr = (struct ibv_recv_wr){ .sg_list = &sge, .num_sge = 1 };
	send_wr = (struct ibv_send_wr){ .sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_SIGNALED };
	write_wr = send_wr;
	write_wr.opcode = IBV_WR_RDMA_WRITE;
	write_wr.wr.rdma.remote_addr = (uintptr_t)buffer + SIZE;
	write_wr.wr.rdma.rkey = mr->rkey;
	read_wr = write_wr;
	read_wr.opcode = IBV_WR_RDMA_READ;
	bind_wr = (struct ibv_mw_bind){
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = mr,
			       .addr = (uintptr_t)buffer,
			       .length = SIZE,
			       .mw_access_flags = IBV_ACCESS_REMOTE_READ |
						  IBV_ACCESS_REMOTE_WRITE },
	};

	measure_register();
	measure_post_recv();
	measure_post_send();
	take_completions(send_cq, CALLS); /* acknowledged: all receives have completed */
	measure_dequeue();
	measure_dequeue_nothing();
	measure_post_rdma_write();
	take_completions(send_cq, CALLS);
	measure_post_rdma_read();
	take_completions(send_cq, CALLS);
	for (int n = 0; n < 2; n++) { /* as in dat.c */
		bind_all();
		take_completions(send_cq, CALLS);
	}
	measure_bind();
	take_completions(send_cq, CALLS);
	for (int i = 0; i < CALLS; i++) {
		struct ibv_recv_wr *bad_recv;
		struct ibv_send_wr *bad_send;

		MUST(!ibv_post_recv(server, &recv_wr, &bad_recv));
		MUST(!ibv_post_send(client, &send_wr, &bad_send));
		take_completions(send_cq, 1);
		measure_wait();
	}
	return 0;
}
