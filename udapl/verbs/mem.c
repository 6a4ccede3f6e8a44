/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains and memory regions, and how much memory may be pinned. */
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "verbs.h"

/*
 * Below this an endpoint's queues and a few buffers don't fit. Batch systems are known for 64 KiB.
 */
#define MEMLOCK_NEEDED (4ul << 20)

static const char memlock_remedy[] =
	"raise it with ulimit -l, in limits.conf, or as LimitMEMLOCK of the service";

/* Many devices pin within the limit of the process unless it has this capability. */
static bool may_pin_all(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (syscall(SYS_capget, &header, data))
		return false;
	return data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK);
}

/* "unlimited", or KiB. */
static const char *limit_text(rlim_t limit, char *text, size_t size)
{
	if (limit == RLIM_INFINITY)
		return "unlimited";
	snprintf(text, size, "%llu KiB", (unsigned long long)limit / 1024);
	return text;
}

void memlock_check(void)
{
	char soft[32], hard[32];
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur >= MEMLOCK_NEEDED || may_pin_all())
		return;
	log_warn("RLIMIT_MEMLOCK is too small for RDMA: soft limit %s, hard limit %s, needed at "
		 "least %lu KiB; %s",
		 limit_text(limit.rlim_cur, soft, sizeof(soft)),
		 limit_text(limit.rlim_max, hard, sizeof(hard)), MEMLOCK_NEEDED / 1024,
		 memlock_remedy);
}

/* Bytes that devices hold pinned for this process; 0 when the system doesn't say. */
static unsigned long long pinned(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	unsigned long long kib = 0;
	char line[128];

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "VmPin: %llu kB", &kib) == 1)
			break;
	fclose(file);
	return kib * 1024;
}

/* Fork support hides it behind ENOMEM, which is what madvise says. */
static bool is_unmapped(const void *address, size_t size)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)address & ~(page - 1);

	return msync((void *)start, (uintptr_t)address + size - start, MS_ASYNC) && errno == ENOMEM;
}

/* Why a registration failed, and which limit it has met. */
static COLD int reg_failed(const struct tp_dev *dev, const void *address, size_t size, int err)
{
	unsigned long long used = pinned();
	struct rlimit limit;
	char soft[32];

	if (err == ENOMEM && is_unmapped(address, size))
		err = EFAULT;
	if (err != ENOMEM && err != EPERM)
		log_util("registering %zu bytes: %s", size, strerror(err));
	else if (!getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur != RLIM_INFINITY &&
		 used + size > limit.rlim_cur)
		log_error("registering %zu bytes: %llu KiB are pinned already and RLIMIT_MEMLOCK "
			  "is %s; %s",
			  size, used / 1024, limit_text(limit.rlim_cur, soft, sizeof(soft)),
			  memlock_remedy);
	else
		log_error("registering %zu bytes: %s; device %s takes %u regions", size,
			  strerror(err), dev->attr.device, dev->attr.max_mr);
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
	pd->ibv = ibv_alloc_pd(dev->ibv);
	if (!pd->ibv) {
		err = -errno;
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
		log_error("deallocating a protection domain: %s", strerror(err));
	dev_put(pd->dev);
	free(pd);
}

void tp_pd_destroy(struct tp_pd *pd)
{
	pd_put(pd);
}

/* IBV_ACCESS_*. Devices refuse remote write without local write. Local read is always there. */
static unsigned access_of(DAT_MEM_PRIV_FLAGS priv)
{
	unsigned access = 0;

	if (priv & DAT_MEM_PRIV_WRITE_FLAG)
		access |= IBV_ACCESS_LOCAL_WRITE;
	if (priv & DAT_MEM_PRIV_REMOTE_READ_FLAG)
		access |= IBV_ACCESS_REMOTE_READ;
	if (priv & DAT_MEM_PRIV_REMOTE_WRITE_FLAG)
		access |= IBV_ACCESS_REMOTE_WRITE;
	return access;
}

/*
 * Where there are windows they can be bound to any region that is writable. Some devices take the
 * wish for one to write, which the memory may refuse: then there is a second try.
 */
static struct ibv_mr *reg(struct tp_pd *pd, void *address, size_t size, unsigned access,
			  bool *bindable)
{
	struct ibv_mr *mr;

	*bindable = pd->dev->attr.max_mw > 0;
	mr = ibv_reg_mr(pd->ibv, address, size,
			(int)(access | (*bindable ? IBV_ACCESS_MW_BIND : 0)));
	if (likely(mr) || !*bindable || access & IBV_ACCESS_LOCAL_WRITE)
		return mr;
	*bindable = false;
	return ibv_reg_mr(pd->ibv, address, size, (int)access);
}

int tp_mr_reg(struct tp_pd *pd, void *address, size_t size, DAT_MEM_PRIV_FLAGS priv, bool relaxed,
	      struct tp_mr **mr_out, struct tp_mr_info *info)
{
	unsigned access = access_of(priv);
	struct ibv_mr *mr;

	if (relaxed)
		/* a device that doesn't know it ignores it */
		access |= IBV_ACCESS_RELAXED_ORDERING;
	mr = reg(pd, address, size, access, &info->bindable);
	if (!mr)
		return reg_failed(pd->dev, address, size, errno);
	info->lmr_context = mr->lkey;
	info->rmr_context = mr->rkey;
	info->address = (uintptr_t)address;
	info->size = size;
	*mr_out = (struct tp_mr *)mr;
	return 0;
}

int tp_mr_dereg(struct tp_mr *mr)
{
	return -ibv_dereg_mr(ibv_mr_of(mr));
}
