/* SPDX-License-Identifier: BSD-2-Clause */
/* conf_parse: the rules of dat.conf(5), one row each. */
#define _GNU_SOURCE
#include "conf.h"
#include "registry_test.h"

/*
 * The calls of the parser to its sink as text, one line for each: "LINE: NAME VERSION SAFETY
 * [LIBRARY] [PARAMS]" for an entry, "LINE! REASON" for a malformed line.
 */
struct conf_report {
	char *text;
	size_t length;
	FILE *file;
};

static void report_entry(void *arg, unsigned line, const struct conf_entry *entry)
{
	struct conf_report *report = arg;

	fprintf(report->file, "%u: %s %u.%u %s [%s] [%s]\n", line, entry->info.ia_name,
		entry->info.dapl_version_major, entry->info.dapl_version_minor,
		entry->info.is_thread_safe ? "yes" : "no", entry->library, entry->ia_params);
}

static void report_refused(void *arg, unsigned line, const char *reason)
{
	struct conf_report *report = arg;

	fprintf(report->file, "%u! %s\n", line, reason);
}

/*
 * The report on @text, to be freed. The parser gets a buffer of the smallest size that it allows,
 * so that a sanitizer finds an access beyond it.
 */
static char *conf_parse_text(const char *text, size_t length)
{
	struct conf_report report = { 0 };
	struct conf_sink sink = { .entry = report_entry,
				  .refused = report_refused,
				  .arg = &report };
	char *copy = malloc(length + 1);

	ck_assert_ptr_nonnull(copy);
	memcpy(copy, text, length);
	copy[length] = 'x';
	report.file = open_memstream(&report.text, &report.length);
	ck_assert_ptr_nonnull(report.file);
	conf_parse(copy, length, &sink);
	fclose(report.file);
	free(copy);
	return report.text;
}

/*
 * All fields after the name, a whole line, the report on it, the byte-order mark, and the reasons
 * of the parser.
 */
#define REST	    " u1.2 nonthreadsafe default lib dapl.1.2 \"p\" \"\""
#define GOOD(name)  name REST "\n"
#define ENTRY(name) name " 1.2 no [lib] [p]\n"
#define MARK	    "\xef\xbb\xbf"
#define API	    "the API version must look like u1.2\n"
#define PROVIDER    "the provider version must look like dapl.1.2\n"
#define FEW	    "fewer than eight fields\n"
#define MANY	    "more than eight fields\n"
#define QUOTE	    "a quote is not closed on its line\n"

static const struct {
	const char *why, *text, *want;
} cases[] = {
	{ "an empty text", "", "" },
	{ "a line", GOOD("a"), "1: " ENTRY("a") },
	{ "no newline at the end", "a" REST, "1: " ENTRY("a") },
	{ "two lines", GOOD("a") GOOD("b"), "1: " ENTRY("a") "2: " ENTRY("b") },
	{ "blank lines", "\n \t\n" GOOD("a") "\n", "3: " ENTRY("a") },
	{ "comments", "#a\n  # b \" \n" GOOD("a"), "3: " ENTRY("a") },
	{ "a comment at the end", "#a", "" },
	{ "a comment after the fields", "a" REST " # more\n", "1: " ENTRY("a") },
	{ "a comment directly after a closing quote", "a" REST "#more\n", "1: " ENTRY("a") },
	{ "# inside a word", "a#b" REST "\n", "1: " ENTRY("a#b") },
	{ "# inside quotes", "\"a # b\"" REST "\n", "1: " ENTRY("a # b") },
	{ "tabs", "\ta\tu1.2\t \tnonthreadsafe\tdefault\tlib\tdapl.1.2\tp\tq\t\n",
	  "1: " ENTRY("a") },
	{ "CRLF", "#\r\n\r\na" REST "\r\nb u1.2 nonthreadsafe default lib dapl.1.2 p q\r\n",
	  "3: " ENTRY("a") "4: " ENTRY("b") },
	{ "CR at the end of the text", "a" REST "\r", "1: " ENTRY("a") },
	{ "CR elsewhere is a character", "a\rb" REST "\n", "1: " ENTRY("a\rb") },
	{ "a byte-order mark at the beginning", MARK GOOD("a") GOOD("b"),
	  "1: " ENTRY("a") "2: " ENTRY("b") },
	{ "a byte-order mark and no more", MARK, "" },
	{ "the beginning of a byte-order mark", "\xef\xbb", "1! " FEW },
	{ "a byte-order mark elsewhere is a character", GOOD("a") MARK GOOD("b"),
	  "1: " ENTRY("a") "2: " MARK ENTRY("b") },
	{ "escapes in quotes", "\"a\\\"b\\\\c\\n\"" REST "\n", "1: " ENTRY("a\"b\\cn") },
	{ "no escapes outside quotes", "a\\\"" REST "\n", "1: " ENTRY("a\\") },
	{ "quoted fields need no blank between them",
	  "\"a\"\"u1.2\"\"nonthreadsafe\"\"default\"\"lib\"\"dapl.1.2\"\"p\"\"\"",
	  "1: " ENTRY("a") },
	{ "a quote ends a bare word", "a\"" REST "\n", "1: " ENTRY("a") },
	{ "a quote within a bare word splits it", GOOD("a\"b"), "1! " MANY },
	{ "a comment after such a quote", "a u1.2\"# x\n", "1! " FEW },
	{ "empty quotes are a field", "a u1.2 nonthreadsafe default lib dapl.1.2 \"\" \"\"",
	  "1: a 1.2 no [lib] []\n" },

	{ "seven fields", "a u1.2 nonthreadsafe default lib dapl.1.2 p\n" GOOD("b"),
	  "1! " FEW "2: " ENTRY("b") },
	{ "nine fields", "a" REST " x\n" GOOD("b"), "1! " MANY "2: " ENTRY("b") },
	{ "one field", "a\n" GOOD("b"), "1! " FEW "2: " ENTRY("b") },
	{ "a continued line", "a u1.2 nonthreadsafe default \\\nlib dapl.1.2 p q\n" GOOD("b"),
	  "1! " FEW "2! " FEW "3: " ENTRY("b") },
	{ "an open quote", "a u1.2 nonthreadsafe default lib dapl.1.2 \"p\n" GOOD("b"),
	  "1! " QUOTE "2: " ENTRY("b") },
	{ "an open quote at the end", "\"", "1! " QUOTE },
	{ "an open quote and CR", "\"\r\n", "1! " QUOTE },
	{ "a stray quote", "a u1.2 nonthreadsafe default lib dapl.1.2 \"ib0 0 \"\"\n" GOOD("b"),
	  "1! " QUOTE "2: " ENTRY("b") },
	{ "an escaped line end", "\"a\\\n" GOOD("b"), "1! " QUOTE "2: " ENTRY("b") },
	{ "an escaped text end", "\"a\\", "1! " QUOTE },
	{ "an empty name", "\"\"" REST "\n", "1! the IA name must have 1 to 255 bytes\n" },

	{ "version 2.0", "a u2.0 threadsafe default lib dapl.2.0 p q", "1: a 2.0 yes [lib] [p]\n" },
	{ "no minor version", "a u1. threadsafe default lib dapl.1. p q",
	  "1: a 1.0 yes [lib] [p]\n" },
	{ "leading zeros", "a u01.002 threadsafe default lib dapl.01.02 p q",
	  "1: a 1.2 yes [lib] [p]\n" },
	{ "the largest version",
	  "a u4294967295.4294967295 threadsafe default lib d.4294967295.0 p q",
	  "1: a 4294967295.4294967295 yes [lib] [p]\n" },
	{ "a larger major version", "a u4294967296.0 threadsafe default lib d.1.0 p q", "1! " API },
	{ "a larger minor version", "a u1.99999999999999999999999 threadsafe default lib d.1.0 p q",
	  "1! " API },
	{ "no dot", "a u1 threadsafe default lib d.1.0 p q", "1! " API },
	{ "u alone", "a u threadsafe default lib d.1.0 p q", "1! " API },
	{ "no major version", "a u.2 threadsafe default lib d.1.0 p q", "1! " API },
	{ "a letter after the version", "a u1.2x threadsafe default lib d.1.0 p q", "1! " API },
	{ "three numbers", "a u1.2.3 threadsafe default lib d.1.0 p q", "1! " API },
	{ "a sign", "a u-1.2 threadsafe default lib d.1.0 p q", "1! " API },
	{ "neither u nor k", "a 1.2 threadsafe default lib d.1.0 p q", "1! " API },
	{ "an empty version", "a \"\" threadsafe default lib d.1.0 p q", "1! " API },
	{ "a kernel provider", "a k1.2 threadsafe default lib d.1.0 p q", "" },
	{ "a kernel provider with a bad version", "a k1 threadsafe default lib d.1.0 p q",
	  "1! " API },

	{ "only the beginning of a keyword counts", "a u1.2 threadsafeX defaultX lib d.1.0 p q",
	  "1: a 1.2 yes [lib] [p]\n" },
	{ "likewise for nonthreadsafe", "a u1.2 nonthreadsafeX defaultX lib d.1.0 p q",
	  "1: a 1.2 no [lib] [p]\n" },
	{ "upper case in field 3", "a u1.2 Threadsafe default lib d.1.0 p q",
	  "1! field 3 must be threadsafe or nonthreadsafe\n" },
	{ "upper case in field 4", "a u1.2 threadsafe Default lib d.1.0 p q",
	  "1! field 4 must be default or nondefault\n" },
	{ "nondefault", "a u1.2 threadsafe nondefault lib d.1.0 p q", "" },

	{ "an empty library", "a u1.2 threadsafe default \"\" dapl.1.2 p q\n" GOOD("b"),
	  "1! the provider library must have a name\n2: " ENTRY("b") },

	{ "another provider id", "a u1.2 threadsafe default l SUNW.1.0 \" \" \"driver_name=tavor\"",
	  "1: a 1.2 yes [l] [ ]\n" },
	{ "an id alone", "a u1.2 threadsafe default lib dapl p q", "1! " PROVIDER },
	{ "no dot after the id", "a u1.2 threadsafe default lib dapl1.2 p q", "1! " PROVIDER },
	{ "one number", "a u1.2 threadsafe default lib d.1 p q", "1! " PROVIDER },
	{ "no id", "a u1.2 threadsafe default lib .1.2 p q", "1! " PROVIDER },
	{ "an id with a dot", "a u1.2 threadsafe default lib a.b.1.2 p q", "1! " PROVIDER },
	{ "a number too large", "a u1.2 threadsafe default lib d.4294967296.2 p q",
	  "1! " PROVIDER },
};

START_TEST(each_line_is_an_entry_a_refusal_or_ignored)
{
	char *report = conf_parse_text(cases[_i].text, strlen(cases[_i].text));

	ck_assert_msg(strcmp(report, cases[_i].want) == 0, "%s: reported\n%swanted\n%s",
		      cases[_i].why, report, cases[_i].want);
	free(report);
}
END_TEST

START_TEST(a_nul_byte_refuses_its_line_only)
{
	static const char text[] = GOOD("a") "b\0c" REST "\n" GOOD("d");
	char *report = conf_parse_text(text, sizeof(text) - 1);

	ck_assert_str_eq(report, "1: " ENTRY("a") "2! a NUL byte\n"
						  "3: " ENTRY("d"));
	free(report);
}
END_TEST

static char *repeat(char c, size_t count)
{
	char *text = malloc(count + 1);

	ck_assert_ptr_nonnull(text);
	memset(text, c, count);
	text[count] = '\0';
	return text;
}

static const struct {
	size_t length;
	bool ok;
} names[] = { { 1, true },    { 254, true },  { 255, true },
	      { 256, false }, { 257, false }, { 100000, false } };

START_TEST(a_name_has_1_to_255_bytes)
{
	char *name = repeat('n', names[_i].length), *text, *want, *report;

	ck_assert_int_gt(asprintf(&text, "%s" REST "\n" GOOD("b"), name), 0);
	if (names[_i].ok)
		ck_assert_int_gt(asprintf(&want, "1: %s 1.2 no [lib] [p]\n2: " ENTRY("b"), name),
				 0);
	else
		ck_assert_int_gt(
			asprintf(&want, "1! the IA name must have 1 to 255 bytes\n2: " ENTRY("b")),
			0);
	report = conf_parse_text(text, strlen(text));
	ck_assert_str_eq(report, want);
	free(report);
	free(want);
	free(text);
	free(name);
}
END_TEST

START_TEST(a_library_path_may_have_any_length)
{
	char *library = repeat('l', 100 * 1024), *text, *want, *report;

	ck_assert_int_gt(asprintf(&text, "a u1.2 nonthreadsafe default %s dapl.1.2 p q", library),
			 0);
	ck_assert_int_gt(asprintf(&want, "1: a 1.2 no [%s] [p]\n", library), 0);
	report = conf_parse_text(text, strlen(text));
	ck_assert_str_eq(report, want);
	free(report);
	free(want);
	free(text);
	free(library);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *lines = tcase_create("lines");

	tcase_add_loop_test(lines, each_line_is_an_entry_a_refusal_or_ignored, 0, COUNT(cases));
	tcase_add_test(lines, a_nul_byte_refuses_its_line_only);
	tcase_add_loop_test(lines, a_name_has_1_to_255_bytes, 0, COUNT(names));
	tcase_add_test(lines, a_library_path_may_have_any_length);
	return run_cases(argc, argv);
}
