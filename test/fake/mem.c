/* SPDX-License-Identifier: BSD-2-Clause */
/* Fake protection domains, memory regions and windows, with the checks that a device makes. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "fake_impl.h"

/* The lkey and rkey of a region differ, so that a test finds code that confuses them. */
#define REMOTE_KEY 0x40000000u

struct tp_mr {
	struct tp_mr *next;
	struct tp_pd *pd;
	uint32_t key;
	unsigned priv;
	DAT_VADDR address; /* of the first byte, for peers and segments */
	DAT_VADDR bias;	   /* from there to where it is in memory */
	DAT_VLEN size;
	bool bindable;
	unsigned windows; /* that are bound to it */
};

struct tp_mw {
	struct tp_mw *next;
	struct tp_pd *pd;
	DAT_RMR_CONTEXT key;
	DAT_RMR_CONTEXT latest; /* what key becomes once all posted binds are executed */
	struct tp_mr *mr;	/* NULL: unbound */
	unsigned priv;
	DAT_VADDR address; /* as of a region, as is the next one */
	DAT_VADDR bias;
	DAT_VLEN size;
	bool for_qp;		/* it belongs to a queue pair: */
	const struct tp_qp *qp; /* the one that it is bound on, */
	DAT_RMR_CONTEXT bound;	/* with this key */
};

int tp_pd_create(struct tp_dev *dev, struct tp_pd **out)
{
	struct tp_pd *pd = NULL;
	int err = fake_enter(CALL_PD_CREATE);

	if (err)
		return err;
	if (dev->alive[FAKE_PD] < dev->attr.max_pd)
		pd = calloc(1, sizeof(*pd));
	if (pd) {
		pd->dev = dev;
		alive_add(dev, FAKE_PD, 1);
		*out = pd;
	}
	fake_unlock();
	return pd ? 0 : -ENOMEM;
}

void tp_pd_destroy(struct tp_pd *pd)
{
	fake_begin(CALL_PD_DESTROY);
	fake_require(pd->users == 0,
		     "a protection domain outlives its regions, windows and queue pairs");
	alive_add(pd->dev, FAKE_PD, -1);
	fake_unlock();
	free(pd);
}

static void mr_range(struct tp_mr *mr, void *address, size_t size)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	mr->address = (uintptr_t)address;
	mr->size = size;
	if (fake.quirks & FAKE_MR_ROUNDS) {
		mr->size += mr->address % page;
		mr->address -= mr->address % page;
		mr->size = (mr->size + page - 1) / page * page;
	}
}

/* Registers a region, whose addresses are those in memory less @bias. */
static int mr_reg(struct tp_pd *pd, void *address, size_t size, DAT_VADDR bias,
		  DAT_MEM_PRIV_FLAGS priv, unsigned flags, struct tp_mr **out,
		  struct tp_mr_info *info)
{
	struct tp_mr *mr = NULL;
	int err = fake_enter(CALL_MR_REG);

	if (err)
		return err;
	err = size == 0 || size > pd->dev->attr.max_mr_size ? -EINVAL : -ENOMEM;
	if (err == -ENOMEM && pd->dev->alive[FAKE_MR] < pd->dev->attr.max_mr)
		mr = calloc(1, sizeof(*mr));
	if (mr) {
		mr->pd = pd;
		mr->key = fake.next_key;
		fake.next_key += 1 << 8; /* devices have a variant in the low bits */
		mr->priv = priv;
		mr_range(mr, address, size);
		mr->bias = bias;
		mr->address -= bias;
		mr->bindable = flags & TP_REG_WINDOWS &&
			       (!(fake.quirks & FAKE_UNBINDABLE) || priv & DAT_MEM_PRIV_WRITE_FLAG);
		mr->next = fake.mrs;
		fake.mrs = mr;
		pd->users++;
		alive_add(pd->dev, FAKE_MR, 1);
		fake.seen.priv = priv;
		fake.seen.relaxed = flags & TP_REG_RELAXED;
		fake.seen.windows = flags & TP_REG_WINDOWS;
		*info = (struct tp_mr_info){
			.lmr_context = mr->key,
			.rmr_context = mr->key | REMOTE_KEY,
			.address = mr->address,
			.size = mr->size,
			.bindable = mr->bindable,
		};
		*out = mr;
	}
	fake_unlock();
	return mr ? 0 : err;
}

int tp_mr_reg(struct tp_pd *pd, void *address, size_t size, DAT_MEM_PRIV_FLAGS priv, unsigned flags,
	      struct tp_mr **mr, struct tp_mr_info *info)
{
	return mr_reg(pd, address, size, 0, priv, flags, mr, info);
}

#if DAT_EDITION == 2
int tp_mr_reg_at(struct tp_pd *pd, void *address, size_t size, DAT_VADDR first,
		 DAT_MEM_PRIV_FLAGS priv, unsigned flags, struct tp_mr **mr,
		 struct tp_mr_info *info)
{
	const DAT_VADDR bias = (uintptr_t)address - first;

	fake_require(pd->dev->attr.caps & TP_CAP_ZERO_BASED,
		     "a device without zero-based regions is not asked for one");
	if (fake.quirks & FAKE_PAGES && bias % (uint64_t)sysconf(_SC_PAGESIZE))
		return -EINVAL;
	return mr_reg(pd, address, size, bias, priv, flags, mr, info);
}
#endif

int tp_mr_dereg(struct tp_mr *mr)
{
	struct tp_mr **link = &fake.mrs;
	int err = fake_enter(CALL_MR_DEREG);

	if (err)
		return err;
	if (mr->windows) {
		fake_unlock();
		return -EINVAL;
	}
	while (*link != mr)
		link = &(*link)->next;
	*link = mr->next;
	mr->pd->users--;
	alive_add(mr->pd->dev, FAKE_MR, -1);
	fake_unlock();
	free(mr);
	return 0;
}

static bool in_range(DAT_VADDR start, DAT_VLEN size, DAT_VADDR address, DAT_VLEN length)
{
	return length <= size && address >= start && address - start <= size - length;
}

static DAT_RMR_CONTEXT new_window_key(void)
{
	return fake.next_key++ | REMOTE_KEY;
}

DAT_RMR_CONTEXT mw_next_key(const struct tp_mw *mw)
{
	return mw->for_qp ? mw->bound : new_window_key();
}

#define MOST_QP_WINDOWS 4096 /* of a device */

static int mw_create(struct tp_pd *pd, bool for_qp, struct tp_mw **out)
{
	const unsigned most = for_qp ? MOST_QP_WINDOWS : pd->dev->attr.max_mw;
	struct tp_mw *mw = NULL;
	int err = fake_enter(CALL_MW_CREATE);

	if (err)
		return err;
	fake_require(most > 0, "a device without windows is not asked for one");
	if (pd->dev->alive[FAKE_MW] < most)
		mw = calloc(1, sizeof(*mw));
	if (mw) {
		mw->pd = pd;
		mw->for_qp = for_qp;
		mw->key = mw->latest = new_window_key();
		mw->bound = new_window_key();
		mw->next = fake.mws;
		fake.mws = mw;
		pd->users++;
		alive_add(pd->dev, FAKE_MW, 1);
		*out = mw;
	}
	fake_unlock();
	return mw ? 0 : -ENOMEM;
}

int tp_mw_create(struct tp_pd *pd, struct tp_mw **mw, DAT_RMR_CONTEXT *context)
{
	int err = mw_create(pd, false, mw);

	if (!err)
		*context = (*mw)->key;
	return err;
}

#if DAT_EDITION == 2
int tp_mw_create_for_qp(struct tp_pd *pd, struct tp_mw **mw, DAT_RMR_CONTEXT *context)
{
	int err;

	fake_require(pd->dev->attr.caps & TP_CAP_QP_WINDOWS,
		     "a device without windows of queue pairs is not asked for one");
	err = mw_create(pd, true, mw);
	if (!err)
		*context = (*mw)->bound;
	return err;
}
#endif

DAT_RMR_CONTEXT mw_post(struct tp_mw *mw, DAT_RMR_CONTEXT key)
{
	DAT_RMR_CONTEXT from = mw->latest;

	mw->latest = key;
	return from;
}

static void mw_unbind(struct tp_mw *mw)
{
	if (mw->mr)
		mw->mr->windows--;
	mw->mr = NULL;
}

void windows_detach_qp(const struct tp_qp *qp)
{
	for (struct tp_mw *mw = fake.mws; mw; mw = mw->next)
		if (mw->qp == qp) {
			mw_unbind(mw);
			mw->qp = NULL;
		}
}

void tp_mw_destroy(struct tp_mw *mw)
{
	struct tp_mw **link = &fake.mws;

	fake_begin(CALL_MW_DESTROY);
	while (*link != mw)
		link = &(*link)->next;
	*link = mw->next;
	mw_unbind(mw);
	mw->pd->users--;
	alive_add(mw->pd->dev, FAKE_MW, -1);
	fake_unlock();
	free(mw);
}

/* The window, if it still exists and has the key @context: requests may outlive it. */
static struct tp_mw *mw_find(const struct tp_mw *mw, DAT_RMR_CONTEXT context)
{
	struct tp_mw *at = fake.mws;

	while (at && at != mw)
		at = at->next;
	return at && at->key == context ? at : NULL;
}

static bool mr_accepts_bind(const struct tp_mr *mr, const struct tp_pd *pd,
			    const struct tp_bind *bind)
{
	return mr->pd == pd && mr->bindable &&
	       in_range(mr->address, mr->size, bind->address, bind->size) &&
	       (!(bind->priv & DAT_MEM_PRIV_REMOTE_WRITE_FLAG) ||
		mr->priv & DAT_MEM_PRIV_WRITE_FLAG);
}

bool mw_bind(const struct tp_qp *qp, const struct tp_bind *bind, bool zero_based,
	     DAT_RMR_CONTEXT from, DAT_RMR_CONTEXT key)
{
	const struct tp_pd *pd = qp->pd;
	struct tp_mw *mw = mw_find(bind->mw, from);

	fake_require(!mw || !mw->qp, "the window of a queue pair is bound once");
	if (!mw || mw->pd != pd || (bind->size && !mr_accepts_bind(bind->mr, pd, bind)))
		return false;
	mw_unbind(mw);
	mw->key = key;
	if (bind->size) {
		mw->mr = bind->mr;
		mw->mr->windows++;
		mw->priv = bind->priv;
		mw->address = zero_based ? 0 : bind->address;
		mw->bias = bind->mr->bias + bind->address - mw->address;
		mw->size = bind->size;
		mw->qp = mw->for_qp ? qp : NULL;
	}
	return true;
}

static struct tp_mw *mw_of_key(uint32_t key)
{
	struct tp_mw *mw = fake.mws;

	while (mw && mw->key != key)
		mw = mw->next;
	return mw;
}

static const struct tp_mr *mr_of_key(uint32_t key)
{
	const struct tp_mr *mr = fake.mrs;

	while (mr && mr->key != (key & ~REMOTE_KEY))
		mr = mr->next;
	return mr;
}

static bool mw_allows(const struct tp_qp *qp, uint32_t key, DAT_VADDR address, DAT_VLEN length,
		      unsigned priv)
{
	const struct tp_mw *mw = mw_of_key(key);

	return mw && mw->mr && mw->pd == qp->pd && (!mw->for_qp || mw->qp == qp) &&
	       (mw->priv & priv) && in_range(mw->address, mw->size, address, length);
}

bool mw_invalidate(const struct tp_qp *qp, DAT_RMR_CONTEXT key)
{
	struct tp_mw *mw = mw_of_key(key);

	if (!mw || !mw->mr || mw->qp != qp)
		return false;
	mw_unbind(mw);
	return true;
}

DAT_VADDR mem_bias(uint32_t key)
{
	const struct tp_mw *mw = mw_of_key(key);
	const struct tp_mr *mr = mr_of_key(key);

	return mw ? mw->bias : mr ? mr->bias : 0;
}

bool mem_allows_peer(const struct tp_qp *qp, uint32_t key, DAT_VADDR address, DAT_VLEN length,
		     unsigned priv)
{
	return key & REMOTE_KEY && (mw_allows(qp, key, address, length, priv) ||
				    mem_allows(qp->pd, key & ~REMOTE_KEY, address, length, priv));
}

bool mem_allows(const struct tp_pd *pd, uint32_t key, DAT_VADDR address, DAT_VLEN length,
		unsigned priv)
{
	const struct tp_mr *mr = key & REMOTE_KEY ? NULL : mr_of_key(key);

	return mr && mr->pd == pd && (priv == 0 || (mr->priv & priv)) &&
	       in_range(mr->address, mr->size, address, length);
}
