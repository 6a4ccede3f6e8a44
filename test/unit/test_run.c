/* SPDX-License-Identifier: BSD-2-Clause */
/* The runner of the tests: cases that share a process, and the scoreboard. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../harness/process.h"
#include "../harness/run.h"

/* ---- the program that is run: this one, with "subject" for its first argument ---- */

static int runs; /* in this process */

static void subject_passes(int i)
{
	(void)i;
	runs++;
}

static void subject_fails_in_the_same_process(int i)
{
	(void)i;
	ck_assert_int_eq(runs++, 1);
	ck_abort_msg("as it should");
}

static void subject_aborts(int i)
{
	(void)i;
	ck_assert_int_eq(runs, 2);
	abort();
}

static void subject_passes_in_another_process(int i)
{
	(void)i;
	ck_assert_int_eq(runs, 0);
}

static void subject_hangs(int i)
{
	(void)i;
	pause();
}

static void subject_exits(int i)
{
	(void)i;
	_exit(3);
}

static void subject_aborts_alone(int i)
{
	(void)i;
	ck_assert_int_eq(runs, 0);
	abort();
}

static int run_subject(int argc, char **argv)
{
	static const struct {
		TTest test;
		const char *name, *skip;
	} cases[] = {
		{ { "call", subject_passes, __FILE__, __LINE__ }, "one", NULL },
		{ { "call", subject_fails_in_the_same_process, __FILE__, __LINE__ }, "two", NULL },
		{ { "call", subject_aborts, __FILE__, __LINE__ }, "three", NULL },
		{ { "other", subject_passes_in_another_process, __FILE__, __LINE__ }, "a", NULL },
		{ { "other", subject_hangs, __FILE__, __LINE__ }, "b", NULL },
		{ { "other", subject_passes, __FILE__, __LINE__ }, "c", "reason" },
		{ { "call", subject_exits, __FILE__, __LINE__ }, "four", NULL },
	};
	static const TTest alone = { "alone", subject_aborts_alone, __FILE__, __LINE__ };
	TCase *tcase = tcase_create("subject");

	case_share_process(tcase);
	case_timeout(tcase, 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		case_add_named(tcase, &cases[i].test, cases[i].name, 0, cases[i].skip);
	case_add_named(tcase_create("alone"), &alone, "five", 0, NULL);
	return run_cases(argc, argv);
}

/* ---- what it prints ---- */

static char output[8192];

/* Returns its exit status. */
static int subject(const char *arguments)
{
	char command[256];
	FILE *pipe;
	size_t length;
	int status;

	snprintf(command, sizeof(command), "exec '/proc/%d/exe' subject %s", getpid(), arguments);
	unsetenv("CK_TIMEOUT_MULTIPLIER");
	pipe = popen(command, "r");
	ck_assert_ptr_nonnull(pipe);
	length = fread(output, 1, sizeof(output) - 1, pipe);
	output[length] = '\0';
	status = pclose(pipe);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void prints(const char *text)
{
	ck_assert_msg(strstr(output, text) != NULL, "not '%s' but:\n%s", text, output);
}

START_TEST(cases_share_a_process_until_one_ends_it)
{
	ck_assert_int_eq(subject(""), 1);
	prints("1..8\nok 1 - call: one\nnot ok 2 - call: two\n");
	prints("as it should\nnot ok 3 - call: three\n# the process ended by signal 6");
	prints("\nok 4 - other: a\nnot ok 5 - other: b\n# the process ended by the time limit\n");
	prints("\nok 6 - other: c # SKIP reason\n");
	prints("\nnot ok 7 - call: four\n# the process ended with status 3\n");
}
END_TEST

START_TEST(a_crash_tells_the_last_assertion_that_held)
{
	ck_assert_int_eq(subject("call"), 1);
	prints("ended by signal 6 (Aborted)\n# the last assertion that held: " __FILE__ ":");
	ck_assert_int_eq(subject("alone"), 1);
	prints("(Aborted)\n# the last assertion that held: " __FILE__ ":");
}
END_TEST

START_TEST(scoreboard_counts_named_cases_by_test)
{
	ck_assert_int_eq(subject("--scoreboard"), 1);
	prints("rows passed failed skipped\n");
	prints("# call                                  4      1      3       0\n");
	prints("# other                                 3      1      1       1\n");
	prints("# alone                                 1      0      1       0\n");
	prints("# all                                   8      2      5       1\n");
}
END_TEST

START_TEST(name_of_a_test_chooses_its_named_cases)
{
	ck_assert_int_eq(subject("'call: one' other"), 1);
	/* The second runs in the process of the first. */
	prints("1..4\nok 1 - call: one\nnot ok 2 - other: a\n");
	ck_assert_int_eq(subject("'call: one'"), 0);
	ck_assert_int_eq(subject("'call: six'"), 2);
}
END_TEST

/* Whatever offset a thread has seen. */
START_TEST(each_line_of_output_is_appended)
{
	int fd = output_file_create();

	for (int i = 1; i <= 2; i++) {
		ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
		ck_assert_int_eq(write(fd, "line\n", 5), 5);
		ck_assert_int_eq(lseek(fd, 0, SEEK_END), 5 * i);
	}
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tcase;

	if (argc > 1 && !strcmp(argv[1], "subject"))
		return run_subject(argc - 1, argv + 1);
	tcase = tcase_create("run");
	tcase_add_test(tcase, cases_share_a_process_until_one_ends_it);
	tcase_add_test(tcase, a_crash_tells_the_last_assertion_that_held);
	tcase_add_test(tcase, scoreboard_counts_named_cases_by_test);
	tcase_add_test(tcase, name_of_a_test_chooses_its_named_cases);
	tcase_add_test(tcase, each_line_of_output_is_appended);
	return run_cases(argc, argv);
}
