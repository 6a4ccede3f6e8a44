/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A child that is forked while another thread is in libdat, or holds one of its locks. The registry
 * is linked statically, so that the test sees its locks.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "libc_lock.h"
#include "libdat.h"
#include "mock_provider.h"
#include "registry_test.h"

#define INVALID_STATE 0x80070000U
#define COUNTED	      BAD_ARG(1) /* dat_registry_list_providers with room for none */

static DAT_RETURN open_named(const char *name, DAT_IA_HANDLE *ia)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;

	return dat_ia_open((char *)name, 8, &evd, ia);
}

/* ---- what another thread does at the moment of the fork ---- */

static sem_t entered;

static void *open_blocking(void *unused)
{
	DAT_IA_HANDLE ia;

	(void)open_named("blocking", &ia);
	return unused;
}

static void *open_and_close_blocking(void *unused)
{
	DAT_IA_HANDLE ia;

	ck_assert_uint_eq(open_named("blocking", &ia), DAT_SUCCESS);
	(void)dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
	return unused;
}

static void start(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, run, arg), 0);
}

/* Until a provider that blocks is entered. The library is loaded by then. */
static void start_blocking(const char *conf, void *(*run)(void *))
{
	struct mock *mock;
	DAT_IA_HANDLE ia;

	use_conf(conf);
	ck_assert_uint_eq(open_named("m", &ia), DAT_SUCCESS);
	start(run, NULL);
	mock = dlsym(RTLD_DEFAULT, "mock");
	ck_assert_ptr_nonnull(mock);
	while (sem_wait(&mock->entered))
		;
}

static void in_init(void)
{
	start_blocking(MOCK("m", "") MOCK("blocking", "block-init"), open_blocking);
}

static void in_open(void)
{
	start_blocking(MOCK("m", "") MOCK("blocking", "block-open"), open_blocking);
}

static void in_fini(void)
{
	start_blocking(MOCK("m", "") MOCK("blocking", "block-fini"), open_and_close_blocking);
}

static int loading[2]; /* a byte in this pipe lets the dynamic linker go on */

/* From now on a library that is loaded waits. Returns a descriptor that tells when it does. */
static int block_loading(void)
{
	char text[32];
	int pipes[2];

	ck_assert_int_eq(pipe(pipes), 0);
	ck_assert_int_eq(pipe(loading), 0);
	snprintf(text, sizeof(text), "%d %d", pipes[1], loading[0]);
	ck_assert_int_eq(setenv("MOCK_BLOCKS_LOADING", text, 1), 0);
	return pipes[0];
}

static void in_dlopen(void)
{
	int entered_fd;
	char byte;

	use_conf(MOCK("m", "") MOCK("blocking", ""));
	entered_fd = block_loading();
	start(open_blocking, NULL);
	ck_assert_int_eq(read(entered_fd, &byte, 1), 1);
}

static _Atomic pid_t sleeper;

static bool sleeper_sleeps(void)
{
	char path[64], state = 0;
	FILE *stat;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)sleeper);
	stat = fopen(path, "r");
	ck_assert_ptr_nonnull(stat);
	ck_assert_int_eq(fscanf(stat, "%*d (%*[^)]) %c", &state), 1);
	fclose(stat);
	return state == 'S';
}

static void wait_for_sleeper(void)
{
	while (!sleeper || !sleeper_sleeps())
		sched_yield();
}

static void *load_library(void *path)
{
	(void)dlopen(path, RTLD_NOW);
	return path;
}

/* Asks the dynamic linker whether there is the other registry. */
static void *add_foreign(void *table)
{
	static const DAT_PROVIDER_INFO info = { "x", FOREIGN_MAJOR, FOREIGN_MINOR, DAT_FALSE };

	sleeper = (pid_t)syscall(SYS_gettid);
	(void)dat_registry_add_provider(table, &info);
	return table;
}

/* The program loads a library of its own, and a thread of libdat waits for the dynamic linker. */
static void looking_for_other(void)
{
	static DAT_PROVIDER table;
	int entered_fd;
	char byte;

	use_conf(MOCK("m", ""));
	entered_fd = block_loading();
	start(load_library, (void *)MOCK_PROVIDER);
	ck_assert_int_eq(read(entered_fd, &byte, 1), 1);
	start(add_foreign, &table);
	wait_for_sleeper();
}

static int conf_fd = -1; /* has a lease on dat.conf: who opens that waits until the lease ends */

static void conf_lease(const char *text)
{
	char name[] = "/tmp/fork.XXXXXX", path[32];
	sigset_t signals;

	conf_fd = mkstemp(name); /* a file of memfd_create has no leases */
	ck_assert_int_ge(conf_fd, 0);
	ck_assert_int_eq(unlink(name), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", conf_fd);
	ck_assert_int_eq(dprintf(conf_fd, "%s", text), (int)strlen(text));
	sigemptyset(&signals);
	sigaddset(&signals, SIGIO);
	ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &signals, NULL), 0);
	ck_assert_int_eq(fcntl(conf_fd, F_SETLEASE, F_WRLCK), 0);
	ck_assert_int_eq(setenv("DAT_OVERRIDE", path, 1), 0);
}

/* The holder of a lease gets a signal when somebody opens the file. */
static void wait_for_conf_reader(void)
{
	sigset_t signals;
	int signal;

	sigemptyset(&signals);
	sigaddset(&signals, SIGIO);
	ck_assert_int_eq(sigwait(&signals, &signal), 0);
}

static void conf_lease_end(void)
{
	ck_assert_int_eq(fcntl(conf_fd, F_SETLEASE, F_UNLCK), 0);
}

static void in_conf(void)
{
	conf_lease("");
	start(open_blocking, NULL);
	wait_for_conf_reader();
	use_conf(MOCK("m", "")); /* for the child */
}

static void *hold_for_ever(void *mutex)
{
	libdat_mutex_lock(mutex);
	sem_post(&entered);
	pause();
	return NULL;
}

static void holding(struct libdat_mutex *mutex)
{
	DAT_IA_HANDLE ia;

	use_conf(MOCK("m", ""));
	ck_assert_uint_eq(open_named("m", &ia), DAT_SUCCESS);
	sem_init(&entered, 0, 0);
	start(hold_for_ever, mutex);
	while (sem_wait(&entered))
		;
}

static void holding_registry(void)
{
	holding(&registry.lock);
}

static void holding_slots(void)
{
	holding(&ia_slots_lock);
}

/* What it logs reaches syslog, or has the time of day, whose locks are not libdat's. */
static void *log_for_good(void *unused)
{
	DAT_IA_HANDLE ia;

	stays_in_libc = true;
	(void)open_named("missing", &ia);
	return unused;
}

static void logging(const char *variable, const char *value)
{
	DAT_IA_HANDLE ia;

	use_conf(MOCK("m", "") CONF_LINE("missing"));
	ck_assert_int_eq(setenv(variable, value, 1), 0);
	ck_assert_uint_eq(open_named("m", &ia), DAT_SUCCESS);
	sem_init(&in_libc_now, 0, 0);
	start(log_for_good, NULL);
	while (sem_wait(&in_libc_now))
		;
}

static void logging_to_syslog(void)
{
	logging("DAT_DBG_DEST", "2");
}

static void logging_the_time(void)
{
	logging("DAT_DBG_TIME", "1");
}

static void idle(void)
{
	DAT_IA_HANDLE ia;

	use_conf(MOCK("m", ""));
	ck_assert_uint_eq(open_named("m", &ia), DAT_SUCCESS);
}

static const struct moment {
	const char *where;
	void (*begin)(void);
	DAT_RETURN open; /* what dat_ia_open in the child returns */
} moments[] = {
	{ "nowhere", idle, DAT_SUCCESS },
	{ "reading dat.conf", in_conf, DAT_SUCCESS },
	{ "dlopen", in_dlopen, INVALID_STATE },
	{ "the search for the other registry", looking_for_other, INVALID_STATE },
	{ "dat_provider_init", in_init, INVALID_STATE },
	{ "ia_open", in_open, INVALID_STATE },
	{ "dat_provider_fini", in_fini, INVALID_STATE },
	{ "registry.lock", holding_registry, INVALID_STATE },
	{ "ia_slots_lock", holding_slots, DAT_SUCCESS },
	{ "syslog", logging_to_syslog, INVALID_STATE },
	{ "localtime_r", logging_the_time, INVALID_STATE },
};

/* ---- what the child does ---- */

static void child_exit(const struct moment *moment)
{
	(void)moment;
	exit(0);
}

static void child_quick_exit(const struct moment *moment)
{
	(void)moment;
	_exit(0);
}

static void child_exec(const struct moment *moment)
{
	(void)moment;
	execl("/bin/sh", "sh", "-c", "exit 0", (char *)NULL);
}

/* In its own process an IA that it opens works, even after its parent's were refused. */
static void child_open(const struct moment *moment)
{
	DAT_IA_HANDLE ia = NULL;

	if (open_named("m", &ia) != moment->open)
		_exit(1);
	if (moment->open == DAT_SUCCESS && dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) != DAT_SUCCESS)
		_exit(2);
	exit(0);
}

static void child_list(const struct moment *moment)
{
	DAT_COUNT count = 0;

	exit(dat_registry_list_providers(0, &count, NULL) != (moment->open ?: COUNTED));
}

static void (*const actions[])(const struct moment *moment) = {
	child_exit, child_quick_exit, child_exec, child_open, child_list,
};

static int status_of_child(void (*run)(const struct moment *moment), const struct moment *moment)
{
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (!pid) {
		run(moment);
		_exit(127);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status;
}

/* The iteration is a pair of both tables. A child that hangs ends with the time limit. */
START_TEST(a_child_never_waits_for_a_thread_that_it_does_not_have)
{
	const struct moment *moment = &moments[_i / COUNT(actions)];

	moment->begin();
	ck_assert_int_eq(status_of_child(actions[_i % COUNT(actions)], moment), 0);
	if (loading[1]) /* exit waits for the dynamic linker */
		ck_assert_int_eq(write(loading[1], "", 1), 1);
}
END_TEST

/* As the system call, and some language runtimes, make it. */
START_TEST(a_child_without_the_handlers_of_pthread_atfork_exits)
{
	int status;
	long pid;

	holding_registry();
	pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	ck_assert_int_ge(pid, 0);
	if (!pid)
		exit(0);
	ck_assert_int_eq(waitpid((pid_t)pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

/* ---- inherited IAs ---- */

static DAT_IA_HANDLE inherited;

static void child_uses_inherited(const struct moment *moment)
{
	DAT_IA_HANDLE own = NULL;
	DAT_HANDLE_TYPE type;

	(void)moment;
	if (dat_ia_close(inherited, DAT_CLOSE_ABRUPT_FLAG) != BAD_IA ||
	    dat_ia_query(inherited, NULL, 0, NULL, 0, NULL) != BAD_IA)
		_exit(1);
	if (dat_get_handle_type(inherited, &type) == DAT_SUCCESS)
		_exit(2);
	/* the lowest free handle, as in a process that has none */
	if (open_named("m", &own) != DAT_SUCCESS || own != (DAT_IA_HANDLE)1)
		_exit(3);
	exit(dat_ia_close(own, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS ? 0 : 4);
}

START_TEST(an_inherited_ia_belongs_to_the_parent)
{
	struct mock *mock;

	use_conf(MOCK("m", ""));
	ck_assert_uint_eq(open_named("m", &inherited), DAT_SUCCESS);
	ck_assert_int_eq(status_of_child(child_uses_inherited, NULL), 0);
	mock = dlsym(RTLD_DEFAULT, "mock");
	ck_assert_int_eq(mock->closes, 0);
	ck_assert_uint_eq(dat_ia_close(inherited, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_int_eq(mock->closes, 1);
}
END_TEST

/* The child inherits that the provider is initialised, and neither repeats nor undoes that. */
static void child_opens_twice(const struct moment *moment)
{
	struct mock *mock = dlsym(RTLD_DEFAULT, "mock");
	DAT_IA_HANDLE ia;

	(void)moment;
	for (int i = 0; i < 2; i++)
		if (open_named("m", &ia) != DAT_SUCCESS ||
		    dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) != DAT_SUCCESS)
			_exit(1);
	exit(mock->inits == 1 && mock->finis == 0 && mock->misuses == 0 ? 0 : 2);
}

START_TEST(a_provider_in_use_stays_initialised_in_the_child)
{
	use_conf(MOCK("m", ""));
	ck_assert_uint_eq(open_named("m", &inherited), DAT_SUCCESS);
	ck_assert_int_eq(status_of_child(child_opens_twice, NULL), 0);
}
END_TEST

/* ---- the parent ---- */

/* An open that takes long holds nothing that a fork or an exit needs. */
START_TEST(exit_does_not_wait_for_a_slow_dat_conf)
{
	in_conf();
	exit(0);
}
END_TEST

/* A thread that waits for another one's reading of dat.conf can't be cancelled meanwhile. */
static void *list_count(void *count)
{
	ck_assert_uint_eq(dat_registry_list_providers(0, count, NULL), COUNTED);
	return NULL;
}

START_TEST(a_cancelled_reader_of_dat_conf_finishes)
{
	DAT_COUNT count = -1, again = -1;
	pthread_t thread;
	void *result;

	conf_lease(MOCK("m", ""));
	ck_assert_int_eq(pthread_create(&thread, NULL, list_count, &count), 0);
	wait_for_conf_reader();
	ck_assert_int_eq(pthread_cancel(thread), 0);
	conf_lease_end();
	ck_assert_int_eq(pthread_join(thread, &result), 0);
	ck_assert_uint_eq(dat_registry_list_providers(0, &again, NULL), COUNTED);
	ck_assert_int_eq(again, 1);
}
END_TEST

static void *list_second(void *count)
{
	sleeper = (pid_t)syscall(SYS_gettid);
	return list_count(count);
}

START_TEST(a_thread_that_waits_for_the_reader_of_dat_conf_goes_on)
{
	DAT_COUNT count = -1, again = -1;
	pthread_t threads[2];

	conf_lease("");
	ck_assert_int_eq(pthread_create(&threads[0], NULL, list_count, &count), 0);
	wait_for_conf_reader();
	ck_assert_int_eq(pthread_create(&threads[1], NULL, list_second, &again), 0);
	wait_for_sleeper();
	conf_lease_end();
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_int_eq(count, 0);
	ck_assert_int_eq(again, 0);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("libdat_fork");

	tcase_add_loop_test(cases, a_child_never_waits_for_a_thread_that_it_does_not_have, 0,
			    COUNT(moments) * COUNT(actions));
	tcase_add_test(cases, a_child_without_the_handlers_of_pthread_atfork_exits);
	tcase_add_test(cases, an_inherited_ia_belongs_to_the_parent);
	tcase_add_test(cases, a_provider_in_use_stays_initialised_in_the_child);
	tcase_add_exit_test(cases, exit_does_not_wait_for_a_slow_dat_conf, 0);
	tcase_add_test(cases, a_cancelled_reader_of_dat_conf_finishes);
	tcase_add_test(cases, a_thread_that_waits_for_the_reader_of_dat_conf_goes_on);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip_all_cases(
		"a sanitizer's allocator does not work in a child of a process with threads");
#endif
	return run_cases(argc, argv);
}
