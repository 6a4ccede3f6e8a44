/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is between the provider table and the calls that are not on the data path: a call that fails
 * leaves a line in the log. That line names the call, so what several calls have in common need not
 * know which one it is part of.
 */
#include <inttypes.h>

#include "base/refuse.h"
#include "entry.h"

#define IA_CALLS(X)                                                                                \
	X(ia_query, ia_query, LOG_UTIL,                                                            \
	  (DAT_IA_HANDLE ia, DAT_EVD_HANDLE * async_evd, DAT_IA_ATTR_MASK ia_mask,                 \
	   DAT_IA_ATTR * ia_attr, DAT_PROVIDER_ATTR_MASK provider_mask,                            \
	   DAT_PROVIDER_ATTR * provider_attr),                                                     \
	  (ia, async_evd, ia_mask, ia_attr, provider_mask, provider_attr),                         \
	  "ia %p, async_evd %p, ia_mask %#" PRIx64 ", ia_attr %p, provider_mask %#" PRIx64         \
	  ", provider_attr %p",                                                                    \
	  ia, (void *)async_evd, (uint64_t)ia_mask, (void *)ia_attr, (uint64_t)provider_mask,      \
	  (void *)provider_attr)                                                                   \
	X(ia_close, ia_close, LOG_UTIL, (DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS flags), (ia, flags),    \
	  "ia %p, flags %#x", ia, (unsigned)flags)                                                 \
	X(set_consumer_context, context_set, LOG_UTIL, (DAT_HANDLE handle, DAT_CONTEXT context),   \
	  (handle, context), "handle %p, context %#" PRIx64, handle, (uint64_t)context.as_64)      \
	X(get_consumer_context, context_get, LOG_UTIL, (DAT_HANDLE handle, DAT_CONTEXT * context), \
	  (handle, context), "handle %p, context %p", handle, (void *)context)                     \
	X(get_handle_type, handle_type, LOG_UTIL, (DAT_HANDLE handle, DAT_HANDLE_TYPE * type),     \
	  (handle, type), "handle %p, type %p", handle, (void *)type)

#define EVD_CALLS(X)                                                                               \
	X(evd_create, evd_create, LOG_EVD,                                                         \
	  (DAT_IA_HANDLE ia, DAT_COUNT qlen, DAT_CNO_HANDLE cno, DAT_EVD_FLAGS flags,              \
	   DAT_EVD_HANDLE * evd),                                                                  \
	  (ia, qlen, cno, flags, evd), "ia %p, evd_qlen %d, cno %p, flags %#x, evd %p", ia, qlen,  \
	  cno, (unsigned)flags, (void *)evd)                                                       \
	X(evd_query, evd_query, LOG_EVD,                                                           \
	  (DAT_EVD_HANDLE evd, DAT_EVD_PARAM_MASK mask, DAT_EVD_PARAM * param),                    \
	  (evd, mask, param), "evd %p, mask %#x, param %p", evd, (unsigned)mask, (void *)param)    \
	X(evd_modify_cno, evd_modify_cno, LOG_EVD, (DAT_EVD_HANDLE evd, DAT_CNO_HANDLE cno),       \
	  (evd, cno), "evd %p, cno %p", evd, cno)                                                  \
	X(evd_enable, evd_enable, LOG_EVD, (DAT_EVD_HANDLE evd), (evd), "evd %p", evd)             \
	X(evd_disable, evd_disable, LOG_EVD, (DAT_EVD_HANDLE evd), (evd), "evd %p", evd)           \
	X(evd_set_unwaitable, evd_set_unwaitable, LOG_EVD, (DAT_EVD_HANDLE evd), (evd), "evd %p",  \
	  evd)                                                                                     \
	X(evd_clear_unwaitable, evd_clear_unwaitable, LOG_EVD, (DAT_EVD_HANDLE evd), (evd),        \
	  "evd %p", evd)                                                                           \
	X(evd_resize, evd_resize, LOG_EVD, (DAT_EVD_HANDLE evd, DAT_COUNT qlen), (evd, qlen),      \
	  "evd %p, evd_qlen %d", evd, qlen)                                                        \
	X(evd_post_se, evd_post_se, LOG_EVD, (DAT_EVD_HANDLE evd, const DAT_EVENT *event),         \
	  (evd, event), "evd %p, event %p", evd, (const void *)event)                              \
	X(evd_free, evd_free, LOG_EVD, (DAT_EVD_HANDLE evd), (evd), "evd %p", evd)                 \
	X(cno_create, cno_create, LOG_EVD,                                                         \
	  (DAT_IA_HANDLE ia, DAT_OS_WAIT_PROXY_AGENT agent, DAT_CNO_HANDLE * cno),                 \
	  (ia, agent, cno), "ia %p, agent (its data %p), cno %p", ia, agent.instance_data,         \
	  (void *)cno)                                                                             \
	X(cno_modify_agent, cno_modify_agent, LOG_EVD,                                             \
	  (DAT_CNO_HANDLE cno, DAT_OS_WAIT_PROXY_AGENT agent), (cno, agent),                       \
	  "cno %p, agent (its data %p)", cno, agent.instance_data)                                 \
	X(cno_query, cno_query, LOG_EVD,                                                           \
	  (DAT_CNO_HANDLE cno, DAT_CNO_PARAM_MASK mask, DAT_CNO_PARAM * param),                    \
	  (cno, mask, param), "cno %p, mask %#x, param %p", cno, (unsigned)mask, (void *)param)    \
	X(cno_free, cno_free, LOG_EVD, (DAT_CNO_HANDLE cno), (cno), "cno %p", cno)

#define EP_CALLS(X)                                                                                \
	X(ep_create, ep_create, LOG_EP,                                                            \
	  (DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,                            \
	   DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd, const DAT_EP_ATTR *attr,        \
	   DAT_EP_HANDLE *ep),                                                                     \
	  (ia, pz, recv_evd, request_evd, connect_evd, attr, ep),                                  \
	  "ia %p, pz %p, recv_evd %p, request_evd %p, connect_evd %p, attr %p, ep %p", ia, pz,     \
	  recv_evd, request_evd, connect_evd, (const void *)attr, (void *)ep)                      \
	X(ep_create_with_srq, ep_create_with_srq, LOG_EP,                                          \
	  (DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,                            \
	   DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd, DAT_SRQ_HANDLE srq,             \
	   const DAT_EP_ATTR *attr, DAT_EP_HANDLE *ep),                                            \
	  (ia, pz, recv_evd, request_evd, connect_evd, srq, attr, ep),                             \
	  "ia %p, pz %p, recv_evd %p, request_evd %p, connect_evd %p, srq %p, attr %p, ep %p", ia, \
	  pz, recv_evd, request_evd, connect_evd, srq, (const void *)attr, (void *)ep)             \
	X(ep_query, ep_query, LOG_EP,                                                              \
	  (DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask, DAT_EP_PARAM * param), (ep, mask, param),     \
	  "ep %p, mask %#" PRIx64 ", param %p", ep, (uint64_t)mask, (void *)param)                 \
	X(ep_modify, ep_modify, LOG_EP,                                                            \
	  (DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask, const DAT_EP_PARAM *param),                   \
	  (ep, mask, param), "ep %p, mask %#" PRIx64 ", param %p", ep, (uint64_t)mask,             \
	  (const void *)param)                                                                     \
	X(ep_get_status, ep_get_status, LOG_EP,                                                    \
	  (DAT_EP_HANDLE ep, DAT_EP_STATE * state, DAT_BOOLEAN * recv_idle,                        \
	   DAT_BOOLEAN * request_idle),                                                            \
	  (ep, state, recv_idle, request_idle), "ep %p", ep)                                       \
	X(ep_recv_query, ep_recv_query, LOG_EP,                                                    \
	  (DAT_EP_HANDLE ep, DAT_COUNT * allocated, DAT_COUNT * span), (ep, allocated, span),      \
	  "ep %p", ep)                                                                             \
	X(ep_set_watermark, ep_set_watermark, LOG_EP,                                              \
	  (DAT_EP_HANDLE ep, DAT_COUNT soft, DAT_COUNT hard), (ep, soft, hard),                    \
	  "ep %p, soft %d, hard %d", ep, soft, hard)                                               \
	X(ep_reset, ep_reset, LOG_EP, (DAT_EP_HANDLE ep), (ep), "ep %p", ep)                       \
	X(ep_free, ep_free, LOG_EP, (DAT_EP_HANDLE ep), (ep), "ep %p", ep)                         \
	X(srq_create, srq_create, LOG_EP,                                                          \
	  (DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_SRQ_ATTR * attr, DAT_SRQ_HANDLE * srq),         \
	  (ia, pz, attr, srq), "ia %p, pz %p, attr %p, srq %p", ia, pz, (void *)attr, (void *)srq) \
	X(srq_query, srq_query, LOG_EP,                                                            \
	  (DAT_SRQ_HANDLE srq, DAT_SRQ_PARAM_MASK mask, DAT_SRQ_PARAM * param),                    \
	  (srq, mask, param), "srq %p, mask %#x, param %p", srq, (unsigned)mask, (void *)param)    \
	X(srq_resize, srq_resize, LOG_EP, (DAT_SRQ_HANDLE srq, DAT_COUNT max_recv_dtos),           \
	  (srq, max_recv_dtos), "srq %p, max_recv_dtos %d", srq, max_recv_dtos)                    \
	X(srq_set_lw, srq_set_lw, LOG_EP, (DAT_SRQ_HANDLE srq, DAT_COUNT low_watermark),           \
	  (srq, low_watermark), "srq %p, low_watermark %d", srq, low_watermark)                    \
	X(srq_free, srq_free, LOG_EP, (DAT_SRQ_HANDLE srq), (srq), "srq %p", srq)

#define CONNECTION_CALLS(X)                                                                        \
	X(ep_connect, ep_connect, LOG_CM,                                                          \
	  (DAT_EP_HANDLE ep, DAT_IA_ADDRESS_PTR address, DAT_CONN_QUAL qual, DAT_TIMEOUT timeout,  \
	   DAT_COUNT size, const DAT_PVOID data, DAT_QOS qos, DAT_CONNECT_FLAGS flags),            \
	  (ep, address, qual, timeout, size, data, qos, flags),                                    \
	  "ep %p, address %p, qualifier %" PRIu64 ", timeout %u, private_data_size %d, "           \
	  "private_data %p, qos %#x, flags %#x",                                                   \
	  ep, (void *)address, (uint64_t)qual, (unsigned)timeout, size, data, (unsigned)qos,       \
	  (unsigned)flags)                                                                         \
	X(ep_dup_connect, ep_dup_connect, LOG_CM,                                                  \
	  (DAT_EP_HANDLE ep, DAT_EP_HANDLE dup_ep, DAT_TIMEOUT timeout, DAT_COUNT size,            \
	   const DAT_PVOID data, DAT_QOS qos),                                                     \
	  (ep, dup_ep, timeout, size, data, qos),                                                  \
	  "ep %p, dup_ep %p, timeout %u, private_data_size %d, private_data %p, qos %#x", ep,      \
	  dup_ep, (unsigned)timeout, size, data, (unsigned)qos)                                    \
	X(ep_disconnect, ep_disconnect, LOG_CM, (DAT_EP_HANDLE ep, DAT_CLOSE_FLAGS flags),         \
	  (ep, flags), "ep %p, flags %#x", ep, (unsigned)flags)                                    \
	X(psp_create, psp_create, LOG_CM,                                                          \
	  (DAT_IA_HANDLE ia, DAT_CONN_QUAL qual, DAT_EVD_HANDLE evd, DAT_PSP_FLAGS flags,          \
	   DAT_PSP_HANDLE * psp),                                                                  \
	  (ia, qual, evd, flags, psp), "ia %p, qualifier %" PRIu64 ", evd %p, flags %#x, psp %p",  \
	  ia, (uint64_t)qual, evd, (unsigned)flags, (void *)psp)                                   \
	X(psp_create_any, psp_create_any, LOG_CM,                                                  \
	  (DAT_IA_HANDLE ia, DAT_CONN_QUAL * qual, DAT_EVD_HANDLE evd, DAT_PSP_FLAGS flags,        \
	   DAT_PSP_HANDLE * psp),                                                                  \
	  (ia, qual, evd, flags, psp), "ia %p, qualifier %p, evd %p, flags %#x, psp %p", ia,       \
	  (void *)qual, evd, (unsigned)flags, (void *)psp)                                         \
	X(psp_query, psp_query, LOG_CM,                                                            \
	  (DAT_PSP_HANDLE psp, DAT_PSP_PARAM_MASK mask, DAT_PSP_PARAM * param),                    \
	  (psp, mask, param), "psp %p, mask %#x, param %p", psp, (unsigned)mask, (void *)param)    \
	X(psp_free, psp_free, LOG_CM, (DAT_PSP_HANDLE psp), (psp), "psp %p", psp)                  \
	X(rsp_create, rsp_create, LOG_CM,                                                          \
	  (DAT_IA_HANDLE ia, DAT_CONN_QUAL qual, DAT_EP_HANDLE ep, DAT_EVD_HANDLE evd,             \
	   DAT_RSP_HANDLE * rsp),                                                                  \
	  (ia, qual, ep, evd, rsp), "ia %p, qualifier %" PRIu64 ", ep %p, evd %p, rsp %p", ia,     \
	  (uint64_t)qual, ep, evd, (void *)rsp)                                                    \
	X(rsp_query, rsp_query, LOG_CM,                                                            \
	  (DAT_RSP_HANDLE rsp, DAT_RSP_PARAM_MASK mask, DAT_RSP_PARAM * param),                    \
	  (rsp, mask, param), "rsp %p, mask %#x, param %p", rsp, (unsigned)mask, (void *)param)    \
	X(rsp_free, rsp_free, LOG_CM, (DAT_RSP_HANDLE rsp), (rsp), "rsp %p", rsp)                  \
	X(cr_query, cr_query, LOG_CM,                                                              \
	  (DAT_CR_HANDLE cr, DAT_CR_PARAM_MASK mask, DAT_CR_PARAM * param), (cr, mask, param),     \
	  "cr %p, mask %#x, param %p", cr, (unsigned)mask, (void *)param)                          \
	X(cr_accept, cr_accept, LOG_CM,                                                            \
	  (DAT_CR_HANDLE cr, DAT_EP_HANDLE ep, DAT_COUNT size, const DAT_PVOID data),              \
	  (cr, ep, size, data), "cr %p, ep %p, private_data_size %d, private_data %p", cr, ep,     \
	  size, data)                                                                              \
	X(cr_handoff, cr_handoff, LOG_CM, (DAT_CR_HANDLE cr, DAT_CONN_QUAL qual), (cr, qual),      \
	  "cr %p, qualifier %" PRIu64, cr, (uint64_t)qual)

#define MEMORY_CALLS(X)                                                                            \
	X(pz_create, pz_create, LOG_UTIL, (DAT_IA_HANDLE ia, DAT_PZ_HANDLE * pz), (ia, pz),        \
	  "ia %p, pz %p", ia, (void *)pz)                                                          \
	X(pz_query, pz_query, LOG_UTIL,                                                            \
	  (DAT_PZ_HANDLE pz, DAT_PZ_PARAM_MASK mask, DAT_PZ_PARAM * param), (pz, mask, param),     \
	  "pz %p, mask %#x, param %p", pz, (unsigned)mask, (void *)param)                          \
	X(pz_free, pz_free, LOG_UTIL, (DAT_PZ_HANDLE pz), (pz), "pz %p", pz)                       \
	X(lmr_query, lmr_query, LOG_UTIL,                                                          \
	  (DAT_LMR_HANDLE lmr, DAT_LMR_PARAM_MASK mask, DAT_LMR_PARAM * param),                    \
	  (lmr, mask, param), "lmr %p, mask %#x, param %p", lmr, (unsigned)mask, (void *)param)    \
	X(lmr_sync_rdma_read, lmr_sync_rdma_read, LOG_UTIL,                                        \
	  (DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *segments, DAT_VLEN count),                     \
	  (ia, segments, count), "ia %p, segments %p, count %" PRIu64, ia, (const void *)segments, \
	  (uint64_t)count)                                                                         \
	X(lmr_sync_rdma_write, lmr_sync_rdma_write, LOG_UTIL,                                      \
	  (DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *segments, DAT_VLEN count),                     \
	  (ia, segments, count), "ia %p, segments %p, count %" PRIu64, ia, (const void *)segments, \
	  (uint64_t)count)                                                                         \
	X(rmr_create, rmr_create, LOG_UTIL, (DAT_PZ_HANDLE pz, DAT_RMR_HANDLE * rmr), (pz, rmr),   \
	  "pz %p, rmr %p", pz, (void *)rmr)                                                        \
	X(rmr_query, rmr_query, LOG_UTIL,                                                          \
	  (DAT_RMR_HANDLE rmr, DAT_RMR_PARAM_MASK mask, DAT_RMR_PARAM * param),                    \
	  (rmr, mask, param), "rmr %p, mask %#x, param %p", rmr, (unsigned)mask, (void *)param)    \
	X(rmr_free, rmr_free, LOG_UTIL, (DAT_RMR_HANDLE rmr), (rmr), "rmr %p", rmr)

/* The calls that only one edition has, or that have other parameters there. */
#if DAT_EDITION == 2
#define CALLS_OF_EDITION(X)                                                                        \
	X(cr_reject, cr_reject, LOG_CM, (DAT_CR_HANDLE cr, DAT_COUNT size, const DAT_PVOID data),  \
	  (cr, size, data), "cr %p, private_data_size %d, private_data %p", cr, size, data)        \
	X(csp_create, csp_create, LOG_CM,                                                          \
	  (DAT_IA_HANDLE ia, DAT_COMM * comm, DAT_IA_ADDRESS_PTR address, DAT_EVD_HANDLE evd,      \
	   DAT_CSP_HANDLE * csp),                                                                  \
	  (ia, comm, address, evd, csp), "ia %p, comm %p, address %p, evd %p, csp %p", ia,         \
	  (void *)comm, (void *)address, evd, (void *)csp)                                         \
	X(csp_query, csp_query, LOG_CM,                                                            \
	  (DAT_CSP_HANDLE csp, DAT_CSP_PARAM_MASK mask, DAT_CSP_PARAM * param),                    \
	  (csp, mask, param), "csp %p, mask %#x, param %p", csp, (unsigned)mask, (void *)param)    \
	X(csp_free, csp_free, LOG_CM, (DAT_CSP_HANDLE csp), (csp), "csp %p", csp)                  \
	X(ep_common_connect, ep_common_connect, LOG_CM,                                            \
	  (DAT_EP_HANDLE ep, DAT_IA_ADDRESS_PTR address, DAT_TIMEOUT timeout, DAT_COUNT size,      \
	   const DAT_PVOID data),                                                                  \
	  (ep, address, timeout, size, data),                                                      \
	  "ep %p, address %p, timeout %u, private_data_size %d, private_data %p", ep,              \
	  (void *)address, (unsigned)timeout, size, data)                                          \
	X(rmr_create_for_ep, rmr_create_for_ep, LOG_UTIL,                                          \
	  (DAT_PZ_HANDLE pz, DAT_RMR_HANDLE * rmr), (pz, rmr), "pz %p, rmr %p", pz, (void *)rmr)   \
	X(ep_post_rdma_read_to_rmr, ep_post_rdma_read_to_rmr, LOG_DTO,                             \
	  (DAT_EP_HANDLE ep, const DAT_RMR_TRIPLET *local, DAT_DTO_COOKIE cookie,                  \
	   const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags),                             \
	  (ep, local, cookie, remote, flags), "ep %p, local %p, remote %p, flags %#x", ep,         \
	  (const void *)local, (const void *)remote, (unsigned)flags)                              \
	X(cno_fd_create, cno_fd_create, LOG_EVD,                                                   \
	  (DAT_IA_HANDLE ia, DAT_FD * fd, DAT_CNO_HANDLE * cno), (ia, fd, cno),                    \
	  "ia %p, fd %p, cno %p", ia, (void *)fd, (void *)cno)                                     \
	X(ia_ha_related, ia_ha_related, LOG_UTIL,                                                  \
	  (DAT_IA_HANDLE ia, const DAT_NAME_PTR name, DAT_BOOLEAN *related), (ia, name, related),  \
	  "ia %p, name %p, related %p", ia, (const void *)name, (void *)related)
#else
#define CALLS_OF_EDITION(X) X(cr_reject, cr_reject, LOG_CM, (DAT_CR_HANDLE cr), (cr), "cr %p", cr)
#endif

#define CALLS(X)                                                                                   \
	IA_CALLS(X)                                                                                \
	EVD_CALLS(X)                                                                               \
	EP_CALLS(X)                                                                                \
	CONNECTION_CALLS(X)                                                                        \
	MEMORY_CALLS(X)                                                                            \
	CALLS_OF_EDITION(X)

/*
 * Defines the function for one call. @name is that of the call, without "dat_"; @function makes it;
 * @kind is that of the line; @parameters, and @arguments with the same names; the rest are the
 * arguments for refused().
 */
#define LOGGED(name, function, kind, parameters, arguments, ...)                                   \
	static DAT_RETURN logged_##name parameters                                                 \
	{                                                                                          \
		DAT_RETURN ret = function arguments;                                               \
                                                                                                   \
		if (unlikely(ret != DAT_SUCCESS))                                                  \
			return refused(ret, kind, "dat_" #name, __VA_ARGS__);                      \
		return ret;                                                                        \
	}

CALLS(LOGGED)

#define SLOT(name, ...) table->name##_func = logged_##name;

void calls_log_refusals(DAT_PROVIDER *table)
{
	CALLS(SLOT)
}
