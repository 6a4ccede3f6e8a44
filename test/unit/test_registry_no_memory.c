/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The registry when host memory runs out. It is linked statically, because alloc.c does not make
 * allocations of shared libraries fail.
 */
#define _GNU_SOURCE
#include "alloc.h"
#include "registry_test.h"

#define NO_MEMORY ERROR_OF(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY)

static DAT_PROVIDER table;
static struct registry_object object = { &table };

static DAT_RETURN open_object(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *evd,
			      DAT_IA_HANDLE *ia)
{
	(void)name;
	(void)qlen;
	(void)evd;
	*ia = &object;
	return DAT_SUCCESS;
}

static DAT_PROVIDER table = { .ia_open_func = open_object };

/* Whether the name opens an IA of the table. */
static int can_open(const char *name)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;

	return dat_ia_open((char *)(size_t)name, 8, &evd, &ia) == DAT_SUCCESS;
}

START_TEST(a_failed_add_adds_nothing)
{
	const DAT_PROVIDER_INFO info = { "x", API_MAJOR, 2, DAT_FALSE };
	DAT_RETURN ret;
	unsigned n = 1;

	use_conf("");
	for (; alloc_fail_nth(n), ret = dat_registry_add_provider(&table, &info), alloc_failed();
	     n++) {
		ck_assert_uint_eq(ret, NO_MEMORY);
		ck_assert(!can_open("x"));
	}
	ck_assert_uint_eq(ret, DAT_SUCCESS);
	ck_assert_uint_eq(n, 2);
	ck_assert(can_open("x"));
}
END_TEST

/* The second line of "a" is another library for the same name. */
static const char conf[] = CONF_LINE("a") CONF_LINE("b") CONF_LINE("a") CONF_LINE("c");

/* It is told once, no name is missing for good, and a host without the file is another thing. */
START_TEST(a_file_that_memory_is_short_for_is_read_later)
{
	int err_fd = stderr_capture(), failures = 0;
	DAT_COUNT count;
	DAT_RETURN ret;

	use_conf(conf);
	for (; alloc_fail_nth((unsigned)failures + 1),
	       ret = dat_registry_list_providers(0, &count, NULL), alloc_failed();
	     failures++)
		ck_assert_uint_eq(ret, NO_MEMORY);
	ck_assert_int_eq(failures, 8); /* the text, and for each line itself, or a key, too */
	ck_assert_int_eq(captured_lines(err_fd), failures);
	ck_assert_ptr_nonnull(strstr(output_text(err_fd), "cannot read"));
	ck_assert_str_eq(registry_list(8), "abc");
}
END_TEST

START_TEST(a_file_that_descriptors_are_short_for_is_read_later)
{
	int err_fd = stderr_capture();
	DAT_COUNT count;
	DAT_RETURN ret;

	use_conf(conf);
	descriptors_allow(0);
	ret = dat_registry_list_providers(0, &count, NULL);
	descriptors_allow_all();
	ck_assert_uint_eq(ret, NO_MEMORY);
	ck_assert_ptr_nonnull(strstr(output_text(err_fd), "Too many open files"));
	ck_assert_str_eq(registry_list(8), "abc");
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("registry");

	tcase_add_test(cases, a_failed_add_adds_nothing);
	tcase_add_test(cases, a_file_that_memory_is_short_for_is_read_later);
	tcase_add_test(cases, a_file_that_descriptors_are_short_for_is_read_later);
	return run_cases(argc, argv);
}
