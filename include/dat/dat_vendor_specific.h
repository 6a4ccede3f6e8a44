/* SPDX-License-Identifier: BSD-2-Clause */
/* Reserved for vendor additions to dat.h. We have none, but programs may include this header. */
#if defined(_DAT_VENDOR_SPECIFIC_H_) && _DAT_VENDOR_SPECIFIC_H_ + 0 == 2
#error "A program includes the headers of either dat/ or dat2/: their names are the same."
#endif
#ifndef _DAT_VENDOR_SPECIFIC_H_
#define _DAT_VENDOR_SPECIFIC_H_

#endif
