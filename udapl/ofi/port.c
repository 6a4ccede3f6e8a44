/* SPDX-License-Identifier: BSD-2-Clause */
/* What DAT 2.0 tells of a port, of the network interface that has the address of the IA. */
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ofi.h"

/* Returns the address as the bytes of one of IPv6. */
static void address_read(const struct sockaddr_storage *addr, uint8_t bytes[16])
{
	memset(bytes, 0, 16);
	if (addr->ss_family == AF_INET6) {
		memcpy(bytes, &((const struct sockaddr_in6 *)addr)->sin6_addr, 16);
	} else if (addr->ss_family == AF_INET) {
		bytes[10] = bytes[11] = 0xff;
		memcpy(bytes + 12, &((const struct sockaddr_in *)addr)->sin_addr, 4);
	}
}

static bool is_at(const struct ifaddrs *interface, const uint8_t wanted[16])
{
	struct sockaddr_storage addr = { .ss_family = AF_UNSPEC };
	uint8_t bytes[16];

	if (!interface->ifa_addr || (interface->ifa_addr->sa_family != AF_INET &&
				     interface->ifa_addr->sa_family != AF_INET6))
		return false;
	memcpy(&addr, interface->ifa_addr,
	       interface->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
							 : sizeof(struct sockaddr_in6));
	address_read(&addr, bytes);
	return !memcmp(bytes, wanted, sizeof(bytes));
}

/* Reads what the kernel tells of the interface of that name. */
static void interface_read(const char *name, struct tp_port *port)
{
	struct ifreq request = { .ifr_mtu = 0 };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (!ioctl(fd, SIOCGIFMTU, &request))
		port->mtu = (unsigned)request.ifr_mtu;
	if (!ioctl(fd, SIOCGIFFLAGS, &request))
		port->state = request.ifr_flags & IFF_RUNNING ? "ACTIVE" : "DOWN";
	close(fd);
}

/* Writes the names of the bits, as fi_info prints them, or "0" if there are none. */
static void mr_mode_write(int mr_mode, char *text, size_t size)
{
#define BIT(name)                                                                                  \
	{                                                                                          \
		name, #name                                                                        \
	}
	static const struct {
		int bit;
		const char *name;
	} bits[] = {
		BIT(FI_MR_BASIC),     BIT(FI_MR_LOCAL),	   BIT(FI_MR_VIRT_ADDR),
		BIT(FI_MR_ALLOCATED), BIT(FI_MR_PROV_KEY), BIT(FI_MR_RMA_EVENT),
	};
#undef BIT
	size_t length = 0;

	for (size_t i = 0; i < ARRAY_SIZE(bits); i++)
		if (mr_mode & bits[i].bit && length < size)
			length += (size_t)snprintf(text + length, size - length, "%s%s",
						   length ? " " : "", bits[i].name);
	if (!length)
		snprintf(text, size, "0");
}

void tp_dev_port(const struct tp_dev *dev, struct tp_port *port)
{
	struct ifaddrs *interfaces;

	*port = (struct tp_port){ .provider = "OFI", .state = "UNKNOWN", .number = 1 };
	address_read(&dev->attr.addr, port->gid);
	port->own_name = "OFI_MR_MODE";
	mr_mode_write(dev->info->domain_attr->mr_mode, port->own_value, sizeof(port->own_value));
	if (getifaddrs(&interfaces))
		return;
	for (const struct ifaddrs *at = interfaces; at; at = at->ifa_next)
		if (is_at(at, port->gid)) {
			interface_read(at->ifa_name, port);
			break;
		}
	freeifaddrs(interfaces);
}
