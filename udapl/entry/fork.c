/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A child of fork(2). Of the parent's threads it has the one that forked; locks that the others
 * held would stay taken for good, and what they guard may be in the middle of a change. Nothing of
 * that is used in the child: it begins without objects, and the parent's stay the parent's. So no
 * call there can wait for a thread that does not exist, or change what the kernel has for the
 * parent. Opens are refused where a thread that is missing was inside one, by libdat (dat/fork.c),
 * or in another call that may hold a lock of a library below (tp_was_in_call). The provider of the
 * other edition may be over the same library, so the registries learn of that, too.
 */
#include "base/registry.h"
#include "entry.h"

/*
 * The handler in the child. The thread that forked may be one that is to be cancelled, but not
 * here, where descriptors are closed.
 */
static void provider_after_fork(void)
{
	CANCEL_FORBIDDEN;
	const struct registry_calls *registry = registry_known();
	const bool lost = tp_was_in_call();

	log_after_fork();
	providers_after_fork(lost);
	if (lost && registry->lose)
		registry->lose();
	async_evds_after_fork();
	cookies_after_fork();
	objects_after_fork();
}

/* It fails only without memory, and then a fork is as safe as without this file. */
static void fork_handler_add(void)
{
	(void)registry_known(); /* a child must not ask the dynamic linker */
	(void)pthread_atfork(NULL, NULL, provider_after_fork);
}

void fork_watch(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, fork_handler_add);
}
