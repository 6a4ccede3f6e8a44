/* SPDX-License-Identifier: BSD-2-Clause */
/* How a call reaches its provider: the type of each slot, and a macro per call that jumps through it. */
#ifndef _DAT_REDIRECTION_H_
#define _DAT_REDIRECTION_H_

#include <dat/dat.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dat_provider DAT_PROVIDER;

#define DAT_HANDLE_TO_PROVIDER(handle)	(*(DAT_PROVIDER **)(handle))

typedef DAT_RETURN (*DAT_IA_OPEN_FUNC)(const DAT_NAME_PTR, DAT_COUNT, DAT_EVD_HANDLE *, DAT_IA_HANDLE *);
typedef DAT_RETURN (*DAT_IA_OPENV_FUNC)(const DAT_NAME_PTR, DAT_COUNT, DAT_EVD_HANDLE *, DAT_IA_HANDLE *,
		DAT_UINT32, DAT_UINT32, DAT_BOOLEAN);
typedef DAT_RETURN (*DAT_IA_CLOSE_FUNC)(DAT_IA_HANDLE, DAT_CLOSE_FLAGS);
typedef DAT_RETURN (*DAT_IA_QUERY_FUNC)(DAT_IA_HANDLE, DAT_EVD_HANDLE *, DAT_IA_ATTR_MASK, DAT_IA_ATTR *,
		DAT_PROVIDER_ATTR_MASK, DAT_PROVIDER_ATTR *);
typedef DAT_RETURN (*DAT_SET_CONSUMER_CONTEXT_FUNC)(DAT_HANDLE, DAT_CONTEXT);
typedef DAT_RETURN (*DAT_GET_CONSUMER_CONTEXT_FUNC)(DAT_HANDLE, DAT_CONTEXT *);
typedef DAT_RETURN (*DAT_GET_HANDLE_TYPE_FUNC)(DAT_HANDLE, DAT_HANDLE_TYPE *);
typedef DAT_RETURN (*DAT_CR_QUERY_FUNC)(DAT_CR_HANDLE, DAT_CR_PARAM_MASK, DAT_CR_PARAM *);
typedef DAT_RETURN (*DAT_CR_ACCEPT_FUNC)(DAT_CR_HANDLE, DAT_EP_HANDLE, DAT_COUNT, const DAT_PVOID);
typedef DAT_RETURN (*DAT_CR_REJECT_FUNC)(DAT_CR_HANDLE);
typedef DAT_RETURN (*DAT_CR_HANDOFF_FUNC)(DAT_CR_HANDLE, DAT_CONN_QUAL);
typedef DAT_RETURN (*DAT_EVD_RESIZE_FUNC)(DAT_EVD_HANDLE, DAT_COUNT);
typedef DAT_RETURN (*DAT_EVD_POST_SE_FUNC)(DAT_EVD_HANDLE, const DAT_EVENT *);
typedef DAT_RETURN (*DAT_EVD_DEQUEUE_FUNC)(DAT_EVD_HANDLE, DAT_EVENT *);
typedef DAT_RETURN (*DAT_EVD_FREE_FUNC)(DAT_EVD_HANDLE);
typedef DAT_RETURN (*DAT_EVD_QUERY_FUNC)(DAT_EVD_HANDLE, DAT_EVD_PARAM_MASK, DAT_EVD_PARAM *);
typedef DAT_RETURN (*DAT_EP_CREATE_FUNC)(DAT_IA_HANDLE, DAT_PZ_HANDLE, DAT_EVD_HANDLE, DAT_EVD_HANDLE,
		DAT_EVD_HANDLE, const DAT_EP_ATTR *, DAT_EP_HANDLE *);
typedef DAT_RETURN (*DAT_EP_CREATE_WITH_SRQ_FUNC)(DAT_IA_HANDLE, DAT_PZ_HANDLE, DAT_EVD_HANDLE, DAT_EVD_HANDLE,
		DAT_EVD_HANDLE, DAT_SRQ_HANDLE, const DAT_EP_ATTR *, DAT_EP_HANDLE *);
typedef DAT_RETURN (*DAT_EP_QUERY_FUNC)(DAT_EP_HANDLE, DAT_EP_PARAM_MASK, DAT_EP_PARAM *);
typedef DAT_RETURN (*DAT_EP_MODIFY_FUNC)(DAT_EP_HANDLE, DAT_EP_PARAM_MASK, const DAT_EP_PARAM *);
typedef DAT_RETURN (*DAT_EP_CONNECT_FUNC)(DAT_EP_HANDLE, DAT_IA_ADDRESS_PTR, DAT_CONN_QUAL, DAT_TIMEOUT, DAT_COUNT,
		const DAT_PVOID, DAT_QOS, DAT_CONNECT_FLAGS);
typedef DAT_RETURN (*DAT_EP_DUP_CONNECT_FUNC)(DAT_EP_HANDLE, DAT_EP_HANDLE, DAT_TIMEOUT, DAT_COUNT, const DAT_PVOID,
		DAT_QOS);
typedef DAT_RETURN (*DAT_EP_DISCONNECT_FUNC)(DAT_EP_HANDLE, DAT_CLOSE_FLAGS);
typedef DAT_RETURN (*DAT_EP_POST_SEND_FUNC)(DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *, DAT_DTO_COOKIE,
		DAT_COMPLETION_FLAGS);
typedef DAT_RETURN (*DAT_EP_POST_RECV_FUNC)(DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *, DAT_DTO_COOKIE,
		DAT_COMPLETION_FLAGS);
typedef DAT_RETURN (*DAT_EP_POST_RDMA_READ_FUNC)(DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *, DAT_DTO_COOKIE, const
		DAT_RMR_TRIPLET *, DAT_COMPLETION_FLAGS);
typedef DAT_RETURN (*DAT_EP_POST_RDMA_WRITE_FUNC)(DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *, DAT_DTO_COOKIE, const
		DAT_RMR_TRIPLET *, DAT_COMPLETION_FLAGS);
typedef DAT_RETURN (*DAT_EP_GET_STATUS_FUNC)(DAT_EP_HANDLE, DAT_EP_STATE *, DAT_BOOLEAN *, DAT_BOOLEAN *);
typedef DAT_RETURN (*DAT_EP_FREE_FUNC)(DAT_EP_HANDLE);
typedef DAT_RETURN (*DAT_EP_RESET_FUNC)(DAT_EP_HANDLE);
typedef DAT_RETURN (*DAT_EP_RECV_QUERY_FUNC)(DAT_EP_HANDLE, DAT_COUNT *, DAT_COUNT *);
typedef DAT_RETURN (*DAT_EP_SET_WATERMARK_FUNC)(DAT_EP_HANDLE, DAT_COUNT, DAT_COUNT);
typedef DAT_RETURN (*DAT_LMR_FREE_FUNC)(DAT_LMR_HANDLE);
typedef DAT_RETURN (*DAT_LMR_QUERY_FUNC)(DAT_LMR_HANDLE, DAT_LMR_PARAM_MASK, DAT_LMR_PARAM *);
typedef DAT_RETURN (*DAT_LMR_SYNC_RDMA_READ_FUNC)(DAT_IA_HANDLE, const DAT_LMR_TRIPLET *, DAT_VLEN);
typedef DAT_RETURN (*DAT_LMR_SYNC_RDMA_WRITE_FUNC)(DAT_IA_HANDLE, const DAT_LMR_TRIPLET *, DAT_VLEN);
typedef DAT_RETURN (*DAT_RMR_CREATE_FUNC)(DAT_PZ_HANDLE, DAT_RMR_HANDLE *);
typedef DAT_RETURN (*DAT_RMR_QUERY_FUNC)(DAT_RMR_HANDLE, DAT_RMR_PARAM_MASK, DAT_RMR_PARAM *);
typedef DAT_RETURN (*DAT_RMR_BIND_FUNC)(DAT_RMR_HANDLE, const DAT_LMR_TRIPLET *, DAT_MEM_PRIV_FLAGS, DAT_EP_HANDLE,
		DAT_RMR_COOKIE, DAT_COMPLETION_FLAGS, DAT_RMR_CONTEXT *);
typedef DAT_RETURN (*DAT_RMR_FREE_FUNC)(DAT_RMR_HANDLE);
typedef DAT_RETURN (*DAT_PSP_CREATE_FUNC)(DAT_IA_HANDLE, DAT_CONN_QUAL, DAT_EVD_HANDLE, DAT_PSP_FLAGS,
		DAT_PSP_HANDLE *);
typedef DAT_RETURN (*DAT_PSP_CREATE_ANY_FUNC)(DAT_IA_HANDLE, DAT_CONN_QUAL *, DAT_EVD_HANDLE, DAT_PSP_FLAGS,
		DAT_PSP_HANDLE *);
typedef DAT_RETURN (*DAT_PSP_QUERY_FUNC)(DAT_PSP_HANDLE, DAT_PSP_PARAM_MASK, DAT_PSP_PARAM *);
typedef DAT_RETURN (*DAT_PSP_FREE_FUNC)(DAT_PSP_HANDLE);
typedef DAT_RETURN (*DAT_RSP_CREATE_FUNC)(DAT_IA_HANDLE, DAT_CONN_QUAL, DAT_EP_HANDLE, DAT_EVD_HANDLE,
		DAT_RSP_HANDLE *);
typedef DAT_RETURN (*DAT_RSP_QUERY_FUNC)(DAT_RSP_HANDLE, DAT_RSP_PARAM_MASK, DAT_RSP_PARAM *);
typedef DAT_RETURN (*DAT_RSP_FREE_FUNC)(DAT_RSP_HANDLE);
typedef DAT_RETURN (*DAT_PZ_CREATE_FUNC)(DAT_IA_HANDLE, DAT_PZ_HANDLE *);
typedef DAT_RETURN (*DAT_PZ_QUERY_FUNC)(DAT_PZ_HANDLE, DAT_PZ_PARAM_MASK, DAT_PZ_PARAM *);
typedef DAT_RETURN (*DAT_PZ_FREE_FUNC)(DAT_PZ_HANDLE);
typedef DAT_RETURN (*DAT_SRQ_CREATE_FUNC)(DAT_IA_HANDLE, DAT_PZ_HANDLE, DAT_SRQ_ATTR *, DAT_SRQ_HANDLE *);
typedef DAT_RETURN (*DAT_SRQ_SET_LW_FUNC)(DAT_SRQ_HANDLE, DAT_COUNT);
typedef DAT_RETURN (*DAT_SRQ_FREE_FUNC)(DAT_SRQ_HANDLE);
typedef DAT_RETURN (*DAT_SRQ_QUERY_FUNC)(DAT_SRQ_HANDLE, DAT_SRQ_PARAM_MASK, DAT_SRQ_PARAM *);
typedef DAT_RETURN (*DAT_SRQ_RESIZE_FUNC)(DAT_SRQ_HANDLE, DAT_COUNT);
typedef DAT_RETURN (*DAT_SRQ_POST_RECV_FUNC)(DAT_SRQ_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *, DAT_DTO_COOKIE);

#define DAT_IA_QUERY(a, b, c, d, e, f) \
	(DAT_HANDLE_TO_PROVIDER(a)->ia_query_func((a), (b), (c), (d), (e), (f)))

#define DAT_SET_CONSUMER_CONTEXT(a, b) \
	(DAT_HANDLE_TO_PROVIDER(a)->set_consumer_context_func((a), (b)))

#define DAT_GET_CONSUMER_CONTEXT(a, b) \
	(DAT_HANDLE_TO_PROVIDER(a)->get_consumer_context_func((a), (b)))

#define DAT_GET_HANDLE_TYPE(a, b) \
	(DAT_HANDLE_TO_PROVIDER(a)->get_handle_type_func((a), (b)))

#define DAT_CR_QUERY(a, b, c) \
	(DAT_HANDLE_TO_PROVIDER(a)->cr_query_func((a), (b), (c)))

#define DAT_CR_ACCEPT(a, b, c, d) \
	(DAT_HANDLE_TO_PROVIDER(a)->cr_accept_func((a), (b), (c), (d)))

#define DAT_CR_REJECT(a) \
	(DAT_HANDLE_TO_PROVIDER(a)->cr_reject_func((a)))

#define DAT_CR_HANDOFF(a, b) \
	(DAT_HANDLE_TO_PROVIDER(a)->cr_handoff_func((a), (b)))

#define DAT_EVD_QUERY(a, b, c) \
	(DAT_HANDLE_TO_PROVIDER(a)->evd_query_func((a), (b), (c)))

#define DAT_EVD_RESIZE(a, b) \
	(DAT_HANDLE_TO_PROVIDER(a)->evd_resize_func((a), (b)))

#define DAT_EVD_POST_SE(a, b) \
	(DAT_HANDLE_TO_PROVIDER(a)->evd_post_se_func((a), (b)))

#define DAT_EVD_DEQUEUE(a, b) \
	(DAT_HANDLE_TO_PROVIDER(a)->evd_dequeue_func((a), (b)))

#define DAT_EVD_FREE(a) \
	(DAT_HANDLE_TO_PROVIDER(a)->evd_free_func((a)))

#define DAT_EP_CREATE(a, b, c, d, e, f, g) \
	(DAT_HANDLE_TO_PROVIDER(a)->ep_create_func((a), (b), (c), (d), (e), (f), (g)))

#define DAT_EP_CREATE_WITH_SRQ(a, b, c, d, e, f, g, h) \
	(DAT_HANDLE_TO_PROVIDER(a)->ep_create_with_srq_func((a), (b), (c), (d), (e), (f), (g), (h)))

#define DAT_EP_QUERY(a, b, c) \
	(DAT_HANDLE_TO_PROVIDER(a)->ep_query_func((a), (b), (c)))

#define DAT_EP_MODIFY(a, b, c) \
	(DAT_HANDLE_TO_PROVIDER(a)->ep_modify_func((a), (b), (c)))

#define DAT_EP_CONNECT(a, b, c, d, e, f, g, h) \
	(DAT_HANDLE_TO_PROVIDER(a)->ep_connect_func((a), (b), (c), (d), (e), (f), (g), (h)))

#define DAT_EP_DUP_CONNECT(a, b, c, d, e, f) \
	(DAT_HANDLE_TO_PROVIDER(a)->ep_dup_connect_func((a), (b), (c), (d), (e), (f)))

#define DAT_EP_DISCONNECT(a, b) \
	(DAT_HANDLE_TO_PROVIDER(a)->ep_disconnect_func((a), (b)))

#define DAT_EP_POST_SEND(a, b, c, d, e) \
	(DAT_HANDLE_TO_PROVIDER(a)->ep_post_send_func((a), (b), (c), (d), (e)))

#define DAT_EP_POST_RECV(a, b, c, d, e) \
	(DAT_HANDLE_TO_PROVIDER(a)->ep_post_recv_func((a), (b), (c), (d), (e)))

#define DAT_EP_POST_RDMA_READ(a, b, c, d, e, f) \
	(DAT_HANDLE_TO_PROVIDER(a)->ep_post_rdma_read_func((a), (b), (c), (d), (e), (f)))

#define DAT_EP_POST_RDMA_WRITE(a, b, c, d, e, f) \
	(DAT_HANDLE_TO_PROVIDER(a)->ep_post_rdma_write_func((a), (b), (c), (d), (e), (f)))

#define DAT_EP_GET_STATUS(a, b, c, d) \
	(DAT_HANDLE_TO_PROVIDER(a)->ep_get_status_func((a), (b), (c), (d)))

#define DAT_EP_FREE(a) \
	(DAT_HANDLE_TO_PROVIDER(a)->ep_free_func((a)))

#define DAT_EP_RESET(a) \
	(DAT_HANDLE_TO_PROVIDER(a)->ep_reset_func((a)))

#define DAT_EP_RECV_QUERY(a, b, c) \
	(DAT_HANDLE_TO_PROVIDER(a)->ep_recv_query_func((a), (b), (c)))

#define DAT_EP_SET_WATERMARK(a, b, c) \
	(DAT_HANDLE_TO_PROVIDER(a)->ep_set_watermark_func((a), (b), (c)))

#define DAT_LMR_QUERY(a, b, c) \
	(DAT_HANDLE_TO_PROVIDER(a)->lmr_query_func((a), (b), (c)))

#define DAT_LMR_FREE(a) \
	(DAT_HANDLE_TO_PROVIDER(a)->lmr_free_func((a)))

#define DAT_LMR_SYNC_RDMA_READ(a, b, c) \
	(DAT_HANDLE_TO_PROVIDER(a)->lmr_sync_rdma_read_func((a), (b), (c)))

#define DAT_LMR_SYNC_RDMA_WRITE(a, b, c) \
	(DAT_HANDLE_TO_PROVIDER(a)->lmr_sync_rdma_write_func((a), (b), (c)))

#define DAT_RMR_CREATE(a, b) \
	(DAT_HANDLE_TO_PROVIDER(a)->rmr_create_func((a), (b)))

#define DAT_RMR_QUERY(a, b, c) \
	(DAT_HANDLE_TO_PROVIDER(a)->rmr_query_func((a), (b), (c)))

#define DAT_RMR_BIND(a, b, c, d, e, f, g) \
	(DAT_HANDLE_TO_PROVIDER(a)->rmr_bind_func((a), (b), (c), (d), (e), (f), (g)))

#define DAT_RMR_FREE(a) \
	(DAT_HANDLE_TO_PROVIDER(a)->rmr_free_func((a)))

#define DAT_PSP_CREATE(a, b, c, d, e) \
	(DAT_HANDLE_TO_PROVIDER(a)->psp_create_func((a), (b), (c), (d), (e)))

#define DAT_PSP_CREATE_ANY(a, b, c, d, e) \
	(DAT_HANDLE_TO_PROVIDER(a)->psp_create_any_func((a), (b), (c), (d), (e)))

#define DAT_PSP_QUERY(a, b, c) \
	(DAT_HANDLE_TO_PROVIDER(a)->psp_query_func((a), (b), (c)))

#define DAT_PSP_FREE(a) \
	(DAT_HANDLE_TO_PROVIDER(a)->psp_free_func((a)))

#define DAT_RSP_CREATE(a, b, c, d, e) \
	(DAT_HANDLE_TO_PROVIDER(a)->rsp_create_func((a), (b), (c), (d), (e)))

#define DAT_RSP_QUERY(a, b, c) \
	(DAT_HANDLE_TO_PROVIDER(a)->rsp_query_func((a), (b), (c)))

#define DAT_RSP_FREE(a) \
	(DAT_HANDLE_TO_PROVIDER(a)->rsp_free_func((a)))

#define DAT_PZ_CREATE(a, b) \
	(DAT_HANDLE_TO_PROVIDER(a)->pz_create_func((a), (b)))

#define DAT_PZ_QUERY(a, b, c) \
	(DAT_HANDLE_TO_PROVIDER(a)->pz_query_func((a), (b), (c)))

#define DAT_PZ_FREE(a) \
	(DAT_HANDLE_TO_PROVIDER(a)->pz_free_func((a)))

#define DAT_SRQ_CREATE(a, b, c, d) \
	(DAT_HANDLE_TO_PROVIDER(a)->srq_create_func((a), (b), (c), (d)))

#define DAT_SRQ_SET_LW(a, b) \
	(DAT_HANDLE_TO_PROVIDER(a)->srq_set_lw_func((a), (b)))

#define DAT_SRQ_FREE(a) \
	(DAT_HANDLE_TO_PROVIDER(a)->srq_free_func((a)))

#define DAT_SRQ_QUERY(a, b, c) \
	(DAT_HANDLE_TO_PROVIDER(a)->srq_query_func((a), (b), (c)))

#define DAT_SRQ_RESIZE(a, b) \
	(DAT_HANDLE_TO_PROVIDER(a)->srq_resize_func((a), (b)))

#define DAT_SRQ_POST_RECV(a, b, c, d) \
	(DAT_HANDLE_TO_PROVIDER(a)->srq_post_recv_func((a), (b), (c), (d)))

#ifdef __cplusplus
}
#endif

#endif
