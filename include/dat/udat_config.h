/* SPDX-License-Identifier: BSD-2-Clause */
/* What dat_ia_open asks for: the interface version, and whether the provider must be threadsafe. */
#ifndef _UDAT_CONFIG_H_
#define _UDAT_CONFIG_H_

#define DAT_VERSION_MAJOR	1
#define DAT_VERSION_MINOR	2

#ifndef DAT_THREADSAFE
#define DAT_THREADSAFE	DAT_FALSE
#endif

#endif
