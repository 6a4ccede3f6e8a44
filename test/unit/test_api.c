/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of libdat that only find their provider: each reaches its own slot of the provider's
 * table with its own arguments, or refuses its handle.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>

#include "registry_test.h"

#define NAME "here"

static struct registry_object ia_object, other_ia_object, plain_object;

/* The queue length chooses the object: 1 is ia_object, any other is other_ia_object. */
static DAT_RETURN api_ia_open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *evd,
			      DAT_IA_HANDLE *ia)
{
	(void)name;
	(void)evd;
	*ia = qlen == 1 ? &ia_object : &other_ia_object;
	return DAT_SUCCESS;
}

/* Called by the provider while it closes an IA. */
static void (*during_close)(void);

static DAT_RETURN api_ia_close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS flags)
{
	(void)ia;
	if (during_close)
		during_close();
	return flags == DAT_CLOSE_GRACEFUL_FLAG ? IA_IN_USE : DAT_SUCCESS;
}

static DAT_PROVIDER table = { .device_name = NAME,
			      .ia_open_func = api_ia_open,
			      .ia_close_func = api_ia_close };

static const DAT_PROVIDER_INFO info = { NAME, DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_FALSE };

/*
 * The arguments of every call are passed as words, so all calls can be made through one prototype:
 * it has as many words as the longest call, and so has the slot below. A test checks only the words
 * that its call has.
 */
#define WORDS 13
typedef DAT_RETURN word_call(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
			     uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
			     uintptr_t);

static uintptr_t slot_args[WORDS];

/* An error, because libdat reads the results of a call that succeeds. */
#define REACHED ((DAT_RETURN)0x80041234U)

static DAT_RETURN slot(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f,
		       uintptr_t g, uintptr_t h, uintptr_t i, uintptr_t j, uintptr_t k, uintptr_t l,
		       uintptr_t m)
{
	const uintptr_t words[WORDS] = { a, b, c, d, e, f, g, h, i, j, k, l, m };

	memcpy(slot_args, words, sizeof(slot_args));
	return REACHED;
}

enum takes {
	TAKES_IA,
	TAKES_OBJECT,
	TAKES_ANY,
};

static const struct call {
	const char *name;
	void (*call)(void);
	size_t offset;	  /* of its slot in the table */
	int words;	  /* of its arguments */
	enum takes takes; /* as the first argument */
	DAT_RETURN bad;	  /* the status for a bad first argument */
} calls[] = {
#define CALL(name, words, takes, kind)                                                             \
	{                                                                                          \
		"dat_" #name, (void (*)(void))dat_##name, offsetof(DAT_PROVIDER, name##_func),     \
			words, takes, ERROR_OF(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE##kind)       \
	}
	CALL(ia_query, 6, TAKES_IA, _IA),
	CALL(set_consumer_context, 2, TAKES_ANY, 1),
	CALL(get_consumer_context, 2, TAKES_ANY, 1),
	CALL(get_handle_type, 2, TAKES_ANY, 1),
	CALL(cno_create, 4, TAKES_IA, _IA),
	CALL(cno_modify_agent, 3, TAKES_OBJECT, _CNO),
	CALL(cno_query, 3, TAKES_OBJECT, _CNO),
	CALL(cno_free, 1, TAKES_OBJECT, _CNO),
	CALL(cno_wait, 3, TAKES_OBJECT, _CNO),
	CALL(cr_query, 3, TAKES_OBJECT, _CR),
	CALL(cr_accept, 4, TAKES_OBJECT, _CR),
	CALL(cr_handoff, 2, TAKES_OBJECT, _CR),
	CALL(evd_create, 5, TAKES_IA, _IA),
	CALL(evd_query, 3, TAKES_OBJECT, 1),
	CALL(evd_modify_cno, 2, TAKES_OBJECT, 1),
	CALL(evd_enable, 1, TAKES_OBJECT, 1),
	CALL(evd_disable, 1, TAKES_OBJECT, 1),
	CALL(evd_wait, 5, TAKES_OBJECT, 1),
	CALL(evd_resize, 2, TAKES_OBJECT, 1),
	CALL(evd_post_se, 2, TAKES_OBJECT, 1),
	CALL(evd_dequeue, 2, TAKES_OBJECT, 1),
	CALL(evd_free, 1, TAKES_OBJECT, 1),
	CALL(ep_create, 7, TAKES_IA, _IA),
	CALL(ep_query, 3, TAKES_OBJECT, _EP),
	CALL(ep_modify, 3, TAKES_OBJECT, _EP),
	CALL(ep_connect, 8, TAKES_OBJECT, _EP),
	CALL(ep_dup_connect, 6, TAKES_OBJECT, _EP),
	CALL(ep_disconnect, 2, TAKES_OBJECT, _EP),
	CALL(ep_post_send, 5, TAKES_OBJECT, _EP),
	CALL(ep_post_recv, 5, TAKES_OBJECT, _EP),
	CALL(ep_post_rdma_read, 6, TAKES_OBJECT, _EP),
	CALL(ep_post_rdma_write, 6, TAKES_OBJECT, _EP),
	CALL(ep_get_status, 4, TAKES_OBJECT, _EP),
	CALL(ep_free, 1, TAKES_OBJECT, _EP),
	CALL(lmr_query, 3, TAKES_OBJECT, _LMR),
	CALL(lmr_free, 1, TAKES_OBJECT, _LMR),
	CALL(rmr_create, 2, TAKES_OBJECT, _PZ),
	CALL(rmr_query, 3, TAKES_OBJECT, _RMR),
	CALL(rmr_free, 1, TAKES_OBJECT, _RMR),
	CALL(psp_create, 5, TAKES_IA, _IA),
	CALL(psp_query, 3, TAKES_OBJECT, _PSP),
	CALL(psp_free, 1, TAKES_OBJECT, _PSP),
	CALL(rsp_create, 5, TAKES_IA, _IA),
	CALL(rsp_query, 3, TAKES_OBJECT, _RSP),
	CALL(rsp_free, 1, TAKES_OBJECT, _RSP),
	CALL(pz_create, 2, TAKES_IA, _IA),
	CALL(pz_query, 3, TAKES_OBJECT, _PZ),
	CALL(pz_free, 1, TAKES_OBJECT, _PZ),
	CALL(psp_create_any, 5, TAKES_IA, _IA),
	CALL(ep_reset, 1, TAKES_OBJECT, _EP),
	CALL(evd_set_unwaitable, 1, TAKES_OBJECT, 1),
	CALL(evd_clear_unwaitable, 1, TAKES_OBJECT, 1),
	CALL(lmr_sync_rdma_read, 3, TAKES_IA, _IA),
	CALL(lmr_sync_rdma_write, 3, TAKES_IA, _IA),
	CALL(ep_create_with_srq, 8, TAKES_IA, _IA),
	CALL(ep_recv_query, 3, TAKES_OBJECT, _EP),
	CALL(ep_set_watermark, 3, TAKES_OBJECT, _EP),
	CALL(srq_create, 4, TAKES_IA, _IA),
	CALL(srq_free, 1, TAKES_OBJECT, _SRQ),
	CALL(srq_post_recv, 4, TAKES_OBJECT, _SRQ),
	CALL(srq_query, 3, TAKES_OBJECT, _SRQ),
	CALL(srq_resize, 2, TAKES_OBJECT, _SRQ),
	CALL(srq_set_lw, 2, TAKES_OBJECT, _SRQ),
#if DAT_EDITION == 2
	CALL(cr_reject, 3, TAKES_OBJECT, _CR),
	CALL(lmr_create, 13, TAKES_IA, _IA),
	CALL(rmr_bind, 9, TAKES_OBJECT, _RMR),
	CALL(csp_create, 5, TAKES_IA, _IA),
	CALL(csp_query, 3, TAKES_OBJECT, _CSP),
	CALL(csp_free, 1, TAKES_OBJECT, _CSP),
	CALL(ep_common_connect, 5, TAKES_OBJECT, _EP),
	CALL(rmr_create_for_ep, 2, TAKES_OBJECT, _PZ),
	CALL(ep_post_send_with_invalidate, 7, TAKES_OBJECT, _EP),
	CALL(ep_post_rdma_read_to_rmr, 5, TAKES_OBJECT, _EP),
	CALL(cno_fd_create, 3, TAKES_IA, _IA),
	CALL(cno_trigger, 2, TAKES_OBJECT, _CNO),
#else
	CALL(cr_reject, 1, TAKES_OBJECT, _CR),
	CALL(lmr_create, 12, TAKES_IA, _IA),
	CALL(rmr_bind, 7, TAKES_OBJECT, _RMR),
#endif
};

static DAT_IA_HANDLE api_open(int qlen)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;

	ck_assert_uint_eq(dat_ia_open((char *)NAME, qlen, &evd, &ia), DAT_SUCCESS);
	return ia;
}

static void setup(void)
{
	use_conf("");
	ia_object.provider = other_ia_object.provider = plain_object.provider = &table;
	ck_assert_uint_eq(dat_registry_add_provider(&table, &info), DAT_SUCCESS);
}

static DAT_RETURN call_make(const struct call *call, const void *first)
{
	word_call *function = (word_call *)call->call;

	memset(slot_args, 0, sizeof(slot_args));
	return function((uintptr_t)first, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13);
}

/*
 * The slot must get @translated in place of @first, and the other arguments as they are. Enumerated
 * arguments are 32 bits wide, so only that part of a word is compared.
 */
static void call_reaches(const struct call *call, const void *first, const void *translated)
{
	ck_assert_msg(call_make(call, first) == REACHED, "%s", call->name);
	ck_assert_msg(slot_args[0] == (uintptr_t)translated, "%s", call->name);
	for (int i = 1; i < call->words; i++)
		ck_assert_msg((uint32_t)slot_args[i] == (uint32_t)i + 1, "%s: argument word %d",
			      call->name, i + 1);
}

/* Fills the slot of this call only: a call through any other slot crashes. */
static void slot_fill(const struct call *call)
{
	void (*filled)(void) = (void (*)(void))slot;

	memcpy((char *)&table + call->offset, &filled, sizeof(filled));
}

START_TEST(a_call_reaches_its_own_slot_with_its_arguments)
{
	const struct call *call = &calls[_i];
	DAT_IA_HANDLE ia = api_open(1);

	slot_fill(call);
	if (call->takes != TAKES_IA)
		call_reaches(call, &plain_object, &plain_object);
	if (call->takes != TAKES_OBJECT) {
		call_reaches(call, ia, &ia_object);
		call_reaches(call, &ia_object, &ia_object);
	}
}
END_TEST

static void call_refuses(const struct call *call, const void *first)
{
	DAT_RETURN ret = call_make(call, first);

	ck_assert_msg(ret == call->bad, "%s(%p): 0x%08x", call->name, first, ret);
}

START_TEST(a_call_refuses_a_bad_handle)
{
	const struct call *call = &calls[_i];
	DAT_IA_HANDLE ia = api_open(1), closed = api_open(2);

	ck_assert_uint_eq(dat_ia_close(closed, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	slot_fill(call);
	call_refuses(call, NULL);
	for (unsigned i = 1; i < 8; i++)
		call_refuses(call, (const char *)&plain_object + i);
	call_refuses(call, (const void *)8);
	call_refuses(call, (const void *)4088);
	call_refuses(call, closed);
	call_refuses(call, (const void *)4095);
	if (call->takes == TAKES_OBJECT)
		call_refuses(call, ia);
	if (call->takes == TAKES_IA) {
		call_refuses(call, &plain_object);
		call_refuses(call, &other_ia_object);
		call_refuses(call, (const void *)-1);
	}
}
END_TEST

/* Declared in no header. */
DAT_RETURN dats_get_ia_handle(unsigned long handle, DAT_IA_HANDLE *ia);

static DAT_IA_HANDLE other_handle_of(DAT_IA_HANDLE ia)
{
	DAT_IA_HANDLE found = NULL;

	ck_assert_uint_eq(dats_get_ia_handle((unsigned long)ia, &found), DAT_SUCCESS);
	return found;
}

static void has_no_other_handle(const void *value)
{
	DAT_IA_HANDLE found = &found;

	ck_assert_uint_eq(dats_get_ia_handle((unsigned long)value, &found), BAD_IA);
	ck_assert_ptr_eq(found, &found);
}

/*
 * Providers of DAT 2.0 ask for the handle that the consumer has. In DAT 1.2 the answer is always
 * the provider's.
 */
START_TEST(dats_get_ia_handle_translates)
{
	DAT_IA_HANDLE ia = api_open(1), other = api_open(2);

	ck_assert_ptr_eq(other_handle_of(ia), &ia_object);
	ck_assert_ptr_eq(other_handle_of(&ia_object), DAT_EDITION == 2 ? ia : &ia_object);
	ck_assert_ptr_eq(other_handle_of(&other_ia_object),
			 DAT_EDITION == 2 ? other : &other_ia_object);
	ck_assert_uint_eq(dat_ia_close(other, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	has_no_other_handle(other);
	has_no_other_handle(&other_ia_object);
	has_no_other_handle(&plain_object);
	has_no_other_handle(NULL);
	has_no_other_handle((char *)&ia_object + 1);
	has_no_other_handle((void *)4095);
	has_no_other_handle((void *)4096);
	has_no_other_handle((void *)-1);
}
END_TEST

/* What the provider returns: the IA handle in a query or an event, and the status. */
static void *provider_ia;
static DAT_RETURN provider_status;

#define QUERY(kind, KIND)                                                                          \
	static DAT_RETURN query_##kind(DAT_##KIND##_HANDLE handle, DAT_##KIND##_PARAM_MASK mask,   \
				       DAT_##KIND##_PARAM *param)                                  \
	{                                                                                          \
		(void)handle;                                                                      \
		(void)mask;                                                                        \
		param->ia_handle = provider_ia;                                                    \
		return provider_status;                                                            \
	}                                                                                          \
	static DAT_IA_HANDLE ask_##kind(bool for_ia)                                               \
	{                                                                                          \
		DAT_##KIND##_PARAM param;                                                          \
		DAT_RETURN ret;                                                                    \
                                                                                                   \
		table.kind##_query_func = query_##kind;                                            \
		ret = dat_##kind##_query(&plain_object, for_ia ? DAT_##KIND##_FIELD_IA_HANDLE : 0, \
					 &param);                                                  \
		ck_assert_uint_eq(ret, provider_status);                                           \
		return param.ia_handle;                                                            \
	}
QUERY(ep, EP)
QUERY(evd, EVD)
QUERY(lmr, LMR)
QUERY(rmr, RMR)
QUERY(pz, PZ)
QUERY(psp, PSP)
QUERY(rsp, RSP)
QUERY(cno, CNO)
QUERY(srq, SRQ)
#if DAT_EDITION == 2
QUERY(csp, CSP)
#endif

static DAT_IA_HANDLE (*const queries[])(bool for_ia) = {
	ask_ep,	 ask_evd, ask_lmr, ask_rmr, ask_pz, ask_psp, ask_rsp, ask_cno, ask_srq,
#if DAT_EDITION == 2
	ask_csp,
#endif
};

START_TEST(a_query_returns_the_consumers_ia_handle)
{
	DAT_IA_HANDLE other = api_open(2), ia = api_open(1);

	provider_ia = &ia_object;
	ck_assert_ptr_eq(queries[_i](true), ia);
	provider_ia = &other_ia_object;
	ck_assert_ptr_eq(queries[_i](true), other);
	provider_ia = ia; /* the provider returns the consumer's handle itself */
	ck_assert_ptr_eq(queries[_i](true), ia);
	provider_ia = &plain_object;
	ck_assert_ptr_eq(queries[_i](true), &plain_object);
	ck_assert_uint_eq(dat_ia_close(other, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	provider_ia = NULL;
	ck_assert_ptr_null(queries[_i](true));
	provider_ia = &ia_object;
	ck_assert_ptr_eq(queries[_i](false), &ia_object);
	provider_status = REACHED;
	ck_assert_ptr_eq(queries[_i](true), &ia_object);
	provider_status = DAT_SUCCESS;
	ck_assert_uint_eq(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_ptr_eq(queries[_i](true), &ia_object);
}
END_TEST

static DAT_EVENT_NUMBER provider_event;

static DAT_RETURN api_event_get(DAT_EVENT *event)
{
	event->event_number = provider_event;
	event->event_data.asynch_error_event_data.dat_handle = provider_ia;
	return provider_status;
}

static DAT_RETURN api_evd_dequeue(DAT_EVD_HANDLE evd, DAT_EVENT *event)
{
	(void)evd;
	return api_event_get(event);
}

static DAT_RETURN api_evd_wait(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout, DAT_COUNT threshold,
			       DAT_EVENT *event, DAT_COUNT *nmore)
{
	(void)evd;
	(void)timeout;
	(void)threshold;
	(void)nmore;
	return api_event_get(event);
}

/* The handle in the event that the consumer gets; the same by dat_evd_dequeue and dat_evd_wait. */
static DAT_HANDLE consumer_event_handle(void)
{
	DAT_EVENT dequeued, waited;
	DAT_COUNT nmore;

	table.evd_dequeue_func = api_evd_dequeue;
	table.evd_wait_func = api_evd_wait;
	ck_assert_uint_eq(dat_evd_dequeue(&plain_object, &dequeued), provider_status);
	ck_assert_uint_eq(dat_evd_wait(&plain_object, 0, 1, &waited, &nmore), provider_status);
	ck_assert_ptr_eq(dequeued.event_data.asynch_error_event_data.dat_handle,
			 waited.event_data.asynch_error_event_data.dat_handle);
	return waited.event_data.asynch_error_event_data.dat_handle;
}

static const struct {
	DAT_EVENT_NUMBER number;
	bool async;
} events[] = {
	{ DAT_DTO_COMPLETION_EVENT, false },
	{ DAT_RMR_BIND_COMPLETION_EVENT, false },
	{ DAT_CONNECTION_REQUEST_EVENT, false },
	{ DAT_CONNECTION_EVENT_ESTABLISHED, false },
	{ DAT_CONNECTION_EVENT_UNREACHABLE, false },
	{ DAT_ASYNC_ERROR_EVD_OVERFLOW, true },
	{ DAT_ASYNC_ERROR_IA_CATASTROPHIC, true },
	{ DAT_ASYNC_ERROR_EP_BROKEN, true },
	{ DAT_ASYNC_ERROR_TIMED_OUT, true },
	{ DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR, true },
	{ DAT_SOFTWARE_EVENT, false },
};

START_TEST(an_async_event_carries_the_consumers_ia_handle)
{
	DAT_IA_HANDLE ia = api_open(1);

	provider_event = events[_i].number;
	provider_ia = &ia_object;
	ck_assert_ptr_eq(consumer_event_handle(), events[_i].async ? ia : &ia_object);
	provider_ia = &plain_object;
	ck_assert_ptr_eq(consumer_event_handle(), &plain_object);
	provider_ia = &ia_object;
	provider_status = DAT_QUEUE_EMPTY;
	ck_assert_ptr_eq(consumer_event_handle(), &ia_object);
}
END_TEST

/* ---- the table of open IAs ---- */

START_TEST(the_lowest_free_handle_is_used_first)
{
	DAT_IA_HANDLE ia;

	for (uintptr_t i = 1; i <= 200; i++)
		ck_assert_uint_eq((uintptr_t)api_open(2), i);
	ck_assert_uint_eq(dat_ia_close((DAT_IA_HANDLE)130, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq(dat_ia_close((DAT_IA_HANDLE)7, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq((uintptr_t)api_open(2), 7);
	ia = api_open(2);
	ck_assert_uint_eq((uintptr_t)ia, 130);
	ck_assert_uint_eq((uintptr_t)api_open(2), 201);
}
END_TEST

START_TEST(open_fails_when_4095_ias_are_open)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia = &evd;

	for (uintptr_t i = 1; i < 4096; i++)
		ck_assert_uint_eq((uintptr_t)api_open(2), i);
	ck_assert_uint_eq(dat_ia_open((char *)NAME, 2, &evd, &ia),
			  ERROR_OF(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
	ck_assert_ptr_null(ia);
	ck_assert_uint_eq(dat_ia_close((DAT_IA_HANDLE)4095, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq((uintptr_t)api_open(2), 4095);
}
END_TEST

START_TEST(a_closed_handle_is_refused)
{
	DAT_IA_HANDLE ia = api_open(1), other = api_open(2);

	ck_assert_uint_eq(dat_ia_close(NULL, DAT_CLOSE_ABRUPT_FLAG), BAD_IA);
	ck_assert_uint_eq(dat_ia_close((DAT_IA_HANDLE)3, DAT_CLOSE_ABRUPT_FLAG), BAD_IA);
	ck_assert_uint_eq(dat_ia_close(&plain_object, DAT_CLOSE_ABRUPT_FLAG), BAD_IA);
	ck_assert_uint_eq(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), IA_IN_USE);
	ck_assert_uint_eq(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), BAD_IA);
	ck_assert_uint_eq(dat_ia_close(&other_ia_object, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq(dat_ia_close(other, DAT_CLOSE_ABRUPT_FLAG), BAD_IA);
}
END_TEST

static void close_again(void)
{
	during_close = NULL;
	ck_assert_uint_eq(dat_ia_close((DAT_IA_HANDLE)1, DAT_CLOSE_ABRUPT_FLAG), BAD_IA);
	ck_assert_uint_eq(dat_ia_close(&ia_object, DAT_CLOSE_ABRUPT_FLAG), BAD_IA);
}

START_TEST(a_handle_is_refused_while_it_is_closed)
{
	DAT_IA_HANDLE ia = api_open(1);

	during_close = close_again;
	ck_assert_uint_eq(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), IA_IN_USE);
	ck_assert_uint_eq(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}
END_TEST

/* The provider has freed its object, and another open gets it before the close has returned. */
static void open_the_same(void)
{
	during_close = NULL;
	ck_assert_uint_eq((uintptr_t)api_open(1), 2);
	provider_ia = &ia_object;
	ck_assert_uint_eq((uintptr_t)ask_pz(true), 2);
}

START_TEST(an_object_reused_during_close_gets_another_handle)
{
	DAT_IA_HANDLE ia = api_open(1);

	during_close = open_the_same;
	ck_assert_uint_eq(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq((uintptr_t)ask_pz(true), 2);
	ck_assert_uint_eq(dat_ia_close(&ia_object, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq(dat_ia_close((DAT_IA_HANDLE)2, DAT_CLOSE_ABRUPT_FLAG), BAD_IA);
}
END_TEST

/* The table of open IAs grows and shrinks while the main thread looks up its IA. */
static void *open_and_close_ias(void *arg)
{
	DAT_IA_HANDLE ias[40];

	(void)arg;
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < COUNT(ias); i++)
			ias[i] = api_open(2);
		for (int i = 0; i < COUNT(ias); i++)
			ck_assert_uint_eq(dat_ia_close(ias[i], DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	}
	return NULL;
}

START_TEST(calls_work_while_other_threads_open_and_close)
{
	const struct call *query = &calls[0];
	DAT_IA_HANDLE ia = api_open(1);
	pthread_t threads[3];

	slot_fill(query);
	for (int i = 0; i < COUNT(threads); i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, open_and_close_ias, NULL), 0);
	for (int i = 0; i < 5000; i++)
		call_reaches(query, i & 1 ? ia : &ia_object, &ia_object);
	for (int i = 0; i < COUNT(threads); i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_uint_eq((uintptr_t)api_open(2), 2);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("calls");

	tcase_add_checked_fixture(cases, setup, NULL);
	tcase_add_loop_test(cases, a_call_reaches_its_own_slot_with_its_arguments, 0, COUNT(calls));
	tcase_add_loop_test(cases, a_call_refuses_a_bad_handle, 0, COUNT(calls));
	tcase_add_test(cases, dats_get_ia_handle_translates);
	tcase_add_loop_test(cases, a_query_returns_the_consumers_ia_handle, 0, COUNT(queries));
	tcase_add_loop_test(cases, an_async_event_carries_the_consumers_ia_handle, 0,
			    COUNT(events));
	tcase_add_test(cases, the_lowest_free_handle_is_used_first);
	tcase_add_test(cases, open_fails_when_4095_ias_are_open);
	tcase_add_test(cases, a_closed_handle_is_refused);
	tcase_add_test(cases, a_handle_is_refused_while_it_is_closed);
	tcase_add_test(cases, an_object_reused_during_close_gets_another_handle);
	tcase_add_test(cases, calls_work_while_other_threads_open_and_close);
	return run_cases(argc, argv);
}
