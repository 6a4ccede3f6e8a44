/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requests in flight in one direction of an endpoint: claimed by the poster, retired by whoever
 * polls.
 */
#ifndef UDAPL_RING_H
#define UDAPL_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <edition.h>

#include "base/base.h"
#include "base/race.h"

struct binding;
struct ep;
struct ring;
struct tp_sge;

/* The first four are as DAT 2.0 numbers the operations of a completion. */
enum req_kind {
	REQ_SEND,
	REQ_WRITE,
	REQ_READ,
	REQ_RECV,
	REQ_SRQ_RECV,
	REQ_BIND,
	REQ_MARKER, /* our own: covers the requests before it, makes no event */
	/* of extensions, as DAT 2.0 numbers their operations: all from here on */
	REQ_EXTENDED = 8,
	REQ_WRITE_IMMED = REQ_EXTENDED,
	REQ_FETCH_ADD = 10,
	REQ_CMP_SWAP = 11,
	REQ_SEND_UD = 13,
};

#define REQ_SLOW_PATH 0x8000u /* beside the flags of DAT: its completion takes the slow path */

/*
 * An outstanding transfer. Its address is the tag of the post, so a completion finds it without a
 * search.
 */
struct req {
	_Alignas(8) DAT_DTO_COOKIE cookie; /* TP_TAG_SIZE is a multiple of it on any host */
	struct ring *ring;
	union {
		DAT_VLEN size; /* bytes of a request; a receive has its own from the device */
		struct binding *binding; /* REQ_BIND */
		struct req *next_free;	 /* REQ_SRQ_RECV, while it is not posted */
	};
	unsigned at; /* fixed; where it is in the array, in bytes */
	union {
		struct {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
			uint16_t flags; /* DAT_COMPLETION_FLAGS of the post; REQ_SLOW_PATH */
			uint16_t kind;	/* enum req_kind */
#else
			uint16_t kind;
			uint16_t flags;
#endif
		};
		uint32_t kind_and_flags;
	};
};

/* Sets both in one store. */
static inline void req_set_kind(struct req *req, enum req_kind kind, unsigned flags)
{
	req->kind_and_flags = (uint32_t)kind << 16 | flags;
}

/*
 * Positions count up in bytes of the array and wrap; the slot is at position & mask. One poster
 * advances the tail, one poller at a time (under the lock of the EVD that takes the completions)
 * advances the head. What is between them is outstanding.
 */
#define RING_STEP ((unsigned)sizeof(struct req))

struct ring {
	struct req *slots;
	struct tp_sge *sges; /* poster; the segments of the post that is being made */
	struct ep *ep;	     /* NULL: of a shared receive queue */
	/*
	 * Not 0: each completion is reported to the endpoint (ep_completion_seen), because the
	 * connection is ending and waits for the ring to become empty. Written under ia->lock.
	 */
	_Atomic unsigned reports_all;
	/*
	 * fixed; these are receives of datagrams: each completion takes the slow path, by
	 * reports_all, but is not reported unless it has failed
	 */
	bool datagrams;
	bool loses_reads; /* fixed; of requests: the device may lose reads, TP_CAP_LOSES_READS */
	unsigned mask;
	unsigned limit; /* most outstanding requests, as promised to the consumer */
	/* of so many suppressed requests in a row the last one is signalled */
	unsigned signal_interval;
	unsigned until_signal; /* poster; 1: the next suppressed request is signalled */
	int room;	       /* poster; at least so many claims fit */
	/*
	 * poster, who writes it with the lock of the EVD; the device has refused one that counts as
	 * taken. It gets none of those that follow on the slow path, and no marker, because the
	 * completion of one stands for all before it
	 */
	bool kept_back;
	_Atomic unsigned tail; /* the next to claim */
	_Atomic unsigned head; /* the oldest outstanding */
};

/* Says whether its slots are receives of datagrams, which DAT 1.2 does not have. */
static ALWAYS_INLINE bool ring_has_datagrams(const struct ring *ring)
{
	return DAT_EDITION == 2 && ring->datagrams;
}

/* work requests of a QP beyond the ring: a marker while lingering, and one at the end */
#define RING_SLACK 2

/*
 * For an endpoint that is made: a ring for @limit outstanding requests of @segments at most.
 * Returns 0 or -ENOMEM.
 */
int ring_init(struct ring *ring, struct ep *ep, unsigned limit, unsigned segments);
/* For an endpoint that is destroyed: frees the memory. One that is all zero is allowed. */
void ring_fini(struct ring *ring);
/*
 * Exchanges two rings, but for the endpoints that they belong to, with all that is outstanding.
 * Nobody posts, and nothing completes meanwhile.
 */
void ring_swap(struct ring *a, struct ring *b);

/* Returns the slot of a position. */
static inline struct req *ring_slot(const struct ring *ring, unsigned position)
{
	return (struct req *)((char *)ring->slots + (position & ring->mask));
}

/* Returns how many slots the array has, which is a power of two. */
static inline unsigned ring_slots(const struct ring *ring)
{
	return ring->mask / RING_STEP + 1;
}

/*
 * Returns how far behind @head, a position that was read as the head, a slot is, in bytes. It is
 * outstanding if that is less than all that are outstanding take.
 */
static inline unsigned ring_ahead(const struct ring *ring, const struct req *req, unsigned head)
{
	return (req->at - head) & ring->mask;
}

/*
 * Returns how many requests are outstanding. For the poster, and others that compare it with 0: if
 * requests are posted meanwhile by another thread, it may be any number.
 */
static inline unsigned ring_used(const struct ring *ring)
{
	return (atomic_load_explicit(&ring->tail, memory_order_seq_cst) -
		atomic_load_explicit(&ring->head, memory_order_acquire)) /
	       RING_STEP;
}

/* For the poster: returns whether there is room for a claim. Reads the head only when it must. */
static inline bool ring_has_room(struct ring *ring)
{
	if (!ring->room)
		ring->room = (int)(ring->limit - ring_used(ring));
	return ring->room;
}

/* For the poster: takes the room of one claim, which ring_publish makes. Returns false without. */
static inline bool ring_take_room(struct ring *ring)
{
	if (likely(--ring->room >= 0))
		return true;
	ring->room = (int)(ring->limit - ring_used(ring));
	if (likely(--ring->room >= 0))
		return true;
	ring->room = 0;
	return false;
}

/* For the poster: returns the next slot, for which there is room. ring_publish claims it. */
static inline struct req *ring_next(struct ring *ring)
{
	return ring_slot(ring, atomic_load_explicit(&ring->tail, memory_order_relaxed));
}

/* For the poster: returns the slot that it claimed last. */
static inline struct req *ring_latest(struct ring *ring)
{
	return ring_slot(ring, atomic_load_explicit(&ring->tail, memory_order_relaxed) - RING_STEP);
}

/*
 * For the poster: claims the next slot, which is filled. It is sequentially consistent: the poster
 * publishes its claim, then reads the state of the connection; the thread that ends the connection
 * writes the state, then reads the claims. So at least one of them sees what the other wrote.
 */
static inline void ring_publish(struct ring *ring, const struct req *next)
{
	debug_assert(ring->room >= 0);
	race_reach(RACE_CLAIM, ring);
	debug_assert(next == ring_next(ring));
	atomic_fetch_add_explicit(&ring->tail, RING_STEP, memory_order_seq_cst);
	race_reach(RACE_CLAIMED, ring);
}

/* For the poster, after ring_has_room: takes the room of a claim, and claims the next slot. */
static inline void ring_push(struct ring *ring, const struct req *next)
{
	debug_assert(ring->room > 0);
	ring->room--;
	ring_publish(ring, next);
}

/*
 * For the poster: takes back its latest claim, which was not posted. It may have been the one of a
 * run of suppressed requests that was to be signalled: so the next one is.
 */
static inline void ring_unpush(struct ring *ring)
{
	unsigned tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

	ring->room++;
	ring->until_signal = 1;
	atomic_store_explicit(&ring->tail, tail - RING_STEP, memory_order_release);
}

/* For the poster: returns whether the suppressed request that it posts next is to be signalled. */
static inline bool ring_signal_due(struct ring *ring)
{
	if (--ring->until_signal)
		return false;
	ring->until_signal = ring->signal_interval;
	return true;
}

/*
 * For whoever takes completions, with the lock of the ring's EVD: retires @req and all before it,
 * which were suppressed and have completed if @req has. Returns false if it is not outstanding (any
 * more), so that its completion comes late and must be dropped.
 */
static inline bool ring_retire(struct ring *ring, const struct req *req)
{
	unsigned head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	unsigned ahead = ring_ahead(ring, req, head);

	if (unlikely(ahead >= atomic_load_explicit(&ring->tail, memory_order_acquire) - head))
		return false;
	atomic_store_explicit(&ring->head, head + ahead + RING_STEP, memory_order_release);
	race_reach(RACE_RETIRED, ring);
	return true;
}

#endif
