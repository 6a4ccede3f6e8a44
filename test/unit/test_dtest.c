/* SPDX-License-Identifier: BSD-2-Clause */
/* What dtest takes from its peer as private data: the peer may be any program. */
#include "dtest/dtest.h"
#include "registry_test.h"

static char explained[TOOL_SENTENCE];

void dtest_explain(const char *sentence)
{
	strcpy(explained, sentence);
}

static struct dtest server_of(unsigned size, unsigned burst)
{
	return (struct dtest){ .opt = { .size = size, .burst = burst, .mode = MODE_CHECK },
			       .server = true };
}

/* The private data that a client with these options sends. */
static struct dtest_hello client_hello(unsigned size, unsigned burst)
{
	const struct dtest client = { .opt = { .size = size, .burst = burst, .mode = MODE_CHECK } };

	return dtest_hello_make(&client);
}

START_TEST(parameters_of_the_peer_are_taken)
{
	struct dtest t = server_of(64, 10);
	struct {
		struct dtest_hello hello;
		char padding[36];
	} data = { .hello = client_hello(64, 10) };

	/* a transport may pad private data */
	dtest_hello_read(&t, &data, _i ? sizeof(data) : sizeof(data.hello));
	ck_assert(dtest_hello_known(&t));
	ck_assert_mem_eq(&t.hello, &data.hello, sizeof(t.hello));
	ck_assert_int_eq(dtest_hello_check(&t), 0);
}
END_TEST

/* Whatever is behind their end in memory, they are not those of a dtest that has parameters. */
START_TEST(private_data_that_are_too_short_are_none)
{
	static const struct dtest_hello none;
	const struct dtest_hello hello = client_hello(128, 10);

	for (DAT_COUNT size = -1; size < (DAT_COUNT)sizeof(hello); size++) {
		struct dtest t = server_of(64, 10);

		dtest_hello_read(&t, &hello, size);
		ck_assert(!dtest_hello_known(&t));
		ck_assert_mem_eq(&t.hello, &none, sizeof(none));
		ck_assert_int_eq(dtest_hello_check(&t), 0); /* as an older dtest */
	}
}
END_TEST

START_TEST(private_data_that_are_not_there_are_none)
{
	struct dtest t = server_of(64, 10);

	dtest_hello_read(&t, NULL, sizeof(t.hello));
	ck_assert(!dtest_hello_known(&t));
}
END_TEST

START_TEST(private_data_of_another_program_are_none)
{
	struct dtest t = server_of(64, 10);
	struct dtest_hello hello = client_hello(64, 10);

	hello.magic[_i] ^= 1;
	dtest_hello_read(&t, &hello, sizeof(hello));
	ck_assert(!dtest_hello_known(&t));
}
END_TEST

START_TEST(dtest_that_says_nothing_hears_nothing)
{
	struct dtest t = server_of(64, 10);
	const struct dtest_hello hello = client_hello(64, 10);

	t.opt.old = true;
	dtest_hello_read(&t, &hello, sizeof(hello));
	ck_assert(!dtest_hello_known(&t));
}
END_TEST

static const uint32_t numbers[] = { 0, 1, 63, 65, INT32_MAX, (uint32_t)INT32_MIN, UINT32_MAX };

/* They are printed, and used for nothing else. */
START_TEST(any_other_number_ends_the_test_with_a_sentence)
{
	struct dtest t = server_of(64, 10);
	struct dtest_hello hello = client_hello(numbers[_i], numbers[_i]);
	char wanted[TOOL_SENTENCE];

	snprintf(wanted, sizeof(wanted),
		 "the client was started with -b %u -B %u, this server with -b 64 -B 10",
		 numbers[_i], numbers[_i]);
	dtest_hello_read(&t, &hello, sizeof(hello));
	ck_assert_int_eq(dtest_hello_check(&t), -1);
	ck_assert_str_eq(explained, wanted);
	/* flags that this dtest does not know */
	hello = client_hello(64, 10);
	hello.flags = UINT32_MAX;
	dtest_hello_read(&t, &hello, sizeof(hello));
	ck_assert_int_eq(dtest_hello_check(&t), -1);
	ck_assert_ptr_nonnull(
		strstr(explained, "with -a -w -W --time 65535 -b 64 -B 10, this server"));
}
END_TEST

START_TEST(a_time_that_differs_is_told)
{
	struct dtest t = { .opt = { .size = 1, .burst = 10, .mode = MODE_SWEEP }, .server = true };
	struct dtest_hello hello;

	t.opt.one_size = true;
	t.opt.time = 1800;
	hello = dtest_hello_make(&t);
	t.opt.time = 1;
	dtest_hello_read(&t, &hello, sizeof(hello));
	ck_assert_int_eq(dtest_hello_check(&t), -1);
	ck_assert_str_eq(explained, "the client was started with --time 1800 -b 1 -B 10, this "
				    "server with --time 1 -b 1 -B 10");
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tcase = tcase_create("hello");

	tcase_add_loop_test(tcase, parameters_of_the_peer_are_taken, 0, 2);
	tcase_add_test(tcase, private_data_that_are_too_short_are_none);
	tcase_add_test(tcase, private_data_that_are_not_there_are_none);
	tcase_add_loop_test(tcase, private_data_of_another_program_are_none, 0,
			    (int)sizeof(((struct dtest_hello *)NULL)->magic));
	tcase_add_test(tcase, dtest_that_says_nothing_hears_nothing);
	tcase_add_loop_test(tcase, any_other_number_ends_the_test_with_a_sentence, 0,
			    COUNT(numbers));
	tcase_add_test(tcase, a_time_that_differs_is_told);
	return run_cases(argc, argv);
}
