/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the registry knows: dat.conf as it is listed, what providers add and remove, and which of
 * them a name means.
 */
#define _GNU_SOURCE
#include <dat/udat.h>
#include <dat/dat_registry.h>

#include "registry_test.h"

#define BAD_ARG(n) (0x80060023U + (n))
#define NO_NAME	   0x800a0062U
#define NO_MAJOR   0x800a0063U
#define NO_MINOR   0x800a0064U
#define NO_SAFETY  0x800a0065U
#define IN_USE	   0x80110000U
#define ALREADY	   0x80100000U

#define LINE(name) name " u1.2 nonthreadsafe default libnone.so dapl.1.2 \"p\" \"\"\n"

static const char fourteen[] = LINE("a")
	LINE("b") "# c\n" LINE("c") "d u2.0 threadsafe default lib dapl.2.0 \"\" \"\"\n" LINE("e")
		LINE("f") LINE("g") LINE("h") LINE("i") LINE("j") LINE("k") LINE("l")
			LINE("m") "\n" LINE("n");

/* The names listed, one character each. */
static const char *listed(DAT_COUNT max)
{
	static char text[32];
	DAT_PROVIDER_INFO infos[32], *list[32];
	DAT_COUNT count = -1;

	for (int i = 0; i < COUNT(list); i++)
		list[i] = i < max ? &infos[i] : NULL;
	ck_assert_uint_eq(dat_registry_list_providers(max, &count, list), DAT_SUCCESS);
	for (int i = 0; i < count; i++)
		text[i] = infos[i].ia_name[0];
	text[count] = '\0';
	return text;
}

START_TEST(test_list_asks_for_the_size)
{
	DAT_COUNT count = -1;

	use_conf(fourteen);
	ck_assert_uint_eq(dat_registry_list_providers(0, &count, NULL), BAD_ARG(1));
	ck_assert_int_eq(count, 14);
}
END_TEST

START_TEST(test_list_in_file_order)
{
	use_conf(fourteen);
	ck_assert_str_eq(listed(8), "abcdefgh");
	ck_assert_str_eq(listed(1), "a");
	ck_assert_str_eq(listed(14), "abcdefghijklmn");
	ck_assert_str_eq(listed(20), "abcdefghijklmn");
}
END_TEST

/* Some claim more room than there is. */
START_TEST(test_list_touches_no_more_than_it_fills)
{
	DAT_PROVIDER_INFO info, *list[] = { &info, NULL };
	DAT_COUNT count;

	use_conf(LINE("a"));
	ck_assert_uint_eq(dat_registry_list_providers(8, &count, list), DAT_SUCCESS);
	ck_assert_int_eq(count, 1);
	ck_assert_str_eq(info.ia_name, "a");
}
END_TEST

START_TEST(test_list_tells_the_key)
{
	DAT_PROVIDER_INFO first = { .ia_name = "x" }, fourth, spare,
			  *list[] = { &first, &spare, &spare, &fourth };
	DAT_COUNT count;

	use_conf(fourteen);
	ck_assert_uint_eq(dat_registry_list_providers(4, &count, list), DAT_SUCCESS);
	ck_assert_int_eq(count, 4);
	ck_assert_str_eq(first.ia_name, "a");
	ck_assert_uint_eq(first.dapl_version_major, 1);
	ck_assert_uint_eq(first.dapl_version_minor, 2);
	ck_assert_uint_eq(first.is_thread_safe, DAT_FALSE);
	ck_assert_uint_eq(fourth.dapl_version_major, 2);
	ck_assert_uint_eq(fourth.dapl_version_minor, 0);
	ck_assert_uint_eq(fourth.is_thread_safe, DAT_TRUE);
}
END_TEST

START_TEST(test_list_arguments)
{
	DAT_PROVIDER_INFO info = { .ia_name = "x" }, *list[] = { &info, NULL };
	DAT_COUNT count = -1;

	use_conf(fourteen);
	ck_assert_uint_eq(dat_registry_list_providers(1, NULL, list), BAD_ARG(2));
	ck_assert_uint_eq(dat_registry_list_providers(0, NULL, NULL), BAD_ARG(2));
	ck_assert_uint_eq(dat_registry_list_providers(1, &count, NULL), BAD_ARG(3));
	ck_assert_uint_eq(dat_registry_list_providers(2, &count, list), BAD_ARG(3));
	ck_assert_uint_eq(dat_registry_list_providers(-1, &count, list), BAD_ARG(1));
	ck_assert_int_eq(count, -1);
	ck_assert_str_eq(info.ia_name, "x");
}
END_TEST

START_TEST(test_list_counts_a_chain_once)
{
	use_conf(LINE("a") LINE("b") LINE(
		"a") "a u2.0 nonthreadsafe default l dapl.2.0 \"\" \"\"\n" LINE("c") LINE("b"));
	ck_assert_str_eq(listed(8), "abac");
}
END_TEST

/*
 * One of these between two good lines costs nothing but itself, and a message that says where it
 * is.
 */
static const char *const malformed[] = {
	"x u1.2 nonthreadsafe default lib dapl.1.2 p",
	"x u1.2 nonthreadsafe default lib dapl.1.2 p q r",
	"x u1.2x nonthreadsafe default lib dapl.1.2 p q",
	"x u1 nonthreadsafe default lib dapl.1.2 p q",
	"x u4294967296.2 nonthreadsafe default lib dapl.1.2 p q",
	"x u1.2 unsafe default lib dapl.1.2 p q",
	"x u1.2 nonthreadsafe fault lib dapl.1.2 p q",
	"x u1.2 nonthreadsafe default lib dapl p q",
	"x u1.2 nonthreadsafe default lib dapl1.2 p q",
	"x u1.2 nonthreadsafe default lib dapl.1.2 \"ib0 0 \"\"",
	"x u1.2 nonthreadsafe default lib dapl.1.2 \"ib0 0",
	"x\"y u1.2 nonthreadsafe default lib dapl.1.2 p q",
	"\"\" u1.2 nonthreadsafe default lib dapl.1.2 p q",
	"x u1.2 nonthreadsafe default lib \\",
	"\"",
	"x",
};

START_TEST(test_malformed_line)
{
	int ear = listen_to_stderr();
	char *text;

	ck_assert_int_gt(asprintf(&text, LINE("a") "%s\n" LINE("b"), malformed[_i]), 0);
	use_conf(text);
	ck_assert_str_eq(listed(8), "ab");
	ck_assert_int_eq(lines_heard(ear), 1);
	ck_assert_ptr_nonnull(strstr(heard(ear), ":2: "));
	free(text);
}
END_TEST

START_TEST(test_odd_but_good_file)
{
	char name[256], *library = malloc(100001), *text;
	int ear = listen_to_stderr();

	memset(name, 'n', 255);
	name[255] = '\0';
	memset(library, 'l', 100000);
	library[100000] = '\0';
	ck_assert_int_gt(asprintf(&text,
				  "# CRLF\r\n"
				  "a\tu1.2 \tnonthreadsafe\tdefault %s dapl.1.2 \"p\" \"\"\r\n"
				  "%s u1.2 nonthreadsafe default lib dapl.1.2 \"p\" \"\"\r\n"
				  "k k1.2 nonthreadsafe default lib dapl.1.2 \"p\" \"\"\r\n"
				  "o u1.2 nonthreadsafe nondefault lib dapl.1.2 \"p\" \"\"\r\n"
				  "z u1.2 nonthreadsafe default lib dapl.1.2 \"p\" \"\"",
				  library, name),
			 0);
	use_conf(text);
	ck_assert_str_eq(listed(8), "anz");
	ck_assert_str_eq(heard(ear), "");
	free(library);
	free(text);
}
END_TEST

static DAT_RETURN open_name(const char *name, DAT_UINT32 major, DAT_UINT32 minor, DAT_BOOLEAN safe,
			    DAT_IA_HANDLE *ia)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;

	return dat_ia_openv((char *)name, 8, &evd, ia, major, minor, safe);
}

static const struct {
	const char *file; /* NULL: a missing one */
	int messages;
} no_files[] = { { "/nonexistent/dat.conf", 1 }, { "", 1 }, { "/", 1 }, { "/dev/null", 0 } };

START_TEST(test_no_file)
{
	int ear = listen_to_stderr();
	DAT_COUNT count = -1;
	DAT_IA_HANDLE ia;

	setenv("DAT_OVERRIDE", no_files[_i].file, 1);
	ck_assert_uint_eq(dat_registry_list_providers(0, &count, NULL), BAD_ARG(1));
	ck_assert_int_eq(count, 0);
	ck_assert_str_eq(listed(8), "");
	ck_assert_uint_eq(open_name("a", 1, 2, DAT_FALSE, &ia), NO_NAME);
	ck_assert_int_eq(lines_heard(ear), no_files[_i].messages);
}
END_TEST

START_TEST(test_debug_type)
{
	int ear = listen_to_stderr();

	setenv("DAT_DBG_TYPE", "0", 1);
	use_conf("bad line\n" LINE("a"));
	ck_assert_str_eq(listed(8), "a");
	ck_assert_str_eq(heard(ear), "");
}
END_TEST

START_TEST(test_debug_destination)
{
	int ear = listen_to_stderr();

	setenv("DAT_DBG_DEST", "0x2", 1);
	use_conf("bad line\n" LINE("a"));
	ck_assert_str_eq(listed(8), "a");
	ck_assert_str_eq(heard(ear), "");
}
END_TEST

/* What providers register. Each table opens IAs of its own number. */

#define TABLES 4

static struct object {
	DAT_PROVIDER *provider;
} objects[TABLES];

static char last_name[DAT_NAME_MAX_LENGTH];
static int last_aware, opened;

#define OPEN(n)                                                                                    \
	static DAT_RETURN open_##n(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *evd,   \
				   DAT_IA_HANDLE *ia)                                              \
	{                                                                                          \
		int datx_ia_open_ro_aware(void);                                                   \
                                                                                                   \
		(void)qlen;                                                                        \
		(void)evd;                                                                         \
		last_aware = datx_ia_open_ro_aware();                                              \
		strcpy(last_name, name);                                                           \
		opened = n;                                                                        \
		*ia = &objects[n];                                                                 \
		return DAT_SUCCESS;                                                                \
	}
OPEN(0)
OPEN(1)
OPEN(2)
OPEN(3)

static DAT_RETURN close_object(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS flags)
{
	(void)ia;
	(void)flags;
	return DAT_SUCCESS;
}

static DAT_PROVIDER tables[TABLES] = {
	{ .ia_open_func = open_0, .ia_close_func = close_object },
	{ .ia_open_func = open_1, .ia_close_func = close_object },
	{ .ia_open_func = open_2, .ia_close_func = close_object },
	{ .ia_open_func = open_3, .ia_close_func = close_object },
};

static DAT_RETURN add(int table, const char *name, DAT_UINT32 major, DAT_UINT32 minor,
		      DAT_BOOLEAN safe)
{
	DAT_PROVIDER_INFO info = { "", major, minor, safe };

	strcpy(info.ia_name, name);
	objects[table].provider = &tables[table];
	return dat_registry_add_provider(&tables[table], &info);
}

static DAT_RETURN withdraw(const char *name, DAT_UINT32 major, DAT_UINT32 minor, DAT_BOOLEAN safe)
{
	DAT_PROVIDER_INFO info = { "", major, minor, safe };

	strcpy(info.ia_name, name);
	return dat_registry_remove_provider(&tables[0], &info);
}

/* The table an open led to, or minus its failure's subtype. */
static int leads_to(const char *name, DAT_UINT32 major, DAT_UINT32 minor, DAT_BOOLEAN safe)
{
	DAT_IA_HANDLE ia = &ia;
	DAT_RETURN ret = open_name(name, major, minor, safe, &ia);

	if (ret != DAT_SUCCESS) {
		ck_assert_uint_eq(DAT_GET_TYPE(ret), DAT_PROVIDER_NOT_FOUND);
		ck_assert_uint_eq(ret & DAT_CLASS_ERROR, DAT_CLASS_ERROR);
		ck_assert_ptr_null(ia);
		return -(int)DAT_GET_SUBTYPE(ret);
	}
	ck_assert_uint_eq(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	return opened;
}

START_TEST(test_add_arguments)
{
	DAT_PROVIDER_INFO info = { "a", 1, 2, DAT_FALSE };

	use_conf("");
	ck_assert_uint_eq(dat_registry_add_provider(NULL, &info), BAD_ARG(1));
	ck_assert_uint_eq(dat_registry_add_provider(&tables[0], NULL), BAD_ARG(2));
	ck_assert_uint_eq(add(0, "", 1, 2, DAT_FALSE), BAD_ARG(2));
	memset(info.ia_name, 'a', sizeof(info.ia_name));
	ck_assert_uint_eq(dat_registry_add_provider(&tables[0], &info), BAD_ARG(2));
	info.ia_name[255] = '\0';
	ck_assert_uint_eq(dat_registry_add_provider(&tables[0], &info), DAT_SUCCESS);
}
END_TEST

START_TEST(test_remove_arguments)
{
	DAT_PROVIDER_INFO info = { "a", 1, 2, DAT_FALSE };

	use_conf("");
	ck_assert_uint_eq(add(0, "a", 1, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_uint_eq(dat_registry_remove_provider(NULL, &info), BAD_ARG(1));
	ck_assert_uint_eq(dat_registry_remove_provider(&tables[0], NULL), BAD_ARG(2));
	ck_assert_uint_eq(withdraw("b", 1, 2, DAT_FALSE), NO_NAME);
	ck_assert_uint_eq(withdraw("a", 1, 1, DAT_FALSE), NO_NAME);
	ck_assert_uint_eq(withdraw("a", 1, 3, DAT_FALSE), NO_NAME);
	ck_assert_uint_eq(withdraw("a", 2, 2, DAT_FALSE), NO_NAME);
	ck_assert_uint_eq(withdraw("a", 1, 2, DAT_TRUE), NO_NAME);
	ck_assert_uint_eq(withdraw("a", 1, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_uint_eq(withdraw("a", 1, 2, DAT_FALSE), NO_NAME);
}
END_TEST

START_TEST(test_one_name_many_keys)
{
	use_conf("");
	ck_assert_uint_eq(add(0, "a", 1, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_uint_eq(add(1, "a", 1, 2, DAT_FALSE), ALREADY);
	ck_assert_uint_eq(add(1, "a", 1, 2, DAT_TRUE), DAT_SUCCESS);
	ck_assert_uint_eq(add(2, "a", 1, 3, DAT_FALSE), DAT_SUCCESS);
	ck_assert_uint_eq(add(3, "a", 2, 0, DAT_FALSE), DAT_SUCCESS);
	ck_assert_int_eq(leads_to("a", 1, 2, DAT_FALSE), 0);
	ck_assert_int_eq(leads_to("a", 1, 2, DAT_TRUE), 1);
	ck_assert_int_eq(leads_to("a", 1, 3, DAT_FALSE), 2);
	ck_assert_int_eq(leads_to("a", 2, 0, DAT_FALSE), 3);
	ck_assert_uint_eq(withdraw("a", 1, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_uint_eq(add(0, "a", 1, 2, DAT_FALSE), DAT_SUCCESS);
}
END_TEST

START_TEST(test_smallest_sufficient_minor)
{
	use_conf("");
	ck_assert_uint_eq(add(0, "a", 1, 9, DAT_FALSE), DAT_SUCCESS);
	ck_assert_uint_eq(add(1, "a", 1, 4, DAT_FALSE), DAT_SUCCESS);
	ck_assert_uint_eq(add(2, "a", 1, 6, DAT_FALSE), DAT_SUCCESS);
	ck_assert_int_eq(leads_to("a", 1, 0, DAT_FALSE), 1);
	ck_assert_int_eq(leads_to("a", 1, 4, DAT_FALSE), 1);
	ck_assert_int_eq(leads_to("a", 1, 5, DAT_FALSE), 2);
	ck_assert_int_eq(leads_to("a", 1, 7, DAT_FALSE), 0);
	ck_assert_int_eq(leads_to("a", 1, 10, DAT_FALSE), -(int)DAT_MINOR_NOT_FOUND);
}
END_TEST

START_TEST(test_why_nothing_matches)
{
	/* One candidate is registered, one in the file. */
	use_conf("f u3.1 threadsafe default libnone.so dapl.1.2 \"p\" \"\"\n");
	ck_assert_uint_eq(add(0, "a", 1, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_int_eq(leads_to("A", 1, 2, DAT_FALSE), -(int)DAT_NAME_NOT_REGISTERED);
	ck_assert_int_eq(leads_to("", 1, 2, DAT_FALSE), -(int)DAT_NAME_NOT_REGISTERED);
	ck_assert_int_eq(leads_to("a", 2, 9, DAT_TRUE), -(int)DAT_MAJOR_NOT_FOUND);
	ck_assert_int_eq(leads_to("a", 1, 3, DAT_TRUE), -(int)DAT_MINOR_NOT_FOUND);
	ck_assert_int_eq(leads_to("a", 1, 2, DAT_TRUE), -(int)DAT_THREAD_SAFETY_NOT_FOUND);
	ck_assert_int_eq(leads_to("f", 1, 2, DAT_FALSE), -(int)DAT_MAJOR_NOT_FOUND);
	ck_assert_int_eq(leads_to("f", 3, 2, DAT_FALSE), -(int)DAT_MINOR_NOT_FOUND);
	ck_assert_int_eq(leads_to("f", 3, 1, DAT_FALSE), -(int)DAT_THREAD_SAFETY_NOT_FOUND);
	/*
	 * Name and minor are had by one, thread safety by another: each key field narrows what is
	 * left.
	 */
	ck_assert_uint_eq(add(1, "a", 1, 1, DAT_TRUE), DAT_SUCCESS);
	ck_assert_int_eq(leads_to("a", 1, 2, DAT_TRUE), -(int)DAT_THREAD_SAFETY_NOT_FOUND);
}
END_TEST

START_TEST(test_remove_while_open)
{
	DAT_IA_HANDLE first, second;

	use_conf("");
	ck_assert_uint_eq(add(0, "a", 1, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_uint_eq(open_name("a", 1, 2, DAT_FALSE, &first), DAT_SUCCESS);
	objects[1].provider = &tables[0];
	ck_assert_uint_eq(open_name("a", 1, 2, DAT_FALSE, &second), DAT_SUCCESS);
	ck_assert_uint_eq(withdraw("a", 1, 2, DAT_FALSE), IN_USE);
	ck_assert_uint_eq(dat_ia_close(first, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq(withdraw("a", 1, 2, DAT_FALSE), IN_USE);
	ck_assert_uint_eq(dat_ia_close(second, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq(withdraw("a", 1, 2, DAT_FALSE), DAT_SUCCESS);
}
END_TEST

START_TEST(test_registered_names_are_not_listed)
{
	use_conf(LINE("f"));
	ck_assert_uint_eq(add(0, "a", 1, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_str_eq(listed(8), "f");
}
END_TEST

/* The consumer's word on relaxed ordering. */

START_TEST(test_aware_prefix)
{
	use_conf("");
	ck_assert_uint_eq(add(0, "a", 1, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_int_eq(leads_to("RO_AWARE_a", 1, 2, DAT_FALSE), 0);
	ck_assert_str_eq(last_name, "a");
	ck_assert_int_ne(last_aware, 0);
	ck_assert_int_eq(leads_to("a", 1, 2, DAT_FALSE), 0);
	ck_assert_str_eq(last_name, "a");
	ck_assert_int_eq(last_aware, 0);
	ck_assert_int_eq(leads_to("RO_AWARE_b", 1, 2, DAT_FALSE), -(int)DAT_NAME_NOT_REGISTERED);
	ck_assert_int_eq(leads_to("RO_AWARE_", 1, 2, DAT_FALSE), -(int)DAT_NAME_NOT_REGISTERED);
	ck_assert_int_eq(leads_to("ro_aware_a", 1, 2, DAT_FALSE), -(int)DAT_NAME_NOT_REGISTERED);
}
END_TEST

START_TEST(test_aware_only_during_the_open)
{
	int datx_ia_open_ro_aware(void);

	use_conf("");
	ck_assert_uint_eq(add(0, "a", 1, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_int_eq(datx_ia_open_ro_aware(), 0);
	ck_assert_int_eq(leads_to("RO_AWARE_a", 1, 2, DAT_FALSE), 0);
	ck_assert_int_eq(datx_ia_open_ro_aware(), 0);
}
END_TEST

START_TEST(test_a_name_with_the_prefix)
{
	listen_to_stderr(); /* there is no library for the name in the file */
	use_conf(LINE("RO_AWARE_f"));
	ck_assert_uint_eq(add(0, "a", 1, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_uint_eq(add(1, "RO_AWARE_a", 1, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_uint_eq(add(2, "f", 1, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_int_eq(leads_to("RO_AWARE_a", 1, 2, DAT_FALSE), 1);
	ck_assert_str_eq(last_name, "RO_AWARE_a");
	ck_assert_int_eq(last_aware, 0);
	ck_assert_int_eq(leads_to("RO_AWARE_RO_AWARE_a", 1, 2, DAT_FALSE), 1);
	ck_assert_int_ne(last_aware, 0);
	ck_assert_int_eq(leads_to("RO_AWARE_f", 1, 2, DAT_FALSE), -(int)DAT_NAME_NOT_REGISTERED);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("registry");

	tcase_add_test(cases, test_list_asks_for_the_size);
	tcase_add_test(cases, test_list_in_file_order);
	tcase_add_test(cases, test_list_touches_no_more_than_it_fills);
	tcase_add_test(cases, test_list_tells_the_key);
	tcase_add_test(cases, test_list_arguments);
	tcase_add_test(cases, test_list_counts_a_chain_once);
	tcase_add_loop_test(cases, test_malformed_line, 0, COUNT(malformed));
	tcase_add_test(cases, test_odd_but_good_file);
	tcase_add_loop_test(cases, test_no_file, 0, COUNT(no_files));
	tcase_add_test(cases, test_debug_type);
	tcase_add_test(cases, test_debug_destination);
	tcase_add_test(cases, test_add_arguments);
	tcase_add_test(cases, test_remove_arguments);
	tcase_add_test(cases, test_one_name_many_keys);
	tcase_add_test(cases, test_smallest_sufficient_minor);
	tcase_add_test(cases, test_why_nothing_matches);
	tcase_add_test(cases, test_remove_while_open);
	tcase_add_test(cases, test_registered_names_are_not_listed);
	tcase_add_test(cases, test_aware_prefix);
	tcase_add_test(cases, test_aware_only_during_the_open);
	tcase_add_test(cases, test_a_name_with_the_prefix);
	return run_cases(argc, argv);
}
