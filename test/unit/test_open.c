/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dat_ia_openv and dat_ia_close with a provider library: loading it, its use count, failures, and
 * several threads.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/resource.h>

#include "mock_provider.h"
#include "registry_test.h"

#define POISON ((void *)0x7070)

/* A line of dat.conf whose library does not exist. */
#define MISSING(name) LINE(name, API_VERSION, "libdat-test-missing.so.1", "")

/* The record of the mock provider, which the registry must have loaded. */
static struct mock *loaded_mock(void)
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

static DAT_IA_HANDLE opened_ia(const char *name)
{
	DAT_IA_HANDLE ia = POISON;

	ck_assert_uint_eq(try_open(name, &ia), DAT_SUCCESS);
	return ia;
}

static void close_abruptly(DAT_IA_HANDLE ia)
{
	ck_assert_uint_eq(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}

/* A failed open changes neither its EVD argument nor a use count, and sets the IA to null. */
static void open_fails(const char *name, DAT_RETURN want)
{
	DAT_EVD_HANDLE evd = DAT_EVD_ASYNC_EXISTS;
	DAT_IA_HANDLE ia = POISON;

	ck_assert_uint_eq(dat_ia_open((char *)name, 8, &evd, &ia), want);
	ck_assert_ptr_null(ia);
	ck_assert_ptr_eq(evd, DAT_EVD_ASYNC_EXISTS);
}

static void counts_are(int inits, int finis, int opens, int closes)
{
	struct mock *mock = loaded_mock();

	ck_assert_int_eq(mock->inits, inits);
	ck_assert_int_eq(mock->finis, finis);
	ck_assert_int_eq(mock->opens, opens);
	ck_assert_int_eq(mock->closes, closes);
	ck_assert_int_eq(mock->misuses, 0);
}

START_TEST(open_passes_its_arguments_to_the_provider)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;

	use_conf(MOCK("m", "eth0 0 \\\"q\\\""));
	ck_assert_uint_eq(dat_ia_open((char *)"m", 23, &evd, &ia), DAT_SUCCESS);
	ck_assert_uint_eq((uintptr_t)ia, 1);
	ck_assert_ptr_eq(evd, MOCK_ASYNC_EVD);
	ck_assert_str_eq(loaded_mock()->params, "eth0 0 \"q\"");
	ck_assert_str_eq(loaded_mock()->name, "m");
	ck_assert_int_eq(loaded_mock()->qlen, 23);
	counts_are(1, 0, 1, 0);
	close_abruptly(ia);
	counts_are(1, 1, 1, 1);
}
END_TEST

START_TEST(the_provider_is_initialised_once_for_many_ias)
{
	DAT_IA_HANDLE first, second;

	use_conf(MOCK("m", ""));
	first = opened_ia("m");
	second = opened_ia("m");
	ck_assert_ptr_ne(first, second);
	counts_are(1, 0, 2, 0);
	close_abruptly(first);
	counts_are(1, 0, 2, 1);
	close_abruptly(second);
	counts_are(1, 1, 2, 2);
	close_abruptly(opened_ia("m"));
	counts_are(2, 2, 3, 3);
}
END_TEST

START_TEST(each_name_is_initialised_by_itself)
{
	DAT_IA_HANDLE a, b;

	use_conf(MOCK("a", "1") MOCK("b", "2"));
	a = opened_ia("a");
	ck_assert_str_eq(loaded_mock()->params, "1");
	b = opened_ia("b");
	ck_assert_str_eq(loaded_mock()->params, "2");
	counts_are(2, 0, 2, 0);
	close_abruptly(a);
	counts_are(2, 1, 2, 1);
	close_abruptly(b);
	counts_are(2, 2, 2, 2);
}
END_TEST

START_TEST(the_library_stays_loaded)
{
	Dl_info info;
	void *init;

	use_conf(MOCK("m", ""));
	close_abruptly(opened_ia("m"));
	init = dlsym(RTLD_DEFAULT, "dat_provider_init");
	ck_assert_ptr_nonnull(init);
	ck_assert_int_ne(dladdr(init, &info), 0);
}
END_TEST

/* ---- several entries of one name, and libraries that fail ---- */

START_TEST(the_first_library_that_loads_is_used)
{
	int err_fd = stderr_capture();

	use_conf(MISSING("m") MOCK("m", "second") MOCK("m", "third"));
	close_abruptly(opened_ia("m"));
	ck_assert_str_eq(loaded_mock()->params, "second");
	close_abruptly(opened_ia("m"));
	counts_are(2, 2, 2, 2);
	ck_assert_str_eq(output_text(err_fd), "");
}
END_TEST

START_TEST(a_name_without_a_library_is_not_registered)
{
	int err_fd = stderr_capture();

	use_conf(MISSING("m") LINE("m", API_VERSION, "/dev/null", "") MOCK("other", ""));
	open_fails("m", NO_NAME);
	ck_assert_int_eq(captured_lines(err_fd), 1);
	open_fails("m", NO_NAME);
	ck_assert_int_eq(captured_lines(err_fd), 2);
	close_abruptly(opened_ia("other"));
}
END_TEST

START_TEST(debug_output_has_the_reason_for_each_library)
{
	int err_fd = stderr_capture();

	setenv("DAT_DBG_TYPE", "5", 1);
	use_conf(MISSING("m") LINE("m", API_VERSION, "/dev/null", ""));
	open_fails("m", NO_NAME);
	ck_assert_ptr_nonnull(strstr(output_text(err_fd), "m: line 1: libdat-test-missing.so.1"));
	ck_assert_ptr_nonnull(strstr(output_text(err_fd), "m: line 2: /dev/null"));
}
END_TEST

START_TEST(a_library_that_is_no_provider_is_refused)
{
	int err_fd = stderr_capture();

	use_conf("\n" LINE("m", API_VERSION, "libm.so.6", ""));
	open_fails("m", NO_NAME);
	ck_assert_ptr_nonnull(strstr(output_text(err_fd), ":2: libm.so.6 is no provider: "));
	open_fails("m", NO_NAME);
	ck_assert_int_eq(captured_lines(err_fd), 2);
}
END_TEST

START_TEST(open_fails_when_init_registers_nothing)
{
	int err_fd = stderr_capture();

	use_conf(MOCK("m", "no-register"));
	open_fails("m", NO_NAME);
	counts_are(1, 1, 0, 0);
	open_fails("m", NO_NAME);
	counts_are(2, 2, 0, 0);
	ck_assert_str_eq(output_text(err_fd), "");
}
END_TEST

START_TEST(debug_output_tells_that_init_registered_nothing)
{
	int err_fd = stderr_capture();

	setenv("DAT_DBG_TYPE", "4", 1);
	use_conf(MOCK("m", "no-register"));
	open_fails("m", NO_NAME);
	ck_assert_ptr_nonnull(strstr(output_text(err_fd),
				     ":1: " MOCK_PROVIDER " has not registered this name\n"));
}
END_TEST

START_TEST(a_library_may_register_when_it_is_loaded)
{
	setenv("MOCK_REGISTERS", "m", 1);
	use_conf(MOCK("m", "no-register"));
	close_abruptly(opened_ia("m"));
	close_abruptly(opened_ia("m"));
	ck_assert_uint_eq(registry_remove("m", DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_FALSE),
			  DAT_SUCCESS);
}
END_TEST

START_TEST(a_failed_open_stops_the_provider)
{
	int err_fd = stderr_capture();

	use_conf(MOCK("m", "no-device"));
	open_fails("m", NO_DEVICE);
	counts_are(1, 1, 0, 0);
	ck_assert_uint_eq(registry_remove("m", DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_FALSE),
			  NO_NAME);
	open_fails("m", NO_DEVICE);
	counts_are(2, 2, 0, 0);
	ck_assert_str_eq(output_text(err_fd), "");
}
END_TEST

START_TEST(a_failed_open_leaves_other_names_running)
{
	DAT_IA_HANDLE ia;

	use_conf(MOCK("m", "no-device") MOCK("good", ""));
	ia = opened_ia("good");
	open_fails("m", NO_DEVICE);
	counts_are(2, 1, 1, 0);
	ck_assert_uint_eq((uintptr_t)opened_ia("good"), 2);
	close_abruptly(ia);
}
END_TEST

START_TEST(success_without_an_ia_is_an_internal_error)
{
	use_conf(MOCK("m", "no-ia"));
	open_fails("m", ERROR_OF(DAT_INTERNAL_ERROR, DAT_NO_SUBTYPE));
	counts_are(1, 1, 0, 0);
}
END_TEST

START_TEST(a_refused_close_keeps_the_ia_open)
{
	DAT_IA_HANDLE ia;

	use_conf(MOCK("m", ""));
	ia = opened_ia("m");
	ck_assert_uint_eq(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), IA_IN_USE);
	ck_assert_uint_eq(registry_remove("m", DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_FALSE),
			  PROVIDER_IN_USE);
	counts_are(1, 0, 1, 0);
	close_abruptly(ia);
	counts_are(1, 1, 1, 1);
}
END_TEST

START_TEST(the_registry_removes_what_fini_did_not)
{
	use_conf(MOCK("m", "no-remove"));
	close_abruptly(opened_ia("m"));
	ck_assert_uint_eq(registry_remove("m", DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_FALSE),
			  NO_NAME);
	close_abruptly(opened_ia("m"));
	counts_are(2, 2, 2, 2);
}
END_TEST

/* ---- arguments and keys ---- */

START_TEST(open_refuses_bad_arguments)
{
	char name[257];
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia = POISON;

	use_conf(MOCK("m", ""));
	ck_assert_uint_eq(dat_ia_open(NULL, 8, &evd, &ia), BAD_ARG(1));
	ck_assert_ptr_null(ia);
	memset(name, 'n', 256);
	name[256] = '\0';
	ia = POISON;
	ck_assert_uint_eq(dat_ia_open(name, 8, &evd, &ia), BAD_ARG(1));
	ck_assert_ptr_null(ia);
	memcpy(name, "RO_AWARE_", 9);
	ck_assert_uint_eq(dat_ia_open(name, 8, &evd, &ia), BAD_ARG(1));
	name[255] = '\0';
	ck_assert_uint_eq(dat_ia_open(name, 8, &evd, &ia), NO_NAME);
	ck_assert_uint_eq(dat_ia_open((char *)"m", 8, NULL, &ia), BAD_ARG(3));
	ck_assert_uint_eq(dat_ia_open((char *)"m", 8, &evd, NULL), BAD_ARG(4));
	ck_assert_uint_eq(dat_ia_open((char *)"m", 0, &evd, &ia), BAD_ARG(2));
	ck_assert_uint_eq(dat_ia_open((char *)"m", -1, &evd, &ia), BAD_ARG(2));
	ck_assert_ptr_null(evd);
	ck_assert_ptr_null(dlsym(RTLD_DEFAULT, "mock"));
}
END_TEST

START_TEST(an_evd_of_the_consumer_needs_no_length)
{
	DAT_EVD_HANDLE evd = POISON;
	DAT_IA_HANDLE ia;

	use_conf(MOCK("m", ""));
	ck_assert_uint_eq(dat_ia_open((char *)"m", 0, &evd, &ia), DAT_SUCCESS);
	close_abruptly(ia);
}
END_TEST

START_TEST(another_major_version_is_refused_without_loading)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia = POISON;

	use_conf(LINE("two", FOREIGN_VERSION, MOCK_PROVIDER,
		      "") "k k1.2 nonthreadsafe default " MOCK_PROVIDER " d.1.2 p q\n");
	open_fails("two", NO_MAJOR);
	open_fails("k", NO_NAME);
	/* nor by a program that asks for the version of the line */
	ck_assert_uint_eq(
		dat_ia_openv((char *)"two", 8, &evd, &ia, FOREIGN_MAJOR, FOREIGN_MINOR, DAT_FALSE),
		NO_NAME);
	ck_assert_ptr_null(ia);
	ck_assert_ptr_null(dlsym(RTLD_DEFAULT, "mock"));
}
END_TEST

START_TEST(the_smallest_sufficient_minor_is_loaded)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;

	use_conf(LINE("m", API_MINOR("7"), MOCK_PROVIDER, "seven")
			 LINE("m", API_MINOR("4"), MOCK_PROVIDER, "four")
				 LINE("m", API_MINOR("1"), MOCK_PROVIDER, "one"));
	ck_assert_uint_eq(dat_ia_openv((char *)"m", 8, &evd, &ia, API_MAJOR, 2, DAT_FALSE),
			  DAT_SUCCESS);
	close_abruptly(ia);
	ck_assert_str_eq(loaded_mock()->params, "four");
	counts_are(1, 1, 1, 1);
}
END_TEST

/* Not even if the library of that line registers nothing, and what another one has would do. */
START_TEST(a_line_is_not_opened_by_the_provider_of_another_line)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE seven, ia;
	DAT_RETURN ret;

	use_conf(LINE("m", API_MINOR("7"), MOCK_PROVIDER, "seven")
			 LINE("m", API_MINOR("4"), MOCK_PROVIDER, "no-register"));
	ck_assert_uint_eq(dat_ia_openv((char *)"m", 8, &evd, &seven, API_MAJOR, 5, DAT_FALSE),
			  DAT_SUCCESS);
	ret = dat_ia_openv((char *)"m", 8, &evd, &ia, API_MAJOR, 2, DAT_FALSE);
	ck_assert_uint_eq(DAT_GET_TYPE(ret), DAT_PROVIDER_NOT_FOUND);
	ck_assert_str_eq(loaded_mock()->params, "no-register");
	close_abruptly(seven);
}
END_TEST

START_TEST(thread_safety_is_part_of_the_key)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;

	use_conf("m " API_VERSION " threadsafe default " MOCK_PROVIDER
		 " dapl.1.2 safe \"\"\n" MOCK("m", "unsafe"));
	ck_assert_uint_eq(dat_ia_openv((char *)"m", 8, &evd, &ia, DAT_VERSION_MAJOR,
				       DAT_VERSION_MINOR, DAT_TRUE),
			  DAT_SUCCESS);
	ck_assert_str_eq(loaded_mock()->params, "safe");
	close_abruptly(ia);
	close_abruptly(opened_ia("m"));
	ck_assert_str_eq(loaded_mock()->params, "unsafe");
	counts_are(2, 2, 2, 2);
}
END_TEST

START_TEST(ro_aware_reaches_the_provider)
{
	use_conf(MOCK("m", "") MOCK("RO_AWARE_full", ""));
	close_abruptly(opened_ia("RO_AWARE_m"));
	ck_assert_str_eq(loaded_mock()->name, "m");
	ck_assert_int_eq(loaded_mock()->ro_aware, 1);
	close_abruptly(opened_ia("m"));
	ck_assert_int_eq(loaded_mock()->ro_aware, 0);
	close_abruptly(opened_ia("RO_AWARE_full"));
	ck_assert_str_eq(loaded_mock()->name, "RO_AWARE_full");
	ck_assert_int_eq(loaded_mock()->ro_aware, 0);
	counts_are(3, 3, 3, 3);
}
END_TEST

/* Of a chain, that whose library was loaded. */
START_TEST(the_line_of_dat_conf_reaches_the_provider)
{
	const char *datx_ia_open_line(void);
	char want[64];

	stderr_capture();
	use_conf(MISSING("m") MOCK("m", "") MOCK("m", "third"));
	snprintf(want, sizeof(want), "%s:2", getenv("DAT_OVERRIDE"));
	close_abruptly(opened_ia("m"));
	ck_assert_str_eq(loaded_mock()->line, want);
	ck_assert_ptr_null(datx_ia_open_line());
}
END_TEST

START_TEST(open_and_close_leak_no_descriptors)
{
	struct rlimit limit;
	int before;

	use_conf(MOCK("m", "") MOCK("gone", "no-device"));
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = 50;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	close_abruptly(opened_ia("m"));
	before = count_entries("/proc/self/fd");
	for (int i = 0; i < 400; i++) {
		close_abruptly(opened_ia("m"));
		open_fails("gone", NO_DEVICE);
	}
	ck_assert_int_eq(count_entries("/proc/self/fd"), before);
	counts_are(801, 801, 401, 401);
}
END_TEST

/* ---- calls of a provider to the registry, and threads ---- */

START_TEST(init_and_fini_may_call_the_registry)
{
	struct mock *mock;
	DAT_IA_HANDLE ia;

	use_conf(MOCK("m", "nested") MOCK("other", ""));
	ia = opened_ia("m");
	mock = loaded_mock();
	ck_assert_uint_eq(mock->own_status, NO_NAME);
	ck_assert_uint_eq(mock->other_status, DAT_SUCCESS);
	ck_assert_int_eq(mock->list_count, 2);
	mock->own_status = mock->other_status = 1;
	mock->list_count = 0;
	close_abruptly(ia);
	ck_assert_uint_eq(mock->own_status, NO_NAME);
	ck_assert_uint_eq(mock->other_status, DAT_SUCCESS);
	ck_assert_int_eq(mock->list_count, 2);
	counts_are(3, 3, 3, 3);
}
END_TEST

static void *open_in_thread(void *name)
{
	return opened_ia(name);
}

static void *close_in_thread(void *ia)
{
	close_abruptly(ia);
	return NULL;
}

/* These calls must not block while another thread is inside the provider's init or fini. */
static void use_registry(const char *other)
{
	DAT_PROVIDER table = { .device_name = "x" };
	DAT_PROVIDER_INFO info = { "x", API_MAJOR, 2, DAT_FALSE };
	DAT_COUNT count;

	ck_assert_uint_eq(dat_registry_list_providers(0, &count, NULL), BAD_ARG(1));
	ck_assert_uint_eq(dat_registry_add_provider(&table, &info), DAT_SUCCESS);
	ck_assert_uint_eq(dat_registry_remove_provider(&table, &info), DAT_SUCCESS);
	close_abruptly(opened_ia(other));
}

static pthread_t registry_thread_start(void *(*function)(void *), void *arg)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, function, arg), 0);
	return thread;
}

static void *registry_thread_join(pthread_t thread)
{
	void *result;

	ck_assert_int_eq(pthread_join(thread, &result), 0);
	return result;
}

START_TEST(init_blocks_only_opens_of_its_name)
{
	pthread_t first, second;
	DAT_IA_HANDLE ia;

	use_conf(MOCK("m", "block-init") MOCK("other", ""));
	ia = opened_ia("other");
	first = registry_thread_start(open_in_thread, (void *)"m");
	sem_wait(&loaded_mock()->entered);
	second = registry_thread_start(open_in_thread, (void *)"m");
	use_registry("other");
	sem_post(&loaded_mock()->proceed);
	close_abruptly(registry_thread_join(first));
	sem_post(&loaded_mock()->proceed); /* for another init, if the second open came after it */
	close_abruptly(registry_thread_join(second));
	close_abruptly(ia);
	ck_assert_int_eq(loaded_mock()->misuses, 0);
	ck_assert_int_eq(loaded_mock()->inits, loaded_mock()->finis);
}
END_TEST

START_TEST(fini_blocks_only_opens_of_its_name)
{
	pthread_t closer, opener;
	DAT_IA_HANDLE ia;

	use_conf(MOCK("m", "block-fini") MOCK("other", ""));
	closer = registry_thread_start(close_in_thread, opened_ia("m"));
	sem_wait(&loaded_mock()->entered);
	opener = registry_thread_start(open_in_thread, (void *)"m");
	use_registry("other");
	ck_assert_int_eq(loaded_mock()->inits, 2); /* of m and other: the opener waits for fini */
	sem_post(&loaded_mock()->proceed);
	registry_thread_join(closer);
	ia = registry_thread_join(opener);
	counts_are(3, 2, 3, 2);
	sem_post(&loaded_mock()->proceed);
	close_abruptly(ia);
	counts_are(3, 3, 3, 3);
}
END_TEST

static void *open_and_close_names(void *arg)
{
	static const char *const names[] = { "a", "b", "RO_AWARE_a" };
	DAT_IA_HANDLE ia, spare;

	for (int i = 0; i < 300; i++) {
		ia = opened_ia(names[(i + *(int *)arg) % 3]);
		if (i % 5 == 0)
			ck_assert_uint_eq(try_open("gone", &spare), NO_DEVICE);
		close_abruptly(ia);
	}
	return NULL;
}

START_TEST(threads_open_and_close_the_same_names)
{
	pthread_t threads[4];
	int numbers[4];

	use_conf(MISSING("a") MOCK("a", "") MOCK("b", "no-remove") MOCK("gone", "no-device"));
	for (int i = 0; i < COUNT(threads); i++) {
		numbers[i] = i;
		threads[i] = registry_thread_start(open_and_close_names, &numbers[i]);
	}
	for (int i = 0; i < COUNT(threads); i++)
		registry_thread_join(threads[i]);
	ck_assert_int_eq(loaded_mock()->misuses, 0);
	ck_assert_int_eq(loaded_mock()->inits, loaded_mock()->finis);
	ck_assert_int_eq(loaded_mock()->opens, 1200);
	ck_assert_int_eq(loaded_mock()->closes, 1200);
	ck_assert_uint_eq((uintptr_t)opened_ia("a"), 1);
	ck_assert_uint_eq(registry_remove("b", DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_FALSE),
			  NO_NAME);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("open");

	tcase_add_test(cases, open_passes_its_arguments_to_the_provider);
	tcase_add_test(cases, the_provider_is_initialised_once_for_many_ias);
	tcase_add_test(cases, each_name_is_initialised_by_itself);
	tcase_add_test(cases, the_library_stays_loaded);
	tcase_add_test(cases, the_first_library_that_loads_is_used);
	tcase_add_test(cases, a_name_without_a_library_is_not_registered);
	tcase_add_test(cases, debug_output_has_the_reason_for_each_library);
	tcase_add_test(cases, a_library_that_is_no_provider_is_refused);
	tcase_add_test(cases, open_fails_when_init_registers_nothing);
	tcase_add_test(cases, debug_output_tells_that_init_registered_nothing);
	tcase_add_test(cases, a_library_may_register_when_it_is_loaded);
	tcase_add_test(cases, a_failed_open_stops_the_provider);
	tcase_add_test(cases, a_failed_open_leaves_other_names_running);
	tcase_add_test(cases, success_without_an_ia_is_an_internal_error);
	tcase_add_test(cases, a_refused_close_keeps_the_ia_open);
	tcase_add_test(cases, the_registry_removes_what_fini_did_not);
	tcase_add_test(cases, open_refuses_bad_arguments);
	tcase_add_test(cases, an_evd_of_the_consumer_needs_no_length);
	tcase_add_test(cases, another_major_version_is_refused_without_loading);
	tcase_add_test(cases, the_smallest_sufficient_minor_is_loaded);
	tcase_add_test(cases, a_line_is_not_opened_by_the_provider_of_another_line);
	tcase_add_test(cases, thread_safety_is_part_of_the_key);
	tcase_add_test(cases, ro_aware_reaches_the_provider);
	tcase_add_test(cases, the_line_of_dat_conf_reaches_the_provider);
	tcase_add_test(cases, open_and_close_leak_no_descriptors);
	tcase_add_test(cases, init_and_fini_may_call_the_registry);
	tcase_add_test(cases, init_blocks_only_opens_of_its_name);
	tcase_add_test(cases, fini_blocks_only_opens_of_its_name);
	tcase_add_test(cases, threads_open_and_close_the_same_names);
	return run_cases(argc, argv);
}
