/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains and memory regions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/memlock.h"
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
 * Registers a region without windows, if it was to have them and may not be written. Some devices
 * pin the memory of a region for windows for writing, which fails if the memory is read-only.
 */
static COLD struct ibv_mr *mr_reg_unbindable(struct tp_pd *pd, void *address, size_t size,
					     struct addressing by, unsigned *access)
{
	if (!(*access & IBV_ACCESS_MW_BIND) || *access & IBV_ACCESS_LOCAL_WRITE)
		return NULL;
	*access &= ~(unsigned)IBV_ACCESS_MW_BIND;
	return mr_reg_once(pd, address, size, by, *access);
}

static ALWAYS_INLINE int mr_reg(struct tp_pd *pd, void *address, size_t size, struct addressing by,
				DAT_MEM_PRIV_FLAGS priv, unsigned flags, struct tp_mr **mr_out,
				struct tp_mr_info *info)
{
	unsigned access = access_of(priv) | flags;
	struct ibv_mr *mr;

	if (!pd->dev->attr.max_mw && !(DAT_EDITION == 2 && pd->dev->attr.caps & TP_CAP_QP_WINDOWS))
		access &= ~(unsigned)IBV_ACCESS_MW_BIND;
	mr = mr_reg_once(pd, address, size, by, access);
	if (unlikely(!mr))
		mr = mr_reg_unbindable(pd, address, size, by, &access);
	if (unlikely(!mr))
		return reg_failed(pd->dev, address, size, errno);
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
 * inline is copied by libibverbs, which takes addresses for those in memory: so from now on queue
 * pairs of the domain send nothing inline, unless no segment can be in the region, because it was
 * registered for a window.
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
		atomic_store_explicit(&pd->zero_based, true, memory_order_relaxed);
	return mr_reg(pd, address, size, (struct addressing){ .own = true, .first = first }, priv,
		      flags, mr, info);
}
#endif

int tp_mr_dereg(struct tp_mr *mr)
{
	return -ibv_dereg_mr(ibv_mr_of(mr));
}
