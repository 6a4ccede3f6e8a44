/* SPDX-License-Identifier: BSD-2-Clause */
/* What differs between the editions of DAT, for tests that are compiled for both. */
#ifndef TEST_EDITIONS_H
#define TEST_EDITIONS_H

#include <edition.h>

/* The member of a DAT_RMR_TRIPLET that says where the remote segment begins. */
#if DAT_EDITION == 2
#define REMOTE_ADDRESS virtual_address
#else
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

#endif
