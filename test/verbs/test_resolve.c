/* SPDX-License-Identifier: BSD-2-Clause */
/* resolve.c: the device, port and address that the IA params of dat.conf mean. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/nodes.h"
#include "verbs_test.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* The interfaces of the host; those of struct fv_interface that are not named do not exist. */
static void host_is(const struct fv_interface rows[FV_INTERFACES])
{
	memcpy(fv_interface(0), rows, FV_INTERFACES * sizeof(*rows));
}

/* ---- what can be opened ---- */

static const struct {
	const char *params;
	struct fv_interface rows[FV_INTERFACES];
	const char *device, *addr;
	uint8_t port;
} opens[] = {
	/* a device, with its port or without */
	{ "fv0 1", { { "a", "127.0.0.1", 0, 1 } }, "fv0", "127.0.0.1", 1 },
	{ "fv0", { { "a", "127.0.0.1", 0, 1 } }, "fv0", "127.0.0.1", 1 },
	{ "fv0 0", { { "a", "127.0.0.1", 0, 1 } }, "fv0", "127.0.0.1", 1 },
	{ "fv0 2",
	  { { "a", "127.0.0.1", 0, 1 }, { "b", "127.0.0.2", 0, 2 } },
	  "fv0",
	  "127.0.0.2",
	  2 },
	{ "fv1 1",
	  { { "a", "127.0.0.1", 0, 1 }, { "b", "127.0.0.2", 1, 1 } },
	  "fv1",
	  "127.0.0.2",
	  1 },
	/* IPv4 is preferred, and link-local addresses are the last */
	{ "fv0 1",
	  { { "a", "fe80::1", 0, 1 }, { "a", "::1", 0, 1 }, { "a", "127.0.0.1", 0, 1 } },
	  "fv0",
	  "127.0.0.1",
	  1 },
	{ "fv0 1",
	  { { "a", "fe80::1", 0, 1 }, { "a", "::1", 0, 1 }, { "a", "127.0.0.1", -1, 0 } },
	  "fv0",
	  "::1",
	  1 },
	{ "fv0 1",
	  { { "t", "", 0, 1 }, { "a", NULL, 0, 1 }, { "a", "fe80::1", 0, 1 } },
	  "fv0",
	  "fe80::1",
	  1 },
	/* a network interface */
	{ "b 0",
	  { { "a", "127.0.0.1", 0, 1 }, { "b", NULL, 0, 0 }, { "b", "127.0.0.2", 1, 2 } },
	  "fv1",
	  "127.0.0.2",
	  2 },
	/* a device comes before an interface of its name */
	{ "fv0 1",
	  { { "fv0", "127.0.0.1", 1, 1 }, { "b", "127.0.0.2", 0, 1 } },
	  "fv0",
	  "127.0.0.2",
	  1 },
	/* an address */
	{ "127.0.0.2 0",
	  { { "a", "127.0.0.1", 0, 1 }, { "b", "127.0.0.2", 1, 2 } },
	  "fv1",
	  "127.0.0.2",
	  2 },
	{ "::1 0", { { "a", "::1", 0, 1 } }, "fv0", "::1", 1 },
	/* a link-local address gets its interface */
	{ "fe80::2 0",
	  { { "a", "fe80::1", 0, 1 }, { "b", "fe80::2", 1, 2 } },
	  "fv1",
	  "fe80::2",
	  2 },
	/* as programs' files have them: blanks at the end, tabs, other forms of a number */
	{ "fv0 1  ", { { "a", "127.0.0.1", 0, 1 } }, "fv0", "127.0.0.1", 1 },
	{ "b\t0", { { "b", "127.0.0.2", 1, 2 } }, "fv1", "127.0.0.2", 2 },
	{ " b", { { "b", "127.0.0.2", 1, 2 } }, "fv1", "127.0.0.2", 2 },
	{ "fv0 0x1", { { "a", "127.0.0.1", 0, 1 } }, "fv0", "127.0.0.1", 1 },
	{ "fv0 01", { { "a", "127.0.0.1", 0, 1 } }, "fv0", "127.0.0.1", 1 },
	/* a host: "fvhost" is the first interface */
	{ "fvhost 0", { { "a", "127.0.0.1", 1, 1 } }, "fv1", "127.0.0.1", 1 },
};

static const char *addr_text(const struct tp_attr *attr)
{
	static char text[INET6_ADDRSTRLEN];
	const struct sockaddr_in *in = (const struct sockaddr_in *)&attr->addr;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&attr->addr;
	const void *bytes = &in->sin_addr;

	if (attr->addr.ss_family == AF_INET6)
		bytes = &in6->sin6_addr;
	return inet_ntop(attr->addr.ss_family, bytes, text, sizeof(text));
}

START_TEST(params_mean_a_device_an_interface_an_address_or_a_host)
{
	struct tp_dev *dev;

	host_is(opens[_i].rows);
	ck_assert_int_eq(tp_dev_open(opens[_i].params, up_ia(), &dev), 0);
	ck_assert_str_eq(tp_dev_attr(dev)->device, opens[_i].device);
	ck_assert_str_eq(addr_text(tp_dev_attr(dev)), opens[_i].addr);
	ck_assert_uint_eq(dev->port, opens[_i].port);
	dev_close(dev);
}
END_TEST

/* ---- what can't ---- */

static const struct {
	const char *params;
	struct fv_interface rows[FV_INTERFACES];
	/* a call that fails, or NULL */
	const char *call;
	int err;
	unsigned nth;
	int want;
	const char *text; /* of the log */
} refusals[] = {
	{ "fv0 2",
	  { { "a", "127.0.0.1", 0, 1 } },
	  NULL,
	  0,
	  0,
	  -ENODEV,
	  "open fv0: no network interface with an IP address belongs to port 2" },
	{ "fv0 1",
	  { { "a", "127.0.0.1", 1, 1 } },
	  NULL,
	  0,
	  0,
	  -ENODEV,
	  "belongs to port 1 of this device" },
	{ "fv0 1",
	  { { "a", "127.0.0.1", 0, 1 } },
	  "getifaddrs",
	  EMFILE,
	  1,
	  -ENODEV,
	  "open fv0: getifaddrs: Too many open files" },
	{ "fv0 1",
	  { { "a", "127.0.0.1", 0, 1 } },
	  "rdma_create_id",
	  EMFILE,
	  1,
	  -ENODEV,
	  "no network interface" },
	{ "a 0",
	  { { "a", NULL, 0, 1 } },
	  NULL,
	  0,
	  0,
	  -ENODEV,
	  "open a: this network interface has no IP address" },
	{ "a 0",
	  { { "a", "127.0.0.1", -1, 0 } },
	  NULL,
	  0,
	  0,
	  -ENODEV,
	  "open a: no RDMA device has the address 127.0.0.1" },
	{ "a 0",
	  { { "a", "127.0.0.1", 0, 1 } },
	  "rdma_create_id",
	  EMFILE,
	  1,
	  -EMFILE,
	  "open a: rdma_bind_addr to 127.0.0.1: Too many open files" },
	{ "a 0",
	  { { "a", "127.0.0.1", 0, 1 } },
	  "rdma_bind_addr",
	  ENOMEM,
	  1,
	  -ENOMEM,
	  "open a: rdma_bind_addr to 127.0.0.1: Cannot allocate memory" },
	{ "127.0.0.9 0",
	  { { "a", "127.0.0.1", 0, 1 } },
	  NULL,
	  0,
	  0,
	  -ENOENT,
	  "open 127.0.0.9: this host does not have the address 127.0.0.9" },
	{ "nohost 0",
	  { { "a", "127.0.0.1", 0, 1 } },
	  NULL,
	  0,
	  0,
	  -ENOENT,
	  "open nohost: not an RDMA device, network interface, IP address or host: Name or" },
	{ "fvhost 0",
	  { { "a", "127.0.0.1", 0, 1 } },
	  "getaddrinfo",
	  EMFILE,
	  2,
	  -ENOENT,
	  "IP address or host: Too many open files" },
	{ "fvhost 0",
	  { { "a", "127.0.0.1", 0, 1 } },
	  "getaddrinfo",
	  EAI_AGAIN,
	  2,
	  -ENOENT,
	  "IP address or host: Temporary failure" },
	{ "mlx5_7 1",
	  { { "a", "127.0.0.1", 0, 1 } },
	  NULL,
	  0,
	  0,
	  -ENOENT,
	  "open mlx5_7: not an RDMA device, network interface, IP address or host" },
};

START_TEST(params_that_mean_nothing_here_are_refused)
{
	struct tp_dev *dev = NULL;

	host_is(refusals[_i].rows);
	fv_log_capture();
	if (refusals[_i].call)
		fv_fail(refusals[_i].call, refusals[_i].err, refusals[_i].nth);
	ck_assert_int_eq(tp_dev_open(refusals[_i].params, up_ia(), &dev), refusals[_i].want);
	ck_assert_ptr_null(dev);
	ck_assert_ptr_nonnull(strstr(fv_log(), refusals[_i].text));
	ck_assert_uint_eq(fv_alive(FV_KINDS), 0);
}
END_TEST

/* ---- interfaces that are down ---- */

static const struct {
	const char *params;
	struct fv_interface row;
	const char *text;
} downs[] = {
	{ "fv0 1", { "a", "127.0.0.1", 0, 1 }, "open fv0: the network interface a is down\n" },
	{ "a 0", { "a", "127.0.0.1", 0, 1 }, "open a: the network interface a is down\n" },
	{ "a 0", { "a", "::1", 0, 1 }, "open a: the network interface a is down\n" },
	{ "a 0", { "a", NULL, 0, 1 }, "open a: this network interface is down\n" },
	{ "127.0.0.1 0", { "a", "127.0.0.1", 0, 1 }, "open 127.0.0.1: the network interface a is" },
	{ "fvhost 0",
	  { "a", "127.0.0.1", 0, 1 },
	  "open fvhost: the network interface a is down\n" },
};

/* librdmacm would bind to its address, and no attempt to connect would ever succeed. */
START_TEST(an_interface_that_is_down_is_refused)
{
	const struct fv_interface rows[FV_INTERFACES] = { downs[_i].row };
	struct tp_dev *dev = NULL;

	host_is(rows);
	fv_interface_set_down(0);
	fv_log_capture();
	ck_assert_int_eq(tp_dev_open(downs[_i].params, up_ia(), &dev), -ENODEV);
	ck_assert_ptr_null(dev);
	ck_assert_msg(strstr(fv_log(), downs[_i].text) != NULL, "the log: %s", fv_log());
	ck_assert_ptr_eq(strchr(fv_log(), '\n'), strrchr(fv_log(), '\n'));
	ck_assert_uint_eq(fv_alive(FV_KINDS), 0);
}
END_TEST

/*
 * An interface that is down is passed over: for the address that is preferred least, or for another
 * interface with the same address.
 */
START_TEST(an_interface_that_is_up_is_taken)
{
	static const struct {
		const char *params, *second, *addr;
	} hosts[] = {
		{ "fv0 1", "fe80::1", "fe80::1" },
		{ "127.0.0.1 0", "127.0.0.1", "127.0.0.1" },
	};
	const struct fv_interface rows[FV_INTERFACES] = { { "a", "127.0.0.1", 0, 1 },
							  { "b", hosts[_i].second, 0, 1 } };
	struct tp_dev *dev;

	host_is(rows);
	fv_interface_set_down(0);
	ck_assert_int_eq(tp_dev_open(hosts[_i].params, up_ia(), &dev), 0);
	ck_assert_str_eq(addr_text(tp_dev_attr(dev)), hosts[_i].addr);
	dev_close(dev);
}
END_TEST

/* Programs try every name of a dat.conf that was written for many hosts. */
START_TEST(what_this_host_lacks_is_not_told_unless_asked)
{
	static const char *const params[] = { "ib0 0", "mlx5_7 1", "127.0.0.9 0", "nohost 0" };
	struct tp_dev *dev;

	host_is(refusals[0].rows);
	setenv("DAPL_DBG_TYPE", "3", 1); /* errors and warnings, the default */
	fv_log_capture();
	ck_assert_int_eq(tp_dev_open(params[_i], up_ia(), &dev), -ENOENT);
	ck_assert_str_eq(fv_log(), "");
}
END_TEST

/* The host name resolver may take seconds for what a dat.conf of another host names. */
static const struct {
	const char *name;
	bool asked;
} names[] = {
	{ "ib0", false }, { "eth12", false }, { "mlx4_0", false },  { "rxe0", false },
	{ "ib", true },	  { "ibm1x", true },  { "storage1", true }, { "irdma3", false },
};

START_TEST(a_name_like_a_device_s_is_not_looked_up_as_a_host)
{
	struct tp_dev *dev;

	ck_assert_int_eq(tp_dev_open(names[_i].name, up_ia(), &dev), -ENOENT);
	ck_assert_uint_eq(fv_calls("getaddrinfo"), names[_i].asked ? 2 : 1);
}
END_TEST

START_TEST(a_device_without_a_driver_is_named)
{
	struct tp_dev *dev;

	fv_device(0)->absent = true;
	fv_log_capture();
	ck_assert_int_eq(tp_dev_open("fveth0 0", up_ia(), &dev), -ENODEV);
	ck_assert_ptr_nonnull(
		strstr(fv_log(), "open fveth0: libibverbs has no driver for device fv0 here"));
	ck_assert_uint_eq(fv_alive(FV_KINDS), 0);
}
END_TEST

/* ---- a host without devices: librdmacm is not called ---- */

static const struct {
	const char *params;
	const char *call; /* that fails, or NULL */
	int err, want;
} without_devices[] = {
	{ "fveth0 0", NULL, 0, -ENODEV },
	{ "127.0.0.1 0", NULL, 0, -ENODEV },
	{ "127.0.0.1 0", "bind", EADDRNOTAVAIL, -ENOENT },
	{ "127.0.0.1 0", "socket", EMFILE, -ENOENT },
	{ "some-host 0", NULL, 0, -ENODEV },
	{ "ib0 0", NULL, 0, -ENOENT },
	{ "mlx5_0 1", NULL, 0, -ENOENT },
};

START_TEST(without_devices_only_names_of_this_host_lack_one)
{
	struct tp_dev *dev;

	for (unsigned i = 0; i < FV_DEVICES; i++)
		fv_device(i)->absent = true;
	fv_log_capture();
	if (without_devices[_i].call)
		fv_fail(without_devices[_i].call, without_devices[_i].err, 1);
	ck_assert_int_eq(tp_dev_open(without_devices[_i].params, up_ia(), &dev),
			 without_devices[_i].want);
	ck_assert_ptr_nonnull(strstr(fv_log(), ": this host has no RDMA device"));
	ck_assert_str_eq(fv_trace(), "ibv_get_device_list ibv_free_device_list");
	ck_assert_uint_eq(fv_alive(FV_KINDS), 0);
}
END_TEST

/* ---- device nodes ---- */

/* Folders for what /sys/class/infiniband and /dev/infiniband have; removed at the end. */
static char nodes_folder[] = "/tmp/nodes.XXXXXX";

static void nodes_remove(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", nodes_folder);
	(void)!system(command);
}

static void nodes_make(const char *script)
{
	static char devices[64], nodes[64], modules[64];
	char command[512];

	ck_assert_ptr_nonnull(mkdtemp(nodes_folder));
	atexit(nodes_remove);
	snprintf(command, sizeof(command), "cd %s && chmod 755 . && %s", nodes_folder, script);
	ck_assert_int_eq(system(command), 0);
	snprintf(devices, sizeof(devices), "%s/devices", nodes_folder);
	snprintf(nodes, sizeof(nodes), "%s/nodes", nodes_folder);
	snprintf(modules, sizeof(modules), "%s/modules", nodes_folder);
	nodes_places = (struct nodes_places){ devices, nodes, modules };
}

#define ONE_DEVICE "mkdir -p devices/fv0 nodes"

static const struct {
	const char *script, *params;
	int want;
	const char *text;
	bool told; /* by default */
} node_rows[] = {
	{ "mkdir devices nodes", "fveth0 0", -ENODEV, "this host has no RDMA device", false },
	{ "mkdir -p devices/fv0", "fveth0 0", -ENODEV, "open fveth0: there is no /tmp/nodes.",
	  true },
	{ "mkdir -p devices/fv0", "fv0 1", -ENODEV, "open fv0: there is no /tmp/nodes.", true },
	{ "mkdir -p devices/fv0", "ib0 0", -ENOENT, "open ib0: there is no /tmp/nodes.", false },
	{ ONE_DEVICE, "fv0 1", -ENODEV, "/nodes/uverbs0: the module ib_uverbs is not loaded",
	  true },
	{ ONE_DEVICE "; mkdir -p modules/ib_uverbs", "fv0 1", -ENODEV,
	  "/nodes/uverbs0, although the module ib_uverbs is loaded", true },
	{ ONE_DEVICE "; >nodes/uverbs0", "fv0 1", -ENODEV,
	  "/nodes/rdma_cm: the module rdma_ucm is not loaded", true },
	{ ONE_DEVICE "; >nodes/uverbs3; chmod 200 nodes/uverbs3; >nodes/rdma_cm", "fv0 1", -ENODEV,
	  "/nodes/uverbs3 (mode 200, user ", true },
	{ ONE_DEVICE "; >nodes/uverbs0; >nodes/rdma_cm; chmod 200 nodes/rdma_cm", "fv0 1", -ENODEV,
	  "/nodes/rdma_cm (mode 200, user ", true },
	{ ONE_DEVICE "; mkdir nodes/uverbs0", "fv0 1", -ENODEV,
	  "/nodes/uverbs0 can't be opened: Is a directory", true },
	{ ONE_DEVICE "; >nodes/uverbs0; >nodes/rdma_cm", "fv0 1", -ENODEV,
	  "libibverbs has no driver for the RDMA devices of this host", true },
};

/*
 * The test runs as another user than root, who may open everything. That user may own the nodes, so
 * those that can't be opened have a mode that keeps their owner from it, too.
 */
START_TEST(why_there_is_no_device_is_found_by_looking)
{
	struct tp_dev *dev;

	umask(0);
	nodes_make(node_rows[_i].script);
	for (unsigned i = 0; i < FV_DEVICES; i++)
		fv_device(i)->absent = true;
	if (node_rows[_i].told)
		setenv("DAPL_DBG_TYPE", "1", 1);
	fv_log_capture();
	ck_assert(geteuid() != 0 || seteuid(65534) == 0);
	ck_assert_int_eq(tp_dev_open(node_rows[_i].params, up_ia(), &dev), node_rows[_i].want);
	ck_assert(getuid() != 0 || seteuid(0) == 0);
	ck_assert_ptr_nonnull(strstr(fv_log(), node_rows[_i].text));
	ck_assert_uint_eq(fv_alive(FV_KINDS), 0);
}
END_TEST

/* The tools ask for what is not told by default, by a bit of its own. */
START_TEST(what_this_host_lacks_is_told_to_the_tools)
{
	struct tp_dev *dev;

	for (unsigned i = 0; i < FV_DEVICES; i++)
		fv_device(i)->absent = true;
	setenv("DAPL_DBG_TYPE", _i ? "0x2000" : "3", 1);
	fv_log_capture();
	ck_assert_int_eq(tp_dev_open("ib0 0", up_ia(), &dev), -ENOENT);
	ck_assert_int_eq(strstr(fv_log(), "open ib0: this host has no RDMA device") != NULL, _i);
}
END_TEST

static const struct {
	const char *call;
	int err;
} closed_nodes[] = { { "rdma_create_event_channel", ENOENT }, { "ibv_open_device", EACCES } };

START_TEST(a_node_that_can_t_be_opened_is_named)
{
	struct tp_dev *dev;

	nodes_make("mkdir -p devices/fv0 nodes; >nodes/uverbs0");
	fv_log_capture();
	fv_fail(closed_nodes[_i].call, closed_nodes[_i].err, 1);
	ck_assert_int_eq(tp_dev_open("fveth0 0", up_ia(), &dev), -closed_nodes[_i].err);
	ck_assert_ptr_nonnull(strstr(fv_log(), "open fveth0: there is no /tmp/nodes."));
	ck_assert_ptr_null(strstr(fv_log(), closed_nodes[_i].call));
	ck_assert_uint_eq(fv_alive(FV_KINDS), 0);
}
END_TEST

/* ---- what is no params ---- */

static const struct {
	const char *params, *text;
} junk[] = {
	{ "", "names no interface, address or device, not \"\"" },
	{ " \t", "names no interface, address or device" },
	{ "a 0 x", "must be a name and a number, such as \"ib0 0\", not \"a 0 x\"" },
	{ "fv0 1abc", "must be a name and a number" },
	{ "fv0 1 odpx", "must be a name and a number" },
	{ "fv0 1 odp 2", "must be a name and a number" },
	{ "fv0 odp", "must be a name and a number" },
	{ "a -1", "must be a name and a number" },
	{ "a 0x", "must be a name and a number" },
	{ "a b", "must be a name and a number" },
};

START_TEST(junk_in_the_params_is_refused_with_the_line)
{
	struct tp_dev *dev;

	host_is(refusals[0].rows);
	setenv("DAPL_DBG_TYPE", "1", 1);
	fv_log_capture();
	ck_assert_int_eq(tp_dev_open(junk[_i].params, up_ia(), &dev), -ENOENT);
	ck_assert_ptr_nonnull(strstr(fv_log(), "dat.conf: field 7 "));
	ck_assert_ptr_nonnull(strstr(fv_log(), junk[_i].text));
	ck_assert_uint_eq(fv_alive(FV_KINDS), 0);
}
END_TEST

START_TEST(a_word_that_is_too_long_is_refused)
{
	char params[600];
	struct tp_dev *dev;

	for (unsigned second = 0; second < 2; second++) {
		memset(params, 'x', sizeof(params));
		params[second ? 1 : 300] = ' ';
		params[400] = '\0';
		fv_log_capture();
		ck_assert_int_eq(tp_dev_open(params, up_ia(), &dev), -ENOENT);
		ck_assert_ptr_nonnull(strstr(fv_log(), "field 7 has a word of more than 255"));
	}
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tcase = tcase_create("resolve");

	case_fixture(NULL, verbs_begin, NULL);
	tcase_add_loop_test(tcase, params_mean_a_device_an_interface_an_address_or_a_host, 0,
			    COUNT(opens));
	tcase_add_loop_test(tcase, params_that_mean_nothing_here_are_refused, 0, COUNT(refusals));
	tcase_add_loop_test(tcase, an_interface_that_is_down_is_refused, 0, COUNT(downs));
	tcase_add_loop_test(tcase, an_interface_that_is_up_is_taken, 0, 2);
	tcase_add_loop_test(tcase, what_this_host_lacks_is_not_told_unless_asked, 0, 4);
	tcase_add_loop_test(tcase, a_name_like_a_device_s_is_not_looked_up_as_a_host, 0,
			    COUNT(names));
	tcase_add_test(tcase, a_device_without_a_driver_is_named);
	tcase_add_loop_test(tcase, without_devices_only_names_of_this_host_lack_one, 0,
			    COUNT(without_devices));
	tcase_add_loop_test(tcase, why_there_is_no_device_is_found_by_looking, 0, COUNT(node_rows));
	tcase_add_loop_test(tcase, what_this_host_lacks_is_told_to_the_tools, 0, 2);
	tcase_add_loop_test(tcase, a_node_that_can_t_be_opened_is_named, 0, COUNT(closed_nodes));
	tcase_add_loop_test(tcase, junk_in_the_params_is_refused_with_the_line, 0, COUNT(junk));
	tcase_add_test(tcase, a_word_that_is_too_long_is_refused);
	return run_cases(argc, argv);
}
