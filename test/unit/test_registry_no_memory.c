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

/*
 * Without memory for a line, only that line is lost. The second line of "a" is another library for
 * the same name.
 */
static const char conf[] = CONF_LINE("a") CONF_LINE("b") CONF_LINE("a") CONF_LINE("c");

/* The case i makes the allocation number i+1 fail. */
static const struct {
	const char *message;
	const char *list;
} allocations[] = {
	{ "cannot read", "" },	   { ":1: no memory", "bac" }, { ":1: no memory", "bac" },
	{ ":2: no memory", "ac" }, { ":2: no memory", "ac" },  { ":3: no memory", "abc" },
	{ ":4: no memory", "ab" }, { ":4: no memory", "ab" },
};

START_TEST(a_failed_allocation_loses_one_line_only)
{
	const DAT_PROVIDER_INFO info = { "x", API_MAJOR, 2, DAT_FALSE };
	int err_fd = stderr_capture(), failed;
	DAT_COUNT count;

	use_conf(conf);
	alloc_fail_nth((unsigned)_i + 1);
	(void)dat_registry_list_providers(0, &count, NULL);
	failed = alloc_failed();
	ck_assert_int_eq(failed, _i < COUNT(allocations));
	if (!failed) {
		ck_assert_str_eq(registry_list(8), "abc");
		ck_assert_int_eq(captured_lines(err_fd), 0);
		return;
	}
	ck_assert_ptr_nonnull(strstr(output_text(err_fd), allocations[_i].message));
	ck_assert_int_eq(captured_lines(err_fd), 1);
	ck_assert_str_eq(registry_list(8), allocations[_i].list);
	/* the registry works on */
	ck_assert_uint_eq(dat_registry_add_provider(&table, &info), DAT_SUCCESS);
	ck_assert(can_open("x"));
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("registry");

	tcase_add_test(cases, a_failed_add_adds_nothing);
	tcase_add_loop_test(cases, a_failed_allocation_loses_one_line_only, 0,
			    COUNT(allocations) + 1);
	return run_cases(argc, argv);
}
