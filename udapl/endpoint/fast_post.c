/* SPDX-License-Identifier: BSD-2-Clause */
/* For transports that take every segment: a fast post is a post like any other. */
#include "base/base.h"
#include "transport.h"

HOT DAT_VLEN tp_taken_size(const struct tp_taken *taken, unsigned nseg)
{
	(void)nseg;
	return taken->last + 1;
}

HOT int tp_fast_send(struct tp_qp *qp, void *tag, const struct tp_taken *taken, unsigned nseg,
		     unsigned flags)
{
	return tp_post_send(qp, tag, taken->sges, nseg, (uint32_t)taken->last + 1, flags);
}

HOT int tp_fast_write(struct tp_qp *qp, void *tag, const struct tp_taken *taken, unsigned nseg,
		      const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	return tp_post_write(qp, tag, taken->sges, nseg, (uint32_t)taken->last + 1, remote, flags);
}

HOT int tp_fast_read(struct tp_qp *qp, void *tag, const struct tp_taken *taken, unsigned nseg,
		     const DAT_RMR_TRIPLET *remote, unsigned flags)
{
	return tp_post_read(qp, tag, taken->sges, nseg, remote, flags);
}

HOT int tp_fast_recv(struct tp_qp *qp, void *tag, const struct tp_taken *taken, unsigned nseg)
{
	return tp_post_recv(qp, tag, taken->sges, nseg);
}

#if DAT_EDITION == 2
HOT int tp_fast_write_immed(struct tp_qp *qp, void *tag, const struct tp_taken *taken,
			    unsigned nseg, const DAT_RMR_TRIPLET *remote, uint32_t immed,
			    unsigned flags)
{
	return tp_post_write_immed(qp, tag, taken->sges, nseg, (uint32_t)taken->last + 1, remote,
				   immed, flags);
}
#endif

unsigned tp_recv_posted(const struct tp_cq *recv_cq)
{
	(void)recv_cq;
	return 0;
}

void tp_recv_late(struct tp_qp *qp, void *tag)
{
	(void)qp, (void)tag;
}
