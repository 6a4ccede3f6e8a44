/* SPDX-License-Identifier: BSD-2-Clause */
/* port.c: what is told of the network interface that has the address of the IA. */
#include <arpa/inet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../../udapl/ofi/ofi.h"
#include "ofi_test.h"

static struct ofi_rig rig;

static struct tp_dev *open_dev(void)
{
	ck_dat(ofi_ia_open(&rig, "scripted 127.0.0.1"));
	return ((struct ia *)rig.ia)->dev;
}

static struct tp_port port_of(const struct tp_dev *dev)
{
	struct tp_port port;

	memset(&port, 0xee, sizeof(port));
	tp_dev_port(dev, &port);
	return port;
}

static void expect_gid(const struct tp_port *port, const char *address)
{
	uint8_t bytes[16];

	ck_assert_int_eq(inet_pton(AF_INET6, address, bytes), 1);
	ck_assert_mem_eq(port->gid, bytes, sizeof(bytes));
}

/* What the kernel says of the loopback interface. */
static struct ifreq loopback(unsigned long request)
{
	struct ifreq answer = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(ioctl(fd, request, &answer), 0);
	close(fd);
	return answer;
}

START_TEST(a_port_is_the_interface_of_the_address)
{
	static const uint8_t no_guid[8];
	const struct ifreq mtu = loopback(SIOCGIFMTU), flags = loopback(SIOCGIFFLAGS);
	const struct tp_port port = port_of(open_dev());

	ck_assert_str_eq(port.provider, "OFI");
	ck_assert_uint_eq(port.number, 1);
	ck_assert_mem_eq(port.node_guid, no_guid, sizeof(no_guid));
	expect_gid(&port, "::ffff:127.0.0.1");
	ck_assert_uint_eq(port.mtu, (unsigned)mtu.ifr_mtu);
	ck_assert_str_eq(port.state, flags.ifr_flags & IFF_RUNNING ? "ACTIVE" : "DOWN");
	ofi_rig_close(&rig);
}
END_TEST

static void set_address(struct tp_dev *dev, int family, const char *address)
{
	struct sockaddr_storage *to = &dev->attr.addr;

	*to = (struct sockaddr_storage){ .ss_family = (sa_family_t)family };
	if (family == AF_INET6)
		inet_pton(family, address, &((struct sockaddr_in6 *)to)->sin6_addr);
	else
		inet_pton(family, address, &((struct sockaddr_in *)to)->sin_addr);
}

static const struct {
	int family;
	const char *address, *gid;
} strange[] = {
	{ AF_INET, "192.0.2.1", "::ffff:192.0.2.1" },
	{ AF_INET6, "2001:db8::5", "2001:db8::5" },
};

START_TEST(an_address_of_no_interface_is_told_alone)
{
	struct tp_dev *dev = open_dev();
	const struct sockaddr_storage before = dev->attr.addr;
	struct tp_port port;

	set_address(dev, strange[_i].family, strange[_i].address);
	port = port_of(dev);
	expect_gid(&port, strange[_i].gid);
	ck_assert_str_eq(port.state, "UNKNOWN");
	ck_assert_uint_eq(port.mtu, 0);
	dev->attr.addr = before;
	ofi_rig_close(&rig);
}
END_TEST

/* One descriptor is enough, two are not needed at once; and none is left open. */
START_TEST(a_port_without_descriptors_is_unknown)
{
	struct tp_dev *dev = open_dev();
	const unsigned before = count_entries("/proc/self/fd");
	struct tp_port port;

	descriptors_allow(_i);
	port = port_of(dev);
	descriptors_allow_all();
	expect_gid(&port, "::ffff:127.0.0.1");
	ck_assert_int_eq(!strcmp(port.state, "UNKNOWN"), !_i);
	ck_assert_int_eq(port.mtu == 0, !_i);
	ck_assert_uint_eq(count_entries("/proc/self/fd"), before);
	ofi_rig_close(&rig);
}
END_TEST

/* ---- rejections ---- */

static struct cr *request(void)
{
	ck_dat(ofi_ia_open(&rig, "scripted 127.0.0.1"));
	ck_dat(ofi_objects_create(&rig));
	ck_dat(ofi_connect_begin(&rig));
	return ofi_event(rig.cr_evd).event_data.cr_arrival_event_data.cr_handle;
}

static void reject(struct cr *cr, bool by_consumer, const void *data, unsigned size)
{
	CANCEL_FORBIDDEN;

	if (by_consumer) {
		ck_dat(cr_reject_with(cr, data, size));
		return;
	}
	ck_assert(obj_retire(&cr->obj));
	cr_destroy(cr);
}

/* The core of either edition keeps the data; that of DAT 2.0 shows them. */
START_TEST(the_data_of_a_rejection_arrive)
{
	struct cr *cr = request();
	const unsigned most = cr->obj.ia->attr->max_reject_pdata;
	const unsigned size = _i == 0 ? 0 : _i == 1 ? 3 : most;
	struct ep *ep = rig.active;
	char data[256];

	ck_assert_uint_gt(most, 3);
	memset(data, 'x', sizeof(data));
	reject(cr, true, data, size);
	ck_assert_uint_eq(ofi_event(rig.conn_evd).event_number, DAT_CONNECTION_EVENT_PEER_REJECTED);
	ck_assert_uint_eq((unsigned)ep->private_data_size, size);
	ck_assert_mem_eq(ep->private_data, data, size);
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(the_provider_rejects_without_data)
{
	struct cr *cr = request();
	struct ep *ep = rig.active;

	reject(cr, false, NULL, 0);
	ck_assert_uint_eq(ofi_event(rig.conn_evd).event_number,
			  DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	ck_assert_int_eq(ep->private_data_size, 0);
	ofi_rig_close(&rig);
}
END_TEST

/* What a provider wants of regions, and what is told of the domain. */
static const struct {
	int wanted;
	const char *told;
} modes[] = {
	{ 0, "FI_MR_VIRT_ADDR" },
	{ FI_MR_VIRT_ADDR | FI_MR_RMA_EVENT, "FI_MR_VIRT_ADDR FI_MR_RMA_EVENT" },
	{ FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
	  "FI_MR_LOCAL FI_MR_VIRT_ADDR FI_MR_ALLOCATED FI_MR_PROV_KEY" },
};

START_TEST(the_registration_mode_is_told)
{
	struct tp_port port;

	ff_provider()->mr_mode = modes[_i].wanted;
	port = port_of(open_dev());
	ck_assert_str_eq(port.own_name, "OFI_MR_MODE");
	ck_assert_str_eq(port.own_value, modes[_i].told);
	ofi_rig_close(&rig);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tcase = tcase_create("port");

	tcase_add_test(tcase, a_port_is_the_interface_of_the_address);
	tcase_add_loop_test(tcase, an_address_of_no_interface_is_told_alone, 0, COUNT(strange));
	tcase_add_loop_test(tcase, a_port_without_descriptors_is_unknown, 0, 2);
	tcase_add_loop_test(tcase, the_data_of_a_rejection_arrive, 0, 3);
	tcase_add_test(tcase, the_provider_rejects_without_data);
	tcase_add_loop_test(tcase, the_registration_mode_is_told, 0, ARRAY_SIZE(modes));
	return run_cases(argc, argv);
}
