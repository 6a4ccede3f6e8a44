/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What DAT 2.0 defines for every consumer: handles, attributes, events, and all calls that are not
 * in udat.h.
 */
#if defined(_DAT_H_) && _DAT_H_ + 0 != 2
#error "A program includes the headers of either dat/ or dat2/: their names are the same."
#endif
#ifndef _DAT_H_
#define _DAT_H_ 2

#include <dat2/udat_config.h>
#include <dat2/dat_platform_specific.h>
#include <dat2/dat_error.h>
#include <dat2/dat_vendor_specific.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * CONVENTIONS OF THE COMMENTS ON CALLS
 *
 * Errors are written as type and subtype, the subtype without its prefix: "DAT_INVALID_STATE,
 * PZ_IN_USE" means DAT_CLASS_ERROR | DAT_INVALID_STATE | DAT_INVALID_STATE_PZ_IN_USE. ARGn is the
 * n-th parameter, counted from 1. EP_<state> is the state that the endpoint is in. If several
 * errors apply, the first one in this order is returned: handles, pointers, other arguments, state
 * of the object, limits and resources. Any call may return these errors without its comment saying
 * so:
 *	DAT_INVALID_HANDLE, <kind>		a handle that is null, freed, of another kind or of
 *						another IA instance
 *	DAT_INVALID_PARAMETER, ARGn		a required pointer is null, or a flag word has
 *						unknown bits
 *	DAT_INSUFFICIENT_RESOURCES, MEMORY	no host memory
 *	DAT_INTERNAL_ERROR			an invariant of the provider is broken
 * A call that fails changes nothing and does not write its outputs, unless its comment says
 * otherwise. A query may fill more members than its mask selects. It ignores bits that select none,
 * unless its comment says otherwise.
 *
 * Blocking: a call returns without waiting for a peer or an event, unless its comment says
 * "Blocks".
 *
 * Threads: "Safe" calls may run at the same time as any other Safe call on the same object.
 * "Unsafe" calls on one object, or on objects reached through it, must be serialised by the
 * consumer; calls on different objects are independent. No object may be freed while another call
 * on it runs, except by an abrupt dat_ia_close while threads wait. Posting to one endpoint from
 * several threads is also safe on an IA instance that was opened threadsafe.
 *
 * Calls of DATX_2.0: a comment that says so belongs to a call that DAT 2.0 declares, but that
 * dapl's libdat2 does not export. Ours does, in a version node of its own, DATX_2.0. A program that
 * calls it works with our libdat2 only. With any other one it takes the upper-case macro instead,
 * which calls the provider directly (dat_redirection.h, udat_redirection.h). Where that macro takes
 * an IA, it needs the provider's handle. A function that every libdat2 exports, and no header
 * declares, finds it:
 *	DAT_RETURN dats_get_ia_handle(DAT_IA_HANDLE ia, DAT_IA_HANDLE *provider_ia);
 *
 * Source: the manual page or standard that a call follows. The manual pages are those of DAT 1.2:
 * 2.0 keeps their rules, and has none that are public. "dapl" is the library of OpenFabrics,
 * version 2.1. "Our choice" marks what these do not specify.
 */

#define DAT_NAME_MAX_LENGTH 256 /* bytes, including the terminating zero */

typedef char *DAT_NAME_PTR;

/*
 * A pair of strings, defined by a provider or a transport. dat_ib_extensions.h has those of ours;
 * programs look for a name, because the order is not fixed.
 */
typedef struct dat_named_attr {
	const char *name;
	const char *value;
} DAT_NAMED_ATTR;

typedef enum dat_boolean { DAT_FALSE = 0, DAT_TRUE = 1 } DAT_BOOLEAN;

/* 64 bits of the consumer, which the provider returns unchanged and does not interpret. */
typedef union dat_context {
	DAT_PVOID as_ptr;
	DAT_UINT64 as_64;
	DAT_UVERYLONG as_index;
} DAT_CONTEXT;

/* returned in the completion of a transfer; need not be unique */
typedef DAT_CONTEXT DAT_DTO_COOKIE;
typedef DAT_CONTEXT DAT_RMR_COOKIE; /* the same for a bind */

/* Microseconds; 0: do not wait. */
typedef DAT_UINT32 DAT_TIMEOUT;

#define DAT_TIMEOUT_INFINITE ((DAT_TIMEOUT)~0U)

/*
 * A handle is opaque. An IA handle is a small integer from the registry, also where a query returns
 * it; all others are pointers to provider objects. After the object is freed every use of the
 * handle fails, including a second free.
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
typedef DAT_HANDLE DAT_CSP_HANDLE; /* common service point */

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
	DAT_HANDLE_TYPE_SRQ = 10,
	DAT_HANDLE_TYPE_CSP = 11,
	DAT_HANDLE_TYPE_EXTENSION_BASE = 12 /* the first of an extension */
} DAT_HANDLE_TYPE;

/*
 * The size depends on the address family. Pointers that a query returns point into the object and
 * must not be freed.
 */
typedef DAT_SOCK_ADDR *DAT_IA_ADDRESS_PTR;

/*
 * The connection qualifier that a service point listens on. TCP ports have 16 bits: a qualifier up
 * to 65535 is the port, a larger one is port (qualifier mod 32001) + 33534, and 0 is refused. Both
 * sides map alike.
 * Source: our choice, dapl's mapping.
 */
typedef DAT_UINT64 DAT_CONN_QUAL;
typedef DAT_UINT64 DAT_PORT_QUAL; /* a port of the transport, host order */

/*
 * Quality of service of a connection. Providers report the union of what they support; ours
 * support best effort only.
 */
typedef enum dat_qos {
	DAT_QOS_BEST_EFFORT = 0x0,
	DAT_QOS_HIGH_THROUGHPUT = 0x1,
	DAT_QOS_LOW_LATENCY = 0x2,
	DAT_QOS_ECONOMY = 0x4,
	DAT_QOS_PREMIUM = 0x8
} DAT_QOS;

/*
 * Whether a connection uses several paths. Our providers use one: where several are requested they
 * connect by one, where they are required they refuse.
 */
typedef enum dat_connect_flags {
	DAT_CONNECT_DEFAULT_FLAG = 0x0,
	DAT_CONNECT_MULTIPATH_FLAG = 0x1, /* requested; this is its name in DAT 1.2 */
	DAT_CONNECT_MULTIPATH_REQUIRED_FLAG = 0x2
} DAT_CONNECT_FLAGS;

#define DAT_CONNECT_MULTIPATH_REQUESTED_FLAG DAT_CONNECT_MULTIPATH_FLAG

typedef enum dat_close_flags {
	DAT_CLOSE_ABRUPT_FLAG = 0x0,
	DAT_CLOSE_GRACEFUL_FLAG = 0x1
} DAT_CLOSE_FLAGS;

#define DAT_CLOSE_DEFAULT DAT_CLOSE_ABRUPT_FLAG

/*
 * How a transfer or a bind completes; as an attribute of an endpoint, how all requests or receives
 * do. A failed or flushed one always makes an event that notifies, whatever the flags. A flag that
 * has no effect on a call, or is unknown, is ignored, as by dapl's providers.
 */
typedef enum dat_completion_flags {
	DAT_COMPLETION_DEFAULT_FLAG = 0x0,  /* an event that notifies */
	DAT_COMPLETION_SUPPRESS_FLAG = 0x1, /* no event on success; requests and binds */
	/* on a send: the peer's receive completes with an event that notifies a solicited EVD */
	DAT_COMPLETION_SOLICITED_WAIT_FLAG = 0x2,
	/* an event that does not notify; the endpoint's attribute must be the same */
	DAT_COMPLETION_UNSIGNALLED_FLAG = 0x4,
	/* starts after all earlier RDMA reads; requests and binds */
	DAT_COMPLETION_BARRIER_FENCE_FLAG = 0x8,
	/* attribute only: a waiter wakes up at its threshold */
	DAT_COMPLETION_EVD_THRESHOLD_FLAG = 0x10,
	/* only the interface of the kernel has what it waits for; ignored */
	DAT_COMPLETION_LMR_INVALIDATE_FENCE_FLAG = 0x20
} DAT_COMPLETION_FLAGS;

/*
 * What completed. Those of an extension follow EXTENSION_BASE, see DAT_IB_DTOS in
 * dat_ib_extensions.h.
 */
typedef enum dat_dtos {
	DAT_DTO_SEND = 0,
	DAT_DTO_RDMA_WRITE = 1,
	DAT_DTO_RDMA_READ = 2,
	DAT_DTO_RECEIVE = 3,
	DAT_DTO_RECEIVE_WITH_INVALIDATE = 4, /* of dat_ep_post_send_with_invalidate of the peer */
	DAT_DTO_BIND_MW = 5,		     /* ours never: a bind has an event of its own */
	DAT_DTO_LMR_FMR = 6,		     /* of the kernel's interface, as the next one */
	DAT_DTO_LMR_INVALIDATE = 7,
	DAT_DTO_EXTENSION_BASE = 8
} DAT_DTOS;

/* The streams that may feed an EVD. */
typedef enum dat_evd_flags {
	DAT_EVD_SOFTWARE_FLAG = 0x1,	/* dat_evd_post_se */
	DAT_EVD_CR_FLAG = 0x10,		/* connection requests at service points */
	DAT_EVD_DTO_FLAG = 0x20,	/* completions of transfers */
	DAT_EVD_CONNECTION_FLAG = 0x40, /* establishment and end of connections */
	/* completions of binds, on an endpoint's request EVD */
	DAT_EVD_RMR_BIND_FLAG = 0x80,
	DAT_EVD_ASYNC_FLAG = 0x100,
	DAT_EVD_DEFAULT_FLAG = 0x1f0, /* all of the above but software */
	/*
	 * the stream of an extension; ours feed none, because an extended event is queued on the
	 * EVD of the plain events of its kind
	 */
	DAT_EVD_EXTENSION_BASE = 0x200
} DAT_EVD_FLAGS;

typedef enum dat_evd_param_mask {
	DAT_EVD_FIELD_IA_HANDLE = 0x1,
	DAT_EVD_FIELD_EVD_QLEN = 0x2,
	DAT_EVD_FIELD_EVD_STATE = 0x4,
	DAT_EVD_FIELD_CNO = 0x8,
	DAT_EVD_FIELD_EVD_FLAGS = 0x10,
	DAT_EVD_FIELD_ALL = 0x1f
} DAT_EVD_PARAM_MASK;

/* Whether the consumer or the provider creates the endpoint for a connection request. */
typedef enum dat_psp_flags {
	DAT_PSP_CONSUMER_FLAG = 0x0, /* the consumer passes it to dat_cr_accept */
	DAT_PSP_PROVIDER_FLAG = 0x1  /* provider, in state TENTATIVE_CONNECTION_PENDING */
} DAT_PSP_FLAGS;

/* identifies local memory in a triplet; valid only in this process */
typedef DAT_UINT32 DAT_LMR_CONTEXT;
typedef DAT_UINT32 DAT_RMR_CONTEXT; /* identifies memory to a peer; 0: no remote access */
typedef DAT_UINT64 DAT_VLEN;	    /* bytes */
typedef DAT_UINT32 DAT_SEG_LENGTH;  /* bytes of a segment or of a transfer */
/*
 * an address in the process that registered the memory, or an offset in memory that is zero-based;
 * in host order
 */
typedef DAT_UINT64 DAT_VADDR;

/* How the bytes of a region or of a window are addressed in triplets, on both sides. */
typedef enum dat_va_type {
	DAT_VA_TYPE_VA = 0, /* by their address in the process that registered them */
	DAT_VA_TYPE_ZB = 1  /* zero-based: by their offset from the first byte */
} DAT_VA_TYPE;

/* Which endpoints a window gives access through; as an attribute, which windows there are. */
typedef enum dat_rmr_scope {
	DAT_RMR_SCOPE_EP = 0, /* the one that it was bound on: dat_rmr_create_for_ep */
	DAT_RMR_SCOPE_PZ = 1, /* all of its protection zone: dat_rmr_create */
	DAT_RMR_SCOPE_ANY = 2 /* attribute only: both kinds */
} DAT_RMR_SCOPE;

/*
 * Access to memory. No access is granted that was not requested, as far as the device can refuse
 * it.
 */
typedef enum dat_mem_priv_flags {
	DAT_MEM_PRIV_NONE_FLAG = 0x0,
	DAT_MEM_PRIV_LOCAL_READ_FLAG = 0x1,
	DAT_MEM_PRIV_REMOTE_READ_FLAG = 0x2,
	DAT_MEM_PRIV_LOCAL_WRITE_FLAG = 0x10,
	DAT_MEM_PRIV_REMOTE_WRITE_FLAG = 0x20,
	DAT_MEM_PRIV_ALL_FLAG = 0x33,
	/* the first of an extension; not part of ALL, see dat_ib_extensions.h */
	DAT_MEM_PRIV_EXTENSION_BASE = 0x40,
	/* a Solaris addition, not part of ALL: the region is strictly ordered, whatever its type */
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
	DAT_LMR_FIELD_VA_TYPE = 0x40,
	DAT_LMR_FIELD_LMR_CONTEXT = 0x80,
	DAT_LMR_FIELD_RMR_CONTEXT = 0x100,
	DAT_LMR_FIELD_REGISTERED_SIZE = 0x200,
	DAT_LMR_FIELD_REGISTERED_ADDRESS = 0x400,
	DAT_LMR_FIELD_ALL = 0x7ff
} DAT_LMR_PARAM_MASK;

typedef enum dat_rmr_param_mask {
	DAT_RMR_FIELD_IA_HANDLE = 0x1,
	DAT_RMR_FIELD_PZ_HANDLE = 0x2,
	DAT_RMR_FIELD_LMR_TRIPLET = 0x4,
	DAT_RMR_FIELD_MEM_PRIV = 0x8,
	DAT_RMR_FIELD_RMR_CONTEXT = 0x10,
	DAT_RMR_FIELD_RMR_SCOPE = 0x20,
	DAT_RMR_FIELD_VA_TYPE = 0x40,
	DAT_RMR_FIELD_ALL = 0x7f
} DAT_RMR_PARAM_MASK;

/*
 * One segment of local memory, laid out as struct ibv_sge of libibverbs. If its length is 0, the
 * other members are ignored.
 */
typedef struct dat_lmr_triplet {
	DAT_VADDR virtual_address; /* in a zero-based region an offset */
	DAT_SEG_LENGTH segment_length;
	DAT_LMR_CONTEXT lmr_context;
} DAT_LMR_TRIPLET;

/* A range of the peer's memory, with the context that the peer sent. */
typedef struct dat_rmr_triplet {
	/* in the peer's address space; in a zero-based region or window an offset */
	DAT_VADDR virtual_address;
	DAT_SEG_LENGTH segment_length; /* for the consumer: transfers do not look at it */
	DAT_RMR_CONTEXT rmr_context;
} DAT_RMR_TRIPLET;

/*
 * lmr_triplet, mem_priv, rmr_context and va_type describe the binding; they are 0 while the window
 * is unbound.
 */
typedef struct dat_rmr_param {
	DAT_IA_HANDLE ia_handle;
	DAT_PZ_HANDLE pz_handle;
	DAT_LMR_TRIPLET lmr_triplet;
	DAT_MEM_PRIV_FLAGS mem_priv;
	DAT_RMR_CONTEXT rmr_context;
	DAT_RMR_SCOPE rmr_scope;
	DAT_VA_TYPE va_type;
} DAT_RMR_PARAM;

/* Defined in udat.h. */
typedef struct dat_provider_attr DAT_PROVIDER_ATTR;
typedef struct dat_evd_param DAT_EVD_PARAM;
typedef struct dat_lmr_param DAT_LMR_PARAM;

typedef DAT_UINT64 DAT_PROVIDER_ATTR_MASK;

/* Who may access the segment list of a post between the call and the completion. */
typedef enum dat_iov_ownership {
	/* the consumer, as soon as the call has returned; reported by our providers */
	DAT_IOV_CONSUMER = 0x0,
	DAT_IOV_PROVIDER_NOMOD = 0x1, /* the provider reads it; the consumer must not write it */
	DAT_IOV_PROVIDER_MOD = 0x2    /* the provider reads and writes it */
} DAT_IOV_OWNERSHIP;

/* Whether a public service point can create endpoints, see DAT_PSP_FLAGS. */
typedef enum dat_ep_creator_for_psp {
	DAT_PSP_CREATES_EP_NEVER = 0,
	DAT_PSP_CREATES_EP_IFASKED = 1, /* ours: either flag works */
	DAT_PSP_CREATES_EP_ALWAYS = 2
} DAT_EP_CREATOR_FOR_PSP;

/* The family of extensions that an IA has; those of InfiniBand are in dat_ib_extensions.h. */
typedef enum dat_extension {
	DAT_EXTENSION_NONE = 0,
	DAT_EXTENSION_IB = 1,
	DAT_EXTENSION_IW = 2 /* of iWARP: none of ours has it */
} DAT_EXTENSION;

#define DAT_IB_EXTENSION 1 /* the same numbers, for #if */
#define DAT_IW_EXTENSION 2

/* How a provider spreads the load of connections over several paths; ours have one. */
typedef DAT_UINT32 DAT_HA_LB;

#define DAT_HA_LB_NONE	    ((DAT_HA_LB)0)
#define DAT_HA_LB_INTERCOMM ((DAT_HA_LB)1) /* connection by connection */
#define DAT_HA_LB_INTRACOMM ((DAT_HA_LB)2) /* within a connection */

/*
 * The capabilities of the adapter; one IA is one port of a device. Limits too large for DAT_COUNT
 * or DAT_SEG_LENGTH are clamped.
 */
typedef struct dat_ia_attr {
	char adapter_name[DAT_NAME_MAX_LENGTH]; /* of the device, such as mlx5_0 */
	char vendor_name[DAT_NAME_MAX_LENGTH];	/* of the hardware */
	DAT_UINT32 hardware_version_major;
	DAT_UINT32 hardware_version_minor; /* 0: devices have only one number */
	DAT_UINT32 firmware_version_major;
	DAT_UINT32 firmware_version_minor;
	DAT_IA_ADDRESS_PTR ia_address_ptr; /* of the interface; valid until close */
	DAT_COUNT max_eps;
	/* in each direction, if each has an EVD of its own; an EVD serves max_evd_qlen in all */
	DAT_COUNT max_dto_per_ep;
	DAT_COUNT max_rdma_read_per_ep_in;  /* in flight, as the target */
	DAT_COUNT max_rdma_read_per_ep_out; /* in flight, as the initiator */
	DAT_COUNT max_evds;
	DAT_COUNT max_evd_qlen; /* events */
	DAT_COUNT max_iov_segments_per_dto;
	DAT_COUNT max_lmrs;
	/* 0xffffffff stands for all that is more: the length of a region has 64 bits */
	DAT_SEG_LENGTH max_lmr_block_size;
	DAT_VADDR max_lmr_virtual_address; /* the highest one that can be registered */
	DAT_COUNT max_pzs;
	DAT_SEG_LENGTH max_message_size;
	DAT_SEG_LENGTH max_rdma_size;
	DAT_COUNT max_rmrs; /* 0: dat_rmr_create returns DAT_MODEL_NOT_SUPPORTED */
	DAT_VADDR max_rmr_target_address;
	DAT_COUNT max_srqs; /* 0: not supported; the next two are 0 as well */
	DAT_COUNT max_ep_per_srq;
	DAT_COUNT max_recv_per_srq;
	DAT_COUNT max_iov_segments_per_rdma_read; /* on iWARP such a read is posted as several */
	DAT_COUNT max_iov_segments_per_rdma_write;
	DAT_COUNT max_rdma_read_in; /* of all endpoints together */
	/* likewise; devices report no such limit, so this is the value per endpoint */
	DAT_COUNT max_rdma_read_out;
	/* all endpoints can have their maximum at the same time */
	DAT_BOOLEAN max_rdma_read_per_ep_in_guaranteed;
	DAT_BOOLEAN max_rdma_read_per_ep_out_guaranteed;
	DAT_BOOLEAN zb_supported; /* dat_lmr_create takes DAT_VA_TYPE_ZB */
	/* DAT_EXTENSION_IB if an operation of dat_ib_extensions.h works on this IA */
	DAT_EXTENSION extension_supported;
	DAT_COUNT extension_version; /* DAT_IB_EXTENSION_VERSION; 0 without extensions */
	DAT_COUNT num_transport_attr;
	/* valid until close, as vendor_attr; null if there are none */
	DAT_NAMED_ATTR *transport_attr;
	DAT_COUNT num_vendor_attr;
	DAT_NAMED_ATTR *vendor_attr;
} DAT_IA_ATTR;

/*
 * Names of DAT 1.0 and 1.1. As macros they also apply to structures of the program, which
 * therefore cannot have members of these names.
 */
#define max_rdma_read_per_ep max_rdma_read_per_ep_in
#define max_mtu_size	     max_message_size

/* Bit i selects member i of DAT_IA_ATTR. */
typedef DAT_UINT64 DAT_IA_ATTR_MASK;

#define DAT_IA_FIELD_IA_ADAPTER_NAME			    UINT64_C(0x0000000001)
#define DAT_IA_FIELD_IA_VENDOR_NAME			    UINT64_C(0x0000000002)
#define DAT_IA_FIELD_IA_HARDWARE_MAJOR_VERSION		    UINT64_C(0x0000000004)
#define DAT_IA_FIELD_IA_HARDWARE_MINOR_VERSION		    UINT64_C(0x0000000008)
#define DAT_IA_FIELD_IA_FIRMWARE_MAJOR_VERSION		    UINT64_C(0x0000000010)
#define DAT_IA_FIELD_IA_FIRMWARE_MINOR_VERSION		    UINT64_C(0x0000000020)
#define DAT_IA_FIELD_IA_ADDRESS_PTR			    UINT64_C(0x0000000040)
#define DAT_IA_FIELD_IA_MAX_EPS				    UINT64_C(0x0000000080)
#define DAT_IA_FIELD_IA_MAX_DTO_PER_EP			    UINT64_C(0x0000000100)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_IN		    UINT64_C(0x0000000200)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_OUT	    UINT64_C(0x0000000400)
#define DAT_IA_FIELD_IA_MAX_EVDS			    UINT64_C(0x0000000800)
#define DAT_IA_FIELD_IA_MAX_EVD_QLEN			    UINT64_C(0x0000001000)
#define DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_DTO	    UINT64_C(0x0000002000)
#define DAT_IA_FIELD_IA_MAX_LMRS			    UINT64_C(0x0000004000)
#define DAT_IA_FIELD_IA_MAX_LMR_BLOCK_SIZE		    UINT64_C(0x0000008000)
#define DAT_IA_FIELD_IA_MAX_LMR_VIRTUAL_ADDRESS		    UINT64_C(0x0000010000)
#define DAT_IA_FIELD_IA_MAX_PZS				    UINT64_C(0x0000020000)
#define DAT_IA_FIELD_IA_MAX_MESSAGE_SIZE		    UINT64_C(0x0000040000)
#define DAT_IA_FIELD_IA_MAX_RDMA_SIZE			    UINT64_C(0x0000080000)
#define DAT_IA_FIELD_IA_MAX_RMRS			    UINT64_C(0x0000100000)
#define DAT_IA_FIELD_IA_MAX_RMR_TARGET_ADDRESS		    UINT64_C(0x0000200000)
#define DAT_IA_FIELD_IA_MAX_SRQS			    UINT64_C(0x0000400000)
#define DAT_IA_FIELD_IA_MAX_EP_PER_SRQ			    UINT64_C(0x0000800000)
#define DAT_IA_FIELD_IA_MAX_RECV_PER_SRQ		    UINT64_C(0x0001000000)
#define DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_RDMA_READ	    UINT64_C(0x0002000000)
#define DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_RDMA_WRITE	    UINT64_C(0x0004000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_IN		    UINT64_C(0x0008000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_OUT		    UINT64_C(0x0010000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_IN_GUARANTEED  UINT64_C(0x0020000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_OUT_GUARANTEED UINT64_C(0x0040000000)
#define DAT_IA_FIELD_IA_ZB_SUPPORTED			    UINT64_C(0x0080000000)
#define DAT_IA_FIELD_IA_EXTENSION			    UINT64_C(0x0100000000)
#define DAT_IA_FIELD_IA_EXTENSION_VERSION		    UINT64_C(0x0200000000)
#define DAT_IA_FIELD_IA_NUM_TRANSPORT_ATTR		    UINT64_C(0x0400000000)
#define DAT_IA_FIELD_IA_TRANSPORT_ATTR			    UINT64_C(0x0800000000)
#define DAT_IA_FIELD_IA_NUM_VENDOR_ATTR			    UINT64_C(0x1000000000)
#define DAT_IA_FIELD_IA_VENDOR_ATTR			    UINT64_C(0x2000000000)
#define DAT_IA_FIELD_ALL				    UINT64_C(0x3fffffffff)
#define DAT_IA_FIELD_NONE				    UINT64_C(0x0000000000)

/* a second name */
#define DAT_IA_FIELD_IA_EXTENSIONS_SUPPORTED DAT_IA_FIELD_IA_EXTENSION

#define DAT_IA_ALL		       DAT_IA_FIELD_ALL /* names of DAT 1.0 and 1.1 */
#define DAT_IA_FIELD_IA_MAX_MTU_SIZE   DAT_IA_FIELD_IA_MAX_MESSAGE_SIZE
#define DAT_IA_FIELD_IA_MAX_DTO_PER_OP DAT_IA_FIELD_IA_MAX_DTO_PER_EP

typedef enum dat_service_type {
	DAT_SERVICE_TYPE_RC = 0, /* reliable connections */
	/* the first of an extension: datagrams, see DAT_IB_SERVICE_TYPE in dat_ib_extensions.h */
	DAT_SERVICE_TYPE_EXTENSION_BASE = 1
} DAT_SERVICE_TYPE;

/*
 * The attributes of an endpoint. dat_ep_query returns the actual values, which may exceed those
 * requested.
 */
typedef struct dat_ep_attr {
	DAT_SERVICE_TYPE service_type;
	DAT_SEG_LENGTH max_message_size; /* bytes of one send; 0: the device's limit */
	DAT_SEG_LENGTH max_rdma_size;	 /* bytes of one RDMA; 0: the device's limit */
	DAT_QOS qos;			 /* of the known values none has an effect */
	/* UNSIGNALLED, SOLICITED_WAIT and EVD_THRESHOLD count; other known flags are ignored */
	DAT_COMPLETION_FLAGS recv_completion_flags;
	/* UNSIGNALLED and EVD_THRESHOLD count; other known flags are ignored */
	DAT_COMPLETION_FLAGS request_completion_flags;
	DAT_COUNT max_recv_dtos;    /* posted and not yet completed */
	DAT_COUNT max_request_dtos; /* the same; binds count */
	DAT_COUNT max_recv_iov;	    /* segments of one receive */
	DAT_COUNT max_request_iov;  /* segments of one send */
	/* RDMA reads in flight on this connection, as the target */
	DAT_COUNT max_rdma_read_in;
	/* likewise, as the initiator; 0: this endpoint posts no RDMA reads */
	DAT_COUNT max_rdma_read_out;
	/* soft high watermark of a shared receive queue; ignored without one */
	DAT_COUNT srq_soft_hw;
	/* segments of one RDMA read; 0: as max_request_iov, or what the device reads at once */
	DAT_COUNT max_rdma_read_iov;
	/* segments of one RDMA write; 0: as max_request_iov */
	DAT_COUNT max_rdma_write_iov;
	DAT_COUNT ep_transport_specific_count; /* ours define none, and ignore these four */
	DAT_NAMED_ATTR *ep_transport_specific;
	DAT_COUNT ep_provider_specific_count;
	DAT_NAMED_ATTR *ep_provider_specific;
} DAT_EP_ATTR;

/*
 * The states of an endpoint. Our provider never reports the four UNCONFIGURED states: an endpoint
 * without a protection zone or EVD is in the plain state, and a call that needs the missing part
 * fails with EP_NOTREADY. Nor does it report the last two, because no connection has several paths.
 */
typedef enum dat_ep_state {
	DAT_EP_STATE_UNCONNECTED = 0, /* new, reset, or no longer reserved */
	DAT_EP_STATE_UNCONFIGURED_UNCONNECTED = 1,
	DAT_EP_STATE_RESERVED = 2, /* its RSP waits for a connection request */
	DAT_EP_STATE_UNCONFIGURED_RESERVED = 3,
	DAT_EP_STATE_PASSIVE_CONNECTION_PENDING = 4, /* that request arrived: accept or reject it */
	DAT_EP_STATE_UNCONFIGURED_PASSIVE = 5,
	DAT_EP_STATE_ACTIVE_CONNECTION_PENDING = 6, /* after dat_ep_connect */
	/* created by the provider for a request: accept or reject it */
	DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING = 7,
	DAT_EP_STATE_UNCONFIGURED_TENTATIVE = 8,
	DAT_EP_STATE_CONNECTED = 9,
	DAT_EP_STATE_DISCONNECT_PENDING = 10,
	DAT_EP_STATE_DISCONNECTED = 11, /* ended; only reset and free change it */
	/* after dat_cr_accept, before the connection is established */
	DAT_EP_STATE_COMPLETION_PENDING = 12,
	DAT_EP_STATE_CONNECTED_SINGLE_PATH = 13, /* of several paths, one is left */
	DAT_EP_STATE_CONNECTED_MULTI_PATH = 14
} DAT_EP_STATE;

#define DAT_EP_STATE_ERROR DAT_EP_STATE_DISCONNECTED

/*
 * The addresses are never null and valid until dat_ep_free. They and the ports are meaningful only
 * while the endpoint is connected.
 */
typedef struct dat_ep_param {
	DAT_IA_HANDLE ia_handle;
	DAT_EP_STATE ep_state;
	DAT_COMM comm; /* the family of the addresses, SOCK_STREAM, and 0 */
	DAT_IA_ADDRESS_PTR local_ia_address_ptr;
	DAT_PORT_QUAL local_port_qual; /* 0 unless connected, as remote_port_qual */
	DAT_IA_ADDRESS_PTR remote_ia_address_ptr;
	DAT_PORT_QUAL remote_port_qual;
	DAT_PZ_HANDLE pz_handle;
	DAT_EVD_HANDLE recv_evd_handle;
	DAT_EVD_HANDLE request_evd_handle; /* sends, RDMA and binds */
	DAT_EVD_HANDLE connect_evd_handle;
	DAT_SRQ_HANDLE srq_handle;
	DAT_EP_ATTR ep_attr;
} DAT_EP_PARAM;

/* Bits 0..11 select the members of DAT_EP_PARAM before ep_attr, bits 12..30 those of ep_attr. */
typedef DAT_UINT64 DAT_EP_PARAM_MASK;

#define DAT_EP_FIELD_IA_HANDLE			      UINT64_C(0x00000001)
#define DAT_EP_FIELD_EP_STATE			      UINT64_C(0x00000002)
#define DAT_EP_FIELD_COMM			      UINT64_C(0x00000004)
#define DAT_EP_FIELD_LOCAL_IA_ADDRESS_PTR	      UINT64_C(0x00000008)
#define DAT_EP_FIELD_LOCAL_PORT_QUAL		      UINT64_C(0x00000010)
#define DAT_EP_FIELD_REMOTE_IA_ADDRESS_PTR	      UINT64_C(0x00000020)
#define DAT_EP_FIELD_REMOTE_PORT_QUAL		      UINT64_C(0x00000040)
#define DAT_EP_FIELD_PZ_HANDLE			      UINT64_C(0x00000080)
#define DAT_EP_FIELD_RECV_EVD_HANDLE		      UINT64_C(0x00000100)
#define DAT_EP_FIELD_REQUEST_EVD_HANDLE		      UINT64_C(0x00000200)
#define DAT_EP_FIELD_CONNECT_EVD_HANDLE		      UINT64_C(0x00000400)
#define DAT_EP_FIELD_SRQ_HANDLE			      UINT64_C(0x00000800)
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
#define DAT_EP_FIELD_ALL			      UINT64_C(0x7fffffff)

#define DAT_WATERMARK_INFINITE ((DAT_COUNT)-1) /* disarms a high watermark */
#define DAT_HW_DEFAULT	       DAT_WATERMARK_INFINITE
#define DAT_SRQ_LW_DEFAULT     0	       /* disarms the low watermark */
#define DAT_VALUE_UNKNOWN      ((DAT_COUNT)-2) /* a count that the provider does not know */

/* In the headers of DAT 1.2 and of dapl 2.0.35 OPERATIONAL is 0, and ERROR is 1. */
typedef enum dat_srq_state {
	DAT_SRQ_STATE_ERROR = 0,
	DAT_SRQ_STATE_OPERATIONAL = 1,
	DAT_SRQ_STATE_SHUTDOWN = 2 /* ours are never in it */
} DAT_SRQ_STATE;

typedef struct dat_srq_attr {
	DAT_COUNT max_recv_dtos; /* posted and not yet completed; the queue may be larger */
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
	/* on the queue; DAT_VALUE_UNKNOWN if the device does not report it */
	DAT_COUNT available_dto_count;
	/* posted, and the completion not yet dequeued by the consumer */
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
	DAT_CONN_QUAL conn_qual; /* as passed to dat_psp_create, not the port */
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

/* The EVD precedes the endpoint here, but follows it in dat_rsp_create. */
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

/* Both pointers point into the service point and are valid as long as it. */
typedef struct dat_csp_param {
	DAT_IA_HANDLE ia_handle;
	DAT_COMM *comm;
	DAT_IA_ADDRESS_PTR address_ptr; /* with the port */
	DAT_EVD_HANDLE evd_handle;
} DAT_CSP_PARAM;

typedef enum dat_csp_param_mask {
	DAT_CSP_FIELD_IA_HANDLE = 0x1,
	DAT_CSP_FIELD_COMM = 0x2,
	DAT_CSP_FIELD_IA_ADDRESS = 0x4,
	DAT_CSP_FIELD_EVD_HANDLE = 0x8,
	DAT_CSP_FIELD_ALL = 0xf
} DAT_CSP_PARAM_MASK;

/*
 * Both pointers point into the request and are valid as long as it. The consumer may write to the
 * private data.
 */
typedef struct dat_cr_param {
	DAT_IA_ADDRESS_PTR remote_ia_address_ptr;
	DAT_PORT_QUAL remote_port_qual;
	DAT_COUNT private_data_size; /* bytes, including padding by the transport */
	DAT_PVOID private_data;
	DAT_EP_HANDLE local_ep_handle; /* null: pass one to dat_cr_accept */
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
 * The status of a completed transfer or bind. All but SUCCESS and FLUSHED end the connection, and
 * what is still outstanding is flushed.
 */
typedef enum dat_dto_completion_status {
	DAT_DTO_SUCCESS = 0,
	DAT_DTO_ERR_FLUSHED = 1, /* not executed, because the endpoint is disconnected */
	/* a message longer than its receive, or a request that is too long */
	DAT_DTO_ERR_LOCAL_LENGTH = 2,
	DAT_DTO_ERR_LOCAL_EP = 3, /* the endpoint is inconsistent */
	/* lmr_context unknown, or wrong range, zone or local privileges */
	DAT_DTO_ERR_LOCAL_PROTECTION = 4,
	DAT_DTO_ERR_BAD_RESPONSE = 5, /* invalid response of the peer's transport */
	/* rmr_context unknown, or wrong range, zone or remote privileges */
	DAT_DTO_ERR_REMOTE_ACCESS = 6,
	/* the peer could not complete it, e.g. because its receive is too short */
	DAT_DTO_ERR_REMOTE_RESPONDER = 7,
	DAT_DTO_ERR_TRANSPORT = 8, /* retries exceeded, or the link failed */
	/* the peer posted no receive in time */
	DAT_DTO_ERR_RECEIVER_NOT_READY = 9,
	DAT_DTO_ERR_PARTIAL_PACKET = 10,
	DAT_RMR_OPERATION_FAILED = 11,	/* a bind */
	DAT_DTO_ERR_LOCAL_MM_ERROR = 12 /* of the kernel's interface */
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
	DAT_SEG_LENGTH transfered_length; /* on success; the spelling is the standard's */
	/* what completed, on failure too; the number of an extension is one of DAT_IB_DTOS */
	DAT_DTOS operation;
	DAT_RMR_CONTEXT rmr_context; /* RECEIVE_WITH_INVALIDATE: what is invalid now; else 0 */
} DAT_DTO_COMPLETION_EVENT_DATA;

typedef struct dat_rmr_bind_completion_event_data {
	DAT_RMR_HANDLE rmr_handle;
	DAT_RMR_COOKIE user_cookie;
	DAT_RMR_BIND_COMPLETION_STATUS status;
} DAT_RMR_BIND_COMPLETION_EVENT_DATA;

typedef union dat_sp_handle {
	DAT_RSP_HANDLE rsp_handle;
	DAT_PSP_HANDLE psp_handle;
	DAT_CSP_HANDLE csp_handle;
} DAT_SP_HANDLE;

typedef struct dat_cr_arrival_event_data {
	DAT_SP_HANDLE sp_handle; /* the service point it arrived at */
	DAT_IA_ADDRESS_PTR local_ia_address_ptr;
	DAT_CONN_QUAL conn_qual; /* as passed to the service point; of a common one the port */
	DAT_CR_HANDLE cr_handle;
	DAT_BOOLEAN truncate_flag; /* private data was cut; no transport of ours cuts any */
} DAT_CR_ARRIVAL_EVENT_DATA;

/*
 * Private data is present only with ESTABLISHED and PEER_REJECTED on the active side. It is valid
 * until dat_ep_free or dat_ep_reset.
 */
typedef struct dat_connection_event_data {
	DAT_EP_HANDLE ep_handle;
	DAT_COUNT private_data_size; /* bytes */
	DAT_PVOID private_data;
} DAT_CONNECTION_EVENT_DATA;

/* The values below overlap; dat_get_handle_type(dat_handle) tells which enumeration applies. */
typedef struct dat_asynch_error_event_data {
	DAT_HANDLE dat_handle;
	DAT_COUNT reason;
} DAT_ASYNCH_ERROR_EVENT_DATA;

typedef enum ia_async_error_reason {
	DAT_IA_CATASTROPHIC_ERROR = 0, /* the device has failed */
	DAT_IA_OTHER_ERROR = 1	       /* its port went down */
} DAT_IA_ASYNC_ERROR_REASON;

typedef enum ep_async_error_reason {
	DAT_EP_TRANSFER_TO_ERROR = 0,
	DAT_EP_OTHER_ERROR = 1,
	DAT_SRQ_SOFT_HIGH_WATERMARK_EVENT = 2
} DAT_EP_ASYNC_ERROR_REASON;

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
	DAT_PVOID pointer; /* of the consumer, passed through */
} DAT_SOFTWARE_EVENT_DATA;

typedef union dat_event_data {
	DAT_DTO_COMPLETION_EVENT_DATA dto_completion_event_data;
	DAT_RMR_BIND_COMPLETION_EVENT_DATA rmr_completion_event_data;
	DAT_CR_ARRIVAL_EVENT_DATA cr_arrival_event_data;
	DAT_CONNECTION_EVENT_DATA connect_event_data;
	DAT_ASYNCH_ERROR_EVENT_DATA asynch_error_event_data;
	DAT_SOFTWARE_EVENT_DATA software_event_data;
} DAT_EVENT_DATA;

/* The number tells which member of DAT_EVENT_DATA is valid. */
typedef enum dat_event_number {
	DAT_DTO_COMPLETION_EVENT = 0x00001,
	DAT_RMR_BIND_COMPLETION_EVENT = 0x01001,
	DAT_CONNECTION_REQUEST_EVENT = 0x02001, /* cr_arrival_event_data */

	/*
	 * connect_event_data. A connection or an attempt ends with exactly one of these other than
	 * ESTABLISHED.
	 */
	DAT_CONNECTION_EVENT_ESTABLISHED = 0x04001,
	/* by dat_cr_reject of the peer, with its private data */
	DAT_CONNECTION_EVENT_PEER_REJECTED = 0x04002,
	/* the peer does not listen, or its EVD has no room for the request */
	DAT_CONNECTION_EVENT_NON_PEER_REJECTED = 0x04003,
	/* accepted, but the connection was not established */
	DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR = 0x04004,
	/* by dat_ep_disconnect on either side */
	DAT_CONNECTION_EVENT_DISCONNECTED = 0x04005,
	/* by a failed transfer or a transport error */
	DAT_CONNECTION_EVENT_BROKEN = 0x04006,
	DAT_CONNECTION_EVENT_TIMED_OUT = 0x04007, /* the consumer's time-out expired */
	/* no address, no route, or no answer from the host */
	DAT_CONNECTION_EVENT_UNREACHABLE = 0x04008,

	/*
	 * asynch_error_event_data. A watermark is reported as PROVIDER_INTERNAL_ERROR; its reason
	 * identifies it.
	 */
	DAT_ASYNC_ERROR_EVD_OVERFLOW = 0x08001, /* dat_handle: the EVD that was full */
	DAT_ASYNC_ERROR_IA_CATASTROPHIC = 0x08002,
	/*
	 * dat_handle: an endpoint with a shared receive queue; its connection has ended, and it
	 * takes no further receive. The reason is DAT_EP_TRANSFER_TO_ERROR.
	 */
	DAT_ASYNC_ERROR_EP_BROKEN = 0x08003,
	DAT_ASYNC_ERROR_TIMED_OUT = 0x08004,
	DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR = 0x08005,

	/* of connections with several paths; ours have none */
	DAT_HA_DOWN_TO_1 = 0x08101,
	DAT_HA_UP_TO_MULTI_PATH = 0x08102,

	DAT_SOFTWARE_EVENT = 0x10001,

	/*
	 * Events of extensions. event_data has what the plain event of their kind has;
	 * event_extension_data has the rest.
	 */
	DAT_EXTENSION_EVENT = 0x20000,
	DAT_IB_EXTENSION_RANGE_BASE = 0x40000, /* see DAT_IB_EVENT_NUMBER in dat_ib_extensions.h */
	DAT_IW_EXTENSION_RANGE_BASE = 0x80000
} DAT_EVENT_NUMBER;

typedef struct dat_event {
	DAT_EVENT_NUMBER event_number;
	DAT_EVD_HANDLE evd_handle; /* the EVD that it was dequeued from */
	DAT_EVENT_DATA event_data;
	/*
	 * Undefined unless event_number is an extension's; of InfiniBand it is a
	 * DAT_IB_EXTENSION_EVENT_DATA.
	 */
	DAT_UINT64 event_extension_data[8];
} DAT_EVENT;

/* The operation of dat_extension_op. A set bit makes it an open or a close without an IA. */
typedef int DAT_EXTENDED_OP;

#define DAT_OPEN_EXTENSION_BASE	 0x1000
#define DAT_CLOSE_EXTENSION_BASE 0x2000

/* A name that can be opened. All four members together are its key. */
typedef struct dat_provider_info {
	char ia_name[DAT_NAME_MAX_LENGTH];
	DAT_UINT32 dapl_version_major;
	DAT_UINT32 dapl_version_minor;
	DAT_BOOLEAN is_thread_safe;
} DAT_PROVIDER_INFO;

#ifdef __cplusplus
}
#endif

#endif
