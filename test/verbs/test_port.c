/* SPDX-License-Identifier: BSD-2-Clause */
/* port.c: what is told of the port of a device. */
#include <netinet/in.h>

#include "verbs_test.h"

#define ROWS(array) ((int)ARRAY_SIZE(array))

static struct tp_dev *dev;

static struct tp_port port_now(void)
{
	struct tp_port port;

	memset(&port, 0xee, sizeof(port));
	tp_dev_port(dev, &port);
	return port;
}

/* The GID that RoCE has for that address of IPv4. */
static union ibv_gid gid_of(uint32_t address)
{
	const uint32_t in_order = htonl(address);
	union ibv_gid gid = { .raw = { [10] = 0xff, [11] = 0xff } };

	memcpy(gid.raw + 12, &in_order, sizeof(in_order));
	return gid;
}

static void set_address(uint32_t address)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&dev->attr.addr;

	*in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = { htonl(address) } };
}

START_TEST(a_port_tells_its_device_and_number)
{
	const uint8_t guid[] = { 2, 0, 0, 0xff, 0xfe, 0, 0, 9 };
	struct tp_port port;

	memcpy(&fv_device(0)->guid, guid, sizeof(guid)); /* in network order */
	dev = dev_open();
	port = port_now();
	ck_assert_str_eq(port.provider, "CMA");
	ck_assert_uint_eq(port.number, 1);
	ck_assert_mem_eq(port.node_guid, guid, sizeof(guid));
	dev_close(dev);
}
END_TEST

static const struct {
	int state;
	const char *name;
} states[] = {
	{ IBV_PORT_NOP, "NOP" },
	{ IBV_PORT_DOWN, "DOWN" },
	{ IBV_PORT_INIT, "INIT" },
	{ IBV_PORT_ARMED, "ARMED" },
	{ IBV_PORT_ACTIVE, "ACTIVE" },
	{ IBV_PORT_ACTIVE_DEFER, "DEFER" },
	{ IBV_PORT_ACTIVE_DEFER + 1, "UNKNOWN" },
	{ -1, "UNKNOWN" },
};

START_TEST(a_state_has_its_name)
{
	dev = dev_open();
	fv_device(0)->port.state = (enum ibv_port_state)states[_i].state;
	ck_assert_str_eq(port_now().state, states[_i].name);
	dev_close(dev);
}
END_TEST

static const struct {
	int mtu;
	unsigned bytes;
} mtus[] = {
	{ IBV_MTU_256, 256 },
	{ IBV_MTU_512, 512 },
	{ IBV_MTU_1024, 1024 },
	{ IBV_MTU_2048, 2048 },
	{ IBV_MTU_4096, 4096 },
	{ 0, 0 }, /* none of the enumeration */
	{ 6, 0 },
	{ 255, 0 },
};

START_TEST(an_mtu_is_told_in_bytes)
{
	dev = dev_open();
	fv_device(0)->port.active_mtu = (enum ibv_mtu)mtus[_i].mtu;
	ck_assert_uint_eq(port_now().mtu, mtus[_i].bytes);
	dev_close(dev);
}
END_TEST

/* The first one is that of the link. */
START_TEST(the_gid_is_that_of_the_address)
{
	const union ibv_gid link = { .raw = { 0xfe, 0x80, [15] = 1 } };
	const union ibv_gid one = gid_of(0x0a000001), two = gid_of(0x0a000002);

	fv_device(0)->gids[0] = link;
	fv_device(0)->gids[1] = one;
	fv_device(0)->gids[2] = two;
	fv_device(0)->port.gid_tbl_len = 3;
	dev = dev_open();
	set_address(0x0a000002);
	ck_assert_mem_eq(port_now().gid, two.raw, sizeof(two.raw));
	set_address(0x0a000001);
	ck_assert_mem_eq(port_now().gid, one.raw, sizeof(one.raw));
	set_address(0x0a000003); /* the table does not have it */
	ck_assert_mem_eq(port_now().gid, link.raw, sizeof(link.raw));
	dev->attr.addr = (struct sockaddr_storage){ .ss_family = AF_INET6 };
	memcpy(&((struct sockaddr_in6 *)&dev->attr.addr)->sin6_addr, one.raw, sizeof(one.raw));
	ck_assert_mem_eq(port_now().gid, one.raw, sizeof(one.raw));
	dev->attr.addr.ss_family = AF_UNSPEC;
	ck_assert_mem_eq(port_now().gid, link.raw, sizeof(link.raw));
	dev_close(dev);
}
END_TEST

static const union ibv_gid no_gid;

START_TEST(a_port_may_have_no_gids)
{
	dev = dev_open();
	set_address(0x0a000001);
	fv_device(0)->port.gid_tbl_len = 0;
	ck_assert_mem_eq(port_now().gid, no_gid.raw, sizeof(no_gid.raw));
	fv_device(0)->port.gid_tbl_len = 2;
	fv_fail("ibv_query_gid", EIO, 1);
	fv_fail("ibv_query_gid", EIO, 2);
	fv_fail("ibv_query_gid", EIO, 3);
	ck_assert_mem_eq(port_now().gid, no_gid.raw, sizeof(no_gid.raw));
	dev_close(dev);
}
END_TEST

/* Then the rest is as of a port that has nothing. */
START_TEST(a_port_that_does_not_answer_is_unknown)
{
	struct tp_port port;

	dev = dev_open();
	fv_fail("ibv_query_port", EIO, 1);
	port = port_now();
	ck_assert_str_eq(port.state, "UNKNOWN");
	ck_assert_uint_eq(port.mtu, 0);
	ck_assert_uint_eq(port.number, 1);
	ck_assert_mem_eq(port.gid, no_gid.raw, sizeof(no_gid.raw));
	dev_close(dev);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("port");

	case_fixture(NULL, verbs_begin, NULL);
	tcase_add_test(cases, a_port_tells_its_device_and_number);
	tcase_add_loop_test(cases, a_state_has_its_name, 0, ROWS(states));
	tcase_add_loop_test(cases, an_mtu_is_told_in_bytes, 0, ROWS(mtus));
	tcase_add_test(cases, the_gid_is_that_of_the_address);
	tcase_add_test(cases, a_port_may_have_no_gids);
	tcase_add_test(cases, a_port_that_does_not_answer_is_unknown);
	return run_cases(argc, argv);
}
