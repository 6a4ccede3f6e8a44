/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a transport without datagrams has in the place of those that transport.h declares: its
 * max_datagram is 0, so no endpoint of datagrams is made, and the core calls none of these.
 */
#include <errno.h>

#include "transport.h"

int tp_datagram_connect(struct tp_dev *dev, const struct sockaddr *remote, uint16_t port,
			struct tp_qp *qp, struct peer *peer, const struct tp_cm_param *param,
			struct tp_conn **conn)
{
	(void)dev, (void)remote, (void)port, (void)qp, (void)peer, (void)param, (void)conn;
	return -EOPNOTSUPP;
}

int tp_datagram_accept(struct tp_conn *conn, struct tp_qp *qp, struct peer *peer,
		       const struct tp_cm_param *param)
{
	(void)conn, (void)qp, (void)peer, (void)param;
	return -EOPNOTSUPP;
}

uint32_t tp_ah_number(const struct tp_ah *ah)
{
	(void)ah;
	return 0;
}

void tp_ah_destroy(struct tp_ah *ah)
{
	(void)ah;
}

int tp_post_datagram(struct tp_qp *qp, void *tag, const struct tp_sge *sge, unsigned nsge,
		     uint32_t size, const struct tp_ah *ah, unsigned flags)
{
	(void)qp, (void)tag, (void)sge, (void)nsge, (void)size, (void)ah, (void)flags;
	return -EOPNOTSUPP;
}

int tp_datagram_resume(struct tp_qp *qp)
{
	(void)qp;
	return -EOPNOTSUPP;
}

bool tp_wc_is_datagram(const struct tp_cq *cq, const struct tp_wc *wc)
{
	(void)cq, (void)wc;
	return false;
}
