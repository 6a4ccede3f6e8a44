/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests to cancel a thread in the calls of the registry: the call comes to its end, and other
 * threads go on. A lock that a thread has kept, the dynamic linker's among them, shows as a case
 * that hangs. The calls that libdat only hands on are in test_cancel.c.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "libdat.h"
#if DAT_EDITION == 2
#include <dat2/dat_ib_extensions.h>
#endif
#include "mock_provider.h"
#include "registry_test.h"

static DAT_RETURN open_named(const char *name, DAT_IA_HANDLE *ia)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;

	return dat_ia_open((char *)name, 8, &evd, ia);
}

static DAT_RETURN close_abruptly(DAT_IA_HANDLE ia)
{
	return dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
}

/* ---- a thread that makes one call ---- */

struct caller {
	DAT_RETURN (*run)(struct caller *caller);
	DAT_IA_HANDLE ia; /* that it opens or closes */
	bool pending;	  /* the request comes before the call */

	pthread_t thread;
	_Atomic pid_t tid;
	bool returned;
	DAT_RETURN answer;
	int state_after, type_after;
};

/* No checks of the test library: they are cancellation points. */
static void *caller_main(void *arg)
{
	struct caller *caller = arg;

	caller->tid = (pid_t)syscall(SYS_gettid);
	if (caller->pending)
		pthread_cancel(pthread_self());
	caller->answer = caller->run(caller);
	caller->returned = true;
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &caller->type_after);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &caller->state_after);
	pthread_testcancel();
	return NULL;
}

static void caller_start(struct caller *caller)
{
	ck_assert_int_eq(pthread_create(&caller->thread, NULL, caller_main, caller), 0);
}

static void caller_cancel(struct caller *caller)
{
	ck_assert_int_eq(pthread_cancel(caller->thread), 0);
}

/* The request was pending until the call was over. */
static void caller_expect(struct caller *caller, DAT_RETURN want)
{
	void *result;

	ck_assert_int_eq(pthread_join(caller->thread, &result), 0);
	ck_assert_msg(caller->returned, "the thread was cancelled inside");
	ck_assert_ptr_eq(result, PTHREAD_CANCELED);
	ck_assert_uint_eq(caller->answer, want);
	ck_assert_int_eq(caller->state_after, PTHREAD_CANCEL_ENABLE);
	ck_assert_int_eq(caller->type_after, PTHREAD_CANCEL_DEFERRED);
}

static bool caller_sleeps(const struct caller *caller)
{
	char path[64], state = 0;
	FILE *stat;

	if (!caller->tid)
		return false;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)caller->tid);
	stat = fopen(path, "r");
	ck_assert_ptr_nonnull(stat);
	ck_assert_int_eq(fscanf(stat, "%*d (%*[^)]) %c", &state), 1);
	fclose(stat);
	return state == 'S';
}

/* ---- what others do afterwards ---- */

/* Loads a library, as the linker's lock is free; and opens both names. */
static void expect_usable(void)
{
	static const char *const names[] = { "m", "other" };
	void *library = dlopen(MOCK_PROVIDER, RTLD_NOW);
	DAT_IA_HANDLE ia;

	ck_assert_ptr_nonnull(library);
	ck_assert_int_eq(dlclose(library), 0);
	ck_assert_str_eq(registry_list(2), "mo");
	for (int i = 0; i < COUNT(names); i++) {
		ck_assert_uint_eq(open_named(names[i], &ia), DAT_SUCCESS);
		ck_assert_uint_eq(close_abruptly(ia), DAT_SUCCESS);
	}
}

static struct mock *loaded_mock(void)
{
	struct mock *mock = dlsym(RTLD_DEFAULT, "mock");

	ck_assert_ptr_nonnull(mock);
	ck_assert_int_eq(mock->misuses, 0);
	return mock;
}

/* ---- calls that last ---- */

static DAT_RETURN open_m(struct caller *caller)
{
	return open_named("m", &caller->ia);
}

static DAT_RETURN close_it(struct caller *caller)
{
	return close_abruptly(caller->ia);
}

#if DAT_EDITION == 2
static DAT_RETURN query_m(struct caller *caller)
{
	return dat_ib_open_query("m", &caller->ia, DAT_IA_ALL, NULL, 0, NULL);
}

static DAT_RETURN close_query(struct caller *caller)
{
	return dat_ib_close_query(caller->ia);
}
#endif

static void *sleep_for_ever(void *unused)
{
	pause();
	return unused;
}

/* It has the dynamic linker load the library that unwinds stacks. */
static void cancel_for_the_first_time(void)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, sleep_for_ever, NULL), 0);
	ck_assert_int_eq(pthread_cancel(thread), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

/* The library's constructor sleeps in read(2), and the linker has its lock. */
START_TEST(a_request_is_pending_in_the_dynamic_linker)
{
	struct caller caller = { .run = open_m, .pending = _i };
	int entered[2], proceed[2];
	char text[32], byte = 0;

	cancel_for_the_first_time();
	use_conf(MOCK("m", "") MOCK("other", ""));
	ck_assert_int_eq(pipe(entered), 0);
	ck_assert_int_eq(pipe(proceed), 0);
	snprintf(text, sizeof(text), "%d %d", entered[1], proceed[0]);
	ck_assert_int_eq(setenv("MOCK_BLOCKS_LOADING", text, 1), 0);
	caller_start(&caller);
	if (!caller.pending) {
		ck_assert_int_eq(read(entered[0], &byte, 1), 1);
		caller_cancel(&caller);
	}
	ck_assert_int_eq(write(proceed[1], &byte, 1), 1);
	caller_expect(&caller, DAT_SUCCESS);
	ck_assert_int_eq(unsetenv("MOCK_BLOCKS_LOADING"), 0);
	ck_assert_uint_eq(close_abruptly(caller.ia), DAT_SUCCESS);
	expect_usable();
	loaded_mock();
}
END_TEST

/* The provider's entry points sleep in sem_wait(3). */
static const struct {
	const char *conf;
	DAT_RETURN (*open)(struct caller *caller), (*close)(struct caller *caller);
	bool closing;
} entry_points[] = {
	{ MOCK("m", "block-init") MOCK("other", ""), open_m, close_it, false },
	{ MOCK("m", "block-open") MOCK("other", ""), open_m, close_it, false },
	{ MOCK("m", "block-fini") MOCK("other", ""), open_m, close_it, true },
#if DAT_EDITION == 2
	{ MOCK("m", "block-open") MOCK("other", ""), query_m, close_query, false },
	{ MOCK("m", "block-fini") MOCK("other", ""), query_m, close_query, true },
#endif
};

START_TEST(a_request_is_pending_in_a_provider)
{
	struct caller caller = { .run = entry_points[_i].open };
	struct mock *mock;
	DAT_IA_HANDLE ia;

	use_conf(entry_points[_i].conf);
	ck_assert_uint_eq(open_named("other", &ia), DAT_SUCCESS);
	mock = loaded_mock();
	if (entry_points[_i].closing) {
		ck_assert_uint_eq(entry_points[_i].open(&caller), DAT_SUCCESS);
		caller.run = entry_points[_i].close;
	}
	caller_start(&caller);
	while (sem_wait(&mock->entered))
		;
	caller_cancel(&caller);
	sem_post(&mock->proceed);
	caller_expect(&caller, DAT_SUCCESS);
	if (!entry_points[_i].closing)
		ck_assert_uint_eq(entry_points[_i].close(&caller), DAT_SUCCESS);
	for (int i = 0; i < 8; i++)
		sem_post(&mock->proceed); /* for the calls that follow */
	expect_usable();
	ck_assert_uint_eq(close_abruptly(ia), DAT_SUCCESS);
	ck_assert_int_eq(mock->opens, mock->closes);
	ck_assert_int_eq(mock->inits, mock->finis);
	loaded_mock();
}
END_TEST

/* One thread is in the provider, the other one waits for it. */
START_TEST(a_request_is_pending_while_the_call_waits_for_another_thread)
{
	struct caller first = { .run = open_m, .pending = true }, second = { .run = open_m };
	struct mock *mock;
	DAT_IA_HANDLE ia;

	use_conf(MOCK("m", "block-init") MOCK("other", ""));
	ck_assert_uint_eq(open_named("other", &ia), DAT_SUCCESS);
	mock = loaded_mock();
	caller_start(&first);
	while (sem_wait(&mock->entered))
		;
	caller_start(&second);
	while (!caller_sleeps(&second))
		sched_yield();
	caller_cancel(&second);
	for (int i = 0; i < 8; i++)
		sem_post(&mock->proceed);
	caller_expect(&first, DAT_SUCCESS);
	caller_expect(&second, DAT_SUCCESS);
	ck_assert_uint_eq(close_abruptly(first.ia), DAT_SUCCESS);
	ck_assert_uint_eq(close_abruptly(second.ia), DAT_SUCCESS);
	ck_assert_uint_eq(close_abruptly(ia), DAT_SUCCESS);
	expect_usable();
	loaded_mock();
}
END_TEST

/* ---- each call, with a request pending ---- */

static DAT_PROVIDER table = { .device_name = "added" };
static const DAT_PROVIDER_INFO added = { "added", API_MAJOR, 2, DAT_FALSE };
static const DAT_PROVIDER_INFO foreign = { "foreign", FOREIGN_MAJOR, FOREIGN_MINOR, DAT_FALSE };

static DAT_RETURN list(struct caller *caller)
{
	DAT_PROVIDER_INFO infos[4], *pointers[4] = { &infos[0], &infos[1], &infos[2], &infos[3] };
	DAT_COUNT count;

	(void)caller;
	return dat_registry_list_providers(4, &count, pointers);
}

static DAT_RETURN list_without_room(struct caller *caller)
{
	DAT_COUNT count;

	(void)caller;
	return dat_registry_list_providers(0, &count, NULL);
}

static DAT_RETURN open_unknown(struct caller *caller)
{
	return open_named("unknown", &caller->ia);
}

static DAT_RETURN close_unknown(struct caller *caller)
{
	(void)caller;
	return close_abruptly((DAT_IA_HANDLE)1000);
}

static DAT_RETURN query_unknown(struct caller *caller)
{
	DAT_IA_ATTR attr;

	(void)caller;
	return dat_ia_query((DAT_IA_HANDLE)1000, NULL, DAT_IA_ALL, &attr, 0, NULL);
}

static DAT_RETURN get_handle(struct caller *caller)
{
	DAT_IA_HANDLE ia;

	return dats_get_ia_handle((unsigned long)caller->ia, &ia);
}

static DAT_RETURN get_unknown_handle(struct caller *caller)
{
	DAT_IA_HANDLE ia;

	return dats_get_ia_handle((unsigned long)caller, &ia);
}

static DAT_RETURN add(struct caller *caller)
{
	(void)caller;
	return dat_registry_add_provider(&table, &added);
}

static DAT_RETURN add_foreign(struct caller *caller)
{
	(void)caller;
	return dat_registry_add_provider(&table, &foreign);
}

static DAT_RETURN take_away(struct caller *caller)
{
	(void)caller;
	return dat_registry_remove_provider(&table, &added);
}

static DAT_RETURN name_status(struct caller *caller)
{
	const char *major, *minor;

	(void)caller;
	return dat_strerror(DAT_CLASS_ERROR | DAT_ABORT, &major, &minor);
}

#if DAT_EDITION == 2
static DAT_RETURN relate(struct caller *caller)
{
	DAT_HA_RELATIONSHIP relationship;

	(void)caller;
	return dat_registry_providers_related((char *)"m", (char *)"other", &relationship);
}
#endif

#define ERROR(type, subtype) (DAT_CLASS_ERROR | DAT_##type | DAT_##subtype)

static const struct {
	DAT_RETURN (*run)(struct caller *caller);
	DAT_RETURN want;
} calls[] = {
	/* the first reads dat.conf */
	{ list, DAT_SUCCESS },
	{ list_without_room, ERROR(INVALID_PARAMETER, INVALID_ARG1) },
	{ open_m, DAT_SUCCESS },
	{ get_handle, DAT_SUCCESS },
	{ close_it, DAT_SUCCESS },
	{ close_it, ERROR(INVALID_HANDLE, INVALID_HANDLE_IA) },
	{ open_unknown, ERROR(PROVIDER_NOT_FOUND, NAME_NOT_REGISTERED) },
	{ close_unknown, ERROR(INVALID_HANDLE, INVALID_HANDLE_IA) },
	{ query_unknown, ERROR(INVALID_HANDLE, INVALID_HANDLE_IA) },
	{ add, DAT_SUCCESS },
	{ add, ERROR(PROVIDER_ALREADY_REGISTERED, NO_SUBTYPE) },
	{ add_foreign, ERROR(INVALID_PARAMETER, INVALID_ARG2) },
	{ take_away, DAT_SUCCESS },
	{ take_away, ERROR(PROVIDER_NOT_FOUND, NAME_NOT_REGISTERED) },
	{ name_status, DAT_SUCCESS },
	{ get_unknown_handle, ERROR(INVALID_HANDLE, INVALID_HANDLE_IA) },
#if DAT_EDITION == 2
	{ query_m, DAT_SUCCESS },
	{ close_query, DAT_SUCCESS },
	{ close_query, ERROR(INVALID_HANDLE, INVALID_HANDLE_IA) },
	{ relate, DAT_SUCCESS },
#endif
};

/* @_i: with the log, of which each line is written by a system call. */
START_TEST(a_request_is_pending_as_long_as_the_call_lasts)
{
	struct caller caller = { .pending = true };
	int log = -1;

	use_conf(MOCK("m", "") MOCK("other", ""));
	ck_assert_int_eq(setenv("DAT_DBG_TYPE", _i ? "0xff" : "0", 1), 0);
	if (_i)
		log = stderr_capture();
	for (int i = 0; i < COUNT(calls); i++) {
		caller.run = calls[i].run;
		caller.returned = false;
		caller_start(&caller);
		caller_expect(&caller, calls[i].want);
	}
	expect_usable();
	ck_assert(!_i || captured_lines(log) > COUNT(calls));
	loaded_mock();
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tcase = tcase_create("libdat_cancel");

	tcase_add_loop_test(tcase, a_request_is_pending_in_the_dynamic_linker, 0, 2);
	tcase_add_loop_test(tcase, a_request_is_pending_in_a_provider, 0, COUNT(entry_points));
	tcase_add_test(tcase, a_request_is_pending_while_the_call_waits_for_another_thread);
	tcase_add_loop_test(tcase, a_request_is_pending_as_long_as_the_call_lasts, 0, 2);
	return run_cases(argc, argv);
}
