/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The headers of libfabric. Those of libfabric 2 warn of names that are of use with earlier ones
 * only, which this library works with, too.
 */
#ifndef UDAPL_OFI_LIBFABRIC_H
#define UDAPL_OFI_LIBFABRIC_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#undef FI_MR_BASIC
#undef FI_REG_MR
#define FI_MR_BASIC (1 << 0)
#define FI_REG_MR   (UINT64_C(1) << 59)

#endif
