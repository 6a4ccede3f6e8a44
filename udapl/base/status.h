/* SPDX-License-Identifier: BSD-2-Clause */
/* What calls return: status values, and how failures of the transport become them. */
#ifndef UDAPL_STATUS_H
#define UDAPL_STATUS_H

#include <edition.h>

/* Status: class, type and subtype of a failure. */
#define DAT_ERROR(type, subtype)                                                                   \
	((DAT_RETURN)(DAT_CLASS_ERROR | (DAT_RETURN)(type) | (DAT_RETURN)(subtype)))
#define BAD_HANDLE(kind)  DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_##kind)
#define BAD_ARG(n)	  BAD_ARG_NUMBER(n)
#define BAD_ARG_NUMBER(n) DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG##n)
#define BAD_STATE(what)	  DAT_ERROR(DAT_INVALID_STATE, DAT_INVALID_STATE_##what)
#define NO_RESOURCE(what) DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_##what)

/*
 * Returns the status of @err, a negative errno of the transport, or DAT_SUCCESS of 0. @resource is
 * what could not be made, if the errno says that something ran out.
 */
DAT_RETURN status_of(int err, DAT_RETURN_SUBTYPE resource);
/* As status_of, for what the device was to make or to resize: that it refuses is a shortage. */
DAT_RETURN status_of_made(int err, DAT_RETURN_SUBTYPE resource);
/* Returns DAT_INVALID_STATE with the subtype that names the state. */
DAT_RETURN status_of_ep_state(DAT_EP_STATE state);

#endif
