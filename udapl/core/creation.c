/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects that are made without ia->lock: what keeps their IA open meanwhile. */
#include "core.h"

bool ia_creation_begin_locked(struct ia *ia)
{
	bool valid = obj_valid(NULL, ia, DAT_HANDLE_TYPE_IA);

	assert_locked(&ia->lock);
	ia->creating += valid;
	return valid;
}

bool ia_creation_begin(struct ia *ia)
{
	bool valid;

	mutex_lock(&ia->lock);
	valid = ia_creation_begin_locked(ia);
	mutex_unlock(&ia->lock);
	return valid;
}

void ia_creation_end_locked(struct ia *ia)
{
	assert_locked(&ia->lock);
	if (--ia->creating == 0)
		pthread_cond_broadcast(&ia->waiter_left);
}

#ifdef UDAPL_DEBUG
void up_assert_locked_in(struct ia *ia, const char *function)
{
	lock_check_held(&ia->lock.id, function);
}
#endif
