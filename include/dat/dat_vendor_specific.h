/* SPDX-License-Identifier: BSD-2-Clause */
/* Reserved for vendor additions to dat.h. We have none, but programs may include this header. */
#ifndef _DAT_VENDOR_SPECIFIC_H_
#define _DAT_VENDOR_SPECIFIC_H_

#endif
