/* SPDX-License-Identifier: BSD-2-Clause */
/* The seventh field of a line of dat.conf: the IA params. */
#ifndef UDAPL_PARAMS_H
#define UDAPL_PARAMS_H

#include <stdbool.h>

enum params_kind {
	/*
	 * "ib0 0": an interface, address, device or host, and a number. "odp" may follow, which
	 * has memory registered on demand; the providers of dapl ignore what is behind the number.
	 */
	PARAMS_OF_VERBS,
	/*
	 * "tcp eth0": a libfabric provider, and an interface, address or domain. A number may
	 * follow, which has no effect: who knows "eth0 0" writes "tcp eth0 0".
	 */
	PARAMS_OF_OFI,
};

struct params {
	char first[256], second[256]; /* without the second word it is "0" */
	bool on_demand;		      /* of verbs: "odp" is there */
};

/*
 * Reads the field: words are separated by blanks, which may also come first and last. Returns NULL,
 * or why they can't be used: then @params is undefined. Thread-safe.
 */
const char *params_parse(enum params_kind kind, const char *text, struct params *params);

/*
 * Returns whether a word has the form of a device's or an interface's name. If this host lacks it,
 * as with a dat.conf written for another one, it is not given to the host name resolver, which may
 * take seconds. Thread-safe.
 */
bool params_is_device_like(const char *name);

#endif
