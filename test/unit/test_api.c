/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls that only find their provider: each reaches its own slot with its own arguments, or
 * says what is wrong.
 */
#define _GNU_SOURCE
#include <dat/udat.h>
#include <dat/dat_registry.h>
#include <pthread.h>
#include <stdbool.h>

#include "registry_test.h"

#define NAME "here"

/* An object of this test's provider; its IA is one too. */
struct object {
	DAT_PROVIDER *provider;
};

static struct object ia_object, other_ia_object, plain_object;

/* The length of the event queue chooses the object. */
static DAT_RETURN open_ia(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *evd,
			  DAT_IA_HANDLE *ia)
{
	(void)name;
	(void)evd;
	*ia = qlen == 1 ? &ia_object : &other_ia_object;
	return DAT_SUCCESS;
}

/* What else is to happen while an IA is being closed. */
static void (*meanwhile)(void);

static DAT_RETURN close_ia(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS flags)
{
	(void)ia;
	if (meanwhile)
		meanwhile();
	return flags == DAT_CLOSE_GRACEFUL_FLAG ? 0x8007004fU : DAT_SUCCESS;
}

static DAT_PROVIDER table = { .device_name = NAME,
			      .ia_open_func = open_ia,
			      .ia_close_func = close_ia };

static const DAT_PROVIDER_INFO info = { NAME, 1, 2, DAT_FALSE };

/*
 * Whatever its prototype, a call's arguments are words: here it is made with as many as the longest
 * takes, and a slot finds as many. Fewer are looked at.
 */
#define WORDS 12
typedef DAT_RETURN word_call(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
			     uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

static uintptr_t seen[WORDS];

/* No success: a call that succeeds has its results looked at. */
#define REACHED ((DAT_RETURN)0x80041234U)

static DAT_RETURN slot(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f,
		       uintptr_t g, uintptr_t h, uintptr_t i, uintptr_t j, uintptr_t k, uintptr_t l)
{
	const uintptr_t words[WORDS] = { a, b, c, d, e, f, g, h, i, j, k, l };

	memcpy(seen, words, sizeof(seen));
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
	enum takes takes; /* first argument */
	DAT_RETURN bad;	  /* the answer to a bad one */
} calls[] = {
#define CALL(name, words, takes, bad)                                                              \
	{                                                                                          \
		"dat_" #name, (void (*)(void))dat_##name, offsetof(DAT_PROVIDER, name##_func),     \
			words, takes, bad                                                          \
	}
	CALL(ia_query, 6, TAKES_IA, 0x8005000b),
	CALL(set_consumer_context, 2, TAKES_ANY, 0x8005001a),
	CALL(get_consumer_context, 2, TAKES_ANY, 0x8005001a),
	CALL(get_handle_type, 2, TAKES_ANY, 0x8005001a),
	CALL(cno_create, 4, TAKES_IA, 0x8005000b),
	CALL(cno_modify_agent, 3, TAKES_OBJECT, 0x80050013),
	CALL(cno_query, 3, TAKES_OBJECT, 0x80050013),
	CALL(cno_free, 1, TAKES_OBJECT, 0x80050013),
	CALL(cno_wait, 3, TAKES_OBJECT, 0x80050013),
	CALL(cr_query, 3, TAKES_OBJECT, 0x80050012),
	CALL(cr_accept, 4, TAKES_OBJECT, 0x80050012),
	CALL(cr_reject, 1, TAKES_OBJECT, 0x80050012),
	CALL(cr_handoff, 2, TAKES_OBJECT, 0x80050012),
	CALL(evd_create, 5, TAKES_IA, 0x8005000b),
	CALL(evd_query, 3, TAKES_OBJECT, 0x8005001a),
	CALL(evd_modify_cno, 2, TAKES_OBJECT, 0x8005001a),
	CALL(evd_enable, 1, TAKES_OBJECT, 0x8005001a),
	CALL(evd_disable, 1, TAKES_OBJECT, 0x8005001a),
	CALL(evd_wait, 5, TAKES_OBJECT, 0x8005001a),
	CALL(evd_resize, 2, TAKES_OBJECT, 0x8005001a),
	CALL(evd_post_se, 2, TAKES_OBJECT, 0x8005001a),
	CALL(evd_dequeue, 2, TAKES_OBJECT, 0x8005001a),
	CALL(evd_free, 1, TAKES_OBJECT, 0x8005001a),
	CALL(ep_create, 7, TAKES_IA, 0x8005000b),
	CALL(ep_query, 3, TAKES_OBJECT, 0x8005000c),
	CALL(ep_modify, 3, TAKES_OBJECT, 0x8005000c),
	CALL(ep_connect, 8, TAKES_OBJECT, 0x8005000c),
	CALL(ep_dup_connect, 6, TAKES_OBJECT, 0x8005000c),
	CALL(ep_disconnect, 2, TAKES_OBJECT, 0x8005000c),
	CALL(ep_post_send, 5, TAKES_OBJECT, 0x8005000c),
	CALL(ep_post_recv, 5, TAKES_OBJECT, 0x8005000c),
	CALL(ep_post_rdma_read, 6, TAKES_OBJECT, 0x8005000c),
	CALL(ep_post_rdma_write, 6, TAKES_OBJECT, 0x8005000c),
	CALL(ep_get_status, 4, TAKES_OBJECT, 0x8005000c),
	CALL(ep_free, 1, TAKES_OBJECT, 0x8005000c),
	CALL(lmr_create, 12, TAKES_IA, 0x8005000b),
	CALL(lmr_query, 3, TAKES_OBJECT, 0x8005000d),
	CALL(lmr_free, 1, TAKES_OBJECT, 0x8005000d),
	CALL(rmr_create, 2, TAKES_OBJECT, 0x8005000f),
	CALL(rmr_query, 3, TAKES_OBJECT, 0x8005000e),
	CALL(rmr_bind, 7, TAKES_OBJECT, 0x8005000e),
	CALL(rmr_free, 1, TAKES_OBJECT, 0x8005000e),
	CALL(psp_create, 5, TAKES_IA, 0x8005000b),
	CALL(psp_query, 3, TAKES_OBJECT, 0x80050010),
	CALL(psp_free, 1, TAKES_OBJECT, 0x80050010),
	CALL(rsp_create, 5, TAKES_IA, 0x8005000b),
	CALL(rsp_query, 3, TAKES_OBJECT, 0x80050011),
	CALL(rsp_free, 1, TAKES_OBJECT, 0x80050011),
	CALL(pz_create, 2, TAKES_IA, 0x8005000b),
	CALL(pz_query, 3, TAKES_OBJECT, 0x8005000f),
	CALL(pz_free, 1, TAKES_OBJECT, 0x8005000f),
	CALL(psp_create_any, 5, TAKES_IA, 0x8005000b),
	CALL(ep_reset, 1, TAKES_OBJECT, 0x8005000c),
	CALL(evd_set_unwaitable, 1, TAKES_OBJECT, 0x8005001a),
	CALL(evd_clear_unwaitable, 1, TAKES_OBJECT, 0x8005001a),
	CALL(lmr_sync_rdma_read, 3, TAKES_IA, 0x8005000b),
	CALL(lmr_sync_rdma_write, 3, TAKES_IA, 0x8005000b),
	CALL(ep_create_with_srq, 8, TAKES_IA, 0x8005000b),
	CALL(ep_recv_query, 3, TAKES_OBJECT, 0x8005000c),
	CALL(ep_set_watermark, 3, TAKES_OBJECT, 0x8005000c),
	CALL(srq_create, 4, TAKES_IA, 0x8005000b),
	CALL(srq_free, 1, TAKES_OBJECT, 0x80050019),
	CALL(srq_post_recv, 4, TAKES_OBJECT, 0x80050019),
	CALL(srq_query, 3, TAKES_OBJECT, 0x80050019),
	CALL(srq_resize, 2, TAKES_OBJECT, 0x80050019),
	CALL(srq_set_lw, 2, TAKES_OBJECT, 0x80050019),
};

static DAT_IA_HANDLE open_handle(int qlen)
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

static DAT_RETURN make(const struct call *call, const void *first)
{
	word_call *function = (word_call *)call->call;

	memset(seen, 0, sizeof(seen));
	return function((uintptr_t)first, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
}

/* Only this call's slot is filled: any other would crash. Enumerations are half a word. */
static void expect_reached(const struct call *call, const void *first, const void *translated)
{
	ck_assert_msg(make(call, first) == REACHED, "%s", call->name);
	ck_assert_msg(seen[0] == (uintptr_t)translated, "%s", call->name);
	for (int i = 1; i < call->words; i++)
		ck_assert_msg((uint32_t)seen[i] == (uint32_t)i + 1, "%s: argument word %d",
			      call->name, i + 1);
}

static void fill_slot(const struct call *call)
{
	void (*filled)(void) = (void (*)(void))slot;

	memcpy((char *)&table + call->offset, &filled, sizeof(filled));
}

START_TEST(test_dispatch)
{
	const struct call *call = &calls[_i];
	DAT_IA_HANDLE ia = open_handle(1);

	fill_slot(call);
	if (call->takes != TAKES_IA)
		expect_reached(call, &plain_object, &plain_object);
	if (call->takes != TAKES_OBJECT) {
		expect_reached(call, ia, &ia_object);
		expect_reached(call, &ia_object, &ia_object);
	}
}
END_TEST

static void expect_refused(const struct call *call, const void *first)
{
	DAT_RETURN ret = make(call, first);

	ck_assert_msg(ret == call->bad, "%s(%p): 0x%08x", call->name, first, ret);
}

START_TEST(test_bad_handles)
{
	const struct call *call = &calls[_i];
	DAT_IA_HANDLE ia = open_handle(1), closed = open_handle(2);

	ck_assert_uint_eq(dat_ia_close(closed, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	fill_slot(call);
	expect_refused(call, NULL);
	for (unsigned i = 1; i < 8; i++)
		expect_refused(call, (const char *)&plain_object + i);
	expect_refused(call, (const void *)8);
	expect_refused(call, (const void *)4088);
	expect_refused(call, closed);
	expect_refused(call, (const void *)4095);
	if (call->takes == TAKES_OBJECT)
		expect_refused(call, ia);
	if (call->takes == TAKES_IA) {
		expect_refused(call, &plain_object);
		expect_refused(call, &other_ia_object);
		expect_refused(call, (const void *)-1);
	}
}
END_TEST

START_TEST(test_helper)
{
	DAT_RETURN dats_get_ia_handle(unsigned long, DAT_IA_HANDLE *);
	DAT_IA_HANDLE ia = open_handle(1), inner = NULL;

	ck_assert_uint_eq(dats_get_ia_handle((unsigned long)ia, &inner), DAT_SUCCESS);
	ck_assert_ptr_eq(inner, &ia_object);
	ck_assert_uint_eq(dats_get_ia_handle(0, &inner), 0x8005000bU);
	ck_assert_uint_eq(dats_get_ia_handle(2, &inner), 0x8005000bU);
	ck_assert_ptr_eq(inner, &ia_object);
}
END_TEST

/* What a provider may put into the ia_handle of a query. */
static void *shown;
static DAT_RETURN verdict;

#define QUERY(kind, KIND)                                                                          \
	static DAT_RETURN query_##kind(DAT_##KIND##_HANDLE handle, DAT_##KIND##_PARAM_MASK mask,   \
				       DAT_##KIND##_PARAM *param)                                  \
	{                                                                                          \
		(void)handle;                                                                      \
		(void)mask;                                                                        \
		param->ia_handle = shown;                                                          \
		return verdict;                                                                    \
	}                                                                                          \
	static DAT_IA_HANDLE ask_##kind(bool for_ia)                                               \
	{                                                                                          \
		DAT_##KIND##_PARAM param;                                                          \
		DAT_RETURN ret;                                                                    \
                                                                                                   \
		table.kind##_query_func = query_##kind;                                            \
		ret = dat_##kind##_query(&plain_object, for_ia ? DAT_##KIND##_FIELD_IA_HANDLE : 0, \
					 &param);                                                  \
		ck_assert_uint_eq(ret, verdict);                                                   \
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

static DAT_IA_HANDLE (*const queries[])(bool for_ia) = {
	ask_ep, ask_evd, ask_lmr, ask_rmr, ask_pz, ask_psp, ask_rsp, ask_cno, ask_srq,
};

START_TEST(test_query_shows_the_consumers_ia)
{
	DAT_IA_HANDLE other = open_handle(2), ia = open_handle(1);

	shown = &ia_object;
	ck_assert_ptr_eq(queries[_i](true), ia);
	shown = &other_ia_object;
	ck_assert_ptr_eq(queries[_i](true), other);
	shown = ia; /* a provider that knows better */
	ck_assert_ptr_eq(queries[_i](true), ia);
	shown = &plain_object;
	ck_assert_ptr_eq(queries[_i](true), &plain_object);
	ck_assert_uint_eq(dat_ia_close(other, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	shown = NULL;
	ck_assert_ptr_null(queries[_i](true));
	shown = &ia_object;
	ck_assert_ptr_eq(queries[_i](false), &ia_object);
	verdict = REACHED;
	ck_assert_ptr_eq(queries[_i](true), &ia_object);
	verdict = DAT_SUCCESS;
	ck_assert_uint_eq(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_ptr_eq(queries[_i](true), &ia_object);
}
END_TEST

static DAT_EVENT_NUMBER number;

static DAT_RETURN take_event(DAT_EVENT *event)
{
	event->event_number = number;
	event->event_data.asynch_error_event_data.dat_handle = shown;
	return verdict;
}

static DAT_RETURN dequeue(DAT_EVD_HANDLE evd, DAT_EVENT *event)
{
	(void)evd;
	return take_event(event);
}

static DAT_RETURN wait_for_event(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout, DAT_COUNT threshold,
				 DAT_EVENT *event, DAT_COUNT *nmore)
{
	(void)evd;
	(void)timeout;
	(void)threshold;
	(void)nmore;
	return take_event(event);
}

/* The handle in the event as the consumer gets it, by either call. */
static DAT_HANDLE event_handle(void)
{
	DAT_EVENT dequeued, waited;
	DAT_COUNT nmore;

	table.evd_dequeue_func = dequeue;
	table.evd_wait_func = wait_for_event;
	ck_assert_uint_eq(dat_evd_dequeue(&plain_object, &dequeued), verdict);
	ck_assert_uint_eq(dat_evd_wait(&plain_object, 0, 1, &waited, &nmore), verdict);
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

START_TEST(test_async_event_shows_the_consumers_ia)
{
	DAT_IA_HANDLE ia = open_handle(1);

	number = events[_i].number;
	shown = &ia_object;
	ck_assert_ptr_eq(event_handle(), events[_i].async ? ia : &ia_object);
	shown = &plain_object;
	ck_assert_ptr_eq(event_handle(), &plain_object);
	shown = &ia_object;
	verdict = DAT_QUEUE_EMPTY;
	ck_assert_ptr_eq(event_handle(), &ia_object);
}
END_TEST

/* The table of open IAs. */

START_TEST(test_lowest_handle_first)
{
	DAT_IA_HANDLE ia;

	for (uintptr_t i = 1; i <= 200; i++)
		ck_assert_uint_eq((uintptr_t)open_handle(2), i);
	ck_assert_uint_eq(dat_ia_close((DAT_IA_HANDLE)130, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq(dat_ia_close((DAT_IA_HANDLE)7, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq((uintptr_t)open_handle(2), 7);
	ia = open_handle(2);
	ck_assert_uint_eq((uintptr_t)ia, 130);
	ck_assert_uint_eq((uintptr_t)open_handle(2), 201);
}
END_TEST

START_TEST(test_table_full)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia = &evd;

	for (uintptr_t i = 1; i < 4096; i++)
		ck_assert_uint_eq((uintptr_t)open_handle(2), i);
	ck_assert_uint_eq(dat_ia_open((char *)NAME, 2, &evd, &ia), 0x80030002U);
	ck_assert_ptr_null(ia);
	ck_assert_uint_eq(dat_ia_close((DAT_IA_HANDLE)4095, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq((uintptr_t)open_handle(2), 4095);
}
END_TEST

START_TEST(test_close)
{
	DAT_IA_HANDLE ia = open_handle(1), other = open_handle(2);

	ck_assert_uint_eq(dat_ia_close(NULL, DAT_CLOSE_ABRUPT_FLAG), 0x8005000bU);
	ck_assert_uint_eq(dat_ia_close((DAT_IA_HANDLE)3, DAT_CLOSE_ABRUPT_FLAG), 0x8005000bU);
	ck_assert_uint_eq(dat_ia_close(&plain_object, DAT_CLOSE_ABRUPT_FLAG), 0x8005000bU);
	ck_assert_uint_eq(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), 0x8007004fU);
	ck_assert_uint_eq(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), 0x8005000bU);
	ck_assert_uint_eq(dat_ia_close(&other_ia_object, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq(dat_ia_close(other, DAT_CLOSE_ABRUPT_FLAG), 0x8005000bU);
}
END_TEST

static void close_again(void)
{
	meanwhile = NULL;
	ck_assert_uint_eq(dat_ia_close((DAT_IA_HANDLE)1, DAT_CLOSE_ABRUPT_FLAG), 0x8005000bU);
	ck_assert_uint_eq(dat_ia_close(&ia_object, DAT_CLOSE_ABRUPT_FLAG), 0x8005000bU);
}

START_TEST(test_close_during_close)
{
	DAT_IA_HANDLE ia = open_handle(1);

	meanwhile = close_again;
	ck_assert_uint_eq(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), 0x8007004fU);
	ck_assert_uint_eq(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}
END_TEST

/*
 * The provider has let go of its object, and the next open gets it, before the close has returned.
 */
static void open_the_same(void)
{
	meanwhile = NULL;
	ck_assert_uint_eq((uintptr_t)open_handle(1), 2);
	shown = &ia_object;
	ck_assert_uint_eq((uintptr_t)ask_pz(true), 2);
}

START_TEST(test_open_during_close)
{
	DAT_IA_HANDLE ia = open_handle(1);

	meanwhile = open_the_same;
	ck_assert_uint_eq(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq((uintptr_t)ask_pz(true), 2);
	ck_assert_uint_eq(dat_ia_close(&ia_object, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq(dat_ia_close((DAT_IA_HANDLE)2, DAT_CLOSE_ABRUPT_FLAG), 0x8005000bU);
}
END_TEST

/* Other threads' IAs come and go, and the table grows, while this one's is used. */
static void *open_and_close(void *arg)
{
	DAT_IA_HANDLE ias[40];

	(void)arg;
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < COUNT(ias); i++)
			ias[i] = open_handle(2);
		for (int i = 0; i < COUNT(ias); i++)
			ck_assert_uint_eq(dat_ia_close(ias[i], DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	}
	return NULL;
}

START_TEST(test_table_under_threads)
{
	const struct call *query = &calls[0];
	DAT_IA_HANDLE ia = open_handle(1);
	pthread_t threads[3];

	fill_slot(query);
	for (int i = 0; i < COUNT(threads); i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, open_and_close, NULL), 0);
	for (int i = 0; i < 5000; i++)
		expect_reached(query, i & 1 ? ia : &ia_object, &ia_object);
	for (int i = 0; i < COUNT(threads); i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_uint_eq((uintptr_t)open_handle(2), 2);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("calls");

	tcase_add_checked_fixture(cases, setup, NULL);
	tcase_add_loop_test(cases, test_dispatch, 0, COUNT(calls));
	tcase_add_loop_test(cases, test_bad_handles, 0, COUNT(calls));
	tcase_add_test(cases, test_helper);
	tcase_add_loop_test(cases, test_query_shows_the_consumers_ia, 0, COUNT(queries));
	tcase_add_loop_test(cases, test_async_event_shows_the_consumers_ia, 0, COUNT(events));
	tcase_add_test(cases, test_lowest_handle_first);
	tcase_add_test(cases, test_table_full);
	tcase_add_test(cases, test_close);
	tcase_add_test(cases, test_close_during_close);
	tcase_add_test(cases, test_open_during_close);
	tcase_add_test(cases, test_table_under_threads);
	return run_cases(argc, argv);
}
