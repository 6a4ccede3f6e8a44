/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The registry when host memory runs out. It is linked in, because the memory of shared libraries
 * does not.
 */
#define _GNU_SOURCE
#include <dat/udat.h>
#include <dat/dat_registry.h>

#include "alloc.h"
#include "registry_test.h"

#define NO_MEMORY 0x80030002U

#define LINE(name) name " u1.2 nonthreadsafe default libnone.so dapl.1.2 \"p\" \"\"\n"

/* The names listed, one character each. */
static const char *listed(void)
{
	static char text[16];
	DAT_PROVIDER_INFO infos[8], *list[COUNT(infos)];
	DAT_COUNT count = -1;

	for (int i = 0; i < COUNT(list); i++)
		list[i] = &infos[i];
	ck_assert_uint_eq(dat_registry_list_providers(COUNT(list), &count, list), DAT_SUCCESS);
	for (int i = 0; i < count; i++)
		text[i] = infos[i].ia_name[0];
	text[count] = '\0';
	return text;
}

static DAT_PROVIDER table;
static struct object {
	DAT_PROVIDER *provider;
} object = { &table };

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

/* Does the name lead to the table? */
static int is_known(const char *name)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;

	return dat_ia_open((char *)(size_t)name, 8, &evd, &ia) == DAT_SUCCESS;
}

START_TEST(test_adding_a_provider)
{
	const DAT_PROVIDER_INFO info = { "x", 1, 2, DAT_FALSE };
	DAT_RETURN ret;
	unsigned n = 1;

	use_conf("");
	for (; alloc_fail_nth(n), ret = dat_registry_add_provider(&table, &info), alloc_failed();
	     n++) {
		ck_assert_uint_eq(ret, NO_MEMORY);
		ck_assert(!is_known("x"));
	}
	ck_assert_uint_eq(ret, DAT_SUCCESS);
	ck_assert_uint_eq(n, 2);
	ck_assert(is_known("x"));
}
END_TEST

/*
 * Whatever a line needs, it alone is lost. The second of "a" is one more library for the same name.
 */
static const char conf[] = LINE("a") LINE("b") LINE("a") LINE("c");

static const struct {
	const char *lost;
	const char *list;
} readings[] = {
	{ "cannot read", "" },	   { ":1: no memory", "bac" }, { ":1: no memory", "bac" },
	{ ":2: no memory", "ac" }, { ":2: no memory", "ac" },  { ":3: no memory", "abc" },
	{ ":4: no memory", "ab" }, { ":4: no memory", "ab" },
};

START_TEST(test_reading_the_file)
{
	const DAT_PROVIDER_INFO info = { "x", 1, 2, DAT_FALSE };
	int ear = listen_to_stderr(), failed;
	DAT_COUNT count;

	use_conf(conf);
	alloc_fail_nth((unsigned)_i + 1);
	(void)dat_registry_list_providers(0, &count, NULL);
	failed = alloc_failed();
	ck_assert_int_eq(failed, _i < COUNT(readings));
	if (!failed) {
		ck_assert_str_eq(listed(), "abc");
		ck_assert_int_eq(lines_heard(ear), 0);
		return;
	}
	ck_assert_ptr_nonnull(strstr(heard(ear), readings[_i].lost));
	ck_assert_int_eq(lines_heard(ear), 1);
	ck_assert_str_eq(listed(), readings[_i].list);
	/* no worse for it */
	ck_assert_uint_eq(dat_registry_add_provider(&table, &info), DAT_SUCCESS);
	ck_assert(is_known("x"));
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("registry");

	tcase_add_test(cases, test_adding_a_provider);
	tcase_add_loop_test(cases, test_reading_the_file, 0, COUNT(readings) + 1);
	return run_cases(argc, argv);
}
