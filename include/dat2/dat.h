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

/*
 * INTERFACE ADAPTER
 *
 * A child of fork(2) has no open IA: every handle that it inherits is refused there with
 * DAT_INVALID_HANDLE, and nothing that it does, its exit included, affects the parent's IAs. It may
 * open its own. Until it ends or executes another program, it keeps the parent's device open.
 */

/*
 * dat_ia_openv opens one instance of the IA called name. A name may be opened many times.
 * dat_ia_open is the macro that programs use: it passes the version that they were compiled for
 * and DAT_THREADSAFE.
 *
 * The registry selects the provider with the requested name, major version and thread safety, and
 * with the same or else the smallest larger minor version. It loads the provider's library if
 * necessary. *async_evd on entry:
 *	DAT_HANDLE_NULL		the provider creates an EVD for asynchronous events, with room for
 *				async_evd_qlen or more; it belongs to the instance and is destroyed
 *				when that is closed
 *	an EVD			of the same provider and with DAT_EVD_ASYNC_FLAG: it is used
 *	DAT_EVD_ASYNC_EXISTS	asynchronous events are handled elsewhere on this host: no EVD is
 *				created, and *async_evd becomes DAT_EVD_OUT_OF_SCOPE
 * The asynchronous events of a device are queued on the EVDs of all its instances. name may begin
 * with DAT_RO_AWARE_PREFIX. On failure *ia is DAT_HANDLE_NULL, and *async_evd is unchanged.
 *
 * Blocks while the library is loaded and the device opened. Safe.
 * DAT_INVALID_PARAMETER, ARG1: name is null, or has 256 bytes or more
 * DAT_INVALID_PARAMETER, ARG2: async_evd_qlen is 0 or less, and an EVD is to be created
 * DAT_INVALID_PARAMETER, DAT_INVALID_RO_COOKIE: no prefix, and the transport has only relaxed
 *	ordering
 * DAT_PROVIDER_NOT_FOUND, NAME_NOT_REGISTERED, MAJOR_NOT_FOUND, MINOR_NOT_FOUND or
 *	THREAD_SAFETY_NOT_FOUND: the first of these, in this order, for which no candidate is left
 * DAT_INVALID_HANDLE, EVD_ASYNC: the EVD is not for asynchronous events of this provider
 * DAT_INVALID_ADDRESS: the interface, address or host of dat.conf does not exist on this host
 * DAT_INSUFFICIENT_RESOURCES, DEVICE: it exists, but is no RDMA device, or that cannot be opened
 * DAT_MODEL_NOT_SUPPORTED: it exists, but can't do what DAT takes
 * DAT_INSUFFICIENT_RESOURCES, TEVD: async_evd_qlen is above max_evd_qlen
 * DAT_INSUFFICIENT_RESOURCES, ERROR_HANDLER: the thread for asynchronous events cannot start
 * DAT_INVALID_STATE: the process is exiting, or it was forked while another thread opened or closed
 *	an IA, or was in librdmacm
 * Source: dat_ia_open(3DAT); the order of subtypes and DAT_EVD_OUT_OF_SCOPE are our choice.
 */
DAT_RETURN dat_ia_openv(const DAT_NAME_PTR name, DAT_COUNT async_evd_qlen,
			DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia, DAT_UINT32 major,
			DAT_UINT32 minor, DAT_BOOLEAN thread_safety);

#define dat_ia_open(name, async_evd_qlen, async_evd, ia)                                           \
	dat_ia_openv((name), (async_evd_qlen), (async_evd), (ia), DAT_VERSION_MAJOR,               \
		     DAT_VERSION_MINOR, DAT_THREADSAFE)

/*
 * dat_ia_query returns the attributes of the adapter and its provider. Each mask selects members
 * of the structure after it; more members may be filled, and ours fill all. async_evd may be null;
 * a structure may be null if its mask is 0. Strings and arrays behind pointers are valid until the
 * instance is closed. The attributes do not change while the instance is open, unless the device
 * changes.
 *
 * Safe.
 * DAT_INVALID_PARAMETER, ARG3 or ARG5: unknown bits in a mask; ARG4 or ARG6: null with a mask that
 *	is not 0
 * Source: dat_ia_query(3DAT)
 */
DAT_RETURN dat_ia_query(DAT_IA_HANDLE ia, DAT_EVD_HANDLE *async_evd, DAT_IA_ATTR_MASK ia_mask,
			DAT_IA_ATTR *ia_attr, DAT_PROVIDER_ATTR_MASK provider_mask,
			DAT_PROVIDER_ATTR *provider_attr);

/*
 * dat_ia_close closes an instance. With DAT_CLOSE_GRACEFUL_FLAG it succeeds only if every object
 * created from it was freed, except its own asynchronous EVD; connection requests that were not
 * answered count as objects. With DAT_CLOSE_ABRUPT_FLAG it destroys all objects in any state and
 * cannot fail: peers receive DISCONNECTED, this side receives no event. Threads in dat_evd_wait
 * return DAT_ABORT, threads in dat_cno_wait return success with DAT_HANDLE_NULL, and proxy agents
 * are called with DAT_HANDLE_NULL. An EVD that was passed to dat_ia_open is not destroyed.
 *
 * Blocks until the device has released its resources and the waiters have returned. Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: flags is neither of the two
 * DAT_INVALID_STATE, IA_IN_USE: graceful, and objects remain, or another instance uses its
 *	asynchronous EVD
 * Source: dat_ia_close(3DAT)
 */
DAT_RETURN dat_ia_close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS flags);

/* ANY OBJECT */

/*
 * dat_set_consumer_context stores 64 bits of the consumer with an object of any kind and replaces
 * those stored before; new objects have 0. The provider neither interprets them nor orders access
 * to them.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, HANDLE1: not a live object
 * Source: dat_set_consumer_context(3DAT); support for shared receive queues is our choice.
 */
DAT_RETURN dat_set_consumer_context(DAT_HANDLE handle, DAT_CONTEXT context);

/*
 * dat_get_consumer_context returns the context that was set last, or 0.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, HANDLE1: not a live object
 * DAT_INVALID_PARAMETER, ARG2: context is null
 * Source: dat_get_consumer_context(3DAT)
 */
DAT_RETURN dat_get_consumer_context(DAT_HANDLE handle, DAT_CONTEXT *context);

/*
 * dat_get_handle_type returns the kind of object of a handle. It is needed to interpret the reason
 * of an asynchronous error.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, HANDLE1: not a live object
 * DAT_INVALID_PARAMETER, ARG2: type is null
 * Source: dat_get_handle_type(3DAT)
 */
DAT_RETURN dat_get_handle_type(DAT_HANDLE handle, DAT_HANDLE_TYPE *type);

/*
 * CONNECTION REQUEST: created with its event, ended by accept, reject, handoff or the close of the
 * IA
 */

/*
 * dat_cr_query returns the peer of a connection request and its private data. The pointers in
 * param are valid as long as the request.
 *
 * Safe.
 * DAT_INVALID_PARAMETER, ARG3: param is null
 * Source: dat_cr_query(3DAT)
 */
DAT_RETURN dat_cr_query(DAT_CR_HANDLE cr, DAT_CR_PARAM_MASK mask, DAT_CR_PARAM *param);

/*
 * dat_cr_accept accepts a request with an endpoint, which becomes COMPLETION_PENDING. ep must be
 * null if the request has an endpoint (local_ep_handle); otherwise it must be an unconnected
 * endpoint. private_data_size is in bytes, up to what the transport carries in a reply; the data
 * is copied. Success ends the request; failure leaves everything unchanged. After success requests
 * may be posted to the endpoint at once: they are sent when the connection is established, and
 * flushed if it never is. On iWARP the connecting side must send the first message or write.
 *
 * One event follows on the endpoint's connect EVD: ESTABLISHED; or ACCEPT_COMPLETION_ERROR, with
 * the receives flushed; or DISCONNECTED, if dat_ep_disconnect is called before. The call does not
 * fail if the peer has given up meanwhile.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, EP: ep is invalid, or missing, or passed although the request has one
 * DAT_INVALID_PARAMETER, ARG3: private_data_size is negative or above the limit; ARG4:
 *	private_data is null and its size is not 0
 * DAT_INVALID_STATE, EP_<state>: the endpoint cannot accept in this state
 * DAT_INVALID_STATE, EP_NOTREADY: it has no protection zone or no connect EVD
 * DAT_INSUFFICIENT_RESOURCES, TEP: the transport refused
 * Source: dat_cr_accept(3DAT)
 */
DAT_RETURN dat_cr_accept(DAT_CR_HANDLE cr, DAT_EP_HANDLE ep, DAT_COUNT private_data_size,
			 const DAT_PVOID private_data);

/*
 * dat_cr_reject rejects a request and ends it; the active side receives PEER_REJECTED with the
 * private data, unless it speaks DAT 1.2, which delivers none. private_data_size is in bytes, up to
 * what the transport carries in a rejection: 144 on InfiniBand and RoCE. The data is copied. The
 * endpoint of an RSP becomes unconnected and keeps its receives; an endpoint created by the
 * provider is destroyed.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, CR: not a live request
 * DAT_INVALID_PARAMETER, ARG2: private_data_size is negative or above the limit; ARG3:
 *	private_data is null and its size is not 0; the request is unchanged
 * Source: dat_cr_reject(3DAT); the private data is dapl's.
 */
DAT_RETURN dat_cr_reject(DAT_CR_HANDLE cr, DAT_COUNT private_data_size,
			 const DAT_PVOID private_data);

/*
 * dat_cr_handoff passes a request to the service point of the same IA instance that listens on
 * conn_qual. It arrives there as a new request with its own event. The request passed in ends; its
 * endpoint is treated as by dat_cr_reject.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: no service point listens there, or the request came from that one;
 *	the request is unchanged
 * DAT_INSUFFICIENT_RESOURCES, MEMORY: the EVD there is full; the request is unchanged
 * Source: dat_cr_handoff(3DAT); that it works within one instance only is our choice.
 */
DAT_RETURN dat_cr_handoff(DAT_CR_HANDLE cr, DAT_CONN_QUAL conn_qual);

/*
 * EVENT DISPATCHER (EVD): a queue of events. dat_evd_create, dat_evd_wait and the calls that
 * enable or disable an EVD are in udat.h. An invalid EVD is DAT_INVALID_HANDLE, HANDLE1 where the
 * call has no role for the EVD.
 */

/*
 * dat_evd_resize changes the length of an EVD to evd_qlen events or more. No event is lost,
 * neither queued nor arriving.
 *
 * Blocks while the device makes room in the EVD. Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: evd_qlen is 0 or less, or above max_evd_qlen
 * DAT_INVALID_STATE, EVD_WAITER: a thread waits on it, and its length would change; without
 *	subtype: it would become shorter than what is queued
 * DAT_INSUFFICIENT_RESOURCES, TEVD: the device cannot resize a queue in use
 * Source: dat_evd_resize(3DAT)
 */
DAT_RETURN dat_evd_resize(DAT_EVD_HANDLE evd, DAT_COUNT evd_qlen);

/*
 * dat_evd_post_se queues a copy of a software event, which wakes up a waiter or triggers the CNO
 * as any other event does. event_number must be DAT_SOFTWARE_EVENT; the pointer is passed through.
 * A proxy agent may be called before this call returns.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG1: the EVD lacks DAT_EVD_SOFTWARE_FLAG; ARG2: event is null or has
 *	another number
 * DAT_QUEUE_FULL: evd_qlen software events, connection requests and asynchronous errors are queued;
 *	no asynchronous overflow event is queued
 * Source: dat_evd_post_se(3DAT)
 */
DAT_RETURN dat_evd_post_se(DAT_EVD_HANDLE evd, const DAT_EVENT *event);

/*
 * dat_evd_dequeue removes the oldest event and returns it, also from an EVD that is disabled,
 * unwaitable or has a CNO. Each event is returned exactly once, whichever thread calls. The events
 * of one stream are in order; there is no order between streams.
 *
 * Safe.
 * DAT_QUEUE_EMPTY: the EVD is empty; returned without a class, as 0x000d0000
 * DAT_INVALID_PARAMETER, ARG2: event is null
 * DAT_INVALID_STATE, EVD_WAITER: a thread is in dat_evd_wait
 * Source: dat_evd_dequeue(3DAT); the missing class is our choice, because programs compare the
 *	whole word.
 */
DAT_RETURN dat_evd_dequeue(DAT_EVD_HANDLE evd, DAT_EVENT *event);

/*
 * dat_evd_query returns the length, state, CNO and streams of an EVD. evd_state has one bit of
 * each of three groups, see DAT_EVD_STATE; an EVD without endpoints reports CONFIG_THRESHOLD.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG3: param is null
 * Source: dat_evd_query(3DAT)
 */
DAT_RETURN dat_evd_query(DAT_EVD_HANDLE evd, DAT_EVD_PARAM_MASK mask, DAT_EVD_PARAM *param);

/*
 * dat_evd_free destroys an EVD and the events on it; the objects that those belong to are
 * unaffected. If it was the last EVD of its CNO, threads that wait on the CNO return with
 * DAT_HANDLE_NULL, and an agent that is set is called with DAT_HANDLE_NULL. A thread that waits on
 * the EVD returns with DAT_ABORT.
 *
 * Blocks until a thread that waited has left. Unsafe.
 * DAT_INVALID_STATE, EVD_IN_USE: an endpoint, a service point or an IA uses it
 * Source: dat_evd_free(3DAT); what a waiting thread returns is our choice.
 */
DAT_RETURN dat_evd_free(DAT_EVD_HANDLE evd);

/* ENDPOINT */

/*
 * dat_ep_create creates an unconnected endpoint. pz, each EVD and attr may be null. The zone and
 * the connect EVD must be set by dat_ep_modify before connect or accept. One EVD may have several
 * roles if its flags allow them; the connect EVD may belong to another IA of the same provider
 * library. For a null EVD no events are queued. With attr null the endpoint has the provider's
 * defaults, which may be lowered when it connects: 16 receives, 16 requests, 4 segments, 8 RDMA
 * reads each way, 2 GB, all capped by the device. With attr the endpoint has all that is requested,
 * or the call fails; 0 as a size or as an RDMA segment count means the default, see DAT_EP_ATTR.
 *
 * Safe.
 * DAT_INVALID_HANDLE, IA, PZ, EVD_RECV, EVD_REQUEST, EVD_CONN: invalid, or the EVD lacks the flag
 *	for its role
 * DAT_INVALID_PARAMETER, ARG6: a limit that is negative or above the device's, no segments for
 *	transfers, or an unknown service type; ARG7: ep is null
 * DAT_MODEL_NOT_SUPPORTED: the IA lacks the service type
 * DAT_INSUFFICIENT_RESOURCES, TEP: the device has no more, or not with these attributes; TEVD: all
 *	transfers that the endpoints of an EVD may have outstanding do not fit into its largest
 *	queue, or the device cannot resize it
 * Source: dat_ep_create(3DAT); the defaults are our choice, those of DAT 1.2.
 */
DAT_RETURN dat_ep_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,
			 DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd,
			 const DAT_EP_ATTR *attr, DAT_EP_HANDLE *ep);

/*
 * dat_ep_query returns the state, addresses, zone, EVDs and actual attributes of an endpoint.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG3: param is null
 * Source: dat_ep_query(3DAT)
 */
DAT_RETURN dat_ep_query(DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask, DAT_EP_PARAM *param);

/*
 * dat_ep_modify sets the members that mask selects, all of them or none. The zone can be changed
 * while the endpoint is unconnected or tentative; EVDs and the members of ep_attr also while it is
 * reserved or passive; the transport and provider specific attributes only while it is unconnected;
 * handle of the IA, state, comm, addresses, ports and shared receive queue never. A null zone or
 * EVD is as in dat_ep_create, and the members of ep_attr mean what they mean there. The numbers of
 * RDMA reads are what the next connection requests. Posted receives stay posted, but may fail for
 * protection in a new zone; while there are any, recv_completion_flags cannot be changed.
 *
 * Some members take another queue pair; while the call lasts the device has both. Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: a member that can never be changed; ARG3: param is null, a value
 *	out of range, an invalid handle, an EVD without the flag for its role, or too few receives
 *	or segments for what is posted
 * DAT_INVALID_STATE, EP_<state>: a member cannot be changed in this state
 * DAT_MODEL_NOT_SUPPORTED: the endpoint is one of datagrams, whose peers know its queue pair
 * DAT_INSUFFICIENT_RESOURCES, TEP: the device has nothing with these attributes; TEVD: as in
 *	dat_ep_create
 * Source: dat_ep_modify(3DAT)
 */
DAT_RETURN dat_ep_modify(DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask, const DAT_EP_PARAM *param);

/*
 * dat_ep_connect requests a connection to conn_qual at an address; the port within the address is
 * ignored. timeout is in microseconds, 1 to DAT_TIMEOUT_INFINITE, and runs until ESTABLISHED.
 * private_data_size is in bytes, up to max_private_data_size; the data is copied. The endpoint
 * becomes ACTIVE_CONNECTION_PENDING, and its receives stay posted.
 *
 * One event follows on its connect EVD: ESTABLISHED, PEER_REJECTED, NON_PEER_REJECTED,
 * UNREACHABLE, TIMED_OUT, or DISCONNECTED if dat_ep_disconnect is called before. After all but the
 * first the endpoint is DISCONNECTED and its receives are flushed.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, EVD_CONN: it has no connect EVD
 * DAT_INVALID_PARAMETER, ARG2: address is null; ARG3: conn_qual is 0; ARG4: timeout is 0; ARG5:
 *	private_data_size is negative or too large; ARG6: private_data is null and its size is not
 *	0; ARG8: unknown flags
 * DAT_INVALID_ADDRESS, MALFORMED: unknown family (AF_UNSPEC is taken for IPv4); UNSUPPORTED:
 *	multicast, broadcast, unspecified, or a family that this interface lacks; UNREACHABLE: no
 *	route, or the interface has lost its address
 * DAT_INVALID_STATE, EP_<state>: not unconnected; EP_NOTREADY: it has no protection zone
 * DAT_MODEL_NOT_SUPPORTED: quality of service, or DAT_CONNECT_MULTIPATH_REQUIRED_FLAG
 * DAT_INSUFFICIENT_RESOURCES, TEP: the transport has no more connections
 * Source: dat_ep_connect(3DAT)
 */
DAT_RETURN dat_ep_connect(DAT_EP_HANDLE ep, DAT_IA_ADDRESS_PTR address, DAT_CONN_QUAL conn_qual,
			  DAT_TIMEOUT timeout, DAT_COUNT private_data_size,
			  const DAT_PVOID private_data, DAT_QOS qos, DAT_CONNECT_FLAGS flags);

/*
 * dat_ep_dup_connect is dat_ep_connect with the address, qualifier and flags that dup_ep was
 * connected with. dup_ep must be an endpoint of the active side, because the peer of an accepted
 * connection does not listen.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, EP: ep or dup_ep is invalid, or they are not of one instance
 * DAT_INVALID_PARAMETER, ARG3: timeout is 0; ARG4: private_data_size; ARG5: private_data
 * DAT_INVALID_STATE, EP_<state>: ep is not unconnected, or dup_ep is not connected; EP_CONNECTED:
 *	dup_ep has accepted its connection
 * All other errors, and the events, are those of dat_ep_connect.
 * Source: dat_ep_dup_connect(3DAT)
 */
DAT_RETURN dat_ep_dup_connect(DAT_EP_HANDLE ep, DAT_EP_HANDLE dup_ep, DAT_TIMEOUT timeout,
			      DAT_COUNT private_data_size, const DAT_PVOID private_data,
			      DAT_QOS qos);

/*
 * dat_ep_common_connect is dat_ep_connect to the listener at an address and port, which may be a
 * common service point; address contains the port, and the connection qualifier is the port. There
 * is no quality of service, and one path.
 *
 * Of DATX_2.0, see the conventions. Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: address is null; ARG3: timeout is 0; ARG4: private_data_size is
 *	negative or too large; ARG5: private_data is null and its size is not 0
 * DAT_INVALID_ADDRESS, MALFORMED: the port is 0, or as dat_ep_connect
 * All other errors, and the events, are those of dat_ep_connect.
 * Source: dapl, which declares it; what it does is our choice.
 */
DAT_RETURN dat_ep_common_connect(DAT_EP_HANDLE ep, DAT_IA_ADDRESS_PTR address, DAT_TIMEOUT timeout,
				 DAT_COUNT private_data_size, const DAT_PVOID private_data);

/*
 * dat_ep_disconnect ends a connection or an attempt at one. Abrupt: outstanding requests fail at
 * once. Graceful: new requests are refused, and posted ones may complete, for 3 seconds at most.
 * Receives are flushed in both cases. One event follows on the connect EVD: DISCONNECTED, or
 * BROKEN if a transport error occurs first. On an endpoint that is DISCONNECTED the call succeeds
 * and no event follows. An abrupt call during a graceful one ends the connection at once. The
 * event may be queued before the call returns.
 *
 * Unsafe.
 * DAT_INVALID_STATE, EP_<state>: unconnected, reserved, passive or tentative
 * Source: dat_ep_disconnect(3DAT); the time limit is our choice.
 */
DAT_RETURN dat_ep_disconnect(DAT_EP_HANDLE ep, DAT_CLOSE_FLAGS flags);

/*
 * dat_ep_post_send sends one message: the concatenation of num_segments segments at iov; without
 * segments it is empty. The peer needs a posted receive that is large enough. flags: SUPPRESS,
 * SOLICITED_WAIT, UNSIGNALLED if the endpoint has it too, BARRIER_FENCE. The consumer may reuse iov
 * after the return, and the data after the completion: a DAT_DTO_COMPLETION_EVENT with cookie on
 * the request EVD, in the order of posting. While the endpoint is DISCONNECTED a post is accepted
 * and flushed.
 *
 * Wrong contexts, ranges, zones and privileges are reported by the completion, not by the call.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: num_segments is negative or above max_request_iov; ARG3: iov is
 *	null and there are segments, or more bytes than the device can send
 * DAT_INVALID_STATE, EP_<state>: neither connected, accepted nor DISCONNECTED
 * DAT_INSUFFICIENT_RESOURCES, MEMORY: max_request_dtos requests are outstanding
 * Source: dat_ep_post_send(3DAT); errors of protection in the completion are our choice of the two
 *	that it allows.
 */
DAT_RETURN dat_ep_post_send(DAT_EP_HANDLE ep, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
			    DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags);

/*
 * dat_ep_post_send_with_invalidate is dat_ep_post_send, and if invalidate is DAT_TRUE the message
 * makes rmr_context of the peer invalid when it arrives. rmr_context must be of a window that the
 * peer made with dat_rmr_create_for_ep and bound on its end of this connection; otherwise the
 * peer's receive fails, and the connection breaks. The peer's receive completes afterwards, with
 * DAT_DTO_RECEIVE_WITH_INVALIDATE and the context. With DAT_FALSE rmr_context is ignored.
 *
 * Of DATX_2.0, see the conventions. Unsafe.
 * DAT_INVALID_PARAMETER, ARG6: invalidate is neither DAT_FALSE nor DAT_TRUE
 * DAT_MODEL_NOT_SUPPORTED: invalidate is DAT_TRUE, and the device has no such send. It has none
 *	without windows of one endpoint, see rmr_scope_supported
 * All other errors are those of dat_ep_post_send.
 * Source: dapl, which declares it; what it does is our choice, that of libibverbs.
 */
DAT_RETURN dat_ep_post_send_with_invalidate(DAT_EP_HANDLE ep, DAT_COUNT num_segments,
					    DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
					    DAT_COMPLETION_FLAGS flags, DAT_BOOLEAN invalidate,
					    DAT_RMR_CONTEXT rmr_context);

/*
 * dat_ep_post_recv posts a receive for one message, in any state; in DISCONNECTED it is flushed at
 * once. Segments are filled in order and need local write. A longer message completes with
 * LOCAL_LENGTH and breaks the connection. flags: UNSIGNALLED if the endpoint has it too. It
 * completes on the receive EVD, in order, with the number of bytes received; a receive cannot be
 * suppressed.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG1: the endpoint uses a shared receive queue; ARG2: num_segments is
 *	negative or above max_recv_iov; ARG3: iov is null and there are segments
 * DAT_INVALID_STATE, EP_NOTREADY: it has no protection zone
 * DAT_INSUFFICIENT_RESOURCES, MEMORY: max_recv_dtos receives are outstanding
 * Source: dat_ep_post_recv(3DAT)
 */
DAT_RETURN dat_ep_post_recv(DAT_EP_HANDLE ep, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
			    DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags);

/*
 * dat_ep_post_rdma_read reads as many bytes from the beginning of remote as iov holds, in order;
 * the segment_length of remote is not looked at. flags: SUPPRESS, UNSIGNALLED if the endpoint has
 * it too, BARRIER_FENCE. If rdma_write_for_rdma_read_req is DAT_TRUE, the local memory needs remote
 * write. max_rdma_read_out limits how many are in flight, not how many may be posted. Completes as
 * dat_ep_post_send does.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: num_segments is negative or above max_rdma_read_iov; ARG3:
 *	iov is null and there are segments, or more bytes than the device can read; ARG5: remote
 *	is null
 * DAT_INVALID_STATE, EP_<state>: neither connected, accepted nor DISCONNECTED; EP_NOTREADY:
 *	max_rdma_read_out is 0
 * DAT_INSUFFICIENT_RESOURCES, MEMORY: max_request_dtos requests are outstanding
 * Source: dat_ep_post_rdma_read(3DAT)
 */
DAT_RETURN dat_ep_post_rdma_read(DAT_EP_HANDLE ep, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
				 DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
				 DAT_COMPLETION_FLAGS flags);

/*
 * dat_ep_post_rdma_read_to_rmr is an RDMA read of one segment into memory that is named by a window
 * of this side, for transports that show the destination of a read to the peer
 * (rdma_read_lmr_rmr_context_exposure). No provider of ours can do it.
 *
 * Of DATX_2.0, see the conventions. Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: local is null; ARG4: remote is null
 * DAT_MODEL_NOT_SUPPORTED: the device cannot name a window as the destination
 * Source: dapl, which declares it; the errors are our choice.
 */
DAT_RETURN dat_ep_post_rdma_read_to_rmr(DAT_EP_HANDLE ep, const DAT_RMR_TRIPLET *local,
					DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
					DAT_COMPLETION_FLAGS flags);

/*
 * dat_ep_post_rdma_write writes the bytes of iov to the beginning of remote, whose segment_length
 * is not looked at. The peer receives no event, and sees the bytes in order unless it opened its IA
 * with DAT_RO_AWARE_PREFIX. On iWARP the completion only means that the local memory may be reused;
 * on other transports it means that the bytes have been written. Flags and completion as for
 * dat_ep_post_rdma_read.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: num_segments is negative or above max_rdma_write_iov; ARG3:
 *	iov is null and there are segments, or more bytes than the device can write; ARG5: remote
 *	is null
 * DAT_INVALID_STATE, EP_<state>: neither connected, accepted nor DISCONNECTED
 * DAT_INSUFFICIENT_RESOURCES, MEMORY: max_request_dtos requests are outstanding
 * Source: dat_ep_post_rdma_write(3DAT)
 */
DAT_RETURN dat_ep_post_rdma_write(DAT_EP_HANDLE ep, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
				  DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
				  DAT_COMPLETION_FLAGS flags);

/*
 * dat_ep_get_status returns the state of an endpoint, and whether all its posted receives and all
 * its posted requests are completed. Completed means that the provider has taken the completion
 * from the device; the consumer need not have dequeued it. Outputs may be null. For an endpoint
 * that uses a shared receive queue recv_idle is DAT_TRUE, unless the transport reports which
 * receives it has taken.
 *
 * Safe.
 * DAT_INVALID_HANDLE, EP: not a live endpoint
 * Source: dat_ep_get_status(3DAT)
 */
DAT_RETURN dat_ep_get_status(DAT_EP_HANDLE ep, DAT_EP_STATE *state, DAT_BOOLEAN *recv_idle,
			     DAT_BOOLEAN *request_idle);

/*
 * dat_ep_free destroys an endpoint. A connection is ended abruptly: the peer receives
 * DISCONNECTED; on this side no event is queued after the call. Completions that the provider has
 * taken from the device stay on their EVDs, the others are lost. The consumer may reuse the
 * buffers.
 *
 * Blocks until the device has released its resources, for a bounded time. Unsafe.
 * DAT_INVALID_STATE, EP_RESERVED, EP_PASSCONNPENDING or EP_TENTCONNPENDING: free the RSP or reject
 *	the request first
 * Source: dat_ep_free(3DAT)
 */
DAT_RETURN dat_ep_free(DAT_EP_HANDLE ep);

/*
 * dat_ep_reset makes a DISCONNECTED endpoint unconnected again, with its attributes, zone and
 * EVDs. On an unconnected endpoint it does nothing, and receives stay posted. The standard allows
 * it to drop completions that were not dequeued; ours drops none. Private data that came with
 * ESTABLISHED is no longer valid.
 *
 * Blocks until the transport has recycled the connection, for a bounded time. Unsafe.
 * DAT_INVALID_STATE, EP_<state>: any other state
 * DAT_INSUFFICIENT_RESOURCES, TEP: the transport has no new endpoint; it is still DISCONNECTED
 * Source: dat_ep_reset(3DAT)
 */
DAT_RETURN dat_ep_reset(DAT_EP_HANDLE ep);

/*
 * dat_ep_create_with_srq creates an endpoint that takes its receives from srq until it is freed.
 * As dat_ep_create, except: attr is required; its max_recv_iov and srq_soft_hw are ignored; and
 * max_recv_dtos limits nothing. All receives of the queue may complete for one endpoint, so the
 * receive EVD gets room for as many completions as the queue is long, once for all endpoints of the
 * queue that have this EVD. The zone of the endpoint applies to its requests, that of the queue to
 * its receives. dat_ep_post_recv is refused.
 *
 * When the connection ends, the receives on the queue stay there. One that the endpoint had taken
 * completes, on most devices before the event of the end. Then one DAT_ASYNC_ERROR_EP_BROKEN for
 * the endpoint is queued on the asynchronous EVD of the IA.
 *
 * Safe.
 * DAT_INVALID_HANDLE, SRQ and those of dat_ep_create
 * DAT_INVALID_PARAMETER, ARG2: the zones differ, and srq_ep_pz_difference_supported is DAT_FALSE;
 *	ARG7: attr is null, or invalid as in dat_ep_create; ARG8: ep is null
 * DAT_INVALID_STATE, SRQ_ERROR: the queue is in error
 * DAT_MODEL_NOT_SUPPORTED: shared receive queues, or the service type
 * DAT_INSUFFICIENT_RESOURCES, TEP: the device has no more, or not with these attributes; TEVD: an
 *	EVD cannot be made long enough
 * Source: dat_ep_create_with_srq(3DAT); the asynchronous event is dapl's; that max_recv_dtos limits
 *	nothing is our choice.
 */
DAT_RETURN dat_ep_create_with_srq(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,
				  DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd,
				  DAT_SRQ_HANDLE srq, const DAT_EP_ATTR *attr, DAT_EP_HANDLE *ep);

/*
 * dat_ep_recv_query returns two counts of receive buffers: num_buffers, those that the endpoint
 * has and that are not completed; and buffer_span, the completions still to come if all messages
 * that are now arriving succeed, which is never smaller. Both are taken at the same time; either
 * output may be null. A count that is expensive to determine is DAT_VALUE_UNKNOWN, as both are
 * with a shared receive queue in hardware.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, EP: not a live endpoint
 * Source: dat_ep_recv_query(3DAT)
 */
DAT_RETURN dat_ep_recv_query(DAT_EP_HANDLE ep, DAT_COUNT *num_buffers, DAT_COUNT *buffer_span);

/*
 * dat_ep_set_watermark limits the number of receive buffers that an endpoint may have taken. A
 * count above soft queues one asynchronous event, until soft is set again; a count above hard
 * breaks the connection. DAT_WATERMARK_INFINITE, the default, disarms a watermark. If the count is
 * above already, this happens before the call returns.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2, ARG3: negative and not infinite, or above max_recv_dtos
 * DAT_MODEL_NOT_SUPPORTED: finite, and srq_watermarks_supported lacks it
 * Source: dat_ep_set_watermark(3DAT)
 */
DAT_RETURN dat_ep_set_watermark(DAT_EP_HANDLE ep, DAT_COUNT soft, DAT_COUNT hard);

/* LOCAL MEMORY REGION (LMR): dat_lmr_create is in udat.h */

/*
 * dat_lmr_query returns the range, type, zone, privileges, addressing and contexts of a region. For
 * DAT_MEM_TYPE_SHARED_VIRTUAL region_desc points to the provider's copy of the cookie; for
 * DAT_MEM_TYPE_LMR length and range are those of the source.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG3: param is null
 * Source: dat_lmr_query(3DAT)
 */
DAT_RETURN dat_lmr_query(DAT_LMR_HANDLE lmr, DAT_LMR_PARAM_MASK mask, DAT_LMR_PARAM *param);

/*
 * dat_lmr_free deregisters memory. Transfers that start later fail for protection, on this side or
 * at the peer, and break their connection. A transfer that is already arriving may still succeed,
 * but the device does not access the memory after the return. Regions that were created from this
 * one remain valid.
 *
 * Blocks for the kernel's work. Unsafe.
 * DAT_INVALID_STATE, LMR_IN_USE: an RMR is bound to it; the region remains valid
 * Source: dat_lmr_free(3DAT)
 */
DAT_RETURN dat_lmr_free(DAT_LMR_HANDLE lmr);

/*
 * dat_lmr_sync_rdma_read makes what this process stored visible to the adapter, before a peer
 * reads it by RDMA. Needed if lmr_sync_req is DAT_TRUE; otherwise it is a memory fence. Segments
 * may be in several regions and zones. num_segments is the number of segments, although its type
 * is that of a length; 0 succeeds.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: segments is null and num_segments is not 0, a context of no region
 *	of this IA, or a range outside its region
 * Source: dat_lmr_sync_rdma_read(3DAT)
 */
DAT_RETURN dat_lmr_sync_rdma_read(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *segments,
				  DAT_VLEN num_segments);

/*
 * dat_lmr_sync_rdma_write makes what a peer wrote by RDMA visible to this process, after the write
 * completed and before this process loads it; also before such a write starts, if this process
 * stored in its range. Otherwise as dat_lmr_sync_rdma_read.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: as dat_lmr_sync_rdma_read
 * Source: dat_lmr_sync_rdma_write(3DAT)
 */
DAT_RETURN dat_lmr_sync_rdma_write(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *segments,
				   DAT_VLEN num_segments);

/* REMOTE MEMORY REGION (RMR): a window; creating one is expensive, binding it is cheap */

/*
 * dat_rmr_create creates a window in a protection zone; it is unbound. All endpoints of the zone
 * give access through it.
 *
 * Safe.
 * DAT_INSUFFICIENT_RESOURCES, MEMORY_REGION: the device has no more
 * DAT_MODEL_NOT_SUPPORTED: max_rmrs is 0
 * Source: dat_rmr_create(3DAT)
 */
DAT_RETURN dat_rmr_create(DAT_PZ_HANDLE pz, DAT_RMR_HANDLE *rmr);

/*
 * dat_rmr_create_for_ep creates a window of which only the endpoint gives access that it is bound
 * on. It may be bound on another one next. The peer of that endpoint can invalidate it with
 * dat_ep_post_send_with_invalidate, which unbinds it. When the endpoint is disconnected, reset or
 * freed nobody has access any more; the window stays bound, and its region in use, until it is
 * bound again or freed.
 *
 * Of DATX_2.0, see the conventions. Safe.
 * DAT_INSUFFICIENT_RESOURCES, MEMORY: no memory. The device gives a window at each bind.
 * DAT_MODEL_NOT_SUPPORTED: the device has no windows of one endpoint, see rmr_scope_supported
 * Source: dapl, which declares it; what it does is our choice, that of type 2 windows of
 *	libibverbs.
 */
DAT_RETURN dat_rmr_create_for_ep(DAT_PZ_HANDLE pz, DAT_RMR_HANDLE *rmr);

/*
 * dat_rmr_query returns the binding of a window. While it is unbound, the members after pz_handle
 * are 0, except rmr_scope. A window that the peer has invalidated is unbound as soon as the receive
 * that says so, and the bind, are dequeued.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: LMR_TRIPLET in mask while the window is unbound; ARG3: param is null
 * Source: dat_rmr_query(3DAT), which does not specify the unbound case: our choice, dapl's.
 */
DAT_RETURN dat_rmr_query(DAT_RMR_HANDLE rmr, DAT_RMR_PARAM_MASK mask, DAT_RMR_PARAM *param);

/*
 * dat_rmr_bind binds a window to a range of the region lmr, and returns the new context for peers.
 * Address and length of triplet give the range; its lmr_context is not looked at. With
 * DAT_VA_TYPE_VA peers use the addresses of the region, with DAT_VA_TYPE_ZB the window begins at
 * address 0.
 *
 * Peers may use the context when the bind has completed. A send that is posted later on ep may
 * carry it, because the bind is executed before all later requests. The previous context becomes
 * invalid when the bind completes; unbinding first is not necessary. segment_length 0 unbinds the
 * window: lmr may be null, and the context is 0. priv grants remote read and remote write; other
 * bits are ignored. flags: SUPPRESS, UNSIGNALLED if the endpoint has it too, BARRIER_FENCE.
 *
 * A bind is a request of ep, in order with the others. It completes with
 * DAT_RMR_BIND_COMPLETION_EVENT on the request EVD; a bind that fails breaks the connection. While
 * ep is DISCONNECTED a bind is accepted and flushed, and the binding does not change.
 *
 * On a device without windows, or without zero-based ones, the call blocks while the kernel
 * registers the range; to bind a window of an endpoint, while the kernel makes one. Unsafe.
 * DAT_INVALID_HANDLE, LMR: invalid, and segment_length is not 0; EVD_REQUEST: ep has no request EVD
 * DAT_INVALID_PARAMETER, ARG3: triplet is null, or a range outside the region; ARG5: unknown
 *	va_type; ARG8: UNSIGNALLED although the endpoint's request_completion_flags lack it; ARG9:
 *	context is null
 * DAT_INVALID_STATE, EP_<state>: neither connected, accepted nor DISCONNECTED
 * DAT_PROTECTION_VIOLATION: window, region and endpoint are not all in the same zone
 * DAT_PRIVILEGES_VIOLATION, RDMA_READ or RDMA_WRITE: the region lacks the local read or local
 *	write that this privilege needs
 * DAT_MODEL_NOT_SUPPORTED: DAT_VA_TYPE_ZB, and the device has neither zero-based windows nor a
 *	zero-based region of the range, which an RDMA device has only at the beginning of a page; or
 *	the device has no window of an endpoint for the range
 * DAT_INSUFFICIENT_RESOURCES, MEMORY: max_request_dtos requests are outstanding; MEMORY_REGION:
 *	the device has no more windows, after a bind that failed or for an endpoint, or no more
 *	regions, if it has no windows
 * Source: dat_rmr_bind(3DAT); lmr and va_type are dapl's.
 */
DAT_RETURN dat_rmr_bind(DAT_RMR_HANDLE rmr, DAT_LMR_HANDLE lmr, const DAT_LMR_TRIPLET *triplet,
			DAT_MEM_PRIV_FLAGS priv, DAT_VA_TYPE va_type, DAT_EP_HANDLE ep,
			DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags,
			DAT_RMR_CONTEXT *context);

/*
 * dat_rmr_free destroys a window, bound or not. Peers that use its context fail as after
 * dat_lmr_free. The completion of a bind in flight is still delivered.
 *
 * Blocks for the kernel's work. Unsafe.
 * DAT_INVALID_HANDLE, RMR: not a live window
 * Source: dat_rmr_free(3DAT)
 */
DAT_RETURN dat_rmr_free(DAT_RMR_HANDLE rmr);

/* SERVICE POINTS */

/*
 * dat_psp_create listens on conn_qual until the service point is freed. Each connection request is
 * a DAT_CONNECTION_REQUEST_EVENT on evd; the first may arrive before the call returns. A request
 * is refused if evd has no room, and the peer receives NON_PEER_REJECTED. flags tells whether the
 * consumer or the provider creates the endpoints, see DAT_PSP_FLAGS. An endpoint of the provider
 * comes with the request (local_ep_handle of dat_cr_query). It has the default attributes, no more
 * RDMA reads than the peer takes and sends, and no zone and EVDs: dat_ep_modify sets them, then
 * dat_cr_accept is called with a null endpoint. It is destroyed if the request is rejected. Without
 * memory for it the request is refused.
 *
 * Blocks until it listens. Safe.
 * DAT_INVALID_HANDLE, EVD_CR: evd is invalid or lacks DAT_EVD_CR_FLAG
 * DAT_INVALID_PARAMETER, ARG2: conn_qual is 0, or a port that needs privileges; ARG4: flags; ARG5:
 *	psp is null
 * DAT_CONN_QUAL_IN_USE: conn_qual is in use, or another qualifier with the same port
 * DAT_MODEL_NOT_SUPPORTED: ep_creator does not allow flags
 * DAT_INVALID_ADDRESS, UNREACHABLE: the interface has lost its address
 * DAT_INSUFFICIENT_RESOURCES, DEVICE: the transport has no more listeners
 * Source: dat_psp_create(3DAT)
 */
DAT_RETURN dat_psp_create(DAT_IA_HANDLE ia, DAT_CONN_QUAL conn_qual, DAT_EVD_HANDLE evd,
			  DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *psp);

/*
 * dat_psp_create_any listens on a free qualifier that needs no privileges, and returns it.
 *
 * Blocks until it listens. Safe.
 * DAT_INVALID_PARAMETER, ARG2: conn_qual is null
 * DAT_CONN_QUAL_UNAVAILABLE: no qualifier is free
 * Otherwise as dat_psp_create.
 * Source: dat_psp_create_any(3DAT)
 */
DAT_RETURN dat_psp_create_any(DAT_IA_HANDLE ia, DAT_CONN_QUAL *conn_qual, DAT_EVD_HANDLE evd,
			      DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *psp);

/*
 * dat_psp_query returns the qualifier, EVD and flags of a service point.
 *
 * Safe.
 * DAT_INVALID_PARAMETER, ARG3: param is null
 * Source: dat_psp_query(3DAT)
 */
DAT_RETURN dat_psp_query(DAT_PSP_HANDLE psp, DAT_PSP_PARAM_MASK mask, DAT_PSP_PARAM *param);

/*
 * dat_psp_free stops listening; the qualifier is free when the call returns. Requests whose event
 * was queued remain valid.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, PSP: not a live service point
 * Source: dat_psp_free(3DAT)
 */
DAT_RETURN dat_psp_free(DAT_PSP_HANDLE psp);

/*
 * dat_rsp_create listens on conn_qual for one connection request, for the endpoint ep. ep becomes
 * reserved, and passive when the request arrives as DAT_CONNECTION_REQUEST_EVENT on evd. Then the
 * listener is closed, conn_qual and evd are no longer in use, and a later request is refused as if
 * nobody listened; the handle remains valid for query and free, and does not prevent a graceful
 * close of the IA. If ep is null the provider creates an endpoint when the request arrives, as with
 * DAT_PSP_PROVIDER_FLAG.
 *
 * Blocks until it listens. Safe.
 * DAT_INVALID_HANDLE, EP: invalid; EVD_CR: evd is invalid or lacks DAT_EVD_CR_FLAG
 * DAT_INVALID_PARAMETER, ARG2: conn_qual is 0, or a port that needs privileges; ARG5: rsp is null
 * DAT_INVALID_STATE, EP_<state>: ep is not unconnected
 * DAT_CONN_QUAL_IN_USE: conn_qual is in use, or another qualifier with the same port
 * DAT_INVALID_ADDRESS, UNREACHABLE: the interface has lost its address
 * DAT_INSUFFICIENT_RESOURCES, DEVICE: the transport has no more listeners
 * Source: dat_rsp_create(3DAT); how long the handle is valid is our choice.
 */
DAT_RETURN dat_rsp_create(DAT_IA_HANDLE ia, DAT_CONN_QUAL conn_qual, DAT_EP_HANDLE ep,
			  DAT_EVD_HANDLE evd, DAT_RSP_HANDLE *rsp);

/*
 * dat_rsp_query returns the qualifier, EVD and endpoint of a service point. An endpoint that the
 * provider makes is null until the request has arrived.
 *
 * Safe.
 * DAT_INVALID_PARAMETER, ARG3: param is null
 * Source: dat_rsp_query(3DAT)
 */
DAT_RETURN dat_rsp_query(DAT_RSP_HANDLE rsp, DAT_RSP_PARAM_MASK mask, DAT_RSP_PARAM *param);

/*
 * dat_rsp_free stops listening; a reserved endpoint becomes unconnected. If the request has
 * arrived before, the endpoint is passive, and the request can still be accepted or rejected.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, RSP: not a live service point
 * Source: dat_rsp_free(3DAT)
 */
DAT_RETURN dat_rsp_free(DAT_RSP_HANDLE rsp);

/*
 * COMMON SERVICE POINT (CSP): a listener at an address and port of the network. A connection to its
 * port is the same as one to the public service point whose qualifier is the port.
 */

/*
 * dat_csp_create listens on the port of address until the service point is freed. Connection
 * requests arrive on evd as at a public service point with DAT_PSP_CONSUMER_FLAG; their sp_handle
 * is the csp_handle. comm->domain is the family of address, comm->type is SOCK_STREAM, and
 * comm->protocol is 0 or IPPROTO_TCP. The network address within address is not looked at: an IA
 * listens on its own. Both structures are copied.
 *
 * Of DATX_2.0, see the conventions. Blocks until it listens. Safe.
 * DAT_INVALID_HANDLE, EVD_CR: evd is invalid or lacks DAT_EVD_CR_FLAG
 * DAT_INVALID_PARAMETER, ARG2: comm is null; ARG3: address is null, or its port needs privileges;
 *	ARG5: csp is null
 * DAT_COMM_NOT_SUPPORTED: another domain, type or protocol
 * DAT_INVALID_ADDRESS, MALFORMED: the family is not comm's, or the port is 0; UNREACHABLE: the
 *	interface has lost its address
 * DAT_PORT_IN_USE: a listener has the port
 * DAT_INSUFFICIENT_RESOURCES, DEVICE: the transport has no more listeners
 * Source: dapl, which declares it; what it does is our choice.
 */
DAT_RETURN dat_csp_create(DAT_IA_HANDLE ia, DAT_COMM *comm, DAT_IA_ADDRESS_PTR address,
			  DAT_EVD_HANDLE evd, DAT_CSP_HANDLE *csp);

/*
 * dat_csp_query returns the kind of connections, address and EVD of a service point.
 *
 * Of DATX_2.0, see the conventions. Safe.
 * DAT_INVALID_PARAMETER, ARG3: param is null
 * Source: dapl, which declares it; as dat_psp_query.
 */
DAT_RETURN dat_csp_query(DAT_CSP_HANDLE csp, DAT_CSP_PARAM_MASK mask, DAT_CSP_PARAM *param);

/*
 * dat_csp_free stops listening; the port is free when the call returns. Requests whose event was
 * queued remain valid.
 *
 * Of DATX_2.0, see the conventions. Unsafe.
 * DAT_INVALID_HANDLE, CSP: not a live service point
 * Source: dapl, which declares it; as dat_psp_free.
 */
DAT_RETURN dat_csp_free(DAT_CSP_HANDLE csp);

/* PROTECTION ZONE (PZ) */

/*
 * dat_pz_create creates a protection zone. Endpoints, regions, windows and shared receive queues
 * can be used together only if they are in the same zone.
 *
 * Safe.
 * DAT_INSUFFICIENT_RESOURCES, PROTECTION_DOMAIN: the device has no more
 * Source: dat_pz_create(3DAT)
 */
DAT_RETURN dat_pz_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE *pz);

/*
 * dat_pz_query returns the IA of a zone.
 *
 * Safe.
 * DAT_INVALID_PARAMETER, ARG3: param is null
 * Source: dat_pz_query(3DAT)
 */
DAT_RETURN dat_pz_query(DAT_PZ_HANDLE pz, DAT_PZ_PARAM_MASK mask, DAT_PZ_PARAM *param);

/*
 * dat_pz_free destroys a zone that no object uses.
 *
 * Unsafe.
 * DAT_INVALID_STATE, PZ_IN_USE: an endpoint, a region, a window or a shared receive queue uses it;
 *	the zone remains valid
 * Source: dat_pz_free(3DAT)
 */
DAT_RETURN dat_pz_free(DAT_PZ_HANDLE pz);

/* SHARED RECEIVE QUEUE (SRQ) */

/*
 * dat_srq_create creates an empty queue of receives for several endpoints. max_recv_dtos is at most
 * max_recv_per_srq. max_recv_iov may be 0; some devices have fewer segments for a shared queue than
 * max_iov_segments_per_dto.
 *
 * May take a system call. Safe.
 * DAT_INVALID_PARAMETER, ARG3: attr is null, max_recv_dtos is 0 or less, max_recv_iov is negative,
 *	a count is above the device's, or low_watermark is not DAT_SRQ_LW_DEFAULT; ARG4: srq is null
 * DAT_INSUFFICIENT_RESOURCES, SRQ: the device has no more
 * DAT_MODEL_NOT_SUPPORTED: srq_supported is DAT_FALSE
 * Source: dat_srq_create(3DAT); that a new queue can have no watermark, because it would be
 *	reached at once, is our choice.
 */
DAT_RETURN dat_srq_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_SRQ_ATTR *attr,
			  DAT_SRQ_HANDLE *srq);

/*
 * dat_srq_free destroys a queue that no endpoint uses. Receives on it end without an event.
 *
 * Blocks until a thread that resizes or arms the queue has left it. Unsafe.
 * DAT_INVALID_STATE, SRQ_IN_USE: an endpoint uses it
 * Source: dat_srq_free(3DAT)
 */
DAT_RETURN dat_srq_free(DAT_SRQ_HANDLE srq);

/*
 * dat_srq_post_recv posts a receive for one message to any endpoint of the queue. It completes on
 * the receive EVD of that endpoint, always with a notifying event that names the endpoint.
 * Segments need local write and the zone of the queue. A message that finds no receive waits for
 * one; on iWARP it ends its connection. The array iov may be reused when the call returns.
 *
 * Does not block.
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: num_segments is negative or above max_recv_iov; ARG3: iov is null
 *	and there are segments
 * DAT_INVALID_STATE, SRQ_ERROR: the queue is in error
 * DAT_INSUFFICIENT_RESOURCES, MEMORY: max_recv_dtos receives are outstanding
 * Source: dat_srq_post_recv(3DAT); the refusal in error is our choice.
 */
DAT_RETURN dat_srq_post_recv(DAT_SRQ_HANDLE srq, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
			     DAT_DTO_COOKIE cookie);

/*
 * dat_srq_query returns the state, limits and counts of a queue. A count that the device does not
 * report is DAT_VALUE_UNKNOWN. outstanding_dto_count has the receives that were posted and whose
 * completion the consumer has not taken from an EVD. It is exact, except that a device may drop a
 * receive of which an endpoint had got only a part when it was freed: this one stays in the count.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG3: param is null
 * Source: dat_srq_query(3DAT)
 */
DAT_RETURN dat_srq_query(DAT_SRQ_HANDLE srq, DAT_SRQ_PARAM_MASK mask, DAT_SRQ_PARAM *param);

/*
 * dat_srq_resize changes the length of a queue to max_recv_dtos receives or more; a smaller length
 * may have no effect. The receive EVDs of its endpoints get room for that many. No receive is lost.
 *
 * Blocks while the device makes room, or arms the queue. Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: 0 or less, or above max_recv_per_srq
 * DAT_INVALID_STATE: less than what is outstanding, or than the low watermark
 * DAT_INSUFFICIENT_RESOURCES, SRQ: the device cannot resize it; TEVD: an EVD cannot be made long
 *	enough; the length is what it was
 * Source: dat_srq_resize(3DAT)
 */
DAT_RETURN dat_srq_resize(DAT_SRQ_HANDLE srq, DAT_COUNT max_recv_dtos);

/*
 * dat_srq_set_lw arms the low watermark: one asynchronous event when fewer receives than that are
 * on the queue, possibly before the call returns. Its number is
 * DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR, because the standard has none for it; dat_handle is the
 * queue, and reason DAT_SRQ_LOW_WATERMARK_EVENT. Another call arms it again; DAT_SRQ_LW_DEFAULT
 * disarms it.
 *
 * Blocks while another thread resizes the queue. Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: negative, or above max_recv_dtos
 * DAT_MODEL_NOT_SUPPORTED: the device has no such watermark
 * Source: dat_srq_set_lw(3DAT)
 */
DAT_RETURN dat_srq_set_lw(DAT_SRQ_HANDLE srq, DAT_COUNT low_watermark);

/* EXTENSIONS */

/*
 * dat_extension_op executes an operation of an extension on handle. op is one of DAT_IB_OP in
 * dat_ib_extensions.h; the parameters after it depend on op, and the macro for each op passes them
 * with their types. That header has also what each does, its errors, and whether it blocks. The
 * operations with DAT_OPEN_EXTENSION_BASE open an IA, so their handle is DAT_HANDLE_NULL.
 *
 *	op				handle		macro
 *	DAT_IB_RDMA_WRITE_IMMED_OP	EP		dat_ib_post_rdma_write_immed
 *	DAT_IB_FETCH_AND_ADD_OP		EP		dat_ib_post_fetch_and_add
 *	DAT_IB_CMP_AND_SWAP_OP		EP		dat_ib_post_cmp_and_swap
 *	DAT_IB_UD_SEND_OP		EP		dat_ib_post_send_ud
 *	DAT_IB_UD_CM_FREE_OP		EP		dat_ib_ud_cm_free
 *	DAT_IB_UD_AH_FREE_OP		EP		dat_ib_ud_ah_free
 *	DAT_IB_QUERY_COUNTERS_OP	IA, EP, EVD	dat_ib_query_counters
 *	DAT_IB_PRINT_COUNTERS_OP	IA, EP, EVD	dat_ib_print_counters
 *	DAT_IB_START_COUNTERS_OP	IA		dat_ib_start_counter
 *	DAT_IB_STOP_COUNTERS_OP		IA		dat_ib_stop_counter
 *	DAT_IB_OPEN_QUERY_OP		null		dat_ib_open_query
 *	DAT_IB_CLOSE_QUERY_OP		of the open	dat_ib_close_query
 *	DAT_IB_COLLECTIVE_*_OP				dat_ib_collective_*: none is implemented
 *
 * extension_supported and the named attributes of dat_ia_query tell which ones an IA has.
 *
 * Blocks, and is safe, as the operation.
 * DAT_NOT_IMPLEMENTED: op is unknown, or the provider of handle has no extension, or none at all is
 *	open that has one
 * DAT_INVALID_HANDLE, HANDLE1: handle is null, or not a live object
 * DAT_INVALID_PARAMETER, ARG2; ARG3; ARG4; ARG5: those of an operation count from its handle
 * Source: dapl; that handle is looked at is our choice.
 */
DAT_RETURN dat_extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP op, ...);

/* REGISTRY AND NAMES */

/*
 * dat_registry_list_providers lists what dat.conf offers, each key once, in the order of the file;
 * it loads no library. That includes names of DAT 1.2, which dat_ia_open of 2.0 does not open: look
 * at dapl_version_major. list has a pointer for each entry, or max_to_return pointers if that is
 * less; each points to a structure of the caller, which is filled. *num is the number of
 * structures filled. A list that is too short is no error.
 *
 * Safe.
 * DAT_INVALID_PARAMETER, ARG1: max_to_return is 0, and *num is set to the number of entries; or it
 *	is negative
 * DAT_INVALID_PARAMETER, ARG2: num is null; ARG3: list, or one of the pointers to be used, is null
 * DAT_INSUFFICIENT_RESOURCES, MEMORY: too little of it, or of descriptors, to read dat.conf now
 * DAT_INVALID_STATE: the process is exiting, or it was forked while another thread opened or closed
 *	an IA
 * Source: dat_registry_list_providers(3DAT); success with a short list is our choice, dapl's.
 */
DAT_RETURN dat_registry_list_providers(DAT_COUNT max_to_return, DAT_COUNT *num,
				       DAT_PROVIDER_INFO *list[]);

/*
 * dat_strerror returns the names of the type and subtype of a code, spelled as the constants;
 * minor is "" if there is no subtype. The class is ignored. The strings are static. minor may be
 * null.
 *
 * Safe.
 * DAT_INVALID_PARAMETER, ARG1: unknown type or subtype; its string says so; ARG2: major is null
 * Source: dat_strerror(3DAT)
 */
DAT_RETURN dat_strerror(DAT_RETURN value, const char **major, const char **minor);

#ifdef __cplusplus
}
#endif

#endif
