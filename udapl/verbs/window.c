/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows of type 1: they belong to a protection domain, as those of DAT do. libibverbs
 * builds and posts the bind's work request (ibv_bind_mw). tp_post_bind is on the data path.
 *
 * DAT 2.0 has windows of an endpoint, too, which are of type 2: they belong to the queue pair on
 * which they were bound, and are bound once. A queue pair has a list of them.
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

static int mw_create(struct tp_pd *pd, enum ibv_mw_type type, struct tp_mw **mw_out)
{
	struct tp_mw *mw = calloc(1, sizeof(*mw));
	int err;

	if (!mw)
		return -ENOMEM;
	errno = 0;
	mw->ibv = ibv_alloc_mw(pd->ibv, type);
	if (!mw->ibv) {
		err = refusal();
		log_util("%s: ibv_alloc_mw: %s", pd->dev->attr.device, strerror(-err));
		free(mw);
		return err;
	}
	*mw_out = mw;
	return 0;
}

int tp_mw_create(struct tp_pd *pd, struct tp_mw **mw, DAT_RMR_CONTEXT *context)
{
	int err = mw_create(pd, IBV_MW_TYPE_1, mw);

	if (!err)
		*context = (*mw)->ibv->rkey;
	return err;
}

#if DAT_EDITION == 2
/* Whoever binds a window of type 2 chooses the low byte of its key, which must be another one. */
int tp_mw_create_for_qp(struct tp_pd *pd, struct tp_mw **mw_out, DAT_RMR_CONTEXT *context)
{
	struct tp_mw *mw;
	int err = mw_create(pd, IBV_MW_TYPE_2, &mw);

	if (err)
		return err;
	mw->dev = pd->dev;
	*context = ibv_inc_rkey(mw->ibv->rkey);
	*mw_out = mw;
	return 0;
}
#endif

static void mw_dealloc(struct ibv_mw *mw)
{
	int err = ibv_dealloc_mw(mw);

	if (err)
		log_error("%s: ibv_dealloc_mw of rkey 0x%x: %s",
			  ibv_get_device_name(mw->context->device), mw->rkey, strerror(err));
}

#if DAT_EDITION == 2
void windows_init(struct tp_dev *dev)
{
	spin_init(&dev->windows_lock, RANK_QP_WINDOWS);
}

/* Takes the window out of its list. Returns what is to be freed, or NULL if that was. */
static struct ibv_mw *mw_take_locked(struct tp_mw *mw)
{
	struct ibv_mw *ibv = mw->ibv;

	assert_locked(&mw->dev->windows_lock);
	mw->ibv = NULL;
	if (!mw->back)
		return ibv;
	*mw->back = mw->next;
	if (mw->next)
		mw->next->back = mw->back;
	mw->back = NULL;
	return ibv;
}

static struct ibv_mw *mw_take(struct tp_mw *mw)
{
	struct ibv_mw *ibv;

	if (!mw->dev) /* it is of type 1 */
		return mw->ibv;
	spin_lock(&mw->dev->windows_lock);
	ibv = mw_take_locked(mw);
	spin_unlock(&mw->dev->windows_lock);
	return ibv;
}

static struct ibv_mw *qp_take_window(struct tp_qp *qp)
{
	struct ibv_mw *ibv;

	spin_lock(&qp->dev->windows_lock);
	ibv = qp->windows ? mw_take_locked(qp->windows) : NULL;
	spin_unlock(&qp->dev->windows_lock);
	return ibv;
}

void windows_end(struct tp_qp *qp)
{
	struct ibv_mw *ibv;

	while ((ibv = qp_take_window(qp)))
		mw_dealloc(ibv);
}
#else
void windows_init(struct tp_dev *dev)
{
	(void)dev;
}

static struct ibv_mw *mw_take(struct tp_mw *mw)
{
	return mw->ibv;
}

void windows_end(struct tp_qp *qp)
{
	(void)qp;
}
#endif

void tp_mw_destroy(struct tp_mw *mw)
{
	struct ibv_mw *ibv = mw_take(mw);

	if (ibv)
		mw_dealloc(ibv);
	free(mw);
}

/*
 * Posts the bind of a window of type 1. The thread is not cancelled in this, because soft-RoCE
 * makes a system call, which is a cancellation point, and the key of a bind that was posted must be
 * stored.
 */
static ALWAYS_INLINE int post_bind_type_1(struct tp_qp *qp, void *tag, const struct tp_bind *bind,
					  unsigned access, unsigned flags, DAT_RMR_CONTEXT *context)
{
	struct ibv_mw_bind *wr = &bind->mw->wr;
	struct ibv_mw *mw = bind->mw->ibv;
	int err;

	wr->wr_id = (uintptr_t)tag;
	wr->send_flags = flags | qp->fence;
	wr->bind_info.mr = ibv_mr_of(bind->mr);
	wr->bind_info.addr = bind->address;
	wr->bind_info.length = bind->size;
	wr->bind_info.mw_access_flags = access;
	CANCEL_FORBIDDEN;
	err = post_result(ibv_bind_mw(qp->ibv, mw, wr));
	*context = mw->rkey;
	return err;
}

HOT int tp_post_bind(struct tp_qp *qp, void *tag, const struct tp_bind *bind, unsigned flags,
		     DAT_RMR_CONTEXT *context)
{
	return post_bind_type_1(qp, tag, bind, window_access[bind->priv], flags, context);
}

#if DAT_EDITION == 2
static void qp_add_window(struct tp_qp *qp, struct tp_mw *mw)
{
	spin_lock(&qp->dev->windows_lock);
	mw->next = qp->windows;
	mw->back = &qp->windows;
	if (mw->next)
		mw->next->back = &mw->next;
	qp->windows = mw;
	spin_unlock(&qp->dev->windows_lock);
}

/*
 * The core holds the lock that the end of the bind takes, so the window is in the list before it
 * can be destroyed.
 */
static int post_bind_type_2(struct tp_qp *qp, void *tag, const struct tp_bind *bind,
			    unsigned access, unsigned flags, DAT_RMR_CONTEXT *context)
{
	struct ibv_mw *mw = bind->mw->ibv;
	const uint32_t key = ibv_inc_rkey(mw->rkey);
	struct ibv_send_wr *bad, wr = {
		.wr_id = (uintptr_t)tag,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = flags | qp->fence,
		.bind_mw = {
			.mw = mw,
			.rkey = key,
			.bind_info = {
				.mr = ibv_mr_of(bind->mr),
				.addr = bind->address,
				.length = bind->size,
				.mw_access_flags = access,
			},
		},
	};
	int err = post_result(ibv_post_send(qp->ibv, &wr, &bad));

	if (err)
		return err;
	mw->rkey = key;
	*context = key;
	qp_add_window(qp, bind->mw);
	return 0;
}

int tp_post_bind_typed(struct tp_qp *qp, void *tag, const struct tp_bind *bind, bool zero_based,
		       unsigned flags, DAT_RMR_CONTEXT *context)
{
	CANCEL_FORBIDDEN;
	const unsigned access = window_access[bind->priv] |
				(zero_based ? (unsigned)IBV_ACCESS_ZERO_BASED : 0);

	if (bind->mw->ibv->type == IBV_MW_TYPE_2)
		return post_bind_type_2(qp, tag, bind, access, flags, context);
	return post_bind_type_1(qp, tag, bind, access, flags, context);
}
#endif
