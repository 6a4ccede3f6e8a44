/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening and closing a domain of libfabric, its limits, its descriptors. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "host/memlock.h"
#include "ofi.h"

const char tp_library_name[] = "libdaplofi";

#define MAX_READS 128u	 /* in flight; libfabric has no limit, the header of a request has */
#define MAX_DEPTH 65536u /* completions of one queue of a device */

/* Without a device only memory limits these: one queue may serve thousands of endpoints. */
#define MAX_SOFT_DEPTH	   (1u << 20)
#define MAX_SOFT_TRANSFERS 32768u /* of one direction of an endpoint */

/* ---- limits ---- */

static unsigned clamp_count(uint64_t value)
{
	return (unsigned)min_u64(value, INT_MAX);
}

/* Finds out from a passive endpoint how many bytes of private data libfabric carries. */
static int data_size_read(struct tp_dev *dev, unsigned *size)
{
	struct fid_pep *pep;
	size_t most = 0, length = sizeof(most);
	int ret = fi_passive_ep(dev->fabric, dev->info, &pep, NULL);

	if (ret)
		return ofi_errno(ret);
	ret = fi_getopt(&pep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &most, &length);
	fi_close(&pep->fid);
	if (ret || most <= WIRE_HEADER_SIZE)
		return ret ? ofi_errno(ret) : -EOPNOTSUPP;
	*size = (unsigned)min_u64(most, 256) - WIRE_HEADER_SIZE;
	return 0;
}

/* libfabric does not tell how long a completion queue of a device can be, so some are tried. */
static unsigned queue_size_find(const struct tp_dev *dev)
{
	struct fi_cq_attr attr = { .size = MAX_DEPTH - 1, .wait_obj = FI_WAIT_NONE };
	struct fid_cq *cq;

	if (dev->soft_queues)
		return MAX_SOFT_DEPTH;
	while (attr.size > 1 && fi_cq_open(dev->domain, &attr, &cq, NULL))
		attr.size /= 2;
	if (attr.size > 1)
		fi_close(&cq->fid);
	return (unsigned)attr.size;
}

/*
 * Finds out whether writes can bring immediate data, as bit TP_CAP_IMMED: a provider must have room
 * for them. If it completes a receive for such a write, as devices do, that is all. Otherwise they
 * follow in a message, with the length of the write. That takes completions which nobody counts.
 */
static unsigned immed_find(struct tp_dev *dev)
{
	const struct fi_info *info = dev->info;
	const size_t room = info->domain_attr->cq_data_size;
	bool can;

	dev->immed_follows = !(info->mode & FI_RX_CQ_DATA);
	if (dev->immed_follows)
		can = room >= sizeof(uint64_t) && dev->soft_queues;
	else
		can = room >= sizeof(uint32_t);
	return can && DAT_EDITION == 2 ? TP_CAP_IMMED : 0;
}

static int attr_from_info(struct tp_dev *dev)
{
	const struct fi_info *info = dev->info;
	const struct fi_domain_attr *domain = info->domain_attr;
	struct tp_attr *attr = &dev->attr;
	unsigned sge = clamp_count(min_u64(info->tx_attr->iov_limit, info->rx_attr->iov_limit));
	unsigned max_cqe = queue_size_find(dev), data = 0;
	int err = data_size_read(dev, &data);

	if (err)
		return err;
	sge = (unsigned)min_u64(sge, TP_MAX_SGE);
	*attr = (struct tp_attr){
		.caps = TP_CAP_SIGNAL_ALL | TP_CAP_DATA_BESIDE | immed_find(dev) |
			(dev->soft_queues ? TP_CAP_CQ_RESIZE : 0) |
			(dev->write_flags & FI_DELIVERY_COMPLETE ? 0 : TP_CAP_WRITE_IS_LOCAL) |
			(info->tx_attr->msg_order & FI_ORDER_WAW ? 0 : TP_CAP_RELAXED_ONLY),
		.max_qp = clamp_count(domain->ep_cnt),
		/* those that libfabric takes no more of wait */
		.max_qp_wr = dev->soft_queues ? MAX_SOFT_TRANSFERS : MAX_DEPTH / 4,
		.max_cq = clamp_count(domain->cq_cnt),
		.max_cqe = max_cqe,
		.max_mr = MR_CHUNK * MR_CHUNKS - 1,
		.max_pd = INT_MAX,
		.max_sge = sge,
		.max_read_sge = sge,
		.max_read_wr_sge = sge,
		.max_read_in = MAX_READS,
		.max_read_out = MAX_READS,
		.max_read_in_total = INT_MAX,
		.max_request_pdata = data,
		.max_reply_pdata = data,
		.max_reject_pdata = data,
		.max_mr_size = SIZE_MAX,
		.max_message = info->ep_attr->max_msg_size,
		.fw_major = FI_MAJOR(info->fabric_attr->prov_version),
		.fw_minor = FI_MINOR(info->fabric_attr->prov_version),
	};
	snprintf(attr->device, sizeof(attr->device), "%s", domain->name);
	snprintf(attr->vendor, sizeof(attr->vendor), "libfabric %s", info->fabric_attr->prov_name);
	sockaddr_copy(&attr->addr, info->src_addr);
	sockaddr_set_port(&attr->addr, 0);
	return 0;
}

/* ---- open and close ---- */

static int domain_open(struct tp_dev *dev)
{
	struct fi_info *info = dev->info;
	const char *call = "fi_fabric";
	int ret = libfabric.fabric(info->fabric_attr, &dev->fabric, dev);

	if (ret)
		goto report;
	call = "fi_domain";
	ret = fi_domain(dev->fabric, info, &dev->domain, dev);
	if (ret)
		goto close_fabric;
	return 0;
close_fabric:
	fi_close(&dev->fabric->fid);
report:
	log_error("open %s: %s of libfabric's %s: %s", info->domain_attr->name, call,
		  info->fabric_attr->prov_name, libfabric.strerror(-ret));
	return ofi_errno(ret);
}

static int descriptors_open(struct tp_dev *dev)
{
	int err;

	dev->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (dev->epoll < 0)
		return -errno;
	dev->ready_fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
	if (dev->ready_fd >= 0)
		return 0;
	err = -errno;
	close(dev->epoll);
	return err;
}

static int dev_create(struct fi_info *info, bool zero_based, struct ia *ia, struct tp_dev **out)
{
	const bool tcp = !strcmp(info->fabric_attr->prov_name, "tcp");
	struct tp_dev *dev = calloc(1, sizeof(*dev));
	int err;

	if (!dev)
		return -ENOMEM;
	dev->ia = ia;
	dev->info = info;
	dev->next_visit = TP_NEVER;
	dev->write_flags = FI_COMPLETION | (info->tx_attr->op_flags & FI_DELIVERY_COMPLETE);
	if (env_delivered_sends())
		dev->send_flags = info->tx_attr->op_flags & FI_DELIVERY_COMPLETE;
	dev->ordered_reads = info->tx_attr->msg_order & FI_ORDER_RAR;
	dev->writes_in_parts = info->tx_attr->rma_iov_limit > 1;
	dev->provider_keys = info->domain_attr->mr_mode == FI_MR_BASIC ||
			     info->domain_attr->mr_mode & FI_MR_PROV_KEY;
	dev->soft_queues = info->ep_attr->protocol == FI_PROTO_SOCK_TCP;
	dev->pins_pages = info->domain_attr->mr_mode & FI_MR_ALLOCATED;
	dev->arming_looks = tcp && FI_MAJOR(info->fabric_attr->prov_version) < TCP_1_18;
	dev->shares_progress = tcp && !dev->arming_looks;
	hints_limits(info); /* no endpoint of the domain can have more */
	mutex_init(&dev->cqs_lock, RANK_CQS);
	mutex_init(&dev->mr_eq_lock, RANK_MR_EVENTS);
	spin_init(&dev->mrs_lock, RANK_MRS);
	spin_init(&dev->due_lock, RANK_DUE);
	spin_init(&dev->srx_lock, RANK_SRX);
	err = descriptors_open(dev);
	if (err)
		goto free_dev;
	err = domain_open(dev);
	if (err)
		goto close_descriptors;
	err = attr_from_info(dev);
	dev->attr.caps |= zero_based ? TP_CAP_ZERO_BASED : 0;
	if (!err)
		err = mem_open(dev);
	if (!err)
		err = eq_open(dev);
	if (err)
		goto close_domain;
	srx_probe(dev);
	if (dev->pins_pages)
		memlock_check();
	*out = dev;
	return 0;
close_domain:
	fi_close(&dev->domain->fid);
	mem_close(dev);
	fi_close(&dev->fabric->fid);
close_descriptors:
	close(dev->ready_fd);
	close(dev->epoll);
free_dev:
	free(dev);
	return err;
}

/*
 * Finds the info that a domain is opened with. A DAT triplet has a virtual address. A provider that
 * counts addresses from the beginning of a region may take virtual ones all the same, with keys of
 * our choice; if not, it is used in the older mode, which has them, but keys of its own.
 * *zero_based becomes true if it is known to have regions that begin at 0, too.
 */
static int info_find(const char *params, struct fi_info **info, bool *zero_based)
{
	int err = select_info(params, false, info);

	if (!err && (*info)->domain_attr->mr_mode & (FI_MR_ALLOCATED | FI_MR_BASIC))
		libfabric_prevent_cache();
	if (err || (*info)->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC))
		return err;
	(*info)->domain_attr->mr_mode |= FI_MR_VIRT_ADDR;
	if (verify_virtual(*info, zero_based))
		return 0;
	libfabric.freeinfo(*info);
	libfabric_prevent_cache();
	return select_info(params, true, info);
}

int tp_dev_open(const char *params, struct ia *ia, struct tp_dev **dev)
{
	bool zero_based = false;
	struct fi_info *info;
	int err = libfabric_load();

	if (err)
		return err;
	err = info_find(params, &info, &zero_based);
	if (err)
		return err;
	err = dev_create(info, zero_based, ia, dev);
	if (err)
		libfabric.freeinfo(info);
	else
		env_check();
	return err;
}

void tp_dev_close(struct tp_dev *dev)
{
	int ret;

	eq_close(dev);
	ret = fi_close(&dev->domain->fid);
	if (ret)
		log_error("%s: fi_close of the domain: %s", dev->attr.device,
			  libfabric.strerror(-ret));
	mem_close(dev);
	fi_close(&dev->fabric->fid);
	libfabric.freeinfo(dev->info);
	close(dev->ready_fd);
	close(dev->epoll);
	free(dev);
}

void tp_dev_after_fork(struct tp_dev *dev)
{
	cm_after_fork(dev);
}

/*
 * libfabric's tcp has such a lock only where it opens and closes. Its verbs calls librdmacm, which
 * has one in other calls, too, that nobody counts.
 */
bool tp_was_in_call(void)
{
	return false;
}

const struct tp_attr *tp_dev_attr(const struct tp_dev *dev)
{
	return &dev->attr;
}

/* ---- the service thread ---- */

unsigned tp_dev_fds(const struct tp_dev *dev, int fds[TP_DEV_FDS])
{
	fds[0] = dev->epoll;
	return 1;
}

uint64_t tp_dev_deadline(const struct tp_dev *dev)
{
	return dev->next_visit;
}

bool tp_dev_busy_polls(const struct tp_dev *dev)
{
	return dev->busy_polls;
}

bool tp_dev_progress(struct tp_dev *dev, unsigned ready)
{
	up_assert_locked(dev->ia);
	return progress_run(dev, ready & 1, ready & TP_ONLY_READY);
}
