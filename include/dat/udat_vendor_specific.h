/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Additions to udat.h that are not in DAT 1.2: the name prefix of consumers that support relaxed
 * ordering.
 */
#if defined(_UDAT_VENDOR_SPECIFIC_H_) && _UDAT_VENDOR_SPECIFIC_H_ + 0 == 2
#error "A program includes the headers of either dat/ or dat2/: their names are the same."
#endif
#ifndef _UDAT_VENDOR_SPECIFIC_H_
#define _UDAT_VENDOR_SPECIFIC_H_

/*
 * The prefix of an IA name by which a consumer declares that it does not poll memory for the
 * arrival of an RDMA write, but waits for a completion. Memory registered as DAT_MEM_TYPE_VIRTUAL
 * through that instance may be written out of order; DAT_MEM_TYPE_SO_VIRTUAL remains strictly
 * ordered. dat_ia_open removes the prefix before it looks up the name. If the transport has only
 * relaxed ordering, an open without the prefix fails with DAT_INVALID_RO_COOKIE.
 * Source: dat_ia_open(3DAT); the name of this macro is our choice.
 */
#define DAT_RO_AWARE_PREFIX "RO_AWARE_"

#endif
