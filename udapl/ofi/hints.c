/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is asked of a libfabric provider: connected endpoints with RMA, the order of RDMA, and
 * memory regions that one registration and a key of 32 bits can describe.
 *
 * Of the bits of mr_mode, each of which is something that a provider may want:
 *	LOCAL		Each segment is passed with the descriptor of its region.
 *	VIRT_ADDR	A DAT triplet has a virtual address; verify.c makes one that the provider
 *			takes where it does not want that.
 *	ALLOCATED	mem.c populates the pages before it registers them.
 *	PROV_KEY	The keys are taken as they come. Without it they are ours, and random.
 *	RMA_EVENT	No region has a counter of events, so none needs the flag that goes with it.
 *	BASIC		VIRT_ADDR, ALLOCATED and PROV_KEY under their older name.
 * The others can't be had, and an IA on such a provider is refused:
 *	RAW		Its key and a base address do not fit into a DAT context.
 *	ENDPOINT	A DAT region serves all endpoints of its protection zone, those that are
 *			connected later among them, under one context; such a region serves one.
 *	MMU_NOTIFY	Nobody tells this library when pages change.
 * Nor can one that wants memory of ours for each transfer (FI_CONTEXT, FI_CONTEXT2): none with
 * connected endpoints does, and it would double what a transfer takes.
 */
#include <stdlib.h>

#include "ofi.h"

#define MOST_TRANSFERS 32768 /* in flight, that are asked for */

#define MODES_SERVED                                                                               \
	(FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_RMA_EVENT)

static const struct {
	int bit;
	const char *why;
} modes_refused[] = {
	{ FI_MR_RAW, "raw keys (FI_MR_RAW), which a DAT context of 32 bits can't hold" },
	{ FI_MR_ENDPOINT, "a registration for each endpoint (FI_MR_ENDPOINT), and a DAT region "
			  "has one" },
	{ FI_MR_MMU_NOTIFY, "to be told when pages change (FI_MR_MMU_NOTIFY)" },
};

/* A later message is not seen before an earlier one, nor before an earlier write. */
#define ORDERS (FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_RAW | FI_ORDER_RAS)

/*
 * From the best to what will do: writes that complete when they are placed, and that are placed in
 * order. Without the former RDMA writes are said to complete earlier; without the latter only
 * memory can be served that needs no order.
 */
static const struct wish {
	uint64_t write_flags, orders;
} wishes[] = {
	{ FI_DELIVERY_COMPLETE, ORDERS | FI_ORDER_WAW },
	{ 0, ORDERS | FI_ORDER_WAW },
	{ FI_DELIVERY_COMPLETE, ORDERS },
	{ 0, ORDERS },
};

static struct fi_info *hints_new(const char *provider, int mr_mode, const struct wish *wish)
{
	struct fi_info *hints = libfabric.dupinfo(NULL);

	if (!hints)
		return NULL;
	hints->caps = FI_MSG | FI_RMA;
	hints->mode = FI_RX_CQ_DATA;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->mr_mode = mr_mode;
	hints->tx_attr->msg_order = wish->orders;
	hints->rx_attr->msg_order = wish->orders;
	hints->tx_attr->op_flags = wish->write_flags;
	hints->fabric_attr->prov_name = strdup(provider);
	if (hints->fabric_attr->prov_name)
		return hints;
	libfabric.freeinfo(hints);
	return NULL;
}

static int info_get(const char *provider, int mr_mode, const struct wish *wish,
		    struct fi_info **info)
{
	struct fi_info *hints = hints_new(provider, mr_mode, wish);
	int ret;

	if (!hints)
		return -FI_ENOMEM;
	ret = libfabric_getinfo(hints, info);
	libfabric.freeinfo(hints);
	return ret;
}

/* ---- the provider ---- */

/* Logs what the provider wants of memory regions, if it would be there but for that. */
static int refusal_find(const char *provider)
{
	const struct wish *least = &wishes[ARRAY_SIZE(wishes) - 1];
	struct fi_info *info;
	int all = MODES_SERVED, mode;
	int ret;

	for (unsigned i = 0; i < ARRAY_SIZE(modes_refused); i++)
		all |= modes_refused[i].bit;
	ret = info_get(provider, all, least, &info);
	if (ret)
		return ret;
	mode = info->domain_attr->mr_mode;
	libfabric.freeinfo(info);
	for (unsigned i = 0; i < ARRAY_SIZE(modes_refused); i++)
		if (mode & modes_refused[i].bit)
			log_error("open: libfabric's %s wants %s", provider, modes_refused[i].why);
	return -EOPNOTSUPP;
}

int hints_infos(const char *provider, bool basic, struct fi_info **infos)
{
	int ret = -FI_ENODATA;

	for (unsigned i = 0; i < ARRAY_SIZE(wishes) && ret == -FI_ENODATA; i++) {
		if (!basic)
			ret = info_get(provider, MODES_SERVED, &wishes[i], infos);
		if (ret == -FI_ENODATA)
			ret = info_get(provider, FI_MR_BASIC, &wishes[i], infos);
	}
	if (ret != -FI_ENODATA)
		return ret;
	if (!basic)
		return refusal_find(provider);
	log_error("open: libfabric's %s counts addresses from the beginning of a region", provider);
	return -EOPNOTSUPP;
}

/* ---- limits ---- */

/* Is there such a provider with queues of these sizes, and so many segments? 0 stands for any. */
static bool has_limits(const struct fi_info *info, size_t tx, size_t rx, size_t segments)
{
	struct fi_info *hints = hints_new(info->fabric_attr->prov_name, info->domain_attr->mr_mode,
					  &wishes[ARRAY_SIZE(wishes) - 1]);
	struct fi_info *found = NULL;

	if (!hints)
		return false;
	hints->tx_attr->size = tx;
	hints->rx_attr->size = rx;
	hints->tx_attr->iov_limit = segments;
	hints->rx_attr->iov_limit = segments;
	if (libfabric_getinfo(hints, &found))
		found = NULL;
	libfabric.freeinfo(hints);
	if (found)
		libfabric.freeinfo(found);
	return found;
}

/*
 * Finds the largest size of a queue, from the default one. Many providers have all that is useful,
 * and each question takes time, so that is asked for first.
 */
static size_t size_find(const struct fi_info *info, size_t size, bool tx)
{
	if (has_limits(info, tx ? MOST_TRANSFERS : 0, tx ? 0 : MOST_TRANSFERS, 0))
		return MOST_TRANSFERS;
	while (size < MOST_TRANSFERS && has_limits(info, tx ? 2 * size : 0, tx ? 0 : 2 * size, 0))
		size *= 2;
	return size;
}

static size_t segments_find(const struct fi_info *info)
{
	size_t most = min_u64(info->tx_attr->iov_limit, info->rx_attr->iov_limit);

	for (size_t segments = TP_MAX_SGE; segments > most; segments /= 2)
		if (has_limits(info, 0, 0, segments))
			return segments;
	return most;
}

void hints_limits(struct fi_info *info)
{
	size_t tx = size_find(info, info->tx_attr->size, true);
	size_t rx = size_find(info, info->rx_attr->size, false);
	size_t segments = segments_find(info);

	info->tx_attr->size = tx;
	info->rx_attr->size = rx;
	info->tx_attr->iov_limit = segments;
	info->rx_attr->iov_limit = segments;
}
