/* SPDX-License-Identifier: BSD-2-Clause */
/* The place for vendors' additions to dat.h; there are none. */
#ifndef _DAT_VENDOR_SPECIFIC_H_
#define _DAT_VENDOR_SPECIFIC_H_

#endif
