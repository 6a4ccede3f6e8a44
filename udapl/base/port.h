/* SPDX-License-Identifier: BSD-2-Clause */
/* From connection qualifiers, and from socket addresses, to ports. */
#ifndef UDAPL_PORT_H
#define UDAPL_PORT_H

#include <sys/socket.h>

#include <dat/udat.h>

/*
 * The port on which a service point with this qualifier listens: the qualifier itself, or one of
 * the upper ports if it is larger than a port. Both ends of a connection map alike, as OFED's
 * provider over rdma_cm does. 0 for 0.
 */
uint16_t port_of_qual(DAT_CONN_QUAL qual);
/* The port in an address of IPv4 or IPv6; 0 for any other. */
uint16_t port_of_addr(const struct sockaddr_storage *addr);

#endif
