/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dat_extension_op: which provider an operation reaches, and the IAs that are opened for a query of
 * their attributes. Of DAT 2.0 only.
 */
#define _GNU_SOURCE
#include <dat2/dat_ib_extensions.h>
#include <dlfcn.h>
#include <sys/wait.h>

#include "mock_provider.h"
#include "registry_test.h"

#define BAD_HANDLE1	ERROR_OF(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1)
#define NOT_IMPLEMENTED ERROR_OF(DAT_NOT_IMPLEMENTED, DAT_NO_SUBTYPE)
#define POISON		((DAT_HANDLE)0x7070)
#define OP		7 /* any operation that opens or closes nothing */

/* The record of the mock provider, or NULL if its library is not loaded. */
static struct mock *mock_if_loaded(void)
{
	void *library = dlopen(MOCK_PROVIDER, RTLD_NOLOAD | RTLD_NOW);

	return library ? dlsym(library, "mock") : NULL;
}

static struct mock *loaded_mock(void)
{
	struct mock *found = mock_if_loaded();

	ck_assert_ptr_nonnull(found);
	return found;
}

static DAT_IA_HANDLE opened_ia(const char *name)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;

	ck_assert_uint_eq(dat_ia_open((char *)name, 8, &evd, &ia), DAT_SUCCESS);
	return ia;
}

static void close_abruptly(DAT_IA_HANDLE ia)
{
	ck_assert_uint_eq(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}

static DAT_RETURN try_query(const char *name, DAT_HANDLE *query)
{
	DAT_IA_ATTR attr;

	return dat_ib_open_query(name, query, DAT_IA_FIELD_ALL, &attr, 0, NULL);
}

static DAT_HANDLE opened_query(const char *name)
{
	DAT_HANDLE query = POISON;

	ck_assert_uint_eq(try_query(name, &query), DAT_SUCCESS);
	ck_assert_uint_ge((uintptr_t)query, 4096);
	return query;
}

static void query_fails(const char *name, DAT_RETURN want)
{
	DAT_HANDLE query = POISON;

	ck_assert_uint_eq(try_query(name, &query), want);
	ck_assert_ptr_null(query);
}

static void close_query(DAT_HANDLE query)
{
	ck_assert_uint_eq(dat_ib_close_query(query), DAT_SUCCESS);
}

static void counts_are(int inits, int finis, int query_opens, int query_closes)
{
	struct mock *mock = loaded_mock();

	ck_assert_int_eq(mock->inits, inits);
	ck_assert_int_eq(mock->finis, finis);
	ck_assert_int_eq(mock->query_opens, query_opens);
	ck_assert_int_eq(mock->query_closes, query_closes);
	ck_assert_int_eq(mock->misuses, 0);
}

/* ---- operations on a handle ---- */

static void operation_reaches(DAT_HANDLE handle, DAT_HANDLE translated)
{
	const struct mock *mock = loaded_mock();

	ck_assert_uint_eq(dat_extension_op(handle, OP, (DAT_UINT64)-3, (DAT_UINT64)4), DAT_SUCCESS);
	ck_assert_ptr_eq(mock->handle, translated);
	ck_assert_int_eq(mock->op, OP);
	ck_assert_uint_eq(mock->words[0], (DAT_UINT64)-3);
	ck_assert_uint_eq(mock->words[1], 4);
}

/* The handles of an IA are its number and the provider's. */
static DAT_HANDLE provider_handle_of(DAT_IA_HANDLE ia)
{
	DAT_RETURN dats_get_ia_handle(unsigned long handle, DAT_IA_HANDLE *ia);
	DAT_IA_HANDLE inner;

	ck_assert_uint_eq(dats_get_ia_handle((unsigned long)ia, &inner), DAT_SUCCESS);
	return inner;
}

START_TEST(an_operation_reaches_the_provider_of_its_handle)
{
	struct registry_object object;
	DAT_IA_HANDLE ia;

	use_conf(MOCK("m", ""));
	ia = opened_ia("m");
	operation_reaches(ia, provider_handle_of(ia));
	operation_reaches(provider_handle_of(ia), provider_handle_of(ia));
	object.provider = *(DAT_PROVIDER **)provider_handle_of(ia);
	operation_reaches(&object, &object);
	close_abruptly(ia);
}
END_TEST

START_TEST(an_operation_refuses_what_is_no_handle)
{
	struct registry_object object = { NULL };
	DAT_IA_HANDLE ia;

	use_conf(MOCK("m", ""));
	ia = opened_ia("m");
	close_abruptly(opened_ia("m"));
	ck_assert_uint_eq(dat_extension_op(NULL, OP), BAD_HANDLE1);
	ck_assert_uint_eq(dat_extension_op((DAT_HANDLE)2, OP), BAD_HANDLE1);
	ck_assert_uint_eq(dat_extension_op((DAT_HANDLE)8, OP), BAD_HANDLE1);
	ck_assert_uint_eq(dat_extension_op((DAT_HANDLE)4088, OP), BAD_HANDLE1);
	ck_assert_uint_eq(dat_extension_op((DAT_HANDLE)4095, OP), BAD_HANDLE1);
	for (int i = 1; i < 8; i++)
		ck_assert_uint_eq(dat_extension_op((char *)&object + i, OP), BAD_HANDLE1);
	close_abruptly(ia);
}
END_TEST

/* Whatever other providers of the process have. */
START_TEST(a_provider_without_extensions_implements_none)
{
	DAT_IA_HANDLE with, without;

	use_conf(MOCK("with", "") MOCK("without", "no-extension"));
	with = opened_ia("with");
	without = opened_ia("without");
	operation_reaches(with, provider_handle_of(with));
	ck_assert_uint_eq(dat_extension_op(without, OP), NOT_IMPLEMENTED);
	ck_assert_uint_eq(dat_extension_op(provider_handle_of(without), OP), NOT_IMPLEMENTED);
	close_abruptly(without);
	close_abruptly(with);
}
END_TEST

/* ---- queries ---- */

START_TEST(a_query_opens_its_name)
{
	DAT_PROVIDER_ATTR provider_attr;
	DAT_HANDLE query = POISON;
	DAT_IA_ATTR ia_attr;
	struct mock *mock;

	use_conf(MOCK("other", "") MOCK("m", "eth0 0"));
	ck_assert_uint_eq(dat_ib_open_query("m", &query, 5, &ia_attr, 6, &provider_attr),
			  DAT_SUCCESS);
	mock = loaded_mock();
	ck_assert_str_eq(mock->params, "eth0 0");
	ck_assert_str_eq(mock->name, "m");
	ck_assert_ptr_ne(strstr(mock->line, ":2"), NULL);
	ck_assert_uint_eq(mock->query_words[0], (uintptr_t)&query);
	ck_assert_uint_eq(mock->query_words[1], 5);
	ck_assert_uint_eq(mock->query_words[2], (uintptr_t)&ia_attr);
	ck_assert_uint_eq(mock->query_words[3], 6);
	ck_assert_uint_eq(mock->query_words[4], (uintptr_t)&provider_attr);
	ck_assert_int_eq(mock->opens, 0);
	counts_are(1, 0, 1, 0);
	close_query(query);
	counts_are(1, 1, 1, 1);
}
END_TEST

/* dapl's registry does not look at the handle. */
START_TEST(the_open_of_a_query_has_no_handle)
{
	DAT_HANDLE query = POISON;
	const DAT_HANDLE handles[] = { NULL, (DAT_HANDLE)1, (DAT_HANDLE)0x5555, &query };

	use_conf(MOCK("m", ""));
	ck_assert_uint_eq((uintptr_t)opened_ia("m"), 1);
	ck_assert_uint_eq(dat_extension_op(handles[_i], DAT_IB_OPEN_QUERY_OP, "m", &query,
					   (DAT_IA_ATTR_MASK)0, NULL, (DAT_PROVIDER_ATTR_MASK)0,
					   NULL),
			  DAT_SUCCESS);
	close_query(query);
	counts_are(1, 0, 1, 1);
}
END_TEST

START_TEST(a_query_refuses_bad_arguments)
{
	char name[257];

	stderr_capture();
	use_conf(MOCK("m", ""));
	query_fails("x", NO_NAME);
	ck_assert_uint_eq(dat_ib_open_query("m", NULL, 0, NULL, 0, NULL), BAD_ARG(4));
	ck_assert_uint_eq(dat_ib_open_query(NULL, NULL, 0, NULL, 0, NULL), BAD_ARG(3));
	memset(name, 'n', 256);
	name[256] = '\0';
	ck_assert_uint_eq(dat_ib_open_query(name, NULL, 0, NULL, 0, NULL), BAD_ARG(3));
	name[255] = '\0';
	query_fails(name, NO_NAME);
	ck_assert_ptr_null(mock_if_loaded());
}
END_TEST

START_TEST(a_failed_query_stops_the_provider)
{
	use_conf(MOCK("gone", "no-device") MOCK("nothing", "no-ia") MOCK("none", "no-extension"));
	query_fails("gone", NO_DEVICE);
	counts_are(1, 1, 0, 0);
	query_fails("nothing", ERROR_OF(DAT_INTERNAL_ERROR, DAT_NO_SUBTYPE));
	counts_are(2, 2, 0, 0);
	query_fails("none", NOT_IMPLEMENTED);
	counts_are(3, 3, 0, 0);
	ck_assert_uint_eq((uintptr_t)opened_ia("none"), 1);
}
END_TEST

START_TEST(a_query_counts_as_an_open)
{
	DAT_HANDLE query;
	DAT_IA_HANDLE ia;

	use_conf(MOCK("m", ""));
	ia = opened_ia("m");
	query = opened_query("m");
	counts_are(1, 0, 1, 0);
	close_abruptly(ia);
	counts_are(1, 0, 1, 0);
	ck_assert_uint_eq(registry_remove("m", 2, 0, DAT_FALSE), PROVIDER_IN_USE);
	ia = opened_ia("m");
	close_query(query);
	counts_are(1, 0, 1, 1);
	close_abruptly(ia);
	counts_are(1, 1, 1, 1);
}
END_TEST

START_TEST(a_refused_close_keeps_the_query_open)
{
	DAT_HANDLE query;

	use_conf(MOCK("m", ""));
	query = opened_query("m");
	loaded_mock()->refused_closes = 1;
	ck_assert_uint_eq(dat_ib_close_query(query), IA_IN_USE);
	counts_are(1, 0, 1, 0);
	close_query(query);
	counts_are(1, 1, 1, 1);
}
END_TEST

/* Its provider might not know such an object, and the counts of the registry would be wrong. */
START_TEST(calls_of_an_ia_refuse_a_query)
{
	DAT_RETURN dats_get_ia_handle(unsigned long handle, DAT_IA_HANDLE *ia);
	DAT_IA_HANDLE ia = POISON;
	DAT_HANDLE query;

	use_conf(MOCK("m", ""));
	query = opened_query("m");
	ck_assert_uint_eq(dat_ia_close(query, DAT_CLOSE_ABRUPT_FLAG), BAD_IA);
	ck_assert_uint_eq(dat_ia_query(query, NULL, 0, NULL, 0, NULL), BAD_IA);
	ck_assert_uint_eq(dats_get_ia_handle((unsigned long)query, &ia), BAD_IA);
	/* nor has it a number */
	for (uintptr_t i = 1; i < 4096; i++)
		ck_assert_uint_eq(dat_ia_close((DAT_IA_HANDLE)i, DAT_CLOSE_ABRUPT_FLAG), BAD_IA);
	ck_assert_uint_eq(dat_ia_query((DAT_IA_HANDLE)1, NULL, 0, NULL, 0, NULL), BAD_IA);
	ck_assert_ptr_eq(ia, POISON);
	counts_are(1, 0, 1, 0);
	close_query(query);
	counts_are(1, 1, 1, 1);
}
END_TEST

START_TEST(the_close_of_a_query_refuses_what_is_none)
{
	struct registry_object object = { NULL };
	DAT_HANDLE query;
	DAT_IA_HANDLE ia;

	use_conf(MOCK("m", ""));
	ia = opened_ia("m");
	ck_assert_uint_eq(dat_ib_close_query(ia), BAD_IA);
	ck_assert_uint_eq(dat_ib_close_query(provider_handle_of(ia)), BAD_IA);
	ck_assert_uint_eq(dat_ib_close_query(NULL), BAD_IA);
	ck_assert_uint_eq(dat_ib_close_query(&object), BAD_IA);
	ck_assert_uint_eq(dat_ib_close_query((DAT_HANDLE)0x5555), BAD_IA);
	query = opened_query("m");
	close_query(query);
	ck_assert_uint_eq(dat_ib_close_query(query), BAD_IA);
	counts_are(1, 0, 1, 1);
	close_abruptly(ia);
	counts_are(1, 1, 1, 1);
}
END_TEST

/* A provider that gives out one object for all queries, and counts how often. */
static struct registry_object shared;
static int shared_users;
static DAT_RETURN (*during_close)(void); /* called while a query is closed */

static DAT_RETURN shared_extended_op(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list args)
{
	(void)handle;
	if (op & DAT_OPEN_EXTENSION_BASE) {
		*va_arg(args, DAT_HANDLE *) = &shared;
		shared_users++;
	} else {
		shared_users--;
		if (during_close)
			return during_close();
	}
	return DAT_SUCCESS;
}

static DAT_PROVIDER shared_table = { .handle_extendedop_func = shared_extended_op };
static const DAT_PROVIDER_INFO shared_info = { "shared", 2, 0, DAT_FALSE };

static void add_shared(void)
{
	use_conf("");
	shared.provider = &shared_table;
	ck_assert_uint_eq(dat_registry_add_provider(&shared_table, &shared_info), DAT_SUCCESS);
}

START_TEST(two_queries_may_have_one_handle)
{
	add_shared();
	ck_assert_ptr_eq(opened_query("shared"), &shared);
	ck_assert_ptr_eq(opened_query("shared"), &shared);
	close_query(&shared);
	ck_assert_uint_eq(dat_registry_remove_provider(&shared_table, &shared_info),
			  PROVIDER_IN_USE);
	close_query(&shared);
	ck_assert_uint_eq(dat_ib_close_query(&shared), BAD_IA);
	ck_assert_int_eq(shared_users, 0);
	ck_assert_uint_eq(dat_registry_remove_provider(&shared_table, &shared_info), DAT_SUCCESS);
}
END_TEST

static DAT_RETURN close_again(void)
{
	during_close = NULL;
	ck_assert_uint_eq(dat_ib_close_query(&shared), BAD_IA);
	return DAT_SUCCESS;
}

START_TEST(a_query_is_refused_while_it_is_closed)
{
	add_shared();
	(void)opened_query("shared");
	during_close = close_again;
	close_query(&shared);
	ck_assert_int_eq(shared_users, 0);
}
END_TEST

START_TEST(ro_aware_is_no_part_of_the_name_of_a_query)
{
	DAT_HANDLE query;

	use_conf(MOCK("m", ""));
	query = opened_query("RO_AWARE_m");
	ck_assert_str_eq(loaded_mock()->name, "m");
	ck_assert_int_eq(loaded_mock()->ro_aware, 1);
	close_query(query);
}
END_TEST

/* More than the registry has handles. */
START_TEST(queries_leak_nothing)
{
	unsigned before;

	use_conf(MOCK("m", "") MOCK("gone", "no-device"));
	close_query(opened_query("m"));
	before = count_entries("/proc/self/fd");
	for (int i = 1; i < 4400; i++)
		close_query(opened_query("m"));
	counts_are(4400, 4400, 4400, 4400);
	for (int i = 0; i < 400; i++)
		query_fails("gone", NO_DEVICE);
	counts_are(4800, 4800, 4400, 4400);
	ck_assert_uint_eq(count_entries("/proc/self/fd"), before);
	ck_assert_uint_eq(registry_remove("m", 2, 0, DAT_FALSE), NO_NAME);
	ck_assert_uint_eq((uintptr_t)opened_ia("m"), 1);
}
END_TEST

/* As an IA, it belongs to the parent. */
START_TEST(a_child_has_no_query_of_its_parent)
{
	DAT_HANDLE query;
	int status;
	pid_t pid;

	use_conf(MOCK("m", ""));
	query = opened_query("m");
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid)
		_exit(dat_ib_close_query(query) == BAD_IA ? 0 : 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	close_query(query);
	counts_are(1, 1, 1, 1);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("extension");

	tcase_add_test(cases, an_operation_reaches_the_provider_of_its_handle);
	tcase_add_test(cases, an_operation_refuses_what_is_no_handle);
	tcase_add_test(cases, a_provider_without_extensions_implements_none);
	tcase_add_test(cases, a_query_opens_its_name);
	tcase_add_loop_test(cases, the_open_of_a_query_has_no_handle, 0, 4);
	tcase_add_test(cases, a_query_refuses_bad_arguments);
	tcase_add_test(cases, a_failed_query_stops_the_provider);
	tcase_add_test(cases, a_query_counts_as_an_open);
	tcase_add_test(cases, a_refused_close_keeps_the_query_open);
	tcase_add_test(cases, calls_of_an_ia_refuse_a_query);
	tcase_add_test(cases, the_close_of_a_query_refuses_what_is_none);
	tcase_add_test(cases, two_queries_may_have_one_handle);
	tcase_add_test(cases, a_query_is_refused_while_it_is_closed);
	tcase_add_test(cases, ro_aware_is_no_part_of_the_name_of_a_query);
	tcase_add_test(cases, queries_leak_nothing);
	tcase_add_test(cases, a_child_has_no_query_of_its_parent);
	return run_cases(argc, argv);
}
