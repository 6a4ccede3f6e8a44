/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The place of a vendor's additions to dat.h; we have none, and programs may include it all the
 * same.
 */
#ifndef _DAT_VENDOR_SPECIFIC_H_
#define _DAT_VENDOR_SPECIFIC_H_

#endif
