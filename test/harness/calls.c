/* SPDX-License-Identifier: BSD-2-Clause */
/* Each call of a provider's table, in its normal use: see calls.h. */
#include <dirent.h>
#include <pthread.h>
#include <string.h>

#include "calls.h"
#include "run.h"

#if DAT_EDITION == 2
#include <dat2/dat_ib_extensions.h>
#include <stdarg.h>
#endif

#define LONG_ENOUGH (60 * 1000000) /* microseconds */

/* ---- the rows ---- */

#define CALL(name, handle, ...)                                                                    \
	static DAT_RETURN name##_call(struct calls *c)                                             \
	{                                                                                          \
		return DAT_HANDLE_TO_PROVIDER(handle)->name##_func(handle, ##__VA_ARGS__);         \
	}

static DAT_RETURN open_again(const struct calls *c, DAT_IA_HANDLE *ia)
{
	const DAT_PROVIDER *table = DAT_HANDLE_TO_PROVIDER(c->ia);
	DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;

	return table->ia_open_func((DAT_NAME_PTR)table->device_name, 8, &async_evd, ia);
}

static DAT_RETURN ia_open_call(struct calls *c)
{
	return open_again(c, &c->made_ias[c->ias_made++]);
}

static DAT_RETURN ia_close_call(struct calls *c)
{
	DAT_IA_HANDLE ia = c->spare_ias[c->spares_closed++];

	return DAT_HANDLE_TO_PROVIDER(ia)->ia_close_func(ia, DAT_CLOSE_ABRUPT_FLAG);
}

static DAT_RETURN ia_query_call(struct calls *c)
{
	DAT_PROVIDER_ATTR provider;
	DAT_EVD_HANDLE async_evd;
	DAT_IA_ATTR attr;

	return DAT_IA_QUERY(c->ia, &async_evd, DAT_IA_FIELD_ALL, &attr, DAT_PROVIDER_FIELD_ALL,
			    &provider);
}

/* In front of an argument of DAT 1.2, one that DAT 2.0 has in addition. */
#if DAT_EDITION == 2
#define WITH_VA(arg)  DAT_VA_TYPE_VA, (arg)
#define WITH_LMR(arg) c->lmr, (arg)
#else
#define WITH_VA(arg)  (arg)
#define WITH_LMR(arg) (arg)
#endif

static DAT_RETURN lmr_create_call(struct calls *c)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = c->memory };
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;

	return DAT_HANDLE_TO_PROVIDER(c->ia)->lmr_create_func(
		c->ia, DAT_MEM_TYPE_VIRTUAL, region, CALLS_MEMORY, c->pz, DAT_MEM_PRIV_ALL_FLAG,
		WITH_VA(&c->made), &lmr_context, &rmr_context, NULL, NULL);
}

static DAT_RETURN srq_create_call(struct calls *c)
{
	DAT_SRQ_ATTR attr = { .max_recv_dtos = 8,
			      .max_recv_iov = 1,
			      .low_watermark = DAT_SRQ_LW_DEFAULT };

	return DAT_SRQ_CREATE(c->ia, c->pz, &attr, &c->made);
}

static DAT_RETURN evd_post_se_call(struct calls *c)
{
	const DAT_EVENT event = { .event_number = DAT_SOFTWARE_EVENT };

	return DAT_EVD_POST_SE(c->software_evd, &event);
}

static DAT_RETURN evd_wait_call(struct calls *c)
{
	DAT_COUNT nmore;

	return DAT_EVD_WAIT(c->software_evd, DAT_TIMEOUT_INFINITE, 1, &c->event, &nmore);
}

static DAT_RETURN ep_create_with_srq_call(struct calls *c)
{
	DAT_EP_PARAM like;
	DAT_RETURN ret = DAT_EP_QUERY(c->idle_ep, DAT_EP_FIELD_ALL, &like);

	if (ret != DAT_SUCCESS)
		return ret;
	return DAT_EP_CREATE_WITH_SRQ(c->ia, c->pz, c->recv_evd, c->request_evd, c->connect_evd,
				      c->srq, &like.ep_attr, &c->made);
}

static DAT_RETURN ep_modify_call(struct calls *c)
{
	const DAT_EP_PARAM want = { .ep_attr.max_recv_dtos = 3 };

	return DAT_EP_MODIFY(c->idle_ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, &want);
}

static DAT_RETURN ep_get_status_call(struct calls *c)
{
	DAT_BOOLEAN recv_idle, request_idle;
	DAT_EP_STATE state;

	return DAT_EP_GET_STATUS(c->up_ep, &state, &recv_idle, &request_idle);
}

static DAT_RETURN ep_recv_query_call(struct calls *c)
{
	DAT_COUNT allocated, span;

	return DAT_EP_RECV_QUERY(c->up_ep, &allocated, &span);
}

static DAT_RETURN psp_create_any_call(struct calls *c)
{
	DAT_CONN_QUAL qual;

	return DAT_PSP_CREATE_ANY(c->ia, &qual, c->cr_evd, DAT_PSP_CONSUMER_FLAG, &c->made);
}

static DAT_RETURN get_handle_type_call(struct calls *c)
{
	DAT_HANDLE_TYPE type;

	return DAT_GET_HANDLE_TYPE(c->ia, &type);
}

static DAT_RETURN get_consumer_context_call(struct calls *c)
{
	DAT_CONTEXT context;

	return DAT_GET_CONSUMER_CONTEXT(c->pz, &context);
}

/* The call of a query, of the type with that name. */
#define QUERY(kind, KIND, type, handle)                                                            \
	static DAT_RETURN kind##_query_call(struct calls *c)                                       \
	{                                                                                          \
		type param;                                                                        \
                                                                                                   \
		return DAT_##KIND##_QUERY(handle, DAT_##KIND##_FIELD_ALL, &param);                 \
	}

QUERY(cno, CNO, DAT_CNO_PARAM, c->cno)
QUERY(cr, CR, DAT_CR_PARAM, c->queried_cr)
QUERY(ep, EP, DAT_EP_PARAM, c->up_ep)
QUERY(evd, EVD, DAT_EVD_PARAM, c->software_evd)
QUERY(lmr, LMR, DAT_LMR_PARAM, c->lmr)
QUERY(psp, PSP, DAT_PSP_PARAM, c->psp)
QUERY(pz, PZ, DAT_PZ_PARAM, c->pz)
QUERY(rsp, RSP, DAT_RSP_PARAM, c->rsp)
QUERY(srq, SRQ, DAT_SRQ_PARAM, c->srq)

/* A window that is not bound has no triplet. */
static DAT_RETURN rmr_query_call(struct calls *c)
{
	DAT_RMR_PARAM param;

	return DAT_RMR_QUERY(c->rmr, DAT_RMR_FIELD_ALL & ~(unsigned)DAT_RMR_FIELD_LMR_TRIPLET,
			     &param);
}

#define COOKIE	((DAT_DTO_COOKIE){ .as_64 = CALLS_COOKIE })
#define DEFAULT DAT_COMPLETION_DEFAULT_FLAG
#define EVDS	c->recv_evd, c->request_evd, c->connect_evd

CALL(set_consumer_context, c->pz, (DAT_CONTEXT){ .as_64 = 1 })
CALL(cno_create, c->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &c->made)
CALL(cno_modify_agent, c->cno, DAT_OS_WAIT_PROXY_AGENT_NULL)
CALL(cno_wait, c->cno, DAT_TIMEOUT_INFINITE, &c->triggered)
CALL(cno_free, c->spare_cno)
CALL(evd_create, c->ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &c->made)
CALL(evd_modify_cno, c->idle_evd, c->cno)
CALL(evd_disable, c->idle_evd)
CALL(evd_enable, c->idle_evd)
CALL(evd_set_unwaitable, c->idle_evd)
CALL(evd_clear_unwaitable, c->idle_evd)
CALL(evd_dequeue, c->software_evd, &c->event)
CALL(evd_resize, c->resized_evd, 32)
CALL(evd_free, c->spare_evd)
CALL(pz_create, c->ia, &c->made)
CALL(pz_free, c->spare_pz)
CALL(lmr_sync_rdma_read, c->ia, &c->local, 1)
CALL(lmr_sync_rdma_write, c->ia, &c->local, 1)
CALL(lmr_free, c->spare_lmr)
CALL(rmr_create, c->pz, &c->made)
CALL(rmr_bind, c->rmr, WITH_LMR(&c->local), DAT_MEM_PRIV_REMOTE_READ_FLAG, WITH_VA(c->up_ep),
     (DAT_RMR_COOKIE){ .as_64 = CALLS_COOKIE }, DEFAULT, &c->rmr_context)
CALL(rmr_free, c->spare_rmr)
CALL(srq_set_lw, c->srq, 1)
CALL(srq_resize, c->srq, 16)
CALL(srq_post_recv, c->srq, 1, &c->local, COOKIE)
CALL(srq_free, c->spare_srq)
CALL(ep_create, c->ia, c->pz, EVDS, NULL, &c->made)
CALL(ep_set_watermark, c->up_ep, DAT_WATERMARK_INFINITE, DAT_WATERMARK_INFINITE)
CALL(ep_post_recv, c->up_ep, 1, &c->local, COOKIE, DEFAULT)
CALL(ep_post_send, c->up_ep, 1, &c->local, COOKIE, DEFAULT)
CALL(ep_post_rdma_write, c->up_ep, 1, &c->local, COOKIE, &c->remote, DEFAULT)
CALL(ep_post_rdma_read, c->up_ep, 1, &c->local, COOKIE, &c->remote, DEFAULT)
CALL(ep_connect, c->active_ep, (DAT_IA_ADDRESS_PTR)&c->address, c->qual, DAT_TIMEOUT_INFINITE, 0,
     NULL, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG)
CALL(ep_dup_connect, c->like_ep, c->up_ep, DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT)
CALL(ep_disconnect, c->leaving_ep, DAT_CLOSE_ABRUPT_FLAG)
CALL(ep_reset, c->down_ep)
CALL(ep_free, c->spare_ep)
CALL(psp_create, c->ia, c->next_qual++, c->cr_evd, DAT_PSP_CONSUMER_FLAG, &c->made)
CALL(psp_free, c->spare_psp)
CALL(rsp_create, c->ia, c->next_qual++, c->reserved_ep, c->cr_evd, &c->made)
CALL(rsp_free, c->spare_rsp)
CALL(cr_accept, c->accepted_cr, c->passive_ep, 0, NULL)
#if DAT_EDITION == 2
CALL(cr_reject, c->rejected_cr, 0, NULL)
#else
CALL(cr_reject, c->rejected_cr)
#endif
CALL(cr_handoff, c->handed_cr, c->other_qual)

#if DAT_EDITION == 2
static DAT_COMM comm = { .domain = AF_INET, .type = SOCK_STREAM, .protocol = IPPROTO_TCP };

/* The address of the IA with a port. */
static DAT_IA_ADDRESS_PTR address_with_port(struct calls *c, DAT_CONN_QUAL port)
{
	((struct sockaddr_in *)&c->address)->sin_port = htons((uint16_t)port);
	return (DAT_IA_ADDRESS_PTR)&c->address;
}

static DAT_RETURN cno_fd_create_call(struct calls *c)
{
	DAT_FD fd;

	return DAT_CNO_FD_CREATE(c->ia, &fd, &c->made);
}

static DAT_RETURN cno_trigger_call(struct calls *c)
{
	const DAT_EVENT event = { .event_number = DAT_SOFTWARE_EVENT };
	DAT_RETURN ret = DAT_EVD_POST_SE(c->fd_evd, &event);

	return ret == DAT_SUCCESS ? DAT_CNO_TRIGGER(c->fd_cno, &c->triggered) : ret;
}

static DAT_RETURN ia_ha_related_call(struct calls *c)
{
	const DAT_PROVIDER *table = DAT_HANDLE_TO_PROVIDER(c->ia);
	DAT_BOOLEAN related;

	return table->ia_ha_related_func(c->ia, (DAT_NAME_PTR)table->device_name, &related);
}

static DAT_RETURN extension_op(const DAT_PROVIDER *table, DAT_HANDLE handle, int op, ...)
{
	DAT_RETURN ret;
	va_list args;

	va_start(args, op);
	ret = table->handle_extendedop_func(handle, (DAT_EXTENDED_OP)op, args);
	va_end(args);
	return ret;
}

/* A query open. */
static DAT_RETURN handle_extendedop_call(struct calls *c)
{
	const DAT_PROVIDER *table = DAT_HANDLE_TO_PROVIDER(c->ia);
	DAT_IA_ATTR attr;

	return extension_op(table, (DAT_HANDLE)(uintptr_t)table->device_name, DAT_IB_OPEN_QUERY_OP,
			    &c->made_ias[c->ias_made++], DAT_IA_FIELD_ALL, &attr,
			    DAT_PROVIDER_FIELD_NONE, NULL);
}

QUERY(csp, CSP, DAT_CSP_PARAM, c->csp)
CALL(csp_create, c->ia, &comm, address_with_port(c, c->next_qual++), c->cr_evd, &c->made)
CALL(csp_free, c->spare_csp)
CALL(ep_common_connect, c->common_ep, address_with_port(c, c->qual), DAT_TIMEOUT_INFINITE, 0, NULL)
CALL(ep_post_send_with_invalidate, c->up_ep, 1, &c->local, COOKIE, DEFAULT, DAT_FALSE, 0)
CALL(ep_post_rdma_read_to_rmr, c->up_ep, &c->remote, COOKIE, &c->remote, DEFAULT)
CALL(rmr_create_for_ep, c->pz, &c->made)
#endif

#define NOT_SUPPORTED ((DAT_RETURN)(DAT_CLASS_ERROR | DAT_MODEL_NOT_SUPPORTED))

/* clang-format off */
#define ANY_ROW(name, posts, want) \
	{ "dat_" #name, offsetof(DAT_PROVIDER, name##_func), name##_call, posts, want }
#define ROW(name)     ANY_ROW(name, false, DAT_SUCCESS)
#define POST(name)    ANY_ROW(name, true, DAT_SUCCESS)
#define REFUSED(name) ANY_ROW(name, false, NOT_SUPPORTED)
/* clang-format on */

const struct call_row call_rows[] = {
	ROW(ia_open),
	ROW(ia_query),
	ROW(get_handle_type),
	ROW(set_consumer_context),
	ROW(get_consumer_context),
	ROW(cno_create),
	ROW(cno_modify_agent),
	ROW(cno_query),
	ROW(evd_create),
	ROW(evd_query),
	ROW(evd_modify_cno),
	ROW(evd_disable),
	ROW(evd_enable),
	ROW(evd_set_unwaitable),
	ROW(evd_clear_unwaitable),
	ROW(evd_post_se),
	ROW(cno_wait),
	ROW(evd_wait),
	ROW(evd_dequeue),
	ROW(evd_resize),
	ROW(pz_create),
	ROW(pz_query),
	ROW(lmr_create),
	ROW(lmr_query),
	ROW(lmr_sync_rdma_read),
	ROW(lmr_sync_rdma_write),
	ROW(rmr_create),
	ROW(rmr_query),
	ROW(srq_create),
	ROW(srq_query),
	ROW(srq_set_lw),
	ROW(srq_resize),
	ROW(srq_post_recv),
	ROW(ep_create),
	ROW(ep_create_with_srq),
	ROW(ep_query),
	ROW(ep_modify),
	ROW(ep_get_status),
	ROW(ep_recv_query),
	ROW(ep_set_watermark),
	ROW(ep_post_recv),
	POST(ep_post_send),
	POST(ep_post_rdma_write),
	POST(ep_post_rdma_read),
	ROW(rmr_bind),
#if DAT_EDITION == 2
	ROW(cno_fd_create),
	ROW(cno_trigger),
	POST(ep_post_send_with_invalidate),
	REFUSED(ep_post_rdma_read_to_rmr),
	ROW(rmr_create_for_ep),
	ROW(csp_create),
	ROW(csp_query),
	ROW(csp_free),
	ROW(ep_common_connect),
	ROW(ia_ha_related),
	ROW(handle_extendedop),
#endif
	ROW(psp_create),
	ROW(psp_create_any),
	ROW(psp_query),
	ROW(rsp_create),
	ROW(rsp_query),
	ROW(ep_connect),
	ROW(ep_dup_connect),
	ROW(cr_query),
	ROW(cr_accept),
	ROW(cr_reject),
	ROW(cr_handoff),
	ROW(ep_disconnect),
	ROW(ep_reset),
	ROW(rsp_free),
	ROW(psp_free),
	ROW(ep_free),
	ROW(srq_free),
	ROW(rmr_free),
	ROW(lmr_free),
	ROW(pz_free),
	ROW(evd_free),
	ROW(cno_free),
	ROW(ia_close),
	{ NULL, 0, NULL, false, DAT_SUCCESS },
};

unsigned calls_count(void)
{
	return sizeof(call_rows) / sizeof(call_rows[0]) - 1;
}

const struct call_row *call_named(const char *name)
{
	const struct call_row *row = call_rows;

	while (strcmp(row->name, name) != 0)
		row++;
	return row;
}

static const struct call_row *row_of_slot(size_t slot)
{
	const struct call_row *found = NULL;

	for (const struct call_row *row = call_rows; row->name; row++) {
		if (row->slot != slot)
			continue;
		ck_assert_msg(!found, "%s has two rows", row->name);
		found = row;
	}
	return found;
}

/* All that follows the two data members is calls. */
void calls_check_rows(void)
{
	for (size_t slot = offsetof(DAT_PROVIDER, ia_open_func); slot < sizeof(DAT_PROVIDER);
	     slot += sizeof(void (*)(void)))
		ck_assert_msg(row_of_slot(slot) != NULL, "the call behind %s has no row",
			      slot == offsetof(DAT_PROVIDER, ia_open_func)
				      ? "the data"
				      : row_of_slot(slot - sizeof(void (*)(void)))->name);
}

/* ---- the objects ---- */

#define MUST(call)                                                                                 \
	do {                                                                                       \
		DAT_RETURN must_ret_ = (call);                                                     \
                                                                                                   \
		ck_assert_msg(must_ret_ == DAT_SUCCESS, "%s: %#x", #call, must_ret_);              \
	} while (0)

DAT_EVENT calls_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number)
{
	DAT_EVENT event;
	DAT_COUNT nmore;

	MUST(DAT_EVD_WAIT(evd, LONG_ENOUGH, 1, &event, &nmore));
	ck_assert_msg(event.event_number == number, "event %#x, not %#x", event.event_number,
		      number);
	return event;
}

static DAT_EVD_HANDLE made_evd(const struct calls *c, DAT_CNO_HANDLE cno, DAT_EVD_FLAGS flags)
{
	DAT_EVD_HANDLE evd;

	MUST(DAT_EVD_CREATE(c->ia, 16, cno, flags, &evd));
	return evd;
}

static DAT_EP_HANDLE made_ep(const struct calls *c, DAT_EVD_HANDLE recv_evd)
{
	DAT_EP_HANDLE ep;

	MUST(DAT_EP_CREATE(c->ia, c->pz, recv_evd, c->request_evd, c->connect_evd, NULL, &ep));
	return ep;
}

/* The object that the call of a row makes. */
static DAT_HANDLE made_by(struct calls *c, DAT_RETURN (*call)(struct calls *))
{
	MUST(call(c));
	return c->made;
}

static void prepare_memory(struct calls *c)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = c->memory };

	c->spare_pz = made_by(c, pz_create_call);
	c->pz = made_by(c, pz_create_call);
	MUST(DAT_HANDLE_TO_PROVIDER(c->ia)->lmr_create_func(
		c->ia, DAT_MEM_TYPE_VIRTUAL, region, CALLS_MEMORY, c->pz, DAT_MEM_PRIV_ALL_FLAG,
		WITH_VA(&c->lmr), &c->local.lmr_context, &c->remote.rmr_context, NULL, NULL));
	c->local.virtual_address = (uintptr_t)c->memory;
	c->remote.REMOTE_ADDRESS = (uintptr_t)c->memory + CALLS_MEMORY / 2;
	c->local.segment_length = 64;
	c->remote.segment_length = 64;
	c->spare_lmr = made_by(c, lmr_create_call);
	c->rmr = made_by(c, rmr_create_call);
	c->spare_rmr = made_by(c, rmr_create_call);
}

/* There is an event for each wait and each dequeue, those of the test and those of all calls. */
static void prepare_events(struct calls *c)
{
	c->cno = made_by(c, cno_create_call);
	c->spare_cno = made_by(c, cno_create_call);
	c->recv_evd = made_evd(c, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG);
	c->peer_evd = made_evd(c, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG);
	c->request_evd = made_evd(c, DAT_HANDLE_NULL,
				  (DAT_EVD_FLAGS)(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG));
	c->connect_evd = made_evd(c, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG);
	c->cr_evd = made_evd(c, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG);
	c->software_evd = made_evd(c, c->cno, DAT_EVD_SOFTWARE_FLAG);
	c->idle_evd = made_evd(c, DAT_HANDLE_NULL, DAT_EVD_SOFTWARE_FLAG);
	c->resized_evd = made_evd(c, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG);
	c->spare_evd = made_evd(c, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG);
	for (unsigned i = 0; i < 4; i++)
		MUST(evd_post_se_call(c));
}

static void prepare_endpoints(struct calls *c)
{
	DAT_EP_HANDLE *const eps[] = { &c->up_ep,      &c->leaving_ep, &c->down_ep,
				       &c->passive_ep, &c->like_ep,    &c->reserved_ep,
				       &c->idle_ep,    &c->active_ep,  &c->spare_ep };

	c->srq = made_by(c, srq_create_call);
	c->spare_srq = made_by(c, srq_create_call);
	for (size_t i = 0; i < sizeof(eps) / sizeof(eps[0]); i++)
		*eps[i] = made_ep(c, c->recv_evd);
	MUST(DAT_EP_POST_RECV(c->spare_ep, 1, &c->local, COOKIE, DEFAULT));
}

/* ---- the connections ---- */

static void ask(struct calls *c, DAT_EP_HANDLE ep)
{
	MUST(DAT_EP_CONNECT(ep, (DAT_IA_ADDRESS_PTR)&c->address, c->qual, DAT_TIMEOUT_INFINITE, 0,
			    NULL, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
}

static DAT_CR_HANDLE next_cr(const struct calls *c)
{
	return calls_event(c->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
		.event_data.cr_arrival_event_data.cr_handle;
}

static DAT_CR_HANDLE made_cr(struct calls *c)
{
	if (c->peer)
		c->peer->request(c);
	else
		ask(c, made_ep(c, c->peer_evd));
	return next_cr(c);
}

/* The receives of the other end take what the calls send. */
static void accept_own(struct calls *c)
{
	DAT_EP_HANDLE ep = made_ep(c, c->peer_evd);
	DAT_CR_HANDLE cr = next_cr(c);

	for (unsigned i = 0; i < 4; i++)
		MUST(DAT_EP_POST_RECV(ep, 1, &c->local, COOKIE, DEFAULT));
	MUST(DAT_CR_ACCEPT(cr, ep, 0, NULL));
	(void)calls_event(c->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

void calls_connect(struct calls *c, DAT_EP_HANDLE ep)
{
	ask(c, ep);
	if (c->peer)
		c->peer->accept(c, ep);
	else
		accept_own(c);
	(void)calls_event(c->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

static void prepare_connections(struct calls *c)
{
	DAT_IA_ATTR attr;

	MUST(DAT_IA_QUERY(c->ia, NULL, DAT_IA_FIELD_ALL, &attr, 0, NULL));
	memcpy(&c->address, attr.ia_address_ptr, sizeof(struct sockaddr_in));
	c->next_qual = 45321;
	MUST(DAT_PSP_CREATE_ANY(c->ia, &c->other_qual, c->cr_evd, DAT_PSP_CONSUMER_FLAG,
				&c->other_psp));
	c->spare_psp = made_by(c, psp_create_any_call);
	MUST(DAT_RSP_CREATE(c->ia, c->next_qual++, made_ep(c, c->recv_evd), c->cr_evd, &c->rsp));
	MUST(DAT_RSP_CREATE(c->ia, c->next_qual++, made_ep(c, c->recv_evd), c->cr_evd,
			    &c->spare_rsp));
	MUST(DAT_PSP_CREATE_ANY(c->ia, &c->qual, c->cr_evd, DAT_PSP_CONSUMER_FLAG, &c->psp));
	calls_connect(c, c->up_ep);
	calls_connect(c, c->leaving_ep);
	calls_connect(c, c->down_ep);
	MUST(DAT_EP_DISCONNECT(c->down_ep, DAT_CLOSE_ABRUPT_FLAG));
	(void)calls_event(c->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	if (!c->peer)
		(void)calls_event(c->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	c->queried_cr = made_cr(c);
	c->accepted_cr = made_cr(c);
	c->rejected_cr = made_cr(c);
	c->handed_cr = made_cr(c);
}

/* The spare window is bound. */
static void bind_window(struct calls *c)
{
	MUST(DAT_HANDLE_TO_PROVIDER(c->spare_rmr)
		     ->rmr_bind_func(c->spare_rmr, WITH_LMR(&c->local),
				     DAT_MEM_PRIV_REMOTE_READ_FLAG, WITH_VA(c->up_ep),
				     (DAT_RMR_COOKIE){ .as_64 = 0 }, DEFAULT, &c->rmr_context));
	if (c->peer)
		c->peer->complete(c, c->up_ep);
	(void)calls_event(c->request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
}

/* ---- what DAT 2.0 added ---- */

#if DAT_EDITION == 2
static void prepare_added(struct calls *c)
{
	c->fd_cno = made_by(c, cno_fd_create_call);
	c->fd_evd = made_evd(c, c->fd_cno, DAT_EVD_SOFTWARE_FLAG);
	c->common_ep = made_ep(c, c->recv_evd);
	c->csp = made_by(c, csp_create_call);
	c->spare_csp = made_by(c, csp_create_call);
}
#else
static void prepare_added(struct calls *c)
{
	(void)c;
}
#endif

/* ---- all of it ---- */

void calls_prepare(struct calls *c, DAT_IA_HANDLE ia, const struct calls_peer *peer)
{
	DAT_PZ_HANDLE pz;

	*c = (struct calls){ .ia = ia, .peer = peer };
	prepare_memory(c);
	prepare_events(c);
	prepare_endpoints(c);
	prepare_connections(c);
	bind_window(c);
	prepare_added(c);
	for (unsigned i = 0; i < 2; i++) {
		MUST(open_again(c, &c->spare_ias[i]));
		MUST(DAT_PZ_CREATE(c->spare_ias[i], &pz));
	}
}

void calls_make_all(struct calls *c, const struct call_row *made)
{
	for (const struct call_row *row = call_rows; row->name; row++) {
		DAT_RETURN ret = row->run(c);

		ck_assert_msg(ret == row->want || row == made, "after %s: %s: %#x",
			      made ? made->name : "nothing", row->name, ret);
	}
}

/* ---- in a thread that is cancelled ---- */

struct cancelled_call {
	struct calls *calls;
	const struct call_row *row;
	bool returned;
	DAT_RETURN answer;
};

/* No checks of the test library: they are cancellation points. */
static void *cancelled_call_main(void *arg)
{
	struct cancelled_call *call = arg;

	pthread_cancel(pthread_self());
	call->answer = call->row->run(call->calls);
	call->returned = true;
	pthread_testcancel();
	return NULL;
}

bool calls_make_cancelled(struct calls *c, const struct call_row *row)
{
	struct cancelled_call call = { .calls = c, .row = row };
	pthread_t thread;
	void *result;

	ck_assert_int_eq(pthread_create(&thread, NULL, cancelled_call_main, &call), 0);
	ck_assert_int_eq(pthread_join(thread, &result), 0);
	ck_assert_msg(result == PTHREAD_CANCELED, "%s: no request was pending", row->name);
	ck_assert_msg(!call.returned || call.answer == row->want, "%s: %#x", row->name,
		      call.answer);
	return !call.returned;
}

/* ---- the end ---- */

static void close_abruptly(DAT_IA_HANDLE ia)
{
	MUST(DAT_HANDLE_TO_PROVIDER(ia)->ia_close_func(ia, DAT_CLOSE_ABRUPT_FLAG));
}

void calls_close(struct calls *c)
{
	for (unsigned i = 0; i < c->ias_made; i++)
		close_abruptly(c->made_ias[i]);
	for (unsigned i = c->spares_closed; i < 2; i++)
		close_abruptly(c->spare_ias[i]);
	close_abruptly(c->ia);
}

unsigned calls_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	ck_assert_ptr_nonnull(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}
