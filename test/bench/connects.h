/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the parts of the programs "connects" and "connects_ofi" share. Processes connect to each
 * other, all at once, over raw librdmacm (connects_raw.c) or libfabric (connects_raw_ofi.c), and
 * over DAT (connects_dat.c). A process asks those of a higher rank, and is asked by the others.
 */
#ifndef CONNECTS_H
#define CONNECTS_H

#include <stdint.h>

#include "bench.h"

#define MAX_PROCESSES 64
#define DEPTH	      4		       /* requests, and receives, of an endpoint */
#define PATIENCE      60	       /* seconds that an attempt may take */
#define FIRST_PORT    47000	       /* of the process of rank 0; the next has the next */
#define ADDR	      "DAT_TEST_ADDR0" /* of all */

/* Where a process listens, if the system chose that. */
struct connects_listener {
	char address[64];
	size_t size;
};

/* One of the two implementations, in a process of its own. */
struct connects_side {
	/* Opens the device, and listens for the @processes - 1 others. */
	void (*open)(unsigned rank, unsigned processes);
	/*
	 * Connects to each process, and returns when all connections are up, with the number of
	 * attempts that failed and were repeated. Each request and each answer tells the rank.
	 */
	unsigned (*connect)(void);
};
extern const struct connects_side connects_raw, connects_dat;

/* Of all processes, in memory that they share. */
extern struct connects_listener *connects_listeners;

#endif
