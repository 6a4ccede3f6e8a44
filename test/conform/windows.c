/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Remote memory regions: b binds windows onto its memory, a comes through them. Regions may stand
 * in for windows.
 */
#include "conform.h"

#define READING DAT_MEM_PRIV_REMOTE_READ_FLAG
#define WRITING DAT_MEM_PRIV_REMOTE_WRITE_FLAG
#define FROM	((size_t)5000) /* of the window */
#define SIZE	((size_t)300)

/* b's memory with local rights only: what a gets it gets through the window. */
static DAT_LMR_HANDLE lmr;
static DAT_LMR_CONTEXT context_here;
static DAT_RMR_HANDLE rmr;

static void stage_open(void)
{
	DAT_REGION_DESCRIPTION region;

	open_connected();
	region.for_va = b.memory;
	ck_dat(dat_lmr_create(b.ia, DAT_MEM_TYPE_VIRTUAL, region, MEMORY, b.pz, LOCAL, &lmr,
			      &context_here, NULL, NULL, NULL));
	ck_dat(dat_rmr_create(b.pz, &rmr));
}

static void stage_close(void)
{
	disconnect_both(DAT_CLOSE_ABRUPT_FLAG);
	ck_dat(dat_lmr_free(lmr));
	close_both();
}

static DAT_LMR_TRIPLET range(size_t offset, size_t size)
{
	DAT_LMR_TRIPLET triplet = segment(&b, offset, size);

	triplet.lmr_context = context_here;
	return triplet;
}

static void expect_bind(uint64_t cookie)
{
	DAT_EVENT event = expect(b.request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
	const DAT_RMR_BIND_COMPLETION_EVENT_DATA *bind =
		&event.event_data.rmr_completion_event_data;

	ck_assert_ptr_eq(bind->rmr_handle, rmr);
	ck_assert_uint_eq(bind->user_cookie.as_64, cookie);
	ck_assert_int_eq(bind->status, DAT_RMR_BIND_SUCCESS);
}

static DAT_RMR_CONTEXT bind_range(DAT_LMR_TRIPLET triplet, DAT_MEM_PRIV_FLAGS priv)
{
	DAT_RMR_CONTEXT context;

	ck_dat(dat_rmr_bind(rmr, &triplet, priv, b.ep, cookie_of(UINT64_MAX),
			    DAT_COMPLETION_DEFAULT_FLAG, &context));
	expect_bind(UINT64_MAX);
	return context;
}

/* At its usual place. Without a right it may have no context that names it. */
static DAT_RMR_CONTEXT bind_usual(DAT_MEM_PRIV_FLAGS priv)
{
	DAT_RMR_CONTEXT context = bind_range(range(FROM, SIZE), priv);

	if (priv != DAT_MEM_PRIV_NONE_FLAG)
		ck_assert_uint_ne(context, 0);
	return context;
}

static void unbind(void)
{
	const DAT_LMR_TRIPLET nothing = { .segment_length = 0 };

	bind_range(nothing, DAT_MEM_PRIV_NONE_FLAG);
}

static DAT_RMR_TRIPLET through(DAT_RMR_CONTEXT context, size_t offset, size_t size)
{
	DAT_RMR_TRIPLET remote = target(&b, offset, size);

	remote.rmr_context = context;
	return remote;
}

START_TEST(a_window_is_unbound_at_first)
{
	const DAT_RMR_PARAM_MASK rest = (DAT_RMR_PARAM_MASK)(DAT_RMR_FIELD_ALL &
							     ~DAT_RMR_FIELD_LMR_TRIPLET);
	DAT_RMR_CONTEXT context;
	DAT_RMR_PARAM param;

	stage_open();
	ck_assert_int_gt(b.attr.max_rmrs, 0);
	ck_dat(dat_rmr_query(rmr, rest, &param));
	ck_assert_ptr_eq(param.ia_handle, b.ia);
	ck_assert_ptr_eq(param.pz_handle, b.pz);
	param.mem_priv = DAT_MEM_PRIV_ALL_FLAG;
	ck_dat_fails(dat_rmr_query(rmr, DAT_RMR_FIELD_LMR_TRIPLET, &param), DAT_INVALID_PARAMETER,
		     DAT_INVALID_ARG2);
	/* what is refused writes nothing */
	ck_assert_int_eq(param.mem_priv, DAT_MEM_PRIV_ALL_FLAG);
	context = bind_usual(READING);
	ck_dat(dat_rmr_query(rmr, DAT_RMR_FIELD_ALL, &param));
	ck_assert_ptr_eq(param.ia_handle, b.ia);
	ck_assert_uint_eq(param.lmr_triplet.lmr_context, context_here);
	ck_assert_uint_eq(param.lmr_triplet.virtual_address, (uintptr_t)b.memory + FROM);
	ck_assert_uint_eq(param.lmr_triplet.segment_length, SIZE);
	ck_assert_int_eq(param.mem_priv, READING);
	ck_assert_uint_eq(param.rmr_context, context);
	ck_dat(dat_rmr_free(rmr));
	ck_dat_fails(dat_rmr_free(rmr), DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_RMR);
	stage_close();
}
END_TEST

/* Nobody waits for the bind: the message that carries the context comes behind it. */
START_TEST(a_context_can_be_sent_at_once)
{
	stage_open();
	for (unsigned n = 0; n < 10; n++) {
		const DAT_LMR_TRIPLET window = range(FROM + n, SIZE);
		DAT_RMR_TRIPLET offer = through(0, FROM + n, SIZE);

		post_recv(&a, n, 0, sizeof(offer));
		ck_dat(dat_rmr_bind(rmr, &window, REMOTE, b.ep, cookie_of(n),
				    DAT_COMPLETION_DEFAULT_FLAG, &offer.rmr_context));
		memcpy(b.memory, &offer, sizeof(offer));
		post_send(&b, 100 + n, 0, sizeof(offer), DAT_COMPLETION_DEFAULT_FLAG);
		expect_dto(a.recv_evd, a.ep, n, DAT_DTO_SUCCESS, sizeof(offer));
		memcpy(&offer, a.memory, sizeof(offer));
		expect_read(offer);
		expect_write(offer);
		expect_bind(n);
		expect_dto(b.request_evd, b.ep, 100 + n, DAT_DTO_SUCCESS, sizeof(offer));
	}
	ck_dat(dat_rmr_free(rmr));
	stage_close();
}
END_TEST

START_TEST(a_suppressed_bind_is_silent)
{
	DAT_RMR_CONTEXT context;
	DAT_LMR_TRIPLET window;

	stage_open();
	window = range(FROM, SIZE);
	for (unsigned n = 0; n < 100; n++) {
		ck_dat(dat_rmr_bind(rmr, &window, REMOTE, b.ep, cookie_of(n),
				    DAT_COMPLETION_SUPPRESS_FLAG, &context));
		post_recv(&a, n, 0, 8);
		post_send(&b, n, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
		expect_dto(b.request_evd, b.ep, n, DAT_DTO_SUCCESS, 8);
		expect_dto(a.recv_evd, a.ep, n, DAT_DTO_SUCCESS, 8);
	}
	expect_write(through(context, FROM, SIZE));
	expect_empty(b.request_evd);
	ck_dat(dat_rmr_free(rmr));
	stage_close();
}
END_TEST

START_TEST(a_window_that_moves_leaves_its_old_context)
{
	DAT_RMR_CONTEXT old, new;

	stage_open();
	old = bind_usual(REMOTE);
	expect_write(through(old, FROM, SIZE));
	new = bind_usual(REMOTE);
	ck_assert_uint_ne(new, old);
	expect_read_refused(through(old, FROM, SIZE));
	expect_write_refused(through(old, FROM, SIZE));
	expect_write(through(new, FROM, SIZE)); /* the connection that it was bound over is gone */
	ck_dat(dat_rmr_free(rmr));
	stage_close();
}
END_TEST

START_TEST(a_closed_window_lets_nobody_through)
{
	DAT_RMR_CONTEXT context;
	DAT_RMR_PARAM param;

	stage_open();
	context = bind_usual(REMOTE);
	expect_read(through(context, FROM, SIZE));
	ck_dat_fails(dat_lmr_free(lmr), DAT_INVALID_STATE, DAT_INVALID_STATE_LMR_IN_USE);
	unbind();
	ck_dat_fails(dat_rmr_query(rmr, DAT_RMR_FIELD_LMR_TRIPLET, &param), DAT_INVALID_PARAMETER,
		     DAT_INVALID_ARG2);
	expect_read_refused(through(context, FROM, SIZE));
	expect_write_refused(through(context, FROM, SIZE));
	context = bind_usual(REMOTE);
	expect_read(through(context, FROM, SIZE));
	ck_dat(dat_rmr_free(rmr));
	expect_read_refused(through(context, FROM, SIZE));
	expect_write_refused(through(context, FROM, SIZE));
	stage_close();
}
END_TEST

START_TEST(a_window_gives_no_right_to_write_unasked)
{
	DAT_RMR_CONTEXT context;

	stage_open();
	context = bind_usual(READING);
	expect_read(through(context, FROM, SIZE));
	expect_write_refused(through(context, FROM, SIZE));
	context = bind_usual(DAT_MEM_PRIV_NONE_FLAG);
	expect_write_refused(through(context, FROM, SIZE));
	ck_dat(dat_rmr_free(rmr));
	stage_close();
}
END_TEST

START_TEST(a_window_gives_no_right_to_read_unasked)
{
	DAT_RMR_CONTEXT context;

	stage_open();
	context = bind_usual(WRITING);
	expect_write(through(context, FROM, SIZE));
	expect_read_refused(through(context, FROM, SIZE));
	ck_dat(dat_rmr_free(rmr));
	stage_close();
}
END_TEST

START_TEST(a_window_ends_where_it_ends)
{
	DAT_RMR_CONTEXT context;

	stage_open();
	context = bind_usual(REMOTE);
	expect_write(through(context, FROM, SIZE));
	expect_write_refused(through(context, FROM - 1, 1));
	expect_write_refused(through(context, FROM + SIZE, 1));
	expect_read_refused(through(context, FROM, SIZE + 1));
	expect_read_refused(through(context, FROM - 1, SIZE));
	ck_dat(dat_rmr_free(rmr));
	stage_close();
}
END_TEST

static DAT_RETURN try_bind(DAT_LMR_TRIPLET triplet, unsigned priv, DAT_EP_HANDLE ep)
{
	DAT_RMR_CONTEXT context = 5;
	DAT_RETURN ret = dat_rmr_bind(rmr, &triplet, (DAT_MEM_PRIV_FLAGS)priv, ep, cookie_of(1),
				      DAT_COMPLETION_DEFAULT_FLAG, &context);

	ck_assert_uint_eq(context, 5);
	return ret;
}

START_TEST(wrong_binds_are_refused)
{
	DAT_LMR_TRIPLET unknown;
	DAT_EP_HANDLE idle;

	stage_open();
	ck_dat(dat_ep_create(b.ia, b.pz, b.recv_evd, b.request_evd, b.connect_evd, NULL, &idle));
	ck_dat_fails(try_bind(range(FROM, SIZE), REMOTE, idle), DAT_INVALID_STATE,
		     DAT_INVALID_STATE_EP_UNCONNECTED);
	ck_dat_fails(try_bind(range(MEMORY - SIZE + 1, SIZE), REMOTE, b.ep), DAT_INVALID_PARAMETER,
		     DAT_INVALID_ARG2);
	unknown = range(FROM, SIZE);
	unknown.lmr_context ^= 0x00ffff00;
	ck_dat_fails(try_bind(unknown, REMOTE, b.ep), DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
	ck_dat_fails(try_bind(range(FROM, SIZE), 0x40, b.ep), DAT_INVALID_PARAMETER,
		     DAT_INVALID_ARG3);
	expect_empty(b.request_evd);
	expect_write(through(bind_usual(REMOTE), FROM, SIZE)); /* all is as it was */
	ck_dat(dat_ep_free(idle));
	ck_dat(dat_rmr_free(rmr));
	stage_close();
}
END_TEST

/* Of a region with fewer rights, or in another zone. */
START_TEST(a_window_gives_no_more_than_its_region)
{
	DAT_REGION_DESCRIPTION region;
	DAT_LMR_CONTEXT context;
	DAT_LMR_TRIPLET window;
	DAT_LMR_HANDLE other;
	DAT_PZ_HANDLE pz;

	stage_open();
	region.for_va = b.memory;
	window = range(FROM, SIZE);
	ck_dat(dat_lmr_create(b.ia, DAT_MEM_TYPE_VIRTUAL, region, MEMORY, b.pz,
			      DAT_MEM_PRIV_LOCAL_READ_FLAG, &other, &context, NULL, NULL, NULL));
	window.lmr_context = context;
	ck_dat_fails(try_bind(window, WRITING, b.ep), DAT_PRIVILEGES_VIOLATION,
		     DAT_PRIVILEGES_RDMA_WRITE);
	bind_range(window, READING);
	ck_dat_fails(dat_lmr_free(other), DAT_INVALID_STATE, DAT_INVALID_STATE_LMR_IN_USE);
	unbind();
	ck_dat(dat_lmr_free(other));
	ck_dat(dat_lmr_create(b.ia, DAT_MEM_TYPE_VIRTUAL, region, MEMORY, b.pz,
			      DAT_MEM_PRIV_LOCAL_WRITE_FLAG, &other, &context, NULL, NULL, NULL));
	window.lmr_context = context;
	ck_dat_fails(try_bind(window, READING, b.ep), DAT_PRIVILEGES_VIOLATION,
		     DAT_PRIVILEGES_RDMA_READ);
	ck_dat(dat_lmr_free(other));
	ck_dat(dat_pz_create(b.ia, &pz));
	ck_dat(dat_lmr_create(b.ia, DAT_MEM_TYPE_VIRTUAL, region, MEMORY, pz, DAT_MEM_PRIV_ALL_FLAG,
			      &other, &context, NULL, NULL, NULL));
	window.lmr_context = context;
	ck_dat_fails(try_bind(window, READING, b.ep), DAT_PROTECTION_VIOLATION, DAT_NO_SUBTYPE);
	ck_dat(dat_lmr_free(other));
	ck_dat(dat_pz_free(pz));
	ck_dat(dat_rmr_free(rmr));
	stage_close();
}
END_TEST

void add_window_cases(TCase *cases)
{
	const struct transport *on = transport();

	tcase_add_test(cases, a_window_is_unbound_at_first);
	tcase_add_test(cases, a_context_can_be_sent_at_once);
	tcase_add_test(cases, a_suppressed_bind_is_silent);
	tcase_add_test(cases, a_window_that_moves_leaves_its_old_context);
	tcase_add_test(cases, a_closed_window_lets_nobody_through);
	tcase_add_test(cases, a_window_gives_no_right_to_write_unasked);
	add_case(cases, a_window_gives_no_right_to_read_unasked, on->guards_reads,
		 "peers read all that is registered");
	add_case(cases, a_window_ends_where_it_ends, on->bounds_windows,
		 "it looks at the range of the region alone");
	tcase_add_test(cases, wrong_binds_are_refused);
	tcase_add_test(cases, a_window_gives_no_more_than_its_region);
}
