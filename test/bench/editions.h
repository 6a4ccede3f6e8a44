/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls and members in which the editions of DAT differ, for programs of either one. */
#ifndef BENCH_EDITIONS_H
#define BENCH_EDITIONS_H

#include <edition.h>

/* dat_lmr_create, and dat_rmr_bind of a window to a part of @lmr. */
#if DAT_EDITION == 2
#define LMR_CREATE(ia, type, region, length, pz, privileges, ...)                                  \
	dat_lmr_create(ia, type, region, length, pz, privileges, DAT_VA_TYPE_VA, __VA_ARGS__)
#define RMR_BIND(rmr, lmr, triplet, privileges, ...)                                               \
	dat_rmr_bind(rmr, lmr, triplet, privileges, DAT_VA_TYPE_VA, __VA_ARGS__)
#define REMOTE_ADDRESS virtual_address
#else
#define LMR_CREATE dat_lmr_create
#define RMR_BIND(rmr, lmr, triplet, privileges, ...)                                               \
	dat_rmr_bind(rmr, triplet, privileges, __VA_ARGS__)
#define REMOTE_ADDRESS target_address
#endif

#endif
