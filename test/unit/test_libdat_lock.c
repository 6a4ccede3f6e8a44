/* SPDX-License-Identifier: BSD-2-Clause */
/* What debug builds of libdat assert about its mutexes. */
#include <signal.h>

#include "../harness/run.h"
#include "lock.h"

static struct libdat_mutex outer = LIBDAT_MUTEX("outer", LIBDAT_RANK_REGISTRY);
static struct libdat_mutex inner = LIBDAT_MUTEX("inner", LIBDAT_RANK_IA_SLOTS);

static void *release_in_another_thread(void *mutex)
{
	libdat_mutex_unlock(mutex);
	return NULL;
}

START_TEST(the_owner_passes_the_assertions)
{
	for (int i = 0; i < 2; i++) {
		libdat_mutex_lock(&outer);
		libdat_mutex_lock(&inner);
		ASSERT_HELD(&outer);
		ASSERT_HELD(&inner);
		libdat_mutex_unlock(&inner);
		libdat_mutex_unlock(&outer);
	}
}
END_TEST

START_TEST(asserting_a_free_mutex_aborts)
{
	libdat_mutex_lock(&outer);
	libdat_mutex_unlock(&outer);
	ASSERT_HELD(&outer);
}
END_TEST

START_TEST(taking_a_mutex_twice_aborts)
{
	libdat_mutex_lock(&outer);
	libdat_mutex_lock(&outer);
}
END_TEST

START_TEST(taking_mutexes_in_the_wrong_order_aborts)
{
	libdat_mutex_lock(&inner);
	libdat_mutex_lock(&outer);
}
END_TEST

START_TEST(releasing_a_mutex_of_another_thread_aborts)
{
	pthread_t thread;

	libdat_mutex_lock(&outer);
	ck_assert_int_eq(pthread_create(&thread, NULL, release_in_another_thread, &outer), 0);
	pthread_join(thread, NULL);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("locks");

	tcase_add_test(cases, the_owner_passes_the_assertions);
	tcase_add_test_raise_signal(cases, asserting_a_free_mutex_aborts, SIGABRT);
	tcase_add_test_raise_signal(cases, taking_a_mutex_twice_aborts, SIGABRT);
	tcase_add_test_raise_signal(cases, taking_mutexes_in_the_wrong_order_aborts, SIGABRT);
	tcase_add_test_raise_signal(cases, releasing_a_mutex_of_another_thread_aborts, SIGABRT);
	return run_cases(argc, argv);
}
