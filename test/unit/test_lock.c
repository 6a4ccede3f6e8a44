/* SPDX-License-Identifier: BSD-2-Clause */
/* Spinlocks: waiting for one. */
#include <sched.h>
#include <sys/resource.h>

#include "harness.h"

static struct spinlock lock;
static cpu_set_t one_processor;
static atomic_bool began;
static long sleeps; /* of the thread that waits for the lock, while it does */

static bool become_urgent(void)
{
	const struct sched_param param = { .sched_priority = 1 };

	return sched_setscheduler(0, SCHED_FIFO, &param) == 0;
}

static long voluntary_switches(void)
{
	struct rusage usage;

	ck_assert_int_eq(getrusage(RUSAGE_THREAD, &usage), 0);
	return usage.ru_nvcsw;
}

/* From "began" on the holder, on the same processor, runs only while this thread sleeps. */
static void *take_urgently(void *unused)
{
	(void)unused;
	ck_assert_int_eq(sched_setaffinity(0, sizeof(one_processor), &one_processor), 0);
	ck_assert(become_urgent());
	sleeps = -voluntary_switches();
	atomic_store(&began, true);
	spin_lock(&lock);
	sleeps += voluntary_switches();
	spin_unlock(&lock);
	return NULL;
}

START_TEST(a_waiter_of_real_time_priority_lets_the_holder_run)
{
	pthread_t thread;

	CPU_SET((size_t)sched_getcpu(), &one_processor);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(one_processor), &one_processor), 0);
	spin_init(&lock, RANK_POOL);
	spin_lock(&lock);
	thread = consumer_thread_start(take_urgently, NULL);
	while (!atomic_load(&began))
		sched_yield();
	spin_unlock(&lock);
	consumer_thread_join(thread);
	ck_assert_int_gt(sleeps, 0);
}
END_TEST

int main(int argc, char **argv)
{
	const struct sched_param ordinary = { 0 };
	TCase *cases = tcase_create("lock");

	if (become_urgent() && sched_setscheduler(0, SCHED_OTHER, &ordinary) == 0)
		tcase_add_test(cases, a_waiter_of_real_time_priority_lets_the_holder_run);
	else
		case_skip(cases, a_waiter_of_real_time_priority_lets_the_holder_run,
			  "this user has no real-time priorities");
	return run_unit_cases(argc, argv);
}
