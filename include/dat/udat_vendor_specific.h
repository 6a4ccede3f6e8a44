/* SPDX-License-Identifier: BSD-2-Clause */
/* Vendors' additions to udat.h: the IA name prefix of a consumer that knows about relaxed ordering. */
#ifndef _UDAT_VENDOR_SPECIFIC_H_
#define _UDAT_VENDOR_SPECIFIC_H_

#define DAT_RO_AWARE_PREFIX	"RO_AWARE_"

#endif
