/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A child of fork(2). Of the parent's threads it has the one that forked; what the others did stays
 * as it was at that moment.
 *
 * The parent takes no lock before it forks: an open in another thread, which may last for seconds,
 * does not delay it, and no lock order of another library can be broken. So the child releases what
 * the threads that it does not have may hold. It has no open IA: the parent's belong to the parent.
 * It may open its own, unless a thread that it does not have was in the dynamic linker or in a
 * provider. Their locks can't be released from here, so an open might never return, and is refused.
 */
#include "libdat.h"
#include "log.h"

static void child_begin(void)
{
	libdat_log_after_fork();
	registry_after_fork();
	ia_slots_after_fork();
}

/* Fails only without memory, and then a fork is as safe as without this file. */
static void __attribute__((constructor)) child_handler_add(void)
{
	(void)pthread_atfork(NULL, NULL, child_begin);
}
