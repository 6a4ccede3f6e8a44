/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DAPL_COUNTERS: what is printed when an IA is closed. The core of the tests for DAT 2.0 counts on
 * the data path, too; that of those for DAT 1.2 does not.
 */
#include <stdio.h>
#include <unistd.h>

#include "harness.h"

static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;

/* A line as it must be printed: library, process, @text. */
static const char *log_line(const char *text)
{
	static char line[256];

	snprintf(line, sizeof(line), "%s[%d]: %s\n", tp_library_name, (int)getpid(), text);
	return line;
}

/* Says whether the line "fake0: NAME VALUE" was printed. */
static bool is_printed(int captured, const char *name, unsigned value)
{
	char text[128];

	snprintf(text, sizeof(text), "fake0: %s %u", name, value);
	return strstr(output_text(captured), log_line(text));
}

/* A connection on which one message is sent. */
static void use_and_close(void)
{
	pair_connect(&pair);
	post_recv(server, 1, 0, 64, 0);
	post_send(client, 2, 0, 40, 0);
	expect_dto(client->request_evd, 2, DAT_DTO_SUCCESS);
	pair_close(&pair);
}

START_TEST(dapl_counters_prints_what_was_counted_at_the_close)
{
	int captured = stderr_capture();

	setenv("DAPL_COUNTERS", "1", 1);
	use_and_close();
	ck_assert(is_printed(captured, "DCNT_IA_PZ_CREATE", 1));
	ck_assert(is_printed(captured, "DCNT_IA_EVD_CREATE", 5));
	ck_assert(is_printed(captured, "DCNT_IA_EVD_FREE", 5));
	ck_assert(is_printed(captured, "DCNT_IA_CM_ACTIVE_EST", 1));
	ck_assert(is_printed(captured, "DCNT_EP_CONNECT", 1));
	ck_assert(is_printed(captured, "DCNT_EVD_CONN_CALLBACK", 2));
	ck_assert_int_eq(is_printed(captured, "DCNT_IA_LMR_CREATE", 1), COUNTS_FAST_PATH);
	ck_assert_int_eq(is_printed(captured, "DCNT_EP_POST_SEND", 1), COUNTS_FAST_PATH);
	ck_assert_int_eq(is_printed(captured, "DCNT_EP_POST_SEND_DATA", 40), COUNTS_FAST_PATH);
	/* counters that are 0 are left out */
	ck_assert_ptr_null(strstr(output_text(captured), "fake0: DCNT_IA_RMR_CREATE"));
}
END_TEST

static const char *const silent[] = { NULL, "0", "", "yes" };

START_TEST(without_dapl_counters_nothing_is_printed)
{
	int captured = stderr_capture();

	unsetenv("DAPL_COUNTERS");
	if (silent[_i])
		setenv("DAPL_COUNTERS", silent[_i], 1);
	use_and_close();
	ck_assert_str_eq(output_text(captured), "");
}
END_TEST

/* It is an answer, not a message. */
START_TEST(dapl_dbg_type_does_not_silence_counters)
{
	int captured = stderr_capture();

	setenv("DAPL_COUNTERS", "1", 1);
	setenv("DAPL_DBG_TYPE", "0", 1);
	use_and_close();
	ck_assert(is_printed(captured, "DCNT_IA_PZ_CREATE", 1));
}
END_TEST
int main(int argc, char **argv)
{
	TCase *cases = tcase_create("counters at the close");

	tcase_add_test(cases, dapl_counters_prints_what_was_counted_at_the_close);
	tcase_add_loop_test(cases, without_dapl_counters_nothing_is_printed, 0, COUNT(silent));
	tcase_add_test(cases, dapl_dbg_type_does_not_silence_counters);
	return run_unit_cases(argc, argv);
}
