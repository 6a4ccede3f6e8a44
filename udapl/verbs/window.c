/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows of type 1: they belong to a protection domain, as those of DAT do. libibverbs
 * builds and posts the bind's work request (ibv_bind_mw). tp_post_bind is on the data path.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs.h"

/* The IBV_ACCESS_* of a window, by the remote privileges. */
static const unsigned window_access[] = {
	[DAT_MEM_PRIV_REMOTE_READ_FLAG] = IBV_ACCESS_REMOTE_READ,
	[DAT_MEM_PRIV_REMOTE_WRITE_FLAG] = IBV_ACCESS_REMOTE_WRITE,
	[DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG] = IBV_ACCESS_REMOTE_READ |
									   IBV_ACCESS_REMOTE_WRITE,
};

int tp_mw_create(struct tp_pd *pd, struct tp_mw **mw_out, DAT_RMR_CONTEXT *context)
{
	struct tp_mw *mw = calloc(1, sizeof(*mw));
	int err;

	if (!mw)
		return -ENOMEM;
	errno = 0;
	mw->ibv = ibv_alloc_mw(pd->ibv, IBV_MW_TYPE_1);
	if (!mw->ibv) {
		err = refusal();
		log_util("%s: ibv_alloc_mw: %s", pd->dev->attr.device, strerror(-err));
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
		log_error("%s: ibv_dealloc_mw of rkey 0x%x: %s",
			  ibv_get_device_name(mw->ibv->context->device), mw->ibv->rkey,
			  strerror(err));
	free(mw);
}

/*
 * ibv_bind_mw increments the rkey at each post, and nothing decrements it when the bind is flushed,
 * so that it is ahead of the device's.
 */
void tp_mw_rewind(struct tp_mw *mw, DAT_RMR_CONTEXT context)
{
	mw->ibv->rkey = context;
}

/*
 * The thread is not cancelled in this, because soft-RoCE makes a system call, which is a
 * cancellation point, and the key of a bind that was posted must be stored.
 */
HOT int tp_post_bind(struct tp_qp *qp, void *tag, const struct tp_bind *bind, unsigned flags,
		     DAT_RMR_CONTEXT *context)
{
	struct ibv_mw_bind *wr = &bind->mw->wr;
	struct ibv_mw *mw = bind->mw->ibv;
	int err;

	wr->wr_id = (uintptr_t)tag;
	wr->send_flags = flags | qp->fence;
	wr->bind_info.mr = ibv_mr_of(bind->mr);
	wr->bind_info.addr = bind->address;
	wr->bind_info.length = bind->size;
	wr->bind_info.mw_access_flags = window_access[bind->priv];
	CANCEL_FORBIDDEN;
	err = post_result(ibv_bind_mw(qp->ibv, mw, wr));
	*context = mw->rkey;
	return err;
}
