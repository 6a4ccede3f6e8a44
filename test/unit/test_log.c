/* SPDX-License-Identifier: BSD-2-Clause */
/* Log messages: which are printed, where to, and their format. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "libc_lock.h"
#include "../../udapl/base/log.h"
#include "../../udapl/base/refuse.h"

static int captured; /* the file that stderr is redirected to */

static void setup(void)
{
	captured = stderr_capture();
}

/* A line as it must be printed: library, process, @message. */
static const char *log_line(const char *message)
{
	static char line[256];

	snprintf(line, sizeof(line), "%s[%d]: %s\n", tp_library_name, (int)getpid(), message);
	return line;
}

static const struct {
	const char *type, *dest; /* of DAPL_DBG_TYPE and _DEST; NULL: not set */
	enum log_kind kind;
	bool printed; /* on stderr */
} messages[] = {
	{ NULL, NULL, LOG_ERROR, true },    { NULL, NULL, LOG_WARN, true },
	{ NULL, NULL, LOG_EVD, false },	    { NULL, NULL, LOG_API, false },
	{ "0", NULL, LOG_ERROR, false },    { "nonsense", NULL, LOG_ERROR, true },
	{ "1", NULL, LOG_WARN, false },	    { "0x8", NULL, LOG_CM, true },
	{ "010", NULL, LOG_CM, true },	    { "8", NULL, LOG_CM, true },
	{ "8", NULL, LOG_ERROR, false },    { "0xffff", "1", LOG_API, true },
	{ "0xffff", "3", LOG_ERROR, true }, { "0xffff", "2", LOG_ERROR, false }, /* syslog alone */
	{ "0xffff", "2", LOG_WARN, false }, { "0xffff", "2", LOG_API, false },
};

START_TEST(dbg_type_and_dest_select_the_messages)
{
	unsetenv("DAPL_DBG_TYPE");
	unsetenv("DAPL_DBG_DEST");
	if (messages[_i].type)
		setenv("DAPL_DBG_TYPE", messages[_i].type, 1);
	if (messages[_i].dest)
		setenv("DAPL_DBG_DEST", messages[_i].dest, 1);
	log_to(messages[_i].kind, "%s %d", "eth0", 5);
	ck_assert_str_eq(output_text(captured), messages[_i].printed ? log_line("eth0 5") : "");
}
END_TEST

static const char *text_made(unsigned *made)
{
	(*made)++;
	return "text";
}

/* To make names and texts takes time. */
START_TEST(what_is_not_printed_is_not_evaluated)
{
	unsigned made = 0;

	setenv("DAPL_DBG_TYPE", "0x10", 1);
	errno = ENODEV;
	log_cm("%s", text_made(&made));
	log_util("%s", text_made(&made));
	ck_assert_uint_eq(made, 0);
	ck_assert_int_eq(errno, ENODEV);
	log_ep("%s", text_made(&made));
	ck_assert_uint_eq(made, 1);
	ck_assert_str_eq(output_text(captured), log_line("text"));
}
END_TEST

START_TEST(errno_is_kept_and_printed)
{
	errno = ENODEV;
	log_error("%s: %m", "eth0");
	ck_assert_int_eq(errno, ENODEV);
	ck_assert_str_eq(output_text(captured), log_line("eth0: No such device"));
}
END_TEST

/* The log is on a file system that is full. */
START_TEST(a_message_that_cannot_be_written_is_lost_without_harm)
{
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC), own = dup(STDERR_FILENO);

	ck_assert_int_ge(full, 0);
	ck_assert_int_eq(dup2(full, STDERR_FILENO), STDERR_FILENO);
	errno = ENODEV;
	log_error("%s", "eth0");
	ck_assert_int_eq(errno, ENODEV);
	ck_assert_int_eq(dup2(own, STDERR_FILENO), STDERR_FILENO);
	log_error("%s", "next");
	ck_assert_str_eq(output_text(captured), log_line("next"));
	close(own);
	close(full);
}
END_TEST

START_TEST(a_long_message_is_cut_to_one_line)
{
	char text[1000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_error("%s", text);
	log_error("next");
	ck_assert_ptr_nonnull(strstr(output_text(captured), "x\n"));
	ck_assert_str_eq(strstr(output_text(captured), "x\n") + 2, log_line("next"));
	ck_assert_uint_lt(strlen(output_text(captured)), 600);
}
END_TEST

START_TEST(dbg_time_puts_the_time_in_front)
{
	static const char *const settings[] = { "1", "0", NULL };
	unsigned hour, minute, second, microsecond;
	int length = 0;

	unsetenv("DAPL_DBG_TIME");
	if (settings[_i])
		setenv("DAPL_DBG_TIME", settings[_i], 1);
	log_error("eth0");
	if (_i == 0) {
		ck_assert_int_eq(sscanf(output_text(captured), "%2u:%2u:%2u.%6u %n", &hour, &minute,
					&second, &microsecond, &length),
				 4);
		ck_assert_int_eq(length, strlen("03:12:44.123456 "));
	}
	ck_assert_str_eq(output_text(captured) + length, log_line("eth0"));
}
END_TEST

START_TEST(events_and_statuses_are_printed_by_name)
{
	struct status_text text;

	ck_assert_str_eq(event_name(DAT_CONNECTION_EVENT_ESTABLISHED),
			 "DAT_CONNECTION_EVENT_ESTABLISHED");
	ck_assert_str_eq(event_name((DAT_EVENT_NUMBER)1), "an unknown event");
	ck_assert_ptr_null(event_cause(DAT_CONNECTION_EVENT_ESTABLISHED));
	ck_assert_str_eq(event_cause(DAT_CONNECTION_EVENT_UNREACHABLE),
			 "there is no way to this address, or no host has it");
	ck_assert_str_eq(event_cause(DAT_CONNECTION_EVENT_PEER_REJECTED),
			 "the peer's program refuses the connection");
	ck_assert_str_eq(status_name(BAD_STATE(EP_CONNECTED), &text),
			 "DAT_INVALID_STATE, DAT_INVALID_STATE_EP_CONNECTED");
}
END_TEST

/* ---- calls that fail ---- */

#define ARGUMENTS "ep %p, mask %#x, param %p", NULL, 0xffffu, NULL

static const struct {
	DAT_RETURN result;
	const char *line;
} refusals[] = {
	{ BAD_ARG(2), "dat_x: DAT_INVALID_PARAMETER DAT_INVALID_ARG2: mask 0xffff is not possible "
		      "(ep (nil), mask 0xffff, param (nil))" },
	{ BAD_ARG(3), "dat_x: DAT_INVALID_PARAMETER DAT_INVALID_ARG3: param (nil) is null "
		      "(ep (nil), mask 0xffff, param (nil))" },
	{ BAD_ARG(4), "dat_x: DAT_INVALID_PARAMETER DAT_INVALID_ARG4: an argument is not possible "
		      "(ep (nil), mask 0xffff, param (nil))" },
	{ BAD_STATE(EP_CONNECTED),
	  "dat_x: DAT_INVALID_STATE DAT_INVALID_STATE_EP_CONNECTED: the endpoint is connected "
	  "(ep (nil), mask 0xffff, param (nil))" },
	{ DAT_ERROR(DAT_QUEUE_FULL, 0), "dat_x: DAT_QUEUE_FULL: as many events are queued as may "
					"be (ep (nil), mask 0xffff, param (nil))" },
};

START_TEST(a_refusal_names_call_result_reason_and_arguments)
{
	setenv("DAPL_DBG_TYPE", "0x10", 1);
	ck_dat_is(refused(refusals[_i].result, LOG_EP, "dat_x", ARGUMENTS), refusals[_i].result);
	ck_assert_str_eq(output_text(captured), log_line(refusals[_i].line));
}
END_TEST

START_TEST(a_refusal_is_silent_unless_asked_for)
{
	unsetenv("DAPL_DBG_TYPE");
	ck_dat_is(refused(BAD_ARG(2), LOG_EP, "dat_x", ARGUMENTS), BAD_ARG(2));
	ck_assert_str_eq(output_text(captured), "");
}
END_TEST

/* ---- what the registry tells ---- */

static bool registry_is_ours;
static unsigned lookups;

static const char *line_being_opened(void)
{
	return "/etc/dat.conf:12";
}

#define UNSEEN __attribute__((no_sanitize("address", "thread", "undefined"), UNTRACED))
/* clang tells the thread sanitizer that the function is called, too, unless this is said */
#if __has_attribute(disable_sanitizer_instrumentation)
#define UNTRACED disable_sanitizer_instrumentation
#else
#define UNTRACED
#endif
void *__real_dlvsym(void *library, const char *name, const char *version);
void *__wrap_dlvsym(void *library, const char *name, const char *version);

/* Says whether a registry has such functions. It calls nothing that a sanitizer watches. */
static UNSEEN bool is_of_registry(const char *name)
{
	const char prefix[] = "datx_";
	size_t n = 0;

	while (prefix[n] && name[n] == prefix[n])
		n++;
	return !prefix[n];
}

/*
 * The library calls this instead of that of the dynamic linker. So do sanitizers, for other
 * functions, before they can be used themselves.
 */
UNSEEN void *__wrap_dlvsym(void *library, const char *name, const char *version)
{
	if (!is_of_registry(name))
		return __real_dlvsym(library, name, version);
	lookups++;
	if (registry_is_ours && !strcmp(name, "datx_ia_open_line"))
		return (void *)line_being_opened;
	return NULL;
}

/* While another thread has the dynamic linker locked an open could not go on. */
START_TEST(the_registry_is_looked_for_once)
{
	const char *line;
	unsigned before;

	registry_is_ours = _i;
	line = log_conf_line();
	ck_assert_str_eq(line, _i ? line_being_opened() : "dat.conf");
	before = lookups;
	ck_assert_uint_gt(before, 0);
	ck_assert_str_eq(log_conf_line(), line);
	ck_assert_uint_eq(lookups, before);
}
END_TEST

/* ---- a fork while another thread is in a function of libc that takes a lock ---- */

static void *log_for_ever(void *unused)
{
	stays_in_libc = true;
	log_to(LOG_ERROR, "from a thread");
	return unused;
}

/* The line of a child is where it can be read, without what would need the lock. */
START_TEST(a_child_does_not_wait_for_a_lock_of_libc)
{
	pthread_t thread;
	pid_t pid;
	int status;

	fork_watch();
	setenv(_i ? "DAPL_DBG_TIME" : "DAPL_DBG_DEST", _i ? "1" : "2", 1);
	sem_init(&in_libc_now, 0, 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, log_for_ever, NULL), 0);
	while (sem_wait(&in_libc_now))
		;
	pid = fork();
	if (!pid) {
		log_to(LOG_ERROR, "from a child");
		_exit(strcmp(output_text(captured), log_line("from a child")) != 0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("messages");

	tcase_add_checked_fixture(cases, setup, NULL);
	tcase_add_loop_test(cases, dbg_type_and_dest_select_the_messages, 0, COUNT(messages));
	tcase_add_test(cases, errno_is_kept_and_printed);
	tcase_add_test(cases, what_is_not_printed_is_not_evaluated);
	tcase_add_test(cases, a_message_that_cannot_be_written_is_lost_without_harm);
	tcase_add_test(cases, a_long_message_is_cut_to_one_line);
	tcase_add_loop_test(cases, dbg_time_puts_the_time_in_front, 0, 3);
	tcase_add_test(cases, events_and_statuses_are_printed_by_name);
	tcase_add_loop_test(cases, a_refusal_names_call_result_reason_and_arguments, 0,
			    COUNT(refusals));
	tcase_add_test(cases, a_refusal_is_silent_unless_asked_for);
	tcase_add_loop_test(cases, the_registry_is_looked_for_once, 0, 2);
	tcase_add_loop_test(cases, a_child_does_not_wait_for_a_lock_of_libc, 0, 2);
	return run_unit_cases(argc, argv);
}
