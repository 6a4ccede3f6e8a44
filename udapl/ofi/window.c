/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Windows, which libfabric does not have: the core registers the range of each bind instead. The
 * attributes say so, and the core calls none of these.
 */
#include "ofi.h"

int tp_mw_create(struct tp_pd *pd, struct tp_mw **mw, DAT_RMR_CONTEXT *context)
{
	(void)pd, (void)mw, (void)context;
	return -EOPNOTSUPP;
}

void tp_mw_destroy(struct tp_mw *mw)
{
	(void)mw;
}

int tp_post_bind(struct tp_qp *qp, void *tag, const struct tp_bind *bind, unsigned flags,
		 DAT_RMR_CONTEXT *context)
{
	(void)qp, (void)tag, (void)bind, (void)flags, (void)context;
	return -EOPNOTSUPP;
}

#if DAT_EDITION == 2
int tp_mw_create_for_qp(struct tp_pd *pd, struct tp_mw **mw, DAT_RMR_CONTEXT *context)
{
	(void)pd, (void)mw, (void)context;
	return -EOPNOTSUPP;
}

int tp_post_send_invalidate(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
			    uint32_t size, DAT_RMR_CONTEXT context, unsigned flags)
{
	(void)qp, (void)tag, (void)sge, (void)nsge, (void)size, (void)context, (void)flags;
	return -EOPNOTSUPP;
}

int tp_post_bind_typed(struct tp_qp *qp, void *tag, const struct tp_bind *bind, bool zero_based,
		       unsigned flags, DAT_RMR_CONTEXT *context)
{
	(void)qp, (void)tag, (void)bind, (void)zero_based, (void)flags, (void)context;
	return -EOPNOTSUPP;
}
#endif
