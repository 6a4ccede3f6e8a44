/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The device that the IA params of dat.conf mean. They are a name and a number, and a name may mean
 * a device ("mlx5_0 1": the number is the port), a network interface ("eth0 0"), an IP address
 * ("10.0.0.1 0") or a host ("host-ib 0"). A resolver for each kind, in this order, looks for the IP
 * address of this host that the name stands for. librdmacm then names the device and the port to
 * which that address belongs.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/nodes.h"
#include "host/params.h"
#include "base/sockaddr.h"
#include "verbs.h"

struct rdma_port {
	char device[64];
	uint8_t number;
};

/* Finds the RDMA port that has the address. Returns -ENODEV if it belongs to no RDMA device. */
static int rdma_port_of_addr(struct rdma_event_channel *cm, struct sockaddr *addr,
			     struct rdma_port *port)
{
	struct rdma_cm_id *id;
	int err = 0;

	if (LIBRDMACM(rdma_create_id(cm, &id, NULL, RDMA_PS_TCP)))
		return -errno;
	if (LIBRDMACM(rdma_bind_addr(id, addr))) {
		err = -errno;
	} else if (!id->verbs) {
		err = -ENODEV;
	} else {
		snprintf(port->device, sizeof(port->device), "%s",
			 ibv_get_device_name(id->verbs->device));
		port->number = id->port_num;
	}
	(void)LIBRDMACM(rdma_destroy_id(id));
	return err;
}

static struct ibv_device *device_named(const struct lookup *lookup, const char *name)
{
	for (int i = 0; i < lookup->device_count; i++)
		if (!strcmp(ibv_get_device_name(lookup->devices[i]), name))
			return lookup->devices[i];
	return NULL;
}

/* ---- addresses of this host ---- */

/* Says how well the address serves: the higher the better, and 0 is of no use. */
static unsigned addr_preference(const struct ifaddrs *interface)
{
	const struct sockaddr *addr = interface->ifa_addr;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
	const unsigned up = interface->ifa_flags & IFF_UP ? 3 : 0;

	if (!addr)
		return 0;
	if (addr->sa_family == AF_INET)
		return up + 3;
	if (addr->sa_family == AF_INET6)
		return up + (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) ? 1 : 2);
	return 0;
}

/* Finds the most preferred address of this host that @fits. Returns false if none does. */
static bool local_addr_find(struct lookup *lookup,
			    bool (*fits)(struct lookup *, const struct ifaddrs *),
			    struct sockaddr_storage *addr)
{
	struct ifaddrs *all;
	unsigned best = 0;

	if (getifaddrs(&all)) {
		log_error("open %s: getifaddrs: %s", lookup->name, strerror(errno));
		return false;
	}
	for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
		if (!fits(lookup, one) || addr_preference(one) <= best)
			continue;
		best = addr_preference(one);
		sockaddr_copy(addr, one->ifa_addr);
	}
	freeifaddrs(all);
	return best > 0;
}

static bool fits_rdma_port(struct lookup *lookup, const struct ifaddrs *one)
{
	struct rdma_port port;

	return addr_preference(one) && !rdma_port_of_addr(lookup->cm, one->ifa_addr, &port) &&
	       !strcmp(port.device, lookup->name) && port.number == lookup->port;
}

/*
 * Says whether the interface has the name. getifaddrs lists one without an IP address, too: with
 * its link address.
 */
static bool fits_interface(struct lookup *lookup, const struct ifaddrs *one)
{
	bool fits = !strcmp(one->ifa_name, lookup->name);

	lookup->interface_exists |= fits;
	lookup->interface_up |= fits && one->ifa_flags & IFF_UP;
	return fits;
}

/*
 * Finds the interface that has the address, unless one that is up has it; the name is empty if
 * there is none.
 */
static void down_interface_find(const struct sockaddr *addr, char name[IF_NAMESIZE])
{
	struct ifaddrs *all;
	bool up = false;

	name[0] = '\0';
	if (getifaddrs(&all))
		return;
	for (const struct ifaddrs *one = all; one && !up; one = one->ifa_next) {
		if (!sockaddr_equal(one->ifa_addr, addr))
			continue;
		up = one->ifa_flags & IFF_UP;
		snprintf(name, IF_NAMESIZE, "%s", up ? "" : one->ifa_name);
	}
	freeifaddrs(all);
}

/* ---- resolvers ---- */

/* Resolves the name of a device: "mlx5_0 1". */
static int resolve_device(struct lookup *lookup, struct sockaddr_storage *addr)
{
	if (!device_named(lookup, lookup->name))
		return -ENOENT;
	if (!lookup->port)
		lookup->port = 1;
	if (local_addr_find(lookup, fits_rdma_port, addr))
		return 0;
	log_error("open %s: no network interface with an IP address belongs to port %u of this "
		  "device",
		  lookup->name, lookup->port);
	return -ENODEV;
}

/* Resolves the name of a network interface: "eth0 0". */
static int resolve_interface(struct lookup *lookup, struct sockaddr_storage *addr)
{
	if (local_addr_find(lookup, fits_interface, addr))
		return 0;
	if (!lookup->interface_exists)
		return -ENOENT;
	if (lookup->interface_up)
		log_error("open %s: this network interface has no IP address", lookup->name);
	else
		log_error("open %s: this network interface is down", lookup->name);
	return -ENODEV;
}

/* Returns 0 or a code of getaddrinfo. */
static int addr_of_host(const char *name, int flags, struct sockaddr_storage *addr)
{
	struct addrinfo *found, hints = { .ai_flags = flags, .ai_socktype = SOCK_STREAM };
	int code = getaddrinfo(name, NULL, &hints, &found);

	if (code)
		return code;
	sockaddr_copy(addr, found->ai_addr);
	freeaddrinfo(found);
	return 0;
}

static bool fits_number(struct lookup *lookup, const struct ifaddrs *one)
{
	return sockaddr_equal(one->ifa_addr, (struct sockaddr *)&lookup->number);
}

/*
 * Resolves an IP address: "10.0.0.1 0". A link-local one without its interface ("fe80::1", not
 * "fe80::1%eth0") gets the interface of this host that has it.
 */
static int resolve_number(struct lookup *lookup, struct sockaddr_storage *addr)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&lookup->number;

	if (addr_of_host(lookup->name, AI_NUMERICHOST, &lookup->number))
		return -ENOENT;
	*addr = lookup->number;
	if (addr->ss_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) &&
	    !in6->sin6_scope_id)
		local_addr_find(lookup, fits_number, addr);
	return 0;
}

/* Resolves the name of a host: "host-ib 0". */
static int resolve_host(struct lookup *lookup, struct sockaddr_storage *addr)
{
	int code = params_is_device_like(lookup->name) ? EAI_NONAME
						       : addr_of_host(lookup->name, 0, addr);

	if (!code)
		return 0;
	log_absent("open %s: not an RDMA device, network interface, IP address or host: %s",
		   lookup->name, code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
	return -ENOENT;
}

/* Each returns -ENOENT if the name is not of its kind; other errors end the search. */
static int (*const resolvers[])(struct lookup *, struct sockaddr_storage *) = {
	resolve_device,
	resolve_interface,
	resolve_number,
	resolve_host,
};

/* ---- the search ---- */

/*
 * Says whether the name is that of an interface or an address of this host; or of a host, which is
 * not resolved to find out.
 */
static bool may_be_on_this_host(const char *name)
{
	struct sockaddr_storage addr;
	bool bound;
	int fd;

	if (addr_of_host(name, AI_NUMERICHOST, &addr))
		return if_nametoindex(name) || !params_is_device_like(name);
	fd = socket(addr.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	bound = bind(fd, (struct sockaddr *)&addr, sockaddr_size((struct sockaddr *)&addr)) == 0;
	close(fd);
	return bound;
}

/*
 * Says why libibverbs lists no device: the kernel has none, its nodes are missing, or it has no
 * driver. Only who names a device or an interface of this host is told of what is missing here.
 */
static int devices_missing(const struct lookup *lookup)
{
	const bool here = nodes_has_device(lookup->name) || may_be_on_this_host(lookup->name);
	struct nodes nodes;

	nodes_look(&nodes);
	if (nodes.state == NODES_COMPLETE)
		log_error("open %s: libibverbs has no driver for the RDMA devices of this host",
			  lookup->name);
	else if (nodes.state == NODES_NO_DEVICE || !here)
		log_absent("open %s: %s", lookup->name, nodes.text);
	else
		log_error("open %s: %s", lookup->name, nodes.text);
	return here ? -ENODEV : -ENOENT;
}

int lookup_begin(struct lookup *lookup, const char *text)
{
	struct params params;
	const char *wrong = params_parse(PARAMS_OF_VERBS, text, &params);

	*lookup = (struct lookup){ 0 };
	if (wrong) {
		log_error("%s: %s, not \"%s\"", log_conf_line(), wrong, text);
		return -ENOENT;
	}
	strcpy(lookup->name, params.first);
	lookup->port = (unsigned)strtoul(params.second, NULL, 0);
	lookup->on_demand = params.on_demand;
	lookup->devices = ibv_get_device_list(&lookup->device_count);
	if (lookup->devices && lookup->device_count)
		return 0;
	lookup_end(lookup);
	return devices_missing(lookup);
}

void lookup_end(struct lookup *lookup)
{
	if (lookup->devices)
		ibv_free_device_list(lookup->devices);
}

int lookup_run(struct lookup *lookup, struct tp_dev *dev, struct ibv_device **device)
{
	struct sockaddr *addr = (struct sockaddr *)&dev->attr.addr;
	char text[SOCKADDR_TEXT_SIZE], down[IF_NAMESIZE];
	struct rdma_port port;
	int err = -ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(resolvers) && err == -ENOENT; i++)
		err = resolvers[i](lookup, &dev->attr.addr);
	if (err)
		return err;
	/* librdmacm would take it, and then no peer can be reached */
	down_interface_find(addr, down);
	if (*down) {
		log_error("open %s: the network interface %s is down", lookup->name, down);
		return -ENODEV;
	}
	err = rdma_port_of_addr(lookup->cm, addr, &port);
	if (err == -ENODEV) {
		log_error("open %s: no RDMA device has the address %s", lookup->name,
			  sockaddr_text(addr, text));
		return err;
	}
	if (err == -EADDRNOTAVAIL) { /* of another host, whose dat.conf this may be */
		log_absent("open %s: this host does not have the address %s", lookup->name,
			   sockaddr_text(addr, text));
		return -ENOENT;
	}
	if (err) {
		log_error("open %s: rdma_bind_addr to %s: %s", lookup->name,
			  sockaddr_text(addr, text), strerror(-err));
		return err;
	}
	*device = device_named(lookup, port.device);
	if (!*device) {
		log_error("open %s: libibverbs has no driver for device %s here", lookup->name,
			  port.device);
		return -ENODEV;
	}
	dev->port = port.number;
	return 0;
}
