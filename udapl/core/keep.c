/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that work on an IA without its lock: what keeps it from being destroyed meanwhile. */
#include "core.h"

bool ia_keep_locked(struct ia *ia)
{
	bool valid = obj_valid(NULL, ia, DAT_HANDLE_TYPE_IA);

	assert_locked(&ia->lock);
	ia->keepers += valid;
	return valid;
}

bool ia_keep(struct ia *ia)
{
	bool valid;

	mutex_lock(&ia->lock);
	valid = ia_keep_locked(ia);
	mutex_unlock(&ia->lock);
	return valid;
}

void ia_keep_to_free_locked(struct ia *ia)
{
	assert_locked(&ia->lock);
	ia->keepers++;
}

void ia_unkeep_locked(struct ia *ia)
{
	assert_locked(&ia->lock);
	if (--ia->keepers == 0)
		pthread_cond_broadcast(&ia->waiter_left);
}

void ia_wait_unkept_relock(struct ia *ia)
{
	assert_locked(&ia->lock);
	while (ia->keepers)
		cond_wait_relock(&ia->waiter_left, &ia->lock);
}

#ifdef UDAPL_DEBUG
void up_assert_locked_in(struct ia *ia, const char *function)
{
	lock_check_held(&ia->lock.id, function);
}
#endif
