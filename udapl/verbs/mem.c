/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains and memory regions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/maps.h"
#include "host/memlock.h"
#include "host/nodes.h"
#include "host/readable.h"
#include "verbs.h"

/*
 * Says whether some of the memory is not mapped: with fork support ibv_reg_mr reports that as
 * ENOMEM, the errno of madvise(2), and not as EFAULT.
 */
static bool is_unmapped(const void *address, size_t size)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)address & ~(page - 1);

	return msync((void *)start, (uintptr_t)address + size - start, MS_ASYNC) && errno == ENOMEM;
}

/* Logs why a registration has failed, and returns the negative errno. */
static COLD int reg_failed(const struct tp_dev *dev, const void *address, size_t size, int err)
{
	if (err == ENOMEM && is_unmapped(address, size))
		err = EFAULT;
	memlock_name_cause(&dev->attr, "ibv_reg_mr", address, size, err);
	return -err;
}

int tp_pd_create(struct tp_dev *dev, struct tp_pd **pd_out)
{
	struct tp_pd *pd = calloc(1, sizeof(*pd));
	int err;

	if (!pd)
		return -ENOMEM;
	pd->holders = 1;
	pd->dev = dev;
	spin_init(&pd->qps_lock, RANK_PD_QPS);
	errno = 0;
	pd->ibv = ibv_alloc_pd(dev->ibv);
	if (!pd->ibv) {
		err = refusal();
		free(pd);
		return err;
	}
	dev->holders++;
	*pd_out = pd;
	return 0;
}

void pd_put(struct tp_pd *pd)
{
	int err;

	if (--pd->holders)
		return;
	err = ibv_dealloc_pd(pd->ibv);
	if (err)
		log_error("%s: ibv_dealloc_pd: %s", pd->dev->attr.device, strerror(err));
	dev_put(pd->dev);
	free(pd);
}

void tp_pd_destroy(struct tp_pd *pd)
{
	pd_put(pd);
}

/* ---- the queue pairs of a domain ---- */

static void qp_end_inline_locked(struct tp_qp *qp)
{
	assert_locked(&qp->pd->qps_lock);
	hot_write(qp->max_inline, 0);
}

void pd_join(struct tp_qp *qp)
{
	struct tp_pd *pd = qp->pd;

	spin_lock(&pd->qps_lock);
	qp->next_of_pd = pd->qps;
	qp->back_of_pd = &pd->qps;
	if (qp->next_of_pd)
		qp->next_of_pd->back_of_pd = &qp->next_of_pd;
	pd->qps = qp;
	if (pd->no_inline)
		qp_end_inline_locked(qp);
	spin_unlock(&pd->qps_lock);
}

void pd_part(struct tp_qp *qp)
{
	spin_lock(&qp->pd->qps_lock);
	*qp->back_of_pd = qp->next_of_pd;
	if (qp->next_of_pd)
		qp->next_of_pd->back_of_pd = qp->back_of_pd;
	spin_unlock(&qp->pd->qps_lock);
}

/*
 * What is sent inline is copied by libibverbs from the addresses of the segments. So from now on
 * queue pairs of the domain send nothing inline: it has a region for which that does not do.
 */
static COLD void pd_end_inline(struct tp_pd *pd)
{
	spin_lock(&pd->qps_lock);
	pd->no_inline = true;
	for (struct tp_qp *qp = pd->qps; qp; qp = qp->next_of_pd)
		qp_end_inline_locked(qp);
	spin_unlock(&pd->qps_lock);
}

/* ---- regions ---- */

/*
 * Returns the IBV_ACCESS_* for the privileges. Either write privilege sets local write, and that of
 * atomic operations does, because devices refuse them without it. Local read needs no flag.
 */
static unsigned access_of(DAT_MEM_PRIV_FLAGS priv)
{
	unsigned access = 0;

	if (priv & (DAT_MEM_PRIV_WRITE_FLAG | TP_PRIV_ATOMIC))
		access |= IBV_ACCESS_LOCAL_WRITE;
	if (priv & DAT_MEM_PRIV_REMOTE_READ_FLAG)
		access |= IBV_ACCESS_REMOTE_READ;
	if (priv & DAT_MEM_PRIV_REMOTE_WRITE_FLAG)
		access |= IBV_ACCESS_REMOTE_WRITE;
	if (priv & TP_PRIV_ATOMIC)
		access |= IBV_ACCESS_REMOTE_ATOMIC;
	return access;
}

/* Returns whether a module is there that lets devices register the memory of GPUs. */
static bool host_has_gpus(void)
{
	static const char *const modules[] = { "nvidia_peermem", "nv_peer_mem", "amdgpu" };
	bool has = false;

	for (size_t i = 0; i < ARRAY_SIZE(modules); i++)
		has |= nodes_has_module(modules[i]);
	return has;
}

/*
 * Returns what the endpoints of a device can do with regions whose pages are not pinned, as
 * IBV_ODP_SUPPORT_*; 0: there are no such regions.
 */
static uint32_t on_demand_grants(const struct tp_dev *dev)
{
	struct ibv_device_attr_ex attr;

	if (dev->no_caps & TP_CAP_ON_DEMAND || ibv_query_device_ex(dev->ibv, NULL, &attr) ||
	    !(attr.odp_caps.general_caps & IBV_ODP_SUPPORT))
		return 0;
	return attr.odp_caps.per_transport_caps.rc_odp_caps;
}

/*
 * Has regions registered on demand, if the device can transfer from and to such a region in every
 * way. One for atomic operations is pinned where the device needs that.
 */
static void on_demand_choose(struct tp_dev *dev)
{
	const uint32_t grants = on_demand_grants(dev);
	const uint32_t needs = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
			       IBV_ODP_SUPPORT_READ |
			       (dev->attr.max_srq ? IBV_ODP_SUPPORT_SRQ_RECV : 0);

	if ((grants & needs) != needs) {
		log_warn("%s: pages on demand are refused: the device can't use them for all "
			 "transfers",
			 dev->attr.device);
		return;
	}
	dev->attr.caps |= TP_CAP_ON_DEMAND;
	for (unsigned priv = 0; priv < PRIV_SETS; priv++)
		if (!(priv & TP_PRIV_ATOMIC) || grants & IBV_ODP_SUPPORT_ATOMIC)
			dev->access[priv] |= IBV_ACCESS_ON_DEMAND;
}

void mem_init(struct tp_dev *dev)
{
	const bool windows = dev->attr.max_mw ||
			     (DAT_EDITION == 2 && dev->attr.caps & TP_CAP_QP_WINDOWS);

	for (unsigned priv = 0; priv < PRIV_SETS; priv++)
		dev->access[priv] = (uint8_t)access_of((DAT_MEM_PRIV_FLAGS)priv);
	dev->reg_flags = TP_REG_RELAXED | (windows ? TP_REG_WINDOWS : 0);
	dev->may_have_gpus = host_has_gpus();
	if (dev->env.on_demand || dev->wants_on_demand)
		on_demand_choose(dev);
}

_Static_assert((int)TP_REG_WINDOWS == IBV_ACCESS_MW_BIND &&
		       (int)TP_REG_RELAXED == IBV_ACCESS_RELAXED_ORDERING,
	       "TP_REG_* flags are passed to the device unchanged, which may ignore RELAXED");

/* How a region is addressed: as the memory is, or from another address of its first byte on. */
struct addressing {
	bool own;
	uint64_t first;
};

static ALWAYS_INLINE struct ibv_mr *mr_reg_once(struct tp_pd *pd, void *address, size_t size,
						struct addressing by, unsigned access)
{
	if (by.own)
		return ibv_reg_mr_iova(pd->ibv, address, size, by.first, (int)access);
	return ibv_reg_mr(pd->ibv, address, size, (int)access);
}

/*
 * Registers a region without windows, if it was to have them and may not be written, or is not
 * pinned. Some devices pin the memory of a region for windows for writing, which fails if the
 * memory is read-only, and some have no windows on memory that is not pinned.
 */
static COLD struct ibv_mr *mr_reg_unbindable(struct tp_pd *pd, void *address, size_t size,
					     struct addressing by, unsigned *access)
{
	const unsigned strict = *access & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);

	if (!(*access & IBV_ACCESS_MW_BIND) || strict == IBV_ACCESS_LOCAL_WRITE)
		return NULL;
	*access &= ~(unsigned)IBV_ACCESS_MW_BIND;
	return mr_reg_once(pd, address, size, by, *access);
}

/* Nothing that is not pinned is looked at by the device before a transfer needs it. */
static COLD int on_demand_check(const void *address, size_t size, unsigned access)
{
	const struct span span = { (char *)(uintptr_t)address, size };
	const enum mapping mapping = mapping_of(&span);

	if (mapping == MAPPING_HOLES)
		return -EFAULT;
	return mapping == MAPPING_READONLY && access & IBV_ACCESS_LOCAL_WRITE ? -EACCES : 0;
}

static ALWAYS_INLINE int mr_reg(struct tp_pd *pd, void *address, size_t size, struct addressing by,
				DAT_MEM_PRIV_FLAGS priv, unsigned flags, struct tp_mr **mr_out,
				struct tp_mr_info *info)
{
	const struct tp_dev *dev = pd->dev;
	unsigned access = dev->access[priv] | (flags & dev->reg_flags);
	struct ibv_mr *mr;

	if (unlikely(access & IBV_ACCESS_ON_DEMAND)) {
		int err = on_demand_check(address, size, access);

		if (err)
			return err;
	}
	mr = mr_reg_once(pd, address, size, by, access);
	if (unlikely(!mr))
		mr = mr_reg_unbindable(pd, address, size, by, &access);
	if (unlikely(!mr))
		return reg_failed(dev, address, size, errno);
	if (unlikely(dev->may_have_gpus) && !memory_is_readable(address, 1))
		pd_end_inline(pd);
	info->lmr_context = mr->lkey;
	info->rmr_context = mr->rkey;
	info->address = by.own ? by.first : (uintptr_t)address;
	info->size = size;
	info->bindable = access & IBV_ACCESS_MW_BIND;
	*mr_out = (struct tp_mr *)mr;
	return 0;
}

int tp_mr_reg(struct tp_pd *pd, void *address, size_t size, DAT_MEM_PRIV_FLAGS priv, unsigned flags,
	      struct tp_mr **mr, struct tp_mr_info *info)
{
	return mr_reg(pd, address, size, (struct addressing){ 0 }, priv, flags, mr, info);
}

#if DAT_EDITION == 2
/*
 * A device translates addresses page by page, so they are the same within a page. What is sent
 * inline must not be in such a region, as libibverbs takes addresses for those in memory. A region
 * that was registered for a window has no segments.
 */
int tp_mr_reg_at(struct tp_pd *pd, void *address, size_t size, DAT_VADDR first,
		 DAT_MEM_PRIV_FLAGS priv, unsigned flags, struct tp_mr **mr,
		 struct tp_mr_info *info)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	if (((uintptr_t)address ^ first) % page) {
		log_util("%s: memory at %p is not at the beginning of a page, so it can't be "
			 "zero-based",
			 pd->dev->attr.device, address);
		return -EINVAL;
	}
	if (flags)
		pd_end_inline(pd);
	return mr_reg(pd, address, size, (struct addressing){ .own = true, .first = first }, priv,
		      flags, mr, info);
}
#endif

int tp_mr_dereg(struct tp_mr *mr)
{
	return -ibv_dereg_mr(ibv_mr_of(mr));
}
