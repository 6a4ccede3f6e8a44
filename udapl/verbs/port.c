/* SPDX-License-Identifier: BSD-2-Clause */
/* What DAT 2.0 tells of the port of a device. */
#include <netinet/in.h>
#include <string.h>

#include "verbs.h"

/* Writes an IP address as a GID of RoCE has it. Returns false of other addresses. */
static bool gid_of_address(const struct sockaddr_storage *addr, union ibv_gid *gid)
{
	static const uint8_t mapped[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

	switch (addr->ss_family) {
	case AF_INET:
		memcpy(gid->raw, mapped, sizeof(mapped));
		memcpy(gid->raw + sizeof(mapped), &((const struct sockaddr_in *)addr)->sin_addr,
		       sizeof(struct in_addr));
		return true;
	case AF_INET6:
		memcpy(gid->raw, &((const struct sockaddr_in6 *)addr)->sin6_addr, sizeof(gid->raw));
		return true;
	default:
		return false;
	}
}

/* The GID of the IA's address if the port has that; else its first one. */
static void gid_find(const struct tp_dev *dev, int gids, union ibv_gid *gid)
{
	union ibv_gid wanted, found;

	memset(gid, 0, sizeof(*gid));
	if (gid_of_address(&dev->attr.addr, &wanted))
		for (int i = 0; i < gids; i++)
			if (!ibv_query_gid(dev->ibv, dev->port, i, &found) &&
			    !memcmp(found.raw, wanted.raw, sizeof(found.raw))) {
				*gid = found;
				return;
			}
	if (gids && !ibv_query_gid(dev->ibv, dev->port, 0, &found))
		*gid = found;
}

static const char *state_name(enum ibv_port_state state)
{
	static const char *const names[] = {
		[IBV_PORT_NOP] = "NOP",	      [IBV_PORT_DOWN] = "DOWN",
		[IBV_PORT_INIT] = "INIT",     [IBV_PORT_ARMED] = "ARMED",
		[IBV_PORT_ACTIVE] = "ACTIVE", [IBV_PORT_ACTIVE_DEFER] = "DEFER",
	};

	return (unsigned)state < ARRAY_SIZE(names) ? names[state] : "UNKNOWN";
}

unsigned mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

void tp_dev_port(const struct tp_dev *dev, struct tp_port *port)
{
	struct ibv_port_attr attr;
	union ibv_gid gid;
	uint64_t guid = ibv_get_device_guid(dev->ibv->device);

	*port = (struct tp_port){ .provider = "CMA", .state = "UNKNOWN", .number = dev->port };
	memcpy(port->node_guid, &guid, sizeof(port->node_guid));
	if (ibv_query_port(dev->ibv, dev->port, &attr))
		return;
	port->state = state_name(attr.state);
	port->mtu = mtu_bytes(attr.active_mtu);
	gid_find(dev, attr.gid_tbl_len, &gid);
	memcpy(port->gid, gid.raw, sizeof(port->gid));
}
