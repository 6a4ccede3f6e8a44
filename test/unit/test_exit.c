/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls to the registry while the process exits. The registry is linked statically, so that the
 * order of the destructors is known.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "libdat.h"
#include "mock_provider.h"
#include "registry_test.h"

#define INVALID_STATE 0x80070000U

static int destructor_enabled;

/*
 * A destructor with a priority runs after those without one, such as the registry's. The exit
 * status is 1 when each call was refused.
 */
static void __attribute__((destructor(101))) call_after_destruction(void)
{
	static const DAT_PROVIDER_INFO info = { "a", API_MAJOR, 2, DAT_FALSE };
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia = &evd;
	DAT_PROVIDER table = { .device_name = "a" };
	DAT_COUNT count = -1;

	if (!destructor_enabled)
		return;
	_exit(dat_registry_add_provider(&table, &info) == INVALID_STATE &&
	      dat_registry_remove_provider(&table, &info) == INVALID_STATE &&
	      dat_registry_list_providers(0, &count, NULL) == INVALID_STATE && count == -1 &&
	      dat_ia_open((char *)"a", 8, &evd, &ia) == INVALID_STATE && !ia);
}

START_TEST(calls_after_the_registrys_destructor_are_refused)
{
	use_conf("");
	destructor_enabled = 1;
	exit(0);
}
END_TEST

/* ---- another thread opens or closes as the process exits ---- */

static struct mock *slow_provider;
static pthread_t opener;
static bool opener_started;

/* As that of a library below the provider, which frees what the other thread uses. */
static void __attribute__((destructor)) free_what_an_opener_uses(void)
{
	const bool opened = opener_started && slow_provider->opens;

	if (opener_started)
		_exit(pthread_join(opener, NULL) || !opened ? 2 : 0);
}

static DAT_RETURN open_named(const char *name, DAT_IA_HANDLE *ia)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;

	return dat_ia_open((char *)name, 8, &evd, ia);
}

/* No other open begins. */
static void *open_during_exit(void *unused)
{
	DAT_IA_HANDLE ia, more;

	ck_assert_uint_eq(open_named("slow", &ia), DAT_SUCCESS);
	ck_assert_uint_eq(open_named("slow", &more), INVALID_STATE);
	ck_assert_uint_eq(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	return unused;
}

static void *proceed_during_exit(void *unused)
{
	while (!registry_is_exiting())
		sched_yield();
	sem_post(&slow_provider->proceed);
	return unused;
}

START_TEST(an_exit_waits_for_an_open_of_another_thread)
{
	pthread_t thread;
	void *library;

	use_conf(MOCK("slow", "block-open"));
	library = dlopen(MOCK_PROVIDER, RTLD_NOW);
	ck_assert_ptr_nonnull(library);
	slow_provider = dlsym(library, "mock");
	ck_assert_int_eq(pthread_create(&opener, NULL, open_during_exit, NULL), 0);
	while (sem_wait(&slow_provider->entered))
		;
	opener_started = true;
	ck_assert_int_eq(pthread_create(&thread, NULL, proceed_during_exit, NULL), 0);
	ck_assert_int_eq(pthread_detach(thread), 0);
	exit(0);
}
END_TEST

/* ---- a fork as the process exits ---- */

static void *fork_and_open(void *status)
{
	pid_t pid = fork();
	DAT_IA_HANDLE ia;

	if (!pid)
		_exit(open_named("quick", &ia) == DAT_SUCCESS ? 0 : 1);
	if (waitpid(pid, status, 0) != pid)
		*(int *)status = -1;
	return NULL;
}

/* After the registry's handler, because it was added before that. */
static void fork_on_another_thread(void)
{
	pthread_t thread;
	int status = -1;

	if (pthread_create(&thread, NULL, fork_and_open, &status) || pthread_join(thread, NULL))
		_exit(3);
	_exit(status ? 4 : 0);
}

START_TEST(a_child_that_is_forked_as_its_parent_exits_opens_its_own)
{
	DAT_IA_HANDLE ia;

	use_conf(MOCK("quick", ""));
	ck_assert_int_eq(atexit(fork_on_another_thread), 0);
	ck_assert_uint_eq(open_named("quick", &ia), DAT_SUCCESS);
	exit(0);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("exit");

	tcase_add_exit_test(cases, calls_after_the_registrys_destructor_are_refused, 1);
	tcase_add_test(cases, an_exit_waits_for_an_open_of_another_thread);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	case_skip(cases, a_child_that_is_forked_as_its_parent_exits_opens_its_own,
		  "a sanitizer's allocator does not work in a child of a process with threads");
#else
	tcase_add_test(cases, a_child_that_is_forked_as_its_parent_exits_opens_its_own);
#endif
	return run_cases(argc, argv);
}
