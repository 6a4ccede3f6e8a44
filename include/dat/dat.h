/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What DAT 1.2 defines for every consumer: handles, attributes, events, and all calls that are not
 * udat.h's.
 */
#ifndef _DAT_H_
#define _DAT_H_

#include <dat/udat_config.h>
#include <dat/dat_platform_specific.h>
#include <dat/dat_error.h>
#include <dat/dat_vendor_specific.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * HOW TO READ THE CALLS BELOW
 *
 * Errors are written as type and subtype, the subtype without its prefix: "DAT_INVALID_STATE,
 * PZ_IN_USE" is
 * DAT_CLASS_ERROR | DAT_INVALID_STATE | DAT_INVALID_STATE_PZ_IN_USE. ARGn is the n-th
 *	parameter, counted from 1;
 * EP_<state> names the state that the endpoint is in. Of several errors the first in this order is
 * returned: handles, pointers, other arguments, object state, limits and resources. Any call may
 * return, unmentioned:
 *	DAT_INVALID_HANDLE, <kind>		a handle that is null, freed, of another kind or of
 *						another IA instance
 *	DAT_INVALID_PARAMETER, ARGn		a required pointer is null, or a mask or flag word
 *						has unknown bits
 *	DAT_INSUFFICIENT_RESOURCES, MEMORY	no host memory
 *	DAT_INTERNAL_ERROR			a rule of the provider's own broke
 * A call that fails changes nothing and leaves its outputs alone, unless its comment says
 * otherwise.
 *
 * Blocking: a call returns without waiting for a peer or an event unless its comment says "Blocks".
 *
 * Threads: "Safe" calls may run at the same time as any Safe call on the same object. Of "Unsafe"
 * calls on one object, or on objects reached through it, the consumer lets only one run at a time;
 * different objects are independent. No object may be freed while another call on it runs, except
 * by an abrupt dat_ia_close under waiters. Posting to one endpoint from several threads is safe too
 * on an IA instance that was opened threadsafe.
 *
 * Source names the manual page or standard that a call follows; "our choice" marks what those leave
 * open.
 */

#define DAT_NAME_MAX_LENGTH 256 /* bytes, the terminating zero included */

typedef char *DAT_NAME_PTR;

/* A pair of strings that a provider or a transport hands out or takes; ours define none. */
typedef struct dat_named_attr {
	const char *name;
	const char *value;
} DAT_NAMED_ATTR;

typedef enum dat_boolean { DAT_FALSE = 0, DAT_TRUE = 1 } DAT_BOOLEAN;

/* 64 bits of the consumer's own, which the provider returns bit for bit and never looks into. */
typedef union dat_context {
	DAT_PVOID as_ptr;
	DAT_UINT64 as_64;
	DAT_UVERYLONG as_index;
} DAT_CONTEXT;

/* comes back in the completion of a transfer; need not be unique */
typedef DAT_CONTEXT DAT_DTO_COOKIE;
typedef DAT_CONTEXT DAT_RMR_COOKIE; /* the same for a bind */

/* Microseconds; 0 asks and returns. */
typedef DAT_UINT32 DAT_TIMEOUT;

#define DAT_TIMEOUT_INFINITE ((DAT_TIMEOUT)~0U)

/*
 * A handle is opaque. That of an IA is a small integer which the registry gave out; all others are
 * pointers to provider objects. After the object is freed every use of the handle fails, a second
 * free included.
 */
typedef DAT_PVOID DAT_HANDLE;
typedef DAT_HANDLE DAT_CR_HANDLE;  /* connection request */
typedef DAT_HANDLE DAT_EP_HANDLE;  /* endpoint */
typedef DAT_HANDLE DAT_EVD_HANDLE; /* event dispatcher */
typedef DAT_HANDLE DAT_IA_HANDLE;  /* interface adapter: one open instance */
typedef DAT_HANDLE DAT_LMR_HANDLE; /* local memory region */
typedef DAT_HANDLE DAT_PSP_HANDLE; /* public service point */
typedef DAT_HANDLE DAT_PZ_HANDLE;  /* protection zone */
typedef DAT_HANDLE DAT_RMR_HANDLE; /* remote memory region */
typedef DAT_HANDLE DAT_RSP_HANDLE; /* reserved service point */
typedef DAT_HANDLE DAT_SRQ_HANDLE; /* shared receive queue */

#define DAT_HANDLE_NULL ((DAT_HANDLE)NULL)

typedef enum dat_handle_type {
	DAT_HANDLE_TYPE_CR = 0,
	DAT_HANDLE_TYPE_EP = 1,
	DAT_HANDLE_TYPE_EVD = 2,
	DAT_HANDLE_TYPE_IA = 3,
	DAT_HANDLE_TYPE_LMR = 4,
	DAT_HANDLE_TYPE_PSP = 5,
	DAT_HANDLE_TYPE_PZ = 6,
	DAT_HANDLE_TYPE_RMR = 7,
	DAT_HANDLE_TYPE_RSP = 8,
	DAT_HANDLE_TYPE_CNO = 9,
	DAT_HANDLE_TYPE_SRQ = 10
} DAT_HANDLE_TYPE;

/*
 * The family decides its size. Pointers that a query returns lead into the object and are not to be
 * freed.
 */
typedef DAT_SOCK_ADDR *DAT_IA_ADDRESS_PTR;

/*
 * Where a service point listens. TCP ports have 16 bits: a qualifier up to 65535 is the port, a
 * larger one is port (qualifier mod 32001) + 33534, and 0 is refused. Both ends map alike. Source:
 * our choice, OFED's mapping.
 */
typedef DAT_UINT64 DAT_CONN_QUAL;
typedef DAT_UINT64 DAT_PORT_QUAL; /* a port of the transport, host order */

/*
 * Quality of service of a connection. Providers report the union of what they grant; ours grant
 * best effort alone.
 */
typedef enum dat_qos {
	DAT_QOS_BEST_EFFORT = 0x0,
	DAT_QOS_HIGH_THROUGHPUT = 0x1,
	DAT_QOS_LOW_LATENCY = 0x2,
	DAT_QOS_ECONOMY = 0x4,
	DAT_QOS_PREMIUM = 0x8
} DAT_QOS;

typedef enum dat_connect_flags {
	DAT_CONNECT_DEFAULT_FLAG = 0x0,
	DAT_CONNECT_MULTIPATH_FLAG = 0x1 /* only where supports_multipath says so */
} DAT_CONNECT_FLAGS;

typedef enum dat_close_flags {
	DAT_CLOSE_ABRUPT_FLAG = 0x0,
	DAT_CLOSE_GRACEFUL_FLAG = 0x1
} DAT_CLOSE_FLAGS;

#define DAT_CLOSE_DEFAULT DAT_CLOSE_ABRUPT_FLAG

/*
 * How a transfer or a bind completes, and as an attribute of an endpoint how a whole direction
 * does. A failure or a flush makes an event that notifies, whatever the flags.
 */
typedef enum dat_completion_flags {
	DAT_COMPLETION_DEFAULT_FLAG = 0x0,  /* an event that notifies */
	DAT_COMPLETION_SUPPRESS_FLAG = 0x1, /* no event on success; requests and binds */
	/* on a send: the peer's receive notifies a solicited EVD */
	DAT_COMPLETION_SOLICITED_WAIT_FLAG = 0x2,
	/* an event that does not notify; the EP's attribute must agree */
	DAT_COMPLETION_UNSIGNALLED_FLAG = 0x4,
	/* starts after all earlier RDMA reads; requests and binds */
	DAT_COMPLETION_BARRIER_FENCE_FLAG = 0x8,
	/* attribute only: waiters go by their threshold */
	DAT_COMPLETION_EVD_THRESHOLD_FLAG = 0x10
} DAT_COMPLETION_FLAGS;

/* The streams that may feed an EVD. */
typedef enum dat_evd_flags {
	DAT_EVD_SOFTWARE_FLAG = 0x1,	/* dat_evd_post_se */
	DAT_EVD_CR_FLAG = 0x10,		/* requests that arrive at service points */
	DAT_EVD_DTO_FLAG = 0x20,	/* completions of transfers */
	DAT_EVD_CONNECTION_FLAG = 0x40, /* what becomes of connections */
	/* completions of binds; they go to an endpoint's request EVD */
	DAT_EVD_RMR_BIND_FLAG = 0x80,
	DAT_EVD_ASYNC_FLAG = 0x100,
	DAT_EVD_DEFAULT_FLAG = 0x1f0 /* all but software */
} DAT_EVD_FLAGS;

typedef enum dat_evd_param_mask {
	DAT_EVD_FIELD_IA_HANDLE = 0x1,
	DAT_EVD_FIELD_EVD_QLEN = 0x2,
	DAT_EVD_FIELD_EVD_STATE = 0x4,
	DAT_EVD_FIELD_CNO = 0x8,
	DAT_EVD_FIELD_EVD_FLAGS = 0x10,
	DAT_EVD_FIELD_ALL = 0x1f
} DAT_EVD_PARAM_MASK;

/* Who makes the endpoint of an arriving request. */
typedef enum dat_psp_flags {
	DAT_PSP_CONSUMER_FLAG = 0x0, /* the consumer, who names it in dat_cr_accept */
	DAT_PSP_PROVIDER_FLAG = 0x1  /* the provider, in state TENTATIVE_CONNECTION_PENDING */
} DAT_PSP_FLAGS;

/* names local memory in a triplet; means nothing outside this process */
typedef DAT_UINT32 DAT_LMR_CONTEXT;
typedef DAT_UINT32 DAT_RMR_CONTEXT; /* names memory to a peer; 0: no remote access was asked for */
typedef DAT_UINT64 DAT_VLEN;	    /* bytes */
/* an address of the process that registered the memory, host order */
typedef DAT_UINT64 DAT_VADDR;

/*
 * What may be done to memory. Nothing is granted that was not asked for, as far as the device can
 * refuse it.
 */
typedef enum dat_mem_priv_flags {
	DAT_MEM_PRIV_NONE_FLAG = 0x0,
	DAT_MEM_PRIV_LOCAL_READ_FLAG = 0x1,
	DAT_MEM_PRIV_REMOTE_READ_FLAG = 0x2,
	DAT_MEM_PRIV_LOCAL_WRITE_FLAG = 0x10,
	DAT_MEM_PRIV_REMOTE_WRITE_FLAG = 0x20,
	DAT_MEM_PRIV_ALL_FLAG = 0x33,
	/*
	 * A Solaris addition, outside ALL: not to be given to a call, which refuses it as it does
	 * any unknown bit.
	 */
	DAT_MEM_PRIV_RO_DISABLE_FLAG = 0x100
} DAT_MEM_PRIV_FLAGS;

#define DAT_MEM_PRIV_READ_FLAG	(DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_REMOTE_READ_FLAG)
#define DAT_MEM_PRIV_WRITE_FLAG (DAT_MEM_PRIV_LOCAL_WRITE_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG)

typedef enum dat_lmr_param_mask {
	DAT_LMR_FIELD_IA_HANDLE = 0x1,
	DAT_LMR_FIELD_MEM_TYPE = 0x2,
	DAT_LMR_FIELD_REGION_DESC = 0x4,
	DAT_LMR_FIELD_LENGTH = 0x8,
	DAT_LMR_FIELD_PZ_HANDLE = 0x10,
	DAT_LMR_FIELD_MEM_PRIV = 0x20,
	DAT_LMR_FIELD_LMR_CONTEXT = 0x40,
	DAT_LMR_FIELD_RMR_CONTEXT = 0x80,
	DAT_LMR_FIELD_REGISTERED_SIZE = 0x100,
	DAT_LMR_FIELD_REGISTERED_ADDRESS = 0x200,
	DAT_LMR_FIELD_ALL = 0x3ff
} DAT_LMR_PARAM_MASK;

typedef enum dat_rmr_param_mask {
	DAT_RMR_FIELD_IA_HANDLE = 0x1,
	DAT_RMR_FIELD_PZ_HANDLE = 0x2,
	DAT_RMR_FIELD_LMR_TRIPLET = 0x4,
	DAT_RMR_FIELD_MEM_PRIV = 0x8,
	DAT_RMR_FIELD_RMR_CONTEXT = 0x10,
	DAT_RMR_FIELD_ALL = 0x1f
} DAT_RMR_PARAM_MASK;

/* One segment of local memory. Of a segment of length 0 nothing else is looked at. */
typedef struct dat_lmr_triplet {
	DAT_LMR_CONTEXT lmr_context;
	DAT_UINT32 pad;
	DAT_VADDR virtual_address;
	DAT_VLEN segment_length; /* bytes */
} DAT_LMR_TRIPLET;

/* The peer's memory, as the peer named it. */
typedef struct dat_rmr_triplet {
	DAT_RMR_CONTEXT rmr_context;
	DAT_UINT32 pad;
	DAT_VADDR target_address; /* in the peer's address space */
	DAT_VLEN segment_length;  /* bytes */
} DAT_RMR_TRIPLET;

/* The last three describe the binding, zero while there is none. */
typedef struct dat_rmr_param {
	DAT_IA_HANDLE ia_handle;
	DAT_PZ_HANDLE pz_handle;
	DAT_LMR_TRIPLET lmr_triplet;
	DAT_MEM_PRIV_FLAGS mem_priv;
	DAT_RMR_CONTEXT rmr_context;
} DAT_RMR_PARAM;

/* Defined in udat.h. */
typedef struct dat_provider_attr DAT_PROVIDER_ATTR;
typedef struct dat_evd_param DAT_EVD_PARAM;
typedef struct dat_lmr_param DAT_LMR_PARAM;

typedef DAT_UINT64 DAT_PROVIDER_ATTR_MASK;

/* Who may touch the segment list of a post between the call and the completion. */
typedef enum dat_iov_ownership {
	/* the consumer, as soon as the call returned; ours report this */
	DAT_IOV_CONSUMER = 0x0,
	DAT_IOV_PROVIDER_NOMOD = 0x1, /* nobody may write to it */
	DAT_IOV_PROVIDER_MOD = 0x2    /* the provider writes to it */
} DAT_IOV_OWNERSHIP;

/* Whether a public service point can make endpoints, see DAT_PSP_FLAGS. */
typedef enum dat_ep_creator_for_psp {
	DAT_PSP_CREATES_EP_NEVER = 0,
	DAT_PSP_CREATES_EP_IFASKED = 1, /* ours: either flag works */
	DAT_PSP_CREATES_EP_ALWAYS = 2
} DAT_EP_CREATOR_FOR_PSP;

/*
 * What the adapter can do; one IA is one port of a device. Limits too large for DAT_COUNT are
 * clamped.
 */
typedef struct dat_ia_attr {
	char adapter_name[DAT_NAME_MAX_LENGTH]; /* the IA name that was opened, without RO_AWARE_ */
	char vendor_name[DAT_NAME_MAX_LENGTH];	/* of the hardware */
	DAT_UINT32 hardware_version_major;
	DAT_UINT32 hardware_version_minor; /* 0: devices have one number */
	DAT_UINT32 firmware_version_major;
	DAT_UINT32 firmware_version_minor;
	DAT_IA_ADDRESS_PTR ia_address_ptr; /* of the interface; valid until close */
	DAT_COUNT max_eps;
	DAT_COUNT max_dto_per_ep;	    /* in each direction */
	DAT_COUNT max_rdma_read_per_ep_in;  /* in flight, as the target */
	DAT_COUNT max_rdma_read_per_ep_out; /* in flight, as the one who reads */
	DAT_COUNT max_evds;
	DAT_COUNT max_evd_qlen; /* events */
	DAT_COUNT max_iov_segments_per_dto;
	DAT_COUNT max_lmrs;
	DAT_VLEN max_lmr_block_size;	   /* bytes */
	DAT_VADDR max_lmr_virtual_address; /* the highest address that can be registered */
	DAT_COUNT max_pzs;
	DAT_VLEN max_message_size; /* bytes */
	DAT_VLEN max_rdma_size;	   /* bytes */
	DAT_COUNT max_rmrs;	   /* 0: dat_rmr_create is DAT_MODEL_NOT_SUPPORTED */
	DAT_VADDR max_rmr_target_address;
	DAT_COUNT max_srqs; /* 0: there are none, and the next two are 0 */
	DAT_COUNT max_ep_per_srq;
	DAT_COUNT max_recv_per_srq;
	DAT_COUNT max_iov_segments_per_rdma_read; /* 1 on iWARP */
	DAT_COUNT max_iov_segments_per_rdma_write;
	DAT_COUNT max_rdma_read_in; /* of all endpoints together */
	/* the same; devices report none, so the value per endpoint */
	DAT_COUNT max_rdma_read_out;
	/* every endpoint can have its maximum at once */
	DAT_BOOLEAN max_rdma_read_per_ep_in_guaranteed;
	DAT_BOOLEAN max_rdma_read_per_ep_out_guaranteed;
	DAT_COUNT num_transport_attr;
	/* valid until close, like the next; null if there are none */
	DAT_NAMED_ATTR *transport_attr;
	DAT_COUNT num_vendor_attr;
	DAT_NAMED_ATTR *vendor_attr;
} DAT_IA_ATTR;

/*
 * Names of DAT 1.0 and 1.1. They are macros: no structure of a program that includes this has such
 * a member.
 */
#define max_rdma_read_per_ep max_rdma_read_per_ep_in
#define max_mtu_size	     max_message_size

/* Bit i asks for member i of DAT_IA_ATTR. */
typedef DAT_UINT64 DAT_IA_ATTR_MASK;

#define DAT_IA_FIELD_IA_ADAPTER_NAME			    UINT64_C(0x000000001)
#define DAT_IA_FIELD_IA_VENDOR_NAME			    UINT64_C(0x000000002)
#define DAT_IA_FIELD_IA_HARDWARE_MAJOR_VERSION		    UINT64_C(0x000000004)
#define DAT_IA_FIELD_IA_HARDWARE_MINOR_VERSION		    UINT64_C(0x000000008)
#define DAT_IA_FIELD_IA_FIRMWARE_MAJOR_VERSION		    UINT64_C(0x000000010)
#define DAT_IA_FIELD_IA_FIRMWARE_MINOR_VERSION		    UINT64_C(0x000000020)
#define DAT_IA_FIELD_IA_ADDRESS_PTR			    UINT64_C(0x000000040)
#define DAT_IA_FIELD_IA_MAX_EPS				    UINT64_C(0x000000080)
#define DAT_IA_FIELD_IA_MAX_DTO_PER_EP			    UINT64_C(0x000000100)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_IN		    UINT64_C(0x000000200)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_OUT	    UINT64_C(0x000000400)
#define DAT_IA_FIELD_IA_MAX_EVDS			    UINT64_C(0x000000800)
#define DAT_IA_FIELD_IA_MAX_EVD_QLEN			    UINT64_C(0x000001000)
#define DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_DTO	    UINT64_C(0x000002000)
#define DAT_IA_FIELD_IA_MAX_LMRS			    UINT64_C(0x000004000)
#define DAT_IA_FIELD_IA_MAX_LMR_BLOCK_SIZE		    UINT64_C(0x000008000)
#define DAT_IA_FIELD_IA_MAX_LMR_VIRTUAL_ADDRESS		    UINT64_C(0x000010000)
#define DAT_IA_FIELD_IA_MAX_PZS				    UINT64_C(0x000020000)
#define DAT_IA_FIELD_IA_MAX_MESSAGE_SIZE		    UINT64_C(0x000040000)
#define DAT_IA_FIELD_IA_MAX_RDMA_SIZE			    UINT64_C(0x000080000)
#define DAT_IA_FIELD_IA_MAX_RMRS			    UINT64_C(0x000100000)
#define DAT_IA_FIELD_IA_MAX_RMR_TARGET_ADDRESS		    UINT64_C(0x000200000)
#define DAT_IA_FIELD_IA_MAX_SRQS			    UINT64_C(0x000400000)
#define DAT_IA_FIELD_IA_MAX_EP_PER_SRQ			    UINT64_C(0x000800000)
#define DAT_IA_FIELD_IA_MAX_RECV_PER_SRQ		    UINT64_C(0x001000000)
#define DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_RDMA_READ	    UINT64_C(0x002000000)
#define DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_RDMA_WRITE	    UINT64_C(0x004000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_IN		    UINT64_C(0x008000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_OUT		    UINT64_C(0x010000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_IN_GUARANTEED  UINT64_C(0x020000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_OUT_GUARANTEED UINT64_C(0x040000000)
#define DAT_IA_FIELD_IA_NUM_TRANSPORT_ATTR		    UINT64_C(0x080000000)
#define DAT_IA_FIELD_IA_TRANSPORT_ATTR			    UINT64_C(0x100000000)
#define DAT_IA_FIELD_IA_NUM_VENDOR_ATTR			    UINT64_C(0x200000000)
#define DAT_IA_FIELD_IA_VENDOR_ATTR			    UINT64_C(0x400000000)
#define DAT_IA_FIELD_ALL				    UINT64_C(0x7ffffffff)
#define DAT_IA_FIELD_NONE				    UINT64_C(0x000000000)

#define DAT_IA_ALL		     DAT_IA_FIELD_ALL /* names of DAT 1.0 and 1.1 */
#define DAT_IA_FIELD_IA_MAX_MTU_SIZE DAT_IA_FIELD_IA_MAX_MESSAGE_SIZE

typedef enum dat_service_type {
	DAT_SERVICE_TYPE_RC = 0 /* reliable connections, the only service */
} DAT_SERVICE_TYPE;

/*
 * What an endpoint is made for. dat_ep_query returns what it really has, which may be more than was
 * asked.
 */
typedef struct dat_ep_attr {
	DAT_SERVICE_TYPE service_type;
	DAT_VLEN max_message_size; /* bytes of one send; 0: the device's limit */
	DAT_VLEN max_rdma_size;	   /* bytes of one RDMA; 0: the device's limit */
	DAT_QOS qos;
	/* DEFAULT, UNSIGNALLED, SOLICITED_WAIT or EVD_THRESHOLD */
	DAT_COMPLETION_FLAGS recv_completion_flags;
	DAT_COMPLETION_FLAGS request_completion_flags; /* DEFAULT, UNSIGNALLED or EVD_THRESHOLD */
	DAT_COUNT max_recv_dtos;		       /* posted and not yet completed */
	DAT_COUNT max_request_dtos;		       /* the same; binds count */
	DAT_COUNT max_recv_iov;			       /* segments of one receive */
	DAT_COUNT max_request_iov;		       /* segments of one send */
	/* in flight on this connection, as the target */
	DAT_COUNT max_rdma_read_in;
	/* the same, as the one who reads; 0: never reads */
	DAT_COUNT max_rdma_read_out;
	/* soft high watermark; 0 and DAT_HW_DEFAULT: none */
	DAT_COUNT srq_soft_hw;
	/* segments of one RDMA read; 0: as max_request_iov */
	DAT_COUNT max_rdma_read_iov;
	/* segments of one RDMA write; 0: as max_request_iov */
	DAT_COUNT max_rdma_write_iov;
	DAT_COUNT ep_transport_specific_count; /* we define none: 0, like the next count */
	DAT_NAMED_ATTR *ep_transport_specific;
	DAT_COUNT ep_provider_specific_count;
	DAT_NAMED_ATTR *ep_provider_specific;
} DAT_EP_ATTR;

/*
 * The life of an endpoint. The four UNCONFIGURED states are never reported by our provider: an
 * endpoint that lacks a part is in the plain state, and the call that needs the part fails with
 * EP_NOTREADY.
 */
typedef enum dat_ep_state {
	DAT_EP_STATE_UNCONNECTED = 0, /* new, reset, or given back */
	DAT_EP_STATE_UNCONFIGURED_UNCONNECTED = 1,
	DAT_EP_STATE_RESERVED = 2, /* waits for the one request of its RSP */
	DAT_EP_STATE_UNCONFIGURED_RESERVED = 3,
	DAT_EP_STATE_PASSIVE_CONNECTION_PENDING = 4, /* that request came: accept or reject it */
	DAT_EP_STATE_UNCONFIGURED_PASSIVE = 5,
	DAT_EP_STATE_ACTIVE_CONNECTION_PENDING = 6, /* connect was called */
	/* made by the provider for a request: accept or reject it */
	DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING = 7,
	DAT_EP_STATE_UNCONFIGURED_TENTATIVE = 8,
	DAT_EP_STATE_CONNECTED = 9,
	DAT_EP_STATE_DISCONNECT_PENDING = 10,
	DAT_EP_STATE_DISCONNECTED = 11, /* over; only reset and free lead on */
	/* accept was called, the connection is not up yet */
	DAT_EP_STATE_COMPLETION_PENDING = 12
} DAT_EP_STATE;

#define DAT_EP_STATE_ERROR DAT_EP_STATE_DISCONNECTED

/*
 * The addresses are never null and live until dat_ep_free; they and the ports mean something while
 * connected only.
 */
typedef struct dat_ep_param {
	DAT_IA_HANDLE ia_handle;
	DAT_EP_STATE ep_state;
	DAT_IA_ADDRESS_PTR local_ia_address_ptr;
	DAT_PORT_QUAL local_port_qual; /* 0 where it means nothing, as the remote one */
	DAT_IA_ADDRESS_PTR remote_ia_address_ptr;
	DAT_PORT_QUAL remote_port_qual;
	DAT_PZ_HANDLE pz_handle;
	DAT_EVD_HANDLE recv_evd_handle;
	DAT_EVD_HANDLE request_evd_handle; /* sends, RDMA and binds */
	DAT_EVD_HANDLE connect_evd_handle;
	DAT_SRQ_HANDLE srq_handle;
	DAT_EP_ATTR ep_attr;
} DAT_EP_PARAM;

/*
 * Bits 0..10 ask for the members of DAT_EP_PARAM before ep_attr, bits 12..30 for those of ep_attr;
 * 11 is unused.
 */
typedef DAT_UINT64 DAT_EP_PARAM_MASK;

#define DAT_EP_FIELD_IA_HANDLE			      UINT64_C(0x00000001)
#define DAT_EP_FIELD_EP_STATE			      UINT64_C(0x00000002)
#define DAT_EP_FIELD_LOCAL_IA_ADDRESS_PTR	      UINT64_C(0x00000004)
#define DAT_EP_FIELD_LOCAL_PORT_QUAL		      UINT64_C(0x00000008)
#define DAT_EP_FIELD_REMOTE_IA_ADDRESS_PTR	      UINT64_C(0x00000010)
#define DAT_EP_FIELD_REMOTE_PORT_QUAL		      UINT64_C(0x00000020)
#define DAT_EP_FIELD_PZ_HANDLE			      UINT64_C(0x00000040)
#define DAT_EP_FIELD_RECV_EVD_HANDLE		      UINT64_C(0x00000080)
#define DAT_EP_FIELD_REQUEST_EVD_HANDLE		      UINT64_C(0x00000100)
#define DAT_EP_FIELD_CONNECT_EVD_HANDLE		      UINT64_C(0x00000200)
#define DAT_EP_FIELD_SRQ_HANDLE			      UINT64_C(0x00000400)
#define DAT_EP_FIELD_EP_ATTR_SERVICE_TYPE	      UINT64_C(0x00001000)
#define DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE	      UINT64_C(0x00002000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RDMA_SIZE	      UINT64_C(0x00004000)
#define DAT_EP_FIELD_EP_ATTR_QOS		      UINT64_C(0x00008000)
#define DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS    UINT64_C(0x00010000)
#define DAT_EP_FIELD_EP_ATTR_REQUEST_COMPLETION_FLAGS UINT64_C(0x00020000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS	      UINT64_C(0x00040000)
#define DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS	      UINT64_C(0x00080000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV	      UINT64_C(0x00100000)
#define DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV	      UINT64_C(0x00200000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN	      UINT64_C(0x00400000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT	      UINT64_C(0x00800000)
#define DAT_EP_FIELD_EP_ATTR_SRQ_SOFT_HW	      UINT64_C(0x01000000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IOV	      UINT64_C(0x02000000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RDMA_WRITE_IOV	      UINT64_C(0x04000000)
#define DAT_EP_FIELD_EP_ATTR_NUM_TRANSPORT_ATTR	      UINT64_C(0x08000000)
#define DAT_EP_FIELD_EP_ATTR_TRANSPORT_SPECIFIC_ATTR  UINT64_C(0x10000000)
#define DAT_EP_FIELD_EP_ATTR_NUM_PROVIDER_ATTR	      UINT64_C(0x20000000)
#define DAT_EP_FIELD_EP_ATTR_PROVIDER_SPECIFIC_ATTR   UINT64_C(0x40000000)
#define DAT_EP_FIELD_EP_ATTR_ALL		      UINT64_C(0x7ffff000)
#define DAT_EP_FIELD_ALL			      UINT64_C(0x7ffff7ff)

#define DAT_WATERMARK_INFINITE ((DAT_COUNT)-1) /* disarms a high watermark */
#define DAT_HW_DEFAULT	       DAT_WATERMARK_INFINITE
#define DAT_SRQ_LW_DEFAULT     0	       /* disarms the low watermark */
#define DAT_VALUE_UNKNOWN      ((DAT_COUNT)-2) /* a count that the provider cannot tell */

typedef enum dat_srq_state { DAT_SRQ_STATE_OPERATIONAL = 0, DAT_SRQ_STATE_ERROR = 1 } DAT_SRQ_STATE;

typedef struct dat_srq_attr {
	DAT_COUNT max_recv_dtos; /* posted and not yet completed; the queue may turn out larger */
	DAT_COUNT max_recv_iov;	 /* segments of one receive */
	DAT_COUNT low_watermark; /* DAT_SRQ_LW_DEFAULT at creation; dat_srq_set_lw sets it later */
} DAT_SRQ_ATTR;

typedef struct dat_srq_param {
	DAT_IA_HANDLE ia_handle;
	DAT_SRQ_STATE srq_state;
	DAT_PZ_HANDLE pz_handle;
	DAT_COUNT max_recv_dtos;
	DAT_COUNT max_recv_iov;
	DAT_COUNT low_watermark;
	/* on the queue; DAT_VALUE_UNKNOWN where the device keeps it to itself */
	DAT_COUNT available_dto_count;
	/* posted, and their completion not yet taken by the consumer */
	DAT_COUNT outstanding_dto_count;
} DAT_SRQ_PARAM;

typedef enum dat_srq_param_mask {
	DAT_SRQ_FIELD_IA_HANDLE = 0x1,
	DAT_SRQ_FIELD_SRQ_STATE = 0x2,
	DAT_SRQ_FIELD_PZ_HANDLE = 0x4,
	DAT_SRQ_FIELD_MAX_RECV_DTO = 0x8,
	DAT_SRQ_FIELD_MAX_RECV_IOV = 0x10,
	DAT_SRQ_FIELD_LOW_WATERMARK = 0x20,
	DAT_SRQ_FIELD_AVAILABLE_DTO_COUNT = 0x40,
	DAT_SRQ_FIELD_OUTSTANDING_DTO_COUNT = 0x80,
	DAT_SRQ_FIELD_ALL = 0xff
} DAT_SRQ_PARAM_MASK;

typedef struct dat_pz_param {
	DAT_IA_HANDLE ia_handle;
} DAT_PZ_PARAM;

typedef enum dat_pz_param_mask {
	DAT_PZ_FIELD_IA_HANDLE = 0x1,
	DAT_PZ_FIELD_ALL = 0x1
} DAT_PZ_PARAM_MASK;

typedef struct dat_psp_param {
	DAT_IA_HANDLE ia_handle;
	DAT_CONN_QUAL conn_qual; /* as the consumer gave it, not the port */
	DAT_EVD_HANDLE evd_handle;
	DAT_PSP_FLAGS psp_flags;
} DAT_PSP_PARAM;

typedef enum dat_psp_param_mask {
	DAT_PSP_FIELD_IA_HANDLE = 0x1,
	DAT_PSP_FIELD_CONN_QUAL = 0x2,
	DAT_PSP_FIELD_EVD_HANDLE = 0x4,
	DAT_PSP_FIELD_PSP_FLAGS = 0x8,
	DAT_PSP_FIELD_ALL = 0xf
} DAT_PSP_PARAM_MASK;

/* The EVD comes before the endpoint here, and after it in dat_rsp_create. */
typedef struct dat_rsp_param {
	DAT_IA_HANDLE ia_handle;
	DAT_CONN_QUAL conn_qual;
	DAT_EVD_HANDLE evd_handle;
	DAT_EP_HANDLE ep_handle;
} DAT_RSP_PARAM;

typedef enum dat_rsp_param_mask {
	DAT_RSP_FIELD_IA_HANDLE = 0x1,
	DAT_RSP_FIELD_CONN_QUAL = 0x2,
	DAT_RSP_FIELD_EVD_HANDLE = 0x4,
	DAT_RSP_FIELD_EP_HANDLE = 0x8,
	DAT_RSP_FIELD_ALL = 0xf
} DAT_RSP_PARAM_MASK;

/* Both pointers lead into the request and die with it. */
typedef struct dat_cr_param {
	DAT_IA_ADDRESS_PTR remote_ia_address_ptr;
	DAT_PORT_QUAL remote_port_qual;
	DAT_COUNT private_data_size; /* bytes, padding that the transport added included */
	DAT_PVOID private_data;
	DAT_EP_HANDLE local_ep_handle; /* null: dat_cr_accept wants one */
} DAT_CR_PARAM;

typedef enum dat_cr_param_mask {
	DAT_CR_FIELD_REMOTE_IA_ADDRESS_PTR = 0x1,
	DAT_CR_FIELD_REMOTE_PORT_QUAL = 0x2,
	DAT_CR_FIELD_PRIVATE_DATA_SIZE = 0x4,
	DAT_CR_FIELD_PRIVATE_DATA = 0x8,
	DAT_CR_FIELD_LOCAL_EP_HANDLE = 0x10,
	DAT_CR_FIELD_ALL = 0x1f
} DAT_CR_PARAM_MASK;

/*
 * How a transfer or a bind ended. All but SUCCESS and FLUSHED break the connection; the rest of it
 * is flushed.
 */
typedef enum dat_dto_completion_status {
	DAT_DTO_SUCCESS = 0,
	DAT_DTO_ERR_FLUSHED = 1, /* not executed: the endpoint is disconnected */
	/* a message longer than the receive, or a request too long */
	DAT_DTO_ERR_LOCAL_LENGTH = 2,
	DAT_DTO_ERR_LOCAL_EP = 3, /* the endpoint found itself inconsistent */
	/* unknown lmr_context, or range, zone or local privilege wrong */
	DAT_DTO_ERR_LOCAL_PROTECTION = 4,
	DAT_DTO_ERR_BAD_RESPONSE = 5, /* the peer's transport answered nonsense */
	/* unknown rmr_context, or range, zone or remote privilege wrong */
	DAT_DTO_ERR_REMOTE_ACCESS = 6,
	/* the peer could not complete it, say for too short a receive */
	DAT_DTO_ERR_REMOTE_RESPONDER = 7,
	DAT_DTO_ERR_TRANSPORT = 8, /* retries used up, or the link failed */
	/* the peer had no receive posted, and we gave up waiting */
	DAT_DTO_ERR_RECEIVER_NOT_READY = 9,
	DAT_DTO_ERR_PARTIAL_PACKET = 10,
	DAT_RMR_OPERATION_FAILED = 11 /* a bind */
} DAT_DTO_COMPLETION_STATUS;

#define DAT_DTO_LENGTH_ERROR DAT_DTO_ERR_LOCAL_LENGTH /* names of DAT 1.0 and 1.1 */
#define DAT_DTO_FAILURE	     DAT_DTO_ERR_FLUSHED

#define DAT_RMR_BIND_COMPLETION_STATUS DAT_DTO_COMPLETION_STATUS
#define DAT_RMR_BIND_SUCCESS	       DAT_DTO_SUCCESS
#define DAT_RMR_BIND_FAILURE	       DAT_DTO_ERR_FLUSHED

typedef struct dat_dto_completion_event_data {
	DAT_EP_HANDLE ep_handle;
	DAT_DTO_COOKIE user_cookie;
	DAT_DTO_COMPLETION_STATUS status;
	DAT_VLEN transfered_length; /* bytes, on success; so spelled */
} DAT_DTO_COMPLETION_EVENT_DATA;

typedef struct dat_rmr_bind_completion_event_data {
	DAT_RMR_HANDLE rmr_handle;
	DAT_RMR_COOKIE user_cookie;
	DAT_RMR_BIND_COMPLETION_STATUS status;
} DAT_RMR_BIND_COMPLETION_EVENT_DATA;

typedef union dat_sp_handle {
	DAT_RSP_HANDLE rsp_handle;
	DAT_PSP_HANDLE psp_handle;
} DAT_SP_HANDLE;

typedef struct dat_cr_arrival_event_data {
	DAT_SP_HANDLE sp_handle; /* where it arrived */
	DAT_IA_ADDRESS_PTR local_ia_address_ptr;
	DAT_CONN_QUAL conn_qual; /* as the service point was given it */
	DAT_CR_HANDLE cr_handle;
} DAT_CR_ARRIVAL_EVENT_DATA;

/*
 * Private data comes with ESTABLISHED on the active side only, and lives until dat_ep_free or
 * dat_ep_reset.
 */
typedef struct dat_connection_event_data {
	DAT_EP_HANDLE ep_handle;
	DAT_COUNT private_data_size; /* bytes */
	DAT_PVOID private_data;
} DAT_CONNECTION_EVENT_DATA;

/* The reasons below overlap: ask dat_get_handle_type(dat_handle) which of them applies. */
typedef struct dat_asynch_error_event_data {
	DAT_HANDLE dat_handle;
	DAT_COUNT reason;
} DAT_ASYNCH_ERROR_EVENT_DATA;

typedef enum ia_async_error_reason {
	DAT_IA_CATASTROPHIC_ERROR = 0, /* the device is gone */
	DAT_IA_OTHER_ERROR = 1	       /* its port went down */
} DAT_IA_ASYNC_ERROR_REASON;

typedef enum ep_async_error_reason {
	DAT_EP_TRANSFER_TO_ERROR = 0,
	DAT_EP_OTHER_ERROR = 1,
	DAT_SRQ_SOFT_HIGH_WATERMARK_EVENT = 2
} DAT_EP_ASYNC_ERROR_REASON;

/*
 * The tags of this and the next enumeration are OFED's; Solaris calls them ep_evd_ and
 * ep_srq_error_reason.
 */
typedef enum evd_async_error_reason {
	DAT_EVD_OVERFLOW_ERROR = 0,
	DAT_EVD_OTHER_ERROR = 1
} DAT_EVD_ASYNC_ERROR_REASON;

typedef enum srq_async_error_reason {
	DAT_SRQ_TRANSFER_TO_ERROR = 0,
	DAT_SRQ_OTHER_ERROR = 1,
	DAT_SRQ_LOW_WATERMARK_EVENT = 2
} DAT_SRQ_ASYNC_ERROR_REASON;

typedef enum lmr_async_error_reason { DAT_LMR_OTHER_ERROR = 0 } DAT_LMR_ASYNC_ERROR_REASON;

typedef enum rmr_async_error_reason { DAT_RMR_OTHER_ERROR = 0 } DAT_RMR_ASYNC_ERROR_REASON;

typedef enum pz_async_error_reason { DAT_PZ_OTHER_ERROR = 0 } DAT_PZ_ASYNC_ERROR_REASON;

typedef struct dat_software_event_data {
	DAT_PVOID pointer; /* the consumer's own */
} DAT_SOFTWARE_EVENT_DATA;

typedef union dat_event_data {
	DAT_DTO_COMPLETION_EVENT_DATA dto_completion_event_data;
	DAT_RMR_BIND_COMPLETION_EVENT_DATA rmr_completion_event_data;
	DAT_CR_ARRIVAL_EVENT_DATA cr_arrival_event_data;
	DAT_CONNECTION_EVENT_DATA connect_event_data;
	DAT_ASYNCH_ERROR_EVENT_DATA asynch_error_event_data;
	DAT_SOFTWARE_EVENT_DATA software_event_data;
} DAT_EVENT_DATA;

/* Which member of DAT_EVENT_DATA is valid follows from the number. */
typedef enum dat_event_number {
	DAT_DTO_COMPLETION_EVENT = 0x00001,
	DAT_RMR_BIND_COMPLETION_EVENT = 0x01001,
	DAT_CONNECTION_REQUEST_EVENT = 0x02001, /* cr_arrival_event_data */

	/*
	 * connect_event_data; all but ESTABLISHED end the connection or the attempt, and exactly
	 * one of them comes
	 */
	DAT_CONNECTION_EVENT_ESTABLISHED = 0x04001,
	DAT_CONNECTION_EVENT_PEER_REJECTED = 0x04002, /* dat_cr_reject at the other end */
	/* nobody listens, or no room for the request */
	DAT_CONNECTION_EVENT_NON_PEER_REJECTED = 0x04003,
	/* accepted, but the connection did not come up */
	DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR = 0x04004,
	/* by dat_ep_disconnect at either end */
	DAT_CONNECTION_EVENT_DISCONNECTED = 0x04005,
	/* by a failed transfer or the transport */
	DAT_CONNECTION_EVENT_BROKEN = 0x04006,
	DAT_CONNECTION_EVENT_TIMED_OUT = 0x04007, /* the consumer's time-out passed */
	/* no address, no route, or a silent host */
	DAT_CONNECTION_EVENT_UNREACHABLE = 0x04008,

	/*
	 * asynch_error_event_data; a watermark too comes as PROVIDER_INTERNAL_ERROR, its reason
	 * tells
	 */
	DAT_ASYNC_ERROR_EVD_OVERFLOW = 0x08001, /* dat_handle: the EVD that was full */
	DAT_ASYNC_ERROR_IA_CATASTROPHIC = 0x08002,
	DAT_ASYNC_ERROR_EP_BROKEN = 0x08003,
	DAT_ASYNC_ERROR_TIMED_OUT = 0x08004,
	DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR = 0x08005,

	DAT_SOFTWARE_EVENT = 0x10001
} DAT_EVENT_NUMBER;

typedef struct dat_event {
	DAT_EVENT_NUMBER event_number;
	DAT_EVD_HANDLE evd_handle; /* the EVD it was taken from */
	DAT_EVENT_DATA event_data;
} DAT_EVENT;

/* A name that can be opened; all four members together are its key. */
typedef struct dat_provider_info {
	char ia_name[DAT_NAME_MAX_LENGTH];
	DAT_UINT32 dapl_version_major;
	DAT_UINT32 dapl_version_minor;
	DAT_BOOLEAN is_thread_safe;
} DAT_PROVIDER_INFO;

/* INTERFACE ADAPTER */

/*
 * dat_ia_openv opens one instance of the IA called name; a name may be open many times. dat_ia_open
 * is the macro that programs write: it fills in the version they were compiled for and
 * DAT_THREADSAFE.
 *
 * The registry takes the provider whose name, major version and thread safety are those asked for
 * and whose minor version is the same or else the smallest larger one, loading its library if need
 * be. *async_evd on entry:
 *	DAT_HANDLE_NULL		the provider makes an EVD for asynchronous events, with room for
 *				async_evd_qlen or more; it is the instance's own, and goes when that
 *				is closed
 *	an EVD			of the same provider and with DAT_EVD_ASYNC_FLAG: it is used as it
 *				is
 *	DAT_EVD_ASYNC_EXISTS	somebody else watches: none is made, *async_evd becomes
 *				DAT_EVD_OUT_OF_SCOPE
 * Every asynchronous event of the device reaches every instance's EVD. name may begin with
 * DAT_RO_AWARE_PREFIX. On failure *ia is DAT_HANDLE_NULL and *async_evd untouched.
 *
 * Blocks while the library is loaded and the device opened. Safe.
 * DAT_INVALID_PARAMETER, ARG1: name is null, or has 256 bytes or more
 * DAT_INVALID_PARAMETER, ARG2: async_evd_qlen is not above 0 though an EVD is to be made
 * DAT_INVALID_PARAMETER, DAT_INVALID_RO_COOKIE: no prefix, and only relaxed ordering can be
 *	had
 * DAT_PROVIDER_NOT_FOUND, NAME_NOT_REGISTERED, MAJOR_NOT_FOUND, MINOR_NOT_FOUND or
 *	THREAD_SAFETY_NOT_FOUND: the first of these, in this order, for which no candidate is
 *	left
 * DAT_INVALID_HANDLE, EVD_ASYNC: the EVD is not one for asynchronous events of this
 *	provider
 * DAT_INSUFFICIENT_RESOURCES, DEVICE: no such device or interface, or it cannot be opened
 * DAT_INSUFFICIENT_RESOURCES, TEVD: async_evd_qlen is above max_evd_qlen
 * DAT_INSUFFICIENT_RESOURCES, ERROR_HANDLER: the thread for asynchronous events cannot
 *	start
 * Source: dat_ia_open(3DAT); the order of subtypes and DAT_EVD_OUT_OF_SCOPE are our choice.
 */
DAT_RETURN dat_ia_openv(const DAT_NAME_PTR name, DAT_COUNT async_evd_qlen,
			DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia, DAT_UINT32 major,
			DAT_UINT32 minor, DAT_BOOLEAN thread_safety);

#define dat_ia_open(name, async_evd_qlen, async_evd, ia)                                           \
	dat_ia_openv((name), (async_evd_qlen), (async_evd), (ia), DAT_VERSION_MAJOR,               \
		     DAT_VERSION_MINOR, DAT_THREADSAFE)

/*
 * dat_ia_query tells what the adapter and its provider can do. Each mask asks for members of the
 * structure after it, and more may be filled; ours fill all. async_evd may be null, a structure may
 * be if its mask is 0. Strings and arrays behind pointers live until the instance is closed.
 * Nothing changes while it is open unless the device does.
 *
 * Safe.
 * DAT_INVALID_PARAMETER, ARG3 or ARG5: unknown bits in a mask; ARG4 or ARG6: null with a
 *	mask that is not 0
 * Source: dat_ia_query(3DAT)
 */
DAT_RETURN dat_ia_query(DAT_IA_HANDLE ia, DAT_EVD_HANDLE *async_evd, DAT_IA_ATTR_MASK ia_mask,
			DAT_IA_ATTR *ia_attr, DAT_PROVIDER_ATTR_MASK provider_mask,
			DAT_PROVIDER_ATTR *provider_attr);

/*
 * dat_ia_close closes an instance. DAT_CLOSE_GRACEFUL_FLAG succeeds only if every object made from
 * it is gone, save its own asynchronous EVD; requests that nobody answered count as objects.
 * DAT_CLOSE_ABRUPT_FLAG destroys all of them in any state and cannot fail: peers see DISCONNECTED,
 * this side no event at all. Threads in dat_evd_wait return DAT_ABORT, threads in dat_cno_wait
 * succeed with DAT_HANDLE_NULL, proxy agents are called with DAT_HANDLE_NULL. An EVD that was given
 * to dat_ia_open stays.
 *
 * Blocks until the device has let go and the waiters have left. Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: flags is neither of the two
 * DAT_INVALID_STATE, IA_IN_USE: graceful, and objects remain, or another instance uses its
 *	asynchronous EVD
 * Source: dat_ia_close(3DAT)
 */
DAT_RETURN dat_ia_close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS flags);

/* ANY OBJECT */

/*
 * dat_set_consumer_context hangs 64 bits of the consumer's on an object of any kind, in place of
 * those before; fresh objects have 0. The provider neither looks at them nor orders access to them.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, HANDLE1: not a live object
 * Source: dat_set_consumer_context(3DAT); shared receive queues too are our choice.
 */
DAT_RETURN dat_set_consumer_context(DAT_HANDLE handle, DAT_CONTEXT context);

/*
 * dat_get_consumer_context returns what was set last, or 0.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, HANDLE1: not a live object
 * DAT_INVALID_PARAMETER, ARG2: context is null
 * Source: dat_get_consumer_context(3DAT)
 */
DAT_RETURN dat_get_consumer_context(DAT_HANDLE handle, DAT_CONTEXT *context);

/*
 * dat_get_handle_type tells what kind of object a handle is. The reason of an asynchronous error
 * needs it.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, HANDLE1: not a live object
 * DAT_INVALID_PARAMETER, ARG2: type is null
 * Source: dat_get_handle_type(3DAT)
 */
DAT_RETURN dat_get_handle_type(DAT_HANDLE handle, DAT_HANDLE_TYPE *type);

/*
 * CONNECTION REQUEST: born with its event, ended by accept, reject, handoff or the close of the IA
 */

/*
 * dat_cr_query tells who asks for a connection and with what private data. Pointers in param die
 * with the request.
 *
 * Safe.
 * DAT_INVALID_PARAMETER, ARG2: unknown bits in mask; ARG3: param is null
 * Source: dat_cr_query(3DAT)
 */
DAT_RETURN dat_cr_query(DAT_CR_HANDLE cr, DAT_CR_PARAM_MASK mask, DAT_CR_PARAM *param);

/*
 * dat_cr_accept accepts a request with an endpoint, which becomes COMPLETION_PENDING. ep is null
 * if, and only if, the request brought an endpoint (local_ep_handle); otherwise it is unconnected.
 * private_data_size counts bytes, up to what the transport carries in a reply; the data is copied.
 * Success ends the request, failure leaves all as it was.
 *
 * One event follows on the endpoint's connect EVD: ESTABLISHED, or ACCEPT_COMPLETION_ERROR with the
 * receives flushed, or DISCONNECTED if dat_ep_disconnect comes first. A peer that gave up meanwhile
 * is no failure of the call. Unsafe.
 * DAT_INVALID_HANDLE, EP: ep is bad, or missing, or given though the request has one
 * DAT_INVALID_PARAMETER, ARG3: private_data_size is negative or above the limit; ARG4: data
 *	null though its size is not 0
 * DAT_INVALID_STATE, EP_<state>: the endpoint is not one that can accept
 * DAT_INVALID_STATE, EP_NOTREADY: it has no protection zone or no connect EVD
 * DAT_INSUFFICIENT_RESOURCES, TEP: the transport refused
 * Source: dat_cr_accept(3DAT)
 */
DAT_RETURN dat_cr_accept(DAT_CR_HANDLE cr, DAT_EP_HANDLE ep, DAT_COUNT private_data_size,
			 const DAT_PVOID private_data);

/*
 * dat_cr_reject refuses a request and ends it; the active side gets PEER_REJECTED. The endpoint of
 * an RSP is unconnected again and keeps its receives; one that the provider made is destroyed.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, CR: not a live request
 * Source: dat_cr_reject(3DAT)
 */
DAT_RETURN dat_cr_reject(DAT_CR_HANDLE cr);

/*
 * dat_cr_handoff gives a request to the service point of the same IA instance that listens on
 * conn_qual: it arrives there as a new request with its own event, and this one ends, its endpoint
 * as after dat_cr_reject.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: nobody listens there, or it is where the request came from;
 *	the request is untouched
 * DAT_INSUFFICIENT_RESOURCES, MEMORY: the EVD there is full; the request is untouched
 * Source: dat_cr_handoff(3DAT); within one instance is our choice.
 */
DAT_RETURN dat_cr_handoff(DAT_CR_HANDLE cr, DAT_CONN_QUAL conn_qual);

/*
 * EVENT DISPATCHER: a queue of events; dat_evd_create, dat_evd_wait and the gates are in udat.h.
 * Where an EVD plays no part in the call but itself, a bad one is DAT_INVALID_HANDLE, HANDLE1.
 */

/*
 * dat_evd_resize changes how many events an EVD holds, to evd_qlen or more. No event is lost,
 * queued or arriving.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: evd_qlen is not above 0, or above max_evd_qlen
 * DAT_INVALID_STATE, EVD_WAITER: a thread waits on it; without subtype: more than evd_qlen
 *	events are queued
 * DAT_INSUFFICIENT_RESOURCES, TEVD: the device cannot resize a queue in use
 * Source: dat_evd_resize(3DAT)
 */
DAT_RETURN dat_evd_resize(DAT_EVD_HANDLE evd, DAT_COUNT evd_qlen);

/*
 * dat_evd_post_se queues a copy of a software event, which wakes a waiter or triggers the CNO as
 * any event does. event_number must be DAT_SOFTWARE_EVENT, the pointer is passed through. A proxy
 * agent may run inside the call.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG1: the EVD lacks DAT_EVD_SOFTWARE_FLAG; ARG2: event is null or
 *	has another number
 * DAT_QUEUE_FULL: evd_qlen events are queued; no overflow is reported besides
 * Source: dat_evd_post_se(3DAT)
 */
DAT_RETURN dat_evd_post_se(DAT_EVD_HANDLE evd, const DAT_EVENT *event);

/*
 * dat_evd_dequeue takes the oldest event, also off an EVD that is disabled, unwaitable or has a
 * CNO. Each event is given out once whoever asks; those of one stream come in order, two streams
 * have none.
 *
 * Safe.
 * DAT_QUEUE_EMPTY: there is none; returned without a class, as 0x000d0000
 * DAT_INVALID_PARAMETER, ARG2: event is null
 * DAT_INVALID_STATE, EVD_WAITER: a thread is in dat_evd_wait
 * Source: dat_evd_dequeue(3DAT); without a class is our choice, as programs compare the
 *	whole word.
 */
DAT_RETURN dat_evd_dequeue(DAT_EVD_HANDLE evd, DAT_EVENT *event);

/*
 * dat_evd_query tells an EVD's length, state, CNO and streams. evd_state is one bit of each of
 * three pairs or triples, see DAT_EVD_STATE; an EVD that no endpoint configured says
 * CONFIG_THRESHOLD.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: unknown bits in mask; ARG3: param is null
 * Source: dat_evd_query(3DAT)
 */
DAT_RETURN dat_evd_query(DAT_EVD_HANDLE evd, DAT_EVD_PARAM_MASK mask, DAT_EVD_PARAM *param);

/*
 * dat_evd_free destroys an EVD and the events on it; what fed it is unaffected. If it was its CNO's
 * last, those who wait on the CNO return with DAT_HANDLE_NULL, and an armed agent is called with
 * it.
 *
 * Unsafe.
 * DAT_INVALID_STATE, EVD_IN_USE: an endpoint, a service point or an IA still feeds it
 * DAT_INVALID_STATE, EVD_WAITER: a thread waits on it
 * Source: dat_evd_free(3DAT); refusing under a waiter is our choice.
 */
DAT_RETURN dat_evd_free(DAT_EVD_HANDLE evd);

/* ENDPOINT */

/*
 * dat_ep_create makes an unconnected endpoint. pz, each EVD and attr may be null; the zone and the
 * connect EVD must be set before connect or accept, by dat_ep_modify. One EVD may serve several
 * roles if its flags allow it; a null one means that those events are not wanted. attr null takes
 * the provider's defaults, which connecting may still lower: 16 receives, 16 requests, 4 segments,
 * 8 RDMA reads each way, 2 GB, all capped by the device. attr given: all of it, or failure; 0 in a
 * size or in an RDMA iov count is a default too, see DAT_EP_ATTR.
 *
 * Safe.
 * DAT_INVALID_HANDLE, IA, PZ, EVD_RECV, EVD_REQUEST, EVD_CONN: bad, or the EVD lacks the
 *	flag that its role needs
 * DAT_INVALID_PARAMETER, ARG6: a limit above the device's or negative, no segments for
 *	transfers, a service type or completion flags that do not exist or clash with how the EVD
 *	is configured; ARG7: ep is null
 * DAT_MODEL_NOT_SUPPORTED: quality of service
 * DAT_INSUFFICIENT_RESOURCES, TEP: the device has no more, or not of this shape
 * Source: dat_ep_create(3DAT); the defaults are our choice, OFED's.
 */
DAT_RETURN dat_ep_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,
			 DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd,
			 const DAT_EP_ATTR *attr, DAT_EP_HANDLE *ep);

/*
 * dat_ep_query tells all about an endpoint: state, addresses, zone, EVDs, and the attributes that
 * it really has.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: unknown bits in mask; ARG3: param is null
 * Source: dat_ep_query(3DAT)
 */
DAT_RETURN dat_ep_query(DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask, DAT_EP_PARAM *param);

/*
 * dat_ep_modify sets the masked members, all of them or none. The zone may change while unconnected
 * or tentative; EVDs, sizes, counts and completion flags also while reserved or passive; the rest
 * never. Receives already posted stay, though in a new zone they may fail for protection, and while
 * there are any recv_completion_flags cannot change.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: a member that never changes, or unknown bits; ARG3: param is
 *	null, or a value is out of range, a handle bad, an EVD without the flag it needs, or
 *	completion flags clash
 * DAT_INVALID_STATE, EP_<state>: the member cannot change now
 * DAT_INSUFFICIENT_RESOURCES, TEP: the device has nothing of the new shape
 * Source: dat_ep_modify(3DAT)
 */
DAT_RETURN dat_ep_modify(DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask, const DAT_EP_PARAM *param);

/*
 * dat_ep_connect asks for a connection to conn_qual at an address, whose own port is ignored.
 * timeout in microseconds, above 0, up to DAT_TIMEOUT_INFINITE, counts until ESTABLISHED.
 * private_data_size in bytes, up to max_private_data_size; the data is copied. The endpoint becomes
 * ACTIVE_CONNECTION_PENDING and its receives stay posted.
 *
 * One event follows on its connect EVD: ESTABLISHED, PEER_REJECTED, NON_PEER_REJECTED, UNREACHABLE,
 * TIMED_OUT, or DISCONNECTED if dat_ep_disconnect comes first; all but the first leave it
 * DISCONNECTED, its receives flushed. Unsafe.
 * DAT_INVALID_HANDLE, EVD_CONN: it has no connect EVD
 * DAT_INVALID_PARAMETER, ARG2: address null; ARG3: conn_qual 0; ARG4: timeout 0; ARG5:
 *	private_data_size negative or too large; ARG6: private_data null though its size is not
 *	0; ARG8: unknown flags
 * DAT_INVALID_ADDRESS, MALFORMED: unknown family; UNSUPPORTED: multicast, broadcast,
 *	unspecified, or a family that this interface lacks; UNREACHABLE: no route
 * DAT_INVALID_STATE, EP_<state>: not unconnected; EP_NOTREADY: it has no protection zone
 * DAT_MODEL_NOT_SUPPORTED: quality of service, or several paths
 * DAT_INSUFFICIENT_RESOURCES, TEP: the transport has no more connections
 * Source: dat_ep_connect(3DAT)
 */
DAT_RETURN dat_ep_connect(DAT_EP_HANDLE ep, DAT_IA_ADDRESS_PTR address, DAT_CONN_QUAL conn_qual,
			  DAT_TIMEOUT timeout, DAT_COUNT private_data_size,
			  const DAT_PVOID private_data, DAT_QOS qos, DAT_CONNECT_FLAGS flags);

/*
 * dat_ep_dup_connect connects to where dup_ep is connected: the address, qualifier and flags that
 * it was given. Otherwise it is dat_ep_connect. An endpoint that accepted its connection cannot be
 * the model: its peer listens nowhere.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG3: timeout 0; ARG4: private_data_size; ARG5: private_data
 * DAT_INVALID_STATE, EP_<state>: ep is not unconnected, or dup_ep is not connected or, with
 *	EP_CONNECTED, has accepted
 * All other errors and the events are those of dat_ep_connect.
 * Source: dat_ep_dup_connect(3DAT)
 */
DAT_RETURN dat_ep_dup_connect(DAT_EP_HANDLE ep, DAT_EP_HANDLE dup_ep, DAT_TIMEOUT timeout,
			      DAT_COUNT private_data_size, const DAT_PVOID private_data,
			      DAT_QOS qos);

/*
 * dat_ep_disconnect ends a connection or an attempt at one. Abrupt, it fails what is outstanding at
 * once; graceful, it lets posted requests finish first, for at most 3 seconds, and refuses new
 * ones. Receives are flushed either way. One event follows on the connect EVD, DISCONNECTED, or
 * BROKEN if a transport error wins; none if it was DISCONNECTED already, which is a success. An
 * abrupt call hastens a graceful one. The event may come before the call returns.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: flags is neither DAT_CLOSE_ABRUPT_FLAG nor
 *	DAT_CLOSE_GRACEFUL_FLAG
 * DAT_INVALID_STATE, EP_<state>: unconnected, reserved, passive or tentative
 * Source: dat_ep_disconnect(3DAT); the time limit is our choice.
 */
DAT_RETURN dat_ep_disconnect(DAT_EP_HANDLE ep, DAT_CLOSE_FLAGS flags);

/*
 * dat_ep_post_send sends one message, the num_segments segments at iov put together; none is an
 * empty message. The peer needs a receive that is large enough. flags: SUPPRESS, SOLICITED_WAIT,
 * UNSIGNALLED, BARRIER_FENCE. iov is the consumer's again on return, the data on completion:
 * DAT_DTO_COMPLETION_EVENT on the request EVD, in the order of posting, which carries cookie. While
 * the endpoint is DISCONNECTED a post is accepted and flushed.
 *
 * Wrong contexts, ranges, zones and privileges show in the completion, not here.
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: num_segments negative or above max_request_iov; ARG3: iov
 *	null though there are segments, or more bytes than max_message_size; ARG5: unknown flags,
 *	or UNSIGNALLED though the endpoint's requests are not
 * DAT_INVALID_STATE, EP_<state>: neither connected nor DISCONNECTED
 * DAT_INSUFFICIENT_RESOURCES, MEMORY: max_request_dtos requests are outstanding
 * Source: dat_ep_post_send(3DAT); errors of protection in the completion are our choice
 *	among the two allowed.
 */
DAT_RETURN dat_ep_post_send(DAT_EP_HANDLE ep, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
			    DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags);

/*
 * dat_ep_post_recv offers memory for one message, in any state; in DISCONNECTED it is flushed at
 * once. Segments are filled front to back and need local write. A longer message completes with
 * LOCAL_LENGTH and breaks the connection. flags: UNSIGNALLED. It completes on the receive EVD, in
 * order, with the bytes received; no receive can be suppressed.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG1: the endpoint takes its receives from a shared queue; ARG2:
 *	num_segments negative or above max_recv_iov; ARG3: iov null though there are segments;
 *	ARG5: other flags, or the endpoint's receives are not UNSIGNALLED
 * DAT_INVALID_STATE, EP_NOTREADY: it has no protection zone
 * DAT_INSUFFICIENT_RESOURCES, MEMORY: max_recv_dtos receives are outstanding
 * Source: dat_ep_post_recv(3DAT)
 */
DAT_RETURN dat_ep_post_recv(DAT_EP_HANDLE ep, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
			    DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags);

/*
 * dat_ep_post_rdma_read fetches the bytes of remote, no more and no less, into iov, front to back;
 * room beyond stays as it is. flags: SUPPRESS, UNSIGNALLED, BARRIER_FENCE. Where
 * rdma_write_for_rdma_read_req says so, local memory needs remote write. max_rdma_read_out limits
 * how many are in flight, not how many may be posted. Completes as dat_ep_post_send does.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: num_segments negative or above max_rdma_read_iov; ARG3: iov
 *	null though there are segments; ARG5: remote null, or longer than max_rdma_size; ARG6:
 *	flags, SOLICITED_WAIT included
 * DAT_LENGTH_ERROR: iov has less room than remote has bytes
 * DAT_INVALID_STATE, EP_<state>: neither connected nor DISCONNECTED; EP_NOTREADY:
 *	max_rdma_read_out is 0
 * DAT_INSUFFICIENT_RESOURCES, MEMORY: max_request_dtos requests are outstanding
 * Source: dat_ep_post_rdma_read(3DAT)
 */
DAT_RETURN dat_ep_post_rdma_read(DAT_EP_HANDLE ep, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
				 DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
				 DAT_COMPLETION_FLAGS flags);

/*
 * dat_ep_post_rdma_write puts the bytes of iov at the start of remote, which may be longer. The
 * peer gets no event, and sees the bytes in order unless it opened its IA with DAT_RO_AWARE_PREFIX.
 * On iWARP completion means only that the local memory may be reused, elsewhere that the bytes are
 * there. Flags and completion as for dat_ep_post_rdma_read.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: num_segments negative or above max_rdma_write_iov; ARG3: iov
 *	null though there are segments; ARG5: remote null, or more bytes than max_rdma_size;
 *	ARG6: flags, SOLICITED_WAIT included
 * DAT_LENGTH_ERROR: iov has more bytes than remote has room
 * DAT_INVALID_STATE, EP_<state>: neither connected nor DISCONNECTED
 * DAT_INSUFFICIENT_RESOURCES, MEMORY: max_request_dtos requests are outstanding
 * Source: dat_ep_post_rdma_write(3DAT)
 */
DAT_RETURN dat_ep_post_rdma_write(DAT_EP_HANDLE ep, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
				  DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
				  DAT_COMPLETION_FLAGS flags);

/*
 * dat_ep_get_status looks at an endpoint: its state, and whether no receive and no request is
 * posted and not completed. Completed means that the provider knows of it, the consumer need not
 * have dequeued it. Outputs may be null. An endpoint on a shared queue has receives of its own only
 * where the transport tells; elsewhere recv_idle is DAT_TRUE.
 *
 * Safe.
 * DAT_INVALID_HANDLE, EP: not a live endpoint
 * Source: dat_ep_get_status(3DAT)
 */
DAT_RETURN dat_ep_get_status(DAT_EP_HANDLE ep, DAT_EP_STATE *state, DAT_BOOLEAN *recv_idle,
			     DAT_BOOLEAN *request_idle);

/*
 * dat_ep_free destroys an endpoint. A connection is ended abruptly and silently: the peer sees
 * DISCONNECTED, here no event comes after the call. Completions that were dequeued from the device
 * stay on their EVDs, the others vanish; buffers are the consumer's again.
 *
 * Blocks until the device has let go, for a bounded time. Unsafe.
 * DAT_INVALID_STATE, EP_RESERVED, EP_PASSCONNPENDING or EP_TENTCONNPENDING: free the RSP or
 *	reject the request first
 * Source: dat_ep_free(3DAT)
 */
DAT_RETURN dat_ep_free(DAT_EP_HANDLE ep);

/*
 * dat_ep_reset makes a DISCONNECTED endpoint unconnected again, with all it was given; on an
 * unconnected one it does nothing, and receives stay posted. Completions not yet dequeued may be
 * lost in principle; ours loses none. Private data that came with ESTABLISHED is gone.
 *
 * Blocks until the transport has recycled the connection, for a bounded time. Unsafe.
 * DAT_INVALID_STATE, EP_<state>: any other state
 * DAT_INSUFFICIENT_RESOURCES, TEP: the transport had no new endpoint; it is still
 *	DISCONNECTED
 * Source: dat_ep_reset(3DAT)
 */
DAT_RETURN dat_ep_reset(DAT_EP_HANDLE ep);

/*
 * dat_ep_create_with_srq makes an endpoint that takes its receives from srq, for as long as it
 * lives. As dat_ep_create, but attr must be given, its max_recv_iov is not looked at, and
 * max_recv_dtos only says how much of the receive EVD the endpoint may fill. The zone of the
 * endpoint governs its requests, that of the queue its receives.
 *
 * Safe.
 * DAT_INVALID_HANDLE, SRQ and those of dat_ep_create
 * DAT_INVALID_PARAMETER, ARG2: the zones differ, and srq_ep_pz_difference_supported is
 *	DAT_FALSE; ARG7: attr is null, or bad as in dat_ep_create; ARG8: ep is null
 * DAT_INVALID_STATE, SRQ_ERROR: the queue is in error
 * DAT_MODEL_NOT_SUPPORTED: no shared queues here, or the quality of service
 * DAT_INSUFFICIENT_RESOURCES, TEP: the device has no more, or not of this shape
 * Source: dat_ep_create_with_srq(3DAT)
 */
DAT_RETURN dat_ep_create_with_srq(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,
				  DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd,
				  DAT_SRQ_HANDLE srq, const DAT_EP_ATTR *attr, DAT_EP_HANDLE *ep);

/*
 * dat_ep_recv_query counts receive buffers: those with the endpoint and not completed, and the
 * completions still to come if all that is now arriving succeeds, never fewer. One look gives both;
 * either output may be null. A count that cannot be had cheaply is DAT_VALUE_UNKNOWN, as both are
 * with a shared queue in hardware.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, EP: not a live endpoint
 * Source: dat_ep_recv_query(3DAT)
 */
DAT_RETURN dat_ep_recv_query(DAT_EP_HANDLE ep, DAT_COUNT *num_buffers, DAT_COUNT *buffer_span);

/*
 * dat_ep_set_watermark limits how many receive buffers an endpoint may have taken. Above soft, one
 * asynchronous event, till it is set again; above hard, the connection breaks.
 * DAT_WATERMARK_INFINITE, the default, disarms. If the count is above already it happens inside the
 * call.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2, ARG3: negative and not infinite, or above max_recv_dtos
 * DAT_MODEL_NOT_SUPPORTED: finite, and srq_watermarks_supported denies it
 * Source: dat_ep_set_watermark(3DAT)
 */
DAT_RETURN dat_ep_set_watermark(DAT_EP_HANDLE ep, DAT_COUNT soft, DAT_COUNT hard);

/* LOCAL MEMORY REGION: dat_lmr_create is in udat.h */

/*
 * dat_lmr_query tells what was registered and under which contexts. For DAT_MEM_TYPE_SHARED_VIRTUAL
 * region_desc points to the provider's copy of the cookie, for DAT_MEM_TYPE_LMR length and range
 * are the source's.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: unknown bits in mask; ARG3: param is null
 * Source: dat_lmr_query(3DAT)
 */
DAT_RETURN dat_lmr_query(DAT_LMR_HANDLE lmr, DAT_LMR_PARAM_MASK mask, DAT_LMR_PARAM *param);

/*
 * dat_lmr_free ends a registration. Transfers that start later fail for protection, here or at the
 * peer, and break their connection; what is already arriving may still succeed, but nothing touches
 * the memory after the return. Regions that were derived from this one live on.
 *
 * Blocks for the kernel's work. Unsafe.
 * DAT_INVALID_STATE, LMR_IN_USE: an RMR is bound to it; it stays usable
 * Source: dat_lmr_free(3DAT)
 */
DAT_RETURN dat_lmr_free(DAT_LMR_HANDLE lmr);

/*
 * dat_lmr_sync_rdma_read shows the adapter what this process stored, before a peer reads it by
 * RDMA. Needed where lmr_sync_req is DAT_TRUE, a fence elsewhere. Segments may lie in several
 * regions and zones. num_segments counts segments, though its type is that of a length; 0 is a
 * success.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: segments null though there are some, a context of no region
 *	of this IA, or a range outside its region
 * Source: dat_lmr_sync_rdma_read(3DAT)
 */
DAT_RETURN dat_lmr_sync_rdma_read(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *segments,
				  DAT_VLEN num_segments);

/*
 * dat_lmr_sync_rdma_write shows this process what a peer wrote by RDMA, after that completed and
 * before it is looked at; likewise before the write starts where this process stored there first.
 * Otherwise as dat_lmr_sync_rdma_read.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: as dat_lmr_sync_rdma_read
 * Source: dat_lmr_sync_rdma_write(3DAT)
 */
DAT_RETURN dat_lmr_sync_rdma_write(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *segments,
				   DAT_VLEN num_segments);

/* REMOTE MEMORY REGION: a window, heavy to make and light to move */

/*
 * dat_rmr_create makes a window in a protection zone, bound to nothing.
 *
 * Safe.
 * DAT_INSUFFICIENT_RESOURCES, MEMORY_REGION: the device has no more
 * DAT_MODEL_NOT_SUPPORTED: max_rmrs is 0
 * Source: dat_rmr_create(3DAT)
 */
DAT_RETURN dat_rmr_create(DAT_PZ_HANDLE pz, DAT_RMR_HANDLE *rmr);

/*
 * dat_rmr_query tells what a window is bound to. Unbound, the members after pz_handle are zero.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: unknown bits in mask, or LMR_TRIPLET asked of a window that
 *	is unbound; ARG3: param is null
 * Source: dat_rmr_query(3DAT), which leaves the unbound case open: our choice, OFED's.
 */
DAT_RETURN dat_rmr_query(DAT_RMR_HANDLE rmr, DAT_RMR_PARAM_MASK mask, DAT_RMR_PARAM *param);

/*
 * dat_rmr_bind binds a window to the range of a region that triplet names, and returns the context
 * for peers, new each time, at once. They may use it when the bind has completed; a send posted
 * later on ep may carry it, as the bind fences all that follow. The context before dies then; no
 * unbinding is needed. segment_length 0 unbinds, and the context is 0. priv asks for remote read
 * and write, local bits are ignored. flags: SUPPRESS, UNSIGNALLED, BARRIER_FENCE.
 *
 * It is a request of ep, in order with the others, and completes with DAT_RMR_BIND_COMPLETION_EVENT
 * on the request EVD; should it fail the connection breaks. While ep is DISCONNECTED it is accepted
 * and flushed: nothing was bound. Where the device has no windows, the call blocks while the kernel
 * registers the range. Unsafe.
 * DAT_INVALID_HANDLE, EVD_REQUEST: the request EVD of ep is missing or lacks
 *	DAT_EVD_RMR_BIND_FLAG
 * DAT_INVALID_PARAMETER, ARG2: triplet null, a context of no region, or a range outside it;
 *	ARG3: privileges beyond DAT_MEM_PRIV_ALL_FLAG; ARG6: flags; ARG7: context is null
 * DAT_INVALID_STATE, EP_<state>: neither connected nor DISCONNECTED
 * DAT_PROTECTION_VIOLATION: window, region and endpoint are not all of one zone
 * DAT_PRIVILEGES_VIOLATION, RDMA_READ or RDMA_WRITE: the region lacks local read or local
 *	write for it
 * DAT_INSUFFICIENT_RESOURCES, MEMORY: max_request_dtos requests are outstanding;
 *	MEMORY_REGION: the device has no more windows, after a bind that failed, or regions,
 *	where those stand in for windows
 * Source: dat_rmr_bind(3DAT)
 */
DAT_RETURN dat_rmr_bind(DAT_RMR_HANDLE rmr, const DAT_LMR_TRIPLET *triplet, DAT_MEM_PRIV_FLAGS priv,
			DAT_EP_HANDLE ep, DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags,
			DAT_RMR_CONTEXT *context);

/*
 * dat_rmr_free destroys a window, bound or not; peers that use its context fail as after
 * dat_lmr_free. The completion of a bind in flight still comes.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, RMR: not a live window
 * Source: dat_rmr_free(3DAT)
 */
DAT_RETURN dat_rmr_free(DAT_RMR_HANDLE rmr);

/* SERVICE POINTS */

/*
 * dat_psp_create listens on conn_qual until freed. Each request that arrives, maybe before the call
 * returns, is a
 * DAT_CONNECTION_REQUEST_EVENT on evd; one that finds no room there is refused (the peer
 *	gets NON_PEER_REJECTED). flags
 * says who makes the endpoints, see DAT_PSP_FLAGS.
 *
 * Blocks until it listens. Safe.
 * DAT_INVALID_HANDLE, EVD_CR: evd is bad or lacks DAT_EVD_CR_FLAG
 * DAT_INVALID_PARAMETER, ARG2: conn_qual is 0, or a port that needs privileges; ARG4:
 *	flags; ARG5: psp is null
 * DAT_CONN_QUAL_IN_USE: somebody listens there, or on another qualifier with that port
 * DAT_MODEL_NOT_SUPPORTED: ep_creator rules out flags
 * DAT_INSUFFICIENT_RESOURCES, DEVICE: the transport has no more listeners
 * Source: dat_psp_create(3DAT)
 */
DAT_RETURN dat_psp_create(DAT_IA_HANDLE ia, DAT_CONN_QUAL conn_qual, DAT_EVD_HANDLE evd,
			  DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *psp);

/*
 * dat_psp_create_any listens on a qualifier that is free and needs no privileges, and returns it.
 *
 * Blocks until it listens. Safe.
 * DAT_INVALID_PARAMETER, ARG2: conn_qual is null
 * DAT_CONN_QUAL_UNAVAILABLE: none is left
 * All else is as dat_psp_create has it.
 * Source: dat_psp_create_any(3DAT)
 */
DAT_RETURN dat_psp_create_any(DAT_IA_HANDLE ia, DAT_CONN_QUAL *conn_qual, DAT_EVD_HANDLE evd,
			      DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *psp);

/*
 * dat_psp_query tells a service point's qualifier, EVD and flags.
 *
 * Safe.
 * DAT_INVALID_PARAMETER, ARG2: unknown bits in mask; ARG3: param is null
 * Source: dat_psp_query(3DAT)
 */
DAT_RETURN dat_psp_query(DAT_PSP_HANDLE psp, DAT_PSP_PARAM_MASK mask, DAT_PSP_PARAM *param);

/*
 * dat_psp_free stops listening; the qualifier is free on return. Requests whose event was queued
 * live on.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, PSP: not a live service point
 * Source: dat_psp_free(3DAT)
 */
DAT_RETURN dat_psp_free(DAT_PSP_HANDLE psp);

/*
 * dat_rsp_create listens on conn_qual for one request, which is for ep: that becomes reserved, and
 * passive when the request arrives as DAT_CONNECTION_REQUEST_EVENT on evd. Then the listener
 * closes; the handle stays good for query and free. With ep null the provider makes an endpoint, as
 * for DAT_PSP_PROVIDER_FLAG.
 *
 * Blocks until it listens. Safe.
 * DAT_INVALID_HANDLE, EP: bad; EVD_CR: evd is bad or lacks DAT_EVD_CR_FLAG
 * DAT_INVALID_PARAMETER, ARG2: conn_qual is 0, or a port that needs privileges; ARG5: rsp
 *	is null
 * DAT_INVALID_STATE, EP_<state>: ep is not unconnected
 * DAT_CONN_QUAL_IN_USE: somebody listens there, or on another qualifier with that port
 * DAT_INSUFFICIENT_RESOURCES, DEVICE: the transport has no more listeners
 * Source: dat_rsp_create(3DAT); how long the handle lives is our choice.
 */
DAT_RETURN dat_rsp_create(DAT_IA_HANDLE ia, DAT_CONN_QUAL conn_qual, DAT_EP_HANDLE ep,
			  DAT_EVD_HANDLE evd, DAT_RSP_HANDLE *rsp);

/*
 * dat_rsp_query tells a service point's qualifier, EVD and endpoint.
 *
 * Safe.
 * DAT_INVALID_PARAMETER, ARG2: unknown bits in mask; ARG3: param is null
 * Source: dat_rsp_query(3DAT)
 */
DAT_RETURN dat_rsp_query(DAT_RSP_HANDLE rsp, DAT_RSP_PARAM_MASK mask, DAT_RSP_PARAM *param);

/*
 * dat_rsp_free stops listening; a reserved endpoint is unconnected again. If the request came first
 * the endpoint is passive, and the request lives on to be accepted or rejected.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, RSP: not a live service point
 * Source: dat_rsp_free(3DAT)
 */
DAT_RETURN dat_rsp_free(DAT_RSP_HANDLE rsp);

/* PROTECTION ZONE */

/*
 * dat_pz_create makes a protection zone: endpoints, regions, windows and shared queues work
 * together inside one only.
 *
 * Safe.
 * DAT_INSUFFICIENT_RESOURCES, PROTECTION_DOMAIN: the device has no more
 * Source: dat_pz_create(3DAT)
 */
DAT_RETURN dat_pz_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE *pz);

/*
 * dat_pz_query tells which IA a zone belongs to.
 *
 * Safe.
 * DAT_INVALID_PARAMETER, ARG2: unknown bits in mask; ARG3: param is null
 * Source: dat_pz_query(3DAT)
 */
DAT_RETURN dat_pz_query(DAT_PZ_HANDLE pz, DAT_PZ_PARAM_MASK mask, DAT_PZ_PARAM *param);

/*
 * dat_pz_free destroys a zone that nothing uses.
 *
 * Unsafe.
 * DAT_INVALID_STATE, PZ_IN_USE: an endpoint, a region, a window or a shared queue uses it;
 *	it stays usable
 * Source: dat_pz_free(3DAT)
 */
DAT_RETURN dat_pz_free(DAT_PZ_HANDLE pz);

/* SHARED RECEIVE QUEUE */

/*
 * dat_srq_create makes an empty queue of receives for several endpoints. attr is a wish: the queue
 * may turn out larger.
 *
 * Safe.
 * DAT_INVALID_PARAMETER, ARG3: attr null, max_recv_dtos not above 0, a count above the
 *	device's, or low_watermark not DAT_SRQ_LW_DEFAULT; ARG4: srq is null
 * DAT_INSUFFICIENT_RESOURCES, SRQ: the device has no more
 * DAT_MODEL_NOT_SUPPORTED: srq_supported is DAT_FALSE
 * Source: dat_srq_create(3DAT); no watermark on an empty queue, where it would fire at
 *	once, is our choice.
 */
DAT_RETURN dat_srq_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_SRQ_ATTR *attr,
			  DAT_SRQ_HANDLE *srq);

/*
 * dat_srq_free destroys a queue that no endpoint uses. Receives on it go back silently, without an
 * event.
 *
 * Unsafe.
 * DAT_INVALID_STATE, SRQ_IN_USE: an endpoint uses it
 * Source: dat_srq_free(3DAT)
 */
DAT_RETURN dat_srq_free(DAT_SRQ_HANDLE srq);

/*
 * dat_srq_post_recv offers memory for one message, to whichever endpoint of the queue gets one. It
 * completes on the receive EVD of that endpoint, always with a notifying event that names the
 * endpoint. Segments need local write and the zone of the queue.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: num_segments negative or above max_recv_iov; ARG3: iov null
 *	though there are segments
 * DAT_INVALID_STATE, SRQ_ERROR: the queue is in error
 * DAT_INSUFFICIENT_RESOURCES, MEMORY: max_recv_dtos receives are outstanding
 * Source: dat_srq_post_recv(3DAT); refusing in error is our choice.
 */
DAT_RETURN dat_srq_post_recv(DAT_SRQ_HANDLE srq, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
			     DAT_DTO_COOKIE cookie);

/*
 * dat_srq_query tells a queue's state, limits and fill. A count that the device keeps to itself is
 * DAT_VALUE_UNKNOWN; outstanding_dto_count is an upper bound once an endpoint of the queue broke,
 * until the queue has none left.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: unknown bits in mask; ARG3: param is null
 * Source: dat_srq_query(3DAT)
 */
DAT_RETURN dat_srq_query(DAT_SRQ_HANDLE srq, DAT_SRQ_PARAM_MASK mask, DAT_SRQ_PARAM *param);

/*
 * dat_srq_resize changes how many receives a queue holds, to max_recv_dtos or more; shrinking may
 * do nothing. No receive is lost.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: not above 0, or above max_recv_per_srq
 * DAT_INVALID_STATE: below what is outstanding, or below the low watermark
 * DAT_INSUFFICIENT_RESOURCES, SRQ: the device cannot make it so
 * Source: dat_srq_resize(3DAT)
 */
DAT_RETURN dat_srq_resize(DAT_SRQ_HANDLE srq, DAT_COUNT max_recv_dtos);

/*
 * dat_srq_set_lw arms the low watermark: one asynchronous event, DAT_SRQ_LOW_WATERMARK_EVENT, when
 * fewer receives than that are left, maybe inside the call; another call arms it again.
 * DAT_SRQ_LW_DEFAULT disarms.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: negative, or above max_recv_dtos
 * DAT_MODEL_NOT_SUPPORTED: the device does not watch the queue
 * Source: dat_srq_set_lw(3DAT)
 */
DAT_RETURN dat_srq_set_lw(DAT_SRQ_HANDLE srq, DAT_COUNT low_watermark);

/* REGISTRY AND NAMES */

/*
 * dat_registry_list_providers lists what dat.conf offers, each key once, in the order of the file;
 * it loads no library. list points to num pointers at least, or max_to_return if that is less, each
 * to a structure of the caller's that is filled; *num says how many were. A list that is too short
 * is a success.
 *
 * Safe.
 * DAT_INVALID_PARAMETER, ARG1: max_to_return is 0, and *num is the number there are: the
 *	way to ask; or it is negative
 * DAT_INVALID_PARAMETER, ARG2: num is null; ARG3: list, or a pointer in it that was to be
 *	used, is null
 * Source: dat_registry_list_providers(3DAT); success with a short list is our choice,
 *	OFED's.
 */
DAT_RETURN dat_registry_list_providers(DAT_COUNT max_to_return, DAT_COUNT *num,
				       DAT_PROVIDER_INFO *list[]);

/*
 * dat_strerror gives the names of a code's type and subtype, spelled as the constants; minor is ""
 * if there is none. The class is ignored. The strings are static. minor may be null.
 *
 * Safe.
 * DAT_INVALID_PARAMETER, ARG1: an unknown type or subtype, whose string then says so; ARG2:
 *	major is null
 * Source: dat_strerror(3DAT)
 */
DAT_RETURN dat_strerror(DAT_RETURN value, const char **major, const char **minor);

#ifdef __cplusplus
}
#endif

#endif
