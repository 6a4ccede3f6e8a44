/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows, of type 1: they belong to a protection domain, as DAT's do. Their bind is a work request that
 * libibverbs makes. Posting is on the data path.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs.h"

int tp_mw_create(struct tp_pd *pd, struct tp_mw **mw_out, DAT_RMR_CONTEXT *context)
{
	struct tp_mw *mw = malloc(sizeof(*mw));
	int err;

	if (!mw)
		return -ENOMEM;
	mw->ibv = ibv_alloc_mw(pd->ibv, IBV_MW_TYPE_1);
	if (!mw->ibv) {
		err = -errno;
		log_util("making a memory window: %s", strerror(-err));
		free(mw);
		return err;
	}
	*context = mw->ibv->rkey;
	*mw_out = mw;
	return 0;
}

void tp_mw_destroy(struct tp_mw *mw)
{
	int err = ibv_dealloc_mw(mw->ibv);

	if (err)
		log_error("deallocating a memory window: %s", strerror(err));
	free(mw);
}

/* libibverbs counts the key on with each post, and never back: after a flush it is ahead of the device. */
int tp_post_bind(struct tp_qp *qp, void *tag, struct tp_bind *bind, unsigned flags)
{
	struct ibv_mw *mw = bind->mw->ibv;
	struct ibv_mw_bind wr = {
		.wr_id = (uintptr_t)tag,
		.send_flags = flags | qp->order,
		.bind_info = {
			.mr = bind->mr->ibv,
			.addr = bind->address,
			.length = bind->size,
			.mw_access_flags = (unsigned)access_of(bind->priv) & ~(unsigned)IBV_ACCESS_LOCAL_WRITE,
		},
	};
	int err;

	mw->rkey = bind->context;
	err = post_result(ibv_bind_mw(qp->ibv, mw, &wr));
	if (likely(!err))
		bind->context = mw->rkey;
	return err;
}
