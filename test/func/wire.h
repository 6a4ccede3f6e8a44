/* SPDX-License-Identifier: BSD-2-Clause */
/* What a test and wire_relay agree on: the condition of the wire. */
#ifndef WIRE_H
#define WIRE_H

#include <sys/un.h>

struct wire {
	unsigned loss, duplicate, corrupt, reorder; /* packets per mille */
	unsigned delay_us;
	unsigned cut;		/* bit 0: what t0 sends is lost, bit 1: what t1 sends */
	unsigned reset;		/* each TCP segment resets its connection, at both ends */
	unsigned until_dropped; /* the answer comes when so many packets were dropped */
};

/* An abstract address, which belongs to a network namespace. */
#define WIRE_ADDRESS                                                                               \
	{                                                                                          \
		.sun_family = AF_UNIX, .sun_path = "\0wire"                                        \
	}

#endif
