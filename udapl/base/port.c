/* SPDX-License-Identifier: BSD-2-Clause */
/* From connection qualifiers, and from socket addresses, to ports. */
#include <netinet/in.h>

#include "port.h"

/* OFED's numbers: qualifiers above 65535 are mapped to the upper ports */
#define ALIAS_MODULUS 32001
#define ALIAS_BASE    33534

uint16_t port_of_qual(DAT_CONN_QUAL qual)
{
	return (uint16_t)(qual <= UINT16_MAX ? qual : qual % ALIAS_MODULUS + ALIAS_BASE);
}

uint16_t port_of_addr(const struct sockaddr_storage *addr)
{
	switch (addr->ss_family) {
	case AF_INET:
		return ntohs(((const struct sockaddr_in *)addr)->sin_port);
	case AF_INET6:
		return ntohs(((const struct sockaddr_in6 *)addr)->sin6_port);
	default:
		return 0;
	}
}
