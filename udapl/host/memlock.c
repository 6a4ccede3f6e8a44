/* SPDX-License-Identifier: BSD-2-Clause */
/* The limit of locked memory: whether it is large enough, and whether it was the cause. */
#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "base/log.h"
#include "memlock.h"
#include "transport.h"

/*
 * Bytes; an endpoint's queues and a few buffers do not fit into less. Some batch systems set a
 * limit of 64 KiB.
 */
#define MEMLOCK_NEEDED (4ul << 20)

static const char memlock_remedy[] =
	"raise it with ulimit -l, in limits.conf, or as LimitMEMLOCK of the service";

/* Returns whether the process has CAP_IPC_LOCK, with which many devices ignore RLIMIT_MEMLOCK. */
static bool has_cap_ipc_lock(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (syscall(SYS_capget, &header, data))
		return false;
	return data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK);
}

/* Returns "unlimited", or the number of KiB in @text. */
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

	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur >= MEMLOCK_NEEDED ||
	    has_cap_ipc_lock())
		return;
	log_warn("RLIMIT_MEMLOCK is too small for RDMA: soft limit %s, hard limit %s, needed at "
		 "least %lu KiB; %s",
		 limit_text(limit.rlim_cur, soft, sizeof(soft)),
		 limit_text(limit.rlim_max, hard, sizeof(hard)), MEMLOCK_NEEDED / 1024,
		 memlock_remedy);
}

/* Returns how many bytes are pinned for this process; 0 if the kernel does not report them. */
static unsigned long long pinned_bytes(void)
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

COLD void memlock_name_cause(const struct tp_attr *attr, const char *call, const void *address,
			     size_t size, int err)
{
	unsigned long long used = pinned_bytes();
	struct rlimit limit;
	char soft[32];

	if (err != ENOMEM && err != EPERM)
		log_util("%s: %s of %zu bytes at %p: %s", attr->device, call, size, address,
			 strerror(err));
	else if (!getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur != RLIM_INFINITY &&
		 used + size > limit.rlim_cur)
		log_error("%s: %s of %zu bytes: %s: %llu KiB are pinned already and "
			  "RLIMIT_MEMLOCK is %s; %s",
			  attr->device, call, size, strerror(err), used / 1024,
			  limit_text(limit.rlim_cur, soft, sizeof(soft)), memlock_remedy);
	else
		log_error("%s: %s of %zu bytes: %s; the device supports %u regions", attr->device,
			  call, size, strerror(err), attr->max_mr);
}
