/* SPDX-License-Identifier: BSD-2-Clause */
/* The runner of the test programs: see run.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "run.h"

/* From here on these are Check's own. */
#undef _tcase_add_test
#undef tcase_add_checked_fixture
#undef tcase_set_timeout

#define FIXTURES 4

struct fixture {
	SFun setup, teardown;
};

/* Seconds: ends a case that hangs, and no other, however busy the machine is. */
#define CASE_TIMEOUT 300

/* What the cases of one TCase have in common. */
struct group {
	struct group *next;
	TCase *tcase; /* the test program's handle; NULL: the group of all cases */
	struct fixture fixtures[FIXTURES];
	unsigned n_fixtures;
	double timeout; /* seconds, 0: CASE_TIMEOUT */
	bool shared;	/* one process runs its cases */
};

enum result { NOT_RUN, PASSED, FAILED, SKIPPED, RESULTS };

struct test_case {
	char name[256]; /* as --list prints it */
	const struct group *group;
	const TTest *test;
	int signal, exit_status;
	int i;		  /* the loop variable */
	const char *skip; /* why it is not run, or NULL */
	bool named;	  /* the scoreboard counts it */
	bool chosen;
};

static struct group *groups;
static struct test_case *cases;
static size_t n_cases;
static const char *skip_all;
static const char *held_before_the_run;
const char **last_held = &held_before_the_run;
static unsigned char *results; /* enum result of each case; processes that run cases write it */

/* ---- registration ---- */

static struct group *group_of(TCase *tcase)
{
	struct group *group;

	for (group = groups; group; group = group->next)
		if (group->tcase == tcase)
			return group;
	group = malloc(sizeof(*group));
	if (!group)
		abort();
	*group = (struct group){ .next = groups, .tcase = tcase };
	groups = group;
	return group;
}

static struct test_case *new_case(TCase *tcase, const TTest *test)
{
	struct test_case *new;

	cases = realloc(cases, (n_cases + 1) * sizeof(*cases));
	if (!cases)
		abort();
	new = &cases[n_cases++];
	*new = (struct test_case){ .group = group_of(tcase), .test = test };
	snprintf(new->name, sizeof(new->name), "%s", test->name);
	return new;
}

void case_add(TCase *tcase, const TTest *test, int signal, int exit_status, int from, int to)
{
	bool loop = from != 0 || to != 1;

	for (int i = from; i < to; i++) {
		struct test_case *new = new_case(tcase, test);

		new->signal = signal;
		new->exit_status = exit_status;
		new->i = i;
		if (loop)
			snprintf(new->name, sizeof(new->name), "%s:%d", test->name, i);
	}
}

void case_add_named(TCase *tcase, const TTest *test, const char *name, int i, const char *skip)
{
	struct test_case *new = new_case(tcase, test);

	new->i = i;
	new->skip = skip;
	new->named = true;
	snprintf(new->name, sizeof(new->name), "%s: %s", test->name, name);
}

void case_share_process(TCase *tcase)
{
	group_of(tcase)->shared = true;
}

void case_skip(TCase *tcase, const TTest *test, const char *why)
{
	new_case(tcase, test)->skip = why;
}

void case_fixture(TCase *tcase, SFun setup, SFun teardown)
{
	struct group *group = group_of(tcase);

	if (group->n_fixtures == FIXTURES)
		abort();
	group->fixtures[group->n_fixtures++] = (struct fixture){ setup, teardown };
}

void case_timeout(TCase *tcase, double seconds)
{
	group_of(tcase)->timeout = seconds;
}

void skip_all_cases(const char *why)
{
	skip_all = why;
}

/* ---- running ---- */

static void add_fixtures(TCase *tcase, const struct group *group)
{
	for (unsigned i = 0; i < group->n_fixtures; i++)
		tcase_add_checked_fixture(tcase, group->fixtures[i].setup,
					  group->fixtures[i].teardown);
}

static SRunner *runner_of(const struct test_case *this, enum fork_status fork_status)
{
	const struct group *group = this->group;
	Suite *suite = suite_create("");
	TCase *tcase = tcase_create(this->name);
	SRunner *runner;

	tcase_set_timeout(tcase, group->timeout ? group->timeout : CASE_TIMEOUT);
	add_fixtures(tcase, group);
	if (group->tcase)
		add_fixtures(tcase, group_of(NULL));
	_tcase_add_test(tcase, this->test, this->signal, this->exit_status, this->i, this->i + 1);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_set_fork_status(runner, fork_status);
	return runner;
}

/* For a case that has ended without a message of its own. */
static void print_last_held(void)
{
	if (*last_held)
		printf("# the last assertion that held: %s\n", *last_held);
}

/* A message may have several lines: each becomes a comment of its own. */
static void print_result(TestResult *result)
{
	const char *text = tr_msg(result);

	printf("# %s:%d: ", tr_lfile(result), tr_lno(result));
	for (; *text; text++)
		printf(*text == '\n' ? "\n# " : "%c", *text);
	putchar('\n');
	if (tr_rtype(result) == CK_ERROR)
		print_last_held();
}

static enum result run_case(const struct test_case *this, size_t number, enum fork_status status)
{
	SRunner *runner;
	TestResult **of_runner;
	bool passed;

	if (this->skip) {
		printf("ok %zu - %s # SKIP %s\n", number, this->name, this->skip);
		fflush(stdout);
		return SKIPPED;
	}
	runner = runner_of(this, status);
	*last_held = NULL;
	srunner_run(runner, "", this->name, CK_SILENT); /* whatever CK_RUN_CASE says */
	passed = srunner_ntests_run(runner) == 1 && srunner_ntests_failed(runner) == 0;
	printf("%sok %zu - %s\n", passed ? "" : "not ", number, this->name);
	if (!passed) {
		of_runner = srunner_results(runner);
		for (int i = 0; i < srunner_ntests_run(runner); i++)
			print_result(of_runner[i]);
		free(of_runner);
	}
	fflush(stdout); /* the next case writes to the same file, from its own process */
	srunner_free(runner);
	return passed ? PASSED : FAILED;
}

/* In seconds, as Check extends the limits of the cases that it runs in processes of their own. */
static time_t shared_time_limit(const struct group *group)
{
	const char *multiplier = getenv("CK_TIMEOUT_MULTIPLIER");
	double limit = group->timeout ? group->timeout : CASE_TIMEOUT;

	return (time_t)(limit * (multiplier && atoi(multiplier) > 0 ? atoi(multiplier) : 1));
}

/*
 * What ends a process of several cases at the time limit of one. It is not SIGALRM, for which Check
 * has a handler that ends the whole process group.
 */
#define LIMIT_SIGNAL SIGVTALRM

static timer_t limit_create(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = LIMIT_SIGNAL };
	timer_t limit;

	if (timer_create(CLOCK_MONOTONIC, &event, &limit))
		abort();
	return limit;
}

static void limit_start(timer_t limit, const struct group *group)
{
	const struct itimerspec when = { .it_value.tv_sec = shared_time_limit(group) };

	if (timer_settime(limit, 0, &when, NULL))
		abort();
}

/* The chosen cases of the group of case @i, up to the next case of another group. */
static void run_group(size_t i, size_t number)
{
	const struct group *group = cases[i].group;
	timer_t limit = limit_create();

	for (; i < n_cases && cases[i].group == group; i++) {
		if (!cases[i].chosen)
			continue;
		limit_start(limit, group);
		results[i] = (unsigned char)run_case(&cases[i], number++, CK_NOFORK);
	}
}

/* Case @i has ended the process that ran it. */
static void print_end(size_t i, size_t number, int status)
{
	printf("not ok %zu - %s\n# the process ended ", number, cases[i].name);
	if (WIFSIGNALED(status) && WTERMSIG(status) == LIMIT_SIGNAL)
		printf("by the time limit\n");
	else if (WIFSIGNALED(status))
		printf("by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		printf("with status %d\n", WEXITSTATUS(status));
	print_last_held();
	fflush(stdout);
}

/*
 * Runs case @i and what follows in its group, in one process as long as none of them ends it.
 * Returns false if that process failed after its cases.
 */
static bool run_shared(size_t i, size_t number)
{
	const struct group *group = cases[i].group;
	int status = 0;
	pid_t pid = fork();

	if (pid < 0)
		abort();
	if (pid == 0) {
		run_group(i, number);
		exit(0); /* the sanitizers look for leaks in exit */
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	for (; i < n_cases && cases[i].group == group; i++) {
		if (!cases[i].chosen)
			continue;
		if (results[i] == NOT_RUN) {
			print_end(i, number, status);
			results[i] = FAILED;
			return true;
		}
		number++;
	}
	if (status)
		printf("Bail out! The process of these cases ended with status %#x\n", status);
	return status == 0;
}

/* Memory that the processes of cases share with this one, all zero. */
static void *shared_memory(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		abort();
	return memory;
}

static int run_chosen(enum fork_status fork_status)
{
	size_t n = 0, number = 0;
	bool passed = true;

	for (size_t i = 0; i < n_cases; i++)
		n += cases[i].chosen;
	results = shared_memory(n_cases);
	last_held = shared_memory(sizeof(*last_held));
	printf("1..%zu\n", n);
	fflush(stdout);
	for (size_t i = 0; i < n_cases; i++) {
		if (!cases[i].chosen)
			continue;
		number++;
		if (results[i] == NOT_RUN && cases[i].group->shared && fork_status != CK_NOFORK)
			passed = run_shared(i, number) && passed;
		else if (results[i] == NOT_RUN)
			results[i] = (unsigned char)run_case(&cases[i], number, fork_status);
		passed = passed && results[i] != FAILED;
	}
	return !passed;
}

/* ---- the scoreboard ---- */

static void print_score(const char *name, const unsigned counts[RESULTS])
{
	printf("# %-32s %6u %6u %6u %7u\n", name, counts[PASSED] + counts[FAILED] + counts[SKIPPED],
	       counts[PASSED], counts[FAILED], counts[SKIPPED]);
}

/* Whether a case before @i belongs to the same test. */
static bool is_counted(size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (cases[k].named && !strcmp(cases[k].test->name, cases[i].test->name))
			return true;
	return false;
}

static void print_scoreboard(void)
{
	unsigned all[RESULTS] = { 0 };

	printf("# %-32s %6s %6s %6s %7s\n", "", "rows", "passed", "failed", "skipped");
	for (size_t i = 0; i < n_cases; i++) {
		unsigned counts[RESULTS] = { 0 };

		if (!cases[i].named || is_counted(i))
			continue;
		for (size_t k = i; k < n_cases; k++)
			if (cases[k].named && !strcmp(cases[k].test->name, cases[i].test->name))
				counts[results[k]]++;
		for (unsigned k = 0; k < RESULTS; k++)
			all[k] += counts[k];
		print_score(cases[i].test->name, counts);
	}
	print_score("all", all);
}

/* ---- the command line ---- */

/* libtool runs a program that it has not installed under this prefix. */
static const char *program_name(void)
{
	const char *name = program_invocation_short_name;

	return strncmp(name, "lt-", 3) ? name : name + 3;
}

static int usage(FILE *out, int status)
{
	fprintf(out,
		"usage: %s [--no-fork] [--scoreboard] [NAME...]\n"
		"                         run the cases of these names, or all\n"
		"       %s --list         print the names of the cases, one a line\n"
		"Each case runs in a process of its own, or in one that it shares with its group, "
		"and\n"
		"has a time limit; with --no-fork all run in this one and have none. Results are\n"
		"printed as TAP, and with --scoreboard they are counted.\n"
		"Status: 0 passed, 1 a case failed, 2 wrong usage.\n",
		program_name(), program_name());
	return status;
}

static int list_names(void)
{
	for (size_t i = 0; i < n_cases; i++)
		puts(cases[i].name);
	return 0;
}

/* Whether there is such a case. The name of a loop test chooses all of its iterations. */
static bool choose(const char *name)
{
	bool found = false;

	for (size_t i = 0; i < n_cases; i++)
		if (!strcmp(cases[i].name, name) || !strcmp(cases[i].test->name, name))
			found = cases[i].chosen = true;
	return found;
}

static bool choose_all(int n, char **names)
{
	bool found = true;

	for (int i = 0; i < n; i++) {
		if (choose(names[i]))
			continue;
		fprintf(stderr, "%s: no case is called '%s' (--list prints the names)\n",
			program_name(), names[i]);
		found = false;
	}
	for (size_t i = 0; !n && i < n_cases; i++)
		cases[i].chosen = true;
	return found;
}

int run_cases(int argc, char **argv)
{
	enum fork_status fork_status = CK_FORK_GETENV;
	bool scoreboard = false;
	int at, status;

	for (at = 1; at < argc && argv[at][0] == '-'; at++) {
		if (!strcmp(argv[at], "--help"))
			return usage(stdout, 0);
		if (!strcmp(argv[at], "--list"))
			return list_names();
		if (!strcmp(argv[at], "--no-fork"))
			fork_status = CK_NOFORK;
		else if (!strcmp(argv[at], "--scoreboard"))
			scoreboard = true;
		else
			return usage(stderr, 2);
	}
	if (!choose_all(argc - at, argv + at))
		return 2;
	if (skip_all) {
		printf("1..0 # SKIP %s\n", skip_all);
		return 0;
	}
	unsetenv("CK_TAP_LOG_FILE_NAME"); /* or Check prints TAP of its own in between */
	status = run_chosen(fork_status);
	if (scoreboard)
		print_scoreboard();
	return status;
}
