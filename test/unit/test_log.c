/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages: which come out, and in what shape. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

static int heard;

static void setup(void)
{
	heard = memfd_create("stderr", 0);
	ck_assert_int_ge(heard, 0);
	ck_assert_int_ge(dup2(heard, STDERR_FILENO), 0);
}

static const char *text_heard(void)
{
	static char text[2048];
	ssize_t length = pread(heard, text, sizeof(text) - 1, 0);

	ck_assert_int_ge(length, 0);
	text[length] = '\0';
	return text;
}

static const struct {
	const char *type, *dest; /* NULL: not set */
	enum log_kind kind;
	bool comes;
} cases_of[] = {
	{ NULL, NULL, LOG_ERROR, true },    { NULL, NULL, LOG_WARN, true },
	{ NULL, NULL, LOG_EVD, false },	    { NULL, NULL, LOG_API, false },
	{ "0", NULL, LOG_ERROR, false },    { "nonsense", NULL, LOG_ERROR, true },
	{ "1", NULL, LOG_WARN, false },	    { "0x8", NULL, LOG_CM, true },
	{ "010", NULL, LOG_CM, true },	    { "8", NULL, LOG_CM, true },
	{ "8", NULL, LOG_ERROR, false },    { "0xffff", "1", LOG_API, true },
	{ "0xffff", "3", LOG_ERROR, true }, { "0xffff", "2", LOG_ERROR, false }, /* syslog alone */
};

START_TEST(who_asks_hears)
{
	unsetenv("DAPL_DBG_TYPE");
	unsetenv("DAPL_DBG_DEST");
	if (cases_of[_i].type)
		setenv("DAPL_DBG_TYPE", cases_of[_i].type, 1);
	if (cases_of[_i].dest)
		setenv("DAPL_DBG_DEST", cases_of[_i].dest, 1);
	log_to(cases_of[_i].kind, "%s %d", "eth0", 5);
	ck_assert_str_eq(text_heard(), cases_of[_i].comes ? "DAPL: eth0 5\n" : "");
}
END_TEST

START_TEST(errno_is_kept_and_told)
{
	errno = ENODEV;
	log_error("%s: %m", "eth0");
	ck_assert_int_eq(errno, ENODEV);
	ck_assert_str_eq(text_heard(), "DAPL: eth0: No such device\n");
}
END_TEST

START_TEST(a_long_line_is_one_line)
{
	char text[1000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_error("%s", text);
	log_error("next");
	ck_assert_ptr_nonnull(strstr(text_heard(), "x\nDAPL: next\n"));
	ck_assert_uint_lt(strlen(text_heard()), 600);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("messages");

	tcase_add_checked_fixture(cases, setup, NULL);
	tcase_add_loop_test(cases, who_asks_hears, 0, COUNT(cases_of));
	tcase_add_test(cases, errno_is_kept_and_told);
	tcase_add_test(cases, a_long_line_is_one_line);
	return run_unit_cases(argc, argv);
}
