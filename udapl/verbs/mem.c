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

/*
 * Registers a region without windows, if it was to have them and may not be written. Some devices
 * pin the memory of a region for windows for writing, which fails if the memory is read-only.
 */
static COLD struct ibv_mr *mr_reg_unbindable(struct tp_pd *pd, void *address, size_t size,
					     unsigned *access)
{
	if (!(*access & IBV_ACCESS_MW_BIND) || *access & IBV_ACCESS_LOCAL_WRITE)
		return NULL;
	*access &= ~(unsigned)IBV_ACCESS_MW_BIND;
	return ibv_reg_mr(pd->ibv, address, size, (int)*access);
}

int tp_mr_reg(struct tp_pd *pd, void *address, size_t size, DAT_MEM_PRIV_FLAGS priv, unsigned flags,
	      struct tp_mr **mr_out, struct tp_mr_info *info)
{
	unsigned access = access_of(priv) | flags;
	struct ibv_mr *mr;

	if (!pd->dev->attr.max_mw)
		access &= ~(unsigned)IBV_ACCESS_MW_BIND;
	mr = ibv_reg_mr(pd->ibv, address, size, (int)access);
	if (unlikely(!mr))
		mr = mr_reg_unbindable(pd, address, size, &access);
	if (unlikely(!mr))
		return reg_failed(pd->dev, address, size, errno);
	info->lmr_context = mr->lkey;
	info->rmr_context = mr->rkey;
	info->address = (uintptr_t)address;
	info->size = size;
	info->bindable = access & IBV_ACCESS_MW_BIND;
	*mr_out = (struct tp_mr *)mr;
	return 0;
}

int tp_mr_dereg(struct tp_mr *mr)
{
	return -ibv_dereg_mr(ibv_mr_of(mr));
}
