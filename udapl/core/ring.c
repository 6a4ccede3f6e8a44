/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocation of a ring of requests; all else is inline in ring.h. */
#include <errno.h>
#include <stdlib.h>

#include "ring.h"
#include "transport.h"

_Static_assert(sizeof(struct req) == TP_TAG_SIZE, "the addresses of slots are the tags of posts");

/* So many slots are less than half of what positions count. */
#define RING_LIMIT (1u << 24)
_Static_assert((uint64_t)RING_LIMIT *RING_STEP < UINT64_C(1) << 31, "positions can be compared");

static void slots_aim(struct ring *ring)
{
	for (unsigned at = 0; ring->slots && at <= ring->mask; at += RING_STEP) {
		struct req *slot = ring_slot(ring, at);

		slot->ring = ring;
		slot->at = at;
	}
}

int ring_init(struct ring *ring, struct ep *ep, unsigned limit, unsigned segments)
{
	unsigned slots = 2;

	if (limit > RING_LIMIT)
		return -ENOMEM;
	while (slots < limit)
		slots *= 2;
	ring->slots = calloc(slots, sizeof(*ring->slots));
	ring->sges = calloc(max_u64(segments, 1), sizeof(*ring->sges));
	if (!ring->slots || !ring->sges) {
		ring_fini(ring);
		return -ENOMEM;
	}
	ring->ep = ep;
	ring->mask = (slots - 1) * RING_STEP;
	slots_aim(ring);
	ring->limit = limit;
	ring->signal_interval = limit > 1 ? limit / 2 : 1;
	ring->until_signal = ring->signal_interval;
	ring->room = (int)limit;
	atomic_init(&ring->tail, 0);
	atomic_init(&ring->head, 0);
	return 0;
}

void ring_swap(struct ring *a, struct ring *b)
{
	const struct ring swapped = *a;
	struct ep *ep_of_a = a->ep, *ep_of_b = b->ep;

	*a = *b;
	*b = swapped;
	a->ep = ep_of_a;
	b->ep = ep_of_b;
	slots_aim(a);
	slots_aim(b);
}

void ring_fini(struct ring *ring)
{
	free(ring->slots);
	free(ring->sges);
	ring->slots = NULL;
	ring->sges = NULL;
}
