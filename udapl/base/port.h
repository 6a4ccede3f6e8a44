/* SPDX-License-Identifier: BSD-2-Clause */
/* From connection qualifiers to ports. */
#ifndef UDAPL_PORT_H
#define UDAPL_PORT_H

#include <edition.h>

/*
 * Returns the port on which a service point with this qualifier listens: the qualifier itself, or
 * one of the upper ports if it is larger than a port; 0 for 0. Both ends of a connection map alike,
 * as OFED's provider over rdma_cm does.
 */
uint16_t port_of_qual(DAT_CONN_QUAL qual);

#endif
