/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Windows: create, free, query, and the bindings of one, from the post of a bind to the release of
 * what it bound. endpoint/bind.c posts the binds.
 *
 * A binding is taken from the window's spares, or allocated, and appended to the window's list as
 * it is posted. In between the window has both bindings, and each holds its LMR. Then one of three
 * things happens to it:
 *	complete	Its bind succeeded: it is in force until a later one completes. The one that
 *			it supersedes is released.
 *	cancel		Its bind was not posted, or it was flushed, which counts as never executed.
 *			It leaves the list as if it had never been there, and is released.
 *	fail		Its bind failed. Nothing is in force, and the window goes with it.
 * To release a binding is to make it a spare again, or, if the device has a region or a window to
 * be freed for it, to queue it for release.c. One binding of the list is always complete: at first,
 * and after a failure, that is rmr->unbound.
 *
 * Each bind gives the window another key, derived from the one before. A device may flush a bind
 * that it has executed, if a request before it was not over. So after a flush nobody knows what key
 * the window has, and nothing more is bound by it. It is lost as soon as no binding is in force by
 * it, and no bind in flight binds or unbinds it, which would fail without it:
 *	- If only the binding in force uses it, another window is made for the next bind, and the
 *	  old one becomes that of the binding, and is destroyed with it.
 *	- While such binds are in flight, the ranges of other binds are registered instead.
 *
 * Behind such a bind, or behind an unbind in flight, others leave the window as it is. If one of
 * these is in force, what the window was bound to before stays in the list, although it is
 * superseded: it holds its LMR until the window is unbound or lost.
 *
 * A window whose scope is an endpoint is another matter for a device: it belongs to the queue pair
 * on which it was bound, and can't be bound again before it is invalidated. So each binding of such
 * an RMR brings a window of its own, which is destroyed when the binding is released. The peer may
 * invalidate it: then the binding is found by the context, and is released as if it were unbound.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/race.h"
#include "base/refuse.h"
#include "memory.h"

/* ---- the list of bindings, and the spares ---- */

static bool binding_is_complete(const struct binding *binding)
{
	return binding->flags & BINDING_COMPLETE;
}

struct binding *binding_alloc(struct rmr *rmr)
{
	struct binding *binding = malloc(sizeof(*binding));

	if (binding)
		*binding = (struct binding){ .rmr = rmr };
	return binding;
}

struct binding *binding_take(struct rmr *rmr)
{
	struct binding *binding;

	spin_lock(&rmr->lock);
	binding = spare_take_locked(rmr);
	spin_unlock(&rmr->lock);
	if (!binding)
		return binding_alloc(rmr);
	*binding = (struct binding){ .rmr = rmr };
	return binding;
}

/* The binding is in no list, holds no LMR and has no region. */
static void spare_add_locked(struct rmr *rmr, struct binding *binding)
{
	assert_locked(&rmr->lock);
	binding->flags = BINDING_WINDOW; /* what the fast path binds, which does not set them */
	binding->next = rmr->spares;
	rmr->spares = binding;
}

static void binding_insert_locked(struct rmr *rmr, struct binding *binding, struct binding *after)
{
	assert_locked(&rmr->lock);
	binding->next = after->next;
	after->next = binding;
	if (rmr->latest == after)
		rmr->latest = binding;
}

/*
 * Takes a binding out of the list, if it is there; rmr->unbound may not be. If it was the latest,
 * the one before it becomes the latest.
 */
static void binding_unlink_locked(struct rmr *rmr, struct binding *binding)
{
	struct binding **at = &rmr->bindings, *before = NULL;

	assert_locked(&rmr->lock);
	while (*at && *at != binding) {
		before = *at;
		at = &before->next;
	}
	if (!*at)
		return;
	*at = binding->next;
	if (rmr->latest == binding)
		rmr->latest = before;
}

/* ---- the scope ---- */

#if DAT_EDITION == 2
static void rmr_set_scope(struct rmr *rmr, bool of_ep)
{
	static struct pz no_pz;

	rmr->of_ep = of_ep;
	rmr->fast_pz = of_ep ? &no_pz : rmr->pz;
}
#else
static void rmr_set_scope(struct rmr *rmr, bool of_ep)
{
	(void)rmr, (void)of_ep;
}
#endif

/* ---- the windows of endpoints, by context ---- */

#if DAT_EDITION == 2
static struct binding **chain_of_locked(struct ia *ia, DAT_RMR_CONTEXT key)
{
	assert_locked(&ia->ep_windows_lock);
	return &ia->ep_windows[(key >> 8) % EP_WINDOW_CHAINS];
}

/*
 * It becomes the first of its chain: the one before that has the same context, if there is one, has
 * a window that is destroyed.
 */
void binding_window_made(struct binding *binding)
{
	struct ia *ia = binding->rmr->obj.ia;
	struct binding **chain;

	spin_lock(&ia->ep_windows_lock);
	chain = chain_of_locked(ia, binding->region_key);
	binding->next_window = *chain;
	*chain = binding;
	spin_unlock(&ia->ep_windows_lock);
}

static void binding_window_ended(struct binding *binding)
{
	struct ia *ia = binding->rmr->obj.ia;
	struct binding **at;

	if (!binding_has_own_window(binding))
		return;
	spin_lock(&ia->ep_windows_lock);
	at = chain_of_locked(ia, binding->region_key);
	while (*at != binding)
		at = &(*at)->next_window;
	*at = binding->next_window;
	spin_unlock(&ia->ep_windows_lock);
}

/* Returns the binding whose window has the context @key, or NULL. */
static struct binding *binding_of_key_locked(struct ia *ia, DAT_RMR_CONTEXT key)
{
	struct binding *binding = *chain_of_locked(ia, key);

	assert_locked(&ia->ep_windows_lock);
	while (binding && binding->region_key != key)
		binding = binding->next_window;
	return binding;
}
#else
static void binding_window_ended(struct binding *binding)
{
	(void)binding;
}
#endif

/* ---- release ---- */

/* No bind is in flight, no release is queued, and no handle leads here any more. */
static void rmr_free_memory(struct rmr *rmr)
{
	if (rmr->mw)
		tp_mw_destroy(rmr->mw);
	while (rmr->spares) {
		struct binding *next = rmr->spares->next;

		free(rmr->spares);
		rmr->spares = next;
	}
	obj_put(&rmr->pz->obj);
	obj_free(&rmr->obj);
}

/* Returns whether the device has windows, and the RMR has lost its own. */
static bool window_is_lost_locked(const struct rmr *rmr)
{
	assert_locked(&rmr->lock);
	return !rmr->mw && rmr->obj.ia->attr->max_mw && !rmr_is_of_ep(rmr);
}

/* Returns whether nothing more is bound by the window, or it is lost: then there are no spares. */
static bool window_is_leaving_locked(const struct rmr *rmr)
{
	assert_locked(&rmr->lock);
	return rmr->key_unknown || window_is_lost_locked(rmr);
}

/*
 * Makes a spare one of a binding, and returns whether it did: not while the window is lost, because
 * to the fast path a spare means that there is one.
 */
static bool spare_add_unless_lost(struct rmr *rmr, struct binding *binding)
{
	bool kept;

	binding->region = NULL;
	spin_lock(&rmr->lock);
	kept = !window_is_leaving_locked(rmr);
	if (likely(kept))
		spare_add_locked(rmr, binding);
	spin_unlock(&rmr->lock);
	return kept;
}

/*
 * The last step of a release: the binding becomes a spare, or is freed. Releases are run in the
 * order in which they were queued, so the RMR is still there, unless this one was overtaken: then
 * that of the RMR may have been run.
 */
static void binding_released(struct release *release)
{
	struct binding *binding = container_of(release, struct binding, release);
	struct rmr *rmr = binding->rmr;

	binding_window_ended(binding);
	if (likely(!release->overtaken && !binding->frees_rmr) &&
	    likely(spare_add_unless_lost(rmr, binding)))
		return;
	if (binding->frees_rmr)
		rmr_free_memory(rmr);
	if (binding != &rmr->unbound)
		free(binding);
}

/*
 * Queues the release of a binding that is in no list: of its region and its hold on the LMR, and of
 * @window, unless that is NULL. The window is destroyed before the hold, and those of later
 * releases, end. Any thread, with or without rmr->lock.
 */
static void binding_defer_release(struct binding *binding, struct tp_mw *window)
{
	const bool own = binding_has_own_window(binding);

	debug_assert(!(binding->flags & BINDING_OLD_WINDOW));
	binding->release = (struct release){
		.region = own ? NULL : binding->region,
		.window = own ? binding->own_window : window,
		.held = binding->lmr ? &binding->lmr->obj : NULL,
		.done = binding_released,
	};
	release_defer(binding->rmr->obj.ia, &binding->release);
}

/*
 * Releases a binding that is in no list, and that peers are not meant to use any more: if it used
 * the window, that has been bound anew, or its end is queued. Returns whether a release was queued,
 * for release_run.
 */
static bool binding_release_locked(struct rmr *rmr, struct binding *binding)
{
	assert_locked(&rmr->lock);
	if (binding == &rmr->unbound)
		return false;
	if (binding->region || window_is_leaving_locked(rmr)) {
		binding_defer_release(binding, NULL);
		return true;
	}
	if (binding->lmr)
		obj_put(&binding->lmr->obj);
	spare_add_locked(rmr, binding);
	return false;
}

void binding_discard(struct binding *binding)
{
	struct rmr *rmr = binding->rmr;
	bool queued;

	spin_lock(&rmr->lock);
	queued = binding_release_locked(rmr, binding);
	spin_unlock(&rmr->lock);
	if (queued)
		release_run(rmr->obj.ia);
}

/* Without spares each bind takes the slow path. */
static void spares_release_locked(struct rmr *rmr)
{
	struct binding *spare;

	assert_locked(&rmr->lock);
	rmr->completes_fast = false;
	while ((spare = spare_take_locked(rmr))) {
		spare->lmr = NULL;		    /* it is not held any more */
		binding_defer_release(spare, NULL); /* free() is not for spinlocks */
	}
}

/* The RMR loses its window, which is destroyed when @binding, which is in no list, is released. */
static void window_lose_locked(struct rmr *rmr, struct binding *binding)
{
	struct tp_mw *window = rmr->mw;

	assert_locked(&rmr->lock);
	rmr->mw = NULL;
	rmr->key_unknown = false;
	binding_defer_release(binding, window);
	spares_release_locked(rmr);
}

/* Returns whether the device's window is bound or unbound by the bind of @binding. */
static bool binding_changes_window(const struct binding *binding)
{
	return binding->flags & (BINDING_WINDOW | BINDING_UNBINDS);
}

/* Returns the binding in force: the last one of those that are complete. */
static struct binding *in_force_locked(const struct rmr *rmr)
{
	struct binding *in_force = NULL;

	assert_locked(&rmr->lock);
	for (struct binding *binding = rmr->bindings; binding; binding = binding->next)
		if (binding_is_complete(binding))
			in_force = binding;
	debug_assert(in_force);
	return in_force;
}

/* Returns whether a bind in flight binds or unbinds the window. */
static bool window_is_awaited_locked(const struct rmr *rmr)
{
	assert_locked(&rmr->lock);
	for (const struct binding *binding = rmr->bindings; binding; binding = binding->next)
		if (!binding_is_complete(binding) && binding_changes_window(binding))
			return true;
	return false;
}

/* Returns whether nobody knows the key of the window, and nothing needs it any more. */
static bool window_is_unused_locked(const struct rmr *rmr)
{
	assert_locked(&rmr->lock);
	return rmr->key_unknown && !window_is_awaited_locked(rmr) &&
	       !binding_uses_window(in_force_locked(rmr));
}

/*
 * Returns the binding that stays in the list even if it is superseded, or NULL: the window is bound
 * to it, as far as is known, and a bind in flight needs the window: one that unbinds it, so that
 * the bind behind has left it as it is, or any, if nobody knows its key.
 */
static struct binding *binding_kept_locked(const struct rmr *rmr)
{
	struct binding *bound = NULL;

	assert_locked(&rmr->lock);
	if (!rmr->mw || !window_is_awaited_locked(rmr))
		return NULL;
	for (struct binding *binding = rmr->bindings; binding; binding = binding->next)
		if (binding_is_complete(binding) && binding_changes_window(binding))
			bound = binding;
	return bound && binding_uses_window(bound) ? bound : NULL;
}

/*
 * Returns the old window of a binding that is about to be released, which has it no longer, or NULL
 * if there is none.
 */
static struct tp_mw *old_window_take(struct binding *binding)
{
	struct tp_mw *window = binding->own_window;

	if (!(binding->flags & BINDING_OLD_WINDOW))
		return NULL;
	binding->flags &= ~(unsigned)BINDING_OLD_WINDOW;
	binding->own_window = NULL;
	return window;
}

/*
 * Releases @binding, which is in no list any more, and was superseded. Its old window goes along,
 * or that of the RMR, if nothing needs that any more. Returns whether a release was queued.
 */
static bool superseded_release_locked(struct rmr *rmr, struct binding *binding)
{
	struct tp_mw *old_window = old_window_take(binding);

	assert_locked(&rmr->lock);
	if (old_window)
		binding_defer_release(binding, old_window);
	else if (binding != &rmr->unbound && window_is_unused_locked(rmr))
		window_lose_locked(rmr, binding);
	else
		return binding_release_locked(rmr, binding);
	return true;
}

/*
 * Releases the bindings that are complete and not in force, but for one that has to stay. Returns
 * whether a release was queued.
 */
static COLD bool release_superseded_locked(struct rmr *rmr)
{
	const struct binding *const in_force = in_force_locked(rmr);
	struct binding *const kept = binding_kept_locked(rmr);
	struct binding **at = &rmr->bindings;
	bool queued = false;

	assert_locked(&rmr->lock);
	if (kept && kept != in_force)
		kept->flags |= BINDING_KEPT;
	while (*at != in_force) {
		struct binding *binding = *at;

		if (binding_is_complete(binding) && binding != kept) {
			*at = binding->next;
			queued |= superseded_release_locked(rmr, binding);
		} else {
			at = &binding->next;
		}
	}
	return queued;
}

/* ---- the end of a bind: these return whether a release was queued ---- */

/*
 * The bind has succeeded. Usually the first of the list was in force until now, and the binding
 * supersedes it. It need not be so if the first one is not complete, because binds of several
 * endpoints may complete in another order than that of their posts, or if it has concerned the
 * window or has an old one, because then a window may have to go, or the first one to stay.
 */
static bool binding_complete_locked(struct rmr *rmr, struct binding *binding)
{
	struct binding *first = rmr->bindings;
	const unsigned looked_at = BINDING_COMPLETE | BINDING_WINDOW | BINDING_UNBINDS |
				   BINDING_OLD_WINDOW;
	const bool usual = (first->flags & looked_at) == BINDING_COMPLETE;

	assert_locked(&rmr->lock);
	binding->flags |= BINDING_COMPLETE;
	if (unlikely(!usual))
		return release_superseded_locked(rmr);
	rmr->bindings = first->next;
	return binding_release_locked(rmr, first);
}

/* Returns whether no bind is in flight: the only binding of the list is the one in force. */
static bool rmr_is_idle_locked(const struct rmr *rmr)
{
	assert_locked(&rmr->lock);
	return rmr->bindings == rmr->latest;
}

/*
 * The binding leaves the list as if it had never been there. If it was the last one that needed the
 * window, of which nobody knows the key, that goes along, and then the binding that has stayed for
 * it.
 */
static bool binding_cancel_locked(struct rmr *rmr, struct binding *binding)
{
	assert_locked(&rmr->lock);
	binding_unlink_locked(rmr, binding);
	if (likely(!rmr->key_unknown))
		return binding_release_locked(rmr, binding);
	if (window_is_unused_locked(rmr)) {
		window_lose_locked(rmr, binding);
		(void)release_superseded_locked(rmr);
	} else {
		binding_defer_release(binding, NULL);
	}
	return true;
}

/*
 * The bind was flushed, which counts as never executed. The device may have executed it all the
 * same: so if it concerned the window, nobody knows the key of that any more.
 */
static COLD bool binding_flush_locked(struct rmr *rmr, struct binding *binding)
{
	assert_locked(&rmr->lock);
	if (rmr->mw && binding_changes_window(binding)) {
		rmr->key_unknown = true;
		spares_release_locked(rmr);
	}
	return binding_cancel_locked(rmr, binding);
}

bool rmr_window_waits(struct rmr *rmr)
{
	bool waits;

	spin_lock(&rmr->lock);
	waits = rmr->key_unknown && window_is_awaited_locked(rmr);
	spin_unlock(&rmr->lock);
	return waits;
}

void rmr_end_unused_window(struct rmr *rmr)
{
	struct tp_mw *window = NULL;

	spin_lock(&rmr->lock);
	if (window_is_unused_locked(rmr)) {
		window = rmr->mw;
		rmr->mw = NULL;
		rmr->key_unknown = false;
	}
	spin_unlock(&rmr->lock);
	if (window)
		tp_mw_destroy(window);
}

#if DAT_EDITION == 2
static bool is_listed_locked(const struct rmr *rmr, const struct binding *binding)
{
	const struct binding *at = rmr->bindings;

	assert_locked(&rmr->lock);
	while (at && at != binding)
		at = at->next;
	return at;
}

/*
 * The peer has invalidated the window of @binding, so nothing is in force from there on: that is
 * rmr->unbound, which is put behind it. Until its bind has completed it is only marked.
 */
static bool binding_invalidate_locked(struct rmr *rmr, struct binding *binding)
{
	assert_locked(&rmr->lock);
	if (rmr->freed || !is_listed_locked(rmr, binding)) /* it is being released */
		return false;
	binding->flags |= BINDING_INVALIDATED;
	if (!binding_is_complete(binding))
		return false;
	binding_unlink_locked(rmr, &rmr->unbound);
	binding_insert_locked(rmr, &rmr->unbound, binding);
	return release_superseded_locked(rmr);
}

/* The binding is in a chain until its window is destroyed, so its RMR was not freed. */
bool rmr_invalidated(struct ia *ia, DAT_RMR_CONTEXT key)
{
	struct binding *binding;
	bool queued = false;

	spin_lock(&ia->ep_windows_lock);
	binding = binding_of_key_locked(ia, key);
	if (binding) {
		spin_lock(&binding->rmr->lock);
		queued = binding_invalidate_locked(binding->rmr, binding);
		spin_unlock(&binding->rmr->lock);
	}
	spin_unlock(&ia->ep_windows_lock);
	return queued;
}

/* The bind has succeeded. If the peer has invalidated the window since, nothing is in force. */
static bool binding_of_ep_complete_locked(struct rmr *rmr, struct binding *binding)
{
	const bool invalidated = binding->flags & BINDING_INVALIDATED;
	const bool queued = binding_complete_locked(rmr, binding);

	return invalidated ? binding_invalidate_locked(rmr, binding) || queued : queued;
}
#else
static bool binding_of_ep_complete_locked(struct rmr *rmr, struct binding *binding)
{
	return binding_complete_locked(rmr, binding);
}
#endif

/*
 * The bind has failed, and nothing is in force from here on. The device may still serve the binding
 * before it, and only the end of the window makes sure that it does not. With the window those
 * bindings are lost, too, that were posted later, on another endpoint, and have completed: so
 * rmr->unbound, which is complete, is put behind the last one of them, and supersedes them.
 */
static bool binding_fail_locked(struct rmr *rmr, struct binding *binding)
{
	struct binding *last_lost = binding;

	assert_locked(&rmr->lock);
	for (struct binding *later = binding->next; later; later = later->next)
		if (binding_is_complete(later) && binding_uses_window(later))
			last_lost = later;
	binding_unlink_locked(rmr, &rmr->unbound);
	binding_insert_locked(rmr, &rmr->unbound, last_lost);
	binding_unlink_locked(rmr, binding);
	window_lose_locked(rmr, binding);
	(void)release_superseded_locked(rmr);
	return true;
}

/*
 * Queues the release of the RMR itself, with its window and the binding in force. If that has an
 * old window, the one of the RMR is unbound, and rmr_free_memory destroys it. No bind is in flight,
 * and no handle leads here any more. The lock is not held, because from here on any thread may run
 * the release, which frees the RMR.
 */
static COLD void rmr_defer_release(struct rmr *rmr)
{
	struct binding *in_force = rmr->latest;
	struct tp_mw *window;

	spin_lock(&rmr->lock); /* a release that was queued before looks at the window */
	window = old_window_take(in_force);
	if (!window) {
		window = rmr->mw;
		rmr->mw = NULL;
	}
	spin_unlock(&rmr->lock);
	in_force->frees_rmr = true;
	binding_defer_release(in_force, window);
}

/* A bind has ended. Returns whether that was what the release of the RMR has waited for. */
static bool bind_ended_unlock(struct rmr *rmr)
{
	const bool over = rmr->freed && rmr_is_idle_locked(rmr);

	assert_locked(&rmr->lock);
	spin_unlock(&rmr->lock);
	if (over)
		rmr_defer_release(rmr);
	return over;
}

/* What rmr_bind_completed does, in any case. */
NOINLINE HOT static bool bind_completed_unlock(struct binding *binding,
					       DAT_DTO_COMPLETION_STATUS status)
{
	struct rmr *rmr = binding->rmr;
	bool queued;

	assert_locked(&rmr->lock);
	if (status == DAT_DTO_SUCCESS)
		queued = binding_of_ep_complete_locked(rmr, binding);
	else if (status == DAT_DTO_ERR_FLUSHED)
		queued = binding_flush_locked(rmr, binding);
	else
		queued = binding_fail_locked(rmr, binding);
	return bind_ended_unlock(rmr) || queued;
}

static COLD bool bind_completed_contended(struct binding *binding, DAT_DTO_COMPLETION_STATUS status)
{
	spin_lock(&binding->rmr->lock);
	return bind_completed_unlock(binding, status);
}

/*
 * The fast path: the first binding of the list was in force until now and used the window, and
 * @binding, which is the next one, supersedes it. It has no region, so it becomes a spare at once.
 */
bool rmr_bind_completed(struct binding *binding, DAT_DTO_COMPLETION_STATUS status)
{
	struct rmr *rmr = binding->rmr;
	struct binding *first;

	if (unlikely(!spin_trylock(&rmr->lock)))
		return bind_completed_contended(binding, status);
	first = rmr->bindings;
	if (unlikely(status || first->flags != (BINDING_COMPLETE | BINDING_WINDOW) ||
		     first->next != binding || !rmr->completes_fast))
		return bind_completed_unlock(binding, status);
	binding->flags |= BINDING_COMPLETE;
	rmr->bindings = first->next;
	obj_put(&first->lmr->obj);
	spare_add_locked(rmr, first);
	spin_unlock(&rmr->lock);
	return false;
}

/*
 * What other threads have posted behind an unbind, though one bind of an RMR goes on at a time,
 * relies on that: then it is as if it had been flushed, so that the window goes.
 */
void rmr_bind_not_posted(struct binding *binding)
{
	struct rmr *rmr = binding->rmr;

	race_reach(RACE_CANCEL, rmr);
	spin_lock(&rmr->lock);
	if (binding->flags & BINDING_UNBINDS && binding != rmr->latest)
		(void)binding_flush_locked(rmr, binding);
	else
		(void)binding_cancel_locked(rmr, binding);
	(void)bind_ended_unlock(rmr);
}

/* ---- create and free ---- */

/*
 * Makes the spares of a new RMR. Usually two are needed: one binding is in force, the next in
 * flight. Returns false without memory.
 */
static bool spares_prepare(struct rmr *rmr)
{
	struct binding *one = binding_take(rmr), *other = binding_take(rmr);

	spin_lock(&rmr->lock);
	if (one)
		spare_add_locked(rmr, one);
	if (other)
		spare_add_locked(rmr, other);
	spin_unlock(&rmr->lock);
	return one && other;
}

static DAT_RETURN rmr_init(struct rmr *rmr)
{
	spin_init(&rmr->lock, RANK_RMR);
	rmr->unbound = (struct binding){ .rmr = rmr, .flags = BINDING_COMPLETE };
	rmr->bindings = rmr->latest = &rmr->unbound;
	if (!spares_prepare(rmr))
		return NO_RESOURCE(MEMORY);
	if (!rmr->obj.ia->attr->max_mw || rmr_is_of_ep(rmr))
		return DAT_SUCCESS;
	rmr->completes_fast = true;
	return status_of_made(tp_mw_create(rmr->pz->pd, &rmr->mw, &rmr->unbound.key),
			      DAT_RESOURCE_MEMORY_REGION);
}

static bool window_is_leaving(struct rmr *rmr)
{
	bool leaving;

	spin_lock(&rmr->lock);
	leaving = window_is_leaving_locked(rmr);
	spin_unlock(&rmr->lock);
	return leaving;
}

/*
 * If nobody knows the key of the window, a binding is in force by it, and no bind in flight needs
 * it, it becomes the old window of that binding. Returns whether it did.
 */
static bool window_leave_locked(struct rmr *rmr)
{
	struct binding *in_force = in_force_locked(rmr);

	assert_locked(&rmr->lock);
	if (!rmr->key_unknown || window_is_awaited_locked(rmr) || !binding_uses_window(in_force))
		return false;
	in_force->own_window = rmr->mw;
	in_force->region_key = in_force->key;
	in_force->flags ^= BINDING_WINDOW | BINDING_OLD_WINDOW;
	rmr->key_unknown = false;
	return true;
}

/*
 * @mw, whose first bind derives its key from @key, takes the place of the window that was lost, or
 * whose key is not known. Returns false if another thread has been faster.
 */
static bool window_replace(struct rmr *rmr, struct tp_mw *mw, DAT_RMR_CONTEXT key)
{
	bool replaced;

	spin_lock(&rmr->lock);
	replaced = window_is_lost_locked(rmr) || window_leave_locked(rmr);
	if (replaced) {
		rmr->mw = mw;
		rmr->completes_fast = !rmr->freed;
		for (struct binding *binding = rmr->bindings; binding; binding = binding->next)
			binding->key = key; /* the next bind derives its key from one of these */
	}
	spin_unlock(&rmr->lock);
	return replaced;
}

DAT_RETURN rmr_renew_window(struct rmr *rmr)
{
	DAT_RMR_CONTEXT key;
	struct tp_mw *mw;
	int err;

	if (!window_is_leaving(rmr))
		return DAT_SUCCESS;
	race_reach(RACE_RENEW, rmr);
	err = tp_mw_create(rmr->pz->pd, &mw, &key);
	if (err)
		return status_of_made(err, DAT_RESOURCE_MEMORY_REGION);
	if (!window_replace(rmr, mw, key))
		tp_mw_destroy(mw);
	return DAT_SUCCESS;
}

/* dat_rmr_create; with @of_ep dat_rmr_create_for_ep, whose scope is an endpoint. */
static ALWAYS_INLINE DAT_RETURN rmr_make(DAT_PZ_HANDLE pz_handle, bool of_ep,
					 DAT_RMR_HANDLE *rmr_out)
{
	struct pz *pz = pz_handle;
	struct rmr *rmr;
	struct ia *ia;
	DAT_RETURN ret;

	if (!obj_hold(NULL, pz_handle, DAT_HANDLE_TYPE_PZ))
		return BAD_HANDLE(PZ);
	if (!rmr_out) {
		ret = BAD_ARG(2);
		goto put_pz;
	}
	ia = pz->obj.ia;
	ret = DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	if (of_ep && !(ia->attr->caps & TP_CAP_QP_WINDOWS))
		goto put_pz;
	rmr = obj_alloc(ia, ia->obj.table, DAT_HANDLE_TYPE_RMR);
	if (!rmr) {
		ret = NO_RESOURCE(MEMORY);
		goto put_pz;
	}
	rmr->pz = pz;
	rmr_set_scope(rmr, of_ep);
	ret = rmr_init(rmr);
	if (ret != DAT_SUCCESS) {
		rmr_free_memory(rmr);
		return ret;
	}
	ia_counts(ia, IA_RMR_CREATE);
	*rmr_out = obj_publish(&rmr->obj);
	return DAT_SUCCESS;
put_pz:
	obj_put(&pz->obj);
	return ret;
}

DAT_RETURN rmr_create(DAT_PZ_HANDLE pz, DAT_RMR_HANDLE *rmr_out)
{
	CANCEL_FORBIDDEN;

	return rmr_make(pz, false, rmr_out);
}

#if DAT_EDITION == 2
DAT_RETURN rmr_create_for_ep(DAT_PZ_HANDLE pz, DAT_RMR_HANDLE *rmr_out)
{
	CANCEL_FORBIDDEN;

	return rmr_make(pz, true, rmr_out);
}
#endif

void rmr_destroy(struct rmr *rmr)
{
	struct ia *ia = rmr->obj.ia;
	bool idle;

	ia_counts(ia, IA_RMR_FREE);
	spin_lock(&rmr->lock);
	rmr->freed = true;
	rmr->completes_fast = false;
	idle = rmr_is_idle_locked(rmr);
	spin_unlock(&rmr->lock);
	if (idle)
		rmr_defer_release(rmr);
	release_run(ia);
}

DAT_RETURN rmr_free(DAT_RMR_HANDLE handle)
{
	CANCEL_FORBIDDEN;
	struct rmr *rmr = handle;

	/* No object holds one: if it can't be retired, another thread has freed it. */
	if (!obj_valid(NULL, handle, DAT_HANDLE_TYPE_RMR) || !obj_retire(&rmr->obj))
		return BAD_HANDLE(RMR);
	rmr_destroy(rmr);
	return DAT_SUCCESS;
}

DAT_RMR_CONTEXT binding_context(const struct binding *binding)
{
	if (!binding->lmr)
		return 0;
	return binding->region ? binding->region_key : binding->key;
}

DAT_LMR_TRIPLET binding_triplet(const struct binding *binding)
{
	return (DAT_LMR_TRIPLET){
		.lmr_context = binding->lmr ? binding->lmr->info.lmr_context : 0,
		.virtual_address = binding->address,
		.segment_length = binding->size,
	};
}

DAT_RETURN rmr_query(DAT_RMR_HANDLE handle, DAT_RMR_PARAM_MASK mask, DAT_RMR_PARAM *param)
{
	CANCEL_FORBIDDEN;
	struct rmr *rmr = handle;
	const struct binding *now;
	DAT_IA_HANDLE ia;
	bool shown;

	if (!obj_valid(NULL, handle, DAT_HANDLE_TYPE_RMR))
		return BAD_HANDLE(RMR);
	if (!param)
		return BAD_ARG(3);
	ia = attr_ia_handle(rmr->obj.ia);
	spin_lock(&rmr->lock);
	now = rmr->latest;
	shown = now->lmr || !(mask & DAT_RMR_FIELD_LMR_TRIPLET);
	if (shown)
		*param = (DAT_RMR_PARAM){
			.ia_handle = ia,
			.pz_handle = rmr->pz,
			.lmr_triplet = binding_triplet(now),
			.mem_priv = now->priv,
			.rmr_context = binding_context(now),
		};
#if DAT_EDITION == 2
	if (shown) {
		param->rmr_scope = rmr->of_ep ? DAT_RMR_SCOPE_EP : DAT_RMR_SCOPE_PZ;
		param->va_type = binding_is_zero_based(now) ? DAT_VA_TYPE_ZB : DAT_VA_TYPE_VA;
	}
#endif
	spin_unlock(&rmr->lock);
	return shown ? DAT_SUCCESS : BAD_ARG(2);
}
