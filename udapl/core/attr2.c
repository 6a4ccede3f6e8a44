/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What dat_ia_query tells in DAT 2.0 alone, or differently from DAT 1.2: above all the named
 * attributes, which programs look up by name and compare as text.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dat2/dat_ib_extensions.h>

#include "core.h"

enum {
	PROVIDER_NAME,
	DEVICE_NAME,
	CONNECTIVITY,
	RDMA_READ,
	NODE_GUID,
	GID,
	MTU,
	PORT_STATUS,
	PORT_NUMBER,
	EXTENSION_INTERFACE,
	FETCH_AND_ADD,
	CMP_AND_SWAP,
	IMMED_DATA,
	DATAGRAMS,
	COUNTERS,
	ON_DEMAND,
	OWN, /* the last one, because not every transport has it */
	NAMED_ATTRS,
};

/* Of an IA, from its open to its close: a consumer has pointers to it. */
struct named_attrs {
	DAT_NAMED_ATTR attrs[NAMED_ATTRS];
	char guid[sizeof("0000:0000:0000:0000")];
	char gid[sizeof("0000:0000:0000:0000:0000:0000:0000:0000")];
	char mtu[sizeof("4294967295")];
	char port[sizeof("4294967295")];
	char own[sizeof(((struct tp_port *)0)->own_value)];
};

/* Writes @n groups of four digits. */
static void print_groups(char *text, size_t size, const uint8_t *bytes, unsigned n)
{
	size_t at = 0;

	for (unsigned i = 0; i < n && at < size; i++)
		at += (size_t)snprintf(text + at, size - at, "%s%02x%02x", i ? ":" : "",
				       bytes[2 * i], bytes[2 * i + 1]);
}

static const char *truth(bool value)
{
	return value ? "TRUE" : "FALSE";
}

/* Of the registry, though no header declares it. */
DAT_RETURN dats_get_ia_handle(DAT_IA_HANDLE handle, DAT_IA_HANDLE *other);

DAT_IA_HANDLE attr_ia_handle(struct ia *ia)
{
	DAT_IA_HANDLE handle;

	return dats_get_ia_handle(ia, &handle) == DAT_SUCCESS ? handle : ia;
}

/* Says whether any operation of dat_extension_op works that is no query. */
static bool has_extensions(const struct ia *ia)
{
	return ia->attr->caps & (TP_CAP_IMMED | TP_CAP_ATOMIC) || ia->attr->max_datagram;
}

int attr_own_open(struct ia *ia)
{
	struct named_attrs *named = calloc(1, sizeof(*named));
	const unsigned caps = ia->attr->caps;
	struct tp_port port;

	if (!named)
		return -ENOMEM;
	tp_dev_port(ia->dev, &port);
	print_groups(named->guid, sizeof(named->guid), port.node_guid, sizeof(port.node_guid) / 2);
	print_groups(named->gid, sizeof(named->gid), port.gid, sizeof(port.gid) / 2);
	snprintf(named->mtu, sizeof(named->mtu), "%u", port.mtu);
	snprintf(named->port, sizeof(named->port), "%u", port.number);
	memcpy(named->own, port.own_value, sizeof(named->own));
	const DAT_NAMED_ATTR attrs[NAMED_ATTRS] = {
		[PROVIDER_NAME] = { "DAT_IB_PROVIDER_NAME", port.provider },
		[DEVICE_NAME] = { "DAT_IB_DEVICE_NAME", ia->attr->device },
		[CONNECTIVITY] = { "DAT_IB_CONNECTIVITY_MODE", "DIRECT" },
		[RDMA_READ] = { "DAT_IB_RDMA_READ", truth(ia->attr->max_read_out) },
		[NODE_GUID] = { "DAT_IB_NODE_GUID", named->guid },
		[GID] = { "DAT_IB_GID", named->gid },
		[MTU] = { "DAT_IB_TRANSPORT_MTU", named->mtu },
		[PORT_STATUS] = { "DAT_IB_PORT_STATUS", port.state },
		[PORT_NUMBER] = { "DAT_IB_PORT_NUMBER", named->port },
		[EXTENSION_INTERFACE] = { "DAT_EXTENSION_INTERFACE", truth(has_extensions(ia)) },
		[FETCH_AND_ADD] = { DAT_IB_ATTR_FETCH_AND_ADD, truth(caps & TP_CAP_ATOMIC) },
		[CMP_AND_SWAP] = { DAT_IB_ATTR_CMP_AND_SWAP, truth(caps & TP_CAP_ATOMIC) },
		[IMMED_DATA] = { DAT_IB_ATTR_IMMED_DATA, truth(caps & TP_CAP_IMMED) },
		[DATAGRAMS] = { DAT_IB_ATTR_UD, truth(ia->attr->max_datagram) },
		[COUNTERS] = { DAT_IB_ATTR_COUNTERS, truth(COUNTS_FAST_PATH) },
		[ON_DEMAND] = { DAT_IB_ATTR_ON_DEMAND, truth(caps & TP_CAP_ON_DEMAND) },
		[OWN] = { port.own_name, named->own },
	};
	for (unsigned i = 0; i < NAMED_ATTRS; i++)
		named->attrs[i] = attrs[i];
	ia->named = named;
	return 0;
}

void attr_own_close(struct ia *ia)
{
	free(ia->named);
}

void attr_ia_own(const struct ia *ia, DAT_IA_ATTR *attr)
{
	snprintf(attr->adapter_name, sizeof(attr->adapter_name), "%s", ia->attr->device);
	attr->max_lmr_block_size = (DAT_SEG_LENGTH)min_u64(ia->attr->max_mr_size, UINT32_MAX);
	attr->zb_supported = (ia->attr->caps & TP_CAP_ZERO_BASED) != 0;
	attr->extension_supported = has_extensions(ia) ? DAT_EXTENSION_IB : DAT_EXTENSION_NONE;
	attr->extension_version = has_extensions(ia) ? DAT_IB_EXTENSION_VERSION : 0;
}

void attr_provider_own(const struct ia *ia, DAT_PROVIDER_ATTR *attr)
{
	struct tp_port port;

	snprintf(attr->provider_name, sizeof(attr->provider_name), "%s",
		 ia->provider->info.ia_name);
	attr->provider_version_major = 2;
	attr->provider_version_minor = 0;
	attr->rdma_read_lmr_rmr_context_exposure = (ia->attr->caps & TP_CAP_READ_NEEDS_WRITE) != 0;
	attr->rmr_scope_supported = ia->attr->caps & TP_CAP_QP_WINDOWS ? DAT_RMR_SCOPE_ANY
								       : DAT_RMR_SCOPE_PZ;
	attr->is_signal_safe = DAT_FALSE;
	attr->ha_supported = DAT_FALSE;
	attr->ha_loadbalancing = DAT_HA_LB_NONE;
	tp_dev_port(ia->dev, &port); /* its state may have changed since the open */
	/* another thread may read or write it */
	__atomic_store_n(&ia->named->attrs[PORT_STATUS].value, port.state, __ATOMIC_RELAXED);
	attr->num_provider_specific_attr = ia->named->attrs[OWN].name ? NAMED_ATTRS : OWN;
	attr->provider_specific_attr = ia->named->attrs;
}
