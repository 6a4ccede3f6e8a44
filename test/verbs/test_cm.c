/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of a connection over librdmacm: cm.c and cm_event.c, each state with each event. */
#include <arpa/inet.h>

#include "../../udapl/verbs/cm.h"
#include "verbs_test.h"

#define PORT 7000

static struct rig rig;

static void setup(void)
{
	rig_open(&rig);
}

static struct sockaddr_storage peer_addr(void)
{
	struct sockaddr_storage addr = { 0 };
	struct sockaddr_in *in = (struct sockaddr_in *)&addr;

	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(0x7f000009);
	return addr;
}

static int connect_begin(struct tp_conn **conn)
{
	const struct tp_cm_param param = {
		.private_data = "hello",
		.private_data_size = 5,
		.max_read_in = 4,
		.max_read_out = 2,
	};
	struct sockaddr_storage addr = peer_addr();

	return tp_connect(rig.dev, (struct sockaddr *)&addr, PORT, rig.qp, up_ep(0), &param, conn);
}

START_TEST(a_connection_is_established_and_released)
{
	const struct fv_cm_event response = {
		.type = RDMA_CM_EVENT_CONNECT_RESPONSE,
		.responder_resources = 8,
		.initiator_depth = 1,
		.pdata = "answer",
		.pdata_size = 6,
	};
	struct up_record up;
	struct tp_conn *conn;

	ck_assert_int_eq(connect_begin(&conn), 0);
	fv_cm_post(conn->id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	rig_progress(&rig);
	fv_cm_post(conn->id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	rig_progress(&rig);
	ck_assert_uint_eq(fv_seen().pdata.size, 5);
	fv_cm_event(conn->id, &response);
	rig_progress(&rig);
	ck_assert_str_eq(fv_trace(),
			 "rdma_create_id rdma_resolve_addr rdma_resolve_route rdma_connect "
			 "rdma_init_qp_attr rdma_init_qp_attr rdma_init_qp_attr "
			 "ibv_modify_qp ibv_modify_qp rdma_establish");
	up = upcall_is(UP_ESTABLISHED, up_ep(0));
	ck_assert_uint_eq(up.max_read_in, 4);
	ck_assert_uint_eq(up.max_read_out, 1);
	ck_assert_mem_eq(up.pdata, "answer", 6);
	tp_release(conn);
	fv_cm_post(fv_id(0), RDMA_CM_EVENT_DISCONNECTED, 0);
	rig_progress(&rig);
	rig_close(&rig);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tcase = tcase_create("cm");

	case_fixture(NULL, verbs_begin, NULL);
	case_fixture(tcase, setup, NULL);
	tcase_add_test(tcase, a_connection_is_established_and_released);
	return run_cases(argc, argv);
}
