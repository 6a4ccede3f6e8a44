/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls and members in which the editions of DAT differ, for programs of either one. */
#ifndef TEST_EDITIONS_H
#define TEST_EDITIONS_H

#include <edition.h>

/* dat_lmr_create, dat_rmr_bind of a window to a part of @lmr, and dat_cr_reject. */
#if DAT_EDITION == 2
#define LMR_CREATE(ia, type, region, length, pz, privileges, ...)                                  \
	dat_lmr_create(ia, type, region, length, pz, privileges, DAT_VA_TYPE_VA, __VA_ARGS__)
#define RMR_BIND(rmr, lmr, triplet, privileges, ...)                                               \
	dat_rmr_bind(rmr, lmr, triplet, privileges, DAT_VA_TYPE_VA, __VA_ARGS__)
#define CR_REJECT(cr)  dat_cr_reject(cr, 0, NULL)
#define REMOTE_ADDRESS virtual_address
#else
#define LMR_CREATE dat_lmr_create
#define RMR_BIND(rmr, lmr, triplet, privileges, ...)                                               \
	((void)(lmr), dat_rmr_bind(rmr, triplet, privileges, __VA_ARGS__))
#define CR_REJECT      dat_cr_reject
#define REMOTE_ADDRESS target_address
#endif

/*
 * The result in this edition, where the other one has another: constants both, for rows of tables.
 */
#if DAT_EDITION == 2
#define OF_EDITION(dat1, dat2) dat2
#else
#define OF_EDITION(dat1, dat2) dat1
#endif

/* The version of the edition in dat.conf. */
#define EDITION_TEXT OF_EDITION("1.2", "2.0")

#endif
