/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls that only dispatch to a provider: refuse a value that cannot be a handle, translate the
 * consumer's IA handle to the provider's, and call through the provider's table. All other checks
 * are the provider's.
 */
#include "api.h"

/* For strings(1): nothing in the library refers to it. */
static const char libdat_version[] __attribute__((used)) = REGISTRY_NAME " " PACKAGE_VERSION;

DAT_RETURN api_refused(DAT_RETURN ret, const char *call, const void *handle)
{
	libdat_log_result(DBG_CONSUMER, ret, "%s: no object has the handle %p", call, handle);
	return ret;
}

/* This bit is set in the numbers of all asynchronous error events, and in no others. */
#define ASYNC_EVENTS 0x8000

/* After a wait the cancellation type is the consumer's again, which may be asynchronous. */
static DAT_RETURN __attribute__((cold, noinline)) api_show_ia_of_event(DAT_EVENT *event)
{
	NO_CANCELLATION;
	DAT_ASYNCH_ERROR_EVENT_DATA *error = &event->event_data.asynch_error_event_data;

	error->dat_handle = ia_to_consumer(error->dat_handle);
	return DAT_SUCCESS;
}

DAT_RETURN dat_ia_query(DAT_IA_HANDLE handle, DAT_EVD_HANDLE *async_evd, DAT_IA_ATTR_MASK ia_mask,
			DAT_IA_ATTR *ia_attr, DAT_PROVIDER_ATTR_MASK provider_mask,
			DAT_PROVIDER_ATTR *provider_attr)
{
	DAT_IA_HANDLE ia = ia_to_provider(handle);

	if (!ia)
		return api_refused(BAD_HANDLE(_IA), "dat_ia_query", handle);
	return DAT_IA_QUERY(ia, async_evd, ia_mask, ia_attr, provider_mask, provider_attr);
}

/* ---- calls that take a handle of any kind ---- */

DAT_RETURN dat_set_consumer_context(DAT_HANDLE handle, DAT_CONTEXT context)
{
	DAT_HANDLE object = api_object(handle);

	if (!object)
		return api_refused(BAD_HANDLE(1), "dat_set_consumer_context", handle);
	return DAT_SET_CONSUMER_CONTEXT(object, context);
}

DAT_RETURN dat_get_consumer_context(DAT_HANDLE handle, DAT_CONTEXT *context)
{
	DAT_HANDLE object = api_object(handle);

	if (!object)
		return api_refused(BAD_HANDLE(1), "dat_get_consumer_context", handle);
	return DAT_GET_CONSUMER_CONTEXT(object, context);
}

DAT_RETURN dat_get_handle_type(DAT_HANDLE handle, DAT_HANDLE_TYPE *type)
{
	DAT_HANDLE object = api_object(handle);

	if (!object)
		return api_refused(BAD_HANDLE(1), "dat_get_handle_type", handle);
	return DAT_GET_HANDLE_TYPE(object, type);
}

/* ---- data transfer and its completions: only the handle check and the call ---- */

DAT_RETURN dat_ep_post_send(DAT_EP_HANDLE ep, DAT_COUNT segments, DAT_LMR_TRIPLET *iov,
			    DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
	if (unlikely(!is_object(ep)))
		return api_refused(BAD_HANDLE(_EP), "dat_ep_post_send", ep);
	return DAT_EP_POST_SEND(ep, segments, iov, cookie, flags);
}

DAT_RETURN dat_ep_post_recv(DAT_EP_HANDLE ep, DAT_COUNT segments, DAT_LMR_TRIPLET *iov,
			    DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
	if (unlikely(!is_object(ep)))
		return api_refused(BAD_HANDLE(_EP), "dat_ep_post_recv", ep);
	return DAT_EP_POST_RECV(ep, segments, iov, cookie, flags);
}

DAT_RETURN dat_ep_post_rdma_read(DAT_EP_HANDLE ep, DAT_COUNT segments, DAT_LMR_TRIPLET *iov,
				 DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
				 DAT_COMPLETION_FLAGS flags)
{
	if (unlikely(!is_object(ep)))
		return api_refused(BAD_HANDLE(_EP), "dat_ep_post_rdma_read", ep);
	return DAT_EP_POST_RDMA_READ(ep, segments, iov, cookie, remote, flags);
}

DAT_RETURN dat_ep_post_rdma_write(DAT_EP_HANDLE ep, DAT_COUNT segments, DAT_LMR_TRIPLET *iov,
				  DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
				  DAT_COMPLETION_FLAGS flags)
{
	if (unlikely(!is_object(ep)))
		return api_refused(BAD_HANDLE(_EP), "dat_ep_post_rdma_write", ep);
	return DAT_EP_POST_RDMA_WRITE(ep, segments, iov, cookie, remote, flags);
}

DAT_RETURN dat_srq_post_recv(DAT_SRQ_HANDLE srq, DAT_COUNT segments, DAT_LMR_TRIPLET *iov,
			     DAT_DTO_COOKIE cookie)
{
	if (unlikely(!is_object(srq)))
		return api_refused(BAD_HANDLE(_SRQ), "dat_srq_post_recv", srq);
	return DAT_SRQ_POST_RECV(srq, segments, iov, cookie);
}

DAT_RETURN dat_evd_dequeue(DAT_EVD_HANDLE evd, DAT_EVENT *event)
{
	DAT_RETURN ret;

	if (unlikely(!is_object(evd)))
		return api_refused(BAD_HANDLE(1), "dat_evd_dequeue", evd);
	ret = DAT_EVD_DEQUEUE(evd, event);
	if (ret == DAT_SUCCESS && unlikely(event->event_number & ASYNC_EVENTS))
		return api_show_ia_of_event(event);
	return ret;
}

DAT_RETURN dat_evd_wait(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout, DAT_COUNT threshold,
			DAT_EVENT *event, DAT_COUNT *nmore)
{
	DAT_RETURN ret;

	if (unlikely(!is_object(evd)))
		return api_refused(BAD_HANDLE(1), "dat_evd_wait", evd);
	ret = DAT_EVD_WAIT(evd, timeout, threshold, event, nmore);
	if (ret == DAT_SUCCESS && unlikely(event->event_number & ASYNC_EVENTS))
		return api_show_ia_of_event(event);
	return ret;
}

/* ---- event dispatchers ---- */

DAT_RETURN dat_evd_create(DAT_IA_HANDLE handle, DAT_COUNT qlen, DAT_CNO_HANDLE cno,
			  DAT_EVD_FLAGS flags, DAT_EVD_HANDLE *evd)
{
	DAT_IA_HANDLE ia = ia_to_provider(handle);

	if (!ia)
		return api_refused(BAD_HANDLE(_IA), "dat_evd_create", handle);
	return DAT_EVD_CREATE(ia, qlen, cno, flags, evd);
}

DAT_RETURN dat_evd_query(DAT_EVD_HANDLE evd, DAT_EVD_PARAM_MASK mask, DAT_EVD_PARAM *param)
{
	if (!is_own_object(evd))
		return api_refused(BAD_HANDLE(1), "dat_evd_query", evd);
	return api_show_ia(DAT_EVD_QUERY(evd, mask, param), mask & DAT_EVD_FIELD_IA_HANDLE, param);
}

DAT_RETURN dat_evd_modify_cno(DAT_EVD_HANDLE evd, DAT_CNO_HANDLE cno)
{
	if (!is_own_object(evd))
		return api_refused(BAD_HANDLE(1), "dat_evd_modify_cno", evd);
	return DAT_EVD_MODIFY_CNO(evd, cno);
}

DAT_RETURN dat_evd_enable(DAT_EVD_HANDLE evd)
{
	if (!is_own_object(evd))
		return api_refused(BAD_HANDLE(1), "dat_evd_enable", evd);
	return DAT_EVD_ENABLE(evd);
}

DAT_RETURN dat_evd_disable(DAT_EVD_HANDLE evd)
{
	if (!is_own_object(evd))
		return api_refused(BAD_HANDLE(1), "dat_evd_disable", evd);
	return DAT_EVD_DISABLE(evd);
}

DAT_RETURN dat_evd_set_unwaitable(DAT_EVD_HANDLE evd)
{
	if (!is_own_object(evd))
		return api_refused(BAD_HANDLE(1), "dat_evd_set_unwaitable", evd);
	return DAT_EVD_SET_UNWAITABLE(evd);
}

DAT_RETURN dat_evd_clear_unwaitable(DAT_EVD_HANDLE evd)
{
	if (!is_own_object(evd))
		return api_refused(BAD_HANDLE(1), "dat_evd_clear_unwaitable", evd);
	return DAT_EVD_CLEAR_UNWAITABLE(evd);
}

DAT_RETURN dat_evd_resize(DAT_EVD_HANDLE evd, DAT_COUNT qlen)
{
	if (!is_own_object(evd))
		return api_refused(BAD_HANDLE(1), "dat_evd_resize", evd);
	return DAT_EVD_RESIZE(evd, qlen);
}

DAT_RETURN dat_evd_post_se(DAT_EVD_HANDLE evd, const DAT_EVENT *event)
{
	if (!is_own_object(evd))
		return api_refused(BAD_HANDLE(1), "dat_evd_post_se", evd);
	return DAT_EVD_POST_SE(evd, event);
}

DAT_RETURN dat_evd_free(DAT_EVD_HANDLE evd)
{
	if (!is_own_object(evd))
		return api_refused(BAD_HANDLE(1), "dat_evd_free", evd);
	return DAT_EVD_FREE(evd);
}

/* ---- notification objects ---- */

DAT_RETURN dat_cno_create(DAT_IA_HANDLE handle, DAT_OS_WAIT_PROXY_AGENT agent, DAT_CNO_HANDLE *cno)
{
	DAT_IA_HANDLE ia = ia_to_provider(handle);

	if (!ia)
		return api_refused(BAD_HANDLE(_IA), "dat_cno_create", handle);
	return DAT_CNO_CREATE(ia, agent, cno);
}

DAT_RETURN dat_cno_query(DAT_CNO_HANDLE cno, DAT_CNO_PARAM_MASK mask, DAT_CNO_PARAM *param)
{
	if (!is_own_object(cno))
		return api_refused(BAD_HANDLE(_CNO), "dat_cno_query", cno);
	return api_show_ia(DAT_CNO_QUERY(cno, mask, param), CNO_MASK_HAS_IA(mask), param);
}

DAT_RETURN dat_cno_modify_agent(DAT_CNO_HANDLE cno, DAT_OS_WAIT_PROXY_AGENT agent)
{
	if (!is_own_object(cno))
		return api_refused(BAD_HANDLE(_CNO), "dat_cno_modify_agent", cno);
	return DAT_CNO_MODIFY_AGENT(cno, agent);
}

DAT_RETURN dat_cno_wait(DAT_CNO_HANDLE cno, DAT_TIMEOUT timeout, DAT_EVD_HANDLE *evd)
{
	if (!is_own_object(cno))
		return api_refused(BAD_HANDLE(_CNO), "dat_cno_wait", cno);
	return DAT_CNO_WAIT(cno, timeout, evd);
}

DAT_RETURN dat_cno_free(DAT_CNO_HANDLE cno)
{
	if (!is_own_object(cno))
		return api_refused(BAD_HANDLE(_CNO), "dat_cno_free", cno);
	return DAT_CNO_FREE(cno);
}

/* ---- endpoints ---- */

DAT_RETURN dat_ep_create(DAT_IA_HANDLE handle, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,
			 DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd,
			 const DAT_EP_ATTR *attr, DAT_EP_HANDLE *ep)
{
	DAT_IA_HANDLE ia = ia_to_provider(handle);

	if (!ia)
		return api_refused(BAD_HANDLE(_IA), "dat_ep_create", handle);
	return DAT_EP_CREATE(ia, pz, recv_evd, request_evd, connect_evd, attr, ep);
}

DAT_RETURN dat_ep_create_with_srq(DAT_IA_HANDLE handle, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,
				  DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd,
				  DAT_SRQ_HANDLE srq, const DAT_EP_ATTR *attr, DAT_EP_HANDLE *ep)
{
	DAT_IA_HANDLE ia = ia_to_provider(handle);

	if (!ia)
		return api_refused(BAD_HANDLE(_IA), "dat_ep_create_with_srq", handle);
	return DAT_EP_CREATE_WITH_SRQ(ia, pz, recv_evd, request_evd, connect_evd, srq, attr, ep);
}

DAT_RETURN dat_ep_query(DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask, DAT_EP_PARAM *param)
{
	if (!is_own_object(ep))
		return api_refused(BAD_HANDLE(_EP), "dat_ep_query", ep);
	return api_show_ia(DAT_EP_QUERY(ep, mask, param), mask & DAT_EP_FIELD_IA_HANDLE, param);
}

DAT_RETURN dat_ep_modify(DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask, const DAT_EP_PARAM *param)
{
	if (!is_own_object(ep))
		return api_refused(BAD_HANDLE(_EP), "dat_ep_modify", ep);
	return DAT_EP_MODIFY(ep, mask, param);
}

DAT_RETURN dat_ep_get_status(DAT_EP_HANDLE ep, DAT_EP_STATE *state, DAT_BOOLEAN *recv_idle,
			     DAT_BOOLEAN *request_idle)
{
	if (!is_own_object(ep))
		return api_refused(BAD_HANDLE(_EP), "dat_ep_get_status", ep);
	return DAT_EP_GET_STATUS(ep, state, recv_idle, request_idle);
}

DAT_RETURN dat_ep_connect(DAT_EP_HANDLE ep, DAT_IA_ADDRESS_PTR address, DAT_CONN_QUAL qualifier,
			  DAT_TIMEOUT timeout, DAT_COUNT private_size, const DAT_PVOID private_data,
			  DAT_QOS qos, DAT_CONNECT_FLAGS flags)
{
	if (!is_own_object(ep))
		return api_refused(BAD_HANDLE(_EP), "dat_ep_connect", ep);
	return DAT_EP_CONNECT(ep, address, qualifier, timeout, private_size, private_data, qos,
			      flags);
}

DAT_RETURN dat_ep_dup_connect(DAT_EP_HANDLE ep, DAT_EP_HANDLE like, DAT_TIMEOUT timeout,
			      DAT_COUNT private_size, const DAT_PVOID private_data, DAT_QOS qos)
{
	if (!is_own_object(ep))
		return api_refused(BAD_HANDLE(_EP), "dat_ep_dup_connect", ep);
	return DAT_EP_DUP_CONNECT(ep, like, timeout, private_size, private_data, qos);
}

DAT_RETURN dat_ep_disconnect(DAT_EP_HANDLE ep, DAT_CLOSE_FLAGS flags)
{
	if (!is_own_object(ep))
		return api_refused(BAD_HANDLE(_EP), "dat_ep_disconnect", ep);
	return DAT_EP_DISCONNECT(ep, flags);
}

DAT_RETURN dat_ep_reset(DAT_EP_HANDLE ep)
{
	if (!is_own_object(ep))
		return api_refused(BAD_HANDLE(_EP), "dat_ep_reset", ep);
	return DAT_EP_RESET(ep);
}

DAT_RETURN dat_ep_recv_query(DAT_EP_HANDLE ep, DAT_COUNT *allocated, DAT_COUNT *span)
{
	if (!is_own_object(ep))
		return api_refused(BAD_HANDLE(_EP), "dat_ep_recv_query", ep);
	return DAT_EP_RECV_QUERY(ep, allocated, span);
}

DAT_RETURN dat_ep_set_watermark(DAT_EP_HANDLE ep, DAT_COUNT soft, DAT_COUNT hard)
{
	if (!is_own_object(ep))
		return api_refused(BAD_HANDLE(_EP), "dat_ep_set_watermark", ep);
	return DAT_EP_SET_WATERMARK(ep, soft, hard);
}

DAT_RETURN dat_ep_free(DAT_EP_HANDLE ep)
{
	if (!is_own_object(ep))
		return api_refused(BAD_HANDLE(_EP), "dat_ep_free", ep);
	return DAT_EP_FREE(ep);
}

/* ---- service points and connection requests ---- */

DAT_RETURN dat_psp_create(DAT_IA_HANDLE handle, DAT_CONN_QUAL qualifier, DAT_EVD_HANDLE evd,
			  DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *psp)
{
	DAT_IA_HANDLE ia = ia_to_provider(handle);

	if (!ia)
		return api_refused(BAD_HANDLE(_IA), "dat_psp_create", handle);
	return DAT_PSP_CREATE(ia, qualifier, evd, flags, psp);
}

DAT_RETURN dat_psp_create_any(DAT_IA_HANDLE handle, DAT_CONN_QUAL *qualifier, DAT_EVD_HANDLE evd,
			      DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *psp)
{
	DAT_IA_HANDLE ia = ia_to_provider(handle);

	if (!ia)
		return api_refused(BAD_HANDLE(_IA), "dat_psp_create_any", handle);
	return DAT_PSP_CREATE_ANY(ia, qualifier, evd, flags, psp);
}

DAT_RETURN dat_psp_query(DAT_PSP_HANDLE psp, DAT_PSP_PARAM_MASK mask, DAT_PSP_PARAM *param)
{
	if (!is_own_object(psp))
		return api_refused(BAD_HANDLE(_PSP), "dat_psp_query", psp);
	return api_show_ia(DAT_PSP_QUERY(psp, mask, param), mask & DAT_PSP_FIELD_IA_HANDLE, param);
}

DAT_RETURN dat_psp_free(DAT_PSP_HANDLE psp)
{
	if (!is_own_object(psp))
		return api_refused(BAD_HANDLE(_PSP), "dat_psp_free", psp);
	return DAT_PSP_FREE(psp);
}

DAT_RETURN dat_rsp_create(DAT_IA_HANDLE handle, DAT_CONN_QUAL qualifier, DAT_EP_HANDLE ep,
			  DAT_EVD_HANDLE evd, DAT_RSP_HANDLE *rsp)
{
	DAT_IA_HANDLE ia = ia_to_provider(handle);

	if (!ia)
		return api_refused(BAD_HANDLE(_IA), "dat_rsp_create", handle);
	return DAT_RSP_CREATE(ia, qualifier, ep, evd, rsp);
}

DAT_RETURN dat_rsp_query(DAT_RSP_HANDLE rsp, DAT_RSP_PARAM_MASK mask, DAT_RSP_PARAM *param)
{
	if (!is_own_object(rsp))
		return api_refused(BAD_HANDLE(_RSP), "dat_rsp_query", rsp);
	return api_show_ia(DAT_RSP_QUERY(rsp, mask, param), mask & DAT_RSP_FIELD_IA_HANDLE, param);
}

DAT_RETURN dat_rsp_free(DAT_RSP_HANDLE rsp)
{
	if (!is_own_object(rsp))
		return api_refused(BAD_HANDLE(_RSP), "dat_rsp_free", rsp);
	return DAT_RSP_FREE(rsp);
}

DAT_RETURN dat_cr_query(DAT_CR_HANDLE cr, DAT_CR_PARAM_MASK mask, DAT_CR_PARAM *param)
{
	if (!is_own_object(cr))
		return api_refused(BAD_HANDLE(_CR), "dat_cr_query", cr);
	return DAT_CR_QUERY(cr, mask, param);
}

DAT_RETURN dat_cr_accept(DAT_CR_HANDLE cr, DAT_EP_HANDLE ep, DAT_COUNT private_size,
			 const DAT_PVOID private_data)
{
	if (!is_own_object(cr))
		return api_refused(BAD_HANDLE(_CR), "dat_cr_accept", cr);
	return DAT_CR_ACCEPT(cr, ep, private_size, private_data);
}

DAT_RETURN dat_cr_handoff(DAT_CR_HANDLE cr, DAT_CONN_QUAL qualifier)
{
	if (!is_own_object(cr))
		return api_refused(BAD_HANDLE(_CR), "dat_cr_handoff", cr);
	return DAT_CR_HANDOFF(cr, qualifier);
}

/* ---- protection zones and memory ---- */

DAT_RETURN dat_pz_create(DAT_IA_HANDLE handle, DAT_PZ_HANDLE *pz)
{
	DAT_IA_HANDLE ia = ia_to_provider(handle);

	if (!ia)
		return api_refused(BAD_HANDLE(_IA), "dat_pz_create", handle);
	return DAT_PZ_CREATE(ia, pz);
}

DAT_RETURN dat_pz_query(DAT_PZ_HANDLE pz, DAT_PZ_PARAM_MASK mask, DAT_PZ_PARAM *param)
{
	if (!is_own_object(pz))
		return api_refused(BAD_HANDLE(_PZ), "dat_pz_query", pz);
	return api_show_ia(DAT_PZ_QUERY(pz, mask, param), mask & DAT_PZ_FIELD_IA_HANDLE, param);
}

DAT_RETURN dat_pz_free(DAT_PZ_HANDLE pz)
{
	if (!is_own_object(pz))
		return api_refused(BAD_HANDLE(_PZ), "dat_pz_free", pz);
	return DAT_PZ_FREE(pz);
}

DAT_RETURN dat_lmr_query(DAT_LMR_HANDLE lmr, DAT_LMR_PARAM_MASK mask, DAT_LMR_PARAM *param)
{
	if (!is_own_object(lmr))
		return api_refused(BAD_HANDLE(_LMR), "dat_lmr_query", lmr);
	return api_show_ia(DAT_LMR_QUERY(lmr, mask, param), mask & DAT_LMR_FIELD_IA_HANDLE, param);
}

DAT_RETURN dat_lmr_sync_rdma_read(DAT_IA_HANDLE handle, const DAT_LMR_TRIPLET *segments,
				  DAT_VLEN count)
{
	DAT_IA_HANDLE ia = ia_to_provider(handle);

	if (!ia)
		return api_refused(BAD_HANDLE(_IA), "dat_lmr_sync_rdma_read", handle);
	return DAT_LMR_SYNC_RDMA_READ(ia, segments, count);
}

DAT_RETURN dat_lmr_sync_rdma_write(DAT_IA_HANDLE handle, const DAT_LMR_TRIPLET *segments,
				   DAT_VLEN count)
{
	DAT_IA_HANDLE ia = ia_to_provider(handle);

	if (!ia)
		return api_refused(BAD_HANDLE(_IA), "dat_lmr_sync_rdma_write", handle);
	return DAT_LMR_SYNC_RDMA_WRITE(ia, segments, count);
}

DAT_RETURN dat_lmr_free(DAT_LMR_HANDLE lmr)
{
	if (!is_own_object(lmr))
		return api_refused(BAD_HANDLE(_LMR), "dat_lmr_free", lmr);
	return DAT_LMR_FREE(lmr);
}

DAT_RETURN dat_rmr_create(DAT_PZ_HANDLE pz, DAT_RMR_HANDLE *rmr)
{
	if (!is_own_object(pz))
		return api_refused(BAD_HANDLE(_PZ), "dat_rmr_create", pz);
	return DAT_RMR_CREATE(pz, rmr);
}

DAT_RETURN dat_rmr_query(DAT_RMR_HANDLE rmr, DAT_RMR_PARAM_MASK mask, DAT_RMR_PARAM *param)
{
	if (!is_own_object(rmr))
		return api_refused(BAD_HANDLE(_RMR), "dat_rmr_query", rmr);
	return api_show_ia(DAT_RMR_QUERY(rmr, mask, param), mask & DAT_RMR_FIELD_IA_HANDLE, param);
}

DAT_RETURN dat_rmr_free(DAT_RMR_HANDLE rmr)
{
	if (!is_own_object(rmr))
		return api_refused(BAD_HANDLE(_RMR), "dat_rmr_free", rmr);
	return DAT_RMR_FREE(rmr);
}

/* ---- shared receive queues ---- */

DAT_RETURN dat_srq_create(DAT_IA_HANDLE handle, DAT_PZ_HANDLE pz, DAT_SRQ_ATTR *attr,
			  DAT_SRQ_HANDLE *srq)
{
	DAT_IA_HANDLE ia = ia_to_provider(handle);

	if (!ia)
		return api_refused(BAD_HANDLE(_IA), "dat_srq_create", handle);
	return DAT_SRQ_CREATE(ia, pz, attr, srq);
}

DAT_RETURN dat_srq_query(DAT_SRQ_HANDLE srq, DAT_SRQ_PARAM_MASK mask, DAT_SRQ_PARAM *param)
{
	if (!is_own_object(srq))
		return api_refused(BAD_HANDLE(_SRQ), "dat_srq_query", srq);
	return api_show_ia(DAT_SRQ_QUERY(srq, mask, param), mask & DAT_SRQ_FIELD_IA_HANDLE, param);
}

DAT_RETURN dat_srq_resize(DAT_SRQ_HANDLE srq, DAT_COUNT max_recv_dtos)
{
	if (!is_own_object(srq))
		return api_refused(BAD_HANDLE(_SRQ), "dat_srq_resize", srq);
	return DAT_SRQ_RESIZE(srq, max_recv_dtos);
}

DAT_RETURN dat_srq_set_lw(DAT_SRQ_HANDLE srq, DAT_COUNT low_watermark)
{
	if (!is_own_object(srq))
		return api_refused(BAD_HANDLE(_SRQ), "dat_srq_set_lw", srq);
	return DAT_SRQ_SET_LW(srq, low_watermark);
}

DAT_RETURN dat_srq_free(DAT_SRQ_HANDLE srq)
{
	if (!is_own_object(srq))
		return api_refused(BAD_HANDLE(_SRQ), "dat_srq_free", srq);
	return DAT_SRQ_FREE(srq);
}
