/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The IA params of dat.conf: the name of a libfabric provider, and which of its interfaces, by the
 * name of a network interface ("tcp eth0"), an IP address ("tcp 10.0.0.1") or the name of a
 * libfabric domain ("verbs mlx5_0"). Without the second word, or if it is 0: the first interface
 * that is up, loopback last.
 */
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>

#include "nodes.h"
#include "ofi.h"
#include "params.h"

#define MOST_TRANSFERS 65536 /* in flight, that are asked for */

struct selection {
	struct params params; /* a provider, and a place */
	bool any;	      /* no place was given */
	bool interface_known; /* the place is the name of an interface of this host */
	bool interface_up;
};

/* ---- hints ---- */

/*
 * Virtual addresses are asked for, and keys of either kind. The order is that of RDMA: a later
 * message or write is not seen before an earlier one.
 */
static struct fi_info *hints_new(const char *provider, int mr_mode, uint64_t write_flags)
{
	struct fi_info *hints = libfabric.dupinfo(NULL);

	if (!hints)
		return NULL;
	hints->caps = FI_MSG | FI_RMA;
	hints->mode = FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->mr_mode = mr_mode;
	hints->tx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_WAW | FI_ORDER_RAW |
				    FI_ORDER_RAS;
	hints->rx_attr->msg_order = hints->tx_attr->msg_order;
	hints->tx_attr->op_flags = write_flags;
	hints->fabric_attr->prov_name = strdup(provider);
	if (hints->fabric_attr->prov_name)
		return hints;
	libfabric.freeinfo(hints);
	return NULL;
}

static int info_get(const char *provider, int mr_mode, uint64_t write_flags, struct fi_info **info)
{
	struct fi_info *hints = hints_new(provider, mr_mode, write_flags);
	int ret;

	if (!hints)
		return -FI_ENOMEM;
	ret = libfabric_getinfo(hints, info);
	libfabric.freeinfo(hints);
	return ret;
}

/*
 * A DAT triplet has a virtual address. A provider that counts addresses from the beginning of a
 * region is asked for the older mode in which it does not; that comes with keys that it chooses
 * itself.
 */
static int info_get_virtual(const char *provider, uint64_t write_flags, struct fi_info **info)
{
	const int modes = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	int ret = info_get(provider, modes, write_flags, info);

	if (!ret && ((*info)->domain_attr->mr_mode & FI_MR_VIRT_ADDR))
		return 0;
	if (!ret)
		libfabric.freeinfo(*info);
	return info_get(provider, FI_MR_BASIC, write_flags, info);
}

/* Is it there, with endpoints of whatever kind? */
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

/* Writes that complete when they are placed, where the provider has such writes. */
static int info_get_all(const char *provider, struct fi_info **info)
{
	int ret = info_get_virtual(provider, FI_DELIVERY_COMPLETE, info);

	return ret == -FI_ENODATA ? info_get_virtual(provider, 0, info) : ret;
}

/* Is there such a provider with queues of these sizes? */
static bool has_sizes(const struct fi_info *info, size_t tx, size_t rx)
{
	struct fi_info *hints = hints_new(info->fabric_attr->prov_name,
					  (int)info->domain_attr->mr_mode, 0);
	struct fi_info *found = NULL;

	if (!hints)
		return false;
	hints->tx_attr->size = tx;
	hints->rx_attr->size = rx;
	if (libfabric_getinfo(hints, &found))
		found = NULL;
	libfabric.freeinfo(hints);
	if (found)
		libfabric.freeinfo(found);
	return found;
}

void select_sizes(const struct fi_info *info, size_t *max_tx, size_t *max_rx)
{
	*max_tx = info->tx_attr->size;
	*max_rx = info->rx_attr->size;
	while (*max_tx < MOST_TRANSFERS && has_sizes(info, 2 * *max_tx, 0))
		*max_tx *= 2;
	while (*max_rx < MOST_TRANSFERS && has_sizes(info, 0, 2 * *max_rx))
		*max_rx *= 2;
}

/* ---- choosing ---- */

static bool addr_equal(const struct sockaddr *a, const struct sockaddr *b)
{
	if (!a || !b || a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)b)->sin_addr.s_addr;
	return a->sa_family == AF_INET6 &&
	       !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
		       &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr));
}

static bool addr_is_named(const struct sockaddr *addr, const char *text)
{
	char buffer[SOCKADDR_TEXT_SIZE];

	return addr && !strcmp(sockaddr_text(addr, buffer), text);
}

/* The higher the better; 0: not meant. */
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
	if (!strcmp(info->domain_attr->name, place))
		return 2 + family;
	return 0;
}

static const struct ifaddrs *interface_of(const struct ifaddrs *all, const struct fi_info *info)
{
	while (all && !addr_equal(all->ifa_addr, info->src_addr))
		all = all->ifa_next;
	return all;
}

/* Returns the best, or NULL. An interface that is down is of no use; *@down is its name then. */
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
		log_absent("open %s: libfabric's %s has no interface, address or domain of that "
			   "name",
			   place, provider);
	return selection->any || selection->interface_known ? -ENODEV : -ENOENT;
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
	if (!best)
		return nothing_chosen(selection);
	if (*down) {
		log_error("open %s: the network interface %s is down", selection->params.second,
			  down);
		return -ENODEV;
	}
	*out = libfabric.dupinfo(best);
	return *out ? 0 : -ENOMEM;
}

/* ---- all ---- */

/* A dat.conf may serve many hosts, so it is not told by default that this one lacks a device. */
static int provider_missing(const char *provider)
{
	struct nodes nodes = { .state = NODES_COMPLETE };

	if (provider_exists(provider)) {
		log_error("open: libfabric's %s has no connected endpoints with RMA in the order "
			  "of RDMA (see fi_info -p %s)",
			  provider, provider);
		return -ENODEV;
	}
	if (!strcmp(provider, "verbs"))
		nodes_look(&nodes);
	if (nodes.state == NODES_NO_DEVICE)
		log_absent("open: %s", nodes.text);
	else if (nodes.state != NODES_COMPLETE)
		log_error("open: %s", nodes.text);
	else
		log_absent("open: libfabric has no provider %s, or that finds no device (fi_info "
			   "-l lists its providers)",
			   provider);
	return -ENODEV;
}

int select_info(const char *text, struct fi_info **out)
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
	ret = info_get_all(provider, &list);
	if (ret == -FI_ENODATA)
		return provider_missing(provider);
	if (ret) {
		log_error("open: fi_getinfo of provider %s: %s", provider,
			  libfabric.strerror(-ret));
		return ofi_errno(ret);
	}
	ret = choose(&selection, list, out);
	libfabric.freeinfo(list);
	return ret;
}
