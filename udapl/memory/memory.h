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

/* All but next is fixed while it is visible. */
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
	/* first and last byte, as a segment addresses them; as asked, as are the next two */
	DAT_VADDR address, last;
	DAT_VLEN length;
	DAT_MEM_PRIV_FLAGS priv;
#if DAT_EDITION == 2
	DAT_VADDR bias; /* from the address of a segment to that in memory; 0: not zero-based */
#endif
};

/* Returns how far in memory a byte is from where a segment addresses it. */
static inline DAT_VADDR lmr_bias(const struct lmr *lmr)
{
#if DAT_EDITION == 2
	return lmr->bias;
#else
	(void)lmr;
	return 0;
#endif
}

/* For a zone that is retired. Frees its protection domain and its memory; no lock is held. */
void pz_destroy(struct pz *pz);
/*
 * For an abrupt close, of a region that is retired, whose holders are gone but for bindings that
 * are over. Deregisters it and frees its memory, also if the device refuses that. No lock is held.
 */
void lmr_destroy(struct lmr *lmr);
/* For an IA that is opened: returns LMR_CHAINS empty chains, or NULL without memory. */
struct lmr **lmr_table_new(void);
/* For an IA that is closed: frees what lmr_table_new returned. No LMR is in it. */
void lmr_table_destroy(struct lmr **table);
/*
 * Returns the live LMR of that context, held until obj_put; NULL if there is none. Any thread;
 * takes ia->lmr_lock.
 */
struct lmr *lmr_hold(struct ia *ia, DAT_LMR_CONTEXT context);
/*
 * As lmr_hold, for the fast path of binds, which holds rmr->lock and does not spin a second time:
 * returns NULL also if another thread has ia->lmr_lock at this moment.
 */
struct lmr *lmr_try_hold(struct ia *ia, DAT_LMR_CONTEXT context);

/* Returns whether the segment is not empty, and within the LMR. */
static inline bool lmr_covers(const struct lmr *lmr, const DAT_LMR_TRIPLET *segment)
{
	DAT_VADDR first = segment->virtual_address, last = first + segment->segment_length - 1;

	return lmr->address <= first && first <= last && last <= lmr->last;
}

/* The name of shared memory: a copy of it that lives as long as it is used. */
struct cookie;

/*
 * Takes a use of the cookie @bytes for the memory of @span. Returns DAT_INVALID_STATE if the span
 * is not shared memory, or the cookie is in use for other memory. Takes cookie_lock; may read
 * /proc.
 */
DAT_RETURN cookie_get(DAT_LMR_COOKIE bytes, const struct span *span, struct cookie **cookie);
/* Gives up a use; the last one frees the cookie. Takes cookie_lock. */
void cookie_put(struct cookie *cookie);
/* Returns our copy of the bytes, which stays as long as the caller's use. No lock is needed. */
DAT_LMR_COOKIE cookie_bytes(struct cookie *cookie);

/* In the child after a fork, where the caller is the only thread: forgets the parent's cookies. */
void cookies_after_fork(void);

/* ---- rmr.c ---- */

enum binding_flags {
	BINDING_COMPLETE = 1 << 0, /* the bind has completed successfully */
	BINDING_WINDOW = 1 << 1,   /* its bind binds the window, to its LMR */
	/* of DAT 2.0: its bind binds a window of its own, to its LMR; peers count from 0 */
	BINDING_OWN_WINDOW = 1 << 2,
	BINDING_ZERO_BASED = 1 << 3,
	BINDING_INVALIDATED = 1 << 4, /* by the peer, before its bind has completed here */
	BINDING_UNBINDS = 1 << 5,     /* its bind unbinds the window, which it does not use */
	/* complete, and bound by a window that was replaced, which is destroyed when this ends */
	BINDING_OLD_WINDOW = 1 << 6,
	BINDING_KEPT = 1 << 7, /* superseded, and in the list because of the window */
};

/* One bind: what the window covers from the completion of the bind on. */
struct binding {
	struct rmr *rmr;
	struct binding *next; /* rmr->lock; the one that was posted after it; or the next spare */
	struct lmr *lmr;      /* held; NULL: it binds nothing, so it unbinds what was bound */
	DAT_VADDR address;
	DAT_VLEN size; /* bytes */
	DAT_MEM_PRIV_FLAGS priv;
	DAT_RMR_CONTEXT key; /* rmr->lock; the window's own after this bind, bound or not */
	unsigned flags;	     /* rmr->lock; enum binding_flags */
	union {
		struct tp_mr *region; /* the range registered by itself, where there is no window */
		struct tp_mw *own_window; /* BINDING_OWN_WINDOW, BINDING_OLD_WINDOW */
	};
	DAT_RMR_CONTEXT region_key; /* of either */
	struct release release;	    /* what goes back to the device when the binding is over */
	bool frees_rmr;		    /* the end of its release frees the memory of the RMR, too */
#if DAT_EDITION == 2
	struct binding *next_window; /* ia->ep_windows_lock; BINDING_OWN_WINDOW: of its chain */
#endif
};

struct rmr {
	struct obj obj;
	struct pz *pz; /* held */
	struct spinlock lock;
	/* lock; NULL: the device has no windows, or it is lost, as rmr.c says at its top */
	struct tp_mw *mw;
	/* lock; in the order of their posts; the last one that is complete is in force */
	struct binding *bindings, *latest;
	/* lock; for the next binds; none while the window is lost, or is to be */
	struct binding *spares;
	struct binding unbound; /* lock; in force at first, and after a bind that failed */
	bool freed;		/* lock; the end of the last bind in flight destroys it */
	/* lock; there is a window and the RMR was not freed, so binds complete on the fast path */
	bool completes_fast;
	/*
	 * lock; of the window: a bind was flushed, and perhaps executed; no more binds of it are
	 * posted
	 */
	bool key_unknown;
#if DAT_EDITION == 2
	/*
	 * Fixed; its scope is the endpoint that it is bound on: it has no window of its own, each
	 * binding has one. No bind of it is fast, so fast_pz is the zone of no endpoint.
	 */
	bool of_ep;
	struct pz *fast_pz; /* fixed */
#endif
};

/* Returns whether its scope is an endpoint: dat_rmr_create_for_ep has made it. */
static inline bool rmr_is_of_ep(const struct rmr *rmr)
{
#if DAT_EDITION == 2
	return rmr->of_ep;
#else
	(void)rmr;
	return false;
#endif
}

/* Returns the zone of the endpoints through which a bind may be fast. */
static ALWAYS_INLINE struct pz *rmr_fast_pz(const struct rmr *rmr)
{
#if DAT_EDITION == 2
	return rmr->fast_pz;
#else
	return rmr->pz;
#endif
}

/* Returns whether its bind binds a window of its own. */
static inline bool binding_has_own_window(const struct binding *binding)
{
	return DAT_EDITION == 2 && binding->flags & BINDING_OWN_WINDOW;
}

/* Returns whether peers address its first byte by 0. */
static inline bool binding_is_zero_based(const struct binding *binding)
{
	return DAT_EDITION == 2 && binding->flags & BINDING_ZERO_BASED;
}

/* Returns whether its bind binds the window. If not, its range, if any, is registered. */
static inline bool binding_uses_window(const struct binding *binding)
{
	return binding->flags & BINDING_WINDOW;
}

/*
 * For the post of a bind: returns a spare binding, or NULL if there is none. The caller sets the
 * range and the LMR; the flags are BINDING_WINDOW, and it has no region.
 */
static inline struct binding *spare_take_locked(struct rmr *rmr)
{
	struct binding *spare = rmr->spares;

	assert_locked(&rmr->lock);
	if (likely(spare))
		rmr->spares = spare->next;
	return spare;
}

/* For the post of a bind, just before it: puts the binding behind all others. */
static inline void binding_append_locked(struct rmr *rmr, struct binding *binding)
{
	assert_locked(&rmr->lock);
	debug_assert(!rmr->latest->next && !(binding->flags & BINDING_COMPLETE));
	binding->next = NULL;
	rmr->latest->next = binding;
	rmr->latest = binding;
}

/*
 * For the post of a bind: returns a new binding of @rmr, else all zero, or NULL without memory. No
 * lock is held.
 */
struct binding *binding_alloc(struct rmr *rmr);
/* As binding_alloc, but takes a spare one if there is any, and sets it to zero. Takes rmr->lock. */
struct binding *binding_take(struct rmr *rmr);
/*
 * The end of a binding that was taken and never appended: puts its LMR, if it has one, and makes a
 * spare one of it. No lock is held, because its region, if any, goes back to the device.
 */
void binding_discard(struct binding *binding);
/* Returns the context by which peers use the range; 0 if nothing is bound. */
DAT_RMR_CONTEXT binding_context(const struct binding *binding);
/* Returns what is bound, as the consumer asked for it; without an LMR its context is 0. */
DAT_LMR_TRIPLET binding_triplet(const struct binding *binding);
/*
 * The end of a bind that was appended, for whoever retires its slot: any thread, with or without
 * evd->lock; takes rmr->lock. @status is that of its completion. From here on @binding may be gone.
 * Returns whether release_run must be called before the consumer sees the completion.
 */
bool rmr_bind_completed(struct binding *binding, DAT_DTO_COMPLETION_STATUS status);
/*
 * The same of a bind that was appended and not posted after all; release_run is to follow, when the
 * caller holds no lock.
 */
void rmr_bind_not_posted(struct binding *binding);
#if DAT_EDITION == 2
/*
 * For the post of a bind: @binding has got a window of its own, and the context of that. From here
 * on a peer that invalidates it ends the binding. No lock is held.
 */
void binding_window_made(struct binding *binding);
/*
 * The peer has invalidated the window of an endpoint that has the context @key: nothing is bound to
 * it from here on. It is called where completions are taken, with evd->lock held. Returns whether
 * release_run must be called before the consumer sees the completion.
 */
bool rmr_invalidated(struct ia *ia, DAT_RMR_CONTEXT key);
#endif
/*
 * For the post of a bind: destroys a window whose key is not known, if nothing is in force by it,
 * and no bind in flight binds or unbinds it. No lock is held.
 */
void rmr_end_unused_window(struct rmr *rmr);
/*
 * For the post of a bind: returns whether the window can't be bound or replaced, because its key is
 * not known, and a bind in flight binds or unbinds it. Then the range is registered. No lock is
 * held.
 */
bool rmr_window_waits(struct rmr *rmr);
/*
 * For the post of a bind of the window: makes another one if @rmr has lost its own, or if nobody
 * knows the key of that, and no bind in flight binds or unbinds it. What is in force by it remains
 * so. No lock is held. Returns DAT_SUCCESS also where the device has no windows.
 */
DAT_RETURN rmr_renew_window(struct rmr *rmr);
/*
 * For an RMR that is retired: releases its window and what that is bound to, now, or at the end of
 * the last bind in flight. No lock is held; may block in a system call of the device.
 */
void rmr_destroy(struct rmr *rmr);

/* ---- the calls of DAT that entry/provider.c has in its table: no lock is held ---- */

DAT_RETURN pz_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE *pz);
DAT_RETURN pz_query(DAT_PZ_HANDLE pz, DAT_PZ_PARAM_MASK mask, DAT_PZ_PARAM *param);
DAT_RETURN pz_free(DAT_PZ_HANDLE pz);
#if DAT_EDITION == 2
DAT_RETURN lmr_create(DAT_IA_HANDLE ia, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region,
		      DAT_VLEN length, DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS priv,
		      DAT_VA_TYPE va_type, DAT_LMR_HANDLE *lmr, DAT_LMR_CONTEXT *lmr_context,
		      DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_size,
		      DAT_VADDR *registered_address);
#else
DAT_RETURN lmr_create(DAT_IA_HANDLE ia, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region,
		      DAT_VLEN length, DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS priv,
		      DAT_LMR_HANDLE *lmr, DAT_LMR_CONTEXT *lmr_context,
		      DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_size,
		      DAT_VADDR *registered_address);
#endif
DAT_RETURN lmr_query(DAT_LMR_HANDLE lmr, DAT_LMR_PARAM_MASK mask, DAT_LMR_PARAM *param);
DAT_RETURN lmr_free(DAT_LMR_HANDLE lmr);
DAT_RETURN lmr_sync_rdma_read(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *segments, DAT_VLEN nseg);
DAT_RETURN lmr_sync_rdma_write(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *segments, DAT_VLEN nseg);
DAT_RETURN rmr_create(DAT_PZ_HANDLE pz, DAT_RMR_HANDLE *rmr);
#if DAT_EDITION == 2
DAT_RETURN rmr_create_for_ep(DAT_PZ_HANDLE pz, DAT_RMR_HANDLE *rmr);
#endif
DAT_RETURN rmr_query(DAT_RMR_HANDLE rmr, DAT_RMR_PARAM_MASK mask, DAT_RMR_PARAM *param);
DAT_RETURN rmr_free(DAT_RMR_HANDLE rmr);

#endif
