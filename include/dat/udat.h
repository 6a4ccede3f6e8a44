/* SPDX-License-Identifier: BSD-2-Clause */
/* uDAPL 1.2, what DAT defines for user space: the one header that a consumer includes. */
#ifndef _UDAT_H_
#define _UDAT_H_

#include <dat/udat_config.h>
#include <dat/dat_platform_specific.h>
#include <dat/dat.h>
#include <dat/udat_vendor_specific.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a region is made of; dat.h says how the comments of the calls are to be read. */
typedef enum dat_mem_type {
	DAT_MEM_TYPE_VIRTUAL = 0x0, /* memory of this process */
	DAT_MEM_TYPE_LMR = 0x1,	    /* the range of another region */
	/* memory shared with other processes, under a common name */
	DAT_MEM_TYPE_SHARED_VIRTUAL = 0x2,
	/*
	 * A Solaris addition: VIRTUAL that RDMA writes always fill in order, see
	 * udat_vendor_specific.h. In a union of types it cannot be told from LMR with
	 * SHARED_VIRTUAL, and OFED's providers do not know it.
	 */
	DAT_MEM_TYPE_SO_VIRTUAL = 0x3
} DAT_MEM_TYPE;

typedef DAT_HANDLE DAT_CNO_HANDLE; /* consumer notification object */

/* What state an EVD is in: a union of one value from each of the three groups. */
typedef enum dat_evd_state {
	/* does it trigger its CNO? */
	DAT_EVD_STATE_ENABLED = 0x01,
	DAT_EVD_STATE_DISABLED = 0x02,

	/* may a thread wait on it? */
	DAT_EVD_STATE_WAITABLE = 0x04,
	DAT_EVD_STATE_UNWAITABLE = 0x08,

	/*
	 * What ends a wait. The completion flags of endpoints decide: the first to be attached
	 * settles it, others must agree, and it is THRESHOLD again when the last is detached.
	 * THRESHOLD is not NOTIFY and SOLICITED at once, though its bits are.
	 */
	DAT_EVD_STATE_CONFIG_NOTIFY = 0x10,    /* an event that notifies: UNSIGNALLED */
	DAT_EVD_STATE_CONFIG_SOLICITED = 0x20, /* a receive that the peer marked: SOLICITED_WAIT */
	/* enough events of any kind: DEFAULT and EVD_THRESHOLD */
	DAT_EVD_STATE_CONFIG_THRESHOLD = 0x30
} DAT_EVD_STATE;

struct dat_evd_param {
	DAT_IA_HANDLE ia_handle;
	DAT_COUNT evd_qlen; /* events, maybe more than were asked for */
	DAT_EVD_STATE evd_state;
	DAT_CNO_HANDLE cno_handle;
	DAT_EVD_FLAGS evd_flags;
};

#define DAT_LMR_COOKIE_SIZE 40 /* bytes, all of which count: it is no string */

/*
 * The name that processes agree on for memory they share; a pointer, and the provider copies what
 * it points to.
 */
typedef char (*DAT_LMR_COOKIE)[DAT_LMR_COOKIE_SIZE];

typedef struct dat_shared_memory {
	DAT_PVOID virtual_address; /* where this process has it */
	DAT_LMR_COOKIE shared_memory_id;
} DAT_SHARED_MEMORY;

/* Passed by value, in two registers. */
typedef union dat_region_description {
	DAT_PVOID for_va;		     /* VIRTUAL, SO_VIRTUAL */
	DAT_LMR_HANDLE for_lmr_handle;	     /* LMR */
	DAT_SHARED_MEMORY for_shared_memory; /* SHARED_VIRTUAL */
} DAT_REGION_DESCRIPTION;

struct dat_lmr_param {
	DAT_IA_HANDLE ia_handle;
	DAT_MEM_TYPE mem_type;
	DAT_REGION_DESCRIPTION region_desc;
	DAT_VLEN length; /* bytes */
	DAT_PZ_HANDLE pz_handle;
	DAT_MEM_PRIV_FLAGS mem_priv; /* as asked for, not as the device rounded it up */
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
	DAT_VLEN registered_size;     /* bytes that the adapter can reach through the contexts */
	DAT_VADDR registered_address; /* where they begin */
};

/*
 * Called with its instance data and the EVD that triggered the CNO, on the thread that did: one of
 * the provider's, or the consumer's own within dat_evd_post_se. It neither blocks nor frees DAT
 * objects. DAT_HANDLE_NULL: the IA was closed, or the CNO lost its last EVD.
 */
typedef void (*DAT_AGENT_FUNC)(DAT_PVOID instance_data, DAT_EVD_HANDLE evd);

/* Passed by value, in two registers. */
typedef struct dat_os_wait_proxy_agent {
	DAT_PVOID instance_data;
	DAT_AGENT_FUNC proxy_agent_func; /* null: no agent */
} DAT_OS_WAIT_PROXY_AGENT;

#ifdef __cplusplus
#define DAT_OS_WAIT_PROXY_AGENT_NULL (DAT_OS_WAIT_PROXY_AGENT{ NULL, NULL })
#else
#define DAT_OS_WAIT_PROXY_AGENT_NULL ((DAT_OS_WAIT_PROXY_AGENT){ NULL, NULL })
#endif

typedef struct dat_cno_param {
	DAT_IA_HANDLE ia_handle;
	DAT_OS_WAIT_PROXY_AGENT agent; /* null again once it has been called */
} DAT_CNO_PARAM;

typedef enum dat_cno_param_mask {
	DAT_CNO_FIELD_IA_HANDLE = 0x1,
	DAT_CNO_FIELD_AGENT = 0x2,
	DAT_CNO_FIELD_ALL = 0x3
} DAT_CNO_PARAM_MASK;

/*
 * For *async_evd of dat_ia_open: somebody else on this host watches for asynchronous events, make
 * no EVD.
 */
#define DAT_EVD_ASYNC_EXISTS ((DAT_EVD_HANDLE)0x1UL)
/* What comes back instead of an EVD when there is none for this instance. */
#define DAT_EVD_OUT_OF_SCOPE ((DAT_EVD_HANDLE)0x2UL)

/*
 * Whether a protection zone belongs to one IA instance. These are OFED's values: Solaris has
 * DAT_PZ_SAME as 1 and SHAREABLE as 2, so DAT_PZ_SAME is left out here.
 */
typedef enum dat_pz_support {
	DAT_PZ_UNIQUE = 0, /* ours */
	DAT_PZ_SHAREABLE = 1
} DAT_PZ_SUPPORT;

/*
 * A C++ object with a const member cannot be declared without an initialiser, so only C is told of
 * the const.
 */
#ifdef __cplusplus
#define DAT_CONST_IN_C
#else
#define DAT_CONST_IN_C const
#endif

/* What the provider can do, and what this instance of it is. */
struct dat_provider_attr {
	char provider_name[DAT_NAME_MAX_LENGTH];
	DAT_UINT32 provider_version_major;
	DAT_UINT32 provider_version_minor;
	DAT_UINT32 dapl_version_major; /* of this interface: 1 */
	DAT_UINT32 dapl_version_minor; /* and 2 */
	/* union of values; ours 3, see DAT_MEM_TYPE_SO_VIRTUAL */
	DAT_MEM_TYPE lmr_mem_types_supported;
	DAT_IOV_OWNERSHIP iov_ownership_on_return;
	DAT_QOS dat_qos_supported;			 /* union */
	DAT_COMPLETION_FLAGS completion_flags_supported; /* union */
	/* as in the registry entry that was opened */
	DAT_BOOLEAN is_thread_safe;
	/* bytes that dat_ep_connect carries; dat_cr_accept may carry more */
	DAT_COUNT max_private_data_size;
	DAT_BOOLEAN supports_multipath;
	DAT_EP_CREATOR_FOR_PSP ep_creator;
	DAT_PZ_SUPPORT pz_support;
	DAT_UINT32 optimal_buffer_alignment; /* bytes; divides DAT_OPTIMAL_ALIGNMENT */
	/*
	 * Which streams may share an EVD. Either index: software, CR, DTO, connection, RMR bind,
	 * asynchronous.
	 */
	DAT_CONST_IN_C DAT_BOOLEAN evd_stream_merging_supported[6][6];
	DAT_BOOLEAN srq_supported;
	/* bits: 0x001 low, 0x010 soft high, 0x100 hard high */
	DAT_COUNT srq_watermarks_supported;
	/* an endpoint's zone may differ from its shared queue's */
	DAT_BOOLEAN srq_ep_pz_difference_supported;
	/* bits: 0x01 available, 0x10 outstanding count of dat_srq_query */
	DAT_COUNT srq_info_supported;
	/* bits: 0x01 first, 0x10 second count of dat_ep_recv_query */
	DAT_COUNT ep_recv_info_supported;
	/* dat_lmr_sync_rdma_read and _write have to be called */
	DAT_BOOLEAN lmr_sync_req;
	/* errors of protection show in completions, never in the post */
	DAT_BOOLEAN dto_async_return_guaranteed;
	/* memory that an RDMA read fills needs remote write: iWARP */
	DAT_BOOLEAN rdma_write_for_rdma_read_req;
	DAT_COUNT num_provider_specific_attr;
	DAT_NAMED_ATTR *provider_specific_attr; /* valid until close */
};

#undef DAT_CONST_IN_C

/* DAT_PROVIDER_ATTR_MASK: bit i asks for member i of DAT_PROVIDER_ATTR. */
#define DAT_PROVIDER_FIELD_PROVIDER_NAME		  UINT64_C(0x0000001)
#define DAT_PROVIDER_FIELD_PROVIDER_VERSION_MAJOR	  UINT64_C(0x0000002)
#define DAT_PROVIDER_FIELD_PROVIDER_VERSION_MINOR	  UINT64_C(0x0000004)
#define DAT_PROVIDER_FIELD_DAPL_VERSION_MAJOR		  UINT64_C(0x0000008)
#define DAT_PROVIDER_FIELD_DAPL_VERSION_MINOR		  UINT64_C(0x0000010)
#define DAT_PROVIDER_FIELD_LMR_MEM_TYPE_SUPPORTED	  UINT64_C(0x0000020)
#define DAT_PROVIDER_FIELD_IOV_OWNERSHIP		  UINT64_C(0x0000040)
#define DAT_PROVIDER_FIELD_DAT_QOS_SUPPORTED		  UINT64_C(0x0000080)
#define DAT_PROVIDER_FIELD_COMPLETION_FLAGS_SUPPORTED	  UINT64_C(0x0000100)
#define DAT_PROVIDER_FIELD_IS_THREAD_SAFE		  UINT64_C(0x0000200)
#define DAT_PROVIDER_FIELD_MAX_PRIVATE_DATA_SIZE	  UINT64_C(0x0000400)
#define DAT_PROVIDER_FIELD_SUPPORTS_MULTIPATH		  UINT64_C(0x0000800)
#define DAT_PROVIDER_FIELD_EP_CREATOR			  UINT64_C(0x0001000)
#define DAT_PROVIDER_FIELD_PZ_SUPPORT			  UINT64_C(0x0002000)
#define DAT_PROVIDER_FIELD_OPTIMAL_BUFFER_ALIGNMENT	  UINT64_C(0x0004000)
#define DAT_PROVIDER_FIELD_EVD_STREAM_MERGING_SUPPORTED	  UINT64_C(0x0008000)
#define DAT_PROVIDER_FIELD_SRQ_SUPPORTED		  UINT64_C(0x0010000)
#define DAT_PROVIDER_FIELD_SRQ_WATERMARKS_SUPPORTED	  UINT64_C(0x0020000)
#define DAT_PROVIDER_FIELD_SRQ_EP_PZ_DIFFERENCE_SUPPORTED UINT64_C(0x0040000)
#define DAT_PROVIDER_FIELD_SRQ_INFO_SUPPORTED		  UINT64_C(0x0080000)
#define DAT_PROVIDER_FIELD_EP_RECV_INFO_SUPPORTED	  UINT64_C(0x0100000)
#define DAT_PROVIDER_FIELD_LMR_SYNC_REQ			  UINT64_C(0x0200000)
#define DAT_PROVIDER_FIELD_DTO_ASYNC_RETURN_GUARANTEED	  UINT64_C(0x0400000)
#define DAT_PROVIDER_FIELD_RDMA_WRITE_FOR_RDMA_READ_REQ	  UINT64_C(0x0800000)
#define DAT_PROVIDER_FIELD_NUM_PROVIDER_SPECIFIC_ATTR	  UINT64_C(0x1000000)
#define DAT_PROVIDER_FIELD_PROVIDER_SPECIFIC_ATTR	  UINT64_C(0x2000000)
#define DAT_PROVIDER_FIELD_ALL				  UINT64_C(0x3ffffff)
#define DAT_PROVIDER_FIELD_NONE				  UINT64_C(0x0000000)

/* LOCAL MEMORY REGION: the other calls are in dat.h */

/*
 * dat_lmr_create registers memory, so that endpoints of the same zone can move its bytes: this
 * process names them by *lmr_context, a peer by *rmr_context, which is 0 unless priv has remote
 * read or remote write. length in bytes; it is not looked at for DAT_MEM_TYPE_LMR. The memory must
 * stay mapped while it is registered; the provider pins it. *registered_size and
 * *registered_address say what the adapter can reach. All outputs but lmr may be null.
 *
 * SHARED_VIRTUAL: the whole range is mapped shared, and equal cookies name equal objects, offsets
 * and lengths. LMR: the range of the source, with a zone and privileges of its own; either may be
 * freed first.
 *
 * Blocks for the kernel's work. Safe.
 * DAT_INVALID_HANDLE, IA, PZ, or LMR for the source region
 * DAT_INVALID_PARAMETER, ARG2: unknown type; ARG3: an address or the cookie is null, or
 *	nothing is mapped there; ARG4: length is 0, too large, or runs over the end of memory;
 *	ARG6: privileges beyond DAT_MEM_PRIV_ALL_FLAG; ARG7: lmr is null
 * DAT_INVALID_STATE: memory that is not shared, or a cookie that names other memory
 * DAT_INVALID_STATE, LMR_FREE: the source is just being freed
 * DAT_PRIVILEGES_VIOLATION, WRITE: write asked on memory mapped read-only
 * DAT_INSUFFICIENT_RESOURCES, MEMORY_REGION: the device has no more, or the limit of locked
 *	memory is reached
 * DAT_MODEL_NOT_SUPPORTED: the provider does not have this type; ours has all
 * Source: dat_lmr_create(3DAT); that remote read alone makes an rmr_context is our choice.
 */
DAT_RETURN dat_lmr_create(DAT_IA_HANDLE ia, DAT_MEM_TYPE mem_type, DAT_REGION_DESCRIPTION region,
			  DAT_VLEN length, DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS priv,
			  DAT_LMR_HANDLE *lmr, DAT_LMR_CONTEXT *lmr_context,
			  DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_size,
			  DAT_VADDR *registered_address);

/* EVENT DISPATCHER: the other calls are in dat.h */

/*
 * dat_evd_create makes an empty queue for evd_qlen events or more, enabled and waitable. flags is
 * the union of the streams that will feed it. cno may be DAT_HANDLE_NULL.
 *
 * Safe.
 * DAT_INVALID_HANDLE, IA or CNO
 * DAT_INVALID_PARAMETER, ARG2: evd_qlen is not above 0; ARG4: no stream, an unknown one, or
 *	two that evd_stream_merging_supported keeps apart; ARG5: evd is null
 * DAT_INSUFFICIENT_RESOURCES, TEVD: evd_qlen is above max_evd_qlen, or the device has no
 *	more queues
 * Source: uDAPL 1.2; the manual pages have none for it, so its errors are our choice.
 */
DAT_RETURN dat_evd_create(DAT_IA_HANDLE ia, DAT_COUNT evd_qlen, DAT_CNO_HANDLE cno,
			  DAT_EVD_FLAGS flags, DAT_EVD_HANDLE *evd);

/*
 * dat_evd_modify_cno gives an EVD another CNO, or with DAT_HANDLE_NULL none. Wake-ups under way
 * still reach the old one. If notifying events are queued and nobody waits, the new one is
 * triggered once.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, HANDLE1: not a live EVD; CNO: not a live CNO
 * Source: dat_evd_modify_cno(3DAT); the trigger is our choice.
 */
DAT_RETURN dat_evd_modify_cno(DAT_EVD_HANDLE evd, DAT_CNO_HANDLE cno);

/*
 * dat_evd_enable lets an EVD trigger its CNO, at once if notifying events are queued. Twice is as
 * good as once.
 *
 * Safe.
 * DAT_INVALID_HANDLE, HANDLE1: not a live EVD
 * Source: dat_evd_enable(3DAT)
 */
DAT_RETURN dat_evd_enable(DAT_EVD_HANDLE evd);

/*
 * dat_evd_disable keeps an EVD from triggering its CNO; waiting on it and dequeuing go on as
 * before. A wake-up under way may still be seen after the return.
 *
 * Safe.
 * DAT_INVALID_HANDLE, HANDLE1: not a live EVD
 * Source: dat_evd_disable(3DAT)
 */
DAT_RETURN dat_evd_disable(DAT_EVD_HANDLE evd);

/*
 * dat_evd_wait takes the first event once threshold events are queued, threshold being 1 to
 * evd_qlen, and puts the number left into *nmore. timeout in microseconds. Meanwhile no other wait
 * or dequeue is let in, and the CNO is not triggered. On a notify or solicited EVD threshold is 1,
 * and events that do not notify do not end the sleep; they do count.
 *
 * Blocks until then. Safe.
 * DAT_TIMEOUT_EXPIRED: nothing was taken, *nmore tells how many are queued
 * DAT_INTERRUPTED_CALL: a signal handler ran; otherwise as the time-out
 * DAT_ABORT: the IA was closed abruptly
 * DAT_INVALID_PARAMETER, ARG3: threshold; ARG4: event is null; ARG5: nmore is null
 * DAT_INVALID_STATE, EVD_WAITER: somebody waits already; EVD_UNWAITABLE: it is, or just
 *	became so
 * DAT_INVALID_STATE, EVD_CONFIG_NOTIFY, EVD_CONFIG_SOLICITED: threshold is above 1 on such
 *	an EVD
 * Source: dat_evd_wait(3DAT)
 */
DAT_RETURN dat_evd_wait(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout, DAT_COUNT threshold,
			DAT_EVENT *event, DAT_COUNT *nmore);

/*
 * dat_evd_set_unwaitable keeps threads from waiting on an EVD; one that does returns at once, and
 * takes no event. Events arrive and are dequeued as before, and may fill the queue.
 *
 * Safe.
 * DAT_INVALID_HANDLE, HANDLE1: not a live EVD
 * Source: dat_evd_set_unwaitable(3DAT)
 */
DAT_RETURN dat_evd_set_unwaitable(DAT_EVD_HANDLE evd);

/*
 * dat_evd_clear_unwaitable lets threads wait on an EVD again.
 *
 * Safe.
 * DAT_INVALID_HANDLE, HANDLE1: not a live EVD
 * Source: dat_evd_clear_unwaitable(3DAT)
 */
DAT_RETURN dat_evd_clear_unwaitable(DAT_EVD_HANDLE evd);

/*
 * CONSUMER NOTIFICATION OBJECT: a latch that notifying events of enabled EVDs trigger, and not a
 * queue. However many come before somebody looks, it is one notification, after which all EVDs of
 * the CNO must be drained.
 */

/*
 * dat_cno_create makes a CNO without EVDs. agent is called besides waiters, once for each time that
 * it is set, see dat_cno_modify_agent; DAT_OS_WAIT_PROXY_AGENT_NULL is none.
 *
 * Safe.
 * DAT_INVALID_PARAMETER, ARG3: cno is null
 * Source: dat_cno_create(3DAT)
 */
DAT_RETURN dat_cno_create(DAT_IA_HANDLE ia, DAT_OS_WAIT_PROXY_AGENT agent, DAT_CNO_HANDLE *cno);

/*
 * dat_cno_modify_agent sets or removes the agent. An agent is detached before it is called, and
 * sets itself again if it wants more, from inside too. It is not called for a trigger that came
 * before: look at the EVDs after setting it.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, CNO: not a live CNO
 * Source: dat_cno_modify_agent(3DAT); one call for each setting is our choice.
 */
DAT_RETURN dat_cno_modify_agent(DAT_CNO_HANDLE cno, DAT_OS_WAIT_PROXY_AGENT agent);

/*
 * dat_cno_query tells a CNO's IA and agent.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG2: unknown bits in mask; ARG3: param is null
 * Source: dat_cno_query(3DAT)
 */
DAT_RETURN dat_cno_query(DAT_CNO_HANDLE cno, DAT_CNO_PARAM_MASK mask, DAT_CNO_PARAM *param);

/*
 * dat_cno_free destroys a CNO that nothing uses.
 *
 * Unsafe.
 * DAT_INVALID_STATE, CNO_IN_USE: an EVD refers to it, or a thread waits on it
 * Source: dat_cno_free(3DAT)
 */
DAT_RETURN dat_cno_free(DAT_CNO_HANDLE cno);

/*
 * dat_cno_wait waits for the trigger, takes it back, and returns the EVD that was the first to pull
 * it: a hint, others may have events too and its own may be gone. timeout in microseconds. Several
 * threads may wait, each trigger lets one go. DAT_HANDLE_NULL and success mean that the IA was
 * closed abruptly or the last EVD freed.
 *
 * Blocks until then. Safe.
 * DAT_QUEUE_EMPTY: the time-out passed; *evd is DAT_HANDLE_NULL. Returned without a class,
 *	as 0x000d0000
 * DAT_INTERRUPTED_CALL: a signal handler ran
 * DAT_INVALID_PARAMETER, ARG3: evd is null
 * Source: dat_cno_wait(3DAT); without a class is our choice, as programs compare the whole
 *	word.
 */
DAT_RETURN dat_cno_wait(DAT_CNO_HANDLE cno, DAT_TIMEOUT timeout, DAT_EVD_HANDLE *evd);

#ifdef __cplusplus
}
#endif

#endif
