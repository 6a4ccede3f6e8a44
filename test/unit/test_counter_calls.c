/* SPDX-License-Identifier: BSD-2-Clause */
/* How counters are read, reset and printed. Of DAT 2.0 only. */
#include <stdio.h>
#include <unistd.h>

#include "counter_calls.h"

static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;

static void setup(void)
{
	client->thread_safe = true;
	pair_connect(&pair);
}

static void teardown(void)
{
	pair_close_abrupt(&pair);
}

#define BAD_HANDLE_1  DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1)
#define NOT_SUPPORTED DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE)

/* ---- how they are read ---- */

#define UNTOUCHED UINT64_C(0x5a5a5a5a5a5a5a5a)

/* Another value behind the last one stays as it is. */
START_TEST(all_counters_are_read_and_reset_at_once)
{
	DAT_UINT64 values[DCNT_EP_ALL_COUNTERS + 1];

	post_recv(server, 0, 0, 64, 0);
	post_send(client, 1, 0, 40, 0);
	for (int reset = 1; reset >= 0; reset--) {
		memset(values, 0x5a, sizeof(values));
		ck_dat(dat_ib_query_counters(client->ep, DCNT_EP_ALL_COUNTERS, values, reset));
		ck_assert_uint_eq(values[DCNT_EP_CONNECT], reset);
		ck_assert_uint_eq(values[DCNT_EP_POST_SEND], reset ? 1 : 0);
		ck_assert_uint_eq(values[DCNT_EP_POST_SEND_DATA], reset ? 40 : 0);
		ck_assert_uint_eq(values[DCNT_EP_RECV_RDMA_IMM_DATA], 0);
		ck_assert_uint_eq(values[DCNT_EP_ALL_COUNTERS], UNTOUCHED);
	}
}
END_TEST

START_TEST(one_counter_is_one_value)
{
	DAT_UINT64 values[2] = { UNTOUCHED, UNTOUCHED };

	ck_dat(dat_ib_query_counters(client->ia, DCNT_IA_PZ_CREATE, values, 1));
	ck_assert_uint_eq(values[0], 1);
	ck_assert_uint_eq(values[1], UNTOUCHED);
	ck_assert_uint_eq(count_of(client->ia, DCNT_IA_EP_CREATE, 0), 1); /* it was not reset */
}
END_TEST

/* Messages of a connection manager are not seen above it. */
START_TEST(what_is_not_counted_is_0)
{
	ck_assert_uint_eq(count_of(client->ia, DCNT_IA_CM_MRA_TX, 0), 0);
	ck_assert_uint_eq(count_of(client->ia, DCNT_IA_CM_MRA_TX, 1), 0);
}
END_TEST

/* ---- refusals ---- */

static void get_pz(DAT_HANDLE *handle)
{
	ck_dat(pz_create(client->ia, handle));
}

static void get_lmr(DAT_HANDLE *handle)
{
	*handle = client->lmr;
}

static void get_freed_ep(DAT_HANDLE *handle)
{
	*handle = side_create_ep(client, NULL);
	ck_dat(ep_free(*handle));
}

static void get_freed_evd(DAT_HANDLE *handle)
{
	*handle = side_create_evd(client, 8, DAT_EVD_SOFTWARE_FLAG);
	ck_dat(evd_free(*handle));
}

static void get_null(DAT_HANDLE *handle)
{
	*handle = DAT_HANDLE_NULL;
}

static void get_inside(DAT_HANDLE *handle)
{
	*handle = (char *)client->ep + 8;
}

static void (*const no_counters[])(DAT_HANDLE *) = {
	get_pz, get_lmr, get_freed_ep, get_freed_evd, get_null, get_inside,
};

START_TEST(a_handle_without_counters_is_refused)
{
	DAT_UINT64 value = UNTOUCHED;
	DAT_HANDLE handle;

	no_counters[_i](&handle);
	ck_dat_is(dat_ib_query_counters(handle, 0, &value, 0), BAD_HANDLE_1);
	ck_dat_is(dat_ib_print_counters(handle, 0, 0), BAD_HANDLE_1);
	ck_assert_uint_eq(value, UNTOUCHED);
}
END_TEST

static const struct {
	DAT_HANDLE *handle;
	int number;
} bad_numbers[] = {
	{ &client->ia, -1 },
	{ &client->ia, DCNT_IA_ALL_COUNTERS + 1 },
	{ &client->ep, -1 },
	{ &client->ep, DCNT_EP_ALL_COUNTERS + 1 },
	{ &client->ep, DCNT_IA_ALL_COUNTERS },
	{ &client->request_evd, DCNT_EVD_ALL_COUNTERS + 1 },
	{ &client->request_evd, INT32_MIN },
	{ &client->request_evd, INT32_MAX },
};

START_TEST(a_number_that_no_counter_has_is_refused)
{
	const DAT_HANDLE handle = *bad_numbers[_i].handle;
	DAT_UINT64 value = UNTOUCHED;

	ck_dat_is(dat_ib_query_counters(handle, bad_numbers[_i].number, &value, 1), BAD_ARG(2));
	ck_dat_is(dat_ib_print_counters(handle, bad_numbers[_i].number, 1), BAD_ARG(2));
	ck_assert_uint_eq(value, UNTOUCHED);
	ck_assert_uint_eq(count_of(client->ep, DCNT_EP_CONNECT, 0), 1);
}
END_TEST

START_TEST(without_a_place_for_the_values_nothing_is_reset)
{
	ck_dat_is(dat_ib_query_counters(client->ia, DCNT_IA_PZ_CREATE, NULL, 1), BAD_ARG(3));
	ck_dat_is(dat_ib_query_counters(client->ia, DCNT_IA_ALL_COUNTERS, NULL, 1), BAD_ARG(3));
	ck_assert_uint_eq(count_of(client->ia, DCNT_IA_PZ_CREATE, 0), 1);
}
END_TEST

START_TEST(nothing_is_sampled)
{
	ck_dat_is(dat_ib_start_counter(client->ia, DCNT_IA_LNK), NOT_SUPPORTED);
	ck_dat_is(dat_ib_stop_counter(client->ia, DCNT_IA_CM), NOT_SUPPORTED);
	ck_dat_is(dat_ib_start_counter(client->ia, (DAT_IA_COUNTER_TYPE)3), BAD_ARG(2));
	ck_dat_is(dat_ib_stop_counter(client->ia, (DAT_IA_COUNTER_TYPE)-1), BAD_ARG(2));
	ck_dat_is(dat_ib_start_counter(client->ep, DCNT_IA_LNK), BAD_HANDLE(IA));
	ck_dat_is(dat_ib_stop_counter(NULL, DCNT_IA_LNK), BAD_HANDLE(IA));
}
END_TEST

/* ---- printing ---- */

/* A line as it must be printed: library, process, @text. */
static const char *log_line(const char *text)
{
	static char line[256];

	snprintf(line, sizeof(line), "%s[%d]: %s\n", tp_library_name, (int)getpid(), text);
	return line;
}

START_TEST(one_counter_is_printed_in_one_line)
{
	int captured = stderr_capture();

	ck_dat(dat_ib_print_counters(client->ia, DCNT_IA_PZ_CREATE, 1));
	ck_assert_str_eq(output_text(captured), log_line("fake0: DCNT_IA_PZ_CREATE 1"));
	ck_assert_uint_eq(count_of(client->ia, DCNT_IA_PZ_CREATE, 0), 0);
	captured = stderr_capture();
	ck_dat(dat_ib_print_counters(client->ia, DCNT_IA_PZ_CREATE, 0));
	ck_assert_str_eq(output_text(captured), log_line("fake0: DCNT_IA_PZ_CREATE 0"));
}
END_TEST

START_TEST(other_objects_are_named_by_their_handles)
{
	const int captured = stderr_capture();
	char text[64];

	ck_dat(dat_ib_print_counters(client->ep, DCNT_EP_CONNECT, 0));
	snprintf(text, sizeof(text), "EP %p: DCNT_EP_CONNECT 1", client->ep);
	ck_assert_ptr_nonnull(strstr(output_text(captured), log_line(text)));
	ck_dat(dat_ib_print_counters(client->cr_evd, DCNT_EVD_WAIT_BLOCKED, 0));
	snprintf(text, sizeof(text), "EVD %p: DCNT_EVD_WAIT_BLOCKED 0", client->cr_evd);
	ck_assert_ptr_nonnull(strstr(output_text(captured), log_line(text)));
}
END_TEST

START_TEST(one_that_is_not_counted_says_so)
{
	int captured = stderr_capture();

	ck_dat(dat_ib_print_counters(client->ia, DCNT_IA_CM_MRA_TX, 0));
	ck_assert_str_eq(output_text(captured), log_line("fake0: counter 44 is not counted"));
}
END_TEST

static unsigned count_lines(const char *text)
{
	unsigned n = 0;

	while ((text = strchr(text, '\n'))) {
		text++;
		n++;
	}
	return n;
}

static const struct {
	DAT_HANDLE *handle;
	const struct counter_kind *kind;
} printed[] = {
	{ &client->ia, &ia_counters },
	{ &client->ep, &ep_counters },
	{ &client->request_evd, &evd_counters },
};

START_TEST(all_that_are_counted_are_printed)
{
	const struct counter_kind *kind = printed[_i].kind;
	int captured = stderr_capture();
	unsigned names = 0;

	ck_dat(dat_ib_print_counters(*printed[_i].handle, (int)kind->count, 0));
	for (unsigned number = 0; number < kind->count; number++) {
		char name[64];

		snprintf(name, sizeof(name), ": %s ", kind->names[number]);
		ck_assert(!kind->names[number] || strstr(output_text(captured), name));
		names += kind->names[number] != NULL;
	}
	ck_assert_uint_eq(count_lines(output_text(captured)), names);
}
END_TEST

/* ---- several threads ---- */

#define POSTS 2000

static _Atomic bool posting;
static DAT_UINT64 seen_posts, seen_creates;

static void read_once(void)
{
	DAT_UINT64 values[DCNT_EP_ALL_COUNTERS];

	ck_dat(dat_ib_query_counters(client->ep, DCNT_EP_ALL_COUNTERS, values, 1));
	seen_posts += values[DCNT_EP_POST_WRITE];
	seen_creates += count_of(client->ia, DCNT_IA_PZ_CREATE, 1);
}

static void *read_counters(void *unused)
{
	(void)unused;
	while (posting)
		read_once();
	return NULL;
}

static void *post_writes(void *unused)
{
	const DAT_RMR_TRIPLET remote = target(server, 0, 8);
	DAT_LMR_TRIPLET iov = segment(client, 0, 8);
	DAT_PZ_HANDLE pz;

	(void)unused;
	for (unsigned n = 0; n < POSTS; n++) {
		if (ep_post_rdma_write(client->ep, 1, &iov, cookie_of(n), &remote,
				       DAT_COMPLETION_SUPPRESS_FLAG) != DAT_SUCCESS)
			n--; /* the ring is full */
		if (n % 64 == 0) {
			ck_dat(pz_create(client->ia, &pz));
			ck_dat(pz_free(pz));
		}
	}
	return NULL;
}

/* The endpoint is thread-safe: two threads post to it. */
START_TEST(no_count_gets_lost_between_posts_and_resets)
{
	pthread_t reader, posters[2];
	DAT_UINT64 creates;

	read_once();
	seen_posts = seen_creates = 0;
	posting = true;
	reader = consumer_thread_start(read_counters, NULL);
	for (unsigned i = 0; i < 2; i++)
		posters[i] = consumer_thread_start(post_writes, NULL);
	for (unsigned i = 0; i < 2; i++)
		consumer_thread_join(posters[i]);
	posting = false;
	consumer_thread_join(reader);
	read_once();
	creates = 2 * ((POSTS + 63) / 64);
	ck_assert_uint_eq(seen_posts, 2 * POSTS);
	ck_assert_uint_ge(seen_creates, creates);
	ck_assert_uint_eq(count_of(client->ia, DCNT_IA_PZ_CREATE, 0), 0);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("calls of counters");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_test(cases, all_counters_are_read_and_reset_at_once);
	tcase_add_test(cases, one_counter_is_one_value);
	tcase_add_test(cases, what_is_not_counted_is_0);
	tcase_add_loop_test(cases, a_handle_without_counters_is_refused, 0, COUNT(no_counters));
	tcase_add_loop_test(cases, a_number_that_no_counter_has_is_refused, 0, COUNT(bad_numbers));
	tcase_add_test(cases, without_a_place_for_the_values_nothing_is_reset);
	tcase_add_test(cases, nothing_is_sampled);
	tcase_add_test(cases, one_counter_is_printed_in_one_line);
	tcase_add_test(cases, other_objects_are_named_by_their_handles);
	tcase_add_test(cases, one_that_is_not_counted_says_so);
	tcase_add_loop_test(cases, all_that_are_counted_are_printed, 0, COUNT(printed));
	tcase_add_test(cases, no_count_gets_lost_between_posts_and_resets);
	return run_unit_cases(argc, argv);
}
