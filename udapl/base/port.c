/* SPDX-License-Identifier: BSD-2-Clause */
/* From connection qualifiers to ports. */
#include "port.h"

/* OFED's numbers: qualifiers above 65535 are mapped to the upper ports */
#define ALIAS_MODULUS 32001
#define ALIAS_BASE    33534

uint16_t port_of_qual(DAT_CONN_QUAL qual)
{
	return (uint16_t)(qual <= UINT16_MAX ? qual : qual % ALIAS_MODULUS + ALIAS_BASE);
}
