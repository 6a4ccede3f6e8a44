/* SPDX-License-Identifier: BSD-2-Clause */
/* uDAPL 1.2: what DAT defines for user space; the one header a consumer includes. */
#ifndef _UDAT_H_
#define _UDAT_H_

#include <dat/udat_config.h>
#include <dat/dat_platform_specific.h>
#include <dat/dat.h>
#include <dat/udat_vendor_specific.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum dat_mem_type {
	DAT_MEM_TYPE_VIRTUAL = 0,
	DAT_MEM_TYPE_LMR = 0x1,
	DAT_MEM_TYPE_SHARED_VIRTUAL = 0x2,
	DAT_MEM_TYPE_SO_VIRTUAL = 0x3
} DAT_MEM_TYPE;

typedef DAT_HANDLE DAT_CNO_HANDLE;

typedef enum dat_evd_state {
	DAT_EVD_STATE_ENABLED = 0x1,
	DAT_EVD_STATE_DISABLED = 0x2,
	DAT_EVD_STATE_WAITABLE = 0x4,
	DAT_EVD_STATE_UNWAITABLE = 0x8,
	DAT_EVD_STATE_CONFIG_NOTIFY = 0x10,
	DAT_EVD_STATE_CONFIG_SOLICITED = 0x20,
	DAT_EVD_STATE_CONFIG_THRESHOLD = 0x30
} DAT_EVD_STATE;

struct dat_evd_param {
	DAT_IA_HANDLE ia_handle;
	DAT_COUNT evd_qlen;
	DAT_EVD_STATE evd_state;
	DAT_CNO_HANDLE cno_handle;
	DAT_EVD_FLAGS evd_flags;
};

#define DAT_LMR_COOKIE_SIZE	40

typedef char (*DAT_LMR_COOKIE)[DAT_LMR_COOKIE_SIZE];

typedef struct dat_shared_memory {
	DAT_PVOID virtual_address;
	DAT_LMR_COOKIE shared_memory_id;
} DAT_SHARED_MEMORY;

typedef union dat_region_description {
	DAT_PVOID for_va;
	DAT_LMR_HANDLE for_lmr_handle;
	DAT_SHARED_MEMORY for_shared_memory;
} DAT_REGION_DESCRIPTION;

struct dat_lmr_param {
	DAT_IA_HANDLE ia_handle;
	DAT_MEM_TYPE mem_type;
	DAT_REGION_DESCRIPTION region_desc;
	DAT_VLEN length;
	DAT_PZ_HANDLE pz_handle;
	DAT_MEM_PRIV_FLAGS mem_priv;
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
	DAT_VLEN registered_size;
	DAT_VADDR registered_address;
};

typedef void (*DAT_AGENT_FUNC)(DAT_PVOID, DAT_EVD_HANDLE);

typedef struct dat_os_wait_proxy_agent {
	DAT_PVOID instance_data;
	DAT_AGENT_FUNC proxy_agent_func;
} DAT_OS_WAIT_PROXY_AGENT;

#ifdef __cplusplus
#define DAT_OS_WAIT_PROXY_AGENT_NULL	(DAT_OS_WAIT_PROXY_AGENT{ NULL, NULL })
#else
#define DAT_OS_WAIT_PROXY_AGENT_NULL	((DAT_OS_WAIT_PROXY_AGENT){ NULL, NULL })
#endif

typedef struct dat_cno_param {
	DAT_IA_HANDLE ia_handle;
	DAT_OS_WAIT_PROXY_AGENT agent;
} DAT_CNO_PARAM;

typedef enum dat_cno_param_mask {
	DAT_CNO_FIELD_IA_HANDLE = 0x1,
	DAT_CNO_FIELD_AGENT = 0x2,
	DAT_CNO_FIELD_ALL = 0x3
} DAT_CNO_PARAM_MASK;

#define DAT_EVD_ASYNC_EXISTS	((DAT_EVD_HANDLE)0x1UL)
#define DAT_EVD_OUT_OF_SCOPE	((DAT_EVD_HANDLE)0x2UL)

typedef enum dat_pz_support {
	DAT_PZ_UNIQUE = 0,
	DAT_PZ_SHAREABLE = 1
} DAT_PZ_SUPPORT;

/* A C++ object with a const member cannot be declared without an initialiser, so only C sees the const. */
#ifdef __cplusplus
#define DAT_CONST_IN_C
#else
#define DAT_CONST_IN_C	const
#endif

struct dat_provider_attr {
	char provider_name[DAT_NAME_MAX_LENGTH];
	DAT_UINT32 provider_version_major;
	DAT_UINT32 provider_version_minor;
	DAT_UINT32 dapl_version_major;
	DAT_UINT32 dapl_version_minor;
	DAT_MEM_TYPE lmr_mem_types_supported;
	DAT_IOV_OWNERSHIP iov_ownership_on_return;
	DAT_QOS dat_qos_supported;
	DAT_COMPLETION_FLAGS completion_flags_supported;
	DAT_BOOLEAN is_thread_safe;
	DAT_COUNT max_private_data_size;
	DAT_BOOLEAN supports_multipath;
	DAT_EP_CREATOR_FOR_PSP ep_creator;
	DAT_PZ_SUPPORT pz_support;
	DAT_UINT32 optimal_buffer_alignment;
	DAT_CONST_IN_C DAT_BOOLEAN evd_stream_merging_supported[6][6];
	DAT_BOOLEAN srq_supported;
	DAT_COUNT srq_watermarks_supported;
	DAT_BOOLEAN srq_ep_pz_difference_supported;
	DAT_COUNT srq_info_supported;
	DAT_COUNT ep_recv_info_supported;
	DAT_BOOLEAN lmr_sync_req;
	DAT_BOOLEAN dto_async_return_guaranteed;
	DAT_BOOLEAN rdma_write_for_rdma_read_req;
	DAT_COUNT num_provider_specific_attr;
	DAT_NAMED_ATTR *provider_specific_attr;
};

#undef DAT_CONST_IN_C

#define DAT_PROVIDER_FIELD_PROVIDER_NAME	UINT64_C(1)
#define DAT_PROVIDER_FIELD_PROVIDER_VERSION_MAJOR	UINT64_C(2)
#define DAT_PROVIDER_FIELD_PROVIDER_VERSION_MINOR	UINT64_C(4)
#define DAT_PROVIDER_FIELD_DAPL_VERSION_MAJOR	UINT64_C(8)
#define DAT_PROVIDER_FIELD_DAPL_VERSION_MINOR	UINT64_C(0x10)
#define DAT_PROVIDER_FIELD_LMR_MEM_TYPE_SUPPORTED	UINT64_C(0x20)
#define DAT_PROVIDER_FIELD_IOV_OWNERSHIP	UINT64_C(0x40)
#define DAT_PROVIDER_FIELD_DAT_QOS_SUPPORTED	UINT64_C(0x80)
#define DAT_PROVIDER_FIELD_COMPLETION_FLAGS_SUPPORTED	UINT64_C(0x100)
#define DAT_PROVIDER_FIELD_IS_THREAD_SAFE	UINT64_C(0x200)
#define DAT_PROVIDER_FIELD_MAX_PRIVATE_DATA_SIZE	UINT64_C(0x400)
#define DAT_PROVIDER_FIELD_SUPPORTS_MULTIPATH	UINT64_C(0x800)
#define DAT_PROVIDER_FIELD_EP_CREATOR	UINT64_C(0x1000)
#define DAT_PROVIDER_FIELD_PZ_SUPPORT	UINT64_C(0x2000)
#define DAT_PROVIDER_FIELD_OPTIMAL_BUFFER_ALIGNMENT	UINT64_C(0x4000)
#define DAT_PROVIDER_FIELD_EVD_STREAM_MERGING_SUPPORTED	UINT64_C(0x8000)
#define DAT_PROVIDER_FIELD_SRQ_SUPPORTED	UINT64_C(0x10000)
#define DAT_PROVIDER_FIELD_SRQ_WATERMARKS_SUPPORTED	UINT64_C(0x20000)
#define DAT_PROVIDER_FIELD_SRQ_EP_PZ_DIFFERENCE_SUPPORTED	UINT64_C(0x40000)
#define DAT_PROVIDER_FIELD_SRQ_INFO_SUPPORTED	UINT64_C(0x80000)
#define DAT_PROVIDER_FIELD_EP_RECV_INFO_SUPPORTED	UINT64_C(0x100000)
#define DAT_PROVIDER_FIELD_LMR_SYNC_REQ	UINT64_C(0x200000)
#define DAT_PROVIDER_FIELD_DTO_ASYNC_RETURN_GUARANTEED	UINT64_C(0x400000)
#define DAT_PROVIDER_FIELD_RDMA_WRITE_FOR_RDMA_READ_REQ	UINT64_C(0x800000)
#define DAT_PROVIDER_FIELD_NUM_PROVIDER_SPECIFIC_ATTR	UINT64_C(0x1000000)
#define DAT_PROVIDER_FIELD_PROVIDER_SPECIFIC_ATTR	UINT64_C(0x2000000)
#define DAT_PROVIDER_FIELD_ALL	UINT64_C(0x3ffffff)
#define DAT_PROVIDER_FIELD_NONE	UINT64_C(0)

DAT_RETURN dat_lmr_create(DAT_IA_HANDLE, DAT_MEM_TYPE, DAT_REGION_DESCRIPTION, DAT_VLEN, DAT_PZ_HANDLE,
		DAT_MEM_PRIV_FLAGS, DAT_LMR_HANDLE *, DAT_LMR_CONTEXT *, DAT_RMR_CONTEXT *, DAT_VLEN *, DAT_VADDR *);
DAT_RETURN dat_evd_create(DAT_IA_HANDLE, DAT_COUNT, DAT_CNO_HANDLE, DAT_EVD_FLAGS, DAT_EVD_HANDLE *);
DAT_RETURN dat_evd_modify_cno(DAT_EVD_HANDLE, DAT_CNO_HANDLE);
DAT_RETURN dat_cno_create(DAT_IA_HANDLE, DAT_OS_WAIT_PROXY_AGENT, DAT_CNO_HANDLE *);
DAT_RETURN dat_cno_modify_agent(DAT_CNO_HANDLE, DAT_OS_WAIT_PROXY_AGENT);
DAT_RETURN dat_cno_query(DAT_CNO_HANDLE, DAT_CNO_PARAM_MASK, DAT_CNO_PARAM *);
DAT_RETURN dat_cno_free(DAT_CNO_HANDLE);
DAT_RETURN dat_cno_wait(DAT_CNO_HANDLE, DAT_TIMEOUT, DAT_EVD_HANDLE *);
DAT_RETURN dat_evd_enable(DAT_EVD_HANDLE);
DAT_RETURN dat_evd_wait(DAT_EVD_HANDLE, DAT_TIMEOUT, DAT_COUNT, DAT_EVENT *, DAT_COUNT *);
DAT_RETURN dat_evd_disable(DAT_EVD_HANDLE);
DAT_RETURN dat_evd_set_unwaitable(DAT_EVD_HANDLE);
DAT_RETURN dat_evd_clear_unwaitable(DAT_EVD_HANDLE);

#ifdef __cplusplus
}
#endif

#endif
