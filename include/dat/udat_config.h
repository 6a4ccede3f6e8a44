/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What dat_ia_open requests: the version of the interface, and whether the provider must be
 * thread-safe.
 */
#if defined(_UDAT_CONFIG_H_) && _UDAT_CONFIG_H_ + 0 == 2
#error "A program includes the headers of either dat/ or dat2/: their names are the same."
#endif
#ifndef _UDAT_CONFIG_H_
#define _UDAT_CONFIG_H_

#define DAT_VERSION_MAJOR 1
#define DAT_VERSION_MINOR 2

/*
 * DAT_FALSE opens entries that dat.conf marks "nonthreadsafe", DAT_TRUE those marked "threadsafe",
 * and neither opens the other. The default is OFED's, not the specification's. A program that
 * needs the other value defines it before the include.
 * Source: uDAPL 1.2; that an earlier definition is used is our choice.
 */
#ifndef DAT_THREADSAFE
#define DAT_THREADSAFE DAT_FALSE
#endif

#endif
