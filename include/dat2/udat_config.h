/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What dat_ia_open requests: the version of the interface, and whether the provider must be
 * thread-safe.
 */
#if defined(_UDAT_CONFIG_H_) && _UDAT_CONFIG_H_ + 0 != 2
#error "A program includes the headers of either dat/ or dat2/: their names are the same."
#endif
#ifndef _UDAT_CONFIG_H_
/* The guards are those of DAT 1.2, dat/, where they have no value. */
#define _UDAT_CONFIG_H_ 2

#define DAT_VERSION_MAJOR 2
#define DAT_VERSION_MINOR 0

/*
 * DAT_FALSE opens entries that dat.conf marks "nonthreadsafe", DAT_TRUE those marked "threadsafe",
 * and neither opens the other. The default is dapl's, not the specification's. A program that needs
 * the other value defines it before the include.
 * Source: dapl; that an earlier definition is used is our choice.
 */
#ifndef DAT_THREADSAFE
#define DAT_THREADSAFE DAT_FALSE
#endif

/*
 * Programs ask with #if whether there are extensions. A program may define it before the include,
 * but here all is declared in any case, so that the length of a provider's table does not depend
 * on it.
 * Source: dapl; that nothing depends on it is our choice.
 */
#ifndef DAT_EXTENSIONS
#define DAT_EXTENSIONS 1
#endif

#endif
