/* SPDX-License-Identifier: BSD-2-Clause */
/* Return codes of DAT 2.0: a class, a type and a subtype in one 32-bit word. */
#if defined(_DAT_ERROR_H_) && _DAT_ERROR_H_ + 0 != 2
#error "A program includes the headers of either dat/ or dat2/: their names are the same."
#endif
#ifndef _DAT_ERROR_H_
#define _DAT_ERROR_H_ 2

#include <dat2/dat_platform_specific.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The result of every call. Bits 31..30 are the class, 29..16 the type, 15..0 the subtype; success
 * is exactly 0. The constants below have no class, but a returned failure has one: compare
 * DAT_GET_TYPE(ret), not ret, with a type. The exception is DAT_QUEUE_EMPTY, which dat_evd_dequeue
 * and dat_cno_wait return without a class, because it is no failure.
 */
typedef DAT_UINT32 DAT_RETURN;

#define DAT_CLASS_ERROR	  0x80000000U
#define DAT_CLASS_WARNING 0x40000000U /* DAT 2.0 has no warnings */
#define DAT_CLASS_SUCCESS 0x00000000U
#define DAT_TYPE_MASK	  0x3fff0000U
#define DAT_SUBTYPE_MASK  0x0000ffffU

/* They mask without shifting: a type and a subtype compare equal to the constants below. */
#define DAT_IS_WARNING(ret)  (DAT_CLASS_WARNING & (DAT_UINT32)(ret))
#define DAT_GET_TYPE(ret)    (DAT_TYPE_MASK & (DAT_UINT32)(ret))
#define DAT_GET_SUBTYPE(ret) (DAT_SUBTYPE_MASK & (DAT_UINT32)(ret))

/* The type of a failure. */
typedef enum dat_return_type {
	DAT_SUCCESS = 0x00000000,
	/* while a thread waited the IA was closed abruptly, or the EVD freed */
	DAT_ABORT = 0x00010000,
	DAT_CONN_QUAL_IN_USE = 0x00020000,	 /* the qualifier is in use by a listener */
	DAT_INSUFFICIENT_RESOURCES = 0x00030000, /* the subtype is the resource */
	/* an invariant of the provider is broken, or an errno without equivalent */
	DAT_INTERNAL_ERROR = 0x00040000,
	/* the subtype is the kind of object that was expected */
	DAT_INVALID_HANDLE = 0x00050000,
	/* the subtype is the number of the parameter, from 1 */
	DAT_INVALID_PARAMETER = 0x00060000,
	DAT_INVALID_STATE = 0x00070000, /* the subtype is the state of the object */
	/* of an RDMA: the local and the remote length do not fit */
	DAT_LENGTH_ERROR = 0x00080000,
	DAT_MODEL_NOT_SUPPORTED = 0x00090000, /* not supported by the provider or the device */
	/* no provider is registered with this name, version and thread safety */
	DAT_PROVIDER_NOT_FOUND = 0x000a0000,
	DAT_PRIVILEGES_VIOLATION = 0x000b0000, /* the memory does not allow this access */
	DAT_PROTECTION_VIOLATION = 0x000c0000, /* protection zones differ */
	DAT_QUEUE_EMPTY = 0x000d0000,	       /* no event; returned without a class */
	DAT_QUEUE_FULL = 0x000e0000,	       /* no room for a software event */
	DAT_TIMEOUT_EXPIRED = 0x000f0000,      /* dat_evd_wait only */
	DAT_PROVIDER_ALREADY_REGISTERED = 0x00100000,
	DAT_PROVIDER_IN_USE = 0x00110000,
	DAT_INVALID_ADDRESS = 0x00120000, /* the subtype is the reason */
	/* a signal handler ran while the call waited */
	DAT_INTERRUPTED_CALL = 0x00130000,
	DAT_CONN_QUAL_UNAVAILABLE = 0x00140000, /* dat_psp_create_any: none is free */
	/* a wrong use of the reserved LMR, which only the interface of the kernel has */
	DAT_RESERVED_LMR = 0x00150000,
	DAT_PORT_IN_USE = 0x00160000,	     /* dat_csp_create: the port is in use by a listener */
	DAT_COMM_NOT_SUPPORTED = 0x00170000, /* dat_csp_create: no such kind of connections */

	/* the first type of the extensions, see DAT_IB_RETURN in dat_ib_extensions.h */
	DAT_EXTENSION_BASE = 0x10000000,

	/*
	 * The provider has no such call or extension operation; what a device does not support is
	 * DAT_MODEL_NOT_SUPPORTED. Unlike 1.2's, this value is a type as any other: it is what
	 * DAT_GET_TYPE returns.
	 */
	DAT_NOT_IMPLEMENTED = 0x3fff0000
} DAT_RETURN_TYPE;

#define DAT_NAME_NOT_FOUND DAT_PROVIDER_NOT_FOUND /* the name of DAT 1.0 */

/*
 * The details of a failure. The prefix of each name tells the type that it belongs to. The numbers
 * from 26 up are not those of 1.2. The headers of dapl 2.0.35 have no SRQ_SHUTDOWN, and number the
 * names after it one less.
 */
typedef enum dat_return_subtype {
	DAT_NO_SUBTYPE = 0,
	DAT_SUB_INTERRUPTED = 1,

	/* of DAT_INSUFFICIENT_RESOURCES: the resource */
	DAT_RESOURCE_MEMORY = 2, /* host memory, or the slots of a queue */
	DAT_RESOURCE_DEVICE = 3,
	DAT_RESOURCE_TEP = 4,  /* transport endpoints */
	DAT_RESOURCE_TEVD = 5, /* transport completion queues, and descriptors to wait on them */
	DAT_RESOURCE_PROTECTION_DOMAIN = 6,
	DAT_RESOURCE_MEMORY_REGION = 7,
	DAT_RESOURCE_ERROR_HANDLER = 8, /* the thread that delivers asynchronous events */
	DAT_RESOURCE_CREDITS = 9,
	DAT_RESOURCE_SRQ = 10,

	/* of DAT_INVALID_HANDLE: the kind or, for an EVD, the role that was expected */
	DAT_INVALID_HANDLE_IA = 11,
	DAT_INVALID_HANDLE_EP = 12,
	DAT_INVALID_HANDLE_LMR = 13,
	DAT_INVALID_HANDLE_RMR = 14,
	DAT_INVALID_HANDLE_PZ = 15,
	DAT_INVALID_HANDLE_PSP = 16,
	DAT_INVALID_HANDLE_RSP = 17,
	DAT_INVALID_HANDLE_CR = 18,
	DAT_INVALID_HANDLE_CNO = 19,
	DAT_INVALID_HANDLE_EVD_CR = 20,
	DAT_INVALID_HANDLE_EVD_REQUEST = 21,
	DAT_INVALID_HANDLE_EVD_RECV = 22,
	DAT_INVALID_HANDLE_EVD_CONN = 23,
	DAT_INVALID_HANDLE_EVD_ASYNC = 24,
	DAT_INVALID_HANDLE_SRQ = 25,
	DAT_INVALID_HANDLE_CSP = 26,
	DAT_INVALID_HANDLE1 = 27, /* the parameter's position, if a handle of any kind is allowed */
	DAT_INVALID_HANDLE2 = 28,
	DAT_INVALID_HANDLE3 = 29,
	DAT_INVALID_HANDLE4 = 30,
	DAT_INVALID_HANDLE5 = 31,
	DAT_INVALID_HANDLE6 = 32,
	DAT_INVALID_HANDLE7 = 33,
	DAT_INVALID_HANDLE8 = 34,
	DAT_INVALID_HANDLE9 = 35,
	DAT_INVALID_HANDLE10 = 36,

	/* of DAT_INVALID_PARAMETER: the parameter's position, from 1 */
	DAT_INVALID_ARG1 = 37,
	DAT_INVALID_ARG2 = 38,
	DAT_INVALID_ARG3 = 39,
	DAT_INVALID_ARG4 = 40,
	DAT_INVALID_ARG5 = 41,
	DAT_INVALID_ARG6 = 42,
	DAT_INVALID_ARG7 = 43,
	DAT_INVALID_ARG8 = 44,
	DAT_INVALID_ARG9 = 45,
	DAT_INVALID_ARG10 = 46,

	/* of DAT_INVALID_STATE: the state of the object, not the one that the call needs */
	DAT_INVALID_STATE_EP_UNCONNECTED = 47,
	DAT_INVALID_STATE_EP_ACTCONNPENDING = 48,
	DAT_INVALID_STATE_EP_PASSCONNPENDING = 49,
	DAT_INVALID_STATE_EP_TENTCONNPENDING = 50,
	DAT_INVALID_STATE_EP_CONNECTED = 51,
	DAT_INVALID_STATE_EP_DISCONNECTED = 52,
	DAT_INVALID_STATE_EP_RESERVED = 53,
	DAT_INVALID_STATE_EP_COMPLPENDING = 54,
	DAT_INVALID_STATE_EP_DISCPENDING = 55,
	DAT_INVALID_STATE_EP_PROVIDERCONTROL = 56,
	/* it has no zone, no EVD, or no RDMA read depth */
	DAT_INVALID_STATE_EP_NOTREADY = 57,
	DAT_INVALID_STATE_EP_RECV_WATERMARK = 58,
	DAT_INVALID_STATE_EP_PZ = 59,
	DAT_INVALID_STATE_EP_EVD_REQUEST = 60,
	DAT_INVALID_STATE_EP_EVD_RECV = 61,
	DAT_INVALID_STATE_EP_EVD_CONNECT = 62,
	DAT_INVALID_STATE_EP_UNCONFIGURED = 63,
	DAT_INVALID_STATE_EP_UNCONFRESERVED = 64,
	DAT_INVALID_STATE_EP_UNCONFPASSIVE = 65,
	DAT_INVALID_STATE_EP_UNCONFTENTATIVE = 66,
	DAT_INVALID_STATE_CNO_IN_USE = 67,
	DAT_INVALID_STATE_CNO_DEAD = 68,
	DAT_INVALID_STATE_EVD_OPEN = 69,
	DAT_INVALID_STATE_EVD_ENABLED = 70,
	DAT_INVALID_STATE_EVD_DISABLED = 71,
	DAT_INVALID_STATE_EVD_WAITABLE = 72,
	DAT_INVALID_STATE_EVD_UNWAITABLE = 73,
	DAT_INVALID_STATE_EVD_IN_USE = 74,
	DAT_INVALID_STATE_EVD_CONFIG_NOTIFY = 75,
	DAT_INVALID_STATE_EVD_CONFIG_SOLICITED = 76,
	DAT_INVALID_STATE_EVD_CONFIG_THRESHOLD = 77,
	DAT_INVALID_STATE_EVD_WAITER = 78,
	DAT_INVALID_STATE_EVD_ASYNC = 79,
	DAT_INVALID_STATE_IA_IN_USE = 80,
	DAT_INVALID_STATE_LMR_IN_USE = 81,
	DAT_INVALID_STATE_LMR_FREE = 82,
	DAT_INVALID_STATE_PZ_IN_USE = 83,
	DAT_INVALID_STATE_PZ_FREE = 84,
	DAT_INVALID_STATE_SRQ_OPERATIONAL = 85,
	DAT_INVALID_STATE_SRQ_ERROR = 86,
	DAT_INVALID_STATE_SRQ_IN_USE = 87,
	DAT_INVALID_STATE_SRQ_SHUTDOWN = 88,

	/* of DAT_PRIVILEGES_VIOLATION and DAT_PROTECTION_VIOLATION: the access that was refused */
	DAT_PRIVILEGES_READ = 89,
	DAT_PRIVILEGES_WRITE = 90,
	DAT_PRIVILEGES_RDMA_READ = 91,
	DAT_PRIVILEGES_RDMA_WRITE = 92,
	DAT_PROTECTION_READ = 93,
	DAT_PROTECTION_WRITE = 94,
	DAT_PROTECTION_RDMA_READ = 95,
	DAT_PROTECTION_RDMA_WRITE = 96,

	/* of DAT_INVALID_ADDRESS */
	DAT_INVALID_ADDRESS_UNSUPPORTED = 97,
	DAT_INVALID_ADDRESS_UNREACHABLE = 98,
	DAT_INVALID_ADDRESS_MALFORMED = 99,

	/* of DAT_PROVIDER_NOT_FOUND: the first part of the key that no candidate matches */
	DAT_NAME_NOT_REGISTERED = 100,
	DAT_MAJOR_NOT_FOUND = 101,
	DAT_MINOR_NOT_FOUND = 102,
	DAT_THREAD_SAFETY_NOT_FOUND = 103,

	/*
	 * A Solaris addition, here after the last value of DAT 2.0: the transport has only relaxed
	 * ordering, see udat_vendor_specific.h.
	 */
	DAT_INVALID_RO_COOKIE = 104
} DAT_RETURN_SUBTYPE;

#ifdef __cplusplus
}
#endif

#endif
