/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kinds of objects: how large one is, what a child of fork(2) does with it, how an abrupt close
 * destroys it, and in which order. The only file that knows them all.
 */
#include "kinds.h"

/* ---- after a fork ---- */

static void ia_slot_after_fork(struct obj *obj, bool visible)
{
	struct ia *ia = container_of(obj, struct ia, obj);

	mutex_after_fork(&ia->lock);
	pthread_cond_init(&ia->waiter_left, NULL);
	service_after_fork(ia);
	if (visible)
		tp_dev_after_fork(ia->dev);
}

static void ep_slot_after_fork(struct obj *obj, bool visible)
{
	if (visible)
		ep_after_fork(container_of(obj, struct ep, obj));
}

static void srq_slot_after_fork(struct obj *obj, bool visible)
{
	if (visible)
		srq_after_fork(container_of(obj, struct srq, obj));
}

/*
 * A power of two: many calls check the handle of an IA, which divides by this, and there are few
 * IAs.
 */
#define IA_STRIDE (sizeof(struct ia) > 2048 ? 4096 : 2048)
_Static_assert(sizeof(struct ia) <= IA_STRIDE, "an IA fits into its slot");

const struct obj_kind_info obj_kinds[OBJ_KINDS] = {
	[DAT_HANDLE_TYPE_IA] = { IA_STRIDE, ia_slot_after_fork },
	[DAT_HANDLE_TYPE_EP] = { OBJ_STRIDE(struct ep), ep_slot_after_fork },
	[DAT_HANDLE_TYPE_EVD] = { OBJ_STRIDE(struct evd), NULL },
	[DAT_HANDLE_TYPE_CNO] = { OBJ_STRIDE(struct cno), NULL },
	[DAT_HANDLE_TYPE_PZ] = { OBJ_STRIDE(struct pz), NULL },
	[DAT_HANDLE_TYPE_LMR] = { OBJ_STRIDE(struct lmr), NULL },
	[DAT_HANDLE_TYPE_RMR] = { OBJ_STRIDE(struct rmr), NULL },
	[DAT_HANDLE_TYPE_PSP] = { OBJ_STRIDE(struct sp), NULL },
	[DAT_HANDLE_TYPE_RSP] = { OBJ_STRIDE(struct sp), NULL },
	[DAT_HANDLE_TYPE_CR] = { OBJ_STRIDE(struct cr), NULL },
	[DAT_HANDLE_TYPE_SRQ] = { OBJ_STRIDE(struct srq), srq_slot_after_fork },
#if DAT_EDITION == 2
	[DAT_HANDLE_TYPE_CSP] = { OBJ_STRIDE(struct sp), NULL },
	[PEER_KIND] = { OBJ_STRIDE(struct peer), NULL }, /* closed with its endpoint */
#endif
};

/* ---- abrupt close ---- */

static void close_sp_locked(struct obj *obj)
{
	assert_locked(&obj->ia->lock);
	sp_destroy_locked(container_of(obj, struct sp, obj));
}

static void close_cr(struct obj *obj)
{
	cr_destroy(container_of(obj, struct cr, obj));
}

static void close_rmr(struct obj *obj)
{
	rmr_destroy(container_of(obj, struct rmr, obj));
}

static void close_ep_relock(struct obj *obj)
{
	assert_locked(&obj->ia->lock);
	ep_destroy_relock(container_of(obj, struct ep, obj));
}

static void close_srq_locked(struct obj *obj)
{
	assert_locked(&obj->ia->lock);
	srq_destroy_locked(container_of(obj, struct srq, obj));
}

static void close_lmr(struct obj *obj)
{
	lmr_destroy(container_of(obj, struct lmr, obj));
}

static void close_pz(struct obj *obj)
{
	pz_destroy(container_of(obj, struct pz, obj));
}

static void close_evd_relock(struct obj *obj)
{
	struct evd *evd = container_of(obj, struct evd, obj);

	assert_locked(&obj->ia->lock);
	async_evd_revoke(evd);
	evd_expel_waiter_relock(evd);
	evd_destroy_locked(evd);
}

static void close_cno(struct obj *obj)
{
	struct cno *cno = container_of(obj, struct cno, obj);

	mutex_lock(&obj->ia->lock);
	cno_expel_waiters_relock(cno);
	mutex_unlock(&obj->ia->lock);
	cno_destroy(cno);
}

/*
 * In this order each object is destroyed before those that it uses. The asynchronous EVD is among
 * the other EVDs: the consumer may have given it a CNO.
 */
const struct close_step close_steps[] = {
	{ DAT_HANDLE_TYPE_PSP, true, close_sp_locked },
#if DAT_EDITION == 2
	{ DAT_HANDLE_TYPE_CSP, true, close_sp_locked },
#endif
	{ DAT_HANDLE_TYPE_RSP, true, close_sp_locked }, /* no connection requests from here on */
	{ DAT_HANDLE_TYPE_CR, false, close_cr },
	{ DAT_HANDLE_TYPE_RMR, false, close_rmr },
	{ DAT_HANDLE_TYPE_EP, true, close_ep_relock },
	{ DAT_HANDLE_TYPE_SRQ, true, close_srq_locked },
	{ DAT_HANDLE_TYPE_LMR, false, close_lmr },
	{ DAT_HANDLE_TYPE_PZ, false, close_pz },
	{ DAT_HANDLE_TYPE_EVD, true, close_evd_relock },
	{ DAT_HANDLE_TYPE_CNO, false, close_cno },
	{ 0 },
};
