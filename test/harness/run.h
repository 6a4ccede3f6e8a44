/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The runner of every test program that uses Check. A test program registers its cases with
 * Check's tcase_* calls and ends with
 *
 *	return run_cases(argc, argv);
 *
 * which runs each case in a process of its own and prints TAP. Cases can be chosen by name:
 *
 *	program [--no-fork] [NAME...]	run the cases of these names, or all
 *	program --scoreboard ...	count the results of each test that has named cases
 *	program --list			print the names, one a line
 *	program --help
 *
 * The iterations of a loop test are cases called name:0, name:1, ...; "name" means all of them, as
 * it means all cases of a test with named cases.
 */
#ifndef RUN_H
#define RUN_H

#include <check.h>

/*
 * Check can neither run a single test of a TCase nor report a skipped one. The runner therefore
 * remembers what is registered and gives each case a TCase of its own. These macros redirect the
 * calls of a test program to it. All of Check's tcase_add_*test* macros call _tcase_add_test.
 */
#define _tcase_add_test		  case_add
#define tcase_add_checked_fixture case_fixture
#define tcase_set_timeout	  case_timeout

/*
 * Check tells its parent by a system call of each assertion that holds, for the case of a crash
 * after it. Some cases have a hundred thousand: here the place of the last one is in memory that
 * the runner shares with its cases.
 */
extern const char **last_held; /* "file:line", or NULL */
#define LINE_TEXT_(line) #line
#define LINE_TEXT(line)	 LINE_TEXT_(line)
#define _mark_point(file, line)                                                                    \
	__atomic_store_n(last_held, file ":" LINE_TEXT(line), __ATOMIC_RELAXED)

/*
 * Registers @test once for each i in [@from, @to), its loop variable _i. The test is expected to
 * end with @signal or @exit_status, as in Check, or by returning if they are 0.
 */
void case_add(TCase *tcase, const TTest *test, int signal, int exit_status, int from, int to);

/*
 * Registers @test as one case that is called "@test: @name", which the scoreboard counts. Its loop
 * variable is @i. @skip tells why it is not run, or is NULL. The strings must stay.
 */
void case_add_named(TCase *tcase, const TTest *test, const char *name, int i, const char *skip);

/* Registers @test as one case that is not run: TAP reports it as skipped, with @why. */
void case_skip(TCase *tcase, const TTest *test, const char *why);

/*
 * @setup and @teardown (either may be NULL) run before and after each case of @tcase, in the
 * process of the case; if @tcase is NULL, of every case, after the set-ups of its own TCase.
 */
void case_fixture(TCase *tcase, SFun setup, SFun teardown);

/*
 * The cases of @tcase run one after the other in one process, so that they can share what is
 * expensive to set up. If one of them ends that process, it has failed, and the next begins a new
 * one.
 */
void case_share_process(TCase *tcase);

/* Sets the limit of one case of @tcase. Without a call it is 300 seconds. */
void case_timeout(TCase *tcase, double seconds);

/* Has TAP report the program as skipped, with @why: no case of it can run here. */
void skip_all_cases(const char *why);

/*
 * Runs the registered cases that the command line chooses, in the order of their registration.
 * Returns main's status: 0 if all passed or were skipped, 1 if a case failed, 2 after an unknown
 * option, or a name that no case has; then no case was run.
 */
int run_cases(int argc, char **argv);

#endif
