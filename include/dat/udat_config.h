/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What dat_ia_open asks for: the version of the interface, and whether the provider must be
 * threadsafe.
 */
#ifndef _UDAT_CONFIG_H_
#define _UDAT_CONFIG_H_

#define DAT_VERSION_MAJOR 1
#define DAT_VERSION_MINOR 2

/*
 * DAT_FALSE opens what dat.conf calls "nonthreadsafe", DAT_TRUE what it calls "threadsafe";
 *	neither finds the other.
 * The default is OFED's, not the specification's. A program that wants the other defines it before
 * the include.
 * Source: uDAPL 1.2; that an earlier definition counts is our choice.
 */
#ifndef DAT_THREADSAFE
#define DAT_THREADSAFE DAT_FALSE
#endif

#endif
