/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_getinfo: what the scripted provider says of itself, and whether it meets the hints. */
#include <arpa/inet.h>
#include <rdma/fi_ext.h>

#include "impl.h"

/* ---- infos ---- */

static void *part_copy(const void *part, size_t size)
{
	void *copy = calloc(1, size);

	ff_require(copy, "no memory for an info");
	if (part)
		memcpy(copy, part, size);
	return copy;
}

static char *text_copy(const char *text)
{
	return text ? part_copy(text, strlen(text) + 1) : NULL;
}

/* Counted, and without its successor. */
struct fi_info *ff_info_copy(const struct fi_info *info)
{
	static const struct fi_info nothing;
	struct fi_info *copy;

	if (!info)
		info = &nothing;
	copy = part_copy(info, sizeof(*copy));
	copy->next = NULL;
	copy->src_addr = info->src_addr ? part_copy(info->src_addr, info->src_addrlen) : NULL;
	copy->dest_addr = info->dest_addr ? part_copy(info->dest_addr, info->dest_addrlen) : NULL;
	copy->tx_attr = part_copy(info->tx_attr, sizeof(*copy->tx_attr));
	copy->rx_attr = part_copy(info->rx_attr, sizeof(*copy->rx_attr));
	copy->ep_attr = part_copy(info->ep_attr, sizeof(*copy->ep_attr));
	copy->domain_attr = part_copy(info->domain_attr, sizeof(*copy->domain_attr));
	copy->domain_attr->name = text_copy(copy->domain_attr->name);
	copy->fabric_attr = part_copy(info->fabric_attr, sizeof(*copy->fabric_attr));
	copy->fabric_attr->name = text_copy(copy->fabric_attr->name);
	copy->fabric_attr->prov_name = text_copy(copy->fabric_attr->prov_name);
	ff_alive_add(FF_INFO, 1);
	return copy;
}

void ff_info_free(struct fi_info *info)
{
	free(info->src_addr);
	free(info->dest_addr);
	free(info->tx_attr);
	free(info->rx_attr);
	free(info->ep_attr);
	free(info->domain_attr->name);
	free(info->domain_attr);
	free(info->fabric_attr->name);
	free(info->fabric_attr->prov_name);
	free(info->fabric_attr);
	free(info);
	ff_alive_add(FF_INFO, -1);
}

struct fi_info *ff_dupinfo(const struct fi_info *info)
{
	struct fi_info *copy;

	if (ff_enter(CALL_fi_dupinfo))
		return NULL;
	copy = ff_info_copy(info);
	ff_unlock();
	return copy;
}

/* As the real one it takes NULL. */
void ff_freeinfo(struct fi_info *info)
{
	ff_lock();
	while (info) {
		struct fi_info *next = info->next;

		for (const struct ff_pep *pep = ff.peps; pep; pep = pep->next)
			ff_require(pep->given != info, "an info of a passive endpoint was freed");
		ff_info_free(info);
		info = next;
	}
	ff_unlock();
}

const char *ff_strerror(int number)
{
	static const struct {
		int number;
		const char *text;
	} texts[] = {
		{ FI_ENODATA, "No data available" },
		{ FI_ENOKEY, "Required key not available" },
		{ FI_ENOEQ, "Missing or unavailable event queue" },
	};

	for (unsigned i = 0; i < COUNT_OF(texts); i++)
		if (texts[i].number == number)
			return texts[i].text;
	return number < FI_ERRNO_OFFSET ? strerror(number) : "Unspecified error";
}

/* ---- the monitor of memory ---- */

#ifdef HAVE_FID_MEM_MONITOR
static struct fid_mem_monitor *imported;

bool ff_memory_is_monitored(void)
{
	return !imported || imported->export_ops->start(imported) == 0;
}

static int monitor_import(struct fid *fid, struct fid *monitor, uint64_t flags)
{
	(void)fid;
	ff_require(monitor->fclass == FI_CLASS_MEM_MONITOR && !flags, "no monitor of memory");
	if (ff.provider.monitored || imported)
		return -FI_EBUSY;
	imported = (struct fid_mem_monitor *)(void *)monitor;
	return 0;
}
#else
bool ff_memory_is_monitored(void)
{
	return true;
}
#endif

static int opened_close(struct fid *fid)
{
	(void)fid;
	return 0;
}

int ff_open(uint32_t version, const char *name, void *attr, size_t size, uint64_t flags,
	    struct fid **fid, void *context)
{
	static struct fi_ops ops = {
		.size = sizeof(ops),
		.close = opened_close,
#ifdef HAVE_FID_MEM_MONITOR
		.bind = monitor_import,
#endif
	};
	static struct fid cache = { .ops = &ops };

	(void)version, (void)context;
	ff_require(!strcmp(name, "mr_cache") && !attr && !size && !flags, "only that is opened");
	if (ff.provider.old)
		return -FI_ENOSYS;
	*fid = &cache;
	return 0;
}

/* ---- the hints ---- */

/* The mode that the provider answers with; -1: it can't serve one that knows @asked only. */
static int mode_granted(int asked)
{
	const struct ff_provider *provider = &ff.provider;

	if (asked == FI_MR_BASIC)
		return provider->basic || provider->basic_only ? FI_MR_BASIC : -1;
	if (provider->basic_only || provider->mr_mode & ~asked)
		return -1;
	return provider->mr_mode;
}

static bool hints_are_met(const struct fi_info *hints)
{
	const struct ff_provider *provider = &ff.provider;
	const char *name = hints->fabric_attr->prov_name;

	return !(name && strcmp(name, provider->name)) && !provider->no_device &&
	       !(hints->caps & ~provider->caps) && !(provider->mode & ~hints->mode) &&
	       (hints->ep_attr->type == FI_EP_UNSPEC || hints->ep_attr->type == FI_EP_MSG) &&
	       !(hints->tx_attr->msg_order & ~provider->orders) &&
	       !(hints->rx_attr->msg_order & ~provider->orders) &&
	       !(hints->tx_attr->op_flags & ~(provider->op_flags | FI_COMPLETION)) &&
	       hints->tx_attr->size <= provider->tx_size &&
	       hints->rx_attr->size <= provider->rx_size &&
	       hints->tx_attr->iov_limit <= provider->iov_limit &&
	       hints->rx_attr->iov_limit <= provider->iov_limit &&
	       mode_granted(hints->domain_attr->mr_mode) >= 0;
}

static struct fi_info *info_of_provider(const struct fi_info *hints)
{
	const struct ff_provider *provider = &ff.provider;
	const struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(provider->elsewhere ? 0xc0000201 : INADDR_LOOPBACK),
	};
	struct fi_info *info = ff_info_copy(NULL);

	info->caps = provider->caps;
	info->mode = provider->mode;
	info->addr_format = FI_SOCKADDR_IN;
	info->src_addrlen = sizeof(address);
	info->src_addr = part_copy(&address, sizeof(address));
	info->ep_attr->type = FI_EP_MSG;
	info->ep_attr->protocol = provider->protocol;
	info->ep_attr->max_msg_size = SIZE_MAX;
	info->ep_attr->max_order_waw_size = SIZE_MAX;
	info->tx_attr->iov_limit = provider->iov_limit;
	info->tx_attr->rma_iov_limit = provider->rma_iov_limit;
	info->rx_attr->iov_limit = provider->iov_limit;
	info->tx_attr->size = hints->tx_attr->size ? hints->tx_attr->size : 256;
	info->rx_attr->size = hints->rx_attr->size ? hints->rx_attr->size : 256;
	info->tx_attr->msg_order = provider->orders;
	info->rx_attr->msg_order = provider->orders;
	info->tx_attr->op_flags = hints->tx_attr->op_flags;
	info->tx_attr->inject_size = 64;
	info->domain_attr->name = text_copy(provider->elsewhere ? provider->elsewhere : "ff0");
	info->domain_attr->threading = FI_THREAD_SAFE;
	info->domain_attr->mr_mode = mode_granted(hints->domain_attr->mr_mode);
	info->domain_attr->mr_key_size = provider->mr_key_size;
	info->domain_attr->cq_data_size = provider->cq_data_size;
	info->domain_attr->cq_cnt = 256;
	info->domain_attr->ep_cnt = 8192;
	info->domain_attr->mr_iov_limit = 1;
	info->fabric_attr->name = text_copy("127.0.0.1/32");
	info->fabric_attr->prov_name = text_copy(provider->name);
	info->fabric_attr->prov_version = FI_VERSION(1, 17);
	return info;
}

static struct fi_info *infos_of_provider(const struct fi_info *hints)
{
	struct fi_info *info = info_of_provider(hints), *first;

	if (!ff.provider.iwarp_too)
		return info;
	first = ff_info_copy(info);
	first->next = info;
	first->ep_attr->protocol = FI_PROTO_IWARP;
	free(first->domain_attr->name);
	first->domain_attr->name = text_copy("iw0");
	return first;
}

/* With FI_PROV_ATTR_ONLY only the name of the provider, which needs no device. */
static int getinfo_locked(uint64_t flags, const struct fi_info *hints, struct fi_info **info)
{
	struct fi_info *nothing;

	if (flags & FI_PROV_ATTR_ONLY) {
		*info = ff_info_copy(NULL);
		(*info)->fabric_attr->prov_name = text_copy(ff.provider.name);
		return 0;
	}
	nothing = ff_info_copy(NULL);
	if (!hints)
		hints = nothing;
	ff.seen.hint_mode = hints->domain_attr->mr_mode;
	ff.seen.hint_orders = hints->tx_attr->msg_order;
	*info = hints_are_met(hints) ? infos_of_provider(hints) : NULL;
	ff_info_free(nothing);
	return *info ? 0 : -FI_ENODATA;
}

int ff_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
	       const struct fi_info *hints, struct fi_info **info)
{
	int ret = ff_enter(CALL_fi_getinfo);

	(void)node, (void)service;
	if (ret)
		return -ret;
	ret = FI_MAJOR(version) == 1 && FI_MINOR(version) <= 17 ? getinfo_locked(flags, hints, info)
								: -FI_ENOSYS;
	ff_unlock();
	return ret;
}
