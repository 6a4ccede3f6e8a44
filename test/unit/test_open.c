/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dat_ia_openv and dat_ia_close over a provider library: loading, counting, failing, and several
 * threads at it.
 */
#define _GNU_SOURCE
#include <dat/dat_registry.h>
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/resource.h>

#include "mock_provider.h"
#include "registry_test.h"

#define NO_NAME	  0x800a0062U
#define NO_DEVICE 0x80030003U
#define IN_USE	  0x8007004fU
#define POISON	  ((void *)0x7070)

#define LINE(name, version, library, params)                                                       \
	name " " version " nonthreadsafe default " library " dapl.1.2 \"" params "\" \"\"\n"
#define MOCK(name, params) LINE(name, "u1.2", MOCK_PROVIDER, params)
#define MISSING(name)	   LINE(name, "u1.2", "libdat-test-missing.so.1", "")

/* The library's own, once the registry has loaded it. */
static struct mock *loaded(void)
{
	struct mock *found = dlsym(RTLD_DEFAULT, "mock");

	ck_assert_ptr_nonnull(found);
	return found;
}

static DAT_RETURN try_open(const char *name, DAT_IA_HANDLE *ia)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;

	return dat_ia_open((char *)name, 8, &evd, ia);
}

static DAT_IA_HANDLE must_open(const char *name)
{
	DAT_IA_HANDLE ia = POISON;

	ck_assert_uint_eq(try_open(name, &ia), DAT_SUCCESS);
	return ia;
}

static void must_close(DAT_IA_HANDLE ia)
{
	ck_assert_uint_eq(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}

/* A failed open leaves nothing behind: not in its arguments, and not in a count. */
static void must_fail(const char *name, DAT_RETURN want)
{
	DAT_EVD_HANDLE evd = DAT_EVD_ASYNC_EXISTS;
	DAT_IA_HANDLE ia = POISON;

	ck_assert_uint_eq(dat_ia_open((char *)name, 8, &evd, &ia), want);
	ck_assert_ptr_null(ia);
	ck_assert_ptr_eq(evd, DAT_EVD_ASYNC_EXISTS);
}

static void expect_counts(int inits, int finis, int opens, int closes)
{
	struct mock *mock = loaded();

	ck_assert_int_eq(mock->inits, inits);
	ck_assert_int_eq(mock->finis, finis);
	ck_assert_int_eq(mock->opens, opens);
	ck_assert_int_eq(mock->closes, closes);
	ck_assert_int_eq(mock->wrong, 0);
}

static DAT_RETURN withdraw(const char *name)
{
	DAT_PROVIDER_INFO info = { "", 1, 2, DAT_FALSE };
	DAT_PROVIDER table = { .device_name = name };

	strcpy(info.ia_name, name);
	return dat_registry_remove_provider(&table, &info);
}

START_TEST(test_open_and_close)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;

	use_conf(MOCK("m", "eth0 0 \\\"q\\\""));
	ck_assert_uint_eq(dat_ia_open((char *)"m", 23, &evd, &ia), DAT_SUCCESS);
	ck_assert_uint_eq((uintptr_t)ia, 1);
	ck_assert_ptr_eq(evd, MOCK_ASYNC_EVD);
	ck_assert_str_eq(loaded()->params, "eth0 0 \"q\"");
	ck_assert_str_eq(loaded()->name, "m");
	ck_assert_int_eq(loaded()->qlen, 23);
	expect_counts(1, 0, 1, 0);
	must_close(ia);
	expect_counts(1, 1, 1, 1);
}
END_TEST

START_TEST(test_started_once_stopped_once)
{
	DAT_IA_HANDLE first, second;

	use_conf(MOCK("m", ""));
	first = must_open("m");
	second = must_open("m");
	ck_assert_ptr_ne(first, second);
	expect_counts(1, 0, 2, 0);
	must_close(first);
	expect_counts(1, 0, 2, 1);
	must_close(second);
	expect_counts(1, 1, 2, 2);
	must_close(must_open("m"));
	expect_counts(2, 2, 3, 3);
}
END_TEST

START_TEST(test_each_name_has_a_life_of_its_own)
{
	DAT_IA_HANDLE a, b;

	use_conf(MOCK("a", "1") MOCK("b", "2"));
	a = must_open("a");
	ck_assert_str_eq(loaded()->params, "1");
	b = must_open("b");
	ck_assert_str_eq(loaded()->params, "2");
	expect_counts(2, 0, 2, 0);
	must_close(a);
	expect_counts(2, 1, 2, 1);
	must_close(b);
	expect_counts(2, 2, 2, 2);
}
END_TEST

START_TEST(test_library_stays)
{
	Dl_info info;
	void *init;

	use_conf(MOCK("m", ""));
	must_close(must_open("m"));
	init = dlsym(RTLD_DEFAULT, "dat_provider_init");
	ck_assert_ptr_nonnull(init);
	ck_assert_int_ne(dladdr(init, &info), 0);
}
END_TEST

/* Chains and libraries that are not what they should be. */

START_TEST(test_first_library_that_loads)
{
	int ear = listen_to_stderr();

	use_conf(MISSING("m") MOCK("m", "second") MOCK("m", "third"));
	must_close(must_open("m"));
	ck_assert_str_eq(loaded()->params, "second");
	must_close(must_open("m"));
	expect_counts(2, 2, 2, 2);
	ck_assert_str_eq(heard(ear), "");
}
END_TEST

START_TEST(test_no_library_loads)
{
	int ear = listen_to_stderr();

	use_conf(MISSING("m") LINE("m", "u1.2", "/dev/null", "") MOCK("other", ""));
	must_fail("m", NO_NAME);
	ck_assert_int_eq(lines_heard(ear), 1);
	must_fail("m", NO_NAME);
	ck_assert_int_eq(lines_heard(ear), 2);
	must_close(must_open("other"));
}
END_TEST

START_TEST(test_every_reason_when_asked)
{
	int ear = listen_to_stderr();

	setenv("DAT_DBG_TYPE", "5", 1);
	use_conf(MISSING("m") LINE("m", "u1.2", "/dev/null", ""));
	must_fail("m", NO_NAME);
	ck_assert_ptr_nonnull(strstr(heard(ear), "m: line 1: libdat-test-missing.so.1"));
	ck_assert_ptr_nonnull(strstr(heard(ear), "m: line 2: /dev/null"));
}
END_TEST

START_TEST(test_library_of_something_else)
{
	use_conf(LINE("m", "u1.2", "libm.so.6", ""));
	must_fail("m", NO_NAME);
	must_fail("m", NO_NAME);
}
END_TEST

START_TEST(test_init_registers_nothing)
{
	int ear = listen_to_stderr();

	use_conf(MOCK("m", "mute"));
	must_fail("m", NO_NAME);
	expect_counts(1, 1, 0, 0);
	must_fail("m", NO_NAME);
	expect_counts(2, 2, 0, 0);
	ck_assert_str_eq(heard(ear), "");
}
END_TEST

START_TEST(test_library_registers_by_itself)
{
	setenv("MOCK_REGISTERS", "m", 1);
	use_conf(MOCK("m", "mute"));
	must_close(must_open("m"));
	must_close(must_open("m"));
	ck_assert_uint_eq(withdraw("m"), DAT_SUCCESS);
}
END_TEST

START_TEST(test_device_is_gone)
{
	int ear = listen_to_stderr();

	use_conf(MOCK("m", "sick"));
	must_fail("m", NO_DEVICE);
	expect_counts(1, 1, 0, 0);
	ck_assert_uint_eq(withdraw("m"), NO_NAME);
	must_fail("m", NO_DEVICE);
	expect_counts(2, 2, 0, 0);
	ck_assert_str_eq(heard(ear), "");
}
END_TEST

START_TEST(test_failed_open_beside_a_good_one)
{
	DAT_IA_HANDLE ia;

	use_conf(MOCK("m", "sick") MOCK("good", ""));
	ia = must_open("good");
	must_fail("m", NO_DEVICE);
	expect_counts(2, 1, 1, 0);
	ck_assert_uint_eq((uintptr_t)must_open("good"), 2);
	must_close(ia);
}
END_TEST

START_TEST(test_success_without_an_ia)
{
	use_conf(MOCK("m", "blank"));
	must_fail("m", DAT_CLASS_ERROR | DAT_INTERNAL_ERROR);
	expect_counts(1, 1, 0, 0);
}
END_TEST

START_TEST(test_refused_close_changes_nothing)
{
	DAT_IA_HANDLE ia;

	use_conf(MOCK("m", ""));
	ia = must_open("m");
	ck_assert_uint_eq(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), IN_USE);
	ck_assert_uint_eq(withdraw("m"), DAT_CLASS_ERROR | DAT_PROVIDER_IN_USE);
	expect_counts(1, 0, 1, 0);
	must_close(ia);
	expect_counts(1, 1, 1, 1);
}
END_TEST

START_TEST(test_fini_that_forgets_to_remove)
{
	use_conf(MOCK("m", "clingy"));
	must_close(must_open("m"));
	ck_assert_uint_eq(withdraw("m"), NO_NAME);
	must_close(must_open("m"));
	expect_counts(2, 2, 2, 2);
}
END_TEST

/* What is asked for. */

START_TEST(test_arguments)
{
	char name[257];
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia = POISON;

	use_conf(MOCK("m", ""));
	ck_assert_uint_eq(dat_ia_open(NULL, 8, &evd, &ia), 0x80060024U);
	ck_assert_ptr_null(ia);
	memset(name, 'n', 256);
	name[256] = '\0';
	ia = POISON;
	ck_assert_uint_eq(dat_ia_open(name, 8, &evd, &ia), 0x80060024U);
	ck_assert_ptr_null(ia);
	memcpy(name, "RO_AWARE_", 9);
	ck_assert_uint_eq(dat_ia_open(name, 8, &evd, &ia), 0x80060024U);
	name[255] = '\0';
	ck_assert_uint_eq(dat_ia_open(name, 8, &evd, &ia), NO_NAME);
	ck_assert_uint_eq(dat_ia_open((char *)"m", 8, NULL, &ia), 0x80060026U);
	ck_assert_uint_eq(dat_ia_open((char *)"m", 8, &evd, NULL), 0x80060027U);
	ck_assert_uint_eq(dat_ia_open((char *)"m", 0, &evd, &ia), 0x80060025U);
	ck_assert_uint_eq(dat_ia_open((char *)"m", -1, &evd, &ia), 0x80060025U);
	ck_assert_ptr_null(evd);
	ck_assert_ptr_null(dlsym(RTLD_DEFAULT, "mock"));
}
END_TEST

START_TEST(test_given_evd_needs_no_length)
{
	DAT_EVD_HANDLE evd = POISON;
	DAT_IA_HANDLE ia;

	use_conf(MOCK("m", ""));
	ck_assert_uint_eq(dat_ia_open((char *)"m", 0, &evd, &ia), DAT_SUCCESS);
	must_close(ia);
}
END_TEST

START_TEST(test_other_generation)
{
	use_conf(LINE("two", "u2.0", MOCK_PROVIDER,
		      "") "k k1.2 nonthreadsafe default " MOCK_PROVIDER " d.1.2 p q\n");
	must_fail("two", 0x800a0063U);
	must_fail("k", NO_NAME);
	ck_assert_ptr_null(dlsym(RTLD_DEFAULT, "mock"));
}
END_TEST

START_TEST(test_larger_minor_version)
{
	use_conf(LINE("m", "u1.7", MOCK_PROVIDER, "seven") LINE("m", "u1.4", MOCK_PROVIDER, "four")
			 LINE("m", "u1.1", MOCK_PROVIDER, "one"));
	must_close(must_open("m"));
	ck_assert_str_eq(loaded()->params, "four");
	expect_counts(1, 1, 1, 1);
}
END_TEST

START_TEST(test_thread_safety_is_part_of_the_key)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;

	use_conf("m u1.2 threadsafe default " MOCK_PROVIDER
		 " dapl.1.2 safe \"\"\n" MOCK("m", "unsafe"));
	ck_assert_uint_eq(dat_ia_openv((char *)"m", 8, &evd, &ia, 1, 2, DAT_TRUE), DAT_SUCCESS);
	ck_assert_str_eq(loaded()->params, "safe");
	must_close(ia);
	must_close(must_open("m"));
	ck_assert_str_eq(loaded()->params, "unsafe");
	expect_counts(2, 2, 2, 2);
}
END_TEST

START_TEST(test_ro_aware)
{
	use_conf(MOCK("m", "") MOCK("RO_AWARE_full", ""));
	must_close(must_open("RO_AWARE_m"));
	ck_assert_str_eq(loaded()->name, "m");
	ck_assert_int_eq(loaded()->ro_aware, 1);
	must_close(must_open("m"));
	ck_assert_int_eq(loaded()->ro_aware, 0);
	must_close(must_open("RO_AWARE_full"));
	ck_assert_str_eq(loaded()->name, "RO_AWARE_full");
	ck_assert_int_eq(loaded()->ro_aware, 0);
	expect_counts(3, 3, 3, 3);
}
END_TEST

static int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	ck_assert_ptr_nonnull(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

START_TEST(test_many_rounds)
{
	struct rlimit limit;
	int before;

	use_conf(MOCK("m", "") MOCK("gone", "sick"));
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = 50;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	must_close(must_open("m"));
	before = open_files();
	for (int i = 0; i < 400; i++) {
		must_close(must_open("m"));
		must_fail("gone", NO_DEVICE);
	}
	ck_assert_int_eq(open_files(), before);
	expect_counts(801, 801, 401, 401);
}
END_TEST

/* Provider code may call anything in the registry. */

START_TEST(test_init_and_fini_call_back)
{
	struct mock *mock;
	DAT_IA_HANDLE ia;

	use_conf(MOCK("m", "nested") MOCK("other", ""));
	ia = must_open("m");
	mock = loaded();
	ck_assert_uint_eq(mock->own, NO_NAME);
	ck_assert_uint_eq(mock->other, DAT_SUCCESS);
	ck_assert_int_eq(mock->listed, 2);
	mock->own = mock->other = 1;
	mock->listed = 0;
	must_close(ia);
	ck_assert_uint_eq(mock->own, NO_NAME);
	ck_assert_uint_eq(mock->other, DAT_SUCCESS);
	ck_assert_int_eq(mock->listed, 2);
	expect_counts(3, 3, 3, 3);
}
END_TEST

static void *open_in_thread(void *name)
{
	return must_open(name);
}

static void *close_in_thread(void *ia)
{
	must_close(ia);
	return NULL;
}

/* All that must go on while another thread is inside the provider's init or fini. */
static void use_registry(const char *other)
{
	DAT_PROVIDER table = { .device_name = "x" };
	DAT_PROVIDER_INFO info = { "x", 1, 2, DAT_FALSE };
	DAT_COUNT count;

	ck_assert_uint_eq(dat_registry_list_providers(0, &count, NULL), 0x80060024U);
	ck_assert_uint_eq(dat_registry_add_provider(&table, &info), DAT_SUCCESS);
	ck_assert_uint_eq(dat_registry_remove_provider(&table, &info), DAT_SUCCESS);
	must_close(must_open(other));
}

static pthread_t start(void *(*function)(void *), void *arg)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, function, arg), 0);
	return thread;
}

static void *finish(pthread_t thread)
{
	void *result;

	ck_assert_int_eq(pthread_join(thread, &result), 0);
	return result;
}

START_TEST(test_init_holds_up_its_own_name_alone)
{
	pthread_t first, second;
	DAT_IA_HANDLE ia;

	use_conf(MOCK("m", "gate") MOCK("other", ""));
	ia = must_open("other");
	first = start(open_in_thread, (void *)"m");
	sem_wait(&loaded()->entered);
	second = start(open_in_thread, (void *)"m");
	use_registry("other");
	sem_post(&loaded()->leave);
	must_close(finish(first));
	sem_post(&loaded()->leave); /* should the second have come after that close */
	must_close(finish(second));
	must_close(ia);
	ck_assert_int_eq(loaded()->wrong, 0);
	ck_assert_int_eq(loaded()->inits, loaded()->finis);
}
END_TEST

START_TEST(test_fini_holds_up_its_own_name_alone)
{
	pthread_t closer, opener;
	DAT_IA_HANDLE ia;

	use_conf(MOCK("m", "gate2") MOCK("other", ""));
	closer = start(close_in_thread, must_open("m"));
	sem_wait(&loaded()->entered);
	opener = start(open_in_thread, (void *)"m");
	use_registry("other");
	ck_assert_int_eq(loaded()->inits, 2); /* m and other: the opener waits for fini to end */
	sem_post(&loaded()->leave);
	finish(closer);
	ia = finish(opener);
	expect_counts(3, 2, 3, 2);
	sem_post(&loaded()->leave);
	must_close(ia);
	expect_counts(3, 3, 3, 3);
}
END_TEST

static void *open_and_close(void *arg)
{
	static const char *const names[] = { "a", "b", "RO_AWARE_a" };
	DAT_IA_HANDLE ia, spare;

	for (int i = 0; i < 300; i++) {
		ia = must_open(names[(i + *(int *)arg) % 3]);
		if (i % 5 == 0)
			ck_assert_uint_eq(try_open("gone", &spare), NO_DEVICE);
		must_close(ia);
	}
	return NULL;
}

START_TEST(test_threads)
{
	pthread_t threads[4];
	int numbers[4];

	use_conf(MISSING("a") MOCK("a", "") MOCK("b", "clingy") MOCK("gone", "sick"));
	for (int i = 0; i < COUNT(threads); i++) {
		numbers[i] = i;
		threads[i] = start(open_and_close, &numbers[i]);
	}
	for (int i = 0; i < COUNT(threads); i++)
		finish(threads[i]);
	ck_assert_int_eq(loaded()->wrong, 0);
	ck_assert_int_eq(loaded()->inits, loaded()->finis);
	ck_assert_int_eq(loaded()->opens, 1200);
	ck_assert_int_eq(loaded()->closes, 1200);
	ck_assert_uint_eq((uintptr_t)must_open("a"), 1);
	ck_assert_uint_eq(withdraw("b"), NO_NAME);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("open");

	tcase_set_timeout(cases, 60);
	tcase_add_test(cases, test_open_and_close);
	tcase_add_test(cases, test_started_once_stopped_once);
	tcase_add_test(cases, test_each_name_has_a_life_of_its_own);
	tcase_add_test(cases, test_library_stays);
	tcase_add_test(cases, test_first_library_that_loads);
	tcase_add_test(cases, test_no_library_loads);
	tcase_add_test(cases, test_every_reason_when_asked);
	tcase_add_test(cases, test_library_of_something_else);
	tcase_add_test(cases, test_init_registers_nothing);
	tcase_add_test(cases, test_library_registers_by_itself);
	tcase_add_test(cases, test_device_is_gone);
	tcase_add_test(cases, test_failed_open_beside_a_good_one);
	tcase_add_test(cases, test_success_without_an_ia);
	tcase_add_test(cases, test_refused_close_changes_nothing);
	tcase_add_test(cases, test_fini_that_forgets_to_remove);
	tcase_add_test(cases, test_arguments);
	tcase_add_test(cases, test_given_evd_needs_no_length);
	tcase_add_test(cases, test_other_generation);
	tcase_add_test(cases, test_larger_minor_version);
	tcase_add_test(cases, test_thread_safety_is_part_of_the_key);
	tcase_add_test(cases, test_ro_aware);
	tcase_add_test(cases, test_many_rounds);
	tcase_add_test(cases, test_init_and_fini_call_back);
	tcase_add_test(cases, test_init_holds_up_its_own_name_alone);
	tcase_add_test(cases, test_fini_holds_up_its_own_name_alone);
	tcase_add_test(cases, test_threads);
	return run_cases(argc, argv);
}
