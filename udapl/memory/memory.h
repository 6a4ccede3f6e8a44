/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection zones, regions, and what windows are bound to. */
#ifndef UDAPL_MEMORY_H
#define UDAPL_MEMORY_H

#include "core/core.h"
#include "host/maps.h"

#define LOCAL_PRIVS  ((unsigned)(DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG))
#define REMOTE_PRIVS ((unsigned)(DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG))

/* ---- pz.c, lmr.c, cookie.c ---- */

struct pz {
	struct obj obj;
	struct tp_pd *pd;
};

/* Fixed while it is alive. */
struct lmr {
	struct obj obj;
	struct lmr *next;      /* ia->lmr_lock; in its chain */
	struct pz *pz;	       /* held */
	struct pz *window_pz;  /* where windows can be bound to it: pz, or NULL */
	unsigned window_never; /* privileges that no window on it can give */
	struct tp_mr *mr;
	struct tp_mr_info info;
	struct cookie *cookie; /* used; NULL but for SHARED_VIRTUAL */
	DAT_MEM_TYPE type;
	DAT_REGION_DESCRIPTION region;
	DAT_VADDR address, last; /* first and last byte, as asked, as are the next two */
	DAT_VLEN length;
	DAT_MEM_PRIV_FLAGS priv;
};

void pz_destroy(struct pz *pz);
void lmr_destroy(struct lmr *lmr); /* retired already */
/* LMR_CHAINS empty chains; NULL: no memory. */
struct lmr **lmr_table_new(void);
void lmr_table_destroy(struct lmr **table);
/* The live LMR of that context, held; NULL if there is none. */
struct lmr *lmr_hold(struct ia *ia, DAT_LMR_CONTEXT context);
/*
 * As lmr_hold, for callers that hold a spinlock: returns NULL also if another thread looks an LMR
 * up at this moment.
 */
struct lmr *lmr_try_hold(struct ia *ia, DAT_LMR_CONTEXT context);

/* Is the segment not empty, and within the LMR? */
static inline bool lmr_covers(const struct lmr *lmr, const DAT_LMR_TRIPLET *segment)
{
	DAT_VADDR first = segment->virtual_address, last = first + segment->segment_length - 1;

	return lmr->address <= first && first <= last && last <= lmr->last;
}

/* The name of shared memory: a copy of it that lives as long as it is used. */
struct cookie;

/*
 * A use of @bytes for @span. DAT_INVALID_STATE: the span is not shared memory, or the cookie is in
 * use for other memory.
 */
DAT_RETURN cookie_get(DAT_LMR_COOKIE bytes, const struct span *span, struct cookie **cookie);
void cookie_put(struct cookie *cookie);
DAT_LMR_COOKIE cookie_bytes(struct cookie *cookie);

void cookies_after_fork(void);

/* ---- rmr.c ---- */

enum binding_flags {
	BINDING_COMPLETE = 1 << 0, /* the bind has completed successfully */
	BINDING_WINDOW = 1 << 1,   /* the window is bound for it, to its LMR */
};

/* One bind: what the window covers from its completion on. NULL for an LMR: nothing. */
struct binding {
	struct rmr *rmr;
	struct binding *next; /* rmr->lock; posted after this one, or the next spare one */
	struct lmr *lmr;      /* held */
	DAT_VADDR address;
	DAT_VLEN size;
	DAT_MEM_PRIV_FLAGS priv;
	DAT_RMR_CONTEXT key;  /* rmr->lock; the window's own after this bind, bound or not */
	unsigned flags;	      /* rmr->lock; enum binding_flags */
	struct tp_mr *region; /* the range registered by itself, where no window can be bound */
	DAT_RMR_CONTEXT region_key;
	struct release release; /* what goes back to the device when the binding is over */
	bool frees_rmr;		/* the end of its release frees the memory of the RMR, too */
};

struct rmr {
	struct obj obj;
	struct pz *pz; /* held */
	struct spinlock lock;
	/* lock; NULL: the device has no windows, or it was released after a failed bind */
	struct tp_mw *mw;
	/* lock; as posted; exactly one is complete: that is in force */
	struct binding *bindings, *latest;
	struct binding *spares; /* lock; none while the window is lost */
	struct binding unbound; /* lock; in force at first, and after a bind that failed */
	bool freed;		/* lock; the last bind in flight destroys it */
	/* lock; there is a window and the RMR was not freed, so binds complete on the fast path */
	bool completes_fast;
};

/* Is the window bound for it? Else its range, if any, is registered. */
static inline bool binding_uses_window(const struct binding *binding)
{
	return binding->flags & BINDING_WINDOW;
}

/* A spare binding; NULL if there is none. All but its region, which is NULL, is yet to be set. */
static inline struct binding *spare_take_locked(struct rmr *rmr)
{
	struct binding *spare = rmr->spares;

	assert_locked(&rmr->lock);
	if (likely(spare))
		rmr->spares = spare->next;
	return spare;
}

/* As the bind is posted: it comes after all others. */
static inline void binding_append_locked(struct rmr *rmr, struct binding *binding)
{
	assert_locked(&rmr->lock);
	debug_assert(!rmr->latest->next && !(binding->flags & BINDING_COMPLETE));
	binding->next = NULL;
	rmr->latest->next = binding;
	rmr->latest = binding;
}

/* For the post of a bind: a binding of @rmr that is all zero. NULL: no memory. */
struct binding *binding_alloc(struct rmr *rmr);
/* As binding_alloc, but a spare one if there is any. */
struct binding *binding_take(struct rmr *rmr);
/*
 * The end of a binding that was taken, and never appended: puts its LMR, if it has one. No lock is
 * held.
 */
void binding_discard(struct binding *binding);
/* The context by which peers use it; 0: nothing is bound. */
DAT_RMR_CONTEXT binding_context(const struct binding *binding);
/* What was bound, as the consumer asked for it. */
DAT_LMR_TRIPLET binding_triplet(const struct binding *binding);
/*
 * Completion of a bind, called as its slot is retired. Takes rmr->lock. True: release_run must be
 * called before the consumer sees the completion.
 */
bool rmr_bind_completed(struct binding *binding, DAT_DTO_COMPLETION_STATUS status);
/*
 * Makes another window if a bind that failed has taken the one of @rmr with it. No lock is held.
 * For the post of a bind.
 */
DAT_RETURN rmr_renew_window(struct rmr *rmr);
void rmr_destroy(struct rmr *rmr); /* retired already; binds may be in flight */

/* ---- calls ---- */

DAT_RETURN pz_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE *pz);
DAT_RETURN pz_query(DAT_PZ_HANDLE pz, DAT_PZ_PARAM_MASK mask, DAT_PZ_PARAM *param);
DAT_RETURN pz_free(DAT_PZ_HANDLE pz);
DAT_RETURN lmr_create(DAT_IA_HANDLE ia, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region,
		      DAT_VLEN length, DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS priv,
		      DAT_LMR_HANDLE *lmr, DAT_LMR_CONTEXT *lmr_context,
		      DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_size,
		      DAT_VADDR *registered_address);
DAT_RETURN lmr_query(DAT_LMR_HANDLE lmr, DAT_LMR_PARAM_MASK mask, DAT_LMR_PARAM *param);
DAT_RETURN lmr_free(DAT_LMR_HANDLE lmr);
DAT_RETURN lmr_sync_rdma_read(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *segments, DAT_VLEN nseg);
DAT_RETURN lmr_sync_rdma_write(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *segments, DAT_VLEN nseg);
DAT_RETURN rmr_create(DAT_PZ_HANDLE pz, DAT_RMR_HANDLE *rmr);
DAT_RETURN rmr_query(DAT_RMR_HANDLE rmr, DAT_RMR_PARAM_MASK mask, DAT_RMR_PARAM *param);
DAT_RETURN rmr_free(DAT_RMR_HANDLE rmr);

#endif
