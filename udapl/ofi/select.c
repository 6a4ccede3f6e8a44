/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The IA params of dat.conf: the name of a libfabric provider, and which of its interfaces, by the
 * name of a network interface ("tcp eth0"), an IP address ("tcp 10.0.0.1"), the name of a
 * libfabric domain ("verbs mlx5_0") or that of a host. Without the second word, or if it is 0: the
 * first interface that is up, loopback last.
 *
 * An iWARP device is refused. There libfabric's verbs calls rdma_connect, which may take minutes,
 * while it reads its event queue, and does not say whose attempt has failed; and an attempt that
 * is given up keeps fi_close until the peer has answered.
 */
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <strings.h>

#include "host/nodes.h"
#include "ofi.h"
#include "host/params.h"

#define SERVED 16 /* more than any preference: a device that can be used comes first */

struct selection {
	struct params params; /* a provider, and a place */
	bool any;	      /* no place was given */
	bool interface_known; /* the place is the name of an interface of this host */
	bool interface_up;
};

/* ---- choosing ---- */

static bool addr_is_named(const struct sockaddr *addr, const char *text)
{
	char buffer[SOCKADDR_TEXT_SIZE];

	return addr && !strcmp(sockaddr_text(addr, buffer), text);
}

static bool is_iwarp(const struct fi_info *info)
{
	return info->ep_attr->protocol == FI_PROTO_IWARP;
}

/* Says how well an interface fits what was asked for: the higher the better, and 0 not at all. */
static unsigned preference(const struct selection *selection, const struct fi_info *info,
			   const struct ifaddrs *interface)
{
	const struct sockaddr *addr = info->src_addr;
	const char *place = selection->params.second;
	unsigned family;

	if (!addr || (addr->sa_family != AF_INET && addr->sa_family != AF_INET6))
		return 0;
	family = addr->sa_family == AF_INET;
	if (selection->any) {
		if (!interface || !(interface->ifa_flags & IFF_UP))
			return 0;
		return 1 + family + (interface->ifa_flags & IFF_LOOPBACK ? 0 : 2);
	}
	if (addr_is_named(addr, place))
		return 6;
	if (interface && !strcmp(interface->ifa_name, place))
		return 4 + family;
	/* with an interface's name but none of its addresses: libfabric has made it up */
	if (!strcmp(info->domain_attr->name, place) && !selection->interface_known)
		return 2 + family;
	return 0;
}

static const struct ifaddrs *interface_of(const struct ifaddrs *all, const struct fi_info *info)
{
	while (all && !sockaddr_equal(all->ifa_addr, info->src_addr))
		all = all->ifa_next;
	return all;
}

/*
 * Returns the interface that fits best, or NULL if none does. If that is down, it is of no use, and
 * its name is in @down.
 */
static struct fi_info *choose_among(struct selection *selection, struct fi_info *list,
				    const struct ifaddrs *interfaces, char down[IF_NAMESIZE])
{
	struct fi_info *best = NULL;
	const struct ifaddrs *interface;
	unsigned most = 0;

	for (interface = interfaces; interface; interface = interface->ifa_next) {
		if (strcmp(interface->ifa_name, selection->params.second) != 0)
			continue;
		selection->interface_known = true;
		selection->interface_up |= (interface->ifa_flags & IFF_UP) != 0;
	}
	for (struct fi_info *info = list; info; info = info->next) {
		unsigned mark = preference(selection, info, interface_of(interfaces, info));

		if (mark && !is_iwarp(info))
			mark += SERVED;
		if (mark > most) {
			most = mark;
			best = info;
		}
	}
	interface = best ? interface_of(interfaces, best) : NULL;
	if (interface && !(interface->ifa_flags & IFF_UP))
		snprintf(down, IF_NAMESIZE, "%s", interface->ifa_name);
	return best;
}

static int nothing_chosen(const struct selection *selection)
{
	const char *provider = selection->params.first, *place = selection->params.second;

	if (selection->any)
		log_error("open: no network interface that is up has an address for libfabric's %s",
			  provider);
	else if (selection->interface_known && !selection->interface_up)
		log_error("open %s: this network interface is down", place);
	else if (selection->interface_known)
		log_error("open %s: this network interface has no address for libfabric's %s",
			  place, provider);
	else /* it may be of another host, whose dat.conf this may be */
		log_absent("open %s: libfabric's %s has no interface, address, domain or host of "
			   "that name",
			   place, provider);
	return selection->any || selection->interface_known ? -ENODEV : -ENOENT;
}

/* Returns the interface that has the address of a host name; or NULL. */
static struct fi_info *choose_host(const char *name, struct fi_info *list)
{
	struct addrinfo *found = NULL;
	struct fi_info *info;

	if (params_is_device_like(name) || getaddrinfo(name, NULL, NULL, &found))
		return NULL;
	for (info = list; info; info = info->next)
		for (const struct addrinfo *one = found; one; one = one->ai_next)
			if (sockaddr_equal(one->ai_addr, info->src_addr))
				goto done;
done:
	freeaddrinfo(found);
	return info;
}

static int choose(struct selection *selection, struct fi_info *list, struct fi_info **out)
{
	char down[IF_NAMESIZE] = "";
	struct ifaddrs *interfaces = NULL;
	struct fi_info *best;

	if (getifaddrs(&interfaces))
		interfaces = NULL;
	best = choose_among(selection, list, interfaces, down);
	freeifaddrs(interfaces);
	if (!best && !selection->any && !selection->interface_known)
		best = choose_host(selection->params.second, list);
	if (!best)
		return nothing_chosen(selection);
	if (*down) {
		log_error("open %s: the network interface %s is down", selection->params.second,
			  down);
		return -ENODEV;
	}
	if (is_iwarp(best)) {
		log_error("open %s: libfabric's %s can't connect over iWARP without blocking; use "
			  "libdaplcma",
			  best->domain_attr->name, selection->params.first);
		return -EOPNOTSUPP;
	}
	*out = libfabric.dupinfo(best);
	return *out ? 0 : -ENOMEM;
}

/* ---- all ---- */

/* Is the provider there, with endpoints of whatever kind? */
static bool provider_exists(const char *provider)
{
	struct fi_info *hints = libfabric.dupinfo(NULL), *found = NULL;

	if (!hints)
		return false;
	hints->mode = ~UINT64_C(0);
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
				      FI_MR_PROV_KEY | FI_MR_ENDPOINT | FI_MR_RAW | FI_MR_HMEM |
				      FI_MR_MMU_NOTIFY;
	hints->fabric_attr->prov_name = strdup(provider);
	if (!hints->fabric_attr->prov_name || libfabric_getinfo(hints, &found))
		found = NULL;
	libfabric.freeinfo(hints);
	if (found)
		libfabric.freeinfo(found);
	return found;
}

/*
 * Does libfabric look at no such provider? The value of FI_PROVIDER has the names of those that it
 * looks at, with commas between them, or behind a ^ the names of all others.
 */
static bool provider_is_hidden(const char *provider, const char *setting)
{
	const bool others = *setting == '^';
	bool named = false;

	for (const char *name = setting + others; name; name = strchr(name, ',')) {
		name += *name == ',';
		named |= strcspn(name, ",") == strlen(provider) &&
			 !strncasecmp(name, provider, strlen(provider));
	}
	return named == others;
}

/*
 * Logs why there is nothing of the provider. A dat.conf may serve many hosts, so by default nothing
 * is said of a device that this one lacks.
 */
static int provider_missing(const char *provider)
{
	const char *setting = secure_getenv("FI_PROVIDER");
	struct nodes nodes = { .state = NODES_COMPLETE };

	if (provider_exists(provider)) {
		log_error("open: libfabric's %s has no connected endpoints with RMA in the order "
			  "of RDMA (see fi_info -p %s)",
			  provider, provider);
		return -EOPNOTSUPP;
	}
	if (!strcmp(provider, "verbs"))
		nodes_look(&nodes);
	if (nodes.state == NODES_NO_DEVICE)
		log_absent("open: %s", nodes.text);
	else if (nodes.state != NODES_COMPLETE)
		log_error("open: %s", nodes.text);
	else if (setting && provider_is_hidden(provider, setting))
		log_absent("open: FI_PROVIDER is \"%s\", so libfabric has no provider %s", setting,
			   provider);
	else
		log_absent("open: libfabric has no provider %s, or that finds no device (fi_info "
			   "-l lists its providers)",
			   provider);
	return -ENODEV;
}

int select_info(const char *text, bool basic, struct fi_info **out)
{
	struct selection selection = { 0 };
	const char *wrong = params_parse(PARAMS_OF_OFI, text, &selection.params);
	const char *provider = selection.params.first;
	struct fi_info *list = NULL;
	int ret;

	if (wrong) {
		log_error("%s: %s, not \"%s\"", log_conf_line(), wrong, text);
		return -ENOENT;
	}
	selection.any = !strcmp(selection.params.second, "0");
	ret = hints_infos(provider, basic, &list);
	if (ret == -FI_ENODATA)
		return provider_missing(provider);
	if (ret == -EOPNOTSUPP)
		return ret;
	if (ret == -FI_ENOSYS) {
		log_error("open: libfabric is older than 1.13");
		return -ENOENT;
	}
	if (ret) {
		log_error("open: fi_getinfo of provider %s: %s", provider,
			  libfabric.strerror(-ret));
		return ofi_errno(ret);
	}
	ret = choose(&selection, list, out);
	libfabric.freeinfo(list);
	return ret;
}
