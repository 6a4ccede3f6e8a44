/* SPDX-License-Identifier: BSD-2-Clause */
/* resolve.c: the device, port and address that the IA params of dat.conf mean. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdlib.h>

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

int main(int argc, char **argv)
{
	TCase *tcase = tcase_create("resolve");

	case_fixture(NULL, verbs_begin, NULL);
	tcase_add_loop_test(tcase, params_mean_a_device_an_interface_an_address_or_a_host, 0,
			    COUNT(opens));
	tcase_add_loop_test(tcase, params_that_mean_nothing_here_are_refused, 0, COUNT(refusals));
	tcase_add_loop_test(tcase, what_this_host_lacks_is_not_told_unless_asked, 0, 4);
	tcase_add_loop_test(tcase, a_name_like_a_device_s_is_not_looked_up_as_a_host, 0,
			    COUNT(names));
	tcase_add_test(tcase, a_device_without_a_driver_is_named);
	tcase_add_loop_test(tcase, without_devices_only_names_of_this_host_lack_one, 0,
			    COUNT(without_devices));
	return run_cases(argc, argv);
}
