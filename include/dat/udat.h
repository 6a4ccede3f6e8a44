/* SPDX-License-Identifier: BSD-2-Clause */
/* uDAPL 1.2, what DAT defines for user space: the one header that a consumer includes. */
#if defined(_UDAT_H_) && _UDAT_H_ + 0 == 2
#error "A program includes the headers of either dat/ or dat2/: their names are the same."
#endif
#ifndef _UDAT_H_
#define _UDAT_H_

#include <dat/udat_config.h>
#include <dat/dat_platform_specific.h>
#include <dat/dat.h>
#include <dat/udat_vendor_specific.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kinds of memory of a region. dat.h has the conventions of the comments on calls. */
typedef enum dat_mem_type {
	DAT_MEM_TYPE_VIRTUAL = 0x0, /* memory of this process */
	DAT_MEM_TYPE_LMR = 0x1,	    /* the range of another region */
	/* memory shared with other processes, identified by a cookie */
	DAT_MEM_TYPE_SHARED_VIRTUAL = 0x2,
	/*
	 * A Solaris addition: as VIRTUAL, but RDMA writes always fill it in order, see
	 * udat_vendor_specific.h. In a union of types it is indistinguishable from LMR with
	 * SHARED_VIRTUAL. OFED's providers do not support it.
	 */
	DAT_MEM_TYPE_SO_VIRTUAL = 0x3
} DAT_MEM_TYPE;

typedef DAT_HANDLE DAT_CNO_HANDLE; /* consumer notification object */

/* The state of an EVD: the union of one value from each of the three groups. */
typedef enum dat_evd_state {
	/* whether it triggers its CNO */
	DAT_EVD_STATE_ENABLED = 0x01,
	DAT_EVD_STATE_DISABLED = 0x02,

	/* whether threads may wait on it */
	DAT_EVD_STATE_WAITABLE = 0x04,
	DAT_EVD_STATE_UNWAITABLE = 0x08,

	/*
	 * The events that end a wait. The completion flags of the endpoints determine it: NOTIFY or
	 * SOLICITED as long as all that are attached ask for that, otherwise THRESHOLD. THRESHOLD
	 * is a value of its own, although its bits are those of NOTIFY and SOLICITED.
	 */
	DAT_EVD_STATE_CONFIG_NOTIFY = 0x10,    /* an event that notifies: UNSIGNALLED */
	DAT_EVD_STATE_CONFIG_SOLICITED = 0x20, /* a receive that the peer marked: SOLICITED_WAIT */
	/* enough events of any kind: DEFAULT and EVD_THRESHOLD */
	DAT_EVD_STATE_CONFIG_THRESHOLD = 0x30
} DAT_EVD_STATE;

struct dat_evd_param {
	DAT_IA_HANDLE ia_handle;
	DAT_COUNT evd_qlen; /* events, possibly more than requested */
	DAT_EVD_STATE evd_state;
	DAT_CNO_HANDLE cno_handle;
	DAT_EVD_FLAGS evd_flags;
};

#define DAT_LMR_COOKIE_SIZE 40 /* bytes, all significant: it is not a string */

/*
 * The name by which processes identify memory that they share. A pointer; the provider copies what
 * it points to.
 */
typedef char (*DAT_LMR_COOKIE)[DAT_LMR_COOKIE_SIZE];

typedef struct dat_shared_memory {
	DAT_PVOID virtual_address; /* its address in this process */
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
	DAT_MEM_PRIV_FLAGS mem_priv; /* as requested, without what the device adds */
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
	DAT_VLEN registered_size;     /* bytes that the contexts give access to */
	DAT_VADDR registered_address; /* their start */
};

/*
 * Called with its instance data and the EVD that triggered the CNO last, of those that the CNO
 * still has, on a thread of the provider, which does nothing else meanwhile. It must not block or
 * free DAT objects. DAT_HANDLE_NULL: the IA was closed, or the last EVD of the CNO was freed.
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
	DAT_OS_WAIT_PROXY_AGENT agent; /* null after it was called */
} DAT_CNO_PARAM;

typedef enum dat_cno_param_mask {
	DAT_CNO_FIELD_IA_HANDLE = 0x1,
	DAT_CNO_FIELD_AGENT = 0x2,
	DAT_CNO_FIELD_ALL = 0x3
} DAT_CNO_PARAM_MASK;

/*
 * For *async_evd of dat_ia_open: asynchronous events are handled elsewhere on this host, create no
 * EVD.
 */
#define DAT_EVD_ASYNC_EXISTS ((DAT_EVD_HANDLE)0x1UL)
/* Returned in place of an EVD by an instance that has none for asynchronous events. */
#define DAT_EVD_OUT_OF_SCOPE ((DAT_EVD_HANDLE)0x2UL)

/*
 * Whether a protection zone belongs to one IA instance. These are OFED's values: Solaris has
 * DAT_PZ_SAME as 1 and SHAREABLE as 2, so DAT_PZ_SAME is left out here.
 */
typedef enum dat_pz_support {
	DAT_PZ_UNIQUE = 0, /* ours */
	DAT_PZ_SHAREABLE = 1
} DAT_PZ_SUPPORT;

/* const in C only, because a C++ object with a const member needs an initialiser. */
#ifdef __cplusplus
#define DAT_CONST_IN_C
#else
#define DAT_CONST_IN_C const
#endif

/* The capabilities of the provider, and the properties of this instance. */
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
	/* that of the registry entry that was opened */
	DAT_BOOLEAN is_thread_safe;
	/* bytes that dat_ep_connect carries; dat_cr_accept may carry more */
	DAT_COUNT max_private_data_size;
	DAT_BOOLEAN supports_multipath;
	DAT_EP_CREATOR_FOR_PSP ep_creator;
	DAT_PZ_SUPPORT pz_support;
	DAT_UINT32 optimal_buffer_alignment; /* bytes; divides DAT_OPTIMAL_ALIGNMENT */
	/*
	 * Whether two streams may share an EVD. Both indices: software, CR, DTO, connection, RMR
	 * bind, asynchronous.
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
	/* dat_lmr_sync_rdma_read and dat_lmr_sync_rdma_write must be called */
	DAT_BOOLEAN lmr_sync_req;
	/* errors of protection are reported by completions, never by the post */
	DAT_BOOLEAN dto_async_return_guaranteed;
	/* the local memory of an RDMA read needs remote write: iWARP */
	DAT_BOOLEAN rdma_write_for_rdma_read_req;
	DAT_COUNT num_provider_specific_attr;
	DAT_NAMED_ATTR *provider_specific_attr; /* valid until close */
};

#undef DAT_CONST_IN_C

/* DAT_PROVIDER_ATTR_MASK: bit i selects member i of DAT_PROVIDER_ATTR. */
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

/* LOCAL MEMORY REGION (LMR): the other calls are in dat.h */

/*
 * dat_lmr_create registers memory, so that endpoints of the same zone can transfer its bytes. This
 * process identifies it by *lmr_context, a peer by *rmr_context, which is 0 unless priv has remote
 * read or remote write. length is in bytes; it is ignored for DAT_MEM_TYPE_LMR. The memory must
 * stay mapped while it is registered; the provider pins it. *registered_size and
 * *registered_address are the range that the adapter can access. All outputs except lmr may be
 * null.
 *
 * SHARED_VIRTUAL: the whole range must be a shared mapping, and equal cookies must stand for the
 * same object, offset and length. LMR: the range of the source, with its own zone and privileges;
 * either region may be freed first.
 *
 * Blocks for the kernel's work. Safe.
 * DAT_INVALID_HANDLE, IA, PZ, or LMR for the source region
 * DAT_INVALID_PARAMETER, ARG2: unknown type; ARG3: the address or the cookie is null, or the range
 *	is not mapped; ARG4: length is 0, too large, or exceeds the address space; ARG7: lmr is
 *	null
 * DAT_INVALID_STATE: memory that is not shared, or a cookie that is in use for other memory
 * DAT_INVALID_STATE, LMR_FREE: the source is being freed
 * DAT_PRIVILEGES_VIOLATION, WRITE: a write privilege for memory that is mapped read-only
 * DAT_INSUFFICIENT_RESOURCES, MEMORY_REGION: the device has no more, or the limit of locked memory
 *	is reached
 * DAT_MODEL_NOT_SUPPORTED: the provider does not support the type; ours supports all
 * Source: dat_lmr_create(3DAT); that remote read alone makes an rmr_context is our choice.
 */
DAT_RETURN dat_lmr_create(DAT_IA_HANDLE ia, DAT_MEM_TYPE mem_type, DAT_REGION_DESCRIPTION region,
			  DAT_VLEN length, DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS priv,
			  DAT_LMR_HANDLE *lmr, DAT_LMR_CONTEXT *lmr_context,
			  DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_size,
			  DAT_VADDR *registered_address);

/* EVENT DISPATCHER (EVD): the other calls are in dat.h */

/*
 * dat_evd_create creates an empty queue for evd_qlen events or more, enabled and waitable. flags
 * is the union of its streams. cno may be DAT_HANDLE_NULL.
 *
 * Safe.
 * DAT_INVALID_HANDLE, IA or CNO
 * DAT_INVALID_PARAMETER, ARG2: evd_qlen is 0 or less; ARG4: no stream, or two that
 *	evd_stream_merging_supported excludes; ARG5: evd is null
 * DAT_INSUFFICIENT_RESOURCES, TEVD: evd_qlen is above max_evd_qlen, the device has no more queues,
 *	or the process no file descriptor for one
 * Source: uDAPL 1.2; there is no manual page for it, so its errors are our choice.
 */
DAT_RETURN dat_evd_create(DAT_IA_HANDLE ia, DAT_COUNT evd_qlen, DAT_CNO_HANDLE cno,
			  DAT_EVD_FLAGS flags, DAT_EVD_HANDLE *evd);

/*
 * dat_evd_modify_cno replaces the CNO of an EVD; DAT_HANDLE_NULL removes it. A trigger in progress
 * may still reach the previous CNO. If notifying events are queued and no thread waits, the new
 * CNO is triggered once.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, HANDLE1: not a live EVD; CNO: not a live CNO
 * Source: dat_evd_modify_cno(3DAT); the trigger is our choice.
 */
DAT_RETURN dat_evd_modify_cno(DAT_EVD_HANDLE evd, DAT_CNO_HANDLE cno);

/*
 * dat_evd_enable lets an EVD trigger its CNO, at once if notifying events are queued. It has no
 * effect on an EVD that is enabled.
 *
 * Safe.
 * DAT_INVALID_HANDLE, HANDLE1: not a live EVD
 * Source: dat_evd_enable(3DAT)
 */
DAT_RETURN dat_evd_enable(DAT_EVD_HANDLE evd);

/*
 * dat_evd_disable keeps an EVD from triggering its CNO; waiting and dequeuing are unaffected. A
 * trigger in progress may still take effect after the return.
 *
 * Safe.
 * DAT_INVALID_HANDLE, HANDLE1: not a live EVD
 * Source: dat_evd_disable(3DAT)
 */
DAT_RETURN dat_evd_disable(DAT_EVD_HANDLE evd);

/*
 * dat_evd_wait waits until threshold events are queued, dequeues the first, and returns the number
 * left in *nmore. threshold is 1 to evd_qlen; timeout is in microseconds. During the wait no other
 * wait and no dequeue is allowed on the EVD, and the CNO is not triggered. On an EVD configured as
 * notify or solicited threshold must be 1, and events that do not notify do not end the wait,
 * although they are counted.
 *
 * Blocks until then; a thread can be cancelled while it sleeps. Safe.
 * DAT_TIMEOUT_EXPIRED: no event was dequeued; *nmore is the number queued
 * DAT_INTERRUPTED_CALL: a signal handler ran; otherwise as the time-out
 * DAT_ABORT: the IA was closed abruptly, or the EVD freed; *nmore is the number queued
 * DAT_INSUFFICIENT_RESOURCES, TEVD: the process has no file descriptor for a thread that sleeps
 * DAT_INVALID_PARAMETER, ARG3: threshold; ARG4: event is null; ARG5: nmore is null
 * DAT_INVALID_STATE, EVD_WAITER: a thread waits already; EVD_UNWAITABLE: it is unwaitable, or
 *	became so during the wait
 * DAT_INVALID_STATE, EVD_CONFIG_NOTIFY, EVD_CONFIG_SOLICITED: threshold is above 1 on an EVD
 *	configured so
 * Source: dat_evd_wait(3DAT)
 */
DAT_RETURN dat_evd_wait(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout, DAT_COUNT threshold,
			DAT_EVENT *event, DAT_COUNT *nmore);

/*
 * dat_evd_set_unwaitable keeps threads from waiting on an EVD; a thread that waits returns at
 * once, without an event. Events are queued and dequeued as before, and may fill the queue.
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
 * CONSUMER NOTIFICATION OBJECT (CNO): a latch that notifying events of enabled EVDs trigger. It
 * does not count: all triggers before a wait are one notification, after which all EVDs of the CNO
 * must be drained.
 */

/*
 * dat_cno_create creates a CNO without EVDs. agent is called in addition to waking up a waiter,
 * once for each time that it is set, see dat_cno_modify_agent. DAT_OS_WAIT_PROXY_AGENT_NULL means
 * no agent.
 *
 * Safe.
 * DAT_INVALID_PARAMETER, ARG3: cno is null
 * Source: dat_cno_create(3DAT)
 */
DAT_RETURN dat_cno_create(DAT_IA_HANDLE ia, DAT_OS_WAIT_PROXY_AGENT agent, DAT_CNO_HANDLE *cno);

/*
 * dat_cno_modify_agent sets or removes the agent. An agent is removed before it is called; it may
 * set itself again, also while it runs. It is not called for a trigger that occurred before it was
 * set, so look at the EVDs after setting it.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, CNO: not a live CNO
 * Source: dat_cno_modify_agent(3DAT); one call for each setting is our choice.
 */
DAT_RETURN dat_cno_modify_agent(DAT_CNO_HANDLE cno, DAT_OS_WAIT_PROXY_AGENT agent);

/*
 * dat_cno_query returns the IA and the agent of a CNO.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG3: param is null
 * Source: dat_cno_query(3DAT)
 */
DAT_RETURN dat_cno_query(DAT_CNO_HANDLE cno, DAT_CNO_PARAM_MASK mask, DAT_CNO_PARAM *param);

/*
 * dat_cno_free destroys a CNO that is not in use.
 *
 * Blocks while its agent runs, unless the agent calls it. Unsafe.
 * DAT_INVALID_STATE, CNO_IN_USE: an EVD refers to it, or a thread waits on it
 * Source: dat_cno_free(3DAT)
 */
DAT_RETURN dat_cno_free(DAT_CNO_HANDLE cno);

/*
 * dat_cno_wait waits for the trigger, resets it, and returns the EVD that was the first to set it.
 * The EVD is a hint: others may have events as well, and its own may have been dequeued. timeout
 * is in microseconds. Several threads may wait; each trigger wakes up one. Success with
 * DAT_HANDLE_NULL means that the IA was closed abruptly or the last EVD freed.
 *
 * Blocks until then. Safe.
 * DAT_QUEUE_EMPTY: the time-out expired; *evd is DAT_HANDLE_NULL. Returned without a class, as
 *	0x000d0000
 * DAT_INTERRUPTED_CALL: a signal handler ran
 * DAT_INSUFFICIENT_RESOURCES, MEMORY: the process has no file descriptor for a thread that sleeps
 * DAT_INVALID_PARAMETER, ARG3: evd is null
 * Source: dat_cno_wait(3DAT); the missing class is our choice, because programs compare the whole
 *	word.
 */
DAT_RETURN dat_cno_wait(DAT_CNO_HANDLE cno, DAT_TIMEOUT timeout, DAT_EVD_HANDLE *evd);

#ifdef __cplusplus
}
#endif

#endif
