/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tools share: numbers, percentiles, progress, and a sentence for each common failure. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include "alloc.h"
#include "registry_test.h"
#include "tools/tools.h"

/* ---- stand-ins for the C library ---- */

static struct ifaddrs interface = { .ifa_name = (char *)"eth7" };
static bool no_interfaces, stderr_is_terminal;

int getifaddrs(struct ifaddrs **all)
{
	*all = &interface;
	return no_interfaces ? -1 : 0;
}

void freeifaddrs(struct ifaddrs *all)
{
	ck_assert_ptr_eq(all, &interface);
}

int isatty(int fd)
{
	ck_assert_int_eq(fd, STDERR_FILENO);
	return stderr_is_terminal;
}

/* ---- numbers and names ---- */

static const struct {
	const char *text;
	unsigned long min, max;
	int result;
} numbers[] = {
	{ "0", 0, 5, 0 },
	{ "5", 0, 5, 0 },
	{ "4294967296", 0, -1UL, -1UL > UINT32_MAX ? 0 : -1 },
	{ "6", 0, 5, -1 },
	{ "0", 1, 5, -1 },
	{ "", 0, 5, -1 },
	{ "-1", 0, -1UL, -1 },
	{ "+1", 0, 5, -1 },
	{ " 1", 0, 5, -1 },
	{ "1 ", 0, 5, -1 },
	{ "1k", 0, 5, -1 },
	{ "0x1", 0, 5, -1 },
	{ "99999999999999999999", 0, -1UL, -1 },
};

START_TEST(a_number_has_digits_only_and_is_in_its_range)
{
	unsigned long value = 77;

	ck_assert_int_eq(
		tool_number_parse(numbers[_i].text, numbers[_i].min, numbers[_i].max, &value),
		numbers[_i].result);
	ck_assert_uint_eq(value, numbers[_i].result ? 77 : strtoul(numbers[_i].text, NULL, 10));
}
END_TEST

START_TEST(events_and_statuses_without_a_name_have_a_text)
{
	ck_assert_str_eq(tool_event_name(DAT_CONNECTION_EVENT_BROKEN),
			 "DAT_CONNECTION_EVENT_BROKEN");
	ck_assert_str_eq(tool_event_name(0x7777), "an unknown event");
	ck_assert_str_eq(tool_status_name(DAT_DTO_ERR_FLUSHED), "DAT_DTO_ERR_FLUSHED");
	ck_assert_str_eq(tool_status_name(0x7777), "an unknown status");
}
END_TEST

START_TEST(result_has_the_names_of_its_type_and_subtype)
{
	char text[TOOL_RETURN];

	ck_assert_str_eq(
		tool_return_text(DAT_CLASS_ERROR | DAT_INSUFFICIENT_RESOURCES | DAT_RESOURCE_MEMORY,
				 text, sizeof(text)),
		"DAT_INSUFFICIENT_RESOURCES DAT_RESOURCE_MEMORY");
	ck_assert_str_eq(tool_return_text(DAT_CLASS_ERROR | DAT_ABORT, text, sizeof(text)),
			 "DAT_ABORT");
	ck_assert_str_eq(tool_return_text(0x7ffe7777, text, sizeof(text)),
			 "unknown error unknown minor error");
}
END_TEST

START_TEST(an_address_in_numbers_needs_no_resolver)
{
	struct sockaddr_storage address;
	char text[64];

	ck_assert_ptr_null(tool_address_find("192.0.2.7", AF_INET6, &address));
	ck_assert_int_eq(tool_address_text((struct sockaddr *)&address, text, sizeof(text)), 0);
	ck_assert_str_eq(text, "192.0.2.7");
	ck_assert_ptr_null(tool_address_find("2001:db8::7", AF_INET, &address));
	ck_assert_int_eq(tool_address_text((struct sockaddr *)&address, text, sizeof(text)), 0);
	ck_assert_str_eq(text, "2001:db8::7");
	ck_assert_ptr_nonnull(tool_address_find("", AF_INET, &address));
	address.ss_family = AF_UNIX;
	ck_assert_int_eq(tool_address_text((struct sockaddr *)&address, text, sizeof(text)), -1);
}
END_TEST

START_TEST(another_host_gets_an_address_without_an_interface_of_this_one)
{
	char v4[] = "192.0.2.7", v6[] = "2001:db8::7", local[] = "fe80::7%eth0";

	tool_address_cut(v4);
	ck_assert_str_eq(v4, "192.0.2.7");
	tool_address_cut(v6);
	ck_assert_str_eq(v6, "2001:db8::7");
	tool_address_cut(local);
	ck_assert_str_eq(local, "fe80::7");
}
END_TEST

/* ---- percentiles ---- */

START_TEST(percentiles_are_those_of_the_samples)
{
	struct samples samples;

	ck_assert_int_eq(samples_create(&samples, 1000), 0);
	ck_assert(samples_percentile(&samples, 50) == 0);
	ck_assert(samples_mean(&samples) == 0);
	for (int i = 1000; i >= 1; i--)
		samples_add(&samples, i);
	ck_assert(samples_percentile(&samples, 0) == 1);
	ck_assert(samples_percentile(&samples, 50) == 500);
	ck_assert(samples_percentile(&samples, 99) == 990);
	ck_assert(samples_percentile(&samples, 99.9) == 999);
	ck_assert(samples_percentile(&samples, 100) == 1000);
	ck_assert(samples.min == 1 && samples.max == 1000 && samples_mean(&samples) == 500.5);
	samples_clear(&samples);
	samples_add(&samples, 7);
	ck_assert(samples_percentile(&samples, 1) == 7 && samples_percentile(&samples, 99) == 7);
	ck_assert(samples.min == 7 && samples.max == 7 && samples.count == 1);
	for (int i = 1; i <= 10; i++)
		samples_add(&samples, 10 * i);
	ck_assert(samples_percentile(&samples, 99) == 100); /* rank 10.89 of 11 */
	ck_assert(samples_percentile(&samples, 30) == 30);  /* rank 3.3: 7, 10, 20, 30 */
	samples_destroy(&samples);
}
END_TEST

/* Of a million values in order a prefix alone would have a median far from the true one. */
START_TEST(more_samples_than_room_are_chosen_from_all)
{
	struct samples samples;
	double median;

	ck_assert_int_eq(samples_create(&samples, 4096), 0);
	for (int i = 0; i < 1000000; i++) {
		samples_add(&samples, i);
		if (i == 5000)
			(void)samples_percentile(&samples, 50); /* sorts those kept so far */
	}
	median = samples_percentile(&samples, 50);
	ck_assert(median > 450e3 && median < 550e3);
	ck_assert(samples.min == 0 && samples.max == 999999 && samples.count == 1000000);
	samples_destroy(&samples);
}
END_TEST

START_TEST(there_is_room_for_one_sample_at_least)
{
	struct samples samples;
	int result;

	ck_assert_int_eq(samples_create(&samples, 0), 0);
	samples_add(&samples, 3);
	samples_add(&samples, 4);
	ck_assert(samples.max == 4);
	samples_destroy(&samples);
	alloc_fail_nth(1);
	result = samples_create(&samples, 1);
	ck_assert(alloc_failed());
	ck_assert_int_eq(result, -1);
}
END_TEST

/* ---- progress ---- */

static const struct {
	bool is_terminal;
	const char *kind; /* NULL: not known */
	bool shows;
} terminals[] = {
	{ false, "xterm", false },
	{ true, "xterm", true },
	{ true, "dumb", false },
	{ true, NULL, false },
};

static void terminal_set(bool is_terminal, const char *kind)
{
	stderr_is_terminal = is_terminal;
	if (kind)
		setenv("TERM", kind, 1);
	else
		unsetenv("TERM");
}

START_TEST(progress_is_for_terminals_that_can_erase_only)
{
	int err_fd = stderr_capture();
	bool shows = terminals[_i].shows;

	terminal_set(terminals[_i].is_terminal, terminals[_i].kind);
	tool_progress_show("%d of %d", 1, 2);
	ck_assert_str_eq(output_text(err_fd), shows ? "\r1 of 2\033[K" : "");
	tool_progress_clear();
	tool_progress_clear();
	ck_assert_str_eq(output_text(err_fd), shows ? "\r1 of 2\033[K\r\033[K" : "");
}
END_TEST

START_TEST(progress_has_few_lines_a_second)
{
	int err_fd = stderr_capture(), lines = 0;

	terminal_set(true, "xterm");
	for (int i = 0; i < 1000; i++)
		tool_progress_show("%d", i);
	for (const char *p = output_text(err_fd); *p; p++)
		lines += *p == '\r';
	ck_assert_int_ge(lines, 1);
	ck_assert_int_lt(lines, 1000);
}
END_TEST

/* ---- sentences ---- */

/* Scripts look for these words. */
static void check_sentence(const char *got, const char *want)
{
	static const char *const reserved[] = { "ERR", "FAIL", "PASSED", "waiting" };

	if (!want) {
		ck_assert_ptr_null(got);
		return;
	}
	ck_assert_ptr_nonnull(got);
	ck_assert_str_eq(got, want);
	for (int i = 0; i < COUNT(reserved); i++)
		ck_assert_ptr_null(strstr(got, reserved[i]));
}

#define NOT_FOUND NO_NAME

#if DAT_EDITION == 2
#define OTHER_DAT "for DAT 1.2, not for 2.0"
#else
#define OTHER_DAT "for DAT 2.0, not for 1.2"
#endif

static const struct {
	const char *conf;
	DAT_RETURN ret;
	const char *want;
} opens[] = {
	{ "", NOT_FOUND,
	  "dat.conf is not there, or has no line that can be used; datinfo --generate prints one "
	  "for this host" },
	{ CONF_LINE("eth0") LINE("x", FOREIGN_VERSION, "lib.so", "") CONF_LINE("eth1"), NOT_FOUND,
	  "dat.conf has no line for ib0" },
	{ LINE("ib0", FOREIGN_VERSION, "lib.so", ""), NOT_FOUND,
	  "the line of ib0 in dat.conf is " OTHER_DAT },
	{ "ib0 " API_VERSION " threadsafe default lib.so dapl.1.2 \"\" \"\"\n", NOT_FOUND,
	  "the line of ib0 in dat.conf says threadsafe, but programs of DAT " TOOL_DAT " ask for "
	  "nonthreadsafe" },
	{ LINE("ib0", API_MINOR("9"), "lib.so", ""), NOT_FOUND,
	  "the library that dat.conf has for ib0 can't be loaded, or is no provider" },
	{ LINE("ib0", FOREIGN_VERSION, "lib.so", "") CONF_LINE("ib0"), NOT_FOUND,
	  "the library that dat.conf has for ib0 can't be loaded, or is no provider" },
	{ "", DAT_INVALID_ADDRESS,
	  "this host lacks what dat.conf has for ib0; datinfo tells what to do" },
	{ "", 0x80030003U /* INSUFFICIENT_RESOURCES, DEVICE */,
	  "what dat.conf has for ib0 can't be used now; datinfo tells what to do" },
	{ "", DAT_INTERNAL_ERROR, NULL },
};

START_TEST(a_refused_open_has_a_sentence)
{
	char text[TOOL_SENTENCE];

	use_conf(opens[_i].conf);
	check_sentence(tool_open_sentence(opens[_i].ret, "ib0", text), opens[_i].want);
}
END_TEST

/* A name of the command line may be longer than a sentence has room for. */
START_TEST(a_sentence_ends_where_its_room_does)
{
	char text[TOOL_SENTENCE + 1], name[2 * TOOL_SENTENCE];

	use_conf(CONF_LINE("a"));
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	text[TOOL_SENTENCE] = '!';
	ck_assert_ptr_nonnull(tool_open_sentence(NOT_FOUND, name, text));
	ck_assert_uint_eq(strlen(text), TOOL_SENTENCE - 1);
	ck_assert_int_eq(text[TOOL_SENTENCE], '!');
}
END_TEST

START_TEST(a_refused_listener_has_a_sentence)
{
	char text[TOOL_SENTENCE];

	check_sentence(tool_listen_sentence(DAT_CONN_QUAL_IN_USE, 45248, text),
		       "port 45248 is taken by another server");
	check_sentence(tool_listen_sentence(DAT_CLASS_ERROR | DAT_CONN_QUAL_IN_USE, 1, text),
		       "port 1 is taken by another server");
	check_sentence(tool_listen_sentence(DAT_PRIVILEGES_VIOLATION, 80, text),
		       "an ordinary user may not listen at port 80");
	check_sentence(tool_listen_sentence(DAT_INTERNAL_ERROR, 80, text), NULL);
}
END_TEST

static struct sockaddr *ipv4(const char *text)
{
	static struct sockaddr_in addresses[2];
	static int next;
	struct sockaddr_in *address = &addresses[next++ % 2];

	*address = (struct sockaddr_in){ .sin_family = AF_INET };
	ck_assert_int_eq(inet_pton(AF_INET, text, &address->sin_addr), 1);
	return (struct sockaddr *)address;
}

static const struct {
	DAT_EVENT_NUMBER event;
	unsigned flags;
	const char *want;
} attempts[] = {
	{ DAT_CONNECTION_EVENT_NON_PEER_REJECTED, IFF_UP | IFF_RUNNING,
	  "no program of DAT listens at 192.0.2.1 port 45248: start the server first, and take "
	  "the address that it prints" },
	{ DAT_CONNECTION_EVENT_PEER_REJECTED, IFF_UP | IFF_RUNNING,
	  "the server at 192.0.2.1 port 45248 refused the connection" },
	{ DAT_CONNECTION_EVENT_UNREACHABLE, IFF_UP | IFF_RUNNING,
	  "192.0.2.1 can't be reached from this interface" },
	{ DAT_CONNECTION_EVENT_UNREACHABLE, IFF_RUNNING, "the interface eth7 is down" },
	{ DAT_CONNECTION_EVENT_UNREACHABLE, IFF_UP, "the interface eth7 has no link" },
	{ DAT_CONNECTION_EVENT_TIMED_OUT, IFF_UP | IFF_RUNNING,
	  "no answer from 192.0.2.1 port 45248 within 10 s" },
	{ DAT_CONNECTION_EVENT_TIMED_OUT, 0, "the interface eth7 is down" },
	{ DAT_CONNECTION_EVENT_ESTABLISHED, 0, NULL },
};

START_TEST(an_attempt_that_ends_has_a_sentence)
{
	const struct tool_attempt attempt = { .local = ipv4("192.0.2.9"),
					      .server = ipv4("192.0.2.1"),
					      .port = 45248,
					      .timeout = 10 * 1000 * 1000 };
	char text[TOOL_SENTENCE];

	interface.ifa_addr = (struct sockaddr *)attempt.local;
	interface.ifa_flags = attempts[_i].flags;
	check_sentence(tool_attempt_sentence(attempts[_i].event, &attempt, text),
		       attempts[_i].want);
}
END_TEST

START_TEST(a_server_that_takes_one_client_may_have_it)
{
	const struct tool_attempt attempt = { .server = ipv4("192.0.2.1"),
					      .port = 1,
					      .one_client = true };
	char text[TOOL_SENTENCE];

	check_sentence(
		tool_attempt_sentence(DAT_CONNECTION_EVENT_NON_PEER_REJECTED, &attempt, text),
		"no program of DAT listens at 192.0.2.1 port 1: start the server first, and "
		"take the address that it prints; a server that has a client takes no other");
	check_sentence(tool_attempt_sentence(DAT_CONNECTION_EVENT_PEER_REJECTED, &attempt, text),
		       "the server at 192.0.2.1 port 1 refused the connection: it may have a "
		       "client already");
}
END_TEST

START_TEST(localhost_is_answered_with_the_address_of_the_name)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct tool_attempt attempt = { .server = ipv4("127.0.0.1"), .port = 1 };
	const DAT_EVENT_NUMBER event = DAT_CONNECTION_EVENT_NON_PEER_REJECTED;
	char text[TOOL_SENTENCE];

	check_sentence(tool_attempt_sentence(event, &attempt, text),
		       "no program of DAT listens at 127.0.0.1 port 1: start the server first, and "
		       "take the address that it prints");
	attempt.local = ipv4("192.0.2.9");
	check_sentence(tool_attempt_sentence(event, &attempt, text),
		       "no program of DAT listens at 127.0.0.1 port 1: a server on this host, with "
		       "this name, listens at 192.0.2.9");
	attempt.server = (struct sockaddr *)&v6;
	check_sentence(tool_attempt_sentence(event, &attempt, text),
		       "no program of DAT listens at ::1 port 1: a server on this host, with this "
		       "name, listens at 192.0.2.9");
	attempt.local = ipv4("127.0.0.2");
	check_sentence(tool_attempt_sentence(event, &attempt, text),
		       "no program of DAT listens at ::1 port 1: start the server first, and take "
		       "the address that it prints");
}
END_TEST

START_TEST(a_refused_connect_has_a_sentence)
{
	struct tool_attempt attempt = { .server = ipv4("192.0.2.1"), .port = 1 };
	char text[TOOL_SENTENCE];

	check_sentence(tool_connect_sentence(DAT_INVALID_ADDRESS, &attempt, text),
		       "there is no way from this interface to 192.0.2.1");
	attempt.local = ipv4("192.0.2.9");
	interface.ifa_addr = (struct sockaddr *)attempt.local;
	check_sentence(tool_connect_sentence(DAT_INVALID_ADDRESS, &attempt, text),
		       "the interface eth7 is down");
	check_sentence(
		tool_connect_sentence(DAT_CLASS_ERROR | DAT_MODEL_NOT_SUPPORTED, &attempt, text),
		"this provider does not have this quality of service");
	check_sentence(tool_connect_sentence(DAT_INVALID_STATE, &attempt, text), NULL);
}
END_TEST

START_TEST(an_interface_is_known_by_its_address)
{
	struct sockaddr_in6 local = { .sin6_family = AF_INET6, .sin6_addr.s6_addr = { 1 } };
	struct sockaddr_in6 other = { .sin6_family = AF_INET6, .sin6_addr.s6_addr = { 2 } };
	struct sockaddr unknown = { .sa_family = AF_UNIX };
	char text[TOOL_SENTENCE];

	check_sentence(tool_interface_sentence(NULL, true, text), NULL);
	check_sentence(tool_interface_sentence(ipv4("192.0.2.1"), true, text), NULL);
	interface.ifa_addr = (struct sockaddr *)&other;
	check_sentence(tool_interface_sentence((struct sockaddr *)&local, true, text), NULL);
	check_sentence(tool_interface_sentence(ipv4("192.0.2.1"), true, text), NULL);
	interface.ifa_addr = (struct sockaddr *)&local;
	check_sentence(tool_interface_sentence((struct sockaddr *)&local, true, text),
		       "the interface eth7 is down");
	interface.ifa_flags = IFF_UP;
	check_sentence(tool_interface_sentence((struct sockaddr *)&local, false, text), NULL);
	check_sentence(tool_interface_sentence((struct sockaddr *)&local, true, text),
		       "the interface eth7 has no link");
	interface.ifa_flags = 0;
	interface.ifa_addr = &unknown;
	check_sentence(tool_interface_sentence(&unknown, true, text), NULL);
	no_interfaces = true;
	check_sentence(tool_interface_sentence((struct sockaddr *)&local, true, text), NULL);
}
END_TEST

START_TEST(the_end_of_a_connection_has_a_sentence)
{
	char text[TOOL_SENTENCE];

	check_sentence(tool_end_sentence(DAT_CONNECTION_EVENT_DISCONNECTED, text),
		       "the peer ended the connection");
	check_sentence(tool_end_sentence(DAT_CONNECTION_EVENT_BROKEN, text),
		       "the connection broke: the peer's process or host is gone, or a transfer "
		       "was refused");
	check_sentence(tool_end_sentence(DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR, text),
		       "the client gave up before the connection was made");
	check_sentence(tool_end_sentence(DAT_CONNECTION_EVENT_ESTABLISHED, text), NULL);
}
END_TEST

static const struct {
	DAT_DTO_COMPLETION_STATUS status;
	const char *want;
} transfers[] = {
	{ DAT_DTO_ERR_FLUSHED, "the connection ended before this transfer" },
	{ DAT_DTO_ERR_TRANSPORT, "the peer did not acknowledge: it is gone, or a large network "
				 "needs a longer DAPL_ACK_TIMER" },
	{ DAT_DTO_ERR_RECEIVER_NOT_READY, "the peer had no receive posted in time" },
	{ DAT_DTO_ERR_REMOTE_ACCESS, "the peer does not allow access to this memory" },
	{ DAT_DTO_ERR_LOCAL_LENGTH, "the message is longer than the buffer posted for it" },
	{ DAT_DTO_SUCCESS, NULL },
};

START_TEST(a_failed_transfer_has_a_sentence)
{
	char text[TOOL_SENTENCE];

	check_sentence(tool_status_sentence(transfers[_i].status, text), transfers[_i].want);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("tools");

	tcase_add_loop_test(cases, a_number_has_digits_only_and_is_in_its_range, 0, COUNT(numbers));
	tcase_add_test(cases, events_and_statuses_without_a_name_have_a_text);
	tcase_add_test(cases, result_has_the_names_of_its_type_and_subtype);
	tcase_add_test(cases, an_address_in_numbers_needs_no_resolver);
	tcase_add_test(cases, another_host_gets_an_address_without_an_interface_of_this_one);
	tcase_add_test(cases, percentiles_are_those_of_the_samples);
	tcase_add_test(cases, more_samples_than_room_are_chosen_from_all);
	tcase_add_test(cases, there_is_room_for_one_sample_at_least);
	tcase_add_loop_test(cases, progress_is_for_terminals_that_can_erase_only, 0,
			    COUNT(terminals));
	tcase_add_test(cases, progress_has_few_lines_a_second);
	tcase_add_loop_test(cases, a_refused_open_has_a_sentence, 0, COUNT(opens));
	tcase_add_test(cases, a_sentence_ends_where_its_room_does);
	tcase_add_test(cases, a_refused_listener_has_a_sentence);
	tcase_add_loop_test(cases, an_attempt_that_ends_has_a_sentence, 0, COUNT(attempts));
	tcase_add_test(cases, a_server_that_takes_one_client_may_have_it);
	tcase_add_test(cases, localhost_is_answered_with_the_address_of_the_name);
	tcase_add_test(cases, a_refused_connect_has_a_sentence);
	tcase_add_test(cases, an_interface_is_known_by_its_address);
	tcase_add_test(cases, the_end_of_a_connection_has_a_sentence);
	tcase_add_loop_test(cases, a_failed_transfer_has_a_sentence, 0, COUNT(transfers));
	return run_cases(argc, argv);
}
