/* SPDX-License-Identifier: BSD-2-Clause */
/* RDMA devices and network interfaces of this host, from sysfs, if_nameindex and getifaddrs. */
#include "datinfo.h"

#include <stdarg.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES	   "/sys/class/infiniband"
#define INTERFACES "/sys/class/net"

static void *grow(void *array, size_t count, size_t size)
{
	void *more = realloc(array, (count + 1) * size);

	if (!more) {
		perror("datinfo");
		exit(1);
	}
	memset((char *)more + count * size, 0, size);
	return more;
}

/* Reads the first line of a file. The text is empty if there is none. */
static void read_line(char *text, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void read_line(char *text, size_t size, const char *format, ...)
{
	char path[512];
	va_list args;
	FILE *file;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	text[0] = '\0';
	file = fopen(path, "re");
	if (!file)
		return;
	if (!fgets(text, (int)size, file))
		text[0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	fclose(file);
}

/* ---- interfaces ---- */

static void interface_add(struct host *host, const char *name)
{
	struct host_interface *interface;
	char type[32];

	host->interfaces = grow(host->interfaces, host->interface_count, sizeof(*interface));
	interface = &host->interfaces[host->interface_count++];
	snprintf(interface->name, sizeof(interface->name), "%.31s", name);
	read_line(interface->mac, sizeof(interface->mac), INTERFACES "/%s/address", name);
	read_line(type, sizeof(type), INTERFACES "/%s/type", name);
	interface->type = (unsigned)strtoul(type, NULL, 10);
	read_line(interface->speed, sizeof(interface->speed), INTERFACES "/%s/speed", name);
	read_line(interface->mtu, sizeof(interface->mtu), INTERFACES "/%s/mtu", name);
	if (interface->speed[0] == '-')
		interface->speed[0] = '\0';
}

/* Writes an IP address in numbers. Returns false if it is none. */
static bool address_write(const struct sockaddr *addr, char text[64])
{
	const struct sockaddr_in *in = (const void *)addr;
	const struct sockaddr_in6 *in6 = (const void *)addr;

	if (addr->sa_family == AF_INET)
		return inet_ntop(AF_INET, &in->sin_addr, text, 64);
	return addr->sa_family == AF_INET6 && inet_ntop(AF_INET6, &in6->sin6_addr, text, 64);
}

/* Interfaces are not read from sysfs, which a container may lack. */
static void interfaces_read(struct host *host)
{
	struct if_nameindex *all = if_nameindex();

	for (const struct if_nameindex *one = all; one && one->if_index; one++)
		interface_add(host, one->if_name);
	if (all)
		if_freenameindex(all);
}

static void addresses_read(struct host *host)
{
	struct ifaddrs *all;

	if (getifaddrs(&all))
		return;
	for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
		struct host_interface *interface = (struct host_interface *)host_interface_find(
			host, one->ifa_name);
		char text[64];

		if (!interface)
			continue;
		interface->up |= (one->ifa_flags & IFF_UP) != 0;
		interface->loopback |= (one->ifa_flags & IFF_LOOPBACK) != 0;
		if (!one->ifa_addr || !address_write(one->ifa_addr, text))
			continue;
		if (strlen(interface->addresses) + strlen(text) + 2 <= TEXT)
			sprintf(strchr(interface->addresses, '\0'), "%s%s",
				*interface->addresses ? " " : "", text);
		if (!interface->address[0] ||
		    (strchr(interface->address, ':') && one->ifa_addr->sa_family == AF_INET))
			memcpy(interface->address, text, sizeof(interface->address));
	}
	freeifaddrs(all);
}

const struct host_interface *host_interface_find(const struct host *host, const char *name)
{
	for (size_t i = 0; i < host->interface_count; i++)
		if (!strcmp(host->interfaces[i].name, name))
			return &host->interfaces[i];
	return NULL;
}

bool text_is_address(const char *text)
{
	struct in6_addr binary;

	return inet_pton(AF_INET, text, &binary) == 1 || inet_pton(AF_INET6, text, &binary) == 1;
}

const struct host_interface *host_interface_of_address(const struct host *host, const char *text)
{
	const struct host_interface *found = NULL;
	struct ifaddrs *all;
	char other[64];

	if (getifaddrs(&all))
		return NULL;
	for (const struct ifaddrs *one = all; one && !found; one = one->ifa_next)
		if (one->ifa_addr && address_write(one->ifa_addr, other) && !strcmp(other, text))
			found = host_interface_find(host, one->ifa_name);
	freeifaddrs(all);
	return found;
}

/* ---- ports ---- */

struct location host_locate(const struct host *host, const char *address)
{
	struct location at = { host_interface_of_address(host, address), NULL };

	for (size_t i = 0; at.interface && i < host->port_count && !at.port; i++)
		if (!strcmp(at.interface->name, host->ports[i].interface))
			at.port = &host->ports[i];
	return at;
}

/*
 * Soft iWARP tells no interface, but its GID begins with the MAC address of one: "0252:5400:1234:
 * ..." of 02:52:54:00:12:34.
 */
static const char *interface_by_gid(const struct host *host, const struct host_port *port)
{
	const char *gid = port->gid;
	char mac[18];

	if (strlen(gid) < 14)
		return "";
	snprintf(mac, sizeof(mac), "%.2s:%.2s:%.2s:%.2s:%.2s:%.2s", gid, gid + 2, gid + 5, gid + 7,
		 gid + 10, gid + 12);
	for (size_t i = 0; i < host->interface_count; i++)
		if (!strcasecmp(host->interfaces[i].mac, mac))
			return host->interfaces[i].name;
	return "";
}

/* An interface of IPoIB is of the same device; its port counts from 0. */
static const char *interface_by_device(const struct host *host, const struct host_port *port)
{
	for (size_t i = 0; i < host->interface_count; i++) {
		char path[256], number[32];
		DIR *dir;

		snprintf(path, sizeof(path), INTERFACES "/%s/device/infiniband/%s",
			 host->interfaces[i].name, port->device);
		dir = opendir(path);
		if (!dir)
			continue;
		closedir(dir);
		read_line(number, sizeof(number), INTERFACES "/%s/dev_port",
			  host->interfaces[i].name);
		if (strtoul(number, NULL, 0) + 1 == port->port)
			return host->interfaces[i].name;
	}
	return "";
}

static void port_add(struct host *host, const char *device, unsigned number)
{
	struct host_port *port;
	const char *found;
	char type[64], lid[32];

	host->ports = grow(host->ports, host->port_count, sizeof(*port));
	port = &host->ports[host->port_count++];
	snprintf(port->device, sizeof(port->device), "%s", device);
	port->port = number;
	read_line(port->layer, sizeof(port->layer), DEVICES "/%s/ports/%u/link_layer", device,
		  number);
	read_line(port->state, sizeof(port->state), DEVICES "/%s/ports/%u/state", device, number);
	found = strchr(port->state, ' '); /* "4: ACTIVE" */
	if (found)
		memmove(port->state, found + 1, strlen(found));
	read_line(port->rate, sizeof(port->rate), DEVICES "/%s/ports/%u/rate", device, number);
	read_line(port->firmware, sizeof(port->firmware), DEVICES "/%s/fw_ver", device);
	read_line(port->guid, sizeof(port->guid), DEVICES "/%s/node_guid", device);
	read_line(port->gid, sizeof(port->gid), DEVICES "/%s/ports/%u/gids/0", device, number);
	read_line(lid, sizeof(lid), DEVICES "/%s/ports/%u/lid", device, number);
	port->lid = strtoul(lid, NULL, 0);
	read_line(type, sizeof(type), DEVICES "/%s/node_type", device);
	port->iwarp = strstr(type, "RNIC") != NULL;
	read_line(port->interface, sizeof(port->interface),
		  DEVICES "/%s/ports/%u/gid_attrs/ndevs/0", device, number);
	found = port->interface;
	if (!*found)
		found = interface_by_device(host, port);
	if (!*found)
		found = interface_by_gid(host, port);
	if (found != port->interface)
		snprintf(port->interface, sizeof(port->interface), "%s", found);
}

static void ports_read(struct host *host, const char *device)
{
	char path[300];
	struct dirent **entries;
	int count;

	snprintf(path, sizeof(path), DEVICES "/%s/ports", device);
	count = scandir(path, &entries, NULL, versionsort);
	for (int i = 0; i < count; i++) {
		unsigned number = (unsigned)strtoul(entries[i]->d_name, NULL, 10);

		if (number)
			port_add(host, device, number);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

/* ---- all ---- */

static void each_entry(struct host *host, const char *path,
		       void (*add)(struct host *host, const char *name))
{
	struct dirent **entries;
	int count = scandir(path, &entries, NULL, versionsort);

	for (int i = 0; i < count; i++) {
		if (entries[i]->d_name[0] != '.')
			add(host, entries[i]->d_name);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

void host_read(struct host *host)
{
	memset(host, 0, sizeof(*host));
	interfaces_read(host);
	addresses_read(host);
	each_entry(host, DEVICES, ports_read);
}

void host_free(struct host *host)
{
	free(host->interfaces);
	free(host->ports);
}
