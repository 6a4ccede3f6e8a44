/* SPDX-License-Identifier: BSD-2-Clause */
/* Return codes of DAT 1.2: a class, a type and a subtype in one 32-bit word. */
#if defined(_DAT_ERROR_H_) && _DAT_ERROR_H_ + 0 == 2
#error "A program includes the headers of either dat/ or dat2/: their names are the same."
#endif
#ifndef _DAT_ERROR_H_
#define _DAT_ERROR_H_

#include <dat/dat_platform_specific.h>

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
#define DAT_CLASS_WARNING 0x40000000U /* DAT 1.2 has no warnings */
#define DAT_CLASS_SUCCESS 0x00000000U
#define DAT_TYPE_MASK	  0x3fff0000U
#define DAT_SUBTYPE_MASK  0x0000ffffU

/* They mask without shifting: a type and a subtype compare equal to the constants below. */
#define DAT_IS_WARNING(ret)  (DAT_CLASS_WARNING & (DAT_UINT32)(ret))
#define DAT_GET_TYPE(ret)    (DAT_TYPE_MASK & (DAT_UINT32)(ret))
#define DAT_GET_SUBTYPE(ret) (DAT_SUBTYPE_MASK & (DAT_UINT32)(ret))

/*
 * The type of a failure. __extension__: the last value exceeds int, which ISO C does not allow for
 * an enumerator before C23.
 */
__extension__ typedef enum dat_return_type {
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
	/*
	 * OFED's value; Solaris has 0x0fff0000. DAT_GET_TYPE cuts it to 0x3fff0000, and for
	 * DAT_IS_WARNING it is a warning. It means that the provider does not implement a call;
	 * what a device does not support is DAT_MODEL_NOT_SUPPORTED.
	 */
	DAT_NOT_IMPLEMENTED = 0xffff0000
} DAT_RETURN_TYPE;

#define DAT_NAME_NOT_FOUND DAT_PROVIDER_NOT_FOUND /* the name of DAT 1.0 */

/* The details of a failure. The prefix of each name tells the type that it belongs to. */
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
	DAT_INVALID_HANDLE1 = 26, /* the parameter's position, if a handle of any kind is allowed */
	DAT_INVALID_HANDLE2 = 27,
	DAT_INVALID_HANDLE3 = 28,
	DAT_INVALID_HANDLE4 = 29,
	DAT_INVALID_HANDLE5 = 30,
	DAT_INVALID_HANDLE6 = 31,
	DAT_INVALID_HANDLE7 = 32,
	DAT_INVALID_HANDLE8 = 33,
	DAT_INVALID_HANDLE9 = 34,
	DAT_INVALID_HANDLE10 = 35,

	/* of DAT_INVALID_PARAMETER: the parameter's position, from 1 */
	DAT_INVALID_ARG1 = 36,
	DAT_INVALID_ARG2 = 37,
	DAT_INVALID_ARG3 = 38,
	DAT_INVALID_ARG4 = 39,
	DAT_INVALID_ARG5 = 40,
	DAT_INVALID_ARG6 = 41,
	DAT_INVALID_ARG7 = 42,
	DAT_INVALID_ARG8 = 43,
	DAT_INVALID_ARG9 = 44,
	DAT_INVALID_ARG10 = 45,

	/* of DAT_INVALID_STATE: the state of the object, not the one that the call needs */
	DAT_INVALID_STATE_EP_UNCONNECTED = 46,
	DAT_INVALID_STATE_EP_ACTCONNPENDING = 47,
	DAT_INVALID_STATE_EP_PASSCONNPENDING = 48,
	DAT_INVALID_STATE_EP_TENTCONNPENDING = 49,
	DAT_INVALID_STATE_EP_CONNECTED = 50,
	DAT_INVALID_STATE_EP_DISCONNECTED = 51,
	DAT_INVALID_STATE_EP_RESERVED = 52,
	DAT_INVALID_STATE_EP_COMPLPENDING = 53,
	DAT_INVALID_STATE_EP_DISCPENDING = 54,
	DAT_INVALID_STATE_EP_PROVIDERCONTROL = 55,
	/* it has no zone, no EVD, or no RDMA read depth */
	DAT_INVALID_STATE_EP_NOTREADY = 56,
	DAT_INVALID_STATE_EP_RECV_WATERMARK = 57,
	DAT_INVALID_STATE_EP_PZ = 58,
	DAT_INVALID_STATE_EP_EVD_REQUEST = 59,
	DAT_INVALID_STATE_EP_EVD_RECV = 60,
	DAT_INVALID_STATE_EP_EVD_CONNECT = 61,
	DAT_INVALID_STATE_EP_UNCONFIGURED = 62,
	DAT_INVALID_STATE_EP_UNCONFRESERVED = 63,
	DAT_INVALID_STATE_EP_UNCONFPASSIVE = 64,
	DAT_INVALID_STATE_EP_UNCONFTENTATIVE = 65,
	DAT_INVALID_STATE_CNO_IN_USE = 66,
	DAT_INVALID_STATE_CNO_DEAD = 67,
	DAT_INVALID_STATE_EVD_OPEN = 68,
	DAT_INVALID_STATE_EVD_ENABLED = 69,
	DAT_INVALID_STATE_EVD_DISABLED = 70,
	DAT_INVALID_STATE_EVD_WAITABLE = 71,
	DAT_INVALID_STATE_EVD_UNWAITABLE = 72,
	DAT_INVALID_STATE_EVD_IN_USE = 73,
	DAT_INVALID_STATE_EVD_CONFIG_NOTIFY = 74,
	DAT_INVALID_STATE_EVD_CONFIG_SOLICITED = 75,
	DAT_INVALID_STATE_EVD_CONFIG_THRESHOLD = 76,
	DAT_INVALID_STATE_EVD_WAITER = 77,
	DAT_INVALID_STATE_EVD_ASYNC = 78,
	DAT_INVALID_STATE_IA_IN_USE = 79,
	DAT_INVALID_STATE_LMR_IN_USE = 80,
	DAT_INVALID_STATE_LMR_FREE = 81,
	DAT_INVALID_STATE_PZ_IN_USE = 82,
	DAT_INVALID_STATE_PZ_FREE = 83,
	DAT_INVALID_STATE_SRQ_OPERATIONAL = 84,
	DAT_INVALID_STATE_SRQ_ERROR = 85,
	DAT_INVALID_STATE_SRQ_IN_USE = 86,

	/* of DAT_PRIVILEGES_VIOLATION and DAT_PROTECTION_VIOLATION: the access that was refused */
	DAT_PRIVILEGES_READ = 87,
	DAT_PRIVILEGES_WRITE = 88,
	DAT_PRIVILEGES_RDMA_READ = 89,
	DAT_PRIVILEGES_RDMA_WRITE = 90,
	DAT_PROTECTION_READ = 91,
	DAT_PROTECTION_WRITE = 92,
	DAT_PROTECTION_RDMA_READ = 93,
	DAT_PROTECTION_RDMA_WRITE = 94,

	/* of DAT_INVALID_ADDRESS */
	DAT_INVALID_ADDRESS_UNSUPPORTED = 95,
	DAT_INVALID_ADDRESS_UNREACHABLE = 96,
	DAT_INVALID_ADDRESS_MALFORMED = 97,

	/* of DAT_PROVIDER_NOT_FOUND: the first part of the key that no candidate matches */
	DAT_NAME_NOT_REGISTERED = 98,
	DAT_MAJOR_NOT_FOUND = 99,
	DAT_MINOR_NOT_FOUND = 100,
	DAT_THREAD_SAFETY_NOT_FOUND = 101,

	/*
	 * A Solaris addition after OFED's last value: the transport has only relaxed ordering, see
	 * udat_vendor_specific.h.
	 */
	DAT_INVALID_RO_COOKIE = 102
} DAT_RETURN_SUBTYPE;

#ifdef __cplusplus
}
#endif

#endif
