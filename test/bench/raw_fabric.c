/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens and connects, which is not measured. */
#include <string.h>

#include "raw_fabric.h"

static struct fabric_node *nodes;

#define API FI_VERSION(1, 11)

static struct fi_info *hints_make(const char *provider, int mr_mode)
{
	struct fi_info *hints = fi_allocinfo();
	const uint64_t order = FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_WAW | FI_ORDER_RAW |
			       FI_ORDER_RAS;

	MUST(hints);
	hints->caps = FI_MSG | FI_RMA;
	hints->mode = FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->mr_mode = mr_mode;
	hints->tx_attr->msg_order = order;
	hints->rx_attr->msg_order = order;
	hints->fabric_attr->prov_name = strdup(provider);
	MUST(hints->fabric_attr->prov_name);
	return hints;
}

/* The addresses of remote memory are virtual ones, as for DAT. */
static void info_get(struct fabric_node *node, const char *provider, const char *address)
{
	struct fi_info *hints = hints_make(provider, FI_MR_LOCAL | FI_MR_VIRT_ADDR |
							     FI_MR_ALLOCATED | FI_MR_PROV_KEY);
	int ret = fi_getinfo(API, address, "0", FI_SOURCE, hints, &node->info);

	fi_freeinfo(hints);
	if (!ret && node->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
		return;
	hints = hints_make(provider, FI_MR_BASIC);
	MUST(!fi_getinfo(API, address, "0", FI_SOURCE, hints, &node->info));
	fi_freeinfo(hints);
}

static void listen_on(struct fabric_node *node)
{
	MUST(!fi_passive_ep(node->fabric, node->info, &node->listener, NULL));
	MUST(!fi_pep_bind(node->listener, &node->eq->fid, 0));
	MUST(!fi_listen(node->listener));
}

void fabric_open(struct fabric_node *node, const char *provider, const char *address, bool server)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_FD };

	MUST(address);
	info_get(node, provider, address);
	MUST(!fi_fabric(node->info->fabric_attr, &node->fabric, NULL));
	MUST(!fi_domain(node->fabric, node->info, &node->domain, NULL));
	MUST(!fi_eq_open(node->fabric, &attr, &node->eq, NULL));
	if (server)
		listen_on(node);
	node->next = nodes;
	nodes = node;
}

struct fid_cq *fabric_cq(struct fabric_node *node, size_t size)
{
	struct fi_cq_attr attr = {
		.size = size,
		.format = FI_CQ_FORMAT_MSG,
		.wait_obj = FI_WAIT_FD,
	};
	struct fid_cq *cq;

	MUST(!fi_cq_open(node->domain, &attr, &cq, NULL));
	return cq;
}

struct fid_mr *fabric_register(struct fabric_node *node, void *memory, size_t size, uint64_t key)
{
	struct fid_mr *mr;

	MUST(!fi_mr_reg(node->domain, memory, size, FABRIC_ACCESS, 0, key, 0, &mr, NULL));
	return mr;
}

struct fid_ep *fabric_endpoint(struct fabric_node *node, struct fi_info *info, struct fid_cq *tx,
			       struct fid_cq *rx, size_t depth)
{
	struct fid_ep *ep;

	info->tx_attr->size = depth;
	info->rx_attr->size = depth;
	MUST(!fi_endpoint(node->domain, info, &ep, NULL));
	MUST(!fi_ep_bind(ep, &node->eq->fid, 0));
	MUST(!fi_ep_bind(ep, &tx->fid, FI_TRANSMIT));
	MUST(!fi_ep_bind(ep, &rx->fid, FI_RECV));
	MUST(!fi_enable(ep));
	return ep;
}

void fabric_connect(struct fid_ep *ep, struct fabric_node *server)
{
	char address[64];
	size_t size = sizeof(address);

	MUST(!fi_getname(&server->listener->fid, address, &size));
	MUST(!fi_connect(ep, address, NULL, 0));
}

/* A handshake goes on only while the event queues of both ends are read. */
struct fi_info *fabric_expect(struct fabric_node *node, uint32_t event)
{
	struct fi_eq_cm_entry entry;
	ssize_t got;
	uint32_t type;

	for (;;) {
		got = fi_eq_read(node->eq, &type, &entry, sizeof(entry), 0);
		if (got != -FI_EAGAIN)
			break;
		for (struct fabric_node *other = nodes; other; other = other->next)
			(void)fi_eq_read(other->eq, &type, &entry, sizeof(entry), FI_PEEK);
	}
	MUST(got >= (ssize_t)sizeof(entry) && type == event);
	return entry.info;
}
