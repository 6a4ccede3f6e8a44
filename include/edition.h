/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The public headers of the edition of DAT that a file is compiled for: DAT_EDITION is 1, for DAT
 * 1.2, or 2, for DAT 2.0. Not installed.
 *
 * Sources that serve both editions are written in the names that these have in common, and are
 * compiled once for each: values, layouts and the order of slots are those of the headers. Where
 * the editions have other names or parameters, a file of its own has what differs.
 */
#ifndef EDITION_H
#define EDITION_H

#ifndef DAT_EDITION
#define DAT_EDITION 1
#endif

#if DAT_EDITION == 2
#include <dat2/udat.h>
#include <dat2/udat_redirection.h>
#include <dat2/dat_registry.h>
#else
#include <dat/udat.h>
#include <dat/udat_redirection.h>
#include <dat/dat_registry.h>
#endif

/*
 * The calls that DAT 2.0 added at the end of the table of a provider. Where an object of DAT 1.2 is
 * given to one of them, it reads beyond the table. So behind a table of DAT 1.2 a provider of ours
 * has as many words: one that a registry knows by its value, in the place of ia_ha_related_func,
 * which is not called by an object, and functions that refuse the handle.
 */
#define TABLE_ADDED	   11
#define TABLE_MARK_AT	   9 /* of those */
#define TABLE_MARK_OF_DAT1 ((uintptr_t)UINT64_C(0xda71012000da7101))

/* The node of versions of those symbols that only this project's registries have. */
#if DAT_EDITION == 2
#define REGISTRY_NODE "DATX_2.0"
#else
#define REGISTRY_NODE "DATX_1.0"
#endif

/* The arguments of the two calls whose order differs, for the numbers of wrong ones. */
#if DAT_EDITION == 2
#define ARG_OF_EDITION(dat1, dat2) dat2
#else
#define ARG_OF_EDITION(dat1, dat2) dat1
#endif

#endif
