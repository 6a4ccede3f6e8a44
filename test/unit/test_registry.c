/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The registry: the list of dat.conf's entries, the providers that are added and removed, and the
 * provider that a name opens.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "registry_test.h"

#define ALREADY ERROR_OF(DAT_PROVIDER_ALREADY_REGISTERED, DAT_NO_SUBTYPE)

/* A line for the other edition. */
#define FOREIGN(name) LINE(name, FOREIGN_VERSION, "libnone.so", "")

static const char fourteen[] = "" CONF_LINE("a") CONF_LINE("b") "# c\n" CONF_LINE(
	"c") "d u5.7 threadsafe default lib dapl.2.0 \"\" \"\"\n" CONF_LINE("e") CONF_LINE("f")
	CONF_LINE("g") CONF_LINE("h") CONF_LINE("i") CONF_LINE("j") CONF_LINE("k") CONF_LINE("l")
		CONF_LINE("m") "\n" CONF_LINE("n");

/* ---- the list ---- */

START_TEST(list_with_size_0_returns_the_size_needed)
{
	DAT_COUNT count = -1;

	use_conf(fourteen);
	ck_assert_uint_eq(dat_registry_list_providers(0, &count, NULL), BAD_ARG(1));
	ck_assert_int_eq(count, 14);
}
END_TEST

START_TEST(list_keeps_the_order_of_the_file)
{
	use_conf(fourteen);
	ck_assert_str_eq(registry_list(8), "abcdefgh");
	ck_assert_str_eq(registry_list(1), "a");
	ck_assert_str_eq(registry_list(14), "abcdefghijklmn");
	ck_assert_str_eq(registry_list(20), "abcdefghijklmn");
}
END_TEST

/* Consumers exist that pass a larger size than their array has. */
START_TEST(list_writes_only_the_entries_that_exist)
{
	DAT_PROVIDER_INFO info, *list[] = { &info, NULL };
	DAT_COUNT count;

	use_conf(CONF_LINE("a"));
	ck_assert_uint_eq(dat_registry_list_providers(8, &count, list), DAT_SUCCESS);
	ck_assert_int_eq(count, 1);
	ck_assert_str_eq(info.ia_name, "a");
}
END_TEST

START_TEST(list_returns_the_whole_key)
{
	DAT_PROVIDER_INFO first = { .ia_name = "x" }, fourth, spare,
			  *list[] = { &first, &spare, &spare, &fourth };
	DAT_COUNT count;

	use_conf(fourteen);
	ck_assert_uint_eq(dat_registry_list_providers(4, &count, list), DAT_SUCCESS);
	ck_assert_int_eq(count, 4);
	ck_assert_str_eq(first.ia_name, "a");
	ck_assert_uint_eq(first.dapl_version_major, DAT_VERSION_MAJOR);
	ck_assert_uint_eq(first.dapl_version_minor, DAT_VERSION_MINOR);
	ck_assert_uint_eq(first.is_thread_safe, DAT_FALSE);
	ck_assert_uint_eq(fourth.dapl_version_major, 5);
	ck_assert_uint_eq(fourth.dapl_version_minor, 7);
	ck_assert_uint_eq(fourth.is_thread_safe, DAT_TRUE);
}
END_TEST

START_TEST(list_refuses_bad_arguments)
{
	DAT_PROVIDER_INFO info = { .ia_name = "x" }, *list[] = { &info, NULL };
	DAT_COUNT count = -1;

	use_conf(fourteen);
	ck_assert_uint_eq(dat_registry_list_providers(1, NULL, list), BAD_ARG(2));
	ck_assert_uint_eq(dat_registry_list_providers(0, NULL, NULL), BAD_ARG(2));
	ck_assert_uint_eq(dat_registry_list_providers(1, &count, NULL), BAD_ARG(3));
	ck_assert_uint_eq(dat_registry_list_providers(2, &count, list), BAD_ARG(3));
	ck_assert_uint_eq(dat_registry_list_providers(-1, &count, list), BAD_ARG(1));
	ck_assert_int_eq(count, -1);
	ck_assert_str_eq(info.ia_name, "x");
}
END_TEST

START_TEST(list_has_each_key_once)
{
	use_conf(CONF_LINE("a") CONF_LINE("b") CONF_LINE("a") FOREIGN("a") CONF_LINE("c")
			 CONF_LINE("b"));
	ck_assert_str_eq(registry_list(8), "abac");
}
END_TEST

/*
 * Each of these lines stands between two good ones. Only the line itself is ignored, with one
 * message that has its number.
 */
static const char *const malformed[] = {
	"x u1.2 nonthreadsafe default lib dapl.1.2 p",
	"x u1.2 nonthreadsafe default lib dapl.1.2 p q r",
	"x u1.2x nonthreadsafe default lib dapl.1.2 p q",
	"x u1 nonthreadsafe default lib dapl.1.2 p q",
	"x u4294967296.2 nonthreadsafe default lib dapl.1.2 p q",
	"x u1.2 unsafe default lib dapl.1.2 p q",
	"x u1.2 nonthreadsafe fault lib dapl.1.2 p q",
	"x u1.2 nonthreadsafe default lib dapl p q",
	"x u1.2 nonthreadsafe default lib dapl1.2 p q",
	"x u1.2 nonthreadsafe default lib dapl.1.2 \"ib0 0 \"\"",
	"x u1.2 nonthreadsafe default lib dapl.1.2 \"ib0 0",
	"x\"y u1.2 nonthreadsafe default lib dapl.1.2 p q",
	"\"\" u1.2 nonthreadsafe default lib dapl.1.2 p q",
	"x u1.2 nonthreadsafe default lib \\",
	"\"",
	"x",
};

START_TEST(a_malformed_line_is_reported_and_ignored)
{
	int err_fd = stderr_capture();
	char *text;

	ck_assert_int_gt(asprintf(&text, CONF_LINE("a") "%s\n" CONF_LINE("b"), malformed[_i]), 0);
	use_conf(text);
	ck_assert_str_eq(registry_list(8), "ab");
	ck_assert_int_eq(captured_lines(err_fd), 1);
	ck_assert_ptr_nonnull(strstr(output_text(err_fd), ":2: "));
	free(text);
}
END_TEST

START_TEST(a_file_at_its_limits_is_accepted)
{
	char name[256], *library = malloc(100001), *text;
	int err_fd = stderr_capture();

	memset(name, 'n', 255);
	name[255] = '\0';
	memset(library, 'l', 100000);
	library[100000] = '\0';
	ck_assert_int_gt(asprintf(&text,
				  "# CRLF\r\n"
				  "a\tu1.2 \tnonthreadsafe\tdefault %s dapl.1.2 \"p\" \"\"\r\n"
				  "%s u1.2 nonthreadsafe default lib dapl.1.2 \"p\" \"\"\r\n"
				  "k k1.2 nonthreadsafe default lib dapl.1.2 \"p\" \"\"\r\n"
				  "o u1.2 nonthreadsafe nondefault lib dapl.1.2 \"p\" \"\"\r\n"
				  "z u1.2 nonthreadsafe default lib dapl.1.2 \"p\" \"\"",
				  library, name),
			 0);
	use_conf(text);
	ck_assert_str_eq(registry_list(8), "anz");
	ck_assert_str_eq(output_text(err_fd), "");
	free(library);
	free(text);
}
END_TEST

static DAT_RETURN open_name(const char *name, DAT_UINT32 major, DAT_UINT32 minor, DAT_BOOLEAN safe,
			    DAT_IA_HANDLE *ia)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;

	return dat_ia_openv((char *)name, 8, &evd, ia, major, minor, safe);
}

static const struct {
	const char *file;
	int messages;
} empty_files[] = { { "/nonexistent/dat.conf", 1 }, { "", 1 }, { "/", 1 }, { "/dev/null", 1 } };

START_TEST(a_file_that_is_missing_or_empty_has_no_entries)
{
	int err_fd = stderr_capture();
	DAT_COUNT count = -1;
	DAT_IA_HANDLE ia;

	setenv("DAT_OVERRIDE", empty_files[_i].file, 1);
	ck_assert_uint_eq(dat_registry_list_providers(0, &count, NULL), BAD_ARG(1));
	ck_assert_int_eq(count, 0);
	ck_assert_str_eq(registry_list(8), "");
	ck_assert_uint_eq(open_name("a", API_MAJOR, 0, DAT_FALSE, &ia), NO_NAME);
	ck_assert_int_eq(captured_lines(err_fd), empty_files[_i].messages);
}
END_TEST

/* Makes what is no file with lines. Returns its name. */
static const char *folder_make(void)
{
	return "/";
}

/* Nobody writes to it. Its name in the file system is gone. */
static const char *fifo_make(void)
{
	static char path[32];
	char name[] = "/tmp/test_registry.XXXXXX";
	int fd;

	ck_assert_ptr_nonnull(mkdtemp(name)); /* a name of its own */
	ck_assert_int_eq(rmdir(name), 0);
	ck_assert_int_eq(mkfifo(name, 0600), 0);
	fd = open(name, O_PATH);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(unlink(name), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return path;
}

static const char *device_make(void)
{
	return "/dev/zero";
}

static const char *sparse_file_make(void)
{
	static char path[32];

	ck_assert_int_eq(ftruncate(scratch_file(path), 100 << 20), 0);
	return path;
}

static const struct {
	const char *(*make)(void);
	const char *why;
} no_conf_files[] = {
	{ folder_make, "Is a directory" },
	{ fifo_make, "it is no regular file" },
	{ device_make, "it is no regular file" },
	{ sparse_file_make, "File too large" }, /* one line of 100 MB */
};

START_TEST(what_is_no_file_of_a_usual_size_is_refused_with_the_reason)
{
	const char *path = no_conf_files[_i].make();
	int err_fd = stderr_capture();
	struct rusage before, after;
	DAT_COUNT count = -1;
	char want[128];

	setenv("DAT_OVERRIDE", path, 1);
	snprintf(want, sizeof(want), "DAT_OVERRIDE: cannot read \"%s\": %s\n", path,
		 no_conf_files[_i].why);
	getrusage(RUSAGE_SELF, &before);
	ck_assert_uint_eq(dat_registry_list_providers(0, &count, NULL), BAD_ARG(1));
	getrusage(RUSAGE_SELF, &after);
	ck_assert_int_eq(count, 0);
	ck_assert_int_eq(captured_lines(err_fd), 1);
	ck_assert_ptr_nonnull(strstr(output_text(err_fd), want));
	ck_assert_int_lt(after.ru_maxrss - before.ru_maxrss, 8 << 10);
}
END_TEST

START_TEST(a_file_of_one_megabyte_is_read)
{
	static char text[(1 << 20) + 1];
	int err_fd = stderr_capture();

	memset(text, '#', 1 << 20);
	text[(1 << 20) - sizeof(CONF_LINE("z"))] = '\n';
	memcpy(text + (1 << 20) - strlen(CONF_LINE("z")), CONF_LINE("z"), strlen(CONF_LINE("z")));
	use_conf(text);
	ck_assert_str_eq(registry_list(8), "z");
	ck_assert_str_eq(output_text(err_fd), "");
}
END_TEST

/* Programs that try names from a list of their own are told once. */
START_TEST(an_unknown_name_is_told_with_those_that_the_file_has)
{
	int err_fd = stderr_capture();
	char want[512];
	DAT_IA_HANDLE ia;

	use_conf(CONF_LINE("a") FOREIGN("b") FOREIGN("c") CONF_LINE(
		"c") "a " API_VERSION " threadsafe default libnone.so d.1.2 \"\" \"\"\n");
	ck_assert_uint_eq(open_name("x", API_MAJOR, 0, DAT_FALSE, &ia), NO_NAME);
	ck_assert_uint_eq(open_name("y", API_MAJOR, 0, DAT_FALSE, &ia), NO_NAME);
	ck_assert_int_eq(captured_lines(err_fd), 1);
	snprintf(want, sizeof(want), "x: %s has no such name; it has a, c\n",
		 getenv("DAT_OVERRIDE"));
	ck_assert_ptr_nonnull(strstr(output_text(err_fd), want));
}
END_TEST

/* A terminal would obey them. Other characters of UTF-8 stay. */
START_TEST(control_characters_of_a_name_become_question_marks)
{
	int err_fd = stderr_capture();
	DAT_IA_HANDLE ia;

	use_conf(CONF_LINE("r\033[31m\177") CONF_LINE("\xc2\x9bm") CONF_LINE("\xc3\xa9\xc2\xa0"));
	ck_assert_uint_eq(open_name("x\r", API_MAJOR, 0, DAT_FALSE, &ia), NO_NAME);
	ck_assert_int_eq(captured_lines(err_fd), 1);
	ck_assert_ptr_nonnull(strstr(output_text(err_fd), ": x?: "));
	ck_assert_ptr_nonnull(
		strstr(output_text(err_fd), " it has r?[31m?, ??m, \xc3\xa9\xc2\xa0\n"));
}
END_TEST

/* More of them than the message has room for. */
START_TEST(of_very_many_names_the_first_are_told)
{
	int err_fd = stderr_capture(), length = 0;
	char conf[80 * 400];
	DAT_IA_HANDLE ia;

	for (int i = 0; i < 80; i++)
		length += snprintf(conf + length, sizeof(conf) - (size_t)length,
				   CONF_LINE("%0200d"), i);
	use_conf(conf);
	ck_assert_uint_eq(open_name("x", API_MAJOR, 0, DAT_FALSE, &ia), NO_NAME);
	ck_assert_int_eq(captured_lines(err_fd), 1);
	ck_assert_ptr_nonnull(strstr(output_text(err_fd), "0001, 0000"));
	ck_assert_ptr_nonnull(strstr(output_text(err_fd), "0002, ...\n"));
}
END_TEST

/* A program meets the file of the other edition: one line says so, for however many names. */
START_TEST(a_file_for_another_version_only_is_told_once)
{
	char conf[512], want[64];
	int err_fd = stderr_capture();
	DAT_IA_HANDLE ia;

	snprintf(conf, sizeof(conf), "%s%s", FOREIGN("b") FOREIGN("c"), _i ? CONF_LINE("a") : "");
	snprintf(want, sizeof(want), "b: no line of dat.conf is for DAT %d\n", API_MAJOR);
	use_conf(conf);
	ck_assert_uint_eq(open_name("b", API_MAJOR, 0, DAT_FALSE, &ia), NO_MAJOR);
	ck_assert_uint_eq(open_name("c", API_MAJOR, 0, DAT_FALSE, &ia), NO_MAJOR);
	ck_assert_uint_eq(open_name("x", API_MAJOR, 0, DAT_FALSE, &ia), NO_NAME);
	ck_assert_int_eq(captured_lines(err_fd), 1);
	ck_assert_ptr_nonnull(strstr(output_text(err_fd), _i ? "x: " : want));
}
END_TEST

START_TEST(dbg_type_0_silences_errors)
{
	int err_fd = stderr_capture();

	setenv("DAT_DBG_TYPE", "0", 1);
	use_conf("bad line\n" CONF_LINE("a"));
	ck_assert_str_eq(registry_list(8), "a");
	ck_assert_str_eq(output_text(err_fd), "");
}
END_TEST

START_TEST(dbg_dest_2_prints_nothing_on_stderr)
{
	int err_fd = stderr_capture();

	setenv("DAT_DBG_DEST", "0x2", 1);
	use_conf("bad line\n" CONF_LINE("a"));
	ck_assert_str_eq(registry_list(8), "a");
	ck_assert_str_eq(output_text(err_fd), "");
}
END_TEST

/* ---- registered providers: the table number n opens the object number n ---- */

#define TABLES 4

static struct registry_object objects[TABLES];

static char opened_name[DAT_NAME_MAX_LENGTH];
static int opened_aware, opened;

#define OPEN(n)                                                                                    \
	static DAT_RETURN open_##n(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *evd,   \
				   DAT_IA_HANDLE *ia)                                              \
	{                                                                                          \
		int datx_ia_open_ro_aware(void);                                                   \
                                                                                                   \
		(void)qlen;                                                                        \
		(void)evd;                                                                         \
		opened_aware = datx_ia_open_ro_aware();                                            \
		strcpy(opened_name, name);                                                         \
		opened = n;                                                                        \
		*ia = &objects[n];                                                                 \
		return DAT_SUCCESS;                                                                \
	}
OPEN(0)
OPEN(1)
OPEN(2)
OPEN(3)

static DAT_RETURN table_close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS flags)
{
	(void)ia;
	(void)flags;
	return DAT_SUCCESS;
}

static DAT_PROVIDER tables[TABLES] = {
	{ .ia_open_func = open_0, .ia_close_func = table_close },
	{ .ia_open_func = open_1, .ia_close_func = table_close },
	{ .ia_open_func = open_2, .ia_close_func = table_close },
	{ .ia_open_func = open_3, .ia_close_func = table_close },
};

static DAT_RETURN table_add(int table, const char *name, DAT_UINT32 major, DAT_UINT32 minor,
			    DAT_BOOLEAN safe)
{
	DAT_PROVIDER_INFO info = { "", major, minor, safe };

	strcpy(info.ia_name, name);
	objects[table].provider = &tables[table];
	return dat_registry_add_provider(&tables[table], &info);
}

/* The number of the table that an open used, or its status' subtype, negated. */
static int table_opened(const char *name, DAT_UINT32 major, DAT_UINT32 minor, DAT_BOOLEAN safe)
{
	DAT_IA_HANDLE ia = &ia;
	DAT_RETURN ret = open_name(name, major, minor, safe, &ia);

	if (ret != DAT_SUCCESS) {
		ck_assert_uint_eq(DAT_GET_TYPE(ret), DAT_PROVIDER_NOT_FOUND);
		ck_assert_uint_eq(ret & DAT_CLASS_ERROR, DAT_CLASS_ERROR);
		ck_assert_ptr_null(ia);
		return -(int)DAT_GET_SUBTYPE(ret);
	}
	ck_assert_uint_eq(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	return opened;
}

START_TEST(add_refuses_bad_arguments)
{
	DAT_PROVIDER_INFO info = { "a", API_MAJOR, 2, DAT_FALSE };

	use_conf("");
	ck_assert_uint_eq(dat_registry_add_provider(NULL, &info), BAD_ARG(1));
	ck_assert_uint_eq(dat_registry_add_provider(&tables[0], NULL), BAD_ARG(2));
	ck_assert_uint_eq(table_add(0, "", API_MAJOR, 2, DAT_FALSE), BAD_ARG(2));
	memset(info.ia_name, 'a', sizeof(info.ia_name));
	ck_assert_uint_eq(dat_registry_add_provider(&tables[0], &info), BAD_ARG(2));
	info.ia_name[255] = '\0';
	ck_assert_uint_eq(dat_registry_add_provider(&tables[0], &info), DAT_SUCCESS);
}
END_TEST

START_TEST(remove_needs_the_exact_key)
{
	DAT_PROVIDER_INFO info = { "a", API_MAJOR, 2, DAT_FALSE };

	use_conf("");
	ck_assert_uint_eq(table_add(0, "a", API_MAJOR, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_uint_eq(dat_registry_remove_provider(NULL, &info), BAD_ARG(1));
	ck_assert_uint_eq(dat_registry_remove_provider(&tables[0], NULL), BAD_ARG(2));
	ck_assert_uint_eq(registry_remove("b", API_MAJOR, 2, DAT_FALSE), NO_NAME);
	ck_assert_uint_eq(registry_remove("a", API_MAJOR, 1, DAT_FALSE), NO_NAME);
	ck_assert_uint_eq(registry_remove("a", API_MAJOR, 3, DAT_FALSE), NO_NAME);
	ck_assert_uint_eq(registry_remove("a", API_MAJOR, 2, DAT_TRUE), NO_NAME);
	ck_assert_uint_eq(registry_remove("a", API_MAJOR, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_uint_eq(registry_remove("a", API_MAJOR, 2, DAT_FALSE), NO_NAME);
}
END_TEST

/*
 * Their table may be shorter, and has other calls: nothing of it is read. The process has no
 * registry for them.
 */
START_TEST(a_provider_of_the_other_edition_is_refused)
{
	DAT_PROVIDER *unreadable = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const DAT_PROVIDER_INFO info = { "a", FOREIGN_MAJOR, FOREIGN_MINOR, DAT_FALSE };
	int err_fd = stderr_capture();

	use_conf("");
	ck_assert_ptr_ne(unreadable, MAP_FAILED);
	ck_assert_uint_eq(dat_registry_add_provider(unreadable, &info), BAD_ARG(2));
	ck_assert_int_eq(captured_lines(err_fd), 1);
	ck_assert_ptr_nonnull(strstr(output_text(err_fd), "a " FOREIGN_VERSION ": "));
	ck_assert_uint_eq(dat_registry_remove_provider(unreadable, &info), BAD_ARG(2));
	ck_assert_int_eq(captured_lines(err_fd), 2);
	ck_assert_int_eq(table_opened("a", FOREIGN_MAJOR, FOREIGN_MINOR, DAT_FALSE),
			 -(int)DAT_NAME_NOT_REGISTERED);
}
END_TEST

START_TEST(a_name_may_have_many_keys)
{
	use_conf("");
	ck_assert_uint_eq(table_add(0, "a", API_MAJOR, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_uint_eq(table_add(1, "a", API_MAJOR, 2, DAT_FALSE), ALREADY);
	ck_assert_uint_eq(table_add(1, "a", API_MAJOR, 2, DAT_TRUE), DAT_SUCCESS);
	ck_assert_uint_eq(table_add(2, "a", API_MAJOR, 3, DAT_FALSE), DAT_SUCCESS);
	ck_assert_uint_eq(table_add(3, "a", API_MAJOR, 1, DAT_FALSE), DAT_SUCCESS);
	ck_assert_int_eq(table_opened("a", API_MAJOR, 2, DAT_FALSE), 0);
	ck_assert_int_eq(table_opened("a", API_MAJOR, 2, DAT_TRUE), 1);
	ck_assert_int_eq(table_opened("a", API_MAJOR, 3, DAT_FALSE), 2);
	ck_assert_int_eq(table_opened("a", API_MAJOR, 1, DAT_FALSE), 3);
	ck_assert_uint_eq(registry_remove("a", API_MAJOR, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_uint_eq(table_add(0, "a", API_MAJOR, 2, DAT_FALSE), DAT_SUCCESS);
}
END_TEST

START_TEST(open_takes_the_smallest_sufficient_minor)
{
	use_conf("");
	ck_assert_uint_eq(table_add(0, "a", API_MAJOR, 9, DAT_FALSE), DAT_SUCCESS);
	ck_assert_uint_eq(table_add(1, "a", API_MAJOR, 4, DAT_FALSE), DAT_SUCCESS);
	ck_assert_uint_eq(table_add(2, "a", API_MAJOR, 6, DAT_FALSE), DAT_SUCCESS);
	ck_assert_int_eq(table_opened("a", API_MAJOR, 0, DAT_FALSE), 1);
	ck_assert_int_eq(table_opened("a", API_MAJOR, 4, DAT_FALSE), 1);
	ck_assert_int_eq(table_opened("a", API_MAJOR, 5, DAT_FALSE), 2);
	ck_assert_int_eq(table_opened("a", API_MAJOR, 7, DAT_FALSE), 0);
	ck_assert_int_eq(table_opened("a", API_MAJOR, 10, DAT_FALSE), -(int)DAT_MINOR_NOT_FOUND);
}
END_TEST

START_TEST(the_subtype_names_the_first_field_without_a_match)
{
	/* One candidate is registered, one in the file. */
	use_conf("f u3.1 threadsafe default libnone.so dapl.1.2 \"p\" \"\"\n");
	ck_assert_uint_eq(table_add(0, "a", API_MAJOR, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_int_eq(table_opened("A", API_MAJOR, 2, DAT_FALSE), -(int)DAT_NAME_NOT_REGISTERED);
	ck_assert_int_eq(table_opened("", API_MAJOR, 2, DAT_FALSE), -(int)DAT_NAME_NOT_REGISTERED);
	ck_assert_int_eq(table_opened("a", 7, 9, DAT_TRUE), -(int)DAT_MAJOR_NOT_FOUND);
	ck_assert_int_eq(table_opened("a", API_MAJOR, 3, DAT_TRUE), -(int)DAT_MINOR_NOT_FOUND);
	ck_assert_int_eq(table_opened("a", API_MAJOR, 2, DAT_TRUE),
			 -(int)DAT_THREAD_SAFETY_NOT_FOUND);
	ck_assert_int_eq(table_opened("f", API_MAJOR, 2, DAT_FALSE), -(int)DAT_MAJOR_NOT_FOUND);
	ck_assert_int_eq(table_opened("f", 3, 2, DAT_FALSE), -(int)DAT_MINOR_NOT_FOUND);
	ck_assert_int_eq(table_opened("f", 3, 1, DAT_FALSE), -(int)DAT_THREAD_SAFETY_NOT_FOUND);
	/*
	 * One provider matches name and minor version, the other name and thread safety. The
	 * fields are compared in turn, each among the providers that matched the ones before.
	 */
	ck_assert_uint_eq(table_add(1, "a", API_MAJOR, 1, DAT_TRUE), DAT_SUCCESS);
	ck_assert_int_eq(table_opened("a", API_MAJOR, 2, DAT_TRUE),
			 -(int)DAT_THREAD_SAFETY_NOT_FOUND);
}
END_TEST

START_TEST(remove_is_refused_while_an_ia_is_open)
{
	DAT_IA_HANDLE first, second;

	use_conf("");
	ck_assert_uint_eq(table_add(0, "a", API_MAJOR, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_uint_eq(open_name("a", API_MAJOR, 2, DAT_FALSE, &first), DAT_SUCCESS);
	objects[1].provider = &tables[0];
	ck_assert_uint_eq(open_name("a", API_MAJOR, 2, DAT_FALSE, &second), DAT_SUCCESS);
	ck_assert_uint_eq(registry_remove("a", API_MAJOR, 2, DAT_FALSE), PROVIDER_IN_USE);
	ck_assert_uint_eq(dat_ia_close(first, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq(registry_remove("a", API_MAJOR, 2, DAT_FALSE), PROVIDER_IN_USE);
	ck_assert_uint_eq(dat_ia_close(second, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq(registry_remove("a", API_MAJOR, 2, DAT_FALSE), DAT_SUCCESS);
}
END_TEST

START_TEST(list_has_no_registered_names)
{
	use_conf(CONF_LINE("f"));
	ck_assert_uint_eq(table_add(0, "a", API_MAJOR, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_str_eq(registry_list(8), "f");
}
END_TEST

/* ---- the prefix by which a consumer accepts relaxed ordering ---- */

START_TEST(the_prefix_is_removed_from_the_name)
{
	use_conf("");
	ck_assert_uint_eq(table_add(0, "a", API_MAJOR, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_int_eq(table_opened("RO_AWARE_a", API_MAJOR, 2, DAT_FALSE), 0);
	ck_assert_str_eq(opened_name, "a");
	ck_assert_int_ne(opened_aware, 0);
	ck_assert_int_eq(table_opened("a", API_MAJOR, 2, DAT_FALSE), 0);
	ck_assert_str_eq(opened_name, "a");
	ck_assert_int_eq(opened_aware, 0);
	ck_assert_int_eq(table_opened("RO_AWARE_b", API_MAJOR, 2, DAT_FALSE),
			 -(int)DAT_NAME_NOT_REGISTERED);
	ck_assert_int_eq(table_opened("RO_AWARE_", API_MAJOR, 2, DAT_FALSE),
			 -(int)DAT_NAME_NOT_REGISTERED);
	ck_assert_int_eq(table_opened("ro_aware_a", API_MAJOR, 2, DAT_FALSE),
			 -(int)DAT_NAME_NOT_REGISTERED);
}
END_TEST

START_TEST(ro_aware_is_set_only_during_the_open)
{
	int datx_ia_open_ro_aware(void);

	use_conf("");
	ck_assert_uint_eq(table_add(0, "a", API_MAJOR, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_int_eq(datx_ia_open_ro_aware(), 0);
	ck_assert_int_eq(table_opened("RO_AWARE_a", API_MAJOR, 2, DAT_FALSE), 0);
	ck_assert_int_eq(datx_ia_open_ro_aware(), 0);
}
END_TEST

START_TEST(a_registered_name_may_begin_with_the_prefix)
{
	stderr_capture(); /* there is no library for the name in the file */
	use_conf(LINE("RO_AWARE_f", API_MINOR("2"), "libnone.so", "p"));
	ck_assert_uint_eq(table_add(0, "a", API_MAJOR, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_uint_eq(table_add(1, "RO_AWARE_a", API_MAJOR, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_uint_eq(table_add(2, "f", API_MAJOR, 2, DAT_FALSE), DAT_SUCCESS);
	ck_assert_int_eq(table_opened("RO_AWARE_a", API_MAJOR, 2, DAT_FALSE), 1);
	ck_assert_str_eq(opened_name, "RO_AWARE_a");
	ck_assert_int_eq(opened_aware, 0);
	ck_assert_int_eq(table_opened("RO_AWARE_RO_AWARE_a", API_MAJOR, 2, DAT_FALSE), 1);
	ck_assert_int_ne(opened_aware, 0);
	ck_assert_int_eq(table_opened("RO_AWARE_f", API_MAJOR, 2, DAT_FALSE),
			 -(int)DAT_NAME_NOT_REGISTERED);
}
END_TEST

#if DAT_EDITION == 2
START_TEST(no_two_names_are_related)
{
	DAT_HA_RELATIONSHIP answer = DAT_HA_UNKNOWN;

	use_conf(CONF_LINE("a") CONF_LINE("b"));
	ck_assert_uint_eq(dat_registry_providers_related(NULL, (char *)"b", &answer), BAD_ARG(1));
	ck_assert_uint_eq(dat_registry_providers_related((char *)"a", NULL, &answer), BAD_ARG(2));
	ck_assert_uint_eq(dat_registry_providers_related((char *)"a", (char *)"b", NULL),
			  BAD_ARG(3));
	ck_assert_uint_eq(dat_registry_providers_related((char *)"a", (char *)"c", &answer),
			  NO_NAME);
	ck_assert_uint_eq(dat_registry_providers_related((char *)"c", (char *)"b", &answer),
			  NO_NAME);
	ck_assert_int_eq(answer, DAT_HA_UNKNOWN);
	ck_assert_uint_eq(dat_registry_providers_related((char *)"a", (char *)"b", &answer),
			  DAT_SUCCESS);
	ck_assert_int_eq(answer, DAT_HA_FALSE);
}
END_TEST
#endif

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("registry");

	tcase_add_test(cases, list_with_size_0_returns_the_size_needed);
	tcase_add_test(cases, list_keeps_the_order_of_the_file);
	tcase_add_test(cases, list_writes_only_the_entries_that_exist);
	tcase_add_test(cases, list_returns_the_whole_key);
	tcase_add_test(cases, list_refuses_bad_arguments);
	tcase_add_test(cases, list_has_each_key_once);
	tcase_add_loop_test(cases, a_malformed_line_is_reported_and_ignored, 0, COUNT(malformed));
	tcase_add_test(cases, a_file_at_its_limits_is_accepted);
	tcase_add_loop_test(cases, a_file_that_is_missing_or_empty_has_no_entries, 0,
			    COUNT(empty_files));
	tcase_add_loop_test(cases, what_is_no_file_of_a_usual_size_is_refused_with_the_reason, 0,
			    COUNT(no_conf_files));
	tcase_add_test(cases, a_file_of_one_megabyte_is_read);
	tcase_add_test(cases, an_unknown_name_is_told_with_those_that_the_file_has);
	tcase_add_test(cases, control_characters_of_a_name_become_question_marks);
	tcase_add_test(cases, of_very_many_names_the_first_are_told);
	tcase_add_loop_test(cases, a_file_for_another_version_only_is_told_once, 0, 2);
	tcase_add_test(cases, dbg_type_0_silences_errors);
	tcase_add_test(cases, dbg_dest_2_prints_nothing_on_stderr);
	tcase_add_test(cases, add_refuses_bad_arguments);
	tcase_add_test(cases, remove_needs_the_exact_key);
	tcase_add_test(cases, a_provider_of_the_other_edition_is_refused);
	tcase_add_test(cases, a_name_may_have_many_keys);
	tcase_add_test(cases, open_takes_the_smallest_sufficient_minor);
	tcase_add_test(cases, the_subtype_names_the_first_field_without_a_match);
	tcase_add_test(cases, remove_is_refused_while_an_ia_is_open);
	tcase_add_test(cases, list_has_no_registered_names);
	tcase_add_test(cases, the_prefix_is_removed_from_the_name);
	tcase_add_test(cases, ro_aware_is_set_only_during_the_open);
	tcase_add_test(cases, a_registered_name_may_begin_with_the_prefix);
#if DAT_EDITION == 2
	tcase_add_test(cases, no_two_names_are_related);
#endif
	return run_cases(argc, argv);
}
