/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Additions to udat.h that DAT 1.2 does not have: the prefix of a consumer that copes with relaxed
 * ordering.
 */
#ifndef _UDAT_VENDOR_SPECIFIC_H_
#define _UDAT_VENDOR_SPECIFIC_H_

/*
 * An IA name that begins so says: this consumer never polls memory for the arrival of an RDMA
 * write, it waits for a completion. Memory registered as DAT_MEM_TYPE_VIRTUAL through that instance
 * may then be written out of order;
 * DAT_MEM_TYPE_SO_VIRTUAL stays strictly ordered. dat_ia_open strips the prefix before it
 *	looks for the name.
 * Where only relaxed ordering can be had, an open without the prefix fails with
 * DAT_INVALID_RO_COOKIE.
 * Source: dat_ia_open(3DAT); the name of this macro is our choice.
 */
#define DAT_RO_AWARE_PREFIX "RO_AWARE_"

#endif
